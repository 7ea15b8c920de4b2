// SPDX-License-Identifier: Apache-2.0
// Makes HLO instructions for MLIR operations: shapes of values, the only function that appends an instruction, and the
// parts that any operation may have (its sharding, frontend attributes, results).
//
// import_emit() compares the program's result type with the inferred shape. They may differ in two ways: sizes that the
// program leaves open and inference knows (tensor<?xf32> beside f32[8]), where the inferred shape is used; and the
// width of floats, where StableHLO lets a reduction accumulate in a wider type, or the program was HLO before, which
// allows it everywhere (MLIR_MIXED_PRECISION). Any other program contradicts itself.
#include <assert.h>
#include <string.h>

#include "hlo/ir/infer/support.h"
#include "hlo/stablehlo/import/import.h"

HloStatus import_shape(const ImportPlace *place, const MlirType *type, const HloShape **shape) {
    // Sizes are computed with plain numbers, index and i32, as well as tensors of them.
    if (type && (type->kind == MLIR_TYPE_INDEX || type->kind == MLIR_TYPE_ELEMENT)) {
        *shape = hlo_shape_scalar(import_arena(place), type->kind == MLIR_TYPE_INDEX ? HLO_S64 : type->element);
        return HLO_SUCCESS;
    }
    if (!type || type->kind != MLIR_TYPE_SHAPE) {
        return import_error(place, HLO_UNIMPLEMENTED, "a value's type has no shape in HLO: %s",
                            type && type->name ? type->name : "unknown");
    }
    // Instructions of one type share their shape, which never changes.
    *shape = type->lowered;
    if (*shape) return HLO_SUCCESS;
    HloArena *arena = import_arena(place);
    *shape = hlo_shape_with_default_layout(arena, hlo_shape_copy(arena, type->shape));
    ((MlirType *)(uintptr_t)type)->lowered = *shape;
    return HLO_SUCCESS;
}

// Operations without results have the empty tuple's shape.
HloStatus import_result_shape(const ImportPlace *place, const HloShape **shape) {
    const MlirOperation *operation = place->operation;
    if (operation->result_count == 1) return import_shape(place, operation->results[0]->type, shape);
    HloArena *arena = import_arena(place);
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, operation->result_count);
    for (int64_t i = 0; i < operation->result_count; i++) {
        HLO_TRY(import_shape(place, operation->results[i]->type, &elements[i]));
    }
    *shape = hlo_shape_tuple(arena, elements, operation->result_count);
    return HLO_SUCCESS;
}

// The shardings of an op with several results become those of its tuple's elements.
static HloStatus attach_tuple_sharding(Importer *importer, const MlirAttribute *attribute, HloInstruction *tuple) {
    bool flat = hlo_shape_is_tuple(tuple->shape) && tuple->shape->element_count == attribute->count &&
                hlo_shape_leaf_count(tuple->shape) == attribute->count;
    if (!flat) return HLO_SUCCESS;  // an instruction that is only a part of the operation; the results get theirs later
    HloArena *arena = importer->module->arena;
    const HloSharding **elements = HLO_ARENA_NEW(arena, const HloSharding *, attribute->count);
    for (int64_t i = 0; i < attribute->count; i++) {
        HLO_TRY(import_sharding(importer, attribute->items[i], tuple->shape->elements[i]->rank, &elements[i]));
        if (!elements[i]) elements[i] = hlo_sharding_simple(arena, HLO_SHARDING_UNKNOWN);
    }
    tuple->sharding = hlo_sharding_tuple(arena, elements, attribute->count);
    return import_sharding_text(importer, attribute->items, tuple);
}

// mhlo.sharding is one annotation; sdy.sharding is a list with one per result. An operation without results may have
// one, too.
static HloStatus attach_sharding(ImportPlace *place, const MlirAttribute *attribute, HloInstruction *instruction) {
    if (attribute->kind == MLIR_SDY && attribute->code == MLIR_SDY_PER_VALUE) {
        const int64_t results = place->operation->result_count;
        const bool fits = attribute->count == results || (results == 0 && attribute->count == 1) ||
                          attribute->count == hlo_shape_leaf_count(instruction->shape);
        if (!fits)
            return import_error(place, HLO_INVALID_ARGUMENT, "sdy.sharding has %lld shardings for %lld results",
                                (long long)attribute->count, (long long)results);
        if (attribute->count != 1) return attach_tuple_sharding(place->importer, attribute, instruction);
        attribute = attribute->items[0];
    }
    HLO_TRY(import_sharding(place->importer, attribute, instruction->shape->rank, &instruction->sharding));
    if (hlo_shape_is_tuple(instruction->shape)) return HLO_SUCCESS;
    return import_sharding_text(place->importer, &attribute, instruction);
}

