// SPDX-License-Identifier: Apache-2.0
// Normalises layouts: every array becomes row-major and untiled, in the default memory space. Layouts have no meaning
// for any op except bitcast, which reinterprets memory as another shape; it becomes the equivalent transposes and
// reshape. Modules with bitcasts that move elements between tiles stay unchanged: all or nothing, because a bitcast
// that stays needs the layouts of its operand and of itself.
#include "hlo/pass/bitcast.h"

// True if a layout is only an order of dimensions.
static bool is_plain(const HloShape *shape) {
    if (!hlo_shape_is_array(shape)) return false;
    const HloLayout *layout = shape->layout;
    return !layout || (layout->tile_count == 0 && !layout->physical_shape && layout->element_size_in_bits == 0);
}

// True for the order of an array without a layout.
static bool is_row_major(const HloShape *shape) {
    for (int64_t i = 0; shape->layout && i < shape->rank; i++) {
        if (shape->layout->minor_to_major.items[i] != shape->rank - 1 - i) return false;
    }
    return true;
}

// Checked before anything is changed: see the top of the file.
static bool all_bitcasts_plain(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *i = module->computations.items[c]->first; i; i = i->next) {
            if (i->opcode == HLO_OP_BITCAST && !hlo_pass_can_spell_out_bitcast(i)) return false;
        }
    }
    return true;
}

// True if any property of a layout is not the default.
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

// Bitcasts are the only op whose meaning depends on layouts: they are expanded to transposes and reshapes first, after
// which every layout can be the default one. A module with a bitcast that cannot be expanded stays unchanged.
HloStatus hlo_pass_layout_normalization(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    if (!all_bitcasts_plain(module)) return HLO_SUCCESS;
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));) {
        if (i->opcode == HLO_OP_BITCAST) *changed |= hlo_pass_spell_out_bitcast(i);
    }
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *i = module->computations.items[c]->first; i; i = i->next) {
            if (!is_special(i->shape)) continue;
            i->shape = hlo_shape_with_default_layout(module->arena, hlo_shape_without_layout(module->arena, i->shape));
            *changed = true;
        }
    }
    return HLO_SUCCESS;
}
