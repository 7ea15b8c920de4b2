// SPDX-License-Identifier: Apache-2.0
// c += a * b in doubles, the loop in which the evaluator of a network spends its time.
//
// Every element of c adds its products in ascending order of k, one after the other, for every instruction set: tiles
// of c stay in registers while k runs, and nothing is added in another order. A fused multiply-add gives the same bits
// as a multiplication and an addition if the product is exact, which it is for numbers that fit f32 (24 + 24 bits of
// 53); only then is it used. So the results are those of three plain loops, on every machine.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Number of steps of k whose rows of b are packed at a time: with the widest tile 64 KiB, which fit the second-level
// cache.
#define BLOCK_K 256

enum { MAX_ROWS = 6, MAX_COLUMNS = 32, FEW_COLUMNS = 6 };

// A tile of c in registers: c[r][0, columns) += sum over x of a[r][x] * panel[x][0, columns).
typedef void Tile(const double *const *a, const double *panel, double *const *c, int64_t k);

typedef struct Kernel {
    int64_t rows, columns;  // of a tile
    Tile *exact, *rounded;  // for products that are exact, and for all others
} Kernel;

static void tile_plain(const double *const *a, const double *panel, double *const *c, int64_t k) {
    for (int64_t x = 0; x < k; x++) {
        for (int r = 0; r < 4; r++) {
            double factor = a[r][x];
            for (int j = 0; j < 8; j++) c[r][j] += factor * panel[x * 8 + j];
        }
    }
}

#if defined(__x86_64__)

// clang-format off
#define DEFINE_TILE(name, isa, Vector, prefix, ROWS, VECTORS, MULTIPLY_ADD)                                            \
    __attribute__((target(isa))) static void name(const double *const *a, const double *panel, double *const *c,       \
                                                  int64_t k) {                                                         \
        enum { LANES = sizeof(Vector) / sizeof(double) };                                                              \
        Vector sums[ROWS][VECTORS];                                                                                    \
        _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++) {                                                       \
            _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)                                                  \
                sums[r][v] = prefix##_loadu_pd(c[r] + v * LANES);                                                      \
        }                                                                                                              \
        for (int64_t x = 0; x < k; x++, panel += VECTORS * LANES) {                                                    \
            _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++) {                                                   \
                Vector factor = prefix##_set1_pd(a[r][x]);                                                             \
                _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)                                              \
                    sums[r][v] = MULTIPLY_ADD(prefix, factor, prefix##_loadu_pd(panel + v * LANES), sums[r][v]);       \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++) {                                                       \
            _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)                                                  \
                prefix##_storeu_pd(c[r] + v * LANES, sums[r][v]);                                                      \
        }                                                                                                              \
    }
#define FUSED(prefix, x, y, sum) prefix##_fmadd_pd((x), (y), (sum))
#define TWO_STEPS(prefix, x, y, sum) prefix##_add_pd((sum), prefix##_mul_pd((x), (y)))

DEFINE_TILE(tile_avx2_exact, "avx2,fma", __m256d, _mm256, 4, 3, FUSED)
DEFINE_TILE(tile_avx2_rounded, "avx2,fma", __m256d, _mm256, 4, 3, TWO_STEPS)
DEFINE_TILE(tile_avx512_exact, "avx512f", __m512d, _mm512, 6, 4, FUSED)
DEFINE_TILE(tile_avx512_rounded, "avx512f", __m512d, _mm512, 6, 4, TWO_STEPS)
// clang-format on

#endif

static Kernel choose_kernel(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return (Kernel){6, 32, tile_avx512_exact, tile_avx512_rounded};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return (Kernel){4, 12, tile_avx2_exact, tile_avx2_rounded};
    }
#endif
    return (Kernel){4, 8, tile_plain, tile_plain};
}

// Whether every number is an f32 value, so that products of two are exact.
static bool fit_f32(const double *values, int64_t count) {
    bool fit = true;
    for (int64_t start = 0; start < count && fit; start += HLO_EVAL_CHUNK) {
        int64_t end = count - start < HLO_EVAL_CHUNK ? count : start + HLO_EVAL_CHUNK;
        for (int64_t i = start; i < end; i++) fit &= (double)(float)values[i] == values[i];
    }
    return fit;
}

