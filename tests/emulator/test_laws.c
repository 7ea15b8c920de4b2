// SPDX-License-Identifier: Apache-2.0
// Laws of the machine model that no single number shows: more bytes never take less time, better links never more, the
// step is the sum of its parts, and names of axes have no effect.
#include <criterion/criterion.h>
#include <criterion/theories.h>
#include <stdio.h>
#include <string.h>

#include "emulator/collective.h"
#include "emulator/emulator.h"
#include "hlo/text/text.h"
#include "spmd_partitioner/spmd.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#define ADD "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x,y) }\n"

static HloModule *parse(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), &(HloParseOptions){.file = "test"}, &module);
    cr_assert_null(status, "%s\n%s", hlo_status_message(status), text);
    return module;
}

static EmuReport *simulate_with(const char *text, const char *spec, const EmuOptions *options) {
    HloModule *module = parse(text);
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    HloStatus status = emu_topology_parse(spec, &topology);
    cr_assert_null(status, "%s", hlo_status_message(status));
    status = emu_simulate(module, topology, options, &report);
    cr_assert_null(status, "%s on %s\n%s", hlo_status_message(status), spec, text);
    emu_topology_free(topology);
    hlo_module_free(module);
    return report;
}

static int64_t step_of(const char *text, const char *spec, const EmuOptions *options) {
    EmuReport *report = simulate_with(text, spec, options);
    const int64_t step = report->step_picoseconds;
    emu_report_free(report);
    return step;
}

// ---------------------------------------------------------------------------------------------------------------------
// Collectives

// A collective of `count` floats a device over groups, of all `devices` devices of a slice.
static void collective_program(HloText *text, const char *opcode, int64_t devices, int64_t group, const char *groups,
                               int64_t count) {
    const int64_t result = !strcmp(opcode, "all-gather")       ? count * group
                           : !strcmp(opcode, "reduce-scatter") ? count / group
                                                               : count;
    const bool reduces = !strcmp(opcode, "all-reduce") || !strcmp(opcode, "reduce-scatter");
    const bool along = strcmp(opcode, "all-reduce") != 0, exchanges = !strcmp(opcode, "all-to-all");
    hlo_text_format(text,
                    "HloModule m, num_partitions=%lld, is_scheduled=true\n" ADD
                    "ENTRY e {\n p = f32[%lld] parameter(0)\n ROOT r = f32[%lld] %s(p), channel_id=1, "
                    "replica_groups=%s%s%s%s\n}\n",
                    (long long)devices, (long long)count, (long long)result, opcode, groups,
                    exchanges ? "" : ", use_global_device_ids=true", along ? ", dimensions={0}" : "",
                    reduces ? ", to_apply=add" : "");
}

