// SPDX-License-Identifier: Apache-2.0
// The processor's own answers, which features.h caches and lowers. They are separate so that a test can substitute
// another processor.
#ifndef MESHLO_TARGETS_CPU_HOST_PROCESSOR_H_
#define MESHLO_TARGETS_CPU_HOST_PROCESSOR_H_

#include <stdbool.h>

#include "targets/cpu/host/features.h"

HLO_BEGIN_C

// Returns the highest level that the processor and the operating system support. Requests permission to use AMX tiles
// from Linux, for the whole process. Takes tens of microseconds in a virtual machine.
CpuFeatures cpu_processor_features(void);

// The architectures that the generator of machine code (targets/cpu/jit) knows.
typedef enum CpuArchitecture {
    CPU_ARCHITECTURE_OTHER,
    CPU_ARCHITECTURE_X86_64,
    CPU_ARCHITECTURE_AARCH64,
} CpuArchitecture;
// Returns the one that this library was built for.
CpuArchitecture cpu_processor_architecture(void);

// True if CPUID names Intel as the maker. Any thread; the processor is asked once.
bool cpu_processor_is_intel(void);

HLO_END_C

#endif
