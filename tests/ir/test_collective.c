// SPDX-License-Identifier: Apache-2.0
// The units of the numbers in the groups of collectives.
#include <criterion/criterion.h>
#include <criterion/theories.h>

#include "hlo/analysis/mesh_axes.h"
#include "hlo/hlo.h"
#include "hlo/ir/collective.h"
#include "tests/support/cases.h"

// The modes as XLA's documentation of collective operations has them: a channel is for partitions, and the flag for
// global ids is looked at only with a channel.
typedef struct ModeCase {
    HloOpcode opcode;
    int64_t channel;
    bool global;
    HloGroupMode mode;
} ModeCase;

CaseList(collective, modes) {
    static ModeCase cases[] = {
        {HLO_OP_ALL_REDUCE, 0, false, HLO_GROUPS_OF_REPLICAS},
        {HLO_OP_ALL_REDUCE, 1, false, HLO_GROUPS_OF_REPLICAS_PARTITIONS},
        {HLO_OP_ALL_REDUCE, 1, true, HLO_GROUPS_OF_DEVICES},
        {HLO_OP_ALL_REDUCE, 0, true, HLO_GROUPS_OF_REPLICAS},
        {HLO_OP_ALL_REDUCE_START, 3, false, HLO_GROUPS_OF_REPLICAS_PARTITIONS},
        {HLO_OP_ALL_GATHER, 1, false, HLO_GROUPS_OF_REPLICAS_PARTITIONS},
        {HLO_OP_ALL_GATHER_START, 1, true, HLO_GROUPS_OF_DEVICES},
        {HLO_OP_REDUCE_SCATTER, 1, false, HLO_GROUPS_OF_REPLICAS_PARTITIONS},
        {HLO_OP_ALL_TO_ALL, 0, false, HLO_GROUPS_OF_REPLICAS},
        {HLO_OP_ALL_TO_ALL, 1, false, HLO_GROUPS_OF_PARTITIONS},
        {HLO_OP_RAGGED_ALL_TO_ALL, 1, false, HLO_GROUPS_OF_PARTITIONS},
        {HLO_OP_COLLECTIVE_BROADCAST, 1, false, HLO_GROUPS_OF_PARTITIONS},
        {HLO_OP_COLLECTIVE_BROADCAST, 1, true, HLO_GROUPS_OF_DEVICES},
    };
    return cr_make_param_array(ModeCase, cases, sizeof(cases) / sizeof(cases[0]));
}
CaseTest(ModeCase *one, collective, modes) {
    const HloCollectiveAttributes attributes = {.channel_id = one->channel, .use_global_device_ids = one->global};
    cr_expect_eq(hlo_group_mode(one->opcode, &attributes), one->mode);
}

// Groups that name every number once have every device once, whatever the numbers count.
TheoryDataPoints(collective, every_device_is_in_one_group) = {
    DataPoints(int, HLO_GROUPS_OF_REPLICAS, HLO_GROUPS_OF_PARTITIONS, HLO_GROUPS_OF_REPLICAS_PARTITIONS,
               HLO_GROUPS_OF_DEVICES),
    DataPoints(int, 1, 2, 3, 5),
    DataPoints(int, 1, 2, 4, 7),
};
Theory((int mode, int replicas, int partitions), collective, every_device_is_in_one_group) {
    const HloGroupMode kind = (HloGroupMode)mode;
    HloArena *arena = hlo_arena_new();
    bool seen[64] = {false};
    int64_t found = 0;
    const int64_t numbers = hlo_group_mode_numbers(kind, replicas, partitions);
    for (int64_t copy = 0; copy < hlo_group_mode_copies(kind, replicas, partitions); copy++) {
        for (int64_t number = 0; number < numbers; number++) {
            const HloInts devices = hlo_group_mode_devices(kind, (HloInts){&number, 1}, copy, partitions, arena);
            for (int64_t k = 0; k < devices.count; k++, found++) {
                const int64_t device = devices.items[k];
                cr_assert(device >= 0 && device < replicas * partitions);
                cr_expect_not(seen[device], "device %d twice", (int)device);
                seen[device] = true;
            }
        }
    }
    hlo_arena_free(arena);
    cr_expect_eq(found, replicas * partitions);
}

