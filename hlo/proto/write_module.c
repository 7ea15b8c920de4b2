// SPDX-License-Identifier: Apache-2.0
// Writes a HloModuleProto. Field numbers: xla/service/hlo.proto. Ids in the message are our own, unique in the module;
// computations come callees first, as XLA writes and requires them. Fields that XLA derives from others when it reads
// are written as XLA would write them. Bytes that were kept from a message that was read (proto_rest) are written back
// unchanged.
#include <assert.h>
#include <stdlib.h>

#include "hlo/ir/propagation.h"
#include "hlo/proto/parts.h"
#include "hlo/proto/proto.h"

// The payloads of all instructions, each once: instructions name them by their number.
typedef struct Payloads {
    HloArena *scratch;
    HloStringMap numbers;  // 1 + number
    HloStringVector list;
} Payloads;

// The number of a metadata's payload; -1 without one.
static int64_t payload_number(Payloads *payloads, const HloMetadata *metadata) {
    if (!metadata || !metadata->payload) return -1;
    const size_t length = strlen(metadata->payload);
    uintptr_t number = (uintptr_t)hlo_string_map_get(&payloads->numbers, metadata->payload, length);
    if (!number) {
        hlo_vector_push(payloads->scratch, &payloads->list, metadata->payload);
        number = (uintptr_t)payloads->list.count;
        hlo_string_map_set(payloads->scratch, &payloads->numbers, metadata->payload, length, (void *)number);
    }
    return (int64_t)number - 1;
}

// Payload: the content (1), or its number in the module (2).
static void write_payload(HloText *text, int32_t number, const char *payload, int64_t id) {
    size_t mark = hlo_wire_begin(text, number);
    if (id < 0) {
        hlo_wire_bytes(text, 1, payload, strlen(payload));
    } else {
        hlo_wire_varint_always(text, 2, (uint64_t)id);
    }
    hlo_wire_end(text, mark);
}

// Written for every instruction, since XLA does so for those without metadata too.
void hlo_proto_write_metadata(HloText *text, int32_t number, const HloMetadata *metadata, int64_t payload) {
    assert(text);
    size_t mark = hlo_wire_begin(text, number);
    if (metadata) {
        hlo_wire_string_field(text, 1, metadata->op_type);
        hlo_wire_string_field(text, 2, metadata->op_name);
        hlo_wire_string_field(text, 3, metadata->source_file);
        hlo_wire_varint(text, 4, (uint64_t)metadata->source_line);
        for (const char *at = metadata->profile_type; at && *at;) {
            char *end;
            hlo_wire_varint_always(text, 5, (uint64_t)strtoll(at, &end, 10));
            at = end + (*end == ',');
        }
        hlo_wire_string_field(text, 12, metadata->deduplicated_name);
        hlo_wire_varint(text, 15, (uint64_t)metadata->stack_frame_id);
        hlo_wire_string_field(text, 16, metadata->scheduling_name);
        hlo_wire_varint(text, 17, (uint64_t)metadata->source_end_line);
        hlo_wire_varint(text, 18, (uint64_t)metadata->source_column);
        hlo_wire_varint(text, 19, (uint64_t)metadata->source_end_column);
        if (metadata->payload) write_payload(text, 20, metadata->payload, payload);
    }
    hlo_wire_end(text, mark);
}

// Nothing for an empty list.
static void write_key_values(HloText *text, int32_t number, HloKeyValues pairs) {
    if (pairs.count == 0) return;
    size_t mark = hlo_wire_begin(text, number);
    for (int64_t i = 0; i < pairs.count; i++) {
        size_t entry = hlo_wire_begin(text, 1);
        hlo_wire_string_field(text, 1, pairs.items[i].key);
        hlo_wire_string_field(text, 2, pairs.items[i].value);
        hlo_wire_end(text, entry);
    }
    hlo_wire_end(text, mark);
}

// A message has numbers where we have pointers.
static void write_ids(HloText *text, int32_t number, HloInstruction *const *items, int64_t count) {
    HloArena *scratch = hlo_arena_scratch_new();
    int64_t *ids = HLO_ARENA_NEW(scratch, int64_t, count);
    for (int64_t i = 0; i < count; i++) ids[i] = items[i]->id;
    hlo_wire_ints(text, number, (HloInts){ids, count});
    hlo_arena_free(scratch);
}

