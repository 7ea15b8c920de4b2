// SPDX-License-Identifier: Apache-2.0
// Computations that are differentiated by themselves: bodies of loops, and branches.
#ifndef MESHLO_HLO_TRANSFORM_CONTROL_H_
#define MESHLO_HLO_TRANSFORM_CONTROL_H_

#include "hlo/transform/internal.h"

// The result of splitting a computation with one parameter.
typedef struct HloTransformSplit {
    HloComputation *forward;   // parameter -> (leaves of the result..., residuals...)
    HloComputation *backward;  // (residuals..., cotangents of the active result leaves...) -> (of the active parameter
                               // leaves...)
    int64_t residual_count;
    const HloShape *const *residuals;  // their shapes
    const int64_t *leaves;             // per residual: the leaf of the parameter that it is, or -1
    const bool *is_offloaded;          // per residual: it waits in host memory
    const bool *is_invariant;          // of a loop, per leaf of the parameter: the body returns it as it was
} HloTransformSplit;

// Leaves of the parameter and of the result of a computation that are the packed factors of LU decompositions, P A =
// L U. Instead of their tangents the computation takes and returns P A', for systems need no other.
typedef struct HloTransformFactors {
    bool *taken, *returned;  // `taken` is NULL where none is
} HloTransformFactors;

// Splits `computation`, given which leaves of its parameter are active and which leaves of its result get a cotangent.
// `repeats`: it is the body of a loop. `factors` is NULL where there are none. False, and the builder has an error, if
// that fails.
bool hlo_transform_split(HloJvp *j, const HloComputation *computation, const bool *active_in, const bool *active_out,
                         const HloTransformFactors *factors, bool repeats, HloTransformSplit *split);
// The forward derivative of `computation` in the same terms: (leaves of the parameter..., tangents of the active
// ones...) as one tuple -> (leaves of the result..., tangents of the active ones...). NULL, and the builder has an
// error, if that fails.
HloComputation *hlo_transform_forward(HloJvp *j, const HloComputation *computation, const bool *active_in,
                                      const bool *active_out, const HloTransformFactors *factors);
// The tangents of a while of unknown length whose elements do not depend on each other (jvp_lanes.c), given which
// leaves of its state are active; false, and nothing has happened, for any other.
bool hlo_transform_lanes(HloJvp *j, const bool *active, HloInstruction **out);
// Which leaves of a value of `shape` have tangents.
bool *hlo_control_flags(HloJvp *j, HloInstruction *const *tangents, const HloShape *shape);
// Appends the tangents of the active leaves of operand `index`, zeros where it has none.
void hlo_control_push_tangents(HloJvp *j, int64_t index, const bool *active, HloInstructionVector *list);
// Appends the leaves of a value.
void hlo_control_push_leaves(HloJvp *j, HloInstruction *value, HloInstructionVector *list);
// Sets j->result, and its tangents unless `out` is NULL, from a tuple of (leaves..., tangents of the active ones...).
void hlo_control_unpack(HloJvp *j, HloInstruction *tuple, const bool *active, HloInstruction **out);
// Appends a placeholder that returns the tangents of the active leaves of j->old.
void hlo_control_place(HloJvp *j, const HloLinear *linear, HloInstruction *const *operands, const bool *active,
                       HloInstruction **out);
// The cotangents of a placeholder's results, zeros where there are none.
HloInstruction **hlo_control_filled(HloTransposer *t, HloInstruction *const *cotangents);
// Gives elements `first` and following of a tuple to the tangents among a placeholder's operands.
void hlo_control_give(HloTransposer *t, const HloLinear *linear, HloInstruction *tuple, int64_t first);
// The leaf of `parameter` that a value is, or -1.
int64_t hlo_transform_parameter_leaf(const HloInstruction *parameter, const HloInstruction *value);
// The number of true flags.
int64_t hlo_transform_count(const bool *flags, int64_t count);

#endif
