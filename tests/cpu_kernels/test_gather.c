// SPDX-License-Identifier: Apache-2.0
// Gather and scatter against the definition in the StableHLO specification, one element at a time.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/ir/literal.h"
#include "targets/cpu/kernels/gather.h"
#include "tests/support/cases.h"
#include "tests/support/levels.h"

enum { kRank = 6, kLargest = 60000 };

// A case owns its lists: tests run in processes of their own, so parameters must not hold addresses.
typedef struct Case {
    int operand_rank, indices_rank, result_rank, index_vector_dim, window_count, collapsed_count, map_count,
        batching_count;
    int64_t operand[kRank], indices[kRank], result[kRank], window[kRank], collapsed[kRank], map[kRank],
        operand_batching[kRank], indices_batching[kRank], slices[kRank];
} Case;

static Case kCases[] = {
    // Rows of a table (embedding).
    {2, 2, 2, 1, 1, 1, 1, 0, {50, 300}, {20, 1}, {20, 300}, {1}, {0}, {0}, {0}, {0}, {1, 300}},
    // Single elements by coordinates, with the index vector first.
    {3, 2, 1, 0, 0, 3, 3, 0, {4, 5, 6}, {3, 70}, {70}, {0}, {0, 1, 2}, {2, 0, 1}, {0}, {0}, {1, 1, 1}},
    // Windows in the middle, index dimension implied at the end.
    {3, 2, 4, 2, 2, 1, 1, 0, {7, 5, 6}, {3, 4}, {3, 2, 4, 6}, {1, 3}, {0}, {1}, {0}, {0}, {1, 2, 6}},
    // Batching dimensions.
    {3, 3, 3, 2, 1, 1, 1, 1, {4, 9, 5}, {4, 3, 1}, {4, 3, 5}, {2}, {1}, {1}, {0}, {0}, {1, 1, 5}},
    // Single elements of a matrix by two indices, in several blocks.
    {2, 2, 1, 1, 0, 2, 2, 0, {40, 50}, {600, 2}, {600}, {0}, {0, 1}, {0, 1}, {0}, {0}, {1, 1}},
    // Rows of two, three and four elements.
    {2, 2, 2, 1, 1, 1, 1, 0, {100, 2}, {700, 1}, {700, 2}, {1}, {0}, {0}, {0}, {0}, {1, 2}},
    {2, 2, 2, 1, 1, 1, 1, 0, {100, 3}, {700, 1}, {700, 3}, {1}, {0}, {0}, {0}, {0}, {1, 3}},
    {2, 2, 2, 1, 1, 1, 1, 0, {100, 4}, {700, 1}, {700, 4}, {1}, {0}, {0}, {0}, {0}, {1, 4}},
    // Columns of a matrix; runs of three in each row; windows in each of six rows; columns of each matrix of a batch.
    {2, 2, 2, 1, 1, 1, 1, 0, {60, 100}, {70, 1}, {60, 70}, {0}, {1}, {1}, {0}, {0}, {60, 1}},
    {3, 2, 3, 1, 2, 1, 1, 0, {5, 40, 3}, {50, 1}, {5, 50, 3}, {0, 2}, {1}, {1}, {0}, {0}, {5, 1, 3}},
    {3, 2, 4, 1, 3, 0, 2, 0, {6, 30, 31}, {20, 2}, {6, 20, 2, 3}, {0, 2, 3}, {0}, {1, 2}, {0}, {0}, {6, 2, 3}},
    {3, 3, 3, 2, 1, 1, 1, 1, {3, 6, 30}, {3, 18, 1}, {3, 6, 18}, {1}, {2}, {2}, {0}, {0}, {1, 6, 1}},
    // Columns of many rows, more of them than positions are computed at once; the last start is not the last column.
    {2, 2, 2, 1, 1, 1, 1, 0, {40, 30}, {1100, 1}, {40, 1100}, {0}, {1}, {1}, {0}, {0}, {40, 1}},
    {2, 2, 3, 1, 2, 0, 1, 0, {50, 40}, {200, 1}, {50, 200, 5}, {0, 2}, {0}, {1}, {0}, {0}, {50, 5}},
    // Columns of some of the rows, at the same ones for all indices and at any.
    {2, 2, 2, 1, 1, 1, 1, 0, {60, 100}, {70, 1}, {40, 70}, {0}, {1}, {1}, {0}, {0}, {40, 1}},
    {2, 2, 2, 1, 1, 1, 2, 0, {60, 8}, {30, 2}, {40, 30}, {0}, {1}, {0, 1}, {0}, {0}, {40, 1}},
    // Columns of the updates that are rows of the operand, and rows of the updates that are its columns.
    {2, 2, 2, 1, 1, 1, 1, 0, {90, 50}, {20, 1}, {50, 20}, {0}, {0}, {0}, {0}, {0}, {1, 50}},
    {2, 2, 2, 1, 1, 1, 1, 0, {50, 90}, {20, 1}, {20, 50}, {1}, {1}, {1}, {0}, {0}, {50, 1}},
    // Elements along a dimension: of rows, of columns, of as many columns as positions are computed at once and more,
    // of one element a column, and points of columns.
    {2, 3, 2, 2, 0, 1, 1, 1, {6, 900}, {6, 1100, 1}, {6, 1100}, {0}, {1}, {1}, {0}, {0}, {1, 1}},
    {2, 3, 2, 2, 0, 1, 1, 1, {40, 33}, {50, 33, 1}, {50, 33}, {0}, {0}, {0}, {1}, {1}, {1, 1}},
    {2, 3, 2, 2, 0, 1, 1, 1, {20, 1300}, {31, 1300, 1}, {31, 1300}, {0}, {0}, {0}, {1}, {1}, {1, 1}},
    {2, 2, 1, 1, 0, 1, 1, 1, {5, 40}, {40, 1}, {40}, {0}, {0}, {0}, {1}, {0}, {1, 1}},
    {3, 3, 3, 2, 1, 1, 1, 1, {9, 70, 3}, {11, 70, 1}, {11, 70, 3}, {2}, {0}, {0}, {1}, {1}, {1, 1, 3}},
    // One-dimensional, many updates of one element.
    {1, 2, 1, 1, 0, 1, 1, 0, {100}, {40000, 1}, {40000}, {0}, {0}, {0}, {0}, {0}, {1}},
};
enum { kCaseCount = sizeof kCases / sizeof kCases[0] };

