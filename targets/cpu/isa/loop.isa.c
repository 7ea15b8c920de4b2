// SPDX-License-Identifier: Apache-2.0
// The fused-loop kernels of one instruction set, and their table. loop_one.isa.c compiles them again for blocks of one
// element.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "targets/cpu/isa/isa.h"
#include "targets/cpu/isa/polynomials.h"
// clang-format off
#include "targets/cpu/isa/set.inc"
#include "targets/cpu/isa/block.inc"
#include "targets/cpu/isa/loop_math.inc"
#if defined(__AVX512F__)
#include "targets/cpu/isa/loop_math_avx512.inc"
#include "targets/cpu/isa/loop_mask_avx512.inc"
#elif defined(__AVX2__)
#include "targets/cpu/isa/loop_vector_avx2.inc"
#if !defined(CPU_ONE_ELEMENT)
#include "targets/cpu/isa/loop_mask_avx2.inc"
#endif
#elif defined(CPU_ISA_NEON)
#include "targets/cpu/isa/loop_vector_neon.inc"
#endif
#if CPU_HAS_LANES_MATH
#include "targets/cpu/isa/loop_math_lanes.inc"
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

#define FROM(TYPE, type)                                                                                            \
    [CPU_REGISTER_##TYPE] = {AT(PRED, convert_##type##_pred), INTEGER_ROW(convert_##type), FLOAT_ROW(convert_##type), \
                             COMPLEX_ROW(convert_##type)}

// Formats whose stored form is narrower than their register form.
#define NARROW_FLOATS(X)                                                                                         \
    X(BF16, bf16), X(F16, f16), X(F8E5M2, f8e5m2), X(F8E4M3, f8e4m3), X(F8E3M4, f8e3m4), X(F8E4M3FN, f8e4m3fn),  \
    X(F8E4M3B11FNUZ, f8e4m3b11fnuz), X(F8E5M2FNUZ, f8e5m2fnuz), X(F8E4M3FNUZ, f8e4m3fnuz), X(F4E2M1FN, f4e2m1fn), \
    X(F8E8M0FNU, f8e8m0fnu)
#define DECODE(TYPE, type) [HLO_##TYPE] = decode_##type
#define ENCODE(TYPE, type) [HLO_##TYPE] = encode_##type
#define ROUND(TYPE, type) [HLO_##TYPE] = round_##type
#define REDUCE(NAME, ...) [CPU_REDUCE_##NAME] = {__VA_ARGS__}
// One row for each reduction; `k` is the beginning of the kernels' names.
#define REDUCTIONS(k)                                                                                               \
    REDUCE(ADD, AT(PRED, k##reduce_or_pred), INTEGER_ROW(k##reduce_add), FLOAT_ROW(k##reduce_add),                  \
           COMPLEX_ROW(k##reduce_add)),                                                                             \
    REDUCE(MULTIPLY, AT(PRED, k##reduce_and_pred), INTEGER_ROW(k##reduce_multiply), FLOAT_ROW(k##reduce_multiply)), \
    REDUCE(MAXIMUM, AT(PRED, k##reduce_or_pred), INTEGER_ROW(k##reduce_maximum), FLOAT_ROW(k##reduce_maximum)),     \
    REDUCE(MINIMUM, AT(PRED, k##reduce_and_pred), INTEGER_ROW(k##reduce_minimum), FLOAT_ROW(k##reduce_minimum)),    \
    REDUCE(AND, AT(PRED, k##reduce_and_pred), INTEGER_ROW(k##reduce_and)),                                          \
    REDUCE(OR, AT(PRED, k##reduce_or_pred), INTEGER_ROW(k##reduce_or)),                                             \
    REDUCE(XOR, AT(PRED, k##reduce_xor_pred), INTEGER_ROW(k##reduce_xor))
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
#define CPU_LOOP_OP(name, role, arity, result, rounds, slow, ...) [CPU_OP_##name] = {__VA_ARGS__},
#define CPU_LOOP_TEST(name, ...) [CPU_OP_##name] = {__VA_ARGS__},
#include "targets/cpu/isa/loop_ops.def"
#undef CPU_LOOP_OP
#undef CPU_LOOP_TEST
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
    .reduce = {REDUCTIONS()},
    .columns = {REDUCTIONS(columns_)},
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
