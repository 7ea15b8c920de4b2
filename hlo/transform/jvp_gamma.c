// SPDX-License-Identifier: Apache-2.0
// The derivative of samples of a gamma distribution with respect to its shape: of the x that has a given probability
// P(a, x), -(dP/da) / (dP/dx), by the series of P for small x and the continued fraction of 1 - P for large x, with the
// derivatives of their terms. As in JAX's lax.random_gamma_grad, whose formulas are those of Cephes' igam and igamc.
#include <float.h>
#include <math.h>

#include "hlo/ir/build/formulas.h"
#include "hlo/transform/structure.h"

// The states of the two loops: arrays of one shape, after whether an element still changes.
enum { CHANGES, SERIES_R, SERIES_C, SERIES_SUM, SERIES_DC, SERIES_DSUM, SERIES_X, SERIES_COUNT };
enum {
    FRACTION_VALUE = 1,
    FRACTION_Y,
    FRACTION_Z,
    FRACTION_STEP,
    FRACTION_P1,
    FRACTION_Q1,
    FRACTION_P2,
    FRACTION_Q2,
    FRACTION_DP1,
    FRACTION_DQ1,
    FRACTION_DP2,
    FRACTION_DQ2,
    FRACTION_DVALUE,
    FRACTION_COUNT
};
enum { MOST_STEPS = 2000 };  // of the fraction

typedef struct Loop {
    HloBuilder *b;
    HloInstruction *root;
    const HloShape *state;
    double epsilon;
} Loop;

static HloInstruction *plus(HloBuilder *b, HloInstruction *x, double value) {
    return hlo_build_add(b, x, hlo_build_splat_like(b, x, value));
}

static HloInstruction *above(HloBuilder *b, HloInstruction *x, double value) {
    return hlo_build_compare(b, x, hlo_build_splat_like(b, x, value), HLO_ComparisonDirection_GT);
}

// x y - u v
static HloInstruction *difference(HloBuilder *b, HloInstruction *x, HloInstruction *y, HloInstruction *u,
                                  HloInstruction *v) {
    HloInstruction *first = hlo_build_mul(b, x, y);
    return hlo_build_sub(b, first, hlo_build_mul(b, u, v));
}

// The loops go on while one element changes.
static HloStatus any_changes(void *argument) {
    Loop *l = argument;
    int64_t dims[HLO_MAXIMUM_RANK];
    HloInstruction *changes = hlo_build_get(l->b, hlo_build_parameter_shape(l->b, 0, l->state, "state"), CHANGES);
    if (!changes) return hlo_transform_status(l->b);
    for (int64_t d = 0; d < changes->shape->rank; d++) dims[d] = d;
    l->root = hlo_build_reduce_op(l->b, HLO_OP_OR, changes, (HloInts){dims, changes->shape->rank});
    return hlo_transform_status(l->b);
}

// The new state; elements that do not change any more keep the old one.
static void finish_step(Loop *l, HloInstruction *const *old, HloInstruction **next, int64_t count) {
    next[CHANGES] = hlo_build_and(l->b, old[CHANGES], next[CHANGES]);
    for (int64_t k = 1; k < count; k++) next[k] = hlo_build_select(l->b, old[CHANGES], next[k], old[k]);
    l->root = hlo_build_tuple(l->b, next, count);
}

// The next term c of the sum, and of its derivative: c x / (a + n).
static HloStatus series_step(void *argument) {
    Loop *l = argument;
    HloBuilder *b = l->b;
    HloInstruction *state = hlo_build_parameter_shape(b, 0, l->state, "state"), *old[SERIES_COUNT], *next[SERIES_COUNT];
    for (int64_t k = 0; k < SERIES_COUNT; k++) old[k] = hlo_build_get(b, state, k);
    HloInstruction *x = old[SERIES_X], *r = plus(b, old[SERIES_R], 1), *ratio = hlo_build_div(b, x, r);
    HloInstruction *of_ratio = hlo_build_div(b, hlo_build_mul(b, old[SERIES_C], ratio), r);
    next[SERIES_X] = x;
    next[SERIES_R] = r;
    next[SERIES_DC] = hlo_build_sub(b, hlo_build_mul(b, old[SERIES_DC], ratio), of_ratio);
    next[SERIES_DSUM] = hlo_build_add(b, old[SERIES_DSUM], next[SERIES_DC]);
    next[SERIES_C] = hlo_build_mul(b, old[SERIES_C], ratio);
    next[SERIES_SUM] = hlo_build_add(b, old[SERIES_SUM], next[SERIES_C]);
    next[CHANGES] = above(b, hlo_build_abs(b, hlo_build_div(b, next[SERIES_DC], next[SERIES_DSUM])), l->epsilon);
    finish_step(l, old, next, SERIES_COUNT);
    return hlo_transform_status(b);
}

