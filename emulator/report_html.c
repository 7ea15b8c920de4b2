// SPDX-License-Identifier: Apache-2.0
// Writes the report as one self-contained HTML page: tiles with the parts of the step, the timeline as a drawing with a
// line for the device and one for the network, memory, the slice with its links coloured by utilisation, tables.
//
// The page has no scripts and loads no other file: it must open from an email or an archive of results in ten years.
// Interaction is left to the browser (titles of bars appear under the pointer). All text from the program (names,
// sources, shapes) passes through print_escaped(), since a name may contain text that a browser would take for a tag.
//
// Numbers are those of the report and of its JSON; only their units are chosen here.
#include <assert.h>
#include <math.h>

#include "emulator/draw.h"
#include "emulator/report.h"

// Rows of the tables, and bars of the timeline (the longest ones).
#define TABLE_ROWS 40
#define TIMELINE_BARS 4000
#define TIMELINE_WIDTH 1160.0

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>meshlo emulate</title><style>\n"
    "body{font:14px/1.45 sans-serif;margin:24px auto;max-width:1200px;padding:0 16px;color:#222}\n"
    "h1{font-size:20px}h2{font-size:16px;margin-top:28px}\n"
    ".tiles{display:flex;flex-wrap:wrap;gap:10px}.tile{border:1px solid #ccd;border-radius:6px;padding:8px 14px}\n"
    ".tile b{display:block;font-size:18px}.tile span{color:#667}\n"
    "table{border-collapse:collapse}td,th{padding:3px 12px 3px 0;text-align:left;border-bottom:1px solid #eee}\n"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}\n"
    "svg rect:hover{stroke:#000}\n</style></head><body>\n";

// Prints text without anything that a browser would take for a tag.
static void print_escaped(HloText *text, const char *plain) {
    assert(plain);
    for (; *plain; ++plain) {
        switch (*plain) {
            case '<': hlo_text_string(text, "&lt;"); break;
            case '>': hlo_text_string(text, "&gt;"); break;
            case '&': hlo_text_string(text, "&amp;"); break;
            case '"': hlo_text_string(text, "&quot;"); break;
            default: hlo_text_char(text, *plain);
        }
    }
}

// Prints a time with a suitable unit.
static void print_time(HloText *text, int64_t picoseconds) {
    double value = (double)picoseconds;
    if (value >= 1e12) {
        hlo_text_format(text, "%.3f s", value * 1e-12);
    } else if (value >= 1e9) {
        hlo_text_format(text, "%.3f ms", value * 1e-9);
    } else {
        hlo_text_format(text, "%.2f µs", value * 1e-6);
    }
}

static void print_time_tile(HloText *text, const char *label, int64_t picoseconds) {
    hlo_text_string(text, "<div class=\"tile\"><b>");
    print_time(text, picoseconds);
    hlo_text_format(text, "</b><span>%s</span></div>\n", label);
}

static void print_bytes_tile(HloText *text, const char *label, int64_t bytes) {
    hlo_text_string(text, "<div class=\"tile\"><b>");
    emu_print_bytes(bytes, text);
    hlo_text_format(text, "</b><span>%s</span></div>\n", label);
}

// Parts overlap on chips that compute in parallel to collectives, so they need not add up to the step; "exposed" is the
// time that is not hidden.
static void print_tiles(HloText *text, const EmuReport *report) {
    hlo_text_string(text, "<div class=\"tiles\">\n");
    print_time_tile(text, "step", report->step_picoseconds);
    print_time_tile(text, "compute", report->compute_picoseconds);
    print_time_tile(text, "memory", report->memory_picoseconds);
    print_time_tile(text, "collectives", report->collective_picoseconds);
    print_time_tile(text, "of them exposed", report->exposed_picoseconds);
    if (report->copy_picoseconds) print_time_tile(text, "exposed copies", report->copy_picoseconds);
    hlo_text_format(text, "<div class=\"tile\"><b>%.1f %%</b><span>model FLOP utilisation</span></div>\n",
                    100 * report->mfu);
    hlo_text_string(text, "</div>\n<h2>Memory of one device</h2>\n<div class=\"tiles\">\n");
    print_bytes_tile(text, "peak", report->hbm_peak_bytes);
    print_bytes_tile(text, "capacity", report->hbm_capacity_bytes);
    print_bytes_tile(text, "arguments", report->argument_bytes);
    print_bytes_tile(text, "results", report->output_bytes);
    print_bytes_tile(text, "shared by both", report->alias_bytes);
    print_bytes_tile(text, "temporaries", report->temp_bytes);
    hlo_text_string(text, "</div>\n");
}

