// SPDX-License-Identifier: Apache-2.0
// Rules for reductions, dots, maps, sorts, collectives and tuples.
//
// Reductions are rewritten only if their order does not affect the result: minima, maxima, bits and integer sums. A sum
// of floats in another order has a different result, so those rules do not apply to floats. Initial values must be
// neutral if a rule changes how often one is included.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/pass/simplify/simplify.h"

// True if `value` changes nothing under `opcode`, for every element and with the same bits.
static bool is_neutral(HloOpcode opcode, const HloInstruction *value) {
    HloType type = value->shape->type;
    bool is_float = hlo_type_is_float(type), exact = hlo_type_is_integer(type) || type == HLO_PRED;
    bool infinite = type == HLO_F16 || type == HLO_BF16 || type == HLO_F32 || type == HLO_F64;
    switch (opcode) {
        case HLO_OP_ADD: return is_float ? hlo_pass_is_all(value, -0.0) : exact && hlo_pass_is_all(value, 0);
        case HLO_OP_MULTIPLY: return (is_float || exact) && hlo_pass_is_all(value, 1);
        case HLO_OP_OR:
        case HLO_OP_XOR: return hlo_pass_is_all(value, 0);
        case HLO_OP_AND: return hlo_pass_is_all_ones(value);
        case HLO_OP_MAXIMUM: return infinite && hlo_pass_is_all(value, -(double)INFINITY);
        case HLO_OP_MINIMUM: return infinite && hlo_pass_is_all(value, (double)INFINITY);
        default: return false;
    }
}

// True if the order of the reduced elements does not affect the bits of the result.
static bool is_order_free(HloOpcode opcode, HloType type) {
    switch (opcode) {
        case HLO_OP_MAXIMUM:
        case HLO_OP_MINIMUM:
        case HLO_OP_AND:
        case HLO_OP_OR:
        case HLO_OP_XOR: return true;
        case HLO_OP_ADD:
        case HLO_OP_MULTIPLY: return hlo_type_is_integer(type) || type == HLO_PRED;
        default: return false;
    }
}

// The one op that the called computation applies, or HLO_OPCODE_COUNT if it is more than that.
static HloOpcode reducer_of(const HloInstruction *i) {
    return i->called_count == 1 ? hlo_computation_binary_opcode(i->called[0]) : HLO_OPCODE_COUNT;
}

// What a reduction to elements of one each makes of `x`, its elements: themselves where the initial value is neutral,
// else one operation with it. NULL where the reducer is more than one operation.
static HloInstruction *reduced_once(const HloInstruction *i, HloInstruction *x) {
    const HloOpcode opcode = reducer_of(i);
    if (opcode == HLO_OPCODE_COUNT || i->operand_count != 2) return NULL;
    HloInstruction *initial = i->operands[1];
    const HloType type = i->shape->type;
    if (x->shape->type != type || initial->shape->type != type || i->called[0]->root->shape->type != type) return NULL;
    const bool is_neutral_value = is_neutral(opcode, initial);
    if (!hlo_same_dims(x->shape, i->shape)) x = hlo_pass_reshape(i, x, hlo_shape_dims(i->shape));
    if (is_neutral_value) return x;
    if (i->shape->rank) initial = hlo_pass_broadcast(i, initial, hlo_shape_dims(i->shape), (HloInts){NULL, 0});
    return hlo_pass_binary(i, opcode, initial, x);
}

// A reduction of one array whose reduced dimensions all have size 1.
static HloInstruction *reduce_nothing(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REDUCE));
    HloInts dimensions = HLO_ATTRIBUTES(i, Dimensions)->dimensions;
    if (i->operand_count != 2) return NULL;
    for (int64_t d = 0; d < dimensions.count; d++) {
        if (i->operands[0]->shape->dims[dimensions.items[d]] != 1) return NULL;
    }
    return reduced_once(i, i->operands[0]);
}

