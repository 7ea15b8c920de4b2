// SPDX-License-Identifier: Apache-2.0
// Shape inference: what shape an op gives for these operands and attributes. One handler a `shape` column entry of
// hlo/ops.def; also what the verifier re-checks instructions against.
//
// Stability: experimental.
#ifndef MESHLO_HLO_IR_INFER_H_
#define MESHLO_HLO_IR_INFER_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// What a handler gets to see.
typedef struct HloInferRequest {
    HloArena *arena;  // where the result goes
    HloOpcode opcode;
    const HloShape *const *operands;  // operand shapes
    int64_t operand_count;
    const void *attributes;         // of the opcode's family
    HloComputation *const *called;  // called computations
    int64_t called_count;
    const HloShape *hint;  // the shape written by the user, or NULL: needed by ops whose shape does not
                           // follow from operands (parameter, iota, convert, reshape, custom-call …)
    int64_t replica_count, num_partitions;  // of the module, from which group sizes follow exactly; 0 if unknown
} HloInferRequest;

// The request that gives an instruction's shape anew from its operands: its own shape is the hint, the counts are those
// of its module. The list of operand shapes is made in `arena`, where the result will go too.
HLO_EXPORT HloInferRequest hlo_infer_request_of(HloArena *arena, const HloInstruction *instruction);

// A handler: sets *result (in the request's arena; array results without layout unless the hint has one), or
// INVALID_ARGUMENT naming what disagrees, with the numbered rule it breaks where StableHLO numbers one.
typedef HloStatus HloInferFunction(const HloInferRequest *request, const HloShape **result);

// Checks arity, then asks the opcode's handler.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_infer_shape(const HloInferRequest *request, const HloShape **result);

// The inferred shape with the layouts that XLA's own inference gives it: of the operand for ops that keep one
// (elementwise ops, copy, reverse, sort, scatter …), permuted for a transpose, row-major for all others. In the
// request's arena.
HLO_EXPORT const HloShape *hlo_infer_layout(const HloInferRequest *request, const HloShape *result);

#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost) \
    HloInferFunction hlo_infer_##shape;
#include "hlo/ops.def"
#undef HLO_OP

HLO_END_C

#endif
