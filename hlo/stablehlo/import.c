// SPDX-License-Identifier: Apache-2.0
// The importer's frame: the module, functions, blocks, and what all handlers use.
// mlir_import() goes through a module once: it notes functions and meshes, converts @main and, from its calls, whatever
// functions that reaches, depth first. A value's instruction is kept in the value itself (MlirValue.lowered), so that
// finding operands takes no map; a region binds the values that it captures anew and puts them back.
//
// How an operation is converted is decided once for each name (plan_of()): by a handler in one of the families' rows,
// by the table of fields, or as an elementwise opcode of the same name. Every instruction goes through import_emit(),
// which infers its shape and compares it with what the program says: a program that contradicts itself is refused where
// it does.
//
// What StableHLO means is its spec (docs/spec.md); how it maps to HLO is XLA's mlir_hlo_to_hlo.cc, whose frontend
// attributes and custom-call targets are used here too.
#include "hlo/stablehlo/fields.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "hlo/ir/infer_support.h"
#include "hlo/stablehlo/asm.h"
#include "hlo/stablehlo/bytecode.h"
#include "hlo/stablehlo/bytecode_format.h"
#include "hlo/stablehlo/stablehlo.h"

// Calls are converted by recursion; a chain of functions that long is no program that anybody wrote.
enum { DEEPEST_CALL = 200 };

// How many computations may be made of functions that are converted for each list of shapes.
enum { MOST_REFINED = 10000 };

// `computation` stays NULL for refined functions, which have one for each list of shapes (Importer.refined).
typedef struct ImportedFunction {
    const MlirOperation *operation;
    HloComputation *computation;
    bool is_busy;
    bool is_refined;  // some of its types have sizes without bounds: what it computes depends on its caller
} ImportedFunction;

// ---------------------------------------------------------------------------------------------------------------------
// Places

// What a location says: the first file and line, and the outermost name.
typedef struct SourcePlace {
    const char *file, *name;
    int64_t line;
    int depth, visits;
} SourcePlace;

// Locations share their parts, so that twenty lines may name a tree of 4^20: the search ends when all is found, or when
// it has taken longer than any location that a program was ever made with.
static void search_place(const MlirAttribute *location, SourcePlace *place) {
    enum { DEEPEST_LOCATION = 20, MOST_VISITS = 2000 };
    if (!location || location->kind != MLIR_LOCATION || (place->file && place->name)) return;
    if (place->depth > DEEPEST_LOCATION || place->visits++ > MOST_VISITS) return;
    const bool is_file = location->count == 0 && location->string && location->integer > 0;
    if (is_file && !place->file) {
        place->file = location->string;
        place->line = location->integer;
    } else if (!is_file && location->string && !place->name) {
        place->name = location->string;
    }
    place->depth++;
    for (int64_t i = 0; i < location->count; i++) search_place(location->items[i], place);
    place->depth--;
}

static SourcePlace find_place(const MlirAttribute *location) {
    SourcePlace place = {0};
    search_place(location, &place);
    return place;
}

HloStatus import_error(const ImportPlace *place, HloCode code, const char *format, ...) {
    assert(format);
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    const SourcePlace source = find_place(place->operation->location);
    if (!source.file) return hlo_error(code, "%s: %s", place->operation->name, message);
    return hlo_error(code, "%s at %s:%lld: %s", place->operation->name, source.file, (long long)source.line, message);
}

const HloMetadata *import_metadata(const ImportPlace *place, const MlirAttribute *location) {
    if (!location) return NULL;
    if (location->lowered) return location->lowered;
    const SourcePlace source = find_place(location);
    if (!source.file && !source.name) return NULL;
    HloArena *arena = import_arena(place);
    HloMetadata *metadata = HLO_ARENA_NEW(arena, HloMetadata, 1);
    if (source.name) metadata->op_name = hlo_arena_text(arena, source.name);
    if (source.file) metadata->source_file = hlo_arena_text(arena, source.file);
    metadata->source_line = source.line;
    ((MlirAttribute *)(uintptr_t)location)->lowered = metadata;
    return metadata;
}

// ---------------------------------------------------------------------------------------------------------------------
// Attributes

HloStatus import_required(const ImportPlace *place, const char *name) {
    if (mlir_attribute(place->operation, name)) return HLO_SUCCESS;
    return import_error(place, HLO_INVALID_ARGUMENT, "it has no attribute %s", name);
}

HloStatus import_int(const ImportPlace *place, const char *name, int64_t fallback, int64_t *value) {
    assert(name && value);
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    *value = fallback;
    if (!attribute) return HLO_SUCCESS;
    if (attribute->kind != MLIR_INTEGER && attribute->kind != MLIR_BOOL && attribute->kind != MLIR_ENUM) {
        return import_error(place, HLO_INVALID_ARGUMENT, "attribute %s is no integer", name);
    }
    *value = attribute->integer;
    return HLO_SUCCESS;
}

HloStatus import_bool(const ImportPlace *place, const char *name, bool fallback, bool *value) {
    int64_t number;
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    if (attribute && attribute->kind == MLIR_UNIT) {
        *value = true;
        return HLO_SUCCESS;
    }
    HLO_TRY(import_int(place, name, fallback, &number));
    *value = number != 0;
    return HLO_SUCCESS;
}

