// SPDX-License-Identifier: Apache-2.0
// Prepares products for the tile kernels (tiles.h lists the products, and explains why f32 is among them). A kernel
// multiplies panels of 16 lanes, rows of the left side or columns of the right one, chunk by chunk of the depth.
// Packing makes those panels from arrays with any strides: it pairs or groups narrow numbers as the instructions
// require, splits f32 into bf16 parts, and records the largest and the faintest number, since only they decide whether
// the parts' products add up to the exact ones (parts_hold()). So this check needs no extra read, but its answer comes
// after packing: if it is no, the packing was in vain and the caller multiplies in f32.
//
// Work is then divided into units of some panels each way. A unit processes the depth in blocks and adds each to its
// part of the result, which meanwhile stays in the second-level cache. The amount packed at a time is bounded: batches,
// or bands of rows and columns of one, are processed one after the other.
//
// There is one path over the pool for whole operations and one for a single thread (cpu_tiles_serial()) for operations
// that consist of products: convolutions, factorisations.
#include "targets/cpu/dense/tiles.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/isa/tiles.h"

// Panels of one unit of work: its part of the result stays in the second-level cache through the whole depth.
enum { kRowPanels = 4, kColumnPanels = 8, kUnitRows = kRowPanels * CPU_TILE_LANES };
enum { kUnitColumns = kColumnPanels * CPU_TILE_LANES };
// Bytes of packed operands at a time, each side.
enum { kPackedBytes = 48 << 20 };

// ---- which products

static bool is_byte(HloType type) {
    return type == HLO_S8 || type == HLO_U8;
}

// Chooses how operands of these types are packed; false if they are not.
static bool choose_sources(CpuFeatures features, HloType lhs, HloType rhs, CpuPrecision precision, CpuTileSource *left,
                           CpuTileSource *right) {
    if (is_byte(lhs) && is_byte(rhs)) {
        const bool wide = features < CPU_FEATURES_AVX512_BF16;
        const CpuTileSource s8 = wide ? CPU_TILE_WIDE_S8 : CPU_TILE_S8, u8 = wide ? CPU_TILE_WIDE_U8 : CPU_TILE_U8;
        *left = lhs == HLO_S8 ? s8 : u8;
        *right = rhs == HLO_S8 ? s8 : u8;
        return wide || features >= CPU_FEATURES_AMX || lhs == HLO_S8;
    }
    if (!cpu_features_multiply_bf16(features)) return false;
    if (lhs == HLO_BF16 && rhs == HLO_BF16) {
        *left = *right = CPU_TILE_BF16;
        return true;
    }
    static const CpuTileSource kSources[] = {[CPU_PRECISION_EXACT] = CPU_TILE_F32_3,
                                             [CPU_PRECISION_BF16_1] = CPU_TILE_F32_1,
                                             [CPU_PRECISION_BF16_3] = CPU_TILE_F32_2,
                                             [CPU_PRECISION_BF16_6] = CPU_TILE_F32_3};
    *left = *right = kSources[precision];
    return lhs == HLO_F32 && rhs == HLO_F32 && (precision != CPU_PRECISION_EXACT || features >= CPU_FEATURES_AMX);
}

// True if tiles are faster. Six products for one pay only if packing is a small part of the work. Like gemm.c, tiles
// count subnormal numbers as zero, and so take products of the same sizes.
static bool is_worth_it(CpuTileSource source, CpuPrecision precision, int64_t m, int64_t n, int64_t k) {
    if (source == CPU_TILE_F32_3 && precision == CPU_PRECISION_EXACT) return m > 64 && n >= 64 && k >= 64;
    return m >= 8 && n >= 8 && k >= 16 && k < INT32_MAX && (double)m * (double)n * (double)k > 32768;
}

