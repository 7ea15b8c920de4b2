// SPDX-License-Identifier: Apache-2.0
// Pads before windows. A pad changes where shards begin, so that along a sharded dimension nearly all elements move to
// be padded, and again to get the windows' halos. The padding of the window itself moves nothing:
//
//     reduce-window(pad(x, identity))                     a reduce-window with that padding; holes are its base
//     dilation slice(select-and-scatter(pad(x, least), source))    a select-and-scatter with that padding, if the slice
//     takes it
//                                                         off again, as in the gradient of a max-pool
//
// A window of select-and-scatter does not select from its padding, but from elements of a pad it may: before NaNs, and
// where all others are as small. The joined op is marked (SPMD_EXPLICIT_PADDING), and its partition function pads.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/ir/instruction.h"
#include "hlo/ir/literal.h"
#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/rule.h"

// Whether a scalar constant is one that `opcode` leaves every value unchanged with. Least and greatest numbers count
// for floats that have infinities alone.
static bool is_identity(const HloInstruction *value, HloOpcode opcode) {
    if (!hlo_is(value, HLO_OP_CONSTANT) || value->shape->rank) return false;
    const HloLiteral *literal = hlo_constant_literal(value);
    const HloType type = value->shape->type;
    if (opcode == HLO_OP_MAXIMUM || opcode == HLO_OP_MINIMUM) {
        const double number = hlo_type_is_float(type) ? hlo_literal_get_double(literal, 0) : 0;
        return isinf(number) && (number < 0) == (opcode == HLO_OP_MAXIMUM);
    }
    return hlo_literal_is_zero(literal) && (opcode == HLO_OP_ADD || opcode == HLO_OP_OR || opcode == HLO_OP_XOR);
}

// True if nothing is known of an instruction but what it computes, and of arrays of fixed sizes.
static bool is_plain(const HloInstruction *at) {
    return hlo_shape_is_array(at->shape) && !at->sharding && !at->control_predecessors.count &&
           !at->control_successors.count && !hlo_shape_is_dynamic(at->shape) &&
           !hlo_shape_is_dynamic(at->operands[0]->shape);
}

// The pad that a window op takes its array from, if its amounts can be those of the window; NULL otherwise.
static const HloInstruction *padded_operand(const HloInstruction *at, HloOpcode opcode, bool holes) {
    const HloInstruction *pad = at->operands[0];
    const HloWindow *window = HLO_ATTRIBUTES(at, Window)->window;
    if (!hlo_is(pad, HLO_OP_PAD) || !is_plain(pad) || !hlo_shape_elements(pad->operands[0]->shape) ||
        !is_identity(pad->operands[1], opcode))
        return NULL;
    for (int32_t d = 0; d < pad->shape->rank; d++) {
        const HloPadDimension *amount = &HLO_ATTRIBUTES(pad, Pad)->padding.items[d];
        const HloWindowDimension *along = &window->dims[d];
        if (amount->low < 0 || amount->high < 0 || along->padding_low < 0 || along->padding_high < 0) return NULL;
        if (along->base_dilation != 1 || (amount->interior && !holes)) return NULL;
    }
    return pad;
}

// The window with the amounts of a pad.
static const HloWindow *padded_window(HloArena *arena, const HloWindow *window, const HloInstruction *pad) {
    HloWindowDimension *dims = hlo_arena_copy(arena, window->dims, (size_t)window->count * sizeof(*dims));
    for (int64_t d = 0; d < window->count; d++) {
        const HloPadDimension *amount = &HLO_ATTRIBUTES(pad, Pad)->padding.items[d];
        dims[d].padding_low += amount->low;
        dims[d].padding_high += amount->high;
        dims[d].base_dilation = amount->interior + 1;
    }
    HloWindow *made = HLO_ARENA_NEW(arena, HloWindow, 1);
    *made = (HloWindow){dims, window->count};
    return made;
}

static const HloInstruction *pad_of_reduce_window(const HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_REDUCE_WINDOW) || at->operand_count != 2 || !hlo_shape_is_array(at->shape)) return NULL;
    const HloOpcode opcode = spmd_rule_combiner(at->called[0]);
    return opcode != HLO_OPCODE_COUNT && is_identity(at->operands[1], opcode) ? padded_operand(at, opcode, true) : NULL;
}

// The op whose identity a selection takes last: that of the greatest or of the least element.
static HloOpcode selection(const HloComputation *select) {
    const HloInstruction *root = select->root;
    if (!hlo_is(root, HLO_OP_COMPARE) || select->parameters.count != 2 ||
        root->operands[0] != select->parameters.items[0] || root->operands[1] != select->parameters.items[1])
        return HLO_OPCODE_COUNT;
    switch (HLO_ATTRIBUTES(root, Compare)->direction) {
        case HLO_ComparisonDirection_GE:
        case HLO_ComparisonDirection_GT: return HLO_OP_MAXIMUM;
        case HLO_ComparisonDirection_LE:
        case HLO_ComparisonDirection_LT: return HLO_OP_MINIMUM;
        default: return HLO_OPCODE_COUNT;
    }
}

// The pad below the select-and-scatter below a slice that takes the padding off; NULL for anything else.
static const HloInstruction *pad_of_scatter(const HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_SLICE) || !hlo_is(at->operands[0], HLO_OP_SELECT_AND_SCATTER)) return NULL;
    const HloInstruction *scatter = at->operands[0];
    const HloOpcode opcode = selection(scatter->called[0]);
    if (!is_plain(scatter) || scatter->users.count != 1 || opcode == HLO_OPCODE_COUNT) return NULL;
    const HloInstruction *pad = padded_operand(scatter, opcode, false);
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(at, Slice);
    for (int32_t d = 0; pad && d < at->shape->rank; d++) {
        const HloWindowDimension *along = &HLO_ATTRIBUTES(scatter, Window)->window->dims[d];
        if (along->padding_low || along->padding_high ||
            slice->starts.items[d] != HLO_ATTRIBUTES(pad, Pad)->padding.items[d].low ||
            at->shape->dims[d] != pad->operands[0]->shape->dims[d] ||
            (slice->strides.count && slice->strides.items[d] != 1))
            return NULL;
    }
    return pad;
}

bool spmd_is_padded_window(const HloInstruction *at) {
    return pad_of_reduce_window(at) || pad_of_scatter(at);
}

HloInstruction *spmd_join_padded_window(HloInstruction *at) {
    assert(spmd_is_padded_window(at));
    HloArena *arena = at->parent->module->arena;
    const bool reduces = hlo_is(at, HLO_OP_REDUCE_WINDOW);
    const HloInstruction *pad = reduces ? pad_of_reduce_window(at) : pad_of_scatter(at);
    const HloInstruction *op = reduces ? at : at->operands[0];
    HloInstruction *operands[3] = {pad->operands[0], op->operands[1], reduces ? NULL : op->operands[2]};
    const HloWindowAttributes attributes = {padded_window(arena, HLO_ATTRIBUTES(op, Window)->window, pad)};
    HloInstruction *made =
        hlo_instruction_new(at->parent, op->opcode, at->shape, operands, op->operand_count, &attributes, at->name);
    hlo_instruction_set_called(made, op->called, op->called_count);
    hlo_instruction_copy_annotations(made, at);
    if (!reduces) hlo_instruction_set_frontend_attribute(made, SPMD_EXPLICIT_PADDING, "true");
    hlo_instruction_move_before(made, at);
    return made;
}
