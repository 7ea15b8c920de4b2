// SPDX-License-Identifier: Apache-2.0
// Portable bytecode from real JAX: it reads, verifies, prints, survives protobuf; cut or flipped bytes are refused.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/stablehlo/golden.h"
#include "tests/support/cases.h"

// A program as text, and as a release of StableHLO writes it.
typedef struct Version {
    const char *name, *text;
    const unsigned char *bytes;
    size_t length;
} Version;

#include "tests/stablehlo/golden.inc"
#include "tests/stablehlo/golden_native.inc"
#include "tests/stablehlo/golden_versions.inc"

static HloText print(const HloModule *module) {
    HloPrintOptions options = hlo_print_default();
    return print_module(module, &options);
}

static struct criterion_test_params each_golden(void) {
    return cases_numbered(HLO_COUNT_OF(goldens));
}

CaseList(stablehlo_bytecode, reads_and_verifies) {
    return each_golden();
}

CaseTest(const int *index, stablehlo_bytecode, reads_and_verifies) {
    const Golden *golden = &goldens[*index];
    HloModule *module = NULL, *again = NULL;
    must(hlo_module_from_stablehlo_bytecode(golden->bytes, golden->length, &module), golden->name);
    must(hlo_verify(module), golden->name);
    HloText proto = {0};
    must(hlo_module_to_proto(module, &proto), golden->name);
    cr_assert(hlo_looks_like_proto(proto.data, proto.length));
    must(hlo_module_from_proto(proto.data, proto.length, &again), golden->name);
    must(hlo_verify(again), golden->name);
    again->num_partitions = module->num_partitions;  // these are fields of HloModuleConfig
    again->replica_count = module->replica_count;
    HloText first = print(module), second = print(again);
    cr_assert_str_eq(second.data, first.data, "%s changes through protobuf", golden->name);
    hlo_text_free(&first);
    hlo_text_free(&second);
    hlo_text_free(&proto);
    hlo_module_free(module);
    hlo_module_free(again);
}

// The module's text without what the two differ in: metadata, since bytecode has no lines of the text, and constants,
// which StableHLO sorts and shares when it writes.
static HloText print_without_constants(const HloModule *module) {
    HloPrintOptions options = hlo_print_default();
    options.print_metadata = false;
    HloText text = print_module(module, &options), kept = {0};
    for (const char *line = text.data; *line;) {
        const char *end = strchr(line, '\n'), *constant = strstr(line, " constant(");
        const char *next = end ? end + 1 : line + strlen(line);
        const bool is_constant = constant && constant < next;
        while (!is_constant && line < next) {
            hlo_text_append(&kept, line, 1);
            // %constant.12 is %constant.
            if (kept.length >= 9 && memcmp(kept.data + kept.length - 9, "%constant", 9) == 0) {
                line += 1 + strspn(line + 1, ".0123456789");
            } else {
                line++;
            }
        }
        line = next;
    }
    hlo_text_free(&text);
    return kept;
}

CaseList(stablehlo_bytecode, every_release_says_the_same) {
    return cases_numbered(HLO_COUNT_OF(versions));
}

// bug: the attributes of operations whose sizes are operands, and of obsolete ones, were lost.
CaseTest(const int *index, stablehlo_bytecode, every_release_says_the_same) {
    const Version *version = &versions[*index];
    HloModule *read = NULL, *expected = NULL;
    must(hlo_module_from_stablehlo_bytecode(version->bytes, version->length, &read), version->name);
    must(hlo_module_from_stablehlo_text(version->text, strlen(version->text), NULL, &expected), version->name);
    must(hlo_verify(read), version->name);
    HloText first = print_without_constants(expected), second = print_without_constants(read);
    cr_expect_str_eq(second.data, first.data, "%s", version->name);
    hlo_text_free(&first);
    hlo_text_free(&second);
    hlo_module_free(read);
    hlo_module_free(expected);
}

// bug: the dimension is in a dictionary of the call and was not read; the last one was sorted.
Test(stablehlo_bytecode, approximate_top_k_sorts_the_dimension_it_names) {
    int found = 0;
    for (size_t i = 0; i < HLO_COUNT_OF(goldens); i++) {
        if (strcmp(goldens[i].name, "approx_top_k") != 0) continue;
        found++;
        HloModule *module = NULL;
        must(hlo_module_from_stablehlo_bytecode(goldens[i].bytes, goldens[i].length, &module), goldens[i].name);
        HloText text = print(module);
        cr_expect_not_null(strstr(text.data, "dimensions={0}, is_stable=true"), "%s", text.data);
        cr_expect_not_null(strstr(text.data, "slice={[0:2], [0:16]}"), "%s", text.data);
        hlo_text_free(&text);
        hlo_module_free(module);
    }
    cr_expect_eq(found, 1);
}

static void expect_in_text(const unsigned char *bytes, size_t length, const char *const *parts, size_t count) {
    HloModule *module = NULL;
    must(hlo_module_from_stablehlo_bytecode(bytes, length, &module), "golden");
    must(hlo_verify(module), "golden");
    HloText text = print(module);
    for (size_t i = 0; i < count; i++) cr_expect(strstr(text.data, parts[i]), "no '%s' in %s", parts[i], text.data);
    hlo_text_free(&text);
    hlo_module_free(module);
}

