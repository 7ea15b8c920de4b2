// SPDX-License-Identifier: Apache-2.0
// Products of any compute type on one thread: f32, f64 and integers of 32 and 64 bits by the packed kernels or, with a
// vector, directly from memory; complex ones as real products of twice the depth and width; the bf16 passes of f32;
// predicates by plain loops.
#include <assert.h>
#include <string.h>

#include "targets/cpu/dense/gemm.h"
#include "targets/cpu/dense/matmul_internal.h"
#include "targets/cpu/dense/tiles.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/isa/gemm.h"

bool cpu_matmul_has_element(HloType compute) {
    return compute == HLO_F32 || compute == HLO_F64 ||
           (hlo_type_is_integer(compute) && compute != HLO_PRED && hlo_type_info(compute)->bits >= 32);
}

CpuGemmElement cpu_matmul_element(HloType compute) {
    assert(cpu_matmul_has_element(compute));
    if (hlo_type_is_integer(compute)) return hlo_type_bytes(compute) == 8 ? CPU_GEMM_U64 : CPU_GEMM_U32;
    return compute == HLO_F64 ? CPU_GEMM_F64 : CPU_GEMM_F32;
}

static size_t round_64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static CpuGemm gemm_of(const CpuProduct *p) {
    return (CpuGemm){.element = cpu_matmul_element(p->type),
                     .accumulate = p->accumulate,
                     .m = p->m,
                     .n = p->n,
                     .k = p->k,
                     .a_m_stride = p->a_m_stride,
                     .a_k_stride = p->a_k_stride,
                     .b_k_stride = p->b_k_stride,
                     .b_n_stride = p->b_n_stride,
                     .ldc = p->ldc};
}

// Describes the product of row-major copies of both operands: the strides are those of the copies.
static CpuGemm gemm_of_copies(const CpuProduct *p) {
    return (CpuGemm){.element = cpu_matmul_element(p->type),
                     .accumulate = p->accumulate,
                     .m = p->m,
                     .n = p->n,
                     .k = p->k,
                     .a_m_stride = p->k,
                     .a_k_stride = 1,
                     .b_k_stride = p->n,
                     .b_n_stride = 1,
                     .ldc = p->ldc};
}

// ---- products with a vector

// Computes y[i * y_step] = (y +) sum over k of a[i * i_step + k * k_step] * x[k * x_step], with any steps.
#define VECTOR_PRODUCT(T)                                                                                \
    static void vector_##T(T *y, int64_t y_step, const T *a, int64_t i_step, int64_t k_step, const T *x, \
                           int64_t x_step, int64_t count, int64_t depth, bool accumulate) {              \
        for (int64_t i = 0; i < count; i++) {                                                            \
            T sum = 0;                                                                                   \
            for (int64_t k = 0; k < depth; k++) sum += a[i * i_step + k * k_step] * x[k * x_step];       \
            y[i * y_step] = (accumulate ? y[i * y_step] : 0) + sum;                                      \
        }                                                                                                \
    }
VECTOR_PRODUCT(float)
VECTOR_PRODUCT(double)
VECTOR_PRODUCT(uint32_t)
VECTOR_PRODUCT(uint64_t)

// Plans the product of a matrix with contiguous rows or columns and a vector.
bool cpu_product_plan_vector(const CpuProduct *p, CpuVectorProduct *v) {
    assert(p->n == 1 || p->m == 1);
    *v = (CpuVectorProduct){.kernels = cpu_isa_gemm_kernels(p->features, cpu_matmul_element(p->type)),
                            .right_first = p->n != 1,
                            .count = p->n == 1 ? p->m : p->n,
                            .depth = p->k,
                            .y_step = p->n == 1 ? p->ldc : 1};
    const int64_t i_step = v->right_first ? p->b_n_stride : p->a_m_stride,
                  k_step = v->right_first ? p->b_k_stride : p->a_k_stride;
    v->x_step = v->right_first ? p->a_k_stride : p->b_k_stride;
    v->by_rows = k_step == 1 && v->x_step == 1;
    v->step = v->by_rows ? i_step : k_step;
    return v->by_rows || (i_step == 1 && v->y_step == 1);
}

void cpu_product_by_vector(const CpuVectorProduct *v, void *c, const void *a, const void *b, bool accumulate) {
    const void *matrix = v->right_first ? b : a, *x = v->right_first ? a : b;
    if (v->by_rows)
        v->kernels->rows_by_vector(c, v->y_step, matrix, v->step, x, v->count, v->depth, accumulate);
    else
        v->kernels->columns_by_vector(c, matrix, v->step, x, v->x_step, v->count, v->depth, accumulate);
}

// Multiplies the matrix a of count x depth elements with x, with any steps.
static void by_vector(const CpuProduct *p, void *y, int64_t y_step, const void *a, int64_t i_step, int64_t k_step,
                      const void *x, int64_t x_step, int64_t count) {
    switch (cpu_matmul_element(p->type)) {
        case CPU_GEMM_F32: vector_float(y, y_step, a, i_step, k_step, x, x_step, count, p->k, p->accumulate); break;
        case CPU_GEMM_F64: vector_double(y, y_step, a, i_step, k_step, x, x_step, count, p->k, p->accumulate); break;
        case CPU_GEMM_U32: vector_uint32_t(y, y_step, a, i_step, k_step, x, x_step, count, p->k, p->accumulate); break;
        case CPU_GEMM_U64: vector_uint64_t(y, y_step, a, i_step, k_step, x, x_step, count, p->k, p->accumulate); break;
    }
}

