// SPDX-License-Identifier: Apache-2.0
// Accuracy of the transcendental kernels against the C library in a wider type: 2 ulp in f32, 1 ulp in f64, on every
// instruction set that this machine has. MESHLO_TEST_VERBOSE=1 prints the maxima, which docs/accuracy.md tabulates.
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "targets/cpu/host/pool.h"
#include "targets/cpu/isa/isa.h"
#include "tests/support/cases.h"
#include "tests/support/levels.h"

typedef long double LongFunction(long double x);

static long double rsqrt_l(long double x) {
    return 1 / sqrtl(x);
}
static long double logistic_l(long double x) {
    return 1 / (1 + expl(-x));
}

typedef struct Function {
    char name[12];
    CpuLoopOp op;
    LongFunction *exact;
} Function;

static const Function kFunctions[] = {
    {"sqrt", CPU_OP_SQRT, sqrtl},    {"rsqrt", CPU_OP_RSQRT, rsqrt_l}, {"cbrt", CPU_OP_CBRT, cbrtl},
    {"exp", CPU_OP_EXP, expl},       {"expm1", CPU_OP_EXPM1, expm1l},  {"log", CPU_OP_LOG, logl},
    {"log1p", CPU_OP_LOG1P, log1pl}, {"tanh", CPU_OP_TANH, tanhl},     {"logistic", CPU_OP_LOGISTIC, logistic_l},
    {"sin", CPU_OP_SIN, sinl},       {"cos", CPU_OP_COS, cosl},        {"tan", CPU_OP_TAN, tanl},
    {"asin", CPU_OP_ASIN, asinl},    {"acos", CPU_OP_ACOS, acosl},     {"sinh", CPU_OP_SINH, sinhl},
    {"cosh", CPU_OP_COSH, coshl},    {"asinh", CPU_OP_ASINH, asinhl},  {"acosh", CPU_OP_ACOSH, acoshl},
    {"atanh", CPU_OP_ATANH, atanhl}, {"erf", CPU_OP_ERF, erfl},
};
enum { kFunctionCount = sizeof kFunctions / sizeof kFunctions[0], kBlock = 1024 };

// Tests run in processes of their own: parameters must not hold addresses.
static int kFunctionNumbers[kFunctionCount] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19};

// Distance of `got` from the true value in units of the last place of the rounded true value.
static double ulp_error(double got, long double exact, int mantissa_bits, int lowest_exponent, long double overflow) {
    if (isnan(got) || isnan(exact)) return isnan(got) && isnan(exact) ? 0 : INFINITY;
    if (isinf(got) || fabsl(exact) >= overflow) {
        if (isinf(got) && fabsl(exact) >= overflow * (1 - ldexpl(3, -mantissa_bits)) && (got > 0) == (exact > 0))
            return 0;
        return isinf(got) ? INFINITY : fabsl(exact) < overflow * (1 + ldexpl(3, -mantissa_bits)) ? 1 : INFINITY;
    }
    if (exact == 0) return got == 0 ? 0 : INFINITY;
    int exponent;
    (void)frexpl(exact, &exponent);
    exponent = exponent - mantissa_bits < lowest_exponent ? lowest_exponent : exponent - mantissa_bits;
    return (double)(fabsl((long double)got - exact) / ldexpl(1, exponent));
}

static double ulp_error_f32(float got, long double exact) {
    return ulp_error(got, exact, 24, -149, 0x1p128L);
}
static double ulp_error_f64(double got, long double exact) {
    return ulp_error(got, exact, 53, -1074, 0x1p1024L);
}

static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

// Every exponent and sign, with random mantissas: no interval is left out.
static void fill_f32(float *values, uint32_t *state) {
    for (int i = 0; i < kBlock; i++) {
        const uint32_t bits = next_random(state);
        memcpy(&values[i], &bits, sizeof bits);
    }
    for (int i = 0; i < kBlock; i += 2) values[i] = (float)((double)(int32_t)next_random(state) * 0x1p-31 * 20);
}

static bool verbose(void) {
    return getenv("MESHLO_TEST_VERBOSE") != NULL;
}

static double worst_f32(const CpuLoopKernels *kernels, const Function *function, float *where) {
    float in[kBlock], out[kBlock];
    uint32_t state = 88172645;
    double worst = 0;
    for (int round = 0; round < 200; round++) {
        fill_f32(in, &state);
        kernels->operation[function->op][CPU_REGISTER_F32](out, in, NULL, NULL, kBlock, 0);
        for (int i = 0; i < kBlock; i++) {
            const double error = ulp_error_f32(out[i], function->exact(in[i]));
            if (error > worst) worst = error, *where = in[i];
        }
    }
    return worst;
}

