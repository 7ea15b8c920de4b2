// SPDX-License-Identifier: Apache-2.0
// Element-wise ops on two real operands.
//
// A kernel is a loop over one C type, made by a macro from an expression of a and b. The switch from opcode to kernel
// is generated from the same table, so that both have the same ops. Types without a C type of their own go through a
// wider one chunk by chunk: narrow floats through float, integers below 8 bits through 64.
//
// Where HLO leaves the result to implementations, XLA's CPU target is followed: see the section comments, and eval.h.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/eval/internal.h"

#define DEFINE_KERNEL(name, type, expression)                                                                       \
    static void name(const HloInstruction *instruction, const void *const *operands, void *result, int64_t count) { \
        (void)instruction;                                                                                          \
        const type *lhs = operands[0], *rhs = operands[1];                                                          \
        type *out = result;                                                                                         \
        for (int64_t i = 0; i < count; i++) {                                                                       \
            type a = lhs[i], b = rhs[i];                                                                            \
            out[i] = (type)(expression);                                                                            \
        }                                                                                                           \
    }

// ---- floats: NaN wins over everything in max and min, and -0 < +0

#define FLOAT_MAX(a, b) \
    ((a) != (a) ? (a) : (b) != (b) ? (b) : (a) > (b) ? (a) : (b) > (a) ? (b) : signbit(a) ? (b) : (a))
#define FLOAT_MIN(a, b) \
    ((a) != (a) ? (a) : (b) != (b) ? (b) : (a) < (b) ? (a) : (b) < (a) ? (b) : signbit(a) ? (a) : (b))
#define FLOAT_OPS(ROW, type)                         \
    ROW(ADD, type, a + b)                            \
    ROW(SUBTRACT, type, a - b)                       \
    ROW(MULTIPLY, type, a *b)                        \
    ROW(DIVIDE, type, a / b)                         \
    ROW(MAXIMUM, type, FLOAT_MAX(a, b))              \
    ROW(MINIMUM, type, FLOAT_MIN(a, b))              \
    ROW(REMAINDER, type, fmod((double)a, (double)b)) \
    ROW(POWER, type, pow((double)a, (double)b))      \
    ROW(ATAN2, type, atan2((double)a, (double)b))

#define FLOAT_KERNEL(op, type, expression) DEFINE_KERNEL(op##_##type, type, expression)
FLOAT_OPS(FLOAT_KERNEL, float)
FLOAT_OPS(FLOAT_KERNEL, double)

// The kernel of an op for float or double; NULL for an op of integers only.
static HloEvalKernel *float_kernel(HloOpcode opcode, bool wide) {
    switch (opcode) {
#define ROW(op, type, expression) \
    case HLO_OP_##op: return wide ? op##_double : op##_float;
        FLOAT_OPS(ROW, unused)
#undef ROW
        default: return NULL;
    }
}

// Decodes to float, computes there, and rounds to the type. The two roundings are harmless for sums, products and
// quotients, because float has at least 2p + 2 digits for p of f16, bf16 or less (Figueroa, "When is double rounding
// innocuous?", SIGNUM Newsletter 1995). Extremes and remainders are exact. One in many thousands of powers and angles
// is the neighbour of the nearest number, as in XLA, which computes them in the same way.
static void narrow_float_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                                int64_t count) {
    HloType type = instruction->operands[0]->shape->type;
    HloEvalKernel *kernel = float_kernel(instruction->opcode, false);
    int64_t bytes = hlo_type_bytes(type);
    float lhs[HLO_EVAL_CHUNK], rhs[HLO_EVAL_CHUNK], out[HLO_EVAL_CHUNK];
    const void *inputs[2] = {lhs, rhs};
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        hlo_eval_decode_float(type, (const char *)operands[0] + start * bytes, length, lhs);
        hlo_eval_decode_float(type, (const char *)operands[1] + start * bytes, length, rhs);
        kernel(instruction, inputs, out, length);
        hlo_eval_encode_float(type, out, length, (char *)result + start * bytes);
    }
}

// ---- integers: arithmetic wraps; division by zero gives all ones, remainder by zero the dividend

// Raises a to the power of b by squaring; a negative exponent gives 1/a^-b, truncated.
static uint64_t integer_power(uint64_t base, int64_t exponent, bool is_signed) {
    if (is_signed && exponent < 0) {
        if (base == 1) return 1;
        if ((int64_t)base == -1) return exponent & 1 ? base : 1;
        return 0;
    }
    uint64_t result = 1;
    for (uint64_t rest = (uint64_t)exponent; rest; rest >>= 1) {
        if (rest & 1) result *= base;
        base *= base;
    }
    return result;
}

