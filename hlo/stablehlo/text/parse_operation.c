// SPDX-License-Identifier: Apache-2.0
// Reads values, operations and regions of MLIR text, and the generic form of every op. SSA names are resolved while
// reading: a value has to be defined before its use, since regions here have one block and no graph semantics (programs
// with branches between blocks are refused; HLO cannot express them). Names of values are mostly numbers, as MLIR
// prints them; these are an array's index instead of a map's key.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/text/parser.h"

// suffix-id of mlir's LangRef.
static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '.' || c == '-';
}

// ---------------------------------------------------------------------------------------------------------------------
// Value names

// Reads the name after the %.
static AsmSlice value_name(AsmParser *parser) {
    const char *start = parser->at, *at = start;
    while (is_name_character(*at)) at++;
    parser->at = at;
    return (AsmSlice){start, (size_t)(at - start)};
}

// The number in a name, without leading zeros; negative if the name is not a number, or a number larger than the text's
// length. This bound keeps %999999999 from making an array of a billion entries: a text of n bytes does not define n
// values.
static int64_t name_number(const AsmParser *parser, AsmSlice slice) {
    enum { MOST_DIGITS = 9 };
    if (slice.length == 0 || slice.length > MOST_DIGITS || (slice.text[0] == '0' && slice.length > 1)) return -1;
    int64_t number = 0;
    for (size_t i = 0; i < slice.length; i++) {
        if (slice.text[i] < '0' || slice.text[i] > '9') return -1;
        number = number * 10 + (slice.text[i] - '0');
    }
    return number < parser->end - parser->begin ? number : -1;
}

// The record of a name, maybe from another isolated region; NULL if it was never bound.
static AsmName *known_name(const AsmParser *parser, AsmSlice slice) {
    int64_t number = name_number(parser, slice);
    if (number < 0) return hlo_string_map_get(&parser->names, slice.text, slice.length);
    return number < parser->numbered.count ? parser->numbered.items[number] : NULL;
}

// True if the name is bound here.
static bool is_bound(const AsmParser *parser, const AsmName *name) {
    return name && name->values && name->scope == parser->scope;
}

static AsmName *new_name(AsmParser *parser, AsmSlice slice) {
    AsmName *name = HLO_ARENA_NEW(parser->arena, AsmName, 1);
    int64_t number = name_number(parser, slice);
    if (number < 0) {
        hlo_string_map_set(parser->arena, &parser->names, slice.text, slice.length, name);
        return name;
    }
    while (parser->numbered.count <= number) hlo_vector_push(parser->arena, &parser->numbered, NULL);
    parser->numbered.items[number] = name;
    return name;
}

// Binds a name until the current region ends.
static bool bind_name(AsmParser *parser, AsmSlice slice, MlirValue **values, int64_t count) {
    assert(values && count > 0);
    AsmName *name = known_name(parser, slice);
    if (!name) name = new_name(parser, slice);
    if (is_bound(parser, name)) {
        return asm_fail_at(parser, slice.text, "%%%.*s is defined twice", (int)(slice.length > 60 ? 60 : slice.length),
                           slice.text);
    }
    hlo_vector_push(parser->arena, &parser->undo, ((AsmUndo){name, *name}));
    *name = (AsmName){values, count, parser->scope};
    return true;
}

// %name or %name#1. `name->values` points to results of the defining operation, so that all uses share the same
// MlirValue.
static bool look_up(AsmParser *parser, MlirValue **value) {
    assert(value);
    const char *start = parser->at;
    if (!asm_expect(parser, '%')) return false;
    AsmSlice slice = value_name(parser);
    int64_t index = 0;
    const AsmName *name = known_name(parser, slice);
    if (*parser->at == '#') {
        parser->at++;
        if (!asm_integer(parser, &index)) return false;
    }
    if (!is_bound(parser, name)) {
        return asm_fail_at(parser, start, "%%%.*s is not defined here", (int)(slice.length > 60 ? 60 : slice.length),
                           slice.text);
    }
    if (index < 0 || index >= name->count) {
        return asm_fail_at(parser, start, "%%%.*s has %lld values", (int)(slice.length > 60 ? 60 : slice.length),
                           slice.text, (long long)name->count);
    }
    *value = name->values[index];
    return true;
}

