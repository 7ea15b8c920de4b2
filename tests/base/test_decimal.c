// SPDX-License-Identifier: Apache-2.0
// Numbers are read and written with a point in a process whose locale has a comma for it.
#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/decimal.h"
#include "hlo/base/json.h"
#include "hlo/hlo.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"

static const char kSource[] =
    "comment_char %\nescape_char /\nLC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND "
    "LC_NUMERIC\n";

// The characters of ASCII: localedef's own list of them is in the package locales, which a bare Debian lacks.
static const char kCharacters[] =
    "<code_set_name> ASCII\n<comment_char> %\n<escape_char> /\nCHARMAP\n<U0000>..<U007F> /x00\nEND CHARMAP\n";

static void write_text(const char *folder, const char *name, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

// Compiles a locale of our own, which need not be installed, and sets it.
static void set_comma(void) {
    char folder[] = "/tmp/meshlo-locale-XXXXXX", command[256];
    cr_assert_not_null(mkdtemp(folder));
    write_text(folder, "source", kSource);
    write_text(folder, "characters", kCharacters);
    // Complains of the categories that do not exist, and makes those that are.
    snprintf(command, sizeof command,
             "cd %s && localedef -c --no-archive -f ./characters -i ./source ./comma >log 2>&1", folder);
    (void)!system(command);
    setenv("LOCPATH", folder, 1);
    const char *set = setlocale(LC_NUMERIC, "comma");
    snprintf(command, sizeof command, "rm -r %s", folder);
    (void)!system(command);
    cr_assert_not_null(set, "localedef made no locale");
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    cr_assert_str_eq(text, "0,5");
    cr_assert_eq(strtod("0.5", NULL), 0);
}

Test(decimal, numbers_have_a_point_in_any_locale) {
    set_comma();
    char buffer[32], *end;
    const char text[] = "-12.25e1x";
    cr_expect_eq(hlo_strtod(text, &end), -122.5);
    cr_expect_str_eq(end, "x");
    cr_expect_eq(hlo_strtof("0.1", NULL), 0.1F);
    cr_expect_eq(hlo_snprintf(buffer, sizeof buffer, "%.2f %d", 1234.5, 7), 9);
    cr_expect_str_eq(buffer, "1234.50 7");
    cr_expect_eq(strtod("0,5", NULL), 0.5, "the caller's locale came back");
}

// Texts that only strtod() reads, and formats that only printf() writes.
static const char kProgram[] =
    "HloModule m, entry_computation_layout={()->(f32[2]{0}, f64[], bf16[])}\n\n"
    "ENTRY %e () -> (f32[2], f64[], bf16[]) {\n"
    "  %a = f32[2]{0} constant({0.333333343, -1.5e-39})\n"
    "  %b = f64[] constant(0.12345678901234568)\n"
    "  %c = bf16[] constant(0.7070)\n"
    "  ROOT %t = (f32[2]{0}, f64[], bf16[]) tuple(%a, %b, %c)\n}\n";

static HloModule *parsed(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return module;
}

static void write_all(HloText out[3]) {
    HloModule *module = parsed(kProgram), *again = NULL;
    cr_assert_null(hlo_print(module, NULL, &out[0]));
    cr_assert_null(hlo_module_to_stablehlo_text(module, false, &out[1]));
    HloStatus status = hlo_module_from_stablehlo_text(out[1].data, out[1].length, "m.mlir", &again);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_assert_null(hlo_print(again, NULL, &out[2]));
    hlo_module_free(again);
    hlo_module_free(module);
}

Test(decimal, programs_are_the_same_in_any_locale) {
    HloText before[3] = {{0}}, after[3] = {{0}};
    write_all(before);
    set_comma();
    write_all(after);
    for (int i = 0; i < 3; i++) {
        cr_expect_str_eq(after[i].data, before[i].data);
        hlo_text_free(&before[i]);
        hlo_text_free(&after[i]);
    }
}

Test(decimal, json_is_the_same_in_any_locale) {
    set_comma();
    HloText text = {0};
    HloJsonWriter writer = {.text = &text};
    hlo_json_double(&writer, 0.1);
    cr_expect_str_eq(text.data, "0.1");
    HloArena *arena = hlo_arena_new();
    HloJsonValue *value = NULL;
    cr_assert_null(hlo_json_parse(arena, "number", "0.25", 4, &value));
    cr_expect_eq(value->number, 0.25);
    hlo_arena_free(arena);
    hlo_text_free(&text);
}

Test(decimal, digits_of_every_length) {
    for (uint64_t power = 1; power; power = power > UINT64_MAX / 10 ? 0 : power * 10)
        for (int64_t step = -101; step <= 101; step++) {
            const uint64_t value = power + (uint64_t)step;  // around each power of ten, and around 2^64
            char digits[HLO_DECIMAL_DIGITS + 1], wanted[HLO_DECIMAL_DIGITS + 1];
            digits[hlo_write_decimal(digits, value)] = 0;
            snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)value);
            cr_assert_str_eq(digits, wanted);
        }
}
