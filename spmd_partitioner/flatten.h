// SPDX-License-Identifier: Apache-2.0
// Brings a module into the form that is partitioned: a flat call graph, so that every use of a function is partitioned
// for itself, without ops that others stand for (asynchronous halves, scan, batch normalisation).
#ifndef MESHLO_SPMD_PARTITIONER_FLATTEN_H_
#define MESHLO_SPMD_PARTITIONER_FLATTEN_H_

#include "spmd_partitioner/spmd.h"

// True if spmd_flatten() may find something to do.
bool spmd_needs_flattening(const HloModule *module);
// Spells ops out, inlines calls and gives each loop and branch its own copy of its computations. Calls that stand in
// the way of neither are left when the module would grow beyond all measure. Memory errors jump to hlo_protect().
HLO_NODISCARD HloStatus spmd_flatten(HloModule *module, HloArena *scratch);

#endif
