// SPDX-License-Identifier: Apache-2.0
// Traces: runs nest, flows join runs, curves have the bytes of the report, and stragglers have a process of their own.
#include <criterion/criterion.h>
#include <string.h>

#include "emulator/emulator.h"
#include "hlo/text/text.h"

// Two products and an all-reduce that runs beside the second one, in a loop of five iterations.
static const char kLoop[] =
    "HloModule t, num_partitions=4\n"
    "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x,y) }\n"
    "body { p = (s32[], f32[4096,4096]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
    " a = f32[4096,4096] get-tuple-element(p), index=1\n one = s32[] constant(1)\n j = s32[] add(i,one)\n"
    " d = f32[4096,4096] dot(a,a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " r = f32[4096,4096] all-reduce-start(d), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, "
    "to_apply=add\n"
    " e = f32[4096,4096] dot(a,d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " q = f32[4096,4096] all-reduce-done(r)\n"
    " f = f32[4096,4096] dot(q,e), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " ROOT o = (s32[], f32[4096,4096]) tuple(j,f) }\n"
    "condition { p = (s32[], f32[4096,4096]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
    " n = s32[] constant(5)\n ROOT c = pred[] compare(i,n), direction=LT }\n"
    "ENTRY e { a = f32[4096,4096] parameter(0)\n z = s32[] constant(0)\n"
    " t = (s32[], f32[4096,4096]) tuple(z,a)\n"
    " w = (s32[], f32[4096,4096]) while(t), condition=condition, body=body\n"
    " ROOT g = f32[4096,4096] get-tuple-element(w), index=1 }\n";

// A conditional whose first branch is longer than the second one.
static const char kBranches[] =
    "HloModule t\n"
    "long { a = f32[2048,2048] parameter(0)\n"
    " b = f32[2048,2048] dot(a,a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " ROOT c = f32[2048,2048] dot(b,a), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n"
    "short { a = f32[2048,2048] parameter(0)\n s = f32[2048,2048] sine(a)\n ROOT n = f32[2048,2048] reverse(s), "
    "dimensions={0} }\n"
    "ENTRY e { k = s32[] parameter(0)\n a = f32[2048,2048] parameter(1)\n"
    " ROOT r = f32[2048,2048] conditional(k,a,a), branch_computations={long,short} }\n";

typedef struct Trace {
    EmuReport *report;
    HloArena *arena;
    const HloJsonValue *events;
} Trace;

static Trace trace_of(const char *program, const char *spec, const char *faults) {
    Trace trace = {.arena = hlo_arena_new()};
    HloModule *module = NULL;
    EmuTopology *topology = NULL;
    HloText text = {0};
    HloJsonValue *value = NULL;
    cr_assert_null(hlo_parse(program, strlen(program), NULL, &module));
    cr_assert_null(emu_topology_parse(spec, &topology));
    cr_assert_null(emu_simulate(module, topology, &(EmuOptions){.faults = faults}, &trace.report));
    emu_report_write_chrome_trace(trace.report, &text);
    cr_assert_null(hlo_json_parse(trace.arena, "trace", text.data, text.length, &value));
    trace.events = hlo_json_get(value, "traceEvents");
    hlo_text_free(&text);
    emu_topology_free(topology);
    hlo_module_free(module);
    return trace;
}

static void free_trace(Trace *trace) {
    emu_report_free(trace->report);
    hlo_arena_free(trace->arena);
}

static bool is_phase(const HloJsonValue *event, const char *phase) {
    return !strcmp(hlo_json_get(event, "ph")->string, phase);
}

static double number(const HloJsonValue *object, const char *key) {
    return hlo_json_get(object, key)->number;
}

static bool same_line(const HloJsonValue *a, const HloJsonValue *b) {
    return number(a, "pid") == number(b, "pid") && number(a, "tid") == number(b, "tid");
}

static int64_t count_runs(const Trace *trace, double process) {
    int64_t count = 0;
    for (int64_t i = 0; i < trace->events->count; i++)
        count += is_phase(trace->events->items[i], "X") && number(trace->events->items[i], "pid") == process;
    return count;
}

// Whether two runs of a line overlap without one being inside of the other. Times are microseconds with six decimals.
static bool overlap_in_part(const HloJsonValue *a, const HloJsonValue *b) {
    const double slack = 1e-6, begin_a = number(a, "ts"), end_a = begin_a + number(a, "dur"), begin_b = number(b, "ts"),
                 end_b = begin_b + number(b, "dur");
    return begin_a < begin_b - slack && begin_b < end_a - slack && end_a < end_b - slack;
}

static void expect_nested(const Trace *trace) {
    const HloJsonValue *events = trace->events;
    for (int64_t i = 0; i < events->count; i++)
        for (int64_t j = 0; j < events->count && is_phase(events->items[i], "X"); j++)
            if (is_phase(events->items[j], "X") && same_line(events->items[i], events->items[j]))
                cr_assert(!overlap_in_part(events->items[i], events->items[j]), "%s and %s",
                          hlo_json_get(events->items[i], "name")->string,
                          hlo_json_get(events->items[j], "name")->string);
}

