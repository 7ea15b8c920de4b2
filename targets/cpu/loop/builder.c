// SPDX-License-Identifier: Apache-2.0
// Records a fused loop's program: types, levels, rounding of narrow types.
//
// Every function of loop.h that returns a value appends to one list; operands come before their users. Each value
// records how often it exists (its level), its HLO type and its register type:
//
//     load bf16 %v[j]      level full, register u16: the bits as in memory
//     decode               level full, register f32
//     constant f32 2       level uniform
//     multiply             level full, register f32, then round to bf16 (as all narrow results, after every operation)
//     store bf16           encode to u16 first
//
// Operands of one operation are raised to the highest level among them: a value of a row is repeated over its elements
// (EXPAND), a uniform one serves every level as it is. Narrow integers are computed in a byte and wrapped. Operations
// whose result in a byte differs from that in its low bits (right shifts of the other signedness, counts of bits, high
// halves of products) are rewritten here.
//
// Errors are stored in the builder and returned by cpu_loop_finish(), so that callers need not check each value. After
// an error, functions still return values, which are meaningless.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/ir/literal.h"
#include "targets/cpu/loop/internal.h"

// How an operation's result type follows from its operand type.
typedef enum ResultRule { RESULT_SAME, RESULT_PRED, RESULT_REAL, RESULT_COMPLEX } ResultRule;

typedef struct OpInfo {
    const char *name;
    int arity;
    ResultRule result;
    bool rounds;
} OpInfo;

static const OpInfo kOps[] = {
#define CPU_LOOP_OP(name, role, arity, result, rounds, slow, ...) {#name, arity, RESULT_##result, rounds},
#define CPU_LOOP_TEST(name, ...) {#name, 2, RESULT_PRED, 0},
#include "targets/cpu/isa/loop_ops.def"
#undef CPU_LOOP_OP
#undef CPU_LOOP_TEST
};

// ---- registers

// Returns the register type of the form in memory. There a float narrower than f32 is an unsigned integer of its bits,
// to be decoded after the load.
static CpuRegisterType register_raw(HloType type) {
    const HloTypeInfo *info = hlo_type_info(type);
    if (info->kind != HLO_KIND_FLOAT || info->bits >= 32) return cpu_register_of(type);
    return info->storage_bytes == 2 ? CPU_REGISTER_U16 : CPU_REGISTER_U8;
}

// Whether registers hold the type as f32, and memory holds its bits.
static bool is_narrow_float(HloType type) {
    return register_raw(type) != cpu_register_of(type);
}
// Whether the type is narrower than the byte that its registers hold.
static bool is_narrow_integer(HloType type) {
    return hlo_type_is_integer(type) && hlo_type_info(type)->bits < 8;
}
// Whether the type has no -0, or no negative numbers. Negation and rounding to whole numbers, exact elsewhere, can
// leave the range of these types.
static bool lacks_negative_zero(HloType type) {
    return hlo_type_is_float(type) && hlo_float_encode(type, -0.0) == hlo_float_encode(type, 0.0);
}

// ---- values

// Records the first error. Takes ownership of the status.
static void fail(CpuLoopBuilder *b, HloStatus status) {
    if (b->status)
        hlo_status_free(status);
    else
        b->status = status;
}

// Returns a pointer that is valid until the next value is pushed.
static CpuLoopValue *value_at(const CpuLoopBuilder *b, CpuValue value) {
    HLO_BUG_IF(value < 0 || value >= b->values.count);
    return &b->values.items[value];
}

// Returns the element type of a value.
static HloType value_type(const CpuLoopBuilder *builder, CpuValue value) {
    return value_at(builder, value)->type;
}

// Returns a value without operands; the caller completes and pushes it.
static CpuLoopValue new_value(CpuLoopBuilder *b, CpuValueKind kind, CpuLevel level, HloType type,
                              CpuRegisterType register_type) {
    return (CpuLoopValue){.kind = kind,
                          .level = level,
                          .type = type,
                          .register_type = register_type,
                          .width = cpu_register_bytes(register_type),
                          .operands = {-1, -1, -1},
                          .in_combiner = b->in_combiner,
                          .stored_by = -1,
                          .slot = -1};
}

// Appends a value. Marks values that depend on a reduction's result, since they must wait for the whole row.
static CpuValue push(CpuLoopBuilder *b, CpuLoopValue value) {
    for (int i = 0; i < 3; i++)
        if (value.operands[i] >= 0 && value_at(b, value.operands[i])->after_reduce) value.after_reduce = true;
    hlo_vector_push(b->arena, &b->values, value);
    return (CpuValue)(b->values.count - 1);
}