// Both forms occur: array<i64: ...> in newer programs, dense<...> : tensor<nxi64> in older ones and in bytecode.
HloStatus import_ints(const ImportPlace *place, const char *name, HloInts *ints) {
    assert(name && ints);
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    HloArena *arena = import_arena(place);
    *ints = (HloInts){0};
    if (!attribute) return HLO_SUCCESS;
    if (attribute->kind == MLIR_INTS) {
        *ints = hlo_ints_copy(arena, attribute->ints);
        return HLO_SUCCESS;
    }
    if (attribute->kind == MLIR_ARRAY && attribute->count == 0) return HLO_SUCCESS;
    if (attribute->kind != MLIR_TENSOR) {
        return import_error(place, HLO_INVALID_ARGUMENT, "attribute %s is no list of integers", name);
    }
    const HloLiteral *literal = mlir_tensor_literal(arena, attribute);
    int64_t count = hlo_shape_elements(literal->shape);
    int64_t *items = HLO_ARENA_NEW(arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) items[i] = hlo_literal_get_int64(literal, i);
    *ints = (HloInts){items, count};
    return HLO_SUCCESS;
}

// Enumerations of dialects that bytecode cannot hold, such as chlo's in the attributes of a composite, come as their
// words: "HIGHEST".
static HloStatus enum_word(const ImportPlace *place, const char *word, const HloEnumTable *table, int32_t *value) {
    *value = hlo_enum_from_any_case(table, word, strlen(word));
    if (*value < 0) return import_error(place, HLO_INVALID_ARGUMENT, "unknown %s '%s'", table->name, word);
    return HLO_SUCCESS;
}

static HloStatus enum_value(const ImportPlace *place, const MlirAttribute *attribute, const HloEnumTable *table,
                            int32_t *value) {
    int64_t number = attribute->integer;
    if (attribute->kind == MLIR_STRING) return enum_word(place, attribute->string, table, value);
    if (attribute->kind != MLIR_ENUM && attribute->kind != MLIR_INTEGER)
        return import_error(place, HLO_INVALID_ARGUMENT, "an attribute is no %s", table->name);
    bool known = number >= 0 && number < table->count && table->texts[number];
    if (!known) return import_error(place, HLO_INVALID_ARGUMENT, "unknown %s", table->name);
    *value = (int32_t)number;
    return HLO_SUCCESS;
}

HloStatus import_enum(const ImportPlace *place, const char *name, const HloEnumTable *table, int32_t fallback,
                      int32_t *value) {
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    *value = fallback;
    if (!attribute) return HLO_SUCCESS;
    return enum_value(place, attribute, table, value);
}

// All DEFAULT means the same as no precisions, which is how HLO writes it.
HloStatus import_precisions(const ImportPlace *place, HloPrecisions *precisions) {
    const MlirAttribute *attribute = mlir_attribute(place->operation, "precision_config");
    *precisions = (HloPrecisions){0};
    if (!attribute || attribute->kind != MLIR_ARRAY) return HLO_SUCCESS;
    if (attribute->count > 2)
        return import_error(place, HLO_INVALID_ARGUMENT, "precision_config has %lld entries for two operands",
                            (long long)attribute->count);
    int32_t *items = HLO_ARENA_NEW(import_arena(place), int32_t, attribute->count);
    bool all_default = true;
    for (int64_t i = 0; i < attribute->count; i++) {
        HLO_TRY(enum_value(place, attribute->items[i], &hlo_enum_Precision, &items[i]));
        all_default &= items[i] == HLO_Precision_DEFAULT;
    }
    if (!all_default) *precisions = (HloPrecisions){items, attribute->count};
    return HLO_SUCCESS;
}

const char *import_string(const ImportPlace *place, const char *name) {
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    return attribute ? attribute->string : NULL;
}

// Joins a dictionary's entries to what the instruction already has. All at once: setting one after the other would copy
// the list for each. Values that are no strings count as empty ones: XLA only writes strings.
static void set_frontend_attributes(const MlirAttribute *dictionary, HloInstruction *instruction) {
    if (!dictionary || dictionary->kind != MLIR_DICTIONARY) return;
    HloArena *arena = instruction->parent->module->arena;
    const HloKeyValues old = instruction->frontend_attributes;
    HloKeyValue *items = HLO_ARENA_NEW(arena, HloKeyValue, old.count + dictionary->count);
    for (int64_t i = 0; i < old.count; i++) items[i] = old.items[i];
    for (int64_t i = 0; i < dictionary->count; i++) {
        const char *value = dictionary->items[i] ? dictionary->items[i]->string : NULL;
        items[old.count + i] =
            (HloKeyValue){hlo_arena_text(arena, dictionary->keys[i]), hlo_arena_text(arena, value ? value : "")};
    }
    instruction->frontend_attributes = hlo_key_values_sorted(arena, items, old.count + dictionary->count);
}

void import_frontend_attributes(const ImportPlace *place, HloInstruction *instruction) {
    set_frontend_attributes(mlir_attribute(place->operation, "mhlo.frontend_attributes"), instruction);
}

// ---------------------------------------------------------------------------------------------------------------------
// Instructions

HloStatus import_shape(const ImportPlace *place, const MlirType *type, const HloShape **shape) {
    // Sizes are computed with bare numbers, index and i32, beside tensors of them.
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
    if (!flat) return HLO_SUCCESS;  // propagation finds them again
    HloArena *arena = importer->module->arena;
    const HloSharding **elements = HLO_ARENA_NEW(arena, const HloSharding *, attribute->count);
    for (int64_t i = 0; i < attribute->count; i++) {
        HLO_TRY(import_sharding(importer, attribute->items[i], tuple->shape->elements[i]->rank, &elements[i]));
        if (!elements[i]) elements[i] = hlo_sharding_simple(arena, HLO_SHARDING_UNKNOWN);
    }
    tuple->sharding = hlo_sharding_tuple(arena, elements, attribute->count);
    import_sharding_text(importer, attribute->items, tuple);
    return HLO_SUCCESS;
}

