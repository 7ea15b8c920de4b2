// SPDX-License-Identifier: Apache-2.0
// Writes the report for programs (JSON, with the documented keys) and for people. Inside the emulator time is in whole
// picoseconds, so that sums do not depend on their order; only the report converts it to seconds.
//
// These are three forms of one EmuReport, which is complete by now and only read: JSON for programs, a summary for
// people, and, for a program that does not fit, a list of the buffers that take its memory. The summary has a few rows
// of each list, enough to show where the time is spent; JSON has all. Traces and pages have files of their own.
#include "emulator/report.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/report/json_count.h"
#include "emulator/report/range.h"

// Rows of the lists in the summary.
#define SUMMARY_ROWS 12
// Buffers in the report of a program that does not fit.
#define LARGEST_ROWS 5

static double seconds(int64_t picoseconds) {
    return (double)picoseconds * 1e-12;
}

static void json_seconds(HloJsonWriter *writer, const char *key, int64_t picoseconds) {
    hlo_json_member_double(writer, key, seconds(picoseconds));
}

// Writes operations in the order of the timeline. `depth` distinguishes the bodies of loops from the operations beside
// them, `count` is the number of times that they run.
static void json_ops(HloJsonWriter *writer, const EmuReport *report) {
    hlo_json_key(writer, "ops");
    hlo_json_begin_array(writer);
    for (int64_t i = 0; i < report->op_count; i++) {
        const EmuOp *op = &report->ops[i];
        hlo_json_begin_object(writer);
        hlo_json_member_string(writer, "name", op->name);
        hlo_json_member_string(writer, "opcode", op->opcode);
        json_seconds(writer, "start", op->start);
        json_seconds(writer, "duration", op->duration);
        hlo_json_member_string(writer, "bound", emu_bound_name(op->bound));
        emu_json_count(writer, "flops", op->flops);
        emu_json_count(writer, "bytes", op->bytes);
        hlo_json_member_int64(writer, "count", op->count);
        hlo_json_member_int64(writer, "depth", op->depth);
        if (*op->axes) hlo_json_member_string(writer, "axes", op->axes);
        if (*op->source) hlo_json_member_string(writer, "source", op->source);
        if (*op->scope) hlo_json_member_string(writer, "scope", op->scope);
        hlo_json_end_object(writer);
    }
    hlo_json_end_array(writer);
}

// The use of a link is a share of the step, which can be compared between links and programs, unlike bytes.
static void json_links(HloJsonWriter *writer, const EmuReport *report) {
    const double step = seconds(report->step_picoseconds);
    hlo_json_key(writer, "links");
    hlo_json_begin_array(writer);
    for (int64_t i = 0; i < report->link_count; i++) {
        const EmuLinkUse *link = &report->links[i];
        hlo_json_begin_object(writer);
        hlo_json_member_int64(writer, "from", link->from);
        hlo_json_member_int64(writer, "to", link->to);
        emu_json_count(writer, "bytes", link->bytes);
        hlo_json_member_double(writer, "busy", step > 0 ? seconds(link->busy) / step : 0);
        hlo_json_end_object(writer);
    }
    hlo_json_end_array(writer);
}

// The largest come first, as in the report.
static void json_buffers(HloJsonWriter *writer, const EmuReport *report) {
    hlo_json_key(writer, "buffers");
    hlo_json_begin_array(writer);
    for (int64_t i = 0; i < report->buffer_count; i++) {
        const EmuBufferUse *buffer = &report->buffers[i];
        hlo_json_begin_object(writer);
        hlo_json_member_string(writer, "name", buffer->instruction);
        hlo_json_member_string(writer, "kind", buffer->kind);
        hlo_json_member_string(writer, "shape", buffer->shape);
        hlo_json_member_int64(writer, "bytes", buffer->bytes);
        hlo_json_member_int64(writer, "unpadded_bytes", buffer->unpadded_bytes);
        hlo_json_member_string(writer, "source", buffer->source);
        hlo_json_member_string(writer, "role", buffer->role);
        if (*buffer->loop) hlo_json_member_string(writer, "in", buffer->loop);
        hlo_json_end_object(writer);
    }
    hlo_json_end_array(writer);
}

