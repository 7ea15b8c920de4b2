// SPDX-License-Identifier: Apache-2.0
// Annotations are converted to axes of a mesh, and axes back to annotations.
//
// A tiled annotation lists devices in the order of its tiles. Most lists are products: each tile dimension is a few
// runs of devices at equal distances (segments), and a segment is a set of atoms of the mesh. A list that is no
// product, or not one in the module's mesh, is foreign: it gets any atoms of the right sizes, and a table of which
// device must hold what, which one permute at the boundary establishes.
//
//     devices=[2,4]<=[4,2]T(1,0)    tiles  0 2 4 6 / 1 3 5 7
//     dimension 0: one run of 2 devices, 1 apart   segment {stride 1, size 2}
//     dimension 1: one run of 4 devices, 2 apart   segment {stride 2, size 4}
//     cuts of the mesh: 1, 2 and 8, so that axes of 4 (stride 2) and 2 (stride 1) express it
// An annotation devices=[8]<=[8] beside it is read as one list of both axes, major first.
//
// The mesh of a module (spmd_mesh_infer) is the finest grid that its annotations need, as long as their strides form a
// chain of divisors. Reading (spmd_annotation_from_hlo) accepts V1 lists, V2 iotas and V3 named axes; writing
// (spmd_sharding_to_hlo) gives V2, or a V1 list for foreign orders.
#include "spmd_partitioner/convert.h"

#include <assert.h>
#include <string.h>

#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/sdy.h"

// A run of devices at equal distances: one factor of a device order.
typedef struct Segment {
    int64_t stride, size;
} Segment;
typedef HLO_VECTOR(Segment) Segments;

// A tiled annotation taken apart: the factors of each tile dimension, major to minor.
typedef struct Tiles {
    int64_t count;  // of tile dimensions, subgroups included
    Segments *dims;
    int64_t devices;
} Tiles;

// -1 when it does not fit.
static int64_t product_of(HloInts ints) {
    int64_t product = 1;
    for (int64_t i = 0; i < ints.count; i++) {
        if (ints.items[i] < 0 || __builtin_mul_overflow(product, ints.items[i], &product)) return -1;
    }
    return product;
}

// Takes `size` devices off the major end of the transposed reshape list; false when it does not split evenly. A tile
// dimension may end inside of a run, which is then split in two: [8] for tiles of 2 and 4 devices is a run of stride 4
// and one of stride 1.
static bool take_factors(HloArena *arena, Segments *rest, int64_t *first, int64_t size, Segments *out) {
    assert(size > 0 && out);
    while (size > 1) {
        if (*first == rest->count) return false;
        Segment *segment = &rest->items[*first];
        if (size % segment->size == 0) {
            hlo_vector_push(arena, out, *segment);
            size /= segment->size;
            ++*first;
        } else if (segment->size % size == 0) {
            int64_t below = segment->size / size;
            Segment major = {segment->stride * below, size};
            hlo_vector_push(arena, out, major);
            segment->size = below;
            return true;
        } else {
            return false;
        }
    }
    return true;
}

// The device order of V2 text: reshape 0, 1, 2 ... to `dims`, transpose by `permutation`, flatten. Transposing only
// changes the order in which runs are listed, so the devices need not be written out.
static bool tiles_from_iota(HloArena *arena, const HloSharding *sharding, Tiles *tiles) {
    const HloIotaDevices *iota = &sharding->iota;
    int64_t count = iota->dims.count;
    int64_t *strides = HLO_ARENA_NEW(arena, int64_t, count);
    int64_t stride = 1;
    for (int64_t i = count - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= iota->dims.items[i];
    }
    Segments order = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t from = iota->permutation.count ? iota->permutation.items[i] : i;
        Segment segment = {strides[from], iota->dims.items[from]};
        if (segment.size > 1) hlo_vector_push(arena, &order, segment);
    }
    int64_t first = 0;
    for (int64_t i = 0; i < tiles->count; i++) {
        if (!take_factors(arena, &order, &first, sharding->tile_dims.items[i], &tiles->dims[i])) return false;
    }
    return true;
}

// Finds the factors of one tile dimension of a device list; `weight` is the distance of neighbours in the list. Runs
// are found minor first, by how far the distance of the first two devices continues. A run that does not divide the
// size is shortened until it does. False where no run begins.
static bool list_factors(HloArena *arena, const int64_t *devices, int64_t weight, int64_t size, Segments *out) {
    assert(weight > 0 && size > 0);
    Segments minor_first = {0};
    for (int64_t done = 1; done < size;) {
        int64_t delta = devices[weight * done] - devices[0];
        int64_t run = 2;
        while (run * done < size && devices[weight * done * run] - devices[0] == delta * run) run++;
        while (run > 1 && size / done % run) run--;
        if (delta <= 0 || run < 2) return false;
        Segment segment = {delta, run};
        hlo_vector_push(arena, &minor_first, segment);
        done *= run;
    }
    for (int64_t i = minor_first.count - 1; i >= 0; i--) hlo_vector_push(arena, out, minor_first.items[i]);
    return true;
}

// Returns the device at list position `index` by the factors: the inverse of taking the list apart.
static int64_t device_at(const Tiles *tiles, int64_t index) {
    assert(index >= 0);
    int64_t device = 0;
    for (int64_t i = tiles->count - 1; i >= 0; i--) {
        for (int64_t k = tiles->dims[i].count - 1; k >= 0; k--) {
            device += index % tiles->dims[i].items[k].size * tiles->dims[i].items[k].stride;
            index /= tiles->dims[i].items[k].size;
        }
    }
    return device;
}

