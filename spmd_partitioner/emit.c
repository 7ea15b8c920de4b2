// SPDX-License-Identifier: Apache-2.0
// Instructions of the program that is being written. Each function works out the shape, so that rules say what they
// mean in a line. Everything is appended to the computation of the current scope and carries the metadata of the op
// that is being partitioned. Constants, shard indices and the device number are made once a scope.
//
// A device's position is arithmetic on its number: a run of neighbouring atoms is a digit of it. On a mesh x=4,y=2 the
// number is 2x + y:
//     index along x           partition-id / 2
//     index along y           partition-id % 2
//     index along y, then x   (partition-id % 2) * 4 + partition-id / 2
// An offset is an index times the shard's size; a value that follows no formula is looked up in a constant table by
// index (spmd_emit_look_up).
//
// Rules rely on one convenience: an op that would change nothing (a slice of everything, a pad by nothing, a conversion
// to the same type, a concatenation of one) returns its operand.
#include "spmd_partitioner/emit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/complex.h"

// An array shape with the default layout.
// `dims` are copied into the module.
static const HloShape *array_shape(SpmdPartitioner *partitioner, HloType type, const int64_t *dims, int64_t rank) {
    HloArena *arena = spmd_arena(partitioner);
    return hlo_shape_with_default_layout(arena, hlo_shape_array(arena, type, dims, rank));
}

// A shape of these dims with the dynamic sizes of `like`.
static const HloShape *sized_as(SpmdPartitioner *partitioner, const HloShape *like, const HloShape *shape) {
    if (!hlo_shape_is_dynamic(like)) return shape;
    assert(shape->rank == like->rank); /* the same dimensions */
    HloShape *sized = hlo_arena_copy(spmd_arena(partitioner), shape, sizeof(*shape));
    sized->dynamic = hlo_arena_copy(spmd_arena(partitioner), like->dynamic, (size_t)like->rank * sizeof(bool));
    return sized;
}

// The shape of `like` with another element type and the default layout.
static const HloShape *typed(SpmdPartitioner *partitioner, const HloShape *like, HloType type) {
    return sized_as(partitioner, like, array_shape(partitioner, type, like->dims, like->rank));
}

const HloShape *spmd_with_dims(SpmdPartitioner *partitioner, const HloShape *like, const int64_t *dims) {
    return sized_as(partitioner, like, array_shape(partitioner, like->type, dims, like->rank));
}

const HloShape *spmd_resized(SpmdPartitioner *partitioner, const HloShape *like, int64_t dim, int64_t size) {
    assert(dim >= 0 && dim < like->rank && size >= 0); /* one of its dimensions */
    int64_t *dims = HLO_ARENA_NEW(spmd_arena(partitioner), int64_t, like->rank);
    memcpy(dims, like->dims, (size_t)like->rank * sizeof(int64_t));
    dims[dim] = size;
    return spmd_with_dims(partitioner, like, dims);
}

HloInstruction *spmd_emit(SpmdPartitioner *partitioner, HloOpcode opcode, const HloShape *shape,
                          HloInstruction *const *operands, int64_t operand_count, const void *attributes) {
    assert(shape && operand_count >= 0); /* the callers work shapes out */
    HloInstruction *made =
        hlo_instruction_new(partitioner->scope->target, opcode, shape, operands, operand_count, attributes, NULL);
    made->metadata = partitioner->metadata;
    return made;
}

// The result has the operand's shape.
HloInstruction *spmd_emit_unary(SpmdPartitioner *partitioner, HloOpcode opcode, HloInstruction *operand) {
    return spmd_emit(partitioner, opcode, operand->shape, &operand, 1, NULL);
}

