// SPDX-License-Identifier: Apache-2.0
// Sorting. A stable sort has only one correct result, so rows may be divided among workers in any way.
//
// Elements become keys: unsigned integers that have the order of the elements (sort_keys.h), with the element's number
// beside each unless the key determines the element. Keys are sorted, then every operand is rearranged once by the
// numbers. Several keys are sorted one after the other, the least significant first, which a stable sort allows.
//
//     short rows   merge sort from runs of 16, each by insertion
//     long rows    radix sort by bytes, from the lowest; bytes that are equal in all keys are skipped
//     one row on many workers   each sorts a part, then passes of merges in which every worker has an equal slice
//     comparators without keys  a merge sort that calls the program's computation; it ends whatever that returns
//
//     merge of a = 1 4 9 and b = 2 3 8, the second of three slices: 3 and 4
//     merge_split_##S() finds by bisection that of the first 2 results one comes from a and one from b
//
// Scratch of a worker, for n elements rounded up to 16: [keys 8n][spare 8n][numbers 4n][spare 4n][one row of the widest
// operand].
#include "targets/cpu/kernels/sort.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/element/element.h"
#include "targets/cpu/kernels/sort_keys.h"

enum { kRadixBits = 8, kBuckets = 1 << kRadixBits, kSmallRow = 256, kParallelRow = 32768, kMaximumParts = 64 };

// ---- serial sorts of keys

