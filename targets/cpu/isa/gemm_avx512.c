// SPDX-License-Identifier: Apache-2.0
// gemm.inc for AVX-512.
#if defined(__x86_64__)
#define CPU_ISA avx512
#include "targets/cpu/isa/gemm_all.inc"
#else
extern int cpu_gemm_has_no_avx512;
#endif
