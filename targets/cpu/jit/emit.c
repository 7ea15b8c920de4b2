// SPDX-License-Identifier: Apache-2.0
// From values to machine code: registers and instructions for one block of a program.
//
// A block (values.h) is emitted in one pass from its first value to its last. Each value is an element in the lowest
// lane of a vector register, whatever its type, since nearly all operations on elements exist for vectors; the general
// registers contain only addresses.
//
// Registers are allocated on the way (registers.h). Before a call everything still needed is spilled, as the callee may
// use every vector register.
//
// Results must have the bits of the compiled kernels (kernels.c names them), but for the sign of a NaN, which depends
// on the order of operands that the compiler chose. If an instruction differs from HLO, one value is several
// instructions: a maximum that handles NaN and the sign of zeros, a saturating conversion to integers.
//
// If the block does not fit (more spilled values than the frame has room for, offsets beyond 32 bits), `fits` is
// cleared and the program is run as its list of calls; nothing else here fails.
//
// The code of v3 = v1 * v2; v4 = v3 + v1; store v4, where v1 and v2 are elements of the device's arena:
//
//   vmovss xmm0, [r14 + 64]      v1, needed until v4
//   vmovss xmm1, [r14 + 128]     v2, needed until v3
//   vmulss xmm1, xmm0, xmm1      v3 takes the register that v2 has just freed
//   vaddss xmm0, xmm1, xmm0      v4
//   vmovss [r14 + 192], xmm0
//
// Opcodes, and the numbers of comparisons and roundings, are those of Intel's manual, volume 2.
#include "targets/cpu/jit/emit.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "targets/cpu/isa/polynomials.h"

// rbx: the bases, r12: scratch memory, r13: the moved addresses, r14: the arena.
// Registers are numbered in a row: those of vectors, 16 or with AVX-512 32, and then the eight of masks, which contain
// the values that are masks if there are any. The last three of vectors and the last one of masks are used within one
// operation, the others contain values, except for the first one of masks: as an operand it means "no mask".
enum { kTemporaries = 3, kMasks = 32, kFirstMask = kMasks + 1, kLastMask = kMasks + 7 };
enum { kFirstTemporary = kMasks / 2 - kTemporaries };  // of AVX2
enum { kTemporaryMask = kLastMask - kMasks, kRestMask = kTemporaryMask - 1 };
// The frame: room for 256 spilled elements or 64 spilled vectors (32 with AVX-512), and 8 bytes for alignment. At the
// function's beginning the stack is 8 bytes off a multiple of 16; four registers are pushed, then the frame makes it a
// multiple again, as calls require.
enum { kFrameSlots = CPU_JIT_SLOTS, kSlotBytes = 8, kFrameBytes = kFrameSlots * kSlotBytes + 8 };
_Static_assert((8 + 4 * 8 + kFrameBytes) % 16 == 0, "the stack is aligned where kernels are called");

typedef CpuJitRegisters Registers;

// ---- instructions

enum { kNoPrefix, k66, kF3, kF2 };

#define FORM(prefix, map, opcode) \
    { prefix, map, 0, opcode }
#define WIDE_FORM(prefix, map, opcode) \
    { prefix, map, 1, opcode }
static const CpuX86Form kLoad32 = FORM(kF3, 1, 0x10), kStore32 = FORM(kF3, 1, 0x11);
static const CpuX86Form kLoad64 = FORM(kF2, 1, 0x10), kStore64 = FORM(kF2, 1, 0x11);
static const CpuX86Form kStoreByte = FORM(k66, 3, 0x14);
static const CpuX86Form kFromGeneral = FORM(k66, 1, 0x6e), kToGeneral = FORM(k66, 1, 0x7e);
static const CpuX86Form kToGeneral64 = WIDE_FORM(k66, 1, 0x7e);
static const CpuX86Form kAnd = FORM(k66, 1, 0xdb), kOr = FORM(k66, 1, 0xeb), kXor = FORM(k66, 1, 0xef);
static const CpuX86Form kShiftBy = FORM(k66, 1, 0x72);
static const CpuX86Form kSubtract32 = FORM(k66, 1, 0xfa), kEqual32 = FORM(k66, 1, 0x76);
static const CpuX86Form kBlend32 = FORM(k66, 3, 0x4a), kBlend64 = FORM(k66, 3, 0x4b);
static const CpuX86Form kExtendSigned = FORM(k66, 2, 0x25);
static const CpuX86Form kTruncate = FORM(kF3, 1, 0x5b);
static const CpuX86Form kLoadVector = FORM(kNoPrefix, 1, 0x10), kStoreVector = FORM(kNoPrefix, 1, 0x11);
static const CpuX86Form kBroadcast32 = FORM(k66, 2, 0x18), kExtendBytes = FORM(k66, 2, 0x31);
static const CpuX86Form kExtendWords = FORM(k66, 2, 0x33), kUpperHalf = FORM(k66, 3, 0x39);
static const CpuX86Form kPackWords = FORM(k66, 2, 0x2b), kPackBytes = FORM(k66, 1, 0x67);
static const CpuX86Form kStoreQuarter = FORM(k66, 1, 0xd6);
static const CpuX86Form kAdd32 = FORM(k66, 1, 0xfe), kMultiplyLanes = FORM(kNoPrefix, 1, 0x59);
static const CpuX86Form kCompareLanes = FORM(kNoPrefix, 1, 0xc2), kTestSigns = FORM(k66, 2, 0x0e);
// Of AVX-512.
static const CpuX86Form kRotateBy = FORM(k66, 1, 0x72), kRange = FORM(k66, 3, 0x50), kTernary = FORM(k66, 3, 0x25);
static const CpuX86Form kBlendMasked = FORM(k66, 2, 0x65), kTestLanes = FORM(k66, 2, 0x27), kMove = FORM(k66, 1, 0x6f);
static const CpuX86Form kMoveBytes = FORM(kF2, 1, 0x6f), kStoreBytes = FORM(kF3, 2, 0x31);
static const CpuX86Form kStoreSomeBytes = FORM(kF2, 1, 0x7f);
static const CpuX86Form kStoreWords = FORM(kF3, 2, 0x33), kScale = FORM(k66, 2, 0x2c);
enum { kRotateLeft = 1, kShiftRight = 2, kShiftLeft = 6 };  // encoded in the register field of kShiftBy, kRotateBy
enum { kRangeMinimum = 4, kRangeMaximum = 5 };              // with the order of zeros
// Comparisons of vcmpss and vcmpsd. All but kNotEqual, kNotAtMost and kUnordered are false if an
// operand is NaN.
enum {
    kEqual = 0,
    kLess = 1,
    kAtMost = 2,
    kUnordered = 3,
    kNotEqual = 4,
    kNotLess = 5,
    kNotAtMost = 6,
    kOrdered = 7,
    kAtLeast = 13,
    kGreater = 14
};
// Rounding modes of vroundss and vroundsd. Bit 3: an inexact result raises no flag.
enum { kRoundEven = 8, kRoundDown = 9, kRoundUp = 10, kRoundToZero = 11 };
enum { kPlain = 1, kSelf, kUnaryForm, kWithByte, kSelfWithByte };  // see Instruction

// The encoding of a value that is one instruction (a narrow and a wide form of it): its operands unchanged; one
// operand, which also supplies the upper elements; one operand and nothing else; the first two with an immediate.
typedef struct Instruction {
    int how, immediate;
    CpuX86Form narrow, wide;
} Instruction;

