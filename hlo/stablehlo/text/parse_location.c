// SPDX-License-Identifier: Apache-2.0
// Reads aliases and locations of MLIR text. A location becomes an attribute of kind MLIR_LOCATION: with a string
// alone a file and line, with a string and one child a name, else a list of others (fused, or callee and caller).
// Columns and ranges are read and dropped, since HLO's metadata for them is unused. Grammar: mlir LangRef, "Locations".
#include "hlo/stablehlo/text/parser.h"

// ---------------------------------------------------------------------------------------------------------------------
// Aliases

// An alias is parsed at its first use, wherever it is defined, and shared by all uses: thousands of operations name the
// same #loc. `is_busy` detects aliases that contain themselves, which would recurse forever.
const void *asm_alias(AsmParser *parser, AsmSlice name, bool is_type) {
    AsmAlias *alias = hlo_string_map_get(&parser->aliases, name.text, name.length);
    if (!alias) {
        asm_fail_at(parser, name.text, "'%.*s' is not defined", (int)(name.length > 60 ? 60 : name.length), name.text);
        return NULL;
    }
    if (alias->parsed) return alias->parsed;
    if (alias->is_busy) {
        asm_fail_at(parser, name.text, "'%.*s' is part of itself", (int)(name.length > 60 ? 60 : name.length),
                    name.text);
        return NULL;
    }
    const char *after = parser->at;
    alias->is_busy = true;
    parser->at = alias->at;
    alias->parsed = is_type ? (const void *)asm_type(parser) : (const void *)asm_attribute(parser);
    alias->is_busy = false;
    parser->at = after;
    return alias->parsed;
}

// ---------------------------------------------------------------------------------------------------------------------
// Locations

static const MlirAttribute *parse_inner(AsmParser *parser);

// `items` is kept, not copied: it is in the arena.
static const MlirAttribute *make_location(AsmParser *parser, const char *text, int64_t line,
                                          const MlirAttribute *const *items, int64_t count) {
    return asm_make(
        parser,
        (MlirAttribute){.kind = MLIR_LOCATION, .string = text, .integer = line, .items = items, .count = count});
}

// A line or a column.
static bool parse_position(AsmParser *parser, int64_t *number) {
    const char *where = parser->at;
    if (!asm_integer(parser, number)) return false;
    return (*number >= 0 && *number <= UINT32_MAX) ||
           asm_fail_at(parser, where, "a line or column must be a number from 0 to 4294967295");
}

// "file":1:2, "file":1:2 to 3:4, or "name" with the named location in parentheses.
static const MlirAttribute *parse_quoted(AsmParser *parser) {
    const char *text = NULL;
    int64_t line = 0;
    if (!asm_string(parser, &text)) return NULL;
    if (asm_eat(parser, ':')) {
        int64_t number;
        if (!parse_position(parser, &line)) return NULL;
        if (asm_eat(parser, ':') && !parse_position(parser, &number)) return NULL;
        if (asm_eat_word(parser, "to")) {
            if (asm_peek(parser) != ':' && !parse_position(parser, &number)) return NULL;
            if (asm_eat(parser, ':') && !parse_position(parser, &number)) return NULL;
        }
        return make_location(parser, text, line, NULL, 0);
    }
    const MlirAttribute **child = HLO_ARENA_NEW(parser->arena, const MlirAttribute *, 1);
    *child = parser->unknown_location;
    if (asm_eat(parser, '(')) {
        *child = parse_inner(parser);
        if (!*child || !asm_expect(parser, ')')) return NULL;
    }
    return make_location(parser, text, 0, child, 1);
}

// A caller that is named by an alias beyond this depth is not read: nothing of it is used, and a call stack may be
// deeper than our own stack allows.
static bool skips_caller(AsmParser *parser) {
    if (parser->depth < ASM_DEEPEST / 2 || asm_peek(parser) != '#') return false;
    const char *start = parser->at++;
    const AsmSlice word = asm_word(parser);
    if (!hlo_string_map_get(&parser->aliases, start, word.length + 1)) {
        parser->at = start;  // the reader of aliases reports it
        return false;
    }
    return true;
}

// callsite(callee at caller)
static const MlirAttribute *parse_call_site(AsmParser *parser) {
    const MlirAttribute **children = HLO_ARENA_NEW(parser->arena, const MlirAttribute *, 2);
    if (!asm_expect(parser, '(')) return NULL;
    children[0] = parse_inner(parser);
    if (!children[0] || !asm_expect_word(parser, "at")) return NULL;
    children[1] = skips_caller(parser) ? parser->unknown_location : parse_inner(parser);
    if (!children[1] || !asm_expect(parser, ')')) return NULL;
    return make_location(parser, NULL, 0, children, 2);
}

// fused<metadata>[a, b]
static const MlirAttribute *parse_fused(AsmParser *parser) {
    HLO_VECTOR(const MlirAttribute *) items = {0};
    if (asm_eat(parser, '<') && (!asm_attribute(parser) || !asm_expect(parser, '>'))) return NULL;
    if (!asm_expect(parser, '[')) return NULL;
    while (!asm_eat(parser, ']')) {
        if (items.count && !asm_expect(parser, ',')) return NULL;
        const MlirAttribute *item = parse_inner(parser);
        if (!item) return NULL;
        hlo_vector_push(parser->arena, &items, item);
    }
    return make_location(parser, NULL, 0, items.items, items.count);
}

// A string is allowed after `#`, since an alias may be text of an unknown dialect.
static const MlirAttribute *parse_any(AsmParser *parser) {
    char next = asm_peek(parser);
    if (next == '"') return parse_quoted(parser);
    if (next == '#') {
        const MlirAttribute *attribute = asm_attribute(parser);
        if (attribute && attribute->kind != MLIR_LOCATION && attribute->kind != MLIR_STRING) {
            asm_expected(parser, "a location");
        }
        return parser->status ? NULL : attribute;
    }
    if (asm_eat_word(parser, "unknown")) return parser->unknown_location;
    if (asm_eat_word(parser, "callsite")) return parse_call_site(parser);
    if (asm_eat_word(parser, "fused")) return parse_fused(parser);
    if (strncmp(parser->at, "loc(", 4) == 0) return asm_location(parser);
    asm_expected(parser, "a location");
    return NULL;
}

static const MlirAttribute *parse_inner(AsmParser *parser) {
    if (!asm_enter(parser)) return NULL;
    const MlirAttribute *location = parse_any(parser);
    asm_leave(parser);
    return location;
}

// Locations nest (loc inside loc, call sites of call sites): parse_inner() counts the levels.
const MlirAttribute *asm_location(AsmParser *parser) {
    if (!asm_expect_word(parser, "loc") || !asm_expect(parser, '(')) return NULL;
    const MlirAttribute *location = parse_inner(parser);
    return location && asm_expect(parser, ')') ? location : NULL;
}

const MlirAttribute *asm_optional_location(AsmParser *parser) {
    if (asm_peek(parser) == 'l' && strncmp(parser->at, "loc(", 4) == 0) return asm_location(parser);
    return parser->unknown_location;
}
