// SPDX-License-Identifier: Apache-2.0
// Moves of elements by constant patterns, per instruction set: points become coordinates and coordinates points, arrays
// are reversed, elements and short runs repeated. Bits are moved, never interpreted: the width is all that counts.
#ifndef MESHLO_TARGETS_CPU_ISA_MOVE_H_
#define MESHLO_TARGETS_CPU_ISA_MOVE_H_

#include <stdint.h>

#include "targets/cpu/host/features.h"
#include "targets/cpu/isa/each.h"

HLO_BEGIN_C

// Kernels exist for elements of 1, 2, 4 and 8 bytes, and are found by log2 of the width. Target and source do not
// overlap.
enum { CPU_MOVE_WIDTHS = 4, CPU_MOVE_MOST = 4 };

// Sets to[i] to the element of `from` that the kernel's pattern names, for i below n.
typedef void CpuStepKernel(void *to, const void *from, int64_t n);

// Writes each of n elements several times.
typedef void CpuSpreadKernel(void *to, const void *from, int64_t n);

// Sets to[i * count + k] = from[k * stride + i], for i below n and k below the kernel's `count`.
typedef void CpuInterleaveKernel(void *to, const void *from, int64_t stride, int64_t n);

// Sets to[i * count + k] = from[k][i], for i below n and k below the kernel's `count`.
typedef void CpuMergeKernel(void *to, const void *const *from, int64_t n);

// Writes `times` copies of a run of `words` words of 4 bytes one after another.
typedef void CpuRepeatKernel(void *to, const void *from, int64_t words, int64_t times);

// Writes `vectors` vectors of CPU_SHUFFLE_BYTES bytes, `to_step` bytes apart in the order of the steps, so that a later
// one overwrites what overlaps. Byte i of each is byte pattern[i] of the vector of the source at its own multiple of
// `from_step`.
enum { CPU_SHUFFLE_BYTES = 16 };
typedef void CpuShuffleKernel(void *to, int64_t to_step, const void *from, int64_t from_step, const uint8_t *pattern,
                              int64_t vectors);

// The second index is the step, the number of times or the count; 0, and 1, have no kernels.
typedef struct CpuMoveKernels {
    CpuStepKernel *step[CPU_MOVE_WIDTHS][CPU_MOVE_MOST + 1];  // from[step * i]
    CpuStepKernel *reverse[CPU_MOVE_WIDTHS];                  // from[-i]
    CpuSpreadKernel *spread[CPU_MOVE_WIDTHS][CPU_MOVE_MOST + 1];
    CpuInterleaveKernel *interleave[CPU_MOVE_WIDTHS][CPU_MOVE_MOST + 1];
    CpuMergeKernel *merge[CPU_MOVE_WIDTHS][CPU_MOVE_MOST + 1];
    CpuRepeatKernel *repeat;    // of at most repeat_words words
    int64_t repeat_words;       // 0: there is no such kernel
    CpuShuffleKernel *shuffle;  // NULL: there is no such kernel
} CpuMoveKernels;

// cpu_isa_move_kernels() returns the kernels for an instruction set.
CPU_ISA_TABLES(CpuMoveKernels, move_kernels)

HLO_END_C

#endif
