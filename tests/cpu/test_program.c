// SPDX-License-Identifier: Apache-2.0
// Whole arrays in, whole arrays out.
#include <criterion/criterion.h>
#include <string.h>

#include "compile/pipeline.h"
#include "emulator/simulate.h"
#include "hlo/eval/eval.h"
#include "hlo/hlo.h"
#include "targets/program.h"
#include "targets/spmd_machine.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

static const char kLayer[] =
    "HloModule layer\n"
    "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }\n"
    "ENTRY main {\n"
    "  x = f32[12,10] parameter(0)\n"
    "  w = f32[10,10] parameter(1)\n"
    "  y = f32[12,10] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  s = f32[12,10] sine(y)\n"
    "  low = f32[] constant(-inf)\n"
    "  r = f32[10] reduce(s, low), dimensions={0}, to_apply=max\n"
    "  ROOT t = (f32[12,10], f32[10]) tuple(s, r)\n"
    "}\n";

static const SpmdMeshAxis kMesh[] = {{"x", 4}, {"y", 2}};

static void expect_near(const HloLiteral *have, const HloLiteral *want) {
    cr_assert(hlo_shape_equal(have->shape, want->shape, HLO_COMPARE_IGNORE_LAYOUT));
    for (int64_t i = 0; i < hlo_shape_elements(want->shape); i++)
        cr_expect_float_eq(hlo_literal_get_double(have, i), hlo_literal_get_double(want, i), 1e-5, "element %lld",
                           (long long)i);
}

// The layer on v2-8 with `shards`, in f32.
static TargetProgram *layer_program(TargetClient *client, const char *const *shards, int64_t count) {
    HloModule *module = compiled_must_parse(kLayer);
    TargetProgramOptions options = {
        .spmd = {.mesh = kMesh, .mesh_axis_count = 2, .shards = shards, .shard_count = count},
        .numerics = TARGET_NUMERICS_EXACT};
    TargetProgram *program = NULL;
    must_succeed(target_program_new(client, module, &options, &program));
    hlo_module_free(module);
    return program;
}

// The collectives of a program of one device, in order.
static void list_collectives(const HloModule *module, HloText *list) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE)) hlo_text_format(list, "%s ", hlo_op_text(at->opcode));
    }
}

// Rows that move between shards: on a slice one gather takes less time than the exchange, which sends fewer bytes. The
// client's slice decides, as the one that the pipeline is given.
Test(program, plans_are_compared_by_the_slice_of_the_client) {
    HloModule *module = compiled_must_parse(
        "HloModule m, num_partitions=8\nENTRY e {\n p = f32[64,40] parameter(0), sharding={devices=[8,1]<=[8]}\n"
        " q = f32[40,64] transpose(p), dimensions={1,0}\n"
        " ROOT r = f32[20,128] reshape(q), sharding={devices=[8,1]<=[8]}\n}\n");
    static const char *const machines[] = {"cpu:8", "v5e-8"};
    HloText lists[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        TargetClient *client = NULL;
        TargetProgram *program = NULL;
        EmuTopology *topology = NULL;
        SpmdMachine machine;
        must_succeed(target_client_new(machines[i], &client));
        must_succeed(emu_topology_parse(machines[i], &topology));
        must_succeed(target_program_new(client, module, NULL, &program));
        CompileOptions options = {.spmd.machine = target_spmd_machine(topology, &machine) ? &machine : NULL};
        CompiledModule *compiled = NULL;
        must_succeed(compile_module(module, &options, &compiled));
        HloText list = {0};
        list_collectives(compiled->module, &list);
        list_collectives(target_program_module(program), &lists[i]);
        cr_expect_str_eq(list.data, lists[i].data);
        hlo_text_free(&list);
        compiled_module_free(compiled);
        target_program_free(program);
        emu_topology_free(topology);
        target_client_release(client);
    }
    cr_expect_str_neq(lists[0].data, lists[1].data);
    for (int i = 0; i < 2; i++) hlo_text_free(&lists[i]);
    hlo_module_free(module);
}

typedef struct Cut {
    char x[16], w[16];
} Cut;

CaseList(program, call_equals_the_evaluator) {
    static const Cut cuts[] = {{"p0=x,y", "p1=-,-"},
                               {"p0=x,-", "p1=-,y"},
                               {"p0=-,x", "p1=x,-"},
                               {"p0=(x,y),-", "p1=y,x"},
                               {"p0=-,-", "p1=-,x"}};
    Cut *copy = cr_malloc(sizeof cuts);
    memcpy(copy, cuts, sizeof cuts);
    return cr_make_param_array(Cut, copy, sizeof cuts / sizeof cuts[0], NULL);
}

