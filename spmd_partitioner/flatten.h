// SPDX-License-Identifier: Apache-2.0
// Makes the call graph of a module flat, so that every use of a function is partitioned for itself.
#ifndef MESHLO_SPMD_PARTITIONER_FLATTEN_H_
#define MESHLO_SPMD_PARTITIONER_FLATTEN_H_

#include "spmd_partitioner/spmd.h"

// Inlines calls and gives each loop and branch its own copy of its computations. Calls that stand in the way of neither
// are left when the module would grow beyond all measure. Memory errors jump to hlo_protect().
void spmd_flatten(HloModule *module, HloArena *scratch);

#endif
