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

// One range of w.
typedef struct Range {
    double limit;  // upper bound of w, exclusive
    bool root;     // the polynomial is in √w
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

static const Range single_precision[] = {{5, false, 2.5, COUNTED(single_centre)},
                                         {INFINITY, true, 3, COUNTED(single_tail)}};
static const Range double_precision[] = {{6.25, false, 3.125, COUNTED(double_centre)},
                                         {16, true, 3.25, COUNTED(double_tail)},
                                         {INFINITY, true, 5, COUNTED(double_far_tail)}};
enum { MOST_RANGES = HLO_COUNT_OF(double_precision) };

// p(w), each element by the polynomial of its range: all polynomials are computed for all elements, and selects choose
// among them, nested from the last range, the default, to the first.
static HloInstruction *of_ranges(const HloGraph *graph, HloInstruction *w, const Range *ranges, size_t count) {
    assert(count >= 2 && count <= MOST_RANGES && !ranges[0].root);
    HloInstruction *below[MOST_RANGES], *from_middle[MOST_RANGES], *root = NULL;
    for (size_t i = 0; i < count - 1; i++)
        below[i] = compare(graph, w, number(graph, ranges[i].limit), HLO_ComparisonDirection_LT);
    for (size_t i = 0; i < count; i++) {
        HloInstruction *middle = number(graph, ranges[i].middle);
        // The root is used from here on only; below, its slope would be infinite at 0.
        if (ranges[i].root && !root) {
            HloInstruction *least = number(graph, ranges[i - 1].limit);
            root = unary(graph, HLO_OP_SQRT, binary(graph, HLO_OP_MAXIMUM, w, least));
        }
        from_middle[i] = binary(graph, HLO_OP_SUBTRACT, ranges[i].root ? root : w, middle);
    }
    HloInstruction *result = NULL;
    for (size_t i = count; i-- > 0;) {
        HloInstruction *p = hlo_graph_polynomial(graph, from_middle[i], ranges[i].coefficients, ranges[i].count);
        result = i == count - 1 ? p : select(graph, below[i], p, result);
    }
    return result;
}

HloInstruction *hlo_graph_erf_inv(const HloGraph *graph, HloInstruction *x, HloType type) {
    assert(graph->append && graph->number);
    assert(type == HLO_F32 || type == HLO_F64); /* other types have no polynomial */
    // At the ends w would be infinite, and p NaN. Each select chooses an operand rather than a result, since the slope
    // of what is not chosen would be 0 times infinity: the derivative of the whole is the right one everywhere.
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
