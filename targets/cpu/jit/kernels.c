// SPDX-License-Identifier: Apache-2.0
// Kernels of small loops as operations on values (values.h), with the bits of the compiled kernels (isa/loop_float.inc,
// loop_integer.inc, loop_convert.inc).
//
// A loop refers to its kernels only by their addresses, which depend on the instruction set in use. So a kernel is
// recognised by looking up every operation supported here in the loop's table (find_operation() and similar functions),
// and any other kernel remains a call. The types in an operation's row are those for which a few instructions of AVX2
// suffice: a product of 64-bit integers, or the sine of anything, is not included.
#include <assert.h>
#include <string.h>

#include "targets/cpu/element/element.h"
#include "targets/cpu/jit/neon.h"
#include "targets/cpu/jit/values.h"
#include "targets/cpu/loop/internal.h"

#define BIT(type) (1u << CPU_REGISTER_##type)
#define FLOATS (BIT(F32) | BIT(F64))
#define INTEGERS_32 (BIT(S32) | BIT(U32))
#define INTEGERS (INTEGERS_32 | BIT(S64) | BIT(U64))

// The supported operations and their types.
static const struct {
    CpuLoopOp op;
    unsigned types;
} kOperations[] = {
    {CPU_OP_ADD, FLOATS | INTEGERS | BIT(PRED)},
    {CPU_OP_SUBTRACT, FLOATS | INTEGERS},
    {CPU_OP_MULTIPLY, FLOATS | INTEGERS_32 | BIT(PRED)},
    {CPU_OP_DIVIDE, FLOATS},
    {CPU_OP_SELECT, FLOATS | INTEGERS | BIT(PRED)},
    {CPU_OP_AND, INTEGERS | BIT(PRED)},
    {CPU_OP_OR, INTEGERS | BIT(PRED)},
    {CPU_OP_XOR, INTEGERS | BIT(PRED)},
    {CPU_OP_NOT, INTEGERS | BIT(PRED)},
    {CPU_OP_EQ, FLOATS | INTEGERS | BIT(PRED)},
    {CPU_OP_NE, FLOATS | INTEGERS | BIT(PRED)},
    {CPU_OP_LT, FLOATS | INTEGERS_32 | BIT(S64)},
    {CPU_OP_LE, FLOATS | INTEGERS_32 | BIT(S64)},
    {CPU_OP_GT, FLOATS | INTEGERS_32 | BIT(S64)},
    {CPU_OP_GE, FLOATS | INTEGERS_32 | BIT(S64)},
    {CPU_OP_MAXIMUM, FLOATS | INTEGERS_32 | BIT(PRED)},
    {CPU_OP_MINIMUM, FLOATS | INTEGERS_32 | BIT(PRED)},
    {CPU_OP_CLAMP, FLOATS | INTEGERS_32},
    {CPU_OP_NEGATE, FLOATS | INTEGERS},
    {CPU_OP_ABS, FLOATS | BIT(S32)},
    {CPU_OP_SQRT, FLOATS},
    {CPU_OP_FLOOR, FLOATS},
    {CPU_OP_CEIL, FLOATS},
    {CPU_OP_ROUND_NEAREST_EVEN, FLOATS},
    {CPU_OP_IS_FINITE, FLOATS},
    {CPU_OP_SHIFT_LEFT, INTEGERS_32},
    {CPU_OP_SHIFT_RIGHT_LOGICAL, INTEGERS_32},
    {CPU_OP_SHIFT_RIGHT_ARITHMETIC, INTEGERS_32},
};

static const struct {
    CpuRegisterType from, to;
} kConversions[] = {
    {CPU_REGISTER_S32, CPU_REGISTER_F32},  {CPU_REGISTER_S32, CPU_REGISTER_F64},  {CPU_REGISTER_PRED, CPU_REGISTER_F32},
    {CPU_REGISTER_PRED, CPU_REGISTER_F64}, {CPU_REGISTER_PRED, CPU_REGISTER_S32}, {CPU_REGISTER_PRED, CPU_REGISTER_U32},
    {CPU_REGISTER_F32, CPU_REGISTER_S32},  {CPU_REGISTER_F32, CPU_REGISTER_F64},  {CPU_REGISTER_F64, CPU_REGISTER_F32},
    {CPU_REGISTER_S32, CPU_REGISTER_S64},  {CPU_REGISTER_U32, CPU_REGISTER_S64},  {CPU_REGISTER_S32, CPU_REGISTER_U32},
    {CPU_REGISTER_U32, CPU_REGISTER_S32},  {CPU_REGISTER_S64, CPU_REGISTER_S32},
};

