// SPDX-License-Identifier: Apache-2.0
// Protobuf as other programs write it.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/hlo.h"
#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "tests/support/cases.h"

// An all-reduce over replica_groups=[2,2]<=[2,2]T(1,0), from as_serialized_hlo_module_proto() of jaxlib 0.10.2.
// clang-format off
static const unsigned char jaxlib_iota_groups[] = {
    10, 1, 109, 18, 1, 101, 26, 152, 1, 10, 3, 97, 100, 100, 18, 31, 10, 1, 120, 18, 9, 112, 97, 114,
    97, 109, 101, 116, 101, 114, 26, 7, 16, 11, 42, 3, 128, 1, 1, 58, 0, 162, 4, 0, 146, 5, 0, 18,
    36, 10, 1, 121, 18, 9, 112, 97, 114, 97, 109, 101, 116, 101, 114, 26, 7, 16, 11, 42, 3, 128, 1, 1,
    58, 0, 72, 1, 152, 2, 1, 162, 4, 0, 146, 5, 0, 18, 37, 10, 5, 97, 100, 100, 46, 49, 18, 3,
    97, 100, 100, 26, 7, 16, 11, 42, 3, 128, 1, 1, 58, 0, 152, 2, 2, 162, 2, 2, 0, 1, 162, 4,
    0, 146, 5, 0, 34, 33, 10, 7, 16, 11, 42, 3, 128, 1, 1, 10, 7, 16, 11, 42, 3, 128, 1, 1,
    18, 7, 16, 11, 42, 3, 128, 1, 1, 26, 1, 120, 26, 1, 121, 48, 2, 26, 184, 1, 10, 1, 101, 18,
    47, 10, 1, 112, 18, 9, 112, 97, 114, 97, 109, 101, 116, 101, 114, 26, 16, 16, 11, 26, 1, 4, 42, 6,
    10, 1, 0, 128, 1, 1, 50, 1, 0, 58, 0, 152, 2, 128, 128, 128, 128, 16, 162, 4, 0, 146, 5, 0,
    18, 81, 10, 1, 114, 18, 10, 97, 108, 108, 45, 114, 101, 100, 117, 99, 101, 26, 16, 16, 11, 26, 1, 4,
    42, 6, 10, 1, 0, 128, 1, 1, 50, 1, 0, 58, 0, 208, 1, 1, 152, 2, 129, 128, 128, 128, 16, 162,
    2, 5, 128, 128, 128, 128, 16, 178, 2, 1, 0, 162, 4, 0, 184, 4, 1, 146, 5, 0, 226, 5, 12, 8,
    2, 16, 2, 26, 2, 2, 2, 34, 2, 1, 0, 34, 39, 10, 16, 16, 11, 26, 1, 4, 42, 6, 10, 1,
    0, 128, 1, 1, 50, 1, 0, 18, 16, 16, 11, 26, 1, 4, 42, 6, 10, 1, 0, 128, 1, 1, 50, 1,
    0, 26, 1, 112, 40, 1, 48, 129, 128, 128, 128, 16, 34, 40, 10, 16, 16, 11, 26, 1, 4, 42, 6, 10,
    1, 0, 128, 1, 1, 50, 1, 0, 18, 16, 16, 11, 26, 1, 4, 42, 6, 10, 1, 0, 128, 1, 1, 50,
    1, 0, 26, 2, 112, 48, 48, 1, 66, 0, 146, 1, 0, 154, 1, 0,
};
// clang-format on