// V1 text lists every device, in any permutation. Two lists may begin alike, so the result of list_factors() is
// compared with the whole list. The list may name any device, but only existing devices form a product of strides.
static bool tiles_from_list(HloArena *arena, HloInts tile_dims, const int64_t *devices, Tiles *tiles) {
    if (devices[0] != 0) return false;
    for (int64_t i = 0; i < tiles->devices; i++)
        if (devices[i] < 0 || devices[i] >= tiles->devices) return false;
    int64_t weight = tiles->devices;
    for (int64_t i = 0; i < tiles->count; i++) {
        weight /= tile_dims.items[i];
        if (!list_factors(arena, devices, weight, tile_dims.items[i], &tiles->dims[i])) return false;
    }
    for (int64_t i = 0; i < tiles->devices; i++) {
        if (device_at(tiles, i) != devices[i]) return false;
    }
    return true;
}

// Takes a tiled annotation apart; false when its device order is not a product of strides.
static bool tiles_new(HloArena *arena, const HloSharding *sharding, Tiles *tiles) {
    assert(sharding->kind == HLO_SHARDING_TILED);
    *tiles = (Tiles){.count = sharding->tile_dims.count, .devices = product_of(sharding->tile_dims)};
    tiles->dims = HLO_ARENA_NEW(arena, Segments, tiles->count);
    int64_t listed = sharding->iota.dims.count ? product_of(sharding->iota.dims) : sharding->devices.count;
    if (tiles->devices < 1 || listed != tiles->devices) return false;
    if (sharding->iota.dims.count) return tiles_from_iota(arena, sharding, tiles);
    return tiles_from_list(arena, sharding->tile_dims, sharding->devices.items, tiles);
}

// Number of array dimensions that a tiled annotation describes.
// Trailing tile dimensions are subgroups or replication.
static int64_t tiled_rank(const HloSharding *sharding) {
    return sharding->tile_dims.count - sharding->subgroup_count - (sharding->last_tile_dim_replicate ? 1 : 0);
}

// ---- the mesh ----

// Strides, ascending, each dividing the next: where annotations separate devices. Starts as {1, devices}.
typedef struct SplitPoints {
    int64_t items[2 * SPMD_MAX_ATOMS + 4];
    int64_t count;
} SplitPoints;

// Adds a stride if it keeps the list a chain of divisors.
// False, and the list unchanged, if it would not; true if it is there already.
static bool add_split(SplitPoints *splits, int64_t split) {
    assert(split > 0);
    int64_t at = 0;
    while (at < splits->count && splits->items[at] < split) at++;
    if (at < splits->count && splits->items[at] == split) return true;
    if (at > 0 && split % splits->items[at - 1]) return false;
    if (at < splits->count && splits->items[at] % split) return false;
    if (splits->count == (int64_t)HLO_COUNT_OF(splits->items)) return false;
    memmove(splits->items + at + 1, splits->items + at, (size_t)(splits->count - at) * sizeof(int64_t));
    splits->items[at] = split;
    splits->count++;
    return true;
}

// Factors of a list of V3 axes, in the strides of their own mesh.
static void segments_from_axes(HloArena *arena, const HloMesh *mesh, const HloAxisRefs *axes, Segments *out) {
    for (int64_t i = 0; i < axes->count; i++) {
        const HloAxisRef *axis = &axes->items[i];
        int64_t stride = 1, full = mesh->axis_sizes.items[axis->axis];
        for (int64_t k = axis->axis + 1; k < mesh->axis_sizes.count; k++) stride *= mesh->axis_sizes.items[k];
        int64_t size = axis->size ? axis->size : full;
        Segment segment = {stride * (full / (axis->pre_size * size)), size};
        hlo_vector_push(arena, out, segment);
    }
}

static bool is_plain(const HloMesh *mesh) {
    return !mesh->iota.dims.count && !mesh->device_ids.count;
}

// As add_annotation(): the strides at which parts of axes begin and end.
static void add_named(HloArena *scratch, SplitPoints *splits, const HloNamedSharding *named, int64_t devices) {
    if (!is_plain(&named->mesh) || product_of(named->mesh.axis_sizes) != devices) return;
    Segments segments = {0};
    const HloAxisRefs *others[] = {&named->replicated, &named->unreduced, &named->manual};
    for (int64_t d = 0; d < named->dim_count; d++)
        segments_from_axes(scratch, &named->mesh, &named->dims[d], &segments);
    for (size_t i = 0; i < HLO_COUNT_OF(others); i++) segments_from_axes(scratch, &named->mesh, others[i], &segments);
    SplitPoints trial = *splits;
    for (int64_t i = 0; i < segments.count; i++) {
        Segment segment = segments.items[i];
        if (!add_split(&trial, segment.stride) || !add_split(&trial, segment.stride * segment.size)) return;
    }
    *splits = trial;
}

// Adds the strides of one annotation, all or none of them. Half of the strides of an annotation that does not fit would
// split the mesh for nothing, and more atoms make every later search slower.
static void add_annotation(HloArena *scratch, SplitPoints *splits, const HloSharding *sharding, int64_t devices) {
    Tiles tiles;
    if (sharding->kind == HLO_SHARDING_TUPLE) {
        for (int64_t i = 0; i < sharding->element_count; i++)
            add_annotation(scratch, splits, sharding->elements[i], devices);
        return;
    }
    if (sharding->kind == HLO_SHARDING_NAMED) add_named(scratch, splits, sharding->named, devices);
    if (sharding->kind != HLO_SHARDING_TILED || product_of(sharding->tile_dims) != devices) return;
    if (!tiles_new(scratch, sharding, &tiles)) return;
    SplitPoints trial = *splits;
    for (int64_t i = 0; i < tiles.count; i++) {
        for (int64_t k = 0; k < tiles.dims[i].count; k++) {
            Segment segment = tiles.dims[i].items[k];
            if (!add_split(&trial, segment.stride) || !add_split(&trial, segment.stride * segment.size)) return;
        }
    }
    *splits = trial;
}

