// SPDX-License-Identifier: Apache-2.0
// The importer's core: the module, its functions, and the handler that converts each operation. mlir_import_module()
// traverses a module once: it notes functions and meshes, converts @main and, from its calls, all reachable functions,
// depth first. A value's instruction is stored in the value itself (MlirValue.lowered), so that finding operands needs
// no map; a region rebinds the values that it captures and restores them afterwards.
//
// How an operation is converted is decided once per name (plan_of()): by a handler in one of the families' rows, by the
// table of fields, or as an elementwise opcode of the same name. Every instruction goes through import_emit(), which
// infers its shape and compares it with the program's type: a contradiction is refused where it occurs.
//
// The meaning of StableHLO is defined by its spec (docs/spec.md); its mapping to HLO follows XLA's mlir_hlo_to_hlo.cc,
// whose frontend attributes and custom-call targets are used here too.
#include "hlo/stablehlo/import/import.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/decimal.h"
#include "hlo/ir/infer/support.h"
#include "hlo/stablehlo/text/parser.h"

// Calls are converted by recursion; no real program has a longer chain of calls.
enum { DEEPEST_CALL = 200 };

// The maximal number of computations made from functions that are converted once per list of shapes.
enum { MOST_REFINED = 10000 };

// `computation` stays NULL for refined functions, which have one for each list of shapes (Importer.refined).
typedef struct ImportedFunction {
    const MlirOperation *operation;
    HloComputation *computation;
    bool is_busy;
    bool is_refined;  // what it computes depends on its caller: the module has types with sizes without bounds
} ImportedFunction;

// ---------------------------------------------------------------------------------------------------------------------
// Operations