static const Golden *golden_named(const char *name) {
    size_t i = 0;
    while (i < HLO_COUNT_OF(goldens) && strcmp(goldens[i].name, name) != 0) i++;
    cr_assert_lt(i, HLO_COUNT_OF(goldens));
    return &goldens[i];
}

// Facts that a tiling cannot express are kept beside it, from native sdy operations and from the custom-calls of
// artifacts.
Test(stablehlo_bytecode, keeps_axis_names_and_open_dimensions) {
    const char *const parts[] = {"xla.sdy.meshes={mesh = #sdy.mesh<[\"a\"=4, \"b\"=2]>}",
                                 "<@mesh, [{\\\"a\\\"}, {?}]>"};
    const Golden *exported = golden_named("unconstrained");
    expect_in_text(exported->bytes, exported->length, parts, HLO_COUNT_OF(parts));
    expect_in_text(native_unconstrained_bytes, sizeof(native_unconstrained_bytes), parts, HLO_COUNT_OF(parts));
}

// A value with an annotation of its own joins its group too; a second group gets a copy.
Test(stablehlo_bytecode, groups_of_shardings_beside_annotations) {
    const char *const parts[] = {"custom_call_target=\"Sharding\", sharding={devices=[4,2]<=[8] shard_as 0}",
                                 "sharding={unknown shard_as 0}", "sharding={unknown shard_as 1}"};
    const Golden *exported = golden_named("alike");
    expect_in_text(exported->bytes, exported->length, parts, HLO_COUNT_OF(parts));
    expect_in_text(native_alike_bytes, sizeof(native_alike_bytes), parts, HLO_COUNT_OF(parts));
}

// A module whose attribute k is a dense array of one complex<f64>: 16 bytes went into a number of 8.
Test(stablehlo_bytecode, bug_dense_array_of_wide_elements) {
    static const unsigned char bytes[] = {
        0x4D, 0x4C, 0xEF, 0x52, 0x0D, 0x78, 0x00, 0x00, 0x2B, 0x07, 0x05, 0x0F, 0x11, 0x62, 0x75, 0x69, 0x6C,
        0x74, 0x69, 0x6E, 0x00, 0x6D, 0x6F, 0x64, 0x75, 0x6C, 0x65, 0x00, 0x6B, 0x00, 0x01, 0x0D, 0x03, 0x01,
        0x03, 0x01, 0x03, 0x07, 0x02, 0x3D, 0x1F, 0x05, 0x05, 0x23, 0x01, 0x03, 0x21, 0x11, 0x11, 0x11, 0x11,
        0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x03, 0x03, 0x03, 0x05, 0x13,
        0x03, 0x0D, 0x03, 0x19, 0x09, 0x05, 0x01, 0x09, 0x07, 0x0B, 0x53, 0x13, 0x01, 0x05, 0x0B, 0x07, 0x04,
        0x13, 0x05, 0x01, 0x11, 0x01, 0x07, 0x07, 0x04, 0x03, 0x01, 0x08, 0x03, 0x01};
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_bytecode(bytes, sizeof(bytes), &module);
    cr_assert(strstr(hlo_status_message(status), "a dense array of elements that are not numbers"), "%s",
              hlo_status_message(status));
    hlo_status_free(status);
}

// One varint; all numbers here are below 2^14.
static void put_varint(HloText *bytes, unsigned value) {
    if (value < 128) {
        hlo_text_char(bytes, (char)(value << 1 | 1));
        return;
    }
    const unsigned wide = value << 2 | 2;
    hlo_text_char(bytes, (char)(wide & 0xFF));
    hlo_text_char(bytes, (char)(wide >> 8));
}

static void put_section(HloText *file, unsigned id, const HloText *content) {
    hlo_text_char(file, (char)id);
    put_varint(file, (unsigned)content->length);
    hlo_text_append(file, content->data, content->length);
}

// A file whose module holds the bytes of one region, which may have operations 1, `op`: a module of version 6 with one
// location.
static HloText module_of(const HloText *region) {
    HloText file = {0}, ir = {0};
    hlo_text_append(&ir, "\5\1\x10\1\7\4", 6);  // the module, whose one region has a section of its own
    put_varint(&ir, (unsigned)region->length);
    hlo_text_append(&ir, region->data, region->length);
    hlo_text_append(&file, "ML\xEFR\x0Dx\0", 7);
    hlo_text_append(&file,
                    "\0\x2D\7\7\x0F\x11"
                    "builtin\0module\0op\0",
                    24);
    hlo_text_append(&file, "\1\x0F\3\1\5\1\5\7\x0B", 9);
    hlo_text_append(&file, "\2\3\x1F\3\x0B\3\1\1\3\7", 10);
    put_section(&file, 4, &ir);
    hlo_text_append(&file, "\x08\3\1", 3);
    hlo_text_free(&ir);
    return file;
}

