// SPDX-License-Identifier: Apache-2.0
// Lays the annotations of a program out on another mesh, also one of another number of devices.
//
// Axis names carry over: an annotation that shards rows by "data" does so on every mesh that has that axis. Names are
// in Shardy's text and in V3 annotations. A device list beside a declared mesh is read back as axes of that mesh:
//
//     mesh data=4, model=2;  {devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}    columns over model
//     on data=2, model=4:    {devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
//
// What the program has already divided itself stays as it is. A manual region has the shapes of one device: the axes
// over which it is manual must keep their sizes, and its collectives get the numbers that the same devices along these
// axes have in the new mesh. Refused are regions whose axes change, collectives along axes that change, programs that
// compute with the number of their device, and device lists that are no product of whole axes.
#include <assert.h>
#include <string.h>

#include "hlo/analysis/contents.h"
#include "spmd_partitioner/annotation/device_numbers.h"
#include "spmd_partitioner/convert.h"
#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/sdy.h"

typedef struct Remesh {
    HloArena *arena;  // scratch
    HloModule *module;
    const SpmdShardy *shardy;
    const HloMesh *old;              // the mesh of the program's annotations; NULL where none names axes
    const SpmdMesh *before, *after;  // the same mesh, and the new one, with one run of atoms an axis
    HloMesh mesh;                    // the new one, in the module's arena
    const char *text;                // the new one as people write it: data=2,model=4
    const char *sdy_text;            // the same in Shardy's text: "data"=2, "model"=4
} Remesh;

// ---- the mesh that a program names

// The first V3 mesh of an annotation, or NULL.
static const HloMesh *named_mesh(const HloSharding *sharding) {
    if (!sharding) return NULL;
    if (sharding->kind == HLO_SHARDING_TUPLE) {
        const HloMesh *mesh = NULL;
        for (int64_t i = 0; i < sharding->element_count && !mesh; i++) mesh = named_mesh(sharding->elements[i]);
        return mesh;
    }
    if (sharding->kind != HLO_SHARDING_NAMED) return NULL;
    const HloMesh *mesh = &sharding->named->mesh;
    return mesh->is_maximal || !mesh->axis_sizes.count ? NULL : mesh;
}

// The mesh by which the annotations name axes: the first that the module declares, else the first of an annotation.
static const HloMesh *program_mesh(const HloModule *module, const SpmdShardy *shardy) {
    for (int64_t i = 0; i < shardy->mesh_count; i++)
        if (!shardy->meshes[i].is_maximal && shardy->meshes[i].axis_sizes.count) return &shardy->meshes[i];
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            const HloMesh *mesh = named_mesh(spmd_shardy_sharding(shardy, at));
            if (mesh) return mesh;
        }
    }
    return NULL;
}

HloStatus spmd_named_axes(HloArena *arena, const HloModule *module, const SpmdMeshAxis **axes, int64_t *count) {
    assert(arena && module && axes && count);
    const SpmdShardy *shardy;
    *axes = NULL;
    *count = 0;
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "the module has no entry computation");
    HLO_TRY(spmd_shardy_read(arena, module, &shardy));
    const HloMesh *mesh = program_mesh(module, shardy);
    if (!mesh) return HLO_SUCCESS;
    SpmdMeshAxis *copy = HLO_ARENA_NEW(arena, SpmdMeshAxis, mesh->axis_sizes.count);
    for (int64_t i = 0; i < mesh->axis_sizes.count; i++)
        copy[i] = (SpmdMeshAxis){hlo_arena_text(arena, mesh->axis_names[i]), mesh->axis_sizes.items[i]};
    *axes = copy;
    *count = mesh->axis_sizes.count;
    return HLO_SUCCESS;
}

const char *spmd_mesh_text(HloArena *arena, const SpmdMeshAxis *axes, int64_t count) {
    HloText text = {0};
    for (int64_t i = 0; i < count; i++)
        hlo_text_format(&text, "%s%s=%lld", i ? "," : "", axes[i].name, (long long)axes[i].size);
    return hlo_text_to_arena(arena, &text);
}

