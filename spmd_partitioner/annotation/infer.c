// SPDX-License-Identifier: Apache-2.0
// The one mesh of a module: the finest grid that its annotations need, as long as their strides form a chain of
// divisors, and the order of devices in it.
//
//     devices=[2,4]<=[4,2]T(1,0)    segments {stride 1, size 2} and {stride 2, size 4}
//     cuts of the mesh: 1, 2 and 8, so that axes of 4 (stride 2) and 2 (stride 1) express it
//
// An annotation devices=[8]<=[8] beside it is read as one list of both axes, major first.
//
// Most programs number devices as the mesh does. In one whose lists are all reversed, say, no list is a product of
// strides, but each of them is one in a mesh whose devices are in that order. Of the plain order and those that
// annotations list, the mesh gets the one in which the most bytes are in arrays whose annotations fit; the plain one
// wins ties. The partitioner works with positions in the mesh, and the program of one device is numbered at the end
// (passes/number.c): the order costs nothing. A program that speaks of device numbers itself keeps the plain order.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "spmd_partitioner/annotation/tiles.h"
#include "spmd_partitioner/convert.h"
#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/sdy.h"

// An annotation of one array.
typedef struct Annotation {
    const HloSharding *sharding;  // no tuple
    int64_t rank;
    double bytes;  // of one device's part, in all arrays that follow each other with this annotation
} Annotation;

typedef struct Inference {
    HloArena *arena;
    const HloModule *module;
    const SpmdShardy *shardy;
    const SpmdOptions *options;
    int64_t devices;
    SpmdDeviceOrder order;
    HLO_VECTOR(Annotation) annotations;
} Inference;

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

// Adds the strides at which segments begin and end, all or none of them: half of the strides of an annotation that does
// not fit would split the mesh for nothing, and more atoms make every later search slower.
static bool add_segments(SplitPoints *splits, const SpmdSegments *segments) {
    SplitPoints trial = *splits;
    for (int64_t i = 0; i < segments->count; i++) {
        const SpmdSegment segment = segments->items[i];
        if (!add_split(&trial, segment.stride) || !add_split(&trial, segment.stride * segment.size)) return false;
    }
    *splits = trial;
    return true;
}

static bool add_tiled(const Inference *inference, SplitPoints *splits, const HloSharding *sharding) {
    SpmdTiles tiles;
    if (spmd_product_of(sharding->tile_dims) != inference->devices) return false;
    if (!spmd_tiles_new(inference->arena, &inference->order, sharding, &tiles)) return false;
    SplitPoints trial = *splits;
    for (int64_t i = 0; i < tiles.count; i++)
        if (!add_segments(&trial, &tiles.dims[i])) return false;
    *splits = trial;
    return true;
}

static bool add_named(const Inference *inference, SplitPoints *splits, const HloNamedSharding *named, int64_t rank) {
    if (spmd_product_of(named->mesh.axis_sizes) != inference->devices) return false;
    if (!spmd_mesh_follows(inference->arena, &named->mesh, &inference->order))
        return named->whole == HLO_SHARDING_TILED && named->dim_count <= rank &&
               add_tiled(inference, splits, spmd_tiled_from_named(inference->arena, named, rank));
    SpmdSegments segments = {0};
    const HloAxisRefs *others[] = {&named->replicated, &named->unreduced, &named->manual};
    for (int64_t d = 0; d < named->dim_count; d++)
        spmd_segments_of_axes(inference->arena, &named->mesh, &named->dims[d], &segments);
    for (size_t i = 0; i < HLO_COUNT_OF(others); i++)
        spmd_segments_of_axes(inference->arena, &named->mesh, others[i], &segments);
    return add_segments(splits, &segments);
}

// Adds the strides of one annotation, all or none of them; false if they do not fit.
static bool add_annotation(const Inference *inference, SplitPoints *splits, const Annotation *annotation) {
    const HloSharding *sharding = annotation->sharding;
    if (sharding->kind == HLO_SHARDING_NAMED) return add_named(inference, splits, sharding->named, annotation->rank);
    return sharding->kind != HLO_SHARDING_TILED || add_tiled(inference, splits, sharding);
}