CaseTest(const Cut *cut, program, call_equals_the_evaluator) {
    const char *shards[] = {cut->x, cut->w};
    TargetClient *client = NULL;
    must_succeed(target_client_new("v2-8", &client));
    TargetProgram *program = layer_program(client, shards, 2);
    HloModule *module = compiled_must_parse(kLayer);
    HloLiteral *arguments[2], *results[2] = {0}, *want = NULL;
    for (int i = 0; i < 2; i++)
        arguments[i] = compiled_random(module->entry->parameters.items[i]->shape, (uint64_t)i + 1);
    must_succeed(hlo_evaluate(module, (const HloLiteral *const *)arguments, 2, NULL, &want));
    must_succeed(target_program_call(program, (const HloLiteral *const *)arguments, 2, results));
    for (int i = 0; i < 2; i++) {
        expect_near(results[i], want->elements[i]);
        hlo_literal_free(results[i]);
        hlo_literal_free(arguments[i]);
    }
    hlo_literal_free(want);
    hlo_module_free(module);
    target_program_free(program);
    target_client_release(client);
}

// Results stay on their devices and are arguments of the next run.
Test(program, results_are_arguments) {
    const char *shards[] = {"p0=x,-", "r0=x,-"};
    TargetClient *client = NULL;
    must_succeed(target_client_new("v2-8", &client));
    TargetProgram *program = layer_program(client, shards, 2);
    const SpmdBoundary *boundary = target_program_boundary(program);
    HloLiteral *x = compiled_random(boundary->parameters[0].global, 1);
    HloLiteral *w = compiled_random(boundary->parameters[1].global, 2);
    TargetArray *arguments[2], *once[2], *twice[2];
    must_succeed(target_program_place(program, 0, x, &arguments[0]));
    must_succeed(target_program_place(program, 1, w, &arguments[1]));
    must_succeed(target_program_run(program, arguments, 2, once));
    TargetArray *next[2] = {once[0], arguments[1]}, *const swapped[2] = {arguments[1], arguments[0]}, *none[2];
    must_fail(target_program_run(program, swapped, 2, none), HLO_INVALID_ARGUMENT, "argument 0");
    must_succeed(target_program_run(program, next, 2, twice));
    HloLiteral *first[2], *second[2], *on_devices = NULL;
    must_succeed(target_program_call(program, (const HloLiteral *const[]){x, w}, 2, first));
    must_succeed(target_program_call(program, (const HloLiteral *const[]){first[0], w}, 2, second));
    must_succeed(target_array_to_literal(twice[0], &on_devices));
    cr_expect(hlo_literal_equal(on_devices, second[0]));
    cr_expect_eq(target_array_device_count(twice[0]), 8);
    cr_expect_eq(target_buffer_shape(target_array_shard(twice[0], 3))->dims[0], 3);
    cr_expect_null(target_array_shard(twice[0], 8));
    cr_expect_eq(target_array_shape(twice[0])->dims[0], 12);
    cr_expect_eq(hlo_sharding_device_count(target_array_sharding(twice[0])), 8);
    // Another reference, and back.
    cr_expect_eq(target_array_retain(twice[0]), twice[0]);
    target_array_release(twice[0]);
    for (int i = 0; i < 2; i++) {
        target_array_release(arguments[i]);
        target_array_release(once[i]);
        target_array_release(twice[i]);
        hlo_literal_free(first[i]);
        hlo_literal_free(second[i]);
    }
    hlo_literal_free(on_devices);
    hlo_literal_free(x);
    hlo_literal_free(w);
    target_program_free(program);
    target_client_release(client);
}

