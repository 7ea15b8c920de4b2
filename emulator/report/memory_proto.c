// SPDX-License-Identifier: Apache-2.0
// Writes a program with its memory as XLA's HloProto, which XProf's memory viewer reads: arguments and results as one
// allocation each, all temporaries in another one, whose trace has them come and go.
//
// The messages are those of openxla's hlo.proto:
//   HloProto  1: module, 3: buffer assignment
//   BufferAssignmentProto  1: logical buffers, 3: allocations, 4: traces of the heap
//   LogicalBufferProto     1: id, 2: size, 3: defined at (2: instruction's name, 3: shape index, 4: instruction's id)
//   BufferAllocationProto  1: index, 2: size, 5: is parameter, 6: its number, 7: may be live out, 9: assigned buffers
//                          (1: id, 2: offset, 3: size), 10: parameter's shape index, 11: is a tuple
//   HeapSimulatorTrace     1: events (1: kind, 2: buffer, 3: computation, 4: instruction), 2: whole module,
//                          3: allocation
//
// The machine model counts bytes and knows no addresses. Temporaries get theirs here as XLA's heap simulator assigns
// them: the largest first, each at the lowest place that is free for all of its life. The allocation is as long as that
// needs, which XProf shows as fragmentation where it is more than the peak.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/program.h"
#include "hlo/proto/proto.h"
#include "hlo/proto/wire.h"

enum { EVENT_FREE = 1 };

// A temporary in the allocation.
typedef struct Place {
    int64_t buffer;  // its number in the trace
    int64_t bytes, offset;
    int64_t start, stop;  // events between which it is alive
} Place;

typedef struct Writer {
    EmuProgram *program;
    HloText *text;
    const EmuMemory *memory;
    EmuMemoryTrace trace;
    int64_t *lasting;  // numbers in memory->largest of what is held for the whole step
    int64_t lasting_count;
    Place *places;  // of the trace's buffers, by their number
    int64_t heap_bytes;
} Writer;

