// SPDX-License-Identifier: Apache-2.0
// Writes the step in the Trace Event Format's JSON object form (the document of that name by Google; Perfetto reads it
// too): names first, then operations as complete events, flows from where the device asks for a transfer through the
// transfer to where the device goes on after it, and counters of memory, HBM and links. Times are microseconds there.
//
// The operations are those of the slowest device. With stragglers a second process shows the fastest one, which does
// the same in less time and waits at the next collective.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "emulator/report.h"
#include "emulator/report/json_count.h"
#include "emulator/report/unfold.h"

// Runs of operations in a trace; with more, loops have three iterations.
#define MOST_RUNS 100000
// Lines of the network: events of one line must not overlap in part, and more transfers at a time are not to be seen.
#define MOST_LANES 16

enum { kSlowestProcess = 1, kFastestProcess = 2 };
enum { kDeviceLine = 1, kFirstNetworkLine = 2 };

typedef struct Run {
    const EmuOp *op;
    int64_t start;
    int64_t iteration, iterations;  // of the innermost loop around it
    int64_t line;
} Run;

typedef struct Trace {
    HloJsonWriter *writer;
    const EmuReport *report;
    Run *runs;  // in the order of the program, loops before what is in them
    int64_t run_count, run_capacity;
    int64_t *kernels;  // the runs of what the device itself executes, except for loops, by time
    int64_t kernel_count;
    int64_t ends[MOST_LANES];  // of the last transfer on each line of the network
    int lane_count;
    int64_t flow_count;
    bool no_memory;
} Trace;

// ---- runs

// The line for a transfer: the first that is free, or the last one.
static int lane_of(Trace *trace, const EmuOp *op, int64_t start) {
    int lane = 0;
    while (lane < MOST_LANES - 1 && trace->ends[lane] > start) lane++;
    if (lane >= trace->lane_count) trace->lane_count = lane + 1;
    if (trace->ends[lane] < start + op->duration) trace->ends[lane] = start + op->duration;
    return lane;
}

static void add_run(void *context, const EmuOp *op, int64_t start, int64_t iteration, int64_t iterations) {
    Trace *trace = context;
    if (trace->run_count == trace->run_capacity) {
        const int64_t capacity = trace->run_capacity ? 2 * trace->run_capacity : 1024;
        Run *runs = trace->no_memory ? NULL : hlo_reallocate(trace->runs, (size_t)capacity * sizeof(*runs));
        if (!runs) {
            trace->no_memory = true;
            return;
        }
        trace->runs = runs;
        trace->run_capacity = capacity;
    }
    const int64_t line = op->network ? kFirstNetworkLine + lane_of(trace, op, start) : kDeviceLine;
    trace->runs[trace->run_count++] = (Run){op, start, iteration, iterations, line};
}

// Whether other operations run inside of this one: a loop, a conditional or a call.
static bool has_inner(const EmuReport *report, const EmuOp *op) {
    return op + 1 < report->ops + report->op_count && op[1].depth > op->depth;
}

static void find_kernels(Trace *trace) {
    trace->kernels = hlo_allocate((size_t)(trace->run_count ? trace->run_count : 1) * sizeof(*trace->kernels));
    if (!trace->kernels) {
        trace->no_memory = true;
        return;
    }
    for (int64_t i = 0; i < trace->run_count; i++) {
        const EmuOp *op = trace->runs[i].op;
        if (!op->network && op->duration > 0 && !has_inner(trace->report, op))
            trace->kernels[trace->kernel_count++] = i;
    }
}

// ---- events

static void begin_event(HloJsonWriter *writer, const char *phase, const char *name, int64_t process, int64_t line,
                        double start) {
    hlo_json_begin_object(writer);
    hlo_json_member_string(writer, "ph", phase);
    hlo_json_member_string(writer, "name", name);
    hlo_json_member_int64(writer, "pid", process);
    if (line) hlo_json_member_int64(writer, "tid", line);
    hlo_json_member_double(writer, "ts", start * 1e-6);
}

