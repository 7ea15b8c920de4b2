// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/matmul.h"

#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "targets/cpu/copy.h"
#include "targets/cpu/loop_internal.h"
#include "targets/cpu/matmul_internal.h"

// ---- types -------------------------------------------------------------------------------------------------------------

HloType cpu_matmul_compute_type(HloType lhs, HloType rhs, HloType out) {
    if (hlo_type_is_complex(out)) return out;
    if (hlo_type_is_float(out)) {
        const bool wide = lhs == HLO_F64 || rhs == HLO_F64 || out == HLO_F64;
        const bool floats = !hlo_type_is_complex(lhs) && !hlo_type_is_complex(rhs);
        return !floats ? HLO_INVALID : wide ? HLO_F64 : HLO_F32;
    }
    if (hlo_type_is_float(lhs) || hlo_type_is_float(rhs) || hlo_type_is_complex(lhs) || hlo_type_is_complex(rhs))
        return HLO_INVALID;
    return hlo_type_is_array(out) ? out : HLO_INVALID;
}

// ---- packing -----------------------------------------------------------------------------------------------------------

enum { kPackBlock = 1024 };

// One contiguous run of elements from one type to another.
static void convert_run(const CpuLoopKernels *kernels, HloType from, HloType to, void *target, const void *source,
                        int64_t count) {
    _Alignas(64) unsigned char raw[kPackBlock * 16], held[kPackBlock * 16];
    const CpuRegisterType source_held = cpu_register_of(from), target_held = cpu_register_of(to);
    for (int64_t i = 0; i < count; i += kPackBlock) {
        const int64_t n = count - i < kPackBlock ? count - i : kPackBlock;
        const void *now = (const char *)source + i * hlo_type_bytes(from);
        if (kernels->decode[from]) kernels->decode[from](raw, now, NULL, NULL, n, 0), now = raw;
        kernels->convert[source_held][target_held](held, now, NULL, NULL, n, 0);
        void *out = (char *)target + i * hlo_type_bytes(to);
        if (kernels->encode[to]) kernels->encode[to](out, held, NULL, NULL, n, 0);
        else memcpy(out, held, (size_t)(n * hlo_type_bytes(to)));
        if (kernels->wrap[to]) kernels->wrap[to](out, out, NULL, NULL, n, 0);
    }
}

void cpu_matmul_pack(const CpuLoopKernels *kernels, HloType from, HloType compute, void *target, const void *source,
                     int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
    if (from == compute) {
        cpu_copy_strided(NULL, 2, (int64_t[]){rows, columns}, hlo_type_bytes(from), target, (int64_t[]){columns, 1}, source,
                         (int64_t[]){row_stride, column_stride});
        return;
    }
    const int width = hlo_type_bytes(from);
    unsigned char line[kPackBlock * 16];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += kPackBlock) {
            const int64_t n = columns - c < kPackBlock ? columns - c : kPackBlock;
            const void *run = (const char *)source + (r * row_stride + c * column_stride) * width;
            if (column_stride != 1) {
                cpu_copy_strided(NULL, 1, &n, width, line, (int64_t[]){1}, run, &column_stride);
                run = line;
            }
            convert_run(kernels, from, compute, (char *)target + (r * columns + c) * hlo_type_bytes(compute), run, n);
        }
}

void cpu_matmul_unpack(const CpuLoopKernels *kernels, HloType compute, HloType to, void *target, const void *source,
                       int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
    const int width = hlo_type_bytes(to), compute_width = hlo_type_bytes(compute);
    unsigned char line[kPackBlock * 16];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += kPackBlock) {
            const int64_t n = columns - c < kPackBlock ? columns - c : kPackBlock;
            const char *run = (const char *)source + (r * columns + c) * compute_width;
            char *out = (char *)target + (r * row_stride + c * column_stride) * width;
            void *converted = column_stride == 1 ? (void *)out : (void *)line;
            if (to == compute) memcpy(converted, run, (size_t)(n * width));
            else convert_run(kernels, compute, to, converted, run, n);
            if (column_stride != 1)
                cpu_copy_strided(NULL, 1, &n, width, out, &column_stride, line, (int64_t[]){1});
        }
}

// ---- serial products -----------------------------------------------------------------------------------------------------

