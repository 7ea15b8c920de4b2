// SPDX-License-Identifier: Apache-2.0
// Strided copies, and the ops that only move elements.
//
// Arrays are dense and row-major, so an op that moves elements is a walk over a block with different strides on either
// side: zero to repeat, negative to reverse, a multiple to step, exchanged to transpose. All of them end in
// hlo_eval_copy_strided(), whose innermost loop is over elements of one width and does not depend on types.
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/eval/internal.h"

void hlo_eval_strides(const int64_t *dims, int64_t rank, int64_t *strides) {
    assert(rank >= 0);
    int64_t stride = 1;
    for (int64_t i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= dims[i];
    }
}

bool hlo_eval_next_index(const int64_t *dims, int64_t rank, int64_t *index) {
    for (int64_t i = rank - 1; i >= 0; i--) {
        if (++index[i] < dims[i]) return true;
        index[i] = 0;
    }
    return false;
}

void hlo_eval_fill(void *target, const void *element, int64_t element_bytes, int64_t count) {
    assert(element_bytes > 0 && count >= 0);
    if (count <= 0) return;
    size_t total = (size_t)(element_bytes * count), done = (size_t)element_bytes;
    char *bytes = target;
    memmove(bytes, element, done);
    while (done < total) {
        size_t step = done < total - done ? done : total - done;
        memcpy(bytes + done, bytes, step);
        done += step;
    }
}

#define COPY_LOOP(type)                                                                      \
    do {                                                                                     \
        for (int64_t i = 0; i < count; i++) {                                                \
            ((type *)target)[i * target_stride] = ((const type *)source)[i * source_stride]; \
        }                                                                                    \
    } while (0)

typedef struct Wide {
    uint64_t parts[2];
} Wide;

// `count` elements along one dimension; types are copied by width, c128 as two words.
static void copy_run(char *target, int64_t target_stride, const char *source, int64_t source_stride, int64_t count,
                     int64_t element_bytes) {
    if (target_stride == 1 && source_stride == 1) {
        memcpy(target, source, (size_t)(count * element_bytes));
        return;
    }
    switch (element_bytes) {
        case 1: COPY_LOOP(uint8_t); return;
        case 2: COPY_LOOP(uint16_t); return;
        case 4: COPY_LOOP(uint32_t); return;
        case 8: COPY_LOOP(uint64_t); return;
        default: COPY_LOOP(Wide);
    }
}

// Recurses once for each dimension of more than one element. Callers must handle dimensions of size 0.
void hlo_eval_copy_strided(char *target, const int64_t *target_strides, const char *source,
                           const int64_t *source_strides, const int64_t *dims, int64_t rank, int64_t element_bytes) {
    assert(rank >= 0 && element_bytes > 0);
    while (rank > 0 && dims[0] == 1) dims++, target_strides++, source_strides++, rank--;
    if (rank == 0) {
        memcpy(target, source, (size_t)element_bytes);
    } else if (rank == 1) {
        copy_run(target, target_strides[0], source, source_strides[0], dims[0], element_bytes);
    } else {
        for (int64_t i = 0; i < dims[0]; i++) {
            hlo_eval_copy_strided(target + i * target_strides[0] * element_bytes, target_strides + 1,
                                  source + i * source_strides[0] * element_bytes, source_strides + 1, dims + 1,
                                  rank - 1, element_bytes);
        }
    }
}

// Nothing to copy.
static bool any_zero(const int64_t *dims, int64_t rank) {
    for (int64_t i = 0; i < rank; i++) {
        if (dims[i] <= 0) return true;
    }
    return false;
}

// Reads a source array with the given strides, in the order of the result.
static HloStatus gather_strided(HloEvalDevice *device, const HloInstruction *instruction, const char *source,
                                const int64_t *source_strides, HloEvalValue **result) {
    const HloShape *shape = instruction->shape;
    HLO_TRY(hlo_eval_new(device, shape, result));
    if (any_zero(shape->dims, shape->rank)) return HLO_SUCCESS;
    int64_t *strides = HLO_EVAL_SCRATCH(device, int64_t, shape->rank);
    hlo_eval_strides(shape->dims, shape->rank, strides);
    hlo_eval_copy_strided((*result)->data, strides, source, source_strides, shape->dims, shape->rank,
                          hlo_type_bytes(shape->type));
    return HLO_SUCCESS;
}

// The result's actual sizes follow from the operand's: result dimension map[i] has the size of operand dimension i.
static HloStatus carry_sizes(HloEvalDevice *device, const HloEvalValue *operand, const int64_t *map,
                             HloEvalValue *result) {
    if (!operand->sizes) return HLO_SUCCESS;
    int64_t rank = result->shape->rank;
    int64_t *sizes = HLO_EVAL_SCRATCH(device, int64_t, rank);
    for (int64_t i = 0; i < rank; i++) sizes[i] = result->shape->dims[i];
    for (int32_t i = 0; i < operand->shape->rank; i++) sizes[map ? map[i] : i] = operand->sizes[i];
    return hlo_eval_set_sizes(device, result, sizes);
}