static HloModule *read_bytes(const void *bytes, size_t length) {
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_proto(bytes, length, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return module;
}

static HloText print(const HloModule *module) {
    HloPrintOptions options = hlo_print_short();
    HloText text = {0};
    cr_assert_null(hlo_print(module, &options, &text));
    return text;
}

static void expect_text(const HloModule *module, const char *part) {
    HloText text = print(module);
    cr_expect(strstr(text.data, part), "no '%s' in %s", part, text.data);
    hlo_text_free(&text);
}

// XLA moved iota groups to a field of their own in 2026: without it every collective seemed to be over all devices.
Test(proto, iota_groups_of_newer_writers) {
    HloModule *module = read_bytes(jaxlib_iota_groups, sizeof(jaxlib_iota_groups));
    expect_text(module, "replica_groups=[2,2]<=[2,2]T(1,0)");
    HloText bytes = {0};
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    const unsigned char field[] = {0xe2, 5, 12, 8, 2, 16, 2, 26, 2, 2, 2, 34, 2, 1, 0};  // as jaxlib writes it
    cr_expect(memmem(bytes.data, bytes.length, field, sizeof(field)), "written without the newer field");
    hlo_text_free(&bytes);
    hlo_module_free(module);
}

static const char *const forms[] = {"{{0,1},{2,3}}", "[2,2]<=[2,2]T(1,0)", "[1,4]<=[4]", "mesh['a'=2,'b'=2] {'b'}",
                                    "mesh['a'=4] {'a':(1)2}"};

// Appends a field of `length` bytes; all that are needed here are shorter than 2^14.
static void wrap(HloText *bytes, int number, const void *data, size_t length) {
    const char head[] = {(char)(number << 3 | 2), (char)((length & 0x7F) | 0x80), (char)(length >> 7)};
    hlo_text_append(bytes, head, sizeof(head));
    hlo_text_append(bytes, data, length);
}

// The arguments of a snapshot have the field number of another message's configuration.
Test(proto, messages_around_a_module) {
    static const unsigned char config[] = {4 << 3, 2, 5 << 3, 4, 7 << 3, 1};  // 2 replicas of 4 partitions
    HloText proto = {0}, with_config = {0}, snapshot = {0};
    wrap(&proto, 1, jaxlib_iota_groups, sizeof(jaxlib_iota_groups));
    wrap(&with_config, 1, jaxlib_iota_groups, sizeof(jaxlib_iota_groups));
    wrap(&with_config, 2, config, sizeof(config));
    wrap(&snapshot, 1, proto.data, proto.length);
    wrap(&snapshot, 2, config, sizeof(config));
    const HloText *const all[] = {&proto, &with_config, &snapshot};
    for (size_t i = 0; i < HLO_COUNT_OF(all); i++) {
        cr_expect(hlo_looks_like_proto(all[i]->data, all[i]->length), "message %zu", i);
        HloModule *module = read_bytes(all[i]->data, all[i]->length);
        expect_text(module, "replica_groups=[2,2]<=[2,2]T(1,0)");
        cr_expect_eq(module->replica_count, i == 1 ? 2 : 1);
        cr_expect_eq(module->num_partitions, i == 1 ? 4 : 1);
        hlo_module_free(module);
    }
    hlo_text_free(&proto);
    hlo_text_free(&with_config);
    hlo_text_free(&snapshot);
}

// Fields without words in text: the seed, a device type and debug options of a configuration, the sharding of a
// parameter and a profile of a module, and fields that are newer than this reader. They were dropped in silence.
Test(proto, fields_without_words_survive) {
    static const unsigned char config[] = {4 << 3, 2, 2 << 3, 7, 0x6A, 3,    't', 'p', 'u',
                                           0x72,   2, 8,      1, 0xC2, 0x3E, 1,   5};
    static const unsigned char config_rest[] = {2 << 3, 7, 0x6A, 3, 't', 'p', 'u', 0x72, 2, 8, 1, 0xC2, 0x3E, 1, 5};
    static const unsigned char module_rest[] = {0x72, 2, 8, 1, 0x6A, 2, 8, 1, 11 << 3, 1, 0xC2, 0x3E, 1, 5};
    HloText message = {0}, with_config = {0}, written = {0}, again = {0};
    hlo_text_append(&message, (const char *)jaxlib_iota_groups, sizeof(jaxlib_iota_groups));
    hlo_text_append(&message, (const char *)module_rest, sizeof(module_rest));
    wrap(&with_config, 1, message.data, message.length);
    wrap(&with_config, 2, config, sizeof(config));
    HloModule *module = read_bytes(with_config.data, with_config.length);
    HloModule *copy = hlo_module_clone(module);  // what passes and tools work on
    cr_assert_null(hlo_module_to_proto_with_config(copy, &written));
    cr_expect(memmem(written.data, written.length, module_rest, sizeof(module_rest)), "the module's are lost");
    cr_expect(memmem(written.data, written.length, config_rest, sizeof(config_rest)), "the configuration's are lost");
    HloModule *read = read_bytes(written.data, written.length);
    cr_expect_eq(read->replica_count, 2);
    cr_expect_eq(read->proto_rest.length, sizeof(module_rest));
    cr_expect_eq(read->config_rest.length, sizeof(config_rest));
    cr_assert_null(hlo_module_to_proto_with_config(read, &again));
    cr_expect_eq(again.length, written.length);
    cr_expect_eq(memcmp(again.data, written.data, written.length), 0, "it does not settle");
    hlo_module_free(module);
    hlo_module_free(copy);
    hlo_module_free(read);
    hlo_text_free(&message);
    hlo_text_free(&with_config);
    hlo_text_free(&written);
    hlo_text_free(&again);
}

Test(proto, every_form_of_groups_survives) {
    for (size_t i = 0; i < HLO_COUNT_OF(forms); i++) {
        HloText source = {0}, bytes = {0};
        hlo_text_format(&source,
                        "HloModule m, num_partitions=4\nsum {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
                        " ROOT z = f32[] add(x, y)\n}\nENTRY e {\n p = f32[4] parameter(0)\n ROOT r = f32[4] "
                        "all-reduce(p), channel_id=1, replica_groups=%s, use_global_device_ids=true, to_apply=sum\n}\n",
                        forms[i]);
        HloModule *module = NULL;
        HloStatus status = hlo_parse(source.data, source.length, NULL, &module);
        cr_assert_null(status, "%s", hlo_status_message(status));
        cr_assert_null(hlo_module_to_proto(module, &bytes));
        HloModule *again = read_bytes(bytes.data, bytes.length);
        HloText first = print(module), second = print(again);
        const char *one = strstr(first.data, "replica_groups="), *two = strstr(second.data, "replica_groups=");
        cr_assert(one && two);
        cr_expect_eq(strncmp(one, two, strcspn(one, "\n")), 0, "%s became %s", one, two);
        hlo_text_free(&first);
        hlo_text_free(&second);
        hlo_text_free(&source);
        hlo_text_free(&bytes);
        hlo_module_free(module);
        hlo_module_free(again);
    }
}

// A number where an opcode's text should be: the fuzzer read through a null pointer.
static void expect_text_back(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloText bytes = {0};
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    HloModule *again = read_bytes(bytes.data, bytes.length);
    HloText first = print(module), second = print(again);
    cr_expect_str_eq(second.data, first.data);
    hlo_text_free(&first);
    hlo_text_free(&second);
    hlo_text_free(&bytes);
    hlo_module_free(module);
    hlo_module_free(again);
}

// Lists whose items are fields of their own: from the second item on, an assertion failed.
Test(proto, lists_of_several_fields) {
    expect_text_back(
        "HloModule m\n\nENTRY e {\n  p = f32[2]{0} parameter(0)\n"
        "  ROOT c = f32[2]{0} collective-permute(p), source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,0}}\n}\n");
    expect_text_back(
        "HloModule m\n\nENTRY e {\n  p = f32[2,2]{1,0} parameter(0)\n  q = f32[2,2]{1,0} parameter(1)\n"
        "  r = f32[2,2]{1,0} parameter(2)\n  ROOT c = (f32[2,2]{1,0}, f32[2,2]{1,0}, f32[2,2]{1,0}) "
        "custom-call(p, q, r), custom_call_target=\"f\", operand_layout_constraints={f32[2,2]{1,0}, "
        "f32[2,2]{0,1}, f32[2,2]{1,0}}, output_to_operand_aliasing={{0}: (0, {}), {1}: (1, {}), {2}: (2, "
        "{})}\n}\n");
}

// bug: a literal was moved by the numbers of its layout without a check, to places outside of it.
Test(proto, layouts_that_are_no_permutation_are_refused) {
    const char *program =
        "HloModule m\n\nENTRY e {\n  ROOT c = s32[2,3]{0,1} constant({ { 1, 2, 3 }, { 4, 5, 6 } })\n}\n";
    HloModule *module = NULL;
    HloText bytes = {0};
    cr_assert_null(hlo_parse(program, strlen(program), NULL, &module));
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    hlo_module_free(module);
    const char order[] = {10, 2, 0, 1}, *const bent[] = {"\12\2\1\1", "\12\2\7\1", "\12\2\0\0"};
    for (size_t i = 0; i < HLO_COUNT_OF(bent); i++) {
        HloText copy = {0};
        hlo_text_append(&copy, bytes.data, bytes.length);
        int found = 0;
        for (char *at; (at = memmem(copy.data, copy.length, order, sizeof(order))); found++) memcpy(at, bent[i], 4);
        cr_assert_gt(found, 0);
        HloStatus status = hlo_module_from_proto(copy.data, copy.length, &module);
        cr_expect(status && hlo_status_code(status) == HLO_INVALID_ARGUMENT, "order %zu is taken", i);
        hlo_status_free(status);
        hlo_text_free(&copy);
    }
    hlo_text_free(&bytes);
}

// bug: a collective of all devices that verified could not be written.
Test(proto, a_collective_without_groups_is_of_all_devices) {
    static const unsigned char groups[] = {0xe2, 5, 12, 8, 2, 16, 2, 26, 2, 2, 2, 34, 2, 1, 0};
    unsigned char bytes[sizeof(jaxlib_iota_groups)];
    memcpy(bytes, jaxlib_iota_groups, sizeof(bytes));
    unsigned char *field = memmem(bytes, sizeof(bytes), groups, sizeof(groups));
    cr_assert(field);
    field[0] = 0xf2;  // field 78, which XLA has removed
    field[1] = 4;
    HloModule *module = read_bytes(bytes, sizeof(bytes));
    expect_text(module, "replica_groups={}");
    HloText again = {0};
    cr_expect_null(hlo_module_to_proto(module, &again));
    hlo_text_free(&again);
    hlo_module_free(module);
}

// Each pair copied all before it: 100,000 of them took 80 gigabytes.
Test(proto, long_lists_take_linear_memory) {
    enum { COUNT = 100000 };
    HloModule *module = NULL;
    HloText text = {0};
    hlo_text_string(&text,
                    "HloModule m\n\nENTRY e {\n  p = f32[2]{0} parameter(0)\n"
                    "  ROOT c = f32[2]{0} collective-permute(p), source_target_pairs={");
    for (int i = 0; i < COUNT; i++) hlo_text_format(&text, i ? ",{%d,%d}" : "{%d,%d}", i, (i + 1) % COUNT);
    hlo_text_string(&text, "}\n}\n");
    cr_assert_null(hlo_parse(text.data, text.length, NULL, &module));
    HloText bytes = {0};
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    HloModule *again = read_bytes(bytes.data, bytes.length);
    cr_expect_leq(hlo_arena_bytes(again->arena), (size_t)64 * COUNT + ((size_t)8 << 20));
    hlo_text_free(&text);
    hlo_text_free(&bytes);
    hlo_module_free(module);
    hlo_module_free(again);
}

Test(proto, an_opcode_that_is_a_number) {
    static const unsigned char bytes[] = {0x1A, 12, 0x0A, 1, 'e', 0x12, 7, 0x0A, 1, 'x', 0x10, 5, 0x1A, 0};
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_proto((const char *)bytes, sizeof(bytes), &module);
    cr_assert_not_null(status);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    cr_expect_null(module);
}

// A name with a zero byte was cut there: "\0add" was written as no name and read again as another.
Test(proto, bug_a_name_was_truncated_at_a_zero_byte) {
    static const char *const bent[] = {"\0rs1", "pa\0s", "par\0"};
    const char *program = "HloModule m\n\nENTRY e {\n  ROOT pars = s32[] parameter(0)\n}\n";
    HloModule *module = NULL;
    HloText bytes = {0};
    cr_assert_null(hlo_parse(program, strlen(program), NULL, &module));
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    hlo_module_free(module);
    char *name = memmem(bytes.data, bytes.length, "\4pars", 5);
    cr_assert_not_null(name);
    for (size_t i = 0; i < HLO_COUNT_OF(bent); i++) {
        memcpy(name + 1, bent[i], 4);
        HloStatus status = hlo_module_from_proto(bytes.data, bytes.length, &module);
        cr_expect(status && strstr(hlo_status_message(status), "contains a zero byte"), "name %zu is taken", i);
        hlo_status_free(status);
    }
    hlo_text_free(&bytes);
}

// An empty name means that the writer left it out: it is read as none.
Test(proto, bug_an_empty_name_is_kept_in_one_reading) {
    static const char bytes[] = {0x1A, 22,  0x0A, 1,   'e', 0x12, 17,  0x0A, 0, 0x12, 9,  'p',  'a',
                                 'r',  'a', 'm',  'e', 't', 'e',  'r', 0x1A, 2, 0x10, 11, 0x30, 0};
    HloModule *module = read_bytes(bytes, sizeof(bytes));
    cr_expect_str_eq(module->entry->root->name, "parameter");
    hlo_module_free(module);
}

// Any byte of a good module replaced by others: read or refused, under the sanitizers.
Test(proto, bent_bytes_are_read_or_refused) {
    static const unsigned char others[] = {0, 8, 16, 26, 127, 255};
    unsigned char bent[sizeof(jaxlib_iota_groups)];
    int64_t refused = 0;
    for (size_t at = 0; at < sizeof(bent); at++)
        for (size_t i = 0; i < sizeof(others); i++) {
            memcpy(bent, jaxlib_iota_groups, sizeof(bent));
            bent[at] = others[i];
            HloModule *module = NULL;
            HloStatus status = hlo_module_from_proto((const char *)bent, sizeof(bent), &module);
            refused += status != NULL;
            hlo_status_free(status);
            hlo_module_free(module);
        }
    cr_expect_gt(refused, 100);
}

static HloFileContent read_file(const char *name) {
    HloFileContent content;
    HloText path = {0};
    hlo_text_format(&path, "%s/%s", MESHLO_SOURCE_DIR, name);
    cr_assert_null(hlo_file_read(path.data, SIZE_MAX / 2, &content));
    hlo_text_free(&path);
    return content;
}

static HloModule *parse(const char *text, size_t length) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, length, NULL, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return module;
}

