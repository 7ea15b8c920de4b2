// SPDX-License-Identifier: Apache-2.0
// Laws of the machine model on random programs: loops in loops with products, elementwise functions and collectives, as
// they are or in halves, scheduled or not. What holds for every program: the step is the sum of its parts, a device
// does one thing at a time, more data or another operation take no less time, faster parts no more.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emulator.h"
#include "hlo/base/json.h"
#include "hlo/text/text.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

enum { PROGRAMS = 96, DEVICES = 8, MOST_DEPTH = 2, MOST_VALUES = 64 };

// How much the order of kernels, which is found by trying a few, may miss of a better one that a change allows.
#define SLACK 1.01

// What a program is made with, besides its number: the same number makes the same operations.
typedef struct Making {
    int64_t rows, columns;  // of its arrays
    int64_t more_trips;     // of each loop
    bool halves;            // collectives are in start and done
    bool scheduled;
    bool extra;  // one more operation on the result
    bool bf16;
} Making;

// A program that is written.
typedef struct Writer {
    Random random;
    Making making;
    HloText computations;  // that are complete
    int64_t names, channels;
    int64_t statements;  // that are left
} Writer;

// The values of a computation: names v0, v1 … of one shape, and a matrix that they are multiplied with.
typedef struct Scope {
    HloText text;
    int64_t values[MOST_VALUES];
    int64_t count, weights;
    int depth;
} Scope;

static const char *type_of(const Writer *writer) {
    return writer->making.bf16 ? "bf16" : "f32";
}

static void array_type(const Writer *writer, int64_t rows, char type[48]) {
    snprintf(type, 48, "%s[%lld,%lld]", type_of(writer), (long long)rows, (long long)writer->making.columns);
}

static int64_t any_value(Writer *writer, const Scope *scope) {
    const int64_t recent = scope->count < 4 ? scope->count : 4;
    return scope->values[scope->count - 1 - (int64_t)random_under(&writer->random, (uint64_t)recent)];
}

static void add_value(Scope *scope, int64_t name) {
    if (scope->count == MOST_VALUES) scope->values[0] = scope->values[--scope->count];
    scope->values[scope->count++] = name;
}

static void write_unary(Writer *writer, Scope *scope, const char *type) {
    static const char *const opcodes[] = {"negate", "exponential", "tanh", "sine", "rsqrt"};
    const int64_t name = writer->names++, of = any_value(writer, scope);
    hlo_text_format(&scope->text, " v%lld = %s %s(v%lld)\n", (long long)name, type,
                    opcodes[random_under(&writer->random, HLO_COUNT_OF(opcodes))], (long long)of);
    add_value(scope, name);
}

static void write_binary(Writer *writer, Scope *scope, const char *type) {
    static const char *const opcodes[] = {"add", "multiply", "maximum"};
    const int64_t name = writer->names++, a = any_value(writer, scope), b = any_value(writer, scope);
    hlo_text_format(&scope->text, " v%lld = %s %s(v%lld, v%lld)\n", (long long)name, type,
                    opcodes[random_under(&writer->random, HLO_COUNT_OF(opcodes))], (long long)a, (long long)b);
    add_value(scope, name);
}

static void write_product(Writer *writer, Scope *scope, const char *type) {
    const int64_t name = writer->names++, of = any_value(writer, scope);
    hlo_text_format(&scope->text, " v%lld = %s dot(v%lld, v%lld), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
                    (long long)name, type, (long long)of, (long long)scope->weights);
    add_value(scope, name);
}

// A collective with these attributes, as it is or in halves. The type of a start is that of the operand and the result,
// except for an all-reduce.
static int64_t write_collective(Writer *writer, Scope *scope, const char *opcode, int64_t of, const char *from,
                                const char *to, const char *attributes) {
    HloText *text = &scope->text;
    const bool splits = writer->making.halves && strcmp(opcode, "reduce-scatter") && strcmp(opcode, "all-to-all");
    const int64_t channel = ++writer->channels, name = writer->names++;
    if (!splits) {
        hlo_text_format(text, " v%lld = %s %s(v%lld), channel_id=%lld, %s\n", (long long)name, to, opcode,
                        (long long)of, (long long)channel, attributes);
        return name;
    }
    const bool reduces = !strcmp(opcode, "all-reduce"), permutes = !strcmp(opcode, "collective-permute");
    hlo_text_format(text, " half%lld = ", (long long)name);
    if (reduces)
        hlo_text_string(text, to);
    else
        hlo_text_format(text, "(%s, %s%s)", from, to, permutes ? ", u32[], u32[]" : "");
    hlo_text_format(text, " %s-start(v%lld), channel_id=%lld, %s\n v%lld = %s %s-done(half%lld)\n", opcode,
                    (long long)of, (long long)channel, attributes, (long long)name, to, opcode, (long long)name);
    return name;
}

