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
