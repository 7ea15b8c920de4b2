// SPDX-License-Identifier: Apache-2.0
// XLA's output for small texts (golden.txt) and for whole programs (corpus.txt), byte for byte. Both files say where
// their expectations come from; make_golden.py writes them.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "hlo/base/file.h"
#include "hlo/text/text.h"
#include "tests/support/cases.h"

typedef struct Record {
    const char *text;
    size_t length;
    bool accepted, stricter;
    const char *expected;
    size_t expected_length;
    uint64_t canonical, brief;  // hashes
} Record;

static HloFileContent content;

static void read_records_file(void) {
    cr_assert_null(hlo_file_read(MESHLO_SOURCE_DIR "/tests/text/golden.txt", SIZE_MAX / 2, &content));
}

// The text after the next line that starts with "@@ ", or NULL; *line is that line without its mark.
static const char *next_mark(const char *at, const char *end, const char **line, const char **mark) {
    for (; at < end; at++) {
        if ((at == (const char *)content.data || at[-1] == '\n') && end - at > 3 && memcmp(at, "@@ ", 3) == 0) {
            *mark = at;
            *line = at + 3;
            const char *newline = memchr(at, '\n', (size_t)(end - at));
            return newline ? newline + 1 : end;
        }
    }
    *mark = end;
    return NULL;
}

static bool starts(const char *line, const char *word) {
    return strncmp(line, word, strlen(word)) == 0;
}

// Calls `check` for every record of golden.txt; at least `least` of them.
static void for_each_record(void (*check)(const Record *record), int least) {
    read_records_file();
    const char *end = (const char *)content.data + content.size;
    const char *line, *mark, *next_line;
    const char *at = next_mark((const char *)content.data, end, &line, &mark);
    int count = 0;
    while (at) {
        cr_assert(starts(line, "text"));
        Record record = {.text = at};
        at = next_mark(at, end, &line, &mark);
        record.length = (size_t)(mark - record.text);
        record.stricter = starts(line, "stricter");
        if (starts(line, "hashes")) {
            record.accepted = true;
            cr_assert_eq(sscanf(line, "hashes %lx %lx", &record.canonical, &record.brief), 2);
            record.expected = at = next_mark(at, end, &next_line, &mark);
        }
        at = next_mark(at, end, &line, &mark);
        if (record.accepted) record.expected_length = (size_t)(mark - record.expected);
        check(&record);
        count++;
    }
    cr_assert_geq(count, least);
    hlo_file_content_free(&content);
}

// XLA's parser fills elided constants with numbers that count up.
static const HloParseOptions as_xla = {.elided = HLO_ELIDED_FILL};

static HloModule *parse(const char *text, size_t length) {
    HloModule *module;
    HloStatus status = hlo_parse(text, length, &as_xla, &module);
    char *message = hlo_status_to_text(status);
    cr_expect_null(status, "%.*s\n%s", (int)length, text, message);
    hlo_free(message);
    hlo_status_free(status);
    return module;
}

static HloText print(const HloModule *module, HloPrintOptions options) {
    HloText text = {0};
    cr_assert_null(hlo_print(module, &options, &text));
    return text;
}

// The hash of make_golden.py, which wrote the expectations; the library's own may change.
static uint64_t text_hash(HloText text) {
    uint64_t hash = UINT64_C(0x243F6A8885A308D3) ^ text.length;
    for (size_t start = 0; start <= text.length; start += 8) {
        uint64_t word = 0;
        for (size_t i = start; i < start + 8 && i < text.length; i++)
            word |= (uint64_t)(unsigned char)text.data[i] << (8 * (i - start));
        const uint64_t product = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash = product ^ (product >> 29);
    }
    return hash ^ (hash >> 32);
}

static uint64_t print_hash(const HloModule *module, HloPrintOptions options) {
    HloText text = print(module, options);
    uint64_t hash = text_hash(text);
    hlo_text_free(&text);
    return hash;
}

static void check_long(const Record *record) {
    if (!record->accepted) return;
    HloModule *module = parse(record->text, record->length);
    if (!module) return;
    HloText text = print(module, hlo_print_default());
    cr_expect(text.length == record->expected_length && memcmp(text.data, record->expected, text.length) == 0,
              "%.*s\nprints as\n%s", (int)record->length, record->text, text.data);
    hlo_text_free(&text);
    hlo_module_free(module);
}

Test(text_golden, long_form_is_that_of_xla) {
    for_each_record(check_long, 700);
}

static void check_other_forms(const Record *record) {
    if (!record->accepted) return;
    HloModule *module = parse(record->text, record->length);
    if (!module) return;
    cr_expect_eq(print_hash(module, hlo_print_canonical()), record->canonical, "canonical: %.*s", (int)record->length,
                 record->text);
    cr_expect_eq(print_hash(module, hlo_print_short()), record->brief, "short: %.*s", (int)record->length,
                 record->text);
    hlo_module_free(module);
}

