// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/theories.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compile/pipeline.h"
#include "emulator/emulator.h"
#include "hlo/text/text.h"
#include "tests/emulator/simulated.h"
#include "tests/support/cases.h"

#define ADD "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x,y) }\n"

static HloModule *parse(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), &(HloParseOptions){.file = "test"}, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return module;
}

// Simulates a program on a slice, devices in list order.
// The same of the program that the compile pipeline makes of it.
static EmuReport *simulate_compiled(const char *text, const char *spec) {
    HloModule *module = parse(text);
    CompiledModule *compiled = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    cr_assert_null(emu_topology_parse(spec, &topology));
    HloStatus status = compile_module(module, NULL, &compiled);
    if (!status) status = emu_simulate(compiled->module, topology, NULL, &report);
    cr_assert_null(status, "%s", hlo_status_message(status));
    compiled_module_free(compiled);
    emu_topology_free(topology);
    hlo_module_free(module);
    return report;
}

static void expect_error(const char *text, const char *spec, const EmuOptions *options, HloCode code,
                         const char *says) {
    HloModule *module = parse(text);
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    cr_assert_null(emu_topology_parse(spec, &topology));
    HloStatus status = emu_simulate(module, topology, options, &report);
    cr_assert_eq(hlo_status_code(status), code, "%s", hlo_status_message(status));
    cr_assert_not_null(strstr(hlo_status_message(status), says), "%s", hlo_status_message(status));
    cr_assert_null(report);
    hlo_status_free(status);
    emu_topology_free(topology);
    hlo_module_free(module);
}

typedef struct TrafficCase {
    char spec[16];
    int64_t devices;
    char groups[64];
    int64_t group_size;
} TrafficCase;

// Simulated bytes are the counted ones. Every way of putting groups on tori: rings, lines, grids, strided groups,
// groups that are no grid, several slices.
CaseList(emulator_simulate, traffic) {
    static TrafficCase cases[] = {
        {"v2-8", 8, "{{0,1,2,3,4,5,6,7}}", 8},       {"v2-8", 8, "{{0,1},{2,3},{4,5},{6,7}}", 2},
        {"v2-8", 8, "{{0,2,4,6},{1,3,5,7}}", 4},     {"v2-8", 8, "{{0,7},{1,6},{2,5},{3,4}}", 2},
        {"v5e-16", 16, "[1,16]<=[16]", 16},          {"v5e-16", 16, "[4,4]<=[16]", 4},
        {"v5e-16", 16, "[4,4]<=[4,4]T(1,0)", 4},     {"v5e-256", 256, "[16,16]<=[256]", 16},
        {"v5e-256", 256, "[1,256]<=[256]", 256},     {"v4-128", 64, "[1,64]<=[64]", 64},
        {"v4-128", 64, "[8,8]<=[8,8]T(1,0)", 8},     {"v4-128", 64, "[2,32]<=[64]", 32},
        {"tpu7x-64", 64, "[8,8]<=[64]", 8},          {"tpu7x-64", 64, "[2,32]<=[32,2]T(1,0)", 32},
        {"v6e-64", 64, "[1,64]<=[64]", 64},          {"2xv5e-16", 32, "[1,32]<=[32]", 32},
        {"2xv5e-16", 32, "[16,2]<=[2,16]T(1,0)", 2}, {"4xv4-8", 16, "[4,4]<=[4,4]T(1,0)", 4},
    };
    return cr_make_param_array(TrafficCase, cases, sizeof(cases) / sizeof(cases[0]));
}

// All bytes on links divided by the devices; between slices they cross two, out and in.
static double bytes_per_device(const EmuReport *report) {
    double total = 0;
    for (int64_t i = 0; i < report->link_count; i++) {
        const bool dcn = report->links[i].from < 0 || report->links[i].to < 0;
        total += report->links[i].bytes / (dcn ? 2 : 1);
    }
    return total / (double)report->num_devices;
}

CaseTest(TrafficCase *param, emulator_simulate, traffic) {
    static const char *const ops[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all"};
    for (size_t op = 0; op < HLO_COUNT_OF(ops); op++) {
        char text[1024];
        const int64_t g = param->group_size, n = 1024 * g;
        const bool gather = op == 1, scatter = op == 2;
        snprintf(
            text, sizeof(text),
            "HloModule t, num_partitions=%lld\n" ADD
            "ENTRY e { a = f32[%lld] parameter(0)\n ROOT c = f32[%lld] %s(a), channel_id=1, replica_groups=%s%s%s%s }",
            (long long)param->devices, (long long)n,
            (long long)(gather    ? n * g
                        : scatter ? n / g
                                  : n),
            ops[op], param->groups, op == 3 ? "" : ", use_global_device_ids=true", op ? ", dimensions={0}" : "",
            op == 0 || scatter ? ", to_apply=add" : "");
        EmuReport *report = simulated(text, param->spec);
        const int64_t full = 4 * (gather ? n * g : n), counted = full / g * (g - 1) * (op == 0 ? 2 : 1);
        cr_assert_eq(report->collective_bytes_per_device, counted, "%s", ops[op]);
        const double carried = bytes_per_device(report);
        // Bytes may cross several links on their way, never none; on rings and lines of neighbours exactly one.
        cr_assert_geq(carried, (double)counted * (1 - 1e-9), "%s %s: %.0f of %lld", param->spec, ops[op], carried,
                      (long long)counted);
        cr_assert_eq(report->exposed_picoseconds, report->collective_picoseconds);
        cr_assert_gt(report->collective_picoseconds, 0);
        emu_report_free(report);
    }
}

// Groups that are rings, lines or grids of neighbours: link bytes equal counted bytes exactly.
Test(emulator_simulate, neighbours_carry_each_byte_once) {
    static const char *const cases[][2] = {
        {"v2-8", "8"}, {"v5e-16", "16"}, {"v5e-256", "256"}, {"v4-128", "64"}, {"tpu7x-64", "64"}};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "HloModule t, num_partitions=%s\n" ADD
                 "ENTRY e { a = f32[65536] parameter(0)\n ROOT c = f32[65536] all-reduce(a), channel_id=1,"
                 " replica_groups={}, use_global_device_ids=true, to_apply=add }",
                 cases[i][1]);
        EmuReport *report = simulated(text, cases[i][0]);
        cr_assert_float_eq(bytes_per_device(report) / (double)report->collective_bytes_per_device, 1, 1e-9, "%s",
                           cases[i][0]);
        emu_report_free(report);
    }
}

// A ring's time is that of the scaling book: 2 V (N-1)/N over both directions of a wrapping axis.
Test(emulator_simulate, ring_time_follows_the_formula) {
    EmuReport *report = NULL;
    HloModule *module =
        parse("HloModule t, num_partitions=256\n" ADD
              "ENTRY e { a = f32[67108864] parameter(0)\n ROOT c = f32[67108864] all-reduce(a),"
              " channel_id=1, replica_groups=[16,16]<=[256], use_global_device_ids=true, to_apply=add }");
    EmuTopology *topology = NULL;
    int64_t ids[256];
    cr_assert_null(emu_topology_parse("v5e-256", &topology));
    cr_assert_null(emu_default_assignment(topology, (int64_t[]){16, 16}, 2, ids));
    cr_assert_null(emu_simulate(module, topology,
                                &(EmuOptions){.device_assignment = ids, .device_assignment_count = 256}, &report));
    const double bytes = 268435456.0, bandwidth = 2 * 50e9 * 0.9, steps = 2 * 15 * 1.9e-6 + 3.8e-6;
    const double expected = 2 * bytes * 15 / 16 / bandwidth + steps;
    cr_assert_float_eq((double)report->collective_picoseconds * 1e-12 / expected, 1, 1e-6);
    emu_report_free(report);
    emu_topology_free(topology);
    hlo_module_free(module);
}