// Stable sort of n keys and, if given, of the indices that belong to them. The spare arrays have the same length.
#define KEY_SORT(K, S)                                                                                              \
    static void insertion_##S(K *keys, uint32_t *index, int64_t n) {                                                \
        for (int64_t i = 1; i < n; i++) {                                                                           \
            const K key = keys[i];                                                                                  \
            const uint32_t place = index ? index[i] : 0;                                                            \
            int64_t j = i;                                                                                          \
            for (; j > 0 && keys[j - 1] > key; j--) {                                                               \
                keys[j] = keys[j - 1];                                                                              \
                if (index) index[j] = index[j - 1];                                                                 \
            }                                                                                                       \
            keys[j] = key;                                                                                          \
            if (index) index[j] = place;                                                                            \
        }                                                                                                           \
    }                                                                                                               \
    /* Merges a[0..na) and b[0..nb) into out; equal keys come from a first. */                                      \
    static void merge_##S(const K *a, const uint32_t *ia, int64_t na, const K *b, const uint32_t *ib, int64_t nb,   \
                          K *out, uint32_t *iout) {                                                                 \
        int64_t i = 0, j = 0;                                                                                       \
        while (i < na && j < nb) {                                                                                  \
            const int second = b[j] < a[i];                                                                         \
            if (iout) iout[i + j] = second ? ib[j] : ia[i];                                                         \
            out[i + j] = second ? b[j] : a[i];                                                                      \
            j += second;                                                                                            \
            i += !second;                                                                                           \
        }                                                                                                           \
        memcpy(out + i + j, a + i, sizeof(K) * (size_t)(na - i));                                                   \
        if (iout) memcpy(iout + i + j, ia + i, sizeof(uint32_t) * (size_t)(na - i));                                \
        i = na;                                                                                                     \
        memcpy(out + i + j, b + j, sizeof(K) * (size_t)(nb - j));                                                   \
        if (iout) memcpy(iout + i + j, ib + j, sizeof(uint32_t) * (size_t)(nb - j));                                \
    }                                                                                                               \
    static void merge_sort_##S(K *keys, uint32_t *index, K *spare, uint32_t *spare_index, int64_t n) {              \
        enum { kRun = 16 };                                                                                         \
        for (int64_t i = 0; i < n; i += kRun)                                                                       \
            insertion_##S(keys + i, index ? index + i : NULL, n - i < kRun ? n - i : kRun);                         \
        for (int64_t width = kRun; width < n; width *= 2) {                                                         \
            for (int64_t i = 0; i < n; i += 2 * width) {                                                            \
                const int64_t na = n - i < width ? n - i : width;                                                   \
                const int64_t nb = n - i - na < width ? n - i - na : width;                                         \
                merge_##S(keys + i, index ? index + i : NULL, na, keys + i + na, index ? index + i + na : NULL, nb, \
                          spare + i, index ? spare_index + i : NULL);                                               \
            }                                                                                                       \
            memcpy(keys, spare, sizeof(K) * (size_t)n);                                                             \
            if (index) memcpy(index, spare_index, sizeof(uint32_t) * (size_t)n);                                    \
        }                                                                                                           \
    }                                                                                                               \
    static void radix_pass_##S(const K *keys, const uint32_t *index, K *out, uint32_t *iout, int64_t n, int shift,  \
                               const uint32_t *count) {                                                             \
        uint32_t at[kBuckets], next = 0;                                                                            \
        for (int i = 0; i < kBuckets; i++) at[i] = next, next += count[i];                                          \
        if (!index) {                                                                                               \
            for (int64_t i = 0; i < n; i++) out[at[keys[i] >> shift & (kBuckets - 1)]++] = keys[i];                 \
            return;                                                                                                 \
        }                                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                           \
            const uint32_t to = at[keys[i] >> shift & (kBuckets - 1)]++;                                            \
            out[to] = keys[i];                                                                                      \
            iout[to] = index[i];                                                                                    \
        }                                                                                                           \
    }                                                                                                               \
    static void radix_sort_##S(K *keys, uint32_t *index, K *spare, uint32_t *spare_index, int64_t n) {              \
        uint32_t count[sizeof(K)][kBuckets];                                                                        \
        memset(count, 0, sizeof count);                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                             \
            for (size_t d = 0; d < sizeof(K); d++) count[d][keys[i] >> (d * kRadixBits) & (kBuckets - 1)]++;        \
        K *from = keys, *to = spare;                                                                                \
        uint32_t *ifrom = index, *ito = spare_index;                                                                \
        for (size_t d = 0; d < sizeof(K); d++) {                                                                    \
            const int shift = (int)d * kRadixBits;                                                                  \
            if (count[d][from[0] >> shift & (kBuckets - 1)] == (uint32_t)n) continue; /* all in one bucket */       \
            radix_pass_##S(from, ifrom, to, ito, n, shift, count[d]);                                               \
            K *swap = from;                                                                                         \
            from = to, to = swap;                                                                                   \
            uint32_t *iswap = ifrom;                                                                                \
            ifrom = ito, ito = iswap;                                                                               \
        }                                                                                                           \
        if (from == keys) return;                                                                                   \
        memcpy(keys, from, sizeof(K) * (size_t)n);                                                                  \
        if (index) memcpy(index, ifrom, sizeof(uint32_t) * (size_t)n);                                              \
    }                                                                                                               \
    static void sort_keys_##S(K *keys, uint32_t *index, K *spare, uint32_t *spare_index, int64_t n) {               \
        if (n <= kSmallRow)                                                                                         \
            merge_sort_##S(keys, index, spare, spare_index, n);                                                     \
        else                                                                                                        \
            radix_sort_##S(keys, index, spare, spare_index, n);                                                     \
    }                                                                                                               \
    /* How many of the first `at` merged elements come from a. */                                                   \
    static int64_t merge_split_##S(const K *a, int64_t na, const K *b, int64_t nb, int64_t at) {                    \
        int64_t low = at > nb ? at - nb : 0, high = at < na ? at : na;                                              \
        while (low < high) {                                                                                        \
            const int64_t i = low + (high - low) / 2, j = at - i;                                                   \
            if (j > 0 && b[j - 1] >= a[i])                                                                          \
                low = i + 1;                                                                                        \
            else                                                                                                    \
                high = i;                                                                                           \
        }                                                                                                           \
        return low;                                                                                                 \
    }
KEY_SORT(uint32_t, 32)
KEY_SORT(uint64_t, 64)

// ---- one long row on several workers: sorted parts, then passes of merges

typedef struct LongRow {
    int bits;
    int64_t n, parts, width;  // width: elements of the runs being merged
    char *keys, *spare;
    uint32_t *index, *spare_index;
} LongRow;

// Returns the start of a part. Parts differ by one element at most.
static int64_t part_start(const LongRow *row, int64_t part) {
    return row->n * part / row->parts;
}

// NULL stays NULL, for rows without numbers.
static uint32_t *offset_index(uint32_t *index, int64_t by) {
    return index ? index + by : NULL;
}

