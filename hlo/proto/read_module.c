// SPDX-License-Identifier: Apache-2.0
// Reads a HloModuleProto. Field numbers: xla/service/hlo.proto.
//
// The message refers by number where the graph has pointers: operands and control predecessors by the id of an
// instruction of the same computation, callees by the id of a computation. Definitions come before references in the
// file (XLA writes it so, and other orders are refused by name), so one pass suffices. An instruction's fields are
// split once into a list, from which each reader takes its own; unknown fields are skipped as protobuf requires, and
// those that the text format cannot express are kept in `rest` where it matters.
//
//   HloModuleProto  host_program_shape 4, schedule 7, input_output_alias 8, stack_frame_index 17, buffer_donor 18, and
//                   the names, computations and numbers that write_module.c lists
//   OpMetadata      op_type 1, op_name 2, source_file 3, source_line 4, profile_type 5, deduplicated_name 12,
//                   stack_frame_id 15, scheduling_name 16, source_end_line 17, source_column 18, source_end_column 19,
//                   metadata_payload 20
//
// Messages are untrusted: numbers, ids, shapes and names are checked before they are used, and the caller verifies the
// module.
#include <assert.h>
#include <stdlib.h>

#include "hlo/ir/collective.h"
#include "hlo/ir/propagation.h"
#include "hlo/proto/parts.h"
#include "hlo/proto/proto.h"

typedef HLO_VECTOR(HloWireField) FieldVector;

// An instruction or computation with its id in the file.
typedef struct Numbered {
    int64_t id, position;
    void *item;
} Numbered;

// A computation and its instructions by their id in the file (HloInstruction * as int64_t). Ids repeat between
// computations.
typedef struct ReadComputation {
    HloComputation *computation;
    HloIntMap instructions;
    HLO_VECTOR(Numbered) order;  // the instructions in file order
} ReadComputation;

typedef struct ModuleReader {
    HloProtoSource source;
    HloModule *module;
    HloArena *scratch;
    HloIntMap computations;    // id in the file -> ReadComputation *
    ReadComputation *current;  // the one being read
    // The fields of the current instruction.
    FieldVector fields;
    HloInt64Vector ids;
    HloInstructionVector operands, control_predecessors;
    // Values that most instructions repeat are read once: bytes of a ShapeProto -> HloShape, of an OpMetadata ->
    // HloMetadata, an opcode's text -> HloOpcode + 1.
    HloStringMap shapes, metadata, opcodes;
    HLO_VECTOR(Numbered) order;  // the computations in file order
    HloStringVector payloads;    // that metadata and backend configurations name by number
} ModuleReader;

// ---------------------------------------------------------------------------------------------------------------------
// Small messages

// Numbers with commas between them, as they appear in text between the braces.
static HloStatus list_text(const HloProtoSource *source, const HloInt64Vector *numbers, const char **result) {
    HloText text = {0};
    for (int64_t i = 0; i < numbers->count; i++) {
        hlo_text_format(&text, i ? ",%lld" : "%lld", (long long)numbers->items[i]);
    }
    *result = hlo_text_to_arena(source->arena, &text);
    return HLO_SUCCESS;
}

HloStatus hlo_proto_read_payload(const HloProtoSource *source, HloSpan span, const char **payload) {
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    *payload = "";
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) HLO_TRY(hlo_wire_string(source->arena, field.bytes, payload));
        if (field.number != 2) continue;
        const uint64_t known = source->payloads ? (uint64_t)source->payloads->count : 0;
        HLO_FAIL_IF(field.value >= known, HLO_INVALID_ARGUMENT, "payload %llu is named, but the module has %llu",
                    (unsigned long long)field.value, (unsigned long long)known);
        *payload = source->payloads->items[field.value];
    }
    return status;
}

// OpMetadata. An empty message is no metadata.
HloStatus hlo_proto_read_metadata(const HloProtoSource *source, HloSpan span, const HloMetadata **result) {
    HloMetadata *metadata = HLO_ARENA_NEW(source->arena, HloMetadata, 1);
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    HloInt64Vector profiles = {0};
    bool any = false;
    while (hlo_wire_next(&reader, &field, &status)) {
        any = true;
        switch (field.number) {
            case 1: HLO_TRY(hlo_wire_string(source->arena, field.bytes, &metadata->op_type)); break;
            case 2: HLO_TRY(hlo_wire_string(source->arena, field.bytes, &metadata->op_name)); break;
            case 3: HLO_TRY(hlo_wire_string(source->arena, field.bytes, &metadata->source_file)); break;
            case 4: metadata->source_line = (int32_t)field.value; break;
            case 5: HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &profiles)); break;
            case 12: HLO_TRY(hlo_wire_string(source->arena, field.bytes, &metadata->deduplicated_name)); break;
            case 15: metadata->stack_frame_id = (int32_t)field.value; break;
            case 16: HLO_TRY(hlo_wire_string(source->arena, field.bytes, &metadata->scheduling_name)); break;
            case 17: metadata->source_end_line = (int32_t)field.value; break;
            case 18: metadata->source_column = (int32_t)field.value; break;
            case 19: metadata->source_end_column = (int32_t)field.value; break;
            case 20: HLO_TRY(hlo_proto_read_payload(source, field.bytes, &metadata->payload)); break;
            default: break;
        }
    }
    HLO_TRY(status);
    *result = any ? metadata : NULL;
    return profiles.count ? list_text(source, &profiles, &metadata->profile_type) : HLO_SUCCESS;
}

