// SPDX-License-Identifier: Apache-2.0
// What propagation asks about sorts.
#ifndef MESHLO_SPMD_PARTITIONER_RULES_SORT_H_
#define MESHLO_SPMD_PARTITIONER_RULES_SORT_H_

#include "spmd_partitioner/partitioner.h"

// True of a sort whose users take more than its first elements, so that shards of it have to be exchanged.
bool spmd_sorts_all(const HloInstruction *op);

#endif
