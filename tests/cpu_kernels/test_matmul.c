// SPDX-License-Identifier: Apache-2.0
// Products of every type against plain loops, with all layouts, and the TPU's bf16 passes against their definition.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hlo/ir/literal.h"
#include "targets/cpu/dense/gemm.h"
#include "targets/cpu/dense/matmul.h"
#include "targets/cpu/isa/gemm.h"
#include "targets/cpu/isa/isa.h"
#include "targets/cpu/isa/tiles.h"
#include "tests/support/cases.h"
#include "tests/support/levels.h"

typedef struct TypeCase {
    HloType in, out;
} TypeCase;

static TypeCase kTypes[] = {{HLO_F32, HLO_F32},  {HLO_F64, HLO_F64},   {HLO_C64, HLO_C64},   {HLO_C128, HLO_C128},
                            {HLO_BF16, HLO_F32}, {HLO_BF16, HLO_BF16}, {HLO_F16, HLO_F32},   {HLO_F8E5M2, HLO_F32},
                            {HLO_S8, HLO_S32},   {HLO_S8, HLO_S8},     {HLO_U16, HLO_U16},   {HLO_S32, HLO_S32},
                            {HLO_S64, HLO_S64},  {HLO_S4, HLO_S32},    {HLO_PRED, HLO_PRED}, {HLO_F32, HLO_F64}};
enum { kTypeCount = sizeof kTypes / sizeof kTypes[0] };

static uint32_t state;
static int small_random(void) {
    state = state * 1664525 + 1013904223;
    return (int)(state >> 16) % 8;
}

// Small whole numbers, which every type holds and sums exactly (complex: the imaginary part is one less).
static void put(HloType type, void *array, int64_t at, int value) {
    char *to = (char *)array + at * hlo_type_bytes(type);
    if (hlo_type_is_complex(type)) {
        const double parts[2] = {value, value - 1};
        const float narrow[2] = {(float)value, (float)value - 1};
        memcpy(to, type == HLO_C64 ? (const void *)narrow : parts, (size_t)hlo_type_bytes(type));
        return;
    }
    const uint64_t bits = hlo_type_is_float(type) ? hlo_float_encode(type, value)
                          : type == HLO_PRED      ? (uint64_t)(value & 1)
                                                  : (uint64_t)value;
    memcpy(to, &bits, (size_t)hlo_type_bytes(type));
}

static double get(HloType type, const void *array, int64_t at) {
    const char *from = (const char *)array + at * hlo_type_bytes(type);
    uint64_t bits = 0;
    memcpy(&bits, from, (size_t)(hlo_type_bytes(type) < 8 ? hlo_type_bytes(type) : 8));
    if (type == HLO_C64) return (double)*(const float *)(const void *)from;
    if (type == HLO_C128) return *(const double *)(const void *)from;
    if (hlo_type_is_float(type)) return hlo_float_decode(type, bits);
    const int width = 8 * hlo_type_bytes(type);
    return hlo_type_kind(type) == HLO_KIND_SIGNED ? (double)((int64_t)(bits << (64 - width)) >> (64 - width))
                                                  : (double)bits;
}

enum { kLargest = 160000 };

// layout: 0 row-major, 1 column-major, 2 every second element.
static void layout_strides(int layout, int64_t rows, int64_t columns, int64_t *row, int64_t *column) {
    *row = layout == 1 ? 1 : layout == 2 ? 2 * columns : columns;
    *column = layout == 1 ? rows : layout == 2 ? 2 : 1;
}

static double wrap(HloType type, double value) {
    const HloTypeInfo *info = hlo_type_info(type);
    if (type == HLO_PRED) return value != 0;
    if (info->kind == HLO_KIND_FLOAT) return hlo_float_decode(type, hlo_float_encode(type, value));
    if (info->kind == HLO_KIND_COMPLEX || info->bits >= 32) return value;
    const int64_t bits = (int64_t)((uint64_t)(int64_t)value << (64 - info->bits));
    return info->kind == HLO_KIND_SIGNED ? (double)(bits >> (64 - info->bits))
                                         : (double)((uint64_t)bits >> (64 - info->bits));
}

static void check(CpuPool *pool, const TypeCase *types, const int64_t *size, int layouts) {
    static double a_store[2 * kLargest], b_store[2 * kLargest], out_store[2 * kLargest];
    static double a_values[4 * kLargest], b_values[4 * kLargest];
    CpuMatmul mm = {.lhs_type = types->in,
                    .rhs_type = types->in,
                    .out_type = types->out,
                    .batch = 2,
                    .m = size[0],
                    .n = size[1],
                    .k = size[2]};
    layout_strides(layouts % 3, mm.m, mm.k, &mm.lhs_m_stride, &mm.lhs_k_stride);
    layout_strides(layouts / 3 % 3, mm.k, mm.n, &mm.rhs_k_stride, &mm.rhs_n_stride);
    layout_strides(layouts / 9, mm.m, mm.n, &mm.out_m_stride, &mm.out_n_stride);
    mm.lhs_batch_stride = 2 * mm.m * mm.k;
    mm.rhs_batch_stride = 0;
    mm.out_batch_stride = 2 * mm.m * mm.n;
    for (int64_t i = 0; i < 4 * mm.m * mm.k; i++) {
        put(types->in, a_store, i, small_random());
        a_values[i] = get(types->in, a_store, i);
    }
    for (int64_t i = 0; i < 2 * mm.k * mm.n; i++) {
        put(types->in, b_store, i, small_random());
        b_values[i] = get(types->in, b_store, i);
    }
    cr_assert_null(cpu_matmul(pool, &mm, out_store, a_store, b_store));
    for (int64_t b = 0; b < 2; b++)
        for (int64_t i = 0; i < mm.m * mm.n; i++) {
            const int64_t m = i / mm.n, n = i % mm.n;
            double sum = 0;
            for (int64_t k = 0; k < mm.k; k++) {
                const double x = a_values[b * mm.lhs_batch_stride + m * mm.lhs_m_stride + k * mm.lhs_k_stride];
                const double y = b_values[k * mm.rhs_k_stride + n * mm.rhs_n_stride];
                sum += hlo_type_is_complex(types->in) ? x * y - (x - 1) * (y - 1) : x * y;
            }
            const double got =
                get(types->out, out_store, b * mm.out_batch_stride + m * mm.out_m_stride + n * mm.out_n_stride);
            cr_assert_eq(got, wrap(types->out, sum), "%s: %g, not %g at %lld,%lld", hlo_type_text(types->in), got,
                         wrap(types->out, sum), (long long)m, (long long)n);
        }
}

