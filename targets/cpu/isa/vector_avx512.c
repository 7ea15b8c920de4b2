// SPDX-License-Identifier: Apache-2.0
// vector.inc for AVX-512.
#if defined(__x86_64__)
#define CPU_ISA avx512
#include "targets/cpu/isa/vector.inc"
#else
extern int cpu_vector_has_no_avx512;
#endif