// Reads the annotations that any operation may have: its sharding, its sharding rule and frontend attributes. The rule
// becomes the frontend attribute that Shardy uses for it in HLO.
static HloStatus attach_annotations(ImportPlace *place, HloInstruction *instruction) {
    const MlirOperation *operation = place->operation;
    const MlirAttribute *sdy = NULL, *sharding = NULL;
    for (int64_t i = 0; i < operation->attribute_count; i++) {
        const char *name = operation->attribute_names[i];
        // Nearly all attributes are the operation's own, whose names have no dialect.
        if (name[0] != 'm' && name[0] != 's') continue;
        if (strcmp(name, "mhlo.sharding") == 0) sharding = operation->attributes[i];
        if (strcmp(name, "sdy.sharding") == 0) sdy = operation->attributes[i];
        if (strcmp(name, "mhlo.frontend_attributes") == 0) {
            import_frontend_attributes(operation->attributes[i], instruction);
        }
    }
    const MlirAttribute *rule = mlir_attribute(operation, "sdy.sharding_rule");
    if (rule && rule->string)
        hlo_instruction_set_frontend_attribute(instruction, HLO_SDY_SHARDING_RULE,
                                               hlo_arena_text(place->importer->module->arena, rule->string));
    if (sdy) sharding = sdy;
    return sharding ? attach_sharding(place, sharding, instruction) : HLO_SUCCESS;
}

bool import_refines(const HloShape *inferred, const HloShape *declared) {
    if (inferred->type != declared->type || inferred->rank != declared->rank ||
        inferred->element_count != declared->element_count) {
        return false;
    }
    for (int32_t i = 0; i < declared->rank; i++) {
        if (declared->dims[i] != inferred->dims[i] && declared->dims[i] != HLO_UNBOUNDED) return false;
    }
    for (int32_t i = 0; i < declared->element_count; i++) {
        if (!import_refines(inferred->elements[i], declared->elements[i])) return false;
    }
    return true;
}

HloStatus import_check_type(const ImportPlace *place, const HloInstruction *value, const MlirType *type) {
    const HloShape *shape = NULL;
    HLO_TRY(import_shape(place, type, &shape));
    if (import_refines(value->shape, shape) || import_refines(shape, value->shape)) return HLO_SUCCESS;
    return import_error(place, HLO_INVALID_ARGUMENT, "it changes the type of a value without converting it");
}

// True if the text may have a float precision other than the one that follows from the operands: where StableHLO lets a
// computation accumulate in a wider type, and where we exported an HLO instruction, since HLO allows it everywhere.
static bool may_mix(const ImportPlace *place, HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_REDUCE:
        case HLO_OP_REDUCE_SCATTER:
        case HLO_OP_REDUCE_WINDOW:
        case HLO_OP_SCATTER:
        case HLO_OP_SELECT_AND_SCATTER: return true;
        default: return mlir_attribute(place->operation, MLIR_MIXED_PRECISION) != NULL;
    }
}

static HloStatus shapes_disagree(const ImportPlace *place, const HloShape *inferred, const HloShape *declared) {
    HloText text = {0};
    hlo_shape_print(&text, inferred, false);
    hlo_text_string(&text, " follows from the operands, but the text says ");
    hlo_shape_print(&text, declared, false);
    HloStatus status = import_error(place, HLO_INVALID_ARGUMENT, "%s", text.data ? text.data : "shapes disagree");
    hlo_text_free(&text);
    return status;
}

HloStatus import_check_result(const ImportPlace *place, const HloShape *inferred, const HloShape *declared) {
    return import_refines(inferred, declared) ? HLO_SUCCESS : shapes_disagree(place, inferred, declared);
}

