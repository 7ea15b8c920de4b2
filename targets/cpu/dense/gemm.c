// SPDX-License-Identifier: Apache-2.0
// The division of a product (gemm.h defines the products and an element's sum). After Goto: the operands are copied,
// "packed", into panels as wide as a kernel's tile, in the order in which the kernel reads them, so that its loop reads
// memory one line after the other whatever the strides were. From the outside inwards: a block of columns of b, so wide
// that its packed form stays in the last cache; a block of depth, so that a panel of b stays in the first; within them
// all rows of a, some tiles at a time, which stay in the second. The kernel (isa/gemm.inc) holds a tile of c in
// registers during a block of depth.
//
// Packing reads an operand once more and writes it, which pays only with many uses. So there are four ways to avoid it:
// if there is one block of rows, the first tile reads a panel of b in place, if its columns are contiguous, and packs
// it for the others (whose reading in place too took twice the time where rows are pages apart: their lines share a few
// sets of the cache); a of a small depth is read in place; products with few columns, or with few rows after
// transposition, and small products do not pack at all.
//
// On the pool, all workers pack one block of b together and then share the tiles of c, each with its own packed a.
// Depth is never shared: that would make an element's sum depend on the number of workers.
#include "targets/cpu/dense/gemm.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"

// Depth of a block, rows of a packed block of a (which stays in the second-level cache), columns of a packed block of
// b, columns of one unit of parallel work.
enum { kRowTiles = 12, kColumns = 4096, kUnitColumns = 512, kSlack = 128 };
// Panels of a unit of parallel work if there is one block of rows.
enum { kFewRowsPanels = 4 };
// Up to this depth, an element of packed a would be used for fewer multiplications than it takes to copy it.
enum { kShallow = 8 };
// Zeros of a panel of a from which skipping them pays.
enum { kWorthSkipping = 16 };
// Rows of a unit of parallel work of a product with few columns.
enum { kNarrowUnitRows = 64 };

static int64_t rows_of_block(const CpuGemmKernels *kernels) {
    return (int64_t)kernels->mr * kRowTiles;
}

static size_t bytes_of(const CpuGemmKernels *kernels, int64_t lanes, int64_t panel, int64_t depth) {
    return (size_t)hlo_round_up(hlo_round_up(lanes, panel) * depth * kernels->width + kSlack, 64);
}

static size_t a_bytes(const CpuGemmKernels *kernels, const CpuGemm *g) {
    return bytes_of(kernels, hlo_smaller(g->m, rows_of_block(kernels)), kernels->mr, hlo_smaller(g->k, CPU_GEMM_DEPTH));
}

static size_t b_bytes(const CpuGemmKernels *kernels, const CpuGemm *g) {
    return bytes_of(kernels, hlo_smaller(g->n, kColumns), kernels->nr, hlo_smaller(g->k, CPU_GEMM_DEPTH));
}

static size_t panel_bytes(const CpuGemmKernels *kernels, const CpuGemm *g) {
    return bytes_of(kernels, kernels->nr, kernels->nr, hlo_smaller(g->k, CPU_GEMM_DEPTH));
}

// All instruction sets pack fewer than this many lanes in excess.
size_t cpu_gemm_scratch_bytes(const CpuGemm *g) {
    assert(g->m >= 0 && g->n >= 0 && g->k >= 0);
    size_t most = 0;
    for (int set = 0; set < CPU_FEATURES_COUNT; set++) {
        const CpuGemmKernels *kernels = cpu_isa_gemm_kernels((CpuFeatures)set, g->element);
        const size_t bytes = a_bytes(kernels, g) + b_bytes(kernels, g);
        if (bytes > most) most = bytes;
    }
    return most;
}

// ---- subnormal numbers