// The first V3 mesh of plain device order among the annotations, or NULL.
static const HloMesh *named_mesh(const HloSharding *sharding, int64_t devices) {
    if (!sharding) return NULL;
    if (sharding->kind == HLO_SHARDING_TUPLE) {
        for (int64_t i = 0; i < sharding->element_count; i++) {
            const HloMesh *mesh = named_mesh(sharding->elements[i], devices);
            if (mesh) return mesh;
        }
        return NULL;
    }
    if (sharding->kind != HLO_SHARDING_NAMED) return NULL;
    const HloMesh *mesh = &sharding->named->mesh;
    return !mesh->is_maximal && is_plain(mesh) && product_of(mesh->axis_sizes) == devices ? mesh : NULL;
}

static int64_t axes_of_mesh(HloArena *arena, const HloMesh *mesh, const SpmdMeshAxis **axes) {
    SpmdMeshAxis *copy = HLO_ARENA_NEW(arena, SpmdMeshAxis, mesh->axis_sizes.count);
    for (int64_t i = 0; i < mesh->axis_sizes.count; i++) {
        copy[i] = (SpmdMeshAxis){mesh->axis_names[i], mesh->axis_sizes.items[i]};
    }
    *axes = copy;
    return mesh->axis_sizes.count;
}

// Named axes from options, sdy meshes or V3 annotations; their number, 0 if there are none. A module may have several
// meshes: the first with as many devices as the program (`devices` 0: any) and no device order of its own is the one
// that axes are named by.
static int64_t named_axes(HloArena *arena, const HloModule *module, const SpmdShardy *shardy,
                          const SpmdOptions *options, int64_t devices, const SpmdMeshAxis **axes) {
    if (options->mesh_axis_count) {
        *axes = options->mesh;
        return options->mesh_axis_count;
    }
    for (int64_t i = 0; i < shardy->mesh_count; i++) {
        const HloMesh *mesh = &shardy->meshes[i];
        if (mesh->axis_sizes.count == 0 || !is_plain(mesh)) continue;
        if (devices && product_of(mesh->axis_sizes) != devices) continue;
        return axes_of_mesh(arena, mesh, axes);
    }
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            const HloMesh *mesh = named_mesh(spmd_shardy_sharding(shardy, at), devices);
            if (mesh) return axes_of_mesh(arena, mesh, axes);
        }
    }
    return 0;
}

// The number of values at the boundary of a manual region.
static int64_t boundary_count(const HloInstruction *op) {
    const bool entering = hlo_custom_call_kind(op) == HLO_CALL_FULL_TO_SHARD;
    return entering ? op->operand_count : hlo_shape_leaf_count(op->shape);
}

// Neighbouring instructions mostly share one annotation object, so a comparison of addresses spares nearly all of the
// work in large programs.
static void collect_splits(HloArena *arena, const HloModule *module, const SpmdShardy *shardy, int64_t devices,
                           SplitPoints *splits) {
    assert(devices > 0);
    for (int64_t c = 0; c < module->computations.count; c++) {
        const HloSharding *last = NULL;
        for (HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            const HloSharding *sharding = spmd_shardy_sharding(shardy, at);
            if (sharding && sharding != last) add_annotation(arena, splits, sharding, devices);
            last = sharding;
            const SpmdShardyText *text = spmd_shardy_text(shardy, at);
            const int64_t boundaries = text && text->boundaries ? boundary_count(at) : 0;
            for (int64_t i = 0; i < boundaries; i++)
                add_annotation(arena, splits, text->boundaries[i].sharding, devices);
        }
    }
    for (int64_t i = 0; i < shardy->results.count; i++)
        add_annotation(arena, splits, shardy->results.items[i].sharding, devices);
}

// Options may name parts of axes. Errors in them are reported when an option is applied, where the array is known.
static void collect_option_splits(HloArena *arena, const SpmdOptions *options, const SpmdMeshAxis *axes,
                                  int64_t axis_count, int64_t devices, SplitPoints *splits) {
    for (int64_t i = 0; i < options->shard_count; i++) {
        const char *equals = strrchr(options->shards[i], '=');
        const HloSharding *sharding;
        if (!equals || !strchr(equals, ':')) continue;
        HloStatus status = spmd_spec_parse(arena, axes, axis_count, equals + 1, (int64_t)strlen(equals), &sharding);
        if (!status) add_annotation(arena, splits, sharding, devices);
        hlo_status_free(status);
    }
}

// Axes named axis0, axis1 … between neighbouring cuts.
static int64_t axes_from_splits(HloArena *arena, const SplitPoints *splits, const SpmdMeshAxis **axes) {
    SpmdMeshAxis *made = HLO_ARENA_NEW(arena, SpmdMeshAxis, splits->count + 1);
    int64_t count = 0;
    for (int64_t i = splits->count - 1; i > 0; i--) {
        made[count] = (SpmdMeshAxis){hlo_arena_format(arena, "axis%lld", (long long)count),
                                     splits->items[i] / splits->items[i - 1]};
        count++;
    }
    *axes = made;
    return count;
}

// The number of devices that a program is for, as far as it is known.
typedef struct DeviceCount {
    int64_t count;      // 0: unknown so far
    const char *where;  // what named it first
} DeviceCount;

