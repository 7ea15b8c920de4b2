// SPDX-License-Identifier: Apache-2.0
// The custom calls that Meshlo knows. Their table is custom_calls.def; each module expands its own column.
//
// Stability: experimental.
#ifndef MESHLO_HLO_IR_CUSTOM_CALL_H_
#define MESHLO_HLO_IR_CUSTOM_CALL_H_

#include "hlo/ir/instruction.h"

HLO_BEGIN_C

// The row of the table for a custom call's target, or -1. Any thread.
HLO_EXPORT int32_t hlo_custom_call_row(const HloInstruction *instruction);

// Returns UNIMPLEMENTED for a custom call that cannot be run: the error names the instruction, the target, the JAX or
// XLA feature that produces it, and a remedy. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_custom_call_refuse(const HloInstruction *instruction);
// True if a custom call cannot be run: its target is not known, or its body is missing.
HLO_EXPORT bool hlo_custom_call_is_unknown(const HloInstruction *instruction);
// The effect of a custom call on its operands, as far as modules that do not run it need to know.
typedef enum HloCustomCallKind {
    HLO_CALL_UNKNOWN,        // a target that is not in the table, or that only its kernel understands
    HLO_CALL_SHARDING,       // a sharding constraint or barrier: returns its operand
    HLO_CALL_IDENTITY,       // another annotation that returns its operand
    HLO_CALL_SINK,           // takes one array of any sharding and returns nothing
    HLO_CALL_FULL_TO_SHARD,  // SPMDFullToShardShape, xla.sdy.GlobalToLocalShape: enters a manual region
    HLO_CALL_SHARD_TO_FULL,  // SPMDShardToFullShape, xla.sdy.LocalToGlobalShape: leaves it
    HLO_CALL_ELEMENTWISE,    // one factor per dimension
    HLO_CALL_TOPK,           // works along the dimension of hlo_custom_call_top_k_dimension()
    HLO_CALL_INSPECT,        // InspectSharding: reports its operand's sharding to the user
    HLO_CALL_BATCHED,        // works on the last two dimensions of its first operand, as LAPACK's routines do
} HloCustomCallKind;

// The routines that evaluate custom calls: the column `evaluator` of custom_calls.def, whose rows name one each. Those
// of LAPACK serve the calls of four element types.
typedef enum HloCallRoutine {
    HLO_CALL_ROUTINE_NONE,  // the target is not in the table
    // annotations and bodies
    HLO_CALL_ROUTINE_first_operand,
    HLO_CALL_ROUTINE_full_to_shard,
    HLO_CALL_ROUTINE_shard_to_full,
    HLO_CALL_ROUTINE_nothing,
    HLO_CALL_ROUTINE_zeros,
    HLO_CALL_ROUTINE_pad_to_static,
    HLO_CALL_ROUTINE_slice_to_dynamic,
    HLO_CALL_ROUTINE_called_body,
    // functions
    HLO_CALL_ROUTINE_acos,
    HLO_CALL_ROUTINE_acosh,
    HLO_CALL_ROUTINE_asin,
    HLO_CALL_ROUTINE_asinh,
    HLO_CALL_ROUTINE_atanh,
    HLO_CALL_ROUTINE_cosh,
    HLO_CALL_ROUTINE_erf,
    HLO_CALL_ROUTINE_sinh,
    HLO_CALL_ROUTINE_tan,
    HLO_CALL_ROUTINE_top_k,
    HLO_CALL_ROUTINE_approximate_top_k,
    // decompositions
    HLO_CALL_ROUTINE_lu,
    HLO_CALL_ROUTINE_eigh,
    HLO_CALL_ROUTINE_potrf,
    HLO_CALL_ROUTINE_trsm,
    HLO_CALL_ROUTINE_getrf,
    HLO_CALL_ROUTINE_geqrf,
    HLO_CALL_ROUTINE_geqp3,
    HLO_CALL_ROUTINE_orgqr,
    HLO_CALL_ROUTINE_ormqr,
    HLO_CALL_ROUTINE_syevd,
    HLO_CALL_ROUTINE_gesdd,
    HLO_CALL_ROUTINE_gehrd,
    HLO_CALL_ROUTINE_sytrd,
    HLO_CALL_ROUTINE_gtsv,
    HLO_CALL_ROUTINE_geev,
    HLO_CALL_ROUTINE_gees,
    HLO_CALL_ROUTINE_COUNT
} HloCallRoutine;

