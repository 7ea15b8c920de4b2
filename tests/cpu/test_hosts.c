// SPDX-License-Identifier: Apache-2.0
// Programs over several processes: the same bits as in one, for random programs and for each collective.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/cases.h"
#include "tests/support/compiled.h"
#include "tests/support/hosts.h"
#include "tests/support/random_module.h"

enum { kDevices = 8 };

// Machines that programs share, since finding out about the machine takes longer than most of them.
typedef struct Worlds {
    TargetClient *alone[kDevices + 1];             // by number of devices
    Hosts hosts[kDevices + 1][kMostHosts + 1][2];  // by devices, processes, order
} Worlds;

static TargetClient *alone_on(Worlds *worlds, int64_t devices) {
    char spec[16];
    snprintf(spec, sizeof spec, "cpu:%d", (int)devices);
    if (!worlds->alone[devices]) must_succeed(target_client_new_with_threads(spec, 2, &worlds->alone[devices]));
    return worlds->alone[devices];
}

static Hosts *hosts_on(Worlds *worlds, int64_t devices, int64_t processes, HostsOrder order) {
    Hosts *hosts = &worlds->hosts[devices][processes][order];
    if (!hosts->count) hosts_new(hosts, processes, devices, order, 1 + (int)(processes % 3), 60);
    return hosts;
}

static void free_worlds(Worlds *worlds) {
    for (int d = 0; d <= kDevices; d++) {
        target_client_release(worlds->alone[d]);
        for (int p = 0; p <= kMostHosts; p++)
            for (int order = 0; order < 2; order++) hosts_free(&worlds->hosts[d][p][order]);
    }
    free(worlds);
}

typedef struct Together {
    const HloModule *module;
    CompiledCheck check;
    HloLiteral *results[kMostHosts][kDevices];
    bool ok[kMostHosts];
    HloText messages[kMostHosts];
} Together;

static void run_one(Hosts *hosts, int64_t process, void *context) {
    Together *together = context;
    CompiledCheck check = together->check;
    check.client = hosts->clients[process];
    together->ok[process] =
        compiled_run(together->module, &check, together->results[process], &together->messages[process]);
}

// Compares the results of all processes with those of one; false with a message.
static bool same_as_alone(Together *together, const Hosts *hosts, HloLiteral *const *alone, bool alone_ok,
                          int64_t devices, HloText *message) {
    bool same = true;
    for (int64_t p = 0; p < hosts->count; p++) {
        for (int64_t d = 0; d < devices; d++) {
            const bool here = target_device_is_local(target_client_device(hosts->clients[p], d));
            HloLiteral *result = together->results[p][d];
            if (same && here && together->ok[p] && alone_ok && !hlo_literal_equal(result, alone[d])) {
                hlo_text_format(message, "%d processes: device %d has other bits\n", (int)hosts->count, (int)d);
                same = false;
            }
            hlo_literal_free(result);
            together->results[p][d] = NULL;
        }
        if (together->ok[p] != alone_ok) {
            hlo_text_format(message, "%d processes: process %d %s\n", (int)hosts->count, (int)p,
                            together->ok[p] ? "succeeds" : together->messages[p].data);
            same = false;
        }
        hlo_text_free(&together->messages[p]);
    }
    return same;
}

