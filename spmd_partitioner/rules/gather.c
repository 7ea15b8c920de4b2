// SPDX-License-Identifier: Apache-2.0
// Gather and scatter. Dimensions taken whole, batching dimensions and the index list itself are local. Along a sharded
// dimension that is indexed one element at a time, indices are counted from the start of the shard: a gather sums what
// each device finds, a scatter writes on the device that owns the row.
//
//     %g = f32[3,8] gather(f32[64,8] %table, s32[3] %i), the table sharded by rows over 4 devices
//     local   i' = clamp(i, 0, 63) - 16 * partition-id;  rows = gather(f32[16,8] %table', i')
//             select(0 <= i' < 16, rows, 0), partial over the axis: an all-reduce of f32[3,8] finishes it
// Gathering the table would send 48 rows; this sends about twice the result.
//
// A scatter needs no sum where the result stays sharded: updates whose row is not in the shard fall outside of it, and
// HLO drops those. Only where the list of updates is sharded (its dimensions are summed factors) do devices hold parts
// of the result, the first of them with the old values in it (count_once).
//
// Invariants: indices are clamped and made s32 or s64 before they are counted from a shard, so that no difference
// overflows; padding in an uneven list of updates has index -1.
#include <assert.h>
#include <string.h>

#include "hlo/eval/known.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/known.h"
#include "spmd_partitioner/parts/picked.h"

// The `index`-th dimension of `rank` that is not in `without`.
// Counted from 0; `without` need not be sorted.
static int64_t pick_other(HloInts without, int64_t rank, int64_t index) {
    for (int64_t d = 0; d < rank; d++) {
        if (!hlo_ints_contain(without, d) && index-- == 0) return d;
    }
    return -1;
}

// Maps the batch dimensions of the indices to those of the gathered or updating array, and to an operand's batching
// dimension where it has one. `batched` is the first of `batched_count` such arrays, whose batch dimensions are those
// not in `window_dims`; `operands` are the tensors that have batching dimensions, inputs and results.
static void map_batch(SpmdRule *rule, const HloShape *indices, int64_t vector_dim, HloInts window_dims, int32_t batched,
                      HloInts operand_batching, HloInts indices_batching, const int32_t *operands,
                      int32_t operand_count, int32_t indices_tensor, int32_t batched_count, SpmdFactorKind kind) {
    int64_t batch = 0;
    int64_t rank = rule->tensors[batched].shape->rank;
    for (int32_t d = 0; d < indices->rank; d++) {
        if (d == vector_dim) continue;
        int64_t target = pick_other(window_dims, rank, batch++);
        bool paired = hlo_ints_contain(indices_batching, d);
        int32_t factor = spmd_rule_factor(rule, paired ? SPMD_PASS : kind, indices->dims[d]);
        spmd_rule_map(rule, indices_tensor, d, factor);
        for (int32_t t = 0; t < batched_count; t++) spmd_rule_map(rule, batched + t, target, factor);
        for (int64_t k = 0; paired && k < indices_batching.count; k++) {
            if (indices_batching.items[k] != d) continue;
            for (int32_t t = 0; t < operand_count; t++)
                spmd_rule_map(rule, operands[t], operand_batching.items[k], factor);
        }
    }
}

// True if operand dimension `d` is indexed.
static bool is_indexed(HloInts map, int64_t d) {
    return hlo_ints_contain(map, d);
}

// An indexed dimension that is not taken whole is a summed factor: each device looks up the indices in its shard, and
// the devices' results are combined. Propagation does not touch it (blocked): a sharded table does not mean that its
// readers should be sharded.
static void gather_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_GATHER));
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(op, Gather);
    const HloShape *operand = op->operands[0]->shape, *indices = op->operands[1]->shape;
    int32_t result = spmd_rule_result(rule, 0), zero = 0;
    int64_t offset = 0;
    for (int32_t d = 0; d < operand->rank; d++) {
        bool batching = hlo_ints_contain(gather->operand_batching_dims, d);
        bool kept = !batching && !hlo_ints_contain(gather->collapsed_slice_dims, d);
        int64_t target = kept ? gather->offset_dims.items[offset++] : -1;
        if (kept && gather->slice_sizes.items[d] == operand->dims[d]) {
            int32_t factor = spmd_rule_factor(rule, SPMD_PASS, operand->dims[d]);
            spmd_rule_map(rule, 0, d, factor);
            spmd_rule_map(rule, result, target, factor);
        } else if (!batching && is_indexed(gather->start_index_map, d)) {
            int32_t factor = spmd_rule_factor(rule, SPMD_REDUCE, operand->dims[d]);
            rule->factors.items[factor].blocked = true;
            spmd_rule_map(rule, 0, d, factor);
        }
    }
    map_batch(rule, indices, gather->index_vector_dim, gather->offset_dims, result, gather->operand_batching_dims,
              gather->start_indices_batching_dims, &zero, 1, 1, 1, SPMD_PASS);
    rule->reduction = spmd_rule_joiner(op->shape->type);
}

