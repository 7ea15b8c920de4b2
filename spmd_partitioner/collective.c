// SPDX-License-Identifier: Apache-2.0
// Emits collectives with their reasons, and runs the paths that the reshard planner finds.
//
// Groups are written as V2 iota lists over the mesh's axes, which stay short on thousands of devices. Frontend
// attributes (meshlo.reason, meshlo.remedy) record why a collective exists and what would remove it; they survive
// passes, text and protobuf.
//
// How the steps of reshard.h become HLO (g is the size of the group):
//     slice           pad to a multiple, then dynamic-slice at index x shard
//     all-gather      all-gather, then the padding of uneven shards is sliced off
//     reduce-scatter  pad, then reduce-scatter
//     all-to-all      the target dimension is split into [g, part] and exchanged along g;
//                     f32[4,6] from dimension 0 to 1 with g = 2:
//                     reshape f32[4,2,3], all-to-all dimensions={1}, transpose f32[2,4,3], reshape f32[8,3]
//     permute         source_target_pairs from the order of tiles before to that after
//     permute parts   a permute for each of the g parts of a tile, which is cut out by the position of the sender, and
//                     put in its place by that of the receiver
//
// Invariant: an uneven dimension has its padding after its last element, on the last shards only. The padding's
// contents are undefined until it is masked.
#include <assert.h>
#include <string.h>

#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/moves.h"

// Writes the shardings that disagree, as far as the reason has them.
static void explain_shardings(const SpmdMesh *mesh, HloText *text, const SpmdReason *reason) {
    if (reason->from) {
        hlo_text_string(text, " is ");
        spmd_sharding_print(text, mesh, reason->from);
    }
    if (reason->to) {
        hlo_text_string(text, reason->from ? ", needed as " : " is needed as ");
        spmd_sharding_print(text, mesh, reason->to);
    }
}

// "operand 1" or "the result": a tensor of an op's rule.
static void print_tensor(HloText *text, const SpmdRule *rule, int32_t tensor) {
    if (tensor < rule->operand_count) {
        hlo_text_format(text, "operand %d", tensor);
    } else {
        hlo_text_string(text, "the result");
    }
}

// What a reason calls an op: the name that the user's program gave it, if it is known.
static const char *name_of(const HloInstruction *op) {
    return op->metadata && op->metadata->op_name && *op->metadata->op_name ? op->metadata->op_name : op->name;
}

// Where propagation had to decide between two dimensions that claimed the axes of a collective, that is its cause.
static void explain_decision(const SpmdPartitioner *partitioner, HloText *text, const SpmdReason *reason,
                             const SpmdAxes *axes) {
    const int64_t *found = hlo_int_map_find(&partitioner->plan->decisions, (uint64_t)reason->op->id + 1);
    const SpmdRule *rule = partitioner->plan->rules[reason->op->id];
    if (!found || !rule || !axes || !reason->from) return;
    const SpmdDecision *decision = (const SpmdDecision *)(intptr_t)*found;
    SpmdAxes claimed = {0};
    for (int32_t i = 0; i < axes->count; i++) {
        if (decision->atoms >> axes->items[i] & 1) spmd_axes_push(&claimed, axes->items[i]);
    }
    if (!claimed.count) return;
    hlo_text_string(text, "; ");
    print_tensor(text, rule, decision->winner);
    hlo_text_string(text, " and ");
    print_tensor(text, rule, decision->loser);
    hlo_text_format(text, " of %s shard different dimensions by ", name_of(reason->op));
    spmd_axes_print(text, partitioner->mesh, &claimed);
    hlo_text_string(text, ", and less follows from that of ");
    print_tensor(text, rule, decision->loser);
}

// Whether the collective finishes partial results.
static bool sums(const HloInstruction *collective) {
    return hlo_is(collective, HLO_OP_ALL_REDUCE) || hlo_is(collective, HLO_OP_REDUCE_SCATTER);
}