#define FLOAT_FORMS(opcode) FORM(kF3, 1, opcode), FORM(kF2, 1, opcode)
#define ROUND_FORMS FORM(k66, 3, 0x0a), FORM(k66, 3, 0x0b)
#define ONLY(form) form, form
static const Instruction kInstructions[CPU_JIT_OP_COUNT] = {
    [CPU_VALUE_ADD_F] = {kPlain, 0, FLOAT_FORMS(0x58)},              // vaddss, vaddsd
    [CPU_VALUE_SUBTRACT_F] = {kPlain, 0, FLOAT_FORMS(0x5c)},         // vsubss, vsubsd
    [CPU_VALUE_MULTIPLY_F] = {kPlain, 0, FLOAT_FORMS(0x59)},         // vmulss, vmulsd
    [CPU_VALUE_DIVIDE_F] = {kPlain, 0, FLOAT_FORMS(0x5e)},           // vdivss, vdivsd
    [CPU_VALUE_GREATER_F] = {kPlain, 0, FLOAT_FORMS(0x5f)},          // vmaxss, vmaxsd
    [CPU_VALUE_LESSER_F] = {kPlain, 0, FLOAT_FORMS(0x5d)},           // vminss, vminsd
    [CPU_VALUE_SQRT_F] = {kSelf, 0, FLOAT_FORMS(0x51)},              // vsqrtss, vsqrtsd
    [CPU_VALUE_FLOOR_F] = {kSelfWithByte, kRoundDown, ROUND_FORMS},  // vroundss, vroundsd
    [CPU_VALUE_CEIL_F] = {kSelfWithByte, kRoundUp, ROUND_FORMS},
    [CPU_VALUE_ROUND_EVEN_F] = {kSelfWithByte, kRoundEven, ROUND_FORMS},
    [CPU_VALUE_TRUNCATE_F] = {kSelfWithByte, kRoundToZero, ROUND_FORMS},
    [CPU_VALUE_EQ_F] = {kWithByte, kEqual, FLOAT_FORMS(0xc2)},  // vcmpss, vcmpsd
    [CPU_VALUE_NE_F] = {kWithByte, kNotEqual, FLOAT_FORMS(0xc2)},
    [CPU_VALUE_LT_F] = {kWithByte, kLess, FLOAT_FORMS(0xc2)},
    [CPU_VALUE_LE_F] = {kWithByte, kAtMost, FLOAT_FORMS(0xc2)},
    [CPU_VALUE_GT_F] = {kWithByte, kGreater, FLOAT_FORMS(0xc2)},
    [CPU_VALUE_GE_F] = {kWithByte, kAtLeast, FLOAT_FORMS(0xc2)},
    [CPU_VALUE_NOT_LESS_F] = {kWithByte, kNotLess, FLOAT_FORMS(0xc2)},
    [CPU_VALUE_ADD] = {kPlain, 0, FORM(k66, 1, 0xfe), FORM(k66, 1, 0xd4)},       // vpaddd, vpaddq
    [CPU_VALUE_SUBTRACT] = {kPlain, 0, FORM(k66, 1, 0xfa), FORM(k66, 1, 0xfb)},  // vpsubd, vpsubq
    [CPU_VALUE_MULTIPLY] = {kPlain, 0, ONLY(FORM(k66, 2, 0x40))},                // vpmulld
    [CPU_VALUE_ABS] = {kUnaryForm, 0, ONLY(FORM(k66, 2, 0x1e))},                 // vpabsd
    [CPU_VALUE_MAXIMUM_S] = {kPlain, 0, ONLY(FORM(k66, 2, 0x3d))},               // vpmaxsd
    [CPU_VALUE_MINIMUM_S] = {kPlain, 0, ONLY(FORM(k66, 2, 0x39))},               // vpminsd
    [CPU_VALUE_MAXIMUM_U] = {kPlain, 0, ONLY(FORM(k66, 2, 0x3f))},               // vpmaxud
    [CPU_VALUE_MINIMUM_U] = {kPlain, 0, ONLY(FORM(k66, 2, 0x3b))},               // vpminud
    [CPU_VALUE_EQ] = {kPlain, 0, FORM(k66, 1, 0x76), FORM(k66, 2, 0x29)},        // vpcmpeqd, vpcmpeqq
    [CPU_VALUE_GT_S] = {kPlain, 0, FORM(k66, 1, 0x66), FORM(k66, 2, 0x37)},      // vpcmpgtd, vpcmpgtq
    [CPU_VALUE_SHIFT_LEFT] = {kPlain, 0, ONLY(FORM(k66, 2, 0x47))},  // vpsllvd: by 32 and more it returns 0, as in HLO
    [CPU_VALUE_SHIFT_RIGHT_LOGICAL] = {kPlain, 0, ONLY(FORM(k66, 2, 0x45))},     // vpsrlvd
    [CPU_VALUE_SHIFT_RIGHT_ARITHMETIC] = {kPlain, 0, ONLY(FORM(k66, 2, 0x46))},  // vpsravd
    [CPU_VALUE_AND] = {kPlain, 0, ONLY(FORM(k66, 1, 0xdb))},                     // vpand
    [CPU_VALUE_OR] = {kPlain, 0, ONLY(FORM(k66, 1, 0xeb))},                      // vpor
    [CPU_VALUE_XOR] = {kPlain, 0, ONLY(FORM(k66, 1, 0xef))},                     // vpxor
    [CPU_VALUE_S32_TO_F32] = {kUnaryForm, 0, ONLY(FORM(kNoPrefix, 1, 0x5b))},    // vcvtdq2ps
    [CPU_VALUE_S32_TO_F64] = {kUnaryForm, 0, ONLY(FORM(kF3, 1, 0xe6))},          // vcvtdq2pd
    [CPU_VALUE_F32_TO_F64] = {kSelf, 0, ONLY(FORM(kF3, 1, 0x5a))},               // vcvtss2sd
    [CPU_VALUE_F64_TO_F32] = {kSelf, 0, ONLY(FORM(kF2, 1, 0x5a))},               // vcvtsd2ss
    [CPU_VALUE_S32_TO_S64] = {kUnaryForm, 0, ONLY(FORM(k66, 2, 0x25))},          // vpmovsxdq
    [CPU_VALUE_U32_TO_U64] = {kUnaryForm, 0, ONLY(FORM(k66, 2, 0x35))},          // vpmovzxdq
};

static CpuJitEmitter *emitter_of(const Registers *r) {
    return r->code;
}

static CpuX86 *x86(const Registers *r) {
    return &emitter_of(r)->x86;
}

static bool is_vector(const Registers *r) {
    return r->lists != NULL;
}

// Whether the code has mask registers.
static bool has_masks(const Registers *r) {
    return x86(r)->is_extended;
}

static int slot_bytes(const Registers *r) {
    return is_vector(r) ? x86(r)->width : kSlotBytes;
}

static CpuX86Operand slot_operand(Registers *r, int slot) {
    return cpu_x86_memory(CPU_X86_RSP, slot * slot_bytes(r));
}

// Returns the form for all elements of a vector of 32-bit elements, given the one for its lowest element.
static CpuX86Form for_lanes(Registers *r, CpuX86Form form) {
    const bool computes = form.opcode == 0x51 || (form.opcode >= 0x58 && form.opcode <= 0x5f && form.opcode != 0x5b);
    if (!is_vector(r)) return form;
    if (form.map == 1 && form.prefix == kF3 && (computes || form.opcode == 0xc2)) form.prefix = kNoPrefix;
    if (form.map == 3 && form.opcode == 0x0a) form.opcode = 0x08;  // vroundss
    return form;
}

// Returns the general register that `address` is relative to: the given one, unless another contains the base
// permanently.
static CpuX86General base_register(Registers *r, const CpuJitAddress *address, CpuX86General spare) {
    if (address->moved >= 0) {
        cpu_x86_general(x86(r), CPU_X86_LOAD, spare, cpu_x86_memory(CPU_X86_R13, address->moved * 8));
        return spare;
    }
    if (address->base == CPU_JIT_IN_SCRATCH) return CPU_X86_R12;
    if (address->base == CPU_BASE_ARENA) return CPU_X86_R14;
    cpu_x86_general(x86(r), CPU_X86_LOAD, spare, cpu_x86_memory(CPU_X86_RBX, address->base * 8));
    return spare;
}

static CpuX86Operand place_operand(Registers *r, const CpuJitAddress *address) {
    if (address->offset != (int32_t)address->offset) r->fits = false;
    return cpu_x86_memory(base_register(r, address, CPU_X86_RAX), (int32_t)address->offset);
}

// ---- registers

static CpuX86Operand constant_operand(Registers *r, int32_t value) {
    return cpu_x86_constant(x86(r), r->block->values.items[value].bits);
}

static void spill(Registers *r, int32_t value, int reg) {
    const CpuX86Operand to = slot_operand(r, r->slot_of[value]);
    if (reg >= kMasks)
        cpu_x86_mask(x86(r), CPU_X86_MASK_STORE, reg - kMasks, 0, to);
    else
        cpu_x86_vector(x86(r), is_vector(r) ? kStoreVector : kStore64, reg, 0, to);
}

// Loads the next elements of a list, or one element for all, into lanes of 32 bits; narrower elements get zeros above
// their bits.
static void load_list(Registers *r, const CpuJitValue *value, int to) {
    const CpuJitList *list = &r->lists[value->address.base];
    const CpuX86Operand from =
        list->one ? cpu_x86_memory((CpuX86General)list->address, 0)
                  : cpu_x86_indexed((CpuX86General)list->address, value->width, (int32_t)value->address.offset);
    const CpuX86Form form = value->width == 2   ? kExtendWords
                            : value->width == 1 ? kExtendBytes
                            : list->one         ? kBroadcast32
                                                : kLoadVector;
    const int rest = list->one ? 0 : emitter_of(r)->rest;
    rest ? cpu_x86_masked(x86(r), form, to, 0, from, rest, true) : cpu_x86_vector(x86(r), form, to, 0, from);
}

