// SPDX-License-Identifier: Apache-2.0
// The verifier lets float types mix; the engine once read f64 operands as the f32 that the result said.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "targets/client.h"

static void refuses(const char *text) {
    HloModule *module = NULL;
    TargetClient *client = NULL;
    TargetExecutable *executable = NULL;
    HloParseOptions options = {0};
    HloStatus status = hlo_parse(text, strlen(text), &options, &module);
    cr_assert(!status, "%s", hlo_status_message(status));
    status = hlo_verify(module);
    cr_assert(!status, "%s", hlo_status_message(status));
    cr_assert(!target_client_new("cpu:1", &client));
    status = target_compile(client, module, NULL, &executable);
    cr_assert_eq(hlo_status_code(status), HLO_UNIMPLEMENTED, "%s", hlo_status_message(status));
    cr_assert(strstr(hlo_status_message(status), "mixture of float types"), "%s", hlo_status_message(status));
    hlo_status_free(status);
    target_client_release(client);
    hlo_module_free(module);
}

Test(cpu_mixed_types, f32_result_of_f64_operand_is_refused) {
    refuses("HloModule m\nENTRY e { p = f64[4] parameter(0)\nROOT r = f32[4] log(p) }");
    refuses("HloModule m\nENTRY e { p = f64[4] parameter(0)\nROOT r = f32[4] add(p, p) }");
}
