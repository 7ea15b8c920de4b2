// SPDX-License-Identifier: Apache-2.0
// Expands reductions over the dimension of a stack, a concatenation of a few slices of size 1, to operations on these:
//
//     s = concatenate(f32[512,1] x, f32[512,1] y), dimensions={1}
//     reduce(s, 0), dimensions={1}, to_apply=add     ->     0 + x + y, of f32[512]
//
// in the order of the reduction, so that results have the same bits. A target that fuses loops then neither writes the
// stack nor reads it again. JAX writes stacks where NumPy would: in `select` and `piecewise`, the number of the first
// true predicate is the argmax of their stack, or of its cumulative sums, with numbers from an iota beside it; in norms
// of stacked components, sums over them. Sums of floats that are narrower than 32 bits stay, as targets add them in a
// wider type.
#include "hlo/base/map.h"
#include "hlo/pass/support.h"

enum {
    kMostSlices = 8,         // of a stack
    kMostInstructions = 32,  // of the computation that combines two slices
    kMostLevels = 6          // of operations between a stack and its reduction
};

static HloInts dimensions_of(const HloInstruction *i) {
    return HLO_ATTRIBUTES(i, Dimensions)->dimensions;
}

// ---- what has slices

static bool is_stack(const HloInstruction *x, int64_t dim) {
    if (x->opcode != HLO_OP_CONCATENATE || dimensions_of(x).items[0] != dim) return false;
    for (int32_t o = 0; o < x->operand_count; o++)
        if (x->operands[o]->shape->dims[dim] != 1) return false;
    return true;
}

// Whether element i along the dimension combines elements 0 to i, as in a cumulative sum. Of integers, which are
// combined in any order.
static bool is_cumulative(const HloInstruction *x, int64_t dim) {
    if (x->opcode != HLO_OP_REDUCE_WINDOW || x->operand_count != 2 || !hlo_type_is_integer(x->shape->type))
        return false;
    const HloWindow *window = HLO_ATTRIBUTES(x, Window)->window;
    const HloOpcode opcode = hlo_computation_binary_opcode(x->called[0]);
    const int64_t size = x->shape->dims[dim];
    if (opcode != HLO_OP_ADD && opcode != HLO_OP_MAXIMUM && opcode != HLO_OP_MINIMUM) return false;
    for (int64_t d = 0; d < window->count; d++) {
        const HloWindowDimension *w = &window->dims[d];
        const bool whole = w->size == size && w->padding_low == size - 1 && w->padding_high == 0 && w->stride == 1 &&
                           w->base_dilation == 1 && w->window_dilation == 1 && !w->reversal;
        if (d == dim ? !whole : !hlo_window_is_element(w)) return false;
    }
    return true;
}

// The dimension of a broadcast's operand that becomes `dim`; -1 if none does.
static int64_t source_of(const HloInstruction *broadcast, int64_t dim) {
    const HloInts mapping = dimensions_of(broadcast);
    for (int64_t d = 0; d < mapping.count; d++)
        if (mapping.items[d] == dim) return d;
    return -1;
}

static bool is_inner(const HloInstruction *x) {
    return x->users.count == 1 && hlo_pass_may_replace(x);
}

// Whether slices of x along the dimension are other values, or made of them; *stacks counts the stacks among these.
static bool has_slices(const HloInstruction *x, int64_t dim, int level, int *stacks) {
    if (level == kMostLevels || hlo_shape_is_dynamic(x->shape)) return false;
    if (is_stack(x, dim)) {
        ++*stacks;
        return true;
    }
    if (x->opcode == HLO_OP_IOTA) return HLO_ATTRIBUTES(x, Iota)->dimension == dim;
    if (x->opcode == HLO_OP_BROADCAST) {
        const int64_t source = source_of(x, dim);
        return source < 0 || has_slices(x->operands[0], source, level + 1, stacks);
    }
    if (!is_inner(x)) return false;
    if (is_cumulative(x, dim)) return has_slices(x->operands[0], dim, level + 1, stacks);
    if (!hlo_op_is(x->opcode, HLO_OP_IS_ELEMENTWISE) || x->called_count) return false;
    for (int32_t o = 0; o < x->operand_count; o++)
        if (!hlo_same_dims(x->operands[o]->shape, x->shape) || !has_slices(x->operands[o], dim, level + 1, stacks))
            return false;
    return true;
}