// ---- one annotation

static HloStatus in_the_way(const Remesh *remesh, const HloInstruction *op, HloStatus why) {
    return hlo_status_at_instruction(
        hlo_status_annotate(why, "the program cannot be laid out on the mesh %s: instruction %%%s", remesh->text,
                            op->name),
        op);
}

static int64_t find_axis(const HloMesh *mesh, const char *name) {
    for (int64_t i = 0; i < mesh->axis_sizes.count; i++)
        if (!strcmp(mesh->axis_names[i], name)) return i;
    return -1;
}

// The same axes by their numbers in the new mesh. A part of an axis is a split that the program has chosen for the old
// size.
static HloStatus map_axes(const Remesh *remesh, const HloMesh *from, const HloAxisRefs *refs, HloAxisRefs *result) {
    HloAxisRef *items = HLO_ARENA_NEW(remesh->module->arena, HloAxisRef, refs->count);
    for (int64_t i = 0; i < refs->count; i++) {
        const HloAxisRef *ref = &refs->items[i];
        const int64_t axis = find_axis(&remesh->mesh, from->axis_names[ref->axis]);
        HLO_FAIL_IF(axis < 0, HLO_INVALID_ARGUMENT, "its sharding uses the axis '%s', which the mesh does not have",
                    from->axis_names[ref->axis]);
        HLO_FAIL_IF(ref->size && remesh->mesh.axis_sizes.items[axis] != from->axis_sizes.items[ref->axis],
                    HLO_INVALID_ARGUMENT, "its sharding uses a part of the axis '%s' of %lld",
                    from->axis_names[ref->axis], (long long)from->axis_sizes.items[ref->axis]);
        items[i] = *ref;
        items[i].axis = axis;
    }
    *result = (HloAxisRefs){items, refs->count, refs->open};
    return HLO_SUCCESS;
}

// The axes over which an array is manual: all of its mesh where it is manual as a whole.
static HloAxisRefs manual_axes(const Remesh *remesh, const HloNamedSharding *sharding) {
    if (sharding->whole != HLO_SHARDING_MANUAL) return sharding->manual;
    const int64_t count = sharding->mesh.axis_sizes.count;
    HloAxisRef *items = HLO_ARENA_NEW(remesh->arena, HloAxisRef, count);
    for (int64_t i = 0; i < count; i++) items[i] = (HloAxisRef){.axis = i, .pre_size = 1};
    return (HloAxisRefs){.items = items, .count = count};
}

// The shapes in a manual region are those of one device along its axes, so that these must keep their sizes.
static HloStatus keep_manual(const Remesh *remesh, const HloNamedSharding *sharding) {
    const HloAxisRefs manual = manual_axes(remesh, sharding);
    for (int64_t i = 0; i < manual.count; i++) {
        const int64_t old = manual.items[i].axis, size = sharding->mesh.axis_sizes.items[old];
        const int64_t axis = find_axis(&remesh->mesh, sharding->mesh.axis_names[old]);
        HLO_FAIL_IF(
            axis < 0 || remesh->mesh.axis_sizes.items[axis] != size, HLO_INVALID_ARGUMENT,
            "it is of a manual region, which the program has divided itself along the axis '%s' of %lld devices",
            sharding->mesh.axis_names[old], (long long)size);
    }
    return HLO_SUCCESS;
}

