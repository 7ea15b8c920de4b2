// SPDX-License-Identifier: Apache-2.0
// OpSharding, NamedShardingProto, CollectiveDeviceListProto. Field numbers: xla/xla_data.proto.
//
// OpSharding is older than named shardings, and grew: a type, tile dimensions, a device list or an iota, kinds of
// subgroups, shard groups, and in the end a NamedShardingProto that replaces all of it. The writer writes what XLA
// 0.10.2 writes for the same text, byte for byte in the fields that it sets. The input may be older or newer, and is
// checked as strictly as text: the product of tiles must be the number of devices, and orders must be permutations.
//
//   OpSharding            type 1, tile_assignment_dimensions 3, tile_assignment_devices 4, tuple_shardings 5,
//                         replicate_on_last_tile_dim 6, metadata 7, last_tile_dims 8, iota_reshape_dims 9,
//                         iota_transpose_perm 10, is_shard_group 11, shard_group_id 12, shard_group_type 13,
//                         named_sharding 14
//   NamedShardingProto    mesh 2, dim_shardings 3, replicated_axes 4, unreduced_axes 5, metadata 6, manual_axes 7
//   IotaReplicaGroupList  num_replica_groups 1, num_devices_per_group 2, iota_reshape_dims 3, iota_transpose_perm 4
#include <assert.h>

#include "hlo/proto/parts.h"
#include "hlo/proto/proto.h"

// OpSharding.Type by our kind; NAMED has no type.
static const int kind_numbers[] = {
    [HLO_SHARDING_REPLICATED] = 0, [HLO_SHARDING_MAXIMAL] = 1, [HLO_SHARDING_TUPLE] = 2,     [HLO_SHARDING_TILED] = 3,
    [HLO_SHARDING_MANUAL] = 4,     [HLO_SHARDING_UNKNOWN] = 5, [HLO_SHARDING_UNREDUCED] = 6,
};

