// SPDX-License-Identifier: Apache-2.0
// Machines from environment variables: the part of a slice, and the hosts that its processes are.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/topology.h"
#include "targets/join.h"
#include "tests/support/cases.h"

// `processes` and `chips`: bounds, zeros where they are not given.
typedef struct Case {
    char spec[32];
    int64_t processes[3], chips[3];
    int64_t count;     // of the environment's processes
    int64_t slices;    // of MEGASCALE_NUM_SLICES, 0 if it is not set
    char machine[48];  // or a part of the error's message
    int64_t hosts;     // 0: an error
} Case;

static HloStatus machine_of(const Case *param, HloArena *arena, const char **machine, int64_t *hosts) {
    TransportEnvironment environment = {.process_count = param->count, .source = "TPU_PROCESS_ADDRESSES"};
    memcpy(environment.process_bounds, param->processes, sizeof(param->chips));
    memcpy(environment.chip_bounds, param->chips, sizeof(param->chips));
    if (param->processes[0]) environment.process_bounds_source = "TPU_PROCESS_BOUNDS";
    if (param->chips[0]) environment.chip_bounds_source = "TPU_CHIPS_PER_PROCESS_BOUNDS";
    if (param->slices) environment.slice_source = "MEGASCALE_NUM_SLICES";
    environment.slice_count = param->slices ? param->slices : 1;
    return target_join_machine(param->spec, &environment, arena, machine, hosts);
}

