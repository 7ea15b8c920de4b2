// SPDX-License-Identifier: Apache-2.0
// Numbers that fork() sets to 0 in the child: by one load, a process detects that it has another's memory but not its
// threads.
#ifndef MESHLO_TARGETS_CPU_HOST_FORK_FLAGS_H_
#define MESHLO_TARGETS_CPU_HOST_FORK_FLAGS_H_

#include <stdatomic.h>
#include <stdint.h>

#include "hlo/base/status.h"

HLO_BEGIN_C

// Returns CPU_FORK_FLAGS numbers, all 0; NULL when memory is short. Any thread.
enum { CPU_FORK_FLAGS = 4 };
_Atomic(uint32_t) *cpu_fork_flags_new(void);

// Frees them; accepts NULL.
void cpu_fork_flags_free(_Atomic(uint32_t) *flags);

HLO_END_C

#endif
