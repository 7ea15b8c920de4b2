// SPDX-License-Identifier: Apache-2.0
// Internals of the transforms. Forward mode walks a computation once and appends to a builder, for each instruction, a
// copy of it and the tangent of its result. Every instruction that depends on a tangent is linear in the tangents.
// Reverse mode walks these linear instructions backwards and appends their transposes; then the linear instructions
// have no users and are removed. So one derivative rule per op serves both modes, and a transpose is needed only for
// ops that occur in tangents.
//
// Tangents and cotangents are kept per leaf of a value. NULL is a zero, which is never built unless an op needs it.
//
// Errors go to the builder (hlo_builder_fail()): rules return nothing, and the walks stop at the first error.
//
// Terms:
//   tangent        the derivative of a value along the direction of the inputs' tangents.
//   cotangent      the derivative of the result with respect to a value, without conjugation for complex numbers.
//   active         has a tangent.
//   linear         computed from tangents.
//   residual       a value that is no tangent, but that a linear instruction needs.
//   split          reverse mode: loops and branches become one part that computes values and residuals, and one linear
//                  instruction, a placeholder that is only ever transposed.
#ifndef MESHLO_HLO_TRANSFORM_INTERNAL_H_
#define MESHLO_HLO_TRANSFORM_INTERNAL_H_

#include <stdarg.h>

#include "hlo/ir/build/internal.h"
#include "hlo/transform/transform.h"

typedef struct HloTransposer HloTransposer;

// What the transpose of a placeholder needs. Its operands are residuals, then tangents.
typedef struct HloLinear {
    // Appends the transpose: `cotangents` has one item per leaf of the placeholder's result.
    void (*transpose)(HloTransposer *t, const struct HloLinear *linear, HloInstruction *const *cotangents);
    int64_t residual_count, tangent_count;
    HloComputation *const *backward;  // of a loop: its body; of a conditional: one per branch; of a custom rule: itself
    int64_t backward_count;
    const bool *is_stacked;         // of a loop, per residual: one row per iteration, not an invariant
    const bool *is_offloaded;       // of a loop, per residual: its rows wait in host memory
    const int64_t *residual_first;  // of a conditional: the first residual of each branch, and the end
    int64_t trip_count;             // of a loop: how often it runs
    bool is_bounded;                // of a loop: it may end earlier; the last residual is how often it ran
    HloWindow window;               // of a window that selects
    HloComputation *select;
    const char *target;  // of a tridiagonal system: the custom call that solves it
} HloLinear;

// Sends and receives (jvp_transfers.c).
typedef struct HloTransfers {
    HloIntMap sending, receiving;           // ids of computations that send or receive, themselves or what they run
    const HloInstruction *sent, *received;  // one that sends what has a tangent; one that receives what matters
} HloTransfers;

// What all walks of one derivative share.
typedef struct HloJvpMemory {
    HloIntMap activities;  // by id of a computation: the list of what hlo_jvp_activity() has found
    HloTransfers transfers;
} HloJvpMemory;

// One forward walk.
typedef struct HloJvp {
    HloBuilder *b;
    HloArena *scratch;
    HloJvpMemory *memory;
    const HloDerivativeRule *rules;
    int64_t rule_count;
    bool split;
    HloRemat remat;             // what the backward parts of loops and branches may use
    bool ties_have_no_slope;    // the walk is in a function whose maximum has derivative 0 where both sides are equal
    HloIntMap primals;          // by old id: the new instruction
    HloIntMap tangents;         // by old id: an array of leaves, absent if all are zero
    HloIntMap needed;           // by old id: per leaf, whether its tangent is of use
    HloIntMap asked;            // by id of a computation: for which leaves of its result `needed` is
    HloIntMap linears;          // by new id: the HloLinear of a placeholder
    HloIntMap numbers;          // by old id: the position in its computation; only where jvp_cancel.c asks for it
    HloIntMap orthogonal;       // by old id of a QR decomposition: the tangent of Q
    HloIntMap factors;          // by new id of an LU decomposition, or of its factors: an HloFactorTangents
    HloIntMap solutions;        // by new id of a triangular solve: what hlo_transform_system_tangent() must know of it
    HloInt64Vector seeds;       // new ids of the instructions that represent the inputs' tangents
    const HloInstruction *old;  // the one that is being differentiated
    HloInstruction *result;     // its copy, once there is one
} HloJvp;

// What comes of the tangent A' of a matrix whose LU decomposition is P A = L U.
typedef struct HloFactorTangents {
    HloInstruction *matrix,
        *permutation;                   // A', and P as which row of A is row i of L U; NULL for factors from a branch
    HloInstruction *permuted, *solved;  // P A' and L^-1 P A' U^-1
    const HloInstruction *selector;     // of factors that branch `branch` of a conditional returned
    int64_t branch;
} HloFactorTangents;

