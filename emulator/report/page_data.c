// SPDX-License-Identifier: Apache-2.0
// The data of the report's page. What a browser would take for markup is written as an escape (\u003c), since the
// object is inside of a <script> element and holds names that come from the program.
#include "emulator/report/page_data.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/report.h"
#include "emulator/report/parameters.h"
#include "emulator/report/range.h"
#include "hlo/base/map.h"
#include "hlo/base/vector.h"

// Operations on the page; a browser draws this many without delay.
#define MOST_OPS 20000

typedef struct Page {
    HloArena *arena;
    const EmuReport *report;
    const EmuTopology *topology;
    HloText json;
    HloJsonWriter writer;
    HloStringMap numbers;  // of a text: its position in `texts`, plus one
    HLO_VECTOR(const char *) texts;
    const EmuOp **ops;  // those on the page
    int64_t op_count;
} Page;

static void begin_object(Page *page, const char *key) {
    hlo_json_key(&page->writer, key);
    hlo_json_begin_object(&page->writer);
}

static void begin_array(Page *page, const char *key) {
    hlo_json_key(&page->writer, key);
    hlo_json_begin_array(&page->writer);
}

static double total_of(const EmuOp *op) {
    return (double)op->duration * (double)op->count;
}

static int compare_totals(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left < right) - (left > right);
}

// Chooses the operations in their order. Ties at the limit are kept as long as there is room.
static void choose_ops(Page *page) {
    const EmuReport *report = page->report;
    const size_t count = (size_t)report->op_count;
    double limit = -1;
    if (report->op_count > MOST_OPS) {
        double *totals = HLO_ARENA_NEW(page->arena, double, count);
        for (size_t i = 0; i < count; i++) totals[i] = total_of(&report->ops[i]);
        qsort(totals, count, sizeof *totals, compare_totals);
        limit = totals[MOST_OPS - 1];
    }
    page->ops = HLO_ARENA_NEW(page->arena, const EmuOp *, count);
    int64_t room = MOST_OPS;
    for (size_t i = 0; i < count; i++) {
        const EmuOp *op = &report->ops[i];
        if (op->bound != EMU_BOUND_NONE && (total_of(op) < limit || room-- <= 0)) continue;
        page->ops[page->op_count++] = op;
    }
}

// The position of a text in the list of all texts.
static int64_t number_of(Page *page, const char *text) {
    const size_t length = strlen(text);
    const uintptr_t known = (uintptr_t)hlo_string_map_get(&page->numbers, text, length);
    if (known) return (int64_t)known - 1;
    hlo_vector_push(page->arena, &page->texts, text);
    const uintptr_t number = (uintptr_t)page->texts.count;
    hlo_string_map_set(page->arena, &page->numbers, text, length, (void *)number);
    return (int64_t)number - 1;
}

// One column of the operations: text columns as numbers of texts.
#define WRITE_COLUMN(page, key, function, expression)       \
    do {                                                    \
        begin_array(page, key);                             \
        for (int64_t i_ = 0; i_ < (page)->op_count; i_++) { \
            const EmuOp *op = (page)->ops[i_];              \
            function(&(page)->writer, expression);          \
        }                                                   \
        hlo_json_end_array(&(page)->writer);                \
    } while (0)

// Transfers with the times when the device asks for them and goes on after them (-1: not in that iteration), three
// numbers for each.
static void write_flows(Page *page) {
    begin_array(page, "flows");
    for (int64_t i = 0; i < page->op_count; i++) {
        if (!page->ops[i]->network) continue;
        hlo_json_int64(&page->writer, i);
        hlo_json_int64(&page->writer, page->ops[i]->issued);
        hlo_json_int64(&page->writer, page->ops[i]->awaited);
    }
    hlo_json_end_array(&page->writer);
}

// Operations that tables count, but the timeline leaves out: the branches of conditionals that do not determine the
// step.
static void write_hidden(Page *page) {
    begin_array(page, "hidden");
    for (int64_t i = 0; i < page->op_count; i++)
        if (page->ops[i]->in_shorter_branch) hlo_json_int64(&page->writer, i);
    hlo_json_end_array(&page->writer);
}

