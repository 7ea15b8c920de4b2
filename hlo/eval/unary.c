// SPDX-License-Identifier: Apache-2.0
// Element-wise ops on one real operand. f32 is computed in double and rounded once; narrower floats go through f32;
// integers through 64 bits.
//
// As in binary.c a table of expressions generates the kernels and the switches. Functions are those of the C library in
// double: f32 results are correctly rounded except for one case in hundreds of millions, which is within the oracle's
// tolerance.
#include <math.h>
#include <string.h>

#include "hlo/eval/internal.h"

// NaN and both zeros are their own sign.
static double sign_of(double x) {
    return isnan(x) || x == 0 ? x : x > 0 ? 1.0 : -1.0;
}

// Each row: opcode, expression of the double x.
#define FLOAT_OPS(ROW)                   \
    ROW(ABS, fabs(x))                    \
    ROW(ACOS, acos(x))                   \
    ROW(ACOSH, acosh(x))                 \
    ROW(ASIN, asin(x))                   \
    ROW(ASINH, asinh(x))                 \
    ROW(ATANH, atanh(x))                 \
    ROW(CBRT, cbrt(x))                   \
    ROW(CEIL, ceil(x))                   \
    ROW(COS, cos(x))                     \
    ROW(COSH, cosh(x))                   \
    ROW(ERF, erf(x))                     \
    ROW(EXP, exp(x))                     \
    ROW(EXPM1, expm1(x))                 \
    ROW(FLOOR, floor(x))                 \
    ROW(IMAG, 0.0 * (x != x))            \
    ROW(LOG, log(x))                     \
    ROW(LOG1P, log1p(x))                 \
    ROW(LOGISTIC, 1.0 / (1.0 + exp(-x))) \
    ROW(NEGATE, -x)                      \
    ROW(REAL, x)                         \
    ROW(ROUND_NEAREST_AFZ, round(x))     \
    ROW(ROUND_NEAREST_EVEN, rint(x))     \
    ROW(RSQRT, 1.0 / sqrt(x))            \
    ROW(SIGN, sign_of(x))                \
    ROW(SIN, sin(x))                     \
    ROW(SINH, sinh(x))                   \
    ROW(SQRT, sqrt(x))                   \
    ROW(TAN, tan(x))                     \
    ROW(TANH, tanh(x))

#define FLOAT_KERNELS(op, expression)                                                                  \
    static void op##_f32(const HloInstruction *instruction, const void *const *operands, void *result, \
                         int64_t count) {                                                              \
        (void)instruction;                                                                             \
        const float *in = operands[0];                                                                 \
        float *out = result;                                                                           \
        for (int64_t i = 0; i < count; i++) {                                                          \
            double x = in[i];                                                                          \
            out[i] = (float)(expression);                                                              \
        }                                                                                              \
    }                                                                                                  \
    static void op##_f64(const HloInstruction *instruction, const void *const *operands, void *result, \
                         int64_t count) {                                                              \
        (void)instruction;                                                                             \
        const double *in = operands[0];                                                                \
        double *out = result;                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                          \
            double x = in[i];                                                                          \
            out[i] = (expression);                                                                     \
        }                                                                                              \
    }
FLOAT_OPS(FLOAT_KERNELS)

// The kernel of an op for float or double; NULL for an op of integers only.
static HloEvalKernel *float_kernel(HloOpcode opcode, bool wide) {
    switch (opcode) {
#define ROW(op, expression) \
    case HLO_OP_##op: return wide ? op##_f64 : op##_f32;
        FLOAT_OPS(ROW)
#undef ROW
        default: return NULL;
    }
}

// Computes through float, chunk by chunk: the float result is rounded again to the narrow type.
static void narrow_float_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                                int64_t count) {
    HloType type = instruction->operands[0]->shape->type;
    HloEvalKernel *kernel = float_kernel(instruction->opcode, false);
    int64_t bytes = hlo_type_bytes(type);
    float in[HLO_EVAL_CHUNK], out[HLO_EVAL_CHUNK];
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        hlo_eval_decode_float(type, (const char *)operands[0] + start * bytes, length, in);
        const void *inputs[1] = {in};
        kernel(instruction, inputs, out, length);
        hlo_eval_encode_float(type, out, length, (char *)result + start * bytes);
    }
}