// The routine of a custom call. Any thread.
HLO_EXPORT HloCallRoutine hlo_custom_call_routine(const HloInstruction *call);

// The kind of an instruction; HLO_CALL_UNKNOWN if it is not a custom call. Any thread.
HLO_EXPORT HloCustomCallKind hlo_custom_call_kind(const HloInstruction *instruction);

// The elementwise opcode that a custom call to the target "mhlo.NAME" means; HLO_OPCODE_COUNT for other calls. Any
// thread.
HLO_EXPORT HloOpcode hlo_custom_call_opcode(const HloInstruction *call);

// True for a custom call that returns its operand: a constraint or an annotation. Any thread.
HLO_EXPORT bool hlo_custom_call_returns_operand(const HloInstruction *instruction);

// True if an instruction enters or leaves a manual region. Any thread.
HLO_EXPORT bool hlo_custom_call_is_region_boundary(const HloInstruction *instruction);

// True if the configuration of custom calls to `target` (which may be NULL) is bytes rather than text: HLO stores these
// as hexadecimal digits. Any thread.
HLO_EXPORT bool hlo_custom_call_takes_bytes(const char *target);

// Checks operands and results of a known custom call against its row's signature, "T:mn T:r > T:mn S:k": shapes of
// operands, then of results, each TYPE:DIMS after the batch dimensions that all of them share.
//   types   T  the row's type, or that of the first operand (a float or complex type)   R  its real part
//           C  the complex type of it   S  s32
//   dims    m n   free, bound where they appear first   k  min(m, n)   h  n - 1   u  m or k   v  n or k
//           r     free, at most k, or p before m and n are bound
//           p     free at first; in the end m, or n if the option `side` or `left` specifies multiplication from the
//                 right
// "| rows" at the end: the options `low` and `high` are numbers of rows, counted from 1. Or one of these words:
//   same    the result has the shape of the first operand        unary  the same, with no other operands
//   shard   each result is an array with the type of its operand
//   top     one array > (its first elements along the last dimension, their indices)
//   tops    arrays and as many init values, with a comparator > the first elements of each along one dimension
//   pad     one array > (the array up to its bounds, an s32 for the size of each dimension)
//   slice   an array, an s32 for the size of each dimension > the array with dimensions of dynamic size
//   body    parameters and result of the called computation, if there is one
// Returns INVALID_ARGUMENT naming the instruction. Rows without a signature pass, and so do arrays with an unbounded
// dimension.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_custom_call_check(const HloInstruction *instruction);

// An integer, character or boolean of a backend_config written as a dictionary, `{uplo = 76 : ui8, left = true}`, or as
// JSON, `{"uplo":76,"left":true}`; `fallback` if it is absent.
HLO_EXPORT int64_t hlo_custom_call_option(const HloInstruction *instruction, const char *name, int64_t fallback);
// Reads an option that is a list, `strides=[1,2]`, of exactly `count` integers to `items`; false, with `items`
// undefined, if it is absent or another list.
HLO_EXPORT bool hlo_custom_call_list_option(const HloInstruction *instruction, const char *name, int64_t *items,
                                            int64_t count);

// The dimension along which the calls TopK and ApproxTopK keep the first elements: the one in which the results are
// smaller than the arrays; else `reduction_dim` of its configuration; else the last. The call has passed
// hlo_custom_call_check().
HLO_EXPORT int64_t hlo_custom_call_top_k_dimension(const HloInstruction *instruction);

// True if the call TopK keeps the largest elements: it does so without a comparator, and with one that sorts the
// greater of its left and right element first, in whichever order it compares them.
HLO_EXPORT bool hlo_custom_call_takes_largest(const HloInstruction *instruction);

// Parses the configuration "lower,sort,…" of the call Eigh: which triangle is read (the lower one by default), and
// whether the values are sorted (by default they are). Unsorted, values and vectors of uncoupled blocks stay in place:
// JAX's own division of large matrices (jax/_src/tpu/linalg/eigh.py) depends on that for its padding.
HLO_EXPORT void hlo_custom_call_eigh(const HloInstruction *instruction, bool *lower, bool *sort);

HLO_END_C

#endif