// True if the tiles' sums are infinite or NaN exactly where those of the other ways are, and sums of products of parts
// equal those of the whole numbers.
//
// Every way adds in its own order, and whether a sum overflows on the way depends on it. With numbers of at most 2^48
// no sum of fewer than 2^31 products comes near. Infinities and NaN of one part are multiplied as they are. If there
// are several parts, the lower ones would be NaN; passes over parts drop those (matmul_serial.c), a single sum cannot.
//
// Parts and products of parts below 2^-126 are lost: they are insignificant beside a lane's largest number times the
// other side's if those are 2^-43 at least.
static bool parts_hold(CpuTileSource source, CpuPrecision precision, const CpuTileRange *a, const CpuTileRange *b) {
    const uint32_t large = (uint32_t)(127 + 48) << 23, faint = (uint32_t)(127 - 43) << 23;
    if (source >= CPU_TILE_S8) return true;
    if (a->largest > large || b->largest > large) return false;
    return cpu_tile_parts(source) == 1 || precision != CPU_PRECISION_EXACT ||
           (a->faintest >= faint - 1 && b->faintest >= faint - 1) || a->largest == 0 || b->largest == 0;
}

// ---- one product of packed operands

typedef struct Shape {
    const CpuTileKernels *kernels;
    CpuTileSource left, right;
    int64_t chunks, block;  // of the depth: all, and those of one pass over the result
    int64_t panel_bytes;
} Shape;

static Shape shape_of(const CpuTileKernels *kernels, CpuTileSource left, CpuTileSource right, int64_t k) {
    const int64_t chunks = hlo_divide_up(k, cpu_tile_depth(left)), parts = cpu_tile_parts(left);
    return (Shape){kernels, left, right, chunks, parts == 1 ? 16 : 8, chunks * parts * CPU_TILE_BYTES};
}

// Copies a corner of the result to or from a whole tile.
static void copy_corner(uint32_t *to, int64_t to_step, const uint32_t *from, int64_t from_step, int64_t m, int64_t n) {
    for (int64_t i = 0; i < m; i++) memcpy(to + i * to_step, from + i * from_step, sizeof *to * (size_t)n);
}

static void multiply_corner(const Shape *s, int64_t chunks, const char *a, const char *b, uint32_t *c, int64_t ldc,
                            int64_t m, int64_t n, bool accumulate) {
    if (m == CPU_TILE_LANES && n == CPU_TILE_LANES) {
        s->kernels->multiply(s->left, s->right, chunks, a, b, c, ldc, accumulate);
        return;
    }
    _Alignas(64) uint32_t whole[CPU_TILE_LANES * CPU_TILE_LANES] = {0};
    if (accumulate) copy_corner(whole, CPU_TILE_LANES, c, ldc, m, n);
    s->kernels->multiply(s->left, s->right, chunks, a, b, whole, CPU_TILE_LANES, accumulate);
    copy_corner(c, ldc, whole, CPU_TILE_LANES, m, n);
}

// Computes c (m x n) = or += panels of a times panels of b. Calls begin() and end().
static void multiply_panels(const Shape *s, const char *a, const char *b, uint32_t *c, int64_t ldc, int64_t m,
                            int64_t n, bool accumulate) {
    const int64_t lanes = CPU_TILE_LANES, chunk_bytes = s->panel_bytes / (s->chunks ? s->chunks : 1);
    s->kernels->begin();
    for (int64_t k = 0; k < s->chunks; k += s->block)
        for (int64_t j = 0; j < n; j += lanes)
            for (int64_t i = 0; i < m; i += lanes)
                multiply_corner(s, hlo_smaller(s->block, s->chunks - k),
                                a + i / lanes * s->panel_bytes + k * chunk_bytes,
                                b + j / lanes * s->panel_bytes + k * chunk_bytes, c + i * ldc + j, ldc,
                                hlo_smaller(lanes, m - i), hlo_smaller(lanes, n - j), accumulate || k > 0);
    s->kernels->end();
}

static void widen(CpuTileRange *range, const CpuTileRange *by) {
    if (by->largest > range->largest) range->largest = by->largest;
    if (by->faintest < range->faintest) range->faintest = by->faintest;
}

static const CpuTileRange kNothing = {0, UINT32_MAX};

// ---- on the pool

// The part packed at a time: some whole batches, or a part of one batch's rows and columns.
typedef struct TilePass {
    int64_t batch, batches, m0, m, n0, n;
} TilePass;

