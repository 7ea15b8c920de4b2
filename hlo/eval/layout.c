// SPDX-License-Identifier: Apache-2.0
// bitcast: the bytes of an array in the order of one layout, read in the order of another.
//
// Shape and layout together determine the address of each element: dimensions are put into the layout's order, and each
// tile splits the most minor ones into (tile number, index in the tile), rounding up, which leaves padding. If source
// and target are the same sequence of elements, a bitcast is a transpose in and a transpose out. If tiles differ,
// elements are laid out in memory with their padding and read back from the other addresses.
//
// Limits (24 dimensions, four tiles of eight dimensions each) keep all index arithmetic in arrays on the stack.
#include "hlo/eval/layout.h"

#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"

#define MAX_PHYSICAL_RANK 64
// Elements of memory per element of the array: real tiles have at most some thousands, around a scalar. Immense tiles
// would fill the machine's memory with padding.
#define MOST_PADDING (1 << 20)

// Dimensions of an array from major to minor as its layout orders them.
typedef struct Physical {
    int64_t rank;
    int64_t dims[MAX_PHYSICAL_RANK];         // major to minor
    int64_t permutation[MAX_PHYSICAL_RANK];  // logical dimension of each
    const HloInts *tiles;
    int64_t tile_count;
    bool is_identity;
} Physical;

// Returns false for layouts beyond those limits, and for tiles that are combined (negative sizes).
static bool describe(const HloShape *shape, Physical *physical) {
    assert(hlo_shape_is_array(shape));
    *physical = (Physical){.rank = shape->rank, .is_identity = true};
    if (shape->rank > 24) return false;
    const HloLayout *layout = shape->layout;
    bool ordered = layout && layout->minor_to_major.count == shape->rank;
    for (int64_t i = 0; i < shape->rank; i++) {
        int64_t dim = ordered ? layout->minor_to_major.items[shape->rank - 1 - i] : i;
        physical->permutation[i] = dim;
        physical->dims[i] = shape->dims[dim];
        physical->is_identity = physical->is_identity && dim == i;
    }
    if (!layout) return true;
    physical->tiles = layout->tiles;
    physical->tile_count = layout->tile_count;
    for (int64_t t = 0; t < layout->tile_count; t++) {
        for (int64_t i = 0; i < layout->tiles[t].count; i++) {
            if (layout->tiles[t].items[i] <= 0) return false;
        }
        if (layout->tiles[t].count > 8) return false;
    }
    return layout->tile_count <= 4;
}

// Splits the most minor dimensions of `index` below `dims` by a tile: [.., d0, d1] becomes [.., d0/t0, d1/t1, t0, t1].
static void apply_tile(HloInts tile, int64_t *dims, int64_t *index, int64_t *rank) {
    int64_t missing = tile.count > *rank ? tile.count - *rank : 0;
    if (missing) {
        memmove(dims + missing, dims, (size_t)*rank * sizeof(int64_t));
        memmove(index + missing, index, (size_t)*rank * sizeof(int64_t));
        for (int64_t i = 0; i < missing; i++) {
            dims[i] = 1;
            index[i] = 0;
        }
        *rank += missing;
    }
    int64_t first = *rank - tile.count;
    for (int64_t i = 0; i < tile.count; i++) {
        int64_t size = tile.items[i], at = first + i;
        dims[*rank + i] = size;
        index[*rank + i] = index[at] % size;
        dims[at] = dims[at] > 0 ? (dims[at] - 1) / size + 1 : 0;
        index[at] /= size;
    }
    *rank += tile.count;
}

