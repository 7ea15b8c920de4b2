// SPDX-License-Identifier: Apache-2.0
// Memory for generated code.
#ifndef MESHLO_TARGETS_CPU_JIT_MEMORY_H_
#define MESHLO_TARGETS_CPU_JIT_MEMORY_H_

#include <stddef.h>

#include "hlo/base/memory.h"

HLO_BEGIN_C

// Returns a copy of `count` bytes of code for this architecture in pages that are executable, and were writable only
// before; NULL if the system refuses. cpu_jit_memory_free() returns it to the system.
char *cpu_jit_memory_new(const void *bytes, size_t count);
// Frees the memory with the same `count`; accepts NULL.
void cpu_jit_memory_free(char *memory, size_t count);

HLO_END_C

#endif