static void begin_arguments(HloJsonWriter *writer) {
    hlo_json_key(writer, "args");
    hlo_json_begin_object(writer);
}

// Ends the arguments and the event.
static void end_event(HloJsonWriter *writer) {
    hlo_json_end_object(writer);
    hlo_json_end_object(writer);
}

// Writes a metadata event about a process or a line: `what` with one argument `key`.
static void write_name(HloJsonWriter *writer, const char *what, int64_t process, int64_t line, const char *key,
                       const char *name) {
    hlo_json_begin_object(writer);
    hlo_json_member_string(writer, "ph", "M");
    hlo_json_member_string(writer, "name", what);
    hlo_json_member_int64(writer, "pid", process);
    hlo_json_member_int64(writer, "tid", line);
    begin_arguments(writer);
    hlo_json_member_string(writer, key, name);
    end_event(writer);
}

// Names a process as XLA's own profiles do, so that tools that look for devices find them. Without stragglers the
// device is any of them, and is number 0.
static void write_device_name(HloJsonWriter *writer, int64_t process, int64_t device, const char *label) {
    char name[64];
    snprintf(name, sizeof name, "/device:TPU:%lld", (long long)(device < 0 ? 0 : device));
    write_name(writer, "process_name", process, 0, "name", name);
    if (label) write_name(writer, "process_labels", process, 0, "labels", label);
    write_name(writer, "thread_name", process, kDeviceLine, "name", "XLA Ops");
}

static void write_run(const Trace *trace, const Run *run) {
    HloJsonWriter *writer = trace->writer;
    const EmuOp *op = run->op;
    begin_event(writer, "X", op->name, kSlowestProcess, run->line, (double)run->start);
    hlo_json_member_double(writer, "dur", (double)op->duration * 1e-6);
    hlo_json_member_string(writer, "cat", op->opcode);
    begin_arguments(writer);
    hlo_json_member_string(writer, "hlo_category", op->opcode);
    hlo_json_member_string(writer, "bound", emu_bound_name(op->bound));
    emu_json_count(writer, "flops", op->flops);
    emu_json_count(writer, "bytes_accessed", op->bytes);
    hlo_json_member_int64(writer, "count", op->count);
    if (run->iterations > 1) hlo_json_member_int64(writer, "iteration", run->iteration);
    if (*op->source) hlo_json_member_string(writer, "source", op->source);
    if (*op->scope) hlo_json_member_string(writer, "tf_op", op->scope);
    end_event(writer);
}

// ---- flows

