// SPDX-License-Identifier: Apache-2.0
// The program that a report keeps for XLA's tools: its buffer assignment has the report's peak, and no two temporaries
// are at one place at one time. tests/packages/xprof.sh has XProf read it.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emulator.h"
#include "hlo/proto/proto.h"
#include "hlo/proto/wire.h"
#include "hlo/text/text.h"

typedef struct Buffer {
    int64_t bytes, offset;
    bool is_alive, is_temporary;
} Buffer;

enum { MOST_BUFFERS = 40000 };

typedef struct Assignment {
    Buffer buffers[MOST_BUFFERS];
    int64_t buffer_count;
    int64_t lasting, heap, frees;
    int64_t peak;  // of temporaries
} Assignment;

static Buffer *buffer_of(Assignment *assignment, int64_t id) {
    cr_assert(id >= 0 && id < assignment->buffer_count, "there is no buffer %lld", (long long)id);
    return &assignment->buffers[id];
}

// Calls visit() for each field of a message.
typedef void Visit(Assignment *assignment, const HloWireField *field, void *context);
static void each_field(Assignment *assignment, HloSpan message, Visit *visit, void *context) {
    HloWireReader reader = hlo_wire_reader(message.data, message);
    HloWireField field;
    HloStatus status = HLO_SUCCESS;
    while (hlo_wire_next(&reader, &field, &status)) visit(assignment, &field, context);
    cr_assert_null(status, "%s", hlo_status_message(status));
}

typedef struct Numbers {
    int64_t values[16];  // by field number
} Numbers;
static void read_numbers(Assignment *assignment, const HloWireField *field, void *context) {
    (void)assignment;
    Numbers *numbers = context;
    if (field->type == HLO_WIRE_VARINT && field->number < 16) numbers->values[field->number] = (int64_t)field->value;
}
static Numbers numbers_of(Assignment *assignment, HloSpan message) {
    Numbers numbers = {{0}};
    each_field(assignment, message, read_numbers, &numbers);
    return numbers;
}

static void read_assigned(Assignment *assignment, const HloWireField *field, void *context) {
    if (field->number != 9) return;
    const Numbers assigned = numbers_of(assignment, field->bytes);
    Buffer *buffer = buffer_of(assignment, assigned.values[1]);
    cr_expect_eq(buffer->bytes, assigned.values[3]);
    buffer->offset = assigned.values[2];
    buffer->is_temporary = *(bool *)context;
}

static void read_event(Assignment *assignment, const HloWireField *field, void *context) {
    (void)context;
    if (field->number != 1) return;
    const Numbers event = numbers_of(assignment, field->bytes);
    Buffer *buffer = buffer_of(assignment, event.values[2]);
    cr_expect(buffer->is_temporary);
    cr_expect_eq(buffer->is_alive, event.values[1] == 1);
    buffer->is_alive = event.values[1] == 0;
    if (!buffer->is_alive) {
        assignment->frees++;
        return;
    }
    int64_t alive = 0;
    for (int64_t i = 0; i < assignment->buffer_count; i++) {
        const Buffer *other = &assignment->buffers[i];
        if (!other->is_alive) continue;
        alive += other->bytes;
        cr_expect(other == buffer || other->offset + other->bytes <= buffer->offset ||
                  buffer->offset + buffer->bytes <= other->offset);
    }
    if (alive > assignment->peak) assignment->peak = alive;
}

static void read_part(Assignment *assignment, const HloWireField *field, void *context) {
    (void)context;
    const Numbers numbers = numbers_of(assignment, field->bytes);
    if (field->number == 1) {
        cr_assert_eq(numbers.values[1], assignment->buffer_count, "buffers are numbered");
        cr_assert_lt(assignment->buffer_count, MOST_BUFFERS);
        assignment->buffers[assignment->buffer_count++].bytes = numbers.values[2];
    } else if (field->number == 3) {
        bool is_temporary = !numbers.values[5] && !numbers.values[7];  // no parameter, and not live out
        *(is_temporary ? &assignment->heap : &assignment->lasting) += numbers.values[2];
        each_field(assignment, field->bytes, read_assigned, &is_temporary);
    } else if (field->number == 4) {
        each_field(assignment, field->bytes, read_event, NULL);
    }
}

static void read_program(Assignment *assignment, const HloWireField *field, void *context) {
    (void)context;
    if (field->number == 3) each_field(assignment, field->bytes, read_part, NULL);
}

