// SPDX-License-Identifier: Apache-2.0
// loop.inc for AVX2 and FMA.
#if defined(__x86_64__)
#define CPU_ISA one_avx2
#define CPU_ONE_ELEMENT
#include "targets/cpu/isa/loop.inc"
#else
extern int cpu_loop_one_has_no_avx2;
#endif
