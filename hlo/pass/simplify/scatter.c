// SPDX-License-Identifier: Apache-2.0
// Scatters of one element per row into an array of equal elements, as in the derivative of a cross entropy:
//
//   scatter(broadcast(0), s32[B,1] i, f32[B] u)
//   select(iota == broadcast(i), broadcast(0 + u), broadcast(0))     in its place
//
// The selection is computed where it is read. A scatter writes the array first. Positions beyond the row change nothing
// in either form.
#include <assert.h>

#include "hlo/pass/simplify/simplify.h"

static bool holds(HloType type, int64_t number) {
    const int bits = hlo_type_info(type)->bits - (hlo_type_kind(type) == HLO_KIND_SIGNED);
    return bits >= 63 || number < INT64_C(1) << bits;
}

// The dimension along which a scatter puts one element into each row of its operand; -1 for other scatters. The
// operand's other dimensions are those of the indices and of the updates, in the same order.
static int64_t element_dimension(const HloInstruction *i) {
    const HloScatterAttributes *scatter = HLO_ATTRIBUTES(i, Scatter);
    const HloShape *x = i->operands[0]->shape, *indices = i->operands[1]->shape, *updates = i->operands[2]->shape;
    if (i->operand_count != 3 || scatter->update_window_dims.count) return -1;
    if (scatter->inserted_window_dims.count != 1 || scatter->scatter_dims_to_operand_dims.count != 1) return -1;
    const int64_t dimension = scatter->inserted_window_dims.items[0];
    if (scatter->scatter_dims_to_operand_dims.items[0] != dimension) return -1;
    if (scatter->input_batching_dims.count != x->rank - 1) return -1;
    for (int64_t d = 0; d < x->rank - 1; d++) {
        const int64_t batch = scatter->input_batching_dims.items[d];
        if (batch != d + (d >= dimension) || scatter->scatter_indices_batching_dims.items[d] != d) return -1;
    }
    const int64_t rows = hlo_shape_elements(x) / (x->dims[dimension] > 0 ? x->dims[dimension] : 1);
    return hlo_shape_elements(indices) == rows && hlo_shape_elements(updates) == rows ? dimension : -1;
}

// Whether the computation of a scatter returns the update, or one of the usual operations on its two parameters.
static bool is_usual(const HloInstruction *root) {
    if (hlo_is(root, HLO_OP_PARAMETER)) return hlo_parameter_number(root) == 1;
    switch (root->opcode) {
        case HLO_OP_ADD:
        case HLO_OP_MULTIPLY:
        case HLO_OP_MAXIMUM:
        case HLO_OP_MINIMUM: break;
        default: return false;
    }
    const HloInstruction *a = root->operands[0], *b = root->operands[1];
    return hlo_is(a, HLO_OP_PARAMETER) && hlo_is(b, HLO_OP_PARAMETER) && a != b;
}

static HloInstruction *scatter_of_elements(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SCATTER));
    HloInstruction *x = i->operands[0], *indices = i->operands[1];
    const HloInstruction *root = i->called[0]->root;
    const int64_t dimension = element_dimension(i);
    if (dimension < 0 || !is_usual(root) || !hlo_pass_repeats_scalar(x) ||
        i->operands[2]->shape->type != x->shape->type)
        return NULL;
    if (!holds(indices->shape->type, x->shape->dims[dimension])) return NULL;
    const HloInts all = hlo_shape_dims(x->shape);
    int64_t *rows = hlo_pass_ints(i, all.count), *places = hlo_pass_ints(i, all.count), count = 0;
    for (int64_t d = 0; d < all.count; d++) {
        if (d == dimension) continue;
        places[count] = d;
        rows[count++] = all.items[d];
    }
    const HloInts row_dims = {rows, count}, mapping = {places, count};
    HloInstruction *after = hlo_pass_reshape(i, i->operands[2], row_dims);
    if (!hlo_is(root, HLO_OP_PARAMETER))
        after = hlo_pass_binary(i, root->opcode, hlo_pass_broadcast(i, x->operands[0], row_dims, (HloInts){0}), after);
    HloInstruction *wanted = hlo_pass_broadcast(i, hlo_pass_reshape(i, indices, row_dims), all, mapping);
    HloInstruction *position =
        hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_IOTA,
                                            .shape = wanted->shape,
                                            .attributes = &(HloIotaAttributes){.dimension = dimension}});
    HloInstruction *is_there = hlo_pass_compare(i, position, wanted, HLO_ComparisonDirection_EQ);
    return hlo_pass_select(i, is_there, hlo_pass_broadcast(i, after, all, mapping), x);
}

static const HloSimplifyRule rules[] = {
    {HLO_OP_SCATTER, scatter_of_elements},
};

HloSimplifyTable hlo_simplify_scatter(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
