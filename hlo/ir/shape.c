// SPDX-License-Identifier: Apache-2.0
// Shapes: immutable after creation, and shared freely.
//
// A shape that differs from another one in its layout or type is a copy that shares the rest, so making one takes only
// a few words of the arena, and comparing pointers first is worthwhile. Sizes are checked where they enter the program
// (hlo_shape_check_dims): from then on, products of them fit in 62 bits.
#include "hlo/ir/shape.h"

#include <assert.h>
#include <string.h>

// All zeros except the type: a scalar, an empty tuple, a token.
static HloShape *new_shape(HloArena *arena, HloType type) {
    HloShape *shape = HLO_ARENA_NEW(arena, HloShape, 1);
    shape->type = type;
    return shape;
}

const HloShape *hlo_shape_array(HloArena *arena, HloType type, const int64_t *dims, int64_t rank) {
    assert(hlo_type_is_array(type));
    assert(rank >= 0 && (dims || rank == 0));
    HloShape *shape = new_shape(arena, type);
    shape->rank = (int32_t)rank;
    shape->dims = hlo_arena_copy(arena, dims, (size_t)rank * sizeof(*dims));
    return shape;
}

const HloShape *hlo_shape_scalar(HloArena *arena, HloType type) {
    return new_shape(arena, type);
}

const HloShape *hlo_shape_tuple(HloArena *arena, const HloShape *const *elements, int64_t count) {
    assert(count >= 0 && (elements || count == 0));
    HloShape *shape = new_shape(arena, HLO_TUPLE);
    shape->element_count = (int32_t)count;
    shape->elements = hlo_arena_copy(arena, elements, (size_t)count * sizeof(*elements));
    hlo_shape_sum_up(arena, shape);
    return shape;
}

// The state of a training step has tens of thousands of leaves, and every get-tuple-element queries it: a query must
// not walk the tuple.
void hlo_shape_sum_up(HloArena *arena, HloShape *tuple) {
    assert(hlo_shape_is_tuple(tuple));
    tuple->leaf_count = 0;
    tuple->first_leaves = NULL;
    tuple->is_flat = tuple->is_static = true;
    for (int32_t i = 0; i < tuple->element_count; i++)
        tuple->is_flat = tuple->is_flat && !hlo_shape_is_tuple(tuple->elements[i]);
    int64_t *first_leaves = tuple->is_flat ? NULL : HLO_ARENA_NEW(arena, int64_t, tuple->element_count);
    for (int32_t i = 0; i < tuple->element_count; i++) {
        if (first_leaves) first_leaves[i] = tuple->leaf_count;
        tuple->leaf_count += hlo_shape_leaf_count(tuple->elements[i]);
        tuple->is_static = tuple->is_static && !hlo_shape_is_dynamic(tuple->elements[i]);
    }
    tuple->first_leaves = first_leaves;
}

const HloShape *hlo_shape_token(HloArena *arena) {
    return new_shape(arena, HLO_TOKEN);
}

// Returns a copy that shares the lists of the original. Callers change one field of the copy before they publish it: a
// published shape never changes.
static HloShape *duplicate(HloArena *arena, const HloShape *shape) {
    return hlo_arena_copy(arena, shape, sizeof(*shape));
}

const HloShape *hlo_shape_with_layout(HloArena *arena, const HloShape *shape, const HloLayout *layout) {
    assert(shape);
    HloShape *copy = duplicate(arena, shape);
    copy->layout = layout;
    return copy;
}

const HloShape *hlo_shape_with_type(HloArena *arena, const HloShape *shape, HloType type) {
    HloShape *copy = duplicate(arena, shape);
    copy->type = type;
    return copy;
}