// An elementwise op takes arrays of one size: where only one of two has a dynamic size (the other is a splat or a mask
// made here), the other gets it too.
static HloInstruction *with_sizes_of(SpmdPartitioner *partitioner, HloInstruction *like, HloInstruction *array) {
    HloArena *arena = spmd_arena(partitioner);
    for (int32_t d = 0; like->shape->dynamic && d < like->shape->rank; d++) {
        if (!like->shape->dynamic[d] || (array->shape->dynamic && array->shape->dynamic[d])) continue;
        const int64_t dim = d;
        HloDimensionsAttributes attributes = {hlo_ints(arena, &dim, 1)};
        HloInstruction *size = spmd_emit(partitioner, HLO_OP_GET_DIMENSION_SIZE,
                                         array_shape(partitioner, HLO_S32, NULL, 0), &like, 1, &attributes);
        HloShape *shape = hlo_arena_copy(arena, array->shape, sizeof(*shape));
        bool *dynamic = HLO_ARENA_NEW(arena, bool, shape->rank);
        for (int32_t e = 0; e < shape->rank; e++) dynamic[e] = e == d || (shape->dynamic && shape->dynamic[e]);
        shape->dynamic = dynamic;
        HloInstruction *operands[] = {array, size};
        array = spmd_emit(partitioner, HLO_OP_SET_DIMENSION_SIZE, shape, operands, 2, &attributes);
    }
    return array;
}

HloInstruction *spmd_emit_binary(SpmdPartitioner *partitioner, HloOpcode opcode, HloInstruction *a, HloInstruction *b) {
    a = with_sizes_of(partitioner, b, a);
    b = with_sizes_of(partitioner, a, b);
    assert(hlo_shape_equal(a->shape, b->shape, HLO_COMPARE_DIMS_ONLY)); /* elementwise: nothing is spread here */
    HloInstruction *operands[] = {a, b};
    return spmd_emit(partitioner, opcode, a->shape, operands, 2, NULL);
}

HloInstruction *spmd_emit_compare(SpmdPartitioner *partitioner, int32_t direction, HloInstruction *a,
                                  HloInstruction *b) {
    a = with_sizes_of(partitioner, b, a);
    b = with_sizes_of(partitioner, a, b);
    HloInstruction *operands[] = {a, b};
    HloCompareAttributes attributes = {.direction = direction};
    const HloShape *shape = typed(partitioner, a->shape, HLO_PRED);
    assert(hlo_shape_equal(a->shape, b->shape, HLO_COMPARE_DIMS_ONLY)); /* elementwise */
    return spmd_emit(partitioner, HLO_OP_COMPARE, shape, operands, 2, &attributes);
}

HloInstruction *spmd_emit_select(SpmdPartitioner *partitioner, HloInstruction *condition, HloInstruction *yes,
                                 HloInstruction *no) {
    yes = with_sizes_of(partitioner, no, yes);
    no = with_sizes_of(partitioner, yes, no);
    condition = with_sizes_of(partitioner, yes, condition);
    assert(hlo_shape_equal(yes->shape, no->shape, HLO_COMPARE_DIMS_ONLY)); /* elementwise */
    assert(condition->shape->type == HLO_PRED);                            /* what a comparison gives */
    HloInstruction *operands[] = {condition, yes, no};
    return spmd_emit(partitioner, HLO_OP_SELECT, yes->shape, operands, 3, NULL);
}

HloInstruction *spmd_emit_convert(SpmdPartitioner *partitioner, HloInstruction *operand, HloType type) {
    if (operand->shape->type == type) return operand;
    const HloShape *shape = typed(partitioner, operand->shape, type);
    assert(hlo_shape_is_array(operand->shape)); /* tuples and tokens have no type to convert */
    return spmd_emit(partitioner, HLO_OP_CONVERT, shape, &operand, 1, NULL);
}

// The literal must live in the module.
static HloInstruction *emit_literal(SpmdPartitioner *partitioner, const HloLiteral *literal) {
    HloConstantAttributes attributes = {literal};
    return spmd_emit(partitioner, HLO_OP_CONSTANT, literal->shape, NULL, 0, &attributes);
}

