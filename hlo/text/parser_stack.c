// SPDX-License-Identifier: Apache-2.0
// The stack tables of a module: file names, function names, positions in files, and frames that point to their parents.
// XLA keeps them only as far as instructions use them, numbered by first use; so do we, after the last instruction is
// read (hlo_module_renumber_frames()). Rows refer to each other by numbers from 1, frames to their parents; the numbers
// in the text are ignored except for their order.
#include <assert.h>

#include "hlo/text/parser.h"

// The keys of a row, each a number of 32 bits, all required.
static bool parse_row(HloParser *parser, const char *const *keys, int count, int64_t *values) {
    assert(count > 0 && count < 32 && values);
    uint32_t seen = 0;
    const char *start = parser->lexer.token.start;
    if (!hlo_parser_expect(parser, '{', "'{' of a row")) return false;
    while (hlo_parser_kind(parser) != '}') {
        const char *name;
        size_t length;
        if (seen) hlo_parser_eat(parser, ',');
        const char *where = parser->lexer.token.start;
        if (!hlo_parse_attribute_name(parser, &name, &length)) return false;
        int key = 0;
        while (key < count && strcmp(keys[key], name) != 0) key++;
        if (key == count || seen >> key & 1) return hlo_parser_fail(parser, where, "unknown or repeated '%s'", name);
        seen |= UINT32_C(1) << key;
        if (!hlo_parse_int(parser, &values[key])) return false;
        if (values[key] != (int32_t)values[key]) {
            return hlo_parser_fail(parser, where, "the value does not fit in 32 bits");
        }
    }
    if (seen != (UINT32_C(1) << count) - 1) return hlo_parser_fail(parser, start, "the row is not complete");
    hlo_lex(&parser->lexer);
    return true;
}

// 1 "name" per row.
static bool parse_strings(HloParser *parser, HloStringVector *strings) {
    while (hlo_parser_eat(parser, HLO_TOKEN_INT)) {
        const char *string;
        if (!hlo_parse_string(parser, &string)) return false;
        hlo_vector_push(parser->arena, strings, string);
    }
    return true;
}

static bool expect_heading(HloParser *parser, const char *word) {
    if (!hlo_parser_is_word(parser, word)) return HLO_PARSER_FAIL(parser, "expected %s", word);
    hlo_lex(&parser->lexer);
    return true;
}

// The reverse of printer.c's print_stack_tables(), which shows the form.
bool hlo_parse_stack_tables(HloParser *parser) {
    static const char *const place_keys[] = {"file_name_id", "function_name_id", "line",
                                             "end_line",     "column",           "end_column"};
    static const char *const frame_keys[] = {"file_location_id", "parent_frame_id"};
    if (!hlo_parser_is_word(parser, "FileNames")) return true;
    HloStackTables *stack = &parser->module->stack;
    hlo_lex(&parser->lexer);
    if (!parse_strings(parser, &stack->file_names) || !expect_heading(parser, "FunctionNames") ||
        !parse_strings(parser, &stack->function_names) || !expect_heading(parser, "FileLocations")) {
        return false;
    }
    int64_t v[6];
    while (hlo_parser_eat(parser, HLO_TOKEN_INT)) {
        if (!parse_row(parser, place_keys, 6, v)) return false;
        HloFileLocation place = {v[0], v[1], v[2], v[3], v[4], v[5]};
        hlo_vector_push(parser->arena, &stack->locations, place);
    }
    if (!expect_heading(parser, "StackFrames")) return false;
    while (hlo_parser_eat(parser, HLO_TOKEN_INT)) {
        if (!parse_row(parser, frame_keys, 2, v)) return false;
        HloStackFrame frame = {v[0], v[1] - 1};
        hlo_vector_push(parser->arena, &stack->frames, frame);
    }
    return true;
}
