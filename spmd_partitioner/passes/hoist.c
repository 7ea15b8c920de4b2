// SPDX-License-Identifier: Apache-2.0
// A collective in a loop body whose operand is an invariant element of the carry gives the same result in every
// iteration. It moves before the loop, and the loop carries its result.
//
//     body     %w = f32[16,64] get-tuple-element(%carry), index=2    the root passes it on
//              %g = f32[64,64] all-gather(%w)
//     becomes  %g = all-gather(%init.2) before the loop; the carry gets %g as its last element
//
// The pass relies on two facts. Collectives here have no side effects, so that running one although the loop has no
// iterations does no harm. All users of the loop and of its parameters take single elements, since rules/flow.c writes
// them so; none of them sees that the tuple got longer. The price is memory: the result lives as long as the loop.
#include <assert.h>

#include "spmd_partitioner/passes/passes.h"

// Longest chain of cheap ops between the carry element and the collective that moves along.
enum { CHAIN = 8 };

// True if carry element `index` leaves the body as it came in.
static bool is_invariant(const HloComputation *body, int64_t index) {
    const HloInstruction *out = body->root->operands[index];
    return hlo_is(out, HLO_OP_GET_TUPLE_ELEMENT) && out->operands[0] == body->parameters.items[0] &&
           HLO_ATTRIBUTES(out, TupleIndex)->index == index;
}

// Ops that cost less to do once than to carry their operand's collective.
static bool is_cheap(const HloInstruction *at) {
    switch (at->opcode) {
        case HLO_OP_RESHAPE:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_CONVERT:
        case HLO_OP_COPY:
        case HLO_OP_SLICE: return true;
        default: return false;
    }
}

// Returns the invariant carry element that `collective` works on, and the chain of ops between, from the collective
// down to the element, nearest first; -1 if there is none.
static int64_t find_chain(const HloInstruction *collective, HloInstruction **chain, int32_t *length) {
    HloInstruction *at = collective->operands[0];
    *length = 0;
    while (is_cheap(at) && *length < CHAIN) {
        chain[(*length)++] = at;
        at = at->operands[0];
    }
    const HloComputation *body = collective->parent;
    bool carry = hlo_is(at, HLO_OP_GET_TUPLE_ELEMENT) && at->operands[0] == body->parameters.items[0];
    if (!carry) return -1;
    int64_t index = HLO_ATTRIBUTES(at, TupleIndex)->index;
    return is_invariant(body, index) ? index : -1;
}

// Copies the chain and the collective before the loop, starting from its initial value.
static HloInstruction *copy_out(HloInstruction *loop, HloInstruction *collective, int64_t index,
                                HloInstruction *const *chain, int32_t length) {
    assert(hlo_is(loop, HLO_OP_WHILE) && index >= 0 && length >= 0);
    HloInstruction *value = loop->operands[0]->operands[index];
    for (int32_t i = length - 1; i >= 0; i--) {
        value = hlo_instruction_clone(loop->parent, chain[i], chain[i]->shape, &value, 1);
        hlo_instruction_move_before(value, loop);
    }
    HloInstruction *copy = hlo_instruction_clone(loop->parent, collective, collective->shape, &value, 1);
    hlo_instruction_move_before(copy, loop);
    return copy;
}

// The loop's carry with one more element.
static const HloShape *longer_tuple(HloArena *arena, const HloShape *tuple, const HloShape *last) {
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, tuple->element_count + 1);
    for (int32_t i = 0; i < tuple->element_count; i++) elements[i] = tuple->elements[i];
    elements[tuple->element_count] = last;
    return hlo_shape_tuple(arena, elements, tuple->element_count + 1);
}

// Lets the loop carry `value` as a last element that it does not change; the body's instruction that reads it.
static HloInstruction *carry_along(HloInstruction *loop, HloInstruction *value) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    HloArena *arena = loop->parent->module->arena;
    HloInstruction *init = loop->operands[0];
    HloTupleIndexAttributes index = {init->shape->element_count};
    const HloShape *shape = longer_tuple(arena, init->shape, value->shape);
    HloInstruction *longer =
        hlo_instruction_new(loop->parent, HLO_OP_TUPLE, shape, init->operands, init->operand_count, NULL, NULL);
    hlo_instruction_move_before(longer, loop);
    hlo_instruction_add_operand(longer, value);
    hlo_instruction_set_operand(loop, 0, longer);
    loop->shape = shape;
    HloComputation *condition = loop->called[0], *body = loop->called[1];
    condition->parameters.items[0]->shape = shape;
    body->parameters.items[0]->shape = shape;
    HloInstruction *read =
        hlo_instruction_new(body, HLO_OP_GET_TUPLE_ELEMENT, value->shape, &body->parameters.items[0], 1, &index, NULL);
    hlo_instruction_move_after(read, body->parameters.items[0]);
    hlo_instruction_add_operand(body->root, read);
    body->root->shape = shape;
    spmd_remove_unused(init);
    return read;
}

bool spmd_loop_may_change(const HloInstruction *loop) {
    const HloInstruction *init = loop->operands[0], *root = loop->called[1]->root;
    return hlo_is(init, HLO_OP_TUPLE) && hlo_is(root, HLO_OP_TUPLE) && loop != loop->parent->root &&
           loop->called[0]->callers.count == 1 && loop->called[1]->callers.count == 1 &&
           loop->called[0]->root != loop->called[0]->parameters.items[0];
}

// Hoists each collective of the body whose operand is invariant. Removing it may remove later instructions too, so the
// walk starts again where the next one was removed. True if there was one.
static bool hoist_from(HloInstruction *loop) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    bool hoisted = false;
    for (HloInstruction *at = loop->called[1]->first, *next; at; at = next) {
        next = at->next;
        HloInstruction *chain[CHAIN];
        int32_t length;
        bool plain = hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE) && !hlo_op_is(at->opcode, HLO_OP_IS_ASYNC_START) &&
                     at->operand_count == 1 && hlo_shape_is_array(at->shape) &&
                     hlo_instruction_frontend_attribute(at, "meshlo.reason");
        int64_t index = plain ? find_chain(at, chain, &length) : -1;
        if (index < 0) continue;
        HloInstruction *value = copy_out(loop, at, index, chain, length);
        HloInstruction *read = carry_along(loop, value);
        hlo_instruction_replace_uses(at, read);
        if (next && next->parent == NULL) next = loop->called[1]->first;
        spmd_remove_unused(at);
        hoisted = true;
    }
    return hoisted;
}

// Inner loops first: what leaves one may leave the next.
bool spmd_hoist_collectives(HloModule *module, HloArena *scratch) {
    int64_t count;
    bool hoisted = false;
    HloComputation **order = hlo_module_post_order(module, scratch, &count);
    for (int64_t c = 0; c < count; c++) {
        for (HloInstruction *at = order[c]->first; at; at = at->next) {
            if (hlo_is(at, HLO_OP_WHILE) && spmd_loop_may_change(at)) hoisted |= hoist_from(at);
        }
    }
    return hoisted;
}
