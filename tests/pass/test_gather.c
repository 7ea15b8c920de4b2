// SPDX-License-Identifier: Apache-2.0
// Gathers from known positions: their simplified forms, and that random ones, some of them beyond the array, keep their
// results.
#include <criterion/criterion.h>

#include "check.h"
#include "hlo/base/text.h"

#define ROWS(n)                                                                          \
    "  ROOT r = f32[" #n                                                                 \
    ",5] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, " \
    "index_vector_dim=1, slice_sizes={1,5}\n"
#define X "  x = f32[8,5] parameter(0)\n"
#define COUNTED(n) "  k = s32[" #n "] iota(), iota_dimension=0\n"

// clang-format off
static const struct {
    const char *before, *after;
} cases[] = {
    {X COUNTED(8) "  i = s32[8,1] reshape(k)\n" ROWS(8), "  ROOT x = f32[8,5] parameter(0)\n"},
    {X "  i = s32[3,1] constant({{2},{3},{4}})\n" ROWS(3), X "  ROOT r = f32[3,5] slice(x), slice={[2:5], [0:5]}\n"},
    {X "  i = s32[3,1] constant({{1},{4},{7}})\n" ROWS(3), X "  ROOT r = f32[3,5] slice(x), slice={[1:8:3], [0:5]}\n"},
    {X "  i = s32[3,1] constant({{6},{4},{2}})\n" ROWS(3),
     X "  s = f32[3,5] slice(x), slice={[2:7:2], [0:5]}\n  ROOT r = f32[3,5] reverse(s), dimensions={0}\n"},
    {X "  i = s32[3,1] constant({{6},{6},{6}})\n" ROWS(3),
     X "  s = f32[1,5] slice(x), slice={[6:7], [0:5]}\n  t = f32[5] reshape(s)\n"
       "  ROOT r = f32[3,5] broadcast(t), dimensions={1}\n"},
    {X COUNTED(3) "  c = s32[] constant(2)\n  b = s32[3] broadcast(c), dimensions={}\n  m = s32[3] multiply(k, b)\n"
         "  a = s32[3] add(m, b)\n  i = s32[3,1] reshape(a)\n" ROWS(3),
     X "  ROOT r = f32[3,5] slice(x), slice={[2:7:2], [0:5]}\n"},
    // Neither a progression nor inside of the array.
    {X "  i = s32[3,1] constant({{1},{4},{6}})\n" ROWS(3), X "  i = s32[3,1] constant({{1},{4},{6}})\n" ROWS(3)},
    {X "  i = s32[3,1] constant({{6},{7},{8}})\n" ROWS(3), X "  i = s32[3,1] constant({{6},{7},{8}})\n" ROWS(3)},
    {X "  i = s32[3,1] constant({{-1},{0},{1}})\n" ROWS(3), X "  i = s32[3,1] constant({{-1},{0},{1}})\n" ROWS(3)},
};
// clang-format on

Test(pass_gather, from_known_positions) {
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) check_rewrite(cases[i].before, cases[i].after);
}