CaseList(cpu_math, f32_within_2_ulp) {
    return cr_make_param_array(int, kFunctionNumbers, kFunctionCount);
}

CaseTest(int *number, cpu_math, f32_within_2_ulp) {
    const Function *function = &kFunctions[*number];
    for (int set = levels_first(); set <= levels_last(); set++) {
        float where = 0;
        const double worst = worst_f32(cpu_isa_loop_kernels((CpuFeatures)set), function, &where);
        if (verbose())
            fprintf(stderr, "f32 %s %s %.2f at %a\n", function->name, cpu_features_name((CpuFeatures)set), worst,
                    where);
        cr_expect(worst <= 2.0, "%s on %s: %.2f ulp at %a", function->name, cpu_features_name((CpuFeatures)set), worst,
                  where);
    }
}

CaseList(cpu_math, f64_within_1_ulp) {
    return cr_make_param_array(int, kFunctionNumbers, kFunctionCount);
}

// Magnitudes from 2^-52 to 2^18, and every third time those for which exponentials are neither 0 nor infinite.
static void fill_f64(double *values, int round, uint32_t *state) {
    for (int i = 0; i < kBlock; i++) {
        const double fraction = (double)(int32_t)next_random(state);
        values[i] = round % 3 == 2 ? fraction * 0x1p-31 * (i % 2 ? 750 : 1)
                                   : ldexp(fraction, (int)(next_random(state) % 40) - 52);
    }
}

static double worst_f64(const CpuLoopKernels *kernels, const Function *function, double *where) {
    double in[kBlock], out[kBlock], worst = 0;
    uint32_t state = 362436069;
    for (int round = 0; round < 45; round++) {
        fill_f64(in, round, &state);
        kernels->operation[function->op][CPU_REGISTER_F64](out, in, NULL, NULL, kBlock, 0);
        for (int i = 0; i < kBlock; i++) {
            const double error = ulp_error_f64(out[i], function->exact(in[i]));
            if (error > worst) worst = error, *where = in[i];
        }
    }
    return worst;
}

CaseTest(int *number, cpu_math, f64_within_1_ulp) {
    const Function *function = &kFunctions[*number];
    for (int set = levels_first(); set <= levels_last(); set++) {
        double where = 0;
        const double worst = worst_f64(cpu_isa_loop_kernels((CpuFeatures)set), function, &where);
        if (verbose())
            fprintf(stderr, "f64 %s %s %.2f at %a\n", function->name, cpu_features_name((CpuFeatures)set), worst,
                    where);
        cr_expect(worst <= 1.0, "%s on %s: %.3f ulp at %a", function->name, cpu_features_name((CpuFeatures)set), worst,
                  where);
    }
}

// The ends of the range of f64: infinities, NaN, zeros with their signs, subnormal arguments and results.
CaseList(cpu_math, f64_at_the_ends) {
    return cr_make_param_array(int, kFunctionNumbers, kFunctionCount);
}

CaseTest(int *number, cpu_math, f64_at_the_ends) {
    static const double kEnds[] = {INFINITY,  NAN,     0,      1,         0x1p-1074, 0x1.8p-1070, 0x1p-1022, 0x1p-600,
                                   0x1p-54,   0x1p-29, 0x1p-3, 0x1.6p1,   21.9,      22.1,        39.9,      40.1,
                                   692.9,     693.1,   700,    708.39641, 709.7827,  709.79,      720.5,     744.4,
                                   745.13321, 745.2,   746.1,  1e5,       0x1p600,   0x1p900,     DBL_MAX};
    enum { kCount = 2 * sizeof kEnds / sizeof kEnds[0] };
    const Function *function = &kFunctions[*number];
    double in[kCount], out[kCount];
    for (int i = 0; i < kCount; i++) in[i] = i % 2 ? -kEnds[i / 2] : kEnds[i / 2];
    for (int set = levels_first(); set <= levels_last(); set++) {
        cpu_isa_loop_kernels((CpuFeatures)set)
            ->operation[function->op][CPU_REGISTER_F64](out, in, NULL, NULL, kCount, 0);
        for (int i = 0; i < kCount; i++) {
            const long double exact = function->exact(in[i]);
            cr_expect(ulp_error_f64(out[i], exact) <= 1 && (isnan(exact) || !signbit(out[i]) == !signbit(exact)),
                      "%s on %s: %a of %a", function->name, cpu_features_name((CpuFeatures)set), out[i], in[i]);
        }
    }
}

