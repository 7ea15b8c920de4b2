// SPDX-License-Identifier: Apache-2.0
// Short of memory at any allocation of any public call: RESOURCE_EXHAUSTED or a right result, never a crash, and (under
// AddressSanitizer) never a leak. Each door is called again and again while the first, the second, the third …
// allocation of the calling thread fails, until it needs no more of them than there are.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulator/draw.h"
#include "emulator/export_hwloc.h"
#include "emulator/mesh_order.h"
#include "emulator/simulate.h"
#include "hlo/base/file.h"
#include "hlo/base/json.h"
#include "hlo/eval/eval.h"
#include "hlo/hlo.h"
#include "hlo/pass/pass.h"
#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "targets/program.h"
#include "tests/support/compiled.h"
#include "tests/support/random_module.h"
#include "tools/npy.h"

// What a door works on: a program, in the forms that some of them read, and arguments for it.
typedef struct World {
    HloModule *module;
    HloText text, proto, stablehlo, bytecode;
    HloLiteral *arguments[16];
    int64_t argument_count;
    TargetClient *client;
    EmuTopology *topology;
    char path[64];
} World;

typedef HloStatus Door(const World *world);

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

static HloStatus program_door(const World *world) {
    TargetProgram *program = NULL;
    HloLiteral *results[16] = {0};
    HloStatus status = target_program_new(world->client, world->module, NULL, &program);
    if (!status) {
        status =
            target_program_call(program, (const HloLiteral *const *)world->arguments, world->argument_count, results);
    }
    for (size_t i = 0; i < HLO_COUNT_OF(results); i++) hlo_literal_free(results[i]);
    target_program_free(program);
    return status;
}

static HloStatus spread_door(const World *world) {
    TargetProgram *program = NULL;
    TargetArray *array = NULL;
    HloLiteral *whole = NULL;
    HloText picture = {0};
    const SpmdMeshAxis mesh[] = {{"a", 2}, {"b", 2}};
    const char *shards[] = {"p0=a"};
    TargetProgramOptions options = {.spmd = {.mesh = mesh, .mesh_axis_count = 2, .shards = shards, .shard_count = 1}};
    HloStatus status = target_program_new(world->client, world->module, &options, &program);
    if (!status) status = target_program_place(program, 0, world->arguments[0], &array);
    if (!status) status = target_array_to_literal(array, &whole);
    if (!status) status = target_array_draw(array, &picture);
    if (!status) {
        cr_expect(hlo_literal_equal(whole, world->arguments[0]));
        cr_expect_not_null(picture.data);
    }
    hlo_text_free(&picture);
    hlo_literal_free(whole);
    target_array_release(array);
    target_program_free(program);
    return status;
}

static HloStatus emulate_door(const World *world) {
    EmuReport *report = NULL;
    HloStatus status = emu_simulate(world->module, world->topology, NULL, &report);
    emu_report_free(report);
    return status;
}

