// SPDX-License-Identifier: Apache-2.0
// Rules of the pass dynamic-padder: ops that combine elements.
//
// Each rule does two things: it sets the sizes of the result, and it ensures that elements beyond the sizes of an
// operand cannot affect an element of the result within its own sizes. Elementwise ops need no mask, because surplus
// elements affect only surplus elements. Reductions and dots need one, whose value is the neutral element if there is
// one; sorts need a key that is ordered last.
#include <assert.h>
#include <string.h>

#include "hlo/pass/pad/padder.h"

// ---- elementwise

// The common size of two operands: the smaller one, except that an array of size one is repeated.
static HloInstruction *meet(const HloInstruction *like, HloInstruction *a, HloInstruction *b) {
    if (a == b) return a;
    HloInstruction *low = hlo_pass_binary(like, HLO_OP_MINIMUM, a, b),
                   *high = hlo_pass_binary(like, HLO_OP_MAXIMUM, a, b);
    HloInstruction *single = hlo_pass_compare(like, low, hlo_padder_number(like, 1), HLO_ComparisonDirection_EQ);
    return hlo_pass_select(like, single, high, low);
}

// `value` or, if its size along `dim` is one and the result's is not, its first slice repeated. Which of the two
// applies is only known at run time, so both are computed and selected.
static HloInstruction *repeated(const HloInstruction *like, HloInstruction *value, int64_t dim, HloInstruction *own,
                                HloInstruction *size) {
    const HloShape *shape = value->shape;
    const int64_t rank = shape->rank;
    int64_t *starts = hlo_pass_ints(like, rank), *limits = hlo_pass_ints(like, rank),
            *steps = hlo_pass_ints(like, rank);
    int64_t *kept = hlo_pass_ints(like, rank), *map = hlo_pass_ints(like, rank), count = 0;
    for (int64_t d = 0; d < rank; d++) {
        limits[d] = d == dim ? 1 : shape->dims[d];
        steps[d] = 1;
        if (d == dim) continue;
        kept[count] = shape->dims[d];
        map[count++] = d;
    }
    if (shape->dims[dim] == 0) return value;
    HloInstruction *first =
        hlo_pass_slice(like, value, (HloInts){starts, rank}, (HloInts){limits, rank}, (HloInts){steps, rank});
    first = hlo_pass_broadcast(like, hlo_pass_reshape(like, first, (HloInts){kept, count}), hlo_shape_dims(shape),
                               (HloInts){map, count});
    HloInstruction *one = hlo_padder_number(like, 1);
    HloInstruction *single = hlo_pass_compare(like, own, one, HLO_ComparisonDirection_EQ);
    HloInstruction *many = hlo_pass_compare(like, size, one, HLO_ComparisonDirection_GT);
    HloInstruction *serves = hlo_pass_binary(like, HLO_OP_AND, single, many);
    serves = hlo_pass_broadcast(like, serves, hlo_shape_dims(shape), (HloInts){NULL, 0});
    return hlo_pass_select(like, serves, first, value);
}

// Elements beyond the size are arbitrary, also after this op: only ops that combine elements must mask them.
HloStatus hlo_padder_pointwise(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    (void)result;
    if (!hlo_shape_is_array(op->shape)) return hlo_padder_refuse(op, "a choice between tuples");
    const int64_t rank = op->shape->rank;
    HloInstruction **values = hlo_arena_copy(padder->scratch, op->operands, sizeof *values * (size_t)op->operand_count);
    for (int64_t d = 0; d < rank; d++) {
        HloInstruction *size = NULL;
        for (int32_t k = 0; k < op->operand_count; k++) {
            if (op->operands[k]->shape->rank != rank) continue;
            HloInstruction *own = hlo_padder_size(padder, values[k], 0, d);
            if (own) size = size ? meet(op, size, own) : own;
        }
        hlo_padder_set_size(padder, op, 0, d, size);
        for (int32_t k = 0; k < op->operand_count && size; k++) {
            HloInstruction *own =
                op->operands[k]->shape->rank == rank ? hlo_padder_size(padder, values[k], 0, d) : NULL;
            if (own && own != size) hlo_instruction_set_operand(op, k, repeated(op, op->operands[k], d, own, size));
        }
    }
    return HLO_SUCCESS;
}

// ---- operands of the same dimensions

// The smallest size of a dimension among the first `count` operands; NULL if all are static.
static HloInstruction *common_size(const HloPadder *padder, const HloInstruction *op, int64_t count, int64_t dim) {
    HloInstruction *size = NULL;
    for (int64_t k = 0; k < count; k++) {
        HloInstruction *own = hlo_padder_size(padder, op->operands[k], 0, dim);
        if (own && size && own != size) own = hlo_pass_binary(op, HLO_OP_MINIMUM, size, own);
        if (own) size = own;
    }
    return size;
}

