// SPDX-License-Identifier: Apache-2.0
// Products of any types and strides: divided into tiles that workers take, each packed into the type of the arithmetic
// if it differs. Tiles depend only on the problem and never on the number of workers, so that the bits of a result do
// not depend on the machine's cores.
//
// Ways, in the order in which they are tried (cpu_matmul):
//     by vector   small matrices times vectors: one call of a kernel each
//     small       products of a few elements: one call each, in batches also if they are rounded to bf16
//     blas        OpenBLAS, for sizes of f64 and complex numbers for which it is faster (matmul_blas.c)
//     tiles       AMX, AVX-512 or AVX2 tile instructions for bf16, 8-bit integers and, with AMX, f32 (tiles.c)
//     plain       types that kernels multiply directly: packed once for all workers (gemm.c)
//     exact       8-bit integers as f32 in depths of 256, whose sums are below 2^24, added up as integers
//     any         pack a tile of each side to the type of the arithmetic, multiply, convert the result back
//
// Scratch of a tile: [left side packed][right side packed][result][scratch of the product itself], each part empty if
// the operand can be used as it is.
#include "targets/cpu/dense/matmul.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/dense/gemm.h"
#include "targets/cpu/dense/matmul_internal.h"
#include "targets/cpu/dense/tiles.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/element/element.h"

// ---- types

// Returns INVALID if no kernel computes the product.
HloType cpu_matmul_compute_type(HloType lhs, HloType rhs, HloType out) {
    if (hlo_type_is_complex(out)) return out;
    if (hlo_type_is_float(out)) {
        const bool wide = lhs == HLO_F64 || rhs == HLO_F64 || out == HLO_F64;
        const bool floats = !hlo_type_is_complex(lhs) && !hlo_type_is_complex(rhs);
        return !floats ? HLO_INVALID : wide ? HLO_F64 : HLO_F32;
    }
    if (hlo_type_is_float(lhs) || hlo_type_is_float(rhs) || hlo_type_is_complex(lhs) || hlo_type_is_complex(rhs))
        return HLO_INVALID;
    if (!hlo_type_is_integer(out)) return hlo_type_is_array(out) ? out : HLO_INVALID;  // predicates
    // Sums that wrap at 32 bits wrap at fewer bits when they are truncated.
    return hlo_type_info(out)->bits >= 32 ? out : hlo_type_kind(out) == HLO_KIND_SIGNED ? HLO_S32 : HLO_U32;
}

// ---- packing

enum { kPackBlock = 1024 };

// What a conversion needs: decodes to registers, converts between registers, encodes; NULL where the types need
// nothing.
typedef struct Conversion {
    CpuBlockKernel *decode, *convert, *encode, *wrap;
    CpuBlockKernel *only;  // the one step, if there is only one
    int from_width, to_width;
} Conversion;

static Conversion conversion_of(const CpuLoopKernels *kernels, HloType from, HloType to) {
    const CpuRegisterType source = cpu_register_of(from), target = cpu_register_of(to);
    Conversion c = {.decode = kernels->decode[from],
                    .convert = source == target ? NULL : kernels->convert[source][target],
                    .encode = kernels->encode[to],
                    .wrap = kernels->wrap[to],
                    .from_width = hlo_type_bytes(from),
                    .to_width = hlo_type_bytes(to)};
    if (!c.wrap && !c.decode + !c.convert + !c.encode == 2)
        c.only = c.decode ? c.decode : c.convert ? c.convert : c.encode;
    return c;
}

// Converts a run of elements by several steps, a block at a time.
static void convert_blocks(const Conversion *c, void *target, const void *source, int64_t count) {
    _Alignas(64) unsigned char raw[kPackBlock * 16], held[kPackBlock * 16];
    for (int64_t i = 0; i < count; i += kPackBlock) {
        const int64_t n = count - i < kPackBlock ? count - i : kPackBlock;
        const void *now = (const char *)source + i * c->from_width;
        void *out = (char *)target + i * c->to_width, *last = c->encode ? (void *)held : out,
             *decoded = c->convert ? (void *)raw : last;
        if (c->decode) c->decode(decoded, now, NULL, NULL, n, 0), now = decoded;
        if (c->convert) c->convert(last, now, NULL, NULL, n, 0), now = last;
        if (c->encode)
            c->encode(out, now, NULL, NULL, n, 0);
        else if (now != out)
            memcpy(out, now, (size_t)(n * c->to_width));
        if (c->wrap) c->wrap(out, out, NULL, NULL, n, 0);
    }
}

// Converts a run of elements; runs are often short.
static void convert_run(const Conversion *c, void *target, const void *source, int64_t count) {
    assert(count >= 0);
    if (c->only)
        c->only(target, source, NULL, NULL, count, 0);
    else
        convert_blocks(c, target, source, count);
}

// Short rows that are apart are asked for so many rows before they are read: processors do not look ahead over such
// distances, and waiting for each row took half of a decoder's token step.
enum { kRowsAhead = 16, kShortBytes = 1024, kLineBytes = 64 };

static void prefetch_row(const char *row, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(row + at);
    __builtin_prefetch(row + bytes - 1);
}