static CpuIndexing indexing_of(const Case *c) {
    return (CpuIndexing){.operand_rank = c->operand_rank,
                         .indices_rank = c->indices_rank,
                         .result_rank = c->result_rank,
                         .operand_sizes = c->operand,
                         .indices_sizes = c->indices,
                         .result_sizes = c->result,
                         .index_type = HLO_S32,
                         .index_vector_dim = c->index_vector_dim,
                         .window_count = c->window_count,
                         .window_dims = c->window,
                         .collapsed_count = c->collapsed_count,
                         .collapsed_dims = c->collapsed,
                         .map_count = c->map_count,
                         .start_index_map = c->map,
                         .batching_count = c->batching_count,
                         .operand_batching_dims = c->operand_batching,
                         .indices_batching_dims = c->indices_batching,
                         .slice_sizes = c->slices};
}

static int64_t product(const int64_t *sizes, int rank) {
    int64_t p = 1;
    for (int i = 0; i < rank; i++) p *= sizes[i];
    return p;
}

static bool contains(const int64_t *list, int count, int64_t value) {
    for (int i = 0; i < count; i++)
        if (list[i] == value) return true;
    return false;
}

// What tests add to indices below 0, by component: the size of the dimension and one more, so that it is seen.
static const int64_t *wraps_of(const Case *c) {
    static int64_t wraps[kRank];
    for (int m = 0; m < c->map_count; m++) wraps[m] = c->operand[c->map[m]] + m;
    return wraps;
}

