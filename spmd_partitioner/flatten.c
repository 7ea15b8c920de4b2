// SPDX-License-Identifier: Apache-2.0
// Brings a module to the form that is partitioned: calls are inlined (propagation then sees through them), loops and
// branches get computations of their own, asynchronous pairs become one op again, and some ops are expanded into others
// (scans, batch norms, custom calls of top-k and of XLA's partitioner, bitcasts to another layout). Works on a copy of
// the user's module.
//
// The reasons: a body that two loops share would need one sharding for both, and an expanded op needs no partition rule
// of its own.
//     %t = (f32[3,4], s32[3,4]) custom-call(%a), custom_call_target="TopK"
//     becomes  topk(%a), k=4   (and a convert of the indices where they are not s32)
//
// Order: unused draws are removed first, then calls and ops are expanded (passes append, so lists are sorted again),
// then calls are inlined, callees first, and finally computations that several loops or branches share are copied.
// Linear in the size of the result, which INSTRUCTION_LIMIT bounds: a program with nested calls would grow
// exponentially.
#include "spmd_partitioner/flatten.h"

#include <assert.h>

#include "hlo/analysis/calls.h"
#include "hlo/base/vector.h"
#include "hlo/eval/layout.h"
#include "hlo/ir/custom_call.h"
#include "hlo/pass/pass.h"
#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/propagate.h"

typedef struct Flattening {
    HloModule *module;
    HloArena *scratch;
    HLO_VECTOR(HloInstruction *) copies;  // by instruction id of the callee
} Flattening;

// Copies `at` to before `call`, with operands replaced by their copies.
static HloInstruction *copy_instruction(Flattening *flattening, const HloInstruction *at, HloInstruction *call) {
    HloInstruction **operands = HLO_ARENA_NEW(flattening->scratch, HloInstruction *, at->operand_count);
    for (int32_t i = 0; i < at->operand_count; i++) operands[i] = flattening->copies.items[at->operands[i]->id];
    HloInstruction *copy = hlo_instruction_clone(call->parent, at, at->shape, operands, at->operand_count);
    hlo_instruction_move_before(copy, call);
    return copy;
}

// Copies the body's instructions to before the call. `last` is remembered, because copies may be appended to the very
// computation that is being read.
static void inline_call(Flattening *flattening, HloInstruction *call) {
    assert(hlo_is(call, HLO_OP_CALL));
    HloComputation *body = call->called[0];
    HloInstruction *last = body->last;
    while (flattening->copies.count < flattening->module->instruction_limit)
        hlo_vector_push(flattening->scratch, &flattening->copies, NULL);
    for (const HloInstruction *at = body->first; at; at = at->next) flattening->copies.items[at->id] = NULL;
    for (HloInstruction *at = body->first; at; at = at == last ? NULL : at->next) {
        bool parameter = hlo_is(at, HLO_OP_PARAMETER);
        flattening->copies.items[at->id] =
            parameter ? call->operands[hlo_parameter_number(at)] : copy_instruction(flattening, at, call);
        for (int64_t i = 0; i < at->control_predecessors.count; i++) {
            HloInstruction *before = flattening->copies.items[at->control_predecessors.items[i]->id];
            if (before) hlo_instruction_add_control_edge(before, flattening->copies.items[at->id]);
        }
    }
    hlo_instruction_replace_uses(call, flattening->copies.items[body->root->id]);
    hlo_instruction_remove(call);
}

// An annotated call is not inlined, unless the root of its body is annotated alike: its sharding has no other place.
static bool can_inline(const HloInstruction *call) {
    if (!hlo_is(call, HLO_OP_CALL)) return false;
    const HloInstruction *root = call->called[0]->root;
    const bool kept = !hlo_is(root, HLO_OP_PARAMETER) && hlo_sharding_equal(call->sharding, root->sharding);
    return (!call->sharding || kept) && !call->control_predecessors.count && !call->control_successors.count;
}

// A loop or branch whose computation is used elsewhere too gets its own copy.
// A computation called twice by one conditional counts as shared as well.
static void own_computations(Flattening *flattening, HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_WHILE) && !hlo_is(at, HLO_OP_CONDITIONAL)) return;
    HloComputation **called = HLO_ARENA_NEW(flattening->scratch, HloComputation *, at->called_count);
    bool changed = false;
    for (int32_t i = 0; i < at->called_count; i++) {
        called[i] = at->called[i];
        int64_t uses = called[i]->callers.count;
        for (int32_t k = 0; k < i; k++) uses += at->called[k] == called[i];
        if (uses < 2) continue;
        called[i] = hlo_computation_clone(flattening->module, called[i], called[i]->name);
        changed = true;
    }
    if (changed) hlo_instruction_set_called(at, called, at->called_count);
}