// Integer products: rows of b are added to a row of c, so that the inner loop runs along memory and wraps as unsigned.
#define INTEGER_PRODUCT(T, W, name)                                                                    \
    static void name(const CpuProduct *p, T *c, const T *a, const T *b) {                              \
        for (int64_t i = 0; i < p->m; i++) {                                                           \
            T *row = c + i * p->ldc;                                                                   \
            if (!p->accumulate) memset(row, 0, sizeof(T) * (size_t)p->n);                              \
            for (int64_t k = 0; k < p->k; k++) {                                                       \
                const W factor = p->a_transposed ? a[k * p->lda + i] : a[i * p->lda + k];              \
                const T *from = p->b_transposed ? b + k : b + k * p->ldb;                              \
                const int64_t step = p->b_transposed ? p->ldb : 1;                                     \
                if (step == 1)                                                                         \
                    for (int64_t j = 0; j < p->n; j++) row[j] = (T)(row[j] + factor * from[j]);        \
                else                                                                                   \
                    for (int64_t j = 0; j < p->n; j++) row[j] = (T)(row[j] + factor * from[j * step]); \
            }                                                                                          \
        }                                                                                              \
    }
INTEGER_PRODUCT(uint8_t, uint32_t, product_u8)
INTEGER_PRODUCT(uint16_t, uint32_t, product_u16)
INTEGER_PRODUCT(uint32_t, uint32_t, product_u32)
INTEGER_PRODUCT(uint64_t, uint64_t, product_u64)

// Predicates: or of ands.
static void product_pred(const CpuProduct *p, uint8_t *c, const uint8_t *a, const uint8_t *b) {
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            uint8_t any = p->accumulate ? c[i * p->ldc + j] : 0;
            for (int64_t k = 0; k < p->k; k++) {
                const uint8_t x = p->a_transposed ? a[k * p->lda + i] : a[i * p->lda + k];
                any |= x & (p->b_transposed ? b[j * p->ldb + k] : b[k * p->ldb + j]);
            }
            c[i * p->ldc + j] = any;
        }
}

static void wrap_result(const CpuProduct *p, void *c) {
    const CpuLoopKernels *kernels = cpu_isa_loop_kernels(CPU_FEATURES_BASELINE);
    for (int64_t i = 0; kernels->wrap[p->type] && i < p->m; i++)
        kernels->wrap[p->type]((uint8_t *)c + i * p->ldc, (uint8_t *)c + i * p->ldc, NULL, NULL, p->n, 0);
}

static void product_integer(const CpuProduct *p, void *c, const void *a, const void *b) {
    if (p->type == HLO_PRED) {
        product_pred(p, c, a, b);
        return;
    }
    switch (hlo_type_bytes(p->type)) {
        case 1: product_u8(p, c, a, b); break;
        case 2: product_u16(p, c, a, b); break;
        case 4: product_u32(p, c, a, b); break;
        default: product_u64(p, c, a, b); break;
    }
    wrap_result(p, c);
}

static void zero_rows(const CpuProduct *p, void *c, int width) {
    for (int64_t i = 0; i < p->m && !p->accumulate; i++) memset((char *)c + i * p->ldc * width, 0, (size_t)(p->n * width));
}

// c[rows] = beta * c + matrix * x, or with the matrix transposed: a matrix product with a vector costs one pass over the
// matrix, which BLAS's matrix product does not make.
typedef struct VectorProduct {
    HloType type;
    bool transposed, accumulate;
    int rows, columns, leading;  // of the matrix as stored
    int x_step, y_step;
} VectorProduct;

static void product_vector(const VectorProduct *v, void *y, const void *matrix, const void *x) {
    const CBLAS_TRANSPOSE t = v->transposed ? CblasTrans : CblasNoTrans;
    const double one[2] = {1, 0}, beta[2] = {v->accumulate ? 1 : 0, 0};
    const float onef[2] = {1, 0}, betaf[2] = {v->accumulate ? 1 : 0, 0};
    const int m = v->rows, n = v->columns, lda = v->leading, ix = v->x_step, iy = v->y_step;
    switch (v->type) {
        case HLO_F32: cblas_sgemv(CblasRowMajor, t, m, n, 1, matrix, lda, x, ix, betaf[0], y, iy); break;
        case HLO_F64: cblas_dgemv(CblasRowMajor, t, m, n, 1, matrix, lda, x, ix, beta[0], y, iy); break;
        case HLO_C64: cblas_cgemv(CblasRowMajor, t, m, n, onef, matrix, lda, x, ix, betaf, y, iy); break;
        default: cblas_zgemv(CblasRowMajor, t, m, n, one, matrix, lda, x, ix, beta, y, iy); break;
    }
}