// They cost Intel's processors more than a hundred cycles each, and attention has many of them: a softmax of large
// scores yields them. So large products count them as zero, as XLA does everywhere and TPUs do. Returns the mode to
// restore.
#if defined(__x86_64__)
enum { kFlush = 0x8000 | 0x40 };  // results to zero, and operands that are subnormal count as zero
static unsigned read_mode(void) {
    return _mm_getcsr();
}
static void write_mode(unsigned mode) {
    _mm_setcsr(mode);
}
#elif defined(__aarch64__)
enum { kFlush = 1 << 24 };  // both
static unsigned read_mode(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (unsigned)mode;
}
static void write_mode(unsigned mode) {
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode) : "memory");
}
#else
enum { kFlush = 0 };
static unsigned read_mode(void) {
    return 0;
}
static void write_mode(unsigned mode) {
    (void)mode;
}
#endif

static unsigned flush_subnormals(const CpuGemm *g) {
    const unsigned before = read_mode();
    if ((double)g->m * (double)g->n * (double)g->k > CPU_GEMM_SMALL) write_mode(before | kFlush);
    return before;
}
static void restore_subnormals(unsigned before) {
    if (read_mode() != before) write_mode(before);
}

// ---- one block

typedef struct Block {
    const CpuGemmKernels *kernels;
    const CpuGemm *g;
    const char *a, *b;
    char *c;
    int64_t k0, depth, n0, columns;  // of the packed block of b
    char *packed_b;
    _Atomic(int) b_is;  // kUnknown until b_is_finite() has looked at packed_b
    char *packed_a;     // of one worker
    size_t packed_a_each;
} Block;

// ---- zeros of a

// Masks, rows that belong to one of several experts, and transposed causal attention give left sides with blocks of
// zeros. Sums start with 0, which products of zeros do not change unless b has infinities or NaNs: so the chains of a
// panel of a may start after its leading zeros. Those at its end change a sum of -0.

enum { kUnknown, kFinite, kNotFinite };

static bool is_float(CpuGemmElement element) {
    return element == CPU_GEMM_F32 || element == CPU_GEMM_F64;
}

// Whether the elements at one k of a packed panel of a are zero: their number is even, so that they are whole words.
static bool is_zero(const Block *block, const char *at) {
    const uint64_t mask = block->g->element == CPU_GEMM_F32   ? UINT64_C(0x7fffffff7fffffff)
                          : block->g->element == CPU_GEMM_F64 ? UINT64_C(0x7fffffffffffffff)
                                                              : UINT64_MAX;
    const int64_t bytes = (int64_t)block->kernels->mr * block->kernels->width;
    uint64_t any = 0;
    for (int64_t i = 0; i < bytes; i += (int64_t)sizeof any) {
        uint64_t word;
        memcpy(&word, at + i, sizeof word);
        any |= word & mask;
    }
    return any == 0;
}

// Returns the k after the leading zeros of a panel of a, 0 if they are few.
static int64_t first_of(const Block *block, const char *panel) {
    const int64_t step = (int64_t)block->kernels->mr * block->kernels->width;
    int64_t k = 0;
    while (k < block->depth && is_zero(block, panel + k * step)) k++;
    return k >= kWorthSkipping ? k : 0;
}

static bool all_finite(CpuGemmElement element, const char *packed, int64_t bytes) {
    const uint64_t low = UINT64_C(0x7f800000), high = low << 32, wide = UINT64_C(0x7ff) << 52;
    bool infinite = false;
    for (int64_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t word;
        memcpy(&word, packed + at, sizeof word);
        infinite |= element == CPU_GEMM_F64 ? (word & wide) == wide : (word & low) == low || (word & high) == high;
    }
    return !infinite;
}

// Whether the packed block of b has neither infinities nor NaNs. Workers that ask at the same time find the same.
static bool b_is_finite(Block *block) {
    if (!is_float(block->g->element)) return true;
    int known = atomic_load_explicit(&block->b_is, memory_order_relaxed);
    if (known == kUnknown) {
        const int64_t lanes = hlo_round_up(block->columns, block->kernels->nr),
                      bytes = lanes * block->depth * block->kernels->width;
        known = all_finite(block->g->element, block->packed_b, bytes) ? kFinite : kNotFinite;
        atomic_store_explicit(&block->b_is, known, memory_order_relaxed);
    }
    return known == kFinite;
}

