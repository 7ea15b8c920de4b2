// SPDX-License-Identifier: Apache-2.0
// Reverse mode through manual regions (jax.shard_map), where each device has values of its own. A value in a region is
// the list of all devices' values, and every collective is a linear map of such lists: a sum over devices is its own
// transpose. An array that enters a region in copies gets the sum of the copies' cotangents; one that leaves it in
// copies shares its cotangent among them. Both are jax.shard_map's conventions with check_vma=False.
//
// A sum over devices that all hold the same cotangent is a product with their number, without communication. So the
// division at the end of a region and the transpose of the psum that made the result cancel.
#include "hlo/transform/structure.h"

// A division of the devices into groups of equal size.
typedef struct Groups {
    int64_t devices, size;
    const int64_t *of;        // by device: its group
    const int64_t *position;  // in the group
    const int64_t *members;   // group by group, in order
} Groups;

static HloStatus unsupported(const HloTransposer *t, const char *reason) {
    return hlo_error(HLO_UNIMPLEMENTED, "%s: there is no reverse derivative of this boundary of a manual region: %s",
                     t->instruction->name, reason);
}

// ---- groups

// Groups the devices with equal keys; NULL unless all groups have the same size.
static const Groups *grouped(HloArena *scratch, const int64_t *keys, int64_t devices) {
    Groups *g = HLO_ARENA_NEW(scratch, Groups, 1);
    int64_t *of = HLO_ARENA_NEW(scratch, int64_t, devices + 1),
            *position = HLO_ARENA_NEW(scratch, int64_t, devices + 1);
    int64_t *sizes = HLO_ARENA_NEW(scratch, int64_t, devices + 1), *members, count = 0;
    HloIntMap numbers = {0};
    for (int64_t d = 0; d < devices; d++) {
        const int64_t *known = hlo_int_map_find(&numbers, (uint64_t)keys[d]);
        of[d] = known ? *known : count;
        if (!known) hlo_int_map_set(scratch, &numbers, (uint64_t)keys[d], count++);
        position[d] = sizes[of[d]]++;
    }
    for (int64_t i = 1; i < count; i++)
        if (sizes[i] != sizes[0]) return NULL;
    members = HLO_ARENA_NEW(scratch, int64_t, devices + 1);
    for (int64_t d = 0; d < devices; d++) members[of[d] * sizes[0] + position[d]] = d;
    *g = (Groups){.devices = devices, .size = sizes[0], .of = of, .position = position, .members = members};
    return g;
}

// The groups of a collective among partitions; NULL if they are others.
static const Groups *groups_of(HloArena *scratch, const HloInstruction *i) {
    const HloModule *module = i->parent->module;
    const int64_t devices = module->num_partitions;
    if (module->replica_count != 1 || hlo_op_info(i->opcode)->family != HLO_FAMILY_Collective) return NULL;
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(i, Collective);
    int64_t *keys = HLO_ARENA_NEW(scratch, int64_t, devices + 1);
    const HloInts *lists = NULL;
    int64_t count = 0;
    if (attributes->channel_id <= 0) return NULL;
    if (!attributes->replica_groups || !hlo_replica_groups_size(attributes->replica_groups))
        return grouped(scratch, keys, devices);
    HloStatus status = hlo_replica_groups_expand(attributes->replica_groups, devices, scratch, &lists, &count);
    if (status) {
        hlo_status_free(status);
        return NULL;
    }
    for (int64_t g = 0; g < count; g++)
        for (int64_t k = 0; k < lists[g].count; k++)
            if (lists[g].items[k] >= 0 && lists[g].items[k] < devices) keys[lists[g].items[k]] = g;
    return grouped(scratch, keys, devices);
}

