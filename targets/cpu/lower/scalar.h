// SPDX-License-Identifier: Apache-2.0
// Scalar computations as functions of element addresses: sorts, scatters and windows call them when no kernel has the
// computation built in.
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

// Compiles the computation in the lowering's arena; NULL if loops do not support one of its ops or types.
const CpuScalarFunction *cpu_scalar_compile(CpuLowering *lowering, const HloComputation *computation);
// Compiles a function over `lanes` elements together, which are adjacent in every parameter and result.
const CpuScalarFunction *cpu_scalar_compile_lanes(CpuLowering *lowering, const HloComputation *computation,
                                                  int64_t lanes);
// Calls the function. `addresses` has one address per parameter, then one per result, each of one element (or of as
// many as there are lanes). Results must not share memory with parameters.
void cpu_scalar_call(const CpuScalarFunction *function, void *const *addresses);

// Combiners for kernels whose context is a CpuScalarFunction of 2 * count parameters (targets or accumulators first):
// targets := function(targets, updates).
void cpu_scalar_combine(void *context, int count, void *const *targets, const void *const *updates);
// Combines with separate results, for functions of several lanes: results := function(accumulators, elements).
void cpu_scalar_combine_lanes(void *context, int count, const void *const *accumulators, const void *const *elements,
                              void *const *results);
// Compares for sorts: parameters alternate between left and right.
bool cpu_scalar_less(void *context, const void *const *left, const void *const *right);
// Selects for select-and-scatter: whether the first of two elements stays chosen.
bool cpu_scalar_keeps(void *context, const void *chosen, const void *element);

HLO_END_C

#endif
