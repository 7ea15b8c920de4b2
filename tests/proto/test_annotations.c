// SPDX-License-Identifier: Apache-2.0
// Annotations in protobuf: payloads of metadata, which are numbers of a list of the module, and the modules of
// recoveries.
#include <criterion/criterion.h>

#include "hlo/hlo.h"
#include "hlo/proto/proto.h"
#include "hlo/proto/wire.h"

// From as_serialized_hlo_module_proto() of jaxlib 0.10.2: three instructions with payloads "xx", "" and "xx", and a
// sharding whose metadata has one in place; and a module with a recovery that has a module.
// clang-format off
static const unsigned char jaxlib_payloads[] = {
    10, 1, 109, 18, 1, 101, 26, 163, 1, 10, 1, 101, 18, 40, 10, 1, 112, 18, 9, 112, 97, 114, 97, 109, 101,
    116, 101, 114, 26, 7, 16, 11, 42, 3, 128, 1, 1, 58, 9, 18, 2, 97, 97, 162, 1, 2, 16, 0, 162, 4, 0, 146,
    5, 0, 18, 37, 10, 1, 113, 18, 3, 97, 98, 115, 26, 7, 16, 11, 42, 3, 128, 1, 1, 58, 5, 162, 1, 2, 16, 1,
    152, 2, 1, 162, 2, 1, 0, 162, 4, 0, 146, 5, 0, 18, 52, 10, 1, 110, 18, 6, 110, 101, 103, 97, 116, 101,
    26, 7, 16, 11, 42, 3, 128, 1, 1, 58, 5, 162, 1, 2, 16, 0, 152, 2, 2, 162, 2, 1, 1, 194, 2, 9, 58, 7,
    162, 1, 4, 10, 2, 105, 110, 162, 4, 0, 146, 5, 0, 34, 21, 10, 7, 16, 11, 42, 3, 128, 1, 1, 18, 7, 16,
    11, 42, 3, 128, 1, 1, 26, 1, 112, 48, 2, 34, 22, 10, 7, 16, 11, 42, 3, 128, 1, 1, 18, 7, 16, 11, 42, 3,
    128, 1, 1, 26, 2, 112, 48, 66, 0, 146, 1, 0, 154, 1, 0, 178, 1, 2, 120, 120, 178, 1, 0,
};
static const unsigned char jaxlib_recovery[] = {
    10, 1, 109, 18, 1, 101, 26, 59, 10, 1, 101, 18, 31, 10, 1, 112, 18, 9, 112, 97, 114, 97, 109, 101, 116,
    101, 114, 26, 7, 16, 11, 42, 3, 128, 1, 1, 58, 0, 162, 4, 0, 146, 5, 0, 34, 21, 10, 7, 16, 11, 42, 3,
    128, 1, 1, 18, 7, 16, 11, 42, 3, 128, 1, 1, 26, 1, 112, 34, 22, 10, 7, 16, 11, 42, 3, 128, 1, 1, 18, 7,
    16, 11, 42, 3, 128, 1, 1, 26, 2, 112, 48, 66, 0, 146, 1, 0, 154, 1, 0, 162, 1, 118, 10, 116, 10, 6, 10,
    1, 97, 18, 1, 1, 18, 3, 10, 1, 98, 26, 101, 10, 1, 113, 18, 1, 101, 26, 59, 10, 1, 101, 18, 31, 10, 1,
    112, 18, 9, 112, 97, 114, 97, 109, 101, 116, 101, 114, 26, 7, 16, 11, 42, 3, 128, 1, 1, 58, 0, 162, 4,
    0, 146, 5, 0, 34, 21, 10, 7, 16, 11, 42, 3, 128, 1, 1, 18, 7, 16, 11, 42, 3, 128, 1, 1, 26, 1, 112, 34,
    22, 10, 7, 16, 11, 42, 3, 128, 1, 1, 18, 7, 16, 11, 42, 3, 128, 1, 1, 26, 2, 112, 48, 40, 1, 66, 0, 146,
    1, 0, 154, 1, 0,
};
// clang-format on