// The inverse of kind_numbers; false for numbers that no version has.
static bool kind_from_number(uint64_t number, HloShardingKind *kind) {
    static const HloShardingKind kinds[] = {HLO_SHARDING_REPLICATED, HLO_SHARDING_MAXIMAL, HLO_SHARDING_TUPLE,
                                            HLO_SHARDING_TILED,      HLO_SHARDING_MANUAL,  HLO_SHARDING_UNKNOWN,
                                            HLO_SHARDING_UNREDUCED};
    if (number >= HLO_COUNT_OF(kinds)) return false;
    *kind = kinds[number];
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Writing

// An axis by its number in the mesh; a sub-axis has its own message with its pre-size and size.
static void write_axis(HloText *text, int32_t number, const HloAxisRef *axis) {
    size_t mark = hlo_wire_begin(text, number);
    hlo_wire_varint(text, 1, (uint64_t)axis->axis);
    if (axis->size) {
        size_t part = hlo_wire_begin(text, 2);
        hlo_wire_varint(text, 1, (uint64_t)axis->pre_size);
        hlo_wire_varint(text, 2, (uint64_t)axis->size);
        hlo_wire_end(text, part);
    }
    hlo_wire_end(text, mark);
}

static void write_axes(HloText *text, int32_t number, const HloAxisRefs *axes) {
    for (int64_t i = 0; i < axes->count; i++) write_axis(text, number, &axes->items[i]);
}

// Every axis of the mesh, whole.
static void write_all_axes(HloText *text, int32_t number, const HloMesh *mesh) {
    for (int64_t i = 0; i < mesh->axis_sizes.count; i++) write_axis(text, number, &(HloAxisRef){.axis = i});
}

// Axes in order, then the order of devices in whichever form it was given.
static void write_mesh(HloText *text, int32_t number, const HloMesh *mesh) {
    size_t mark = hlo_wire_begin(text, number);
    for (int64_t i = 0; i < mesh->axis_sizes.count; i++) {
        size_t axis = hlo_wire_begin(text, 1);
        hlo_wire_string_field(text, 1, mesh->axis_names ? mesh->axis_names[i] : NULL);
        hlo_wire_varint(text, 2, (uint64_t)mesh->axis_sizes.items[i]);
        hlo_wire_end(text, axis);
    }
    hlo_wire_ints(text, 2, mesh->device_ids);
    if (mesh->iota.dims.count) {
        size_t iota = hlo_wire_begin(text, 3);
        hlo_wire_ints(text, 1, mesh->iota.dims);
        hlo_wire_ints(text, 2, mesh->iota.permutation);
        hlo_wire_end(text, iota);
    }
    hlo_wire_end(text, mark);
}

// The metadata of a sharding is its position in the user's program.
static void write_origins(HloText *text, int32_t number, const HloSharding *sharding) {
    for (int64_t i = 0; i < sharding->metadata_count; i++) {
        hlo_proto_write_metadata(text, number, sharding->metadata[i], -1);
    }
}

// Closed dimensions are marked; open ones omit the flag.
static void write_named(HloText *text, int32_t number, const HloSharding *sharding) {
    const HloNamedSharding *named = sharding->named;
    assert(named);
    size_t mark = hlo_wire_begin(text, number);
    write_mesh(text, 2, &named->mesh);
    for (int64_t i = 0; i < named->dim_count; i++) {
        size_t dim = hlo_wire_begin(text, 3);
        write_axes(text, 1, &named->dims[i]);
        hlo_wire_varint(text, 2, !named->dims[i].open);
        hlo_wire_end(text, dim);
    }
    write_axes(text, 4, &named->replicated);
    // A sharding that is manual or unreduced as a whole is so along all axes, and has no dimensions.
    if (named->whole == HLO_SHARDING_UNREDUCED) write_all_axes(text, 5, &named->mesh);
    write_axes(text, 5, &named->unreduced);
    write_origins(text, 6, sharding);
    if (named->whole == HLO_SHARDING_MANUAL) write_all_axes(text, 7, &named->mesh);
    write_axes(text, 7, &named->manual);
    hlo_wire_end(text, mark);
}

// Without tag and length, which only nested shardings have.
static void write_content(HloText *text, const HloSharding *sharding) {
    assert(text && sharding);
    if (sharding->kind == HLO_SHARDING_NAMED) {
        write_named(text, 14, sharding);
        return;
    }
    hlo_wire_varint(text, 1, (uint64_t)kind_numbers[sharding->kind]);
    if (sharding->kind == HLO_SHARDING_MAXIMAL) {
        hlo_wire_ints(text, 4, (HloInts){&sharding->maximal_device, 1});
    }
    hlo_wire_ints(text, 3, sharding->tile_dims);
    hlo_wire_ints(text, 4, sharding->devices);
    for (int64_t i = 0; i < sharding->element_count; i++) hlo_proto_write_sharding(text, 5, sharding->elements[i]);
    hlo_wire_varint(text, 6, sharding->last_tile_dim_replicate);
    write_origins(text, 7, sharding);
    if (sharding->subgroup_count) {
        size_t mark = hlo_wire_begin(text, 8);
        for (int64_t i = 0; i < sharding->subgroup_count; i++) {
            hlo_text_char(text, (char)kind_numbers[sharding->subgroups[i]]);
        }
        hlo_wire_end(text, mark);
    }
    hlo_wire_ints(text, 9, sharding->iota.dims);
    HloInts permutation = sharding->iota.permutation;
    if (sharding->iota.dims.count && !permutation.count) {
        // The identity is written out.
        size_t mark = hlo_wire_begin(text, 10);
        for (int64_t i = 0; i < sharding->iota.dims.count; i++) hlo_text_char(text, (char)i);
        hlo_wire_end(text, mark);
    }
    hlo_wire_ints(text, 10, permutation);
    hlo_wire_varint(text, 11, sharding->group != HLO_SHARD_GROUP_NONE);
    hlo_wire_varint(text, 12, (uint64_t)sharding->group_id);
    hlo_wire_varint(text, 13, sharding->group == HLO_SHARD_LIKE);
}

void hlo_proto_write_sharding(HloText *text, int32_t number, const HloSharding *sharding) {
    size_t mark = hlo_wire_begin(text, number);
    write_content(text, sharding);
    hlo_wire_end(text, mark);
}

void hlo_sharding_to_proto(const HloSharding *sharding, HloText *bytes) {
    write_content(bytes, sharding);
}

// An identity order is written out, as XLA does.
static void write_iota_groups(HloText *text, int32_t number, const HloReplicaGroups *groups) {
    size_t mark = hlo_wire_begin(text, number);
    hlo_wire_varint(text, 1, (uint64_t)groups->count);
    hlo_wire_varint(text, 2, (uint64_t)groups->size);
    hlo_wire_ints(text, 3, groups->iota.dims);
    HloInts permutation = groups->iota.permutation;
    if (!permutation.count) {
        size_t identity = hlo_wire_begin(text, 4);
        for (int64_t i = 0; i < groups->iota.dims.count; i++) hlo_text_char(text, (char)i);
        hlo_wire_end(text, identity);
    }
    hlo_wire_ints(text, 4, permutation);
    hlo_wire_end(text, mark);
}

// The axes along which the groups' members differ.
static void write_mesh_groups(HloText *text, int32_t number, const HloReplicaGroups *groups) {
    size_t mark = hlo_wire_begin(text, number);
    write_mesh(text, 1, &groups->mesh);
    write_axes(text, 2, &(HloAxisRefs){groups->axes, groups->axis_count, false});
    hlo_wire_end(text, mark);
}

// A CollectiveDeviceListProto, and also the form that newer readers use.
void hlo_proto_write_replica_groups(HloText *text, int32_t number, const HloReplicaGroups *groups) {
    assert(text);
    if (!groups) return;
    size_t mark = hlo_wire_begin(text, number);
    if (groups->form == HLO_GROUPS_IOTA) write_iota_groups(text, 2, groups);
    for (int64_t i = 0; groups->form == HLO_GROUPS_LIST && i < groups->count; i++) {
        size_t group = hlo_wire_begin(text, 1);
        hlo_wire_ints(text, 1, groups->groups[i]);
        hlo_wire_end(text, group);
    }
    if (groups->form == HLO_GROUPS_MESH) write_mesh_groups(text, 3, groups);
    hlo_wire_end(text, mark);
    // Newer readers have a oneof of separate fields and keep the last one; older ones do not know these.
    if (groups->form == HLO_GROUPS_IOTA) write_iota_groups(text, HLO_PROTO_IOTA_GROUPS, groups);
    if (groups->form == HLO_GROUPS_MESH) write_mesh_groups(text, HLO_PROTO_MESH_GROUPS, groups);
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading

// INVALID_ARGUMENT unless the dims are positive and few, and the permutation is a permutation of them.
static HloStatus check_iota(HloInt64Vector dims, HloInt64Vector permutation, int64_t total) {
    int64_t product = 1;
    HLO_FAIL_IF(dims.count > 32, HLO_INVALID_ARGUMENT, "an iota device order has more than 32 dimensions");
    for (int64_t i = 0; i < dims.count; i++) {
        HLO_FAIL_IF(dims.items[i] < 1 || __builtin_mul_overflow(product, dims.items[i], &product), HLO_INVALID_ARGUMENT,
                    "an iota device order has a dimension of size %lld", (long long)dims.items[i]);
    }
    HLO_FAIL_IF(dims.count && product != total, HLO_INVALID_ARGUMENT,
                "an iota device order has %lld devices for %lld tiles", (long long)product, (long long)total);
    HLO_FAIL_IF(permutation.count && permutation.count != dims.count, HLO_INVALID_ARGUMENT,
                "an iota device order of %lld dimensions has a transpose of %lld", (long long)dims.count,
                (long long)permutation.count);
    uint64_t seen = 0;
    for (int64_t i = 0; i < permutation.count; i++) {
        int64_t p = permutation.items[i];
        HLO_FAIL_IF(p < 0 || p >= dims.count || (seen >> p & 1), HLO_INVALID_ARGUMENT,
                    "the transpose of an iota device order is not a permutation");
        seen |= UINT64_C(1) << p;
    }
    return HLO_SUCCESS;
}

// An order of `total` devices in its simplest form, as the text reader makes it: some writers write an identity, others
// do not, and <=[2,2] is <=[4].
static HloStatus make_iota(HloArena *arena, HloInt64Vector dims, HloInt64Vector permutation, int64_t total,
                           HloIotaDevices *iota) {
    HLO_TRY(check_iota(dims, permutation, total));
    *iota = (HloIotaDevices){.dims = {dims.items, dims.count}, .permutation = {permutation.items, permutation.count}};
    if (dims.count) hlo_iota_devices_simplify(arena, iota);
    return HLO_SUCCESS;
}

// The number of tiles; sizes below one are refused.
static HloStatus tile_product(HloInt64Vector dims, int64_t *product) {
    *product = 1;
    for (int64_t i = 0; i < dims.count; i++) {
        HLO_FAIL_IF(dims.items[i] < 1 || __builtin_mul_overflow(*product, dims.items[i], product), HLO_INVALID_ARGUMENT,
                    "a sharding has a tile dimension of size %lld", (long long)dims.items[i]);
    }
    return HLO_SUCCESS;
}

// The axis is checked once the mesh is known.
static HloStatus read_axis(const HloProtoSource *source, HloSpan span, HloAxisRef *axis) {
    *axis = (HloAxisRef){.pre_size = 1};
    HloWireReader reader = hlo_wire_reader(source->begin, span), part;
    HloWireField field, inner;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) axis->axis = (int64_t)field.value;
        if (field.number != 2) continue;
        part = hlo_wire_reader(source->begin, field.bytes);
        while (hlo_wire_next(&part, &inner, &status)) {
            if (inner.number == 1) axis->pre_size = (int64_t)inner.value;
            if (inner.number == 2) axis->size = (int64_t)inner.value;
        }
        HLO_TRY(status);
    }
    return status;
}