// A map<string, string>, which is a repeated message of key and value, in the order of the message.
static HloStatus read_key_values(const HloProtoSource *source, HloSpan span, HloKeyValues *pairs) {
    HLO_VECTOR(HloKeyValue) list = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span), entry;
    HloWireField field, part;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number != 1) continue;
        HloKeyValue pair = {"", ""};
        entry = hlo_wire_reader(source->begin, field.bytes);
        while (hlo_wire_next(&entry, &part, &status)) {
            if (part.number == 1) HLO_TRY(hlo_wire_string(source->arena, part.bytes, &pair.key));
            if (part.number == 2) HLO_TRY(hlo_wire_string(source->arena, part.bytes, &pair.value));
        }
        HLO_TRY(status);
        HLO_FAIL_IF(!hlo_is_attribute_key(pair.key), HLO_INVALID_ARGUMENT,
                    "frontend attribute \"%s\" has a name that HLO text cannot hold", pair.key);
        hlo_vector_push(source->arena, &list, pair);
    }
    *pairs = (HloKeyValues){list.items, list.count};
    return status;
}

// All fields of a message, in file order.
static HloStatus split_fields(const HloProtoSource *source, HloSpan span, HloArena *arena, FieldVector *fields) {
    assert(arena && fields);
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) hlo_vector_push(arena, fields, field);
    return status;
}

// The last field with this number, or NULL: for a field that is not repeated, the last one counts in protobuf.
static const HloWireField *find_field(const FieldVector *fields, int32_t number) {
    for (int64_t i = fields->count - 1; i >= 0; i--) {
        if (fields->items[i].number == number) return &fields->items[i];
    }
    return NULL;
}

// A missing number is zero. A field with this number and another wire type does not count.
static int64_t field_value(const FieldVector *fields, int32_t number) {
    for (int64_t i = fields->count - 1; i >= 0; i--) {
        const HloWireField *field = &fields->items[i];
        if (field->number == number && field->type == HLO_WIRE_VARINT) return (int64_t)field->value;
    }
    return 0;
}

// A number with 32 bits, as positions in sources have: protobuf takes the lower bits of a longer one.
static int64_t field_int32(const FieldVector *fields, int32_t number) {
    return (int32_t)field_value(fields, number);
}

