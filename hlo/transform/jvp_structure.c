// SPDX-License-Identifier: Apache-2.0
// Tangents of data movement, products, reductions and windows.
#include "hlo/transform/internal.h"
#include "hlo/transform/structure.h"

// The op applied to all tangents at once, zeros where there are none.
static void jointly(HloJvp *j, HloInstruction **out, int64_t continuous) {
    int32_t count = j->old->operand_count;
    HloInstruction **operands = HLO_ARENA_NEW(j->scratch, HloInstruction *, count);
    for (int32_t i = 0; i < count; i++)
        operands[i] = i < continuous ? hlo_jvp_tangent_or_zeros(j, i) : hlo_jvp_operand(j, i);
    out[0] = hlo_jvp_apply(j, operands, count);
}

void hlo_jvp_concatenate(HloJvp *j, HloInstruction **out) {
    jointly(j, out, j->old->operand_count);
}

void hlo_jvp_dynamic_slice(HloJvp *j, HloInstruction **out) {
    jointly(j, out, 1);
}

void hlo_jvp_dynamic_update_slice(HloJvp *j, HloInstruction **out) {
    jointly(j, out, 2);
}

void hlo_jvp_pad(HloJvp *j, HloInstruction **out) {
    jointly(j, out, 2);
}

void hlo_jvp_gather(HloJvp *j, HloInstruction **out) {
    HloInstruction *pivots = hlo_transform_pivots_tangent(j);
    if (pivots)
        out[0] = hlo_jvp_apply(j, (HloInstruction *[]){pivots, hlo_jvp_operand(j, 1)}, 2);
    else
        jointly(j, out, 1);
}

// Applies a product to the tangent of one operand at a time.
static void each_factor(HloJvp *j, HloInstruction **out, HloInstruction *const factors[2],
                        HloInstruction *const tangents[2],
                        HloInstruction *(*apply)(HloJvp *j, HloInstruction *const operands[2])) {
    for (int64_t i = 0; i < 2; i++) {
        if (!tangents[i]) continue;
        HloInstruction *operands[] = {factors[0], factors[1]};
        operands[i] = tangents[i];
        out[0] = hlo_transform_sum(j->b, out[0], apply(j, operands));
    }
}

static HloInstruction *apply_dot(HloJvp *j, HloInstruction *const operands[2]) {
    return hlo_jvp_apply(j, operands, 2);
}

void hlo_jvp_dot(HloJvp *j, HloInstruction **out) {
    if (j->old->operand_count != 2) {
        hlo_jvp_refused(j, out);
        return;
    }
    HloInstruction *factors[] = {hlo_jvp_operand(j, 0), hlo_jvp_operand(j, 1)};
    HloInstruction *tangents[] = {hlo_jvp_tangent(j, 0), hlo_jvp_tangent(j, 1)};
    each_factor(j, out, factors, tangents, apply_dot);
}

// The convolution without reversed windows: its kernel has been reversed.
static HloInstruction *apply_convolution(HloJvp *j, HloInstruction *const operands[2]) {
    HloConvolutionAttributes attributes = *HLO_ATTRIBUTES(j->old, Convolution);
    HloWindowDimension dims[HLO_MAXIMUM_RANK];
    HloWindow window = {dims, attributes.window->count};
    for (int64_t i = 0; i < window.count; i++) {
        dims[i] = attributes.window->dims[i];
        dims[i].reversal = false;
    }
    attributes.window = &window;
    return hlo_build_convolution(j->b, operands[0], operands[1], &attributes, j->old->shape->type);
}

void hlo_jvp_convolution(HloJvp *j, HloInstruction **out) {
    const HloConvolutionAttributes *attributes = HLO_ATTRIBUTES(j->old, Convolution);
    HloInstruction *factors[] = {hlo_jvp_operand(j, 0), hlo_jvp_operand(j, 1)};
    HloInstruction *tangents[] = {hlo_jvp_tangent(j, 0), hlo_jvp_tangent(j, 1)};
    int64_t reversed[HLO_MAXIMUM_RANK], count = 0;
    for (int64_t i = 0; i < attributes->window->count; i++)
        if (attributes->window->dims[i].reversal) reversed[count++] = attributes->labels->kernel_spatial.items[i];
    if (count > 0) {
        factors[1] = hlo_build_reverse(j->b, factors[1], (HloInts){reversed, count});
        if (tangents[1]) tangents[1] = hlo_build_reverse(j->b, tangents[1], (HloInts){reversed, count});
    }
    each_factor(j, out, factors, tangents, apply_convolution);
}

