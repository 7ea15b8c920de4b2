// SPDX-License-Identifier: Apache-2.0
// Shapes and layouts. A shape that has occurred before is found by its text, without lexing it again.
//
// Programs name some dozen shapes thousands of times. The text of a shape is delimited by a quick scan (array_end(),
// tuple_end()) and looked up in a table; only a shape that is not in it is parsed, and recorded if the parser agrees on
// its end. Shapes are immutable, so all uses share one.
//
//   bf16[16,<=128]{1,0:T(8,128)(2,1)S(5)}      type, sizes (<= before a bound, ? for none), minor_to_major, and after
//                                              the colon: tiles, alignment, index types, element size, memory space
//   (f32[2], s32[])                            a tuple
#include <assert.h>

#include "hlo/text/parser.h"

// The end of an array shape that is written without blanks, type[dims]{layout}, or NULL.
static char *array_end(char *at) {
    while (hlo_lex_is_name_character(*at)) at++;
    if (*at != '[') return NULL;
    while (*at != ']') {
        if (*at == 0 || *at == '\n') return NULL;
        at++;
    }
    at++;
    if (at[0] != '{' || !(at[1] == ':' || (at[1] >= '0' && at[1] <= '9'))) return at;
    while (*at != '}') {
        if (*at == 0 || *at == '\n') return NULL;
        at++;
    }
    return at + 1;
}

// The end of a tuple shape on one line, or NULL.
static char *tuple_end(char *at) {
    int64_t depth = 0;
    for (;; at++) {
        if (*at == '(') depth++;
        if (*at == ')' && --depth == 0) return at + 1;
        if (*at == 0 || *at == '\n') return NULL;
    }
}

// Linear probing in a table that is at most three quarters full.
static HloShapeEntry *shape_slot(HloShapeEntry *entries, int64_t capacity, const char *text, size_t length,
                                 uint32_t hash) {
    assert(capacity > 0 && (capacity & (capacity - 1)) == 0);
    for (uint64_t i = hash & (uint64_t)(capacity - 1);; i = (i + 1) & (uint64_t)(capacity - 1)) {
        HloShapeEntry *entry = &entries[i];
        if (!entry->shape) return entry;
        if (entry->hash == hash && entry->length == length && memcmp(entry->text, text, length) == 0) return entry;
    }
}

// The entry of the text, free (without a shape) if it is new.
static HloShapeEntry *find_shape(HloParser *parser, const char *text, size_t length) {
    assert(text && length > 0);
    if (4 * (parser->shape_count + 1) > 3 * parser->shape_capacity) {
        int64_t capacity = parser->shape_capacity ? parser->shape_capacity * 2 : 64;
        HloShapeEntry *entries = HLO_ARENA_NEW(parser->scratch, HloShapeEntry, capacity);
        for (int64_t i = 0; i < parser->shape_capacity; i++) {
            const HloShapeEntry *old = &parser->shapes[i];
            if (old->shape) *shape_slot(entries, capacity, old->text, old->length, old->hash) = *old;
        }
        parser->shapes = entries;
        parser->shape_capacity = capacity;
    }
    uint32_t hash = (uint32_t)hlo_hash_bytes(text, length);
    HloShapeEntry *entry = shape_slot(parser->shapes, parser->shape_capacity, text, length, hash);
    if (!entry->shape) *entry = (HloShapeEntry){.text = text, .length = (uint32_t)length, .hash = hash};
    return entry;
}

// A type's name followed by a bracket; `b(` is a buffer. Names of instructions look the same otherwise.
bool hlo_parser_at_shape(const HloParser *parser) {
    const HloToken *token = &parser->lexer.token;
    if (token->kind == '(') return true;
    if (token->kind != HLO_TOKEN_IDENTIFIER || token->length > 13) return false;
    if (*parser->lexer.at == '[') return true;
    char next = hlo_lex_peek(&parser->lexer);
    if (token->length == 1 && token->text[0] == 'b') return next == '(';
    return next == '[';
}