typedef long double LongFunction2(long double x, long double y);

static void check_binary_f32(const char *name, CpuLoopOp op, LongFunction2 *exact, double limit) {
    float a[kBlock], b[kBlock], out[kBlock];
    for (int set = levels_first(); set <= levels_last(); set++) {
        uint32_t state = 521288629;
        double worst = 0;
        float x = 0, y = 0;
        for (int round = 0; round < 200; round++) {
            fill_f32(a, &state);
            fill_f32(b, &state);
            if (round % 2)
                for (int i = 0; i < kBlock; i++) a[i] = fabsf(a[i]);
            cpu_isa_loop_kernels((CpuFeatures)set)->operation[op][CPU_REGISTER_F32](out, a, b, NULL, kBlock, 0);
            for (int i = 0; i < kBlock; i++) {
                const double error = ulp_error_f32(out[i], exact(a[i], b[i]));
                if (error > worst) worst = error, x = a[i], y = b[i];
            }
        }
        if (verbose())
            fprintf(stderr, "f32 %s %s %.2f at %a %a\n", name, cpu_features_name((CpuFeatures)set), worst, x, y);
        cr_expect(worst <= limit, "%s on %s: %.2f ulp at %a %a", name, cpu_features_name((CpuFeatures)set), worst, x,
                  y);
    }
}

Test(cpu_math, power_within_2_ulp) {
    check_binary_f32("power", CPU_OP_POWER, powl, 2);
}

// Large powers of numbers next to 1, where the logarithm needs its relative accuracy, with results up to the ends of
// the range.
Test(cpu_math, large_powers_of_numbers_next_to_1) {
    for (int set = levels_first(); set <= levels_last(); set++) {
        float x[kBlock], y[kBlock], out[kBlock];
        uint32_t state = 2463534242;
        for (int round = 0; round < 64; round++) {
            for (int i = 0; i < kBlock; i++) {
                const double near = ldexp((double)(int32_t)next_random(&state), -31 - (int)(next_random(&state) % 24));
                x[i] = (float)(1 + near * 0.5);
                y[i] = (float)((double)(int32_t)next_random(&state) * 0x1p-31 * 88 / log((double)x[i]));
                if (x[i] == 1) y[i] = 1e30f;
            }
            cpu_isa_loop_kernels((CpuFeatures)set)
                ->operation[CPU_OP_POWER][CPU_REGISTER_F32](out, x, y, NULL, kBlock, 0);
            for (int i = 0; i < kBlock; i++) {
                const double error = ulp_error_f32(out[i], powl(x[i], y[i]));
                cr_expect(error <= 2, "%a^%a on set %d: %a, %.2f ulp", x[i], y[i], set, out[i], error);
            }
        }
    }
}
Test(cpu_math, atan2_within_2_ulp) {
    check_binary_f32("atan2", CPU_OP_ATAN2, atan2l, 2);
}
Test(cpu_math, remainder_is_exact) {
    check_binary_f32("remainder", CPU_OP_REMAINDER, fmodl, 0);
}

// Next to a multiple of the divisor the rounded quotient may be one too large. One element of a block whose quotient is
// beyond 2^24 must not change the others.
Test(cpu_math, remainder_next_to_multiples_is_exact) {
    float x[kBlock], y[kBlock], out[kBlock];
    uint32_t state = 88675123;
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int round = 0; round < 40; round++) {
            for (int i = 0; i < kBlock; i++) {
                y[i] = ldexpf((float)(int32_t)next_random(&state), (int)(next_random(&state) % 60) - 60);
                x[i] = (float)(next_random(&state) % 1000000) * y[i];
                const uint32_t side = next_random(&state) >> 30;
                if (side < 2) x[i] = nextafterf(x[i], side ? INFINITY : -INFINITY);
            }
            if (round % 4 == 3) x[round] = FLT_MAX, y[round] = 3;
            cpu_isa_loop_kernels((CpuFeatures)set)
                ->operation[CPU_OP_REMAINDER][CPU_REGISTER_F32](out, x, y, NULL, kBlock, 0);
            for (int i = 0; i < kBlock; i++) {
                const float want = fmodf(x[i], y[i]);
                cr_expect(isnan(want) ? isnan(out[i]) : memcmp(&want, &out[i], sizeof want) == 0,
                          "remainder of %a and %a on set %d: %a, expected %a", x[i], y[i], set, out[i], want);
            }
        }
}

