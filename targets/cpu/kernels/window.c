// SPDX-License-Identifier: Apache-2.0
// reduce-window and select-and-scatter.
//
// By the definition, a window of k x k positions over n elements takes k^2 n steps. If the operation is known and its
// order does not matter (sums, minima, maxima), one pass per dimension takes 2 k n, and a window that reaches the
// array's end is a running total, n steps whatever its size. Passes begin with the operation's identity; the initial
// value is combined once, at the end. Other computations are called for each position, in the definition's order.
// select-and-scatter cannot be split by dimension: the element that a window chooses depends on all of its positions.
// Its windows overlap, so workers share only batches, which are disjoint.
//
//     sum over windows of 2 x 2, stride 1, of a 3 x 3 array
//     1 2 3      pass over         5  7  9     pass over       12 16
//     4 5 6  ->  dimension 0:     11 13 15 ->  dimension 1:    24 28
//     7 8 9      add the element below         add the right neighbour
//
// A pass sees the array as [outer][length][inner]. Neighbouring windows are combined at once if there are no inner
// elements or the stride is 1 (pass_over_windows), else whole stretches of `inner` elements are (pass_over_inner).
// Intermediate results are in two stages of scratch memory, used alternately.
//
// The input element under position k of window o (source_of): position p = o stride + k window_dilation - padding_low;
// with a base dilation d only multiples of d are elements, and element p / d is read.
#include "targets/cpu/kernels/window.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/element/element.h"

// ---- one dimension of a window

typedef struct PassJob {
    CpuBlockKernel *combine;
    const CpuMoveKernels *moves;
    const char *identity;
    int width;
    int64_t outer, in_length, out_length, inner;
    int64_t joined;  // the rows that are one unit of work and, if more than one, one row
    CpuWindowDim dim;
    const char *in;
    char *out;
} PassJob;

// Returns the input element under position k of window o, or -1 in padding and between dilated elements.
static int64_t source_of(const CpuWindowDim *dim, int64_t in_length, int64_t o, int64_t k) {
    const int64_t position = o * dim->stride + k * dim->window_dilation - dim->padding_low;
    if (position < 0 || position % dim->base_dilation != 0) return -1;
    const int64_t source = position / dim->base_dilation;
    return source < in_length ? source : -1;
}

// Combines neighbours in the inner dimensions as vectors; a unit is one window of one outer index.
static void pass_over_inner(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const PassJob *job = argument;
    const int64_t bytes = job->inner * job->width;
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        char *out = job->out + unit * bytes;
        const char *in = job->in + unit / job->out_length * job->in_length * bytes;
        const char *sum = NULL;  // the first position is read from the input
        for (int64_t k = 0; k < job->dim.size; k++) {
            const int64_t source = source_of(&job->dim, job->in_length, unit % job->out_length, k);
            if (source < 0) continue;
            if (sum) job->combine(out, sum, in + source * bytes, NULL, job->inner, 0);
            sum = sum ? out : in + source * bytes;
        }
        if (sum && sum != out) memcpy(out, sum, (size_t)bytes);
        if (!sum) cpu_fill_run(out, job->identity, job->inner, job->width);
    }
}

// Sets the windows [*low, *high) whose position k is on an element, for a base dilation of 1. The elements between need
// no test of their own.
static void covered(const PassJob *job, int64_t k, int64_t *low, int64_t *high) {
    const int64_t shift = job->dim.padding_low - k * job->dim.window_dilation, stride = job->dim.stride;
    const int64_t last = job->in_length - 1 + shift;
    *low = shift <= 0 ? 0 : stride == 1 ? shift : hlo_divide_up(shift, stride);  // divisions take some time
    *high = last < 0 ? 0 : stride == 1 ? last + 1 : last / stride + 1;
    if (*high > job->out_length) *high = job->out_length;
}