static void product_of_elements(const CpuProduct *p, void *c, const void *a, const void *b, void *scratch) {
    CpuVectorProduct vector;
    if ((p->n == 1 || p->m == 1) && cpu_product_plan_vector(p, &vector))
        cpu_product_by_vector(&vector, c, a, b, p->accumulate);
    else if (p->n == 1)
        by_vector(p, c, p->ldc, a, p->a_m_stride, p->a_k_stride, b, p->b_k_stride, p->m);
    else if (p->m == 1)
        by_vector(p, c, 1, b, p->b_n_stride, p->b_k_stride, a, p->a_k_stride, p->n);
    else {
        const CpuGemm gemm = gemm_of(p);
        cpu_gemm_serial(p->features, &gemm, c, a, b, scratch);
    }
}

// ---- complex

// A row of complex numbers is a row of twice as many reals. Each row of b is stored unchanged, followed by that of i b,
// so that the real product of (re, im, re, im …) and the rows b_0, i b_0, b_1, i b_1 … is the complex one, in place.
#define COMPLEX_PARTS(T, S)                                                                                      \
    static void widen_##S(const CpuProduct *p, const T *b, T *to) {                                              \
        for (int64_t k = 0; k < p->k; k++, to += 4 * p->n) {                                                     \
            const T *from = b + 2 * k * p->b_k_stride;                                                           \
            T *turned = to + 2 * p->n;                                                                           \
            for (int64_t j = 0; j < p->n; j++, from += 2 * p->b_n_stride) {                                      \
                to[2 * j] = turned[2 * j + 1] = from[0];                                                         \
                to[2 * j + 1] = from[1];                                                                         \
                turned[2 * j] = -from[1];                                                                        \
            }                                                                                                    \
        }                                                                                                        \
    }                                                                                                            \
    static void copy_rows_##S(const CpuProduct *p, const T *a, T *to) {                                          \
        for (int64_t i = 0; i < p->m; i++)                                                                       \
            for (int64_t k = 0; k < p->k; k++)                                                                   \
                memcpy(to + 2 * (i * p->k + k), a + 2 * (i * p->a_m_stride + k * p->a_k_stride), 2 * sizeof(T)); \
    }
COMPLEX_PARTS(float, f32)
COMPLEX_PARTS(double, f64)

// Describes the real product; a's rows are copied if their elements are not contiguous.
static CpuProduct real_of(const CpuProduct *p) {
    return (CpuProduct){.type = p->type == HLO_C128 ? HLO_F64 : HLO_F32,
                        .features = p->features,
                        .accumulate = p->accumulate,
                        .m = p->m,
                        .n = 2 * p->n,
                        .k = 2 * p->k,
                        .a_m_stride = 2 * (p->a_k_stride == 1 ? p->a_m_stride : p->k),
                        .a_k_stride = 1,
                        .b_k_stride = 2 * p->n,
                        .b_n_stride = 1,
                        .ldc = 2 * p->ldc};
}

// Computes one real product of twice the depth and width, for which b is widened and a is used as it is, or copied if
// its rows are not contiguous.
static void product_complex(const CpuProduct *p, void *c, const void *a, const void *b, void *scratch) {
    const CpuProduct real = real_of(p);
    const bool is_double = real.type == HLO_F64;
    const size_t width = is_double ? sizeof(double) : sizeof(float);
    char *wide = scratch, *rows = wide + round_64(width * (size_t)(4 * p->k * p->n));
    char *rest = rows + round_64(width * (size_t)(2 * p->m * p->k));
    if (is_double)
        widen_f64(p, b, (void *)wide);
    else
        widen_f32(p, b, (void *)wide);
    if (p->a_k_stride != 1 && is_double)
        copy_rows_f64(p, a, (void *)rows);
    else if (p->a_k_stride != 1)
        copy_rows_f32(p, a, (void *)rows);
    cpu_product_serial(&real, c, p->a_k_stride == 1 ? a : rows, wide, rest);
}

// ---- bf16 passes