static HloText print_long(const HloModule *module) {
    HloText text = {0};
    cr_assert_null(hlo_print(module, NULL, &text));
    return text;
}

static void expect_equal_texts(const HloModule *one, const HloModule *two) {
    HloText first = print_long(one), second = print_long(two);
    cr_expect_str_eq(first.data, second.data);
    hlo_text_free(&first);
    hlo_text_free(&second);
}

static void expect_round_trip(const HloModule *module) {
    HloText bytes = {0};
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    HloModule *again = read_bytes(bytes.data, bytes.length);
    expect_equal_texts(module, again);
    hlo_module_free(again);
    hlo_text_free(&bytes);
}

// XLA lists the body of a loop before its condition, writes values in the order of their layout, 4-bit values a byte
// each, always says how to compare, calls the exit of a domain its entry: all of it was read wrong, and written wrong.
Test(proto, what_jaxlib_writes_is_what_its_text_says) {
    HloFileContent text = read_file("tests/proto/jaxlib.hlo"), proto = read_file("tests/proto/jaxlib.pb");
    HloModule *parsed = parse((const char *)text.data, text.size), *read = read_bytes(proto.data, proto.size);
    expect_equal_texts(parsed, read);
    expect_round_trip(parsed);
    expect_round_trip(read);
    hlo_module_free(parsed);
    hlo_module_free(read);
    hlo_file_content_free(&text);
    hlo_file_content_free(&proto);
}

