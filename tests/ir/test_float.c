// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of single numbers of every floating type.
#include <criterion/criterion.h>
#include <math.h>

#include "hlo/ir/literal.h"
#include "tests/support/cases.h"

static HloType narrow_types[] = {HLO_F16,           HLO_BF16,       HLO_F8E5M2,     HLO_F8E4M3FN,
                                 HLO_F8E4M3B11FNUZ, HLO_F8E5M2FNUZ, HLO_F8E4M3FNUZ, HLO_F8E4M3,
                                 HLO_F8E3M4,        HLO_F4E2M1FN,   HLO_F8E8M0FNU};

CaseList(float_types, every_pattern_survives) {
    return cr_make_param_array(HloType, narrow_types, HLO_COUNT_OF(narrow_types));
}

CaseTest(HloType *type, float_types, every_pattern_survives) {
    for (uint64_t pattern = 0; pattern < UINT64_C(1) << hlo_type_info(*type)->bits; pattern++) {
        double value = hlo_float_decode(*type, pattern);
        if (isnan(value)) {
            cr_assert(isnan(hlo_float_decode(*type, hlo_float_encode(*type, value))));
        } else {
            cr_assert_eq(hlo_float_encode(*type, value), pattern, "%s: %llx", hlo_type_text(*type),
                         (unsigned long long)pattern);
        }
    }
}

CaseList(float_types, bug_the_limits_of_types_without_infinities) {
    return cr_make_param_array(HloType, narrow_types, HLO_COUNT_OF(narrow_types));
}

// bug: they were taken for infinities, which these types turn into NaN.
CaseTest(HloType *type, float_types, bug_the_limits_of_types_without_infinities) {
    const double least = hlo_float_limit(*type, false), greatest = hlo_float_limit(*type, true);
    for (uint64_t pattern = 0; pattern < UINT64_C(1) << hlo_type_info(*type)->bits; pattern++) {
        const double value = hlo_float_decode(*type, pattern);
        cr_expect(isnan(value) || (value >= least && value <= greatest), "%s: %g", hlo_type_text(*type), value);
    }
    cr_expect_eq(hlo_float_decode(*type, hlo_float_encode(*type, least)), least);
    cr_expect_eq(hlo_float_decode(*type, hlo_float_encode(*type, greatest)), greatest);
}

typedef struct Golden {
    HloType type;
    double value;
    uint64_t pattern;
} Golden;

// From ml_dtypes 0.5 (the conversions that XLA itself uses), by array.astype().
static Golden goldens[] = {
    {HLO_F16, 65519.0, 0x7BFF},       {HLO_F16, 65520.0, 0x7C00},  {HLO_BF16, 1.00390625, 0x3F80},
    {HLO_BF16, 1.01171875, 0x3F82},   {HLO_F8E5M2, 61440.0, 0x7C}, {HLO_F8E4M3FN, 448.0, 0x7E},
    {HLO_F8E4M3FN, 465.0, 0x7F},      {HLO_F8E4M3FN, -1e30, 0xFF}, {HLO_F8E5M2FNUZ, -0.0, 0x00},
    {HLO_F8E4M3FNUZ, INFINITY, 0x80}, {HLO_F4E2M1FN, 100.0, 0x7},  {HLO_F4E2M1FN, -INFINITY, 0xF},
    {HLO_F8E8M0FNU, 0.75, 0x7F},      {HLO_F8E8M0FNU, 3.0, 0x81},  {HLO_F8E8M0FNU, -1.0, 0xFF},
};

CaseList(float_types, rounding_and_overflow) {
    return cr_make_param_array(Golden, goldens, HLO_COUNT_OF(goldens));
}

CaseTest(Golden *golden, float_types, rounding_and_overflow) {
    cr_assert_eq(hlo_float_encode(golden->type, golden->value), golden->pattern, "%s of %g: %llx",
                 hlo_type_text(golden->type), golden->value,
                 (unsigned long long)hlo_float_encode(golden->type, golden->value));
}