// The number of kernels that start before `when`; of those, the last one is asked for a flow's beginning.
static int64_t kernels_before(const Trace *trace, int64_t when) {
    int64_t low = 0, high = trace->kernel_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (trace->runs[trace->kernels[middle]].start < when)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void write_flow_step(Trace *trace, const char *phase, int64_t line, double time) {
    HloJsonWriter *writer = trace->writer;
    begin_event(writer, phase, "transfer", kSlowestProcess, line, time);
    hlo_json_member_string(writer, "cat", "flow");
    hlo_json_member_int64(writer, "id", trace->flow_count);
    if (*phase == 'f') hlo_json_member_string(writer, "bp", "e");
    begin_arguments(writer);
    end_event(writer);
}

// A moment inside a run, near its beginning or its end, which a viewer attributes to it and to no other.
static double moment_in(const Run *run, bool at_end) {
    const double duration = (double)run->op->duration, margin = duration < 2000 ? duration / 2 : 1000;
    return (double)run->start + (at_end ? duration - margin : margin);
}

// Writes the flow of a transfer: from the kernel after which the device asks for it, to the one before which the device
// waits for it. What has neither, at the ends of a program or in another iteration, has a shorter flow, or none.
static void write_flow(Trace *trace, const Run *transfer) {
    const EmuOp *op = transfer->op;
    const int64_t shift = transfer->start - op->start;
    const int64_t before = kernels_before(trace, op->issued + shift) - 1;
    const int64_t after = op->awaited < 0 ? trace->kernel_count : kernels_before(trace, op->awaited + shift);
    const bool has_begin = before >= 0, has_end = after < trace->kernel_count;
    if (op->duration <= 0 || (!has_begin && !has_end)) return;
    trace->flow_count++;
    if (has_begin) {
        const Run *producer = &trace->runs[trace->kernels[before]];
        write_flow_step(trace, "s", kDeviceLine, moment_in(producer, true));
    }
    write_flow_step(trace, !has_begin ? "s" : has_end ? "t" : "f", transfer->line, moment_in(transfer, false));
    if (has_end) {
        const Run *consumer = &trace->runs[trace->kernels[after]];
        write_flow_step(trace, "f", kDeviceLine, moment_in(consumer, false));
    }
}

// ---- counters

// A point of a curve, which both viewers draw.
static void write_point(HloJsonWriter *writer, const char *name, int64_t time, const char *unit, double value) {
    begin_event(writer, "C", name, kSlowestProcess, 0, (double)time);
    begin_arguments(writer);
    hlo_json_member_double(writer, unit, value);
    end_event(writer);
}

static void write_memory(HloJsonWriter *writer, const EmuMemoryPoint *point) {
    begin_event(writer, "C", "HBM", kSlowestProcess, 0, (double)point->start);
    begin_arguments(writer);
    hlo_json_member_int64(writer, "bytes", point->bytes);
    end_event(writer);
}

// Bytes by picoseconds as GB/s.
static double rate(double bytes, int64_t picoseconds) {
    return picoseconds > 0 ? bytes * 1e3 / (double)picoseconds : 0;
}

// The traffic of HBM: that of the kernel that runs.
static void write_hbm_traffic(const Trace *trace) {
    int64_t end = -1;
    double last = 0;
    for (int64_t i = 0; i < trace->kernel_count; i++) {
        const Run *run = &trace->runs[trace->kernels[i]];
        if (end >= 0 && run->start > end && last > 0) write_point(trace->writer, "HBM traffic", end, "GB/s", last = 0);
        const double now = rate(run->op->bytes, run->op->duration);
        if (now != last) write_point(trace->writer, "HBM traffic", run->start, "GB/s", last = now);
        end = run->start + run->op->duration;
    }
    if (last > 0) write_point(trace->writer, "HBM traffic", end, "GB/s", 0);
}

// The beginning or the end of a transfer.
typedef struct Change {
    int64_t time;
    double rate, link_rate;  // of the transfer; negative at its end
} Change;

static int compare_changes(const void *a, const void *b) {
    const Change *first = a, *second = b;
    if (first->time != second->time) return first->time < second->time ? -1 : 1;
    return (first->rate > second->rate) - (first->rate < second->rate);  // ends before beginnings
}

// The busiest link among those of the transfers that run: the largest of `active`.
static double largest(const double *active, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        if (active[i] > most) most = active[i];
    return most;
}

// Writes the curves of all transfers of one bound: what a device sends and, of the network, what the busiest link
// carries. The transfers that run at a time are few, as each occupies links of its own.
static void write_transfers(Trace *trace, EmuBound bound) {
    Change *changes = hlo_allocate((size_t)(2 * trace->run_count + 1) * sizeof(*changes));
    double *active = hlo_allocate((size_t)(trace->run_count + 1) * sizeof(*active));
    int64_t count = 0, active_count = 0;
    trace->no_memory |= !changes || !active;
    for (int64_t i = 0; i < trace->run_count && !trace->no_memory; i++) {
        const Run *run = &trace->runs[i];
        if (run->op->bound != bound || run->op->duration <= 0) continue;
        const double sent = rate(run->op->bytes, run->op->duration),
                     link = rate(run->op->link_bytes, run->op->duration);
        changes[count++] = (Change){run->start, sent, link};
        changes[count++] = (Change){run->start + run->op->duration, -sent, -link};
    }
    if (count) qsort(changes, (size_t)count, sizeof(*changes), compare_changes);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const Change *change = &changes[i];
        sum += change->rate;
        if (change->link_rate > 0) {
            active[active_count++] = change->link_rate;
        } else {
            int64_t at = 0;
            while (at < active_count && active[at] != -change->link_rate) at++;
            if (at < active_count) active[at] = active[--active_count];
        }
        if (i + 1 < count && changes[i + 1].time == change->time) continue;
        if (!active_count) sum = 0;  // what rounding has left
        const bool is_network = bound == EMU_BOUND_NETWORK;
        write_point(trace->writer, is_network ? "network" : "host link", change->time, "GB/s", sum);
        if (is_network) write_point(trace->writer, "busiest link", change->time, "GB/s", largest(active, active_count));
    }
    hlo_free(changes);
    hlo_free(active);
}

