// SPDX-License-Identifier: Apache-2.0
// Emission of fused loops for expressions over arrays: follows a tree of nodes from its root to arrays that have
// buffers, turning broadcasts, transposes, slices, reversals and reshapes into index maps.
#ifndef MESHLO_TARGETS_CPU_LOWER_EMIT_H_
#define MESHLO_TARGETS_CPU_LOWER_EMIT_H_

#include "targets/cpu/dense/matmul.h"
#include "targets/cpu/lower/step.h"

HLO_BEGIN_C

// How an opcode may be used in a loop.
typedef enum CpuLoopRole {
    CPU_ROLE_NONE,    // not at all
    CPU_ROLE_FREE,    // moves or creates elements: no arithmetic
    CPU_ROLE_CHEAP,   // a few instructions per element
    CPU_ROLE_COSTLY,  // worth a buffer rather than computing it twice
} CpuLoopRole;

// Returns the role of a node whose result is one array.
CpuLoopRole cpu_emit_role(const CpuNode *node);

// Whether loops can read the node's result where its pieces are, each from one of them: a concatenation, or a pad
// without padding between elements. An elementwise loop is cut for it.
bool cpu_emit_has_pieces(const CpuNode *node);

// Whether an opcode is one operation of a loop on existing values (arithmetic, conversions).
bool cpu_emit_has_operation(HloOpcode opcode);
// Emits that operation. `instruction` supplies the attributes (it is another op where a custom call names the opcode),
// `type` is the result's element type.
CpuValue cpu_emit_operation(CpuLoopBuilder *builder, HloOpcode opcode, const HloInstruction *instruction, HloType type,
                            const CpuValue *operands);

// Whether all instructions of a scalar computation can be emitted in a loop (for reductions with any computation):
// arithmetic, and the structure around it: tuples, calls and conditionals, of which all branches are computed. No
// loops.
bool cpu_emit_can_inline_computation(const HloComputation *computation);

// Emits a scalar computation that can be inlined, and returns the loop values of its result's leaves; `parameters` are
// the values of the leaves of its parameters, in order.
void cpu_emit_computation(HloArena *arena, CpuLoopBuilder *builder, const HloComputation *computation,
                          const CpuValue *parameters, CpuValue *results);

// Finds the loop engine's reduction for elements of this type and this opcode; returns false if there is none.
bool cpu_emit_reduce_op(HloOpcode opcode, HloType type, CpuReduceOp *op);

// Returns the elementwise loop operation of an opcode for two operands of one type; CPU_OP_COUNT if there is none, or
// for HLO_OPCODE_COUNT.
CpuLoopOp cpu_emit_loop_op(HloOpcode opcode);

// The change that a failed emission needs before it is tried again.
typedef struct CpuEmitFailure {
    CpuArray *materialize;  // this array needs a buffer
    // Above 0: not if the loop is cut, its elementwise domain's dimension `cut_dimension` before index `cut_at`.
    int64_t cut_dimension, cut_at;
} CpuEmitFailure;

// The part of a target array that a loop writes. Positions in the target are offset[d] + step[d] * index[d] if `offset`
// is not NULL, else the loop's index itself.
typedef struct CpuStoreBox {
    const int64_t *offset;
    const int64_t *step;
    const CpuDynamicStart *starts;  // added at run time
    int32_t start_count;
} CpuStoreBox;

// Emits an elementwise loop: target(box(i)) := value(i), for `count` pairs with equal dims, each with a box (or NULL
// for all; run-time starts are those of the only one). `trim` (or NULL) restricts the domain to [trim[2 * d], trim[2 *
// d + 1]). A target may be the array of its value itself; without a box, a target of NULL stores nothing: later values
// of the loop read that one. UNIMPLEMENTED when the loop engine lacks an operation for a type, or a value reads another
// element of a target than its own; HLO_ABORTED with `failure` set when an array needs a buffer first.
HLO_NODISCARD HloStatus cpu_emit_elementwise(HloArena *arena, CpuFeatures features, int32_t count,
                                             CpuArray *const *values, CpuArray *const *targets, const CpuStoreBox *box,
                                             const int64_t *trim, CpuFusedLoop *result, CpuEmitFailure *failure);

// Emits one loop that computes `count` parts of a result, of equal sizes, each with a `trim` as above.
HLO_NODISCARD HloStatus cpu_emit_parts(HloArena *arena, CpuFeatures features, int32_t count, CpuArray *value,
                                       const int64_t *const *trims, CpuFusedLoop *result, CpuEmitFailure *failure);

// Emits target(i) := scalar.
HLO_NODISCARD HloStatus cpu_emit_fill(HloArena *arena, CpuFeatures features, CpuArray *scalar, CpuArray *target,
                                      CpuFusedLoop *result, CpuEmitFailure *failure);

// Emits the reduction `node` (HLO_OP_REDUCE) into its results.
HLO_NODISCARD HloStatus cpu_emit_reduce(HloArena *arena, CpuFeatures features, const CpuNode *node,
                                        CpuFusedLoop *result, CpuEmitFailure *failure);

// Emits a loop over rows: the elementwise or reducing `node` with a row_shape, and the reductions of rows in its
// expression.
HLO_NODISCARD HloStatus cpu_emit_rows(HloArena *arena, CpuFeatures features, CpuNode *node, CpuFusedLoop *result,
                                      CpuEmitFailure *failure);

// Emits a matrix product as a plain loop, where no kernel fits.
HLO_NODISCARD HloStatus cpu_emit_dot(HloArena *arena, CpuFeatures features, const CpuNode *node, CpuPrecision precision,
                                     CpuFusedLoop *result, CpuEmitFailure *failure);

HLO_END_C

#endif
