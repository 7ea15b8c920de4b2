// SPDX-License-Identifier: Apache-2.0
// Imports regions, calls, loops, branches, custom calls. The computations of HLO's loops, branches and reductions see
// only their parameters, while StableHLO's regions see all values around them. Captured values therefore become
// parameters: further elements of a loop's tuple, which the body passes on, or the operand of a branch. Constants are
// copied inside instead. Custom calls are dispatched by their target to the code that handles it; all others remain
// custom calls.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/hexadecimal.h"
#include "hlo/ir/custom_call.h"
#include "hlo/ir/infer/support.h"
#include "hlo/stablehlo/import/import.h"

// ---------------------------------------------------------------------------------------------------------------------
// Values from outside

// Maps keyed by the addresses of values. A walk over nested regions lists each value once, in the order of first use,
// so that the parameters of equal programs are equal.
typedef struct CaptureWalk {
    const Importer *importer;
    HloIntMap inside;  // values that the regions define
    HloIntMap seen;
    HLO_VECTOR(MlirValue *) found;
} CaptureWalk;

// Values of the regions themselves, at any depth, are not captures.
static void note_inside(CaptureWalk *walk, MlirValue *const *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) hlo_int_map_set(walk->importer->arena, &walk->inside, (uintptr_t)values[i], 1);
}

// Definitions are noted in order: a use before its definition cannot occur in a region of one block.
static void walk_region(CaptureWalk *walk, const MlirRegion *region) {
    for (int64_t b = 0; b < region->block_count; b++) {
        const MlirBlock *block = &region->blocks[b];
        note_inside(walk, block->arguments, block->argument_count);
        for (int64_t i = 0; i < block->operation_count; i++) {
            const MlirOperation *operation = block->operations[i];
            for (int64_t j = 0; j < operation->operand_count; j++) {
                MlirValue *value = operation->operands[j];
                if (hlo_int_map_find(&walk->inside, (uintptr_t)value)) continue;
                if (hlo_int_map_find(&walk->seen, (uintptr_t)value)) continue;
                hlo_int_map_set(walk->importer->arena, &walk->seen, (uintptr_t)value, 1);
                hlo_vector_push(walk->importer->arena, &walk->found, value);
            }
            note_inside(walk, operation->results, operation->result_count);
            for (int64_t r = 0; r < operation->region_count; r++) walk_region(walk, &operation->regions[r]);
        }
    }
}

// A constant, or the broadcast of one, as which large ones are written.
static bool is_constant(const MlirValue *value) {
    const HloInstruction *op = value->lowered;
    return op && (value->is_constant || hlo_is(op, HLO_OP_CONSTANT) ||
                  (hlo_is(op, HLO_OP_BROADCAST) && hlo_is(op->operands[0], HLO_OP_CONSTANT)));
}

// Values from outside that a region uses: constants, or all others.
static CaptureWalk find_captures(const Importer *importer, const MlirRegion *regions, int64_t count, bool constants) {
    assert(count >= 0);
    CaptureWalk walk = {.importer = importer};
    for (int64_t r = 0; r < count; r++) walk_region(&walk, &regions[r]);
    int64_t kept = 0;
    for (int64_t i = 0; i < walk.found.count; i++) {
        MlirValue *value = walk.found.items[i];
        if (is_constant(value) == constants) walk.found.items[kept++] = value;
    }
    walk.found.count = kept;
    return walk;
}

// Values from outside that the regions of an operation use, each once, except for constants: convert_region() copies
// those.
static void list_captures(const Importer *importer, const MlirOperation *operation, MlirValue ***captures,
                          int64_t *count) {
    const CaptureWalk walk = find_captures(importer, operation->regions, operation->region_count, false);
    *captures = walk.found.items;
    *count = walk.found.count;
}

// ---------------------------------------------------------------------------------------------------------------------
// Regions as computations

static HloInstruction *new_parameter(HloComputation *computation, int64_t number, const HloShape *shape) {
    HloParameterAttributes attributes = {.number = number};
    return hlo_instruction_new(computation, HLO_OP_PARAMETER, shape, NULL, 0, &attributes, "param");
}