// New dimensions have stride 0 in the source; so have those of size one.
HloStatus hlo_eval_broadcast(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                             HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_BROADCAST));
    const HloEvalValue *operand = operands[0];
    HloInts dimensions = HLO_ATTRIBUTES(instruction, Dimensions)->dimensions;
    const HloShape *shape = instruction->shape, *from = operand->shape;
    if (from->rank == 0 || hlo_shape_elements(from) == 1) {
        HLO_TRY(hlo_eval_new(device, shape, result));
        hlo_eval_fill((*result)->data, operand->data, hlo_type_bytes(shape->type), hlo_shape_elements(shape));
        return carry_sizes(device, operand, dimensions.items, *result);
    }
    int64_t *strides = HLO_EVAL_SCRATCH(device, int64_t, from->rank);
    int64_t *source_strides = HLO_ARENA_NEW(device->scratch, int64_t, shape->rank);
    hlo_eval_strides(from->dims, from->rank, strides);
    for (int32_t i = 0; i < from->rank; i++) {
        if (from->dims[i] != 1) source_strides[dimensions.items[i]] = strides[i];
    }
    HLO_TRY(gather_strided(device, instruction, operand->data, source_strides, result));
    return carry_sizes(device, operand, dimensions.items, *result);
}

// The source is walked in the order of the target.
void hlo_eval_transpose_into(HloEvalDevice *device, const HloEvalValue *value, const int64_t *permutation,
                             void *target) {
    assert(value->shape->rank >= 0 && target);
    int64_t rank = value->shape->rank;
    int64_t *strides = HLO_EVAL_SCRATCH(device, int64_t, rank),
            *source_strides = HLO_EVAL_SCRATCH(device, int64_t, rank);
    int64_t *dims = HLO_EVAL_SCRATCH(device, int64_t, rank), *target_strides = HLO_EVAL_SCRATCH(device, int64_t, rank);
    if (any_zero(value->shape->dims, rank)) return;
    hlo_eval_strides(value->shape->dims, rank, strides);
    for (int64_t i = 0; i < rank; i++) {
        dims[i] = value->shape->dims[permutation[i]];
        source_strides[i] = strides[permutation[i]];
    }
    hlo_eval_strides(dims, rank, target_strides);
    hlo_eval_copy_strided(target, target_strides, value->data, source_strides, dims, rank,
                          hlo_type_bytes(value->shape->type));
}

// Actual sizes move with their dimensions.
HloStatus hlo_eval_transpose(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                             HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_TRANSPOSE));
    const int64_t *permutation = HLO_ATTRIBUTES(instruction, Dimensions)->dimensions.items;
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    hlo_eval_transpose_into(device, operands[0], permutation, (*result)->data);
    if (!operands[0]->sizes) return HLO_SUCCESS;
    int64_t rank = instruction->shape->rank, *sizes = HLO_EVAL_SCRATCH(device, int64_t, rank);
    for (int64_t i = 0; i < rank; i++) sizes[i] = operands[0]->sizes[permutation[i]];
    return hlo_eval_set_sizes(device, *result, sizes);
}

// A reshape keeps row-major order: the data is unchanged.
HloStatus hlo_eval_reshape(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                           HloEvalValue **result) {
    if (operands[0]->sizes) return hlo_eval_dynamic_reshape(device, instruction, operands, result);
    return hlo_eval_with_shape(device, operands[0], instruction->shape, result);
}

// Starts at the last actual element, not at the last of the bounds.
HloStatus hlo_eval_reverse(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                           HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_REVERSE));
    const HloEvalValue *operand = operands[0];
    const HloShape *shape = instruction->shape;
    HloInts dimensions = HLO_ATTRIBUTES(instruction, Dimensions)->dimensions;
    int64_t *strides = HLO_EVAL_SCRATCH(device, int64_t, shape->rank);
    hlo_eval_strides(shape->dims, shape->rank, strides);
    int64_t offset = 0;
    for (int64_t i = 0; i < dimensions.count; i++) {
        int64_t dim = dimensions.items[i], size = hlo_eval_size(operand, dim);
        if (size > 0) offset += (size - 1) * strides[dim];
        strides[dim] = -strides[dim];
    }
    return gather_strided(device, instruction, (const char *)operand->data + offset * hlo_type_bytes(shape->type),
                          strides, result);
}