// All numbers of a repeated field, including all its pieces, in scratch memory.
static HloStatus field_ints(const ModuleReader *reader, const FieldVector *fields, int32_t number,
                            HloInt64Vector *list) {
    for (int64_t i = 0; i < fields->count; i++) {
        if (fields->items[i].number != number) continue;
        HLO_TRY(hlo_wire_read_ints(reader->scratch, reader->source.begin, &fields->items[i], list));
    }
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Instructions

// Appends the instructions of the current computation whose ids are in a field to the list.
static HloStatus find_instructions(ModuleReader *reader, const HloWireField *field, const char *user,
                                   HloInstructionVector *result) {
    assert(user && result);
    HloInt64Vector *ids = &reader->ids;
    ids->count = 0;
    HLO_TRY(hlo_wire_read_ints(reader->scratch, reader->source.begin, field, ids));
    for (int64_t i = 0; i < ids->count; i++) {
        const int64_t *found = hlo_int_map_find(&reader->current->instructions, (uint64_t)ids->items[i]);
        HLO_FAIL_IF(!found, HLO_INVALID_ARGUMENT, "%s uses instruction id %lld, which does not precede it", user,
                    (long long)ids->items[i]);
        hlo_vector_push(reader->scratch, result, (HloInstruction *)(intptr_t)*found);
    }
    return HLO_SUCCESS;
}

// A while calls (body, condition) in the message and (condition, body) here and in the text.
static HloStatus read_called(ModuleReader *reader, const FieldVector *fields, HloInstruction *instruction) {
    reader->ids.count = 0;
    HLO_TRY(field_ints(reader, fields, 38, &reader->ids));
    const HloInt64Vector ids = reader->ids;
    if (ids.count == 0) return HLO_SUCCESS;
    HloComputation **called = HLO_ARENA_NEW(reader->scratch, HloComputation *, ids.count);
    for (int64_t i = 0; i < ids.count; i++) {
        const int64_t *found = hlo_int_map_find(&reader->computations, (uint64_t)ids.items[i]);
        HLO_FAIL_IF(!found, HLO_INVALID_ARGUMENT, "%s calls computation id %lld, which does not precede it",
                    instruction->name, (long long)ids.items[i]);
        called[i] = ((ReadComputation *)(intptr_t)*found)->computation;
    }
    if (instruction->opcode == HLO_OP_WHILE && ids.count == 2) {  // the message has the body first
        HloComputation *body = called[0];
        called[0] = called[1];
        called[1] = body;
    }
    hlo_instruction_set_called(instruction, called, ids.count);
    return HLO_SUCCESS;
}

// A model has a few hundred shapes and a hundred thousand instructions: equal bytes are read once.
static HloStatus read_shape(ModuleReader *reader, HloSpan span, const HloShape **shape) {
    assert(span.data || span.length == 0);
    const char *key = (const char *)span.data;
    *shape = span.length ? hlo_string_map_get(&reader->shapes, key, span.length) : NULL;
    if (*shape) return HLO_SUCCESS;
    HLO_TRY(hlo_proto_read_shape(&reader->source, span, shape));
    if (span.length) {
        hlo_string_map_set(reader->scratch, &reader->shapes, key, span.length, (void *)(uintptr_t)*shape);
    }
    return HLO_SUCCESS;
}

// The same for metadata: four in five repeat another one of the module (in the corpus of production modules).
static HloStatus read_metadata(ModuleReader *reader, HloSpan span, const HloMetadata **metadata) {
    assert(span.data || span.length == 0);
    const char *key = (const char *)span.data;
    *metadata = span.length ? hlo_string_map_get(&reader->metadata, key, span.length) : NULL;
    if (*metadata || span.length == 0) return HLO_SUCCESS;
    HLO_TRY(hlo_proto_read_metadata(&reader->source, span, metadata));
    HLO_BUG_IF(!*metadata);  // only a message of no bytes has none
    hlo_string_map_set(reader->scratch, &reader->metadata, key, span.length, (void *)(uintptr_t)*metadata);
    return HLO_SUCCESS;
}

// HLO_OPCODE_COUNT for a text that is not an opcode.
static HloOpcode read_opcode(ModuleReader *reader, HloSpan span) {
    const char *text = (const char *)span.data;
    if (span.length == 0) return HLO_OPCODE_COUNT;
    uintptr_t known = (uintptr_t)hlo_string_map_get(&reader->opcodes, text, span.length);
    if (!known) {
        known = (uintptr_t)hlo_op_from_text(text, span.length) + 1;
        hlo_string_map_set(reader->scratch, &reader->opcodes, text, span.length, (void *)known);
    }
    return (HloOpcode)(known - 1);
}

// Reads the annotations that every instruction may have.
static HloStatus read_annotations(ModuleReader *reader, const FieldVector *fields, HloInstruction *instruction) {
    const HloProtoSource *source = &reader->source;
    for (int64_t i = 0; i < fields->count; i++) {
        const HloWireField *field = &fields->items[i];
        switch (field->number) {
            case 7: HLO_TRY(read_metadata(reader, field->bytes, &instruction->metadata)); break;
            case 40: HLO_TRY(hlo_proto_read_sharding(source, field->bytes, &instruction->sharding)); break;
            case 43:
                if (field->bytes.length) {
                    HLO_TRY(hlo_wire_string(source->arena, field->bytes, &instruction->backend_config));
                    instruction->backend_config_is_json = instruction->backend_config[0] == '{';
                }
                break;
            case 68: HLO_TRY(read_key_values(source, field->bytes, &instruction->frontend_attributes)); break;
            case 82: HLO_TRY(hlo_proto_read_statistics(source, field->bytes, &instruction->statistics)); break;
            case 88: HLO_TRY(hlo_proto_read_origin(source, field->bytes, &instruction->origin)); break;
            case 99:
                HLO_TRY(hlo_proto_read_payload(source, field->bytes, &instruction->backend_config));
                instruction->backend_config_is_json = instruction->backend_config[0] == '{';
                break;
            default: break;
        }
    }
    return HLO_SUCCESS;
}

// Groups slice_sizes={{…},{…}} of a collective-permute, whose numbers are one list in the message.
static HloStatus group_slice_sizes(const HloProtoSource *source, HloInstruction *const *operands, int64_t count,
                                   const char *name, HloPermuteAttributes *permute) {
    if (permute->slice_sizes.count == 0) return HLO_SUCCESS;
    HLO_FAIL_IF(count != 4, HLO_INVALID_ARGUMENT, "%s has slice sizes, but not the four operands of the in-place form",
                name);
    HloInts all = permute->slice_sizes.items[0];
    const HloShape *input = operands[0]->shape;
    HLO_VECTOR(HloInts) lists = {0};
    int64_t used = 0, inputs = input->type == HLO_TUPLE ? input->element_count : 1;
    for (int64_t i = 0; i < inputs; i++) {
        int64_t rank = input->type == HLO_TUPLE ? input->elements[i]->rank : input->rank;
        int64_t slices = input->type == HLO_TUPLE ? hlo_permute_slices(operands[2]->shape, i)
                         : rank                   ? all.count / rank
                                                  : 1;
        for (int64_t j = 0; j < slices; j++, used += rank) {
            HLO_FAIL_IF(rank > all.count - used, HLO_INVALID_ARGUMENT, "%s has too few slice sizes", name);
            hlo_vector_push(source->arena, &lists, ((HloInts){all.items + used, rank}));
        }
    }
    permute->slice_sizes = (HloIntsList){lists.items, lists.count};
    return HLO_SUCCESS;
}

// Removes parts that text omits: defaults, and the name of the only kind of domain.
static HloStatus complete_attributes(const HloProtoSource *source, HloOpcode opcode, HloInstruction *const *operands,
                                     int64_t count, const char *name, void *attributes) {
    HloFamily family = hlo_op_info(opcode)->family;
    if (family == HLO_FAMILY_Compare && count > 0) {
        HloCompareAttributes *compare = attributes;
        if (compare->type == hlo_comparison_default(operands[0]->shape->type)) {
            compare->type = HLO_ComparisonType_DEFAULT;
        }
    } else if (family == HLO_FAMILY_Domain) {
        HloDomainAttributes *domain = attributes;
        HLO_FAIL_IF(!domain->entry || !domain->exit, HLO_INVALID_ARGUMENT,
                    "domain %s does not give the shardings of both of its sides", name);
        domain->kind = "sharding";
    } else if (family == HLO_FAMILY_Permute) {
        return group_slice_sizes(source, operands, count, name, attributes);
    }
    return HLO_SUCCESS;
}

// The name in a field, in `arena`; *name is unchanged without one. An empty name counts as absent: writers omit it.
static HloStatus read_name(HloArena *arena, const HloWireField *field, const char **name) {
    assert(arena && name);
    if (!field || field->bytes.length == 0) return HLO_SUCCESS;
    return hlo_wire_string(arena, field->bytes, name);
}

// The fields that every instruction has or by which others refer to it.
typedef struct CommonFields {
    const HloWireField *name, *opcode, *shape;  // NULL: missing
    int64_t id;
} CommonFields;

// For fields that are not repeated, the last one counts in protobuf.
static CommonFields common_fields(const FieldVector *fields) {
    CommonFields common = {0};
    for (int64_t i = 0; i < fields->count; i++) {
        const HloWireField *field = &fields->items[i];
        switch (field->number) {
            case 1: common.name = field; break;
            case 2: common.opcode = field; break;
            case 3: common.shape = field; break;
            case 35:
                if (field->type == HLO_WIRE_VARINT) common.id = (int64_t)field->value;
                break;
            default: break;
        }
    }
    return common;
}

// Reads operands and control predecessors.
static HloStatus read_edges(ModuleReader *reader, const char *name) {
    reader->operands.count = reader->control_predecessors.count = 0;
    for (int64_t i = 0; i < reader->fields.count; i++) {
        const HloWireField *field = &reader->fields.items[i];
        if (field->number == 36) HLO_TRY(find_instructions(reader, field, name, &reader->operands));
        if (field->number == 37) HLO_TRY(find_instructions(reader, field, name, &reader->control_predecessors));
    }
    return HLO_SUCCESS;
}

// One HloInstructionProto. `most` bounds parameter numbers, which index an array.
static HloStatus read_instruction(ModuleReader *reader, HloComputation *computation, HloSpan span, int64_t most) {
    assert(computation->module == reader->module);
    reader->fields.count = 0;
    HLO_TRY(split_fields(&reader->source, span, reader->scratch, &reader->fields));
    const FieldVector fields = reader->fields;
    const CommonFields common = common_fields(&fields);
    HLO_FAIL_IF(!common.opcode || !common.shape, HLO_INVALID_ARGUMENT, "an instruction has no opcode or no shape");
    const HloSpan text = common.opcode->bytes;
    const HloOpcode opcode = read_opcode(reader, text);
    HLO_FAIL_IF(opcode == HLO_OPCODE_COUNT, HLO_INVALID_ARGUMENT, "unknown opcode \"%.*s\"", (int)text.length,
                (const char *)text.data);
    const char *name = hlo_op_text(opcode);
    HLO_TRY(read_name(reader->scratch, common.name, &name));
    const HloShape *shape = NULL;
    HLO_TRY(read_shape(reader, common.shape->bytes, &shape));
    HLO_TRY(read_edges(reader, name));
    HloInstruction **operands = reader->operands.items;
    const int64_t operand_count = reader->operands.count;
    void *attributes = hlo_arena_allocate(reader->scratch, hlo_family_info(hlo_op_info(opcode)->family)->bytes);
    HLO_TRY(hlo_status_annotate(
        hlo_proto_read_attributes(&reader->source, fields.items, fields.count, opcode, attributes), "%s", name));
    HLO_TRY(complete_attributes(&reader->source, opcode, operands, operand_count, name, attributes));
    if (opcode == HLO_OP_PARAMETER) {
        int64_t number = ((const HloParameterAttributes *)attributes)->number;
        HLO_FAIL_IF(number < 0 || number >= most, HLO_INVALID_ARGUMENT, "parameter %s has number %lld", name,
                    (long long)number);
    }
    HloInstruction *instruction =
        hlo_instruction_new(computation, opcode, shape, operands, operand_count, attributes, name);
    for (int64_t i = 0; i < reader->control_predecessors.count; i++) {
        hlo_instruction_add_control_edge(reader->control_predecessors.items[i], instruction);
    }
    HLO_TRY(read_called(reader, &fields, instruction));
    HLO_TRY(read_annotations(reader, &fields, instruction));
    hlo_int_map_set(reader->scratch, &reader->current->instructions, (uint64_t)common.id, (intptr_t)instruction);
    // The upper half of newer ids is that of the computation.
    hlo_vector_push(reader->scratch, &reader->current->order,
                    ((Numbered){common.id & UINT32_MAX, reader->current->order.count, instruction}));
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Computations and the module

// Compares by id, then by position in the file: qsort() by itself is not stable.
static int compare_numbered(const void *a, const void *b) {
    const Numbered *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

// Sorts by id; true if the items had to be sorted. Files have callees and operands first, lists in memory are ordered
// by id.
static bool sort_by_id(Numbered *items, int64_t count) {
    bool sorted = true;
    for (int64_t i = 1; i < count; i++) sorted &= items[i - 1].id <= items[i].id;
    if (!sorted) qsort(items, (size_t)count, sizeof(*items), compare_numbered);
    return !sorted;
}

// Moving each one in turn puts a list into the order of the moves.
static void move_to_end(HloComputation *computation, HloInstruction *instruction) {
    if (instruction != computation->last) hlo_instruction_move_after(instruction, computation->last);
}

// Operands come first in our lists: the order by ids determines the post order, which is what XLA prints. Our own ids
// are in the order of the file's, so that the module is written with the ids that it was read with, except for gaps.
static void order_instructions(ReadComputation *read, HloArena *scratch) {
    int32_t *ids = HLO_ARENA_NEW(scratch, int32_t, read->order.count);
    for (int64_t i = 0; i < read->order.count; i++) ids[i] = ((HloInstruction *)read->order.items[i].item)->id;
    if (!sort_by_id(read->order.items, read->order.count)) return;
    for (int64_t i = 0; i < read->order.count; i++) {
        HloInstruction *instruction = read->order.items[i].item;
        instruction->id = ids[i];
        move_to_end(read->computation, instruction);
    }
    int64_t count;
    HloInstruction **order = hlo_computation_post_order(read->computation, scratch, &count);
    assert(count == read->computation->instruction_count);  // a post order has every instruction once
    for (int64_t i = 0; i < count; i++) move_to_end(read->computation, order[i]);
}

// Orders the list by the ids of the file, and assigns ours in that order, as for instructions.
static void order_computations(ModuleReader *reader) {
    assert(reader->order.count == reader->module->computations.count);  // the reader makes no others
    int32_t *ids = HLO_ARENA_NEW(reader->scratch, int32_t, reader->order.count);
    for (int64_t i = 0; i < reader->order.count; i++) ids[i] = ((HloComputation *)reader->order.items[i].item)->id;
    if (!sort_by_id(reader->order.items, reader->order.count)) return;
    for (int64_t i = 0; i < reader->order.count; i++) {
        HloComputation *computation = reader->order.items[i].item;
        computation->id = ids[i];
        reader->module->computations.items[i] = computation;
    }
}

// Callees come before their callers in the list, as XLA writes it and its reader requires, so that a called computation
// is known when its id occurs. Fields are split first, since the root's id may come before the instruction that it
// names. "main" is the thread of every computation that names none.
static HloStatus read_computation(ModuleReader *reader, HloSpan span) {
    FieldVector fields = {0};
    HLO_TRY(split_fields(&reader->source, span, reader->scratch, &fields));
    const HloWireField *thread = find_field(&fields, 8);
    const char *name = NULL;
    HLO_TRY(read_name(reader->scratch, find_field(&fields, 1), &name));
    HloComputation *computation = hlo_computation_new(reader->module, name);
    if (thread && thread->bytes.length && !(thread->bytes.length == 4 && memcmp(thread->bytes.data, "main", 4) == 0)) {
        HLO_TRY(hlo_wire_string(reader->module->arena, thread->bytes, &computation->execution_thread));
    }
    reader->current = HLO_ARENA_NEW(reader->scratch, ReadComputation, 1);
    reader->current->computation = computation;
    int64_t most = 0;
    for (int64_t i = 0; i < fields.count; i++) most += fields.items[i].number == 2;
    for (int64_t i = 0; i < fields.count; i++) {
        if (fields.items[i].number == 2) {
            HLO_TRY(read_instruction(reader, computation, fields.items[i].bytes, most));
        }
    }
    for (int64_t i = 0; i < computation->parameters.count; i++) {
        HLO_FAIL_IF(!computation->parameters.items[i], HLO_INVALID_ARGUMENT, "computation %s has no parameter %lld",
                    computation->name, (long long)i);
    }
    const int64_t *root = hlo_int_map_find(&reader->current->instructions, (uint64_t)field_value(&fields, 6));
    HLO_FAIL_IF(!root, HLO_INVALID_ARGUMENT, "computation %s has no root", computation->name);
    hlo_computation_set_root(computation, (HloInstruction *)(intptr_t)*root);
    order_instructions(reader->current, reader->scratch);
    int64_t id = field_value(&fields, 5);
    hlo_int_map_set(reader->scratch, &reader->computations, (uint64_t)id, (intptr_t)reader->current);
    hlo_vector_push(reader->scratch, &reader->order, ((Numbered){id, reader->order.count, computation}));
    return HLO_SUCCESS;
}

// The ProgramShapeProto of the module has the layouts that the caller uses, which may differ from those in the program.
// One with another number of parameters than the entry belongs to an earlier form of the program, and is ignored.
static HloStatus read_entry_layout(ModuleReader *reader, HloSpan span) {
    HLO_VECTOR(const HloShape *) parameters = {0};
    const HloShape *shape = NULL;
    HloWireReader wire = hlo_wire_reader(reader->source.begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&wire, &field, &status)) {
        if (field.number != 1 && field.number != 2) continue;
        HLO_TRY(hlo_proto_read_shape(&reader->source, field.bytes, &shape));
        if (field.number == 1) {
            hlo_vector_push(reader->module->arena, &parameters, shape);
        } else {
            reader->module->entry_result_layout = shape;
        }
    }
    HLO_TRY(status);
    if (parameters.count != reader->module->entry->parameters.count) return HLO_SUCCESS;
    reader->module->entry_parameter_layouts =
        parameters.count ? parameters.items : HLO_ARENA_NEW(reader->module->arena, const HloShape *, 1);
    reader->module->entry_parameter_layout_count = parameters.count;
    return HLO_SUCCESS;
}

// HloInputOutputAliasProto.AliasEntryProto; kind 2 is must-alias.
static HloStatus read_alias_entry(ModuleReader *reader, HloSpan span, HloAlias *alias) {
    FieldVector fields = {0};
    HloInt64Vector output = {0}, operand = {0};
    HLO_TRY(split_fields(&reader->source, span, reader->scratch, &fields));
    HLO_TRY(field_ints(reader, &fields, 1, &output));
    HLO_TRY(field_ints(reader, &fields, 3, &operand));
    HloArena *arena = reader->module->arena;
    *alias = (HloAlias){.output_index = hlo_ints(arena, output.items, output.count),
                        .operand = field_value(&fields, 2),
                        .operand_index = hlo_ints(arena, operand.items, operand.count),
                        .must_alias = field_value(&fields, 4) == 2};
    return HLO_SUCCESS;
}

// HloInputOutputAliasProto: the parts of the entry's result that reuse an argument's buffer.
static HloStatus read_aliasing(ModuleReader *reader, HloSpan span) {
    HLO_VECTOR(HloAlias) list = {0};
    HloWireReader wire = hlo_wire_reader(reader->source.begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&wire, &field, &status)) {
        HloAlias alias;
        if (field.number != 1) continue;
        HLO_TRY(read_alias_entry(reader, field.bytes, &alias));
        hlo_vector_push(reader->module->arena, &list, alias);
    }
    reader->module->aliases = (HloAliases){list.items, list.count};
    return status;
}

// HloBufferDonorProto: arguments (1) or parts of them (2) whose buffers the program may use for any result.
static HloStatus read_donors(ModuleReader *reader, HloSpan span) {
    HLO_VECTOR(HloDonor) list = {0};
    HloWireReader wire = hlo_wire_reader(reader->source.begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&wire, &field, &status)) {
        if (field.number != 1) continue;
        FieldVector fields = {0};
        HloInt64Vector index = {0};
        HLO_TRY(split_fields(&reader->source, field.bytes, reader->scratch, &fields));
        HLO_TRY(field_ints(reader, &fields, 2, &index));
        HloDonor donor = {field_value(&fields, 1), hlo_ints(reader->module->arena, index.items, index.count)};
        hlo_vector_push(reader->module->arena, &list, donor);
    }
    reader->module->donors = list.items;
    reader->module->donor_count = list.count;
    return status;
}

