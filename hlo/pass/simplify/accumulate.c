// SPDX-License-Identifier: Apache-2.0
// Rules for sums of arrays that are zero except for a part, as gradients of x[i] are.
//
//     add(sum, pad(y, 0))   ->   dynamic-update-slice(sum, add(slice(sum), y)), at y's position
//
// The sum is updated in place: a chain of such sums needs one array and touches each part once, where it would need one
// array a term, each as large as the sum.
//
// Outside of the part the sum stays as it is, although the original adds 0 to it: that changes nothing but -0, which
// would become 0. So the rule needs a sum without -0 (for floats). The sum of two such arrays has none once 0 was added
// to the first one's part; the part of the second one is computed from the original.
#include <assert.h>
#include <math.h>

#include "hlo/pass/simplify/simplify.h"

// An array that is zero except for `part`, which begins at known places (`starts`) or at the operands of an update.
typedef struct Sparse {
    HloInstruction *whole, *part;
    const HloPadDimension *padding;  // of a pad, else NULL
} Sparse;

// Instructions that one search for -0 may visit.
enum { SEARCH_BUDGET = 1024 };

static bool is_zero(const HloInstruction *value) {
    return !hlo_type_is_complex(value->shape->type) && hlo_pass_is_all(value, 0);
}

// Whether the instruction is zero except for a part of at most half its size, which nothing else needs as a whole.
static bool read_sparse(HloInstruction *i, Sparse *sparse) {
    *sparse = (Sparse){.whole = i};
    if (i->users.count != 1 || i->shape->rank == 0) return false;
    if (i->opcode == HLO_OP_PAD && is_zero(i->operands[1])) {
        sparse->part = i->operands[0];
        const HloPadding padding = HLO_ATTRIBUTES(i, Pad)->padding;
        sparse->padding = padding.items;
        for (int64_t d = 0; d < padding.count; d++)
            if (padding.items[d].low < 0 || padding.items[d].high < 0 || padding.items[d].interior) return false;
    } else if (i->opcode == HLO_OP_DYNAMIC_UPDATE_SLICE && is_zero(i->operands[0])) {
        sparse->part = i->operands[1];
        if (i->operand_count != i->shape->rank + 2 || i->operands[2]->shape->rank != 0) return false;
    } else {
        return false;
    }
    const int64_t elements = hlo_shape_elements(sparse->part->shape);
    return sparse->part->shape->type == i->shape->type && elements > 0 && elements <= hlo_shape_elements(i->shape) / 2;
}

// The operand whose elements the result consists of, or NULL.
static const HloInstruction *moved_operand(const HloInstruction *i) {
    switch (i->opcode) {
        case HLO_OP_BROADCAST:
        case HLO_OP_RESHAPE:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_REVERSE:
        case HLO_OP_COPY:
        case HLO_OP_SLICE:
        case HLO_OP_DYNAMIC_SLICE: return i->operands[0];
        default: return NULL;
    }
}

// Whether the update adds to what was there before: then it has no -0 if the array has none.
static bool adds_to_itself(const HloInstruction *update) {
    const HloInstruction *sum = update->operands[1];
    if (sum->opcode != HLO_OP_ADD) return false;
    for (int k = 0; k < 2; k++)
        if (moved_operand(sum->operands[k]) == update->operands[0]) return true;
    return false;
}

// Whether a reduction of floats adds up: as its initial value is among the terms, the sum is -0 only if that is.
static bool adds_up(const HloInstruction *i) {
    return i->operand_count == 2 && hlo_computation_binary_opcode(i->called[0]) == HLO_OP_ADD;
}

// Whether no element can be -0. Chains of sums are followed in a loop, since they may be long.
static bool has_no_negative_zero(const HloInstruction *i, int *budget) {
    while ((*budget)-- > 0) {
        if (hlo_type_is_integer(i->shape->type)) return true;
        const HloLiteral *literal;
        if (hlo_is_splat(i, &literal)) return !hlo_pass_is_all(i, -0.0);
        const HloInstruction *moved = moved_operand(i);
        if (moved) {
            i = moved;
            continue;
        }
        switch (i->opcode) {
            case HLO_OP_IOTA:
            case HLO_OP_EXP:
            case HLO_OP_ABS: return true;
            case HLO_OP_CONVERT: return hlo_type_is_integer(i->operands[0]->shape->type);
            case HLO_OP_REDUCE:
                if (!adds_up(i)) return false;
                i = i->operands[1];
                break;
            case HLO_OP_ADD:
            case HLO_OP_PAD:
                if (has_no_negative_zero(i->operands[1], budget) != (i->opcode == HLO_OP_ADD))
                    i = i->operands[0];
                else
                    return i->opcode == HLO_OP_ADD;
                break;
            case HLO_OP_DYNAMIC_UPDATE_SLICE:
                if (!adds_to_itself(i) && !has_no_negative_zero(i->operands[1], budget)) return false;
                i = i->operands[0];
                break;
            default: return false;
        }
    }
    return false;
}