// The positions of the devices in a tiling, numbered; those along subgroups of kind `skipped` do not count.
static bool tile_numbers(HloArena *scratch, const HloSharding *sharding, HloShardingKind skipped, int64_t devices,
                         int64_t *numbers) {
    memset(numbers, 0, (size_t)devices * sizeof *numbers);
    if (!sharding || sharding->kind == HLO_SHARDING_REPLICATED) return skipped == HLO_SHARDING_REPLICATED;
    if (sharding->kind == HLO_SHARDING_MANUAL) return skipped == HLO_SHARDING_MANUAL;
    if (sharding->kind != HLO_SHARDING_TILED || hlo_sharding_device_count(sharding) != devices) return false;
    const int64_t *order = hlo_sharding_devices(scratch, sharding);
    const int64_t rank = sharding->tile_dims.count;
    const int64_t subgroups = sharding->subgroup_count ? sharding->subgroup_count : sharding->last_tile_dim_replicate;
    for (int64_t place = 0; place < devices; place++) {
        int64_t number = 0, rest = place, factor = 1;
        for (int64_t k = rank - 1; k >= 0; k--) {
            const int64_t size = sharding->tile_dims.items[k], subgroup = k - (rank - subgroups);
            const HloShardingKind kind = subgroup < 0               ? HLO_SHARDING_TILED
                                         : sharding->subgroup_count ? sharding->subgroups[subgroup]
                                                                    : HLO_SHARDING_REPLICATED;
            if (kind != skipped) {
                number += rest % size * factor;
                factor *= size;
            }
            rest /= size;
        }
        if (order[place] < 0 || order[place] >= devices) return false;
        numbers[order[place]] = number;
    }
    return true;
}

// The devices of a region that hold copies of one shard, given the sharding outside and the one inside; NULL if that
// is not known.
static const Groups *copies(HloArena *scratch, const HloModule *module, const HloSharding *outside,
                            const HloSharding *inside) {
    const int64_t devices = module->num_partitions;
    int64_t *shards = HLO_ARENA_NEW(scratch, int64_t, devices + 1),
            *places = HLO_ARENA_NEW(scratch, int64_t, devices + 1);
    if (!inside || !tile_numbers(scratch, outside, HLO_SHARDING_REPLICATED, devices, shards) ||
        !tile_numbers(scratch, inside, HLO_SHARDING_MANUAL, devices, places))
        return NULL;
    for (int64_t d = 0; d < devices; d++) shards[d] = shards[d] * devices + places[d];
    return grouped(scratch, shards, devices);
}

static bool enters(const HloInstruction *i) {
    return hlo_custom_call_kind(i) == HLO_CALL_FULL_TO_SHARD;
}

static const Groups *copies_at(HloArena *scratch, const HloInstruction *boundary) {
    const HloSharding *operand = boundary->operands[0]->sharding, *own = boundary->sharding;
    return copies(scratch, boundary->parent->module, enters(boundary) ? operand : own,
                  enters(boundary) ? own : operand);
}

// ---- which values are the same on all devices of a group

// What is known for one division into groups.
typedef struct HloRegionQuery {
    struct HloRegionQuery *next;
    HloArena *scratch;
    const Groups *groups;
    HloIntMap known;  // by id: whether the value may differ
} Query;

// True if the devices of each group of `groups` see groups of `others` alike: member by member those of the same group.
static bool alike(const Groups *groups, const Groups *others) {
    for (int64_t d = 0; d < groups->devices; d++) {
        const int64_t first = groups->members[groups->of[d] * groups->size];
        for (int64_t k = 0; k < others->size; k++)
            if (groups->of[others->members[others->of[d] * others->size + k]] !=
                groups->of[others->members[others->of[first] * others->size + k]])
                return false;
    }
    return true;
}

// True if each group of `groups` lies in one of `others`.
static bool inside(const Groups *groups, const Groups *others) {
    for (int64_t d = 0; d < groups->devices; d++)
        if (others->of[d] != others->of[groups->members[groups->of[d] * groups->size]]) return false;
    return true;
}

