// SPDX-License-Identifier: Apache-2.0
// Everything about a transform that does not depend on the data is computed when the program is compiled: factors,
// twiddles, and for lengths with a large prime factor the chirp of Bluestein's algorithm, which makes a transform of
// any length a convolution, computed by transforms of a power of two. A long line is split into rows and columns (two
// shorter transforms with a rotation between them) so that each part fits the cache; a real line of even length is a
// complex one of half the length. All tables are computed in f64 and rounded once.
#include "targets/cpu/kernels/fft_plan.h"

#include <assert.h>
#include <math.h>

#include "hlo/base/memory.h"

static const double kPi = 3.14159265358979323846;

enum {
    kLongLine = 16 * 1024,  // points for which a block of lines exceeds the second-level cache
    kShortLine = 64,        // points of a line that is not worth splitting
    kWorthCutting = 8,      // minimum of rows and of columns after splitting a line
};

// Sets element i of a table to exp(i angle).
static void set_root(void *table, int64_t i, bool is_double, double angle, double scale) {
    if (is_double) {
        ((double *)table)[2 * i] = cos(angle) * scale;
        ((double *)table)[2 * i + 1] = sin(angle) * scale;
    } else {
        ((float *)table)[2 * i] = (float)(cos(angle) * scale);
        ((float *)table)[2 * i + 1] = (float)(sin(angle) * scale);
    }
}

static void *new_table(HloArena *arena, int64_t points, bool is_double) {
    return hlo_arena_allocate(arena, hlo_array_bytes((size_t)points, is_double ? 16 : 8));
}

// Finds the factors that passes support; returns -1 if a prime is too large.
static int factorise(int64_t n, int *factors) {
    assert(n > 0 && factors);
    int count = 0;
    for (; n % 8 == 0 && n != 16; n /= 8) factors[count++] = 8;
    for (; n % 4 == 0; n /= 4) factors[count++] = 4;
    for (; n % 2 == 0; n /= 2) factors[count++] = 2;
    for (int radix = 3; radix <= CPU_FFT_LARGEST_RADIX; radix += 2)
        for (; n % radix == 0; n /= radix) factors[count++] = radix;
    return n == 1 ? count : -1;
}

// Writes the twiddles in the order in which the passes read them: pass by pass, index by index, the roots of one
// butterfly together.
static void make_twiddles(HloArena *arena, CpuFftPlan *plan, bool is_double) {
    int64_t n = plan->n, total = 0, at = 0;
    for (int f = 0; f < plan->factor_count; n /= plan->factors[f++])
        total += n / plan->factors[f] * (plan->factors[f] - 1);
    void *table = new_table(arena, total, is_double);
    plan->twiddles = table;
    n = plan->n;
    for (int f = 0; f < plan->factor_count; n /= plan->factors[f++]) {
        const int radix = plan->factors[f];
        for (int64_t p = 0; p < n / radix; p++)
            for (int j = 1; j < radix; j++) set_root(table, at++, is_double, -2 * kPi * (double)(p * j) / (double)n, 1);
        if (radix <= 5 || radix == 8) continue;
        void *roots = new_table(arena, radix, is_double);
        for (int k = 0; k < radix; k++) set_root(roots, k, is_double, 2 * kPi * k / radix, 1);
        plan->roots[f] = roots;
    }
}

static const CpuFftPlan *new_plan(HloArena *arena, int64_t n, bool is_double);

// Sets the chirp of n points, and its conjugate around zero in a circle of `length`, with an inverse transform's scale.
static void set_chirp(void *chirp, void *filter, int64_t n, int64_t length, bool is_double) {
    for (int64_t i = 0; i < n; i++) {
        const double angle = kPi * (double)(i * i % (2 * n)) / (double)n;
        set_root(chirp, i, is_double, -angle, 1);
        set_root(filter, i, is_double, angle, 1 / (double)length);
        if (i) set_root(filter, length - i, is_double, angle, 1 / (double)length);
    }
}

// The filter is the transform of the chirp's conjugate around zero. It is computed by the baseline's kernel with equal
// lanes, so that one filter serves all instruction sets.
static void make_chirp(HloArena *arena, CpuFftPlan *plan, bool is_double) {
    const int64_t n = plan->n, length = plan->convolution, width = is_double ? 8 : 4;
    const CpuFftKernels *kernels = cpu_isa_fft_kernels(CPU_FEATURES_BASELINE, is_double);
    void *chirp = new_table(arena, n, is_double), *filter = new_table(arena, length, is_double);
    set_chirp(chirp, filter, n, length, is_double);
    const HloArenaMark mark = hlo_arena_mark(arena);
    char *block = hlo_arena_allocate_uninitialised(
        arena, hlo_array_bytes((size_t)(4 * length), (size_t)(kernels->lanes * width)) + 64);
    block += (64 - (uintptr_t)block % 64) % 64;
    kernels->load_rows(block, filter, length, 1, 0, 0);
    void *result = kernels->transform(plan->inner, block, block + 2 * length * kernels->lanes * width);
    kernels->store_rows(result, filter, length, 1, 0, 0, 1);
    hlo_arena_reset(arena, mark);
    plan->chirp = chirp;
    plan->filter = filter;
}