// ---------------------------------------------------------------------------------------------------------------------
// Reductions

static void sum_reduction(HloJvp *j, HloInstruction **out) {
    HloInstruction *t = hlo_jvp_tangent(j, 0), *initial = hlo_jvp_tangent(j, 1);
    if (t) {
        HloInstruction *operands[] = {t, hlo_build_scalar(j->b, t->shape->type, 0)};
        out[0] = hlo_jvp_apply(j, operands, 2);
    }
    if (initial) {
        HloInts dims = hlo_shape_dims(j->old->shape);
        out[0] = hlo_transform_sum(j->b, out[0], hlo_build_broadcast(j->b, initial, dims, HLO_DIMS()));
    }
}

// The mean of the tangents of the elements that equal the result.
static void extreme_reduction(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInts reduced = HLO_ATTRIBUTES(j->old, Dimensions)->dimensions;
    HloInstruction *x = hlo_jvp_operand(j, 0), *t = hlo_jvp_tangent(j, 0);
    if (hlo_jvp_tangent(j, 1)) {
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED, "%s: there is no derivative in the initial value of a maximum",
                     j->old->name);
        return;
    }
    HloInstruction *result = hlo_build_spread(b, hlo_jvp_result(j), hlo_build_dims(x), reduced);
    HloInstruction *chosen = hlo_build_compare(b, x, result, HLO_ComparisonDirection_EQ);
    HloInstruction *count = hlo_build_reduce_op(b, HLO_OP_ADD, hlo_build_convert(b, chosen, x->shape->type), reduced);
    HloInstruction *kept = hlo_build_select(b, chosen, t, hlo_build_splat_like(b, x, 0));
    out[0] = hlo_build_div(b, hlo_build_reduce_op(b, HLO_OP_ADD, kept, reduced), count);
}

static HloInstruction *rows(HloBuilder *b, HloInstruction *x, int64_t first, int64_t limit) {
    int64_t starts[] = {first, 0}, limits[] = {limit, x->shape->dims[1]};
    return hlo_build_slice(b, x, (HloInts){starts, 2}, (HloInts){limits, 2}, HLO_DIMS());
}

// x as a matrix with a row for each element that is reduced.
static HloInstruction *as_rows(HloBuilder *b, HloInstruction *x, HloInts reduced) {
    int64_t order[HLO_MAXIMUM_RANK], count = 0, height = 1;
    for (int64_t i = 0; i < reduced.count; i++) {
        order[count++] = reduced.items[i];
        height *= x->shape->dims[reduced.items[i]];
    }
    for (int64_t i = 0; i < x->shape->rank; i++)
        if (!hlo_ints_contain(reduced, i)) order[count++] = i;
    int64_t width = height ? hlo_shape_elements(x->shape) / height : 0;
    return hlo_build_reshape(b, hlo_build_transpose(b, x, (HloInts){order, count}), HLO_DIMS(height, width));
}

static HloInstruction *joined(HloBuilder *b, HloInstruction *x, HloInstruction *y) {
    return hlo_build_concatenate(b, (HloInstruction *[]){x, y}, 2, 0);
}

