// SPDX-License-Identifier: Apache-2.0
// Imports operations of chlo, a dialect on top of StableHLO: those that HLO has an opcode for, and the decompositions
// of the others. The approximations are published ones: Cephes for erfc; hlo/ir/build/formulas.c has those
// of the gamma function and of the inverse error function. Each operation is a row of CHLO_ROWS: an opcode of HLO, or a
// graph of one or two operands. Graphs work at least in single precision (`wide`), since the constants and the
// cancellations below are chosen for that; half precision is converted around them. XLA expands the same operations in
// stablehlo's ChloLegalizeToStablehlo.cpp, from the same sources, so that results agree to a few units in the last
// place but not bit for bit.
#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "hlo/stablehlo/import/chlo_math.h"

// ---------------------------------------------------------------------------------------------------------------------
// The error function

static HloInstruction *erf_inv(Math *math, HloInstruction *x) {
    const HloGraph graph = graph_of(math);
    return hlo_graph_erf_inv(&graph, x, math->shape->type);
}

// Tables: Cephes' single/ndtrf.c (p32 for |x| < 2, r32 beyond, in 1/x^2) and double/ndtr.c (p64/q64 for |x| < 8,
// r64/s64 beyond, in |x|), highest power first. The last select hides what an x whose square is too large makes of the
// polynomials.
HloInstruction *chlo_erfc_tail(Math *math, HloInstruction *x) {
    static const double p32[] = {2.326819970068386E-2,  -1.387039388740657E-1, 3.687424674597105E-1,
                                 -5.824733027278666E-1, 6.210004621745983E-1,  -4.944515323274145E-1,
                                 3.404879937665872E-1,  -2.741127028184656E-1, 5.638259427386472E-1};
    static const double r32[] = {-1.047766399936249E+1, 1.297719955372516E+1,  -7.495518717768503E+0,
                                 2.921019019210786E+0,  -1.015265279202700E+0, 4.218463358204948E-1,
                                 -2.820767439740514E-1, 5.641895067754075E-1};
    static const double p64[] = {2.46196981473530512524E-10, 5.64189564831068821977E-1, 7.46321056442269912687E0,
                                 4.86371970985681366614E1,   1.96520832956077098242E2,  5.26445194995477358631E2,
                                 9.34528527171957607540E2,   1.02755188689515710272E3,  5.57535335369399327526E2};
    static const double q64[] = {1.0,
                                 1.32281951154744992508E1,
                                 8.67072140885989742329E1,
                                 3.54937778887819891062E2,
                                 9.75708501743205489753E2,
                                 1.82390916687909736289E3,
                                 2.24633760818710981792E3,
                                 1.65666309194161350182E3,
                                 5.57535340817727675546E2};
    static const double r64[] = {5.64189583547755073984E-1, 1.27536670759978104416E0, 5.01905042251180477414E0,
                                 6.16021097993053585195E0,  7.40974269950448939160E0, 2.97886665372100240670E0};
    static const double s64[] = {1.0,
                                 2.26052863220117276590E0,
                                 9.39603524938001434673E0,
                                 1.20489539808096656605E1,
                                 1.70814450747565897222E1,
                                 9.60896809063285878198E0,
                                 3.36907645100081516050E0};
    const bool is_wide = math->shape->type == HLO_F64;
    HloInstruction *power = unary(math, HLO_OP_NEGATE, multiply(math, x, x)), *size = unary(math, HLO_OP_ABS, x);
    HloInstruction *fall = unary(math, HLO_OP_EXP, power), *value;
    HloInstruction *near = compare(math, HLO_ComparisonDirection_LT, size, number(math, is_wide ? 8 : 2));
    if (is_wide) {
        HloInstruction *a =
            divide(math, multiply(math, fall, POLYNOMIAL(math, size, p64)), POLYNOMIAL(math, size, q64));
        HloInstruction *b =
            divide(math, multiply(math, fall, POLYNOMIAL(math, size, r64)), POLYNOMIAL(math, size, s64));
        value = select(math, near, a, b);
    } else {
        HloInstruction *y = divide(math, number(math, 1), multiply(math, x, x));
        HloInstruction *scale = multiply(math, fall, divide(math, number(math, 1), size));
        HloInstruction *p = select(math, near, POLYNOMIAL(math, y, p32), POLYNOMIAL(math, y, r32));
        value = multiply(math, scale, p);
    }
    HloInstruction *zero = number(math, 0), *least = number(math, -log(is_wide ? DBL_MAX : (double)FLT_MAX));
    value = select(math, compare(math, HLO_ComparisonDirection_LT, power, least), zero, value);
    HloInstruction *negative = compare(math, HLO_ComparisonDirection_LT, x, zero);
    return select(math, negative, subtract(math, number(math, 2), value), value);
}

