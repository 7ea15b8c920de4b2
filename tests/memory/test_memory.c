// SPDX-License-Identifier: Apache-2.0
// Short of memory at any allocation of any public call: RESOURCE_EXHAUSTED or a right result, never a crash, and (under
// AddressSanitizer) never a leak.
#include <criterion/criterion.h>
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

// Runs a program of arguments that are zeros on `devices` devices.
static HloStatus evaluate_text(const char *text, int64_t devices) {
    enum { MOST_DEVICES = 4, MOST_PARAMETERS = 2 };
    HloModule *module = NULL;
    const HloLiteral *row[MOST_PARAMETERS] = {0}, *const * rows[MOST_DEVICES];
    HloLiteral *arguments[MOST_PARAMETERS] = {0}, *results[MOST_DEVICES] = {0};
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    if (status) return status;
    const int64_t count = module->entry->parameters.count;
    for (int64_t i = 0; i < count && !status; i++) {
        row[i] = arguments[i] = hlo_literal_new(module->entry->parameters.items[i]->shape);
        if (!row[i]) status = hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for an argument");
    }
    for (int64_t d = 0; d < devices; d++) rows[d] = row;
    if (!status) status = hlo_evaluate_partitioned(module, devices, rows, count, NULL, results);
    for (int64_t d = 0; d < devices; d++) {
        cr_expect_eq(results[d] == NULL, status != NULL);
        hlo_literal_free(results[d]);
    }
    for (int64_t i = 0; i < count; i++) hlo_literal_free(arguments[i]);
    hlo_module_free(module);
    return status;
}

// A device that sends to itself, with pairs and without.
static HloStatus messages_door(const World *world) {
    (void)world;
#define MESSAGE(name, channel, attributes)                                                                        \
    " token" name " = token[] after-all()\n sent" name " = (f32[4], u32[], token[]) send(p, token" name           \
    "), channel_id=" channel attributes "\n done" name " = token[] send-done(sent" name "), channel_id=" channel  \
    "\n got" name " = (f32[4], u32[], token[]) recv(done" name "), channel_id=" channel attributes "\n pair" name \
    " = (f32[4], token[]) recv-done(got" name "), channel_id=" channel "\n r" name                                \
    " = f32[4] get-tuple-element(pair" name "), index=0\n"
    return evaluate_text("HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n" MESSAGE(
                             "0", "1", ", frontend_attributes={_xla_send_recv_source_target_pairs=\"{{0,0}}\"}")
                             MESSAGE("1", "2", "") " ROOT r = f32[4] add(r0, r1)\n}\n",
                         1);
#undef MESSAGE
}

// Devices on threads of their own, which all run short: none may wait for one that has ended.
static HloStatus meetings_door(const World *world) {
    (void)world;
    return evaluate_text(
        "HloModule m, num_partitions=4\nadd {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[] "
        "add(a, b)\n}\nENTRY e {\n p = f32[4] parameter(0)\n x = f32[4] all-reduce(p), replica_groups={{0,1},{2,3}}, "
        "channel_id=1, use_global_device_ids=true, to_apply=add\n ROOT r = f32[16] all-gather(x), "
        "replica_groups={{0,1,2,3}}, dimensions={0}, channel_id=2, use_global_device_ids=true\n}\n",
        4);
}

// Arrays of bounded dynamic size.
static HloStatus dynamic_door(const World *world) {
    (void)world;
    return evaluate_text(
        "HloModule m\nENTRY e {\n p = f32[4,3] parameter(0)\n n = s32[] constant(2)\n x = f32[<=4,3] "
        "set-dimension-size(p, n), dimensions={0}\n y = f32[<=4,3] negate(x)\n ROOT r = f32[<=8,3] concatenate(x, y), "
        "dimensions={0}\n}\n",
        1);
}

// Computations within computations, by the builder.
static HloStatus shuffle_door(const World *world) {
    (void)world;
    HloModule *module = hlo_module_new("m");
    HloBuilder *builder = module ? hlo_builder_new(module, "main") : NULL;
    HloStatus status = NULL;
    if (builder) {
        HloInstruction *x = hlo_build_parameter(builder, 0, HLO_F32, HLO_DIMS(16), "x");
        status = hlo_builder_finish_entry(
            builder, hlo_random_shuffle(builder, HLO_RANDOM_PARTITIONABLE, hlo_random_key(builder, 1), x, 0));
    } else {
        status = hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a builder");
    }
    hlo_module_free(module);
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
    {.name = "json", .door = json_door},           {.name = "file", .door = file_door},
    {.name = "messages", .door = messages_door},   {.name = "meetings", .door = meetings_door},
    {.name = "dynamic", .door = dynamic_door},     {.name = "shuffle", .door = shuffle_door}};

CaseList(memory, running_short_is_an_error_at_any_allocation) {
    return cases_numbered(HLO_COUNT_OF(doors));
}

CaseTest(const int *number, memory, running_short_is_an_error_at_any_allocation) {
    door_must_survive(&doors[*number]);
}