// Copies every `stride`-th element of a row.
static void gather_row(const PassJob *job, char *to, const char *from, int64_t count) {
    const int64_t stride = job->dim.stride;
    CpuStepKernel *step = NULL;
    if (job->width <= 8 && stride <= CPU_MOVE_MOST)
        step = job->moves->step[__builtin_ctz((unsigned)job->width)][stride];
    if (step)
        step(to, from, count);
    else
        cpu_copy_run(to, 1, from, stride, count, job->width);
}

// Windows of a row that are combined at once, so that all of their positions are in the caches.
enum { kBlock = 512, kLongBlock = 2048 };

static int64_t block_size(const PassJob *job) {
    return job->dim.stride == 1 ? kLongBlock : kBlock;
}

// Combines windows [first, end) of one row as vectors. A position that is the first of all of them is read where it is,
// or copied, instead of combined with the identity.
static void pass_over_block(const PassJob *job, int64_t first, int64_t end, char *out, const char *in) {
    assert(first < end && end - first <= block_size(job));
    const int width = job->width;
    _Alignas(64) char gathered[kBlock * 16];
    char *const block = out + first * width;
    const char *sum = NULL;
    for (int64_t k = 0; k < job->dim.size; k++) {
        int64_t low, high;
        covered(job, k, &low, &high);
        if (low < first) low = first;
        if (high > end) high = end;
        if (low >= high) continue;
        const bool all = low == first && high == end, starts = !sum && all;
        const char *source = in + source_of(&job->dim, job->in_length, low, k) * width;
        if (job->dim.stride != 1) {
            char *const to = starts ? block : gathered;
            gather_row(job, to, source, high - low);
            source = to;
        }
        if (!sum && !all) cpu_fill_run(block, job->identity, end - first, width);
        if (sum && sum != block && !all) memcpy(block, sum, (size_t)((end - first) * width));
        if (starts) {
            sum = source;
            continue;
        }
        char *const to = out + low * width;
        job->combine(to, sum && all ? sum : to, source, NULL, high - low, 0);
        sum = block;
    }
    if (!sum) cpu_fill_run(block, job->identity, end - first, width);
    if (sum && sum != block) memcpy(block, sum, (size_t)((end - first) * width));
}

// Returns the blocks of the longest rows.
static int64_t blocks_of(const PassJob *job) {
    return hlo_divide_up(job->joined * job->out_length, block_size(job));
}

// Does this for a dimension without inner elements; a unit is one block of `joined` rows, or of those that are left.
static void pass_over_windows(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const PassJob *job = argument;
    const int64_t blocks = blocks_of(job), size = block_size(job);
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit / blocks * job->joined, left = job->outer - first;
        const int64_t rows = left < job->joined ? left : job->joined, at = unit % blocks * size;
        PassJob row = *job;
        row.in_length *= rows;
        row.out_length *= rows;
        const int64_t next = at + size < row.out_length ? at + size : row.out_length;
        if (at < next)
            pass_over_block(&row, at, next, job->out + first * job->out_length * job->width,
                            job->in + first * job->in_length * job->width);
    }
}

// Counts the inner elements as ones of this dimension where windows are side by side, as their positions then are.
static void flatten_inner(PassJob *job) {
    const CpuWindowDim *d = &job->dim;
    const int64_t padding = d->padding_low < 0 ? -d->padding_low : d->padding_low;
    if (d->stride != 1 || d->base_dilation != 1) return;
    if (padding > INT64_MAX / 4 / job->inner || d->window_dilation > INT64_MAX / 4 / job->inner / d->size) return;
    job->in_length *= job->inner;
    job->out_length *= job->inner;
    job->dim.padding_low *= job->inner;
    job->dim.window_dilation *= job->inner;
    job->inner = 1;
}

// Returns how many rows to treat as one long row: windows that tile their row lie over the next one as they do over
// their own.
static int64_t joined_rows(const PassJob *job) {
    enum { kLong = 1024 };
    const CpuWindowDim *d = &job->dim;
    const bool tiles = d->padding_low == 0 && job->in_length == job->out_length * d->stride;
    if (!tiles || (d->size - 1) * d->window_dilation >= d->stride) return 1;
    return hlo_divide_up(kLong, job->out_length);
}

