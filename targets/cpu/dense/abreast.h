// SPDX-License-Identifier: Apache-2.0
// Batches of small real matrices, of which as many are worked on at once as a vector has lanes (isa/abreast.h). A
// matrix gets the same bits as alone, so that they do not depend on its place in a batch.
#ifndef MESHLO_TARGETS_CPU_DENSE_ABREAST_H_
#define MESHLO_TARGETS_CPU_DENSE_ABREAST_H_

#include "targets/cpu/dense/matrix.h"
#include "targets/cpu/isa/abreast.h"

HLO_BEGIN_C

// Rows of the largest matrices that are worked on abreast.
enum { CPU_ABREAST_ROWS = 32 };
_Static_assert((int)CPU_ABREAST_ROWS <= (int)CPU_TRIANGLE && (int)CPU_ABREAST_ROWS <= (int)CPU_PANEL,
               "one matrix alone is one triangle and one panel: blocks would give it other bits");

// Returns the kernels for so many matrices of this size, NULL if they are not worked on abreast.
const CpuAbreastType *cpu_abreast_kernels(HloType type, CpuFeatures features, int64_t count, int64_t rows,
                                          int64_t columns);

// Rows of the largest matrices whose QR forms, and eigenvalues, are always computed abreast, even of one alone: other
// methods would give them other bits.
enum { CPU_ABREAST_QR = 16, CPU_ABREAST_EIGEN = 8 };

// Returns the kernels for any number of matrices of a type, NULL if it has none.
const CpuAbreastType *cpu_abreast_any(HloType type, CpuFeatures features);

// Works on `count` matrices of a batch, at least 1 and at most as many as the kernels have lanes, from `first` on.
typedef void CpuAbreastTask(CpuMatrix *matrix, const CpuAbreastType *kernels, const void *job, int64_t first,
                            int64_t count);

// Does the work of cpu_matrix_batch() by `together`, or by `alone`, unless it is NULL, for so few matrices that this is
// faster. Both have `work_bytes` of scratch memory.
HLO_NODISCARD HloStatus cpu_abreast_batch(CpuPool *pool, const CpuAbreastType *kernels, HloType type, int64_t count,
                                          size_t work_bytes, double cost, CpuMatrixTask *alone,
                                          CpuAbreastTask *together, const void *job);

// Returns the scratch memory of one array of matrices with `size` elements.
size_t cpu_abreast_bytes(const CpuAbreastType *kernels, HloType type, int64_t size);
// Takes this memory, and fills it with `count` matrices of an array from `first` on. Lanes without a matrix repeat one.
void *cpu_abreast_load(CpuMatrix *matrix, const CpuAbreastType *kernels, int64_t size, const void *from, int64_t first,
                       int64_t count);
// Copies the matrices back to an array.
void cpu_abreast_store(const CpuMatrix *matrix, const CpuAbreastType *kernels, int64_t size, void *to, int64_t first,
                       int64_t count, const void *a);

HLO_END_C

#endif