// Row-major: the last dimension is the most minor one.
static const HloLayout *default_layout(HloArena *arena, int64_t rank) {
    assert(rank >= 0);
    HloLayout *layout = HLO_ARENA_NEW(arena, HloLayout, 1);
    int64_t *order = HLO_ARENA_NEW(arena, int64_t, rank);
    for (int64_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
    layout->minor_to_major = (HloInts){order, rank};
    layout->tail_padding_alignment = 1;
    return layout;
}

const HloShape *hlo_shape_with_dims(HloArena *arena, const HloShape *shape, const int64_t *dims, int64_t rank) {
    const HloShape *copy = hlo_shape_array(arena, shape->type, dims, rank);
    return shape->layout ? hlo_shape_with_layout(arena, copy, default_layout(arena, rank)) : copy;
}

// A copy of a tuple (or buffer) with each element replaced by change(element).
static const HloShape *map_elements(HloArena *arena, const HloShape *shape,
                                    const HloShape *(*change)(HloArena *, const HloShape *)) {
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
    for (int32_t i = 0; i < shape->element_count; i++) elements[i] = change(arena, shape->elements[i]);
    HloShape *copy = duplicate(arena, shape);
    copy->elements = elements;
    if (hlo_shape_is_tuple(copy)) hlo_shape_sum_up(arena, copy);
    return copy;
}

const HloShape *hlo_shape_with_default_layout(HloArena *arena, const HloShape *shape) {
    if (shape->element_count > 0) return map_elements(arena, shape, hlo_shape_with_default_layout);
    if (!hlo_shape_is_array(shape) || shape->layout) return shape;
    return hlo_shape_with_layout(arena, shape, default_layout(arena, shape->rank));
}

const HloShape *hlo_shape_without_layout(HloArena *arena, const HloShape *shape) {
    if (shape->element_count > 0) return map_elements(arena, shape, hlo_shape_without_layout);
    return shape->layout ? hlo_shape_with_layout(arena, shape, NULL) : shape;
}

// For shapes that are copied to another module: no pointer to the old arena may remain.
static HloInts copy_ints(HloArena *arena, HloInts ints) {
    return (HloInts){hlo_arena_copy(arena, ints.items, (size_t)ints.count * sizeof(int64_t)), ints.count};
}

static const HloLayout *copy_layout(HloArena *arena, const HloLayout *layout) {
    if (!layout) return NULL;
    HloLayout *copy = hlo_arena_copy(arena, layout, sizeof(*layout));
    copy->minor_to_major = copy_ints(arena, layout->minor_to_major);
    copy->dim_level_types = copy_ints(arena, layout->dim_level_types);
    HloInts *tiles = HLO_ARENA_NEW(arena, HloInts, layout->tile_count);
    for (int64_t i = 0; i < layout->tile_count; i++) tiles[i] = copy_ints(arena, layout->tiles[i]);
    copy->tiles = tiles;
    HloSplit *splits = HLO_ARENA_NEW(arena, HloSplit, layout->split_count);
    for (int64_t i = 0; i < layout->split_count; i++) {
        splits[i] = (HloSplit){layout->splits[i].dimension, copy_ints(arena, layout->splits[i].indices)};
    }
    copy->splits = splits;
    if (layout->physical_shape) copy->physical_shape = hlo_shape_copy(arena, layout->physical_shape);
    return copy;
}

const HloShape *hlo_shape_copy(HloArena *arena, const HloShape *shape) {
    if (shape->element_count > 0) return map_elements(arena, shape, hlo_shape_copy);
    HloShape *copy = duplicate(arena, shape);
    copy->dims = hlo_arena_copy(arena, shape->dims, (size_t)shape->rank * sizeof(int64_t));
    if (shape->dynamic) copy->dynamic = hlo_arena_copy(arena, shape->dynamic, (size_t)shape->rank * sizeof(bool));
    copy->layout = copy_layout(arena, shape->layout);
    return copy;
}

// 62 bits, not 63: two sizes can be added, or one rounded up to an alignment, without another check.
HloStatus hlo_shape_check_dims(HloType type, const int64_t *dims, int64_t rank) {
    assert(rank >= 0);
    HLO_FAIL_IF(rank > HLO_MAXIMUM_RANK, HLO_INVALID_ARGUMENT, "%lld dimensions are more than %d", (long long)rank,
                HLO_MAXIMUM_RANK);
    int64_t bytes = hlo_type_bytes(type);
    if (bytes == 0) bytes = 1;
    for (int64_t i = 0; i < rank; i++) {
        if (dims[i] == HLO_UNBOUNDED) continue;
        HLO_FAIL_IF(dims[i] < 0, HLO_INVALID_ARGUMENT, "dimension %lld has negative size %lld", (long long)i,
                    (long long)dims[i]);
        // A size of zero must not hide the overflow of the others.
        int64_t size = dims[i] > 0 ? dims[i] : 1;
        HLO_FAIL_IF(__builtin_mul_overflow(bytes, size, &bytes) || bytes > INT64_MAX / 2, HLO_INVALID_ARGUMENT,
                    "the array's size in bytes does not fit in 62 bits");
    }
    return HLO_SUCCESS;
}

static bool same_ints(HloInts a, HloInts b) {
    return a.count == b.count && (a.count == 0 || memcmp(a.items, b.items, (size_t)a.count * sizeof(int64_t)) == 0);
}

bool hlo_layout_equal(const HloLayout *a, const HloLayout *b) {
    if (a == b) return true;
    if (!a || !b) return false;
    if (!same_ints(a->minor_to_major, b->minor_to_major) || !same_ints(a->dim_level_types, b->dim_level_types) ||
        a->tile_count != b->tile_count || a->split_count != b->split_count ||
        a->tail_padding_alignment != b->tail_padding_alignment || a->index_type != b->index_type ||
        a->pointer_type != b->pointer_type || a->element_size_in_bits != b->element_size_in_bits ||
        a->memory_space != b->memory_space || a->dynamic_metadata_bytes != b->dynamic_metadata_bytes ||
        !a->physical_shape != !b->physical_shape) {
        return false;
    }
    for (int64_t i = 0; i < a->tile_count; i++) {
        if (!same_ints(a->tiles[i], b->tiles[i])) return false;
    }
    for (int64_t i = 0; i < a->split_count; i++) {
        if (a->splits[i].dimension != b->splits[i].dimension || !same_ints(a->splits[i].indices, b->splits[i].indices))
            return false;
    }
    return !a->physical_shape || hlo_shape_equal(a->physical_shape, b->physical_shape, HLO_COMPARE_ALL);
}

// Most shapes have no flags at all.
static bool is_dynamic_at(const HloShape *shape, int32_t i) {
    return (shape->dynamic && shape->dynamic[i]) || shape->dims[i] == HLO_UNBOUNDED;
}

bool hlo_shape_equal(const HloShape *a, const HloShape *b, HloShapeCompare compare) {
    assert(a && b);
    if (a == b) return true;
    bool arrays = hlo_shape_is_array(a) && hlo_shape_is_array(b);
    if (a->type != b->type && !(compare == HLO_COMPARE_DIMS_ONLY && arrays)) return false;
    if (a->rank != b->rank || a->element_count != b->element_count) return false;
    for (int32_t i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i]) return false;
        if (compare != HLO_COMPARE_BOUNDS && is_dynamic_at(a, i) != is_dynamic_at(b, i)) return false;
    }
    for (int32_t i = 0; i < a->element_count; i++) {
        if (!hlo_shape_equal(a->elements[i], b->elements[i], compare)) return false;
    }
    return compare != HLO_COMPARE_ALL || hlo_layout_equal(a->layout, b->layout);
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