static const char *const opcodes[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all"};

typedef struct SliceCase {
    char spec[24];
    int64_t devices;
    char groups[40];
    int64_t group;
} SliceCase;

static SliceCase slices[] = {
    {"v2-8", 8, "[1,8]<=[8]", 8},
    {"v2-8", 8, "[4,2]<=[8]", 2},
    {"v5e-16", 16, "[1,16]<=[16]", 16},
    {"v5e-16", 16, "[4,4]<=[4,4]T(1,0)", 4},
    {"v5e-256", 256, "[16,16]<=[256]", 16},
    {"v4-128", 64, "[1,64]<=[64]", 64},
    {"v4:4x4x8_twisted", 128, "[1,128]<=[128]", 128},
    {"tpu7x-16", 16, "[2,8]<=[16]", 8},
    {"2xv5e-16", 32, "[1,32]<=[32]", 32},
    {"2xv5e-16", 32, "[16,2]<=[2,16]T(1,0)", 2},
    {"v5e-8", 8, "[2,4]<=[2,2,2]T(1,0,2)", 4},
};

// Collectives that differ in one respect each: opcode, bytes, groups, order within a group, channel.
static const char many_collectives[] =
    "HloModule m, num_partitions=16, is_scheduled=true\n" ADD
    "ENTRY e {\n p = f32[64] parameter(0)\n q = f32[128] parameter(1)\n"
    " a = f32[64] all-reduce(p), channel_id=1, replica_groups=[1,16]<=[16], use_global_device_ids=true, to_apply=add\n"
    " b = f32[64] all-reduce(p), channel_id=2, replica_groups=[1,16]<=[16], use_global_device_ids=true, to_apply=add\n"
    " c = f32[128] all-reduce(q), channel_id=3, replica_groups=[1,16]<=[16], use_global_device_ids=true, to_apply=add\n"
    " d = f32[64] all-reduce(p), channel_id=4, replica_groups=[4,4]<=[16], use_global_device_ids=true, to_apply=add\n"
    " f = f32[64] all-reduce(p), channel_id=5, replica_groups=[4,4]<=[4,4]T(1,0), use_global_device_ids=true, "
    "to_apply=add\n"
    " g = f32[256] all-gather(p), channel_id=6, replica_groups=[4,4]<=[16], use_global_device_ids=true, "
    "dimensions={0}\n"
    " h = f32[64] all-to-all(p), channel_id=7, replica_groups=[4,4]<=[16], dimensions={0}\n"
    " i = f32[64] all-to-all(p), channel_id=8, replica_groups=[4,4]<=[16], dimensions={0}\n"
    " j = f32[64] collective-permute(p), channel_id=9, source_target_pairs={{0,1}}\n"
    " k = f32[64] collective-permute(p), channel_id=10, source_target_pairs={{0,15}}\n"
    " l = f32[64] all-reduce(p), replica_groups={{0}}, to_apply=add\n"
    " m = f32[512] all-gather(q), channel_id=11, replica_groups=[4,4]<=[16], use_global_device_ids=true, "
    "dimensions={0}\n"
    " n = f32[128] all-to-all(q), channel_id=12, replica_groups=[4,4]<=[16], dimensions={0}\n"
    " o = f32[16] reduce-scatter(p), channel_id=13, replica_groups=[4,4]<=[16], use_global_device_ids=true, "
    "dimensions={0}, to_apply=add\n"
    " s = f32[32] reduce-scatter(q), channel_id=14, replica_groups=[4,4]<=[16], use_global_device_ids=true, "
    "dimensions={0}, to_apply=add\n"
    " t = f32[128] collective-permute(q), channel_id=15, source_target_pairs={{0,15}}\n"
    " u = f32[64] collective-permute(p), channel_id=16, source_target_pairs={{0,1},{5,9}}\n"
    " v = f32[64] collective-permute(p), source_target_pairs={{0,0}}\n"
    " ROOT r = (f32[64]) tuple(a)\n}\n";

static void expect_equal_transfers(const EmuTransfer *a, const EmuTransfer *b, const char *name) {
    cr_expect_eq(a->group_size, b->group_size, "%s", name);
    cr_expect_eq(a->group_count, b->group_count, "%s", name);
    cr_expect_eq(a->bytes_per_device, b->bytes_per_device, "%s", name);
    cr_expect_eq(a->picoseconds, b->picoseconds, "%s", name);
    cr_assert_eq(a->link_count, b->link_count, "%s", name);
    for (int64_t i = 0; i < a->link_count; i++) {
        cr_expect_eq(a->links[i].link, b->links[i].link, "%s", name);
        cr_expect_eq(emu_transfer_link_bytes(a, i), emu_transfer_link_bytes(b, i), "%s", name);
    }
}

// A network that remembers transfers gives the same times as a new one, also after a reset of its arena.
Test(emulator_laws, remembered_transfers_are_those_of_a_new_network) {
    HloModule *module = parse(many_collectives);
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse("v5e-16", &topology));
    HloArena *arena = hlo_arena_new(), *kept = hlo_arena_new();
    int64_t places[16], compared = 0;
    for (int64_t i = 0; i < 16; i++) places[i] = i;
    const EmuFaults faults = {0};
    EmuNetwork *remembers = emu_network_new(kept, topology, places, 1, 16, &faults);
    remembers->arena = arena;
    emu_network_remember(remembers, kept);
    for (int turn = 0; turn < 2; turn++)
        for (const HloInstruction *at = module->entry->first; at; at = at->next) {
            if (!hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE)) continue;
            const HloArenaMark mark = hlo_arena_mark(arena);
            EmuTransfer once, again;
            EmuNetwork *fresh = emu_network_new(arena, topology, places, 1, 16, &faults);
            cr_assert_null(emu_transfer(fresh, at, &once));
            cr_assert_null(emu_transfer(remembers, at, &again));
            expect_equal_transfers(&once, &again, at->name);
            hlo_arena_reset(arena, mark);
            compared++;
        }
    cr_expect_eq(compared, 36);
    hlo_arena_free(arena);
    hlo_arena_free(kept);
    emu_topology_free(topology);
    hlo_module_free(module);
}

// Simulations that share what a network remembers are those that time everything themselves: the first one, which adds
// to it, and later ones. Where it is another network, or there are faults, it is not used.
Test(emulator_laws, simulations_that_share_a_network_are_those_of_their_own) {
    HloModule *module = parse(many_collectives);
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse("v5e-16", &topology));
    HloArena *arena = hlo_arena_new(), *kept = hlo_arena_new();
    int64_t places[2][16], ids[16];
    for (int64_t i = 0; i < 16; i++) {
        places[0][i] = i;
        places[1][i] = (i * 7 + 3) % 16;
        ids[i] = topology->devices[places[1][i]].id;
    }
    const EmuFaults none = {0};
    EmuNetwork *network = emu_network_new(arena, topology, places[1], 1, 16, &none);
    emu_network_remember(network, kept);
    const EmuOptions cases[] = {{.device_assignment = ids, .device_assignment_count = 16},
                                {.device_assignment = ids, .device_assignment_count = 16},
                                {.faults = NULL},
                                {.device_assignment = ids, .device_assignment_count = 16, .faults = "link:0-1:0.25"}};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        EmuOptions options = cases[i];
        EmuReport *alone = NULL, *shared = NULL;
        cr_assert_null(emu_simulate(module, topology, &options, &alone));
        options.known = network;
        cr_assert_null(emu_simulate(module, topology, &options, &shared));
        cr_expect_eq(alone->step_picoseconds, shared->step_picoseconds, "case %zu", i);
        cr_expect_eq(alone->healthy_step_picoseconds, shared->healthy_step_picoseconds, "case %zu", i);
        cr_assert_eq(alone->link_count, shared->link_count, "case %zu", i);
        for (int64_t k = 0; k < alone->link_count; k++)
            cr_expect_eq(alone->links[k].bytes, shared->links[k].bytes, "case %zu, link %lld", i, (long long)k);
        emu_report_free(alone);
        emu_report_free(shared);
    }
    hlo_arena_free(arena);
    hlo_arena_free(kept);
    emu_topology_free(topology);
    hlo_module_free(module);
}

