// SPDX-License-Identifier: Apache-2.0
// Programs and options that cannot be partitioned, and their messages.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/hlo.h"
#include "spmd_partitioner/convert.h"
#include "spmd_partitioner/spmd.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct RefusedProgram {
    const char *text;
    HloCode code;
    const char *part;  // of the message
} RefusedProgram;

#define ON(count, body) "HloModule m, num_partitions=" #count "\nENTRY e {\n" body "}\n"

static const RefusedProgram programs[] = {
    // shardings that are not the mesh's
    {ON(4, " ROOT p = f32[8] parameter(0), sharding={mesh['a'=2], [{'a'}]}\n"), HLO_INVALID_ARGUMENT, "2 devices"},
    {ON(4, " ROOT p = f32[8] parameter(0), sharding={mesh['a'=4], [{'a'}, {}]}\n"), HLO_INVALID_ARGUMENT,
     "2 dimensions"},
    {ON(4, " ROOT p = f32[8] parameter(0), sharding={devices=[8]<=[8]}\n"), HLO_INVALID_ARGUMENT,
     "instruction %p: its sharding names 8 devices, but num_partitions of the module names 4"},
    {"ENTRY e {\n p = f32[8] parameter(0), sharding={devices=[8]<=[8]}\n"
     " ROOT q = f32[8] negate(p), sharding={devices=[4]<=[4]}\n}\n",
     HLO_INVALID_ARGUMENT, "instruction %q: its sharding names 4 devices, but the sharding of %p names 8"},
    {ON(4, " ROOT p = f32[8] parameter(0), sharding={{replicated},{replicated}}\n"), HLO_INVALID_ARGUMENT, "tuple"},
    {ON(4,
        " p = f32[8] parameter(0)\n q = f32[8] parameter(1)\n ROOT t = (f32[8], f32[8]) tuple(p, q), "
        "sharding={{devices=[4]<=[4]}}\n"),
     HLO_INVALID_ARGUMENT, "1 "},
    {ON(8, " ROOT p = f32[8] parameter(0), sharding={devices=[2,4]0,1,2,3,7,6,5,4 last_tile_dims={manual}}\n"),
     HLO_UNIMPLEMENTED, "a device order that the mesh cannot hold"},
    {ON(4, " ROOT p = f32[<=8] parameter(0), sharding={devices=[4]<=[4]}\n"), HLO_UNIMPLEMENTED, "dynamic size"},
    {ON(4,
        " p = f32[8] parameter(0)\n n = s32[] parameter(1)\n d = f32[<=8] set-dimension-size(p, n), dimensions={0}\n"
        " ROOT r = f32[<=8] negate(d), sharding={devices=[4]<=[4]}\n"),
     HLO_UNIMPLEMENTED, "instruction %r: dimension 0 has dynamic size and cannot be sharded"},
    {ON(100000000, " ROOT p = f32[8] parameter(0)\n"), HLO_INVALID_ARGUMENT, "more than 8388608 devices"},
    // ops that are not expanded before partitioning
    {ON(2,
        " p = f32[8] parameter(0)\n s = (f32[8], f32[8], u32[]) copy-start(p)\n"
        " t = ((f32[8], f32[8], u32[])) tuple(s)\n g = (f32[8], f32[8], u32[]) get-tuple-element(t), index=0\n"
        " ROOT d = f32[8] copy-done(g)\n"),
     HLO_UNIMPLEMENTED, "%s: copy-start whose halves something else refers to cannot be partitioned"},
    // values that the verifier does not check and rules compute with
    {ON(4, " p = f32[8] parameter(0)\n q = f32[?] parameter(1)\n ROOT t = (f32[8], f32[?]) tuple(p, q)\n"),
     HLO_UNIMPLEMENTED, "%q: an array with an unbounded dimension cannot be partitioned"},
    {ON(4, " p = f32[4,4] parameter(0)\n ROOT r = f32[9] custom-call(p), custom_call_target=\"Sharding\"\n"),
     HLO_INVALID_ARGUMENT, "%r: the shapes of custom call \"Sharding\" are inconsistent"},
    {ON(4, " p = f32[2,4] parameter(0)\n ROOT r = (f32[2,5], s32[2,5]) custom-call(p), custom_call_target=\"TopK\"\n"),
     HLO_INVALID_ARGUMENT, "%r: the shapes of custom call \"TopK\" are inconsistent"},
    {"HloModule m, num_partitions=4\nmore {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
     " ROOT c = pred[] compare(a, b), direction=GT\n}\nENTRY e {\n p = f32[8] parameter(0)\n z = f32[] constant(0)\n"
     " ROOT r = (pred[3]) custom-call(p, z), custom_call_target=\"ApproxTopK\", called_computations={more}\n}\n",
     HLO_INVALID_ARGUMENT, "%r: the shapes of custom call \"ApproxTopK\" are inconsistent"},
    {"HloModule m, num_partitions=4\nmore {\n a = f32[] parameter(0)\n b = s32[] parameter(1)\n"
     " c = f32[] convert(b)\n ROOT d = pred[] compare(a, c), direction=GT\n}\nENTRY e {\n p = f32[8] parameter(0)\n"
     " z = f32[] constant(0)\n"
     " ROOT r = (f32[3]) custom-call(p, z), custom_call_target=\"ApproxTopK\", called_computations={more}\n}\n",
     HLO_INVALID_ARGUMENT, "%r: the shapes of custom call \"ApproxTopK\" are inconsistent"},
    {ON(4,
        " p = s16[8] parameter(0), sharding={devices=[4]<=[4]}\n"
        " ROOT m = f32[2] custom-call(p), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"),
     HLO_INVALID_ARGUMENT, "%m: the shapes of custom call \"SPMDFullToShardShape\" are inconsistent"},
    {ON(2,
        " p = u8[2] parameter(0)\n ROOT c = (u8[2], u8[2]) collective-permute-start(p), "
        "source_target_pairs={{0,1}}\n"),
     HLO_UNIMPLEMENTED, "%c: the root collective-permute-start has no matching done"},
    {ON(4, " p = s32[2,4]{1,0:T(2,2)} parameter(0)\n ROOT r = s32[1,2,4]{2,1,0:T(4,2)} bitcast(p)\n"),
     HLO_UNIMPLEMENTED, "instruction %r: bitcast that goes through the padding of tiles cannot be partitioned"},
    // bug: the distance of the first two devices overflowed.
    {ON(4, " ROOT p = f32[4] parameter(0), sharding={devices=[4]0,9223372036854775807,1,2}\n"), HLO_INVALID_ARGUMENT,
     "device 9223372036854775807 is repeated or out of range in a sharding"},
    // ops whose form has no rule
    {ON(4,
        " p = f32[8] parameter(0)\n q = s32[8] parameter(1)\n t = (f32[8], s32[8]) tuple(p, q)\n"
        " c = pred[] parameter(2)\n ROOT s = (f32[8], s32[8]) select(c, t, t)\n"),
     HLO_UNIMPLEMENTED, "instruction %s: select of this form cannot be partitioned"},
    {ON(4, " p = f32[8,2] parameter(0), sharding={devices=[4,1]<=[4]}\n ROOT b = u16[8,2,2] bitcast(p)\n"),
     HLO_UNIMPLEMENTED, "bitcast that changes the element width"},
    {ON(4,
        " t = token[] after-all()\n p = f32[8] parameter(0)\n q = f32[8] copy(p), sharding={devices=[4]<=[4]}\n"
        " m = f32[4] custom-call(q), custom_call_target=\"SPMDFullToShardShape\", sharding={devices=[1,2,2]<=[4] "
        "last_tile_dims={manual, replicated}}\n"
        " s = (f32[4], u32[], token[]) send(m, t), channel_id=1, sharding={maximal device=1}\n"
        " ROOT d = token[] send-done(s), channel_id=1\n"),
     HLO_UNIMPLEMENTED, "a transfer between devices by one of them alone"},
    {ON(4,
        " t = token[] after-all()\n p = f32[8] parameter(0)\n ROOT o = token[] outfeed(p, t), outfeed_shape=f32[8], "
        "sharding={{replicated},{replicated},{replicated}}\n"),
     HLO_INVALID_ARGUMENT, "a sharding of 3 elements on an outfeed of 1 arrays"},
    {ON(4,
        " t = token[] after-all(), sharding={manual}\n"
        " ROOT r = (f32[4], u32[], token[]) recv(t), channel_id=1, sharding={{manual}, {manual}, {manual}}\n"),
     HLO_UNIMPLEMENTED, "%r: a transfer between devices whose done is in another computation"},
    {ON(4, " p = u64[4] parameter(0)\n ROOT r = (u64[4], u32[8]) rng-bit-generator(p), algorithm=rng_default\n"),
     HLO_UNIMPLEMENTED, "instruction %r: rng-bit-generator without a u64[2] or u64[3] state"},
    {ON(4,
        " p = c64[8] parameter(0), sharding={devices=[4]<=[4]}\n ROOT r = (c64[3], s32[3]) topk(p), k=3, largest=true, "
        "sharding={{devices=[4]<=[4]}, {devices=[4]<=[4]}}\n"),
     HLO_UNIMPLEMENTED, "instruction %r: complex numbers have no order"},
    {ON(4, " a = pred[] constant(0)\n b = pred[] constant(1)\n ROOT r = pred[8] rng(a, b), distribution=rng_uniform\n"),
     HLO_UNIMPLEMENTED, "instruction %r: rng of pred cannot be partitioned"},
    // ops that have a meaning on one device only
    {ON(4, " ROOT r = u32[] partition-id()\n"), HLO_UNIMPLEMENTED,
     "partition-id outside of a manual region has no meaning"},
    {"HloModule m, num_partitions=4\n"
     "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[] add(a, b)\n}\n"
     "ENTRY e {\n p = f32[8] parameter(0)\n ROOT r = f32[8] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3}}, "
     "use_global_device_ids=true, to_apply=add\n}\n",
     HLO_UNIMPLEMENTED, "all-reduce outside of a manual region has no meaning"},
    {ON(4,
        " t = token[] after-all()\n p = f32[8] parameter(0)\n q = (f32[8], f32[8]) tuple(p, p)\n"
        " s = ((f32[8], f32[8]), u32[], token[]) send(q, t), channel_id=1, is_host_transfer=true\n"
        " ROOT d = token[] send-done(s), channel_id=1, is_host_transfer=true\n"),
     HLO_UNIMPLEMENTED, "a host transfer of several arrays at once"},
    // custom calls of sharding
    {ON(4,
        " p = f32[8] parameter(0)\n q = f32[8] parameter(1)\n t = (f32[8], f32[8]) tuple(p, q)\n"
        " ROOT d = (f32[8], f32[8]) custom-call(t), custom_call_target=\"Sharding\", "
        "sharding={{replicated},{replicated}}\n"),
     HLO_UNIMPLEMENTED, "custom-call Sharding of several arrays"},
    {ON(4,
        " p = f32[8] parameter(0)\n q = f32[8] parameter(1)\n d = () custom-call(p, q), "
        "custom_call_target=\"InspectSharding\", custom_call_has_side_effect=true\n ROOT r = f32[8] negate(p)\n"),
     HLO_INVALID_ARGUMENT, "InspectSharding takes one array"},
    {ON(4,
        " p = f32[8] parameter(0)\n q = f32[8] parameter(1)\n ROOT d = f32[2] custom-call(p, q), "
        "custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"),
     HLO_INVALID_ARGUMENT, "operands and results of a manual region do not pair up"},
    {ON(4,
        " p = f32[8] parameter(0)\n ROOT d = f32[2,1] custom-call(p), custom_call_target=\"SPMDFullToShardShape\", "
        "sharding={manual}\n"),
     HLO_INVALID_ARGUMENT, "rank changes at a manual region"},
    {ON(4,
        " p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n s = f32[8] custom-call(p), "
        "custom_call_target=\"Sharding\", sharding={devices=[4]<=[4]}\n d = f32[3] custom-call(s), "
        "custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n ROOT r = f32[3] negate(d), "
        "sharding={manual}\n"),
     HLO_INVALID_ARGUMENT, "dimension 0 is 3 inside and 8 outside of a manual region of 4 shards"},
    // manual axes that are not the major ones of their dimension
    {ON(4,
        " p = f32[8] parameter(0), sharding={devices=[4]<=[2,2]T(1,0)}\n d = f32[4] custom-call(p), "
        "custom_call_target=\"SPMDFullToShardShape\", sharding={devices=[1,2,2]<=[4] "
        "last_tile_dims={manual,replicated}}"
        "\n ROOT r = f32[4] negate(d)\n"),
     HLO_UNIMPLEMENTED, "%d: manual axes come after other axes in dimension 0"},
    // several axes on one dimension of dynamic size
    {ON(4, " p = f32[<=8,4] parameter(0), sharding={devices=[2,2]<=[4]}\n ROOT r = f32[<=8,4] negate(p)\n"),
     HLO_UNIMPLEMENTED, "%p: dimension 0 has dynamic size and cannot be sharded"},
    {ON(4,
        " p = f32[8] parameter(0)\n ROOT s = f32[8] custom-call(p), custom_call_target=\"Mine\", "
        "custom_call_has_side_effect=true\n"),
     HLO_UNIMPLEMENTED, "\"Mine\" has a side effect and no partition rule"},
    {ON(4, " ROOT i = u32[] partition-id()\n"), HLO_UNIMPLEMENTED, "partition-id outside of a manual region"},
    {ON(4,
        " t = token[] after-all()\n ROOT i = ((f32[8]), token[]) infeed(t), sharding={{maximal device=7},{maximal "
        "device=7}}\n"),
     HLO_INVALID_ARGUMENT, "an infeed on device 7 of 4"},
    {ON(4,
        " t = token[] after-all()\n p = f32[8] parameter(0)\n ROOT o = token[] outfeed(p, t), outfeed_shape=f32[8], "
        "sharding={maximal device=4}\n"),
     HLO_INVALID_ARGUMENT, "an outfeed on device 4 of 4"},
    // shardings that no mesh has
    {ON(4, " ROOT p = f32[8] parameter(0), sharding={devices=[4]0,1,7,2}\n"), HLO_INVALID_ARGUMENT,
     "device 7 is repeated or out of range"},
    {ON(4,
        " p = f32[8,2] parameter(0), sharding={devices=[2,1,2]0,3,1,2 last_tile_dims={unreduced}}\n"
        " q = f32[8,2] parameter(1), sharding={devices=[4,1]<=[4]}\n r = f32[8,2] add(p, q)\n"
        " ROOT s = f32[8,2] add(q, r), sharding={devices=[4,1]<=[4]}\n"),
     HLO_UNIMPLEMENTED, "manual or unreduced subgroups with a device order that the mesh cannot hold"},
};