// The annotation with the new mesh, in the module's arena.
static HloStatus map_named(const Remesh *remesh, const HloNamedSharding *from, const HloNamedSharding **result) {
    *result = from;
    if (from->mesh.is_maximal || !from->mesh.axis_sizes.count) return HLO_SUCCESS;
    HLO_FAIL_IF(from->mesh.device_ids.count || from->mesh.iota.dims.count, HLO_INVALID_ARGUMENT,
                "the mesh of its sharding has a device order of its own");
    HLO_FAIL_IF(!hlo_mesh_equal(&from->mesh, remesh->old), HLO_INVALID_ARGUMENT,
                "the mesh of its sharding is a second one beside that of other annotations");
    HLO_TRY(keep_manual(remesh, from));
    HloNamedSharding *named = hlo_arena_copy(remesh->module->arena, from, sizeof(*from));
    HloAxisRefs *dims = HLO_ARENA_NEW(remesh->module->arena, HloAxisRefs, from->dim_count);
    for (int64_t i = 0; i < from->dim_count; i++) HLO_TRY(map_axes(remesh, &from->mesh, &from->dims[i], &dims[i]));
    HLO_TRY(map_axes(remesh, &from->mesh, &from->replicated, &named->replicated));
    HLO_TRY(map_axes(remesh, &from->mesh, &from->unreduced, &named->unreduced));
    const HloAxisRefs manual = manual_axes(remesh, from);
    HLO_TRY(map_axes(remesh, &from->mesh, &manual, &named->manual));
    if (from->whole == HLO_SHARDING_MANUAL) named->whole = HLO_SHARDING_TILED;
    named->dims = dims;
    named->mesh = remesh->mesh;
    *result = named;
    return HLO_SUCCESS;
}

// What an annotation has besides the sharding itself.
static const HloSharding *with_marks_of(HloArena *arena, const HloSharding *sharding, const HloSharding *marks) {
    if (!marks || (marks->group == HLO_SHARD_GROUP_NONE && !marks->metadata_count)) return sharding;
    HloSharding *copy = hlo_arena_copy(arena, sharding, sizeof(*sharding));
    copy->group = marks->group;
    copy->group_id = marks->group_id;
    copy->metadata = marks->metadata;
    copy->metadata_count = marks->metadata_count;
    return copy;
}

// A named sharding as the tiling that it means on `mesh`.
static HloStatus tiling_of(const Remesh *remesh, const SpmdMesh *mesh, const HloNamedSharding *named, int64_t rank,
                           const HloSharding **result) {
    const HloSharding sharding = {.kind = HLO_SHARDING_NAMED, .named = named};
    SpmdAnnotation annotation;
    if (named->mesh.is_maximal) {
        *result = hlo_sharding_maximal(remesh->module->arena, named->mesh.device_ids.items[0]);
        return HLO_SUCCESS;
    }
    HLO_TRY(spmd_annotation_from_hlo(remesh->arena, mesh, &sharding, rank, &annotation));
    *result = hlo_sharding_copy(remesh->module->arena,
                                spmd_sharding_to_hlo(remesh->arena, mesh, annotation.sharding, annotation.devices));
    return HLO_SUCCESS;
}

// Reads a list of atoms as whole axes of the old mesh; false if it has a part of one.
static bool whole_axes(const Remesh *remesh, const SpmdMesh *mesh, const SpmdAxes *atoms, HloAxisRefs *refs) {
    HloAxisRef *items = HLO_ARENA_NEW(remesh->module->arena, HloAxisRef, atoms->count);
    refs->items = items;
    for (int32_t i = 0; i < atoms->count;) {
        const int32_t axis = mesh->atoms[atoms->items[i]].axis;
        for (int32_t atom = 0; atom < mesh->atom_count; atom++) {
            if (mesh->atoms[atom].axis != axis) continue;
            if (i == atoms->count || atoms->items[i] != atom) return false;
            i++;
        }
        items[refs->count++] = (HloAxisRef){.axis = axis, .pre_size = 1};
    }
    return true;
}

// Whether an axis of one device gets several: device lists do not show whether an array is sharded along it.
static const char *hidden_axis(const Remesh *remesh) {
    for (int64_t i = 0; i < remesh->old->axis_sizes.count; i++) {
        const int64_t axis = find_axis(&remesh->mesh, remesh->old->axis_names[i]);
        if (remesh->old->axis_sizes.items[i] == 1 && axis >= 0 && remesh->mesh.axis_sizes.items[axis] > 1)
            return remesh->old->axis_names[i];
    }
    return NULL;
}

