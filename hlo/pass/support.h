// SPDX-License-Identifier: Apache-2.0
// What passes share: making instructions beside others, replacing them, and looking at constants.
#ifndef MESHLO_HLO_PASS_SUPPORT_H_
#define MESHLO_HLO_PASS_SUPPORT_H_

#include "hlo/ir/builder.h"
#include "hlo/ir/infer/support.h"
#include "hlo/pass/pass.h"

// More elements than any program has in one array: expansions, which may need wider types than the op they replace,
// leave such arrays alone.
#define HLO_PASS_MANY (INT64_C(1) << 48)

// Makes an instruction in the computation of `like`, with the sharding and metadata of `like`. The shape is inferred;
// `request->shape`, `type` and `dims` are as in hlo_build(). What a pass makes is right by construction: it is a bug
// when inference refuses it.
HloInstruction *hlo_pass_make(const HloInstruction *like, const HloBuildRequest *request);
// Ops that passes make often, all beside `like`: one of one operand and no attributes.
HloInstruction *hlo_pass_unary(const HloInstruction *like, HloOpcode opcode, HloInstruction *x);
// An op of two operands and no attributes.
HloInstruction *hlo_pass_binary(const HloInstruction *like, HloOpcode opcode, HloInstruction *a, HloInstruction *b);
// on_true where `predicate`, else on_false.
HloInstruction *hlo_pass_select(const HloInstruction *like, HloInstruction *predicate, HloInstruction *on_true,
                                HloInstruction *on_false);
// HLO_ComparisonDirection_* in the order natural to the type.
HloInstruction *hlo_pass_compare(const HloInstruction *like, HloInstruction *a, HloInstruction *b, int32_t direction);
// x with another element type.
HloInstruction *hlo_pass_convert(const HloInstruction *like, HloInstruction *x, HloType type);
// x in other sizes.
HloInstruction *hlo_pass_reshape(const HloInstruction *like, HloInstruction *x, HloInts dims);
// x with its dimensions permuted.
HloInstruction *hlo_pass_transpose(const HloInstruction *like, HloInstruction *x, HloInts permutation);
// x repeated to `dims`; its dimension i becomes dimension mapping.items[i].
HloInstruction *hlo_pass_broadcast(const HloInstruction *like, HloInstruction *x, HloInts dims, HloInts mapping);
// x[starts : limits : strides].
HloInstruction *hlo_pass_slice(const HloInstruction *like, HloInstruction *x, HloInts starts, HloInts limits,
                               HloInts strides);
// Element `index` of a tuple.
HloInstruction *hlo_pass_get(const HloInstruction *like, HloInstruction *tuple, int64_t index);
// A tuple.
HloInstruction *hlo_pass_tuple(const HloInstruction *like, HloInstruction *const *operands, int64_t count);
// A scalar constant, exact for integers below 2^53.
HloInstruction *hlo_pass_scalar(const HloInstruction *like, HloType type, double value);
// A scalar constant of an integer type or pred, exact to 64 bits.
HloInstruction *hlo_pass_integer(const HloInstruction *like, HloType type, int64_t value);
// An array with one value everywhere.
HloInstruction *hlo_pass_splat(const HloInstruction *like, HloType type, HloInts dims, double value);
// The sizes of an array shape.
static inline HloInts hlo_shape_dims(const HloShape *shape) {
    return (HloInts){shape->dims, shape->rank};
}
// Whether the dims of two arrays are equal; types and layouts are not compared.
static inline bool hlo_same_dims(const HloShape *a, const HloShape *b) {
    return hlo_ints_equal(hlo_shape_dims(a), hlo_shape_dims(b));
}
// Whether a list of dimensions is 0, 1, 2 …
bool hlo_pass_is_identity(HloInts dimensions);
// The permutation that undoes this one.
HloInts hlo_pass_inverse(const HloInstruction *like, HloInts permutation);
// A list of `count` numbers, zeroed, in the module's arena, to be filled.
int64_t *hlo_pass_ints(const HloInstruction *like, int64_t count);

// A walk over the instructions that are in a module now, computation by computation: what a pass makes on the way is
// not visited. The one that hlo_pass_next() gave last may be removed, and anything appended; the one behind it must
// stay until it was given.
//
//     HloPassWalk walk = hlo_pass_walk(module);
//     for (HloInstruction *i; (i = hlo_pass_next(&walk));) *changed |= rewrite(i);
typedef struct HloPassWalk {
    const HloModule *module;
    int64_t computation, computation_count;  // the one at hand; those there were at the beginning
    HloInstruction *next, *last;             // of the computation at hand; NULL: it is done
} HloPassWalk;

// A walk that has not begun.
HloPassWalk hlo_pass_walk(const HloModule *module);
// The next instruction, or NULL at the end.
HloInstruction *hlo_pass_next(HloPassWalk *walk);

// True when an instruction may be replaced by something else: no control edges, no effects, no async half.
bool hlo_pass_may_replace(const HloInstruction *instruction);
// Replaces every use of `old` by `replacement` and removes `old`, which must be hlo_pass_may_replace(). A sharding of
// `old` and its frontend attributes move over. False, and nothing replaced, when the shapes differ (layouts aside) or
// they cannot move.
bool hlo_pass_replace(HloInstruction *old, HloInstruction *replacement);

// True if some frontend attribute is one of XLA or Shardy ("xla.…", "mhlo.…").
bool hlo_pass_has_partitioner_attributes(const HloInstruction *instruction);
// Equal frontend attributes in the same order.
bool hlo_pass_same_frontend_attributes(const HloInstruction *a, const HloInstruction *b);

// True if `instruction` is a constant, or a broadcast of one, with the same value everywhere; *literal and *index say
// where the value stands.
bool hlo_pass_is_splat(const HloInstruction *instruction, const HloLiteral **literal);
// True if all elements are `value` (a small number that every type holds). -0 is not 0.
bool hlo_pass_is_all(const HloInstruction *instruction, double value);
// True if every bit of every element is one (pred: true).
bool hlo_pass_is_all_ones(const HloInstruction *instruction);
// A scalar integer or pred constant's value.
bool hlo_pass_integer_value(const HloInstruction *instruction, int64_t *value);

// Copies the instructions of `body` into the computation of `like`, parameters replaced by `arguments`, and returns the
// copy of the root. Called computations are shared; effects and control edges are copied.
HloInstruction *hlo_pass_inline(HloInstruction *like, const HloComputation *body, HloInstruction *const *arguments,
                                HloArena *scratch);

// The start that the second half of an asynchronous op waits for, through updates. NULL for other ops, and when
// anything else refers to a link of the chain.
HloInstruction *hlo_pass_async_start_of(const HloInstruction *done);
// Puts the whole op in the place of the second half and its start. False, with nothing done, where there is no such
// start or control edges order the halves among others.
bool hlo_pass_join_async(HloInstruction *done);

#endif
