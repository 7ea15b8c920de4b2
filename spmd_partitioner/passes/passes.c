// SPDX-License-Identifier: Apache-2.0
// The order of the passes: equal collectives become one before they are narrowed, hoisted or joined, and again when
// some have left loops, reduce-scatters are formed before sums are joined and leave loops, and again of those that have
// left, before the remaining all-reduces are combined. Asynchronous halves are made last (api.c), when the work between
// them is known.
#include "spmd_partitioner/passes/passes.h"

#include <assert.h>
#include <string.h>

// What XLA's combiners take for one message, about.
enum { COMBINE_BYTES = 32 << 20 };

SpmdExchange spmd_exchange_of(const HloInstruction *at) {
    SpmdExchange exchange = {0};
    if (hlo_op_info(at->opcode)->family == HLO_FAMILY_Permute) {
        exchange.permute = *HLO_ATTRIBUTES(at, Permute);
        exchange.permute.channel_id = exchange.permute.channel_id != 0;
    } else {
        exchange.collective = *HLO_ATTRIBUTES(at, Collective);
        exchange.collective.channel_id = exchange.collective.channel_id != 0;
    }
    return exchange;
}

HloStatus spmd_run_passes(HloModule *module, const SpmdOptions *options, int64_t most_stacked, bool *stacks,
                          HloArena *scratch) {
    HLO_TRY(spmd_merge_collectives(module, scratch));
    spmd_narrow_collectives(module, scratch);
    if (spmd_trace_permutes(module, scratch)) HLO_TRY(spmd_merge_collectives(module, scratch));
    spmd_share_permutes(module, scratch);
    // Two loops over the same weights gather them once.
    if (spmd_hoist_collectives(module, scratch)) HLO_TRY(spmd_merge_collectives(module, scratch));
    spmd_form_reduce_scatters(module, scratch);
    spmd_join_sums(module);
    spmd_accumulate_parts(module, scratch);
    *stacks = spmd_stack_parts(module, most_stacked, scratch);
    spmd_form_reduce_scatters(module, scratch);
    if (!options->no_combine) spmd_combine_collectives(module, scratch, COMBINE_BYTES);
    return HLO_SUCCESS;
}

bool spmd_may_replace(const HloInstruction *collective) {
    return collective->operand_count == 1 && !collective->control_predecessors.count &&
           !collective->control_successors.count && hlo_instruction_frontend_attribute(collective, "meshlo.reason");
}

bool spmd_adds(const HloComputation *reducer) {
    const HloInstruction *root = reducer->root;
    return hlo_is(root, HLO_OP_ADD) && reducer->parameters.count == 2 && hlo_is(root->operands[0], HLO_OP_PARAMETER) &&
           hlo_is(root->operands[1], HLO_OP_PARAMETER) && root->operands[0] != root->operands[1];
}

void spmd_remove_unused(HloInstruction *instruction) {
    assert(instruction->parent);
    bool needed = instruction->users.count || instruction == instruction->parent->root ||
                  hlo_is(instruction, HLO_OP_PARAMETER) || hlo_instruction_has_side_effect(instruction);
    if (needed) return;
    int32_t count = instruction->operand_count;
    HloInstruction **operands = instruction->operands;
    hlo_instruction_remove(instruction);
    for (int32_t i = 0; i < count; i++) {
        if (operands[i]->parent) spmd_remove_unused(operands[i]);
    }
}

const HloShape *spmd_shape_resized(HloArena *arena, const HloShape *shape, int64_t dim, int64_t size) {
    assert(dim >= 0 && dim < shape->rank);
    int64_t *dims = hlo_arena_copy(arena, shape->dims, (size_t)shape->rank * sizeof(*dims));
    dims[dim] = size;
    return hlo_shape_with_default_layout(arena, hlo_shape_array(arena, shape->type, dims, shape->rank));
}

void spmd_take_annotations(HloInstruction *to, const HloInstruction *from) {
    assert(to != from);
    to->sharding = from->sharding;
    for (int64_t i = 0; i < from->frontend_attributes.count; i++)
        hlo_instruction_set_frontend_attribute(to, from->frontend_attributes.items[i].key,
                                               from->frontend_attributes.items[i].value);
}

void spmd_join_reasons(HloInstruction *to, const HloInstruction *from) {
    assert(to != from);
    static const char *const keys[] = {"meshlo.reason", "meshlo.remedy"};
    enum { LONGEST = 600 };  // a combined collective need not list all of its hundred reasons
    for (size_t i = 0; i < HLO_COUNT_OF(keys); i++) {
        const char *ours = hlo_instruction_frontend_attribute(to, keys[i]);
        const char *theirs = hlo_instruction_frontend_attribute(from, keys[i]);
        if (!theirs || (ours && (strstr(ours, theirs) || strlen(ours) > LONGEST))) continue;
        const char *both =
            hlo_arena_format(to->parent->module->arena, "%s%s%s", ours ? ours : "", ours ? "; " : "", theirs);
        hlo_instruction_set_frontend_attribute(to, keys[i], both);
    }
}
