// SPDX-License-Identifier: Apache-2.0
// Special functions as graphs of elementwise operations (formulas.h).
//
// Each operation is appended in a separate statement, or nested if only one operand is created by the call: C does not
// define the order in which two arguments are evaluated, and the order of the calls determines the order and the names
// of the instructions.
#include "hlo/ir/build/formulas.h"

#include <assert.h>
#include <math.h>

#include "hlo/ir/attributes.h"

static HloInstruction *unary(const HloGraph *graph, HloOpcode opcode, HloInstruction *a) {
    return graph->append(graph->context, opcode, &a, 1, NULL);
}

static HloInstruction *binary(const HloGraph *graph, HloOpcode opcode, HloInstruction *a, HloInstruction *b) {
    HloInstruction *operands[] = {a, b};
    return graph->append(graph->context, opcode, operands, 2, NULL);
}

static HloInstruction *select(const HloGraph *graph, HloInstruction *condition, HloInstruction *yes,
                              HloInstruction *no) {
    HloInstruction *operands[] = {condition, yes, no};
    return graph->append(graph->context, HLO_OP_SELECT, operands, 3, NULL);
}

static HloInstruction *compare(const HloGraph *graph, HloInstruction *a, HloInstruction *b, int32_t direction) {
    HloInstruction *operands[] = {a, b};
    return graph->append(graph->context, HLO_OP_COMPARE, operands, 2, &(HloCompareAttributes){.direction = direction});
}

static HloInstruction *number(const HloGraph *graph, double value) {
    return graph->number(graph->context, value);
}

HloInstruction *hlo_graph_polynomial(const HloGraph *graph, HloInstruction *x, const double *coefficients,
                                     size_t count) {
    assert(count > 0); /* no table is empty */
    HloInstruction *sum = number(graph, coefficients[0]);
    for (size_t i = 1; i < count; i++) {
        HloInstruction *coefficient = number(graph, coefficients[i]);
        sum = binary(graph, HLO_OP_ADD, binary(graph, HLO_OP_MULTIPLY, sum, x), coefficient);
    }
    return sum;
}

// ---- the inverse error function: x · p(w) with w = -log(1 - x²)
//
// For small w, p is a polynomial in w minus the middle of the range; for large w, in √w minus a middle. Ranges and
// coefficients: M. Giles, "Approximating the erfinv function", GPU Computing Gems Jade (2012), chapter 10.

// One range of w. Polynomials of ranges after the first are in √w.
typedef struct Range {
    double limit;  // upper bound of w, exclusive
    double middle;
    const double *coefficients;  // highest power first
    size_t count;
} Range;

#define COUNTED(array) array, HLO_COUNT_OF(array)

static const double single_centre[] = {
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727,    1.50140941,
};
static const double single_tail[] = {
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613,   0.00943887047,  1.00167406,    2.83297682,
};
static const double double_centre[] = {
    -3.64441206401782e-21,   -1.6850591381820166e-19, 1.28584807152564e-18,    1.1157877678025181e-17,
    -1.3331716628546209e-16, 2.0972767875968562e-17,  6.6376381343583238e-15,  -4.0545662729752069e-14,
    -8.1519341976054722e-14, 2.6335093153082323e-12,  -1.2975133253453532e-11, -5.4154120542946279e-11,
    1.0512122733215323e-09,  -4.1126339803469837e-09, -2.9070369957882005e-08, 4.2347877827932404e-07,
    -1.3654692000834679e-06, -1.3882523362786469e-05, 0.00018673420803405714,  -0.000740702534166267,
    -0.0060336708714301491,  0.24015818242558962,     1.6536545626831027,
};
static const double double_tail[] = {
    2.2137376921775787e-09,  9.0756561938885391e-08, -2.7517406297064545e-07, 1.8239629214389228e-08,
    1.5027403968909828e-06,  -4.013867526981546e-06, 2.9234449089955446e-06,  1.2475304481671779e-05,
    -4.7318229009055734e-05, 6.8284851459573175e-05, 2.4031110387097894e-05,  -0.00035503752036284748,
    0.0009532893797373805,   -0.0016882755560235047, 0.0024914420961078508,   -0.0037512085075692412,
    0.0053709145535900636,   1.0052589676941592,     3.0838856104922208,
};
static const double double_far_tail[] = {
    -2.7109920616438573e-11, -2.5556418169965252e-10, 1.5076572693500548e-09,  -3.789465440126737e-09,
    7.61570120807834e-09,    -1.496002662714924e-08,  2.9147953450901081e-08,  -6.7711997758452339e-08,
    2.2900482228026655e-07,  -9.9298272942317e-07,    4.5260625972231537e-06,  -1.9681778105531671e-05,
    7.5995277030017761e-05,  -0.00021503011930044477, -0.00013871931833623122, 1.0103004648645344,
    4.8499064014085844,
};

