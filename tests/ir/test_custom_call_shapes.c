// SPDX-License-Identifier: Apache-2.0
// Known custom calls whose shapes contradict their signature are refused by the verifier, whichever of their arrays is
// wrong: one program for each size and each type of each row of hlo/ir/custom_calls.def.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/verify/verify.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"
#include "tests/support/shaped.h"

CaseList(custom_call_shapes, are_verified) {
    return cases_numbered((size_t)shaped_custom_call_rows());
}

static bool is_refused(const char *text, void *context) {
    HloModule *module = compiled_must_parse(text);
    HloStatus status = hlo_verify(module);
    (void)context;
    cr_expect(status && hlo_status_code(status) == HLO_INVALID_ARGUMENT, "accepted:\n%s", text);
    if (status)
        cr_expect(strstr(hlo_status_message(status), "are inconsistent"), "%s\n%s", hlo_status_message(status), text);
    hlo_status_free(status);
    hlo_module_free(module);
    return true;
}

CaseTest(const int *row, custom_call_shapes, are_verified) {
    shaped_bent_custom_calls(*row, is_refused, NULL);
}

// Sizes that are not known yet contradict no others.
Test(custom_call_shapes, unknown_sizes_pass) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nENTRY e {\n p = f32[?,3,3] parameter(0)\n ROOT r = (f32[?,3,3], f32[?,3]) custom-call(p), "
        "custom_call_target=\"Eigh\"\n}\n");
    must_succeed(hlo_verify(module));
    hlo_module_free(module);
}
