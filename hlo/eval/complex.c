// SPDX-License-Identifier: Apache-2.0
// Element-wise ops on complex operands, computed in double complex and rounded once. Products are the plain formula,
// which does not repair infinities.
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/eval/internal.h"

typedef double _Complex Complex;

static Complex apply_unary(HloOpcode opcode, Complex z) {
    switch (opcode) {
        case HLO_OP_ACOS: return cacos(z);
        case HLO_OP_ACOSH: return cacosh(z);
        case HLO_OP_ASIN: return casin(z);
        case HLO_OP_ASINH: return casinh(z);
        case HLO_OP_ATANH: return catanh(z);
        case HLO_OP_COS: return hlo_complex_cos(z);
        case HLO_OP_COSH: return ccosh(z);
        case HLO_OP_EXP: return hlo_complex_exp(z);
        case HLO_OP_EXPM1: return hlo_complex_expm1(z);
        case HLO_OP_LOG: return hlo_complex_log(z);
        case HLO_OP_LOG1P: return hlo_complex_log1p(z);
        case HLO_OP_LOGISTIC: return hlo_complex_logistic(z);
        case HLO_OP_NEGATE: return CMPLX(-creal(z), -cimag(z));
        case HLO_OP_RSQRT: return hlo_complex_rsqrt(z);
        case HLO_OP_SIGN: return hlo_complex_sign(z);
        case HLO_OP_SIN: return hlo_complex_sin(z);
        case HLO_OP_SINH: return csinh(z);
        case HLO_OP_SQRT: return hlo_complex_sqrt(z);
        case HLO_OP_TAN: return hlo_complex_tan(z);
        case HLO_OP_TANH: return hlo_complex_tanh(z);
        default: HLO_BUG_IF(true); return z;
    }
}

static Complex apply_binary(HloOpcode opcode, Complex a, Complex b) {
    switch (opcode) {
        case HLO_OP_ADD: return CMPLX(creal(a) + creal(b), cimag(a) + cimag(b));
        case HLO_OP_SUBTRACT: return CMPLX(creal(a) - creal(b), cimag(a) - cimag(b));
        case HLO_OP_MULTIPLY: return hlo_complex_multiply(a, b);
        case HLO_OP_DIVIDE: return a / b;
        case HLO_OP_POWER: return hlo_complex_power(a, b);
        case HLO_OP_ATAN2: return hlo_complex_atan2(a, b);
        default: HLO_BUG_IF(true); return a;
    }
}

static void unary_kernel(const HloInstruction *instruction, const void *const *operands, void *result, int64_t count) {
    HloType type = instruction->operands[0]->shape->type;
    int64_t bytes = hlo_type_bytes(type);
    for (int64_t i = 0; i < count; i++) {
        Complex z;
        hlo_eval_decode_complex(type, (const char *)operands[0] + i * bytes, 1, &z);
        z = apply_unary(instruction->opcode, z);
        hlo_eval_encode_complex(type, &z, 1, (char *)result + i * bytes);
    }
}

// Ops whose result is real or a predicate.
static void part_kernel(const HloInstruction *instruction, const void *const *operands, void *result, int64_t count) {
    HloType type = instruction->operands[0]->shape->type, part = instruction->shape->type;
    int64_t bytes = hlo_type_bytes(type);
    for (int64_t i = 0; i < count; i++) {
        Complex z;
        hlo_eval_decode_complex(type, (const char *)operands[0] + i * bytes, 1, &z);
        if (instruction->opcode == HLO_OP_IS_FINITE) {
            ((uint8_t *)result)[i] = isfinite(creal(z)) && isfinite(cimag(z));
            continue;
        }
        double value = instruction->opcode == HLO_OP_REAL   ? creal(z)
                       : instruction->opcode == HLO_OP_IMAG ? cimag(z)
                                                            : hlo_complex_abs(z);
        hlo_eval_encode_double(part, &value, 1, (char *)result + i * hlo_type_bytes(part));
    }
}

// Products of c64 round every partial product, so that they overflow where f32 does.
static Complex multiply_narrow(Complex a, Complex b) {
    float real = (float)(creal(a) * creal(b)) - (float)(cimag(a) * cimag(b));
    float imaginary = (float)(creal(a) * cimag(b)) + (float)(cimag(a) * creal(b));
    return CMPLX((double)real, (double)imaginary);
}

static void binary_kernel(const HloInstruction *instruction, const void *const *operands, void *result, int64_t count) {
    HloType type = instruction->operands[0]->shape->type;
    int64_t bytes = hlo_type_bytes(type);
    for (int64_t i = 0; i < count; i++) {
        Complex a, b;
        hlo_eval_decode_complex(type, (const char *)operands[0] + i * bytes, 1, &a);
        hlo_eval_decode_complex(type, (const char *)operands[1] + i * bytes, 1, &b);
        bool narrow = instruction->opcode == HLO_OP_MULTIPLY && type == HLO_C64;
        a = narrow ? multiply_narrow(a, b) : apply_binary(instruction->opcode, a, b);
        hlo_eval_encode_complex(type, &a, 1, (char *)result + i * bytes);
    }
}

HloEvalKernel *hlo_eval_complex_unary_kernel(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_REAL:
        case HLO_OP_IMAG:
        case HLO_OP_ABS:
        case HLO_OP_IS_FINITE: return part_kernel;
        case HLO_OP_ACOS:
        case HLO_OP_ACOSH:
        case HLO_OP_ASIN:
        case HLO_OP_ASINH:
        case HLO_OP_ATANH:
        case HLO_OP_COS:
        case HLO_OP_COSH:
        case HLO_OP_EXP:
        case HLO_OP_EXPM1:
        case HLO_OP_LOG:
        case HLO_OP_LOG1P:
        case HLO_OP_LOGISTIC:
        case HLO_OP_NEGATE:
        case HLO_OP_RSQRT:
        case HLO_OP_SIGN:
        case HLO_OP_SIN:
        case HLO_OP_SINH:
        case HLO_OP_SQRT:
        case HLO_OP_TAN:
        case HLO_OP_TANH: return unary_kernel;
        default: return NULL;
    }
}

HloEvalKernel *hlo_eval_complex_binary_kernel(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_ADD:
        case HLO_OP_SUBTRACT:
        case HLO_OP_MULTIPLY:
        case HLO_OP_DIVIDE:
        case HLO_OP_POWER:
        case HLO_OP_ATAN2: return binary_kernel;
        default: return NULL;
    }
}
