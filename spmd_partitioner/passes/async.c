// SPDX-License-Identifier: Apache-2.0
// Splits collectives into start and done. The start moves up to where its operand is ready and the done down to the
// first user, but no further apart than the work between them can hide the bytes: arrays that arrive too early only
// fill memory.
//
//     %g = all-gather(%p)                    %s = all-gather-start(%p)
//     %a = dot(...)              becomes     %a = dot(...)
//     %b = dot(%g, %a)                       %g = all-gather-done(%s)
//                                            %b = dot(%g, %a)
//
// Work is the cost of each instruction by hlo/analysis/cost.h, converted to bytes on a link. Only a result that is
// larger than its operand is delayed (start_after); everything else starts as soon as it can. The pass is linear in
// the program but for walks from a collective to its operand. It works on scheduled lists: the order of a computation's
// instructions is the order of execution.
#include "spmd_partitioner/passes/passes.h"

#include <assert.h>

#include "hlo/analysis/cost.h"
#include "spmd_partitioner/sharding.h"

// How much more work than its bytes need is put between the halves of a gather, because collectives queue for the
// links.
enum { SAFETY = 2 };

typedef struct Splitting {
    int32_t *place;  // by instruction id, in its computation
    double *work;    // by instruction id: bytes on a link that it hides
    int64_t limit;   // of the ids that were there before
} Splitting;

// The start op of a collective, HLO_OPCODE_COUNT if it has none of its own; its done op.
static HloOpcode start_of(HloOpcode opcode, HloOpcode *done) {
    switch (opcode) {
        case HLO_OP_ALL_GATHER: *done = HLO_OP_ALL_GATHER_DONE; return HLO_OP_ALL_GATHER_START;
        case HLO_OP_ALL_REDUCE: *done = HLO_OP_ALL_REDUCE_DONE; return HLO_OP_ALL_REDUCE_START;
        case HLO_OP_COLLECTIVE_PERMUTE: *done = HLO_OP_COLLECTIVE_PERMUTE_DONE; return HLO_OP_COLLECTIVE_PERMUTE_START;
        default: return HLO_OPCODE_COUNT;
    }
}

// Returns the one that comes first in the list: `first`, which may be NULL, or one of `others`. These have positions:
// instructions made since the measuring only use collectives that are finished.
static HloInstruction *first_of(HloInstruction *first, const HloInstructionVector *others, const int32_t *place) {
    for (int64_t i = 0; i < others->count; i++) {
        HloInstruction *other = others->items[i];
        if (!first || place[other->id] < place[first->id]) first = other;
    }
    return first;
}

// all-reduce-start has its result's shape; the others hold operand and result.
static const HloShape *start_shape(HloArena *arena, const HloInstruction *at) {
    if (hlo_is(at, HLO_OP_ALL_REDUCE)) return at->shape;
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, 2);
    elements[0] = at->operands[0]->shape;
    elements[1] = at->shape;
    return hlo_shape_tuple(arena, elements, 2);
}

// Whether `a` comes before `b`. For halves that were made in the meantime the list itself is walked.
static bool precedes(const Splitting *splitting, const HloInstruction *a, const HloInstruction *b) {
    if (a->id < splitting->limit && b->id < splitting->limit) return splitting->place[a->id] < splitting->place[b->id];
    for (const HloInstruction *at = a->next; at; at = at->next) {
        if (at == b) return true;
    }
    return false;
}

// Returns the instruction after which the first half of `at` may start. A result larger than its operand is requested
// only early enough to arrive in time: otherwise all parameters gathered at the start of a step would be in memory
// together. Everything else starts as soon as it can.
static HloInstruction *start_after(const Splitting *splitting, const HloInstruction *at, HloInstruction *user) {
    HloInstruction *operand = at->operands[0], *after = user->previous;
    for (int32_t i = 1; i < at->operand_count; i++) {
        if (precedes(splitting, operand, at->operands[i])) operand = at->operands[i];
    }
    int64_t grows = hlo_shape_bytes(at->shape) - hlo_shape_bytes(operand->shape);
    for (int64_t i = 0; i < at->control_predecessors.count; i++) {
        HloInstruction *before = at->control_predecessors.items[i];
        if (precedes(splitting, operand, before)) operand = before;
    }
    if (grows <= 0) return operand;
    for (double left = SAFETY * (double)grows; after != operand && left > 0; after = after->previous) {
        if (after->id < splitting->limit && after != at) left -= splitting->work[after->id];
    }
    return after;
}

// The first half of a collective that has a start op of its own.
static HloInstruction *make_start(HloInstruction *at, HloOpcode opcode) {
    HloComputation *computation = at->parent;
    HloInstruction *start = hlo_instruction_new(computation, opcode, start_shape(computation->module->arena, at),
                                                at->operands, at->operand_count, at->attributes, NULL);
    if (at->called_count) hlo_instruction_set_called(start, at->called, at->called_count);
    hlo_instruction_copy_annotations(start, at);
    return start;
}

// A computation that is one collective, of its parameters: what an async-start calls.
static HloComputation *wrap(const HloInstruction *at) {
    HloModule *module = at->parent->module;
    HloComputation *made = hlo_computation_new(module, hlo_arena_format(module->arena, "async_%s", at->name));
    HloInstruction **parameters = HLO_ARENA_NEW(module->arena, HloInstruction *, at->operand_count);
    for (int32_t i = 0; i < at->operand_count; i++) {
        HloParameterAttributes attributes = {.number = i};
        parameters[i] = hlo_instruction_new(made, HLO_OP_PARAMETER, at->operands[i]->shape, NULL, 0, &attributes, NULL);
    }
    HloInstruction *inner = hlo_instruction_clone(made, at, at->shape, parameters, at->operand_count);
    if (at->called_count) hlo_instruction_set_called(inner, at->called, at->called_count);
    hlo_computation_set_root(made, inner);
    return made;
}