#define OVERLAP(first, second)                                                                   \
    "HloModule t, is_scheduled=true, num_partitions=4\n" ADD                                     \
    "ENTRY e { a = f32[4096,4096] parameter(0)\n b = f32[4096,4096] parameter(1)\n" first        \
    " d = f32[4096,4096] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" second \
    " ROOT t = (f32[4096,4096], f32[4096,4096]) tuple(c, d) }"
#define GROUPS ", channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add\n"

// A collective that is started before a product and awaited after it overlaps with the product; on v2 nothing overlaps.
Test(emulator_simulate, asynchronous_collectives_overlap) {
    const char *asynchronous =
        OVERLAP(" s = f32[4096,4096] all-reduce-start(a)" GROUPS, " c = f32[4096,4096] all-reduce-done(s)\n");
    const char *synchronous = OVERLAP(" c = f32[4096,4096] all-reduce(a)" GROUPS, "");
    EmuReport *hidden = simulated(asynchronous, "v5p-8"), *waiting = simulated(synchronous, "v5p-8");
    cr_assert_eq(hidden->collective_picoseconds, waiting->collective_picoseconds);
    cr_assert_eq(waiting->exposed_picoseconds, waiting->collective_picoseconds);
    cr_assert_lt(hidden->step_picoseconds, waiting->step_picoseconds);
    cr_assert_eq(hidden->step_picoseconds, hidden->compute_picoseconds + hidden->exposed_picoseconds);
    emu_report_free(hidden);
    emu_report_free(waiting);
    hidden = simulated(asynchronous, "v2-8");
    cr_assert_eq(hidden->exposed_picoseconds, hidden->collective_picoseconds);
    emu_report_free(hidden);
}

#define HOST_STACK(first, second)                                                                      \
    "HloModule t, is_scheduled=true\n"                                                                 \
    "put { s = f32[8,4096,4096]{2,1,0:S(5)} parameter(0)\n u = f32[1,4096,4096]{2,1,0} parameter(1)\n" \
    " i = s32[] parameter(2)\n z = s32[] parameter(3)\n y = s32[] parameter(4)\n"                      \
    " ROOT d = f32[8,4096,4096]{2,1,0:S(5)} dynamic-update-slice(s, u, i, z, y) }\n"                   \
    "ENTRY e { a = f32[4096,4096]{1,0} parameter(0)\n b = f32[1,4096,4096]{2,1,0} parameter(1)\n"      \
    " z = s32[] constant(0)\n o = f32[] constant(0)\n"                                                 \
    " m = f32[8,4096,4096]{2,1,0:S(5)} broadcast(o), dimensions={}\n" first                            \
    " d = f32[4096,4096]{1,0} dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" second  \
    " ROOT t = (f32[4096,4096]{1,0}, f32[8,4096,4096]{2,1,0:S(5)}) tuple(d, f) }"
#define HOST_START                                                                        \
    " s = ((f32[8,4096,4096]{2,1,0:S(5)}, f32[1,4096,4096]{2,1,0}, s32[], s32[], s32[])," \
    " f32[8,4096,4096]{2,1,0:S(5)}, u32[]) async-start(m, b, z, z, z), calls=put\n"
#define HOST_DONE " f = f32[8,4096,4096]{2,1,0:S(5)} async-done(s)\n"

// Arrays in the host's memory take no HBM. A slice of one is transferred at PCIe's rate (chips.def: 16 GB/s on v5e, 32
// on v6e) and overlaps with a product like any transfer, also on v2, whose cores take part in collectives.
Test(emulator_simulate, slices_of_stacks_in_host_memory_go_over_pcie) {
    const char *apart = HOST_STACK(HOST_START, HOST_DONE), *together = HOST_STACK("", HOST_START HOST_DONE);
    const double bytes = 4096 * 4096 * 4;
    const struct {
        const char *spec;
        double rate;  // of one device
    } cases[] = {{"v5e-1", 16e9}, {"v6e-1", 32e9}, {"v2-8", 8e9}};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        EmuReport *hidden = simulated(apart, cases[i].spec), *waiting = simulated(together, cases[i].spec);
        cr_expect_float_eq((double)waiting->copy_picoseconds * 1e-12 / (bytes / cases[i].rate), 1, 1e-9);
        cr_expect_eq(waiting->exposed_picoseconds, 0);
        cr_expect_eq(waiting->step_picoseconds - hidden->step_picoseconds,
                     waiting->copy_picoseconds - hidden->copy_picoseconds);
        cr_expect_lt(hidden->copy_picoseconds, waiting->copy_picoseconds);
        cr_expect_lt(waiting->hbm_peak_bytes, 4 * (int64_t)bytes, "the stack alone has eight of these");
        emu_report_free(hidden);
        emu_report_free(waiting);
    }
}

// bug: a copy that is no start and done took the time of HBM, or none inside of what it was fused with.
Test(emulator_simulate, bug_copies_to_and_from_host_memory_took_the_time_of_hbm) {
    static const char *const bodies[] = {
        // out, in, a slice out of a stack and into one
        " n = f32[4096,4096]{1,0} negate(a)\n ROOT r = f32[4096,4096]{1,0:S(5)} copy(n)\n",
        " c = f32[4096,4096]{1,0} copy(h)\n ROOT r = f32[4096,4096]{1,0} negate(c)\n",
        " r = f32[1,4096,4096]{2,1,0} dynamic-slice(m, z, z, z), dynamic_slice_sizes={1,4096,4096}\n"
        " ROOT n = f32[1,4096,4096]{2,1,0} negate(r)\n",
        " b = f32[1,4096,4096]{2,1,0} reshape(a)\n n = f32[1,4096,4096]{2,1,0} negate(b)\n"
        " ROOT r = f32[8,4096,4096]{2,1,0:S(5)} dynamic-update-slice(m, n, z, z, z)\n",
    };
    const double bytes = 4096 * 4096 * 4;
    for (size_t i = 0; i < HLO_COUNT_OF(bodies); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule t\nENTRY e { a = f32[4096,4096]{1,0} parameter(0)\n"
                        " h = f32[4096,4096]{1,0:S(5)} parameter(1)\n m = f32[8,4096,4096]{2,1,0:S(5)} parameter(2)\n"
                        " z = s32[] constant(0)\n%s}",
                        bodies[i]);
        EmuReport *report = simulated(text.data, "v5e-1");
        cr_expect_float_eq((double)report->copy_picoseconds * 1e-12 / (bytes / 16e9), 1, 1e-9, "case %zu", i);
        cr_expect_float_eq((double)report->memory_picoseconds * 1e-12 / (2 * bytes / 819e9), 1, 0.3, "case %zu: %g", i,
                           (double)report->memory_picoseconds);
        emu_report_free(report);
        hlo_text_free(&text);
    }
    // A copy within the host's memory does not involve the device.
    EmuReport *report = simulated(
        "HloModule t\nENTRY e { h = f32[4096,4096]{1,0:S(5)} parameter(0)\n"
        " ROOT r = f32[4096,4096]{0,1:S(5)} copy(h) }",
        "v5e-1");
    cr_expect_eq(report->copy_picoseconds, 0);
    emu_report_free(report);
}