static HloStatus append_string(HloArena *arena, HloSpan span, HloStringVector *strings) {
    const char *string;
    HLO_TRY(hlo_wire_string(arena, span, &string));
    hlo_vector_push(arena, strings, string);
    return HLO_SUCCESS;
}

// StackFrameIndexProto: its four tables.
static HloStatus read_stack(ModuleReader *reader, HloSpan span) {
    HloStackTables *stack = &reader->module->stack;
    HloArena *arena = reader->module->arena;
    HloWireReader wire = hlo_wire_reader(reader->source.begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&wire, &field, &status)) {
        FieldVector f = {0};
        switch (field.number) {
            case 1: HLO_TRY(append_string(arena, field.bytes, &stack->file_names)); break;
            case 2: HLO_TRY(append_string(arena, field.bytes, &stack->function_names)); break;
            case 3: {
                HLO_TRY(split_fields(&reader->source, field.bytes, reader->scratch, &f));
                HloFileLocation location = {.file_name_id = field_int32(&f, 1),
                                            .function_name_id = field_int32(&f, 2),
                                            .line = field_int32(&f, 3),
                                            .column = field_int32(&f, 4),
                                            .end_line = field_int32(&f, 5),
                                            .end_column = field_int32(&f, 6)};
                hlo_vector_push(arena, &stack->locations, location);
                break;
            }
            case 4: {
                HLO_TRY(split_fields(&reader->source, field.bytes, reader->scratch, &f));
                HloStackFrame frame = {field_int32(&f, 1), field_int32(&f, 2)};
                hlo_vector_push(arena, &stack->frames, frame);
                break;
            }
            default: break;
        }
    }
    if (!status) hlo_stack_end_cycles(stack, reader->scratch);
    return status;
}

