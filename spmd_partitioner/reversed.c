// SPDX-License-Identifier: Apache-2.0
// A scan from the end is written as a scan of the reversed array whose result is reversed again. Along a sharded
// dimension each reversal sends every shard to another device. What is between them can be computed from the other end
// instead:
//
//     %r = reverse(f32[64] %x)      %s = slice(%r), [1:64:2]     %p = pad(%s), padding=0_1     ROOT reverse(%p)
//     becomes                       %s = slice(%x), [0:63:2]     ROOT pad(%s), padding=1_0
//
// All ways from a reversal must lead through elementwise ops, slices, pads, concatenations and windows to reversals of
// the same dimensions, and what meets them on the way must be reversed too, or the same at every place.
#include "hlo/ir/literal.h"
#include "spmd_partitioner/chain.h"

// Ops between reversals, at most.
enum { MOST_BETWEEN = 4096 };

typedef struct Reversed {
    HloArena *arena;
    HloInts dims;
    HLO_VECTOR(HloInstruction *) members;  // sources first; ends are not among them
    HLO_VECTOR(HloInstruction *) ends;
    HloIntMap numbers;  // by id + 1: of a member
    HloIntMap made;     // by id + 1: what a member is from the other end
} Reversed;

static bool may_begin(const HloInstruction *at) {
    return hlo_is(at, HLO_OP_REVERSE) && spmd_is_link(at) && !hlo_instruction_is_root(at);
}

static bool is_reversal(const Reversed *reversed, const HloInstruction *at) {
    return may_begin(at) && hlo_ints_equal(HLO_ATTRIBUTES(at, Dimensions)->dimensions, reversed->dims);
}

// Whether an array is the same at every place along the reversed dimensions.
static bool is_uniform(const Reversed *reversed, const HloInstruction *at) {
    if (hlo_shape_is_scalar(at->shape)) return true;
    if (hlo_is(at, HLO_OP_CONSTANT)) return hlo_literal_is_splat(hlo_constant_literal(at));
    if (!hlo_is(at, HLO_OP_BROADCAST)) return false;
    const HloInts dims = HLO_ATTRIBUTES(at, Dimensions)->dimensions;
    for (int64_t i = 0; i < dims.count; i++)
        if (hlo_ints_contain(reversed->dims, dims.items[i]) && at->shape->dims[dims.items[i]] > 1) return false;
    return true;
}

// Whether an op reduces windows that begin at every element of the reversed dimensions.
static bool is_plain_window(const Reversed *reversed, const HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_REDUCE_WINDOW) || at->operand_count != 2) return false;
    for (int32_t d = 0; d < at->shape->rank; d++)
        if (hlo_ints_contain(reversed->dims, d) && HLO_ATTRIBUTES(at, Window)->window->dims[d].stride != 1)
            return false;
    return true;
}

// Whether an op may be computed from the other end.
static bool may_turn(const Reversed *reversed, const HloInstruction *at) {
    if (!at->operand_count || !hlo_shape_is_array(at->shape)) return false;
    const bool moves = hlo_is(at, HLO_OP_SLICE) || hlo_is(at, HLO_OP_PAD) || hlo_is(at, HLO_OP_CONCATENATE) ||
                       is_plain_window(reversed, at);
    return (moves || spmd_is_elementwise(at)) && spmd_is_link(at) && !hlo_instruction_is_root(at);
}

static void add(Reversed *reversed, HloInstruction *at) {
    const uint64_t key = (uint64_t)at->id + 1;
    if (hlo_int_map_find(&reversed->numbers, key)) return;
    hlo_int_map_set(reversed->arena, &reversed->numbers, key, reversed->members.count);
    hlo_vector_push(reversed->arena, &reversed->members, at);
}

// Adds what a user needs. False if it must have the array as it is.
static bool add_user(Reversed *reversed, HloInstruction *user) {
    if (is_reversal(reversed, user)) {
        hlo_vector_push(reversed->arena, &reversed->ends, user);
        return true;
    }
    if (!may_turn(reversed, user)) return false;
    add(reversed, user);
    for (int32_t i = 0; i < user->operand_count; i++) {
        HloInstruction *operand = user->operands[i];
        if (hlo_int_map_find(&reversed->numbers, (uint64_t)operand->id + 1) || is_uniform(reversed, operand)) continue;
        if (!is_reversal(reversed, operand) && !may_turn(reversed, operand)) return false;
        add(reversed, operand);  // which its own operands and users must fit
    }
    return true;
}

// Finds everything between `first` and the ends. False if some of it must stay as it is.
static bool find_between(Reversed *reversed, HloInstruction *first) {
    add(reversed, first);
    for (int64_t i = 0; i < reversed->members.count; i++) {
        HloInstruction *at = reversed->members.items[i];
        if (reversed->members.count > MOST_BETWEEN) return false;
        const bool is_source = is_reversal(reversed, at);
        if (!is_source && !add_user(reversed, at)) return false;
        for (int64_t u = 0; u < at->users.count; u++)
            if (!add_user(reversed, at->users.items[u])) return false;
    }
    return reversed->ends.count > 0;
}

// ---- the change

