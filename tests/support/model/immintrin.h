// SPDX-License-Identifier: Apache-2.0
// A model of the instructions that the tile kernels use, in plain C: AVX-512, its bf16 and integer dot products, and
// AMX. targets/cpu/isa/tiles_amx.c and tiles_avx512bf16.c are compiled against it in place of the compiler's header, so
// that every machine can run them. Semantics follow the operation sections of Intel's SDM, volume 2, and the AMX
// chapter of the Architecture Instruction Set Extensions reference. Instructions that the kernels do not use are not
// here: it fails to compile.
#ifndef MESHLO_TESTS_SUPPORT_MODEL_IMMINTRIN_H_
#define MESHLO_TESTS_SUPPORT_MODEL_IMMINTRIN_H_

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef union Model512 {
    _Alignas(64) uint8_t u8[64];
    int8_t s8[64];
    uint16_t u16[32];
    uint32_t u32[16];
    int32_t s32[16];
    uint64_t u64[8];
    float f32[16];
} Model512;

// Vectors as the kernels know them: they cast between these types, which keeps the bits.
typedef long long __m512i __attribute__((vector_size(64), may_alias));
typedef float __m512 __attribute__((vector_size(64), may_alias));
typedef short __m512bh __attribute__((vector_size(64), may_alias));
typedef long long __m256i __attribute__((vector_size(32), may_alias));
typedef long long __m128i __attribute__((vector_size(16), may_alias));
typedef uint16_t __mmask16;
typedef uint32_t __mmask32;
typedef uint64_t __mmask64;

#define MODEL static inline __attribute__((unused))

MODEL Model512 model_words(__m512i a) {
    Model512 words;
    memcpy(&words, &a, sizeof words);
    return words;
}
MODEL __m512i model_vector(Model512 words) {
    __m512i a;
    memcpy(&a, &words, sizeof a);
    return a;
}

#define MODEL_LANES(field, count, expression)                        \
    do {                                                             \
        Model512 r;                                                  \
        for (int i = 0; i < (count); i++) r.field[i] = (expression); \
        return model_vector(r);                                      \
    } while (0)

// ---- moves

