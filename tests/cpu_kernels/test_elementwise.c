// SPDX-License-Identifier: Apache-2.0
// Operations and conversions of every element type at their edges, on every instruction set of this machine.
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/ir/literal.h"
#include "targets/cpu/isa/isa.h"
#include "tests/support/cases.h"
#include "tests/support/levels.h"

static const CpuLoopKernels *kernels_of(int set) {
    return cpu_isa_loop_kernels((CpuFeatures)set);
}

// ---- integers: a model of any width in 64 bits

typedef struct Integer {
    int bits;
    bool is_signed;
    CpuRegisterType type;
} Integer;

static Integer kIntegers[] = {
    {8, true, CPU_REGISTER_S8},    {16, true, CPU_REGISTER_S16},  {32, true, CPU_REGISTER_S32},
    {64, true, CPU_REGISTER_S64},  {8, false, CPU_REGISTER_U8},   {16, false, CPU_REGISTER_U16},
    {32, false, CPU_REGISTER_U32}, {64, false, CPU_REGISTER_U64},
};

// The value that the `bits` low bits of `raw` encode, in 64 bits.
static uint64_t extend(const Integer *t, uint64_t raw) {
    if (t->bits == 64) return raw;
    const uint64_t mask = (UINT64_C(1) << t->bits) - 1, sign = UINT64_C(1) << (t->bits - 1);
    raw &= mask;
    return t->is_signed && raw & sign ? raw | ~mask : raw;
}