static const Range single_precision[] = {{5, 2.5, COUNTED(single_centre)}, {INFINITY, 3, COUNTED(single_tail)}};
static const Range double_precision[] = {
    {6.25, 3.125, COUNTED(double_centre)}, {16, 3.25, COUNTED(double_tail)}, {INFINITY, 5, COUNTED(double_far_tail)}};
enum { MOST_RANGES = HLO_COUNT_OF(double_precision) };

// The ranges among which elements are chosen.
typedef struct Chooser {
    const HloGraph *graph;
    const Range *ranges;
    size_t count;
    HloInstruction *below[MOST_RANGES];  // w is below the range's limit; none for the last
} Chooser;

// The coefficients at `power` (0: the highest) of the ranges that have so many.
static HloInstruction *coefficient(const Chooser *of, size_t power) {
    HloInstruction *chosen = number(of->graph, of->ranges[0].coefficients[power]);
    for (size_t i = 1; i < of->count && power < of->ranges[i].count; i++) {
        HloInstruction *other = number(of->graph, of->ranges[i].coefficients[power]);
        chosen = select(of->graph, of->below[i - 1], chosen, other);
    }
    return chosen;
}

// w less the middle of the first range, or sqrt(w) less that of a later one.
static HloInstruction *from_middle(const Chooser *of, HloInstruction *w) {
    const HloGraph *graph = of->graph;
    HloInstruction *near = binary(graph, HLO_OP_SUBTRACT, w, number(graph, of->ranges[0].middle));
    // The slope of the root would be infinite at 0, where the other choice hides it. The simplifier removes this
    // choice again where no derivative is taken.
    HloInstruction *limit = number(graph, of->ranges[0].limit);
    HloInstruction *root = unary(graph, HLO_OP_SQRT, select(graph, of->below[0], limit, w));
    HloInstruction *middle = number(graph, of->ranges[1].middle);
    for (size_t i = 2; i < of->count; i++) {
        HloInstruction *other = number(graph, of->ranges[i].middle);
        middle = select(graph, of->below[i - 1], middle, other);
    }
    return select(graph, of->below[0], near, binary(graph, HLO_OP_SUBTRACT, root, middle));
}

// p(w), each element by the polynomial of its range: one polynomial whose argument and coefficients are chosen, as XLA
// has it. Where the ranges have different degrees, those of lower degree keep their sum in the last steps.
static HloInstruction *of_ranges(const HloGraph *graph, HloInstruction *w, const Range *ranges, size_t count) {
    assert(count >= 2 && count <= MOST_RANGES);
    Chooser of = {graph, ranges, count, {NULL}};
    for (size_t i = 0; i < count - 1; i++) {
        assert(ranges[i].count >= ranges[i + 1].count); /* the sums of the later ranges are ready first */
        of.below[i] = compare(graph, w, number(graph, ranges[i].limit), HLO_ComparisonDirection_LT);
    }
    HloInstruction *argument = from_middle(&of, w), *sum = coefficient(&of, 0);
    for (size_t power = 1; power < ranges[0].count; power++) {
        HloInstruction *next = coefficient(&of, power);
        next = binary(graph, HLO_OP_ADD, next, binary(graph, HLO_OP_MULTIPLY, sum, argument));
        size_t ready = count;  // the first range whose sum is complete
        while (ready > 1 && power >= ranges[ready - 1].count) ready--;
        sum = ready < count ? select(graph, of.below[ready - 1], next, sum) : next;
    }
    return sum;
}

