// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of as many lines side by side as a vector has lanes, per instruction set and precision;
// kernels/fft.c drives them.
//
// A block of lines is stored as [point][re, im][lane]: every operation of a transform is one on whole vectors, whatever
// the length. An inverse transform is a forward one with the parts exchanged before and after (`swap`). Strides are in
// real numbers.
#ifndef MESHLO_TARGETS_CPU_ISA_FFT_H_
#define MESHLO_TARGETS_CPU_ISA_FFT_H_

#include <stdint.h>

#include "targets/cpu/host/features.h"
#include "targets/cpu/isa/each.h"

enum { CPU_FFT_FACTORS = 64, CPU_FFT_LARGEST_RADIX = 31 };

// The transform of lines of `n` points: Stockham's self-sorting passes, or Bluestein's convolution with a chirp. All
// tables contain pairs (re, im) of the precision.
typedef struct CpuFftPlan {
    int64_t n;
    int factor_count;
    int factors[CPU_FFT_FACTORS];        // 2, 3, 4, 5, 8, or odd up to CPU_FFT_LARGEST_RADIX
    const void *twiddles;                // pass after pass: for each of n / radix positions, radix - 1 factors
    const void *roots[CPU_FFT_FACTORS];  // of an odd radix above 5: exp(2 pi i k / radix) for all k
    int64_t convolution;                 // Bluestein: length of the inner transforms; 0 where n has factors
    const struct CpuFftPlan *inner;
    const void *chirp, *filter;  // Bluestein: n and `convolution` points; the filter has the inner inverse's scale
} CpuFftPlan;

typedef struct CpuFftKernels {
    int lanes;
    // Transforms a block in `x`; returns the address of the result, x or `spare`. Both have room for n points, spare
    // for two convolutions if the plan has one.
    void *(*transform)(const CpuFftPlan *plan, void *x, void *spare);
    // Loads lines whose points are contiguous in memory (rows), and lines that are contiguous with each other
    // (columns).
    void (*load_rows)(void *x, const void *from, int64_t n, int lines, int64_t line_stride, int swap);
    void (*load_columns)(void *x, const void *from, int64_t n, int lines, int64_t point_stride, int swap);
    // Store lines multiplied by `scale`; columns also by `factors` (NULL: none), which have the target's layout.
    void (*store_rows)(const void *x, void *to, int64_t n, int lines, int64_t line_stride, int swap, double scale);
    void (*store_columns)(const void *x, void *to, int64_t n, int lines, int64_t point_stride, int swap, double scale,
                          const void *factors);
    // Loads rows of real numbers as the real (part 0) or imaginary parts (part 1) of a block.
    void (*load_reals)(void *x, const void *from, int64_t n, int lines, int64_t line_stride, int part);
    void (*store_reals)(const void *x, void *to, int64_t n, int lines, int64_t line_stride, int part, double scale);
    // Computes the spectra (n / 2 + 1 points) a and b of the two real lines whose complex line has the transform z; and
    // back, with the parts of z exchanged.
    void (*split)(const void *z, int64_t n, void *a, void *b);
    void (*join)(void *z, int64_t n, const void *a, const void *b);
} CpuFftKernels;

CPU_ISA_TABLES(CpuFftKernels, fft_f32)
CPU_ISA_TABLES(CpuFftKernels, fft_f64)

// Returns the kernels for an instruction set, for f64 or f32.
const CpuFftKernels *cpu_isa_fft_kernels(CpuFeatures features, int is_double);

#endif