// Puts a computation's list in the order of its sequence: each named instruction moves to the end in turn.
static HloStatus apply_sequence(const HloInt64Vector *ids, const ReadComputation *read) {
    HloComputation *computation = read->computation;
    HLO_FAIL_IF(ids->count != computation->instruction_count, HLO_INVALID_ARGUMENT,
                "the schedule of %s has %lld instructions of %lld", computation->name, (long long)ids->count,
                (long long)computation->instruction_count);
    for (int64_t i = 0; i < ids->count; i++) {
        const int64_t *found = hlo_int_map_find(&read->instructions, (uint64_t)ids->items[i]);
        HLO_FAIL_IF(!found, HLO_INVALID_ARGUMENT, "the schedule of %s names an unknown instruction id",
                    computation->name);
        hlo_instruction_move_after((HloInstruction *)(intptr_t)*found, computation->last);
    }
    // If one is named twice, another one is missing, which is left at the front.
    const HloInstruction *at = computation->first;
    for (int64_t i = 0; i < ids->count; i++, at = at->next) {
        const int64_t named = *hlo_int_map_find(&read->instructions, (uint64_t)ids->items[i]);
        HLO_FAIL_IF(at != (const HloInstruction *)(intptr_t)named, HLO_INVALID_ARGUMENT,
                    "the schedule of %s names an instruction twice", computation->name);
    }
    return HLO_SUCCESS;
}