// The colour shows the bound that the roofline found for the operation (emulator/cost.h): arithmetic, memory or
// network.
static const char *bar_colour(const EmuOp *op) {
    switch (op->bound) {
        case EMU_BOUND_NETWORK:
        case EMU_BOUND_HOST: return "#d5793b";
        case EMU_BOUND_MATRIX:
        case EMU_BOUND_VECTOR: return "#4a7ab8";
        case EMU_BOUND_MEMORY: return "#7fae6a";
        case EMU_BOUND_NONE: return "#b9bec8";
    }
    return "#b9bec8";
}

// Draws a bar for each operation at the top level, without the narrowest if there are too many to see. The limit is a
// quarter of a pixel once there are more than TIMELINE_BARS bars: a page with a hundred thousand rectangles is too slow
// to scroll. Bodies of loops (depth > 0) are below the bar of their loop.
static void print_timeline(HloText *text, const EmuReport *report) {
    double step = report->step_picoseconds > 0 ? (double)report->step_picoseconds : 1;
    double narrowest = report->op_count > TIMELINE_BARS ? step / TIMELINE_WIDTH / 4 : 0;
    hlo_text_format(text,
                    "<h2>Timeline</h2>\n<p>Blue: bound by arithmetic; green: by memory; orange: the network, or the "
                    "way to the host. Hold the "
                    "pointer over a bar.</p>\n<svg width=\"%.0f\" height=\"100\" viewBox=\"0 0 %.0f 100\">\n"
                    "<text x=\"0\" y=\"14\">device</text><text x=\"0\" y=\"64\">network</text>\n",
                    TIMELINE_WIDTH, TIMELINE_WIDTH);
    for (int64_t i = 0; i < report->op_count; ++i) {
        const EmuOp *op = &report->ops[i];
        double width = (double)op->duration / step * TIMELINE_WIDTH;
        if (op->depth > 0 || (double)op->duration < narrowest) continue;
        hlo_text_format(text, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"26\" fill=\"%s\"><title>",
                        (double)op->start / step * TIMELINE_WIDTH, op->network ? 70 : 20, fmax(width, 0.3),
                        bar_colour(op));
        print_escaped(text, op->name);
        hlo_text_format(text, " (%s) ", op->opcode);
        print_time(text, op->duration);
        if (*op->source) {
            hlo_text_char(text, ' ');
            print_escaped(text, op->source);
        }
        hlo_text_string(text, "</title></rect>\n");
    }
    hlo_text_string(text, "</svg>\n");
}

// Draws the memory that the device holds over time, as steps under the line of its capacity. The path consists of
// horizontal and vertical lines, point by point. It is scaled to the greater of its peak and the capacity, so that an
// overflow is visible.
static void print_memory_curve(HloText *text, const EmuReport *report) {
    const double step = report->step_picoseconds > 0 ? (double)report->step_picoseconds : 1, height = 120;
    const int64_t top =
        report->hbm_peak_bytes > report->hbm_capacity_bytes ? report->hbm_peak_bytes : report->hbm_capacity_bytes;
    const double scale = top > 0 ? height / (double)top : 0;
    const double capacity = height - (double)report->hbm_capacity_bytes * scale;
    hlo_text_format(text,
                    "<h2>Memory over time</h2>\n<svg width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
                    "<path fill=\"#c9d8ee\" stroke=\"#4a7ab8\" d=\"M0 %.0f",
                    TIMELINE_WIDTH, height + 4, TIMELINE_WIDTH, height + 4, height);
    for (int64_t i = 0; i < report->memory_count; ++i) {
        const EmuMemoryPoint *point = &report->memory[i];
        hlo_text_format(text, "H%.2fV%.2f", (double)point->start / step * TIMELINE_WIDTH,
                        height - (double)point->bytes * scale);
    }
    hlo_text_format(text,
                    "H%.0fV%.0fZ\"/>\n<line x1=\"0\" x2=\"%.0f\" y1=\"%.2f\" y2=\"%.2f\" stroke=\"#b03030\" "
                    "stroke-dasharray=\"6 4\"><title>capacity</title></line>\n</svg>\n",
                    TIMELINE_WIDTH, height, TIMELINE_WIDTH, capacity + 1, capacity + 1);
}

