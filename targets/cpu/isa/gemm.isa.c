// SPDX-License-Identifier: Apache-2.0
// The product kernels of one instruction set for all elements. Tiles fill the registers: 28 accumulators of 32, 12 of
// 16, and as many as SSE2 has; 24 of the 32 of NEON, whose products by one number need no register for it.
#include <stdint.h>
#include <string.h>

#include "targets/cpu/isa/gemm.h"
#include "targets/cpu/isa/isa.h"

#include "targets/cpu/isa/interleave.inc"
#include "targets/cpu/isa/set.inc"

#define VECTORS 2
#if defined(__AVX512F__)
#define MR 14
#elif defined(__AVX2__)
#define MR 6
#elif defined(CPU_ISA_NEON)
#define MR 12
#else
#define MR 4
#endif

// ---- 32 bits

#define IS_DOUBLE 0
#if defined(__AVX512F__)
#define LANES 16
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, LOW_16)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, HIGH_16)
#elif defined(__AVX2__)
#define LANES 8
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, LOW_8)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, HIGH_8)
#else
#define LANES 4
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, LOW_4)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, HIGH_4)
#endif

#define REAL float
#define SUFFIX f32
#define FUSED(a, b, c) CPU_FUSED_F32(a, b, c)
#if defined(__AVX512F__)
#define BROADCAST(x) _mm512_set1_ps(x)
#elif defined(__AVX2__)
#define BROADCAST(x) _mm256_set1_ps(x)
#else
#define BROADCAST(x) ((Vector_f32){x, x, x, x})
#endif
#include "targets/cpu/isa/gemm.inc"
#undef REAL
#undef SUFFIX
#undef FUSED
#undef BROADCAST

#define REAL uint32_t
#define SUFFIX u32
#define IS_INTEGER
#define FUSED(a, b, c) ((a) * (b) + (c))
#define BROADCAST(x) ((x) + (Vector_u32){0})
#include "targets/cpu/isa/gemm.inc"
#undef REAL
#undef SUFFIX
#undef IS_INTEGER
#undef FUSED
#undef BROADCAST

#undef IS_DOUBLE
#undef LANES
#undef INTERLEAVE_LOW
#undef INTERLEAVE_HIGH

// ---- 64 bits

#define IS_DOUBLE 1
#if defined(__AVX512F__)
#define LANES 8
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, LOW_8)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, HIGH_8)
#elif defined(__AVX2__)
#define LANES 4
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, LOW_4)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, HIGH_4)
#else
#define LANES 2
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, LOW_2)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, HIGH_2)
#endif

#define REAL double
#define SUFFIX f64
#define FUSED(a, b, c) CPU_FUSED_F64(a, b, c)
#if defined(__AVX512F__)
#define BROADCAST(x) _mm512_set1_pd(x)
#elif defined(__AVX2__)
#define BROADCAST(x) _mm256_set1_pd(x)
#else
#define BROADCAST(x) ((Vector_f64){x, x})
#endif
#include "targets/cpu/isa/gemm.inc"
#undef REAL
#undef SUFFIX
#undef FUSED
#undef BROADCAST

#define REAL uint64_t
#define SUFFIX u64
#define IS_INTEGER
#define FUSED(a, b, c) ((a) * (b) + (c))
#define BROADCAST(x) ((x) + (Vector_u64){0})
#include "targets/cpu/isa/gemm.inc"
