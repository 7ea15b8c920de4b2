// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzzers that read a program twice: reporting differences, and ending as libFuzzer expects.
#ifndef MESHLO_TESTS_FUZZ_ORACLE_H_
#define MESHLO_TESTS_FUZZ_ORACLE_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "hlo/proto/wire.h"
#include "hlo/text/text.h"

// The location of a check, for the report.
#define FUZZ_MUST(status, text) fuzz_must(status, #status, text)

// Ends the process when `status` is an error: of `what`, which was done with `text` (may be NULL).
static inline void fuzz_must(HloStatus status, const char *what, const HloText *text) {
    if (!status) return;
    fprintf(stderr, "%s: %s\n%.*s\n", what, hlo_status_message(status), text ? (int)text->length : 0,
            text && text->data ? text->data : "");
    abort();
}

// Ends the process when two texts differ, and shows both.
static inline void fuzz_must_equal(const char *what, const HloText *first, const HloText *second) {
    if (first->length == second->length && memcmp(first->data, second->data, first->length) == 0) return;
    fprintf(stderr, "%s: the first\n%.*s\nand the second\n%.*s\n", what, (int)first->length, first->data,
            (int)second->length, second->data);
    abort();
}

// The long form with all constants: the complete text.
static inline HloText fuzz_print(const HloModule *module) {
    HloText text = {0};
    HloPrintOptions options = hlo_print_default();
    options.print_large_constants = true;
    FUZZ_MUST(hlo_print(module, &options, &text), NULL);
    return text;
}

// Ends the process unless the text of `module` is read again, and prints as itself from then on. The module of that
// text is the caller's, as is *text. (Not from the first text on: as with XLA, the order of computations follows calls
// in the order of instructions, which the text may change once.)
static inline HloModule *fuzz_text_round_trip(const HloModule *module, HloText *text) {
    HloModule *once = NULL, *twice = NULL;
    HloText first = fuzz_print(module);
    FUZZ_MUST(hlo_parse(first.data, first.length, NULL, &once), &first);
    *text = fuzz_print(once);
    FUZZ_MUST(hlo_parse(text->data, text->length, NULL, &twice), text);
    HloText second = fuzz_print(twice);
    fuzz_must_equal("text", text, &second);
    hlo_text_free(&first);
    hlo_text_free(&second);
    hlo_module_free(once);
    return twice;
}

// HloModuleProtoWithConfig: the parts of a module that protobuf can express.
static inline HloText fuzz_encode(const HloModule *module) {
    HloText bytes = {0};
    size_t mark = hlo_wire_begin(&bytes, 1);
    FUZZ_MUST(hlo_module_to_proto(module, &bytes), NULL);
    hlo_wire_end(&bytes, mark);
    mark = hlo_wire_begin(&bytes, 2);
    FUZZ_MUST(hlo_module_config_to_proto(module, &bytes), NULL);
    hlo_wire_end(&bytes, mark);
    return bytes;
}

// Ends the process unless `module` comes out of protobuf with the text that it went in with. The module that came out
// is the caller's.
static inline HloModule *fuzz_proto_round_trip(const HloModule *module, const HloText *wire) {
    HloModule *decoded = NULL;
    HloText text = fuzz_print(module);
    FUZZ_MUST(hlo_module_from_proto(wire->data, wire->length, &decoded), &text);
    HloText printed = fuzz_print(decoded);
    fuzz_must_equal("through protobuf", &text, &printed);
    hlo_text_free(&text);
    hlo_text_free(&printed);
    return decoded;
}

#endif