// Slices that take a whole dimension take the whole shard; single elements of indexed dimensions stay single.
static void gather_adjust(const SpmdRule *rule, HloArena *arena, void *attributes, const HloShape *const *operands,
                          const HloShape *result) {
    HloGatherAttributes *gather = attributes;
    const HloShape *operand = rule->op->operands[0]->shape;
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, operand->rank);
    (void)result;
    for (int32_t d = 0; d < operand->rank; d++) {
        int64_t size = gather->slice_sizes.items[d];
        bool indexed =
            hlo_ints_contain(gather->start_index_map, d) || hlo_ints_contain(gather->operand_batching_dims, d);
        sizes[d] = size == operand->dims[d] && !(indexed && size == 1) ? operands[0]->dims[d] : size;
    }
    gather->slice_sizes.items = sizes;
}

// ---- indices ----

// How one component of the index vectors is brought into the range of this device's shard.
typedef struct Component {
    int64_t low, high;        // clamped to this first, in the index type
    SpmdAxes axes;            // of the indexed dimension
    int64_t shard;            // its local size
    int64_t margin;           // elements added before and after the shard, for windows that begin or end in it
    const SpmdNeed *need;     // NULL, or the runs that this device's array consists of; `axes` are their positions then
    const SpmdPicks *picks;   // in place of `need`, or NULL
    int32_t dim;              // with picks: the dimension of the indices that is split over `axes`
    int64_t cost;             // of either
    HloInstruction *counted;  // this component as an index into the device's array, NULL: to be computed
} Component;

// A scalar as an array of the dims of `like`; scalars stay scalars.
static HloInstruction *splat_like(SpmdPartitioner *partitioner, const HloInstruction *like, HloInstruction *scalar) {
    return like->shape->rank ? spmd_emit_splat(partitioner, scalar, like->shape->dims, like->shape->rank) : scalar;
}

// -1 where the index is not that of a window wholly inside of the whole array, else `place`: in the margins of a shard
// such a window would be written.
static HloInstruction *drop_outside(SpmdPartitioner *partitioner, HloInstruction *index, HloInstruction *place,
                                    const Component *component) {
    const HloType type = index->shape->type;
    HloInstruction *first = splat_like(partitioner, index, spmd_emit_scalar(partitioner, type, 0));
    HloInstruction *end = splat_like(partitioner, index, spmd_emit_scalar(partitioner, type, component->high));
    HloInstruction *from = spmd_emit_compare(partitioner, HLO_ComparisonDirection_GE, index, first);
    HloInstruction *to = spmd_emit_compare(partitioner, HLO_ComparisonDirection_LT, index, end);
    HloInstruction *none = splat_like(partitioner, index, spmd_emit_scalar(partitioner, type, -1));
    return spmd_emit_select(partitioner, spmd_emit_binary(partitioner, HLO_OP_AND, from, to), place, none);
}

// One entry a position of a table, as an array like `like`.
static HloInstruction *looked_up(SpmdPartitioner *partitioner, const HloInstruction *like, const SpmdAxes *axes,
                                 const int64_t *table, int64_t positions) {
    HloInstruction *entry = spmd_emit_look_up(partitioner, axes, table, positions);
    return splat_like(partitioner, like, spmd_emit_convert(partitioner, entry, like->shape->type));
}

// Where elements are that came in runs: an index at or beyond the start of a run is counted from there.
static HloInstruction *emit_in_runs(SpmdPartitioner *partitioner, HloInstruction *index, const Component *component) {
    const SpmdNeed *need = component->need;
    HloInstruction *place = NULL;
    int64_t *firsts = HLO_ARENA_NEW(partitioner->arena, int64_t, need->positions);
    int64_t *shifts = HLO_ARENA_NEW(partitioner->arena, int64_t, need->positions);
    for (int64_t r = 0; r < need->run_count; r++) {
        bool any = r == 0;
        for (int64_t p = 0; p < need->positions; p++) {
            const SpmdRun *run = &need->runs[p * need->run_count + r];
            firsts[p] = run->first;
            shifts[p] = run->first - run->target;
            any |= run->size > 0;
        }
        if (!any) break;
        HloInstruction *shift = looked_up(partitioner, index, &component->axes, shifts, need->positions);
        HloInstruction *counted = spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, index, shift);
        HloInstruction *first = r ? looked_up(partitioner, index, &component->axes, firsts, need->positions) : NULL;
        HloInstruction *test = r ? spmd_emit_compare(partitioner, HLO_ComparisonDirection_GE, index, first) : NULL;
        place = r ? spmd_emit_select(partitioner, test, counted, place) : counted;
    }
    return place;
}