// Checks a count against the known one; `where` is the place that names it. Either of the two may be wrong.
static HloStatus agree(DeviceCount *known, int64_t count, const char *where) {
    if (count <= 0) return HLO_SUCCESS;
    HLO_FAIL_IF(known->count > 0 && known->count != count, HLO_INVALID_ARGUMENT,
                "%s names %lld devices, but %s names %lld", where, (long long)count, known->where,
                (long long)known->count);
    if (known->count == 0) *known = (DeviceCount){count, where};
    return HLO_SUCCESS;
}

// True if the axes of the mesh split, reduce or fix nothing: the array is whole on every device, of however many, as in
// Shardy, which makes a plain {replicated} of it.
static bool uses_no_axes(const HloNamedSharding *named) {
    if (named->whole != HLO_SHARDING_TILED) return named->whole == HLO_SHARDING_REPLICATED;
    int64_t used = named->unreduced.count + named->manual.count;
    for (int64_t i = 0; i < named->dim_count; i++) used += named->dims[i].count;
    return used == 0;
}

// The number of devices of an annotation; 0 where it has none (replicated, maximal, manual), and -1 where the product
// leaves 64 bits, which agree() ignores too.
static int64_t annotation_devices(const HloSharding *sharding) {
    if (!sharding) return 0;
    if (sharding->kind == HLO_SHARDING_TUPLE) {
        for (int64_t i = 0; i < sharding->element_count; i++) {
            int64_t count = annotation_devices(sharding->elements[i]);
            if (count) return count;
        }
        return 0;
    }
    if (sharding->kind == HLO_SHARDING_TILED) return product_of(sharding->tile_dims);
    if (sharding->kind != HLO_SHARDING_NAMED || uses_no_axes(sharding->named)) return 0;
    return sharding->named->mesh.axis_sizes.count ? product_of(sharding->named->mesh.axis_sizes) : 0;
}

// Runs agree() on one annotation of an instruction.
static HloStatus agree_at(HloArena *scratch, DeviceCount *known, const HloSharding *sharding,
                          const HloInstruction *at) {
    const int64_t devices = annotation_devices(sharding);
    if (devices <= 0) return HLO_SUCCESS;
    if (known->count == 0) {
        *known = (DeviceCount){devices, hlo_arena_format(scratch, "the sharding of %%%s", at->name)};
        return HLO_SUCCESS;
    }
    HloStatus status = agree(known, devices, "its sharding");
    if (!status) return HLO_SUCCESS;
    return hlo_status_at_instruction(hlo_status_annotate(status, "instruction %%%s", at->name), at);
}

// Runs agree_at() on all of Shardy's annotations; without these, on `sharding=`.
static HloStatus agree_with(HloArena *scratch, DeviceCount *known, const SpmdShardy *shardy, const HloInstruction *at) {
    const SpmdShardyText *text = spmd_shardy_text(shardy, at);
    if (!text || !text->leaves) HLO_TRY(agree_at(scratch, known, at->sharding, at));
    if (!text) return HLO_SUCCESS;
    const int64_t leaves = text->leaves ? hlo_shape_leaf_count(at->shape) : 0;
    const int64_t boundaries = text->boundaries ? boundary_count(at) : 0;
    for (int64_t i = 0; i < leaves; i++) HLO_TRY(agree_at(scratch, known, text->leaves[i].sharding, at));
    for (int64_t i = 0; i < boundaries; i++) HLO_TRY(agree_at(scratch, known, text->boundaries[i].sharding, at));
    return text->manual_axes ? agree_at(scratch, known, text->manual_axes, at) : HLO_SUCCESS;
}

// The number of devices that options, module header and annotations agree on, at least 1. INVALID_ARGUMENT when they do
// not agree. Programs state their number of devices in up to four places, which must all agree: a wrong guess would
// silently compute something else.
static HloStatus count_devices(HloArena *scratch, const HloModule *module, const SpmdShardy *shardy,
                               const SpmdOptions *options, int64_t *count) {
    assert(module && count);
    int64_t mesh = options->mesh_axis_count ? 1 : 0;
    for (int64_t i = 0; i < options->mesh_axis_count; i++) {
        HLO_FAIL_IF(options->mesh[i].size < 1 || __builtin_mul_overflow(mesh, options->mesh[i].size, &mesh) ||
                        mesh > SPMD_MAX_DEVICES,
                    HLO_INVALID_ARGUMENT,
                    "mesh axis '%s' has size %lld: sizes must be at least 1 and make at most %lld devices",
                    options->mesh[i].name, (long long)options->mesh[i].size, (long long)SPMD_MAX_DEVICES);
    }
    HLO_FAIL_IF(options->num_partitions < 0 || options->num_partitions > SPMD_MAX_DEVICES, HLO_INVALID_ARGUMENT,
                "the number of partitions must be from 1 to %lld", (long long)SPMD_MAX_DEVICES);
    DeviceCount known = {0};
    HLO_TRY(agree(&known, options->num_partitions, "the requested number of partitions"));
    HLO_TRY(agree(&known, mesh, "the mesh"));
    if (module->num_partitions > 1) HLO_TRY(agree(&known, module->num_partitions, "num_partitions of the module"));
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            HLO_TRY(agree_with(scratch, &known, shardy, at));
        }
    }
    for (int64_t i = 0; i < shardy->results.count; i++)
        HLO_TRY(agree(&known, annotation_devices(shardy->results.items[i].sharding), HLO_SDY_RESULT_SHARDINGS));
    *count = known.count;
    if (*count == 0) {
        const SpmdMeshAxis *axes;
        int64_t axis_count = named_axes(scratch, module, shardy, options, 0, &axes);
        *count = 1;
        for (int64_t i = 0; i < axis_count; i++) *count *= axes[i].size;
    }
    return HLO_SUCCESS;
}

