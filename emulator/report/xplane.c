// SPDX-License-Identifier: Apache-2.0
// Writes the step as an XSpace, the profile that jax.profiler writes and XProf (TensorBoard's profile plugin) reads:
// one plane for a device, with lines for steps, modules, operations and asynchronous operations, and one that has the
// program with the places of its buffers, for XProf's memory viewer and graph viewer.
//
// The messages are those of openxla's xplane.proto, the names of planes, lines and stats those of xplane_schema.cc:
//   XSpace  1: planes
//   XPlane  1: id, 2: name, 3: lines, 4: event_metadata (map), 5: stat_metadata (map), 6: stats
//   XLine   1: id, 2: name, 3: timestamp_ns, 4: events, 9: duration_ps
//   XEvent  1: metadata_id, 2: offset_ps, 3: duration_ps, 4: stats
//   XEventMetadata  1: id, 2: name, 4: display_name, 5: stats        XStatMetadata  1: id, 2: name
//   XStat   1: metadata_id, 2: double, 3: uint64, 5: string, 6: bytes
//   MemoryAccessBreakdown  1: MemoryAccessed;  MemoryAccessed  1: operation (1: read), 2: space (1: HBM), 3: bytes
//
// Everything that is known of an operation, whichever iteration it is, belongs to its event metadata.
#include <assert.h>

#include "emulator/report.h"
#include "emulator/report/unfold.h"
#include "hlo/proto/wire.h"

// Runs of operations in a profile; with more, loops have three iterations.
#define MOST_RUNS 200000

typedef enum Stat {
#define STAT(id, name) STAT_##id,
#define STATS                                     \
    STAT(NONE, NULL)                              \
    STAT(CATEGORY, "hlo_category")                \
    STAT(SCOPE, "tf_op")                          \
    STAT(SOURCE, "source")                        \
    STAT(FLOPS, "flops")                          \
    STAT(MODEL_FLOPS, "model_flops")              \
    STAT(BYTES, "bytes_accessed")                 \
    STAT(ACCESSES, "memory_access_breakdown")     \
    STAT(PROGRAM, "program_id")                   \
    STAT(HLO, "Hlo Proto")                        \
    STAT(SYMBOL, "symbol_id")                     \
    STAT(RUN, "run_id")                           \
    STAT(ITERATION, "iter_num")                   \
    STAT(DEVICE_TYPE, "device_type_string")       \
    STAT(PEAK_FLOPS, "peak_teraflops_per_second") \
    STAT(PEAK_BYTES, "peak_hbm_bw_gigabytes_per_second")
    STATS
#undef STAT
        STAT_COUNT
} Stat;

static const char *const kStatNames[] = {
#define STAT(id, name) name,
    STATS
#undef STAT
};

// Lines of a plane, by id.
typedef enum Line { LINE_STEPS = 1, LINE_MODULES, LINE_OPS, LINE_ASYNC } Line;

typedef struct Writer {
    HloText *text;
    const EmuReport *report;
    Line line;  // that is being written
} Writer;

static void write_text_stat(HloText *text, int32_t field, Stat stat, const char *value) {
    if (!*value) return;
    const size_t mark = hlo_wire_begin(text, field);
    hlo_wire_varint(text, 1, stat);
    hlo_wire_string_field(text, 5, value);
    hlo_wire_end(text, mark);
}

static void write_count_stat(HloText *text, int32_t field, Stat stat, double value) {
    const size_t mark = hlo_wire_begin(text, field);
    hlo_wire_varint(text, 1, stat);
    hlo_wire_varint_always(text, 3, value < 0x1p63 ? (uint64_t)value : UINT64_MAX);
    hlo_wire_end(text, mark);
}

static void write_real_stat(HloText *text, int32_t field, Stat stat, double value) {
    const size_t mark = hlo_wire_begin(text, field);
    hlo_wire_varint(text, 1, stat);
    hlo_wire_double(text, 2, value);
    hlo_wire_end(text, mark);
}

