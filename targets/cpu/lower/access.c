// SPDX-License-Identifier: Apache-2.0
// Affine index expressions.
//
// An access defines which element of an array a loop reads at each point of its domain. It has one row per dimension of
// the array: index = constant + sum of coefficients times the loop's indices. Views (transposes, slices, reverses,
// broadcasts) turn one access into another without touching memory. A reshape is followed if its element numbers, as
// one linear expression, can be decomposed into the new dimensions.
#include "targets/cpu/lower/access.h"

#include <assert.h>
#include <string.h>

CpuAccess cpu_access_new(HloArena *arena, int64_t rank, int64_t loop_rank) {
    return (CpuAccess){(int32_t)rank, (int32_t)loop_rank, HLO_ARENA_NEW(arena, int64_t, rank * (1 + loop_rank))};
}

CpuAccess cpu_access_identity(HloArena *arena, int64_t rank) {
    const CpuAccess access = cpu_access_new(arena, rank, rank);
    for (int64_t j = 0; j < rank; j++) cpu_access_row(&access, j)[1 + j] = 1;
    return access;
}

// Returns the row-major element number as an expression; O(rank x loop rank).
int64_t *cpu_access_linear(HloArena *arena, const CpuAccess *access, const int64_t *dims) {
    int64_t *linear = HLO_ARENA_NEW(arena, int64_t, 1 + access->loop_rank);
    int64_t stride = 1;
    for (int64_t j = access->rank; j-- > 0;) {
        const int64_t *row = cpu_access_row(access, j);
        for (int64_t k = 0; k <= access->loop_rank; k++) linear[k] += stride * row[k];
        stride *= dims[j];
    }
    return linear;
}

// Adds the loop dimension with coefficient `step` (at least 0) to the one array dimension whose stride divides it. A
// step that spans two dimensions fits none, and the reshape cannot be followed.
static bool place_term(const CpuAccess *access, const int64_t *dims, int64_t term, int64_t step) {
    int64_t stride = 1;
    for (int64_t j = access->rank; j-- > 0;) {
        if (dims[j] > 1 && step >= stride && step < stride * dims[j] && step % stride == 0) {
            cpu_access_row(access, j)[term] = step / stride;
            return true;
        }
        stride *= dims[j];
    }
    return false;
}

// Checks that no dimension overflows into the next, then restores the signs; the rows so far contain |coefficients|.
// With magnitudes only, the maximum is easy to find: each index is largest where all loop indices are. A negative step
// begins at the far end, so its whole extent is added to the constant.
static bool resolve_rows(const CpuAccess *access, const int64_t *linear, const int64_t *loop_dims,
                         const int64_t *dims) {
    for (int64_t j = 0; j < access->rank; j++) {
        int64_t *row = cpu_access_row(access, j);
        int64_t high = row[0];
        for (int64_t k = 1; k <= access->loop_rank; k++) high += row[k] * (loop_dims[k - 1] - 1);
        if (high > dims[j] - 1) return false;
        for (int64_t k = 1; k <= access->loop_rank; k++) {
            if (linear[k] >= 0) continue;
            row[0] += row[k] * (loop_dims[k - 1] - 1);
            row[k] = -row[k];
        }
    }
    return true;
}

// Returns false if the expression cannot be decomposed: the array must then be stored. Empty loops read nothing, so any
// access is right.
bool cpu_access_from_linear(HloArena *arena, const int64_t *linear, const int64_t *loop_dims, int64_t loop_rank,
                            const int64_t *dims, int64_t rank, CpuAccess *result) {
    assert(loop_rank >= 0 && rank >= 0 && result);
    const CpuAccess access = cpu_access_new(arena, rank, loop_rank);
    int64_t low = linear[0];  // the lowest element number that is accessed
    for (int64_t k = 1; k <= loop_rank; k++) {
        if (loop_dims[k - 1] == 0) return *result = access, true;
        if (loop_dims[k - 1] == 1 || linear[k] == 0) continue;
        if (linear[k] < 0) low += linear[k] * (loop_dims[k - 1] - 1);
        if (!place_term(&access, dims, k, linear[k] < 0 ? -linear[k] : linear[k])) return false;
    }
    for (int64_t j = rank; j-- > 0;) {
        cpu_access_row(&access, j)[0] = dims[j] ? low % dims[j] : 0;
        low = dims[j] ? low / dims[j] : 0;
    }
    *result = access;
    return resolve_rows(&access, linear, loop_dims, dims);
}

static void copy_row(const CpuAccess *to, int64_t to_dimension, const CpuAccess *from, int64_t from_dimension) {
    memcpy(cpu_access_row(to, to_dimension), cpu_access_row(from, from_dimension),
           sizeof(int64_t) * (size_t)(1 + to->loop_rank));
}

// Replaces index by start + stride x index.
static void slice_row(int64_t *row, int64_t terms, int64_t start, int64_t stride) {
    for (int64_t k = 0; k < terms; k++) row[k] *= stride;
    row[0] += start;
}

// Turns an access to the node's result into one to its operand. The node must be a view.
CpuAccess cpu_access_through(HloArena *arena, const CpuAccess *access, const CpuNode *node) {
    assert(access && node);
    const HloShape *operand = node->operands[0]->shape;
    const CpuAccess inner = cpu_access_new(arena, operand->rank, access->loop_rank);
    const bool has_dimensions = hlo_op_info(node->opcode)->family == HLO_FAMILY_Dimensions;
    const HloInts dimensions =
        has_dimensions ? HLO_ATTRIBUTES(node->instruction, Dimensions)->dimensions : (HloInts){0};
    for (int64_t j = 0; j < operand->rank; j++) {
        if (node->opcode == HLO_OP_TRANSPOSE) continue;
        copy_row(&inner, j, access, node->opcode == HLO_OP_BROADCAST ? dimensions.items[j] : j);
        if (node->opcode != HLO_OP_SLICE) continue;
        const HloSliceAttributes *slice = HLO_ATTRIBUTES(node->instruction, Slice);
        // The stride of a slice with at most one element may be any number, and has no effect.
        const bool steps = slice->strides.count && node->results[0]->shape->dims[j] > 1;
        slice_row(cpu_access_row(&inner, j), 1 + inner.loop_rank, slice->starts.items[j],
                  steps ? slice->strides.items[j] : 1);
    }
    for (int64_t i = 0; i < dimensions.count && node->opcode == HLO_OP_TRANSPOSE; i++)
        copy_row(&inner, dimensions.items[i], access, i);
    for (int64_t i = 0; i < dimensions.count && node->opcode == HLO_OP_REVERSE; i++) {
        const int64_t d = dimensions.items[i];
        slice_row(cpu_access_row(&inner, d), 1 + inner.loop_rank, operand->dims[d] - 1, -1);
    }
    return inner;
}