// Predicates: true inside the common sizes along `dims`; NULL if those are static.
static HloInstruction *common_inside(const HloPadder *padder, const HloInstruction *op, int64_t count, HloInts dims) {
    HloInstruction *all = NULL;
    for (int64_t i = 0; i < dims.count; i++) {
        HloInstruction *size = common_size(padder, op, count, dims.items[i]);
        if (!size) continue;
        HloInstruction *one = hlo_padder_inside(op, op->operands[0]->shape, dims.items[i], size);
        all = all ? hlo_pass_binary(op, HLO_OP_AND, all, one) : one;
    }
    return all;
}

// `value` inside, the same number elsewhere.
static HloInstruction *fill_outside(const HloInstruction *like, HloInstruction *inside, HloInstruction *value,
                                    HloInstruction *fill) {
    HloInstruction *fills = hlo_pass_broadcast(like, fill, hlo_shape_dims(value->shape), (HloInts){NULL, 0});
    return hlo_pass_select(like, inside, value, fills);
}

// Makes a parameter of a computation under construction.
static HloInstruction *new_parameter(HloComputation *computation, const HloInstruction *like, int64_t number,
                                     const HloShape *shape) {
    const HloParameterAttributes attributes = {.number = number};
    HloInstruction *made = hlo_instruction_new(computation, HLO_OP_PARAMETER, shape, NULL, 0, &attributes, NULL);
    made->metadata = like->metadata;
    return made;
}

// An instruction at which to inline a computation: hlo_pass_inline() inserts copies before it.
static HloInstruction *marker(HloInstruction *parameter) {
    return hlo_pass_tuple(parameter, NULL, 0);
}

// ---- reductions

// The combiner of (valid, x1 … xn) tuples, which ignores elements that are not valid.
static HloComputation *valid_combiner(const HloPadder *padder, const HloInstruction *op, int64_t count) {
    const HloComputation *plain = op->called[0];
    HloComputation *made = hlo_computation_new(padder->module, plain->name);
    HloInstruction **parameters = HLO_ARENA_NEW(padder->scratch, HloInstruction *, 2 * count + 2);
    HloInstruction **arguments = HLO_ARENA_NEW(padder->scratch, HloInstruction *, 2 * count);
    HloInstruction **results = HLO_ARENA_NEW(padder->scratch, HloInstruction *, count + 1);
    for (int64_t side = 0; side < 2; side++) {
        const int64_t first = side * (count + 1);
        parameters[first] = new_parameter(made, op, first, hlo_shape_scalar(padder->module->arena, HLO_PRED));
        for (int64_t v = 0; v < count; v++) {
            const HloInstruction *like = plain->parameters.items[side * count + v];
            arguments[side * count + v] = parameters[first + 1 + v] =
                new_parameter(made, op, first + 1 + v, like->shape);
        }
    }
    HloInstruction *left = parameters[0], *right = parameters[count + 1], *at = marker(left);
    HloInstruction *both = hlo_pass_binary(at, HLO_OP_AND, left, right);
    HloInstruction *combined = hlo_pass_inline(at, plain, arguments, padder->scratch);
    results[0] = hlo_pass_binary(at, HLO_OP_OR, left, right);
    for (int64_t v = 0; v < count; v++) {
        HloInstruction *value = hlo_shape_is_tuple(combined->shape) ? hlo_pass_get(at, combined, v) : combined;
        HloInstruction *own = hlo_pass_select(at, left, arguments[v], arguments[count + v]);
        results[v + 1] = hlo_pass_select(at, both, value, own);
    }
    hlo_computation_set_root(made, hlo_pass_tuple(at, results, count + 1));
    hlo_instruction_remove(at);
    return made;
}

// The reduction with an additional first array, a predicate that is true for valid elements.
static HloInstruction *reduce_valid(const HloPadder *padder, HloInstruction *op, int64_t count,
                                    HloInstruction *inside) {
    HloInstruction **operands = HLO_ARENA_NEW(padder->scratch, HloInstruction *, 2 * count + 2);
    operands[0] = inside;
    operands[count + 1] = hlo_pass_integer(op, HLO_PRED, 1);
    for (int64_t v = 0; v < count; v++) {
        operands[1 + v] = op->operands[v];
        operands[count + 2 + v] = op->operands[count + v];
    }
    HloComputation *combiner = valid_combiner(padder, op, count);
    HloInstruction *made = hlo_pass_make(op, &(HloBuildRequest){.opcode = op->opcode,
                                                                .operands = operands,
                                                                .operand_count = 2 * count + 2,
                                                                .attributes = op->attributes,
                                                                .called = &combiner,
                                                                .called_count = 1});
    if (!hlo_shape_is_tuple(op->shape)) return hlo_pass_get(op, made, 1);
    HloInstruction **parts = HLO_ARENA_NEW(padder->scratch, HloInstruction *, count);
    for (int64_t v = 0; v < count; v++) parts[v] = hlo_pass_get(op, made, 1 + v);
    return hlo_pass_tuple(op, parts, count);
}