typedef struct Ranges {
    CpuTileRange left, right;
    char room[64 - 2 * sizeof(CpuTileRange)];  // workers do not share a cache line
} Ranges;

typedef struct TilesJob {
    const CpuMatmul *mm;
    const CpuLoopKernels *loop_kernels;
    Shape shape;
    HloType compute;
    TilePass pass;
    char *out;
    const char *lhs, *rhs;
    char *packed_left, *packed_right, *results;
    Ranges *ranges;
} TilesJob;

static int64_t panels(int64_t lanes) {
    return hlo_divide_up(lanes, CPU_TILE_LANES);
}

// A unit is batch * panels of both sides + panel, those of the left side first.
static void pack_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const TilesJob *job = argument;
    const CpuMatmul *mm = job->mm;
    const TilePass *r = &job->pass;
    const int64_t left = panels(r->m), each = left + panels(r->n);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t b = unit / each, panel = unit % each;
        const bool is_right = panel >= left;
        const int64_t lane = (is_right ? panel - left : panel) * CPU_TILE_LANES;
        if (is_right)
            job->shape.kernels->pack(
                job->packed_right + (b * (each - left) + panel - left) * job->shape.panel_bytes, job->shape.right, true,
                job->rhs + ((r->batch + b) * mm->rhs_batch_stride + (r->n0 + lane) * mm->rhs_n_stride) *
                               hlo_type_bytes(mm->rhs_type),
                hlo_smaller(r->n - lane, CPU_TILE_LANES), mm->k, mm->rhs_n_stride, mm->rhs_k_stride,
                &job->ranges[worker].right);
        else
            job->shape.kernels->pack(
                job->packed_left + (b * left + panel) * job->shape.panel_bytes, job->shape.left, false,
                job->lhs + ((r->batch + b) * mm->lhs_batch_stride + (r->m0 + lane) * mm->lhs_m_stride) *
                               hlo_type_bytes(mm->lhs_type),
                hlo_smaller(r->m - lane, CPU_TILE_LANES), mm->k, mm->lhs_m_stride, mm->lhs_k_stride,
                &job->ranges[worker].left);
    }
}

// Computes one unit: directly in the result if that has the sums' type and whole tiles, else via `result`.
static void multiply_unit(const TilesJob *job, int64_t b, int64_t i0, int64_t j0, char *result) {
    const CpuMatmul *mm = job->mm;
    const TilePass *r = &job->pass;
    const int64_t m = hlo_smaller(kUnitRows, r->m - i0), n = hlo_smaller(kUnitColumns, r->n - j0);
    const bool direct = mm->out_type == job->compute && mm->out_n_stride == 1;
    assert(direct || !mm->accumulate);
    const int64_t at =
        (r->batch + b) * mm->out_batch_stride + (r->m0 + i0) * mm->out_m_stride + (r->n0 + j0) * mm->out_n_stride;
    char *out = job->out + at * hlo_type_bytes(mm->out_type);
    multiply_panels(&job->shape, job->packed_left + (b * panels(r->m) + i0 / CPU_TILE_LANES) * job->shape.panel_bytes,
                    job->packed_right + (b * panels(r->n) + j0 / CPU_TILE_LANES) * job->shape.panel_bytes,
                    (uint32_t *)(void *)(direct ? out : result), direct ? mm->out_m_stride : n, m, n, mm->accumulate);
    if (!direct)
        cpu_matmul_unpack(job->loop_kernels, job->compute, mm->out_type, out, result, m, n, mm->out_m_stride,
                          mm->out_n_stride);
}

static void multiply_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const TilesJob *job = argument;
    const int64_t down = hlo_divide_up(job->pass.m, kUnitRows), across = hlo_divide_up(job->pass.n, kUnitColumns);
    char *result = job->results + (size_t)worker * kUnitRows * kUnitColumns * sizeof(float);
    for (int64_t unit = begin; unit < end; unit++)
        multiply_unit(job, unit / (down * across), unit / across % down * kUnitRows, unit % across * kUnitColumns,
                      result);
}