// bug: a nested tuple as the state of a loop was copied before the loop as a whole, even leaves that the body passes
// on.
Test(emulator_simulate, bug_nested_states_of_loops_were_copied) {
    // The body changes b and passes the large a on.
#define NESTED_LOOP(state, initial, counter, a, b, result)                                                           \
    "HloModule t\ncond { p = " state " parameter(0)\n" counter                                                       \
    " n = s32[] constant(10)\n ROOT c = pred[] compare(i, n), direction=LT }\nbody { p = " state                     \
    " parameter(0)\n" counter a b " one = s32[] constant(1)\n j = s32[] add(i, one)\n d = f32[8] negate(b)\n" result \
    "}\nENTRY e { x = f32[1024,1024] parameter(0)\n y = f32[8] parameter(1)\n z = s32[] constant(0)\n" initial       \
    " ROOT w = " state " while(t), condition=cond, body=body }"
    static const char flat[] =
        NESTED_LOOP("(s32[], f32[1024,1024], f32[8])", " t = tuple(z, x, y)\n",
                    " i = s32[] get-tuple-element(p), index=0\n", " a = f32[1024,1024] get-tuple-element(p), index=1\n",
                    " b = f32[8] get-tuple-element(p), index=2\n", " ROOT r = tuple(j, a, d)\n");
    static const char nested[] =
        NESTED_LOOP("(s32[], (f32[1024,1024], f32[8]))", " u = tuple(x, y)\n t = tuple(z, u)\n",
                    " i = s32[] get-tuple-element(p), index=0\n",
                    " v = (f32[1024,1024], f32[8]) get-tuple-element(p), index=1\n a = f32[1024,1024] "
                    "get-tuple-element(v), index=0\n",
                    " b = f32[8] get-tuple-element(v), index=1\n", " u = tuple(a, d)\n ROOT r = tuple(j, u)\n");
    static const char whole[] = NESTED_LOOP(
        "(s32[], (f32[1024,1024]), f32[8])", " u = tuple(x)\n t = tuple(z, u, y)\n",
        " i = s32[] get-tuple-element(p), index=0\n", " a = (f32[1024,1024]) get-tuple-element(p), index=1\n",
        " b = f32[8] get-tuple-element(p), index=2\n", " ROOT r = tuple(j, a, d)\n");
    EmuReport *reports[] = {simulated(flat, "v5e-1"), simulated(nested, "v5e-1"), simulated(whole, "v5e-1")};
    for (size_t i = 0; i < HLO_COUNT_OF(reports); i++) {
        cr_expect_eq(reports[i]->temp_bytes, reports[0]->temp_bytes, "%lld and not %lld",
                     (long long)reports[i]->temp_bytes, (long long)reports[0]->temp_bytes);
        cr_expect_lt(reports[i]->temp_bytes, 1024 * 1024, "the array that goes through is not copied");
    }
    for (size_t i = 0; i < HLO_COUNT_OF(reports); i++) emu_report_free(reports[i]);
}

#define LOOP(condition, start, step)                                                                           \
    "HloModule t\ncond { p = (s32[], f32[1024,1024]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n" \
    " n = s32[] constant(10)\n ROOT c = pred[] compare(i, n), direction=" condition                            \
    " }\n"                                                                                                     \
    "body { p = (s32[], f32[1024,1024]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"              \
    " x = f32[1024,1024] get-tuple-element(p), index=1\n one = s32[] constant(" step                           \
    ")\n j = s32[] add(i, one)\n"                                                                              \
    " y = f32[1024,1024] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"                      \
    " ROOT t = (s32[], f32[1024,1024]) tuple(j, y) }\n"                                                        \
    "ENTRY e { z = s32[] constant(" start                                                                      \
    ")\n a = f32[1024,1024] parameter(0)\n"                                                                    \
    " t = (s32[], f32[1024,1024]) tuple(z, a)\n"                                                               \
    " w = (s32[], f32[1024,1024]) while(t), condition=cond, body=body\n"                                       \
    " ROOT r = f32[1024,1024] get-tuple-element(w), index=1 }"

Test(emulator_simulate, loops_count_their_trips) {
    static const struct {
        const char *text;
        double trips;
    } cases[] = {{LOOP("LT", "0", "1"), 10}, {LOOP("LE", "0", "1"), 11},   {LOOP("LT", "3", "2"), 4},
                 {LOOP("NE", "0", "2"), 5},  {LOOP("GT", "20", "-1"), 10}, {LOOP("LT", "12", "1"), 0},
                 {LOOP("GE", "20", "-5"), 3}};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        EmuReport *report = simulated(cases[i].text, "v5e-1");
        cr_assert_eq(report->unknown_trip_counts, 0, "case %zu", i);
        cr_assert_float_eq(report->matrix_flops_per_device, cases[i].trips * 2 * 0x1p30, 1, "case %zu", i);
        emu_report_free(report);
    }
    EmuReport *report = simulated(LOOP("EQ", "0", "1"), "v5e-1");
    cr_assert_eq(report->unknown_trip_counts, 1);
    emu_report_free(report);
}

// Found by random programs: the second branch waited for links that the first one would have used.
Test(emulator_simulate, bug_branches_wait_for_each_others_links) {
#define BRANCH(name)                                                                                       \
    name " { p = f32[1024] parameter(0)\n ROOT g = f32[8192] all-gather(p), dimensions={0}, channel_id=1," \
         " replica_groups=[1,8]<=[8], use_global_device_ids=true }\n"
#define BRANCHES(which, called, operands)                             \
    "HloModule m, num_partitions=8\n" called                          \
    "ENTRY e { i = s32[] parameter(0)\n x = f32[1024] parameter(1)\n" \
    " ROOT r = f32[8192] conditional(i, " operands "), branch_computations={" which "} }"
    EmuReport *one = simulated(BRANCHES("a", BRANCH("a"), "x"), "v5e-8");
    EmuReport *three = simulated(BRANCHES("a, b, c", BRANCH("a") BRANCH("b") BRANCH("c"), "x, x, x"), "v5e-8");
    cr_expect_gt(one->exposed_picoseconds, 0);
    cr_expect_eq(three->exposed_picoseconds, one->exposed_picoseconds);
    cr_expect_eq(three->step_picoseconds, one->step_picoseconds);
    cr_expect_eq(three->collective_bytes_per_device, 3 * one->collective_bytes_per_device);
    emu_report_free(one);
    emu_report_free(three);
}

Test(emulator_simulate, elementwise_chains_stay_on_the_chip) {
    EmuReport *chain = simulated(
        "HloModule t\nENTRY e { a = f32[4096,4096] parameter(0)\n b = f32[4096,4096] negate(a)\n"
        " c = f32[4096,4096] abs(b)\n d = f32[4096,4096] add(c, a)\n ROOT r = f32[4096,4096] multiply(d, d) }",
        "v5e-1");
    EmuReport *single = simulated(
        "HloModule t\nENTRY e { a = f32[4096,4096] parameter(0)\n ROOT r = f32[4096,4096] negate(a) }", "v5e-1");
    cr_assert_eq(chain->hbm_bytes_per_device, single->hbm_bytes_per_device);
    cr_assert_eq(chain->hbm_bytes_per_device, 2 * 4096.0 * 4096 * 4);
    cr_assert_eq(chain->temp_bytes, 0);
    cr_assert_eq(chain->op_count, 1);
    emu_report_free(chain);
    emu_report_free(single);
}

// A reduction of an array that a kernel writes anyway reads no more bytes.
Test(emulator_simulate, reductions_join_their_producer) {
    EmuReport *both = simulated("HloModule t\n" ADD
                                "ENTRY e { a = f32[4096,4096] parameter(0)\n b = f32[4096,4096] exponential(a)\n"
                                " z = f32[] constant(0)\n s = f32[4096] reduce(b, z), dimensions={1}, to_apply=add\n"
                                " ROOT t = (f32[4096,4096], f32[4096]) tuple(b, s) }",
                                "v5e-1");
    cr_assert_eq(both->hbm_bytes_per_device, 2 * 4096.0 * 4096 * 4 + 4096 * 4);
    cr_assert_eq(both->op_count, 1);
    emu_report_free(both);
}