// If the reducer has a neutral element, elements beyond the size become that. Any other reducer gets a predicate with
// its values, and combines only valid elements.
HloStatus hlo_padder_reduce(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_REDUCE));
    const HloInts reduced = HLO_ATTRIBUTES(op, Dimensions)->dimensions;
    const int64_t count = op->operand_count / 2, rank = op->operands[0]->shape->rank;
    HloInstruction *inside = common_inside(padder, op, count, reduced);
    HloInstruction **sizes = HLO_ARENA_NEW(padder->scratch, HloInstruction *, rank);
    for (int64_t d = 0; d < rank; d++) sizes[d] = common_size(padder, op, count, d);
    if (inside) {
        const HloOpcode opcode = hlo_computation_binary_opcode(op->called[0]);
        HloInstruction *identity = count == 1 ? hlo_padder_identity(op, opcode, op->operands[0]->shape->type) : NULL;
        if (identity)
            hlo_instruction_set_operand(op, 0, fill_outside(op, inside, op->operands[0], identity));
        else
            *result = reduce_valid(padder, op, count, inside);
    }
    for (int64_t d = 0, to = 0; d < rank; d++) {
        if (hlo_ints_contain(reduced, d)) continue;
        for (int64_t v = 0; v < count; v++) hlo_padder_set_size(padder, *result, v, to, sizes[d]);
        to++;
    }
    return HLO_SUCCESS;
}

// ---- windows

// The number of windows that fit into `size` elements.
static HloInstruction *window_count(const HloInstruction *like, const HloWindowDimension *window, HloInstruction *size,
                                    int64_t most) {
    if (hlo_window_is_element(window)) return size;
    HloInstruction *spaced = size;
    if (window->base_dilation > 1) {
        spaced = hlo_padder_plus(like, size, -1);
        spaced = hlo_pass_binary(like, HLO_OP_MULTIPLY, spaced, hlo_padder_number(like, window->base_dilation));
        spaced = hlo_padder_between(like, hlo_padder_plus(like, spaced, 1), 0, INT32_MAX);
    }
    const int64_t reach = (window->size - 1) * window->window_dilation + 1;
    HloInstruction *room =
        hlo_padder_plus(like, spaced, window->padding_low + window->padding_high - reach + window->stride);
    room = hlo_padder_between(like, room, 0, INT32_MAX);
    if (window->stride > 1) room = hlo_pass_binary(like, HLO_OP_DIVIDE, room, hlo_padder_number(like, window->stride));
    return hlo_padder_between(like, room, 0, most);
}

// Sizes follow from the number of windows that fit. A window omits padding, so surplus elements become the combiner's
// neutral element, or the initial value if none is known.
HloStatus hlo_padder_reduce_window(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_REDUCE_WINDOW));
    (void)result;
    const HloWindow *window = HLO_ATTRIBUTES(op, Window)->window;
    const int64_t count = op->operand_count / 2;
    int64_t *dims = hlo_pass_ints(op, window->count), masked = 0;
    const HloShape *shape = hlo_shape_leaf(op->shape, 0);
    for (int64_t d = 0; d < window->count; d++) {
        HloInstruction *size = common_size(padder, op, count, d);
        if (!size) continue;
        if (!hlo_window_is_element(&window->dims[d])) dims[masked++] = d;
        HloInstruction *windows = window_count(op, &window->dims[d], size, shape->dims[d]);
        for (int64_t v = 0; v < count; v++) hlo_padder_set_size(padder, op, v, d, windows);
    }
    HloInstruction *inside = common_inside(padder, op, count, (HloInts){dims, masked});
    const HloOpcode opcode = hlo_computation_binary_opcode(op->called[0]);
    for (int64_t v = 0; v < count && inside; v++) {
        HloInstruction *fill = count == 1 ? hlo_padder_identity(op, opcode, op->operands[0]->shape->type) : NULL;
        if (!fill) fill = op->operands[count + v];
        hlo_instruction_set_operand(op, v, fill_outside(op, inside, op->operands[v], fill));
    }
    return HLO_SUCCESS;
}

// ---- select-and-scatter: the chosen element's position in each window, and a scatter to these positions