// Adds the element to the tuple's own computation.
static HloInstruction *tuple_element(HloInstruction *tuple, int64_t index) {
    HloTupleIndexAttributes attributes = {.index = index};
    return hlo_instruction_new(tuple->parent, HLO_OP_GET_TUPLE_ELEMENT, tuple->shape->elements[index], &tuple, 1,
                               &attributes, NULL);
}

// The shape follows from the items; no inference is needed.
static HloInstruction *make_tuple(HloComputation *computation, HloInstruction *const *items, int64_t count) {
    assert(count >= 0);
    HloArena *arena = computation->module->arena;
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, count);
    for (int64_t i = 0; i < count; i++) shapes[i] = items[i]->shape;
    return hlo_instruction_new(computation, HLO_OP_TUPLE, hlo_shape_tuple(arena, shapes, count), items, count, NULL,
                               NULL);
}

// Binds block arguments and captures to the computation's parameters. While the region is converted, its captures refer
// to these parameters; convert_region() then restores their outside values.
static HloStatus bind_parameters(const ImportPlace *place, const ImportRegion *request, const MlirBlock *block) {
    HloComputation *computation = place->computation;
    HloArena *arena = import_arena(place);
    int64_t count = block->argument_count + request->capture_count;
    MlirValue **values = HLO_ARENA_NEW(place->importer->arena, MlirValue *, count);
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, count);
    for (int64_t i = 0; i < count; i++) {
        bool is_argument = i < block->argument_count;
        values[i] = is_argument ? block->arguments[i] : request->captures[i - block->argument_count];
        HLO_TRY(import_shape(place, values[i]->type, &shapes[i]));
        // Shapes known outside are known inside, too.
        if (!is_argument && values[i]->lowered) shapes[i] = values[i]->lowered->shape;
        if (is_argument && request->initial) shapes[i] = request->initial[i]->shape;
    }
    HloInstruction *tuple =
        request->tuple_parameter ? new_parameter(computation, 0, hlo_shape_tuple(arena, shapes, count)) : NULL;
    for (int64_t i = 0; i < count; i++) {
        HloInstruction *outside = i < block->argument_count ? NULL : values[i]->lowered;
        values[i]->lowered = tuple ? tuple_element(tuple, i) : new_parameter(computation, i, shapes[i]);
        if (outside) import_note_same(place->importer, values[i]->lowered, outside);
        if (request->named_parameters) values[i]->lowered->metadata = import_metadata(place, values[i]->location);
    }
    return HLO_SUCCESS;
}

// A loop's body returns its captures unchanged (`passthrough`).
static HloStatus set_region_root(const ImportPlace *place, const ImportRegion *request,
                                 const MlirOperation *terminator) {
    ImportPlace end = {place->importer, place->computation, (MlirOperation *)(uintptr_t)terminator};
    HloInstruction **values = NULL;
    HLO_TRY(import_operands(&end, &values));
    int64_t returned = terminator->operand_count;
    int64_t more = request->passthrough ? request->capture_count : 0;
    HloInstruction **all = HLO_ARENA_NEW(place->importer->arena, HloInstruction *, returned + more);
    for (int64_t i = 0; i < returned; i++) all[i] = values[i];
    for (int64_t i = 0; i < more; i++) all[returned + i] = request->captures[i]->lowered;
    bool single = returned + more == 1 && !request->tuple_parameter;
    bool one_of_one = returned + more == 1;
    hlo_computation_set_root(place->computation, single || (one_of_one && !request->passthrough)
                                                     ? all[0]
                                                     : make_tuple(place->computation, all, returned + more));
    return HLO_SUCCESS;
}

// Constants from outside are copied into every region that uses them: comparators and reductions cannot have captures,
// and loops and branches need not carry constants. Returns what must be restored afterwards.
typedef struct SunkConstants {
    MlirValue **values;
    HloInstruction **outside;
    int64_t count;
} SunkConstants;

// Copies a constant, or the broadcast of one.
static HloInstruction *copy_constant(HloComputation *computation, HloInstruction *constant) {
    assert(hlo_is(constant, HLO_OP_CONSTANT) || constant->operand_count == 1); /* a broadcast */
    HloInstruction *operand = NULL;
    if (constant->operand_count)
        operand = hlo_instruction_clone(computation, constant->operands[0], constant->operands[0]->shape, NULL, 0);
    return hlo_instruction_clone(computation, constant, constant->shape, &operand, constant->operand_count);
}