// Converts runs through a small buffer: kernels convert contiguous elements only.
void cpu_matmul_pack(const CpuLoopKernels *kernels, HloType from, HloType compute, void *target, const void *source,
                     int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
    assert(rows >= 0 && columns >= 0);
    if (from == compute && (rows == 1 || columns == 1)) {  // of a batch of vectors, whose plans would take longer
        cpu_copy_run(target, 1, source, rows == 1 ? column_stride : row_stride, rows * columns, hlo_type_bytes(from));
        return;
    }
    if (from == compute) {
        cpu_copy_strided(NULL, 2, (int64_t[]){rows, columns}, hlo_type_bytes(from), target, (int64_t[]){columns, 1},
                         source, (int64_t[]){row_stride, column_stride});
        return;
    }
    const Conversion conversion = conversion_of(kernels, from, compute);
    const int64_t width = conversion.from_width, to_width = conversion.to_width;
    unsigned char line[kPackBlock * 16];
    if (column_stride == 1 && row_stride == columns) columns *= rows, rows = 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += kPackBlock) {
            const int64_t n = columns - c < kPackBlock ? columns - c : kPackBlock;
            const char *run = (const char *)source + (r * row_stride + c * column_stride) * width;
            if (column_stride == 1 && columns * width <= kShortBytes && r + kRowsAhead < rows)
                prefetch_row(run + kRowsAhead * row_stride * width, columns * width);
            if (column_stride != 1) {
                cpu_copy_run(line, 1, run, column_stride, n, (int)width);
                run = (const char *)line;
            }
            convert_run(&conversion, (char *)target + (r * columns + c) * to_width, run, n);
        }
}

// Does the inverse of packing: `source` is rows x columns without gaps.
void cpu_matmul_unpack(const CpuLoopKernels *kernels, HloType compute, HloType to, void *target, const void *source,
                       int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
    assert(rows >= 0 && columns >= 0);
    const Conversion conversion = conversion_of(kernels, compute, to);
    const int64_t width = conversion.to_width, compute_width = conversion.from_width;
    unsigned char line[kPackBlock * 16];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += kPackBlock) {
            const int64_t n = columns - c < kPackBlock ? columns - c : kPackBlock;
            const char *run = (const char *)source + (r * columns + c) * compute_width;
            char *out = (char *)target + (r * row_stride + c * column_stride) * width;
            void *converted = column_stride == 1 ? (void *)out : (void *)line;
            if (to == compute)
                memcpy(converted, run, (size_t)(n * width));
            else
                convert_run(&conversion, converted, run, n);
            if (column_stride != 1) cpu_copy_run(out, column_stride, line, 1, n, (int)width);
        }
}

// ---- the parallel product

struct CpuSmallMatmul {
    HloType type;
    bool by_vector;
    CpuVectorProduct vector;
    const CpuGemmKernels *kernels;  // of a product of matrices
    CpuGemm gemm;
};

// One call: the operands, the tiling, and the layout of the scratch memory. Sizes of tiles are in elements, the rest in
// bytes.
typedef struct MatmulJob {
    const CpuMatmul *mm;
    const CpuLoopKernels *kernels;
    CpuFeatures features;
    HloType compute;
    int64_t tile_m, tile_n, tiles_m, tiles_n;
    bool lhs_packed, rhs_packed, out_direct;
    bool lhs_by_depth, rhs_by_columns;  // packed as [k][m] and [n][k], as they are in memory, instead of [m][k], [k][n]
    char *out;
    const char *lhs, *rhs;
    char *scratch;
    size_t scratch_each, lhs_bytes, rhs_bytes, out_bytes;
} MatmulJob;

// Describes a product of m x n x k for the kernels, whose sides are packed or not.
static CpuProduct tile_product(const MatmulJob *job, int64_t m, int64_t n) {
    const CpuMatmul *mm = job->mm;
    return (CpuProduct){.type = job->compute,
                        .precision = mm->precision,
                        .features = job->features,
                        .accumulate = mm->accumulate,
                        .m = m,
                        .n = n,
                        .k = mm->k,
                        .a_m_stride = !job->lhs_packed    ? mm->lhs_m_stride
                                      : job->lhs_by_depth ? 1
                                                          : mm->k,
                        .a_k_stride = !job->lhs_packed    ? mm->lhs_k_stride
                                      : job->lhs_by_depth ? m
                                                          : 1,
                        .b_k_stride = !job->rhs_packed      ? mm->rhs_k_stride
                                      : job->rhs_by_columns ? 1
                                                            : n,
                        .b_n_stride = !job->rhs_packed      ? mm->rhs_n_stride
                                      : job->rhs_by_columns ? mm->k
                                                            : 1,
                        .ldc = job->out_direct ? mm->out_m_stride : n};
}

// Packs m rows of the left side, or their transposed matrix.
static void pack_left(const MatmulJob *job, HloType type, char *to, const char *from, int64_t m, int64_t depth) {
    const CpuMatmul *mm = job->mm;
    if (job->lhs_by_depth)
        cpu_matmul_pack(job->kernels, mm->lhs_type, type, to, from, depth, m, mm->lhs_k_stride, mm->lhs_m_stride);
    else
        cpu_matmul_pack(job->kernels, mm->lhs_type, type, to, from, m, depth, mm->lhs_m_stride, mm->lhs_k_stride);
}