HloInstruction *spmd_emit_scalar(SpmdPartitioner *partitioner, HloType type, int64_t value) {
    uint64_t key = hlo_hash_mix((uint64_t)type + 1, (uint64_t)value);
    int64_t *found = hlo_int_map_find(&partitioner->scope->scalars, key);
    HloInstruction *known = found ? (HloInstruction *)(intptr_t)*found : NULL;
    if (known && known->shape->type == type) return known;
    HloLiteral *literal = hlo_literal_in_arena(spmd_arena(partitioner), array_shape(partitioner, type, NULL, 0));
    if (hlo_type_is_complex(type)) {
        hlo_literal_set_complex(literal, 0, (double)value);
    } else if (hlo_type_is_float(type)) {
        hlo_literal_set_double(literal, 0, (double)value);
    } else {
        hlo_literal_set_int64(literal, 0, value);
    }
    HloInstruction *made = emit_literal(partitioner, literal);
    hlo_int_map_set(partitioner->arena, &partitioner->scope->scalars, key, (intptr_t)made);
    return made;
}

// The largest or smallest value of an integer type, as the low bits of a 64-bit number.
// The greatest u64 is -1 in it.
static int64_t integer_limit(HloType type, bool largest) {
    assert(hlo_type_is_integer(type) || type == HLO_PRED);
    int bits = hlo_type_info(type)->bits;
    if (hlo_type_kind(type) == HLO_KIND_PRED) return largest;
    if (hlo_type_kind(type) == HLO_KIND_UNSIGNED) {
        if (!largest) return 0;
        return bits == 64 ? -1 : (int64_t)((UINT64_C(1) << bits) - 1);
    }
    int64_t maximum = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - 1)) - 1;
    return largest ? maximum : -maximum - 1;
}

// Infinities are not in the cache of scalars, whose key is an integer.
HloInstruction *spmd_emit_identity(SpmdPartitioner *partitioner, HloOpcode opcode, HloType type) {
    assert(hlo_type_bytes(type) > 0); /* of elements of an array */
    bool is_minmax = opcode == HLO_OP_MAXIMUM || opcode == HLO_OP_MINIMUM;
    if (is_minmax && (hlo_type_is_float(type) || hlo_type_is_complex(type))) {
        HloLiteral *literal = hlo_literal_in_arena(spmd_arena(partitioner), array_shape(partitioner, type, NULL, 0));
        const double value = hlo_float_limit(hlo_type_real_part(type), opcode == HLO_OP_MINIMUM);
        if (hlo_type_is_complex(type)) {  // compared part by part
            hlo_literal_set_complex(literal, 0, CMPLX(value, value));
        } else {
            hlo_literal_set_double(literal, 0, value);
        }
        return emit_literal(partitioner, literal);
    }
    if (is_minmax) return spmd_emit_scalar(partitioner, type, integer_limit(type, opcode == HLO_OP_MINIMUM));
    if (opcode == HLO_OP_AND) return spmd_emit_scalar(partitioner, type, type == HLO_PRED ? 1 : -1);
    return spmd_emit_scalar(partitioner, type, opcode == HLO_OP_MULTIPLY);
}

HloInstruction *spmd_emit_splat(SpmdPartitioner *partitioner, HloInstruction *scalar, const int64_t *dims,
                                int64_t rank) {
    assert(scalar->shape->rank == 0); /* it fills all of the result */
    HloDimensionsAttributes attributes = {{NULL, 0}};
    return spmd_emit(partitioner, HLO_OP_BROADCAST, array_shape(partitioner, scalar->shape->type, dims, rank), &scalar,
                     1, &attributes);
}

HloInstruction *spmd_emit_iota(SpmdPartitioner *partitioner, HloType type, const int64_t *dims, int64_t rank,
                               int64_t dim) {
    assert(dim >= 0 && dim < rank); /* the dimension that counts */
    HloIotaAttributes attributes = {dim};
    return spmd_emit(partitioner, HLO_OP_IOTA, array_shape(partitioner, type, dims, rank), NULL, 0, &attributes);
}