// ---- stragglers

// Writes the fastest device: its kernels follow each other from the end of a wait, each in its share of the time.
static void write_fastest(const Trace *trace) {
    HloJsonWriter *writer = trace->writer;
    int64_t end = -1;  // of the slowest device's last kernel
    double own_end = 0;
    for (int64_t i = 0; i < trace->kernel_count; i++) {
        const Run *run = &trace->runs[trace->kernels[i]];
        const EmuOp *op = run->op;
        const double duration = (double)op->duration / trace->report->slowness;
        const double start = run->start == end ? own_end : (double)run->start;
        begin_event(writer, "X", op->name, kFastestProcess, kDeviceLine, start);
        hlo_json_member_double(writer, "dur", duration * 1e-6);
        hlo_json_member_string(writer, "cat", op->opcode);
        begin_arguments(writer);
        hlo_json_member_string(writer, "hlo_category", op->opcode);
        end_event(writer);
        end = run->start + op->duration;
        own_end = start + duration;
    }
}

// ---- the whole

static void write_events(Trace *trace) {
    HloJsonWriter *writer = trace->writer;
    const EmuReport *report = trace->report;
    const bool has_straggler = report->slowest_device >= 0;
    char label[64];
    snprintf(label, sizeof label, "%.4g times slower", report->slowness);
    write_device_name(writer, kSlowestProcess, report->slowest_device, has_straggler ? label : NULL);
    for (int lane = 0; lane < trace->lane_count; lane++)
        write_name(writer, "thread_name", kSlowestProcess, kFirstNetworkLine + lane, "name", "Async XLA Ops");
    if (has_straggler) write_device_name(writer, kFastestProcess, report->fastest_device, NULL);
    for (int64_t i = 0; i < trace->run_count; i++) write_run(trace, &trace->runs[i]);
    if (has_straggler) write_fastest(trace);
    for (int64_t i = 0; i < trace->run_count; i++)
        if (trace->runs[i].op->network) write_flow(trace, &trace->runs[i]);
    for (int64_t i = 0; i < report->memory_count; i++) write_memory(writer, &report->memory[i]);
    write_hbm_traffic(trace);
    write_transfers(trace, EMU_BOUND_NETWORK);
    write_transfers(trace, EMU_BOUND_HOST);
}

void emu_report_write_chrome_trace(const EmuReport *report, HloText *text) {
    assert(report && text);
    HloJsonWriter writer = {.text = text, .lines = 2};
    Trace trace = {.writer = &writer, .report = report};
    const bool whole = emu_unfold(report, MOST_RUNS, add_run, &trace);
    find_kernels(&trace);
    hlo_json_begin_object(&writer);
    hlo_json_member_string(&writer, "displayTimeUnit", "ns");
    hlo_json_key(&writer, "traceEvents");
    hlo_json_begin_array(&writer);
    if (!trace.no_memory) write_events(&trace);
    hlo_json_end_array(&writer);
    hlo_json_key(&writer, "otherData");
    hlo_json_begin_object(&writer);
    hlo_json_member_string(&writer, "iterations of loops", whole ? "all" : "the first, the middle and the last");
    hlo_json_end_object(&writer);
    hlo_json_end_object(&writer);
    hlo_text_char(text, '\n');
    if (trace.no_memory) text->failed = true;
    hlo_free(trace.runs);
    hlo_free(trace.kernels);
}