static void pack_right(const MatmulJob *job, HloType type, char *to, const char *from, int64_t depth, int64_t n) {
    const CpuMatmul *mm = job->mm;
    if (job->rhs_by_columns)
        cpu_matmul_pack(job->kernels, mm->rhs_type, type, to, from, n, depth, mm->rhs_n_stride, mm->rhs_k_stride);
    else
        cpu_matmul_pack(job->kernels, mm->rhs_type, type, to, from, depth, n, mm->rhs_k_stride, mm->rhs_n_stride);
}

// Scratch contains the packed sides, then the result if it cannot be computed in place, then the scratch of the product
// itself.
static void run_tile(const MatmulJob *job, int64_t b, int64_t m0, int64_t m, int64_t n0, int64_t n, char *scratch) {
    const CpuMatmul *mm = job->mm;
    const char *lhs = job->lhs + (b * mm->lhs_batch_stride + m0 * mm->lhs_m_stride) * hlo_type_bytes(mm->lhs_type);
    const char *rhs = job->rhs + (b * mm->rhs_batch_stride + n0 * mm->rhs_n_stride) * hlo_type_bytes(mm->rhs_type);
    char *out = job->out + (b * mm->out_batch_stride + m0 * mm->out_m_stride + n0 * mm->out_n_stride) *
                               hlo_type_bytes(mm->out_type);
    char *packed_lhs = scratch, *packed_rhs = packed_lhs + job->lhs_bytes, *result = packed_rhs + job->rhs_bytes,
         *rest = result + job->out_bytes;
    const CpuProduct product = tile_product(job, m, n);
    if (job->lhs_packed) {
        pack_left(job, job->compute, packed_lhs, lhs, m, mm->k);
        lhs = packed_lhs;
    }
    if (job->rhs_packed) {
        pack_right(job, job->compute, packed_rhs, rhs, mm->k, n);
        rhs = packed_rhs;
    }
    cpu_product_serial(&product, job->out_direct ? out : result, lhs, rhs, rest);
    if (!job->out_direct)
        cpu_matmul_unpack(job->kernels, job->compute, mm->out_type, out, result, m, n, mm->out_m_stride,
                          mm->out_n_stride);
}

// ---- products of 8-bit integers

// Sums of up to this many products of 8-bit integers are below 2^24: exact in f32, whose kernels are the fastest.
enum { kExactDepth = 256 };

// True for types of one byte per element, pred included.
static bool is_small_integer(HloType type) {
    return type == HLO_PRED || (hlo_type_is_integer(type) && hlo_type_bytes(type) == 1);
}

static bool is_exact_in_f32(const CpuMatmul *mm) {
    return is_small_integer(mm->lhs_type) && is_small_integer(mm->rhs_type) && hlo_type_is_integer(mm->out_type) &&
           hlo_type_bytes(mm->out_type) >= 4;
}

#define ADD_PART(T)                                                                 \
    for (int64_t i = 0; i < m; i++)                                                 \
        for (int64_t j = 0; j < n; j++) {                                           \
            T *at = (T *)(void *)out + i * mm->out_m_stride + j * mm->out_n_stride; \
            *at = (accumulate ? *at : 0) + (T)(int32_t)part[i * n + j];             \
        }

// Computes out = (out +) part, wrapping.
static void add_part(const CpuMatmul *mm, char *out, const float *part, int64_t m, int64_t n, bool accumulate) {
    if (hlo_type_bytes(mm->out_type) == 4)
        ADD_PART(uint32_t)
    else
        ADD_PART(uint64_t)
}

// Describes the product of sides that are packed as f32.
static CpuProduct exact_product(const MatmulJob *job, int64_t m, int64_t n, int64_t depth) {
    return (CpuProduct){.type = HLO_F32,
                        .features = job->features,
                        .m = m,
                        .n = n,
                        .k = depth,
                        .a_m_stride = job->lhs_by_depth ? 1 : depth,
                        .a_k_stride = job->lhs_by_depth ? m : 1,
                        .b_k_stride = job->rhs_by_columns ? 1 : n,
                        .b_n_stride = job->rhs_by_columns ? depth : 1,
                        .ldc = n};
}

// Deep products are split: each part is exact in f32 and is added to the result as integers, which wrap as HLO
// requires.
static void run_exact_tile(const MatmulJob *job, int64_t b, int64_t m0, int64_t m, int64_t n0, int64_t n,
                           char *scratch) {
    const CpuMatmul *mm = job->mm;
    const char *lhs = job->lhs + b * mm->lhs_batch_stride + m0 * mm->lhs_m_stride,
               *rhs = job->rhs + b * mm->rhs_batch_stride + n0 * mm->rhs_n_stride;
    char *out = job->out + (b * mm->out_batch_stride + m0 * mm->out_m_stride + n0 * mm->out_n_stride) *
                               hlo_type_bytes(mm->out_type);
    float *left = (float *)(void *)scratch, *right = (float *)(void *)(scratch + job->lhs_bytes);
    float *part = (float *)(void *)(scratch + job->lhs_bytes + job->rhs_bytes);
    for (int64_t k = 0; k == 0 || k < mm->k; k += kExactDepth) {
        const int64_t depth = mm->k - k < kExactDepth ? mm->k - k : kExactDepth;
        const CpuProduct product = exact_product(job, m, n, depth);
        pack_left(job, HLO_F32, (char *)left, lhs + k * mm->lhs_k_stride, m, depth);
        pack_right(job, HLO_F32, (char *)right, rhs + k * mm->rhs_k_stride, depth, n);
        cpu_product_serial(&product, part, left, right, (char *)part + job->out_bytes);
        add_part(mm, out, part, m, n, k > 0);
    }
}