// True if each window ends at its own position and reaches the start (or starts there and reaches the end): a scan.
static bool is_scan(const PassJob *job, bool *reverse) {
    const CpuWindowDim *d = &job->dim;
    if (d->stride != 1 || d->base_dilation != 1 || d->window_dilation != 1 || job->out_length != job->in_length)
        return false;
    if (d->size < job->in_length || d->size <= 8) return false;
    *reverse = d->padding_low == 0;
    return d->padding_low == d->size - 1 || *reverse;
}

// Runs one pass. If each window covers everything before its position, it is a running total, computed as a scan in
// linear rather than quadratic time.
static HloStatus run_pass(CpuPool *pool, PassJob *job, HloType register_type, CpuReduceOp op) {
    bool reverse;
    if (job->inner == 0) return HLO_SUCCESS;
    if (is_scan(job, &reverse))
        return cpu_scan(pool, register_type, op, reverse, job->outer, job->in_length, job->inner, job->identity,
                        job->out, job->in);
    const int64_t work = job->outer * job->out_length * job->inner * job->dim.size;
    CpuPool *use = work < 32768 ? NULL : pool;
    flatten_inner(job);
    if (job->inner == 1 && job->dim.base_dilation == 1) {
        job->joined = joined_rows(job);
        const int64_t blocks = blocks_of(job), windows = job->joined * job->out_length / blocks;
        cpu_pool_parallel_for_grain(use, hlo_divide_up(job->outer, job->joined) * blocks,
                                    16384 / (windows * job->dim.size + 1) + 1, pass_over_windows, job);
    } else
        cpu_pool_parallel_for_grain(use, job->outer * job->out_length, 16384 / (job->inner * job->dim.size + 1) + 1,
                                    pass_over_inner, job);
    return HLO_SUCCESS;
}

// ---- reduce-window

// True if each window is one element, its own.
static bool is_trivial(const CpuWindowDim *d, int64_t in_size, int64_t out_size) {
    return d->size == 1 && d->stride == 1 && d->padding_low == 0 && d->base_dilation == 1 && in_size == out_size;
}

// Returns the elements of the largest array between two passes.
static int64_t largest_stage(int rank, const int64_t *in_sizes, const int64_t *out_sizes) {
    int64_t largest = hlo_product(in_sizes, rank);
    for (int d = 0; d < rank; d++) {
        const int64_t stage = hlo_product(out_sizes, d + 1) * hlo_product(in_sizes + d + 1, rank - d - 1);
        if (stage > largest) largest = stage;
    }
    return largest;
}

typedef struct Passes {
    CpuPool *pool;
    const CpuLoopKernels *kernels;
    HloType type, register_type;
    CpuReduceOp op;
    int rank;
    const int64_t *in_sizes, *out_sizes;
    const CpuWindowDim *window;
    const char *identity;
    char *stages[2];
} Passes;

// Runs all passes from `in` through the two stages; *result is where the last one wrote.
static HloStatus run_passes(const Passes *p, const char *in, const char **result) {
    const char *now = in;
    for (int d = 0; d < p->rank; d++) {
        if (is_trivial(&p->window[d], p->in_sizes[d], p->out_sizes[d])) continue;
        PassJob job = {.combine = cpu_pair_kernel(p->kernels, p->register_type, p->op),
                       .moves = cpu_isa_move_kernels(cpu_pool_features(p->pool)),
                       .identity = p->identity,
                       .width = cpu_register_form_bytes(p->register_type),
                       .outer = hlo_product(p->out_sizes, d),
                       .in_length = p->in_sizes[d],
                       .out_length = p->out_sizes[d],
                       .inner = hlo_product(p->in_sizes + d + 1, p->rank - d - 1),
                       .dim = p->window[d],
                       .in = now};
        job.out = now == p->stages[0] ? p->stages[1] : p->stages[0];
        HLO_TRY(run_pass(p->pool, &job, p->register_type, p->op));
        now = job.out;
    }
    *result = now;
    return HLO_SUCCESS;
}