static bool run_pass(CpuPool *pool, TilesJob *job, CpuPrecision precision) {
    const TilePass *r = &job->pass;
    const int workers = cpu_pool_worker_count(pool);
    const double work = (double)r->batches * (double)r->m * (double)r->n * (double)job->mm->k;
    CpuPool *with = work < 300000 ? NULL : pool;
    for (int i = 0; i < workers; i++) job->ranges[i].left = job->ranges[i].right = kNothing;
    cpu_pool_parallel_for_grain(with, r->batches * (panels(r->m) + panels(r->n)), 1, pack_task, job);
    CpuTileRange left = kNothing, right = kNothing;
    for (int i = 0; i < workers; i++) widen(&left, &job->ranges[i].left), widen(&right, &job->ranges[i].right);
    if (!parts_hold(job->shape.left, precision, &left, &right)) return false;
    cpu_pool_parallel_for_grain(with, r->batches * hlo_divide_up(r->m, kUnitRows) * hlo_divide_up(r->n, kUnitColumns),
                                1, multiply_task, job);
    return true;
}

// Returns the largest number of rows or columns whose panels may be packed together, whole units of `unit`.
static int64_t lanes_at_once(const Shape *shape, int64_t lanes, int64_t unit) {
    const int64_t fit = kPackedBytes / (shape->panel_bytes + 1) * CPU_TILE_LANES / unit * unit;
    return hlo_smaller(lanes, fit < unit ? unit : fit);
}

static bool run_passes(CpuPool *pool, TilesJob *job, int64_t batches, int64_t m, int64_t n) {
    const CpuMatmul *mm = job->mm;
    for (int64_t b = 0; b < mm->batch; b += batches)
        for (int64_t m0 = 0; m0 < mm->m; m0 += m)
            for (int64_t n0 = 0; n0 < mm->n; n0 += n) {
                job->pass = (TilePass){b,  hlo_smaller(batches, mm->batch - b), m0, hlo_smaller(m, mm->m - m0),
                                       n0, hlo_smaller(n, mm->n - n0)};
                if (!run_pass(pool, job, mm->precision)) return false;
            }
    return true;
}

bool cpu_tiles_are_chosen(CpuFeatures features, const CpuMatmul *mm) {
    CpuTileSource left, right;
    if (!cpu_isa_tile_kernels(features) ||
        !choose_sources(features, mm->lhs_type, mm->rhs_type, mm->precision, &left, &right) ||
        !is_worth_it(left, mm->precision, mm->m, mm->n, mm->k))
        return false;
    return left < CPU_TILE_S8 ? mm->out_type == HLO_F32 || mm->out_type == HLO_BF16 || mm->out_type == HLO_F16
                              : mm->out_type == HLO_S32 || mm->out_type == HLO_U32;
}

int64_t cpu_tiles_depth_part(CpuFeatures features, const CpuMatmul *mm) {
    CpuTileSource left, right;
    if (!choose_sources(features, mm->lhs_type, mm->rhs_type, mm->precision, &left, &right)) return 0;
    const Shape shape = shape_of(cpu_isa_tile_kernels(features), left, right, mm->k);
    return cpu_tile_parts(left) == 1 ? shape.block * cpu_tile_depth(left) : 0;
}