// Sets the k that the chains of each panel of a start with.
static void find_starts(Block *block, int64_t rows, const char *packed_a, int64_t *starts) {
    const int64_t mr = block->kernels->mr, panel = mr * block->depth * block->kernels->width;
    for (int64_t i = 0; i < rows; i += mr) {
        starts[i / mr] = first_of(block, packed_a + i / mr * panel);
        if (starts[i / mr] > 0 && !b_is_finite(block)) starts[i / mr] = 0;
    }
}

// ---- rows and panels of a block

// Multiplies rows [m0, m0 + rows) with columns [j0, j1) of the packed block of b.
static void multiply_rows(Block *block, int64_t m0, int64_t rows, int64_t j0, int64_t j1, char *packed_a) {
    assert(m0 >= 0 && rows >= 0 && j0 <= j1);
    const CpuGemmKernels *kernels = block->kernels;
    const CpuGemm *g = block->g;
    const int64_t width = kernels->width, mr = kernels->mr, nr = kernels->nr, depth = block->depth;
    const bool accumulate = g->accumulate || block->k0 > 0;
    const unsigned mode = flush_subnormals(g);
    const char *a = block->a + (m0 * g->a_m_stride + block->k0 * g->a_k_stride) * width;
    const bool shallow = depth <= kShallow;
    int64_t starts[kRowTiles];
    if (!shallow) {
        kernels->pack(packed_a, mr, a, rows, depth, g->a_m_stride, g->a_k_stride);
        find_starts(block, rows, packed_a, starts);
    }
    for (int64_t j = j0; j < j1; j += nr) {
        const char *b = block->packed_b + j * depth * width;
        const int64_t columns = hlo_smaller(nr, j1 - j);
        char *c = block->c + (m0 * g->ldc + block->n0 + j) * width;
        if (shallow)
            kernels->small(rows, columns, depth, a, g->a_m_stride, g->a_k_stride, b, nr, c, g->ldc, accumulate);
        for (int64_t i = 0; i < rows && !shallow; i += mr) {
            const int64_t k = starts[i / mr];
            kernels->tile(depth - k, packed_a + (i * depth + k * mr) * width, b + k * nr * width,
                          c + i * g->ldc * width, g->ldc, hlo_smaller(mr, rows - i), columns, accumulate);
        }
    }
    restore_subnormals(mode);
}

// Multiplies all rows, which are one block, with panels [begin, end) of the block of b, of which packed_b holds one.
static void multiply_few_rows(const Block *block, int64_t begin, int64_t end, char *packed_a, char *packed_b) {
    assert(block->g->m <= rows_of_block(block->kernels) && begin <= end);
    const CpuGemmKernels *kernels = block->kernels;
    const CpuGemm *g = block->g;
    const int64_t width = kernels->width, mr = kernels->mr, nr = kernels->nr, depth = block->depth;
    const bool accumulate = g->accumulate || block->k0 > 0, shallow = depth <= kShallow;
    const unsigned mode = flush_subnormals(g);
    const char *a = block->a + block->k0 * g->a_k_stride * width;
    if (!shallow) kernels->pack(packed_a, mr, a, g->m, depth, g->a_m_stride, g->a_k_stride);
    for (int64_t j = begin * nr; j < end * nr; j += nr) {
        const int64_t columns = hlo_smaller(nr, block->columns - j);
        const bool in_place = g->b_n_stride == 1 && columns == nr;
        const char *b = block->b + (block->k0 * g->b_k_stride + (block->n0 + j) * g->b_n_stride) * width;
        char *c = block->c + (block->n0 + j) * width;
        if (!in_place) kernels->pack(packed_b, nr, b, columns, depth, g->b_n_stride, g->b_k_stride);
        if (shallow)
            kernels->small(g->m, columns, depth, a, g->a_m_stride, g->a_k_stride, in_place ? b : packed_b,
                           in_place ? g->b_k_stride : nr, c, g->ldc, accumulate);
        else if (in_place)
            kernels->tile_in_place(depth, packed_a, b, g->b_k_stride, g->m > mr ? packed_b : NULL, c, g->ldc,
                                   hlo_smaller(mr, g->m), accumulate);
        for (int64_t i = in_place ? mr : 0; i < g->m && !shallow; i += mr)
            kernels->tile(depth, packed_a + i * depth * width, packed_b, c + i * g->ldc * width, g->ldc,
                          hlo_smaller(mr, g->m - i), columns, accumulate);
    }
    restore_subnormals(mode);
}