// What an all-to-all over groups of any devices puts on links is what the routes of all pairs put there.
typedef struct ExchangeCase {
    char spec[24];
    int64_t group;  // members; devices are dealt out at random
} ExchangeCase;

CaseList(emulator_laws, exchanges_load_links_as_their_pairs_do) {
    static ExchangeCase cases[] = {{"v5e-16", 4},           {"v5e-64", 16},  {"v5e-256", 8}, {"v4-128", 8},
                                   {"v4-128", 32},          {"v5p-512", 16}, {"v7x-64", 4},  {"v7x-64", 16},
                                   {"v7x-128", 128},        {"2xv5e-16", 8}, {"v4-16", 2},   {"tpu7x:2x4x4", 8},
                                   {"v4:4x4x8_twisted", 16}};
    return cr_make_param_array(ExchangeCase, cases, HLO_COUNT_OF(cases));
}
CaseTest(ExchangeCase *one, emulator_laws, exchanges_load_links_as_their_pairs_do) {
    EmuTopology *topology = NULL;
    HloStatus status = emu_topology_parse(one->spec, &topology);
    cr_assert_null(status, "%s", hlo_status_message(status));
    const int64_t devices = topology->device_count, limit = emu_link_limit(topology);
    HloArena *arena = hlo_arena_new();
    int64_t *dealt = HLO_ARENA_NEW(arena, int64_t, devices), links[EMU_MAX_ROUTE];
    double *wanted = HLO_ARENA_NEW(arena, double, limit);
    Random random = {7};
    for (int64_t i = 0; i < devices; i++) {
        const int64_t at = (int64_t)random_under(&random, (uint64_t)i + 1);
        dealt[i] = dealt[at];
        dealt[at] = i;
    }
    HloText groups = {0}, text = {0};
    for (int64_t i = 0; i < devices; i++)
        hlo_text_format(&groups, "%s%lld", i % one->group ? "," : i ? "},{" : "{{", (long long)dealt[i]);
    hlo_text_format(&groups, "}}");
    collective_program(&text, "all-to-all", devices, one->group, groups.data, one->group);
    HloModule *module = parse(text.data);
    int64_t *places = HLO_ARENA_NEW(arena, int64_t, devices);
    for (int64_t i = 0; i < devices; i++) places[i] = i;
    for (int64_t i = 0; i < devices; i++)
        for (int64_t j = 0; j < one->group; j++) {
            const int64_t count = emu_route(topology, dealt[i], dealt[i / one->group * one->group + j], links);
            for (int64_t k = 0; k < count; k++) wanted[links[k]] += 4;
        }
    const EmuFaults faults = {0};
    EmuTransfer transfer;
    EmuNetwork *network = emu_network_new(arena, topology, places, 1, devices, &faults);
    cr_assert_null(emu_transfer(network, module->entry->root, &transfer));
    for (int64_t i = 0; i < transfer.link_count; i++)
        wanted[transfer.links[i].link] -= emu_transfer_link_bytes(&transfer, i);
    for (int64_t link = 0; link < limit; link++)
        cr_expect_eq(wanted[link], 0, "%s: link %lld", one->spec, (long long)link);
    hlo_text_free(&groups);
    hlo_text_free(&text);
    hlo_module_free(module);
    hlo_arena_free(arena);
    emu_topology_free(topology);
}

// More bytes never take less time, nor do they put fewer bytes on any link; empty arrays send nothing.
CaseList(emulator_laws, more_bytes_take_no_less_time) {
    return cr_make_param_array(SliceCase, slices, sizeof(slices) / sizeof(slices[0]));
}
CaseTest(SliceCase *one, emulator_laws, more_bytes_take_no_less_time) {
    for (size_t o = 0; o < HLO_COUNT_OF(opcodes); o++) {
        int64_t before = 0, sent_before = 0;
        double carried_before = 0;
        for (int64_t count = 0; count <= INT64_C(1) << 24; count = count ? count * 8 : one->group) {
            HloText text = {0};
            collective_program(&text, opcodes[o], one->devices, one->group, one->groups, count);
            EmuReport *report = simulate_with(text.data, one->spec, NULL);
            double carried = 0;
            for (int64_t i = 0; i < report->link_count; i++) carried += report->links[i].bytes;
            cr_expect_geq(report->step_picoseconds, before, "%s of %lld", opcodes[o], (long long)count);
            cr_expect_geq(report->collective_bytes_per_device, sent_before);
            cr_expect_geq(carried, carried_before);
            if (count == 0) cr_expect_eq(carried, 0);
            if (count > 0) cr_expect_gt(carried, 0, "%s of %lld", opcodes[o], (long long)count);
            before = report->step_picoseconds;
            sent_before = report->collective_bytes_per_device;
            carried_before = carried;
            emu_report_free(report);
            hlo_text_free(&text);
        }
    }
}

