// SPDX-License-Identifier: Apache-2.0
// Decompositions that programs request by custom call and for which there is no kernel of our own: singular values,
// general eigenvalues, Schur, Hessenberg and tridiagonal forms, pivoted QR, products with Q. LAPACK computes those that
// it is chosen for, the evaluator (hlo_decompose()) the others, matrix by matrix.
#ifndef MESHLO_TARGETS_CPU_DENSE_LAPACK_CALL_H_
#define MESHLO_TARGETS_CPU_DENSE_LAPACK_CALL_H_

#include "hlo/ir/instruction.h"
#include "targets/cpu/blas/blas.h"

HLO_BEGIN_C

// A call's shapes and options, as its routine needs them.
typedef struct CpuLapackCall CpuLapackCall;

// Describes a call that passed hlo_decompose_check(), of `batch` matrices. NULL for a call without a routine.
CpuLapackCall *cpu_lapack_call_new(HloArena *arena, const HloInstruction *call, int64_t batch);

// cpu_blas_find() for the call's matrices.
HLO_NODISCARD HloStatus cpu_lapack_call_find(const CpuLapackCall *call, const CpuPool *pool, const CpuBlas **blas);

// Decomposes matrix `index` of the batch with the conventions of hlo_decompose(), phases of vectors included. Returns
// false, with its results undefined, if the matrix is left to the evaluator: it has elements that are not finite, or
// the routine did not converge. `scratch` jumps to hlo_protect() when memory is short.
bool cpu_lapack_call_run(const CpuLapackCall *call, const CpuBlas *blas, CpuFeatures features,
                         const void *const *operands, void *const *results, int64_t index, HloArena *scratch);

HLO_END_C

#endif
