// SPDX-License-Identifier: Apache-2.0
// Shardings: sdy attributes as tilings (the V2 form that HLO prints). The operations are in sdy.c.
// Shardy's model names axes of a mesh; HLO's annotation is a tiling: how many tiles each dimension has, and which
// device has which. The way from one to the other (sdy's own: shardy/dialect/sdy/transforms/export, spmd's:
// xla/service/spmd/shardy/ stablehlo_round_trip) is: cut the mesh's axes where any reference cuts them, put the parts
// in the order dimension by dimension, then manual, unreduced and unused ones, and number devices through a transposed
// iota. What the tiling loses (open dimensions, priorities, names) is kept as text beside it, for partitioners that
// read Shardy.
#include <assert.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "hlo/stablehlo/import/import.h"
#include "hlo/text/text.h"

// ---------------------------------------------------------------------------------------------------------------------
// Meshes

// Axes are compared each with each; real meshes have less than ten. The devices of a mesh may be written out one by
// one; the verifier sets the same limit to shardings (verify/attributes.c).
enum { MOST_AXES = 1024, MOST_DEVICES = 1 << 24 };

// A mesh cut into the parts that one sharding names: each part is an axis or a piece of one, in mesh order.
typedef struct MeshPart {
    const char *axis;
    int64_t pre_size, size;
} MeshPart;

typedef struct CutMesh {
    HLO_VECTOR(MeshPart) parts;
    HloInts device_ids;
    int64_t device_count;
} CutMesh;

// A mesh that is written out stands for itself; a name is looked up in the module. NULL if there is none.
static const MlirAttribute *find_mesh(const Importer *importer, const MlirAttribute *mesh) {
    if (!mesh) return NULL;
    if (mesh->kind == MLIR_SDY) return mesh;
    for (int64_t i = 0; mesh->string && i < importer->mesh_count; i++) {
        const MlirAttribute *name = mlir_attribute(importer->meshes[i], "sym_name");
        if (name && name->string && strcmp(name->string, mesh->string) == 0) {
            return mlir_attribute(importer->meshes[i], "mesh");
        }
    }
    return NULL;
}

// Notes where an axis reference cuts its axis.
static void note_cut(HloArena *arena, const MlirAttribute *axis, const char *name, HloInt64Vector *cuts) {
    assert(axis && name && cuts);
    if (axis->code != MLIR_SDY_AXIS_REF || !axis->string || strcmp(axis->string, name) != 0) return;
    if (axis->count == 0 || axis->items[0]->ints.count != 2) return;
    int64_t pre = axis->items[0]->ints.items[0];
    hlo_vector_push(arena, cuts, pre);
    hlo_vector_push(arena, cuts, pre * axis->items[0]->ints.items[1]);
}

// All references of a list: a dimension's axes, or the replicated or unreduced ones.
static void note_list(HloArena *arena, const MlirAttribute *list, const char *name, HloInt64Vector *cuts) {
    for (int64_t i = 0; list && i < list->count; i++) note_cut(arena, list->items[i], name, cuts);
}

// Cuts are numbers of devices before a step; sorted, each has to divide the next, or the parts are no product of the
// axis.
static HloStatus cut_axis(HloArena *arena, const MlirAttribute *sharding, const char *name, int64_t size,
                          CutMesh *mesh) {
    assert(size > 0 && mesh);
    HloInt64Vector cuts = {0};
    const MlirAttribute *dims = sharding->items[1];
    for (int64_t i = 0; dims && i < dims->count; i++) note_list(arena, dims->items[i], name, &cuts);
    note_list(arena, sharding->items[2], name, &cuts);
    note_list(arena, sharding->items[3], name, &cuts);
    for (int64_t position = 1; position < size;) {
        int64_t next = size;
        for (int64_t i = 0; i < cuts.count; i++) {
            if (cuts.items[i] > position && cuts.items[i] < next) next = cuts.items[i];
        }
        HLO_FAIL_IF(next % position || size % next, HLO_INVALID_ARGUMENT,
                    "axis \"%s\" of size %lld cannot be cut at %lld", name, (long long)size, (long long)next);
        hlo_vector_push(arena, &mesh->parts, ((MeshPart){name, position, next / position}));
        position = next;
    }
    return HLO_SUCCESS;
}