// ---- custom calls that are expanded into ops

// Adds an instruction before the one that it replaces, with its metadata.
static HloInstruction *emit_before(HloInstruction *at, HloOpcode opcode, const HloShape *shape,
                                   HloInstruction *const *operands, int64_t count, const void *attributes) {
    HloInstruction *made = hlo_instruction_new(at->parent, opcode, shape, operands, count, attributes, NULL);
    made->metadata = at->metadata;
    hlo_instruction_move_before(made, at);
    return made;
}

// Whether a call sorts along its last dimension and keeps a prefix: TopK of one array, ApproxTopK of several with their
// init values. Other calls of that kind are not expanded. Invalid shapes are excluded here, since custom calls have no
// shape inference.
static bool keeps_the_first(const HloInstruction *at) {
    if (hlo_custom_call_kind(at) != HLO_CALL_TOPK || !hlo_shape_is_tuple(at->shape)) return false;
    int32_t arrays = at->operand_count == 1 ? 1 : at->operand_count / 2;
    const HloShape *shape = at->operands[0]->shape;
    int32_t results = at->operand_count == 1 ? 2 : arrays;
    if (at->shape->element_count != results || shape->rank < 1) return false;
    for (int32_t i = 0; i < results; i++) {
        const HloShape *result = at->shape->elements[i];
        if (!hlo_shape_is_array(result) || result->rank != shape->rank) return false;
        for (int32_t d = 0; d + 1 < shape->rank; d++) {
            if (result->dims[d] != shape->dims[d]) return false;
        }
        if (result->dims[shape->rank - 1] != at->shape->elements[0]->dims[shape->rank - 1]) return false;
    }
    return at->operand_count == 1 || (at->called_count == 1 && hlo_custom_call_top_k_dimension(at) == shape->rank - 1);
}

// Makes a topk of the largest or the smallest, by the comparator.
static HloInstruction *make_top_k(HloInstruction *at) {
    const bool largest = hlo_custom_call_takes_largest(at);
    HloArena *arena = at->parent->module->arena;
    const HloShape *values = at->shape->elements[0], *places = at->shape->elements[1];
    HloTopKAttributes attributes = {.k = values->dims[values->rank - 1], .largest = largest};
    if (places->type == HLO_S32) return emit_before(at, HLO_OP_TOPK, at->shape, at->operands, 1, &attributes);
    // A call may give its indices in any type; the op has s32.
    const HloShape *shapes[] = {values, hlo_shape_with_type(arena, places, HLO_S32)};
    HloInstruction *parts[2],
        *both = emit_before(at, HLO_OP_TOPK, hlo_shape_tuple(arena, shapes, 2), at->operands, 1, &attributes);
    for (int64_t i = 0; i < 2; i++)
        parts[i] = emit_before(at, HLO_OP_GET_TUPLE_ELEMENT, shapes[i], &both, 1, &(HloTupleIndexAttributes){i});
    parts[1] = emit_before(at, HLO_OP_CONVERT, places, &parts[1], 1, NULL);
    return emit_before(at, HLO_OP_TUPLE, at->shape, parts, 2, NULL);
}

// The first elements of a sort by the call's comparator.
static HloInstruction *make_sort(HloInstruction *at) {
    HloArena *arena = at->parent->module->arena;
    const int32_t count = at->operand_count / 2, rank = at->operands[0]->shape->rank;
    assert(count > 0); /* keeps_the_first() has counted arrays and init values */
    int64_t last = rank - 1, *zeros = HLO_ARENA_NEW(arena, int64_t, rank), *ones = HLO_ARENA_NEW(arena, int64_t, rank);
    for (int32_t d = 0; d < rank; d++) ones[d] = 1;
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, count);
    HloInstruction **parts = HLO_ARENA_NEW(arena, HloInstruction *, count);
    for (int32_t i = 0; i < count; i++) shapes[i] = at->operands[i]->shape;
    HloSortAttributes order = {hlo_ints(arena, &last, 1), true};
    const HloShape *all = count == 1 ? shapes[0] : hlo_shape_tuple(arena, shapes, count);
    HloInstruction *sorted = emit_before(at, HLO_OP_SORT, all, at->operands, count, &order);
    hlo_instruction_set_called(sorted, at->called, 1);
    for (int32_t i = 0; i < count; i++) {
        HloTupleIndexAttributes index = {i};
        HloInstruction *part =
            count == 1 ? sorted : emit_before(at, HLO_OP_GET_TUPLE_ELEMENT, shapes[i], &sorted, 1, &index);
        const HloShape *result = at->shape->elements[i];
        HloSliceAttributes slice = {{zeros, rank}, hlo_ints(arena, result->dims, rank), {ones, rank}};
        parts[i] = emit_before(at, HLO_OP_SLICE, result, &part, 1, &slice);
    }
    return emit_before(at, HLO_OP_TUPLE, at->shape, parts, count, NULL);
}

