// SPDX-License-Identifier: Apache-2.0
// A processor with AMX, whose tile kernels run on the model of immintrin.h; all other kernels are those of the machine
// below. A binary that links this file has it in place of targets/cpu/host/processor.c and targets/cpu/isa/isa.c.
#define cpu_processor_features machine_features
#define cpu_processor_is_intel machine_is_intel
#include "targets/cpu/host/processor.c"
#undef cpu_processor_features
#undef cpu_processor_is_intel

CpuFeatures cpu_processor_features(void);
bool cpu_processor_is_intel(void);

CpuFeatures cpu_processor_features(void) {
    return CPU_FEATURES_AMX;
}

// Of another maker, AVX-512 BF16 multiplies floats too.
bool cpu_processor_is_intel(void) {
    return false;
}

// The level from which on isa.c takes kernels for AVX-512: one that there is not, where the machine does not have them.
static int least_for_avx512(void) {
    static _Thread_local int machine = -1;
    if (machine < 0) machine = (int)machine_features();
    return machine >= CPU_FEATURES_AVX512 ? CPU_FEATURES_AVX512 : CPU_FEATURES_COUNT;
}

static int least_for_avx2(void) {
    static _Thread_local int machine = -1;
    if (machine < 0) machine = (int)machine_features();
    return machine >= CPU_FEATURES_AVX2 ? CPU_FEATURES_AVX2 : CPU_FEATURES_COUNT;
}

#define CPU_FEATURES_AVX512 (CpuFeatures) least_for_avx512()
#define CPU_FEATURES_AVX2 (CpuFeatures) least_for_avx2()
#include "targets/cpu/isa/isa.c"