static void load(Registers *r, int32_t number, int reg) {
    const CpuJitValue *value = &r->block->values.items[number];
    if (value->op == CPU_VALUE_OF_MEMORY && r->slot_of[number] < 0) {
        load_list(r, value, reg);
        return;
    }
    const CpuX86Operand from =
        cpu_jit_is_constant(r, number) ? constant_operand(r, number) : slot_operand(r, r->slot_of[number]);
    if (reg >= kMasks)
        cpu_x86_mask(x86(r), CPU_X86_MASK_LOAD, reg - kMasks, 0, from);
    else
        cpu_x86_vector(x86(r), is_vector(r) ? kLoadVector : kLoad64, reg, 0, from);
}

// Does the same for instructions that can also read a constant from memory.
static CpuX86Operand as_operand(Registers *r, int32_t value) {
    if (r->register_of[value] < 0 && cpu_jit_is_constant(r, value)) return constant_operand(r, value);
    return cpu_x86_register(cpu_jit_in_register(r, value));
}

// Do the same for values that are in mask registers, whose own numbers they return.
static int in_mask(Registers *r, int32_t value) {
    return cpu_jit_in_register(r, value) - kMasks;
}
static int hold_mask(Registers *r, int32_t value) {
    return cpu_jit_hold(r, value) - kMasks;
}

// ---- values

static CpuX86Operand float_constant(CpuX86 *x, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return cpu_x86_constant(x, (uint64_t)bits << 32 | bits);
}

// A byte is loaded through a general register, for which an instruction clears the bits above it.
static void emit_load(Registers *r, int32_t number, const CpuJitValue *value) {
    const CpuX86Operand from = place_operand(r, &value->address);
    const int to = cpu_jit_hold(r, number);
    if (value->width > 1) {
        cpu_x86_vector(x86(r), value->width == 8 ? kLoad64 : kLoad32, to, 0, from);
        return;
    }
    cpu_x86_general(x86(r), CPU_X86_EXTEND_BYTE, CPU_X86_RAX, from);
    cpu_x86_vector(x86(r), kFromGeneral, to, 0, cpu_x86_register(CPU_X86_RAX));
}

static void emit_list_load(Registers *r, int32_t number, const CpuJitValue *value) {
    load_list(r, value, cpu_jit_hold(r, number));
}

// Returns whether the maximum or minimum of a number and this constant, which is not NaN, is the other operand where
// that is NaN or both are zeros: then one instruction does it, as it returns its second operand in these cases.
static bool is_plain_extreme(const CpuJitValue *value, uint32_t constant) {
    const uint32_t magnitude = constant & 0x7fffffff;
    if (magnitude > 0x7f800000) return false;
    return magnitude != 0 || (constant != 0) == (value->op == CPU_VALUE_MAXIMUM_F);
}

// Emits the maximum or minimum of a number and a constant in an instruction or two; false where that is not enough.
static bool emit_minmax_of_constant(Registers *r, int32_t number, const CpuJitValue *value) {
    const CpuX86Form extreme = {kNoPrefix, 1, 0, value->op == CPU_VALUE_MAXIMUM_F ? 0x5f : 0x5d};
    const CpuX86Form compare = {kNoPrefix, 1, 0, 0xc2};
    for (int i = 0; i < 2; i++) {
        const int32_t constant = value->operands[i], other = value->operands[!i];
        if (!cpu_jit_is_constant(r, constant) || cpu_jit_is_constant(r, other)) continue;
        const uint32_t bits = (uint32_t)r->block->values.items[constant].bits;
        if (is_plain_extreme(value, bits)) {
            const int left = cpu_jit_in_register(r, constant), right = cpu_jit_in_register(r, other);
            cpu_jit_release(r, value);
            cpu_x86_vector(x86(r), extreme, cpu_jit_hold(r, number), left, cpu_x86_register(right));
            return true;
        }
        if (bits == 0 && value->op == CPU_VALUE_MAXIMUM_F) {  // the number where it is above 0 or NaN, else +0
            const int x = cpu_jit_in_register(r, other);
            cpu_x86_vector_byte(x86(r), compare, r->temporary, x, as_operand(r, constant), kNotAtMost);
            cpu_jit_release(r, value);
            cpu_x86_vector(x86(r), kAnd, cpu_jit_hold(r, number), r->temporary, cpu_x86_register(x));
            return true;
        }
    }
    return false;
}

// With AVX-512 one instruction orders zeros by their signs, but prefers numbers to NaN: where an operand is NaN the sum
// is used instead, which is NaN. The kernels do the same.
static void put_range(Registers *r, CpuJitOp op, int to, int x, CpuX86Operand y) {
    const CpuX86Form compare = FORM(kNoPrefix, 1, 0xc2), sum = FORM(kNoPrefix, 1, 0x58);
    cpu_x86_vector_byte(x86(r), compare, kTemporaryMask, x, y, kUnordered);
    cpu_x86_vector_byte(x86(r), kRange, to, x, y, op == CPU_VALUE_MAXIMUM_F ? kRangeMaximum : kRangeMinimum);
    cpu_x86_masked(x86(r), sum, to, x, y, kTemporaryMask, false);
}

static void emit_range(Registers *r, int32_t number, const CpuJitValue *value) {
    const int x = cpu_jit_in_register(r, value->operands[0]);
    const CpuX86Operand y = as_operand(r, value->operands[1]);
    const int to = cpu_jit_hold(r, number);  // not yet x's or y's register, which are read until the end
    put_range(r, value->op, to, x, y);
    cpu_jit_release(r, value);
}

// Follows IEEE 754-2019 as emit_minmax() does, but keeps the bits of a NaN, the first one's if both are, as kernels of
// blocks do. The results of both orders, "and"ed (or "or"ed), are right unless an operand is NaN. Then the first order
// returned y and the second one x: where x is NaN the first result is replaced by the second, and after that, where y
// is, the second by the first. `to` may be x or y.
static void put_extreme(Registers *r, CpuJitOp op, int to, int x, int y) {
    const bool largest = op == CPU_VALUE_MAXIMUM_F;
    const CpuX86Form extreme = {kNoPrefix, 1, 0, largest ? 0x5f : 0x5d}, compare = {kNoPrefix, 1, 0, 0xc2};
    const int first = r->temporary, second = first + 1, unordered = first + 2;
    cpu_x86_vector(x86(r), extreme, first, x, cpu_x86_register(y));
    cpu_x86_vector(x86(r), extreme, second, y, cpu_x86_register(x));
    cpu_x86_vector_byte(x86(r), compare, unordered, x, cpu_x86_register(x), kUnordered);
    cpu_x86_vector_byte(x86(r), kBlend32, first, first, cpu_x86_register(second), unordered << 4);
    cpu_x86_vector_byte(x86(r), compare, unordered, y, cpu_x86_register(y), kUnordered);
    cpu_x86_vector_byte(x86(r), kBlend32, second, second, cpu_x86_register(first), unordered << 4);
    cpu_x86_vector(x86(r), largest ? kAnd : kOr, to, first, cpu_x86_register(second));
}

static void emit_vector_minmax(Registers *r, int32_t number, const CpuJitValue *value) {
    if (has_masks(r)) {
        emit_range(r, number, value);
        return;
    }
    if (emit_minmax_of_constant(r, number, value)) return;
    const int x = cpu_jit_in_register(r, value->operands[0]), y = cpu_jit_in_register(r, value->operands[1]);
    cpu_jit_release(r, value);
    put_extreme(r, value->op, cpu_jit_hold(r, number), x, y);
}