// The axis of the mesh that is called so, or NULL.
static const MlirAttribute *axis_of(const MlirAttribute *mesh, const char *name) {
    for (int64_t i = 0; i < mesh->count; i++) {
        const MlirAttribute *axis = mesh->items[i];
        if (axis && axis->string && strcmp(axis->string, name) == 0) return axis;
    }
    return NULL;
}

// True if an axis of size `whole` has the part (pre)size: `pre` devices come before a step along it, `size` are in it.
// "x":(2)3 of an axis of 12 is the middle digit of the device's number along it, written in digits of 2, 3 and 2.
static bool has_part(int64_t whole, const MlirAttribute *part) {
    if (!part || part->ints.count != 2) return false;
    const int64_t pre = part->ints.items[0], size = part->ints.items[1];
    return pre >= 1 && size >= 1 && whole >= 1 && pre <= whole && size <= whole / pre && whole % (pre * size) == 0;
}

// A list of axis references names axes of the mesh; `whole` has those that were there as a whole before.
static HloStatus check_list(HloArena *arena, const MlirAttribute *mesh, const MlirAttribute *list,
                            HloStringVector *whole) {
    assert(mesh && whole);
    for (int64_t i = 0; list && i < list->count; i++) {
        const MlirAttribute *axis = list->items[i];
        if (!axis || axis->code != MLIR_SDY_AXIS_REF || !axis->string) continue;
        const MlirAttribute *whole_axis = axis_of(mesh, axis->string);
        HLO_FAIL_IF(!whole_axis, HLO_INVALID_ARGUMENT, "a sharding names the axis \"%s\", which its mesh does not have",
                    axis->string);
        const int64_t size = whole_axis->ints.count == 1 ? whole_axis->ints.items[0] : 0;
        HLO_FAIL_IF(axis->count && !has_part(size, axis->items[0]), HLO_INVALID_ARGUMENT,
                    "a part of axis \"%s\" does not fit it", axis->string);
        if (axis->count) continue;  // part of an axis: others may be elsewhere
        for (int64_t k = 0; k < whole->count; k++) {
            HLO_FAIL_IF(strcmp(whole->items[k], axis->string) == 0, HLO_INVALID_ARGUMENT,
                        "a sharding names the axis \"%s\" twice", axis->string);
        }
        hlo_vector_push(arena, whole, axis->string);
    }
    return HLO_SUCCESS;
}

// An axis may stand in one place of a sharding only.
static HloStatus check_axes(HloArena *arena, const MlirAttribute *mesh, const MlirAttribute *sharding) {
    HloStringVector whole = {0};
    const MlirAttribute *dims = sharding->items[1];
    for (int64_t i = 0; dims && i < dims->count; i++) HLO_TRY(check_list(arena, mesh, dims->items[i], &whole));
    HLO_TRY(check_list(arena, mesh, sharding->items[2], &whole));
    return check_list(arena, mesh, sharding->items[3], &whole);
}

