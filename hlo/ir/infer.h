// SPDX-License-Identifier: Apache-2.0
// Shape inference: the result shape of an op for given operands and attributes. There is one handler per entry in the
// `shape` column of hlo/ops.def; the verifier checks instructions against the same handlers.
//
// Stability: experimental.
#ifndef MESHLO_HLO_IR_INFER_H_
#define MESHLO_HLO_IR_INFER_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// The input of a handler.
typedef struct HloInferRequest {
    HloArena *arena;  // the result is allocated here
    HloOpcode opcode;
    const HloShape *const *operands;  // operand shapes
    int64_t operand_count;
    const void *attributes;         // of the opcode's family
    HloComputation *const *called;  // called computations
    int64_t called_count;
    const HloShape *hint;  // the shape written by the user, or NULL: required by ops whose shape does not
                           // follow from operands (parameter, iota, convert, reshape, custom-call …)
    int64_t replica_count, num_partitions;  // of the module, they determine group sizes exactly; 0 if unknown
} HloInferRequest;

// The request that infers an instruction's shape again from its operands: its current shape is the hint, the counts are
// those of its module. The list of operand shapes is allocated in `arena`, and so will the result be.
HLO_EXPORT HloInferRequest hlo_infer_request_of(HloArena *arena, const HloInstruction *instruction);

// A handler: sets *result (in the request's arena; array results have no layout unless the hint has one), or returns
// INVALID_ARGUMENT naming the mismatch, with the number of the violated rule if StableHLO numbers it.
typedef HloStatus HloInferFunction(const HloInferRequest *request, const HloShape **result);

// Checks the arity, then calls the opcode's handler.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_infer_shape(const HloInferRequest *request, const HloShape **result);

// The inferred shape with the layouts of XLA's own inference: the operand's for ops that keep it (elementwise ops,
// copy, reverse, sort, scatter …), permuted for a transpose, row-major for all others. In the request's arena.
HLO_EXPORT const HloShape *hlo_infer_layout(const HloInferRequest *request, const HloShape *result);

#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    HloInferFunction hlo_infer_##shape;
#include "hlo/ops.def"
#undef HLO_OP

HLO_END_C

#endif
