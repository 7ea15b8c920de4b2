// SPDX-License-Identifier: Apache-2.0
// A loop that stacks up what it has sent stacks up what the devices have instead, and sends the stack once, after the
// loop: the losses of the steps of a loop, what the last stage of a pipeline makes of each micro-batch.
//
//     body     %s = f32[8,16] get-tuple-element(%carry), index=1    nothing else reads it
//              %b = f32[1,16] collective-broadcast(%x)              or an all-reduce that adds
//              the root has  %u = f32[8,16] dynamic-update-slice(%s, %b, %i, 0)  as element 1
//     becomes  dynamic-update-slice(%s, %x, %i, 0); after the loop a collective-broadcast of the element, or of the
//              slice of it that is used
//
// Between the collective and the stack there may be ops that are linear in it. All devices write to the same place, and
// what the loop does not write must be the same afterwards: a stack that is added up begins with zeros. The stack is
// sent once in place of its parts. That sends less where the loop writes some places several times, or some that
// nothing reads. Otherwise it saves messages, but large ones may as well run beside the work of the loop.
#include <assert.h>

#include "hlo/analysis/loop.h"
#include "spmd_partitioner/passes/passes.h"

enum {
    CHAIN = 8,       // ops between a collective and the stack, at most
    MOST_OPS = 256,  // that are followed to see what an index is made of
};

// One element of a loop's tuple, the stack.
typedef struct Stack {
    HloInstruction *loop;
    int64_t index;
    HloInstruction *sent;    // the collective in the body
    HloInstruction *result;  // after the loop, what is sent in its place: the element, or the slice of it that is used
} Stack;

// The op that `at` is made of, if sending that or sending `at` is the same.
static HloInstruction *passed_operand(const HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_BROADCAST)) return spmd_linear_operand(at);
    return hlo_shape_elements(at->shape) == hlo_shape_elements(at->operands[0]->shape) ? at->operands[0] : NULL;
}

// The collective that an update of the stack comes from, which nothing else uses; NULL if there is none.
static HloInstruction *sent_of(HloInstruction *update) {
    HloInstruction *at = update;
    for (int32_t i = 0; i < CHAIN && at && at->users.count == 1; i++, at = passed_operand(at)) {
        const bool adds = hlo_is(at, HLO_OP_ALL_REDUCE);
        if (!adds && !hlo_is(at, HLO_OP_COLLECTIVE_BROADCAST)) continue;
        const bool plain = hlo_shape_is_array(at->shape) && (!adds || spmd_adds(at->called[0])) && spmd_may_replace(at);
        return plain ? at : NULL;
    }
    return NULL;
}

// Ops whose results may differ between devices although their operands do not, or that are not looked into.
enum {
    MAY_DIFFER = HLO_OP_IS_CALLS | HLO_OP_IS_COLLECTIVE | HLO_OP_IS_SIDE_EFFECT | HLO_OP_IS_MAY_HAVE_EFFECT |
                 HLO_OP_IS_NONDETERMINISTIC | HLO_OP_IS_ASYNC_START | HLO_OP_IS_ASYNC_DONE
};

// Whether a value in the body of the loop, or before it, is the same on all devices: it is made of constants and of
// what the loop counts by.
static bool is_same_everywhere(const HloInstruction *loop, const HloInstruction *at, int32_t *budget) {
    if ((*budget)-- <= 0) return false;
    if (hlo_is(at, HLO_OP_GET_TUPLE_ELEMENT)) {
        if (at->operands[0] != loop->called[1]->parameters.items[0]) return false;
        const int64_t index = HLO_ATTRIBUTES(at, TupleIndex)->index;
        HloCountedLoop counted;
        if (hlo_counted_loop(loop, &counted) && counted.index == index) return true;
        return hlo_loop_element_is_invariant(loop, index) &&
               is_same_everywhere(loop, loop->operands[0]->operands[index], budget);
    }
    if (hlo_is(at, HLO_OP_PARAMETER) || hlo_is(at, HLO_OP_PARTITION_ID) || hlo_is(at, HLO_OP_REPLICA_ID)) return false;
    for (int32_t i = 0; i < at->operand_count; i++)
        if (!is_same_everywhere(loop, at->operands[i], budget)) return false;
    return !hlo_op_is(at->opcode, MAY_DIFFER);
}

// Whether all devices write to the same place.
static bool writes_one_place(const HloInstruction *loop, const HloInstruction *write) {
    int32_t budget = MOST_OPS;
    for (int32_t i = 2; i < write->operand_count; i++)
        if (!is_same_everywhere(loop, write->operands[i], &budget)) return false;
    return true;
}

