// SPDX-License-Identifier: Apache-2.0
// Short of memory at any allocation of any public call: RESOURCE_EXHAUSTED or a right result, never a crash, and (under
// AddressSanitizer) never a leak.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/base/json.h"
#include "hlo/eval/eval.h"
#include "hlo/hlo.h"
#include "hlo/pass/pass.h"
#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "tests/memory/doors.h"
#include "tests/support/cases.h"
#include "tools/npy.h"

static HloStatus text_door(const World *world) {
    HloModule *module = NULL;
    HloText text = {0};
    HloStatus status = hlo_parse(world->text.data, world->text.length, NULL, &module);
    if (!status) status = hlo_verify(module);
    if (!status) status = hlo_print(module, NULL, &text);
    hlo_text_free(&text);
    hlo_module_free(module);
    return status;
}

static HloStatus proto_door(const World *world) {
    HloModule *module = NULL;
    HloText bytes = {0};
    HloStatus status = hlo_module_from_proto(world->proto.data, world->proto.length, &module);
    if (!status) status = hlo_module_to_proto(module, &bytes);
    hlo_text_free(&bytes);
    hlo_module_free(module);
    return status;
}

static HloStatus stablehlo_door(const World *world) {
    HloModule *module = NULL;
    HloText text = {0};
    HloStatus status = hlo_module_from_stablehlo_text(world->stablehlo.data, world->stablehlo.length, NULL, &module);
    if (!status) status = hlo_module_to_stablehlo_text(module, true, &text);
    hlo_text_free(&text);
    hlo_module_free(module);
    return status;
}

static HloStatus bytecode_door(const World *world) {
    HloModule *module = NULL;
    HloText bytes = {0};
    HloStatus status = hlo_module_from_stablehlo_bytecode(world->bytecode.data, world->bytecode.length, &module);
    if (!status) status = hlo_module_to_stablehlo_bytecode(module, NULL, &bytes);
    hlo_text_free(&bytes);
    hlo_module_free(module);
    return status;
}

// Sizes that are computed, a function converted for its caller, and chlo written as composites.
static HloStatus sizes_door(const World *world) {
    static const char text[] =
        "func.func @main(%x: tensor<2x4xf32>) -> tensor<8xf32> {\n"
        "  %n = stablehlo.constant dense<8> : tensor<1xi32>\n"
        "  %0 = call @flat(%x, %n) : (tensor<2x4xf32>, tensor<1xi32>) -> tensor<?xf32>\n"
        "  %1 = chlo.erf %0 : tensor<?xf32> -> tensor<?xf32>\n"
        "  %2 = chlo.broadcast_add %1, %1 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>\n"
        "  %3 = tensor.cast %2 : tensor<?xf32> to tensor<8xf32>\n  return %3 : tensor<8xf32>\n}\n"
        "func.func private @flat(%x: tensor<2x?xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {\n"
        "  %0 = stablehlo.dynamic_reshape %x, %n : (tensor<2x?xf32>, tensor<1xi32>) -> tensor<?xf32>\n"
        "  return %0 : tensor<?xf32>\n}\n";
    HloModule *module = NULL;
    HloText bytes = {0};
    (void)world;
    HloStatus status = hlo_module_from_stablehlo_text(text, sizeof(text) - 1, NULL, &module);
    if (!status) status = hlo_module_to_stablehlo_bytecode(module, NULL, &bytes);
    hlo_text_free(&bytes);
    hlo_module_free(module);
    return status;
}

static HloStatus compare_hashes(void *argument) {
    const HloModule *const *pair = argument;
    const uint64_t original = hlo_module_hash(pair[0]), copied = hlo_module_hash(pair[1]);
    cr_expect_eq(original, copied);
    return HLO_SUCCESS;
}

static HloStatus clone_door(const World *world) {
    HloModule *copy = hlo_module_clone(world->module);
    if (!copy) return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory to copy the program");
    const HloModule *pair[] = {world->module, copy};
    HloStatus status = hlo_protect(compare_hashes, pair);
    hlo_module_free(copy);
    return status;
}

static HloStatus evaluate_door(const World *world) {
    HloLiteral *result = NULL;
    HloStatus status =
        hlo_evaluate(world->module, (const HloLiteral *const *)world->arguments, world->argument_count, NULL, &result);
    hlo_literal_free(result);
    return status;
}

static HloStatus passes_door(const World *world) {
    HloModule *copy = hlo_module_clone(world->module);
    if (!copy) return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory to copy the program");
    static const char *const names[] = {"simplify", "expand"};
    HloStatus status = hlo_run_passes(copy, names, 2, NULL);
    hlo_module_free(copy);
    return status;
}

static HloStatus json_door(const World *world) {
    (void)world;
    static const char text[] = "{\"a\": [1, 2.5, {\"b\": \"c\\n\"}], \"d\": null, \"e\": true}";
    HloArena *arena = hlo_arena_new();
    if (!arena) return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for an arena");
    HloJsonValue *value;
    HloStatus status = hlo_json_parse(arena, "t.json", text, sizeof(text) - 1, &value);
    hlo_arena_free(arena);
    return status;
}

static HloStatus file_door(const World *world) {
    HloLiteral *literal = NULL;
    HloStatus status = npy_write(world->path, world->arguments[0]);
    if (!status) status = npy_read(world->path, world->arguments[0]->shape, &literal);
    if (!status) cr_expect(hlo_literal_equal(literal, world->arguments[0]));
    hlo_literal_free(literal);
    return status;
}

static const NamedDoor doors[] = {
    {.name = "text", .door = text_door},           {.name = "proto", .door = proto_door},
    {.name = "stablehlo", .door = stablehlo_door}, {.name = "sizes", .door = sizes_door},
    {.name = "bytecode", .door = bytecode_door},   {.name = "clone", .door = clone_door},
    {.name = "evaluate", .door = evaluate_door},   {.name = "passes", .door = passes_door},
    {.name = "json", .door = json_door},           {.name = "file", .door = file_door}};

ParameterizedTestParameters(memory, running_short_is_an_error_at_any_allocation) {
    return cases_numbered(HLO_COUNT_OF(doors));
}

ParameterizedTest(const int *number, memory, running_short_is_an_error_at_any_allocation) {
    door_must_survive(&doors[*number]);
}