// Returns the shape with the dynamic sizes of `from`, whose dynamic dimensions are among its own: each follows as many
// elements as before, and is neither split nor merged.
static const HloShape *reshaped(SpmdPartitioner *partitioner, const HloShape *from, const HloShape *shape) {
    HloShape *sized = hlo_arena_copy(spmd_arena(partitioner), shape, sizeof(*shape));
    bool *dynamic = HLO_ARENA_NEW(spmd_arena(partitioner), bool, shape->rank);
    int32_t at = 0;
    int64_t before = 1, after = 1;
    for (int32_t d = 0; d < from->rank; after *= from->dims[d++]) {
        if (!from->dynamic[d]) continue;
        while (before < after || shape->dims[at] != from->dims[d]) before *= shape->dims[at++];
        assert(before == after); /* what is split or joined is static */
        dynamic[at] = true;
        before *= shape->dims[at++];
    }
    sized->dynamic = dynamic;
    return sized;
}

HloInstruction *spmd_emit_reshape(SpmdPartitioner *partitioner, HloInstruction *operand, const int64_t *dims,
                                  int64_t rank) {
    HloReshapeAttributes attributes = {HLO_ABSENT};
    const HloShape *shape = array_shape(partitioner, operand->shape->type, dims, rank);
    if (hlo_shape_is_dynamic(operand->shape)) shape = reshaped(partitioner, operand->shape, shape);
    return spmd_emit(partitioner, HLO_OP_RESHAPE, shape, &operand, 1, &attributes);
}

HloInstruction *spmd_emit_transpose(SpmdPartitioner *partitioner, HloInstruction *operand, const int64_t *permutation) {
    assert(operand && permutation);
    const HloShape *from = operand->shape;
    int64_t *dims = HLO_ARENA_NEW(spmd_arena(partitioner), int64_t, from->rank);
    for (int32_t i = 0; i < from->rank; i++) dims[i] = from->dims[permutation[i]];
    HloDimensionsAttributes attributes = {hlo_ints(spmd_arena(partitioner), permutation, from->rank)};
    HloShape *shape =
        hlo_arena_copy(spmd_arena(partitioner), array_shape(partitioner, from->type, dims, from->rank), sizeof(*shape));
    bool *dynamic = hlo_shape_is_dynamic(from) ? HLO_ARENA_NEW(spmd_arena(partitioner), bool, from->rank) : NULL;
    for (int32_t i = 0; dynamic && i < from->rank; i++) dynamic[i] = from->dynamic[permutation[i]];
    shape->dynamic = dynamic;
    return spmd_emit(partitioner, HLO_OP_TRANSPOSE, shape, &operand, 1, &attributes);
}

// Along one dimension; a slice of everything is the operand itself.
HloInstruction *spmd_emit_slice(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim, int64_t start,
                                int64_t limit, int64_t stride) {
    assert(dim >= 0 && dim < operand->shape->rank);
    const HloShape *shape = operand->shape;
    assert(start >= 0 && start <= limit && limit <= shape->dims[dim] && stride >= 1); /* inside of the array */
    if (start == 0 && limit == shape->dims[dim] && stride == 1) return operand;
    HloArena *arena = spmd_arena(partitioner);
    int64_t *starts = HLO_ARENA_NEW(arena, int64_t, shape->rank), *limits = HLO_ARENA_NEW(arena, int64_t, shape->rank);
    int64_t *strides = HLO_ARENA_NEW(arena, int64_t, shape->rank);
    for (int32_t i = 0; i < shape->rank; i++) {
        limits[i] = shape->dims[i];
        strides[i] = 1;
    }
    starts[dim] = start;
    limits[dim] = limit;
    strides[dim] = stride;
    HloSliceAttributes attributes = {{starts, shape->rank}, {limits, shape->rank}, {strides, shape->rank}};
    int64_t size = limit > start ? hlo_divide_up(limit - start, stride) : 0;
    return spmd_emit(partitioner, HLO_OP_SLICE, spmd_resized(partitioner, shape, dim, size), &operand, 1, &attributes);
}

