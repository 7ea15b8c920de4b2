// SPDX-License-Identifier: Apache-2.0
// loop.inc for AVX-512.
#if defined(__x86_64__)
#define CPU_ISA one_avx512
#define CPU_ONE_ELEMENT
#include "targets/cpu/isa/loop.inc"
#else
extern int cpu_loop_one_has_no_avx512;
#endif
