// SPDX-License-Identifier: Apache-2.0
// Vectors in NEON's registers. All encodings are those of Arm's manual (DDI 0487, C7); all vector instructions have the
// arrangement 4S, or 16B where bits are meant. Results have the bits of the compiled kernels, as in emit.c.
#include "targets/cpu/jit/neon.h"

#include <assert.h>

// x0 is the table of addresses, x1 the number of elements. The lists' addresses are in x2 to x12.
enum { kTable = 0, kCount = 1, kFirstAddress = 2, kStackPointer = 31 };
// The position: elements, and the same in units of 2 and of 4 bytes.
enum { kElements = 13, kHalves = 14, kWords = 15 };
// v29 to v31 are used within one operation.
enum { kTemporary = 29 };
// The frame: the lower halves of v8 to v15, which belong to the caller, and the spilled vectors.
enum { kSavedBytes = 64, kVectorBytes = 16, kSlots = 128, kFrameBytes = kSavedBytes + kSlots * kVectorBytes };
_Static_assert(kFrameBytes < 4096 && kFrameBytes % 16 == 0, "one instruction allocates it, aligned as calls require");
_Static_assert((int)kSlots <= (int)CPU_JIT_SLOTS, "allocation keeps track of them");

typedef CpuJitRegisters Registers;

// Instructions of two or three vector registers.
enum {
    kMove = 0x4ea01c00,  // orr of a register and itself
    kAnd = 0x4e201c00,
    kNot = 0x6e205800,
    kSelect = 0x6e601c00,        // bsl: the target is the mask
    kInsertUnless = 0x6ee01c00,  // bif: the first operand where the second has zeros
    kEqualF = 0x4e20e400,
    kGreaterF = 0x6ea0e400,
    kAtLeastF = 0x6e20e400,
    kMaximumF = 0x4e20f400,
    kMinimumF = 0x4ea0f400,
    kTest = 0x4ea08c00,  // cmtst
    kNegate = 0x6ea0b800,
    kMinimumU = 0x6ea06c00,
    kShift = 0x6ea04400,        // ushl: left, right by a negative number
    kShiftSigned = 0x4ea04400,  // sshl
    kToInteger = 0x4ea1b800,
    kExtendBytes = 0x2f08a400,  // ushll to 16 bits
    kExtendHalves = 0x2f10a400,
    kNarrowWords = 0x0e612800,  // xtn
    kNarrowHalves = 0x0e212800,
};
// Shifts by a constant, without it.
enum { kShiftLeftBy = 0x4f005400, kShiftRightBy = 0x6f000400, kShiftRightInsertBy = 0x6f004400 };
enum { kAllWords32 = 0x4f010400, kAllWords31 = 0x4f0007e0 };  // movi of 32 and 31