MODEL __m512i _mm512_castps_si512(__m512 a) {
    return (__m512i)a;
}
MODEL __m512 _mm512_castsi512_ps(__m512i a) {
    return (__m512)a;
}
MODEL __m512i _mm512_setzero_si512(void) {
    return (__m512i){0};
}
MODEL __m512 _mm512_setzero_ps(void) {
    return (__m512){0};
}
MODEL __m512i _mm512_set1_epi32(int x) {
    MODEL_LANES(s32, 16, x);
}
MODEL __m512i _mm512_set1_epi8(char x) {
    MODEL_LANES(u8, 64, (uint8_t)x);
}
// The aligned forms fault where the address is not.
MODEL void model_check_aligned(const void *at) {
    if ((uintptr_t)at % 64) abort();
}
MODEL __m512i _mm512_loadu_si512(const void *from) {
    Model512 r;
    memcpy(&r, from, sizeof r);
    return model_vector(r);
}
MODEL __m512i _mm512_load_si512(const void *from) {
    model_check_aligned(from);
    return _mm512_loadu_si512(from);
}
MODEL void _mm512_storeu_si512(void *to, __m512i a) {
    memcpy(to, &a, 64);
}
MODEL void _mm512_store_si512(void *to, __m512i a) {
    model_check_aligned(to);
    memcpy(to, &a, 64);
}
MODEL __m512 _mm512_loadu_ps(const void *from) {
    return (__m512)_mm512_loadu_si512(from);
}
MODEL void _mm512_storeu_ps(void *to, __m512 a) {
    memcpy(to, &a, 64);
}
// Masked loads access only the elements that the mask names.
MODEL __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const void *from) {
    Model512 r = {{0}};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy(&r.u32[i], (const char *)from + 4 * i, 4);
    return (__m512)model_vector(r);
}
MODEL __m512i _mm512_maskz_loadu_epi8(__mmask64 mask, const void *from) {
    Model512 r = {{0}};
    for (int i = 0; i < 64; i++)
        if (mask >> i & 1) r.u8[i] = ((const uint8_t *)from)[i];
    return model_vector(r);
}
MODEL __m512i _mm512_maskz_loadu_epi16(__mmask32 mask, const void *from) {
    Model512 r = {{0}};
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1) memcpy(&r.u16[i], (const char *)from + 2 * i, 2);
    return model_vector(r);
}
MODEL __m256i _mm256_maskz_loadu_epi16(__mmask16 mask, const void *from) {
    uint16_t r[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy(&r[i], (const char *)from + 2 * i, 2);
    __m256i a;
    memcpy(&a, r, sizeof a);
    return a;
}
MODEL __m128i _mm_maskz_loadu_epi8(__mmask16 mask, const void *from) {
    uint8_t r[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) r[i] = ((const uint8_t *)from)[i];
    __m128i a;
    memcpy(&a, r, sizeof a);
    return a;
}
MODEL __m512i _mm512_cvtepu8_epi32(__m128i a) {
    uint8_t x[16];
    memcpy(x, &a, sizeof x);
    MODEL_LANES(u32, 16, x[i]);
}
MODEL __m512i _mm512_cvtepu16_epi32(__m256i a) {
    uint16_t x[16];
    memcpy(x, &a, sizeof x);
    MODEL_LANES(u32, 16, x[i]);
}

// ---- bits and integers

MODEL __m512i _mm512_and_si512(__m512i a, __m512i b) {
    return a & b;
}
MODEL __m512i _mm512_or_si512(__m512i a, __m512i b) {
    return a | b;
}
MODEL __m512i _mm512_xor_si512(__m512i a, __m512i b) {
    return a ^ b;
}
MODEL __m512i _mm512_srli_epi32(__m512i a, unsigned count) {
    const Model512 x = model_words(a);
    MODEL_LANES(u32, 16, count < 32 ? x.u32[i] >> count : 0);
}
MODEL __m512i _mm512_slli_epi32(__m512i a, unsigned count) {
    const Model512 x = model_words(a);
    MODEL_LANES(u32, 16, count < 32 ? x.u32[i] << count : 0);
}
MODEL __m512i _mm512_sllv_epi32(__m512i a, __m512i counts) {
    const Model512 x = model_words(a), n = model_words(counts);
    MODEL_LANES(u32, 16, n.u32[i] < 32 ? x.u32[i] << n.u32[i] : 0);
}
MODEL __m512i _mm512_add_epi32(__m512i a, __m512i b) {
    const Model512 x = model_words(a), y = model_words(b);
    MODEL_LANES(u32, 16, x.u32[i] + y.u32[i]);
}
MODEL __m512i _mm512_sub_epi32(__m512i a, __m512i b) {
    const Model512 x = model_words(a), y = model_words(b);
    MODEL_LANES(u32, 16, x.u32[i] - y.u32[i]);
}
MODEL __m512i _mm512_max_epu32(__m512i a, __m512i b) {
    const Model512 x = model_words(a), y = model_words(b);
    MODEL_LANES(u32, 16, x.u32[i] > y.u32[i] ? x.u32[i] : y.u32[i]);
}
MODEL __m512i _mm512_min_epu32(__m512i a, __m512i b) {
    const Model512 x = model_words(a), y = model_words(b);
    MODEL_LANES(u32, 16, x.u32[i] < y.u32[i] ? x.u32[i] : y.u32[i]);
}
MODEL __m512i _mm512_mask_mov_epi32(__m512i source, __mmask16 mask, __m512i a) {
    const Model512 s = model_words(source), x = model_words(a);
    MODEL_LANES(u32, 16, mask >> i & 1 ? x.u32[i] : s.u32[i]);
}
MODEL __m512i _mm512_mask_max_epu32(__m512i source, __mmask16 mask, __m512i a, __m512i b) {
    return _mm512_mask_mov_epi32(source, mask, _mm512_max_epu32(a, b));
}
MODEL __m512i _mm512_mask_blend_epi16(__mmask32 mask, __m512i a, __m512i b) {
    const Model512 x = model_words(a), y = model_words(b);
    MODEL_LANES(u16, 32, mask >> i & 1 ? y.u16[i] : x.u16[i]);
}
MODEL __mmask16 _mm512_cmplt_epu32_mask(__m512i a, __m512i b) {
    const Model512 x = model_words(a), y = model_words(b);
    unsigned mask = 0;
    for (int i = 0; i < 16; i++) mask |= (unsigned)(x.u32[i] < y.u32[i]) << i;
    return (__mmask16)mask;
}
MODEL uint32_t _mm512_reduce_max_epu32(__m512i a) {
    const Model512 x = model_words(a);
    uint32_t most = 0;
    for (int i = 0; i < 16; i++) most = x.u32[i] > most ? x.u32[i] : most;
    return most;
}
MODEL uint32_t _mm512_reduce_min_epu32(__m512i a) {
    const Model512 x = model_words(a);
    uint32_t least = UINT32_MAX;
    for (int i = 0; i < 16; i++) least = x.u32[i] < least ? x.u32[i] : least;
    return least;
}
MODEL int _mm512_reduce_add_epi32(__m512i a) {
    const Model512 x = model_words(a);
    uint32_t sum = 0;
    for (int i = 0; i < 16; i++) sum += x.u32[i];
    return (int)sum;
}

// ---- shuffles: within lanes of 128 bits, and of whole lanes

MODEL __m512i _mm512_unpacklo_epi32(__m512i a, __m512i b) {
    const Model512 x = model_words(a), y = model_words(b);
    MODEL_LANES(u32, 16, (i & 1 ? y : x).u32[i / 4 * 4 + i % 4 / 2]);
}
MODEL __m512i _mm512_unpackhi_epi32(__m512i a, __m512i b) {
    const Model512 x = model_words(a), y = model_words(b);
    MODEL_LANES(u32, 16, (i & 1 ? y : x).u32[i / 4 * 4 + 2 + i % 4 / 2]);
}
MODEL __m512i _mm512_unpacklo_epi64(__m512i a, __m512i b) {
    const Model512 x = model_words(a), y = model_words(b);
    MODEL_LANES(u64, 8, (i & 1 ? y : x).u64[i / 2 * 2]);
}
MODEL __m512i _mm512_unpackhi_epi64(__m512i a, __m512i b) {
    const Model512 x = model_words(a), y = model_words(b);
    MODEL_LANES(u64, 8, (i & 1 ? y : x).u64[i / 2 * 2 + 1]);
}
// The lower two lanes come from a, the upper two from b.
MODEL __m512i _mm512_shuffle_i32x4(__m512i a, __m512i b, int order) {
    const Model512 x = model_words(a), y = model_words(b);
    MODEL_LANES(u64, 8, (i < 4 ? x : y).u64[2 * (order >> 2 * (i / 2) & 3) + i % 2]);
}

// ---- floats

enum { _CMP_ORD_Q = 7 };

MODEL __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int predicate) {
    unsigned mask = 0;
    if (predicate != _CMP_ORD_Q) abort();
    for (int i = 0; i < 16; i++) mask |= (unsigned)(a[i] == a[i] && b[i] == b[i]) << i;
    return (__mmask16)mask;
}
MODEL __m512 _mm512_add_ps(__m512 a, __m512 b) {
    return a + b;
}
MODEL __m512 _mm512_sub_ps(__m512 a, __m512 b) {
    return a - b;
}