bool asm_operand(AsmParser *parser, AsmOperands *operands) {
    asm_peek(parser);
    AsmOperand operand = {.at = parser->at};
    if (!look_up(parser, &operand.value)) return false;
    hlo_vector_push(parser->arena, operands, operand);
    return true;
}

// An empty list is fine, which is why the caller knows what follows.
bool asm_operand_list(AsmParser *parser, AsmOperands *operands) {
    if (asm_peek(parser) != '%') return !parser->status;
    do {
        if (!asm_operand(parser, operands)) return false;
    } while (asm_eat(parser, ','));
    return true;
}

// MLIR repeats the types of operands at each use. They are compared, as otherwise the first half of a contradictory
// text would win. Marks the values as used: dead results need no instruction.
bool asm_set_operands(AsmParser *parser, MlirOperation *operation, const AsmOperands *operands,
                      const MlirType *const *types, int64_t type_count) {
    assert(operation && operands && type_count >= 0);
    if (parser->status) return false;
    if (operands->count != type_count) {
        const char *where = operands->count ? operands->items[0].at : parser->at;
        return asm_fail_at(parser, where, "%lld operands, but %lld operand types", (long long)operands->count,
                           (long long)type_count);
    }
    operation->operands = HLO_ARENA_NEW(parser->arena, MlirValue *, type_count);
    operation->operand_count = type_count;
    for (int64_t i = 0; i < type_count; i++) {
        const AsmOperand *operand = &operands->items[i];
        if (!mlir_type_equal(operand->value->type, types[i])) {
            return asm_fail_at(parser, operand->at, "this value was defined with a different type");
        }
        operand->value->is_used = true;
        operation->operands[i] = operand->value;
    }
    return true;
}

void asm_set_results(AsmParser *parser, MlirOperation *operation, const MlirType *const *types, int64_t count) {
    assert(operation && count >= 0);
    operation->results = HLO_ARENA_NEW(parser->arena, MlirValue *, count);
    operation->result_count = count;
    MlirValue *values = HLO_ARENA_NEW(parser->arena, MlirValue, count);
    for (int64_t i = 0; i < count; i++) {
        values[i].type = types[i];
        operation->results[i] = &values[i];
    }
}

// The name is not bound here, since its region has not begun yet.
bool asm_argument(AsmParser *parser, AsmValues *arguments, AsmSlice *name) {
    assert(arguments && name);
    if (!asm_expect(parser, '%')) return false;
    *name = value_name(parser);
    if (!asm_expect(parser, ':')) return false;
    MlirValue *value = HLO_ARENA_NEW(parser->arena, MlirValue, 1);
    value->type = asm_type(parser);
    if (!value->type) return false;
    value->location = asm_optional_location(parser);
    hlo_vector_push(parser->arena, arguments, value);
    return !parser->status;
}

// ---------------------------------------------------------------------------------------------------------------------
// Regions

// ^bb0(%arg0: type, ...):
// The block's own name is skipped: there is one block, and nothing branches to it.
static bool parse_label(AsmParser *parser, AsmValues *arguments) {
    parser->at++;
    value_name(parser);
    if (asm_eat(parser, '(') && !asm_eat(parser, ')')) {
        do {
            AsmSlice name;
            if (!asm_argument(parser, arguments, &name)) return false;
            MlirValue **values =
                hlo_arena_copy(parser->arena, &arguments->items[arguments->count - 1], sizeof(*values));
            if (!bind_name(parser, name, values, 1)) return false;
        } while (asm_eat(parser, ','));
        if (!asm_expect(parser, ')')) return false;
    }
    return asm_expect(parser, ':');
}