// Computes out = narrowed (init op result).
static void finish(const Passes *p, const void *init, char *out, const char *result, int64_t count) {
    _Alignas(64) char inits[kBlock * 16], sums[kBlock * 16];
    const int width = cpu_register_form_bytes(p->register_type), out_width = hlo_type_bytes(p->type);
    char register_init[16];
    cpu_widen(p->kernels, p->type, register_init, init, 1);
    cpu_fill_run(inits, register_init, kBlock, width);
    for (int64_t i = 0; i < count; i += kBlock) {
        const int64_t n = count - i < kBlock ? count - i : kBlock;
        cpu_pair_kernel(p->kernels, p->register_type, p->op)(sums, inits, result + i * width, NULL, n, 0);
        cpu_narrow(p->kernels, p->type, out + i * out_width, sums, n);
    }
}

// A window over several dimensions is one pass for each: 2 k steps where k by k elements would take k^2. Float sums are
// then not in the order of the definition, which HLO leaves open. Narrow floats stay in f32 until the end, and `init`
// is combined once, at the end, since passes begin with the identity.
HloStatus cpu_reduce_window(CpuPool *pool, HloType type, CpuReduceOp op, int rank, const int64_t *in_sizes,
                            const int64_t *out_sizes, const CpuWindowDim *window, const void *init, void *out,
                            const void *in) {
    const CpuLoopKernels *kernels = cpu_isa_loop_kernels(cpu_pool_features(pool));
    assert(cpu_pair_kernel(kernels, type, op));                 /* lowering checks */
    if (hlo_product(out_sizes, rank) == 0) return HLO_SUCCESS;  // the window may be immense in this case
    const bool widened = cpu_is_widened(kernels, type);
    char identity[16] = {0};
    Passes p = {.pool = pool,
                .kernels = kernels,
                .type = type,
                .register_type = widened ? HLO_F32 : type,
                .op = op,
                .rank = rank,
                .in_sizes = in_sizes,
                .out_sizes = out_sizes,
                .window = window,
                .identity = identity};
    kernels->reduce[op][cpu_register_of(type)](identity, identity, 1, 0);
    const size_t stage =
        hlo_array_bytes((size_t)largest_stage(rank, in_sizes, out_sizes) + 4, (size_t)cpu_register_form_bytes(type));
    char *scratch = cpu_pool_scratch_take(pool, hlo_array_bytes(stage, 2));
    HLO_FAIL_IF(!scratch, HLO_RESOURCE_EXHAUSTED, "no memory for a window reduction");
    p.stages[0] = scratch;
    p.stages[1] = scratch + stage;
    const char *source = in, *result = NULL;
    if (widened) {
        cpu_widen(kernels, type, p.stages[0], in, hlo_product(in_sizes, rank));
        source = p.stages[0];
    }
    const HloStatus status = run_passes(&p, source, &result);
    if (!status) finish(&p, init, out, result, hlo_product(out_sizes, rank));
    cpu_pool_scratch_give(pool, scratch);
    return status;
}

// ---- any combiner

typedef struct CallJob {
    int count, rank;
    const HloType *types;
    const int64_t *in_sizes, *out_sizes;
    const CpuWindowDim *window;
    const void *const *inits;
    void *const *outs;
    const void *const *ins;
    CpuWindowCombine *combine;
    void *context;
} CallJob;

// Moves to the next position of a window in row-major order; false after the last.
static bool next_place(int rank, const CpuWindowDim *window, int64_t *place) {
    for (int d = rank - 1; d >= 0; d--) {
        if (++place[d] < window[d].size) return true;
        place[d] = 0;
    }
    return false;
}