// Operations and conversions of vectors only: those of narrow integers have zeros above the bits in their lane.
static const struct {
    CpuLoopOp op;
    unsigned types;
} kVectorOperations[] = {
    {CPU_OP_SIGN, BIT(F32)},
    {CPU_OP_ROUND_NEAREST_AFZ, BIT(F32)},
    {CPU_OP_ABS, BIT(U32)},
};
#define NARROW_INTEGERS (BIT(S8) | BIT(U8) | BIT(S16) | BIT(U16))
static const struct {
    CpuRegisterType from;
    unsigned to;
} kVectorConversions[] = {
    {CPU_REGISTER_S8, BIT(F32) | INTEGERS_32},  {CPU_REGISTER_U8, BIT(F32) | INTEGERS_32},
    {CPU_REGISTER_S16, BIT(F32) | INTEGERS_32}, {CPU_REGISTER_U16, BIT(F32) | INTEGERS_32},
    {CPU_REGISTER_S32, NARROW_INTEGERS},        {CPU_REGISTER_U32, NARROW_INTEGERS},
    {CPU_REGISTER_PRED, NARROW_INTEGERS},       {CPU_REGISTER_F32, NARROW_INTEGERS | BIT(PRED)},
};

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

static bool is_operation(const CpuLoop *loop, CpuBlockKernel *kernel, CpuLoopOp op, int type) {
    return loop->kernels->operation[op][type] == kernel || loop->kernels_of_one->operation[op][type] == kernel;
}

static bool find_operation(const CpuLoop *loop, CpuBlockKernel *kernel, CpuJitKernel *found) {
    if (!kernel) return false;
    for (int i = 0; i < COUNT_OF(kOperations); i++)
        for (int type = 0; type < CPU_REGISTER_COUNT; type++) {
            if (!(kOperations[i].types >> type & 1) || !is_operation(loop, kernel, kOperations[i].op, type)) continue;
            const CpuRegisterType t = (CpuRegisterType)type;
            *found = (CpuJitKernel){.kind = CPU_JIT_OPERATION, .which = (int)kOperations[i].op, .type = t, .to = t};
            if (kOperations[i].op == CPU_OP_IS_FINITE ||
                (kOperations[i].op >= CPU_OP_EQ && kOperations[i].op <= CPU_OP_GE))
                found->to = CPU_REGISTER_PRED;
            return true;
        }
    return false;
}

static bool find_conversion(const CpuLoop *loop, CpuBlockKernel *kernel, CpuJitKernel *found) {
    for (int i = 0; i < COUNT_OF(kConversions); i++) {
        const CpuRegisterType from = kConversions[i].from, to = kConversions[i].to;
        if (loop->kernels->convert[from][to] != kernel && loop->kernels_of_one->convert[from][to] != kernel) continue;
        *found = (CpuJitKernel){.kind = CPU_JIT_CONVERT, .type = from, .to = to};
        return true;
    }
    return false;
}

static bool find_joined(const CpuLoop *loop, CpuBlockKernel *kernel, CpuJitKernel *found) {
    for (int inner = 0; inner < CPU_PAIR_INNER_COUNT; inner++)
        for (int outer = 0; outer < CPU_PAIR_OUTER_COUNT; outer++) {
            if (loop->kernels->pair[inner][outer][CPU_ONES_NONE] != kernel &&
                loop->kernels_of_one->pair[inner][outer][CPU_ONES_NONE] != kernel)
                continue;
            *found = (CpuJitKernel){CPU_JIT_PAIR, inner, outer, 0, CPU_REGISTER_F32, CPU_REGISTER_F32, 0};
            return true;
        }
    const bool rotates = loop->kernels->rotate == kernel || loop->kernels_of_one->rotate == kernel;
    if (!rotates && loop->kernels->xor_rotate != kernel && loop->kernels_of_one->xor_rotate != kernel) return false;
    *found = (CpuJitKernel){
        .kind = rotates ? CPU_JIT_ROTATE : CPU_JIT_XOR_ROTATE, .type = CPU_REGISTER_U32, .to = CPU_REGISTER_U32};
    return true;
}

bool cpu_jit_kernel_find(const CpuLoop *loop, CpuBlockKernel *kernel, CpuJitKernel *found) {
    return find_operation(loop, kernel, found) || find_joined(loop, kernel, found) ||
           find_conversion(loop, kernel, found);
}