// Checks the kept program of a step, and returns how many temporaries it has.
static int64_t check_program(const char *text, const char *slice) {
    HloModule *module = NULL, *kept = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    HloStatus status = hlo_parse(text, strlen(text), &(HloParseOptions){.file = "test"}, &module);
    if (!status) status = emu_topology_parse(slice, &topology);
    if (!status) status = emu_simulate(module, topology, &(EmuOptions){.keeps_program = true}, &report);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_assert_not_null(report->program);
    Assignment *assignment = calloc(1, sizeof *assignment);
    each_field(assignment, (HloSpan){report->program, report->program_length}, read_program, NULL);
    cr_expect_eq(assignment->peak, report->temp_bytes);
    cr_expect_eq(assignment->lasting + assignment->peak, report->hbm_peak_bytes);
    cr_expect_geq(assignment->heap, assignment->peak);
    cr_expect_leq((double)assignment->heap, 1.1 * (double)assignment->peak);
    int64_t temporaries = 0;
    for (int64_t i = 0; i < assignment->buffer_count; i++) {
        cr_expect_not(assignment->buffers[i].is_alive);
        temporaries += assignment->buffers[i].is_temporary;
    }
    cr_expect_eq(assignment->frees, temporaries);
    cr_assert_null(hlo_module_from_proto(report->program, report->program_length, &kept));
    cr_expect_str_eq(kept->name, module->name);
    hlo_module_free(kept);
    hlo_module_free(module);
    emu_topology_free(topology);
    emu_report_free(report);
    free(assignment);
    return temporaries;
}

#define LOOP                                                                                             \
    "more {\n s = (f32[512,512], s32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=1\n"        \
    " n = s32[] constant(3)\n ROOT l = pred[] compare(i,n), direction=LT\n}\n"                           \
    "body {\n s = (f32[512,512], s32[]) parameter(0)\n x = f32[512,512] get-tuple-element(s), index=0\n" \
    " i = s32[] get-tuple-element(s), index=1\n one = s32[] constant(1)\n j = s32[] add(i,one)\n"        \
    " y = f32[512,512] dot(x,x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"                   \
    " z = f32[512,512] dot(y,x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"                   \
    " w = f32[512,512] dot(z,y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"                   \
    " ROOT r = (f32[512,512], s32[]) tuple(w,j)\n}\n"

// Arguments in a tuple, a donated one, and temporaries in a loop beside those around it. v4 has no VMEM for arrays.
Test(memory_proto, has_the_peak_of_the_report) {
    const int64_t temporaries =
        check_program("HloModule loop, input_output_alias={{1}: (0, {0}, may-alias)}\n" LOOP
                      "ENTRY main {\n p = (f32[512,512], s32[]) parameter(0)\n q = f32[512,512] parameter(1)\n"
                      " a = f32[512,512] dot(q,q), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
                      " w = (f32[512,512], s32[]) while(p), condition=more, body=body\n"
                      " x = f32[512,512] get-tuple-element(w), index=0\n"
                      " b = f32[512,512] dot(x,a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                      " c = f32[512,512] dot(b,a), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
                      " ROOT r = (f32[512,512], f32[512,512]) tuple(b,c)\n}\n",
                      "v5p-8");
    cr_expect_geq(temporaries, 3);
}

Test(memory_proto, of_a_program_without_temporaries) {
    cr_expect_eq(check_program("HloModule none\nENTRY main {\n p = f32[8,128] parameter(0)\n"
                               " ROOT r = f32[8,128] negate(p)\n}\n",
                               "v5e-1"),
                 0);
}

// Each computation calls the one before twice: so many calls that the temporaries of some become one buffer.
Test(memory_proto, of_many_calls) {
    HloText text = {0};
    hlo_text_string(&text, "HloModule calls\n");
    for (int depth = 0; depth < 14; depth++) {
        hlo_text_format(
            &text,
            "%s {\n p = f32[256,256] parameter(0)\n zero = s32[] constant(0)\n"
            " a = f32[256,256] dot(p,p), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n b = f32[256,256] ",
            depth == 13 ? "ENTRY main" : (char[]){'f', (char)('a' + depth), 0});
        if (depth == 0)
            hlo_text_string(&text, "cosine(a)\n");
        else
            hlo_text_format(&text, "conditional(zero,a,a), branch_computations={f%c,f%c}\n", 'a' + depth - 1,
                            'a' + depth - 1);
        hlo_text_string(&text,
                        " c = f32[256,256] dot(b,a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                        " ROOT d = f32[256,256] dot(c,b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n");
    }
    const int64_t temporaries = check_program(text.data, "v5p-8");
    cr_expect(temporaries > 20000 && temporaries < 30000, "%lld", (long long)temporaries);
    hlo_text_free(&text);
}