// Sizes are multiplied with a limit, as the device list may be written out below.
static HloStatus cut_mesh(Importer *importer, const MlirAttribute *sharding, CutMesh *mesh) {
    const MlirAttribute *found = find_mesh(importer, sharding->items[0]);
    HLO_FAIL_IF(!found || found->kind != MLIR_SDY || found->code != MLIR_SDY_MESH, HLO_INVALID_ARGUMENT,
                "a sharding names a mesh that does not exist");
    HLO_FAIL_IF(found->count > MOST_AXES, HLO_INVALID_ARGUMENT, "a mesh has more than %d axes", MOST_AXES);
    HLO_TRY(check_axes(importer->module->arena, found, sharding));
    mesh->device_ids = found->ints;
    mesh->device_count = 1;
    for (int64_t i = 0; i < found->count; i++) {
        const MlirAttribute *axis = found->items[i];
        HLO_FAIL_IF(!axis || axis->code != MLIR_SDY_MESH_AXIS || axis->ints.count != 1 || axis->ints.items[0] < 1,
                    HLO_INVALID_ARGUMENT, "a mesh axis has no size");
        HLO_FAIL_IF(__builtin_mul_overflow(mesh->device_count, axis->ints.items[0], &mesh->device_count) ||
                        mesh->device_count > MOST_DEVICES,
                    HLO_INVALID_ARGUMENT, "a mesh has too many devices");
        HLO_TRY(
            cut_axis(importer->module->arena, sharding, axis->string ? axis->string : "", axis->ints.items[0], mesh));
    }
    HLO_FAIL_IF(mesh->device_ids.count > 1 && mesh->device_ids.count != mesh->device_count, HLO_INVALID_ARGUMENT,
                "a mesh of %lld devices lists %lld", (long long)mesh->device_count, (long long)mesh->device_ids.count);
    return HLO_SUCCESS;
}

// The axis that a reference names, checked against the mesh.
static HloStatus find_axis(const ImportPlace *place, const MlirAttribute *ref, const HloMesh *mesh, HloAxisRef *axis) {
    assert(mesh && axis);
    if (!ref || ref->kind != MLIR_SDY || ref->code != MLIR_SDY_AXIS_REF || !ref->string) {
        return import_error(place, HLO_INVALID_ARGUMENT, "replica_groups has an axis that is none");
    }
    int64_t index = 0;
    while (index < mesh->axis_sizes.count && strcmp(mesh->axis_names[index], ref->string) != 0) index++;
    if (index == mesh->axis_sizes.count) {
        return import_error(place, HLO_INVALID_ARGUMENT, "replica_groups has the axis \"%s\", which the mesh has not",
                            ref->string);
    }
    *axis = (HloAxisRef){.axis = index, .pre_size = 1};
    if (ref->count == 0) return HLO_SUCCESS;
    if (!has_part(mesh->axis_sizes.items[index], ref->items[0]))
        return import_error(place, HLO_INVALID_ARGUMENT, "a part of axis \"%s\" does not fit it", ref->string);
    axis->pre_size = ref->items[0]->ints.items[0];
    axis->size = ref->items[0]->ints.items[1];
    return HLO_SUCCESS;
}

// #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [x, y:(1)2]> becomes HLO's groups over a mesh of its own: the
// mesh is looked up by name and copied, axes become numbers.
HloStatus import_mesh_groups(const ImportPlace *place, const MlirAttribute *attribute,
                             const HloReplicaGroups **result) {
    assert(attribute->kind == MLIR_MESH_GROUPS && attribute->count == 2 && result);
    const MlirAttribute *mesh = find_mesh(place->importer, attribute->items[0]), *axes = attribute->items[1];
    if (!mesh || mesh->kind != MLIR_SDY || mesh->code != MLIR_SDY_MESH || !axes || axes->kind != MLIR_ARRAY) {
        return import_error(place, HLO_INVALID_ARGUMENT, "replica_groups names a mesh that does not exist");
    }
    HloArena *arena = import_arena(place);
    HloReplicaGroups *groups = HLO_ARENA_NEW(arena, HloReplicaGroups, 1);
    const char **names = HLO_ARENA_NEW(arena, const char *, mesh->count);
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, mesh->count), total = 1;
    for (int64_t i = 0; i < mesh->count; i++) {
        const MlirAttribute *axis = mesh->items[i];
        bool fits = axis && axis->code == MLIR_SDY_MESH_AXIS && axis->string && axis->ints.count == 1 &&
                    axis->ints.items[0] >= 1 && !__builtin_mul_overflow(total, axis->ints.items[0], &total) &&
                    total <= MOST_DEVICES;
        if (!fits) return import_error(place, HLO_INVALID_ARGUMENT, "an axis of the mesh has no size that fits");
        names[i] = hlo_arena_text(arena, axis->string);
        sizes[i] = axis->ints.items[0];
    }
    if (mesh->ints.count && mesh->ints.count != total)
        return import_error(place, HLO_INVALID_ARGUMENT, "a mesh of %lld devices lists %lld", (long long)total,
                            (long long)mesh->ints.count);
    groups->form = HLO_GROUPS_MESH;
    groups->mesh = (HloMesh){
        .axis_names = names, .axis_sizes = {sizes, mesh->count}, .device_ids = hlo_ints_copy(arena, mesh->ints)};
    HloAxisRef *refs = HLO_ARENA_NEW(arena, HloAxisRef, axes->count);
    for (int64_t i = 0; i < axes->count; i++) HLO_TRY(find_axis(place, axes->items[i], &groups->mesh, &refs[i]));
    groups->axes = refs;
    groups->axis_count = axes->count;
    *result = groups;
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Tilings