// HLO clamps the start, so an index may be anything if the elements that it selects are masked later.
HloInstruction *spmd_emit_dynamic_slice(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim,
                                        HloInstruction *index, int64_t size) {
    assert(dim >= 0 && dim < operand->shape->rank);
    const HloShape *shape = operand->shape;
    assert(size >= 0 && size <= shape->dims[dim]); /* inside of the array */
    assert(index->shape->rank == 0);               /* one place along one dimension */
    if (size == shape->dims[dim]) return operand;
    if (hlo_is(index, HLO_OP_CONSTANT)) {
        const int64_t last = shape->dims[dim] - size, at = hlo_literal_get_int64(hlo_constant_literal(index), 0);
        const int64_t start = at < 0 ? 0 : at > last ? last : at;
        return spmd_emit_slice(partitioner, operand, dim, start, start + size, 1);
    }
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, shape->rank + 1);
    operands[0] = operand;
    HloInstruction *zero = shape->rank > 1 ? spmd_emit_scalar(partitioner, index->shape->type, 0) : NULL;
    for (int32_t i = 0; i < shape->rank; i++) operands[i + 1] = i == dim ? index : zero;
    const HloShape *result = spmd_resized(partitioner, shape, dim, size);
    HloDynamicSliceAttributes attributes = {{result->dims, result->rank}};
    return spmd_emit(partitioner, HLO_OP_DYNAMIC_SLICE, result, operands, shape->rank + 1, &attributes);
}

// Negative amounts remove elements. Without a value the padding is zeros, which will do for types without a zero and
// where the padding is never read.
HloInstruction *spmd_emit_pad(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim, int64_t low,
                              int64_t high, HloInstruction *value) {
    assert(dim >= 0 && dim < operand->shape->rank);
    const HloShape *shape = operand->shape;
    assert(shape->dims[dim] + low + high >= 0); /* no more is cut away than there is */
    assert(!value || value->shape->rank == 0);  /* one element, many times */
    if (low == 0 && high == 0) return operand;
    HloPadDimension *padding = HLO_ARENA_NEW(spmd_arena(partitioner), HloPadDimension, shape->rank);
    padding[dim] = (HloPadDimension){low, high, 0};
    HloPadAttributes attributes = {{padding, shape->rank}};
    HloInstruction *operands[] = {operand, value ? value : spmd_emit_scalar(partitioner, shape->type, 0)};
    return spmd_emit(partitioner, HLO_OP_PAD, spmd_resized(partitioner, shape, dim, shape->dims[dim] + low + high),
                     operands, 2, &attributes);
}

HloInstruction *spmd_emit_concatenate(SpmdPartitioner *partitioner, HloInstruction *const *parts, int64_t count,
                                      int64_t dim) {
    assert(count > 0); /* nothing has no shape */
    if (count == 1) return parts[0];
    int64_t size = 0;
    for (int64_t i = 0; i < count; i++) size += parts[i]->shape->dims[dim];
    HloDimensionsAttributes attributes = {hlo_ints(spmd_arena(partitioner), &dim, 1)};
    return spmd_emit(partitioner, HLO_OP_CONCATENATE, spmd_resized(partitioner, parts[0]->shape, dim, size), parts,
                     count, &attributes);
}

// One computation for each op and type serves all collectives.
HloComputation *spmd_reducer(SpmdPartitioner *partitioner, HloOpcode opcode, HloType type) {
    uint64_t key = (uint64_t)opcode * HLO_TYPE_COUNT + (uint64_t)type + 1;
    int64_t *found = hlo_int_map_find(&partitioner->reducers, key);
    if (found) return (HloComputation *)(intptr_t)*found;
    static const char *const names[] = {"x", "y"};
    HloComputation *made = hlo_computation_new_binary(partitioner->module, hlo_op_text(opcode), opcode,
                                                      array_shape(partitioner, type, NULL, 0), names);
    hlo_int_map_set(partitioner->arena, &partitioner->reducers, key, (intptr_t)made);
    return made;
}

