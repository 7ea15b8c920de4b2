// SPDX-License-Identifier: Apache-2.0
// Reads types of MLIR text. Types are compared by structure (mlir_type_equal()), but shared where that is cheap:
// tensors by their spelling and functions by the types in them, since a program names few of them thousands of times.
// Sharing also lets the importer convert each once (MlirType.lowered). Grammar: mlir LangRef, "Type system", and
// StablehloTypes.td.
#include <assert.h>

#include "hlo/stablehlo/text/parser.h"

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// i32, ui8, f32, index and so on; the word has been read. Widths that HLO has no type for give MLIR_TYPE_OTHER: only a
// program that computes with that type is refused.
static const MlirType *named_type(AsmParser *parser, AsmSlice word) {
    static const struct {
        const char *name;
        HloType type;
    } floats[] = {
        {"f32", HLO_F32},
        {"f64", HLO_F64},
        {"f16", HLO_F16},
        {"bf16", HLO_BF16},
        {"f8E5M2", HLO_F8E5M2},
        {"f8E4M3", HLO_F8E4M3},
        {"f8E4M3FN", HLO_F8E4M3FN},
        {"f8E5M2FNUZ", HLO_F8E5M2FNUZ},
        {"f8E4M3FNUZ", HLO_F8E4M3FNUZ},
        {"f8E4M3B11FNUZ", HLO_F8E4M3B11FNUZ},
        {"f8E3M4", HLO_F8E3M4},
        {"f8E8M0FNU", HLO_F8E8M0FNU},
        {"f4E2M1FN", HLO_F4E2M1FN},
    };
    const char *text = word.text;
    size_t prefix = word.length > 1 && text[0] != 'i' && text[1] == 'i' ? 2 : 1;
    if ((text[0] == 'i' || prefix == 2) && word.length > prefix && is_digit(text[prefix])) {
        uint64_t width = 0;
        size_t i = prefix;
        for (; i < word.length && is_digit(text[i]) && width < 10000; i++)
            width = width * 10 + (uint64_t)(text[i] - '0');
        if (i == word.length && (prefix == 1 || text[0] == 'u' || text[0] == 's')) {
            return mlir_integer_type(parser->arena, width, text[0] == 'u');
        }
    }
    for (size_t i = 0; i < HLO_COUNT_OF(floats); i++) {
        if (asm_slice_is(word, floats[i].name)) return mlir_element_type(parser->arena, floats[i].type);
    }
    if (asm_slice_is(word, "index")) return mlir_new_type(parser->arena, (MlirType){.kind = MLIR_TYPE_INDEX});
    if (asm_slice_is(word, "none")) return mlir_new_type(parser->arena, (MlirType){.kind = MLIR_TYPE_NONE});
    if (asm_slice_is(word, "f6E2M3FN") || asm_slice_is(word, "f6E3M2FN")) {
        return mlir_other_type(parser->arena, "6-bit float type");
    }
    if (asm_slice_is(word, MLIR_TF32) || asm_slice_is(word, "f80") || asm_slice_is(word, "f128")) {
        return mlir_other_type(parser->arena, hlo_arena_string(parser->arena, word.text, word.length));
    }
    asm_fail_at(parser, word.text, "'%.*s' is not a type", (int)(word.length > 40 ? 40 : word.length), word.text);
    return NULL;
}

// The sizes of 2x?x3xf32, up to the element type.
// A size and its x are one token to MLIR too: `2x3` must not be read as a hexadecimal number.
static bool parse_sizes(AsmParser *parser, HloInt64Vector *sizes) {
    assert(sizes);
    for (;;) {
        char next = asm_peek(parser);
        int64_t size = -1;
        if (next == '?') {
            parser->at++;
        } else if (is_digit(next)) {
            const char *start = parser->at;
            uint64_t number = 0;
            for (; is_digit(*parser->at) && number < UINT64_C(1) << 58; parser->at++) {
                number = number * 10 + (uint64_t)(*parser->at - '0');
            }
            if (is_digit(*parser->at)) return asm_fail_at(parser, start, "a dimension is too large");
            size = (int64_t)number;
        } else {
            return !parser->status;
        }
        hlo_vector_push(parser->arena, sizes, size);
        if (*parser->at != 'x') return asm_expected(parser, "'x' after a size");
        parser->at++;
    }
}