CaseList(cpu_matmul, products_of_all_types) {
    return cr_make_param_array(TypeCase, kTypes, kTypeCount);
}

CaseTest(TypeCase *types, cpu_matmul, products_of_all_types) {
    // The last one has several panels of columns, and more rows than read them in place.
    static const int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7}, {1, 33, 20},  {33, 1, 20},
                                       {40, 50, 60}, {4, 4, 0}, {66, 150, 12}};
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(2, CPU_FEATURES_AMX, &pool));
    for (int blas = 0; blas < (levels_have_blas() ? 2 : 1); blas++) {
        cpu_pool_set_blas(pool, blas ? CPU_BLAS_OPENBLAS : CPU_BLAS_BUILTIN);
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int layouts = 0; layouts < 27; layouts++) check(pool, types, sizes[s], layouts);
    }
    cpu_pool_free(pool);
}

// Operands that are converted are packed as they are in memory, some columns at a time.
Test(cpu_matmul, converted_sides_of_few_rows) {
    static const int64_t sizes[][3] = {{1, 130, 300}, {130, 1, 300}, {3, 130, 300}, {130, 3, 300}};
    static const TypeCase types[] = {{HLO_BF16, HLO_F32}, {HLO_BF16, HLO_BF16}, {HLO_S8, HLO_S32}, {HLO_S8, HLO_S8}};
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(2, CPU_FEATURES_AMX, &pool));
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int layouts = 0; layouts < 27; layouts++) check(pool, &types[t], sizes[s], layouts);
    cpu_pool_free(pool);
}

// Batches of small products, each of which is one call of a kernel, have the bits that the products have alone, on
// every set and for any number of workers.
Test(cpu_matmul, small_products_of_a_batch_are_those_alone) {
    enum { kBatch = 700, kMost = 17 * 17 };
    static float a[kBatch * kMost], b[kBatch * kMost], together[kBatch * kMost], alone[kBatch * kMost];
    static const int64_t sizes[][3] = {{3, 3, 3},   {2, 5, 17},  {17, 4, 1}, {8, 16, 9}, {16, 17, 16},
                                       {16, 1, 17}, {1, 16, 17}, {5, 1, 40}, {1, 7, 1}};
    for (int i = 0; i < kBatch * kMost; i++) a[i] = (float)(i * 29 % 83) / 7, b[i] = (float)(i * 31 % 97) / 9 - 3;
    for (int form = 2 * levels_first(); form <= 2 * levels_last() + 1; form++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            CpuMatmul mm = {.lhs_type = HLO_F32,
                            .rhs_type = HLO_F32,
                            .out_type = HLO_F32,
                            .batch = kBatch,
                            .m = m,
                            .n = n,
                            .k = k,
                            .lhs_batch_stride = m * k,
                            .lhs_m_stride = s % 2 ? 1 : k,
                            .lhs_k_stride = s % 2 ? m : 1,
                            .rhs_batch_stride = k * n,
                            .rhs_k_stride = n,
                            .rhs_n_stride = 1,
                            .out_batch_stride = m * n,
                            .out_m_stride = n,
                            .out_n_stride = 1};
            CpuPool *pool;
            cr_assert_null(cpu_pool_new_with(form % 2 ? 3 : 1, (CpuFeatures)(form / 2), &pool));
            cr_assert_null(cpu_matmul(pool, &mm, together, a, b));
            mm.batch = 1;
            for (int i = 0; i < kBatch; i++)
                cr_assert_null(cpu_matmul(pool, &mm, alone + i * m * n, a + i * m * k, b + i * k * n));
            cr_assert_eq(memcmp(together, alone, sizeof(float) * (size_t)(kBatch * m * n)), 0, "form %d, size %zu",
                         form, s);
            cpu_pool_free(pool);
        }
}

static float bf16(float x, int up) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (up ? bits + 0x7fff + (bits >> 16 & 1) : bits) & 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void fill_random(float *to, int count) {
    for (int i = 0; i < count; i++) {
        state = state * 1664525 + 1013904223;
        to[i] = (float)(int32_t)state * 0x1p-31f;
    }
}

static CpuMatmul square(int64_t size) {
    return (CpuMatmul){.lhs_type = HLO_F32,
                       .rhs_type = HLO_F32,
                       .out_type = HLO_F32,
                       .batch = 1,
                       .m = size,
                       .n = size,
                       .k = size,
                       .lhs_m_stride = size,
                       .lhs_k_stride = 1,
                       .rhs_k_stride = size,
                       .rhs_n_stride = 1,
                       .out_m_stride = size,
                       .out_n_stride = 1};
}

