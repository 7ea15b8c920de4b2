// SPDX-License-Identifier: Apache-2.0
// The form in which a dot is run (dot.c), for steps that run parts of it (bands.c).
#ifndef MESHLO_TARGETS_CPU_LOWER_DOT_H_
#define MESHLO_TARGETS_CPU_LOWER_DOT_H_

#include "targets/cpu/lower/step.h"

HLO_BEGIN_C

// The arrays of a dot, as indices.
enum { CPU_DOT_LEFT, CPU_DOT_RIGHT, CPU_DOT_OUT };

// One dimension of a product with its steps in the three arrays, in elements (0 where an array does not have it).
typedef struct CpuDotDim {
    int64_t size;
    int64_t strides[3];
} CpuDotDim;

// A copy of one side in which the contracting dimensions can be merged; bytes of 0: the side is read in place.
typedef struct CpuDotPacking {
    int rank;
    int64_t bytes;
    const int64_t *sizes, *from, *to;  // strides in elements
} CpuDotPacking;

// Products of the same form, one per index of an outer loop nest.
typedef struct CpuDotKernel {
    CpuMatmul matmul;
    CpuDotDim batch, m, n, k;  // of `matmul`, before the sides are swapped; a size of 1 where there is none
    CpuDotDim *outer;
    int64_t outer_count;
    int64_t widths[3];            // bytes per element
    CpuDotPacking packing[2];     // of the operands
    bool swapped;                 // computes the transposed product of the transposed operands, right side first
    const CpuSmallMatmul *small;  // for one small product, or NULL
} CpuDotKernel;

// Returns the kernel of a step that computes a dot from its operands in place; NULL for any other step. The step's
// reads and writes are in the order of the three arrays.
const CpuDotKernel *cpu_dot_kernel(const CpuStep *step);

HLO_END_C

#endif