static HloModule *read_bytes(const void *bytes, size_t length) {
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_proto(bytes, length, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return module;
}

static void expect_text(const HloModule *module, const char *part) {
    HloText text = {0};
    cr_assert_null(hlo_print(module, NULL, &text));
    cr_expect(strstr(text.data, part), "no '%s' in %s", part, text.data);
    hlo_text_free(&text);
}

static void expect_parts(const HloModule *module, const char *const *parts, size_t count) {
    for (size_t i = 0; i < count; i++) expect_text(module, parts[i]);
}

// Reads the bytes, writes and reads them again; the text of both has the parts.
static void expect_both_ways(const void *bytes, size_t length, const char *const *parts, size_t count) {
    HloModule *module = read_bytes(bytes, length);
    HloText written = {0};
    expect_parts(module, parts, count);
    cr_assert_null(hlo_module_to_proto(module, &written));
    HloModule *again = read_bytes(written.data, written.length);
    expect_parts(again, parts, count);
    hlo_module_free(again);
    hlo_module_free(module);
    hlo_text_free(&written);
}

Test(proto_annotations, payloads_of_jaxlib) {
    static const char *const parts[] = {"metadata={op_name=\"aa\" metadata_payload=\"xx\"}",
                                        "abs(%p), metadata={metadata_payload=\"\"}",
                                        ("sharding={replicated metadata={metadata_payload=\"in\"}}, "
                                         "metadata={metadata_payload=\"xx\"}")};
    expect_both_ways(jaxlib_payloads, sizeof(jaxlib_payloads), parts, HLO_COUNT_OF(parts));
}

Test(proto_annotations, a_module_lists_each_payload_once) {
    HloModule *module = read_bytes(jaxlib_payloads, sizeof(jaxlib_payloads));
    HloText written = {0};
    cr_assert_null(hlo_module_to_proto(module, &written));
    const unsigned char *bytes = (const unsigned char *)written.data;
    HloWireReader reader = hlo_wire_reader(bytes, (HloSpan){bytes, written.length});
    HloWireField field;
    HloStatus status;
    int64_t payloads = 0;
    while (hlo_wire_next(&reader, &field, &status)) payloads += field.number == 22;
    cr_assert_null(status);
    cr_expect_eq(payloads, 2);
    hlo_module_free(module);
    hlo_text_free(&written);
}

Test(proto_annotations, a_recovery_of_jaxlib) {
    static const char *const parts[] = {"  {\"a\" {1}} : {\"b\"},\n", "    HloModule q, "};
    expect_both_ways(jaxlib_recovery, sizeof(jaxlib_recovery), parts, HLO_COUNT_OF(parts));
}

// An instruction may name its payload or contain it, and a backend configuration may be a payload too (field 99).
static void write_module(HloText *text, int32_t number, bool in_place, int64_t id, int payloads) {
    hlo_wire_bytes(text, 1, "m", 1);
    size_t computation = hlo_wire_begin(text, 3), mark = hlo_wire_begin(text, 2);
    hlo_wire_bytes(text, 1, "p", 1);
    hlo_wire_bytes(text, 2, "parameter", 9);
    size_t shape = hlo_wire_begin(text, 3);
    hlo_wire_varint(text, 2, 11);
    hlo_wire_end(text, shape);
    size_t metadata = hlo_wire_begin(text, number == 99 ? 99 : 7);
    size_t payload = number == 99 ? 0 : hlo_wire_begin(text, number);
    if (in_place) hlo_wire_bytes(text, 1, "{here}", 6);
    if (!in_place) hlo_wire_varint_always(text, 2, (uint64_t)id);
    if (payload) hlo_wire_end(text, payload);
    hlo_wire_end(text, metadata);
    hlo_wire_end(text, mark);
    hlo_wire_bytes(text, 1, "e", 1);
    hlo_wire_end(text, computation);
    for (int i = 0; i < payloads; i++) hlo_wire_bytes(text, 22, i ? "{second}" : "first", i ? 8 : 5);
    hlo_wire_varint_always(text, 6, 0);
}

Test(proto_annotations, a_payload_is_named_or_contained) {
    static const struct {
        int32_t number;
        bool in_place;
        int64_t id;
        int payloads;
        const char *part;  // NULL: refused
    } cases[] = {{20, true, 0, 0, "metadata={metadata_payload=\"{here}\"}"},
                 {20, false, 0, 2, "metadata={metadata_payload=\"first\"}"},
                 {20, false, 1, 2, "metadata={metadata_payload=\"{second}\"}"},
                 {20, false, 2, 2, NULL},
                 {20, false, -1, 2, NULL},
                 {20, false, 0, 0, NULL},
                 {99, true, 0, 0, "backend_config={here}"},
                 {99, false, 0, 2, "backend_config=\"first\""},
                 {99, false, 1, 2, "backend_config={second}"},
                 {99, false, 7, 2, NULL}};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloText text = {0};
        HloModule *module = NULL;
        write_module(&text, cases[i].number, cases[i].in_place, cases[i].id, cases[i].payloads);
        HloStatus status = hlo_module_from_proto(text.data, text.length, &module);
        if (cases[i].part) {
            cr_assert_null(status, "%zu: %s", i, hlo_status_message(status));
            expect_text(module, cases[i].part);
        } else {
            cr_assert_not_null(status, "%zu", i);
            cr_expect(strstr(hlo_status_message(status), "is named, but the module has"), "%s",
                      hlo_status_message(status));
        }
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// Modules of recoveries that have recoveries, as deep as messages may nest.
Test(proto_annotations, recoveries_nest_as_deep_as_messages) {
    HloText text = {0};
    hlo_text_append(&text, (const char *)jaxlib_recovery, sizeof(jaxlib_recovery));
    HloStatus status = NULL;
    int depth = 1;
    for (; depth < 200 && !status; depth++) {
        HloText outer = {0};
        hlo_text_append(&outer, (const char *)jaxlib_payloads, sizeof(jaxlib_payloads));
        size_t table = hlo_wire_begin(&outer, 20), entry = hlo_wire_begin(&outer, 1), inner = hlo_wire_begin(&outer, 3);
        hlo_text_append(&outer, text.data, text.length);
        hlo_wire_end(&outer, inner);
        hlo_wire_end(&outer, entry);
        hlo_wire_end(&outer, table);
        hlo_text_free(&text);
        text = outer;
        HloModule *module = NULL;
        status = hlo_module_from_proto(text.data, text.length, &module);
        hlo_module_free(module);
    }
    cr_expect(depth > 20 && depth < 200, "%d", depth);
    cr_assert_not_null(status);
    cr_expect(strstr(hlo_status_message(status), "nest deeper"), "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_text_free(&text);
}