// Copies all constants that the region uses, nested regions included, in one walk.
static SunkConstants sink_constants(const ImportPlace *place, const MlirRegion *region) {
    const CaptureWalk walk = find_captures(place->importer, region, 1, true);
    SunkConstants sunk = {.values = walk.found.items, .count = walk.found.count};
    sunk.outside = HLO_ARENA_NEW(place->importer->arena, HloInstruction *, sunk.count);
    for (int64_t i = 0; i < sunk.count; i++) {
        HloInstruction *constant = sunk.outside[i] = sunk.values[i]->lowered;
        sunk.values[i]->lowered = copy_constant(place->computation, constant);
    }
    return sunk;
}

// Converts a region, with constants from outside copied into it. After an error nothing is restored: the whole import
// fails.
static HloStatus convert_region(Importer *importer, const ImportRegion *request, HloComputation **result) {
    assert(request && result);
    HLO_FAIL_IF(request->region->block_count != 1, HLO_INVALID_ARGUMENT, "a region does not have one block");
    const MlirBlock *block = &request->region->blocks[0];
    HloComputation *computation = hlo_computation_new(importer->module, request->name);
    // Captured values refer to other instructions while the region is converted.
    HloInstruction **saved = HLO_ARENA_NEW(importer->arena, HloInstruction *, request->capture_count);
    for (int64_t i = 0; i < request->capture_count; i++) saved[i] = request->captures[i]->lowered;
    ImportPlace place = {importer, computation, block->operation_count ? block->operations[0] : NULL};
    HLO_FAIL_IF(!place.operation, HLO_INVALID_ARGUMENT, "a region has no operations");
    HLO_TRY(bind_parameters(&place, request, block));
    SunkConstants sunk = sink_constants(&place, request->region);
    const MlirOperation *terminator = NULL;
    HLO_TRY(import_block(importer, computation, block, &terminator));
    HLO_TRY(set_region_root(&place, request, terminator));
    for (int64_t i = 0; i < request->capture_count; i++) request->captures[i]->lowered = saved[i];
    for (int64_t i = 0; i < sunk.count; i++) sunk.values[i]->lowered = sunk.outside[i];
    *result = computation;
    return HLO_SUCCESS;
}

// The result that accumulates operand `index` of a reduction, or -1.
static int64_t accumulated_in(HloOpcode opcode, int64_t index, int64_t results) {
    switch (opcode) {
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_REDUCE_SCATTER: return index;
        case HLO_OP_REDUCE_WINDOW: return index % results;
        case HLO_OP_SELECT_AND_SCATTER: return 0;
        case HLO_OP_SCATTER: return index == results ? -1 : index % (results + 1);  // arrays, indices, updates
        default: return -1;
    }
}

// StableHLO lets these ops accumulate in a wider type than that of their operands; HLO can express that only by
// converting the operands first.
static HloStatus widen_operands(ImportPlace *place, HloOpcode opcode, HloInstruction **operands) {
    const MlirOperation *operation = place->operation;
    if (mlir_attribute(operation, MLIR_MIXED_PRECISION)) return HLO_SUCCESS;  // it was so in HLO
    for (int64_t i = 0; i < operation->operand_count; i++) {
        const int64_t result = operation->result_count ? accumulated_in(opcode, i, operation->result_count) : -1;
        if (result < 0 || result >= operation->result_count) continue;
        const HloShape *shape = NULL;
        HLO_TRY(import_shape(place, operation->results[result]->type, &shape));
        const HloShape *from = operands[i]->shape;
        if (!hlo_shape_is_array(shape) || !hlo_shape_is_array(from) || shape->type == from->type ||
            hlo_type_kind(shape->type) != hlo_type_kind(from->type) ||
            hlo_type_bytes(shape->type) < hlo_type_bytes(from->type)) {
            continue;
        }
        HLO_TRY(import_emit(place, HLO_OP_CONVERT, hlo_shape_with_type(import_arena(place), from, shape->type),
                            &operands[i], 1, NULL, NULL, 0, &operands[i]));
    }
    return HLO_SUCCESS;
}

