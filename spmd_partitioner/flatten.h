// SPDX-License-Identifier: Apache-2.0
// Brings a module into the form that is partitioned: a flat call graph, so that every use of a function is partitioned
// separately, without ops that are expanded into others (asynchronous halves, scan, batch normalisation).
#ifndef MESHLO_SPMD_PARTITIONER_FLATTEN_H_
#define MESHLO_SPMD_PARTITIONER_FLATTEN_H_

#include "spmd_partitioner/spmd.h"

// True if spmd_flatten() may find something to do.
bool spmd_needs_flattening(const HloModule *module);
// Expands ops, inlines calls and gives each loop and branch its own copy of its computations. Calls that cause no harm
// are kept when the module would otherwise grow too large. Memory errors jump to hlo_protect().
HLO_NODISCARD HloStatus spmd_flatten(HloModule *module, HloArena *scratch);

// True for a custom call that XLA's partitioner alone knows (xla_call.c).
bool spmd_is_xla_call(const HloInstruction *at);
// Ops that compute the same, before `at`, with its annotations.
HloInstruction *spmd_expand_xla_call(HloInstruction *at);

#endif