// Writes the reason where it survives passes and text: into a frontend attribute.
static void explain(SpmdPartitioner *partitioner, HloInstruction *collective, const SpmdReason *reason,
                    const SpmdAxes *axes) {
    assert(collective && reason);
    HloText text = {0};
    if (sums(collective) && reason->summed) {
        hlo_text_format(&text, "%s %s reduces a dimension that is sharded over ", hlo_op_text(reason->summed->opcode),
                        name_of(reason->summed));
        spmd_axes_print(&text, partitioner->mesh, axes);
        hlo_text_string(&text, ": each device has a partial result");
        if (reason->to) hlo_text_string(&text, ", needed as ");
        if (reason->to) spmd_sharding_print(&text, partitioner->mesh, reason->to);
    } else {
        hlo_text_format(&text, "%s of %s %s", reason->what, hlo_op_text(reason->op->opcode), name_of(reason->op));
        if (!reason->is_own) explain_shardings(partitioner->mesh, &text, reason);
        explain_decision(partitioner, &text, reason, axes);
    }
    if (text.data)
        hlo_instruction_set_frontend_attribute(collective, "meshlo.reason",
                                               hlo_text_to_arena(partitioner->arena, &text));
}

// Writes the smallest change of annotations that is known to help; nothing if none is known. There are three kinds: a
// sum over a sharded dimension, a disagreement of two shardings, and elements that move along a sharded dimension.
static void explain_remedy(SpmdPartitioner *partitioner, HloInstruction *collective, const SpmdReason *reason,
                           const SpmdAxes *axes) {
    HloText text = {0};
    if (reason->is_own) return;
    if (sums(collective) && reason->summed) {
        hlo_text_format(&text, "keep ");
        spmd_axes_print(&text, partitioner->mesh, axes);
        hlo_text_format(&text, " off the contracting dimension of %s: shard its operands along another dimension",
                        name_of(reason->summed));
    } else if (reason->from && reason->to) {
        hlo_text_string(&text, "annotate the producer of this array with ");
        spmd_sharding_print(&text, partitioner->mesh, reason->to);
        hlo_text_format(&text, ", or let %s take ", name_of(reason->op));
        spmd_sharding_print(&text, partitioner->mesh, reason->from);
    } else if (hlo_is(collective, HLO_OP_COLLECTIVE_PERMUTE)) {
        hlo_text_format(&text, "shard %s along a dimension in which it does not move elements", name_of(reason->op));
    }
    if (text.data)
        hlo_instruction_set_frontend_attribute(collective, "meshlo.remedy",
                                               hlo_text_to_arena(partitioner->arena, &text));
}

// Sums of narrow or logical types have no reducer of their own: `or` is what adds pred.
static HloOpcode reducer_opcode(HloOpcode opcode, HloType type) {
    return opcode == HLO_OP_ADD && type == HLO_PRED ? HLO_OP_OR : opcode;
}

// Nothing needs to be sent of an array without elements.
static bool is_empty(const HloShape *shape) {
    return hlo_shape_elements(shape) == 0 && !hlo_shape_is_dynamic(shape);
}

// One is an element that every type has.
static HloInstruction *emit_empty(SpmdPartitioner *partitioner, const HloShape *shape) {
    assert(is_empty(shape));
    return spmd_emit_splat(partitioner, spmd_emit_scalar(partitioner, shape->type, 1), shape->dims, shape->rank);
}