// Halving the rate of any single link never makes a collective faster, doubling it never slower; a chip's rate of 1 is
// no fault at all.
CaseList(emulator_laws, slower_links_take_no_less_time) {
    return cr_make_param_array(SliceCase, slices, sizeof(slices) / sizeof(slices[0]));
}
CaseTest(SliceCase *one, emulator_laws, slower_links_take_no_less_time) {
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse(one->spec, &topology));
    for (size_t o = 0; o < HLO_COUNT_OF(opcodes); o++) {
        HloText text = {0};
        collective_program(&text, opcodes[o], one->devices, one->group, one->groups, 1 << 18);
        const int64_t healthy = step_of(text.data, one->spec, NULL);
        int checked = 0;
        for (int64_t link = 0; link < emu_link_limit(topology) && checked < 12; link += 5) {
            const EmuLink described = emu_link_describe(topology, link);
            if (!described.exists || described.from < 0 || described.to < 0) continue;
            int64_t steps[3];
            static const char *const rates[] = {"0.5", "1", "2"};
            for (int i = 0; i < 3; i++) {
                char fault[96];
                snprintf(fault, sizeof(fault), "link:%lld-%lld:%s", (long long)topology->devices[described.from].id,
                         (long long)topology->devices[described.to].id, rates[i]);
                steps[i] = step_of(text.data, one->spec, &(EmuOptions){.faults = fault});
            }
            cr_expect_geq(steps[0], healthy);
            cr_expect_eq(steps[1], healthy);
            cr_expect_leq(steps[2], healthy);
            checked++;
        }
        cr_expect_gt(checked, 0);
        hlo_text_free(&text);
    }
    emu_topology_free(topology);
}

// Links that close rings are of use or not; their absence is never faster.
TheoryDataPoints(emulator_laws, open_rings_are_no_faster) = {
    DataPoints(int, 0, 1, 2, 3),
    DataPoints(int, 0, 1, 2, 3),
    DataPoints(int, 12, 16, 20),
};
Theory((int opcode, int shape, int power), emulator_laws, open_rings_are_no_faster) {
    static const struct {
        const char *closed, *open, *groups;
        int64_t devices, group;
    } shapes[] = {
        {"v5e-256", "v5e-256,wrap=none", "[16,16]<=[256]", 256, 16},
        {"v5e-256", "v5e-256,wrap=x", "[1,256]<=[256]", 256, 256},
        {"v4:4x4x4", "v4:4x4x4,wrap=none", "[1,64]<=[64]", 64, 64},
        {"v5p:4x4x8", "v5p:4x4x8,wrap=xy", "[16,8]<=[8,16]T(1,0)", 128, 8},
    };
    HloText text = {0};
    collective_program(&text, opcodes[opcode], shapes[shape].devices, shapes[shape].group, shapes[shape].groups,
                       INT64_C(1) << power);
    cr_expect_leq(step_of(text.data, shapes[shape].closed, NULL), step_of(text.data, shapes[shape].open, NULL), "%s",
                  text.data);
    hlo_text_free(&text);
}

// Participant i on the device whose coordinates, read in another order of axes, are the digits of i. The slice with its
// axes renamed in the same way must take the same time, and carry the same bytes.
static void assign(const EmuTopology *topology, const int order[3], int64_t *ids) {
    const int64_t *shape = topology->shape;
    for (int64_t i = 0; i < topology->device_count; i++) {
        int64_t coords[3], rest = i;
        for (int k = 2; k >= 0; k--) {
            coords[order[k]] = rest % shape[order[k]];
            rest /= shape[order[k]];
        }
        ids[i] = coords[0] + shape[0] * (coords[1] + shape[1] * coords[2]);
    }
}

typedef struct RenamedCase {
    char first[24], second[24];
    int order[3];  // axis of the second that is axis k of the first
    char groups[48];
    int64_t group;
} RenamedCase;

