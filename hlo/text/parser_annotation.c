// SPDX-License-Identifier: Apache-2.0
// Metadata, frontend attributes, statistics and origins. These are the annotations of an instruction that do not affect
// its op. Some (statistics, origins) are unused here: their syntax is checked, and they are kept as the text that XLA
// would print, so that a module survives a round trip.
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "hlo/text/parser.h"
#include "hlo/text/text.h"

typedef HLO_VECTOR(char) CharVector;

// The keys of metadata: strings, or numbers of 32 bits.
static const struct {
    const char *name;
    size_t length;
    size_t offset;
    bool is_string;
} metadata_keys[] = {
#define STRING(key) \
    { #key, sizeof(#key) - 1, offsetof(HloMetadata, key), true }
#define NUMBER(key) \
    { #key, sizeof(#key) - 1, offsetof(HloMetadata, key), false }
#define PAYLOAD \
    { "metadata_payload", sizeof("metadata_payload") - 1, offsetof(HloMetadata, payload), true }
    STRING(op_name),
    NUMBER(stack_frame_id),
    STRING(op_type),
    STRING(source_file),
    NUMBER(source_line),
    NUMBER(source_end_line),
    NUMBER(source_column),
    NUMBER(source_end_column),
    STRING(deduplicated_name),
    STRING(scheduling_name),
    PAYLOAD,
#undef STRING
#undef NUMBER
#undef PAYLOAD
};

// {1,2}: the kinds of profile that the op comes from; kept as text.
static bool parse_profile_type(HloParser *parser, HloMetadata *metadata) {
    HloInts types;
    char text[64] = "";
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_ints(parser, '{', '}', ',', &types)) return false;
    for (int64_t i = 0; i < types.count; i++) {
        if (types.items[i] < 0 || types.items[i] > 4 || i >= 30) {
            return hlo_parser_fail(parser, where, "unknown profile type");
        }
        if (i > 0) text[2 * i - 1] = ',';
        text[2 * i] = (char)('0' + types.items[i]);
    }
    metadata->profile_type = hlo_arena_text(parser->arena, text);
    return true;
}

// The keys of OpMetadata in xla_data.proto that occur in text; each may occur once.
static bool parse_metadata_key(HloParser *parser, HloMetadata *metadata, uint32_t *seen) {
    const char *name;
    size_t length;
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_attribute_name(parser, &name, &length)) return false;
    uint32_t bit = 1;
    for (size_t i = 0; i < HLO_COUNT_OF(metadata_keys); i++, bit <<= 1) {
        if (metadata_keys[i].length != length || memcmp(metadata_keys[i].name, name, length) != 0) continue;
        if (*seen & bit) return hlo_parser_fail(parser, where, "%s is given twice", name);
        *seen |= bit;
        void *to = (char *)metadata + metadata_keys[i].offset;
        if (metadata_keys[i].is_string) return hlo_parse_string(parser, to);
        where = parser->lexer.token.start;
        int64_t *number = to;
        if (!hlo_parse_int(parser, number)) return false;
        return *number == (int32_t)*number || hlo_parser_fail(parser, where, "the value does not fit in 32 bits");
    }
    if (strcmp(name, "profile_type") == 0 && !(*seen & bit)) {
        *seen |= bit;
        return parse_profile_type(parser, metadata);
    }
    return hlo_parser_fail(parser, where, "unknown or repeated metadata '%s'", name);
}

// Entries are separated by blanks in XLA's output and by commas in older text.
bool hlo_parse_metadata(HloParser *parser, const HloMetadata **result) {
    HloMetadata *metadata = HLO_ARENA_NEW(parser->arena, HloMetadata, 1);
    uint32_t seen = 0;
    *result = metadata;
    if (!hlo_parser_expect(parser, '{', "'{' of metadata")) return false;
    while (hlo_parser_kind(parser) != '}') {
        if (seen) hlo_parser_eat(parser, ',');
        if (!parse_metadata_key(parser, metadata, &seen)) return false;
    }
    hlo_lex(&parser->lexer);
    return true;
}

bool hlo_parse_frontend_attributes(HloParser *parser, HloKeyValues *attributes) {
    HLO_VECTOR(HloKeyValue) items = {0};
    if (!hlo_parser_expect(parser, '{', "'{' of frontend_attributes")) return false;
    if (hlo_parser_kind(parser) != '}') {
        do {
            HloKeyValue next = {0};
            size_t length;
            bool is_json;
            if (!hlo_parse_attribute_name(parser, &next.key, &length) ||
                !hlo_parse_string_or_json(parser, &next.value, &is_json)) {
                return false;
            }
            hlo_vector_push(parser->scratch, &items, next);
        } while (hlo_parser_eat(parser, ','));
    }
    *attributes = hlo_key_values_sorted(parser->arena, items.items, items.count);
    return hlo_parser_expect(parser, '}', "'}' of frontend_attributes");
}