// The combiner of (valid, x, position): of two valid elements, the one that `select` chooses.
static HloComputation *chooser(const HloPadder *padder, const HloInstruction *op) {
    HloArena *arena = padder->module->arena;
    HloComputation *made = hlo_computation_new(padder->module, op->called[0]->name);
    const HloShape *shapes[] = {hlo_shape_scalar(arena, HLO_PRED),
                                hlo_shape_scalar(arena, op->operands[0]->shape->type),
                                hlo_shape_scalar(arena, HLO_S32)};
    HloInstruction *sides[6], *results[3];
    for (int64_t p = 0; p < 6; p++) sides[p] = new_parameter(made, op, p, shapes[p % 3]);
    HloInstruction *at = marker(sides[0]), *values[] = {sides[1], sides[4]};
    HloInstruction *chosen = hlo_pass_inline(at, op->called[0], values, padder->scratch);
    // The left one is kept if it is valid and the right one is invalid or not chosen.
    HloInstruction *missing = hlo_pass_unary(at, HLO_OP_NOT, sides[3]);
    HloInstruction *left = hlo_pass_binary(at, HLO_OP_AND, sides[0], hlo_pass_binary(at, HLO_OP_OR, missing, chosen));
    results[0] = hlo_pass_binary(at, HLO_OP_OR, sides[0], sides[3]);
    for (int64_t v = 1; v < 3; v++) results[v] = hlo_pass_select(at, left, sides[v], sides[v + 3]);
    hlo_computation_set_root(made, hlo_pass_tuple(at, results, 3));
    hlo_instruction_remove(at);
    return made;
}

// The position of each window's chosen element in the flat operand; -1 in windows without elements.
static HloInstruction *chosen_places(const HloPadder *padder, HloInstruction *op) {
    HloInstruction *array = op->operands[0];
    const HloShape *shape = array->shape;
    const int64_t count = hlo_shape_elements(shape);
    HloInstruction *place = hlo_pass_make(op, &(HloBuildRequest){.opcode = HLO_OP_IOTA,
                                                                 .attributes = &(HloIotaAttributes){0},
                                                                 .type = HLO_S32,
                                                                 .dims = HLO_DIMS(count),
                                                                 .has_dims = true});
    HloInstruction *inside = hlo_padder_all_inside(padder, op, array);
    if (!inside) inside = hlo_pass_splat(op, HLO_PRED, hlo_shape_dims(shape), 1);
    HloInstruction *operands[] = {inside,
                                  array,
                                  hlo_pass_reshape(op, place, hlo_shape_dims(shape)),
                                  hlo_pass_integer(op, HLO_PRED, 0),
                                  hlo_pass_scalar(op, shape->type, 0),
                                  hlo_padder_number(op, -1)};
    HloComputation *combiner = chooser(padder, op);
    HloInstruction *windows = hlo_pass_make(op, &(HloBuildRequest){.opcode = HLO_OP_REDUCE_WINDOW,
                                                                   .operands = operands,
                                                                   .operand_count = 6,
                                                                   .attributes = op->attributes,
                                                                   .called = &combiner,
                                                                   .called_count = 1});
    return hlo_pass_get(op, windows, 2);
}

// In static form the op cannot exclude elements from its choice, so it is split: a reduce-window over (valid, value,
// position) finds the position of the chosen element of each window, and a scatter adds the source there. Windows
// without elements choose position -1, whose update a scatter drops.
HloStatus hlo_padder_select_and_scatter(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_SELECT_AND_SCATTER));
    HloInstruction *source = op->operands[1];
    const int64_t count = hlo_shape_elements(op->shape), sources = hlo_shape_elements(source->shape);
    const HloOpcode opcode = hlo_computation_binary_opcode(op->called[1]);
    // Not supported: the order of operands in other computations, and positions above 2^31.
    if (opcode == HLO_OPCODE_COUNT || !hlo_op_is(opcode, HLO_OP_IS_COMMUTES) || count > INT32_MAX)
        return hlo_padder_refuse(op, "an array");
    HloInstruction *places = chosen_places(padder, op);
    HloInstruction *inside = hlo_padder_all_inside(padder, op, source);
    if (inside) places = fill_outside(op, inside, places, hlo_padder_number(op, -1));
    HloInstruction *operands[] = {hlo_pass_broadcast(op, op->operands[2], HLO_DIMS(count), (HloInts){NULL, 0}),
                                  hlo_pass_reshape(op, places, HLO_DIMS(sources, 1)),
                                  hlo_pass_reshape(op, source, HLO_DIMS(sources))};
    const HloScatterAttributes scatter = {
        .inserted_window_dims = HLO_DIMS(0), .scatter_dims_to_operand_dims = HLO_DIMS(0), .index_vector_dim = 1};
    HloInstruction *flat = hlo_pass_make(op, &(HloBuildRequest){.opcode = HLO_OP_SCATTER,
                                                                .operands = operands,
                                                                .operand_count = 3,
                                                                .attributes = &scatter,
                                                                .called = &op->called[1],
                                                                .called_count = 1});
    *result = hlo_pass_reshape(op, flat, hlo_shape_dims(op->shape));
    hlo_padder_copy_sizes(padder, op->operands[0], *result);
    return HLO_SUCCESS;
}

