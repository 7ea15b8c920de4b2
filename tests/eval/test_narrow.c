// SPDX-License-Identifier: Apache-2.0
// Rules that XLA:CPU (jaxlib 0.10.2) was asked for, about NaNs in narrow types and rounding by random bits, and the
// operand order of scaled-dot. tests/eval/compare_with_xla.py found the differences that these tests keep away.
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/eval/run.h"

// A program without parameters whose result, an array of s32, is known.
typedef struct Known {
    const char *body;
    int32_t want[6];
    int32_t count;
} Known;

static const Known knowns[] = {
    // The NaN of an fnuz type lies below all its numbers.
    {"a = u8[3] constant({0, 253, 128})\n f = f8e5m2fnuz[3] bitcast-convert(a)\n n = f8e5m2fnuz[] constant(nan)\n"
     " m = f8e5m2fnuz[3] broadcast(n), dimensions={}\n r = pred[3] compare(m, f), direction=LT, type=TOTALORDER",
     {1, 1, 0},
     3},
    // NaNs with payloads are in the order of the payloads.
    {"a = u8[4] constant({125, 126, 254, 253})\n b = u8[4] constant({126, 125, 253, 254})\n"
     " x = f8e5m2[4] bitcast-convert(a)\n y = f8e5m2[4] bitcast-convert(b)\n"
     " r = pred[4] compare(x, y), direction=LT, type=TOTALORDER",
     {1, 0, 1, 0},
     4},
    {"x = bf16[3] constant({-1e-12, -0.5, 0.5})\n b = u16[3] constant({0, 32767, 32768})\n"
     " r = s8[3] stochastic-convert(x, b)",
     {0, -1, 0},
     3},
    {"x = f32[6] constant({9, -9, nan, 1.9, -0.5, inf})\n r = s4[6] convert(x)", {7, -8, 0, 1, 0, 7}, 6},
    // left, right, the left's scales, the right's
    {"a = f32[1,4] constant({{1, 2, 3, 4}})\n b = f32[4,1] constant({{1}, {1}, {1}, {1}})\n"
     " s = f32[1,2] constant({{1, 10}})\n t = f32[1,1] constant({{3}})\n"
     " d = f32[1,1] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n r = f32[1] reshape(d)",
     {219},
     1},
};

static void check(const Known *known) {
    char text[1024];
    snprintf(text, sizeof text, "HloModule m\nENTRY e {\n %s\n ROOT z = s32[%d] convert(r)\n}\n", known->body,
             (int)known->count);
    HloEvalOptions options = {0};
    HloStatus status;
    HloLiteral *result = run_floats(text, NULL, &options, &status);
    cr_assert_null(status, "%s\n%s", hlo_status_message(status), text);
    for (int32_t i = 0; i < known->count; i++) {
        double found = hlo_literal_get_double(result, i);
        cr_expect_eq((int32_t)found, known->want[i], "%d: %g instead of %d\n%s", (int)i, found, (int)known->want[i],
                     text);
    }
    hlo_literal_free(result);
}

Test(narrow, gives_what_xla_gives) {
    for (size_t i = 0; i < HLO_COUNT_OF(knowns); i++) check(&knowns[i]);
}