// Integrates a curve: GB/s over microseconds, in bytes.
static double bytes_of_curve(const Trace *trace, const char *name) {
    double bytes = 0, last = 0, since = 0;
    for (int64_t i = 0; i < trace->events->count; i++) {
        const HloJsonValue *event = trace->events->items[i];
        if (!is_phase(event, "C") || strcmp(hlo_json_get(event, "name")->string, name) != 0) continue;
        const double now = number(event, "ts");
        cr_assert_geq(now, since);
        bytes += last * (now - since) * 1e3;
        last = number(hlo_json_get(event, "args"), "GB/s");
        since = now;
    }
    cr_assert_eq(last, 0, "%s ends", name);
    return bytes;
}

Test(emulator_trace, curves_have_the_bytes_of_the_report) {
    Trace trace = trace_of(kLoop, "v5e-4", NULL);
    double most = 0;
    for (int64_t i = 0; i < trace.report->link_count; i++)
        if (trace.report->links[i].bytes > most) most = trace.report->links[i].bytes;
    cr_assert_float_eq(bytes_of_curve(&trace, "HBM traffic") / trace.report->hbm_bytes_per_device, 1, 1e-6);
    cr_assert_float_eq(bytes_of_curve(&trace, "network") / (double)trace.report->collective_bytes_per_device, 1, 1e-6);
    cr_assert_float_eq(bytes_of_curve(&trace, "busiest link") / most, 1, 1e-6);
    expect_nested(&trace);
    free_trace(&trace);
}

// The run of an instruction that contains a moment of its line, or NULL.
static const char *run_at(const Trace *trace, const HloJsonValue *moment) {
    const HloJsonValue *inner = NULL;
    for (int64_t i = 0; i < trace->events->count; i++) {
        const HloJsonValue *event = trace->events->items[i];
        if (!is_phase(event, "X") || !same_line(event, moment)) continue;
        const double into = number(moment, "ts") - number(event, "ts");
        if (into >= 0 && into <= number(event, "dur") && (!inner || number(event, "dur") < number(inner, "dur")))
            inner = event;
    }
    return inner ? hlo_json_get(inner, "name")->string : NULL;
}

Test(emulator_trace, flows_lead_from_the_start_to_the_done) {
    static const struct { const char *phase, *run; } steps[] = {{"s", "d"}, {"t", "r"}, {"f", "f"}};
    Trace trace = trace_of(kLoop, "v5e-4", NULL);
    for (size_t step = 0; step < HLO_COUNT_OF(steps); step++) {
        int64_t count = 0;
        for (int64_t i = 0; i < trace.events->count; i++) {
            const HloJsonValue *event = trace.events->items[i];
            if (!is_phase(event, steps[step].phase)) continue;
            count++;
            const char *run = run_at(&trace, event);
            cr_assert_not_null(run);
            cr_assert_str_eq(run, steps[step].run);
        }
        cr_assert_eq(count, 5, "one %s for each iteration", steps[step].phase);
    }
    free_trace(&trace);
}

Test(emulator_trace, conditionals_show_the_branch_that_counts) {
    Trace trace = trace_of(kBranches, "v5e-1", NULL);
    int64_t shorter = 0;
    for (int64_t i = 0; i < trace.report->op_count; i++) shorter += trace.report->ops[i].in_shorter_branch;
    cr_assert_gt(shorter, 0);
    cr_assert_eq(count_runs(&trace, 1), 3, "the conditional and its two products");
    cr_assert_eq(count_runs(&trace, 1) + shorter, trace.report->op_count);
    expect_nested(&trace);
    free_trace(&trace);
}

Test(emulator_trace, stragglers_have_a_process_of_their_own) {
    Trace healthy = trace_of(kLoop, "v5e-4", NULL), trace = trace_of(kLoop, "v5e-4", "straggler:2:1.5");
    cr_assert_eq(healthy.report->slowest_device, -1);
    cr_assert_eq(count_runs(&healthy, 2), 0);
    cr_assert_eq(trace.report->slowest_device, 2);
    cr_assert_eq(trace.report->fastest_device, 0);
    cr_assert_float_eq(trace.report->slowness, 1.5, 1e-12);
    cr_assert_gt(count_runs(&trace, 2), 0);
    double slow = 0, fast = 0;
    for (int64_t i = 0; i < trace.events->count; i++) {
        const HloJsonValue *event = trace.events->items[i];
        if (!is_phase(event, "X") || strcmp(hlo_json_get(event, "name")->string, "e") != 0) continue;
        *(number(event, "pid") == 1 ? &slow : &fast) += number(event, "dur");
    }
    cr_assert_float_eq(slow / fast, 1.5, 1e-6);
    expect_nested(&trace);
    free_trace(&trace);
    free_trace(&healthy);
}