// Reads the part after the comma: bounds of dynamic dimensions, or an encoding that does not affect them.
static bool parse_encoding(AsmParser *parser, HloInts *bounds, bool *has_bounds) {
    if (asm_eat_mark(parser, "#stablehlo.bounds")) {
        *has_bounds = true;
        return asm_int_list(parser, '<', '>', bounds);
    }
    if (asm_eat_mark(parser, "#stablehlo.type_extensions")) {
        *has_bounds = true;
        return asm_expect(parser, '<') && asm_expect_word(parser, "bounds") && asm_expect(parser, '=') &&
               asm_int_list(parser, '[', ']', bounds) && asm_expect(parser, '>');
    }
    const MlirAttribute *attribute = asm_attribute(parser);
    if (attribute && attribute->kind == MLIR_BOUNDS) {
        *bounds = attribute->ints;
        *has_bounds = true;
    }
    return attribute != NULL;
}

// Reads the rest after `tensor<` (or memref<), including the `>`. An unranked tensor may occur in a program that never
// uses it. mlir_tensor_type() checks the sizes.
static const MlirType *parse_tensor(AsmParser *parser) {
    const char *start = parser->at;
    if (asm_eat(parser, '*')) {
        if (*parser->at == 'x') parser->at++;
        bool closed = asm_type(parser) && asm_expect(parser, '>');
        return closed ? mlir_other_type(parser->arena, "unranked tensor") : NULL;
    }
    HloInt64Vector sizes = {0};
    HloInts bounds = {0};
    bool has_bounds = false;
    if (!parse_sizes(parser, &sizes)) return NULL;
    const MlirType *element = asm_type(parser), *type = NULL;
    if (!element) return NULL;
    if (asm_eat(parser, ',') && !parse_encoding(parser, &bounds, &has_bounds)) return NULL;
    if (!asm_expect(parser, '>')) return NULL;
    HloStatus status =
        mlir_tensor_type(parser->arena, element, sizes.items, sizes.count, has_bounds ? &bounds : NULL, &type);
    if (!asm_take(parser, start, status)) return NULL;
    parser->needs_marks |= type->is_open;
    return type;
}

// Types repeat: each spelling is parsed once, and the same spelling is the same pointer.
static const MlirType *cached_tensor(AsmParser *parser) {
    const char *start = parser->at, *at = start;
    while (*at && *at != '>' && *at != '<') at++;
    if (*at != '>') return parse_tensor(parser);  // complex or bounds: rare, and not known where they end
    size_t length = (size_t)(at - start);
    const MlirType *type = hlo_string_map_get(&parser->types, start, length);
    if (type) {
        parser->at = at + 1;
        return type;
    }
    type = parse_tensor(parser);
    if (type) hlo_string_map_set(parser->arena, &parser->types, start, length, (void *)(uintptr_t)type);
    return type;
}

// Reads the rest after `tuple<`; its total size is checked where it is made.
static const MlirType *parse_tuple(AsmParser *parser) {
    AsmTypes types = {0};
    const char *start = parser->at;
    if (!asm_eat(parser, '>') && (!asm_type_list(parser, &types) || !asm_expect(parser, '>'))) return NULL;
    const MlirType *tuple = NULL;
    HloStatus status = mlir_tuple_type(parser->arena, types.items, types.count, &tuple);
    return asm_take(parser, start, status) ? tuple : NULL;
}

// !stablehlo.token, !stablehlo.future<...>, !quant.uniform<...>, or an alias.
static const MlirType *parse_dialect_type(AsmParser *parser) {
    const char *start = parser->at++;
    AsmSlice name = asm_word(parser);
    if (name.length == 0) {
        asm_expected(parser, "the name of a type");
        return NULL;
    }
    AsmSlice whole = {start, name.length + 1};
    if (asm_slice_is(name, "stablehlo.token") || asm_slice_is(name, "mhlo.token")) {
        const HloShape *token = hlo_shape_token(parser->arena);
        return mlir_new_type(parser->arena, (MlirType){.kind = MLIR_TYPE_SHAPE, .shape = token});
    }
    if (asm_slice_is(name, "stablehlo.future") && *parser->at == '<') {
        parser->at++;
        const MlirType *content = asm_type(parser);
        return content && asm_expect(parser, '>') ? mlir_future_type(parser->arena, content) : NULL;
    }
    if (!memchr(name.text, '.', name.length) && *parser->at != '<') return asm_alias(parser, whole, true);
    if (*parser->at == '<') {
        parser->at++;
        if (!asm_skip_balanced(parser, '<')) return NULL;
    }
    bool quantised = name.length >= 6 && memcmp(name.text, "quant.", 6) == 0;
    const char *text = quantised ? "quantized type" : hlo_arena_string(parser->arena, start, whole.length);
    return mlir_other_type(parser->arena, text);
}