// One component, clamped, as s32 or s64, counted from the start of the shard.
static HloInstruction *emit_component(SpmdPartitioner *partitioner, HloInstruction *index, const Component *component,
                                      HloType wanted) {
    if (component->counted) return spmd_emit_convert(partitioner, component->counted, wanted);
    HloType type = index->shape->type;
    // An s8 index into 300 rows cannot be compared with 300, and need not be.
    if (hlo_type_holds(type, component->high)) {
        HloInstruction *high = splat_like(partitioner, index, spmd_emit_scalar(partitioner, type, component->high));
        index = spmd_emit_binary(partitioner, HLO_OP_MINIMUM, index, high);
    }
    if (hlo_type_kind(type) != HLO_KIND_UNSIGNED) {
        HloInstruction *low = splat_like(partitioner, index, spmd_emit_scalar(partitioner, type, component->low));
        assert(component->low <= component->high); /* a range to clamp to */
        index = spmd_emit_binary(partitioner, HLO_OP_MAXIMUM, index, low);
    }
    index = spmd_emit_convert(partitioner, index, wanted);
    if (!component->axes.count) return index;
    if (component->need) return emit_in_runs(partitioner, index, component);
    HloInstruction *offset =
        spmd_emit_convert(partitioner, spmd_emit_offset(partitioner, &component->axes, component->shard), wanted);
    if (component->margin) {
        HloInstruction *margin = spmd_emit_scalar(partitioner, wanted, component->margin);
        offset = spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, offset, margin);
    }
    HloInstruction *place =
        spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, index, splat_like(partitioner, index, offset));
    return component->margin && component->low < 0 ? drop_outside(partitioner, index, place, component) : place;
}

// Emits all components; those of sharded dimensions are also tested against the shard when `inside` is not NULL.
// `inside` becomes a pred in the shape of one component: true where every component of a sharded dimension is in the
// shard.
static HloInstruction *emit_indices(SpmdPartitioner *partitioner, HloInstruction *indices, int64_t vector_dim,
                                    const Component *components, int64_t count, HloInstruction **inside) {
    assert(count >= 0);
    int64_t reach = 0;
    for (int64_t k = 0; k < count; k++) {
        const int64_t most = components[k].high + 2 * components[k].margin + components[k].shard;
        if (most > reach) reach = most;
    }
    HloType wanted = spmd_place_type(reach);
    HloInstruction **parts = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    for (int64_t k = 0; k < count; k++) {
        bool vector = vector_dim < indices->shape->rank;
        HloInstruction *part = vector ? spmd_emit_slice(partitioner, indices, vector_dim, k, k + 1, 1) : indices;
        parts[k] = emit_component(partitioner, part, &components[k], wanted);
        if (!inside || !components[k].axes.count || components[k].margin || components[k].need || components[k].picks)
            continue;
        HloInstruction *zero = splat_like(partitioner, parts[k], spmd_emit_scalar(partitioner, wanted, 0));
        HloInstruction *end =
            splat_like(partitioner, parts[k], spmd_emit_scalar(partitioner, wanted, components[k].shard));
        HloInstruction *from = spmd_emit_compare(partitioner, HLO_ComparisonDirection_GE, parts[k], zero);
        HloInstruction *to = spmd_emit_compare(partitioner, HLO_ComparisonDirection_LT, parts[k], end);
        HloInstruction *both = spmd_emit_binary(partitioner, HLO_OP_AND, from, to);
        *inside = *inside ? spmd_emit_binary(partitioner, HLO_OP_AND, *inside, both) : both;
    }
    return count ? spmd_emit_concatenate(partitioner, parts, count, vector_dim) : indices;
}

// Spreads a test of the index vectors over the result's elements.
// `inside` has a dimension of size 1 where the index vector was.
static HloInstruction *spread_test(SpmdPartitioner *partitioner, HloInstruction *inside, int64_t vector_dim,
                                   HloInts offset_dims, const HloShape *result) {
    int64_t rank = 0;
    int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, inside->shape->rank + 1);
    int64_t *targets = HLO_ARENA_NEW(partitioner->module->arena, int64_t, inside->shape->rank + 1);
    for (int32_t d = 0; d < inside->shape->rank; d++) {
        if (d == vector_dim) continue;
        dims[rank] = inside->shape->dims[d];
        targets[rank] = pick_other(offset_dims, result->rank, rank);
        rank++;
    }
    inside = spmd_emit_reshape(partitioner, inside, dims, rank);
    HloDimensionsAttributes attributes = {{targets, rank}};
    // The sizes that the test itself has; a user that selects by it adds the others.
    HloArena *arena = partitioner->module->arena;
    HloShape *shape = hlo_arena_copy(
        arena, hlo_shape_with_type(arena, hlo_shape_with_dims(arena, result, result->dims, result->rank), HLO_PRED),
        sizeof(*shape));
    bool *dynamic = hlo_shape_is_dynamic(inside->shape) ? HLO_ARENA_NEW(arena, bool, result->rank) : NULL;
    for (int64_t i = 0; dynamic && i < rank; i++) dynamic[targets[i]] = inside->shape->dynamic[i];
    shape->dynamic = dynamic;
    return spmd_emit(partitioner, HLO_OP_BROADCAST, shape, &inside, 1, &attributes);
}