// Returns the row-major element number under a position of the window at `index`, or -1.
static int64_t element_under(int rank, const int64_t *in_sizes, const CpuWindowDim *window, const int64_t *index,
                             const int64_t *place) {
    int64_t element = 0;
    for (int d = 0; d < rank; d++) {
        const int64_t source = source_of(&window[d], in_sizes[d], index[d], place[d]);
        if (source < 0) return -1;
        element = element * in_sizes[d] + source;
    }
    return element;
}

// Sets the index of a row-major element number.
static void unflatten(int rank, const int64_t *sizes, int64_t flat, int64_t *index) {
    for (int d = rank - 1; d >= 0; d--) {
        index[d] = flat % sizes[d];
        flat /= sizes[d];
    }
}

// Computes each output element separately, with its accumulators in the outputs.
static void call_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const CallJob *job = argument;
    int64_t index[CPU_KERNEL_RANK_LIMIT], place[CPU_KERNEL_RANK_LIMIT];
    void *accumulators[CPU_KERNEL_RANK_LIMIT];
    const void *elements[CPU_KERNEL_RANK_LIMIT];
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        unflatten(job->rank, job->out_sizes, i, index);
        memset(place, 0, sizeof place);
        for (int o = 0; o < job->count; o++) {
            const int width = hlo_type_bytes(job->types[o]);
            accumulators[o] = (char *)job->outs[o] + i * width;
            memcpy(accumulators[o], job->inits[o], (size_t)width);
        }
        do {
            const int64_t element = element_under(job->rank, job->in_sizes, job->window, index, place);
            if (element < 0) continue;
            for (int o = 0; o < job->count; o++)
                elements[o] = (const char *)job->ins[o] + element * hlo_type_bytes(job->types[o]);
            job->combine(job->context, job->count, accumulators, elements);
        } while (next_place(job->rank, job->window, place));
    }
}

// Calls unknown combiners element by element, in row-major order of the window's positions.
HloStatus cpu_reduce_window_call(CpuPool *pool, int count, const HloType *types, int rank, const int64_t *in_sizes,
                                 const int64_t *out_sizes, const CpuWindowDim *window, const void *const *inits,
                                 void *const *outs, const void *const *ins, CpuWindowCombine *combine, void *context) {
    CallJob job = {count, rank, types, in_sizes, out_sizes, window, inits, outs, ins, combine, context};
    assert(rank <= CPU_KERNEL_RANK_LIMIT);  /* no array has more dimensions */
    assert(count <= CPU_KERNEL_RANK_LIMIT); /* more have no scalar function */
    cpu_pool_parallel_for_grain(pool, hlo_product(out_sizes, rank), 256, call_task, &job);
    return HLO_SUCCESS;
}

// ---- select-and-scatter

typedef struct SelectJob {
    CpuBlockKernel *select, *combine;
    int width, rank;
    int64_t sources_each;  // elements of one batch
    const int64_t *operand_sizes, *source_sizes;
    const CpuWindowDim *window;
    char *out;
    const char *operand, *source;
} SelectJob;

// True if the select computation replaces `best` by `element`; its comparison decides ties, as in HLO.
static bool prefers(const SelectJob *job, int64_t best, int64_t element) {
    uint8_t keep;
    job->select(&keep, job->operand + best * job->width, job->operand + element * job->width, NULL, 1, 0);
    return !keep;
}

// Processes all windows of one batch, in order: each adds its source element at its selected operand element.
static void select_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const SelectJob *job = argument;
    int64_t index[CPU_KERNEL_RANK_LIMIT], place[CPU_KERNEL_RANK_LIMIT];
    (void)worker;
    for (int64_t i = begin * job->sources_each; i < end * job->sources_each; i++) {
        unflatten(job->rank, job->source_sizes, i, index);
        memset(place, 0, sizeof place);
        int64_t best = -1;
        do {
            const int64_t element = element_under(job->rank, job->operand_sizes, job->window, index, place);
            if (element >= 0 && (best < 0 || prefers(job, best, element))) best = element;
        } while (next_place(job->rank, job->window, place));
        if (best < 0) continue;
        char *target = job->out + best * job->width;
        job->combine(target, target, job->source + i * job->width, NULL, 1, 0);
    }
}