static bool reads_the_device(const HloComputation *computation) {
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        if (hlo_is(i, HLO_OP_PARTITION_ID) || hlo_is(i, HLO_OP_REPLICA_ID)) return true;
        for (int32_t k = 0; k < i->called_count; k++)
            if (reads_the_device(i->called[k])) return true;
    }
    return hlo_computation_has_effects(computation);
}

static bool operands_differ(Query *q, const HloInstruction *i) {
    for (int32_t k = 0; k < i->operand_count; k++) {
        const int64_t *known = hlo_int_map_find(&q->known, (uint64_t)i->operands[k]->id);
        if (!known || *known) return true;
    }
    return false;
}

// Whether a value may differ among the devices of a group, given that of its operands.
static bool differs(Query *q, const HloInstruction *i) {
    switch (i->opcode) {
        case HLO_OP_CONSTANT:
        case HLO_OP_IOTA: return false;
        case HLO_OP_PARAMETER:
        case HLO_OP_PARTITION_ID:
        case HLO_OP_REPLICA_ID:
        case HLO_OP_RNG:
        case HLO_OP_RNG_GET_AND_UPDATE_STATE: return true;
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_ALL_GATHER: {
            const Groups *others = groups_of(q->scratch, i);
            if (!others) return true;
            return !inside(q->groups, others) && (operands_differ(q, i) || !alike(q->groups, others));
        }
        case HLO_OP_CUSTOM_CALL:
            if (!enters(i)) return hlo_custom_call_is_region_boundary(i) || operands_differ(q, i);
            const Groups *same = copies_at(q->scratch, i);
            return !same || !inside(q->groups, same);
        case HLO_OP_WHILE:
        case HLO_OP_CONDITIONAL:
        case HLO_OP_CALL:
            for (int32_t k = 0; k < i->called_count; k++)
                if (reads_the_device(i->called[k])) return true;
            return operands_differ(q, i);
        default:
            if (hlo_op_info(i->opcode)->family == HLO_FAMILY_Collective || hlo_is(i, HLO_OP_COLLECTIVE_PERMUTE))
                return true;
            return operands_differ(q, i);
    }
}

static Query *query_for(HloTransposer *t, const Groups *groups) {
    for (Query *q = t->queries; q; q = q->next)
        if (q->groups->devices == groups->devices &&
            !memcmp(q->groups->of, groups->of, (size_t)groups->devices * sizeof *groups->of))
            return q;
    Query *query = HLO_ARENA_NEW(t->scratch, Query, 1);
    *query = (Query){.next = t->queries, .scratch = t->scratch, .groups = groups};
    return t->queries = query;
}

// True if `x` is the same on all devices of each group.
static bool is_common(HloTransposer *t, HloInstruction *x, const Groups *groups) {
    Query *query = query_for(t, groups);
    HloInstructionVector stack = {0};
    hlo_vector_push(t->scratch, &stack, x);
    while (stack.count) {
        const HloInstruction *i = stack.items[stack.count - 1];
        const int64_t before = stack.count;
        const bool known = hlo_int_map_find(&query->known, (uint64_t)i->id);
        for (int32_t k = 0; k < i->operand_count && !enters(i) && !known; k++)
            if (!hlo_int_map_find(&query->known, (uint64_t)i->operands[k]->id))
                hlo_vector_push(t->scratch, &stack, i->operands[k]);
        if (stack.count > before) continue;
        if (!known) hlo_int_map_set(t->scratch, &query->known, (uint64_t)i->id, differs(query, i));
        stack.count--;
    }
    return !*hlo_int_map_find(&query->known, (uint64_t)x->id);
}

// ---- transposes