// clang-format off
static const char *const counted[][2] = {
    {"  x = f32[6,5] parameter(0)\n  k = s32[6,1] iota(), iota_dimension=0\n  i = s32[6,1] parameter(1)\n"
     "  j = s32[6,2] concatenate(k, i), dimensions={1}\n  ROOT r = f32[6] gather(x, j), offset_dims={}, "
     "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}\n",
     "  x = f32[6,5] parameter(0)\n  i = s32[6,1] parameter(1)\n  ROOT r = f32[6] gather(x, i), offset_dims={}, "
     "collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
     "index_vector_dim=1, slice_sizes={1,1}\n"},
    {"  x = f32[3,5] parameter(0)\n  k = s32[3,1] constant({{0},{1},{2}})\n  i = s32[3,1] parameter(1)\n"
     "  j = s32[3,2] concatenate(k, i), dimensions={1}\n  ROOT r = f32[3] gather(x, j), offset_dims={}, "
     "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}\n",
     "  x = f32[3,5] parameter(0)\n  i = s32[3,1] parameter(1)\n  ROOT r = f32[3] gather(x, i), offset_dims={}, "
     "collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
     "index_vector_dim=1, slice_sizes={1,1}\n"},
    // The second component counts along the second dimension of the indices.
    {"  x = f32[5,2] parameter(0)\n  k = s32[3,2,1] constant({{{0},{1}},{{0},{1}},{{0},{1}}})\n  i = s32[3,2,1] "
     "parameter(1)\n  j = s32[3,2,2] concatenate(i, k), dimensions={2}\n  ROOT r = f32[3,2] gather(x, j), "
     "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=2, slice_sizes={1,1}\n",
     "  x = f32[5,2] parameter(0)\n  i = s32[3,2,1] parameter(1)\n  ROOT r = f32[3,2] gather(x, i), offset_dims={}, "
     "collapsed_slice_dims={0}, start_index_map={0}, operand_batching_dims={1}, start_indices_batching_dims={1}, "
     "index_vector_dim=2, slice_sizes={1,1}\n"},
    // Not in order.
    {"  x = f32[3,5] parameter(0)\n  k = s32[3,1] constant({{0},{2},{1}})\n  i = s32[3,1] parameter(1)\n"
     "  j = s32[3,2] concatenate(k, i), dimensions={1}\n  ROOT r = f32[3] gather(x, j), offset_dims={}, "
     "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}\n", NULL},
    // One too few: the last row is never read.
    {"  x = f32[7,5] parameter(0)\n  k = s32[6,1] iota(), iota_dimension=0\n  i = s32[6,1] parameter(1)\n"
     "  j = s32[6,2] concatenate(k, i), dimensions={1}\n  ROOT r = f32[6] gather(x, j), offset_dims={}, "
     "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}\n", NULL},
};
// clang-format on

Test(pass_gather, counted_components_are_batches) {
    for (size_t i = 0; i < HLO_COUNT_OF(counted); i++) {
        const char *before = counted[i][0], *after = counted[i][1];
        check_body("simplify-before-partitioning", before, after ? after : before);
    }
}

static int64_t draw(uint64_t *state, int64_t count) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)(*state >> 33) % count;
}

// Rows along any of three dimensions, wherever they are in the result, by a list or a table of narrow or wide numbers.
static void make_gather(uint64_t *state, HloText *text) {
    static const char *const types[] = {"s8", "u8", "s32", "s64"};
    const int64_t dims[] = {6, 4, 9}, dimension = draw(state, 3), table = draw(state, 2);
    const int64_t rows = 1 + draw(state, 4), columns = table ? 1 + draw(state, 3) : 1, position = draw(state, 3);
    const int64_t step = draw(state, 7) - 3, start = draw(state, dims[dimension] + 2) - 1;
    const char *type = types[draw(state, 4)];
    const bool vector = draw(state, 2);
    hlo_text_format(
        text, "HloModule m\n\nENTRY main {\n  x = f32[6,4,9] parameter(0)\n  k = %s[%d] iota(), iota_dimension=0\n",
        type, (int)(rows * columns));
    hlo_text_format(text, "  c = %s[] constant(%d)\n  b = %s[%d] broadcast(c), dimensions={}\n", type,
                    (int)(type[0] == 'u' && step < 0 ? -step : step), type, (int)(rows * columns));
    hlo_text_format(text, "  d = %s[] constant(%d)\n  e = %s[%d] broadcast(d), dimensions={}\n", type,
                    (int)(type[0] == 'u' && start < 0 ? 255 : start), type, (int)(rows * columns));
    hlo_text_format(text, "  m = %s[%d] multiply(k, b)\n  a = %s[%d] add(m, e)\n", type, (int)(rows * columns), type,
                    (int)(rows * columns));
    hlo_text_format(text, table ? "  i = %s[%d,%d%s] reshape(a)\n" : "  i = %s[%d%.0d%s] reshape(a)\n", type, (int)rows,
                    table ? (int)columns : 0, vector ? ",1" : "");
    int64_t result[4], count = 0, other = 0, offsets[2], offset_count = 0;
    for (int64_t d = 0; d < 3; d++) {
        if (d == position) {
            result[count++] = rows;
            if (table) result[count++] = columns;
            continue;
        }
        if (other == dimension) other++;
        offsets[offset_count++] = count;
        result[count++] = dims[other++];
    }
    hlo_text_format(text, "  ROOT r = f32[%d,%d,%d", (int)result[0], (int)result[1], (int)result[2]);
    if (table) hlo_text_format(text, ",%d", (int)result[3]);
    hlo_text_format(text, "] gather(x, i), offset_dims={%d,%d}, collapsed_slice_dims={%d}, start_index_map={%d}, ",
                    (int)offsets[0], (int)offsets[1], (int)dimension, (int)dimension);
    hlo_text_format(text, "index_vector_dim=%d, slice_sizes={%d,%d,%d}\n}\n", 1 + (int)table, dimension == 0 ? 1 : 6,
                    dimension == 1 ? 1 : 4, dimension == 2 ? 1 : 9);
}