// ---- where this device is ----

// As s32, the type that indices have.
HloInstruction *spmd_emit_device(SpmdPartitioner *partitioner) {
    SpmdScope *scope = partitioner->scope;
    if (!scope->device) {
        const HloShape *shape = array_shape(partitioner, HLO_U32, NULL, 0);
        HloInstruction *id = spmd_emit(partitioner, HLO_OP_PARTITION_ID, shape, NULL, 0, NULL);
        scope->device = spmd_emit_convert(partitioner, id, HLO_S32);
    }
    return scope->device;
}

// One run of neighbouring atoms as a digit of the device number: device / stride % size.
static HloInstruction *emit_digit(SpmdPartitioner *partitioner, int64_t stride, int64_t size) {
    assert(stride > 0 && size > 1); /* of atoms, which are primes */
    HloInstruction *digit = spmd_emit_device(partitioner);
    if (stride > 1) {
        digit = spmd_emit_binary(partitioner, HLO_OP_DIVIDE, digit, spmd_emit_scalar(partitioner, HLO_S32, stride));
    }
    if (stride * size == partitioner->mesh->device_count) return digit;
    return spmd_emit_binary(partitioner, HLO_OP_REMAINDER, digit, spmd_emit_scalar(partitioner, HLO_S32, size));
}

// Neighbouring atoms of the mesh are one digit of the device number, so that most indices are one division and one
// remainder.
// For lists that take atoms of the mesh in another order, one term a run, major to minor.
static HloInstruction *emit_index(SpmdPartitioner *partitioner, const SpmdAxes *axes) {
    const SpmdMesh *mesh = partitioner->mesh;
    HloInstruction *index = NULL;
    for (int32_t i = 0; i < axes->count;) {
        int64_t size = mesh->atoms[axes->items[i]].size;
        int32_t next = i + 1;
        while (next < axes->count && axes->items[next] == axes->items[next - 1] + 1) {
            size *= mesh->atoms[axes->items[next++]].size;
        }
        HloInstruction *digit = emit_digit(partitioner, mesh->atoms[axes->items[next - 1]].stride, size);
        if (index) {
            index = spmd_emit_binary(partitioner, HLO_OP_MULTIPLY, index, spmd_emit_scalar(partitioner, HLO_S32, size));
            index = spmd_emit_binary(partitioner, HLO_OP_ADD, index, digit);
        } else {
            index = digit;
        }
        i = next;
    }
    return index ? index : spmd_emit_scalar(partitioner, HLO_S32, 0);
}

// Cached by a hash of the list.
HloInstruction *spmd_emit_index(SpmdPartitioner *partitioner, const SpmdAxes *axes) {
    uint64_t key = hlo_hash_mix(axes->count, hlo_hash_bytes(axes->items, axes->count));
    int64_t *found = hlo_int_map_find(&partitioner->scope->indices, key);
    if (found) return (HloInstruction *)(intptr_t)*found;
    HloInstruction *index = emit_index(partitioner, axes);
    hlo_int_map_set(partitioner->arena, &partitioner->scope->indices, key, (intptr_t)index);
    return index;
}

// s32 as long as no device's offset can overflow it.
HloInstruction *spmd_emit_offset(SpmdPartitioner *partitioner, const SpmdAxes *axes, int64_t shard_size) {
    assert(shard_size >= 0); /* of a dimension */
    HloInstruction *index = spmd_emit_index(partitioner, axes);
    if (shard_size == 1) return index;
    HloType type = shard_size > INT32_MAX / partitioner->mesh->device_count ? HLO_S64 : HLO_S32;
    return spmd_emit_binary(partitioner, HLO_OP_MULTIPLY, spmd_emit_convert(partitioner, index, type),
                            spmd_emit_scalar(partitioner, type, shard_size));
}

HloType spmd_place_type(int64_t reach) {
    assert(reach >= 0);
    return reach > INT32_MAX / 2 ? HLO_S64 : HLO_S32;
}

