// SPDX-License-Identifier: Apache-2.0
// Converts sdy shardings to tilings (the V2 form that HLO prints). The operations are in sdy.c. Shardy's model names
// axes of a mesh; HLO's annotation is a tiling: the number of tiles of each dimension, and the device of each tile. The
// conversion (sdy's own: shardy/dialect/sdy/transforms/export, spmd's: xla/service/spmd/shardy/stablehlo_round_trip)
// is: split the mesh's axes where any reference splits them, put the parts in the order dimension by dimension, then
// manual, unreduced and unused ones, and number devices through a transposed iota. The information that a tiling loses
// (open dimensions, priorities, names) is kept as text beside it, for partitioners that read Shardy.
#include <assert.h>
#include <string.h>

#include "hlo/ir/propagation.h"
#include "hlo/proto/proto.h"
#include "hlo/stablehlo/import/import.h"
#include "hlo/text/text.h"

// ---------------------------------------------------------------------------------------------------------------------
// Meshes

// A mesh divided into the parts that one sharding names: each part is an axis or a piece of one, in mesh order.
typedef struct MeshPart {
    int64_t axis, pre_size, size;
} MeshPart;

typedef struct SplitMesh {
    HLO_VECTOR(MeshPart) parts;
    HloInts device_ids;
    int64_t device_count;
} SplitMesh;

// Records where the references of a list split an axis.
static void note_splits(HloArena *arena, const HloAxisRefs *refs, int64_t axis, HloInt64Vector *splits) {
    for (int64_t i = 0; i < refs->count; i++) {
        const HloAxisRef *ref = &refs->items[i];
        if (ref->axis != axis || !ref->size) continue;
        hlo_vector_push(arena, splits, ref->pre_size);
        hlo_vector_push(arena, splits, ref->pre_size * ref->size);
    }
}

// A split point is the number of devices before a step; sorted, each has to divide the next, or the parts do not
// multiply to the axis.
static HloStatus split_axis(HloArena *arena, const HloNamedSharding *named, int64_t axis, SplitMesh *mesh) {
    const int64_t size = named->mesh.axis_sizes.items[axis];
    HloInt64Vector splits = {0};
    for (int64_t i = 0; i < named->dim_count; i++) note_splits(arena, &named->dims[i], axis, &splits);
    note_splits(arena, &named->replicated, axis, &splits);
    note_splits(arena, &named->unreduced, axis, &splits);
    for (int64_t position = 1; position < size;) {
        int64_t next = size;
        for (int64_t i = 0; i < splits.count; i++) {
            if (splits.items[i] > position && splits.items[i] < next) next = splits.items[i];
        }
        HLO_FAIL_IF(next % position || size % next, HLO_INVALID_ARGUMENT,
                    "axis \"%s\" of size %lld cannot be split at %lld", named->mesh.axis_names[axis], (long long)size,
                    (long long)next);
        hlo_vector_push(arena, &mesh->parts, ((MeshPart){axis, position, next / position}));
        position = next;
    }
    return HLO_SUCCESS;
}

static HloStatus split_mesh(HloArena *arena, const HloNamedSharding *named, SplitMesh *mesh) {
    mesh->device_ids = named->mesh.device_ids;
    mesh->device_count = 1;
    for (int64_t i = 0; i < named->mesh.axis_sizes.count; i++) {
        mesh->device_count *= named->mesh.axis_sizes.items[i];
        HLO_TRY(split_axis(arena, named, i, mesh));
    }
    return HLO_SUCCESS;
}