// What a step takes over becomes its next state, also where results are in another order and other results between
// them.
Test(program, a_step_advances_its_state) {
    static const char kStep[] =
        "HloModule step, input_output_alias={ {2}: (0, {}, may-alias), {0}: (2, {}, may-alias) }\n"
        "ENTRY main {\n"
        "  a = f32[8] parameter(0), sharding={devices=[8]<=[8]}\n  x = f32[8] parameter(1)\n"
        "  n = s32[] parameter(2)\n  one = s32[] constant(1)\n  m = s32[] add(n, one)\n  s = f32[8] add(a, x)\n"
        "  p = f32[8] multiply(s, x)\n  ROOT t = (s32[], f32[8], f32[8]) tuple(m, p, s), "
        "sharding={{replicated}, {replicated}, {devices=[8]<=[8]}}\n}\n";
    HloModule *module = compiled_must_parse(kStep);
    TargetClient *client = NULL;
    TargetProgram *program = NULL;
    TargetArray *arguments[3], *product = NULL;
    HloLiteral *x = hlo_literal_of(HLO_F32, HLO_DIMS(8), (const float[]){1, 2, 3, 4, 5, 6, 7, 8}), *got[4];
    must_succeed(target_client_new("v2-8", &client));
    must_succeed(target_program_new(client, module, NULL, &program));
    for (int i = 0; i < 3; i++) must_succeed(target_program_place(program, i, i == 1 ? x : NULL, &arguments[i]));
    TargetArray *before[3] = {arguments[0], arguments[1], arguments[2]};
    must_fail(target_program_advance(program, arguments, 2, &product), HLO_INVALID_ARGUMENT, "2 arguments");
    cr_expect_null(product);
    for (int i = 0; i < 3; i++) cr_expect_eq(arguments[i], before[i]);
    for (int s = 0; s < 3; s++) {
        target_array_release(product);
        must_succeed(target_program_advance(program, arguments, 3, &product));
    }
    for (int i = 0; i < 4; i++) must_succeed(target_array_to_literal(i < 3 ? arguments[i] : product, &got[i]));
    cr_expect_eq(hlo_literal_get_int64(got[2], 0), 3);
    for (int i = 0; i < 8; i++) {
        cr_expect_eq(hlo_literal_get_double(got[0], i), 3 * (i + 1));
        cr_expect_eq(hlo_literal_get_double(got[1], i), i + 1);
        cr_expect_eq(hlo_literal_get_double(got[3], i), 3 * (i + 1) * (i + 1));
    }
    for (int i = 0; i < 4; i++) hlo_literal_free(got[i]);
    for (int i = 0; i < 3; i++) target_array_release(arguments[i]);
    target_array_release(product);
    hlo_literal_free(x);
    target_program_free(program);
    target_client_release(client);
    hlo_module_free(module);
}

Test(program, is_in_mesh_order) {
    const char *shards[] = {"p0=x,y"};
    static const int64_t order[] = {0, 1, 2, 3, 6, 7, 4, 5};  // jax.make_mesh((4, 2)) on v2-8
    static const int64_t other[] = {7, 6, 5, 4, 3, 2, 1, 0};
    TargetClient *client = NULL;
    must_succeed(target_client_new("v2-8", &client));
    TargetProgram *program = layer_program(client, shards, 1);
    for (int64_t i = 0; i < 8; i++)
        cr_expect_eq(target_executable_device(target_program_executable(program), i)->id, order[i]);
    target_program_free(program);
    HloModule *module = compiled_must_parse(kLayer);
    TargetProgramOptions options = {.spmd = {.mesh = kMesh, .mesh_axis_count = 2, .shards = shards, .shard_count = 1},
                                    .device_assignment = other};
    must_succeed(target_program_new(client, module, &options, &program));
    for (int64_t i = 0; i < 8; i++)
        cr_expect_eq(target_executable_device(target_program_executable(program), i)->id, other[i]);
    // A program that is partitioned already is not changed.
    TargetProgram *again = NULL;
    must_succeed(target_program_new(client, target_program_module(program), NULL, &again));
    cr_expect_eq(target_program_report(again)->collective_count, target_program_report(program)->collective_count);
    target_program_free(again);
    target_program_free(program);
    hlo_module_free(module);
    target_client_release(client);
}

Test(program, refuses_what_does_not_fit) {
    const char *shards[] = {"p0=x,-", "p1=-,-"}, *others[] = {"p0=y,-", "p1=-,-"};
    TargetClient *client = NULL, *small = NULL;
    must_succeed(target_client_new("v2-8", &client));
    must_succeed(target_client_new("cpu:4", &small));
    TargetProgram *program = layer_program(client, shards, 2), *other = layer_program(client, others, 2);
    const SpmdBoundary *boundary = target_program_boundary(program);
    HloLiteral *x = compiled_random(boundary->parameters[0].global, 1);
    HloLiteral *w = compiled_random(boundary->parameters[1].global, 2);
    TargetArray *arguments[2], *results[2], *none = NULL;
    must_succeed(target_program_place(other, 0, x, &arguments[0]));
    must_succeed(target_program_place(program, 1, w, &arguments[1]));
    must_fail(target_program_place(program, 0, w, &none), HLO_INVALID_ARGUMENT,
              "argument 0 is f32[10,10]; the program takes f32[12,10]");
    must_fail(target_program_place(program, 2, w, &none), HLO_INVALID_ARGUMENT,
              "there is no argument 2: the program has 2 arguments");
    must_fail(target_program_run(program, arguments, 1, results), HLO_INVALID_ARGUMENT, "1 arguments; layer takes 2");
    must_fail(target_program_call(program, (const HloLiteral *const[]){x}, 1, NULL), HLO_INVALID_ARGUMENT,
              "1 arguments; layer takes 2");
    must_fail(target_program_run(program, arguments, 2, results), HLO_INVALID_ARGUMENT, "argument 0 is f32[12,10]{");
    HloModule *module = compiled_must_parse(kLayer);
    TargetProgramOptions options = {.spmd = {.mesh = kMesh, .mesh_axis_count = 2, .shards = shards, .shard_count = 2}};
    TargetProgram *too_large = NULL;
    must_fail(target_program_new(small, module, &options, &too_large), HLO_INVALID_ARGUMENT,
              "the program needs 8 devices");
    hlo_module_free(module);
    for (int i = 0; i < 2; i++) target_array_release(arguments[i]);
    hlo_literal_free(x);
    hlo_literal_free(w);
    target_program_free(program);
    target_program_free(other);
    target_client_release(client);
    target_client_release(small);
}