// Returns `value` at a level at least as high as `level`. Uniform registers are filled and serve every level.
static CpuValue raise_level(CpuLoopBuilder *b, CpuValue value, CpuLevel level) {
    assert(level >= 0);
    const CpuLoopValue old = *value_at(b, value);
    if (old.level == CPU_LEVEL_UNIFORM || old.level >= level) return value;
    if (old.expanded) return old.expanded;
    CpuLoopValue raised = new_value(b, CPU_VALUE_EXPAND, CPU_LEVEL_FULL, old.type, old.register_type);
    raised.width = old.width;
    raised.operands[0] = value;
    const CpuValue result = push(b, raised);
    value_at(b, value)->expanded = result;
    return result;
}

// Sets both kernels, whose tables have the same layout.
void cpu_loop_set_kernel(const CpuLoopBuilder *b, CpuLoopValue *value, CpuBlockKernel *const *kernel) {
    const ptrdiff_t at = (const char *)kernel - (const char *)b->kernels;
    assert(at >= 0 && at < (ptrdiff_t)sizeof *b->kernels);
    value->kernel = *kernel;
    memcpy(&value->kernel_of_one, (const char *)b->kernels_of_one + at, sizeof value->kernel_of_one);
}

// Appends a block kernel over up to three operands, all raised to the highest level among them.
static CpuValue apply(CpuLoopBuilder *b, CpuBlockKernel *const *kernel, HloType type, CpuRegisterType register_type,
                      int64_t immediate, int arity, const CpuValue *operands) {
    assert(arity >= 0 && operands);
    CpuLevel level = CPU_LEVEL_UNIFORM;
    for (int i = 0; i < arity; i++)
        if (value_at(b, operands[i])->level > level) level = value_at(b, operands[i])->level;
    CpuLoopValue result = new_value(b, CPU_VALUE_KERNEL, level, type, register_type);
    for (int i = 0; i < arity; i++) result.operands[i] = raise_level(b, operands[i], level);
    cpu_loop_set_kernel(b, &result, kernel);
    result.immediate = immediate;
    return push(b, result);
}

static CpuValue apply1(CpuLoopBuilder *b, CpuBlockKernel *const *kernel, HloType type, CpuRegisterType register_type,
                       CpuValue a) {
    return apply(b, kernel, type, register_type, 0, 1, &a);
}

// Brings a result back into the range of its type.
static CpuValue normalise(CpuLoopBuilder *b, CpuValue value) {
    const HloType type = value_at(b, value)->type;
    if (is_narrow_float(type)) return apply1(b, &b->kernels->round[type], type, CPU_REGISTER_F32, value);
    if (is_narrow_integer(type)) return apply1(b, &b->kernels->wrap[type], type, cpu_register_of(type), value);
    return value;
}

// ---- the builder

CpuLoopBuilder *cpu_loop_builder_new(HloArena *arena, const CpuLoopDomain *domain, CpuFeatures features) {
    CpuLoopBuilder *b = HLO_ARENA_NEW(arena, CpuLoopBuilder, 1);
    b->arena = arena;
    b->outer = domain->outer;
    b->reduced = domain->reduced;
    b->inner = domain->inner;
    b->rank = domain->outer + domain->reduced + domain->inner;
    b->dims = hlo_arena_copy(arena, domain->dims, sizeof(int64_t) * (size_t)b->rank);
    b->kernels = cpu_isa_loop_kernels(features);
    b->kernels_of_one = cpu_isa_loop_kernels_one(features);
    b->moves = cpu_isa_move_kernels(features);
    if (b->rank > CPU_LOOP_RANK_LIMIT)
        fail(b, hlo_error(HLO_UNIMPLEMENTED, "fused loop: %d dimensions, more than %d", b->rank, CPU_LOOP_RANK_LIMIT));
    return b;
}

// Returns a copy in which dimensions of size 1 have stride 0.
static CpuIndexMap own_map(CpuLoopBuilder *b, const CpuIndexMap *map) {
    int64_t *strides = hlo_arena_copy(b->arena, map->strides, sizeof(int64_t) * (size_t)b->rank);
    for (int d = 0; d < b->rank; d++)
        if (b->dims[d] == 1) strides[d] = 0;
    return (CpuIndexMap){.offset = map->offset, .strides = strides};
}

// Returns the level of a map. A map that is constant along a dimension need not be read again there: only values that
// vary along a reduced dimension are needed for every element.
static CpuLevel map_level(const CpuLoopBuilder *b, const CpuIndexMap *map) {
    CpuLevel level = CPU_LEVEL_UNIFORM;
    for (int d = 0; d < b->rank; d++) {
        if (map->strides[d] == 0) continue;
        if (d >= b->outer && d < b->outer + b->reduced) return CPU_LEVEL_FULL;
        level = CPU_LEVEL_KEPT;
    }
    return level;
}

