// SPDX-License-Identifier: Apache-2.0
// Cumulative scans. Rows along memory are scanned several at a time, which hides the latency of the chain of additions
// without changing its order; columns are scanned as vectors of neighbours. A single long row is split into fixed
// segments.
//
//     rows      [outer][length]: kLanes rows side by side, each in its own order
//     columns   [outer][length][inner]: result row i = row i - 1 op input row i, for up to kColumnBlock columns at once
//     long row  segments of 2^15, scanned separately; then, segment by segment, the total before it is added to all
//               1 2 3 | 4 5 6  ->  1 3 6 | 4 9 15  ->  1 3 6 | 10 15 21
//
// Segments have a fixed length, so that the bits of a long row do not depend on the number of workers. In reverse, step
// is -1 and the scan begins at the row's end. Narrow types are scanned in f32 and rounded once per element.
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/element/element.h"
#include "targets/cpu/isa/scan.h"
#include "targets/cpu/kernels/window.h"

// Rows per unit: a multiple of every instruction set's lanes.
enum { kUnitRows = 16 };
enum { kLanes = 8, kLine = 16, kSegment = 1 << 15, kColumnBlock = 512 };

typedef void LaneScan(const void *in, void *out, int64_t lane_stride, int64_t length, int64_t step, const void *init);
typedef void OneScan(const void *in, void *out, int64_t length, int64_t step, const void *init);

// Functions for kLanes rows side by side, a cache line of each in turn (rows are often at distances that share cache
// sets), and for one row. `init` is combined into the first element.
#define SCAN_FUNCTIONS(T, name, expression)                                                                     \
    static void lanes_##name(const void *in, void *out, int64_t lane_stride, int64_t length, int64_t step,      \
                             const void *init) {                                                                \
        T sum[kLanes], part[kLanes][kLine];                                                                     \
        for (int l = 0; l < kLanes; l++) memcpy(&sum[l], init, sizeof(T));                                      \
        for (int64_t i = 0; i < length; i += kLine) {                                                           \
            const int64_t n = length - i < kLine ? length - i : kLine;                                          \
            for (int l = 0; l < kLanes; l++)                                                                    \
                for (int64_t j = 0; j < n; j++) part[l][j] = ((const T *)in)[l * lane_stride + (i + j) * step]; \
            for (int64_t j = 0; j < n; j++)                                                                     \
                for (int l = 0; l < kLanes; l++) {                                                              \
                    const T x = sum[l], y = part[l][j];                                                         \
                    part[l][j] = sum[l] = (T)(expression);                                                      \
                }                                                                                               \
            for (int l = 0; l < kLanes; l++)                                                                    \
                for (int64_t j = 0; j < n; j++) ((T *)out)[l * lane_stride + (i + j) * step] = part[l][j];      \
        }                                                                                                       \
    }                                                                                                           \
    static void one_##name(const void *in, void *out, int64_t length, int64_t step, const void *init) {         \
        T x;                                                                                                    \
        memcpy(&x, init, sizeof(T));                                                                            \
        const T *from = in;                                                                                     \
        T *to = out;                                                                                            \
        for (int64_t i = 0; i < length; i++, from += step, to += step) {                                        \
            const T y = *from;                                                                                  \
            *to = x = (T)(expression);                                                                          \
        }                                                                                                       \
    }
SCAN_FUNCTIONS(float, add_f32, x + y)
SCAN_FUNCTIONS(float, multiply_f32, x *y)
SCAN_FUNCTIONS(double, add_f64, x + y)
SCAN_FUNCTIONS(double, multiply_f64, x *y)
SCAN_FUNCTIONS(uint32_t, add_u32, x + y)
SCAN_FUNCTIONS(uint32_t, multiply_u32, x *y)
SCAN_FUNCTIONS(uint64_t, add_u64, x + y)
SCAN_FUNCTIONS(uint64_t, multiply_u64, x *y)
// The order of operands lets NaN win: both comparisons are false for it.
SCAN_FUNCTIONS(float, maximum_f32, x != x ? x : y <= x && !(x == 0 && y == 0) ? x : x == 0 && y == 0 ? x + y : y)
SCAN_FUNCTIONS(int32_t, maximum_s32, x > y ? x : y)
SCAN_FUNCTIONS(int32_t, minimum_s32, x < y ? x : y)

typedef struct ScanEntry {
    HloType type;
    CpuReduceOp op;
    LaneScan *lanes;
    OneScan *one;
} ScanEntry;

