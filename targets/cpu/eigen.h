// SPDX-License-Identifier: Apache-2.0
// Rotations on rows, collected and then applied to stripes of columns over the pool: what turns the vectors of small
// (tri- and bidiagonal) problems while those are iterated.
#ifndef MESHLO_TARGETS_CPU_EIGEN_H_
#define MESHLO_TARGETS_CPU_EIGEN_H_

#include "targets/cpu/matrix.h"

HLO_BEGIN_C

// Rotations that are applied together: enough to make up for one fork, few enough to stay in a cache.
enum { CPU_ROTATIONS = 16 * 1024 };

// Rows of real numbers of the matrix's precision.
typedef struct CpuRotations {
    const CpuMatrix *matrix;
    CpuRotation *items;  // room for CPU_ROTATIONS
    int64_t count;
    char *rows;       // NULL: nothing is turned
    int64_t columns;  // also the distance of two rows
} CpuRotations;

// Adds one; applies all when the room is used up.
void cpu_rotations_push(CpuRotations *rotations, int64_t row, double cosine, double sine);
// Applies what was collected.
void cpu_rotations_flush(CpuRotations *rotations);

HLO_END_C

#endif