static void sort_part_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const LongRow *row = argument;
    (void)worker;
    for (int64_t part = begin; part < end; part++) {
        const int64_t at = part_start(row, part), n = part_start(row, part + 1) - at;
        uint32_t *index = offset_index(row->index, at), *spare = offset_index(row->spare_index, at);
        if (row->bits == 32)
            sort_keys_32((uint32_t *)(void *)row->keys + at, index, (uint32_t *)(void *)row->spare + at, spare, n);
        else
            sort_keys_64((uint64_t *)(void *)row->keys + at, index, (uint64_t *)(void *)row->spare + at, spare, n);
    }
}

// Merges output range `slice` of `parts` of one pair of runs (row->width parts each).
#define MERGE_SLICE(K, S)                                                                                   \
    static void merge_slice_##S(const LongRow *row, int64_t pair, int64_t slice, int64_t slices) {          \
        const int64_t first = pair * 2 * row->width;                                                        \
        const int64_t middle_part = first + row->width < row->parts ? first + row->width : row->parts;      \
        const int64_t end_part = first + 2 * row->width < row->parts ? first + 2 * row->width : row->parts; \
        const int64_t at = part_start(row, first), middle = part_start(row, middle_part),                   \
                      end = part_start(row, end_part);                                                      \
        const K *a = (const K *)(void *)row->keys + at, *b = (const K *)(void *)row->keys + middle;         \
        const int64_t na = middle - at, nb = end - middle;                                                  \
        const int64_t from = (na + nb) * slice / slices, to = (na + nb) * (slice + 1) / slices;             \
        const int64_t i0 = merge_split_##S(a, na, b, nb, from), i1 = merge_split_##S(a, na, b, nb, to);     \
        merge_##S(a + i0, offset_index(row->index, at + i0), i1 - i0, b + from - i0,                        \
                  offset_index(row->index, middle + from - i0), (to - i1) - (from - i0),                    \
                  (K *)(void *)row->spare + at + from, offset_index(row->spare_index, at + from));          \
    }
MERGE_SLICE(uint32_t, 32)
MERGE_SLICE(uint64_t, 64)

// A unit is pair * parts + slice.
static void merge_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const LongRow *row = argument;
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        if (row->bits == 32)
            merge_slice_32(row, unit / row->parts, unit % row->parts, row->parts);
        else
            merge_slice_64(row, unit / row->parts, unit % row->parts, row->parts);
    }
}

// Each worker sorts its part, then runs are merged in pairs. In each pass every worker has an equal slice of the
// output: merge_split_##S() finds by bisection where a slice begins in both runs, so even the last merge of two halves
// keeps all workers busy.
static void sort_long_row(CpuPool *pool, LongRow *row) {
    const int workers = cpu_pool_worker_count(pool);
    row->parts = workers < kMaximumParts ? workers : kMaximumParts;
    cpu_pool_parallel_for_grain(pool, row->parts, 1, sort_part_task, row);
    for (row->width = 1; row->width < row->parts; row->width *= 2) {
        const int64_t pairs = (row->parts + 2 * row->width - 1) / (2 * row->width);
        cpu_pool_parallel_for_grain(pool, pairs * row->parts, 1, merge_task, row);
        char *swap = row->keys;
        row->keys = row->spare, row->spare = swap;
        uint32_t *iswap = row->index;
        row->index = row->spare_index, row->spare_index = iswap;
    }
}

// ---- rows

typedef struct SortJob {
    const CpuSort *sort;
    const CpuLoopKernels *kernels;
    CpuPool *pool;  // for long rows; NULL if workers share the rows
    void *const *outputs;
    const void *const *inputs;
    char *scratch;
    size_t scratch_each;
    bool keys_only;
    int widest;
} SortJob;

// Returns the address of element i of the row that begins at `base`.
static const char *element_address(const CpuSort *s, const void *array, int operand, int64_t base, int64_t i) {
    return (const char *)array + (base + i * s->inner) * hlo_type_bytes(s->types[operand]);
}