static bool less(const Integer *t, uint64_t a, uint64_t b) {
    return t->is_signed ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t model_divide(const Integer *t, uint64_t a, uint64_t b) {
    if (b == 0) return UINT64_MAX;
    if (!t->is_signed) return a / b;
    return b == UINT64_MAX ? 0 - a : (uint64_t)((int64_t)a / (int64_t)b);
}

static uint64_t model_remainder(const Integer *t, uint64_t a, uint64_t b) {
    if (b == 0) return a;
    if (!t->is_signed) return a % b;
    return b == UINT64_MAX ? 0 : (uint64_t)((int64_t)a % (int64_t)b);
}

static uint64_t low_bits(const Integer *t, uint64_t a) {
    return t->bits == 64 ? a : a & ((UINT64_C(1) << t->bits) - 1);
}

static uint64_t model_shift(const Integer *t, CpuLoopOp op, uint64_t a, uint64_t b) {
    const uint64_t amount = low_bits(t, b), width = (uint64_t)t->bits;
    switch (op) {
        case CPU_OP_SHIFT_LEFT: return amount < width ? a << amount : 0;
        case CPU_OP_SHIFT_RIGHT_LOGICAL: return amount < width ? low_bits(t, a) >> amount : 0;
        default: break;
    }
    const Integer as_signed = {t->bits, true, t->type};
    return (uint64_t)((int64_t)extend(&as_signed, a) >> (amount < width ? amount : width - 1));
}

static uint64_t model_power(const Integer *t, uint64_t a, uint64_t b) {
    if (t->is_signed && (int64_t)b < 0) return a == 1 ? 1 : a == UINT64_MAX ? (b & 1 ? a : 1) : 0;
    uint64_t result = 1;
    for (; b; b >>= 1, a *= a)
        if (b & 1) result *= a;
    return result;
}

static uint64_t model_binary(const Integer *t, CpuLoopOp op, uint64_t a, uint64_t b) {
    switch (op) {
        case CPU_OP_ADD: return a + b;
        case CPU_OP_SUBTRACT: return a - b;
        case CPU_OP_MULTIPLY: return a * b;
        case CPU_OP_DIVIDE: return model_divide(t, a, b);
        case CPU_OP_REMAINDER: return model_remainder(t, a, b);
        case CPU_OP_MAXIMUM: return less(t, a, b) ? b : a;
        case CPU_OP_MINIMUM: return less(t, b, a) ? b : a;
        case CPU_OP_AND: return a & b;
        case CPU_OP_OR: return a | b;
        case CPU_OP_XOR: return a ^ b;
        case CPU_OP_POWER: return model_power(t, a, b);
        default: return model_shift(t, op, a, b);
    }
}

static uint64_t model_unary(const Integer *t, CpuLoopOp op, uint64_t a) {
    switch (op) {
        case CPU_OP_ABS: return t->is_signed && (int64_t)a < 0 ? 0 - a : a;
        case CPU_OP_NEGATE: return 0 - a;
        case CPU_OP_SIGN: return t->is_signed && (int64_t)a < 0 ? UINT64_MAX : a != 0;
        case CPU_OP_NOT: return ~a;
        case CPU_OP_POPCNT: return (uint64_t)__builtin_popcountll(low_bits(t, a));
        default:
            return low_bits(t, a) ? (uint64_t)(__builtin_clzll(low_bits(t, a)) - (64 - t->bits)) : (uint64_t)t->bits;
    }
}

enum { kValues = 14 };

static void edge_values(const Integer *t, uint64_t *values) {
    const uint64_t top = UINT64_C(1) << (t->bits - 1);
    const uint64_t list[kValues] = {
        0,  1, 2, 3, 5, 7, (uint64_t)t->bits, (uint64_t)t->bits - 1, top, top - 1, top + 1, UINT64_MAX, UINT64_MAX - 4,
        100};
    for (int i = 0; i < kValues; i++) values[i] = extend(t, list[i]);
}

static void put(const Integer *t, void *to, int i, uint64_t value) {
    memcpy((char *)to + i * (t->bits / 8), &value, (size_t)(t->bits / 8));
}

static uint64_t get(const Integer *t, const void *from, int i) {
    uint64_t raw = 0;
    memcpy(&raw, (const char *)from + i * (t->bits / 8), (size_t)(t->bits / 8));
    return extend(t, raw);
}

CaseList(cpu_elementwise, integers_at_the_edges) {
    return cr_make_param_array(Integer, kIntegers, 8);
}

CaseTest(Integer *t, cpu_elementwise, integers_at_the_edges) {
    static const CpuLoopOp binary[] = {CPU_OP_ADD,
                                       CPU_OP_SUBTRACT,
                                       CPU_OP_MULTIPLY,
                                       CPU_OP_DIVIDE,
                                       CPU_OP_REMAINDER,
                                       CPU_OP_MAXIMUM,
                                       CPU_OP_MINIMUM,
                                       CPU_OP_AND,
                                       CPU_OP_OR,
                                       CPU_OP_XOR,
                                       CPU_OP_POWER,
                                       CPU_OP_SHIFT_LEFT,
                                       CPU_OP_SHIFT_RIGHT_ARITHMETIC,
                                       CPU_OP_SHIFT_RIGHT_LOGICAL};
    static const CpuLoopOp unary[] = {CPU_OP_ABS, CPU_OP_NEGATE, CPU_OP_SIGN, CPU_OP_NOT, CPU_OP_POPCNT, CPU_OP_CLZ};
    uint64_t values[kValues], a[kValues * kValues], b[kValues * kValues], out[kValues * kValues];
    edge_values(t, values);
    for (int i = 0; i < kValues * kValues; i++) put(t, a, i, values[i / kValues]), put(t, b, i, values[i % kValues]);
    for (int set = levels_first(); set <= levels_last(); set++) {
        for (size_t o = 0; o < sizeof binary / sizeof binary[0]; o++) {
            kernels_of(set)->operation[binary[o]][t->type](out, a, b, NULL, kValues * kValues, 0);
            for (int i = 0; i < kValues * kValues; i++)
                cr_assert_eq(get(t, out, i),
                             extend(t, model_binary(t, binary[o], values[i / kValues], values[i % kValues])),
                             "op %d (%llx, %llx)", (int)binary[o], (unsigned long long)get(t, a, i),
                             (unsigned long long)get(t, b, i));
        }
        for (size_t o = 0; o < sizeof unary / sizeof unary[0]; o++) {
            kernels_of(set)->operation[unary[o]][t->type](out, a, NULL, NULL, kValues * kValues, 0);
            for (int i = 0; i < kValues * kValues; i++)
                cr_assert_eq(get(t, out, i), extend(t, model_unary(t, unary[o], values[i / kValues])));
        }
    }
}

// Quotients beside whole numbers, where a rounded division would tell the wrong one.
CaseList(cpu_elementwise, quotients_beside_whole_numbers) {
    return cr_make_param_array(Integer, kIntegers, 8);
}

CaseTest(Integer *t, cpu_elementwise, quotients_beside_whole_numbers) {
    enum { kCount = 6000 };
    static uint64_t a[kCount], b[kCount], out[kCount];
    uint64_t state = 5;
    for (int i = 0; i < kCount; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        const uint64_t divisor = extend(t, state >> 17) >> (i % 3 * t->bits / 3), top = extend(t, state >> 5);
        const uint64_t quotient = divisor ? model_divide(t, top, extend(t, divisor)) : 0;
        put(t, b, i, extend(t, divisor));
        put(t, a, i, extend(t, quotient * divisor + (uint64_t)(i % 5) - 2));
    }
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int rest = 0; rest < 2; rest++) {
            const CpuLoopOp op = rest ? CPU_OP_REMAINDER : CPU_OP_DIVIDE;
            kernels_of(set)->operation[op][t->type](out, a, b, NULL, kCount, 0);
            for (int i = 0; i < kCount; i++)
                cr_assert_eq(get(t, out, i), extend(t, model_binary(t, op, get(t, a, i), get(t, b, i))),
                             "%s of %llx by %llx", rest ? "rest" : "quotient", (unsigned long long)get(t, a, i),
                             (unsigned long long)get(t, b, i));
        }
}

// A block with one divisor is divided by its reciprocal, and 64-bit numbers as doubles where these are exact: all
// divisors and all dividends at edges, beside multiples of the divisor, and in blocks of any length.
CaseList(cpu_elementwise, quotients_by_one_number) {
    return cr_make_param_array(Integer, kIntegers, 8);
}

enum { kDivided = 400 };

static uint64_t divisor_of(const Integer *t, int i) {
    static const uint64_t small[] = {0, 1, UINT64_MAX, 2, 3, 5, 7, 10, 25, 49, 100, 127, 1000, 65535, 1000003};
    enum { kSmall = sizeof small / sizeof small[0] };
    if (i < kSmall) return extend(t, small[i]);
    if (i < 2 * kSmall) return extend(t, 0 - small[i - kSmall]);
    const int bit = (i - 2 * kSmall) / 3 % t->bits;
    return extend(t, (UINT64_C(1) << bit) + (uint64_t)(i % 3) - 1);
}

