// SPDX-License-Identifier: Apache-2.0
// What runs after partitioning, each pass in its own file. They keep reasons: what replaces a collective carries its
// attributes.
#ifndef MESHLO_SPMD_PARTITIONER_PASSES_PASSES_H_
#define MESHLO_SPMD_PARTITIONER_PASSES_PASSES_H_

#include "spmd_partitioner/spmd.h"

// Runs the passes in order. Memory errors jump to hlo_protect().
HloStatus spmd_run_passes(HloModule *module, const SpmdOptions *options);

#endif
