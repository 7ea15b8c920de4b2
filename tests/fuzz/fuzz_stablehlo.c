// SPDX-License-Identifier: Apache-2.0
// Any bytes as StableHLO, text or bytecode: reading never does harm; a module that is accepted and verifies is written
// as text and bytecode that are accepted again, and mean the same.
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/verify/verify.h"
#include "tests/fuzz/oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static HloStatus read_any(const void *data, size_t size, HloModule **module) {
    if (hlo_looks_like_mlir_bytecode(data, size)) return hlo_module_from_stablehlo_bytecode(data, size, module);
    return hlo_module_from_stablehlo_text(data, size, NULL, module);
}

// The text of a module; false if StableHLO cannot say it.
static bool write_text(const HloModule *module, HloText *text) {
    HloStatus status = hlo_module_to_stablehlo_text(module, false, text);
    bool written = !status;
    hlo_status_free(status);
    return written;
}

static void check_again(const HloText *written, const HloText *expected) {
    HloModule *again = NULL;
    HloText text = {0};
    FUZZ_MUST(read_any(written->data, written->length, &again), expected);
    FUZZ_MUST(hlo_module_to_stablehlo_text(again, false, &text), expected);
    fuzz_must_equal("StableHLO", expected, &text);
    hlo_text_free(&text);
    hlo_module_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloModule *module = NULL;
    HloStatus status = read_any(data, size, &module);
    if (!status) status = hlo_verify(module);
    HloText text = {0}, bytes = {0};
    if (!status && write_text(module, &text)) {
        check_again(&text, &text);
        status = hlo_module_to_stablehlo_bytecode(module, NULL, &bytes);
        if (!status) check_again(&bytes, &text);
    }
    hlo_status_free(status);
    hlo_text_free(&text);
    hlo_text_free(&bytes);
    hlo_module_free(module);
    return 0;
}
