// SPDX-License-Identifier: Apache-2.0
// Any bytes as HloModuleProto: a module that is read and verifies is written again, and reads as the same bytes and the
// same text.
#include "hlo/verify/verify.h"
#include "tests/fuzz/oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A module that was read, written and read: from here on text and bytes stay, since its instructions are in the order
// of writing and its entry has layouts.
static void check_again(HloModule *module) {
    HloText first = fuzz_encode(module);
    HloModule *again = fuzz_proto_round_trip(module, &first);
    HloText second = fuzz_encode(again);
    if (first.length != second.length || memcmp(first.data, second.data, first.length) != 0) abort();
    hlo_text_free(&first);
    hlo_text_free(&second);
    hlo_module_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloModule *module = NULL, *again = NULL;
    HloStatus status = hlo_module_from_proto((const char *)data, size, &module);
    if (!status) status = hlo_verify(module);
    if (!status) {
        HloText wire = fuzz_encode(module);
        FUZZ_MUST(hlo_module_from_proto(wire.data, wire.length, &again), NULL);
        hlo_text_free(&wire);
        check_again(again);
    }
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_module_free(again);
    return 0;
}
