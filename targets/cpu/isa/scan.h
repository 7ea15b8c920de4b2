// SPDX-License-Identifier: Apache-2.0
// Running sums of several rows side by side, per instruction set: kernels/scan.c drives them.
#ifndef MESHLO_TARGETS_CPU_ISA_SCAN_H_
#define MESHLO_TARGETS_CPU_ISA_SCAN_H_

#include <stdbool.h>
#include <stdint.h>

#include "targets/cpu/host/features.h"
#include "targets/cpu/isa/each.h"

typedef struct CpuScanKernels {
    int rows;  // number of rows per call of sums()
    // Computes out[r][i] = init + in[r][0] + ... + in[r][i], added in this order (from the other end if `reverse`), for
    // rows of f32 that are `length` apart.
    void (*sums)(const float *in, float *out, int64_t length, bool reverse, float init);
} CpuScanKernels;

// cpu_isa_scan_kernels() returns the kernels for an instruction set.
CPU_ISA_TABLES(CpuScanKernels, scan_kernels)

#endif
