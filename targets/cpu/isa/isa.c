// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/isa/isa.h"

#include "targets/cpu/isa/fft.h"
#include "targets/cpu/isa/gemm.h"
#include "targets/cpu/isa/index.h"
#include "targets/cpu/isa/random.h"
#include "targets/cpu/isa/scan.h"
#include "targets/cpu/isa/taps.h"
#include "targets/cpu/isa/tiles.h"
#include "targets/cpu/isa/triangle.h"
#include "targets/cpu/isa/vector.h"

// Chooses the table of a name for the best set among the features.
#define IF_BETTER(set, SET, features, name) (features) >= CPU_FEATURES_##SET ? &(name##_##set):
#define BEST(features, name) ((void)(features), CPU_ISA_EACH(IF_BETTER, features, name) & (name##_baseline))

const CpuLoopKernels *cpu_isa_loop_kernels(CpuFeatures features) {
    return BEST(features, cpu_loop_kernels);
}

const CpuLoopKernels *cpu_isa_loop_kernels_one(CpuFeatures features) {
    return BEST(features, cpu_loop_kernels_one);
}

const CpuRandomKernels *cpu_isa_random_kernels(CpuFeatures features) {
    return BEST(features, cpu_random_kernels);
}

const CpuGemmKernels *cpu_isa_gemm_kernels(CpuFeatures features, CpuGemmElement element) {
    switch (element) {
        case CPU_GEMM_F64: return BEST(features, cpu_gemm_f64);
        case CPU_GEMM_U32: return BEST(features, cpu_gemm_u32);
        case CPU_GEMM_U64: return BEST(features, cpu_gemm_u64);
        case CPU_GEMM_F32: break;
    }
    return BEST(features, cpu_gemm_f32);
}

const CpuScanKernels *cpu_isa_scan_kernels(CpuFeatures features) {
    return BEST(features, cpu_scan_kernels);
}

const CpuIndexKernels *cpu_isa_index_kernels(CpuFeatures features) {
    return BEST(features, cpu_index_kernels);
}

const CpuTapKernels *cpu_isa_tap_kernels(CpuFeatures features) {
    return BEST(features, cpu_tap_kernels);
}

const CpuTriangleKernels *cpu_isa_triangle_kernels(CpuFeatures features) {
    return BEST(features, cpu_triangle_kernels);
}

const CpuVectorKernels *cpu_isa_vector_kernels(CpuFeatures features) {
    return BEST(features, cpu_vector_kernels);
}

const CpuFftKernels *cpu_isa_fft_kernels(CpuFeatures features, int is_double) {
    return is_double ? BEST(features, cpu_fft_f64) : BEST(features, cpu_fft_f32);
}

// Tiles are the exception: they require special instructions, without which there are no kernels.
const CpuTileKernels *cpu_isa_tile_kernels(CpuFeatures features) {
#if defined(__x86_64__)
    if (features >= CPU_FEATURES_AMX) return &cpu_tile_kernels_amx;
    if (features >= CPU_FEATURES_AVX512_BF16) return &cpu_tile_kernels_avx512bf16;
    if (features >= CPU_FEATURES_AVX2) return &cpu_tile_kernels_avx2;
#endif
    (void)features;
    return NULL;
}