// The instruction of a value that is one: with its operands as they are, exchanged, or inverted after that. Operations
// that only functions use (functions.c) are missing, since those are generated with AVX-512 alone.
typedef struct Instruction {
    enum { kNone, kUnary, kBinary, kSwapped, kInverted } how;
    uint32_t code;
} Instruction;
static const Instruction kInstructions[CPU_JIT_OP_COUNT] = {
    [CPU_VALUE_ADD_F] = {kBinary, 0x4e20d400},
    [CPU_VALUE_SUBTRACT_F] = {kBinary, 0x4ea0d400},
    [CPU_VALUE_MULTIPLY_F] = {kBinary, 0x6e20dc00},
    [CPU_VALUE_DIVIDE_F] = {kBinary, 0x6e20fc00},
    [CPU_VALUE_SQRT_F] = {kUnary, 0x6ea1f800},
    [CPU_VALUE_FLOOR_F] = {kUnary, 0x4e219800},
    [CPU_VALUE_CEIL_F] = {kUnary, 0x4ea18800},
    [CPU_VALUE_ROUND_EVEN_F] = {kUnary, 0x4e218800},
    [CPU_VALUE_TRUNCATE_F] = {kUnary, 0x4ea19800},
    [CPU_VALUE_EQ_F] = {kBinary, kEqualF},
    [CPU_VALUE_NE_F] = {kInverted, kEqualF},
    [CPU_VALUE_LT_F] = {kSwapped, kGreaterF},
    [CPU_VALUE_LE_F] = {kSwapped, kAtLeastF},
    [CPU_VALUE_GT_F] = {kBinary, kGreaterF},
    [CPU_VALUE_GE_F] = {kBinary, kAtLeastF},
    [CPU_VALUE_ADD] = {kBinary, 0x4ea08400},
    [CPU_VALUE_SUBTRACT] = {kBinary, 0x6ea08400},
    [CPU_VALUE_MULTIPLY] = {kBinary, 0x4ea09c00},
    [CPU_VALUE_ABS] = {kUnary, 0x4ea0b800},
    [CPU_VALUE_MAXIMUM_S] = {kBinary, 0x4ea06400},
    [CPU_VALUE_MINIMUM_S] = {kBinary, 0x4ea06c00},
    [CPU_VALUE_MAXIMUM_U] = {kBinary, 0x6ea06400},
    [CPU_VALUE_MINIMUM_U] = {kBinary, kMinimumU},
    [CPU_VALUE_EQ] = {kBinary, 0x6ea08c00},
    [CPU_VALUE_GT_S] = {kBinary, 0x4ea03400},
    [CPU_VALUE_AND] = {kBinary, kAnd},
    [CPU_VALUE_OR] = {kBinary, kMove},
    [CPU_VALUE_XOR] = {kBinary, 0x6e201c00},
    [CPU_VALUE_NOT] = {kUnary, kNot},
    [CPU_VALUE_S32_TO_F32] = {kUnary, 0x4e21d800},
    [CPU_VALUE_F32_TO_S32] = {kUnary, kToInteger},  // saturates, and NaN is 0, as in HLO
};

static CpuNeonCode *code_of(const Registers *r) {
    return r->code;
}

// ---- instructions

static void put(CpuNeonCode *code, uint32_t word) {
    hlo_vector_push(code->arena, &code->words, word);
}

static uint32_t field(int number, int at) {
    return (uint32_t)number << at;
}

static void put_binary(const Registers *r, uint32_t instruction, int to, int left, int right) {
    put(code_of(r), instruction | field(right, 16) | field(left, 5) | field(to, 0));
}

static void put_unary(const Registers *r, uint32_t instruction, int to, int from) {
    put_binary(r, instruction, to, from, 0);
}

static void move(const Registers *r, int to, int from) {
    if (to != from) put_binary(r, kMove, to, from, from);
}

// Shifts lanes by 1 to 31 bits: those to the left encode 32 + bits, those to the right 64 - bits.
static void shift_left_by(const Registers *r, int to, int from, int bits) {
    put_binary(r, kShiftLeftBy, to, from, 32 + bits);
}
static void shift_right_by(const Registers *r, uint32_t instruction, int to, int from, int bits) {
    put_binary(r, instruction, to, from, 64 - bits);
}

// By the bytes of an element: instructions that load or store one for each lane, and the register with the position.
static const uint32_t kLoadAtStart[] = {[1] = 0xbd400000, [2] = 0xfd400000};
static const uint32_t kIndexedLoad[] = {[1] = 0xbc606800, [2] = 0xfc606800, [4] = 0x3ce06800};
static const uint32_t kIndexedStore[] = {[1] = 0xbc206800, [2] = 0xfc206800, [4] = 0x3ca06800};
static const int kIndices[] = {[1] = kElements, [2] = kHalves, [4] = kWords};

// Loads or stores of a vector register, at a general register plus a constant, which is in units of the accessed bytes,
// or plus another general register.
enum { kLoad = 0x3dc00000, kStore = 0x3d800000 };
static void put_access(CpuNeonCode *code, uint32_t instruction, int reg, int base, int units) {
    put(code, instruction | field(units, 10) | field(base, 5) | field(reg, 0));
}
static void put_indexed(CpuNeonCode *code, uint32_t instruction, int reg, int base, int index) {
    put(code, instruction | field(index, 16) | field(base, 5) | field(reg, 0));
}

