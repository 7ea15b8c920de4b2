// SPDX-License-Identifier: Apache-2.0
// Portable bytecode from real JAX: it reads, verifies, prints, survives protobuf; cut or flipped bytes are refused.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
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

ParameterizedTestParameters(stablehlo_bytecode, reads_and_verifies) {
    return each_golden();
}

ParameterizedTest(const int *index, stablehlo_bytecode, reads_and_verifies) {
    const Golden *golden = &goldens[*index];
    HloModule *module = NULL, *again = NULL;
    must(hlo_module_from_stablehlo_bytecode(golden->bytes, golden->length, &module), golden->name);
    must(hlo_verify(module), golden->name);
    HloText proto = {0};
    must(hlo_module_to_proto(module, &proto), golden->name);
    cr_assert(hlo_looks_like_proto(proto.data, proto.length));
    must(hlo_module_from_proto(proto.data, proto.length, &again), golden->name);
    must(hlo_verify(again), golden->name);
    again->num_partitions = module->num_partitions;  // these stand in HloModuleConfig
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

ParameterizedTestParameters(stablehlo_bytecode, every_release_says_the_same) {
    return cases_numbered(HLO_COUNT_OF(versions));
}

// The attributes of operations whose sizes are operands, and of those given up, were lost.
ParameterizedTest(const int *index, stablehlo_bytecode, every_release_says_the_same) {
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

// The dimension stands in a dictionary of the call and was not read: the last one was sorted.
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

// What a tiling cannot say is kept beside it, from native sdy operations and from the custom-calls of artifacts.
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

ParameterizedTestParameters(stablehlo_bytecode, hostile_bytes) {
    return each_golden();
}

static void try_bytes(const unsigned char *bytes, size_t length) {
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_bytecode(bytes, length, &module);
    if (!status) status = hlo_verify(module);  // may refuse what the importer let through; must not crash
    hlo_status_free(status);
    hlo_module_free(module);
}

ParameterizedTest(const int *index, stablehlo_bytecode, hostile_bytes) {
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
