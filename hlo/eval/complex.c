// SPDX-License-Identifier: Apache-2.0
// Element-wise ops on complex operands, computed in double complex and rounded once. Products are the plain formula,
// which does not repair infinities.
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/eval/internal.h"

typedef double _Complex Complex;

#define NAN_PAIR CMPLX(NAN, NAN)

static bool has_nan(Complex z) {
    return isnan(creal(z)) || isnan(cimag(z));
}

// The functions below follow XLA at infinities and NaN, where it goes its own way rather than C's Annex G.
static Complex exp_of(Complex z) {
    double size = exp(creal(z)), y = cimag(z);
    return y == 0 ? CMPLX(size, y) : CMPLX(size * cos(y), size * sin(y));
}

static Complex sin_of(Complex z) {
    double x = creal(z), y = cimag(z);
    return CMPLX(sin(x) * cosh(y), cos(x) * sinh(y));
}

static Complex cos_of(Complex z) {
    double x = creal(z), y = cimag(z);
    return CMPLX(cos(x) * cosh(y), -(sin(x) * sinh(y)));
}

static Complex tanh_of(Complex z) {
    return creal(z) == 0 && !isfinite(cimag(z)) ? NAN_PAIR : ctanh(z);
}

static Complex tan_of(Complex z) {
    return cimag(z) == 0 && !isfinite(creal(z)) ? NAN_PAIR : ctan(z);
}

static Complex sqrt_of(Complex z) {
    if (has_nan(z)) return NAN_PAIR;
    bool negative = creal(z) < 0 && cimag(z) == 0;  // -0 counts as +0
    return negative ? CMPLX(0, sqrt(-creal(z))) : csqrt(z);
}

static Complex log_of(Complex z) {
    return has_nan(z) ? NAN_PAIR : clog(z);
}

static Complex log1p_of(Complex z) {
    if (has_nan(z)) return NAN_PAIR;
    double x = creal(z), y = cimag(z);
    // log|1+z| through log1p keeps small arguments accurate.
    double real = fabs(x) < 0.5 && fabs(y) < 0.5 ? 0.5 * log1p(x * (2 + x) + y * y) : log(hypot(1 + x, y));
    return CMPLX(real, atan2(y, 1 + x));
}

static Complex expm1_of(Complex z) {
    double x = creal(z), y = cimag(z), e = expm1(x), s = sin(y / 2);
    if (y == 0) return CMPLX(e, y);
    // e^x cos y - 1 = (e^x - 1) cos y + (cos y - 1), and cos y - 1 = -2 sin^2(y/2)
    return CMPLX(e * cos(y) - 2 * s * s, exp(x) * sin(y));
}

static Complex sign_of(Complex z) {
    double size = cabs(z);
    if (has_nan(z)) return NAN_PAIR;
    return size == 0 ? CMPLX(0, 0) : CMPLX(creal(z) / size, cimag(z) / size);
}

static Complex cbrt_of(Complex z) {
    return z == 0 ? z : cexp(clog(z) / 3);
}

static Complex rsqrt_of(Complex z) {
    if (z == 0) return CMPLX(INFINITY, NAN);
    if (isinf(creal(z)) || isinf(cimag(z))) return CMPLX(0, 0);
    Complex root = csqrt(z);
    double size = creal(root) * creal(root) + cimag(root) * cimag(root);
    return CMPLX(creal(root) / size, -cimag(root) / size);
}

// |a|^c e^(-d arg a) at the angle c arg a + d log|a|, for a power c + id.
static Complex power(Complex a, Complex b) {
    double c = creal(b), d = cimag(b), x = creal(a), y = cimag(a);
    if ((c == 0 && d == 0) || (x == 1 && y == 0)) return 1;
    if (x >= 0 && y == 0 && d == 0) return pow(x, c);
    double norm = x * x + y * y, angle = atan2(y, x), logarithm = log(norm);
    double size = pow(norm, 0.5 * c) * exp(-d * angle), turn = c * angle + 0.5 * d * logarithm;
    return CMPLX(size * cos(turn), size * sin(turn));
}

static Complex atan2_of(Complex y, Complex x) {
    // -i log((x + i y) / sqrt(x^2 + y^2))
    Complex i = CMPLX(0, 1);
    return -i * clog((x + i * y) / csqrt(x * x + y * y));
}

static Complex apply_unary(HloOpcode opcode, Complex z) {
    switch (opcode) {
        case HLO_OP_ACOS: return cacos(z);
        case HLO_OP_ACOSH: return cacosh(z);
        case HLO_OP_ASIN: return casin(z);
        case HLO_OP_ASINH: return casinh(z);
        case HLO_OP_ATANH: return catanh(z);
        case HLO_OP_CBRT: return cbrt_of(z);
        case HLO_OP_COS: return cos_of(z);
        case HLO_OP_COSH: return ccosh(z);
        case HLO_OP_EXP: return exp_of(z);
        case HLO_OP_EXPM1: return expm1_of(z);
        case HLO_OP_LOG: return log_of(z);
        case HLO_OP_LOG1P: return log1p_of(z);
        case HLO_OP_LOGISTIC: return 1 / (1 + exp_of(-z));
        case HLO_OP_NEGATE: return CMPLX(-creal(z), -cimag(z));
        case HLO_OP_RSQRT: return rsqrt_of(z);
        case HLO_OP_SIGN: return sign_of(z);
        case HLO_OP_SIN: return sin_of(z);
        case HLO_OP_SINH: return csinh(z);
        case HLO_OP_SQRT: return sqrt_of(z);
        case HLO_OP_TAN: return tan_of(z);
        case HLO_OP_TANH: return tanh_of(z);
        default: HLO_BUG_IF(true); return z;
    }
}

static Complex apply_binary(HloOpcode opcode, Complex a, Complex b) {
    switch (opcode) {
        case HLO_OP_ADD: return CMPLX(creal(a) + creal(b), cimag(a) + cimag(b));
        case HLO_OP_SUBTRACT: return CMPLX(creal(a) - creal(b), cimag(a) - cimag(b));
        case HLO_OP_MULTIPLY: return hlo_complex_multiply(a, b);
        case HLO_OP_DIVIDE: return a / b;
        case HLO_OP_POWER: return power(a, b);
        case HLO_OP_ATAN2: return atan2_of(a, b);
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
                       : has_nan(z)                         ? NAN
                                                            : cabs(z);
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
        case HLO_OP_CBRT:
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