CpuValue cpu_loop_load(CpuLoopBuilder *b, int buffer, HloType type, const CpuIndexMap *map) {
    assert(buffer >= 0);
    const CpuIndexMap own = own_map(b, map);
    CpuLoopValue load = new_value(b, CPU_VALUE_LOAD, map_level(b, &own), type, register_raw(type));
    load.buffer = buffer;
    load.map = own;
    const CpuValue raw = push(b, load);
    return is_narrow_float(type) ? apply1(b, &b->kernels->decode[type], type, CPU_REGISTER_F32, raw)
                                 : normalise(b, raw);
}

// Finds an equal constant, or returns -1. Looks only a few values back: equal constants are usually near each other,
// and searching all values would be quadratic for long programs.
static CpuValue find_constant(const CpuLoopBuilder *b, HloType type, const void *bits, size_t width) {
    enum { kLooksBack = 64 };
    if (b->in_combiner) return -1;
    for (int64_t v = b->values.count, end = v > kLooksBack ? v - kLooksBack : 0; v-- > end;) {
        const CpuLoopValue *value = &b->values.items[v];
        if (value->kind == CPU_VALUE_CONSTANT && value->type == type && memcmp(value->constant, bits, width) == 0)
            return (CpuValue)v;
    }
    return -1;
}

CpuValue cpu_loop_constant(CpuLoopBuilder *b, HloType type, const void *bits) {
    assert(bits);
    const CpuValue known = find_constant(b, type, bits, (size_t)cpu_register_bytes(register_raw(type)));
    if (known >= 0 && !is_narrow_float(type)) return known;
    CpuLoopValue constant = new_value(b, CPU_VALUE_CONSTANT, CPU_LEVEL_UNIFORM, type, register_raw(type));
    memcpy(constant.constant, bits, (size_t)constant.width);
    const CpuValue raw = push(b, constant);
    return is_narrow_float(type) ? apply1(b, &b->kernels->decode[type], type, CPU_REGISTER_F32, raw)
                                 : normalise(b, raw);
}

// Whether the largest magnitude of the map's number fits in 32 bits.
static bool index_fits_32(const CpuLoopBuilder *b, const CpuIndexMap *map) {
    double reach = map->offset < 0 ? -(double)map->offset : (double)map->offset;
    for (int d = 0; d < b->rank; d++)
        reach += (double)(map->strides[d] < 0 ? -map->strides[d] : map->strides[d]) * (double)b->dims[d];
    return reach < 2147483647.0;
}

CpuValue cpu_loop_index(CpuLoopBuilder *b, HloType type, const CpuIndexMap *map) {
    const CpuIndexMap own = own_map(b, map);
    const HloType ramp = index_fits_32(b, &own) ? HLO_S32 : HLO_S64;
    CpuLoopValue index = new_value(b, CPU_VALUE_INDEX, map_level(b, &own), ramp, cpu_register_of(ramp));
    index.map = own;
    return cpu_loop_convert(b, type, push(b, index));
}

// Returns the result type by the rule of the op's row in isa/loop_ops.def.
static HloType result_type(ResultRule rule, HloType operand) {
    switch (rule) {
        case RESULT_PRED: return HLO_PRED;
        case RESULT_REAL: return hlo_type_real_part(operand);
        case RESULT_COMPLEX: return operand == HLO_F64 ? HLO_C128 : HLO_C64;
        default: return operand;
    }
}

// Records the error and returns a placeholder that is never computed.
static CpuValue unsupported(CpuLoopBuilder *b, const char *what, HloType type) {
    fail(b, hlo_error(HLO_UNIMPLEMENTED, "fused loop: %s of %s", what, hlo_type_text(type)));
    return 0;
}

// Returns the integer type of the same width and the other signedness.
static HloType other_signedness(HloType type) {
    switch (type) {
        case HLO_S1: return HLO_U1;
        case HLO_S2: return HLO_U2;
        case HLO_S4: return HLO_U4;
        case HLO_U1: return HLO_S1;
        case HLO_U2: return HLO_S2;
        default: return HLO_S4;
    }
}

// Shifts an integer of less than a byte right. The register's bits above the type's own must not be shifted in, so the
// shift is done in the type of the other signedness, whose register has the right bits there.
static CpuValue shift_narrow(CpuLoopBuilder *b, CpuLoopOp op, HloType type, CpuValue a, CpuValue distance) {
    const HloType other = other_signedness(type);
    const CpuValue shifted =
        cpu_loop_op(b, op, cpu_loop_bitcast(b, other, a), cpu_loop_bitcast(b, other, distance), -1);
    return cpu_loop_bitcast(b, type, shifted);
}

