// SPDX-License-Identifier: Apache-2.0
// The core of the builder: appending one checked instruction, and its annotations. The ops are in the other files here.
// Everything that can run out of memory runs under hlo_builder_run(), one step at a time, so that no jump ever crosses
// the caller's stack. Temporary data of a step lives in a scratch arena that is reset afterwards, so a builder's own
// memory does not grow with the program.
#include "hlo/ir/builder.h"

#include <assert.h>
#include <string.h>

#include "hlo/ir/build/internal.h"

// Body of hlo_builder_run() that makes the builder's computation.
static HloStatus make_computation(void *argument) {
    HloBuilder *builder = argument;
    builder->computation = hlo_computation_new(builder->module, builder->name);
    return HLO_SUCCESS;
}

HloBuilder *hlo_builder_new(HloModule *module, const char *name) {
    assert(module);
    HloBuilder *builder = hlo_allocate_zeroed(1, sizeof(*builder));
    HloArena *scratch = hlo_arena_new();
    if (!builder || !scratch) {
        hlo_free(builder);
        hlo_arena_free(scratch);
        return NULL;
    }
    builder->module = module;
    builder->name = name;
    builder->scratch = scratch;
    hlo_builder_run(builder, make_computation, builder);
    return builder;
}

// Adds the place that HLO_AT() or the metadata has set, unless the error has one.
static HloStatus at_source(const HloBuilder *builder, HloStatus status) {
    const HloMetadata *metadata = builder->metadata;
    if (!metadata || !metadata->source_file) return status;
    return hlo_status_at_place(status, &(HloPlace){.file = metadata->source_file, .line = metadata->source_line});
}

void hlo_builder_run(HloBuilder *builder, HloStatus (*body)(void *), void *argument) {
    assert(builder && body);
    if (builder->status) return;
    HloArenaMark mark = hlo_arena_mark(builder->scratch);
    builder->status = at_source(builder, hlo_protect(body, argument));
    hlo_arena_reset(builder->scratch, mark);
}

const struct HloError *hlo_builder_status(const HloBuilder *builder) {
    return builder->status;
}

HloComputation *hlo_builder_computation(HloBuilder *builder) {
    return builder->computation;
}

HloModule *hlo_builder_module(HloBuilder *builder) {
    return builder->module;
}

// Checks everything that must hold before a computation may be called.
static HloStatus finish(HloBuilder *builder, HloInstruction *root) {
    assert(builder->computation && !builder->status);
    HLO_FAIL_IF(!root, HLO_INVALID_ARGUMENT, "computation %s has no root", builder->computation->name);
    HLO_FAIL_IF(root->parent != builder->computation, HLO_INVALID_ARGUMENT, "%s is not in computation %s", root->name,
                builder->computation->name);
    const HloInstructionVector *parameters = &builder->computation->parameters;
    for (int64_t i = 0; i < parameters->count; i++) {
        HLO_FAIL_IF(!parameters->items[i], HLO_INVALID_ARGUMENT,
                    "computation %s has %lld parameters, but number %lld is missing", builder->computation->name,
                    (long long)parameters->count, (long long)i);
    }
    hlo_computation_set_root(builder->computation, root);
    return HLO_SUCCESS;
}

HloStatus hlo_builder_finish(HloBuilder *builder, HloInstruction *root, HloComputation **computation) {
    HloStatus status = builder->status ? builder->status : finish(builder, root);
    if (computation) *computation = status ? NULL : builder->computation;
    hlo_arena_free(builder->scratch);
    hlo_free(builder);
    return status;
}