int cpu_jit_lanes(const CpuLoop *loop) {
    if (loop->kernels == cpu_isa_loop_kernels(CPU_FEATURES_BASELINE)) return 0;
#if defined(__x86_64__)
    return loop->kernels == cpu_isa_loop_kernels(CPU_FEATURES_AVX512) ? 16 : 8;
#elif defined(__aarch64__)
    return CPU_JIT_NEON_LANES;
#else
    return 0;
#endif
}

static bool find_function(const CpuLoop *loop, CpuBlockKernel *kernel, CpuJitKernel *found) {
    const int lanes = cpu_jit_lanes(loop);
    for (int op = 0; op < CPU_OP_COUNT; op++) {
        if (!cpu_jit_is_function((CpuLoopOp)op, lanes)) continue;
        if (loop->kernels->operation[op][CPU_REGISTER_F32] != kernel) continue;
        *found = (CpuJitKernel){
            .kind = CPU_JIT_FUNCTION, .which = op, .lanes = lanes, .type = CPU_REGISTER_F32, .to = CPU_REGISTER_F32};
        return true;
    }
    return false;
}

static bool find_vector_operation(const CpuLoop *loop, CpuBlockKernel *kernel, CpuJitKernel *found) {
    for (int i = 0; i < COUNT_OF(kVectorOperations); i++)
        for (int type = 0; type < CPU_REGISTER_COUNT; type++) {
            if (!(kVectorOperations[i].types >> type & 1)) continue;
            if (loop->kernels->operation[kVectorOperations[i].op][type] != kernel) continue;
            const CpuRegisterType t = (CpuRegisterType)type;
            *found =
                (CpuJitKernel){.kind = CPU_JIT_OPERATION, .which = (int)kVectorOperations[i].op, .type = t, .to = t};
            return true;
        }
    for (int i = 0; i < COUNT_OF(kVectorConversions); i++)
        for (int to = 0; to < CPU_REGISTER_COUNT; to++) {
            const CpuRegisterType from = kVectorConversions[i].from;
            if (!(kVectorConversions[i].to >> to & 1) || loop->kernels->convert[from][to] != kernel) continue;
            *found = (CpuJitKernel){.kind = CPU_JIT_CONVERT, .type = from, .to = (CpuRegisterType)to};
            return true;
        }
    return false;
}

// Finds the kernels that read one element for all, which have the bits of those that do not.
static bool find_by_one(const CpuLoop *loop, CpuBlockKernel *kernel, CpuJitKernel *found) {
    for (int op = 0; op < CPU_OP_COUNT; op++) {
        if (loop->kernels->by_one[op] != kernel) continue;
        *found = (CpuJitKernel){
            .kind = CPU_JIT_OPERATION, .which = op, .type = CPU_REGISTER_F32, .to = CPU_REGISTER_F32, .ones = 2};
        return true;
    }
    static const unsigned ones[] = {
        [CPU_ONES_NONE] = 0, [CPU_ONES_SECOND] = 2, [CPU_ONES_THIRD] = 4, [CPU_ONES_BOTH] = 6};
    for (int inner = 0; inner < CPU_PAIR_INNER_COUNT; inner++)
        for (int outer = 0; outer < CPU_PAIR_OUTER_COUNT; outer++)
            for (int which = CPU_ONES_SECOND; which < CPU_ONES_COUNT; which++) {
                if (loop->kernels->pair[inner][outer][which] != kernel) continue;
                *found = (CpuJitKernel){CPU_JIT_PAIR, inner, outer, 0, CPU_REGISTER_F32, CPU_REGISTER_F32, ones[which]};
                return true;
            }
    return false;
}

static bool find_bf16(const CpuLoop *loop, CpuBlockKernel *kernel, CpuJitKernel *found) {
    *found = (CpuJitKernel){.type = CPU_REGISTER_F32, .to = CPU_REGISTER_F32};
    if (kernel == loop->kernels->decode[HLO_BF16]) {
        found->kind = CPU_JIT_DECODE;
        found->type = CPU_REGISTER_U16;
    } else if (kernel == loop->kernels->encode[HLO_BF16]) {
        found->kind = CPU_JIT_ENCODE;
        found->to = CPU_REGISTER_U16;
    } else {
        found->kind = CPU_JIT_ROUND;
        return kernel == loop->kernels->round[HLO_BF16];
    }
    return true;
}

static bool fits_lane(CpuRegisterType type) {
    return cpu_register_bytes(type) <= 4;
}

