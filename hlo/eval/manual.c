// SPDX-License-Identifier: Apache-2.0
// Manual (shard_map) regions of a program that is not partitioned yet. Every device runs the whole program on whole
// arrays; inside a region each has its own shard, and collectives are real. The annotations at the boundary of the
// region determine the shard of each device: `Sharding` custom calls, or the xla.sdy attributes of Shardy's form.
//
// This makes a partitioned program comparable with its source. The partitioner reads the same boundaries, so the
// evaluator must read them with code of its own, or both could be wrong in the same way. For the same reason Shardy's
// text is parsed here once more, in its simplest form. When an unpartitioned program is evaluated this text has not
// been verified: its numbers are checked against the devices of the run before they are used to divide or count, and
// anything else is rejected as "this sharding".
//
// All devices leave a region together (hlo_eval_meet): the whole array is assembled from the shards of the devices
// along the axes that stop being manual there. All other axes distinguish groups: along those of an enclosing region
// devices hold different whole arrays, and along automatic axes the same one. Replicas should agree; if a program makes
// them differ, the whole group takes the value of its lowest device.
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/eval/internal.h"
#include "hlo/ir/custom_call.h"

#define MAX_RANK 32
#define MAX_AXES 32

// The position of one device's part of an array: part `index` of `count` in every dimension. Parts of one array have
// the same `group`, the position along all axes except those that are manual in this region only.
typedef struct Part {
    int64_t index[MAX_RANK], count[MAX_RANK];
    int64_t group;
} Part;

static HloStatus refuse(const HloInstruction *instruction, const char *what) {
    return hlo_error(HLO_UNIMPLEMENTED, "%%%s: a manual region whose boundary has %s cannot be evaluated",
                     instruction->name, what);
}

// ---- annotations in HLO form

// The position of `device` in an order of `count` devices; -1 if it is not there.
static int64_t position_of(HloArena *arena, const HloIotaDevices *iota, HloInts devices, int64_t count,
                           int64_t device) {
    assert(device >= 0 && count > 0);
    if (iota->dims.count == 0 && devices.count == 0) return device < count ? device : -1;
    const int64_t *order = devices.items;
    if (iota->dims.count > 0) {
        int64_t *expanded = hlo_arena_allocate(arena, hlo_array_bytes((size_t)count, sizeof(int64_t)));
        hlo_iota_devices_expand(iota, expanded);
        order = expanded;
    }
    for (int64_t i = 0; i < count; i++) {
        if (order[i] == device) return i;
    }
    return -1;
}

static bool tiled_part(HloArena *arena, const HloSharding *sharding, int64_t rank, int64_t device, Part *part) {
    assert(sharding->kind == HLO_SHARDING_TILED);
    assert(rank >= 0 && device >= 0);
    HloInts tile = sharding->tile_dims;
    int64_t count = 1;
    for (int64_t i = 0; i < tile.count; i++) count *= tile.items[i];
    int64_t position = position_of(arena, &sharding->iota, sharding->devices, count, device);
    if (position < 0 || tile.count < rank) return false;
    for (int64_t i = tile.count - 1; i >= 0; i--) {
        if (i < rank) {
            part->index[i] = position % tile.items[i];
            part->count[i] = tile.items[i];
        }
        position /= tile.items[i];
    }
    return true;
}

// The position of `device` along the manual axes of a tiling, or along all others; -1 if the tiling does not have it.
static int64_t tiled_place(HloArena *arena, const HloSharding *sharding, int64_t device, bool manual) {
    assert(sharding->kind == HLO_SHARDING_TILED);
    HloInts tile = sharding->tile_dims;
    int64_t count = 1, place = 0;
    for (int64_t i = 0; i < tile.count; i++) count *= tile.items[i];
    int64_t position = position_of(arena, &sharding->iota, sharding->devices, count, device);
    if (position < 0) return -1;
    for (int64_t i = tile.count - 1; i >= 0; i--) {
        const int64_t kind = i - (tile.count - sharding->subgroup_count);
        const bool is_manual = kind >= 0 && sharding->subgroups[kind] == HLO_SHARDING_MANUAL;
        if (is_manual == manual) place = place * tile.items[i] + position % tile.items[i];
        position /= tile.items[i];
    }
    return place;
}