static HloStatus machine_door(const World *world) {
    (void)world;
    EmuTopology *topology = NULL;
    HloText picture = {0};
    int64_t ids[8];
    const int64_t sizes[] = {4, 2};
    HloStatus status = emu_topology_parse("v2-8", &topology);
    if (!status) status = emu_mesh_order(topology, sizes, 2, false, ids);
    if (!status) status = emu_export_hwloc(topology, &picture);
    if (!status) {
        emu_draw_topology(topology, &picture);
        status = hlo_text_status(&picture);
    }
    hlo_text_free(&picture);
    emu_topology_free(topology);
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

static const struct {
    const char *name;
    Door *door;
} doors[] = {{"text", text_door},         {"proto", proto_door},       {"stablehlo", stablehlo_door},
             {"sizes", sizes_door},       {"bytecode", bytecode_door}, {"clone", clone_door},
             {"evaluate", evaluate_door}, {"program", program_door},   {"spread", spread_door},
             {"emulate", emulate_door},   {"machine", machine_door},   {"passes", passes_door},
             {"json", json_door},         {"file", file_door}};

// A network's step: products, reductions, a loop, a sort, gathers, custom computations, a constant and random numbers.
static const char program_text[] =
    "HloModule m\n"
    "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[] add(a, b)\n}\n"
    "less {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = pred[] compare(a, b), direction=LT\n}\n"
    "go {\n s = (s32[], f32[16,8]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(3)\n"
    " ROOT c = pred[] compare(i, n), direction=LT\n}\n"
    "next {\n s = (s32[], f32[16,8]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " v = f32[16,8] get-tuple-element(s), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n"
    " w = f32[16,8] multiply(v, v)\n ROOT t = (s32[], f32[16,8]) tuple(j, w)\n}\n"
    "ENTRY e {\n x = f32[16,8] parameter(0)\n w = f32[8,8] parameter(1)\n z = f32[] constant(0)\n"
    " y = f32[16,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n h = f32[16,8] tanh(y)\n"
    " o = s32[] constant(0)\n s = (s32[], f32[16,8]) tuple(o, h)\n l = (s32[], f32[16,8]) while(s), condition=go, "
    "body=next\n"
    " v = f32[16,8] get-tuple-element(l), index=1\n r = f32[16] reduce(v, z), dimensions={1}, to_apply=add\n"
    " q = f32[16] sort(r), dimensions={0}, to_apply=less\n k = s32[4,1] constant({{3},{1},{2},{0}})\n"
    " g = f32[4,8] gather(v, k), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,"
    " slice_sizes={1,8}\n"
    " u = f32[16,8] scatter(v, k, g), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0},"
    " index_vector_dim=1, to_apply=add\n"
    " f = f32[8,8] cholesky(w), lower=true\n c = f32[4,1,8] reshape(g)\n"
    " p = f32[15,7] reduce-window(u, z), window={size=2x2}, to_apply=add\n"
    " ROOT t = (f32[16], f32[16,8], f32[8,8], f32[4,1,8], f32[15,7]) tuple(q, u, f, c, p)\n}\n";

static void make_world(World *world) {
    memset(world, 0, sizeof(*world));
    snprintf(world->path, sizeof(world->path), "/tmp/meshlo-memory-%ld.npy", (long)getpid());
    hlo_text_string(&world->text, program_text);
    world->module = compiled_must_parse(program_text);
    must_succeed(hlo_module_to_proto(world->module, &world->proto));
    must_succeed(hlo_module_to_stablehlo_text(world->module, true, &world->stablehlo));
    must_succeed(hlo_module_to_stablehlo_bytecode(world->module, NULL, &world->bytecode));
    must_succeed(target_client_new("cpu:4", &world->client));
    must_succeed(emu_topology_parse("v5e-4", &world->topology));
    world->argument_count = world->module->entry->parameters.count;
    for (int64_t i = 0; i < world->argument_count; i++) {
        world->arguments[i] = compiled_random(world->module->entry->parameters.items[i]->shape, (uint64_t)i + 1);
    }
}

static void free_world(World *world) {
    unlink(world->path);
    for (int64_t i = 0; i < world->argument_count; i++) hlo_literal_free(world->arguments[i]);
    emu_topology_free(world->topology);
    target_client_release(world->client);
    hlo_text_free(&world->bytecode);
    hlo_text_free(&world->stablehlo);
    hlo_text_free(&world->proto);
    hlo_text_free(&world->text);
    hlo_module_free(world->module);
}

ParameterizedTestParameters(memory, running_short_is_an_error_at_any_allocation) {
    int *indices = cr_malloc(sizeof(*indices) * HLO_COUNT_OF(doors));
    for (size_t i = 0; i < HLO_COUNT_OF(doors); i++) indices[i] = (int)i;
    return cr_make_param_array(int, indices, HLO_COUNT_OF(doors));
}

ParameterizedTest(const int *index, memory, running_short_is_an_error_at_any_allocation) {
    enum { MANY = 100000 };
    World world;
    make_world(&world);
    bool enough = false;
    int64_t countdown = 0;
    for (; !enough && countdown < MANY; countdown += 1 + countdown / 64) {
        hlo_allocation_fail_after(countdown);
        HloStatus status = doors[*index].door(&world);
        hlo_allocation_fail_after(-1);
        enough = !status;
        if (status) {
            cr_expect_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED, "%s after %lld allocations: %s",
                         doors[*index].name, (long long)countdown, hlo_status_message(status));
        }
        hlo_status_free(status);
    }
    cr_expect(enough, "%s fails with %lld allocations", doors[*index].name, (long long)countdown);
    free_world(&world);
}
