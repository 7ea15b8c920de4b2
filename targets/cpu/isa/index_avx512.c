// SPDX-License-Identifier: Apache-2.0
// index.inc for AVX-512.
#if defined(__x86_64__)
#define CPU_ISA avx512
#include "targets/cpu/isa/index.inc"
#else
extern int cpu_index_has_no_avx512;
#endif