// Multiplies pairs of rows until one is left: no product is divided by an element, which may be 0.
static void product_reduction(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInts reduced = HLO_ATTRIBUTES(j->old, Dimensions)->dimensions, dims = hlo_shape_dims(j->old->shape);
    HloInstruction *initial = hlo_jvp_operand(j, 1), *initial_tangent = hlo_jvp_tangent(j, 1);
    HloInstruction *x = as_rows(b, hlo_jvp_operand(j, 0), reduced), *t = hlo_jvp_tangent(j, 0);
    t = t ? as_rows(b, t, reduced) : NULL;
    if (!x || x->shape->dims[0] == 0) return;
    while (x && x->shape->dims[0] > 1) {
        int64_t height = x->shape->dims[0], half = height / 2;
        HloInstruction *upper = rows(b, x, 0, half), *lower = rows(b, x, half, 2 * half);
        HloInstruction *product = hlo_build_mul(b, upper, lower), *tangent = NULL;
        if (t) {
            tangent = hlo_build_add(b, hlo_build_mul(b, rows(b, t, 0, half), lower),
                                    hlo_build_mul(b, rows(b, t, half, 2 * half), upper));
            if (height % 2) tangent = joined(b, tangent, rows(b, t, height - 1, height));
        }
        if (height % 2) product = joined(b, product, rows(b, x, height - 1, height));
        x = product;
        t = tangent;
    }
    if (t) {
        t = hlo_build_reshape(b, t, dims);
        out[0] = hlo_build_mul(b, t, hlo_build_broadcast(b, initial, dims, HLO_DIMS()));
    }
    if (initial_tangent) {
        HloInstruction *term = hlo_build_broadcast(b, initial_tangent, dims, HLO_DIMS());
        out[0] = hlo_transform_sum(b, out[0], hlo_build_mul(b, term, hlo_build_reshape(b, x, dims)));
    }
}

static HloOpcode reducer_of(const HloInstruction *i, int32_t called) {
    return hlo_computation_binary_opcode(i->called[called]);
}

static void refuse_reducer(HloJvp *j) {
    hlo_jvp_fail(j, HLO_UNIMPLEMENTED,
                 "%s: there is no derivative of a %s by the computation %s: only of those of one array by add",
                 j->old->name, hlo_op_text(j->old->opcode), j->old->called[0]->name);
}

