// SPDX-License-Identifier: Apache-2.0
// Machine code for x86-64 with AVX2 or AVX-512: the instructions that emit.c needs, written to a growing array of
// bytes. It can be written on any machine but run only on one that has them.
#ifndef MESHLO_TARGETS_CPU_JIT_X86_H_
#define MESHLO_TARGETS_CPU_JIT_X86_H_

#include "hlo/base/memory.h"
#include "hlo/base/vector.h"

HLO_BEGIN_C

// Numbers of the general registers, as encoded in instructions.
typedef enum CpuX86General {
    CPU_X86_RAX,
    CPU_X86_RCX,
    CPU_X86_RDX,
    CPU_X86_RBX,
    CPU_X86_RSP,
    CPU_X86_RBP,
    CPU_X86_RSI,
    CPU_X86_RDI,
    CPU_X86_R8,
    CPU_X86_R9,
    CPU_X86_R10,
    CPU_X86_R11,
    CPU_X86_R12,
    CPU_X86_R13,
    CPU_X86_R14,
    CPU_X86_R15,
} CpuX86General;

// The last operand of an instruction: a register, memory addressed by a general register, the same plus rax times 1, 2
// or 4, or a constant of the pool, which follows the code.
typedef struct CpuX86Operand {
    enum { CPU_X86_REGISTER, CPU_X86_MEMORY, CPU_X86_INDEXED, CPU_X86_POOL } kind;
    int number;  // of the register, of the general register, of the constant
    int32_t offset;
    int scale;  // of CPU_X86_INDEXED: what rax is multiplied by
} CpuX86Operand;

// A vector instruction without its operands: the prefix (0 none, 1: 66, 2: F3, 3: F2), the opcode's map (1: 0F, 2:
// 0F38, 3: 0F3A), W and the opcode, which VEX and EVEX have in common. vaddss, in the manuals VEX.LIG.F3.0F.WIG 58, is
// {2, 1, 0, 0x58}.
typedef struct CpuX86Form {
    uint8_t prefix, map, wide, opcode;
} CpuX86Form;

// The position at which the distance of a constant must be written.
typedef struct CpuX86Fixup {
    int64_t at, after;  // of the four bytes; of the next instruction
    int number;
} CpuX86Fixup;

typedef struct CpuX86 {
    HloArena *arena;
    HLO_VECTOR(uint8_t) bytes;
    HLO_VECTOR(uint64_t) pool;  // each is stored as often as fills a register
    HLO_VECTOR(CpuX86Fixup) fixups;
    int width;         // bytes of the registers of vector instructions: 32 or 64, and 16 for anything else
    bool is_extended;  // vector instructions have the form of AVX-512: 32 registers, masks, comparisons into masks
} CpuX86;

static inline CpuX86Operand cpu_x86_register(int number) {
    return (CpuX86Operand){CPU_X86_REGISTER, number, 0, 0};
}
static inline CpuX86Operand cpu_x86_memory(CpuX86General base, int32_t offset) {
    return (CpuX86Operand){CPU_X86_MEMORY, (int)base, offset, 0};
}
static inline CpuX86Operand cpu_x86_indexed(CpuX86General base, int scale, int32_t offset) {
    return (CpuX86Operand){CPU_X86_INDEXED, (int)base, offset, scale};
}

// Returns the operand for a constant of 64 bits, or of 32 in its lower half.
CpuX86Operand cpu_x86_constant(CpuX86 *code, uint64_t bits);

// Writes INSTRUCTION to, left, right over registers of `width`; forms with two operands have `left` 0, and a
// store's register is `to`.
void cpu_x86_vector(CpuX86 *code, CpuX86Form form, int to, int left, CpuX86Operand right);
// Does the same with a trailing immediate byte: the kind of comparison, the number of bits, the rounding mode.
void cpu_x86_vector_byte(CpuX86 *code, CpuX86Form form, int to, int left, CpuX86Operand right, int immediate);

// With AVX-512: writes only the lanes of the mask register `mask` (1 to 7); `clears` sets the others to 0.
void cpu_x86_masked(CpuX86 *code, CpuX86Form form, int to, int left, CpuX86Operand right, int mask, bool clears);

// Instructions of mask registers: TO, LEFT, RIGHT, and 0 for LEFT in those of two operands.
typedef enum CpuX86MaskOpcode {
    CPU_X86_MASK_AND = 0x41,
    CPU_X86_MASK_AND_NOT = 0x42,  // not LEFT, and RIGHT
    CPU_X86_MASK_NOT = 0x44,
    CPU_X86_MASK_OR = 0x45,
    CPU_X86_MASK_XOR = 0x47,
    CPU_X86_MASK_LOAD = 0x90,   // also from a register
    CPU_X86_MASK_STORE = 0x91,  // of TO
} CpuX86MaskOpcode;
// Writes one for masks of 16 lanes.
void cpu_x86_mask(CpuX86 *code, CpuX86MaskOpcode opcode, int to, int left, CpuX86Operand right);

// Opcodes of instructions of general registers, by their mnemonics; those of two bytes are 0x0f00 + the second.
typedef enum CpuX86Opcode {
    CPU_X86_ADD = 0x03,
    CPU_X86_COMPARE = 0x3b,
    CPU_X86_EXTEND_32 = 0x63,  // movsxd
    CPU_X86_MULTIPLY_IMMEDIATE = 0x69,
    CPU_X86_IMMEDIATE = 0x81,  // with CPU_X86_BY_ADDING or CPU_X86_BY_SUBTRACTING for `to`
    CPU_X86_TEST = 0x85,
    CPU_X86_STORE = 0x89,
    CPU_X86_LOAD = 0x8b,
    CPU_X86_ADDRESS = 0x8d,            // lea
    CPU_X86_MOVE_IF_SIGN = 0x0f48,     // cmovs
    CPU_X86_MOVE_IF_GREATER = 0x0f4f,  // cmovg, signed
    CPU_X86_EXTEND_BYTE = 0x0fb6,      // movzx
    CPU_X86_JUMP = 0xe9,
    CPU_X86_JUMP_IF_ZERO = 0x0f84,
    CPU_X86_JUMP_UNLESS_ZERO = 0x0f85,
    CPU_X86_JUMP_IF_LESS = 0x0f8c,  // signed
    CPU_X86_JUMP_UNLESS_LESS = 0x0f8d,
} CpuX86Opcode;
enum { CPU_X86_BY_ADDING = 0, CPU_X86_BY_SUBTRACTING = 5 };

// Writes instructions of general registers: OPCODE to, from with 64 bits.
void cpu_x86_general(CpuX86 *code, CpuX86Opcode opcode, CpuX86General to, CpuX86Operand from);
// Does the same with a trailing immediate of 32 bits.
void cpu_x86_general_immediate(CpuX86 *code, CpuX86Opcode opcode, CpuX86General to, CpuX86Operand from,
                               int32_t immediate);
// Writes to = value; small ones take three bytes less.
void cpu_x86_set(CpuX86 *code, CpuX86General to, int64_t value);
// Writes fixed instructions, such as those of the code's beginning, as bytes.
void cpu_x86_bytes(CpuX86 *code, const char *bytes, int count);

// Writes a jump, always or on a condition, whose target cpu_x86_land() sets later; returns the position of its
// distance.
int64_t cpu_x86_jump(CpuX86 *code, CpuX86Opcode opcode);
// Sets the target of the jump whose distance is at `jump` to byte number `address` of the code.
void cpu_x86_land(CpuX86 *code, int64_t jump, int64_t address);

// Appends the pool; nothing may follow.
void cpu_x86_finish(CpuX86 *code);

HLO_END_C

#endif
