// SPDX-License-Identifier: Apache-2.0
// The work on small triangles of one instruction set, in both precisions.
#include <complex.h>
#include <math.h>

#include "hlo/base/complex.h"
#include "targets/cpu/isa/isa.h"
#include "targets/cpu/isa/swapped.inc"
#include "targets/cpu/isa/triangle.h"

#define REAL float
#define SUFFIX f32
#define COMPLEX_SUFFIX c64
#define IS_DOUBLE 0
#define ROOT(x) sqrtf(x)
#define SWAP(v) SWAPPED_F32(v)
#include "targets/cpu/isa/triangle_type.inc"
#undef REAL
#undef SUFFIX
#undef COMPLEX_SUFFIX
#undef IS_DOUBLE
#undef ROOT
#undef SWAP

#define REAL double
#define SUFFIX f64
#define COMPLEX_SUFFIX c128
#define IS_DOUBLE 1
#define ROOT(x) sqrt(x)
#define SWAP(v) SWAPPED_F64(v)
#include "targets/cpu/isa/triangle_type.inc"

const CpuTriangleKernels CPU_ISA_NAME(cpu_triangle_kernels) = {.f32 = {factor_f32, solve_f32},
                                                               .f64 = {factor_f64, solve_f64},
                                                               .c64 = {factor_c64, solve_c64},
                                                               .c128 = {factor_c128, solve_c128}};