CaseList(emulator_laws, names_of_axes_mean_nothing) {
    static RenamedCase cases[] = {
        {"v5e:4x8", "v5e:8x4", {1, 0, 2}, "[1,32]<=[32]", 32},
        {"v5e:4x8", "v5e:8x4", {1, 0, 2}, "[4,8]<=[32]", 8},
        {"v5e:4x8", "v5e:8x4", {1, 0, 2}, "[8,4]<=[4,8]T(1,0)", 4},
        {"v5e:4x16", "v5e:16x4", {1, 0, 2}, "[16,4]<=[4,16]T(1,0)", 4},
        {"v5e:4x16", "v5e:16x4", {1, 0, 2}, "[8,8]<=[2,2,16]T(0,2,1)", 8},
        {"v4:4x4x8", "v4:8x4x4", {2, 1, 0}, "[1,128]<=[128]", 128},
        {"v4:4x4x8", "v4:4x8x4", {0, 2, 1}, "[16,8]<=[128]", 8},
        {"v4:4x4x8", "v4:8x4x4", {1, 2, 0}, "[8,16]<=[8,16]T(1,0)", 16},
        {"v5p:2x2x4", "v5p:2x4x2", {0, 2, 1}, "[4,4]<=[2,2,4]T(2,0,1)", 4},
    };
    return cr_make_param_array(RenamedCase, cases, sizeof(cases) / sizeof(cases[0]));
}
CaseTest(RenamedCase *one, emulator_laws, names_of_axes_mean_nothing) {
    EmuTopology *topologies[2];
    int64_t ids[2][128];
    static const int straight[3] = {0, 1, 2};
    for (int i = 0; i < 2; i++) {
        cr_assert_null(emu_topology_parse(i ? one->second : one->first, &topologies[i]));
        assign(topologies[i], i ? one->order : straight, ids[i]);
    }
    // A ring algorithm takes the axes in turn, so that their order does not matter; an exchange goes along x first.
    for (size_t o = 0; o < 3; o++) {
        HloText text = {0};
        const int64_t devices = topologies[0]->device_count;
        collective_program(&text, opcodes[o], devices, one->group, one->groups, 1 << 16);
        EmuReport *reports[2];
        double carried[2] = {0};
        for (int i = 0; i < 2; i++) {
            const EmuOptions options = {.device_assignment = ids[i], .device_assignment_count = devices};
            reports[i] = simulate_with(text.data, i ? one->second : one->first, &options);
            for (int64_t k = 0; k < reports[i]->link_count; k++) carried[i] += reports[i]->links[k].bytes;
        }
        cr_expect_eq(reports[0]->step_picoseconds, reports[1]->step_picoseconds, "%s: %lld and %lld", opcodes[o],
                     (long long)reports[0]->step_picoseconds, (long long)reports[1]->step_picoseconds);
        cr_expect_eq(reports[0]->link_count, reports[1]->link_count);
        cr_expect_float_eq(carried[0], carried[1], 1e-6 * carried[0]);
        for (int i = 0; i < 2; i++) emu_report_free(reports[i]);
        hlo_text_free(&text);
    }
    for (int i = 0; i < 2; i++) emu_topology_free(topologies[i]);
}

// Simulated bytes are the counted ones, whatever the numbers in the groups count: replicas, partitions or devices. The
// report counted numbers as devices, and left out what replicas with all their partitions send.
TheoryDataPoints(emulator_laws, both_count_the_same_bytes) = {
    DataPoints(int, 0, 1, 2, 3),
    DataPoints(int, 1, 2, 4),
    DataPoints(int, 1, 2, 4),
    DataPoints(int, 0, 1, 2),
};
Theory((int opcode, int replicas, int partitions, int mode), emulator_laws, both_count_the_same_bytes) {
    // Without a channel, with one, and with one and global ids, which an all-to-all does not have.
    const bool exchanges = opcode == 3;
    cr_assume(!(mode == 2 && exchanges));
    const int64_t numbers = mode == 2 ? replicas * partitions : mode == 1 && exchanges ? partitions : replicas;
    const int64_t group = mode == 1 && !exchanges ? numbers * partitions : numbers, count = 64 * group;
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, replica_count=%d, num_partitions=%d, is_scheduled=true\n" ADD
                    "ENTRY e {\n p = f32[%lld] parameter(0)\n ROOT r = f32[%lld] %s(p), replica_groups=[1,%lld]<=[%lld]"
                    "%s%s%s%s\n}\n",
                    replicas, partitions, (long long)count,
                    (long long)(opcode == 1   ? count * group
                                : opcode == 2 ? count / group
                                              : count),
                    opcodes[opcode], (long long)numbers, (long long)numbers, mode ? ", channel_id=1" : "",
                    mode == 2 ? ", use_global_device_ids=true" : "", opcode ? ", dimensions={0}" : "",
                    opcode == 0 || opcode == 2 ? ", to_apply=add" : "");
    HloModule *module = parse(text.data);
    SpmdReport *counted = NULL;
    cr_assert_null(spmd_report_new(module, &counted));
    EmuReport *simulated = simulate_with(text.data, "v5e-16", NULL);
    cr_assert_eq(counted->collective_count, 1);
    cr_expect_eq(counted->collectives[0].group_size, group, "%s", text.data);
    cr_expect_eq(counted->collectives[0].num_groups, replicas * partitions / group);
    cr_expect_eq(counted->total_bytes_per_device, simulated->collective_bytes_per_device, "%lld and %lld:\n%s",
                 (long long)counted->total_bytes_per_device, (long long)simulated->collective_bytes_per_device,
                 text.data);
    double carried = 0;
    for (int64_t i = 0; i < simulated->link_count; i++) carried += simulated->links[i].bytes;
    cr_expect_eq(carried > 0, group > 1);
    emu_report_free(simulated);
    spmd_report_free(counted);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// ---------------------------------------------------------------------------------------------------------------------
// The step and its parts