// How the indices of a case are read: as they are, or with these wraps, or as unsigned numbers.
typedef struct Reading {
    const int64_t *wraps;
    bool is_unsigned;
} Reading;

static Reading reading_of(const Case *c, int number) {
    return (Reading){number == 1 ? wraps_of(c) : NULL, number == 2};
}
enum { kReadings = 3 };

static CpuIndexing indexing_as(const Case *c, Reading reading) {
    CpuIndexing x = indexing_of(c);
    x.wraps = reading.wraps;
    x.index_type = reading.is_unsigned ? HLO_U32 : HLO_S32;
    return x;
}

// Operand element for a result element; -1 where a scatter drops the update.
static int64_t operand_element(const Case *c, Reading reading, const int32_t *indices, int64_t flat, bool clamp) {
    int64_t index[kRank], batch[kRank], start[kRank] = {0}, window[kRank] = {0};
    for (int d = c->result_rank - 1; d >= 0; d--) index[d] = flat % c->result[d], flat /= c->result[d];
    int batch_rank = 0;
    for (int d = 0; d < c->result_rank; d++)
        if (!contains(c->window, c->window_count, d)) batch[batch_rank++] = index[d];
    for (int m = 0; m < c->map_count; m++) {
        int64_t at = 0;
        for (int d = 0, b = 0; d < c->indices_rank; d++)
            at = at * c->indices[d] + (d == c->index_vector_dim ? m : batch[b++]);
        start[c->map[m]] = reading.is_unsigned ? (int64_t)(uint32_t)indices[at] : indices[at];
        if (reading.wraps && indices[at] < 0) start[c->map[m]] += reading.wraps[m];
    }
    for (int i = 0; i < c->batching_count; i++) {
        const int64_t d = c->indices_batching[i];
        start[c->operand_batching[i]] = batch[d > c->index_vector_dim ? d - 1 : d];
    }
    for (int d = 0, w = 0; d < c->operand_rank; d++)
        if (!contains(c->collapsed, c->collapsed_count, d) && !contains(c->operand_batching, c->batching_count, d))
            window[d] = index[c->window[w++]];
    int64_t element = 0;
    for (int d = 0; d < c->operand_rank; d++) {
        const int64_t largest = c->operand[d] - c->slices[d];
        if (start[d] < 0 || start[d] > largest) {
            if (!clamp) return -1;
            start[d] = start[d] < 0 ? 0 : largest;
        }
        element = element * c->operand[d] + start[d] + window[d];
    }
    return element;
}

static int32_t operand[kLargest], indices[kLargest * 2], result[kLargest], want[kLargest];

static void fill_case(const Case *c) {
    uint32_t state = 99;
    for (int i = 0; i < kLargest; i++) operand[i] = i * 7, result[i] = i % 1000;
    for (int i = 0; i < kLargest * 2; i++) {
        state = state * 1664525 + 1013904223;
        const int64_t size = c->operand[c->map[0]];
        indices[i] = (int32_t)((state >> 16) % (uint32_t)(2 * size + 6)) - (int32_t)size - 3;
    }
}

CaseList(cpu_gather, gathers) {
    return cr_make_param_array(Case, kCases, kCaseCount);
}

CaseTest(Case *c, cpu_gather, gathers) {
    for (int form = 2 * levels_first(); form <= 2 * levels_last() + 1; form++) {  // every set, alone and shared
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(form % 2 ? 3 : 1, (CpuFeatures)(form / 2), &pool));
        for (int number = 0; number < kReadings; number++) {
            const Reading reading = reading_of(c, number);
            const CpuIndexing x = indexing_as(c, reading);
            fill_case(c);
            cr_assert_null(cpu_gather(pool, &x, 4, result, operand, (const void *[]){indices}));
            for (int64_t i = 0; i < product(c->result, c->result_rank); i++)
                cr_assert_eq(result[i], operand[operand_element(c, reading, indices, i, true)], "element %lld",
                             (long long)i);
        }
        cpu_pool_free(pool);
    }
}

