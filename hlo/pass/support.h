// SPDX-License-Identifier: Apache-2.0
// Helpers shared by passes: creating instructions next to others, replacing them, and examining constants.
#ifndef MESHLO_HLO_PASS_SUPPORT_H_
#define MESHLO_HLO_PASS_SUPPORT_H_

#include "hlo/ir/builder.h"
#include "hlo/ir/infer/support.h"
#include "hlo/pass/pass.h"

// More elements than any program has in one array: expansions, which may need wider types than the op they replace,
// leave larger arrays unchanged.
#define HLO_PASS_MANY (INT64_C(1) << 48)

// Makes an instruction in the computation of `like`, with the metadata of `like`. The shape is inferred;
// `request->shape`, `type` and `dims` are as in hlo_build(). A request must be valid by construction: it is a bug if
// inference refuses it.
HloInstruction *hlo_pass_make(const HloInstruction *like, const HloBuildRequest *request);
// An op with one operand and no attributes. Like all ops below, it is created next to `like`.
HloInstruction *hlo_pass_unary(const HloInstruction *like, HloOpcode opcode, HloInstruction *x);
// An op with two operands and no attributes.
HloInstruction *hlo_pass_binary(const HloInstruction *like, HloOpcode opcode, HloInstruction *a, HloInstruction *b);
// on_true where `predicate` is true, else on_false.
HloInstruction *hlo_pass_select(const HloInstruction *like, HloInstruction *predicate, HloInstruction *on_true,
                                HloInstruction *on_false);
// Compares by HLO_ComparisonDirection_* in the natural order of the type.
HloInstruction *hlo_pass_compare(const HloInstruction *like, HloInstruction *a, HloInstruction *b, int32_t direction);
// x converted to another element type.
HloInstruction *hlo_pass_convert(const HloInstruction *like, HloInstruction *x, HloType type);
// x with other sizes.
HloInstruction *hlo_pass_reshape(const HloInstruction *like, HloInstruction *x, HloInts dims);
// x with its dimensions permuted.
HloInstruction *hlo_pass_transpose(const HloInstruction *like, HloInstruction *x, HloInts permutation);
// x repeated to `dims`; its dimension i becomes dimension mapping.items[i].
HloInstruction *hlo_pass_broadcast(const HloInstruction *like, HloInstruction *x, HloInts dims, HloInts mapping);
// x[starts : limits : strides].
HloInstruction *hlo_pass_slice(const HloInstruction *like, HloInstruction *x, HloInts starts, HloInts limits,
                               HloInts strides);
// x[start : limit] along one dimension, in x's layout; x itself where that is all of it.
HloInstruction *hlo_pass_slice_along(const HloInstruction *like, HloInstruction *x, int64_t dim, int64_t start,
                                     int64_t limit);
// Element `index` of a tuple.
HloInstruction *hlo_pass_get(const HloInstruction *like, HloInstruction *tuple, int64_t index);
// A tuple.
HloInstruction *hlo_pass_tuple(const HloInstruction *like, HloInstruction *const *operands, int64_t count);
// A scalar constant, exact for integers below 2^53.
HloInstruction *hlo_pass_scalar(const HloInstruction *like, HloType type, double value);
// A scalar constant of an integer type or pred, exact up to 64 bits.
HloInstruction *hlo_pass_integer(const HloInstruction *like, HloType type, int64_t value);
// An array with the same value everywhere.
HloInstruction *hlo_pass_splat(const HloInstruction *like, HloType type, HloInts dims, double value);
// True if the dims of two arrays are equal; types and layouts are not compared.
static inline bool hlo_same_dims(const HloShape *a, const HloShape *b) {
    return hlo_ints_equal(hlo_shape_dims(a), hlo_shape_dims(b));
}
// True for a scalar repeated everywhere, which is compatible with every other broadcast and can have any sizes.
static inline bool hlo_pass_repeats_scalar(const HloInstruction *i) {
    return i->opcode == HLO_OP_BROADCAST && i->operands[0]->shape->rank == 0;
}
// True if a list of dimensions is 0, 1, 2 …
bool hlo_pass_is_identity(HloInts dimensions);
// True for a reshape, and for a broadcast that only adds dimensions of size 1, as JAX writes it: the result has the
// same elements as the operand, in the same order.
bool hlo_pass_is_view(const HloInstruction *instruction);
// The inverse permutation.
HloInts hlo_pass_inverse(const HloInstruction *like, HloInts permutation);
// A list of `count` zeros in the module's arena, to be filled in.
int64_t *hlo_pass_ints(const HloInstruction *like, int64_t count);