bool cpu_jit_kernel_find_vector(const CpuLoop *loop, CpuBlockKernel *kernel, CpuJitKernel *found) {
    return kernel &&
           (cpu_jit_kernel_find(loop, kernel, found) || find_by_one(loop, kernel, found) ||
            find_vector_operation(loop, kernel, found) || find_function(loop, kernel, found) ||
            find_bf16(loop, kernel, found)) &&
           fits_lane(found->type) && fits_lane(found->to);
}

bool cpu_jit_kernel_find_reduce(const CpuLoop *loop, CpuReduceKernel *kernel, CpuJitKernel *found) {
    for (int op = 0; op < CPU_REDUCE_COUNT; op++)
        for (int type = 0; type < CPU_REGISTER_COUNT; type++)
            if (loop->kernels->reduce[op][type] == kernel)
                return find_operation(loop, loop->kernels->operation[cpu_pair_op((CpuReduceOp)op)][type], found);
    return false;
}

int cpu_jit_kernel_arity(const CpuJitKernel *kernel) {
    static const int arities[] = {
#define CPU_LOOP_OP(name, role, arity, result, rounds, slow, ...) [CPU_OP_##name] = arity,
#define CPU_LOOP_TEST(name, ...) [CPU_OP_##name] = 2,
#include "targets/cpu/isa/loop_ops.def"
#undef CPU_LOOP_OP
#undef CPU_LOOP_TEST
    };
    switch (kernel->kind) {
        case CPU_JIT_OPERATION: return arities[kernel->which];
        case CPU_JIT_PAIR: return 3;
        case CPU_JIT_XOR_ROTATE: return 2;
        case CPU_JIT_CONVERT:
        case CPU_JIT_ROTATE:
        case CPU_JIT_DECODE:
        case CPU_JIT_ENCODE:
        case CPU_JIT_ROUND:
        case CPU_JIT_FUNCTION: break;
    }
    return 1;
}

int cpu_jit_kernel_width(const CpuJitKernel *kernel, int operand) {
    const bool chooses = kernel->kind == CPU_JIT_OPERATION && kernel->which == CPU_OP_SELECT && operand == 0;
    return cpu_register_bytes(chooses ? CPU_REGISTER_PRED : kernel->type);
}

// ---- operations as values

typedef struct Applied {
    CpuJitBlock *block;
    bool wide;
} Applied;

static int32_t binary(const Applied *a, CpuJitOp op, int32_t x, int32_t y) {
    return cpu_jit_value(a->block, op, a->wide, x, y, -1);
}

static int32_t unary(const Applied *a, CpuJitOp op, int32_t x) {
    return cpu_jit_value(a->block, op, a->wide, x, -1, -1);
}

static int32_t constant(const Applied *a, uint64_t narrow, uint64_t wide) {
    return cpu_jit_constant(a->block, a->wide ? wide : narrow, a->wide);
}

static int32_t magnitude(const Applied *a, int32_t x) {
    return binary(a, CPU_VALUE_AND, x, constant(a, 0x7fffffff, INT64_MAX));
}

static int32_t select_between(const Applied *a, int32_t mask, int32_t yes, int32_t no) {
    return cpu_jit_value(a->block, CPU_VALUE_SELECT, a->wide, mask, yes, no);
}

// Returns a positive number with the sign of x.
static int32_t with_sign_of(const Applied *a, int32_t x, int32_t positive) {
    const int32_t sign = binary(a, CPU_VALUE_AND, x, constant(a, 0x80000000, (uint64_t)1 << 63));
    return binary(a, CPU_VALUE_OR, sign, positive);
}

enum { kOne = 0x3f800000, kHalf = 0x3f000000 };  // f32

// NaN and zeros stay.
static int32_t sign_of(const Applied *a, int32_t x) {
    const int32_t zero = binary(a, CPU_VALUE_EQ_F, x, constant(a, 0, 0)), nan = binary(a, CPU_VALUE_NE_F, x, x);
    return select_between(a, binary(a, CPU_VALUE_OR, zero, nan), x, with_sign_of(a, x, constant(a, kOne, 0)));
}

static int32_t round_away(const Applied *a, int32_t x) {
    const int32_t whole = unary(a, CPU_VALUE_TRUNCATE_F, x), rest = binary(a, CPU_VALUE_SUBTRACT_F, x, whole);
    const int32_t away = binary(a, CPU_VALUE_ADD_F, whole, with_sign_of(a, x, constant(a, kOne, 0)));
    const int32_t is_away = binary(a, CPU_VALUE_GE_F, magnitude(a, rest), constant(a, kHalf, 0));
    const int32_t rounded = select_between(a, is_away, away, with_sign_of(a, x, magnitude(a, whole)));
    return select_between(a, binary(a, CPU_VALUE_NE_F, x, x), x, rounded);
}