// Emits a collective with a channel of its own and its reason, so that the program itself explains why it communicates.
// `reduction` is HLO_OPCODE_COUNT where nothing is combined.
static HloInstruction *emit_collective(SpmdPartitioner *partitioner, HloOpcode opcode, const HloShape *shape,
                                       HloInstruction *operand, HloOpcode reduction, const SpmdAxes *axes, int64_t dim,
                                       const SpmdReason *reason) {
    assert(axes->count > 0); /* a group of one has nothing to exchange */
    if (is_empty(shape)) return emit_empty(partitioner, shape);
    HloCollectiveAttributes attributes = {
        .channel_id = partitioner->next_channel++,
        .use_global_device_ids = opcode != HLO_OP_ALL_TO_ALL && opcode != HLO_OP_COLLECTIVE_BROADCAST,
    };
    // Global ids count the devices of all replicas, the numbers of an all-to-all the partitions of any.
    attributes.replica_groups = spmd_mesh_groups(
        spmd_arena(partitioner), partitioner->mesh,
        attributes.use_global_device_ids ? partitioner->module->replica_count : 1, axes->items, axes->count);
    if (dim >= 0) attributes.dimensions = hlo_ints(spmd_arena(partitioner), &dim, 1);
    HloInstruction *made = spmd_emit(partitioner, opcode, shape, &operand, 1, &attributes);
    explain(partitioner, made, reason, axes);
    explain_remedy(partitioner, made, reason, axes);
    if (reduction == HLO_OPCODE_COUNT) return made;
    HloComputation *reducer = spmd_reducer(partitioner, reducer_opcode(reduction, shape->type), shape->type);
    hlo_instruction_set_called(made, &reducer, 1);
    return made;
}

HloInstruction *spmd_emit_all_gather(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim,
                                     const SpmdAxes *axes, const SpmdReason *reason) {
    int64_t group = spmd_axes_product(partitioner->mesh, axes);
    const HloShape *shape = spmd_resized(partitioner, operand->shape, dim, operand->shape->dims[dim] * group);
    return emit_collective(partitioner, HLO_OP_ALL_GATHER, shape, operand, HLO_OPCODE_COUNT, axes, dim, reason);
}

// Combines the arrays of a group; every device gets the result.
static HloInstruction *emit_all_reduce(SpmdPartitioner *partitioner, HloInstruction *operand, HloOpcode reduction,
                                       const SpmdAxes *axes, const SpmdReason *reason) {
    return emit_collective(partitioner, HLO_OP_ALL_REDUCE, operand->shape, operand, reduction, axes, -1, reason);
}

// The same, but device k of a group gets part k of dimension `dim`.
static HloInstruction *emit_reduce_scatter(SpmdPartitioner *partitioner, HloInstruction *operand, HloOpcode reduction,
                                           int64_t dim, const SpmdAxes *axes, const SpmdReason *reason) {
    int64_t group = spmd_axes_product(partitioner->mesh, axes);
    const HloShape *shape = spmd_resized(partitioner, operand->shape, dim, operand->shape->dims[dim] / group);
    assert(operand->shape->dims[dim] % group == 0); /* padded to whole parts */
    return emit_collective(partitioner, HLO_OP_REDUCE_SCATTER, shape, operand, reduction, axes, dim, reason);
}

HloInstruction *spmd_emit_all_to_all(SpmdPartitioner *partitioner, HloInstruction *operand, int64_t dim,
                                     const SpmdAxes *axes, const SpmdReason *reason) {
    assert(operand->shape->dims[dim] == spmd_axes_product(partitioner->mesh, axes)); /* a block for each */
    return emit_collective(partitioner, HLO_OP_ALL_TO_ALL, operand->shape, operand, HLO_OPCODE_COUNT, axes, dim,
                           reason);
}

HloInstruction *spmd_emit_permute(SpmdPartitioner *partitioner, HloInstruction *operand, HloPairs pairs,
                                  const SpmdReason *reason) {
    assert(pairs.count > 0); /* some device sends */
    if (is_empty(operand->shape)) return emit_empty(partitioner, operand->shape);
    HloPermuteAttributes attributes = {.channel_id = partitioner->next_channel++, .source_target_pairs = pairs};
    HloInstruction *made = spmd_emit(partitioner, HLO_OP_COLLECTIVE_PERMUTE, operand->shape, &operand, 1, &attributes);
    explain(partitioner, made, reason, NULL);
    explain_remedy(partitioner, made, reason, NULL);
    return made;
}