// ---- tiles

// A unit is a tile of one product of the batch.
static void matmul_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const MatmulJob *job = argument;
    const CpuMatmul *mm = job->mm;
    char *scratch = job->scratch + (size_t)worker * job->scratch_each;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t b = unit / (job->tiles_m * job->tiles_n), tile = unit % (job->tiles_m * job->tiles_n);
        const int64_t m0 = tile / job->tiles_n * job->tile_m, n0 = tile % job->tiles_n * job->tile_n;
        const int64_t m = mm->m - m0 < job->tile_m ? mm->m - m0 : job->tile_m;
        const int64_t n = mm->n - n0 < job->tile_n ? mm->n - n0 : job->tile_n;
        (is_exact_in_f32(mm) ? run_exact_tile : run_tile)(job, b, m0, m, n0, n, scratch);
    }
}

// Chooses tiles by the problem's size only. Below about a million multiplications one tile; above, at least four of
// them, each at most 512 wide so that larger machines have work too.
void cpu_matmul_choose_tiles(const CpuMatmul *mm, int64_t *tile_m, int64_t *tile_n) {
    const double work = (double)mm->m * (double)mm->n * (double)mm->k;
    int64_t tiles_m = hlo_divide_up(mm->m, 512), tiles_n = hlo_divide_up(mm->n, 512);
    if (work < 1 << 20 || mm->batch >= 8) {
        if (work < 1 << 24) tiles_m = tiles_n = 1;
    } else {
        while (tiles_m * tiles_n < 4) {
            const bool split_m = mm->m / tiles_m >= mm->n / tiles_n;
            if ((split_m ? mm->m / tiles_m : mm->n / tiles_n) < 32) break;
            if (split_m)
                tiles_m *= 2;
            else
                tiles_n *= 2;
        }
    }
    *tile_m = hlo_divide_up(hlo_divide_up(mm->m, tiles_m), 16) * 16;
    *tile_n = hlo_divide_up(hlo_divide_up(mm->n, tiles_n), 16) * 16;
}

// Few rows use a packed element of the other side once or a few times, before it leaves the second-level cache: bytes
// of that side that are packed at a time, and the fewest columns.
enum { kFewRows = 64, kFewRowsBytes = 128 << 10, kFewestColumns = 64 };

// Returns the columns of a part of the other side of few rows, if that is converted. No part is so small that another
// kernel would multiply it.
static int64_t columns_of_few_rows(const MatmulJob *job, int64_t rows, int64_t columns, HloType type, int64_t tile) {
    const int64_t k = job->mm->k, fit = kFewRowsBytes / (hlo_type_bytes(job->compute) * k + 1);
    if (rows > kFewRows || type == job->compute) return tile;
    for (int64_t part = fit < kFewestColumns ? kFewestColumns : hlo_round_up(fit, 16); part < tile; part += 16) {
        const int64_t last = columns % part ? columns % part : part;
        if (rows == 1 || (last > 1 && rows * last * k > CPU_GEMM_SMALL)) return part;
    }
    return tile;
}

static void choose_tiles(MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    cpu_matmul_choose_tiles(mm, &job->tile_m, &job->tile_n);
    if (mm->m <= mm->n)
        job->tile_n = columns_of_few_rows(job, mm->m, mm->n, mm->rhs_type, job->tile_n);
    else
        job->tile_m = columns_of_few_rows(job, mm->n, mm->m, mm->lhs_type, job->tile_m);
    job->tiles_m = hlo_divide_up(mm->m, job->tile_m);
    job->tiles_n = hlo_divide_up(mm->n, job->tile_n);
}

static size_t round_64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// Packs a side as it is in memory if its transposed matrix is contiguous. The kernels of vectors need contiguous
// vectors and results.
static void choose_orders(MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    job->lhs_by_depth = mm->m > 1 && mm->lhs_m_stride == 1 && mm->lhs_k_stride != 1 &&
                        (mm->n > 1 || !job->out_direct || mm->out_m_stride == 1);
    job->rhs_by_columns = mm->n > 1 && mm->rhs_k_stride == 1 && mm->rhs_n_stride != 1 &&
                          (mm->m > 1 || job->lhs_packed || mm->lhs_k_stride == 1);
}