// Hashes only those parts of a layout that usually differ: comparison covers the rest, and equal shapes still have
// equal hashes.
uint64_t hlo_shape_hash(const HloShape *shape) {
    assert(shape);
    uint64_t hash = mix((uint64_t)shape->type, (uint64_t)shape->rank);
    for (int32_t i = 0; i < shape->rank; i++) {
        hash = mix(hash, (uint64_t)shape->dims[i] * 2 + (is_dynamic_at(shape, i) ? 1 : 0));
    }
    for (int32_t i = 0; i < shape->element_count; i++) hash = mix(hash, hlo_shape_hash(shape->elements[i]));
    if (!shape->layout) return hash;
    const HloLayout *layout = shape->layout;
    for (int64_t i = 0; i < layout->minor_to_major.count; i++) {
        hash = mix(hash, (uint64_t)layout->minor_to_major.items[i]);
    }
    for (int64_t i = 0; i < layout->tile_count; i++) {
        for (int64_t j = 0; j < layout->tiles[i].count; j++) hash = mix(hash, (uint64_t)layout->tiles[i].items[j]);
    }
    return mix(hash, (uint64_t)layout->memory_space);
}

bool hlo_shape_is_dynamic(const HloShape *shape) {
    if (shape->is_static) return false;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (is_dynamic_at(shape, i)) return true;
    }
    for (int32_t i = 0; i < shape->element_count; i++) {
        if (hlo_shape_is_dynamic(shape->elements[i])) return true;
    }
    return false;
}

bool hlo_shape_is_unbounded(const HloShape *shape) {
    if (shape->is_static) return false;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == HLO_UNBOUNDED) return true;
    }
    for (int32_t i = 0; i < shape->element_count; i++) {
        if (hlo_shape_is_unbounded(shape->elements[i])) return true;
    }
    return false;
}

