// SPDX-License-Identifier: Apache-2.0
// The part of the harness that makes programs of HLO text, which needs the library and Criterion.
#include <criterion/criterion.h>

#include "hlo/proto/proto.h"
#include "tests/pjrt/harness.h"
#include "tests/support/compiled.h"

PjrtLoadedExecutable *harness_compile_text(PjrtClient *client, const char *text) {
    PjrtError *error;
    PjrtLoadedExecutable *executable = harness_try_text(client, text, &error);
    harness_must(error, "compile");
    return executable;
}

PjrtLoadedExecutable *harness_try_text(PjrtClient *client, const char *text, PjrtError **error) {
    HloText message = {0}, bytes = {0};
    HloModule *module = compiled_parse(text, &message);
    cr_assert(module, "%s", message.data);
    cr_assert(!hlo_module_to_proto(module, &bytes));
    PjrtLoadedExecutable *executable = harness_compile_as(client, bytes.data, bytes.length, "hlo", 1, error);
    hlo_text_free(&bytes);
    hlo_module_free(module);
    return executable;
}