// Only of programs that do not fit.
static void json_remedies(HloJsonWriter *writer, const EmuReport *report) {
    if (!emu_report_out_of_memory(report)) return;
    hlo_json_key(writer, "remedies");
    hlo_json_begin_array(writer);
    for (int64_t i = 0; i < report->remedy_count; i++) {
        const EmuRemedy *remedy = &report->remedies[i];
        hlo_json_begin_object(writer);
        hlo_json_member_string(writer, "what", remedy->what);
        if (remedy->error) {
            hlo_json_member_string(writer, "error", remedy->error);
        } else {
            hlo_json_member_bool(writer, "fits", remedy->hbm_peak_bytes <= remedy->hbm_capacity_bytes);
            hlo_json_member_int64(writer, "hbm_peak_bytes", remedy->hbm_peak_bytes);
            hlo_json_member_int64(writer, "hbm_capacity_bytes", remedy->hbm_capacity_bytes);
            json_seconds(writer, "step_seconds", remedy->step_picoseconds);
        }
        hlo_json_end_object(writer);
    }
    hlo_json_end_array(writer);
}

// The upper end is null where it is not known.
static void json_range(HloJsonWriter *writer, const EmuReport *report) {
    json_seconds(writer, "step_low_seconds", report->step_low_picoseconds);
    hlo_json_key(writer, "step_high_seconds");
    if (report->step_high_picoseconds)
        hlo_json_double(writer, seconds(report->step_high_picoseconds));
    else
        hlo_json_null(writer);
    hlo_json_key(writer, "range");
    hlo_json_begin_array(writer);
    for (int64_t i = 0; i < report->range_part_count; i++) {
        const EmuRangePart *part = &report->range_parts[i];
        hlo_json_begin_object(writer);
        hlo_json_member_string(writer, "part", part->name);
        hlo_json_member_double(writer, "share", part->share);
        hlo_json_member_double(writer, "below", part->below);
        hlo_json_member_double(writer, "above", part->above);
        hlo_json_member_int64(writer, "measured", part->rows);
        hlo_json_member_int64(writer, "measured_here", part->rows_here);
        hlo_json_end_object(writer);
    }
    hlo_json_end_array(writer);
}

