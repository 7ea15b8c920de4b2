// SPDX-License-Identifier: Apache-2.0
// The instruction set of this process, chosen at run time: on x86-64 from CPUID's feature bits and maker (never model
// numbers, which are wrong in virtual machines), on aarch64 from what the kernel reports; lowered by the environment
// variable MESHLO_CPU_FEATURES.
#ifndef MESHLO_TARGETS_CPU_HOST_FEATURES_H_
#define MESHLO_TARGETS_CPU_HOST_FEATURES_H_

#include <stdbool.h>

#include "hlo/base/status.h"

HLO_BEGIN_C

// Instruction sets of this architecture in rising order; see features.def.
typedef enum CpuFeatures {
#define CPU_FEATURE(name, text, use) CPU_FEATURES_##name,
#include "targets/cpu/host/features.def"
#undef CPU_FEATURE
    CPU_FEATURES_COUNT,
#if !defined(__x86_64__)
    // Never chosen: conditions on x86-64's sets are false for every set of another architecture.
    CPU_FEATURES_AVX2 = CPU_FEATURES_COUNT,
    CPU_FEATURES_AVX512,
    CPU_FEATURES_AVX512_BF16,
    CPU_FEATURES_AMX,
#endif
} CpuFeatures;

// Returns the highest set that both this processor and the operating system support. Requests permission from Linux to
// use AMX tiles, for the whole process. Any thread; the processor is queried once.
CpuFeatures cpu_features_detect(void);

// Sets *chosen to cpu_features_detect(), lowered to the set that MESHLO_CPU_FEATURES names (a text of features.def). A
// name above the machine's set is not an error: the machine's own set is used. INVALID_ARGUMENT for an unknown name.
HLO_NODISCARD HloStatus cpu_features_choose(CpuFeatures *chosen);

// True if the set has instructions that multiply bf16 faster than this processor multiplies f32. AMX always does;
// AVX-512 BF16 is twice as fast on an EPYC 9B45, and takes 1.7 times as long on a Xeon (Emerald Rapids) whose AMX is
// hidden. Only the maker decides, not a measurement, which could vary and change results from run to run.
bool cpu_features_multiply_bf16(CpuFeatures features);

// Returns the name of a set ("avx512"). Static storage.
const char *cpu_features_name(CpuFeatures features);

HLO_END_C

#endif
