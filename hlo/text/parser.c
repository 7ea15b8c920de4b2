// SPDX-License-Identifier: Apache-2.0
// The parser is a recursive descent over the lexer's one token; its functions are divided by topic into parser_*.c. It
// accepts what XLA's parser accepts (xla/hlo/parser/hlo_parser.cc), including its quirks, since text comes from many
// sources. Names and strings are terminated in place in a private copy of the text, which lives in the module's arena:
// nothing is copied twice.
//
// Lists of unknown length are collected on stacks that live as long as the parser (numbers, operands) and copied out
// when their length is known; a nested list pushes on the same stack, after its caller's items.
#include "hlo/text/parser.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

// The line and column of `where` in the private copy of the text; the strings are in scratch memory.
static HloPlace place_of(const HloParser *parser, const char *where) {
    assert(where);
    const char *begin = parser->original;
    const char *at = begin + (where - parser->lexer.begin);
    const char *line_start = at;
    while (line_start > begin && line_start[-1] != '\n') line_start--;
    int64_t line = 1;
    for (const char *c = begin; c < line_start; c++) line += *c == '\n';
    const char *end = begin + (parser->lexer.end - parser->lexer.begin);
    const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : end;
    size_t length = (size_t)((line_end ? line_end : end) - line_start);
    return (HloPlace){.file = parser->options.file,
                      .line = line,
                      .column = at - line_start + 1,
                      .line_text = hlo_arena_string(parser->scratch, line_start, length),
                      .instruction = parser->instruction_name};
}

bool hlo_parser_fail(HloParser *parser, const char *where, const char *format, ...) {
    assert(where && format);
    if (parser->status) return false;
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    HloPlace place = place_of(parser, where);
    parser->status = hlo_error_at(HLO_INVALID_ARGUMENT, &place, "%.500s", message);
    return false;
}

bool hlo_parser_enter(HloParser *parser) {
    if (parser->depth >= HLO_PARSE_DEPTH_LIMIT) {
        return HLO_PARSER_FAIL(parser, "nested more than %d levels deep", HLO_PARSE_DEPTH_LIMIT);
    }
    parser->depth++;
    return true;
}

// At most 40 characters of what was found are shown.
bool hlo_parser_unexpected(HloParser *parser, const char *what) {
    const HloToken *token = &parser->lexer.token;
    if (token->kind == HLO_TOKEN_END) return HLO_PARSER_FAIL(parser, "expected %s, but the text ends", what);
    int shown = token->length > 40 ? 40 : (int)token->length;
    return HLO_PARSER_FAIL(parser, "expected %s, not '%.*s'", what, shown, token->text);
}

bool hlo_parser_expect(HloParser *parser, int kind, const char *what) {
    return hlo_parser_eat(parser, kind) || hlo_parser_unexpected(parser, what);
}

bool hlo_parser_is_word(const HloParser *parser, const char *word) {
    const HloToken *token = &parser->lexer.token;
    return token->kind == HLO_TOKEN_IDENTIFIER && strlen(word) == token->length &&
           memcmp(word, token->text, token->length) == 0;
}

bool hlo_parser_is_type(const char *text, size_t length) {
    // All but pred, bf16, token and opaque have a digit after their first letter.
    if (length < 2 || length > 13 || !strchr("pstufbco", text[0]) || !strchr("0123456789rfop", text[1])) return false;
    HloType type = hlo_type_from_text(text, length);
    return type != HLO_INVALID && type != HLO_TUPLE && type != HLO_BUFFER;
}

// True for the words that cannot be names: element types, true, false, ROOT and so on. They are the keywords of XLA's
// hlo_lexer.cc: as names they could not be read back.
static bool is_reserved(const char *text, size_t length) {
    static const char *const words[] = {
        "true",      "false",         "inf",           "HloModule",   "ENTRY",     "ROOT",
        "FileNames", "FileLocations", "FunctionNames", "StackFrames", "maximal",   "replicated",
        "manual",    "shard_as",      "shard_like",    "unknown",     "unreduced", "last_tile_dim_replicate"};
    if (!strchr("tfiHERFSmrsulbcopa", text[0])) return false;
    for (size_t i = 0; i < HLO_COUNT_OF(words); i++) {
        if (words[i][0] == text[0] && strlen(words[i]) == length && memcmp(words[i], text, length) == 0) return true;
    }
    return hlo_parser_is_type(text, length);
}