HloInstruction *hlo_graph_erf_inv(const HloGraph *graph, HloInstruction *x, HloType type) {
    assert(graph->append && graph->number);
    assert(type == HLO_F32 || type == HLO_F64); /* other types have no polynomial */
    // At the ends w would be infinite, and p NaN. Each select chooses an operand rather than a result, since the slope
    // of what is not chosen would be 0 times infinity: the derivative of the whole is the right one everywhere. The
    // last select repeats these choices, so that the simplifier removes them where no derivative is taken.
    HloInstruction *one = number(graph, 1);
    HloInstruction *at_end = compare(graph, unary(graph, HLO_OP_ABS, x), one, HLO_ComparisonDirection_EQ);
    HloInstruction *inner = select(graph, at_end, number(graph, 0), x);
    HloInstruction *square = binary(graph, HLO_OP_MULTIPLY, inner, unary(graph, HLO_OP_NEGATE, inner));
    HloInstruction *w = unary(graph, HLO_OP_NEGATE, unary(graph, HLO_OP_LOG1P, square));
    HloInstruction *p = type == HLO_F64 ? of_ranges(graph, w, double_precision, HLO_COUNT_OF(double_precision))
                                        : of_ranges(graph, w, single_precision, HLO_COUNT_OF(single_precision));
    HloInstruction *end = binary(graph, HLO_OP_MULTIPLY, select(graph, at_end, x, one), number(graph, INFINITY));
    return select(graph, at_end, end, binary(graph, HLO_OP_MULTIPLY, p, inner));
}

// ---- the gamma function: Lanczos' approximation with g = 7 and nine terms

// The coefficients of P. Godfrey's fit for g = 7 (A note on the computation of the convergent Lanczos complex gamma
// approximation, 2001), which XLA uses as well.
static const double lanczos_base = 0.99999999999980993227684700473478;
static const double lanczos_terms[] = {676.520368121885098567009190444019, -1259.13921672240287047156078755283,
                                       771.3234287776530788486528258894,   -176.61502916214059906584551354,
                                       12.507343278686904814458936853,     -0.13857109526572011689554707,
                                       9.984369578019570859563e-6,         1.50563273514931155834e-7};
static const double lanczos_g = 7;

// The parts common to lgamma and digamma.
typedef struct Lanczos {
    HloInstruction *reflect;  // x < 1/2: computed for 1 - x
    HloInstruction *z;        // the argument less one
    HloInstruction *t, *log_t;
    HloInstruction *sum;    // the series
    HloInstruction *slope;  // its derivative
} Lanczos;

// A number and an operation on it, in this order.
static HloInstruction *with_number(const HloGraph *graph, HloOpcode opcode, HloInstruction *a, double value) {
    return binary(graph, opcode, a, number(graph, value));
}

static HloInstruction *number_less(const HloGraph *graph, double value, HloInstruction *a) {
    HloInstruction *first = number(graph, value);
    return binary(graph, HLO_OP_SUBTRACT, first, a);
}

// log(t) is log(g + 1/2) + log1p(z / (g + 1/2)): exact where z is small, while log(z + 7.5) rounds z away.
static Lanczos lanczos(const HloGraph *graph, HloInstruction *x) {
    Lanczos series = {.reflect = compare(graph, x, number(graph, 0.5), HLO_ComparisonDirection_LT)};
    HloInstruction *negative = unary(graph, HLO_OP_NEGATE, x);
    series.z = select(graph, series.reflect, negative, with_number(graph, HLO_OP_SUBTRACT, x, 1));
    series.sum = number(graph, lanczos_base);
    series.slope = number(graph, 0);
    for (size_t i = 0; i < HLO_COUNT_OF(lanczos_terms); i++) {
        HloInstruction *place = with_number(graph, HLO_OP_ADD, series.z, (double)i + 1);
        HloInstruction *coefficient = number(graph, lanczos_terms[i]);
        HloInstruction *term = binary(graph, HLO_OP_DIVIDE, coefficient, place);
        series.sum = binary(graph, HLO_OP_ADD, series.sum, term);
        coefficient = number(graph, lanczos_terms[i]);
        term = binary(graph, HLO_OP_DIVIDE, coefficient, binary(graph, HLO_OP_MULTIPLY, place, place));
        series.slope = binary(graph, HLO_OP_SUBTRACT, series.slope, term);
    }
    const double shift = lanczos_g + 0.5;
    series.t = with_number(graph, HLO_OP_ADD, series.z, shift);
    HloInstruction *first = number(graph, log(shift)), *part = with_number(graph, HLO_OP_DIVIDE, series.z, shift);
    series.log_t = binary(graph, HLO_OP_ADD, first, unary(graph, HLO_OP_LOG1P, part));
    return series;
}