// The next convergent p / q of the fraction, and its derivative. Numbers that become large are scaled.
static HloStatus fraction_step(void *argument) {
    Loop *l = argument;
    HloBuilder *b = l->b;
    HloInstruction *old[FRACTION_COUNT], *next[FRACTION_COUNT];
    HloInstruction *state = hlo_build_parameter_shape(b, 0, l->state, "state");
    for (int64_t k = 0; k < FRACTION_COUNT; k++) old[k] = hlo_build_get(b, state, k);
    HloInstruction *step = plus(b, old[FRACTION_STEP], 1), *y = plus(b, old[FRACTION_Y], 1);
    HloInstruction *z = plus(b, old[FRACTION_Z], 2), *yc = hlo_build_mul(b, y, step);
    HloInstruction *p = difference(b, old[FRACTION_P1], z, old[FRACTION_P2], yc);
    HloInstruction *q = difference(b, old[FRACTION_Q1], z, old[FRACTION_Q2], yc);
    HloInstruction *dp = hlo_build_sub(b, difference(b, old[FRACTION_DP1], z, old[FRACTION_DP2], yc), old[FRACTION_P1]);
    HloInstruction *dq = hlo_build_sub(b, difference(b, old[FRACTION_DQ1], z, old[FRACTION_DQ2], yc), old[FRACTION_Q1]);
    dp = hlo_build_add(b, dp, hlo_build_mul(b, old[FRACTION_P2], step));
    dq = hlo_build_add(b, dq, hlo_build_mul(b, old[FRACTION_Q2], step));
    HloInstruction *value = hlo_build_div(b, p, q), *rest = hlo_build_sub(b, dp, hlo_build_mul(b, value, dq));
    HloInstruction *slope = hlo_build_div(b, rest, q);
    HloInstruction *large = above(b, hlo_build_abs(b, p), 1 / l->epsilon);
    HloInstruction *scale = hlo_build_splat_like(b, p, l->epsilon), *one = hlo_build_splat_like(b, p, 1);
    HloInstruction *scaled[] = {p, q, old[FRACTION_P1], old[FRACTION_Q1], dp, dq, old[FRACTION_DP1], old[FRACTION_DQ1]};
    scale = hlo_build_select(b, large, scale, one);
    for (int64_t k = 0; k < (int64_t)HLO_COUNT_OF(scaled); k++)
        next[FRACTION_P1 + k] = hlo_build_mul(b, scaled[k], scale);
    next[FRACTION_VALUE] = value;
    next[FRACTION_DVALUE] = slope;
    next[FRACTION_STEP] = step;
    next[FRACTION_Y] = y;
    next[FRACTION_Z] = z;
    HloInstruction *moved = hlo_build_abs(b, hlo_build_sub(b, slope, old[FRACTION_DVALUE]));
    HloInstruction *most = hlo_build_splat_like(b, step, MOST_STEPS);
    HloInstruction *may_go_on = hlo_build_compare(b, step, most, HLO_ComparisonDirection_LT);
    next[CHANGES] = hlo_build_and(b, above(b, moved, l->epsilon), may_go_on);
    finish_step(l, old, next, FRACTION_COUNT);
    return hlo_transform_status(b);
}

// The final state of a loop.
static HloInstruction *run_loop(HloBuilder *b, HloStatus (*step)(void *), HloInstruction *const *state, int64_t count) {
    HloInstruction *initial = hlo_build_tuple(b, state, count);
    HloComputation *condition, *body;
    if (!initial) return NULL;
    const bool is_wide = state[count - 1]->shape->type == HLO_F64;
    Loop l = {.state = initial->shape, .epsilon = is_wide ? DBL_EPSILON : FLT_EPSILON};
    HloStatus status = hlo_transform_build(b->module, "gamma_condition", any_changes, &l, &l.b, &l.root, &condition);
    if (!status) status = hlo_transform_build(b->module, "gamma_step", step, &l, &l.b, &l.root, &body);
    if (status) hlo_builder_fail(b, status);
    return status ? NULL : hlo_build_while(b, initial, condition, body);
}