// A reduction of no elements is the initial value.
static HloInstruction *reduce_of_empty(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REDUCE));
    HloInstruction *initial = i->operands[1];
    if (i->operand_count != 2 || hlo_shape_elements(i->operands[0]->shape) != 0) return NULL;
    if (initial->shape->type != i->shape->type) return NULL;
    return i->shape->rank == 0 ? initial : hlo_pass_broadcast(i, initial, hlo_shape_dims(i->shape), (HloInts){NULL, 0});
}

// The reduction `i` of another array, over other dimensions.
static HloInstruction *reduced_over(const HloInstruction *i, HloInstruction *x, HloInts dimensions) {
    assert(hlo_is(i, HLO_OP_REDUCE) && i->operand_count == 2 && i->called_count == 1);
    HloInstruction *operands[] = {x, i->operands[1]};
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_REDUCE,
                                               .operands = operands,
                                               .operand_count = 2,
                                               .attributes = &(HloDimensionsAttributes){dimensions},
                                               .called = i->called,
                                               .called_count = 1});
}

// Reducing a transposed array reduces other dimensions of the array, if the kept dimensions stay in order; for sums of
// floats the reduced ones must stay in order too.
static HloInstruction *reduce_of_transpose(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REDUCE));
    HloInstruction *x = i->operands[0];
    if (i->operand_count != 2 || x->opcode != HLO_OP_TRANSPOSE) return NULL;
    HloInts reduced = HLO_ATTRIBUTES(i, Dimensions)->dimensions;
    HloInts permutation = HLO_ATTRIBUTES(x, Dimensions)->dimensions;
    int64_t last[2] = {-1, -1};  // of the kept dimensions, and of the reduced ones
    bool same_order = true;
    for (int64_t d = 0; d < permutation.count; d++) {
        const bool is_reduced = hlo_ints_contain(reduced, d);
        if (permutation.items[d] < last[is_reduced] && !is_reduced) return NULL;
        if (permutation.items[d] < last[is_reduced]) same_order = false;
        last[is_reduced] = permutation.items[d];
    }
    if (!same_order && !is_order_free(reducer_of(i), i->shape->type)) return NULL;
    int64_t *dimensions = hlo_pass_ints(i, reduced.count), count = 0;
    for (int64_t d = 0; d < permutation.count; d++) {
        bool is_reduced = false;
        for (int64_t r = 0; r < reduced.count; r++) is_reduced |= permutation.items[reduced.items[r]] == d;
        if (is_reduced) dimensions[count++] = d;
    }
    return reduced_over(i, x->operands[0], (HloInts){dimensions, count});
}

// A reduction over windows of one element, without padding and gaps.
static HloInstruction *window_of_one(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REDUCE_WINDOW));
    const HloWindow *window = HLO_ATTRIBUTES(i, Window)->window;
    if (i->operand_count != 2 || !window) return NULL;
    for (int64_t d = 0; d < window->count; d++) {
        const HloWindowDimension *w = &window->dims[d];
        if (w->size != 1 || w->stride != 1 || w->padding_low || w->padding_high || w->base_dilation != 1) return NULL;
    }
    return reduced_once(i, i->operands[0]);
}

// A dot over no terms is zero.
static HloInstruction *dot_of_nothing(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DOT));
    const HloDotAttributes *dot = HLO_ATTRIBUTES(i, Dot);
    for (int64_t d = 0; d < dot->lhs_contracting.count; d++) {
        if (i->operands[0]->shape->dims[dot->lhs_contracting.items[d]] == 0) {
            return hlo_pass_splat(i, i->shape->type, hlo_shape_dims(i->shape), 0);
        }
    }
    return NULL;
}

// The numbers of `dimensions` before a transpose.
static HloInts before_transpose(const HloInstruction *i, HloInts dimensions, HloInts permutation) {
    int64_t *before = hlo_pass_ints(i, dimensions.count);
    for (int64_t d = 0; d < dimensions.count; d++) before[d] = permutation.items[dimensions.items[d]];
    return (HloInts){before, dimensions.count};
}