// Operand shapes and inference's scratch data are dropped again (mark, reset): only the instruction stays, in the
// module's arena. A shape with open sizes is replaced by the inferred one. The order matters: nothing may point into
// the scratch data when it is reset.
HloStatus import_emit(ImportPlace *place, HloOpcode opcode, const HloShape *shape, HloInstruction *const *operands,
                      int64_t operand_count, const void *attributes, HloComputation *const *called,
                      int64_t called_count, HloInstruction **result) {
    assert(operand_count >= 0);
    HloModule *module = place->importer->module;
    HloArenaMark mark = hlo_arena_mark(place->importer->arena);
    const HloShape **operand_shapes = HLO_ARENA_NEW(place->importer->arena, const HloShape *, operand_count);
    for (int64_t i = 0; i < operand_count; i++) operand_shapes[i] = operands[i]->shape;
    // A module that does not give a number of partitions may be compiled for many: 0 takes sizes from the text.
    HloInferRequest request = {.arena = place->importer->arena,
                               .opcode = opcode,
                               .operands = operand_shapes,
                               .operand_count = operand_count,
                               .attributes = attributes,
                               .called = called,
                               .called_count = called_count,
                               .hint = shape,
                               .replica_count = module->replica_count,
                               .num_partitions = module->num_partitions > 1 ? module->num_partitions : 0};
    const HloShape *inferred = NULL;
    HloStatus status = hlo_infer_shape(&request, &inferred);
    if (status) return hlo_status_annotate(status, "%s", place->operation->name);
    if (shape && !hlo_shape_equal(shape, inferred, HLO_COMPARE_IGNORE_LAYOUT)) {
        if (import_refines(inferred, shape))
            shape = NULL;
        else if (hlo_shapes_mix(inferred, shape) && may_mix(place, opcode))
            inferred = shape;
    } else if (shape) {
        inferred = shape;
    }
    if (shape && shape != inferred) return shapes_disagree(place, inferred, shape);
    if (!shape) shape = hlo_shape_with_default_layout(module->arena, hlo_shape_copy(module->arena, inferred));
    hlo_arena_reset(place->importer->arena, mark);
    *result = hlo_instruction_new(place->computation, opcode, shape, operands, operand_count, attributes, NULL);
    if (called_count) hlo_instruction_set_called(*result, called, called_count);
    (*result)->metadata = import_metadata(place, place->operation->location);
    return attach_annotations(place, *result);
}

// Fills `operands`, which has room for all of the operation's operands.
static HloStatus find_operands(const ImportPlace *place, HloInstruction **operands) {
    const MlirOperation *operation = place->operation;
    for (int64_t i = 0; i < operation->operand_count; i++) {
        operands[i] = operation->operands[i]->lowered;
        if (!operands[i] || operands[i]->parent != place->computation) {
            return import_error(place, HLO_INVALID_ARGUMENT, "operand %lld is not defined here", (long long)i);
        }
    }
    return HLO_SUCCESS;
}

HloStatus import_operands(const ImportPlace *place, HloInstruction ***operands) {
    *operands = HLO_ARENA_NEW(place->importer->arena, HloInstruction *, place->operation->operand_count);
    return find_operands(place, *operands);
}

// Unused elements are not extracted from the tuple.
HloStatus import_set_results(ImportPlace *place, HloInstruction *instruction) {
    assert(instruction);
    MlirOperation *operation = place->operation;
    if (operation->result_count == 1) {
        operation->results[0]->lowered = instruction;
        return HLO_SUCCESS;
    }
    const HloShape *shape = instruction->shape;
    const int64_t given = hlo_shape_is_tuple(shape) ? shape->element_count : 1;
    if (operation->result_count > given)
        return import_error(place, HLO_INVALID_ARGUMENT, "it has %lld results, not %lld", (long long)given,
                            (long long)operation->result_count);
    for (int64_t i = 0; i < operation->result_count; i++) {
        if (!operation->results[i]->is_used) continue;
        HloTupleIndexAttributes attributes = {.index = i};
        operation->results[i]->lowered = hlo_instruction_new(place->computation, HLO_OP_GET_TUPLE_ELEMENT,
                                                             shape->elements[i], &instruction, 1, &attributes, NULL);
    }
    return HLO_SUCCESS;
}

// Operands of nearly all operations fit on the stack.
HloStatus import_plain(ImportPlace *place, HloOpcode opcode, const void *attributes) {
    HloInstruction *few[8], **operands = few, *result = NULL;
    const HloShape *shape = NULL;
    const int64_t count = place->operation->operand_count;
    if (count > (int64_t)HLO_COUNT_OF(few)) operands = HLO_ARENA_NEW(place->importer->arena, HloInstruction *, count);
    HLO_TRY(find_operands(place, operands));
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(import_emit(place, opcode, shape, operands, count, attributes, NULL, 0, &result));
    return import_set_results(place, result);
}
