// SPDX-License-Identifier: Apache-2.0
// Manual regions (shard_map): instructions inside of one without an operand that comes from it.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/text/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// Collectives of constants, of counts and of the device's number, on four devices as {x: 2, y: 2}; `region` ends with
// v = f32[2], which leaves it in four parts. `a` is a shard of the parameter.
static const char *const regions[] = {
    // psum(1, 'x') of the whole mesh, and of one axis.
    " one = f32[] constant(3)\n ones = f32[2] broadcast(one), dimensions={}\n"
    " v = f32[2] all-reduce(ones), channel_id=1, replica_groups={{0,2},{1,3}}, use_global_device_ids=true, "
    "to_apply=sum\n",
    // A product, which would be cut if it were outside.
    " i = f32[4,4] iota(), iota_dimension=1\n d = f32[4,4] dot(i, i), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={0}\n r = f32[4,4] all-reduce(d), channel_id=1, replica_groups={{0,1,2,3}}, "
    "use_global_device_ids=true, to_apply=sum\n"
    " s = f32[1,2] slice(r), slice={[0:1], [1:3]}\n v = f32[2] reshape(s)\n",
    // The device's number, through a sum.
    " p = u32[] partition-id()\n f = f32[] convert(p)\n ones = f32[2] broadcast(f), dimensions={}\n"
    " v = f32[2] all-reduce(ones), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, "
    "to_apply=sum\n",
    // ppermute of a count, in a loop of constants, through a call.
    " n = s32[] constant(0)\n i = f32[2] iota(), iota_dimension=0\n t = (s32[], f32[2]) tuple(n, i)\n"
    " w = (s32[], f32[2]) while(t), condition=few, body=move\n v = f32[2] get-tuple-element(w), index=1\n",
    // A loop that a collective of constants ends.
    " n = s32[] constant(0)\n z = f32[2] constant({1, 2})\n t = (s32[], f32[2]) tuple(n, z)\n"
    " w = (s32[], f32[2]) while(t), condition=summed, body=grow\n v = f32[2] get-tuple-element(w), index=1\n",
    // A branch that depends on one, with another inside.
    " n = s32[] constant(1)\n m = s32[] all-reduce(n), channel_id=1, replica_groups={{0,1,2,3}}, "
    "use_global_device_ids=true, to_apply=count\n four = s32[] constant(4)\n"
    " c = pred[] compare(m, four), direction=EQ\n i = f32[2] iota(), iota_dimension=0\n"
    " v = f32[2] conditional(c, i, i), true_computation=moved, false_computation=same\n",
};

static const char head[] =
    "HloModule m, num_partitions=4\n\nsum {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
    " ROOT z = f32[] add(x, y)\n}\n\ncount {\n x = s32[] parameter(0)\n y = s32[] parameter(1)\n"
    " ROOT z = s32[] add(x, y)\n}\n\nsame {\n ROOT x = f32[2] parameter(0)\n}\n\nmoved {\n x = f32[2] parameter(0)\n"
    " ROOT y = f32[2] collective-permute(x), channel_id=2, source_target_pairs={{0,1},{1,2},{2,3}}\n}\n\n"
    "few {\n s = (s32[], f32[2]) parameter(0)\n n = s32[] get-tuple-element(s), index=0\n l = s32[] constant(2)\n"
    " ROOT c = pred[] compare(n, l), direction=LT\n}\n\n"
    "move {\n s = (s32[], f32[2]) parameter(0)\n n = s32[] get-tuple-element(s), index=0\n o = s32[] constant(1)\n"
    " m = s32[] add(n, o)\n x = f32[2] get-tuple-element(s), index=1\n y = f32[2] call(x), to_apply=moved\n"
    " ROOT t = (s32[], f32[2]) tuple(m, y)\n}\n\n"
    "summed {\n s = (s32[], f32[2]) parameter(0)\n n = s32[] get-tuple-element(s), index=0\n"
    " m = s32[] all-reduce(n), channel_id=3, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=count\n"
    " l = s32[] constant(9)\n ROOT c = pred[] compare(m, l), direction=LT\n}\n\n"
    "grow {\n s = (s32[], f32[2]) parameter(0)\n n = s32[] get-tuple-element(s), index=0\n o = s32[] constant(1)\n"
    " m = s32[] add(n, o)\n x = f32[2] get-tuple-element(s), index=1\n y = f32[2] add(x, x)\n"
    " ROOT t = (s32[], f32[2]) tuple(m, y)\n}\n\n"
    "ENTRY e {\n a = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n";

CaseList(manual, bug_a_collective_of_constants_was_taken_to_be_outside) {
    return cases_numbered(2 * HLO_COUNT_OF(regions));
}

// Once with an array that enters the region, once without.
CaseTest(const int *number, manual, bug_a_collective_of_constants_was_taken_to_be_outside) {
    const bool enters = *number % 2 == 0;
    HloText text = {0};
    static const char boundary[] =
        " gl = f32[8] custom-call(b), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[4]<=[4]}\n";
    hlo_text_format(
        &text,
        "%s%s%s lv = f32[2] custom-call(v), custom_call_target=\"Sharding\", sharding={manual}\n"
        " fl = f32[8] custom-call(lv), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[4]<=[4]}\n"
        "%s ROOT sum = f32[8] add(fl, %s)\n}\n",
        head,
        enters ? " b = f32[2] custom-call(a), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n" : "",
        regions[*number / 2], enters ? boundary : "", enters ? "gl" : "a");
    check_partitioned(text.data, NULL, 3);
    hlo_text_free(&text);
}

// In GSPMD's form the call that leaves the inner region lists the axes of the outer one, which stay manual.
Test(manual, bug_leaving_an_inner_region_left_the_outer_one) {
    const char *const text =
        "HloModule m, num_partitions=4\n\nENTRY e {\n p = f32[8] parameter(0)\n"
        " s = f32[8] custom-call(p), custom_call_target=\"Sharding\", sharding={devices=[2,2]<=[4] "
        "last_tile_dim_replicate}\n a = f32[4] custom-call(s), custom_call_target=\"SPMDFullToShardShape\", "
        "sharding={devices=[1,2,2]<=[4] last_tile_dims={manual, replicated}}\n"
        " t = f32[4] custom-call(a), custom_call_target=\"Sharding\", sharding={devices=[2,2]<=[2,2]T(1,0) "
        "last_tile_dims={manual}}\n"
        " b = f32[2] custom-call(t), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
        " i = u32[] partition-id()\n j = f32[] convert(i)\n k = f32[2] broadcast(j), dimensions={}\n"
        " c = f32[2] multiply(b, k)\n u = f32[2] custom-call(c), custom_call_target=\"Sharding\", sharding={manual}\n"
        " d = f32[4] custom-call(u), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[2,2]<=[2,2]T(1,0) "
        "last_tile_dims={manual}}\n"
        " v = f32[4] custom-call(d), custom_call_target=\"Sharding\", sharding={devices=[1,2,2]<=[4] "
        "last_tile_dims={manual, replicated}}\n"
        " f = f32[8] custom-call(v), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[2,2]<=[4] "
        "last_tile_dim_replicate}\n ROOT r = f32[8] negate(f)\n}\n";
    HloModule *module = parse_text(text), *partitioned = NULL;
    HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloText printed = {0};
    cr_assert_null(hlo_print(partitioned, NULL, &printed));
    cr_expect_not_null(strstr(printed.data, "all-gather(%c), channel_id=1, replica_groups=[2,2]<=[4]"), "%s",
                       printed.data);
    hlo_text_free(&printed);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    check_partitioned(text, NULL, 3);
}
