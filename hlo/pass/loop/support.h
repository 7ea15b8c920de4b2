// SPDX-License-Identifier: Apache-2.0
// Loops with a tuple as their state, in the form that the loop passes rewrite.
#ifndef MESHLO_HLO_PASS_LOOP_SUPPORT_H_
#define MESHLO_HLO_PASS_LOOP_SUPPORT_H_

#include "hlo/pass/support.h"

// True if `loop` is a while whose condition and body have no other caller, whose state is a tuple that is only taken
// apart (in both), and whose body ends in a tuple; without control edges, and without a sharding of any of these.
bool hlo_pass_is_plain_loop(const HloInstruction *loop);
// The parameter of the loop's condition (0) or body (1).
HloInstruction *hlo_pass_loop_parameter(const HloInstruction *loop, int64_t called);
// Element `index` of the loop's initial state: the tuple's operand, or a new get-tuple-element.
HloInstruction *hlo_pass_loop_initial(HloInstruction *loop, int64_t index);
// Gives the loop, its condition and its body the state `elements`, starting from a tuple `initial` of that shape. The
// caller has changed the body's root.
void hlo_pass_loop_set_state(HloInstruction *loop, const HloShape *state, HloInstruction *initial);
// True if only get-tuple-elements read the loop's result, so that its elements may get other numbers.
bool hlo_pass_loop_may_renumber(const HloInstruction *loop);
// Gives a plain loop that may be renumbered the state of its elements `elements[0]`, `elements[1]` ...: it leaves out
// the others, which nothing needs. Every get-tuple-element of the state, inside and outside, is renumbered.
void hlo_pass_loop_keep_elements(HloInstruction *loop, const int64_t *elements, int64_t count, HloArena *scratch);
// Replaces invariant elements of a plain loop that start as constants, or as a repeated one, by constants inside it.
// The elements remain, without readers in the body but its root.
bool hlo_pass_loop_sink_constants(HloInstruction *loop);
// Replaces a loop by `result`, and removes it. False if its sharding cannot move.
bool hlo_pass_loop_replace(HloInstruction *loop, HloInstruction *result);
// Removes unused instructions of a computation that have no effect.
void hlo_pass_remove_unused(HloComputation *computation);

#endif
