// SPDX-License-Identifier: Apache-2.0
// The fused-loop kernels of one instruction set, and their table. loop_one.isa.c compiles them again for blocks of one
// element.
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "hlo/base/complex.h"
#include "targets/cpu/isa/isa.h"
// clang-format off
#include "targets/cpu/isa/block.inc"
#include "targets/cpu/isa/loop_math.inc"
#if defined(__AVX512F__)
#include "targets/cpu/isa/loop_math_avx512.inc"
#include "targets/cpu/isa/loop_mask_avx512.inc"
#elif defined(__AVX2__)
#include "targets/cpu/isa/loop_math_avx2.inc"
#if !defined(CPU_ONE_ELEMENT)
#include "targets/cpu/isa/loop_mask_avx2.inc"
#endif
#endif
#include "targets/cpu/isa/loop_integer.inc"
#include "targets/cpu/isa/loop_float.inc"
#include "targets/cpu/isa/loop_complex.inc"
#include "targets/cpu/isa/loop_convert.inc"
#if !defined(CPU_ONE_ELEMENT)  // which has kernels of elements only
#include "targets/cpu/isa/loop_reduce.inc"
#include "targets/cpu/isa/loop_arg.inc"
#include "targets/cpu/isa/stream.inc"
#endif

#define AT(type, kernel) [CPU_REGISTER_##type] = kernel
#define SIGNED_ROW(k) AT(S8, k##_s8), AT(S16, k##_s16), AT(S32, k##_s32), AT(S64, k##_s64)
#define UNSIGNED_ROW(k) AT(U8, k##_u8), AT(U16, k##_u16), AT(U32, k##_u32), AT(U64, k##_u64)
#define INTEGER_ROW(k) SIGNED_ROW(k), UNSIGNED_ROW(k)
#define FLOAT_ROW(k) AT(F32, k##_f32), AT(F64, k##_f64)
#define COMPLEX_ROW(k) AT(C64, k##_c64), AT(C128, k##_c128)
#define OP(name, ...) [CPU_OP_##name] = {__VA_ARGS__}
#define FUNCTION_ROW(NAME, name) OP(NAME, FLOAT_ROW(name##_block), COMPLEX_ROW(name))
#define REAL_FUNCTION_ROW(NAME, name) OP(NAME, FLOAT_ROW(name##_block))
#define COMPARE_ROW(NAME, name) OP(NAME, AT(PRED, name##_pred), INTEGER_ROW(name), FLOAT_ROW(name))
#define TOTAL_ROW(NAME, name) \
    OP(NAME##_TOTAL, AT(PRED, name##_pred), INTEGER_ROW(name), FLOAT_ROW(name##_total))

#define FROM(TYPE, type)                                                                                            \
    [CPU_REGISTER_##TYPE] = {AT(PRED, convert_##type##_pred), INTEGER_ROW(convert_##type), FLOAT_ROW(convert_##type), \
                             COMPLEX_ROW(convert_##type)}

// Formats that are stored narrower than they are held.
#define NARROW_FLOATS(X)                                                                                         \
    X(BF16, bf16), X(F16, f16), X(F8E5M2, f8e5m2), X(F8E4M3, f8e4m3), X(F8E3M4, f8e3m4), X(F8E4M3FN, f8e4m3fn),  \
    X(F8E4M3B11FNUZ, f8e4m3b11fnuz), X(F8E5M2FNUZ, f8e5m2fnuz), X(F8E4M3FNUZ, f8e4m3fnuz), X(F4E2M1FN, f4e2m1fn), \
    X(F8E8M0FNU, f8e8m0fnu)
#define DECODE(TYPE, type) [HLO_##TYPE] = decode_##type
#define ENCODE(TYPE, type) [HLO_##TYPE] = encode_##type
#define ROUND(TYPE, type) [HLO_##TYPE] = round_##type
#define REDUCE(NAME, ...) [CPU_REDUCE_##NAME] = {__VA_ARGS__}
#define ONES(name) {name, name##_by_second, name##_by_third, name##_by_both}
#define PAIR(NAME, inner) \
    [CPU_PAIR_OF_##NAME] = {[CPU_PAIR_PLUS] = ONES(plus_##inner), [CPU_PAIR_MINUS] = ONES(minus_##inner), \
                            [CPU_PAIR_FROM] = ONES(from_##inner), [CPU_PAIR_TIMES] = ONES(times_##inner)}

#if defined(CPU_ONE_ELEMENT)
#define TABLE CPU_ISA_NAME(cpu_loop_kernels_one)
#else
#define TABLE CPU_ISA_NAME(cpu_loop_kernels)
#endif

const CpuLoopKernels TABLE = {
    .operation = {
        OP(ABS, INTEGER_ROW(abs), FLOAT_ROW(abs), COMPLEX_ROW(abs)),
        OP(NEGATE, INTEGER_ROW(negate), FLOAT_ROW(negate), COMPLEX_ROW(negate)),
        OP(SIGN, INTEGER_ROW(sign), FLOAT_ROW(sign), COMPLEX_ROW(sign)),
        OP(CEIL, FLOAT_ROW(ceil)),
        OP(FLOOR, FLOAT_ROW(floor)),
        OP(ROUND_AFZ, FLOAT_ROW(round_afz_block)),
        OP(ROUND_EVEN, FLOAT_ROW(round_even)),
        OP(NOT, AT(PRED, not_pred), INTEGER_ROW(not)),
        OP(POPCNT, INTEGER_ROW(popcnt)),
        OP(CLZ, INTEGER_ROW(clz)),
        OP(IS_FINITE, FLOAT_ROW(is_finite)),
        OP(REAL, FLOAT_ROW(real), COMPLEX_ROW(real)),
        OP(IMAG, FLOAT_ROW(imag), COMPLEX_ROW(imag)),
        FUNCTION_ROW(SQRT, sqrt), FUNCTION_ROW(RSQRT, rsqrt), REAL_FUNCTION_ROW(CBRT, cbrt), FUNCTION_ROW(EXP, exp),
        FUNCTION_ROW(EXPM1, expm1), FUNCTION_ROW(LOG, log), FUNCTION_ROW(LOG1P, log1p),
        FUNCTION_ROW(LOGISTIC, logistic), FUNCTION_ROW(TANH, tanh), FUNCTION_ROW(SIN, sin), FUNCTION_ROW(COS, cos),
        FUNCTION_ROW(TAN, tan), FUNCTION_ROW(ASIN, asin), FUNCTION_ROW(ACOS, acos), FUNCTION_ROW(SINH, sinh),
        FUNCTION_ROW(COSH, cosh), FUNCTION_ROW(ASINH, asinh), FUNCTION_ROW(ACOSH, acosh),
        FUNCTION_ROW(ATANH, atanh), REAL_FUNCTION_ROW(ERF, erf),
        OP(ADD, AT(PRED, or_pred), INTEGER_ROW(add), FLOAT_ROW(add), COMPLEX_ROW(add)),
        OP(SUBTRACT, INTEGER_ROW(subtract), FLOAT_ROW(subtract), COMPLEX_ROW(subtract)),
        OP(MULTIPLY, AT(PRED, and_pred), INTEGER_ROW(multiply), FLOAT_ROW(multiply), COMPLEX_ROW(multiply)),
        OP(MULHI, INTEGER_ROW(mulhi)),
        OP(DIVIDE, INTEGER_ROW(divide), FLOAT_ROW(divide), COMPLEX_ROW(divide)),
        OP(REMAINDER, INTEGER_ROW(remainder), FLOAT_ROW(remainder_block)),
        OP(MAXIMUM, AT(PRED, or_pred), INTEGER_ROW(maximum), FLOAT_ROW(maximum)),
        OP(MINIMUM, AT(PRED, and_pred), INTEGER_ROW(minimum), FLOAT_ROW(minimum)),
        OP(POWER, INTEGER_ROW(power_block), FLOAT_ROW(power_block), COMPLEX_ROW(power)),
        FUNCTION_ROW(ATAN2, atan2),
        OP(AND, AT(PRED, and_pred), INTEGER_ROW(and)),
        OP(OR, AT(PRED, or_pred), INTEGER_ROW(or)),
        OP(XOR, AT(PRED, xor_pred), INTEGER_ROW(xor)),
        OP(SHIFT_LEFT, INTEGER_ROW(shift_left)),
        OP(SHIFT_RIGHT_ARITHMETIC, INTEGER_ROW(shift_right_arithmetic)),
        OP(SHIFT_RIGHT_LOGICAL, INTEGER_ROW(shift_right_logical)),
        OP(COMPLEX, AT(F32, complex_c64), AT(F64, complex_c128)),
        OP(EQ, AT(PRED, eq_pred), INTEGER_ROW(eq), FLOAT_ROW(eq), COMPLEX_ROW(eq)),
        OP(NE, AT(PRED, ne_pred), INTEGER_ROW(ne), FLOAT_ROW(ne), COMPLEX_ROW(ne)),
        COMPARE_ROW(LT, lt), COMPARE_ROW(LE, le), COMPARE_ROW(GT, gt), COMPARE_ROW(GE, ge),
        TOTAL_ROW(EQ, eq), TOTAL_ROW(NE, ne), TOTAL_ROW(LT, lt), TOTAL_ROW(LE, le), TOTAL_ROW(GT, gt),
        TOTAL_ROW(GE, ge),
        OP(SELECT, AT(PRED, select_8), AT(S8, select_8), AT(U8, select_8), AT(S16, select_16), AT(U16, select_16),
           AT(S32, select_32), AT(U32, select_32), AT(F32, select_32), AT(S64, select_64), AT(U64, select_64),
           AT(F64, select_64), COMPLEX_ROW(select)),
        OP(CLAMP, AT(PRED, clamp_pred), INTEGER_ROW(clamp), FLOAT_ROW(clamp)),
    },
    .convert = {
        // A predicate is a byte of 0 or 1.
        [CPU_REGISTER_PRED] = {AT(PRED, convert_u8_u8), INTEGER_ROW(convert_u8), FLOAT_ROW(convert_u8),
                               COMPLEX_ROW(convert_u8)},
        FROM(S8, s8), FROM(S16, s16), FROM(S32, s32), FROM(S64, s64),
        FROM(U8, u8), FROM(U16, u16), FROM(U32, u32), FROM(U64, u64), FROM(F32, f32), FROM(F64, f64),
        [CPU_REGISTER_C64] = {COMPLEX_ROW(convert_c64)},
        [CPU_REGISTER_C128] = {COMPLEX_ROW(convert_c128)},
    },
    .decode = {NARROW_FLOATS(DECODE)},
    .encode = {NARROW_FLOATS(ENCODE)},
    .round = {NARROW_FLOATS(ROUND)},
    .wrap = {[HLO_S1] = wrap_s1, [HLO_S2] = wrap_s2, [HLO_S4] = wrap_s4,
             [HLO_U1] = wrap_u1, [HLO_U2] = wrap_u2, [HLO_U4] = wrap_u4},
    .reduce_precision = {FLOAT_ROW(reduce_precision)},
#if !defined(CPU_ONE_ELEMENT)
    .reduce = {
        REDUCE(ADD, AT(PRED, reduce_or_pred), INTEGER_ROW(reduce_add), FLOAT_ROW(reduce_add), COMPLEX_ROW(reduce_add)),
        REDUCE(MULTIPLY, AT(PRED, reduce_and_pred), INTEGER_ROW(reduce_multiply), FLOAT_ROW(reduce_multiply)),
        REDUCE(MAXIMUM, AT(PRED, reduce_or_pred), INTEGER_ROW(reduce_maximum), FLOAT_ROW(reduce_maximum)),
        REDUCE(MINIMUM, AT(PRED, reduce_and_pred), INTEGER_ROW(reduce_minimum), FLOAT_ROW(reduce_minimum)),
        REDUCE(AND, AT(PRED, reduce_and_pred), INTEGER_ROW(reduce_and)),
        REDUCE(OR, AT(PRED, reduce_or_pred), INTEGER_ROW(reduce_or)),
        REDUCE(XOR, AT(PRED, reduce_xor_pred), INTEGER_ROW(reduce_xor)),
    },
    .arg = {{AT(PRED, arg_smallest_u8), INTEGER_ROW(arg_smallest), FLOAT_ROW(arg_smallest)},
            {AT(PRED, arg_largest_u8), INTEGER_ROW(arg_largest), FLOAT_ROW(arg_largest)}},
    .stream = stream,
    .streamed = streamed,
#endif
    .pair = {PAIR(SUM, sum), PAIR(DIFFERENCE, difference), PAIR(PRODUCT, product)},
    .by_one = {[CPU_OP_ADD] = add_by_one,
               [CPU_OP_SUBTRACT] = subtract_by_one,
               [CPU_OP_MULTIPLY] = multiply_by_one,
               [CPU_OP_DIVIDE] = divide_by_one},
    .rotate = rotate_u32,
    .xor_rotate = xor_rotate_u32,
    .mix_four_times = mix_four_times_u32,
    .add_and_mix_four_times = add_and_mix_four_times_u32,
    .ramp = ramp_s32,
};