// A derivative rule: sets the leaves of `out`, which are NULL before, to the tangent of j->old.
typedef void HloJvpRule(HloJvp *j, HloInstruction **out);
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    HloJvpRule hlo_jvp_##jvp;
#include "hlo/ops.def"
#undef HLO_OP

// Returns the pointer that a map holds for an instruction's id; NULL if it holds none.
static inline void *hlo_transform_lookup(const HloIntMap *map, const HloInstruction *instruction) {
    const int64_t *found = hlo_int_map_find(map, (uint64_t)instruction->id);
    return found ? (void *)(intptr_t)*found : NULL;
}
// Sets the pointer that a map holds for an instruction's id.
static inline void hlo_transform_store(HloArena *arena, HloIntMap *map, const HloInstruction *instruction,
                                       const void *value) {
    hlo_int_map_set(arena, map, (uint64_t)instruction->id, (int64_t)(intptr_t)value);
}

// The rule of an opcode.
HloJvpRule *hlo_jvp_rule(HloOpcode opcode);
// The new instruction for operand `index` of j->old.
HloInstruction *hlo_jvp_operand(const HloJvp *j, int64_t index);
// The new instruction for an old one that comes before j->old; NULL if there is none.
HloInstruction *hlo_jvp_primal_of(const HloJvp *j, const HloInstruction *old);
// The tangents of the leaves of an old instruction; NULL if all are zero.
HloInstruction **hlo_jvp_tangents_of(const HloJvp *j, const HloInstruction *old);
// The copy of j->old, appended at the first call.
HloInstruction *hlo_jvp_result(HloJvp *j);
// The tangent of operand `index`, an array; NULL for zero.
HloInstruction *hlo_jvp_tangent(const HloJvp *j, int64_t index);
// The tangents of the leaves of operand `index`; NULL if all are zero.
HloInstruction **hlo_jvp_tangents(const HloJvp *j, int64_t index);
// The tangent of operand `index`; zeros if it has none.
HloInstruction *hlo_jvp_tangent_or_zeros(HloJvp *j, int64_t index);
// Records an error about j->old.
void hlo_jvp_fail(HloJvp *j, HloCode code, const char *format, ...) HLO_PRINTF(3, 4);
// Appends j->old with other operands: those for which it is linear.
HloInstruction *hlo_jvp_apply(HloJvp *j, HloInstruction *const *operands, int64_t count);
// Differentiates `computation`, whose parameters are bound, into the builder. Sets *root to the new root, and
// tangents[] to the tangents of its leaves, at least of those that are needed (NULL: all).
void hlo_jvp_walk(HloJvp *j, const HloComputation *computation, const bool *needed, HloInstruction **root,
                  HloInstruction **tangents);
// Returns true for a call that is differentiated as its computation.
bool hlo_jvp_is_inlined(const HloJvp *j, const HloInstruction *i);
// Whether the tangents of the leaves of j->old are of use.
const bool *hlo_jvp_needed(const HloJvp *j);
// Sets into[k] if the tangent of leaf k of the computation's only parameter matters to a tangent of the leaves of its
// result that are needed.
void hlo_jvp_need(HloJvp *j, const HloComputation *computation, const bool *needed, bool *into);
// Finds the sends and receives of a module.
void hlo_jvp_find_transfers(HloArena *scratch, const HloModule *module, HloTransfers *transfers);
// True for an instruction that sends, or runs one that does, in a module that also receives.
bool hlo_jvp_sends(const HloJvp *j, const HloInstruction *i);
// Records an error if j->old receives, for leaves that are needed, what may depend on something that has a tangent and
// is sent.
void hlo_jvp_check_transfer(HloJvp *j, const bool *needed);
// The branch that the conditional j->old always takes; -1 if that is not known.
int64_t hlo_jvp_known_branch(const HloJvp *j);
// Differentiates `computation` in place of j->old, with the operands from `first` on as its arguments.
void hlo_jvp_inline(HloJvp *j, const HloComputation *computation, int64_t first, HloInstruction **out);
// Binds a parameter to a value and to the tangents of its leaves (NULL: all zero).
void hlo_jvp_bind(HloJvp *j, const HloInstruction *parameter, HloInstruction *value, HloInstruction **tangents);
// An instruction that represents an input's tangent until it is transposed.
HloInstruction *hlo_jvp_seed(HloJvp *j, const HloShape *shape);
// A placeholder with these residuals and tangents, whose result has leaves of `shapes`; `out` receives them.
void hlo_jvp_placeholder(HloJvp *j, const HloLinear *linear, HloInstruction *const *operands,
                         const HloShape *const *shapes, int64_t count, HloInstruction **out);