// Follows IEEE 754-2019: the smaller of two zeros is -0, and NaN wins. vmaxss x, y returns y if either is NaN or both
// are zeros, so both orders of operands are used: for max(+0, -0) one returns +0, the other -0, and their bits "and"ed
// are those of +0 (for a minimum, "or"ed: -0); for equal or ordered operands both return the same, which stays. If one
// is NaN the sum is used instead, which is that NaN, made quiet.
static void emit_minmax(Registers *r, int32_t number, const CpuJitValue *value) {
    const int x = cpu_jit_in_register(r, value->operands[0]), y = cpu_jit_in_register(r, value->operands[1]);
    const int first = r->temporary, second = first + 1, unordered = first + 2;
    const uint8_t prefix = value->wide ? kF2 : kF3;
    const CpuX86Form extreme = {prefix, 1, 0, value->op == CPU_VALUE_MAXIMUM_F ? 0x5f : 0x5d};
    const CpuX86Form compare = {prefix, 1, 0, 0xc2}, sum = {prefix, 1, 0, 0x58};
    cpu_x86_vector(x86(r), extreme, first, x, cpu_x86_register(y));
    cpu_x86_vector(x86(r), extreme, second, y, cpu_x86_register(x));
    cpu_x86_vector(x86(r), value->op == CPU_VALUE_MAXIMUM_F ? kAnd : kOr, first, first, cpu_x86_register(second));
    cpu_x86_vector_byte(x86(r), compare, unordered, x, cpu_x86_register(y), kUnordered);
    cpu_x86_vector(x86(r), sum, second, x, cpu_x86_register(y));
    cpu_jit_release(r, value);
    cpu_x86_vector_byte(x86(r), value->wide ? kBlend64 : kBlend32, cpu_jit_hold(r, number), first,
                        cpu_x86_register(second), unordered << 4);
}

// Emits a blend by a mask register; of masks: yes & mask | no & ~mask.
static void emit_masked_select(Registers *r, int32_t number, const CpuJitValue *value) {
    const int mask = in_mask(r, value->operands[0]);
    if (!cpu_jit_is_in_mask(r, number)) {
        const int no = cpu_jit_in_register(r, value->operands[2]);
        const CpuX86Operand yes = as_operand(r, value->operands[1]);
        cpu_jit_release(r, value);
        cpu_x86_masked(x86(r), kBlendMasked, cpu_jit_hold(r, number), no, yes, mask, false);
        return;
    }
    const int yes = in_mask(r, value->operands[1]), no = in_mask(r, value->operands[2]);
    const int to = hold_mask(r, number);
    cpu_x86_mask(x86(r), CPU_X86_MASK_AND, kTemporaryMask, mask, cpu_x86_register(yes));
    cpu_x86_mask(x86(r), CPU_X86_MASK_AND_NOT, to, mask, cpu_x86_register(no));
    cpu_x86_mask(x86(r), CPU_X86_MASK_OR, to, to, cpu_x86_register(kTemporaryMask));
    cpu_jit_release(r, value);
}

// Emits a blend, which reads the highest bit of its mask; a wide element needs a mask of 64 bits.
static void emit_select(Registers *r, int32_t number, const CpuJitValue *value) {
    if (has_masks(r)) {
        emit_masked_select(r, number, value);
        return;
    }
    int mask = cpu_jit_in_register(r, value->operands[0]);
    const int yes = cpu_jit_in_register(r, value->operands[1]), no = cpu_jit_in_register(r, value->operands[2]);
    if (value->wide) {
        cpu_x86_vector(x86(r), kExtendSigned, r->temporary, 0, cpu_x86_register(mask));
        mask = r->temporary;
    }
    cpu_jit_release(r, value);
    cpu_x86_vector_byte(x86(r), value->wide ? kBlend64 : kBlend32, cpu_jit_hold(r, number), no, cpu_x86_register(yes),
                        mask << 4);
}

// HLO's conversion saturates, and converts NaN to 0; vcvttps2dq returns the smallest integer, 0x80000000, for
// everything that does not fit and for NaN. That is correct at the lower end; from 2^31 on (kPastMaximum, in both
// halves like all constants of 32 bits) "xor" with a mask of ones turns it into 0x7fffffff; and if x is not equal to
// itself the result is masked away. With mask registers, both are moves of some lanes.
static void emit_truncation(Registers *r, int32_t number, const CpuJitValue *value) {
    static const uint64_t kPastMaximum = 0x4f0000004f000000, kMaximum = 0x7fffffff7fffffff;
    const CpuX86Form compare = for_lanes(r, (CpuX86Form)FORM(kF3, 1, 0xc2));
    const int x = cpu_jit_in_register(r, value->operands[0]), whole = r->temporary, mask = whole + 1;
    cpu_x86_vector(x86(r), kTruncate, whole, 0, cpu_x86_register(x));
    if (has_masks(r)) {
        cpu_x86_vector_byte(x86(r), compare, kTemporaryMask, x, cpu_x86_constant(x86(r), kPastMaximum), kAtLeast);
        cpu_x86_masked(x86(r), kMove, whole, 0, cpu_x86_constant(x86(r), kMaximum), kTemporaryMask, false);
        cpu_x86_vector_byte(x86(r), compare, kTemporaryMask, x, cpu_x86_register(x), kOrdered);
        cpu_jit_release(r, value);
        cpu_x86_masked(x86(r), kMove, cpu_jit_hold(r, number), 0, cpu_x86_register(whole), kTemporaryMask, true);
        return;
    }
    cpu_x86_vector_byte(x86(r), compare, mask, x, cpu_x86_constant(x86(r), kPastMaximum), kAtLeast);
    cpu_x86_vector(x86(r), kXor, whole, whole, cpu_x86_register(mask));
    cpu_x86_vector_byte(x86(r), compare, mask, x, cpu_x86_register(x), kOrdered);
    cpu_jit_release(r, value);
    cpu_x86_vector(x86(r), kAnd, cpu_jit_hold(r, number), whole, cpu_x86_register(mask));
}

// Rotates, with AVX2 by two shifts, since it has no rotation; shifts by a constant encode the target register instead
// of the left operand.
static void emit_rotation(Registers *r, int32_t number, const CpuJitValue *value) {
    const CpuX86Operand x = cpu_x86_register(cpu_jit_in_register(r, value->operands[0]));
    const int left = r->temporary, right = left + 1;
    if (has_masks(r)) {
        cpu_jit_release(r, value);
        cpu_x86_vector_byte(x86(r), kRotateBy, kRotateLeft, cpu_jit_hold(r, number), x, (int)value->bits);
        return;
    }
    cpu_x86_vector_byte(x86(r), kShiftBy, kShiftLeft, left, x, (int)value->bits);
    cpu_x86_vector_byte(x86(r), kShiftBy, kShiftRight, right, x, 32 - (int)value->bits);
    cpu_jit_release(r, value);
    cpu_x86_vector(x86(r), kOr, cpu_jit_hold(r, number), left, cpu_x86_register(right));
}

// The same with mask registers, for which all but "not" of other values is one instruction with a constant at most.
static void emit_of_mask_register(Registers *r, int32_t number, const CpuJitValue *value) {
    static const uint64_t kOnes = 0x100000001;
    enum { kNotFirst = 0x55 };  // the table of a function of three bits
    const int x = cpu_jit_in_register(r, value->operands[0]);
    cpu_jit_release(r, value);
    const int to = cpu_jit_hold(r, number);
    if (value->op == CPU_VALUE_TO_BYTE)
        cpu_x86_masked(x86(r), kMove, to, 0, cpu_x86_constant(x86(r), kOnes), x - kMasks, true);
    else if (value->op == CPU_VALUE_TO_MASK)
        cpu_x86_vector(x86(r), kTestLanes, to - kMasks, x, cpu_x86_register(x));
    else if (value->is_mask)
        cpu_x86_mask(x86(r), CPU_X86_MASK_NOT, to - kMasks, 0, cpu_x86_register(x - kMasks));
    else
        cpu_x86_vector_byte(x86(r), kTernary, to, x, cpu_x86_register(x), kNotFirst);
}

// Operations on masks: not (xor with all ones, computed by comparing any register with itself), from a byte (0 - 1 is
// all ones), to a byte (the highest bit moved down to the lowest).
static void emit_of_mask(Registers *r, int32_t number, const CpuJitValue *value) {
    if (has_masks(r)) {
        emit_of_mask_register(r, number, value);
        return;
    }
    const int x = cpu_jit_in_register(r, value->operands[0]);
    cpu_jit_release(r, value);
    const int to = cpu_jit_hold(r, number);
    const CpuX86Operand temporary = cpu_x86_register(r->temporary);
    if (value->op == CPU_VALUE_TO_BYTE) {
        cpu_x86_vector_byte(x86(r), kShiftBy, kShiftRight, to, cpu_x86_register(x), 31);
    } else if (value->op == CPU_VALUE_TO_MASK) {
        cpu_x86_vector(x86(r), kXor, r->temporary, r->temporary, temporary);
        cpu_x86_vector(x86(r), kSubtract32, to, r->temporary, cpu_x86_register(x));
    } else {
        cpu_x86_vector(x86(r), kEqual32, r->temporary, r->temporary, temporary);
        cpu_x86_vector(x86(r), kXor, to, x, temporary);
    }
}