void hlo_jvp_reduce(HloJvp *j, HloInstruction **out) {
    HloOpcode reducer = j->old->operand_count == 2 ? reducer_of(j->old, 0) : HLO_OPCODE_COUNT;
    switch (reducer) {
        case HLO_OP_ADD: sum_reduction(j, out); break;
        case HLO_OP_MULTIPLY: product_reduction(j, out); break;
        case HLO_OP_MAXIMUM:
        case HLO_OP_MINIMUM:
            if (!hlo_transform_cancels(j)) extreme_reduction(j, out);
            break;
        default: hlo_transform_expand_reduce(j, out);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Windows

typedef struct Chooser {
    HloBuilder *b;
    HloInstruction *root;
    HloType type, carried;
    int32_t direction;
} Chooser;

// (a, t), (b, u) -> the pair whose first item is preferred; the earlier one if both are equal.
static HloStatus chooser_body(void *argument) {
    Chooser *c = argument;
    HloInstruction *p[4];
    for (int64_t i = 0; i < 4; i++) p[i] = hlo_build_parameter(c->b, i, i % 2 ? c->carried : c->type, HLO_DIMS(), NULL);
    HloInstruction *first = hlo_build_compare(c->b, p[0], p[2], c->direction);
    HloInstruction *pair[] = {hlo_build_select(c->b, first, p[0], p[2]), hlo_build_select(c->b, first, p[1], p[3])};
    c->root = hlo_build_tuple(c->b, pair, 2);
    return hlo_transform_status(c->b);
}

static HloStatus comparator_body(void *argument) {
    Chooser *c = argument;
    HloInstruction *a = hlo_build_parameter(c->b, 0, c->type, HLO_DIMS(), NULL);
    HloInstruction *b = hlo_build_parameter(c->b, 1, c->type, HLO_DIMS(), NULL);
    c->root = hlo_build_compare(c->b, a, b, c->direction);
    return hlo_transform_status(c->b);
}

static HloComputation *built(HloBuilder *b, const char *name, HloStatus (*body)(void *), Chooser *chooser) {
    HloComputation *computation = NULL;
    HloStatus status = hlo_transform_build(b->module, name, body, chooser, &chooser->b, &chooser->root, &computation);
    if (status) hlo_builder_fail(b, status);
    return computation;
}

HloInstruction *hlo_transform_window_gather(HloBuilder *b, HloInstruction *x, HloInstruction *carried,
                                            const HloWindow *window, int32_t direction) {
    if (!x || !carried) return NULL;
    Chooser chooser = {.type = x->shape->type, .carried = carried->shape->type, .direction = direction};
    HloComputation *choose = built(b, "choose", chooser_body, &chooser);
    bool least = direction == HLO_ComparisonDirection_LE;
    HloInstruction *initial[] = {hlo_build_identity_value(b, least ? HLO_OP_MINIMUM : HLO_OP_MAXIMUM, x->shape->type),
                                 hlo_build_scalar(b, carried->shape->type, 0)};
    HloInstruction *arrays[] = {x, carried};
    return choose ? hlo_build_get(b, hlo_build_reduce_window(b, arrays, initial, 2, window, choose), 1) : NULL;
}

static void transpose_window(HloTransposer *t, const HloLinear *linear, HloInstruction *const *cotangents) {
    HloBuilder *b = t->b;
    HloInstruction *x = hlo_transposer_residual(t, 0);
    if (!x) return;
    HloType type = x->shape->type;
    hlo_transposer_give(t, 1,
                        hlo_build_select_and_scatter(b, x, cotangents[0], hlo_build_scalar(b, type, 0), &linear->window,
                                                     linear->select, hlo_build_combiner(b, HLO_OP_ADD, type)));
}

// The tangent `t` of the element of each window that is chosen by x; NULL for NULL.
static HloInstruction *chosen_tangent(HloJvp *j, HloInstruction *x, HloInstruction *t, int32_t direction) {
    const HloWindow *window = HLO_ATTRIBUTES(j->old, Window)->window;
    HloInstruction *result = NULL;
    bool plain = true;
    for (int64_t i = 0; i < window->count; i++)
        plain &= window->dims[i].base_dilation <= 1 && window->dims[i].window_dilation <= 1 &&
                 !window->dims[i].reversal && window->dims[i].padding_low >= 0 && window->dims[i].padding_high >= 0;
    if (!t) return NULL;
    if (!j->split) return hlo_transform_window_gather(j->b, x, t, window, direction);
    if (!plain) {
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED, "%s: there is no derivative of a maximum over dilated windows",
                     j->old->name);
        return NULL;
    }
    Chooser chooser = {.type = x->shape->type, .direction = direction};
    HloComputation *select = built(j->b, "select", comparator_body, &chooser);
    HloLinear linear = {
        .transpose = transpose_window, .residual_count = 1, .tangent_count = 1, .window = *window, .select = select};
    HloInstruction *operands[] = {x, t};
    const HloShape *shape = hlo_shape_value(j->old->shape, 0);
    shape = hlo_shape_with_type(j->scratch, shape, t->shape->type);
    if (select) hlo_jvp_placeholder(j, &linear, operands, &shape, 1, &result);
    return result;
}

// The direction of a computation that chooses one of two pairs by their first items, as chooser_body() builds it; -1
// for others.
static int32_t chooser_direction(const HloComputation *c) {
    const HloInstruction *root = c->root;
    if (hlo_parameter_count(c) != 4 || !hlo_is(root, HLO_OP_TUPLE) || root->operand_count != 2) return -1;
    const HloInstruction *first = root->operands[0], *second = root->operands[1];
    HloInstruction *const *p = c->parameters.items;
    if (!hlo_is(first, HLO_OP_SELECT) || !hlo_is(second, HLO_OP_SELECT)) return -1;
    const HloInstruction *compare = first->operands[0];
    bool same = second->operands[0] == compare && first->operands[1] == p[0] && first->operands[2] == p[2] &&
                second->operands[1] == p[1] && second->operands[2] == p[3];
    if (!same || !hlo_is(compare, HLO_OP_COMPARE) || compare->operands[0] != p[0] || compare->operands[1] != p[2])
        return -1;
    int32_t direction = HLO_ATTRIBUTES(compare, Compare)->direction;
    return direction == HLO_ComparisonDirection_GE || direction == HLO_ComparisonDirection_LE ? direction : -1;
}

// A window that carries an array along with the one that it chooses by: what reverse mode makes of a selection.
static bool carrying_window(HloJvp *j, HloInstruction **out) {
    int32_t direction = j->old->operand_count == 4 ? chooser_direction(j->old->called[0]) : -1;
    if (direction < 0 || hlo_jvp_tangent(j, 2) || hlo_jvp_tangent(j, 3)) return false;
    for (int64_t i = 0; i < 2; i++) out[i] = chosen_tangent(j, hlo_jvp_operand(j, 0), hlo_jvp_tangent(j, i), direction);
    return true;
}

void hlo_jvp_reduce_window(HloJvp *j, HloInstruction **out) {
    HloOpcode reducer = j->old->operand_count == 2 ? reducer_of(j->old, 0) : HLO_OPCODE_COUNT;
    bool extreme = reducer == HLO_OP_MAXIMUM || reducer == HLO_OP_MINIMUM;
    int32_t direction = reducer == HLO_OP_MAXIMUM ? HLO_ComparisonDirection_GE : HLO_ComparisonDirection_LE;
    if (reducer == HLO_OP_ADD && !hlo_jvp_tangent(j, 1))
        sum_reduction(j, out);
    else if (extreme && !hlo_jvp_tangent(j, 1))
        out[0] = chosen_tangent(j, hlo_jvp_operand(j, 0), hlo_jvp_tangent(j, 0), direction);
    else if (!carrying_window(j, out))
        hlo_transform_expand_window(j, out);
}

// The choice of the elements has derivative zero.
void hlo_jvp_select_and_scatter(HloJvp *j, HloInstruction **out) {
    HloInstruction *t = hlo_jvp_tangent(j, 1);
    if (reducer_of(j->old, 1) != HLO_OP_ADD || hlo_jvp_tangent(j, 2)) {
        refuse_reducer(j);
    } else if (t) {
        HloInstruction *operands[] = {hlo_jvp_operand(j, 0), t, hlo_build_scalar(j->b, t->shape->type, 0)};
        out[0] = hlo_jvp_apply(j, operands, 3);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Calls outside HLO, and collectives

void hlo_jvp_custom_call(HloJvp *j, HloInstruction **out) {
    HloCustomCallKind kind = hlo_custom_call_kind(j->old);
    HloOpcode opcode = hlo_custom_call_opcode(j->old);
    if (kind == HLO_CALL_SHARDING || kind == HLO_CALL_IDENTITY || hlo_custom_call_is_region_boundary(j->old))
        hlo_jvp_linear(j, out);
    else if (opcode != HLO_OPCODE_COUNT)
        hlo_jvp_rule(opcode)(j, out);
    else if (kind == HLO_CALL_TOPK)
        hlo_jvp_topk(j, out);
    else if (!hlo_transform_decomposition(j, out))
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED, "%s: there is no derivative of the custom call to %s", j->old->name,
                     HLO_ATTRIBUTES(j->old, CustomCall)->target);
}

void hlo_jvp_collective(HloJvp *j, HloInstruction **out) {
    const HloOpcode reducer = j->old->called_count ? reducer_of(j->old, 0) : HLO_OP_ADD;
    const bool sums = reducer == HLO_OP_ADD;
    if ((reducer == HLO_OP_MAXIMUM || reducer == HLO_OP_MINIMUM) && hlo_transform_cancels(j)) return;
    if (j->old->operand_count != 1 || !sums)
        hlo_jvp_refused(j, out);
    else
        hlo_jvp_linear(j, out);
}

// As convert: the rounding is no part of the derivative. Integers have none.
void hlo_jvp_stochastic_convert(HloJvp *j, HloInstruction **out) {
    HloInstruction *t = hlo_jvp_tangent(j, 0);
    if (t && hlo_transform_is_continuous(j->old->shape->type)) out[0] = hlo_build_convert(j->b, t, j->old->shape->type);
}