// The groups along `axes` with the device at `position` first in each: it is the one that speaks, as HLO has it.
static const HloReplicaGroups *groups_from(SpmdPartitioner *partitioner, const SpmdAxes *axes, int64_t position) {
    HloArena *arena = spmd_arena(partitioner);
    const SpmdMesh *mesh = partitioner->mesh;
    if (position == 0) return spmd_mesh_groups(arena, mesh, 1, axes->items, axes->count);
    const int64_t size = spmd_axes_product(mesh, axes), count = mesh->device_count / size;
    HloInts *groups = HLO_ARENA_NEW(arena, HloInts, count);
    int64_t *devices = HLO_ARENA_NEW(arena, int64_t, mesh->device_count), next = 0;
    const SpmdPlaces places = spmd_places(partitioner->arena, mesh, axes);
    for (int64_t device = 0; device < mesh->device_count; device++) {
        if (places.position[device]) continue;
        int64_t *group = devices + next * size;
        groups[next++] = (HloInts){group, size};
        for (int64_t i = 0; i < size; i++)
            group[i] = spmd_device_at(&places, device, i == 0 ? position : i <= position ? i - 1 : i);
    }
    return hlo_replica_groups_list(arena, groups, count);
}

HloInstruction *spmd_emit_broadcast(SpmdPartitioner *partitioner, HloInstruction *operand, const SpmdAxes *axes,
                                    int64_t position, const SpmdReason *reason) {
    assert(position >= 0 && position < spmd_axes_product(partitioner->mesh, axes)); /* one of the group */
    if (is_empty(operand->shape)) return emit_empty(partitioner, operand->shape);
    const HloCollectiveAttributes attributes = {.channel_id = partitioner->next_channel++,
                                                .replica_groups = groups_from(partitioner, axes, position)};
    HloInstruction *made =
        spmd_emit(partitioner, HLO_OP_COLLECTIVE_BROADCAST, operand->shape, &operand, 1, &attributes);
    explain(partitioner, made, reason, NULL);
    explain_remedy(partitioner, made, reason, NULL);
    return made;
}

// ---- steps ----

// Number of parts of a dimension.
static int64_t shards(const SpmdPartitioner *partitioner, const SpmdSharding *sharding, int64_t dim) {
    return spmd_axes_product(partitioner->mesh, &sharding->dims[dim]);
}

// Local size of a dimension.
static int64_t local_size(const SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *sharding,
                          int64_t dim) {
    return spmd_shard_size(local->global->dims[dim], shards(partitioner, sharding, dim));
}

// Pads a whole dimension to the total size that `sharding` needs, before it is sharded. `group` is the number of parts
// that the step makes.
static HloInstruction *pad_for(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *sharding,
                               int64_t dim, int64_t group) {
    assert(group > 1); /* a step moves axes */
    int64_t total = local_size(partitioner, local, sharding, dim) * group;
    return spmd_emit_pad(partitioner, local->hlo, dim, 0, total - local->hlo->shape->dims[dim], NULL);
}

// An idle axis can shard a dimension without sending anything: each device keeps its part of what it has.
static HloInstruction *run_slice(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdStep *step) {
    int64_t group = spmd_axes_product(partitioner->mesh, &step->axes);
    int64_t size = local_size(partitioner, local, step->after, step->dim);
    HloInstruction *padded = pad_for(partitioner, local, step->after, step->dim, group);
    HloInstruction *offset = spmd_emit_offset(partitioner, &step->axes, size);
    return spmd_emit_dynamic_slice(partitioner, padded, step->dim, offset, size);
}

// The last shards of an uneven dimension are partly padding. It is at the end once all shards are together, and is
// sliced off.
static HloInstruction *run_all_gather(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdStep *step,
                                      const SpmdReason *reason) {
    if (spmd_gather_has_owner(partitioner->mesh, local->global, step->after, step->dim, &step->axes))
        return spmd_emit_broadcast(partitioner, local->hlo, &step->axes, 0, reason);
    HloInstruction *all = spmd_emit_all_gather(partitioner, local->hlo, step->dim, &step->axes, reason);
    return spmd_emit_slice(partitioner, all, step->dim, 0, local_size(partitioner, local, step->after, step->dim), 1);
}