// Subnormal numbers are zero, on the way in and out of the dot products of bf16.
MODEL float model_flushed(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
MODEL float model_bf16(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return model_flushed(x);
}
MODEL float model_multiply_add(uint16_t a, uint16_t b, float sum) {
    return model_flushed(fmaf(model_bf16(a), model_bf16(b), model_flushed(sum)));
}

// VDPBF16PS: the upper pair first.
MODEL __m512 _mm512_dpbf16_ps(__m512 sum, __m512bh a, __m512bh b) {
    const Model512 x = model_words((__m512i)a), y = model_words((__m512i)b);
    for (int i = 0; i < 16; i++) {
        sum[i] = model_multiply_add(x.u16[2 * i + 1], y.u16[2 * i + 1], sum[i]);
        sum[i] = model_multiply_add(x.u16[2 * i], y.u16[2 * i], sum[i]);
    }
    return sum;
}

// VPDPBUSD: unsigned bytes of a, signed ones of b, wrapping.
MODEL __m512i _mm512_dpbusd_epi32(__m512i sum, __m512i a, __m512i b) {
    Model512 s = model_words(sum);
    const Model512 x = model_words(a), y = model_words(b);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 4; j++) s.u32[i] += (uint32_t)(x.u8[4 * i + j] * y.s8[4 * i + j]);
    return model_vector(s);
}

