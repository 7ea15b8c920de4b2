// SPDX-License-Identifier: Apache-2.0
// The axes of a mesh along which a collective moves data.
//
// Stability: experimental.
#ifndef MESHLO_HLO_ANALYSIS_MESH_AXES_H_
#define MESHLO_HLO_ANALYSIS_MESH_AXES_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// The axes, bit i for axis i, in whose coordinates the members of a collective's first group differ, or the two ends of
// any pair of a permute. Partitions are numbered along a mesh of these sizes, the last axis fastest; of more than 63
// axes the rest is not looked at. 0 for what is no collective, for groups of replicas, and where the sizes do not
// multiply to the module's partitions. `arena` is for scratch. Memory errors jump to hlo_protect().
HLO_EXPORT uint64_t hlo_collective_axes(HloArena *arena, const HloModule *module, const HloInstruction *collective,
                                        const int64_t *sizes, int64_t count);

HLO_END_C

#endif