static void write_ops(Page *page) {
    begin_object(page, "ops");
    WRITE_COLUMN(page, "name", hlo_json_int64, number_of(page, op->name));
    WRITE_COLUMN(page, "opcode", hlo_json_int64, number_of(page, op->opcode));
    WRITE_COLUMN(page, "source", hlo_json_int64, number_of(page, op->source));
    WRITE_COLUMN(page, "scope", hlo_json_int64, number_of(page, op->scope));
    WRITE_COLUMN(page, "axes", hlo_json_int64, number_of(page, op->axes));
    WRITE_COLUMN(page, "start", hlo_json_int64, op->start);
    WRITE_COLUMN(page, "duration", hlo_json_int64, op->duration);
    WRITE_COLUMN(page, "count", hlo_json_int64, op->count);
    WRITE_COLUMN(page, "depth", hlo_json_int64, op->depth);
    WRITE_COLUMN(page, "bound", hlo_json_int64, op->bound);
    WRITE_COLUMN(page, "flops", hlo_json_double, op->flops);
    WRITE_COLUMN(page, "bytes", hlo_json_double, op->bytes);
    hlo_json_end_object(&page->writer);
    write_flows(page);
    write_hidden(page);
    begin_array(page, "bounds");
    for (int bound = 0; bound < EMU_BOUND_COUNT; bound++)
        hlo_json_string(&page->writer, emu_bound_name((EmuBound)bound));
    hlo_json_end_array(&page->writer);
}

// ---- parameters

// A shape as a text of the list.
static int64_t number_of_shape(Page *page, const HloShape *shape) {
    HloText text = {0};
    hlo_shape_print(&text, shape, false);
    return number_of(page, hlo_text_to_arena(page->arena, &text));
}

// Numbers as runs, in each of which one is `step` more than the one before: the first number, and the length.
static void write_runs(Page *page, const int64_t *numbers, int64_t count, int64_t step) {
    for (int64_t i = 0, run; i < count; i += run) {
        for (run = 1; i + run < count && numbers[i + run] == numbers[i] + step * run;) run++;
        hlo_json_int64(&page->writer, numbers[i]);
        hlo_json_int64(&page->writer, run);
    }
}

// The layouts of the parameters, each once: the shardings of a model are few. `layouts` gets the number of each
// parameter's.
static void write_layouts(Page *page, int64_t *layouts) {
    const EmuReport *report = page->report;
    HloStringMap numbers = {0};
    int64_t count = 0;
    begin_array(page, "layouts");
    for (int64_t i = 0; i < report->parameter_count; i++) {
        const EmuParameter *one = &report->parameters[i];
        const EmuParts parts = emu_parameter_parts(page->arena, one, report->num_partitions);
        HloText text = {0};
        if (one->sharding) hlo_sharding_print(&text, one->sharding);
        const char *sharding = hlo_text_to_arena(page->arena, &text);
        const char *key = hlo_arena_format(page->arena, "%lld %s", (long long)one->shape->rank, sharding);
        const uintptr_t known = (uintptr_t)hlo_string_map_get(&numbers, key, strlen(key));
        layouts[i] = known ? (int64_t)known - 1 : count;
        if (known) continue;
        hlo_string_map_set(page->arena, &numbers, key, strlen(key), (void *)(uintptr_t)++count);
        hlo_json_begin_object(&page->writer);
        hlo_json_member_string(&page->writer, "text", sharding);
        hlo_json_key(&page->writer, "tiles");
        hlo_json_int64_array(&page->writer, parts.tiles.items, parts.tiles.count);
        begin_array(page, "of");
        write_runs(page, parts.holders, parts.count, 0);
        hlo_json_end_array(&page->writer);
        hlo_json_end_object(&page->writer);
    }
    hlo_json_end_array(&page->writer);
}

