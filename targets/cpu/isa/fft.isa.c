// SPDX-License-Identifier: Apache-2.0
// Both precisions of the transforms of one instruction set.
#include <stdint.h>
#include <string.h>

#include "targets/cpu/isa/fft.h"
#include "targets/cpu/isa/isa.h"
#include "targets/cpu/isa/set.inc"

// Interleaving of the low and high halves of two vectors, and the even and odd elements of two vectors.
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define EVEN_16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define EVEN_8 0, 2, 4, 6, 8, 10, 12, 14
#define ODD_8 1, 3, 5, 7, 9, 11, 13, 15
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define EVEN_4 0, 2, 4, 6
#define ODD_4 1, 3, 5, 7
#define LOW_2 0, 2
#define HIGH_2 1, 3
#define EVEN_2 0, 2
#define ODD_2 1, 3

#define PICK_(a, b, which, lanes) __builtin_shufflevector(a, b, which##_##lanes)
#define PICK(a, b, which, lanes) PICK_(a, b, which, lanes)

// FUSED(a, b, c) is a * b + c of vectors.
#define REAL float
#define SUFFIX f32
#define FUSED(a, b, c) CPU_FUSED_F32(a, b, c)
#if CPU_VECTOR_BYTES == 64
#define LANES 16
#elif CPU_VECTOR_BYTES == 32
#define LANES 8
#else
#define LANES 4
#endif
#include "targets/cpu/isa/fft_type.inc"
#undef REAL
#undef SUFFIX
#undef LANES
#undef FUSED

#define REAL double
#define SUFFIX f64
#define FUSED(a, b, c) CPU_FUSED_F64(a, b, c)
#if CPU_VECTOR_BYTES == 64
#define LANES 8
#elif CPU_VECTOR_BYTES == 32
#define LANES 4
#else
#define LANES 2
#endif
#include "targets/cpu/isa/fft_type.inc"
