// SPDX-License-Identifier: Apache-2.0
// The choice of an instruction set, and of kernels that depend on more than the order of sets. CPU_ISA_TABLES() makes
// the other choices from these; a test that models instructions replaces this file.
#include "targets/cpu/isa/isa.h"

#include "targets/cpu/isa/fft.h"
#include "targets/cpu/isa/gemm.h"
#include "targets/cpu/isa/tiles.h"

#define RETURN_IF_BETTER(set, SET, ...) \
    if (features >= CPU_FEATURES_##SET) return CPU_FEATURES_##SET;
CpuFeatures cpu_isa_set(CpuFeatures features) {
    CPU_ISA_EACH(RETURN_IF_BETTER, )
    (void)features;
    return CPU_FEATURES_BASELINE;
}
#undef RETURN_IF_BETTER

const CpuGemmKernels *cpu_isa_gemm_kernels(CpuFeatures features, CpuGemmElement element) {
    switch (element) {
        case CPU_GEMM_F64: return cpu_isa_gemm_f64(features);
        case CPU_GEMM_U32: return cpu_isa_gemm_u32(features);
        case CPU_GEMM_U64: return cpu_isa_gemm_u64(features);
        case CPU_GEMM_F32: break;
    }
    return cpu_isa_gemm_f32(features);
}

const CpuFftKernels *cpu_isa_fft_kernels(CpuFeatures features, int is_double) {
    return is_double ? cpu_isa_fft_f64(features) : cpu_isa_fft_f32(features);
}

// Tiles require special instructions, without which there are no kernels.
const CpuTileKernels *cpu_isa_tile_kernels(CpuFeatures features) {
#if defined(__x86_64__)
    if (features >= CPU_FEATURES_AMX) return &cpu_tile_kernels_amx;
    if (features >= CPU_FEATURES_AVX512_BF16) return &cpu_tile_kernels_avx512bf16;
    if (features >= CPU_FEATURES_AVX2) return &cpu_tile_kernels_avx2;
#endif
    (void)features;
    return NULL;
}