// Words that begin a type only together with an angle bracket; *known is false for all others.
static const MlirType *parse_with_body(AsmParser *parser, AsmSlice word, bool *known) {
    *known = true;
    bool has_body = asm_peek(parser) == '<';
    if (has_body && asm_slice_is(word, "tensor")) {
        parser->at++;
        return cached_tensor(parser);
    }
    if (has_body && asm_slice_is(word, "complex")) {
        parser->at++;
        const MlirType *part = asm_type(parser);
        return part && asm_expect(parser, '>') ? mlir_complex_type(parser->arena, part) : NULL;
    }
    if (has_body && asm_slice_is(word, "tuple")) {
        parser->at++;
        return parse_tuple(parser);
    }
    if (has_body && (asm_slice_is(word, "memref") || asm_slice_is(word, "vector"))) {
        parser->at++;
        if (!asm_skip_balanced(parser, '<')) return NULL;
        return mlir_other_type(parser->arena, word.text[0] == 'm' ? "buffer" : "vector");
    }
    *known = false;
    return NULL;
}

static const MlirType *parse_type(AsmParser *parser) {
    char next = asm_peek(parser);
    if (next == '!') return parse_dialect_type(parser);
    if (next == '(') return asm_function_type(parser);
    AsmSlice word = asm_word(parser);
    if (word.length == 0) {
        asm_expected(parser, "a type");
        return NULL;
    }
    bool known;
    const MlirType *type = parse_with_body(parser, word, &known);
    return known ? type : named_type(parser, word);
}

const MlirType *asm_type(AsmParser *parser) {
    if (!asm_enter(parser)) return NULL;
    const MlirType *type = parse_type(parser);
    asm_leave(parser);
    return type;
}

// Only a guess by the first characters, where either an attribute or a type may follow: asm_type() decides.
bool asm_at_type(AsmParser *parser) {
    static const char *const words[] = {"tensor<", "complex<", "tuple<", "memref<", "vector<"};
    char next = asm_peek(parser);
    if (next == '!' || next == '(') return true;
    for (size_t i = 0; i < HLO_COUNT_OF(words); i++) {
        if (strncmp(parser->at, words[i], strlen(words[i])) == 0) return true;
    }
    const char *at = parser->at;
    if (at[0] == 'i' && (is_digit(at[1]) || strncmp(at, "index", 5) == 0)) return true;
    if (at[0] == 'n') return strncmp(at, "none", 4) == 0;
    if ((at[0] == 's' || at[0] == 'u') && at[1] == 'i') return is_digit(at[2]);
    return (at[0] == 'f' && is_digit(at[1])) || strncmp(at, "bf16", 4) == 0 || strncmp(at, "tf32", 4) == 0;
}

bool asm_type_list(AsmParser *parser, AsmTypes *types) {
    assert(types);
    do {
        const MlirType *type = asm_type(parser);
        if (!type) return false;
        hlo_vector_push(parser->arena, types, type);
    } while (asm_eat(parser, ','));
    return true;
}

bool asm_result_types(AsmParser *parser, AsmTypes *types) {
    assert(types);
    if (asm_peek(parser) != '(') {
        const MlirType *type = asm_type(parser);
        if (type) hlo_vector_push(parser->arena, types, type);
        return type != NULL;
    }
    parser->at++;
    if (asm_eat(parser, ')')) return true;
    return asm_type_list(parser, types) && asm_expect(parser, ')');
}

// The key is the list of pointers itself, with a NULL between inputs and results.
const MlirType *asm_function_type(AsmParser *parser) {
    const MlirType *few[16];
    AsmTypes all = {few, 0, HLO_COUNT_OF(few)};
    if (!asm_expect(parser, '(')) return NULL;
    if (!asm_eat(parser, ')') && (!asm_type_list(parser, &all) || !asm_expect(parser, ')'))) return NULL;
    if (!asm_eat_mark(parser, "->")) {
        asm_expected(parser, "'->'");
        return NULL;
    }
    const int64_t inputs = all.count;
    hlo_vector_push(parser->arena, &all, NULL);
    if (!asm_result_types(parser, &all)) return NULL;
    // Nearly every operation names one, and nearly all repeat: each is made once.
    const size_t bytes = (size_t)all.count * sizeof(*all.items);
    const MlirType *known = hlo_string_map_get(&parser->functions, (const char *)all.items, bytes);
    if (known) return known;
    const MlirType **items = hlo_arena_copy(parser->arena, all.items, bytes);
    const MlirType *type = mlir_new_type(parser->arena, (MlirType){.kind = MLIR_TYPE_FUNCTION,
                                                                   .inputs = items,
                                                                   .input_count = inputs,
                                                                   .results = items + inputs + 1,
                                                                   .result_count = all.count - inputs - 1});
    hlo_string_map_set(parser->arena, &parser->functions, (const char *)items, bytes, (void *)(uintptr_t)type);
    return type;
}
