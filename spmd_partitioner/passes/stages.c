// SPDX-License-Identifier: Apache-2.0
// Small gathers and sums over many devices in two stages, over parts of the groups, where the machine takes less time
// for that: a ring of n devices takes n - 1 steps, and stages over p and q of them p + q - 2. With devices i * q + j:
//
//     %r = all-reduce(%x), {0 … p*q-1}     becomes    %s = all-reduce(%x), groups of equal i
//                                                     %r = all-reduce(%s), groups of equal j
//
// A gather joins the nearer devices (of equal i) first, a reduce-scatter last, so that parts keep their order. Sums are
// added up in another order, as those of rings are.
#include <assert.h>

#include "spmd_partitioner/passes/passes.h"

enum {
    MOST_DEVICES = 1024,  // whose groups are written out
    MOST_STAGES = 4,
};

typedef struct Stages {
    HloModule *module;
    HloArena *scratch;
    const SpmdCosts *costs;
    int64_t next_channel;
} Stages;

// The two stages of a collective.
typedef struct Pair {
    HloInstruction *first, *second;
} Pair;

static bool may_stage(const HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_ALL_REDUCE) && !hlo_is(at, HLO_OP_ALL_GATHER) && !hlo_is(at, HLO_OP_REDUCE_SCATTER))
        return false;
    const bool several = at->operand_count != 1 || !hlo_shape_is_array(at->shape);
    if (several && !hlo_is(at, HLO_OP_ALL_REDUCE)) return false;
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(at, Collective);
    return !at->control_predecessors.count && !at->control_successors.count && attributes->channel_id &&
           attributes->use_global_device_ids && at->parent->module->replica_count <= 1 &&
           hlo_instruction_frontend_attribute(at, "meshlo.reason");
}

// Whether a loop has the time of an iteration for a collective, whatever it takes: two would only wait for each other.
static bool has_time(const HloInstruction *at) {
    if (at->parent == at->parent->module->entry) return false;
    for (int32_t i = 0; i < at->operand_count; i++)
        if (spmd_comes_late(at->operands[i])) return spmd_result_leaves(at);
    return true;
}

// The groups of devices i * q + j of equal i, or of equal j.
static const HloReplicaGroups *part_groups(const Stages *stages, const HloInts *groups, int64_t count, int64_t q,
                                           bool of_equal_i) {
    const int64_t p = groups[0].count / q, size = of_equal_i ? q : p, parts = of_equal_i ? p : q;
    HloInts *lists = HLO_ARENA_NEW(stages->scratch, HloInts, count * parts);
    for (int64_t g = 0; g < count; g++)
        for (int64_t part = 0; part < parts; part++) {
            int64_t *items = HLO_ARENA_NEW(stages->scratch, int64_t, size);
            for (int64_t k = 0; k < size; k++) items[k] = groups[g].items[of_equal_i ? part * q + k : k * q + part];
            lists[g * parts + part] = (HloInts){items, size};
        }
    return hlo_replica_groups_list(stages->module->arena, lists, count * parts);
}

static HloInstruction *put_stage(Stages *stages, HloInstruction *at, const HloReplicaGroups *groups,
                                 const HloShape *shape, HloInstruction *const *operands) {
    HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(at, Collective);
    attributes.replica_groups = groups;
    attributes.channel_id = stages->next_channel++;
    HloInstruction *made =
        hlo_instruction_new(at->parent, at->opcode, shape, operands, at->operand_count, &attributes, NULL);
    if (at->called_count) hlo_instruction_set_called(made, at->called, at->called_count);
    made->metadata = at->metadata;
    spmd_join_reasons(made, at);
    hlo_instruction_move_before(made, at);
    return made;
}

// The results of the first stage, as operands of the second.
static HloInstruction *const *results_of(HloInstruction *stage) {
    HloModule *module = stage->parent->module;
    HloInstruction **results = HLO_ARENA_NEW(module->arena, HloInstruction *, stage->operand_count);
    results[0] = stage;
    for (int32_t i = 0; hlo_shape_is_tuple(stage->shape) && i < stage->operand_count; i++) {
        const HloTupleIndexAttributes attributes = {.index = i};
        results[i] = hlo_instruction_new(stage->parent, HLO_OP_GET_TUPLE_ELEMENT, stage->operands[i]->shape, &stage, 1,
                                         &attributes, NULL);
        hlo_instruction_move_after(results[i], stage);
    }
    return results;
}

