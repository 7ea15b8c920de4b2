// SPDX-License-Identifier: Apache-2.0
// The exporter's core: the module, functions, regions, locations, and helpers that all handlers use.
// mlir_export_module() makes the same in-memory module as the readers do (mlir/mlir.h), which print_*.c and write*.c
// turn into text and bytecode; so both share one exporter. Functions are made for called computations that StableHLO
// calls by name (calls, fusions, custom calls); bodies of loops, reductions and the like become regions in place, again
// for each instruction that calls them. Anything in the HLO module that StableHLO cannot express is an error that names
// it.
#include "hlo/stablehlo/export/export.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "hlo/ir/infer/support.h"
#include "hlo/ir/propagation.h"
#include "hlo/stablehlo/mlir/dialect.h"

enum { DEEPEST_CALL = 200, MOST_ATTRIBUTES = 24 };

// ---------------------------------------------------------------------------------------------------------------------
// Types and attributes

HloStatus export_error(const ExportPlace *place, HloCode code, const char *format, ...) {
    assert(place->instruction && format);
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    return hlo_error(code, "%s %s: %s", hlo_op_text(place->instruction->opcode), place->instruction->name, message);
}

// Equal shapes share one MlirType, found by their text, so that the writers' tables find them by address.
HloStatus export_type(const ExportPlace *place, const HloShape *shape, const MlirType **type) {
    assert(shape && type);
    Exporter *exporter = place->exporter;
    bool known = hlo_shape_is_array(shape) || shape->type == HLO_TOKEN;
    bool narrow = shape->type == HLO_S1 || shape->type == HLO_U1;
    if (!known || narrow) {
        return export_error(place, HLO_UNIMPLEMENTED, "StableHLO has no type for %s", hlo_type_text(shape->type));
    }
    HloText text = {0};
    hlo_shape_print(&text, shape, false);
    const size_t length = text.length;
    const char *key = hlo_text_to_arena(exporter->arena, &text);
    *type = hlo_string_map_get(&exporter->types, key, length);
    if (!*type) {
        const HloShape *copy = hlo_shape_without_layout(exporter->arena, shape);
        *type = mlir_new_type(exporter->arena, (MlirType){.kind = MLIR_TYPE_SHAPE, .shape = copy});
        hlo_string_map_set(exporter->arena, &exporter->types, key, length, (void *)(uintptr_t)*type);
    }
    return HLO_SUCCESS;
}

HloStatus export_leaf_types(const ExportPlace *place, const HloShape *shape, const MlirType ***types, int64_t *count) {
    *count = hlo_shape_leaf_count(shape);
    *types = HLO_ARENA_NEW(place->exporter->arena, const MlirType *, *count);
    for (int64_t i = 0; i < *count; i++) HLO_TRY(export_type(place, hlo_shape_leaf(shape, i), &(*types)[i]));
    return HLO_SUCCESS;
}

static const MlirAttribute *make(const ExportPlace *place, MlirAttribute attribute) {
    return mlir_new_attribute(place->exporter->arena, attribute);
}

static const MlirAttribute *make_integer(const ExportPlace *place, HloType type, int64_t value) {
    const MlirType *element = mlir_element_type(place->exporter->arena, type);
    return make(place, (MlirAttribute){.kind = MLIR_INTEGER, .integer = value, .type = element});
}

const MlirAttribute *export_i64(const ExportPlace *place, int64_t value) {
    return make_integer(place, HLO_S64, value);
}

const MlirAttribute *export_i32(const ExportPlace *place, int64_t value) {
    return make_integer(place, HLO_S32, value);
}

const MlirAttribute *export_bool(const ExportPlace *place, bool value) {
    return make(place, (MlirAttribute){.kind = MLIR_BOOL, .integer = value});
}

const MlirAttribute *export_string(const ExportPlace *place, const char *string) {
    return make(place, (MlirAttribute){.kind = MLIR_STRING, .string = string});
}

const MlirAttribute *export_bytes(const ExportPlace *place, const char *bytes, int64_t length) {
    return make(place, (MlirAttribute){.kind = MLIR_STRING, .string = bytes, .string_length = length});
}

const MlirAttribute *export_ints(const ExportPlace *place, HloInts ints) {
    return make(place, (MlirAttribute){.kind = MLIR_INTS, .ints = ints});
}