// [2,<=3,?]: <=3 is a bound, ? means no bound.
static bool parse_dims(HloParser *parser, HloType type, HloShape *shape) {
    if (!hlo_parser_expect(parser, '[', "'[' of a shape")) return false;
    bool dynamic[HLO_MAXIMUM_RANK] = {0};
    bool any_dynamic = false;
    int64_t base = parser->numbers.count;
    if (hlo_parser_kind(parser) != ']') {
        do {
            int64_t rank = parser->numbers.count - base;
            if (rank >= HLO_MAXIMUM_RANK) return HLO_PARSER_FAIL(parser, "more than %d dimensions", HLO_MAXIMUM_RANK);
            int64_t size = HLO_UNBOUNDED;
            dynamic[rank] = hlo_parser_eat(parser, '?');
            if (!dynamic[rank]) {
                dynamic[rank] = hlo_parser_eat(parser, HLO_TOKEN_LESS_EQUAL);
                const char *where = parser->lexer.token.start;
                if (!hlo_parse_int(parser, &size)) return false;
                if (size < 0) return hlo_parser_fail(parser, where, "a dimension cannot be negative");
            }
            any_dynamic |= dynamic[rank];
            hlo_vector_push(parser->scratch, &parser->numbers, size);
        } while (hlo_parser_eat(parser, ','));
    }
    HloInts dims = hlo_parser_pop_numbers(parser, base);
    HloStatus status = hlo_shape_check_dims(type, dims.items, dims.count);
    if (status) {
        HLO_PARSER_FAIL(parser, "%s", hlo_status_message(status));
        hlo_status_free(status);
        return false;
    }
    if (dims.count && !hlo_type_is_array(type))
        return HLO_PARSER_FAIL(parser, "%s has no dimensions", hlo_type_text(type));
    shape->rank = (int32_t)dims.count;
    shape->dims = dims.items;
    if (any_dynamic) shape->dynamic = hlo_arena_copy(parser->arena, dynamic, (size_t)dims.count * sizeof(bool));
    return hlo_parser_expect(parser, ']', "']' of a shape");
}

// (8,128)(2,1) after T.
static bool parse_tiles(HloParser *parser, HloLayout *layout) {
    HLO_VECTOR(HloInts) tiles = {0};
    do {
        int64_t base = parser->numbers.count;
        if (!hlo_parser_expect(parser, '(', "'(' of a tile")) return false;
        if (hlo_parser_kind(parser) != ')') {
            do {
                int64_t size = HLO_TILE_COMBINE;
                if (!hlo_parser_eat(parser, '*') && !hlo_parse_int(parser, &size)) return false;
                hlo_vector_push(parser->scratch, &parser->numbers, size);
            } while (hlo_parser_eat(parser, ','));
        }
        hlo_vector_push(parser->arena, &tiles, hlo_parser_pop_numbers(parser, base));
        if (!hlo_parser_expect(parser, ')', "')' of a tile")) return false;
    } while (hlo_parser_kind(parser) == '(');
    layout->tiles = tiles.items;
    layout->tile_count = tiles.count;
    return true;
}

// (D,C+,S~): XLA reads dimension level types and discards them, because only dense arrays are left.
static bool skip_level_types(HloParser *parser) {
    if (!hlo_parser_expect(parser, '(', "'('")) return false;
    if (hlo_parser_kind(parser) != ')') {
        do {
            if (!hlo_parser_is_word(parser, "D") && !hlo_parser_is_word(parser, "C") &&
                !hlo_parser_is_word(parser, "S") && !hlo_parser_is_word(parser, "H")) {
                return HLO_PARSER_FAIL(parser, "expected a dimension level type: D, C, S or H");
            }
            hlo_lex(&parser->lexer);
            hlo_parser_eat(parser, '+');
            hlo_parser_eat(parser, '~');
        } while (hlo_parser_eat(parser, ','));
    }
    return hlo_parser_expect(parser, ')', "')'");
}

// (0:1,2)(1:3) after SC.
static bool parse_splits(HloParser *parser, HloLayout *layout) {
    HLO_VECTOR(HloSplit) splits = {0};
    do {
        HloSplit split = {0};
        if (!hlo_parser_expect(parser, '(', "'('") || !hlo_parse_int(parser, &split.dimension) ||
            !hlo_parse_ints(parser, ':', ')', ',', &split.indices)) {
            return false;
        }
        hlo_vector_push(parser->arena, &splits, split);
    } while (hlo_parser_kind(parser) == '(');
    layout->splits = splits.items;
    layout->split_count = splits.count;
    return true;
}

// (number)
static bool parse_in_parentheses(HloParser *parser, int64_t *value) {
    return hlo_parser_expect(parser, '(', "'('") && hlo_parse_int(parser, value) &&
           hlo_parser_expect(parser, ')', "')'");
}

// (u32) after # or *.
static bool parse_unsigned_type(HloParser *parser, HloType *type) {
    if (!hlo_parser_expect(parser, '(', "'('")) return false;
    const HloToken *token = &parser->lexer.token;
    *type = token->kind == HLO_TOKEN_IDENTIFIER ? hlo_type_from_text(token->text, token->length) : HLO_INVALID;
    if (hlo_type_kind(*type) != HLO_KIND_UNSIGNED) return HLO_PARSER_FAIL(parser, "expected an unsigned integer type");
    hlo_lex(&parser->lexer);
    return hlo_parser_expect(parser, ')', "')'");
}