HloInstruction *spmd_emit_integers(SpmdPartitioner *partitioner, HloType type, const int64_t *values,
                                   const int64_t *dims, int64_t rank) {
    assert(type == HLO_S32 || type == HLO_S64);
    HloLiteral *literal = hlo_literal_in_arena(spmd_arena(partitioner), array_shape(partitioner, type, dims, rank));
    const int64_t count = hlo_shape_elements(literal->shape);
    for (int64_t i = 0; i < count; i++) {
        if (type == HLO_S64)
            ((int64_t *)literal->data)[i] = values[i];
        else
            ((int32_t *)literal->data)[i] = (int32_t)values[i];
    }
    return emit_literal(partitioner, literal);
}

// A number for each position along the axes: worked out where they are in equal steps, else an element of a constant
// table.
HloInstruction *spmd_emit_look_up(SpmdPartitioner *partitioner, const SpmdAxes *axes, const int64_t *table,
                                  int64_t count) {
    assert(count > 0 && table);
    assert(count == spmd_axes_product(partitioner->mesh, axes)); /* an entry a position */
    const int64_t step = count > 1 ? table[1] - table[0] : 0;
    bool even = true;
    int64_t reach = 0;
    for (int64_t i = 0; i < count; i++) {
        even &= table[i] == table[0] + i * step;
        if (llabs(table[i]) > reach) reach = llabs(table[i]);
    }
    HloType type = spmd_place_type(reach);
    if (even && !step) return spmd_emit_scalar(partitioner, type, table[0]);
    HloInstruction *index = spmd_emit_index(partitioner, axes);
    if (even) {
        index = spmd_emit_convert(partitioner, index, type);
        if (step != 1)
            index = spmd_emit_binary(partitioner, HLO_OP_MULTIPLY, index, spmd_emit_scalar(partitioner, type, step));
        if (!table[0]) return index;
        return spmd_emit_binary(partitioner, HLO_OP_ADD, index, spmd_emit_scalar(partitioner, type, table[0]));
    }
    HloInstruction *whole = spmd_emit_integers(partitioner, type, table, &count, 1);
    HloInstruction *row = spmd_emit_dynamic_slice(partitioner, whole, 0, index, 1);
    return spmd_emit_reshape(partitioner, row, NULL, 0);
}

// limit - offset is worked out as a scalar, so that the comparison of arrays needs no addition.
HloInstruction *spmd_emit_before(SpmdPartitioner *partitioner, const HloShape *shape, int64_t dim, const SpmdAxes *axes,
                                 int64_t limit) {
    assert(dim >= 0 && dim < shape->rank); /* one of its dimensions */
    HloInstruction *offset = spmd_emit_offset(partitioner, axes, shape->dims[dim]);
    HloType type = offset->shape->type;
    HloInstruction *room =
        spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, spmd_emit_scalar(partitioner, type, limit), offset);
    HloInstruction *position = spmd_emit_iota(partitioner, type, shape->dims, shape->rank, dim);
    return spmd_emit_compare(partitioner, HLO_ComparisonDirection_LT, position,
                             spmd_emit_splat(partitioner, room, shape->dims, shape->rank));
}

HloInstruction *spmd_emit_mask(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim, const SpmdAxes *axes,
                               int64_t limit, HloInstruction *value) {
    const HloShape *shape = operand->shape;
    assert(dim >= 0 && dim < shape->rank); /* one of its dimensions */
    assert(limit >= 0);
    assert(value->shape->rank == 0); /* the value beyond the limit */
    int64_t size = shape->dims[dim];
    if (size * spmd_axes_product(partitioner->mesh, axes) <= limit) return operand;
    HloInstruction *inside = spmd_emit_before(partitioner, shape, dim, axes, limit);
    return spmd_emit_select(partitioner, inside, operand,
                            spmd_emit_splat(partitioner, value, shape->dims, shape->rank));
}
