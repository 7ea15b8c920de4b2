// SPDX-License-Identifier: Apache-2.0
// Chooses the kernels of this process: the processor's level (processor.c), or the lower one that MESHLO_CPU_FEATURES
// names, to test or to get the same bits as on another machine.
#include "targets/cpu/host/features.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/text.h"
#include "targets/cpu/host/processor.h"

static const char *const kNames[] = {
#define CPU_FEATURE(name, text, use) text,
#include "targets/cpu/host/features.def"
#undef CPU_FEATURE
};

const char *cpu_features_name(CpuFeatures features) {
    return kNames[features];
}

// CPUID exits a virtual machine, which takes tens of microseconds, and kernels without a pool call this every time; so
// the answer, which cannot change, is cached. Concurrent threads find the same one.
CpuFeatures cpu_features_detect(void) {
    static _Atomic int known = -1;
    int features = atomic_load_explicit(&known, memory_order_relaxed);
    if (features < 0) {
        features = (int)cpu_processor_features();
        atomic_store_explicit(&known, features, memory_order_relaxed);
    }
    return (CpuFeatures)features;
}

bool cpu_features_multiply_bf16(CpuFeatures features) {
    if (features != CPU_FEATURES_AVX512_BF16) return features > CPU_FEATURES_AVX512_BF16;
    return !cpu_processor_is_intel();
}

HloStatus cpu_features_choose(CpuFeatures *chosen) {
    assert(chosen);
    const CpuFeatures here = cpu_features_detect();
    const char *asked = getenv("MESHLO_CPU_FEATURES");
    *chosen = here;
    if (!asked || !*asked) return HLO_SUCCESS;
    for (int i = 0; i < CPU_FEATURES_COUNT; i++) {
        if (strcmp(asked, kNames[i]) != 0) continue;
        *chosen = (CpuFeatures)i < here ? (CpuFeatures)i : here;
        return HLO_SUCCESS;
    }
    HloText known = {0};
    for (int i = 0; i < CPU_FEATURES_COUNT; i++)
        hlo_text_format(&known, "%s%s", i == 0 ? "" : i + 1 < CPU_FEATURES_COUNT ? ", " : " or ", kNames[i]);
    HloStatus status = hlo_error(HLO_INVALID_ARGUMENT, "MESHLO_CPU_FEATURES is '%s'; expected %s", asked, known.data);
    hlo_text_free(&known);
    return status;
}
