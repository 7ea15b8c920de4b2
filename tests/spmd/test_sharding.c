// SPDX-License-Identifier: Apache-2.0
// Conversion of written shardings to the canonical form and back; meshes, specs, and splitting of arrays.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/text/text.h"
#include "spmd_partitioner/convert.h"
#include "tests/spmd/check.h"

static const HloSharding *sharding_of(HloArena *arena, const char *text) {
    const HloSharding *sharding = NULL;
    HloStatus status = hlo_parse_sharding(arena, text, strlen(text), &sharding);
    cr_assert_null(status, "%s: %s", text, hlo_status_message(status));
    return sharding;
}

static void expect_text(const HloSharding *sharding, const char *want) {
    HloText text = {0};
    hlo_sharding_print(&text, sharding);
    cr_expect_str_eq(text.data, want);
    hlo_text_free(&text);
}

// What jaxlib 0.10.2 prints: _hlo.HloSharding.v3_to_v2_sharding(HloSharding.from_string(v3)).
static const struct {
    const char *v3, *v2;
    int64_t rank;
} conversions[] = {
    {"{mesh['a'=2,'b'=4], [{'a'}, {'b'}]}", "{devices=[2,4]<=[8]}", 2},
    {"{mesh['a'=2,'b'=4], [{'b'}, {'a'}]}", "{devices=[4,2]<=[2,4]T(1,0)}", 2},
    {"{mesh['a'=2,'b'=4], [{}, {'a'}]}", "{devices=[1,2,4]<=[8] last_tile_dim_replicate}", 2},
    {"{mesh['a'=2,'b'=4], [{'b'}, {}]}", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 2},
    {"{mesh['a'=2,'b'=4], [{'a','b'}, {}]}", "{devices=[8,1]<=[8]}", 2},
    {"{mesh['a'=2,'b'=4], [{'b','a'}, {}]}", "{devices=[8,1]<=[2,4]T(1,0)}", 2},
    {"{mesh['a'=2,'b'=4], [{'b':(1)2}, {}]}", "{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}", 2},
    {"{mesh['a'=2,'b'=4], [{'b':(2)2}, {'a'}]}", "{devices=[2,2,2]<=[4,2]T(1,0) last_tile_dim_replicate}", 2},
    {"{mesh['a'=2,'b'=4], [{'b':(2)2}, {'b':(1)2}]}", "{devices=[2,2,2]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}", 2},
    {"{mesh['a'=2,'b'=3,'c'=4], [{'c'}, {'a'}]}", "{devices=[4,2,3]<=[6,4]T(1,0) last_tile_dim_replicate}", 2},
    {"{mesh['a'=2,'b'=3,'c'=4], [{'b'}, {'c','a'}]}", "{devices=[3,8]<=[2,12]T(1,0)}", 2},
    {"{mesh['a'=2,'b'=3,'c'=4], [{'c','b'}, {}, {'a'}]}", "{devices=[12,1,2]<=[2,3,4]T(2,1,0)}", 3},
    {"{mesh['a'=2,'b'=4], [{}, {}]}", "{replicated}", 2},
    {"{mesh['a'=2,'b'=4], [{'a'}, {}], manual={'b'}}", "{devices=[2,1,4]<=[8] last_tile_dims={manual}}", 2},
    {"{mesh['a'=2,'b'=4,'c'=2], [{'c'}, {}], manual={'a'}}",
     "{devices=[2,1,2,4]<=[8,2]T(1,0) last_tile_dims={manual, replicated}}", 2},
};

Test(sharding, v3_becomes_the_v2_that_xla_prints) {
    HloArena *arena = hlo_arena_new();
    for (size_t i = 0; i < HLO_COUNT_OF(conversions); i++) {
        const HloSharding *v3 = sharding_of(arena, conversions[i].v3);
        SpmdMeshAxis axes[3];
        int64_t count = v3->named->mesh.axis_sizes.count;
        for (int64_t a = 0; a < count; a++) {
            axes[a] = (SpmdMeshAxis){v3->named->mesh.axis_names[a], v3->named->mesh.axis_sizes.items[a]};
        }
        const SpmdMesh *mesh;
        cr_assert_null(spmd_mesh_new(arena, axes, count, &mesh));
        SpmdAnnotation annotation, back;
        cr_assert_null(spmd_annotation_from_hlo(arena, mesh, v3, conversions[i].rank, &annotation));
        const HloSharding *v2 = spmd_sharding_to_hlo(arena, mesh, annotation.sharding, NULL);
        expect_text(v2, conversions[i].v2);
        cr_assert_null(spmd_annotation_from_hlo(arena, mesh, v2, conversions[i].rank, &back));
        cr_expect(spmd_sharding_equal(annotation.sharding, back.sharding), "%s does not come back", conversions[i].v3);
    }
    hlo_arena_free(arena);
}