static void write_parameters(Page *page) {
    const EmuReport *report = page->report;
    int64_t *layouts = HLO_ARENA_NEW(page->arena, int64_t, report->parameter_count + 1);
    write_layouts(page, layouts);
    begin_array(page, "devices");
    write_runs(page, report->devices, report->num_partitions, 1);
    hlo_json_end_array(&page->writer);
    begin_object(page, "parameters");
    const char *const columns[] = {"name", "shape", "local", "bytes", "whole", "layout"};
    for (size_t c = 0; c < HLO_COUNT_OF(columns); c++) {
        begin_array(page, columns[c]);
        for (int64_t i = 0; i < report->parameter_count; i++) {
            const EmuParameter *one = &report->parameters[i];
            const int64_t cells[] = {number_of(page, one->name),
                                     number_of_shape(page, one->shape),
                                     number_of_shape(page, one->local_shape),
                                     hlo_shape_bytes(one->local_shape),
                                     hlo_shape_bytes(one->shape),
                                     layouts[i]};
            hlo_json_int64(&page->writer, cells[c]);
        }
        hlo_json_end_array(&page->writer);
    }
    hlo_json_end_object(&page->writer);
}

static void write_texts(Page *page) {
    begin_array(page, "texts");
    for (int64_t i = 0; i < page->texts.count; i++) hlo_json_string(&page->writer, page->texts.items[i]);
    hlo_json_end_array(&page->writer);
}

// The device's time by what bounds it.
static void write_parts(Page *page) {
    const EmuReport *report = page->report;
    double matrix = 0, vector = 0;
    for (int64_t i = 0; i < report->op_count; i++) {
        if (report->ops[i].bound == EMU_BOUND_MATRIX) matrix += total_of(&report->ops[i]);
        if (report->ops[i].bound == EMU_BOUND_VECTOR) vector += total_of(&report->ops[i]);
    }
    begin_object(page, "parts");
    hlo_json_member_int64(&page->writer, "launch", report->launch_picoseconds);
    hlo_json_member_double(&page->writer, "matrix", matrix);
    hlo_json_member_double(&page->writer, "vector", vector);
    hlo_json_member_int64(&page->writer, "memory", report->memory_picoseconds);
    hlo_json_member_int64(&page->writer, "exposed", report->exposed_picoseconds);
    hlo_json_member_int64(&page->writer, "collectives", report->collective_picoseconds);
    hlo_json_member_int64(&page->writer, "copies", report->copy_picoseconds);
    hlo_json_end_object(&page->writer);
}

static void write_memory(Page *page) {
    const EmuReport *report = page->report;
    begin_object(page, "memory");
    hlo_json_member_int64(&page->writer, "peak", report->hbm_peak_bytes);
    hlo_json_member_int64(&page->writer, "capacity", report->hbm_capacity_bytes);
    hlo_json_member_int64(&page->writer, "reserved", report->hbm_reserved_bytes);
    hlo_json_member_int64(&page->writer, "arguments", report->argument_bytes);
    hlo_json_member_int64(&page->writer, "outputs", report->output_bytes);
    hlo_json_member_int64(&page->writer, "aliased", report->alias_bytes);
    hlo_json_member_int64(&page->writer, "temporaries", report->temp_bytes);
    hlo_json_end_object(&page->writer);
    begin_object(page, "curve");
    begin_array(page, "start");
    for (int64_t i = 0; i < report->memory_count; i++) hlo_json_int64(&page->writer, report->memory[i].start);
    hlo_json_end_array(&page->writer);
    begin_array(page, "bytes");
    for (int64_t i = 0; i < report->memory_count; i++) hlo_json_int64(&page->writer, report->memory[i].bytes);
    hlo_json_end_array(&page->writer);
    hlo_json_end_object(&page->writer);
    begin_array(page, "buffers");
    for (int64_t i = 0; i < report->buffer_count; i++) {
        const EmuBufferUse *buffer = &report->buffers[i];
        hlo_json_begin_object(&page->writer);
        hlo_json_member_string(&page->writer, "name", buffer->instruction);
        hlo_json_member_string(&page->writer, "kind", buffer->kind);
        hlo_json_member_string(&page->writer, "shape", buffer->shape);
        hlo_json_member_int64(&page->writer, "bytes", buffer->bytes);
        hlo_json_member_int64(&page->writer, "unpadded", buffer->unpadded_bytes);
        hlo_json_member_string(&page->writer, "scope", buffer->op_name);
        hlo_json_member_string(&page->writer, "source", buffer->source);
        hlo_json_member_string(&page->writer, "role", buffer->role);
        hlo_json_member_string(&page->writer, "loop", buffer->loop);
        hlo_json_end_object(&page->writer);
    }
    hlo_json_end_array(&page->writer);
}