// The named form of a device list on the old mesh.
static HloStatus name_tiling(const Remesh *remesh, const HloSharding *sharding, int64_t rank, HloNamedSharding *named) {
    SpmdAnnotation annotation;
    const char *hidden = hidden_axis(remesh);
    HLO_FAIL_IF(hidden, HLO_INVALID_ARGUMENT,
                "its sharding is a device list, which does not say whether it uses the axis '%s' of one device",
                hidden);
    HLO_TRY(spmd_annotation_from_hlo(remesh->arena, remesh->before, sharding, rank, &annotation));
    HloAxisRefs *dims = HLO_ARENA_NEW(remesh->module->arena, HloAxisRefs, rank);
    bool whole = !annotation.devices;
    for (int64_t i = 0; i < rank && whole; i++)
        whole = whole_axes(remesh, remesh->before, &annotation.sharding->dims[i], &dims[i]);
    SpmdAxes sum = {0}, manual = {0};
    spmd_axes_push_set(&sum, annotation.sharding->unreduced);
    spmd_axes_push_set(&manual, annotation.sharding->manual);
    *named = (HloNamedSharding){.mesh = *remesh->old, .whole = HLO_SHARDING_TILED, .dims = dims, .dim_count = rank};
    whole = whole && whole_axes(remesh, remesh->before, &sum, &named->unreduced) &&
            whole_axes(remesh, remesh->before, &manual, &named->manual);
    HLO_FAIL_IF(!whole, HLO_INVALID_ARGUMENT, "its sharding is a device list that is no product of the mesh's axes");
    return HLO_SUCCESS;
}

// The annotation in Shardy's text of the instruction that makes leaf `leaf` of `op`, through instructions that only
// pass it on: XLA writes a device list alone on these. NULL where there is none.
static const HloNamedSharding *text_before(const Remesh *remesh, const HloInstruction *op, int64_t leaf) {
    for (;;) {
        const SpmdShardyText *text = spmd_shardy_text(remesh->shardy, op);
        if (text && text->leaves) return text->leaves[leaf].sharding->named;
        int32_t operand = 0;
        if (hlo_is(op, HLO_OP_TUPLE)) {
            for (; leaf >= hlo_shape_leaf_count(op->operands[operand]->shape); operand++)
                leaf -= hlo_shape_leaf_count(op->operands[operand]->shape);
        } else if (hlo_is(op, HLO_OP_GET_TUPLE_ELEMENT)) {
            leaf += spmd_leaf_offset(op->operands[0]->shape, HLO_ATTRIBUTES(op, TupleIndex)->index);
        } else if ((!hlo_is(op, HLO_OP_RESHAPE) && !hlo_is(op, HLO_OP_COPY)) ||
                   !hlo_shape_equal(op->shape, op->operands[0]->shape, HLO_COMPARE_DIMS_ONLY)) {
            return NULL;
        }
        op = op->operands[operand];
    }
}

