// SPDX-License-Identifier: Apache-2.0
// The part of compiled.h that fails a Criterion test; the rest serves the fuzzers too.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/compiled.h"

HloModule *compiled_must_parse(const char *text) {
    HloText message = {0};
    HloModule *module = compiled_parse(text, &message);
    cr_assert_not_null(module, "%s", message.data);
    hlo_text_free(&message);
    return module;
}

TargetExecutable *compiled_must_compile(TargetClient *client, const char *text, const TargetCompileOptions *options) {
    HloModule *module = compiled_must_parse(text);
    TargetExecutable *executable = NULL;
    must_succeed(target_compile(client, module, options, &executable));
    hlo_module_free(module);
    return executable;
}

void must_succeed(HloStatus status) {
    cr_assert_null(status, "%s", hlo_status_message(status));
}

void must_fail(HloStatus status, HloCode code, const char *words) {
    cr_assert_not_null(status, "not refused: %s", words);
    cr_expect_eq(hlo_status_code(status), code, "%s", hlo_status_message(status));
    cr_expect_not_null(strstr(hlo_status_message(status), words), "%s", hlo_status_message(status));
    hlo_status_free(status);
}