// mhlo.sharding is one annotation; sdy.sharding is a list of one a result.
static HloStatus attach_sharding(ImportPlace *place, const MlirAttribute *attribute, HloInstruction *instruction) {
    if (attribute->kind == MLIR_SDY && attribute->code == MLIR_SDY_PER_VALUE) {
        if (attribute->count != 1) return attach_tuple_sharding(place->importer, attribute, instruction);
        attribute = attribute->items[0];
    }
    HLO_TRY(import_sharding(place->importer, attribute, instruction->shape->rank, &instruction->sharding));
    if (!hlo_shape_is_tuple(instruction->shape)) import_sharding_text(place->importer, &attribute, instruction);
    return HLO_SUCCESS;
}

// What may stand on any operation: its sharding and frontend attributes.
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
            set_frontend_attributes(operation->attributes[i], instruction);
        }
    }
    if (!sharding) sharding = sdy;
    return sharding ? attach_sharding(place, sharding, instruction) : HLO_SUCCESS;
}

// True if `inferred` is `declared` but for sizes that the program leaves open and inference knows.
static bool refines(const HloShape *inferred, const HloShape *declared) {
    if (inferred->type != declared->type || inferred->rank != declared->rank ||
        inferred->element_count != declared->element_count) {
        return false;
    }
    for (int32_t i = 0; i < declared->rank; i++) {
        if (declared->dims[i] != inferred->dims[i] && declared->dims[i] != HLO_UNBOUNDED) return false;
    }
    for (int32_t i = 0; i < declared->element_count; i++) {
        if (!refines(inferred->elements[i], declared->elements[i])) return false;
    }
    return true;
}

HloStatus import_check_type(const ImportPlace *place, const HloInstruction *value, const MlirType *type) {
    const HloShape *shape = NULL;
    HLO_TRY(import_shape(place, type, &shape));
    if (refines(value->shape, shape) || refines(shape, value->shape)) return HLO_SUCCESS;
    return import_error(place, HLO_INVALID_ARGUMENT, "it makes a value of one type another one without converting it");
}

// True if the text may say another precision of floats than follows from the operands: where StableHLO lets a
// computation accumulate in a wider type, and where we wrote down an instruction of HLO, which lets it everywhere.
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

// Operand shapes and inference's scratch are dropped again (mark, reset): only the instruction stays, in the module's
// arena. A shape with open sizes is replaced by the inferred one. The order matters: nothing may point into the scratch
// when it is reset.
HloStatus import_emit(ImportPlace *place, HloOpcode opcode, const HloShape *shape, HloInstruction *const *operands,
                      int64_t operand_count, const void *attributes, HloComputation *const *called,
                      int64_t called_count, HloInstruction **result) {
    assert(operand_count >= 0);
    HloModule *module = place->importer->module;
    HloArenaMark mark = hlo_arena_mark(place->importer->arena);
    const HloShape **operand_shapes = HLO_ARENA_NEW(place->importer->arena, const HloShape *, operand_count);
    for (int64_t i = 0; i < operand_count; i++) operand_shapes[i] = operands[i]->shape;
    // A module that says nothing of partitions may be compiled for many: 0 leaves sizes to what the text says.
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
        if (refines(inferred, shape))
            shape = NULL;
        else if (hlo_shapes_mix(inferred, shape) && may_mix(place, opcode))
            inferred = shape;
    } else if (shape) {
        inferred = shape;
    }
    if (shape && shape != inferred) {
        HloText text = {0};
        hlo_shape_print(&text, inferred, false);
        hlo_text_string(&text, " follows from the operands, but the text says ");
        hlo_shape_print(&text, shape, false);
        status = import_error(place, HLO_INVALID_ARGUMENT, "%s", text.data ? text.data : "shapes disagree");
        hlo_text_free(&text);
        return status;
    }
    if (!shape) shape = hlo_shape_with_default_layout(module->arena, hlo_shape_copy(module->arena, inferred));
    hlo_arena_reset(place->importer->arena, mark);
    *result = hlo_instruction_new(place->computation, opcode, shape, operands, operand_count, attributes, NULL);
    if (called_count) hlo_instruction_set_called(*result, called, called_count);
    (*result)->metadata = import_metadata(place, place->operation->location);
    return attach_annotations(place, *result);
}

// Fills `operands`, which has room for all of the operation's.
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

// Elements that nobody uses are not taken out of the tuple.
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

// ---------------------------------------------------------------------------------------------------------------------
// Operations

// How operations of one name are converted.
typedef struct ImportPlan {
    const ImportRow *row;  // or NULL
    HloOpcode opcode;      // of an operation without a row; HLO_OPCODE_COUNT for a name that is unknown
    bool has_fields;       // it is in fields.def; otherwise it is elementwise
    bool is_return;
    bool repeats;  // what it becomes depends on its attributes and types alone
} ImportPlan;

