// SPDX-License-Identifier: Apache-2.0
// All readers accept the same: a program with bent attributes (tests/support/bent.h) that the verifier accepts is
// written as text, as protobuf and, where StableHLO has its operations, as MLIR, and each is read and verified again
// with the same meaning. An attribute that only one reader refuses, or that a writer changes, fails here.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "hlo/proto/wire.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/support/bent.h"
#include "tests/support/cases.h"

static HloText print(const HloModule *module) {
    HloText text = {0};
    HloPrintOptions options = hlo_print_default();
    options.print_large_constants = true;
    cr_assert_null(hlo_print(module, &options, &text));
    return text;
}

// HloModuleProtoWithConfig, which says how many devices there are.
static void write_proto(const HloModule *module, HloText *bytes) {
    size_t mark = hlo_wire_begin(bytes, 1);
    cr_assert_null(hlo_module_to_proto(module, bytes));
    hlo_wire_end(bytes, mark);
    mark = hlo_wire_begin(bytes, 2);
    cr_assert_null(hlo_module_config_to_proto(module, bytes));
    hlo_wire_end(bytes, mark);
}

// Expects that `module`, which it frees, was read without an error, verifies and prints as `wanted` (unless that is
// NULL).
static void check(HloStatus status, HloModule *module, const char *door, const HloInstruction *bent,
                  const HloText *written, const HloText *wanted) {
    if (!status) status = hlo_verify(module);
    cr_expect_null(status, "%s, %s: %s\n%s", bent->name, door, hlo_status_message(status), written->data);
    if (!status && wanted) {
        HloText again = print(module);
        cr_expect_str_eq(again.data, wanted->data, "%s, %s", bent->name, door);
        hlo_text_free(&again);
    }
    hlo_status_free(status);
    hlo_module_free(module);
}

static void through_every_door(const HloModule *module, const HloInstruction *bent, const char *text) {
    (void)text;
    HloText written = print(module), bytes = {0}, mlir = {0};
    HloModule *once = NULL, *read = NULL;
    // The output is read as a module whose text stays: the first text may leave an order open.
    HloStatus status = hlo_parse(written.data, written.length, NULL, &once);
    if (status) {
        check(status, NULL, "text", bent, &written, NULL);
    } else {
        HloText stays = print(once);
        status = hlo_parse(stays.data, stays.length, NULL, &read);
        check(status, read, "text", bent, &written, &stays);
        read = NULL;
        write_proto(once, &bytes);
        status = hlo_module_from_proto(bytes.data, bytes.length, &read);
        check(status, read, "protobuf", bent, &written, NULL);
        hlo_text_free(&stays);
    }
    hlo_module_free(once);
    status = hlo_module_to_stablehlo_text(module, false, &mlir);
    if (!status) {
        read = NULL;
        status = hlo_module_from_stablehlo_text(mlir.data, mlir.length, NULL, &read);
        check(status, read, "StableHLO", bent, &mlir, NULL);
        status = NULL;
    }
    hlo_status_free(status);
    hlo_text_free(&written);
    hlo_text_free(&bytes);
    hlo_text_free(&mlir);
}

CaseList(stablehlo_bent, what_one_door_takes_all_take) {
    return cases_numbered((size_t)bent_form_count());
}

CaseTest(const int *number, stablehlo_bent, what_one_door_takes_all_take) {
    bent_attributes_for_each(*number, through_every_door);
}
