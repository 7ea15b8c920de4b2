// SPDX-License-Identifier: Apache-2.0
// taps.inc for AVX2 and FMA.
#if defined(__x86_64__)
#define CPU_ISA avx2
#include "targets/cpu/isa/taps.inc"
#else
extern int cpu_taps_has_no_avx2;
#endif
