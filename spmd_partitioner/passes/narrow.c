// SPDX-License-Identifier: Apache-2.0
// Sends arrays in the narrower of two types. A collective that only moves elements gives the same bits before a
// conversion and after it, so the conversion goes to the side where fewer bytes are sent.
//
//     %w = f32[8,32] convert(bf16[8,32] %p)              %s = bf16[1,32] slice(%p)
//     %s = f32[1,32] slice(%w)                           %h = bf16[1,32] collective-permute(%s)
//     %h = f32[1,32] collective-permute(%s)              %c = f32[1,32] convert(%h)
//
//     %g = f32[64] all-gather(%p)                        %n = bf16[8] convert(%p)
//     %n = bf16[64] convert(%g)                          %g = bf16[64] all-gather(%n)
//
// Between the wide array and the collective there may be ops that move elements, and constants that the narrow type
// can hold (the zeros of a pad). They are copied; the originals are removed unless something else uses them.
#include <assert.h>

#include "spmd_partitioner/passes/passes.h"
#include "spmd_partitioner/rule.h"

enum {
    MOST_OPS = 32,       // copied for one collective
    MOST_ELEMENTS = 64,  // of a constant
};

// The ops between conversions and the collective that they lead to, operands first, with their narrow forms.
typedef struct Chain {
    const HloInstruction *ops[MOST_OPS];
    HloInstruction *narrow[MOST_OPS];
    int32_t count;
    HloType type;  // that all of them are converted from; HLO_INVALID until the first conversion is found
} Chain;

// Whether the first type takes fewer bytes. It must have a zero, for devices that receive nothing, and whole bytes.
static bool is_smaller(HloType narrow, HloType wide) {
    return (hlo_type_info(narrow)->bits >= 8 || narrow == HLO_PRED) && hlo_type_bytes(narrow) < hlo_type_bytes(wide) &&
           spmd_type_has_zero(narrow);
}

// The operands [first, end) of an op that moves their elements; end is 0 for other ops.
static int32_t moved_operands(const HloInstruction *at, int32_t *first) {
    *first = 0;
    switch (at->opcode) {
        case HLO_OP_BROADCAST:
        case HLO_OP_COPY:
        case HLO_OP_DYNAMIC_SLICE:
        case HLO_OP_RESHAPE:
        case HLO_OP_REVERSE:
        case HLO_OP_SLICE:
        case HLO_OP_TRANSPOSE: return 1;
        case HLO_OP_DYNAMIC_UPDATE_SLICE:
        case HLO_OP_PAD: return 2;
        case HLO_OP_CONCATENATE: return at->operand_count;
        case HLO_OP_SELECT: *first = 1; return 3;
        default: return 0;
    }
}

static int32_t position_of(const Chain *chain, const HloInstruction *at) {
    for (int32_t i = 0; i < chain->count; i++)
        if (chain->ops[i] == at) return i;
    return -1;
}

// Appends an op after its operands. False if it is no narrower array in disguise.
static bool collect(Chain *chain, const HloInstruction *at, int32_t depth) {
    if (position_of(chain, at) >= 0) return true;
    if (depth == MOST_OPS || !hlo_shape_is_array(at->shape) || hlo_shape_is_dynamic(at->shape)) return false;
    if (hlo_is(at, HLO_OP_CONVERT)) {
        const HloType from = at->operands[0]->shape->type;
        if (!is_smaller(from, at->shape->type) || (chain->type != HLO_INVALID && chain->type != from)) return false;
        chain->type = from;
    } else if (hlo_is(at, HLO_OP_CONSTANT)) {
        if (hlo_constant_literal(at)->elided || hlo_shape_elements(at->shape) > MOST_ELEMENTS) return false;
    } else {
        int32_t first, end = moved_operands(at, &first);
        if (!end) return false;
        for (int32_t i = first; i < end; i++)
            if (!collect(chain, at->operands[i], depth + 1)) return false;
    }
    if (chain->count == MOST_OPS) return false;
    chain->ops[chain->count++] = at;
    return true;
}