// ---- select-and-scatter of plain windows

// Walks windows without divisions: a table per dimension holds the operand offset of each position of each window.
// Neighbours after the last dimension that has windows choose side by side.
typedef struct ChooseJob {
    const SelectJob *select;
    int rank;           // dimensions before those neighbours
    int64_t inner;      // neighbours
    int64_t places;     // of a window
    int64_t **sources;  // by dimension: [window][position], operand elements from the dimension's start, or -1
    int64_t *offsets;   // of one worker: `places` of them
    void (*choose)(const struct ChooseJob *job, const int64_t *offsets, int64_t count, int64_t window);
} ChooseJob;

enum { kSideBySide = 64 };

// Finds the window's choice for every neighbour, and adds the source's elements there.
#define CHOOSE(name, T, SUM, beats)                                                                         \
    static void name(const ChooseJob *job, const int64_t *offsets, int64_t count, int64_t window) {         \
        const T *operand = (const void *)job->select->operand, *source = (const void *)job->select->source; \
        T *out = (void *)job->select->out;                                                                  \
        assert(count > 0); /* windows of only padding choose nothing */                                     \
        for (int64_t c = 0; c < job->inner; c += kSideBySide) {                                             \
            const int64_t n = job->inner - c < kSideBySide ? job->inner - c : kSideBySide;                  \
            T best[kSideBySide];                                                                            \
            int32_t which[kSideBySide];                                                                     \
            memcpy(best, operand + offsets[0] + c, sizeof(T) * (size_t)n);                                  \
            memset(which, 0, sizeof which);                                                                 \
            for (int32_t p = 1; p < count; p++) {                                                           \
                const T *next = operand + offsets[p] + c;                                                   \
                for (int64_t i = 0; i < n; i++) {                                                           \
                    const int taken = !(best[i] beats next[i]);                                             \
                    best[i] = taken ? next[i] : best[i];                                                    \
                    which[i] = taken ? p : which[i];                                                        \
                }                                                                                           \
            }                                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                               \
                T *to = out + offsets[which[i]] + c + i;                                                    \
                *to = (T)((SUM)*to + (SUM)source[window * job->inner + c + i]);                             \
            }                                                                                               \
        }                                                                                                   \
    }
CHOOSE(largest_f32, float, float, >=)
CHOOSE(smallest_f32, float, float, <=)
CHOOSE(largest_f64, double, double, >=)
CHOOSE(smallest_f64, double, double, <=)
CHOOSE(largest_s32, int32_t, uint32_t, >=)
CHOOSE(smallest_s32, int32_t, uint32_t, <=)

// Processes all windows of some batches, in order.
static void choose_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ChooseJob *job = argument;
    const SelectJob *select = job->select;
    const int64_t each = select->sources_each / job->inner;
    int64_t index[CPU_KERNEL_RANK_LIMIT], place[CPU_KERNEL_RANK_LIMIT], *offsets = job->offsets + worker * job->places;
    for (int64_t i = begin * each; i < end * each; i++) {
        int64_t count = 0;
        unflatten(job->rank, select->source_sizes, i, index);
        memset(place, 0, sizeof(int64_t) * (size_t)job->rank);
        do {
            int64_t offset = 0;
            for (int d = 0; d < job->rank && offset >= 0; d++) {
                const int64_t source = job->sources[d][index[d] * select->window[d].size + place[d]];
                offset = source < 0 ? -1 : offset + source;
            }
            if (offset >= 0) offsets[count++] = offset;
        } while (next_place(job->rank, select->window, place));
        if (count) job->choose(job, offsets, count, i);
    }
}

// Sets the offsets of a window's positions along dimension d, whose elements are `stride` apart.
static void fill_sources(const SelectJob *select, int d, int64_t stride, int64_t *sources) {
    const CpuWindowDim *dim = &select->window[d];
    for (int64_t o = 0; o < select->source_sizes[d]; o++)
        for (int64_t k = 0; k < dim->size; k++) {
            const int64_t source = source_of(dim, select->operand_sizes[d], o, k);
            *sources++ = source < 0 ? -1 : source * stride;
        }
}