// Rounds to nearest even, NaN excepted; without branches, so that loops of it become vector code.
static inline float rounded(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t is_number = (bits & 0x7fffffff) <= 0x7f800000 ? 0xffffffff : 0;
    bits = (bits + ((0x7fff + (bits >> 16 & 1)) & is_number)) & 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void cpu_product_round(float *to, const float *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = rounded(from[i]);
}

// Writes the second or third parts. Each part is rounded, not truncated: half a unit is left to the next, whose sign is
// then free.
static void write_lower_parts(int part, float *to, const float *from, int64_t count) {
    if (part == 1) {
        for (int64_t i = 0; i < count; i++) to[i] = rounded(from[i] - rounded(from[i]));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const float high = rounded(from[i]), middle = rounded(from[i] - high);
        to[i] = rounded(from[i] - high - middle);
    }
}

// Writes row-major matrices of the parts, the highest first. A matrix with gaps is first copied to the place of the
// last part, which is written last.
static void split_parts(int parts, const float *from, int64_t rows, int64_t columns, int64_t row_stride,
                        int64_t column_stride, float *to) {
    const int64_t count = rows * columns;
    float *last = to + (parts - 1) * count;
    if (column_stride != 1 || row_stride != columns) {
        cpu_copy_strided(NULL, 2, (int64_t[]){rows, columns}, sizeof(float), last, (int64_t[]){columns, 1}, from,
                         (int64_t[]){row_stride, column_stride});
        from = last;
    }
    cpu_product_round(to, from, count);
    for (int part = 1; part < parts; part++) write_lower_parts(part, to + part * count, from, count);
}

// Pairs (part of a, part of b), smallest products first; the last one is high * high.
typedef struct PassTable {
    int count;
    int parts;
    int pairs[6][2];
} PassTable;

static const PassTable kPasses[] = {
    [CPU_PRECISION_BF16_1] = {1, 1, {{0, 0}}},
    [CPU_PRECISION_BF16_3] = {3, 2, {{1, 0}, {0, 1}, {0, 0}}},
    [CPU_PRECISION_BF16_6] = {6, 3, {{1, 1}, {0, 2}, {2, 0}, {0, 1}, {1, 0}, {0, 0}}},
};

// Drops NaNs that came from infinity - infinity in the low parts, before the high parts are added.
static void drop_nans(const CpuProduct *p, float *c) {
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            if (c[i * p->ldc + j] != c[i * p->ldc + j]) c[i * p->ldc + j] = 0;
}

static void product_passes(const CpuProduct *p, float *c, const float *a, const float *b, float *work) {
    const PassTable *table = &kPasses[p->precision];
    const int64_t na = p->m * p->k, nb = p->k * p->n;
    float *a_parts = work, *b_parts = work + table->parts * na;
    char *scratch = (char *)work + round_64(sizeof(float) * (size_t)(table->parts * (na + nb)));
    split_parts(table->parts, a, p->m, p->k, p->a_m_stride, p->a_k_stride, a_parts);
    split_parts(table->parts, b, p->k, p->n, p->b_k_stride, p->b_n_stride, b_parts);
    CpuGemm g = gemm_of_copies(p);
    for (int i = 0; i < table->count; i++) {
        g.accumulate = p->accumulate || i > 0;
        if (i > 0 && i == table->count - 1) drop_nans(p, c);
        cpu_gemm_serial(p->features, &g, c, a_parts + table->pairs[i][0] * na, b_parts + table->pairs[i][1] * nb,
                        scratch);
    }
}

// ---- predicates

// Computes the or of ands.
static void product_pred(const CpuProduct *p, uint8_t *c, const uint8_t *a, const uint8_t *b) {
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            uint8_t any = p->accumulate ? c[i * p->ldc + j] : 0;
            for (int64_t k = 0; k < p->k; k++)
                any |= a[i * p->a_m_stride + k * p->a_k_stride] & b[k * p->b_k_stride + j * p->b_n_stride];
            c[i * p->ldc + j] = any;
        }
}

// ---- any type

static bool has_passes(const CpuProduct *p) {
    return p->type == HLO_F32 && p->precision != CPU_PRECISION_EXACT;
}

size_t cpu_product_scratch_bytes(const CpuProduct *p) {
    const size_t elements = (size_t)(p->m * p->k + p->k * p->n),
                 width = p->type == HLO_F64 || p->type == HLO_C128 ? sizeof(double) : sizeof(float);
    if (hlo_type_is_complex(p->type)) {
        const CpuProduct real = real_of(p);
        return round_64(width * (size_t)(4 * p->k * p->n)) + round_64(width * (size_t)(2 * p->m * p->k)) +
               cpu_product_scratch_bytes(&real);
    }
    if (!cpu_matmul_has_element(p->type)) return 64;
    const size_t tiles = cpu_tiles_scratch_bytes(p);
    const CpuGemm gemm = gemm_of(p);
    const size_t whole = (has_passes(p) ? round_64(3 * width * elements) : 0) + cpu_gemm_scratch_bytes(&gemm);
    return tiles > whole ? tiles : whole;
}

void cpu_product_serial(const CpuProduct *p, void *c, const void *a, const void *b, void *scratch) {
    if (p->m == 0 || p->n == 0) return;
    switch (p->type) {
        case HLO_F32:
            if (cpu_tiles_serial(p, c, a, b, scratch)) break;
            if (has_passes(p))
                product_passes(p, c, a, b, scratch);
            else
                product_of_elements(p, c, a, b, scratch);
            break;
        case HLO_F64: product_of_elements(p, c, a, b, scratch); break;
        case HLO_C64:
        case HLO_C128: product_complex(p, c, a, b, scratch); break;
        default:
            if (cpu_matmul_has_element(p->type))
                product_of_elements(p, c, a, b, scratch);
            else
                product_pred(p, c, a, b);
            break;
    }
}
