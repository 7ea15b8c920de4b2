// SPDX-License-Identifier: Apache-2.0
// Instructions as bytes. This is a separate assembler because the code of a program (code.c) needs some forty
// instructions, all in one form, and is generated in microseconds while a program compiles: a library would be larger
// than all the code that needs it, and the name of an instruction here is its row in emit.c's table.
//
// Vector instructions are written in the VEX form with three bytes of prefix throughout, even if two would suffice, or
// all in the EVEX form of AVX-512: this never mixes with the older encodings, which costs cycles on some processors.
// Constants are in a pool after the code and are addressed relative to the instruction, so the code is
// position-independent; if a distance is not known yet (a constant's, a jump's), four bytes are reserved and filled in
// later.
#include "targets/cpu/jit/x86.h"

#include <assert.h>
#include <string.h>

static void put(CpuX86 *code, unsigned value) {
    hlo_vector_push(code->arena, &code->bytes, (uint8_t)value);
}

static void put_little_endian(CpuX86 *code, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) put(code, (unsigned)(value >> 8 * i & 0xff));
}

static void write_distance(CpuX86 *code, int64_t at, int64_t distance) {
    assert(distance == (int32_t)distance);
    for (int i = 0; i < 4; i++) code->bytes.items[at + i] = (uint8_t)((uint64_t)distance >> 8 * i);
}

void cpu_x86_bytes(CpuX86 *code, const char *bytes, int count) {
    for (int i = 0; i < count; i++) put(code, (unsigned char)bytes[i]);
}

CpuX86Operand cpu_x86_constant(CpuX86 *code, uint64_t bits) {
    int64_t number = 0;
    while (number < code->pool.count && code->pool.items[number] != bits) number++;
    if (number == code->pool.count) hlo_vector_push(code->arena, &code->pool, bits);
    return (CpuX86Operand){CPU_X86_POOL, (int)number, 0, 0};
}

// Writes the bytes that encode `reg` and the operand; `following` bytes of the instruction come after them. The first
// is ModRM:
//
//   bits 7-6   11 a register, 01 memory with an offset of 8 bits, 10 with one of 32, 00 (with 5 in the lowest bits)
//              memory relative to the next instruction by the following 32 bits
//   bits 5-3   the lower three bits of `reg`
//   bits 2-0   those of the operand's register
//
// The fourth bits of both registers are in the prefix, where is_high() puts the operand's.
static void put_operand(CpuX86 *code, int reg, CpuX86Operand operand, int following, bool is_vector) {
    const unsigned middle = (unsigned)(reg & 7) << 3, low = (unsigned)operand.number & 7;
    // EVEX multiplies an offset of 8 bits by a number that depends on the instruction.
    const bool near =
        operand.offset == 0 || (operand.offset >= -128 && operand.offset < 128 && !(is_vector && code->is_extended));
    switch (operand.kind) {
        case CPU_X86_REGISTER: put(code, 0xc0 | middle | low); break;
        case CPU_X86_MEMORY:
            put(code, (near ? 0x40 : 0x80) | middle | low);
            if (low == CPU_X86_RSP) put(code, 0x24);  // rsp and r12 require an index byte
            put_little_endian(code, (uint32_t)operand.offset, near ? 1 : 4);
            break;
        case CPU_X86_INDEXED:  // by a second byte: the scale's exponent, rax, the base
            assert(operand.scale == 1 || operand.scale == 2 || operand.scale == 4);
            put(code, (near ? 0x40 : 0x80) | middle | CPU_X86_RSP);
            put(code, (unsigned)(operand.scale / 2) << 6 | (unsigned)CPU_X86_RAX << 3 | low);
            put_little_endian(code, (uint32_t)operand.offset, near ? 1 : 4);
            break;
        case CPU_X86_POOL: {
            put(code, 0x05 | middle);
            const int64_t at = code->bytes.count;
            const CpuX86Fixup fixup = {at, at + 4 + following, operand.number};
            hlo_vector_push(code->arena, &code->fixups, fixup);
            put_little_endian(code, 0, 4);
            break;
        }
    }
}

static bool is_high(CpuX86Operand operand) {
    return operand.kind != CPU_X86_POOL && (operand.number & 8) != 0;
}

// Writes C4, then two bytes of prefix, in which registers are inverted (manuals call the fields R, X, B, mmmmm, W,
// vvvv, L and pp; X is not used here, L is 1 for 256 bits):
//
//   ~R ~X ~B m m m m m     ~R: not the fourth bit of `to`, ~B: not that of `right`, m: the opcode's map
//    W ~v ~v ~v ~v L p p   v: `left`, which is 1111 if there is none; p: the prefix
static void put_vex(CpuX86 *code, CpuX86Form form, int to, int left, CpuX86Operand right, bool is_long) {
    assert(to >= 0 && to < 16 && left >= 0 && left < 16);
    put(code, 0xc4);
    put(code, (to < 8 ? 0x80u : 0) | 0x40 | (is_high(right) ? 0 : 0x20u) | form.map);
    put(code, (unsigned)form.wide << 7 | (unsigned)(~left & 15) << 3 | (is_long ? 4u : 0) | form.prefix);
}