// #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [x, y:(1)2]> becomes HLO's groups over a copy of the mesh, which
// is looked up by name; axes become numbers.
HloStatus import_mesh_groups(const ImportPlace *place, const MlirAttribute *attribute,
                             const HloReplicaGroups **result) {
    assert(attribute->kind == MLIR_MESH_GROUPS && attribute->count == 2 && result);
    const MlirAttribute *mesh = hlo_sdy_find_mesh(&place->importer->meshes, attribute->items[0]),
                        *axes = attribute->items[1];
    if (!mesh || mesh->kind != MLIR_SDY || mesh->code != MLIR_SDY_MESH || !axes || axes->kind != MLIR_ARRAY) {
        return import_error(place, HLO_INVALID_ARGUMENT, "replica_groups names a mesh that does not exist");
    }
    HloArena *arena = import_arena(place);
    HloReplicaGroups *groups = HLO_ARENA_NEW(arena, HloReplicaGroups, 1);
    HloAxisRefs refs = {0};
    groups->form = HLO_GROUPS_MESH;
    HloStatus status = hlo_sdy_mesh_of_attribute(arena, mesh, &groups->mesh);
    if (!status) status = hlo_sdy_axes_of_attribute(arena, &groups->mesh, axes, &refs);
    if (status) {
        HloStatus placed = import_error(place, HLO_INVALID_ARGUMENT, "replica_groups: %s", hlo_status_message(status));
        hlo_status_free(status);
        return placed;
    }
    groups->axes = refs.items;
    groups->axis_count = refs.count;
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
static int64_t take_axis(HloArena *arena, const SplitMesh *mesh, const HloAxisRef *axis, Tiling *tiling) {
    const int64_t low = axis->pre_size, high = axis->size ? low * axis->size : INT64_MAX;
    int64_t product = 1;
    for (int64_t i = 0; i < mesh->parts.count; i++) {
        const MeshPart *part = &mesh->parts.items[i];
        if (part->axis != axis->axis || part->pre_size < low || part->pre_size >= high) continue;
        if (tiling->used[i]) continue;
        tiling->used[i] = true;
        hlo_vector_push(arena, &tiling->order, i);
        product *= part->size;
    }
    return product;
}

// Appends the parts of a list of references; the product is the number of tiles of the dimension.
static int64_t take_list(HloArena *arena, const SplitMesh *mesh, const HloAxisRefs *list, Tiling *tiling) {
    int64_t product = 1;
    for (int64_t i = 0; i < list->count; i++) product *= take_axis(arena, mesh, &list->items[i], tiling);
    return product;
}

// Appends the remaining parts in mesh order.
static int64_t take_rest(HloArena *arena, const SplitMesh *mesh, Tiling *tiling) {
    int64_t product = 1;
    for (int64_t i = 0; i < mesh->parts.count; i++) {
        if (tiling->used[i]) continue;
        tiling->used[i] = true;
        hlo_vector_push(arena, &tiling->order, i);
        product *= mesh->parts.items[i].size;
    }
    return product;
}

// Appends a trailing dimension of the tiling, which divides nothing but describes what its devices have in common.
static void push_subgroup(HloArena *arena, Tiling *tiling, int64_t size, HloShardingKind kind) {
    if (size == 1) return;
    hlo_vector_push(arena, &tiling->tile_dims, size);
    hlo_vector_push(arena, &tiling->subgroups, kind);
}

// The devices in tile order: iota over the mesh, transposed; through the mesh's own order if it has one.
static void set_devices(HloArena *arena, const SplitMesh *mesh, const Tiling *tiling, HloSharding *sharding) {
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

// Appends axes dimension by dimension, then the manual, unreduced and unused ones, each a dimension of tiles.
HloStatus hlo_sdy_tiling(HloArena *arena, const HloSharding *read, const HloAxisRefs *manual_axes, int64_t rank,
                         const HloSharding **result) {
    assert(rank >= 0 && result);
    SplitMesh mesh = {0};
    HLO_TRY(hlo_sdy_check_rank(read, rank));
    const HloNamedSharding *named = read->named;
    if (named->mesh.is_maximal) {
        *result = hlo_sharding_maximal(arena, named->mesh.device_ids.items[0]);
        return HLO_SUCCESS;
    }
    HLO_TRY(split_mesh(arena, named, &mesh));
    Tiling tiling = {.used = HLO_ARENA_NEW(arena, bool, mesh.parts.count)};
    int64_t tiles = 1;
    // Manual axes lead in the dimension lists of a region's operands and results, but tile only outside of it.
    Tiling inner = {.used = tiling.used};
    const int64_t manual_size = take_list(arena, &mesh, manual_axes, &inner);
    for (int64_t i = 0; i < rank; i++) {
        int64_t size = take_list(arena, &mesh, &named->dims[i], &tiling);
        hlo_vector_push(arena, &tiling.tile_dims, size);
        tiles *= size;
    }
    for (int64_t i = 0; i < inner.order.count; i++) hlo_vector_push(arena, &tiling.order, inner.order.items[i]);
    int64_t unreduced = take_list(arena, &mesh, &named->unreduced, &tiling);
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

HloStatus import_tiling(Importer *importer, const MlirAttribute *attribute, const MlirAttribute *manual, int64_t rank,
                        const HloSharding **result) {
    HloArena *arena = importer->module->arena;
    HloSdySharding read = {0};
    HloAxisRefs manual_axes = {0};
    HLO_TRY(hlo_sdy_sharding_of_attribute(arena, &importer->meshes, attribute, &read));
    HLO_TRY(hlo_sdy_check_rank(read.sharding, rank));
    HLO_TRY(hlo_sdy_axes_of_attribute(arena, &read.sharding->named->mesh, manual, &manual_axes));
    return hlo_sdy_tiling(arena, read.sharding, &manual_axes, rank, result);
}

const MlirAttribute *import_sharding_entry(const MlirAttribute *dictionary) {
    const MlirAttribute *sharding = mlir_entry(dictionary, "sdy.sharding");
    return sharding ? sharding : mlir_entry(dictionary, "mhlo.sharding");
}

// The text is one attribute of a larger text: an error gets the operation's place there (with_place()) and not a place
// in the attribute, which no file has.
static HloStatus parse_text(HloArena *arena, const char *text, size_t length, const HloSharding **sharding) {
    HloStatus status = hlo_parse_sharding(arena, text, length, sharding);
    if (!status) return HLO_SUCCESS;
    HloStatus placeless =
        hlo_error(hlo_status_code(status), "mhlo.sharding \"%s\": %s", text, hlo_status_message(status));
    hlo_status_free(status);
    return placeless;
}

// mhlo.sharding is text, shared by its text; sdy's attributes are tiled each time, as they depend on the rank.
HloStatus import_sharding(Importer *importer, const MlirAttribute *attribute, int64_t rank,
                          const HloSharding **sharding) {
    assert(sharding);
    *sharding = NULL;
    if (!attribute) return HLO_SUCCESS;
    if (attribute->kind == MLIR_STRING && attribute->string) {
        // Thousands of values have the same annotation, and an annotation never changes. It is text, or, as JAX wrote
        // until 2023, the bytes of an OpSharding: no bytes if it is replicated.
        const bool is_text = attribute->string[0] == '{';
        const size_t length = is_text ? strlen(attribute->string) : (size_t)attribute->string_length;
        *sharding = hlo_string_map_get(&importer->shardings, attribute->string, length);
        if (*sharding) return HLO_SUCCESS;
        HloArena *arena = importer->module->arena;
        HLO_TRY(is_text ? parse_text(arena, attribute->string, length, sharding)
                        : hlo_sharding_from_proto(arena, attribute->string, length, sharding));
        hlo_string_map_set(importer->arena, &importer->shardings, attribute->string, length,
                           (void *)(uintptr_t)*sharding);
        return HLO_SUCCESS;
    }
    return import_tiling(importer, attribute, NULL, rank, sharding);
}

// ---------------------------------------------------------------------------------------------------------------------
// Information that tilings cannot express, as Shardy's own text in frontend attributes: axis names, open dimensions,
// replicated axes

// A string as MLIR writes it.
static void print_quoted(HloText *text, const char *string) {
    hlo_text_char(text, '"');
    for (const char *at = string; *at; at++) {
        const unsigned char c = (unsigned char)*at;
        if (c < ' ' || c > '~' || c == '"' || c == '\\') {
            hlo_text_format(text, "\\%02X", c);
        } else {
            hlo_text_char(text, *at);
        }
    }
    hlo_text_char(text, '"');
}

// A symbol's name or the key of a dictionary: in quotes unless it is an identifier.
static void print_name(HloText *text, const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", others[] = "0123456789$.";
    size_t length = *name && strchr(letters, *name) ? 1 : 0;
    while (length && name[length] && (strchr(letters, name[length]) || strchr(others, name[length]))) length++;
    if (length && !name[length]) {
        hlo_text_string(text, name);
    } else {
        print_quoted(text, name);
    }
}

static void print_axis(HloText *text, const MlirAttribute *axis) {
    print_quoted(text, axis && axis->string ? axis->string : "");
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

// `<["x"=2, "y"=2], device_ids=[...]>`, of a mesh that has been checked.
static void print_mesh(HloText *text, const MlirAttribute *mesh) {
    hlo_text_string(text, "<[");
    for (int64_t i = 0; i < mesh->count; i++) {
        if (i) hlo_text_string(text, ", ");
        print_axis(text, mesh->items[i]);
        hlo_text_format(text, "=%lld", (long long)mesh->items[i]->ints.items[0]);
    }
    hlo_text_char(text, ']');
    for (int64_t i = 0; i < mesh->ints.count; i++)
        hlo_text_format(text, "%s%lld", i ? ", " : ", device_ids=[", (long long)mesh->ints.items[i]);
    hlo_text_string(text, mesh->ints.count ? "]>" : ">");
}

bool import_dimension_is_open(const MlirAttribute *dim) {
    return dim->ints.count == 2 && !dim->ints.items[0];
}

// `@mesh` or `mesh<["x"=2]>`.
static void print_mesh_reference(HloText *text, const MlirAttribute *mesh) {
    if (mesh->kind == MLIR_SDY) {
        hlo_text_string(text, "mesh");
        print_mesh(text, mesh);
    } else {
        hlo_text_char(text, '@');
        print_name(text, mesh->string ? mesh->string : "");
    }
}

// `<@mesh, [{"x", ?}, {}], replicated={"y"}>`. A value without a sharding (NULL) is open in all of its dimensions.
static void print_sharding(HloText *text, const MlirAttribute *mesh, const MlirAttribute *sharding, int64_t rank) {
    hlo_text_char(text, '<');
    print_mesh_reference(text, sharding ? sharding->items[0] : mesh);
    hlo_text_string(text, ", [");
    if (sharding) rank = sharding->items[1]->count;
    for (int64_t i = 0; i < rank; i++) {
        const MlirAttribute *dim = sharding ? sharding->items[1]->items[i] : NULL;
        if (i) hlo_text_string(text, ", ");
        print_axes(text, dim, !sharding || import_dimension_is_open(dim));
        if (dim && dim->ints.items[1] >= 0) hlo_text_format(text, "p%lld", (long long)dim->ints.items[1]);
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

static bool is_sdy_sharding(const MlirAttribute *attribute) {
    return attribute && attribute->kind == MLIR_SDY && attribute->code == MLIR_SDY_SHARDING;
}

// The text takes precedence over a tiling, so it must describe all values if it describes one. It also replaces the
// text that the program already has.
HloStatus import_sharding_text(Importer *importer, const MlirAttribute *const *shardings, HloInstruction *instruction) {
    const int64_t leaves = hlo_shape_leaf_count(instruction->shape);
    const bool tuple = hlo_shape_is_tuple(instruction->shape);
    bool others = false;
    const MlirAttribute *mesh = NULL;
    for (int64_t i = 0; i < leaves; i++) {
        others |= shardings[i] && !is_sdy_sharding(shardings[i]);
        if (!is_sdy_sharding(shardings[i])) continue;
        if (!mesh) mesh = shardings[i]->items[0];
    }
    if (!mesh) return HLO_SUCCESS;
    HLO_FAIL_IF(others, HLO_UNIMPLEMENTED, "some of its values have sdy.sharding and others mhlo.sharding");
    HloText text = {0};
    hlo_text_string(&text, tuple ? "#sdy.sharding_per_value<[" : "#sdy.sharding");
    for (int64_t i = 0; i < leaves; i++) {
        if (i) hlo_text_string(&text, ", ");
        print_sharding(&text, mesh, shardings[i], hlo_shape_leaf(instruction->shape, i)->rank);
    }
    if (tuple) hlo_text_string(&text, "]>");
    const char *kept = hlo_text_to_arena(importer->module->arena, &text);
    hlo_instruction_set_frontend_attribute(instruction, HLO_SDY_SHARDING, kept);
    return HLO_SUCCESS;
}

// Appends the meshes of a text to those of the operations. A name may occur twice if it means the same mesh.
static HloStatus add_written_meshes(Importer *importer, const char *text) {
    HloSdyMeshes written, *all = &importer->meshes;
    HLO_TRY(hlo_sdy_meshes_of_text(importer->arena, text, &written));
    HLO_VECTOR(const char *) names = {0};
    HLO_VECTOR(const MlirAttribute *) meshes = {0};
    for (int64_t i = 0; i < all->count; i++) {
        hlo_vector_push(importer->arena, &names, all->names[i]);
        hlo_vector_push(importer->arena, &meshes, all->meshes[i]);
    }
    for (int64_t i = 0; i < written.count; i++) {
        const MlirAttribute symbol = {.kind = MLIR_SYMBOL, .string = written.names[i]};
        const MlirAttribute *known = hlo_sdy_find_mesh(all, &symbol);
        HloMesh before, now;
        HLO_TRY(hlo_sdy_mesh(importer->arena, &written, i, &now));
        if (!known) {
            hlo_vector_push(importer->arena, &names, written.names[i]);
            hlo_vector_push(importer->arena, &meshes, written.meshes[i]);
            continue;
        }
        HLO_TRY(hlo_sdy_mesh_of_attribute(importer->arena, known, &before));
        HLO_FAIL_IF(!hlo_mesh_equal(&before, &now), HLO_INVALID_ARGUMENT,
                    "the mesh @%s as an operation differs from the one in " HLO_SDY_MESHES, written.names[i]);
    }
    *all = (HloSdyMeshes){names.items, meshes.items, names.count};
    return HLO_SUCCESS;
}

HloStatus import_meshes(Importer *importer, const MlirOperation *top) {
    HloModule *module = importer->module;
    const MlirAttribute *written = mlir_attribute(top, "mhlo.frontend_attributes");
    HLO_VECTOR(HloKeyValue) attributes = {0};
    for (int64_t i = 0; written && written->kind == MLIR_DICTIONARY && i < written->count; i++) {
        const char *value = written->items[i] && written->items[i]->string ? written->items[i]->string : "";
        if (!strcmp(written->keys[i], HLO_SDY_MESHES)) {
            HLO_TRY(add_written_meshes(importer, value));
            continue;
        }
        HloKeyValue attribute = {hlo_arena_text(module->arena, written->keys[i]), hlo_arena_text(module->arena, value)};
        hlo_vector_push(module->arena, &attributes, attribute);
    }
    HloText text = {0};
    for (int64_t i = 0; i < importer->meshes.count; i++) {
        HloMesh checked;  // one that is used by nothing may be anything
        HloStatus status = hlo_sdy_mesh_of_attribute(importer->arena, importer->meshes.meshes[i], &checked);
        if (!status) {
            hlo_text_string(&text, text.length ? ", " : "{");
            print_name(&text, importer->meshes.names[i]);
            hlo_text_string(&text, " = #sdy.mesh");
            print_mesh(&text, importer->meshes.meshes[i]);
        }
        hlo_status_free(status);
    }
    if (text.length) {
        hlo_text_char(&text, '}');
        HloKeyValue meshes = {HLO_SDY_MESHES, hlo_text_to_arena(module->arena, &text)};
        hlo_vector_push(module->arena, &attributes, meshes);
    }
    module->frontend_attributes = (HloKeyValues){attributes.items, attributes.count};
    hlo_text_free(&text);
    return hlo_propagation_from_attributes(module);
}
