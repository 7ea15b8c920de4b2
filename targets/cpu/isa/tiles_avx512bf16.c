// SPDX-License-Identifier: Apache-2.0
// Products by AVX-512's dot-product instructions on the layout of AMX's tiles. A sum of bf16 products is a chain in
// rising k, two products a step; one of products of parts adds up chunks. Subnormal numbers count as zero.
#if defined(__x86_64__)
#define CPU_ISA avx512bf16
#include "targets/cpu/isa/tiles.inc"

static void nothing(void) {}

// Rows of the result that are summed in registers at a time.
enum { kRows = 8 };

static inline __m512i words_at(const char *from) {
    return _mm512_load_si512(from);
}
static inline __m512i repeated(const char *word) {
    int32_t value;
    memcpy(&value, word, sizeof value);
    return _mm512_set1_epi32(value);
}

static inline __attribute__((always_inline)) void dot_floats(const char *a, const char *b, __m512 sum[kRows][2]) {
    for (int word = 0; word < 16; word++, a += 4, b += 64) {
        const __m512bh b0 = (__m512bh)words_at(b), b1 = (__m512bh)words_at(b + kTile);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; r++) {
            const __m512bh x = (__m512bh)repeated(a + 64 * r);
            sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, b0);
            sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, b1);
        }
    }
}

// Sets c's rows to the sums, or adds the sums to them.
static inline __attribute__((always_inline)) void put(float *c, int64_t ldc, __m512 sum[kRows][2], bool raise) {
    for (int r = 0; r < kRows; r++)
        for (int h = 0; h < 2; h++) {
            float *to = c + r * ldc + 16 * h;
            _mm512_storeu_ps(to, raise ? _mm512_add_ps(_mm512_loadu_ps(to), sum[r][h]) : sum[r][h]);
        }
}

static void whole_rows(int64_t chunks, const char *a, const char *b, float *c, int64_t ldc, bool accumulate) {
    __m512 sum[kRows][2];
    for (int r = 0; r < kRows; r++)
        for (int h = 0; h < 2; h++)
            sum[r][h] = accumulate ? _mm512_loadu_ps(c + r * ldc + 16 * h) : _mm512_setzero_ps();
    for (int64_t k = 0; k < chunks; k++, a += CPU_TILE_BYTES, b += CPU_TILE_BYTES) dot_floats(a, b, sum);
    put(c, ldc, sum, false);
}

// A product of lower parts is too small beside a long sum: 2^-16 of a number is lost beside a few hundred such numbers,
// and if the numbers are alike all are lost in the same direction. So a chunk is summed from zero, the least parts
// first, and added once.
static void rows_of_parts(int parts, int64_t chunks, const char *a, const char *b, float *c, int64_t ldc,
                          bool accumulate) {
    for (int64_t k = 0; k < chunks; k++) {
        __m512 sum[kRows][2];
        for (int r = 0; r < kRows; r++)
            for (int h = 0; h < 2; h++) sum[r][h] = _mm512_setzero_ps();
        for (int both = parts - 1; both >= 0; both--)
            for (int i = 0; i <= both; i++)
                dot_floats(a + (k * parts + i) * CPU_TILE_BYTES, b + (k * parts + both - i) * CPU_TILE_BYTES, sum);
        put(c, ldc, sum, accumulate || k > 0);
    }
}

// A vector of sums. With the type of all integer vectors, which counts 64-bit numbers, gcc copies each sum twice a
// step.
typedef int32_t Sums __attribute__((vector_size(64)));

static inline __attribute__((always_inline)) void dot_bytes(const char *a, const char *b, __m512i raise,
                                                            Sums sum[kRows][2]) {
    for (int word = 0; word < 16; word++, a += 4, b += 64) {
        const __m512i b0 = _mm512_xor_si512(words_at(b), raise), b1 = _mm512_xor_si512(words_at(b + kTile), raise);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; r++) {
            const __m512i x = repeated(a + 64 * r);
            sum[r][0] = (Sums)_mm512_dpbusd_epi32((__m512i)sum[r][0], b0, x);
            sum[r][1] = (Sums)_mm512_dpbusd_epi32((__m512i)sum[r][1], b1, x);
        }
    }
}

// Returns 128 times the sum of a row of the left side, modulo 2^32.
static inline int32_t excess_of_row(int64_t chunks, const char *a) {
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sum = _mm512_setzero_si512();
    for (int64_t k = 0; k < chunks; k++) sum = _mm512_dpbusd_epi32(sum, ones, words_at(a + k * CPU_TILE_BYTES));
    return (int32_t)(128u * (uint32_t)_mm512_reduce_add_epi32(sum));
}

// The instruction takes unsigned bytes on one side and signed ones on the other. A signed right side is raised by 128,
// and 128 times the sum of the left side is subtracted first, in a loop of its own: the sums of rows take all
// registers.
static void integer_rows(bool raised, int64_t chunks, const char *a, const char *b, int32_t *c, int64_t ldc,
                         bool accumulate) {
    const __m512i raise = raised ? _mm512_set1_epi8((char)0x80) : _mm512_setzero_si512();
    Sums sum[kRows][2];
    for (int r = 0; r < kRows; r++) {
        const __m512i excess = _mm512_set1_epi32(raised ? excess_of_row(chunks, a + 64 * r) : 0);
        for (int h = 0; h < 2; h++) {
            const __m512i before = accumulate ? _mm512_loadu_si512(c + r * ldc + 16 * h) : _mm512_setzero_si512();
            sum[r][h] = (Sums)_mm512_sub_epi32(before, excess);
        }
    }
    for (int64_t k = 0; k < chunks; k++, a += CPU_TILE_BYTES, b += CPU_TILE_BYTES) dot_bytes(a, b, raise, sum);
    for (int r = 0; r < kRows; r++)
        for (int h = 0; h < 2; h++) _mm512_storeu_si512(c + r * ldc + 16 * h, (__m512i)sum[r][h]);
}

static void multiply(CpuTileSource left, CpuTileSource right, int64_t chunks, const void *a, const void *b, void *c,
                     int64_t ldc, bool accumulate) {
    const int parts = cpu_tile_parts(left);
    for (int64_t row = 0; row < CPU_TILE_LANES; row += kRows) {
        const char *rows = (const char *)a + row / kHalf * kTile + row % kHalf * 64;
        if (left >= CPU_TILE_S8)
            integer_rows(right == CPU_TILE_S8, chunks, rows, b, (int32_t *)c + row * ldc, ldc, accumulate);
        else if (parts == 1)
            whole_rows(chunks, rows, b, (float *)c + row * ldc, ldc, accumulate);
        else
            rows_of_parts(parts, chunks, rows, b, (float *)c + row * ldc, ldc, accumulate);
    }
}

const CpuTileKernels cpu_tile_kernels_avx512bf16 = {pack, nothing, nothing, multiply};
#else
extern int cpu_tiles_have_no_avx512bf16;
#endif
