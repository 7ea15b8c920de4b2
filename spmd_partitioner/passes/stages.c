// SPDX-License-Identifier: Apache-2.0
// Small gathers and sums over many devices in stages over parts of their groups, where the machine takes less time for
// that: a ring of n devices takes n - 1 steps, and stages over p and q of them p + q - 2. With devices i * q + j:
//
//     %r = all-reduce(%x), {0 … p*q-1}     becomes    %s = reduce-scatter(%x), groups of equal i
//                                                     %t = all-reduce(%s), groups of equal j
//                                                     %r = all-gather(%t), groups of equal i
//
// A gather joins the nearer devices (of equal i) first, a reduce-scatter last, so that parts keep their order. All of
// these send as many bytes as before. Sums that cannot be scattered, such as single numbers, become two all-reduces,
// which send more: up to twice as much. Sums are added up in another order, as those of rings are.
#include <assert.h>

#include "spmd_partitioner/costs.h"
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

// The stages of a collective, two or three.
typedef struct Stage {
    HloInstruction *steps[3];
    int32_t count;  // 0: it stays as it is
} Stage;

static bool may_stage(const HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_ALL_REDUCE) && !hlo_is(at, HLO_OP_ALL_GATHER) && !hlo_is(at, HLO_OP_REDUCE_SCATTER))
        return false;
    if (at->operand_count != 1 || !hlo_shape_is_array(at->shape)) return false;
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

// One stage, of `operand`.
static HloInstruction *put_step(Stages *stages, HloInstruction *at, HloOpcode opcode, const HloReplicaGroups *groups,
                                int64_t dim, const HloShape *shape, HloInstruction *operand) {
    HloArena *arena = stages->module->arena;
    HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(at, Collective);
    attributes.replica_groups = groups;
    attributes.channel_id = stages->next_channel++;
    attributes.dimensions = opcode == HLO_OP_ALL_REDUCE ? (HloInts){0} : hlo_ints(arena, &dim, 1);
    HloInstruction *made = hlo_instruction_new(at->parent, opcode, shape, &operand, 1, &attributes, NULL);
    if (opcode != HLO_OP_ALL_GATHER) hlo_instruction_set_called(made, at->called, at->called_count);
    made->metadata = at->metadata;
    spmd_join_reasons(made, at);
    hlo_instruction_move_before(made, at);
    return made;
}

// The first dimension that has `parts` equal parts, or -1.
static int64_t divisible_dim(const HloShape *shape, int64_t parts) {
    for (int32_t d = 0; d < shape->rank; d++)
        if (shape->dims[d] && shape->dims[d] % parts == 0) return d;
    return -1;
}

static Stage put_sum(Stages *stages, HloInstruction *at, const HloReplicaGroups *near, const HloReplicaGroups *far,
                     int64_t q) {
    Stage stage = {0};
    HloInstruction **steps = stage.steps;
    const int64_t dim = divisible_dim(at->shape, q);
    if (dim >= 0) {
        const HloShape *part = spmd_shape_resized(stages->module->arena, at->shape, dim, at->shape->dims[dim] / q);
        steps[0] = put_step(stages, at, HLO_OP_REDUCE_SCATTER, near, dim, part, at->operands[0]);
        steps[1] = put_step(stages, at, HLO_OP_ALL_REDUCE, far, 0, part, steps[0]);
        steps[2] = put_step(stages, at, HLO_OP_ALL_GATHER, near, dim, at->shape, steps[1]);
        stage.count = 3;
    } else {
        steps[0] = put_step(stages, at, HLO_OP_ALL_REDUCE, near, 0, at->shape, at->operands[0]);
        steps[1] = put_step(stages, at, HLO_OP_ALL_REDUCE, far, 0, at->shape, steps[0]);
        stage.count = 2;
    }
    return stage;
}

static Stage put_stages(Stages *stages, HloInstruction *at, const HloInts *groups, int64_t count, int64_t q) {
    const HloReplicaGroups *near = part_groups(stages, groups, count, q, true),
                           *far = part_groups(stages, groups, count, q, false);
    if (hlo_is(at, HLO_OP_ALL_REDUCE)) return put_sum(stages, at, near, far, q);
    const bool gathers = hlo_is(at, HLO_OP_ALL_GATHER);
    const int64_t dim = HLO_ATTRIBUTES(at, Collective)->dimensions.items[0], p = groups[0].count / q;
    const int64_t given = at->operands[0]->shape->dims[dim];
    const HloShape *between =
        spmd_shape_resized(stages->module->arena, at->shape, dim, gathers ? given * q : given / p);
    Stage stage = {.count = 2};
    stage.steps[0] = put_step(stages, at, at->opcode, gathers ? near : far, dim, between, at->operands[0]);
    stage.steps[1] = put_step(stages, at, at->opcode, gathers ? far : near, dim, at->shape, stage.steps[0]);
    return stage;
}

// Negative if the time of one is not known, or there are none.
static double seconds_of(const Stages *stages, const Stage *stage) {
    const SpmdCosts *costs = stages->costs;
    double all = stage->count ? 0 : -1;
    for (int32_t i = 0; i < stage->count && all >= 0; i++) {
        const double seconds = costs->machine->seconds(costs->session, stage->steps[i]);
        all = seconds < 0 ? -1 : all + seconds;
    }
    return all;
}

// Replaces a collective by the stages that take least time, if that is less than now.
static Stage stage_collective(Stages *stages, HloInstruction *at) {
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(at, Collective);
    const int64_t devices = stages->module->num_partitions;
    const HloInts *groups;
    int64_t count, best = 0;
    const int64_t size = hlo_replica_groups_size(attributes->replica_groups);
    const double whole = stages->costs->machine->seconds(stages->costs->session, at);
    double least = SPMD_PARTS_PAY * whole;
    if (size < 4 || devices > MOST_DEVICES || whole <= 0) return (Stage){0};
    HloStatus status = hlo_replica_groups_expand(attributes->replica_groups, devices, stages->scratch, &groups, &count);
    if (status) {
        hlo_status_free(status);
        return (Stage){0};
    }
    for (int64_t q = 2; q <= size / 2; q++) {
        if (size % q) continue;
        const Stage stage = put_stages(stages, at, groups, count, q);
        const double seconds = seconds_of(stages, &stage);
        if (seconds >= 0 && seconds < least) {
            least = seconds;
            best = q;
        }
        if (stage.count) spmd_remove_unused(stage.steps[stage.count - 1]);
    }
    if (!best) return (Stage){0};
    const Stage stage = put_stages(stages, at, groups, count, best);
    HloInstruction *last = stage.steps[stage.count - 1];
    if (at->sharding) spmd_take_annotations(last, at);
    hlo_instruction_replace_uses(at, last);
    hlo_instruction_remove(at);
    return stage;
}

// A stage may have stages itself.
static void stage_all(Stages *stages, HloInstruction *at, int depth) {
    const Stage stage = stage_collective(stages, at);
    for (int32_t i = 0; i < stage.count && depth < MOST_STAGES; i++) stage_all(stages, stage.steps[i], depth + 1);
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
