// SPDX-License-Identifier: Apache-2.0
// Products by OpenBLAS: the tiles of dense/matmul.c, each one call on the thread of the worker that takes it. They
// depend on the problem only, and so do the bits.
//
// BLAS stores matrices column by column, so that the row-major c = a b is computed as c^T = b^T a^T; a result with
// contiguous columns is computed as it is.
#include "hlo/base/arithmetic.h"
#include "targets/cpu/blas/blas.h"
#include "targets/cpu/dense/matmul_internal.h"
#include "targets/cpu/dense/matrix.h"

// One side as BLAS sees it: `across` is the dimension that it shares with the result, `depth` the other one.
typedef struct Side {
    const char *data;
    int64_t batch_stride, across_stride, depth_stride;  // in elements
    const char *form;                                   // "N": contiguous in the first of its two dimensions
    int32_t leading;
} Side;

typedef struct BlasJob {
    const CpuBlas *blas;
    int type;
    const void *one;
    int64_t width, tile_first, tile_second, tiles_first, tiles_second;
    int64_t first, second, depth;  // rows and columns of the result, stored column by column
    Side left, right;
    char *out;
    int64_t out_batch_stride, out_leading;
} BlasJob;

// Sets the form of a side if BLAS can read it as `columns` columns of `rows` contiguous elements: false if its rows are
// not contiguous, or if columns overlap.
static bool set_leading(Side *side, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride,
                        const char *form) {
    if (rows > 1 && row_stride != 1) return false;
    const int64_t leading = columns > 1 ? column_stride : rows;
    if (leading < rows || leading > INT32_MAX) return false;
    side->form = form;
    side->leading = (int32_t)hlo_larger(leading, 1);
    return true;
}

// op(X) is across x depth on the left, depth x across on the right.
static bool set_form(Side *side, int64_t across, int64_t depth, bool is_left) {
    return set_leading(side, across, side->across_stride, depth, side->depth_stride, is_left ? "N" : "T") ||
           set_leading(side, depth, side->depth_stride, across, side->across_stride, is_left ? "T" : "N");
}

static void blas_task(void *argument, int64_t begin, int64_t end, int worker) {
    static const double _Complex zero = 0;  // the same bytes as a narrower zero
    const BlasJob *job = argument;
    const int32_t depth = (int32_t)job->depth, leading = (int32_t)job->out_leading;
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t tiles = job->tiles_first * job->tiles_second, b = unit / tiles, tile = unit % tiles;
        const int64_t i = tile / job->tiles_second * job->tile_first, j = tile % job->tiles_second * job->tile_second;
        const int32_t first = (int32_t)hlo_smaller(job->tile_first, job->first - i),
                      second = (int32_t)hlo_smaller(job->tile_second, job->second - j);
        const char *left = job->left.data + (b * job->left.batch_stride + i * job->left.across_stride) * job->width;
        const char *right = job->right.data + (b * job->right.batch_stride + j * job->right.across_stride) * job->width;
        char *out = job->out + (b * job->out_batch_stride + i + j * job->out_leading) * job->width;
        cpu_blas_enter();
        job->blas->gemm[job->type](job->left.form, job->right.form, &first, &second, &depth, job->one, left,
                                   &job->left.leading, right, &job->right.leading, &zero, out, &leading, 1, 1);
        cpu_blas_leave();
    }
}

// Describes the product, transposed if the result's rows are contiguous. False if BLAS cannot read or write an array.
static bool describe(const CpuMatmul *mm, void *out, const void *lhs, const void *rhs, BlasJob *job) {
    const bool by_rows = mm->out_n_stride == 1 || mm->n == 1;
    const Side a = {.data = lhs,
                    .batch_stride = mm->lhs_batch_stride,
                    .across_stride = mm->lhs_m_stride,
                    .depth_stride = mm->lhs_k_stride},
               b = {.data = rhs,
                    .batch_stride = mm->rhs_batch_stride,
                    .across_stride = mm->rhs_n_stride,
                    .depth_stride = mm->rhs_k_stride};
    int64_t tile_m, tile_n;
    cpu_matmul_choose_tiles(mm, &tile_m, &tile_n);
    *job = (BlasJob){.type = cpu_blas_type(mm->out_type),
                     .one = cpu_blas_one(mm->out_type),
                     .width = hlo_type_bytes(mm->out_type),
                     .tile_first = by_rows ? tile_n : tile_m,
                     .tile_second = by_rows ? tile_m : tile_n,
                     .first = by_rows ? mm->n : mm->m,
                     .second = by_rows ? mm->m : mm->n,
                     .depth = mm->k,
                     .left = by_rows ? b : a,
                     .right = by_rows ? a : b,
                     .out = out,
                     .out_batch_stride = mm->out_batch_stride};
    job->tiles_first = hlo_divide_up(job->first, job->tile_first);
    job->tiles_second = hlo_divide_up(job->second, job->tile_second);
    const int64_t out_step = by_rows ? mm->out_n_stride : mm->out_m_stride,
                  out_leading = by_rows ? mm->out_m_stride : mm->out_n_stride;
    if (job->first > 1 && out_step != 1) return false;
    job->out_leading = job->second > 1 ? out_leading : job->first;
    return job->out_leading >= job->first && job->out_leading <= INT32_MAX &&
           set_form(&job->left, job->first, job->depth, true) && set_form(&job->right, job->second, job->depth, false);
}

HloStatus cpu_matmul_by_blas(CpuPool *pool, const CpuMatmul *mm, void *out, const void *lhs, const void *rhs,
                             bool *done) {
    const HloType type = mm->out_type;
    const int64_t smallest = hlo_smaller(hlo_smaller(mm->m, mm->n), mm->k),
                  largest = hlo_larger(hlo_larger(mm->m, mm->n), mm->k);
    BlasJob job;
    const CpuBlas *blas;
    *done = false;
    if (cpu_pool_blas(pool) == CPU_BLAS_BUILTIN || mm->accumulate || mm->lhs_type != type || mm->rhs_type != type ||
        !cpu_matrix_has(type) || (cpu_blas_precision(type) == CPU_BLAS_F32 && mm->precision != CPU_PRECISION_EXACT))
        return HLO_SUCCESS;
    HLO_TRY(cpu_blas_find(pool, CPU_BLAS_GEMM, type, smallest, largest, &blas));
    if (!blas || mm->batch == 0 || !describe(mm, out, lhs, rhs, &job)) return HLO_SUCCESS;
    job.blas = blas;
    const double work = (double)mm->m * (double)mm->n * (double)mm->k;
    const int64_t units = mm->batch * job.tiles_first * job.tiles_second;
    const double each = work * (double)mm->batch / (double)units;
    const int64_t worth = each < CPU_MATMUL_SHARED ? (int64_t)(CPU_MATMUL_SHARED / each) + 1 : 1;
    cpu_pool_parallel_for_grain(work * (double)mm->batch < CPU_MATMUL_SHARED ? NULL : pool, units, worth, blas_task,
                                &job);
    *done = true;
    return HLO_SUCCESS;
}