// A fusion that another compiler made is one kernel: it reads what its computation reads, and writes in place what its
// root does.
Test(emulator_simulate, fusions_are_one_kernel) {
    EmuReport *chain = simulated(
        "HloModule t\nf { x = f32[4096,4096] parameter(0)\n y = f32[4096,4096] exponential(x)\n"
        " ROOT z = f32[4096,4096] multiply(y, y) }\n"
        "g { x = f32[4096,4096] parameter(0)\n ROOT n = f32[4096,4096] fusion(x), kind=kLoop, calls=f }\n"
        "ENTRY e { a = f32[4096,4096] parameter(0)\n ROOT b = f32[4096,4096] fusion(a), kind=kLoop, calls=g }",
        "v5e-1");
    cr_expect_eq(chain->op_count, 1);
    cr_expect_eq(chain->hbm_bytes_per_device, 2 * 4096.0 * 4096 * 4);
    EmuReport *row = simulated(
        "HloModule t\nf { x = f32[4096,4096] parameter(0)\n i = s32[] parameter(1)\n z = s32[] constant(0)\n"
        " y = f32[1,4096] dynamic-slice(x, i, z), dynamic_slice_sizes={1,4096}\n ROOT n = f32[1,4096] negate(y) }\n"
        "ENTRY e { a = f32[4096,4096] parameter(0)\n i = s32[] parameter(1)\n"
        " ROOT b = f32[1,4096] fusion(a, i), kind=kLoop, calls=f }",
        "v5e-1");
    cr_expect_lt(row->hbm_bytes_per_device, 4096.0 * 4096);
    EmuReport *update = simulated(
        "HloModule t, input_output_alias={ {}: (0, {}, may-alias) }\n"
        "f { x = f32[4096,4096] parameter(0)\n u = f32[1,4096] parameter(1)\n i = s32[] parameter(2)\n"
        " z = s32[] constant(0)\n n = f32[1,4096] negate(u)\n"
        " ROOT y = f32[4096,4096] dynamic-update-slice(x, n, i, z) }\n"
        "ENTRY e { a = f32[4096,4096] parameter(0)\n u = f32[1,4096] parameter(1)\n i = s32[] parameter(2)\n"
        " ROOT b = f32[4096,4096] fusion(a, u, i), kind=kLoop, calls=f }",
        "v5e-1");
    cr_expect_lt(update->hbm_bytes_per_device, 4096.0 * 4096);
    cr_expect_eq(update->temp_bytes, 0);
    emu_report_free(chain);
    emu_report_free(row);
    emu_report_free(update);
}

// Stacks of weights are transposed before a loop over their middle dimension; where the layouts make that a bitcast, it
// takes neither time nor memory.
Test(emulator_simulate, bug_transposes_that_move_nothing_took_time_and_memory) {
    EmuReport *view = simulated(
        "HloModule m\nENTRY e {\n p = f32[4096,8,4096]{2,1,0} parameter(0)\n"
        " t = f32[8,4096,4096]{2,0,1} transpose(p), dimensions={1,0,2}\n"
        " ROOT s = f32[1,4096,4096]{2,0,1} slice(t), slice={[3:4], [0:4096], [0:4096]} }",
        "v5e-1");
    EmuReport *moved = simulated(
        "HloModule m\nENTRY e {\n p = f32[4096,8,4096]{2,1,0} parameter(0)\n"
        " t = f32[8,4096,4096]{2,1,0} transpose(p), dimensions={1,0,2}\n"
        " ROOT s = (f32[8,4096,4096]{2,1,0}) tuple(t) }",
        "v5e-1");
    cr_assert_eq(view->temp_bytes, 0);
    cr_assert_lt(view->step_picoseconds * 2, moved->step_picoseconds);
    emu_report_free(view);
    emu_report_free(moved);
}

// Which kernels a kernel waits for was found by a recursion through all that is in no kernel.
Test(emulator_simulate, bug_long_chains_of_tuples_overflowed_the_stack) {
    enum { kLength = 100000 };
    HloText text = {0};
    hlo_text_string(&text,
                    "HloModule m\nlt { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
                    " ROOT c = pred[] compare(x, y), direction=LT }\nENTRY e { a = f32[64] parameter(0)\n"
                    " b0 = f32[64] sort(a), dimensions={0}, to_apply=lt\n");
    for (int i = 0; i < kLength; i++)
        hlo_text_format(&text, " t%d = (f32[64]) tuple(b%d)\n b%d = f32[64] get-tuple-element(t%d), index=0\n", i, i,
                        i + 1, i);
    hlo_text_format(&text,
                    " k = f32[64] sort(b%d), dimensions={0}, to_apply=lt\n c = f32[64] cosine(a)\n"
                    " l = f32[64] sort(c), dimensions={0}, to_apply=lt\n ROOT r = f32[64] subtract(k, l) }\n",
                    kLength);
    cr_assert_null(hlo_text_status(&text));
    EmuReport *report = simulated(text.data, "v5e-1");
    cr_expect_eq(report->op_count, 5);
    emu_report_free(report);
    hlo_text_free(&text);
}

// Calls are inlined first, as compilers do: their instructions fuse with those around the call.
Test(emulator_simulate, calls_are_inlined) {
    EmuReport *report = simulate_compiled(
        "HloModule t\nf { x = f32[4096,4096] parameter(0)\n ROOT n = f32[4096,4096] negate(x) }\n"
        "ENTRY e { a = f32[4096,4096] parameter(0)\n b = f32[4096,4096] call(a), to_apply=f\n"
        " c = f32[4096,4096] call(b), to_apply=f\n ROOT d = f32[4096,4096] abs(c) }",
        "v5e-1");
    cr_assert_eq(report->op_count, 1);
    cr_assert_eq(report->hbm_bytes_per_device, 2 * 4096.0 * 4096 * 4);
    cr_assert_eq(report->temp_bytes, 0);
    emu_report_free(report);
}

// The array that a recv waits for was taken for its token, and had no bytes.
Test(emulator_simulate, bug_a_received_array_took_no_memory) {
#define PAIRS "channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs=\"{{0,1},{1,0}}\"}"
    EmuReport *report = simulated(
        "HloModule t, num_partitions=2, is_scheduled=true\nENTRY e { a = f32[1024,1024] parameter(0)\n"
        " t = token[] after-all()\n"
        " s = (f32[1024,1024], u32[], token[]) send(a, t), " PAIRS
        "\n r = (f32[1024,1024], u32[], token[]) recv(t), " PAIRS
        "\n sd = token[] send-done(s), channel_id=1\n rd = (f32[1024,1024], token[]) recv-done(r), channel_id=1\n"
        " x = f32[1024,1024] get-tuple-element(rd), index=0\n ROOT n = f32[1024,1024] negate(x) }",
        "v5e-4");
#undef PAIRS
    cr_assert_geq(report->temp_bytes, 1024 * 1024 * 4);
    cr_assert_lt(report->temp_bytes, 1024 * 1024 * 5);
    emu_report_free(report);
}

// Writing a large array and reading it in two products takes longer than making its cheap function again; not so for
// sine.
Test(emulator_simulate, cheap_functions_are_made_twice) {
    static const struct {
        const char *function;
        double arrays;  // of 4096 x 4096 that are read or written
    } cases[] = {{"negate", 6}, {"exponential", 6}, {"sine", 8}};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 "HloModule t\nENTRY e { a = f32[4096,4096] parameter(0)\n w = f32[4096,4096] parameter(1)\n"
                 " b = f32[4096,4096] %s(a)\n"
                 " c = f32[4096,4096] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                 " d = f32[4096,4096] dot(w, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                 " ROOT t = (f32[4096,4096], f32[4096,4096]) tuple(c, d) }",
                 cases[i].function);
        EmuReport *report = simulated(text, "v5p-8");
        cr_assert_eq(report->hbm_bytes_per_device, cases[i].arrays * 4096.0 * 4096 * 4, "%s: %g arrays",
                     cases[i].function, report->hbm_bytes_per_device / (4096.0 * 4096 * 4));
        emu_report_free(report);
    }
}

// Checks the number of kernels of a program on a v5p, which keeps no arrays in VMEM, and the arrays of 4096 x 4096
// floats that they move.
static void expect_kernels(const char *text, int64_t kernels, double arrays) {
    EmuReport *report = simulated(text, "v5p-8");
    cr_expect_eq(report->op_count, kernels, "%lld kernels, %lld expected:\n%s", (long long)report->op_count,
                 (long long)kernels, text);
    cr_expect_float_eq(report->hbm_bytes_per_device / (arrays * 4096 * 4096 * 4), 1, 1e-4,
                       "%g arrays, %g expected:\n%s", report->hbm_bytes_per_device / (4096.0 * 4096 * 4), arrays, text);
    emu_report_free(report);
}