static const struct {
    const char *body;
    bool ramps;
} bodies[] = {
    {" ROOT r = f32[512,512] negate(p)\n", false},
    {" ROOT r = f32[512,512] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n", true},
    {" a = f32[512,512] sine(p)\n ROOT r = f32[512,512] dot(a, p), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0}\n",
     true},
    {" ROOT r = f32[512,512] all-reduce(p), channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true, "
     "to_apply=add\n",
     false},
    {" s = f32[512,512] all-reduce-start(p), channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true, "
     "to_apply=add\n a = f32[512,512] cosine(p)\n d = f32[512,512] all-reduce-done(s)\n"
     " ROOT r = f32[512,512] add(a, d)\n",
     false},
    {" t = (f32[512,512], f32[512,512], u32[]) copy-start(p)\n a = f32[512,512] exponential(p)\n"
     " d = f32[512,512] copy-done(t)\n ROOT r = f32[512,512] add(a, d)\n",
     false},
};

static const char *const machines[] = {"v2-8", "v4-8", "v5e-4", "v6e-4", "tpu7x-8"};

static int64_t parts_of(const EmuReport *report) {
    return report->launch_picoseconds + report->compute_picoseconds + report->memory_picoseconds +
           report->exposed_picoseconds + report->copy_picoseconds;
}

// A loop of this many iterations around a body.
static void loop_program(HloText *text, const char *body, int trips) {
    hlo_text_format(text,
                    "HloModule m, num_partitions=4, is_scheduled=true\n" ADD
                    "once {\n p = f32[512,512] parameter(0)\n%s}\n"
                    "less {\n t = (s32[], f32[512,512]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
                    " n = s32[] constant(%d)\n ROOT l = pred[] compare(i, n), direction=LT\n}\n"
                    "round {\n t = (s32[], f32[512,512]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
                    " o = s32[] constant(1)\n j = s32[] add(i, o)\n p = f32[512,512] get-tuple-element(t), index=1\n"
                    " q = f32[512,512] call(p), to_apply=once\n ROOT u = (s32[], f32[512,512]) tuple(j, q)\n}\n"
                    "ENTRY e {\n p = f32[512,512] parameter(0)\n z = s32[] constant(0)\n"
                    " t = (s32[], f32[512,512]) tuple(z, p)\n w = (s32[], f32[512,512]) while(t), condition=less, "
                    "body=round\n ROOT r = f32[512,512] get-tuple-element(w), index=1\n}\n",
                    body, trips);
}

// The parts of a step add up to it, in loops too, also in loops without iterations, whose condition is evaluated once.
TheoryDataPoints(emulator_laws, the_parts_are_the_step) = {
    DataPoints(int, 0, 1, 2, 3, 4, 5),
    DataPoints(int, 0, 1, 2, 3, 4),
    DataPoints(int, 0, 1, 2, 100),
};
Theory((int body, int machine, int trips), emulator_laws, the_parts_are_the_step) {
    HloText text = {0};
    loop_program(&text, bodies[body].body, trips);
    EmuReport *report = simulate_with(text.data, machines[machine], NULL);
    cr_expect_eq(report->step_picoseconds, parts_of(report), "step %lld, parts %lld, %d trips on %s:\n%s",
                 (long long)report->step_picoseconds, (long long)parts_of(report), trips, machines[machine],
                 bodies[body].body);
    cr_expect_geq(report->collective_picoseconds, report->exposed_picoseconds);
    emu_report_free(report);
    hlo_text_free(&text);
}

// Iterations are alike: each takes as long, works as much and sends as much as the previous one.
TheoryDataPoints(emulator_laws, iterations_are_alike) = {
    DataPoints(int, 0, 1, 2, 3, 4, 5),
    DataPoints(int, 0, 1, 2, 3, 4),
};
Theory((int body, int machine), emulator_laws, iterations_are_alike) {
    EmuReport *reports[3];
    for (int i = 0; i < 3; i++) {
        HloText text = {0};
        loop_program(&text, bodies[body].body, i + 1);
        reports[i] = simulate_with(text.data, machines[machine], NULL);
        hlo_text_free(&text);
    }
    const int64_t first = reports[1]->step_picoseconds - reports[0]->step_picoseconds;
    cr_expect_eq(reports[2]->step_picoseconds - reports[1]->step_picoseconds, first);
    cr_expect_gt(first, 0);
    cr_expect_eq(reports[2]->flops_per_device, 3 * reports[0]->flops_per_device);
    cr_expect_eq(reports[2]->hbm_bytes_per_device, 3 * reports[0]->hbm_bytes_per_device);
    cr_expect_eq(reports[2]->collective_bytes_per_device, 3 * reports[0]->collective_bytes_per_device);
    cr_expect_eq(reports[2]->hbm_peak_bytes, reports[0]->hbm_peak_bytes);
    for (int i = 0; i < 3; i++) emu_report_free(reports[i]);
}

