// SPDX-License-Identifier: Apache-2.0
// How an opcode is run on a TPU, expanded from op_class.def.
//
// Stability: experimental.
#ifndef MESHLO_EMULATOR_OP_CLASS_H_
#define MESHLO_EMULATOR_OP_CLASS_H_

#include "emulator/chip.h"
#include "hlo/ir/module.h"

HLO_BEGIN_C

typedef enum EmuOpClass {
    EMU_OP_FREE,
    EMU_OP_VECTOR,
    EMU_OP_MOVE,
    EMU_OP_REDUCE,
    EMU_OP_MATRIX,
    EMU_OP_ALONE,
    EMU_OP_CONTROL,
    EMU_OP_COLLECTIVE,
    EMU_OP_COLLECTIVE_START,
    EMU_OP_TRANSFER_START,
    EMU_OP_DONE,
    EMU_OP_HOST_COPY,  // of an instruction, not of an opcode
} EmuOpClass;

// The class of an opcode. Any thread, as below.
HLO_EXPORT EmuOpClass emu_op_class(HloOpcode opcode);
// The class of an instruction: EMU_OP_HOST_COPY for a copy, or a slice of an array, between the device's memory and the
// host's; EMU_OP_VECTOR or EMU_OP_REDUCE for a dot without contraction or without any other dimension, which is no work
// for the systolic arrays; for everything else the class of its opcode.
HLO_EXPORT EmuOpClass emu_instruction_class(const HloInstruction *instruction);
// Whether an instruction only renames the bytes of its first operand: reshapes, bitcasts, elements of tuples, and
// transposes whose layouts leave every element where it is.
HLO_EXPORT bool emu_is_view(const HloInstruction *instruction);
// Vector instructions for one element.
HLO_EXPORT double emu_op_vector_cost(HloOpcode opcode);
// The same on a chip, whose transcendental unit may be faster than the table's.
HLO_EXPORT double emu_chip_vector_cost(const EmuChip *chip, HloOpcode opcode);
// Whether the transcendental unit computes an opcode.
HLO_EXPORT bool emu_op_is_transcendental(HloOpcode opcode);
// The same of an instruction: a dot of class EMU_OP_VECTOR or EMU_OP_REDUCE costs what these do.
HLO_EXPORT double emu_instruction_vector_cost(const HloInstruction *instruction);
// The opcode that moves the data of an asynchronous start (`all-gather` for `all-gather-start`, the wrapped opcode for
// `async-start`). Other opcodes are returned unchanged.
HLO_EXPORT HloOpcode emu_synchronous_opcode(const HloInstruction *instruction);
// The collective whose attributes apply: the wrapped one of an `async-start`, else the instruction itself.
HLO_EXPORT const HloInstruction *emu_synchronous_instruction(const HloInstruction *instruction);

HLO_END_C

#endif