// Sets the bytes of the parts of the scratch memory, as choose_packing() does.
static void choose_exact_packing(MatmulJob *job) {
    const size_t tm = (size_t)job->tile_m, tn = (size_t)job->tile_n;
    job->lhs_packed = job->rhs_packed = true;
    choose_orders(job);
    const CpuProduct product = exact_product(job, job->tile_m, job->tile_n, kExactDepth);
    job->lhs_bytes = round_64(sizeof(float) * tm * kExactDepth);
    job->rhs_bytes = round_64(sizeof(float) * tn * kExactDepth);
    job->out_bytes = round_64(sizeof(float) * tm * tn);
    job->scratch_each = job->lhs_bytes + job->rhs_bytes + job->out_bytes + cpu_product_scratch_bytes(&product);
}

// Sides that have the right type are read in place, whatever their strides.
static void choose_packing(MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    job->lhs_packed = mm->lhs_type != job->compute;
    job->rhs_packed = mm->rhs_type != job->compute;
    job->out_direct = mm->out_type == job->compute && mm->out_n_stride == 1;
    choose_orders(job);
    const size_t width = (size_t)hlo_type_bytes(job->compute), tm = (size_t)job->tile_m, tn = (size_t)job->tile_n;
    job->lhs_bytes = job->lhs_packed ? round_64(width * tm * (size_t)mm->k) : 0;
    job->rhs_bytes = job->rhs_packed ? round_64(width * tn * (size_t)mm->k) : 0;
    job->out_bytes = job->out_direct ? 0 : round_64(width * tm * tn);
    const CpuProduct product = tile_product(job, job->tile_m, job->tile_n);
    job->scratch_each = job->lhs_bytes + job->rhs_bytes + job->out_bytes + cpu_product_scratch_bytes(&product);
}

static HloStatus run_tiles(CpuPool *pool, MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    choose_tiles(job);
    if (is_exact_in_f32(mm))
        choose_exact_packing(job);
    else
        choose_packing(job);
    job->scratch = cpu_pool_scratch_take(pool, job->scratch_each * (size_t)cpu_pool_worker_count(pool));
    HLO_FAIL_IF(!job->scratch, HLO_RESOURCE_EXHAUSTED, "no memory to pack a product of %lld x %lld x %lld",
                (long long)mm->m, (long long)mm->n, (long long)mm->k);
    const double work = (double)mm->batch * (double)mm->m * (double)mm->n * (double)mm->k;
    cpu_pool_parallel_for_grain(work < 200000 ? NULL : pool, mm->batch * job->tiles_m * job->tiles_n,
                                hlo_divide_up(200000, mm->m * mm->n * mm->k / (job->tiles_m * job->tiles_n) + 1),
                                matmul_task, job);
    cpu_pool_scratch_give(pool, job->scratch);
    return HLO_SUCCESS;
}

// True for large products of elements that kernels multiply without conversion: packed once for all workers. A result
// whose rows are contiguous in memory is computed as the transposed product.
static bool is_plain(const MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    const double work = (double)mm->m * (double)mm->n * (double)mm->k;
    return cpu_matmul_has_element(job->compute) && mm->lhs_type == job->compute && mm->rhs_type == job->compute &&
           mm->out_type == job->compute && mm->m > 1 && mm->n > 1 && mm->precision == CPU_PRECISION_EXACT &&
           (mm->out_n_stride == 1 || mm->out_m_stride == 1) && (mm->batch == 1 || work > 1 << 22);
}

// Describes one product of the batch for the kernels, result row by row.
static CpuGemm one_product(const MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    return (CpuGemm){.element = cpu_matmul_element(job->compute),
                     .accumulate = mm->accumulate,
                     .m = mm->m,
                     .n = mm->n,
                     .k = mm->k,
                     .a_m_stride = mm->lhs_m_stride,
                     .a_k_stride = mm->lhs_k_stride,
                     .b_k_stride = mm->rhs_k_stride,
                     .b_n_stride = mm->rhs_n_stride,
                     .ldc = mm->out_m_stride};
}

// If the result's columns are not contiguous but its rows are, computes the transposed product: c^T = b^T a^T.
static HloStatus run_plain(CpuPool *pool, const MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    const bool turned = mm->out_n_stride != 1;
    const int width = hlo_type_bytes(job->compute);
    CpuGemm g = one_product(job);
    if (turned)
        g = (CpuGemm){.element = g.element,
                      .accumulate = g.accumulate,
                      .m = mm->n,
                      .n = mm->m,
                      .k = mm->k,
                      .a_m_stride = mm->rhs_n_stride,
                      .a_k_stride = mm->rhs_k_stride,
                      .b_k_stride = mm->lhs_k_stride,
                      .b_n_stride = mm->lhs_m_stride,
                      .ldc = mm->out_n_stride};
    for (int64_t b = 0; b < mm->batch; b++) {
        const char *lhs = job->lhs + b * mm->lhs_batch_stride * width,
                   *rhs = job->rhs + b * mm->rhs_batch_stride * width;
        char *out = job->out + b * mm->out_batch_stride * width;
        HLO_TRY(cpu_gemm(pool, &g, out, turned ? rhs : lhs, turned ? lhs : rhs));
    }
    return HLO_SUCCESS;
}

// ---- small products

// True if all three arrays have a type that kernels multiply without conversion.
static bool is_of_elements(const MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    return cpu_matmul_has_element(job->compute) && mm->lhs_type == job->compute && mm->rhs_type == job->compute &&
           mm->out_type == job->compute && mm->precision == CPU_PRECISION_EXACT && !mm->accumulate;
}