// Order of the parts in a tiling: those of each dimension, then manual, then unreduced, then the rest (replicated).
typedef struct Tiling {
    HloInt64Vector order;  // indices of parts
    HloInt64Vector tile_dims;
    HLO_VECTOR(HloShardingKind) subgroups;
    bool *used;
} Tiling;

// Appends the parts of one axis reference; returns the product of their sizes.
static int64_t take_axis(HloArena *arena, const CutMesh *mesh, const MlirAttribute *axis, Tiling *tiling) {
    int64_t low = 1, high = INT64_MAX, product = 1;
    if (!axis || !axis->string) return 1;
    if (axis->count && axis->items[0]->ints.count == 2) {
        low = axis->items[0]->ints.items[0];
        high = low * axis->items[0]->ints.items[1];
    }
    for (int64_t i = 0; i < mesh->parts.count; i++) {
        const MeshPart *part = &mesh->parts.items[i];
        if (strcmp(part->axis, axis->string) != 0 || part->pre_size < low || part->pre_size >= high) continue;
        if (tiling->used[i]) continue;
        tiling->used[i] = true;
        hlo_vector_push(arena, &tiling->order, i);
        product *= part->size;
    }
    return product;
}

// The product is that of a dimension's tiles.
static int64_t take_list(HloArena *arena, const CutMesh *mesh, const MlirAttribute *list, Tiling *tiling) {
    int64_t product = 1;
    for (int64_t i = 0; list && i < list->count; i++) product *= take_axis(arena, mesh, list->items[i], tiling);
    return product;
}

// Manual axes are names without parts.
static int64_t take_names(HloArena *arena, const CutMesh *mesh, const MlirAttribute *names, Tiling *tiling) {
    int64_t product = 1;
    for (int64_t i = 0; names && i < names->count; i++) {
        MlirAttribute axis = {.kind = MLIR_SDY, .string = names->items[i] ? names->items[i]->string : NULL};
        product *= take_axis(arena, mesh, &axis, tiling);
    }
    return product;
}

// In mesh order.
static int64_t take_rest(HloArena *arena, const CutMesh *mesh, Tiling *tiling) {
    int64_t product = 1;
    for (int64_t i = 0; i < mesh->parts.count; i++) {
        if (tiling->used[i]) continue;
        tiling->used[i] = true;
        hlo_vector_push(arena, &tiling->order, i);
        product *= mesh->parts.items[i].size;
    }
    return product;
}

// Trailing dimensions of the tiling that tile nothing but say what the devices in them have in common.
static void push_subgroup(HloArena *arena, Tiling *tiling, int64_t size, HloShardingKind kind) {
    if (size == 1) return;
    hlo_vector_push(arena, &tiling->tile_dims, size);
    hlo_vector_push(arena, &tiling->subgroups, kind);
}