// The elementwise opcode of the same name in HLO, with dashes.
static HloOpcode opcode_by_name(const char *name) {
    char text[64];
    const char *dot = strchr(name, '.');
    size_t length = dot ? strlen(dot + 1) : 0;
    if (!dot || length >= sizeof(text) || strncmp(name, "stablehlo.", 10) != 0) return HLO_OPCODE_COUNT;
    for (size_t i = 0; i <= length; i++) text[i] = dot[1 + i] == '_' ? '-' : dot[1 + i];
    HloOpcode opcode = hlo_op_from_text(text, length);
    bool known = opcode != HLO_OPCODE_COUNT && hlo_op_is(opcode, HLO_OP_IS_ELEMENTWISE);
    return known ? opcode : HLO_OPCODE_COUNT;
}

static bool is_return(const char *name) {
    static const char *const names[] = {"stablehlo.return", "func.return", "sdy.return"};
    for (size_t i = 0; i < HLO_COUNT_OF(names); i++) {
        if (strcmp(name, names[i]) == 0) return true;
    }
    return false;
}

// The plan for a name. Both doors give operations of one name the same string.
static const ImportPlan *plan_of(Importer *importer, const char *name) {
    const int64_t *found = hlo_int_map_find(&importer->plans, (uintptr_t)name);
    if (found) return (const ImportPlan *)(uintptr_t)*found;
    ImportPlan *plan = HLO_ARENA_NEW(importer->arena, ImportPlan, 1);
    plan->row = hlo_string_map_get(&importer->rows, name, strlen(name));
    plan->opcode = plan->row ? HLO_OPCODE_COUNT : import_fields_opcode(name);
    plan->has_fields = plan->opcode != HLO_OPCODE_COUNT;
    if (!plan->row && !plan->has_fields) plan->opcode = opcode_by_name(name);
    plan->is_return = is_return(name);
    plan->repeats = plan->row ? import_may_repeat(name) : plan->opcode != HLO_OPCODE_COUNT;
    hlo_int_map_set(importer->arena, &importer->plans, (uintptr_t)name, (int64_t)(uintptr_t)plan);
    return plan;
}

// result_accuracy is kept only where it asks for something.
static HloStatus import_elementwise(ImportPlace *place, HloOpcode opcode) {
    if (hlo_op_info(opcode)->family != HLO_FAMILY_Accuracy) return import_plain(place, opcode, NULL);
    const MlirAttribute *attribute = mlir_attribute(place->operation, "result_accuracy");
    HloAccuracyAttributes attributes = {0};
    bool is_default = !attribute || !attribute->accuracy ||
                      (attribute->accuracy->mode == HLO_AccuracyMode_DEFAULT && !attribute->accuracy->has_tolerance);
    if (!is_default) {
        attributes.accuracy = hlo_arena_copy(import_arena(place), attribute->accuracy, sizeof(*attribute->accuracy));
    }
    return import_plain(place, opcode, &attributes);
}

// All families in one map. A name stands in one family only.
static void note_rows(Importer *importer) {
    static const ImportRow *(*const families[])(int64_t *) = {
        import_data_rows, import_compute_rows, import_control_rows, import_collective_rows,     import_sdy_rows,
        import_chlo_rows, import_dynamic_rows, import_legacy_rows,  import_chlo_structured_rows};
    for (size_t f = 0; f < HLO_COUNT_OF(families); f++) {
        int64_t count;
        const ImportRow *rows = families[f](&count);
        for (int64_t i = 0; i < count; i++) {
            hlo_string_map_set(importer->arena, &importer->rows, rows[i].name, strlen(rows[i].name),
                               (void *)(uintptr_t)&rows[i]);
        }
    }
}

static HloStatus import_operation(ImportPlace *place, const ImportPlan *plan) {
    const ImportRow *row = plan->row;
    if (row && row->operands && place->operation->operand_count != row->operands) {
        return import_error(place, HLO_INVALID_ARGUMENT, "%d operands are needed, not %lld", row->operands,
                            (long long)place->operation->operand_count);
    }
    if (row) return row->handler(place);
    if (plan->has_fields) return import_with_fields(place, plan->opcode);
    if (plan->opcode != HLO_OPCODE_COUNT) return import_elementwise(place, plan->opcode);
    // A type that HLO has not says more than an operation that only takes such types.
    for (int64_t i = 0; i < place->operation->result_count; i++) {
        const HloShape *shape;
        HLO_TRY(import_shape(place, place->operation->results[i]->type, &shape));
    }
    return import_error(place, HLO_UNIMPLEMENTED, "this operation has no HLO form here");
}

// Gives an error the place of the operation in the text, unless there is no text, or it has a place further inside.
static HloStatus with_place(Importer *importer, const MlirOperation *operation, HloStatus status) {
    if (!status || !importer->text || !operation->offset || hlo_status_place(status)) return status;
    const AsmText *text = importer->text;
    assert(operation->offset <= text->end - text->begin); /* it was read from there */
    HloStatus placed = asm_error_at(text, importer->arena, text->begin + operation->offset - 1, hlo_status_code(status),
                                    hlo_status_message(status));
    hlo_status_free(status);
    return placed;
}