Test(pass_gather, random_ones_keep_their_results) {
    int64_t gone = 0;
    enum { CASES = 400 };
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        uint64_t state = seed * 2654435761U;
        HloText text = {0};
        make_gather(&state, &text);
        check_same_results("simplify", text.data, 0);
        HloModule *module = check_parse(text.data);
        const char *name = "simplify";
        cr_assert_null(hlo_run_passes(module, &name, 1, NULL));
        bool found = false;
        for (const HloInstruction *i = module->entry->first; i; i = i->next) found |= hlo_is(i, HLO_OP_GATHER);
        gone += !found;
        hlo_module_free(module);
        hlo_text_free(&text);
    }
    cr_expect(gone > CASES / 4 && gone < CASES, "%d", (int)gone);
}

// The numbers of a constant of three dimensions that counts along dimension `along`.
static void write_numbers(HloText *text, const int64_t *dims, int64_t along) {
    const int64_t count = dims[0] * dims[1] * dims[2];
    for (int64_t k = 0; k < count; k++) {
        const int64_t at[] = {k / dims[2] / dims[1], k / dims[2] % dims[1], k % dims[2]};
        if (k && !at[2]) hlo_text_string(text, at[1] ? "}, " : "}}, ");
        if (!at[2]) hlo_text_string(text, at[1] ? "{" : "{{");
        hlo_text_format(text, "%s%d", at[2] ? "," : "", (int)at[along]);
    }
    if (count) hlo_text_string(text, "}}");
}

// A component of the indices that counts along dimension `along`, written in one of several ways.
static void make_counter(uint64_t *state, HloText *text, const int64_t *dims, int64_t along) {
    HloText shape = {0};
    hlo_text_format(&shape, "%d,%d,%d", (int)dims[0], (int)dims[1], (int)dims[2]);
    const int64_t form = draw(state, 4);
    if (form == 0) {
        hlo_text_format(text, "  k = s32[%s] iota(), iota_dimension=%d\n", shape.data, (int)along);
    } else if (form == 1) {
        hlo_text_format(text, "  k1 = s32[%d] iota(), iota_dimension=0\n  k = s32[%s] broadcast(k1), dimensions={%d}\n",
                        (int)dims[along], shape.data, (int)along);
    } else if (form == 2) {
        hlo_text_format(text, "  k = s32[%s] constant({", shape.data);
        write_numbers(text, dims, along);
        hlo_text_string(text, "})\n");
    } else {
        hlo_text_format(text,
                        "  k1 = s8[%d] iota(), iota_dimension=0\n  k2 = s32[%d] convert(k1)\n"
                        "  k3 = s32[1,%d,1] reshape(k2)\n  k4 = s32[%d] reshape(k3)\n"
                        "  k = s32[%s] broadcast(k4), dimensions={%d}\n",
                        (int)dims[along], (int)dims[along], (int)dims[along], (int)dims[along], shape.data, (int)along);
    }
    hlo_text_free(&shape);
}