// One annotation of one array without Shardy's text.
static HloStatus map_written(const Remesh *remesh, const HloInstruction *op, int64_t leaf, const HloSharding *sharding,
                             const HloSharding **result) {
    const HloShape *shape = hlo_shape_leaf(op->shape, leaf);
    const int64_t rank = hlo_shape_is_array(shape) ? shape->rank : 0;
    const HloNamedSharding *named = NULL, *mapped;
    HloNamedSharding read;
    *result = sharding;
    switch (sharding->kind) {
        case HLO_SHARDING_NAMED: {
            HLO_TRY(map_named(remesh, sharding->named, &mapped));
            HloSharding *copy = hlo_arena_copy(remesh->module->arena, sharding, sizeof(*sharding));
            copy->named = mapped;
            *result = copy;
            return HLO_SUCCESS;
        }
        case HLO_SHARDING_MANUAL:
        case HLO_SHARDING_TILED:
        case HLO_SHARDING_REPLICATED: break;
        default: return HLO_SUCCESS;
    }
    if (!hlo_shape_is_array(shape)) return HLO_SUCCESS;
    named = text_before(remesh, op, leaf);
    if (named && !named->mesh.is_maximal) {
        const HloSharding *meant;
        HLO_TRY(tiling_of(remesh, remesh->before, named, rank, &meant));
        SpmdAnnotation a, b;
        HLO_TRY(spmd_annotation_from_hlo(remesh->arena, remesh->before, meant, rank, &a));
        HLO_TRY(spmd_annotation_from_hlo(remesh->arena, remesh->before, sharding, rank, &b));
        if (!spmd_sharding_equal(a.sharding, b.sharding)) named = NULL;
    }
    if (!named && sharding->kind == HLO_SHARDING_REPLICATED && !hidden_axis(remesh)) return HLO_SUCCESS;
    if (!named) {
        HLO_TRY(name_tiling(remesh, sharding, rank, &read));
        named = &read;
    }
    HLO_TRY(map_named(remesh, named, &mapped));
    HLO_TRY(tiling_of(remesh, remesh->after, mapped, rank, result));
    *result = with_marks_of(remesh->module->arena, *result, sharding);
    return HLO_SUCCESS;
}

// ---- one instruction

// The text with the new mesh in place of every mesh that is written out and has axes.
static const char *map_text(const Remesh *remesh, const char *text) {
    HloText out = {0};
    static const char opening[] = "mesh<[", order[] = ", device_ids=[";
    for (const char *at; (at = strstr(text, opening));) {
        at += strlen(opening);
        hlo_text_append(&out, text, (size_t)(at - text));
        text = at;
        bool quoted = false;
        const char *end = at;
        for (; *end && (quoted || *end != ']'); end++) quoted ^= *end == '"';
        if (end == at) continue;  // without axes: replicated, or one device
        hlo_text_string(&out, remesh->sdy_text);
        hlo_text_char(&out, ']');
        text = end + (*end == ']');
        if (!strncmp(text, order, strlen(order))) text += strcspn(text, "]") + 1;
    }
    hlo_text_string(&out, text);
    return hlo_text_to_arena(remesh->module->arena, &out);
}

// An annotation in Shardy's text: names stay; the tiling beside it is made anew, so that a reader of the tiling alone
// reads the same.
static HloStatus map_leaves(const Remesh *remesh, HloInstruction *op, const SpmdShardyText *text) {
    const int64_t leaves = hlo_shape_leaf_count(op->shape);
    const HloSharding **tilings = HLO_ARENA_NEW(remesh->module->arena, const HloSharding *, leaves);
    for (int64_t i = 0; i < leaves; i++) {
        const HloShape *shape = hlo_shape_leaf(op->shape, i);
        const HloNamedSharding *mapped;
        HLO_TRY(map_named(remesh, text->leaves[i].sharding->named, &mapped));
        HLO_TRY(tiling_of(remesh, remesh->after, mapped, hlo_shape_is_array(shape) ? shape->rank : 0, &tilings[i]));
    }
    if (op->sharding && op->sharding->kind == HLO_SHARDING_TUPLE)
        op->sharding = hlo_sharding_tuple(remesh->module->arena, tilings, leaves);
    else if (op->sharding && leaves)
        op->sharding = with_marks_of(remesh->module->arena, tilings[0], op->sharding);
    const char *written = hlo_instruction_frontend_attribute(op, HLO_SDY_SHARDING);
    if (written) hlo_instruction_set_frontend_attribute(op, HLO_SDY_SHARDING, map_text(remesh, written));
    return HLO_SUCCESS;
}