static int slot_units(const Registers *r, int32_t value) {
    return kSavedBytes / kVectorBytes + r->slot_of[value];
}

static void spill(Registers *r, int32_t value, int reg) {
    put_access(code_of(r), kStore, reg, kStackPointer, slot_units(r, value));
}

// Loads the next elements of a list, or one element for all, into lanes of 32 bits; narrower elements get zeros above
// their bits. A list of one element that is narrow repeats it in memory.
static void load_list(Registers *r, const CpuJitValue *value, int to) {
    enum { kLoadForAll = 0x4d40c800 };
    const CpuJitList *list = &r->lists[value->address.base];
    if (list->one && value->width == 4)
        put(code_of(r), kLoadForAll | field(list->address, 5) | field(to, 0));
    else if (list->one)
        put_access(code_of(r), kLoadAtStart[value->width], to, list->address, 0);
    else
        put_indexed(code_of(r), kIndexedLoad[value->width], to, list->address, kIndices[value->width]);
    if (value->width == 1) put_unary(r, kExtendBytes, to, to);
    if (value->width < 4) put_unary(r, kExtendHalves, to, to);
}

// Writes the four bytes of a constant in general register 16, and repeats them.
static void load_constant(const Registers *r, uint32_t bits, int to) {
    enum { kScratch = 16, kSetLower = 0x52800000, kSetUpper = 0x72a00000, kRepeat = 0x4e040c00, kZero = 0x4f000400 };
    if (bits == 0) {
        put(code_of(r), kZero | field(to, 0));
        return;
    }
    put(code_of(r), kSetLower | (bits & 0xffff) << 5 | kScratch);
    if (bits >> 16) put(code_of(r), kSetUpper | (bits >> 16) << 5 | kScratch);
    put(code_of(r), kRepeat | field(kScratch, 5) | field(to, 0));
}

static void load(Registers *r, int32_t number, int reg) {
    const CpuJitValue *value = &r->block->values.items[number];
    if (cpu_jit_is_constant(r, number))
        load_constant(r, (uint32_t)value->bits, reg);
    else if (r->slot_of[number] >= 0)
        put_access(code_of(r), kLoad, reg, kStackPointer, slot_units(r, number));
    else
        load_list(r, value, reg);
}

// ---- values

static int operand(Registers *r, const CpuJitValue *value, int k) {
    return cpu_jit_in_register(r, value->operands[k]);
}

// The instruction writes to the register of the mask, which is copied if something else reads it.
static void emit_select(Registers *r, int32_t number, const CpuJitValue *value) {
    const int mask = operand(r, value, 0), yes = operand(r, value, 1), no = operand(r, value, 2);
    int to = mask;
    if (cpu_jit_is_spent(r, value, value->operands[0])) {
        cpu_jit_release(r, value);
        cpu_jit_replace(r, number, to);
    } else {
        to = cpu_jit_hold(r, number);
        move(r, to, mask);
        cpu_jit_release(r, value);
    }
    put_binary(r, kSelect, to, yes, no);
}

// Whether the operand is a constant number.
static bool is_number(const Registers *r, int32_t operand) {
    return cpu_jit_is_constant(r, operand) && (r->block->values.items[operand].bits & 0x7fffffff) <= 0x7f800000;
}

// The processor orders zeros by their signs, and NaN wins, but a signalling one becomes quiet: it stays as it is here,
// and the first one if both are, as in the kernels.
static void emit_minmax(Registers *r, int32_t number, const CpuJitValue *value) {
    const int x = operand(r, value, 0), y = operand(r, value, 1), result = kTemporary, ordered = kTemporary + 1;
    put_binary(r, value->op == CPU_VALUE_MAXIMUM_F ? kMaximumF : kMinimumF, result, x, y);
    for (int k = 2; k-- > 0;) {
        const int from = k ? y : x;
        if (is_number(r, value->operands[k])) continue;
        put_binary(r, kEqualF, ordered, from, from);
        put_binary(r, kInsertUnless, result, from, ordered);
    }
    cpu_jit_release(r, value);
    move(r, cpu_jit_hold(r, number), result);
}

