// SPDX-License-Identifier: Apache-2.0
// Accesses: which element of an array an iteration of a loop uses, as one affine expression of the loop's indices per
// dimension.
#ifndef MESHLO_TARGETS_CPU_LOWER_ACCESS_H_
#define MESHLO_TARGETS_CPU_LOWER_ACCESS_H_

#include "targets/cpu/graph/graph.h"

HLO_BEGIN_C

// index[j] = terms[j][0] + sum over k of terms[j][1 + k] * i[k], for the array dimensions j and loop dimensions k.
typedef struct CpuAccess {
    int32_t rank;  // of the array
    int32_t loop_rank;
    int64_t *terms;  // rank rows of 1 + loop_rank numbers
} CpuAccess;

// Returns the 1 + loop_rank terms of one array dimension.
static inline int64_t *cpu_access_row(const CpuAccess *access, int64_t dimension) {
    return access->terms + dimension * (1 + access->loop_rank);
}

// Returns an access of zeros.
CpuAccess cpu_access_new(HloArena *arena, int64_t rank, int64_t loop_rank);
// Returns the access in which dimension j is loop dimension j.
CpuAccess cpu_access_identity(HloArena *arena, int64_t rank);
// Returns offset[0] and strides[k] of the element number in a row-major array of these dims: 1 + loop_rank numbers.
int64_t *cpu_access_linear(HloArena *arena, const CpuAccess *access, const int64_t *dims);
// Finds the access to an array of `dims` whose element number is `linear`; returns false if the dimensions cannot be
// separated for the given loop sizes.
bool cpu_access_from_linear(HloArena *arena, const int64_t *linear, const int64_t *loop_dims, int64_t loop_rank,
                            const int64_t *dims, int64_t rank, CpuAccess *access);
// Returns the access to the operand of a data-moving node (broadcast, transpose, slice, reverse) that corresponds to
// `access` to its result.
CpuAccess cpu_access_through(HloArena *arena, const CpuAccess *access, const CpuNode *node);

HLO_END_C

#endif
