// SPDX-License-Identifier: Apache-2.0
#include "tests/stablehlo/golden.h"

#include <criterion/criterion.h>

void must(HloStatus status, const char *what) {
    char *text = hlo_status_to_text(status);
    cr_assert(!status, "%s: %s", what, text);
    hlo_free(text);
}

HloText print_module(const HloModule *module, const HloPrintOptions *options) {
    HloText text = {0};
    must(hlo_print(module, options, &text), "print");
    return text;
}