// Runs the program in 1 process and in 2, 3, 4 and 8, as far as there are devices.
static bool holds(Worlds *worlds, const HloModule *module, const CompiledCheck *check, HloText *message) {
    const int64_t devices = (module->replica_count > 0 ? module->replica_count : 1) *
                            (module->num_partitions > 0 ? module->num_partitions : 1);
    HloLiteral *alone[kDevices] = {0};
    CompiledCheck single = *check;
    single.client = alone_on(worlds, devices);
    HloText reason = {0};
    const bool ok = compiled_run(module, &single, alone, &reason);
    bool same = true;
    static const int64_t kCounts[] = {2, 3, 4, 8};
    for (size_t i = 0; i < HLO_COUNT_OF(kCounts) && kCounts[i] <= devices && same; i++) {
        const int64_t processes = kCounts[i];
        Together together = {.module = module, .check = *check};
        const HostsOrder order = (check->seed + (uint64_t)processes) % 2 ? HOSTS_IN_ROWS : HOSTS_IN_TURN;
        Hosts *hosts = hosts_on(worlds, devices, processes, order);
        hosts_run(hosts, run_one, &together);
        same = same_as_alone(&together, hosts, alone, ok, devices, message);
    }
    if (!same && !ok) hlo_text_format(message, "one process: %s\n", reason.data);
    for (int64_t d = 0; d < devices; d++) hlo_literal_free(alone[d]);
    hlo_text_free(&reason);
    return same;
}

Test(hosts, random_programs, .timeout = 600) {
    const int64_t count = cases_count("MESHLO_RANDOM_PROGRAMS", 1500) / 10;
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0);
    Worlds *worlds = calloc(1, sizeof *worlds);
    for (int64_t seed = first; seed < first + count; seed++) {
        HloText text = {0}, message = {0};
        random_devices_module((uint64_t)seed, 10 + (int)(seed % 30), &text);
        HloModule *module = compiled_must_parse(text.data);
        const CompiledCheck check = {.seed = (uint64_t)seed,
                                     .replicas = seed % 5 == 0 ? 2 : 1,
                                     .extremes = seed % 3 == 0,
                                     .allow_fallback = true};
        cr_assert(holds(worlds, module, &check, &message), "seed %lld: %s\n%s", (long long)seed, message.data,
                  text.data);
        hlo_module_free(module);
        hlo_text_free(&text);
        hlo_text_free(&message);
    }
    free_worlds(worlds);
}

// ---- each collective

// $ is the type; x has # columns, a multiple of 8, and % is an eighth of that.
#define ADD "add { a = $[] parameter(0)  b = $[] parameter(1)  ROOT c = $[] add(a, b) }\n"
// Depends on the order in every type, and is no single op.
#define MIX "mix { a = $[] parameter(0)  b = $[] parameter(1)  t = $[] add(a, a)  ROOT c = $[] subtract(t, b) }\n"
#define ENTRY "ENTRY e { x = $[8,#] parameter(0)  y = $[8,3] parameter(1)\n"