// derivative + value (log(x) - digamma(at))
static HloInstruction *with_factor(HloBuilder *b, HloInstruction *derivative, HloInstruction *value, HloInstruction *x,
                                   HloInstruction *at) {
    HloInstruction *log = hlo_build_log(b, x);
    HloInstruction *slope = hlo_build_sub(b, log, hlo_build_digamma(b, at));
    return hlo_build_add(b, derivative, hlo_build_mul(b, value, slope));
}

static HloInstruction *by_series(HloBuilder *b, HloInstruction *a, HloInstruction *x, HloInstruction *wanted) {
    HloInstruction *one = hlo_build_splat_like(b, a, 1), *zero = hlo_build_splat_like(b, a, 0);
    HloInstruction *state[SERIES_COUNT] = {wanted, a, one, one, zero, zero, x};
    HloInstruction *end = run_loop(b, series_step, state, SERIES_COUNT);
    HloInstruction *sum = hlo_build_get(b, end, SERIES_SUM), *derivative = hlo_build_get(b, end, SERIES_DSUM);
    HloInstruction *whole = with_factor(b, derivative, sum, x, plus(b, a, 1));
    return hlo_build_negate(b, hlo_build_div(b, hlo_build_mul(b, whole, x), a));
}

static HloInstruction *by_fraction(HloBuilder *b, HloInstruction *a, HloInstruction *x, HloInstruction *wanted) {
    HloInstruction *one = hlo_build_splat_like(b, a, 1), *zero = hlo_build_splat_like(b, a, 0);
    HloInstruction *y = hlo_build_sub(b, one, a), *p = plus(b, x, 1), *z = hlo_build_add(b, p, y);
    HloInstruction *q = hlo_build_mul(b, z, x), *value = hlo_build_div(b, p, q), *dq = hlo_build_negate(b, x);
    HloInstruction *slope = hlo_build_div(b, hlo_build_mul(b, value, x), q);
    HloInstruction *state[FRACTION_COUNT] = {
        [CHANGES] = wanted,     [FRACTION_VALUE] = value, [FRACTION_Y] = y,    [FRACTION_Z] = z,
        [FRACTION_STEP] = zero, [FRACTION_P1] = p,        [FRACTION_Q1] = q,   [FRACTION_P2] = one,
        [FRACTION_Q2] = x,      [FRACTION_DP1] = zero,    [FRACTION_DQ1] = dq, [FRACTION_DP2] = zero,
        [FRACTION_DQ2] = zero,  [FRACTION_DVALUE] = slope};
    HloInstruction *end = run_loop(b, fraction_step, state, FRACTION_COUNT);
    HloInstruction *derivative = hlo_build_get(b, end, FRACTION_DVALUE);
    return hlo_build_mul(b, with_factor(b, derivative, hlo_build_get(b, end, FRACTION_VALUE), x, a), x);
}

HloInstruction *hlo_transform_gamma_slope(HloBuilder *b, HloInstruction *a, HloInstruction *x) {
    if (!a || !x) return NULL;
    HloInstruction *zero = hlo_build_splat_like(b, x, 0), *nan = hlo_build_splat_like(b, x, NAN);
    HloInstruction *is_positive = hlo_build_and(b, above(b, x, 0), above(b, a, 0));
    HloInstruction *is_large = hlo_build_and(b, above(b, x, 1), hlo_build_compare(b, x, a, HLO_ComparisonDirection_GT));
    HloInstruction *is_small = hlo_build_and(b, is_positive, hlo_build_not(b, is_large));
    HloInstruction *fraction = by_fraction(b, a, x, hlo_build_and(b, is_positive, is_large));
    HloInstruction *slope = hlo_build_select(b, is_large, fraction, by_series(b, a, x, is_small));
    HloInstruction *at_zero = hlo_build_compare(b, x, zero, HLO_ComparisonDirection_EQ);
    slope = hlo_build_select(b, is_positive, slope, nan);
    return hlo_build_select(b, hlo_build_and(b, at_zero, above(b, a, 0)), zero, slope);
}
