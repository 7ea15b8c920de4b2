// SPDX-License-Identifier: Apache-2.0
// How dots become products of matrices (dot.c), for dots of groups of rows (dot_groups.c).
#ifndef MESHLO_TARGETS_CPU_LOWER_DOT_PLAN_H_
#define MESHLO_TARGETS_CPU_LOWER_DOT_PLAN_H_

#include "targets/cpu/lower/dot.h"
#include "targets/cpu/lower/lower.h"

HLO_BEGIN_C

// A list of dimensions of one role.
typedef struct CpuDotDims {
    CpuDotDim *items;
    int64_t count;
} CpuDotDims;

// The dimensions of a dot by role, merged; those of size 1 are left out.
typedef struct CpuDotRoles {
    CpuDotDims batch, m, n, k;
} CpuDotRoles;

// Sorts the dimensions of three views (left side, right side, result) by role. The lists live in the arena.
CpuDotRoles cpu_dot_sort(HloArena *arena, const HloDotAttributes *dot, const CpuView *views);

// Takes the largest dimension for the product and leaves the others to the outer loops, whose list (kernel->outer) has
// room for all. Size 1, with steps of 0, represents a role without dimensions.
CpuDotDim cpu_dot_take(CpuDotDims *dims, CpuDotKernel *kernel);

// Fills in sizes and strides. A side that lacks a dimension has stride 0 there, which is not used.
void cpu_dot_fill(CpuMatmul *matmul, CpuDotDim batch, CpuDotDim m, CpuDotDim n, CpuDotDim k);

// Whether products have a kernel for sides or results of this type. Booleans have no sums.
bool cpu_dot_has_kernel(HloType type);

// Returns the precision of a dot. `matrix_vector`: its left or its right side has no free dimension, except of size 1.
CpuPrecision cpu_dot_precision(const CpuLowering *lowering, const CpuNode *node, bool matrix_vector);

// Plans the products of a dot whose arrays have these three views; returns NULL if it has no form as products. The
// kernel lives in the lowering's arena. *packed: cpu_dot_run_packed() runs it, else cpu_dot_run().
CpuDotKernel *cpu_dot_plan(const CpuLowering *lowering, const CpuNode *node, const CpuView *of, bool *packed);

// Runs the product at every index of the outer loops, on all threads of the pool. `matmul` is the kernel's, possibly
// with other sizes.
HLO_NODISCARD HloStatus cpu_dot_run_products(const CpuDotKernel *kernel, const CpuMatmul *matmul, const char *left,
                                             const char *right, char *out, CpuPool *pool);

// Run a CpuDotKernel on three arrays; the second copies sides first, and fails if there is no memory for them.
HLO_NODISCARD HloStatus cpu_dot_run(const void *data, void *const *arguments, CpuPool *pool);
HLO_NODISCARD HloStatus cpu_dot_run_packed(const void *data, void *const *arguments, CpuPool *pool);

// Lowers a dot with CpuNode.ranges.
HLO_NODISCARD HloStatus cpu_lower_ranges_dot(CpuLowering *lowering, CpuNode *node, CpuStep *step);

HLO_END_C

#endif