// In a select-and-scatter, only the scatter is wider: the elements that its select compares are converted back to their
// own type, in which they have the same value.
static HloComputation *narrowed(const ImportPlace *place, HloComputation *select, const HloShape *operand) {
    assert(select->root && hlo_shape_is_array(operand));
    if (hlo_parameter_count(select) != 2) return select;
    const HloType type = select->parameters.items[0]->shape->type;
    if (type == operand->type || hlo_type_kind(type) != hlo_type_kind(operand->type)) return select;
    HloModule *module = place->importer->module;
    HloComputation *computation = hlo_computation_new(module, "narrowed");
    const HloShape *scalar =
        hlo_shape_with_default_layout(module->arena, hlo_shape_scalar(module->arena, operand->type));
    HloInstruction *values[2];
    for (int64_t i = 0; i < 2; i++) {
        const HloParameterAttributes number = {.number = i};
        values[i] = hlo_instruction_new(computation, HLO_OP_PARAMETER, scalar, NULL, 0, &number, NULL);
    }
    for (int i = 0; i < 2; i++)
        values[i] = hlo_instruction_new(computation, HLO_OP_CONVERT, select->parameters.items[i]->shape, &values[i], 1,
                                        NULL, NULL);
    HloInstruction *call = hlo_instruction_new(computation, HLO_OP_CALL, select->root->shape, values, 2, NULL, NULL);
    hlo_instruction_set_called(call, &select, 1);
    hlo_computation_set_root(computation, call);
    return computation;
}

// The regions are converted after the operands were widened, since inference compares both.
HloStatus import_with_region(ImportPlace *place, HloOpcode opcode, const void *attributes) {
    MlirOperation *operation = place->operation;
    HloInstruction **operands = NULL, *result = NULL;
    const HloShape *shape = NULL;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(widen_operands(place, opcode, operands));
    HloComputation **called = HLO_ARENA_NEW(place->importer->arena, HloComputation *, operation->region_count);
    for (int64_t i = 0; i < operation->region_count; i++) {
        ImportRegion request = {.region = &operation->regions[i], .named_parameters = true, .name = "region"};
        HLO_TRY(convert_region(place->importer, &request, &called[i]));
    }
    if (opcode == HLO_OP_SELECT_AND_SCATTER && operation->region_count == 2 && operation->operand_count == 3 &&
        !mlir_attribute(operation, MLIR_MIXED_PRECISION) && hlo_shape_is_array(operands[0]->shape))
        called[0] = narrowed(place, called[0], operands[0]->shape);
    HLO_TRY(import_emit(place, opcode, shape, operands, operation->operand_count, attributes, called,
                        operation->region_count, &result));
    return import_set_results(place, result);
}

// ---------------------------------------------------------------------------------------------------------------------
// Loops and branches

// The instructions that captured values refer to outside the region: they must be in this computation.
static HloStatus captured_instructions(const ImportPlace *place, MlirValue *const *captures, int64_t count,
                                       HloInstruction **out) {
    assert(count >= 0 && out);
    for (int64_t i = 0; i < count; i++) {
        out[i] = captures[i]->lowered;
        if (!out[i] || out[i]->parent != place->computation) {
            return import_error(place, HLO_INVALID_ARGUMENT, "a region uses a value that is not defined here");
        }
    }
    return HLO_SUCCESS;
}

// Types that StableHLO calls compatible: equal, except for sizes that one of them leaves open.
static bool types_agree(const HloShape *a, const HloShape *b) {
    if (hlo_shape_is_tuple(a) && hlo_shape_is_tuple(b)) {
        bool agree = a->element_count == b->element_count;
        for (int32_t i = 0; agree && i < a->element_count; i++) agree = types_agree(a->elements[i], b->elements[i]);
        return agree;
    }
    if (!hlo_shape_is_array(a) || !hlo_shape_is_array(b)) return a->type == b->type;
    bool agree = a->type == b->type && a->rank == b->rank;
    for (int32_t d = 0; agree && d < a->rank; d++) {
        const bool open = hlo_shape_dimension_is_dynamic(a, d) || hlo_shape_dimension_is_dynamic(b, d);
        agree = open || hlo_sizes_agree(a->dims[d], b->dims[d]);
    }
    return agree;
}