static void expect_region_refused(const HloText *region, const char *part) {
    HloModule *module = NULL;
    HloText file = module_of(region);
    HloStatus status = hlo_module_from_stablehlo_bytecode(file.data, file.length, &module);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect(strstr(hlo_status_message(status), part), "'%s' is not in '%s'", part, hlo_status_message(status));
    hlo_status_free(status);
    hlo_text_free(&file);
}

// A region of no value with a block of one operation, which has a region of no value...: the module's is the first.
Test(stablehlo_bytecode, regions_that_nest_too_deep) {
    enum { DEEPEST = 100 };
    HloText region = {0};
    for (int i = 0; i < DEEPEST; i++) hlo_text_append(&region, "\3\1\5\3\x10\1\5", 7);
    hlo_text_append(&region, "\3\1\1", 3);
    expect_region_refused(&region, "regions nest more than 100 deep");
    hlo_text_free(&region);
}

// An operation of 1,000 regions, side by side, each of which says that it owns 8,000 values: they took 80 bytes each
// before the reader checked whether the file can hold them, which made gigabytes of kilobytes.
Test(stablehlo_bytecode, bug_regions_claim_more_values_than_there_are) {
    enum { REGIONS = 1000, BYTES = 9000 };
    HloText regions = {0}, inner = {0};
    for (int i = 0; i < REGIONS; i++) {
        put_varint(&regions, 1);
        put_varint(&regions, 8000 - 4 * i > 0 ? (unsigned)(8000 - 4 * i) : 0);
        put_varint(&regions, 0);
    }
    while (regions.length < BYTES) hlo_text_char(&regions, 1);
    hlo_text_append(&inner, "\3\1\5\3\x10\1", 6);  // a block of operation 1, which has regions
    put_varint(&inner, REGIONS << 1);
    hlo_text_append(&inner, regions.data, regions.length);
    expect_region_refused(&inner, "the regions have more values than the file has bytes");
    hlo_text_free(&regions);
    hlo_text_free(&inner);
}

// A module that has results, namely none, where there are no values: an offset of no array.
Test(stablehlo_bytecode, bug_no_results_where_there_are_no_values) {
    static const unsigned char bytes[] = {'M',  'L', 0xEF, 'R',  0x0D, 'x', 0, 0,   0x2D, 7,    7,   0x0F, 0x11, 'b',
                                          'u',  'i', 'l',  't',  'i',  'n', 0, 'm', 'o',  'd',  'u', 'l',  'e',  0,
                                          'o',  'p', 0,    1,    0x0F, 3,   1, 5,   1,    5,    7,   0x0B, 2,    3,
                                          0x1F, 3,   0x0B, 3,    1,    1,   3, 7,   4,    0x1F, 5,   1,    0x12, 1,
                                          1,    7,   4,    0x0F, 3,    1,   5, 3,   4,    1,    1,   8,    3,    1};
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_bytecode(bytes, sizeof(bytes), &module);
    cr_expect(strstr(hlo_status_message(status), "builtin.op"), "%s", hlo_status_message(status));
    hlo_status_free(status);
}

// bug: the message about MLIR's own bytecode, which jaxlib writes when it is not asked for an artifact, was about a
// function without a name.
Test(stablehlo_bytecode, native_bytecode_is_refused_by_name) {
    HloText file = {0};
    hlo_text_append(&file, "ML\xEFR\x0Dx\0", 7);
    hlo_text_append(&file,
                    "\0\x23\5\x09\x15"
                    "stablehlo\0add\0",
                    19);
    hlo_text_append(&file, "\1\x0D\3\1\3\1\3\7", 8);
    hlo_text_append(&file, "\2\1\3\5\1\1\4\3\1", 9);
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_bytecode(file.data, file.length, &module);
    cr_assert_eq(hlo_status_code(status), HLO_UNIMPLEMENTED, "%s", hlo_status_message(status));
    cr_assert(
        strstr(hlo_status_message(status), "MLIR bytecode of stablehlo.add, which only the release that wrote it"),
        "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_text_free(&file);
}

CaseList(stablehlo_bytecode, hostile_bytes) {
    return each_golden();
}

static void try_bytes(const unsigned char *bytes, size_t length) {
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_bytecode(bytes, length, &module);
    if (!status) status = hlo_verify(module);  // may refuse what the importer let through; must not crash
    hlo_status_free(status);
    hlo_module_free(module);
}

CaseTest(const int *index, stablehlo_bytecode, hostile_bytes) {
    const Golden *golden = &goldens[*index];
    unsigned char *bytes = malloc(golden->length);
    for (size_t length = 0; length < golden->length; length += 7) {
        memcpy(bytes, golden->bytes, golden->length);
        HloModule *module = NULL;
        HloStatus status = hlo_module_from_stablehlo_bytecode(bytes, length, &module);
        cr_assert(status, "%s cut to %zu bytes was accepted", golden->name, length);
        hlo_status_free(status);
    }
    for (size_t i = 0; i < golden->length; i++) {
        memcpy(bytes, golden->bytes, golden->length);
        bytes[i] ^= (unsigned char)(1 + i * 37 % 255);
        try_bytes(bytes, golden->length);
    }
    free(bytes);
}