// Operations after the return, which MLIR's verifier would not let through, are an error: they would vanish.
HloStatus import_block(Importer *importer, HloComputation *computation, const MlirBlock *block,
                       const MlirOperation **terminator) {
    assert(computation && block);
    for (int64_t i = 0; i < block->operation_count; i++) {
        MlirOperation *operation = block->operations[i];
        const ImportPlan *plan = plan_of(importer, operation->name);
        if (plan->is_return) {
            *terminator = operation;
            if (i + 1 == block->operation_count) return HLO_SUCCESS;
            return with_place(importer, block->operations[i + 1],
                              hlo_error(HLO_INVALID_ARGUMENT, "%s stands behind the return of its block",
                                        block->operations[i + 1]->name));
        }
        ImportPlace place = {importer, computation, operation};
        if (plan->repeats && import_repeated(&place)) continue;
        const HloInstruction *before = computation->last;
        HLO_TRY(with_place(importer, operation, import_operation(&place, plan)));
        if (plan->repeats) import_note_repeat(&place, before);
    }
    return hlo_error(HLO_INVALID_ARGUMENT, "a block does not end with a return");
}

// ---------------------------------------------------------------------------------------------------------------------
// Functions

// The shape of an argument of the entry with the sizes that the caller gives it.
static HloStatus give_sizes(const ImportPlace *place, int64_t index, const HloShape **shape) {
    const Importer *importer = place->importer;
    const HloInts sizes = index < importer->size_count ? importer->sizes[index] : (HloInts){0};
    if (place->operation != importer->entry || !sizes.items) return HLO_SUCCESS;
    if (!hlo_shape_is_array(*shape) || (*shape)->rank != sizes.count) {
        return import_error(place, HLO_INVALID_ARGUMENT, "argument %lld does not have the %lld sizes that it is given",
                            (long long)index, (long long)sizes.count);
    }
    HLO_TRY(hlo_shape_check_dims((*shape)->type, sizes.items, sizes.count));
    const HloShape *given = hlo_shape_array(import_arena(place), (*shape)->type, sizes.items, sizes.count);
    for (int64_t d = 0; d < sizes.count; d++) {
        const int64_t declared = (*shape)->dims[d];
        if (declared == HLO_UNBOUNDED ? sizes.items[d] >= 0 : declared == sizes.items[d]) continue;
        return import_error(place, HLO_INVALID_ARGUMENT, "argument %lld cannot have the size %lld along dimension %lld",
                            (long long)index, (long long)sizes.items[d], (long long)d);
    }
    *shape = hlo_shape_with_default_layout(import_arena(place), given);
    return HLO_SUCCESS;
}

// `operands` give the shapes, and known values, of a function that is refined; else NULL.
static HloStatus import_parameters(Importer *importer, HloComputation *computation, const MlirOperation *function,
                                   const MlirBlock *block, HloInstruction *const *operands) {
    const MlirAttribute *attributes = mlir_attribute(function, "arg_attrs");
    ImportPlace place = {importer, computation, (MlirOperation *)(uintptr_t)function};
    if (function == importer->entry && importer->size_count > block->argument_count) {
        return import_error(&place, HLO_INVALID_ARGUMENT, "sizes are given for argument %lld, the program has %lld",
                            (long long)importer->size_count - 1, (long long)block->argument_count);
    }
    for (int64_t i = 0; i < block->argument_count; i++) {
        HloParameterAttributes number = {.number = i};
        const HloShape *shape = NULL;
        HLO_TRY(import_shape(&place, block->arguments[i]->type, &shape));
        if (operands && !refines(operands[i]->shape, shape)) {
            return import_error(&place, HLO_INVALID_ARGUMENT, "argument %lld has another shape where it is called",
                                (long long)i);
        }
        if (operands) shape = operands[i]->shape;
        HLO_TRY(give_sizes(&place, i, &shape));
        char name[32];
        snprintf(name, sizeof(name), "Arg_%lld", (long long)i);
        HloInstruction *parameter = hlo_instruction_new(computation, HLO_OP_PARAMETER, shape, NULL, 0, &number, name);
        block->arguments[i]->lowered = parameter;
        if (operands) import_note_same(importer, parameter, operands[i]);
        parameter->metadata = import_metadata(&place, block->arguments[i]->location);
        if (!attributes || attributes->kind != MLIR_ARRAY || i >= attributes->count) continue;
        const MlirAttribute *sharding = mlir_entry(attributes->items[i], "mhlo.sharding");
        if (!sharding) sharding = mlir_entry(attributes->items[i], "sdy.sharding");
        HLO_TRY(import_sharding(importer, sharding, shape->rank, &parameter->sharding));
        import_sharding_text(importer, &sharding, parameter);
        set_frontend_attributes(mlir_entry(attributes->items[i], "mhlo.frontend_attributes"), parameter);
    }
    return HLO_SUCCESS;
}

// The root of a function: its one result, or a tuple.
static HloStatus import_root(ImportPlace *place, const MlirOperation *terminator) {
    ImportPlace end = {place->importer, place->computation, (MlirOperation *)(uintptr_t)terminator};
    HloInstruction **values = NULL;
    HLO_TRY(import_operands(&end, &values));
    if (terminator->operand_count == 1) {
        hlo_computation_set_root(place->computation, values[0]);
        return HLO_SUCCESS;
    }
    HloInstruction *tuple;
    HLO_TRY(import_emit(&end, HLO_OP_TUPLE, NULL, values, terminator->operand_count, NULL, NULL, 0, &tuple));
    hlo_computation_set_root(place->computation, tuple);
    return HLO_SUCCESS;
}

