// SPDX-License-Identifier: Apache-2.0
// The range of a step time. Each kind of work has residuals: measured over predicted time of every published row
// (residuals.def). A step of seconds is compared with published steps of its kind, a shorter one part by part:
//
//   deviation of a kind    the largest of its rows, each way; more where there are few rows, or none on this generation
//   deviation of a step    root of the sum of squares over its parts, each weighted with its share of the step
//
// Work that was never measured (sorts, convolutions, transfers of the host) counts with a guess, and is named as one.
#include "emulator/report/range.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "emulator/amount.h"

// The kinds of work, with the name that reports show.
enum {
    PART_DENSE_STEP,
    PART_EXPERT_STEP,
    PART_MATRIX,
    PART_VECTOR,
    PART_MEMORY,
    PART_NETWORK,
    PART_CONVOLUTION,
    PART_HOST,
    PART_OTHER,
    PART_COUNT
};
static const char *const part_names[PART_COUNT] = {
    "steps of dense models", "steps of mixtures of experts", "matrix products",
    "elementwise functions", "traffic of the HBM",           "transfers between devices",
    "convolutions",          "transfers of the host",        "sorts, gathers and others",
};

typedef struct Residual {
    int part;
    const char *generation;
    double ratio;  // measured over predicted
} Residual;

static const Residual residuals[] = {
#define EMU_RESIDUAL(part, generation, ratio, row) {PART_##part, generation, ratio},
#include "emulator/report/residuals.def"
#undef EMU_RESIDUAL
};

// The deviation of work that was never measured: half or twice the time.
#define GUESS_BELOW 0.5
#define GUESS_ABOVE 1.0
// Few rows do not show the largest deviation: that of n rows is taken 1 + FEW / n times.
#define FEW 2.0
// The deviation on a generation on which this work was never measured, over that on the others.
#define ELSEWHERE 1.5
// No less than what repeated measurements differ by.
#define LEAST 0.03
// Guesses below this share of a step of seconds are part of the residual of such steps.
#define NOTABLE_SHARE 0.05

// How far rows of a kind of work are from 1.
static void deviation_of(int part, const char *generation, EmuRangePart *result) {
    double below = 0, above = 0;
    for (size_t i = 0; i < HLO_COUNT_OF(residuals); i++) {
        if (residuals[i].part != part) continue;
        result->rows++;
        result->rows_here += strcmp(residuals[i].generation, generation) == 0;
        below = fmax(below, 1 - residuals[i].ratio);
        above = fmax(above, residuals[i].ratio - 1);
    }
    // Few rows may all be on one side.
    below = fmax(below, above / 2);
    above = fmax(above, below / 2);
    const double scale = result->rows ? (1 + FEW / (double)result->rows) * (result->rows_here ? 1 : ELSEWHERE) : 0;
    result->below = result->rows ? fmax(LEAST, fmin(scale * below, GUESS_BELOW)) : GUESS_BELOW;
    result->above = result->rows ? fmax(LEAST, scale * above) : GUESS_ABOVE;
}

// Whether an operation is one for whose price there is no measurement: it is not elementwise, a sum or a product.
static bool is_other(const char *opcode) {
    static const char *const others[] = {
        "cholesky", "custom-call",        "fft",  "gather", "reduce-window",   "rng", "rng-bit-generator",
        "scatter",  "select-and-scatter", "sort", "topk",   "triangular-solve"};
    for (size_t i = 0; i < HLO_COUNT_OF(others); i++)
        if (!strcmp(opcode, others[i])) return true;
    return false;
}

static int part_of(const EmuOp *op) {
    const bool computes = op->bound == EMU_BOUND_MATRIX;
    if (!strcmp(op->opcode, "convolution")) return PART_CONVOLUTION;
    // A kernel of a user's is products where it is bound by them.
    if (is_other(op->opcode) && !(computes && !strcmp(op->opcode, "custom-call"))) return PART_OTHER;
    return computes ? PART_MATRIX : op->bound == EMU_BOUND_MEMORY ? PART_MEMORY : PART_VECTOR;
}

