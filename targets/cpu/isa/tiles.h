// SPDX-License-Identifier: Apache-2.0
// The inner parts of products of narrow numbers: bf16 pairs summed in f32 and groups of four 8-bit numbers summed in
// s32, by AMX tiles or by AVX-512's dot-product instructions, and 8-bit numbers widened to 16-bit pairs by AVX2;
// dense/tiles.c drives them.
//
// Packed operands are panels of 32 lanes (rows of the left side, columns of the right), split along the depth into
// chunks of 64 bytes per lane. A chunk contains its parts one after the other, each part two tiles of 16 lanes and 1
// KB:
//   left    [16 lanes][64 bytes]
//   right   [16 groups of 4 bytes][16 lanes][4 bytes]
// Lanes and depth that do not exist are zeros.
#ifndef MESHLO_TARGETS_CPU_ISA_TILES_H_
#define MESHLO_TARGETS_CPU_ISA_TILES_H_

#include <stdbool.h>
#include <stdint.h>

#include "targets/cpu/host/features.h"

// Lanes of a panel; bytes of a lane in one chunk; bytes of one part of a panel's chunk.
enum { CPU_TILE_LANES = 32, CPU_TILE_CHUNK = 64, CPU_TILE_BYTES = CPU_TILE_LANES * CPU_TILE_CHUNK };

// The packed form. F32_n: f32 numbers as n parts of bf16, each of which is the remainder after the previous parts,
// rounded to nearest even: the parts of dense/matmul_serial.c. Three parts are exact. WIDE: bytes as 16-bit numbers,
// groups of two.
typedef enum CpuTileSource {
    CPU_TILE_F32_1,
    CPU_TILE_F32_2,
    CPU_TILE_F32_3,
    CPU_TILE_BF16,
    CPU_TILE_S8,
    CPU_TILE_U8,
    CPU_TILE_WIDE_S8,
    CPU_TILE_WIDE_U8
} CpuTileSource;

// Magnitudes found while packing floats, as bits of f32: the largest one, and the smallest of the lanes' largest ones
// that are not zero, less 1. Infinities and NaN count only if numbers are split into several parts.
typedef struct CpuTileRange {
    uint32_t largest, faintest;
} CpuTileRange;

typedef struct CpuTileKernels {
    // Packs one panel of `lanes` (at most 32) lanes x `depth` elements, from[lane * lane_stride + k * depth_stride],
    // and widens *range (float sources; a fresh one is {0, UINT32_MAX}).
    void (*pack)(void *to, CpuTileSource source, bool right, const void *from, int64_t lanes, int64_t depth,
                 int64_t lane_stride, int64_t depth_stride, CpuTileRange *range);
    // Called before and after the calls of multiply() on one thread.
    void (*begin)(void);
    void (*end)(void);
    // Sets c[32][32] (row stride ldc, of f32 or s32) to the product of `chunks` chunks of two panels, or adds it. Parts
    // are multiplied with those parts of the other side with which they have at least the weight of the last part.
    void (*multiply)(CpuTileSource left, CpuTileSource right, int64_t chunks, const void *a, const void *b, void *c,
                     int64_t ldc, bool accumulate);
} CpuTileKernels;

// Return the parts of a source, and the elements of one lane in a chunk.
static inline int cpu_tile_parts(CpuTileSource source) {
    return source <= CPU_TILE_F32_3 ? (int)source + 1 : 1;
}
static inline int cpu_tile_depth(CpuTileSource source) {
    return source == CPU_TILE_S8 || source == CPU_TILE_U8 ? CPU_TILE_CHUNK : CPU_TILE_CHUNK / 2;
}

#if defined(__x86_64__)
extern const CpuTileKernels cpu_tile_kernels_avx2, cpu_tile_kernels_avx512bf16, cpu_tile_kernels_amx;
#endif

// Returns the kernels for an instruction set; NULL if it has none. Those below AVX-512 BF16 support only WIDE sources.
const CpuTileKernels *cpu_isa_tile_kernels(CpuFeatures features);

#endif