// True when one side is a vector; then the product is done.
static bool try_product_vector(const CpuProduct *p, void *c, const void *a, const void *b) {
    if (!hlo_type_is_float(p->type) && !hlo_type_is_complex(p->type)) return false;
    VectorProduct v = {.type = p->type, .accumulate = p->accumulate};
    if (p->n == 1) {
        v.transposed = p->a_transposed;
        v.rows = (int)(p->a_transposed ? p->k : p->m);
        v.columns = (int)(p->a_transposed ? p->m : p->k);
        v.leading = (int)p->lda;
        v.x_step = p->b_transposed ? 1 : (int)p->ldb;
        v.y_step = (int)p->ldc;
        product_vector(&v, c, a, b);
        return true;
    }
    if (p->m != 1) return false;
    v.transposed = !p->b_transposed;
    v.rows = (int)(p->b_transposed ? p->n : p->k);
    v.columns = (int)(p->b_transposed ? p->k : p->n);
    v.leading = (int)p->ldb;
    v.x_step = p->a_transposed ? (int)p->lda : 1;
    v.y_step = 1;
    product_vector(&v, c, b, a);
    return true;
}

void cpu_matmul_serial(const CpuProduct *p, void *c, const void *a, const void *b) {
    const CBLAS_TRANSPOSE ta = p->a_transposed ? CblasTrans : CblasNoTrans, tb = p->b_transposed ? CblasTrans : CblasNoTrans;
    const int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc;
    const double one[2] = {1, 0}, beta[2] = {p->accumulate ? 1 : 0, 0};
    const float onef[2] = {1, 0}, betaf[2] = {p->accumulate ? 1 : 0, 0};
    if (k == 0 || m == 0 || n == 0) {
        zero_rows(p, c, hlo_type_bytes(p->type));
        return;
    }
    if (try_product_vector(p, c, a, b)) return;
    switch (p->type) {
        case HLO_F32: cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, betaf[0], c, ldc); break;
        case HLO_F64: cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, beta[0], c, ldc); break;
        case HLO_C64: cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, onef, a, lda, b, ldb, betaf, c, ldc); break;
        case HLO_C128: cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, one, a, lda, b, ldb, beta, c, ldc); break;
        default: product_integer(p, c, a, b); break;
    }
}

// ---- bf16 passes -----------------------------------------------------------------------------------------------------------