// True if the free dimensions of a side have the same order before its transpose as after it.
static bool keeps_free_order(const HloInstruction *transpose, HloInts batch, HloInts contracting) {
    HloInts permutation = HLO_ATTRIBUTES(transpose, Dimensions)->dimensions;
    int64_t last = -1;
    for (int64_t d = 0; d < permutation.count; d++) {
        if (hlo_ints_contain(batch, d) || hlo_ints_contain(contracting, d)) continue;
        if (permutation.items[d] < last) return false;
        last = permutation.items[d];
    }
    return true;
}

// A dot reads transposed operands directly, through other dimension numbers.
static HloInstruction *dot_of_transpose(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DOT));
    HloDotAttributes dot = *HLO_ATTRIBUTES(i, Dot);
    HloInstruction *operands[] = {i->operands[0], i->operands[1]};
    HloInts *batch[] = {&dot.lhs_batch, &dot.rhs_batch}, *contracting[] = {&dot.lhs_contracting, &dot.rhs_contracting};
    bool changed = false;
    for (int k = 0; k < 2; k++) {
        HloInstruction *side = operands[k];
        if (side->opcode != HLO_OP_TRANSPOSE || !keeps_free_order(side, *batch[k], *contracting[k])) continue;
        HloInts permutation = HLO_ATTRIBUTES(side, Dimensions)->dimensions;
        *batch[k] = before_transpose(i, *batch[k], permutation);
        *contracting[k] = before_transpose(i, *contracting[k], permutation);
        operands[k] = side->operands[0];
        changed = true;
    }
    if (!changed) return NULL;
    HloInstruction *product = hlo_pass_make(
        i, &(HloBuildRequest){
               .opcode = HLO_OP_DOT, .operands = operands, .operand_count = 2, .attributes = &dot, .shape = i->shape});
    product->backend_config = i->backend_config;
    product->backend_config_is_json = i->backend_config_is_json;
    return product;
}

// The number of dimensions of one side of a dot that are neither batch nor contracting dimensions.
static int64_t free_count(const HloInstruction *side, HloInts batch, HloInts contracting) {
    return side->shape->rank - batch.count - contracting.count;
}

// A transpose that swaps the rows and columns of a dot is a dot with swapped operands.
static HloInstruction *transpose_of_dot(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_TRANSPOSE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_DOT || x->operand_count != 2 || x->users.count != 1) return NULL;
    const HloDotAttributes *dot = HLO_ATTRIBUTES(x, Dot);
    HloInts permutation = HLO_ATTRIBUTES(i, Dimensions)->dimensions;
    int64_t batch = dot->lhs_batch.count, left = free_count(x->operands[0], dot->lhs_batch, dot->lhs_contracting);
    int64_t right = permutation.count - batch - left;
    if (left == 0 || right == 0) return NULL;
    for (int64_t d = 0; d < permutation.count; d++) {
        int64_t wanted = d < batch ? d : d < batch + right ? d + left : d - right;
        if (permutation.items[d] != wanted) return NULL;
    }
    HloDotAttributes swapped = *dot;
    swapped.lhs_batch = dot->rhs_batch;
    swapped.rhs_batch = dot->lhs_batch;
    swapped.lhs_contracting = dot->rhs_contracting;
    swapped.rhs_contracting = dot->lhs_contracting;
    int32_t precision[2];
    if (dot->precision.count == 2) {
        precision[0] = dot->precision.items[1];
        precision[1] = dot->precision.items[0];
        swapped.precision.items = precision;
    }
    HloInstruction *operands[] = {x->operands[1], x->operands[0]};
    return hlo_pass_make(
        i,
        &(HloBuildRequest){
            .opcode = HLO_OP_DOT, .operands = operands, .operand_count = 2, .attributes = &swapped, .shape = i->shape});
}