// Chooses by tables if the type has a function for it and the tables are small; otherwise sets *done to false.
static HloStatus choose_windows(CpuPool *pool, const SelectJob *select, HloType type, bool largest, int64_t batches,
                                bool *done) {
    enum { kMostPlaces = 4096 };
    const int which = type == HLO_F32 ? 0 : type == HLO_F64 ? 1 : type == HLO_S32 ? 2 : -1;
    ChooseJob job = {.select = select, .rank = select->rank, .inner = 1, .places = 1};
    int64_t *sources[CPU_KERNEL_RANK_LIMIT], entries = 0;
    while (job.rank > 0 && is_trivial(&select->window[job.rank - 1], select->operand_sizes[job.rank - 1],
                                      select->source_sizes[job.rank - 1]))
        job.inner *= select->operand_sizes[--job.rank];
    for (int d = 0; d < job.rank; d++) {
        job.places *= select->window[d].size;
        entries += select->window[d].size * select->source_sizes[d];
        if (job.places <= 0 || job.places > kMostPlaces || entries > 1 << 20) return HLO_SUCCESS;
    }
    if (which < 0 || job.rank == 0 || select->sources_each == 0) return HLO_SUCCESS;
    job.choose = (void (*[])(const ChooseJob *, const int64_t *, int64_t, int64_t)){
        largest_f32, largest_f64, largest_s32, smallest_f32, smallest_f64, smallest_s32}[which + (largest ? 0 : 3)];
    const size_t count = (size_t)entries + (size_t)job.places * (size_t)cpu_pool_worker_count(pool);
    int64_t *memory = cpu_pool_scratch_take(pool, sizeof(int64_t) * count);
    HLO_FAIL_IF(!memory, HLO_RESOURCE_EXHAUSTED, "no memory for select-and-scatter");
    job.sources = sources;
    job.offsets = memory + entries;
    int64_t *next = memory;
    for (int d = 0; d < job.rank; d++) {
        sources[d] = next;
        fill_sources(select, d, hlo_product(select->operand_sizes + d + 1, select->rank - d - 1), next);
        next += select->window[d].size * select->source_sizes[d];
    }
    cpu_pool_parallel_for_grain(select->sources_each * batches < 4096 ? NULL : pool, batches, 1, choose_task, &job);
    cpu_pool_scratch_give(pool, memory);
    *done = true;
    return HLO_SUCCESS;
}

// Uses tables if possible, else processes one element at a time.
static HloStatus select_batches(CpuPool *pool, SelectJob *job, HloType register_type, CpuLoopOp select, CpuReduceOp op,
                                int64_t batches) {
    bool done = false;
    if (op == CPU_REDUCE_ADD) HLO_TRY(choose_windows(pool, job, register_type, select == CPU_OP_GE, batches, &done));
    if (!done)
        cpu_pool_parallel_for_grain(job->sources_each * batches < 4096 ? NULL : pool, batches, 1, select_task, job);
    return HLO_SUCCESS;
}

// Copies the three arrays to f32 for narrow floats.
static HloStatus select_widened(CpuPool *pool, const CpuLoopKernels *kernels, HloType type, SelectJob *job,
                                CpuLoopOp select, CpuReduceOp op, int64_t batches, int64_t operands, int64_t sources,
                                const void *init, void *out, const void *operand, const void *source) {
    float *wide = cpu_pool_scratch_take(pool, hlo_array_bytes((size_t)(2 * operands + sources), sizeof(float)));
    HLO_FAIL_IF(!wide, HLO_RESOURCE_EXHAUSTED, "no memory for select-and-scatter");
    float *wide_operand = wide + operands, *wide_source = wide + 2 * operands, wide_init;
    cpu_widen(kernels, type, &wide_init, init, 1);
    cpu_widen(kernels, type, wide_operand, operand, operands);
    cpu_widen(kernels, type, wide_source, source, sources);
    cpu_fill(pool, wide, &wide_init, operands, sizeof(float));
    job->out = (char *)wide, job->operand = (const char *)wide_operand, job->source = (const char *)wide_source;
    const HloStatus status = select_batches(pool, job, HLO_F32, select, op, batches);
    if (!status) cpu_narrow(kernels, type, out, wide, operands);
    cpu_pool_scratch_give(pool, wide);
    return status;
}