// Emits "and", "or" and "xor" of mask registers.
static void emit_mask_logic(Registers *r, int32_t number, const CpuJitValue *value) {
    const int left = in_mask(r, value->operands[0]), right = in_mask(r, value->operands[1]);
    cpu_jit_release(r, value);
    cpu_x86_mask(x86(r),
                 value->op == CPU_VALUE_AND  ? CPU_X86_MASK_AND
                 : value->op == CPU_VALUE_OR ? CPU_X86_MASK_OR
                                             : CPU_X86_MASK_XOR,
                 hold_mask(r, number), left, cpu_x86_register(right));
}

// Multiplies and adds. The result takes the place of an operand: of a factor that is not used again, or of the addend,
// else of a copy of the first factor.
static void emit_fused(Registers *r, int32_t number, const CpuJitValue *value) {
    static const CpuX86Form kOverFactor = FORM(k66, 2, 0xa8), kOverAddend = FORM(k66, 2, 0xb8);
    int32_t factor = value->operands[0], other = value->operands[1];
    const int32_t addend = value->operands[2];
    if (!cpu_jit_is_spent(r, value, factor) && cpu_jit_is_spent(r, value, other)) {
        factor = value->operands[1];
        other = value->operands[0];
    }
    const bool over_factor = cpu_jit_is_spent(r, value, factor),
               over_addend = !over_factor && cpu_jit_is_spent(r, value, addend);
    const int x = cpu_jit_in_register(r, factor);
    const CpuX86Operand y = over_addend ? as_operand(r, other) : cpu_x86_register(cpu_jit_in_register(r, other));
    const CpuX86Operand z = over_addend ? cpu_x86_register(cpu_jit_in_register(r, addend)) : as_operand(r, addend);
    if (over_addend) {
        cpu_jit_release(r, value);
        cpu_jit_replace(r, number, z.number);
        cpu_x86_vector(x86(r), kOverAddend, z.number, x, y);
    } else if (over_factor) {
        cpu_jit_release(r, value);
        cpu_jit_replace(r, number, x);
        cpu_x86_vector(x86(r), kOverFactor, x, y.number, z);
    } else {
        const int to = cpu_jit_hold(r, number);
        cpu_x86_vector(x86(r), kLoadVector, to, 0, cpu_x86_register(x));
        cpu_x86_vector(x86(r), kOverFactor, to, y.number, z);
        cpu_jit_release(r, value);
    }
}

static void emit_scale(Registers *r, int32_t number, const CpuJitValue *value) {
    const int mask = in_mask(r, value->operands[0]), x = cpu_jit_in_register(r, value->operands[1]);
    const CpuX86Operand power = as_operand(r, value->operands[2]);
    cpu_jit_release(r, value);
    cpu_x86_masked(x86(r), kScale, cpu_jit_hold(r, number), x, power, mask, true);
}

// e^x = power * 2^n, with n in the low bits of `shifted`, is one addition to the exponent if |x| < kExpMiddle. Other
// lanes, or NaN, are rare.
enum { kExponentBit = 23 };
static void emit_scale_exp(Registers *r, int32_t number, const CpuJitValue *value) {
    static const uint64_t kMagnitude = 0x7fffffff7fffffff;
    CpuX86 *x = x86(r);
    const int argument = cpu_jit_in_register(r, value->operands[0]), power = cpu_jit_in_register(r, value->operands[1]);
    const int shifted = cpu_jit_in_register(r, value->operands[2]), outside = r->temporary;
    const int to = cpu_jit_hold(r, number);  // not yet an operand's register, since rare lanes need all three
    cpu_x86_vector(x, kAnd, outside, argument, cpu_x86_constant(x, kMagnitude));
    cpu_x86_vector_byte(x, kCompareLanes, outside, outside, float_constant(x, kExpMiddle), kNotLess);
    cpu_x86_vector_byte(x, kShiftBy, kShiftLeft, to, cpu_x86_register(shifted), kExponentBit);
    cpu_x86_vector(x, kAdd32, to, to, cpu_x86_register(power));
    cpu_x86_vector(x, kTestSigns, outside, 0, cpu_x86_register(outside));
    CpuJitRare rare = {.to = to, .x = argument, .power = power, .shifted = shifted};
    rare.jump = cpu_x86_jump(x, CPU_X86_JUMP_UNLESS_ZERO);
    rare.back = x->bytes.count;
    hlo_vector_push(x->arena, &emitter_of(r)->rare, rare);
    cpu_jit_release(r, value);
}

// Emits what any_exp_v() in isa/loop_math_lanes.inc does after its polynomial: results may be subnormal, so that the
// scale is applied in two steps.
static void emit_rare(CpuX86 *x, const CpuJitRare *rare) {
    const int first = kFirstTemporary, second = first + 1;
    const CpuX86Operand one = float_constant(x, 1);
    cpu_x86_land(x, rare->jump, x->bytes.count);
    cpu_x86_vector_byte(x, kShiftBy, kShiftRight, first, cpu_x86_register(rare->shifted), 1);
    cpu_x86_vector_byte(x, kShiftBy, kShiftLeft, first, cpu_x86_register(first), kExponentBit);
    cpu_x86_vector_byte(x, kShiftBy, kShiftLeft, second, cpu_x86_register(rare->shifted), kExponentBit);
    cpu_x86_vector(x, kSubtract32, second, second, cpu_x86_register(first));
    cpu_x86_vector(x, kAdd32, first, first, one);
    cpu_x86_vector(x, kAdd32, second, second, one);
    cpu_x86_vector(x, kMultiplyLanes, first, rare->power, cpu_x86_register(first));
    cpu_x86_vector(x, kMultiplyLanes, first, first, cpu_x86_register(second));
    cpu_x86_vector_byte(x, kCompareLanes, second, rare->x, float_constant(x, kExpZeroBelow), kNotLess);
    cpu_x86_vector(x, kAnd, first, first, cpu_x86_register(second));
    cpu_x86_vector_byte(x, kCompareLanes, second, rare->x, float_constant(x, kExpLargest), kGreater);
    cpu_x86_vector_byte(x, kBlend32, rare->to, first, float_constant(x, INFINITY), second << 4);
    cpu_x86_land(x, cpu_x86_jump(x, CPU_X86_JUMP), rare->back);
}

static void emit_instruction(Registers *r, int32_t number, const CpuJitValue *value) {
    const Instruction *instruction = &kInstructions[value->op];
    const CpuX86Form form = for_lanes(r, value->wide ? instruction->wide : instruction->narrow);
    const bool self = instruction->how == kSelf || instruction->how == kSelfWithByte;
    assert(instruction->how);
    int left = 0;
    CpuX86Operand right;
    if (value->operands[1] >= 0) {
        left = cpu_jit_in_register(r, value->operands[0]);
        right = as_operand(r, value->operands[1]);
    } else {
        right = cpu_x86_register(cpu_jit_in_register(r, value->operands[0]));
        left = self && !is_vector(r) ? right.number : 0;
    }
    cpu_jit_release(r, value);
    const int to = cpu_jit_is_in_mask(r, number) ? hold_mask(r, number) : cpu_jit_hold(r, number);
    if (instruction->how == kWithByte || instruction->how == kSelfWithByte)
        cpu_x86_vector_byte(x86(r), form, to, left, right, instruction->immediate);
    else
        cpu_x86_vector(x86(r), form, to, left, right);
}

// ---- effects

// Packs lanes of at most 16 bits, which have zeros above them, into the first temporary register.
static void emit_packing(Registers *r, const CpuJitValue *value, int from) {
    const int packed = r->temporary, shifted = packed + 1, width = x86(r)->width;
    if (r->block->values.items[value->operands[0]].is_mask) {
        cpu_x86_vector_byte(x86(r), kShiftBy, kShiftRight, shifted, cpu_x86_register(from), 31);
        from = shifted;
    }
    cpu_x86_vector_byte(x86(r), kUpperHalf, from, 0, cpu_x86_register(packed), 1);
    x86(r)->width = 16;
    cpu_x86_vector(x86(r), kPackWords, packed, from, cpu_x86_register(packed));
    if (value->width == 1) cpu_x86_vector(x86(r), kPackBytes, packed, packed, cpu_x86_register(packed));
    x86(r)->width = width;
}

