// SPDX-License-Identifier: Apache-2.0
// Rules taken from XLA:CPU (jaxlib 0.10.2) about NaNs in narrow types and rounding by random bits, and the operand
// order of scaled-dot. tests/eval/compare_with_xla.py found the differences that these tests guard against.
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
    // Complex numbers are ordered by their real parts, among equal ones by their imaginary parts; NaNs beside equal
    // real
    // parts count as equal, and the first is taken.
    {"x = c64[6] constant({(1, 2), (2, 1), (1, 1), (-1, 9), (1, 5), (3, 0)})\n"
     " y = c64[6] constant({(1, 1), (1, 9), (1, 2), (1, 0), (1, 7), (3, 1)})\n m = c64[6] maximum(x, y)\n"
     " i = f32[6] imag(m)\n r = s32[6] convert(i)",
     {2, 1, 2, 0, 7, 1},
     6},
    {"a = f32[3] constant({1, 1, nan})\n b = f32[3] constant({nan, 1, 1})\n c = f32[3] constant({1, nan, 1})\n"
     " x = c64[3] complex(a, b)\n y = c64[3] complex(a, c)\n r = pred[3] compare(x, y), direction=LE",
     {1, 1, 0},
     3},
    {"a = f32[3] constant({1, 1, nan})\n b = f32[3] constant({nan, 1, 1})\n c = f32[3] constant({1, nan, 1})\n"
     " x = c64[3] complex(a, b)\n y = c64[3] complex(a, c)\n r = pred[3] compare(x, y), direction=LT",
     {0, 0, 0},
     3},
    {"x = c64[4] constant({(1.9, 5), (-3, 1), (200, 0), (0, 7)})\n r = s8[4] convert(x)", {1, -3, 127, 0}, 4},
    // f8e8m0fnu is held as f32 where its precision is reduced: all its powers of two stay, also those that f32 does not
    // have.
    {"a = u8[6] constant({0, 1, 112, 113, 143, 254})\n x = f8e8m0fnu[6] bitcast-convert(a)\n"
     " y = f8e8m0fnu[6] reduce-precision(x), exponent_bits=11, mantissa_bits=8\n b = u8[6] bitcast-convert(y)\n"
     " r = s32[6] convert(b)",
     {0, 1, 112, 113, 143, 254},
     6},
    {"a = u8[6] constant({0, 1, 112, 113, 143, 254})\n x = f8e8m0fnu[6] bitcast-convert(a)\n"
     " y = f8e8m0fnu[6] reduce-precision(x), exponent_bits=8, mantissa_bits=0\n b = u8[6] bitcast-convert(y)\n"
     " r = s32[6] convert(b)",
     {255, 1, 112, 113, 143, 254},
     6},
    {"a = u8[6] constant({0, 1, 112, 113, 142, 143})\n x = f8e8m0fnu[6] bitcast-convert(a)\n"
     " y = f8e8m0fnu[6] reduce-precision(x), exponent_bits=5, mantissa_bits=2\n b = u8[6] bitcast-convert(y)\n"
     " r = s32[6] convert(b)",
     {255, 255, 255, 113, 142, 255},
     6},
    // What a product gives of another kind than its operands is converted once: f8 sums are rounded to f8 first, and
    // integers are floats before they are multiplied.
    {"x = f8e5m2fnuz[1] constant({5})\n y = f8e5m2fnuz[2] constant({-3, -8})\n"
     " d = s32[1,2] dot(x, y), lhs_contracting_dims={}, rhs_contracting_dims={}\n r = s32[2] reshape(d)",
     {-16, -40},
     2},
    {"x = s64[2] constant({4611686018427387904, 99})\n d = f64[] dot(x, x), lhs_contracting_dims={0}, "
     "rhs_contracting_dims={0}\n b = f64[] constant(2.2e37)\n a = f64[] constant(2.1e37)\n"
     " l = pred[] compare(d, a), direction=GT\n m = pred[] compare(d, b), direction=LT\n n = pred[] and(l, m)\n"
     " r = pred[1] reshape(n)",
     {1},
     1},
    {"x = s32[2] constant({1073741824, 5})\n y = s32[2] constant({1, 0})\n"
     " d = f16[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n f = pred[] is-finite(d)\n"
     " r = pred[1] reshape(f)",
     {0},
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

// The upper halves of the bytes that hold them kept their neighbours' bits, which came out in .npy files.
Test(narrow, bug_floats_of_four_bits_had_their_neighbours_bits) {
    static const unsigned char want[4] = {0xc, 0x6, 0x7, 0xf};
    HloEvalOptions options = {0};
    HloStatus status;
    HloLiteral *result = run_floats(
        "HloModule m\nENTRY e {\n a = u8[2] constant({108, 247})\n ROOT r = f4e2m1fn[2,2] bitcast-convert(a)\n}\n",
        NULL, &options, &status);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect_arr_eq((const unsigned char *)result->data, want, sizeof want);
    hlo_literal_free(result);
}
