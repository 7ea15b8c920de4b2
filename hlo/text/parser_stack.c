// SPDX-License-Identifier: Apache-2.0
// The stack tables of a module: file names, function names, places in files, and frames that point to their parents.
// XLA keeps them only as far as instructions use them, numbered by first use; so do we, after the last instruction is
// read. Rows refer to each other by numbers from 1, frames to their parents; the numbers in the text are ignored but
// for their order.
#include <assert.h>

#include "hlo/text/parser.h"

// The keys of a row, each a number of 32 bits, all needed.
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

// 1 "name" a row.
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

// ---------------------------------------------------------------------------------------------------------------------
// Renumbering

typedef struct Renumbering {
    HloParser *parser;
    const HloStackTables *from;
    HloStackTables to;
    HloStringMap files, functions, places, frames;  // content -> new row number
    int64_t *frame_of;                              // new number by old one; 0: not yet, -1: invalid
} Renumbering;

// The number of `key` in a map of rows, adding it as number `next` if it is new. Rows count from 1, so that a number
// kept as a pointer is never NULL.
static int64_t number_of(Renumbering *work, HloStringMap *map, const void *key, size_t length, int64_t next) {
    assert(next > 0);
    void *found = hlo_string_map_get(map, key, length);
    if (found) return (int64_t)(intptr_t)found;
    hlo_string_map_set(work->parser->scratch, map, hlo_arena_copy(work->parser->scratch, key, length), length,
                       (void *)(intptr_t)next);
    return next;
}

// Numbers that lead nowhere stand for an empty name.
static int64_t add_string(Renumbering *work, HloStringMap *map, HloStringVector *to, const HloStringVector *from,
                          int64_t id) {
    const char *string = id >= 1 && id <= from->count ? from->items[id - 1] : "";
    int64_t number = number_of(work, map, string, strlen(string) + 1, to->count + 1);
    if (number > to->count) hlo_vector_push(work->parser->arena, to, string);
    return number;
}

// Equal places share a row.
static int64_t add_place(Renumbering *work, int64_t id) {
    assert(id >= 1 && id <= work->from->locations.count);
    HloFileLocation place = work->from->locations.items[id - 1];
    place.file_name_id =
        add_string(work, &work->files, &work->to.file_names, &work->from->file_names, place.file_name_id);
    place.function_name_id = add_string(work, &work->functions, &work->to.function_names, &work->from->function_names,
                                        place.function_name_id);
    int64_t number = number_of(work, &work->places, &place, sizeof(place), work->to.locations.count + 1);
    if (number > work->to.locations.count) hlo_vector_push(work->parser->arena, &work->to.locations, place);
    return number;
}

// The new number of a frame: its ancestors are added first. 0 when it, or an ancestor, does not exist. A loop and no
// recursion, since the stacks of recursive programs are deep.
static int64_t add_frame(Renumbering *work, int64_t id) {
    HloInt64Vector path = {0};
    int64_t frame_count = work->from->frames.count;
    int64_t parent = 0;
    while (id >= 1 && id <= frame_count && work->frame_of[id] == 0) {
        if (path.count > frame_count) break;
        hlo_vector_push(work->parser->scratch, &path, id);
        id = work->from->frames.items[id - 1].parent_frame_id;
    }
    // A frame that is its own ancestor is invalid, like one with an ancestor that does not exist.
    bool valid = id == 0 || (id >= 1 && id <= frame_count && work->frame_of[id] > 0);
    if (id >= 1 && valid) parent = work->frame_of[id];
    for (int64_t i = path.count - 1; i >= 0; i--) {
        int64_t place = work->from->frames.items[path.items[i] - 1].file_location_id;
        valid = valid && place >= 1 && place <= work->from->locations.count;
        if (!valid) {
            work->frame_of[path.items[i]] = -1;
            continue;
        }
        HloStackFrame frame = {.file_location_id = add_place(work, place), .parent_frame_id = parent};
        int64_t number = number_of(work, &work->frames, &frame, sizeof(frame), work->to.frames.count + 1);
        if (number > work->to.frames.count) hlo_vector_push(work->parser->arena, &work->to.frames, frame);
        work->frame_of[path.items[i]] = parent = number;
    }
    return valid ? parent : 0;
}

// Frames that no instruction uses disappear.
void hlo_parser_renumber_frames(HloParser *parser) {
    HloModule *module = parser->module;
    HloStackTables from = module->stack;
    Renumbering work = {.parser = parser, .from = &from};
    work.frame_of = HLO_ARENA_NEW(parser->scratch, int64_t, from.frames.count + 1);
    for (int64_t i = 0; i < parser->finished.count; i++) {
        for (HloInstruction *at = parser->finished.items[i]->first; at; at = at->next) {
            // The metadata was made by this parser and belongs to this instruction alone.
            HloMetadata *metadata = (HloMetadata *)(uintptr_t)at->metadata;
            if (!metadata || metadata->stack_frame_id == 0) continue;
            int64_t id = metadata->stack_frame_id;
            bool known = id >= 1 && id <= from.frames.count;
            metadata->stack_frame_id = !known ? 0 : work.frame_of[id] > 0 ? work.frame_of[id] : add_frame(&work, id);
        }
    }
    module->stack = work.to;
}