// The address of the element at a physical (untiled) index, in elements, and the total that the array takes. -1 for
// both when 64 bits cannot count them: tiles may have any size.
static int64_t address(const Physical *physical, const int64_t *index, int64_t *total) {
    int64_t dims[MAX_PHYSICAL_RANK], position[MAX_PHYSICAL_RANK], rank = physical->rank;
    memcpy(dims, physical->dims, (size_t)rank * sizeof(int64_t));
    memcpy(position, index, (size_t)rank * sizeof(int64_t));
    for (int64_t t = 0; t < physical->tile_count; t++) apply_tile(physical->tiles[t], dims, position, &rank);
    int64_t offset = 0, size = 1;
    for (int64_t i = 0; i < rank; i++) {
        if (__builtin_mul_overflow(size, dims[i], &size)) {
            *total = -1;
            return -1;
        }
        offset = offset * dims[i] + position[i];  // below `size`
    }
    *total = size;
    return offset;
}

// Whether both orders are the same sequence of elements: same tiles over the same dimensions, or no tiles at all.
static bool same_sequence(const Physical *a, const Physical *b) {
    if (a->tile_count != b->tile_count) return false;
    if (a->tile_count == 0) return true;
    int64_t covered = 0;
    for (int64_t t = 0; t < a->tile_count; t++) {
        if (!hlo_ints_equal(a->tiles[t], b->tiles[t])) return false;
        if (a->tiles[t].count > covered) covered = a->tiles[t].count;
    }
    // Unit dimensions before the tiled ones do not count; the tiled ones must agree one by one.
    int64_t i = a->rank - 1, j = b->rank - 1;
    for (; i >= 0 && j >= 0 && (a->rank - i <= covered); i--, j--) {
        if (a->dims[i] != b->dims[j]) return false;
    }
    for (;;) {
        while (i >= 0 && a->dims[i] == 1) i--;
        while (j >= 0 && b->dims[j] == 1) j--;
        if (i < 0 || j < 0) return i < 0 && j < 0;
        if (a->dims[i--] != b->dims[j--]) return false;
    }
}

// Moves elements between the row-major order of the shape and that of its physical dimensions.
static void reorder(const Physical *physical, const char *from, char *to, int64_t bytes, bool to_physical) {
    assert(bytes > 0 && from && to);
    int64_t logical_dims[MAX_PHYSICAL_RANK], logical_strides[MAX_PHYSICAL_RANK], strides[MAX_PHYSICAL_RANK];
    int64_t seen[MAX_PHYSICAL_RANK];
    for (int64_t i = 0; i < physical->rank; i++) {
        if (physical->dims[i] == 0) return;
        logical_dims[physical->permutation[i]] = physical->dims[i];
    }
    hlo_eval_strides(logical_dims, physical->rank, logical_strides);
    hlo_eval_strides(physical->dims, physical->rank, strides);
    for (int64_t i = 0; i < physical->rank; i++) seen[i] = logical_strides[physical->permutation[i]];
    hlo_eval_copy_strided(to, to_physical ? strides : seen, from, to_physical ? seen : strides, physical->dims,
                          physical->rank, bytes);
}

// Moves elements through memory addresses: lays them out with their padding and reads them back.
static HloStatus through_memory(HloArena *scratch, const Physical *from, const char *source, const Physical *to,
                                char *target, int64_t bytes) {
    int64_t zero[MAX_PHYSICAL_RANK] = {0}, from_total, to_total;
    address(from, zero, &from_total);
    address(to, zero, &to_total);
    HLO_FAIL_IF(from_total < 0 || to_total < 0, HLO_RESOURCE_EXHAUSTED, "a bitcast through tiles of no known memory");
    int64_t total = from_total > to_total ? from_total : to_total;
    int64_t elements = 1;
    for (int64_t i = 0; i < from->rank; i++) elements *= from->dims[i];
    HLO_FAIL_IF(total / MOST_PADDING > elements, HLO_RESOURCE_EXHAUSTED, "a bitcast through tiles of no known memory");
    char *memory = hlo_arena_allocate(scratch, hlo_array_bytes((size_t)total, (size_t)bytes));
    int64_t at = 0, ignored;
    do {
        memcpy(memory + address(from, zero, &ignored) * bytes, source + at++ * bytes, (size_t)bytes);
    } while (hlo_eval_next_index(from->dims, from->rank, zero));
    at = 0;
    do {
        memcpy(target + at++ * bytes, memory + address(to, zero, &ignored) * bytes, (size_t)bytes);
    } while (hlo_eval_next_index(to->dims, to->rank, zero));
    return HLO_SUCCESS;
}