// XProf's use of HBM is the sum of these; it does not look at "bytes_accessed". What is read and what is written counts
// alike.
static void write_accesses_stat(HloText *text, int32_t field, double bytes) {
    const size_t mark = hlo_wire_begin(text, field);
    hlo_wire_varint(text, 1, STAT_ACCESSES);
    const size_t breakdown = hlo_wire_begin(text, 6), access = hlo_wire_begin(text, 1);
    hlo_wire_varint(text, 1, 1);
    hlo_wire_varint(text, 2, 1);
    hlo_wire_varint_always(text, 3, bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX);
    hlo_wire_end(text, access);
    hlo_wire_end(text, breakdown);
    hlo_wire_end(text, mark);
}

// An entry of the map of event metadata, opened: its caller adds stats. Ends with end_metadata().
typedef struct Metadata {
    size_t entry, value;
} Metadata;

static Metadata begin_metadata(HloText *text, int64_t id, const char *name) {
    Metadata metadata = {.entry = hlo_wire_begin(text, 4)};
    hlo_wire_varint(text, 1, (uint64_t)id);
    metadata.value = hlo_wire_begin(text, 2);
    hlo_wire_varint(text, 1, (uint64_t)id);
    hlo_wire_string_field(text, 2, name);
    return metadata;
}

static void end_metadata(HloText *text, Metadata metadata) {
    hlo_wire_end(text, metadata.value);
    hlo_wire_end(text, metadata.entry);
}

// Ids of event metadata: 1 the step, 2 the module, then the operations of the report in their order.
enum { STEP_ID = 1, MODULE_ID = 2, FIRST_OP_ID = 3 };
// The number of the program, in all planes.
enum { PROGRAM_ID = 1 };

static void write_event_metadata(HloText *text, const EmuReport *report) {
    end_metadata(text, begin_metadata(text, STEP_ID, "0"));
    Metadata module = begin_metadata(text, MODULE_ID, report->module);
    write_count_stat(text, 5, STAT_PROGRAM, PROGRAM_ID);
    end_metadata(text, module);
    for (int64_t i = 0; i < report->op_count; i++) {
        const EmuOp *op = &report->ops[i];
        Metadata metadata = begin_metadata(text, FIRST_OP_ID + i, op->name);
        hlo_wire_string_field(text, 4, op->name);
        write_text_stat(text, 5, STAT_CATEGORY, op->opcode);
        write_text_stat(text, 5, STAT_SCOPE, op->scope);
        write_text_stat(text, 5, STAT_SOURCE, op->source);
        write_count_stat(text, 5, STAT_FLOPS, op->flops);
        write_count_stat(text, 5, STAT_MODEL_FLOPS, op->flops);
        write_count_stat(text, 5, STAT_BYTES, op->bytes);
        if (!op->network) write_accesses_stat(text, 5, op->bytes);
        write_count_stat(text, 5, STAT_PROGRAM, PROGRAM_ID);
        write_count_stat(text, 5, STAT_SYMBOL, (double)(FIRST_OP_ID + i));
        end_metadata(text, metadata);
    }
}

static void write_stat_metadata(HloText *text) {
    for (int stat = 1; stat < STAT_COUNT; stat++) {
        const size_t entry = hlo_wire_begin(text, 5);
        hlo_wire_varint(text, 1, (uint64_t)stat);
        const size_t value = hlo_wire_begin(text, 2);
        hlo_wire_varint(text, 1, (uint64_t)stat);
        hlo_wire_string_field(text, 2, kStatNames[stat]);
        hlo_wire_end(text, value);
        hlo_wire_end(text, entry);
    }
}

static size_t begin_line(HloText *text, Line line, const char *name, int64_t duration) {
    const size_t mark = hlo_wire_begin(text, 3);
    hlo_wire_varint(text, 1, line);
    hlo_wire_string_field(text, 2, name);
    hlo_wire_varint(text, 9, (uint64_t)duration);
    return mark;
}