// Whether axes may be named by a mesh: it has as many devices as the program (0: any), in the module's order.
static bool may_name(const Inference *inference, const HloMesh *mesh) {
    if (mesh->is_maximal || !mesh->axis_sizes.count) return false;
    if (inference->devices && spmd_product_of(mesh->axis_sizes) != inference->devices) return false;
    return spmd_mesh_follows(inference->arena, mesh, &inference->order);
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
// meshes: the first one of its size and order is the one that axes are named by.
static int64_t named_axes(const Inference *inference, const SpmdMeshAxis **axes) {
    if (inference->options->mesh_axis_count) {
        *axes = inference->options->mesh;
        return inference->options->mesh_axis_count;
    }
    for (int64_t i = 0; i < inference->shardy->mesh_count; i++) {
        const HloMesh *mesh = &inference->shardy->meshes[i];
        if (may_name(inference, mesh)) return axes_of_mesh(inference->arena, mesh, axes);
    }
    for (int64_t i = 0; i < inference->annotations.count; i++) {
        const HloSharding *sharding = inference->annotations.items[i].sharding;
        if (sharding->kind != HLO_SHARDING_NAMED || !may_name(inference, &sharding->named->mesh)) continue;
        return axes_of_mesh(inference->arena, &sharding->named->mesh, axes);
    }
    return 0;
}

// The number of values at the boundary of a manual region.
static int64_t boundary_count(const HloInstruction *op) {
    const bool entering = hlo_custom_call_kind(op) == HLO_CALL_FULL_TO_SHARD;
    return entering ? op->operand_count : hlo_shape_leaf_count(op->shape);
}

// The number of parts into which an annotation splits its array.
static double tiles_of(const HloSharding *sharding) {
    double tiles = 1;
    if (sharding->kind == HLO_SHARDING_TILED) {
        const int64_t rank = spmd_tiled_rank(sharding);
        for (int64_t d = 0; d < rank; d++) tiles *= (double)sharding->tile_dims.items[d];
    } else if (sharding->kind == HLO_SHARDING_NAMED && !sharding->named->mesh.is_maximal) {
        for (int64_t d = 0; d < sharding->named->dim_count; d++)
            tiles *= (double)spmd_product_of_axes(&sharding->named->mesh, &sharding->named->dims[d]);
    }
    return tiles > 0 ? tiles : 1;
}

// Lists the annotations of the leaves of a value. Neighbouring instructions mostly share one annotation object, so a
// comparison of addresses spares nearly all of the work in large programs.
static void push_annotation(Inference *inference, const HloSharding *sharding, const HloShape *shape) {
    const int64_t leaves = hlo_shape_leaf_count(shape);
    if (sharding->kind == HLO_SHARDING_TUPLE) {
        for (int64_t i = 0; i < sharding->element_count; i++)
            push_annotation(inference, sharding->elements[i], i < leaves ? hlo_shape_leaf(shape, i) : shape);
        return;
    }
    if (hlo_shape_is_tuple(shape) && leaves) shape = hlo_shape_leaf(shape, 0);
    const bool is_array = hlo_shape_is_array(shape);
    Annotation annotation = {sharding, is_array ? shape->rank : 0, is_array ? (double)hlo_shape_bytes(shape) : 0};
    annotation.bytes /= tiles_of(sharding);
    const int64_t count = inference->annotations.count;
    Annotation *last = count ? &inference->annotations.items[count - 1] : NULL;
    if (last && last->sharding == sharding && last->rank == annotation.rank)
        last->bytes += annotation.bytes;
    else
        hlo_vector_push(inference->arena, &inference->annotations, annotation);
}

static void collect_annotations(Inference *inference) {
    const HloModule *module = inference->module;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            const HloSharding *sharding = spmd_shardy_sharding(inference->shardy, at);
            if (sharding) push_annotation(inference, sharding, at->shape);
            const SpmdShardyText *text = spmd_shardy_text(inference->shardy, at);
            const int64_t boundaries = text && text->boundaries ? boundary_count(at) : 0;
            const bool entering = hlo_custom_call_kind(at) == HLO_CALL_FULL_TO_SHARD;
            for (int64_t i = 0; i < boundaries; i++)
                push_annotation(inference, text->boundaries[i].sharding,
                                entering ? at->operands[i]->shape : hlo_shape_leaf(at->shape, i));
        }
    }
    const HloShape *result = module->entry->root->shape;
    for (int64_t i = 0; i < inference->shardy->results.count && i < hlo_shape_leaf_count(result); i++)
        push_annotation(inference, inference->shardy->results.items[i].sharding, hlo_shape_leaf(result, i));
}