// Scripts rely on these names (meshlo emulate --json): seconds are doubles, amounts integers. Members that describe
// faults are present only with faults.
void emu_report_json(HloJsonWriter *writer, const EmuReport *report) {
    assert(writer && report);
    hlo_json_begin_object(writer);
    hlo_json_member_string(writer, "topology", report->topology);
    hlo_json_member_string(writer, "device_kind", report->device_kind);
    hlo_json_member_string(writer, "module", report->module);
    hlo_json_member_string(writer, "mesh", report->mesh);
    hlo_json_member_string(writer, "mesh_source", report->mesh_source);
    hlo_json_member_int64(writer, "num_devices", report->num_devices);
    hlo_json_member_int64(writer, "slice_devices", report->slice_devices);
    json_seconds(writer, "step_seconds", report->step_picoseconds);
    json_range(writer, report);
    json_seconds(writer, "launch_seconds", report->launch_picoseconds);
    json_seconds(writer, "compute_seconds", report->compute_picoseconds);
    json_seconds(writer, "memory_seconds", report->memory_picoseconds);
    json_seconds(writer, "collective_seconds", report->collective_picoseconds);
    json_seconds(writer, "exposed_collective_seconds", report->exposed_picoseconds);
    json_seconds(writer, "exposed_copy_seconds", report->copy_picoseconds);
    emu_json_count(writer, "flops_per_device", report->flops_per_device);
    emu_json_count(writer, "matrix_flops_per_device", report->matrix_flops_per_device);
    emu_json_count(writer, "hbm_bytes_per_device", report->hbm_bytes_per_device);
    hlo_json_member_double(writer, "recomputed_flops_per_device", report->recomputed_flops_per_device);
    hlo_json_member_double(writer, "hfu", report->hfu);
    hlo_json_member_double(writer, "mfu", report->mfu);
    emu_json_count(writer, "model_flops_per_device", report->model_flops_per_device);
    if (report->tokens > 0 && report->step_picoseconds)
        hlo_json_member_double(writer, "tokens_per_second", report->tokens / seconds(report->step_picoseconds));
    hlo_json_member_int64(writer, "hbm_peak_bytes", report->hbm_peak_bytes);
    hlo_json_member_int64(writer, "hbm_capacity_bytes", report->hbm_capacity_bytes);
    hlo_json_member_bool(writer, "fits", !emu_report_out_of_memory(report));
    hlo_json_member_int64(writer, "argument_bytes", report->argument_bytes);
    hlo_json_member_int64(writer, "output_bytes", report->output_bytes);
    hlo_json_member_int64(writer, "alias_bytes", report->alias_bytes);
    hlo_json_member_int64(writer, "temp_bytes", report->temp_bytes);
    hlo_json_member_int64(writer, "collective_bytes_per_device", report->collective_bytes_per_device);
    hlo_json_member_int64(writer, "unknown_trip_counts", report->unknown_trip_counts);
    hlo_json_member_int64(writer, "body_calls", report->body_calls);
    hlo_json_member_int64(writer, "stated_calls", report->stated_calls);
    hlo_json_member_int64(writer, "unknown_calls", report->unknown_calls);
    if (report->unknown_call) {
        hlo_json_member_string(writer, "unknown_call", report->unknown_call);
    }
    if (*report->faults) {
        hlo_json_member_string(writer, "fault", report->faults);
        json_seconds(writer, "healthy_step_seconds", report->healthy_step_picoseconds);
    }
    json_ops(writer, report);
    json_links(writer, report);
    json_buffers(writer, report);
    json_remedies(writer, report);
    hlo_json_end_object(writer);
}

void emu_report_write_json(const EmuReport *report, HloText *text) {
    HloJsonWriter writer = {.text = text, .lines = 2};
    emu_report_json(&writer, report);
    hlo_text_char(text, '\n');
}

// Prints powers of 1024 with XLA's single letters, as in its own memory reports.
void emu_print_bytes(int64_t bytes, HloText *text) {
    assert(text);
    static const char units[] = "KMGT";
    double value = (double)bytes;
    int unit = -1;
    while ((value >= 1024 || value <= -1024) && unit < 3) {
        value /= 1024;
        unit++;
    }
    if (unit < 0)
        hlo_text_format(text, "%lldB", (long long)bytes);
    else
        hlo_text_format(text, "%.2f%c", value, units[unit]);
}

void emu_print_size(int64_t bytes, HloText *text) {
    hlo_text_size(text, bytes);
}

void emu_print_time(int64_t picoseconds, HloText *text) {
    assert(text);
    const double t = (double)picoseconds;
    if (t >= 1e12)
        hlo_text_format(text, "%.3f s", t * 1e-12);
    else if (t >= 1e9)
        hlo_text_format(text, "%.3f ms", t * 1e-9);
    else
        hlo_text_format(text, "%.3f µs", t * 1e-6);
}

const char *emu_utilisation_name(bool names_scopes) {
    return names_scopes ? "MFU" : "HFU";
}

void emu_print_time_in_column(int64_t picoseconds, int width, HloText *text) {
    HloText cell = {0};
    emu_print_time(picoseconds, &cell);
    const char *time = cell.data ? cell.data : "";
    // The micro sign has two bytes and takes one column.
    hlo_text_format(text, "%*s", width + (strstr(time, "µ") != NULL), time);
    hlo_text_free(&cell);
}

// Prints shares of the step; they add up to it unless something is hidden.
static void print_part(HloText *text, const char *name, int64_t picoseconds, int64_t whole) {
    hlo_text_format(text, "  %-22s ", name);
    emu_print_time(picoseconds, text);
    hlo_text_format(text, "  %5.1f %%\n", whole > 0 ? 100 * (double)picoseconds / (double)whole : 0);
}

