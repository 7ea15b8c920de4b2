// SPDX-License-Identifier: Apache-2.0
// The random generators' block kernels of one instruction set; see random.isa.c.
#ifndef MESHLO_TARGETS_CPU_ISA_RANDOM_H_
#define MESHLO_TARGETS_CPU_ISA_RANDOM_H_

#include <stdint.h>

#include "targets/cpu/host/features.h"
#include "targets/cpu/isa/each.h"

typedef struct CpuRandomKernels {
    // Computes y = threefry(key, x) on `count` pairs; in place allowed.
    void (*threefry_pairs)(const uint32_t key[2], int64_t count, const uint32_t *x0, const uint32_t *x1, uint32_t *y0,
                           uint32_t *y1);
    // Computes blocks of the counters first + i, which must share their high word; low_first: the low word is word 0.
    void (*threefry_counters)(const uint32_t key[2], uint64_t first, int64_t count, int low_first, uint32_t *y0,
                              uint32_t *y1);
    // Computes the exclusive or of both output words; the high word of the counter is word 0.
    void (*threefry_counters_xor)(const uint32_t key[2], uint64_t first, int64_t count, uint32_t *out);
    // Computes out[word][i] of the 128-bit counters (low + i, high) with carry.
    void (*philox_counters)(const uint32_t key[2], uint64_t low, uint64_t high, int64_t count, uint32_t *const out[4]);
} CpuRandomKernels;

// cpu_isa_random_kernels() returns the generators' kernels for an instruction set.
CPU_ISA_TABLES(CpuRandomKernels, random_kernels)

#endif