// The same if the operands are rounded to bf16, in any layout; NaN and infinity included.
Test(cpu_matmul, small_rounded_products_of_a_batch_are_those_alone) {
    enum { kBatch = 300, kMost = 17 * 17 };
    static float a[kBatch * kMost], b[kBatch * kMost], together[kBatch * kMost], alone[kBatch * kMost];
    static const int64_t sizes[][3] = {{3, 3, 3}, {2, 5, 17}, {8, 16, 9}, {16, 17, 16}};
    fill_random(a, kBatch * kMost);
    fill_random(b, kBatch * kMost);
    for (int i = 0; i < 9; i++) a[i * 1001] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : 0x1.fffffep127f;
    for (int form = 0; form < 16; form++) {
        const int64_t *size = sizes[form / 4], m = size[0], n = size[1], k = size[2];
        const bool left = form & 1, right = form & 2;
        CpuMatmul mm = square(1);
        mm.precision = CPU_PRECISION_BF16_1;
        mm.batch = kBatch, mm.m = m, mm.n = n, mm.k = k;
        mm.lhs_batch_stride = m * k, mm.rhs_batch_stride = k * n, mm.out_batch_stride = m * n;
        mm.lhs_m_stride = left ? 1 : k, mm.lhs_k_stride = left ? m : 1;
        mm.rhs_k_stride = right ? 1 : n, mm.rhs_n_stride = right ? k : 1;
        mm.out_m_stride = n;
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(2, CPU_FEATURES_AVX512, &pool));
        cr_assert_null(cpu_matmul(pool, &mm, together, a, b));
        mm.batch = 1;
        for (int i = 0; i < kBatch; i++)
            cr_assert_null(cpu_matmul(pool, &mm, alone + i * m * n, a + i * m * k, b + i * k * n));
        for (int i = 0; i < kBatch * m * n; i++)
            cr_assert(memcmp(together + i, alone + i, sizeof(float)) == 0 ||
                          (together[i] != together[i] && alone[i] != alone[i]),
                      "form %d, element %d: %a, alone %a", form, i, together[i], alone[i]);
        cpu_pool_free(pool);
    }
}

// Error against f64 of products of random numbers: 1 pass about 2^-8, 3 passes about 2^-16, 6 passes as f32.
Test(cpu_matmul, bf16_passes) {
    enum { kSize = 64 };
    static float a[kSize * kSize], b[kSize * kSize], out[kSize * kSize];
    for (int i = 0; i < kSize * kSize; i++) {
        state = state * 1664525 + 1013904223;
        a[i] = (float)(int32_t)state * 0x1p-31f;
        state = state * 1664525 + 1013904223;
        b[i] = (float)(int32_t)state * 0x1p-31f;
    }
    static const double low[] = {0, 1e-3, 1e-6, 0}, high[] = {1e-5, 0.1, 3e-4, 1e-5};
    for (int p = CPU_PRECISION_EXACT; p <= CPU_PRECISION_BF16_6; p++) {
        CpuMatmul mm = square(kSize);
        mm.precision = (CpuPrecision)p;
        cr_assert_null(cpu_matmul(NULL, &mm, out, a, b));
        double worst = 0, worst_defined = 0;
        for (int i = 0; i < kSize * kSize; i++) {
            double exact = 0, defined = 0;
            for (int k = 0; k < kSize; k++) {
                const float x = a[i / kSize * kSize + k], y = b[k * kSize + i % kSize];
                exact += (double)x * y;
                defined += (double)bf16(x, 1) * bf16(y, 1);
            }
            worst = fmax(worst, fabs(out[i] - exact));
            worst_defined = fmax(worst_defined, fabs(out[i] - defined));
        }
        cr_assert(worst >= low[p] && worst <= high[p], "precision %d: error %g", p, worst);
        if (p == CPU_PRECISION_BF16_1) cr_assert(worst_defined < 1e-5);
    }
}

// bug: products of low parts were added to the long sum one by one, where each is too small to be seen. Of positive
// numbers they are all positive: 2^-16 of the sum was missing.
CaseList(cpu_matmul, bug_low_parts_are_lost_beside_long_sums) {
    return levels_cases();
}

CaseTest(const int *set, cpu_matmul, bug_low_parts_are_lost_beside_long_sums) {
    enum { kSize = 64, kDepth = 2048 };
    static float a[kSize * kDepth], b[kDepth * kSize], out[kSize * kSize];
    fill_random(a, kSize * kDepth), fill_random(b, kSize * kDepth);
    for (int i = 0; i < kSize * kDepth; i++) a[i] = 1 + fabsf(a[i]), b[i] = 1 + fabsf(b[i]);
    static const double high[] = {1e-6, 1e-2, 1e-4, 1e-6};
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(1, (CpuFeatures)*set, &pool));
    for (int p = CPU_PRECISION_EXACT; p <= CPU_PRECISION_BF16_6; p++) {
        CpuMatmul mm = square(kSize);
        mm.k = mm.lhs_m_stride = kDepth;
        mm.precision = (CpuPrecision)p;
        cr_assert_null(cpu_matmul(pool, &mm, out, a, b));
        double worst = 0;
        for (int i = 0; i < kSize * kSize; i++) {
            double exact = 0;
            for (int k = 0; k < kDepth; k++) exact += (double)a[i / kSize * kDepth + k] * b[k * kSize + i % kSize];
            worst = fmax(worst, fabs(out[i] / exact - 1));
        }
        cr_expect(worst <= high[p], "precision %d: error %g", p, worst);
    }
    cpu_pool_free(pool);
}

