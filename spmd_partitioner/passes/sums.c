// SPDX-License-Identifier: Apache-2.0
// Sums of two arrays that are sums over the same devices: the parts are added first, and one collective finishes both.
// Gradients with respect to what two products read, of which each leaves parts, are the common case.
//
//     %a = f32[16] reduce-scatter(%x)               %p = f32[64] add(%x, %y)
//     %b = f32[16] reduce-scatter(%y)    becomes    %s = f32[16] reduce-scatter(%p)
//     %s = f32[16] add(%a, %b)
//
// Nothing else may use either. Differences are such sums too. The program is walked once, operands first, so that a sum
// of many becomes one collective step by step.
//
// A sum along dimensions of such an array is one of sums, too, and finished when it is smaller. Rows of a sharded table
// that are looked up and added up (an embedding bag, a page table) are the common case:
//
//     %a = f32[1,3,8] reduce-scatter(%x), dimensions={0}    becomes    %p = f32[8,8] reduce(%x, 0), dimensions={1}
//     %s = f32[1,8] reduce(%a, 0), dimensions={1}                      %s = f32[1,8] reduce-scatter(%p), dimensions={0}
#include <assert.h>

#include "hlo/ir/literal.h"

#include "spmd_partitioner/passes/passes.h"

// A collective that finishes a sum for one user.
static bool finishes_sum(const HloInstruction *at) {
    const bool kind = hlo_is(at, HLO_OP_ALL_REDUCE) || hlo_is(at, HLO_OP_REDUCE_SCATTER);
    return kind && hlo_shape_is_array(at->shape) && at->users.count == 1 && spmd_may_replace(at) &&
           spmd_adds(at->called[0]);
}

// Whether one collective can finish both.
static bool are_alike(const HloInstruction *a, const HloInstruction *b) {
    const SpmdExchange x = spmd_exchange_of(a), y = spmd_exchange_of(b);
    return a != b && a->opcode == b->opcode &&
           hlo_shape_equal(a->operands[0]->shape, b->operands[0]->shape, HLO_COMPARE_IGNORE_LAYOUT) &&
           hlo_attributes_equal(HLO_FAMILY_Collective, &x, &y);
}

// Replaces the sum `at` of two collectives by the collective of a sum, which gets its annotations. Returns that sum,
// which may be one of collectives again.
static HloInstruction *join(HloInstruction *at) {
    HloInstruction *a = at->operands[0], *b = at->operands[1];
    HloInstruction *operands[2] = {a->operands[0], b->operands[0]};
    // A device's parts are no array of the program: its annotations go to the finished sum.
    HloInstruction *parts =
        hlo_instruction_new(at->parent, at->opcode, operands[0]->shape, operands, 2, at->attributes, NULL);
    parts->metadata = at->metadata;
    HloInstruction *whole = hlo_instruction_clone(at->parent, a, at->shape, &parts, 1);
    hlo_instruction_move_before(parts, at);
    hlo_instruction_move_before(whole, at);
    spmd_join_reasons(whole, b);
    spmd_take_annotations(whole, at);
    hlo_instruction_replace_uses(at, whole);
    hlo_instruction_remove(at);
    hlo_instruction_remove(a);
    hlo_instruction_remove(b);
    return parts;
}

// Whether `at` adds up, along other dimensions than that of a reduce-scatter, what a collective has added up.
static bool adds_up_sum(const HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_REDUCE) || at->operand_count != 2 || !finishes_sum(at->operands[0])) return false;
    const HloInstruction *sum = at->operands[0], *init = at->operands[1];
    const bool from_zero = hlo_is(init, HLO_OP_CONSTANT) && hlo_literal_is_zero(hlo_constant_literal(init));
    if (!from_zero || !spmd_adds(at->called[0]) || !hlo_shape_elements(sum->shape)) return false;
    return hlo_is(sum, HLO_OP_ALL_REDUCE) || !hlo_ints_contain(HLO_ATTRIBUTES(at, Dimensions)->dimensions,
                                                               HLO_ATTRIBUTES(sum, Collective)->dimensions.items[0]);
}

// The collective's attributes once the dimensions of `reduce` are gone.
static HloCollectiveAttributes without_reduced(const HloInstruction *sum, const HloInstruction *reduce) {
    HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(sum, Collective);
    const HloInts reduced = HLO_ATTRIBUTES(reduce, Dimensions)->dimensions;
    if (!hlo_is(sum, HLO_OP_REDUCE_SCATTER)) return attributes;
    int64_t dim = attributes.dimensions.items[0];
    for (int64_t i = 0; i < reduced.count; i++) dim -= reduced.items[i] < attributes.dimensions.items[0];
    attributes.dimensions = hlo_ints(sum->parent->module->arena, &dim, 1);
    return attributes;
}

// Replaces the sum `at` along dimensions of a collective's result by the collective of such sums, which gets its
// annotations. Returns those sums: they may be of a collective's result again.
static HloInstruction *finish_later(HloInstruction *at) {
    HloInstruction *sum = at->operands[0], *operands[2] = {sum->operands[0], at->operands[1]};
    const HloShape *whole = operands[0]->shape;
    HloArena *arena = at->parent->module->arena;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, whole->rank), rank = 0;
    for (int32_t d = 0; d < whole->rank; d++)
        if (!hlo_ints_contain(HLO_ATTRIBUTES(at, Dimensions)->dimensions, d)) dims[rank++] = whole->dims[d];
    HloInstruction *parts =
        hlo_instruction_clone(at->parent, at, hlo_shape_array(arena, whole->type, dims, rank), operands, 2);
    parts->sharding = NULL;
    parts->frontend_attributes = (HloKeyValues){NULL, 0};
    HloInstruction *made = hlo_instruction_clone(at->parent, sum, at->shape, &parts, 1);
    const HloCollectiveAttributes attributes = without_reduced(sum, at);
    hlo_instruction_set_attributes(made, &attributes);
    hlo_instruction_move_before(parts, at);
    hlo_instruction_move_before(made, at);
    spmd_take_annotations(made, at);
    hlo_instruction_replace_uses(at, made);
    hlo_instruction_remove(at);
    hlo_instruction_remove(sum);
    return parts;
}

void spmd_join_sums(HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            const bool adds = hlo_is(at, HLO_OP_ADD) || hlo_is(at, HLO_OP_SUBTRACT);
            if (at->control_predecessors.count || at->control_successors.count) continue;
            if (adds_up_sum(at))
                next = finish_later(at);
            else if (adds && finishes_sum(at->operands[0]) && finishes_sum(at->operands[1]) &&
                     are_alike(at->operands[0], at->operands[1]))
                next = join(at);
        }
    }
}