// The coordinate of a device at mesh position `position` along one axis or part of it.
static void axis_part(const int64_t *sizes, int64_t axes, int64_t position, int64_t axis, int64_t pre, int64_t size,
                      int64_t *index, int64_t *count) {
    for (int64_t i = axes - 1; i > axis; i--) position /= sizes[i];
    int64_t coordinate = position % sizes[axis];
    if (size > 0) coordinate = coordinate / (sizes[axis] / (pre * size)) % size;
    int64_t steps = size > 0 ? size : sizes[axis];
    *index = *index * steps + coordinate;
    *count *= steps;
}

// The position of `device` in the mesh of a sharding; -1 if it is not there.
static int64_t mesh_position(HloArena *arena, const HloMesh *mesh, int64_t device) {
    int64_t count = 1;
    for (int64_t i = 0; i < mesh->axis_sizes.count; i++) count *= mesh->axis_sizes.items[i];
    return position_of(arena, &mesh->iota, mesh->device_ids, count, device);
}

static bool named_part(HloArena *arena, const HloNamedSharding *named, int64_t rank, int64_t device, Part *part) {
    assert(rank >= 0 && device >= 0);
    if (named->whole == HLO_SHARDING_REPLICATED) return true;
    const HloMesh *mesh = &named->mesh;
    int64_t position = mesh_position(arena, mesh, device);
    if (position < 0) return false;
    for (int64_t d = 0; d < rank && d < named->dim_count; d++) {
        for (int64_t a = 0; a < named->dims[d].count; a++) {
            HloAxisRef ref = named->dims[d].items[a];
            axis_part(mesh->axis_sizes.items, mesh->axis_sizes.count, position, ref.axis, ref.pre_size, ref.size,
                      &part->index[d], &part->count[d]);
        }
    }
    return true;
}

// The position along some axes (or parts of them) of a position in the whole mesh.
static int64_t place_along(const HloMesh *mesh, HloAxisRefs axes, int64_t position) {
    int64_t place = 0, count = 1;
    for (int64_t i = 0; i < axes.count; i++)
        axis_part(mesh->axis_sizes.items, mesh->axis_sizes.count, position, axes.items[i].axis, axes.items[i].pre_size,
                  axes.items[i].size, &place, &count);
    return place;
}

// As tiled_place(). Along the other axes it is the number of earlier devices with the same manual position.
static int64_t named_place(HloArena *arena, const HloNamedSharding *named, int64_t device, bool manual) {
    int64_t position = mesh_position(arena, &named->mesh, device);
    if (position < 0) return -1;
    int64_t place = place_along(&named->mesh, named->manual, position);
    if (manual) return place;
    int64_t before = 0;
    for (int64_t i = 0; i < position; i++) before += place_along(&named->mesh, named->manual, i) == place;
    return before;
}

// The position of the device along the manual axes of a sharding, or along all others. 0 if it has no manual axes.
static int64_t place_of(HloEvalDevice *device, const HloSharding *sharding, bool manual) {
    if (!sharding) return 0;
    int64_t place = 0;
    HloShardingKind kind = sharding->kind;
    if (kind == HLO_SHARDING_NAMED && sharding->named->whole != HLO_SHARDING_TILED) kind = sharding->named->whole;
    if (kind == HLO_SHARDING_MANUAL) return manual ? device->number : 0;
    if (kind == HLO_SHARDING_TILED) place = tiled_place(device->scratch, sharding, device->number, manual);
    if (kind == HLO_SHARDING_NAMED) place = named_place(device->scratch, sharding->named, device->number, manual);
    return place < 0 ? 0 : place;  // a device that the sharding does not have is rejected when its part is computed
}