// Counts bits of an integer of less than a byte. The byte that contains it has zeros above, which are not leading zeros
// of the integer itself.
static CpuValue count_narrow(CpuLoopBuilder *b, CpuLoopOp op, HloType type, CpuValue a) {
    if (hlo_type_kind(type) == HLO_KIND_SIGNED) a = cpu_loop_bitcast(b, other_signedness(type), a);
    CpuValue count = cpu_loop_op(b, op, cpu_loop_convert(b, HLO_U8, a), -1, -1);
    const uint8_t above = (uint8_t)(8 - hlo_type_info(type)->bits);
    if (op == CPU_OP_CLZ) count = cpu_loop_op(b, CPU_OP_SUBTRACT, count, cpu_loop_constant(b, HLO_U8, &above), -1);
    return cpu_loop_convert(b, type, count);
}

// Returns the high half of a product. Products of elements below 8 bits fit in 8 bits; the high half is the bits above
// the element's width.
static CpuValue mulhi_narrow(CpuLoopBuilder *b, HloType type, CpuValue x, CpuValue y) {
    const bool is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
    const HloType byte = is_signed ? HLO_S8 : HLO_U8;
    const int8_t width = (int8_t)hlo_type_info(type)->bits;
    assert(2 * width <= 8); /* so that the product fits */
    const CpuValue product =
        cpu_loop_op(b, CPU_OP_MULTIPLY, cpu_loop_convert(b, byte, x), cpu_loop_convert(b, byte, y), -1);
    const CpuValue distance = cpu_loop_constant(b, byte, &width);
    const CpuLoopOp shift = is_signed ? CPU_OP_SHIFT_RIGHT_ARITHMETIC : CPU_OP_SHIFT_RIGHT_LOGICAL;
    return cpu_loop_convert(b, type, cpu_loop_op(b, shift, product, distance, -1));
}

// Returns the exponent of a constant of an unsigned type that is a power of 2, else -1.
static int constant_power(const CpuLoopBuilder *b, CpuValue v) {
    if (v < 0 || b->values.items[v].kind != CPU_VALUE_CONSTANT) return -1;
    const CpuLoopValue *value = &b->values.items[v];
    if (hlo_type_kind(value->type) != HLO_KIND_UNSIGNED || is_narrow_integer(value->type)) return -1;
    uint64_t bits = 0;
    memcpy(&bits, value->constant, (size_t)hlo_type_bytes(value->type));
    return bits && (bits & (bits - 1)) == 0 ? __builtin_ctzll(bits) : -1;
}

// Divides unsigned integers by a power of 2, as in index arithmetic: the quotient is a shift, the remainder a mask.
static CpuValue divide_by_power(CpuLoopBuilder *b, CpuLoopOp op, CpuValue a, CpuValue divisor, int power) {
    assert(power >= 0 && power < 64);
    const HloType type = value_type(b, divisor);
    const uint64_t operand = op == CPU_OP_DIVIDE ? (uint64_t)power : (UINT64_C(1) << power) - 1;
    const CpuValue by =
        cpu_loop_constant(b, type, &operand);  // its first bytes: only little-endian machines are supported
    return cpu_loop_op(b, op == CPU_OP_DIVIDE ? CPU_OP_SHIFT_RIGHT_LOGICAL : CPU_OP_AND, a, by, -1);
}

// Whether complex x orders before y: by the real parts, and where those are equal, by the imaginary ones. With
// `or_equal`, x also orders before y if their real parts are equal, unless y's imaginary part is smaller; so NaN there
// counts as equal (hlo/base/complex.h).
static CpuValue complex_before(CpuLoopBuilder *b, CpuValue x, CpuValue y, bool or_equal) {
    const CpuValue x_re = cpu_loop_op(b, CPU_OP_REAL, x, -1, -1), y_re = cpu_loop_op(b, CPU_OP_REAL, y, -1, -1);
    const CpuValue x_im = cpu_loop_op(b, CPU_OP_IMAG, x, -1, -1), y_im = cpu_loop_op(b, CPU_OP_IMAG, y, -1, -1);
    CpuValue beside = or_equal ? cpu_loop_op(b, CPU_OP_LT, y_im, x_im, -1) : cpu_loop_op(b, CPU_OP_LT, x_im, y_im, -1);
    if (or_equal) beside = cpu_loop_op(b, CPU_OP_NOT, beside, -1, -1);
    const CpuValue tie = cpu_loop_op(b, CPU_OP_AND, cpu_loop_op(b, CPU_OP_EQ, x_re, y_re, -1), beside, -1);
    return cpu_loop_op(b, CPU_OP_OR, cpu_loop_op(b, CPU_OP_LT, x_re, y_re, -1), tie, -1);
}