// The devices in tile order: iota over the mesh, transposed; through the mesh's own order if it has one.
static void set_devices(HloArena *arena, const CutMesh *mesh, const Tiling *tiling, HloSharding *sharding) {
    int64_t count = mesh->parts.count;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, count);
    bool identity = true;
    for (int64_t i = 0; i < count; i++) {
        dims[i] = mesh->parts.items[i].size;
        identity &= tiling->order.items[i] == i;
    }
    HloIotaDevices iota = {{dims, count}, {0}};
    if (!identity) iota.permutation = hlo_ints(arena, tiling->order.items, count);
    if (mesh->device_ids.count > 1) {
        int64_t *positions = HLO_ARENA_NEW(arena, int64_t, mesh->device_count);
        hlo_iota_devices_expand(&iota, positions);
        for (int64_t i = 0; i < mesh->device_count; i++) {
            int64_t device = mesh->device_ids.items[positions[i]];
            positions[i] = device;
        }
        sharding->devices = (HloInts){positions, mesh->device_count};
        return;
    }
    hlo_iota_devices_simplify(arena, &iota);
    sharding->iota = iota;
}

// Axes dimension by dimension, then those that are manual, unreduced and unused, each a dimension of tiles.
HloStatus import_tiling(Importer *importer, const MlirAttribute *attribute, const MlirAttribute *manual, int64_t rank,
                        const HloSharding **result) {
    assert(rank >= 0 && result);
    HloArena *arena = importer->module->arena;
    CutMesh mesh = {0};
    // import_sharding() also takes the text of an annotation, which names no axes that could be manual.
    HLO_FAIL_IF(!attribute || attribute->kind != MLIR_SDY || attribute->code != MLIR_SDY_SHARDING, HLO_INVALID_ARGUMENT,
                "a sharding attribute holds something else");
    HLO_TRY(cut_mesh(importer, attribute, &mesh));
    const MlirAttribute *dims = attribute->items[1];
    HLO_FAIL_IF(dims->count != rank && !(mesh.device_count == 1), HLO_INVALID_ARGUMENT,
                "a sharding of %lld dimensions stands at a value of rank %lld", (long long)dims->count,
                (long long)rank);
    if (mesh.parts.count == 0 && mesh.device_ids.count == 1) {
        *result = hlo_sharding_maximal(arena, mesh.device_ids.items[0]);
        return HLO_SUCCESS;
    }
    Tiling tiling = {.used = HLO_ARENA_NEW(arena, bool, mesh.parts.count)};
    int64_t tiles = 1;
    // Manual axes lead in the dimension lists of a region's operands and results, but tile only outside of it.
    int64_t manual_size = 1;
    Tiling inner = {.used = tiling.used};
    if (manual) manual_size = take_names(arena, &mesh, manual, &inner);
    for (int64_t i = 0; i < dims->count; i++) {
        int64_t size = take_list(arena, &mesh, dims->items[i], &tiling);
        hlo_vector_push(arena, &tiling.tile_dims, size);
        tiles *= size;
    }
    for (int64_t i = 0; i < inner.order.count; i++) hlo_vector_push(arena, &tiling.order, inner.order.items[i]);
    int64_t unreduced = take_list(arena, &mesh, attribute->items[3], &tiling);
    int64_t rest = take_rest(arena, &mesh, &tiling);
    HloSharding *sharding = HLO_ARENA_NEW(arena, HloSharding, 1);
    *result = sharding;
    if (tiles == 1 && manual_size == 1 && unreduced == 1) return HLO_SUCCESS;  // replicated
    if (tiles == 1 && rest == 1 && unreduced == 1) {
        sharding->kind = HLO_SHARDING_MANUAL;
        return HLO_SUCCESS;
    }
    sharding->kind = HLO_SHARDING_TILED;
    push_subgroup(arena, &tiling, manual_size, HLO_SHARDING_MANUAL);
    push_subgroup(arena, &tiling, unreduced, HLO_SHARDING_UNREDUCED);
    push_subgroup(arena, &tiling, rest, HLO_SHARDING_REPLICATED);
    if (tiling.subgroups.count == 1 && tiling.subgroups.items[0] == HLO_SHARDING_REPLICATED) {
        sharding->last_tile_dim_replicate = true;
    } else {
        sharding->subgroups = tiling.subgroups.items;
        sharding->subgroup_count = tiling.subgroups.count;
    }
    sharding->tile_dims = (HloInts){tiling.tile_dims.items, tiling.tile_dims.count};
    set_devices(arena, &mesh, &tiling, sharding);
    return HLO_SUCCESS;
}

