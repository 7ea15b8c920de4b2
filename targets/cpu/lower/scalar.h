// SPDX-License-Identifier: Apache-2.0
// Scalar computations as functions of element addresses: what sorts, scatters and windows call when a kernel does not
// know the computation.
#ifndef MESHLO_TARGETS_CPU_LOWER_SCALAR_H_
#define MESHLO_TARGETS_CPU_LOWER_SCALAR_H_

#include "targets/cpu/lower/lower.h"

HLO_BEGIN_C

enum { CPU_SCALAR_LIMIT = 64 };  // parameters and results of such a function

typedef struct CpuScalarFunction {
    const CpuLoop *loop;
    int32_t parameter_count, result_count;
    int32_t result_bytes[CPU_SCALAR_LIMIT];
} CpuScalarFunction;

// Compiles it in the lowering's arena; NULL when an op or type of it cannot stand in a loop.
const CpuScalarFunction *cpu_scalar_compile(CpuLowering *lowering, const HloComputation *computation);
// The same over `lanes` elements at once, which lie next to each other in every parameter and result.
const CpuScalarFunction *cpu_scalar_compile_lanes(CpuLowering *lowering, const HloComputation *computation,
                                                  int64_t lanes);
// Calls it: addresses of one element (or as many as it has lanes) a parameter, then a result. Results may not share
// memory with parameters.
void cpu_scalar_call(const CpuScalarFunction *function, void *const *addresses);

// Combiners for kernels whose context is a CpuScalarFunction of 2 * count parameters (targets or accumulators first):
// targets := function(targets, updates).
void cpu_scalar_combine(void *context, int count, void *const *targets, const void *const *updates);
// The same with results of their own, for functions of several lanes: results := function(accumulators, elements).
void cpu_scalar_combine_lanes(void *context, int count, const void *const *accumulators, const void *const *elements,
                              void *const *results);
// A comparator of sorts: parameters alternate between left and right.
bool cpu_scalar_less(void *context, const void *const *left, const void *const *right);
// The choice of a select-and-scatter: whether the first of two elements stays chosen.
bool cpu_scalar_keeps(void *context, const void *chosen, const void *element);

HLO_END_C

#endif