#define FULL "f32[4096,4096]"
#define SUM "s { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
#define PRODUCT "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"

// The gradient of a gated layer took nine passes over memory: everything that follows a product element by element is
// made with it, and what nothing else reads stays inside. libtpu 0.0.42 makes the same kernels of jax.vjp of
// (gelu(x @ a) * (x @ b)) @ c.
Test(emulator_simulate, bug_gradients_of_gates_were_kernels_of_their_own) {
    expect_kernels("HloModule t\nENTRY e { x = " FULL " parameter(0)\n a = " FULL " parameter(1)\n g = " FULL
                   " parameter(2)\n p = " FULL " dot(x, a" PRODUCT " u = " FULL " sine(p)\n v = " FULL
                   " multiply(p, u)\n m = " FULL " multiply(u, u)\n n = " FULL " multiply(m, g)\n l = " FULL
                   " subtract(n, p)\n d = " FULL " dot(x, v" PRODUCT " f = " FULL " dot(x, l" PRODUCT " ROOT t = (" FULL
                   ", " FULL ", " FULL ", " FULL ") tuple(d, f, v, l) }",
                   3, 5 + 3 + 3);
}

// An optimizer's new state and parameters are made in one pass.
Test(emulator_simulate, kernels_share_what_they_read) {
    expect_kernels("HloModule t\nENTRY e { p = " FULL " parameter(0)\n m = " FULL " parameter(1)\n g = " FULL
                   " parameter(2)\n n = " FULL " add(m, g)\n o = " FULL " multiply(g, g)\n r = " FULL
                   " divide(n, o)\n q = " FULL " add(p, r)\n ROOT t = (" FULL ", " FULL ") tuple(n, q) }",
                   1, 5);
}

// A sum is complete only when all of the array has been read: what needs it runs afterwards.
Test(emulator_simulate, kernels_wait_for_sums) {
    expect_kernels("HloModule t\n" SUM "ENTRY e { a = " FULL
                   " parameter(0)\n c = f32[] constant(0)\n"
                   " r = f32[] reduce(a, c), dimensions={0,1}, to_apply=s\n b = " FULL
                   " broadcast(r), dimensions={}\n ROOT d = " FULL " divide(a, b) }",
                   2, 1 + 2);
}

// A kernel between two others that needs the one and is needed by the other keeps them apart.
Test(emulator_simulate, kernels_are_not_joined_around_another) {
    expect_kernels(
        "HloModule t\nc { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
        " ROOT l = pred[] compare(x, y), direction=LT }\nENTRY e { a = " FULL " parameter(0)\n v = " FULL
        " sine(a)\n w = " FULL " sort(v), dimensions={1}, to_apply=c\n z = " FULL " subtract(a, w)\n ROOT t = (" FULL
        ", " FULL ") tuple(v, z) }",
        3, 2 + 2 + 3);
}

// A kernel of a sum that something elementwise joined stayed that of a sum, which what follows could not join.
Test(emulator_simulate, bug_kernels_depended_on_the_order_of_results) {
#define SORTS                                                                                                   \
    "HloModule t\n" SUM                                                                                         \
    "c { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT l = pred[] compare(x, y), direction=LT }\n"     \
    "ENTRY e { a = " FULL " parameter(0)\n z = f32[] constant(0)\n m = " FULL                                   \
    " sort(a), dimensions={0}, to_apply=c\n r = f32[4096] reduce(m, z), dimensions={1}, to_apply=s\n u = " FULL \
    " negate(m)\n v = " FULL " sine(u)\n w = " FULL " sort(u), dimensions={0}, to_apply=c\n ROOT t = "
    expect_kernels(SORTS "(f32[4096], " FULL ", " FULL ") tuple(r, v, w) }", 3, 2 + 3 + 2);
    expect_kernels(SORTS "(" FULL ", " FULL ", f32[4096]) tuple(v, w, r) }", 3, 2 + 3 + 2);
#undef SORTS
}

#undef PRODUCT
#undef SUM
#undef FULL

// The gradient of a strided convolution reads an input with gaps: of 6 results and 2 positions of the window along each
// dimension, 6 pairs are on an element. The operations on the gaps were counted, four times as many.
Test(emulator_simulate, bug_gaps_of_dilated_inputs_counted_as_work) {
    EmuReport *report = simulated(
        "HloModule t\nENTRY e { a = bf16[2,4,4,8] parameter(0)\n w = bf16[2,2,8,16] parameter(1)\n"
        " ROOT c = bf16[2,6,6,16] convolution(a, w), window={size=2x2 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f }",
        "v6e-1");
    cr_expect_eq(report->matrix_flops_per_device, 2 * 2 * (6 * 6) * 8 * 16.0);
    emu_report_free(report);
}

