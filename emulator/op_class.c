// SPDX-License-Identifier: Apache-2.0
// What kind of work each opcode is on a TPU, expanded from op_class.def.
#include "emulator/op_class.h"

#include <assert.h>

typedef struct OpRow {
    EmuOpClass op_class;
    double vector_cost;
    bool is_transcendental;
} OpRow;

static const OpRow rows[HLO_OPCODE_COUNT] = {
#define EMU_OP(opcode, kind, cost) [HLO_OP_##opcode] = {EMU_OP_##kind, cost, false},
#define EMU_TRANSCENDENTAL(opcode, cost) [HLO_OP_##opcode] = {EMU_OP_VECTOR, cost, true},
#include "emulator/op_class.def"
#undef EMU_TRANSCENDENTAL
#undef EMU_OP
};

// Counts the rows: there must be one per opcode, and the compiler warns of a second row for the same opcode.
#define EMU_OP(opcode, kind, cost) +1
#define EMU_TRANSCENDENTAL(opcode, cost) +1
static_assert((0
#include "emulator/op_class.def"
               ) == HLO_OPCODE_COUNT,
              "every opcode has a row in op_class.def");
#undef EMU_TRANSCENDENTAL
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

// Whether every element of a shape belongs to one of these two lists of dimensions, those of size 1 aside.
static bool is_covered(const HloShape *shape, HloInts batch, HloInts contracting) {
    int64_t covered = 1;
    for (int64_t i = 0; i < batch.count; i++) covered *= shape->dims[batch.items[i]];
    for (int64_t i = 0; i < contracting.count; i++) covered *= shape->dims[contracting.items[i]];
    return covered == hlo_shape_elements(shape);
}

// The class of a product. Where no elements are added up (scales of norms written as einsums) it is a multiplication
// with broadcast operands. Where each result is the sum over a pair of vectors (the gradients of such scales), and
// where each of a batch is a vector times a matrix (results of experts weighted by token), it is a multiplication and a
// reduction. Compilers make these of them, because the systolic array would be nearly empty.
static EmuOpClass class_of_dot(const HloInstruction *dot) {
    const HloDotAttributes *attributes = HLO_ATTRIBUTES(dot, Dot);
    const HloShape *left = dot->operands[0]->shape, *right = dot->operands[1]->shape;
    int64_t depth = 1;
    for (int64_t i = 0; i < attributes->lhs_contracting.count; i++)
        depth *= left->dims[attributes->lhs_contracting.items[i]];
    if (depth == 1) return EMU_OP_VECTOR;
    int64_t batch = 1;
    for (int64_t i = 0; i < attributes->lhs_batch.count; i++) batch *= left->dims[attributes->lhs_batch.items[i]];
    const int vectors = is_covered(left, attributes->lhs_batch, attributes->lhs_contracting) +
                        is_covered(right, attributes->rhs_batch, attributes->rhs_contracting);
    return vectors == 2 || (vectors == 1 && batch > 1) ? EMU_OP_REDUCE : EMU_OP_MATRIX;
}

EmuOpClass emu_instruction_class(const HloInstruction *instruction) {
    if (instruction->opcode == HLO_OP_DOT) return class_of_dot(instruction);
    return crosses_to_host(instruction) ? EMU_OP_HOST_COPY : emu_op_class(instruction->opcode);
}

// Whether an instruction can read its operands in any order of dimensions.
static bool reads_any_order(const HloInstruction *user) {
    const EmuOpClass op_class = emu_instruction_class(user);
    return op_class == EMU_OP_VECTOR || op_class == EMU_OP_MOVE || op_class == EMU_OP_REDUCE ||
           op_class == EMU_OP_MATRIX;
}

// Whether the state of a loop may be stored in another order of dimensions than it is written.
static bool only_starts_loops(const HloInstruction *tuple) {
    for (int64_t i = 0; i < tuple->users.count; i++)
        if (!hlo_is(tuple->users.items[i], HLO_OP_WHILE)) return false;
    return hlo_is(tuple, HLO_OP_TUPLE) && tuple->users.count > 0 && !hlo_instruction_is_root(tuple);
}

// Whether the layouts of a program are still open, and choosing them makes a transpose a view: the array becomes the
// state of a loop, which keeps it in the order in which it is stored. This is how stacked weights that are scanned over
// another dimension than the first enter a loop.
static bool layout_absorbs(const HloInstruction *transpose) {
    if (!transpose->parent || transpose->parent->module->is_scheduled) return false;
    bool enters_loop = false;
    for (int64_t i = 0; i < transpose->users.count; i++) {
        const HloInstruction *user = transpose->users.items[i];
        const bool enters = only_starts_loops(user);
        if (!enters && !reads_any_order(user)) return false;
        enters_loop |= enters;
    }
    return enters_loop && !hlo_instruction_is_root(transpose);
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
        case HLO_OP_TRANSPOSE: return keeps_places(instruction) || layout_absorbs(instruction);
        default: return false;
    }
}

double emu_op_vector_cost(HloOpcode opcode) {
    return rows[opcode].vector_cost;
}

double emu_chip_vector_cost(const EmuChip *chip, HloOpcode opcode) {
    return rows[opcode].vector_cost * (rows[opcode].is_transcendental ? chip->transcendental_scale : 1);
}

bool emu_op_is_transcendental(HloOpcode opcode) {
    return rows[opcode].is_transcendental;
}

// Whether an instruction divides by one constant, which compilers multiply by its reciprocal.
static bool divides_by_constant(const HloInstruction *instruction) {
    if (instruction->opcode != HLO_OP_DIVIDE || !hlo_type_is_float(instruction->shape->type)) return false;
    const HloInstruction *divisor = instruction->operands[1];
    if (hlo_is(divisor, HLO_OP_BROADCAST)) divisor = divisor->operands[0];
    return hlo_is(divisor, HLO_OP_CONSTANT) && hlo_shape_elements(divisor->shape) == 1;
}

// A product on the vector unit multiplies each element, and adds it where it is a reduction.
double emu_instruction_vector_cost(const HloInstruction *instruction) {
    if (divides_by_constant(instruction)) return emu_op_vector_cost(HLO_OP_MULTIPLY);
    if (instruction->opcode != HLO_OP_DOT) return emu_op_vector_cost(instruction->opcode);
    switch (class_of_dot(instruction)) {
        case EMU_OP_VECTOR: return emu_op_vector_cost(HLO_OP_MULTIPLY);
        case EMU_OP_REDUCE: return emu_op_vector_cost(HLO_OP_MULTIPLY) + emu_op_vector_cost(HLO_OP_REDUCE);
        default: return 0;
    }
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