// The first half of any other collective: its value is ((operands), result, context).
static HloInstruction *make_wrapped_start(HloInstruction *at) {
    HloArena *arena = at->parent->module->arena;
    const HloShape **operands = HLO_ARENA_NEW(arena, const HloShape *, at->operand_count);
    const HloShape **parts = HLO_ARENA_NEW(arena, const HloShape *, 3);
    for (int32_t i = 0; i < at->operand_count; i++) operands[i] = at->operands[i]->shape;
    parts[0] = hlo_shape_tuple(arena, operands, at->operand_count);
    parts[1] = at->shape;
    parts[2] = hlo_shape_scalar(arena, HLO_U32);
    HloInstruction *start =
        hlo_instruction_new(at->parent, HLO_OP_ASYNC_START, hlo_shape_tuple(arena, parts, 3), at->operands,
                            at->operand_count, NULL, hlo_arena_format(arena, "%s-start", hlo_op_text(at->opcode)));
    HloComputation *called = wrap(at);
    hlo_instruction_set_called(start, &called, 1);
    start->metadata = at->metadata;
    return start;
}

// What had to come before still does, and what had to wait now waits for the end.
static void move_control_edges(const HloInstruction *at, HloInstruction *start, HloInstruction *done) {
    for (int64_t i = 0; i < at->control_predecessors.count; i++)
        hlo_instruction_add_control_edge(at->control_predecessors.items[i], start);
    for (int64_t i = 0; i < at->control_successors.count; i++)
        hlo_instruction_add_control_edge(done, at->control_successors.items[i]);
}

// Replaces one instruction by two. An op with a start op of its own keeps it; other ops, and ops on several arrays, are
// wrapped in a computation that async-start calls.
static void split(const Splitting *splitting, HloInstruction *at) {
    const int32_t *place = splitting->place;
    HloOpcode done_opcode = HLO_OPCODE_COUNT, opcode = start_of(at->opcode, &done_opcode);
    HloInstruction *user = first_of(first_of(NULL, &at->users, place), &at->control_successors, place);
    assert(at != at->parent->root); /* a root has no user to wait for it */
    if (!user) return;
    bool several = at->operand_count != 1 || !hlo_shape_is_array(at->shape);
    bool wrapped = opcode == HLO_OPCODE_COUNT || (several && !hlo_is(at, HLO_OP_ALL_REDUCE));
    HloInstruction *start = wrapped ? make_wrapped_start(at) : make_start(at, opcode);
    if (wrapped) done_opcode = HLO_OP_ASYNC_DONE;
    const char *name = hlo_arena_format(at->parent->module->arena, "%s-done", hlo_op_text(at->opcode));
    HloInstruction *done = hlo_instruction_new(at->parent, done_opcode, at->shape, &start, 1, NULL, name);
    done->metadata = at->metadata;
    hlo_instruction_move_after(start, start_after(splitting, at, user));
    hlo_instruction_move_before(done, user);
    move_control_edges(at, start, done);
    hlo_instruction_replace_uses(at, done);
    hlo_instruction_remove(at);
}

// Measures how much communication each instruction hides, and its position.
static HloStatus measure(const HloModule *module, HloArena *scratch, Splitting *splitting) {
    HloCostAnalysis *analysis = hlo_cost_analysis_new(module);
    HLO_FAIL_IF(!analysis, HLO_RESOURCE_EXHAUSTED, "out of memory");
    splitting->limit = module->instruction_limit;
    splitting->place = HLO_ARENA_NEW(scratch, int32_t, splitting->limit);
    splitting->work = HLO_ARENA_NEW(scratch, double, splitting->limit);
    for (int64_t c = 0; c < module->computations.count; c++) {
        int32_t next_place = 0;
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            HloCost cost = hlo_cost_of_instruction(analysis, at);
            splitting->place[at->id] = next_place++;
            splitting->work[at->id] =
                cost.flops / SPMD_FLOPS_PER_BYTE + (cost.bytes_read + cost.bytes_written) / SPMD_MEMORY_PER_BYTE;
        }
    }
    hlo_cost_analysis_free(analysis);
    return HLO_SUCCESS;
}

// Work is measured before anything moves: instructions made in the meantime hide nothing.
HloStatus spmd_make_async(HloModule *module, HloArena *scratch) {
    assert(module->entry && scratch);
    Splitting splitting = {NULL, NULL, 0};
    HLO_TRY(measure(module, scratch, &splitting));
    const int64_t count = module->computations.count;  // those of wrapped collectives are appended
    for (int64_t c = 0; c < count; c++) {
        HloComputation *computation = module->computations.items[c];
        for (HloInstruction *at = computation->first, *next; at; at = next) {
            next = at->next;
            bool halved = hlo_op_is(at->opcode, HLO_OP_IS_ASYNC_START | HLO_OP_IS_ASYNC_DONE);
            bool ours = hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE) && !halved && at != computation->root;
            if (ours) split(&splitting, at);
        }
    }
    return HLO_SUCCESS;
}