Test(refused, programs_name_the_obstacle) {
    for (size_t i = 0; i < HLO_COUNT_OF(programs); i++) {
        HloModule *module = parse_text(programs[i].text), *partitioned = NULL;
        HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
        cr_expect_eq(hlo_status_code(status), programs[i].code, "%s: %s", programs[i].text, hlo_status_message(status));
        cr_expect(strstr(hlo_status_message(status), programs[i].part), "%s: '%s' is not in '%s'", programs[i].text,
                  programs[i].part, hlo_status_message(status));
        cr_expect_null(partitioned);
        hlo_status_free(status);
        hlo_module_free(module);
    }
}

// bug: inlining took half a minute, and partitioning visited as many calls again.
Test(refused, bug_calls_of_calls_were_inlined_without_end) {
    HloText text = {0};
    cases_call_tree(&text, ", num_partitions=4", 26);
    HloModule *module = parse_text(text.data), *partitioned = NULL;
    must_fail(spmd_partition(module, NULL, &partitioned, NULL), HLO_UNIMPLEMENTED,
              "%b.17 in %c18: with a copy of %c17 there are more than 1048576 instructions in copies");
    cr_expect_null(partitioned);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// bug: the message blamed num_partitions, and "the program" for the mesh of the options.
Test(refused, bug_a_mesh_of_another_size_was_the_programs_fault) {
    const SpmdMeshAxis axes[] = {{"x", 8}};
    const SpmdOptions options = {.mesh = axes, .mesh_axis_count = 1};
    HloModule *module = parse_text("HloModule m, num_partitions=4\nENTRY e {\n ROOT p = f32[8] parameter(0)\n}\n");
    HloModule *partitioned = NULL;
    must_fail(spmd_partition(module, &options, &partitioned, NULL), HLO_INVALID_ARGUMENT,
              "num_partitions of the module names 4 devices, but the mesh names 8");
    hlo_module_free(module);
}

Test(refused, bug_one_array_was_several) {
    const SpmdMeshAxis axes[] = {{"x", 8}};
    const char *const shards[] = {"p1=x"};
    const SpmdOptions options = {.mesh = axes, .mesh_axis_count = 1, .shards = shards, .shard_count = 1};
    HloModule *module = parse_text("ENTRY e {\n ROOT p = f32[8] parameter(0)\n}\n"), *partitioned = NULL;
    must_fail(spmd_partition(module, &options, &partitioned, NULL), HLO_INVALID_ARGUMENT,
              "there is no parameter p1: the program has 1 parameters");
    hlo_module_free(module);
}

Test(refused, options_name_what_is_wrong_with_them) {
    static const char text[] =
        "ENTRY e {\n p = f32[8] parameter(0)\n q = f32[8] parameter(1)\n c = f32[] constant(1)\n b = f32[8] "
        "broadcast(c), "
        "dimensions={}\n t = (f32[8], f32[8]) tuple(p, q)\n g = f32[8] get-tuple-element(t), index=0\n"
        " ROOT r = f32[8] add(g, b)\n}\n";
    const SpmdMeshAxis mesh[] = {{"x", 4}}, none[] = {{"x", 0}}, immense[] = {{"x", INT64_C(1) << 40}};
    const char *const tuple[] = {"t=x"}, *const free_op[] = {"b=x"};
    const struct {
        SpmdOptions options;
        const char *part;
    } cases[] = {
        {{.mesh = none, .mesh_axis_count = 1}, "axis"},
        {{.mesh = immense, .mesh_axis_count = 1}, "axis"},
        {{.num_partitions = -1}, "the number of partitions"},
        {{.mesh = mesh, .mesh_axis_count = 1, .num_partitions = 8},
         "the mesh names 4 devices, but the requested number of partitions names 8"},
        {{.mesh = mesh, .mesh_axis_count = 1, .shards = tuple, .shard_count = 1}, "%t is a tuple"},
        {{.mesh = mesh, .mesh_axis_count = 1, .shards = free_op, .shard_count = 1},
         "%b is recomputed where it is used"},
    };
    HloModule *module = parse_text(text);
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloModule *partitioned = NULL;
        must_fail(spmd_partition(module, &cases[i].options, &partitioned, NULL), HLO_INVALID_ARGUMENT, cases[i].part);
    }
    module->entry = NULL;
    HloModule *partitioned = NULL;
    SpmdBoundary *boundary = NULL;
    must_fail(spmd_partition(module, NULL, &partitioned, NULL), HLO_INVALID_ARGUMENT, "no entry computation");
    must_fail(spmd_propagate(module, NULL, &partitioned), HLO_INVALID_ARGUMENT, "no entry computation");
    must_fail(spmd_boundary_new(module, &boundary), HLO_INVALID_ARGUMENT, "no entry computation");
    hlo_module_free(module);
}

