// SPDX-License-Identifier: Apache-2.0
// Literals made from a caller's numbers.
#include <criterion/criterion.h>

#include "hlo/hlo.h"

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

Test(literal, of_impossible_sizes) {
    cr_expect_null(hlo_literal_of(HLO_F32, HLO_DIMS(-1), NULL));
    cr_expect_null(hlo_literal_of(HLO_F32, HLO_DIMS((int64_t)1 << 40, (int64_t)1 << 40), NULL));
    cr_expect_null(hlo_literal_of(HLO_TOKEN, HLO_DIMS(), NULL));
}