static void print_amount(HloText *text, const char *name, int64_t bytes) {
    hlo_text_format(text, "  %-22s ", name);
    hlo_text_size(text, bytes);
    hlo_text_char(text, '\n');
}

// An amount of arithmetic: "1.716 GFLOP".
static void print_flops(double flops, HloText *text) {
    static const char *const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"};
    size_t unit = 0;
    for (; flops >= 1000 && unit + 1 < HLO_COUNT_OF(units); unit++) flops /= 1000;
    hlo_text_format(text, unit ? "%.4g %s" : "%.0f %s", flops, units[unit]);
}

// Operations that a reader cannot tell apart but by their names: the products of equal layers, or of one layer's
// queries, keys and values.
typedef struct Alike {
    const EmuOp *first;
    int64_t count;
    double total;  // of all of them, in picoseconds
} Alike;

// To three digits: equal products differ by less, by where their operands are.
static int64_t rounded(int64_t duration) {
    int64_t unit = 1;
    while (duration / unit >= 1000) unit *= 10;
    return (duration + unit / 2) / unit * unit;
}

static int compare_looks(const void *left, const void *right) {
    const EmuOp *a = ((const Alike *)left)->first, *b = ((const Alike *)right)->first;
    const int64_t time_a = rounded(a->duration), time_b = rounded(b->duration);
    if (time_a != time_b) return time_a < time_b ? -1 : 1;
    if (a->count != b->count) return a->count < b->count ? -1 : 1;
    if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
    const int by_opcode = strcmp(a->opcode, b->opcode);
    return by_opcode ? by_opcode : strcmp(a->source, b->source);
}

// In the order of the program where that does not tell, since qsort() keeps none.
static int compare_places(const void *left, const void *right) {
    const int by_looks = compare_looks(left, right);
    const EmuOp *a = ((const Alike *)left)->first, *b = ((const Alike *)right)->first;
    return by_looks ? by_looks : (a > b) - (a < b);
}

static int compare_totals(const void *left, const void *right) {
    const double a = ((const Alike *)left)->total, b = ((const Alike *)right)->total;
    const EmuOp *p = ((const Alike *)left)->first, *q = ((const Alike *)right)->first;
    return a != b ? (a < b) - (a > b) : (p > q) - (p < q);
}

// Fills `list` with the operations that take time, alike ones together, the longest first. Returns how many.
static int64_t list_longest(const EmuReport *report, Alike *list) {
    int64_t count = 0, kinds = 0;
    for (int64_t i = 0; i < report->op_count; i++)
        if (report->ops[i].bound != EMU_BOUND_NONE && report->ops[i].duration > 0)
            list[count++] = (Alike){&report->ops[i], 1, (double)report->ops[i].duration * (double)report->ops[i].count};
    qsort(list, (size_t)count, sizeof *list, compare_places);
    for (int64_t i = 0; i < count; i++) {
        if (!kinds || compare_looks(&list[kinds - 1], &list[i]) != 0) {
            list[kinds++] = list[i];
            continue;
        }
        list[kinds - 1].count++;
        list[kinds - 1].total += list[i].total;
    }
    qsort(list, (size_t)kinds, sizeof *list, compare_totals);
    return kinds;
}

static void print_alike(const EmuReport *report, const Alike *alike, HloText *text) {
    const EmuOp *op = alike->first;
    const double total = alike->total, step = (double)report->step_picoseconds;
    emu_print_time_in_column(total < 9e18 ? (int64_t)total : INT64_MAX, 12, text);
    hlo_text_format(text, "  %5.1f %%  ", step > 0 ? 100 * total / step : 0);
    if (alike->count > 1) hlo_text_format(text, "%lld x ", (long long)alike->count);
    if (op->count != 1) hlo_text_format(text, "%lld x ", (long long)op->count);
    if (alike->count > 1 || op->count != 1) {
        emu_print_time((int64_t)(total / (double)alike->count / (double)op->count + 0.5), text);
        hlo_text_string(text, "  ");
    }
    hlo_text_string(text, op->name);
    if (alike->count > 1) hlo_text_format(text, " and %lld alike", (long long)(alike->count - 1));
    hlo_text_format(text, " (%s), bound by %s%s%s%s\n", op->opcode, emu_bound_name(op->bound),
                    op->in_shorter_branch ? ", in a shorter branch, which does not count" : "", *op->source ? ", " : "",
                    op->source);
}

