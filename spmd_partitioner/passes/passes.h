// SPDX-License-Identifier: Apache-2.0
// What runs after partitioning, each pass in its own file. They keep reasons: what replaces a collective carries its
// attributes. Memory errors jump to hlo_protect().
#ifndef MESHLO_SPMD_PARTITIONER_PASSES_PASSES_H_
#define MESHLO_SPMD_PARTITIONER_PASSES_PASSES_H_

#include "spmd_partitioner/costs.h"
#include "spmd_partitioner/spmd.h"

// Runs the passes in order, but for those of a program whose transfers overlap. What loops stack up leaves them if it
// has at most `most_stacked` bytes; *stacks says whether there was any.
HloStatus spmd_run_passes(HloModule *module, const SpmdOptions *options, int64_t most_stacked, bool *stacks,
                          HloArena *scratch);

// One instruction for several that do the same to the same operands, collectives too.
HLO_NODISCARD HloStatus spmd_merge_collectives(HloModule *module, HloArena *scratch);
// Sends arrays before they are converted to a wider type, or after they are converted to a narrower one.
void spmd_narrow_collectives(HloModule *module, HloArena *scratch);
// Has permutes send elements of the arrays that they come from, not of those that pads, concatenations, slices and sums
// with zeros put them into. True if any permute changed.
bool spmd_trace_permutes(HloModule *module, HloArena *scratch);
// Sends what several permutes with the same pairs take of one array once.
void spmd_share_permutes(HloModule *module, HloArena *scratch);
// Moves collectives of loop-invariant arrays out of loops; the result is carried along. True if there were any.
bool spmd_hoist_collectives(HloModule *module, HloArena *scratch);
// The sum or difference of two sums over the same devices becomes one such sum, of the parts; and a sum along
// dimensions of one is made of the parts before they are added up.
void spmd_join_sums(HloModule *module);
// Sums that a loop adds up are finished once, after the loop.
void spmd_accumulate_parts(HloModule *module, HloArena *scratch);
// What a loop stacks up after it was sent is sent once, after the loop, if the stack has at most `most` bytes. True if
// there was any.
bool spmd_stack_parts(HloModule *module, int64_t most, HloArena *scratch);
// An all-reduce of which each device keeps only its slice becomes a reduce-scatter.
void spmd_form_reduce_scatters(HloModule *module, HloArena *scratch);
// The largest array that gains from being sent with others, in bytes: about what a device sends during the latency of a
// gather on a ring of sixteen chips (emulator/chips.def: 15 steps of 1.9 us at 45 GB/s).
enum { SPMD_SMALL_BYTES = 1 << 20 };
// The attributes of a collective with 1 for the number of its channel: numbers only tell collectives apart, but with a
// channel the groups are of partitions, and without one of replicas. Compare them by hlo_attributes_equal().
typedef union SpmdExchange {
    HloCollectiveAttributes collective;
    HloPermuteAttributes permute;
} SpmdExchange;
// Of an instruction whose family is Collective or Permute.
SpmdExchange spmd_exchange_of(const HloInstruction *at);
// Joins independent collectives of one kind into one: all-reduces up to `limit` bytes, others if they are small.
void spmd_combine_collectives(HloModule *module, HloArena *scratch, int64_t limit);
// Takes joined all-reduces apart again: beside other work the first of them may begin earlier.
void spmd_separate_sums(HloModule *module);
// Whether there are any.
bool spmd_has_joined_sums(const HloModule *module);
// Multiplies parts of arrays as they come from the neighbours, in place of one product after a gather or before a
// reduce-scatter, where the machine of `costs` takes less time for that because transfers run beside products. Without
// a machine nothing changes. RESOURCE_EXHAUSTED when memory is short.
HLO_NODISCARD HloStatus spmd_window_products(HloModule *module, const SpmdCosts *costs, HloArena *scratch);
// Cuts all-to-alls, and the products that wait for them or whose results they take away, into parts that run beside
// each other, where the machine of `costs` takes less time for that. Without a machine nothing changes.
// RESOURCE_EXHAUSTED when memory is short.
HLO_NODISCARD HloStatus spmd_part_exchanges(HloModule *module, const SpmdCosts *costs, HloArena *scratch);
// Gathers and adds up small arrays over many devices in stages over parts of the groups, where the machine of `costs`
// takes less time for that. Without a machine nothing changes.
void spmd_stage_collectives(HloModule *module, const SpmdCosts *costs, HloArena *scratch);
// Has a program that counts devices by their positions in a mesh of this order count them by their numbers.
HLO_NODISCARD HloStatus spmd_number_devices(HloModule *module, const SpmdDeviceOrder *order, HloArena *scratch);
// Splits all-gathers, all-reduces and permutes into start and done, so that computation runs beside them. The done
// comes just before the first user. The start comes after the operand; that of a gather only as early as it must to
// arrive in time. RESOURCE_EXHAUSTED when memory is short.
HLO_NODISCARD HloStatus spmd_make_async(HloModule *module, HloArena *scratch);