// Largest first, then the one that is made first.
static int compare_places(const void *left, const void *right) {
    const Place *a = *(Place *const *)left, *b = *(Place *const *)right;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

// Puts a temporary at the lowest place that nothing else has during its life, and into the list, which is in the order
// of offsets.
static void place_one(Place **placed, int64_t count, Place *one) {
    for (int64_t i = 0; i < count; i++) {
        const Place *other = placed[i];
        if (other->stop <= one->start || one->stop <= other->start) continue;
        if (other->offset - one->offset >= one->bytes) break;
        if (other->offset + other->bytes > one->offset) one->offset = other->offset + other->bytes;
    }
    int64_t at = count;
    for (; at > 0 && placed[at - 1]->offset > one->offset; at--) placed[at] = placed[at - 1];
    placed[at] = one;
}

static void place_temporaries(Writer *writer) {
    HloArena *arena = writer->program->arena;
    const EmuMemoryTrace *trace = &writer->trace;
    writer->places = HLO_ARENA_NEW(arena, Place, trace->buffer_count + 1);
    Place **order = HLO_ARENA_NEW(arena, Place *, trace->buffer_count + 1);
    for (int64_t i = 0; i < trace->buffer_count; i++) {
        writer->places[i] = (Place){.buffer = i, .bytes = trace->buffers[i].bytes};
        order[i] = &writer->places[i];
    }
    for (int64_t e = 0; e < trace->event_count; e++) {
        Place *place = &writer->places[trace->events[e].buffer];
        *(trace->events[e].is_freed ? &place->stop : &place->start) = e;
    }
    qsort(order, (size_t)trace->buffer_count, sizeof(*order), compare_places);
    Place **placed = HLO_ARENA_NEW(arena, Place *, trace->buffer_count + 1);
    for (int64_t i = 0; i < trace->buffer_count; i++) {
        place_one(placed, i, order[i]);
        const int64_t end = order[i]->offset + order[i]->bytes;
        if (end > writer->heap_bytes) writer->heap_bytes = end;
    }
}

// The path of indices to the array of a buffer: empty if it is not in a tuple, or is the tuple itself.
static HloInts shape_index(const Writer *writer, const EmuBuffer *buffer) {
    HLO_VECTOR(int64_t) path = {0};
    const HloShape *shape = buffer->instruction->shape;
    for (int64_t leaf = buffer->leaf; leaf >= 0 && hlo_shape_is_tuple(shape);) {
        const int32_t element = hlo_shape_element_of_leaf(shape, leaf);
        leaf -= hlo_shape_first_leaf(shape, element);
        shape = shape->elements[element];
        hlo_vector_push(writer->program->arena, &path, element);
    }
    return (HloInts){path.items, path.count};
}

static void write_logical_buffer(const Writer *writer, int64_t id, const EmuBuffer *buffer) {
    HloText *text = writer->text;
    const size_t mark = hlo_wire_begin(text, 1);
    hlo_wire_varint(text, 1, (uint64_t)id);
    hlo_wire_varint(text, 2, (uint64_t)buffer->bytes);
    const size_t place = hlo_wire_begin(text, 3);
    hlo_wire_string_field(text, 2, buffer->instruction->name);
    hlo_wire_ints(text, 3, shape_index(writer, buffer));
    hlo_wire_varint(text, 4, (uint64_t)buffer->instruction->id);
    hlo_wire_end(text, place);
    hlo_wire_end(text, mark);
}

static void write_assigned(HloText *text, int64_t id, int64_t offset, int64_t bytes) {
    const size_t mark = hlo_wire_begin(text, 9);
    hlo_wire_varint(text, 1, (uint64_t)id);
    hlo_wire_varint(text, 2, (uint64_t)offset);
    hlo_wire_varint(text, 3, (uint64_t)bytes);
    hlo_wire_end(text, mark);
}

// Whether a result takes over the memory of an argument.
static bool is_donated(const HloModule *module, const EmuBuffer *argument) {
    const int64_t number = hlo_parameter_number(argument->instruction);
    for (int64_t i = 0; i < module->aliases.count; i++) {
        const HloAlias *alias = &module->aliases.items[i];
        if (alias->operand != number) continue;
        if (hlo_shape_leaf_number(argument->instruction->shape, alias->operand_index) == argument->leaf) return true;
    }
    return false;
}

// The allocation of something that is held for the whole step. `id` is that of its buffer and of the allocation.
static void write_lasting_allocation(const Writer *writer, int64_t id, const EmuBuffer *buffer) {
    HloText *text = writer->text;
    const bool is_argument = buffer->kind == EMU_BUFFER_ARGUMENT;
    const size_t mark = hlo_wire_begin(text, 3);
    hlo_wire_varint(text, 1, (uint64_t)id);
    hlo_wire_varint(text, 2, (uint64_t)buffer->bytes);
    hlo_wire_varint(text, 5, is_argument);
    if (is_argument) hlo_wire_varint(text, 6, (uint64_t)hlo_parameter_number(buffer->instruction));
    hlo_wire_varint(text, 7, !is_argument || is_donated(writer->program->module, buffer));
    write_assigned(text, id, 0, buffer->bytes);
    if (is_argument) hlo_wire_ints(text, 10, shape_index(writer, buffer));
    hlo_wire_varint(text, 11, buffer->kind == EMU_BUFFER_TABLE);
    hlo_wire_end(text, mark);
}

static void write_heap_allocation(const Writer *writer) {
    const size_t mark = hlo_wire_begin(writer->text, 3);
    hlo_wire_varint(writer->text, 1, (uint64_t)writer->lasting_count);
    hlo_wire_varint(writer->text, 2, (uint64_t)writer->heap_bytes);
    for (int64_t i = 0; i < writer->trace.buffer_count; i++)
        write_assigned(writer->text, writer->lasting_count + i, writer->places[i].offset, writer->places[i].bytes);
    hlo_wire_end(writer->text, mark);
}

static void write_trace(const Writer *writer) {
    HloText *text = writer->text;
    const size_t mark = hlo_wire_begin(text, 4);
    for (int64_t i = 0; i < writer->trace.event_count; i++) {
        const EmuMemoryEvent *event = &writer->trace.events[i];
        const size_t inner = hlo_wire_begin(text, 1);
        hlo_wire_varint(text, 1, event->is_freed ? EVENT_FREE : 0);
        hlo_wire_varint(text, 2, (uint64_t)(writer->lasting_count + event->buffer));
        hlo_wire_string_field(text, 3, event->at->parent->name);
        hlo_wire_string_field(text, 4, event->at->name);
        hlo_wire_end(text, inner);
    }
    hlo_wire_varint(text, 2, 1);
    hlo_wire_varint(text, 3, (uint64_t)writer->lasting_count);
    hlo_wire_end(text, mark);
}

// Ids of buffers: what is held for the whole step, then the temporaries in the order of the trace.
static void write_assignment(Writer *writer) {
    const EmuMemory *memory = writer->memory;
    const size_t mark = hlo_wire_begin(writer->text, 3);
    for (int64_t i = 0; i < writer->lasting_count; i++)
        write_logical_buffer(writer, i, &memory->largest[writer->lasting[i]]);
    for (int64_t i = 0; i < writer->trace.buffer_count; i++)
        write_logical_buffer(writer, writer->lasting_count + i, &writer->trace.buffers[i]);
    for (int64_t i = 0; i < writer->lasting_count; i++)
        write_lasting_allocation(writer, i, &memory->largest[writer->lasting[i]]);
    if (writer->trace.buffer_count) {
        write_heap_allocation(writer);
        write_trace(writer);
    }
    hlo_wire_end(writer->text, mark);
}

HloStatus emu_program_write_proto(EmuProgram *program, const EmuMemory *memory, HloText *bytes) {
    assert(program && memory && bytes);
    Writer writer = {.program = program, .text = bytes, .memory = memory};
    const size_t mark = hlo_wire_begin(bytes, 1);
    HLO_TRY(hlo_module_to_proto(program->module, bytes));
    hlo_wire_end(bytes, mark);
    writer.lasting = HLO_ARENA_NEW(program->arena, int64_t, memory->largest_count + 1);
    for (int64_t i = 0; i < memory->largest_count; i++)
        if (memory->largest[i].kind != EMU_BUFFER_TEMPORARY) writer.lasting[writer.lasting_count++] = i;
    emu_program_trace_memory(program, &writer.trace);
    place_temporaries(&writer);
    write_assignment(&writer);
    return hlo_text_status(bytes);
}