// Shardy's text of the boundary of a manual region.
static HloStatus map_boundary(const Remesh *remesh, HloInstruction *op, const SpmdShardyText *text) {
    static const char *const keys[] = {HLO_SDY_IN_SHARDINGS, HLO_SDY_OUT_SHARDINGS, HLO_SDY_MANUAL_AXES};
    const HloNamedSharding *mapped;
    const int64_t results = hlo_shape_leaf_count(op->shape),
                  values = hlo_custom_call_kind(op) == HLO_CALL_FULL_TO_SHARD ? op->operand_count : results;
    for (int64_t i = 0; text->boundaries && i < values; i++)
        HLO_TRY(map_named(remesh, text->boundaries[i].sharding->named, &mapped));
    if (text->manual_axes) HLO_TRY(map_named(remesh, text->manual_axes->named, &mapped));
    for (size_t k = 0; k < HLO_COUNT_OF(keys); k++) {
        const char *written = hlo_instruction_frontend_attribute(op, keys[k]);
        if (written) hlo_instruction_set_frontend_attribute(op, keys[k], map_text(remesh, written));
    }
    return HLO_SUCCESS;
}

static HloStatus map_instruction(const Remesh *remesh, HloInstruction *op) {
    const SpmdShardyText *text = spmd_shardy_text(remesh->shardy, op);
    const char *hidden = hlo_custom_call_is_region_boundary(op) ? hidden_axis(remesh) : NULL;
    HLO_FAIL_IF(
        hidden && !(text && text->manual_axes), HLO_INVALID_ARGUMENT,
        "it is the boundary of a manual region, which does not say whether it is manual along the axis '%s' of one "
        "device",
        hidden);
    if (text && (text->boundaries || text->manual_axes)) HLO_TRY(map_boundary(remesh, op, text));
    if (text && text->leaves) return map_leaves(remesh, op, text);
    if (!op->sharding) return HLO_SUCCESS;
    if (op->sharding->kind != HLO_SHARDING_TUPLE) {
        if (hlo_shape_leaf_count(op->shape) == 0) return HLO_SUCCESS;
        return map_written(remesh, op, 0, op->sharding, &op->sharding);
    }
    const HloSharding **elements =
        HLO_ARENA_NEW(remesh->module->arena, const HloSharding *, op->sharding->element_count);
    const int64_t leaves = hlo_shape_leaf_count(op->shape);
    for (int64_t i = 0; i < op->sharding->element_count; i++) {
        elements[i] = op->sharding->elements[i];
        if (i < leaves) HLO_TRY(map_written(remesh, op, i, op->sharding->elements[i], &elements[i]));
    }
    op->sharding = hlo_sharding_tuple(remesh->module->arena, elements, op->sharding->element_count);
    return HLO_SUCCESS;
}

// ---- the program

// Device numbers that the program itself uses: groups and pairs get the new mesh's; routes of transfers and a device's
// own number stay what they are.
static HloStatus renumber(const Remesh *remesh) {
    const char *hidden = hidden_axis(remesh);
    for (int64_t c = 0; c < remesh->module->computations.count; c++) {
        for (HloInstruction *at = remesh->module->computations.items[c]->first; at; at = at->next) {
            if (!spmd_names_devices(at)) continue;
            HloStatus status = HLO_SUCCESS;
            if (hidden)
                status =
                    hlo_error(HLO_INVALID_ARGUMENT,
                              "%s uses the device numbers of the program's own mesh, which do not say whether they "
                              "are along the axis '%s' of one device",
                              hlo_op_text(at->opcode), hidden);
            else if (hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE))
                status = spmd_renumber_collective(remesh->arena, at, remesh->old, &remesh->mesh);
            else
                status = hlo_error(HLO_INVALID_ARGUMENT, "%s uses the device numbers of the program's own mesh",
                                   hlo_op_text(at->opcode));
            if (status) return in_the_way(remesh, at, status);
        }
    }
    return HLO_SUCCESS;
}

