// SPDX-License-Identifier: Apache-2.0
// Expands bitcasts to equivalent transposes and a reshape, if both layouts put the same sequence of elements into
// memory. If they do not, the bitcast crosses the padding of tiles and stays.
//
// A bitcast does not move elements: it reads the bytes of one layout as those of another. If `from` has its dimensions
// in memory in the order P and `to` in the order Q, then the elements in memory order are transpose(x, P); they are the
// elements of transpose(result, Q) in the same order, so result = transpose(reshape(transpose(x, P)), inverse of Q).
// Types of the same width are reinterpreted on the way.
//
//   b = f32[3,2]{1,0} bitcast(f32[2,3]{0,1} x)   ->   b = transpose(x), dimensions={1,0}
#include "hlo/pass/bitcast.h"

#include "hlo/eval/layout.h"

// True for a layout that has the elements in some order, tiled or not, each in as many bits as its type.
static bool has_order_only(const HloShape *shape) {
    return !shape->layout || (!shape->layout->physical_shape && shape->layout->element_size_in_bits == 0);
}

// The dimensions of a shape from major to minor.
static HloInts major_to_minor(const HloInstruction *like, const HloShape *shape) {
    int64_t *order = hlo_pass_ints(like, shape->rank);
    for (int64_t i = 0; i < shape->rank; i++) {
        order[i] = shape->layout ? shape->layout->minor_to_major.items[shape->rank - 1 - i] : i;
    }
    return (HloInts){order, shape->rank};
}

// True if both layouts are only orders of whole elements, with the same number of elements. Complex numbers are never
// reinterpreted: their parts would have to be separated.
bool hlo_pass_can_spell_out_bitcast(const HloInstruction *bitcast) {
    const HloShape *from = bitcast->operands[0]->shape, *to = bitcast->shape;
    if (!hlo_shape_is_array(from) || !hlo_shape_is_array(to) || !has_order_only(from) || !has_order_only(to))
        return false;
    if (hlo_shape_is_dynamic(from) || hlo_shape_is_dynamic(to)) return false;
    if (!hlo_layouts_same_sequence(from, to)) return false;
    // Equal types are rearranged; types of equal width are reinterpreted too.
    return hlo_type_info(from->type)->bits == hlo_type_info(to->type)->bits &&
           hlo_type_is_complex(from->type) == hlo_type_is_complex(to->type) &&
           hlo_shape_elements(from) == hlo_shape_elements(to) && hlo_pass_may_replace(bitcast);
}

// Makes the transposes of the identity at the top of the file; those that do nothing are left to the simplifier.
bool hlo_pass_spell_out_bitcast(HloInstruction *bitcast) {
    const HloShape *from = bitcast->operands[0]->shape, *to = bitcast->shape;
    if (!hlo_pass_can_spell_out_bitcast(bitcast)) return false;
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
    return hlo_pass_replace(bitcast, hlo_pass_transpose(bitcast, x, hlo_pass_inverse(bitcast, order)));
}

// True for a bitcast that only renames dimensions, which is left unchanged: it is already a reshape.
static bool renames_only(const HloInstruction *bitcast) {
    const HloShape *from = bitcast->operands[0]->shape, *to = bitcast->shape;
    const HloInts order = major_to_minor(bitcast, from), other = major_to_minor(bitcast, to);
    for (int64_t i = 0; i < order.count; i++)
        if (order.items[i] != i) return false;
    for (int64_t i = 0; i < other.count; i++)
        if (other.items[i] != i) return false;
    return from->type == to->type;
}

HloStatus hlo_pass_bitcast_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));) {
        if (i->opcode == HLO_OP_BITCAST && hlo_shape_is_array(i->shape) && hlo_shape_is_array(i->operands[0]->shape) &&
            !renames_only(i))
            *changed |= hlo_pass_spell_out_bitcast(i);
    }
    return HLO_SUCCESS;
}
