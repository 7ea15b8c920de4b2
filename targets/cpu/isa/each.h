// SPDX-License-Identifier: Apache-2.0
// The instruction sets above baseline that TOPIC.isa.c is compiled for on each architecture (cmake/modules.cmake).
#ifndef MESHLO_TARGETS_CPU_ISA_EACH_H_
#define MESHLO_TARGETS_CPU_ISA_EACH_H_

#include "targets/cpu/host/features.h"

// X(set, its name in CpuFeatures, …) for each of them, the best first.
#if defined(__x86_64__)
#define CPU_ISA_EACH(X, ...) X(avx512, AVX512, __VA_ARGS__) X(avx2, AVX2, __VA_ARGS__)
#elif defined(__aarch64__)
#define CPU_ISA_EACH(X, ...) X(neon, NEON, __VA_ARGS__)
#else
#define CPU_ISA_EACH(X, ...)
#endif

// Returns the best of these sets, or baseline, among some features.
CpuFeatures cpu_isa_set(CpuFeatures features);

// Declares the tables of a topic, one for each set, and the function that returns the one for the best set among some
// features: cpu_<name>_<set> and cpu_isa_<name>().
#define CPU_ISA_TABLE_(set, SET, Type, name) extern const Type cpu_##name##_##set;
#define CPU_ISA_IF_BETTER_(set, SET, name) best >= CPU_FEATURES_##SET ? &(cpu_##name##_##set):
#define CPU_ISA_TABLES(Type, name)                                               \
    extern const Type cpu_##name##_baseline;                                     \
    CPU_ISA_EACH(CPU_ISA_TABLE_, Type, name)                                     \
    static inline const Type *cpu_isa_##name(CpuFeatures features) {             \
        const CpuFeatures best = cpu_isa_set(features);                          \
        (void)best;                                                              \
        return CPU_ISA_EACH(CPU_ISA_IF_BETTER_, name) & (cpu_##name##_baseline); \
    }

#endif
