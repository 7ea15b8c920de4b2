// SPDX-License-Identifier: Apache-2.0
// Annotations as people and other programs write them, including wrong ones: each is read, or ignored, or refused with
// its instruction; none crashes the process.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/hlo.h"
#include "spmd_partitioner/spmd.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

#define MESHES "frontend_attributes={xla.sdy.meshes=\"{mesh = #sdy.mesh<[\\\"x\\\"=2, \\\"y\\\"=2]>}\"}"
#define X "\\\"x\\\""
#define Y "\\\"y\\\""

// The text in `#sdy.sharding<@mesh, …>`, and the local rows and columns of f32[8,8] that follow.
typedef struct ShardyText {
    const char *text;
    int64_t rows, columns;
} ShardyText;

static const ShardyText understood[] = {
    {"[{" X "}, {" Y "}]", 4, 4},
    {"[{" X ", " Y "}, {}]", 2, 8},
    {"[{" X ", ?}, {?}]", 4, 8},
    {"[{" X "}p1, {" Y "}p0]", 4, 4},
    {"[{" X "}, {}], replicated={" Y "}", 4, 8},
    {"[{" X "}, {}], unreduced={" Y "}", 4, 8},
    // Spaces and line ends have no meaning.
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

CaseList(annotations, shardy_text_is_read) {
    return cases_numbered(HLO_COUNT_OF(understood));
}
CaseTest(int *number, annotations, shardy_text_is_read) {
    const ShardyText *one = &understood[*number];
    HloModule *module = partition_with(one->text, "");
    expect_parts(module, one->rows, one->columns, one->text);
    hlo_module_free(module);
}

// An annotation that is not a sharding of this array is refused, whatever is beside it. That an axis is named twice
// once ended the process.
static const struct {
    const char *text, *message;
} not_understood[] = {
    {"@mesh, [{" X ", " X "}, {}]", "a sharding names the axis \"x\" twice"},
    {"@mesh, [{" X "}, {" X "}]", "a sharding names the axis \"x\" twice"},
    {"@mesh, [{" X ":(1)2}, {}]", "a sub-axis does not fit axis \"x\""},  // all of the axis is no sub-axis
    {"@mesh, [{" X "}, {}], unreduced={" X "}", "a sharding names the axis \"x\" twice"},
    {"@mesh, [{" X "}, {}], replicated={" X "}", "a sharding names the axis \"x\" twice"},
    {"@mesh, [{" X "}, {}], replicated={" Y "}, unreduced={" Y "}", "a sharding names the axis \"y\" twice"},
    {"@mesh, [{\\\"z\\\"}, {}]", "the axis \"z\", which its mesh does not have; it has \"x\", \"y\""},
    {"@mesh, [{}, {}], replicated={\\\"z\\\"}", "the axis \"z\", which its mesh does not have"},
    {"@mesh, [{}, {}], unreduced={\\\"z\\\"}", "the axis \"z\", which its mesh does not have"},
    {"@mash, [{" X "}, {}]", "a sharding names a mesh that does not exist: @mash"},
    {"@wide, [{" X "}, {}]", "its sharding names 8 devices"},
    {"@wide, [{}, {" X ", ?}]", "its sharding names 8 devices"},
    {"@wide, [{}, {}], unreduced={" X "}", "its sharding names 8 devices"},
    {"@mesh, [{" X "}, {}, {}]", "the sharding has 3 dimensions, but the value has rank 2"},
    {"@mesh, [{" X "}]", "the sharding has 1 dimensions, but the value has rank 2"},
    {"@mesh, [{" X ":(1)3}, {}]", "a sub-axis does not fit axis \"x\""},
    {"@mesh, [{" X ":(3)2}, {}]", "a sub-axis does not fit axis \"x\""},
    {"@mesh, [{" X ":(1)0}, {}]", "a sub-axis does not fit axis \"x\""},
    {"@mesh, [{" X ":(2)1}, {}]", "a sub-axis does not fit axis \"x\""},
    {"@mesh, [{" X ":1)2}, {}]", "expected '('"},
    {"@mesh, [{" X "}p, {}]", "expected an integer"},
    {"@mesh, [{" X "}, {}p1]", "dimension 1 of a sharding has a priority, but neither axes nor a question mark"},
    {"@mesh, [{" X "}, {}", "expected ','"},
    {"@mesh, [{" X ", {}]", "expected a string"},
    {"@mesh, {" X "}, {}", "expected '['"},
    {"@mesh, [{" X "}, {}], sideways={" Y "}", "expected unreduced"},
    {"@mesh, [{" X "}, {}], unreduced=max{" Y "}", "an unreduced maximum or minimum"},
    {"@mesh, [{\\\"x}, {}]", "xla.sdy.sharding: "},
    {"", "xla.sdy.sharding: "},
    {"mesh<[" X "=3]>, [{" X "}, {}]", "its sharding names 3 devices"},
    {"mesh<[" X "=4], device_ids=[0,1,2,2]>, [{" X "}, {}]", "device 2 is repeated or out of range"},
    {"mesh<[" X "=4], device_ids=[0,1]>, [{" X "}, {}]", "a mesh of 4 devices lists 2"},
    {"mesh<[" X "=2, " X "=2]>, [{" X "}, {}]", "a mesh has the axis \"x\" twice"},
};

#define FOUR_MESHES                                                                                              \
    "frontend_attributes={xla.sdy.meshes=\"{mesh = #sdy.mesh<[\\\"x\\\"=2, \\\"y\\\"=2]>, wide = #sdy.mesh<["    \
    "\\\"x\\\"=8]>, turned = #sdy.mesh<[\\\"x\\\"=4], device_ids=[3,2,1,0]>, other = #sdy.mesh<[\\\"y\\\"=4]>, " \
    "empty = #sdy.mesh<[]>, one = #sdy.mesh<[], device_ids=[2]>}\"}"

// Partitions f32[8,8] with the attribute `text` and `beside` as the HLO sharding; the status is the caller's.
static HloStatus partition_parameter(const char *text, const char *beside, HloModule **partitioned) {
    HloText program = {0};
    hlo_text_format(&program,
                    "HloModule m, num_partitions=4, " FOUR_MESHES
                    "\nENTRY e {\n p = f32[8,8] parameter(0)%s, frontend_attributes={xla.sdy.sharding="
                    "\"%s\"}\n ROOT n = f32[8,8] negate(p)\n}\n",
                    beside, text);
    HloModule *module = parse_text(program.data);
    HloStatus status = spmd_partition(module, NULL, partitioned, NULL);
    if (!status) check_partitioned(program.data, NULL, 1);
    hlo_text_free(&program);
    hlo_module_free(module);
    return status;
}

static void expect_refused(HloStatus status, const char *message, const char *text) {
    cr_assert_not_null(status, "accepted: %s", text);
    cr_expect_not_null(strstr(hlo_status_message(status), message), "no '%s' in '%s' of %s", message,
                       hlo_status_message(status), text);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", text);
    hlo_status_free(status);
}

CaseList(annotations, other_shardy_text_is_refused) {
    return cases_numbered(HLO_COUNT_OF(not_understood));
}
CaseTest(int *number, annotations, other_shardy_text_is_refused) {
    static const char *const besides[] = {"", ", sharding={devices=[1,4]<=[4]}"};
    for (size_t i = 0; i < HLO_COUNT_OF(besides); i++) {
        HloText text = {0};
        HloModule *partitioned = NULL;
        hlo_text_format(&text, "#sdy.sharding<%s>", not_understood[*number].text);
        HloStatus status = partition_parameter(text.data, besides[i], &partitioned);
        if (status) cr_expect_not_null(strstr(hlo_status_message(status), "instruction %p"), "%s", text.data);
        expect_refused(status, not_understood[*number].message, text.data);
        hlo_text_free(&text);
    }
}

// A sharding of each kind of mesh, and the local rows and columns of f32[8,8] and the owner of the first part.
static const struct {
    const char *text;
    int64_t rows, columns;
    const char *sharding;
} of_meshes[] = {
    {"#sdy.sharding<@mesh, [{" X "}, {" Y "}]>", 4, 4, "{devices=[2,2]<=[4]}"},
    {"#sdy.sharding<@other, [{" Y "}, {}]>", 2, 8, "{devices=[4,1]<=[4]}"},
    {"#sdy.sharding<@turned, [{" X "}, {}]>", 2, 8, "{devices=[4,1]3,2,1,0}"},
    {"#sdy.sharding<@turned, [{" X ", ?}, {?}]>", 2, 8, "{devices=[4,1]3,2,1,0}"},
    {"#sdy.sharding<@turned, [{}, {" X ":(1)2}]>", 8, 4, "{devices=[1,2,2]3,2,1,0 last_tile_dim_replicate}"},
    {"#sdy.sharding<@empty, [{}, {}]>", 8, 8, "{replicated}"},
    {"#sdy.sharding<@one, []>", 8, 8, "{replicated}"},
    // On a mesh with other devices, a sharding without axes is replicated.
    {"#sdy.sharding<@wide, [{}, {}]>", 8, 8, "{replicated}"},
    {"#sdy.sharding<@wide, [{}, {}], replicated={" X "}>", 8, 8, "{replicated}"},
    {"#sdy.sharding<mesh<[" X "=3]>, [{}, {}]>", 8, 8, "{replicated}"},
    {"#sdy.sharding_per_value<[<@wide, [{}, {}]>]>", 8, 8, "{replicated}"},
    {"#sdy.sharding<mesh<[" X "=4]>, [{}, {" X "}]>", 8, 2, "{devices=[1,4]<=[4]}"},
    {"#sdy.sharding<mesh<[" X "=4], device_ids=[1,0,3,2]>, [{}, {" X "}]>", 8, 2, "{devices=[1,4]1,0,3,2}"},
    {"#sdy.sharding<@mesh, [{" X "}, {}], unreduced=sum{" Y "}>", 4, 8, NULL},
    {"#sdy.sharding_per_value<[<@other, [{" Y "}, {}]>]>", 2, 8, "{devices=[4,1]<=[4]}"},
    // As releases of XLA write it that escape the text once more.
    {"#sdy.sharding<@other, [{\\\\\\\"y\\\\\\\"}, {}]>", 2, 8, "{devices=[4,1]<=[4]}"},
};

CaseList(annotations, the_mesh_that_a_sharding_names_counts) {
    return cases_numbered(HLO_COUNT_OF(of_meshes));
}
CaseTest(int *number, annotations, the_mesh_that_a_sharding_names_counts) {
    const char *text = of_meshes[*number].text;
    HloModule *partitioned = NULL;
    HloStatus status = partition_parameter(text, ", sharding={devices=[1,4]<=[4]}", &partitioned);
    cr_assert_null(status, "%s: %s", text, hlo_status_message(status));
    expect_parts(partitioned, of_meshes[*number].rows, of_meshes[*number].columns, text);
    HloText sharding = {0};
    hlo_sharding_print(&sharding, partitioned->entry->parameters.items[0]->sharding);
    if (of_meshes[*number].sharding) cr_expect_str_eq(sharding.data, of_meshes[*number].sharding, "%s", text);
    hlo_text_free(&sharding);
    hlo_module_free(partitioned);
}

// Meshes of Shardy: a text that is not a mesh is refused, whether a sharding names it or not.
static const struct {
    const char *meshes;
    int64_t rows;         // of f32[8] that is cut by axis x; 0: refused
    const char *message;  // then
} mesh_texts[] = {
    {"{mesh = #sdy.mesh<[\\\"x\\\"=4]>}", 2, NULL},
    {"{mesh = #sdy.mesh<[\\\"x\\\"=2, \\\"y\\\"=2]>, a = #sdy.mesh<[\\\"x\\\"=8]>}", 4, NULL},
    {"{a = #sdy.mesh<[\\\"x\\\"=8]>, mesh = #sdy.mesh<[\\\"x\\\"=2, \\\"y\\\"=2]>}", 4, NULL},
    {"{a = #sdy.mesh<[\\\"x\\\"=4]>}", 0, "a sharding names a mesh that does not exist: @mesh"},
    {"{mesh = #sdy.mesh<[\\\"x\\\"=8]>}", 0, "its sharding names 8 devices"},
    {"{mesh = #sdy.mesh<[\\\"x\\\"=0]>}", 0, "has no valid size"},
    {"{mesh = #sdy.mesh<[\\\"x\\\"=9223372036854775807, \\\"y\\\"=9223372036854775807]>}", 0,
     "a mesh has too many devices"},
    {"{mesh = #sdy.mesh<[\\\"x\\\"=4]>, mesh = #sdy.mesh<[\\\"x\\\"=2]>}", 0, "twice"},
    {"{mesh = #sdy.mesh<[\\\"x\\\"=]>}", 0, "expected an integer"},
    {"{mesh = #sdy.mesh<[x=4]>}", 0, "expected a string"},
    {"{mesh = #sdy.mesh<[]>}", 0, "the axis \"x\", which its mesh does not have; it has none"},
    {"{mesh = #sdy.mesh<", 0, "the text ends"},
    {"{mesh = 4}", 0, "'mesh' is not a mesh"},
    {"#sdy.mesh<[\\\"x\\\"=4]>", 0, "not a dictionary of meshes"},
    {"", 0, "the text ends"},
};

CaseList(annotations, shardy_meshes) {
    return cases_numbered(HLO_COUNT_OF(mesh_texts));
}
CaseTest(int *number, annotations, shardy_meshes) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes=\"%s\"}\nENTRY e {\n"
                    " p = f32[8] parameter(0), frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, [{" X
                    "}]>\"}\n ROOT n = f32[8] negate(p)\n}\n",
                    mesh_texts[*number].meshes);
    HloModule *module = parse_text(text.data), *partitioned = NULL;
    HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
    if (mesh_texts[*number].message) {
        expect_refused(status, mesh_texts[*number].message, text.data);
    } else {
        cr_assert_null(status, "%s: %s", text.data, hlo_status_message(status));
        cr_expect_eq(partitioned->entry->parameters.items[0]->shape->dims[0], mesh_texts[*number].rows, "%s",
                     text.data);
        hlo_module_free(partitioned);
    }
    hlo_module_free(module);
    hlo_text_free(&text);
}