// Single elements are stored by vectors: any number of them, of every width, from the second one of an array on, and
// nothing beside them.
static void check_elements(CpuPool *pool, int width, int64_t count, int64_t table) {
    const Case c = {1, 2, 1, 1, 0, 1, 1, 0, {table}, {count, 1}, {count}, {0}, {0}, {0}, {0}, {0}, {1}};
    const CpuIndexing x = indexing_of(&c);
    unsigned char *from = (unsigned char *)operand + width, *to = (unsigned char *)result + width;
    fill_case(&c);
    memset(result, 9, sizeof result);
    cr_assert_null(cpu_gather(pool, &x, width, to, from, (const void *[]){indices}));
    for (int64_t i = 0; i < count; i++)
        cr_assert_eq(
            memcmp(to + i * width, from + operand_element(&c, (Reading){0}, indices, i, true) * width, (size_t)width),
            0, "width %d, element %lld of %lld", width, (long long)i, (long long)count);
    cr_assert(to[-1] == 9 && to[count * width] == 9);
}

Test(cpu_gather, single_elements_of_every_width) {
    for (int set = levels_first(); set <= levels_last(); set++) {
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(3, (CpuFeatures)set, &pool));
        for (int width = 1; width <= 16; width *= 2)
            for (int64_t count = 1; count < 9000; count += count < 40 ? 1 : count)
                check_elements(pool, width, count, 1 + count * 5 % 700);
        cpu_pool_free(pool);
    }
}

// The number of the index vector that a result element belongs to.
static int64_t vector_of(const Case *c, int64_t flat) {
    int64_t index[kRank], number = 0;
    for (int d = c->result_rank - 1; d >= 0; d--) index[d] = flat % c->result[d], flat /= c->result[d];
    for (int d = 0; d < c->result_rank; d++)
        if (!contains(c->window, c->window_count, d)) number = number * c->result[d] + index[d];
    return number;
}

CaseList(cpu_gather, masked_slices_are_filled) {
    return cr_make_param_array(Case, kCases, kCaseCount);
}

CaseTest(Case *c, cpu_gather, masked_slices_are_filled) {
    static bool mask[kLargest];
    const CpuIndexing x = indexing_of(c);
    const int32_t element = -77;
    for (int form = 0; form < 8; form++) {  // alone and shared; none, some and all are masked
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(form % 2 ? 3 : 1, CPU_FEATURES_AMX, &pool));
        for (int64_t i = 0; i < kLargest; i++) mask[i] = form < 2 || (form < 6 && i % (form + 1) != 2);
        fill_case(c);
        memcpy(want, result, sizeof want);
        for (int64_t i = 0; i < product(c->result, c->result_rank); i++)
            if (!mask[vector_of(c, i)]) want[i] = element;
        cr_assert_null(cpu_gather_fill(pool, &x, 4, result, mask, &element));
        cr_assert_eq(memcmp(result, want, sizeof want), 0, "form %d", form);
        cpu_pool_free(pool);
    }
}

// Each component of the index vectors in an array of its own.
ParameterizedTestParameters(cpu_gather, gathers_by_split_indices) {
    return cr_make_param_array(Case, kCases, kCaseCount);
}