// A map of a single op is that op.
static HloInstruction *map_of_op(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MAP));
    HloOpcode opcode = reducer_of(i);
    if (opcode == HLO_OPCODE_COUNT || i->operand_count != 2) return NULL;
    const HloInstruction *root = i->called[0]->root;
    if (root->operands[0]->opcode != HLO_OP_PARAMETER || hlo_op_info(opcode)->family != HLO_FAMILY_None) return NULL;
    int64_t first = hlo_parameter_number(root->operands[0]);
    if (root->shape->type != i->shape->type || i->operands[0]->shape->type != i->operands[1]->shape->type) return NULL;
    return hlo_pass_binary(i, opcode, i->operands[first], i->operands[1 - first]);
}

// A sort along a dimension with nothing to sort is its operand.
static HloInstruction *sort_of_one(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SORT));
    int64_t dimension = HLO_ATTRIBUTES(i, Sort)->dimensions.items[0];
    if (i->operands[0]->shape->dims[dimension] > 1) return NULL;
    return i->operand_count == 1 ? i->operands[0] : hlo_pass_tuple(i, i->operands, i->operand_count);
}

// A collective over groups of one device is its operand.
static HloInstruction *alone(HloInstruction *i) {
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(i, Collective);
    const HloModule *module = i->parent->module;
    int64_t size = attributes->replica_groups ? hlo_replica_groups_size(attributes->replica_groups) : 0;
    bool empty = size == 0 && (!attributes->replica_groups || attributes->replica_groups->count == 0);
    // Without global ids, a group of one replica still contains all its partitions.
    bool by_device = attributes->channel_id == 0 || attributes->use_global_device_ids;
    bool single = module->replica_count * module->num_partitions == 1 && empty;
    // Devices that a broadcast does not name receive zeros.
    const bool some = hlo_is(i, HLO_OP_COLLECTIVE_BROADCAST) && !empty && size == 1 &&
                      attributes->replica_groups->count != module->replica_count * module->num_partitions;
    if (some) return NULL;
    if ((size != 1 || !by_device) && !single) return NULL;
    if (!hlo_shape_is_tuple(i->shape)) return i->operand_count == 1 ? i->operands[0] : NULL;
    return hlo_pass_tuple(i, i->operands, i->operand_count);
}

// get-tuple-element(tuple(...)) is the operand. Programs wrap and unwrap values at every boundary of a computation;
// after inlining, both disappear.
static HloInstruction *element_of_tuple(HloInstruction *i) {
    const HloInstruction *tuple = i->operands[0];
    return tuple->opcode == HLO_OP_TUPLE ? tuple->operands[HLO_ATTRIBUTES(i, TupleIndex)->index] : NULL;
}

// A reduction of a reduction by the same op is a reduction over the dimensions of both, if order does not matter.
static HloInstruction *reduce_of_reduce(HloInstruction *i) {
    HloInstruction *x = i->operands[0];
    HloOpcode reducer = reducer_of(i);
    if (i->operand_count != 2 || x->opcode != HLO_OP_REDUCE || x->operand_count != 2 || x->users.count != 1)
        return NULL;
    if (reducer_of(x) != reducer || !is_order_free(reducer, i->shape->type)) return NULL;
    if (x->operands[0]->shape->type != i->shape->type || !is_neutral(reducer, x->operands[1])) return NULL;
    HloInts inner = HLO_ATTRIBUTES(x, Dimensions)->dimensions, outer = HLO_ATTRIBUTES(i, Dimensions)->dimensions;
    int64_t *dimensions = hlo_pass_ints(i, inner.count + outer.count), count = 0;
    for (int64_t d = 0, kept = 0; d < x->operands[0]->shape->rank; d++) {
        bool both = hlo_ints_contain(inner, d);
        if (!both) both = hlo_ints_contain(outer, kept++);
        if (both) dimensions[count++] = d;
    }
    return reduced_over(i, x->operands[0], (HloInts){dimensions, count});
}

