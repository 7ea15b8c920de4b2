// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, Cholesky factors and triangular systems over row-major batches.
#ifndef MESHLO_TARGETS_CPU_LINALG_H_
#define MESHLO_TARGETS_CPU_LINALG_H_

#include <stdbool.h>

#include "hlo/ir/types.h"
#include "targets/cpu/pool.h"

HLO_BEGIN_C

typedef enum CpuFftKind { CPU_FFT, CPU_IFFT, CPU_RFFT, CPU_IRFFT } CpuFftKind;

// Transforms of the last `rank` dimensions (1 to 3) of `batch` row-major arrays; `lengths` are HLO's fft_length (the
// real side's sizes for RFFT and IRFFT). `type` is f32 or f64, the real part's type. Any length: mixed radix 2, 3, 4,
// 5, and Bluestein's algorithm for other prime factors. Inverses divide by the number of points.
HLO_NODISCARD HloStatus cpu_fft(CpuPool *pool, CpuFftKind kind, HloType type, int64_t batch, int rank,
                                const int64_t *lengths, void *out, const void *in);

// The lower (or upper) Cholesky factor of each of `batch` n x n matrices: the other triangle is zero, only the named
// triangle of the input is read; a matrix that is not positive definite gives NaN. f32, f64, c64, c128.
HLO_NODISCARD HloStatus cpu_cholesky(CpuPool *pool, HloType type, int64_t batch, int64_t n, bool lower, void *out,
                                     const void *in);

typedef enum CpuTranspose { CPU_NO_TRANSPOSE, CPU_TRANSPOSE, CPU_ADJOINT } CpuTranspose;

// Solves op(A) X = B (left_side) or X op(A) = B for `batch` systems; B and X are rows x columns. f32, f64, c64, c128.
HLO_NODISCARD HloStatus cpu_triangular_solve(CpuPool *pool, HloType type, int64_t batch, int64_t rows, int64_t columns,
                                             bool left_side, bool lower, bool unit_diagonal, CpuTranspose transpose,
                                             void *x, const void *a, const void *b);

HLO_END_C

#endif