// An error in an instruction names it and the line of the user's program.
Test(refused, errors_have_the_position_of_their_instruction) {
    HloModule *module = parse_text(
        ON(4,
           " p = u64[4] parameter(0)\n ROOT r = (u64[4], u32[8]) rng-bit-generator(p), algorithm=rng_default, "
           "metadata={op_name=\"jit(f)/bits\" source_file=\"model.py\" source_line=12}\n"));
    HloModule *partitioned = NULL;
    HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
    const HloPlace *place = hlo_status_place(status);
    cr_assert(place && place->instruction && place->file);
    cr_expect_str_eq(place->instruction, "r");
    cr_expect_str_eq(place->file, "model.py");
    cr_expect_eq(place->line, 12);
    char *text = hlo_status_to_text(status);
    cr_expect(strstr(text, "model.py:12: error: instruction %r: rng-bit-generator"), "%s", text);
    hlo_free(text);
    hlo_status_free(status);
    hlo_module_free(module);
}

Test(refused, parts_that_are_not_the_arrays) {
    HloArena *arena = hlo_arena_new();
    const int64_t dims[] = {8, 4}, line[] = {8};
    const HloSharding *tiled = hlo_arena_copy(
        arena, &(HloSharding){.kind = HLO_SHARDING_TILED, .tile_dims = {dims, 0}, .iota = {.dims = {line, 1}}},
        sizeof(HloSharding));
    const int64_t tiles[] = {2, 1}, order[] = {2};
    HloSharding halves = {.kind = HLO_SHARDING_TILED, .tile_dims = {tiles, 2}, .iota = {.dims = {order, 1}}};
    const HloShape *shape = hlo_shape_array(arena, HLO_F32, dims, 2), *part = hlo_shape_array(arena, HLO_F32, line, 1);
    HloLiteral *whole = hlo_literal_new(shape), *pieces[2], *joined = NULL;
    int64_t offsets[2];
    const HloShape *local;
    must_fail(spmd_shard_offsets(shape, tiled, 0, offsets), HLO_INVALID_ARGUMENT, "rank differs");
    must_fail(spmd_shard_shape(arena, shape, tiled, &local), HLO_INVALID_ARGUMENT, "rank differs");
    must_fail(spmd_shard_offsets(shape, &halves, 2, offsets), HLO_INVALID_ARGUMENT, "device 2 is not in the sharding");
    must_succeed(spmd_shard_literal(whole, &halves, 2, pieces));
    const HloLiteral *wrong[] = {pieces[0], whole};
    must_fail(spmd_unshard_literal(wrong, &halves, 2, shape, &joined), HLO_INVALID_ARGUMENT,
              "the shard of device 1 does not have the shape");
    const HloShape *pair[] = {shape, part};
    must_fail(spmd_unshard_literal(wrong, &halves, 2, hlo_shape_tuple(arena, pair, 2), &joined), HLO_INVALID_ARGUMENT,
              "only arrays can be reassembled");
    for (int i = 0; i < 2; i++) hlo_literal_free(pieces[i]);
    hlo_literal_free(whole);
    hlo_arena_free(arena);
}