static int32_t apply_float(const Applied *a, CpuLoopOp op, const int32_t *x) {
    switch (op) {
        case CPU_OP_ADD: return binary(a, CPU_VALUE_ADD_F, x[0], x[1]);
        case CPU_OP_SUBTRACT: return binary(a, CPU_VALUE_SUBTRACT_F, x[0], x[1]);
        case CPU_OP_MULTIPLY: return binary(a, CPU_VALUE_MULTIPLY_F, x[0], x[1]);
        case CPU_OP_DIVIDE: return binary(a, CPU_VALUE_DIVIDE_F, x[0], x[1]);
        case CPU_OP_MAXIMUM: return binary(a, CPU_VALUE_MAXIMUM_F, x[0], x[1]);
        case CPU_OP_MINIMUM: return binary(a, CPU_VALUE_MINIMUM_F, x[0], x[1]);
        case CPU_OP_CLAMP: return binary(a, CPU_VALUE_MINIMUM_F, binary(a, CPU_VALUE_MAXIMUM_F, x[0], x[1]), x[2]);
        case CPU_OP_EQ: return binary(a, CPU_VALUE_EQ_F, x[0], x[1]);
        case CPU_OP_NE: return binary(a, CPU_VALUE_NE_F, x[0], x[1]);
        case CPU_OP_LT: return binary(a, CPU_VALUE_LT_F, x[0], x[1]);
        case CPU_OP_LE: return binary(a, CPU_VALUE_LE_F, x[0], x[1]);
        case CPU_OP_GT: return binary(a, CPU_VALUE_GT_F, x[0], x[1]);
        case CPU_OP_GE: return binary(a, CPU_VALUE_GE_F, x[0], x[1]);
        case CPU_OP_SQRT: return unary(a, CPU_VALUE_SQRT_F, x[0]);
        case CPU_OP_FLOOR: return unary(a, CPU_VALUE_FLOOR_F, x[0]);
        case CPU_OP_CEIL: return unary(a, CPU_VALUE_CEIL_F, x[0]);
        case CPU_OP_ROUND_NEAREST_EVEN: return unary(a, CPU_VALUE_ROUND_EVEN_F, x[0]);
        case CPU_OP_ABS: return magnitude(a, x[0]);
        case CPU_OP_SIGN: return sign_of(a, x[0]);
        case CPU_OP_ROUND_NEAREST_AFZ: return round_away(a, x[0]);
        case CPU_OP_NEGATE: return binary(a, CPU_VALUE_XOR, x[0], constant(a, 0x80000000, (uint64_t)1 << 63));
        default: break;
    }
    assert(op == CPU_OP_IS_FINITE);
    return binary(a, CPU_VALUE_LT_F, magnitude(a, x[0]), constant(a, 0x7f800000, (uint64_t)0x7ff << 52));
}

static int32_t negated(const Applied *a, int32_t mask) {
    return cpu_jit_value(a->block, CPU_VALUE_NOT, false, mask, -1, -1);
}

static int32_t apply_bits(const Applied *a, CpuLoopOp op, const int32_t *x) {
    switch (op) {
        case CPU_OP_AND: return binary(a, CPU_VALUE_AND, x[0], x[1]);
        case CPU_OP_OR: return binary(a, CPU_VALUE_OR, x[0], x[1]);
        case CPU_OP_XOR: return binary(a, CPU_VALUE_XOR, x[0], x[1]);
        default: assert(op == CPU_OP_NOT); return unary(a, CPU_VALUE_NOT, x[0]);
    }
}

// Compares integers: unsigned numbers compare like signed ones with inverted highest bits.
static int32_t is_more(const Applied *a, bool is_signed, int32_t x, int32_t y) {
    if (!is_signed) {
        const int32_t top = constant(a, 0x80000000, (uint64_t)1 << 63);
        x = binary(a, CPU_VALUE_XOR, x, top);
        y = binary(a, CPU_VALUE_XOR, y, top);
    }
    return binary(a, CPU_VALUE_GT_S, x, y);
}

