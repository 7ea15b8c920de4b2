// SPDX-License-Identifier: Apache-2.0
// Annotations as people and other programs write them, wrong ones among them: each is read, or passed over, or refused
// with its instruction; none ends the process.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "hlo/hlo.h"
#include "spmd_partitioner/spmd.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

#define MESHES "frontend_attributes={xla.sdy.meshes=\"{mesh = #sdy.mesh<[\\\"x\\\"=2, \\\"y\\\"=2]>}\"}"
#define X "\\\"x\\\""
#define Y "\\\"y\\\""

// What stands in `#sdy.sharding<@mesh, …>`, and the local rows and columns of f32[8,8] that follow.
typedef struct ShardyText {
    const char *text;
    int64_t rows, columns;
} ShardyText;

static const ShardyText understood[] = {
    {"[{" X "}, {" Y "}]", 4, 4},
    {"[{" X ", " Y "}, {}]", 2, 8},
    {"[{" X ", ?}, {?}]", 4, 8},
    {"[{}, {" Y ":(1)2}]", 8, 4},
    {"[{" X "}p1, {" Y "}p0]", 4, 4},
    {"[{" X "}, {}], replicated={" Y "}", 4, 8},
    {"[{" X "}, {}], unreduced={" Y "}", 4, 8},
    // Spaces and line ends mean nothing.
    {" [ { " X " } ,\\n { } ] ", 4, 8},
};

// The first parameter of the partitioned form of f32[8,8] with this Shardy text and `beside` as the HLO sharding.
static HloModule *partition_with(const char *text, const char *beside) {
    HloText program = {0};
    hlo_text_format(&program,
                    "HloModule m, num_partitions=4, " MESHES
                    "\nENTRY e {\n p = f32[8,8] parameter(0)%s, frontend_attributes={xla.sdy.sharding="
                    "\"#sdy.sharding<@mesh, %s>\"}\n ROOT n = f32[8,8] negate(p)\n}\n",
                    beside, text);
    HloModule *module = parse_text(program.data), *partitioned = NULL;
    HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
    cr_assert_null(status, "%s: %s", program.data, hlo_status_message(status));
    check_partitioned(program.data, NULL, 1);
    hlo_text_free(&program);
    hlo_module_free(module);
    return partitioned;
}

static void expect_parts(const HloModule *module, int64_t rows, int64_t columns, const char *text) {
    const HloShape *shape = module->entry->parameters.items[0]->shape;
    cr_expect_eq(shape->dims[0], rows, "%lld rows for %s", (long long)shape->dims[0], text);
    cr_expect_eq(shape->dims[1], columns, "%lld columns for %s", (long long)shape->dims[1], text);
}

ParameterizedTestParameters(annotations, shardy_text_is_read) {
    return cases_numbered(HLO_COUNT_OF(understood));
}
ParameterizedTest(int *number, annotations, shardy_text_is_read) {
    const ShardyText *one = &understood[*number];
    HloModule *module = partition_with(one->text, "");
    expect_parts(module, one->rows, one->columns, one->text);
    hlo_module_free(module);
}

// What is no sharding of this array: the HLO sharding beside it counts, and without one the array is free. That an axis
// is named twice once ended the process.
static const char *const not_understood[] = {
    "[{" X ", " X "}, {}]",
    "[{" X "}, {" X "}]",
    "[{" X ":(1)2, " X "}, {}]",
    "[{" X "}, {}], unreduced={" X "}",
    "[{" X "}, {}], replicated={" X "}",
    "[{" X "}, {}], replicated={" Y "}, unreduced={" Y "}",
    "[{\\\"z\\\"}, {}]",
    "[{" X "}, {}, {}]",
    "[{" X ":(1)3}, {}]",
    "[{" X ":(3)2}, {}]",
    "[{" X ":(1)0}, {}]",
    "[{" X ":1)2}, {}]",
    "[{" X "}p, {}]",
    "[{" X "}, {}",
    "[{" X ", {}]",
    "{" X "}, {}",
    "[{" X "}, {}], sideways={" Y "}",
    "[{\\\"x}, {}]",
    "",
};

ParameterizedTestParameters(annotations, other_shardy_text_gives_way) {
    return cases_numbered(HLO_COUNT_OF(not_understood));
}
ParameterizedTest(int *number, annotations, other_shardy_text_gives_way) {
    const char *text = not_understood[*number];
    HloModule *beside = partition_with(text, ", sharding={devices=[1,4]<=[4]}"), *alone = partition_with(text, "");
    expect_parts(beside, 8, 2, text);
    expect_parts(alone, 8, 8, text);
    hlo_module_free(beside);
    hlo_module_free(alone);
}

// Meshes of Shardy: only a mesh of as many devices as the program has is taken, and text that is none is passed over.
static const struct {
    const char *meshes;
    int64_t rows;  // of f32[8] that is cut by axis x
} mesh_texts[] = {
    {"{mesh = #sdy.mesh<[\\\"x\\\"=4]>}", 2},
    {"{a = #sdy.mesh<[\\\"x\\\"=8]>, b = #sdy.mesh<[\\\"x\\\"=2, \\\"y\\\"=2]>}", 4},
    {"{mesh = #sdy.mesh<[\\\"x\\\"=0]>}", 8},
    {"{mesh = #sdy.mesh<[\\\"x\\\"=9223372036854775807, \\\"y\\\"=9223372036854775807]>}", 8},
    {"{mesh = #sdy.mesh<[\\\"x\\\"=]>}", 8},
    {"{mesh = #sdy.mesh<[x=4]>}", 8},
    {"{mesh = #sdy.mesh<[]>}", 8},
    {"{mesh = #sdy.mesh<", 8},
    {"", 8},
};