// Writes the lanes of a vector, or of a row's rest.
static void store_lanes(Registers *r, CpuX86Form form, int from, CpuX86Operand to) {
    const int rest = emitter_of(r)->rest;
    rest ? cpu_x86_masked(x86(r), form, from, 0, to, rest, false) : cpu_x86_vector(x86(r), form, from, 0, to);
}

// Writes masks as bytes of 0 and 1.
static void emit_mask_store(Registers *r, int mask, CpuX86Operand to) {
    static const uint64_t kOnes = 0x0101010101010101;
    const int width = x86(r)->width;
    x86(r)->width = width / 4;
    cpu_x86_masked(x86(r), kMoveBytes, r->temporary, 0, cpu_x86_constant(x86(r), kOnes), mask, true);
    store_lanes(r, emitter_of(r)->rest ? kStoreSomeBytes : kStoreVector, r->temporary, to);
    x86(r)->width = width;
}

// Writes lanes to a list.
static void emit_list_store(Registers *r, const CpuJitValue *value) {
    const CpuJitList *list = &r->lists[value->address.base];
    const CpuX86Operand to =
        cpu_x86_indexed((CpuX86General)list->address, value->width, (int32_t)value->address.offset);
    const int from = cpu_jit_in_register(r, value->operands[0]), width = x86(r)->width;
    if (value->width == 4) {
        assert(from < kMasks);
        store_lanes(r, kStoreVector, from, to);
    } else if (from >= kMasks) {
        assert(value->width == 1);
        emit_mask_store(r, from - kMasks, to);
    } else if (has_masks(r)) {
        store_lanes(r, value->width == 1 ? kStoreBytes : kStoreWords, from, to);
    } else {
        emit_packing(r, value, from);
        x86(r)->width = 16;
        cpu_x86_vector(x86(r), value->width == 1 ? kStoreQuarter : kStoreVector, r->temporary, 0, to);
        x86(r)->width = width;
    }
    cpu_jit_release(r, value);
}

// The order of the operands is that of the kernels of reductions.
static void emit_sum(Registers *r, const CpuJitValue *value) {
    static const CpuX86Form kAdd = FORM(kNoPrefix, 1, 0x58);
    const CpuJitOp op = (CpuJitOp)value->target;
    const int rest = emitter_of(r)->rest;
    if (op != CPU_VALUE_ADD_F && !has_masks(r)) {
        put_extreme(r, op, r->sum, r->sum, cpu_jit_in_register(r, value->operands[0]));
        cpu_jit_release(r, value);
        return;
    }
    CpuX86Operand right = as_operand(r, value->operands[0]);
    CpuX86Form form = kAdd;
    int left = r->sum;
    if (op != CPU_VALUE_ADD_F) {
        put_range(r, op, r->temporary, r->sum, right);
        form = kMove;
        left = 0;
        right = cpu_x86_register(r->temporary);
    }
    rest ? cpu_x86_masked(x86(r), form, r->sum, left, right, rest, false)
         : cpu_x86_vector(x86(r), form, r->sum, left, right);
    cpu_jit_release(r, value);
}

static void emit_store(Registers *r, const CpuJitValue *value) {
    const int32_t stored = value->operands[0];
    int from = cpu_jit_in_register(r, stored);
    const CpuX86Operand to = place_operand(r, &value->address);
    if (value->width > 1) {
        cpu_x86_vector(x86(r), value->width == 8 ? kStore64 : kStore32, from, 0, to);
    } else {
        if (r->block->values.items[stored].is_mask) {
            cpu_x86_vector_byte(x86(r), kShiftBy, kShiftRight, r->temporary, cpu_x86_register(from), 31);
            from = r->temporary;
        }
        cpu_x86_vector_byte(x86(r), kStoreByte, from, 0, to, 0);
    }
    cpu_jit_release(r, value);
}

static void emit_address(Registers *r, const CpuJitAddress *address, CpuX86General to) {
    if (address->base == CPU_JIT_CONSTANT) {
        cpu_x86_set(x86(r), to, (int64_t)(intptr_t)(address->constant + address->offset));
        return;
    }
    if (address->offset != (int32_t)address->offset) r->fits = false;
    const CpuX86General base = base_register(r, address, to);
    cpu_x86_general(x86(r), CPU_X86_ADDRESS, to, cpu_x86_memory(base, (int32_t)address->offset));
}

static void emit_function(Registers *r, intptr_t function) {
    cpu_x86_set(x86(r), CPU_X86_RAX, (int64_t)function);
    cpu_x86_bytes(x86(r), "\xff\xd0", 2);  // call rax
}

static void emit_call(Registers *r, const CpuJitCall *call) {
    static const CpuX86General arguments[CPU_SMALL_ADDRESSES] = {CPU_X86_RDI, CPU_X86_RSI, CPU_X86_RDX, CPU_X86_RCX};
    cpu_jit_clear_registers(r);
    for (int i = 0; i < CPU_SMALL_ADDRESSES; i++) emit_address(r, &call->addresses[i], arguments[i]);
    cpu_x86_set(x86(r), CPU_X86_R8, call->count);
    cpu_x86_set(x86(r), CPU_X86_R9, call->immediate);
    emit_function(r, (intptr_t)call->kernel);
}

static void store_moved(Registers *r, int32_t moved, CpuX86General from) {
    cpu_x86_general(x86(r), CPU_X86_STORE, from, cpu_x86_memory(CPU_X86_R13, moved * 8));
}

static void emit_locate(Registers *r, const CpuJitValue *value) {
    cpu_jit_clear_registers(r);
    cpu_x86_set(x86(r), CPU_X86_RDI, (int64_t)(intptr_t)value->buffer);
    cpu_x86_general(x86(r), CPU_X86_LOAD, CPU_X86_RSI, cpu_x86_register(CPU_X86_RBX));
    emit_function(r, (intptr_t)cpu_thunk_buffer_address);
    store_moved(r, value->target, CPU_X86_RAX);
}

// Computes rdx = the base's address + offset + the sum of strides times starts, each clamped to 0 and its limit.
static void emit_move(Registers *r, const CpuJitValue *value) {
    const CpuThunkBuffer *buffer = value->buffer;
    const CpuSlice slice = buffer->slice;
    if (slice.offset != (int32_t)slice.offset) r->fits = false;
    cpu_x86_general(x86(r), CPU_X86_LOAD, CPU_X86_RDX, cpu_x86_memory(CPU_X86_RBX, slice.base * 8));
    cpu_x86_general(x86(r), CPU_X86_ADDRESS, CPU_X86_RDX, cpu_x86_memory(CPU_X86_RDX, (int32_t)slice.offset));
    for (int i = 0; i < buffer->start_count; i++) {
        const CpuThunkStart *start = &buffer->starts[i];
        const CpuX86Operand rax = cpu_x86_register(CPU_X86_RAX), rcx = cpu_x86_register(CPU_X86_RCX);
        const int index = cpu_jit_in_register(r, value->operands[i]);
        cpu_x86_vector(x86(r), start->type == HLO_S64 ? kToGeneral64 : kToGeneral, index, 0, rax);
        if (start->type == HLO_S32) cpu_x86_general(x86(r), CPU_X86_EXTEND_32, CPU_X86_RAX, rax);
        cpu_x86_set(x86(r), CPU_X86_RCX, 0);
        cpu_x86_general(x86(r), CPU_X86_TEST, CPU_X86_RAX, rax);
        cpu_x86_general(x86(r), CPU_X86_MOVE_IF_SIGN, CPU_X86_RAX, rcx);  // where negative
        cpu_x86_set(x86(r), CPU_X86_RCX, start->limit);
        cpu_x86_general(x86(r), CPU_X86_COMPARE, CPU_X86_RAX, rcx);
        cpu_x86_general(x86(r), CPU_X86_MOVE_IF_GREATER, CPU_X86_RAX, rcx);  // where greater
        cpu_x86_general_immediate(x86(r), CPU_X86_MULTIPLY_IMMEDIATE, CPU_X86_RAX, rax, (int32_t)start->stride_bytes);
        cpu_x86_general(x86(r), CPU_X86_ADD, CPU_X86_RDX, rax);
    }
    store_moved(r, value->target, CPU_X86_RDX);
    cpu_jit_release(r, value);
}

static void jump_to_step(Registers *r, CpuX86Opcode opcode, int32_t step) {
    const CpuJitJump jump = {cpu_x86_jump(x86(r), opcode), step};
    hlo_vector_push(x86(r)->arena, &emitter_of(r)->jumps, jump);
}