bool hlo_parse_int(HloParser *parser, int64_t *value) {
    if (parser->lexer.token.kind != HLO_TOKEN_INT) return hlo_parser_unexpected(parser, "an integer");
    *value = parser->lexer.token.integer;
    hlo_lex(&parser->lexer);
    return true;
}

bool hlo_parse_double(HloParser *parser, double *value) {
    const HloToken *token = &parser->lexer.token;
    if (token->kind == HLO_TOKEN_DECIMAL) {
        if (isinf(token->decimal)) return HLO_PARSER_FAIL(parser, "the number does not fit in a double");
        *value = token->decimal;
    } else if (token->kind == HLO_TOKEN_INT) {
        // The minus of -0 is kept, though XLA reads +0: negative zeros are printed this way, and text must not lose
        // them.
        *value = token->integer == 0 && token->start[0] == '-' ? -0.0 : (double)token->integer;
    } else if (token->kind == HLO_TOKEN_NEGATIVE_INFINITY) {
        *value = -INFINITY;
    } else if (hlo_parser_is_word(parser, "inf")) {
        *value = INFINITY;
    } else {
        return hlo_parser_unexpected(parser, "a number");
    }
    hlo_lex(&parser->lexer);
    return true;
}

bool hlo_parse_bool(HloParser *parser, bool *value) {
    *value = hlo_parser_is_word(parser, "true");
    if (!*value && !hlo_parser_is_word(parser, "false")) {
        return hlo_parser_unexpected(parser, "true or false");
    }
    hlo_lex(&parser->lexer);
    return true;
}

bool hlo_parse_name(HloParser *parser, const char **name, size_t *length) {
    HloToken token = parser->lexer.token;
    bool plain = token.kind == HLO_TOKEN_IDENTIFIER;
    if ((!plain && token.kind != HLO_TOKEN_NAME) || (plain && is_reserved(token.text, token.length))) {
        return hlo_parser_unexpected(parser, "a name");
    }
    hlo_lex(&parser->lexer);
    token.text[token.length] = 0;
    *name = token.text;
    *length = token.length;
    return true;
}

bool hlo_parse_attribute_name(HloParser *parser, const char **name, size_t *length) {
    HloToken token = parser->lexer.token;
    if (token.kind != HLO_TOKEN_ATTRIBUTE) {
        return hlo_parser_unexpected(parser, "an attribute, name=value");
    }
    hlo_lex(&parser->lexer);
    token.text[token.length] = 0;
    *name = token.text;
    *length = token.length;
    return true;
}

// Escapes are resolved in place; the result is never longer.
bool hlo_parse_string(HloParser *parser, const char **string) {
    HloToken token = parser->lexer.token;
    if (token.kind != HLO_TOKEN_STRING) return hlo_parser_unexpected(parser, "a string");
    if (token.escaped && hlo_quoted_unescape(token.text, token.length) < 0) {
        return HLO_PARSER_FAIL(parser, "malformed escape in a string, or an escaped NUL");
    }
    hlo_lex(&parser->lexer);
    if (!token.escaped) token.text[token.length] = 0;
    *string = token.text;
    return true;
}

bool hlo_parse_string_or_json(HloParser *parser, const char **string, bool *is_json) {
    *is_json = parser->lexer.token.kind == '{';
    if (!*is_json) return hlo_parse_string(parser, string);
    if (!hlo_lex_json(&parser->lexer)) return HLO_PARSER_FAIL(parser, "the braces of a JSON object do not match");
    return hlo_parse_string(parser, string);
}

// No numbers give a NULL list, as in a zeroed record.
HloInts hlo_parser_pop_numbers(HloParser *parser, int64_t base) {
    assert(base >= 0 && base <= parser->numbers.count);
    HloInts ints = {.count = parser->numbers.count - base};
    if (ints.count > 0) {
        ints.items = hlo_arena_copy(parser->arena, parser->numbers.items + base, (size_t)ints.count * sizeof(int64_t));
    }
    parser->numbers.count = base;
    return ints;
}

// `close` may directly follow `open`; separators may not be missing or repeated.
bool hlo_parse_ints(HloParser *parser, int open, int close, int separator, HloInts *ints) {
    const char what_open[] = {'\'', (char)open, '\'', 0};
    const char what_close[] = {'\'', (char)close, '\'', 0};
    if (!hlo_parser_expect(parser, open, what_open)) return false;
    int64_t base = parser->numbers.count;
    if (parser->lexer.token.kind != close) {
        do {
            int64_t value = 0;
            if (!hlo_parse_int(parser, &value)) return false;
            hlo_vector_push(parser->scratch, &parser->numbers, value);
        } while (hlo_parser_eat(parser, separator));
    }
    *ints = hlo_parser_pop_numbers(parser, base);
    return hlo_parser_expect(parser, close, what_close);
}