// One entry of the map in HloScheduleProto: a computation's id (1), and the ids of its instructions in order (2).
static HloStatus read_sequence(ModuleReader *reader, HloSpan span) {
    FieldVector entry = {0}, content = {0};
    HloInt64Vector ids = {0};
    HLO_TRY(split_fields(&reader->source, span, reader->scratch, &entry));
    const HloWireField *sequence = find_field(&entry, 2);
    if (sequence) HLO_TRY(split_fields(&reader->source, sequence->bytes, reader->scratch, &content));
    HLO_TRY(field_ints(reader, &content, 1, &ids));
    const int64_t *found = hlo_int_map_find(&reader->computations, (uint64_t)field_value(&entry, 1));
    HLO_FAIL_IF(!found, HLO_INVALID_ARGUMENT, "the schedule names computation id %lld, which does not exist",
                (long long)field_value(&entry, 1));
    return apply_sequence(&ids, (const ReadComputation *)(intptr_t)*found);
}

// A list of sequences, one per computation.
static HloStatus read_schedule(ModuleReader *reader, HloSpan span) {
    HloWireReader wire = hlo_wire_reader(reader->source.begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&wire, &field, &status)) {
        if (field.number == 1) HLO_TRY(read_sequence(reader, field.bytes));
    }
    reader->module->is_scheduled = true;
    return status;
}

