// SPDX-License-Identifier: Apache-2.0
// Shardy's annotations of an HLO module, which are text, as tilings and as the custom calls of GSPMD.
#include <string.h>

#include "hlo/ir/custom_call.h"
#include "hlo/stablehlo/import/shardy.h"
#include "hlo/stablehlo/stablehlo.h"

typedef struct RoundTrip {
    HloModule *module;
    HloArena *arena;
    HloSdyMeshes meshes;
} RoundTrip;

// A call with one operand, before `at`, from which it gets its source line.
static HloInstruction *call_before(HloInstruction *at, const char *target, const HloShape *shape,
                                   HloInstruction *operand, const HloSharding *sharding) {
    HloCustomCallAttributes attributes = {.target = target};
    HloInstruction *call = hlo_instruction_new(at->parent, HLO_OP_CUSTOM_CALL, shape, &operand, 1, &attributes, NULL);
    call->metadata = at->metadata;
    call->sharding = sharding;
    hlo_instruction_move_before(call, at);
    return call;
}

// Value `index` on the other side of the boundary.
static HloStatus cross(const RoundTrip *r, HloInstruction *call, bool entering, int64_t index,
                       const HloSharding *sharding, const HloSharding *manual, HloInstruction **result) {
    HloInstruction *operand = call->operands[index];
    const HloShape *shape = hlo_shape_value(call->shape, index);
    const HloSharding *outside, *inside;
    *result = operand;
    if (!hlo_shape_is_array(operand->shape)) return HLO_SUCCESS;
    if (sharding->named->mesh.axis_sizes.count == 0 && !sharding->named->mesh.is_maximal) {
        // Replicated over a mesh without axes: over that of the region.
        HloSharding *copy = hlo_arena_copy(r->arena, sharding, sizeof *sharding);
        HloNamedSharding *named = hlo_arena_copy(r->arena, sharding->named, sizeof *sharding->named);
        named->mesh = manual->named->mesh;
        copy->named = named;
        sharding = copy;
    }
    const int64_t rank = (entering ? operand->shape : shape)->rank;
    HLO_TRY(hlo_sdy_tiling(r->arena, sharding, &(HloAxisRefs){0}, rank, &outside));
    HLO_TRY(hlo_sdy_tiling(r->arena, sharding, &manual->named->manual, rank, &inside));
    HloInstruction *placed = call_before(call, "Sharding", operand->shape, operand, entering ? outside : inside);
    *result = call_before(call, entering ? "SPMDFullToShardShape" : "SPMDShardToFullShape", shape, placed,
                          entering ? inside : outside);
    return HLO_SUCCESS;
}

// The manual axes of a boundary as a sharding; all axes of the mesh where the call names none.
static HloStatus manual_axes(const RoundTrip *r, const HloInstruction *call, const HloMesh *mesh,
                             const HloSharding **manual) {
    const char *text = hlo_instruction_frontend_attribute(call, HLO_SDY_MANUAL_AXES);
    if (text) return hlo_sdy_manual_axes(r->arena, &r->meshes, mesh, text, manual);
    HloSharding *sharding = HLO_ARENA_NEW(r->arena, HloSharding, 1);
    HloNamedSharding *named = HLO_ARENA_NEW(r->arena, HloNamedSharding, 1);
    const int64_t count = mesh ? mesh->axis_sizes.count : 0;
    HloAxisRef *axes = HLO_ARENA_NEW(r->arena, HloAxisRef, count + 1);
    for (int64_t i = 0; i < count; i++) axes[i].axis = i;
    if (mesh) named->mesh = *mesh;
    named->manual = (HloAxisRefs){.items = axes, .count = count};
    *sharding = (HloSharding){.kind = HLO_SHARDING_NAMED, .named = named};
    *manual = sharding;
    return HLO_SUCCESS;
}

