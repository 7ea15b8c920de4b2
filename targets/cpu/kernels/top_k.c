// SPDX-License-Identifier: Apache-2.0
// Top-k and arg-max: operations that need only a part of an order.
//
// Top-k of few keeps the k best in a sorted list and reads the row in blocks. The best element of a block, which a
// vector reduction finds, mostly shows that the block contains none of the k best, so that a row costs little more than
// one reduction. Ties are won by the earlier element, since a candidate is inserted after its equals. For many
// (kInsertionLimit) the whole row is sorted.
//
//     k = 2, row 3 9 1 7 | 4 2 5 6 | 8 0 ...     best 9 7 after the first block
//     block 2: its largest is 6, not better than 7: skipped;  block 3: 8 is, and replaces 7
//
// Arg-max runs along rows (isa/loop_arg.inc), or down columns with the best of each so far. A NaN wins over every
// number, and the first one stays. Elements of narrow float types are decoded first; the returned value is the stored
// one.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/element/element.h"
#include "targets/cpu/kernels/sort.h"
#include "targets/cpu/kernels/sort_keys.h"

// ---- top-k

typedef struct TopKJob {
    HloType type;
    const CpuLoopKernels *kernels;
    int64_t length, k;
    bool largest;
    CpuSortOrder order;
    CpuReduceKernel
        *best_value;  // the best element of a block; NULL for types whose register form differs from the stored one
    char *values;
    int32_t *positions;
    const char *input;
    char *scratch;
    size_t scratch_each;
} TopKJob;

typedef struct Candidate {
    uint64_t key;  // smaller is better
    int32_t position;
} Candidate;

// Inserts a candidate into the sorted first `count`, after its equals.
static int64_t insert_candidate(Candidate *best, int64_t count, int64_t k, Candidate candidate) {
    int64_t at = count < k ? count : k - 1;
    for (; at > 0 && best[at - 1].key > candidate.key; at--) best[at] = best[at - 1];
    best[at] = candidate;
    return count < k ? count + 1 : k;
}

enum { kKeyBlock = 128, kSkippedBlock = 2048 };

static uint64_t key_at(const uint64_t *keys, bool wide, int64_t i) {
    return wide ? keys[i] : ((const uint32_t *)keys)[i];
}

// True if no element of the block can be among the best: its best element, found by one vector reduction, is not better
// than the worst of them. The reduction uses the total order unless it yields a NaN, which decides nothing.
static bool can_skip(const TopKJob *job, const char *block, int64_t n, bool wide, const Candidate *worst) {
    uint64_t best_value, key = 0;
    bool invertible;
    if (!worst || !job->best_value) return false;
    assert(n > 0);  // the block has a best element
    job->best_value(&best_value, block, 1, n);
    if (job->type == HLO_F32) {
        float value;
        memcpy(&value, &best_value, sizeof value);
        if (value != value) return false;
    } else if (job->type == HLO_F64) {
        double value;
        memcpy(&value, &best_value, sizeof value);
        if (value != value) return false;
    }
    cpu_sort_make_keys(job->kernels, job->type, job->order, job->largest, &key, &best_value, 1, 1, &invertible);
    return key_at(&key, wide, 0) >= worst->key;
}

// Inserts the elements [at, at + n) into the best; returns the number of these.
static int64_t take_block(const TopKJob *job, const char *row, int64_t at, int64_t n, Candidate *best, int64_t count) {
    uint64_t keys[kKeyBlock];
    const int width = hlo_type_bytes(job->type);
    const bool wide = cpu_sort_key_bits(job->type) == 64;
    bool invertible;
    if (can_skip(job, row + at * width, n, wide, count < job->k ? NULL : &best[job->k - 1])) return count;
    for (int64_t part = 0; part < n && n > kKeyBlock; part += kKeyBlock)
        count = take_block(job, row, at + part, n - part < kKeyBlock ? n - part : kKeyBlock, best, count);
    if (n > kKeyBlock) return count;
    cpu_sort_make_keys(job->kernels, job->type, job->order, job->largest, keys, row + at * width, 1, n, &invertible);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = key_at(keys, wide, i);
        if (count < job->k || key < best[job->k - 1].key)
            count = insert_candidate(best, count, job->k, (Candidate){key, (int32_t)(at + i)});
    }
    return count;
}