static void write_called(HloText *text, const HloInstruction *instruction) {
    HloArena *scratch = hlo_arena_scratch_new();
    int64_t *ids = HLO_ARENA_NEW(scratch, int64_t, instruction->called_count);
    bool body_first = instruction->opcode == HLO_OP_WHILE;  // where we have the condition first
    for (int32_t i = 0; i < instruction->called_count; i++) {
        ids[i] = instruction->called[body_first ? instruction->called_count - 1 - i : i]->id;
    }
    hlo_wire_ints(text, 38, (HloInts){ids, instruction->called_count});
    hlo_arena_free(scratch);
}

// Identity, shape and annotations first, then the attributes of the opcode, then the edges to other instructions and
// computations as ids, which are all known by now.
static void write_instruction(HloText *text, Payloads *payloads, const HloInstruction *instruction) {
    assert(instruction->parent);
    size_t mark = hlo_wire_begin(text, 2);
    hlo_wire_string_field(text, 1, instruction->name);
    hlo_wire_string_field(text, 2, hlo_op_text(instruction->opcode));
    hlo_proto_write_shape(text, 3, instruction->shape);
    hlo_proto_write_metadata(text, 7, instruction->metadata, payload_number(payloads, instruction->metadata));
    hlo_proto_write_attributes(text, instruction);
    hlo_wire_varint(text, 35, (uint64_t)instruction->id);
    write_ids(text, 36, instruction->operands, instruction->operand_count);
    write_ids(text, 37, instruction->control_predecessors.items, instruction->control_predecessors.count);
    write_called(text, instruction);
    if (instruction->sharding) hlo_proto_write_sharding(text, 40, instruction->sharding);
    hlo_wire_string_field(text, 43, instruction->backend_config);
    write_key_values(text, 68, instruction->frontend_attributes);
    hlo_proto_write_statistics(text, 82, instruction->statistics);
    hlo_proto_write_origin(text, 88, instruction->origin);
    hlo_wire_end(text, mark);
}

// A program shape has layouts even where instructions have none.
static void write_with_layout(HloText *text, int32_t number, const HloShape *shape) {
    HloArena *scratch = hlo_arena_scratch_new();
    hlo_proto_write_shape(text, number, hlo_shape_with_default_layout(scratch, shape));
    hlo_arena_free(scratch);
}

// `entry_layouts` is the module if its entry's layouts are to be used, else NULL.
static void write_program_shape(HloText *text, int32_t number, const HloComputation *computation,
                                const HloModule *entry_layouts) {
    assert(computation->root);
    size_t mark = hlo_wire_begin(text, number);
    // A layout that the module sets for its entry is kept unchanged: it may be left open. Whether there are as many as
    // parameters is a question for the verifier.
    const int64_t given =
        entry_layouts && entry_layouts->entry_parameter_layouts ? entry_layouts->entry_parameter_layout_count : 0;
    for (int64_t i = 0; i < computation->parameters.count; i++) {
        if (i < given) {
            hlo_proto_write_shape(text, 1, entry_layouts->entry_parameter_layouts[i]);
        } else {
            write_with_layout(text, 1, computation->parameters.items[i]->shape);
        }
    }
    if (entry_layouts && entry_layouts->entry_result_layout) {
        hlo_proto_write_shape(text, 2, entry_layouts->entry_result_layout);
    } else {
        write_with_layout(text, 2, computation->root->shape);
    }
    for (int64_t i = 0; i < computation->parameters.count; i++) {
        hlo_wire_string_field(text, 3, computation->parameters.items[i]->name);
    }
    hlo_wire_end(text, mark);
}

// XLA's flag for bodies of fusions.
static bool is_fusion(const HloComputation *computation) {
    const HloInstructionVector *callers = &computation->callers;
    for (int64_t i = 0; i < callers->count; i++) {
        if (callers->items[i]->opcode != HLO_OP_FUSION) return false;
    }
    return callers->count > 0;
}