static bool has_manual(const HloSharding *sharding) {
    if (sharding->kind == HLO_SHARDING_NAMED)
        return sharding->named->whole == HLO_SHARDING_MANUAL || sharding->named->manual.count;
    for (int64_t i = 0; i < sharding->subgroup_count; i++)
        if (sharding->subgroups[i] == HLO_SHARDING_MANUAL) return true;
    return sharding->kind == HLO_SHARDING_MANUAL;
}

// The group of devices that assemble one array where `instruction` leaves a region. The sharding of its operand defines
// the axes that are manual inside, its own those that still are.
static int64_t group_of(HloEvalDevice *device, const HloInstruction *instruction) {
    const HloSharding *inside = instruction->operands[0]->sharding;
    int64_t outer = place_of(device, instruction->sharding, true);
    if (inside && has_manual(inside)) return outer * device->world->device_count + place_of(device, inside, false);
    // Nothing is manual inside: all axes of the region have one device, and shards are whole arrays.
    if (hlo_shape_equal(instruction->shape, instruction->operands[0]->shape, HLO_COMPARE_IGNORE_LAYOUT))
        return device->number;
    return outer;
}

// One part of one in every dimension: replication.
static Part whole_part(void) {
    Part part = {.group = 0};
    for (int64_t i = 0; i < MAX_RANK; i++) part.count[i] = 1;
    return part;
}

static HloStatus sharding_part(HloEvalDevice *device, const HloInstruction *instruction, const HloSharding *sharding,
                               int64_t rank, Part *part) {
    assert(part);
    *part = whole_part();
    if (!sharding) return refuse(instruction, "no sharding");
    bool known;
    switch (sharding->kind) {
        case HLO_SHARDING_REPLICATED: known = true; break;
        case HLO_SHARDING_TILED: known = tiled_part(device->scratch, sharding, rank, device->number, part); break;
        case HLO_SHARDING_NAMED:
            known = named_part(device->scratch, sharding->named, rank, device->number, part);
            break;
        default: known = false;
    }
    return known ? HLO_SUCCESS : refuse(instruction, "this sharding");
}

// ---- annotations in Shardy's text: #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y":(1)2, "z"}]>, …]>

typedef struct SdyMesh {
    int64_t axes, devices;
    const char *names[MAX_AXES];
    int64_t lengths[MAX_AXES], sizes[MAX_AXES];
} SdyMesh;

static const char *skip_to(const char *text, const char *wanted) {
    const char *found = text ? strstr(text, wanted) : NULL;
    return found ? found + strlen(wanted) : NULL;
}

// Reads `"name"` at or after `text` but before `end`; returns the position after it, or NULL.
static const char *read_name(const char *text, const char *end, const char **name, int64_t *length) {
    while (text < end && *text != '"') text++;
    if (text >= end) return NULL;
    *name = ++text;
    while (text < end && *text != '"' && *text != '\\') text++;
    *length = text - *name;
    while (text < end && *text != '"') text++;
    return text < end ? text + 1 : NULL;
}

static const char *module_attribute(const HloModule *module, const char *key) {
    for (int64_t i = 0; i < module->frontend_attributes.count; i++) {
        if (!strcmp(module->frontend_attributes.items[i].key, key)) return module->frontend_attributes.items[i].value;
    }
    return NULL;
}

// Finds the mesh called `name` in {name = #sdy.mesh<["x"=2, "y"=2]>, …}. Meshes with device orders of their own are
// rejected, and so are sizes whose product exceeds the `most` devices of the run: the text is not verified, and its
// numbers are used as divisors.
static bool find_mesh(const HloModule *module, const char *name, size_t length, int64_t most, SdyMesh *mesh) {
    const char *text = module_attribute(module, "xla.sdy.meshes");
    *mesh = (SdyMesh){.devices = 1};
    for (const char *at = text; at && *at; at++) {
        bool starts = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (!starts || strncmp(at, name, length) || (at[length] != ' ' && at[length] != '=')) continue;
        const char *list = skip_to(at, "<["), *end = list ? strchr(list, ']') : NULL;
        if (!end || end[1] != '>') return false;
        while (list && list < end && mesh->axes < MAX_AXES) {
            list = read_name(list, end, &mesh->names[mesh->axes], &mesh->lengths[mesh->axes]);
            while (list && list < end && !isdigit((unsigned char)*list)) list++;
            if (!list || list >= end) break;
            const int64_t size = list[-1] == '-' ? -1 : strtoll(list, NULL, 10);
            if (size < 1 || size > most / mesh->devices) return false;
            mesh->sizes[mesh->axes++] = size;
            mesh->devices *= size;
        }
        return true;
    }
    return false;
}