static const float kSpecials[] = {0.0f,    -0.0f,    1.0f,      -1.0f,      INFINITY, -INFINITY, NAN,
                                  FLT_MIN, -FLT_MIN, 0x1p-149f, -0x1p-149f, FLT_MAX,  -FLT_MAX,  0.5f,
                                  -0.5f,   2.0f,     -2.0f,     3.0f,       -3.0f,    1e30f,     2.5f};
enum { kSpecialCount = sizeof kSpecials / sizeof kSpecials[0] };

static bool same_special(float got, float want) {
    if (isnan(want)) return isnan(got);
    if (want == 0 || isinf(want)) return got == want && signbit(got) == signbit(want);
    return true;
}

Test(cpu_math, exact_at_special_points) {
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int f = 0; f < kFunctionCount; f++)
            for (int i = 0; i < kSpecialCount; i++) {
                float out;
                cpu_isa_loop_kernels((CpuFeatures)set)
                    ->operation[kFunctions[f].op][CPU_REGISTER_F32](&out, &kSpecials[i], NULL, NULL, 1, 0);
                const float want = (float)kFunctions[f].exact(kSpecials[i]);
                cr_expect(same_special(out, want), "%s(%a) on set %d: %a, expected %a", kFunctions[f].name,
                          kSpecials[i], set, out, want);
            }
}

Test(cpu_math, power_atan2_and_remainder_at_special_points) {
    static const struct {
        CpuLoopOp op;
        double (*exact)(double, double);
    } rows[] = {{CPU_OP_POWER, pow}, {CPU_OP_ATAN2, atan2}, {CPU_OP_REMAINDER, fmod}};
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int f = 0; f < 3; f++)
            for (int i = 0; i < kSpecialCount * kSpecialCount; i++) {
                const float x = kSpecials[i / kSpecialCount], y = kSpecials[i % kSpecialCount];
                float out;
                cpu_isa_loop_kernels((CpuFeatures)set)
                    ->operation[rows[f].op][CPU_REGISTER_F32](&out, &x, &y, NULL, 1, 0);
                const float want = (float)rows[f].exact(x, y);
                cr_expect(same_special(out, want), "op %d (%a, %a) on set %d: %a, expected %a", (int)rows[f].op, x, y,
                          set, out, want);
            }
}

// tanh and erf are defined piecewise: around every boundary of two pieces, on any set, no value is below the one before
// (AVX2's tanh, which is not a table of pieces, by 1 ulp at most).
Test(cpu_math, monotone_where_pieces_meet) {
    enum { kAround = kBlock / 2, kPieces = 80 };
    static const CpuLoopOp ops[] = {CPU_OP_EXP, CPU_OP_TANH, CPU_OP_ERF};
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int f = 0; f < 3; f++)
            for (int piece = 0; piece < 2 * kPieces; piece++) {
                const float step = piece < kPieces ? 0.125f : 1 / 3.4375f, joint = (float)(piece % kPieces) * step / 2;
                float in[kBlock], out[kBlock];
                uint32_t bits;
                memcpy(&bits, &joint, sizeof bits);
                bits = bits < kAround ? 0 : bits - kAround;
                for (uint32_t i = 0; i < kBlock; i++) {
                    const uint32_t each = bits + i;
                    memcpy(&in[i], &each, sizeof each);
                }
                cpu_isa_loop_kernels((CpuFeatures)set)
                    ->operation[ops[f]][CPU_REGISTER_F32](out, in, NULL, NULL, kBlock, 0);
                const bool may_fall = cpu_isa_loop_kernels((CpuFeatures)set) == cpu_isa_loop_kernels(CPU_FEATURES_AVX2);
                const float slack = ops[f] == CPU_OP_TANH && may_fall ? 0x1p-23f : 0;
                for (int i = 1; i < kBlock; i++)
                    cr_expect(out[i] >= out[i - 1] - slack * out[i], "op %d on %s falls at %a", (int)ops[f],
                              cpu_features_name((CpuFeatures)set), in[i]);
            }
}