// A mesh is a number of devices divided into atoms: the finest grid in which each annotation of the program is a choice
// of whole atoms. Strides come from named axes first, then from tiled annotations in program order. Those that would
// break the chain of divisors are read as foreign orders later.
HloStatus spmd_mesh_infer(HloArena *arena, const HloModule *module, const SpmdOptions *options, const SpmdMesh **mesh) {
    assert(arena && module && mesh);
    int64_t devices = 1;
    const SpmdShardy *shardy;
    HLO_TRY(spmd_shardy_read(arena, module, &shardy));
    HLO_TRY(count_devices(arena, module, shardy, options, &devices));
    SplitPoints splits = {.items = {1}, .count = 1};
    add_split(&splits, devices);
    const SpmdMeshAxis *axes;
    int64_t axis_count = named_axes(arena, module, shardy, options, devices, &axes);
    int64_t stride = devices;
    for (int64_t i = 0; i < axis_count; i++) add_split(&splits, stride /= axes[i].size);
    collect_splits(arena, module, shardy, devices, &splits);
    if (axis_count) collect_option_splits(arena, options, axes, axis_count, devices, &splits);
    if (!axis_count) axis_count = axes_from_splits(arena, &splits, &axes);
    return spmd_mesh_with_splits(arena, axes, axis_count, splits.items, splits.count, mesh);
}

// ---- reading ----

// Appends the atoms of a factor, major to minor: those between the segment's stride and its end. False when the mesh
// does not split there, that is, when their product is less than the segment.
static bool push_segment(const SpmdMesh *mesh, Segment segment, SpmdAxes *out) {
    assert(segment.size > 0);
    int64_t size = 1;
    for (int32_t i = 0; i < mesh->atom_count; i++) {
        const SpmdAtom *atom = &mesh->atoms[i];
        if (atom->stride < segment.stride || atom->stride * atom->size > segment.stride * segment.size) continue;
        spmd_axes_push(out, i);
        size *= atom->size;
    }
    return size == segment.size;
}

// Which set trailing tile dimension `index` (counted from the array's rank) fills; NULL for plain replication.
static SpmdAtomSet *subgroup_set(const HloSharding *sharding, int64_t index, SpmdAnnotation *annotation) {
    if (index >= sharding->subgroup_count) return NULL;
    if (sharding->subgroups[index] == HLO_SHARDING_MANUAL) return &annotation->sharding->manual;
    if (sharding->subgroups[index] == HLO_SHARDING_UNREDUCED) return &annotation->sharding->unreduced;
    return NULL;
}

// The trailing tile dimensions are subgroups (last_tile_dims); atoms in none of the lists are replicated.
static bool annotation_from_tiles(const SpmdMesh *mesh, const HloSharding *sharding, const Tiles *tiles, int64_t rank,
                                  SpmdAnnotation *annotation) {
    for (int64_t i = 0; i < tiles->count; i++) {
        SpmdAxes axes = {0};
        for (int64_t k = 0; k < tiles->dims[i].count; k++) {
            if (!push_segment(mesh, tiles->dims[i].items[k], &axes)) return false;
        }
        if (i < rank) {
            annotation->sharding->dims[i] = axes;
        } else {
            SpmdAtomSet *set = subgroup_set(sharding, i - rank, annotation);
            if (set) *set |= spmd_axes_set(&axes);
        }
    }
    return true;
}

// Picks any atoms, major first, whose product is `size`. Every prime factor is available because the device counts
// agree.
static SpmdAxes pick_atoms(const SpmdMesh *mesh, int64_t size, SpmdAtomSet *used) {
    assert(size > 0 && used);
    SpmdAxes axes = {0};
    for (int32_t i = 0; i < mesh->atom_count; i++) {
        if ((*used >> i & 1) || size % mesh->atoms[i].size) continue;
        spmd_axes_push(&axes, i);
        *used |= (SpmdAtomSet)1 << i;
        size /= mesh->atoms[i].size;
    }
    return axes;
}

// Devices in the order of the tiles of `sharding`: its dimensions' atoms, then all other atoms.
static void tile_order(const SpmdMesh *mesh, const SpmdSharding *sharding, int64_t *devices) {
    SpmdAxes order = {0};
    for (int32_t i = 0; i < sharding->rank; i++) spmd_axes_append(&order, &sharding->dims[i]);
    SpmdAtomSet used = spmd_axes_set(&order);
    for (int32_t i = 0; i < mesh->atom_count; i++) {
        if (!(used >> i & 1)) spmd_axes_push(&order, i);
    }
    for (int64_t device = 0; device < mesh->device_count; device++) {
        devices[spmd_axes_index(mesh, &order, device)] = device;
    }
}

