// SPDX-License-Identifier: Apache-2.0
// The plan of a Fourier transform. fft_plan.c creates it and fft.c runs it.
#ifndef MESHLO_TARGETS_CPU_KERNELS_FFT_PLAN_H_
#define MESHLO_TARGETS_CPU_KERNELS_FFT_PLAN_H_

#include "targets/cpu/isa/fft.h"
#include "targets/cpu/kernels/fft.h"

// A line of n points.
typedef struct CpuFftLine {
    int64_t n;
    const CpuFftPlan *whole;  // NULL if a line of this length is never transformed side by side with others
    // The line as a matrix of `rows` rows: columns are transformed, multiplied by `factors` (n points), then rows; its
    // transpose is the result. rows is 0 where n does not divide well.
    int64_t rows;
    const CpuFftPlan *column, *row;
    const void *factors;
    // The real line of n points as one of n / 2 complex ones; NULL where n is odd.
    const struct CpuFftLine *half;
    const void *turns;  // exp(-2 pi i k / n) for k up to n / 2
    // A long line whose length has a large prime factor, as a convolution with a chirp: the inner line is longer than
    // 2 n - 1, the chirp has n points, the filter as many as the inner line. NULL for others.
    const struct CpuFftLine *inner;
    const void *chirp;
    void *filter;
} CpuFftLine;

struct CpuFft {
    CpuFftKind kind;
    HloType type;
    int rank;
    int64_t lengths[CPU_FFT_DIMENSIONS];
    const CpuFftLine *lines[CPU_FFT_DIMENSIONS];
};

// Transforms a line of contiguous points, forward and in place, on this thread. RESOURCE_EXHAUSTED.
HLO_NODISCARD HloStatus cpu_fft_one_line(const CpuFftLine *line, bool is_double, void *points);

#endif
