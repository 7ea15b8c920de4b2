// SPDX-License-Identifier: Apache-2.0
// No element type and no attribute is taken on trust. Whatever program of tests/support/bent.h the verifier lets
// through, the evaluator and the engine agree about it. Under AddressSanitizer this also shows that nothing reads or
// writes past an array of another type than was expected.
#include <criterion/criterion.h>

#include "tests/support/bent.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

// Both refuse the program, or both run it with equal results.
static void agree(const HloModule *module, const HloInstruction *bent, const char *text) {
    HloText message = {0}, other = {0};
    bool refused = false;
    const CompiledCheck check = {
        .threads = 1, .seed = 7, .tolerance = 1e-4, .refused = &refused, .allow_fallback = true};
    const bool same = compiled_equals_eval(module, &check, &message);
    HloText shape = {0};
    hlo_shape_print(&shape, bent->shape, false);
    cr_expect(same || refused, "%s of shape %s: %s\n%s", bent->name, shape.data, message.data, text);
    if (refused) {
        HloLiteral *results[8] = {NULL};
        cr_expect(!compiled_run(module, &check, results, &other), "%s of shape %s runs, the evaluator says: %s\n%s",
                  bent->name, shape.data, message.data, text);
        for (size_t i = 0; i < HLO_COUNT_OF(results); i++) hlo_literal_free(results[i]);
    }
    hlo_text_free(&shape);
    hlo_text_free(&message);
    hlo_text_free(&other);
}

CaseList(cpu_bent_types, evaluator_and_engine_agree) {
    return cases_numbered((size_t)bent_case_count());
}

CaseTest(const int *number, cpu_bent_types, evaluator_and_engine_agree) {
    bent_for_each(*number, agree);
}

CaseList(cpu_bent_attributes, evaluator_and_engine_agree) {
    return cases_numbered((size_t)bent_form_count());
}

CaseTest(const int *number, cpu_bent_attributes, evaluator_and_engine_agree) {
    bent_attributes_for_each(*number, agree);
}