static const char *const kCollectives[] = {
    ADD ENTRY "ROOT r = $[8,#] all-reduce(x), replica_groups={}, to_apply=add }",
    ADD ENTRY "ROOT r = $[8,#] all-reduce(x), replica_groups={{6,1,3},{0,2,4,5,7}}, to_apply=add }",
    MIX ENTRY "ROOT r = ($[8,#], $[8,3]) all-reduce(x, y), replica_groups={{7,6,5,4},{0,1,2,3}}, to_apply=mix }",
    ADD ENTRY
    "s = $[8,#] all-reduce-start(x), replica_groups={{0,4},{1,5},{2,6},{3,7}}, to_apply=add\n"
    "z = $[8,3] add(y, y)  d = $[8,#] all-reduce-done(s)  ROOT r = ($[8,#], $[8,3]) tuple(d, z) }",
    ADD ENTRY "ROOT r = $[8,%] reduce-scatter(x), replica_groups={}, dimensions={1}, to_apply=add }",
    MIX ENTRY
    "ROOT r = ($[4,#], $[4,3]) reduce-scatter(x, y), replica_groups={{0,5},{2,3},{7,1},{6,4}}, "
    "dimensions={0}, to_apply=mix }",
    ENTRY "ROOT r = $[64,#] all-gather(x), replica_groups={{3,1,0,2,7,6,5,4}}, dimensions={0} }",
    ENTRY "ROOT r = $[8,12] all-gather(y), replica_groups={{7,5,3,1},{0,2,4,6}}, dimensions={1} }",
    ENTRY "ROOT r = $[8,#] all-to-all(x), replica_groups={{3,1,0,2,7,6,5,4}}, dimensions={0} }",
    ENTRY "ROOT r = $[8,#] all-to-all(x), replica_groups={{0,7},{6,1},{2,5},{4,3}}, dimensions={1} }",
    ENTRY
    "z = $[8,#] add(x, x)\n"
    "ROOT r = ($[8,#], $[8,#]) all-to-all(x, z), replica_groups={{0,7},{6,1},{2,5},{4,3}} }",
    ENTRY "ROOT r = $[8,#] collective-permute(x), source_target_pairs={{0,3},{3,5},{5,0},{7,7},{2,6}} }",
    ENTRY "ROOT r = ($[8,#], $[8,3]) collective-permute(x, y), source_target_pairs={{0,7},{7,0},{1,2}} }",
    ENTRY "ROOT r = $[8,#] collective-broadcast(x), replica_groups={{5,1,2},{0,7}} }",
    // Groups of one collective that are at different iterations of a loop, which ends by what they exchanged.
    ADD
    "cond { p = (s32[], s32[], $[8,#]) parameter(0)  i = s32[] get-tuple-element(p), index=0\n"
    "n = s32[] get-tuple-element(p), index=1  ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { p = (s32[], s32[], $[8,#]) parameter(0)  i = s32[] get-tuple-element(p), index=0\n"
    "n = s32[] get-tuple-element(p), index=1  v = $[8,#] get-tuple-element(p), index=2  one = s32[] constant(1)\n"
    "j = s32[] add(i, one)  w = $[8,#] all-reduce(v), replica_groups={{0,7},{6,1},{2,5},{4,3}}, to_apply=add\n"
    "ROOT t = (s32[], s32[], $[8,#]) tuple(j, n, w) }\n" ENTRY
    "id = u32[] replica-id()  me = s32[] convert(id)  seven = s32[] constant(7)  other = s32[] subtract(seven, me)\n"
    "n = s32[] minimum(me, other)  zero = s32[] constant(0)  s = (s32[], s32[], $[8,#]) tuple(zero, n, x)  l = (s32[], "
    "s32[], $[8,#]) while(s), condition=cond, body=body\n"
    "ROOT r = $[8,#] get-tuple-element(l), index=2 }",
};

static HloModule *collective_module(const char *text, const char *type, int columns) {
    HloText all = {0};
    hlo_text_string(&all, "HloModule m, replica_count=8\n");
    for (const char *at = text; *at; at++) {
        if (*at == '$')
            hlo_text_string(&all, type);
        else if (*at == '#')
            hlo_text_format(&all, "%d", columns);
        else if (*at == '%')
            hlo_text_format(&all, "%d", columns / 8);
        else
            hlo_text_char(&all, *at);
    }
    HloModule *module = compiled_must_parse(all.data);
    hlo_text_free(&all);
    return module;
}

// Small ones, and ones of several parts, which processes share out among them.
Test(hosts, each_collective, .timeout = 600) {
    static const struct {
        const char *type;
        int columns;
    } kForms[] = {{"f32", 8}, {"bf16", 24}, {"s8", 8}, {"f64", 16}, {"f32", 12000}};
    Worlds *worlds = calloc(1, sizeof *worlds);
    for (size_t i = 0; i < HLO_COUNT_OF(kCollectives); i++) {
        for (size_t f = 0; f < HLO_COUNT_OF(kForms); f++) {
            HloText message = {0};
            HloModule *module = collective_module(kCollectives[i], kForms[f].type, kForms[f].columns);
            const CompiledCheck check = {.seed = i + f, .replicas = 1};
            cr_expect(holds(worlds, module, &check, &message), "%s[%d]: %s\n%s", kForms[f].type, kForms[f].columns,
                      message.data, kCollectives[i]);
            hlo_text_free(&message);
            hlo_module_free(module);
        }
    }
    free_worlds(worlds);
}