CaseList(transport_machine, division) {
    static Case cases[] = {
        {"v5e-16", {0}, {0}, 1, 0, "v5e-16", 4},
        {"v5e-16", {0}, {0}, 4, 0, "v5e-16", 4},
        {"v5e-16", {2, 2, 1}, {2, 2, 1}, 4, 0, "v5e-16", 4},
        // JAX's harness
        {"v5e:2x2", {2, 2, 1}, {1, 1, 1}, 4, 0, "v5e:2x2,hosts=1x1x1,wrap=none", 4},
        {"v5e:2x2", {2, 1, 1}, {1, 2, 1}, 2, 0, "v5e:2x2,hosts=1x2x1,wrap=none", 2},
        {"v5e:4x2", {4, 2, 1}, {1, 1, 1}, 8, 0, "v5e:4x2,hosts=1x1x1,wrap=none", 8},
        {"v5e:2x4", {1, 2, 1}, {2, 2, 1}, 2, 0, "v5e:2x4", 2},
        {"v5e-8", {1, 2, 1}, {2, 2, 1}, 2, 0, "v5e:2x4,hosts=2x2x1,wrap=none", 2},
        {"v5e-8", {0}, {2, 2, 1}, 2, 0, "v5e:2x4,hosts=2x2x1,wrap=none", 2},
        // parts of a slice
        {"v5e-4", {1, 1, 1}, {1, 1, 1}, 1, 0, "v5e:1x1,hosts=1x1x1", 1},
        {"v5e-8", {0}, {1, 2, 1}, 1, 0, "v5e:1x2,hosts=1x2x1", 1},
        {"v5e-16", {1, 1, 1}, {0}, 1, 0, "v5e:2x2,hosts=2x2x1", 1},
        {"v4:2x2x4", {1, 1, 2}, {2, 2, 1}, 2, 0, "v4:2x2x2,hosts=2x2x1", 2},
        // the other parts of the name stay
        {"v4:4x4x4", {2, 4, 4}, {2, 1, 1}, 32, 0, "v4:4x4x4,hosts=2x1x1,wrap=xyz", 32},
        {"v4:2x2x2,megacore=no", {2, 2, 2}, {1, 1, 1}, 8, 0, "v4:2x2x2,hosts=1x1x1,wrap=none,megacore=no", 8},
        {"v4:4x4x8_twisted", {4, 2, 8}, {1, 2, 1}, 64, 0, "v4:4x4x8_twisted,hosts=1x2x1,wrap=xyz", 64},
        // several slices
        {"v5e-16", {0}, {0}, 8, 2, "2xv5e:4x4,hosts=2x2x1,wrap=none", 8},
        {"2xv5e-16", {0}, {0}, 8, 2, "2xv5e-16", 8},
        {"2xv5e-16", {0}, {0}, 8, 0, "2xv5e-16", 8},
        {"v5e-4", {2, 2, 1}, {1, 1, 1}, 8, 2, "2xv5e:2x2,hosts=1x1x1,wrap=none", 8},
        {"cpu:8", {0}, {0}, 1, 0, "cpu:8", 1},
        // values that do not fit
        {"v5e-4", {4, 2, 1}, {1, 1, 1}, 8, 0, "make a slice of 4x2x1 chips, but v5e-4 has 2x2x1", 0},
        {"v5e-16", {0}, {3, 1, 1}, 4, 0, "PROCESS_BOUNDS of 3x1x1 does not divide v5e-16", 0},
        {"v5e-16", {0}, {0}, 3, 0, "has 3 processes, but v5e-16 has 4 hosts", 0},
        {"v2-8", {0}, {0}, 2, 0, "has 2 processes, but v2-8 has 1 host; name", 0},
        {"cpu:8", {0}, {0}, 2, 0, "has 2 processes, but cpu:8 has 1 host", 0},
        {"2xv5e-16", {0}, {0}, 12, 3, "NUM_SLICES is 3, but 2xv5e-16 has 2 slices", 0},
        {"v5e-17", {0}, {0}, 1, 0, "v5e-17", 0},
    };
    return cr_make_param_array(Case, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(Case *param, transport_machine, division) {
    HloArena *arena = hlo_arena_new();
    const char *machine = NULL;
    int64_t hosts = 0;
    HloStatus status = machine_of(param, arena, &machine, &hosts);
    if (!param->hosts) {
        cr_assert(status, "%s: accepted as %s", param->spec, machine);
        cr_expect(strstr(hlo_status_message(status), param->machine), "%s", hlo_status_message(status));
    } else {
        cr_assert(!status, "%s: %s", param->spec, hlo_status_message(status));
        cr_expect_str_eq(machine, param->machine);
        cr_expect_eq(hosts, param->hosts);
        // The name means what the environment says: hosts, and the links of the slice where its shape is the same.
        EmuTopology *before, *after;
        cr_assert(!emu_topology_parse(param->spec, &before) && !emu_topology_parse(machine, &after));
        cr_expect_eq(after->host_count, hosts);
        cr_expect_eq(after->devices_per_chip, before->devices_per_chip);
        const bool same = memcmp(before->shape, after->shape, sizeof(before->shape)) == 0;
        for (int axis = 0; axis < 3; axis++) {
            if (param->processes[axis] && param->chips[axis])
                cr_expect_eq(after->shape[axis], param->processes[axis] * param->chips[axis]);
            if (param->chips[axis]) cr_expect_eq(after->host_bounds[axis], param->chips[axis]);
            if (same) cr_expect_eq(after->wrap[axis], before->wrap[axis]);
        }
        emu_topology_free(before);
        emu_topology_free(after);
    }
    hlo_status_free(status);
    hlo_arena_free(arena);
}

// Ids and coordinates are the slice's, however its chips are divided; local numbers and hosts are the processes'.
Test(transport_machine, devices) {
    TargetClient *whole, *divided;
    cr_assert(!target_client_new("v5e:2x2", &whole) && !target_client_new("v5e:2x2,hosts=1x1x1,wrap=none", &divided));
    for (int64_t i = 0; i < 4; i++) {
        const TargetDevice *a = target_client_device(whole, i), *b = target_client_find_device(divided, a->id);
        cr_assert(b);
        cr_expect(memcmp(a->coords, b->coords, sizeof(a->coords)) == 0);
        cr_expect_eq(b->process_index, a->coords[0] + 2 * a->coords[1]);
        cr_expect_eq(b->local_hardware_id, 0);
    }
    target_client_release(whole);
    target_client_release(divided);
}

// Several processes without a way to each other are refused, never played as slices of their own.
Test(transport_machine, no_way_to_the_others) {
    TransportEnvironment environment = {
        .process_count = 4, .process_index = 1, .slice_count = 1, .source = "OMPI_COMM_WORLD_SIZE"};
    const TargetJoinOptions options = {.environment = &environment};
    TargetClient *client;
    HloStatus status = target_client_join("v5e-16", &options, &client);
    cr_assert_eq(hlo_status_code(status), HLO_FAILED_PRECONDITION);
    cr_expect(strstr(hlo_status_message(status), "OMPI_COMM_WORLD_SIZE has 4 processes, but nothing says"), "%s",
              hlo_status_message(status));
    cr_expect_null(client);
    hlo_status_free(status);
}

Test(transport_machine, one_process_has_all) {
    TransportEnvironment environment = {.process_count = 1, .slice_count = 1};
    const TargetJoinOptions options = {.environment = &environment};
    TargetClient *client;
    cr_assert(!target_client_join("v5e-16", &options, &client));
    cr_expect_eq(target_client_device_count(client), 16);
    target_client_release(client);
}