// The literal of a constant in a narrower type; NULL if that does not hold all of its values.
static HloLiteral *narrow_literal(HloArena *arena, const HloInstruction *at, HloType type) {
    const HloLiteral *wide = hlo_constant_literal(at);
    if (hlo_type_is_complex(at->shape->type) || hlo_type_is_complex(type)) return NULL;
    HloLiteral *narrow =
        hlo_literal_in_arena(arena, hlo_shape_with_type(arena, hlo_shape_without_layout(arena, at->shape), type));
    const bool integers = hlo_type_is_integer(at->shape->type) && hlo_type_is_integer(type);
    for (int64_t i = 0, count = hlo_shape_elements(at->shape); i < count; i++) {
        if (integers) {
            const int64_t value = hlo_literal_get_int64(wide, i);
            if (!hlo_type_holds(type, value)) return NULL;
            hlo_literal_set_int64(narrow, i, value);
            continue;
        }
        // Zero and the infinities are what pads and masks have; a negative zero would lose its sign in an integer.
        const double value = hlo_literal_get_double(wide, i);
        const bool plain = value == 0 && !__builtin_signbit(value);
        if (!plain && !(hlo_type_is_float(type) && hlo_type_is_float(at->shape->type))) return NULL;
        hlo_literal_set_double(narrow, i, value);
        const double back = hlo_literal_get_double(narrow, i);
        if (back != value || __builtin_signbit(back) != __builtin_signbit(value)) return NULL;
    }
    return narrow;
}

// Whether the type of the chain holds all of its constants.
static bool constants_fit(const Chain *chain, HloArena *scratch) {
    const HloArenaMark mark = hlo_arena_mark(scratch);
    bool fit = true;
    for (int32_t i = 0; i < chain->count && fit; i++)
        fit = !hlo_is(chain->ops[i], HLO_OP_CONSTANT) || narrow_literal(scratch, chain->ops[i], chain->type);
    hlo_arena_reset(scratch, mark);
    return fit;
}

// The narrow form of an op whose operands have theirs.
static HloInstruction *make_narrow(const Chain *chain, const HloInstruction *at, HloInstruction *before) {
    if (hlo_is(at, HLO_OP_CONVERT)) return at->operands[0];
    HloComputation *computation = before->parent;
    HloArena *arena = computation->module->arena;
    const HloShape *shape = hlo_shape_with_type(arena, at->shape, chain->type);
    HloInstruction *made = NULL;
    if (hlo_is(at, HLO_OP_CONSTANT)) {
        const HloConstantAttributes attributes = {narrow_literal(arena, at, chain->type)};
        made = hlo_instruction_new(computation, HLO_OP_CONSTANT, shape, NULL, 0, &attributes, NULL);
    } else {
        int32_t first, end = moved_operands(at, &first);
        HloInstruction **operands = HLO_ARENA_NEW(arena, HloInstruction *, at->operand_count);
        for (int32_t i = 0; i < at->operand_count; i++) {
            const bool moved = i >= first && i < end;
            operands[i] = moved ? chain->narrow[position_of(chain, at->operands[i])] : at->operands[i];
        }
        made = hlo_instruction_clone(computation, at, shape, operands, at->operand_count);
    }
    hlo_instruction_move_before(made, before);
    return made;
}

// Collectives that move elements and were written by the partitioner.
static bool only_moves(const HloInstruction *at) {
    switch (at->opcode) {
        case HLO_OP_ALL_GATHER:
        case HLO_OP_ALL_TO_ALL:
        case HLO_OP_COLLECTIVE_PERMUTE: break;
        default: return false;
    }
    return hlo_shape_is_array(at->shape) && spmd_may_replace(at);
}

// Moves to `to` what the root of a computation says about the program's results, if `from` is that root.
static void pass_on_root(HloInstruction *to, HloInstruction *from) {
    if (from != from->parent->root) return;
    HloArena *arena = from->parent->module->arena;
    to->sharding = from->sharding;
    to->frontend_attributes = hlo_key_values_without(arena, from->frontend_attributes, "meshlo.re");  // reason, remedy
    hlo_instruction_replace_uses(from, to);
}

// Removes what a copy of the root must not say.
static void forget_root(HloInstruction *at) {
    at->sharding = NULL;
    at->frontend_attributes =
        hlo_key_values_without(at->parent->module->arena, at->frontend_attributes, "meshlo.global_dims");
}

// The collective on a narrower operand.
static HloInstruction *send_narrow(HloInstruction *at, HloInstruction *operand) {
    const HloShape *shape = hlo_shape_with_type(at->parent->module->arena, at->shape, operand->shape->type);
    HloInstruction *sent = hlo_instruction_clone(at->parent, at, shape, &operand, 1);
    forget_root(sent);
    hlo_instruction_move_before(sent, at);
    return sent;
}