// An array all-to-all splits and joins the same dimension. So the target dimension is split in two first, and the
// received blocks are moved before the source dimension afterwards.
static HloInstruction *run_all_to_all(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdStep *step,
                                      const SpmdReason *reason) {
    int64_t group = spmd_axes_product(partitioner->mesh, &step->axes);
    HloInstruction *padded = pad_for(partitioner, local, step->after, step->target, group);
    int64_t rank = padded->shape->rank;
    int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, rank + 1);
    int64_t *order = HLO_ARENA_NEW(partitioner->arena, int64_t, rank + 1);
    int64_t at = 0;
    for (int64_t i = 0; i < rank; i++) {
        if (i == step->target) dims[at++] = group;
        dims[at++] = i == step->target ? padded->shape->dims[i] / group : padded->shape->dims[i];
    }
    HloInstruction *split = spmd_emit_reshape(partitioner, padded, dims, rank + 1);
    HloInstruction *exchanged = spmd_emit_all_to_all(partitioner, split, step->target, &step->axes, reason);
    at = 0;
    for (int64_t i = 0; i < rank; i++) {
        if (i == step->dim) order[at++] = step->target;
        order[at++] = i < step->target ? i : i + 1;
    }
    HloInstruction *moved = spmd_emit_transpose(partitioner, exchanged, order);
    for (int64_t i = 0; i < rank; i++) {
        dims[i] = i == step->dim ? padded->shape->dims[i] * group : padded->shape->dims[i];
        if (i == step->target) dims[i] /= group;
    }
    HloInstruction *joined = spmd_emit_reshape(partitioner, moved, dims, rank);
    return spmd_emit_slice(partitioner, joined, step->dim, 0, local_size(partitioner, local, step->after, step->dim),
                           1);
}

// One broadcast for `count` gathers of one element each, from the device that has it.
static HloInstruction *run_gathers(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdStep *steps,
                                   int32_t count, const SpmdReason *reason) {
    SpmdAxes axes = {0};
    for (int32_t i = 0; i < count; i++) spmd_axes_append(&axes, &steps[i].axes);
    return spmd_emit_broadcast(partitioner, local->hlo, &axes, 0, reason);
}

// Exchanges for `count` all-to-all steps, which spmd_steps_together() has found. Of axes that come from one dimension,
// those that a later step moves are major to those of an earlier one, so that its parts come first in the order of
// devices:
//
//     f32[s,m,n], axes b and a of dimension 0 to dimensions 2 and 1: reshape f32[s,a,m/a,b,n/b],
//     transpose f32[b,a,s,m/a,n/b], all-to-all over b and a of f32[b*a,s,m/a,n/b], reshape f32[b*a*s,m/a,n/b]
static HloInstruction *run_all_to_alls(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdStep *steps,
                                       int32_t count, const SpmdReason *reason) {
    const int64_t rank = local->hlo->shape->rank;
    int64_t *split = HLO_ARENA_NEW(partitioner->arena, int64_t, rank + count);
    int64_t *order = HLO_ARENA_NEW(partitioner->arena, int64_t, rank + count);
    int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, rank + 1);
    int64_t *apart = HLO_ARENA_NEW(partitioner->arena, int64_t, rank + count);  // with a dimension for each step first
    SpmdAxes axes = {0};
    for (int32_t k = count - 1; k >= 0; k--) spmd_axes_append(&axes, &steps[k].axes);
    dims[0] = spmd_axes_product(partitioner->mesh, &axes);
    int64_t at = 0;
    for (int64_t i = 0; i < rank; i++) {
        dims[i + 1] = local->hlo->shape->dims[i];
        for (int32_t k = 0; k < count; k++) {
            if (steps[k].target != i) continue;
            const int64_t parts = spmd_axes_product(partitioner->mesh, &steps[k].axes);
            order[count - 1 - k] = at;
            apart[count - 1 - k] = split[at++] = parts;
            dims[i + 1] /= parts;
        }
        order[count + i] = at;
        apart[count + i] = split[at++] = dims[i + 1];
    }
    HloInstruction *made = spmd_emit_reshape(partitioner, local->hlo, split, rank + count);
    made = spmd_emit_reshape(partitioner, spmd_emit_transpose(partitioner, made, order), dims, rank + 1);
    made =
        spmd_emit_reshape(partitioner, spmd_emit_all_to_all(partitioner, made, 0, &axes, reason), apart, rank + count);
    at = 0;
    for (int64_t i = 0; i < rank; i++) {
        dims[i] = apart[count + i];
        for (int32_t k = 0; k < count; k++) {
            if (steps[count - 1 - k].dim != i) continue;
            order[at++] = k;
            dims[i] *= apart[k];
        }
        order[at++] = count + i;
    }
    return spmd_emit_reshape(partitioner, spmd_emit_transpose(partitioner, made, order), dims, rank);
}

