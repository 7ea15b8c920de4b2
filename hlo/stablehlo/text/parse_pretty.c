// SPDX-License-Identifier: Apache-2.0
// Reads the pretty forms in the op table: operands, attributes and types as mlir/dialect.def describes them. Most
// operations of StableHLO print by a declarative format in StablehloOps.td; mlir/dialect.def has the same format as a
// row, and this file interprets the row: `$1` is an operand, `$n` operands with commas between, `$c` operands with a
// comma after each, `$name` an attribute's bare value, `$?name` one that may be missing, `$@name` a symbol, `$*name` a
// special syntax (below); all else is literal. print_operation.c interprets the same rows for printing.
#include <assert.h>

#include "hlo/stablehlo/text/parser.h"

// One operation while its form is read; operands wait for their types, which come after the colon.
typedef struct Pretty {
    AsmParser *parser;
    MlirOperation *operation;
    const MlirOpInfo *info;
    AsmAttributes *attributes;
    AsmOperands operands;
} Pretty;

static bool add_ints(Pretty *pretty, const char *name, HloInts ints) {
    asm_add(pretty->parser, pretty->attributes, name,
            asm_make(pretty->parser, (MlirAttribute){.kind = MLIR_INTS, .ints = ints}));
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Attributes without their names

// The attribute with this name in the operation's row; a form may only name attributes of its row.
static bool find_attribute(const MlirOpInfo *info, const char *name, size_t length, MlirFieldInfo *field) {
    assert(info && name && field);
    const char *list = info->attributes;
    while (mlir_next_field(&list, field)) {
        if (field->text_length == length && memcmp(field->text, name, length) == 0) return true;
    }
    return false;
}

static bool kind_is(const MlirFieldInfo *field, const char *kind) {
    return strlen(kind) == field->kind_length && memcmp(kind, field->kind, field->kind_length) == 0;
}

// Reads a value by the kind that the row gives the attribute; an unknown kind is a number.
static bool parse_bare(Pretty *pretty, const MlirFieldInfo *field) {
    assert(field);
    AsmParser *parser = pretty->parser;
    MlirAttribute attribute = {0};
    const char *words = mlir_words(field->kind, field->kind_length);
    if (words) {
        AsmSlice word = asm_word(parser);
        attribute.kind = MLIR_ENUM;
        attribute.integer = mlir_word_number(words, word.text, word.length);
        attribute.string = hlo_arena_string(parser->arena, field->kind, field->kind_length);
        if (attribute.integer < 0) {
            return asm_fail_at(parser, word.text, "expected one of %s, not '%.*s'", words, (int)word.length, word.text);
        }
    } else if (kind_is(field, "ints")) {
        attribute.kind = MLIR_INTS;
        if (!asm_int_list(parser, '[', ']', &attribute.ints)) return false;
    } else if (kind_is(field, "bool")) {
        bool truth;
        attribute.kind = MLIR_BOOL;
        if (!asm_bool(parser, &truth)) return false;
        attribute.integer = truth;
    } else if (kind_is(field, "string")) {
        attribute.kind = MLIR_STRING;
        if (!asm_string(parser, &attribute.string)) return false;
    } else if (kind_is(field, "symbol")) {
        attribute.kind = MLIR_SYMBOL;
        if (!asm_symbol(parser, &attribute.string)) return false;
    } else {
        attribute.kind = MLIR_INTEGER;
        attribute.type = mlir_element_type(parser->arena, kind_is(field, "i32") ? HLO_S32 : HLO_S64);
        if (!asm_integer(parser, &attribute.integer)) return false;
    }
    const char *name = hlo_arena_string(parser->arena, field->text, field->text_length);
    asm_add(parser, pretty->attributes, name, asm_make(parser, attribute));
    return true;
}

// `, TYPE` or `, name = value`: the word compare_type is omitted, as an enumerator is unambiguous.
static bool parse_optional(Pretty *pretty, const MlirFieldInfo *field) {
    AsmParser *parser = pretty->parser;
    if (!asm_eat(parser, ',')) return !parser->status;
    if (!mlir_words(field->kind, field->kind_length)) {
        const char *name = hlo_arena_string(parser->arena, field->text, field->text_length);
        if (!asm_expect_word(parser, name) || !asm_expect(parser, '=')) return false;
    }
    return parse_bare(pretty, field);
}

// ---------------------------------------------------------------------------------------------------------------------
// Syntaxes of their own

// [0:4, 1:8:2]
static bool parse_slice(Pretty *pretty) {
    AsmParser *parser = pretty->parser;
    HloInt64Vector lists[3] = {{0}};
    if (!asm_expect(parser, '[')) return false;
    while (!asm_eat(parser, ']')) {
        int64_t numbers[3] = {0, 0, 1};
        if (lists[0].count && !asm_expect(parser, ',')) return false;
        if (!asm_integer(parser, &numbers[0]) || !asm_expect(parser, ':') || !asm_integer(parser, &numbers[1]))
            return false;
        if (asm_eat(parser, ':') && !asm_integer(parser, &numbers[2])) return false;
        for (int i = 0; i < 3; i++) hlo_vector_push(parser->arena, &lists[i], numbers[i]);
    }
    static const char *const names[] = {"start_indices", "limit_indices", "strides"};
    for (int i = 0; i < 3; i++) add_ints(pretty, names[i], (HloInts){lists[i].items, lists[i].count});
    return !parser->status;
}

// [[0, 1], [2, 3]] as a matrix of numbers: a tensor<Nx2xi64>, the form of padding in StableHLO and in bytecode.
static const MlirAttribute *parse_pairs(AsmParser *parser) {
    HloInt64Vector numbers = {0};
    if (!asm_expect(parser, '[')) return NULL;
    while (!asm_eat(parser, ']')) {
        HloInts pair;
        if (numbers.count && !asm_expect(parser, ',')) return NULL;
        const char *start = parser->at;
        if (!asm_int_list(parser, '[', ']', &pair)) return NULL;
        if (pair.count != 2) {
            asm_fail_at(parser, start, "expected a pair of numbers");
            return NULL;
        }
        hlo_vector_push(parser->arena, &numbers, pair.items[0]);
        hlo_vector_push(parser->arena, &numbers, pair.items[1]);
    }
    int64_t dims[2] = {numbers.count / 2, 2};
    const MlirType *type = NULL;
    HloLiteral *literal = NULL;
    HloStatus status = mlir_tensor_type(parser->arena, mlir_element_type(parser->arena, HLO_S64), dims, 2, NULL, &type);
    MlirAttribute tensor = {0};
    if (!status) status = mlir_tensor_new(parser->arena, type, &literal, &tensor);
    if (!asm_take(parser, parser->at, status)) return NULL;
    for (int64_t i = 0; i < numbers.count; i++) hlo_literal_set_int64(literal, i, numbers.items[i]);
    return asm_make(parser, tensor);
}

// Booleans as words or, as older releases printed them, as 0 and 1.
static bool parse_flags(AsmParser *parser, HloInts *ints) {
    HloInt64Vector flags = {0};
    if (!asm_expect(parser, '[')) return false;
    while (!asm_eat(parser, ']')) {
        bool flag;
        int64_t number;
        if (flags.count && !asm_expect(parser, ',')) return false;
        if (asm_peek(parser) <= '9') {
            if (!asm_integer(parser, &number)) return false;
            flag = number != 0;
        } else if (!asm_bool(parser, &flag)) {
            return false;
        }
        hlo_vector_push(parser->arena, &flags, (int64_t)flag);
    }
    *ints = (HloInts){flags.items, flags.count};
    return true;
}

// stride = [1, 1], pad = [[0, 0], [1, 1]], lhs_dilate = [..], rhs_dilate = [..], reverse = [false, true]
// Any of the five properties in any order; missing ones keep their defaults (1, 0, false), which the importer knows.
// The braces around them belong to the form.
static bool parse_window(Pretty *pretty) {
    static const char *const words[] = {"stride", "lhs_dilate", "rhs_dilate"};
    static const char *const names[] = {"window_strides", "lhs_dilation", "rhs_dilation"};
    AsmParser *parser = pretty->parser;
    for (bool first = true; asm_peek(parser) != '}'; first = false) {
        HloInts ints;
        if (!first && !asm_expect(parser, ',')) return false;
        AsmSlice word = asm_word(parser);
        if (!asm_expect(parser, '=')) return false;
        if (asm_slice_is(word, "pad")) {
            const MlirAttribute *pairs = parse_pairs(parser);
            if (!pairs) return false;
            asm_add(parser, pretty->attributes, "padding", pairs);
            continue;
        }
        if (asm_slice_is(word, "reverse")) {
            const MlirType *pred = mlir_element_type(parser->arena, HLO_PRED);
            if (!parse_flags(parser, &ints)) return false;
            asm_add(parser, pretty->attributes, "window_reversal",
                    asm_make(parser, (MlirAttribute){.kind = MLIR_INTS, .type = pred, .ints = ints}));
            continue;
        }
        size_t i = 0;
        while (i < HLO_COUNT_OF(words) && !asm_slice_is(word, words[i])) i++;
        if (i == HLO_COUNT_OF(words)) return asm_fail_at(parser, word.text, "expected a property of a window");
        if (!asm_int_list(parser, '[', ']', &ints)) return false;
        add_ints(pretty, names[i], ints);
    }
    return !parser->status;
}

// batching_dims = [0] x [0], contracting_dims = [2] x [1]
// Batching dimensions come first, if there are any. The four lists are attributes of the operation, as in bytecode.
static bool parse_dot(Pretty *pretty) {
    AsmParser *parser = pretty->parser;
    HloInts batch[2] = {{0}}, contracting[2] = {{0}};
    do {
        bool batching = asm_eat_word(parser, "batching_dims");
        if (!batching && !asm_expect_word(parser, "contracting_dims")) return false;
        HloInts *lists = batching ? batch : contracting;
        bool done = asm_expect(parser, '=') && asm_int_list(parser, '[', ']', &lists[0]) && asm_expect(parser, 'x') &&
                    asm_int_list(parser, '[', ']', &lists[1]);
        if (!done) return false;
        // The comma may also belong to the precision, which comes next.
        const char *comma = parser->at;
        if (!asm_eat(parser, ',')) break;
        asm_peek(parser);
        if (batching && strncmp(parser->at, "contracting_dims", 16) == 0) continue;
        parser->at = comma;
        break;
    } while (!parser->status);
    add_ints(pretty, "lhs_batching_dimensions", batch[0]);
    add_ints(pretty, "rhs_batching_dimensions", batch[1]);
    add_ints(pretty, "lhs_contracting_dimensions", contracting[0]);
    add_ints(pretty, "rhs_contracting_dimensions", contracting[1]);
    return !parser->status;
}

// , precision = [HIGH, DEFAULT]
static bool parse_precision(Pretty *pretty) {
    AsmParser *parser = pretty->parser;
    const char *words = mlir_words("precision", 9), *comma = parser->at;
    HLO_VECTOR(const MlirAttribute *) items = {0};
    if (!asm_eat(parser, ',')) return !parser->status;
    if (!asm_eat_word(parser, "precision")) {
        parser->at = comma;  // an algorithm may follow
        return !parser->status;
    }
    if (!asm_expect(parser, '=') || !asm_expect(parser, '[')) return false;
    while (!asm_eat(parser, ']')) {
        if (items.count && !asm_expect(parser, ',')) return false;
        AsmSlice word = asm_word(parser);
        int64_t number = mlir_word_number(words, word.text, word.length);
        if (number < 0) return asm_fail_at(parser, word.text, "expected one of %s", words);
        hlo_vector_push(parser->arena, &items,
                        asm_make(parser, (MlirAttribute){.kind = MLIR_ENUM, .integer = number, .string = "precision"}));
    }
    asm_add(parser, pretty->attributes, "precision_config",
            asm_make(parser, (MlirAttribute){.kind = MLIR_ARRAY, .items = items.items, .count = items.count}));
    return !parser->status;
}

// , algorithm = <lhs_precision_type = f32, ...>
// The fields of #stablehlo.dot_algorithm without the attribute's name.
static bool parse_algorithm(Pretty *pretty) {
    AsmParser *parser = pretty->parser;
    if (!asm_eat(parser, ',')) return !parser->status;
    if (!asm_expect_word(parser, "algorithm") || !asm_expect(parser, '=')) return false;
    const MlirAttribute *fields = asm_struct(parser, (AsmSlice){"dot_algorithm", 13});
    asm_add(parser, pretty->attributes, "algorithm", fields);
    return fields != NULL;
}

// e5m10
static bool parse_format(Pretty *pretty) {
    AsmParser *parser = pretty->parser;
    const MlirType *type = mlir_element_type(parser->arena, HLO_S32);
    int64_t exponent, mantissa;
    bool done = asm_expect(parser, 'e') && asm_integer(parser, &exponent) && asm_expect(parser, 'm') &&
                asm_integer(parser, &mantissa);
    if (!done) return false;
    asm_add(parser, pretty->attributes, "exponent_bits",
            asm_make(parser, (MlirAttribute){.kind = MLIR_INTEGER, .integer = exponent, .type = type}));
    asm_add(parser, pretty->attributes, "mantissa_bits",
            asm_make(parser, (MlirAttribute){.kind = MLIR_INTEGER, .integer = mantissa, .type = type}));
    return true;
}

// The last special syntax is `conv`.
static bool parse_special(Pretty *pretty, const char *name, size_t length) {
    static const struct {
        const char *name;
        bool (*parse)(Pretty *pretty);
    } table[] = {{"slice", parse_slice},         {"window", parse_window},       {"dot", parse_dot},
                 {"precision", parse_precision}, {"algorithm", parse_algorithm}, {"format", parse_format}};
    for (size_t i = 0; i < HLO_COUNT_OF(table); i++) {
        if (strncmp(table[i].name, name, length) == 0 && table[i].name[length] == 0) return table[i].parse(pretty);
    }
    const MlirAttribute *dims = asm_convolution_dimensions(pretty->parser);
    asm_add(pretty->parser, pretty->attributes, "dimension_numbers", dims);
    return dims != NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// The form

static bool parse_trailing_commas(Pretty *pretty) {
    while (asm_peek(pretty->parser) == '%') {
        if (!asm_operand(pretty->parser, &pretty->operands) || !asm_expect(pretty->parser, ',')) return false;
    }
    return !pretty->parser->status;
}

static bool is_directive_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

// Reads a directive after the `$`; moves *form past the directive. An unknown attribute is a bug in our table, not an
// error of the text.
static bool parse_directive(Pretty *pretty, const char **form) {
    assert(form && *form);
    const char *at = *form;
    char mark = strchr("?@*", *at) ? *at++ : 0;
    size_t length = 0;
    while (is_directive_character(at[length])) length++;
    *form = at + length;
    if (!mark && length == 1 && *at == '1') return asm_operand(pretty->parser, &pretty->operands);
    if (!mark && length == 1 && *at == 'n') return asm_operand_list(pretty->parser, &pretty->operands);
    if (!mark && length == 1 && *at == 'c') return parse_trailing_commas(pretty);
    if (mark == '*') return parse_special(pretty, at, length);
    MlirFieldInfo field;
    HLO_BUG_IF(!find_attribute(pretty->info, at, length, &field));
    if (mark == '?') return parse_optional(pretty, &field);
    if (mark == '@') {
        MlirAttribute attribute = {.kind = MLIR_STRING};
        if (!asm_symbol(pretty->parser, &attribute.string)) return false;
        asm_add(pretty->parser, pretty->attributes, hlo_arena_string(pretty->parser->arena, at, length),
                asm_make(pretty->parser, attribute));
        return true;
    }
    return parse_bare(pretty, &field);
}

// Blanks in the form are only for readability: the text may have any number of them anywhere.
static bool parse_form(Pretty *pretty) {
    AsmParser *parser = pretty->parser;
    for (const char *form = pretty->info->pretty; *form && !parser->status;) {
        if (*form == '$') {
            form++;
            if (!parse_directive(pretty, &form)) return false;
        } else if (*form == ' ') {
            form++;
        } else if (*form >= 'a' && *form <= 'z') {
            size_t length = 1;
            while ((form[length] >= 'a' && form[length] <= 'z') || form[length] == '_') length++;
            asm_peek(parser);
            if (strncmp(parser->at, form, length) != 0) {
                return asm_expected(parser, hlo_arena_string(parser->arena, form, length));
            }
            parser->at += length;
            form += length;
        } else if (!asm_expect(parser, *form++)) {
            return false;
        }
    }
    return !parser->status;
}

// ---------------------------------------------------------------------------------------------------------------------
// Types

// Checks the operands against these types, and gives the results theirs.
static bool take_types(Pretty *pretty, const MlirType *const *operands, int64_t operand_count,
                       const MlirType *const *results, int64_t result_count) {
    if (!asm_set_operands(pretty->parser, pretty->operation, &pretty->operands, operands, operand_count)) return false;
    asm_set_results(pretty->parser, pretty->operation, results, result_count);
    return true;
}

static bool take_function(Pretty *pretty, const MlirType *type) {
    return take_types(pretty, type->inputs, type->input_count, type->results, type->result_count);
}

// SameOperandsAndResultType: one type for all, or the whole function type, which MLIR writes if they differ in more
// than their names.
static bool types_of_same(Pretty *pretty) {
    AsmParser *parser = pretty->parser;
    const MlirType *type = asm_type(parser);
    if (!type || type->kind == MLIR_TYPE_FUNCTION) return type && take_function(pretty, type);
    const MlirType *few[8], **all = few;
    if (pretty->operands.count > (int64_t)HLO_COUNT_OF(few)) {
        all = HLO_ARENA_NEW(parser->arena, const MlirType *, pretty->operands.count);
    }
    for (int64_t i = 0; i < pretty->operands.count; i++) all[i] = type;
    return take_types(pretty, all, pretty->operands.count, &type, 1);
}

// `tensor<i1>, tensor<f32>`: the predicate's type and that of all others; or a function type.
static bool types_of_select(Pretty *pretty) {
    AsmTypes types = {0};
    asm_peek(pretty->parser);
    const char *where = pretty->parser->at;
    if (!asm_type_list(pretty->parser, &types)) return false;
    if (types.count == 1 && types.items[0]->kind == MLIR_TYPE_FUNCTION) return take_function(pretty, types.items[0]);
    if (types.count != 2)
        return asm_fail_at(pretty->parser, where,
                           "a select needs the types of its predicate and its choices, or a function type");
    const MlirType *all[] = {types.items[0], types.items[1], types.items[1]};
    return take_types(pretty, all, 3, &types.items[1], 1);
}

// The operands of `complex` are the parts of its result.
static bool types_of_complex(Pretty *pretty) {
    AsmParser *parser = pretty->parser;
    const MlirType *type = asm_type(parser);
    if (!type || type->kind == MLIR_TYPE_FUNCTION) return type && take_function(pretty, type);
    if (type->kind != MLIR_TYPE_SHAPE || !hlo_type_is_complex(type->shape->type)) {
        return asm_expected(parser, "a tensor of complex numbers");
    }
    const HloShape *part = hlo_shape_with_type(parser->arena, type->shape, hlo_type_real_part(type->shape->type));
    const MlirType *real = mlir_new_type(parser->arena, (MlirType){.kind = MLIR_TYPE_SHAPE, .shape = part});
    const MlirType *both[] = {real, real};
    return take_types(pretty, both, 2, &type, 1);
}

// The operands' types are the tuple's elements.
static bool types_of_tuple(Pretty *pretty) {
    AsmParser *parser = pretty->parser;
    asm_peek(parser);
    const char *where = parser->at;
    const MlirType *type = asm_type(parser);
    if (!type) return false;
    if (type->kind != MLIR_TYPE_SHAPE || !hlo_shape_is_tuple(type->shape))
        return asm_fail_at(parser, where, "the type of a tuple is needed");
    const MlirType **parts = HLO_ARENA_NEW(parser->arena, const MlirType *, type->shape->element_count);
    for (int32_t i = 0; i < type->shape->element_count; i++) {
        parts[i] = mlir_new_type(parser->arena, (MlirType){.kind = MLIR_TYPE_SHAPE, .shape = type->shape->elements[i]});
    }
    return take_types(pretty, parts, type->shape->element_count, &type, 1);
}

// Types of the operands; the results have the same (PAIRS) or there are none (RETURN).
static bool types_of_operands(Pretty *pretty, bool results) {
    const MlirType *few[8];
    AsmTypes types = {few, 0, HLO_COUNT_OF(few)};
    if (pretty->operands.count == 0) return true;
    if (!asm_expect(pretty->parser, ':') || !asm_type_list(pretty->parser, &types)) return false;
    return take_types(pretty, types.items, types.count, types.items, results ? types.count : 0);
}

// `t, t -> t`: the form of functions without parentheses around the operands.
static bool types_of_arrow(Pretty *pretty) {
    const MlirType *few_operands[8], *few_results[4];
    AsmTypes operands = {few_operands, 0, HLO_COUNT_OF(few_operands)};
    AsmTypes results = {few_results, 0, HLO_COUNT_OF(few_results)};
    if (!asm_type_list(pretty->parser, &operands)) return false;
    if (!asm_eat_mark(pretty->parser, "->")) {
        // A single function type is already one type with an arrow in it.
        bool whole = operands.count == 1 && operands.items[0]->kind == MLIR_TYPE_FUNCTION;
        return whole ? take_function(pretty, operands.items[0]) : asm_expected(pretty->parser, "'->'");
    }
    if (!asm_result_types(pretty->parser, &results)) return false;
    return take_types(pretty, operands.items, operands.count, results.items, results.count);
}

static bool parse_types(Pretty *pretty) {
    AsmParser *parser = pretty->parser;
    MlirOpTypes types = pretty->info->types;
    if (types == MLIR_TYPES_PAIRS) return types_of_operands(pretty, true);
    if (types == MLIR_TYPES_RETURN) return types_of_operands(pretty, false);
    if (!asm_expect(parser, ':')) return false;
    if (types == MLIR_TYPES_SAME) return types_of_same(pretty);
    if (types == MLIR_TYPES_SELECT) return types_of_select(pretty);
    if (types == MLIR_TYPES_COMPLEX) return types_of_complex(pretty);
    if (types == MLIR_TYPES_TUPLE) return types_of_tuple(pretty);
    if (types == MLIR_TYPES_ARROW) return types_of_arrow(pretty);
    const MlirType *type = types == MLIR_TYPES_RESULT ? asm_type(parser) : asm_function_type(parser);
    if (!type) return false;
    return types == MLIR_TYPES_RESULT ? take_types(pretty, NULL, 0, &type, 1) : take_function(pretty, type);
}

// The form, the remaining attributes in braces, then the types: MLIR's order for all ops except barriers.
bool asm_pretty(AsmParser *parser, MlirOperation *operation, const MlirOpInfo *info, AsmAttributes *attributes) {
    assert(operation && info && attributes);
    AsmOperand few[8];
    Pretty pretty = {parser, operation, info, attributes, {few, 0, HLO_COUNT_OF(few)}};
    // Barriers print their attributes first, and () where they have no operands.
    bool first = info->types == MLIR_TYPES_PAIRS;
    if (first && asm_peek(parser) == '{' && !asm_dictionary(parser, attributes)) return false;
    if (first && asm_eat(parser, '(')) return asm_expect(parser, ')');
    if (!parse_form(&pretty)) return false;
    if (asm_peek(parser) == '{' && !asm_dictionary(parser, attributes)) return false;
    return parse_types(&pretty);
}