// Edges of the type and of the doubles, then numbers beside multiples of the divisor, of all magnitudes.
static uint64_t dividend_of(const Integer *t, int i, uint64_t divisor, uint64_t random) {
    uint64_t edges[kValues];
    edge_values(t, edges);
    if (i < kValues) return edges[i];
    const uint64_t near = (UINT64_C(1) << (i % t->bits)) + (uint64_t)(i % 3) - 1;
    if (i < 3 * t->bits + kValues) return extend(t, i % 2 ? near : 0 - near);
    const uint64_t multiple = extend(t, (random >> (i % t->bits)) / (divisor ? divisor : 1) * divisor);
    return extend(t, multiple + (uint64_t)(i % 3) - 1);
}

CaseTest(Integer *t, cpu_elementwise, quotients_by_one_number) {
    static const int lengths[] = {kDivided, 1, 15, 16, 17, 33, 130};
    static uint64_t a[kDivided], b[kDivided], out[kDivided];
    uint64_t state = 9;
    for (int d = 0; d < 30 + 3 * t->bits; d++) {
        const uint64_t divisor = divisor_of(t, d);
        for (int i = 0; i < kDivided; i++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
            put(t, a, i, dividend_of(t, i, divisor, state ^ state >> 29)), put(t, b, i, divisor);
        }
        for (int set = levels_first(); set <= levels_last(); set++)
            for (int k = 0; k < 14; k++) {
                const CpuLoopOp op = k % 2 ? CPU_OP_REMAINDER : CPU_OP_DIVIDE;
                kernels_of(set)->operation[op][t->type](out, a, b, NULL, lengths[k / 2], 0);
                for (int i = 0; i < lengths[k / 2]; i++)
                    cr_assert_eq(get(t, out, i), extend(t, model_binary(t, op, get(t, a, i), divisor)),
                                 "%s of %llx by %llx, %d numbers, set %d", k % 2 ? "rest" : "quotient",
                                 (unsigned long long)get(t, a, i), (unsigned long long)divisor, lengths[k / 2], set);
            }
    }
}

// One divisor that differs, wherever it is, is not taken for the others.
CaseList(cpu_elementwise, quotients_by_all_but_one) {
    return cr_make_param_array(Integer, kIntegers, 8);
}

CaseTest(Integer *t, cpu_elementwise, quotients_by_all_but_one) {
    enum { kCount = 40 };
    uint64_t a[kCount], b[kCount], out[kCount];
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int other = 0; other < kCount; other++) {
            for (int i = 0; i < kCount; i++) put(t, a, i, (uint64_t)(100 + i)), put(t, b, i, i == other ? 0 : 7);
            for (int rest = 0; rest < 2; rest++) {
                const CpuLoopOp op = rest ? CPU_OP_REMAINDER : CPU_OP_DIVIDE;
                kernels_of(set)->operation[op][t->type](out, a, b, NULL, kCount, 0);
                for (int i = 0; i < kCount; i++)
                    cr_assert_eq(get(t, out, i), extend(t, model_binary(t, op, get(t, a, i), get(t, b, i))));
            }
        }
}

// 64-bit blocks are divided as doubles only if all of both operands are exact: dividends and divisors up to 2^50, and
// beyond it each alone.
Test(cpu_elementwise, quotients_where_doubles_end) {
    static Integer types[] = {{64, true, CPU_REGISTER_S64}, {64, false, CPU_REGISTER_U64}};
    enum { kCount = 3 * 12 * 2 };
    uint64_t border[kCount], a[kCount], b[kCount], out[kCount];
    for (int i = 0; i < kCount; i++) {
        const uint64_t x = (UINT64_C(1) << (44 + i / 6)) + (uint64_t)(i % 3) - 1;
        border[i] = i / 3 % 2 ? 0 - x : x;
    }
    for (int k = 0; k < 2 * kCount * 4; k++) {
        const Integer *t = &types[k % 2];
        for (int i = 0; i < kCount; i++) a[i] = (uint64_t)i * 977, b[i] = (uint64_t)i + 1;
        if (k / 2 % 2) a[k / 8 % kCount] = border[k / 8 % kCount];
        if (k / 4 % 2) b[(k / 8 + 5) % kCount] = border[k / 8 % kCount];
        for (int set = levels_first(); set <= levels_last(); set++)
            for (int rest = 0; rest < 2; rest++) {
                const CpuLoopOp op = rest ? CPU_OP_REMAINDER : CPU_OP_DIVIDE;
                kernels_of(set)->operation[op][t->type](out, a, b, NULL, kCount, 0);
                for (int i = 0; i < kCount; i++)
                    cr_assert_eq(out[i], model_binary(t, op, a[i], b[i]), "%llx by %llx, set %d",
                                 (unsigned long long)a[i], (unsigned long long)b[i], set);
            }
    }
}

// Zero, every highest bit (that of the sign too), alone, with all lower bits, and with random ones.
CaseList(cpu_elementwise, leading_zeros_below_every_highest_bit) {
    return cr_make_param_array(Integer, kIntegers, 8);
}