bool hlo_simplify_has_no_negative_zero(const HloInstruction *value) {
    int budget = SEARCH_BUDGET;
    return has_no_negative_zero(value, &budget);
}

// The elements of x where the part is.
static HloInstruction *cut(const HloInstruction *i, const Sparse *sparse, HloInstruction *x) {
    const HloInts sizes = hlo_shape_dims(sparse->part->shape);
    if (!sparse->padding) {
        const int64_t count = sizes.count + 1;
        HloInstruction **operands = HLO_ARENA_NEW(i->parent->module->arena, HloInstruction *, count);
        operands[0] = x;
        for (int64_t d = 0; d < sizes.count; d++) operands[d + 1] = sparse->whole->operands[d + 2];
        return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_SLICE,
                                                   .operands = operands,
                                                   .operand_count = count,
                                                   .attributes = &(HloDynamicSliceAttributes){sizes}});
    }
    int64_t *starts = hlo_pass_ints(i, 3 * sizes.count), *limits = starts + sizes.count;
    int64_t *strides = limits + sizes.count;
    for (int64_t d = 0; d < sizes.count; d++) {
        starts[d] = sparse->padding[d].low;
        limits[d] = starts[d] + sizes.items[d];
        strides[d] = 1;
    }
    return hlo_pass_slice(i, x, (HloInts){starts, sizes.count}, (HloInts){limits, sizes.count},
                          (HloInts){strides, sizes.count});
}

// x with other elements where the part is.
static HloInstruction *put(const HloInstruction *i, const Sparse *sparse, HloInstruction *x, HloInstruction *part) {
    const int64_t count = part->shape->rank + 2;
    HloInstruction **operands = HLO_ARENA_NEW(i->parent->module->arena, HloInstruction *, count);
    operands[0] = x;
    operands[1] = part;
    for (int64_t d = 2; d < count; d++)
        operands[d] =
            sparse->padding ? hlo_pass_integer(i, HLO_S64, sparse->padding[d - 2].low) : sparse->whole->operands[d];
    return hlo_pass_make(
        i, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_UPDATE_SLICE, .operands = operands, .operand_count = count});
}

// The same array with 0 added to its part, so that it has no -0.
static HloInstruction *without_negative_zero(const HloInstruction *i, const Sparse *sparse) {
    const HloInts dims = hlo_shape_dims(sparse->part->shape);
    HloInstruction *zeros = sparse->padding
                                ? hlo_pass_broadcast(i, sparse->whole->operands[1], dims, (HloInts){NULL, 0})
                                : hlo_pass_splat(i, i->shape->type, dims, 0);
    HloInstruction *part = hlo_pass_binary(i, HLO_OP_ADD, sparse->part, zeros);
    if (!sparse->padding) return put(i, sparse, sparse->whole->operands[0], part);
    HloInstruction *operands[] = {part, sparse->whole->operands[1]};
    return hlo_pass_make(
        i,
        &(HloBuildRequest){
            .opcode = HLO_OP_PAD, .operands = operands, .operand_count = 2, .attributes = sparse->whole->attributes});
}

// The rule at the top of this file.
static HloInstruction *add_to_part(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_ADD));
    for (int k = 1; k >= 0; k--) {
        HloInstruction *sum = i->operands[1 - k], *base = sum;
        Sparse added, first;
        if (sum == i->operands[k] || !read_sparse(i->operands[k], &added)) continue;
        if (!hlo_simplify_has_no_negative_zero(sum)) {
            if (!read_sparse(sum, &first)) continue;
            base = without_negative_zero(i, &first);
        }
        HloInstruction *old = cut(i, &added, sum);
        HloInstruction *operands[] = {k ? old : added.part, k ? added.part : old};
        return put(i, &added, base, hlo_pass_binary(i, HLO_OP_ADD, operands[0], operands[1]));
    }
    return NULL;
}

static const HloSimplifyRule rules[] = {{HLO_OP_ADD, add_to_part}};

HloSimplifyTable hlo_simplify_accumulate(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