static void turn_slice(const Reversed *reversed, HloInstruction *at) {
    HloArena *arena = at->parent->module->arena;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(at, Slice);
    const HloShape *whole = at->operands[0]->shape;
    int64_t *starts = hlo_arena_copy(arena, slice->starts.items, (size_t)whole->rank * sizeof(*starts));
    int64_t *limits = hlo_arena_copy(arena, slice->limits.items, (size_t)whole->rank * sizeof(*limits));
    for (int32_t d = 0; d < whole->rank; d++) {
        if (!hlo_ints_contain(reversed->dims, d) || !at->shape->dims[d]) continue;
        const int64_t stride = slice->strides.count ? slice->strides.items[d] : 1;
        starts[d] = whole->dims[d] - 1 - (slice->starts.items[d] + (at->shape->dims[d] - 1) * stride);
        limits[d] = whole->dims[d] - slice->starts.items[d];
    }
    HloSliceAttributes turned = {{starts, whole->rank}, {limits, whole->rank}, slice->strides};
    hlo_instruction_set_attributes(at, &turned);
}

static void turn_pad(const Reversed *reversed, HloInstruction *at) {
    const HloPadding *padding = &HLO_ATTRIBUTES(at, Pad)->padding;
    HloPadDimension *dims =
        hlo_arena_copy(at->parent->module->arena, padding->items, (size_t)padding->count * sizeof(*dims));
    for (int64_t d = 0; d < padding->count; d++) {
        if (!hlo_ints_contain(reversed->dims, d)) continue;
        dims[d].low = padding->items[d].high;
        dims[d].high = padding->items[d].low;
    }
    HloPadAttributes turned = {{dims, padding->count}};
    hlo_instruction_set_attributes(at, &turned);
}

static void turn_window(const Reversed *reversed, HloInstruction *at) {
    HloArena *arena = at->parent->module->arena;
    const HloWindow *window = HLO_ATTRIBUTES(at, Window)->window;
    HloWindowDimension *dims = hlo_arena_copy(arena, window->dims, (size_t)at->shape->rank * sizeof(*dims));
    for (int32_t d = 0; d < at->shape->rank; d++) {
        if (!hlo_ints_contain(reversed->dims, d)) continue;
        dims[d].padding_low = window->dims[d].padding_high;
        dims[d].padding_high = window->dims[d].padding_low;
    }
    HloWindow *turned = hlo_arena_copy(arena, window, sizeof(*turned));
    turned->dims = dims;
    HloWindowAttributes attributes = {turned};
    hlo_instruction_set_attributes(at, &attributes);
}

// What a member is from the other end. Its operands have been turned.
static HloInstruction *turn(Reversed *reversed, HloInstruction *at) {
    if (is_reversal(reversed, at)) return at->operands[0];
    HloInstruction **operands = HLO_ARENA_NEW(reversed->arena, HloInstruction *, at->operand_count);
    const bool mirrored = hlo_is(at, HLO_OP_CONCATENATE) &&
                          hlo_ints_contain(reversed->dims, HLO_ATTRIBUTES(at, Dimensions)->dimensions.items[0]);
    for (int32_t i = 0; i < at->operand_count; i++) {
        HloInstruction *operand = at->operands[mirrored ? at->operand_count - 1 - i : i];
        const int64_t *turned = hlo_int_map_find(&reversed->made, (uint64_t)operand->id + 1);
        operands[i] = turned ? (HloInstruction *)(intptr_t)*turned : operand;
    }
    HloInstruction *made = hlo_instruction_clone(at->parent, at, at->shape, operands, at->operand_count);
    hlo_instruction_move_before(made, at);
    if (hlo_is(at, HLO_OP_SLICE)) turn_slice(reversed, made);
    if (hlo_is(at, HLO_OP_PAD)) turn_pad(reversed, made);
    if (hlo_is(at, HLO_OP_REDUCE_WINDOW)) turn_window(reversed, made);
    return made;
}

// Computes everything from the other end, in the order of the program, and removes what nothing needs then.
static void turn_all(Reversed *reversed, HloComputation *computation) {
    HLO_VECTOR(HloInstruction *) members = {0};
    for (HloInstruction *at = computation->first; at; at = at->next) {
        const uint64_t key = (uint64_t)at->id + 1;
        if (!hlo_int_map_find(&reversed->numbers, key)) continue;
        hlo_vector_push(reversed->arena, &members, at);
        hlo_int_map_set(reversed->arena, &reversed->made, key, (intptr_t)turn(reversed, at));
    }
    for (int64_t i = 0; i < reversed->ends.count; i++) {
        HloInstruction *end = reversed->ends.items[i];
        if (!end->parent) continue;  // of a member that has it as two operands
        const int64_t *made = hlo_int_map_find(&reversed->made, (uint64_t)end->operands[0]->id + 1);
        hlo_instruction_replace_uses(end, (HloInstruction *)(intptr_t)*made);
        hlo_instruction_remove(end);
    }
    for (int64_t i = members.count - 1; i >= 0; i--)
        if (members.items[i]->parent && !members.items[i]->users.count) hlo_instruction_remove(members.items[i]);
}

bool spmd_has_reversals(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        int64_t count = 0;
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (may_begin(at) && ++count > 1) return true;
    }
    return false;
}

void spmd_join_reversals(HloModule *module) {
    HloArena *scratch = hlo_arena_scratch_new();
    for (int64_t c = 0; c < module->computations.count; c++) {
        HloComputation *computation = module->computations.items[c];
        HLO_VECTOR(HloInstruction *) first = {0};
        for (HloInstruction *at = computation->first; at; at = at->next)
            if (may_begin(at)) hlo_vector_push(scratch, &first, at);
        for (int64_t i = 0; i < first.count; i++) {
            if (!first.items[i]->parent) continue;  // removed with one before
            Reversed reversed = {.arena = scratch, .dims = HLO_ATTRIBUTES(first.items[i], Dimensions)->dimensions};
            if (find_between(&reversed, first.items[i])) turn_all(&reversed, computation);
        }
    }
    hlo_arena_free(scratch);
}
