// SPDX-License-Identifier: Apache-2.0
// Moves reshapes and transposes after elementwise ops: if all array operands of an op are reshaped from equal sizes (or
// transposed alike), the op is done first and its result reshaped. There they can cancel with others.
//
// Moving a rearrangement is worthwhile only if one of the original ones disappears (its only user is this op); else the
// program would rearrange as often as before. Sharded instructions stay where the user put them: the partitioner reads
// the sharding at that very value.
//
//   add(f32[12] reshape(f32[3,4] a), f32[12] reshape(f32[3,4] b))   ->   f32[12] reshape(f32[3,4] add(a, b))
#include "hlo/pass/support.h"

// True if `a` and `b` rearrange in the same way, from the same sizes.
static bool rearrange_alike(const HloInstruction *a, const HloInstruction *b) {
    if (a->opcode != b->opcode) return false;
    if (!hlo_ints_equal(hlo_shape_dims(a->operands[0]->shape), hlo_shape_dims(b->operands[0]->shape))) return false;
    return a->opcode == HLO_OP_RESHAPE || hlo_attributes_equal(HLO_FAMILY_Dimensions, a->attributes, b->attributes);
}

// The first operand that rearranges, if all others rearrange alike or repeat a scalar; NULL otherwise.
static const HloInstruction *common_rearrangement(const HloInstruction *i) {
    const HloInstruction *first = NULL;
    bool saves = false;
    for (int64_t k = 0; k < i->operand_count; k++) {
        const HloInstruction *operand = i->operands[k];
        if (hlo_pass_repeats_scalar(operand) || operand->shape->rank == 0) continue;
        bool rearranges = operand->opcode == HLO_OP_RESHAPE || operand->opcode == HLO_OP_TRANSPOSE;
        if (!rearranges || operand->sharding || operand->control_predecessors.count) return NULL;
        if (hlo_shape_is_dynamic(operand->shape) || hlo_shape_is_dynamic(operand->operands[0]->shape)) return NULL;
        if (first && !rearrange_alike(first, operand)) return NULL;
        if (!first) first = operand;
        saves |= operand->users.count == 1;
    }
    return saves ? first : NULL;
}

// Does the op on the values before the rearrangements, with those sizes, and rearranges its result. The clone keeps
// attributes and metadata; repeated scalars are repeated to the new sizes.
static bool move(HloInstruction *i, const HloPassEnv *env) {
    if (!hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE) || i->opcode == HLO_OP_COPY || i->sharding) return false;
    if (i->shape->rank == 0 || hlo_shape_is_dynamic(i->shape) || !hlo_pass_may_replace(i)) return false;
    const HloInstruction *pattern = common_rearrangement(i);
    if (!pattern) return false;
    HloArena *arena = i->parent->module->arena;
    HloInts dims = hlo_shape_dims(pattern->operands[0]->shape);
    HloInstruction **operands = HLO_ARENA_NEW(env->scratch, HloInstruction *, i->operand_count);
    for (int64_t k = 0; k < i->operand_count; k++) {
        HloInstruction *operand = i->operands[k];
        if (operand->shape->rank == 0)
            operands[k] = operand;
        else if (!hlo_pass_repeats_scalar(operand))
            operands[k] = operand->operands[0];
        else
            operands[k] = hlo_pass_broadcast(i, operand->operands[0], dims, (HloInts){NULL, 0});
    }
    const HloShape *shape = hlo_shape_array(arena, i->shape->type, dims.items, dims.count);
    if (i->shape->layout) shape = hlo_shape_with_default_layout(arena, shape);
    HloInstruction *inner = hlo_instruction_clone(i->parent, i, shape, operands, i->operand_count);
    HloInstruction *outer = pattern->opcode == HLO_OP_RESHAPE
                                ? hlo_pass_reshape(i, inner, hlo_shape_dims(i->shape))
                                : hlo_pass_transpose(i, inner, HLO_ATTRIBUTES(pattern, Dimensions)->dimensions);
    return hlo_pass_replace(i, outer);
}

HloStatus hlo_pass_reshape_mover(HloModule *module, const HloPassEnv *env, bool *changed) {
    return hlo_pass_each(module, env, move, changed);
}