CaseTest(Integer *t, cpu_elementwise, leading_zeros_below_every_highest_bit) {
    enum { kEach = 8, kMost = 64 * kEach + 1 };
    uint64_t in[kMost], out[kMost], state = 3;
    const int count = t->bits * kEach + 1;
    put(t, in, 0, 0);
    for (int i = 1; i < count; i++) {
        const uint64_t top = UINT64_C(1) << ((i - 1) / kEach), below = top - 1;
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        put(t, in, i,
            top | (i % kEach == 1   ? 0
                   : i % kEach == 2 ? below
                   : i % kEach == 3 ? below >> 1
                                    : state & below));
    }
    for (int set = levels_first(); set <= levels_last(); set++) {
        kernels_of(set)->operation[CPU_OP_CLZ][t->type](out, in, NULL, NULL, count, 0);
        for (int i = 0; i < count; i++)
            cr_assert_eq(get(t, out, i), (uint64_t)(i ? t->bits - 1 - (i - 1) / kEach : t->bits), "%llx, set %d",
                         (unsigned long long)get(t, in, i), set);
    }
}

// ---- conversions

static uint64_t model_saturate(const Integer *t, double x) {
    if (isnan(x)) return 0;
    const double top = ldexp(1, t->is_signed ? t->bits - 1 : t->bits), bottom = t->is_signed ? -top : 0;
    if (x >= top) return extend(t, t->is_signed ? (UINT64_C(1) << (t->bits - 1)) - 1 : UINT64_MAX);
    if (x <= bottom) return t->is_signed ? 0 - (UINT64_C(1) << (t->bits - 1)) : 0;
    return t->is_signed ? (uint64_t)(int64_t)x : (uint64_t)x;
}

CaseList(cpu_elementwise, floats_saturate) {
    return cr_make_param_array(Integer, kIntegers, 8);
}

CaseTest(Integer *t, cpu_elementwise, floats_saturate) {
    static const float x[] = {0,       -0.0f,    0.9f,          -0.9f,          1.5f,          -1.5f, 127,
                              128,     -128,     -129,          255.5f,         256,           3e4f,  32768,
                              -32769,  65536,    2147483647.0f, -2147483648.0f, 4294967295.0f, 1e10f, -1e10f,
                              9.3e18f, -9.3e18f, 1.9e19f,       INFINITY,       -INFINITY,     NAN};
    enum { kCount = sizeof x / sizeof x[0] };
    double wide[kCount];
    uint64_t out[kCount];
    for (int i = 0; i < kCount; i++) wide[i] = x[i];
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int source = 0; source < 2; source++) {
            const CpuRegisterType from = source ? CPU_REGISTER_F64 : CPU_REGISTER_F32;
            kernels_of(set)->convert[from][t->type](out, source ? (const void *)wide : x, NULL, NULL, kCount, 0);
            for (int i = 0; i < kCount; i++)
                cr_assert_eq(get(t, out, i), extend(t, model_saturate(t, x[i])), "%g to %d bits: %llx", x[i], t->bits,
                             (unsigned long long)get(t, out, i));
        }
}

static HloType kNarrow[] = {HLO_BF16,          HLO_F16,        HLO_F8E5M2,     HLO_F8E4M3,   HLO_F8E3M4,   HLO_F8E4M3FN,
                            HLO_F8E4M3B11FNUZ, HLO_F8E5M2FNUZ, HLO_F8E4M3FNUZ, HLO_F4E2M1FN, HLO_F8E8M0FNU};

CaseList(cpu_elementwise, narrow_floats_agree_with_literals) {
    return cr_make_param_array(HloType, kNarrow, 11);
}

CaseTest(HloType *type, cpu_elementwise, narrow_floats_agree_with_literals) {
    const int bits = hlo_type_info(*type)->bits, width = hlo_type_bytes(*type);
    for (int set = levels_first(); set <= levels_last(); set++) {
        for (uint32_t code = 0; code < 1u << bits; code++) {
            float decoded, rounded;
            kernels_of(set)->decode[*type](&decoded, &code, NULL, NULL, 1, 0);
            const double want = hlo_float_decode(*type, code);
            cr_assert(isnan(want) ? isnan(decoded) : (decoded == want && !signbit(decoded) == !signbit(want)),
                      "code %x: %g, not %g", code, decoded, want);
            kernels_of(set)->round[*type](&rounded, &decoded, NULL, NULL, 1, 0);
            cr_assert(isnan(decoded) ? isnan(rounded) : rounded == decoded);
        }
        uint32_t state = 77;
        for (int i = 0; i < 100000; i++) {
            state = state * 1664525 + 1013904223;
            uint32_t pattern =
                i % 2 ? state : (state & 0x83ffffff) | (120 + (state >> 20 & 15)) << 23 | (state & 0xf) << 19;
            if (i % 5 == 0) pattern &= 0xfff00000;
            float x;
            uint32_t code = 0;
            memcpy(&x, &pattern, sizeof x);
            kernels_of(set)->encode[*type](&code, &x, NULL, NULL, 1, 0);
            const uint64_t want = hlo_float_encode(*type, x), mask = (UINT64_C(1) << (8 * width)) - 1;
            cr_assert(isnan(x) ? isnan(hlo_float_decode(*type, code)) == isnan(hlo_float_decode(*type, want))
                               : (code & mask) == want,
                      "%s of %a: %x, not %llx", hlo_type_text(*type), x, code, (unsigned long long)want);
        }
    }
}

// ---- floats

static float apply2(int set, CpuLoopOp op, float x, float y) {
    float out;
    kernels_of(set)->operation[op][CPU_REGISTER_F32](&out, &x, &y, NULL, 1, 0);
    return out;
}