// A value carried by a loop, or passed through a barrier, has one type: its operand's.
static HloStatus check_carried(const ImportPlace *place, MlirValue *const *values, const char *what) {
    const MlirOperation *operation = place->operation;
    for (int64_t i = 0; i < operation->operand_count; i++) {
        const HloShape *given = NULL, *taken = NULL;
        HLO_TRY(import_shape(place, operation->operands[i]->type, &given));
        HLO_TRY(import_shape(place, values[i]->type, &taken));
        if (!types_agree(given, taken))
            return import_error(place, HLO_INVALID_ARGUMENT, "%s %lld is %s, and the operand %s", what, (long long)i,
                                hlo_shape_message(import_arena(place), taken),
                                hlo_shape_message(import_arena(place), given));
    }
    return HLO_SUCCESS;
}

// The carry is the operands and all values that the regions use from outside, in one tuple unless it is a single value.
static HloStatus import_while(ImportPlace *place) {
    Importer *importer = place->importer;
    MlirOperation *operation = place->operation;
    if (operation->region_count != 2 || operation->result_count != operation->operand_count) {
        return import_error(place, HLO_INVALID_ARGUMENT,
                            "a while must have two regions, and one result for each operand");
    }
    MlirValue **captures;
    int64_t capture_count, count = operation->operand_count;
    list_captures(importer, operation, &captures, &capture_count);
    HloInstruction **operands = NULL;
    HLO_TRY(import_operands(place, &operands));
    HloInstruction **carry = HLO_ARENA_NEW(importer->arena, HloInstruction *, count + capture_count);
    for (int64_t i = 0; i < count; i++) carry[i] = operands[i];
    HLO_TRY(captured_instructions(place, captures, capture_count, carry + count));
    bool tuple = count + capture_count != 1;
    ImportRegion request = {
        .captures = captures, .capture_count = capture_count, .initial = operands, .tuple_parameter = tuple};
    for (int r = 0; r < 2; r++) {
        const MlirRegion *region = &operation->regions[r];
        if (region->block_count != 1 || region->blocks[0].argument_count != count)
            return import_error(place, HLO_INVALID_ARGUMENT,
                                "the regions of a while must take as many values as the while");
        HLO_TRY(
            check_carried(place, region->blocks[0].arguments, r ? "the body's argument" : "the condition's argument"));
    }
    HLO_TRY(check_carried(place, operation->results, "result"));
    HloComputation *called[2];
    request.region = &operation->regions[0];
    request.name = "while_cond";
    HLO_TRY(convert_region(importer, &request, &called[0]));
    request.region = &operation->regions[1];
    request.name = "while_body";
    request.passthrough = true;
    HLO_TRY(convert_region(importer, &request, &called[1]));
    HloInstruction *initial = tuple ? make_tuple(place->computation, carry, count + capture_count) : carry[0];
    HloInstruction *loop;
    HLO_TRY(import_emit(place, HLO_OP_WHILE, initial->shape, &initial, 1, NULL, called, 2, &loop));
    for (int64_t i = 0; i < operation->result_count; i++) {
        if (operation->results[i]->is_used) operation->results[i]->lowered = tuple ? tuple_element(loop, i) : loop;
    }
    return HLO_SUCCESS;
}

// Branches have their captures as operand: a single value as it is, else a tuple.
static HloStatus import_branches(ImportPlace *place, HloInstruction *selector) {
    Importer *importer = place->importer;
    MlirOperation *operation = place->operation;
    int64_t branches = operation->region_count;
    HloComputation **called = HLO_ARENA_NEW(importer->arena, HloComputation *, branches);
    HloInstruction **operands = HLO_ARENA_NEW(importer->arena, HloInstruction *, branches + 1);
    operands[0] = selector;
    for (int64_t i = 0; i < branches; i++) {
        MlirOperation one = {.regions = &operation->regions[i], .region_count = 1};
        MlirValue **captures;
        int64_t count;
        list_captures(importer, &one, &captures, &count);
        HloInstruction **values = HLO_ARENA_NEW(importer->arena, HloInstruction *, count);
        HLO_TRY(captured_instructions(place, captures, count, values));
        operands[1 + i] = count == 1 ? values[0] : make_tuple(place->computation, values, count);
        ImportRegion request = {.region = &operation->regions[i],
                                .captures = captures,
                                .capture_count = count,
                                .tuple_parameter = count != 1,
                                .name = "branch"};
        HLO_TRY(convert_region(importer, &request, &called[i]));
    }
    const HloShape *shape = NULL;
    HloInstruction *result;
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(import_emit(place, HLO_OP_CONDITIONAL, shape, operands, branches + 1, NULL, called, branches, &result));
    return import_set_results(place, result);
}