// In blocks and tails of all lengths each element has the result that it has alone.
Test(cpu_math, every_length_gives_the_same_bits) {
    static const CpuLoopOp ops[] = {CPU_OP_EXP,   CPU_OP_TANH,     CPU_OP_ERF,     CPU_OP_LOG,
                                    CPU_OP_POWER, CPU_OP_LOGISTIC, CPU_OP_MAXIMUM, CPU_OP_MINIMUM,
                                    CPU_OP_SIN,   CPU_OP_COS,      CPU_OP_LOG1P,   CPU_OP_EXPM1};
    float a[kBlock], b[kBlock], whole[kBlock], part[kBlock + 1];
    uint32_t state = 1234567;
    fill_f32(a, &state);
    fill_f32(b, &state);
    for (int set = levels_first(); set <= levels_last(); set++)
        for (size_t f = 0; f < sizeof ops / sizeof ops[0]; f++) {
            CpuBlockKernel *kernel = cpu_isa_loop_kernels((CpuFeatures)set)->operation[ops[f]][CPU_REGISTER_F32];
            kernel(whole, a, b, NULL, kBlock, 0);
            for (int n = 1; n < 70; n++) {
                part[n] = 42;
                kernel(part, a + 3, b + 3, NULL, n, 0);
                cr_expect(memcmp(part, whole + 3, sizeof(float) * (size_t)n) == 0, "op %d, %d elements, set %d",
                          (int)ops[f], n, set);
                cr_expect_eq(part[n], 42, "op %d writes past %d elements, set %d", (int)ops[f], n, set);
            }
        }
}

static float extreme_of(bool largest, float x, float y) {
    if (isnan(x) || isnan(y)) return NAN;
    if (x == y) return (signbit(x) != 0) == largest ? y : x;
    return (x > y) == largest ? x : y;
}

static bool same_number(float a, float b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

// NaN wins and -0 is below +0, one by one and over rows, at any position in the row.
Test(cpu_math, maximum_and_minimum_of_special_values) {
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int largest = 0; largest < 2; largest++) {
            const CpuLoopKernels *kernels = cpu_isa_loop_kernels((CpuFeatures)set);
            CpuBlockKernel *kernel = kernels->operation[largest ? CPU_OP_MAXIMUM : CPU_OP_MINIMUM][CPU_REGISTER_F32];
            CpuReduceKernel *reduce =
                kernels->reduce[largest ? CPU_REDUCE_MAXIMUM : CPU_REDUCE_MINIMUM][CPU_REGISTER_F32];
            float x[kSpecialCount], y[kSpecialCount], out[kSpecialCount], row[3000], got;
            for (int i = 0; i < kSpecialCount; i++) {
                for (int k = 0; k < kSpecialCount; k++) x[k] = kSpecials[i], y[k] = kSpecials[k];
                kernel(out, x, y, NULL, kSpecialCount, 0);
                for (int k = 0; k < kSpecialCount; k++)
                    cr_expect(same_number(out[k], extreme_of(largest, x[k], y[k])), "%a %a on set %d: %a", x[k], y[k],
                              set, out[k]);
                for (int at = 0; at < 3000; at += 193)
                    for (int zeros = 0; zeros < 3; zeros++) {
                        const int n = 3000 - zeros * 37;
                        for (int k = 0; k < n; k++) row[k] = zeros == 0 ? (float)k : zeros == 1 ? 0.0f : -0.0f;
                        row[at < n ? at : 0] = kSpecials[i];
                        float want = row[0];
                        for (int k = 1; k < n; k++) want = extreme_of(largest, want, row[k]);
                        reduce(&got, row, 1, n);
                        cr_expect(same_number(got, want), "%a at %d of %d on set %d: %a, expected %a", kSpecials[i], at,
                                  n, set, got, want);
                    }
            }
        }
}

// Rows about as long as the lanes of the kernel, whose last lanes take elements again.
Test(cpu_math, maximum_and_minimum_of_short_rows) {
    static const float kBests[] = {7, -0.0f, 0.0f, NAN, INFINITY};
    float row[140], got;
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int n = 1; n < 140; n += n < 70 ? 1 : 13)
            for (size_t best = 0; best < sizeof kBests / sizeof kBests[0]; best++)
                for (int at = 0; at < n; at += n < 34 ? 1 : 5)
                    for (int largest = 0; largest < 2; largest++) {
                        const float sign = largest ? 1 : -1;
                        for (int i = 0; i < n; i++) row[i] = sign * -(float)(1 + i * 37 % 11);
                        row[at] = sign * kBests[best];
                        cpu_isa_loop_kernels((CpuFeatures)set)
                            ->reduce[largest ? CPU_REDUCE_MAXIMUM : CPU_REDUCE_MINIMUM][CPU_REGISTER_F32](&got, row, 1,
                                                                                                          n);
                        cr_expect(same_number(got, row[at]), "%a at %d of %d on set %d: %a", row[at], at, n, set, got);
                    }
}