// Sets out[k] if leaf k of the computation's result has a tangent when the leaves of its parameters are active as in
// in[parameter][leaf] (NULL: none).
void hlo_jvp_activity(HloJvp *j, const HloComputation *computation, bool *const *in, bool *out);

// One backward walk.
struct HloTransposer {
    HloBuilder *b;
    HloArena *scratch;
    HloJvp *jvp;
    HloIntMap linear;                // ids of linear instructions
    HloInstructionVector order;      // the linear instructions
    bool is_inline;                  // residuals are in the same computation; else they are mapped:
    HloIntMap mapped;                // by id: the instruction of this computation
    HloIntMap cotangents;            // by id: an array of leaves
    HloInstruction *instruction;     // the one that is being transposed
    struct HloRegionQuery *queries;  // regions.c
    int64_t channel;                 // the next one that is free; 0: not known yet
};

// A transpose rule: adds to the cotangents of the linear operands of t->instruction; its own is `cotangent`.
typedef void HloTransposeRule(HloTransposer *t, HloInstruction *cotangent);
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    HloTransposeRule hlo_transpose_##transpose;
#include "hlo/ops.def"
#undef HLO_OP

// Finds the linear instructions of the walk.
void hlo_transposer_begin(HloTransposer *t);
// The residuals that transposing from these tangents needs, without those that are made again cheaply (constants and
// their broadcasts).
void hlo_transposer_residuals(HloTransposer *t, HloInstruction *const *tangents, int64_t count,
                              HloInstructionVector *residuals);
// A value of the forward part as the backward part sees it: itself, or what t->mapped has for it.
HloInstruction *hlo_transposer_map(HloTransposer *t, HloInstruction *value);
// The sums of the cotangents of the leaves of a linear instruction so far, which the caller may replace.
HloInstruction **hlo_transposer_cotangents(HloTransposer *t, const HloInstruction *linear);
// Adds to the cotangent of a linear instruction.
void hlo_transposer_add(HloTransposer *t, HloInstruction *linear, HloInstruction *cotangent);
// Transposes all linear instructions that have a cotangent.
void hlo_transposer_run(HloTransposer *t);
// The cotangent of an array, NULL for zero.
HloInstruction *hlo_transposer_cotangent(const HloTransposer *t, const HloInstruction *linear);
// Removes the linear instructions from their computation; nothing else uses them.
void hlo_transposer_remove_linear(HloTransposer *t);
// True if operand `index` of t->instruction is linear.
bool hlo_transposer_is_linear(const HloTransposer *t, int64_t index);
// Operand `index`, a residual.
HloInstruction *hlo_transposer_residual(HloTransposer *t, int64_t index);
// Adds to the cotangent of operand `index` if it is linear.
void hlo_transposer_give(HloTransposer *t, int64_t index, HloInstruction *cotangent);

// ---------------------------------------------------------------------------------------------------------------------
// Building blocks

// x times a number.
HloInstruction *hlo_transform_scale(HloBuilder *b, HloInstruction *x, double factor);
// a + b, where NULL is zero.
HloInstruction *hlo_transform_sum(HloBuilder *b, HloInstruction *a, HloInstruction *b2);
// Zeros of a shape.
HloInstruction *hlo_transform_zeros(HloBuilder *b, const HloShape *shape);
// Records an error about the instruction `at` in the builder; the message is formatted in `scratch`.
void hlo_transform_fail(HloBuilder *b, HloArena *scratch, const HloInstruction *at, HloCode code, const char *format,
                        va_list arguments);
// The leaves of a value, depth first.
void hlo_transform_leaves(HloBuilder *b, HloInstruction *value, HloInstruction **leaves);
// A value of `shape` (layouts ignored) from its leaves.
HloInstruction *hlo_transform_assemble(HloBuilder *b, const HloShape *shape, HloInstruction *const *leaves);
// Appends copies of a computation's instructions, applied to these arguments, and returns the root.
HloInstruction *hlo_transform_inline(HloBuilder *b, HloArena *scratch, const HloComputation *computation,
                                     HloInstruction *const *arguments);
// Runs body(argument), which appends to a new builder at *builder and sets *root, and finishes the computation.
HloStatus hlo_transform_build(HloModule *module, const char *name, HloStatus (*body)(void *), void *argument,
                              HloBuilder **builder, HloInstruction *const *root, HloComputation **computation);
// Takes the builder's error, so that the body of hlo_transform_build() can return it.
HloStatus hlo_transform_status(HloBuilder *b);
// Removes instructions that nothing uses and merges identical ones.
void hlo_transform_tidy(HloComputation *computation, HloArena *scratch);
// True for element types that have derivatives: floats and complex numbers.
static inline bool hlo_transform_is_continuous(HloType type) {
    HloTypeKind kind = hlo_type_kind(type);
    return kind == HLO_KIND_FLOAT || kind == HLO_KIND_COMPLEX;
}

#endif
