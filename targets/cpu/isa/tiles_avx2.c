// SPDX-License-Identifier: Apache-2.0
// Products of bytes by AVX2: packed as 16-bit numbers, of which neighbours in depth are multiplied and added as pairs.
// Sums are of 32-bit integers in any order.
#include "targets/cpu/isa/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

enum { kDepth = CPU_TILE_CHUNK / 2, kHalf = CPU_TILE_LANES / 2, kHalfBytes = CPU_TILE_BYTES / 2 };

static inline __m256i widened(CpuTileSource source, const void *bytes) {
    const __m128i some = _mm_loadu_si128(bytes);
    return source == CPU_TILE_WIDE_S8 ? _mm256_cvtepi8_epi16(some) : _mm256_cvtepu8_epi16(some);
}

// Numbers of a chunk by lane and depth; missing ones are zero.
static void gather(uint8_t block[CPU_TILE_LANES][kDepth], const uint8_t *from, int64_t lanes, int64_t depth,
                   int64_t lane_stride, int64_t depth_stride) {
    if (lanes < CPU_TILE_LANES || depth < kDepth) memset(block, 0, (size_t)CPU_TILE_LANES * kDepth);
    if (depth_stride == 1) {
        for (int64_t i = 0; i < lanes; i++) memcpy(block[i], from + i * lane_stride, (size_t)depth);
        return;
    }
    for (int64_t k = 0; k < depth; k++)
        for (int64_t i = 0; i < lanes; i++) block[i][k] = from[i * lane_stride + k * depth_stride];
}

static void pack_left(char *to, CpuTileSource source, uint8_t block[CPU_TILE_LANES][kDepth]) {
    for (int i = 0; i < CPU_TILE_LANES; i++, to += CPU_TILE_CHUNK) {
        _mm256_storeu_si256((__m256i *)(void *)to, widened(source, block[i]));
        _mm256_storeu_si256((__m256i *)(void *)(to + CPU_TILE_CHUNK / 2), widened(source, block[i] + kDepth / 2));
    }
}

// Packs a pair of depths of half a panel, whose lanes are contiguous.
static inline void pack_pair(char *to, CpuTileSource source, __m128i first, __m128i second) {
    const __m128i low = _mm_unpacklo_epi8(first, second), high = _mm_unpackhi_epi8(first, second);
    _mm256_storeu_si256((__m256i *)(void *)to, widened(source, &low));
    _mm256_storeu_si256((__m256i *)(void *)(to + CPU_TILE_CHUNK / 2), widened(source, &high));
}

static void pack_right(char *to, CpuTileSource source, uint8_t block[CPU_TILE_LANES][kDepth]) {
    uint8_t turned[kDepth][CPU_TILE_LANES];
    for (int i = 0; i < CPU_TILE_LANES; i++)
        for (int k = 0; k < kDepth; k++) turned[k][i] = block[i][k];
    for (int half = 0; half < 2; half++)
        for (int k = 0; k < kDepth; k += 2)
            pack_pair(to + half * kHalfBytes + k / 2 * CPU_TILE_CHUNK, source,
                      _mm_loadu_si128((const __m128i *)(const void *)&turned[k][half * kHalf]),
                      _mm_loadu_si128((const __m128i *)(const void *)&turned[k + 1][half * kHalf]));
}

// Packs rows of the right side in their usual layout: whole lanes that are contiguous.
static void pack_right_rows(char *to, CpuTileSource source, const uint8_t *from, int64_t depth, int64_t depth_stride) {
    for (int half = 0; half < 2; half++)
        for (int64_t k = 0; k < kDepth; k += 2) {
            const uint8_t *row = from + k * depth_stride + half * kHalf;
            const __m128i none = _mm_setzero_si128();
            const __m128i first = k < depth ? _mm_loadu_si128((const __m128i *)(const void *)row) : none;
            const __m128i second =
                k + 1 < depth ? _mm_loadu_si128((const __m128i *)(const void *)(row + depth_stride)) : none;
            pack_pair(to + half * kHalfBytes + k / 2 * CPU_TILE_CHUNK, source, first, second);
        }
}

static void pack(void *to, CpuTileSource source, bool right, const void *from, int64_t lanes, int64_t depth,
                 int64_t lane_stride, int64_t depth_stride, CpuTileRange *range) {
    uint8_t block[CPU_TILE_LANES][kDepth];
    char *out = to;
    (void)range;
    for (int64_t k = 0; k < depth; k += kDepth, out += CPU_TILE_BYTES) {
        const uint8_t *in = (const uint8_t *)from + k * depth_stride;
        const int64_t some = depth - k < kDepth ? depth - k : kDepth;
        if (right && lane_stride == 1 && lanes == CPU_TILE_LANES) {
            pack_right_rows(out, source, in, some, depth_stride);
            continue;
        }
        gather(block, in, lanes, some, lane_stride, depth_stride);
        if (right)
            pack_right(out, source, block);
        else
            pack_left(out, source, block);
    }
}

static void nothing(void) {}

enum { kRows = 4, kVectors = 2, kVectorLanes = 8 };

// Multiplies kRows rows and half a panel of columns, which stay in registers.
static void multiply_rows(int64_t chunks, const char *a, const char *b, int32_t *c, int64_t ldc, bool accumulate) {
    __m256i sum[kRows][kVectors];
    for (int i = 0; i < kRows; i++)
        for (int v = 0; v < kVectors; v++) sum[i][v] = _mm256_setzero_si256();
    for (int64_t chunk = 0; chunk < chunks; chunk++, a += CPU_TILE_BYTES, b += CPU_TILE_BYTES)
#pragma GCC unroll 4
        for (int pair = 0; pair < kDepth / 2; pair++) {
            __m256i columns[kVectors];
            for (int v = 0; v < kVectors; v++)
                columns[v] = _mm256_loadu_si256((const __m256i *)(const void *)(b + pair * CPU_TILE_CHUNK + v * 32));
            for (int i = 0; i < kRows; i++) {
                int32_t row;
                memcpy(&row, a + i * CPU_TILE_CHUNK + pair * 4, sizeof row);
                for (int v = 0; v < kVectors; v++)
                    sum[i][v] = _mm256_add_epi32(sum[i][v], _mm256_madd_epi16(_mm256_set1_epi32(row), columns[v]));
            }
        }
    for (int i = 0; i < kRows; i++)
        for (int v = 0; v < kVectors; v++) {
            __m256i *at = (__m256i *)(void *)(c + i * ldc + v * kVectorLanes);
            _mm256_storeu_si256(at, accumulate ? _mm256_add_epi32(_mm256_loadu_si256(at), sum[i][v]) : sum[i][v]);
        }
}

static void multiply(CpuTileSource left, CpuTileSource right, int64_t chunks, const void *a, const void *b, void *c,
                     int64_t ldc, bool accumulate) {
    (void)left, (void)right;
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < CPU_TILE_LANES; i += kRows)
            multiply_rows(chunks, (const char *)a + i * CPU_TILE_CHUNK, (const char *)b + half * kHalfBytes,
                          (int32_t *)c + i * ldc + half * kHalf, ldc, accumulate);
}

const CpuTileKernels cpu_tile_kernels_avx2 = {.pack = pack, .begin = nothing, .end = nothing, .multiply = multiply};
#else
extern int cpu_tiles_have_no_avx2;
#endif