// ---- dots and convolutions

// Writes zeros beyond the size of a contracted dimension, on both sides: the elements there may be infinite.
static void mask_terms(HloPadder *padder, HloInstruction *op, const HloInstruction *const *values, int64_t left,
                       int64_t right) {
    HloInstruction *a = hlo_padder_size(padder, values[0], 0, left), *b = hlo_padder_size(padder, values[1], 0, right);
    if (!a && !b) return;
    HloInstruction *size = a && b && a != b ? hlo_pass_binary(op, HLO_OP_MINIMUM, a, b) : a ? a : b;
    const int64_t dims[] = {left, right};
    for (int64_t k = 0; k < 2; k++) {
        HloInstruction *value = op->operands[k], *zero = hlo_pass_scalar(op, value->shape->type, 0);
        HloInstruction *inside = hlo_padder_inside(op, value->shape, dims[k], size);
        hlo_instruction_set_operand(op, k, fill_outside(op, inside, value, zero));
    }
}

// Sums run over bounds, not sizes, so elements beyond the size must be zero on both sides: zero times infinity would be
// NaN if only one side were.
HloStatus hlo_padder_dot(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_DOT));
    (void)result;
    const HloDotAttributes *dot = HLO_ATTRIBUTES(op, Dot);
    const HloInstruction *values[] = {op->operands[0], op->operands[1]};
    if (op->operand_count != 2) return hlo_padder_refuse(op, "a sparse operand");
    for (int64_t i = 0; i < dot->lhs_contracting.count; i++)
        mask_terms(padder, op, values, dot->lhs_contracting.items[i], dot->rhs_contracting.items[i]);
    int64_t to = 0;
    for (int64_t i = 0; i < dot->lhs_batch.count; i++) {
        HloInstruction *a = hlo_padder_size(padder, values[0], 0, dot->lhs_batch.items[i]);
        HloInstruction *b = hlo_padder_size(padder, values[1], 0, dot->rhs_batch.items[i]);
        hlo_padder_set_size(padder, op, 0, to++,
                            a && b && a != b ? hlo_pass_binary(op, HLO_OP_MINIMUM, a, b)
                            : a              ? a
                                             : b);
    }
    const HloInts batch[] = {dot->lhs_batch, dot->rhs_batch}, terms[] = {dot->lhs_contracting, dot->rhs_contracting};
    for (int64_t k = 0; k < 2; k++)
        for (int64_t d = 0; d < values[k]->shape->rank; d++)
            if (!hlo_ints_contain(batch[k], d) && !hlo_ints_contain(terms[k], d))
                hlo_padder_set_size(padder, op, 0, to++, hlo_padder_size(padder, values[k], 0, d));
    return HLO_SUCCESS;
}

// Supports only forms whose sizes stay simple: groups divide a size, and a divided size need not be whole.
HloStatus hlo_padder_convolution(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_CONVOLUTION));
    (void)result;
    const HloConvolutionAttributes *convolution = HLO_ATTRIBUTES(op, Convolution);
    const HloConvolutionLabels *labels = convolution->labels;
    const HloInstruction *values[] = {op->operands[0], op->operands[1]};
    HloInstruction *batch = hlo_padder_size(padder, values[0], 0, labels->input_batch);
    if (batch && convolution->batch_group_count > 1) return hlo_padder_refuse(op, "batch groups");
    const bool groups = convolution->feature_group_count > 1 || convolution->batch_group_count > 1;
    if (groups && (hlo_padder_size(padder, values[0], 0, labels->input_feature) ||
                   hlo_padder_size(padder, values[1], 0, labels->kernel_input_feature) ||
                   hlo_padder_size(padder, values[1], 0, labels->kernel_output_feature)))
        return hlo_padder_refuse(op, "feature groups");
    mask_terms(padder, op, values, labels->input_feature, labels->kernel_input_feature);
    for (int64_t i = 0; i < labels->input_spatial.count; i++) {
        const int64_t dim = labels->input_spatial.items[i], to = labels->output_spatial.items[i];
        if (hlo_padder_size(padder, values[1], 0, labels->kernel_spatial.items[i]))
            return hlo_padder_refuse(op, "a window");
        HloInstruction *size = hlo_padder_size(padder, values[0], 0, dim);
        if (!size) continue;
        HloInstruction *input = op->operands[0], *inside = hlo_padder_inside(op, input->shape, dim, size);
        hlo_instruction_set_operand(op, 0, fill_outside(op, inside, input, hlo_pass_scalar(op, input->shape->type, 0)));
        hlo_padder_set_size(padder, op, 0, to,
                            window_count(op, &convolution->window->dims[i], size, op->shape->dims[to]));
    }
    hlo_padder_set_size(padder, op, 0, labels->output_batch, batch);
    hlo_padder_set_size(padder, op, 0, labels->output_feature,
                        hlo_padder_size(padder, values[1], 0, labels->kernel_output_feature));
    return HLO_SUCCESS;
}