// The block of the operand that starts at `starts` and steps by `steps`.
static HloStatus take_block(HloEvalDevice *device, const HloInstruction *instruction, const HloEvalValue *operand,
                            const int64_t *starts, const int64_t *steps, HloEvalValue **result) {
    assert(starts && result);
    const HloShape *from = operand->shape;
    int64_t *strides = HLO_EVAL_SCRATCH(device, int64_t, from->rank), offset = 0;
    hlo_eval_strides(from->dims, from->rank, strides);
    for (int32_t i = 0; i < from->rank; i++) {
        offset += starts[i] * strides[i];
        if (steps) strides[i] *= steps[i];
    }
    return gather_strided(device, instruction, (const char *)operand->data + offset * hlo_type_bytes(from->type),
                          strides, result);
}

// Result sizes are static unless the shape is dynamic: a slice of a dynamic array may be within the part that always
// exists.
HloStatus hlo_eval_slice(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                         HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_SLICE));
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(instruction, Slice);
    HLO_TRY(take_block(device, instruction, operands[0], slice->starts.items,
                       slice->strides.count ? slice->strides.items : NULL, result));
    if (!operands[0]->sizes) return HLO_SUCCESS;
    int64_t rank = instruction->shape->rank, *sizes = HLO_EVAL_SCRATCH(device, int64_t, rank);
    for (int64_t i = 0; i < rank; i++) {
        int64_t step = slice->strides.count ? slice->strides.items[i] : 1;
        int64_t left = operands[0]->sizes[i] - slice->starts.items[i];
        int64_t size = left <= 0 ? 0 : hlo_divide_up(left, step);
        const bool dynamic = instruction->shape->dynamic && instruction->shape->dynamic[i];
        sizes[i] = dynamic && size < instruction->shape->dims[i] ? size : instruction->shape->dims[i];
    }
    return hlo_eval_set_sizes(device, *result, sizes);
}

// Reads start indices (scalars, or one vector as in old programs) and clamps them so that `block` fits.
static int64_t *read_starts(HloEvalDevice *device, const HloEvalValue *operand, HloEvalValue *const *indices,
                            int64_t index_count, const int64_t *block) {
    assert(index_count >= 0 && index_count <= operand->shape->rank);
    int64_t rank = operand->shape->rank;
    int64_t *starts = HLO_EVAL_SCRATCH(device, int64_t, rank);
    bool vector = index_count == 1 && indices[0]->shape->rank == 1;
    for (int64_t i = 0; i < rank; i++) {
        const HloEvalValue *index = indices[vector ? 0 : i];
        int64_t start = hlo_eval_integer_at(index, vector ? i : 0);
        int64_t limit = operand->shape->dims[i] - block[i];
        if (index->shape->type == HLO_U64 && start < 0) start = limit;  // beyond 2^63
        starts[i] = start < 0 ? 0 : start > limit ? limit : start;
    }
    return starts;
}

// A block at clamped starts.
HloStatus hlo_eval_dynamic_slice(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                 HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_DYNAMIC_SLICE));
    const int64_t *starts =
        read_starts(device, operands[0], operands + 1, instruction->operand_count - 1, instruction->shape->dims);
    return take_block(device, instruction, operands[0], starts, NULL, result);
}

// Updates the operand's own memory if there is no other reference to it, else a copy.
HloStatus hlo_eval_dynamic_update_slice(HloEvalDevice *device, const HloInstruction *instruction,
                                        HloEvalValue **operands, HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_DYNAMIC_UPDATE_SLICE));
    const HloEvalValue *update = operands[1];
    const int64_t *starts =
        read_starts(device, operands[0], operands + 2, instruction->operand_count - 2, update->shape->dims);
    HLO_TRY(hlo_eval_with_shape(device, operands[0], instruction->shape, result));
    const HloShape *shape = instruction->shape;
    int64_t rank = shape->rank, bytes = hlo_type_bytes(shape->type), offset = 0;
    const int64_t *block = update->sizes ? update->sizes : update->shape->dims;  // the actual sizes of the update
    if (any_zero(block, rank)) return HLO_SUCCESS;
    int64_t *strides = HLO_EVAL_SCRATCH(device, int64_t, rank),
            *update_strides = HLO_EVAL_SCRATCH(device, int64_t, rank);
    hlo_eval_strides(shape->dims, rank, strides);
    hlo_eval_strides(update->shape->dims, rank, update_strides);
    for (int64_t i = 0; i < rank; i++) offset += starts[i] * strides[i];
    hlo_eval_copy_strided((char *)(*result)->data + offset * bytes, strides, update->data, update_strides, block, rank,
                          bytes);
    return HLO_SUCCESS;
}

