// SPDX-License-Identifier: Apache-2.0
// Any bytes as HloModuleProto: what is read and verifies is written again, and reads as the same bytes.
#include <stdlib.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "hlo/verify/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static HloText write_module(const HloModule *module) {
    HloText bytes = {0};
    if (hlo_module_to_proto(module, &bytes)) abort();
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloModule *module = NULL, *again = NULL;
    HloStatus status = hlo_module_from_proto((const char *)data, size, &module);
    if (!status) status = hlo_verify(module);
    if (!status) {
        HloText first = write_module(module);
        if (hlo_module_from_proto(first.data, first.length, &again)) abort();
        HloText second = write_module(again);
        if (first.length != second.length || memcmp(first.data, second.data, first.length) != 0) abort();
        hlo_text_free(&first);
        hlo_text_free(&second);
    }
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_module_free(again);
    return 0;
}