// An order that the mesh cannot hold: the same tile counts on the mesh, and where each device's part belongs.
static HloStatus annotation_foreign(HloArena *arena, const SpmdMesh *mesh, const HloSharding *sharding, int64_t rank,
                                    SpmdAnnotation *annotation) {
    for (int64_t i = rank; i < sharding->tile_dims.count; i++) {
        bool special = i - rank < sharding->subgroup_count && sharding->subgroups[i - rank] != HLO_SHARDING_REPLICATED;
        HLO_FAIL_IF(special && sharding->tile_dims.items[i] > 1, HLO_UNIMPLEMENTED,
                    "manual or unreduced subgroups with a device order that the mesh cannot hold");
    }
    SpmdAtomSet used = 0;
    for (int64_t i = 0; i < rank; i++) {
        annotation->sharding->dims[i] = pick_atoms(mesh, sharding->tile_dims.items[i], &used);
    }
    int64_t count = mesh->device_count;
    int64_t *ours = HLO_ARENA_NEW(arena, int64_t, count), *map = HLO_ARENA_NEW(arena, int64_t, count);
    tile_order(mesh, annotation->sharding, ours);
    const int64_t *theirs = hlo_sharding_devices(arena, sharding);
    for (int64_t i = 0; i < count; i++) map[ours[i]] = theirs[i];
    annotation->devices = map;
    return HLO_SUCCESS;
}

// Every device once.
static HloStatus check_list(HloArena *arena, HloInts devices) {
    bool *seen = HLO_ARENA_NEW(arena, bool, devices.count);
    for (int64_t i = 0; i < devices.count; i++) {
        int64_t device = devices.items[i];
        HLO_FAIL_IF(device < 0 || device >= devices.count || seen[device], HLO_INVALID_ARGUMENT,
                    "device %lld is repeated or out of range in a sharding", (long long)device);
        seen[device] = true;
    }
    return HLO_SUCCESS;
}

// Checks the annotation in full before it is read: a file may contain anything.
static HloStatus annotation_from_tiled(HloArena *arena, const SpmdMesh *mesh, const HloSharding *sharding, int64_t rank,
                                       SpmdAnnotation *annotation) {
    assert(sharding->kind == HLO_SHARDING_TILED && rank >= 0);
    int64_t devices = product_of(sharding->tile_dims);
    HLO_FAIL_IF(tiled_rank(sharding) != rank, HLO_INVALID_ARGUMENT,
                "a sharding of %lld dimensions on an array of rank %lld", (long long)tiled_rank(sharding),
                (long long)rank);
    HLO_FAIL_IF(devices != mesh->device_count, HLO_INVALID_ARGUMENT, "a sharding of %lld devices on a mesh of %lld",
                (long long)devices, (long long)mesh->device_count);
    int64_t listed = sharding->iota.dims.count ? product_of(sharding->iota.dims) : sharding->devices.count;
    HLO_FAIL_IF(listed != devices, HLO_INVALID_ARGUMENT, "a sharding of %lld tiles lists %lld devices",
                (long long)devices, (long long)listed);
    if (!sharding->iota.dims.count) HLO_TRY(check_list(arena, sharding->devices));
    Tiles tiles;
    if (tiles_new(arena, sharding, &tiles) && annotation_from_tiles(mesh, sharding, &tiles, rank, annotation)) {
        return HLO_SUCCESS;
    }
    annotation->sharding = spmd_sharding_new(arena, rank, 0);
    return annotation_foreign(arena, mesh, sharding, rank, annotation);
}

int64_t spmd_mesh_coordinate(const HloMesh *mesh, const HloAxisRefs *axes, int64_t position) {
    assert(position >= 0);
    int64_t index = 0;
    for (int64_t i = 0; i < axes->count; i++) {
        const HloAxisRef *axis = &axes->items[i];
        int64_t below = 1, full = mesh->axis_sizes.items[axis->axis];
        for (int64_t k = axis->axis + 1; k < mesh->axis_sizes.count; k++) below *= mesh->axis_sizes.items[k];
        int64_t size = axis->size ? axis->size : full;
        below *= full / (axis->pre_size * size);
        index = index * size + position / below % size;
    }
    return index;
}

// Tile counts of one list of V3 axes.
// An axis without a size of its own is taken whole.
static int64_t product_of_axes(const HloMesh *mesh, const HloAxisRefs *axes) {
    int64_t product = 1;
    for (int64_t i = 0; i < axes->count; i++) {
        product *= axes->items[i].size ? axes->items[i].size : mesh->axis_sizes.items[axes->items[i].axis];
    }
    return product;
}

// Devices by position in a mesh.
static const int64_t *mesh_devices(HloArena *arena, const HloMesh *mesh, int64_t count) {
    if (mesh->device_ids.count) return mesh->device_ids.items;
    int64_t *devices = HLO_ARENA_NEW(arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) devices[i] = i;
    if (mesh->iota.dims.count) hlo_iota_devices_expand(&mesh->iota, devices);
    return devices;
}

// A named sharding as the V1 tiling that it means.
// Manual, unreduced and replicated axes become three trailing subgroups, each of size 1 where there
// are none. Devices of one tile are listed by their position in the annotation's mesh.
static HloSharding *tiled_from_named(HloArena *arena, const HloNamedSharding *named, int64_t rank) {
    const HloMesh *mesh = &named->mesh;
    static const HloAxisRefs none = {0};
    const HloAxisRefs *special[2] = {&named->manual, &named->unreduced};
    static const HloShardingKind kinds[3] = {HLO_SHARDING_MANUAL, HLO_SHARDING_UNREDUCED, HLO_SHARDING_REPLICATED};
    int64_t count = product_of(mesh->axis_sizes), tiles = 1;
    HloSharding *tiled = HLO_ARENA_NEW(arena, HloSharding, 1);
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, rank + 3);
    for (int64_t d = 0; d < rank + 2; d++) {
        dims[d] = product_of_axes(mesh, d < named->dim_count ? &named->dims[d] : d < rank ? &none : special[d - rank]);
        tiles *= dims[d];
    }
    dims[rank + 2] = count / tiles;
    int64_t *list = HLO_ARENA_NEW(arena, int64_t, count), *filled = HLO_ARENA_NEW(arena, int64_t, tiles);
    const int64_t *devices = mesh_devices(arena, mesh, count);
    for (int64_t position = 0; position < count; position++) {
        int64_t tile = 0;
        for (int64_t d = 0; d < rank + 2; d++) {
            const HloAxisRefs *axes = d < named->dim_count ? &named->dims[d] : d < rank ? &none : special[d - rank];
            tile = tile * dims[d] + spmd_mesh_coordinate(mesh, axes, position);
        }
        list[tile * dims[rank + 2] + filled[tile]++] = devices[position];
    }
    tiled->kind = HLO_SHARDING_TILED;
    tiled->tile_dims = (HloInts){dims, rank + 3};
    tiled->devices = (HloInts){list, count};
    tiled->subgroups = kinds;
    tiled->subgroup_count = 3;
    return tiled;
}