// A scalar that one loop reads twice: its access has no terms to compare.
Test(program, a_scalar_is_read_twice_in_one_loop) {
    static const char text[] =
        "HloModule scalar\n"
        "ENTRY main { a = f32[] parameter(0) b = f32[] sine(a) c = f32[] cosine(a) d = f32[] add(b, c)\n"
        "  ROOT e = f32[] multiply(d, a) }\n";
    HloText message = {0};
    HloModule *module = compiled_must_parse(text);
    CompiledCheck check = {.spec = "cpu:1", .seed = 1};
    cr_expect(compiled_equals_eval(module, &check, &message), "%s", message.data);
    hlo_text_free(&message);
    hlo_module_free(module);
}

// Each replica has arrays of its own, so there are no whole arrays. bug: ids for all replicas were read.
Test(program, replicas_are_refused) {
    TargetClient *client;
    TargetProgram *program = NULL;
    must_succeed(target_client_new("v2-8", &client));
    HloModule *module = compiled_must_parse(kLayer);
    module->replica_count = 8;
    const int64_t ids[] = {3};
    const TargetProgramOptions options = {.device_assignment = ids};
    must_fail(target_program_new(client, module, &options, &program), HLO_UNIMPLEMENTED, "a program of 8 replicas");
    hlo_module_free(module);
    target_client_release(client);
}

// A program's emulation is that of `meshlo emulate`: compiled for overlap, on the devices of its mesh.
Test(program, is_emulated_as_the_command_does) {
    static const char *const shards[] = {"p0=x,y", "p1=y,-"};
    HloModule *module = compiled_must_parse(kLayer);
    TargetClient *client = NULL;
    TargetProgram *program = NULL;
    EmuTopology *topology = NULL;
    EmuReport *have = NULL, *want = NULL;
    CompiledModule *compiled = NULL;
    for (int overlaps = 0; overlaps < 2; overlaps++) {
        const char *slice = overlaps ? "v5e-8" : "v2-8";
        const TargetProgramOptions options = {
            .spmd = {.mesh = kMesh, .mesh_axis_count = 2, .shards = shards, .shard_count = 2}};
        must_succeed(target_client_new(slice, &client));
        must_succeed(target_program_new(client, module, &options, &program));
        must_succeed(target_program_emulate(program, NULL, &have));
        must_succeed(emu_topology_parse(slice, &topology));
        cr_assert_eq(topology->chip.overlaps_collectives, overlaps);
        CompileOptions compile = {.spmd = options.spmd};
        compile.spmd.async = overlaps;
        must_succeed(compile_module(module, &compile, &compiled));
        int64_t ids[8];
        must_succeed(target_default_assignment(topology, module, kMesh, 2, 8, ids));
        const EmuOptions emulation = {.device_assignment = ids, .device_assignment_count = 8};
        must_succeed(emu_simulate(compiled->module, topology, &emulation, &want));
        cr_expect_eq(have->step_picoseconds, want->step_picoseconds);
        cr_expect_eq(have->exposed_picoseconds, want->exposed_picoseconds);
        cr_expect_eq(have->hbm_peak_bytes, want->hbm_peak_bytes);
        cr_expect_eq(have->op_count, want->op_count);
        cr_expect_gt(have->collective_bytes_per_device, 0);
        emu_report_free(have);
        emu_report_free(want);
        compiled_module_free(compiled);
        target_program_free(program);
        target_client_release(client);
        emu_topology_free(topology);
    }
    hlo_module_free(module);
    client = NULL;
    must_succeed(target_client_new("cpu:8", &client));
    program = layer_program(client, shards, 2);
    must_fail(target_program_emulate(program, NULL, &have), HLO_UNIMPLEMENTED, "cpu:8");
    target_program_free(program);
    target_client_release(client);
}