// A function takes and returns what its type says.
static HloStatus check_signature(const MlirOperation *function, const MlirOperation *terminator, const char *name) {
    const MlirAttribute *attribute = mlir_attribute(function, "function_type");
    const MlirType *type = attribute ? attribute->type : NULL;
    const MlirBlock *block = &function->regions[0].blocks[0];
    HLO_FAIL_IF(!type || type->kind != MLIR_TYPE_FUNCTION, HLO_INVALID_ARGUMENT, "function %s has no type", name);
    bool same = type->input_count == block->argument_count && type->result_count == terminator->operand_count;
    for (int64_t i = 0; same && i < type->input_count; i++) {
        same = mlir_type_equal(type->inputs[i], block->arguments[i]->type);
    }
    for (int64_t i = 0; same && i < type->result_count; i++) {
        same = mlir_type_equal(type->results[i], terminator->operands[i]->type);
    }
    HLO_FAIL_IF(!same, HLO_INVALID_ARGUMENT, "function %s takes or returns other types than it declares", name);
    return HLO_SUCCESS;
}

// A symbol as a name that HLO text can have: letters, digits and _ . - only, the first a letter or _, and no type's.
static const char *name_of_symbol(HloArena *arena, const char *symbol) {
    const size_t length = strlen(symbol);
    char *name = hlo_arena_allocate(arena, length + 2);
    for (size_t i = 0; i < length; i++) {
        const char c = symbol[i];
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        const bool is_other = (c >= '0' && c <= '9') || c == '.' || c == '-';
        name[i] = is_letter || (is_other && i > 0) ? c : '_';
    }
    if (hlo_type_from_text(name, length) != HLO_INVALID && strcmp(name, "tuple") != 0) name[length] = '_';
    return name;
}

// `is_busy` finds recursion, which HLO has no form for; `depth` counts calls under way.
static HloStatus convert_body(Importer *importer, ImportedFunction *function, const char *name,
                              HloInstruction *const *operands, HloComputation **result) {
    const MlirOperation *operation = function->operation;
    HLO_FAIL_IF(operation->region_count != 1 || operation->regions[0].block_count != 1, HLO_INVALID_ARGUMENT,
                "function %s has no body of one block", name);
    HLO_FAIL_IF(function->is_busy || ++importer->depth > DEEPEST_CALL, HLO_INVALID_ARGUMENT,
                "function %s calls itself, or calls nest too deep", name);
    function->is_busy = true;
    const MlirBlock *block = &operation->regions[0].blocks[0];
    HloComputation *computation = hlo_computation_new(importer->module, name_of_symbol(importer->arena, name));
    HLO_TRY(import_parameters(importer, computation, operation, block, operands));
    const MlirOperation *terminator = NULL;
    HLO_TRY(import_block(importer, computation, block, &terminator));
    HLO_TRY(check_signature(operation, terminator, name));
    ImportPlace place = {importer, computation, (MlirOperation *)(uintptr_t)operation};
    HLO_TRY(import_root(&place, terminator));
    function->is_busy = false;
    importer->depth--;
    *result = computation;
    return HLO_SUCCESS;
}

static HloStatus convert_function(Importer *importer, ImportedFunction *function, const char *name,
                                  HloInstruction *const *operands, HloComputation **result) {
    return with_place(importer, function->operation, convert_body(importer, function, name, operands, result));
}

// What the meaning of a refined function depends on: the shapes of its operands, and the values of those known.
static const char *refinement_key(Importer *importer, const char *name, HloInstruction *const *operands, int64_t count,
                                  size_t *length) {
    // All that takes memory of the arena comes before the text, which nobody would free after a jump.
    HloInts *values = HLO_ARENA_NEW(importer->arena, HloInts, count);
    for (int64_t i = 0; i < count; i++) {
        if (!import_known(importer, operands[i], &values[i])) values[i] = (HloInts){0};
    }
    HloText key = {0};
    hlo_text_format(&key, "%s(", name);
    for (int64_t i = 0; i < count; i++) {
        hlo_shape_print(&key, operands[i]->shape, false);
        for (int64_t j = 0; j < values[i].count; j++) hlo_text_format(&key, " %lld", (long long)values[i].items[j]);
        hlo_text_string(&key, ";");
    }
    *length = key.length;
    return hlo_text_to_arena(importer->arena, &key);
}

static HloStatus refine_function(const ImportPlace *place, ImportedFunction *function, const char *name,
                                 HloInstruction *const *operands, int64_t count, HloComputation **computation) {
    Importer *importer = place->importer;
    const MlirRegion *body = function->operation->regions;
    if (function->operation->region_count != 1 || body->block_count != 1 || body->blocks[0].argument_count != count) {
        return import_error(place, HLO_INVALID_ARGUMENT, "@%s does not take %lld arguments", name, (long long)count);
    }
    size_t length;
    const char *key = refinement_key(importer, name, operands, count, &length);
    *computation = hlo_string_map_get(&importer->refined, key, length);
    if (*computation) return HLO_SUCCESS;
    // Calls that differ in every level would make a computation for every path through the program.
    if (importer->refined_count++ == MOST_REFINED)
        return import_error(place, HLO_RESOURCE_EXHAUSTED, "functions are called with too many different shapes");
    HLO_TRY(convert_function(importer, function, name, operands, computation));
    hlo_string_map_set(importer->arena, &importer->refined, key, length, *computation);
    return HLO_SUCCESS;
}

