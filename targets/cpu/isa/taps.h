// SPDX-License-Identifier: Apache-2.0
// Sums of weighted rows, per instruction set, for convolutions of few features, which have no matrix products that
// would fill vectors. kernels/convolution_direct.c drives them.
#ifndef MESHLO_TARGETS_CPU_ISA_TAPS_H_
#define MESHLO_TARGETS_CPU_ISA_TAPS_H_

#include <stdbool.h>
#include <stdint.h>

#include "targets/cpu/host/features.h"
#include "targets/cpu/isa/each.h"

// The sums of one precision: `count` elements of y are set to the sum of `taps` products, or incremented by it
// (`accumulate`). Each element is one chain of fused multiply-adds in the order of the taps, from zero or from the
// value in y: so it depends neither on its position in the row nor on how the taps are divided into calls. y overlaps
// no input.
typedef struct CpuTapType {
    // y[i] = sum over t of weights[t] * inputs[t][i]
    void (*by_number)(int64_t count, void *y, int64_t taps, const void *const *inputs, const void *weights,
                      bool accumulate);
    // y[i] = sum over t of weights[t][i] * inputs[t][i]
    void (*by_row)(int64_t count, void *y, int64_t taps, const void *const *inputs, const void *const *weights,
                   bool accumulate);
} CpuTapType;

typedef struct CpuTapKernels {
    CpuTapType f32, f64;
    // Copies `rows` rows of `bytes` bytes, whose starts are to_step and from_step bytes apart: for rows of a few dozen
    // bytes, which are too many to call memcpy() for each.
    void (*copy_rows)(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t bytes);
} CpuTapKernels;

// cpu_isa_tap_kernels() returns the kernels for an instruction set.
CPU_ISA_TABLES(CpuTapKernels, tap_kernels)

#endif