// The wait for an operation that is started early is no longer than that for one that is done at once, and the work is
// the same.
TheoryDataPoints(emulator_laws, starting_early_costs_nothing) = {
    DataPoints(int, 0, 1, 2, 3, 4),
    DataPoints(int, 64, 512, 2048),
};
Theory((int machine, int size), emulator_laws, starting_early_costs_nothing) {
    EmuReport *reports[2];
    for (int early = 0; early < 2; early++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m, num_partitions=4, is_scheduled=true\n" ADD
                        "ENTRY e {\n p = f32[%d,%d] parameter(0)\n s = f32[%d,%d] all-reduce%s(p), channel_id=1, "
                        "replica_groups=[1,4]<=[4], use_global_device_ids=true, to_apply=add\n"
                        " d = f32[%d,%d] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n%s",
                        size, size, size, size, early ? "-start" : "", size, size, "");
        if (early) hlo_text_format(&text, " e = f32[%d,%d] all-reduce-done(s)\n", size, size);
        hlo_text_format(&text, " ROOT t = (f32[%d,%d], f32[%d,%d]) tuple(%s, d)\n}\n", size, size, size, size,
                        early ? "e" : "s");
        reports[early] = simulate_with(text.data, machines[machine], NULL);
        hlo_text_free(&text);
    }
    cr_expect_leq(reports[1]->step_picoseconds, reports[0]->step_picoseconds);
    cr_expect_leq(reports[1]->exposed_picoseconds, reports[0]->exposed_picoseconds);
    cr_expect_eq(reports[1]->collective_picoseconds, reports[0]->collective_picoseconds);
    cr_expect_eq(reports[1]->compute_picoseconds + reports[1]->memory_picoseconds,
                 reports[0]->compute_picoseconds + reports[0]->memory_picoseconds);
    for (int i = 0; i < 2; i++) emu_report_free(reports[i]);
}

// A straggler slows only work; one that is twice as slow is not faster.
TheoryDataPoints(emulator_laws, stragglers_slow_work) = {
    DataPoints(int, 0, 1, 2, 3, 4, 5),
    DataPoints(int, 0, 1, 2, 3, 4),
};
Theory((int body, int machine), emulator_laws, stragglers_slow_work) {
    static const char *const faults[] = {"straggler:0:1", "straggler:0:2", "straggler:0:4", "straggler:0:0.5"};
    EmuReport *reports[4];
    HloText text = {0};
    loop_program(&text, bodies[body].body, 2);
    for (int i = 0; i < 4; i++)
        reports[i] = simulate_with(text.data, machines[machine], &(EmuOptions){.faults = faults[i]});
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(reports[i]->healthy_step_picoseconds, reports[0]->step_picoseconds);
        cr_expect_eq(reports[i]->collective_picoseconds, reports[0]->collective_picoseconds);
        cr_expect_eq(reports[i]->step_picoseconds, parts_of(reports[i]));
    }
    cr_expect_geq(reports[1]->step_picoseconds, reports[0]->step_picoseconds);
    cr_expect_geq(reports[2]->step_picoseconds, reports[1]->step_picoseconds);
    // The step waits for the slowest device: one that is faster than the others changes nothing.
    cr_expect_eq(reports[3]->step_picoseconds, reports[0]->step_picoseconds);
    for (int i = 0; i < 4; i++) emu_report_free(reports[i]);
    hlo_text_free(&text);
}

// ---------------------------------------------------------------------------------------------------------------------
// Products

static void product_program(HloText *text, const char *type, const char *result, int64_t m, int64_t k, int64_t n) {
    hlo_text_format(text,
                    "HloModule m\nENTRY e {\n a = %s[%lld,%lld] parameter(0)\n b = %s[%lld,%lld] parameter(1)\n"
                    " ROOT r = %s[%lld,%lld] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
                    type, (long long)m, (long long)k, type, (long long)k, (long long)n, result, (long long)m,
                    (long long)n);
}

// A product takes no less time when any of its sizes grows, and the same time when it is transposed.
TheoryDataPoints(emulator_laws, products_grow_with_their_sizes) = {
    DataPoints(int, 0, 1, 2, 3, 4),
    DataPoints(int, 1, 100, 1024),
    DataPoints(int, 8, 129, 2048),
    DataPoints(int, 1, 257, 4096),
};
Theory((int machine, int m, int k, int n), emulator_laws, products_grow_with_their_sizes) {
    static const char *const types[][2] = {{"bf16", "f32"}, {"f32", "f32"}, {"s8", "s32"}};
    for (size_t t = 0; t < HLO_COUNT_OF(types); t++) {
        int64_t steps[5];
        const int64_t sizes[5][3] = {{m, k, n}, {2 * m, k, n}, {m, 2 * k, n}, {m, k, 2 * n}, {n, k, m}};
        for (int i = 0; i < 5; i++) {
            HloText text = {0};
            product_program(&text, types[t][0], types[t][1], sizes[i][0], sizes[i][1], sizes[i][2]);
            steps[i] = step_of(text.data, machines[machine], NULL);
            hlo_text_free(&text);
        }
        for (int i = 1; i < 4; i++) cr_expect_geq(steps[i], steps[0], "%dx%dx%d, size %d", m, k, n, i);
        cr_expect(steps[4] > 0);
    }
}

