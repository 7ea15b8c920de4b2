// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters of which one component of the index counts along a dimension of the indices, as x[arange(n), i]
// is written: that component is a batching dimension.
//
//   gather(f32[8,64] x, concatenate(s32[8,1] iota, s32[8,1] i))
//   gather(f32[8,64] x, s32[8,1] i), operand_batching_dims={0}, start_indices_batching_dims={0}     in its place
//
// The numbers may be an iota or written out as a constant.
// Then a sharded batch is taken from where it is. An index would be looked for in all shards.
#include <assert.h>

#include "hlo/pass/simplify/simplify.h"

enum {
    MOST_LEVELS = 8,
    MOST_ELEMENTS = 1 << 16,  // of a constant that is looked through
};

// The dimension of a reshape's operand that is dimension `dim` of its result, if only dimensions of size 1 come and go;
// else -1.
static int64_t reshaped_dim(const HloInstruction *reshape, int64_t dim) {
    const HloShape *to = reshape->shape, *from = reshape->operands[0]->shape;
    int64_t d = 0, found = -1;
    for (int64_t t = 0; t < to->rank; t++) {
        if (to->dims[t] == 1) continue;
        while (d < from->rank && from->dims[d] == 1) d++;
        if (d == from->rank || from->dims[d] != to->dims[t]) return -1;
        if (t == dim) found = d;
        d++;
    }
    return found;
}

// Whether the elements of a constant are their positions along a dimension.
static bool literal_counts(const HloLiteral *literal, int64_t dim) {
    const HloShape *shape = literal->shape;
    const int64_t count = hlo_shape_elements(shape);
    if (literal->elided || !literal->data || count > MOST_ELEMENTS) return false;
    int64_t inner = 1;
    for (int64_t d = dim + 1; d < shape->rank; d++) inner *= shape->dims[d];
    for (int64_t k = 0; k < count; k++)
        if (hlo_literal_get_int64(literal, k) != k / inner % shape->dims[dim]) return false;
    return true;
}

// Whether the elements of an array are their positions along a dimension, which has more than one.
static bool counts_along(const HloInstruction *x, int64_t dim, int level) {
    if (level == MOST_LEVELS || dim < 0 || !hlo_shape_is_array(x->shape) || x->shape->dims[dim] < 2) return false;
    if (!hlo_type_is_integer(x->shape->type) || !hlo_type_holds(x->shape->type, x->shape->dims[dim] - 1)) return false;
    switch (x->opcode) {
        case HLO_OP_CONSTANT: return literal_counts(hlo_constant_literal(x), dim);
        case HLO_OP_IOTA: return HLO_ATTRIBUTES(x, Iota)->dimension == dim;
        case HLO_OP_COPY:
        case HLO_OP_CONVERT: return counts_along(x->operands[0], dim, level + 1);
        case HLO_OP_RESHAPE: return counts_along(x->operands[0], reshaped_dim(x, dim), level + 1);
        case HLO_OP_BROADCAST: {
            const HloInts mapping = HLO_ATTRIBUTES(x, Dimensions)->dimensions;
            for (int64_t d = 0; d < mapping.count; d++)
                if (mapping.items[d] == dim) return counts_along(x->operands[0], d, level + 1);
            return false;
        }
        default: return false;
    }
}

// What a gather and a scatter say of their indices. `single` are the dimensions of the array along which single
// elements are taken, and that the windows do not have.
typedef struct Indexing {
    HloInts map, single, array_batching, index_batching;
    int64_t vector_dim;
} Indexing;

static HloInts without(const HloInstruction *like, HloInts list, int64_t value) {
    int64_t *items = hlo_pass_ints(like, list.count), count = 0;
    for (int64_t k = 0; k < list.count; k++)
        if (list.items[k] != value) items[count++] = list.items[k];
    return (HloInts){items, count};
}

// Adds a pair of batching dimensions; those of the array ascend.
static void add_batch(const HloInstruction *like, Indexing *indexing, int64_t array_dim, int64_t index_dim) {
    const int64_t count = indexing->array_batching.count;
    int64_t *arrays = hlo_pass_ints(like, count + 1), *indices = hlo_pass_ints(like, count + 1), place = count;
    while (place > 0 && indexing->array_batching.items[place - 1] > array_dim) place--;
    for (int64_t k = 0; k < count; k++) {
        arrays[k + (k >= place)] = indexing->array_batching.items[k];
        indices[k + (k >= place)] = indexing->index_batching.items[k];
    }
    arrays[place] = array_dim;
    indices[place] = index_dim;
    indexing->array_batching = (HloInts){arrays, count + 1};
    indexing->index_batching = (HloInts){indices, count + 1};
}