// Tables: Cephes' single/ndtrf.c and double/ndtr.c, highest power first.
HloInstruction *chlo_erf_near(Math *math, HloInstruction *x) {
    static const double t32[] = {7.853861353153693E-5,  -8.010193625184903E-4, 5.188327685732524E-3,
                                 -2.685381193529856E-2, 1.128358514861418E-1,  -3.761262582423300E-1,
                                 1.128379165726710E+0};
    static const double t64[] = {9.60497373987051638749E0, 9.00260197203842689217E1, 2.23200534594684319226E3,
                                 7.00332514112805075473E3, 5.55923013010394962768E4};
    static const double u64[] = {1.0,
                                 3.35617141647503099647E1,
                                 5.21357949780152679795E2,
                                 4.59432382970980127987E3,
                                 2.26290000613890934246E4,
                                 4.92673942608635921086E4};
    HloInstruction *square = multiply(math, x, x);
    if (math->shape->type != HLO_F64) return multiply(math, x, POLYNOMIAL(math, square, t32));
    return divide(math, multiply(math, x, POLYNOMIAL(math, square, t64)), POLYNOMIAL(math, square, u64));
}

// Up to one, 1 - erf(x) has no significant cancellation; beyond, erfc is tiny and has its own formula.
static HloInstruction *erfc_of(Math *math, HloInstruction *x) {
    HloInstruction *one = number(math, 1);
    HloInstruction *is_near = compare(math, HLO_ComparisonDirection_LT, unary(math, HLO_OP_ABS, x), one);
    HloInstruction *near = subtract(math, one, chlo_erf_near(math, x));
    // The slope of the tail is infinite at 0, where the last select hides it: 0 times infinity. The simplifier removes
    // this choice again where no derivative is taken.
    return select(math, is_near, near, chlo_erfc_tail(math, select(math, is_near, one, x)));
}

// ---------------------------------------------------------------------------------------------------------------------
// The gamma function

static HloInstruction *lgamma_of(Math *math, HloInstruction *x) {
    const HloGraph graph = graph_of(math);
    return hlo_graph_lgamma(&graph, x);
}

static HloInstruction *digamma_of(Math *math, HloInstruction *x) {
    const HloGraph graph = graph_of(math);
    return hlo_graph_digamma(&graph, x);
}

// ---------------------------------------------------------------------------------------------------------------------
// The modified Bessel function of order one, scaled by exp(-|x|): Chebyshev series of Cephes' i1e

// The sum of c[i] T(n - 1 - i), the last term halved, by Clenshaw's recurrence; `x` is twice the argument of T.
static HloInstruction *chebyshev(Math *math, HloInstruction *x, const double *coefficients, size_t count) {
    HloInstruction *last = number(math, 0), *before = last, *sum = last;
    for (size_t i = 0; i < count; i++) {
        before = last;
        last = sum;
        sum = add(math, subtract(math, multiply(math, x, last), before), number(math, coefficients[i]));
    }
    return multiply(math, subtract(math, sum, before), number(math, 0.5));
}

