// SPDX-License-Identifier: Apache-2.0
// Decompositions of several small matrices at once in one instruction set, in both precisions.
#include "targets/cpu/isa/abreast.h"

#include <float.h>
#include <math.h>

#include "targets/cpu/isa/isa.h"

#define REAL float
#define BITS int32_t
#define SUFFIX f32
#define IS_DOUBLE 0
#define ROOT(x) sqrtf(x)
#define MANTISSA FLT_MANT_DIG
#define EXPONENT FLT_MAX_EXP
#define EPSILON FLT_EPSILON
#include "targets/cpu/isa/abreast_type.inc"
#undef REAL
#undef BITS
#undef SUFFIX
#undef IS_DOUBLE
#undef ROOT
#undef MANTISSA
#undef EXPONENT
#undef EPSILON

#define REAL double
#define BITS int64_t
#define SUFFIX f64
#define IS_DOUBLE 1
#define ROOT(x) sqrt(x)
#define MANTISSA DBL_MANT_DIG
#define EXPONENT DBL_MAX_EXP
#define EPSILON DBL_EPSILON
#include "targets/cpu/isa/abreast_type.inc"

const CpuAbreastKernels CPU_ISA_NAME(cpu_abreast_kernels) = {
    .f32 = {kLanes_f32, lu_f32, cholesky_f32, solve_f32, qr_f32, householder_product_f32, eigen_f32},
    .f64 = {kLanes_f64, lu_f64, cholesky_f64, solve_f64, qr_f64, householder_product_f64, eigen_f64}};