// Types and ops with functions of their own; all others combine one element at a time with the type's block kernel.
static const ScanEntry kScans[] = {
    {HLO_F32, CPU_REDUCE_ADD, lanes_add_f32, one_add_f32},
    {HLO_F32, CPU_REDUCE_MULTIPLY, lanes_multiply_f32, one_multiply_f32},
    {HLO_F32, CPU_REDUCE_MAXIMUM, lanes_maximum_f32, one_maximum_f32},
    {HLO_F64, CPU_REDUCE_ADD, lanes_add_f64, one_add_f64},
    {HLO_F64, CPU_REDUCE_MULTIPLY, lanes_multiply_f64, one_multiply_f64},
    {HLO_S32, CPU_REDUCE_ADD, lanes_add_u32, one_add_u32},
    {HLO_U32, CPU_REDUCE_ADD, lanes_add_u32, one_add_u32},
    {HLO_S32, CPU_REDUCE_MULTIPLY, lanes_multiply_u32, one_multiply_u32},
    {HLO_U32, CPU_REDUCE_MULTIPLY, lanes_multiply_u32, one_multiply_u32},
    {HLO_S64, CPU_REDUCE_ADD, lanes_add_u64, one_add_u64},
    {HLO_U64, CPU_REDUCE_ADD, lanes_add_u64, one_add_u64},
    {HLO_S64, CPU_REDUCE_MULTIPLY, lanes_multiply_u64, one_multiply_u64},
    {HLO_U64, CPU_REDUCE_MULTIPLY, lanes_multiply_u64, one_multiply_u64},
    {HLO_S32, CPU_REDUCE_MAXIMUM, lanes_maximum_s32, one_maximum_s32},
    {HLO_S32, CPU_REDUCE_MINIMUM, lanes_minimum_s32, one_minimum_s32},
};

typedef struct ScanJob {
    const ScanEntry *entry;
    const CpuScanKernels *sums;  // of f32, else NULL
    CpuBlockKernel *combine;
    int width;
    bool reverse;
    int64_t outer, length, inner;
    int64_t segments;
    const char *init, *identity;
    const char *in;
    char *out;
} ScanJob;

// Scans one row, or a part of one, whose elements are `step` apart; the first is combined with `init`.
static void scan_one(const ScanJob *job, const char *in, char *out, int64_t length, int64_t step, const char *init) {
    if (job->entry) {
        job->entry->one(in, out, length, step, init);
        return;
    }
    const char *sum = init;
    for (int64_t i = 0; i < length; i++) {
        job->combine(out, sum, in, NULL, 1, 0);
        sum = out;
        in += step * job->width;
        out += step * job->width;
    }
}

// Scans as many rows at the same time as a function supports; returns their number.
static int64_t scan_some_rows(const ScanJob *job, int64_t row, int64_t rows) {
    const int64_t start = row * job->length * job->width;
    const int64_t at = start + (job->reverse ? job->length - 1 : 0) * job->width, step = job->reverse ? -1 : 1;
    if (job->sums && rows >= job->sums->rows) {
        job->sums->sums((const float *)(const void *)(job->in + start), (float *)(void *)(job->out + start),
                        job->length, job->reverse, *(const float *)(const void *)job->init);
        return job->sums->rows;
    }
    if (job->entry && rows >= kLanes) {
        job->entry->lanes(job->in + at, job->out + at, job->length, job->length, step, job->init);
        return kLanes;
    }
    scan_one(job, job->in + at, job->out + at, job->length, step, job->init);
    return 1;
}

// Rows along memory: a unit is kUnitRows rows, fewer in the last one.
static void scan_rows_task(void *argument, int64_t begin, int64_t end, int worker) {
    const ScanJob *job = argument;
    const int64_t last = end * kUnitRows < job->outer ? end * kUnitRows : job->outer;
    (void)worker;
    for (int64_t row = begin * kUnitRows; row < last;) row += scan_some_rows(job, row, last - row);
}

// Columns: a unit is a block of neighbouring columns of one outer index.
static void scan_columns_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ScanJob *job = argument;
    const int64_t blocks = hlo_divide_up(job->inner, kColumnBlock);
    _Alignas(64) char first[kColumnBlock * 16];
    (void)worker;
    for (int i = 0; i < kColumnBlock; i++) memcpy(first + i * job->width, job->init, (size_t)job->width);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t column = unit % blocks * kColumnBlock;
        const int64_t n = job->inner - column < kColumnBlock ? job->inner - column : kColumnBlock;
        const char *before = first;
        for (int64_t i = 0; i < job->length; i++) {
            const int64_t row = unit / blocks * job->length + (job->reverse ? job->length - 1 - i : i);
            const int64_t at = (row * job->inner + column) * job->width;
            job->combine(job->out + at, before, job->in + at, NULL, n, 0);
            before = job->out + at;
        }
    }
}

// ---- one long row: segments are scanned separately, then each is shifted by the total before it

// Returns the range of a segment in scanning order, from the start of the scan.
static void segment_range(const ScanJob *job, int64_t segment, int64_t *begin, int64_t *length) {
    *begin = segment * kSegment;
    *length = job->length - *begin < kSegment ? job->length - *begin : kSegment;
}

// Returns the address of the i-th element in scanning order of a row.
static int64_t scan_offset(const ScanJob *job, int64_t row, int64_t i) {
    return (row * job->length + (job->reverse ? job->length - 1 - i : i)) * job->width;
}