// stablehlo.if is the same with a predicate: shape inference distinguishes them.
static HloStatus import_case(ImportPlace *place) {
    HloInstruction **operands = NULL;
    HLO_TRY(import_operands(place, &operands));
    if (place->operation->operand_count != 1 || place->operation->region_count == 0) {
        return import_error(place, HLO_INVALID_ARGUMENT, "one selector and at least one branch are needed");
    }
    return import_branches(place, operands[0]);
}

// Several values pass through as one tuple, so that none can be moved without the others.
static HloStatus import_optimization_barrier(ImportPlace *place) {
    HloInstruction **operands = NULL, *result = NULL;
    HLO_TRY(import_operands(place, &operands));
    int64_t count = place->operation->operand_count;
    if (place->operation->result_count != count)
        return import_error(place, HLO_INVALID_ARGUMENT, "%lld operands give %lld results", (long long)count,
                            (long long)place->operation->result_count);
    HLO_TRY(check_carried(place, place->operation->results, "result"));
    HloInstruction *operand = count == 1 ? operands[0] : make_tuple(place->computation, operands, count);
    HLO_TRY(import_emit(place, HLO_OP_OPTIMIZATION_BARRIER, operand->shape, &operand, 1, NULL, NULL, 0, &result));
    return import_set_results(place, result);
}

static HloStatus import_after_all(ImportPlace *place) {
    return import_plain(place, HLO_OP_AFTER_ALL, NULL);
}

// ---------------------------------------------------------------------------------------------------------------------
// Calls

HloStatus import_call_of(ImportPlace *place, const char *name, bool is_composite, HloInstruction **result) {
    HloInstruction **operands = NULL;
    const HloShape *shape = NULL;
    HloComputation *computation = NULL;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(import_function(place, name, operands, place->operation->operand_count, &computation));
    HloCallAttributes attributes = {.is_composite = is_composite};
    return import_emit(place, HLO_OP_CALL, shape, operands, place->operation->operand_count, &attributes, &computation,
                       1, result);
}

static HloStatus import_call(ImportPlace *place) {
    const char *name = import_string(place, "callee");
    HloInstruction *result;
    if (!name) return import_error(place, HLO_INVALID_ARGUMENT, "a call names no function");
    HLO_TRY(import_call_of(place, name, false, &result));
    return import_set_results(place, result);
}

// The row with this name, or NULL (also for a NULL name).
static const ImportRow *find_row(const ImportRow *(*table)(int64_t *count), const char *name) {
    int64_t count;
    const ImportRow *rows = table(&count);
    for (int64_t i = 0; name && i < count; i++) {
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    }
    return NULL;
}

static HloStatus custom_call_attributes(ImportPlace *place, HloCustomCallAttributes *attributes) {
    const char *target = import_string(place, "call_target_name");
    if (!target) return import_error(place, HLO_INVALID_ARGUMENT, "a custom call names no target");
    attributes->target = hlo_arena_text(import_arena(place), target);
    HLO_TRY(import_bool(place, "has_side_effect", false, &attributes->has_side_effect));
    return import_enum(place, "api_version", &hlo_enum_CustomCallApi, HLO_CustomCallApi_ORIGINAL,
                       &attributes->api_version);
}

// A list of structures: which result shares memory with which operand.
static HloStatus custom_call_aliases(ImportPlace *place, HloAliases *aliases) {
    const MlirAttribute *list = mlir_attribute(place->operation, "output_operand_aliases");
    if (!list || list->kind != MLIR_ARRAY || list->count == 0) return HLO_SUCCESS;
    HloArena *arena = import_arena(place);
    HloAlias *items = HLO_ARENA_NEW(arena, HloAlias, list->count);
    for (int64_t i = 0; i < list->count; i++) {
        const MlirAttribute *alias = list->items[i];
        if (!alias || alias->kind != MLIR_ALIAS) return import_error(place, HLO_INVALID_ARGUMENT, "bad output alias");
        items[i] = (HloAlias){.output_index = hlo_ints_copy(arena, alias->items[0]->ints),
                              .operand = alias->integer,
                              .operand_index = hlo_ints_copy(arena, alias->items[1]->ints)};
    }
    *aliases = (HloAliases){items, list->count};
    return HLO_SUCCESS;
}

