// SPDX-License-Identifier: Apache-2.0
// compiled == eval over random programs. MESHLO_RANDOM_PROGRAMS sets their number.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/support/compiled.h"
#include "tests/support/random_module.h"

static int64_t program_count(void) {
    const char *text = getenv("MESHLO_RANDOM_PROGRAMS");
    return text ? atoll(text) : 1500;
}

Test(random, compiled_equals_eval) {
    for (int64_t seed = 0; seed < program_count(); seed++) {
        HloText text = {0}, message = {0};
        random_module((uint64_t)seed, 10 + (int)(seed % 30), &text);
        HloModule *module = compiled_parse(text.data, &message);
        cr_assert_not_null(module, "seed %d: %s", (int)seed, message.data);
        const CompiledCheck check = {.seed = (uint64_t)seed, .threads = 1};
        cr_assert(compiled_equals_eval(module, &check, &message), "seed %d: %s\n%s", (int)seed, message.data,
                  text.data);
        hlo_module_free(module);
        hlo_text_free(&text);
        hlo_text_free(&message);
    }
}