// Tables of Cephes' i1e.c. `near` is over (|x|/2 - 2), `far` over (32/|x| - 2).
static HloInstruction *bessel_i1e(Math *math, HloInstruction *x) {
    // Up to 8, over |x|, and beyond, times its root. The terms before the last `short_*` are below single precision.
    static const double near[] = {2.77791411276104639959E-18,  -2.11142121435816608115E-17, 1.55363195773620046921E-16,
                                  -1.10559694773538630805E-15, 7.60068429473540693410E-15,  -5.04218550472791168711E-14,
                                  3.22379336594557470981E-13,  -1.98397439776494371520E-12, 1.17361862988909016308E-11,
                                  -6.66348972350202774223E-11, 3.62559028155211703701E-10,  -1.88724975172282928790E-9,
                                  9.38153738649577178388E-9,   -4.44505912879632808065E-8,  2.00329475355213526229E-7,
                                  -8.56872026469545474066E-7,  3.47025130813767847674E-6,   -1.32731636560394358279E-5,
                                  4.78156510755005422638E-5,   -1.61760815825896745588E-4,  5.12285956168575772895E-4,
                                  -1.51357245063125314899E-3,  4.15642294431288815669E-3,   -1.05640848946261981558E-2,
                                  2.47264490306265168283E-2,   -5.29459812080949914269E-2,  1.02643658689847095384E-1,
                                  -1.76416518357834055153E-1,  2.52587186443633654823E-1};
    static const double far[] = {7.51729631084210481353E-18,  4.41434832307170791151E-18,  -4.65030536848935832153E-17,
                                 -3.20952592199342395980E-17, 2.96262899764595013876E-16,  3.30820231092092828324E-16,
                                 -1.88035477551078244854E-15, -3.81440307243700780478E-15, 1.04202769841288027642E-14,
                                 4.27244001671195135429E-14,  -2.10154184277266431302E-14, -4.08355111109219731823E-13,
                                 -7.19855177624590851209E-13, 2.03562854414708950722E-12,  1.41258074366137813316E-11,
                                 3.25260358301548823856E-11,  -1.89749581235054123450E-11, -5.58974346219658380687E-10,
                                 -3.83538038596423702205E-9,  -2.63146884688951950684E-8,  -2.51223623787020892529E-7,
                                 -3.88256480887769039346E-6,  -1.10588938762623716291E-4,  -9.76109749136146840777E-3,
                                 7.78576235018280120474E-1};
    enum { SHORT_NEAR = 17, SHORT_FAR = 7 };
    const bool is_wide = math->shape->type == HLO_F64;
    const size_t near_count = is_wide ? HLO_COUNT_OF(near) : SHORT_NEAR;
    const size_t far_count = is_wide ? HLO_COUNT_OF(far) : SHORT_FAR;
    HloInstruction *size = unary(math, HLO_OP_ABS, x), *two = number(math, 2);
    HloInstruction *inner = subtract(math, multiply(math, size, number(math, 0.5)), two);
    HloInstruction *is_near = compare(math, HLO_ComparisonDirection_LE, size, number(math, 8));
    // No slope is infinite at 0. The simplifier removes this choice where no derivative is taken.
    HloInstruction *far_size = select(math, is_near, number(math, 8), size);
    HloInstruction *outer = subtract(math, divide(math, number(math, 32), far_size), two);
    HloInstruction *low = chebyshev(math, inner, near + HLO_COUNT_OF(near) - near_count, near_count);
    HloInstruction *high = chebyshev(math, outer, far + HLO_COUNT_OF(far) - far_count, far_count);
    // Odd: with x rather than |x| and a sign, the slope at 0 is right too.
    HloInstruction *far_value = divide(math, high, unary(math, HLO_OP_SQRT, far_size));
    far_value = multiply(math, unary(math, HLO_OP_SIGN, x), far_value);
    return select(math, is_near, multiply(math, low, x), far_value);
}

// ---------------------------------------------------------------------------------------------------------------------
// Numbers and bits

// The square of a complex number: (a - b)(a + b) + 2ab i, with a real part of exactly zero where a = b.
static HloInstruction *square(Math *math, HloInstruction *x) {
    if (!hlo_type_is_complex(math->shape->type)) return multiply(math, x, x);
    HloInstruction *a = unary(math, HLO_OP_REAL, x), *b = unary(math, HLO_OP_IMAG, x);
    HloInstruction *size = unary(math, HLO_OP_ABS, a);
    HloInstruction *alike = compare(math, HLO_ComparisonDirection_EQ, size, unary(math, HLO_OP_ABS, b));
    alike = binary(math, HLO_OP_AND, alike, unary(math, HLO_OP_IS_FINITE, a));
    HloInstruction *none = number_of(math, hlo_type_real_part(math->shape->type), 0);
    HloInstruction *real = multiply(math, subtract(math, a, b), add(math, a, b)), *product = multiply(math, a, b);
    return binary(math, HLO_OP_COMPLEX, select(math, alike, none, real), add(math, product, product));
}
// The arc tangent of a complex number is -i atanh(iz), which swaps the parts.
static HloInstruction *atan_of(Math *math, HloInstruction *x) {
    if (!hlo_type_is_complex(math->shape->type)) return binary(math, HLO_OP_ATAN2, x, number(math, 1));
    HloInstruction *minus_b = unary(math, HLO_OP_NEGATE, unary(math, HLO_OP_IMAG, x));
    HloInstruction *turned = binary(math, HLO_OP_COMPLEX, minus_b, unary(math, HLO_OP_REAL, x));
    HloInstruction *value = unary(math, HLO_OP_ATANH, turned);
    return binary(math, HLO_OP_COMPLEX, unary(math, HLO_OP_IMAG, value),
                  unary(math, HLO_OP_NEGATE, unary(math, HLO_OP_REAL, value)));
}