static HloStatus replace_boundary(const RoundTrip *r, HloInstruction *call) {
    const bool entering = hlo_custom_call_kind(call) == HLO_CALL_FULL_TO_SHARD;
    const char *text =
        hlo_instruction_frontend_attribute(call, entering ? HLO_SDY_IN_SHARDINGS : HLO_SDY_OUT_SHARDINGS);
    const int64_t count = call->operand_count;
    const bool tuple = hlo_shape_is_tuple(call->shape);
    HloSdyShardings shardings = {0};
    const HloSharding *manual = NULL;
    const HloMesh *mesh = NULL;
    HLO_FAIL_IF(!text, HLO_INVALID_ARGUMENT, "its shardings are missing");
    HLO_TRY(hlo_sdy_shardings(r->arena, &r->meshes, text, &shardings));
    HLO_FAIL_IF(shardings.count != count || (tuple ? call->shape->element_count : 1) != count, HLO_INVALID_ARGUMENT,
                "there are %lld shardings for %lld arrays", (long long)shardings.count, (long long)count);
    for (int64_t i = 0; i < count && !mesh; i++)
        if (shardings.items[i].sharding->named->mesh.axis_sizes.count) mesh = &shardings.items[i].sharding->named->mesh;
    HLO_TRY(manual_axes(r, call, mesh, &manual));
    HloInstruction **values = HLO_ARENA_NEW(r->arena, HloInstruction *, count + 1), *result;
    for (int64_t i = 0; i < count; i++)
        HLO_TRY(cross(r, call, entering, i, shardings.items[i].sharding, manual, &values[i]));
    result = values[0];
    if (tuple) {
        result = hlo_instruction_new(call->parent, HLO_OP_TUPLE, call->shape, values, count, NULL, NULL);
        hlo_instruction_move_before(result, call);
    }
    hlo_instruction_replace_uses(call, result);
    if (call->control_predecessors.count == 0 && call->control_successors.count == 0) hlo_instruction_remove(call);
    return HLO_SUCCESS;
}

// Gives an array that has Shardy's text alone a tiling.
static HloStatus tile_array(const RoundTrip *r, HloInstruction *i) {
    const char *text = hlo_instruction_frontend_attribute(i, HLO_SDY_SHARDING);
    HloSdyShardings shardings = {0};
    if (!text || i->sharding || !hlo_shape_is_array(i->shape)) return HLO_SUCCESS;
    HLO_TRY(hlo_sdy_shardings(r->arena, &r->meshes, text, &shardings));
    if (shardings.count != 1) return HLO_SUCCESS;
    return hlo_sdy_tiling(r->arena, shardings.items[0].sharding, &(HloAxisRefs){0}, i->shape->rank, &i->sharding);
}

static HloStatus set_partitions(const RoundTrip *r) {
    for (int64_t i = 0; i < r->meshes.count && r->module->num_partitions == 1; i++) {
        HloMesh mesh;
        int64_t devices = 1;
        HLO_TRY(hlo_sdy_mesh(r->arena, &r->meshes, i, &mesh));
        for (int64_t k = 0; k < mesh.axis_sizes.count; k++) devices *= mesh.axis_sizes.items[k];
        r->module->num_partitions = devices;
    }
    return HLO_SUCCESS;
}

static HloStatus tile(void *argument) {
    RoundTrip *r = argument;
    HLO_TRY(hlo_sdy_meshes(r->arena, r->module, &r->meshes));
    HLO_TRY(set_partitions(r));
    for (int64_t c = 0; c < r->module->computations.count; c++) {
        for (HloInstruction *i = r->module->computations.items[c]->first, *next; i; i = next) {
            next = i->next;
            const bool boundary = hlo_custom_call_is_region_boundary(i) &&
                                  !strncmp(HLO_ATTRIBUTES(i, CustomCall)->target, "xla.sdy.", strlen("xla.sdy."));
            HloStatus status = boundary ? replace_boundary(r, i) : tile_array(r, i);
            if (status) return hlo_status_at_instruction(hlo_status_annotate(status, "instruction %%%s", i->name), i);
        }
    }
    return HLO_SUCCESS;
}

HloStatus hlo_module_tile_shardy(HloModule *module) {
    RoundTrip r = {.module = module, .arena = module->arena};
    return hlo_protect(tile, &r);
}