// The same of the kernels themselves, which not every processor that has them uses for this.
Test(cpu_matmul, bug_low_parts_are_lost_beside_long_sums_in_kernels) {
    enum { kDepth = 2048, kBytes = kDepth / 32 * 3 * CPU_TILE_BYTES };
    static float a[CPU_TILE_LANES * kDepth], b[CPU_TILE_LANES * kDepth], out[CPU_TILE_LANES * CPU_TILE_LANES];
    fill_random(a, CPU_TILE_LANES * kDepth), fill_random(b, CPU_TILE_LANES * kDepth);
    for (int i = 0; i < CPU_TILE_LANES * kDepth; i++) a[i] = 1 + fabsf(a[i]), b[i] = 1 + fabsf(b[i]);
    void *packed[2] = {hlo_allocate_aligned(kBytes), hlo_allocate_aligned(kBytes)};
    for (int set = levels_first(); set <= levels_last(); set++) {
        if (set < CPU_FEATURES_AVX512_BF16) continue;
        const CpuTileKernels *kernels = cpu_isa_tile_kernels((CpuFeatures)set);
        CpuTileRange range = {0, UINT32_MAX};
        kernels->pack(packed[0], CPU_TILE_F32_3, false, a, CPU_TILE_LANES, kDepth, kDepth, 1, &range);
        kernels->pack(packed[1], CPU_TILE_F32_3, true, b, CPU_TILE_LANES, kDepth, kDepth, 1, &range);
        kernels->begin();
        kernels->multiply(CPU_TILE_F32_3, CPU_TILE_F32_3, kDepth / 32, packed[0], packed[1], out, CPU_TILE_LANES,
                          false);
        kernels->end();
        for (int i = 0; i < CPU_TILE_LANES * CPU_TILE_LANES; i++) {
            double exact = 0;
            for (int k = 0; k < kDepth; k++)
                exact += (double)a[i / CPU_TILE_LANES * kDepth + k] * b[i % CPU_TILE_LANES * kDepth + k];
            cr_assert_float_eq(out[i] / exact, 1, 1e-6, "set %d, at %d: %g", set, i, out[i] / exact - 1);
        }
    }
    for (int i = 0; i < 2; i++) hlo_free(packed[i]);
}

// A finite number whose high part is infinite makes the sum infinite in passes, though f32 arithmetic would not.
Test(cpu_matmul, infinite_parts_of_six_passes) {
    enum { kSize = 40 };
    static float a[kSize * kSize], b[kSize * kSize], out[kSize * kSize];
    for (int turned = 0; turned < 2; turned++) {
        for (int i = 0; i < kSize * kSize; i++) a[i] = b[i] = i % (kSize + 1) == 0;  // unit matrices
        CpuMatmul mm = square(kSize);
        mm.precision = CPU_PRECISION_BF16_6;
        (turned ? b : a)[3 * kSize + 3] = 0x1.fffffep127f;
        a[5 * kSize + 5] = 0x1.fcp127f;
        cr_assert_null(cpu_matmul(NULL, &mm, out, a, b));
        cr_expect(!isfinite(out[3 * kSize + 3]), "%g", (double)out[3 * kSize + 3]);
        cr_expect_eq(out[5 * kSize + 5], 0x1.fcp127f);
    }
}

// ---- infinities and NaN

// Part `part` of three of x, as bf16 in an f32.
static float part_of(float x, int part) {
    for (int i = 0; i < part; i++) x -= bf16(x, isfinite(x));
    return bf16(x, isfinite(x));
}

// The definition of precisions, in f32: the passes of lower parts are summed first and dropped where they are NaN.
static float by_definition(CpuPrecision precision, const float *a, const float *b, int64_t b_step, int64_t depth) {
    static const int kPairs[][2] = {{1, 1}, {0, 2}, {2, 0}, {0, 1}, {1, 0}};
    float low = 0, high = 0;
    for (int p = precision == CPU_PRECISION_BF16_6 ? 0 : 3; p < 5 && precision >= CPU_PRECISION_BF16_3; p++)
        for (int64_t k = 0; k < depth; k++) low += part_of(a[k], kPairs[p][0]) * part_of(b[k * b_step], kPairs[p][1]);
    for (int64_t k = 0; k < depth; k++)
        high += precision == CPU_PRECISION_EXACT ? a[k] * b[k * b_step] : part_of(a[k], 0) * part_of(b[k * b_step], 0);
    return (isnan(low) ? 0 : low) + high;
}

// At most one product of a sum has special operands, so that the order of additions does not matter.
static float special_or_small(int64_t row, int64_t k, float special) {
    return row % 3 == 0 && k == 37 ? special : (float)(small_random() - 4) / 8 * (k % 5 ? 1 : 1.003f);
}

static void check_specials(CpuPool *pool, CpuPrecision precision, float special, bool is_right, bool narrow) {
    enum { kRows = 70, kColumns = 66, kDepth = 72 };
    static float a[kRows * kDepth], b[kDepth * kColumns], out[kRows * kColumns];
    static uint16_t a_narrow[kRows * kDepth], b_narrow[kDepth * kColumns];
    for (int i = 0; i < kRows * kDepth; i++) a[i] = special_or_small(i / kDepth, i % kDepth, is_right ? 0.5f : special);
    for (int i = 0; i < kDepth * kColumns; i++)
        b[i] = special_or_small(i % kColumns, i / kColumns, is_right ? special : fabsf(special) < 1e31f ? special : 1);
    for (int i = 0; narrow && i < kRows * kDepth; i++)
        a[i] = part_of(a[i], 0), a_narrow[i] = (uint16_t)hlo_float_encode(HLO_BF16, a[i]);
    for (int i = 0; narrow && i < kDepth * kColumns; i++)
        b[i] = part_of(b[i], 0), b_narrow[i] = (uint16_t)hlo_float_encode(HLO_BF16, b[i]);
    CpuMatmul mm = square(kDepth);
    mm.m = kRows, mm.n = mm.rhs_k_stride = mm.out_m_stride = kColumns;
    mm.precision = precision;
    if (narrow) mm.lhs_type = mm.rhs_type = HLO_BF16;
    cr_assert_null(cpu_matmul(pool, &mm, out, narrow ? (void *)a_narrow : a, narrow ? (void *)b_narrow : b));
    for (int i = 0; i < kRows * kColumns; i++) {
        const float want = by_definition(precision, a + i / kColumns * kDepth, b + i % kColumns, kColumns, kDepth);
        cr_assert(isnan(want)   ? isnan(out[i])
                  : isinf(want) ? out[i] == want
                                : fabsf(out[i] - want) <= 1e-2f * fmaxf(1, fabsf(want)),
                  "precision %d, %a on side %d, bf16 %d, at %d: %g, not %g", (int)precision, (double)special, is_right,
                  narrow, i, (double)out[i], (double)want);
    }
}