static int compare2(int set, CpuLoopOp op, float x, float y) {
    uint8_t out;
    kernels_of(set)->operation[op][CPU_REGISTER_F32](&out, &x, &y, NULL, 1, 0);
    return out;
}

Test(cpu_elementwise, floats_at_the_edges) {
    for (int set = levels_first(); set <= levels_last(); set++) {
        cr_assert(isnan(apply2(set, CPU_OP_MAXIMUM, NAN, 1)) && isnan(apply2(set, CPU_OP_MAXIMUM, 1, NAN)));
        cr_assert(isnan(apply2(set, CPU_OP_MINIMUM, NAN, 1)) && isnan(apply2(set, CPU_OP_MINIMUM, 1, NAN)));
        cr_assert(!signbit(apply2(set, CPU_OP_MAXIMUM, -0.0f, 0.0f)) &&
                  !signbit(apply2(set, CPU_OP_MAXIMUM, 0.0f, -0.0f)));
        cr_assert(signbit(apply2(set, CPU_OP_MINIMUM, -0.0f, 0.0f)) &&
                  signbit(apply2(set, CPU_OP_MINIMUM, 0.0f, -0.0f)));
        cr_assert_eq(apply2(set, CPU_OP_ROUND_NEAREST_AFZ, 0.49999997f, 0), 0);
        cr_assert_eq(apply2(set, CPU_OP_ROUND_NEAREST_AFZ, -2.5f, 0), -3);
        cr_assert_eq(apply2(set, CPU_OP_ROUND_NEAREST_EVEN, -2.5f, 0), -2);
        cr_assert_eq(apply2(set, CPU_OP_ROUND_NEAREST_AFZ, 8388609.0f, 0), 8388609);
        cr_assert(isnan(apply2(set, CPU_OP_SIGN, NAN, 0)) && signbit(apply2(set, CPU_OP_SIGN, -0.0f, 0)));
        cr_assert_eq(compare2(set, CPU_OP_EQ, NAN, NAN), 0);
        cr_assert_eq(compare2(set, CPU_OP_NE, NAN, NAN), 1);
        cr_assert_eq(compare2(set, CPU_OP_EQ_TOTAL, NAN, NAN), 1);
        cr_assert_eq(compare2(set, CPU_OP_LT_TOTAL, -0.0f, 0.0f), 1);
        cr_assert_eq(compare2(set, CPU_OP_LT_TOTAL, INFINITY, NAN), 1);
        cr_assert_eq(compare2(set, CPU_OP_GT_TOTAL, -INFINITY, -NAN), 1);
    }
}

// ---- predicates of 32 and 64 bits, of any number of elements

enum { kCompared = 140 };

static bool holds(CpuLoopOp op, bool below, bool equal, bool above) {
    switch (op) {
        case CPU_OP_EQ: return equal;
        case CPU_OP_NE: return !equal;
        case CPU_OP_LT: return below;
        case CPU_OP_LE: return below || equal;
        case CPU_OP_GT: return above;
        default: return above || equal;
    }
}

static bool compares(CpuLoopOp op, CpuRegisterType type, uint32_t x, uint32_t y) {
    float a, b;
    memcpy(&a, &x, sizeof a);
    memcpy(&b, &y, sizeof b);
    if (type == CPU_REGISTER_F32) return holds(op, a<b, a == b, a> b);
    if (type == CPU_REGISTER_U32) return holds(op, x<y, x == y, x> y);
    return holds(op, (int32_t)x<(int32_t)y, x == y, (int32_t)x>(int32_t) y);
}

static bool compares_wide(CpuLoopOp op, CpuRegisterType type, uint64_t x, uint64_t y) {
    double a, b;
    memcpy(&a, &x, sizeof a);
    memcpy(&b, &y, sizeof b);
    if (type == CPU_REGISTER_F64) return holds(op, a<b, a == b, a> b);
    if (type == CPU_REGISTER_U64) return holds(op, x<y, x == y, x> y);
    return holds(op, (int64_t)x<(int64_t)y, x == y, (int64_t)x>(int64_t) y);
}

// Bits that are edges as floats and as whole numbers.
static const uint32_t kPlain[] = {0,          0x80000000, 1,          0x80000001, 0x7f800000,
                                  0xff800000, 0x7fc00000, 0x3f800000, 0xffffffff, 0x7fffffff};
enum { kPlainCount = sizeof kPlain / sizeof kPlain[0] };
// The last ones differ in one half only.
static const uint64_t kWidePlain[] = {0,
                                      UINT64_C(1) << 63,
                                      1,
                                      UINT64_C(1) << 63 | 1,
                                      UINT64_C(0x7ff0000000000000),
                                      UINT64_C(0xfff0000000000000),
                                      UINT64_C(0x7ff8000000000000),
                                      UINT64_C(0x3ff0000000000000),
                                      UINT64_MAX,
                                      INT64_MAX,
                                      UINT64_C(0x00000000ffffffff),
                                      UINT64_C(0xffffffff00000000),
                                      UINT64_C(0x0000000100000000)};
enum { kWidePlainCount = sizeof kWidePlain / sizeof kWidePlain[0] };

static const CpuLoopOp kComparisons[] = {CPU_OP_EQ, CPU_OP_NE, CPU_OP_LT, CPU_OP_LE, CPU_OP_GT, CPU_OP_GE};