Test(sharding, device_lists_are_recognised) {
    HloArena *arena = hlo_arena_new();
    const SpmdMeshAxis axes[] = {{"x", 4}, {"y", 2}};
    const SpmdMesh *mesh;
    cr_assert_null(spmd_mesh_new(arena, axes, 2, &mesh));
    SpmdAnnotation annotation;
    cr_assert_null(
        spmd_annotation_from_hlo(arena, mesh, sharding_of(arena, "{devices=[2,4]0,2,4,6,1,3,5,7}"), 2, &annotation));
    cr_expect_str_eq(spmd_sharding_text(arena, mesh, annotation.sharding), "[{y}, {x}]");
    cr_expect_null(annotation.devices);
    // An order that is not a product of strides: the same tiles, and the place of each.
    cr_assert_null(
        spmd_annotation_from_hlo(arena, mesh, sharding_of(arena, "{devices=[8]0,1,2,3,7,6,5,4}"), 1, &annotation));
    cr_assert_not_null(annotation.devices);
    cr_expect_eq(annotation.devices[4], 7);
    expect_text(spmd_sharding_to_hlo(arena, mesh, annotation.sharding, annotation.devices),
                "{devices=[8]0,1,2,3,7,6,5,4}");
    hlo_arena_free(arena);
}

Test(sharding, foreign_device_orders_cross_the_boundary) {
    check_partitioned(
        "ENTRY e {\n p = f32[16,3] parameter(0), sharding={devices=[8,1]0,1,2,3,7,6,5,4}\n"
        " q = f32[16,3] parameter(1), sharding={devices=[8,1]<=[8]}\n"
        " ROOT s = f32[16,3] add(p, q), sharding={devices=[4,2]7,3,1,5,0,2,4,6}\n}\n",
        NULL, 1);
}

// A factor order that conflicts with the first: 2x3 and 3x2 on six devices.
Test(sharding, conflicting_factors_get_a_second_order) {
    check_partitioned(
        "ENTRY e {\n p = f32[6,6] parameter(0), sharding={devices=[2,3]<=[6]}\n"
        " q = f32[6,6] parameter(1), sharding={devices=[2,3]<=[3,2]T(1,0)}\n"
        " r = f32[6,6] parameter(2), sharding={devices=[2,3]<=[2,3]T(1,0)}\n"
        " s = f32[6,6] add(p, q)\n ROOT t = f32[6,6] add(s, r)\n}\n",
        NULL, 1);
}

// Halves and thirds of one axis, which no order of atoms can express at once: a sharding that the mesh cannot express
// keeps an order of its own. bug: they were refused, even where one of them was alone.
Test(annotations, bug_sub_axes_that_the_mesh_was_not_split_for) {
    check_partitioned(
        "HloModule m, num_partitions=6\nENTRY e {\n"
        " p = f32[12] parameter(0), sharding={mesh['x'=2,'y'=3], [{'x'}]}\n"
        " q = f32[12] parameter(1), sharding={mesh['a'=3,'b'=2], [{'a'}]}\n ROOT r = f32[12] add(p, q)\n}\n",
        NULL, 1);
    static const char *const thirds =
        "HloModule m, num_partitions=6\nENTRY e {\n"
        " p = f32[6,6] parameter(0), sharding={mesh['x'=6], [{'x':(1)3}, {'x':(3)2}]}\n ROOT r = f32[6,6] "
        "negate(p), sharding={mesh['x'=6], [{'x':(1)3}, {'x':(3)2}]}\n}\n";
    char *counts = collectives_of(thirds, NULL);
    cr_expect_str_eq(counts, "");
    hlo_free(counts);
    check_partitioned(thirds, NULL, 1);
    const SpmdMeshAxis axes[] = {{"x", 6}};
    const char *const shards[] = {"p0=x:(1)3,x:(3)2", "p1=x:(1)2,x:(2)3", "r0=-,x:(1)3"};
    SpmdOptions options = {.mesh = axes, .mesh_axis_count = 1, .shards = shards, .shard_count = 3};
    check_partitioned(
        "HloModule m\nENTRY e {\n p = f32[6,7] parameter(0)\n q = f32[6,7] parameter(1)\n"
        " ROOT r = f32[6,7] subtract(p, q)\n}\n",
        &options, 1);
}

static void expect_error(HloStatus status, HloCode code, const char *part) {
    cr_assert_not_null(status);
    cr_expect_eq(hlo_status_code(status), code, "%s", hlo_status_message(status));
    cr_expect(strstr(hlo_status_message(status), part), "'%s' is not in: %s", part, hlo_status_message(status));
    hlo_status_free(status);
}

