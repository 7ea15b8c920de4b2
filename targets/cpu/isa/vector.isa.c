// SPDX-License-Identifier: Apache-2.0
// The row operations of one instruction set, in both precisions. Sums run in a fixed number of vectors of partial sums,
// so their bits do not depend on anything but the length.
#include <string.h>

#include "hlo/base/complex.h"
#include "targets/cpu/isa/interleave.inc"
#include "targets/cpu/isa/isa.h"
#include "targets/cpu/isa/set.inc"
#include "targets/cpu/isa/swapped.inc"
#include "targets/cpu/isa/vector.h"

#if CPU_VECTOR_BYTES == 64
#define LOW_F32 LOW_16
#define HIGH_F32 HIGH_16
#define LOW_F64 LOW_8
#define HIGH_F64 HIGH_8
#elif CPU_VECTOR_BYTES == 32
#define LOW_F32 LOW_8
#define HIGH_F32 HIGH_8
#define LOW_F64 LOW_4
#define HIGH_F64 HIGH_4
#else
#define LOW_F32 LOW_4
#define HIGH_F32 HIGH_4
#define LOW_F64 LOW_2
#define HIGH_F64 HIGH_2
#endif

#define REAL float
#define IS_DOUBLE 0
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, LOW_F32)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, HIGH_F32)
#define SUFFIX f32
#define COMPLEX_SUFFIX c64
#define SWAP(v) SWAPPED_F32(v)
#include "targets/cpu/isa/vector_type.inc"
#undef REAL
#undef IS_DOUBLE
#undef SUFFIX
#undef COMPLEX_SUFFIX
#undef SWAP

#undef INTERLEAVE_LOW
#undef INTERLEAVE_HIGH

#define REAL double
#define IS_DOUBLE 1
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, LOW_F64)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, HIGH_F64)
#define SUFFIX f64
#define COMPLEX_SUFFIX c128
#define SWAP(v) SWAPPED_F64(v)
#include "targets/cpu/isa/vector_type.inc"

// A complex element is as wide as a unit that can be transposed, or as two.
static void turn_c128(int64_t rows, int64_t columns, void *to, int64_t to_stride, const void *from,
                      int64_t from_stride) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            memcpy((double *)to + 2 * (j * to_stride + i), (const double *)from + 2 * (i * from_stride + j),
                   2 * sizeof(double));
}

const CpuVectorKernels CPU_ISA_NAME(cpu_vector_kernels) = {
    .f32 = {axpy_f32, axpy_pair_f32, dot_f32, rotate_f32, turn_f32},
    .f64 = {axpy_f64, axpy_pair_f64, dot_f64, rotate_f64, turn_f64},
    .c64 = {axpy_c64, axpy_pair_c64, dot_c64, rotate_c64, turn_f64},
    .c128 = {axpy_c128, axpy_pair_c128, dot_c128, rotate_c128, turn_c128},
};
