// SPDX-License-Identifier: Apache-2.0
// Detection of mismatched collectives before anything runs.
#ifndef MESHLO_TARGETS_CPU_GRAPH_CHECK_H_
#define MESHLO_TARGETS_CPU_GRAPH_CHECK_H_

#include "targets/cpu/graph/graph.h"

HLO_BEGIN_C

// Follows every device through the branches whose predicates depend only on device numbers and constants.
// FAILED_PRECONDITION when some members of a group reach a collective that others never do, naming which device waits
// where for which. Predicates that depend on data are assumed to be the same on all devices; run/execute.c finds those
// that are not.
HLO_NODISCARD HloStatus cpu_check_collectives(HloArena *arena, const CpuProgram *program);

// Simulates the sends and receives between the program's devices, where their order does not depend on data or on
// loops. FAILED_PRECONDITION naming the device that would wait forever, or the second sender on a channel.
HLO_NODISCARD HloStatus cpu_check_p2p(HloArena *arena, const CpuProgram *program);

HLO_END_C

#endif
