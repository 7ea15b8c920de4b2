// SPDX-License-Identifier: Apache-2.0
// Internals of vmap: a walk that appends each instruction once, with one more dimension, the first, where an operand
// has it. Values are kept leaf by leaf, so that an element of a tuple can be batched when others are not.
#ifndef MESHLO_HLO_TRANSFORM_BATCH_H_
#define MESHLO_HLO_TRANSFORM_BATCH_H_

#include "hlo/transform/internal.h"

// One walk.
typedef struct HloBatch {
    HloBuilder *b;
    HloArena *scratch;
    int64_t size;      // of the new dimension
    const char *axis;  // the name of the new dimension for collectives; NULL: none
    HloIntMap values;  // by old id: an array of leaves
    HloIntMap flags;   // by old id: per leaf, whether it is batched
    const HloInstruction *old;
    bool *out_flags;  // of the current instruction; all true unless its rule changes them
} HloBatch;

// A rule: sets the leaves of j->old's result.
typedef void HloBatchRule(HloBatch *v, HloInstruction **out);
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    HloBatchRule hlo_batch_##batching;
#include "hlo/ops.def"
#undef HLO_OP

// The leaves of operand `index` as they are.
HloInstruction **hlo_batch_leaves(const HloBatch *v, int64_t index);
// True if any leaf of operand `index` is batched.
bool hlo_batch_has(const HloBatch *v, int64_t index);
// Operand `index`, an array, as it is.
HloInstruction *hlo_batch_plain(const HloBatch *v, int64_t index);
// Operand `index`, an array, batched: repeated if it is not.
HloInstruction *hlo_batch_operand(HloBatch *v, int64_t index);
// x repeated along a new first dimension.
HloInstruction *hlo_batch_repeat(HloBatch *v, HloInstruction *x);
// x with dimension `from` moved to `to`.
HloInstruction *hlo_batch_move_dimension(HloBuilder *b, HloInstruction *x, int64_t from, int64_t to);
// The batched form of a shape without layout.
const HloShape *hlo_batch_shape(const HloBatch *v, const HloShape *shape);
// Appends v->old with other operands and attributes (NULL: its own), with the batched form of its shape.
HloInstruction *hlo_batch_clone(HloBatch *v, HloInstruction *const *operands, const void *attributes);
// A list with `first` before its items, which are moved by one; `first` is left out if negative.
HloInts hlo_batch_shift(const HloBatch *v, HloInts list, int64_t first);
// A list with `first` before its items, which stay.
HloInts hlo_batch_prepend(const HloBatch *v, HloInts list, int64_t first);
// True for a collective over the new dimension.
bool hlo_batch_is_over_axis(const HloBatch *v, const HloInstruction *i);
// Records an error about v->old.
void hlo_batch_fail(HloBatch *v, const char *format, ...) HLO_PRINTF(2, 3);
// Sets the value of a parameter.
void hlo_batch_bind(HloBatch *v, const HloInstruction *parameter, HloInstruction **leaves, bool *flags);
// Appends a computation whose parameters are bound; sets the leaves of its root, and which are batched.
void hlo_batch_walk(HloBatch *v, const HloComputation *computation, HloInstruction **leaves, bool *flags);
// The body of a loop or branch: takes the leaves of its parameter in a flat tuple, batched as `in` says, and returns a
// flat tuple; leaves that `out` has set are batched, and others that have to be are set by the call. NULL after an
// error.
HloComputation *hlo_batch_computation(HloBatch *v, const HloComputation *computation, const bool *in, bool *out);

#endif