// Pairs up dimensions of two forms of an array: advances *from and *to to the ends of the next shortest runs of equal
// products. False at the end.
static bool next_run(const HloShape *a, const HloShape *b, int64_t *from, int64_t *to) {
    if (*from == a->rank || *to == b->rank) return false;
    int64_t x = a->dims[(*from)++], y = b->dims[(*to)++];
    while (x != y) {
        if (x < y && *from < a->rank) {
            x *= a->dims[(*from)++];
        } else if (y < x && *to < b->rank) {
            y *= b->dims[(*to)++];
        } else {
            return false;
        }
    }
    return true;
}

// Finds the dimensions of `before` that correspond to `reduced` in `after`; -1 if the reshape merges or splits one of
// them.
static int64_t reduced_before(const HloShape *before, const HloShape *after, HloInts reduced, int64_t *dimensions) {
    int64_t from = 0, to = 0, count = 0, first = 0, start = 0;
    while (next_run(before, after, &from, &to)) {
        bool any = false;
        for (int64_t d = first; d < to; d++) any = any || hlo_ints_contain(reduced, d);
        if (any && (to - first != 1 || from - start != 1)) return -1;
        if (any) dimensions[count++] = start;
        first = to;
        start = from;
    }
    return from == before->rank && to == after->rank && first == to && start == from ? count : -1;
}

// A reshape that only merges or splits kept dimensions can follow the reduction, which makes it smaller.
static HloInstruction *reduce_of_reshape(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REDUCE));
    HloInstruction *x = i->operands[0];
    if (i->operand_count != 2 || x->opcode != HLO_OP_RESHAPE || hlo_shape_elements(x->shape) == 0) return NULL;
    HloInts reduced = HLO_ATTRIBUTES(i, Dimensions)->dimensions;
    int64_t *dimensions = hlo_pass_ints(i, x->operands[0]->shape->rank + 1);
    int64_t count = reduced_before(x->operands[0]->shape, x->shape, reduced, dimensions);
    if (count != reduced.count) return NULL;
    HloInstruction *operands[] = {x->operands[0], i->operands[1]};
    HloInstruction *sum =
        hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_REDUCE,
                                            .operands = operands,
                                            .operand_count = 2,
                                            .attributes = &(HloDimensionsAttributes){{dimensions, count}},
                                            .called = i->called,
                                            .called_count = 1});
    return hlo_pass_reshape(i, sum, hlo_shape_dims(i->shape));
}

// The number of the next dimension of `shape` from `d` on whose size is not 1, or its rank.
static int32_t next_proper(const HloShape *shape, int32_t d) {
    while (d < shape->rank && shape->dims[d] == 1) d++;
    return d;
}

// A reshape that only adds and drops dimensions of size 1 can follow the reduction too.
static HloInstruction *reduce_of_thin(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REDUCE));
    const HloInstruction *reshape = i->operands[0];
    if (i->operand_count != 2 || reshape->opcode != HLO_OP_RESHAPE || i->called_count != 1) return NULL;
    HloInts reduced = HLO_ATTRIBUTES(i, Dimensions)->dimensions;
    const HloShape *before = reshape->operands[0]->shape, *after = reshape->shape;
    int64_t *dimensions = hlo_pass_ints(i, before->rank), count = 0;
    int32_t from = next_proper(before, 0), to = next_proper(after, 0);
    for (; from < before->rank && to < after->rank; from = next_proper(before, from + 1)) {
        if (before->dims[from] != after->dims[to]) return NULL;
        if (hlo_ints_contain(reduced, to)) dimensions[count++] = from;
        to = next_proper(after, to + 1);
    }
    if (from < before->rank || to < after->rank) return NULL;
    HloInstruction *sum = reduced_over(i, reshape->operands[0], (HloInts){dimensions, count});
    return hlo_pass_reshape(i, sum, hlo_shape_dims(i->shape));
}