// Name and size.
static HloStatus read_mesh_axis(const HloProtoSource *source, HloSpan span, const char **name, int64_t *size) {
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    *name = "";
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) HLO_TRY(hlo_wire_string(source->arena, field.bytes, name));
        if (field.number == 2) *size = (int64_t)field.value;
    }
    HLO_TRY(status);
    HLO_FAIL_IF(*size < 1, HLO_INVALID_ARGUMENT, "mesh axis \"%s\" has size %lld", *name, (long long)*size);
    return HLO_SUCCESS;
}

// The order of a mesh's devices as an iota that is reshaped and transposed; it must have as many as the mesh.
static HloStatus read_mesh_iota(const HloProtoSource *source, HloSpan span, int64_t total, HloIotaDevices *iota) {
    HloInt64Vector dims = {0}, permutation = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &dims));
        if (field.number == 2) HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &permutation));
    }
    HLO_TRY(status);
    HLO_TRY(make_iota(source->arena, dims, permutation, total, iota));
    if (!iota->permutation.count) *iota = (HloIotaDevices){0};  // the order that a mesh has without one
    return HLO_SUCCESS;
}

// A mesh without axes and with one device is a maximal one.
static HloStatus read_mesh(const HloProtoSource *source, HloSpan span, HloMesh *mesh) {
    HloStringVector names = {0};
    HloInt64Vector sizes = {0}, devices = {0};
    HloSpan iota = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) {
            const char *name;
            int64_t size = 0;
            HLO_TRY(read_mesh_axis(source, field.bytes, &name, &size));
            hlo_vector_push(source->arena, &names, name);
            hlo_vector_push(source->arena, &sizes, size);
        } else if (field.number == 2) {
            HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &devices));
        } else if (field.number == 3) {
            iota = field.bytes;
        }
    }
    HLO_TRY(status);
    int64_t total;
    HLO_TRY(tile_product(sizes, &total));
    if (iota.length) HLO_TRY(read_mesh_iota(source, iota, total, &mesh->iota));
    HLO_FAIL_IF(devices.count && devices.count != total, HLO_INVALID_ARGUMENT, "a mesh of %lld devices lists %lld",
                (long long)total, (long long)devices.count);
    mesh->axis_names = names.items;
    mesh->axis_sizes = (HloInts){sizes.items, sizes.count};
    mesh->device_ids = (HloInts){devices.items, devices.count};
    mesh->is_maximal = sizes.count == 0 && devices.count == 1;
    return status;
}