// HloComputationProto. Instructions in post order, since readers need operands first.
static void write_computation(HloText *text, Payloads *payloads, const HloComputation *computation) {
    assert(computation->root);
    size_t mark = hlo_wire_begin(text, 3);
    hlo_wire_string_field(text, 1, computation->name);
    HloArena *scratch = hlo_arena_scratch_new();
    int64_t count;
    HloInstruction **order = hlo_computation_post_order(computation, scratch, &count);
    for (int64_t i = 0; i < count; i++) write_instruction(text, payloads, order[i]);
    hlo_arena_free(scratch);
    write_program_shape(text, 4, computation, NULL);
    hlo_wire_varint(text, 5, (uint64_t)computation->id);
    hlo_wire_varint(text, 6, (uint64_t)computation->root->id);
    hlo_wire_varint(text, 7, is_fusion(computation));
    hlo_wire_string_field(text, 8, computation->execution_thread ? computation->execution_thread : "main");
    hlo_wire_end(text, mark);
}

// The order of every computation's list.
static void write_schedule(HloText *text, HloComputation *const *order, int64_t count) {
    assert(count >= 0);
    size_t mark = hlo_wire_begin(text, 7);
    for (int64_t i = 0; i < count; i++) {
        if (is_fusion(order[i])) continue;  // what fuses has no order of its own
        size_t entry = hlo_wire_begin(text, 1);
        hlo_wire_varint(text, 1, (uint64_t)order[i]->id);
        size_t sequence = hlo_wire_begin(text, 2);
        HloArena *scratch = hlo_arena_scratch_new();
        int64_t *ids = HLO_ARENA_NEW(scratch, int64_t, order[i]->instruction_count);
        int64_t used = 0;
        for (const HloInstruction *j = order[i]->first; j; j = j->next) ids[used++] = j->id;
        hlo_wire_ints(text, 1, (HloInts){ids, used});
        hlo_arena_free(scratch);
        hlo_wire_end(text, sequence);
        hlo_wire_end(text, entry);
    }
    hlo_wire_end(text, mark);
}

// Aliases, followed by the donors.
static void write_aliasing(HloText *text, const HloModule *module) {
    size_t mark = hlo_wire_begin(text, 8);
    for (int64_t i = 0; i < module->aliases.count; i++) {
        const HloAlias *alias = &module->aliases.items[i];
        size_t entry = hlo_wire_begin(text, 1);
        hlo_wire_ints(text, 1, alias->output_index);
        hlo_wire_varint(text, 2, (uint64_t)alias->operand);
        hlo_wire_ints(text, 3, alias->operand_index);
        hlo_wire_varint(text, 4, alias->must_alias ? 2 : 1);
        hlo_wire_end(text, entry);
    }
    hlo_wire_end(text, mark);
    mark = hlo_wire_begin(text, 18);
    for (int64_t i = 0; i < module->donor_count; i++) {
        size_t entry = hlo_wire_begin(text, 1);
        hlo_wire_varint(text, 1, (uint64_t)module->donors[i].parameter);
        hlo_wire_ints(text, 2, module->donors[i].index);
        hlo_wire_end(text, entry);
    }
    hlo_wire_end(text, mark);
}

// StackFrameIndexProto: names are listed once, locations refer to names and frames to locations by their position in
// the list, counted from 1; 0 is "none".
static void write_stack(HloText *text, const HloStackTables *stack) {
    if (stack->frames.count == 0 && stack->file_names.count == 0) return;
    size_t mark = hlo_wire_begin(text, 17);
    for (int64_t i = 0; i < stack->file_names.count; i++) {
        hlo_wire_bytes(text, 1, stack->file_names.items[i], strlen(stack->file_names.items[i]));
    }
    for (int64_t i = 0; i < stack->function_names.count; i++) {
        hlo_wire_bytes(text, 2, stack->function_names.items[i], strlen(stack->function_names.items[i]));
    }
    for (int64_t i = 0; i < stack->locations.count; i++) {
        const HloFileLocation *location = &stack->locations.items[i];
        size_t entry = hlo_wire_begin(text, 3);
        hlo_wire_varint(text, 1, (uint64_t)location->file_name_id);
        hlo_wire_varint(text, 2, (uint64_t)location->function_name_id);
        hlo_wire_varint(text, 3, (uint64_t)location->line);
        hlo_wire_varint(text, 4, (uint64_t)location->column);
        hlo_wire_varint(text, 5, (uint64_t)location->end_line);
        hlo_wire_varint(text, 6, (uint64_t)location->end_column);
        hlo_wire_end(text, entry);
    }
    for (int64_t i = 0; i < stack->frames.count; i++) {
        size_t entry = hlo_wire_begin(text, 4);
        hlo_wire_varint(text, 1, (uint64_t)stack->frames.items[i].file_location_id);
        hlo_wire_varint(text, 2, (uint64_t)stack->frames.items[i].parent_frame_id);
        hlo_wire_end(text, entry);
    }
    hlo_wire_end(text, mark);
}

