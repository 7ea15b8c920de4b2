// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: planned once, run on any number of arrays.
#ifndef MESHLO_TARGETS_CPU_KERNELS_FFT_H_
#define MESHLO_TARGETS_CPU_KERNELS_FFT_H_

#include "hlo/ir/types.h"
#include "targets/cpu/host/pool.h"

typedef struct HloArena HloArena;

HLO_BEGIN_C

typedef enum CpuFftKind { CPU_FFT, CPU_IFFT, CPU_RFFT, CPU_IRFFT } CpuFftKind;

enum { CPU_FFT_DIMENSIONS = 3 };  // maximum for one transform

typedef struct CpuFft CpuFft;

// Creates a plan, in `arena`, for transforms of the last `rank` dimensions (1 to 3) of row-major arrays; `lengths` are
// HLO's fft_length (the real side's sizes for RFFT and IRFFT). `type` is f32 or f64, the real part's type. Any length
// is supported: passes of 2, 3, 4, 5, 8 and odd factors up to 31, Bluestein's algorithm if a larger prime divides the
// length, and a matrix (two dimensions) in place of a long single line. Jumps to hlo_protect() when memory is short.
const CpuFft *cpu_fft_new(HloArena *arena, CpuFftKind kind, HloType type, int rank, const int64_t *lengths);

// Transforms `batch` arrays; in place if `out` is `in`, except for real transforms. Inverses divide by the number of
// points. RESOURCE_EXHAUSTED. Any number of threads may run one plan at the same time.
HLO_NODISCARD HloStatus cpu_fft_run(CpuPool *pool, const CpuFft *fft, int64_t batch, void *out, const void *in);

HLO_END_C

#endif