// Options may name parts of axes. Errors in them are reported when an option is applied, where the array is known.
static void collect_option_splits(const Inference *inference, const SpmdMeshAxis *axes, int64_t axis_count,
                                  SplitPoints *splits) {
    const SpmdOptions *options = inference->options;
    for (int64_t i = 0; i < options->shard_count; i++) {
        const char *equals = strrchr(options->shards[i], '=');
        const HloSharding *sharding;
        if (!equals || !strchr(equals, ':')) continue;
        HloStatus status =
            spmd_spec_parse(inference->arena, axes, axis_count, equals + 1, (int64_t)strlen(equals), &sharding);
        if (!status) add_annotation(inference, splits, &(Annotation){sharding, sharding->named->dim_count, 0});
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
    if (sharding->kind == HLO_SHARDING_TILED) return spmd_product_of(sharding->tile_dims);
    if (sharding->kind != HLO_SHARDING_NAMED || spmd_uses_no_axes(sharding->named)) return 0;
    return sharding->named->mesh.axis_sizes.count ? spmd_product_of(sharding->named->mesh.axis_sizes) : 0;
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
static HloStatus count_devices(const Inference *inference, int64_t *count) {
    const HloModule *module = inference->module;
    const SpmdOptions *options = inference->options;
    const SpmdShardy *shardy = inference->shardy;
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
            HLO_TRY(agree_with(inference->arena, &known, shardy, at));
        }
    }
    for (int64_t i = 0; i < shardy->results.count; i++)
        HLO_TRY(agree(&known, annotation_devices(shardy->results.items[i].sharding), HLO_SDY_RESULT_SHARDINGS));
    *count = known.count;
    if (*count == 0) {
        const SpmdMeshAxis *axes;
        int64_t axis_count = named_axes(inference, &axes);
        *count = 1;
        for (int64_t i = 0; i < axis_count; i++) *count *= axes[i].size;
    }
    return HLO_SUCCESS;
}

// ---- the order of devices

// The splits that the annotations need in the inference's order; *fitting are the bytes of those that fit.
static SplitPoints collect_splits(const Inference *inference, const SpmdMeshAxis *axes, int64_t axis_count,
                                  double *fitting) {
    SplitPoints splits = {.items = {1}, .count = 1};
    add_split(&splits, inference->devices);
    int64_t stride = inference->devices;
    for (int64_t i = 0; i < axis_count; i++) add_split(&splits, stride /= axes[i].size);
    *fitting = 0;
    for (int64_t i = 0; i < inference->annotations.count; i++) {
        const Annotation *annotation = &inference->annotations.items[i];
        if (add_annotation(inference, &splits, annotation)) *fitting += annotation->bytes;
    }
    return splits;
}

// The bytes in arrays whose annotations fit a mesh of this order.
static double fitting_bytes(const Inference *inference, SpmdDeviceOrder order) {
    Inference trial = *inference;
    trial.order = order;
    const SpmdMeshAxis *axes;
    const HloArenaMark mark = hlo_arena_mark(inference->arena);
    const int64_t axis_count = named_axes(&trial, &axes);
    double fitting;
    collect_splits(&trial, axes, axis_count, &fitting);
    hlo_arena_reset(inference->arena, mark);
    return fitting;
}

