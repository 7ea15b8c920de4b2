// SPDX-License-Identifier: Apache-2.0
// What XLA partitions beside programs that JAX writes.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/hlo.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

#define ON(count, body) "HloModule m, num_partitions=" #count "\nENTRY e {\n" body "}\n"

// Dimensions that a named sharding does not list are whole.
static const char *const short_shardings[] = {
    ON(4,
       " p = f32[8,3] parameter(0), sharding={mesh['a'=4], [{'a'}]}\n ROOT t = f32[8,3] negate(p), "
       "sharding={mesh['a'=2,'b'=2], [{'b'}]}\n"),
    ON(4,
       " p = f32[7,3] parameter(0), sharding={mesh['a'=4], device_ids=([4]), [{'a'}]}\n ROOT t = f32[7,3] "
       "negate(p), sharding={mesh['a'=2,'b'=2], [{'a'}], unreduced={}}\n"),
    ON(4,
       " p = f32[8,3] parameter(0), sharding={mesh['a'=4], device_ids=(3,1,0,2), [{'a'}]}\n ROOT t = f32[8,3] "
       "negate(p), sharding={mesh['a'=4], []}\n"),
    ON(4, " p = f32[1,3] parameter(0), sharding={mesh['a'=2,'b'=2], [{'a','b'}]}\n ROOT t = f32[1,3] negate(p)\n"),
};

CaseList(accepted, short_shardings) {
    return cases_numbered(HLO_COUNT_OF(short_shardings));
}

CaseTest(const int *number, accepted, short_shardings) {
    check_partitioned(short_shardings[*number], NULL, 3);
}

// A program, and words of its partitioned form.
typedef struct Accepted {
    const char *text, *words[2];
} Accepted;

#define SUM " a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n"
#define HALVES " p = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n"

static const Accepted programs[] = {
    // The last sharding is the token's.
    {ON(2, HALVES " t = token[] after-all()\n o = token[] outfeed(p, t), outfeed_shape=f32[8], "
                  "sharding={{devices=[2]<=[2]}, {maximal device=0}}\n ROOT n = f32[8] negate(p)\n"),
     {"outfeed_shape=f32[4]", NULL}},
    // The data is fed out as the outfeed's annotation says, whatever it is sharded by.
    {ON(2, HALVES " t = token[] after-all()\n o = token[] outfeed(p, t), outfeed_shape=f32[8], "
                  "sharding={{replicated}, {maximal device=0}}\n ROOT n = f32[8] negate(p)\n"),
     {"all-gather", "outfeed_shape=f32[8]"}},
    // Over replicas, of which there is one: each part for itself.
    {"HloModule m, num_partitions=2\nsum {\n" SUM "}\nENTRY e {\n" HALVES
     " ROOT r = f32[8] all-reduce(p), replica_groups={}, to_apply=sum, sharding={devices=[2]<=[2]}\n}\n",
     {"f32[4]{0} all-reduce(%p)", NULL}},
    {ON(2, HALVES " ROOT r = f32[8] collective-permute(p), channel_id=1, source_target_pairs={{0,1},{1,0}}, "
                  "sharding={devices=[2]<=[2]}\n"),
     {"f32[4]{0} collective-permute(%p)", NULL}},
    // A message of one device to another is one of the whole program to itself.
    {ON(2, HALVES " t = token[] after-all()\n s = (f32[8], u32[], token[]) send(p, t), channel_id=1, "
                  "sharding={maximal device=1}\n d = token[] send-done(s), channel_id=1\n"
                  " r = (f32[8], u32[], token[]) recv(t), channel_id=1, sharding={maximal device=0}\n"
                  " e = (f32[8], token[]) recv-done(r), channel_id=1\n"
                  " ROOT n = f32[8] get-tuple-element(e), index=0\n"),
     {"send(%all-gather", "{{0,0},{1,1}}"}},
    // Every device brings the whole array.
    {"HloModule m, num_partitions=2\nsum {\n" SUM "}\nENTRY e {\n" HALVES
     " ROOT r = f32[8] all-reduce(p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, "
     "to_apply=sum\n}\n",
     {"f32[8]{0} all-reduce(%all-gather)", NULL}},
    {ON(2, HALVES " ROOT r = f32[16] all-gather(p), dimensions={0}, channel_id=1, replica_groups={{0,1}}, "
                  "use_global_device_ids=true, sharding={devices=[2]<=[2]}\n"),
     {"f32[16]{0} all-gather(%all-gather)", "dynamic-slice"}},
    {"HloModule m, num_partitions=2\nsum {\n" SUM "}\nENTRY e {\n" HALVES
     " ROOT r = f32[4] reduce-scatter(p), dimensions={0}, channel_id=1, replica_groups={{0,1}}, "
     "use_global_device_ids=true, to_apply=sum, sharding={replicated}\n}\n",
     {"f32[4]{0} reduce-scatter(%all-gather)", NULL}},
    {ON(2, HALVES " t = token[] after-all()\n s = (f32[8], u32[], token[]) send(p, t), channel_id=1\n"
                  " d = token[] send-done(s), channel_id=1\n ROOT n = f32[8] negate(p)\n"),
     {"send(%all-gather", "send-done"}},
    // Bug: the broadcast from the device that is fed had an attribute that it cannot have.
    {ON(2, HALVES " t = token[] after-all()\n i = (f32[8], token[]) infeed(t), sharding={{maximal device=1}, {maximal "
                  "device=1}}\n d = f32[8] get-tuple-element(i), index=0\n ROOT n = f32[8] add(d, p)\n"),
     {"collective-broadcast(", "infeed"}},
};