// HLO clamps the start of a gathered slice so that all of it is inside the array. That must be done before indices are
// counted from a shard, whose bounds differ. One component for each entry of start_index_map.
static Component *gather_components(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                    const HloShape *local) {
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(rule->op, Gather);
    const HloShape *operand = rule->op->operands[0]->shape;
    Component *components = HLO_ARENA_NEW(partitioner->arena, Component, gather->start_index_map.count);
    for (int64_t k = 0; k < gather->start_index_map.count; k++) {
        int64_t d = gather->start_index_map.items[k];
        components[k] = (Component){.high = operand->dims[d] - gather->slice_sizes.items[d], .shard = local->dims[d]};
        const int64_t taken = gather->slice_sizes.items[d];
        const bool passes = taken == operand->dims[d] && !hlo_ints_contain(gather->collapsed_slice_dims, d);
        if (passes) continue;
        components[k].axes = spmd_rule_dim_axes(rule, partitioner->mesh, 0, d, factors);
        if (components[k].axes.count && taken > 1) components[k].margin = taken;
    }
    return components;
}

// The gather on local arrays, for a result in sharding `sharding`.
static HloInstruction *emit_local(SpmdPartitioner *partitioner, const SpmdRule *rule, HloInstruction *const *operands,
                                  const SpmdSharding *sharding) {
    const HloInstruction *op = rule->op;
    HloArena *arena = partitioner->module->arena;
    const HloShape *shape = spmd_local_shape(arena, partitioner->mesh, op->shape, sharding);
    HloInstruction *made = spmd_clone(partitioner, op, shape, operands, 2);
    HloGatherAttributes *attributes = hlo_attributes_copy(arena, HLO_FAMILY_Gather, op->attributes);
    const HloShape *locals[2] = {operands[0]->shape, operands[1]->shape};
    gather_adjust(rule, arena, attributes, locals, shape);
    attributes->indices_are_sorted = false;
    hlo_instruction_set_attributes(made, attributes);
    return made;
}

// ---- known indices

// At most so many runs of elements per position: each but the first costs a comparison and a selection per index.
enum {
    MOST_RUNS = 4,
    MOST_COUNTED = 1 << 20,  // indices that become a constant, as places in the arrays of devices
};

// The dimension of the indices whose axes are exactly those of an indexed dimension, so that each position along them
// looks up its own part of the indices. -1 if there is none, or another dimension of the result has some of the axes.
static int32_t dim_with_axes(const SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                             const SpmdAxes *axes) {
    const SpmdTensor *indices = &rule->tensors[1];
    for (int32_t d = 0; d < indices->shape->rank; d++) {
        if (!indices->dims[d].count) continue;
        const SpmdAxes own = spmd_rule_dim_axes(rule, partitioner->mesh, 1, d, factors);
        if (spmd_axes_equal(&own, axes)) return d;
    }
    return -1;
}

// The indices that a gather is known to have, of component `k`, in the order in which they are.
typedef struct KnownIndices {
    const HloInstruction *op;
    const HloLiteral *values;
    int64_t k, d, count;  // the component, its dimension of the operand, and how many indices there are
    int32_t dim;          // of the indices, whose parts belong to positions
    int64_t part, inner;  // elements of a part; those of the dimensions after `dim`
    int64_t components, vector_inner;
} KnownIndices;

static KnownIndices known_indices(const HloInstruction *op, const HloLiteral *values, int64_t k, int32_t dim,
                                  int64_t positions) {
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(op, Gather);
    const HloShape *shape = op->operands[1]->shape;
    const int64_t vector_dim = gather->index_vector_dim;
    KnownIndices known = {op, values, k, gather->start_index_map.items[k], 0, dim, 0, 1, 1, 1};
    known.part = spmd_shard_size(shape->dims[dim], positions);
    for (int32_t i = dim + 1; i < shape->rank; i++) known.inner *= shape->dims[i];
    for (int64_t i = vector_dim + 1; i < shape->rank; i++) known.vector_inner *= shape->dims[i];
    if (vector_dim < shape->rank) known.components = shape->dims[vector_dim];
    known.count = hlo_shape_elements(shape) / (known.components ? known.components : 1);
    return known;
}

// The first element that index `i` takes, and the position that needs it.
static int64_t known_first(const KnownIndices *known, int64_t i, int64_t *position) {
    const HloShape *shape = known->op->operands[1]->shape;
    const int64_t last =
        known->op->operands[0]->shape->dims[known->d] - HLO_ATTRIBUTES(known->op, Gather)->slice_sizes.items[known->d];
    const int64_t at =
        (i / known->vector_inner * known->components + known->k) * known->vector_inner + i % known->vector_inner;
    int64_t first = hlo_literal_get_int64(known->values, at);
    if (first > last || (first < 0 && hlo_type_kind(shape->type) == HLO_KIND_UNSIGNED)) first = last;
    *position = at / known->inner % shape->dims[known->dim] / known->part;
    return first < 0 ? 0 : first;
}