// HLO's shifts by the lane's width and more return 0, or copies of the sign. The processor reads the lowest byte of the
// distance, as a signed number, so the distance is limited first.
static void emit_shift(Registers *r, int32_t number, const CpuJitValue *value) {
    const bool arithmetic = value->op == CPU_VALUE_SHIFT_RIGHT_ARITHMETIC;
    const int x = operand(r, value, 0), by = operand(r, value, 1), distance = kTemporary;
    put(code_of(r), (arithmetic ? kAllWords31 : kAllWords32) | field(distance, 0));
    put_binary(r, kMinimumU, distance, distance, by);
    if (value->op != CPU_VALUE_SHIFT_LEFT) put_unary(r, kNegate, distance, distance);
    cpu_jit_release(r, value);
    put_binary(r, arithmetic ? kShiftSigned : kShift, cpu_jit_hold(r, number), x, distance);
}

static void emit_rotation(Registers *r, int32_t number, const CpuJitValue *value) {
    const int x = operand(r, value, 0), result = kTemporary, bits = (int)value->bits;
    shift_left_by(r, result, x, bits);
    shift_right_by(r, kShiftRightInsertBy, result, x, 32 - bits);
    cpu_jit_release(r, value);
    move(r, cpu_jit_hold(r, number), result);
}

// Of a predicate: from a byte, and to one.
static void emit_of_mask(Registers *r, int32_t number, const CpuJitValue *value) {
    const int x = operand(r, value, 0);
    cpu_jit_release(r, value);
    const int to = cpu_jit_hold(r, number);
    if (value->op == CPU_VALUE_TO_MASK)
        put_binary(r, kTest, to, x, x);
    else
        shift_right_by(r, kShiftRightBy, to, x, 31);
}

static void emit_instruction(Registers *r, int32_t number, const CpuJitValue *value) {
    const Instruction *is = &kInstructions[value->op];
    assert(is->how != kNone && !value->wide);
    const bool swapped = is->how == kSwapped;
    const int x = operand(r, value, 0), y = is->how == kUnary ? 0 : operand(r, value, 1);
    cpu_jit_release(r, value);
    const int to = cpu_jit_hold(r, number);
    put_binary(r, is->code, to, swapped ? y : x, swapped ? x : y);
    if (is->how == kInverted) put_unary(r, kNot, to, to);
}

// Writes lanes to a list, narrow ones and the bytes of predicates by their lowest bits.
static void emit_store(Registers *r, const CpuJitValue *value) {
    const CpuJitList *list = &r->lists[value->address.base];
    const int narrow = kTemporary;
    int from = operand(r, value, 0);
    if (value->width < 4) {
        if (r->block->values.items[value->operands[0]].is_mask) {
            shift_right_by(r, kShiftRightBy, narrow, from, 31);
            from = narrow;
        }
        put_unary(r, kNarrowWords, narrow, from);
        if (value->width == 1) put_unary(r, kNarrowHalves, narrow, narrow);
        from = narrow;
    }
    put_indexed(code_of(r), kIndexedStore[value->width], from, list->address, kIndices[value->width]);
    cpu_jit_release(r, value);
}

