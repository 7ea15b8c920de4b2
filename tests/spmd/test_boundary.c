// SPDX-License-Identifier: Apache-2.0
// Which parameters and results without annotations stay whole: what the partitioner inside jaxlib 0.10.2 does with
// these programs (GSPMD for HLO shardings, Shardy beside its meshes), and what propagation may do with them.
#include <criterion/criterion.h>

#include "hlo/hlo.h"
#include "spmd_partitioner/spmd.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

#define ROWS "sharding={devices=[4,1]<=[4]}"
#define TO_PARAMETERS ", allow_spmd_sharding_propagation_to_parameters="
#define TO_OUTPUT ", allow_spmd_sharding_propagation_to_output="
#define SHARDY ", frontend_attributes={xla.sdy.meshes=\"{mesh = #sdy.mesh<[\\\"x\\\"=4]>}\"}"
#define SUM "a = f32[8,16] add(p, q)\n ROOT r = f32[8,16] multiply(a, a)"

// The rows that one device holds of f32[8,16]: of each parameter, then of each result.
static const struct {
    const char *header, *body;
    int64_t rows[4], opened[4];  // as in XLA; with `propagate_boundary`
} programs[] = {
    {"", "p = f32[8,16] parameter(0), " ROWS "\n q = f32[8,16] parameter(1)\n " SUM, {2, 8, 8}, {2, 2, 2}},
    {TO_PARAMETERS "{true}" TO_OUTPUT "{true}",
     "p = f32[8,16] parameter(0), " ROWS "\n q = f32[8,16] parameter(1)\n " SUM,
     {2, 2, 2},
     {2, 2, 2}},
    {TO_OUTPUT "{true}",
     "p = f32[8,16] parameter(0), " ROWS "\n q = f32[8,16] parameter(1)\n " SUM,
     {2, 8, 2},
     {2, 2, 2}},
    {TO_PARAMETERS "{true}",
     "p = f32[8,16] parameter(0), " ROWS "\n q = f32[8,16] parameter(1)\n " SUM,
     {2, 2, 8},
     {2, 2, 2}},
    {TO_PARAMETERS "{false}" TO_OUTPUT "{false}",
     "p = f32[8,16] parameter(0), " ROWS "\n q = f32[8,16] parameter(1)\n " SUM,
     {2, 8, 8},
     {2, 8, 8}},
    // An annotation inside says nothing about the boundary; a tuple's elements are not the result.
    {"",
     "p = f32[8,16] parameter(0)\n q = f32[8,16] parameter(1)\n a = f32[8,16] add(p, q), " ROWS
     "\n ROOT r = f32[8,16] multiply(a, a)",
     {8, 8, 8},
     {2, 2, 2}},
    {"",
     "p = f32[8,16] parameter(0), " ROWS "\n a = f32[8,16] add(p, p), " ROWS
     "\n b = f32[8,16] multiply(a, a)\n ROOT t = (f32[8,16], f32[8,16]) tuple(a, b)",
     {2, 8, 8},
     {2, 2, 2}},
    {"", "ROOT p = f32[8,16] parameter(0), " ROWS, {2, 2}, {2, 2}},
    // A constraint is one of the parameter too.
    {"",
     "p = f32[8,16] parameter(0)\n ROOT a = f32[8,16] custom-call(p), custom_call_target=\"Sharding\", " ROWS,
     {2, 2},
     {2, 2}},
    {"",
     "p = f32[8,16] parameter(0)\n a = f32[8,16] custom-call(p), custom_call_target=\"Sharding\", " ROWS
     "\n ROOT b = f32[8,16] add(a, p), " ROWS,
     {2, 2},
     {2, 2}},
    {"",
     "t = (f32[8,16], f32[8,16]) parameter(0), sharding={{devices=[4,1]<=[4]}, {unknown}}\n"
     " p = f32[8,16] get-tuple-element(t), index=0\n q = f32[8,16] get-tuple-element(t), index=1\n " SUM,
     {2, 8, 8},
     {2, 2, 2}},
    {"",
     "p = f32[8,16] parameter(0), sharding={mesh['x'=4], [{'x'}, {}]}\n q = f32[8,16] parameter(1)\n " SUM,
     {2, 8, 8},
     {2, 2, 2}},
    {SHARDY,
     "p = f32[8,16] parameter(0), frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, [{\\\"x\\\"}, {}]>\"}\n"
     " q = f32[8,16] parameter(1)\n " SUM,
     {2, 2, 2},
     {2, 2, 2}},
};

static void expect_rows(const char *text, const SpmdOptions *options, const int64_t *rows) {
    HloModule *module = parse_text(text), *partitioned;
    SpmdBoundary *boundary;
    HloStatus status = spmd_partition(module, options, &partitioned, NULL);
    cr_assert_null(status, "%s: %s", text, hlo_status_message(status));
    cr_assert_null(spmd_boundary_new(partitioned, &boundary));
    for (int64_t i = 0; i < boundary->parameter_count + boundary->result_count; i++) {
        const SpmdBoundaryArray *array = i < boundary->parameter_count
                                             ? &boundary->parameters[i]
                                             : &boundary->results[i - boundary->parameter_count];
        cr_expect_eq(array->local->dims[0], rows[i], "array %lld has %lld rows, not %lld, %s\n%s", (long long)i,
                     (long long)array->local->dims[0], (long long)rows[i], options ? "opened" : "as in XLA", text);
    }
    spmd_boundary_free(boundary);
    hlo_module_free(partitioned);
    if (!hlo_shape_is_tuple(module->entry->parameters.items[0]->shape)) check_partitioned(text, options, 1);
    hlo_module_free(module);
}

CaseList(boundary, without_annotations_as_in_xla) {
    return cases_numbered(HLO_COUNT_OF(programs));
}
CaseTest(const int *number, boundary, without_annotations_as_in_xla) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m, num_partitions=4%s\nENTRY e {\n %s\n}\n", programs[*number].header,
                    programs[*number].body);
    expect_rows(text.data, NULL, programs[*number].rows);
    expect_rows(text.data, &(SpmdOptions){.propagate_boundary = true}, programs[*number].opened);
    hlo_text_free(&text);
}

// Options open what they name, and a program that has no annotations but those of options is open.
Test(boundary, options_open_arrays) {
    static const char *const text =
        "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,16] parameter(0)%s\n q = f32[8,16] parameter(1)\n " SUM
        "\n}\n";
    static const SpmdMeshAxis axes[] = {{"x", 4}};
    HloText annotated = {0}, plain = {0};
    hlo_text_format(&annotated, text, ", sharding={mesh['x'=4], [{'x'}, {}]}");
    hlo_text_format(&plain, text, "");
    const SpmdOptions opens = {.shards = (const char *const[]){"q=?,?"}, .shard_count = 1};
    const SpmdOptions shards = {
        .mesh = axes, .mesh_axis_count = 1, .shards = (const char *const[]){"p=x,-"}, .shard_count = 1};
    expect_rows(annotated.data, &opens, (const int64_t[]){2, 2, 8});
    expect_rows(plain.data, &shards, (const int64_t[]){2, 2, 2});
    hlo_text_free(&annotated);
    hlo_text_free(&plain);
}