// The axis of that name; `mesh->axes` if there is none.
static int64_t find_axis(const SdyMesh *mesh, const char *name, int64_t length) {
    int64_t axis = 0;
    while (axis < mesh->axes && (mesh->lengths[axis] != length || strncmp(mesh->names[axis], name, (size_t)length)))
        axis++;
    return axis;
}

// The device's position in the mesh without its coordinates along the axes that are manual in this region:
// #sdy<manual_axes{"x", "y"}>. False if the mesh lacks one of them.
static bool sdy_group(const HloInstruction *instruction, const SdyMesh *mesh, int64_t device, int64_t *group) {
    const char *text = skip_to(hlo_instruction_frontend_attribute(instruction, "xla.sdy.manual_axes"), "{");
    const char *end = text ? strchr(text, '}') : NULL, *name;
    int64_t length;
    *group = end ? device : 0;
    while (end && (text = read_name(text, end, &name, &length))) {
        int64_t axis = find_axis(mesh, name, length), index = 0, count = 1, stride = 1;
        if (axis == mesh->axes) return false;
        axis_part(mesh->sizes, mesh->axes, device, axis, 1, 0, &index, &count);
        for (int64_t i = axis + 1; i < mesh->axes; i++) stride *= mesh->sizes[i];
        *group -= index * stride;
    }
    return true;
}

// One dimension `{"x", "y":(1)2, ?}` between `text` and `end`.
static bool read_dimension(const SdyMesh *mesh, const char *text, const char *end, int64_t device, int64_t *index,
                           int64_t *count) {
    const char *name;
    int64_t length;
    while ((text = read_name(text, end, &name, &length))) {
        int64_t axis = find_axis(mesh, name, length), pre = 1, size = 0;
        if (axis == mesh->axes) return false;
        if (text + 1 < end && text[0] == ':' && text[1] == '(') {
            char *rest;
            pre = strtoll(text + 2, &rest, 10);
            size = strtoll(rest + 1, NULL, 10);
            if (pre < 1 || size < 1 || pre > mesh->sizes[axis] / size || mesh->sizes[axis] % (pre * size)) return false;
        }
        axis_part(mesh->sizes, mesh->axes, device, axis, pre, size, index, count);
        if (*count > mesh->devices) return false;  // an axis occurs more than once
    }
    return true;
}

// Sharding number `value` of the list.
static HloStatus sdy_part(HloEvalDevice *device, const HloInstruction *instruction, const char *key, int64_t value,
                          int64_t rank, Part *part) {
    *part = whole_part();
    const char *text = skip_to(hlo_instruction_frontend_attribute(instruction, key), "[");
    if (text && strstr(text, "<mesh<")) return refuse(instruction, "a mesh with an explicit device list");
    for (int64_t i = 0; i <= value && text; i++) text = skip_to(text, "<@");
    const char *comma = text ? strchr(text, ',') : NULL;
    SdyMesh mesh;
    const int64_t most = device->world->device_count;
    if (!comma || !find_mesh(device->world->module, text, (size_t)(comma - text), most, &mesh)) {
        return refuse(instruction, "this sharding");
    }
    text = comma;
    for (int64_t d = 0; d < rank; d++) {
        text = skip_to(text, "{");
        const char *end = text ? strchr(text, '}') : NULL;
        if (!end || !read_dimension(&mesh, text, end, device->number, &part->index[d], &part->count[d])) {
            return refuse(instruction, "this sharding");
        }
        text = end;
    }
    if (!sdy_group(instruction, &mesh, device->number, &part->group)) return refuse(instruction, "this sharding");
    return HLO_SUCCESS;
}

