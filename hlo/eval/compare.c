// SPDX-License-Identifier: Apache-2.0
// compare, select and clamp.
//
// compare runs in the operands' own C type where there is one. The floats that C lacks are compared as doubles, which
// hold each of them exactly, so order and equality are the same. With type=TOTALORDER floats are compared as integers,
// mapped by hlo_eval_total_order(). The bits of a float, read as a signed number, are in order for positive numbers and
// in reverse for negative ones, so all bits but the sign of negative numbers are flipped:
//
//   -NaN < -inf < -1 < -0 < +0 < 1 < inf < NaN
#include <assert.h>
#include <complex.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/eval/internal.h"

#define COMPARE_LOOP(operator)                                       \
    for (int64_t i = 0; i < count; i++) out[i] = a[i] operator b[i]; \
    return

#define DEFINE_COMPARE(type)                                                                                   \
    static void compare_##type(int32_t direction, const type *a, const type *b, uint8_t *out, int64_t count) { \
        switch (direction) {                                                                                   \
            case HLO_ComparisonDirection_EQ: COMPARE_LOOP(==);                                                 \
            case HLO_ComparisonDirection_NE: COMPARE_LOOP(!=);                                                 \
            case HLO_ComparisonDirection_GE: COMPARE_LOOP(>=);                                                 \
            case HLO_ComparisonDirection_GT: COMPARE_LOOP(>);                                                  \
            case HLO_ComparisonDirection_LE: COMPARE_LOOP(<=);                                                 \
            default: COMPARE_LOOP(<);                                                                          \
        }                                                                                                      \
    }
DEFINE_COMPARE(float)
DEFINE_COMPARE(double)
DEFINE_COMPARE(int8_t)
DEFINE_COMPARE(int16_t)
DEFINE_COMPARE(int32_t)
DEFINE_COMPARE(int64_t)
DEFINE_COMPARE(uint8_t)
DEFINE_COMPARE(uint16_t)
DEFINE_COMPARE(uint32_t)
DEFINE_COMPARE(uint64_t)

// Compares bits, as XLA does, which compares f32 as s32: converting a signalling NaN from float to double would make it
// quiet. Types of a byte are decoded to double bit by bit, without loss.
void hlo_eval_total_order(HloType type, const void *data, int64_t count, int64_t *ranks) {
    assert(hlo_type_is_float(type) && count >= 0);
    const bool by_float = type == HLO_F32 || type == HLO_F16 || type == HLO_BF16;  // exact in float, NaN payloads too
    for (int64_t i = 0; i < count; i++) {
        const char *element = (const char *)data + i * hlo_type_bytes(type);
        double wide;
        float narrow;
        int32_t bits;
        if (by_float) {
            hlo_eval_decode_float(type, element, 1, &narrow);
            memcpy(&bits, &narrow, sizeof(bits));
            ranks[i] = bits < 0 ? bits ^ INT32_MAX : bits;
        } else {
            hlo_eval_decode_double(type, element, 1, &wide);
            memcpy(&ranks[i], &wide, sizeof(wide));
            ranks[i] = ranks[i] < 0 ? ranks[i] ^ INT64_MAX : ranks[i];
        }
    }
}

// Compares floats that C cannot compare directly, through double, which keeps order and signs, and all floats under the
// total order.
static void compare_decoded(const HloInstruction *instruction, const void *const *operands, uint8_t *out,
                            int64_t count) {
    assert(count >= 0);
    HloType type = instruction->operands[0]->shape->type;
    const HloCompareAttributes *compare = HLO_ATTRIBUTES(instruction, Compare);
    int64_t bytes = hlo_type_bytes(type);
    double lhs[HLO_EVAL_CHUNK], rhs[HLO_EVAL_CHUNK];
    int64_t lhs_order[HLO_EVAL_CHUNK], rhs_order[HLO_EVAL_CHUNK];
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        const char *a = (const char *)operands[0] + start * bytes, *b = (const char *)operands[1] + start * bytes;
        if (compare->type == HLO_ComparisonType_TOTALORDER) {
            hlo_eval_total_order(type, a, length, lhs_order);
            hlo_eval_total_order(type, b, length, rhs_order);
            compare_int64_t(compare->direction, lhs_order, rhs_order, out + start, length);
        } else {
            hlo_eval_decode_double(type, a, length, lhs);
            hlo_eval_decode_double(type, b, length, rhs);
            compare_double(compare->direction, lhs, rhs, out + start, length);
        }
    }
}