// Rearranges one row of every operand; `line` holds a row of the widest type. Only keys and numbers are sorted; the
// operands, which may be wide or many, move once, at the end.
static void apply_permutation(const SortJob *job, int64_t base, const uint32_t *index, char *line) {
    const CpuSort *s = job->sort;
    for (int o = 0; o < s->count; o++) {
        const int width = hlo_type_bytes(s->types[o]);
        const char *in = element_address(s, job->inputs[o], o, base, 0);
        char *out = (char *)job->outputs[o] + base * width;
        const int64_t step = s->inner * width;
        switch (width) {
#define PERMUTE_CASE(T)                                                                \
    case sizeof(T):                                                                    \
        for (int64_t i = 0; i < s->length; i++)                                        \
            ((T *)(void *)line)[i] = *(const T *)(const void *)(in + index[i] * step); \
        break;
            PERMUTE_CASE(uint8_t)
            PERMUTE_CASE(uint16_t)
            PERMUTE_CASE(uint32_t)
            PERMUTE_CASE(uint64_t)
#undef PERMUTE_CASE
            default:
                for (int64_t i = 0; i < s->length; i++) memcpy(line + i * width, in + index[i] * step, (size_t)width);
        }
        if (s->inner == 1)
            memcpy(out, line, (size_t)(s->length * width));
        else
            for (int64_t i = 0; i < s->length; i++) memcpy(out + i * step, line + i * width, (size_t)width);
    }
}

// Sorts stably; afterwards `row` points to the sorted keys and numbers.
static void sort_row_of_keys(const SortJob *job, LongRow *row) {
    if (job->pool)
        sort_long_row(job->pool, row);
    else {
        row->parts = 1;
        sort_part_task(row, 0, 1, 0);
    }
}

// The parts of a worker's scratch memory.
typedef struct RowMemory {
    char *keys, *spare, *line;
    uint32_t *index, *spare_index;
} RowMemory;

static RowMemory row_memory(const SortJob *job, int worker) {
    char *at = job->scratch + (size_t)worker * job->scratch_each;
    const size_t n = ((size_t)job->sort->length + 15) / 16 * 16;
    return (RowMemory){.keys = at,
                       .spare = at + 8 * n,
                       .index = (uint32_t *)(void *)(at + 16 * n),
                       .spare_index = (uint32_t *)(void *)(at + 20 * n),
                       .line = at + 24 * n};
}

// Sorts one row. One operand with one key that determines the element needs no numbers: sorted keys are converted back
// to elements.
static void sort_one_row(const SortJob *job, int64_t base, int worker) {
    const CpuSort *s = job->sort;
    const RowMemory m = row_memory(job, worker);
    bool invertible;
    LongRow row = {.n = s->length, .keys = m.keys, .spare = m.spare, .index = m.index, .spare_index = m.spare_index};
    for (int64_t i = 0; i < s->length; i++) m.index[i] = (uint32_t)i;
    // The least significant key first: each stable sort preserves the order of the previous ones.
    for (int k = s->key_count - 1; k >= 0; k--) {
        const CpuSortKey *key = &s->keys[k];
        const HloType type = s->types[key->operand];
        row.bits = cpu_sort_key_bits(type);
        const char *source = element_address(s, job->inputs[key->operand], key->operand, base, 0);
        cpu_sort_make_keys(job->kernels, type, key->order, key->descending, row.keys, source, s->inner, s->length,
                           &invertible);
        if (k < s->key_count - 1) {  // in the order found so far
            memcpy(m.line, row.keys, (size_t)(s->length * row.bits / 8));
            for (int64_t i = 0; i < s->length; i++) {
                if (row.bits == 32)
                    ((uint32_t *)(void *)row.keys)[i] = ((const uint32_t *)(void *)m.line)[row.index[i]];
                else
                    ((uint64_t *)(void *)row.keys)[i] = ((const uint64_t *)(void *)m.line)[row.index[i]];
            }
        }
        const bool keys_only = job->keys_only && invertible;
        if (keys_only) row.index = row.spare_index = NULL;
        sort_row_of_keys(job, &row);
        if (!keys_only) continue;
        cpu_sort_unkey(type, key->descending, (char *)job->outputs[0] + base * hlo_type_bytes(type), s->inner, row.keys,
                       s->length);
        return;
    }
    apply_permutation(job, base, row.index, m.line);
}

// ---- comparators