// Orders the devices by tile: the fixed atoms first, then each dimension's, then the rest. Two devices at the same
// position of this order before and after a permute hold the same tile.
static SpmdAxes tile_axes(const SpmdMesh *mesh, const SpmdSharding *sharding, SpmdAtomSet fixed) {
    SpmdAxes order = {0};
    SpmdAtomSet used = spmd_sharding_used(sharding);
    const SpmdAtomSet all = ((SpmdAtomSet)1 << mesh->atom_count) - 1;
    spmd_axes_push_set(&order, fixed);
    for (int32_t i = 0; i < sharding->rank; i++) spmd_axes_append(&order, &sharding->dims[i]);
    spmd_axes_push_set(&order, all & ~(fixed | used));
    return order;
}

// Where a permute from one sharding to another of the same tiles sends what each device has. A device's tile is found
// by its position in the order before, and goes to that position in the order after.
static int64_t *permuted_devices(const SpmdPartitioner *partitioner, const SpmdSharding *from, const SpmdSharding *to,
                                 SpmdAtomSet fixed) {
    const SpmdMesh *mesh = partitioner->mesh;
    const SpmdAxes before = tile_axes(mesh, from, fixed), after = tile_axes(mesh, to, fixed);
    const SpmdPlaces old = spmd_places(partitioner->arena, mesh, &before),
                     new = spmd_places(partitioner->arena, mesh, &after);
    int64_t *at = HLO_ARENA_NEW(partitioner->arena, int64_t, mesh->device_count);
    int64_t *target = HLO_ARENA_NEW(partitioner->arena, int64_t, mesh->device_count);
    for (int64_t i = 0; i < mesh->device_count; i++) at[new.position[i]] = i;
    for (int64_t i = 0; i < mesh->device_count; i++) target[i] = at[old.position[i]];
    return target;
}

// A permute moves the same tiles to other devices; nothing is lost or copied.
static HloInstruction *run_permute(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdStep *step,
                                   const SpmdReason *reason) {
    const int64_t count = partitioner->mesh->device_count;
    const int64_t *target =
        permuted_devices(partitioner, local->sharding, step->after, local->partial | local->sharding->manual);
    HloPair *pairs = HLO_ARENA_NEW(spmd_arena(partitioner), HloPair, count);
    for (int64_t i = 0; i < count; i++) pairs[i] = (HloPair){i, target[i]};
    return spmd_emit_permute(partitioner, local->hlo, (HloPairs){pairs, count}, reason);
}