static bool parse_block(AsmParser *parser, MlirBlock *block) {
    HLO_VECTOR(MlirOperation *) operations = {0};
    while (asm_peek(parser) != '}' && *parser->at != '^') {
        MlirOperation *operation = asm_operation(parser);
        if (!operation) return false;
        hlo_vector_push(parser->arena, &operations, operation);
    }
    block->operations = operations.items;
    block->operation_count = operations.count;
    return !parser->status;
}

// `arguments` come from outside if the syntax has them there (functions, loops, reducers), else from a label. An empty
// region has no block: declarations and the empty branches of the generic form look like this.
static bool parse_body(AsmParser *parser, MlirRegion *region, const AsmValues *arguments, const AsmSlice *names) {
    MlirBlock *block = HLO_ARENA_NEW(parser->arena, MlirBlock, 1);
    AsmValues own = {0};
    if (arguments) {
        for (int64_t i = 0; i < arguments->count; i++) {
            MlirValue **values = hlo_arena_copy(parser->arena, &arguments->items[i], sizeof(*values));
            if (!bind_name(parser, names[i], values, 1)) return false;
        }
        own = *arguments;
    } else if (asm_peek(parser) == '^' && !parse_label(parser, &own)) {
        return false;
    }
    block->arguments = own.items;
    block->argument_count = own.count;
    if (!parse_block(parser, block)) return false;
    if (*parser->at == '^')
        return asm_fail_at(parser, parser->at, "a region of several blocks, which has no form in HLO");
    bool empty = block->operation_count == 0 && block->argument_count == 0;
    region->blocks = block;
    region->block_count = empty ? 0 : 1;
    return asm_expect(parser, '}');
}

// Names that are bound inside lose that meaning at the end, by unwinding the undo stack.
bool asm_region(AsmParser *parser, MlirRegion *region, const AsmValues *arguments, const AsmSlice *names,
                bool isolated) {
    assert(region);
    if (!asm_expect(parser, '{') || !asm_enter(parser)) return false;
    // Names from outside are not visible in an isolated region: they may be reused there.
    const int64_t outside = parser->scope;
    if (isolated) parser->scope = ++parser->scope_count;
    int64_t mark = parser->undo.count;
    bool done = parse_body(parser, region, arguments, names);
    parser->scope = outside;
    while (parser->undo.count > mark) {
        AsmUndo undo = parser->undo.items[--parser->undo.count];
        *undo.name = undo.before;
    }
    asm_leave(parser);
    return done;
}

void asm_new_regions(AsmParser *parser, MlirOperation *operation, int64_t count) {
    operation->regions = HLO_ARENA_NEW(parser->arena, MlirRegion, count);
    operation->region_count = count;
}

// ---------------------------------------------------------------------------------------------------------------------
// The generic form

// Sets the operation's attributes; the arrays are shared, not copied.
static void set_attributes(MlirOperation *operation, const AsmAttributes *attributes) {
    operation->attribute_names = attributes->names.items;
    operation->attributes = attributes->values.items;
    operation->attribute_count = attributes->names.count;
}

MlirOperation *asm_new_operation(AsmParser *parser, const char *name) {
    MlirOperation *operation = HLO_ARENA_NEW(parser->arena, MlirOperation, 1);
    operation->name = name;
    parser->needs_marks |= mlir_is_cast(name);
    operation->location = parser->unknown_location;
    return operation;
}

// ({...}, {...})
// MLIR's trait IsolatedFromAbove determines which operations isolate their regions from the names outside.
static bool parse_regions(AsmParser *parser, MlirOperation *operation) {
    HLO_VECTOR(MlirRegion) regions = {0};
    bool isolated = strcmp(operation->name, "func.func") == 0 || strcmp(operation->name, "builtin.module") == 0 ||
                    strcmp(operation->name, "sdy.manual_computation") == 0 || strcmp(operation->name, "chlo.scan") == 0;
    do {
        MlirRegion region = {0};
        if (!asm_region(parser, &region, NULL, NULL, isolated)) return false;
        hlo_vector_push(parser->arena, &regions, region);
    } while (asm_eat(parser, ','));
    operation->regions = regions.items;
    operation->region_count = regions.count;
    return asm_expect(parser, ')');
}

