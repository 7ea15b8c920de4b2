// SPDX-License-Identifier: Apache-2.0
// Building blocks of the transforms: sums with zeros, leaves of tuples, inlined computations, and tidying up.
#include <assert.h>
#include <stdio.h>

#include "hlo/analysis/redundant.h"
#include "hlo/transform/internal.h"

HloInstruction *hlo_transform_scale(HloBuilder *b, HloInstruction *x, double factor) {
    return hlo_build_with_number(b, hlo_build_mul, x, factor);
}

HloInstruction *hlo_transform_sum(HloBuilder *b, HloInstruction *a, HloInstruction *b2) {
    return a && b2 ? hlo_build_add(b, a, b2) : a ? a : b2;
}

HloInstruction *hlo_transform_zeros(HloBuilder *b, const HloShape *shape) {
    return hlo_build_splat(b, shape->type, hlo_shape_dims(shape), 0);
}

void hlo_transform_fail(HloBuilder *b, HloArena *scratch, const HloInstruction *at, HloCode code, const char *format,
                        va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *message = HLO_ARENA_NEW(scratch, char, length + 1);
    vsnprintf(message, (size_t)length + 1, format, arguments);
    hlo_builder_fail(b, hlo_status_at_instruction(hlo_error(code, "%s", message), at));
}

void hlo_transform_leaves(HloBuilder *b, HloInstruction *value, HloInstruction **leaves) {
    if (!value || !hlo_shape_is_tuple(value->shape)) {
        leaves[0] = value;
        return;
    }
    for (int32_t i = 0; i < value->shape->element_count; i++) {
        HloInstruction *element = hlo_is(value, HLO_OP_TUPLE) ? value->operands[i] : hlo_build_get(b, value, i);
        hlo_transform_leaves(b, element, leaves + hlo_shape_first_leaf(value->shape, i));
    }
}

HloInstruction *hlo_transform_assemble(HloBuilder *b, const HloShape *shape, HloInstruction *const *leaves) {
    if (!hlo_shape_is_tuple(shape)) return leaves[0];
    HloArena *arena = b->module->arena;
    HloInstruction **elements = HLO_ARENA_NEW(arena, HloInstruction *, shape->element_count);
    for (int32_t i = 0; i < shape->element_count; i++)
        elements[i] = hlo_transform_assemble(b, shape->elements[i], leaves + hlo_shape_first_leaf(shape, i));
    return hlo_build_tuple(b, elements, shape->element_count);
}

HloInstruction *hlo_transform_inline(HloBuilder *b, HloArena *scratch, const HloComputation *computation,
                                     HloInstruction *const *arguments) {
    HloIntMap copies = {0};
    HloInstruction *root = NULL;
    for (const HloInstruction *i = computation->first; i && !b->status; i = i->next) {
        HloInstruction *copy;
        if (hlo_is(i, HLO_OP_PARAMETER)) {
            copy = arguments[hlo_parameter_number(i)];
        } else {
            HloInstruction **operands = HLO_ARENA_NEW(scratch, HloInstruction *, i->operand_count);
            for (int32_t k = 0; k < i->operand_count; k++) operands[k] = hlo_transform_lookup(&copies, i->operands[k]);
            // Elements of a tuple that is built here are its operands.
            bool known = hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT) && hlo_is(operands[0], HLO_OP_TUPLE);
            copy = known ? operands[0]->operands[HLO_ATTRIBUTES(i, TupleIndex)->index]
                         : hlo_instruction_clone(b->computation, i, i->shape, operands, i->operand_count);
        }
        hlo_transform_store(scratch, &copies, i, copy);
        if (i == computation->root) root = copy;
    }
    return root;
}

HloStatus hlo_transform_status(HloBuilder *b) {
    HloStatus status = b->status;
    b->status = HLO_SUCCESS;
    return status;
}

HloStatus hlo_transform_build(HloModule *module, const char *name, HloStatus (*body)(void *), void *argument,
                              HloBuilder **builder, HloInstruction *const *root, HloComputation **computation) {
    *builder = hlo_builder_new(module, name);
    HLO_FAIL_IF(!*builder, HLO_RESOURCE_EXHAUSTED, "out of memory");
    hlo_builder_run(*builder, body, argument);
    return hlo_builder_finish(*builder, *root, computation);
}

// ---------------------------------------------------------------------------------------------------------------------
// Tidying up

// Barriers keep apart what remat computes twice on purpose.
static bool may_merge(const HloInstruction *i) {
    return !hlo_is(i, HLO_OP_PARAMETER) && !hlo_is(i, HLO_OP_OPTIMIZATION_BARRIER) && i->called_count == 0 &&
           i->control_predecessors.count == 0 && i->control_successors.count == 0 &&
           !hlo_op_is(i->opcode, HLO_OP_IS_COLLECTIVE) && !hlo_instruction_has_side_effect(i) &&
           !hlo_instruction_is_nondeterministic(i);
}

static void merge_identical(HloComputation *computation, HloArena *scratch) {
    HloIntMap seen = {0};
    for (HloInstruction *i = computation->first, *next; i; i = next) {
        next = i->next;
        if (!may_merge(i)) continue;
        uint64_t hash = hlo_instruction_hash(i);
        int64_t *found = hlo_int_map_find(&seen, hash);
        HloInstruction *other = found ? (HloInstruction *)(intptr_t)*found : NULL;
        if (other && hlo_instruction_identical(i, other)) {
            hlo_instruction_replace_uses(i, other);
            if (i != computation->root) hlo_instruction_remove(i);
        } else if (!other) {
            hlo_int_map_set(scratch, &seen, hash, (int64_t)(intptr_t)i);
        }
    }
}

void hlo_transform_tidy(HloComputation *computation, HloArena *scratch) {
    assert(computation->root);
    hlo_computation_remove_dead(computation);
    merge_identical(computation, scratch);
    hlo_computation_remove_dead(computation);
}

// ---------------------------------------------------------------------------------------------------------------------
// Marks, and the entry

HloInstruction *hlo_build_stop_gradient(HloBuilder *builder, HloInstruction *x) {
    return x ? hlo_build_with_attribute(builder, hlo_build_copy(builder, x), "stop_gradient", "true") : NULL;
}

HloInstruction *hlo_build_checkpoint_name(HloBuilder *builder, HloInstruction *x, const char *name) {
    return x ? hlo_build_with_attribute(builder, hlo_build_copy(builder, x), "checkpoint_name", name) : NULL;
}

HloInstruction *hlo_build_with_axis_name(HloBuilder *builder, HloInstruction *x, const char *name) {
    return hlo_build_with_attribute(builder, x, "axis_name", name);
}

void hlo_make_entry(HloModule *module, HloComputation *computation) {
    hlo_module_set_entry(module, computation);
    module->entry_parameter_layouts = NULL;
    module->entry_parameter_layout_count = 0;
    module->entry_result_layout = NULL;
    module->aliases = (HloAliases){0};
    module->donors = NULL;
    module->donor_count = 0;
    module->propagate_to_parameters = (HloBools){0};
    module->propagate_to_output = (HloBools){0};
}