// Expands calls in their positions. Computations may be appended to in the meantime, hence the next instruction is
// remembered.
static void spell_calls_out(HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            const bool known = spmd_is_xla_call(at);
            if (!known && !keeps_the_first(at)) continue;
            HloInstruction *made = known                    ? spmd_expand_xla_call(at)
                                   : at->operand_count == 1 ? make_top_k(at)
                                                            : make_sort(at);
            if (!known) made->sharding = at->sharding;
            hlo_instruction_replace_uses(at, made);
            hlo_instruction_remove(at);
        }
    }
}

// Whether this is a bitcast to another order of dimensions. Bitcasts of tuples and the like are refused elsewhere.
static bool moves_data(const HloInstruction *at) {
    return hlo_is(at, HLO_OP_BITCAST) && hlo_shape_is_array(at->shape) && hlo_shape_is_array(at->operands[0]->shape) &&
           !hlo_bitcast_is_reshape(at->operands[0]->shape, at->shape);
}

// The graph that replaces an `rng` advances the program's counter, which keeps it alive. Unused draws must be removed
// first, since the unpartitioned program does not make them.
static HloStatus remove_dead_draws(HloModule *module, bool *changed) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (hlo_is(at, HLO_OP_RNG)) return hlo_pass_dce(module, NULL, changed);
    }
    return HLO_SUCCESS;
}

bool spmd_needs_flattening(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            bool spelled_out =
                hlo_is(at, HLO_OP_SCAN) || hlo_is(at, HLO_OP_BATCH_NORM_TRAINING) || hlo_is(at, HLO_OP_BATCH_NORM_GRAD);
            if (spelled_out || moves_data(at) || keeps_the_first(at) || spmd_is_xla_call(at) ||
                hlo_is(at, HLO_OP_RNG) || spmd_is_flow_op(at->opcode) || hlo_op_is(at->opcode, HLO_OP_IS_ASYNC_START))
                return true;
        }
    }
    return false;
}

// Callees first, so that inlined computations have already been flattened.
HloStatus spmd_flatten(HloModule *module, HloArena *scratch) {
    assert(module->entry && scratch);
    int64_t count;
    bool changed = false;
    HLO_TRY(hlo_check_call_copies(module, scratch));
    HLO_TRY(remove_dead_draws(module, &changed));
    spell_calls_out(module);
    HLO_TRY(hlo_pass_async_to_sync(module, NULL, &changed));
    HLO_TRY(hlo_pass_scan_expander(module, &(HloPassEnv){.scratch = scratch}, &changed));
    HLO_TRY(hlo_pass_batch_norm_expander(module, &(HloPassEnv){.scratch = scratch}, &changed));
    HLO_TRY(hlo_pass_bitcast_expander(module, NULL, &changed));
    // Passes append their instructions, which then come after their users.
    for (int64_t c = 0; changed && c < module->computations.count; c++) {
        hlo_computation_sort(module->computations.items[c]);
    }
    HloComputation **order = hlo_module_post_order(module, scratch, &count);
    Flattening flattening = {.module = module, .scratch = scratch};
    for (int64_t c = 0; c < count; c++) {
        for (HloInstruction *at = order[c]->first, *next; at; at = next) {
            next = at->next;
            if (can_inline(at)) inline_call(&flattening, at);
        }
    }
    hlo_module_remove_unreachable(module);
    order = hlo_module_post_order(module, scratch, &count);
    for (int64_t c = count - 1; c >= 0; c--) {
        for (HloInstruction *at = order[c]->first; at; at = at->next) own_computations(&flattening, at);
    }
    return HLO_SUCCESS;
}