// Passes check this before they expand a bitcast into reshapes and transposes.
bool hlo_layouts_same_sequence(const HloShape *from_shape, const HloShape *to_shape) {
    assert(hlo_shape_is_array(from_shape) && hlo_shape_is_array(to_shape)); /* only arrays have layouts */
    Physical from, to;
    return describe(from_shape, &from) && describe(to_shape, &to) && same_sequence(&from, &to);
}

bool hlo_bitcast_is_reshape(const HloShape *from_shape, const HloShape *to_shape) {
    assert(hlo_shape_is_array(from_shape) && hlo_shape_is_array(to_shape)); /* only arrays have layouts */
    if (!from_shape->layout && !to_shape->layout) return true;
    Physical from, to;
    return describe(from_shape, &from) && describe(to_shape, &to) && from.is_identity && to.is_identity &&
           same_sequence(&from, &to);
}

// Both arrays are row-major; the layouts only describe the order in between.
static HloStatus move_elements(HloArena *scratch, const HloShape *from_shape, const HloShape *to_shape,
                               const void *source, void *target) {
    assert(hlo_shape_is_array(from_shape) && hlo_shape_is_array(to_shape)); /* only arrays have layouts */
    Physical from, to;
    int64_t bytes = hlo_type_bytes(to_shape->type), count = hlo_shape_elements(to_shape);
    HLO_FAIL_IF(!describe(from_shape, &from) || !describe(to_shape, &to), HLO_UNIMPLEMENTED,
                "a bitcast between these layouts");
    bool same = same_sequence(&from, &to);
    if (same && from.is_identity && to.is_identity && hlo_shape_bytes(from_shape) == hlo_shape_bytes(to_shape)) {
        memcpy(target, source, (size_t)hlo_shape_bytes(to_shape));
        return HLO_SUCCESS;
    }
    HLO_FAIL_IF(hlo_shape_elements(from_shape) != count || bytes != hlo_type_bytes(from_shape->type), HLO_UNIMPLEMENTED,
                "a bitcast between elements of different size");
    if (count == 0) return HLO_SUCCESS;
    char *first = hlo_arena_allocate_uninitialised(scratch, hlo_array_bytes((size_t)count, (size_t)bytes));
    reorder(&from, source, first, bytes, true);
    if (!same) {
        char *second = hlo_arena_allocate_uninitialised(scratch, hlo_array_bytes((size_t)count, (size_t)bytes));
        HLO_TRY(through_memory(scratch, &from, first, &to, second, bytes));
        first = second;
    }
    reorder(&to, first, target, bytes, false);
    return HLO_SUCCESS;
}

HloStatus hlo_bitcast_elements(HloArena *scratch, const HloShape *from, const HloShape *to, const void *source,
                               void *target) {
    HLO_TRY(move_elements(scratch, from, to, source, target));
    if (from->type != to->type) hlo_eval_normalise_bits(to->type, target, hlo_shape_elements(to));
    return HLO_SUCCESS;
}

// Tuples and tokens have no bytes of their own to reinterpret.
HloStatus hlo_eval_bitcast(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                           HloEvalValue **result) {
    const HloShape *from = instruction->operands[0]->shape, *to = instruction->shape;
    if (!hlo_shape_is_array(to) || !hlo_shape_is_array(from)) {
        *result = hlo_eval_take(operands, 0);
        return HLO_SUCCESS;
    }
    HLO_TRY(hlo_eval_new(device, to, result));
    return hlo_status_annotate(hlo_bitcast_elements(device->scratch, from, to, operands[0]->data, (*result)->data),
                               "%%%s", instruction->name);
}