// bug: tiles cut f32 where all other ways round, so that the largest numbers did not become infinite; and where sums of
// finite numbers overflow, NaN or not depended on the order of additions.
CaseList(cpu_matmul, bug_infinities_and_nan_differ_between_instruction_sets) {
    return levels_cases();
}

CaseTest(const int *set, cpu_matmul, bug_infinities_and_nan_differ_between_instruction_sets) {
    static const float specials[] = {INFINITY,        -INFINITY,   NAN,   0x1.fffffep127f, -0x1.fffffep127f,
                                     0x1.fefffep127f, 0x1.ffp127f, 1e30f, -1e30f,          0x1p60f};
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(1, (CpuFeatures)*set, &pool));
    for (size_t s = 0; s < HLO_COUNT_OF(specials); s++)
        for (int side = 0; side < 2; side++) {
            for (int p = CPU_PRECISION_EXACT; p <= CPU_PRECISION_BF16_6; p++)
                check_specials(pool, (CpuPrecision)p, specials[s], side, false);
            check_specials(pool, CPU_PRECISION_EXACT, specials[s], side, true);
        }
    cpu_pool_free(pool);
}

Test(cpu_matmul, results_do_not_depend_on_workers) {
    enum { kSize = 300 };
    static float a[kSize * kSize], b[kSize * kSize], outs[2][kSize * kSize];
    for (int i = 0; i < kSize * kSize; i++) a[i] = (float)small_random() / 7, b[i] = (float)small_random() / 3;
    for (int blas = 0; blas < (levels_have_blas() ? 2 : 1); blas++) {
        for (int w = 0; w < 2; w++) {
            CpuPool *pool;
            cr_assert_null(cpu_pool_new_with(w ? 5 : 1, CPU_FEATURES_AMX, &pool));
            cpu_pool_set_blas(pool, blas ? CPU_BLAS_OPENBLAS : CPU_BLAS_BUILTIN);
            const CpuMatmul mm = square(kSize);
            cr_assert_null(cpu_matmul(pool, &mm, outs[w], a, b));
            cpu_pool_free(pool);
        }
        cr_assert_eq(memcmp(outs[0], outs[1], sizeof outs[0]), 0);
    }
}

// The largest magnitudes, over a depth at which f32 sums would round.
Test(cpu_matmul, sums_of_bytes_are_exact) {
    enum { kDepth = 5000 };
    static uint8_t a[2 * kDepth], b[kDepth * 3];
    uint32_t out[6];
    for (int i = 0; i < 2 * kDepth; i++) a[i] = (uint8_t)(255 - i % 3);
    for (int i = 0; i < 3 * kDepth; i++) b[i] = (uint8_t)(254 + i % 2);
    const CpuMatmul mm = {.lhs_type = HLO_U8,
                          .rhs_type = HLO_U8,
                          .out_type = HLO_U32,
                          .batch = 1,
                          .m = 2,
                          .n = 3,
                          .k = kDepth,
                          .lhs_m_stride = kDepth,
                          .lhs_k_stride = 1,
                          .rhs_k_stride = 3,
                          .rhs_n_stride = 1,
                          .out_m_stride = 3,
                          .out_n_stride = 1};
    cr_assert_null(cpu_matmul(NULL, &mm, out, a, b));
    for (int i = 0; i < 6; i++) {
        uint32_t want = 0;
        for (int k = 0; k < kDepth; k++) want += (uint32_t)a[i / 3 * kDepth + k] * b[k * 3 + i % 3];
        cr_assert_eq(out[i], want);
    }
}

Test(cpu_matmul, refuses_mixed_kinds) {
    const CpuMatmul mm = {
        .lhs_type = HLO_F32, .rhs_type = HLO_S32, .out_type = HLO_S32, .batch = 1, .m = 1, .n = 1, .k = 1};
    const HloStatus status = cpu_matmul(NULL, &mm, NULL, NULL, NULL);
    cr_assert_eq(hlo_status_code(status), HLO_UNIMPLEMENTED);
    hlo_status_free(status);
}

// ---- products by tiles (tiles.h)

enum { kWide = 200 };

// Exact sums of small whole numbers through the tiles, for all types that have them, layouts and sizes off their grid.
Test(cpu_matmul, tiles_of_all_types) {
    static TypeCase types[] = {{HLO_F32, HLO_F32}, {HLO_BF16, HLO_F32}, {HLO_BF16, HLO_BF16}, {HLO_S8, HLO_S32},
                               {HLO_U8, HLO_S32},  {HLO_S8, HLO_U32},   {HLO_F16, HLO_F32}};
    static const int64_t sizes[][3] = {{8, 9, 17}, {33, 65, 40}, {70, 64, 72}, {64, 70, 75}};
    for (int set = levels_first(); set <= levels_last(); set++) {
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(2, (CpuFeatures)set, &pool));
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
            for (int s = 0; s < 4; s++)
                for (int layouts = 0; layouts < 27; layouts++) check(pool, &types[t], sizes[s], layouts);
        cpu_pool_free(pool);
    }
}