// Marks the elements of an indexed dimension that each position needs.
static void mark_needed(const KnownIndices *known, uint8_t *needed) {
    const int64_t size = known->op->operands[0]->shape->dims[known->d];
    const int64_t taken = HLO_ATTRIBUTES(known->op, Gather)->slice_sizes.items[known->d];
    for (int64_t i = 0; i < known->count; i++) {
        int64_t position;
        const int64_t first = known_first(known, i, &position);
        memset(needed + position * size + first, 1, (size_t)taken);
    }
}

// Plans what each position needs for component `k`, whose dimension has *axes in `sharding`: runs of elements, or
// single ones where that costs less. False if neither can be planned.
static bool plan_component(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                           const HloLiteral *indices, int64_t k, const SpmdSharding *sharding, Component *component) {
    const HloInstruction *op = rule->op;
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(op, Gather);
    const HloShape *table = op->operands[0]->shape;
    const int64_t d = gather->start_index_map.items[k], size = table->dims[d];
    const int64_t positions = spmd_axes_product(partitioner->mesh, &component->axes);
    const int32_t dim = dim_with_axes(partitioner, rule, factors, &component->axes);
    uint8_t *needed = dim < 0 ? NULL : spmd_need_table(partitioner->arena, positions, size);
    if (!needed) return false;
    const KnownIndices known = known_indices(op, indices, k, dim, positions);
    mark_needed(&known, needed);
    component->need = spmd_need_new(partitioner->arena, positions, size, needed, MOST_RUNS);
    if (component->need) component->cost = spmd_need_cost(partitioner, table, sharding, d, component->need);
    const bool single = gather->slice_sizes.items[d] == 1 && known.count <= MOST_COUNTED;
    SpmdPicks *picks = single ? spmd_picks_new(partitioner, table, sharding, d, needed) : NULL;
    if (!picks || (component->need && component->cost <= picks->cost)) return component->need != NULL;
    component->need = NULL;
    component->picks = picks;
    component->cost = picks->cost;
    component->dim = dim;
    component->shard = picks->shard + picks->received;
    return true;
}

// A gather whose indices are known: axes of the result, the operand's sharding with the axes of its indexed dimensions,
// and what is needed along these.
typedef struct Known {
    SpmdAxes *factors;
    SpmdSharding *sharding;
    Component *components;
    const HloLiteral *values;  // of the indices
    int64_t cost;
} Known;

// False if that is no way to do it: the table is not sharded along an indexed dimension, the indices are data, or they
// are not sharded as the table is.
static bool plan_known(SpmdPartitioner *partitioner, const SpmdRule *rule, Known *known) {
    const HloInstruction *op = rule->op;
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(op, Gather);
    const SpmdLocal local = spmd_operand(partitioner, 0);
    const SpmdSharding *planned = spmd_planned(partitioner, 0);
    if (!local.hlo || local.partial || !spmd_sharding_used(planned) || hlo_shape_is_dynamic(local.global)) return false;
    known->factors = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
    spmd_rule_project(rule, partitioner->mesh, spmd_rule_result(rule, 0), planned, known->factors);
    spmd_rule_resolve(rule, partitioner->mesh, known->factors);
    known->sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, 0, known->factors,
                                         spmd_manual_axes(partitioner, op));
    known->components = gather_components(partitioner, rule, known->factors, op->operands[0]->shape);
    const HloLiteral *indices = NULL;
    for (int64_t k = 0; k < gather->start_index_map.count; k++) {
        const int64_t d = gather->start_index_map.items[k];
        const SpmdAxes *axes = &local.sharding->dims[d];
        const SpmdDimFactors *list = &rule->tensors[0].dims[d];
        const bool indexed = list->count && rule->factors.items[list->items[0]].kind == SPMD_REDUCE;
        if (!indexed || !axes->count) continue;
        if (!indices) indices = hlo_known_value(partitioner->arena, op->operands[1], true);
        if (!indices || (spmd_axes_set(axes) & spmd_sharding_used(known->sharding))) return false;
        known->components[k].axes = *axes;
        known->sharding->dims[d] = *axes;
    }
    if (!indices) return false;
    known->values = indices;
    known->cost = spmd_form_cost(partitioner, &local, known->sharding);
    for (int64_t k = 0; k < gather->start_index_map.count; k++) {
        Component *component = &known->components[k];
        if (!component->axes.count) continue;
        if (!plan_component(partitioner, rule, known->factors, indices, k, known->sharding, component)) return false;
        known->cost = spmd_add_bytes(known->cost, component->cost);
    }
    return true;
}