static bool complex_holds(int32_t direction, double _Complex a, double _Complex b) {
    switch (direction) {
        case HLO_ComparisonDirection_EQ: return creal(a) == creal(b) && cimag(a) == cimag(b);
        case HLO_ComparisonDirection_NE: return creal(a) != creal(b) || cimag(a) != cimag(b);
        case HLO_ComparisonDirection_LT: return hlo_complex_before(a, b);
        case HLO_ComparisonDirection_LE: return hlo_complex_not_after(a, b);
        case HLO_ComparisonDirection_GT: return hlo_complex_before(b, a);
        default: return hlo_complex_not_after(b, a);
    }
}

static void compare_complex(const HloInstruction *instruction, const void *const *operands, uint8_t *out,
                            int64_t count) {
    assert(count >= 0);
    HloType type = instruction->operands[0]->shape->type;
    int64_t bytes = hlo_type_bytes(type);
    int32_t direction = HLO_ATTRIBUTES(instruction, Compare)->direction;
    for (int64_t i = 0; i < count; i++) {
        double _Complex a, b;
        hlo_eval_decode_complex(type, (const char *)operands[0] + i * bytes, 1, &a);
        hlo_eval_decode_complex(type, (const char *)operands[1] + i * bytes, 1, &b);
        out[i] = complex_holds(direction, a, b);
    }
}

// Types that C has are compared as they are; all other floats, and the total order of any float, by their decoded bits.
// Integers narrower than a byte are stored in a byte each, sign-extended, and so compare as bytes do.
void hlo_eval_compare_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                             int64_t count) {
    assert(hlo_is(instruction, HLO_OP_COMPARE) && count >= 0);
    const HloCompareAttributes *compare = HLO_ATTRIBUTES(instruction, Compare);
    HloType type = instruction->operands[0]->shape->type;
    if (hlo_type_is_float(type) && compare->type == HLO_ComparisonType_TOTALORDER) {
        compare_decoded(instruction, operands, result, count);
        return;
    }
    switch (type) {
#define CASE(hlo, c) \
    case HLO_##hlo: compare_##c(compare->direction, operands[0], operands[1], result, count); return;
        // clang-format off
        CASE(PRED, uint8_t)
        CASE(S1, int8_t) CASE(S2, int8_t) CASE(S4, int8_t) CASE(S8, int8_t) CASE(S16, int16_t) CASE(S32, int32_t)
        CASE(S64, int64_t)
        CASE(U1, uint8_t) CASE(U2, uint8_t) CASE(U4, uint8_t) CASE(U8, uint8_t) CASE(U16, uint16_t) CASE(U32, uint32_t)
        CASE(U64, uint64_t)
        CASE(F32, float) CASE(F64, double)
#undef CASE
        case HLO_C64:
        case HLO_C128: compare_complex(instruction, operands, result, count); return;
        // clang-format on
        default: compare_decoded(instruction, operands, result, count);
    }
}

// 16 bytes that are moved without interpretation: c128.
typedef struct Wide {
    uint64_t parts[2];
} Wide;

#define SELECT_LOOP(type)                                                                 \
    for (int64_t i = 0; i < count; i++)                                                   \
        ((type *)result)[i] = predicate[i] ? ((const type *)a)[i] : ((const type *)b)[i]; \
    return

// Elements are moved by size only, so NaN payloads are kept.
void hlo_eval_select_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                            int64_t count) {
    assert(count >= 0);
    const uint8_t *predicate = operands[0];
    const void *a = operands[1], *b = operands[2];
    switch (hlo_type_bytes(instruction->shape->type)) {
        case 1: SELECT_LOOP(uint8_t);
        case 2: SELECT_LOOP(uint16_t);
        case 4: SELECT_LOOP(uint32_t);
        case 8: SELECT_LOOP(uint64_t);
        default: SELECT_LOOP(Wide);
    }
}

// Computes min(max(x, low), high) for operands (low, x, high), a chunk at a time with the kernels of maximum and
// minimum; `raised` holds a chunk of the widest type.
void hlo_eval_clamp_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                           int64_t count) {
    assert(count >= 0);
    HloType type = instruction->shape->type;
    int64_t bytes = hlo_type_bytes(type);
    HloEvalKernel *maximum = hlo_eval_binary_kernel(HLO_OP_MAXIMUM, type);
    HloEvalKernel *minimum = hlo_eval_binary_kernel(HLO_OP_MINIMUM, type);
    assert(maximum && minimum);
    HloInstruction raise = *instruction, lower = *instruction;  // kernels of narrow types read the opcode
    raise.opcode = HLO_OP_MAXIMUM;
    lower.opcode = HLO_OP_MINIMUM;
    double _Complex raised[HLO_EVAL_CHUNK];
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        const void *first[2] = {(const char *)operands[0] + start * bytes, (const char *)operands[1] + start * bytes};
        const void *second[2] = {raised, (const char *)operands[2] + start * bytes};
        maximum(&raise, first, raised, length);
        minimum(&lower, second, (char *)result + start * bytes, length);
    }
}