// The loads of the links, each pair of bytes and time once: programs load most links alike.
typedef HLO_VECTOR(const EmuLinkUse *) Loads;

static int64_t load_of(Page *page, Loads *loads, const EmuLinkUse *use) {
    for (int64_t i = loads->count - 1; i >= 0 && i >= loads->count - 64; i--)
        if (loads->items[i]->bytes == use->bytes && loads->items[i]->busy == use->busy) return i;
    hlo_vector_push(page->arena, loads, use);
    return loads->count - 1;
}

// One direction of one axis: the load of each chip's link, -1 where it carries nothing, as runs of [load, chips].
static void write_direction(Page *page, const int64_t *load_of_link, int64_t direction) {
    const int64_t chips = emu_topology_slice_chips(page->topology);
    hlo_json_begin_array(&page->writer);
    for (int64_t chip = 0, run; chip < chips; chip += run) {
        const int64_t load = load_of_link[chip * 6 + direction];
        for (run = 1; chip + run < chips && load_of_link[(chip + run) * 6 + direction] == load;) run++;
        hlo_json_int64(&page->writer, load);
        hlo_json_int64(&page->writer, run);
    }
    hlo_json_end_array(&page->writer);
}

// Links of one kind outside of the torus, by the busiest of them.
static void write_other_links(Page *page, const char *key, EmuLinkKind kind) {
    const EmuLinkUse *busiest = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < page->report->link_count; i++) {
        const EmuLinkUse *use = &page->report->links[i];
        if (emu_link_describe(page->topology, use->link).kind != kind) continue;
        count++;
        if (!busiest || use->busy > busiest->busy) busiest = use;
    }
    if (!busiest) return;
    begin_object(page, key);
    hlo_json_member_int64(&page->writer, "count", count);
    hlo_json_member_double(&page->writer, "bytes", busiest->bytes);
    hlo_json_member_int64(&page->writer, "busy", busiest->busy);
    hlo_json_end_object(&page->writer);
}

static void write_links(Page *page) {
    const EmuReport *report = page->report;
    const int64_t limit = emu_link_limit(page->topology);
    int64_t *load_of_link = HLO_ARENA_NEW(page->arena, int64_t, limit);
    Loads loads = {0};
    double bytes = 0;
    for (int64_t i = 0; i < limit; i++) load_of_link[i] = -1;
    for (int64_t i = 0; i < report->link_count; i++) {
        const EmuLinkUse *use = &report->links[i];
        assert(use->link >= 0 && use->link < limit);
        load_of_link[use->link] = load_of(page, &loads, use);
        bytes += use->bytes;
    }
    begin_object(page, "links");
    hlo_json_member_int64(&page->writer, "count", report->link_count);
    hlo_json_member_double(&page->writer, "bytes", bytes);
    hlo_json_member_int64(&page->writer, "slices", page->topology->slice_count);
    hlo_json_key(&page->writer, "shape");
    hlo_json_int64_array(&page->writer, page->topology->shape, 3);
    begin_array(page, "loads");
    for (int64_t i = 0; i < loads.count; i++) {
        hlo_json_begin_object(&page->writer);
        hlo_json_member_double(&page->writer, "bytes", loads.items[i]->bytes);
        hlo_json_member_int64(&page->writer, "busy", loads.items[i]->busy);
        hlo_json_end_object(&page->writer);
    }
    hlo_json_end_array(&page->writer);
    begin_array(page, "directions");
    for (int64_t direction = 0; direction < 6; direction++) write_direction(page, load_of_link, direction);
    hlo_json_end_array(&page->writer);
    write_other_links(page, "package", EMU_LINK_PACKAGE);
    write_other_links(page, "dcn", EMU_LINK_DCN);
    hlo_json_end_object(&page->writer);
}