// x times a number; a product with a number before it is taken together with it.
static HloInstruction *scaled(HloBuilder *b, HloInstruction *x, double factor) {
    if (x && hlo_is(x, HLO_OP_MULTIPLY) && hlo_is(x->operands[1], HLO_OP_BROADCAST) &&
        hlo_is(x->operands[1]->operands[0], HLO_OP_CONSTANT) && hlo_type_is_float(x->shape->type)) {
        const HloLiteral *literal = HLO_ATTRIBUTES(x->operands[1]->operands[0], Constant)->literal;
        const double both = factor * hlo_literal_get_double(literal, 0);
        if (both > 1 - 1e-7 && both < 1 + 1e-7) return x->operands[0];
    }
    return factor == 1 ? x : hlo_transform_scale(b, x, factor);
}

void hlo_transpose_all_reduce(HloTransposer *t, HloInstruction *cotangent) {
    const Groups *groups = groups_of(t->scratch, t->instruction);
    if (cotangent && groups && is_common(t, cotangent, groups))
        hlo_transposer_give(t, 0, scaled(t->b, cotangent, (double)groups->size));
    else
        hlo_transposer_give(t, 0, hlo_transpose_applied(t, cotangent));
}

int64_t hlo_transposer_channel(HloTransposer *t) {
    if (!t->channel) t->channel = hlo_module_next_channel(t->b->module);
    return t->channel++;
}

// The sum over the devices that hold copies.
static HloInstruction *summed(HloTransposer *t, HloInstruction *x, const Groups *groups) {
    if (!x || groups->size == 1) return x;
    if (is_common(t, x, groups)) return scaled(t->b, x, (double)groups->size);
    const int64_t count = groups->devices / groups->size;
    HloInts *lists = HLO_ARENA_NEW(t->scratch, HloInts, count);
    for (int64_t g = 0; g < count; g++) lists[g] = (HloInts){groups->members + g * groups->size, groups->size};
    HloCollectiveAttributes attributes = {.channel_id = hlo_transposer_channel(t),
                                          .use_global_device_ids = true,
                                          .replica_groups = hlo_replica_groups_list(t->scratch, lists, count)};
    return hlo_build_all_reduce_op(t->b, HLO_OP_ADD, x, &attributes);
}

// The other side of a boundary: the same call in the other direction.
static HloInstruction *crossed(HloTransposer *t, HloInstruction *x, const HloSharding *sharding, const char *target) {
    const HloShape *shape = t->instruction->operands[0]->shape;
    if (!x) return NULL;
    HloCustomCallAttributes attributes = *HLO_ATTRIBUTES(t->instruction, CustomCall);
    HloInstruction *copy = hlo_instruction_clone(t->b->computation, t->instruction, shape, &x, 1);
    attributes.target = target;
    hlo_instruction_set_attributes(copy, &attributes);
    copy->sharding = sharding;
    return copy;
}

void hlo_transpose_boundary(HloTransposer *t, HloInstruction *cotangent) {
    const HloInstruction *i = t->instruction;
    const HloSharding *before = i->operands[0]->sharding;
    if (strncmp(HLO_ATTRIBUTES(i, CustomCall)->target, "SPMD", 4)) {
        hlo_builder_fail(t->b, unsupported(t, "hlo_module_tile_shardy() gives it a form that has one"));
        return;
    }
    const Groups *groups = copies_at(t->scratch, i);
    if (!groups || !before) {
        hlo_builder_fail(t->b, unsupported(t, "its sharding does not say which devices hold copies"));
        return;
    }
    if (enters(i)) {
        HloInstruction *sum = summed(t, cotangent, groups);
        if (sum && !sum->sharding) sum->sharding = i->sharding;
        hlo_transposer_give(t, 0, crossed(t, sum, before, "SPMDShardToFullShape"));
        return;
    }
    HloInstruction *placed = hlo_build_sharding_constraint(t->b, cotangent, i->sharding);
    HloInstruction *local = crossed(t, placed, before, "SPMDFullToShardShape");
    if (groups->size > 1) local = scaled(t->b, local, 1.0 / (double)groups->size);
    hlo_transposer_give(t, 0, local);
}