typedef HLO_VECTOR(HloAxisRef) AxisVector;

// NamedShardingProto.DimensionSharding.
static HloStatus read_dim_axes(const HloProtoSource *source, HloSpan span, HloAxisRefs *axes) {
    AxisVector list = {0};
    bool closed = false;
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        HloAxisRef axis;
        if (field.number == 1) {
            HLO_TRY(read_axis(source, field.bytes, &axis));
            hlo_vector_push(source->arena, &list, axis);
        } else if (field.number == 2) {
            closed = field.value != 0;
        }
    }
    *axes = (HloAxisRefs){list.items, list.count, !closed};
    return status;
}

typedef HLO_VECTOR(const HloMetadata *) OriginVector;

// An empty message counts too: shardings of several sources list them all.
static HloStatus read_origin(const HloProtoSource *source, HloSpan span, OriginVector *origins) {
    static const HloMetadata nothing;
    const HloMetadata *metadata = NULL;
    HLO_TRY(hlo_proto_read_metadata(source, span, &metadata));
    hlo_vector_push(source->arena, origins, metadata ? metadata : &nothing);
    return HLO_SUCCESS;
}

// True if the list is all axes of the mesh in their order.
static bool is_all_axes(const HloAxisRefs *axes, const HloMesh *mesh) {
    if (axes->count == 0 || axes->count != mesh->axis_sizes.count) return false;
    for (int64_t i = 0; i < axes->count; i++) {
        if (axes->items[i].axis != i || axes->items[i].size) return false;
    }
    return true;
}