// The axes of V3 text are names in the annotation's own mesh, whose sizes and strides may be split differently from the
// module's. By strides both describe the same devices. False where the module's mesh does not split there.
static bool axes_from_named(HloArena *arena, const SpmdMesh *mesh, const HloNamedSharding *named,
                            const HloAxisRefs *refs, SpmdAxes *out) {
    Segments segments = {0};
    segments_from_axes(arena, &named->mesh, refs, &segments);
    for (int64_t i = 0; i < segments.count; i++) {
        if (segments.items[i].size > 1 && !push_segment(mesh, segments.items[i], out)) return false;
    }
    return true;
}

// All lists of a named sharding in the plain order.
static bool annotation_from_axes(HloArena *arena, const SpmdMesh *mesh, const HloNamedSharding *named,
                                 SpmdAnnotation *annotation) {
    for (int64_t i = 0; i < named->dim_count; i++) {
        if (!axes_from_named(arena, mesh, named, &named->dims[i], &annotation->sharding->dims[i])) return false;
    }
    const HloAxisRefs *refs[3] = {&named->replicated, &named->unreduced, &named->manual};
    SpmdAxes sets[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        if (!axes_from_named(arena, mesh, named, refs[i], &sets[i])) return false;
    }
    annotation->replicated = spmd_axes_set(&sets[0]);
    annotation->sharding->unreduced = spmd_axes_set(&sets[1]);
    annotation->sharding->manual = spmd_axes_set(&sets[2]);
    return true;
}

// A mesh without a device order has the plain order, in which strides follow from the sizes. One with an order goes
// through tiles, as V1 text does, because its strides do not determine devices. So does one that is split where the
// module's mesh is not (thirds of an axis of six beside halves of it).
static HloStatus annotation_from_named(HloArena *arena, const SpmdMesh *mesh, const HloNamedSharding *named,
                                       int64_t rank, SpmdAnnotation *annotation) {
    assert(rank >= 0 && annotation);
    if (named->mesh.is_maximal || named->whole == HLO_SHARDING_REPLICATED) return HLO_SUCCESS;
    if (named->whole == HLO_SHARDING_MANUAL) annotation->sharding->manual = spmd_mesh_all(mesh);
    if (named->whole == HLO_SHARDING_UNREDUCED) annotation->sharding->unreduced = spmd_mesh_all(mesh);
    if (named->whole != HLO_SHARDING_TILED) return HLO_SUCCESS;
    // Dimensions that it does not list are not sharded.
    HLO_FAIL_IF(named->dim_count > rank, HLO_INVALID_ARGUMENT, "a sharding of %lld dimensions on an array of rank %lld",
                (long long)named->dim_count, (long long)rank);
    bool *open = HLO_ARENA_NEW(arena, bool, rank);
    for (int64_t i = 0; i < named->dim_count; i++) open[i] = named->dims[i].open;
    // A mesh without axes is Shardy's way to say that all devices have the whole.
    const bool fits = named->mesh.axis_sizes.count == 0 || product_of(named->mesh.axis_sizes) == mesh->device_count;
    if (!fits && uses_no_axes(named)) {
        annotation->open = open;
        return HLO_SUCCESS;
    }
    HLO_FAIL_IF(!fits, HLO_INVALID_ARGUMENT, "a sharding of %lld devices on a mesh of %lld",
                (long long)product_of(named->mesh.axis_sizes), (long long)mesh->device_count);
    if (!is_plain(&named->mesh) || !annotation_from_axes(arena, mesh, named, annotation)) {
        annotation->sharding = spmd_sharding_new(arena, rank, 0);
        HLO_TRY(annotation_from_tiled(arena, mesh, tiled_from_named(arena, named, rank), rank, annotation));
    }
    annotation->open = open;
    return HLO_SUCCESS;
}

// Only the run determines how much of a dynamic dimension there is.
HloStatus spmd_annotation_keep_dynamic(const HloShape *shape, SpmdAnnotation *annotation) {
    for (int32_t d = 0; shape->dynamic && d < shape->rank; d++) {
        if (!shape->dynamic[d]) continue;
        HLO_FAIL_IF(annotation->sharding->dims[d].count, HLO_UNIMPLEMENTED,
                    "dimension %d has dynamic size and cannot be sharded", d);
        if (annotation->open) annotation->open[d] = false;
    }
    return HLO_SUCCESS;
}