// Comparisons with a constant: NaN is not equal to anything.
static HloInstruction *is_inf(Math *math, HloInstruction *x) {
    return compare(math, HLO_ComparisonDirection_EQ, unary(math, HLO_OP_ABS, x), number(math, INFINITY));
}
static HloInstruction *is_pos_inf(Math *math, HloInstruction *x) {
    return compare(math, HLO_ComparisonDirection_EQ, x, number(math, INFINITY));
}
static HloInstruction *is_neg_inf(Math *math, HloInstruction *x) {
    return compare(math, HLO_ComparisonDirection_EQ, x, number(math, -INFINITY));
}

// The conjugate; a real number is its own.
static HloInstruction *conjugate(Math *math, HloInstruction *x) {
    if (!hlo_type_is_complex(math->shape->type)) return x;
    HloInstruction *imaginary = unary(math, HLO_OP_NEGATE, unary(math, HLO_OP_IMAG, x));
    return binary(math, HLO_OP_COMPLEX, unary(math, HLO_OP_REAL, x), imaginary);
}

// The bits of a number as an integer of the same width, or the reverse.
static HloInstruction *same_bits(Math *math, HloInstruction *a, HloType type) {
    const HloShape *shape = hlo_shape_with_type(import_arena(math->place), math->shape, type);
    return emit(math, HLO_OP_BITCAST_CONVERT, shape, &a, 1, NULL);
}

// The neighbour of x in the direction of y: one step of its bit pattern, which grows with the magnitude of the number.
static HloInstruction *next_after(Math *math, HloInstruction *x, HloInstruction *y) {
    int bits = hlo_type_info(math->shape->type)->bits;
    HloType type = bits == 64 ? HLO_S64 : bits == 32 ? HLO_S32 : bits == 16 ? HLO_S16 : HLO_S8;
    HloInstruction *pattern = same_bits(math, x, type), *other = same_bits(math, y, type);
    HloInstruction *one = number_of(math, type, 1), *none = number_of(math, type, 0);
    HloInstruction *sign = binary(math, HLO_OP_SHIFT_LEFT, one, number_of(math, type, bits - 1));
    HloInstruction *size = binary(math, HLO_OP_AND, pattern, unary(math, HLO_OP_NOT, sign));
    HloInstruction *other_size = binary(math, HLO_OP_AND, other, unary(math, HLO_OP_NOT, sign));
    HloInstruction *x_sign = binary(math, HLO_OP_AND, pattern, sign), *y_sign = binary(math, HLO_OP_AND, other, sign);
    HloInstruction *unlike = compare(math, HLO_ComparisonDirection_NE, x_sign, y_sign);
    HloInstruction *beyond = compare(math, HLO_ComparisonDirection_GT, size, other_size);
    HloInstruction *down = binary(math, HLO_OP_OR, beyond, unlike);
    HloInstruction *step = select(math, down, unary(math, HLO_OP_NEGATE, one), one);
    HloInstruction *result = add(math, pattern, step);
    // From zero, the next number is the smallest of y's sign; if x equals y, it is y itself.
    HloInstruction *at_zero = compare(math, HLO_ComparisonDirection_EQ, size, none);
    result = select(math, at_zero, binary(math, HLO_OP_OR, y_sign, one), result);
    HloInstruction *equal = compare(math, HLO_ComparisonDirection_EQ, x, y);
    HloInstruction *x_nan = compare(math, HLO_ComparisonDirection_NE, x, x);
    HloInstruction *y_nan = compare(math, HLO_ComparisonDirection_NE, y, y);
    HloInstruction *value = select(math, equal, y, same_bits(math, result, math->shape->type));
    return select(math, x_nan, x, select(math, y_nan, y, value));
}