// The upper `bits` of the product of two numbers of that width, which are sign- or zero-extended to 64 bits.
static uint64_t high_half(uint64_t a, uint64_t b, int bits, bool is_signed) {
    assert(bits >= 1 && bits <= 64);
    if (bits <= 32) return is_signed ? (uint64_t)((int64_t)(a * b) >> bits) : a * b >> bits;
    assert(bits == 64); /* there is no type between */
    // Schoolbook multiplication of the halves; the sum in the middle cannot overflow.
    const uint64_t low = UINT64_C(0xFFFFFFFF);
    const uint64_t cross = (a >> 32) * (b & low), middle = (a & low) * (b >> 32) + ((a & low) * (b & low) >> 32);
    uint64_t high = (a >> 32) * (b >> 32) + (cross >> 32) + (((cross & low) + middle) >> 32);
    // As a signed number, a negative operand is its unsigned value less 2^64.
    if (is_signed && (int64_t)a < 0) high -= b;
    if (is_signed && (int64_t)b < 0) high -= a;
    return high;
}

#define BITS(type) ((int)sizeof(type) * 8)
#define SIGNED_DIVIDE(type, a, b) ((b) == 0 ? (type)-1 : (b) == -1 ? (type)(0 - (uint64_t)(a)) : (type)((a) / (b)))
#define SIGNED_REMAINDER(a, b) ((b) == 0 ? (a) : (b) == -1 ? 0 : (a) % (b))
// A shift distance counts as unsigned.
#define TOO_FAR(type, b) ((uint64_t)(u##type)(b) >= (uint64_t)BITS(type))

#define COMMON_OPS(ROW, type)                      \
    ROW(ADD, type, (uint64_t)a + (uint64_t)b)      \
    ROW(SUBTRACT, type, (uint64_t)a - (uint64_t)b) \
    ROW(MULTIPLY, type, (uint64_t)a *(uint64_t)b)  \
    ROW(MAXIMUM, type, a > b ? a : b)              \
    ROW(MINIMUM, type, a < b ? a : b)              \
    ROW(AND, type, a &b)                           \
    ROW(OR, type, a | b)                           \
    ROW(XOR, type, a ^ b)
#define SIGNED_OPS(ROW, type)                                                       \
    COMMON_OPS(ROW, type)                                                           \
    ROW(MULHI, type, high_half((uint64_t)a, (uint64_t)b, BITS(type), true))         \
    ROW(DIVIDE, type, SIGNED_DIVIDE(type, a, b))                                    \
    ROW(REMAINDER, type, SIGNED_REMAINDER(a, b))                                    \
    ROW(POWER, type, integer_power((uint64_t)a, b, true))                           \
    ROW(SHIFT_LEFT, type, TOO_FAR(type, b) ? 0 : (uint64_t)a << b)                  \
    ROW(SHIFT_RIGHT_ARITHMETIC, type, TOO_FAR(type, b) ? (a < 0 ? -1 : 0) : a >> b) \
    ROW(SHIFT_RIGHT_LOGICAL, type, TOO_FAR(type, b) ? 0 : (u##type)a >> b)
#define UNSIGNED_OPS(ROW, type)                                                                          \
    COMMON_OPS(ROW, type)                                                                                \
    ROW(MULHI, type, high_half(a, b, BITS(type), false))                                                 \
    ROW(DIVIDE, type, b == 0 ? (type)-1 : a / b)                                                         \
    ROW(REMAINDER, type, b == 0 ? a : a % b)                                                             \
    ROW(POWER, type, integer_power((uint64_t)a, (int64_t)b, false))                                      \
    ROW(SHIFT_LEFT, type, b >= BITS(type) ? 0 : (uint64_t)a << b)                                        \
    ROW(SHIFT_RIGHT_ARITHMETIC, type,                                                                    \
        b >= BITS(type) ? (type)(0 - (a >> (BITS(type) - 1)))                                            \
                        : (type)((int64_t)((uint64_t)a << (64 - BITS(type))) >> b >> (64 - BITS(type)))) \
    ROW(SHIFT_RIGHT_LOGICAL, type, b >= BITS(type) ? 0 : a >> b)

#define INTEGER_KERNEL(op, type, expression) DEFINE_KERNEL(op##_##type, type, expression)
#define INTEGER_CASE(op, type, expression) \
    case HLO_OP_##op:                      \
        return op##_##type;
#define INTEGER_TYPE(type, OPS)                             \
    OPS(INTEGER_KERNEL, type)                               \
    static HloEvalKernel *kernel_##type(HloOpcode opcode) { \
        switch (opcode) {                                   \
            OPS(INTEGER_CASE, type)                         \
            default: return NULL;                           \
        }                                                   \
    }
INTEGER_TYPE(int8_t, SIGNED_OPS)
INTEGER_TYPE(int16_t, SIGNED_OPS)
INTEGER_TYPE(int32_t, SIGNED_OPS)
INTEGER_TYPE(int64_t, SIGNED_OPS)
INTEGER_TYPE(uint8_t, UNSIGNED_OPS)
INTEGER_TYPE(uint16_t, UNSIGNED_OPS)
INTEGER_TYPE(uint32_t, UNSIGNED_OPS)
INTEGER_TYPE(uint64_t, UNSIGNED_OPS)

// ---- integers below 8 bits: one at a time in 64 bits, wrapped afterwards

// The caller wraps the result to the width of the type; only ops that depend on the width itself (shifts, the upper
// half of a product) use it here.
static int64_t apply_narrow(HloOpcode opcode, int64_t a, int64_t b, int bits, bool is_signed) {
    uint64_t mask = (UINT64_C(1) << bits) - 1, low = (uint64_t)a & mask, distance = (uint64_t)b & mask;
    bool far = distance >= (uint64_t)bits;
    switch (opcode) {
        case HLO_OP_ADD: return a + b;
        case HLO_OP_SUBTRACT: return a - b;
        case HLO_OP_MULTIPLY: return a * b;
        case HLO_OP_MULHI: return (int64_t)high_half((uint64_t)a, (uint64_t)b, bits, is_signed);
        case HLO_OP_MAXIMUM: return a > b ? a : b;
        case HLO_OP_MINIMUM: return a < b ? a : b;
        case HLO_OP_AND: return a & b;
        case HLO_OP_OR: return a | b;
        case HLO_OP_XOR: return a ^ b;
        case HLO_OP_DIVIDE: return b == 0 ? -1 : a / b;
        case HLO_OP_REMAINDER: return b == 0 ? a : a % b;
        case HLO_OP_POWER: return (int64_t)integer_power((uint64_t)a, b, is_signed);
        case HLO_OP_SHIFT_LEFT: return far ? 0 : (int64_t)(low << distance);
        case HLO_OP_SHIFT_RIGHT_LOGICAL: return far ? 0 : (int64_t)(low >> distance);
        case HLO_OP_SHIFT_RIGHT_ARITHMETIC: {
            int64_t wide = (int64_t)(low << (64 - bits)) >> (64 - bits);
            return far ? (wide < 0 ? -1 : 0) : wide >> distance;
        }
        default: HLO_BUG_IF(true); return 0;
    }
}

// Types below 8 bits take a byte each in memory.
static void narrow_integer_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                                  int64_t count) {
    HloType type = instruction->operands[0]->shape->type;
    int bits = hlo_type_info(type)->bits;
    bool is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
    for (int64_t i = 0; i < count; i++) {
        int64_t a, b;
        hlo_eval_decode_int64(type, (const int8_t *)operands[0] + i, 1, &a);
        hlo_eval_decode_int64(type, (const int8_t *)operands[1] + i, 1, &b);
        int64_t value = apply_narrow(instruction->opcode, a, b, bits, is_signed);
        hlo_eval_encode_int64(type, &value, 1, (int8_t *)result + i);
    }
}