// Without dimensions, the sharding is of one kind as a whole, whatever the rank.
static void find_whole(HloNamedSharding *named) {
    if (named->mesh.is_maximal || named->dim_count || named->replicated.count) return;
    if (named->unreduced.count + named->manual.count == 0) {
        named->whole = HLO_SHARDING_REPLICATED;
    } else if (named->manual.count == 0 && is_all_axes(&named->unreduced, &named->mesh)) {
        named->whole = HLO_SHARDING_UNREDUCED;
        named->unreduced = (HloAxisRefs){0};
    } else if (named->unreduced.count == 0 && is_all_axes(&named->manual, &named->mesh)) {
        named->whole = HLO_SHARDING_MANUAL;
        named->manual = (HloAxisRefs){0};
    }
}

// True if the mesh has the axis, and the part of it exists.
static bool axis_fits(const HloMesh *mesh, const HloAxisRef *axis) {
    if (axis->axis < 0 || axis->axis >= mesh->axis_sizes.count) return false;
    int64_t part;
    if (!axis->size) return true;
    const int64_t whole = mesh->axis_sizes.items[axis->axis];
    return axis->pre_size >= 1 && axis->size >= 2 && axis->size < whole &&
           !__builtin_mul_overflow(axis->pre_size, axis->size, &part) && whole % part == 0;
}

static HloStatus check_fit(const HloMesh *mesh, const HloAxisRefs *axes) {
    for (int64_t i = 0; i < axes->count; i++) {
        HLO_FAIL_IF(!axis_fits(mesh, &axes->items[i]), HLO_INVALID_ARGUMENT,
                    "a sharding names an axis that its mesh does not have");
    }
    return HLO_SUCCESS;
}

// Axes are numbers in the message: the printer assumes that the mesh has them. A sharding that is read by itself (a
// domain, an option) is not verified afterwards.
static HloStatus check_named(const HloNamedSharding *named) {
    for (int64_t i = 0; i < named->dim_count; i++) HLO_TRY(check_fit(&named->mesh, &named->dims[i]));
    HLO_TRY(check_fit(&named->mesh, &named->replicated));
    HLO_TRY(check_fit(&named->mesh, &named->unreduced));
    return check_fit(&named->mesh, &named->manual);
}

