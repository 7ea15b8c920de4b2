// SPDX-License-Identifier: Apache-2.0
// Scatters of one element per row: their simplified forms, and that random ones, some of them beyond the row, keep
// their results.
#include <criterion/criterion.h>

#include "check.h"
#include "hlo/base/text.h"

#define SUM "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n"
#define LAST "sum {\n  a = f32[] parameter(0)\n  ROOT b = f32[] parameter(1)\n}\n"
#define FIRST "sum {\n  ROOT a = f32[] parameter(0)\n  b = f32[] parameter(1)\n}\n"
#define ROWS                                                                                                   \
    "ENTRY main {\n  c = f32[] constant(2)\n  x = f32[6,9] broadcast(c), dimensions={}\n  i = s32[6,1,1] "     \
    "parameter(0)\n  u = f32[6,1] parameter(1)\n  ROOT r = f32[6,9] scatter(x, i, u), update_window_dims={}, " \
    "inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "                    \
    "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=sum\n}\n"

static bool has_scatter(const char *text) {
    HloModule *module = check_parse(text);
    const char *name = "simplify";
    cr_assert_null(hlo_run_passes(module, &name, 1, NULL));
    bool found = false;
    for (const HloInstruction *i = module->entry->first; i; i = i->next) found |= hlo_is(i, HLO_OP_SCATTER);
    hlo_module_free(module);
    return found;
}

// bug: the derivative of a cross entropy wrote an array of zeros of the size of the logits, and their scatter into it.
Test(pass_scatter, bug_elements_of_rows_were_written_first) {
    cr_expect_not(has_scatter("HloModule m\n" SUM ROWS));
    cr_expect_not(has_scatter("HloModule m\n" LAST ROWS));
    cr_expect(has_scatter("HloModule m\n" FIRST ROWS));
}

static int64_t draw(uint64_t *state, int64_t count) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)(*state >> 33) % count;
}

// An element, or two, in each row along any of three dimensions, also beyond its ends.
static void make_scatter(uint64_t *state, HloText *text) {
    static const char *const types[] = {"s8", "u8", "s32", "s64"}, *const ops[] = {"add", "multiply", "maximum",
                                                                                   "minimum"};
    const int64_t dims[] = {6, 4, 9}, dimension = draw(state, 3), elements = 1 + draw(state, 4) / 3;
    const int64_t a = dims[dimension == 0], b = dims[dimension == 2 ? 1 : 2];
    const char *type = types[draw(state, 4)];
    hlo_text_format(text, "HloModule m\n\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n");
    hlo_text_format(text, "  ROOT r = f32[] %s(a, b)\n}\n\nENTRY main {\n  c = f32[] constant(%d)\n",
                    ops[draw(state, 4)], (int)draw(state, 3));
    hlo_text_format(text, "  x = f32[6,4,9] broadcast(c), dimensions={}\n  p = %s[%d,%d,%d,1] parameter(0)\n", type,
                    (int)a, (int)b, (int)elements);
    hlo_text_format(text, "  n = %s[] constant(13)\n  ns = %s[%d,%d,%d,1] broadcast(n), dimensions={}\n", type, type,
                    (int)a, (int)b, (int)elements);
    hlo_text_format(text, "  i = %s[%d,%d,%d,1] remainder(p, ns)\n  u = f32[%d,%d,%d] parameter(1)\n", type, (int)a,
                    (int)b, (int)elements, (int)a, (int)b, (int)elements);
    hlo_text_format(text, "  ROOT r = f32[6,4,9] scatter(x, i, u), update_window_dims={}, inserted_window_dims={%d}, ",
                    (int)dimension);
    hlo_text_format(text, "scatter_dims_to_operand_dims={%d}, input_batching_dims={%d,%d}, ", (int)dimension,
                    dimension == 0, dimension == 2 ? 1 : 2);
    hlo_text_format(text, "scatter_indices_batching_dims={0,1}, index_vector_dim=3, to_apply=sum\n}\n");
}

Test(pass_scatter, random_ones_keep_their_results) {
    int64_t gone = 0;
    enum { CASES = 200 };
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        uint64_t state = seed * 2654435761U;
        HloText text = {0};
        make_scatter(&state, &text);
        check_same_results("simplify", text.data, 0);
        gone += !has_scatter(text.data);
        hlo_text_free(&text);
    }
    cr_expect(gone > CASES / 2 && gone < CASES, "%d", (int)gone);
}