static float truncated(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float rounded(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x == x) bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void cpu_matmul_split(CpuPrecision precision, int part, float *target, const float *source, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float x = source[i], high = precision == CPU_PRECISION_BF16_1 ? rounded(x) : truncated(x);
        const float rest = x - high, middle = precision == CPU_PRECISION_BF16_6 ? truncated(rest) : rounded(rest);
        target[i] = part == 0 ? high : part == 1 ? middle : rounded(rest - middle);
    }
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

// Before the high parts are added, NaNs that came from infinity - infinity in the low parts are dropped.
static void drop_nans(const CpuProduct *p, float *c) {
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            if (c[i * p->ldc + j] != c[i * p->ldc + j]) c[i * p->ldc + j] = 0;
}

void cpu_matmul_passes(CpuPrecision precision, const CpuProduct *p, float *c, const float *a, const float *b,
                       float *scratch) {
    const PassTable *table = &kPasses[precision];
    const int64_t a_count = p->m * p->k, b_count = p->k * p->n;
    float *a_parts = scratch, *b_parts = scratch + 3 * a_count;
    for (int part = 0; part < table->parts; part++) {
        cpu_matmul_split(precision, part, a_parts + part * a_count, a, a_count);
        cpu_matmul_split(precision, part, b_parts + part * b_count, b, b_count);
    }
    CpuProduct pass = *p;
    for (int i = 0; i < table->count; i++) {
        pass.accumulate = i > 0;
        if (i > 0 && i == table->count - 1) drop_nans(p, c);
        cpu_matmul_serial(&pass, c, a_parts + table->pairs[i][0] * a_count, b_parts + table->pairs[i][1] * b_count);
    }
}

// ---- the parallel product --------------------------------------------------------------------------------------------------

typedef struct MatmulJob {
    const CpuMatmul *mm;
    const CpuLoopKernels *kernels;
    HloType compute;
    int64_t tile_m, tile_n, tiles_m, tiles_n;
    bool lhs_direct, rhs_direct, out_direct;
    char *out;
    const char *lhs, *rhs;
    char *scratch;
    size_t scratch_each, lhs_bytes, rhs_bytes, out_bytes;
} MatmulJob;

// A matrix that BLAS can read where it is: one stride is 1, the other a sensible leading dimension.
static bool addressable(HloType type, HloType compute, int64_t rows, int64_t columns, int64_t row_stride,
                        int64_t column_stride) {
    if (type != compute) return false;
    if (column_stride == 1 && row_stride >= columns && row_stride <= INT32_MAX) return true;
    return row_stride == 1 && column_stride >= rows && column_stride <= INT32_MAX;
}

// Sets lda/ldb and the transposition of a matrix used in place.
static void address(int64_t row_stride, int64_t column_stride, int64_t columns, int64_t *leading, bool *transposed) {
    *transposed = !(column_stride == 1 && row_stride >= columns);
    *leading = *transposed ? column_stride : row_stride;
}

static void run_tile(const MatmulJob *job, int64_t b, int64_t m0, int64_t m, int64_t n0, int64_t n, char *scratch) {
    const CpuMatmul *mm = job->mm;
    CpuProduct p = {.type = job->compute, .m = m, .n = n, .k = mm->k, .lda = mm->k, .ldb = n, .ldc = n};
    const char *lhs = job->lhs + (b * mm->lhs_batch_stride + m0 * mm->lhs_m_stride) * hlo_type_bytes(mm->lhs_type);
    const char *rhs = job->rhs + (b * mm->rhs_batch_stride + n0 * mm->rhs_n_stride) * hlo_type_bytes(mm->rhs_type);
    char *out = job->out + (b * mm->out_batch_stride + m0 * mm->out_m_stride + n0 * mm->out_n_stride) * hlo_type_bytes(mm->out_type);
    const void *left = lhs, *right = rhs;
    if (job->lhs_direct) address(mm->lhs_m_stride, mm->lhs_k_stride, mm->k, &p.lda, &p.a_transposed);
    else {
        cpu_matmul_pack(job->kernels, mm->lhs_type, job->compute, scratch, lhs, m, mm->k, mm->lhs_m_stride, mm->lhs_k_stride);
        left = scratch;
    }
    if (job->rhs_direct) address(mm->rhs_k_stride, mm->rhs_n_stride, mm->n, &p.ldb, &p.b_transposed);
    else {
        cpu_matmul_pack(job->kernels, mm->rhs_type, job->compute, scratch + job->lhs_bytes, rhs, mm->k, n, mm->rhs_k_stride, mm->rhs_n_stride);
        right = scratch + job->lhs_bytes;
    }
    char *result = job->out_direct ? out : scratch + job->lhs_bytes + job->rhs_bytes;
    if (job->out_direct) p.ldc = mm->m == 1 ? mm->n : mm->out_m_stride;
    if (mm->precision != CPU_PRECISION_EXACT && job->compute == HLO_F32)
        cpu_matmul_passes(mm->precision, &p, (float *)(void *)result, left, right,
                          (float *)(void *)(scratch + job->lhs_bytes + job->rhs_bytes + job->out_bytes));
    else cpu_matmul_serial(&p, result, left, right);
    if (!job->out_direct)
        cpu_matmul_unpack(job->kernels, job->compute, mm->out_type, out, result, m, n, mm->out_m_stride, mm->out_n_stride);
}

static void matmul_task(void *argument, int64_t begin, int64_t end, int worker) {
    const MatmulJob *job = argument;
    const CpuMatmul *mm = job->mm;
    char *scratch = job->scratch + (size_t)worker * job->scratch_each;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t b = unit / (job->tiles_m * job->tiles_n), tile = unit % (job->tiles_m * job->tiles_n);
        const int64_t m0 = tile / job->tiles_n * job->tile_m, n0 = tile % job->tiles_n * job->tile_n;
        const int64_t m = mm->m - m0 < job->tile_m ? mm->m - m0 : job->tile_m;
        const int64_t n = mm->n - n0 < job->tile_n ? mm->n - n0 : job->tile_n;
        run_tile(job, b, m0, m, n0, n, scratch);
    }
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Tiles by the problem's size alone. Below about a million multiplications one tile; above, at least four of them, each
// at most 512 wide so that larger machines have work too.
static void choose_tiles(MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    const double work = (double)mm->m * (double)mm->n * (double)mm->k;
    job->tiles_m = divide_up(mm->m, 512);
    job->tiles_n = divide_up(mm->n, 512);
    if (work < 1 << 20 || mm->batch >= 8) {
        if (work < 1 << 24) job->tiles_m = job->tiles_n = 1;
    } else {
        while (job->tiles_m * job->tiles_n < 4) {
            const bool split_m = mm->m / job->tiles_m >= mm->n / job->tiles_n;
            if ((split_m ? mm->m / job->tiles_m : mm->n / job->tiles_n) < 32) break;
            if (split_m) job->tiles_m *= 2;
            else job->tiles_n *= 2;
        }
    }
    job->tile_m = divide_up(divide_up(mm->m, job->tiles_m), 16) * 16;
    job->tile_n = divide_up(divide_up(mm->n, job->tiles_n), 16) * 16;
    job->tiles_m = divide_up(mm->m, job->tile_m);
    job->tiles_n = divide_up(mm->n, job->tile_n);
}

static void choose_packing(MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    const bool passes = mm->precision != CPU_PRECISION_EXACT && job->compute == HLO_F32;
    const bool blas = hlo_type_is_float(job->compute) || hlo_type_is_complex(job->compute);
    job->lhs_direct = !passes && addressable(mm->lhs_type, job->compute, mm->m, mm->k, mm->lhs_m_stride, mm->lhs_k_stride);
    job->rhs_direct = !passes && addressable(mm->rhs_type, job->compute, mm->k, mm->n, mm->rhs_k_stride, mm->rhs_n_stride) &&
                      (blas || mm->rhs_n_stride == 1);
    job->out_direct = mm->out_type == job->compute && mm->out_n_stride == 1 &&
                      (mm->m == 1 || (mm->out_m_stride >= mm->n && mm->out_m_stride <= INT32_MAX));
    const size_t width = (size_t)hlo_type_bytes(job->compute), tm = (size_t)job->tile_m, tn = (size_t)job->tile_n;
    job->lhs_bytes = job->lhs_direct ? 0 : width * tm * (size_t)mm->k;
    job->rhs_bytes = job->rhs_direct ? 0 : width * tn * (size_t)mm->k;
    job->out_bytes = job->out_direct ? 0 : width * tm * tn;
    const size_t pass_bytes = passes ? 3 * sizeof(float) * (tm + tn) * (size_t)mm->k : 0;
    job->scratch_each = (job->lhs_bytes + job->rhs_bytes + job->out_bytes + pass_bytes + 127) / 64 * 64;
}

HloStatus cpu_matmul(CpuPool *pool, const CpuMatmul *mm, void *out, const void *lhs, const void *rhs) {
    MatmulJob job = {.mm = mm, .kernels = cpu_isa_loop_kernels(cpu_pool_features(pool)), .out = out, .lhs = lhs, .rhs = rhs};
    job.compute = cpu_matmul_compute_type(mm->lhs_type, mm->rhs_type, mm->out_type);
    HLO_FAIL_IF(job.compute == HLO_INVALID, HLO_UNIMPLEMENTED, "product of %s and %s giving %s",
                hlo_type_text(mm->lhs_type), hlo_type_text(mm->rhs_type), hlo_type_text(mm->out_type));
    HLO_FAIL_IF(mm->m > INT32_MAX || mm->n > INT32_MAX || mm->k > INT32_MAX, HLO_UNIMPLEMENTED,
                "product with a dimension above 2^31");
    if (mm->batch == 0 || mm->m == 0 || mm->n == 0) return HLO_SUCCESS;
    choose_tiles(&job);
    choose_packing(&job);
    job.scratch = cpu_pool_scratch_take(pool, job.scratch_each * (size_t)cpu_pool_worker_count(pool));
    HLO_FAIL_IF(!job.scratch, HLO_RESOURCE_EXHAUSTED, "no memory to pack a product of %lld x %lld x %lld",
                (long long)mm->m, (long long)mm->n, (long long)mm->k);
    const double work = (double)mm->batch * (double)mm->m * (double)mm->n * (double)mm->k;
    cpu_pool_parallel_for_grain(work < 200000 ? NULL : pool, mm->batch * job.tiles_m * job.tiles_n,
                                divide_up(200000, mm->m * mm->n * mm->k / (job.tiles_m * job.tiles_n) + 1), matmul_task, &job);
    cpu_pool_scratch_give(pool, job.scratch);
    return HLO_SUCCESS;
}