// Keeps the fields that text cannot express, in the order of the message: they are written back unchanged, so that
// information that other programs exchange in them (debug options, profiles, sharded parameters) survives. `known` has
// a bit for each field that is read; fields above the last bit are newer than this reader.
static HloStatus keep_rest(ModuleReader *reader, HloSpan span, uint64_t known, HloBytes *rest) {
    HloWireReader wire = hlo_wire_reader(reader->source.begin, span);
    HloWireField field;
    HloStatus status;
    HloText kept = {0};
    const unsigned char *start = wire.next;
    for (; hlo_wire_next(&wire, &field, &status); start = wire.next) {
        if (field.number < 64 && known >> field.number & 1) continue;
        hlo_text_append(&kept, (const char *)start, (size_t)(wire.next - start));
    }
    if (!status) status = hlo_text_status(&kept);
    if (!status && kept.length) {
        const size_t length = kept.length;
        *rest = (HloBytes){hlo_text_to_arena(reader->module->arena, &kept), length};
    }
    hlo_text_free(&kept);
    return status;
}

// Reads the parts of the module besides its computations; last, since they refer to these.
static HloStatus read_header(ModuleReader *reader, const FieldVector *fields) {
    for (int64_t i = 0; i < fields->count; i++) {
        const HloWireField *field = &fields->items[i];
        switch (field->number) {
            case 4: HLO_TRY(read_entry_layout(reader, field->bytes)); break;
            case 7: HLO_TRY(read_schedule(reader, field->bytes)); break;
            case 8: HLO_TRY(read_aliasing(reader, field->bytes)); break;
            case 17: HLO_TRY(read_stack(reader, field->bytes)); break;
            case 18: HLO_TRY(read_donors(reader, field->bytes)); break;
            case 19:
                HLO_TRY(read_key_values(&reader->source, field->bytes, &reader->module->frontend_attributes));
                break;
            case 20: HLO_TRY(hlo_proto_read_recoveries(&reader->source, field->bytes, reader->module)); break;
            default: break;
        }
    }
    return hlo_propagation_from_attributes(reader->module);
}

static HloStatus read_flags(ModuleReader *reader, const FieldVector *fields, int32_t number, HloBools *flags) {
    HloInt64Vector list = {0};
    HLO_TRY(field_ints(reader, fields, number, &list));
    bool *items = HLO_ARENA_NEW(reader->module->arena, bool, list.count);
    for (int64_t i = 0; i < list.count; i++) items[i] = list.items[i] != 0;
    *flags = (HloBools){items, list.count};
    return HLO_SUCCESS;
}

// HloModuleConfigProto: counts and flags that text has in the module's header.
static HloStatus read_config(ModuleReader *reader, HloSpan span) {
    FieldVector fields = {0};
    HLO_TRY(split_fields(&reader->source, span, reader->scratch, &fields));
    HloModule *module = reader->module;
    if (field_value(&fields, 4) > 0) module->replica_count = field_value(&fields, 4);
    static const int64_t one = 1;
    if (field_value(&fields, 17)) module->alias_passthrough = hlo_ints(module->arena, &one, 1);
    if (field_value(&fields, 5) > 0) module->num_partitions = field_value(&fields, 5);
    module->use_spmd_partitioning = field_value(&fields, 7) != 0;
    HLO_TRY(read_flags(reader, &fields, 27, &module->propagate_to_output));
    HLO_TRY(keep_rest(reader, span, HLO_PROTO_CONFIG_FIELDS, &module->config_rest));
    return read_flags(reader, &fields, 33, &module->propagate_to_parameters);
}

