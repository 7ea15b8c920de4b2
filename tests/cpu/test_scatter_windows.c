// SPDX-License-Identifier: Apache-2.0
// Scatters whose windows overlap in every way: one thread == several, bit for bit, and == eval. Sums of floats depend
// on their order, so each element must get its updates in the order of the index vectors, whichever thread applies
// them.
#include <criterion/criterion.h>

#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct Windows {
    const char *operand, *updates, *root;
    int indices;  // vectors
    int vector;   // components of one
} Windows;

#define SCATTER(window_dims, inserted, to_operand) \
    "update_window_dims=" window_dims ", inserted_window_dims=" inserted ", scatter_dims_to_operand_dims=" to_operand

static const Windows kWindows[] = {
    // Shifted along their own dimension.
    {"9000", "200,4000", SCATTER("{1}", "{}", "{0}"), 200, 1},
    // Rows that coincide or share nothing.
    {"30,3000", "200,3000", SCATTER("{1}", "{0}", "{0}"), 200, 1},
    // Parts of rows, all of the same columns; then of any.
    {"30,3000", "200,2000", SCATTER("{1}", "{0}", "{0}"), 200, 1},
    {"30,3000", "200,2000", SCATTER("{1}", "{0}", "{0,1}"), 200, 2},
    // Several whole rows at once, which overlap shifted by rows.
    {"30,300", "100,4,300", SCATTER("{1,2}", "{}", "{0}"), 100, 1},
    // Blocks of columns below each other: shifted by rows, and both ways.
    {"40,300", "150,7,256", SCATTER("{1,2}", "{}", "{0}"), 150, 1},
    {"40,300", "150,7,256", SCATTER("{1,2}", "{}", "{0,1}"), 150, 2},
    // Columns that are apart in memory.
    {"300,20", "200,280", SCATTER("{1}", "{1}", "{1}"), 200, 1},
    {"300,20", "200,280", SCATTER("{1}", "{1}", "{1,0}"), 200, 2},
    // Short windows.
    {"500", "9000,3", SCATTER("{1}", "{}", "{0}"), 9000, 1},
};

CaseList(scatter_windows, bug_shifted_windows_were_updated_by_several_workers) {
    return cases_numbered(HLO_COUNT_OF(kWindows));
}

CaseTest(const int *index, scatter_windows, bug_shifted_windows_were_updated_by_several_workers) {
    const Windows *windows = &kWindows[*index];
    HloText text = {0}, message = {0};
    // Products of the arguments' numbers, which spread over all indices in range and sometimes beyond.
    hlo_text_format(&text,
                    "HloModule windows\n\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                    "  ROOT s = f32[] add(a, b)\n}\n\nENTRY main {\n  p = f32[%s] parameter(0)\n"
                    "  i = s32[%d,%d] iota(), iota_dimension=0\n  k = s32[] constant(7919)\n"
                    "  m = s32[%d,%d] broadcast(k), dimensions={}\n  j = s32[%d,%d] multiply(i, m)\n"
                    "  n = s32[] constant(%d)\n  o = s32[%d,%d] broadcast(n), dimensions={}\n"
                    "  q = s32[%d,%d] remainder(j, o)\n  u = f32[%s] parameter(1)\n"
                    "  ROOT r = f32[%s] scatter(p, q, u), %s, index_vector_dim=1, to_apply=add\n}\n",
                    windows->operand, windows->indices, windows->vector, windows->indices, windows->vector,
                    windows->indices, windows->vector, windows->vector == 2 ? 31 : 40, windows->indices,
                    windows->vector, windows->indices, windows->vector, windows->updates, windows->operand,
                    windows->root);
    HloModule *module = compiled_must_parse(text.data);
    HloLiteral *one[1] = {NULL};
    CompiledCheck check = {.seed = 5, .threads = 1};
    cr_assert(compiled_equals_eval(module, &check, &message), "%s\n%s", message.data, text.data);
    cr_assert(compiled_run(module, &check, one, &message), "%s", message.data);
    check.threads = 4;
    for (int run = 0; run < 5; run++) {
        HloLiteral *several[1] = {NULL};
        cr_assert(compiled_run(module, &check, several, &message), "%s", message.data);
        cr_assert(hlo_literal_equal(one[0], several[0]), "other bits with four threads\n%s", text.data);
        hlo_literal_free(several[0]);
    }
    hlo_literal_free(one[0]);
    hlo_module_free(module);
    hlo_text_free(&message);
    hlo_text_free(&text);
}
