// SPDX-License-Identifier: Apache-2.0
// f32 functions as values, with the operations and roundings of the kernels (isa/loop_math_vectors.inc,
// isa/loop_math_avx512.inc, and the fast_* functions of isa/loop_math.inc), so that the bits are the same. Not tanh and
// erf with AVX-512: their kernels look coefficients up in sixteen registers, for which a chain has no room, and are as
// fast on their own. With AVX2 only e^x: the other kernels take a shorter way for common arguments, or one with two
// loops (measured on Zen 4).
#include <assert.h>
#include <math.h>
#include <string.h>

#include "targets/cpu/isa/polynomials.h"
#include "targets/cpu/jit/values.h"

static int32_t number(CpuJitBlock *b, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return cpu_jit_constant(b, bits, false);
}

static int32_t binary(CpuJitBlock *b, CpuJitOp op, int32_t x, int32_t y) {
    return cpu_jit_value(b, op, false, x, y, -1);
}

static int32_t select_between(CpuJitBlock *b, int32_t mask, int32_t yes, int32_t no) {
    return cpu_jit_value(b, CPU_VALUE_SELECT, false, mask, yes, no);
}

static int32_t fused(CpuJitBlock *b, int32_t x, int32_t y, int32_t z) {
    return cpu_jit_value(b, CPU_VALUE_FUSED_F, false, x, y, z);
}

// Returns the polynomial of x with these coefficients, from the highest power down.
static int32_t polynomial(CpuJitBlock *b, int32_t x, const float *terms, int count) {
    int32_t p = number(b, terms[0]);
    for (int i = 1; i < count; i++) p = fused(b, p, x, number(b, terms[i]));
    return p;
}

static int32_t shifted(CpuJitBlock *b, CpuJitOp op, int32_t x, unsigned by) {
    return binary(b, op, x, cpu_jit_constant(b, by, false));
}

// For x = count * ln 2 + r, returns e^r, and the shifted count.
static int32_t reduced_exponential(CpuJitBlock *b, int32_t x, int32_t *shifted) {
    const int32_t shift = number(b, kRoundingShift);
    *shifted = fused(b, x, number(b, kInverseLn2), shift);
    const int32_t count = binary(b, CPU_VALUE_SUBTRACT_F, *shifted, shift);
    const int32_t r = fused(b, count, number(b, kLowLn2), fused(b, count, number(b, -kHighLn2), x));
    const int32_t p = polynomial(b, r, kExpTerms, (int)(sizeof kExpTerms / sizeof *kExpTerms));
    const int32_t rest = fused(b, p, binary(b, CPU_VALUE_MULTIPLY_F, r, r), r);
    return binary(b, CPU_VALUE_ADD_F, rest, number(b, 1));
}

static int32_t exponential(CpuJitBlock *b, int lanes, int32_t x) {
    int32_t shifted;
    if (lanes == 8) {
        const int32_t power = reduced_exponential(b, x, &shifted);
        return cpu_jit_value(b, CPU_VALUE_SCALE_EXP, false, x, power, shifted);
    }
    x = binary(b, CPU_VALUE_LESSER_F, number(b, kExpLargest), x);
    x = binary(b, CPU_VALUE_GREATER_F, number(b, kExpSmallest), x);
    const int32_t some = binary(b, CPU_VALUE_NOT_LESS_F, x, number(b, kExpZeroBelow));
    const int32_t power = reduced_exponential(b, x, &shifted);
    const int32_t count = binary(b, CPU_VALUE_SUBTRACT_F, shifted, number(b, kRoundingShift));
    return cpu_jit_value(b, CPU_VALUE_SCALE, false, some, power, count);
}

// Returns ln x for normal x above 0 that has been scaled up by 2^less.
static int32_t normal_logarithm(CpuJitBlock *b, int32_t x, int32_t less) {
    const int32_t root = cpu_jit_constant(b, 0x3f3504f3, false);  // of 1/2
    const int32_t n = shifted(b, CPU_VALUE_SHIFT_RIGHT_ARITHMETIC, binary(b, CPU_VALUE_SUBTRACT, x, root), 23);
    const int32_t m = binary(b, CPU_VALUE_SUBTRACT, x, shifted(b, CPU_VALUE_SHIFT_LEFT, n, 23));
    const int32_t f = binary(b, CPU_VALUE_SUBTRACT_F, m, number(b, 1)), f2 = binary(b, CPU_VALUE_MULTIPLY_F, f, f);
    const int32_t whole = cpu_jit_value(b, CPU_VALUE_S32_TO_F32, false, n, -1, -1);
    const int32_t count = binary(b, CPU_VALUE_SUBTRACT_F, whole, less);
    const int32_t p = polynomial(b, f, kLogTerms, (int)(sizeof kLogTerms / sizeof *kLogTerms));
    const int32_t half = binary(b, CPU_VALUE_MULTIPLY_F, number(b, -0.5f), f2);
    const int32_t low = fused(b, count, number(b, -kLowLn2), half);
    const int32_t r = fused(b, binary(b, CPU_VALUE_MULTIPLY_F, f2, f), p, low);
    return fused(b, count, number(b, kHighLn2), binary(b, CPU_VALUE_ADD_F, f, r));
}

static int32_t logarithm(CpuJitBlock *b, int32_t x) {
    const int32_t zero = number(b, 0), infinity = number(b, INFINITY);
    const int32_t subnormal = binary(b, CPU_VALUE_LT_F, x, number(b, 0x1p-126f));
    const int32_t scaled = select_between(b, subnormal, binary(b, CPU_VALUE_MULTIPLY_F, x, number(b, 0x1p23f)), x);
    int32_t r = normal_logarithm(b, scaled, select_between(b, subnormal, number(b, 23), zero));
    r = select_between(b, binary(b, CPU_VALUE_EQ_F, x, zero), number(b, -INFINITY), r);
    r = select_between(b, binary(b, CPU_VALUE_EQ_F, x, infinity), x, r);
    return select_between(b, binary(b, CPU_VALUE_GE_F, x, zero), r, number(b, NAN));
}

static int32_t logistic(CpuJitBlock *b, int lanes, int32_t x) {
    const int32_t sign = number(b, -0.0f), one = number(b, 1);
    const int32_t e = exponential(b, lanes, binary(b, CPU_VALUE_OR, x, sign));
    const int32_t below = binary(b, CPU_VALUE_LT_F, x, number(b, 0));
    const int32_t quotient =
        binary(b, CPU_VALUE_DIVIDE_F, select_between(b, below, e, one), binary(b, CPU_VALUE_ADD_F, one, e));
    return select_between(b, below, fused(b, binary(b, CPU_VALUE_XOR, e, sign), quotient, e), quotient);
}

bool cpu_jit_is_function(CpuLoopOp op, int lanes) {
    return lanes >= 8 && (op == CPU_OP_EXP || (lanes == 16 && (op == CPU_OP_LOG || op == CPU_OP_LOGISTIC)));
}

int32_t cpu_jit_function(CpuJitBlock *block, CpuLoopOp op, int lanes, int32_t x) {
    assert(cpu_jit_is_function(op, lanes));
    switch (op) {
        case CPU_OP_EXP: return exponential(block, lanes, x);
        case CPU_OP_LOG: return logarithm(block, x);
        default: assert(op == CPU_OP_LOGISTIC); return logistic(block, lanes, x);
    }
}
