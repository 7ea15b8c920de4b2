// SPDX-License-Identifier: Apache-2.0
// Which instruction set this process uses. Chosen at run time from CPUID feature bits alone (never model numbers, which
// lie in virtual machines), lowered by the environment variable MESHLO_CPU_FEATURES.
#ifndef MESHLO_TARGETS_CPU_FEATURES_H_
#define MESHLO_TARGETS_CPU_FEATURES_H_

#include "hlo/base/status.h"

HLO_BEGIN_C

// Instruction sets in rising order; see features.def.
typedef enum CpuFeatures {
#define CPU_FEATURE(name, text, use) CPU_FEATURES_##name,
#include "targets/cpu/features.def"
#undef CPU_FEATURE
    CPU_FEATURES_COUNT
} CpuFeatures;

// The highest set that both this processor and the operating system support. Asks Linux for permission to use AMX
// tiles, which holds for the whole process. Any thread; asked of the processor once.
CpuFeatures cpu_features_detect(void);

// cpu_features_detect(), lowered to what MESHLO_CPU_FEATURES names (a text of features.def). A name above what the
// machine has is no error: the machine's own set is used. INVALID_ARGUMENT for a name that is in no row.
HLO_NODISCARD HloStatus cpu_features_choose(CpuFeatures *chosen);

// The name of a set ("avx512"). Static storage.
const char *cpu_features_name(CpuFeatures features);

HLO_END_C

#endif