// Component `k` of this device's indices, as places in its array.
static HloInstruction *emit_counted(SpmdPartitioner *partitioner, const SpmdRule *rule, const Known *known, int64_t k,
                                    const SpmdReason *reason) {
    HloArena *arena = partitioner->arena;
    const HloInstruction *op = rule->op;
    const Component *component = &known->components[k];
    const KnownIndices list = known_indices(op, known->values, k, component->dim, component->picks->positions);
    const int64_t size = op->operands[0]->shape->dims[list.d];
    int64_t *values = HLO_ARENA_NEW(arena, int64_t, list.count);
    for (int64_t i = 0; i < list.count; i++) {
        int64_t position;
        const int64_t first = known_first(&list, i, &position);
        values[i] = component->picks->places[position * size + first];
    }
    const HloShape *shape = op->operands[1]->shape;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, shape->rank);
    for (int32_t d = 0; d < shape->rank; d++)
        dims[d] = d == HLO_ATTRIBUTES(op, Gather)->index_vector_dim ? 1 : shape->dims[d];
    HloInstruction *whole = spmd_emit_integers(partitioner, HLO_S32, values, dims, shape->rank);
    const SpmdAtomSet manual = spmd_manual_axes(partitioner, op);
    const SpmdLocal local = {
        .hlo = whole, .global = whole->shape, .sharding = spmd_sharding_new(arena, shape->rank, manual)};
    const SpmdSharding *to = spmd_rule_sharding(rule, arena, partitioner->mesh, 1, known->factors, manual);
    return spmd_reshard(partitioner, local, to, 0, *reason).hlo;
}

// Each position receives the elements that its indices name and looks them up there: no device sends others.
static HloStatus partition_known(SpmdPartitioner *partitioner, const SpmdRule *rule, const Known *known) {
    const HloInstruction *op = rule->op;
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(op, Gather);
    const SpmdReason reason = {.op = op, .what = spmd_operand_name(partitioner, 0)};
    HloInstruction *table = spmd_reshard(partitioner, spmd_operand(partitioner, 0), known->sharding, 0, reason).hlo;
    for (int64_t k = 0; k < gather->start_index_map.count; k++) {
        Component *component = &known->components[k];
        const int64_t d = gather->start_index_map.items[k];
        if (component->picks) {
            table = spmd_emit_picks(partitioner, table, d, &component->axes, component->picks, &reason);
            component->counted = emit_counted(partitioner, rule, known, k, &reason);
        } else if (component->need) {
            table = spmd_emit_moves(partitioner, table, d, &component->axes, component->need->moves,
                                    component->need->size, &reason);
        }
    }
    HloInstruction *indices = spmd_factor_operand(partitioner, rule, known->factors, 1).hlo;
    indices = emit_indices(partitioner, indices, gather->index_vector_dim, known->components,
                           gather->start_index_map.count, NULL);
    SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0),
                                                known->factors, spmd_manual_axes(partitioner, op));
    HloInstruction *made = emit_local(partitioner, rule, (HloInstruction *[2]){table, indices}, sharding);
    spmd_define(partitioner, 0, made, sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}

// Without a sharded indexed dimension the op runs on local shapes as it is. With one, each device gathers at clamped
// local indices (any row will do where the index is another device's), then replaces rows that are not its own by the
// op's identity, which the finishing all-reduce ignores. Where windows of several elements are taken, the shard gets
// margins of the identity as wide as a window: a window holds this device's elements in their positions, and the
// identity elsewhere.
static HloStatus gather_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_GATHER));
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(op, Gather);
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    SpmdAxes *factors = spmd_choose(partitioner, rule, false);
    Known known = {0};
    if (plan_known(partitioner, rule, &known) && known.cost < spmd_factors_cost(partitioner, rule, factors))
        return partition_known(partitioner, rule, &known);
    HloInstruction *operands[2] = {spmd_factor_operand(partitioner, rule, factors, 0).hlo,
                                   spmd_factor_operand(partitioner, rule, factors, 1).hlo};
    if (!spmd_partial_axes(rule, factors)) return spmd_emit_by_factors(partitioner, rule, factors, operands);
    const Component *components = gather_components(partitioner, rule, factors, operands[0]->shape);
    HloInstruction *inside = NULL, *nothing = spmd_emit_identity(partitioner, rule->reduction, op->shape->type);
    for (int64_t k = 0; k < gather->start_index_map.count; k++) {
        const int64_t d = gather->start_index_map.items[k], margin = components[k].margin;
        if (!margin) continue;
        const int64_t size = op->operands[0]->shape->dims[d];
        operands[0] = spmd_emit_mask(partitioner, operands[0], d, &components[k].axes, size, nothing);
        operands[0] = spmd_emit_pad(partitioner, operands[0], d, margin, margin, nothing);
    }
    operands[1] = emit_indices(partitioner, operands[1], gather->index_vector_dim, components,
                               gather->start_index_map.count, &inside);
    SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0),
                                                factors, spmd_manual_axes(partitioner, op));
    HloInstruction *made = emit_local(partitioner, rule, operands, sharding);
    if (inside) {
        HloInstruction *test =
            spread_test(partitioner, inside, gather->index_vector_dim, gather->offset_dims, made->shape);
        made = spmd_emit_select(partitioner, test, made, splat_like(partitioner, made, nothing));
    }
    spmd_define(partitioner, 0, made, sharding, spmd_partial_axes(rule, factors), rule->reduction);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_gather = {
    .name = "gather", .rule = gather_rule, .partition = gather_partition, .adjust = gather_adjust};

// ---- scatter ----

