// SPDX-License-Identifier: Apache-2.0
// Prints operations, regions, functions and modules as MLIR prints them.
//
//   %0 = stablehlo.add %arg0, %cst : tensor<4xf32> loc(#loc2)                                       the pretty form
//   %0 = "stablehlo.add"(%arg0, %cst) <{..}> ({regions}) {..} : (tensor<4xf32>, ..) -> tensor<4xf32>   the generic one
//
// The pretty forms are those of the rows of mlir/dialect.def (see parse_pretty.c for their language) and of functions
// here for the operations with special forms. The generic form only needs to know which attributes are properties,
// <{..}>, and which are others, {..}.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/text/printer.h"

static void print_indent(Printer *printer) {
    for (int i = 0; i < printer->indent; i++) hlo_text_string(printer->text, "  ");
}

static void print_operands(Printer *printer, const MlirOperation *operation, int64_t first, const char *after) {
    assert(first >= 0 && after);
    for (int64_t i = first; i < operation->operand_count; i++) {
        if (i > first) hlo_text_string(printer->text, ", ");
        print_value(printer, operation->operands[i]);
    }
    hlo_text_string(printer->text, after);
}

// ---------------------------------------------------------------------------------------------------------------------
// Types after the colon

static void print_value_types(Printer *printer, MlirValue *const *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (i) hlo_text_string(printer->text, ", ");
        print_type(printer, values[i]->type);
    }
}

// t, or (t, t).
static void print_result_types(Printer *printer, const MlirOperation *operation) {
    bool one = operation->result_count == 1;
    if (!one) hlo_text_char(printer->text, '(');
    print_value_types(printer, operation->results, operation->result_count);
    if (!one) hlo_text_char(printer->text, ')');
}

static void print_function_type(Printer *printer, const MlirOperation *operation) {
    hlo_text_char(printer->text, '(');
    print_value_types(printer, operation->operands, operation->operand_count);
    hlo_text_string(printer->text, ") -> ");
    print_result_types(printer, operation);
}

// True if the operands from `first` on have the type of the result.
static bool all_same(const MlirOperation *operation, int64_t first) {
    for (int64_t i = first; i < operation->operand_count; i++) {
        if (!mlir_type_equal(operation->operands[i]->type, operation->results[0]->type)) return false;
    }
    return true;
}

// True if the operands are the real and the imaginary part of the result: the short form then suffices.
static bool is_complex_pair(const MlirOperation *operation) {
    const HloShape *result = operation->results[0]->type->shape;
    for (int64_t i = 0; i < operation->operand_count; i++) {
        const HloShape *part = operation->operands[i]->type->shape;
        if (part->type != hlo_type_real_part(result->type) || !hlo_shape_equal(part, result, HLO_COMPARE_DIMS_ONLY)) {
            return false;
        }
    }
    return true;
}