// mhlo.sharding is text, shared by its text; sdy's attributes are tiled each time, as they depend on the rank.
HloStatus import_sharding(Importer *importer, const MlirAttribute *attribute, int64_t rank,
                          const HloSharding **sharding) {
    assert(sharding);
    *sharding = NULL;
    if (!attribute) return HLO_SUCCESS;
    if (attribute->kind == MLIR_STRING && attribute->string) {
        // Thousands of values are annotated alike, and an annotation never changes.
        // The text of an annotation, or, as JAX wrote until 2023, the bytes of an OpSharding: none if it is replicated.
        const bool is_text = attribute->string[0] == '{';
        const size_t length = is_text ? strlen(attribute->string) : (size_t)attribute->string_length;
        *sharding = hlo_string_map_get(&importer->shardings, attribute->string, length);
        if (*sharding) return HLO_SUCCESS;
        HloArena *arena = importer->module->arena;
        HLO_TRY(is_text ? hlo_parse_sharding(arena, attribute->string, length, sharding)
                        : hlo_sharding_from_proto(arena, attribute->string, length, sharding));
        hlo_string_map_set(importer->arena, &importer->shardings, attribute->string, length,
                           (void *)(uintptr_t)*sharding);
        return HLO_SUCCESS;
    }
    return import_tiling(importer, attribute, NULL, rank, sharding);
}

// ---------------------------------------------------------------------------------------------------------------------
// What tilings cannot say, as Shardy's own text in frontend attributes: axis names, open dimensions, replicated axes

static void print_axis(HloText *text, const MlirAttribute *axis) {
    hlo_text_format(text, "\"%s\"", axis && axis->string ? axis->string : "");
    if (!axis || !axis->count || axis->items[0]->ints.count != 2) return;
    const int64_t *part = axis->items[0]->ints.items;
    hlo_text_format(text, ":(%lld)%lld", (long long)part[0], (long long)part[1]);
}

static void print_axes(HloText *text, const MlirAttribute *list, bool open) {
    hlo_text_char(text, '{');
    for (int64_t i = 0; list && i < list->count; i++) {
        if (i) hlo_text_string(text, ", ");
        print_axis(text, list->items[i]);
    }
    if (open) hlo_text_string(text, list && list->count ? ", ?" : "?");
    hlo_text_char(text, '}');
}

bool import_dimension_is_open(const MlirAttribute *dim) {
    return dim->ints.count == 2 && !dim->ints.items[0];
}

// `<@mesh, [{"x", ?}, {}], replicated={"y"}>`. A value without a sharding is open in all of its dimensions.
static void print_sharding(HloText *text, const MlirAttribute *sharding, int64_t rank) {
    hlo_text_string(text, "<@mesh, [");
    for (int64_t i = 0; i < rank; i++) {
        const MlirAttribute *dim = sharding && i < sharding->items[1]->count ? sharding->items[1]->items[i] : NULL;
        if (i) hlo_text_string(text, ", ");
        print_axes(text, dim, !sharding || (dim && import_dimension_is_open(dim)));
        if (dim && dim->ints.count == 2 && dim->ints.items[1] >= 0 && (dim->count || import_dimension_is_open(dim))) {
            hlo_text_format(text, "p%lld", (long long)dim->ints.items[1]);
        }
    }
    hlo_text_char(text, ']');
    static const char *const sets[2] = {", replicated=", ", unreduced="};
    for (int i = 0; sharding && i < 2; i++) {
        if (!sharding->items[2 + i] || !sharding->items[2 + i]->count) continue;
        hlo_text_string(text, sets[i]);
        print_axes(text, sharding->items[2 + i], false);
    }
    hlo_text_char(text, '>');
}