// Bytes of any value, signed and unsigned on either side, also where all products are the largest.
Test(cpu_matmul, bytes_of_all_values) {
    enum { kRows = 45, kColumns = 70, kDepth = 333 };
    static uint8_t a[kRows * kDepth], b[kDepth * kColumns];
    static int32_t out[kRows * kColumns];
    for (int which = 0; which < 32; which++) {
        const bool signs[2] = {which & 1, which & 2}, turned[2] = {which & 4, which & 8}, largest = which & 16;
        CpuMatmul mm = square(0);
        mm.lhs_type = signs[0] ? HLO_S8 : HLO_U8, mm.rhs_type = signs[1] ? HLO_S8 : HLO_U8, mm.out_type = HLO_S32;
        mm.m = kRows, mm.n = kColumns, mm.k = kDepth, mm.out_m_stride = kColumns;
        mm.lhs_m_stride = turned[0] ? 1 : kDepth, mm.lhs_k_stride = turned[0] ? kRows : 1;
        mm.rhs_k_stride = turned[1] ? 1 : kColumns, mm.rhs_n_stride = turned[1] ? kDepth : 1;
        for (int i = 0; i < kRows * kDepth; i++) a[i] = (uint8_t)(largest ? signs[0] ? 128 : 255 : small_random() * 36);
        for (int i = 0; i < kDepth * kColumns; i++)
            b[i] = (uint8_t)(largest ? signs[1] ? 128 : 255 : small_random() * 36);
        for (int set = levels_first(); set <= levels_last(); set++) {
            CpuPool *pool;
            cr_assert_null(cpu_pool_new_with(1, (CpuFeatures)set, &pool));
            memset(out, 0xee, sizeof out);
            cr_assert_null(cpu_matmul(pool, &mm, out, a, b));
            cpu_pool_free(pool);
            for (int at = 0; at < kRows * kColumns; at++) {
                int sum = 0;
                for (int k = 0; k < kDepth; k++) {
                    const uint8_t x = a[at / kColumns * mm.lhs_m_stride + k * mm.lhs_k_stride];
                    const uint8_t y = b[k * mm.rhs_k_stride + at % kColumns * mm.rhs_n_stride];
                    sum += (signs[0] ? (int8_t)x : x) * (signs[1] ? (int8_t)y : y);
                }
                cr_assert_eq(out[at], sum, "case %d, set %d, at %d: %d, not %d", which, set, at, out[at], sum);
            }
        }
    }
}

// f32 products through bf16 parts are as close to f64 as sums of f32 products are.
Test(cpu_matmul, f32_products_by_parts_are_f32_products) {
    static float a[kWide * kWide], b[kWide * kWide], out[kWide * kWide];
    const CpuMatmul mm = square(kWide);
    fill_random(a, kWide * kWide), fill_random(b, kWide * kWide);
    cr_assert_null(cpu_matmul(NULL, &mm, out, a, b));
    double squares = 0, error = 0;
    for (int i = 0; i < kWide; i++)
        for (int j = 0; j < kWide; j++) {
            double sum = 0;
            for (int k = 0; k < kWide; k++) sum += (double)a[i * kWide + k] * (double)b[k * kWide + j];
            squares += sum * sum;
            error += (sum - (double)out[i * kWide + j]) * (sum - (double)out[i * kWide + j]);
        }
    cr_assert_lt(sqrt(error / squares), 4e-7, "relative error %g", sqrt(error / squares));
}

// Numbers that parts cannot hold: infinities, NaN, the largest number and products of tiny ones, down to the least
// normal number; large products count smaller numbers as zero.
Test(cpu_matmul, f32_products_of_numbers_without_parts) {
    static const float specials[] = {INFINITY, NAN, 3.4e38f, 0x1p-125f};
    static float a[kWide * kWide], b[kWide * kWide], out[kWide * kWide];
    const CpuMatmul mm = square(kWide);
    for (int s = 0; s < 4; s++) {
        const float special = specials[s];
        for (int i = 0; i < kWide * kWide; i++) a[i] = 0, b[i] = i % (kWide + 1) == 0;  // b: the unit matrix
        for (int i = 0; i < kWide; i++) a[i * kWide + i] = special;
        b[5 * kWide + 5] = 0.5f;
        cr_assert_null(cpu_matmul(NULL, &mm, out, a, b));
        const float want = special * 0.5f, got = out[5 * kWide + 5], other = out[7 * kWide + 7];
        cr_assert(isnan(special) || isinf(special) ? isnan(got) || got == want : got == want, "%g: %g", (double)special,
                  (double)got);
        cr_assert(isnan(special) ? isnan(other) : other == special, "%g: %g", (double)special, (double)other);
    }
}

// Small products keep them, large ones do not (gemm.h), and the thread is left as it was.
Test(cpu_matmul, subnormal_numbers) {
    enum { kFew = 4, kMany = 64 };
    static float a[kMany * kMany], b[kMany * kMany], out[kMany * kMany];
    volatile float small = 0x1p-130f;
    for (int set = levels_first(); set <= levels_last(); set++) {
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(2, (CpuFeatures)set, &pool));
        for (int size = kFew; size <= kMany; size *= 16) {
            for (int i = 0; i < size * size; i++) a[i] = small, b[i] = i % (size + 1) == 0;
            const CpuMatmul mm = square(size);
            cr_assert_null(cpu_matmul(pool, &mm, out, a, b));
            for (int i = 0; i < size * size; i++)
                cr_assert(out[i] == small || (size == kMany && out[i] == 0), "set %d, size %d: %a", set, size,
                          (double)out[i]);
            cr_assert_eq(small * 0.5f, 0x1p-131f);
        }
        cpu_pool_free(pool);
    }
}