// The mesh may come after the axes that name it, so they are checked last.
static HloStatus read_named(const HloProtoSource *source, HloSpan span, OriginVector *origins,
                            const HloNamedSharding **result) {
    HloNamedSharding *named = HLO_ARENA_NEW(source->arena, HloNamedSharding, 1);
    named->whole = HLO_SHARDING_TILED;
    HLO_VECTOR(HloAxisRefs) dims = {0};
    AxisVector replicated = {0}, unreduced = {0}, manual = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        HloAxisRef axis;
        HloAxisRefs axes;
        switch (field.number) {
            case 2: HLO_TRY(read_mesh(source, field.bytes, &named->mesh)); break;
            case 3:
                HLO_TRY(read_dim_axes(source, field.bytes, &axes));
                hlo_vector_push(source->arena, &dims, axes);
                break;
            case 4:
                HLO_TRY(read_axis(source, field.bytes, &axis));
                hlo_vector_push(source->arena, &replicated, axis);
                break;
            case 5:
                HLO_TRY(read_axis(source, field.bytes, &axis));
                hlo_vector_push(source->arena, &unreduced, axis);
                break;
            case 6: HLO_TRY(read_origin(source, field.bytes, origins)); break;
            case 7:
                HLO_TRY(read_axis(source, field.bytes, &axis));
                hlo_vector_push(source->arena, &manual, axis);
                break;
            default: break;
        }
    }
    HLO_TRY(status);
    named->dims = dims.items;
    named->dim_count = dims.count;
    named->replicated = (HloAxisRefs){replicated.items, replicated.count, false};
    named->unreduced = (HloAxisRefs){unreduced.items, unreduced.count, false};
    named->manual = (HloAxisRefs){manual.items, manual.count, false};
    HLO_TRY(check_named(named));
    find_whole(named);
    *result = named;
    return HLO_SUCCESS;
}

// The lists of an OpSharding while it is read. Their pieces may come in any order; finish_sharding() combines them.
typedef struct ShardingParts {
    OriginVector origins;
    HloInt64Vector dims, devices, subgroups, iota, permutation;
    HLO_VECTOR(const HloSharding *) elements;
    bool is_group, is_like;
} ShardingParts;

// True for the kinds that a trailing tile dimension may have.
static bool is_subgroup(HloShardingKind kind) {
    return kind == HLO_SHARDING_REPLICATED || kind == HLO_SHARDING_MAXIMAL || kind == HLO_SHARDING_MANUAL ||
           kind == HLO_SHARDING_UNREDUCED;
}

// Counts are checked against each other; a replicated or manual sharding may have any other fields, which are dropped.
static HloStatus finish_sharding(const HloProtoSource *source, ShardingParts *parts, HloSharding *sharding) {
    assert(parts && sharding);
    HloArena *arena = source->arena;
    int64_t tiles;
    HLO_TRY(tile_product(parts->dims, &tiles));
    if (parts->is_group) sharding->group = parts->is_like ? HLO_SHARD_LIKE : HLO_SHARD_AS;
    sharding->elements = parts->elements.items;
    sharding->element_count = parts->elements.count;
    if (sharding->kind == HLO_SHARDING_MAXIMAL) {
        HLO_FAIL_IF(parts->devices.count != 1, HLO_INVALID_ARGUMENT, "a maximal sharding names %lld devices",
                    (long long)parts->devices.count);
        sharding->maximal_device = parts->devices.items[0];
        return HLO_SUCCESS;
    }
    if (sharding->kind != HLO_SHARDING_TILED) return HLO_SUCCESS;
    HLO_TRY(make_iota(arena, parts->iota, parts->permutation, tiles, &sharding->iota));
    HLO_FAIL_IF(!parts->iota.count && parts->devices.count != tiles, HLO_INVALID_ARGUMENT,
                "a sharding of %lld tiles names %lld devices", (long long)tiles, (long long)parts->devices.count);
    if (tiles == 1) {  // on one device there is nothing to tile, and XLA reads it so
        sharding->kind = HLO_SHARDING_REPLICATED;
        sharding->iota = (HloIotaDevices){0};
        return HLO_SUCCESS;
    }
    sharding->tile_dims = (HloInts){parts->dims.items, parts->dims.count};
    sharding->devices = (HloInts){parts->devices.items, parts->devices.count};
    HLO_FAIL_IF(parts->subgroups.count + sharding->last_tile_dim_replicate > parts->dims.count, HLO_INVALID_ARGUMENT,
                "a sharding of %lld tile dimensions has %lld subgroup dimensions", (long long)parts->dims.count,
                (long long)parts->subgroups.count);
    HLO_FAIL_IF(parts->subgroups.count && sharding->last_tile_dim_replicate, HLO_INVALID_ARGUMENT,
                "a sharding has both subgroups and a replicated last tile dimension");
    HloShardingKind *kinds = HLO_ARENA_NEW(arena, HloShardingKind, parts->subgroups.count);
    for (int64_t i = 0; i < parts->subgroups.count; i++) {
        HLO_FAIL_IF(!kind_from_number((uint64_t)parts->subgroups.items[i], &kinds[i]) || !is_subgroup(kinds[i]),
                    HLO_INVALID_ARGUMENT, "unknown subgroup type %lld", (long long)parts->subgroups.items[i]);
    }
    sharding->subgroups = kinds;
    sharding->subgroup_count = parts->subgroups.count;
    return HLO_SUCCESS;
}