// Most blocks of a long row contain none of the best, which their best element, found by a vector reduction, shows.
static void top_k_row(const TopKJob *job, int64_t row, Candidate *best) {
    const int width = hlo_type_bytes(job->type);
    const char *input = job->input + row * job->length * width;
    int64_t count = 0;
    for (int64_t at = 0; at < job->length; at += kSkippedBlock)
        count = take_block(job, input, at, job->length - at < kSkippedBlock ? job->length - at : kSkippedBlock, best,
                           count);
    assert(count == job->k);  // k is at most the row's length
    for (int64_t i = 0; i < job->k; i++) {
        if (job->positions) job->positions[row * job->k + i] = best[i].position;
        if (job->values)
            memcpy(job->values + (row * job->k + i) * width, input + best[i].position * width, (size_t)width);
    }
}

// Processes rows [begin, end), with this worker's list of candidates.
static void top_k_task(void *argument, int64_t begin, int64_t end, int worker) {
    const TopKJob *job = argument;
    Candidate *best = (Candidate *)(void *)(job->scratch + (size_t)worker * job->scratch_each);
    for (int64_t row = begin; row < end; row++) top_k_row(job, row, best);
}

// Sorts the whole row, with an iota beside it, if many of its elements are needed.
static HloStatus top_k_by_sorting(CpuPool *pool, const TopKJob *job, int64_t rows) {
    const int width = hlo_type_bytes(job->type);
    const int64_t total = rows * job->length;
    char *sorted = cpu_pool_scratch_take(pool, hlo_array_bytes((size_t)total, (size_t)width + 4));
    HLO_FAIL_IF(!sorted, HLO_RESOURCE_EXHAUSTED, "no memory to select %lld of %lld", (long long)job->k,
                (long long)job->length);
    int32_t *positions = (int32_t *)(void *)(sorted + ((total * width + 3) / 4) * 4);
    for (int64_t i = 0; i < total; i++) positions[i] = (int32_t)(i % job->length);
    const HloType types[2] = {job->type, HLO_S32};
    const CpuSortKey key = {.operand = 0, .descending = job->largest, .order = job->order};
    const CpuSort sort = {
        .outer = rows, .length = job->length, .inner = 1, .count = 2, .types = types, .key_count = 1, .keys = &key};
    void *outs[2] = {sorted, positions};
    const void *ins[2] = {job->input, positions};
    const HloStatus status = cpu_sort(pool, &sort, outs, ins);
    for (int64_t r = 0; r < rows && !status; r++) {
        if (job->values)
            memcpy(job->values + r * job->k * width, sorted + r * job->length * width, (size_t)(job->k * width));
        if (job->positions) memcpy(job->positions + r * job->k, positions + r * job->length, (size_t)job->k * 4);
    }
    cpu_pool_scratch_give(pool, sorted);
    return status;
}

// Insertion is fastest for few, since one comparison rejects nearly all elements; for many, sorting is faster. Both
// keep equal elements in the order of their positions.
HloStatus cpu_top_k_in_order(CpuPool *pool, HloType type, CpuSortOrder order, int64_t rows, int64_t length, int64_t k,
                             bool largest, void *values, int32_t *positions, const void *input) {
    enum { kInsertionLimit = 128 };
    assert(cpu_sort_has_keys(type) && k >= 0 && k <= length && length <= INT32_MAX); /* lowering checks */
    if (rows == 0 || k == 0) return HLO_SUCCESS;
    TopKJob job = {.type = type,
                   .kernels = cpu_isa_loop_kernels(cpu_pool_features(pool)),
                   .length = length,
                   .k = k,
                   .largest = largest,
                   .order = order,
                   .values = values,
                   .positions = positions,
                   .input = input};
    if (k > kInsertionLimit) return top_k_by_sorting(pool, &job, rows);
    if (!job.kernels->decode[type] && !job.kernels->wrap[type])
        job.best_value = job.kernels->reduce[largest ? CPU_REDUCE_MAXIMUM : CPU_REDUCE_MINIMUM][cpu_register_of(type)];
    job.scratch_each = (sizeof(Candidate) * (size_t)k + 63) / 64 * 64;
    job.scratch = cpu_pool_scratch_take(pool, job.scratch_each * (size_t)cpu_pool_worker_count(pool));
    HLO_FAIL_IF(!job.scratch, HLO_RESOURCE_EXHAUSTED, "no memory for the best %lld", (long long)k);
    cpu_pool_parallel_for_grain(rows * length < 16384 ? NULL : pool, rows, 1, top_k_task, &job);
    cpu_pool_scratch_give(pool, job.scratch);
    return HLO_SUCCESS;
}