// Prints the operations with the longest total time, longest first.
static void print_longest(const EmuReport *report, HloText *text) {
    Alike *list = hlo_allocate_zeroed((size_t)report->op_count + 1, sizeof *list);
    if (!list) return;
    const int64_t count = list_longest(report, list);
    for (int64_t i = 0; i < count && i < SUMMARY_ROWS; i++) print_alike(report, &list[i], text);
    hlo_free(list);
}

// Prints the first of the busiest links.
static void print_busiest_link(const EmuReport *report, HloText *text) {
    const EmuLinkUse *busiest = NULL;
    double total = 0;
    for (int64_t i = 0; i < report->link_count; i++) {
        if (!busiest || report->links[i].busy > busiest->busy) busiest = &report->links[i];
        total += report->links[i].bytes;
    }
    if (!busiest) return;
    hlo_text_format(text, "links: %lld carry ", (long long)report->link_count);
    emu_print_size(total < 0x1p62 ? (int64_t)total : INT64_MAX, text);
    hlo_text_format(text, "; the busiest, %lld to %lld, ", (long long)busiest->from, (long long)busiest->to);
    emu_print_size(busiest->bytes < 0x1p62 ? (int64_t)busiest->bytes : INT64_MAX, text);
    hlo_text_format(text, " in %.1f %% of the step\n",
                    100 * (double)busiest->busy / (double)(report->step_picoseconds ? report->step_picoseconds : 1));
}

// The rate of the model's operations, as training frameworks print it, and what it is of the peak.
static void print_utilisation(const EmuReport *report, HloText *text) {
    const double step = seconds(report->step_picoseconds);
    hlo_text_string(text, " a device, ");
    if (report->model_flops_per_device > 0 && step > 0) {
        print_flops(report->model_flops_per_device / step, text);
        hlo_text_string(text, "/s, ");
    }
    hlo_text_format(text, "%s %.1f %%", emu_utilisation_name(report->names_scopes), 100 * report->mfu);
    const char *rest = report->recomputed_flops_per_device > 0 ? "with recomputation" : "of all products";
    if (report->hfu > report->mfu) hlo_text_format(text, ", %s HFU %.1f %%", rest, 100 * report->hfu);
    if (report->tokens > 0 && step > 0) hlo_text_format(text, ", %.4g tokens/s", report->tokens / step);
}

// How many devices compute a product alike from which on the report says so.
#define NOTABLE_COPIES 1.5

// Notes of what makes utilisations unusual.
static void print_share_of_work(const EmuReport *report, HloText *text) {
    const double copies = report->mfu > 0 ? report->hfu / report->mfu : 1;
    const bool is_counted = report->recomputed_flops_per_device <= 0 && report->num_devices > 1;
    if (is_counted && copies >= NOTABLE_COPIES && copies <= (double)report->num_devices * 1.01)
        hlo_text_format(text, "note: on average %.3g of the %lld devices compute the same products, which count once\n",
                        copies, (long long)report->num_devices);
    if (report->mfu > 1 || report->hfu > 1)
        hlo_text_string(
            text,
            "note: utilisation is relative to the peak for bf16; products of narrower types have a higher peak\n");
}