static void write_exchange(Writer *writer, Scope *scope, const char *type) {
    static const char *const groups[] = {"replica_groups=[1,8]<=[8], use_global_device_ids=true",
                                         "replica_groups=[2,4]<=[8], use_global_device_ids=true",
                                         "replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true"};
    static const int64_t sizes[] = {8, 4, 2};
    char attributes[256], larger[48];
    const uint64_t which = random_under(&writer->random, HLO_COUNT_OF(groups));
    const int64_t of = any_value(writer, scope);
    int64_t name;
    array_type(writer, writer->making.rows * sizes[which], larger);
    switch (random_under(&writer->random, 4)) {
        case 0:
            snprintf(attributes, sizeof(attributes), "%s, to_apply=add", groups[which]);
            name = write_collective(writer, scope, "all-reduce", of, type, type, attributes);
            break;
        case 1:
            snprintf(attributes, sizeof(attributes), "%s, dimensions={0}", groups[which]);
            name = write_collective(writer, scope, "all-gather", of, type, larger, attributes);
            snprintf(attributes, sizeof(attributes), "%s, dimensions={0}, to_apply=add", groups[which]);
            name = write_collective(writer, scope, "reduce-scatter", name, larger, type, attributes);
            break;
        case 2:
            name = write_collective(writer, scope, "collective-permute", of, type, type,
                                    "source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}");
            break;
        default:
            snprintf(attributes, sizeof(attributes), "%.*s, dimensions={0}",
                     (int)(strstr(groups[which], ", use") - groups[which]), groups[which]);
            name = write_collective(writer, scope, "all-to-all", of, type, type, attributes);
    }
    add_value(scope, name);
}

static void write_statements(Writer *writer, Scope *scope);

// A loop whose state is a counter, two arrays and the matrix.
static void write_loop(Writer *writer, Scope *scope, const char *type) {
    char square[48];
    array_type(writer, writer->making.columns, square);
    const int64_t number = writer->names;
    const int64_t trips = 1 + (int64_t)random_under(&writer->random, 40) + writer->making.more_trips;
    Scope body = {.depth = scope->depth + 1};
    HloText state = {0};
    hlo_text_format(&state, "(s32[], %s, %s, %s)", type, type, square);
    writer->names += 5;
    hlo_text_format(&body.text,
                    "body%lld {\n t = %s parameter(0)\n i = s32[] get-tuple-element(t), index=0\n one = s32[] "
                    "constant(1)\n j = s32[] add(i, one)\n v%lld = %s get-tuple-element(t), index=1\n v%lld = %s "
                    "get-tuple-element(t), index=2\n v%lld = %s get-tuple-element(t), index=3\n",
                    (long long)number, state.data, (long long)number, type, (long long)number + 1, type,
                    (long long)number + 2, square);
    add_value(&body, number);
    add_value(&body, number + 1);
    body.weights = number + 2;
    write_statements(writer, &body);
    hlo_text_format(&body.text, " ROOT r = %s tuple(j, v%lld, v%lld, v%lld)\n}\n", state.data,
                    (long long)body.values[body.count - 1], (long long)body.values[body.count - 2],
                    (long long)body.weights);
    hlo_text_format(&writer->computations,
                    "%sless%lld {\n t = %s parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] "
                    "constant(%lld)\n ROOT l = pred[] compare(i, n), direction=LT\n}\n",
                    body.text.data, (long long)number, state.data, (long long)trips);
    const int64_t a = any_value(writer, scope), b = any_value(writer, scope);
    hlo_text_format(&scope->text,
                    " z%lld = s32[] constant(0)\n t%lld = %s tuple(z%lld, v%lld, v%lld, v%lld)\n w%lld = %s "
                    "while(t%lld), condition=less%lld, body=body%lld\n v%lld = %s get-tuple-element(w%lld), index=1\n",
                    (long long)number, (long long)number, state.data, (long long)number, (long long)a, (long long)b,
                    (long long)scope->weights, (long long)number, state.data, (long long)number, (long long)number,
                    (long long)number, (long long)number + 3, type, (long long)number);
    hlo_text_format(&scope->text, " v%lld = %s get-tuple-element(w%lld), index=2\n", (long long)number + 4, type,
                    (long long)number);
    add_value(scope, number + 3);
    add_value(scope, number + 4);
    hlo_text_free(&state);
    hlo_text_free(&body.text);
}