Test(collective, counts_of_a_header_may_say_anything) {
    cr_expect_eq(hlo_group_mode_numbers(HLO_GROUPS_OF_DEVICES, INT64_C(1) << 40, INT64_C(1) << 40), INT64_MAX);
}

// 5 and 0 are linked through 3; 1 and a number that does not exist are not.
Test(collective, pairs_link_numbers_to_groups) {
    static const HloPair items[] = {{5, 3}, {3, 0}, {1, 7}, {-1, 2}, {4, 4}};
    static const int64_t expected[][4] = {{3, 0, 3, 5}, {1, 1}, {1, 2}, {1, 4}};
    HloArena *arena = hlo_arena_new();
    const HloInts *groups;
    int64_t count;
    hlo_permute_groups(&(HloPairs){items, HLO_COUNT_OF(items)}, 6, arena, &groups, &count);
    cr_assert_eq(count, (int64_t)HLO_COUNT_OF(expected));
    for (int64_t g = 0; g < count; g++)
        cr_expect(hlo_ints_equal(groups[g], (HloInts){&expected[g][1], expected[g][0]}), "group %d", (int)g);
    hlo_permute_groups(&(HloPairs){items, HLO_COUNT_OF(items)}, 0, arena, &groups, &count);
    cr_expect_eq(count, 0);
    hlo_arena_free(arena);
}

// The axes of a mesh of 2 x 3 x 4 that the collective at the root of a program for 24 devices is along, as bits.
static uint64_t axes_of(const char *collective) {
    static const int64_t sizes[] = {2, 3, 4};
    HloText text = {0};
    HloModule *module = NULL;
    hlo_text_format(&text,
                    "HloModule m, num_partitions=24\ns {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                    " ROOT c = f32[] add(a, b)\n}\nENTRY e {\n p = f32[24] parameter(0)\n ROOT r = f32[24] %s\n}\n",
                    collective);
    HloStatus status = hlo_parse(text.data, (int64_t)text.length, NULL, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloArena *arena = hlo_arena_new();
    const uint64_t axes = hlo_collective_axes(arena, module, module->entry->root, sizes, 3);
    cr_expect_eq(hlo_collective_axes(arena, module, module->entry->root, sizes, 2), 0, "6 of 24 devices");
    const int64_t huge[] = {INT64_C(1) << 62, 4, 24}, none[] = {24, 0};
    cr_expect_eq(hlo_collective_axes(arena, module, module->entry->root, huge, 3), 0, "more than 2^63 devices");
    cr_expect_eq(hlo_collective_axes(arena, module, module->entry->root, none, 2), 0, "no device");
    cr_expect_eq(hlo_arena_bytes(arena), 0, "the lists of the groups are kept");
    hlo_arena_free(arena);
    hlo_module_free(module);
    hlo_text_free(&text);
    return axes;
}

Test(collective, axes_of_a_mesh) {
#define ALONG "all-reduce(p), channel_id=1, use_global_device_ids=true, to_apply=s, replica_groups="
    cr_expect_eq(axes_of(ALONG "[6,4]<=[24]"), 4);
    cr_expect_eq(axes_of(ALONG "[8,3]<=[2,3,4]T(0,2,1)"), 2);
    cr_expect_eq(axes_of(ALONG "[12,2]<=[2,12]T(1,0)"), 1);
    cr_expect_eq(axes_of(ALONG "[2,12]<=[24]"), 6);
    cr_expect_eq(axes_of(ALONG "[1,24]<=[24]"), 7);
    cr_expect_eq(axes_of("all-reduce(p), to_apply=s, replica_groups={{0}}"), 0, "of replicas");
    cr_expect_eq(axes_of("collective-permute(p), channel_id=1, source_target_pairs={{0,1},{1,2}}"), 4);
    cr_expect_eq(axes_of("collective-permute(p), channel_id=1, source_target_pairs={{0,1},{4,20}}"), 7);
    cr_expect_eq(axes_of("collective-permute(p), source_target_pairs={{0,0}}"), 0, "of replicas");
    cr_expect_eq(axes_of("add(p, p)"), 0);
}