bool hlo_parse_ints_list(HloParser *parser, HloIntsList *list) {
    HLO_VECTOR(HloInts) items = {0};
    if (!hlo_parser_expect(parser, '{', "'{'")) return false;
    if (parser->lexer.token.kind != '}') {
        do {
            HloInts ints;
            if (!hlo_parse_ints(parser, '{', '}', ',', &ints)) return false;
            hlo_vector_push(parser->arena, &items, ints);
        } while (hlo_parser_eat(parser, ','));
    }
    *list = (HloIntsList){.items = items.items, .count = items.count};
    return hlo_parser_expect(parser, '}', "'}'");
}

bool hlo_parse_index(HloParser *parser, HloInts *index) {
    return hlo_parse_ints(parser, '{', '}', ',', index);
}

bool hlo_parse_bools(HloParser *parser, bool or_single, HloBools *bools) {
    HLO_VECTOR(bool) items = {0};
    bool value = false;
    if (or_single && parser->lexer.token.kind != '{') {
        if (!hlo_parse_bool(parser, &value)) return false;
        *bools = (HloBools){.items = hlo_arena_copy(parser->arena, &value, sizeof(value)), .count = 1};
        return true;
    }
    if (!hlo_parser_expect(parser, '{', "'{'")) return false;
    if (parser->lexer.token.kind != '}') {
        do {
            if (!hlo_parse_bool(parser, &value)) return false;
            hlo_vector_push(parser->arena, &items, value);
        } while (hlo_parser_eat(parser, ','));
    }
    *bools = (HloBools){.items = items.items, .count = items.count};
    return hlo_parser_expect(parser, '}', "'}'");
}

bool hlo_parser_expect_end(HloParser *parser) {
    if (hlo_parser_kind(parser) == HLO_TOKEN_END) return true;
    return HLO_PARSER_FAIL(parser, "unexpected text after the end");
}

// ---------------------------------------------------------------------------------------------------------------------
// Entry points.

typedef struct Job {
    HloParser parser;
    size_t length;
    bool (*parse)(HloParser *parser, void *result);
    void *result;
} Job;

// Runs under hlo_protect(): a jump leaks nothing, since everything is allocated in arenas that run() frees.
static HloStatus run_job(void *argument) {
    Job *job = argument;
    HloParser *parser = &job->parser;
    HloLexer *lexer = &parser->lexer;
    lexer->begin = hlo_arena_string(parser->arena, parser->original, job->length);
    lexer->end = lexer->begin + job->length;
    lexer->at = lexer->begin;
    if (job->length >= 3 && !memcmp(lexer->at, "\xEF\xBB\xBF", 3)) lexer->at += 3;  // a byte-order mark
    hlo_parser_index_opcodes(parser);
    hlo_vector_reserve(parser->scratch, &parser->operands, 16);
    hlo_vector_reserve(parser->scratch, &parser->numbers, 16);
    hlo_lex(lexer);
    bool ok = job->parse(parser, job->result);
    HLO_BUG_IF(ok != (parser->status == NULL));
    return parser->status;
}

// Runs `parse` over a private copy of the text; the copy lives in `arena`, because names and strings point into it.
static HloStatus run(HloArena *arena, HloModule *module, const char *text, size_t length,
                     const HloParseOptions *options, bool (*parse)(HloParser *parser, void *result), void *result) {
    assert(arena && parse);
    assert(text || length == 0);
    Job job = {.parser = {.original = text, .arena = arena, .module = module},
               .length = length,
               .parse = parse,
               .result = result};
    if (options) job.parser.options = *options;
    job.parser.scratch = hlo_arena_new();
    job.parser.names = hlo_arena_new();
    HloStatus status = HLO_SUCCESS;
    if (!job.parser.scratch || !job.parser.names) {
        status = hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    } else {
        status = hlo_protect(run_job, &job);
    }
    // When memory ran out after an error was already recorded, that error is dropped.
    if (job.parser.status && job.parser.status != status) hlo_status_free(job.parser.status);
    hlo_arena_free(job.parser.scratch);
    hlo_arena_free(job.parser.names);
    return status;
}

static bool parse_module(HloParser *parser, void *result) {
    (void)result;
    return hlo_parse_module(parser);
}