ParameterizedTest(Case *c, cpu_gather, gathers_by_split_indices) {
    const Reading reading = reading_of(c, 1);
    CpuIndexing x = indexing_as(c, reading);
    if (c->index_vector_dim == c->indices_rank) return;  // one component
    static int32_t split[3][kLargest];
    int64_t one[kRank], inner = 1;
    memcpy(one, c->indices, sizeof one);
    for (int d = c->index_vector_dim + 1; d < c->indices_rank; d++) inner *= c->indices[d];
    one[c->index_vector_dim] = 1;
    fill_case(c);
    for (int64_t i = 0; i < product(one, c->indices_rank); i++)
        for (int m = 0; m < c->map_count; m++)
            split[m][i] = indices[(i / inner * c->map_count + m) * inner + i % inner];
    x.split = true, x.indices_sizes = one;
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(1, CPU_FEATURES_AMX, &pool));
    cr_assert_null(cpu_gather(pool, &x, 4, result, operand, (const void *[]){split[0], split[1], split[2]}));
    for (int64_t i = 0; i < product(c->result, c->result_rank); i++)
        cr_assert_eq(result[i], operand[operand_element(c, reading, indices, i, true)], "element %lld", (long long)i);
    cpu_pool_free(pool);
}

static int32_t combine_one(CpuScatterOp op, int32_t a, int32_t b) {
    switch (op) {
        case CPU_SCATTER_ADD: return a + b;
        case CPU_SCATTER_MULTIPLY: return (int32_t)((uint32_t)a * (uint32_t)b);
        case CPU_SCATTER_MINIMUM: return a < b ? a : b;
        case CPU_SCATTER_MAXIMUM: return a > b ? a : b;
        case CPU_SCATTER_CALL: return (int32_t)((uint32_t)a + 3 * (uint32_t)b);
        default: return b;
    }
}

static void call_back(void *context, int count, void *const *targets, const void *const *updates) {
    (void)context;
    for (int i = 0; i < count; i++)
        *(int32_t *)targets[i] = combine_one(CPU_SCATTER_CALL, *(int32_t *)targets[i], *(const int32_t *)updates[i]);
}

CaseList(cpu_gather, scatters_in_order) {
    return cr_make_param_array(Case, kCases, kCaseCount);
}

static void check_scatter(CpuPool *pool, const Case *c, Reading reading, CpuScatterOp op) {
    const HloType type = HLO_S32;
    const CpuScatter scatter = {
        .indexing = indexing_as(c, reading), .count = 1, .types = &type, .op = op, .combine = call_back};
    fill_case(c);
    memcpy(want, operand, sizeof want);
    for (int64_t i = 0; i < product(c->result, c->result_rank); i++) {
        const int64_t at = operand_element(c, reading, indices, i, false);
        if (at >= 0) want[at] = combine_one(op, want[at], result[i]);
    }
    cr_assert_null(
        cpu_scatter(pool, &scatter, (void *[]){operand}, (const void *[]){operand}, indices, (const void *[]){result}));
    cr_assert_eq(memcmp(operand, want, sizeof want), 0, "op %d", (int)op);
}

CaseTest(Case *c, cpu_gather, scatters_in_order) {
    for (int form = 2 * levels_first(); form <= 2 * levels_last() + 1; form++) {  // every set, alone and shared
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(form % 2 ? 3 : 1, (CpuFeatures)(form / 2), &pool));
        for (int op = CPU_SCATTER_ASSIGN; op <= CPU_SCATTER_CALL; op++)
            for (int number = 0; number < kReadings; number++)
                check_scatter(pool, c, reading_of(c, number), (CpuScatterOp)op);
        cpu_pool_free(pool);
    }
}

// ---- element types and index types

typedef struct TypeCase {
    HloType type, index;
    int64_t columns;
} TypeCase;