// The first call converts, later ones find the computation.
HloStatus import_function(const ImportPlace *place, const char *name, HloInstruction *const *operands,
                          int64_t operand_count, HloComputation **computation) {
    ImportedFunction *function = hlo_string_map_get(&place->importer->functions, name, strlen(name));
    if (!function) return import_error(place, HLO_INVALID_ARGUMENT, "there is no function @%s", name);
    if (operands && function->is_refined) {
        return refine_function(place, function, name, operands, operand_count, computation);
    }
    if (!function->computation) {
        HLO_TRY(convert_function(place->importer, function, name, NULL, &function->computation));
    }
    *computation = function->computation;
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// The module

// Functions by name, and meshes in their order; anything else at the top of a module has no meaning that we could keep.
static HloStatus collect_symbols(Importer *importer, const MlirBlock *block) {
    HLO_VECTOR(const MlirOperation *) meshes = {0};
    for (int64_t i = 0; i < block->operation_count; i++) {
        const MlirOperation *operation = block->operations[i];
        const MlirAttribute *name = mlir_attribute(operation, "sym_name");
        if (strcmp(operation->name, "sdy.mesh") == 0) {
            hlo_vector_push(importer->arena, &meshes, operation);
        } else if (strcmp(operation->name, "func.func") == 0) {
            if (!name || !name->string || !*name->string) {
                return with_place(importer, operation, hlo_error(HLO_INVALID_ARGUMENT, "a function has no name"));
            }
            ImportedFunction *function = HLO_ARENA_NEW(importer->arena, ImportedFunction, 1);
            function->operation = operation;
            function->is_refined = operation->region_count == 1 && operation->regions[0].is_open;
            hlo_string_map_set(importer->arena, &importer->functions, name->string, strlen(name->string), function);
        } else {
            return with_place(importer, operation,
                              hlo_error(HLO_UNIMPLEMENTED, "%s at the top of a module", operation->name));
        }
    }
    importer->meshes = meshes.items;
    importer->mesh_count = meshes.count;
    return HLO_SUCCESS;
}

// main, or the only function that is not private.
static const char *find_entry(const MlirBlock *block) {
    const char *found = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < block->operation_count; i++) {
        const MlirOperation *operation = block->operations[i];
        if (strcmp(operation->name, "func.func") != 0) continue;
        const char *name = mlir_attribute(operation, "sym_name")->string;
        if (strcmp(name, "main") == 0) return name;
        const MlirAttribute *visibility = mlir_attribute(operation, "sym_visibility");
        if (visibility && visibility->string && strcmp(visibility->string, "private") == 0) continue;
        found = name;
        count++;
    }
    return count == 1 ? found : "main";
}

// XLA counts at least one replica and one partition.
static int64_t module_count(const MlirOperation *top, const char *name) {
    const MlirAttribute *attribute = mlir_attribute(top, name);
    return attribute && attribute->kind == MLIR_INTEGER && attribute->integer > 0 ? attribute->integer : 1;
}

// tf.aliasing_output promises the argument's memory to a result; jax.buffer_donor leaves open to which.
static HloStatus import_donation(Importer *importer, const MlirOperation *function) {
    HloModule *module = importer->module;
    HLO_VECTOR(HloAlias) aliases = {0};
    HLO_VECTOR(HloDonor) donors = {0};
    const MlirAttribute *attributes = mlir_attribute(function, "arg_attrs");
    bool tuple_root = hlo_shape_is_tuple(module->entry->root->shape);
    for (int64_t i = 0; attributes && attributes->kind == MLIR_ARRAY && i < attributes->count; i++) {
        const MlirAttribute *output = mlir_entry(attributes->items[i], "tf.aliasing_output");
        const MlirAttribute *donor = mlir_entry(attributes->items[i], "jax.buffer_donor");
        if (output && output->kind == MLIR_INTEGER) {
            HloAlias alias = {.operand = i};
            if (tuple_root) alias.output_index = hlo_ints(module->arena, &output->integer, 1);
            hlo_vector_push(module->arena, &aliases, alias);
        } else if (donor) {
            hlo_vector_push(module->arena, &donors, ((HloDonor){.parameter = i}));
        }
    }
    module->aliases = (HloAliases){aliases.items, aliases.count};
    module->donors = donors.items;
    module->donor_count = donors.count;
    return HLO_SUCCESS;
}

// Result shardings become the sharding of the root.
static HloStatus import_result_shardings(Importer *importer, const MlirOperation *function) {
    HloInstruction *root = importer->module->entry->root;
    const MlirAttribute *attributes = mlir_attribute(function, "res_attrs");
    if (!attributes || attributes->kind != MLIR_ARRAY || attributes->count == 0) return HLO_SUCCESS;
    const bool is_tuple = hlo_shape_is_tuple(root->shape);
    const bool one = attributes->count == 1 && !is_tuple,
               each = is_tuple && root->shape->element_count == attributes->count;
    HLO_FAIL_IF(!one && !each, HLO_INVALID_ARGUMENT,
                "the attributes of %lld results are given, of an entry that has %lld", (long long)attributes->count,
                (long long)(is_tuple ? root->shape->element_count : 1));
    const HloSharding **shardings = HLO_ARENA_NEW(importer->module->arena, const HloSharding *, attributes->count);
    const MlirAttribute **written = HLO_ARENA_NEW(importer->arena, const MlirAttribute *, attributes->count);
    bool any = false;
    for (int64_t i = 0; i < attributes->count; i++) {
        const HloShape *shape = one ? root->shape : root->shape->elements[i];
        const MlirAttribute *sharding = mlir_entry(attributes->items[i], "mhlo.sharding");
        if (!sharding) sharding = mlir_entry(attributes->items[i], "sdy.sharding");
        HLO_TRY(import_sharding(importer, sharding, shape->rank, &shardings[i]));
        written[i] = sharding;
        any |= shardings[i] != NULL;
    }
    if (!any) return HLO_SUCCESS;
    if (one) {
        // A root that is also used elsewhere, or is a parameter, keeps its own annotation.
        HloInstruction *copy =
            hlo_instruction_new(importer->module->entry, HLO_OP_COPY, root->shape, &root, 1, NULL, NULL);
        copy->sharding = shardings[0];
        import_sharding_text(importer, written, copy);
        hlo_computation_set_root(importer->module->entry, copy);
        return HLO_SUCCESS;
    }
    for (int64_t i = 0; i < attributes->count; i++) {
        if (!shardings[i]) shardings[i] = hlo_sharding_simple(importer->module->arena, HLO_SHARDING_UNKNOWN);
    }
    root->sharding = hlo_sharding_tuple(importer->module->arena, shardings, attributes->count);
    import_sharding_text(importer, written, root);
    return HLO_SUCCESS;
}