HloStatus hlo_builder_finish_entry(HloBuilder *builder, HloInstruction *root) {
    HloModule *module = builder->module;
    HloComputation *entry = NULL;
    HLO_TRY(hlo_builder_finish(builder, root, &entry));
    hlo_module_set_entry(module, entry);
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// One instruction

typedef struct Emit {
    HloBuilder *builder;
    const HloBuildRequest *request;
    HloInstruction *result;
} Emit;

static HloStatus operand_shapes(const Emit *emit, const HloShape **shapes) {
    assert(emit->builder && shapes);
    const HloBuildRequest *request = emit->request;
    for (int64_t i = 0; i < request->operand_count; i++) {
        const HloInstruction *operand = request->operands[i];
        HLO_FAIL_IF(!operand, HLO_INVALID_ARGUMENT, "%s: operand %lld is NULL", hlo_op_text(request->opcode),
                    (long long)i);
        HLO_FAIL_IF(operand->parent != emit->builder->computation, HLO_INVALID_ARGUMENT,
                    "%s: operand %lld, %s, is not in computation %s", hlo_op_text(request->opcode), (long long)i,
                    operand->name, emit->builder->computation->name);
        shapes[i] = operand->shape;
    }
    return HLO_SUCCESS;
}

// Sets *hint to the shape that the caller gave, in either form; NULL if it gave none.
static HloStatus given_shape(const Emit *emit, const HloShape **hint) {
    const HloBuildRequest *request = emit->request;
    *hint = request->shape;
    if (request->shape || (request->type == HLO_INVALID && !request->has_dims)) return HLO_SUCCESS;
    HloType type = request->type;
    if (type == HLO_INVALID && request->operand_count == 0) return HLO_SUCCESS;
    if (type == HLO_INVALID) type = request->operands[0]->shape->type;
    HLO_TRY(hlo_status_annotate(hlo_shape_check_dims(type, request->dims.items, request->dims.count), "%s",
                                hlo_op_text(request->opcode)));
    *hint = hlo_shape_array(emit->builder->scratch, type, request->dims.items, request->dims.count);
    return HLO_SUCCESS;
}

// The limit keeps a wrong number from filling the parameter list with that many empty entries.
static HloStatus check_parameter(const Emit *emit) {
    if (emit->request->opcode != HLO_OP_PARAMETER) return HLO_SUCCESS;
    int64_t number = ((const HloParameterAttributes *)emit->request->attributes)->number;
    const HloInstructionVector *parameters = &emit->builder->computation->parameters;
    HLO_FAIL_IF(number < 0 || number > 1000000, HLO_INVALID_ARGUMENT, "parameter number %lld", (long long)number);
    HLO_FAIL_IF(number < parameters->count && parameters->items[number], HLO_INVALID_ARGUMENT,
                "parameter number %lld exists already", (long long)number);
    return HLO_SUCCESS;
}

// All instructions share the builder's own copies: annotations are never changed in place.
static void annotate(HloBuilder *builder, HloInstruction *instruction) {
    instruction->metadata = builder->metadata;
    instruction->sharding = builder->sharding;
}

HloInferRequest hlo_build_infer_request(HloArena *arena, const HloModule *module, const HloBuildRequest *request,
                                        const HloShape *const *operands) {
    assert(arena && module && request->operand_count >= 0);
    return (HloInferRequest){.arena = arena,
                             .opcode = request->opcode,
                             .operands = operands,
                             .operand_count = request->operand_count,
                             .attributes = request->attributes,
                             .called = request->called,
                             .called_count = request->called_count,
                             .hint = request->shape,
                             .replica_count = module->replica_count,
                             .num_partitions = module->num_partitions};
}

// Creates every instruction of the builder. Shape inference determines the shape; a shape from the caller is only a
// hint to it. Everything is copied into the module's arena, so requests may live on the stack.
static HloStatus emit_body(void *argument) {
    Emit *emit = argument;
    HloBuilder *builder = emit->builder;
    const HloBuildRequest *request = emit->request;
    HloModule *module = builder->module;
    const HloShape **shapes = HLO_ARENA_NEW(builder->scratch, const HloShape *, request->operand_count);
    HloInferRequest infer = hlo_build_infer_request(builder->scratch, module, request, shapes);
    const HloShape *shape;
    HLO_TRY(operand_shapes(emit, shapes));
    HLO_TRY(check_parameter(emit));
    HLO_TRY(given_shape(emit, &infer.hint));
    HLO_TRY(hlo_infer_shape(&infer, &shape));
    HloFamily family = hlo_op_info(request->opcode)->family;
    emit->result = hlo_instruction_new(builder->computation, request->opcode, hlo_shape_copy(module->arena, shape),
                                       request->operands, request->operand_count,
                                       hlo_attributes_copy(module->arena, family, request->attributes), NULL);
    if (request->called_count) hlo_instruction_set_called(emit->result, request->called, request->called_count);
    annotate(builder, emit->result);
    return HLO_SUCCESS;
}

HloInstruction *hlo_build(HloBuilder *builder, const HloBuildRequest *request) {
    Emit emit = {builder, request, NULL};
    hlo_builder_run(builder, emit_body, &emit);
    return emit.result;
}

void hlo_builder_fail(HloBuilder *builder, HloStatus status) {
    assert(builder && status);
    if (builder->status)
        hlo_status_free(status);
    else
        builder->status = at_source(builder, status);
}

// ---------------------------------------------------------------------------------------------------------------------
// Annotations

typedef struct Annotation {
    HloBuilder *builder;
    HloInstruction *instruction;  // NULL: the builder's own
    const HloSharding *sharding;
    const HloMetadata *metadata;
    const char *name, *key, *value;
} Annotation;

static HloStatus sharding_body(void *argument) {
    Annotation *a = argument;
    const HloSharding *copy = hlo_sharding_copy(a->builder->module->arena, a->sharding);
    *(a->instruction ? &a->instruction->sharding : &a->builder->sharding) = copy;
    return HLO_SUCCESS;
}

static HloStatus metadata_body(void *argument) {
    Annotation *a = argument;
    const HloMetadata *copy = hlo_metadata_copy(a->builder->module->arena, a->metadata);
    *(a->instruction ? &a->instruction->metadata : &a->builder->metadata) = copy;
    return HLO_SUCCESS;
}

static HloStatus name_body(void *argument) {
    Annotation *a = argument;
    hlo_instruction_set_name(a->instruction, a->name);
    return HLO_SUCCESS;
}

static HloStatus attribute_body(void *argument) {
    Annotation *a = argument;
    HloArena *arena = a->builder->module->arena;
    hlo_instruction_set_frontend_attribute(a->instruction, hlo_arena_text(arena, a->key),
                                           hlo_arena_text(arena, a->value));
    return HLO_SUCCESS;
}

void hlo_builder_set_metadata(HloBuilder *builder, const HloMetadata *metadata) {
    Annotation annotation = {.builder = builder, .metadata = metadata};
    hlo_builder_run(builder, metadata_body, &annotation);
}

void hlo_builder_set_source(HloBuilder *builder, const char *file, int64_t line) {
    HloMetadata metadata = builder->metadata ? *builder->metadata : (HloMetadata){0};
    metadata.source_file = file;
    metadata.source_line = line;
    metadata.source_end_line = metadata.source_column = metadata.source_end_column = 0;
    hlo_builder_set_metadata(builder, &metadata);
}

void hlo_builder_set_sharding(HloBuilder *builder, const HloSharding *sharding) {
    Annotation annotation = {.builder = builder, .sharding = sharding};
    hlo_builder_run(builder, sharding_body, &annotation);
}

HloInstruction *hlo_build_with_sharding(HloBuilder *builder, HloInstruction *instruction, const HloSharding *sharding) {
    Annotation annotation = {.builder = builder, .instruction = instruction, .sharding = sharding};
    if (instruction) hlo_builder_run(builder, sharding_body, &annotation);
    return instruction;
}

HloInstruction *hlo_build_with_metadata(HloBuilder *builder, HloInstruction *instruction, const HloMetadata *metadata) {
    Annotation annotation = {.builder = builder, .instruction = instruction, .metadata = metadata};
    if (instruction) hlo_builder_run(builder, metadata_body, &annotation);
    return instruction;
}

HloInstruction *hlo_build_with_name(HloBuilder *builder, HloInstruction *instruction, const char *name) {
    Annotation annotation = {.builder = builder, .instruction = instruction, .name = name};
    if (instruction && name) hlo_builder_run(builder, name_body, &annotation);
    return instruction;
}

HloInstruction *hlo_build_with_attribute(HloBuilder *builder, HloInstruction *instruction, const char *key,
                                         const char *value) {
    Annotation annotation = {.builder = builder, .instruction = instruction, .key = key, .value = value};
    if (instruction) hlo_builder_run(builder, attribute_body, &annotation);
    return instruction;
}

typedef struct ControlEdge {
    HloInstruction *before, *after;
} ControlEdge;

static HloStatus control_edge_body(void *argument) {
    ControlEdge *edge = argument;
    HLO_FAIL_IF(edge->before->parent != edge->after->parent || edge->before == edge->after, HLO_INVALID_ARGUMENT,
                "a control edge from %s to %s", edge->before->name, edge->after->name);
    hlo_instruction_add_control_edge(edge->before, edge->after);
    return HLO_SUCCESS;
}

void hlo_build_control_edge(HloBuilder *builder, HloInstruction *before, HloInstruction *after) {
    ControlEdge edge = {before, after};
    if (before && after) hlo_builder_run(builder, control_edge_body, &edge);
}