// Writes 62, then three bytes of prefix, with the same fields and
//
//   ~R ~X ~B ~Q 0 m m m    ~Q: not the fifth bit of `to`, ~X: not that of `right` if that is a register
//    W ~v ~v ~v ~v 1 p p
//    z  L  L  b ~V k k k   z: other lanes become 0, L: 0, 1 or 2 for 128, 256 or 512 bits, ~V: not the fifth bit of
//                          `left`, k: the mask; b is not used here
static void put_evex(CpuX86 *code, CpuX86Form form, int to, int left, CpuX86Operand right, int mask, bool clears) {
    const bool fifth = right.kind == CPU_X86_REGISTER && right.number >= 16;
    assert(to >= 0 && to < 32 && left >= 0 && left < 32 && mask >= 0 && mask < 8);
    put(code, 0x62);
    put(code,
        (to & 8 ? 0 : 0x80u) | (fifth ? 0 : 0x40u) | (is_high(right) ? 0 : 0x20u) | (to & 16 ? 0 : 0x10u) | form.map);
    put(code, (unsigned)form.wide << 7 | (unsigned)(~left & 15) << 3 | 4u | form.prefix);
    put(code, (clears ? 0x80u : 0) | (unsigned)(code->width / 32) << 5 | (left & 16 ? 0 : 8u) | (unsigned)mask);
}

static void put_vector(CpuX86 *code, CpuX86Form form, int to, int left, CpuX86Operand right, int following) {
    if (code->is_extended)
        put_evex(code, form, to, left, right, 0, false);
    else
        put_vex(code, form, to, left, right, code->width == 32);
    put(code, form.opcode);
    put_operand(code, to, right, following, true);
}

void cpu_x86_vector(CpuX86 *code, CpuX86Form form, int to, int left, CpuX86Operand right) {
    put_vector(code, form, to, left, right, 0);
}

void cpu_x86_vector_byte(CpuX86 *code, CpuX86Form form, int to, int left, CpuX86Operand right, int immediate) {
    put_vector(code, form, to, left, right, 1);
    put(code, (unsigned)immediate & 0xff);
}

void cpu_x86_masked(CpuX86 *code, CpuX86Form form, int to, int left, CpuX86Operand right, int mask, bool clears) {
    assert(code->is_extended && mask > 0);
    put_evex(code, form, to, left, right, mask, clears);
    put(code, form.opcode);
    put_operand(code, to, right, 0, true);
}

// In the VEX form; L is 1 if there are three operands.
void cpu_x86_mask(CpuX86 *code, CpuX86MaskOpcode opcode, int to, int left, CpuX86Operand right) {
    const bool has_left = opcode != CPU_X86_MASK_NOT && opcode != CPU_X86_MASK_LOAD && opcode != CPU_X86_MASK_STORE;
    put_vex(code, (CpuX86Form){0, 1, 0, (uint8_t)opcode}, to, left, right, has_left);
    put(code, (unsigned)opcode);
    put_operand(code, to, right, 0, false);
}

// The prefix REX.W extends 32 bits to 64; its bits 2 and 0 are the fourth bits of the registers.
void cpu_x86_general(CpuX86 *code, CpuX86Opcode opcode, CpuX86General to, CpuX86Operand from) {
    put(code, 0x48 | (to >= 8 ? 4u : 0) | (is_high(from) ? 1u : 0));
    if (opcode >= 0x0f00) put(code, 0x0f);
    put(code, (unsigned)opcode & 0xff);
    put_operand(code, (int)to, from, 0, false);
}

void cpu_x86_general_immediate(CpuX86 *code, CpuX86Opcode opcode, CpuX86General to, CpuX86Operand from,
                               int32_t immediate) {
    assert(from.kind != CPU_X86_POOL);
    cpu_x86_general(code, opcode, to, from);
    put_little_endian(code, (uint32_t)immediate, 4);
}

// Writes mov with an immediate of 32 bits, which is sign-extended, or of 64.
void cpu_x86_set(CpuX86 *code, CpuX86General to, int64_t value) {
    const bool small = value == (int32_t)value;
    put(code, 0x48 | (to >= 8 ? 1u : 0));
    if (small) put(code, 0xc7);
    put(code, (small ? 0xc0u : 0xb8u) | ((unsigned)to & 7));
    put_little_endian(code, (uint64_t)value, small ? 4 : 8);
}

int64_t cpu_x86_jump(CpuX86 *code, CpuX86Opcode opcode) {
    if (opcode >= 0x0f00) put(code, 0x0f);
    put(code, (unsigned)opcode & 0xff);
    put_little_endian(code, 0, 4);
    return code->bytes.count - 4;
}

void cpu_x86_land(CpuX86 *code, int64_t jump, int64_t address) {
    write_distance(code, jump, address - (jump + 4));
}

// The pool begins at a multiple of a register's width; 0xcc (int3) fills the gap, which is never executed.
void cpu_x86_finish(CpuX86 *code) {
    const int width = code->width;
    while (code->bytes.count % width) put(code, 0xcc);
    const int64_t pool = code->bytes.count;
    for (int64_t i = 0; i < code->pool.count; i++)
        for (int at = 0; at < width; at += 8) put_little_endian(code, code->pool.items[i], 8);
    for (int64_t i = 0; i < code->fixups.count; i++) {
        const CpuX86Fixup *fixup = &code->fixups.items[i];
        write_distance(code, fixup->at, pool + width * fixup->number - fixup->after);
    }
}
