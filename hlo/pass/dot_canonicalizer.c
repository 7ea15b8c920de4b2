// SPDX-License-Identifier: Apache-2.0
// Brings dots into one form: batch dimensions first, then at most one of rows and one of terms on the left, one of
// terms and at most one of columns on the right. Other forms are transposed and reshaped into it, and the result back.
//
// The left side becomes [batch..., rows, terms] and the right side [batch..., terms, columns], where rows, terms and
// columns are each one dimension, the product of the original ones: a product of matrices for each batch. The order
// within a group is arbitrary as long as both sides agree: terms keep the order of the attribute lists, which pair
// them; batch and free dimensions keep their order in the result.
//
//   dot(f32[8,4,16] a, f32[16,2,3] b), lhs_contracting_dims={2}, rhs_contracting_dims={0}
//   ->  f32[8,4,2,3] reshape(dot(f32[32,16] reshape(a), f32[16,6] reshape(b)))
#include <assert.h>

#include "hlo/pass/support.h"

// One side: its dimensions in canonical order, and the sizes of the groups.
typedef struct Side {
    HloInstruction *operand;
    HloInts batch, contracting;
    bool contracting_last;
    int64_t *order;  // permutation of the operand's dimensions
    int64_t free_count;
    int64_t free_size, contracting_size;  // products
} Side;

// Sets order[*at...] to the dimensions, in their order.
static void append(int64_t *order, int64_t *at, HloInts dimensions) {
    for (int64_t i = 0; i < dimensions.count; i++) order[(*at)++] = dimensions.items[i];
}

// False if a product of sizes overflows, which is possible for an array without elements.
static bool fill_side(Side *side, HloArena *scratch) {
    assert(scratch);
    const HloShape *shape = side->operand->shape;
    int64_t *free_dims = HLO_ARENA_NEW(scratch, int64_t, shape->rank), at = 0;
    side->order = HLO_ARENA_NEW(scratch, int64_t, shape->rank);
    side->free_count = 0;
    side->free_size = side->contracting_size = 1;
    for (int64_t d = 0; d < shape->rank; d++) {
        if (hlo_ints_contain(side->batch, d)) continue;
        bool contracted = hlo_ints_contain(side->contracting, d);
        int64_t *size = contracted ? &side->contracting_size : &side->free_size;
        if (__builtin_mul_overflow(*size, shape->dims[d], size)) return false;
        if (!contracted) free_dims[side->free_count++] = d;
    }
    append(side->order, &at, side->batch);
    if (!side->contracting_last) append(side->order, &at, side->contracting);
    append(side->order, &at, (HloInts){free_dims, side->free_count});
    if (side->contracting_last) append(side->order, &at, side->contracting);
    return true;
}

// True if the side has the canonical form without any transpose or reshape.
static bool is_canonical(const Side *side) {
    if (side->contracting.count != 1 || side->free_count > 1) return false;
    for (int64_t d = 0; d < side->operand->shape->rank; d++) {
        if (side->order[d] != d) return false;
    }
    return true;
}

// The side transposed into its canonical order, with the dimensions of each group merged. Batch dimensions stay
// separate: merging them would gain nothing and lose their shardings.
static HloInstruction *canonical_operand(const HloInstruction *like, const Side *side) {
    const HloShape *shape = side->operand->shape;
    int64_t *dims = hlo_pass_ints(like, side->batch.count + 2), rank = 0;
    for (int64_t b = 0; b < side->batch.count; b++) dims[rank++] = shape->dims[side->batch.items[b]];
    if (!side->contracting_last) dims[rank++] = side->contracting_size;
    if (side->free_count) dims[rank++] = side->free_size;
    if (side->contracting_last) dims[rank++] = side->contracting_size;
    HloInstruction *ordered = hlo_pass_transpose(like, side->operand, (HloInts){side->order, shape->rank});
    return hlo_pass_reshape(like, ordered, (HloInts){dims, rank});
}

// Replaces the dot by one between sides in canonical form, reshaped back to the dimensions of the old one. Attributes
// that determine how to multiply (precision, algorithm) are kept.
static bool canonicalize(HloInstruction *dot, const HloPassEnv *env) {
    HloArena *scratch = env->scratch;
    if (dot->opcode != HLO_OP_DOT || dot->operand_count != 2 || !hlo_pass_may_replace(dot)) return false;
    HloDotAttributes attributes = *HLO_ATTRIBUTES(dot, Dot);
    Side lhs = {.operand = dot->operands[0],
                .batch = attributes.lhs_batch,
                .contracting = attributes.lhs_contracting,
                .contracting_last = true};
    Side rhs = {.operand = dot->operands[1], .batch = attributes.rhs_batch, .contracting = attributes.rhs_contracting};
    if (hlo_shape_is_dynamic(lhs.operand->shape) || hlo_shape_is_dynamic(rhs.operand->shape)) return false;
    if (!fill_side(&lhs, scratch) || !fill_side(&rhs, scratch)) return false;
    if (is_canonical(&lhs) && is_canonical(&rhs)) return false;
    int64_t batch = lhs.batch.count;
    int64_t *numbers = hlo_pass_ints(dot, batch), *dims = hlo_pass_ints(dot, batch + 2), rank = 0;
    for (int64_t b = 0; b < batch; b++) {
        numbers[b] = b;
        dims[rank++] = dot->shape->dims[b];
    }
    if (lhs.free_count) dims[rank++] = lhs.free_size;
    if (rhs.free_count) dims[rank++] = rhs.free_size;
    attributes.lhs_batch = attributes.rhs_batch = (HloInts){numbers, batch};
    attributes.lhs_contracting = HLO_DIMS(batch + (lhs.free_count > 0));
    attributes.rhs_contracting = HLO_DIMS(batch);
    HloInstruction *operands[] = {canonical_operand(dot, &lhs), canonical_operand(dot, &rhs)};
    HloInstruction *product = hlo_pass_make(dot, &(HloBuildRequest){.opcode = HLO_OP_DOT,
                                                                    .operands = operands,
                                                                    .operand_count = 2,
                                                                    .attributes = &attributes,
                                                                    .type = dot->shape->type,
                                                                    .dims = {dims, rank},
                                                                    .has_dims = true});
    return hlo_pass_replace(dot, hlo_pass_reshape(dot, product, hlo_shape_dims(dot->shape)));
}

HloStatus hlo_pass_dot_canonicalizer(HloModule *module, const HloPassEnv *env, bool *changed) {
    return hlo_pass_each(module, env, canonicalize, changed);
}