// The called functions are given by name, as symbols or, from bytecode, as strings.
static HloStatus custom_call_called(ImportPlace *place, HloComputation ***called, int64_t *count) {
    const MlirAttribute *list = mlir_attribute(place->operation, "called_computations");
    *count = list && list->kind == MLIR_ARRAY ? list->count : 0;
    *called = HLO_ARENA_NEW(place->importer->arena, HloComputation *, *count);
    for (int64_t i = 0; i < *count; i++) {
        if (!list->items[i]->string)
            return import_error(place, HLO_INVALID_ARGUMENT, "a called computation has no name");
        HLO_TRY(import_function(place, list->items[i]->string, NULL, 0, &(*called)[i]));
    }
    return HLO_SUCCESS;
}

// Older artifacts write sdy.sharding_group as a call without results, with its number as text "3 : i64".
static HloStatus import_group_call(ImportPlace *place, HloInstruction **operands) {
    const MlirAttribute *attributes = mlir_attribute(place->operation, "mhlo.frontend_attributes");
    const MlirAttribute *number = attributes ? mlir_entry(attributes, "xla.sdy.sharding_group_id") : NULL;
    const bool is_number = number && number->string && *number->string >= '0' && *number->string <= '9';
    if (place->operation->operand_count != 1 || !is_number) {
        return import_error(place, HLO_INVALID_ARGUMENT, "a sharding group without a member or a number");
    }
    HLO_TRY(import_group_member(place, strtoll(number->string, NULL, 10), &operands[0]));
    place->operation->operands[0]->lowered = operands[0];
    return HLO_SUCCESS;
}

// The typed options of a call, as HLO text has them: MLIR's own text, {left = true, uplo = 76 : ui8}.
static HloStatus custom_call_options(const ImportPlace *place, const MlirAttribute *options, const char **text) {
    if (!mlir_can_write(options))
        return import_error(place, HLO_UNIMPLEMENTED, "an option of a custom call is of an unknown dialect");
    *text = mlir_attribute_text(import_arena(place), options);
    return HLO_SUCCESS;
}

// A value that must be in a particular memory is a copy there.
static HloStatus import_device_placement(ImportPlace *place) {
    HloInstruction **operands = NULL, *result = NULL;
    const HloShape *shape = NULL;
    const MlirAttribute *list = mlir_attribute(place->operation, "mhlo.frontend_attributes");
    const MlirAttribute *kind = list ? mlir_entry(list, MLIR_BUFFER_PLACEMENT) : NULL;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    if (place->operation->operand_count != 1 || !kind || !kind->string)
        return import_error(place, HLO_INVALID_ARGUMENT, "one operand and a memory kind are needed");
    HLO_TRY(import_placement(place, kind->string, &shape));
    HLO_TRY(import_emit(place, HLO_OP_COPY, shape, operands, 1, NULL, NULL, 0, &result));
    return import_set_results(place, result);
}

// mhlo.topk as a call keeps the op's attributes in a dictionary, the only record of whether the largest or the smallest
// elements are selected.
static HloStatus import_top_k_call(ImportPlace *place, const MlirAttribute *fields) {
    const MlirAttribute *k = mlir_entry(fields, "k"), *largest = mlir_entry(fields, "largest");
    const bool fits = k && k->kind == MLIR_INTEGER && (!largest || largest->kind == MLIR_BOOL);
    if (!fits) return import_error(place, HLO_INVALID_ARGUMENT, "@mhlo.topk needs the attributes k and largest");
    const HloTopKAttributes attributes = {.k = k->integer, .largest = !largest || largest->integer};
    return import_plain(place, HLO_OP_TOPK, &attributes);
}