static void pack_columns(const Block *block, int64_t j0, int64_t j1) {
    assert(j0 >= 0 && j0 <= j1);
    const CpuGemmKernels *kernels = block->kernels;
    const CpuGemm *g = block->g;
    const int64_t width = kernels->width;
    kernels->pack(block->packed_b + j0 * block->depth * width, kernels->nr,
                  block->b + (block->k0 * g->b_k_stride + (block->n0 + j0) * g->b_n_stride) * width, j1 - j0,
                  block->depth, g->b_n_stride, g->b_k_stride);
}

static void zero_result(const CpuGemm *g, void *c) {
    const size_t width = (size_t)cpu_isa_gemm_kernels(CPU_FEATURES_BASELINE, g->element)->width;
    for (int64_t i = 0; i < g->m && !g->accumulate; i++)
        memset((char *)c + (size_t)(i * g->ldc) * width, 0, (size_t)g->n * width);
}

bool cpu_gemm_is_small(const CpuGemm *g) {
    assert(g->m >= 0 && g->n >= 0 && g->k >= 0);
    return g->k > 0 && g->k <= CPU_GEMM_DEPTH && g->b_n_stride == 1 && g->m * g->n * g->k <= CPU_GEMM_SMALL;
}

// ---- few columns

// A product for the kernel `narrow`: g itself, or the transposed product.
typedef struct Narrow {
    const CpuGemmKernels *kernels;
    CpuGemm g;
    int64_t c_row_stride, c_stride, k0;
    const char *a, *b;
    char *c, *packed_b;
} Narrow;

// Whether the kernel `narrow` reads one operand in place faster than it would be packed. Few rows of a result whose b
// has contiguous columns are computed in place by tiles.
static bool find_narrow(const CpuGemmKernels *kernels, const CpuGemm *g, void *c, const void *a, const void *b,
                        Narrow *narrow) {
    *narrow = (Narrow){.kernels = kernels, .g = *g, .c_row_stride = g->ldc, .c_stride = 1, .a = a, .b = b, .c = c};
    if (g->k <= kShallow || g->m < 2 || g->n < 2) return false;
    if (g->n <= kernels->narrow_columns) return g->a_m_stride == 1 || g->a_k_stride == 1;
    if (g->m > kernels->narrow_columns || g->b_n_stride == 1 || g->b_k_stride != 1) return false;
    narrow->g = (CpuGemm){.element = g->element,
                          .accumulate = g->accumulate,
                          .m = g->n,
                          .n = g->m,
                          .k = g->k,
                          .a_m_stride = g->b_n_stride,
                          .a_k_stride = g->b_k_stride,
                          .b_k_stride = g->a_k_stride,
                          .b_n_stride = g->a_m_stride};
    narrow->c_row_stride = 1;
    narrow->c_stride = g->ldc;
    narrow->a = b;
    narrow->b = a;
    return true;
}

// Computes units [begin, end) of kNarrowUnitRows rows of one block of depth.
static void narrow_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const Narrow *narrow = argument;
    const CpuGemm *g = &narrow->g;
    const int64_t width = narrow->kernels->width, m0 = begin * kNarrowUnitRows, k0 = narrow->k0,
                  rows = hlo_smaller(end * kNarrowUnitRows, g->m) - m0;
    const unsigned mode = flush_subnormals(g);
    narrow->kernels->narrow(rows, g->n, hlo_smaller(CPU_GEMM_DEPTH, g->k - k0),
                            narrow->a + (m0 * g->a_m_stride + k0 * g->a_k_stride) * width, g->a_m_stride, g->a_k_stride,
                            narrow->packed_b, narrow->c + m0 * narrow->c_row_stride * width, narrow->c_row_stride,
                            narrow->c_stride, g->accumulate || k0 > 0);
    restore_subnormals(mode);
    (void)worker;
}

