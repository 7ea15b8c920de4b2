// SPDX-License-Identifier: Apache-2.0
// index.inc for AVX2 and FMA.
#if defined(__x86_64__)
#define CPU_ISA avx2
#include "targets/cpu/isa/index.inc"
#else
extern int cpu_index_has_no_avx2;
#endif