// Part (i + `by`) mod `parts` of a dimension that has parts of `size` elements, for position i along `axes`.
static HloInstruction *emit_part(SpmdPartitioner *partitioner, HloInstruction *array, int64_t dim, const SpmdAxes *axes,
                                 int64_t parts, int64_t by, int64_t size) {
    const int64_t positions = spmd_axes_product(partitioner->mesh, axes);
    int64_t *starts = HLO_ARENA_NEW(partitioner->arena, int64_t, positions);
    for (int64_t i = 0; i < positions; i++) starts[i] = (((i + by) % parts + parts) % parts) * size;
    HloInstruction *start = spmd_emit_look_up(partitioner, axes, starts, positions);
    return spmd_emit_dynamic_slice(partitioner, array, dim, start, size);
}

// The last axes of a dimension by which its tiles have positions in groups of `group`; all of them where no axes end
// such a group.
static SpmdAxes axes_in_group(const SpmdMesh *mesh, const SpmdAxes *axes, int64_t group) {
    for (int32_t left = axes->count - 1; left >= 0; left--) {
        const SpmdAxes tail = spmd_axes_tail(axes, left);
        if (spmd_axes_product(mesh, &tail) == group) return tail;
    }
    return *axes;
}

// A permute and an all-to-all after it, as one permute for each of the g parts of a tile. Let the device that would get
// a tile by the permute be the one at position t of its group; then its part (t + r) mod g goes to the device at that
// position in round r. So the device at position k receives part k of the tile of position (k - r) mod g.
static HloInstruction *run_permute_parts(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdStep *step,
                                         const SpmdReason *reason) {
    const SpmdMesh *mesh = partitioner->mesh;
    const int64_t group = spmd_axes_product(mesh, &step->axes), count = mesh->device_count;
    SpmdSharding *between = spmd_sharding_copy(partitioner->arena, step->after);
    between->dims[step->target] =
        spmd_axes_head(&between->dims[step->target], between->dims[step->target].count - step->axes.count);
    spmd_axes_append(&between->dims[step->dim], &step->axes);
    const int64_t *permuted =
        permuted_devices(partitioner, local->sharding, between, local->partial | local->sharding->manual);
    const SpmdPlaces places = spmd_places(partitioner->arena, mesh, &step->axes);
    const SpmdAxes senders = axes_in_group(mesh, &local->sharding->dims[step->dim], group);
    HloInstruction *padded = pad_for(partitioner, local, step->after, step->target, group);
    const int64_t size = padded->shape->dims[step->target] / group, length = padded->shape->dims[step->dim];
    HloInstruction **received = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, group);
    for (int64_t r = 0; r < group; r++) {
        HloPair *pairs = HLO_ARENA_NEW(spmd_arena(partitioner), HloPair, count);
        for (int64_t i = 0; i < count; i++) {
            const int64_t position = (places.position[permuted[i]] + r) % group;
            pairs[i] = (HloPair){i, spmd_device_at(&places, permuted[i], position)};
        }
        HloInstruction *part = emit_part(partitioner, padded, step->target, &senders, group, r, size);
        received[r] = spmd_emit_permute(partitioner, part, (HloPairs){pairs, count}, reason);
    }
    HloInstruction *rounds = spmd_emit_concatenate(partitioner, received, group, step->dim);
    for (int64_t t = 0; t < group; t++)
        received[t] = emit_part(partitioner, rounds, step->dim, &step->axes, group, -t, length);
    HloInstruction *joined = spmd_emit_concatenate(partitioner, received, group, step->dim);
    return spmd_emit_slice(partitioner, joined, step->dim, 0, local_size(partitioner, local, step->after, step->dim),
                           1);
}

// Moves what a shard lacks first, and then gathers, or has its shard.
static HloInstruction *run_uneven(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdStep *step,
                                  const SpmdReason *reason) {
    const bool slices = step->kind == SPMD_STEP_UNEVEN_SLICE;
    const SpmdSharding *narrow = slices ? step->after : local->sharding, *wide = slices ? local->sharding : step->after;
    const SpmdAxes *axes = &narrow->dims[step->dim];
    const int64_t size = local->global->dims[step->dim];
    const SpmdMoves *moves =
        spmd_uneven_moves(partitioner->arena, partitioner->mesh, size, axes, wide->dims[step->dim].count, step->kind);
    assert(moves); /* the search planned them */
    SpmdLocal moved = *local;
    moved.hlo = spmd_emit_moves(partitioner, local->hlo, step->dim, axes, moves,
                                local_size(partitioner, local, narrow, step->dim), reason);
    return slices ? moved.hlo : run_all_gather(partitioner, &moved, step, reason);
}