// The order: targets that represent operations, those that need their computations, then calls that stay calls. The
// options are a string (older API versions) or a dictionary (typed FFI), which JAX also writes as mhlo.backend_config.
static HloStatus import_sized_custom_call(ImportPlace *place) {
    const char *target = import_string(place, "call_target_name");
    const MlirAttribute *fields = mlir_attribute(place->operation, "mhlo.attributes");
    if (target && fields && strcmp(target, "mhlo.topk") == 0) return import_top_k_call(place, fields);
    if (target && strcmp(target, "annotate_device_placement") == 0) return import_device_placement(place);
    const ImportRow *row = find_row(import_dynamic_calls, target);
    if (!row) row = find_row(import_collective_calls, target);
    if (row && row->operands && row->operands != place->operation->operand_count)
        return import_error(place, HLO_INVALID_ARGUMENT, "@%s takes %d operands", target, row->operands);
    if (row) return row->handler(place);
    HloCustomCallAttributes attributes = {0};
    HloInstruction **operands = NULL, *result = NULL;
    HloComputation **called;
    const HloShape *shape = NULL;
    int64_t called_count;
    HLO_TRY(custom_call_attributes(place, &attributes));
    HLO_TRY(custom_call_aliases(place, &attributes.aliasing));
    HLO_TRY(custom_call_called(place, &called, &called_count));
    HLO_TRY(import_operands(place, &operands));
    if (strcmp(attributes.target, "ApproxTopK") == 0) return import_approx_top_k(place, operands, called, called_count);
    if (attributes.target && !strcmp(attributes.target, "xla.sdy.ShardingGroup")) {
        return import_group_call(place, operands);
    }
    HLO_TRY(import_result_shape(place, &shape));
    if (strcmp(attributes.target, "LayoutConstraint") == 0) HLO_TRY(import_result_layout(place, &shape));
    HLO_TRY(import_emit(place, HLO_OP_CUSTOM_CALL, shape, operands, place->operation->operand_count, &attributes,
                        called, called_count, &result));
    const char *kernel = import_string(place, "kernel_name");  // of Pallas
    if (kernel)
        hlo_instruction_set_frontend_attribute(result, "kernel_name", hlo_arena_text(import_arena(place), kernel));
    const char *config = import_string(place, "backend_config");
    const MlirAttribute *raw = mlir_attribute(place->operation, "backend_config");
    if (hlo_custom_call_takes_bytes(attributes.target) && config && *config && raw) {
        result->backend_config = hlo_hexadecimal(import_arena(place), config, (size_t)raw->string_length);
    } else if (config && *config) {
        result->backend_config = hlo_arena_text(import_arena(place), config);
    }
    const MlirAttribute *options = mlir_attribute(place->operation, "mhlo.backend_config");
    if (!options) options = mlir_attribute(place->operation, "backend_config");
    if (options && options->kind == MLIR_DICTIONARY) {
        HLO_TRY(custom_call_options(place, options, &result->backend_config));
        result->backend_config_is_json = true;
    }
    return import_set_results(place, result);
}

// Some of the operands may list the sizes of the results. They are taken out first.
static HloStatus import_custom_call(ImportPlace *place) {
    MlirOperation *operation = place->operation;
    if (!mlir_attribute(operation, MLIR_SHAPE_OPERANDS)) return import_sized_custom_call(place);
    MlirOperation sized = {0};
    HLO_TRY(import_size_results(place, &sized));
    ImportPlace at = {place->importer, place->computation, &sized};
    HLO_TRY(import_sized_custom_call(&at));
    for (int64_t i = 0; i < sized.result_count; i++) operation->results[i]->lowered = sized.results[i]->lowered;
    return HLO_SUCCESS;
}

const ImportRow *import_control_rows(int64_t *count) {
    static const ImportRow rows[] = {
        {"stablehlo.while", import_while, 0},
        {"stablehlo.case", import_case, 0},
        {"stablehlo.if", import_case, 0},
        {"stablehlo.optimization_barrier", import_optimization_barrier, 0},
        {"stablehlo.after_all", import_after_all, 0},
        {"stablehlo.create_token", import_after_all, 0},
        {"func.call", import_call, 0},
        {"stablehlo.custom_call", import_custom_call, 0},
    };
    *count = (int64_t)HLO_COUNT_OF(rows);
    return rows;
}