// Dimensions that updates fill whole pass; those written row by row pass too, and a device ignores rows of others. The
// index list may be sharded if partial results can be combined: then each device applies its own updates to an array of
// which only the first device's has the old values.
static void scatter_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_SCATTER));
    const HloScatterAttributes *scatter = HLO_ATTRIBUTES(op, Scatter);
    int32_t inputs = (op->operand_count - 1) / 2;
    const HloShape *input = op->operands[0]->shape, *indices = op->operands[inputs]->shape;
    const HloShape *update = op->operands[inputs + 1]->shape;
    int32_t *arrays = HLO_ARENA_NEW(rule->arena, int32_t, 2 * inputs);  // inputs and results
    int64_t window = 0;
    for (int32_t i = 0; i < inputs; i++) {
        arrays[i] = i;
        arrays[inputs + i] = spmd_rule_result(rule, i);
    }
    for (int32_t d = 0; d < input->rank; d++) {
        if (hlo_ints_contain(scatter->input_batching_dims, d)) continue;
        bool inserted = hlo_ints_contain(scatter->inserted_window_dims, d);
        int64_t target = inserted ? -1 : scatter->update_window_dims.items[window++];
        int64_t taken = inserted ? 1 : update->dims[target];
        bool whole = !inserted && taken == input->dims[d];
        if (!whole && !is_indexed(scatter->scatter_dims_to_operand_dims, d)) continue;
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, input->dims[d]);
        for (int32_t t = 0; t < 2 * inputs; t++) spmd_rule_map(rule, arrays[t], d, factor);
        for (int32_t i = 0; whole && i < inputs; i++) spmd_rule_map(rule, inputs + 1 + i, target, factor);
    }
    // No collective has a computation of several operands: the index list then stays whole.
    rule->reduction = op->operand_count == 3 ? spmd_rule_combiner(op->called[0]) : HLO_OPCODE_COUNT;
    // Without any component no index could keep the padding of an uneven shard from being written.
    bool droppable = scatter->scatter_dims_to_operand_dims.count > 0;
    SpmdFactorKind kind = rule->reduction == HLO_OPCODE_COUNT || !droppable ? SPMD_REPLICATE : SPMD_REDUCE;
    map_batch(rule, indices, scatter->index_vector_dim, scatter->update_window_dims, inputs + 1,
              scatter->input_batching_dims, scatter->scatter_indices_batching_dims, arrays, 2 * inputs, inputs, inputs,
              kind);
}

// Rows beyond the end of an unevenly sharded index list must not be written: their indices become -1.
static HloInstruction *drop_padding(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                    int32_t operand, HloInstruction *indices) {
    HloInstruction *none = spmd_emit_scalar(partitioner, indices->shape->type, -1);
    const HloShape *global = rule->tensors[operand].shape;
    for (int32_t d = 0; d < global->rank; d++) {
        SpmdAxes axes = spmd_rule_dim_axes(rule, partitioner->mesh, operand, d, factors);
        if (axes.count) indices = spmd_emit_mask(partitioner, indices, d, &axes, global->dims[d], none);
    }
    return indices;
}

// Where several devices scatter into the same elements, the old values count on the first of them only.
static HloInstruction *count_once(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                  HloInstruction *input) {
    SpmdAxes axes = {0};
    for (int64_t f = 0; f < rule->factors.count; f++) {
        if (rule->factors.items[f].kind == SPMD_REDUCE) spmd_axes_append(&axes, &factors[f]);
    }
    if (!axes.count) return input;
    HloInstruction *index = spmd_emit_index(partitioner, &axes);
    HloInstruction *first =
        spmd_emit_compare(partitioner, HLO_ComparisonDirection_EQ, index, spmd_emit_scalar(partitioner, HLO_S32, 0));
    HloInstruction *identity = spmd_emit_identity(partitioner, rule->reduction, input->shape->type);
    return spmd_emit_select(partitioner, splat_like(partitioner, input, first), input,
                            splat_like(partitioner, input, identity));
}

// True if input dimension `d` is indexed row by row: its factor is not in the updates.
static bool is_row(const SpmdRule *rule, int64_t d, int32_t inputs) {
    const SpmdDimFactors *list = &rule->tensors[0].dims[d];
    const SpmdTensor *updates = &rule->tensors[inputs + 1];
    for (int32_t i = 0; list->count && i < updates->shape->rank; i++) {
        if (updates->dims[i].count && updates->dims[i].items[0] == list->items[0]) return false;
    }
    return list->count > 0;
}

// The elements of one window along input dimension `d`.
static int64_t taken_of(const HloInstruction *op, int64_t d) {
    const HloScatterAttributes *scatter = HLO_ATTRIBUTES(op, Scatter);
    if (hlo_ints_contain(scatter->inserted_window_dims, d)) return 1;
    int64_t window = 0;
    for (int64_t i = 0; i < d; i++) {
        window +=
            !hlo_ints_contain(scatter->inserted_window_dims, i) && !hlo_ints_contain(scatter->input_batching_dims, i);
    }
    const HloShape *update = op->operands[(op->operand_count - 1) / 2 + 1]->shape;
    return update->dims[scatter->update_window_dims.items[window]];
}

