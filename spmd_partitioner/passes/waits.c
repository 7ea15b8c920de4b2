// SPDX-License-Identifier: Apache-2.0
// Whether something waits for a transfer: weights can be gathered ahead of time, and gradients only leave.
#include <assert.h>

#include "hlo/analysis/contents.h"
#include "hlo/analysis/loop.h"
#include "spmd_partitioner/passes/passes.h"

enum { MOST_OPS = 256 };  // that are followed

// Whether a loop's body gets `element` as it was before: it does not change, or it is the counter.
static bool is_known_ahead(const HloInstruction *element) {
    const HloComputation *body = element->parent;
    const HloInstruction *source = element->operands[0];
    if (!hlo_is(source, HLO_OP_PARAMETER)) return false;
    if (body == body->module->entry) return true;
    if (body->callers.count != 1 || !hlo_is(body->callers.items[0], HLO_OP_WHILE)) return false;
    const HloInstruction *loop = body->callers.items[0];
    const int64_t index = HLO_ATTRIBUTES(element, TupleIndex)->index;
    HloCountedLoop counted;
    return hlo_loop_element_is_invariant(loop, index) || (hlo_counted_loop(loop, &counted) && counted.index == index);
}

// Whether an array depends on what the program has computed just before, so that it cannot be sent ahead of time.
static bool comes_late(const HloInstruction *at, int32_t *budget) {
    if ((*budget)-- <= 0) return false;
    if (hlo_is(at, HLO_OP_GET_TUPLE_ELEMENT) && hlo_passed_element(at) != at)
        return comes_late(hlo_passed_element(at), budget);
    if (hlo_is(at, HLO_OP_GET_TUPLE_ELEMENT) && hlo_is(at->operands[0], HLO_OP_PARAMETER)) return !is_known_ahead(at);
    if (hlo_is(at, HLO_OP_DOT) || hlo_is(at, HLO_OP_CONVOLUTION) || hlo_is(at, HLO_OP_CUSTOM_CALL) ||
        hlo_is(at, HLO_OP_WHILE) || hlo_is(at, HLO_OP_ALL_REDUCE) || hlo_is(at, HLO_OP_REDUCE_SCATTER))
        return true;
    for (int32_t i = 0; i < at->operand_count; i++)
        if (comes_late(at->operands[i], budget)) return true;
    return false;
}

static bool only_leaves(const HloInstruction *at, int32_t *budget);

// Whether the next iteration of a loop only hands on what this one leaves in a tuple.
static bool is_handed_on(const HloInstruction *tuple, const HloInstruction *value, int32_t *budget) {
    const HloComputation *body = tuple->parent;
    if (body->callers.count != 1 || !hlo_is(body->callers.items[0], HLO_OP_WHILE)) return true;
    const HloInstruction *carried = body->parameters.items[0];
    for (int64_t i = 0; i < carried->users.count; i++) {
        const HloInstruction *element = carried->users.items[i];
        if (!hlo_is(element, HLO_OP_GET_TUPLE_ELEMENT)) return false;
        if (tuple->operands[HLO_ATTRIBUTES(element, TupleIndex)->index] == value && !only_leaves(element, budget))
            return false;
    }
    return true;
}

// Whether everything that is made of an array leaves the computation: what finishes it has the rest of the program's
// time. What a loop adds up is followed around the loop until the budget ends.
static bool only_leaves(const HloInstruction *at, int32_t *budget) {
    if ((*budget)-- <= 0) return true;
    if (hlo_instruction_is_root(at)) return true;
    for (int64_t i = 0; i < at->users.count; i++) {
        const HloInstruction *user = at->users.items[i];
        const bool passes = hlo_op_is(user->opcode, HLO_OP_IS_REARRANGES | HLO_OP_IS_ELEMENTWISE) ||
                            hlo_is(user, HLO_OP_TUPLE) || hlo_is(user, HLO_OP_DYNAMIC_UPDATE_SLICE);
        if (!passes || !only_leaves(user, budget)) return false;
        if (hlo_is(user, HLO_OP_TUPLE) && hlo_instruction_is_root(user) && !is_handed_on(user, at, budget))
            return false;
    }
    return true;
}

bool spmd_comes_late(const HloInstruction *array) {
    assert(array->parent);
    int32_t budget = MOST_OPS;
    return comes_late(array, &budget);
}

bool spmd_result_leaves(const HloInstruction *array) {
    assert(array->parent);
    int32_t budget = MOST_OPS;
    return only_leaves(array, &budget);
}