// A walk over the current instructions of a module, computation by computation: instructions that a pass creates on the
// way are not visited. The one that hlo_pass_next() returned last may be removed, and anything appended; the next one
// must stay until it has been returned.
//
//     HloPassWalk walk = hlo_pass_walk(module);
//     for (HloInstruction *i; (i = hlo_pass_next(&walk));) *changed |= rewrite(i);
typedef struct HloPassWalk {
    const HloModule *module;
    int64_t computation, computation_count;  // the current one; the number at the beginning
    HloInstruction *next, *last;             // of the current computation; NULL: it is finished
} HloPassWalk;

// A walk that has not started.
HloPassWalk hlo_pass_walk(const HloModule *module);
// The next instruction, or NULL at the end.
HloInstruction *hlo_pass_next(HloPassWalk *walk);

// A rewrite of one instruction; returns whether it changed the module.
typedef bool HloPassRewrite(HloInstruction *instruction, const HloPassEnv *env);
// Runs a rewrite over hlo_pass_walk(module), and resets the scratch memory after each instruction. Sets *changed if one
// of them changed the module. Always succeeds: it is the whole of a pass.
HloStatus hlo_pass_each(HloModule *module, const HloPassEnv *env, HloPassRewrite *rewrite, bool *changed);

// True if an instruction may be replaced by something else: no control edges, no effects, no half of an asynchronous
// op.
bool hlo_pass_may_replace(const HloInstruction *instruction);
// Replaces every use of `old` by `replacement` and removes `old`, for which hlo_pass_may_replace() must be true. A
// sharding of `old` and its frontend attributes move over. False, and nothing replaced, if the shapes differ (layouts
// aside) or they cannot move.
bool hlo_pass_replace(HloInstruction *old, HloInstruction *replacement);

// Computes equal users of `value` once, and what becomes equal because of that, as the pass "cse" does. The users
// before number `first` differ from each other. Of two equal ones the one with the smaller id stays.
void hlo_pass_share_users(HloInstruction *value, int64_t first, HloArena *scratch);

// True if some frontend attribute belongs to XLA or Shardy ("xla.…", "mhlo.…").
bool hlo_pass_has_partitioner_attributes(const HloInstruction *instruction);
// True for equal frontend attributes in the same order.
bool hlo_pass_same_frontend_attributes(const HloInstruction *a, const HloInstruction *b);

// True if all elements are `value` (a small number that every type can represent). -0 is not 0.
bool hlo_pass_is_all(const HloInstruction *instruction, double value);
// True if every bit of every element is one (pred: true).
bool hlo_pass_is_all_ones(const HloInstruction *instruction);
// Sets *value to that of a scalar integer or pred constant; false for other instructions.
bool hlo_pass_integer_value(const HloInstruction *instruction, int64_t *value);

// Copies the instructions of `body` into the computation of `like`, with `arguments` for its parameters, and returns
// the copy of the root. Called computations are shared; effects and control edges are copied.
HloInstruction *hlo_pass_inline(HloInstruction *like, const HloComputation *body, HloInstruction *const *arguments,
                                HloArena *scratch);

// Calls `change` for each instruction with this opcode, in called computations before those that call them. It may
// replace the instruction; the scratch memory that it takes is free afterwards. Returns whether any call returned true.
bool hlo_pass_change_each(HloModule *module, const HloPassEnv *env, HloOpcode opcode,
                          bool (*change)(HloInstruction *instruction, const HloPassEnv *env));

// The start that the second half of an asynchronous op waits for, through updates. NULL for other ops, and if anything
// outside the chain refers to a link of it.
HloInstruction *hlo_pass_async_start_of(const HloInstruction *done);
// Replaces the second half and its start by the synchronous op. False, with nothing done, if there is no such start or
// if control edges order the halves relative to other instructions.
bool hlo_pass_join_async(HloInstruction *done);

#endif
