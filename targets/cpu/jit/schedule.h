// SPDX-License-Identifier: Apache-2.0
// The order of a block's values.
#ifndef MESHLO_TARGETS_CPU_JIT_SCHEDULE_H_
#define MESHLO_TARGETS_CPU_JIT_SCHEDULE_H_

#include "targets/cpu/jit/values.h"

// Orders the values of a block of vectors so that the processor, which looks ahead some hundred instructions only,
// finds enough that do not depend on each other. Effects stay at the end in their order: a block reads all of its
// operands before it writes. Where the values that are needed later fill `registers`, values keep their order. Call it
// once, when all values exist; numbers of values are others afterwards.
void cpu_jit_block_schedule(CpuJitBlock *block, int registers);

// Returns the cycles from the start of the value's instruction until another one can use its result.
int cpu_jit_latency(const CpuJitValue *value);

#endif