// True if the fields are those of a HloModuleProto: wrappers never have both computations and an entry's name or id.
static bool is_module(const FieldVector *fields) {
    return find_field(fields, 3) && (find_field(fields, 2) || find_field(fields, 6));
}

// Removes any wrapper of the module first: files have one of four messages that have no signature and can only be
// distinguished by their fields. Then reads the computations, whose ids everything else in the module refers to.
static HloStatus read_module(ModuleReader *reader, HloSpan span) {
    FieldVector fields = {0};
    HloSpan message = span;
    HLO_TRY(split_fields(&reader->source, span, reader->scratch, &fields));
    // HloProto and HloModuleProtoWithConfig have the module in field 1, HloSnapshot has a HloProto there; only the
    // second of them has its configuration in field 2.
    enum { MOST_WRAPPERS = 2 };
    for (int i = 0; i < MOST_WRAPPERS && !is_module(&fields) && find_field(&fields, 1); i++) {
        const HloWireField *config = find_field(&fields, 2);
        message = find_field(&fields, 1)->bytes;
        fields = (FieldVector){0};
        HLO_TRY(split_fields(&reader->source, message, reader->scratch, &fields));
        if (config && is_module(&fields)) HLO_TRY(read_config(reader, config->bytes));
    }
    const char *name = "";
    HLO_TRY(read_name(reader->scratch, find_field(&fields, 1), &name));
    hlo_module_set_name(reader->module, *name ? name : "_");  // text cannot have a module without a name
    for (int64_t i = 0; i < fields.count; i++) {
        if (fields.items[i].number != 22) continue;
        HLO_TRY(append_string(reader->module->arena, fields.items[i].bytes, &reader->payloads));
    }
    for (int64_t i = 0; i < fields.count; i++) {
        if (fields.items[i].number == 3) HLO_TRY(read_computation(reader, fields.items[i].bytes));
    }
    order_computations(reader);
    const int64_t *entry = hlo_int_map_find(&reader->computations, (uint64_t)field_value(&fields, 6));
    HLO_FAIL_IF(!entry, HLO_INVALID_ARGUMENT, "the module has no entry computation");
    hlo_module_set_entry(reader->module, ((const ReadComputation *)(intptr_t)*entry)->computation);
    HLO_TRY(keep_rest(reader, message, HLO_PROTO_MODULE_FIELDS, &reader->module->proto_rest));
    return read_header(reader, &fields);
}

typedef struct ReadRequest {
    HloSpan span;
    const unsigned char *begin;
    int depth;
    HloModule *module;
} ReadRequest;

static HloStatus read_protected(void *argument) {
    const ReadRequest *request = argument;
    ModuleReader reader = {.source = {request->module->arena, request->begin, request->depth, NULL},
                           .module = request->module,
                           .scratch = hlo_arena_scratch_new()};
    reader.source.payloads = &reader.payloads;
    // A growing table of names is copied each time it doubles; the corpus has 150 bytes per instruction.
    enum { BYTES_PER_INSTRUCTION = 150 };
    hlo_string_map_reserve(request->module->arena, &request->module->instruction_names.taken,
                           (int64_t)(request->span.length / BYTES_PER_INSTRUCTION));
    HloStatus status = read_module(&reader, request->span);
    hlo_arena_free(reader.scratch);
    return status;
}

// When memory runs out, reading ends at that point (hlo_protect()); everything made so far is freed with the module.
static HloStatus read_new_module(HloSpan span, const unsigned char *begin, int depth, HloModule **result) {
    ReadRequest request = {span, begin, depth, hlo_module_new("")};
    HLO_FAIL_IF(!request.module, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = hlo_protect(read_protected, &request);
    if (status) {
        hlo_module_free(request.module);
        return status;
    }
    *result = request.module;
    return HLO_SUCCESS;
}

HloStatus hlo_proto_read_module(const HloProtoSource *source, HloSpan span, HloModule **module) {
    HloProtoSource inner;
    HLO_TRY(hlo_proto_descend(source, &inner));
    return read_new_module(span, inner.begin, inner.depth, module);
}

HloStatus hlo_module_from_proto(const void *bytes, size_t length, HloModule **module) {
    assert(module && (bytes || length == 0));
    return read_new_module((HloSpan){bytes, length}, bytes, 0, module);
}

bool hlo_looks_like_proto(const void *bytes, size_t length) {
    // Both messages begin with field 1, a name or a module, whose length must fit; text and bytecode begin otherwise.
    HloWireReader reader = hlo_wire_reader(bytes, (HloSpan){bytes, length});
    HloWireField field;
    HloStatus status;
    if (length < 3 || *(const unsigned char *)bytes != 0x0A) return false;
    bool first = hlo_wire_next(&reader, &field, &status);
    hlo_status_free(status);
    if (!first) return false;
    // Field 2 or 3 follows, a message or string. Their tags are control characters, which no text has: text that begins
    // with an empty line and "HloModule" or "func.func" would pass for a message otherwise.
    enum { TAG_OF_2 = 2 << 3 | HLO_WIRE_BYTES, TAG_OF_3 = 3 << 3 | HLO_WIRE_BYTES };
    if (reader.next == reader.end) return true;
    const unsigned char tag = *(const unsigned char *)reader.next;
    return tag == TAG_OF_2 || tag == TAG_OF_3;
}