// True for a small matrix times a vector, which a kernel reads directly; the other ways lead to the same kernel.
static bool is_small_vector(const MatmulJob *job, CpuVectorProduct *vector) {
    enum { kSmallVector = 1 << 14 };
    const CpuMatmul *mm = job->mm;
    if (!is_of_elements(job) || (mm->m > 1 && mm->n > 1) || mm->m * mm->n * mm->k > kSmallVector) return false;
    CpuProduct product = tile_product(job, mm->m, mm->n);
    product.ldc = 1;
    return (mm->n > 1   ? mm->out_n_stride
            : mm->m > 1 ? mm->out_m_stride
                        : 1) == 1 &&
           cpu_tiles_scratch_bytes(&product) == 0 && cpu_product_plan_vector(&product, vector);
}

// True if each product is one call of a kernel, which takes a few nanoseconds: the overhead of tiling would be most of
// the time. If there are tiles for floats, they are tried first for a single product.
static bool is_small(const MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    if (!is_of_elements(job) || mm->m < 2 || mm->n < 2 || mm->out_n_stride != 1 ||
        (mm->batch < 2 && cpu_features_multiply_bf16(job->features)))
        return false;
    const CpuGemm gemm = one_product(job);
    return cpu_gemm_is_small(&gemm);
}

// Computes products [begin, end) of the batch, one call each.
static void small_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const MatmulJob *job = argument;
    const CpuMatmul *mm = job->mm;
    const CpuGemm g = one_product(job);
    const CpuGemmKernels *kernels = cpu_isa_gemm_kernels(job->features, g.element);
    const int64_t width = kernels->width;
    (void)worker;
    for (int64_t b = begin; b < end; b++)
        kernels->small(g.m, g.n, g.k, job->lhs + b * mm->lhs_batch_stride * width, g.a_m_stride, g.a_k_stride,
                       job->rhs + b * mm->rhs_batch_stride * width, g.b_k_stride,
                       job->out + b * mm->out_batch_stride * width, g.ldc, false);
}

// ---- batches of small products, rounded

enum { kRoundedElements = 2048 };

// True for a batch of small products in one pass of bf16, if no instruction multiplies these: rounding a part of the
// batch at a time costs little, and packing every product alone would be most of the time.
static bool is_small_rounded(const MatmulJob *job) {
    const CpuMatmul *mm = job->mm;
    if (mm->lhs_type != HLO_F32 || mm->rhs_type != HLO_F32 || mm->out_type != HLO_F32 || mm->batch < 2 ||
        mm->precision != CPU_PRECISION_BF16_1 || cpu_features_multiply_bf16(job->features) || mm->accumulate)
        return false;
    if (mm->m < 2 || mm->n < 2 || mm->out_n_stride != 1) return false;
    CpuGemm gemm = one_product(job);
    gemm.b_n_stride = 1;  // of the copy
    return mm->m * mm->k <= kRoundedElements && mm->k * mm->n <= kRoundedElements && cpu_gemm_is_small(&gemm);
}

// Rounds `count` matrices of one operand to copies without gaps.
static void round_matrices(float *to, const float *from, int64_t count, int64_t batch_stride, int64_t rows,
                           int64_t columns, int64_t row_stride, int64_t column_stride) {
    if (column_stride == 1 && row_stride == columns && batch_stride == rows * columns) {
        cpu_product_round(to, from, count * rows * columns);
        return;
    }
    cpu_copy_strided(NULL, 3, (int64_t[]){count, rows, columns}, sizeof(float), to,
                     (int64_t[]){rows * columns, columns, 1}, from,
                     (int64_t[]){batch_stride, row_stride, column_stride});
    cpu_product_round(to, to, count * rows * columns);
}

// Computes products [begin, end) of the batch, as many at a time as the copies of their operands allow.
static void small_rounded_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    _Alignas(64) float left[kRoundedElements], right[kRoundedElements];
    const MatmulJob *job = argument;
    const CpuMatmul *mm = job->mm;
    const CpuGemmKernels *kernels = cpu_isa_gemm_kernels(job->features, CPU_GEMM_F32);
    const int64_t a = mm->m * mm->k, b = mm->k * mm->n, larger = a > b ? a : b;
    const int64_t at_once = larger ? kRoundedElements / larger : end - begin;
    (void)worker;
    for (int64_t i = begin; i < end; i += at_once) {
        const int64_t count = end - i < at_once ? end - i : at_once;
        round_matrices(left, (const float *)(const void *)job->lhs + i * mm->lhs_batch_stride, count,
                       mm->lhs_batch_stride, mm->m, mm->k, mm->lhs_m_stride, mm->lhs_k_stride);
        round_matrices(right, (const float *)(const void *)job->rhs + i * mm->rhs_batch_stride, count,
                       mm->rhs_batch_stride, mm->k, mm->n, mm->rhs_k_stride, mm->rhs_n_stride);
        for (int64_t k = 0; k < count; k++)
            kernels->small(mm->m, mm->n, mm->k, left + k * a, mm->k, 1, right + k * b, mm->n,
                           (float *)(void *)job->out + (i + k) * mm->out_batch_stride, mm->out_m_stride, false);
    }
}