// Further fields of layouts, parameters and products, which no program of the fixtures has.
Test(proto, rare_fields_survive) {
    static const char *const bodies[] = {
        "  p = f32[8,128]{0,1:T(8,128)(2,1)L(16)E(4)S(1)SC(0:4)} parameter(0)\n  ROOT r = f32[8,128]{0,1:T(8,128)} "
        "negate(p)\n",
        "  p = (f32[2], f32[3]) parameter(0), parameter_replication={true,false}\n  ROOT r = f32[2] "
        "get-tuple-element(p), index=0\n",
        "  p = f32[2,11,5] parameter(0)\n  q = f32[2,3,5,7] parameter(1)\n  g = s32[2,3] parameter(2)\n  ROOT r = "
        "f32[2,11,7] ragged-dot(p, q, g), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={1}\n",
    };
    for (size_t i = 0; i < HLO_COUNT_OF(bodies); i++) {
        HloText text = {0};
        hlo_text_format(&text, "HloModule m\n\nENTRY e {\n%s}\n", bodies[i]);
        HloModule *module = parse(text.data, text.length);
        expect_round_trip(module);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// As with names (above), so with every other string: a thread "\0" was written as a thread without a name.
Test(proto, bug_strings_were_truncated_at_zero_bytes) {
    const char *program =
        "HloModule m, frontend_attributes={mark=\"mark\"}\n\nf {\n  ROOT x = s32[] parameter(0)\n}, "
        "execution_thread=\"mark\"\n\nENTRY e {\n  p = s32[] parameter(0), sharding={maximal device=0}, "
        "origin={{\"mark\"}}, metadata={op_type=\"mark\" op_name=\"mark\" source_file=\"mark\"}\n  ROOT c = s32[] "
        "custom-call(p), custom_call_target=\"mark\", backend_config=\"mark\", "
        "statistics={visualizing_index=0,mark=1}\n}\n";
    HloModule *module = NULL;
    HloText bytes = {0};
    cr_assert_null(hlo_parse(program, strlen(program), NULL, &module));
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    hlo_module_free(module);
    int64_t places = 0;
    for (char *at = bytes.data; (at = memmem(at, bytes.length - (size_t)(at - bytes.data), "mark", 4));
         at++, places++) {
        *at = 0;
        HloStatus status = hlo_module_from_proto(bytes.data, bytes.length, &module);
        cr_expect(status && strstr(hlo_status_message(status), "contains a zero byte"), "byte %td is taken",
                  at - bytes.data);
        hlo_status_free(status);
        *at = 'm';
    }
    cr_expect_eq(places, 10);
    hlo_text_free(&bytes);
}

static bool is_printable(const char *text, const char *also) {
    for (; *text; text++)
        if (((unsigned char)*text < 0x20 || *text == 0x7F) && !strchr(also, *text)) return false;
    return true;
}

// bug: names and strings of a message were printed as they are. A line break in a name made another program of the text
// ("run" computed a sine, "convert" then "run" a negation), and terminals obeyed the rest.
Test(proto, bug_strings_passed_for_other_text) {
    static const char *const evil[] = {"\"\n  ROOT x =", "\033[2J\r\x9b\xffzzzzz", "}, a={'b'\\\n\"",
                                       "{\"a\":  \"\033c\"}"};
    const char *program =
        "HloModule mark_mark_12, frontend_attributes={mark_mark_12=\"mark_mark_12\"}\n\n"
        "mark_mark_12 {\n  ROOT x = s32[] parameter(0)\n}, execution_thread=\"mark_mark_12\"\n\n"
        "ENTRY e {\n  mark_mark_12 = s32[4] parameter(0), sharding={mesh['mark_mark_12'=2], [{'mark_mark_12'}]}, "
        "origin={{\"mark_mark_12\"}}, metadata={op_type=\"mark_mark_12\" op_name=\"mark_mark_12\" "
        "source_file=\"mark_mark_12\" deduplicated_name=\"mark_mark_12\" scheduling_name=\"mark_mark_12\"}\n"
        "  ROOT c = s32[] custom-call(mark_mark_12), custom_call_target=\"mark_mark_12\", "
        "backend_config=\"mark_mark_12\", frontend_attributes={a=\"mark_mark_12\"}, "
        "statistics={visualizing_index=0,mark_mark_12=1}\n}\n";
    HloModule *module = parse(program, strlen(program));
    HloText bytes = {0};
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    hlo_module_free(module);
    int64_t places = 0, read = 0;
    for (char *at = bytes.data; (at = memmem(at, bytes.length - (size_t)(at - bytes.data), "mark_mark_12", 12));
         at++, places++) {
        for (size_t i = 0; i < HLO_COUNT_OF(evil); i++) {
            cr_assert_eq(strlen(evil[i]), 12);
            memcpy(at, evil[i], 12);
            HloStatus status = hlo_module_from_proto(bytes.data, bytes.length, &module);
            if (!status) status = hlo_verify(module);
            cr_expect(!status || hlo_status_code(status) == HLO_INVALID_ARGUMENT);
            cr_expect(is_printable(hlo_status_message(status), ""), "message %zu at %td", i, at - bytes.data);
            if (!status) {
                HloText first = {0}, second = {0};
                read++;
                cr_assert_null(hlo_print(module, NULL, &first));
                cr_expect(is_printable(first.data, "\n"), "%s", first.data);
                HloModule *again = parse(first.data, first.length);
                cr_assert_null(hlo_print(again, NULL, &second));
                cr_expect_str_eq(first.data, second.data);
                cr_expect_eq(again->entry->instruction_count, 2);
                hlo_text_free(&first);
                hlo_text_free(&second);
                hlo_module_free(again);
                hlo_module_free(module);
            }
            hlo_status_free(status);
            memcpy(at, "mark_mark_12", 12);
        }
    }
    cr_expect_eq(places, 19);
    cr_expect_eq(read, 4 * (places - 2));  // all but two keys, which the text has no quotes for
    hlo_text_free(&bytes);
}

// bug: frames that call themselves made stacks without end, which were written 200 levels deep; numbers of lines beyond
// 32 bits and below zero were written in a form that no reader accepts.
Test(proto, bug_source_positions_were_lost) {
    const char *program =
        "HloModule m\n\nFileNames\n1 \"f.py\"\n\nFunctionNames\n1 \"f\"\n\nFileLocations\n"
        "1 {file_name_id=1 function_name_id=1 line=-5 end_line=0 column=0 end_column=2147483647}\n\nStackFrames\n"
        "1 {file_location_id=1 parent_frame_id=1}\n2 {file_location_id=1 parent_frame_id=2}\n\nENTRY e {\n"
        "  ROOT p = s32[] parameter(0), metadata={source_line=-2147483648 stack_frame_id=2}\n}\n";
    HloModule *module = parse(program, strlen(program)), *again = NULL;
    HloStackTables *stack = &module->stack;
    for (int64_t parent = 0; parent < 4; parent++) {
        HloText bytes = {0}, stablehlo = {0};
        stack->frames.items[0].parent_frame_id = parent;
        cr_assert_null(hlo_module_to_proto(module, &bytes));
        cr_assert_null(hlo_module_from_proto(bytes.data, bytes.length, &again));
        cr_expect_eq(again->entry->root->metadata->source_line, INT32_MIN);
        cr_expect_eq(again->stack.locations.items[0].line, -5);
        cr_assert_null(hlo_module_to_stablehlo_text(again, true, &stablehlo));
        hlo_module_free(again);
        HloStatus status = hlo_module_from_stablehlo_text(stablehlo.data, stablehlo.length, NULL, &again);
        cr_assert_null(status, "%s\n%s", hlo_status_message(status), stablehlo.data);
        cr_expect_eq(again->entry->root->metadata->source_line, -5, "%s", stablehlo.data);
        hlo_module_free(again);
        hlo_text_free(&bytes);
        hlo_text_free(&stablehlo);
    }
    hlo_module_free(module);
}

// Origins are kept as text: names with quotes went to protobuf with their escapes and came back without them, and bytes
// that are escaped there were not so here.
Test(proto, bug_quotes_in_the_name_of_an_origin) {
    static const char *const names[][2] = {{"a\\\"b", "a\"b"}, {"a\xff", "a\xff"}, {"\\x41\\tb", "A\tb"}};
    for (size_t i = 0; i < HLO_COUNT_OF(names); i++) {
        HloText text = {0}, bytes = {0};
        hlo_text_format(&text, "HloModule m\n\nENTRY e {\n  ROOT p = s32[] parameter(0), origin={{\"%s\"}}\n}\n",
                        names[i][0]);
        HloModule *module = parse(text.data, text.length);
        expect_round_trip(module);
        cr_assert_null(hlo_module_to_proto(module, &bytes));
        cr_expect(memmem(bytes.data, bytes.length, names[i][1], strlen(names[i][1])), "%s", names[i][0]);
        hlo_text_free(&text);
        hlo_text_free(&bytes);
        hlo_module_free(module);
    }
}

// Fields of newer writers that were dropped: numbers are those that jaxlib 0.10.2 writes for these texts.
typedef struct KeptField {
    const char *name;
    const char *text;
    unsigned char field[3];  // tag of two bytes and value
} KeptField;

static const KeptField kept_fields[] = {
    {"scan: is_reverse",
     "f { x = f32[] parameter(0)\n c = f32[] parameter(1)\n ROOT t = (f32[], f32[]) tuple(x, c) }\nENTRY e {\n"
     " p = f32[3] parameter(0)\n c = f32[] constant(0)\n ROOT s = (f32[3], f32[]) scan(p, c), dimensions={0}, "
     "num_carries=1, is_reverse=true, is_associative=false, to_apply=f\n}",
     {0xF0, 0x05, 1}},
    {"scan: num_carries",
     "f { x = f32[] parameter(0)\n c = f32[] parameter(1)\n d = f32[] parameter(2)\n ROOT t = (f32[], f32[], f32[]) "
     "tuple(x, c, d) }\nENTRY e {\n p = f32[3] parameter(0)\n c = f32[] constant(0)\n ROOT s = (f32[3], f32[], f32[]) "
     "scan(p, c, c), dimensions={0}, num_carries=2, to_apply=f\n}",
     {0xF8, 0x05, 2}},
    {"scan: is_associative",
     "f { x = f32[] parameter(0)\n c = f32[] parameter(1)\n ROOT t = (f32[], f32[]) tuple(x, c) }\nENTRY e {\n"
     " p = f32[3] parameter(0)\n c = f32[] constant(0)\n ROOT s = (f32[3], f32[]) scan(p, c), dimensions={0}, "
     "num_carries=1, is_associative=false, to_apply=f\n}",
     {0x80, 0x06, 2}},
    {"convolution: a gradient of its input",
     "ENTRY e {\n a = f32[1,4,4,2] parameter(0)\n b = f32[3,3,2,5] parameter(1)\n ROOT c = f32[1,2,2,5] convolution(a, "
     "b), "
     "window={size=3x3}, dim_labels=b01f_01io->b01f, convolution_kind=dgrad\n}",
     {0x88, 0x06, 2}},
    {"convolution: a gradient of its kernel",
     "ENTRY e {\n a = f32[1,4,4,2] parameter(0)\n b = f32[3,3,2,5] parameter(1)\n ROOT c = f32[1,2,2,5] convolution(a, "
     "b), "
     "window={size=3x3}, dim_labels=b01f_01io->b01f, convolution_kind=wgrad\n}",
     {0x88, 0x06, 3}},
    {"async-start: aliasing",
     "w { x = f32[10] parameter(0)\n ROOT n = f32[10] negate(x) }\nENTRY e {\n a = f32[10] parameter(0)\n s = "
     "((f32[10]), "
     "f32[10], s32[]) async-start(a), output_to_operand_aliasing={{}: (0, {})}, calls=w\n ROOT d = f32[10] "
     "async-done(s)\n}",
     {0xD2, 0x04, 0}},
};

CaseList(proto, bug_fields_of_newer_writers_were_dropped) {
    static int indices[HLO_COUNT_OF(kept_fields)];
    for (size_t i = 0; i < HLO_COUNT_OF(kept_fields); i++) indices[i] = (int)i;
    return cr_make_param_array(int, indices, HLO_COUNT_OF(kept_fields));
}

CaseTest(int *index, proto, bug_fields_of_newer_writers_were_dropped) {
    const KeptField *kept = &kept_fields[*index];
    HloText text = {0}, bytes = {0};
    hlo_text_format(&text, "HloModule m\n%s\n", kept->text);
    HloModule *module = parse(text.data, text.length);
    expect_round_trip(module);
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    cr_expect(memmem(bytes.data, bytes.length, kept->field, sizeof(kept->field)), "%s has another field or value",
              kept->name);
    hlo_text_free(&text);
    hlo_text_free(&bytes);
    hlo_module_free(module);
}

// The ids of a file say an order of their own. They were given anew in the order of the file at each reading, so that
// two orders took turns, as often as a module was read and written.
Test(proto, bug_ids_change_with_each_reading) {
    HloFileContent file = read_file("tests/proto/jaxlib.pb");
    HloModule *module = read_bytes(file.data, file.size), *again;
    HloText first = {0}, second = {0};
    cr_assert_null(hlo_module_to_proto(module, &first));
    again = read_bytes(first.data, first.length);
    cr_assert_null(hlo_module_to_proto(again, &second));
    cr_assert_eq(first.length, second.length);
    cr_expect_arr_eq(first.data, second.data, first.length);
    hlo_text_free(&first);
    hlo_text_free(&second);
    hlo_module_free(module);
    hlo_module_free(again);
    hlo_file_content_free(&file);
}

// bug: XLA leaves the layouts of an entry open when they are not given; they were written as the default ones.
Test(proto, bug_an_open_layout_of_the_entry_is_closed) {
    const char *text =
        "HloModule m, entry_computation_layout={(f32[4,2])->f32[4,2]}\n\nENTRY e {\n"
        "  ROOT p = f32[4,2]{1,0} parameter(0)\n}\n";
    HloModule *module = parse(text, strlen(text));
    expect_round_trip(module);
    hlo_module_free(module);
}

// Impossible messages: bytes of a written program, replaced wherever they occur.
typedef struct Bent {
    const char *name;
    const char *program;  // of one computation, its root after "ROOT "
    const char *from, *to;
    size_t length;     // of both
    const char *part;  // of the message
} Bent;

#define BENT(program, from, to, part) \
    { part, program, from, to, sizeof(from) - 1, part }

static const Bent bent_messages[] = {
    BENT("s4[3] constant({1, 2, 3})", "\x1a\x01\x03", "\x1a\x01\x07", "a literal of 7 s4 elements has 3 bytes"),
    BENT("bf16[3] constant({1, 2, 3})", "\x1a\x01\x03", "\x1a\x01\x04", "a literal of 8 bytes comes with 6"),
    BENT("s32[3] constant({1, 2, 3})", "\x1a\x01\x03", "\x1a\x01\x04", "a literal of 4 elements comes with 3"),
    BENT("s32[] constant(5)", "\x42\x0c\x0a\x07", "\x42\x0c\x7a\x07", "a literal has no shape"),
    BENT("(s32[], s32[]) constant((1, 2))", "\x52\x0c\x0a", "\x7a\x0c\x0a",
         "a tuple literal of 2 elements comes with 0"),
    BENT("f32[3] parameter(0)", "\x10\x0b\x1a\x01\x03", "\x10\x11\x1a\x01\x03", "a shape of type token has dimensions"),
    BENT("f32[3] parameter(0)", "\x10\x0b\x1a\x01\x03", "\x10\x7f\x1a\x01\x03",
         "a shape has no element type that exists"),
    // bug: a domain of one side met an assertion when it was printed: 0xba 0x03 is the tag of the other
    BENT("s32[] parameter(0)\n  d = s32[] domain(r), domain={kind=\"sharding\", entry={replicated}, exit={maximal "
         "device=1}}",
         "\xba\x03", "\xf2\x04", "does not give the shardings of both of its sides"),
    // bug: a buffer without an array was printed by its first element; type 34 is BUFFER
    BENT("f32[3] parameter(0)", "\x10\x0b\x1a\x01\x03", "\x10\x22\x7a\x01\x03",
         "a shape of type b has 0 elements, or one that is not an array"),
    BENT("(s32[], s32[]) constant((1, 2))", "\x10\x0d\x22", "\x10\x04\x22", "a shape of type s32 has 2 elements"),
    BENT("f32[8,8] parameter(0)", "\x0a\x02\x01\x00", "\x0a\x02\x80\x00", "a shape of rank 2 has a layout of rank 1"),
    BENT("f32[8,8] parameter(0), sharding={devices=[2,2,2]<=[8] last_tile_dims={manual}}", "\x42\x01\x04",
         "\x42\x01\x63", "unknown subgroup type 99"),
    BENT("f32[8,8] parameter(0), sharding={devices=[2,2,2]<=[8] last_tile_dims={manual}}", "\x08\x03\x1a\x03",
         "\x08\x63\x1a\x03", "unknown sharding type 99"),
};

CaseList(proto, bent_messages_are_refused) {
    static int indices[HLO_COUNT_OF(bent_messages)];
    for (size_t i = 0; i < HLO_COUNT_OF(bent_messages); i++) indices[i] = (int)i;
    return cr_make_param_array(int, indices, HLO_COUNT_OF(bent_messages));
}

CaseTest(int *index, proto, bent_messages_are_refused) {
    const Bent *bent = &bent_messages[*index];
    HloText text = {0}, bytes = {0};
    hlo_text_format(&text, "HloModule m\n\nENTRY e {\n  ROOT r = %s\n}\n", bent->program);
    HloModule *module = parse(text.data, text.length);
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    hlo_module_free(module);
    int64_t places = 0;
    for (char *at = bytes.data; (at = memmem(at, bytes.length - (size_t)(at - bytes.data), bent->from, bent->length));
         at++) {
        memcpy(at, bent->to, bent->length);
        places++;
    }
    cr_assert_gt(places, 0, "%s: the bytes are not there", bent->name);
    HloStatus status = hlo_module_from_proto(bytes.data, bytes.length, &module);
    cr_assert_not_null(status, "%s is taken", bent->name);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect(strstr(hlo_status_message(status), bent->part), "%s: %s", bent->name, hlo_status_message(status));
    hlo_status_free(status);
    hlo_text_free(&text);
    hlo_text_free(&bytes);
}

// A text whose first line is empty begins like a message: byte 10 is the tag of its first field.
Test(proto, an_empty_line_is_not_a_message) {
    const char *text =
        "\nHloModule main, entry_computation_layout={(f32[4,4]{1,0})->f32[4,4]{1,0}}\n\nENTRY e {\n  ROOT p = "
        "f32[4,4]{1,0} parameter(0)\n}\n";
    cr_expect_not(hlo_looks_like_proto(text, strlen(text)));
    HloFileContent proto = read_file("tests/proto/jaxlib.pb");
    cr_expect(hlo_looks_like_proto(proto.data, proto.size));
    hlo_file_content_free(&proto);
}

typedef struct BadOrigin {
    const char *name;
    unsigned char bytes[24];
    size_t length;
} BadOrigin;

// OriginalValueProto of an instruction p = f32[] parameter(0): elements that no tuple has.
static const BadOrigin bad_origins[] = {
    {"an element twice", {0x0A, 3, 0x0A, 1, 0, 0x0A, 3, 0x0A, 1, 0}, 10},
    {"a gap", {0x0A, 3, 0x0A, 1, 0, 0x0A, 3, 0x0A, 1, 2}, 10},
    {"cut short", {0x0A, 9, 0x0A, 1, 0}, 5},
};

Test(proto, origins_that_are_no_tuple_are_refused) {
    for (size_t i = 0; i < HLO_COUNT_OF(bad_origins); i++) {
        const BadOrigin *bad = &bad_origins[i];
        // computation {name e, instruction {p, parameter, f32[], origin}, id 1, root 0}, entry 1
        HloText instruction = {0}, computation = {0}, module = {0};
        hlo_text_append(&instruction, "\x0A\x01p\x12\x09parameter\x1A\x02\x10\x0B\xC2\x05", 20);
        hlo_text_char(&instruction, (char)bad->length);
        hlo_text_append(&instruction, (const char *)bad->bytes, bad->length);
        hlo_text_append(&computation,
                        "\x0A\x01"
                        "e\x12",
                        4);
        hlo_text_char(&computation, (char)instruction.length);
        hlo_text_append(&computation, instruction.data, instruction.length);
        hlo_text_append(&computation, "\x28\x01", 2);
        hlo_text_append(&module,
                        "\x0A\x01m\x12\x01"
                        "e\x1A",
                        7);
        hlo_text_char(&module, (char)computation.length);
        hlo_text_append(&module, computation.data, computation.length);
        hlo_text_append(&module, "\x30\x01", 2);
        HloModule *read = NULL;
        HloStatus status = hlo_module_from_proto(module.data, module.length, &read);
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", bad->name);
        hlo_status_free(status);
        hlo_module_free(read);
        hlo_text_free(&instruction);
        hlo_text_free(&computation);
        hlo_text_free(&module);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Shardings

// An annotation and the OpSharding that jaxlib 0.10.2 makes of it, in hexadecimal digits.
static const struct {
    const char *text, *bytes;
} shardings[] = {
    // clang-format off
    {"{replicated metadata={op_name=\"a\"}}",
     "3a03120161"},
    {"{devices=[2,1,2]<=[4] last_tile_dim_replicate metadata={{op_name=\"a\"}, {op_type=\"t\" op_name=\"b\"}}}",
     "08031a0302010230013a031201613a060a01741201624a0104520100"},
    {"{maximal device=2 metadata={op_name=\"m\"}}",
     "08012201023a0312016d"},
    {"{mesh['a'=2,'b'=2], [{}, {}], manual={'a'}}",
     "721a120e0a050a016110020a050a016210021a0210011a0210013a00"},
    {"{mesh['a'=2,'b'=2], replicated}",
     "7210120e0a050a016110020a050a01621002"},
    {"{mesh['a'=2,'b'=2], manual}",
     "7216120e0a050a016110020a050a016210023a003a020801"},
    {"{mesh['a'=2,'b'=2], unreduced}",
     "7216120e0a050a016110020a050a016210022a002a020801"},
    {"{mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)), [{'a'}, {'b'}]}",
     "722812180a050a016110020a050a016210021a080a020202120201001a040a0010011a060a0208011001"},
    {"{mesh['a'=4,'b'=2], [{'a':(1)2}, {'b'}], metadata={{op_name=\"q\"}}}",
     "7229120e0a050a016110040a050a016210021a0a0a0612040801100210011a060a02080110013203120171"},
    {"{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}",
     "08031a0401010202420204004a0104520100"},
    // clang-format on
};

static int64_t from_hex(const char *digits, unsigned char *bytes) {
    int64_t count = 0;
    for (; digits[0]; digits += 2) {
        const char pair[] = {digits[0], digits[1], 0};
        bytes[count++] = (unsigned char)strtol(pair, NULL, 16);
    }
    return count;
}

// Metadata, manual axes, device orders and whole shardings of one kind were lost or refused.
Test(proto, shardings_are_those_of_jaxlib_both_ways) {
    for (size_t i = 0; i < HLO_COUNT_OF(shardings); i++) {
        unsigned char bytes[256];
        const int64_t length = from_hex(shardings[i].bytes, bytes);
        HloArena *arena = hlo_arena_new();
        const HloSharding *sharding = NULL;
        HloStatus status = hlo_sharding_from_proto(arena, bytes, (size_t)length, &sharding);
        cr_assert_null(status, "%s: %s", shardings[i].text, hlo_status_message(status));
        HloText text = {0}, again = {0};
        hlo_sharding_print_with(&text, hlo_sharding_copy(arena, sharding), true);
        cr_expect_str_eq(text.data, shardings[i].text);
        hlo_sharding_to_proto(sharding, &again);
        cr_expect(again.length == (size_t)length && memcmp(again.data, bytes, again.length) == 0,
                  "%s is written otherwise", shardings[i].text);
        hlo_text_free(&text);
        hlo_text_free(&again);
        hlo_arena_free(arena);
    }
}

Test(proto, orders_of_meshes_that_do_not_fit_are_refused) {
    // A mesh of 2 x 2 devices whose order has 8, a permutation of three, one with a dimension twice.
    static const char *const bent[] = {"721a12140a050a016110020a050a016210021a040a0202041a021001",
                                       "721f12190a050a016110020a050a016210021a090a02020212030001021a021001",
                                       "721e12180a050a016110020a050a016210021a080a020202120201011a021001",
                                       // bug: a mesh of four that lists one device, then one that lists five
                                       "721212100a050a01611004120100"
                                       "1a040a001001",
                                       "721612140a050a016110041205000102030"
                                       "41a040a001001"};
    for (size_t i = 0; i < HLO_COUNT_OF(bent); i++) {
        unsigned char bytes[256];
        const int64_t length = from_hex(bent[i], bytes);
        HloArena *arena = hlo_arena_new();
        const HloSharding *sharding = NULL;
        HloStatus status = hlo_sharding_from_proto(arena, bytes, (size_t)length, &sharding);
        cr_expect(status && hlo_status_code(status) == HLO_INVALID_ARGUMENT, "order %zu is taken", i);
        hlo_status_free(status);
        hlo_arena_free(arena);
    }
}

// Axes are numbers in the message: one that the mesh does not have was looked up beside its names when it was printed.
Test(proto, bug_a_sharding_over_an_axis_that_is_none) {
    // A NamedShardingProto (field 14): a mesh of one axis "a" of size 2, and dimensions sharded over axis 0, 5, and
    // over the part (3)2 of axis 0.
    static const unsigned char cases[][26] = {
        {21,   0x72, 0x13, 0x12, 0x07, 0x0A, 0x05, 0x0A, 0x01, 'a',  0x10,
         0x02, 0x1A, 0x08, 0x0A, 0x00, 0x0A, 0x02, 0x08, 0x05, 0x10, 0x01},
        {25,   0x72, 0x17, 0x12, 0x07, 0x0A, 0x05, 0x0A, 0x01, 'a',  0x10, 0x02, 0x1A,
         0x0C, 0x0A, 0x00, 0x0A, 0x06, 0x12, 0x04, 0x08, 0x03, 0x10, 0x02, 0x10, 0x01},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloArena *arena = hlo_arena_new();
        const HloSharding *sharding = NULL;
        HloStatus status = hlo_sharding_from_proto(arena, cases[i] + 1, cases[i][0], &sharding);
        cr_expect(strstr(hlo_status_message(status), "names an axis that its mesh does not have"), "%zu: %s", i,
                  hlo_status_message(status));
        hlo_status_free(status);
        hlo_arena_free(arena);
    }
}

// Groups over one axis of a mesh twice, or over a part that it does not have, were spread beside their array.
Test(proto, bug_groups_over_an_axis_twice) {
    const char *program =
        "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT r = f32[8] all-gather(p), dimensions={0}, "
        "channel_id=1, "
        "replica_groups=mesh['a'=2,'b'=4] {'a','b':(1)2}\n}\n";
    HloModule *module = parse(program, strlen(program));
    HloReplicaGroups *groups =
        (HloReplicaGroups *)(uintptr_t)HLO_ATTRIBUTES(module->entry->root, Collective)->replica_groups;
    HloAxisRef *axes = (HloAxisRef *)(uintptr_t)groups->axes;
    const HloInts *lists;
    int64_t count;
    const HloAxisRef twice = {.axis = 1, .pre_size = 1}, odd = {.axis = 1, .pre_size = 1, .size = 3};
    HloStatus status = hlo_replica_groups_expand(groups, 8, module->arena, &lists, &count);
    cr_expect_null(status, "%s", hlo_status_message(status));
    axes[0] = twice;
    status = hlo_replica_groups_expand(groups, 8, module->arena, &lists, &count);
    cr_expect(status && strstr(hlo_status_message(status), "over an axis of the mesh twice"));
    hlo_status_free(status);
    axes[0] = odd;
    status = hlo_replica_groups_expand(groups, 8, module->arena, &lists, &count);
    cr_expect(status && strstr(hlo_status_message(status), "that the mesh does not have"));
    hlo_status_free(status);
    hlo_module_free(module);
}

// A schedule names every instruction of its computation once. In the message it is field 7, a list of entries, each
// with the computation's id and the ids of its instructions.
typedef struct Schedule {
    const char *name, *from, *to, *part;
    size_t length;
} Schedule;

#define SCHEDULE(name, from, to, part) \
    { name, from, to, part, sizeof(from) - 1 }

static const Schedule schedules[] = {
    SCHEDULE("as it was", "\x0a\x03\x00\x01\x02", "\x0a\x03\x00\x01\x02", NULL),
    SCHEDULE("in another order", "\x0a\x03\x00\x01\x02", "\x0a\x03\x01\x00\x02", NULL),
    // bug: the instruction that another had taken the place of was left in front without a word
    SCHEDULE("one twice", "\x0a\x03\x00\x01\x02", "\x0a\x03\x01\x01\x02",
             "the schedule of e names an instruction twice"),
    SCHEDULE("the first twice", "\x0a\x03\x00\x01\x02", "\x0a\x03\x00\x00\x02",
             "the schedule of e names an instruction twice"),
    SCHEDULE("an unknown one", "\x0a\x03\x00\x01\x02", "\x0a\x03\x00\x01\x07",
             "the schedule of e names an unknown instruction id"),
    SCHEDULE("too few", "\x12\x05\x0a\x03\x00\x01\x02", "\x12\x05\x0a\x01\x00\x78\x00",
             "the schedule of e has 1 instructions of 3"),
    SCHEDULE("another computation's", "\x3a\x09\x0a\x07\x12\x05", "\x3a\x09\x0a\x07\x08\x05",
             "the schedule names computation id 5, which does not exist"),
};

CaseList(proto, schedules_name_every_instruction_once) {
    static int indices[HLO_COUNT_OF(schedules)];
    for (size_t i = 0; i < HLO_COUNT_OF(schedules); i++) indices[i] = (int)i;
    return cr_make_param_array(int, indices, HLO_COUNT_OF(schedules));
}

CaseTest(int *index, proto, schedules_name_every_instruction_once) {
    const Schedule *schedule = &schedules[*index];
    const char *text =
        "HloModule m, is_scheduled=true\n\nENTRY e {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n"
        "  ROOT r = f32[] add(p, q)\n}\n";
    HloText bytes = {0};
    HloModule *module = parse(text, strlen(text));
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    hlo_module_free(module);
    char *at = memmem(bytes.data, bytes.length, schedule->from, schedule->length);
    cr_assert_not_null(at, "%s: the bytes are not there", schedule->name);
    memcpy(at, schedule->to, schedule->length);
    module = NULL;
    HloStatus status = hlo_module_from_proto(bytes.data, bytes.length, &module);
    if (schedule->part) {
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
        cr_expect(strstr(hlo_status_message(status), schedule->part), "%s: %s", schedule->name,
                  hlo_status_message(status));
    } else {
        cr_assert_null(status, "%s: %s", schedule->name, hlo_status_message(status));
        const char *first = schedule->to[2] ? "q" : "p";
        cr_expect_str_eq(module->entry->first->name, first, "%s", schedule->name);
    }
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&bytes);
}

// bug: HloModuleProto has no field for what propagation may shard, and it was lost.
Test(proto, bug_propagation_to_the_boundary_was_lost) {
    const char *text =
        "HloModule m, allow_spmd_sharding_propagation_to_parameters={false,true}, "
        "allow_spmd_sharding_propagation_to_output={true}, frontend_attributes={k=\"v\"}\n\nENTRY e {\n"
        "  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT r = f32[] add(p, q)\n}\n";
    HloText bytes = {0};
    HloModule *module = parse(text, strlen(text)), *again = NULL;
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    cr_assert_null(hlo_module_from_proto(bytes.data, bytes.length, &again));
    HloText before = print(module), after = print(again);
    cr_expect_str_eq(after.data, before.data);
    cr_expect_eq(again->propagate_to_parameters.count, 2);
    hlo_text_free(&before);
    hlo_text_free(&after);
    hlo_text_free(&bytes);
    hlo_module_free(module);
    hlo_module_free(again);
}

// Numbers may be packed, one a field, or both: protobuf lets writers choose, and joins the pieces.
Test(proto, bug_literals_in_several_fields_counted_as_elided) {
    const char *text = "HloModule m\n\nENTRY e {\n  ROOT c = s32[3] constant({1, 2, 300})\n}\n";
    // Field 4 of the literal: the numbers packed; 2 and 300 alone and 1 packed between; and one too many.
    static const struct {
        const char *numbers;
        size_t length;
        const char *want;
    } writings[] = {{"\x22\x04\x01\x02\xac\x02", 6, "{1, 2, 300}"},
                    {"\x20\x02\x22\x01\x01\x20\xac\x02", 8, "{2, 1, 300}"},
                    {"\x20\x02\x20\x01\x20\xac\x02", 7, "{2, 1, 300}"},
                    {"\x22\x03\x01\x02\x03\x20\x04", 7, NULL}};
    HloText bytes = {0};
    HloModule *module = parse(text, strlen(text));
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    hlo_module_free(module);
    const char *packed = memmem(bytes.data, bytes.length, writings[0].numbers, writings[0].length);
    cr_assert_not_null(packed);
    for (size_t f = 0; f < HLO_COUNT_OF(writings); f++) {
        // The literal, its instruction and its computation grow by the difference; all are shorter than 128 bytes.
        const size_t place = (size_t)(packed - bytes.data), grown = writings[f].length - writings[0].length;
        HloText bent = {0};
        hlo_text_append(&bent, bytes.data, place);
        hlo_text_append(&bent, writings[f].numbers, writings[f].length);
        hlo_text_append(&bent, packed + writings[0].length, bytes.length - place - writings[0].length);
        const unsigned char tags[] = {0x1a, 0x12, 0x42};  // computation, instruction, literal
        size_t from = 0;
        for (size_t t = 0; t < HLO_COUNT_OF(tags); t++) {
            while ((unsigned char)bent.data[from] != tags[t] || from + 2 + (unsigned char)bent.data[from + 1] <= place)
                from++;
            bent.data[from + 1] = (char)((unsigned char)bent.data[from + 1] + grown);
            from++;
        }
        module = NULL;
        HloStatus status = hlo_module_from_proto(bent.data, bent.length, &module);
        if (writings[f].want) {
            cr_assert_null(status, "form %zu: %s", f, hlo_status_message(status));
            expect_text(module, writings[f].want);
        } else {
            cr_expect(strstr(hlo_status_message(status), "a literal of 3 elements comes with 4"), "%s",
                      hlo_status_message(status));
            hlo_status_free(status);
        }
        hlo_module_free(module);
        hlo_text_free(&bent);
    }
    hlo_text_free(&bytes);
}

// bug: the first of two values of a field was taken; protobuf's readers take the last.
Test(proto, bug_the_first_of_two_fields_counted) {
    const char *text = "HloModule m\n\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n";
    HloText bytes = {0};
    HloModule *module = parse(text, strlen(text));
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    hlo_module_free(module);
    hlo_text_string(&bytes, "\x0a\x05later");
    module = read_bytes(bytes.data, bytes.length);
    cr_expect_str_eq(module->name, "later");
    hlo_module_free(module);
    hlo_text_free(&bytes);
}

// bug: a truth value of another byte than 1 stayed that byte, and was not equal to true.
Test(proto, bug_truth_is_one) {
    const char *text = "HloModule m\n\nENTRY e {\n  ROOT c = pred[3] constant({1, 0, 1})\n}\n";
    HloText bytes = {0};
    HloModule *module = parse(text, strlen(text));
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    hlo_module_free(module);
    char *at = memmem(bytes.data, bytes.length, "\x12\x03\x01\x00\x01", 5);
    cr_assert_not_null(at);
    at[4] = 2;
    module = read_bytes(bytes.data, bytes.length);
    cr_expect_eq(memcmp(hlo_constant_literal(module->entry->root)->data, "\1\0\1", 3), 0);
    hlo_module_free(module);
    hlo_text_free(&bytes);
}

// Both messages are about an entry: one that was never set is an error of the caller's.
Test(proto, a_module_without_an_entry_has_no_message) {
    HloModule *module = hlo_module_new("m");
    HloStatus (*const writes[])(const HloModule *, HloText *) = {hlo_module_to_proto, hlo_module_config_to_proto,
                                                                 hlo_module_to_proto_with_config};
    for (size_t i = 0; i < HLO_COUNT_OF(writes); i++) {
        HloText bytes = {0};
        HloStatus status = writes[i](module, &bytes);
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
        cr_expect_str_eq(hlo_status_message(status), "a module without entry computation has no protobuf form");
        hlo_status_free(status);
        hlo_text_free(&bytes);
    }
    hlo_module_free(module);
}