static void segment_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ScanJob *job = argument;
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t start, length;
        segment_range(job, unit % job->segments, &start, &length);
        const int64_t at = scan_offset(job, unit / job->segments, start);
        scan_one(job, job->in + at, job->out + at, length, job->reverse ? -1 : 1,
                 unit % job->segments ? job->identity : job->init);
    }
}

// Adds the last element of the previous segment, which is final by then: segments in order, elements in parallel.
typedef struct ShiftJob {
    const ScanJob *scan;
    const char *carry;
    int64_t at, length;
} ShiftJob;

static void shift_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ShiftJob *shift = argument;
    const ScanJob *job = shift->scan;
    _Alignas(64) char carry[kColumnBlock * 16];
    (void)worker;
    for (int i = 0; i < kColumnBlock; i++) memcpy(carry + i * job->width, shift->carry, (size_t)job->width);
    for (int64_t i = begin; i < end; i += kColumnBlock) {
        const int64_t n = end - i < kColumnBlock ? end - i : kColumnBlock;
        char *part = job->out + shift->at + i * job->width;
        job->combine(part, carry, part, NULL, n, 0);
    }
}

// Totals are final from left to right: segment s is shifted when s - 1 has been.
static void scan_long_rows(CpuPool *pool, ScanJob *job) {
    job->segments = hlo_divide_up(job->length, kSegment);
    cpu_pool_parallel_for_grain(pool, job->outer * job->segments, 1, segment_task, job);
    for (int64_t row = 0; row < job->outer; row++)
        for (int64_t s = 1; s < job->segments; s++) {
            char carry[16];
            int64_t start, length;
            segment_range(job, s, &start, &length);
            memcpy(carry, job->out + scan_offset(job, row, start - 1), (size_t)job->width);
            const int64_t at = scan_offset(job, row, job->reverse ? start + length - 1 : start);
            ShiftJob shift = {job, carry, at, length};
            cpu_pool_parallel_for_grain(pool, length, kSegment / 4, shift_task, &shift);
        }
}

// Chooses by the shape: columns, one long row, or many rows.
static void run_scan(CpuPool *pool, ScanJob *job) {
    const int64_t total = job->outer * job->length * job->inner;
    CpuPool *use = total < 32768 ? NULL : pool;
    if (job->inner > 1) {
        const int64_t blocks = hlo_divide_up(job->inner, kColumnBlock);
        cpu_pool_parallel_for_grain(use, job->outer * blocks, 1, scan_columns_task, job);
    } else if (job->outer < kLanes && job->length > 2 * kSegment)
        scan_long_rows(pool, job);
    else
        cpu_pool_parallel_for_grain(use, hlo_divide_up(job->outer, kUnitRows), 1, scan_rows_task, job);
}

// Returns NULL if elements are combined one at a time.
static const ScanEntry *find_entry(HloType type, CpuReduceOp op) {
    for (size_t i = 0; i < HLO_COUNT_OF(kScans); i++)
        if (kScans[i].type == type && kScans[i].op == op) return &kScans[i];
    return NULL;
}

// Scans along the middle of (outer, length, inner). Narrow floats are scanned in f32 and rounded at the end, as in
// reductions.
HloStatus cpu_scan(CpuPool *pool, HloType type, CpuReduceOp op, bool reverse, int64_t outer, int64_t length,
                   int64_t inner, const void *init, void *out, const void *in) {
    const CpuLoopKernels *kernels = cpu_isa_loop_kernels(cpu_pool_features(pool));
    const bool widened = cpu_is_widened(kernels, type);
    const int64_t total = outer * length * inner;
    _Alignas(16) char register_init[16], identity[16];
    ScanJob job = {.combine = cpu_pair_kernel(kernels, type, op),
                   .width = cpu_register_form_bytes(type),
                   .reverse = reverse,
                   .outer = outer,
                   .length = length,
                   .inner = inner,
                   .init = register_init,
                   .identity = identity,
                   .in = in,
                   .out = out};
    assert(job.combine); /* lowering checks that type and operation are built in */
    if (total == 0) return HLO_SUCCESS;
    job.entry = find_entry(widened ? HLO_F32 : type, op);
    if (job.entry && job.entry->type == HLO_F32 && op == CPU_REDUCE_ADD)
        job.sums = cpu_isa_scan_kernels(cpu_pool_features(pool));
    cpu_widen(kernels, type, register_init, init, 1);
    kernels->reduce[op][cpu_register_of(type)](identity, register_init, 1, 0);
    char *wide = NULL;
    if (widened) {
        wide = cpu_pool_scratch_take(pool, hlo_array_bytes((size_t)total, sizeof(float)));
        HLO_FAIL_IF(!wide, HLO_RESOURCE_EXHAUSTED, "no memory to scan %lld elements", (long long)total);
        cpu_widen(kernels, type, wide, in, total);
        job.in = job.out = wide;
    }
    run_scan(pool, &job);
    if (widened || kernels->wrap[type]) cpu_narrow(kernels, type, out, job.out, total);
    cpu_pool_scratch_give(pool, wide);
    return HLO_SUCCESS;
}