static int32_t apply_integer(const Applied *a, CpuLoopOp op, bool is_signed, const int32_t *x) {
    const CpuJitOp maximum = is_signed ? CPU_VALUE_MAXIMUM_S : CPU_VALUE_MAXIMUM_U;
    const CpuJitOp minimum = is_signed ? CPU_VALUE_MINIMUM_S : CPU_VALUE_MINIMUM_U;
    switch (op) {
        case CPU_OP_ADD: return binary(a, CPU_VALUE_ADD, x[0], x[1]);
        case CPU_OP_SUBTRACT: return binary(a, CPU_VALUE_SUBTRACT, x[0], x[1]);
        case CPU_OP_MULTIPLY: return binary(a, CPU_VALUE_MULTIPLY, x[0], x[1]);
        case CPU_OP_MAXIMUM: return binary(a, maximum, x[0], x[1]);
        case CPU_OP_MINIMUM: return binary(a, minimum, x[0], x[1]);
        case CPU_OP_CLAMP: return binary(a, minimum, binary(a, maximum, x[0], x[1]), x[2]);
        case CPU_OP_NEGATE: return binary(a, CPU_VALUE_SUBTRACT, constant(a, 0, 0), x[0]);
        case CPU_OP_ABS: return is_signed ? unary(a, CPU_VALUE_ABS, x[0]) : x[0];
        case CPU_OP_EQ: return binary(a, CPU_VALUE_EQ, x[0], x[1]);
        case CPU_OP_NE: return negated(a, binary(a, CPU_VALUE_EQ, x[0], x[1]));
        case CPU_OP_GT: return is_more(a, is_signed, x[0], x[1]);
        case CPU_OP_LT: return is_more(a, is_signed, x[1], x[0]);
        case CPU_OP_LE: return negated(a, is_more(a, is_signed, x[0], x[1]));
        case CPU_OP_GE: return negated(a, is_more(a, is_signed, x[1], x[0]));
        case CPU_OP_SHIFT_LEFT: return binary(a, CPU_VALUE_SHIFT_LEFT, x[0], x[1]);
        case CPU_OP_SHIFT_RIGHT_LOGICAL: return binary(a, CPU_VALUE_SHIFT_RIGHT_LOGICAL, x[0], x[1]);
        case CPU_OP_SHIFT_RIGHT_ARITHMETIC: return binary(a, CPU_VALUE_SHIFT_RIGHT_ARITHMETIC, x[0], x[1]);
        default: return apply_bits(a, op, x);
    }
}

// A predicate adds as "or" and multiplies as "and".
static int32_t apply_predicate(const Applied *a, CpuLoopOp op, const int32_t *x) {
    const int32_t m[2] = {cpu_jit_mask(a->block, x[0]), x[1] < 0 ? -1 : cpu_jit_mask(a->block, x[1])};
    switch (op) {
        case CPU_OP_ADD:
        case CPU_OP_MAXIMUM: return apply_bits(a, CPU_OP_OR, m);
        case CPU_OP_MULTIPLY:
        case CPU_OP_MINIMUM: return apply_bits(a, CPU_OP_AND, m);
        case CPU_OP_NE: return apply_bits(a, CPU_OP_XOR, m);
        case CPU_OP_EQ: return negated(a, apply_bits(a, CPU_OP_XOR, m));
        default: return apply_bits(a, op, m);
    }
}

// The kernel for predicates selects any bytes.
static int32_t apply_select(const Applied *a, CpuRegisterType type, const int32_t *x) {
    int32_t yes = x[1], no = x[2];
    if (type == CPU_REGISTER_PRED && !(a->block->values.items[yes].is_mask && a->block->values.items[no].is_mask)) {
        yes = cpu_jit_byte(a->block, yes);
        no = cpu_jit_byte(a->block, no);
    }
    return cpu_jit_value(a->block, CPU_VALUE_SELECT, a->wide, cpu_jit_mask(a->block, x[0]), yes, no);
}

// ---- narrow types in lanes of 32 bits

static int32_t shifted(const Applied *a, CpuJitOp op, int32_t x, uint32_t by) {
    return binary(a, op, x, constant(a, by, by));
}

static bool is_signed_narrow(CpuRegisterType type) {
    return type == CPU_REGISTER_S8 || type == CPU_REGISTER_S16;
}

// Returns the lane as a number of 32 bits.
static int32_t extended(const Applied *a, CpuRegisterType from, int32_t x) {
    if (!is_signed_narrow(from)) return x;
    const uint32_t above = 32 - 8 * (uint32_t)cpu_register_bytes(from);
    return shifted(a, CPU_VALUE_SHIFT_RIGHT_ARITHMETIC, shifted(a, CPU_VALUE_SHIFT_LEFT, x, above), above);
}