// ---- sorts

// The comparator of (x1 … xn, valid): invalid elements come last.
static HloComputation *valid_comparator(const HloPadder *padder, const HloInstruction *op, int64_t count) {
    const HloComputation *plain = op->called[0];
    HloComputation *made = hlo_computation_new(padder->module, plain->name);
    HloInstruction **arguments = HLO_ARENA_NEW(padder->scratch, HloInstruction *, 2 * count);
    for (int64_t p = 0; p < 2 * count; p++)
        arguments[p] = new_parameter(made, op, p, plain->parameters.items[p]->shape);
    const HloShape *truth = hlo_shape_scalar(padder->module->arena, HLO_PRED);
    HloInstruction *left = new_parameter(made, op, 2 * count, truth);
    HloInstruction *right = new_parameter(made, op, 2 * count + 1, truth), *at = marker(left);
    HloInstruction *before = hlo_pass_inline(at, plain, arguments, padder->scratch);
    HloInstruction *first = hlo_pass_binary(at, HLO_OP_OR, hlo_pass_unary(at, HLO_OP_NOT, right), before);
    hlo_computation_set_root(made, hlo_pass_binary(at, HLO_OP_AND, left, first));
    hlo_instruction_remove(at);
    return made;
}

// A predicate for valid elements becomes the last operand, and the comparator checks it first: surplus elements come
// after all others, whatever the user's comparator returns for them.
HloStatus hlo_padder_sort(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_SORT));
    const HloInts along = HLO_ATTRIBUTES(op, Sort)->dimensions;
    const int64_t count = op->operand_count, rank = op->operands[0]->shape->rank;
    HloInstruction *inside = common_inside(padder, op, count, along);
    if (inside) {
        HloInstruction **operands = HLO_ARENA_NEW(padder->scratch, HloInstruction *, count + 1);
        for (int64_t k = 0; k < count; k++) operands[k] = op->operands[k];
        operands[count] = inside;
        HloComputation *comparator = valid_comparator(padder, op, count);
        HloInstruction *sorted = hlo_pass_make(op, &(HloBuildRequest){.opcode = HLO_OP_SORT,
                                                                      .operands = operands,
                                                                      .operand_count = count + 1,
                                                                      .attributes = op->attributes,
                                                                      .called = &comparator,
                                                                      .called_count = 1});
        for (int64_t k = 0; k < count; k++) operands[k] = hlo_pass_get(op, sorted, k);
        *result = hlo_shape_is_tuple(op->shape) ? hlo_pass_tuple(op, operands, count) : operands[0];
    }
    for (int64_t d = 0; d < rank; d++) {
        HloInstruction *size = common_size(padder, op, count, d);
        for (int64_t k = 0; k < count; k++) hlo_padder_set_size(padder, *result, k, d, size);
    }
    return HLO_SUCCESS;
}

// Surplus elements become the value that comes last in the order of the op. If there are fewer than k elements, filler
// remains among the first k: the op's result is static, as in XLA.
HloStatus hlo_padder_topk(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_TOPK));
    (void)result;
    const HloInstruction *rows = op->operands[0];
    const HloShape *shape = rows->shape;
    const bool largest = HLO_ATTRIBUTES(op, TopK)->largest;
    const int64_t last = shape->rank - 1;
    if (hlo_padder_size(padder, op->operands[0], 0, last)) {
        if (hlo_type_is_float(shape->type) && hlo_type_info(shape->type)->bits < 16)
            return hlo_padder_refuse(op, "a row of narrow floating-point numbers");
        HloLiteral *fill =
            hlo_literal_in_arena(padder->module->arena, hlo_shape_scalar(padder->module->arena, shape->type));
        HloInstruction *least = hlo_padder_identity(op, largest ? HLO_OP_MAXIMUM : HLO_OP_MINIMUM, shape->type);
        if (hlo_type_is_float(shape->type)) {  // the total order ends with NaNs with all bits set
            memset(fill->data, 0xff, (size_t)hlo_shape_bytes(fill->shape));
            if (!largest) ((unsigned char *)fill->data)[hlo_shape_bytes(fill->shape) - 1] = 0x7f;
            least = hlo_pass_make(
                op, &(HloBuildRequest){.opcode = HLO_OP_CONSTANT, .attributes = &(HloConstantAttributes){fill}});
        }
        hlo_instruction_set_operand(op, 0, hlo_padder_masked(padder, op, op->operands[0], (HloInts){&last, 1}, least));
    }
    for (int64_t leaf = 0; leaf < 2; leaf++)
        for (int64_t d = 0; d < last; d++)
            hlo_padder_set_size(padder, op, leaf, d, hlo_padder_size(padder, rows, 0, d));
    return HLO_SUCCESS;
}

