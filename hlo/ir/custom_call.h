// SPDX-License-Identifier: Apache-2.0
// Custom calls that are known: their table is custom_calls.def, of which each room expands its own column.
//
// Stability: experimental.
#ifndef MESHLO_HLO_IR_CUSTOM_CALL_H_
#define MESHLO_HLO_IR_CUSTOM_CALL_H_

#include "hlo/ir/instruction.h"

HLO_BEGIN_C

// The row of the table that a custom call's target stands in, or -1. Any thread.
HLO_EXPORT int32_t hlo_custom_call_row(const HloInstruction *instruction);

// UNIMPLEMENTED of a custom call that nothing here can run: its instruction and target, what its user wrote, and what
// to do about it. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_custom_call_refuse(const HloInstruction *instruction);
// Whether that is so: the target is not known, or its body is missing.
HLO_EXPORT bool hlo_custom_call_is_unknown(const HloInstruction *instruction);
// What a custom call does to its operands, as far as layers that do not run it need to know.
typedef enum HloCustomCallKind {
    HLO_CALL_UNKNOWN,        // a target that is not in the table, or that only its kernel understands
    HLO_CALL_SHARDING,       // a sharding constraint or barrier: returns its operand
    HLO_CALL_IDENTITY,       // another annotation that returns its operand
    HLO_CALL_SINK,           // takes one array of any sharding and returns nothing
    HLO_CALL_FULL_TO_SHARD,  // SPMDFullToShardShape, xla.sdy.GlobalToLocalShape: enters a manual region
    HLO_CALL_SHARD_TO_FULL,  // SPMDShardToFullShape, xla.sdy.LocalToGlobalShape: leaves it
    HLO_CALL_ELEMENTWISE,    // one factor a dimension
    HLO_CALL_TOPK,           // works along the dimension of hlo_custom_call_cut_dimension()
    HLO_CALL_INSPECT,        // InspectSharding: reports its operand's sharding to the user
    HLO_CALL_BATCHED,        // works on the last two dimensions of its first operand, as LAPACK's routines do
} HloCustomCallKind;

// The kind of an instruction; HLO_CALL_UNKNOWN for one that is no custom call. Any thread.
HLO_EXPORT HloCustomCallKind hlo_custom_call_kind(const HloInstruction *instruction);

// The elementwise opcode that a custom call spells as the target "mhlo.NAME"; HLO_OPCODE_COUNT for other calls. Any
// thread.
HLO_EXPORT HloOpcode hlo_custom_call_opcode(const HloInstruction *call);

// Whether an instruction is a custom call that returns its operand: a constraint or an annotation. Any thread.
HLO_EXPORT bool hlo_custom_call_returns_operand(const HloInstruction *instruction);

// Whether an instruction enters or leaves a manual region. Any thread.
HLO_EXPORT bool hlo_custom_call_is_region_boundary(const HloInstruction *instruction);

// Whether the configuration of custom calls of `target` (which may be NULL) is bytes that are no text: HLO holds them
// as hexadecimal digits. Any thread.
HLO_EXPORT bool hlo_custom_call_takes_bytes(const char *target);

// Checks operands and results of a known custom call against its row's signature, "T:mn T:r > T:mn S:k": shapes of
// operands, then of results, each TYPE:DIMS behind the batch dimensions that all of them share.
//   types   T  the row's type, or that of the first operand (a float or complex type)   R  its real part
//           C  the complex type of it   S  s32
//   dims    m n   free, bound where they stand first   k  min(m, n)   h  n - 1   u  m or k   v  n or k
//           r     free, at most k, or p before m and n are bound
//           p     free at first; in the end m, or n where the options `side` or `left` say that it multiplies from
//                 the right
// "| rows" at the end: the options `low` and `high` are numbers of rows, counted from 1. Or one of these words:
//   same    the result has the shape of the first operand        unary  the same, and there is no other operand
//   shard   each result is an array with the type of its operand
//   top     one array > (its first elements along the last dimension, their positions)
//   tops    arrays and as many init values, with a comparator > the first elements of each along one dimension
//   pad     one array > (the array up to its bounds, an s32 for the size of each dimension)
//   slice   an array, an s32 for the size of each dimension > the array with dimensions of dynamic size
//   body    parameters and result of the called computation, if there is one
// INVALID_ARGUMENT naming the instruction. Rows without a signature pass, and so do arrays with a dimension of which
// not even the bound is known.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_custom_call_check(const HloInstruction *instruction);

// An integer, character or boolean of a backend_config written as a dictionary, `{uplo = 76 : ui8, left = true}`, or
// as JSON, `{"uplo":76,"left":true}`; `fallback` where it is not there.
HLO_EXPORT int64_t hlo_custom_call_option(const HloInstruction *instruction, const char *name, int64_t fallback);

// The dimension along which the calls TopK and ApproxTopK keep the first elements: where its results are smaller than
// its arrays, else the one that its configuration says (`reduction_dim`), else the last. The call has passed
// hlo_custom_call_check().
HLO_EXPORT int64_t hlo_custom_call_cut_dimension(const HloInstruction *instruction);

// Whether the call TopK keeps the largest elements: it does without a comparator, and with one that puts the greater of
// its left and right element first, whichever of them it names first.
HLO_EXPORT bool hlo_custom_call_takes_largest(const HloInstruction *instruction);

// The configuration "lower,sort,…" of the call Eigh: which triangle counts (the lower one if it is not said), and
// whether the values are sorted (they are). Unsorted, values and vectors of blocks that nothing couples stay in place:
// JAX's own division of large matrices (jax/_src/tpu/linalg/eigh.py) depends on that for its padding.
HLO_EXPORT void hlo_custom_call_eigh(const HloInstruction *instruction, bool *lower, bool *sort);

HLO_END_C

#endif