Test(cpu_elementwise, comparisons_of_any_length) {
    static const CpuRegisterType types[] = {CPU_REGISTER_F32, CPU_REGISTER_S32, CPU_REGISTER_U32};
    uint32_t x[kCompared], y[kCompared];
    uint8_t out[kCompared + 1];
    for (int i = 0; i < kCompared; i++)
        x[i] = kPlain[i % kPlainCount], y[i] = kPlain[i * 7 / kPlainCount % kPlainCount];
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int k = 0; k < 18; k++)
            for (int n = 1; n <= kCompared; n++) {
                out[n] = 42;
                kernels_of(set)->operation[kComparisons[k / 3]][types[k % 3]](out, x, y, NULL, n, 0);
                for (int i = 0; i < n; i++)
                    cr_assert_eq(out[i], compares(kComparisons[k / 3], types[k % 3], x[i], y[i]),
                                 "op %d, %d of %d, set %d", k / 3, i, n, set);
                cr_assert_eq(out[n], 42, "op %d writes past %d elements, set %d", k / 3, n, set);
            }
}

Test(cpu_elementwise, comparisons_of_64_bits_of_any_length) {
    static const CpuRegisterType types[] = {CPU_REGISTER_F64, CPU_REGISTER_S64, CPU_REGISTER_U64};
    enum { kPairs = kWidePlainCount * kWidePlainCount };
    uint64_t x[kPairs], y[kPairs];
    uint8_t out[kPairs + 1];
    for (int i = 0; i < kPairs; i++) x[i] = kWidePlain[i % kWidePlainCount], y[i] = kWidePlain[i / kWidePlainCount];
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int k = 0; k < 18; k++)
            for (int n = 1; n <= kPairs; n++) {
                out[n] = 42;
                kernels_of(set)->operation[kComparisons[k / 3]][types[k % 3]](out, x, y, NULL, n, 0);
                for (int i = 0; i < n; i++)
                    cr_assert_eq(out[i], compares_wide(kComparisons[k / 3], types[k % 3], x[i], y[i]),
                                 "op %d, %d of %d, set %d", k / 3, i, n, set);
                cr_assert_eq(out[n], 42, "op %d writes past %d elements, set %d", k / 3, n, set);
            }
}

Test(cpu_elementwise, selections_of_any_length) {
    uint8_t choice[kCompared];
    uint32_t x[kCompared], y[kCompared], out[kCompared + 1];
    uint64_t wide_x[kCompared], wide_y[kCompared], wide_out[kCompared + 1];
    for (int i = 0; i < kCompared; i++) {
        choice[i] = (uint8_t)(i * 5 % 7 < 3), x[i] = kPlain[i % kPlainCount], y[i] = (uint32_t)i;
        wide_x[i] = kWidePlain[i % kWidePlainCount], wide_y[i] = (uint64_t)i << 32 | 7;
    }
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int n = 1; n <= kCompared; n++) {
            out[n] = 42, wide_out[n] = 42;
            kernels_of(set)->operation[CPU_OP_SELECT][CPU_REGISTER_F32](out, choice, x, y, n, 0);
            kernels_of(set)->operation[CPU_OP_SELECT][CPU_REGISTER_F64](wide_out, choice, wide_x, wide_y, n, 0);
            for (int i = 0; i < n; i++) {
                cr_assert_eq(out[i], choice[i] ? x[i] : y[i], "%d of %d, set %d", i, n, set);
                cr_assert_eq(wide_out[i], choice[i] ? wide_x[i] : wide_y[i], "64 bits: %d of %d, set %d", i, n, set);
            }
            cr_assert(out[n] == 42 && wide_out[n] == 42, "%d elements, set %d", n, set);
            kernels_of(set)->operation[CPU_OP_SELECT][CPU_REGISTER_C64](wide_out, choice, wide_y, wide_x, n, 0);
            for (int i = 0; i < n; i++)
                cr_assert_eq(wide_out[i], choice[i] ? wide_y[i] : wide_x[i], "c64: %d of %d, set %d", i, n, set);
            cr_assert_eq(wide_out[n], 42, "%d elements of c64, set %d", n, set);
        }
}

// Golden values: XLA's documentation of reduce-precision; f32 to bf16's format keeps 7 bits, ties go to even.
Test(cpu_elementwise, reduces_precision) {
    static const float in[] = {1.00390625f, 1.01171875f, 3e38f, 1e-40f, 70000, NAN, -1e-10f};
    float out[7];
    for (int set = levels_first(); set <= levels_last(); set++) {
        kernels_of(set)->reduce_precision[CPU_REGISTER_F32](out, in, NULL, NULL, 7, 8 << 8 | 7);
        cr_assert(out[0] == 1.0f && out[1] == 1.015625f && out[4] == 70144 && isnan(out[5]));
        kernels_of(set)->reduce_precision[CPU_REGISTER_F32](out, in, NULL, NULL, 7, 5 << 8 | 10);
        cr_assert(out[2] == INFINITY && out[3] == 0 && out[4] == INFINITY && isnan(out[5]) && out[6] == 0 &&
                  signbit(out[6]));
    }
}