static void write_statements(Writer *writer, Scope *scope) {
    char type[48];
    array_type(writer, writer->making.rows, type);
    const int64_t statements = 2 + (int64_t)random_under(&writer->random, 6);
    for (int64_t i = 0; i < statements && writer->statements > 0; i++, writer->statements--) {
        switch (random_under(&writer->random, 8)) {
            case 0:
            case 1: write_unary(writer, scope, type); break;
            case 2: write_binary(writer, scope, type); break;
            case 3:
            case 4: write_product(writer, scope, type); break;
            case 5:
            case 6: write_exchange(writer, scope, type); break;
            default:
                if (scope->depth < MOST_DEPTH)
                    write_loop(writer, scope, type);
                else
                    write_product(writer, scope, type);
        }
    }
}

// The text of program `number`.
static void write_program(int number, Making making, HloText *text) {
    Writer writer = {.random = {(uint64_t)number * 7919 + 1}, .making = making, .statements = 24};
    Scope entry = {0};
    char type[48], square[48];
    array_type(&writer, making.rows, type);
    array_type(&writer, making.columns, square);
    hlo_text_format(&entry.text, "ENTRY e {\n v0 = %s parameter(0)\n v1 = %s parameter(1)\n v2 = %s parameter(2)\n",
                    type, type, square);
    add_value(&entry, 0);
    add_value(&entry, 1);
    entry.weights = 2;
    writer.names = 3;
    while (writer.statements > 0) write_statements(&writer, &entry);
    const int64_t last = entry.values[entry.count - 1], before = entry.values[entry.count - 2];
    hlo_text_format(&entry.text, " r0 = %s add(v%lld, v%lld)\n", type, (long long)last, (long long)before);
    if (making.extra) hlo_text_format(&entry.text, " r1 = %s cosine(r0)\n", type);
    hlo_text_format(&entry.text, " ROOT r = (%s%s%s) tuple(r0%s)\n}\n", type, making.extra ? ", " : "",
                    making.extra ? type : "", making.extra ? ", r1" : "");
    hlo_text_format(
        text,
        "HloModule random%d, num_partitions=%d%s\nadd { x = %s[] parameter(0)\n y = %s[] parameter(1)\n ROOT "
        "s = %s[] add(x,y) }\n%s%s",
        number, DEVICES, making.scheduled ? ", is_scheduled=true" : "", type_of(&writer), type_of(&writer),
        type_of(&writer), writer.computations.data ? writer.computations.data : "", entry.text.data);
    hlo_text_free(&writer.computations);
    hlo_text_free(&entry.text);
}

static Making making_of(int number) {
    Random random = {(uint64_t)number + 1};
    return (Making){.rows = 128 << random_under(&random, 6),
                    .columns = 128 << random_under(&random, 6),
                    .halves = random_under(&random, 2),
                    .scheduled = random_under(&random, 4) == 0,
                    .bf16 = random_under(&random, 2)};
}

static const char *slice_of(int number) {
    static const char *const slices[] = {"v5e-8", "v6e-8", "v4-16", "tpu7x-8", "v5p-16", "v3-8", "2xv5e-4"};
    return slices[number % (int)HLO_COUNT_OF(slices)];
}

// Times a program, on a slice that `change` may alter.
static EmuReport *time_program(int number, Making making, void (*change)(EmuChip *chip)) {
    HloText text = {0};
    HloModule *module = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    write_program(number, making, &text);
    HloStatus status = hlo_parse(text.data, text.length, &(HloParseOptions){.file = "random"}, &module);
    if (!status) status = emu_topology_parse(slice_of(number), &topology);
    if (!status && change) change(&topology->chip);
    if (!status) status = emu_simulate(module, topology, NULL, &report);
    cr_assert_null(status, "%d: %s\n%s", number, hlo_status_message(status), text.data);
    emu_topology_free(topology);
    hlo_module_free(module);
    hlo_text_free(&text);
    return report;
}

static double step_of(int number, Making making, void (*change)(EmuChip *chip)) {
    EmuReport *report = time_program(number, making, change);
    const double step = (double)report->step_picoseconds;
    emu_report_free(report);
    return step;
}

// ---------------------------------------------------------------------------------------------------------------------
// One report

// What runs on the device, not a loop around it, begins no earlier than what ran before has ended.
static void expect_one_at_a_time(const EmuReport *report, int number) {
    int64_t end = 0;
    for (int64_t i = 0; i < report->op_count; i++) {
        const EmuOp *op = &report->ops[i];
        if (op->network || op->bound == EMU_BOUND_NONE || op->in_shorter_branch) continue;
        cr_expect_geq(op->start, end, "%d: %s", number, op->name);
        end = op->start + op->duration;
        cr_expect_leq(end, report->step_picoseconds, "%d: %s", number, op->name);
    }
}