// log(gamma(z+1)) = log(2 pi)/2 + (z + 1/2) log(t) - t + log(sum), written with (z + 1/2 - t/log t) log t so that the
// large terms do not cancel; below 1/2 by reflection.
HloInstruction *hlo_graph_lgamma(const HloGraph *graph, HloInstruction *x) {
    Lanczos series = lanczos(graph, x);
    HloInstruction *power = with_number(graph, HLO_OP_ADD, series.z, 0.5);
    power = binary(graph, HLO_OP_SUBTRACT, power, binary(graph, HLO_OP_DIVIDE, series.t, series.log_t));
    HloInstruction *value = number(graph, 0.5 * log(2 * M_PI));
    value = binary(graph, HLO_OP_ADD, value, binary(graph, HLO_OP_MULTIPLY, power, series.log_t));
    value = binary(graph, HLO_OP_ADD, value, unary(graph, HLO_OP_LOG, series.sum));
    // gamma(x) gamma(1 - x) = pi / sin(pi x), by the distance to the nearest integer.
    HloInstruction *size = unary(graph, HLO_OP_ABS, x);
    HloInstruction *part = binary(graph, HLO_OP_SUBTRACT, size, unary(graph, HLO_OP_FLOOR, size));
    HloInstruction *half = compare(graph, part, number(graph, 0.5), HLO_ComparisonDirection_GT);
    part = select(graph, half, number_less(graph, 1, part), part);
    // Elsewhere its logarithm must not be infinite: the slope would be NaN.
    part = select(graph, series.reflect, part, number(graph, 0.5));
    HloInstruction *angle = with_number(graph, HLO_OP_MULTIPLY, part, M_PI);
    HloInstruction *sine = unary(graph, HLO_OP_LOG, unary(graph, HLO_OP_SIN, angle));
    HloInstruction *finite = unary(graph, HLO_OP_IS_FINITE, sine);
    HloInstruction *other = binary(graph, HLO_OP_SUBTRACT, number_less(graph, log(M_PI), sine), value);
    other = select(graph, finite, other, unary(graph, HLO_OP_NEGATE, sine));
    value = select(graph, series.reflect, other, value);
    HloInstruction *infinite = compare(graph, size, number(graph, INFINITY), HLO_ComparisonDirection_EQ);
    HloInstruction *infinity = number(graph, INFINITY);
    return select(graph, infinite, infinity, value);
}

// The derivative of the above: log(t) + slope/sum - g/t. The reflection uses the distance to the nearest integer,
// because cot(pi x) for large x would lose it. The poles are NaN.
HloInstruction *hlo_graph_digamma(const HloGraph *graph, HloInstruction *x) {
    Lanczos series = lanczos(graph, x);
    HloInstruction *value = binary(graph, HLO_OP_DIVIDE, series.slope, series.sum);
    value = binary(graph, HLO_OP_ADD, series.log_t, value);
    HloInstruction *g = number(graph, lanczos_g);
    value = binary(graph, HLO_OP_SUBTRACT, value, binary(graph, HLO_OP_DIVIDE, g, series.t));
    // psi(1 - x) - psi(x) = pi cot(pi x)
    HloInstruction *nearest = unary(graph, HLO_OP_FLOOR, with_number(graph, HLO_OP_ADD, x, 0.5)),
                   *pi = number(graph, M_PI);
    // Below 1/2, where the angle is used, the nearest integer is not positive: less it is plus its size, as in XLA.
    HloInstruction *from_it = binary(graph, HLO_OP_ADD, x, unary(graph, HLO_OP_ABS, nearest));
    HloInstruction *angle = binary(graph, HLO_OP_MULTIPLY, pi, from_it);
    angle = select(graph, series.reflect, angle, number(graph, 1));  // not 0, at which the slope would be NaN
    pi = number(graph, M_PI);
    HloInstruction *cotangent = binary(graph, HLO_OP_MULTIPLY, pi, unary(graph, HLO_OP_COS, angle));
    cotangent = binary(graph, HLO_OP_DIVIDE, cotangent, unary(graph, HLO_OP_SIN, angle));
    value = select(graph, series.reflect, binary(graph, HLO_OP_SUBTRACT, value, cotangent), value);
    HloInstruction *whole = compare(graph, x, unary(graph, HLO_OP_FLOOR, x), HLO_ComparisonDirection_EQ);
    HloInstruction *negative = compare(graph, x, number(graph, 0), HLO_ComparisonDirection_LE);
    HloInstruction *pole = binary(graph, HLO_OP_AND, whole, negative), *nan = number(graph, NAN);
    return select(graph, pole, nan, value);
}