// ---- slices and what combines them. Values that are equal everywhere stay scalars as long as possible.

static HloInts without(const HloInstruction *like, HloInts dims, int64_t dim) {
    int64_t *kept = hlo_pass_ints(like, dims.count), count = 0;
    for (int64_t d = 0; d < dims.count; d++)
        if (d != dim) kept[count++] = dims.items[d];
    return (HloInts){kept, count};
}

// Makes the op on values of which some may be scalars: on scalars if all are, else on arrays of `dims`.
static HloInstruction *apply(const HloInstruction *like, const HloInstruction *op, HloInstruction **operands,
                             HloInts dims) {
    bool arrays = false;
    for (int32_t o = 0; o < op->operand_count; o++) arrays |= operands[o]->shape->rank > 0;
    for (int32_t o = 0; arrays && o < op->operand_count; o++)
        if (operands[o]->shape->rank == 0)
            operands[o] = hlo_pass_broadcast(like, operands[o], dims, (HloInts){NULL, 0});
    return hlo_pass_make(like, &(HloBuildRequest){.opcode = op->opcode,
                                                  .operands = operands,
                                                  .operand_count = op->operand_count,
                                                  .attributes = op->attributes,
                                                  .type = op->shape->type});
}

// Combines `arguments`, accumulated values before those of the next slice, by the computation: its results come in
// place of the accumulated values, of which there are `count`.
static void combine(const HloInstruction *like, const HloComputation *by, HloInstruction **arguments, int64_t count,
                    HloInts dims, HloArena *scratch) {
    int64_t steps;
    HloInstruction **order = hlo_computation_post_order(by, scratch, &steps);
    HloIntMap values = {0};
    for (int64_t s = 0; s < steps; s++) {
        HloInstruction *i = order[s], *value;
        if (i->opcode == HLO_OP_TUPLE) break;  // the root
        if (i->opcode == HLO_OP_PARAMETER) {
            value = arguments[hlo_parameter_number(i)];
        } else {
            HloInstruction **operands = HLO_ARENA_NEW(scratch, HloInstruction *, i->operand_count + 1);
            for (int32_t o = 0; o < i->operand_count; o++)
                operands[o] = (HloInstruction *)(uintptr_t)*hlo_int_map_find(&values, (uint64_t)i->operands[o]->id);
            value = i->opcode == HLO_OP_CONSTANT ? hlo_instruction_clone(like->parent, i, i->shape, NULL, 0)
                                                 : apply(like, i, operands, dims);
        }
        hlo_int_map_set(scratch, &values, (uint64_t)i->id, (int64_t)(uintptr_t)value);
    }
    const bool several = by->root->opcode == HLO_OP_TUPLE;
    for (int64_t r = 0; r < count; r++) {
        const HloInstruction *result = several ? by->root->operands[r] : by->root;
        arguments[r] = (HloInstruction *)(uintptr_t)*hlo_int_map_find(&values, (uint64_t)result->id);
    }
}