// Names an annotation that lists devices and is no product of whole axes of the new mesh, in a program that names none.
static HloStatus check_list(const Remesh *remesh, const HloSharding *sharding) {
    if (sharding->kind == HLO_SHARDING_TUPLE) {
        for (int64_t i = 0; i < sharding->element_count; i++) HLO_TRY(check_list(remesh, sharding->elements[i]));
        return HLO_SUCCESS;
    }
    if (sharding->kind != HLO_SHARDING_TILED) return HLO_SUCCESS;
    const int64_t rank = sharding->tile_dims.count - sharding->subgroup_count - sharding->last_tile_dim_replicate;
    SpmdAnnotation annotation;
    HloText text = {0};
    hlo_sharding_print(&text, sharding);
    const char *written = hlo_text_to_arena(remesh->arena, &text);
    const int64_t devices = hlo_sharding_device_count(sharding);
    HLO_FAIL_IF(devices != remesh->after->device_count, HLO_INVALID_ARGUMENT,
                "its sharding %s is a list of %lld devices, which names no axes", written, (long long)devices);
    if (rank < 0) return HLO_SUCCESS;  // refused where it is read
    HLO_TRY(spmd_annotation_from_hlo(remesh->arena, remesh->after, sharding, rank, &annotation));
    HloAxisRefs refs;
    bool whole = !annotation.devices;
    for (int64_t i = 0; i < rank && whole; i++) {
        refs = (HloAxisRefs){0};
        whole = whole_axes(remesh, remesh->after, &annotation.sharding->dims[i], &refs);
    }
    HLO_FAIL_IF(!whole, HLO_INVALID_ARGUMENT,
                "its sharding %s is a list of devices, and no product of the axes of this mesh", written);
    return HLO_SUCCESS;
}

static HloStatus check_lists(const Remesh *remesh) {
    for (int64_t c = 0; c < remesh->module->computations.count; c++) {
        for (const HloInstruction *at = remesh->module->computations.items[c]->first; at; at = at->next) {
            HloStatus status = at->sharding ? check_list(remesh, at->sharding) : HLO_SUCCESS;
            if (status) return in_the_way(remesh, at, status);
        }
    }
    return HLO_SUCCESS;
}

static bool has_device_list(const HloInstruction *instruction) {
    return instruction->sharding && hlo_sharding_device_count(instruction->sharding);
}

bool spmd_has_device_lists(const HloModule *module) {
    return hlo_module_find(module, has_device_list);
}

static HloStatus map_module(const Remesh *remesh) {
    static const char *const keys[] = {HLO_SDY_MESHES, HLO_SDY_ARGUMENT_SHARDINGS, HLO_SDY_RESULT_SHARDINGS};
    HloModule *module = remesh->module;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            HloStatus status = map_instruction(remesh, at);
            if (status) return in_the_way(remesh, at, status);
        }
    }
    for (int64_t i = 0; i < remesh->shardy->results.count; i++) {
        const HloNamedSharding *mapped;
        HLO_TRY(hlo_status_annotate(map_named(remesh, remesh->shardy->results.items[i].sharding->named, &mapped),
                                    HLO_SDY_RESULT_SHARDINGS));
    }
    for (int64_t i = 0; i < module->frontend_attributes.count; i++) {
        const HloKeyValue *item = &module->frontend_attributes.items[i];
        for (size_t k = 0; k < HLO_COUNT_OF(keys); k++) {
            if (strcmp(item->key, keys[k]) != 0) continue;
            hlo_module_set_frontend_attribute(module, keys[k], map_text(remesh, item->value));
            break;
        }
    }
    return renumber(remesh);
}

static bool same_mesh(const HloMesh *mesh, const SpmdMeshAxis *axes, int64_t count) {
    bool same = mesh->axis_sizes.count == count && !mesh->device_ids.count && !mesh->iota.dims.count;
    for (int64_t i = 0; i < count && same; i++)
        same = mesh->axis_sizes.items[i] == axes[i].size && !strcmp(mesh->axis_names[i], axes[i].name);
    return same;
}

