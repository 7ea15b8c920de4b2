// SPDX-License-Identifier: Apache-2.0
// Chains of slices, pads and concatenations, which each move elements along a dimension, as one op that moves them
// once.
#ifndef MESHLO_SPMD_PARTITIONER_CHAIN_H_
#define MESHLO_SPMD_PARTITIONER_CHAIN_H_

#include "spmd_partitioner/spmd.h"

// True if spmd_join_chains() would find something to do.
bool spmd_has_chains(const HloModule *module);
// Replaces each chain by one op of the same result. Intermediate arrays with a sharding of their own end a chain. Keeps
// what becomes unused: it is not partitioned unless an option names it. Memory errors jump to hlo_protect().
void spmd_join_chains(HloModule *module);

#endif
