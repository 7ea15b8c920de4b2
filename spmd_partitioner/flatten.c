// SPDX-License-Identifier: Apache-2.0
#include "spmd_partitioner/flatten.h"

#include "hlo/pass/pass.h"
#include "spmd_partitioner/propagate.h"

// A module that inlining would make larger than this keeps the rest of its calls.
enum { INSTRUCTION_LIMIT = 2000000 };

typedef struct Flattening {
    HloModule *module;
    HloArena *scratch;
    HloInstruction **copies;  // by instruction id of the callee
    int64_t instructions;
} Flattening;

// The copy of `at` in front of `call`, with operands replaced by their copies.
static HloInstruction *copy_instruction(Flattening *flattening, const HloInstruction *at, HloInstruction *call) {
    HloInstruction **operands = HLO_ARENA_NEW(flattening->scratch, HloInstruction *, at->operand_count);
    for (int32_t i = 0; i < at->operand_count; i++) operands[i] = flattening->copies[at->operands[i]->id];
    HloInstruction *copy = hlo_instruction_clone(call->parent, at, at->shape, operands, at->operand_count);
    hlo_instruction_move_before(copy, call);
    return copy;
}

static void inline_call(Flattening *flattening, HloInstruction *call) {
    HloComputation *body = call->called[0];
    HloInstruction *last = body->last;
    flattening->copies = HLO_ARENA_NEW(flattening->scratch, HloInstruction *, flattening->module->instruction_limit);
    for (HloInstruction *at = body->first; at; at = at == last ? NULL : at->next) {
        bool parameter = hlo_is(at, HLO_OP_PARAMETER);
        flattening->copies[at->id] =
            parameter ? call->operands[hlo_parameter_number(at)] : copy_instruction(flattening, at, call);
        for (int64_t i = 0; i < at->control_predecessors.count; i++) {
            HloInstruction *before = flattening->copies[at->control_predecessors.items[i]->id];
            if (before) hlo_instruction_add_control_edge(before, flattening->copies[at->id]);
        }
    }
    hlo_instruction_replace_uses(call, flattening->copies[body->root->id]);
    hlo_instruction_remove(call);
    flattening->instructions += body->instruction_count;
}

static bool can_inline(const Flattening *flattening, const HloInstruction *call) {
    return hlo_is(call, HLO_OP_CALL) && !call->sharding && !call->control_predecessors.count &&
           !call->control_successors.count &&
           flattening->instructions + call->called[0]->instruction_count < INSTRUCTION_LIMIT;
}

// A loop or branch whose computation is used elsewhere too gets its own copy.
static void own_computations(Flattening *flattening, HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_WHILE) && !hlo_is(at, HLO_OP_CONDITIONAL)) return;
    HloComputation **called = HLO_ARENA_NEW(flattening->scratch, HloComputation *, at->called_count);
    bool changed = false;
    for (int32_t i = 0; i < at->called_count; i++) {
        called[i] = at->called[i];
        int64_t uses = called[i]->callers.count;
        for (int32_t k = 0; k < i; k++) uses += at->called[k] == called[i];
        if (uses < 2 || flattening->instructions + called[i]->instruction_count > INSTRUCTION_LIMIT) continue;
        called[i] = hlo_computation_clone(flattening->module, called[i], called[i]->name);
        flattening->instructions += called[i]->instruction_count;
        changed = true;
    }
    if (changed) hlo_instruction_set_called(at, called, at->called_count);
}

bool spmd_needs_flattening(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            bool spelled_out =
                hlo_is(at, HLO_OP_SCAN) || hlo_is(at, HLO_OP_BATCH_NORM_TRAINING) || hlo_is(at, HLO_OP_BATCH_NORM_GRAD);
            if (spelled_out || spmd_is_flow_op(at->opcode) || hlo_op_is(at->opcode, HLO_OP_IS_ASYNC_START)) return true;
        }
    }
    return false;
}

HloStatus spmd_flatten(HloModule *module, HloArena *scratch) {
    int64_t count;
    bool changed = false;
    HLO_TRY(hlo_pass_async_to_sync(module, NULL, &changed));
    HLO_TRY(hlo_pass_scan_expander(module, NULL, &changed));
    HLO_TRY(hlo_pass_batch_norm_expander(module, NULL, &changed));
    // Passes append: what they made stands behind its users.
    for (int64_t c = 0; changed && c < module->computations.count; c++) {
        hlo_computation_sort(module->computations.items[c]);
    }
    HloComputation **order = hlo_module_post_order(module, scratch, &count);
    Flattening flattening = {.module = module, .scratch = scratch};
    for (int64_t c = 0; c < count; c++) flattening.instructions += order[c]->instruction_count;
    for (int64_t c = 0; c < count; c++) {
        for (HloInstruction *at = order[c]->first, *next; at; at = next) {
            next = at->next;
            if (can_inline(&flattening, at)) {
                HloArenaMark mark = hlo_arena_mark(scratch);
                inline_call(&flattening, at);
                hlo_arena_reset(scratch, mark);
            }
        }
    }
    hlo_module_remove_unreachable(module);
    order = hlo_module_post_order(module, scratch, &count);
    for (int64_t c = count - 1; c >= 0; c--) {
        for (HloInstruction *at = order[c]->first; at; at = at->next) own_computations(&flattening, at);
    }
    return HLO_SUCCESS;
}