static void emit_unless(Registers *r, const CpuJitValue *value) {
    const CpuX86Operand rax = cpu_x86_register(CPU_X86_RAX);
    cpu_x86_vector(x86(r), kToGeneral, cpu_jit_in_register(r, value->operands[0]), 0, rax);
    cpu_x86_general(x86(r), CPU_X86_TEST, CPU_X86_RAX, rax);
    jump_to_step(r, CPU_X86_JUMP_IF_ZERO, value->target);
    cpu_jit_release(r, value);
}

static void emit_leave(Registers *r, int32_t step) {
    cpu_x86_set(x86(r), CPU_X86_RAX, step);
    const int64_t jump = cpu_x86_jump(x86(r), CPU_X86_JUMP);
    hlo_vector_push(x86(r)->arena, &emitter_of(r)->leaving, jump);
}

// ---- blocks

// Emits values in the order of their numbers, which is the program's order, including effects: the only freedom left is
// the choice of registers. Constants have no code, as most are read from memory by their users.
static void emit_value(Registers *r, int32_t number, const CpuJitValue *value) {
    switch (value->op) {
        case CPU_VALUE_OF_CONSTANT: break;  // at its uses
        case CPU_VALUE_OF_MEMORY:
            if (cpu_jit_is_fixed(r, r->register_of[number])) break;
            is_vector(r) ? emit_list_load(r, number, value) : emit_load(r, number, value);
            break;
        case CPU_VALUE_MAXIMUM_F:
        case CPU_VALUE_MINIMUM_F:
            is_vector(r) ? emit_vector_minmax(r, number, value) : emit_minmax(r, number, value);
            break;
        case CPU_VALUE_SELECT: emit_select(r, number, value); break;
        case CPU_VALUE_F32_TO_S32: emit_truncation(r, number, value); break;
        case CPU_VALUE_FUSED_F: emit_fused(r, number, value); break;
        case CPU_VALUE_SCALE: emit_scale(r, number, value); break;
        case CPU_VALUE_SCALE_EXP: emit_scale_exp(r, number, value); break;
        case CPU_VALUE_ROTATE: emit_rotation(r, number, value); break;
        case CPU_VALUE_AND:
        case CPU_VALUE_OR:
        case CPU_VALUE_XOR:
            cpu_jit_is_in_mask(r, number) ? emit_mask_logic(r, number, value) : emit_instruction(r, number, value);
            break;
        case CPU_VALUE_NOT:
        case CPU_VALUE_TO_MASK:
        case CPU_VALUE_TO_BYTE: emit_of_mask(r, number, value); break;
        case CPU_EFFECT_SUM: emit_sum(r, value); break;
        case CPU_EFFECT_STORE: is_vector(r) ? emit_list_store(r, value) : emit_store(r, value); break;
        case CPU_EFFECT_CALL: emit_call(r, value->call); break;
        case CPU_EFFECT_MOVE: emit_move(r, value); break;
        case CPU_EFFECT_LOCATE: emit_locate(r, value); break;
        case CPU_EFFECT_UNLESS: emit_unless(r, value); break;
        case CPU_EFFECT_GO: jump_to_step(r, CPU_X86_JUMP, value->target); break;
        case CPU_EFFECT_LEAVE: emit_leave(r, value->target); break;
        default: emit_instruction(r, number, value); break;
    }
}

static void emit_values(Registers *r) {
    const CpuJitBlock *block = r->block;
    for (int32_t i = 0; i < (int32_t)block->values.count && r->fits; i++)
        if (block->values.items[i].needed) emit_value(r, i, &block->values.items[i]);
}

// Prepares a block whose registers are all empty.
static Registers open_block(CpuJitEmitter *emitter, CpuJitBlock *block, const CpuJitList *lists) {
    Registers r = cpu_jit_registers_new(block);
    r.code = emitter;
    r.lists = lists;
    r.spill = spill;
    r.load = load;
    r.slots = kFrameSlots * kSlotBytes / slot_bytes(&r);
    r.fixed = r.temporary = (has_masks(&r) ? kMasks : kMasks / 2) - kTemporaries;
    if (has_masks(&r)) r.first_mask = kFirstMask, r.end_mask = kLastMask;
    return r;
}

void cpu_jit_emit_block(CpuJitEmitter *emitter, CpuJitBlock *block) {
    Registers r = open_block(emitter, block, NULL);
    emit_values(&r);
    if (!r.fits) emitter->fits = false;
}

static CpuX86Operand stack_pointer(void) {
    return cpu_x86_register(CPU_X86_RSP);
}

void cpu_jit_emit_begin(CpuJitEmitter *emitter) {
    CpuX86 *x = &emitter->x86;
    cpu_x86_bytes(x, "\xf3\x0f\x1e\xfa", 4);              // endbr64: the code is called through a pointer
    cpu_x86_bytes(x, "\x53\x41\x54\x41\x55\x41\x56", 7);  // push rbx, r12, r13, r14
    cpu_x86_general_immediate(x, CPU_X86_IMMEDIATE, (CpuX86General)CPU_X86_BY_SUBTRACTING, stack_pointer(),
                              kFrameBytes);
    cpu_x86_general(x, CPU_X86_LOAD, CPU_X86_RBX, cpu_x86_register(CPU_X86_RDI));
    cpu_x86_general(x, CPU_X86_LOAD, CPU_X86_R12, cpu_x86_register(CPU_X86_RSI));
    cpu_x86_general(x, CPU_X86_LOAD, CPU_X86_R13, cpu_x86_register(CPU_X86_RDX));
    cpu_x86_general(x, CPU_X86_LOAD, CPU_X86_R14, cpu_x86_memory(CPU_X86_RDI, 0));
    cpu_x86_bytes(x, "\x3e\xff\xe1", 3);  // notrack jmp rcx: rcx is read-only, and blocks begin without endbr64
}

void cpu_jit_emit_end(CpuJitEmitter *emitter) {
    CpuX86 *x = &emitter->x86;
    for (int64_t i = 0; i < emitter->leaving.count; i++) cpu_x86_land(x, emitter->leaving.items[i], x->bytes.count);
    cpu_x86_general_immediate(x, CPU_X86_IMMEDIATE, (CpuX86General)CPU_X86_BY_ADDING, stack_pointer(), kFrameBytes);
    cpu_x86_bytes(x, "\x41\x5e\x41\x5d\x41\x5c\x5b\xc3", 8);  // pop r14, r13, r12, rbx; ret
    for (int64_t i = 0; i < emitter->rare.count; i++) emit_rare(x, &emitter->rare.items[i]);
    cpu_x86_finish(x);
}

// ---- vectors

// Loads or stores the registers of sums.
static void move_sums(Registers *r, CpuX86Form form, CpuX86General address, int first, int copies) {
    for (int i = 0; i < copies; i++)
        cpu_x86_vector(x86(r), form, first + i, 0, cpu_x86_memory(address, i * x86(r)->width));
}

// Emits the body of the loop: the values of one vector, or of as many as a sum has, each with a register of its own.
static void emit_iterations(Registers *r, const int32_t *first_use, int lanes, int copies) {
    enum { kMostCopies = 8 };
    CpuX86 *x = x86(r);
    const CpuX86Operand rsi = cpu_x86_register(CPU_X86_RSI);
    const size_t bytes = (size_t)r->block->values.count * sizeof *r->next_use;
    int64_t ends[kMostCopies];
    assert(copies <= kMostCopies);
    const int64_t top = x->bytes.count;
    for (int i = 0; i < copies; i++, r->sum++) {
        memcpy(r->next_use, first_use, bytes);
        emit_values(r);
        cpu_x86_general_immediate(x, CPU_X86_IMMEDIATE, (CpuX86General)CPU_X86_BY_ADDING, cpu_x86_register(CPU_X86_RAX),
                                  lanes);
        cpu_x86_general(x, CPU_X86_COMPARE, CPU_X86_RAX, rsi);
        if (i + 1 < copies) ends[i] = cpu_x86_jump(x, CPU_X86_JUMP_UNLESS_LESS);
    }
    cpu_x86_land(x, cpu_x86_jump(x, CPU_X86_JUMP_IF_LESS), top);
    for (int i = 0; i + 1 < copies; i++) cpu_x86_land(x, ends[i], x->bytes.count);
}

static void compare_with_end(CpuX86 *x) {
    cpu_x86_general(x, CPU_X86_COMPARE, CPU_X86_RAX, cpu_x86_register(CPU_X86_RSI));
}