// What a reader must know before believing the numbers.
static void write_warnings(Page *page) {
    const EmuReport *report = page->report;
    HloText line = {0};
    begin_array(page, "warnings");
    if (emu_report_out_of_memory(report))
        hlo_json_string(&page->writer, "The program does not fit into a device's memory: it cannot run on this slice.");
    if (report->unknown_trip_counts) {
        hlo_text_format(&line, "%lld loop%s of unknown length counted once.", (long long)report->unknown_trip_counts,
                        report->unknown_trip_counts == 1 ? "" : "s");
        hlo_json_string(&page->writer, line.data);
    }
    if (report->unknown_calls) {
        line.length = 0;
        hlo_text_format(&line, "%lld custom call%s without a cost estimate counted by the arrays alone: %s",
                        (long long)report->unknown_calls, report->unknown_calls == 1 ? "" : "s",
                        report->unknown_call ? report->unknown_call : "");
        hlo_json_string(&page->writer, line.data);
    }
    if (*report->faults) {
        line.length = 0;
        hlo_text_format(&line, "With the fault %s; a healthy slice takes ", report->faults);
        emu_print_time(report->healthy_step_picoseconds, &line);
        hlo_text_char(&line, '.');
        hlo_json_string(&page->writer, line.data);
    }
    if (page->op_count < report->op_count) {
        line.length = 0;
        hlo_text_format(&line, "The page has the %lld longest of %lld operations.", (long long)page->op_count,
                        (long long)report->op_count);
        hlo_json_string(&page->writer, line.data);
    }
    hlo_json_end_array(&page->writer);
    page->json.failed |= line.failed;
    hlo_text_free(&line);
}

static HloStatus write_page(void *argument) {
    Page *page = argument;
    const EmuReport *report = page->report;
    const EmuChip *chip = &page->topology->chip;
    const double devices = (double)chip->devices_per_chip;
    page->writer.text = &page->json;
    choose_ops(page);
    hlo_json_begin_object(&page->writer);
    hlo_json_member_int64(&page->writer, "step", report->step_picoseconds > 0 ? report->step_picoseconds : 1);
    HloText range = {0};
    emu_range_print(report, &range);
    hlo_json_member_string(&page->writer, "range", range.data ? range.data : "");
    range.length = 0;
    emu_range_print_basis(report, &range);
    hlo_json_member_string(&page->writer, "basis", range.length ? range.data : "");
    hlo_text_free(&range);
    hlo_json_member_double(&page->writer, "mfu", report->mfu);
    hlo_json_member_double(&page->writer, "hfu", report->hfu);
    hlo_json_key(&page->writer, "scopes");
    hlo_json_bool(&page->writer, report->names_scopes);
    hlo_json_member_double(&page->writer, "flops", report->flops_per_device);
    hlo_json_member_double(&page->writer, "hbm", report->hbm_bytes_per_device);
    hlo_json_member_int64(&page->writer, "sent", report->collective_bytes_per_device);
    begin_object(page, "peaks");
    hlo_json_member_double(&page->writer, "matrix", chip->bf16_flops_per_chip / devices);
    hlo_json_member_double(&page->writer, "hbm", chip->hbm_bytes_per_second_per_chip / devices);
    hlo_json_end_object(&page->writer);
    write_parts(page);
    write_memory(page);
    write_ops(page);
    write_parameters(page);
    write_texts(page);
    write_links(page);
    write_warnings(page);
    hlo_json_end_object(&page->writer);
    return hlo_text_status(&page->json);
}

HloStatus emu_page_data_write(const EmuReport *report, const EmuTopology *topology, HloText *text) {
    assert(report && topology && text);
    Page page = {.arena = hlo_arena_new(), .report = report, .topology = topology};
    HLO_FAIL_IF(!page.arena, HLO_RESOURCE_EXHAUSTED, "no memory for a report");
    HloStatus status = hlo_protect(write_page, &page);
    for (size_t i = 0; i < page.json.length && !status; i++) {
        if (page.json.data[i] == '<')
            hlo_text_string(text, "\\u003c");
        else
            hlo_text_char(text, page.json.data[i]);
    }
    hlo_text_free(&page.json);
    hlo_arena_free(page.arena);
    return status;
}