// The picoseconds of each kind of work in a step.
static void add_up(const EmuReport *report, int64_t *parts) {
    for (int64_t i = 0; i < report->op_count; i++) {
        const EmuOp *op = &report->ops[i];
        if (op->network || op->bound == EMU_BOUND_NONE || op->in_shorter_branch) continue;
        int64_t *part = &parts[part_of(op)];
        *part = emu_add(*part, emu_times(op->duration, (double)op->count));
    }
    parts[PART_NETWORK] = report->exposed_picoseconds;
    parts[PART_HOST] = report->copy_picoseconds;
}

// In a step of seconds only what is guessed counts beside the residual of such steps. The kernels of users are part of
// the published steps.
static void keep_guesses(const EmuReport *report, int64_t *parts) {
    for (int p = 0; p < PART_COUNT; p++) {
        const bool guessed = p == PART_CONVOLUTION || p == PART_HOST;
        if (!guessed || (double)parts[p] < NOTABLE_SHARE * (double)report->step_picoseconds) parts[p] = 0;
    }
    parts[report->routes_tokens ? PART_EXPERT_STEP : PART_DENSE_STEP] = report->step_picoseconds;
}

void emu_range_find(EmuReport *report, const char *generation) {
    assert(report && generation);
    int64_t times[PART_COUNT] = {0};
    add_up(report, times);
    if (report->is_sustained) keep_guesses(report, times);
    EmuRangePart *parts = HLO_ARENA_NEW(report->arena, EmuRangePart, PART_COUNT);
    const double step = (double)report->step_picoseconds;
    double below = 0, above = 0;
    for (int p = 0; p < PART_COUNT; p++) {
        if (times[p] <= 0 || step <= 0) continue;
        EmuRangePart *part = &parts[report->range_part_count++];
        part->name = part_names[p];
        part->share = fmin(1, (double)times[p] / step);
        deviation_of(p, generation, part);
        below += pow(part->share * part->below, 2);
        above += pow(part->share * part->above, 2);
    }
    report->range_parts = parts;
    report->step_low_picoseconds = (int64_t)(step * (1 - sqrt(below)));
    const bool is_open = report->unknown_calls > 0 || report->unknown_trip_counts > 0;
    report->step_high_picoseconds = is_open ? 0 : emu_times(report->step_picoseconds, 1 + sqrt(above));
}

// Three digits, and whole numbers from a thousand on: never 1e+03.
static void print_rounded(HloText *text, double value) {
    hlo_text_format(text, value < 999.5 ? "%.3g" : "%.0f", value);
}

void emu_range_print(const EmuReport *report, HloText *text) {
    const double step = (double)report->step_picoseconds;
    const double unit = step >= 1e12 ? 1e-12 : step >= 1e9 ? 1e-9 : 1e-6;
    const char *name = step >= 1e12 ? "s" : step >= 1e9 ? "ms" : "µs";
    const double low = (double)report->step_low_picoseconds * unit, high = (double)report->step_high_picoseconds * unit;
    const bool is_open = !report->step_high_picoseconds;
    hlo_text_string(text, "likely ");
    print_rounded(text, low);
    if (!is_open) {
        hlo_text_string(text, "–");
        print_rounded(text, high);
    }
    hlo_text_format(text, " %s%s", name, is_open ? " or more" : "");
}

void emu_range_print_basis(const EmuReport *report, HloText *text) {
    for (int64_t i = 0; i < report->range_part_count; i++) {
        const EmuRangePart *part = &report->range_parts[i];
        hlo_text_format(text, "%s%s", i ? ", " : "", part->name);
        if (report->range_part_count > 1) hlo_text_format(text, " %.0f %%", 100 * part->share);
        if (!part->rows)
            hlo_text_string(text, " (a guess: none was measured)");
        else if (part->rows_here)
            hlo_text_format(text, " (%lld measured, %lld on this generation)", (long long)part->rows,
                            (long long)part->rows_here);
        else
            hlo_text_format(text, " (%lld measured, none on this generation)", (long long)part->rows);
    }
}
