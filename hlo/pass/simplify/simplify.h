// SPDX-License-Identifier: Apache-2.0
// Rules of the algebraic simplifier. A rule examines one instruction and returns its replacement (an existing
// instruction, or new ones made with hlo_pass_make()), or NULL if it does not apply. It must create nothing if it
// returns NULL. Every rule gives the same bits for every input, except for NaN payloads: no x+0 for floats (-0), no
// x*0, no reassociation except for integers.
#ifndef MESHLO_HLO_PASS_SIMPLIFY_SIMPLIFY_H_
#define MESHLO_HLO_PASS_SIMPLIFY_SIMPLIFY_H_

#include "hlo/pass/support.h"

typedef HloInstruction *HloSimplifyFunction(HloInstruction *instruction);

typedef struct HloSimplifyRule {
    HloOpcode opcode;
    HloSimplifyFunction *apply;
} HloSimplifyRule;

typedef struct HloSimplifyTable {
    const HloSimplifyRule *rules;
    int64_t count;
} HloSimplifyTable;

// A rule of several tables: x op x is x.
static inline HloInstruction *hlo_simplify_equal_operands(HloInstruction *instruction) {
    return instruction->operands[0] == instruction->operands[1] ? instruction->operands[0] : NULL;
}

// A rule of several tables: an op that can only select or rearrange and does not change the dims is its first operand.
static inline HloInstruction *hlo_simplify_to_operand_of_same_dims(HloInstruction *instruction) {
    HloInstruction *operand = instruction->operands[0];
    return hlo_same_dims(instruction->shape, operand->shape) ? operand : NULL;
}

// True for pred and integers: types without NaN and without two zeros, whose sums are the same in any order.
static inline bool hlo_simplify_is_exact(const HloInstruction *i) {
    return i->shape->type == HLO_PRED || hlo_type_is_integer(i->shape->type);
}

// True if no element can be -0, as far as a bounded search finds (accumulate.c).
bool hlo_simplify_has_no_negative_zero(const HloInstruction *value);

// Returns the same truth value in every element of the dims of `i`.
static inline HloInstruction *hlo_simplify_pred_like(const HloInstruction *i, bool value) {
    return hlo_pass_splat(i, HLO_PRED, hlo_shape_dims(i->shape), value);
}

// Rules for sums, products, negation, rounding and powers.
HloSimplifyTable hlo_simplify_arithmetic(void);
// Rules for bits, comparisons and selections.
HloSimplifyTable hlo_simplify_logic(void);
// Rules for comparisons, bounds and signs.
HloSimplifyTable hlo_simplify_order(void);
// Rules for repeated values: broadcasts below other ops, equal operands.
HloSimplifyTable hlo_simplify_repeated(void);
// Rules for two ops of which one undoes, repeats or hides the other.
HloSimplifyTable hlo_simplify_pairs(void);
// Rules for conversions and copies.
HloSimplifyTable hlo_simplify_convert(void);
// Rules for reshapes, transposes, broadcasts, reversals, concatenations and padding.
HloSimplifyTable hlo_simplify_shape(void);
// Rules for slices.
HloSimplifyTable hlo_simplify_slice(void);
// Rules for gathers from known positions.
HloSimplifyTable hlo_simplify_gather(void);
// Rules for scatters of single elements.
HloSimplifyTable hlo_simplify_scatter(void);
// Rules for gathers and scatters with a component that counts. Only before partitioning: which form runs faster on one
// device depends on the device.
HloSimplifyTable hlo_simplify_batching(void);
// Rules that move the dimensions of dots. Sharding propagation would then shard these along others, and communicate
// more.
HloSimplifyTable hlo_simplify_products(void);
// Rules for sums of arrays that are zero except for a part. Before partitioning, the sums keep their form, which
// sharding propagation knows.
HloSimplifyTable hlo_simplify_accumulate(void);
// Rules for reductions, dots, maps, sorts, collectives and tuples.
HloSimplifyTable hlo_simplify_compute(void);

#endif