// Of an array that is narrowed for several products, the narrow form is kept.
Test(emulator_simulate, narrow_arrays_are_kept) {
    EmuReport *report = simulated(
        "HloModule t\nENTRY e { a = f32[4096,4096] parameter(0)\n w = f32[4096,4096] parameter(1)\n"
        " s = f32[4096,4096] add(a, w)\n n = bf16[4096,4096] convert(s)\n"
        " b = bf16[4096,128] parameter(2)\n c = bf16[4096,128] parameter(3)\n"
        " d = bf16[4096,128] dot(n, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " f = bf16[4096,128] dot(n, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        " ROOT t = (bf16[4096,128], bf16[4096,128]) tuple(d, f) }",
        "v5p-8");  // without VMEM for arrays
    cr_assert_eq(report->temp_bytes, 4096 * 4096 * 2);
    emu_report_free(report);
}

#define CALL(target, config)                                                                                \
    "HloModule t\nENTRY e { a = f32[2,1024,1024] parameter(0)\n ROOT r = f32[2,1024,1024] custom-call(a), " \
    "custom_call_target=\"" target "\"" config " }"
#define ESTIMATE(text) ", backend_config={\"custom_call_config\": {\"body\": \"TUz\", \"cost_estimate\": " text "}}"

// The stated work of a kernel is used; a kernel without one is costed by its arrays, and the report says so.
Test(emulator_simulate, custom_calls_are_costed_by_their_estimates) {
    EmuReport *plain = simulated(CALL("tpu_custom_call", ""), "v6e-1");
    cr_assert_eq(plain->unknown_calls, 1);
    cr_assert_str_eq(plain->unknown_call, "\"tpu_custom_call\" (%r)");
    cr_assert_not(plain->unknown_call_runs);
    cr_assert_eq(plain->hbm_bytes_per_device, 2 * 2.0 * 1024 * 1024 * 4);
    cr_assert_eq(plain->matrix_flops_per_device, 0);
    EmuReport *estimated = simulated(
        CALL("tpu_custom_call", ESTIMATE("{\"flops\": 1e12, \"transcendentals\": 7, \"bytes_accessed\": 4096}")),
        "v6e-1");
    cr_assert_eq(estimated->unknown_calls, 0);
    cr_assert_eq(estimated->matrix_flops_per_device, 1e12);
    cr_assert_eq(estimated->hbm_bytes_per_device, 4096);
    cr_assert_gt(estimated->compute_picoseconds, 1000000000);  // 1e12 at 918e12 a second is 1.09 ms
    static const char *const useless[] = {
        CALL("tpu_custom_call", ESTIMATE("{\"flops\": -5, \"bytes_accessed\": \"many\"}")),
        CALL("tpu_custom_call", ESTIMATE("{}")),
        CALL("tpu_custom_call", ", backend_config=\"cost_estimate is {not JSON\""),
        CALL("tpu_custom_call", ", backend_config={\"cost_estimate\": 3}"),
    };
    for (size_t i = 0; i < HLO_COUNT_OF(useless); i++) {
        EmuReport *report = simulated(useless[i], "v6e-1");
        cr_assert_eq(report->step_picoseconds, plain->step_picoseconds, "case %zu", i);
        emu_report_free(report);
    }
    emu_report_free(estimated);
    emu_report_free(plain);
}

// Authors of attention kernels state the exponentials, not the steps of the softmax beside them. The exponentials are
// computed beside the vector unit, one register a cycle; products hide 0.3 of their time [RT: schedules of kernels].
Test(emulator_simulate, stated_exponentials_beside_products_have_the_steps_of_a_softmax) {
    EmuReport *report = simulated(
        CALL("tpu_custom_call", ESTIMATE("{\"flops\": 1e12, \"transcendentals\": 4e9, \"bytes_accessed\": 4096}")),
        "v6e-1");
    EmuReport *alone =
        simulated(CALL("tpu_custom_call", ESTIMATE("{\"transcendentals\": 4e9, \"bytes_accessed\": 4096}")), "v6e-1");
    const double register_rate = 1024 * 1.75e9, products = 1e12 / 920e12, steps = 4e9 * 9 / 4 / register_rate;
    cr_expect_float_eq((double)alone->compute_picoseconds * 1e-12, 4e9 / register_rate, 1e-5);
    cr_expect_float_eq((double)report->compute_picoseconds * 1e-12, steps + 0.7 * products, 1e-5);
    emu_report_free(report);
    emu_report_free(alone);
}

// bug: gathers read the rows that they choose. They read all rows of the tiles in which these are: libtpu states 151 MB
// for 2048 of 32000 rows.
Test(emulator_simulate, bug_gathers_read_rows_instead_of_tiles) {
#define GATHER(table, rows, result, offsets, size)                                     \
    "HloModule t\nENTRY e { x = bf16[" table "] parameter(0)\n i = s32[" rows          \
    ",1] parameter(1)\n ROOT g = bf16[" result "] gather(x, i), offset_dims={" offsets \
    "}, collapsed_slice_dims={0}, start_index_map={0}, "                               \
    "index_vector_dim=1, slice_sizes={" size "} }"
    EmuReport *rows = simulated(GATHER("32000,4096", "2048", "2048,4096", "1", "1,4096"), "v6e-1");
    EmuReport *blocks = simulated(GATHER("4000,8,1024", "256", "256,8,1024", "1,2", "1,8,1024"), "v6e-1");
#undef GATHER
    cr_assert_float_eq(rows->hbm_bytes_per_device, 151.02e6, 1.1e6);  // padded indices are 1 MB
    cr_assert_float_eq(blocks->hbm_bytes_per_device, 2 * 256.0 * 8 * 1024 * 2, 0.2e6);
    emu_report_free(rows);
    emu_report_free(blocks);
}

// Known calls cost as much as their equivalent operation, annotations nothing.
Test(emulator_simulate, known_custom_calls_are_costed) {
    EmuReport *annotation = simulated(CALL("Sharding", ", sharding={replicated}"), "v6e-1");
    cr_assert_eq(annotation->step_picoseconds, annotation->launch_picoseconds);
    EmuReport *call = simulated(CALL("mhlo.erf", ""), "v2-8"),
              *erf = simulated(
                  "HloModule t\nENTRY e { a = f32[2,1024,1024] parameter(0)\n ROOT r = f32[2,1024,1024] erf(a) }",
                  "v2-8");
    cr_assert_eq(call->step_picoseconds, erf->step_picoseconds);
    EmuReport *decomposition = simulated(CALL("lapack_spotrf_ffi", ""), "v6e-1");
    cr_assert_gt(decomposition->step_picoseconds, 10 * call->memory_picoseconds);
    cr_assert_eq(decomposition->unknown_calls + call->unknown_calls + annotation->unknown_calls, 0);
    emu_report_free(decomposition);
    emu_report_free(erf);
    emu_report_free(call);
    emu_report_free(annotation);
}

// Donated arguments are matched as by XLA: each takes the first output of its shape.
Test(emulator_simulate, donated_arguments_alias) {
    EmuReport *report = simulate_compiled(
        "HloModule t, buffer_donor={ (0, {}), (1, {}) }\nENTRY e { a = f32[8,128] parameter(0)\n"
        " b = f32[16,128] parameter(1)\n c = f32[8,128] negate(a)\n ROOT t = (f32[8,128], f32[8,128]) tuple(c, c) }",
        "v5e-1");
    cr_assert_eq(report->alias_bytes, 8 * 128 * 4);
    emu_report_free(report);
}

// Passes of bf16 multiplications follow the precision.
Test(emulator_simulate, precision_costs_passes) {
    double seconds[3];
    static const char *const precisions[] = {"default", "high", "highest"};
    for (int i = 0; i < 3; i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "HloModule t\nENTRY e { a = f32[4096,4096] parameter(0)\n ROOT d = f32[4096,4096] dot(a, a),"
                 " lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={%s,%s} }",
                 precisions[i], precisions[i]);
        EmuReport *report = simulated(text, "v6e-1");
        seconds[i] = (double)report->compute_picoseconds;
        emu_report_free(report);
    }
    // What does not overlap with the first and the last block takes the same time in each.
    cr_assert_float_eq(seconds[1] / seconds[0], 3, 0.1);
    cr_assert_float_eq(seconds[2] / seconds[0], 6, 0.2);
}