// The dimension of the indices along which a component counts through all of dimension `array_dim`; -1 if there is
// none.
static int64_t counted_dim(const HloInstruction *component, const HloShape *array, const Indexing *indexing,
                           int64_t array_dim) {
    if (component->shape->dims[indexing->vector_dim] != 1 || !hlo_ints_contain(indexing->single, array_dim)) return -1;
    for (int64_t d = 0; d < component->shape->rank; d++) {
        if (d == indexing->vector_dim || hlo_ints_contain(indexing->index_batching, d)) continue;
        if (component->shape->dims[d] == array->dims[array_dim] && counts_along(component, d, 0)) return d;
    }
    return -1;
}

// Turns the first component that counts into batching dimensions, in `indexing`, and returns the indices without it;
// NULL if there is none, or no other component.
static HloInstruction *move_component(HloInstruction *i, HloInstruction *indices, const HloShape *array,
                                      Indexing *indexing) {
    if (!hlo_is(indices, HLO_OP_CONCATENATE)) return NULL;
    if (HLO_ATTRIBUTES(indices, Dimensions)->dimensions.items[0] != indexing->vector_dim) return NULL;
    int64_t component = 0;
    for (int32_t o = 0; o < indices->operand_count && component < indexing->map.count; o++) {
        const int64_t array_dim = indexing->map.items[component];
        const int64_t index_dim = counted_dim(indices->operands[o], array, indexing, array_dim);
        component += indices->operands[o]->shape->dims[indexing->vector_dim];
        if (index_dim < 0 || indices->operand_count == 1) continue;
        add_batch(i, indexing, array_dim, index_dim);
        indexing->map = without(i, indexing->map, array_dim);
        indexing->single = without(i, indexing->single, array_dim);
        if (indices->operand_count == 2) return indices->operands[1 - o];
        HloInstruction **rest = HLO_ARENA_NEW(i->parent->module->arena, HloInstruction *, indices->operand_count);
        for (int32_t k = 0; k < indices->operand_count - 1; k++) rest[k] = indices->operands[k + (k >= o)];
        return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_CONCATENATE,
                                                   .operands = rest,
                                                   .operand_count = indices->operand_count - 1,
                                                   .attributes = indices->attributes});
    }
    return NULL;
}

static HloInstruction *with_indices(HloInstruction *i, int32_t operand, HloInstruction *indices,
                                    const void *attributes) {
    HloInstruction *made = hlo_instruction_clone(i->parent, i, i->shape, i->operands, i->operand_count);
    hlo_instruction_set_operand(made, operand, indices);
    hlo_instruction_set_attributes(made, attributes);
    return made;
}

static HloInstruction *gather_by_batch(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_GATHER));
    HloGatherAttributes attributes = *HLO_ATTRIBUTES(i, Gather);
    Indexing indexing = {attributes.start_index_map, attributes.collapsed_slice_dims, attributes.operand_batching_dims,
                         attributes.start_indices_batching_dims, attributes.index_vector_dim};
    HloInstruction *indices = move_component(i, i->operands[1], i->operands[0]->shape, &indexing);
    if (!indices) return NULL;
    attributes.start_index_map = indexing.map;
    attributes.collapsed_slice_dims = indexing.single;
    attributes.operand_batching_dims = indexing.array_batching;
    attributes.start_indices_batching_dims = indexing.index_batching;
    attributes.indices_are_sorted = false;
    return with_indices(i, 1, indices, &attributes);
}

static HloInstruction *scatter_by_batch(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SCATTER));
    const int32_t inputs = (i->operand_count - 1) / 2;
    HloScatterAttributes attributes = *HLO_ATTRIBUTES(i, Scatter);
    Indexing indexing = {attributes.scatter_dims_to_operand_dims, attributes.inserted_window_dims,
                         attributes.input_batching_dims, attributes.scatter_indices_batching_dims,
                         attributes.index_vector_dim};
    HloInstruction *indices = move_component(i, i->operands[inputs], i->operands[0]->shape, &indexing);
    if (!indices) return NULL;
    attributes.scatter_dims_to_operand_dims = indexing.map;
    attributes.inserted_window_dims = indexing.single;
    attributes.input_batching_dims = indexing.array_batching;
    attributes.scatter_indices_batching_dims = indexing.index_batching;
    attributes.indices_are_sorted = false;
    return with_indices(i, inputs, indices, &attributes);
}

static const HloSimplifyRule rules[] = {
    {HLO_OP_GATHER, gather_by_batch},
    {HLO_OP_SCATTER, scatter_by_batch},
};

HloSimplifyTable hlo_simplify_batching(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