// ---- predicates

#define PRED_OPS(ROW)                \
    ROW(ADD, uint8_t, a || b)        \
    ROW(AND, uint8_t, a &&b)         \
    ROW(DIVIDE, uint8_t, b ? a : 1)  \
    ROW(MAXIMUM, uint8_t, a || b)    \
    ROW(MINIMUM, uint8_t, a &&b)     \
    ROW(MULTIPLY, uint8_t, a &&b)    \
    ROW(OR, uint8_t, a || b)         \
    ROW(SUBTRACT, uint8_t, !a != !b) \
    ROW(XOR, uint8_t, !a != !b)
#define PRED_KERNEL(op, type, expression) DEFINE_KERNEL(op##_pred, type, expression)
PRED_OPS(PRED_KERNEL)

// Truth values add as "or" and multiply as "and".
static HloEvalKernel *pred_kernel(HloOpcode opcode) {
    switch (opcode) {
#define ROW(op, type, expression) \
    case HLO_OP_##op: return op##_pred;
        PRED_OPS(ROW)
#undef ROW
        default: return NULL;
    }
}

// The kernel is chosen once for a whole array.
HloEvalKernel *hlo_eval_binary_kernel(HloOpcode opcode, HloType type) {
    assert(hlo_type_is_array(type));
    switch (type) {
        case HLO_PRED: return pred_kernel(opcode);
        case HLO_S8: return kernel_int8_t(opcode);
        case HLO_S16: return kernel_int16_t(opcode);
        case HLO_S32: return kernel_int32_t(opcode);
        case HLO_S64: return kernel_int64_t(opcode);
        case HLO_U8: return kernel_uint8_t(opcode);
        case HLO_U16: return kernel_uint16_t(opcode);
        case HLO_U32: return kernel_uint32_t(opcode);
        case HLO_U64: return kernel_uint64_t(opcode);
        case HLO_F32: return float_kernel(opcode, false);
        case HLO_F64: return float_kernel(opcode, true);
        case HLO_C64:
        case HLO_C128: return hlo_eval_complex_binary_kernel(opcode);
        default: break;
    }
    if (hlo_type_is_integer(type)) return kernel_int8_t(opcode) ? narrow_integer_kernel : NULL;
    return hlo_type_is_float(type) && float_kernel(opcode, false) ? narrow_float_kernel : NULL;
}