// What the array is after one step of a path.
static HloInstruction *run_step(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdStep *step,
                                const SpmdReason *reason) {
    assert(local && step && reason);
    switch (step->kind) {
        case SPMD_STEP_SLICE: return run_slice(partitioner, local, step);
        case SPMD_STEP_ALL_GATHER: return run_all_gather(partitioner, local, step, reason);
        case SPMD_STEP_ALL_TO_ALL: return run_all_to_all(partitioner, local, step, reason);
        case SPMD_STEP_PERMUTE: return run_permute(partitioner, local, step, reason);
        case SPMD_STEP_PERMUTE_PARTS: return run_permute_parts(partitioner, local, step, reason);
        case SPMD_STEP_ALL_REDUCE:
            return emit_all_reduce(partitioner, local->hlo, local->reduction, &step->axes, reason);
        case SPMD_STEP_UNEVEN_SLICE:
        case SPMD_STEP_UNEVEN_GATHER: return run_uneven(partitioner, local, step, reason);
        case SPMD_STEP_REDUCE_SCATTER: break;
    }
    int64_t group = spmd_axes_product(partitioner->mesh, &step->axes);
    HloInstruction *padded = pad_for(partitioner, local, step->after, step->dim, group);
    return emit_reduce_scatter(partitioner, padded, local->reduction, step->dim, &step->axes, reason);
}

SpmdLocal spmd_emit_path(SpmdPartitioner *partitioner, SpmdLocal local, const SpmdPath *path,
                         const SpmdReason *reason) {
    assert(local.hlo && path);
    for (int32_t i = 0, together; i < path->count; i += together) {
        const SpmdStep *step = &path->steps[i];
        together = spmd_steps_together(partitioner->mesh, local.global, local.sharding, step, path->count - i);
        const bool gathers = step->kind == SPMD_STEP_ALL_GATHER;
        local.hlo = together > 1
                        ? (gathers ? run_gathers : run_all_to_alls)(partitioner, &local, step, together, reason)
                        : run_step(partitioner, &local, step, reason);
        local.sharding = path->steps[i + together - 1].after;
        local.partial = path->steps[i + together - 1].partial;
    }
    return local;
}

// ---- device orders that the mesh cannot hold ----

// One permute at the program's boundary handles a device order that is no product of axes. Inside, every array has the
// mesh's own order.
static HloInstruction *emit_foreign(SpmdPartitioner *partitioner, HloInstruction *operand, const SpmdArray *array,
                                    bool entering, const SpmdReason *reason) {
    int64_t count = partitioner->mesh->device_count;
    HloPair *pairs = HLO_ARENA_NEW(spmd_arena(partitioner), HloPair, count);
    for (int64_t i = 0; i < count; i++) {
        pairs[i] = entering ? (HloPair){array->devices[i], i} : (HloPair){i, array->devices[i]};
    }
    return spmd_emit_permute(partitioner, operand, (HloPairs){pairs, count}, reason);
}

HloInstruction *spmd_emit_from_foreign(SpmdPartitioner *partitioner, HloInstruction *operand, const SpmdArray *array,
                                       SpmdReason reason) {
    return emit_foreign(partitioner, operand, array, true, &reason);
}

HloInstruction *spmd_emit_to_foreign(SpmdPartitioner *partitioner, HloInstruction *operand, const SpmdArray *array,
                                     SpmdReason reason) {
    return emit_foreign(partitioner, operand, array, false, &reason);
}