// MLIR's printers omit what a reader can infer, and fall back on the whole function type where it cannot; both must
// match byte for byte.
static void print_types_of(Printer *printer, const MlirOperation *operation, MlirOpTypes types) {
    bool by_operands = types == MLIR_TYPES_PAIRS || types == MLIR_TYPES_RETURN;
    if (by_operands && operation->operand_count == 0) {
        if (types == MLIR_TYPES_PAIRS) hlo_text_string(printer->text, " ()");
        return;
    }
    hlo_text_string(printer->text, " : ");
    bool result_says_all = types == MLIR_TYPES_RESULT || (types == MLIR_TYPES_SAME && all_same(operation, 0)) ||
                           (types == MLIR_TYPES_COMPLEX && is_complex_pair(operation));
    if (result_says_all) {
        print_type(printer, operation->results[0]->type);
    } else if (types == MLIR_TYPES_SELECT && all_same(operation, 1)) {
        print_type(printer, operation->operands[0]->type);
        hlo_text_string(printer->text, ", ");
        print_type(printer, operation->results[0]->type);
    } else if (by_operands) {
        print_value_types(printer, operation->operands, operation->operand_count);
    } else if (types == MLIR_TYPES_ARROW) {
        print_value_types(printer, operation->operands, operation->operand_count);
        hlo_text_string(printer->text, " -> ");
        print_result_types(printer, operation);
    } else {
        print_function_type(printer, operation);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Pretty forms of the table

static const HloInts *ints_of(const MlirOperation *operation, const char *name) {
    const MlirAttribute *attribute = mlir_attribute(operation, name);
    return attribute ? &attribute->ints : NULL;
}

static void print_slice(Printer *printer, const MlirOperation *operation) {
    const HloInts *starts = ints_of(operation, "start_indices"), *limits = ints_of(operation, "limit_indices"),
                  *strides = ints_of(operation, "strides");
    hlo_text_char(printer->text, '[');
    for (int64_t i = 0; i < starts->count; i++) {
        if (i) hlo_text_string(printer->text, ", ");
        hlo_text_format(printer->text, "%lld:%lld", (long long)starts->items[i], (long long)limits->items[i]);
        if (strides->items[i] != 1) hlo_text_format(printer->text, ":%lld", (long long)strides->items[i]);
    }
    hlo_text_char(printer->text, ']');
}

static void print_padding(Printer *printer, const HloLiteral *pairs) {
    assert(pairs);
    hlo_text_char(printer->text, '[');
    for (int64_t i = 0; i < pairs->shape->dims[0]; i++) {
        hlo_text_format(printer->text, "%s[%lld, %lld]", i ? ", " : "", (long long)hlo_literal_get_int64(pairs, 2 * i),
                        (long long)hlo_literal_get_int64(pairs, 2 * i + 1));
    }
    hlo_text_char(printer->text, ']');
}

static void print_flags(Printer *printer, HloInts flags) {
    hlo_text_char(printer->text, '[');
    for (int64_t i = 0; i < flags.count; i++) {
        hlo_text_format(printer->text, "%s%s", i ? ", " : "", flags.items[i] ? "true" : "false");
    }
    hlo_text_char(printer->text, ']');
}

// Attributes that are missing have their default, and are not printed; in the order of AssemblyFormat.cpp's
// printWindowAttributes.
static void print_window(Printer *printer, const MlirOperation *operation) {
    static const char *const names[] = {"window_strides", "padding", "lhs_dilation", "rhs_dilation", "window_reversal"};
    static const char *const words[] = {"stride", "pad", "lhs_dilate", "rhs_dilate", "reverse"};
    const char *separator = "";
    for (size_t i = 0; i < HLO_COUNT_OF(names); i++) {
        const MlirAttribute *attribute = mlir_attribute(operation, names[i]);
        if (!attribute) continue;
        hlo_text_format(printer->text, "%s%s = ", separator, words[i]);
        separator = ", ";
        if (attribute->kind == MLIR_TENSOR) {
            print_padding(printer, attribute->literal);
        } else if (strcmp(words[i], "reverse") == 0) {
            print_flags(printer, attribute->ints);
        } else {
            print_int_list(printer, attribute->ints);
        }
    }
}

// Batching dimensions are omitted if there are none.
static void print_dot(Printer *printer, const MlirOperation *operation) {
    const HloInts *batch = ints_of(operation, "lhs_batching_dimensions");
    if (batch->count) {
        hlo_text_string(printer->text, "batching_dims = ");
        print_int_list(printer, *batch);
        hlo_text_string(printer->text, " x ");
        print_int_list(printer, *ints_of(operation, "rhs_batching_dimensions"));
        hlo_text_string(printer->text, ", ");
    }
    hlo_text_string(printer->text, "contracting_dims = ");
    print_int_list(printer, *ints_of(operation, "lhs_contracting_dimensions"));
    hlo_text_string(printer->text, " x ");
    print_int_list(printer, *ints_of(operation, "rhs_contracting_dimensions"));
}

// The word of an enumerated attribute.
static void print_enum_word(Printer *printer, const MlirAttribute *attribute) {
    size_t length = 0;
    const char *words = mlir_words(attribute->string, strlen(attribute->string));
    const char *word = mlir_number_word(words, attribute->integer, &length);
    if (word) hlo_text_append(printer->text, word, length);
}

static void print_precision(Printer *printer, const MlirOperation *operation) {
    const MlirAttribute *list = mlir_attribute(operation, "precision_config");
    if (!list) return;
    hlo_text_string(printer->text, ", precision = [");
    for (int64_t i = 0; i < list->count; i++) {
        if (i) hlo_text_string(printer->text, ", ");
        print_enum_word(printer, list->items[i]);
    }
    hlo_text_char(printer->text, ']');
}

// The syntaxes that parse_pretty.c's parse_special() reads.
static void print_special(Printer *printer, const MlirOperation *operation, const char *name) {
    if (strncmp(name, "slice", 5) == 0) print_slice(printer, operation);
    if (strncmp(name, "window", 6) == 0) print_window(printer, operation);
    if (strncmp(name, "dot", 3) == 0) print_dot(printer, operation);
    if (strncmp(name, "precision", 9) == 0) print_precision(printer, operation);
    if (strncmp(name, "conv", 4) == 0) print_convolution_dimensions(printer, operation);
    if (strncmp(name, "format", 6) == 0) {
        hlo_text_format(printer->text, "e%lldm%lld", (long long)mlir_attribute(operation, "exponent_bits")->integer,
                        (long long)mlir_attribute(operation, "mantissa_bits")->integer);
    }
    if (strncmp(name, "algorithm", 9) == 0 && mlir_attribute(operation, "lhs_precision_type")) {
        hlo_text_string(printer->text, ", algorithm = ");
        print_fields(printer, operation, "dot_algorithm", 13);
    }
}

static void print_bare(Printer *printer, const MlirAttribute *attribute) {
    if (attribute->kind == MLIR_ENUM) {
        print_enum_word(printer, attribute);
    } else if (attribute->kind == MLIR_INTS) {
        print_int_list(printer, attribute->ints);
    } else if (attribute->kind == MLIR_INTEGER) {
        hlo_text_int64(printer->text, attribute->integer);
    } else {
        print_attribute(printer, attribute);
    }
}

// Prints the value of the directive after a `$`, and returns the directive's end. *next counts the operands that have
// been printed.
static const char *print_directive(Printer *printer, const MlirOperation *operation, const char *at, int64_t *next) {
    char mark = strchr("?@*", *at) ? *at++ : 0;
    size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789");
    if (!mark && length == 1 && *at == '1') {
        print_value(printer, operation->operands[(*next)++]);
    } else if (!mark && length == 1 && *at == 'n') {
        print_operands(printer, operation, *next, "");
    } else if (!mark && length == 1 && *at == 'c') {
        print_operands(printer, operation, *next, ",");
    } else if (mark == '*') {
        print_special(printer, operation, at);
    } else {
        const char *name = hlo_arena_string(printer->arena, at, length);
        const MlirAttribute *attribute = mlir_attribute(operation, name);
        if (mark == '?' && !attribute) return at + length;
        if (mark == '?') hlo_text_string(printer->text, ", ");
        if (mark == '?' && attribute->kind != MLIR_ENUM) hlo_text_format(printer->text, "%s = ", name);
        if (mark == '@') {
            hlo_text_char(printer->text, '@');
            print_word(printer, attribute->string);
        } else {
            print_bare(printer, attribute);
        }
    }
    return at + length;
}

static void print_pretty(Printer *printer, const MlirOperation *operation, const MlirOpInfo *info) {
    const char *form = info->pretty;
    int64_t next = 0;
    bool nothing = strcmp(form, "$n") == 0 && operation->operand_count == 0;
    if (*form && *form != '(' && !nothing) hlo_text_char(printer->text, ' ');
    while (*form) {
        if (*form == '$') {
            form = print_directive(printer, operation, form + 1, &next);
        } else {
            hlo_text_char(printer->text, *form++);
        }
    }
    print_dictionary(printer, operation, PRINT_NOT_SAID, " {", "}");
    print_types_of(printer, operation, info->types);
}

// ---------------------------------------------------------------------------------------------------------------------
// Regions

static void print_block(Printer *printer, const MlirBlock *block, bool in_function) {
    printer->indent++;
    for (int64_t i = 0; i < block->operation_count; i++) print_operation(printer, block->operations[i], in_function);
    printer->indent--;
}

static void print_argument(Printer *printer, const MlirValue *argument) {
    print_value(printer, argument);
    hlo_text_string(printer->text, ": ");
    print_type(printer, argument->type);
    print_argument_location(printer, argument->location);
}

// {, the operations, and }. Arguments, if they are printed, are in a label.
static void print_region(Printer *printer, const MlirRegion *region, bool with_arguments, bool in_function) {
    hlo_text_string(printer->text, "{\n");
    const MlirBlock *block = &region->blocks[0];
    if (with_arguments && block->argument_count) {
        print_indent(printer);
        hlo_text_string(printer->text, "^bb0(");
        for (int64_t i = 0; i < block->argument_count; i++) {
            if (i) hlo_text_string(printer->text, ", ");
            print_argument(printer, block->arguments[i]);
        }
        hlo_text_string(printer->text, "):\n");
    }
    print_block(printer, block, in_function);
    print_indent(printer);
    hlo_text_char(printer->text, '}');
}

static void print_generic(Printer *printer, const MlirOperation *operation) {
    hlo_text_char(printer->text, '(');
    print_operands(printer, operation, 0, ")");
    print_dictionary(printer, operation, PRINT_OWN, " <{", "}>");
    for (int64_t r = 0; r < operation->region_count; r++) {
        hlo_text_string(printer->text, r ? ", " : " (");
        print_region(printer, &operation->regions[r], true, false);
    }
    if (operation->region_count) hlo_text_char(printer->text, ')');
    print_dictionary(printer, operation, PRINT_OTHER, " {", "}");
    hlo_text_string(printer->text, " : ");
    print_function_type(printer, operation);
}

// ---------------------------------------------------------------------------------------------------------------------
// Ops with forms of their own

static void print_constant(Printer *printer, const MlirOperation *operation) {
    // The value is printed before the type: it is not part of the dictionary.
    print_dictionary(printer, operation, PRINT_OTHER, " {", "}");
    hlo_text_char(printer->text, ' ');
    print_attribute(printer, mlir_attribute(operation, "value"));
}

// The arguments are named once, before the regions; both regions have the body's names.
static void print_while(Printer *printer, const MlirOperation *operation) {
    assert(operation->region_count == 2);
    const MlirBlock *body = &operation->regions[1].blocks[0];
    hlo_text_char(printer->text, '(');
    for (int64_t i = 0; i < operation->operand_count; i++) {
        if (i) hlo_text_string(printer->text, ", ");
        print_value(printer, body->arguments[i]);
        hlo_text_string(printer->text, " = ");
        print_value(printer, operation->operands[i]);
    }
    hlo_text_char(printer->text, ')');
    if (operation->operand_count) {
        hlo_text_string(printer->text, " : ");
        print_value_types(printer, operation->operands, operation->operand_count);
    }
    print_dictionary(printer, operation, PRINT_OTHER, " attributes {", "}");
    hlo_text_char(printer->text, '\n');
    print_indent(printer);
    hlo_text_string(printer->text, "cond ");
    print_region(printer, &operation->regions[0], false, false);
    hlo_text_string(printer->text, " do ");
    print_region(printer, &operation->regions[1], false, false);
}

// AssemblyFormat.cpp's conditions: one input, and a body of one commutative operation on the arguments in order.
bool print_is_short_reduction(const MlirOperation *operation) {
    if (strcmp(operation->name, "stablehlo.reduce") != 0) return false;
    const MlirBlock *block = &operation->regions[0].blocks[0];
    if (block->operation_count != 2 || block->argument_count != 2 || operation->operand_count != 2) return false;
    const MlirOperation *inner = block->operations[0], *end = block->operations[1];
    if (!mlir_op_commutes(inner->name) || inner->operand_count != 2 || end->operand_count != 1) return false;
    const MlirType *type = inner->results[0]->type;
    bool forwarded = inner->operands[0] == block->arguments[0] && inner->operands[1] == block->arguments[1] &&
                     end->operands[0] == inner->results[0];
    return forwarded && type->shape->rank == 0 && type->shape->type == operation->operands[0]->type->shape->type &&
           mlir_type_equal(inner->operands[0]->type, type) && mlir_type_equal(inner->operands[1]->type, type);
}

// The long form pairs each value's argument with its accumulator's.
static void print_reduce(Printer *printer, const MlirOperation *operation) {
    assert(operation->region_count == 1);
    int64_t pairs = operation->operand_count / 2;
    bool is_short = print_is_short_reduction(operation);
    const MlirBlock *block = &operation->regions[0].blocks[0];
    for (int64_t i = 0; i < pairs; i++) {
        hlo_text_string(printer->text, i ? ", (" : "(");
        print_value(printer, operation->operands[i]);
        hlo_text_string(printer->text, " init: ");
        print_value(printer, operation->operands[pairs + i]);
        hlo_text_char(printer->text, ')');
    }
    if (is_short) hlo_text_format(printer->text, " applies %s", block->operations[0]->name);
    hlo_text_string(printer->text, " across dimensions = ");
    print_int_list(printer, *ints_of(operation, "dimensions"));
    print_dictionary(printer, operation, PRINT_OTHER, " {", "}");
    hlo_text_string(printer->text, " : ");
    print_function_type(printer, operation);
    if (is_short) return;
    hlo_text_char(printer->text, '\n');
    print_indent(printer);
    hlo_text_string(printer->text, " reducer");
    for (int64_t i = 0; i < pairs; i++) {
        hlo_text_char(printer->text, '(');
        print_argument(printer, block->arguments[i]);
        hlo_text_string(printer->text, ", ");
        print_argument(printer, block->arguments[pairs + i]);
        hlo_text_string(printer->text, ") ");
    }
    hlo_text_char(printer->text, ' ');
    print_region(printer, operation->regions, false, false);
}

// The dictionary of argument or result `index`, unless it is empty.
static void print_entry_attributes(Printer *printer, const MlirAttribute *list, int64_t index) {
    const MlirAttribute *dictionary = list && index < list->count ? list->items[index] : NULL;
    if (!dictionary || dictionary->count == 0) return;
    hlo_text_char(printer->text, ' ');
    print_attribute(printer, dictionary);
}

// func.func public @main(%arg0: tensor<4xf32> {attributes} loc(..)) -> (tensor<4xf32> {attributes}) { .. }
static void print_function(Printer *printer, const MlirOperation *operation) {
    const MlirBlock *block = &operation->regions[0].blocks[0];
    const MlirType *type = mlir_attribute(operation, "function_type")->type;
    const MlirAttribute *results = mlir_attribute(operation, "res_attrs");
    hlo_text_format(printer->text, " %s @", mlir_attribute(operation, "sym_visibility")->string);
    print_word(printer, mlir_attribute(operation, "sym_name")->string);
    hlo_text_char(printer->text, '(');
    for (int64_t i = 0; i < block->argument_count; i++) {
        if (i) hlo_text_string(printer->text, ", ");
        print_value(printer, block->arguments[i]);
        hlo_text_string(printer->text, ": ");
        print_type(printer, block->arguments[i]->type);
        print_entry_attributes(printer, mlir_attribute(operation, "arg_attrs"), i);
        print_argument_location(printer, block->arguments[i]->location);
    }
    hlo_text_char(printer->text, ')');
    if (type->result_count) {
        bool attributes = results && results->count && results->items[0]->count;
        bool bare = type->result_count == 1 && !attributes;
        hlo_text_string(printer->text, bare ? " -> " : " -> (");
        for (int64_t i = 0; i < type->result_count; i++) {
            if (i) hlo_text_string(printer->text, ", ");
            print_type(printer, type->results[i]);
            print_entry_attributes(printer, results, i);
        }
        if (!bare) hlo_text_char(printer->text, ')');
    }
    hlo_text_char(printer->text, ' ');
    print_region(printer, operation->regions, false, true);
}

static void print_module(Printer *printer, const MlirOperation *operation) {
    const MlirAttribute *name = mlir_attribute(operation, "sym_name");
    if (name) {
        hlo_text_string(printer->text, " @");
        print_word(printer, name->string);
    }
    print_dictionary(printer, operation, PRINT_OTHER, " attributes {", "}");
    hlo_text_char(printer->text, ' ');
    print_region(printer, operation->regions, false, false);
}

// By name, as asm_own() reads them; the last case is a reduction.
static void print_own(Printer *printer, const MlirOperation *operation) {
    const char *name = operation->name;
    if (strcmp(name, "builtin.module") == 0) {
        print_module(printer, operation);
    } else if (strcmp(name, "func.func") == 0) {
        print_function(printer, operation);
    } else if (strcmp(name, "stablehlo.constant") == 0) {
        print_constant(printer, operation);
    } else if (strcmp(name, "stablehlo.while") == 0) {
        print_while(printer, operation);
    } else {
        print_reduce(printer, operation);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Operations

// Results that MLIR names individually are listed; others share one name.
static void print_results(Printer *printer, const MlirOperation *operation) {
    if (operation->result_count == 0) return;
    bool one_name = operation->result_count > 1 && !print_result_names(operation);
    for (int64_t i = 0; i < (one_name ? 1 : operation->result_count); i++) {
        if (i) hlo_text_string(printer->text, ", ");
        print_value(printer, operation->results[i]);
    }
    // The name of the first of several is %n#0; the group's is %n:count.
    if (one_name) {
        if (!printer->text->failed) printer->text->length -= 2;
        hlo_text_format(printer->text, ":%lld", (long long)operation->result_count);
    }
    hlo_text_string(printer->text, " = ");
}

void print_operation(Printer *printer, const MlirOperation *operation, bool in_function) {
    assert(operation->name);
    const MlirOpInfo *info = mlir_op_info(operation->name, strlen(operation->name));
    HLO_BUG_IF(!info);
    print_indent(printer);
    print_results(printer, operation);
    bool is_module = strcmp(operation->name, "builtin.module") == 0;
    bool is_plain = in_function && strncmp(operation->name, "func.", 5) == 0;
    const char *name = is_module ? "module" : operation->name + (is_plain ? 5 : 0);
    if (printer->is_generic) {
        hlo_text_format(printer->text, "\"%s\"", operation->name);
        print_generic(printer, operation);
    } else if (info->pretty || info->types == MLIR_TYPES_OWN) {
        hlo_text_string(printer->text, name);
        if (info->pretty) print_pretty(printer, operation, info);
        if (!info->pretty) print_own(printer, operation);
    } else {
        hlo_text_format(printer->text, "\"%s\"", name);
        print_generic(printer, operation);
    }
    print_location(printer, operation->location);
    hlo_text_char(printer->text, '\n');
}

// Names and locations are numbered in separate passes, since uses may be printed before definitions.
void mlir_print(HloArena *arena, const MlirOperation *top, bool with_locations, bool is_generic, HloText *text) {
    Printer printer = {.arena = arena,
                       .text = text,
                       .dialect = "stablehlo",
                       .with_locations = with_locations,
                       .is_generic = is_generic};
    print_assign_names(&printer, top);
    print_collect_locations(&printer, top);
    print_aliases(&printer, true);
    print_operation(&printer, top, false);
    print_aliases(&printer, false);
}
