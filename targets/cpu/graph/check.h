// SPDX-License-Identifier: Apache-2.0
// Mismatched collectives, found before anything runs.
#ifndef MESHLO_TARGETS_CPU_GRAPH_CHECK_H_
#define MESHLO_TARGETS_CPU_GRAPH_CHECK_H_

#include "targets/cpu/graph/graph.h"

HLO_BEGIN_C

// Follows every device through the branches whose predicates depend on nothing but device numbers and constants.
// FAILED_PRECONDITION when some members of a group reach a collective that others never do: who waits where for whom.
// Predicates that depend on data are taken to be the same on all devices; run/execute.c finds those that are not.
HLO_NODISCARD HloStatus cpu_check_collectives(HloArena *arena, const CpuProgram *program);

// Plays the sends and receives between the program's devices, where their order does not depend on data or on loops:
// FAILED_PRECONDITION naming who would wait for ever, or who sends where another one does.
HLO_NODISCARD HloStatus cpu_check_peers(HloArena *arena, const CpuProgram *program);

HLO_END_C

#endif