// Compares complex numbers, or takes their minimum, maximum or clamp.
static CpuValue order_complex(CpuLoopBuilder *b, CpuLoopOp op, CpuValue x, CpuValue y, CpuValue z) {
    switch (op) {
        case CPU_OP_LT: return complex_before(b, x, y, false);
        case CPU_OP_LE: return complex_before(b, x, y, true);
        case CPU_OP_GT: return complex_before(b, y, x, false);
        case CPU_OP_GE: return complex_before(b, y, x, true);
        case CPU_OP_MAXIMUM: return cpu_loop_op(b, CPU_OP_SELECT, complex_before(b, y, x, true), x, y);
        case CPU_OP_MINIMUM: return cpu_loop_op(b, CPU_OP_SELECT, complex_before(b, x, y, true), x, y);
        default: break;
    }
    assert(op == CPU_OP_CLAMP);
    return cpu_loop_op(b, CPU_OP_MINIMUM, cpu_loop_op(b, CPU_OP_MAXIMUM, x, y, -1), z, -1);
}

static bool is_order(CpuLoopOp op) {
    return op == CPU_OP_LT || op == CPU_OP_LE || op == CPU_OP_GT || op == CPU_OP_GE || op == CPU_OP_MAXIMUM ||
           op == CPU_OP_MINIMUM || op == CPU_OP_CLAMP;
}

// Selects the kernel and appends the operation. The last operand selects the kernel, since in a select only that one
// and the one before have the result's type. A result outside the range of a narrow type is brought back immediately,
// as if each operation were in that type.
CpuValue cpu_loop_op(CpuLoopBuilder *b, CpuLoopOp op, CpuValue a, CpuValue b_value, CpuValue c) {
    const OpInfo *info = &kOps[op];
    const CpuValue operands[3] = {a, b_value, c};
    const HloType type = value_type(b, operands[info->arity - 1]);
    if (is_narrow_integer(type)) {
        const bool is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
        if (op == (is_signed ? CPU_OP_SHIFT_RIGHT_LOGICAL : CPU_OP_SHIFT_RIGHT_ARITHMETIC))
            return shift_narrow(b, op, type, a, b_value);
        if (op == CPU_OP_CLZ || op == CPU_OP_POPCNT) return count_narrow(b, op, type, a);
        if (op == CPU_OP_MULHI) return mulhi_narrow(b, type, a, b_value);
    }
    if (hlo_type_is_complex(type) && is_order(op)) return order_complex(b, op, a, b_value, c);
    const int power = op == CPU_OP_DIVIDE || op == CPU_OP_REMAINDER ? constant_power(b, b_value) : -1;
    if (power >= 0) return divide_by_power(b, op, a, b_value, power);
    CpuBlockKernel *const *kernel = &b->kernels->operation[op][cpu_register_of(type)];
    if (!*kernel) return unsupported(b, info->name, type);
    const HloType result = result_type(info->result, type);
    const CpuValue value = apply(b, kernel, result, cpu_register_of(result), 0, info->arity, operands);
    const bool rounds = info->rounds || lacks_negative_zero(result);
    if (is_narrow_integer(result) || (rounds && is_narrow_float(result))) return normalise(b, value);
    return value;
}

// Converts complex numbers to real ones by their real part; for pred, both parts count.
static CpuValue real_part_first(CpuLoopBuilder *b, HloType type, CpuValue a) {
    const HloType from = value_type(b, a);
    if (!hlo_type_is_complex(from) || hlo_type_is_complex(type) || type == HLO_PRED) return a;
    return cpu_loop_op(b, CPU_OP_REAL, a, -1, -1);
}

// Converts a float to an integer of 8 bits, saturated to the range of a narrower type.
static CpuValue saturate_narrow(CpuLoopBuilder *b, HloType type, CpuValue a) {
    const int bits = hlo_type_info(type)->bits;
    const bool is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
    const HloType wide = is_signed ? HLO_S8 : HLO_U8;
    const int8_t low = is_signed ? (int8_t) - (1 << (bits - 1)) : 0;
    const int8_t high = (int8_t)((1 << (is_signed ? bits - 1 : bits)) - 1);
    const CpuValue lowest = cpu_loop_constant(b, wide, &low), highest = cpu_loop_constant(b, wide, &high);
    return cpu_loop_op(b, CPU_OP_CLAMP, lowest, cpu_loop_convert(b, wide, a), highest);
}

// Truncates an f64 to the bits of an f32 and sets the last of them if any bit was lost. Rounding that to fewer bits
// gives the same as rounding the f64 directly; rounding twice could see a tie where there is none.
static CpuValue truncate_to_f32(CpuLoopBuilder *b, CpuValue a) {
    static const int64_t lost = 0x1fffffff, kept = ~INT64_C(0x1fffffff), last = 0x20000000;
    const CpuValue mask = cpu_loop_constant(b, HLO_S64, &lost), bits = cpu_loop_bitcast(b, HLO_S64, a);
    const CpuValue below = cpu_loop_op(b, CPU_OP_ADD, cpu_loop_op(b, CPU_OP_AND, bits, mask, -1), mask, -1);
    const CpuValue any = cpu_loop_op(b, CPU_OP_AND, below, cpu_loop_constant(b, HLO_S64, &last), -1);
    const CpuValue above = cpu_loop_op(b, CPU_OP_AND, bits, cpu_loop_constant(b, HLO_S64, &kept), -1);
    return cpu_loop_bitcast(b, HLO_F64, cpu_loop_op(b, CPU_OP_OR, above, any, -1));
}