typedef struct ImportRequest {
    const void *bytes;
    size_t length;
    const char *file;
    bool is_text;
    const HloInts *sizes;  // see hlo_module_from_stablehlo_sized()
    int64_t size_count;
    HloModule *module;
} ImportRequest;

static HloStatus import_entry(Importer *importer, const MlirBlock *body) {
    const char *name = find_entry(body);
    ImportedFunction *entry = hlo_string_map_get(&importer->functions, name, strlen(name));
    HLO_FAIL_IF(!entry, HLO_INVALID_ARGUMENT, "the module has no function @main, and not one public function only");
    importer->entry = entry->operation;
    HLO_TRY(convert_function(importer, entry, name, NULL, &entry->computation));
    hlo_module_set_entry(importer->module, entry->computation);
    HLO_TRY(with_place(importer, entry->operation, import_result_shardings(importer, entry->operation)));
    return with_place(importer, entry->operation, import_entry_layouts(importer, entry->operation));
}

// The entry first: functions that it does not reach are not converted, and need not have a form in HLO.
static HloStatus import_picture(const ImportRequest *request, const MlirOperation *top, const struct AsmText *text,
                                HloArena *arena) {
    HloModule *module = request->module;
    Importer importer = {.module = module,
                         .text = text,
                         .arena = arena,
                         .repeats = import_repeats_new(arena),
                         .sizes = request->sizes,
                         .size_count = request->size_count};
    note_rows(&importer);
    HLO_FAIL_IF(top->region_count != 1 || top->regions[0].block_count != 1, HLO_INVALID_ARGUMENT,
                "the module has no body");
    const MlirAttribute *name = mlir_attribute(top, "sym_name");
    if (name && name->string && *name->string) module->name = name_of_symbol(module->arena, name->string);
    module->replica_count = module_count(top, "mhlo.num_replicas");
    module->num_partitions = module_count(top, "mhlo.num_partitions");
    module->use_spmd_partitioning = module->num_partitions > 1;
    HLO_TRY(collect_symbols(&importer, &top->regions[0].blocks[0]));
    import_meshes(&importer, top);
    HLO_TRY(import_entry(&importer, &top->regions[0].blocks[0]));
    HLO_TRY(with_place(&importer, top, import_module_layouts(&importer, top)));
    return import_donation(&importer, importer.entry);
}

// Picture and scratch share an arena that goes away with it; what the module keeps has been copied into the module's.
static HloStatus import_request(void *argument) {
    ImportRequest *request = argument;
    HloArena *arena = hlo_arena_scratch_new();
    MlirOperation *top = NULL;
    HloStatus status = request->is_text ? mlir_read_text(arena, request->file, request->bytes, request->length, &top)
                                        : mlir_read_file(arena, request->bytes, request->length, &top);
    if (!status) {
        const char *begin = request->bytes;
        const AsmText text = {request->file, begin, begin + request->length};
        status = import_picture(request, top, request->is_text ? &text : NULL, arena);
    }
    hlo_arena_free(arena);
    return status;
}

static HloStatus import_new_module(ImportRequest *request, HloModule **module) {
    request->module = hlo_module_new("module");
    HLO_FAIL_IF(!request->module, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = hlo_protect(import_request, request);
    if (status) {
        hlo_module_free(request->module);
        return status;
    }
    *module = request->module;
    return HLO_SUCCESS;
}

HloStatus hlo_module_from_stablehlo_bytecode(const void *bytes, size_t length, HloModule **module) {
    ImportRequest request = {.bytes = bytes, .length = length};
    return import_new_module(&request, module);
}

HloStatus hlo_module_from_stablehlo_text(const char *text, size_t length, const char *file, HloModule **module) {
    ImportRequest request = {.bytes = text, .length = length, .file = file, .is_text = true};
    return import_new_module(&request, module);
}

HloStatus hlo_module_from_stablehlo_sized(const void *data, size_t length, const char *file, const HloInts *sizes,
                                          int64_t count, HloModule **module) {
    assert(count >= 0 && (sizes || count == 0));
    ImportRequest request = {.bytes = data,
                             .length = length,
                             .file = file,
                             .is_text = !hlo_looks_like_mlir_bytecode(data, length),
                             .sizes = sizes,
                             .size_count = count};
    return import_new_module(&request, module);
}

bool hlo_looks_like_mlir_bytecode(const void *bytes, size_t length) {
    return length >= MLIR_MAGIC_BYTES && memcmp(bytes, MLIR_MAGIC, MLIR_MAGIC_BYTES) == 0;
}