// Calls the comparator on two elements of a row, given by their numbers.
static bool less_at(const SortJob *job, int64_t base, uint32_t left, uint32_t right) {
    const CpuSort *s = job->sort;
    const void *a[CPU_KERNEL_RANK_LIMIT], *b[CPU_KERNEL_RANK_LIMIT];
    for (int o = 0; o < s->count; o++) {
        a[o] = element_address(s, job->inputs[o], o, base, left);
        b[o] = element_address(s, job->inputs[o], o, base, right);
    }
    return s->less(s->context, a, b);
}

// Sorts by any comparator of the program: a bottom-up stable merge sort. It ends whatever the comparator returns, even
// if that is not an order.
static void compare_one_row(const SortJob *job, int64_t base, int worker) {
    const int64_t n = job->sort->length;
    const RowMemory m = row_memory(job, worker);
    uint32_t *from = m.index, *to = m.spare_index;
    for (int64_t i = 0; i < n; i++) from[i] = (uint32_t)i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t at = 0; at < n; at += 2 * width) {
            const int64_t middle = at + width < n ? at + width : n, end = at + 2 * width < n ? at + 2 * width : n;
            int64_t i = at, j = middle;
            for (int64_t out = at; out < end; out++) {
                const bool second = i == middle || (j < end && less_at(job, base, from[j], from[i]));
                to[out] = second ? from[j++] : from[i++];
            }
        }
        uint32_t *swap = from;
        from = to, to = swap;
    }
    apply_permutation(job, base, from, m.line);
}

// Row r is (outer, inner): the elements of one are `inner` apart.
static void sort_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const SortJob *job = argument;
    const CpuSort *s = job->sort;
    for (int64_t row = begin; row < end; row++) {
        const int64_t base = row / s->inner * s->length * s->inner + row % s->inner;
        if (s->key_count)
            sort_one_row(job, base, worker);
        else
            compare_one_row(job, base, worker);
    }
}

HloStatus cpu_sort_check(int64_t length) {
    HLO_FAIL_IF(length > UINT32_MAX, HLO_UNIMPLEMENTED, "sorting more than 2^32 elements");
    return HLO_SUCCESS;
}

// Sorts rows along the middle dimension, each as keys and positions, which are then applied to all arrays; a single
// array of a type that its keys restore is sorted as keys only. Workers take rows, or share a row if there are few long
// ones.
HloStatus cpu_sort(CpuPool *pool, const CpuSort *sort, void *const *outputs, const void *const *inputs) {
    assert(sort->count >= 1 && sort->count <= CPU_KERNEL_RANK_LIMIT); /* hlo_eval_check_types() rejects more */
    assert(sort->length <= UINT32_MAX);                               /* and cpu_sort_check() longer ones */
    const int64_t rows = sort->outer * sort->inner;
    if (rows == 0 || sort->length == 0) return HLO_SUCCESS;
    SortJob job = {.sort = sort,
                   .kernels = cpu_isa_loop_kernels(cpu_pool_features(pool)),
                   .outputs = outputs,
                   .inputs = inputs,
                   .widest = 8};
    for (int o = 0; o < sort->count; o++)
        if (hlo_type_bytes(sort->types[o]) > job.widest) job.widest = hlo_type_bytes(sort->types[o]);
    job.keys_only = sort->count == 1 && sort->key_count == 1 && cpu_sort_can_unkey(sort->types[0]);
    const int workers = cpu_pool_worker_count(pool);
    const bool long_rows = rows < workers && sort->length >= kParallelRow && sort->key_count > 0;
    if (long_rows) job.pool = pool;
    const size_t n = ((size_t)sort->length + 15) / 16 * 16;
    job.scratch_each = hlo_array_bytes(n, 24 + (size_t)job.widest);
    job.scratch = cpu_pool_scratch_take(pool, hlo_array_bytes(job.scratch_each, long_rows ? 1 : (size_t)workers));
    HLO_FAIL_IF(!job.scratch, HLO_RESOURCE_EXHAUSTED, "no memory to sort rows of %lld", (long long)sort->length);
    cpu_pool_parallel_for_grain(long_rows || rows * sort->length < 4096 ? NULL : pool, rows, 1, sort_task, &job);
    cpu_pool_scratch_give(pool, job.scratch);
    return HLO_SUCCESS;
}
