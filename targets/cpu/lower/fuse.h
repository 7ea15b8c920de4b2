// SPDX-License-Identifier: Apache-2.0
// Fusion: which arrays get buffers, and which are computed inside the loops that use them.
#ifndef MESHLO_TARGETS_CPU_LOWER_FUSE_H_
#define MESHLO_TARGETS_CPU_LOWER_FUSE_H_

#include "targets/cpu/graph/graph.h"

HLO_BEGIN_C

// Sets `materialized` (and `rematerialisable`) of every array of the program. Arrays that are already materialised stay
// so, and nodes in the states ALONE and FALLBACK are respected: lowering calls this again when a loop could not be
// made. Nodes whose loops run over rows, with reductions of those rows inside, get their row_shape and row_kept.
void cpu_fuse(CpuProgram *program);

HLO_END_C

#endif
