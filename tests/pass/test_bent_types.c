// SPDX-License-Identifier: Apache-2.0
// Passes of other compilers change the precision of floats in place, and the verifier accepts these programs
// (tests/support/bent.h). Every pass of ours must leave them as valid as they were.
#include <criterion/criterion.h>

#include "hlo/pass/pass.h"
#include "tests/support/bent.h"
#include "tests/support/cases.h"

static void run(const HloModule *module, const char *name, const HloInstruction *bent, const char *text) {
    HloModule *copy = hlo_module_clone(module);
    cr_assert(copy);
    HloStatus status = hlo_run_passes(copy, &name, 1, NULL);
    if (status) {
        HloText shape = {0};
        hlo_shape_print(&shape, bent->shape, false);
        cr_expect_neq(hlo_status_code(status), HLO_INTERNAL, "%s of shape %s: %s\n%s", bent->name, shape.data,
                      hlo_status_message(status), text);
        hlo_text_free(&shape);
    }
    hlo_status_free(status);
    hlo_module_free(copy);
}

static void run_every_pass(const HloModule *module, const HloInstruction *bent, const char *text) {
    const HloPass *pass;
    const HloPipeline *pipeline;
    for (int64_t i = 0; (pass = hlo_pass_at(i)) != NULL; i++) run(module, pass->name, bent, text);
    for (int64_t i = 0; (pipeline = hlo_pipeline_at(i)) != NULL; i++) run(module, pipeline->name, bent, text);
}

CaseList(pass_bent_types, valid_programs_stay_valid) {
    return cases_numbered((size_t)bent_case_count());
}

CaseTest(const int *number, pass_bent_types, valid_programs_stay_valid) {
    bent_for_each(*number, run_every_pass);
}