// Where e^x has no float but 0 any more, and just before, where it is subnormal; beside numbers of any size, as a
// masked softmax has them.
Test(cpu_math, exponentials_vanish_where_they_should) {
    static const float near[] = {-87.0f,     -87.4f,   -95.0f,    -103.0f,    -103.9f, -103.97f,
                                 -103.9721f, -103.98f, -103.99f,  -103.9999f, -104.0f, -105.0f,
                                 -1000.0f,   -1e30f,   -INFINITY, 0.0f,       1.0f,    NAN};
    enum { kNear = sizeof near / sizeof near[0] };
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int first = 0; first < kNear; first++) {
            float in[40], out[40];
            for (int i = 0; i < 40; i++) in[i] = near[(first + i) % kNear];
            cpu_isa_loop_kernels((CpuFeatures)set)->operation[CPU_OP_EXP][CPU_REGISTER_F32](out, in, NULL, NULL, 40, 0);
            for (int i = 0; i < 40; i++) {
                const float want = (float)exp((double)in[i]);
                const double apart = fabs((double)out[i] - (double)want);
                cr_expect(isnan(want) ? isnan(out[i]) : apart <= fmax(ldexp(1, -149), 2e-7 * (double)want),
                          "e^%a on set %d: %a, expected %a", (double)in[i], set, (double)out[i], (double)want);
                if (want == 0) cr_expect(out[i] == 0 && !signbit(out[i]), "e^%a is not 0", (double)in[i]);
            }
        }
}

// The first NaN, else the first of the best, for any length and position, and with an equal element after it.
Test(cpu_math, argmax_and_argmin) {
    enum { kMost = 2500 };
    static const int kLengths[] = {1,  2,  3,   23,   24,   25,   31,   32,   33,  63,
                                   64, 65, 127, 1023, 1024, 2047, 2048, 2049, 2500};
    static const float kBests[][2] = {{0.0f, -0.0f},        {-0.0f, 0.0f}, {5, 5},
                                      {INFINITY, INFINITY}, {NAN, NAN},    {NAN, INFINITY}};
    static float row[kMost];
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int largest = 0; largest < 2; largest++) {
            CpuArgKernel *kernel = cpu_isa_loop_kernels((CpuFeatures)set)->arg[largest][CPU_REGISTER_F32];
            for (size_t l = 0; l < sizeof kLengths / sizeof kLengths[0]; l++)
                for (size_t b = 0; b < sizeof kBests / sizeof kBests[0]; b++)
                    for (int at = 0; at < kLengths[l]; at += at < 70 ? 1 : 61) {
                        const int n = kLengths[l], after = (at + n) / 2;
                        for (int i = 0; i < n; i++) row[i] = largest ? -1 - (float)(i % 7) : 1 + (float)(i % 7);
                        row[after] = largest ? kBests[b][1] : -kBests[b][1];
                        row[at] = largest ? kBests[b][0] : -kBests[b][0];
                        cr_assert_eq(kernel(row, n), at, "%a at %d of %d on set %d: %d", kBests[b][0], at, n, set,
                                     (int)kernel(row, n));
                    }
        }
}

// The same for whole numbers of every width, at the ends of their types too.
Test(cpu_math, argmax_and_argmin_of_integers) {
    enum { kMost = 1200 };
    static int64_t wide[kMost];
    static char row[kMost * 8];
    static const CpuRegisterType kHeld[] = {CPU_REGISTER_S8, CPU_REGISTER_S16, CPU_REGISTER_S32, CPU_REGISTER_S64};
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int k = 0; k < 8; k++)
            for (int at = 0; at < kMost; at += 37) {
                const int width = 1 << (k / 2), largest = k % 2;
                const int64_t top = (int64_t)(UINT64_MAX >> (65 - 8 * width));
                for (int i = 0; i < kMost; i++) wide[i] = (i * 7919) % 101 - 50;
                wide[at] = wide[(at + kMost) / 2] = largest ? top : -top - 1;
                for (int i = 0; i < kMost; i++) memcpy(row + i * width, &wide[i], (size_t)width);
                CpuArgKernel *kernel = cpu_isa_loop_kernels((CpuFeatures)set)->arg[largest][kHeld[k / 2]];
                cr_assert_eq(kernel(row, kMost), at, "%d bytes on set %d", width, set);
            }
}