static void write_rest(HloText *text, HloBytes rest) {
    assert(rest.data || rest.length == 0);
    if (rest.length) hlo_text_append(text, rest.data, rest.length);
}

typedef struct WriteRequest {
    const HloModule *module;
    HloText *text;
} WriteRequest;

// Computations in post order, callees first, as readers need them (read_computation). Unknown fields that were read
// come last, unchanged (proto_rest).
static HloStatus write_module(void *argument) {
    const WriteRequest *request = argument;
    const HloModule *module = request->module;
    HloText *text = request->text;
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "a module without entry computation has no protobuf form");
    hlo_wire_string_field(text, 1, module->name);
    hlo_wire_string_field(text, 2, module->entry->name);
    HloArena *scratch = hlo_arena_scratch_new();
    int64_t count;
    HloComputation **order = hlo_module_whole_post_order(module, scratch, &count);
    Payloads payloads = {.scratch = scratch};
    for (int64_t i = 0; i < count; i++) write_computation(text, &payloads, order[i]);
    write_program_shape(text, 4, module->entry, module);
    hlo_wire_varint(text, 6, (uint64_t)module->entry->id);
    if (module->is_scheduled) write_schedule(text, order, count);
    for (int64_t i = 0; i < payloads.list.count; i++) {
        hlo_wire_bytes(text, 22, payloads.list.items[i], strlen(payloads.list.items[i]));
    }
    write_aliasing(text, module);
    write_stack(text, &module->stack);
    write_key_values(text, 19, hlo_propagation_to_attributes(scratch, module));
    hlo_arena_free(scratch);
    hlo_proto_write_recoveries(text, 20, module);
    write_rest(text, module->proto_rest);
    return hlo_text_status(text);
}

HloStatus hlo_module_to_proto(const HloModule *module, HloText *bytes) {
    WriteRequest request = {module, bytes};
    return hlo_protect(write_module, &request);
}

static void write_bools(HloText *text, int32_t number, HloBools bools) {
    if (bools.count == 0) return;
    size_t mark = hlo_wire_begin(text, number);
    for (int64_t i = 0; i < bools.count; i++) hlo_text_char(text, (char)bools.items[i]);
    hlo_wire_end(text, mark);
}

// HloModuleConfigProto: the module's run configuration. Fields that were read and have no meaning here are kept
// (config_rest).
static HloStatus write_config(void *argument) {
    const WriteRequest *request = argument;
    const HloModule *module = request->module;
    HloText *text = request->text;
    write_program_shape(text, 1, module->entry, module);
    hlo_wire_varint(text, 4, (uint64_t)module->replica_count);
    hlo_wire_varint(text, 5, (uint64_t)module->num_partitions);
    hlo_wire_varint(text, 7, module->use_spmd_partitioning);
    hlo_wire_varint(text, 17, module->alias_passthrough.count == 1 && module->alias_passthrough.items[0] != 0);
    write_bools(text, 27, module->propagate_to_output);
    write_bools(text, 33, module->propagate_to_parameters);
    write_rest(text, module->config_rest);
    return hlo_text_status(text);
}

HloStatus hlo_module_to_proto_with_config(const HloModule *module, HloText *bytes) {
    assert(module && bytes);
    size_t mark = hlo_wire_begin(bytes, 1);
    HLO_TRY(hlo_module_to_proto(module, bytes));
    hlo_wire_end(bytes, mark);
    mark = hlo_wire_begin(bytes, 2);
    HLO_TRY(hlo_module_config_to_proto(module, bytes));
    hlo_wire_end(bytes, mark);
    return hlo_text_status(bytes);
}

HloStatus hlo_module_config_to_proto(const HloModule *module, HloText *bytes) {
    WriteRequest request = {module, bytes};
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "a module without entry computation has no protobuf form");
    return hlo_protect(write_config, &request);
}
