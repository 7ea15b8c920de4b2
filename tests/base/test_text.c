// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <limits.h>

#include "hlo/base/text.h"

Test(base_text, appends_and_formats) {
    HloText text = {0};
    hlo_text_string(&text, "a");
    hlo_text_char(&text, 'b');
    hlo_text_format(&text, "%d-%s", 7, "x");
    hlo_text_int64(&text, INT64_MIN);
    hlo_text_uint64(&text, UINT64_MAX);
    cr_assert_null(hlo_text_status(&text));
    cr_assert_str_eq(text.data, "ab7-x-922337203685477580818446744073709551615");
    cr_assert_eq(text.length, strlen(text.data));
    hlo_text_free(&text);
    cr_assert_null(text.data);
}

Test(base_text, remembers_that_memory_ran_out) {
    HloText text = {0};
    hlo_allocation_fail_after(0);
    hlo_text_string(&text, "lost");
    hlo_allocation_fail_after(-1);
    HloStatus status = hlo_text_status(&text);
    cr_assert_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED);
    hlo_status_free(status);
    hlo_text_free(&text);
}

Test(base_text, messages_cannot_be_forged) {
    HloStatus status = hlo_error(HLO_INVALID_ARGUMENT, "unknown opcode \"%s\"", "\nother.hlo:1:1: error: \033[31m");
    cr_expect_str_eq(hlo_status_message(status), "unknown opcode \"\\x0aother.hlo:1:1: error: \\x1b[31m\"");
    status = hlo_status_annotate(status, "%s in main", "\r");
    cr_expect_eq(strncmp(hlo_status_message(status), "\\x0d in main: ", 14), 0);
    hlo_status_free(status);
    status = hlo_error(HLO_UNKNOWN, "%s", "Traceback:\n  a line of its own");
    cr_expect_str_eq(hlo_status_message(status), "Traceback:\n  a line of its own");
    hlo_status_free(status);
}

Test(base_text, sizes_have_a_unit) {
    HloText text = {0};
    static const int64_t kSizes[] = {0, 1023, 1024, 1536, INT64_C(3) << 40, INT64_MAX};
    for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; i++) {
        hlo_text_size(&text, kSizes[i]);
        hlo_text_char(&text, ' ');
    }
    cr_expect_str_eq(text.data, "0 B 1023 B 1.0 KiB 1.5 KiB 3.0 TiB 8388608.0 TiB ");
    hlo_text_free(&text);
}

// Numbers of codes come from other processes and callbacks.
Test(base_status, numbers_of_codes) {
    for (int64_t number = -2; number <= 20; number++) {
        const HloCode code = hlo_code_from_number(number);
        cr_expect_eq((int64_t)code, number >= 1 && number <= 16 ? number : HLO_UNKNOWN, "%lld", (long long)number);
    }
    cr_expect_eq(hlo_code_from_number(INT64_MAX), HLO_UNKNOWN);
    cr_expect_eq(hlo_code_from_number((INT64_C(1) << 32) + HLO_ABORTED), HLO_UNKNOWN);
}