// Emits the last vector of a row, of which only `count` lanes exist: the others are 0 and are not stored. The code
// before has not changed any register that it reads, since its values have all been released.
static void emit_rest(Registers *r, const int32_t *first_use, int count) {
    CpuX86 *x = x86(r);
    const uint64_t lanes = ((uint64_t)1 << count) - 1;
    memcpy(r->next_use, first_use, (size_t)r->block->values.count * sizeof *r->next_use);
    emitter_of(r)->rest = kRestMask;
    cpu_x86_mask(x, CPU_X86_MASK_LOAD, kRestMask, 0, cpu_x86_constant(x, lanes));
    emit_values(r);
    emitter_of(r)->rest = 0;
}

// Emits the loop of a block that takes `lanes` elements, after the values that all iterations have in common, and what
// is left of `row` elements after it. To leave that, the loop ends before the last position at which a vector fits.
static void emit_loop(Registers *r, int lanes, int copies, int64_t row) {
    enum { kLoopAlignment = 32 };
    CpuX86 *x = x86(r);
    const int32_t *first_use =
        hlo_arena_copy(r->block->arena, r->next_use, (size_t)r->block->values.count * sizeof *r->next_use);
    const int rest = (int)(row % lanes), first_sum = r->sum;
    const CpuX86Operand rsi = cpu_x86_register(CPU_X86_RSI);
    cpu_jit_load_invariants(r);
    int64_t skip = -1;  // a loop of several vectors before may have left no whole one
    if (rest) {
        cpu_x86_general_immediate(x, CPU_X86_IMMEDIATE, (CpuX86General)CPU_X86_BY_SUBTRACTING, rsi, lanes - 1);
        compare_with_end(x);
        skip = cpu_x86_jump(x, CPU_X86_JUMP_UNLESS_LESS);
    }
    while (x->bytes.count % kLoopAlignment) cpu_x86_bytes(x, "\x90", 1);
    emit_iterations(r, first_use, lanes, copies);
    if (!rest) return;
    cpu_x86_land(x, skip, x->bytes.count);
    cpu_x86_general_immediate(x, CPU_X86_IMMEDIATE, (CpuX86General)CPU_X86_BY_ADDING, rsi, lanes - 1);
    compare_with_end(x);
    const int64_t end = cpu_x86_jump(x, CPU_X86_JUMP_UNLESS_LESS);
    r->sum = first_sum + (int)(row / lanes) % copies;
    emit_rest(r, first_use, rest);
    cpu_x86_land(x, end, x->bytes.count);
}

// Emits the loop of the block that has several vectors, for as many elements as fill these: it ends after the last
// position at which they do, whatever the rest. Returns the jump that follows it where no elements are left.
static int64_t emit_wide_loop(CpuJitEmitter *emitter, CpuJitWide wide, const CpuJitList *lists, int lanes) {
    CpuX86 *x = &emitter->x86;
    const CpuX86Operand rsi = cpu_x86_register(CPU_X86_RSI);
    const int more = wide.vectors * lanes - 1;
    Registers r = open_block(emitter, wide.block, lists);
    cpu_x86_general_immediate(x, CPU_X86_IMMEDIATE, (CpuX86General)CPU_X86_BY_SUBTRACTING, rsi, more);
    compare_with_end(x);
    const int64_t skip = cpu_x86_jump(x, CPU_X86_JUMP_UNLESS_LESS);
    emit_loop(&r, wide.vectors * lanes, 1, 0);
    if (!r.fits) emitter->fits = false;
    cpu_x86_land(x, skip, x->bytes.count);
    cpu_x86_general_immediate(x, CPU_X86_IMMEDIATE, (CpuX86General)CPU_X86_BY_ADDING, rsi, more);
    compare_with_end(x);
    return cpu_x86_jump(x, CPU_X86_JUMP_UNLESS_LESS);
}

// Two vectors gain even if a few of their values are spilled, more only where all have registers, and not with AVX-512,
// whose operations are fewer (measured on Zen 4).
int cpu_jit_vectors_at_once(CpuJitBlock *block, const CpuJitList *lists, int lanes) {
    enum { kOverlapped = 24 };
    CpuJitEmitter emitter = {.x86 = {.width = lanes * 4, .is_extended = lanes == 16}};
    Registers r = open_block(&emitter, block, lists);
    if (cpu_jit_longest_path(&r) <= kOverlapped) return 1;
    if (lanes == 16) return 2;
    const int fitting = (r.fixed - 1) / (cpu_jit_count_registers(&r) + 1);
    return fitting < 2 ? 2 : fitting > CPU_JIT_VECTORS ? CPU_JIT_VECTORS : fitting;
}

// Emits the jump to `top` with the addresses of the next row, while there is one.
static void emit_next_row(CpuX86 *x, const CpuJitList *lists, int count, int64_t top) {
    const CpuX86Operand rows = cpu_x86_memory(CPU_X86_RDI, (2 * count + 1) * 8);
    assert(count < CPU_JIT_LISTS);  // rdi is none of the addresses
    cpu_x86_general_immediate(x, CPU_X86_IMMEDIATE, (CpuX86General)CPU_X86_BY_SUBTRACTING, rows, 1);
    const int64_t end = cpu_x86_jump(x, CPU_X86_JUMP_IF_ZERO);
    for (int i = 0; i < count; i++)
        cpu_x86_general(x, CPU_X86_ADD, (CpuX86General)lists[i].address,
                        cpu_x86_memory(CPU_X86_RDI, (count + 1 + i) * 8));
    cpu_x86_land(x, cpu_x86_jump(x, CPU_X86_JUMP), top);
    cpu_x86_land(x, end, x->bytes.count);
}

// The code runs the block for the lanes of each list at a time: rdi is the table of addresses, rsi the number of
// elements, rax the index of the first element.
void cpu_jit_emit_vectors(CpuJitEmitter *emitter, CpuJitBlock *block, CpuJitWide wide, CpuJitList *lists, int count,
                          int lanes, int64_t row) {
    static const CpuX86General kAddresses[CPU_JIT_LISTS] = {CPU_X86_RCX, CPU_X86_RDX, CPU_X86_R8,  CPU_X86_R9,
                                                            CPU_X86_R10, CPU_X86_R11, CPU_X86_RBX, CPU_X86_R12,
                                                            CPU_X86_R13, CPU_X86_R14, CPU_X86_RDI};
    CpuX86 *x = &emitter->x86;
    const CpuJitList *sum = NULL;
    assert(count > 0 && count <= CPU_JIT_LISTS);
    assert(lanes == 8 || lanes == 16);
    assert(row == 0 || row % lanes == 0 || (lanes == 16 && row > lanes));
    x->width = lanes * 4;
    x->is_extended = lanes == 16;
    cpu_x86_bytes(x, "\xf3\x0f\x1e\xfa", 4);              // endbr64
    cpu_x86_bytes(x, "\x53\x41\x54\x41\x55\x41\x56", 7);  // push rbx, r12, r13, r14
    cpu_x86_general_immediate(x, CPU_X86_IMMEDIATE, (CpuX86General)CPU_X86_BY_SUBTRACTING, stack_pointer(),
                              kFrameBytes);
    for (int i = 0; i < count; i++) {
        lists[i].address = kAddresses[i];
        cpu_x86_general(x, CPU_X86_LOAD, kAddresses[i], cpu_x86_memory(CPU_X86_RDI, i * 8));
        if (lists[i].sum) sum = &lists[i];
    }
    const int64_t top = x->bytes.count;
    if (sum) cpu_x86_general(x, CPU_X86_LOAD, CPU_X86_RAX, cpu_x86_memory(CPU_X86_RDI, count * 8));
    Registers r = open_block(emitter, block, lists);
    if (row % lanes) r.end_mask--;  // for the lanes of its rest
    const int copies = sum ? CPU_REDUCE_LANES / lanes : 1, first_sum = r.fixed - copies;
    if (sum) {
        r.sum = r.fixed = first_sum;
        move_sums(&r, kLoadVector, CPU_X86_RAX, first_sum, copies);
    }
    cpu_x86_set(x, CPU_X86_RAX, 0);
    const int64_t end = wide.vectors > 1 ? emit_wide_loop(emitter, wide, lists, lanes) : -1;
    emit_loop(&r, lanes, copies, row);
    if (end >= 0) cpu_x86_land(x, end, x->bytes.count);
    if (sum) move_sums(&r, kStoreVector, (CpuX86General)sum->address, first_sum, copies);
    if (row) emit_next_row(x, lists, count, top);
    cpu_x86_bytes(x, "\xc5\xf8\x77", 3);  // vzeroupper
    cpu_jit_emit_end(emitter);
    if (!r.fits) emitter->fits = false;
}