// The devices in the order of an annotation, of which each `*copies` neighbours have the same part; NULL where it
// orders none, or not each device once.
static const int64_t *ordered_devices(const Inference *inference, const HloSharding *sharding, int64_t *copies) {
    const int64_t *devices = NULL;
    *copies = 1;
    if (sharding->kind == HLO_SHARDING_NAMED && !sharding->named->mesh.is_maximal &&
        spmd_product_of(sharding->named->mesh.axis_sizes) == inference->devices) {
        devices = spmd_mesh_devices(inference->arena, &sharding->named->mesh);
    } else if (sharding->kind == HLO_SHARDING_TILED && spmd_product_of(sharding->tile_dims) == inference->devices) {
        *copies = spmd_copies_of(sharding);
        const bool iota = sharding->iota.dims.count > 0;
        if ((iota ? spmd_product_of(sharding->iota.dims) : sharding->devices.count) == inference->devices)
            devices = hlo_sharding_devices(inference->arena, sharding);
    }
    return devices && spmd_is_permutation(inference->arena, devices, inference->devices) ? devices : NULL;
}

// A device as it is sorted: by the part that it has of one array, then by that of the next.
typedef struct Ranked {
    int64_t device, rank, part;
} Ranked;

static int compare_ranked(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return x->device < y->device ? -1 : 1;
}

// Tells apart by an annotation what the ranks do not. Returns the number of different ranks.
static int64_t refine(const Inference *inference, const HloSharding *sharding, Ranked *ranked) {
    const HloArenaMark mark = hlo_arena_mark(inference->arena);
    int64_t copies, ranks = 0;
    const int64_t *devices = ordered_devices(inference, sharding, &copies);
    if (devices) {
        int64_t *parts = HLO_ARENA_NEW(inference->arena, int64_t, inference->devices);
        for (int64_t i = 0; i < inference->devices; i++) parts[devices[i]] = i / copies;
        for (int64_t i = 0; i < inference->devices; i++) ranked[i].part = parts[ranked[i].device];
        qsort(ranked, (size_t)inference->devices, sizeof(*ranked), compare_ranked);
    }
    for (int64_t i = 0, before = -1, part = -1; i < inference->devices; i++) {
        if (!i || ranked[i].rank != before || (devices && ranked[i].part != part)) ranks++;
        before = ranked[i].rank;
        part = ranked[i].part;
        ranked[i].rank = ranks;
    }
    hlo_arena_reset(inference->arena, mark);
    return ranks;
}

// The order of annotation `first`; where devices have the same part, that of the other annotations. If all of them are
// of one mesh, it is one of its orders.
static SpmdDeviceOrder order_of(const Inference *inference, int64_t first) {
    const int64_t count = inference->devices;
    int64_t *devices = HLO_ARENA_NEW(inference->arena, int64_t, count);
    int64_t *positions = HLO_ARENA_NEW(inference->arena, int64_t, count);
    Ranked *ranked = HLO_ARENA_NEW(inference->arena, Ranked, count);
    for (int64_t i = 0; i < count; i++) ranked[i].device = i;
    int64_t ranks = refine(inference, inference->annotations.items[first].sharding, ranked);
    for (int64_t i = 0; i < inference->annotations.count && ranks < count; i++)
        ranks = refine(inference, inference->annotations.items[i].sharding, ranked);
    for (int64_t i = 0; i < count; i++) {
        devices[i] = ranked[i].device;
        positions[ranked[i].device] = i;
    }
    return (SpmdDeviceOrder){devices, positions, count};
}

// Whether an instruction uses device numbers, or may: those that the program has chosen itself.
static bool names_devices(const Inference *inference, const HloInstruction *op) {
    const SpmdShardyText *text = spmd_shardy_text(inference->shardy, op);
    return spmd_names_devices(op) || hlo_custom_call_is_region_boundary(op) || spmd_author_of(inference->options, op) ||
           hlo_is(op, HLO_OP_INFEED) || hlo_is(op, HLO_OP_OUTFEED) || (text && (text->boundaries || text->manual_axes));
}