// Packs the few columns of b, one block of depth after the other, and multiplies with the pool, or without one.
static void run_narrow(CpuPool *pool, Narrow *narrow, char *scratch) {
    const CpuGemm *g = &narrow->g;
    narrow->packed_b = scratch;
    for (narrow->k0 = 0; narrow->k0 < g->k; narrow->k0 += CPU_GEMM_DEPTH) {
        narrow->kernels->pack(scratch, g->n, narrow->b + narrow->k0 * g->b_k_stride * narrow->kernels->width, g->n,
                              hlo_smaller(CPU_GEMM_DEPTH, g->k - narrow->k0), g->b_n_stride, g->b_k_stride);
        cpu_pool_parallel_for_grain(pool, hlo_divide_up(g->m, kNarrowUnitRows), 1, narrow_task, narrow);
    }
}

// ---- on one thread

// Uses the same blocks on this thread, so gives the same bits; a small product is one kernel call without packing.
void cpu_gemm_serial(CpuFeatures features, const CpuGemm *g, void *c, const void *a, const void *b, void *scratch) {
    const CpuGemmKernels *kernels = cpu_isa_gemm_kernels(features, g->element);
    Block block = {.kernels = kernels,
                   .g = g,
                   .a = a,
                   .b = b,
                   .c = c,
                   .packed_a = scratch,
                   .packed_b = (char *)scratch + a_bytes(kernels, g)};
    if (g->k == 0) zero_result(g, c);
    if (cpu_gemm_is_small(g)) {
        kernels->small(g->m, g->n, g->k, a, g->a_m_stride, g->a_k_stride, b, g->b_k_stride, c, g->ldc, g->accumulate);
        return;
    }
    Narrow narrow;
    if (find_narrow(kernels, g, c, a, b, &narrow)) {
        run_narrow(NULL, &narrow, scratch);
        return;
    }
    for (block.n0 = 0; block.n0 < g->n; block.n0 += kColumns) {
        block.columns = hlo_smaller(kColumns, g->n - block.n0);
        for (block.k0 = 0; block.k0 < g->k; block.k0 += CPU_GEMM_DEPTH) {
            block.depth = hlo_smaller(CPU_GEMM_DEPTH, g->k - block.k0);
            if (g->m <= rows_of_block(kernels)) {
                multiply_few_rows(&block, 0, hlo_divide_up(block.columns, kernels->nr), block.packed_a, block.packed_b);
                continue;
            }
            atomic_store_explicit(&block.b_is, kUnknown, memory_order_relaxed);
            pack_columns(&block, 0, block.columns);
            for (int64_t m0 = 0; m0 < g->m; m0 += rows_of_block(kernels))
                multiply_rows(&block, m0, hlo_smaller(rows_of_block(kernels), g->m - m0), 0, block.columns,
                              block.packed_a);
        }
    }
}

// ---- on the pool

// A unit is a group of panels of b.
enum { kPanelsPerUnit = 4 };

static void pack_task(void *argument, int64_t begin, int64_t end, int worker) {
    const Block *block = argument;
    const int64_t unit = (int64_t)block->kernels->nr * kPanelsPerUnit;
    (void)worker;
    pack_columns(block, begin * unit, hlo_smaller(end * unit, block->columns));
}

// A unit is block of rows * column units + column unit.
static int64_t column_unit(const Block *block) {
    return hlo_smaller(hlo_round_up(kUnitColumns, block->kernels->nr),
                       hlo_round_up(block->columns, block->kernels->nr));
}