// Lists that do not fit what they annotate, at every place that has one.
#define LIST "#sdy.sharding_per_value<[<@mesh, [{" X "}]>]>"
#define ENTER(in, axes)                                                                                                \
    "ENTRY e {\n p = f32[8] parameter(0)\n g = f32[4] custom-call(p), custom_call_target="                             \
    "\"xla.sdy.GlobalToLocalShape\", frontend_attributes={xla.sdy.in_shardings=\"" in "\",xla.sdy.manual_axes=\"" axes \
    "\"}\n ROOT l = f32[8] custom-call(g), custom_call_target="                                                        \
    "\"xla.sdy.LocalToGlobalShape\", frontend_attributes={xla.sdy.out_shardings=\"" LIST                               \
    "\",xla.sdy.manual_axes=\"#sdy<manual_axes{" X "}>\"}\n}\n"
static const struct {
    const char *module, *body, *message;
} lists[] = {
    {"",
     "ENTRY e {\n p = f32[8] parameter(0)\n ROOT t = (f32[8], f32[8]) tuple(p, p), frontend_attributes={"
     "xla.sdy.sharding=\"" LIST "\"}\n}\n",
     "instruction %t: xla.sdy.sharding: there are 1 shardings for 2 arrays"},
    {"",
     "ENTRY e {\n p = f32[8] parameter(0)\n ROOT t = f32[8] custom-call(p), custom_call_target=\"Sharding\", "
     "frontend_attributes={xla.sdy.sharding=\"#sdy.sharding_per_value<[]>\"}\n}\n",
     "instruction %t: xla.sdy.sharding: there are 0 shardings for 1 arrays"},
    {"",
     "ENTRY e {\n p = f32[8] parameter(0)\n ROOT t = f32[8] custom-call(p), custom_call_target="
     "\"xla.sdy.FuncResultSharding\", frontend_attributes={xla.sdy.sharding=\"#sdy.sharding_per_value<[<@mesh, [{"
     "\\\"q\\\"}]>]>\"}\n}\n",
     "instruction %t: xla.sdy.sharding: a sharding names the axis \"q\""},
    {"",
     "ENTRY e {\n p = f32[8] parameter(0)\n ROOT t = f32[8] negate(p), frontend_attributes={"
     "xla.sdy.sharding_rule=\"a rule\"}\n}\n",
     "instruction %t: xla.sdy.sharding_rule: "},
    {"", ENTER("#sdy.sharding_per_value<[]>", "#sdy<manual_axes{" X "}>"),
     "instruction %g: xla.sdy.in_shardings: there are 0 shardings for 1 arrays"},
    {"", ENTER("#sdy.sharding_per_value<[<@mash, [{" X "}]>]>", "#sdy<manual_axes{" X "}>"),
     "instruction %g: xla.sdy.in_shardings: a sharding names a mesh that does not exist: @mash"},
    {"", ENTER(LIST, "#sdy<manual_axes{\\\"q\\\"}>"),
     "instruction %g: xla.sdy.manual_axes: a sharding names the axis \"q\", which its mesh does not have"},
    {"", ENTER(LIST, "#sdy<manual_axes{" X ", " X "}>"),
     "instruction %g: xla.sdy.manual_axes: the axis \"x\" is manual twice"},
    {"", ENTER(LIST, "x"), "instruction %g: xla.sdy.manual_axes: "},
    {",xla.sdy.tuple_args_shardings=\"#sdy.sharding_per_value<[]>\"", "ENTRY e {\n ROOT p = f32[8] parameter(0)\n}\n",
     "xla.sdy.tuple_args_shardings: there are 0 shardings for 1 arguments"},
    {",xla.sdy.tuple_results_shardings=\"#sdy.sharding_per_value<[<@mesh, []>]>\"",
     "ENTRY e {\n ROOT p = f32[8] parameter(0)\n}\n",
     "xla.sdy.tuple_results_shardings: the sharding has 0 dimensions, but the value has rank 1"},
};