// ---- scatters

// Predicates of the dims of the indices, true for index vectors whose update is within the size; or NULL.
static HloInstruction *indices_inside(const HloPadder *padder, const HloInstruction *op) {
    const HloScatterAttributes *scatter = HLO_ATTRIBUTES(op, Scatter);
    const int64_t arrays = (op->operand_count - 1) / 2;
    const HloInstruction *indices = op->operands[arrays], *update = op->operands[arrays + 1];
    HloInstruction *all = hlo_padder_all_inside(padder, op, indices);
    int64_t batch = 0;
    for (int64_t d = 0; d < update->shape->rank; d++) {
        if (hlo_ints_contain(scatter->update_window_dims, d)) continue;
        if (batch == scatter->index_vector_dim) batch++;
        HloInstruction *size = hlo_padder_size(padder, update, 0, d);
        HloInstruction *own = hlo_padder_size(padder, indices, 0, batch);
        if (size && size != own) {
            HloInstruction *one = hlo_padder_inside(op, indices->shape, batch, size);
            all = all ? hlo_pass_binary(op, HLO_OP_AND, all, one) : one;
        }
        batch++;
    }
    return all;
}

// An empty index vector puts all updates at the beginning of the array. An explicit index of 0, along any dimension
// that can have one, can then be changed to drop some of them. False if no dimension can have one.
static bool give_an_index(HloPadder *padder, HloInstruction *op) {
    HloArena *arena = padder->module->arena;
    HloScatterAttributes attributes = *HLO_ATTRIBUTES(op, Scatter);
    const int64_t arrays = (op->operand_count - 1) / 2;
    assert(attributes.scatter_dims_to_operand_dims.count == 0);
    int64_t along = 0;
    while (hlo_ints_contain(attributes.input_batching_dims, along)) along++;
    if (along >= op->operands[0]->shape->rank) return false;
    const HloInstruction *none = op->operands[arrays];
    const HloInts dims = hlo_ints(arena, none->shape->dims, none->shape->rank);
    int64_t *with_one = HLO_ARENA_NEW(arena, int64_t, dims.count);
    for (int64_t d = 0; d < dims.count; d++) with_one[d] = d == attributes.index_vector_dim ? 1 : dims.items[d];
    HloInstruction *indices = hlo_pass_splat(op, HLO_S32, (HloInts){with_one, dims.count}, 0);
    for (int64_t d = 0; d < dims.count; d++)
        hlo_padder_set_size(padder, indices, 0, d, hlo_padder_size(padder, none, 0, d));
    attributes.scatter_dims_to_operand_dims = hlo_ints(arena, &along, 1);
    hlo_instruction_set_attributes(op, &attributes);
    hlo_instruction_set_operand(op, arrays, indices);
    return true;
}

// Updates beyond the size are sent outside of the array. Surplus elements inside a window cannot be: they must become a
// value that changes nothing, so the combiner must have a neutral element.
HloStatus hlo_padder_scatter(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_SCATTER));
    (void)result;
    const int64_t arrays = (op->operand_count - 1) / 2;
    HloInstruction *inside = indices_inside(padder, op);
    if (inside && HLO_ATTRIBUTES(op, Scatter)->scatter_dims_to_operand_dims.count == 0) {
        if (!give_an_index(padder, op)) return hlo_padder_refuse(op, "a list of scalar updates");
        inside = indices_inside(padder, op);
    }
    const HloScatterAttributes *scatter = HLO_ATTRIBUTES(op, Scatter);
    for (int64_t v = 0; v < arrays; v++) {
        const HloInstruction *array = op->operands[v];
        for (int64_t d = 0; d < array->shape->rank; d++)
            hlo_padder_set_size(padder, op, v, d, hlo_padder_size(padder, array, 0, d));
        HloInstruction *update = op->operands[arrays + 1 + v];
        HloInstruction *fill = NULL;
        for (int64_t i = 0; i < scatter->update_window_dims.count; i++) {
            if (!hlo_padder_size(padder, update, 0, scatter->update_window_dims.items[i])) continue;
            if (!fill && arrays == 1)
                fill = hlo_padder_identity(op, hlo_computation_binary_opcode(op->called[0]), update->shape->type);
            if (!fill) return hlo_padder_refuse(op, "a window");
        }
        if (fill)
            hlo_instruction_set_operand(op, arrays + 1 + v,
                                        hlo_padder_masked(padder, op, update, scatter->update_window_dims, fill));
    }
    if (!inside) return HLO_SUCCESS;
    // Negative indices are outside of every array: their updates are dropped.
    HloInstruction *indices = op->operands[arrays];
    if (hlo_type_kind(indices->shape->type) != HLO_KIND_SIGNED) indices = hlo_pass_convert(op, indices, HLO_S64);
    HloInstruction *nowhere = hlo_pass_integer(op, indices->shape->type, -1);
    hlo_instruction_set_operand(op, arrays, fill_outside(op, inside, indices, nowhere));
    return HLO_SUCCESS;
}