static bool eat_word(HloParser *parser, const char *word) {
    if (!hlo_parser_is_word(parser, word)) return false;
    hlo_lex(&parser->lexer);
    return true;
}

// The part after the ':' of a layout, in this fixed order.
static bool parse_layout_extras(HloParser *parser, HloLayout *layout) {
    if (eat_word(parser, "D") && !skip_level_types(parser)) return false;
    if (eat_word(parser, "T") && !parse_tiles(parser, layout)) return false;
    if (eat_word(parser, "L") && !parse_in_parentheses(parser, &layout->tail_padding_alignment)) return false;
    if (layout->tail_padding_alignment < 1) return HLO_PARSER_FAIL(parser, "L(...) must be positive");
    if (hlo_parser_eat(parser, '#') && !parse_unsigned_type(parser, &layout->index_type)) return false;
    if (hlo_parser_eat(parser, '*') && !parse_unsigned_type(parser, &layout->pointer_type)) return false;
    if (eat_word(parser, "E") && !parse_in_parentheses(parser, &layout->element_size_in_bits)) return false;
    if (eat_word(parser, "S") && !parse_in_parentheses(parser, &layout->memory_space)) return false;
    if (eat_word(parser, "SC") && !parse_splits(parser, layout)) return false;
    if (hlo_parser_is_word(parser, "P")) {
        return HLO_PARSER_FAIL(parser, "a layout has a physical shape, but the array is not sparse");
    }
    return !eat_word(parser, "M") || parse_in_parentheses(parser, &layout->dynamic_metadata_bytes);
}

// Ranks are at most 64 (parse_dims()), so that a word holds a set of dimensions.
static bool check_permutation(HloParser *parser, const char *where, HloInts order, int64_t rank) {
    assert(rank >= 0);
    uint64_t seen = 0;
    if (order.count != rank) {
        return hlo_parser_fail(parser, where, "the shape has %lld dimensions, but its layout orders %lld",
                               (long long)rank, (long long)order.count);
    }
    for (int64_t i = 0; i < rank; i++) {
        int64_t dimension = order.items[i];
        if (dimension < 0 || dimension >= rank || seen >> dimension & 1) {
            return hlo_parser_fail(parser, where, "the layout does not name each dimension once");
        }
        seen |= UINT64_C(1) << dimension;
    }
    return true;
}

// {1,0:T(8,128)...}: the order, then the part after the colon.
static bool parse_layout(HloParser *parser, HloShape *shape) {
    HloLayout *layout = HLO_ARENA_NEW(parser->arena, HloLayout, 1);
    layout->tail_padding_alignment = 1;
    const char *where = parser->lexer.token.start;
    hlo_lex(&parser->lexer);
    int64_t base = parser->numbers.count;
    if (hlo_parser_kind(parser) == HLO_TOKEN_INT) {
        do {
            int64_t dimension;
            if (!hlo_parse_int(parser, &dimension)) return false;
            hlo_vector_push(parser->scratch, &parser->numbers, dimension);
        } while (hlo_parser_eat(parser, ','));
    }
    layout->minor_to_major = hlo_parser_pop_numbers(parser, base);
    if (hlo_parser_eat(parser, ':') && !parse_layout_extras(parser, layout)) return false;
    if (!check_permutation(parser, where, layout->minor_to_major, shape->rank)) return false;
    shape->layout = layout;
    return hlo_parser_expect(parser, '}', "'}' of a layout");
}

// A brace may also open the body of a computation or a literal: only a number or a colon makes it a layout.
static bool at_layout(const HloParser *parser) {
    if (hlo_parser_kind(parser) != '{') return false;
    char next = hlo_lex_peek(&parser->lexer);
    return next == ':' || (next >= '0' && next <= '9');
}

// A shape without a layout has the default one, row-major.
static bool parse_array(HloParser *parser, const HloShape **result) {
    const HloToken *token = &parser->lexer.token;
    HloType type = token->kind == HLO_TOKEN_IDENTIFIER ? hlo_type_from_text(token->text, token->length) : HLO_INVALID;
    if (type == HLO_INVALID || type == HLO_TUPLE || type == HLO_BUFFER) {
        return hlo_parser_unexpected(parser, "a shape");
    }
    hlo_lex(&parser->lexer);
    HloShape *shape = HLO_ARENA_NEW(parser->arena, HloShape, 1);
    shape->type = type;
    if (!parse_dims(parser, type, shape)) return false;
    if (at_layout(parser) && !parse_layout(parser, shape)) return false;
    *result = shape->layout ? shape : hlo_shape_with_default_layout(parser->arena, shape);
    return true;
}