ParameterizedTestParameters(annotations, shardy_meshes) {
    return cases_numbered(HLO_COUNT_OF(mesh_texts));
}
ParameterizedTest(int *number, annotations, shardy_meshes) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes=\"%s\"}\nENTRY e {\n"
                    " p = f32[8] parameter(0), frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, [{" X
                    "}]>\"}\n ROOT n = f32[8] negate(p)\n}\n",
                    mesh_texts[*number].meshes);
    HloModule *module = parse_text(text.data), *partitioned = NULL;
    HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
    cr_assert_null(status, "%s: %s", text.data, hlo_status_message(status));
    cr_expect_eq(partitioned->entry->parameters.items[0]->shape->dims[0], mesh_texts[*number].rows, "%s", text.data);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// ---------------------------------------------------------------------------------------------------------------------
// Inside of manual regions

// A region that is manual over the major half of four devices, with an annotation of what stands in it.
#define IN_REGION(annotation)                                                                                  \
    "HloModule m, num_partitions=4\nENTRY e {\n"                                                               \
    " p = f32[8,4] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"                    \
    " q = f32[4,4] custom-call(p), custom_call_target=\"SPMDFullToShardShape\", "                              \
    "sharding={devices=[1,1,2,2]<=[4] last_tile_dims={manual,replicated}}\n"                                   \
    " n = f32[4,4] negate(q)" annotation                                                                       \
    "\n r = f32[4,4] abs(n)\n ROOT o = f32[8,4] custom-call(r), custom_call_target=\"SPMDShardToFullShape\", " \
    "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n}\n"

Test(annotations, free_axes_may_cut_inside_of_a_manual_region) {
    check_partitioned(IN_REGION(""), NULL, 1);
    check_partitioned(IN_REGION(", sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}"), NULL, 1);
    check_partitioned(IN_REGION(", sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={manual}}"), NULL, 1);
}

// Two arrays cut in different dimensions, whose border names its axes in Shardy's spelling and in that of JAX's
// exports.
#define BORDER(side, axes)                                                                    \
    "frontend_attributes={xla.sdy." side "_shardings=\"#sdy.sharding_per_value<[<@mesh, [{" X \
    "}, {}]>, <@mesh, "                                                                       \
    "[{}, {" X "}]>]>\", xla.sdy.manual_axes=\"" axes "\"}\n"
#define TWO_VALUES(axes) \
    "HloModule m, num_partitions=4, " MESHES                                                                        \
    "\nENTRY e {\n p = f32[8,8] parameter(0)\n q = f32[8,8] parameter(1)\n g = (f32[4,8], f32[8,4]) custom-call(p, q)," \
    " custom_call_target=\"xla.sdy.GlobalToLocalShape\", " BORDER("in", axes)                                       \
    " a = f32[4,8] get-tuple-element(g), index=0\n b = f32[8,4] get-tuple-element(g), index=1\n"                    \
    " n = f32[4,8] negate(a)\n o = f32[8,4] abs(b)\n l = (f32[8,8], f32[8,8]) custom-call(n, o), "                  \
    "custom_call_target=\"xla.sdy.LocalToGlobalShape\", " BORDER("out", axes)                                       \
    " c = f32[8,8] get-tuple-element(l), index=0\n d = f32[8,8] get-tuple-element(l), index=1\n"                    \
    " ROOT r = f32[8,8] add(c, d)\n}\n"

Test(annotations, manual_axes_are_read_in_both_spellings) {
    expect_collectives(TWO_VALUES("#sdy<manual_axes{" X "}>"), NULL, "1 all-to-all");
    expect_collectives(TWO_VALUES("#sdy.manual_axes<{" X "}>"), NULL, "1 all-to-all");
}

// Along a manual axis devices hold arrays of their own: to cut one by it mixed the rows of different arrays, or ended
// the process.
static const char *const manual_axes_named[] = {
    IN_REGION(", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}"),
    IN_REGION(", sharding={devices=[4,1]<=[4]}"),
    IN_REGION(", sharding={devices=[2,2]<=[4]}"),
    IN_REGION(", sharding={devices=[1,1,2,2]<=[4] last_tile_dims={unreduced,replicated}}"),
};

ParameterizedTestParameters(annotations, manual_axes_may_not) {
    return cases_numbered(HLO_COUNT_OF(manual_axes_named));
}
ParameterizedTest(int *number, annotations, manual_axes_may_not) {
    HloModule *module = parse_text(manual_axes_named[*number]), *made = NULL;
    for (int only_propagate = 0; only_propagate < 2; only_propagate++) {
        HloStatus status =
            only_propagate ? spmd_propagate(module, NULL, &made) : spmd_partition(module, NULL, &made, NULL);
        cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", hlo_status_message(status));
        cr_expect(strstr(hlo_status_message(status), "%n: its sharding names an axis that is manual"), "%s",
                  hlo_status_message(status));
        hlo_status_free(status);
        cr_expect_null(made);
    }
    hlo_module_free(module);
}