// Types without infinities are decoded like any other: only their NaN is not finite.
static void is_finite_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                             int64_t count) {
    HloType type = instruction->operands[0]->shape->type;
    double in[HLO_EVAL_CHUNK];
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        hlo_eval_decode_double(type, (const char *)operands[0] + start * hlo_type_bytes(type), length, in);
        for (int64_t i = 0; i < length; i++) ((uint8_t *)result)[start + i] = isfinite(in[i]) != 0;
    }
}

// Values are sign- or zero-extended to 64 bits; the caller wraps the result.
static int64_t apply_integer(HloOpcode opcode, int64_t x, int bits, bool is_signed) {
    uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1, low = (uint64_t)x & mask;
    switch (opcode) {
        case HLO_OP_ABS: return is_signed && x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
        case HLO_OP_NEGATE: return (int64_t)(0 - (uint64_t)x);
        case HLO_OP_NOT: return ~x;
        case HLO_OP_SIGN: return is_signed ? (x > 0) - (x < 0) : x != 0;
        case HLO_OP_POPCNT: return __builtin_popcountll(low);
        case HLO_OP_CLZ: return low ? __builtin_clzll(low) - (64 - bits) : bits;
        default: return x;  // ceil, floor, real, round: the identity on integers
    }
}

static void integer_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                           int64_t count) {
    HloType type = instruction->operands[0]->shape->type;
    int64_t bytes = hlo_type_bytes(type), values[HLO_EVAL_CHUNK];
    int bits = hlo_type_info(type)->bits;
    bool is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        hlo_eval_decode_int64(type, (const char *)operands[0] + start * bytes, length, values);
        for (int64_t i = 0; i < length; i++) {
            values[i] = apply_integer(instruction->opcode, values[i], bits, is_signed);
        }
        hlo_eval_encode_int64(type, values, length, (char *)result + start * bytes);
    }
}

// Bytes other than 0 and 1 count as true, and become 0.
static void not_pred_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                            int64_t count) {
    (void)instruction;
    const uint8_t *in = operands[0];
    for (int64_t i = 0; i < count; i++) ((uint8_t *)result)[i] = !in[i];
}

// Whether the kernel above computes the op; other ops are not defined for integers and have no kernel.
static bool integer_has(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_ABS:
        case HLO_OP_NEGATE:
        case HLO_OP_NOT:
        case HLO_OP_SIGN:
        case HLO_OP_POPCNT:
        case HLO_OP_CLZ:
        case HLO_OP_REAL:
        case HLO_OP_CEIL:
        case HLO_OP_FLOOR: return true;
        default: return false;
    }
}

// Chooses by the operand's type: real and imag have another one in the result, and kernels of their own.
HloEvalKernel *hlo_eval_unary_kernel(const HloInstruction *instruction) {
    HloType type = instruction->operands[0]->shape->type;
    HloOpcode opcode = instruction->opcode;
    switch (hlo_type_kind(type)) {
        case HLO_KIND_PRED: return opcode == HLO_OP_NOT ? not_pred_kernel : NULL;
        case HLO_KIND_SIGNED:
        case HLO_KIND_UNSIGNED: return integer_has(opcode) ? integer_kernel : NULL;
        case HLO_KIND_COMPLEX: return hlo_eval_complex_unary_kernel(opcode);
        case HLO_KIND_FLOAT: break;
        default: return NULL;
    }
    if (opcode == HLO_OP_IS_FINITE) return is_finite_kernel;
    HloEvalKernel *kernel = float_kernel(opcode, type == HLO_F64);
    return type == HLO_F64 || type == HLO_F32 || !kernel ? kernel : narrow_float_kernel;
}