static TypeCase kTypeCases[] = {
    {HLO_F32, HLO_S32, 1},  {HLO_F32, HLO_U8, 5},   {HLO_F64, HLO_S64, 1},  {HLO_F64, HLO_U32, 33},
    {HLO_BF16, HLO_S16, 1}, {HLO_BF16, HLO_S32, 9}, {HLO_U8, HLO_U64, 1},   {HLO_U16, HLO_S32, 17},
    {HLO_S64, HLO_S32, 1},  {HLO_S4, HLO_S32, 3},   {HLO_F16, HLO_S8, 64},  {HLO_F32, HLO_S32, 300},
    {HLO_S32, HLO_U16, 70}, {HLO_U32, HLO_U32, 1},  {HLO_U32, HLO_S32, 4},  {HLO_F64, HLO_S32, 8},
    {HLO_F32, HLO_U32, 3},  {HLO_S32, HLO_S32, 16}, {HLO_F32, HLO_S32, 32}, {HLO_S64, HLO_U32, 2},
    {HLO_U8, HLO_S32, 16},
};

static void put(HloType type, void *array, int64_t at, int64_t value) {
    const uint64_t bits = hlo_type_is_float(type) ? hlo_float_encode(type, (double)value) : (uint64_t)value;
    memcpy((char *)array + at * hlo_type_bytes(type), &bits, (size_t)hlo_type_bytes(type));
}

static int64_t get(HloType type, const void *array, int64_t at) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + at * hlo_type_bytes(type), (size_t)hlo_type_bytes(type));
    if (hlo_type_is_float(type)) return (int64_t)hlo_float_decode(type, bits);
    const int spare = 64 - 8 * hlo_type_bytes(type);
    return hlo_type_kind(type) == HLO_KIND_SIGNED ? (int64_t)(bits << spare) >> spare : (int64_t)bits;
}

// Rows of `columns` elements by numbers of any type, some of them outside, more of them than fit in a block of slices.
CaseList(cpu_gather, types) {
    return cr_make_param_array(TypeCase, kTypeCases, sizeof kTypeCases / sizeof kTypeCases[0]);
}

// Rows of a table by their numbers: `numbers` (of the rank `rank`, 1 or 2) are the sizes of the indices, `rows` those
// of the rows that are taken or updated. The sizes stay the caller's.
static CpuIndexing rows_of_table(const int64_t table[2], HloType index, int32_t rank, const int64_t *numbers,
                                 const int64_t rows[2]) {
    static const int64_t first = 0, second = 1;
    return (CpuIndexing){.operand_rank = 2,
                         .indices_rank = rank,
                         .result_rank = 2,
                         .operand_sizes = table,
                         .indices_sizes = numbers,
                         .result_sizes = rows,
                         .index_type = index,
                         .index_vector_dim = 1,
                         .window_count = 1,
                         .window_dims = &second,
                         .collapsed_count = 1,
                         .collapsed_dims = &first,
                         .map_count = 1,
                         .start_index_map = &first};
}

