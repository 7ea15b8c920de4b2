// SPDX-License-Identifier: Apache-2.0
// Elementwise ops on complex operands: decoded to double complex, computed there, rounded once to c64 or c128.
//
// Products use the plain formula (a c - b d) + (a d + b c) i, as in XLA: C's own operator would repair infinities
// (Annex G). For c64 each of the four partial products is rounded, so that they overflow where f32 does.
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/eval/internal.h"

typedef double _Complex Complex;

typedef Complex UnaryFunction(Complex z);
typedef Complex BinaryFunction(Complex a, Complex b);

static Complex negate(Complex z) {
    return CMPLX(-creal(z), -cimag(z));
}

static Complex add(Complex a, Complex b) {
    return CMPLX(creal(a) + creal(b), cimag(a) + cimag(b));
}

static Complex subtract(Complex a, Complex b) {
    return CMPLX(creal(a) - creal(b), cimag(a) - cimag(b));
}

static Complex divide(Complex a, Complex b) {
    return a / b;
}

static Complex maximum(Complex a, Complex b) {
    return hlo_complex_not_after(b, a) ? a : b;
}

static Complex minimum(Complex a, Complex b) {
    return hlo_complex_not_after(a, b) ? a : b;
}

// The ops with a complex result, by opcode; opcodes without an entry are not defined for complex numbers. Functions of
// the C library are used where they are accurate for all arguments, our own (hlo/base/complex.h) elsewhere.
static UnaryFunction *const unary_functions[HLO_OPCODE_COUNT] = {
    [HLO_OP_ACOS] = cacos,
    [HLO_OP_ACOSH] = cacosh,
    [HLO_OP_ASIN] = casin,
    [HLO_OP_ASINH] = casinh,
    [HLO_OP_ATANH] = catanh,
    [HLO_OP_COS] = hlo_complex_cos,
    [HLO_OP_COSH] = ccosh,
    [HLO_OP_EXP] = hlo_complex_exp,
    [HLO_OP_EXPM1] = hlo_complex_expm1,
    [HLO_OP_LOG] = hlo_complex_log,
    [HLO_OP_LOG1P] = hlo_complex_log1p,
    [HLO_OP_LOGISTIC] = hlo_complex_logistic,
    [HLO_OP_NEGATE] = negate,
    [HLO_OP_RSQRT] = hlo_complex_rsqrt,
    [HLO_OP_SIGN] = hlo_complex_sign,
    [HLO_OP_SIN] = hlo_complex_sin,
    [HLO_OP_SINH] = csinh,
    [HLO_OP_SQRT] = hlo_complex_sqrt,
    [HLO_OP_TAN] = hlo_complex_tan,
    [HLO_OP_TANH] = hlo_complex_tanh,
};
static BinaryFunction *const binary_functions[HLO_OPCODE_COUNT] = {
    [HLO_OP_ADD] = add,         [HLO_OP_SUBTRACT] = subtract,       [HLO_OP_MULTIPLY] = hlo_complex_multiply,
    [HLO_OP_DIVIDE] = divide,   [HLO_OP_POWER] = hlo_complex_power, [HLO_OP_ATAN2] = hlo_complex_atan2,
    [HLO_OP_MAXIMUM] = maximum, [HLO_OP_MINIMUM] = minimum,
};

static void unary_kernel(const HloInstruction *instruction, const void *const *operands, void *result, int64_t count) {
    HloType type = instruction->operands[0]->shape->type;
    int64_t bytes = hlo_type_bytes(type);
    UnaryFunction *function = unary_functions[instruction->opcode];
    for (int64_t i = 0; i < count; i++) {
        Complex z;
        hlo_eval_decode_complex(type, (const char *)operands[0] + i * bytes, 1, &z);
        z = function(z);
        hlo_eval_encode_complex(type, &z, 1, (char *)result + i * bytes);
    }
}

// Computes ops whose result is real or a predicate.
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

static Complex multiply_narrow(Complex a, Complex b) {
    float real = (float)(creal(a) * creal(b)) - (float)(cimag(a) * cimag(b));
    float imaginary = (float)(creal(a) * cimag(b)) + (float)(cimag(a) * creal(b));
    return CMPLX((double)real, (double)imaginary);
}

static void binary_kernel(const HloInstruction *instruction, const void *const *operands, void *result, int64_t count) {
    HloType type = instruction->operands[0]->shape->type;
    int64_t bytes = hlo_type_bytes(type);
    BinaryFunction *function = binary_functions[instruction->opcode];
    if (instruction->opcode == HLO_OP_MULTIPLY && type == HLO_C64) function = multiply_narrow;
    for (int64_t i = 0; i < count; i++) {
        Complex a, b;
        hlo_eval_decode_complex(type, (const char *)operands[0] + i * bytes, 1, &a);
        hlo_eval_decode_complex(type, (const char *)operands[1] + i * bytes, 1, &b);
        a = function(a, b);
        hlo_eval_encode_complex(type, &a, 1, (char *)result + i * bytes);
    }
}

HloEvalKernel *hlo_eval_complex_unary_kernel(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_REAL:
        case HLO_OP_IMAG:
        case HLO_OP_ABS:
        case HLO_OP_IS_FINITE: return part_kernel;
        default: return unary_functions[opcode] ? unary_kernel : NULL;
    }
}

HloEvalKernel *hlo_eval_complex_binary_kernel(HloOpcode opcode) {
    return binary_functions[opcode] ? binary_kernel : NULL;
}
