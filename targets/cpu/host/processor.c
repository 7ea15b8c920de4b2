// SPDX-License-Identifier: Apache-2.0
// The processor's description of itself. On x86-64, by CPUID: a level counts only if the processor has all of its
// instructions and the system saves the registers that they use. Permission to use tile registers must be requested as
// well. On aarch64 the kernel passes what programs may use.
#include "targets/cpu/host/processor.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
// CPUID leaves 1 and 7 (sub-leaves 0 and 1) and the register that lists the state that the system saves.
typedef struct CpuidWords {
    uint32_t leaf1_ecx, leaf7_ebx, leaf7_ecx, leaf7_edx, leaf7_1_eax, extended_ecx;
    uint64_t saved_state;
} CpuidWords;

static uint64_t read_saved_state(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static CpuidWords read_cpuid(void) {
    CpuidWords words = {0};
    uint32_t eax, ebx, ecx, edx;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) words.leaf1_ecx = ecx;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
        words.leaf7_ebx = ebx;
        words.leaf7_ecx = ecx;
        words.leaf7_edx = edx;
        if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) words.leaf7_1_eax = eax;
    }
    if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx)) words.extended_ecx = ecx;
    if (words.leaf1_ecx >> 27 & 1) words.saved_state = read_saved_state();
    return words;
}

static bool all_bits(uint64_t word, uint64_t bits) {
    return (word & bits) == bits;
}

// Bit numbers: Intel SDM volume 2A, CPUID; XCR0 bits: volume 1, 13.3.
static bool has_avx2(const CpuidWords *w) {
    const uint32_t leaf1 = 1u << 28 | 1u << 12 | 1u << 29 | 1u << 23;  // AVX, FMA, F16C, POPCNT
    const uint32_t leaf7 = 1u << 5 | 1u << 3 | 1u << 8;                // AVX2, BMI1, BMI2
    return all_bits(w->saved_state, 0x6) && all_bits(w->leaf1_ecx, leaf1) && all_bits(w->leaf7_ebx, leaf7) &&
           all_bits(w->extended_ecx, 1u << 5);  // LZCNT
}

static bool has_avx512(const CpuidWords *w) {
    const uint32_t leaf7 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;  // F, DQ, CD, BW, VL
    return all_bits(w->saved_state, 0xe6) && all_bits(w->leaf7_ebx, leaf7);
}

static bool has_avx512_bf16(const CpuidWords *w) {
    return all_bits(w->leaf7_1_eax, 1u << 5) && all_bits(w->leaf7_ecx, 1u << 11);  // BF16, VNNI
}

static bool has_amx(const CpuidWords *w) {
    const uint32_t leaf7 = 1u << 22 | 1u << 24 | 1u << 25;   // AMX-BF16, AMX-TILE, AMX-INT8
    const long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return all_bits(w->saved_state, 0x60000) && all_bits(w->leaf7_edx, leaf7) &&
           syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

CpuFeatures cpu_processor_features(void) {
    const CpuidWords words = read_cpuid();
    if (!has_avx2(&words)) return CPU_FEATURES_BASELINE;
    if (!has_avx512(&words)) return CPU_FEATURES_AVX2;
    if (!has_avx512_bf16(&words)) return CPU_FEATURES_AVX512;
    return has_amx(&words) ? CPU_FEATURES_AMX : CPU_FEATURES_AVX512_BF16;
}

static bool maker_is_intel(void) {
    char maker[12];  // "GenuineIntel", in this order of registers
    uint32_t eax, ebx, ecx, edx;
    if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx)) return false;
    memcpy(maker, &ebx, 4);
    memcpy(maker + 4, &edx, 4);
    memcpy(maker + 8, &ecx, 4);
    return memcmp(maker, "GenuineIntel", sizeof maker) == 0;
}

// Each CPUID exits a virtual machine.
bool cpu_processor_is_intel(void) {
    static _Atomic int known = -1;
    int intel = atomic_load_explicit(&known, memory_order_relaxed);
    if (intel < 0) {
        intel = maker_is_intel();
        atomic_store_explicit(&known, intel, memory_order_relaxed);
    }
    return intel;
}
#else
CpuFeatures cpu_processor_features(void) {
#if defined(__aarch64__)
    if (getauxval(AT_HWCAP) & HWCAP_ASIMD) return CPU_FEATURES_NEON;
#endif
    return CPU_FEATURES_BASELINE;
}

bool cpu_processor_is_intel(void) {
    return false;
}
#endif

CpuArchitecture cpu_processor_architecture(void) {
#if defined(__x86_64__)
    return CPU_ARCHITECTURE_X86_64;
#elif defined(__aarch64__)
    return CPU_ARCHITECTURE_AARCH64;
#else
    return CPU_ARCHITECTURE_OTHER;
#endif
}