CaseTest(TypeCase *c, cpu_gather, types) {
    enum { kRows = 20, kSlices = 600 };
    static int64_t table[kRows * 300], row_numbers[kSlices], updates[kSlices * 300], wanted[kRows * 300];
    const int64_t columns = c->columns, sizes[] = {kRows, columns}, counts[] = {kSlices, 1},
                  many[] = {kSlices, columns}, slices[] = {1, columns};
    CpuIndexing x = rows_of_table(sizes, c->index, 2, counts, many);
    x.slice_sizes = slices;
    for (int form = 2 * levels_first(); form <= 2 * levels_last() + 1; form++)  // every set, alone and shared
        for (int op = CPU_SCATTER_ASSIGN; op <= CPU_SCATTER_MAXIMUM; op++) {
            const CpuScatter scatter = {.indexing = x, .count = 1, .types = &c->type, .op = (CpuScatterOp)op};
            CpuPool *pool;
            cr_assert_null(cpu_pool_new_with(form % 2 ? 3 : 1, (CpuFeatures)(form / 2), &pool));
            for (int64_t i = 0; i < kRows * columns; i++) wanted[i] = i % 3, put(c->type, table, i, wanted[i]);
            for (int64_t i = 0; i < kSlices; i++) put(c->index, row_numbers, i, i * 7 % (kRows + 3));
            for (int64_t i = 0; i < kSlices * columns; i++) put(c->type, updates, i, i % 41 == 0);
            for (int64_t i = 0; i < kSlices * columns; i++) {
                const int64_t row = i / columns * 7 % (kRows + 3), at = row * columns + i % columns;
                if (row < kRows) wanted[at] = combine_one((CpuScatterOp)op, (int32_t)wanted[at], i % 41 == 0);
            }
            if (c->type == HLO_S4)
                for (int64_t i = 0; i < kRows * columns; i++) wanted[i] = (int64_t)((uint64_t)wanted[i] << 60) >> 60;
            cr_assert_null(cpu_scatter(pool, &scatter, (void *[]){table}, (const void *[]){table}, row_numbers,
                                       (const void *[]){updates}));
            for (int64_t i = 0; i < kRows * columns; i++)
                cr_assert_eq(get(c->type, table, i), wanted[i], "op %d, element %lld", op, (long long)i);
            cr_assert_null(
                cpu_gather(pool, &x, hlo_type_bytes(c->type), updates, table, (const void *[]){row_numbers}));
            for (int64_t i = 0; i < kSlices * columns; i++) {
                const int64_t row = i / columns * 7 % (kRows + 3), clamped = row < kRows ? row : kRows - 1;
                cr_assert_eq(get(c->type, updates, i), wanted[clamped * columns + i % columns]);
            }
            cpu_pool_free(pool);
        }
}

// NaN wins and -0 is below +0, in rows of one element and of vectors and rests of them, on every set.
Test(cpu_gather, minima_and_maxima_of_special_values_are_scattered) {
    static const float specials[] = {0.0f, -0.0f, 1.5f, -1.5f, INFINITY, -INFINITY, NAN};
    enum { kSpecials = sizeof specials / sizeof specials[0] };
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int columns = 1; columns <= 40; columns += 13)
            for (int op = CPU_SCATTER_MINIMUM; op <= CPU_SCATTER_MAXIMUM; op++)
                for (int pair = 0; pair < kSpecials * kSpecials; pair++) {
                    const float x = specials[pair / kSpecials], y = specials[pair % kSpecials];
                    const int64_t sizes[] = {2, columns}, counts[] = {1, 1}, many[] = {1, columns};
                    const HloType type = HLO_F32;
                    const int32_t row = 1;
                    const CpuScatter scatter = {.indexing = rows_of_table(sizes, HLO_S32, 2, counts, many),
                                                .count = 1,
                                                .types = &type,
                                                .op = (CpuScatterOp)op};
                    float table[80], update[40];
                    CpuPool *pool;
                    cr_assert_null(cpu_pool_new_with(1, (CpuFeatures)set, &pool));
                    for (int i = 0; i < columns; i++) table[i] = 7, table[columns + i] = x, update[i] = y;
                    cr_assert_null(cpu_scatter(pool, &scatter, (void *[]){table}, (const void *[]){table}, &row,
                                               (const void *[]){update}));
                    const bool first = (op == CPU_SCATTER_MAXIMUM) == (x == y ? !signbit(x) : x > y);
                    const float larger = isnan(x) || isnan(y) ? NAN : first ? x : y;
                    for (int i = 0; i < columns; i++) {
                        const float got = table[columns + i];
                        cr_assert_eq(table[i], 7);
                        cr_assert(isnan(larger) ? isnan(got) : got == larger && signbit(got) == signbit(larger),
                                  "op %d of %g and %g on set %d: %g", op, (double)x, (double)y, set, (double)got);
                    }
                    cpu_pool_free(pool);
                }
}