// The plan for converting operations of one name.
typedef struct ImportPlan {
    const ImportRow *row;  // or NULL
    HloOpcode opcode;      // of an operation without a row; HLO_OPCODE_COUNT for a name that is unknown
    bool has_fields;       // it is in mlir/fields.def; otherwise it is elementwise
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

// The plan for a name. Both readers give all operations of one name the same string.
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

// result_accuracy is kept only if it requests something.
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

// Puts all families into one map. A name occurs in one family only.
static void note_rows(Importer *importer) {
    static const ImportRow *(*const families[])(int64_t *) = {
        import_data_rows, import_compute_rows, import_control_rows, import_collective_rows,      import_sdy_rows,
        import_chlo_rows, import_dynamic_rows, import_legacy_rows,  import_chlo_structured_rows, import_composite_rows};
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
    // An unsupported type is a more specific error than the operation that uses it.
    for (int64_t i = 0; i < place->operation->result_count; i++) {
        const HloShape *shape;
        HLO_TRY(import_shape(place, place->operation->results[i]->type, &shape));
    }
    return import_error(place, HLO_UNIMPLEMENTED, "this operation has no HLO form");
}

HloStatus import_with_place(const Importer *importer, const MlirOperation *operation, HloStatus status) {
    if (!status || !importer->text || !operation->offset || hlo_status_place(status)) return status;
    const AsmText *text = importer->text;
    assert(operation->offset <= text->end - text->begin); /* it was read from there */
    HloStatus placed = asm_error_at(text, importer->arena, text->begin + operation->offset - 1, hlo_status_code(status),
                                    hlo_status_message(status));
    hlo_status_free(status);
    return placed;
}

// Operations after the return, which MLIR's verifier would refuse, are an error: they would be lost.
HloStatus import_block(Importer *importer, HloComputation *computation, const MlirBlock *block,
                       const MlirOperation **terminator) {
    assert(computation && block);
    for (int64_t i = 0; i < block->operation_count; i++) {
        MlirOperation *operation = block->operations[i];
        const ImportPlan *plan = plan_of(importer, operation->name);
        if (plan->is_return) {
            *terminator = operation;
            if (i + 1 == block->operation_count) return HLO_SUCCESS;
            return import_with_place(importer, block->operations[i + 1],
                                     hlo_error(HLO_INVALID_ARGUMENT, "%s follows the terminator of its block",
                                               block->operations[i + 1]->name));
        }
        ImportPlace place = {importer, computation, operation};
        if (plan->repeats && import_repeated(&place)) continue;
        const HloInstruction *before = computation->last;
        HLO_TRY(import_with_place(importer, operation, import_operation(&place, plan)));
        if (plan->repeats) import_note_repeat(&place, before);
    }
    return hlo_error(HLO_INVALID_ARGUMENT, "a block does not end with a return");
}

// ---------------------------------------------------------------------------------------------------------------------
// Functions

// The shape of an argument of the entry with the sizes that the caller passed for it.
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

// `operands` determine the shapes, and known values, of a refined function; else NULL.
static HloStatus import_parameters(Importer *importer, HloComputation *computation, const MlirOperation *function,
                                   const MlirBlock *block, HloInstruction *const *operands) {
    const MlirAttribute *attributes = mlir_attribute(function, "arg_attrs");
    ImportPlace place = {importer, computation, (MlirOperation *)(uintptr_t)function};
    if (function == importer->entry && importer->size_count > block->argument_count) {
        return import_error(&place, HLO_INVALID_ARGUMENT,
                            "sizes are given for argument %lld, but the program has %lld arguments",
                            (long long)importer->size_count - 1, (long long)block->argument_count);
    }
    for (int64_t i = 0; i < block->argument_count; i++) {
        HloParameterAttributes number = {.number = i};
        const HloShape *shape = NULL;
        HLO_TRY(import_shape(&place, block->arguments[i]->type, &shape));
        if (operands && !import_refines(operands[i]->shape, shape)) {
            return import_error(&place, HLO_INVALID_ARGUMENT, "argument %lld has a different shape in the call",
                                (long long)i);
        }
        if (operands) shape = operands[i]->shape;
        HLO_TRY(give_sizes(&place, i, &shape));
        char name[sizeof("Arg_") + HLO_DECIMAL_DIGITS] = "Arg_";
        name[4 + hlo_write_decimal(name + 4, (uint64_t)i)] = 0;
        HloInstruction *parameter = hlo_instruction_new(computation, HLO_OP_PARAMETER, shape, NULL, 0, &number, name);
        block->arguments[i]->lowered = parameter;
        if (operands) import_note_same(importer, parameter, operands[i]);
        parameter->metadata = import_metadata(&place, block->arguments[i]->location);
        if (!attributes || attributes->kind != MLIR_ARRAY || i >= attributes->count) continue;
        const MlirAttribute *sharding = import_sharding_entry(attributes->items[i]);
        import_frontend_attributes(mlir_entry(attributes->items[i], "mhlo.frontend_attributes"), parameter);
        HloStatus status = import_sharding(importer, sharding, shape->rank, &parameter->sharding);
        if (!status) status = import_sharding_text(importer, &sharding, parameter);
        HLO_TRY(hlo_status_annotate(status, "argument %lld", (long long)i));
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

// Checks a function's arguments and results against its type.
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
    HLO_FAIL_IF(!same, HLO_INVALID_ARGUMENT, "function %s takes or returns types that differ from its declaration",
                name);
    return HLO_SUCCESS;
}

// Converts a symbol to a valid name in HLO text: only letters, digits and _ . -, the first a letter or _, and not the
// name of a type.
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

// `is_busy` detects recursion, which HLO does not support; `depth` counts active calls.
static HloStatus convert_body(Importer *importer, ImportedFunction *function, const char *name,
                              HloInstruction *const *operands, HloComputation **result) {
    const MlirOperation *operation = function->operation;
    HLO_FAIL_IF(operation->region_count != 1 || operation->regions[0].block_count != 1, HLO_INVALID_ARGUMENT,
                "the body of function %s is not a single block", name);
    HLO_FAIL_IF(function->is_busy || ++importer->depth > DEEPEST_CALL, HLO_INVALID_ARGUMENT,
                "function %s calls itself, or calls nest too deeply", name);
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
    return import_with_place(importer, function->operation, convert_body(importer, function, name, operands, result));
}

// The key of a refined function: the shapes of its operands, and the values of those that are known.
static const char *refinement_key(Importer *importer, const char *name, HloInstruction *const *operands, int64_t count,
                                  size_t *length) {
    // Allocate everything from the arena before the text, which a jump would leak.
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
    // If the calls at every level differ, each path through the program would get its own computation.
    if (importer->refined_count++ == MOST_REFINED)
        return import_error(place, HLO_RESOURCE_EXHAUSTED, "functions are called with too many different shapes");
    HLO_TRY(convert_function(importer, function, name, operands, computation));
    hlo_string_map_set(importer->arena, &importer->refined, key, length, *computation);
    return HLO_SUCCESS;
}

// The first call converts the function, later calls find the computation.
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

// True for an operation of an unknown dialect that only describes the module (llvm.module_flags): it has neither values
// nor regions, and no symbol that others could refer to.
static bool carries_nothing(const MlirOperation *operation) {
    return mlir_is_foreign(operation->name) && operation->operand_count == 0 && operation->result_count == 0 &&
           operation->region_count == 0 && !mlir_attribute(operation, "sym_name");
}

static void note_skipped(Importer *importer, const MlirOperation *operation) {
    if (!importer->notes) return;
    HloStatus status = import_with_place(importer, operation, hlo_error(HLO_UNIMPLEMENTED, "note"));
    const HloPlace *place = hlo_status_place(status);
    if (place && place->file)
        hlo_text_format(importer->notes, "%s:%lld:%lld: ", place->file, (long long)place->line,
                        (long long)place->column);
    hlo_text_format(importer->notes, "note: %s is of an unknown dialect and is ignored\n", operation->name);
    hlo_status_free(status);
}

// In a module with open sizes every function is converted for its callers: sizes travel through functions without open
// types too, as in JAX's divmod, which takes and returns scalars.
static bool has_open_sizes(const MlirBlock *block) {
    for (int64_t i = 0; i < block->operation_count; i++) {
        const MlirOperation *operation = block->operations[i];
        if (operation->region_count == 1 && operation->regions[0].is_open) return true;
    }
    return false;
}

// Collects functions by name, and meshes in their order; anything else at the top of a module has no meaning that could
// be preserved.
static HloStatus collect_symbols(Importer *importer, const MlirBlock *block) {
    const bool is_open = has_open_sizes(block);
    HLO_VECTOR(const MlirAttribute *) meshes = {0};
    HLO_VECTOR(const char *) mesh_names = {0};
    for (int64_t i = 0; i < block->operation_count; i++) {
        const MlirOperation *operation = block->operations[i];
        const MlirAttribute *name = mlir_attribute(operation, "sym_name");
        if (strcmp(operation->name, "sdy.mesh") == 0) {
            for (int64_t k = 0; name && name->string && k < meshes.count; k++) {
                if (strcmp(mesh_names.items[k], name->string) != 0) continue;
                return import_with_place(importer, operation,
                                         hlo_error(HLO_INVALID_ARGUMENT, "mesh @%s is defined twice", name->string));
            }
            hlo_vector_push(importer->arena, &meshes, mlir_attribute(operation, "mesh"));
            hlo_vector_push(importer->arena, &mesh_names, name && name->string ? name->string : "");
        } else if (strcmp(operation->name, "func.func") == 0) {
            if (!name || !name->string || !*name->string) {
                return import_with_place(importer, operation,
                                         hlo_error(HLO_INVALID_ARGUMENT, "a function has no name"));
            }
            if (hlo_string_map_get(&importer->functions, name->string, strlen(name->string))) {
                return import_with_place(
                    importer, operation,
                    hlo_error(HLO_INVALID_ARGUMENT, "function @%s is defined twice", name->string));
            }
            ImportedFunction *function = HLO_ARENA_NEW(importer->arena, ImportedFunction, 1);
            function->operation = operation;
            function->is_refined = is_open;
            hlo_string_map_set(importer->arena, &importer->functions, name->string, strlen(name->string), function);
        } else if (carries_nothing(operation)) {
            note_skipped(importer, operation);
        } else {
            return import_with_place(importer, operation,
                                     hlo_error(HLO_UNIMPLEMENTED, "%s at the top level of a module", operation->name));
        }
    }
    importer->meshes = (HloSdyMeshes){mesh_names.items, meshes.items, meshes.count};
    return HLO_SUCCESS;
}

// XLA counts at least one replica and one partition.
static int64_t module_count(const MlirOperation *top, const char *name) {
    const MlirAttribute *attribute = mlir_attribute(top, name);
    return attribute && attribute->kind == MLIR_INTEGER && attribute->integer > 0 ? attribute->integer : 1;
}

// tf.aliasing_output donates the argument's memory to a specific result; jax.buffer_donor does not specify which.
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
    HLO_FAIL_IF(!one && !each, HLO_INVALID_ARGUMENT, "attributes are given for %lld results, but the entry has %lld",
                (long long)attributes->count, (long long)(is_tuple ? root->shape->element_count : 1));
    const HloSharding **shardings = HLO_ARENA_NEW(importer->module->arena, const HloSharding *, attributes->count);
    const MlirAttribute **written = HLO_ARENA_NEW(importer->arena, const MlirAttribute *, attributes->count);
    bool any = false;
    for (int64_t i = 0; i < attributes->count; i++) {
        const HloShape *shape = one ? root->shape : root->shape->elements[i];
        const MlirAttribute *sharding = import_sharding_entry(attributes->items[i]);
        HLO_TRY(hlo_status_annotate(import_sharding(importer, sharding, shape->rank, &shardings[i]), "result %lld",
                                    (long long)i));
        written[i] = sharding;
        any |= shardings[i] != NULL;
    }
    if (!any) return HLO_SUCCESS;
    if (one) {
        // A root that is also used elsewhere, or is a parameter, keeps its own annotation.
        HloInstruction *copy =
            hlo_instruction_new(importer->module->entry, HLO_OP_COPY, root->shape, &root, 1, NULL, NULL);
        copy->sharding = shardings[0];
        HLO_TRY(import_sharding_text(importer, written, copy));
        hlo_computation_set_root(importer->module->entry, copy);
        return HLO_SUCCESS;
    }
    for (int64_t i = 0; i < attributes->count; i++) {
        if (!shardings[i]) shardings[i] = hlo_sharding_simple(importer->module->arena, HLO_SHARDING_UNKNOWN);
    }
    root->sharding = hlo_sharding_tuple(importer->module->arena, shardings, attributes->count);
    return import_sharding_text(importer, written, root);
}

// The entry is @main alone, as for XLA: another function may be a part of the program that was cut out of it.
static HloStatus no_main(const MlirBlock *body) {
    HloText functions = {0};
    for (int64_t i = 0; i < body->operation_count; i++) {
        if (strcmp(body->operations[i]->name, "func.func") != 0) continue;
        hlo_text_format(&functions, "%s@%s", functions.length ? ", " : "; it has ",
                        mlir_attribute(body->operations[i], "sym_name")->string);
        if (functions.length < 100) continue;
        hlo_text_string(&functions, ", ...");
        break;
    }
    HloStatus status =
        hlo_error(HLO_INVALID_ARGUMENT, "the module has no function @main%s", functions.data ? functions.data : "");
    hlo_text_free(&functions);
    return status;
}

static HloStatus import_entry(Importer *importer, const MlirOperation *top, const MlirBlock *body) {
    static const char name[] = "main";
    ImportedFunction *entry = hlo_string_map_get(&importer->functions, name, strlen(name));
    if (!entry) return import_with_place(importer, top, no_main(body));
    importer->entry = entry->operation;
    HLO_TRY(convert_function(importer, entry, name, NULL, &entry->computation));
    hlo_module_set_entry(importer->module, entry->computation);
    HLO_TRY(import_with_place(importer, entry->operation, import_result_shardings(importer, entry->operation)));
    return import_with_place(importer, entry->operation, import_entry_layouts(importer, entry->operation));
}

// Converts the entry first: functions that it does not reach are not converted, and need not be expressible in HLO.
HloStatus mlir_import_module(const MlirOperation *top, const ImportOptions *options, HloArena *arena,
                             HloModule *module) {
    Importer importer = {.module = module,
                         .text = options->text,
                         .notes = options->notes,
                         .arena = arena,
                         .repeats = import_repeats_new(arena),
                         .sizes = options->sizes,
                         .size_count = options->size_count};
    note_rows(&importer);
    if (top->region_count != 1 || top->regions[0].block_count != 1)
        return import_with_place(&importer, top, hlo_error(HLO_INVALID_ARGUMENT, "the module has no body"));
    const MlirAttribute *name = mlir_attribute(top, "sym_name");
    if (name && name->string && *name->string) module->name = name_of_symbol(module->arena, name->string);
    module->replica_count = module_count(top, "mhlo.num_replicas");
    module->num_partitions = module_count(top, "mhlo.num_partitions");
    module->use_spmd_partitioning = module->num_partitions > 1;
    HLO_TRY(collect_symbols(&importer, &top->regions[0].blocks[0]));
    HLO_TRY(import_with_place(&importer, top, import_meshes(&importer, top)));
    HLO_TRY(import_entry(&importer, top, &top->regions[0].blocks[0]));
    HLO_TRY(import_with_place(&importer, top, import_module_layouts(&importer, top)));
    HLO_TRY(import_donation(&importer, importer.entry));
    return import_check_composites(&importer);
}
