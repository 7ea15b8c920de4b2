// SPDX-License-Identifier: Apache-2.0
// Chains of slices, pads, concatenations and reversals, which each move elements along a dimension, as one op that
// moves them once.
#ifndef MESHLO_SPMD_PARTITIONER_CHAIN_H_
#define MESHLO_SPMD_PARTITIONER_CHAIN_H_

#include "spmd_partitioner/spmd.h"

// Marks a select-and-scatter whose padding was an array's: its elements may be selected. The value is "true".
#define SPMD_EXPLICIT_PADDING "meshlo.explicit_padding"

// True if another op may be computed from this one's operand instead of from its result. It has an operand.
bool spmd_is_link(const HloInstruction *at);
// The same whatever the op's annotation is.
bool spmd_is_free_to_move(const HloInstruction *at);

// True of an op that computes each element of the same elements of its operands, or of a scalar, and may do so of
// others.
bool spmd_is_elementwise(const HloInstruction *at);

// Returns the one dimension in which a slice of `whole` has another size; -1 if there are several or none.
int64_t spmd_sliced_dim(const HloShape *part, const HloShape *whole);

// Returns the array that `at` is with dimensions of one element added; `at` itself where it adds none. Dimension d of
// it is places[d] of `at`, which has room for the dimensions of `at`.
const HloInstruction *spmd_without_added(const HloInstruction *at, int32_t *places);

// True if `at` and a pad before it are one op over a window (padded_window.c).
bool spmd_is_padded_window(const HloInstruction *at);
// That op, before `at`, with its annotations.
HloInstruction *spmd_join_padded_window(HloInstruction *at);

// True if `at` updates a large part of an array at a known place (placed_window.c).
bool spmd_is_placed_window(const HloInstruction *at);
// What computes the same by moving the update to its place, before `at`, with its annotations.
HloInstruction *spmd_join_placed_window(HloInstruction *at);

// True if a computation has two reversals or more.
bool spmd_has_reversals(const HloModule *module);
// Computes what is between reversals of the same dimensions from the other end, without them (reversed.c). Intermediate
// arrays with a sharding of their own stay as they are. Memory errors jump to hlo_protect().
void spmd_join_reversals(HloModule *module);

// True if spmd_join_chains() would find something to do.
bool spmd_has_chains(const HloModule *module);
// Replaces each chain by one op of the same result. Intermediate arrays with a sharding of their own end a chain. Keeps
// what becomes unused: it is not partitioned. Memory errors jump to hlo_protect().
void spmd_join_chains(HloModule *module);

#endif