// Returns one element of a product by gemm.h's definition: fused at all levels but baseline.
static float by_chain(bool fused, const CpuGemm *g, const float *c, const float *a, const float *b) {
    enum { kDepth = 384 };
    float all = *c;
    for (int64_t k0 = 0; k0 < g->k; k0 += kDepth) {
        volatile float sum = 0;
        for (int64_t k = k0; k < g->k && k < k0 + kDepth; k++) {
            const float x = a[k * g->a_k_stride], y = b[k * g->b_k_stride];
            volatile float product = x * y;
            sum = fused ? fmaf(x, y, sum) : product + sum;
        }
        all = g->accumulate || k0 > 0 ? all + sum : sum;
    }
    return all;
}

static void check_chains(CpuPool *pool, int set, CpuGemm g, const float *a, const float *b, const float *before) {
    static float out[512 * 512];
    const bool fused = set != CPU_FEATURES_BASELINE;
    memcpy(out, before, sizeof(float) * (size_t)(g.m * g.ldc));
    cr_assert_null(cpu_gemm(pool, &g, out, a, b));
    for (int64_t i = 0; i < g.m * g.ldc; i++) {
        const int64_t m = i / g.ldc, n = i % g.ldc;
        const float expected =
            n < g.n ? by_chain(fused, &g, before + i, a + m * g.a_m_stride, b + n * g.b_n_stride) : before[i];
        cr_assert((isnan(expected) && isnan(out[i])) || memcmp(&expected, &out[i], sizeof expected) == 0,
                  "set %d, %d x %d x %d, strides %d %d, element %d: %a, not %a", set, (int)g.m, (int)g.n, (int)g.k,
                  (int)g.a_m_stride, (int)g.b_n_stride, (int)i, (double)out[i], (double)expected);
    }
}

// Products that are not packed, because they have few columns or a small depth, or are packed while they are computed,
// because they have few rows, are the same chains of sums as others, with any strides and special numbers.
Test(cpu_matmul, narrow_and_shallow_products_are_chains) {
    enum { kMost = 512 * 512 };
    static float a[kMost], b[kMost], before[kMost];
    static const int64_t sizes[][3] = {{300, 2, 100}, {300, 3, 200}, {259, 4, 47},  {301, 5, 33}, {130, 7, 390},
                                       {200, 8, 41},  {3, 300, 200}, {6, 257, 45},  {8, 140, 70}, {256, 200, 3},
                                       {190, 300, 1}, {99, 131, 8},  {150, 33, 7},  {2, 90, 500}, {5000, 3, 3},
                                       {64, 9, 100},  {13, 90, 500}, {40, 77, 130}, {72, 64, 40}};
    for (int i = 0; i < kMost; i++) {
        a[i] = (float)small_random() / 7, b[i] = (float)small_random() / 3 - 1, before[i] = (float)small_random() / 5;
        if (i % 1009 == 7) a[i] = -0.0f;
        if (i % 5003 == 11) a[i] = INFINITY;
        if (i % 9001 == 13) b[i] = NAN;
    }
    for (int form = 2 * levels_first(); form <= 2 * levels_last() + 1; form++) {
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(form % 2 ? 3 : 1, (CpuFeatures)(form / 2), &pool));
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int layouts = 0; layouts < 18; layouts++) {
                CpuGemm g = {.element = CPU_GEMM_F32,
                             .accumulate = layouts >= 9,
                             .m = sizes[s][0],
                             .n = sizes[s][1],
                             .k = sizes[s][2],
                             .ldc = sizes[s][1] + layouts % 2};
                layout_strides(layouts % 3, g.m, g.k, &g.a_m_stride, &g.a_k_stride);
                layout_strides(layouts / 3 % 3, g.k, g.n, &g.b_k_stride, &g.b_n_stride);
                check_chains(pool, form / 2, g, a, b, before);
            }
        cpu_pool_free(pool);
    }
}

// Zeros of the left side at the beginning of a block of its depth are skipped; not so where the right side has
// infinities or NaNs, whose products with them are NaN, nor at the block's end. Row 7 has sums of -0, from products
// that are too small for any number: zeros after them make these 0 in column 5, and keep them in column 4.
Test(cpu_matmul, blocks_of_zeros_are_chains) {
    enum { kMost = 512 * 512, kRows = 150, kColumns = 70, kDepth = 900 };
    static float a[kMost], b[kMost], before[kMost];
    for (int i = 0; i < kMost; i++) {
        b[i] = (float)small_random() / 3 - 1, before[i] = (float)small_random() / 5;
        if (i % 1009 == 7 || i / kColumns == 7) before[i] = -0.0f;
        if (i % kColumns == 4 || i % kColumns == 5) b[i] = i % kColumns == 5 && i / kColumns > 60 ? 1e-30f : -1e-30f;
    }
    for (int special = 0; special < 3; special++) {
        if (special) b[5 * kColumns + 3] = special == 1 ? INFINITY : NAN;
        for (int form = 2 * levels_first(); form <= 2 * levels_last() + 1; form++) {
            CpuPool *pool;
            cr_assert_null(cpu_pool_new_with(form % 2 ? 3 : 1, (CpuFeatures)(form / 2), &pool));
            for (int layouts = 0; layouts < 12; layouts++) {
                CpuGemm g = {.element = CPU_GEMM_F32,
                             .accumulate = layouts >= 6,
                             .m = kRows,
                             .n = kColumns,
                             .k = kDepth,
                             .ldc = kColumns,
                             .b_k_stride = kColumns,
                             .b_n_stride = 1};
                layout_strides(layouts % 2, g.m, g.k, &g.a_m_stride, &g.a_k_stride);
                for (int64_t m = 0; m < g.m; m++)
                    for (int64_t k = 0; k < g.k; k++) {
                        const bool used = layouts % 3 == 0   ? k >= 5 * m
                                          : layouts % 3 == 1 ? k <= 5 * m
                                                             : k / 300 == m / 50;
                        const float zero = m == 7 || (m + k) % 3 ? 0.0f : -0.0f,
                                    value = m == 7 ? 1e-30f : (float)small_random() / 7;
                        a[m * g.a_m_stride + k * g.a_k_stride] = used ? value : zero;
                    }
                check_chains(pool, form / 2, g, a, b, before);
            }
            cpu_pool_free(pool);
        }
    }
}