Test(cpu_elementwise, complex_numbers) {
    typedef struct Pair {
        float re, im;
    } Pair;
    const Pair a = {3, -4}, b = {1, 2};
    for (int set = levels_first(); set <= levels_last(); set++) {
        Pair out;
        float magnitude;
        kernels_of(set)->operation[CPU_OP_MULTIPLY][CPU_REGISTER_C64](&out, &a, &b, NULL, 1, 0);
        cr_assert(out.re == 11 && out.im == 2);
        kernels_of(set)->operation[CPU_OP_DIVIDE][CPU_REGISTER_C64](&out, &a, &b, NULL, 1, 0);
        cr_assert(out.re == -1 && out.im == -2);
        kernels_of(set)->operation[CPU_OP_ABS][CPU_REGISTER_C64](&magnitude, &a, NULL, NULL, 1, 0);
        cr_assert(magnitude == 5);
        kernels_of(set)->operation[CPU_OP_SQRT][CPU_REGISTER_C64](&out, &a, NULL, NULL, 1, 0);
        cr_assert(out.re == 2 && out.im == -1);
        kernels_of(set)->operation[CPU_OP_COMPLEX][CPU_REGISTER_F32](&out, &a.re, &a.im, NULL, 1, 0);
        cr_assert(out.re == 3 && out.im == -4);
    }
}

// The four products of a complex product are each rounded, then added, whatever the vectors: infinities and NaN too, in
// blocks of any length.
Test(cpu_elementwise, complex_products_round_each_product) {
    static const double kParts[] = {0,     -0.0,  1,         -3,       0.1,       1.0 / 3, 1e38,
                                    1e-38, 1e300, 0x1p-1074, INFINITY, -INFINITY, NAN};
    enum { kEach = sizeof kParts / sizeof kParts[0], kCount = kEach * kEach * kEach };
    static double left[2 * kCount], right[2 * kCount], got[2 * kCount];
    static float left32[2 * kCount], right32[2 * kCount], got32[2 * kCount];
    for (int i = 0; i < 2 * kCount; i++) {
        left[i] = kParts[(i % 2 ? i / 2 / kEach : i / 2) % kEach];
        right[i] = kParts[(i % 2 ? i / 2 / kEach / kEach : i / 2 * 7 / kEach) % kEach];
        left32[i] = (float)left[i], right32[i] = (float)right[i];
    }
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int n = kCount; n > 0; n = n > 20 ? n / 2 : n - 1) {
            const CpuLoopKernels *kernels = cpu_isa_loop_kernels((CpuFeatures)set);
            kernels->operation[CPU_OP_MULTIPLY][CPU_REGISTER_C128](got, left, right, NULL, n, 0);
            kernels->operation[CPU_OP_MULTIPLY][CPU_REGISTER_C64](got32, left32, right32, NULL, n, 0);
            for (int i = 0; i < 2 * n; i++) {
                const int re = i & ~1, im = i | 1, one = i % 2 ? im : re, two = i % 2 ? re : im;
                const volatile double first = left[re] * right[one], second = left[im] * right[two];
                const volatile float first32 = left32[re] * right32[one], second32 = left32[im] * right32[two];
                const double want = i % 2 ? first + second : first - second;
                const float want32 = i % 2 ? first32 + second32 : first32 - second32;
                cr_assert(isnan(want) ? isnan(got[i]) : memcmp(&got[i], &want, sizeof want) == 0,
                          "c128 %d of %d, set %d: %a, not %a", i, n, set, got[i], want);
                cr_assert(isnan(want32) ? isnan(got32[i]) : memcmp(&got32[i], &want32, sizeof want32) == 0,
                          "c64 %d of %d, set %d: %a, not %a", i, n, set, (double)got32[i], (double)want32);
            }
        }
}

// Quotients of complex numbers are those of the compiler's division, over real numbers too and at all edges, in blocks
// that are all real and in blocks where some are not.
Test(cpu_elementwise, complex_quotients_are_the_compilers) {
    static const double kEdges[] = {0, -0.0, 1, -3, 0.1, 1e38, -1e38, 1e-38, 3e-310, INFINITY, -INFINITY, NAN};
    enum { kEdgeCount = sizeof kEdges / sizeof kEdges[0], kCount = kEdgeCount * kEdgeCount * kEdgeCount };
    static double left[2 * kCount], right[2 * kCount], got[2 * kCount];
    static float left32[2 * kCount], right32[2 * kCount], got32[2 * kCount];
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int imaginary = 0; imaginary < kEdgeCount; imaginary++) {
            const CpuLoopKernels *kernels = cpu_isa_loop_kernels((CpuFeatures)set);
            for (int i = 0; i < kCount; i++) {
                left[2 * i] = kEdges[i % kEdgeCount], left[2 * i + 1] = kEdges[i / kEdgeCount % kEdgeCount];
                right[2 * i] = kEdges[i / kEdgeCount / kEdgeCount];
                right[2 * i + 1] = i < kCount / 2 ? 0 : kEdges[imaginary];
                for (int part = 0; part < 2; part++)
                    left32[2 * i + part] = (float)left[2 * i + part],
                                   right32[2 * i + part] = (float)right[2 * i + part];
            }
            kernels->operation[CPU_OP_DIVIDE][CPU_REGISTER_C128](got, left, right, NULL, kCount, 0);
            kernels->operation[CPU_OP_DIVIDE][CPU_REGISTER_C64](got32, left32, right32, NULL, kCount, 0);
            for (int i = 0; i < kCount; i++) {
                const double _Complex wide =
                    CMPLX(left[2 * i], left[2 * i + 1]) / CMPLX(right[2 * i], right[2 * i + 1]),
                                      narrow = CMPLX((double)left32[2 * i], (double)left32[2 * i + 1]) /
                                               CMPLX((double)right32[2 * i], (double)right32[2 * i + 1]);
                const double want[] = {creal(wide), cimag(wide)};
                const float want32[] = {(float)creal(narrow), (float)cimag(narrow)};
                for (int part = 0; part < 2; part++) {
                    const double x = got[2 * i + part];
                    const float y = got32[2 * i + part];
                    cr_assert(isnan(want[part]) ? isnan(x) : memcmp(&x, &want[part], sizeof x) == 0,
                              "c128 %d, part %d: %g, not %g", i, part, x, want[part]);
                    cr_assert(isnan(want32[part]) ? isnan(y) : memcmp(&y, &want32[part], sizeof y) == 0,
                              "c64 %d, part %d: %g, not %g", i, part, (double)y, (double)want32[part]);
                }
            }
        }
}