CaseList(accepted, programs) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, accepted, programs) {
    const Accepted *program = &programs[*number];
    HloModule *module = parse_text(program->text), *partitioned;
    HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect_null(hlo_verify(partitioned));
    HloText text = {0};
    cr_assert_null(hlo_print(partitioned, NULL, &text));
    for (size_t i = 0; i < HLO_COUNT_OF(program->words) && program->words[i]; i++)
        cr_expect(strstr(text.data, program->words[i]), "%s in\n%s", program->words[i], text.data);
    hlo_text_free(&text);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

// Bug: the rows that a ragged-all-to-all reads were sharded with those that it writes, and operands that become one
// another's results were sharded each in its own way.
static const char *const over_replicas[] = {
    ON(2,
       " p = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}\n q = f32[16,4] parameter(1)\n"
       " f = s32[1] constant({2})\n n = s32[1] constant({5})\n t = s32[1] constant({7})\n"
       " ROOT r = f32[16,4] ragged-all-to-all(p, q, f, n, t, n), replica_groups={{0}}, "
       "sharding={devices=[2,1]<=[2]}\n"),
    ON(2,
       " p = f32[8,4] parameter(0)\n q = f32[16,4] parameter(1), sharding={devices=[1,2]<=[2]}\n"
       " f = s32[1] constant({2})\n n = s32[1] constant({5})\n t = s32[1] constant({7})\n"
       " ROOT r = f32[16,4] ragged-all-to-all(p, q, f, n, t, n), replica_groups={{0}}\n"),
    ON(4,
       " p = f32[8,5] parameter(0), sharding={devices=[2,2]<=[4]}\n"
       " r = (f32[8,5]) all-to-all(p), replica_groups={{0}}\n"
       " ROOT e = f32[8,5] get-tuple-element(r), index=0\n"),
};

CaseList(accepted, collectives_over_replicas) {
    return cases_numbered(HLO_COUNT_OF(over_replicas));
}

CaseTest(const int *number, accepted, collectives_over_replicas) {
    check_partitioned(over_replicas[*number], NULL, 3);
}

// Two replicas exchange two operands, of which one is annotated.
Test(accepted, operands_that_become_one_anothers_results_are_sharded_alike) {
    HloModule *partitioned,
        *module = parse_text(
            "HloModule m, replica_count=2, num_partitions=4\nENTRY e {\n"
            " p = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}\n q = f32[8,4] parameter(1), "
            "sharding={replicated}\n"
            " x = (f32[8,4], f32[8,4]) all-to-all(p, q), replica_groups={{0,1}}\n"
            " y = f32[8,4] get-tuple-element(x), index=0\n z = f32[8,4] get-tuple-element(x), index=1\n"
            " ROOT s = f32[8,4] subtract(y, z)\n}\n");
    HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect_null(hlo_verify(partitioned));
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

// Bug: elements beyond the array were init values, which counted once more in each window that reaches so far.
#define PAIRS(Combiner, Size, Window)                                                                      \
    "HloModule m, num_partitions=4\npair {\n a = f32[] parameter(0)\n b = s32[] parameter(1)\n c = f32[] " \
    "parameter(2)\n d = s32[] parameter(3)\n" Combiner                                                     \
    " ROOT t = (f32[], s32[]) tuple(x, y)\n}\nENTRY e {\n"                                                 \
    " p = f32[" Size ",2] parameter(0), sharding={devices=[4,1]<=[4]}\n q = s32[" Size                     \
    ",2] parameter(1), sharding={devices=[4,1]<=[4]}\n u = f32[] constant(3)\n v = s32[] constant(5)\n"    \
    " ROOT r = (f32[" Size ",2], s32[" Size ",2]) reduce-window(p, q, u, v), window={" Window              \
    "}, to_apply=pair, sharding={{devices=[4,1]<=[4]}, {devices=[4,1]<=[4]}}\n}\n"
#define SUMS " x = f32[] add(a, c)\n y = s32[] multiply(d, b)\n"
#define SELECTS " g = pred[] compare(a, c), direction=GE\n x = f32[] select(g, a, c)\n y = s32[] select(g, b, d)\n"
#define MIXES " w = f32[] convert(b)\n z = f32[] add(a, c)\n x = f32[] subtract(z, w)\n y = s32[] subtract(b, d)\n"

static const char *const pairs[] = {
    PAIRS(SUMS, "8", "size=3x1 pad=1_1x0_0"),    PAIRS(SUMS, "7", "size=3x1 pad=1_1x0_0"),
    PAIRS(SUMS, "4", "size=2x1 pad=1_0x0_0"),    PAIRS(SELECTS, "8", "size=3x1 pad=1_1x0_0"),
    PAIRS(SELECTS, "7", "size=3x1 pad=2_0x0_0"), PAIRS(MIXES, "8", "size=3x1 pad=1_1x0_0"),
    PAIRS(MIXES, "7", "size=3x1 pad=0_2x0_0"),   PAIRS(SUMS, "9", "size=9x1 pad=8_0x0_0"),
};

CaseList(accepted, windows_of_pairs) {
    return cases_numbered(HLO_COUNT_OF(pairs));
}

CaseTest(const int *number, accepted, windows_of_pairs) {
    check_partitioned(pairs[*number], NULL, 3);
}