const CpuSmallMatmul *cpu_matmul_plan_small(HloArena *arena, CpuFeatures features, const CpuMatmul *mm) {
    const MatmulJob job = {
        .mm = mm, .features = features, .compute = cpu_matmul_compute_type(mm->lhs_type, mm->rhs_type, mm->out_type)};
    CpuVectorProduct vector;
    if (mm->batch != 1 || mm->m <= 0 || mm->n <= 0 || job.compute == HLO_INVALID) return NULL;
    const bool by_vector = is_small_vector(&job, &vector);
    if (!by_vector && !is_small(&job)) return NULL;
    CpuSmallMatmul *small = HLO_ARENA_NEW(arena, CpuSmallMatmul, 1);
    small->type = job.compute;
    small->by_vector = by_vector;
    if (by_vector) {
        small->vector = vector;
    } else {
        small->gemm = one_product(&job);
        small->kernels = cpu_isa_gemm_kernels(features, small->gemm.element);
    }
    return small;
}

void cpu_matmul_small(const CpuSmallMatmul *small, void *out, const void *lhs, const void *rhs) {
    const CpuGemm *g = &small->gemm;
    if (small->by_vector)
        cpu_product_by_vector(&small->vector, out, lhs, rhs, false);
    else
        small->kernels->small(g->m, g->n, g->k, lhs, g->a_m_stride, g->a_k_stride, rhs, g->b_k_stride, out, g->ldc,
                              false);
}

// Describes only those products that the kernels of AVX2 and wider sets compute without vectors or with one vector
// (rows_by_vector() and columns_by_vector() of isa/gemm.inc).
bool cpu_matmul_small_elements(const CpuSmallMatmul *small, int64_t most, CpuMatmulElements *elements) {
    const CpuVectorProduct *v = &small->vector;
    const int64_t lanes = small->type == HLO_F32 ? 8 : 4;  // of AVX2, as the widest sets have more
    if (!small->by_vector || (small->type != HLO_F32 && small->type != HLO_F64)) return false;
    if (v->count * v->depth > most || v->depth < 1) return false;
    if (v->by_rows ? v->depth > lanes : v->count >= lanes) return false;
    *elements = (CpuMatmulElements){.type = small->type,
                                    .vector_first = v->right_first,
                                    .by_halves = v->by_rows,
                                    .count = v->count,
                                    .depth = v->depth,
                                    .i_step = v->by_rows ? v->step : 1,
                                    .k_step = v->by_rows ? 1 : v->step,
                                    .vector_step = v->x_step,
                                    .out_step = v->y_step};
    return true;
}

typedef struct VectorJob {
    const MatmulJob *job;
    const CpuVectorProduct *vector;
} VectorJob;

// Computes products [begin, end) of the batch.
static void vector_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const VectorJob *vectors = argument;
    const MatmulJob *job = vectors->job;
    const CpuMatmul *mm = job->mm;
    const int64_t width = hlo_type_bytes(job->compute);
    (void)worker;
    for (int64_t b = begin; b < end; b++)
        cpu_product_by_vector(vectors->vector, job->out + b * mm->out_batch_stride * width,
                              job->lhs + b * mm->lhs_batch_stride * width, job->rhs + b * mm->rhs_batch_stride * width,
                              false);
}

static void run_vectors(CpuPool *pool, const MatmulJob *job, const CpuVectorProduct *vector) {
    const CpuMatmul *mm = job->mm;
    VectorJob vectors = {job, vector};
    const int64_t each = mm->m * mm->n * mm->k + 1;
    if (mm->batch == 1)
        vector_task(&vectors, 0, 1, 0);
    else
        cpu_pool_parallel_for_grain(each * mm->batch < CPU_MATMUL_SHARED ? NULL : pool, mm->batch,
                                    CPU_MATMUL_SHARED / each + 1, vector_task, &vectors);
}

static HloStatus run_small(CpuPool *pool, MatmulJob *job, CpuTask *task) {
    const int64_t each = job->mm->m * job->mm->n * job->mm->k + 1;
    cpu_pool_parallel_for_grain(each * job->mm->batch < CPU_MATMUL_SHARED ? NULL : pool, job->mm->batch,
                                CPU_MATMUL_SHARED / each + 1, task, job);
    return HLO_SUCCESS;
}

// ---- six passes

bool cpu_matmul_has_infinite_part(const void *array, HloType type, const int64_t sizes[3], const int64_t strides[3]) {
    const uint32_t sign = UINT32_C(1) << 31, least = 0x7f7f8000, infinity = 0x7f800000;
    if (type != HLO_F32) return false;
    uint32_t any = 0;
    const int inner = strides[1] == 1 ? 1 : 2, outer = 3 - inner;
    for (int64_t b = 0; b < sizes[0]; b++)
        for (int64_t o = 0; o < sizes[outer] && !any; o++) {
            const char *from = (const char *)array + (b * strides[0] + o * strides[outer]) * (int64_t)sizeof(float);
            for (int64_t i = 0; i < sizes[inner]; i++) {
                uint32_t bits;
                memcpy(&bits, from + i * strides[inner] * (int64_t)sizeof(float), sizeof bits);
                any |= (bits & ~sign) - least < infinity - least;
            }
        }
    return any;
}