static void write_event(HloText *text, int64_t id, int64_t start, int64_t duration, int64_t iteration,
                        int64_t iterations) {
    const size_t mark = hlo_wire_begin(text, 4);
    hlo_wire_varint(text, 1, (uint64_t)id);
    hlo_wire_varint_always(text, 2, (uint64_t)start);
    hlo_wire_varint_always(text, 3, (uint64_t)duration);
    if (iterations > 1) write_count_stat(text, 4, STAT_ITERATION, (double)iteration);
    hlo_wire_end(text, mark);
}

// Writes a run of an operation if it belongs to the line that is being written.
static void write_run(void *context, const EmuOp *op, int64_t start, int64_t iteration, int64_t iterations) {
    Writer *writer = context;
    if (op->network != (writer->line == LINE_ASYNC)) return;
    write_event(writer->text, FIRST_OP_ID + (op - writer->report->ops), start, op->duration, iteration, iterations);
}

static void write_plane(HloText *text, const EmuReport *report, const EmuChip *chip) {
    const double devices = (double)chip->devices_per_chip;
    Writer writer = {.text = text, .report = report};
    const size_t plane = hlo_wire_begin(text, 1);
    hlo_wire_varint(text, 1, 1);
    hlo_wire_string_field(text, 2, "/device:TPU:0");
    size_t line = begin_line(text, LINE_STEPS, "Steps", report->step_picoseconds);
    write_event(text, STEP_ID, 0, report->step_picoseconds, 0, 1);
    hlo_wire_end(text, line);
    line = begin_line(text, LINE_MODULES, "XLA Modules", report->step_picoseconds);
    const size_t event = hlo_wire_begin(text, 4);
    hlo_wire_varint(text, 1, MODULE_ID);
    hlo_wire_varint_always(text, 2, 0);
    hlo_wire_varint_always(text, 3, (uint64_t)report->step_picoseconds);
    write_count_stat(text, 4, STAT_RUN, 1);
    write_count_stat(text, 4, STAT_PROGRAM, PROGRAM_ID);
    hlo_wire_end(text, event);
    hlo_wire_end(text, line);
    for (writer.line = LINE_OPS; writer.line <= LINE_ASYNC; writer.line++) {
        line = begin_line(text, writer.line, writer.line == LINE_OPS ? "XLA Ops" : "Async XLA Ops",
                          report->step_picoseconds);
        (void)emu_unfold(report, MOST_RUNS, write_run, &writer);
        hlo_wire_end(text, line);
    }
    write_event_metadata(text, report);
    write_stat_metadata(text);
    write_text_stat(text, 6, STAT_DEVICE_TYPE, chip->device_kind);
    write_real_stat(text, 6, STAT_PEAK_FLOPS, chip->bf16_flops_per_chip / devices * 1e-12);
    write_real_stat(text, 6, STAT_PEAK_BYTES, chip->hbm_bytes_per_second_per_chip / devices * 1e-9);
    hlo_wire_end(text, plane);
}

// The plane that the profiler of a process has beside those of its devices: the programs that ran.
static void write_programs(HloText *text, const EmuReport *report) {
    const size_t plane = hlo_wire_begin(text, 1);
    hlo_wire_varint(text, 1, 2);
    hlo_wire_string_field(text, 2, "/host:metadata");
    Metadata program = begin_metadata(text, PROGRAM_ID, report->module);
    const size_t stat = hlo_wire_begin(text, 5);
    hlo_wire_varint(text, 1, STAT_HLO);
    hlo_wire_bytes(text, 6, report->program, report->program_length);
    hlo_wire_end(text, stat);
    end_metadata(text, program);
    write_stat_metadata(text);
    hlo_wire_end(text, plane);
}

void emu_report_write_xplane(const EmuReport *report, const EmuTopology *topology, HloText *text) {
    assert(report && topology && text);
    write_plane(text, report, &topology->chip);
    if (report->program) write_programs(text, report);
}
