// SPDX-License-Identifier: Apache-2.0
// Running sums of as many rows as a vector has lanes: squares are transposed in registers, so that one addition of
// vectors advances all rows.
#include <string.h>

#include "targets/cpu/isa/interleave.inc"
#include "targets/cpu/isa/isa.h"
#include "targets/cpu/isa/scan.h"

#if defined(__AVX512F__)
#define LANES 16
#define LOW LOW_16
#define HIGH HIGH_16
#elif defined(__AVX2__)
#define LANES 8
#define LOW LOW_8
#define HIGH HIGH_8
#else
#define LANES 4
#define LOW LOW_4
#define HIGH HIGH_4
#endif

typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));

static inline void turn(Vector *rows) {
    Vector next[LANES];
#pragma GCC unroll 4
    for (int round = 1; round < LANES; round *= 2) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = __builtin_shufflevector(rows[i], rows[i + LANES / 2], LOW);
            next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + LANES / 2], HIGH);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) rows[i] = next[i];
    }
}

static void whole_square(const float *in, float *out, int64_t length, bool reverse, Vector *sum) {
    Vector rows[LANES];
#pragma GCC unroll 16
    for (int r = 0; r < LANES; r++) memcpy(&rows[r], in + r * length, sizeof rows[r]);
    turn(rows);
    if (reverse) {
#pragma GCC unroll 16
        for (int i = LANES - 1; i >= 0; i--) rows[i] = *sum = *sum + rows[i];
    } else {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) rows[i] = *sum = *sum + rows[i];
    }
    turn(rows);
#pragma GCC unroll 16
    for (int r = 0; r < LANES; r++) memcpy(out + r * length, &rows[r], sizeof rows[r]);
}

// Sums `count` columns of all rows, one after the other.
static void single_columns(const float *in, float *out, int64_t length, int64_t count, bool reverse, Vector *sum) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = reverse ? count - 1 - i : i;
        for (int r = 0; r < LANES; r++) {
            (*sum)[r] += in[r * length + at];
            out[r * length + at] = (*sum)[r];
        }
    }
}

static void sums(const float *in, float *out, int64_t length, bool reverse, float init) {
    Vector sum;
    const int64_t rest = length % LANES, whole = length - rest;
    for (int r = 0; r < LANES; r++) sum[r] = init;
    if (reverse) single_columns(in + whole, out + whole, length, rest, true, &sum);
    for (int64_t i = 0; i < whole; i += LANES) {
        const int64_t at = reverse ? whole - LANES - i : i;
        whole_square(in + at, out + at, length, reverse, &sum);
    }
    if (!reverse) single_columns(in + whole, out + whole, length, rest, false, &sum);
}

const CpuScanKernels CPU_ISA_NAME(cpu_scan_kernels) = {.rows = LANES, .sums = sums};