// One message for all forms of a sharding. Its kind and its other fields determine which fields count (the iota of 9
// and 10 replaces the list of devices in 4), and fields come in any order: so all are collected, and finish_sharding()
// decides. A named sharding (14) is a separate message, whose origins become those of this one.
HloStatus hlo_proto_read_sharding(const HloProtoSource *source, HloSpan span, const HloSharding **result) {
    assert(result);
    HloProtoSource inner;
    HLO_TRY(hlo_proto_descend(source, &inner));
    HloArena *arena = source->arena;
    HloSharding *sharding = HLO_ARENA_NEW(arena, HloSharding, 1);
    ShardingParts parts = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        switch (field.number) {
            case 1:
                HLO_FAIL_IF(!kind_from_number(field.value, &sharding->kind), HLO_INVALID_ARGUMENT,
                            "unknown sharding type %llu", (unsigned long long)field.value);
                break;
            case 3: HLO_TRY(hlo_wire_read_ints(arena, source->begin, &field, &parts.dims)); break;
            case 4: HLO_TRY(hlo_wire_read_ints(arena, source->begin, &field, &parts.devices)); break;
            case 5: {
                const HloSharding *element = NULL;
                HLO_TRY(hlo_proto_read_sharding(&inner, field.bytes, &element));
                hlo_vector_push(arena, &parts.elements, element);
                break;
            }
            case 6: sharding->last_tile_dim_replicate = field.value != 0; break;
            case 7: HLO_TRY(read_origin(source, field.bytes, &parts.origins)); break;
            case 8: HLO_TRY(hlo_wire_read_ints(arena, source->begin, &field, &parts.subgroups)); break;
            case 9: HLO_TRY(hlo_wire_read_ints(arena, source->begin, &field, &parts.iota)); break;
            case 10: HLO_TRY(hlo_wire_read_ints(arena, source->begin, &field, &parts.permutation)); break;
            case 11: parts.is_group = field.value != 0; break;
            case 12: sharding->group_id = (int64_t)field.value; break;
            case 13: parts.is_like = field.value != 0; break;
            case 14:
                sharding->kind = HLO_SHARDING_NAMED;
                HLO_TRY(read_named(&inner, field.bytes, &parts.origins, &sharding->named));
                break;
            default: break;
        }
    }
    HLO_TRY(status);
    sharding->metadata = parts.origins.items;
    sharding->metadata_count = parts.origins.count;
    *result = sharding;
    return finish_sharding(source, &parts, sharding);
}

typedef struct ShardingRequest {
    HloProtoSource source;
    HloSpan span;
    const HloSharding *result;
} ShardingRequest;

static HloStatus read_protected(void *argument) {
    ShardingRequest *request = argument;
    return hlo_proto_read_sharding(&request->source, request->span, &request->result);
}