static void emit_value(Registers *r, int32_t number, const CpuJitValue *value) {
    switch (value->op) {
        case CPU_VALUE_OF_CONSTANT: break;  // at its uses
        case CPU_VALUE_OF_MEMORY:
            if (!cpu_jit_is_fixed(r, r->register_of[number])) load_list(r, value, cpu_jit_hold(r, number));
            break;
        case CPU_VALUE_SELECT: emit_select(r, number, value); break;
        case CPU_VALUE_MAXIMUM_F:
        case CPU_VALUE_MINIMUM_F: emit_minmax(r, number, value); break;
        case CPU_VALUE_SHIFT_LEFT:
        case CPU_VALUE_SHIFT_RIGHT_LOGICAL:
        case CPU_VALUE_SHIFT_RIGHT_ARITHMETIC: emit_shift(r, number, value); break;
        case CPU_VALUE_ROTATE: emit_rotation(r, number, value); break;
        case CPU_VALUE_TO_MASK:
        case CPU_VALUE_TO_BYTE: emit_of_mask(r, number, value); break;
        case CPU_EFFECT_STORE: emit_store(r, value); break;
        default: emit_instruction(r, number, value); break;
    }
}

// ---- functions

// Saves or loads the registers that belong to the caller.
static void move_saved(CpuNeonCode *code, uint32_t instruction) {
    for (int pair = 0; pair < 4; pair++)
        put(code, instruction | field(2 * pair, 15) | field(9 + 2 * pair, 10) | field(kStackPointer, 5) |
                      field(8 + 2 * pair, 0));
}

// Writes to = from + value, or the difference.
static const uint32_t kAdd = 0x91000000, kSubtract = 0xd1000000;
static void put_sum(CpuNeonCode *code, uint32_t instruction, int to, int from, int value) {
    put(code, instruction | field(value, 10) | field(from, 5) | field(to, 0));
}

// Writes the end of the loop: the next position, and the jump to `top`.
static void put_loop_end(CpuNeonCode *code, int64_t top) {
    static const uint32_t kCompare = 0xeb00001f;
    enum { kJumpIfLess = 0x5400000b, kDistanceBits = 19 };
    put_sum(code, kAdd, kElements, kElements, CPU_JIT_NEON_LANES);
    put_sum(code, kAdd, kHalves, kHalves, CPU_JIT_NEON_LANES * 2);
    put_sum(code, kAdd, kWords, kWords, CPU_JIT_NEON_LANES * 4);
    put(code, kCompare | field(kCount, 16) | field(kElements, 5));
    const int64_t distance = top - code->words.count;
    if (distance < -(1 << (kDistanceBits - 1))) code->fits = false;
    put(code, kJumpIfLess | ((uint32_t)distance & ((1u << kDistanceBits) - 1)) << 5);
}

void cpu_jit_emit_neon(CpuNeonCode *code, CpuJitBlock *block, CpuJitList *lists, int count) {
    static const uint32_t kLandingPad = 0xd503245f, kLoadAddress = 0xf9400000, kSetZero = 0xd2800000,
                          kReturn = 0xd65f03c0;
    enum { kSavePair = 0x6d000000, kLoadPair = 0x6d400000 };
    assert(count > 0 && count <= CPU_JIT_LISTS);
    put(code, kLandingPad);  // bti c: the code is called through a pointer
    put_sum(code, kSubtract, kStackPointer, kStackPointer, kFrameBytes);
    move_saved(code, kSavePair);
    for (int i = 0; i < count; i++) {
        assert(!lists[i].sum);
        lists[i].address = kFirstAddress + i;
        put_access(code, kLoadAddress, lists[i].address, kTable, i);
    }
    for (int reg = kElements; reg <= kWords; reg++) put(code, kSetZero | field(reg, 0));
    Registers r = cpu_jit_registers_new(block);
    r.lists = lists;
    r.code = code;
    r.spill = spill;
    r.load = load;
    r.slots = kSlots;
    r.fixed = r.temporary = kTemporary;
    cpu_jit_load_invariants(&r);
    const int64_t top = code->words.count;
    for (int32_t i = 0; i < (int32_t)block->values.count && r.fits; i++)
        if (block->values.items[i].needed) emit_value(&r, i, &block->values.items[i]);
    put_loop_end(code, top);
    move_saved(code, kLoadPair);
    put_sum(code, kAdd, kStackPointer, kStackPointer, kFrameBytes);
    put(code, kReturn);
    if (!r.fits) code->fits = false;
}