// True if one pass of f32 arithmetic computes the product: everything significant in f32 is in the six passes, and one
// pass is a sixth of the work; but the results of finite numbers with infinite parts differ.
static bool is_exact(const CpuMatmul *mm, const char *lhs, const char *rhs) {
    return mm->precision == CPU_PRECISION_BF16_6 &&
           !cpu_matmul_has_infinite_part(lhs, mm->lhs_type, (int64_t[]){mm->batch, mm->m, mm->k},
                                         (int64_t[]){mm->lhs_batch_stride, mm->lhs_m_stride, mm->lhs_k_stride}) &&
           !cpu_matmul_has_infinite_part(rhs, mm->rhs_type, (int64_t[]){mm->batch, mm->k, mm->n},
                                         (int64_t[]){mm->rhs_batch_stride, mm->rhs_k_stride, mm->rhs_n_stride});
}

// Whether all products that are computed for this one are of matrices, and not small: the last tile may be.
static bool is_of_matrices(CpuFeatures features, const CpuMatmul *mm) {
    MatmulJob job = {.mm = mm, .compute = cpu_matmul_compute_type(mm->lhs_type, mm->rhs_type, mm->out_type)};
    int64_t m = mm->m, n = mm->n;
    if (!cpu_tiles_are_chosen(features, mm) && !is_plain(&job)) {
        choose_tiles(&job);
        m -= (job.tiles_m - 1) * job.tile_m;
        n -= (job.tiles_n - 1) * job.tile_n;
    }
    return m > 1 && n > 1 && (double)m * (double)n * (double)mm->k > CPU_GEMM_SMALL;
}

// Vectors are multiplied by other kernels, and products that are small do not count subnormal numbers as zero. All
// other ways, tiles excepted, add up in one order (gemm.h). The choice between six passes and one depends on the
// numbers.
bool cpu_matmul_keeps_bits(CpuFeatures features, const CpuMatmul *mm, const CpuMatmul *part) {
    return cpu_matmul_compute_type(mm->lhs_type, mm->rhs_type, mm->out_type) == HLO_F32 &&
           mm->precision != CPU_PRECISION_BF16_6 && is_of_matrices(features, mm) && is_of_matrices(features, part) &&
           cpu_tiles_are_chosen(features, mm) == cpu_tiles_are_chosen(features, part);
}

// Tiles and the packed kernels add the sums of one block of the depth after the other.
int64_t cpu_matmul_depth_part(CpuFeatures features, const CpuMatmul *mm) {
    if (cpu_matmul_compute_type(mm->lhs_type, mm->rhs_type, mm->out_type) != HLO_F32 || mm->out_type != HLO_F32)
        return 0;
    if (mm->precision > CPU_PRECISION_BF16_1 || mm->out_n_stride != 1) return 0;
    return cpu_tiles_are_chosen(features, mm) ? cpu_tiles_depth_part(features, mm) : CPU_GEMM_DEPTH;
}

// Chooses among all ways to multiply: exact in one pass if the numbers allow it, a vector, a small product, the tile
// units, the packed kernels directly from the arrays (plain), or tiles of the result with both sides packed into the
// type of the arithmetic first.
HloStatus cpu_matmul(CpuPool *pool, const CpuMatmul *mm, void *out, const void *lhs, const void *rhs) {
    CpuMatmul exact;
    if (is_exact(mm, lhs, rhs)) {
        exact = *mm;
        exact.precision = CPU_PRECISION_EXACT;
        mm = &exact;
    }
    MatmulJob job = {.mm = mm, .features = cpu_pool_features(pool), .out = out, .lhs = lhs, .rhs = rhs};
    job.kernels = cpu_isa_loop_kernels(job.features);
    job.compute = cpu_matmul_compute_type(mm->lhs_type, mm->rhs_type, mm->out_type);
    HLO_FAIL_IF(job.compute == HLO_INVALID, HLO_UNIMPLEMENTED, "product of %s and %s giving %s",
                hlo_type_text(mm->lhs_type), hlo_type_text(mm->rhs_type), hlo_type_text(mm->out_type));
    if (mm->batch == 0 || mm->m == 0 || mm->n == 0) return HLO_SUCCESS;
    CpuVectorProduct vector;
    if (is_small_vector(&job, &vector)) {
        run_vectors(pool, &job, &vector);
        return HLO_SUCCESS;
    }
    if (is_small(&job)) return run_small(pool, &job, small_task);
    if (is_small_rounded(&job)) return run_small(pool, &job, small_rounded_task);
    bool done;
    HLO_TRY(cpu_matmul_by_blas(pool, mm, out, lhs, rhs, &done));
    if (done) return HLO_SUCCESS;
    HLO_TRY(cpu_tiles_matmul(pool, mm, out, lhs, rhs, &done));
    if (done) return HLO_SUCCESS;
    return is_plain(&job) ? run_plain(pool, &job) : run_tiles(pool, &job);
}
