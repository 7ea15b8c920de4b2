// SPDX-License-Identifier: Apache-2.0
// The memory that fusion costs: operands of a fused expression live until its loop runs.
#ifndef MESHLO_TARGETS_CPU_LOWER_LIVES_H_
#define MESHLO_TARGETS_CPU_LOWER_LIVES_H_

#include "targets/cpu/graph/graph.h"

HLO_BEGIN_C

// Marks arrays of a fused program as `materialized` that need less memory in a buffer than the operands from which a
// later loop would compute them, if that lowers the peak of their region noticeably. Returns whether it marked any:
// then fusion has to be decided again.
bool cpu_lives_shorten(CpuProgram *program);

HLO_END_C

#endif
