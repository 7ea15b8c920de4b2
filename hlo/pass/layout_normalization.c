// SPDX-License-Identifier: Apache-2.0
// Layouts as dimension orders: every array becomes row-major and untiled, in the default memory space. Layouts mean
// nothing to any op but bitcast, which reads memory in another shape; it becomes the transposes and the reshape that do
// the same. Modules whose bitcasts go through tiles stay as they are.
#include "hlo/pass/support.h"

// True when a layout is only an order of dimensions.
static bool is_plain(const HloShape *shape) {
    if (!hlo_shape_is_array(shape)) return false;
    const HloLayout *layout = shape->layout;
    return !layout || (layout->tile_count == 0 && !layout->physical_shape && layout->element_size_in_bits == 0);
}

static bool is_row_major(const HloShape *shape) {
    for (int64_t i = 0; shape->layout && i < shape->rank; i++) {
        if (shape->layout->minor_to_major.items[i] != shape->rank - 1 - i) return false;
    }
    return true;
}

// The dimensions of a shape from major to minor.
static HloInts major_to_minor(const HloInstruction *like, const HloShape *shape) {
    int64_t *order = hlo_pass_ints(like, shape->rank);
    for (int64_t i = 0; i < shape->rank; i++) {
        order[i] = shape->layout ? shape->layout->minor_to_major.items[shape->rank - 1 - i] : i;
    }
    return (HloInts){order, shape->rank};
}

static HloInts inverse(const HloInstruction *like, HloInts permutation) {
    int64_t *items = hlo_pass_ints(like, permutation.count);
    for (int64_t i = 0; i < permutation.count; i++) items[permutation.items[i]] = i;
    return (HloInts){items, permutation.count};
}

static bool can_spell_out(const HloInstruction *bitcast) {
    const HloShape *from = bitcast->operands[0]->shape, *to = bitcast->shape;
    if (!is_plain(from) || !is_plain(to)) return false;
    if (hlo_shape_is_dynamic(from) || hlo_shape_is_dynamic(to)) return false;
    // Equal types are rearranged; equal widths are reinterpreted too.
    return hlo_type_info(from->type)->bits == hlo_type_info(to->type)->bits &&
           hlo_type_is_complex(from->type) == hlo_type_is_complex(to->type) &&
           hlo_shape_elements(from) == hlo_shape_elements(to) && hlo_pass_may_replace(bitcast);
}

static bool spell_out(HloInstruction *bitcast) {
    const HloShape *from = bitcast->operands[0]->shape, *to = bitcast->shape;
    if (!can_spell_out(bitcast)) return false;
    HloInts order = major_to_minor(bitcast, to);
    int64_t *physical = hlo_pass_ints(bitcast, to->rank);
    for (int64_t i = 0; i < to->rank; i++) physical[i] = to->dims[order.items[i]];
    HloInstruction *x = hlo_pass_transpose(bitcast, bitcast->operands[0], major_to_minor(bitcast, from));
    if (from->type != to->type) {
        x = hlo_pass_make(
            bitcast,
            &(HloBuildRequest){.opcode = HLO_OP_BITCAST_CONVERT, .operands = &x, .operand_count = 1, .type = to->type});
    }
    x = hlo_pass_reshape(bitcast, x, (HloInts){physical, to->rank});
    return hlo_pass_replace(bitcast, hlo_pass_transpose(bitcast, x, inverse(bitcast, order)));
}

static bool all_bitcasts_plain(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *i = module->computations.items[c]->first; i; i = i->next) {
            if (i->opcode == HLO_OP_BITCAST && !can_spell_out(i)) return false;
        }
    }
    return true;
}

// True when something about a layout is not the default.
static bool is_special(const HloShape *shape) {
    if (hlo_shape_is_tuple(shape)) {
        for (int32_t i = 0; i < shape->element_count; i++) {
            if (is_special(shape->elements[i])) return true;
        }
        return false;
    }
    if (!shape->layout) return false;
    return !is_plain(shape) || !is_row_major(shape) || shape->layout->memory_space != 0;
}

HloStatus hlo_pass_layout_normalization(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    if (!all_bitcasts_plain(module)) return HLO_SUCCESS;
    for (int64_t c = 0; c < module->computations.count; c++) {
        HloInstruction *last = module->computations.items[c]->last;
        for (HloInstruction *i = module->computations.items[c]->first, *next; i; i = next) {
            next = i == last ? NULL : i->next;
            if (i->opcode == HLO_OP_BITCAST) *changed |= spell_out(i);
        }
        for (HloInstruction *i = module->computations.items[c]->first; i; i = i->next) {
            if (!is_special(i->shape)) continue;
            i->shape = hlo_shape_with_default_layout(module->arena, hlo_shape_without_layout(module->arena, i->shape));
            *changed = true;
        }
    }
    return HLO_SUCCESS;
}