CpuValue cpu_loop_convert(CpuLoopBuilder *b, HloType type, CpuValue a) {
    a = real_part_first(b, type, a);
    HloType from = value_type(b, a);
    if (from == type) return a;
    // XLA rounds f64 to bf16 by way of f32, and to all other narrow floats directly.
    if (from == HLO_F64 && is_narrow_float(type) && type != HLO_BF16) a = truncate_to_f32(b, a);
    if (hlo_type_is_float(from) && is_narrow_integer(type)) {
        a = saturate_narrow(b, type, a);
        from = value_type(b, a);
    }
    if (type == HLO_PRED && hlo_type_is_complex(from)) {
        static const unsigned char zero[16] = {0};
        return cpu_loop_op(b, CPU_OP_NE, a, cpu_loop_constant(b, from, zero), -1);
    }
    const CpuRegisterType source = cpu_register_of(from), target = cpu_register_of(type);
    CpuBlockKernel *const *kernel = &b->kernels->convert[source][target];
    if (!*kernel) return unsupported(b, "CONVERT", type);
    return normalise(b, apply1(b, kernel, type, target, a));
}

// Reinterprets the register of `a` as `type`, and brings it into the type's range. Any byte may be read as a pred.
static CpuValue renamed(CpuLoopBuilder *b, HloType type, CpuValue a) {
    HloType from = value_type(b, a);
    if (from == type) return a;
    if (hlo_type_bytes(from) != hlo_type_bytes(type)) return unsupported(b, "BITCAST to another width", type);
    if (is_narrow_float(from)) a = apply1(b, &b->kernels->encode[from], from, register_raw(from), a);
    CpuLoopValue alias = new_value(b, CPU_VALUE_ALIAS, value_at(b, a)->level, type, register_raw(type));
    alias.operands[0] = a;
    const CpuValue raw = push(b, alias);
    return is_narrow_float(type) ? apply1(b, &b->kernels->decode[type], type, CPU_REGISTER_F32, raw)
                                 : normalise(b, raw);
}

CpuValue cpu_loop_bitcast(CpuLoopBuilder *b, HloType type, CpuValue a) {
    if (type != HLO_PRED || value_type(b, a) == HLO_PRED) return renamed(b, type, a);
    // Any nonzero byte is true: later kernels require a pred to be 0 or 1.
    static const unsigned char zero[1] = {0};
    return cpu_loop_op(b, CPU_OP_NE, renamed(b, HLO_U8, a), cpu_loop_constant(b, HLO_U8, zero), -1);
}

// Returns an f32 number as a constant of the type's register.
static CpuValue float_constant(CpuLoopBuilder *b, double value) {
    const float rounded = (float)value;
    return cpu_loop_constant(b, HLO_F32, &rounded);
}

// Rounds subnormal numbers of `source`, a narrow type, which have fewer bits than the f32 in the register, to multiples
// of the smallest remaining one. `others` is the result for all other numbers.
static CpuValue round_subnormals(CpuLoopBuilder *b, HloType source, int mantissa_bits, CpuValue a, CpuValue others) {
    const double smallest_normal = hlo_float_decode(source, UINT64_C(1) << hlo_type_info(source)->mantissa_bits);
    const double step = ldexp(smallest_normal, -mantissa_bits);
    const HloType type = value_type(b, a);
    const CpuValue x = cpu_loop_convert(b, HLO_F32, a);
    const CpuValue is_normal =
        cpu_loop_op(b, CPU_OP_GE, cpu_loop_op(b, CPU_OP_ABS, x, -1, -1), float_constant(b, smallest_normal), -1);
    const CpuValue is_nan = cpu_loop_op(b, CPU_OP_NE, x, x, -1);
    CpuValue steps = cpu_loop_op(b, CPU_OP_MULTIPLY, x, float_constant(b, 1 / step), -1);
    steps = cpu_loop_op(b, CPU_OP_ROUND_NEAREST_EVEN, steps, -1, -1);
    const CpuValue rounded =
        cpu_loop_convert(b, type, cpu_loop_op(b, CPU_OP_MULTIPLY, steps, float_constant(b, step), -1));
    return cpu_loop_op(b, CPU_OP_SELECT, cpu_loop_op(b, CPU_OP_OR, is_normal, is_nan, -1), others, rounded);
}