// A gather or scatter whose index has two or three components, of which one counts along a dimension of the indices:
// all of a dimension of the array, or one more or fewer.
static void make_counted(uint64_t *state, HloText *text) {
    const int64_t array[] = {5, 3, 4}, counted_dim = draw(state, 3), other = (counted_dim + 1 + draw(state, 2)) % 3;
    const int64_t window_dim = 3 - counted_dim - other, along = draw(state, 2), vector = draw(state, 3);
    const int64_t taken = 1 + draw(state, array[window_dim]), first = draw(state, 2);
    const bool starts = draw(state, 2), scatters = draw(state, 2);
    int64_t batch[2], dims[3], at = 0;
    batch[along] = array[counted_dim] + (draw(state, 4) ? 0 : draw(state, 3) - 1);
    batch[1 - along] = 1 + draw(state, 3);
    for (int64_t d = 0; d < 3; d++) dims[d] = d == vector ? 1 : batch[at++];
    hlo_text_string(text,
                    "HloModule m\n\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                    "  ROOT c = f32[] add(a, b)\n}\n\nENTRY main {\n  x = f32[5,3,4] parameter(0)\n");
    make_counter(state, text, dims, along + (vector <= along));
    HloText shape = {0};
    hlo_text_format(&shape, "s32[%d,%d,%d]", (int)dims[0], (int)dims[1], (int)dims[2]);
    hlo_text_format(text, "  i = %s parameter(1)\n", shape.data);
    if (starts) hlo_text_format(text, "  w = %s parameter(2)\n", shape.data);
    dims[vector] = 2 + starts;
    hlo_text_format(text, "  j = s32[%d,%d,%d] concatenate(%s%s), dimensions={%d}\n", (int)dims[0], (int)dims[1],
                    (int)dims[2], first ? "k, i" : "i, k", starts ? ", w" : "", (int)vector);
    int64_t map[3] = {first ? counted_dim : other, first ? other : counted_dim, window_dim};
    HloText list = {0};
    for (int64_t k = 0; k < 2 + starts; k++) hlo_text_format(&list, "%s%d", k ? "," : "", (int)map[k]);
    const int64_t low = counted_dim < other ? counted_dim : other, high = counted_dim + other - low;
    if (scatters) {
        hlo_text_format(text,
                        "  u = f32[%d,%d,%d] parameter(%d)\n  ROOT r = f32[5,3,4] scatter(x, j, u), "
                        "update_window_dims={2}, inserted_window_dims={%d,%d}, scatter_dims_to_operand_dims={%s}, "
                        "index_vector_dim=%d, to_apply=add\n}\n",
                        (int)batch[0], (int)batch[1], (int)taken, 2 + starts, (int)low, (int)high, list.data,
                        (int)vector);
    } else {
        hlo_text_format(text,
                        "  ROOT r = f32[%d,%d,%d] gather(x, j), offset_dims={2}, collapsed_slice_dims={%d,%d}, "
                        "start_index_map={%s}, index_vector_dim=%d, slice_sizes={%d,%d,%d}\n}\n",
                        (int)batch[0], (int)batch[1], (int)taken, (int)low, (int)high, list.data, (int)vector,
                        window_dim == 0 ? (int)taken : 1, window_dim == 1 ? (int)taken : 1,
                        window_dim == 2 ? (int)taken : 1);
    }
    hlo_text_free(&list);
    hlo_text_free(&shape);
}

Test(pass_gather, random_counted_components_keep_their_results) {
    int64_t batched = 0;
    enum { CASES = 400 };
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        uint64_t state = seed * 2654435761U;
        HloText text = {0};
        make_counted(&state, &text);
        check_same_results("simplify-before-partitioning", text.data, 0);
        HloModule *module = check_parse(text.data);
        const char *name = "simplify-before-partitioning";
        cr_assert_null(hlo_run_passes(module, &name, 1, &(HloPassOptions){.before_partitioning = true}));
        const HloInstruction *root = module->entry->root;
        batched += hlo_is(root, HLO_OP_GATHER)    ? HLO_ATTRIBUTES(root, Gather)->operand_batching_dims.count
                   : hlo_is(root, HLO_OP_SCATTER) ? HLO_ATTRIBUTES(root, Scatter)->input_batching_dims.count
                                                  : 0;
        hlo_module_free(module);
        hlo_text_free(&text);
    }
    cr_expect(batched > CASES / 2 && batched < CASES, "%d", (int)batched);
}
