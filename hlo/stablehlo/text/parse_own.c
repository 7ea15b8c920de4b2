// SPDX-License-Identifier: Apache-2.0
// Reads ops whose pretty form no table can describe: modules, functions, constants, loops, reductions and those of
// shardy. Each function begins after the operation's name and ends before its location. Its result equals that of the
// generic form of the same operation, attribute for attribute: the importer must not depend on which was written.
// Sources: StableHLO's AssemblyFormat.cpp and StablehloOps.cpp (constant, reduce, while), ChloOps.cpp (scan), mlir's
// FunctionImplementation.cpp, Shardy's parsers.cc.
#include <assert.h>

#include "hlo/stablehlo/text/parser.h"

// ---------------------------------------------------------------------------------------------------------------------
// Modules and functions

// For symbol names and enumerations that have no number of their own.
static void add_string(AsmParser *parser, AsmAttributes *attributes, const char *name, const char *string) {
    asm_add(parser, attributes, name, asm_make(parser, (MlirAttribute){.kind = MLIR_STRING, .string = string}));
}

// module [@name] [attributes {...}] {...}
// The attributes of a module (mhlo.num_partitions, sdy meshes' origin and the like) are read by mlir_import_module().
static bool own_module(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    const char *name = NULL;
    if (asm_peek(parser) == '@') {
        if (!asm_symbol(parser, &name)) return false;
        add_string(parser, attributes, "sym_name", name);
    }
    if (asm_eat_word(parser, "attributes") && !asm_dictionary(parser, attributes)) return false;
    asm_new_regions(parser, operation, 1);
    return asm_region(parser, operation->regions, NULL, NULL, true);
}

typedef HLO_VECTOR(const MlirAttribute *) AttributeList;

// The parts of a signature, in lists that grow together: one entry per parameter, one per result.
typedef struct Function {
    AsmValues arguments;
    HLO_VECTOR(AsmSlice) names;
    AsmTypes inputs, results;
    AttributeList argument_attributes, result_attributes;
    bool any_argument, any_result;  // has attributes
} Function;

// A missing dictionary becomes an empty one, as the lists must have an entry for every parameter; `*any` is set if they
// are worth keeping.
static const MlirAttribute *optional_dictionary(AsmParser *parser, bool *any) {
    if (asm_peek(parser) != '{') return asm_make(parser, (MlirAttribute){.kind = MLIR_DICTIONARY});
    *any = true;
    return asm_attribute(parser);
}

// (%arg0: type {attributes} loc(...), ...), or only types if the function has no body.
static bool parse_parameters(AsmParser *parser, Function *function) {
    if (!asm_expect(parser, '(')) return false;
    if (asm_eat(parser, ')')) return true;
    do {
        const MlirType *type;
        const MlirAttribute *dictionary;
        if (asm_peek(parser) == '%') {
            AsmSlice name;
            if (!asm_argument(parser, &function->arguments, &name)) return false;
            hlo_vector_push(parser->arena, &function->names, name);
            MlirValue *value = function->arguments.items[function->arguments.count - 1];
            type = value->type;
            dictionary = optional_dictionary(parser, &function->any_argument);
            if (asm_peek(parser) == 'l') value->location = asm_optional_location(parser);
        } else {
            type = asm_type(parser);
            dictionary = optional_dictionary(parser, &function->any_argument);
        }
        if (!type || !dictionary || parser->status) return false;
        hlo_vector_push(parser->arena, &function->inputs, type);
        hlo_vector_push(parser->arena, &function->argument_attributes, dictionary);
    } while (asm_eat(parser, ','));
    return asm_expect(parser, ')');
}

static bool parse_result(AsmParser *parser, Function *function) {
    const MlirType *type = asm_type(parser);
    if (!type) return false;
    const MlirAttribute *dictionary = optional_dictionary(parser, &function->any_result);
    if (!dictionary) return false;
    hlo_vector_push(parser->arena, &function->results, type);
    hlo_vector_push(parser->arena, &function->result_attributes, dictionary);
    return true;
}

// A single type needs no parentheses, but then cannot have attributes: `-> f32 {` begins the body.
static bool parse_results(AsmParser *parser, Function *function) {
    if (!asm_eat_mark(parser, "->")) return !parser->status;
    if (!asm_eat(parser, '(')) {
        const MlirType *type = asm_type(parser);
        if (!type) return false;
        hlo_vector_push(parser->arena, &function->results, type);
        return true;
    }
    if (asm_eat(parser, ')')) return true;
    do {
        if (!parse_result(parser, function)) return false;
    } while (asm_eat(parser, ','));
    return asm_expect(parser, ')');
}