// The new mesh in all of its forms.
static void describe_mesh(Remesh *remesh, const SpmdMeshAxis *axes, int64_t count) {
    HloArena *arena = remesh->module->arena;
    const char **names = HLO_ARENA_NEW(arena, const char *, count);
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, count);
    HloText text = {0};
    for (int64_t i = 0; i < count; i++) {
        names[i] = hlo_arena_text(arena, axes[i].name);
        sizes[i] = axes[i].size;
        hlo_text_string(&text, i ? ", \"" : "\"");
        for (const char *at = axes[i].name; *at; at++) {
            if (*at == '"' || *at == '\\') hlo_text_char(&text, '\\');
            hlo_text_char(&text, *at);
        }
        hlo_text_format(&text, "\"=%lld", (long long)axes[i].size);
    }
    remesh->mesh = (HloMesh){.axis_names = names, .axis_sizes = {sizes, count}};
    remesh->sdy_text = hlo_text_to_arena(remesh->arena, &text);
    remesh->text = spmd_mesh_text(remesh->arena, axes, count);
}

static HloStatus describe_old_mesh(Remesh *remesh) {
    SpmdMeshAxis *axes = HLO_ARENA_NEW(remesh->arena, SpmdMeshAxis, remesh->old->axis_sizes.count);
    for (int64_t i = 0; i < remesh->old->axis_sizes.count; i++)
        axes[i] = (SpmdMeshAxis){remesh->old->axis_names[i], remesh->old->axis_sizes.items[i]};
    return spmd_mesh_new(remesh->arena, axes, remesh->old->axis_sizes.count, &remesh->before);
}

// Fills *result with the changed copy, which the caller frees, also after an error.
HloStatus spmd_mesh_apply(HloArena *arena, const HloModule *module, const SpmdMeshAxis *axes, int64_t count,
                          HloModule **result) {
    assert(arena && module && axes && count > 0 && result);
    const SpmdShardy *shardy;
    *result = NULL;
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "the module has no entry computation");
    HLO_TRY(spmd_shardy_read(arena, module, &shardy));
    const HloMesh *named = program_mesh(module, shardy);
    if (named ? same_mesh(named, axes, count) : !spmd_has_device_lists(module)) return HLO_SUCCESS;
    Remesh remesh = {.arena = arena};
    HLO_TRY(spmd_mesh_new(arena, axes, count, &remesh.after));
    *result = remesh.module = hlo_module_clone(module);
    HLO_FAIL_IF(!remesh.module, HLO_RESOURCE_EXHAUSTED, "no memory to copy the program");
    HLO_TRY(spmd_shardy_read(arena, remesh.module, &remesh.shardy));
    describe_mesh(&remesh, axes, count);
    remesh.old = program_mesh(remesh.module, remesh.shardy);
    if (!remesh.old) return check_lists(&remesh);
    HLO_TRY(describe_old_mesh(&remesh));
    HLO_TRY(map_module(&remesh));
    if (remesh.module->num_partitions > 1) remesh.module->num_partitions = remesh.after->device_count;
    return HLO_SUCCESS;
}

HloStatus spmd_spec_text(HloArena *arena, const SpmdMeshAxis *axes, int64_t count, const HloSharding *sharding,
                         int64_t rank, const char **text) {
    assert(arena && sharding && rank >= 0 && text);
    const SpmdMesh *mesh;
    SpmdAnnotation annotation;
    HloText out = {0};
    HLO_TRY(spmd_mesh_new(arena, axes, count, &mesh));
    HLO_TRY(spmd_annotation_from_hlo(arena, mesh, sharding, rank, &annotation));
    HLO_FAIL_IF(annotation.devices, HLO_INVALID_ARGUMENT, "a device order that the mesh %s does not express",
                spmd_mesh_text(arena, axes, count));
    for (int64_t d = 0; d < rank; d++) {
        if (d) hlo_text_char(&out, ',');
        if (annotation.sharding->dims[d].count)
            spmd_axes_print(&out, mesh, &annotation.sharding->dims[d]);
        else
            hlo_text_char(&out, '-');
    }
    *text = hlo_text_to_arena(arena, &out);
    return HLO_SUCCESS;
}