Test(spec, reads_dimensions) {
    HloArena *arena = hlo_arena_new();
    const SpmdMeshAxis axes[] = {{"batch", 4}, {"model", 2}};
    static const struct {
        const char *spec, *want;
        int64_t rank;
    } cases[] = {{"batch,-", "[{batch}, {}]", 2},
                 {"-,model", "[{}, {model}]", 2},
                 {"batch+model,-", "[{batch+model}, {}]", 2},
                 {"(model,batch),-", "[{model+batch}, {}]", 2},
                 {"batch", "[{batch}, {}, {}]", 3},
                 {"", "[{}]", 1},
                 {"?,model", "[{}, {model}]", 2},
                 {"batch:(1)2,batch:(2)2", "[{batch:(1)2}, {batch:(2)2}]", 2},
                 {"(batch:(2)2,model),-", "[{batch:(2)2+model}, {}]", 2},
                 {"batch:(1)4,-", "[{batch}, {}]", 2},
                 {"None,'model'", "[{}, {model}]", 2}};
    const SpmdMesh *mesh;
    cr_assert_null(spmd_mesh_new(arena, axes, 2, &mesh));
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        const HloSharding *sharding;
        HloStatus status = spmd_spec_parse(arena, axes, 2, cases[i].spec, cases[i].rank, &sharding);
        cr_assert_null(status, "%s: %s", cases[i].spec, hlo_status_message(status));
        SpmdAnnotation annotation;
        cr_assert_null(spmd_annotation_from_hlo(arena, mesh, sharding, cases[i].rank, &annotation));
        cr_expect_str_eq(spmd_sharding_text(arena, mesh, annotation.sharding), cases[i].want);
    }
    const HloSharding *sharding;
    expect_error(spmd_spec_parse(arena, axes, 2, "bach,-", 2, &sharding), HLO_INVALID_ARGUMENT, "did you mean 'batch'");
    expect_error(spmd_spec_parse(arena, axes, 2, "zebra", 2, &sharding), HLO_INVALID_ARGUMENT,
                 "the mesh has: batch, model");
    expect_error(spmd_spec_parse(arena, axes, 2, "batch,batch", 2, &sharding), HLO_INVALID_ARGUMENT, "used twice");
    expect_error(spmd_spec_parse(arena, axes, 2, "batch,-,-", 2, &sharding), HLO_INVALID_ARGUMENT, "more dimensions");
    const char *const twice[] = {"batch:(1)2,batch", "batch,batch:(2)2", "batch:(1)4,batch:(2)2",
                                 "batch:(2)2,batch:(2)2"};
    for (size_t i = 0; i < HLO_COUNT_OF(twice); i++) {
        expect_error(spmd_spec_parse(arena, axes, 2, twice[i], 2, &sharding), HLO_INVALID_ARGUMENT, "used twice");
    }
    const char *const parts[] = {"batch:(1)3", "batch:(2)4",  "batch:(0)2", "batch:(1)-2",         "batch:",
                                 "batch:2",    "batch:(1)2x", "batch:(1)",  "batch:(99999999999)2"};
    for (size_t i = 0; i < HLO_COUNT_OF(parts); i++) {
        expect_error(spmd_spec_parse(arena, axes, 2, parts[i], 2, &sharding), HLO_INVALID_ARGUMENT,
                     "not a sub-axis of the mesh axis 'batch' of size 4");
    }
    expect_error(spmd_spec_parse(arena, axes, 2, "bacth:(1)2", 2, &sharding), HLO_INVALID_ARGUMENT, "'batch'");
    const char *const plus[] = {"batch+,-", "+batch,-", "batch++model,-", "+,-"};
    for (size_t i = 0; i < HLO_COUNT_OF(plus); i++) {
        expect_error(spmd_spec_parse(arena, axes, 2, plus[i], 2, &sharding), HLO_INVALID_ARGUMENT, "next to a '+'");
    }
    const char *const halves[] = {"(batch,-", "batch),-", ")batch("};
    for (size_t i = 0; i < HLO_COUNT_OF(halves); i++) {
        expect_error(spmd_spec_parse(arena, axes, 2, halves[i], 2, &sharding), HLO_INVALID_ARGUMENT, "parenthesis");
    }
    hlo_arena_free(arena);
}

Test(sharding, built_arrays_are_sharded_by_specs) {
    static const SpmdMeshAxis axes[] = {{"batch", 4}, {"model", 2}};
    HloModule *module = hlo_module_new("built");
    HloBuilder *b = hlo_builder_new(module, "main");
    HloInstruction *x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(8, 6), "x");
    cr_assert_eq(spmd_build_sharded(b, x, axes, 2, "batch,-"), x);
    expect_text(x->sharding, "{mesh['batch'=4,'model'=2], [{'batch'}, {}]}");
    cr_expect_null(spmd_build_sharded(b, NULL, axes, 2, "batch,-"));
    cr_expect_null(hlo_builder_status(b));
    cr_expect_null(spmd_build_sharded(b, x, axes, 2, "bach,-"));
    expect_error(hlo_builder_finish(b, x, NULL), HLO_INVALID_ARGUMENT, "did you mean 'batch'");
    hlo_module_free(module);
}