// ---- taking apart and putting together

// Drops the automatic axes from a part, since the region does not split arrays along them. Manual axes come first in
// the list of a dimension, and the shapes give the number of pieces that they make.
static HloStatus fit_part(const HloInstruction *instruction, const HloShape *whole, const HloShape *shard, Part *part) {
    for (int32_t i = 0; i < whole->rank; i++) {
        const int64_t size = shard->dims[i], pieces = size ? whole->dims[i] / size : 1;
        if (size * pieces != whole->dims[i] || part->count[i] % pieces)
            return refuse(instruction, "shards that do not cover the array");
        part->index[i] /= part->count[i] / pieces;
        part->count[i] = pieces;
    }
    return HLO_SUCCESS;
}

static void copy_part(const HloShape *whole, char *array, const HloShape *shard, char *piece, const Part *part,
                      bool out) {
    assert(whole->rank == shard->rank);
    int64_t whole_strides[MAX_RANK], strides[MAX_RANK], offset = 0, bytes = hlo_type_bytes(whole->type);
    hlo_eval_strides(whole->dims, whole->rank, whole_strides);
    hlo_eval_strides(shard->dims, shard->rank, strides);
    for (int32_t i = 0; i < whole->rank; i++) offset += part->index[i] * shard->dims[i] * whole_strides[i];
    if (hlo_shape_elements(shard) == 0) return;
    char *place = array + offset * bytes;
    hlo_eval_copy_strided(out ? piece : place, out ? strides : whole_strides, out ? place : piece,
                          out ? whole_strides : strides, shard->dims, whole->rank, bytes);
}

static HloStatus take_part(HloEvalDevice *device, const HloInstruction *instruction, const HloEvalValue *whole,
                           const HloShape *shard, Part *part, HloEvalValue **result) {
    assert(whole->shape->rank <= MAX_RANK); /* border_part() comes first, and the shard has as many dimensions */
    HLO_TRY(fit_part(instruction, whole->shape, shard, part));
    HLO_TRY(hlo_eval_new(device, shard, result));
    copy_part(whole->shape, whole->data, shard, (*result)->data, part, true);
    return HLO_SUCCESS;
}

// The sharding at the boundary that value `value` of the instruction crosses.
static HloStatus border_part(HloEvalDevice *device, const HloInstruction *instruction, int64_t value, int64_t rank,
                             Part *part) {
    if (rank > MAX_RANK) return refuse(instruction, "too many dimensions");
    const bool enters = hlo_custom_call_kind(instruction) == HLO_CALL_FULL_TO_SHARD;
    // Shardy's boundaries list the shardings of their values in an attribute, GSPMD's are annotated.
    if (!strncmp(HLO_ATTRIBUTES(instruction, CustomCall)->target, "xla.sdy.", strlen("xla.sdy."))) {
        const char *name = enters ? "xla.sdy.in_shardings" : "xla.sdy.out_shardings";
        return sdy_part(device, instruction, name, value, rank, part);
    }
    HLO_TRY(sharding_part(device, instruction, enters ? instruction->operands[0]->sharding : instruction->sharding,
                          rank, part));
    if (!enters) part->group = group_of(device, instruction);
    return HLO_SUCCESS;
}

// Outside of manual runs (a program that is already per device) shapes do not change at the boundary.
static HloStatus pass_on(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                         HloEvalValue **result) {
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        if (!hlo_shape_equal(hlo_shape_value(instruction->shape, k), instruction->operands[k]->shape,
                             HLO_COMPARE_IGNORE_LAYOUT)) {
            return hlo_error(HLO_UNIMPLEMENTED, "%%%s: a manual region needs the devices of its mesh; the run has %lld",
                             instruction->name, (long long)device->world->device_count);
        }
    }
    if (instruction->shape->type == HLO_TUPLE) {
        return hlo_eval_new_tuple(device, instruction->shape, operands, instruction->operand_count, result);
    }
    *result = hlo_eval_take(operands, 0);
    return HLO_SUCCESS;
}

