// SPDX-License-Identifier: Apache-2.0
// The data flow of a per-device program as classification needs it: where an array comes from, and where it goes.
#ifndef MESHLO_ADVICE_FLOW_H_
#define MESHLO_ADVICE_FLOW_H_

#include "hlo/ir/module.h"

// An array of a program: element `index` of an instruction's tuple, or the instruction's own array (-1).
typedef struct AdviceValue {
    const HloInstruction *op;
    int64_t index;
} AdviceValue;

// Whether an instruction multiplies and adds up: a dot or a convolution.
bool advice_is_product(const HloInstruction *op);
// Whether an instruction passes the elements of operand 0 on, moved or converted, in whole or in part.
bool advice_moves(const HloInstruction *op);
// Follows an array back through instructions that only move or convert it, into loops and out of them, to the one that
// computes it or to a parameter of the entry.
AdviceValue advice_origin(const HloInstruction *op);
// The entry parameter that an array is a moved part of; NULL if it is computed.
const HloInstruction *advice_origin_parameter(const HloInstruction *op);
// Follows an array back through elementwise operations too, to the product, reduction, gather … whose result it is.
const HloInstruction *advice_source(const HloInstruction *op);
// The instruction of the program that runs a collective: the asynchronous start that wraps it, or itself.
const HloInstruction *advice_visible(const HloInstruction *op);
// Follows an array forward through moves, to the first instruction that computes with it as operand *operand; NULL if
// nothing does.
const HloInstruction *advice_consumer(const HloInstruction *op, int32_t *operand);
// A use of an array: operand `operand` of `user`.
typedef bool (*AdviceUseTest)(const void *context, const HloInstruction *user, int32_t operand);
// Whether a test finds a use of an array, or of what is computed from it through moves, broadcasts, elementwise
// operations and at most `products` products. Of long computations only the first part is read.
bool advice_reaches(HloArena *scratch, const HloInstruction *op, int products, AdviceUseTest test, const void *context);
// The numbers of the entry's results that an array reaches through moves and elementwise operations alone: element
// `index` of a tuple, or all of it (-1).
HloInt64Vector advice_reached_results(HloArena *scratch, const HloInstruction *op, int64_t index);
// The numbers of the entry's parameters from which one of its results is computed through moves and elementwise
// operations alone: the old weight and its moments of a new weight. Of long computations only the last part is read.
HloInt64Vector advice_updated_parameters(HloArena *scratch, const HloModule *module, int64_t result);

// How a parameter is used, through moves.
typedef struct AdviceUses {
    int64_t left, right;  // as such an operand of products
    int64_t tables;       // what gathers look up in
    int64_t indices;      // what gathers and scatters look up by
} AdviceUses;
// Counts the uses of an array.
AdviceUses advice_uses(HloArena *scratch, const HloInstruction *op);

#endif
