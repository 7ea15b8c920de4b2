// SPDX-License-Identifier: Apache-2.0
// What kind of work each opcode is on a TPU, expanded from op_class.def.
#include "emulator/op_class.h"

#include <assert.h>

typedef struct OpRow {
    EmuOpClass op_class;
    double vector_cost;
} OpRow;

static const OpRow rows[HLO_OPCODE_COUNT] = {
#define EMU_OP(opcode, kind, cost) [HLO_OP_##opcode] = {EMU_OP_##kind, cost},
#include "emulator/op_class.def"
#undef EMU_OP
};

// Counts the rows: there must be one per opcode, and the compiler warns of a second row for the same opcode.
#define EMU_OP(opcode, kind, cost) +1
static_assert((0
#include "emulator/op_class.def"
               ) == HLO_OPCODE_COUNT,
              "every opcode has a row in op_class.def");
#undef EMU_OP

EmuOpClass emu_op_class(HloOpcode opcode) {
    return rows[opcode].op_class;
}

// Stacks of slices are in the host's memory as a whole, but only the slice is moved.
static bool crosses_to_host(const HloInstruction *instruction) {
    if (hlo_is(instruction, HLO_OP_DYNAMIC_UPDATE_SLICE)) return hlo_shape_in_host_memory(instruction->shape);
    if (!hlo_is(instruction, HLO_OP_COPY) && !hlo_is(instruction, HLO_OP_DYNAMIC_SLICE)) return false;
    return hlo_shape_in_host_memory(instruction->operands[0]->shape) != hlo_shape_in_host_memory(instruction->shape);
}

EmuOpClass emu_instruction_class(const HloInstruction *instruction) {
    return crosses_to_host(instruction) ? EMU_OP_HOST_COPY : emu_op_class(instruction->opcode);
}

// Without layouts it is not known whether they fit.
static bool keeps_places(const HloInstruction *transpose) {
    const HloLayout *from = transpose->operands[0]->shape->layout, *to = transpose->shape->layout;
    if (!from || !to || from->minor_to_major.count != to->minor_to_major.count) return false;
    const HloInts dimensions = HLO_ATTRIBUTES(transpose, Dimensions)->dimensions;
    assert(dimensions.count == transpose->shape->rank);
    for (int64_t i = 0; i < to->minor_to_major.count; i++)
        if (dimensions.items[to->minor_to_major.items[i]] != from->minor_to_major.items[i]) return false;
    HloLayout alike = *to;
    alike.minor_to_major = from->minor_to_major;
    return hlo_layout_equal(&alike, from);
}

bool emu_is_view(const HloInstruction *instruction) {
    switch (instruction->opcode) {
        case HLO_OP_BITCAST:
        case HLO_OP_RESHAPE:
        case HLO_OP_GET_TUPLE_ELEMENT: return true;
        case HLO_OP_TRANSPOSE: return keeps_places(instruction);
        default: return false;
    }
}

double emu_op_vector_cost(HloOpcode opcode) {
    return rows[opcode].vector_cost;
}

const HloInstruction *emu_synchronous_instruction(const HloInstruction *instruction) {
    if (instruction->opcode == HLO_OP_ASYNC_START && instruction->called_count == 1)
        return instruction->called[0]->root;
    return instruction;
}

HloOpcode emu_synchronous_opcode(const HloInstruction *instruction) {
    switch (instruction->opcode) {
        case HLO_OP_ALL_GATHER_START: return HLO_OP_ALL_GATHER;
        case HLO_OP_ALL_REDUCE_START: return HLO_OP_ALL_REDUCE;
        case HLO_OP_COLLECTIVE_PERMUTE_START: return HLO_OP_COLLECTIVE_PERMUTE;
        default: return emu_synchronous_instruction(instruction)->opcode;
    }
}