// True for two constants with equal bits, or the same instruction: NaN equals itself here, and 0 does not equal -0.
static bool same_splat(const HloInstruction *a, const HloInstruction *b) {
    const HloLiteral *first, *second;
    if (a == b) return true;
    if (!hlo_is_splat(a, &first) || !hlo_is_splat(b, &second) || a->shape->type != b->shape->type) return false;
    return memcmp(first->data, second->data, (size_t)hlo_type_bytes(a->shape->type)) == 0;
}

// True if including `value` once more changes nothing in a reduction that began with it: it is neutral, or the op is
// idempotent, or it is 0 in a sum of floats, which is never -0 if it began with 0.
static bool may_repeat(HloOpcode opcode, const HloInstruction *value) {
    bool idempotent =
        opcode == HLO_OP_MAXIMUM || opcode == HLO_OP_MINIMUM || opcode == HLO_OP_AND || opcode == HLO_OP_OR;
    return idempotent || is_neutral(opcode, value) || (opcode == HLO_OP_ADD && hlo_pass_is_all(value, 0));
}

// A window omits its own padding, so elements of an explicit pad before it may be omitted too, if they equal the
// initial value and that makes no difference: a sum starting from 1 would lose the padded ones.
static HloInstruction *window_of_pad(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REDUCE_WINDOW));
    HloInstruction *x = i->operands[0];
    const HloWindow *window = HLO_ATTRIBUTES(i, Window)->window;
    if (i->operand_count != 2 || !window || x->opcode != HLO_OP_PAD || !same_splat(x->operands[1], i->operands[1]))
        return NULL;
    if (x->operands[0]->shape->type != x->shape->type || !may_repeat(reducer_of(i), i->operands[1])) return NULL;
    HloPadding padding = HLO_ATTRIBUTES(x, Pad)->padding;
    HloWindowDimension *dims = HLO_ARENA_NEW(i->parent->module->arena, HloWindowDimension, window->count);
    for (int64_t d = 0; d < window->count; d++) {
        const HloPadDimension *pad = &padding.items[d];
        if (pad->low < 0 || pad->high < 0 || pad->interior || window->dims[d].base_dilation != 1) return NULL;
        dims[d] = window->dims[d];
        dims[d].padding_low += pad->low;
        dims[d].padding_high += pad->high;
    }
    HloInstruction *operands[] = {x->operands[0], i->operands[1]};
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_REDUCE_WINDOW,
                                               .operands = operands,
                                               .operand_count = 2,
                                               .attributes = &(HloWindowAttributes){&(HloWindow){dims, window->count}},
                                               .called = i->called,
                                               .called_count = 1});
}

static const HloSimplifyRule rules[] = {
    {HLO_OP_REDUCE, reduce_nothing},
    {HLO_OP_REDUCE, reduce_of_empty},
    {HLO_OP_REDUCE, reduce_of_transpose},
    {HLO_OP_REDUCE, reduce_of_reduce},
    {HLO_OP_REDUCE, reduce_of_reshape},
    {HLO_OP_REDUCE, reduce_of_thin},
    {HLO_OP_REDUCE_WINDOW, window_of_one},
    {HLO_OP_REDUCE_WINDOW, window_of_pad},
    {HLO_OP_DOT, dot_of_nothing},
    {HLO_OP_MAP, map_of_op},
    {HLO_OP_SORT, sort_of_one},
    {HLO_OP_ALL_REDUCE, alone},
    {HLO_OP_ALL_GATHER, alone},
    {HLO_OP_REDUCE_SCATTER, alone},
    {HLO_OP_ALL_TO_ALL, alone},
    {HLO_OP_COLLECTIVE_BROADCAST, alone},
    {HLO_OP_GET_TUPLE_ELEMENT, element_of_tuple},
};

static const HloSimplifyRule product_rules[] = {
    {HLO_OP_TRANSPOSE, transpose_of_dot},
    {HLO_OP_DOT, dot_of_transpose},
};

HloSimplifyTable hlo_simplify_products(void) {
    return (HloSimplifyTable){product_rules, HLO_COUNT_OF(product_rules)};
}

HloSimplifyTable hlo_simplify_compute(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