HloStatus cpu_top_k(CpuPool *pool, HloType type, int64_t rows, int64_t length, int64_t k, bool largest, void *values,
                    int32_t *positions, const void *input) {
    return cpu_top_k_in_order(pool, type, CPU_SORT_TOTAL, rows, length, k, largest, values, positions, input);
}

// ---- arg-max

typedef struct ArgJob {
    HloType type, position_type;
    const CpuLoopKernels *kernels;
    CpuRegisterType register_type;
    bool largest;
    int64_t length, inner;
    char *values, *positions;
    const char *input;
} ArgJob;

// Stores the position in s32 or s64 width; signedness does not matter below 2^31.
static void put_position(const ArgJob *job, int64_t at, int64_t position) {
    if (hlo_type_bytes(job->position_type) == 8)
        ((int64_t *)(void *)job->positions)[at] = position;
    else
        ((int32_t *)(void *)job->positions)[at] = (int32_t)position;
}

// Finds the position in a row of a narrow float, decoded in chunks. As in the kernels, a NaN wins over numbers, and the
// first of the best stays.
static int64_t narrow_place(const ArgJob *job, const char *in) {
    enum { kChunk = 4096 };
    const int width = hlo_type_bytes(job->type);
    float decoded[kChunk], best = 0;
    int64_t position = -1;
    for (int64_t at = 0; at < job->length; at += kChunk) {
        const int64_t n = job->length - at < kChunk ? job->length - at : kChunk;
        job->kernels->decode[job->type](decoded, in + at * width, NULL, NULL, n, 0);
        const int64_t place = job->kernels->arg[job->largest][job->register_type](decoded, n);
        const float found = decoded[place];
        if (position < 0 || isnan(found) || (job->largest ? found > best : found < best))
            best = found, position = at + place;
        if (isnan(found)) break;
    }
    return position;
}

// Rows along memory.
static void arg_rows_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ArgJob *job = argument;
    const int width = hlo_type_bytes(job->type);
    CpuArgKernel *kernel = job->kernels->arg[job->largest][job->register_type];
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        const char *in = job->input + row * job->length * width;
        const int64_t position = job->kernels->decode[job->type] ? narrow_place(job, in) : kernel(in, job->length);
        put_position(job, row, position);
        if (job->values) memcpy(job->values + row * width, in + position * width, (size_t)width);
    }
}

// Processes blocks of neighbouring columns, row after row. `x` is the new element, `y` the best so far.
#define COLUMN_FUNCTION(T, S)                                                                              \
    static void columns_##S(const T *in, int64_t stride, int64_t length, int64_t n, bool largest, T *best, \
                            int32_t *position) {                                                           \
        memcpy(best, in, sizeof(T) * (size_t)n);                                                           \
        memset(position, 0, sizeof(int32_t) * (size_t)n);                                                  \
        for (int64_t r = 1; r < length; r++)                                                               \
            for (int64_t i = 0; i < n; i++) {                                                              \
                const T x = in[r * stride + i], y = best[i];                                               \
                const int wins = ((largest ? x > y : x < y) || x != x) && y == y;                          \
                best[i] = wins ? x : y;                                                                    \
                position[i] = wins ? (int32_t)r : position[i];                                             \
            }                                                                                              \
    }
COLUMN_FUNCTION(int8_t, s8)
COLUMN_FUNCTION(int16_t, s16)
COLUMN_FUNCTION(int32_t, s32)
COLUMN_FUNCTION(int64_t, s64)
COLUMN_FUNCTION(uint8_t, u8)
COLUMN_FUNCTION(uint16_t, u16)
COLUMN_FUNCTION(uint32_t, u32)
COLUMN_FUNCTION(uint64_t, u64)
COLUMN_FUNCTION(float, f32)
COLUMN_FUNCTION(double, f64)

// Each type has its own loop, which compilers vectorise.
static void run_columns(CpuRegisterType register_type, const void *in, int64_t stride, int64_t length, int64_t n,
                        bool largest, void *best, int32_t *position) {
    switch (register_type) {
#define REGISTER_CASE(NAME, S) \
    case CPU_REGISTER_##NAME: columns_##S(in, stride, length, n, largest, best, position); break;
        REGISTER_CASE(S8, s8)
        REGISTER_CASE(S16, s16)
        REGISTER_CASE(S32, s32)
        REGISTER_CASE(S64, s64)
        REGISTER_CASE(U16, u16)
        REGISTER_CASE(U32, u32)
        REGISTER_CASE(U64, u64)
        REGISTER_CASE(F32, f32)
        REGISTER_CASE(F64, f64)
#undef REGISTER_CASE
        default: columns_u8(in, stride, length, n, largest, best, position); break;
    }
}