// Row-major arrays: everything from the concatenated dimension inwards is one run of bytes in each operand.
HloStatus hlo_eval_concatenate(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                               HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_CONCATENATE));
    const HloShape *shape = instruction->shape;
    int64_t dim = HLO_ATTRIBUTES(instruction, Dimensions)->dimensions.items[0];
    HLO_TRY(hlo_eval_new(device, shape, result));
    int64_t inner = hlo_type_bytes(shape->type), outer = 1;
    for (int64_t i = 0; i < dim; i++) outer *= shape->dims[i];
    for (int64_t i = dim + 1; i < shape->rank; i++) inner *= shape->dims[i];
    char *target = (*result)->data;
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        int64_t run = operands[k]->shape->dims[dim] * inner, row = shape->dims[dim] * inner;
        const char *source = operands[k]->data;
        if (run == 0) continue;
        for (int64_t i = 0; i < outer; i++) memcpy(target + i * row, source + i * run, (size_t)run);
        target += run;
    }
    return HLO_SUCCESS;
}

// The part of one dimension of the operand that is inside the padded result: indices first .. first+count-1.
static void visible_range(const HloPadDimension *padding, int64_t size, int64_t result_size, int64_t *first,
                          int64_t *count) {
    assert(size >= 0 && result_size >= 0);
    int64_t step = padding->interior + 1, start = 0, end = size;
    if (padding->low < 0) start = hlo_divide_up(-padding->low, step);
    int64_t room = result_size - padding->low;  // positions below this one are inside
    int64_t fit = room <= 0 ? 0 : hlo_divide_up(room, step);
    if (fit < end) end = fit;
    *first = start;
    *count = end > start ? end - start : 0;
}

// Fills the result with the padding value, then copies the operand over it with strides that skip interior padding.
// Negative padding trims the operand, so only the part inside is copied.
HloStatus hlo_eval_pad(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                       HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_PAD));
    const HloEvalValue *operand = operands[0];
    const HloShape *shape = instruction->shape, *from = operand->shape;
    const HloPadDimension *padding = HLO_ATTRIBUTES(instruction, Pad)->padding.items;
    int64_t rank = shape->rank, bytes = hlo_type_bytes(shape->type);
    HLO_TRY(hlo_eval_new(device, shape, result));
    hlo_eval_fill((*result)->data, operands[1]->data, bytes, hlo_shape_elements(shape));
    int64_t *strides = HLO_EVAL_SCRATCH(device, int64_t, rank),
            *source_strides = HLO_EVAL_SCRATCH(device, int64_t, rank);
    int64_t *dims = HLO_EVAL_SCRATCH(device, int64_t, rank), source = 0, target = 0;
    hlo_eval_strides(shape->dims, rank, strides);
    hlo_eval_strides(from->dims, rank, source_strides);
    for (int64_t i = 0; i < rank; i++) {
        int64_t first, step = padding[i].interior + 1;
        visible_range(&padding[i], from->dims[i], shape->dims[i], &first, &dims[i]);
        source += first * source_strides[i];
        target += (padding[i].low + first * step) * strides[i];
        strides[i] *= step;
    }
    if (any_zero(dims, rank)) return HLO_SUCCESS;
    hlo_eval_copy_strided((char *)(*result)->data + target * bytes, strides,
                          (const char *)operand->data + source * bytes, source_strides, dims, rank, bytes);
    return HLO_SUCCESS;
}

// One element is encoded for each index along the dimension and repeated; narrow types round as a conversion from the
// index does.
HloStatus hlo_eval_iota(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                        HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_IOTA));
    (void)operands;
    const HloShape *shape = instruction->shape;
    int64_t dim = HLO_ATTRIBUTES(instruction, Iota)->dimension, outer = 1, inner = 1;
    HLO_TRY(hlo_eval_new(device, shape, result));
    int64_t size = shape->rank ? shape->dims[dim] : 1, bytes = hlo_type_bytes(shape->type);
    for (int64_t i = 0; i < dim; i++) outer *= shape->dims[i];
    for (int64_t i = dim + 1; i < shape->rank; i++) inner *= shape->dims[i];
    if (hlo_shape_elements(shape) == 0) return HLO_SUCCESS;
    char *target = (*result)->data;
    for (int64_t k = 0; k < size; k++) {
        char element[16];
        double real = (double)k;
        double _Complex number = real;
        if (hlo_type_is_complex(shape->type)) {
            hlo_eval_encode_complex(shape->type, &number, 1, element);
        } else if (hlo_type_is_float(shape->type)) {
            hlo_eval_encode_double(shape->type, &real, 1, element);
        } else {
            hlo_eval_encode_int64(shape->type, &k, 1, element);
        }
        hlo_eval_fill(target + k * inner * bytes, element, bytes, inner);
    }
    int64_t block = size * inner * bytes;
    for (int64_t i = 1; i < outer; i++) memcpy(target + i * block, target, (size_t)block);
    return HLO_SUCCESS;
}
