// SPDX-License-Identifier: Apache-2.0
// Which instruction set this process uses. Chosen at run time from CPUID's feature bits and maker (never model numbers,
// which lie in virtual machines), lowered by the environment variable MESHLO_CPU_FEATURES.
#ifndef MESHLO_TARGETS_CPU_HOST_FEATURES_H_
#define MESHLO_TARGETS_CPU_HOST_FEATURES_H_

#include <stdbool.h>

#include "hlo/base/status.h"

HLO_BEGIN_C

// Instruction sets in rising order; see features.def.
typedef enum CpuFeatures {
#define CPU_FEATURE(name, text, use) CPU_FEATURES_##name,
#include "targets/cpu/host/features.def"
#undef CPU_FEATURE
    CPU_FEATURES_COUNT
} CpuFeatures;

// The highest set that both this processor and the operating system support. Asks Linux for permission to use AMX
// tiles, which holds for the whole process. Any thread; asked of the processor once.
CpuFeatures cpu_features_detect(void);

// cpu_features_detect(), lowered to what MESHLO_CPU_FEATURES names (a text of features.def). A name above what the
// machine has is no error: the machine's own set is used. INVALID_ARGUMENT for a name that is in no row.
HLO_NODISCARD HloStatus cpu_features_choose(CpuFeatures *chosen);

// Whether the set has instructions that multiply bf16 faster than this processor multiplies f32. AMX always has;
// AVX-512 BF16 is twice as fast on an EPYC 9B45, and takes 1.7 times as long on a Xeon (Emerald Rapids) whose AMX is
// hidden. The maker alone decides, not a measurement, which could come out either way and change results from run to
// run.
bool cpu_features_multiply_bf16(CpuFeatures features);

// The name of a set ("avx512"). Static storage.
const char *cpu_features_name(CpuFeatures features);

HLO_END_C

#endif