static HloModule *parse_list_program(const char *module, const char *body) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes=\"{mesh = #sdy.mesh<[" X
                    "=2, " Y "=2]>}\"%s}\n%s",
                    module, body);
    HloModule *parsed = parse_text(text.data);
    hlo_text_free(&text);
    return parsed;
}

CaseList(annotations, shardy_lists_that_do_not_fit_are_refused) {
    return cases_numbered(HLO_COUNT_OF(lists));
}
CaseTest(int *number, annotations, shardy_lists_that_do_not_fit_are_refused) {
    HloModule *module = parse_list_program(lists[*number].module, lists[*number].body), *partitioned = NULL;
    expect_refused(spmd_partition(module, NULL, &partitioned, NULL), lists[*number].message, lists[*number].body);
    hlo_module_free(module);
}

Test(annotations, shardy_lists_of_a_tuple_of_arguments_and_results_are_read) {
    HloModule
        *partitioned = NULL,
        *module = parse_list_program(
            ",xla.sdy.tuple_args_shardings=\"#sdy.sharding_per_value<[<@mesh, [{" X "}]>, <@mesh, [{" X ", " Y
            "}]>]>\",xla.sdy.tuple_results_shardings=\"#sdy.sharding_per_value<[<@mesh, [{" Y "}]>, <@mesh, [{}]>]>\"",
            "ENTRY e {\n t = (f32[8], f32[8]) parameter(0)\n a = f32[8] get-tuple-element(t), index=0\n b = f32[8] "
            "get-tuple-element(t), index=1\n ROOT r = (f32[8], f32[8]) tuple(a, b)\n}\n");
    cr_assert_null(spmd_partition(module, NULL, &partitioned, NULL));
    HloText arguments = {0}, results = {0};
    hlo_sharding_print(&arguments, partitioned->entry->parameters.items[0]->sharding);
    hlo_sharding_print(&results, partitioned->entry->root->sharding);
    cr_expect_str_eq(arguments.data, "{{devices=[2,2]<=[4] last_tile_dim_replicate}, {devices=[4]<=[4]}}");
    cr_expect_str_eq(results.data, "{{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}, {replicated}}");
    hlo_text_free(&arguments);
    hlo_text_free(&results);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

// ---------------------------------------------------------------------------------------------------------------------
// Inside of manual regions

// A region that is manual over the major half of four devices, with an annotation inside it.
#define IN_REGION(annotation)                                                                                  \
    "HloModule m, num_partitions=4\nENTRY e {\n"                                                               \
    " p = f32[8,4] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"                    \
    " q = f32[4,4] custom-call(p), custom_call_target=\"SPMDFullToShardShape\", "                              \
    "sharding={devices=[1,1,2,2]<=[4] last_tile_dims={manual,replicated}}\n"                                   \
    " n = f32[4,4] negate(q)" annotation                                                                       \
    "\n r = f32[4,4] abs(n)\n ROOT o = f32[8,4] custom-call(r), custom_call_target=\"SPMDShardToFullShape\", " \
    "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n}\n"

Test(annotations, free_axes_may_shard_inside_of_a_manual_region) {
    check_partitioned(IN_REGION(""), NULL, 1);
    check_partitioned(IN_REGION(", sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}"), NULL, 1);
    check_partitioned(IN_REGION(", sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={manual}}"), NULL, 1);
}

// Two arrays cut in different dimensions, whose boundary names its axes in Shardy's spelling and in that of JAX's
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

// bug: along a manual axis devices hold arrays of their own; cutting one by it mixed the rows of different arrays, or
// crashed the process.
static const char *const manual_axes_named[] = {
    IN_REGION(", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}"),
    IN_REGION(", sharding={devices=[4,1]<=[4]}"),
    IN_REGION(", sharding={devices=[2,2]<=[4]}"),
    IN_REGION(", sharding={devices=[1,1,2,2]<=[4] last_tile_dims={unreduced,replicated}}"),
};

CaseList(annotations, manual_axes_may_not) {
    return cases_numbered(HLO_COUNT_OF(manual_axes_named));
}
CaseTest(int *number, annotations, manual_axes_may_not) {
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

// The barriers of GSPMD propagate shardings forward and backward.
static const struct {
    const char *target;
    bool forward, backward;
} barriers[] = {{"Sharding", true, true}, {"ShardBarrierFrom", false, true}, {"ShardBarrierTo", true, false}};

CaseList(annotations, barriers_stop_one_direction) {
    return cases_numbered(HLO_COUNT_OF(barriers));
}
CaseTest(const int *number, annotations, barriers_stop_one_direction) {
    static const char *const tiles = ", sharding={devices=[4]<=[4]}";
    for (int backward = 0; backward < 2; backward++) {
        HloText program = {0};
        hlo_text_format(&program,
                        "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8] parameter(0)%s\n n = f32[8] negate(p)\n"
                        " b = f32[8] custom-call(n), custom_call_target=\"%s\", custom_call_has_side_effect=true\n"
                        " ROOT r = f32[8] negate(b)%s\n}\n",
                        backward ? "" : tiles, barriers[*number].target, backward ? tiles : "");
        HloModule *module = parse_text(program.data), *annotated = NULL;
        cr_assert_null(spmd_propagate(module, &(SpmdOptions){.propagate_boundary = true}, &annotated));
        const HloInstruction *end = backward ? annotated->entry->parameters.items[0] : annotated->entry->root;
        const bool sharded = end->sharding && end->sharding->kind == HLO_SHARDING_TILED;
        cr_expect_eq(sharded, backward ? barriers[*number].backward : barriers[*number].forward, "%s", program.data);
        check_partitioned(program.data, NULL, 2);
        hlo_module_free(annotated);
        hlo_module_free(module);
        hlo_text_free(&program);
    }
}