// Uses Bluestein's algorithm if necessary; the circle must hold the line and the chirp's two arms without overlap.
static const CpuFftPlan *new_plan(HloArena *arena, int64_t n, bool is_double) {
    assert(n > 0);
    CpuFftPlan *plan = HLO_ARENA_NEW(arena, CpuFftPlan, 1);
    plan->n = n;
    plan->factor_count = factorise(n, plan->factors);
    if (plan->factor_count >= 0) {
        make_twiddles(arena, plan, is_double);
        return plan;
    }
    plan->convolution = 1;
    while (plan->convolution < 2 * n) plan->convolution *= 2;
    plan->inner = new_plan(arena, plan->convolution, is_double);
    make_chirp(arena, plan, is_double);
    return plan;
}

// Returns the divisor of n nearest below its root that the passes' factors provide.
static int64_t middle_divisor(int64_t n) {
    for (int64_t d = (int64_t)sqrt((double)n); d >= kWorthCutting; d--)
        if (n % d == 0) return d;
    return 0;
}

// Splits a line; leaves it whole if it is short, has a large prime factor, or no divisor near its root.
static void split_line(HloArena *arena, CpuFftLine *line, bool is_double) {
    int factors[CPU_FFT_FACTORS];
    if (line->n < kShortLine || factorise(line->n, factors) < 0) return;
    line->rows = middle_divisor(line->n);
    if (!line->rows) return;
    const int64_t columns = line->n / line->rows;
    line->column = new_plan(arena, line->rows, is_double);
    line->row = columns == line->rows ? line->column : new_plan(arena, columns, is_double);
    void *table = new_table(arena, line->n, is_double);
    for (int64_t k = 0; k < line->rows; k++)
        for (int64_t j = 0; j < columns; j++)
            set_root(table, k * columns + j, is_double, -2 * kPi * (double)(k * j) / (double)line->n, 1);
    line->factors = table;
}

static CpuFftLine *new_line(HloArena *arena, int64_t n, bool is_double, bool real, bool alone);

// Sets up a long line for Bluestein's algorithm.
static void bend_line(HloArena *arena, CpuFftLine *line, bool is_double) {
    const int64_t n = line->n;
    int64_t length = 1;
    while (length < 2 * n) length *= 2;
    void *chirp = new_table(arena, n, is_double), *filter = new_table(arena, length, is_double);
    line->inner = new_line(arena, length, is_double, false, true);
    set_chirp(chirp, filter, n, length, is_double);
    const HloStatus status = cpu_fft_one_line(line->inner, is_double, filter);
    if (status) {
        hlo_status_free(status);
        hlo_arena_allocate(arena, SIZE_MAX);  // jumps, as for any allocation failure
    }
    line->chirp = chirp;
    line->filter = filter;
}

// `real`: the line is real on one side; `alone`: its points are contiguous in memory.
static CpuFftLine *new_line(HloArena *arena, int64_t n, bool is_double, bool real, bool alone) {
    assert(n > 0);
    CpuFftLine *line = HLO_ARENA_NEW(arena, CpuFftLine, 1);
    int factors[CPU_FFT_FACTORS];
    line->n = n;
    if (real && n % 2 == 0 && n >= kShortLine) {
        line->half = new_line(arena, n / 2, is_double, false, true);
        void *turns = new_table(arena, n / 2 + 1, is_double);
        for (int64_t k = 0; k <= n / 2; k++) set_root(turns, k, is_double, -2 * kPi * (double)k / (double)n, 1);
        line->turns = turns;
    }
    const bool is_long = alone && n > kLongLine;
    if (!real && alone) split_line(arena, line, is_double);
    if (!real && is_long && factorise(n, factors) < 0) bend_line(arena, line, is_double);
    if (!is_long || !(line->rows || line->half || line->inner)) line->whole = new_plan(arena, n, is_double);
    return line;
}

const CpuFft *cpu_fft_new(HloArena *arena, CpuFftKind kind, HloType type, int rank, const int64_t *lengths) {
    assert(rank > 0 && lengths);
    CpuFft *fft = HLO_ARENA_NEW(arena, CpuFft, 1);
    fft->kind = kind;
    fft->type = type;
    fft->rank = rank;
    for (int d = 0; d < rank; d++) {
        const bool real = d == rank - 1 && (kind == CPU_RFFT || kind == CPU_IRFFT);
        fft->lengths[d] = lengths[d];
        if (lengths[d] > 0) fft->lines[d] = new_line(arena, lengths[d], type == HLO_F64, real, d == rank - 1);
    }
    return fft;
}