static void expect_json(const EmuReport *report, int number) {
    const struct {
        const char *key;
        double value;
    } rows[] = {{"step_seconds", (double)report->step_picoseconds * 1e-12},
                {"compute_seconds", (double)report->compute_picoseconds * 1e-12},
                {"exposed_collective_seconds", (double)report->exposed_picoseconds * 1e-12},
                {"hbm_peak_bytes", (double)report->hbm_peak_bytes},
                {"flops_per_device", report->flops_per_device}};
    HloArena *arena = hlo_arena_new();
    HloText text = {0};
    HloJsonValue *value = NULL;
    emu_report_write_json(report, &text);
    cr_assert_null(hlo_json_parse(arena, "report", text.data, text.length, &value));
    for (size_t i = 0; i < HLO_COUNT_OF(rows); i++) {
        const HloJsonValue *member = hlo_json_get(value, rows[i].key);
        cr_assert_not_null(member, "%s", rows[i].key);
        cr_expect_float_eq(member->number, rows[i].value, 1e-9 * rows[i].value + 1e-15, "%d: %s", number, rows[i].key);
    }
    hlo_text_free(&text);
    hlo_arena_free(arena);
}

CaseList(emulator_random, reports_are_consistent) {
    return cases_numbered(PROGRAMS);
}
CaseTest(const int *number, emulator_random, reports_are_consistent) {
    EmuReport *report = time_program(*number, making_of(*number), NULL);
    const int64_t parts = report->launch_picoseconds + report->compute_picoseconds + report->memory_picoseconds +
                          report->exposed_picoseconds + report->copy_picoseconds;
    cr_expect_eq(report->step_picoseconds, parts, "%d: %lld, parts %lld", *number, (long long)report->step_picoseconds,
                 (long long)parts);
    cr_expect_leq(report->exposed_picoseconds, report->collective_picoseconds, "%d", *number);
    cr_expect_geq(report->hbm_peak_bytes, report->argument_bytes + report->output_bytes - report->alias_bytes);
    cr_expect_leq(report->matrix_flops_per_device, report->flops_per_device);
    cr_expect_leq(report->hfu, 1, "%d: %g", *number, report->hfu);
    cr_expect_leq(report->step_low_picoseconds, report->step_picoseconds);
    cr_expect_geq(report->step_high_picoseconds, report->step_picoseconds);
    expect_one_at_a_time(report, *number);
    expect_json(report, *number);
    emu_report_free(report);
}

// ---------------------------------------------------------------------------------------------------------------------
// More work

CaseList(emulator_random, more_work_takes_no_less_time) {
    return cases_numbered(PROGRAMS);
}
CaseTest(const int *number, emulator_random, more_work_takes_no_less_time) {
    const Making making = making_of(*number);
    const double step = step_of(*number, making, NULL);
    Making more[4] = {making, making, making, making};
    more[0].rows *= 2;
    more[1].columns *= 2;
    more[2].more_trips = 1;
    more[3].extra = true;
    for (int i = 0; i < 4; i++) {
        const double longer = step_of(*number, more[i], NULL);
        cr_expect_geq(longer * SLACK, step, "%d with more of %d: %.0f, %.0f before on %s", *number, i, longer, step,
                      slice_of(*number));
    }
}

static void speed_links(EmuChip *chip) {
    chip->link_bytes_per_second *= 2;
    chip->package_bytes_per_second *= 2;
    chip->dcn_bytes_per_second_per_host *= 2;
}
static void speed_memory(EmuChip *chip) {
    chip->hbm_bytes_per_second_per_chip *= 2;
}
static void speed_products(EmuChip *chip) {
    chip->bf16_flops_per_chip *= 2;
}
static void speed_clock(EmuChip *chip) {
    chip->clock_hz *= 2;
}

CaseList(emulator_random, faster_parts_take_no_more_time) {
    return cases_numbered(PROGRAMS);
}
CaseTest(const int *number, emulator_random, faster_parts_take_no_more_time) {
    static void (*const changes[])(EmuChip *) = {speed_links, speed_memory, speed_products, speed_clock};
    const Making making = making_of(*number);
    const double step = step_of(*number, making, NULL);
    for (size_t i = 0; i < HLO_COUNT_OF(changes); i++) {
        const double faster = step_of(*number, making, changes[i]);
        cr_expect_leq(faster, step * SLACK, "%d with faster part %zu: %.0f, %.0f before on %s", *number, i, faster,
                      step, slice_of(*number));
    }
}

// Collectives in halves, which the emulator may put anywhere, take no longer than those that the device waits for.
CaseList(emulator_random, halves_take_no_more_time) {
    return cases_numbered(PROGRAMS);
}
CaseTest(const int *number, emulator_random, halves_take_no_more_time) {
    Making making = making_of(*number);
    making.scheduled = making.halves = false;
    const double whole = step_of(*number, making, NULL);
    making.halves = true;
    const double halves = step_of(*number, making, NULL);
    cr_expect_leq(halves, whole * SLACK, "%d: %.0f in halves, %.0f whole on %s", *number, halves, whole,
                  slice_of(*number));
}
