// SPDX-License-Identifier: Apache-2.0
// Products whose summed dimension is sharded alike on both sides. Each device then has a part of every element of the
// result, which an all-reduce adds up. Where the result is large it is cheaper to exchange the operands first, so that
// the result is sharded along a batch or free dimension instead. The same holds for ops that need a dimension whole.
#ifndef MESHLO_SPMD_PARTITIONER_CONTRACTION_H_
#define MESHLO_SPMD_PARTITIONER_CONTRACTION_H_

#include "spmd_partitioner/contest.h"

// Whether an op multiplies and adds: a dot or a convolution.
bool spmd_is_product(const HloInstruction *op);
// The multiply-adds of a product on one device, if its factors have these axes; 0 for other ops. In doubles: products
// of sizes may leave 64 bits.
double spmd_local_points(const SpmdRule *rule, const SpmdMesh *mesh, const SpmdAxes *factors);
// True of a conversion after which parts of a sum may be added up as well as before it: of floating-point numbers, to a
// type that has them all.
bool spmd_keeps_sum(const HloInstruction *convert);
// True if the sum that `op` leaves on each device is added up by the loop around it, so that one collective after the
// loop finishes it (passes/accumulate.c).
bool spmd_sum_waits(const HloInstruction *op);
// The largest array, in bytes, that a device carries whole through a loop for the sake of fewer reduce-scatters.
enum { SPMD_CARRIED_WHOLE = 64 << 20 };
// Whether everything that is made of a result leaves the program, or the iteration of a loop, at most rearranged or
// combined element by element: a gradient, or the update of a weight. Nothing says then that its parts may be apart:
// what is saved before would be sent after it, and people expect the one all-reduce of data parallelism.
bool spmd_only_leaves(const HloInstruction *op);
// The axes that shard a summed dimension of both operands of a product alike; none if there is no such dimension.
SpmdAxes spmd_contracted_axes(const SpmdConsequences *consequences, const SpmdNode *node);
// Dimensions of a product's result, with the axes that they should have: one, or two that share the axes.
typedef struct SpmdUncontracted {
    int32_t count;
    int32_t dims[2];
    SpmdAxes axes[2];
} SpmdUncontracted;
// The dimensions of the result of product `node` that propagation should shard by the axes which shard the summed
// dimension of both operands. None where adding up the parts, or sharding nothing, costs no more.
SpmdUncontracted spmd_uncontracted_dims(SpmdConsequences *consequences, int32_t node);
// The same for other ops that need a dimension whole which their first operand shards by *axes (transforms and
// decompositions): the dimension of the result that gets them instead, so that the operand is exchanged where it would
// be gathered. -1 where there is none.
int32_t spmd_set_aside_dim(SpmdConsequences *consequences, int32_t node, SpmdAxes *axes);

#endif