// Any number of workers gives the same bits.
Test(cpu_matmul, tiles_do_not_depend_on_workers) {
    enum { kSize = 300 };
    static float a[kSize * kSize], b[kSize * kSize], one[kSize * kSize], many[kSize * kSize];
    fill_random(a, kSize * kSize), fill_random(b, kSize * kSize);
    for (int p = CPU_PRECISION_EXACT; p <= CPU_PRECISION_BF16_6; p++) {
        CpuMatmul mm = square(kSize);
        mm.precision = (CpuPrecision)p;
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(3, CPU_FEATURES_AMX, &pool));
        cr_assert_null(cpu_matmul(NULL, &mm, one, a, b));
        cr_assert_null(cpu_matmul(pool, &mm, many, a, b));
        cr_assert_arr_eq(one, many, sizeof one);
        cpu_pool_free(pool);
    }
}

// ---- blocks of the integer kernels and rows by vectors

typedef struct SizeCase {
    int64_t m, n, k;
} SizeCase;

static SizeCase kSizes[] = {{1, 1, 3000}, {100, 1, 16},  {129, 1, 15},  {67, 1, 400}, {33, 1, 1},
                            {1, 77, 31},  {15, 33, 385}, {173, 70, 29}, {28, 4100, 5}};

// Whole numbers that wrap, on every instruction set and any number of workers: the product modulo 2^bits.
CaseList(cpu_matmul, integers_wrap) {
    return cr_make_param_array(SizeCase, kSizes, sizeof kSizes / sizeof kSizes[0]);
}

CaseTest(SizeCase *size, cpu_matmul, integers_wrap) {
    static const HloType kIntegers[] = {HLO_S8, HLO_U16, HLO_S32, HLO_U32, HLO_S64, HLO_U64};
    static uint64_t a[26800], b[21000], out[116000];  // the largest of the sizes
    for (int t = 0; t < 6; t++)
        for (int turned = 0; turned < 2; turned++) {
            const HloType type = kIntegers[t];
            const int width = hlo_type_bytes(type);
            const int64_t m = size->m, n = size->n, k = size->k;
            CpuMatmul mm = {.lhs_type = type, .rhs_type = type, .out_type = type, .batch = 1, .m = m, .n = n, .k = k};
            mm.lhs_m_stride = k, mm.lhs_k_stride = 1;
            mm.rhs_k_stride = turned ? 1 : n, mm.rhs_n_stride = turned ? k : 1;
            mm.out_m_stride = n, mm.out_n_stride = 1;
            for (int64_t i = 0; i < (int64_t)HLO_COUNT_OF(a); i++)
                a[i] = (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15);
            for (int64_t i = 0; i < (int64_t)HLO_COUNT_OF(b); i++)
                b[i] = (uint64_t)(i + 7) * UINT64_C(0xd1342543de82ef95);
            for (int set = levels_first(); set <= levels_last(); set++) {
                CpuPool *pool;
                cr_assert_null(cpu_pool_new_with(1 + set % 3, (CpuFeatures)set, &pool));
                memset(out, 0xee, sizeof out);
                cr_assert_null(cpu_matmul(pool, &mm, out, a, b));
                cpu_pool_free(pool);
                for (int64_t i = 0; i < m * n; i += 1 + i % 5) {
                    uint64_t sum = 0, x = 0, y = 0, got = 0;
                    for (int64_t j = 0; j < k; j++) {
                        memcpy(&x, (char *)a + (i / n * k + j) * width, (size_t)width);
                        memcpy(&y, (char *)b + (j * mm.rhs_k_stride + i % n * mm.rhs_n_stride) * width, (size_t)width);
                        sum += x * y;
                    }
                    memcpy(&got, (char *)out + i * width, (size_t)width);
                    const int spare = 64 - 8 * width;
                    cr_assert_eq(got, sum << spare >> spare, "%s at %lld, set %d", hlo_type_text(type), (long long)i,
                                 set);
                }
            }
        }
}

// A row's sum has the same bits among sixteen rows, among four and alone, and next to others in memory or apart.
Test(cpu_matmul, rows_by_a_vector_have_the_same_bits_in_any_company) {
    enum { kRows = 53, kMost = 150 };
    static float a[kRows * kMost], x[kMost], together[kRows], apart[3 * kRows];
    for (int i = 0; i < kRows * kMost; i++) a[i] = (float)(i % 977) / 31 - 9;
    for (int i = 0; i < kMost; i++) x[i] = (float)(i % 13) / 7 - 1;
    a[5] = -0.0f;
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int64_t depth = 0; depth <= kMost; depth += depth < 40 ? 1 : 37) {
            const CpuGemmKernels *kernels = cpu_isa_gemm_kernels((CpuFeatures)set, CPU_GEMM_F32);
            kernels->rows_by_vector(together, 1, a, kMost, x, kRows, depth, 0);
            kernels->rows_by_vector(apart, 3, a, kMost, x, kRows, depth, 0);
            for (int64_t i = 0; i < kRows; i++) {
                float alone;
                kernels->rows_by_vector(&alone, 1, a + i * kMost, kMost, x, 1, depth, 0);
                cr_assert_eq(memcmp(&alone, together + i, sizeof alone), 0, "row %d, depth %d", (int)i, (int)depth);
                cr_assert_eq(memcmp(&alone, apart + 3 * i, sizeof alone), 0, "row %d, depth %d", (int)i, (int)depth);
            }
        }
}