static bool parse_elements(HloParser *parser, const HloShape **result) {
    HLO_VECTOR(const HloShape *) elements = {0};
    hlo_lex(&parser->lexer);
    if (hlo_parser_kind(parser) != ')') {
        do {
            const HloShape *element;
            if (!hlo_parse_shape_here(parser, &element)) return false;
            hlo_vector_push(parser->scratch, &elements, element);
        } while (hlo_parser_eat(parser, ','));
    }
    const HloShape **items = NULL;
    if (elements.count > 0) {
        items = hlo_arena_copy(parser->arena, elements.items, (size_t)elements.count * sizeof(*items));
    }
    *result = hlo_shape_tuple(parser->arena, items, elements.count);
    return hlo_parser_expect(parser, ')', "')' of a tuple shape");
}

// b(f32[2]): a mutable buffer of XLA, which contains an array.
static bool parse_buffer(HloParser *parser, const HloShape **result) {
    hlo_lex(&parser->lexer);
    hlo_lex(&parser->lexer);
    const char *where = parser->lexer.token.start;
    const HloShape **element = HLO_ARENA_NEW(parser->arena, const HloShape *, 1);
    if (!hlo_parse_shape_here(parser, element)) return false;
    if (!hlo_shape_is_array(*element)) return hlo_parser_fail(parser, where, "a buffer must hold an array");
    HloShape *shape = HLO_ARENA_NEW(parser->arena, HloShape, 1);
    *shape = (HloShape){.type = HLO_BUFFER, .element_count = 1, .elements = element};
    *result = shape;
    return hlo_parser_expect(parser, ')', "')' of a buffer shape");
}

static bool parse_any(HloParser *parser, const HloShape **shape) {
    if (hlo_parser_kind(parser) == '(') return parse_elements(parser, shape);
    if (hlo_parser_is_word(parser, "b") && hlo_lex_peek(&parser->lexer) == '(') return parse_buffer(parser, shape);
    return parse_array(parser, shape);
}

// Programs name few shapes many times: the text of a shape, delimited by a quick scan, is looked up before it is read
// token by token. The parsed shape is stored under that text, unless the parser ended elsewhere than the scan.
bool hlo_parse_shape_here(HloParser *parser, const HloShape **shape) {
    assert(shape);
    char *start = parser->lexer.token.start;
    int kind = hlo_parser_kind(parser);
    char *end = kind == '(' ? tuple_end(start) : kind == HLO_TOKEN_IDENTIFIER ? array_end(start) : NULL;
    if (end) {
        const HloShape *known = find_shape(parser, start, (size_t)(end - start))->shape;
        const HloLexer before = parser->lexer;
        if (known) {
            *shape = known;
            parser->lexer.at = end;
            hlo_lex(&parser->lexer);
            // A layout after a blank belongs to the shape too, though not to the text that was looked up.
            if (kind == '(' || end[-1] == '}' || !at_layout(parser)) return true;
            parser->lexer = before;
        }
    }
    if (!hlo_parser_enter(parser)) return false;
    bool ok = parse_any(parser, shape);
    parser->depth--;
    // Only a shape whose text ends exactly at `end` is stored.
    if (ok && end && parser->lexer.last_end == end) {
        HloShapeEntry *entry = find_shape(parser, start, (size_t)(end - start));
        if (!entry->shape) {
            entry->shape = *shape;
            parser->shape_count++;
        }
    }
    return ok;
}

bool hlo_parse_shapes(HloParser *parser, HloShapes *shapes) {
    HLO_VECTOR(const HloShape *) items = {0};
    if (!hlo_parser_expect(parser, '{', "'{'")) return false;
    if (hlo_parser_kind(parser) != '}') {
        do {
            const HloShape *shape;
            if (!hlo_parse_shape_here(parser, &shape)) return false;
            hlo_vector_push(parser->arena, &items, shape);
        } while (hlo_parser_eat(parser, ','));
    }
    // {} differs from an absent list.
    if (items.count == 0) items.items = HLO_ARENA_NEW(parser->arena, const HloShape *, 1);
    *shapes = (HloShapes){.items = items.items, .count = items.count};
    return hlo_parser_expect(parser, '}', "'}'");
}