enum { kColumnBlock = 256 };

// Processes a column block of a narrow float, decoded row by row. As in the functions above, a NaN wins over numbers,
// and the first one stays.
static void narrow_columns(const ArgJob *job, const char *in, int64_t n, int32_t *position) {
    float best[kColumnBlock], row[kColumnBlock];
    const int width = hlo_type_bytes(job->type);
    job->kernels->decode[job->type](best, in, NULL, NULL, n, 0);
    memset(position, 0, sizeof(int32_t) * (size_t)n);
    for (int64_t r = 1; r < job->length; r++) {
        job->kernels->decode[job->type](row, in + r * job->inner * width, NULL, NULL, n, 0);
        for (int64_t i = 0; i < n; i++) {
            const int wins =
                ((job->largest ? row[i] > best[i] : row[i] < best[i]) || row[i] != row[i]) && best[i] == best[i];
            best[i] = wins ? row[i] : best[i];
            position[i] = wins ? (int32_t)r : position[i];
        }
    }
}

// Writes the results of a block of columns from number `first` on. `best` are the elements found, NULL where they are
// to be looked up in `in`.
static void put_block(const ArgJob *job, int64_t first, int64_t n, const int32_t *position, const char *in,
                      const void *best) {
    const int width = hlo_type_bytes(job->type);
    if (hlo_type_bytes(job->position_type) == 4)
        memcpy(job->positions + first * 4, position, (size_t)n * sizeof *position);
    else
        for (int64_t i = 0; i < n; i++) put_position(job, first + i, position[i]);
    if (!job->values) return;
    if (best && cpu_register_bytes(job->register_type) == width)
        memcpy(job->values + first * width, best, (size_t)(n * width));
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(job->values + (first + i) * width, in + (position[i] * job->inner + i) * width, (size_t)width);
}

// A unit is a block of neighbouring columns.
static void arg_columns_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ArgJob *job = argument;
    const int width = hlo_type_bytes(job->type);
    const int64_t blocks = hlo_divide_up(job->inner, kColumnBlock);
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t outer = unit / blocks, column = unit % blocks * kColumnBlock;
        const int64_t n = job->inner - column < kColumnBlock ? job->inner - column : kColumnBlock;
        const char *in = job->input + (outer * job->length * job->inner + column) * width;
        _Alignas(64) unsigned char best[kColumnBlock * 8];
        int32_t position[kColumnBlock];
        if (job->kernels->decode[job->type])
            narrow_columns(job, in, n, position);
        else
            run_columns(job->register_type, in, job->inner, job->length, n, job->largest, best, position);
        put_block(job, outer * job->inner + column, n, position, in, job->kernels->decode[job->type] ? NULL : best);
    }
}

// Finds the largest or smallest element of each row along the middle dimension, and its first position. Contiguous rows
// are reduced one by one, columns a block of neighbours at a time.
HloStatus cpu_argminmax(CpuPool *pool, HloType type, bool largest, int64_t outer, int64_t length, int64_t inner,
                        HloType position_type, void *values, void *positions, const void *input) {
    assert(cpu_sort_has_keys(type) && length >= 1 && length <= INT32_MAX);            /* lowering checks */
    assert(hlo_type_bytes(position_type) >= 4 && hlo_type_is_integer(position_type)); /* as above */
    if (outer * inner == 0) return HLO_SUCCESS;
    ArgJob job = {.type = type,
                  .position_type = position_type,
                  .kernels = cpu_isa_loop_kernels(cpu_pool_features(pool)),
                  .register_type = cpu_register_of(type),
                  .largest = largest,
                  .length = length,
                  .inner = inner,
                  .values = values,
                  .positions = positions,
                  .input = input};
    const bool rows = inner == 1;
    const int64_t units = rows ? outer : outer * hlo_divide_up(inner, kColumnBlock);
    const int64_t each = length * (rows ? 1 : inner < kColumnBlock ? inner : kColumnBlock);
    cpu_pool_parallel_for_grain(units * each < 32768 ? NULL : pool, units, 8192 / each + 1,
                                rows ? arg_rows_task : arg_columns_task, &job);
    return HLO_SUCCESS;
}
