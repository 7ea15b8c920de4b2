// SPDX-License-Identifier: Apache-2.0
// Joins all-reduces over the same groups into one over several arrays, since each collective pays its latency once. The
// list is walked once; bit sets record what each instruction depends on, so that no group waits for itself.
//
//     %a = f32[8] all-reduce(%x)                %t = (f32[8], f32[4]) all-reduce(%x, %y)
//     %b = f32[4] all-reduce(%y)     becomes    %a = get-tuple-element(%t), index=0
//     (%y does not depend on %a)                %b = get-tuple-element(%t), index=1
//
// A group's needs are the groups that its members depend on. At most 64 are filled in one computation, each up to a
// limit in bytes; an all-reduce that finds neither a group nor room for a new one stays as it is. Afterwards the list
// is sorted again, since a joined op comes after its last operand.
#include <assert.h>

#include "spmd_partitioner/passes/passes.h"

// Groups that are filled at the same time; each is a bit in the sets of what an instruction depends on.
enum { GROUPS = 64 };

typedef struct Group {
    HloInstructionVector members;
    int64_t bytes;
    uint64_t needs;  // groups that members depend on
} Group;

typedef struct Combiner {
    HloComputation *computation;
    HloArena *scratch;
    int64_t limit;
    Group groups[GROUPS];
    int32_t count;
    uint64_t *needs;  // by instruction id
} Combiner;

// Everything that the groups in `set` depend on, directly or not.
static uint64_t closure(const Combiner *combiner, uint64_t set) {
    for (uint64_t before = 0; before != set;) {
        before = set;
        for (int32_t g = 0; g < combiner->count; g++) {
            if (set >> g & 1) set |= combiner->groups[g].needs;
        }
    }
    return set;
}

// One all-reduce can do both: the same groups, the same reducer, the same type.
static bool same_kind(const HloInstruction *a, const HloInstruction *b) {
    const HloCollectiveAttributes *x = HLO_ATTRIBUTES(a, Collective), *y = HLO_ATTRIBUTES(b, Collective);
    return a->shape->type == b->shape->type && a->called[0] == b->called[0] &&
           x->use_global_device_ids == y->use_global_device_ids && x->constrain_layout == y->constrain_layout &&
           (x->channel_id != 0) == (y->channel_id != 0) &&
           hlo_replica_groups_equal(x->replica_groups, y->replica_groups);
}

// Puts an all-reduce into a group that it neither depends on nor would tie into a knot.
// First fit, in the order in which groups were opened.
static void join_group(Combiner *combiner, HloInstruction *at, uint64_t needs) {
    assert(at->parent);
    int64_t bytes = hlo_shape_bytes(at->shape);
    int32_t chosen = -1;
    for (int32_t g = 0; g < combiner->count && chosen < 0; g++) {
        Group *group = &combiner->groups[g];
        bool fits = group->bytes + bytes <= combiner->limit && same_kind(group->members.items[0], at);
        if (fits && !(needs >> g & 1)) chosen = g;
    }
    if (chosen < 0) {
        if (combiner->count == GROUPS) return;
        chosen = combiner->count++;
        combiner->groups[chosen] = (Group){0};
    }
    Group *group = &combiner->groups[chosen];
    hlo_vector_push(combiner->scratch, &group->members, at);
    group->bytes += bytes;
    group->needs |= needs;
    combiner->needs[at->id] |= UINT64_C(1) << chosen;
}

// One all-reduce of a tuple instead of the members.
static void emit_group(Combiner *combiner, const Group *group) {
    int64_t count = group->members.count;
    if (count < 2) return;
    HloInstruction *first = group->members.items[0];
    HloArena *arena = combiner->computation->module->arena;
    HloInstruction **operands = HLO_ARENA_NEW(combiner->scratch, HloInstruction *, count);
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, count);
    for (int64_t i = 0; i < count; i++) {
        operands[i] = group->members.items[i]->operands[0];
        shapes[i] = group->members.items[i]->shape;
    }
    HloInstruction *all =
        hlo_instruction_new(combiner->computation, HLO_OP_ALL_REDUCE, hlo_shape_tuple(arena, shapes, count), operands,
                            count, first->attributes, first->name);
    hlo_instruction_copy_annotations(all, first);
    all->sharding = NULL;
    hlo_instruction_set_called(all, first->called, 1);
    for (int64_t i = 0; i < count; i++) {
        HloInstruction *member = group->members.items[i];
        spmd_join_reasons(all, member);
        HloTupleIndexAttributes index = {i};
        HloInstruction *part =
            hlo_instruction_new(combiner->computation, HLO_OP_GET_TUPLE_ELEMENT, member->shape, &all, 1, &index, NULL);
        hlo_instruction_replace_uses(member, part);
        hlo_instruction_remove(member);
    }
}

// Only what the partitioner made (it has a reason): the program's own collectives stay as they were written.
static bool can_join(const HloInstruction *at) {
    return hlo_is(at, HLO_OP_ALL_REDUCE) && at->operand_count == 1 && hlo_shape_is_array(at->shape) &&
           at != at->parent->root && at->called_count == 1 && !at->control_predecessors.count &&
           !at->control_successors.count && hlo_instruction_frontend_attribute(at, "meshlo.reason");
}

// `needs` of an instruction are the groups that it depends on, through operands and through members of groups that
// those depend on. An all-reduce may join a group that it does not need.
static void combine(HloComputation *computation, HloArena *scratch, int64_t limit) {
    assert(limit >= 0);
    Combiner *combiner = HLO_ARENA_NEW(scratch, Combiner, 1);
    *combiner = (Combiner){.computation = computation, .scratch = scratch, .limit = limit};
    combiner->needs = HLO_ARENA_NEW(scratch, uint64_t, computation->module->instruction_limit);
    for (HloInstruction *at = computation->first; at; at = at->next) {
        uint64_t needs = 0;
        for (int32_t i = 0; i < at->operand_count; i++) needs |= combiner->needs[at->operands[i]->id];
        for (int64_t i = 0; i < at->control_predecessors.count; i++) {
            needs |= combiner->needs[at->control_predecessors.items[i]->id];
        }
        needs = closure(combiner, needs);
        combiner->needs[at->id] = needs;
        if (can_join(at) && hlo_shape_bytes(at->shape) <= limit) join_group(combiner, at, needs);
    }
    bool changed = false;
    for (int32_t g = 0; g < combiner->count; g++) {
        emit_group(combiner, &combiner->groups[g]);
        changed |= combiner->groups[g].members.count > 1;
    }
    if (changed) hlo_computation_sort(computation);
}

// Computations with fewer than two candidates are not even measured.
void spmd_combine_all_reduces(HloModule *module, HloArena *scratch, int64_t limit) {
    int64_t count = module->computations.count;
    for (int64_t c = 0; c < count; c++) {
        HloComputation *computation = module->computations.items[c];
        int64_t candidates = 0;
        for (HloInstruction *at = computation->first; at; at = at->next) candidates += can_join(at);
        if (candidates > 1) combine(computation, scratch, limit);
    }
}
