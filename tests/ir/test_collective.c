// SPDX-License-Identifier: Apache-2.0
// What the numbers in the groups of collectives count.
#include <criterion/criterion.h>
#include <criterion/theories.h>

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