// ---- rows

// Short rows, which are reduced several at a time, have the bits that each has alone, of every type and operation.
Test(cpu_elementwise, short_rows_together_and_alone) {
    enum { kRows = 37, kLongest = 40, kWidest = 16 };
    static _Alignas(64) unsigned char in[kRows * kLongest * kWidest], together[kRows * kWidest], alone[kWidest];
    static const int widths[CPU_REGISTER_COUNT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16};
    for (int type = 0; type < CPU_REGISTER_COUNT; type++) {
        uint32_t state = 3;
        for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)((state = state * 1664525 + 1013904223) >> 24);
        if (type == CPU_REGISTER_PRED)
            for (size_t i = 0; i < sizeof in; i++) in[i] &= 1;
        for (int i = 0; i < kRows * kLongest * 4 && type == CPU_REGISTER_F32; i++)
            ((float *)(void *)in)[i] = (float)((i * 37) % 101 - 50) / 7;
        for (int i = 0; i < kRows * kLongest * 2 && type == CPU_REGISTER_F64; i++)
            ((double *)(void *)in)[i] = (double)((i * 37) % 101 - 50) / 7;
        for (int i = 0; i < kRows * kLongest * 4 && type == CPU_REGISTER_C64; i++)
            ((float *)(void *)in)[i] = (float)((i * 29) % 97 - 48) / 7;
        for (int i = 0; i < kRows * kLongest * 2 && type == CPU_REGISTER_C128; i++)
            ((double *)(void *)in)[i] = (double)((i * 29) % 97 - 48) / 7;
        for (int set = levels_first(); set <= levels_last(); set++)
            for (int op = 0; op < CPU_REDUCE_COUNT; op++) {
                CpuReduceKernel *reduce = kernels_of(set)->reduce[op][type];
                for (int n = 1; n <= kLongest && reduce; n++) {
                    reduce(together, in, kRows, n);
                    for (int r = 0; r < kRows; r++) {
                        reduce(alone, in + (size_t)r * (size_t)n * (size_t)widths[type], 1, n);
                        cr_assert_eq(memcmp(alone, together + r * widths[type], (size_t)widths[type]), 0,
                                     "type %d, op %d, rows of %d on set %d", type, op, n, set);
                    }
                }
            }
    }
}

// Every alignment of either side, and every length around whole lines: the requested bytes are copied, and no more.
Test(cpu_elementwise, copies_past_the_caches) {
    enum { kLongest = 200, kOffsets = 66 };
    unsigned char from[kLongest + kOffsets];
    _Alignas(64) unsigned char to[kLongest + kOffsets + 1];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i * 7 + 1);
    for (int set = levels_first(); set <= levels_last(); set++)
        for (size_t offset = 0; offset < kOffsets; offset++)
            for (size_t length = 0; length <= kLongest; length += length < 70 || length > 120 ? 1 : 9) {
                memset(to, 0, sizeof to);
                kernels_of(set)->stream(to + offset, from + offset * 5 % 64, length);
                kernels_of(set)->streamed();
                cr_assert_eq(memcmp(to + offset, from + offset * 5 % 64, length), 0, "set %d, %zu at %zu", set, length,
                             offset);
                for (size_t i = 0; i < sizeof to; i++) cr_assert(to[i] == 0 || (i >= offset && i < offset + length));
            }
}

// The magnitude of complex numbers of any size, as the C library has it.
Test(cpu_elementwise, magnitudes_of_complex_numbers) {
    static const float parts[] = {0.0f, -0.0f, 1e-45f, 1e-38f, 3.0f, -4.0f, 1e30f, 3.4e38f, INFINITY, NAN};
    enum { kParts = sizeof parts / sizeof parts[0] };
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int i = 0; i < kParts * kParts; i++) {
            const float z[2] = {parts[i / kParts], parts[i % kParts]};
            const double wanted = isnan(z[0]) || isnan(z[1]) ? NAN : hypot((double)z[0], (double)z[1]);
            float got;
            kernels_of(set)->operation[CPU_OP_ABS][CPU_REGISTER_C64](&got, z, NULL, NULL, 1, 0);
            cr_assert(isnan(wanted) ? isnan(got) : got == (float)wanted, "|%g + %g i| = %g", (double)z[0], (double)z[1],
                      (double)got);
        }
}