// Returns slice number `at` of x along the dimension, without that dimension, or as a scalar that all its elements
// equal.
static HloInstruction *slice_of(const HloInstruction *like, HloInstruction *x, int64_t dim, int64_t at,
                                HloArena *scratch) {
    const HloInts dims = without(like, hlo_shape_dims(x->shape), dim);
    if (is_stack(x, dim)) return hlo_pass_reshape(like, x->operands[at], dims);
    if (x->opcode == HLO_OP_IOTA) return hlo_pass_scalar(like, x->shape->type, (double)at);
    if (x->opcode == HLO_OP_BROADCAST) {
        const int64_t source = source_of(x, dim);
        HloInstruction *inner = x->operands[0];
        if (source >= 0) inner = slice_of(like, inner, source, at, scratch);
        if (inner->shape->rank == 0) return inner;
        const HloInts mapping = dimensions_of(x);
        int64_t *kept = hlo_pass_ints(like, mapping.count), count = 0;
        for (int64_t d = 0; d < mapping.count; d++)
            if (d != source) kept[count++] = mapping.items[d] - (mapping.items[d] > dim);
        return hlo_pass_broadcast(like, inner, dims, (HloInts){kept, count});
    }
    if (x->opcode == HLO_OP_REDUCE_WINDOW) {
        HloInstruction *values[2] = {x->operands[1]};
        for (int64_t k = 0; k <= at; k++) {
            values[1] = slice_of(like, x->operands[0], dim, k, scratch);
            combine(like, x->called[0], values, 1, dims, scratch);
        }
        return values[0];
    }
    HloInstruction **operands = HLO_ARENA_NEW(scratch, HloInstruction *, x->operand_count + 1);
    for (int32_t o = 0; o < x->operand_count; o++) operands[o] = slice_of(like, x->operands[o], dim, at, scratch);
    return apply(like, x, operands, dims);
}

// ---- reductions

static bool is_plain(const HloComputation *computation, int64_t results) {
    if (computation->instruction_count > kMostInstructions) return false;
    const HloInstruction *root = computation->root;
    if ((root->opcode == HLO_OP_TUPLE) != (results > 1)) return false;
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        if (i->opcode == HLO_OP_TUPLE && i == root) continue;
        if (i->opcode == HLO_OP_PARAMETER && !i->shape->rank) continue;
        if (i->shape->rank || !hlo_pass_may_replace(i) || i->called_count) return false;
        if (i->opcode != HLO_OP_CONSTANT && !hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE)) return false;
    }
    return true;
}

static bool adds_in_wider_type(const HloInstruction *x) {
    return hlo_type_is_float(x->shape->type) && hlo_type_info(x->shape->type)->bits < 32;
}

bool hlo_is_reduction_of_stacks(const HloInstruction *i) {
    if (i->opcode != HLO_OP_REDUCE || dimensions_of(i).count != 1 || !hlo_pass_may_replace(i)) return false;
    const int64_t inputs = i->operand_count / 2, dim = dimensions_of(i).items[0];
    const int64_t size = i->operands[0]->shape->dims[dim];
    int stacks = 0;
    if (size < 2 || size > kMostSlices || !is_plain(i->called[0], inputs)) return false;
    for (int64_t k = 0; k < inputs; k++)
        if (adds_in_wider_type(i->operands[k]) || !has_slices(i->operands[k], dim, 0, &stacks)) return false;
    return stacks > 0;
}

static bool expand(HloInstruction *reduce, const HloPassEnv *env) {
    if (!hlo_is_reduction_of_stacks(reduce)) return false;
    const int64_t dim = dimensions_of(reduce).items[0];
    const int64_t count = reduce->operand_count / 2, size = reduce->operands[0]->shape->dims[dim];
    const HloInts dims = without(reduce, hlo_shape_dims(reduce->operands[0]->shape), dim);
    HloInstruction **values = HLO_ARENA_NEW(env->scratch, HloInstruction *, 2 * count);
    for (int64_t k = 0; k < count; k++) values[k] = reduce->operands[count + k];
    for (int64_t at = 0; at < size; at++) {
        for (int64_t k = 0; k < count; k++)
            values[count + k] = slice_of(reduce, reduce->operands[k], dim, at, env->scratch);
        combine(reduce, reduce->called[0], values, count, dims, env->scratch);
    }
    for (int64_t k = 0; k < count; k++)
        if (values[k]->shape->rank < dims.count)
            values[k] = hlo_pass_broadcast(reduce, values[k], dims, (HloInts){NULL, 0});
    return hlo_pass_replace(reduce, count == 1 ? values[0] : hlo_pass_tuple(reduce, values, count));
}

HloStatus hlo_pass_stack_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    return hlo_pass_each(module, env, expand, changed);
}