// One multiplication: `panel` contains b's rows [k0, k0 + depth), columns [n0, n0 + columns), padded with zeros to the
// tile's width.
typedef struct Multiplication {
    Kernel kernel;
    Tile *tile;
    const double *a, *b;
    double *c;
    int64_t m, n, k;
    int64_t n0, columns, k0, depth;
    double *panel;
} Multiplication;

static void pack_panel(Multiplication *p) {
    assert(p->columns > 0 && p->columns <= p->kernel.columns && p->depth <= BLOCK_K);
    for (int64_t x = 0; x < p->depth; x++) {
        double *to = p->panel + x * p->kernel.columns;
        memcpy(to, p->b + (p->k0 + x) * p->n + p->n0, (size_t)p->columns * sizeof(double));
        for (int64_t j = p->columns; j < p->kernel.columns; j++) to[j] = 0;
    }
}

// Computes rows [i, i + rows) of the panel's columns. An incomplete tile is computed in a buffer: missing rows repeat
// the last one, and the results of missing rows and columns are dropped.
static void multiply_rows(const Multiplication *p, int64_t i, int64_t rows) {
    assert(rows > 0 && rows <= p->kernel.rows);
    const double *a[MAX_ROWS];
    double *c[MAX_ROWS], aside[MAX_ROWS][MAX_COLUMNS] = {{0}};
    bool whole = rows == p->kernel.rows && p->columns == p->kernel.columns;
    size_t bytes = (size_t)p->columns * sizeof(double);
    for (int64_t r = 0; r < p->kernel.rows; r++) {
        int64_t row = i + (r < rows ? r : rows - 1);
        double *at = p->c + row * p->n + p->n0;
        a[r] = p->a + row * p->k + p->k0;
        c[r] = whole ? at : aside[r];
        if (!whole) memcpy(aside[r], at, bytes);
    }
    p->tile(a, p->panel, c, p->depth);
    for (int64_t r = 0; r < rows && !whole; r++) memcpy(p->c + (i + r) * p->n + p->n0, aside[r], bytes);
}

// Used where most of a tile would be empty: matrices times vectors, groups of one feature each.
static void multiply_few_columns(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k) {
    assert(n < FEW_COLUMNS);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t x = 0; x < k; x++) {
            double factor = a[i * k + x];
            for (int64_t j = 0; j < n; j++) c[i * n + j] += factor * b[x * n + j];
        }
    }
}

// Computes c += a b in blocks that stay in the caches, with the widest vectors of this machine. If all numbers are f32,
// their products are exact in double and a fused multiply-add gives the same bits as the two operations, so it is used.
void hlo_eval_multiply_double(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k) {
    assert(m >= 0 && n >= 0 && k >= 0);
    if (n < FEW_COLUMNS) {
        multiply_few_columns(a, b, c, m, n, k);
        return;
    }
    double panel[BLOCK_K * MAX_COLUMNS];
    Multiplication p = {.kernel = choose_kernel(), .a = a, .b = b, .c = c, .m = m, .n = n, .k = k, .panel = panel};
    assert(p.kernel.rows <= MAX_ROWS && p.kernel.columns <= MAX_COLUMNS);
    p.tile = fit_f32(a, m * k) && fit_f32(b, k * n) ? p.kernel.exact : p.kernel.rounded;
    for (p.k0 = 0; p.k0 < k; p.k0 += BLOCK_K) {
        p.depth = k - p.k0 < BLOCK_K ? k - p.k0 : BLOCK_K;
        for (p.n0 = 0; p.n0 < n; p.n0 += p.kernel.columns) {
            p.columns = n - p.n0 < p.kernel.columns ? n - p.n0 : p.kernel.columns;
            pack_panel(&p);
            for (int64_t i = 0; i < m; i += p.kernel.rows) {
                multiply_rows(&p, i, m - i < p.kernel.rows ? m - i : p.kernel.rows);
            }
        }
    }
}
