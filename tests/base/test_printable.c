// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "hlo/base/json.h"
#include "hlo/base/printable.h"
#include "tests/support/cases.h"

// Encodes by the definition of UTF-8, of which hlo_utf8_length() is the other direction.
static int encode(uint32_t code, char out[4]) {
    if (code < 0x80) return out[0] = (char)code, 1;
    const int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)((0xF00 >> length) | code);
    return length;
}

Test(base_printable, every_character_of_unicode_is_utf_8_and_nothing_else) {
    char bytes[4] = {0};
    for (uint32_t code = 0; code < 0x110400; code++) {
        uint32_t read = 0;
        const int length = encode(code, bytes);
        const bool is_character = code < 0xD800 || (code > 0xDFFF && code < 0x110000);
        cr_assert_eq(hlo_utf8_length(bytes, (size_t)length, &read), is_character ? length : 0, "%x", code);
        if (is_character) cr_assert_eq(read, code);
        if (length > 1) cr_assert_eq(hlo_utf8_length(bytes, (size_t)length - 1, NULL), 0, "cut: %x", code);
    }
    const char *const overlong[] = {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
                                    "\x80",     "\xFF",     "\xE1\x80z"};
    for (size_t i = 0; i < HLO_COUNT_OF(overlong); i++)
        cr_expect_eq(hlo_utf8_length(overlong[i], strlen(overlong[i]), NULL), 0, "%zu", i);
}

typedef struct Case {
    char given[48], printed[64];
    bool keep_lines;
} Case;

CaseList(base_printable, leaves_no_command_for_a_terminal) {
    static Case cases[] = {
        {"plain \xC3\xA9 \xE4\xB8\xAD\ttab", "plain \xC3\xA9 \xE4\xB8\xAD\ttab", false},
        {"\x1b[31mred", "\\x1b[31mred", false},
        {"a\nb\rc", "a\\x0ab\\x0dc", false},
        {"a\nb\rc", "a\nb\\x0dc", true},
        {"\xC2\x9B"
         "31m",
         "\\u{9b}31m", false},  // CSI in one character
        {"\x9B"
         "31m",
         "\\x9b31m", false},  // and in one byte, which is not UTF-8
        {"\xE2\x80\xAE"
         "evil",
         "\\u{202e}evil", false},  // right to left
        {"cut \xE4\xB8", "cut \\xe4\\xb8", false},
        {"\x7f", "\\x7f", false},
    };
    return cr_make_param_array(Case, cases, HLO_COUNT_OF(cases));
}

CaseTest(Case *c, base_printable, leaves_no_command_for_a_terminal) {
    HloText text = {0};
    hlo_text_printable(&text, c->given, strlen(c->given), c->keep_lines);
    cr_expect_str_eq(text.data, c->printed);
    hlo_text_free(&text);
}

// The caret stays below its place where characters before it are printed in more columns than they have bytes, or
// fewer.
Test(base_printable, bug_errors_let_terminal_commands_through) {
    const HloPlace place = {.file = "a\nb", .line = 2, .column = 8, .line_text = "\t\xC3\xA9\x1b[m x"};
    HloStatus status = hlo_error_at(HLO_INVALID_ARGUMENT, &place, "no \x1b]0;title\x07");
    char *text = hlo_status_to_text(status);
    cr_expect_str_eq(text, "a\\x0ab:2:8: error: no \\x1b]0;title\\x07\n\t\xC3\xA9\\x1b[m x\n\t        ^\n");
    hlo_free(text);
    hlo_status_free(status);
}

Test(base_printable, bug_json_of_bytes_that_are_not_utf_8) {
    HloText text = {0};
    HloJsonWriter json = {.text = &text};
    hlo_json_bytes(&json,
                   "\xFF"
                   "a\xE4\xB8"
                   "\xC3\xA9",
                   6);
    cr_expect_str_eq(text.data,
                     "\"\xEF\xBF\xBD"
                     "a\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9\"");
    hlo_text_free(&text);
}
