// SPDX-License-Identifier: Apache-2.0
#include "tests/memory/doors.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "tests/support/compiled.h"

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

void door_must_survive(const NamedDoor *door) {
    enum { MANY = 100000 };
    World world;
    make_world(&world);
    if (door->open) door->open(&world);
    bool enough = false;
    int64_t countdown = 0;
    for (; !enough && countdown < MANY; countdown += 1 + countdown / 64) {
        hlo_allocation_fail_after(countdown);
        HloStatus status = door->door(&world);
        hlo_allocation_fail_after(-1);
        enough = !status;
        if (status) {
            cr_expect_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED, "%s after %lld allocations: %s", door->name,
                         (long long)countdown, hlo_status_message(status));
        }
        hlo_status_free(status);
    }
    cr_expect(enough, "%s fails with %lld allocations", door->name, (long long)countdown);
    if (door->close) door->close(&world);
    free_world(&world);
}