// For each window, finds the position of the element that `select` prefers, and adds the source's element there.
// Leading dimensions without a window are batches, which workers share; within a batch, windows overlap and are
// processed in order.
HloStatus cpu_select_and_scatter(CpuPool *pool, HloType type, CpuLoopOp select, CpuReduceOp op, int rank,
                                 const int64_t *operand_sizes, const int64_t *source_sizes, const CpuWindowDim *window,
                                 const void *init, void *out, const void *operand, const void *source) {
    const CpuLoopKernels *kernels = cpu_isa_loop_kernels(cpu_pool_features(pool));
    SelectJob job = {.select = kernels->operation[select][cpu_register_of(type)],
                     .combine = cpu_pair_kernel(kernels, type, op),
                     .width = cpu_register_form_bytes(type),
                     .rank = rank,
                     .operand_sizes = operand_sizes,
                     .source_sizes = source_sizes,
                     .window = window,
                     .out = out,
                     .operand = operand,
                     .source = source};
    assert(job.select && job.combine && rank <= CPU_KERNEL_RANK_LIMIT); /* lowering checks */
    int64_t batches = 1;
    for (int d = 0; d < rank && is_trivial(&window[d], operand_sizes[d], source_sizes[d]); d++)
        batches *= operand_sizes[d];
    const int64_t operands = hlo_product(operand_sizes, rank), sources = hlo_product(source_sizes, rank);
    if (operands == 0) return HLO_SUCCESS;
    job.sources_each = sources / batches;
    if (cpu_is_widened(kernels, type))
        return select_widened(pool, kernels, type, &job, select, op, batches, operands, sources, init, out, operand,
                              source);
    cpu_fill(pool, out, init, operands, job.width);
    return select_batches(pool, &job, type, select, op, batches);
}

// Handles types and computations without a kernel, by the definition of the op: the first element of a window that
// `keeps` does not replace by a later one is selected, padding is never read, and a window that is all padding scatters
// nothing. Runs in order on one thread: the computation may be anything, so its result may depend on the order.
HloStatus cpu_select_and_scatter_call(CpuPool *pool, HloType type, int rank, const int64_t *operand_sizes,
                                      const int64_t *source_sizes, const CpuWindowDim *window, const void *init,
                                      void *out, const void *operand, const void *source, CpuWindowKeeps *keeps,
                                      void *keeps_context, CpuWindowCombine *combine, void *combine_context) {
    const int width = hlo_type_bytes(type);
    int64_t index[CPU_KERNEL_RANK_LIMIT], place[CPU_KERNEL_RANK_LIMIT];
    assert(rank <= CPU_KERNEL_RANK_LIMIT); /* no array has more dimensions */
    cpu_fill(pool, out, init, hlo_product(operand_sizes, rank), width);
    const int64_t sources = hlo_product(source_sizes, rank);
    for (int64_t i = 0; i < sources; i++) {
        unflatten(rank, source_sizes, i, index);
        memset(place, 0, sizeof place);
        const char *best = NULL;
        do {
            const int64_t at = element_under(rank, operand_sizes, window, index, place);
            const char *element = (const char *)operand + at * width;
            if (at >= 0 && (!best || !keeps(keeps_context, best, element))) best = element;
        } while (next_place(rank, window, place));
        if (!best) continue;
        void *target = (char *)out + (best - (const char *)operand);
        const void *update = (const char *)source + i * width;
        combine(combine_context, 1, &target, &update);
    }
    return HLO_SUCCESS;
}