CpuValue cpu_loop_reduce_precision(CpuLoopBuilder *b, int exponent_bits, int mantissa_bits, CpuValue a) {
    const HloType type = value_type(b, a);
    const HloType source = hlo_type_reduced_as(type);
    const HloTypeInfo *info = hlo_type_info(source);
    CpuBlockKernel *const *kernel = &b->kernels->reduce_precision[cpu_register_of(type)];
    if (!*kernel) return unsupported(b, "REDUCE_PRECISION", type);
    // At least as many exponent bits as the type has: all exponents stay.
    const bool keeps_exponents = is_narrow_float(type) && exponent_bits >= info->exponent_bits;
    const int parameter = (keeps_exponents && exponent_bits < 8 ? 8 : exponent_bits) << 8 | mantissa_bits;
    const CpuValue reduced = normalise(b, apply(b, kernel, type, cpu_register_of(type), parameter, 1, &a));
    // With fewer exponents the subnormal numbers become 0, which the kernel handles.
    const bool rounds_subnormals = keeps_exponents && info->exponent_bits < 8 && mantissa_bits < info->mantissa_bits;
    return rounds_subnormals ? round_subnormals(b, source, mantissa_bits, a, reduced) : reduced;
}

// Rounds to the whole part of |a|, plus one where the random number is below the fraction scaled to its width, with the
// sign of a.
CpuValue cpu_loop_stochastic_convert(CpuLoopBuilder *b, HloType type, CpuValue a, CpuValue random) {
    const HloType random_type = value_type(b, random);
    const bool wide = value_type(b, a) == HLO_F64;
    if (!hlo_type_is_integer(type) || hlo_type_kind(random_type) != HLO_KIND_UNSIGNED)
        return unsupported(b, "STOCHASTIC_CONVERT", type);
    const HloType register_type = wide ? HLO_F64 : HLO_F32;
    const double scale = (double)(UINT64_C(1) << (hlo_type_info(random_type)->bits - 1)) * 2, one = 1, zero = 0;
    const CpuValue factor = cpu_loop_convert(b, register_type, cpu_loop_constant(b, HLO_F64, &scale));
    const CpuValue plus = cpu_loop_convert(b, register_type, cpu_loop_constant(b, HLO_F64, &one));
    const CpuValue nothing = cpu_loop_convert(b, register_type, cpu_loop_constant(b, HLO_F64, &zero));
    const CpuValue x = cpu_loop_convert(b, register_type, a), magnitude = cpu_loop_op(b, CPU_OP_ABS, x, -1, -1);
    const CpuValue whole = cpu_loop_op(b, CPU_OP_FLOOR, magnitude, -1, -1);
    const CpuValue fraction = cpu_loop_op(b, CPU_OP_SUBTRACT, magnitude, whole, -1);
    const CpuValue fixed = cpu_loop_convert(b, random_type, cpu_loop_op(b, CPU_OP_MULTIPLY, fraction, factor, -1));
    const CpuValue up = cpu_loop_op(b, CPU_OP_LT, random, fixed, -1);
    const CpuValue rounded = cpu_loop_op(b, CPU_OP_SELECT, up, cpu_loop_op(b, CPU_OP_ADD, whole, plus, -1), whole);
    const CpuValue negative = cpu_loop_op(b, CPU_OP_LT, x, nothing, -1);
    const CpuValue turned = cpu_loop_op(b, CPU_OP_NEGATE, rounded, -1, -1);
    return cpu_loop_convert(b, type, cpu_loop_op(b, CPU_OP_SELECT, negative, turned, rounded));
}

// Copies the elements to a separate register, at a given level.
static CpuValue push_copy(CpuLoopBuilder *b, CpuValue a, CpuLevel level) {
    const CpuLoopValue of = *value_at(b, a);
    const unsigned char yes = 1;
    CpuLoopValue copy = new_value(b, CPU_VALUE_KERNEL, level, of.type, of.register_type);
    cpu_loop_set_kernel(b, &copy, &b->kernels->operation[CPU_OP_SELECT][of.register_type]);
    copy.operands[0] = cpu_loop_constant(b, HLO_PRED, &yes);
    copy.operands[1] = copy.operands[2] = a;
    return push(b, copy);
}

// ---- reductions

CpuValue cpu_loop_reduce(CpuLoopBuilder *b, CpuReduceOp op, CpuValue a, CpuValue init) {
    const HloType type = value_type(b, a);
    const CpuRegisterType register_type = cpu_register_of(type);
    if (!b->kernels->reduce[op][register_type]) return unsupported(b, "reduction", type);
    CpuLoopValue reduce = new_value(b, CPU_VALUE_REDUCE, CPU_LEVEL_KEPT, type, register_type);
    if (value_at(b, a)->level == CPU_LEVEL_UNIFORM) a = push_copy(b, a, CPU_LEVEL_FULL);
    reduce.operands[0] = raise_level(b, a, CPU_LEVEL_FULL);
    reduce.reduce = b->kernels->reduce[op][register_type];
    reduce.columns = b->kernels->columns[op][register_type];
    reduce.reduce_op = op;
    reduce.partial = b->reduce_count++;
    const CpuValue result = push(b, reduce);
    value_at(b, result)->after_reduce = true;
    return cpu_loop_op(b, cpu_pair_op(op), init, result, -1);
}