Test(emulator_simulate, memory_adds_up) {
    EmuReport *report = simulated(
        "HloModule t, input_output_alias={ {0}: (0, {}, may-alias) }\nENTRY e { a = f32[1024,1024] parameter(0)\n"
        " b = f32[1024,1024] parameter(1)\n"
        " c = f32[1024,1024] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " d = f32[1024,1024] dot(c, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " f = f32[1024,1024] dot(d, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " g = f32[1024,1024] dot(f, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT t = (f32[1024,1024]) tuple(g) }",
        "v5p-8");  // without VMEM for arrays
    const int64_t matrix = 4 << 20;
    cr_assert_eq(report->argument_bytes, 2 * matrix);
    cr_assert_eq(report->output_bytes, matrix + 32);  // with the table of the tuple
    cr_assert_eq(report->alias_bytes, matrix);
    cr_assert_eq(report->temp_bytes, 3 * matrix / 2);  // c, d and f while the third product runs, in bf16
    cr_assert_eq(report->hbm_peak_bytes, 7 * matrix / 2 + 32);
    cr_assert_not(emu_report_out_of_memory(report));
    HloText text = {0};
    emu_report_write_out_of_memory(report, &text);
    cr_assert_eq(text.length, 0);
    emu_report_free(report);
}

Test(emulator_simulate, running_out_of_hbm_is_explained) {
    EmuReport *report = simulated(
        "HloModule t\nENTRY e { a = s32[8388608,8,4]{2,1,0:T(8,128)} parameter(0)\n"
        " ROOT b = s32[8388608,8,4]{2,1,0:T(8,128)} negate(a), metadata={op_name=\"jit(f)/neg\" source_file=\"f.py\""
        " source_line=7} }",
        "v6e-1");
    cr_assert(emu_report_out_of_memory(report));
    HloText text = {0};
    emu_report_write_out_of_memory(report, &text);
    static const char *const says[] = {"E1000",
                                       "Used 64.00G of 31.25G hbm",
                                       "Exceeded hbm capacity by 32.75G",
                                       "arguments         32.00G",
                                       "Unpadded size: 1.00G",
                                       "(32.0x expansion)",
                                       "f.py:7",
                                       "s32[8388608,8,4]{2,1,0:T(8,128)}"};
    for (size_t i = 0; i < HLO_COUNT_OF(says); i++)
        cr_assert_not_null(strstr(text.data, says[i]), "%s not in:\n%s", says[i], text.data);
    hlo_text_free(&text);
    emu_report_free(report);
}

Test(emulator_simulate, reports_are_json) {
    static const char *const keys[] = {"topology",
                                       "num_devices",
                                       "step_seconds",
                                       "compute_seconds",
                                       "memory_seconds",
                                       "collective_seconds",
                                       "exposed_collective_seconds",
                                       "flops_per_device",
                                       "mfu",
                                       "hbm_peak_bytes",
                                       "hbm_capacity_bytes",
                                       "argument_bytes",
                                       "output_bytes",
                                       "alias_bytes",
                                       "temp_bytes",
                                       "ops",
                                       "links"};
    EmuReport *report = simulated(OVERLAP(" c = f32[4096,4096] all-reduce(a)" GROUPS, ""), "v5p-8");
    HloArena *arena = hlo_arena_new();
    HloText text = {0};
    HloJsonValue *value = NULL;
    emu_report_write_json(report, &text);
    cr_assert_null(hlo_json_parse(arena, "report", text.data, text.length, &value));
    for (size_t i = 0; i < HLO_COUNT_OF(keys); i++) cr_assert_not_null(hlo_json_get(value, keys[i]), "%s", keys[i]);
    const HloJsonValue *ops = hlo_json_get(value, "ops"), *links = hlo_json_get(value, "links");
    cr_assert_eq(ops->count, 2);
    cr_assert_eq(links->count, 8);
    cr_assert_str_eq(hlo_json_get(ops->items[0], "opcode")->string, "all-reduce");
    const double parts = hlo_json_get(value, "compute_seconds")->number +
                         hlo_json_get(value, "memory_seconds")->number +
                         hlo_json_get(value, "exposed_collective_seconds")->number;
    cr_assert_float_eq(parts / hlo_json_get(value, "step_seconds")->number, 1, 1e-9);
    hlo_text_free(&text);
    emu_report_write_chrome_trace(report, &text);
    cr_assert_null(hlo_json_parse(arena, "trace", text.data, text.length, &value));
    cr_assert_gt(hlo_json_get(value, "traceEvents")->count, 3 + 2 + report->memory_count);
    cr_assert_gt(report->memory_count, 0);
    int64_t highest = 0;
    for (int64_t i = 0; i < report->memory_count; i++)
        if (report->memory[i].bytes > highest) highest = report->memory[i].bytes;
    cr_assert_eq(highest, report->hbm_peak_bytes);
    hlo_text_free(&text);
    emu_report_write_summary(report, &text);
    cr_assert_not_null(strstr(text.data, "v5p-8"));
    hlo_text_free(&text);
    hlo_arena_free(arena);
    emu_report_free(report);
}

#define PLAIN "HloModule t, num_partitions=8\nENTRY e { ROOT a = f32[8] parameter(0) }"

Test(emulator_simulate, bad_input_is_refused) {
    expect_error(PLAIN, "v5e-4", NULL, HLO_INVALID_ARGUMENT, "8 devices");
    expect_error(PLAIN, "cpu:8", NULL, HLO_UNIMPLEMENTED, "no machine model");
    const int64_t twice[] = {0, 1, 2, 3, 4, 5, 6, 6}, beyond[] = {0, 1, 2, 3, 4, 5, 6, 8};
    expect_error(PLAIN, "v2-8", &(EmuOptions){.device_assignment = twice, .device_assignment_count = 8},
                 HLO_INVALID_ARGUMENT, "twice");
    expect_error(PLAIN, "v2-8", &(EmuOptions){.device_assignment = beyond, .device_assignment_count = 8},
                 HLO_INVALID_ARGUMENT, "does not exist");
    expect_error(PLAIN, "v2-8", &(EmuOptions){.device_assignment = twice, .device_assignment_count = 7},
                 HLO_INVALID_ARGUMENT, "7 entries");
    expect_error(
        "HloModule t, num_partitions=2\nENTRY e { a = f32[8] parameter(0)\n ROOT c = f32[8] collective-permute(a),"
        " channel_id=1, source_target_pairs={{0,5}} }",
        "v5e-4", NULL, HLO_INVALID_ARGUMENT, "{0,5}");
}

#define REDUCE_ALL                                                                                                     \
    "HloModule t, num_partitions=8\n" ADD                                                                              \
    "ENTRY e { a = f32[1048576] parameter(0)\n n = f32[1048576] negate(a)\n"                                           \
    " ROOT c = f32[1048576] all-reduce(n), channel_id=1, replica_groups={}, use_global_device_ids=true, to_apply=add " \
    "}"

// A slow link and a straggler cost time, and the report says how much.
Test(emulator_simulate, faults_cost_time) {
    static const char *const faults[] = {"link:0-2:0.5", "straggler:3:2", "link:0-1:0.5,straggler:7:1.5"};
    HloModule *module = parse(REDUCE_ALL);
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse("v2-8", &topology));
    for (size_t i = 0; i < HLO_COUNT_OF(faults); i++) {
        EmuReport *report = NULL;
        cr_assert_null(emu_simulate(module, topology, &(EmuOptions){.faults = faults[i]}, &report));
        cr_assert_gt(report->step_picoseconds, report->healthy_step_picoseconds, "%s", faults[i]);
        cr_assert_str_eq(report->faults, faults[i]);
        HloText text = {0};
        emu_report_write_summary(report, &text);
        cr_assert_not_null(strstr(text.data, faults[i]));
        hlo_text_free(&text);
        emu_report_free(report);
    }
    emu_topology_free(topology);
    hlo_module_free(module);
}

Test(emulator_simulate, faults_that_stop_the_program_are_named) {
    expect_error(REDUCE_ALL, "v2-8", &(EmuOptions){.faults = "dead:3"}, HLO_UNAVAILABLE, "participant 3 on device 3");
    // Two chips that are left talk through the dead one.
    const int64_t around[] = {0, 2};
    expect_error(
        "HloModule t, num_partitions=2\nENTRY e { a = f32[8] parameter(0)\n ROOT c = f32[8] collective-permute(a),"
        " channel_id=1, source_target_pairs={{0,1}} }",
        "v5e:4x4", &(EmuOptions){.device_assignment = around, .device_assignment_count = 2, .faults = "dead:1"},
        HLO_UNAVAILABLE, "dead chip of device 1");
    static const char *const bad[] = {"nonsense",       "link:0",         "link:0-2", "link:0-2:0",   "link:0-7:0.5",
                                      "straggler:0:-1", "straggler:99:2", "dead:",    "dead:0;dead:1"};
    for (size_t i = 0; i < HLO_COUNT_OF(bad); i++)
        expect_error(REDUCE_ALL, "v2-8", &(EmuOptions){.faults = bad[i]}, HLO_INVALID_ARGUMENT, "fault");
}

// The whole machine: 4,096 chips are simulated as quickly as one.
Test(emulator_simulate, full_pods_are_quick) {
    EmuReport *report =
        simulated("HloModule t, num_partitions=4096\n" ADD
                  "ENTRY e { a = f32[8192,8192] parameter(0)\n b = f32[8192,8192] dot(a, a), lhs_contracting_dims={1},"
                  " rhs_contracting_dims={0}\n ROOT c = f32[8192,8192] all-reduce(b), channel_id=1, replica_groups={},"
                  " use_global_device_ids=true, to_apply=add }",
                  "v4:16x16x16");
    cr_assert_eq(report->num_devices, 4096);
    cr_assert_eq(report->link_count, 4096 * 6);
    emu_report_free(report);
}

Test(emulator_simulate, default_assignments) {
    static const struct {
        const char *spec;
        int64_t sizes[2];
        int64_t first[4];
    } cases[] = {{"v2-8", {4, 2}, {0, 1, 2, 3}},
                 {"2xv4:2x2x1", {2, 4}, {100000, 100002, 100001, 100003}},
                 {"v6e-16", {2, 8}, {0, 1, 4, 5}}};  // JAX refuses this mesh: the list's order
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        EmuTopology *topology = NULL;
        int64_t ids[64];
        cr_assert_null(emu_topology_parse(cases[i].spec, &topology));
        cr_assert_null(emu_default_assignment(topology, cases[i].sizes, 2, ids));
        for (int k = 0; k < 4; k++) cr_assert_eq(ids[k], cases[i].first[k], "%s", cases[i].spec);
        HloStatus status = emu_default_assignment(topology, (int64_t[]){64, 64}, 2, ids);
        cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
        hlo_status_free(status);
        emu_topology_free(topology);
    }
}