// Annotations of a mesh that is not the program's, as a caller with a mesh of its own may hold them.
Test(refused, annotations_of_other_meshes) {
    HloArena *arena = hlo_arena_new();
    const SpmdMeshAxis axes[] = {{"x", 2}, {"y", 2}};
    const SpmdMesh *mesh;
    SpmdAnnotation annotation;
    must_succeed(spmd_mesh_new(arena, axes, 2, &mesh));
    const int64_t eight[] = {8}, four[] = {4}, listed[] = {0, 1, 2}, again[] = {0, 1, 1, 3}, beyond[] = {0, 1, 2, 4};
    const struct {
        HloSharding sharding;
        int64_t rank;
        const char *part;
    } cases[] = {
        {{.kind = HLO_SHARDING_TILED, .tile_dims = {eight, 1}, .iota = {.dims = {eight, 1}}},
         1,
         "a sharding of 8 devices on a mesh of 4"},
        {{.kind = HLO_SHARDING_TILED, .tile_dims = {four, 1}, .devices = {listed, 3}},
         1,
         "a sharding of 4 tiles lists 3 devices"},
        {{.kind = HLO_SHARDING_TILED, .tile_dims = {four, 1}, .iota = {.dims = {eight, 1}}},
         1,
         "a sharding of 4 tiles lists 8 devices"},
        {{.kind = HLO_SHARDING_TILED, .tile_dims = {four, 1}, .devices = {again, 4}}, 1, "device 1 is repeated"},
        {{.kind = HLO_SHARDING_TILED, .tile_dims = {four, 1}, .devices = {beyond, 4}},
         1,
         "device 4 is repeated or out of range"},
        {{.kind = HLO_SHARDING_TILED, .tile_dims = {four, 1}, .iota = {.dims = {four, 1}}},
         2,
         "a sharding of 1 dimensions on an array of rank 2"},
        {{.kind = HLO_SHARDING_TUPLE}, 1, "a tuple sharding on an array"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        must_fail(spmd_annotation_from_hlo(arena, mesh, &cases[i].sharding, cases[i].rank, &annotation),
                  HLO_INVALID_ARGUMENT, cases[i].part);
    }
    const char *names[] = {"x"};
    const HloAxisRef ref = {.axis = 0, .pre_size = 1};
    const HloAxisRefs dims[] = {{.items = &ref, .count = 1}};
    HloNamedSharding named = {.mesh = {.axis_names = names, .axis_sizes = {eight, 1}},
                              .whole = HLO_SHARDING_TILED,
                              .dims = dims,
                              .dim_count = 1};
    const HloSharding v3 = {.kind = HLO_SHARDING_NAMED, .named = &named};
    must_fail(spmd_annotation_from_hlo(arena, mesh, &v3, 1, &annotation), HLO_INVALID_ARGUMENT,
              "a sharding of 8 devices on a mesh of 4");
    must_fail(spmd_annotation_from_hlo(arena, mesh, &v3, 0, &annotation), HLO_INVALID_ARGUMENT,
              "a sharding of 1 dimensions on an array of rank 0");
    const HloShape *shape = hlo_shape_array(arena, HLO_F32, four, 1);
    int64_t offset;
    named.dim_count = 2;
    must_fail(spmd_shard_offsets(shape, &v3, 0, &offset), HLO_INVALID_ARGUMENT, "rank differs");
    HloLiteral *shards[4], *token = hlo_literal_new(&(HloShape){.type = HLO_TOKEN});
    must_fail(spmd_shard_literal(token, &v3, 4, shards), HLO_INVALID_ARGUMENT, "only arrays can be split");
    hlo_literal_free(token);
    const SpmdMeshAxis twins[] = {{"x", 2}, {"x", 2}}, none[] = {{"x", 0}}, many[] = {{"x", 1 << 12}, {"y", 1 << 12}};
    must_fail(spmd_mesh_new(arena, twins, 2, &mesh), HLO_INVALID_ARGUMENT, "mesh axis 'x' is named twice");
    must_fail(spmd_mesh_new(arena, none, 1, &mesh), HLO_INVALID_ARGUMENT, "mesh axis 'x' has size 0");
    must_fail(spmd_mesh_new(arena, many, 2, &mesh), HLO_INVALID_ARGUMENT, "more than 8388608 devices");
    hlo_arena_free(arena);
}

// The syntax of --shard.
static const struct {
    const char *shards[2], *part;
} shard_cases[] = {
    {{"p0"}, "expected TARGET=SPEC"},
    {{"p7=x"}, "there is no parameter p7: the program has 2 parameters"},
    {{"r3=x"}, "there is no result r3: the program has 1 results"},
    {{"what=x"}, "'what' is neither pN"},
    {{"p=x"}, "'p=x': 'p' is neither pN"},
    {{"p0=xx"}, "unknown mesh axis 'xx' (did you mean 'x'?)"},
    {{"p0=elephant"}, "unknown mesh axis 'elephant'; the mesh has: x, rows"},
    {{"p0=row"}, "(did you mean 'rows'?)"},
    {{"p0=x,x"}, "mesh axis 'x' is used twice in one sharding"},
    {{"p0=x+x"}, "mesh axis 'x' is used twice in one sharding"},
    {{"p0=x,-,rows"}, "names more dimensions than the array has: 2"},
    {{"p0=(x"}, "unbalanced parenthesis"},
    {{"p0=x)"}, "unbalanced parenthesis"},
    {{"p0=x+"}, "an axis is missing next to a '+'"},
    {{"p0=+x"}, "an axis is missing next to a '+'"},
    {{"p0=x", "p0=rows"}, "--shard 'p0=rows': names the same array as 'p0=x'"},
    {{"p0=x", "a=rows"}, "--shard 'a=rows': names the same array as 'p0=x'"},
};

CaseList(refused, shards_that_no_array_has) {
    return cases_numbered(HLO_COUNT_OF(shard_cases));
}
CaseTest(int *number, refused, shards_that_no_array_has) {
    HloModule *module = parse_text(
        "HloModule m\nENTRY e {\n a = f32[8,8] parameter(0)\n b = f32[8,8] parameter(1)\n"
        " ROOT c = f32[8,8] add(a, b)\n}\n");
    const SpmdMeshAxis mesh[] = {{"x", 2}, {"rows", 2}};
    const SpmdOptions options = {.mesh = mesh,
                                 .mesh_axis_count = 2,
                                 .shards = shard_cases[*number].shards,
                                 .shard_count = shard_cases[*number].shards[1] ? 2 : 1};
    HloModule *made = NULL;
    must_fail(spmd_partition(module, &options, &made, NULL), HLO_INVALID_ARGUMENT, shard_cases[*number].part);
    must_fail(spmd_propagate(module, &options, &made), HLO_INVALID_ARGUMENT, shard_cases[*number].part);
    cr_expect_null(made);
    hlo_module_free(module);
}

// bug, found by a fuzzer: groups of a module that counts no devices were kept beside a count that they do not fit.
Test(refused, bug_groups_and_pairs_named_other_devices) {
    static const char *const kPrograms[] = {
        "ENTRY e {\n a = f32[4] parameter(0)\n ROOT r = (f32[4], f32[4]) all-to-all(a, a), "
        "replica_groups={{1,2},{3,0}}\n}\n",
        "ENTRY e {\n a = f32[4] parameter(0)\n ROOT r = f32[4] collective-permute(a), channel_id=1, "
        "source_target_pairs={{0,7}}\n}\n",
        "HloModule m, replica_count=4\nENTRY e {\n a = f32[5,3] parameter(0)\n ROOT r = f32[5,6] all-gather(a), "
        "channel_id=2, "
        "replica_groups={{3,2},{0,1}}, dimensions={1}\n}\n",
    };
    const SpmdMeshAxis mesh[] = {{"x", 4}};
    for (size_t i = 0; i < HLO_COUNT_OF(kPrograms); i++) {
        HloModule *module = NULL, *partitioned = NULL;
        cr_assert_null(hlo_parse(kPrograms[i], strlen(kPrograms[i]), NULL, &module));
        HloStatus status =
            spmd_partition(module, &(SpmdOptions){.mesh = mesh, .mesh_axis_count = 1}, &partitioned, NULL);
        cr_assert_not_null(status);
        cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", hlo_status_message(status));
        hlo_status_free(status);
        hlo_module_free(module);
    }
}
