// SPDX-License-Identifier: Apache-2.0
// Reads whole files of MLIR text: aliases and resources are located first, then the module is read. There are two
// passes over the text: aliases may be used before the line that defines them (JAX puts all #loc lines last) and
// resources always are, so one quick scan of the beginnings of lines notes where they are, and the parser goes there at
// the first use. Source of the file's grammar: mlir LangRef, "top level productions".
#include <assert.h>

#include "hlo/stablehlo/text/parser.h"

// ---------------------------------------------------------------------------------------------------------------------
// Definitions that may come after their uses

// `#name = ...` and `!name = ...` at the beginning of a line. No string or operation can begin a line with these marks.
static void note_alias(AsmParser *parser, const char *line) {
    assert(line);
    const char *at = line + 1;
    while ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || *at == '_' ||
           *at == '$') {
        at++;
    }
    const char *after = at;
    while (*after == ' ' || *after == '\t' || *after == '\r' || *after == '\n') after++;
    if (*after != '=' || at == line + 1) return;
    AsmAlias *alias = HLO_ARENA_NEW(parser->arena, AsmAlias, 1);
    alias->at = after + 1;
    hlo_string_map_set(parser->arena, &parser->aliases, line, (size_t)(at - line), alias);
}

// key: "0x..." of the section {-# dialect_resources: { builtin: { ... } } #-} that begins at `at`; returns its end, or
// that of the text if it has none, which skip_resources() will report.
static const char *note_resources(AsmParser *parser, const char *at) {
    const char *found = strstr(at, "#-}"), *end = found ? found : parser->end;
    while (at < end) {
        const char *quote = memchr(at, '"', (size_t)(end - at));
        const char *close = quote ? memchr(quote + 1, '"', (size_t)(end - quote - 1)) : NULL;
        if (!close) break;
        at = close + 1;
        if (quote[1] != '0' || quote[2] != 'x') continue;
        const char *key_end = quote;
        while (key_end > parser->begin && (key_end[-1] == ' ' || key_end[-1] == ':')) key_end--;
        const char *key = key_end;
        while (key > parser->begin && !strchr(" \t\n{,\"", key[-1])) key--;
        AsmSlice *digits = HLO_ARENA_NEW(parser->arena, AsmSlice, 1);
        *digits = (AsmSlice){quote + 3, (size_t)(close - quote - 3)};
        hlo_string_map_set(parser->arena, &parser->resources, key, (size_t)(key_end - key), digits);
    }
    return end;
}

// A line's first character suffices: strings of MLIR have no line breaks in them, and operations begin with % or ". A
// section of resources is read once, whatever its own lines begin with.
static void note_definitions(AsmParser *parser) {
    const char *line = parser->at;
    while (line < parser->end) {
        while (*line == ' ' || *line == '\t' || *line == '\r') line++;
        if (*line == '#' || *line == '!') note_alias(parser, line);
        if (line[0] == '{' && line[1] == '-' && line[2] == '#') line = note_resources(parser, line);
        const char *newline = memchr(line, '\n', (size_t)(parser->end - line));
        line = newline ? newline + 1 : parser->end;
    }
}

// The table of mlir/dialect.def as a map: every operation is looked up in it, and a list would be searched 200 deep.
static void note_ops(AsmParser *parser) {
    int64_t count;
    const MlirOpInfo *table = mlir_op_table(&count);
    for (int64_t i = 0; i < count; i++) {
        hlo_string_map_set(parser->arena, &parser->ops, table[i].name, strlen(table[i].name),
                           (void *)(uintptr_t)&table[i]);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// The file

// Moves past `#name = attribute`, which is parsed so that errors in it are reported.
static bool skip_alias(AsmParser *parser) {
    bool is_type = *parser->at == '!';
    const char *start = parser->at++;
    AsmSlice word = asm_word(parser);
    if (word.length == 0) return asm_expected(parser, "the name of an alias");
    if (!asm_expect(parser, '=')) return false;
    AsmAlias *alias = hlo_string_map_get(&parser->aliases, start, word.length + 1);
    if (!alias) return asm_fail_at(parser, start, "an alias must begin a line");
    return is_type ? asm_type(parser) != NULL : asm_attribute(parser) != NULL;
}

// Their contents were noted before; only the end has to be found.
static bool skip_resources(AsmParser *parser) {
    parser->at++;
    const char *end = strstr(parser->at, "#-}");
    if (!end) return asm_fail_at(parser, parser->at, "unterminated resources");
    parser->at = end + 3;
    return true;
}

// Operations, alias definitions and the section of resources in any order. asm_peek() returns NUL both at a NUL and at
// the end, so the end is checked explicitly.
static MlirOperation *parse_file(AsmParser *parser) {
    HLO_VECTOR(MlirOperation *) operations = {0};
    while (asm_peek(parser)) {
        if (*parser->at == '#' || *parser->at == '!') {
            if (!skip_alias(parser)) return NULL;
        } else if (parser->at[0] == '{' && parser->at[1] == '-') {
            if (!skip_resources(parser)) return NULL;
        } else {
            MlirOperation *operation = asm_operation(parser);
            if (!operation) return NULL;
            hlo_vector_push(parser->arena, &operations, operation);
        }
    }
    if (parser->at < parser->end) asm_fail_at(parser, parser->at, "a NUL in the text");
    if (parser->status) return NULL;
    if (operations.count == 1 && strcmp(operations.items[0]->name, "builtin.module") == 0) return operations.items[0];
    // Functions without a module around them form one.
    MlirOperation *module = asm_new_operation(parser, "builtin.module");
    MlirBlock *block = HLO_ARENA_NEW(parser->arena, MlirBlock, 1);
    *block = (MlirBlock){.operations = operations.items, .operation_count = operations.count};
    asm_new_regions(parser, module, 1);
    module->regions[0] = (MlirRegion){.blocks = block, .block_count = 1};
    return module;
}

// The text is copied so that it ends with NUL, which avoids a check for the end at every character. Marks (mlir_mark())
// are only set if the text had something to mark: most programs have neither casts nor open sizes.
HloStatus mlir_read_text(HloArena *arena, const char *file, const char *text, size_t length, MlirOperation **top) {
    assert(arena && top && (text || length == 0));
    AsmParser *parser = HLO_ARENA_NEW(arena, AsmParser, 1);
    parser->arena = arena;
    parser->file = file;
    parser->begin = parser->at = hlo_arena_string(arena, text, length);
    parser->end = parser->begin + length;
    parser->at = asm_skip_byte_order_mark(parser->begin, length);
    parser->unknown_location = mlir_new_attribute(arena, (MlirAttribute){.kind = MLIR_LOCATION});
    note_ops(parser);
    note_definitions(parser);
    *top = parse_file(parser);
    if (*top && parser->needs_marks) mlir_mark(*top);
    return parser->status;
}

HloStatus mlir_parse_attribute(HloArena *arena, const char *text, size_t length, const MlirAttribute **attribute) {
    assert(arena && attribute && (text || length == 0));
    AsmParser *parser = HLO_ARENA_NEW(arena, AsmParser, 1);
    parser->arena = arena;
    parser->begin = parser->at = hlo_arena_string(arena, text, length);
    parser->end = parser->begin + length;
    parser->unknown_location = mlir_new_attribute(arena, (MlirAttribute){.kind = MLIR_LOCATION});
    *attribute = asm_attribute(parser);
    if (*attribute && asm_peek(parser)) asm_expected(parser, "the end");
    return parser->status;
}