// Reads the rest of the generic form after the quoted name: (operands) <{properties}> ({regions}) {attributes} :
// (types) -> types. Properties are attributes that have a fixed position in newer versions of MLIR: the importer does
// not distinguish them.
static bool parse_generic(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes) {
    AsmOperand few[8];
    AsmOperands operands = {few, 0, HLO_COUNT_OF(few)};
    if (!asm_expect(parser, '(') || !asm_operand_list(parser, &operands) || !asm_expect(parser, ')')) return false;
    if (asm_peek(parser) == '[')
        return asm_fail_at(parser, parser->at, "a branch to other blocks, which HLO does not have");
    if (asm_eat(parser, '<') && (!asm_dictionary(parser, attributes) || !asm_expect(parser, '>'))) return false;
    if (asm_eat(parser, '(') && !parse_regions(parser, operation)) return false;
    if (asm_peek(parser) == '{' && !asm_dictionary(parser, attributes)) return false;
    if (!asm_expect(parser, ':')) return false;
    const MlirType *type = asm_function_type(parser);
    if (!type || !asm_set_operands(parser, operation, &operands, type->inputs, type->input_count)) return false;
    asm_set_results(parser, operation, type->results, type->result_count);
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Operations

typedef struct ResultName {
    AsmSlice name;
    int64_t count;
} ResultName;
typedef HLO_VECTOR(ResultName) ResultNames;

// %a:2, %b =
static bool parse_result_names(AsmParser *parser, ResultNames *names) {
    do {
        if (!asm_expect(parser, '%')) return false;
        ResultName result = {value_name(parser), 1};
        if (asm_eat(parser, ':') && !asm_integer(parser, &result.count)) return false;
        hlo_vector_push(parser->arena, names, result);
    } while (asm_eat(parser, ','));
    return asm_expect(parser, '=');
}

// %a:2, %b names three results; either all have names, or none.
static bool bind_results(AsmParser *parser, const MlirOperation *operation, const ResultNames *names, const char *at) {
    assert(operation && names);
    int64_t next = 0;
    for (int64_t i = 0; i < names->count; i++) {
        int64_t count = names->items[i].count;
        if (count < 1 || count > operation->result_count - next) {
            return asm_fail_at(parser, at, "the operation has %lld results, but a different number is named",
                               (long long)operation->result_count);
        }
        if (!bind_name(parser, names->items[i].name, operation->results + next, count)) return false;
        next += count;
    }
    if (names->count && next != operation->result_count) {
        return asm_fail_at(parser, at, "%lld of %lld results are named", (long long)next,
                           (long long)operation->result_count);
    }
    return true;
}

// The full name of an op: those of builtin and func may omit their dialect.
static const MlirOpInfo *find_op(AsmParser *parser, AsmSlice word, const char **name) {
    assert(name);
    const MlirOpInfo *info = hlo_string_map_get(&parser->ops, word.text, word.length);
    if (!info && !memchr(word.text, '.', word.length)) {
        static const char *const dialects[] = {"func.", "builtin."};
        for (size_t i = 0; i < HLO_COUNT_OF(dialects) && !info; i++) {
            const char *full = hlo_arena_format(parser->arena, "%s%.*s", dialects[i], (int)word.length, word.text);
            info = hlo_string_map_get(&parser->ops, full, strlen(full));
        }
    }
    *name = info ? info->name : hlo_arena_string(parser->arena, word.text, word.length);
    return info;
}

// True for operations of the module itself, which describe all of it.
static bool is_at_top(const AsmParser *parser) {
    return parser->depth == 1 || (parser->depth == 3 && parser->in_module);
}

// Skips the rest of an operation of an unknown dialect at the top of a module. Only MLIR knows where it ends: here, it
// ends at a line break, unless the next line cannot begin an operation. False, without an error, if it has values or a
// symbol, so that others may refer to it.
static bool skip_unknown(AsmParser *parser) {
    for (;;) {
        while (*parser->at == ' ' || *parser->at == '\t') parser->at++;
        const char next = *parser->at;
        const bool is_comment = next == '/' && parser->at[1] == '/';
        if (next == '\n' || next == '\r' || is_comment) {
            asm_skip(parser);
            if (!*parser->at || !strchr("([<{,=:-+*", *parser->at)) return true;
            if (parser->at[0] == '{' && parser->at[1] == '-' && parser->at[2] == '#') return true;
        } else if (!next || next == '}') {
            return true;
        } else if (next == '@' || next == '%' || next == '^') {
            return false;
        } else if (next == '"') {
            const char *string;
            if (!asm_string(parser, &string)) return false;
        } else {
            parser->at++;
            if (strchr("([<{", next) && !asm_skip_balanced(parser, next)) return false;
        }
    }
}

// Any operation in quotes can be read; an unknown name fails later, in the importer, which can give a better message.
// Without quotes it must be known, as its end cannot be found otherwise.
static bool parse_named(AsmParser *parser, MlirOperation **result, AsmAttributes *attributes) {
    const char *start = parser->at;
    if (*start == '"') {
        const char *spelled;
        if (!asm_string(parser, &spelled)) return false;
        AsmSlice word = {spelled, strlen(spelled)};
        const MlirOpInfo *info = hlo_string_map_get(&parser->ops, word.text, word.length);
        *result = asm_new_operation(parser, info ? info->name : spelled);
        if (parser->depth == 1) parser->in_module = !strcmp((*result)->name, "builtin.module");
        return parse_generic(parser, *result, attributes);
    }
    AsmSlice word = asm_word(parser);
    if (word.length == 0) return asm_expected(parser, "an operation");
    const char *name;
    const MlirOpInfo *info = find_op(parser, word, &name);
    *result = asm_new_operation(parser, name);
    if (parser->depth == 1) parser->in_module = !strcmp(name, "builtin.module");
    if (!info && is_at_top(parser) && mlir_is_foreign(name)) {
        if (skip_unknown(parser)) return true;
        if (parser->status) return false;
    }
    // `cross-replica-sum` has a dash, which no word has: it only occurs in quotes.
    if (!info || (!info->pretty && info->types != MLIR_TYPES_OWN)) {
        return asm_fail_at(parser, start, "the operation '%.*s' is unknown, or has no form without quotes",
                           (int)(word.length > 60 ? 60 : word.length), word.text);
    }
    if (info->types == MLIR_TYPES_OWN) return asm_own(parser, *result, attributes);
    return asm_pretty(parser, *result, info, attributes);
}

// Results are bound last, because operands and regions of an operation cannot see them. `offset` is one more than the
// position in the text, so that 0 means unknown (bytecode).
MlirOperation *asm_operation(AsmParser *parser) {
    ResultName few[4];
    ResultNames names = {few, 0, HLO_COUNT_OF(few)};
    AsmAttributes attributes = {0};
    MlirOperation *operation = NULL;
    if (asm_peek(parser) == '%' && !parse_result_names(parser, &names)) return NULL;
    asm_peek(parser);
    const char *start = parser->at;
    if (!asm_enter(parser)) return NULL;
    if (!parse_named(parser, &operation, &attributes)) return NULL;
    asm_leave(parser);
    operation->offset = start - parser->begin + 1;
    set_attributes(operation, &attributes);
    if (asm_peek(parser) == 'l') operation->location = asm_optional_location(parser);
    if (parser->status || !bind_results(parser, operation, &names, start)) return NULL;
    return operation;
}
