// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <math.h>

#include "hlo/base/json.h"
#include "tests/support/cases.h"

static HloJsonValue *parse(HloArena *arena, const char *text) {
    HloJsonValue *value = NULL;
    HloStatus status = hlo_json_parse(arena, "t.json", text, strlen(text), &value);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return value;
}

Test(base_json, writes_nested_containers) {
    HloText text = {0};
    HloJsonWriter writer = {.text = &text};
    hlo_json_begin_object(&writer);
    hlo_json_key(&writer, "a");
    hlo_json_int64_array(&writer, (int64_t[]){1, -2, 3}, 3);
    hlo_json_key(&writer, "b\"\n");
    hlo_json_begin_array(&writer);
    hlo_json_string(&writer, "x\\\x01");
    hlo_json_bool(&writer, true);
    hlo_json_null(&writer);
    hlo_json_double(&writer, 0.1);
    hlo_json_double(&writer, NAN);
    hlo_json_begin_object(&writer);
    hlo_json_end_object(&writer);
    hlo_json_end_array(&writer);
    hlo_json_end_object(&writer);
    cr_assert_str_eq(text.data, "{\"a\":[1,-2,3],\"b\\\"\\n\":[\"x\\\\\\u0001\",true,null,0.1,null,{}]}");
    hlo_text_free(&text);
}

Test(base_json, puts_outer_items_on_lines) {
    HloText text = {0};
    HloJsonWriter writer = {.text = &text, .lines = 1};
    hlo_json_begin_array(&writer);
    hlo_json_int64_array(&writer, (int64_t[]){1, 2}, 2);
    hlo_json_int64(&writer, 3);
    hlo_json_end_array(&writer);
    cr_assert_str_eq(text.data, "[\n [1,2],\n 3\n]");
    hlo_text_free(&text);
}

Test(base_json, reads_every_kind) {
    HloArena *arena = hlo_arena_new();
    HloJsonValue *value =
        parse(arena, " {\"i\": -12, \"d\": 1.5e3, \"s\": \"\\u00e9\\ud83d\\ude00\\n\", \"a\": [true, null]} ");
    cr_assert_eq(value->count, 4);
    cr_assert(hlo_json_get(value, "i")->is_integer);
    cr_assert_eq(hlo_json_get(value, "i")->integer, -12);
    cr_assert_not(hlo_json_get(value, "d")->is_integer);
    cr_assert_eq(hlo_json_get(value, "d")->number, 1500.0);
    cr_assert_str_eq(hlo_json_get(value, "s")->string, "\xC3\xA9\xF0\x9F\x98\x80\n");
    cr_assert_eq(hlo_json_get(value, "a")->items[0]->boolean, true);
    cr_assert_eq(hlo_json_get(value, "a")->items[1]->kind, HLO_JSON_NULL);
    cr_assert_null(hlo_json_get(value, "missing"));
    hlo_arena_free(arena);
}

Test(base_json, doubles_survive_a_round_trip) {
    static const double kValues[] = {0.0, 1.0 / 3, 5e-324, 1.7976931348623157e308, 49.7e-3, -123456789.123456789};
    HloArena *arena = hlo_arena_new();
    for (size_t i = 0; i < HLO_COUNT_OF(kValues); ++i) {
        HloText text = {0};
        HloJsonWriter writer = {.text = &text};
        hlo_json_double(&writer, kValues[i]);
        cr_assert_eq(parse(arena, text.data)->number, kValues[i]);
        hlo_text_free(&text);
    }
    hlo_arena_free(arena);
}

typedef struct BadCase {
    char text[32];
    char message[40];
    int column;
} BadCase;

CaseList(base_json, refuses) {
    static BadCase cases[] = {
        {"", "expected a value", 1},
        {"[1,]", "expected a value", 4},
        {"[1 2]", "expected ','", 4},
        {"{\"a\":1,\"a\":2}", "duplicate", 11},
        {"\"abc", "unterminated string", 2},
        {"01", "expected a value", 1},
        {"1.", "decimal point", 1},
        {"1e+", "exponent", 1},
        {"tru", "expected a value", 1},
        {"\"\\x\"", "unknown escape", 3},
        {"\"\\ud800x\"", "surrogates", 8},
        {"1 1", "text after", 3},
        {"\"\t\"", "control", 2},
        {"{a:1}", "in quotes", 2},
        {"\"\\", "unterminated string", 2},
        {"{\"a\" 1}", "expected ':'", 6},
        {"{\"a\":1]", "expected ',' or '}'", 7},
    };
    return cr_make_param_array(BadCase, cases, HLO_COUNT_OF(cases));
}

CaseTest(BadCase *bad, base_json, refuses) {
    HloArena *arena = hlo_arena_new();
    HloJsonValue *value = NULL;
    HloStatus status = hlo_json_parse(arena, "t.json", bad->text, strlen(bad->text), &value);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_assert(strstr(hlo_status_message(status), bad->message), "%s", hlo_status_message(status));
    cr_assert_eq(hlo_status_place(status)->column, bad->column, "%d", (int)hlo_status_place(status)->column);
    hlo_status_free(status);
    hlo_arena_free(arena);
}

Test(base_json, limits_the_depth) {
    char text[5000];
    memset(text, '[', sizeof text);
    HloArena *arena = hlo_arena_new();
    HloJsonValue *value = NULL;
    HloStatus status = hlo_json_parse(arena, "t.json", text, sizeof text, &value);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    hlo_arena_free(arena);
}
