// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/base/hexadecimal.h"

Test(hexadecimal, digits_read_back_as_the_bytes) {
    HloArena *arena = hlo_arena_new();
    unsigned char bytes[256], again[256];
    for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)i;
    const char *digits = hlo_hexadecimal(arena, bytes, sizeof bytes);
    cr_expect_eq(strlen(digits), 2 * sizeof bytes);
    cr_expect_eq(strncmp(digits, "000102030405060708090a0b0c0d0e0f10", 34), 0);
    cr_expect(hlo_bytes_of_hexadecimal(digits, again));
    cr_expect_arr_eq(again, bytes, sizeof bytes);
    cr_expect_str_eq(hlo_hexadecimal(arena, NULL, 0), "");
    hlo_arena_free(arena);
}

Test(hexadecimal, anything_else_is_refused) {
    static const char *const other[] = {"0", "0g", "g0", "012", "0 ", "AB", "00x0", "\xff\xff"};
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        cr_expect_not(hlo_bytes_of_hexadecimal(other[i], bytes), "%s", other[i]);
    }
    cr_expect(hlo_bytes_of_hexadecimal("", bytes));
}