// Notes at the end report the model's assumptions: loops counted once, calls counted by their arrays.
void emu_report_write_summary(const EmuReport *report, HloText *text) {
    assert(report && text);
    hlo_text_format(text, "%s on %s (%s), %lld device%s\n", report->module, report->topology, report->device_kind,
                    (long long)report->num_devices, report->num_devices == 1 ? "" : "s");
    if (*report->mesh) hlo_text_format(text, "mesh: %s (%s)\n", report->mesh, report->mesh_source);
    hlo_text_string(text, "step: ");
    emu_print_time(report->step_picoseconds, text);
    hlo_text_string(text, ", ");
    emu_range_print(report, text);
    if (emu_report_out_of_memory(report)) hlo_text_string(text, ", if it ran: it does not fit the memory of a device");
    hlo_text_char(text, '\n');
    if (*report->faults) {
        hlo_text_format(text, "fault: %s; without it ", report->faults);
        emu_print_time(report->healthy_step_picoseconds, text);
        hlo_text_format(text, " (%+.1f %%)\n",
                        100 * ((double)report->step_picoseconds / (double)report->healthy_step_picoseconds - 1));
    }
    const int64_t step = report->step_picoseconds;
    if (report->launch_picoseconds)
        print_part(text, "launch", report->launch_picoseconds, step);
    else
        hlo_text_string(text, "  launch                 unknown: times are the device's\n");
    print_part(text, "compute", report->compute_picoseconds, step);
    print_part(text, "memory", report->memory_picoseconds, step);
    print_part(text, "exposed collectives", report->exposed_picoseconds, step);
    if (report->copy_picoseconds) print_part(text, "exposed copies", report->copy_picoseconds, step);
    print_part(text, "(all collectives)", report->collective_picoseconds, step);
    if (report->range_part_count) {
        hlo_text_string(text, "range: ");
        emu_range_print_basis(report, text);
        hlo_text_char(text, '\n');
    }
    hlo_text_string(text, "work: ");
    print_flops(report->flops_per_device, text);
    print_utilisation(report, text);
    hlo_text_string(text, "\nmemory: ");
    emu_print_size(report->hbm_peak_bytes, text);
    hlo_text_string(text, " of ");
    emu_print_size(report->hbm_capacity_bytes, text);
    hlo_text_char(text, '\n');
    print_amount(text, "arguments", report->argument_bytes);
    print_amount(text, "outputs", report->output_bytes);
    print_amount(text, "aliased", report->alias_bytes);
    print_amount(text, "temporaries", report->temp_bytes);
    print_busiest_link(report, text);
    if (report->num_devices < report->slice_devices)
        hlo_text_format(text, "note: %lld of the slice's %lld devices take no part\n",
                        (long long)(report->slice_devices - report->num_devices), (long long)report->slice_devices);
    if (!report->names_scopes && report->matrix_flops_per_device > 0)
        hlo_text_string(
            text,
            "note: the program names no scopes, so its utilisation is that of the hardware (HFU), with what is "
            "recomputed; for MFU lower it with as_text(debug_info=True)\n");
    print_share_of_work(report, text);
    if (report->unknown_trip_counts)
        hlo_text_format(text, "note: %lld loop%s of unknown length counted once\n",
                        (long long)report->unknown_trip_counts, report->unknown_trip_counts == 1 ? "" : "s");
    if (report->unknown_calls)
        hlo_text_format(
            text, "note: %lld custom call%s without a cost estimate counted by the arrays alone%s%s%s\n",
            (long long)report->unknown_calls, report->unknown_calls == 1 ? "" : "s", report->unknown_call ? ": " : "",
            report->unknown_call ? report->unknown_call : "",
            report->unknown_call && !report->unknown_call_runs ? ", for which there is no implementation" : "");
    hlo_text_string(text, "longest operations:\n");
    print_longest(report, text);
}