// An unbounded dimension counts as 0: callers that must distinguish the two check the dims.
int64_t hlo_shape_elements(const HloShape *shape) {
    assert(shape);
    if (!hlo_shape_is_array(shape)) return 0;
    int64_t count = 1;
    for (int32_t i = 0; i < shape->rank; i++) count *= shape->dims[i] == HLO_UNBOUNDED ? 0 : shape->dims[i];
    return count;
}

// Cannot overflow if the arrays were checked, unless a tuple of them has exabytes.
int64_t hlo_shape_bytes(const HloShape *shape) {
    int64_t bytes = hlo_shape_elements(shape) * hlo_type_bytes(shape->type);
    for (int32_t i = 0; i < shape->element_count; i++) bytes += hlo_shape_bytes(shape->elements[i]);
    return bytes;
}

int64_t hlo_shape_leaf_count(const HloShape *shape) {
    if (!hlo_shape_is_tuple(shape)) return 1;
    if (shape->leaf_count > 0) return shape->leaf_count;
    int64_t count = 0;
    for (int32_t i = 0; i < shape->element_count; i++) count += hlo_shape_leaf_count(shape->elements[i]);
    return count;
}

const HloShape *hlo_shape_value(const HloShape *shape, int64_t index) {
    assert(index >= 0 && (!hlo_shape_is_tuple(shape) || index < shape->element_count));
    return hlo_shape_is_tuple(shape) ? shape->elements[index] : shape;
}

const HloShape *hlo_shape_leaf(const HloShape *shape, int64_t index) {
    assert(index >= 0);
    while (hlo_shape_is_tuple(shape)) {
        const int32_t element = hlo_shape_element_of_leaf(shape, index);
        index -= hlo_shape_first_leaf(shape, element);
        shape = shape->elements[element];
    }
    return shape;
}

int64_t hlo_shape_first_leaf(const HloShape *tuple, int64_t index) {
    assert(index >= 0 && index <= tuple->element_count);
    if (tuple->is_flat) return index;
    return index < tuple->element_count ? tuple->first_leaves[index] : tuple->leaf_count;
}

int32_t hlo_shape_element_of_leaf(const HloShape *tuple, int64_t leaf) {
    HLO_BUG_IF(leaf < 0 || leaf >= tuple->leaf_count);
    if (tuple->is_flat) return (int32_t)leaf;
    int32_t low = 0, high = tuple->element_count;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        *(tuple->first_leaves[middle] <= leaf ? &low : &high) = middle;
    }
    return low;
}

int64_t hlo_shape_leaf_number(const HloShape *shape, HloInts index) {
    int64_t number = 0;
    for (int64_t i = 0; i < index.count; i++) {
        assert(hlo_shape_is_tuple(shape) && index.items[i] < shape->element_count);
        number += hlo_shape_first_leaf(shape, index.items[i]);
        shape = shape->elements[index.items[i]];
    }
    return number;
}

const HloShape *hlo_shape_at(const HloShape *shape, HloInts index) {
    for (int64_t i = 0; i < index.count; i++) {
        if (!hlo_shape_is_tuple(shape) || index.items[i] < 0 || index.items[i] >= shape->element_count) return NULL;
        shape = shape->elements[index.items[i]];
    }
    return shape;
}

// Takes dimensions from either side until their products are equal: [2,3,4,5] to [6,20] has the groups {2,3 | 6} and
// {4,5 | 20}, which are independent of each other.
bool hlo_reshape_next_group(const HloShape *from, const HloShape *to, HloReshapeGroup *group) {
    assert(hlo_shape_elements(from) == hlo_shape_elements(to)); /* the verifier checks it */
    int32_t i = group->from_end, j = group->to_end;
    *group = (HloReshapeGroup){i, i, j, j};
    if (i == from->rank && j == to->rank) return false;
    int64_t taken = 1, given = 1;
    if (i < from->rank) taken = from->dims[i++];
    if (j < to->rank) given = to->dims[j++];
    // Without elements the dimensions cannot be matched: all the remaining ones form one group.
    while (taken != given || hlo_shape_elements(from) == 0) {
        if (i < from->rank && (taken <= given || j == to->rank))
            taken *= from->dims[i++];
        else if (j < to->rank)
            given *= to->dims[j++];
        else
            break;
    }
    *group = (HloReshapeGroup){group->from_begin, i, group->to_begin, j};
    return true;
}