// bug: the utilisation of empty products was 0 / 0, which was written as null.
static const char *const empty_products[] = {
    "l = f32[8,4] parameter(0)\n r = f32[0,4,4] parameter(1)\n g = s32[0] parameter(2)\n ROOT d = f32[8,4] "
    "ragged-dot(l, r, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
    "l = f32[0,4] parameter(0)\n r = f32[4,8] parameter(1)\n ROOT d = f32[0,8] dot(l, r), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={0}",
    "l = f32[8,0] parameter(0)\n r = f32[0,8] parameter(1)\n ROOT d = f32[8,8] dot(l, r), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={0}",
    "l = f32[0,8,4] parameter(0)\n r = f32[0,4,8] parameter(1)\n ROOT d = f32[0,8,8] dot(l, r), lhs_batch_dims={0}, "
    "rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    "l = f32[0,8,8,3] parameter(0)\n r = f32[3,3,3,4] parameter(1)\n ROOT d = f32[0,6,6,4] convolution(l, r), "
    "window={size=3x3}, dim_labels=b01f_01io->b01f",
    "l = f32[2,8,8,3] parameter(0)\n r = f32[3,3,3,0] parameter(1)\n ROOT d = f32[2,6,6,0] convolution(l, r), "
    "window={size=3x3}, dim_labels=b01f_01io->b01f",
};

CaseList(emulator_laws, products_of_nothing) {
    return cases_numbered(HLO_COUNT_OF(empty_products));
}
CaseTest(int *number, emulator_laws, products_of_nothing) {
    HloText text = {0}, json = {0};
    hlo_text_format(&text, "HloModule m\nENTRY e {\n %s\n}\n", empty_products[*number]);
    for (size_t m = 0; m < HLO_COUNT_OF(machines); m++) {
        EmuReport *report = simulate_with(text.data, machines[m], NULL);
        cr_expect_eq(report->matrix_flops_per_device, 0);
        json.length = 0;
        emu_report_write_json(report, &json);
        cr_expect_null(strstr(json.data, "null"), "%s", json.data);
        emu_report_free(report);
    }
    hlo_text_free(&json);
    hlo_text_free(&text);
}

// ---------------------------------------------------------------------------------------------------------------------
// Large programs

// A value of thousands of users: the list of kernels that it could be made in was searched for each of them. They share
// kernels of 96 results at most; the first of these makes the value too.
Test(emulator_laws, values_of_many_users) {
    enum { USERS = 20000 };
    HloText text = {0}, all = {0}, shapes = {0};
    hlo_text_string(&text, "HloModule m\nENTRY e {\n p = f32[64] parameter(0)\n c = f32[64] cosine(p)\n");
    for (int i = 0; i < USERS; i++) {
        hlo_text_format(&text, " n%d = f32[64] sine(c)\n", i);
        hlo_text_format(&all, "%sn%d", i ? ", " : "", i);
        hlo_text_format(&shapes, "%sf32[64]", i ? ", " : "");
    }
    hlo_text_format(&text, " ROOT t = (%s) tuple(%s)\n}\n", shapes.data, all.data);
    EmuReport *report = simulate_with(text.data, "v5e-1", NULL);
    cr_expect_geq(report->op_count, USERS / 96);
    cr_expect_leq(report->op_count, USERS / 96 + 2);
    cr_expect_eq(report->step_picoseconds, parts_of(report));
    emu_report_free(report);
    hlo_text_free(&shapes);
    hlo_text_free(&all);
    hlo_text_free(&text);
}

// Messages between thousands of devices on several channels, each from one to the next: finding the counter of a pair
// took as long as there are pairs.
Test(emulator_laws, messages_of_a_pod) {
    enum { DEVICES = 4096, CHANNELS = 8 };
    HloText text = {0}, pairs = {0};
    for (int i = 0; i < DEVICES; i++) hlo_text_format(&pairs, "%s{%d,%d}", i ? "," : "", i, (i + 1) % DEVICES);
    hlo_text_format(&text,
                    "HloModule m, num_partitions=%d, is_scheduled=true\nENTRY e {\n p = f32[8] parameter(0)\n"
                    " t = token[] after-all()\n",
                    DEVICES);
    for (int i = 0; i < CHANNELS; i++) {
        HloText route = {0};
        hlo_text_format(&route, "channel_id=%d, frontend_attributes={_xla_send_recv_source_target_pairs=\"{%s}\"}",
                        i + 1, pairs.data);
        hlo_text_format(
            &text,
            " send%d = (f32[8], u32[], token[]) send(p, t), %s\n recv%d = (f32[8], u32[], token[]) recv(t), "
            "%s\n sent%d = token[] send-done(send%d), %s\n got%d = (f32[8], token[]) recv-done(recv%d), %s\n",
            i, route.data, i, route.data, i, i, route.data, i, i, route.data);
        hlo_text_free(&route);
    }
    hlo_text_format(&text, " ROOT r = f32[8] get-tuple-element(got%d), index=0\n}\n", CHANNELS - 1);
    EmuReport *report = simulate_with(text.data, "v4:16x16x16", NULL);
    cr_expect_eq(report->collective_bytes_per_device, CHANNELS * 32);
    emu_report_free(report);
    hlo_text_free(&pairs);
    hlo_text_free(&text);
}