HloStatus hlo_eval_call_full_to_shard(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                      HloEvalValue **result) {
    if (!device->world->manual_regions) return pass_on(device, instruction, operands, result);
    bool tuple = instruction->shape->type == HLO_TUPLE;
    if (tuple) HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        const HloShape *shard = hlo_shape_value(instruction->shape, k);
        Part part;
        HLO_TRY(border_part(device, instruction, k, shard->rank, &part));
        HLO_TRY(take_part(device, instruction, operands[k], shard, &part, tuple ? &(*result)->elements[k] : result));
    }
    return HLO_SUCCESS;
}

// Assembles value `value` from the shards of one group.
static HloStatus gather_group(const HloInstruction *instruction, HloEvalParty *parties, const Part *parts,
                              int64_t count, int64_t value, HloEvalParty *first, HloEvalValue **result) {
    const HloShape *whole = hlo_shape_value(instruction->shape, value);
    HLO_TRY(hlo_eval_new_zeroed(first->device, whole, result));
    for (int64_t from = count - 1; from >= 0; from--) {  // replicas agree; otherwise the first device's value wins
        const HloEvalValue *shard = parties[from].operands[value];
        Part part = parts[from];
        if (part.group != parts[first - parties].group) continue;
        HLO_TRY(fit_part(instruction, whole, shard->shape, &part));
        copy_part(whole, (*result)->data, shard->shape, shard->data, &part, false);
    }
    return HLO_SUCCESS;
}

// Gives every device the whole of value `value`, assembled from the parts of its group.
static HloStatus gather_value(const HloInstruction *instruction, HloEvalParty *parties, int64_t count, int64_t value,
                              HloEvalValue **wholes) {
    HloEvalDevice *device = parties[0].device;
    Part *parts = HLO_EVAL_SCRATCH(device, Part, count);
    for (int64_t p = 0; p < count; p++)
        HLO_TRY(border_part(parties[p].device, instruction, value, hlo_shape_value(instruction->shape, value)->rank,
                            &parts[p]));
    for (int64_t p = 0; p < count; p++) {
        int64_t same = 0;
        while (parts[same].group != parts[p].group) same++;
        if (same < p)
            HLO_TRY(hlo_eval_copy_value(parties[p].device, wholes[same], &wholes[p]));
        else
            HLO_TRY(gather_group(instruction, parties, parts, count, value, &parties[p], &wholes[p]));
    }
    return HLO_SUCCESS;
}

static HloStatus exchange_full(HloEvalDevice *device, const HloInstruction *instruction, HloEvalParty *parties,
                               int64_t count) {
    assert(count > 0 && parties);
    bool tuple = instruction->shape->type == HLO_TUPLE;
    for (int64_t p = 0; p < count && tuple; p++) {
        HLO_TRY(hlo_eval_new(parties[p].device, instruction->shape, &parties[p].result));
    }
    HloEvalValue **wholes = HLO_EVAL_SCRATCH(device, HloEvalValue *, count);
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        HLO_TRY(gather_value(instruction, parties, count, k, wholes));
        for (int64_t p = 0; p < count; p++) {
            if (tuple) {
                parties[p].result->elements[k] = wholes[p];
            } else {
                parties[p].result = wholes[p];
            }
        }
    }
    return HLO_SUCCESS;
}

HloStatus hlo_eval_call_shard_to_full(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                      HloEvalValue **result) {
    HloEvalWorld *world = device->world;
    if (!world->manual_regions) return pass_on(device, instruction, operands, result);
    int64_t *all = HLO_EVAL_SCRATCH(device, int64_t, world->device_count);
    for (int64_t d = 0; d < world->device_count; d++) all[d] = d;
    HloInts group = {.items = all, .count = world->device_count};
    return hlo_eval_meet(device, instruction, group, operands, exchange_full, result);
}
