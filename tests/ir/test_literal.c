// SPDX-License-Identifier: Apache-2.0
// Literals made from a caller's numbers.
#include <criterion/criterion.h>
#include <math.h>

#include "hlo/base/memory.h"
#include "hlo/hlo.h"
#include "hlo/ir/literal.h"

Test(literal, of_numbers) {
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    HloLiteral *literal = hlo_literal_of(HLO_F32, HLO_DIMS(2, 3), numbers);
    cr_assert_not_null(literal);
    for (int64_t i = 0; i < 6; i++) cr_expect_eq(hlo_literal_get_double(literal, i), (double)(i + 1));
    hlo_literal_free(literal);
    literal = hlo_literal_of(HLO_S8, HLO_DIMS(), NULL);
    cr_assert_not_null(literal);
    cr_expect_eq(hlo_literal_get_int64(literal, 0), 0);
    hlo_literal_free(literal);
    literal = hlo_literal_of(HLO_F64, HLO_DIMS(0, 3), NULL);
    cr_assert_not_null(literal);
    hlo_literal_free(literal);
}

// bug: converting a value that is not an integer was undefined behaviour.
Test(literal, bug_integers_of_nan_and_of_infinities) {
    static const struct {
        double value;
        int64_t want;
    } cases[] = {{NAN, 0},   {INFINITY, INT64_MAX}, {-INFINITY, INT64_MIN}, {0x1p63, INT64_MAX}, {-0x1p63, INT64_MIN},
                 {-2.75, -2}};
    HloArena *arena = hlo_arena_new();
    HloLiteral *literal = hlo_literal_in_arena(arena, hlo_shape_scalar(arena, HLO_F64));
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        hlo_literal_set_double(literal, 0, cases[i].value);
        cr_expect_eq(hlo_literal_get_int64(literal, 0), cases[i].want, "%g", cases[i].value);
    }
    hlo_arena_free(arena);
}

Test(literal, of_impossible_sizes) {
    cr_expect_null(hlo_literal_of(HLO_F32, HLO_DIMS(-1), NULL));
    cr_expect_null(hlo_literal_of(HLO_F32, HLO_DIMS((int64_t)1 << 40, (int64_t)1 << 40), NULL));
    cr_expect_null(hlo_literal_of(HLO_TOKEN, HLO_DIMS(), NULL));
}

// ---- whole arrays

Test(literal_values, are_filled_read_and_converted) {
    const float given[] = {1.5F, -2.25F, 300, 0};
    HloLiteral *narrow = hlo_literal_of(HLO_BF16, HLO_DIMS(2, 2), NULL);
    hlo_literal_set_floats(narrow, given);
    float floats[4];
    double doubles[4];
    hlo_literal_get_floats(narrow, floats);
    for (int i = 0; i < 4; i++) cr_expect_eq(floats[i], given[i]);
    hlo_literal_set_doubles(narrow, (const double[]){0, 0.1, -1e300, 300});
    hlo_literal_get_doubles(narrow, doubles);
    cr_expect(doubles[1] == 0.10009765625 && doubles[2] == -INFINITY);  // rounded to the nearest bf16
    hlo_literal_set_floats(narrow, given);
    HloLiteral *bytes = hlo_literal_convert(narrow, HLO_S8);
    cr_assert_eq(bytes->shape->type, HLO_S8);
    cr_assert_eq(bytes->shape->rank, 2);
    cr_expect_eq(hlo_literal_get_int64(bytes, 0), 1);
    cr_expect_eq(hlo_literal_get_int64(bytes, 1), -2);
    cr_expect_eq(hlo_literal_get_int64(bytes, 2), 44);  // 300 wraps
    hlo_literal_fill(narrow, 0.1);
    hlo_literal_get_doubles(narrow, doubles);
    cr_expect_eq(doubles[3], 0.10009765625);  // the nearest bf16
    hlo_literal_free(bytes);
    hlo_literal_free(narrow);
}

// Integers beyond a double's 53 bits, and complex numbers.
Test(literal_values, are_converted_exactly) {
    const int64_t large = INT64_C(0x123456789ABCDEF1);
    const double parts[] = {1.5, 2.5};
    HloLiteral *wide = hlo_literal_of(HLO_S64, HLO_DIMS(1), &large);
    HloLiteral *other = hlo_literal_convert(wide, HLO_U64);
    cr_expect_eq(hlo_literal_get_int64(other, 0), large);
    hlo_literal_free(other);
    hlo_literal_free(wide);
    wide = hlo_literal_of(HLO_C128, HLO_DIMS(), parts);
    other = hlo_literal_convert(wide, HLO_C64);
    cr_expect_eq(((const float *)other->data)[1], 2.5F);
    hlo_literal_free(other);
    other = hlo_literal_convert(wide, HLO_F32);
    cr_expect_eq(*(const float *)other->data, 1.5F);
    hlo_literal_free(other);
    hlo_literal_free(wide);
}