// Only what the tiling cannot say needs the text.
static bool needs_text(const MlirAttribute *sharding) {
    if (!sharding || sharding->kind != MLIR_SDY || sharding->code != MLIR_SDY_SHARDING) return false;
    bool needs = sharding->items[2] && sharding->items[2]->count;
    for (int64_t i = 0; i < sharding->items[1]->count; i++) {
        const MlirAttribute *dim = sharding->items[1]->items[i];
        needs |= import_dimension_is_open(dim) || (dim->ints.count == 2 && dim->ints.items[1] > 0);
    }
    return needs;
}

void import_sharding_text(Importer *importer, const MlirAttribute *const *shardings, HloInstruction *instruction) {
    int64_t leaves = hlo_shape_leaf_count(instruction->shape);
    bool tuple = hlo_shape_is_tuple(instruction->shape), any = false;
    for (int64_t i = 0; i < leaves; i++) any |= needs_text(shardings[i]);
    if (!any) return;
    HloText text = {0};
    hlo_text_string(&text, tuple ? "#sdy.sharding_per_value<[" : "#sdy.sharding");
    for (int64_t i = 0; i < leaves; i++) {
        const MlirAttribute *sharding = shardings[i] && shardings[i]->kind == MLIR_SDY ? shardings[i] : NULL;
        if (i) hlo_text_string(&text, ", ");
        print_sharding(&text, sharding, hlo_shape_leaf(instruction->shape, i)->rank);
    }
    if (tuple) hlo_text_string(&text, "]>");
    const char *kept = hlo_text_to_arena(importer->module->arena, &text);
    hlo_instruction_set_frontend_attribute(instruction, "xla.sdy.sharding", kept);
}

static void print_mesh(HloText *text, const MlirOperation *operation) {
    const MlirAttribute *mesh = mlir_attribute(operation, "mesh"), *name = mlir_attribute(operation, "sym_name");
    hlo_text_format(text, "%s = #sdy.mesh<[", name && name->string ? name->string : "mesh");
    for (int64_t i = 0; i < mesh->count; i++) {
        const MlirAttribute *axis = mesh->items[i];
        long long size = axis && axis->ints.count == 1 ? (long long)axis->ints.items[0] : 1;
        hlo_text_format(text, "%s\"%s\"=%lld", i ? ", " : "", axis && axis->string ? axis->string : "", size);
    }
    hlo_text_char(text, ']');
    for (int64_t i = 0; i < mesh->ints.count; i++) {
        hlo_text_format(text, "%s%lld", i ? ", " : ", device_ids=[", (long long)mesh->ints.items[i]);
    }
    hlo_text_string(text, mesh->ints.count ? "]>" : ">");
}

void import_meshes(Importer *importer, const MlirOperation *top) {
    HloModule *module = importer->module;
    const MlirAttribute *written = mlir_attribute(top, "mhlo.frontend_attributes");
    HLO_VECTOR(HloKeyValue) attributes = {0};
    for (int64_t i = 0; written && written->kind == MLIR_DICTIONARY && i < written->count; i++) {
        const char *value = written->items[i] && written->items[i]->string ? written->items[i]->string : "";
        HloKeyValue attribute = {hlo_arena_text(module->arena, written->keys[i]), hlo_arena_text(module->arena, value)};
        hlo_vector_push(module->arena, &attributes, attribute);
    }
    HloText text = {0};
    for (int64_t i = 0; i < importer->mesh_count; i++) {
        const MlirAttribute *mesh = mlir_attribute(importer->meshes[i], "mesh");
        if (!mesh || mesh->kind != MLIR_SDY || mesh->code != MLIR_SDY_MESH || !mesh->count) continue;
        hlo_text_string(&text, text.length ? ", " : "{");
        print_mesh(&text, importer->meshes[i]);
    }
    if (text.length) {
        hlo_text_char(&text, '}');
        HloKeyValue meshes = {"xla.sdy.meshes", hlo_text_to_arena(module->arena, &text)};
        hlo_vector_push(module->arena, &attributes, meshes);
    }
    module->frontend_attributes = (HloKeyValues){attributes.items, attributes.count};
    hlo_text_free(&text);
}