// One buffer of the out-of-memory report, in the wording of XLA:TPU's report, which people and
// scripts search for.
static void print_buffer(const EmuBufferUse *buffer, int64_t number, HloText *text) {
    assert(number >= 0);
    hlo_text_format(text, "\n  %lld. Size: ", (long long)number);
    emu_print_bytes(buffer->bytes, text);
    if (*buffer->op_name || *buffer->source)
        hlo_text_format(text, "\n     Operator: op_name=\"%s\"%s%s", buffer->op_name, *buffer->source ? " source=" : "",
                        buffer->source);
    if (*buffer->role) hlo_text_format(text, "\n     Role: %s", buffer->role);
    if (*buffer->loop) hlo_text_format(text, "\n     Alive in: %s", buffer->loop);
    hlo_text_format(text, "\n     Shape: %s\n     Unpadded size: ", buffer->shape);
    emu_print_bytes(buffer->unpadded_bytes, text);
    if (buffer->bytes > buffer->unpadded_bytes && buffer->unpadded_bytes > 0) {
        hlo_text_string(text, "\n     Extra memory due to padding: ");
        emu_print_bytes(buffer->bytes - buffer->unpadded_bytes, text);
        hlo_text_format(text, " (%.1fx expansion)", (double)buffer->bytes / (double)buffer->unpadded_bytes);
    }
    hlo_text_format(text, "\n     XLA label: %s\n     Allocation type: HLO %s\n     ==========================\n",
                    buffer->instruction, buffer->kind);
}

static void print_remedies(const EmuReport *report, HloText *text) {
    if (report->remedy_count) hlo_text_string(text, "\nTried, with the same program:\n");
    for (int64_t i = 0; i < report->remedy_count; i++) {
        const EmuRemedy *remedy = &report->remedies[i];
        hlo_text_format(text, "  %s: ", remedy->what);
        if (remedy->error) {
            hlo_text_format(text, "%s\n", remedy->error);
            continue;
        }
        emu_print_bytes(remedy->hbm_peak_bytes, text);
        hlo_text_string(text, " of ");
        emu_print_bytes(remedy->hbm_capacity_bytes, text);
        if (remedy->hbm_peak_bytes > remedy->hbm_capacity_bytes)
            hlo_text_string(text, ", does not fit\n");
        else
            hlo_text_format(text, ", fits; a step takes %.4g s\n", seconds(remedy->step_picoseconds));
    }
}

// Writes nothing if the program fits. "Reserved" is the memory that the chip's own software keeps (chips.def).
void emu_report_write_out_of_memory(const EmuReport *report, HloText *text) {
    assert(report && text);
    if (!emu_report_out_of_memory(report)) return;
    const int64_t over = report->hbm_peak_bytes - report->hbm_capacity_bytes;
    const int64_t program = report->hbm_peak_bytes - report->argument_bytes;
    hlo_text_string(
        text,
        "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: the program does not fit. Ran out of memory in memory "
        "space hbm. Used ");
    emu_print_bytes(report->hbm_peak_bytes, text);
    hlo_text_string(text, " of ");
    emu_print_bytes(report->hbm_capacity_bytes, text);
    hlo_text_string(text, " hbm. Exceeded hbm capacity by ");
    emu_print_bytes(over, text);
    hlo_text_string(text, ".\n\nTotal hbm usage >= ");
    emu_print_bytes(report->hbm_peak_bytes + report->hbm_reserved_bytes, text);
    hlo_text_string(text, ":\n    reserved          ");
    emu_print_bytes(report->hbm_reserved_bytes, text);
    hlo_text_string(text, "\n    program           ");
    emu_print_bytes(program, text);
    hlo_text_string(text, "\n    arguments         ");
    emu_print_bytes(report->argument_bytes, text);
    hlo_text_string(text, "\n\nProgram hbm requirement ");
    emu_print_bytes(program, text);
    hlo_text_string(text, ":\n    HLO temp          ");
    emu_print_bytes(report->temp_bytes, text);
    hlo_text_string(text, "\n    output            ");
    emu_print_bytes(report->output_bytes, text);
    hlo_text_string(text, " (aliased with arguments: ");
    emu_print_bytes(report->alias_bytes, text);
    hlo_text_string(text, ")\n\n  Largest allocations in hbm:\n");
    for (int64_t i = 0; i < report->buffer_count && i < LARGEST_ROWS; i++)
        print_buffer(&report->buffers[i], i + 1, text);
    print_remedies(report, text);
}