// ---------------------------------------------------------------------------------------------------------------------
// Hurwitz zeta and polygamma, by Euler and Maclaurin's sum

// sum over n of (q + n)^-s: SUMMED terms, then the integral and the half of the next term, then twelve terms of the
// correction (Euler and Maclaurin; Cephes' zeta.c has the same coefficients).
static HloInstruction *zeta(Math *math, HloInstruction *s, HloInstruction *q) {
    // (2k)! / B_2k
    static const double bernoulli[] = {12.0,
                                       -720.0,
                                       30240.0,
                                       -1209600.0,
                                       47900160.0,
                                       -1.8924375803183791606e9,
                                       7.47242496e10,
                                       -2.950130727918164224e12,
                                       1.1646782814350067249e14,
                                       -4.5979787224074726105e15,
                                       1.8152105401943546773e17,
                                       -7.1661652561756670113e18};
    enum { SUMMED = 10 };
    HloInstruction *minus = unary(math, HLO_OP_NEGATE, s), *sum = binary(math, HLO_OP_POWER, q, minus);
    HloInstruction *at = q, *power = sum, *one = number(math, 1), *zero = number(math, 0);
    for (int i = 1; i <= SUMMED; i++) {
        at = add(math, at, one);
        power = binary(math, HLO_OP_POWER, at, minus);
        if (i < SUMMED) sum = add(math, sum, power);
    }
    HloInstruction *total = add(math, sum, divide(math, multiply(math, power, at), subtract(math, s, one)));
    // The correction by Horner's rule in 1/at^2.
    HloInstruction *inverse = divide(math, one, multiply(math, at, at)), *rest = NULL;
    for (int64_t k = HLO_COUNT_OF(bernoulli) - 1; k >= 0; k--) {
        HloInstruction *term = number(math, 1 / bernoulli[k]);
        rest = rest ? add(math, rest, term) : term;
        if (k == 0) continue;
        HloInstruction *factor = add(math, s, number(math, 2.0 * (double)k));
        factor = multiply(math, factor, add(math, s, number(math, 2.0 * (double)k - 1)));
        rest = multiply(math, factor, multiply(math, inverse, rest));
    }
    rest = add(math, multiply(math, divide(math, s, at), rest), number(math, 0.5));
    total = add(math, total, multiply(math, power, rest));
    // Where the next term is nothing beside the sum, the correction is not needed.
    const double least = math->shape->type == HLO_F64 ? DBL_TRUE_MIN : (double)FLT_TRUE_MIN;
    HloInstruction *unseen = multiply(math, unary(math, HLO_OP_ABS, sum), number(math, least));
    unseen = compare(math, HLO_ComparisonDirection_LT, unary(math, HLO_OP_ABS, power), unseen);
    sum = select(math, unseen, sum, total);
    // The pole at one; NaN below it, and for arguments that are non-positive integers.
    HloInstruction *nan = number(math, NAN), *infinite = number(math, INFINITY);
    HloInstruction *whole = compare(math, HLO_ComparisonDirection_EQ, q, unary(math, HLO_OP_FLOOR, q));
    HloInstruction *low = compare(math, HLO_ComparisonDirection_LE, q, zero);
    HloInstruction *even =
        compare(math, HLO_ComparisonDirection_EQ, binary(math, HLO_OP_REMAINDER, s, number(math, 2)), zero);
    HloInstruction *integer = unary(math, HLO_OP_FLOOR, s);
    even = binary(math, HLO_OP_AND, compare(math, HLO_ComparisonDirection_EQ, s, integer), even);
    sum = select(math, compare(math, HLO_ComparisonDirection_LT, s, one), nan, sum);
    HloInstruction *broken = compare(math, HLO_ComparisonDirection_NE, s, integer);
    sum = select(math, binary(math, HLO_OP_AND, low, broken), nan, sum);
    HloInstruction *pole = binary(math, HLO_OP_AND, low, whole);
    sum = select(math, pole, select(math, even, infinite, nan), sum);
    return select(math, compare(math, HLO_ComparisonDirection_EQ, s, one), infinite, sum);
}