// Saturates a float to the range of a narrow integer; what is left of NaN becomes 0 later.
static int32_t saturated(const Applied *a, CpuRegisterType to, int32_t x) {
    static const float limits[][2] = {[CPU_REGISTER_S8] = {INT8_MIN, INT8_MAX},
                                      [CPU_REGISTER_S16] = {INT16_MIN, INT16_MAX},
                                      [CPU_REGISTER_U8] = {0, UINT8_MAX},
                                      [CPU_REGISTER_U16] = {0, UINT16_MAX}};
    uint32_t bits[2];
    memcpy(bits, limits[to], sizeof bits);
    const int32_t low = constant(a, bits[0], 0), high = constant(a, bits[1], 0);
    x = select_between(a, binary(a, CPU_VALUE_LT_F, x, low), low, x);
    return select_between(a, binary(a, CPU_VALUE_GT_F, x, high), high, x);
}

static int32_t narrowed(const Applied *a, CpuRegisterType from, CpuRegisterType to, int32_t x) {
    if (from == CPU_REGISTER_F32) x = cpu_jit_value(a->block, CPU_VALUE_F32_TO_S32, false, saturated(a, to, x), -1, -1);
    const uint32_t mask = cpu_register_bytes(to) == 1 ? 0xff : 0xffff;
    return from == CPU_REGISTER_PRED ? x : binary(a, CPU_VALUE_AND, x, constant(a, mask, 0));
}

// Whether the value is known to have zeros below the bits of a bf16: it came from one, or was rounded to one.
static bool is_bf16(const Applied *a, int32_t x, int depth) {
    const CpuJitValue *value = &a->block->values.items[x];
    const int32_t left = value->operands[0], right = value->operands[1];
    if (value->op == CPU_VALUE_OF_CONSTANT) return (value->bits & 0xffff) == 0;
    if (value->op == CPU_VALUE_SHIFT_LEFT) {
        const CpuJitValue *by = &a->block->values.items[right];
        return by->op == CPU_VALUE_OF_CONSTANT && (uint32_t)by->bits == 16;
    }
    if (depth == 0) return false;
    if (value->op == CPU_VALUE_AND) return is_bf16(a, left, depth - 1) || is_bf16(a, right, depth - 1);
    if (value->op == CPU_VALUE_XOR) return is_bf16(a, left, depth - 1) && is_bf16(a, right, depth - 1);
    return value->op == CPU_VALUE_SELECT && is_bf16(a, right, depth - 1) && is_bf16(a, value->operands[2], depth - 1);
}

// Returns the f32 plus half of a bf16's last bit, ties to even: its upper half is the rounded bf16 if it is a number.
static int32_t rounded_up(const Applied *a, int32_t x) {
    const int32_t upper = shifted(a, CPU_VALUE_SHIFT_RIGHT_LOGICAL, x, 16);
    const int32_t odd = binary(a, CPU_VALUE_AND, upper, constant(a, 1, 0));
    return binary(a, CPU_VALUE_ADD, binary(a, CPU_VALUE_ADD, x, constant(a, 0x7fff, 0)), odd);
}

// Rounds to a bf16, where NaN becomes quiet.
static int32_t round_to_bf16(const Applied *a, int32_t x) {
    const int32_t nan = binary(a, CPU_VALUE_OR, x, constant(a, 0x400000, 0));
    const int32_t all = select_between(a, binary(a, CPU_VALUE_NE_F, x, x), nan, rounded_up(a, x));
    return binary(a, CPU_VALUE_AND, all, constant(a, 0xffff0000, 0));
}

// Returns the bits of the bf16 that an f32 is stored as; NaN only becomes quiet if it would be infinity otherwise.
static int32_t bf16_of_f32(const Applied *a, int32_t x) {
    const int32_t upper = shifted(a, CPU_VALUE_SHIFT_RIGHT_LOGICAL, x, 16);
    enum { kDepth = 4 };
    if (is_bf16(a, x, kDepth)) return upper;
    const int32_t payload = binary(a, CPU_VALUE_AND, x, constant(a, 0x7f0000, 0));
    const int32_t quiet = binary(a, CPU_VALUE_OR, upper, constant(a, 0x40, 0));
    const int32_t nan = select_between(a, binary(a, CPU_VALUE_EQ, payload, constant(a, 0, 0)), quiet, upper);
    const int32_t number = shifted(a, CPU_VALUE_SHIFT_RIGHT_LOGICAL, rounded_up(a, x), 16);
    return select_between(a, binary(a, CPU_VALUE_NE_F, x, x), nan, number);
}