static void multiply_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    Block *block = argument;
    const int64_t rows = rows_of_block(block->kernels), columns = column_unit(block),
                  across = hlo_divide_up(block->columns, columns);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t m0 = unit / across * rows, j0 = unit % across * columns;
        multiply_rows(block, m0, hlo_smaller(rows, block->g->m - m0), j0, hlo_smaller(j0 + columns, block->columns),
                      block->packed_a + (size_t)worker * block->packed_a_each);
    }
}

// A unit is a panel; the panel that the worker packs follows its packed a.
static void few_rows_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const Block *block = argument;
    char *packed_a = block->packed_a + (size_t)worker * block->packed_a_each;
    multiply_few_rows(block, begin, end, packed_a, packed_a + a_bytes(block->kernels, block->g));
}

static void run_block(CpuPool *pool, Block *block) {
    const int64_t panels = hlo_divide_up(block->columns, block->kernels->nr);
    if (block->g->m <= rows_of_block(block->kernels)) {
        cpu_pool_parallel_for_grain(pool, panels, kFewRowsPanels, few_rows_task, block);
        return;
    }
    const int64_t rows = rows_of_block(block->kernels), columns = column_unit(block);
    atomic_store_explicit(&block->b_is, kUnknown, memory_order_relaxed);
    cpu_pool_parallel_for_grain(pool, hlo_divide_up(panels, kPanelsPerUnit), 1, pack_task, block);
    cpu_pool_parallel_for_grain(pool, hlo_divide_up(block->g->m, rows) * hlo_divide_up(block->columns, columns), 1,
                                multiply_task, block);
}

// Runs the loops of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008: blocks of
// kColumns columns and CPU_GEMM_DEPTH of the depth, whose part of b is packed once for all workers; a worker packs rows
// of a and multiplies. The blocks do not depend on the number of workers, and so the bits of the result do not.
static void run_blocks(CpuPool *pool, Block *block) {
    const CpuGemm *g = block->g;
    for (block->n0 = 0; block->n0 < g->n; block->n0 += kColumns) {
        block->columns = hlo_smaller(kColumns, g->n - block->n0);
        for (block->k0 = 0; block->k0 < g->k; block->k0 += CPU_GEMM_DEPTH) {
            block->depth = hlo_smaller(CPU_GEMM_DEPTH, g->k - block->k0);
            run_block(pool, block);
        }
    }
}

HloStatus cpu_gemm(CpuPool *pool, const CpuGemm *g, void *c, const void *a, const void *b) {
    assert(g && c);
    const CpuFeatures features = cpu_pool_features(pool);
    const CpuGemmKernels *kernels = cpu_isa_gemm_kernels(features, g->element);
    const double work = (double)g->m * (double)g->n * (double)g->k;
    const bool parallel = work > 200000 && cpu_pool_worker_count(pool) > 1;
    Block block = {.kernels = kernels, .g = g, .a = a, .b = b, .c = c, .packed_a_each = a_bytes(kernels, g)};
    if (parallel && g->m <= rows_of_block(kernels)) block.packed_a_each += panel_bytes(kernels, g);
    const size_t bytes =
        b_bytes(kernels, g) + block.packed_a_each * (size_t)(parallel ? cpu_pool_worker_count(pool) : 1);
    char *scratch = cpu_pool_scratch_take(pool, bytes);
    HLO_FAIL_IF(!scratch, HLO_RESOURCE_EXHAUSTED, "no memory to pack a product of %lld x %lld x %lld", (long long)g->m,
                (long long)g->n, (long long)g->k);
    if (g->k == 0) zero_result(g, c);
    Narrow narrow;
    block.packed_b = scratch;
    block.packed_a = scratch + b_bytes(kernels, g);
    if (!parallel)
        cpu_gemm_serial(features, g, c, a, b, scratch);
    else if (find_narrow(kernels, g, c, a, b, &narrow))
        run_narrow(pool, &narrow, scratch);
    else
        run_blocks(pool, &block);
    cpu_pool_scratch_give(pool, scratch);
    return HLO_SUCCESS;
}