// (-1)^(n+1) n! zeta(n + 1, x)
static HloInstruction *polygamma(Math *math, HloInstruction *n, HloInstruction *x) {
    HloInstruction *one = number(math, 1), *zero = number(math, 0), *next = add(math, n, one);
    HloInstruction *odd =
        compare(math, HLO_ComparisonDirection_EQ, binary(math, HLO_OP_REMAINDER, n, number(math, 2)), one);
    HloInstruction *sign = select(math, odd, one, number(math, -1));
    HloInstruction *value = multiply(math, unary(math, HLO_OP_EXP, lgamma_of(math, next)), zeta(math, next, x));
    value = select(math, compare(math, HLO_ComparisonDirection_EQ, n, zero), digamma_of(math, x),
                   multiply(math, sign, value));
    HloInstruction *whole = compare(math, HLO_ComparisonDirection_EQ, n, unary(math, HLO_OP_FLOOR, n));
    HloInstruction *valid = binary(math, HLO_OP_AND, whole, compare(math, HLO_ComparisonDirection_GE, n, zero));
    return select(math, valid, value, number(math, NAN));
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows

typedef HloInstruction *UnaryGraph(Math *math, HloInstruction *x);
typedef HloInstruction *BinaryGraph(Math *math, HloInstruction *x, HloInstruction *y);

// Exactly one of `one` and `two` is set for a graph, neither for an opcode.
typedef struct ChloRow {
    const char *name;
    HloOpcode opcode;  // HLO_OPCODE_COUNT: a graph
    UnaryGraph *one;
    BinaryGraph *two;
    bool wide;  // half precision is computed in single precision
} ChloRow;

// clang-format off
//  ROW(name, opcode or HLO_OPCODE_COUNT for a graph, graph of one operand, of two, whether half precision is
//      computed in single precision, number of operands)
#define CHLO_ROWS(ROW) \
    ROW(acos,       HLO_OP_ACOS,      NULL,       NULL,       false, 1)                  \
    ROW(acosh,      HLO_OP_ACOSH,     NULL,       NULL,       false, 1)                  \
    ROW(asin,       HLO_OP_ASIN,      NULL,       NULL,       false, 1)                  \
    ROW(asinh,      HLO_OP_ASINH,     NULL,       NULL,       false, 1)                  \
    ROW(atan,       HLO_OPCODE_COUNT, atan_of,    NULL,       false, 1)                  \
    ROW(atanh,      HLO_OP_ATANH,     NULL,       NULL,       false, 1)                  \
    ROW(bessel_i1e, HLO_OPCODE_COUNT, bessel_i1e, NULL,       true,  1)                  \
    ROW(conj,       HLO_OPCODE_COUNT, conjugate,  NULL,       false, 1)                  \
    ROW(cosh,       HLO_OP_COSH,      NULL,       NULL,       false, 1)                  \
    ROW(digamma,    HLO_OPCODE_COUNT, digamma_of, NULL,       true,  1)                  \
    ROW(erf,        HLO_OP_ERF,       NULL,       NULL,       false, 1)                  \
    ROW(erf_inv,    HLO_OPCODE_COUNT, erf_inv,    NULL,       true,  1)                  \
    ROW(erfc,       HLO_OPCODE_COUNT, erfc_of,    NULL,       true,  1)                  \
    ROW(is_inf,     HLO_OPCODE_COUNT, is_inf,     NULL,       false, 1)                  \
    ROW(is_neg_inf, HLO_OPCODE_COUNT, is_neg_inf, NULL,       false, 1)                  \
    ROW(is_pos_inf, HLO_OPCODE_COUNT, is_pos_inf, NULL,       false, 1)                  \
    ROW(lgamma,     HLO_OPCODE_COUNT, lgamma_of,  NULL,       true,  1)                  \
    ROW(mulhi,      HLO_OP_MULHI,     NULL,       NULL,       false, 2)                  \
    ROW(next_after, HLO_OPCODE_COUNT, NULL,       next_after, false, 2)                  \
    ROW(polygamma,  HLO_OPCODE_COUNT, NULL,       polygamma,  true,  2)                  \
    ROW(sinh,       HLO_OP_SINH,      NULL,       NULL,       false, 1)                  \
    ROW(square,     HLO_OPCODE_COUNT, square,     NULL,       false, 1)                  \
    ROW(tan,        HLO_OP_TAN,       NULL,       NULL,       false, 1)                  \
    ROW(zeta,       HLO_OPCODE_COUNT, NULL,       zeta,       true,  2)
// clang-format on

static const ChloRow chlo_rows[] = {
#define ROW(name, opcode, one, two, wide, operands) {"chlo." #name, opcode, one, two, wide},
    CHLO_ROWS(ROW)
#undef ROW
};

static const ChloRow *find_chlo(const char *name) {
    for (size_t i = 0; i < HLO_COUNT_OF(chlo_rows); i++) {
        if (strcmp(chlo_rows[i].name, name) == 0) return &chlo_rows[i];
    }
    return NULL;
}

// All operands have one shape: chlo_structured.c handles broadcasts.
static HloStatus import_graph(ImportPlace *place, const ChloRow *row, HloInstruction *const *inputs,
                              int64_t input_count, HloInstruction **result) {
    HloInstruction *operands[2];
    const int64_t count = row->one ? 1 : 2;
    const bool agree =
        input_count == count && hlo_shape_equal(inputs[0]->shape, inputs[count - 1]->shape, HLO_COMPARE_IGNORE_LAYOUT);
    if (!agree)
        return import_error(place, HLO_INVALID_ARGUMENT, "%lld operands of one shape are needed", (long long)count);
    Math math = {.place = place, .shape = inputs[0]->shape};
    const HloType type = math.shape->type;
    const bool widen = row->wide && hlo_type_is_float(type) && hlo_type_info(type)->bits < 32;
    if (row->wide && !hlo_type_is_float(type))
        return import_error(place, HLO_INVALID_ARGUMENT, "a float type is needed");
    for (int64_t i = 0; i < count; i++) operands[i] = widen ? convert(&math, inputs[i], HLO_F32) : inputs[i];
    if (widen) math.shape = hlo_shape_with_type(import_arena(place), math.shape, HLO_F32);
    *result = row->one ? row->one(&math, operands[0]) : row->two(&math, operands[0], operands[1]);
    if (widen) *result = convert(&math, *result, type);
    return math.status;
}

// The type of a graph follows from its operands and must match the operation's, which may leave sizes open.
static HloStatus checked_graph(ImportPlace *place, const ChloRow *row, HloInstruction *const *operands,
                               int64_t operand_count, HloInstruction **result) {
    const HloShape *shape;
    HLO_TRY(import_graph(place, row, operands, operand_count, result));
    HLO_TRY(import_result_shape(place, &shape));
    return import_check_result(place, (*result)->shape, shape);
}

HloStatus import_chlo_value(ImportPlace *place, const char *name, HloInstruction *const *operands,
                            int64_t operand_count, HloInstruction **result) {
    const ChloRow *row = find_chlo(name);
    const HloShape *shape;
    assert(row); /* broadcasts and composites have names of this table */
    if (row->opcode == HLO_OPCODE_COUNT) return checked_graph(place, row, operands, operand_count, result);
    HLO_TRY(import_result_shape(place, &shape));
    return import_emit(place, row->opcode, shape, operands, operand_count, NULL, NULL, 0, result);
}

// Rows with an opcode need no graph, and are checked by shape inference like any other operation.
static HloStatus import_chlo(ImportPlace *place) {
    const ChloRow *row = find_chlo(place->operation->name);
    HloInstruction **operands, *result;
    assert(row); /* both tables have the same names */
    if (row->opcode != HLO_OPCODE_COUNT) return import_plain(place, row->opcode, NULL);
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(checked_graph(place, row, operands, place->operation->operand_count, &result));
    return import_set_results(place, result);
}

const ImportRow *import_chlo_rows(int64_t *count) {
    static const ImportRow all[] = {
#define ROW(name, opcode, one, two, wide, operands) {"chlo." #name, import_chlo, operands},
        CHLO_ROWS(ROW)
#undef ROW
    };
    *count = (int64_t)HLO_COUNT_OF(all);
    return all;
}