// What was there before a pass: its instructions have smaller ids than those that the pass makes.
typedef struct SpmdSnapshot {
    int64_t limit;    // of the ids
    int64_t *places;  // by id: the place of an instruction in its computation
    double *flops;    // by id: of a product
} SpmdSnapshot;
// Takes the snapshot of a module, in `scratch`. RESOURCE_EXHAUSTED when memory is short.
HLO_NODISCARD HloStatus spmd_take_snapshot(const HloModule *module, HloArena *scratch, SpmdSnapshot *snapshot);
// Whether an instruction was there.
bool spmd_was_there(const SpmdSnapshot *snapshot, const HloInstruction *at);

// The largest share of the time of transfers and products, one after the other, that parts of them may take. The rest
// is a margin for what the times leave out: other work may already hide a part of the transfers.
#define SPMD_PARTS_PAY 0.95
// Whether an array depends on what the program has computed just before, so that it cannot be sent ahead of time.
bool spmd_comes_late(const HloInstruction *array);
// Whether everything that is made of an array leaves the computation: what finishes it has the rest of the program's
// time.
bool spmd_result_leaves(const HloInstruction *array);
// Whether a pass may add to what a loop carries: start and result are written out as tuples, and its computations are
// its own.
bool spmd_loop_may_change(const HloInstruction *loop);
// Whether a pass may replace a collective: it has one operand, control dependencies do not fix its place, and the
// partitioner made it (it has a reason). The program's own collectives stay as they were written.
bool spmd_may_replace(const HloInstruction *collective);
// The only instruction that reads element `index` of a tuple; NULL if there are several, or the tuple has other users.
HloInstruction *spmd_only_read(const HloInstruction *tuple, int64_t index);
// Whether nothing reads element `index` of a tuple.
bool spmd_is_unread(const HloInstruction *tuple, int64_t index);
// The instruction whose sum `at` is when it is applied to parts; NULL if it is none.
HloInstruction *spmd_linear_operand(const HloInstruction *at);
// Whether an array is zero everywhere, by a constant.
bool spmd_is_zero(const HloInstruction *at);
// A copy of a collective that works on `parts`, with the result `shape`, which may have another type: an all-reduce
// then adds in that type. It must move to its place.
HloInstruction *spmd_clone_sum(const HloInstruction *sum, HloInstruction *parts, const HloShape *shape);
// Whether a reducer is the sum of its two parameters.
bool spmd_adds(const HloComputation *reducer);
// Removes `instruction` and what only it used.
void spmd_remove_unused(HloInstruction *instruction);
// The same shape with `size` elements along dimension `dim`, static and in the default layout.
const HloShape *spmd_shape_resized(HloArena *arena, const HloShape *shape, int64_t dim, int64_t size);
// Gives `to`, which takes the place of `from`, its sharding and frontend attributes; those that `to` has otherwise, as
// its reason, stay.
void spmd_take_annotations(HloInstruction *to, const HloInstruction *from);
// Adds the reason of `from` to that of `to`.
void spmd_join_reasons(HloInstruction *to, const HloInstruction *from);

#endif
