// SPDX-License-Identifier: Apache-2.0
#include "tests/spmd/check.h"

#include <criterion/criterion.h>
#include <string.h>

#include "hlo/text/text.h"

HloModule *parse_text(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    if (status) cr_assert_fail("%s\n%s", hlo_status_to_text(status), text);
    return module;
}

char *compare_partitioned(const char *text, const SpmdOptions *options, uint64_t seed) {
    HloModule *module = parse_text(text);
    char *problem = partitioned_difference(module, options, seed, NULL);
    hlo_module_free(module);
    return problem;
}

void check_partitioned(const char *text, const SpmdOptions *options, uint64_t seed) {
    char *problem = compare_partitioned(text, options, seed);
    if (problem) cr_assert_fail("%s\nof the program\n%s", problem, text);
}

char *collectives_of(const char *text, const SpmdOptions *options) {
    HloModule *module = parse_text(text), *partitioned = NULL;
    SpmdReport *report = NULL;
    HloStatus status = spmd_partition(module, options, &partitioned, &report);
    if (status) cr_assert_fail("%s\n%s", hlo_status_message(status), text);
    HloText counts = {0};
    hlo_text_string(&counts, "");
    for (int64_t i = 0; i < report->collective_count; i++) {
        const char *opcode = report->collectives[i].opcode;
        int64_t before = 0, count = 0;
        for (int64_t k = 0; k < report->collective_count; k++) {
            bool same = !strcmp(report->collectives[k].opcode, opcode);
            before += same && k < i;
            count += same;
        }
        if (!before) hlo_text_format(&counts, "%s%lld %s", counts.length ? " " : "", (long long)count, opcode);
    }
    spmd_report_free(report);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    return counts.data;
}

void expect_collectives(const char *text, const SpmdOptions *options, const char *want) {
    char *counts = collectives_of(text, options);
    cr_expect_str_eq(counts, want, "%s, not %s, for\n%s", counts, want, text);
    hlo_free(counts);
    check_partitioned(text, options, 3);
}

void expect_bytes(const SentBytes *program) {
    HloModule *module = parse_text(program->text), *partitioned;
    SpmdReport *report;
    HloStatus status = spmd_partition(module, NULL, &partitioned, &report);
    cr_assert_null(status, "%s: %s", program->name, hlo_status_message(status));
    cr_expect_eq(report->total_bytes_per_device, program->bytes, "%s: %lld bytes", program->name,
                 (long long)report->total_bytes_per_device);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    check_partitioned(program->text, NULL, 1);
}