// Amounts beyond any machine stop instead of overflowing.
Test(emulator_simulate, immense_programs_do_not_overflow) {
    EmuReport *report = simulated(
        "HloModule t, num_partitions=8\n" ADD
        "ENTRY e { a = f32[1048576,1048576,100000] parameter(0)\n b = f32[1048576,1048576,100000] parameter(1)\n"
        " n = f32[1048576,1048576,100000] sine(a)\n"
        " ROOT c = (f32[1048576,1048576,100000], f32[1048576,1048576,100000]) all-reduce(n, b), channel_id=1,"
        " replica_groups={}, use_global_device_ids=true, to_apply=add }",
        "v5e-8");
    cr_assert_gt(report->step_picoseconds, 0);
    cr_assert_gt(report->hbm_peak_bytes, report->hbm_capacity_bytes);
    cr_assert_gt(report->collective_bytes_per_device, 0);
    emu_report_free(report);
}

// Short of memory anywhere: an error, never a crash or a leak.
Test(emulator_simulate, running_out_of_memory_is_reported) {
    HloModule *module = parse(OVERLAP(" c = f32[4096,4096] all-reduce(a)" GROUPS, ""));
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse("v5p-8", &topology));
    for (int64_t after = 0; after < 40; after++) {
        EmuReport *report = NULL;
        hlo_allocation_fail_after(after);
        HloStatus status = emu_simulate(module, topology, NULL, &report);
        hlo_allocation_fail_after(-1);
        cr_assert(status ? hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED && !report : report != NULL);
        hlo_status_free(status);
        emu_report_free(report);
    }
    emu_topology_free(topology);
    hlo_module_free(module);
}

// A permute that is taken apart into send and recv takes the permute's time, bytes and links.
Test(emulator_simulate, a_send_by_pairs_costs_what_its_permute_does) {
    EmuReport *whole = simulated(
        "HloModule m, num_partitions=4, is_scheduled=true\nENTRY e { p = f32[1024,512] parameter(0)\n"
        " ROOT r = f32[1024,512] collective-permute(p), channel_id=1, "
        "source_target_pairs={{0,1},{1,2},{2,3},{3,0}} }\n",
        "v5e-4");
    EmuReport *apart = simulated(
        "HloModule m, num_partitions=4, is_scheduled=true\nENTRY e { p = f32[1024,512] parameter(0)\n a = token[] "
        "after-all()\n"
        " b = (f32[1024,512], u32[], token[]) recv(a), channel_id=1, "
        "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,3},{3,0}}}\n"
        " s = (f32[1024,512], u32[], token[]) send(p, a), channel_id=1, "
        "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,3},{3,0}}}\n"
        " d = (f32[1024,512], token[]) recv-done(b), channel_id=1\n t = token[] send-done(s), channel_id=1\n"
        " ROOT r = f32[1024,512] get-tuple-element(d), index=0 }\n",
        "v5e-4");
    cr_expect_gt(whole->collective_picoseconds, 0);
    cr_expect_eq(apart->collective_picoseconds, whole->collective_picoseconds);
    cr_expect_eq(apart->exposed_picoseconds, whole->exposed_picoseconds);
    cr_expect_eq(apart->collective_bytes_per_device, whole->collective_bytes_per_device);
    cr_expect_eq(apart->link_count, whole->link_count);
    emu_report_free(whole);
    emu_report_free(apart);
}

// Without pairs the receiver is unknown: a neighbour is assumed. One device has none.
Test(emulator_simulate, a_send_to_an_unknown_device_goes_to_a_neighbour) {
    static const char *const body =
        "ENTRY e { p = f32[1024] parameter(0)\n a = token[] after-all()\n"
        " s = (f32[1024], u32[], token[]) send(p, a), channel_id=1\n"
        " ROOT t = token[] send-done(s), channel_id=1 }\n";
    char text[512];
    for (int devices = 1; devices <= 2; devices++) {
        snprintf(text, sizeof text, "HloModule m, num_partitions=%d, is_scheduled=true\n%s", devices, body);
        EmuReport *report = simulated(text, "v5e-4");
        cr_expect_eq(report->link_count > 0, devices > 1);
        emu_report_free(report);
    }
}

// ---- messages that never come

#define PAIRS "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}"
#define RECV(name) " " name " = (f32[8], u32[], token[]) recv(a), channel_id=3, " PAIRS "\n"
#define RECV_DONE(name, start) " " name " = (f32[8], token[]) recv-done(" start "), channel_id=3\n"
#define SEND(name, channel) " " name " = (f32[8], u32[], token[]) send(p, a), channel_id=" channel ", " PAIRS "\n"
#define SEND_DONE(name, start, channel) " " name " = token[] send-done(" start "), channel_id=" channel "\n"

static const struct {
    const char *name, *body, *says;  // NULL: it ends
} mails[] = {
    {"no device sends", RECV("r") RECV_DONE("d", "r"), "device 1 would wait forever at recv-done %d"},
    {"another channel", RECV("r") SEND("s", "4") SEND_DONE("t", "s", "4") RECV_DONE("d", "r"), "channel 3"},
    {"every device waits first", RECV("r") RECV_DONE("d", "r") SEND("s", "3") SEND_DONE("t", "s", "3"),
     "from device 0"},
    {"two receive what one sent",
     RECV("r") SEND("s", "3") SEND_DONE("t", "s", "3") RECV_DONE("d", "r") RECV("q") RECV_DONE("e", "q"),
     "recv-done %e"},
    {"one for each", RECV("r") SEND("s", "3") SEND_DONE("t", "s", "3") RECV_DONE("d", "r"), NULL},
    {"two for two",
     RECV("r") RECV("q") SEND("s", "3") SEND("u", "3") SEND_DONE("t", "s", "3") SEND_DONE("v", "u", "3")
         RECV_DONE("d", "r") RECV_DONE("e", "q"),
     NULL},
};

CaseList(emulator_simulate, bug_a_message_that_never_comes) {
    return cases_numbered(HLO_COUNT_OF(mails));
}

// bug: these programs got a time, as if they ended.
CaseTest(const int *number, emulator_simulate, bug_a_message_that_never_comes) {
    char text[2048];
    snprintf(text, sizeof text,
             "HloModule m, num_partitions=4, is_scheduled=true\nENTRY e {\n p = f32[8] parameter(0)\n a = token[] "
             "after-all()\n%s ROOT o = f32[8] negate(p)\n}\n",
             mails[*number].body);
    if (mails[*number].says)
        expect_error(text, "v2-8", NULL, HLO_ABORTED, mails[*number].says);
    else
        emu_report_free(simulated(text, "v2-8"));
}

// A loop may send the messages that are received after it, any number of times: this cannot be ruled out.
Test(emulator_simulate, messages_of_loops_are_believed) {
    emu_report_free(simulated(
        "HloModule m, num_partitions=4, is_scheduled=true\n"
        "less { s = (s32[], f32[8], token[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " n = s32[] constant(2)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
        "body { s = (s32[], f32[8], token[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " p = f32[8] get-tuple-element(s), index=1\n a = token[] get-tuple-element(s), index=2\n" SEND("u", "3")
            SEND_DONE("v", "u",
                      "3") " one = s32[] constant(1)\n j = s32[] add(i, one)\n"
                           " ROOT t = (s32[], f32[8], token[]) tuple(j, p, v) }\n"
                           "ENTRY e {\n p = f32[8] parameter(0)\n a = token[] after-all()\n z = s32[] constant(0)\n"
                           " t = (s32[], f32[8], token[]) tuple(z, p, a)\n w = (s32[], f32[8], token[]) while(t), "
                           "condition=less, body=body\n" RECV("r") RECV_DONE("d", "r") RECV("q")
                               RECV_DONE("e", "q") " ROOT o = f32[8] get-tuple-element(w), index=1\n}\n",
        "v2-8"));
}