// Begins the combiner. The values that follow, up to cpu_loop_combine_end(), compute the combination of two elements;
// `accumulators` and `elements` represent the two. Values that are the same for the whole loop are first made values of
// each element.
void cpu_loop_combine_begin(CpuLoopBuilder *b, int count, const CpuValue *values, const CpuValue *inits,
                            CpuValue *accumulators, CpuValue *elements) {
    assert(values && inits && accumulators && elements);
    if (b->combine_count || b->reduce_count || b->reduced == 0 || count < 1 || count > CPU_LOOP_COMBINE_LIMIT)
        fail(b, hlo_error(HLO_UNIMPLEMENTED,
                          "fused loop: a generic reduction must be the only one of its loop and "
                          "have 1 to %d operands",
                          CPU_LOOP_COMBINE_LIMIT));
    const size_t bytes = sizeof(CpuValue) * (size_t)count;
    b->combine_count = count;
    b->combine_values = hlo_arena_allocate(b->arena, bytes);
    b->combine_inits = hlo_arena_copy(b->arena, inits, bytes);
    b->accumulators = hlo_arena_allocate(b->arena, bytes);
    b->elements = hlo_arena_allocate(b->arena, bytes);
    for (int i = 0; i < count; i++) {
        const bool uniform = value_at(b, values[i])->level == CPU_LEVEL_UNIFORM;
        b->combine_values[i] =
            uniform ? push_copy(b, values[i], CPU_LEVEL_FULL) : raise_level(b, values[i], CPU_LEVEL_FULL);
    }
    b->in_combiner = true;
    for (int i = 0; i < count; i++) {
        const CpuLoopValue of = *value_at(b, values[i]);
        accumulators[i] = push(b, new_value(b, CPU_VALUE_ACCUMULATOR, CPU_LEVEL_KEPT, of.type, of.register_type));
        elements[i] = push(b, new_value(b, CPU_VALUE_ELEMENT, CPU_LEVEL_KEPT, of.type, of.register_type));
    }
    memcpy(b->accumulators, accumulators, bytes);
    memcpy(b->elements, elements, bytes);
}

void cpu_loop_combine_end(CpuLoopBuilder *b, int count, const CpuValue *combined, CpuValue *results) {
    assert(combined && results);
    b->combined = hlo_arena_copy(b->arena, combined, sizeof(CpuValue) * (size_t)count);
    for (int i = 0; i < count; i++) {
        const CpuValueKind kind = value_at(b, combined[i])->kind;
        if (kind == CPU_VALUE_ACCUMULATOR || kind == CPU_VALUE_ELEMENT)
            b->combined[i] = push_copy(b, combined[i], CPU_LEVEL_KEPT);
    }
    b->in_combiner = false;
    for (int i = 0; i < count; i++) {
        const CpuLoopValue of = *value_at(b, combined[i]);
        CpuLoopValue result = new_value(b, CPU_VALUE_COMBINED, CPU_LEVEL_KEPT, of.type, of.register_type);
        result.partial = b->reduce_count++;
        results[i] = push(b, result);
        value_at(b, results[i])->after_reduce = true;
    }
}

void cpu_loop_combine_in_order(CpuLoopBuilder *b) {
    assert(b->combine_count > 0); /* between combine_begin and combine_end */
    b->combine_in_order = true;
}

void cpu_loop_store(CpuLoopBuilder *b, int buffer, CpuValue value, const CpuIndexMap *map) {
    assert(buffer >= 0);
    const CpuIndexMap own = own_map(b, map);
    CpuLevel level = map_level(b, &own);
    if (level == CPU_LEVEL_UNIFORM) level = CPU_LEVEL_KEPT;
    if (value_at(b, value)->level > level) {
        fail(b, hlo_error(HLO_INVALID_ARGUMENT, "fused loop: a store drops the reduced dimensions of its value"));
        return;
    }
    const HloType type = value_at(b, value)->type;
    value = raise_level(b, value, level);
    if (is_narrow_float(type)) value = apply1(b, &b->kernels->encode[type], type, register_raw(type), value);
    CpuLoopValue store = new_value(b, CPU_VALUE_STORE, level, type, register_raw(type));
    store.operands[0] = value;
    store.buffer = buffer;
    store.map = own;
    push(b, store);
}