// A table so large that its rows are combined on their way into the result: the operand stays as it was, a row's
// updates are added in their order, and every row arrives.
Test(cpu_gather, large_tables_are_combined_on_the_way) {
    enum { kRows = 2200, kColumns = 1030, kSlices = 700 };
    static float table[kRows * kColumns], updates[kSlices * kColumns], got[kRows * kColumns], sums[kRows * kColumns];
    static int32_t rows[kSlices];
    const HloType type = HLO_F32;
    const int64_t sizes[] = {kRows, kColumns}, counts[] = {kSlices}, many[] = {kSlices, kColumns};
    const CpuScatter scatter = {
        .indexing = rows_of_table(sizes, HLO_S32, 1, counts, many), .count = 1, .types = &type, .op = CPU_SCATTER_ADD};
    for (int64_t i = 0; i < kRows * kColumns; i++) sums[i] = table[i] = 1 / (float)(i + 1);
    for (int64_t i = 0; i < kSlices * kColumns; i++) updates[i] = 1 / (float)(i % 1000 + 3);
    for (int64_t i = 0; i < kSlices; i++) {
        rows[i] = (int32_t)(i % 5 == 0 ? 2199 : i * i % (kRows + 100) - 20);  // a crowded row, and some outside
        for (int64_t j = 0; rows[i] >= 0 && rows[i] < kRows && j < kColumns; j++)
            sums[rows[i] * kColumns + j] += updates[i * kColumns + j];
    }
    for (int workers = 1; workers <= 3; workers += 2) {
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(workers, CPU_FEATURES_AMX, &pool));
        memset(got, 0xff, sizeof got);
        cr_assert_null(
            cpu_scatter(pool, &scatter, (void *[]){got}, (const void *[]){table}, rows, (const void *[]){updates}));
        cr_assert_eq(memcmp(got, sums, sizeof got), 0, "%d workers", workers);
        cr_assert_eq(table[kRows * kColumns - 1], 1 / (float)(kRows * kColumns));
        cpu_pool_free(pool);
    }
}

// Many points for each place: their sums have the bits of adding one number at a time in the points' order, also those
// of places without any, and nothing beyond the last point is read.
Test(cpu_gather, points_are_added_in_their_order) {
    enum { kRows = 57, kSlices = 1201, kColumns = 3 };
    static int32_t rows[kSlices];
    const HloType type = HLO_F32;
    const int64_t sizes[] = {kRows, kColumns}, counts[] = {kSlices}, many[] = {kSlices, kColumns};
    float table[kRows * kColumns], got[kRows * kColumns], sums[kRows * kColumns];
    float *updates = malloc(sizeof *updates * kSlices * kColumns);  // of this size: the sanitizer sees reads beyond
    for (int i = 0; i < kRows * kColumns; i++) sums[i] = table[i] = i % 5 == 0 ? -0.0f : 1 / (float)(i + 1);
    for (int i = 0; i < kSlices * kColumns; i++) updates[i] = i % 211 == 0 ? INFINITY : 1 / (float)(i % 1000 - 500.5f);
    for (int i = 0; i < kSlices; i++) {
        rows[i] = i * 11 % (kRows + 6) - 4;
        for (int j = 0; rows[i] >= 0 && rows[i] < kRows && j < kColumns; j++)
            sums[rows[i] * kColumns + j] += updates[i * kColumns + j];
    }
    for (int form = 2 * levels_first(); form <= 2 * levels_last() + 1; form++) {
        const HloType index = form % 3 ? HLO_S32 : HLO_U32;
        const CpuScatter scatter = {.indexing = rows_of_table(sizes, index, 1, counts, many),
                                    .count = 1,
                                    .types = &type,
                                    .op = CPU_SCATTER_ADD};
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(form % 2 ? 3 : 1, (CpuFeatures)(form / 2), &pool));
        memset(got, 0xff, sizeof got);
        cr_assert_null(
            cpu_scatter(pool, &scatter, (void *[]){got}, (const void *[]){table}, rows, (const void *[]){updates}));
        cr_assert_eq(memcmp(got, sums, sizeof got), 0, "form %d", form);
        cpu_pool_free(pool);
    }
    free(updates);
}
