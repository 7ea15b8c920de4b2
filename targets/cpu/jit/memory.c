// SPDX-License-Identifier: Apache-2.0
// Pages are written first and then made executable, never both at the same time.
#include "targets/cpu/jit/memory.h"

#include <string.h>
#include <sys/mman.h>

char *cpu_jit_memory_new(const void *bytes, size_t count) {
    void *memory = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    memcpy(memory, bytes, count);
    __builtin___clear_cache(memory, (char *)memory + count);  // of instructions, which aarch64 does not keep up to date
    if (mprotect(memory, count, PROT_READ | PROT_EXEC) == 0) return memory;
    munmap(memory, count);
    return NULL;
}

void cpu_jit_memory_free(char *memory, size_t count) {
    if (memory) munmap(memory, count);
}
