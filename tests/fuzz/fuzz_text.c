// SPDX-License-Identifier: Apache-2.0
// Any bytes: parsing never does harm, and what is accepted prints as text that is accepted and prints the same again.
#include <stdlib.h>

#include "hlo/text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static HloText print(const HloModule *module, const HloPrintOptions *options) {
    HloText text = {0};
    HloStatus status = hlo_print(module, options, &text);
    if (status) abort();
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloModule *module, *again;
    HloStatus status = hlo_parse((const char *)data, size, NULL, &module);
    if (status) {
        hlo_status_free(status);
        return 0;
    }
    HloPrintOptions canonical = hlo_print_canonical();
    HloText other = print(module, &canonical);
    HloText first = print(module, NULL);
    status = hlo_parse(first.data, first.length, NULL, &again);
    if (status) abort();
    HloText second = print(again, NULL);
    if (first.length != second.length || memcmp(first.data, second.data, first.length) != 0) abort();
    hlo_text_free(&other);
    hlo_text_free(&first);
    hlo_text_free(&second);
    hlo_module_free(module);
    hlo_module_free(again);
    return 0;
}