// The next longest operation below `limit` (by total time, then by position), or -1. It is called TABLE_ROWS times,
// O(operations) each: cheaper than sorting a copy of a long list for its first forty. Ties come in the order of the
// list, and each operation once.
static int64_t next_longest(const EmuReport *report, int64_t after) {
    assert(after >= -1);
    int64_t best = -1;
    double limit = after < 0 ? INFINITY : (double)report->ops[after].duration * (double)report->ops[after].count;
    double longest = -1;
    for (int64_t i = 0; i < report->op_count; ++i) {
        double total = (double)report->ops[i].duration * (double)report->ops[i].count;
        bool below = total < limit || (total == limit && i > after);
        if (!below || total <= longest) continue;
        longest = total;
        best = i;
    }
    return best;
}

static void print_operations(HloText *text, const EmuReport *report) {
    hlo_text_string(text,
                    "<h2>Longest operations</h2>\n<table><tr><th>name</th><th>opcode</th><th>time</th><th>runs</th>"
                    "<th>bound</th><th>FLOP</th><th>bytes</th><th>source</th></tr>\n");
    int64_t at = -1;
    for (int row = 0; row < TABLE_ROWS && (at = next_longest(report, at)) >= 0; ++row) {
        const EmuOp *op = &report->ops[at];
        hlo_text_string(text, "<tr><td>");
        print_escaped(text, op->name);
        hlo_text_format(text, "</td><td>%s</td><td class=\"n\">", op->opcode);
        print_time(text, op->duration);
        hlo_text_format(
            text, "</td><td class=\"n\">%lld</td><td>%s</td><td class=\"n\">%.3g</td><td class=\"n\">%.3g</td><td>",
            (long long)op->count, emu_bound_name(op->bound), op->flops, op->bytes);
        print_escaped(text, op->source);
        hlo_text_string(text, "</td></tr>\n");
    }
    hlo_text_string(text, "</table>\n");
}

static void print_buffers(HloText *text, const EmuReport *report) {
    hlo_text_string(
        text,
        "<h2>Largest buffers</h2>\n<table><tr><th>instruction</th><th>kind</th><th>shape</th><th>padded</th>"
        "<th>unpadded</th><th>source</th></tr>\n");
    for (int64_t i = 0; i < report->buffer_count && i < TABLE_ROWS; ++i) {
        const EmuBufferUse *buffer = &report->buffers[i];
        hlo_text_string(text, "<tr><td>");
        print_escaped(text, buffer->instruction);
        hlo_text_format(text, "</td><td>%s</td><td>", buffer->kind);
        print_escaped(text, buffer->shape);
        hlo_text_string(text, "</td><td class=\"n\">");
        emu_print_bytes(buffer->bytes, text);
        hlo_text_string(text, "</td><td class=\"n\">");
        emu_print_bytes(buffer->unpadded_bytes, text);
        hlo_text_string(text, "</td><td>");
        print_escaped(text, buffer->source);
        hlo_text_string(text, "</td></tr>\n");
    }
    hlo_text_string(text, "</table>\n");
}

// Draws the slice with each link coloured by the share of the step in which it is busy. `busy` may exceed the step if
// the last transfer of a link ends after it; shares are clamped to 1.
static void print_links(HloText *text, const EmuReport *report, const EmuTopology *topology) {
    int64_t limit = emu_link_limit(topology);
    double *load = hlo_allocate_zeroed((size_t)limit, sizeof *load);
    if (!load) {
        text->failed = true;
        return;
    }
    for (int64_t i = 0; i < report->link_count; ++i) {
        const EmuLinkUse *use = &report->links[i];
        if (use->link >= 0 && use->link < limit && report->step_picoseconds > 0) {
            load[use->link] = fmin(1, (double)use->busy / (double)report->step_picoseconds);
        }
    }
    hlo_text_string(text, "<h2>Links</h2>\n<p>Coloured by the share of the step in which they are busy.</p>\n");
    emu_draw_topology_svg(topology, load, text);
    hlo_free(load);
}

// Appends; failures of memory stay in `text` (hlo_text_status()).
void emu_report_write_html(const EmuReport *report, const EmuTopology *topology, HloText *text) {
    assert(report && topology && text);
    hlo_text_string(text, head);
    hlo_text_string(text, "<h1>");
    print_escaped(text, report->module);
    hlo_text_string(text, " on ");
    print_escaped(text, report->topology);
    hlo_text_format(text, "</h1>\n<p>%lld x ", (long long)report->num_devices);
    print_escaped(text, report->device_kind);
    hlo_text_string(text, ", one step, emulated by Meshlo</p>\n");
    print_tiles(text, report);
    print_timeline(text, report);
    print_memory_curve(text, report);
    print_links(text, report, topology);
    print_operations(text, report);
    print_buffers(text, report);
    hlo_text_string(text, "</body></html>\n");
}