// One case a kind of annotation; a maximal one (all on one device) is read as replicated, because every device runs the
// program.
HloStatus spmd_annotation_from_hlo(HloArena *arena, const SpmdMesh *mesh, const HloSharding *sharding, int64_t rank,
                                   SpmdAnnotation *annotation) {
    assert(sharding && rank >= 0 && annotation);
    *annotation = (SpmdAnnotation){.sharding = spmd_sharding_new(arena, rank, 0)};
    switch (sharding->kind) {
        case HLO_SHARDING_TILED: return annotation_from_tiled(arena, mesh, sharding, rank, annotation);
        case HLO_SHARDING_NAMED: return annotation_from_named(arena, mesh, sharding->named, rank, annotation);
        case HLO_SHARDING_MANUAL: annotation->sharding->manual = spmd_mesh_all(mesh); return HLO_SUCCESS;
        case HLO_SHARDING_UNREDUCED: annotation->sharding->unreduced = spmd_mesh_all(mesh); return HLO_SUCCESS;
        case HLO_SHARDING_UNKNOWN:
            annotation->open = HLO_ARENA_NEW(arena, bool, rank);
            for (int64_t i = 0; i < rank; i++) annotation->open[i] = true;
            return HLO_SUCCESS;
        case HLO_SHARDING_REPLICATED:
        case HLO_SHARDING_MAXIMAL: return HLO_SUCCESS;
        case HLO_SHARDING_TUPLE: break;
    }
    return hlo_error(HLO_INVALID_ARGUMENT, "a tuple sharding on an array");
}

// ---- writing ----

// V2 order: reshape the devices to runs of neighbouring atoms, and transpose the runs into tile order. Runs are
// numbered by their position in the mesh, which is the order of the iota's dimensions; `permutation` lists them in tile
// order.
static void set_iota(HloArena *arena, const SpmdMesh *mesh, const SpmdAxes *order, HloSharding *out) {
    int64_t sizes[SPMD_MAX_ATOMS] = {0}, firsts[SPMD_MAX_ATOMS] = {0};
    int64_t count = 0;
    for (int32_t i = 0; i < order->count; i++) {
        if (i && order->items[i] == order->items[i - 1] + 1) {
            sizes[count - 1] *= mesh->atoms[order->items[i]].size;
        } else {
            firsts[count] = order->items[i];
            sizes[count++] = mesh->atoms[order->items[i]].size;
        }
    }
    int64_t dims[SPMD_MAX_ATOMS + 1], permutation[SPMD_MAX_ATOMS + 1];
    for (int64_t i = 0; i < count; i++) {
        int64_t place = 0;
        for (int64_t j = 0; j < count; j++) place += firsts[j] < firsts[i];
        dims[place] = sizes[i];
        permutation[i] = place;
    }
    if (count == 0) dims[count++] = 1;
    out->iota.dims = hlo_ints(arena, dims, count);
    if (count > 1) out->iota.permutation = hlo_ints(arena, permutation, count);
}

// A foreign order has no form as runs: every device is listed.
static void set_list(HloArena *arena, const SpmdMesh *mesh, const SpmdAxes *order, const int64_t *devices,
                     HloSharding *out) {
    int64_t *list = HLO_ARENA_NEW(arena, int64_t, mesh->device_count);
    for (int64_t device = 0; device < mesh->device_count; device++) {
        list[spmd_axes_index(mesh, order, device)] = devices[device];
    }
    out->devices = (HloInts){list, mesh->device_count};
}

// The V2 form, as short as it can be: fully manual, unreduced and replicated ones by their words, plain replication as
// last_tile_dim_replicate, other subgroups by name.
const HloSharding *spmd_sharding_to_hlo(HloArena *arena, const SpmdMesh *mesh, const SpmdSharding *sharding,
                                        const int64_t *devices) {
    assert(arena && mesh && sharding);
    SpmdAtomSet all = spmd_mesh_all(mesh), used = spmd_sharding_used(sharding);
    if (sharding->manual && sharding->manual == all) return hlo_sharding_simple(arena, HLO_SHARDING_MANUAL);
    if (sharding->unreduced && sharding->unreduced == all) return hlo_sharding_simple(arena, HLO_SHARDING_UNREDUCED);
    SpmdAtomSet special = sharding->manual | sharding->unreduced;
    if (!used && !special) return hlo_sharding_simple(arena, HLO_SHARDING_REPLICATED);
    SpmdAtomSet groups[3] = {sharding->manual, sharding->unreduced, all & ~used & ~special};
    HloShardingKind kinds[3] = {HLO_SHARDING_MANUAL, HLO_SHARDING_UNREDUCED, HLO_SHARDING_REPLICATED};
    HloSharding *out = HLO_ARENA_NEW(arena, HloSharding, 1);
    HloShardingKind *subgroups = HLO_ARENA_NEW(arena, HloShardingKind, 3);
    int64_t *tiles = HLO_ARENA_NEW(arena, int64_t, sharding->rank + 3);
    SpmdAxes order = {0};
    out->kind = HLO_SHARDING_TILED;
    for (int32_t i = 0; i < sharding->rank; i++) {
        tiles[i] = spmd_axes_product(mesh, &sharding->dims[i]);
        spmd_axes_append(&order, &sharding->dims[i]);
    }
    for (int g = 0; g < 3; g++) {
        if (!groups[g]) continue;
        spmd_axes_push_set(&order, groups[g]);
        subgroups[out->subgroup_count] = kinds[g];
        tiles[sharding->rank + out->subgroup_count++] = spmd_atoms_product(mesh, groups[g]);
    }
    out->tile_dims = (HloInts){tiles, sharding->rank + out->subgroup_count};
    out->last_tile_dim_replicate = out->subgroup_count == 1 && !special;
    if (out->last_tile_dim_replicate) out->subgroup_count = 0;
    if (out->subgroup_count) out->subgroups = subgroups;
    if (devices) {
        set_list(arena, mesh, &order, devices, out);
    } else {
        set_iota(arena, mesh, &order, out);
    }
    return out;
}