// ---- batches of independent problems

// Keeps the sizes of the dimensions before the last `own`.
static void keep_batch_sizes(HloPadder *padder, HloInstruction *op, int64_t own) {
    for (int64_t d = 0; d < op->shape->rank - own; d++)
        hlo_padder_set_size(padder, op, 0, d, common_size(padder, op, op->operand_count, d));
}

// The number of transforms in a batch may vary; a transform of another length is a different one. XLA has no program of
// the latter kind.
HloStatus hlo_padder_fft(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_FFT));
    (void)result;
    const int64_t own = HLO_ATTRIBUTES(op, Fft)->length.count;
    for (int64_t d = op->shape->rank - own; d < op->shape->rank; d++)
        if (hlo_padder_size(padder, op->operands[0], 0, d)) return hlo_padder_refuse(op, "a transform");
    keep_batch_sizes(padder, op, own);
    return HLO_SUCCESS;
}

// The square matrices of an operand, extended by rows and columns of the identity beyond `size`: the Cholesky factor
// of an extended matrix, or the solution of its equations, is that of the smaller one, extended in the same way.
static HloInstruction *continued(HloInstruction *op, HloInstruction *matrix, HloInstruction *size) {
    const HloShape *shape = matrix->shape;
    HloInstruction *inside[2], *places[2];
    for (int k = 0; k < 2; k++) {
        inside[k] = hlo_padder_inside(op, shape, shape->rank - 2 + k, size);
        places[k] = hlo_padder_places(op, shape, shape->rank - 2 + k);
    }
    HloInstruction *diagonal = hlo_pass_compare(op, places[0], places[1], HLO_ComparisonDirection_EQ);
    HloInstruction *identity = hlo_pass_select(op, diagonal, hlo_pass_splat(op, shape->type, hlo_shape_dims(shape), 1),
                                               hlo_pass_splat(op, shape->type, hlo_shape_dims(shape), 0));
    return hlo_pass_select(op, hlo_pass_binary(op, HLO_OP_AND, inside[0], inside[1]), matrix, identity);
}

// The size of an operand's square matrices, rows and columns; NULL if it is static.
static HloInstruction *matrix_size(const HloPadder *padder, const HloInstruction *op, int64_t operand) {
    const HloInstruction *matrix = op->operands[operand];
    HloInstruction *rows = hlo_padder_size(padder, matrix, 0, matrix->shape->rank - 2),
                   *columns = hlo_padder_size(padder, matrix, 0, matrix->shape->rank - 1);
    return rows && columns && rows != columns ? hlo_pass_binary(op, HLO_OP_MINIMUM, rows, columns)
           : rows                             ? rows
                                              : columns;
}

HloStatus hlo_padder_cholesky(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_CHOLESKY));
    (void)result;
    HloInstruction *size = matrix_size(padder, op, 0);
    const HloInstruction *matrix = op->operands[0];
    keep_batch_sizes(padder, op, 2);
    for (int64_t d = matrix->shape->rank - 2; d < matrix->shape->rank; d++)
        hlo_padder_set_size(padder, op, 0, d, hlo_padder_size(padder, matrix, 0, d));
    if (size) hlo_instruction_set_operand(op, 0, continued(op, op->operands[0], size));
    return HLO_SUCCESS;
}

// Rows of the right side beyond the matrix become zeros, which are then solutions of the identity's equations.
HloStatus hlo_padder_triangular_solve(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_TRIANGULAR_SOLVE));
    (void)result;
    HloInstruction *matrix = op->operands[0], *side = op->operands[1];
    const int64_t rank = side->shape->rank, solved = rank - 1 - HLO_ATTRIBUTES(op, TriangularSolve)->left_side;
    HloInstruction *size = matrix_size(padder, op, 0);
    if (!size) size = hlo_padder_size(padder, side, 0, solved);
    keep_batch_sizes(padder, op, 2);
    for (int64_t d = rank - 2; d < rank; d++)
        hlo_padder_set_size(padder, op, 0, d, hlo_padder_size(padder, side, 0, d));
    if (!size) return HLO_SUCCESS;
    hlo_instruction_set_operand(op, 0, continued(op, matrix, size));
    HloInstruction *inside = hlo_padder_inside(op, side->shape, solved, size);
    hlo_instruction_set_operand(op, 1, fill_outside(op, inside, side, hlo_pass_scalar(op, side->shape->type, 0)));
    return HLO_SUCCESS;
}