// Loops over parts of the result (`m` rows, `n` columns, several batches if they are small), so that the packed parts
// of both sides fit kPackedBytes. *done stays false for products that these kernels do not support, or that others
// compute faster.
HloStatus cpu_tiles_matmul(CpuPool *pool, const CpuMatmul *mm, void *out, const void *lhs, const void *rhs,
                           bool *done) {
    const CpuFeatures features = cpu_pool_features(pool);
    const CpuTileKernels *kernels = cpu_isa_tile_kernels(features);
    CpuTileSource left, right;
    *done = false;
    if (!cpu_tiles_are_chosen(features, mm) ||
        !choose_sources(features, mm->lhs_type, mm->rhs_type, mm->precision, &left, &right))
        return HLO_SUCCESS;
    TilesJob job = {.mm = mm,
                    .loop_kernels = cpu_isa_loop_kernels(features),
                    .shape = shape_of(kernels, left, right, mm->k),
                    .compute = left < CPU_TILE_S8 ? HLO_F32 : mm->out_type,
                    .out = out,
                    .lhs = lhs,
                    .rhs = rhs};
    const int64_t m = lanes_at_once(&job.shape, mm->m, kUnitRows), n = lanes_at_once(&job.shape, mm->n, kUnitColumns);
    const int64_t each = (panels(m) + panels(n)) * job.shape.panel_bytes;
    const int64_t batches =
        m < mm->m || n < mm->n || each > kPackedBytes ? 1 : hlo_smaller(mm->batch, kPackedBytes / each);
    const size_t workers = (size_t)cpu_pool_worker_count(pool);
    const size_t results = workers * kUnitRows * kUnitColumns * sizeof(float);
    char *scratch = cpu_pool_scratch_take(pool, (size_t)(batches * each) + results + workers * sizeof(Ranges));
    HLO_FAIL_IF(!scratch, HLO_RESOURCE_EXHAUSTED, "no memory to pack a product of %lld x %lld x %lld", (long long)mm->m,
                (long long)mm->n, (long long)mm->k);
    job.packed_left = scratch;
    job.packed_right = scratch + batches * panels(m) * job.shape.panel_bytes;
    job.results = scratch + batches * each;
    job.ranges = (Ranges *)(void *)(job.results + results);
    *done = run_passes(pool, &job, batches, m, n);
    cpu_pool_scratch_give(pool, scratch);
    return HLO_SUCCESS;
}

// ---- on one thread

static bool choose_serial(const CpuProduct *p, Shape *shape) {
    const CpuTileKernels *kernels = cpu_isa_tile_kernels(p->features);
    CpuTileSource left, right;
    if (!kernels || p->type != HLO_F32 || !choose_sources(p->features, HLO_F32, HLO_F32, p->precision, &left, &right) ||
        !is_worth_it(left, p->precision, p->m, p->n, p->k))
        return false;
    *shape = shape_of(kernels, left, right, p->k);
    return true;
}

size_t cpu_tiles_scratch_bytes(const CpuProduct *p) {
    Shape shape;
    return choose_serial(p, &shape) ? (size_t)((panels(p->m) + panels(p->n)) * shape.panel_bytes) : 0;
}

static CpuTileRange pack_side(const Shape *s, bool right, char *to, const float *from, int64_t lanes, int64_t depth,
                              int64_t lane_stride, int64_t depth_stride) {
    CpuTileRange range = kNothing;
    for (int64_t lane = 0; lane < lanes; lane += CPU_TILE_LANES, to += s->panel_bytes)
        s->kernels->pack(to, s->left, right, from + lane * lane_stride, hlo_smaller(lanes - lane, CPU_TILE_LANES),
                         depth, lane_stride, depth_stride, &range);
    return range;
}

size_t cpu_tiles_right_bytes(const CpuProduct *p) {
    Shape shape;
    return choose_serial(p, &shape) ? (size_t)(panels(p->n) * shape.panel_bytes) : 0;
}

bool cpu_tiles_pack_right(const CpuProduct *p, void *to, const void *b) {
    Shape shape;
    if (!choose_serial(p, &shape)) return false;
    const CpuTileRange range = pack_side(&shape, true, to, b, p->n, p->k, p->b_n_stride, p->b_k_stride);
    return parts_hold(shape.left, p->precision, &range, &range);
}

bool cpu_tiles_serial(const CpuProduct *p, void *c, const void *a, const void *b, void *scratch) {
    Shape shape;
    if (!choose_serial(p, &shape)) return false;
    char *left = scratch, *right = left + panels(p->m) * shape.panel_bytes;
    const CpuTileRange a_range = pack_side(&shape, false, left, a, p->m, p->k, p->a_m_stride, p->a_k_stride);
    CpuTileRange b_range = a_range;
    if (!p->b_tiles) b_range = pack_side(&shape, true, right, b, p->n, p->k, p->b_n_stride, p->b_k_stride);
    if (!parts_hold(shape.left, p->precision, &a_range, &b_range)) return false;
    multiply_panels(&shape, left, p->b_tiles ? p->b_tiles : right, c, p->ldc, p->m, p->n, p->accumulate);
    return true;
}
