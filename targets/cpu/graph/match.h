// SPDX-License-Identifier: Apache-2.0
// Patterns of nodes that form one operation with a kernel of its own.
#ifndef MESHLO_TARGETS_CPU_GRAPH_MATCH_H_
#define MESHLO_TARGETS_CPU_GRAPH_MATCH_H_

#include "targets/cpu/graph/graph.h"

HLO_BEGIN_C

// Whether the node reduces to the largest or smallest element and its index: an argmax (*largest) or argmin. Its kernel
// reads only the first operand.
bool cpu_match_argminmax(const CpuNode *node, bool *largest);

HLO_END_C

#endif