Test(mesh, refuses_what_is_none) {
    HloArena *arena = hlo_arena_new();
    const SpmdMesh *mesh;
    const SpmdMeshAxis empty[] = {{"a", 0}}, twice[] = {{"a", 2}, {"a", 2}}, huge[] = {{"a", 1 << 20}, {"b", 1 << 20}};
    expect_error(spmd_mesh_new(arena, empty, 1, &mesh), HLO_INVALID_ARGUMENT, "at least 1");
    expect_error(spmd_mesh_new(arena, twice, 2, &mesh), HLO_INVALID_ARGUMENT, "named twice");
    expect_error(spmd_mesh_new(arena, huge, 2, &mesh), HLO_INVALID_ARGUMENT, "more than");
    hlo_arena_free(arena);
}

Test(mesh, groups_are_iota) {
    HloArena *arena = hlo_arena_new();
    const SpmdMeshAxis axes[] = {{"x", 4}, {"y", 2}};
    const SpmdMesh *mesh;
    cr_assert_null(spmd_mesh_new(arena, axes, 2, &mesh));
    const uint8_t y[] = {2}, x[] = {0, 1};
    HloText text = {0};
    hlo_replica_groups_print(&text, spmd_mesh_groups(arena, mesh, 1, y, 1));
    hlo_text_char(&text, ' ');
    hlo_replica_groups_print(&text, spmd_mesh_groups(arena, mesh, 1, x, 2));
    cr_expect_str_eq(text.data, "[4,2]<=[8] [2,4]<=[4,2]T(1,0)");
    hlo_text_free(&text);
    hlo_arena_free(arena);
}

// Global ids count the devices of all replicas.
Test(mesh, groups_of_several_replicas) {
    HloArena *arena = hlo_arena_new();
    const SpmdMeshAxis axes[] = {{"x", 4}, {"y", 2}};
    const SpmdMesh *mesh;
    cr_assert_null(spmd_mesh_new(arena, axes, 2, &mesh));
    const uint8_t y[] = {2}, x[] = {0, 1}, all[] = {0, 1, 2};
    HloText text = {0};
    hlo_replica_groups_print(&text, spmd_mesh_groups(arena, mesh, 3, y, 1));
    hlo_text_char(&text, ' ');
    hlo_replica_groups_print(&text, spmd_mesh_groups(arena, mesh, 3, x, 2));
    hlo_text_char(&text, ' ');
    hlo_replica_groups_print(&text, spmd_mesh_groups(arena, mesh, 3, all, 3));
    cr_expect_str_eq(text.data, "[12,2]<=[24] [6,4]<=[3,4,2]T(0,2,1) [3,8]<=[24]");
    hlo_text_free(&text);
    hlo_arena_free(arena);
}

Test(shards, split_and_join_uneven) {
    HloArena *arena = hlo_arena_new();
    const char *const shardings[] = {"{devices=[4,1]<=[4]}",
                                     "{devices=[1,4]<=[4]}",
                                     "{devices=[2,2]<=[2,2]T(1,0)}",
                                     "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                                     "{replicated}",
                                     "{mesh['x'=2,'y'=2], [{'y'}, {'x'}]}",
                                     "{devices=[2,2]3,1,0,2}"};
    const int64_t dims[] = {5, 7};
    HloLiteral *whole = hlo_literal_new(hlo_shape_array(arena, HLO_S32, dims, 2));
    for (int64_t i = 0; i < 35; i++) hlo_literal_set_int64(whole, i, i * 3 - 7);
    for (size_t i = 0; i < HLO_COUNT_OF(shardings); i++) {
        const HloSharding *sharding = sharding_of(arena, shardings[i]);
        HloLiteral *parts[4], *back;
        cr_assert_null(spmd_shard_literal(whole, sharding, 4, parts));
        cr_assert_null(spmd_unshard_literal((const HloLiteral *const *)parts, sharding, 4, whole->shape, &back));
        cr_expect(hlo_literal_equal(whole, back), "%s", shardings[i]);
        for (int d = 0; d < 4; d++) hlo_literal_free(parts[d]);
        hlo_literal_free(back);
    }
    int64_t offsets[2];
    cr_assert_null(spmd_shard_offsets(whole->shape, sharding_of(arena, "{devices=[2,2]<=[2,2]T(1,0)}"), 1, offsets));
    cr_expect(offsets[0] == 3 && offsets[1] == 0);
    hlo_literal_free(whole);
    hlo_arena_free(arena);
}