// Whether an annotation says which device does something, rather than who has which part.
static bool places_work(const HloSharding *sharding) {
    if (sharding->kind == HLO_SHARDING_MAXIMAL || sharding->kind == HLO_SHARDING_MANUAL) return true;
    for (int64_t i = 0; i < sharding->subgroup_count; i++)
        if (sharding->subgroups[i] == HLO_SHARDING_MANUAL) return true;
    if (sharding->kind != HLO_SHARDING_NAMED) return false;
    const HloNamedSharding *named = sharding->named;
    return named->mesh.is_maximal || named->manual.count || named->whole == HLO_SHARDING_MANUAL;
}

// Whether positions may differ from device numbers.
static bool may_have_order(const Inference *inference) {
    if (inference->options->mesh_axis_count || inference->options->shard_count) return false;
    for (int64_t i = 0; i < inference->annotations.count; i++)
        if (places_work(inference->annotations.items[i].sharding)) return false;
    for (int64_t c = 0; c < inference->module->computations.count; c++)
        for (const HloInstruction *at = inference->module->computations.items[c]->first; at; at = at->next)
            if (names_devices(inference, at)) return false;
    return true;
}

// Whether an annotation, or its mesh, lists devices one by one.
static bool lists_devices(const HloSharding *sharding) {
    if (sharding->kind == HLO_SHARDING_TILED) return !sharding->iota.dims.count;
    if (sharding->kind != HLO_SHARDING_NAMED) return false;
    return sharding->named->mesh.device_ids.count || sharding->named->mesh.iota.dims.count;
}

// The order in which most fits. Few programs have more than two orders.
static SpmdDeviceOrder choose_order(const Inference *inference) {
    enum { MOST_ORDERS = 8 };
    SpmdDeviceOrder best = {0}, tried[MOST_ORDERS];
    double all = 0;
    bool lists = false;
    for (int64_t i = 0; i < inference->annotations.count; i++) {
        all += inference->annotations.items[i].bytes;
        lists |= lists_devices(inference->annotations.items[i].sharding);
    }
    if (!lists) return best;
    double most = fitting_bytes(inference, best);
    if (most == all || !may_have_order(inference)) return best;
    int count = 0;
    for (int64_t i = 0; i < inference->annotations.count && count < MOST_ORDERS; i++) {
        if (!lists_devices(inference->annotations.items[i].sharding)) continue;
        const SpmdDeviceOrder order = order_of(inference, i);
        bool known = false;
        for (int k = 0; k < count && !known; k++)
            known = !memcmp(tried[k].devices, order.devices, (size_t)order.count * sizeof(*order.devices));
        if (known) continue;
        tried[count++] = order;
        const double fitting = fitting_bytes(inference, order);
        if (fitting <= most) continue;
        most = fitting;
        best = order;
    }
    return best;
}

// A mesh is a number of devices divided into atoms: the finest grid in which each annotation of the program is a choice
// of whole atoms. Strides come from named axes first, then from tiled annotations in program order. Those that would
// break the chain of divisors are read as foreign orders later.
HloStatus spmd_mesh_infer(HloArena *arena, const HloModule *module, const SpmdOptions *options, const SpmdMesh **mesh) {
    assert(arena && module && mesh);
    Inference inference = {.arena = arena, .module = module, .options = options};
    HLO_TRY(spmd_shardy_read(arena, module, &inference.shardy));
    collect_annotations(&inference);
    HLO_TRY(count_devices(&inference, &inference.devices));
    inference.order = choose_order(&inference);
    const SpmdMeshAxis *axes;
    double fitting;
    int64_t axis_count = named_axes(&inference, &axes);
    SplitPoints splits = collect_splits(&inference, axes, axis_count, &fitting);
    if (axis_count) collect_option_splits(&inference, axes, axis_count, &splits);
    if (!axis_count) axis_count = axes_from_splits(arena, &splits, &axes);
    return spmd_mesh_with_splits(arena, axes, axis_count, splits.items, splits.count, &inference.order, mesh);
}
