// SPDX-License-Identifier: Apache-2.0
// Arrays without elements: every op and every custom call of the tables runs on them, in the engine as in the
// evaluator. Buffers without bytes may share an address or have none, which kernels must not care about.
#include <criterion/criterion.h>

#include "hlo/verify/verify.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"
#include "tests/support/shaped.h"

// True where the program is valid and the evaluator has a result.
static bool runs(const char *text, void *context) {
    const bool *must = context;
    HloText message = {0}, failure = {0};
    HloModule *module = compiled_parse(text, &message);
    HloStatus status = module ? hlo_verify(module) : NULL;
    bool accepted = module && !status, refused = false;
    cr_expect(accepted || !*must, "%s%s\n%s", message.data ? message.data : "", hlo_status_message(status), text);
    if (accepted) {
        const CompiledCheck check = {
            .seed = 5, .threads = 2, .tolerance = 1e-4, .allow_fallback = true, .refused = &refused};
        const bool equal = compiled_equals_eval(module, &check, &failure);
        cr_expect(equal || refused, "%s\n%s", failure.data, text);
        cr_expect(!refused || !*must, "%s\n%s", failure.data, text);
        accepted = equal;
    }
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&message);
    hlo_text_free(&failure);
    return accepted;
}

CaseList(empty, custom_calls_run) {
    return cases_numbered((size_t)shaped_custom_call_rows());
}

CaseTest(const int *row, empty, custom_calls_run) {
    bool must = true;
    cr_expect_gt(shaped_custom_calls(*row, runs, &must), 0, "%s has no program here: tests/support/shaped.c",
                 shaped_custom_call_target(*row));
}

CaseList(empty, operations_run) {
    return cases_numbered(HLO_OPCODE_COUNT);
}

CaseTest(const int *opcode, empty, operations_run) {
    static const HloType types[] = {HLO_F32, HLO_BF16, HLO_C64, HLO_S32, HLO_PRED, HLO_F64, HLO_S4};
    bool must = false;
    int valid = 0;
    for (size_t t = 0; t < HLO_COUNT_OF(types); t++) valid += shaped_forms((HloOpcode)*opcode, types[t], runs, &must);
    cr_expect(valid > 0 || shaped_is_never_empty((HloOpcode)*opcode), "%s ran on no empty array",
              hlo_op_text((HloOpcode)*opcode));
}