HloStatus hlo_sharding_from_proto(HloArena *arena, const void *bytes, size_t length, const HloSharding **sharding) {
    ShardingRequest request = {{arena, bytes, 0, NULL}, {bytes, length}, NULL};
    HLO_TRY(hlo_protect(read_protected, &request));
    *sharding = request.result;
    return HLO_SUCCESS;
}

// IotaReplicaGroupListProto.
static HloStatus read_iota_groups(const HloProtoSource *source, HloSpan span, HloReplicaGroups *groups) {
    HloInt64Vector dims = {0}, permutation = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    groups->form = HLO_GROUPS_IOTA;
    while (hlo_wire_next(&reader, &field, &status)) {
        switch (field.number) {
            case 1: groups->count = (int64_t)field.value; break;
            case 2: groups->size = (int64_t)field.value; break;
            case 3: HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &dims)); break;
            case 4: HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &permutation)); break;
            default: break;
        }
    }
    HLO_TRY(status);
    int64_t total;
    HLO_FAIL_IF(groups->count < 1 || groups->size < 1 || __builtin_mul_overflow(groups->count, groups->size, &total),
                HLO_INVALID_ARGUMENT, "iota replica groups of %lld by %lld", (long long)groups->count,
                (long long)groups->size);
    return make_iota(source->arena, dims, permutation, total, &groups->iota);
}

// MeshAxesReplicaGroupListProto; axes are checked once the mesh has been read.
static HloStatus read_mesh_groups(const HloProtoSource *source, HloSpan span, HloReplicaGroups *groups) {
    AxisVector axes = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    groups->form = HLO_GROUPS_MESH;
    while (hlo_wire_next(&reader, &field, &status)) {
        HloAxisRef axis = {0};
        if (field.number == 1) HLO_TRY(read_mesh(source, field.bytes, &groups->mesh));
        if (field.number != 2) continue;
        HLO_TRY(read_axis(source, field.bytes, &axis));
        hlo_vector_push(source->arena, &axes, axis);
    }
    HLO_TRY(status);
    for (int64_t i = 0; i < axes.count; i++) {
        HLO_FAIL_IF(!axis_fits(&groups->mesh, &axes.items[i]), HLO_INVALID_ARGUMENT,
                    "replica groups name an axis that their mesh does not have");
    }
    groups->axes = axes.items;
    groups->axis_count = axes.count;
    return HLO_SUCCESS;
}

HloStatus hlo_proto_read_group_form(const HloProtoSource *source, int32_t number, HloSpan span,
                                    const HloReplicaGroups **result) {
    HloReplicaGroups *groups = HLO_ARENA_NEW(source->arena, HloReplicaGroups, 1);
    *result = groups;
    return number == HLO_PROTO_IOTA_GROUPS ? read_iota_groups(source, span, groups)
                                           : read_mesh_groups(source, span, groups);
}

// Three forms, of which a message has one: lists of ids (1), an iota that is reshaped and transposed (2), and axes of a
// mesh (3). No groups at all are an empty list, which means one group of all devices.
HloStatus hlo_proto_read_replica_groups(const HloProtoSource *source, HloSpan span, const HloReplicaGroups **result) {
    assert(result);
    HloReplicaGroups *groups = HLO_ARENA_NEW(source->arena, HloReplicaGroups, 1);
    HLO_VECTOR(HloInts) lists = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field, id;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) {
            HloInt64Vector ids = {0};
            HloWireReader group = hlo_wire_reader(source->begin, field.bytes);
            while (hlo_wire_next(&group, &id, &status)) {
                if (id.number == 1) HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &id, &ids));
            }
            HLO_TRY(status);
            hlo_vector_push(source->arena, &lists, ((HloInts){ids.items, ids.count}));
        } else if (field.number == 2) {
            HLO_TRY(read_iota_groups(source, field.bytes, groups));
        } else if (field.number == 3) {
            HLO_TRY(read_mesh_groups(source, field.bytes, groups));
        }
    }
    HLO_TRY(status);
    if (groups->form == HLO_GROUPS_LIST) {
        groups->groups = lists.items;
        groups->count = lists.count;
    }
    *result = groups;
    return HLO_SUCCESS;
}