// Whether the loop only writes the element, by one dynamic-update-slice; sets what was sent to be written.
static bool is_stack(Stack *stack) {
    const HloInstruction *root = stack->loop->called[1]->root, *write = root->operands[stack->index];
    const HloInstruction *read = spmd_only_read(stack->loop->called[1]->parameters.items[0], stack->index);
    const bool writes = hlo_is(write, HLO_OP_DYNAMIC_UPDATE_SLICE) && write->operands[0] == read;
    if (!writes || read->users.count != 1 || write->users.count != 1) return false;
    int32_t places = 0;
    for (int32_t i = 0; i < root->operand_count; i++) places += root->operands[i] == write;
    if (places != 1 || !spmd_is_unread(stack->loop->called[0]->parameters.items[0], stack->index)) return false;
    if (!writes_one_place(stack->loop, write)) return false;
    stack->sent = sent_of(write->operands[1]);
    return stack->sent != NULL;
}

// Whether what the loop does not write stays the same when the stack is sent. All devices begin with the same constant.
static bool may_send_start(const Stack *stack) {
    const HloInstruction *start = stack->loop->operands[0]->operands[stack->index];
    if (hlo_is(stack->sent, HLO_OP_ALL_REDUCE)) return spmd_is_zero(start);
    return hlo_is(hlo_is(start, HLO_OP_BROADCAST) ? start->operands[0] : start, HLO_OP_CONSTANT);
}

static bool pays(const Stack *stack, int64_t most) {
    const int64_t trips = hlo_trip_count(stack->loop);
    const double once = (double)hlo_shape_bytes(stack->result->shape);
    if (trips <= 1 || once > (double)most) return false;
    const double often = (double)trips * (double)hlo_shape_bytes(stack->sent->shape);
    return once < often || (once == often && once <= SPMD_SMALL_BYTES);
}

// Whether the stack can be sent after the loop, and is worth it.
static bool can_wait(Stack *stack, int64_t most) {
    if (!is_stack(stack) || !may_send_start(stack)) return false;
    stack->result = spmd_only_read(stack->loop, stack->index);
    if (!stack->result) return false;
    const bool sliced = stack->result->users.count == 1 && hlo_is(stack->result->users.items[0], HLO_OP_SLICE);
    if (sliced && !hlo_instruction_is_root(stack->result)) stack->result = stack->result->users.items[0];
    return pays(stack, most);
}

static void wait_for(const Stack *stack) {
    HloInstruction *result = stack->result, *operand = stack->sent->operands[0];
    HloInstruction *parts = hlo_instruction_new(result->parent, result->opcode, result->shape, result->operands,
                                                result->operand_count, result->attributes, NULL);
    HloInstruction *whole = spmd_clone_sum(stack->sent, parts, result->shape);
    hlo_instruction_move_after(parts, result);
    hlo_instruction_move_after(whole, parts);
    const char *reason = hlo_instruction_frontend_attribute(stack->sent, "meshlo.reason");
    assert(reason); /* spmd_may_replace() has looked */
    hlo_instruction_set_frontend_attribute(
        whole, "meshlo.reason",
        hlo_arena_format(whole->parent->module->arena, "%s; a loop stacks this up, and the stack is sent once",
                         reason));
    spmd_take_annotations(whole, result);  // which a result of the program has
    hlo_instruction_replace_uses(result, whole);
    hlo_instruction_remove(result);
    hlo_instruction_replace_uses(stack->sent, operand);
    hlo_instruction_remove(stack->sent);
}

// Inner loops first: a stack that leaves one may be written into that of the next.
bool spmd_stack_parts(HloModule *module, int64_t most, HloArena *scratch) {
    int64_t count;
    bool any = false;
    HloComputation **order = hlo_module_post_order(module, scratch, &count);
    for (int64_t c = 0; c < count; c++) {
        for (HloInstruction *at = order[c]->first; at; at = at->next) {
            if (!hlo_is(at, HLO_OP_WHILE) || !spmd_loop_may_change(at)) continue;
            const HloInstruction *root = at->called[1]->root;
            for (int32_t i = 0; i < root->operand_count; i++) {
                Stack stack = {.loop = at, .index = i};
                if (!hlo_is(root->operands[i], HLO_OP_DYNAMIC_UPDATE_SLICE) || !can_wait(&stack, most)) continue;
                wait_for(&stack);
                any = true;
            }
        }
    }
    return any;
}