static void add_list(AsmParser *parser, AsmAttributes *attributes, const char *name, const AttributeList *list) {
    asm_add(parser, attributes, name,
            asm_make(parser, (MlirAttribute){.kind = MLIR_ARRAY, .items = list->items, .count = list->count}));
}

// func.func [public] @name(...) -> ... [attributes {...}] {...}
static bool own_function(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    static const char *const visibilities[] = {"public", "private", "nested"};
    Function function = {0};
    const char *name;
    for (size_t i = 0; i < HLO_COUNT_OF(visibilities); i++) {
        if (asm_eat_word(parser, visibilities[i])) add_string(parser, attributes, "sym_visibility", visibilities[i]);
    }
    if (!asm_symbol(parser, &name)) return false;
    add_string(parser, attributes, "sym_name", name);
    if (!parse_parameters(parser, &function) || !parse_results(parser, &function)) return false;
    if (asm_eat_word(parser, "attributes") && !asm_dictionary(parser, attributes)) return false;
    MlirType type = {.kind = MLIR_TYPE_FUNCTION,
                     .inputs = function.inputs.items,
                     .input_count = function.inputs.count,
                     .results = function.results.items,
                     .result_count = function.results.count};
    asm_add(parser, attributes, "function_type",
            asm_make(parser, (MlirAttribute){.kind = MLIR_TYPE, .type = mlir_new_type(parser->arena, type)}));
    if (function.any_argument) add_list(parser, attributes, "arg_attrs", &function.argument_attributes);
    if (function.any_result) add_list(parser, attributes, "res_attrs", &function.result_attributes);
    asm_new_regions(parser, operation, 1);
    if (asm_peek(parser) != '{') return !parser->status;  // a declaration
    return asm_region(parser, operation->regions, &function.arguments, function.names.items, true);
}

// ---------------------------------------------------------------------------------------------------------------------
// Constants