HloStatus hlo_parse(const char *text, size_t length, const HloParseOptions *options, HloModule **module) {
    assert(module);
    *module = NULL;
    HloModule *made = hlo_module_new("module");
    if (!made) return hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = run(made->arena, made, text, length, options, parse_module, NULL);
    if (status) {
        hlo_module_free(made);
        return status;
    }
    *module = made;
    return HLO_SUCCESS;
}

// Parses the module again, and replaces the error's position by that of the instruction it names (or of the module's
// first token if it names none). An error about an instruction that the text does not have is left unchanged.
static bool find_place(HloParser *parser, void *result) {
    HloStatus *status = result;
    const HloPlace *old = hlo_status_place(*status);
    const char *where = old && old->instruction ? NULL : parser->lexer.token.start;
    parser->keeps_places = true;
    if (!hlo_parse_module(parser)) return false;
    for (int64_t i = 0; old && old->instruction && i < parser->defined.count; i++) {
        const HloDefinition *definition = &parser->defined.items[i];
        if (strcmp(definition->instruction->name, old->instruction) == 0) where = definition->where;
    }
    if (!where) return true;  // an instruction that the library made
    HloPlace place = place_of(parser, where);
    if (old) place.instruction = old->instruction;
    HloText source = {0};
    if (old && old->file && old->line > 0) hlo_text_format(&source, " (%s:%lld)", old->file, (long long)old->line);
    HloStatus placed = hlo_error_at(hlo_status_code(*status), &place, "%s%s", hlo_status_message(*status),
                                    source.data ? source.data : "");
    hlo_text_free(&source);
    hlo_status_free(*status);
    *status = placed;
    return true;
}

// Errors of later stages name an instruction; its position is only needed for the one error, so the text is parsed
// again instead of keeping a position for each instruction.
HloStatus hlo_status_place_in_text(HloStatus status, const char *text, size_t length, const HloParseOptions *options) {
    assert(text || length == 0);
    bool about_text = status && hlo_status_code(status) != HLO_RESOURCE_EXHAUSTED;
    HloModule *module = about_text ? hlo_module_new("module") : NULL;
    if (!module) return status;
    // If the text does not parse, or memory is short, the error is left unchanged.
    hlo_status_free(run(module->arena, module, text, length, options, find_place, &status));
    hlo_module_free(module);
    return status;
}

static bool parse_shape(HloParser *parser, void *result) {
    return hlo_parse_shape_here(parser, result) && hlo_parser_expect_end(parser);
}

HloStatus hlo_parse_shape(HloArena *arena, const char *text, size_t length, const HloShape **shape) {
    return run(arena, NULL, text, length, NULL, parse_shape, shape);
}

static bool parse_sharding(HloParser *parser, void *result) {
    return hlo_parse_sharding_here(parser, result) && hlo_parser_expect_end(parser);
}

HloStatus hlo_parse_sharding(HloArena *arena, const char *text, size_t length, const HloSharding **sharding) {
    return run(arena, NULL, text, length, NULL, parse_sharding, sharding);
}

static bool parse_groups(HloParser *parser, void *result) {
    return hlo_parse_replica_groups_here(parser, result) && hlo_parser_expect_end(parser);
}

HloStatus hlo_parse_replica_groups(HloArena *arena, const char *text, size_t length, const HloReplicaGroups **groups) {
    return run(arena, NULL, text, length, NULL, parse_groups, groups);
}

static bool parse_literal(HloParser *parser, void *result) {
    HloLiteral *literal;
    if (!hlo_parse_literal_here(parser, &literal) || !hlo_parser_expect_end(parser)) return false;
    *(const HloLiteral **)result = literal;
    return true;
}

HloStatus hlo_parse_literal(HloArena *arena, const char *text, size_t length, const HloLiteral **literal) {
    return run(arena, NULL, text, length, NULL, parse_literal, literal);
}

static bool parse_window(HloParser *parser, void *result) {
    return hlo_parse_window_here(parser, hlo_parser_kind(parser) == '{', result) && hlo_parser_expect_end(parser);
}

HloStatus hlo_parse_window(HloArena *arena, const char *text, size_t length, const HloWindow **window) {
    return run(arena, NULL, text, length, NULL, parse_window, window);
}

static bool parse_padding(HloParser *parser, void *result) {
    return hlo_parse_padding_here(parser, true, result) && hlo_parser_expect_end(parser);
}

HloStatus hlo_parse_padding(HloArena *arena, const char *text, size_t length, HloPadding *padding) {
    return run(arena, NULL, text, length, NULL, parse_padding, padding);
}