// {visualizing_index=0,name=1.5,...}; kept as the text between the braces, numbers with six digits as XLA prints them.
bool hlo_parse_statistics(HloParser *parser, const char **text) {
    const char *name;
    size_t length;
    int64_t index;
    double value;
    *text = NULL;
    if (!hlo_parser_expect(parser, '{', "'{' of statistics")) return false;
    if (hlo_parser_eat(parser, '}')) return true;
    if (!hlo_parse_attribute_name(parser, &name, &length) || !hlo_parse_int(parser, &index)) return false;
    CharVector written = {0};
    char *entry = hlo_arena_format(parser->scratch, "visualizing_index=%lld", (long long)index);
    for (int64_t count = 0;; count++) {
        for (const char *c = entry; *c; c++) hlo_vector_push(parser->scratch, &written, *c);
        if (!hlo_parser_eat(parser, ',')) {
            if (count == 0) return hlo_parser_expect(parser, '}', "'}' of statistics");
            break;
        }
        if (!hlo_parse_attribute_name(parser, &name, &length) || !hlo_parse_double(parser, &value)) return false;
        entry = hlo_arena_format(parser->scratch, ",%s=%g", name, value);
    }
    *text = hlo_arena_string(parser->arena, written.items, (size_t)written.count);
    return hlo_parser_expect(parser, '}', "'}' of statistics");
}

// {"name" {1,2}}, {"name"} or {}, whose name is NULL.
static bool parse_original_array(HloParser *parser, HloOriginalArray *array) {
    *array = (HloOriginalArray){0};
    if (!hlo_parser_expect(parser, '{', "'{' of an original array")) return false;
    if (hlo_parser_kind(parser) == HLO_TOKEN_STRING) {
        if (!hlo_parse_string(parser, &array->name)) return false;
        if (hlo_parser_kind(parser) == '{' && !hlo_parse_index(parser, &array->index)) return false;
    }
    return hlo_parser_expect(parser, '}', "'}' of an original array");
}

// As parse_original_array(); *text is the array as we print it, in the parser's arena, regardless of the original
// escapes.
static bool parse_original_text(HloParser *parser, const char **text) {
    HloOriginalArray array;
    HloText written = {0};
    if (!parse_original_array(parser, &array)) return false;
    if (array.name) {
        hlo_original_array_print(&written, &array);
    } else {
        hlo_text_string(&written, "{}");
    }
    *text = hlo_text_to_arena(parser->arena, &written);
    return true;
}

// A text without its NUL.
static void append(HloParser *parser, CharVector *written, const char *text) {
    for (; *text; text++) hlo_vector_push(parser->scratch, written, *text);
}

// {[synthetic_call]} or {({"a"}, {"b"})}; kept as the text between the outer braces, with the blanks that XLA prints.
bool hlo_parse_origin(HloParser *parser, const char **text) {
    if (!hlo_parser_expect(parser, '{', "'{' of origin")) return false;
    int64_t open = 0;
    CharVector written = {0};
    if (hlo_parser_eat(parser, '[')) {
        if (!hlo_parser_is_word(parser, "synthetic_call")) return HLO_PARSER_FAIL(parser, "expected synthetic_call");
        hlo_lex(&parser->lexer);
        if (!hlo_parser_expect(parser, ']', "']'")) return false;
        append(parser, &written, "[synthetic_call]");
    } else {
        while (hlo_parser_kind(parser) != '}') {
            int kind = hlo_parser_kind(parser);
            open += kind == '(' ? 1 : kind == ')' ? -1 : 0;
            if (open < 0 || (kind == ',' && open == 0)) return HLO_PARSER_FAIL(parser, "unbalanced tuple of origins");
            const char *array;
            if (kind == '(' || kind == ')' || kind == ',') {
                hlo_lex(&parser->lexer);
                append(parser, &written, kind == '(' ? "(" : kind == ')' ? ")" : ", ");
            } else if (parse_original_text(parser, &array)) {
                append(parser, &written, array);
            } else {
                return false;
            }
        }
    }
    if (open != 0) return HLO_PARSER_FAIL(parser, "unbalanced tuple of origins");
    *text = written.count ? hlo_arena_string(parser->arena, written.items, (size_t)written.count) : "()";
    return hlo_parser_expect(parser, '}', "'}' of origin");
}

// A recovery's module, in quotes.
static bool parse_recovery_module(HloParser *parser, HloModule **module) {
    const char *where = parser->lexer.token.start, *text;
    if (!hlo_parse_string(parser, &text)) return false;
    HloStatus status = hlo_parse(text, strlen(text), &parser->options, module);
    if (!status) return true;
    hlo_parser_fail(parser, where, "invalid recovery module: %s", hlo_status_message(status));
    hlo_status_free(status);
    return false;
}

// {"a"} : {"b"}, and optionally the module that computes the one from the other.
static bool parse_recovery(HloParser *parser) {
    HloOriginalArray arrays[2];
    HloModule *module = NULL;
    for (int side = 0; side < 2; side++) {
        if (!parse_original_array(parser, &arrays[side])) return false;
        if (!arrays[side].name) arrays[side].name = "";
        if (side == 0 && !hlo_parser_expect(parser, ':', "':'")) return false;
    }
    if (hlo_parser_eat(parser, ',') && !parse_recovery_module(parser, &module)) return false;
    hlo_module_add_recovery(parser->module, &arrays[0], &arrays[1], module);
    return true;
}

// {{"a"} : {"b"}, "HloModule ..." ...}, without commas between the entries.
bool hlo_parse_origin_table(HloParser *parser) {
    if (!hlo_parser_expect(parser, '{', "'{' of origin_recovery_table")) return false;
    while (hlo_parser_kind(parser) != '}') {
        if (!parse_recovery(parser)) return false;
    }
    hlo_module_sort_recoveries(parser->module);
    return hlo_parser_expect(parser, '}', "'}' of origin_recovery_table");
}