// dense<...> : type, or the generic form without its name. Both forms exist in practice: older releases print
// "stablehlo.constant"() with the name but without quotes. An index constant of arith is an integer instead of a
// tensor.
static bool own_constant(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    if (asm_eat(parser, '(')) {
        if (!asm_expect(parser, ')')) return false;
        if (asm_eat(parser, '<') && (!asm_dictionary(parser, attributes) || !asm_expect(parser, '>'))) return false;
        if (asm_peek(parser) == '{' && !asm_dictionary(parser, attributes)) return false;
        const MlirType *type = asm_expect(parser, ':') ? asm_function_type(parser) : NULL;
        if (!type) return false;
        asm_set_results(parser, operation, type->results, type->result_count);
        return true;
    }
    if (asm_peek(parser) == '{' && !asm_dictionary(parser, attributes)) return false;
    const char *start = parser->at;
    const MlirAttribute *value = asm_attribute(parser);
    if (!value) return false;
    const bool is_index = value->kind == MLIR_INTEGER && strcmp(operation->name, "arith.constant") == 0;
    if (value->kind != MLIR_TENSOR && !is_index) return asm_fail_at(parser, start, "expected a tensor");
    asm_add(parser, attributes, "value", value);
    asm_set_results(parser, operation, &value->type, 1);
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Loops

// (%arg = %initial, ...) : types [attributes {...}] cond {...} do {...}
// The arguments of both regions have the same names and types, which are those of the operands. Names extend to a blank
// or the equals sign, as %iterArg_0 may have any character of a suffix-id.
static bool own_while(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    AsmOperands operands = {0};
    HLO_VECTOR(AsmSlice) names = {0};
    AsmTypes types = {0};
    if (!asm_expect(parser, '(')) return false;
    while (!asm_eat(parser, ')')) {
        if (names.count && !asm_expect(parser, ',')) return false;
        if (!asm_expect(parser, '%')) return false;
        const char *start = parser->at;
        while (*parser->at && !strchr(" =\t\n", *parser->at)) parser->at++;
        hlo_vector_push(parser->arena, &names, ((AsmSlice){start, (size_t)(parser->at - start)}));
        if (!asm_expect(parser, '=') || !asm_operand(parser, &operands)) return false;
    }
    if (operands.count && (!asm_expect(parser, ':') || !asm_type_list(parser, &types))) return false;
    if (!asm_set_operands(parser, operation, &operands, types.items, types.count)) return false;
    asm_set_results(parser, operation, types.items, types.count);
    if (asm_eat_word(parser, "attributes") && !asm_dictionary(parser, attributes)) return false;
    asm_new_regions(parser, operation, 2);
    for (int part = 0; part < 2; part++) {
        AsmValues arguments = {0};
        for (int64_t i = 0; i < types.count; i++) {
            MlirValue *value = HLO_ARENA_NEW(parser->arena, MlirValue, 1);
            value->type = types.items[i];
            value->location = parser->unknown_location;
            hlo_vector_push(parser->arena, &arguments, value);
        }
        if (!asm_expect_word(parser, part ? "do" : "cond")) return false;
        if (!asm_region(parser, &operation->regions[part], &arguments, names.items, false)) return false;
    }
    return true;
}

// Segment sizes specify how the flat lists of operands and results divide into variadic groups (MLIR's
// AttrSizedOperandSegments).
static void add_pair(AsmParser *parser, AsmAttributes *attributes, const char *name, int64_t a, int64_t b) {
    const int64_t pair[] = {a, b};
    asm_add(parser, attributes, name,
            asm_make(parser, (MlirAttribute){.kind = MLIR_INTS, .ints = hlo_ints(parser->arena, pair, 2)}));
}

// (%inputs) inits (%carried) dimension=0 [attributes {...}] {...} : types
// The carried values come last, among operands as among results.
static bool own_scan(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    AsmOperands operands = {0};
    MlirAttribute dimension = {.kind = MLIR_INTEGER, .type = mlir_element_type(parser->arena, HLO_S64)};
    if (!asm_expect(parser, '(') || !asm_operand_list(parser, &operands) || !asm_expect(parser, ')')) return false;
    const int64_t inputs = operands.count;
    if (!asm_expect_word(parser, "inits") || !asm_expect(parser, '(')) return false;
    if (!asm_operand_list(parser, &operands) || !asm_expect(parser, ')')) return false;
    if (!asm_expect_word(parser, "dimension") || !asm_expect(parser, '=')) return false;
    if (!asm_integer(parser, &dimension.integer)) return false;
    asm_add(parser, attributes, "dimension", asm_make(parser, dimension));
    if (asm_eat_word(parser, "attributes") && !asm_dictionary(parser, attributes)) return false;
    asm_new_regions(parser, operation, 1);
    if (!asm_region(parser, operation->regions, NULL, NULL, true)) return false;
    const MlirType *type = asm_expect(parser, ':') ? asm_function_type(parser) : NULL;
    if (!type || !asm_set_operands(parser, operation, &operands, type->inputs, type->input_count)) return false;
    asm_set_results(parser, operation, type->results, type->result_count);
    const int64_t carried = operands.count - inputs;
    add_pair(parser, attributes, "operandSegmentSizes", inputs, carried);
    add_pair(parser, attributes, "resultSegmentSizes", type->result_count - carried, carried);
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Reductions

typedef struct Reduction {
    AsmOperands inputs, initials;
    AsmSlice inner;  // the op of the short form
} Reduction;

// `across dimensions = [1] {...} : type`
// The initial values follow the inputs in the operation's operands, though the text has them in pairs.
static bool parse_reduction_tail(AsmParser *parser, MlirOperation *operation, Reduction *reduction,
                                 AsmAttributes *attributes) {
    HloInts dimensions;
    bool done = asm_expect_word(parser, "across") && asm_expect_word(parser, "dimensions") && asm_expect(parser, '=') &&
                asm_int_list(parser, '[', ']', &dimensions);
    if (!done) return false;
    if (asm_peek(parser) == '{' && !asm_dictionary(parser, attributes)) return false;
    asm_add(parser, attributes, "dimensions", asm_make(parser, (MlirAttribute){.kind = MLIR_INTS, .ints = dimensions}));
    const MlirType *type = asm_expect(parser, ':') ? asm_function_type(parser) : NULL;
    if (!type) return false;
    for (int64_t i = 0; i < reduction->initials.count; i++) {
        hlo_vector_push(parser->arena, &reduction->inputs, reduction->initials.items[i]);
    }
    if (!asm_set_operands(parser, operation, &reduction->inputs, type->inputs, type->input_count)) return false;
    asm_set_results(parser, operation, type->results, type->result_count);
    return true;
}

// Makes an operation for the body of a short form, which has no text.
static MlirOperation *make_operation(AsmParser *parser, const char *name, MlirValue *const *operands, int64_t count,
                                     const MlirAttribute *location) {
    assert(name && count >= 0);
    MlirOperation *operation = asm_new_operation(parser, name);
    operation->operands = hlo_arena_copy(parser->arena, operands, sizeof(*operands) * (size_t)count);
    operation->operand_count = count;
    operation->location = location;
    return operation;
}

// The region for `applies stablehlo.add`: a block of two scalars, the operation, and a return. All of it has the
// location of the reduction, as in MLIR's own parser.
static bool make_reducer(AsmParser *parser, MlirOperation *operation, const Reduction *reduction) {
    assert(operation && reduction);
    const MlirType *input = operation->operand_count ? operation->operands[0]->type : NULL, *scalar = NULL;
    const char *at = reduction->inner.text;
    if (!input || input->kind != MLIR_TYPE_SHAPE || operation->operand_count != 2) {
        return asm_fail_at(parser, at, "the short form of a reduction must have one input of a tensor type");
    }
    const MlirType *element = mlir_element_type(parser->arena, input->shape->type);
    if (!asm_take(parser, at, mlir_tensor_type(parser->arena, element, NULL, 0, NULL, &scalar))) return false;
    MlirBlock *block = HLO_ARENA_NEW(parser->arena, MlirBlock, 1);
    MlirValue *values = HLO_ARENA_NEW(parser->arena, MlirValue, 2);
    block->arguments = HLO_ARENA_NEW(parser->arena, MlirValue *, 2);
    block->argument_count = 2;
    for (int i = 0; i < 2; i++) {
        values[i] = (MlirValue){.type = scalar, .location = operation->location};
        block->arguments[i] = &values[i];
    }
    const char *name = hlo_arena_string(parser->arena, reduction->inner.text, reduction->inner.length);
    block->operations = HLO_ARENA_NEW(parser->arena, MlirOperation *, 2);
    block->operation_count = 2;
    block->operations[0] = make_operation(parser, name, block->arguments, 2, operation->location);
    asm_set_results(parser, block->operations[0], &scalar, 1);
    block->operations[1] =
        make_operation(parser, "stablehlo.return", block->operations[0]->results, 1, operation->location);
    asm_new_regions(parser, operation, 1);
    operation->regions[0] = (MlirRegion){.blocks = block, .block_count = 1};
    return true;
}

// reducer(%a: t, %b: t) (%c: t, %d: t) {...}: pairs of (value, accumulator); the block has all values first.
static bool parse_reducer(AsmParser *parser, MlirOperation *operation) {
    AsmValues first = {0}, second = {0};
    HLO_VECTOR(AsmSlice) first_names = {0}, second_names = {0};
    if (!asm_expect_word(parser, "reducer")) return false;
    while (asm_eat(parser, '(')) {
        AsmSlice name;
        if (!asm_argument(parser, &first, &name)) return false;
        hlo_vector_push(parser->arena, &first_names, name);
        if (!asm_expect(parser, ',') || !asm_argument(parser, &second, &name)) return false;
        hlo_vector_push(parser->arena, &second_names, name);
        if (!asm_expect(parser, ')')) return false;
    }
    for (int64_t i = 0; i < second.count; i++) {
        hlo_vector_push(parser->arena, &first, second.items[i]);
        hlo_vector_push(parser->arena, &first_names, second_names.items[i]);
    }
    asm_new_regions(parser, operation, 1);
    return asm_region(parser, operation->regions, &first, first_names.items, false);
}

// (%a init: %b), (%c init: %d) [applies stablehlo.add] across ...
// The short form is only for commutative operations, as it does not specify which argument is the accumulator.
static bool own_reduce(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    Reduction reduction = {0};
    while (asm_eat(parser, '(')) {
        bool done = asm_operand(parser, &reduction.inputs) && asm_expect_word(parser, "init") &&
                    asm_expect(parser, ':') && asm_operand(parser, &reduction.initials) && asm_expect(parser, ')');
        if (!done) return false;
        asm_eat(parser, ',');
    }
    if (!asm_eat_word(parser, "applies")) {
        return parse_reduction_tail(parser, operation, &reduction, attributes) && parse_reducer(parser, operation);
    }
    reduction.inner = asm_word(parser);
    if (!mlir_op_commutes(hlo_arena_string(parser->arena, reduction.inner.text, reduction.inner.length))) {
        return asm_fail_at(parser, reduction.inner.text, "expected a commutative operation of two operands");
    }
    if (!parse_reduction_tail(parser, operation, &reduction, attributes)) return false;
    operation->location = asm_optional_location(parser);
    return !parser->status && make_reducer(parser, operation, &reduction);
}

// ---------------------------------------------------------------------------------------------------------------------
// Casts and shardy

// %0, %1 : types to types
static bool own_cast(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    AsmOperands operands = {0};
    AsmTypes from = {0}, to = {0};
    if (!asm_operand_list(parser, &operands)) return false;
    if (asm_eat(parser, ':') && !asm_type_list(parser, &from)) return false;
    if (!asm_expect_word(parser, "to") || !asm_type_list(parser, &to)) return false;
    if (asm_peek(parser) == '{' && !asm_dictionary(parser, attributes)) return false;
    asm_set_results(parser, operation, to.items, to.count);
    return asm_set_operands(parser, operation, &operands, from.items, from.count);
}

// @name = <["a"=2]>
static bool own_mesh(AsmParser *parser, AsmAttributes *attributes) {
    const char *name;
    if (!asm_symbol(parser, &name) || !asm_expect(parser, '=')) return false;
    add_string(parser, attributes, "sym_name", name);
    const MlirAttribute *mesh = asm_sdy_mesh(parser);
    asm_add(parser, attributes, "mesh", mesh);
    if (mesh && asm_peek(parser) == '{') return asm_dictionary(parser, attributes);
    return mesh != NULL;
}

// %0 <sharding> : type, and ops like it: the caller reads the part between the operand and the colon. The result, if
// there is one, has the operand's type (SameOperandsAndResultType).
static bool finish_unary(AsmParser *parser, MlirOperation *operation, AsmOperands *operands, AsmAttributes *attributes,
                         bool has_result) {
    assert(operation && operands);
    if (asm_peek(parser) == '{' && !asm_dictionary(parser, attributes)) return false;
    const MlirType *type = asm_expect(parser, ':') ? asm_type(parser) : NULL;
    if (!type) return false;
    asm_set_results(parser, operation, &type, has_result ? 1 : 0);
    return asm_set_operands(parser, operation, operands, &type, 1);
}

// sdy.sharding_constraint and sdy.reshard: %0 <@mesh, [...]> : type.
static bool own_constraint(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    AsmOperands operands = {0};
    if (!asm_operand(parser, &operands)) return false;
    const MlirAttribute *sharding = asm_sdy_sharding(parser);
    if (!sharding) return false;
    asm_add(parser, attributes, "sharding", sharding);
    return finish_unary(parser, operation, &operands, attributes, true);
}

// %0 group_id=1, %0 sharding=<...>, %0 allowed_direction=FORWARD
static bool own_worded(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    AsmOperands operands = {0};
    bool is_group = strcmp(operation->name, "sdy.sharding_group") == 0;
    if (!asm_operand(parser, &operands)) return false;
    if (asm_eat_word(parser, "group_id")) {
        MlirAttribute number = {.kind = MLIR_INTEGER, .type = mlir_element_type(parser->arena, HLO_S64)};
        if (!asm_expect(parser, '=') || !asm_integer(parser, &number.integer)) return false;
        asm_add(parser, attributes, "group_id", asm_make(parser, number));
    } else if (asm_eat_word(parser, "sharding")) {
        const MlirAttribute *sharding = asm_expect(parser, '=') ? asm_sdy_sharding(parser) : NULL;
        if (!sharding) return false;
        asm_add(parser, attributes, "sharding", sharding);
    } else if (asm_eat_word(parser, "allowed_direction")) {
        if (!asm_expect(parser, '=')) return false;
        AsmSlice word = asm_word(parser);
        add_string(parser, attributes, "allowed_direction", hlo_arena_string(parser->arena, word.text, word.length));
    }
    return finish_unary(parser, operation, &operands, attributes, !is_group);
}

// [{"a"}, {}] %0 out_sharding=<...>: the axes that a collective of sdy works over (in brackets, in braces, or none)
// follow from the shardings of its operand and its result. sdy.all_gather, sdy.all_slice and so on; they come last in
// asm_own() because there are many, all of one form.
static bool own_collective(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    AsmOperands operands = {0};
    const char mark = asm_peek(parser);
    if ((mark == '[' || mark == '{') && !(asm_eat(parser, mark) && asm_skip_balanced(parser, mark))) return false;
    if (!asm_operand(parser, &operands)) return false;
    if (!asm_expect_word(parser, "out_sharding") || !asm_expect(parser, '=')) return false;
    const MlirAttribute *sharding = asm_sdy_sharding(parser);
    if (!sharding) return false;
    asm_add(parser, attributes, "out_sharding", sharding);
    return finish_unary(parser, operation, &operands, attributes, true);
}

// (%arg0: type, ...) {...}
static bool parse_sdy_body(AsmParser *parser, MlirOperation *operation) {
    AsmValues arguments = {0};
    HLO_VECTOR(AsmSlice) names = {0};
    if (!asm_expect(parser, '(')) return false;
    while (!asm_eat(parser, ')')) {
        AsmSlice name;
        if (names.count && !asm_expect(parser, ',')) return false;
        if (!asm_argument(parser, &arguments, &name)) return false;
        hlo_vector_push(parser->arena, &names, name);
    }
    asm_new_regions(parser, operation, 1);
    return asm_region(parser, operation->regions, &arguments, names.items, true);
}

// [<"name">] (operands) in_shardings=[..] out_shardings=[..] manual_axes={..} (%arg0: type) {...} : type
static bool own_computation(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    AsmOperands operands = {0};
    if (asm_eat(parser, '<')) {
        const char *name;
        if (!asm_string(parser, &name) || !asm_expect(parser, '>')) return false;
        add_string(parser, attributes, "name", name);
    }
    if (!asm_expect(parser, '(') || !asm_operand_list(parser, &operands) || !asm_expect(parser, ')')) return false;
    static const char *const words[] = {"in_shardings", "out_shardings", "manual_axes"};
    for (size_t i = 0; i < HLO_COUNT_OF(words); i++) {
        if (!asm_eat_word(parser, words[i])) continue;
        const MlirAttribute *value = !asm_expect(parser, '=') ? NULL
                                     : i < 2                  ? asm_sdy_sharding_list(parser)
                                                              : asm_sdy_axes(parser);
        if (!value) return false;
        asm_add(parser, attributes, words[i], value);
    }
    if (!parse_sdy_body(parser, operation)) return false;
    if (asm_peek(parser) == '{' && !asm_dictionary(parser, attributes)) return false;
    const MlirType *type = asm_expect(parser, ':') ? asm_function_type(parser) : NULL;
    if (!type || !asm_set_operands(parser, operation, &operands, type->inputs, type->input_count)) return false;
    asm_set_results(parser, operation, type->results, type->result_count);
    return true;
}

// Names are compared by strcmp: these operations are rare compared with those of the table, except for constants, which
// come early in the list for that reason.
bool asm_own(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    assert(operation->name);
    const char *name = operation->name;
    const char *short_name = strchr(name, '.') + 1;
    if (strcmp(name, "builtin.module") == 0) return own_module(parser, operation, attributes);
    if (strcmp(name, "func.func") == 0) return own_function(parser, operation, attributes);
    if (strcmp(short_name, "constant") == 0) return own_constant(parser, operation, attributes);
    if (strcmp(short_name, "while") == 0) return own_while(parser, operation, attributes);
    if (strcmp(short_name, "reduce") == 0) return own_reduce(parser, operation, attributes);
    if (strcmp(name, "chlo.scan") == 0) return own_scan(parser, operation, attributes);
    const bool is_cast = strcmp(name, "builtin.unrealized_conversion_cast") == 0 || strcmp(name, "tensor.cast") == 0 ||
                         strcmp(name, "arith.index_cast") == 0;
    if (is_cast) return own_cast(parser, operation, attributes);
    if (strcmp(short_name, "mesh") == 0) return own_mesh(parser, attributes);
    bool is_constraint = strcmp(short_name, "sharding_constraint") == 0 || strcmp(short_name, "reshard") == 0;
    if (is_constraint) return own_constraint(parser, operation, attributes);
    bool has_body = strcmp(short_name, "manual_computation") == 0 || strcmp(short_name, "named_computation") == 0;
    if (has_body) return own_computation(parser, operation, attributes);
    static const char *const worded[] = {"sharding_group", "data_flow_edge", "propagation_barrier"};
    for (size_t i = 0; i < HLO_COUNT_OF(worded); i++) {
        if (strcmp(short_name, worded[i]) == 0) return own_worded(parser, operation, attributes);
    }
    return own_collective(parser, operation, attributes);
}