// Converts what is sent, just before it is first used: until then other work may run beside the collective.
static void widen_after(HloInstruction *at, HloInstruction *sent) {
    HloInstruction *wide = hlo_instruction_new(at->parent, HLO_OP_CONVERT, at->shape, &sent, 1, NULL, NULL);
    wide->metadata = at->metadata;
    HloInstruction *first = at->next;
    while (first && !hlo_instruction_vector_contains(&at->users, first)) first = first->next;
    if (first) hlo_instruction_move_before(wide, first);
    pass_on_root(wide, at);
    hlo_instruction_replace_uses(at, wide);
    spmd_remove_unused(at);
}

// Sends what a conversion to a wider type is made from; NULL if there is none.
static HloInstruction *narrow_operand(HloInstruction *at, HloArena *scratch) {
    Chain chain = {.type = HLO_INVALID};
    if (!collect(&chain, at->operands[0], 0) || chain.type == HLO_INVALID || !constants_fit(&chain, scratch))
        return NULL;
    for (int32_t i = 0; i < chain.count; i++) chain.narrow[i] = make_narrow(&chain, chain.ops[i], at);
    HloInstruction *sent = send_narrow(at, chain.narrow[chain.count - 1]);
    widen_after(at, sent);
    return sent;
}

// The type that all users of an array convert it to, if it is narrower; HLO_INVALID if they do not.
static HloType converted_type(const HloInstruction *at) {
    if (!at->users.count || at == at->parent->root) return HLO_INVALID;
    const HloType type = at->users.items[0]->shape->type;
    for (int64_t i = 0; i < at->users.count; i++) {
        const HloInstruction *user = at->users.items[i];
        if (!hlo_is(user, HLO_OP_CONVERT) || user->shape->type != type || !is_smaller(type, at->shape->type) ||
            user->control_predecessors.count || user->control_successors.count)
            return HLO_INVALID;
    }
    return type;
}

// Makes the users of `wide`, all of them conversions, use `narrow` instead of their results. The root stays apart: it
// says how the result is sharded.
static void replace_conversions(HloInstruction *wide, HloInstruction *narrow) {
    for (int64_t left = wide->users.count; left > 0; left--) {
        HloInstruction *user = wide->users.items[left - 1], *other = narrow;
        if (user == user->parent->root) {
            other = hlo_instruction_new(user->parent, HLO_OP_COPY, user->shape, &narrow, 1, NULL, NULL);
            other->metadata = user->metadata;
            pass_on_root(other, user);
        }
        hlo_instruction_replace_uses(user, other);
        if (left > 1) hlo_instruction_remove(user);
        if (left == 1) spmd_remove_unused(user);
    }
}

// Sends what all users make of the result if they convert it to one narrower type, after ops that move its elements;
// NULL if they do not.
static HloInstruction *narrow_result(HloInstruction *at) {
    HloInstruction *chain[MOST_OPS], *wide = at;
    int32_t length = 0, first;
    while (length < MOST_OPS && wide->users.count == 1 && wide != wide->parent->root) {
        HloInstruction *user = wide->users.items[0];
        if (moved_operands(user, &first) != 1 || user->operands[0] != wide || hlo_is(user, HLO_OP_BROADCAST)) break;
        chain[length++] = wide = user;
    }
    const HloType type = converted_type(wide);
    if (type == HLO_INVALID) return NULL;
    HloArena *arena = at->parent->module->arena;
    HloInstruction *operand = at->operands[0];
    const HloShape *shape = hlo_shape_with_type(arena, operand->shape, type);
    HloInstruction *narrow = hlo_instruction_clone(at->parent, wide->users.items[0], shape, &operand, 1);
    forget_root(narrow);
    hlo_instruction_move_before(narrow, at);
    HloInstruction *sent = send_narrow(at, narrow);
    narrow = sent;
    for (int32_t i = 0; i < length; i++) {
        HloInstruction **operands =
            hlo_arena_copy(arena, chain[i]->operands, (size_t)chain[i]->operand_count * sizeof(*operands));
        operands[0] = narrow;
        narrow = hlo_instruction_clone(at->parent, chain[i], hlo_shape_with_type(arena, chain[i]->shape, type),
                                       operands, chain[i]->operand_count);
        hlo_instruction_move_before(narrow, chain[i]);
    }
    replace_conversions(wide, narrow);
    return sent;
}

// In the order of the program: an operand may be what an earlier collective delivers.
void spmd_narrow_collectives(HloModule *module, HloArena *scratch) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            if (!only_moves(at)) continue;
            HloInstruction *sent = narrow_operand(at, scratch);
            if (!sent) sent = narrow_result(at);
            if (sent) at = sent;
        }
    }
}