// ---- AMX

enum { MODEL_TILES = 8 };

// The operand of LDTILECFG, and the tiles of this thread; no palette: not configured, and every instruction faults.
typedef struct ModelTiles {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } configuration;
    Model512 tile[MODEL_TILES][16];
} ModelTiles;

MODEL ModelTiles *model_tiles(void) {
    static _Thread_local ModelTiles tiles;
    return &tiles;
}

MODEL Model512 *model_tile(int number) {
    ModelTiles *tiles = model_tiles();
    if (tiles->configuration.palette != 1 || number < 0 || number >= MODEL_TILES) abort();
    if (tiles->configuration.rows[number] != 16 || tiles->configuration.row_bytes[number] != 64) abort();
    return tiles->tile[number];
}

MODEL void _tile_loadconfig(const void *configuration) {
    memcpy(&model_tiles()->configuration, configuration, 64);
    memset(model_tiles()->tile, 0, sizeof model_tiles()->tile);
}
MODEL void _tile_release(void) {
    memset(model_tiles(), 0, sizeof(ModelTiles));
}
MODEL void _tile_zero(int to) {
    memset(model_tile(to), 0, 1024);
}
MODEL void _tile_loadd(int to, const void *from, size_t stride) {
    Model512 *rows = model_tile(to);
    for (size_t i = 0; i < 16; i++) memcpy(&rows[i], (const char *)from + i * stride, 64);
}
MODEL void _tile_stored(int from, void *to, size_t stride) {
    const Model512 *rows = model_tile(from);
    for (size_t i = 0; i < 16; i++) memcpy((char *)to + i * stride, &rows[i], 64);
}

// TDPBF16PS: chains of the lower and of the upper elements of pairs, from zero, which are added to each other and then
// to the sum.
MODEL void _tile_dpbf16ps(int to, int left, int right) {
    Model512 *c = model_tile(to);
    const Model512 *a = model_tile(left), *b = model_tile(right);
    for (int m = 0; m < 16; m++) {
        float chain[2][16] = {{0}};
        for (int k = 0; k < 16; k++)
            for (int half = 0; half < 2; half++)
                for (int n = 0; n < 16; n++)
                    chain[half][n] = model_multiply_add(a[m].u16[2 * k + half], b[k].u16[2 * n + half], chain[half][n]);
        for (int n = 0; n < 16; n++)
            c[m].f32[n] = model_flushed(model_flushed(c[m].f32[n]) + model_flushed(chain[0][n] + chain[1][n]));
    }
}

#define MODEL_TILE_BYTES(name, left_field, right_field)                                                      \
    MODEL void name(int to, int left, int right) {                                                           \
        Model512 *c = model_tile(to);                                                                        \
        const Model512 *a = model_tile(left), *b = model_tile(right);                                        \
        for (int m = 0; m < 16; m++)                                                                         \
            for (int k = 0; k < 16; k++)                                                                     \
                for (int n = 0; n < 16; n++)                                                                 \
                    for (int j = 0; j < 4; j++)                                                              \
                        c[m].u32[n] += (uint32_t)(a[m].left_field[4 * k + j] * b[k].right_field[4 * n + j]); \
    }
MODEL_TILE_BYTES(_tile_dpbssd, s8, s8)
MODEL_TILE_BYTES(_tile_dpbsud, s8, u8)
MODEL_TILE_BYTES(_tile_dpbusd, u8, s8)
MODEL_TILE_BYTES(_tile_dpbuud, u8, u8)

#endif