// What a gather or scatter leaves after its first stage.
static const HloShape *shape_between(const Stages *stages, const HloInstruction *at, int64_t first_size) {
    if (hlo_is(at, HLO_OP_ALL_REDUCE)) return at->shape;
    HloArena *arena = stages->module->arena;
    const HloShape *given = at->operands[0]->shape;
    const int64_t dim = HLO_ATTRIBUTES(at, Collective)->dimensions.items[0];
    int64_t *dims = hlo_arena_copy(arena, given->dims, (size_t)given->rank * sizeof(*dims));
    dims[dim] = hlo_is(at, HLO_OP_ALL_GATHER) ? dims[dim] * first_size : dims[dim] / first_size;
    return hlo_shape_with_default_layout(arena, hlo_shape_array(arena, given->type, dims, given->rank));
}

static Pair put_stages(Stages *stages, HloInstruction *at, const HloInts *groups, int64_t count, int64_t q) {
    const bool near_first = !hlo_is(at, HLO_OP_REDUCE_SCATTER);
    const HloReplicaGroups *near = part_groups(stages, groups, count, q, true),
                           *far = part_groups(stages, groups, count, q, false);
    const HloShape *between = shape_between(stages, at, near_first ? q : groups[0].count / q);
    Pair pair;
    pair.first = put_stage(stages, at, near_first ? near : far, between, at->operands);
    pair.second = put_stage(stages, at, near_first ? far : near, at->shape, results_of(pair.first));
    return pair;
}

static double seconds_of(const Stages *stages, const Pair *pair) {
    const SpmdCosts *costs = stages->costs;
    const double first = costs->machine->seconds(costs->session, pair->first),
                 second = costs->machine->seconds(costs->session, pair->second);
    return first < 0 || second < 0 ? -1 : first + second;
}

// Replaces a collective by the two stages that take least time, if that is less than now; NULL if it stays.
static Pair stage_collective(Stages *stages, HloInstruction *at) {
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(at, Collective);
    const int64_t devices = stages->module->num_partitions;
    const HloInts *groups;
    int64_t count, best = 0;
    const int64_t size = hlo_replica_groups_size(attributes->replica_groups);
    const double whole = stages->costs->machine->seconds(stages->costs->session, at);
    double least = SPMD_PARTS_PAY * whole;
    if (size < 4 || devices > MOST_DEVICES || whole <= 0) return (Pair){NULL, NULL};
    HloStatus status = hlo_replica_groups_expand(attributes->replica_groups, devices, stages->scratch, &groups, &count);
    if (status) {
        hlo_status_free(status);
        return (Pair){NULL, NULL};
    }
    for (int64_t q = 2; q <= size / 2; q++) {
        if (size % q) continue;
        const Pair pair = put_stages(stages, at, groups, count, q);
        const double seconds = seconds_of(stages, &pair);
        if (seconds >= 0 && seconds < least) {
            least = seconds;
            best = q;
        }
        spmd_remove_unused(pair.second);
    }
    if (!best) return (Pair){NULL, NULL};
    const Pair pair = put_stages(stages, at, groups, count, best);
    if (at->sharding) spmd_take_annotations(pair.second, at);
    hlo_instruction_replace_uses(at, pair.second);
    hlo_instruction_remove(at);
    return pair;
}

// A stage may have stages itself.
static void stage_all(Stages *stages, HloInstruction *at, int depth) {
    const Pair pair = stage_collective(stages, at);
    if (!pair.first || depth == MOST_STAGES) return;
    stage_all(stages, pair.first, depth + 1);
    stage_all(stages, pair.second, depth + 1);
}

void spmd_stage_collectives(HloModule *module, const SpmdCosts *costs, HloArena *scratch) {
    assert(module->entry && costs);
    if (!costs->machine) return;
    Stages stages = {module, scratch, costs, hlo_module_next_channel(module)};
    for (int64_t c = 0; c < module->computations.count; c++) {
        HloInstructionVector found = {0};
        for (HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (may_stage(at) && !has_time(at)) hlo_vector_push(scratch, &found, at);
        for (int64_t i = 0; i < found.count; i++) stage_all(&stages, found.items[i], 1);
    }
}