static int32_t apply_conversion(const Applied *a, CpuRegisterType from, CpuRegisterType to, int32_t x) {
    const bool wide = cpu_register_bytes(to) == 8;
    CpuJitOp op;
    if (from == CPU_REGISTER_PRED) x = cpu_jit_byte(a->block, x);
    if (to == CPU_REGISTER_PRED) return binary(a, CPU_VALUE_NE_F, x, constant(a, 0, 0));
    if (cpu_register_bytes(to) < 4) return narrowed(a, from, to, x);
    x = extended(a, from, x);
    if (to == CPU_REGISTER_F32 || to == CPU_REGISTER_F64)
        op = from == CPU_REGISTER_F32   ? CPU_VALUE_F32_TO_F64
             : from == CPU_REGISTER_F64 ? CPU_VALUE_F64_TO_F32
             : wide                     ? CPU_VALUE_S32_TO_F64
                                        : CPU_VALUE_S32_TO_F32;
    else if (from == CPU_REGISTER_F32)
        op = CPU_VALUE_F32_TO_S32;
    else if (wide)
        op = from == CPU_REGISTER_S32 ? CPU_VALUE_S32_TO_S64 : CPU_VALUE_U32_TO_U64;
    else
        return x;  // the lower bits are unchanged
    return cpu_jit_value(a->block, op, wide, x, -1, -1);
}

static int32_t apply_pair(const Applied *a, int inner, int outer, const int32_t *x) {
    static const CpuJitOp ops[] = {
        [CPU_PAIR_OF_SUM] = CPU_VALUE_ADD_F,
        [CPU_PAIR_OF_DIFFERENCE] = CPU_VALUE_SUBTRACT_F,
        [CPU_PAIR_OF_PRODUCT] = CPU_VALUE_MULTIPLY_F,
    };
    const int32_t first = binary(a, ops[inner], x[0], x[1]);
    switch (outer) {
        case CPU_PAIR_PLUS: return binary(a, CPU_VALUE_ADD_F, first, x[2]);
        case CPU_PAIR_MINUS: return binary(a, CPU_VALUE_SUBTRACT_F, first, x[2]);
        case CPU_PAIR_FROM: return binary(a, CPU_VALUE_SUBTRACT_F, x[2], first);
        default: assert(outer == CPU_PAIR_TIMES); return binary(a, CPU_VALUE_MULTIPLY_F, first, x[2]);
    }
}

int32_t cpu_jit_kernel_apply(CpuJitBlock *block, const CpuJitKernel *kernel, const int32_t *operands,
                             int64_t immediate) {
    const CpuRegisterType type = kernel->type;
    const Applied applied = {block, cpu_register_bytes(type) == 8};
    const CpuLoopOp op = (CpuLoopOp)kernel->which;
    switch (kernel->kind) {
        case CPU_JIT_CONVERT: return apply_conversion(&applied, type, kernel->to, operands[0]);
        case CPU_JIT_PAIR: return apply_pair(&applied, kernel->which, kernel->outer, operands);
        case CPU_JIT_ROTATE: return cpu_jit_rotation(block, operands[0], (unsigned)immediate);
        case CPU_JIT_XOR_ROTATE:
            return binary(&applied, CPU_VALUE_XOR, operands[0],
                          cpu_jit_rotation(block, operands[1], (unsigned)immediate));
        case CPU_JIT_DECODE: return shifted(&applied, CPU_VALUE_SHIFT_LEFT, operands[0], 16);
        case CPU_JIT_ENCODE: return bf16_of_f32(&applied, operands[0]);
        case CPU_JIT_ROUND: return round_to_bf16(&applied, operands[0]);
        case CPU_JIT_FUNCTION: return cpu_jit_function(block, op, kernel->lanes, operands[0]);
        case CPU_JIT_OPERATION: break;
    }
    if (op == CPU_OP_SELECT) return apply_select(&applied, type, operands);
    if (type == CPU_REGISTER_PRED) return apply_predicate(&applied, op, operands);
    if (type == CPU_REGISTER_F32 || type == CPU_REGISTER_F64) return apply_float(&applied, op, operands);
    return apply_integer(&applied, op, type == CPU_REGISTER_S32 || type == CPU_REGISTER_S64, operands);
}