const MlirAttribute *export_enum(const ExportPlace *place, const char *kind, int64_t number) {
    return make(place, (MlirAttribute){.kind = MLIR_ENUM, .integer = number, .string = kind});
}

const MlirAttribute *export_array(const ExportPlace *place, const MlirAttribute *const *items, int64_t count) {
    return make(place, (MlirAttribute){.kind = MLIR_ARRAY, .items = items, .count = count});
}

// For paddings, pairs and groups.
const MlirAttribute *export_matrix(const ExportPlace *place, const int64_t *numbers, int64_t rows, int64_t columns) {
    assert(rows >= 0 && columns >= 0);
    HloArena *arena = place->exporter->arena;
    int64_t dims[2] = {rows, columns};
    const HloShape *shape = hlo_shape_array(arena, HLO_S64, dims, 2);
    HloLiteral *literal = hlo_literal_in_arena(arena, shape);
    for (int64_t i = 0; i < rows * columns; i++) hlo_literal_set_int64(literal, i, numbers[i]);
    const MlirType *type = mlir_new_type(arena, (MlirType){.kind = MLIR_TYPE_SHAPE, .shape = shape});
    return make(place, (MlirAttribute){.kind = MLIR_TENSOR, .literal = literal, .type = type});
}

HloStatus export_precisions(const ExportPlace *place, HloPrecisions precisions, const MlirAttribute **list) {
    *list = NULL;
    if (precisions.count == 0) return HLO_SUCCESS;
    const MlirAttribute **items = HLO_ARENA_NEW(place->exporter->arena, const MlirAttribute *, precisions.count);
    for (int64_t i = 0; i < precisions.count; i++) {
        if (precisions.items[i] == HLO_Precision_PACKED_NIBBLE)
            return export_error(place, HLO_UNIMPLEMENTED, "the precision packed_nibble");
        items[i] = export_enum(place, "precision", precisions.items[i]);
    }
    *list = export_array(place, items, precisions.count);
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Locations

// MLIR's numbers are unsigned ones of 32 bits: those below zero are written as XLA's exporter casts them, and come
// back. The column is stored in `ints`, as the readers have no use for it.
static const MlirAttribute *file_location(const ExportPlace *place, const char *file, int64_t line, int64_t column) {
    int64_t *position = HLO_ARENA_NEW(place->exporter->arena, int64_t, 1);
    *position = (uint32_t)column;
    return make(place, (MlirAttribute){
                           .kind = MLIR_LOCATION, .string = file, .integer = (uint32_t)line, .ints = {position, 1}});
}

static const MlirAttribute *name_location(const ExportPlace *place, const char *name, const MlirAttribute *child) {
    const MlirAttribute **items = HLO_ARENA_NEW(place->exporter->arena, const MlirAttribute *, 1);
    items[0] = child;
    return make(place, (MlirAttribute){.kind = MLIR_LOCATION, .string = name, .items = items, .count = 1});
}

// NULL for an invalid frame number, or for a frame without a source position.
static const HloStackFrame *frame_at(const HloStackTables *stack, int64_t frame_id) {
    if (frame_id < 1 || frame_id > stack->frames.count) return NULL;
    const HloStackFrame *frame = &stack->frames.items[frame_id - 1];
    const bool is_placed = frame->file_location_id >= 1 && frame->file_location_id <= stack->locations.count;
    return is_placed ? frame : NULL;
}

// The position of one frame: its function's name around its file, line and column.
static const MlirAttribute *frame_location(const ExportPlace *place, const HloStackFrame *frame) {
    const HloStackTables *stack = &place->exporter->module->stack;
    const HloFileLocation *at = &stack->locations.items[frame->file_location_id - 1];
    bool named = at->file_name_id >= 1 && at->file_name_id <= stack->file_names.count;
    const MlirAttribute *location =
        file_location(place, named ? stack->file_names.items[at->file_name_id - 1] : "", at->line, at->column);
    if (at->function_name_id >= 1 && at->function_name_id <= stack->function_names.count) {
        location = name_location(place, stack->function_names.items[at->function_name_id - 1], location);
    }
    return location;
}

// The call stack of a frame, innermost first: callsite(f at callsite(g at ...)). Nearly all instructions share theirs,
// so each is made once, the outermost ones first. A loop, since a stack may have as many frames as a file has bytes.
static const MlirAttribute *stack_location(const ExportPlace *place, int64_t frame_id) {
    Exporter *exporter = place->exporter;
    const HloStackTables *stack = &exporter->module->stack;
    HloInt64Vector *path = &exporter->path;
    const HloStackFrame *frame;
    const MlirAttribute *location = NULL;
    path->count = 0;
    // A frame that calls itself has more callers than there are frames.
    for (int64_t id = frame_id; path->count < stack->frames.count && (frame = frame_at(stack, id));) {
        location = exporter->frames[id - 1];
        if (location) break;
        hlo_vector_push(exporter->arena, path, id);
        id = frame->parent_frame_id;
    }
    while (path->count > 0) {
        const int64_t id = path->items[--path->count];
        const MlirAttribute *own = frame_location(place, &stack->frames.items[id - 1]);
        if (location) {
            const MlirAttribute **items = HLO_ARENA_NEW(exporter->arena, const MlirAttribute *, 2);
            items[0] = own;
            items[1] = location;
            own = make(place, (MlirAttribute){.kind = MLIR_LOCATION, .items = items, .count = 2});
        }
        exporter->frames[id - 1] = location = own;
    }
    return location;
}

// op_name, or the instruction's own name, around the source position. Instructions without metadata are located by
// their own name, so that a message about the exported program names them.
static const MlirAttribute *location_of(const ExportPlace *place) {
    const HloInstruction *instruction = place->instruction;
    const HloMetadata *metadata = instruction ? instruction->metadata : NULL;
    if (!instruction) return place->exporter->unknown_location;
    const MlirAttribute *child = metadata ? stack_location(place, metadata->stack_frame_id) : NULL;
    if (!child && metadata && metadata->source_file && *metadata->source_file) {
        child = file_location(place, metadata->source_file, metadata->source_line, metadata->source_column);
    }
    bool named = metadata && metadata->op_name && *metadata->op_name;
    if (!named && child) return child;
    return name_location(place, named ? metadata->op_name : instruction->name,
                         child ? child : place->exporter->unknown_location);
}

// ---------------------------------------------------------------------------------------------------------------------
// Operations

// The arrays have a capacity of MOST_ATTRIBUTES, more than any handler adds; exceeding it is a bug.
void export_attribute(const ExportPlace *place, MlirOperation *operation, const char *name,
                      const MlirAttribute *attribute) {
    assert(operation && name);
    (void)place;
    if (!attribute) return;
    HLO_BUG_IF(operation->attribute_count == MOST_ATTRIBUTES);
    ((const char **)(uintptr_t)operation->attribute_names)[operation->attribute_count] = name;
    ((const MlirAttribute **)(uintptr_t)operation->attributes)[operation->attribute_count++] = attribute;
}

static MlirOperation *new_operation(Exporter *exporter, const char *name) {
    MlirOperation *operation = HLO_ARENA_NEW(exporter->arena, MlirOperation, 1);
    operation->name = name;
    operation->location = exporter->unknown_location;
    operation->attribute_names = HLO_ARENA_NEW(exporter->arena, const char *, MOST_ATTRIBUTES);
    operation->attributes = HLO_ARENA_NEW(exporter->arena, const MlirAttribute *, MOST_ATTRIBUTES);
    return operation;
}

static MlirValue *new_value(Exporter *exporter, const MlirType *type, const MlirAttribute *location) {
    MlirValue *value = HLO_ARENA_NEW(exporter->arena, MlirValue, 1);
    value->type = type;
    value->location = location;
    return value;
}

MlirOperation *export_append(ExportPlace *place, const char *name, MlirValue *const *operands, int64_t operand_count,
                             const MlirType *const *results, int64_t result_count) {
    assert(name && operand_count >= 0 && result_count >= 0);
    Exporter *exporter = place->exporter;
    MlirOperation *operation = new_operation(exporter, name);
    operation->location = location_of(place);
    operation->operands = hlo_arena_copy(exporter->arena, operands, sizeof(*operands) * (size_t)operand_count);
    operation->operand_count = operand_count;
    operation->results = HLO_ARENA_NEW(exporter->arena, MlirValue *, result_count);
    operation->result_count = result_count;
    for (int64_t i = 0; i < result_count; i++) operation->results[i] = new_value(exporter, results[i], NULL);
    hlo_vector_push(exporter->arena, &place->block->operations, operation);
    return operation;
}

ExportLeaves export_results(const MlirOperation *operation) {
    return (ExportLeaves){operation->results, operation->result_count};
}

// `operation` may be NULL where no attributes follow.
HloStatus export_plain(ExportPlace *place, const char *name, ExportLeaves *result, MlirOperation **operation) {
    assert(name && result);
    const MlirType **types;
    int64_t count;
    HLO_TRY(export_leaf_types(place, place->instruction->shape, &types, &count));
    MlirOperation *made = export_append(place, name, place->operands.items, place->operands.count, types, count);
    *result = export_results(made);
    if (operation) *operation = made;
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Instructions

static const MlirAttribute *sharding_text(const ExportPlace *place, const HloSharding *sharding) {
    if (!sharding) return NULL;
    HloText text = {0};
    hlo_sharding_print(&text, sharding);
    return export_string(place, hlo_text_to_arena(place->exporter->arena, &text));
}

const MlirAttribute *export_dictionary(const ExportPlace *place, const char *const *keys,
                                       const MlirAttribute *const *items, int64_t count) {
    assert(count >= 0);
    HloArena *arena = place->exporter->arena;
    return make(place, (MlirAttribute){.kind = MLIR_DICTIONARY,
                                       .keys = hlo_arena_copy(arena, keys, sizeof(char *) * (size_t)count),
                                       .items = hlo_arena_copy(arena, items, sizeof(void *) * (size_t)count),
                                       .count = count});
}

static const MlirAttribute *dictionary_of(const ExportPlace *place, HloKeyValues values) {
    if (values.count == 0) return NULL;
    HloArena *arena = place->exporter->arena;
    const char **keys = HLO_ARENA_NEW(arena, const char *, values.count);
    const MlirAttribute **items = HLO_ARENA_NEW(arena, const MlirAttribute *, values.count);
    for (int64_t i = 0; i < values.count; i++) {
        keys[i] = values.items[i].key;
        items[i] = export_string(place, values.items[i].value);
    }
    return make(place, (MlirAttribute){.kind = MLIR_DICTIONARY, .keys = keys, .items = items, .count = values.count});
}

// A quick check that avoids inference for nearly all instructions.
static bool has_float_besides(const HloShape *shape, HloType type) {
    const int64_t leaves = hlo_shape_leaf_count(shape);
    for (int64_t i = 0; i < leaves; i++) {
        const HloType leaf = hlo_shape_leaf(shape, i)->type;
        if (leaf != type && hlo_type_is_float(leaf)) return true;
    }
    return false;
}

// True if the result's precision differs from the one that follows from the operands: HLO lets passes change it in
// place. Nearly all instructions have floats of one type only, for which inference is unnecessary.
static HloStatus check_mixed(const ExportPlace *place, bool *mixed) {
    const HloInstruction *instruction = place->instruction;
    *mixed = false;
    if (instruction->operand_count == 0 || hlo_shape_is_tuple(instruction->operands[0]->shape)) return HLO_SUCCESS;
    const HloType type = instruction->operands[0]->shape->type;
    bool differs = has_float_besides(instruction->shape, type);
    for (int32_t i = 1; i < instruction->operand_count; i++)
        differs |= has_float_besides(instruction->operands[i]->shape, type);
    if (!differs) return HLO_SUCCESS;
    const HloInferRequest request = hlo_infer_request_of(place->exporter->arena, instruction);
    const HloShape *inferred;
    HLO_TRY(hlo_infer_shape(&request, &inferred));
    *mixed = !hlo_shape_equal(inferred, instruction->shape, HLO_COMPARE_IGNORE_LAYOUT) &&
             hlo_shapes_mix(inferred, instruction->shape);
    return HLO_SUCCESS;
}

static const HloSharding *leaf_sharding(const HloSharding *sharding, int64_t leaf) {
    if (!sharding || sharding->kind != HLO_SHARDING_TUPLE) return sharding;
    return leaf < sharding->element_count ? sharding->elements[leaf] : NULL;
}

// The frontend attributes of an instruction, with the memory kind of a copy to another memory.
static HloKeyValues frontend_attributes(const ExportPlace *place) {
    const HloKeyValues values = place->instruction->frontend_attributes;
    const char *kind = export_placement(place->instruction);
    if (!kind) return values;
    HloKeyValue *items = HLO_ARENA_NEW(place->exporter->arena, HloKeyValue, values.count + 1);
    int64_t count = 0;
    bool is_placed = false;
    for (int64_t i = 0; i < values.count; i++) {
        const int order = strcmp(values.items[i].key, MLIR_BUFFER_PLACEMENT);
        if (order > 0 && !is_placed) items[count++] = (HloKeyValue){MLIR_BUFFER_PLACEMENT, kind};
        is_placed |= order >= 0;
        items[count++] = order ? values.items[i] : (HloKeyValue){MLIR_BUFFER_PLACEMENT, kind};
    }
    if (!is_placed) items[count++] = (HloKeyValue){MLIR_BUFFER_PLACEMENT, kind};
    return (HloKeyValues){items, count};
}

// Puts the instruction's sharding and frontend attributes on the last operation that it became.
static HloStatus annotate(ExportPlace *place, int64_t operations_before) {
    assert(operations_before >= 0);
    const HloInstruction *instruction = place->instruction;
    const MlirOperationVector *operations = &place->block->operations;
    if (operations->count == operations_before) return HLO_SUCCESS;
    MlirOperation *operation = operations->items[operations->count - 1];
    if (strcmp(operation->name, "stablehlo.composite") != 0) {
        export_attribute(place, operation, "mhlo.frontend_attributes",
                         dictionary_of(place, frontend_attributes(place)));
    }
    // HLO repeats the one device of a transfer for its data, context and token; StableHLO has it once.
    const bool transfer = hlo_is(instruction, HLO_OP_SEND) || hlo_is(instruction, HLO_OP_RECV);
    const HloSharding *sharding = transfer ? leaf_sharding(instruction->sharding, 0) : instruction->sharding;
    export_attribute(place, operation, "mhlo.sharding", sharding_text(place, sharding));
    bool mixed;
    HLO_TRY(check_mixed(place, &mixed));
    if (mixed)
        export_attribute(place, operation, MLIR_MIXED_PRECISION, make(place, (MlirAttribute){.kind = MLIR_UNIT}));
    return HLO_SUCCESS;
}

// The leaves of a single operand are shared: a wide tuple has a get-tuple-element for each of them.
static void collect_operands(ExportPlace *place) {
    const HloInstruction *instruction = place->instruction;
    const ExportLeaves *leaves = place->exporter->leaves;
    place->operands = instruction->operand_count == 1 ? leaves[instruction->operands[0]->id] : (ExportLeaves){0};
    if (instruction->operand_count <= 1) return;
    for (int32_t i = 0; i < instruction->operand_count; i++)
        place->operands.count += leaves[instruction->operands[i]->id].count;
    place->operands.items = HLO_ARENA_NEW(place->exporter->arena, MlirValue *, place->operands.count);
    int64_t at = 0;
    for (int32_t i = 0; i < instruction->operand_count; i++) {
        const ExportLeaves operand = leaves[instruction->operands[i]->id];
        if (operand.count)
            memcpy(place->operands.items + at, operand.items, (size_t)operand.count * sizeof(MlirValue *));
        at += operand.count;
    }
}

// Tries the families in turn; an opcode belongs to at most one. NULL for an op that StableHLO cannot express.
static ExportHandler *handler_of(Exporter *exporter, HloOpcode opcode) {
    ExportHandler **handler = &exporter->handlers[opcode];
    if (!*handler) *handler = export_fields_handler(opcode);
    if (!*handler) *handler = export_data_handler(opcode);
    if (!*handler) *handler = export_compute_handler(opcode);
    if (!*handler) *handler = export_control_handler(opcode);
    return *handler;
}

static HloStatus export_instruction(Exporter *exporter, ExportBlock *block, const HloInstruction *instruction) {
    assert(instruction->parent);
    ExportPlace place = {.exporter = exporter, .block = block, .instruction = instruction};
    ExportHandler *handler = handler_of(exporter, instruction->opcode);
    if (!handler) return export_error(&place, HLO_UNIMPLEMENTED, "StableHLO has no such operation");
    collect_operands(&place);
    int64_t before = block->operations.count;
    ExportLeaves result = {0};
    HLO_TRY(handler(&place, &result));
    HLO_TRY(annotate(&place, before));
    exporter->leaves[instruction->id] = result;
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Blocks

// The return has no instruction, and therefore no location.
static void append_return(Exporter *exporter, ExportBlock *block, const char *name, ExportLeaves values) {
    ExportPlace place = {.exporter = exporter, .block = block};
    export_append(&place, name, values.items, values.count, NULL, 0);
}

// The operations of the block in post-order, so that operands come first; instructions that the root does not need are
// omitted.
static HloStatus export_body(Exporter *exporter, const HloComputation *computation, const char *return_name,
                             MlirBlock *block) {
    assert(computation->root);
    if (++exporter->depth > DEEPEST_CALL) {
        return hlo_error(HLO_UNIMPLEMENTED, "computation %s: calls nest more than %d levels deep", computation->name,
                         DEEPEST_CALL);
    }
    ExportBlock made = {0};
    int64_t count;
    HloInstruction **order = hlo_computation_post_order(computation, exporter->arena, &count);
    for (int64_t i = 0; i < count; i++) {
        if (!hlo_is(order[i], HLO_OP_PARAMETER)) HLO_TRY(export_instruction(exporter, &made, order[i]));
    }
    append_return(exporter, &made, return_name, exporter->leaves[computation->root->id]);
    exporter->depth--;
    block->operations = made.operations.items;
    block->operation_count = made.operations.count;
    return HLO_SUCCESS;
}

// Block arguments for the leaves of every parameter.
static HloStatus make_arguments(Exporter *exporter, const HloComputation *computation, MlirBlock *block) {
    HLO_VECTOR(MlirValue *) arguments = {0};
    for (int64_t p = 0; p < hlo_parameter_count(computation); p++) {
        const HloInstruction *parameter = computation->parameters.items[p];
        ExportPlace place = {.exporter = exporter, .instruction = parameter};
        const MlirType **types;
        int64_t count;
        HLO_TRY(export_leaf_types(&place, parameter->shape, &types, &count));
        MlirValue **leaves = HLO_ARENA_NEW(exporter->arena, MlirValue *, count);
        for (int64_t i = 0; i < count; i++) {
            leaves[i] = new_value(exporter, types[i], location_of(&place));
            hlo_vector_push(exporter->arena, &arguments, leaves[i]);
        }
        exporter->leaves[parameter->id] = (ExportLeaves){leaves, count};
    }
    block->arguments = arguments.items;
    block->argument_count = arguments.count;
    return HLO_SUCCESS;
}

static MlirBlock *new_block(Exporter *exporter, MlirRegion *region) {
    region->blocks = HLO_ARENA_NEW(exporter->arena, MlirBlock, 1);
    region->block_count = 1;
    return region->blocks;
}

HloStatus export_region(ExportPlace *place, const HloComputation *computation, const ExportLeaves *bound,
                        MlirRegion *region) {
    assert(computation->root && region);
    Exporter *exporter = place->exporter;
    MlirBlock *block = new_block(exporter, region);
    if (bound) {
        for (int64_t p = 0; p < hlo_parameter_count(computation); p++) {
            exporter->leaves[computation->parameters.items[p]->id] = bound[p];
        }
    } else {
        HLO_TRY(make_arguments(exporter, computation, block));
    }
    return export_body(exporter, computation, "stablehlo.return", block);
}

// ---------------------------------------------------------------------------------------------------------------------
// Functions

// The entries of one argument or result as a dictionary.
typedef struct Entries {
    const char *keys[8];
    const MlirAttribute *items[8];
    int64_t count;
} Entries;

static void add_entry(Entries *entries, const char *key, const MlirAttribute *item) {
    if (!item) return;
    entries->keys[entries->count] = key;
    entries->items[entries->count++] = item;
}

static const MlirAttribute *make_entries(const ExportPlace *place, const Entries *entries) {
    return export_dictionary(place, entries->keys, entries->items, entries->count);
}

// The result that shares an argument's memory, or -1.
static int64_t aliased_output(const HloModule *module, int64_t parameter) {
    for (int64_t i = 0; i < module->aliases.count; i++) {
        const HloAlias *alias = &module->aliases.items[i];
        if (alias->operand != parameter || alias->operand_index.count) continue;
        return alias->output_index.count ? alias->output_index.items[0] : 0;
    }
    return -1;
}

static bool is_donor(const HloModule *module, int64_t parameter) {
    for (int64_t i = 0; i < module->donor_count; i++) {
        if (module->donors[i].parameter == parameter && module->donors[i].index.count == 0) return true;
    }
    return false;
}

// The memory kind of a leaf that the entry takes or returns; NULL in the device's own memory.
static const MlirAttribute *memory_kind(const ExportPlace *place, const HloShape *shape, int64_t leaf) {
    const int64_t space = hlo_shape_memory_space(hlo_shape_leaf(shape, leaf));
    const char *kind = space == HLO_SPACE_DEVICE ? NULL : mlir_memory_kind(space);
    return kind ? export_string(place, kind) : NULL;
}

// The shape of an argument of the entry, as its callers see it.
static const HloShape *argument_shape(const HloInstruction *parameter) {
    const HloModule *module = parameter->parent->module;
    return module->entry_parameter_layouts ? module->entry_parameter_layouts[hlo_parameter_number(parameter)]
                                           : parameter->shape;
}

static const MlirAttribute *argument_attributes(Exporter *exporter, const HloComputation *computation, bool is_entry) {
    HLO_VECTOR(const MlirAttribute *) list = {0};
    bool any = false;
    for (int64_t p = 0; p < hlo_parameter_count(computation); p++) {
        const HloInstruction *parameter = computation->parameters.items[p];
        ExportPlace place = {.exporter = exporter, .instruction = parameter};
        int64_t count = hlo_shape_leaf_count(parameter->shape);
        for (int64_t i = 0; i < count; i++) {
            Entries entries = {.count = 0};
            int64_t output = is_entry ? aliased_output(exporter->module, p) : -1;
            if (is_entry && is_donor(exporter->module, p))
                add_entry(&entries, "jax.buffer_donor", export_bool(&place, true));
            add_entry(&entries, "mhlo.frontend_attributes", dictionary_of(&place, parameter->frontend_attributes));
            if (is_entry) add_entry(&entries, "mhlo.memory_kind", memory_kind(&place, argument_shape(parameter), i));
            add_entry(&entries, "mhlo.sharding", sharding_text(&place, leaf_sharding(parameter->sharding, i)));
            if (output >= 0) add_entry(&entries, "tf.aliasing_output", export_i32(&place, output));
            any |= entries.count > 0;
            hlo_vector_push(exporter->arena, &list, make_entries(&place, &entries));
        }
    }
    ExportPlace place = {.exporter = exporter};
    return any ? export_array(&place, list.items, list.count) : NULL;
}

// The annotation of leaf `leaf` of the result. If the root becomes an operation, it stays there; a tuple becomes none.
static const MlirAttribute *result_sharding(const ExportPlace *place, int64_t leaf) {
    const HloInstruction *root = place->instruction;
    if (!root->sharding || (!hlo_is(root, HLO_OP_TUPLE) && !hlo_is(root, HLO_OP_COPY))) return NULL;
    const HloSharding *sharding = leaf_sharding(root->sharding, leaf);
    if (sharding && sharding->kind == HLO_SHARDING_UNKNOWN && !sharding->group) sharding = NULL;
    return sharding_text(place, sharding);
}

static const MlirAttribute *result_attributes(Exporter *exporter, const HloComputation *computation) {
    const HloInstruction *root = computation->root;
    const HloShape *result = exporter->module->entry_result_layout;
    ExportPlace place = {.exporter = exporter, .instruction = root};
    int64_t count = hlo_shape_leaf_count(root->shape);
    bool any = false;
    const MlirAttribute **list = HLO_ARENA_NEW(exporter->arena, const MlirAttribute *, count);
    for (int64_t i = 0; i < count; i++) {
        Entries entries = {.count = 0};
        add_entry(&entries, "mhlo.memory_kind", memory_kind(&place, result ? result : root->shape, i));
        add_entry(&entries, "mhlo.sharding", result_sharding(&place, i));
        any |= entries.count > 0;
        list[i] = make_entries(&place, &entries);
    }
    const bool annotated = root->sharding && (hlo_is(root, HLO_OP_TUPLE) || hlo_is(root, HLO_OP_COPY));
    return any || annotated ? export_array(&place, list, count) : NULL;
}

// Attributes are added in the order of their names, which is how MLIR sorts them.
static HloStatus make_function(Exporter *exporter, const HloComputation *computation, bool is_entry) {
    assert(computation->root);
    ExportPlace place = {.exporter = exporter};
    MlirOperation *function = new_operation(exporter, "func.func");
    MlirType type = {.kind = MLIR_TYPE_FUNCTION};
    function->regions = HLO_ARENA_NEW(exporter->arena, MlirRegion, 1);
    function->region_count = 1;
    MlirBlock *block = new_block(exporter, function->regions);
    HLO_TRY(make_arguments(exporter, computation, block));
    HLO_TRY(export_body(exporter, computation, "func.return", block));
    const MlirType **inputs = HLO_ARENA_NEW(exporter->arena, const MlirType *, block->argument_count);
    for (int64_t i = 0; i < block->argument_count; i++) inputs[i] = block->arguments[i]->type;
    const MlirOperation *end = block->operations[block->operation_count - 1];
    const MlirType **results = HLO_ARENA_NEW(exporter->arena, const MlirType *, end->operand_count);
    for (int64_t i = 0; i < end->operand_count; i++) results[i] = end->operands[i]->type;
    type.inputs = inputs;
    type.input_count = block->argument_count;
    type.results = results;
    type.result_count = end->operand_count;
    export_attribute(&place, function, "arg_attrs", argument_attributes(exporter, computation, is_entry));
    export_attribute(&place, function, "function_type",
                     make(&place, (MlirAttribute){.kind = MLIR_TYPE, .type = mlir_new_type(exporter->arena, type)}));
    export_attribute(&place, function, "res_attrs", is_entry ? result_attributes(exporter, computation) : NULL);
    export_attribute(&place, function, "sym_name", export_string(&place, is_entry ? "main" : computation->name));
    export_attribute(&place, function, "sym_visibility", export_string(&place, is_entry ? "public" : "private"));
    hlo_vector_push(exporter->arena, &exporter->operations, function);
    return HLO_SUCCESS;
}

// The map is set before the body is made, so that a function with several callers is made once.
HloStatus export_function(ExportPlace *place, const HloComputation *computation) {
    Exporter *exporter = place->exporter;
    if (hlo_int_map_find(&exporter->functions, (uint64_t)computation->id)) return HLO_SUCCESS;
    if (strcmp(computation->name, "main") == 0) {
        return export_error(place, HLO_UNIMPLEMENTED, "a called computation has the name of the entry, main");
    }
    hlo_int_map_set(exporter->arena, &exporter->functions, (uint64_t)computation->id, 1);
    return make_function(exporter, computation, false);
}

// ---------------------------------------------------------------------------------------------------------------------
// The module

// Leaves are indexed by instruction ids, which are below the module's limit.
static Exporter new_exporter(const HloModule *module, HloArena *arena) {
    Exporter exporter = {.module = module, .arena = arena};
    exporter.leaves = HLO_ARENA_NEW(arena, ExportLeaves, module->instruction_limit);
    exporter.frames = HLO_ARENA_NEW(arena, const MlirAttribute *, module->stack.frames.count);
    exporter.unknown_location = mlir_new_attribute(arena, (MlirAttribute){.kind = MLIR_LOCATION});
    return exporter;
}

HloStatus mlir_export_functions(const HloModule *module, HloArena *arena, HloComputation *const *computations,
                                int64_t count, MlirOperationVector *functions) {
    Exporter exporter = new_exporter(module, arena);
    for (int64_t i = 0; i < count; i++) HLO_TRY(make_function(&exporter, computations[i], false));
    *functions = exporter.operations;
    return HLO_SUCCESS;
}

HloStatus mlir_export_module(const HloModule *module, HloArena *arena, MlirOperation **top) {
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "the module has no entry computation");
    Exporter exporter = new_exporter(module, arena);
    ExportPlace place = {.exporter = &exporter};
    HLO_TRY(make_function(&exporter, module->entry, true));
    MlirOperation *operation = new_operation(&exporter, "builtin.module");
    export_attribute(&place, operation, "sym_name", export_string(&place, module->name));
    export_attribute(&place, operation, "mhlo.frontend_attributes",
                     dictionary_of(&place, hlo_propagation_to_attributes(arena, module)));
    export_attribute(&place, operation, "mhlo.num_partitions", export_i32(&place, module->num_partitions));
    export_attribute(&place, operation, "mhlo.num_replicas", export_i32(&place, module->replica_count));
    export_entry_layouts(&place, operation);
    operation->regions = HLO_ARENA_NEW(arena, MlirRegion, 1);
    operation->region_count = 1;
    MlirBlock *block = new_block(&exporter, operation->regions);
    // The entry comes first, then the functions that it calls, as JAX writes them.
    int64_t count = exporter.operations.count;
    block->operations = HLO_ARENA_NEW(arena, MlirOperation *, count);
    for (int64_t i = 0; i < count; i++) block->operations[i] = exporter.operations.items[i ? i - 1 : count - 1];
    block->operation_count = count;
    *top = operation;
    return HLO_SUCCESS;
}