Test(text_golden, canonical_and_short_forms_are_those_of_xla) {
    for_each_record(check_other_forms, 700);
}

static void check_rejected(const Record *record) {
    if (record->accepted) return;
    HloModule *module;
    HloStatus status = hlo_parse(record->text, record->length, NULL, &module);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "accepted: %.*s", (int)record->length, record->text);
    cr_expect_null(module);
    const HloPlace *place = hlo_status_place(status);
    cr_expect(place && place->line >= 1 && place->column >= 1, "no place: %.*s", (int)record->length, record->text);
    hlo_status_free(status);
}

Test(text_golden, errors_are_found_with_their_position) {
    for_each_record(check_rejected, 700);
}

// The printed text is accepted, and prints the same again.
static void check_round_trip(const Record *record) {
    if (!record->accepted) return;
    HloModule *module = parse(record->text, record->length);
    if (!module) return;
    HloText first = print(module, hlo_print_default());
    HloModule *again = parse(first.data, first.length);
    if (again) {
        HloText second = print(again, hlo_print_default());
        cr_expect_str_eq(second.data, first.data);
        hlo_text_free(&second);
    }
    hlo_text_free(&first);
    hlo_module_free(again);
    hlo_module_free(module);
}

Test(text_golden, printed_text_is_read_back) {
    for_each_record(check_round_trip, 700);
}

// A copy prints as the original does: nothing is lost on the way through attributes and annotations.
static void check_clone(const Record *record) {
    if (!record->accepted) return;
    HloModule *module = parse(record->text, record->length);
    if (!module) return;
    hlo_module_remove_unreachable(module);
    HloModule *copy = hlo_module_clone(module);
    HloText first = print(module, hlo_print_short());
    HloText second = print(copy, hlo_print_short());
    cr_expect_str_eq(second.data, first.data);
    hlo_text_free(&first);
    hlo_text_free(&second);
    hlo_module_free(copy);
    hlo_module_free(module);
}

Test(text_golden, clones_print_alike) {
    for_each_record(check_clone, 700);
}

static HloStatus cut_short(const Record *record, size_t length) {
    HloModule *module;
    HloStatus status = hlo_parse(record->text, length, NULL, &module);
    hlo_module_free(module);
    return status;
}

// No prefix of a text may do harm.
static void check_prefixes(const Record *record) {
    for (size_t length = 0; length < record->length; length += 3) hlo_status_free(cut_short(record, length));
}

Test(text_golden, every_prefix_is_harmless) {
    for_each_record(check_prefixes, 700);
}

// Nothing leaks or breaks when memory runs out at any point.
static void check_without_memory(const Record *record) {
    if (!record->accepted) return;
    for (int64_t countdown = 0; countdown < 40; countdown++) {
        HloModule *module = NULL;
        HloText text = {0};
        hlo_allocation_fail_after(countdown);
        HloStatus status = hlo_parse(record->text, record->length, NULL, &module);
        if (!status) status = hlo_print(module, NULL, &text);
        hlo_allocation_fail_after(-1);
        cr_expect(!status || hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED);
        bool enough = !status;
        hlo_status_free(status);
        hlo_text_free(&text);
        hlo_module_free(module);
        if (enough) break;
    }
}

Test(text_golden, running_out_of_memory_is_reported) {
    for_each_record(check_without_memory, 700);
}

// ---------------------------------------------------------------------------------------------------------------------
// Whole programs

static void check_program(const char *path, uint64_t as_long, uint64_t canonical, uint64_t brief) {
    HloFileContent program = {0};
    cr_assert_null(hlo_file_read(path, SIZE_MAX / 2, &program), "%s", path);
    HloModule *module = parse((const char *)program.data, program.size);
    cr_assert_not_null(module, "%s", path);
    cr_expect_eq(print_hash(module, hlo_print_default()), as_long, "long: %s", path);
    cr_expect_eq(print_hash(module, hlo_print_canonical()), canonical, "canonical: %s", path);
    cr_expect_eq(print_hash(module, hlo_print_short()), brief, "short: %s", path);
    cr_expect_lt(hlo_arena_bytes(module->arena), 8 * program.size + 65536, "memory: %s", path);
    hlo_module_free(module);
    hlo_file_content_free(&program);
}

Test(text_golden, programs_print_as_xla_prints_them) {
    const char *folder = cases_path("corpus");
    if (!folder) return;
    FILE *list = fopen(MESHLO_SOURCE_DIR "/tests/text/corpus.txt", "r");
    cr_assert_not_null(list);
    char line[512], name[256], path[8192];
    int count = 0;
    while (fgets(line, sizeof(line), list)) {
        unsigned long as_long, canonical, brief;
        if (line[0] == '#') continue;
        cr_assert_eq(sscanf(line, "%255s %lx %lx %lx", name, &as_long, &canonical, &brief), 4);
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        check_program(path, as_long, canonical, brief);
        count++;
    }
    fclose(list);
    cr_expect_eq(count, 53);
}
