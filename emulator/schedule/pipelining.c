// SPDX-License-Identifier: Apache-2.0
// Finds the transfers that may cross the boundary between two iterations of a loop, by what they depend on and by what
// depends on them.
#include "emulator/schedule/pipelining.h"

#include <assert.h>

#include "emulator/layout/layout.h"
#include "emulator/op_class.h"
#include "hlo/analysis/contents.h"
#include "hlo/analysis/loop.h"
#include "hlo/base/map.h"
#include "hlo/base/vector.h"

// Instructions between a transfer and the state of the loop that are looked through.
#define MOST_INSTRUCTIONS 256
// Instructions between a transfer and where its result is stored, at most.
#define MOST_STEPS 16

// Whether an iteration knows this value of the loop's state one iteration ahead.
static bool is_known_ahead(const HloInstruction *loop, const HloInstruction *value) {
    if (!hlo_is(value, HLO_OP_GET_TUPLE_ELEMENT) || !hlo_is(value->operands[0], HLO_OP_PARAMETER)) return false;
    const int64_t index = HLO_ATTRIBUTES(value, TupleIndex)->index;
    HloCountedLoop counted;
    return hlo_loop_element_is_invariant(loop, index) || (hlo_counted_loop(loop, &counted) && counted.index == index);
}

// Whether an instruction may be computed in another iteration along with the transfer. A transfer that it waits for
// starts one more iteration ahead.
static bool may_move(const HloInstruction *instruction) {
    const HloInstruction *start = instruction;
    while (emu_op_class(start->opcode) == EMU_OP_DONE && start->operand_count == 1) start = start->operands[0];
    if (emu_op_class(start->opcode) == EMU_OP_COLLECTIVE_START) return start->control_predecessors.count == 0;
    if (hlo_op_is(instruction->opcode, HLO_OP_IS_COLLECTIVE | HLO_OP_IS_ASYNC_START | HLO_OP_IS_SIDE_EFFECT))
        return false;
    const EmuOpClass op_class = emu_op_class(instruction->opcode);
    return op_class != EMU_OP_CONTROL && op_class != EMU_OP_DONE && !hlo_is(instruction, HLO_OP_PARAMETER) &&
           !hlo_is(instruction, HLO_OP_CUSTOM_CALL);
}

bool emu_starts_early(HloArena *arena, const HloInstruction *start, const HloInstruction *loop) {
    assert(arena && start && hlo_is(loop, HLO_OP_WHILE));
    const HloArenaMark mark = hlo_arena_mark(arena);
    HLO_VECTOR(const HloInstruction *) pending = {0};
    HloIntMap seen = {0};
    int64_t count = 0;
    bool early = start->control_predecessors.count == 0;
    hlo_vector_push(arena, &pending, start);
    while (pending.count && early) {
        const HloInstruction *at = pending.items[--pending.count];
        for (int32_t i = 0; i < at->operand_count && early; i++) {
            const HloInstruction *operand = at->operands[i];
            if (hlo_is(operand, HLO_OP_GET_TUPLE_ELEMENT)) operand = hlo_passed_element(operand);
            if (is_known_ahead(loop, operand) || hlo_is(operand, HLO_OP_CONSTANT)) continue;
            if (hlo_int_map_find(&seen, (uint64_t)operand->id)) continue;
            hlo_int_map_set(arena, &seen, (uint64_t)operand->id, 1);
            early = may_move(operand) && ++count <= MOST_INSTRUCTIONS;
            hlo_vector_push(arena, &pending, operand);
        }
    }
    hlo_arena_reset(arena, mark);
    return early;
}

int64_t emu_crossing_bytes(const EmuChip *chip, const HloInstruction *start) {
    const int64_t leaves = hlo_shape_leaf_count(start->shape);
    int64_t most = 0;
    for (int64_t i = 0; i < leaves; i++) {
        const int64_t bytes = emu_hbm_bytes(chip, hlo_shape_leaf(start->shape, i));
        if (bytes > most) most = bytes;
    }
    return most;
}

// The only user of a value, also through views and the done of a start; NULL if there are several or none.
static const HloInstruction *only_user(const HloInstruction *value) {
    while (value->users.count == 1) {
        const HloInstruction *user = value->users.items[0];
        if (!emu_is_view(user) && emu_op_class(user->opcode) != EMU_OP_DONE) return user;
        value = user;
    }
    return NULL;
}

// Whether `at` makes an element of the loop's next state of the element before, `state`, which nothing else reads.
static bool changes_state(const HloInstruction *at, const HloInstruction *state, const HloInstruction *root) {
    return hlo_is(state, HLO_OP_GET_TUPLE_ELEMENT) && hlo_is(state->operands[0], HLO_OP_PARAMETER) &&
           state->users.count == 1 && only_user(at) == root;
}

// Whether all that is made of a value is stored in the state of the loop or added to it.
static bool is_only_stored(const HloInstruction *value, const HloInstruction *root) {
    for (int i = 0; i < MOST_STEPS && value->users.count == 1; i++) {
        const HloInstruction *user = value->users.items[0];
        const bool first = user->operand_count == 2 && user->operands[0] == value;
        if (hlo_is(user, HLO_OP_DYNAMIC_UPDATE_SLICE))
            return user->operands[1] == value && changes_state(user, user->operands[0], root);
        if (hlo_is(user, HLO_OP_ADD) && changes_state(user, user->operands[first], root)) return true;
        if (user->operand_count != 1 || (!may_move(user) && emu_op_class(user->opcode) != EMU_OP_DONE)) return false;
        value = user;
        if (!hlo_shape_is_tuple(value->shape)) continue;
        for (int64_t u = 0; u < value->users.count; u++)
            if (!hlo_is(value->users.items[u], HLO_OP_GET_TUPLE_ELEMENT) ||
                !is_only_stored(value->users.items[u], root))
                return false;
        return value->users.count > 0;
    }
    return false;
}

bool emu_ends_late(const HloInstruction *start, const HloInstruction *loop) {
    assert(start && hlo_is(loop, HLO_OP_WHILE));
    const HloInstruction *root = loop->called[1]->root, *inner = emu_synchronous_instruction(start);
    if (!hlo_is(root, HLO_OP_TUPLE)) return false;
    if (hlo_is(inner, HLO_OP_DYNAMIC_UPDATE_SLICE) && start->operand_count > 0)
        return changes_state(start, start->operands[0], root);
    return hlo_op_is(inner->opcode, HLO_OP_IS_COLLECTIVE) && is_only_stored(start, root);
}