// One component for each entry of scatter_dims_to_operand_dims. Indices are clamped to one step outside of the array
// first, lest a difference overflow.
static Component *scatter_components(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                     const HloShape *local) {
    const HloInstruction *op = rule->op;
    const HloInts map = HLO_ATTRIBUTES(op, Scatter)->scatter_dims_to_operand_dims;
    Component *components = HLO_ARENA_NEW(partitioner->arena, Component, map.count);
    for (int64_t k = 0; k < map.count; k++) {
        const int64_t d = map.items[k], taken = taken_of(op, d);
        components[k] =
            (Component){.low = -1, .high = op->operands[0]->shape->dims[d] - taken + 1, .shard = local->dims[d]};
        // A dimension that updates fill whole is not counted from the shard: its only valid index is 0.
        if (is_row(rule, d, (op->operand_count - 1) / 2))
            components[k].axes = spmd_rule_dim_axes(rule, partitioner->mesh, 0, d, factors);
        if (components[k].axes.count && taken > 1) components[k].margin = taken;
    }
    return components;
}

// Emits the scatter on inputs with margins, and slices those off again.
static void scatter_with_margins(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                 const Component *components, HloInstruction **operands) {
    const HloInstruction *op = rule->op;
    HloArena *arena = partitioner->module->arena;
    const int32_t inputs = (op->operand_count - 1) / 2;
    const HloInts map = HLO_ATTRIBUTES(op, Scatter)->scatter_dims_to_operand_dims;
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, inputs);
    for (int32_t i = 0; i < inputs; i++) {
        for (int64_t k = 0; k < map.count; k++) {
            const int64_t margin = components[k].margin;
            if (margin) operands[i] = spmd_emit_pad(partitioner, operands[i], map.items[k], margin, margin, NULL);
        }
        shapes[i] = operands[i]->shape;
    }
    const HloShape *shape = hlo_shape_is_tuple(op->shape) ? hlo_shape_tuple(arena, shapes, inputs) : shapes[0];
    HloInstruction *made = spmd_clone(partitioner, op, shape, operands, op->operand_count);
    HloScatterAttributes *attributes = hlo_attributes_copy(arena, HLO_FAMILY_Scatter, op->attributes);
    attributes->indices_are_sorted = attributes->unique_indices = false;
    hlo_instruction_set_attributes(made, attributes);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, inputs);
    spmd_emit_leaves(partitioner, made, leaves);
    for (int32_t i = 0; i < inputs; i++) {
        for (int64_t k = 0; k < map.count; k++) {
            const int64_t margin = components[k].margin;
            if (!margin) continue;
            leaves[i] = spmd_emit_slice(partitioner, leaves[i], map.items[k], margin, margin + components[k].shard, 1);
        }
        SpmdSharding *sharding =
            spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, i), factors,
                               spmd_manual_axes(partitioner, op));
        spmd_define(partitioner, i, leaves[i], sharding, spmd_partial_axes(rule, factors), rule->reduction);
    }
}

// HLO drops updates that are not wholly inside, so another device's rows need no test: counted from this shard they are
// outside. Windows of several elements may lie across shards: each device writes them into its shard and margins as
// wide as a window on both sides of it, and keeps the shard.
static HloStatus scatter_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_SCATTER));
    const HloScatterAttributes *scatter = HLO_ATTRIBUTES(op, Scatter);
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    int32_t inputs = (op->operand_count - 1) / 2;
    SpmdAxes *factors = spmd_choose(partitioner, rule, false);
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    for (int32_t i = 0; i < op->operand_count; i++)
        operands[i] = spmd_factor_operand(partitioner, rule, factors, i).hlo;
    const int64_t count = scatter->scatter_dims_to_operand_dims.count;
    const Component *components = scatter_components(partitioner, rule, factors, operands[0]->shape);
    operands[inputs] = emit_indices(partitioner, operands[inputs], scatter->index_vector_dim, components, count, NULL);
    operands[inputs] = drop_padding(partitioner, rule, factors, inputs, operands[inputs]);
    for (int32_t i = 0; i < inputs; i++) operands[i] = count_once(partitioner, rule, factors, operands[i]);
    bool margins = false;
    for (int64_t k = 0; k < count; k++) margins |= components[k].margin > 0;
    if (!margins) return spmd_emit_by_factors(partitioner, rule, factors, operands);
    scatter_with_margins(partitioner, rule, factors, components, operands);
    return HLO_SUCCESS;
}

// Indices that were moved are not sorted any more, and several may be -1.
static void scatter_adjust(const SpmdRule *rule, HloArena *arena, void *attributes, const HloShape *const *operands,
                           const HloShape *result) {
    HloScatterAttributes *scatter = attributes;
    (void)rule;
    (void)arena;
    (void)operands;
    (void)result;
    scatter->indices_are_sorted = false;
    scatter->unique_indices = false;
}
const SpmdOp spmd_op_scatter = {
    .name = "scatter", .rule = scatter_rule, .partition = scatter_partition, .adjust = scatter_adjust};
