// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/isa/isa.h"

#include "targets/cpu/isa/fft.h"
#include "targets/cpu/isa/gemm.h"
#include "targets/cpu/isa/random.h"
#include "targets/cpu/isa/scan.h"
#include "targets/cpu/isa/taps.h"
#include "targets/cpu/isa/tiles.h"
#include "targets/cpu/isa/triangle.h"
#include "targets/cpu/isa/vector.h"

const CpuLoopKernels *cpu_isa_loop_kernels(CpuFeatures features) {
#if defined(__x86_64__)
    if (features >= CPU_FEATURES_AVX512) return &cpu_loop_kernels_avx512;
    if (features >= CPU_FEATURES_AVX2) return &cpu_loop_kernels_avx2;
#endif
    (void)features;
    return &cpu_loop_kernels_baseline;
}

const CpuRandomKernels *cpu_isa_random_kernels(CpuFeatures features) {
#if defined(__x86_64__)
    if (features >= CPU_FEATURES_AVX512) return &cpu_random_kernels_avx512;
    if (features >= CPU_FEATURES_AVX2) return &cpu_random_kernels_avx2;
#endif
    (void)features;
    return &cpu_random_kernels_baseline;
}

const CpuGemmKernels *cpu_isa_gemm_kernels(CpuFeatures features, CpuGemmElement element) {
#define GEMM_ROW(set) \
    { &cpu_gemm_f32_##set, &cpu_gemm_f64_##set, &cpu_gemm_u32_##set, &cpu_gemm_u64_##set }
    static const CpuGemmKernels *const kBaseline[] = GEMM_ROW(baseline);
#if defined(__x86_64__)
    static const CpuGemmKernels *const kAvx2[] = GEMM_ROW(avx2), *const kAvx512[] = GEMM_ROW(avx512);
    if (features >= CPU_FEATURES_AVX512) return kAvx512[element];
    if (features >= CPU_FEATURES_AVX2) return kAvx2[element];
#endif
#undef GEMM_ROW
    (void)features;
    return kBaseline[element];
}

const CpuScanKernels *cpu_isa_scan_kernels(CpuFeatures features) {
#if defined(__x86_64__)
    if (features >= CPU_FEATURES_AVX512) return &cpu_scan_kernels_avx512;
    if (features >= CPU_FEATURES_AVX2) return &cpu_scan_kernels_avx2;
#endif
    (void)features;
    return &cpu_scan_kernels_baseline;
}

const CpuTapKernels *cpu_isa_tap_kernels(CpuFeatures features) {
#if defined(__x86_64__)
    if (features >= CPU_FEATURES_AVX512) return &cpu_tap_kernels_avx512;
    if (features >= CPU_FEATURES_AVX2) return &cpu_tap_kernels_avx2;
#endif
    (void)features;
    return &cpu_tap_kernels_baseline;
}

const CpuTileKernels *cpu_isa_tile_kernels(CpuFeatures features) {
#if defined(__x86_64__)
    if (features >= CPU_FEATURES_AMX) return &cpu_tile_kernels_amx;
    if (features >= CPU_FEATURES_AVX512_BF16) return &cpu_tile_kernels_avx512bf16;
#endif
    (void)features;
    return NULL;
}

const CpuTriangleKernels *cpu_isa_triangle_kernels(CpuFeatures features) {
#if defined(__x86_64__)
    if (features >= CPU_FEATURES_AVX512) return &cpu_triangle_kernels_avx512;
    if (features >= CPU_FEATURES_AVX2) return &cpu_triangle_kernels_avx2;
#endif
    (void)features;
    return &cpu_triangle_kernels_baseline;
}

const CpuVectorKernels *cpu_isa_vector_kernels(CpuFeatures features) {
#if defined(__x86_64__)
    if (features >= CPU_FEATURES_AVX512) return &cpu_vector_kernels_avx512;
    if (features >= CPU_FEATURES_AVX2) return &cpu_vector_kernels_avx2;
#endif
    (void)features;
    return &cpu_vector_kernels_baseline;
}

const CpuFftKernels *cpu_isa_fft_kernels(CpuFeatures features, int is_double) {
#if defined(__x86_64__)
    if (features >= CPU_FEATURES_AVX512) return is_double ? &cpu_fft_f64_avx512 : &cpu_fft_f32_avx512;
    if (features >= CPU_FEATURES_AVX2) return is_double ? &cpu_fft_f64_avx2 : &cpu_fft_f32_avx2;
#endif
    (void)features;
    return is_double ? &cpu_fft_f64_baseline : &cpu_fft_f32_baseline;
}
