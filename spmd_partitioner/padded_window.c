// SPDX-License-Identifier: Apache-2.0
// Pads before windows. A pad changes where shards begin, so that along a sharded dimension nearly all elements move to
// be padded, and again to get the windows' halos. The padding of the window itself moves nothing:
//
//     reduce-window(pad(x, identity))                     with that padding; holes are its base dilation
//     slice(select-and-scatter(pad(x, least), source))    with that padding, if the slice takes it off again, as in the
//                                                         gradient of a max-pool
//     convolution(pad(x, 0), kernel)                      with that padding; holes are its base dilation
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

// True if nothing is known of an instruction but what it computes, and that it is sharded like its operand, and of
// arrays of fixed sizes.
static bool is_plain(const HloInstruction *at) {
    return hlo_shape_is_array(at->shape) &&
           (!at->sharding || hlo_sharding_equal(at->sharding, at->operands[0]->sharding)) &&
           !at->control_predecessors.count && !at->control_successors.count && !hlo_shape_is_dynamic(at->shape) &&
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

// Adds the amounts of a pad to those of a window.
static void add_padding(HloWindowDimension *window, const HloPadDimension *amount) {
    window->padding_low += amount->low;
    window->padding_high += amount->high;
    window->base_dilation = amount->interior + 1;
}

// The window with the amounts of a pad.
static const HloWindow *padded_window(HloArena *arena, const HloWindow *window, const HloInstruction *pad) {
    HloWindowDimension *dims = hlo_arena_copy(arena, window->dims, (size_t)window->count * sizeof(*dims));
    for (int64_t d = 0; d < window->count; d++) {
        add_padding(&dims[d], &HLO_ATTRIBUTES(pad, Pad)->padding.items[d]);
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

enum { MOST_DIMENSIONS = 16 };

// The pad of zeros around or between the pixels of a convolution's image, to which dimensions of one element may have
// been added: dimension d of it is places[d] of the image. NULL for anything else.
static const HloInstruction *pad_of_convolution(const HloInstruction *at, int32_t *places) {
    if (!hlo_is(at, HLO_OP_CONVOLUTION) || !HLO_ATTRIBUTES(at, Convolution)->window ||
        at->operands[0]->shape->rank > MOST_DIMENSIONS || !at->operands[0]->operand_count)
        return NULL;
    const HloConvolutionAttributes *convolution = HLO_ATTRIBUTES(at, Convolution);
    const HloInstruction *pad = spmd_without_added(at->operands[0], places);
    if (!hlo_is(pad, HLO_OP_PAD) || !is_plain(pad) || !hlo_shape_elements(pad->operands[0]->shape) ||
        !is_identity(pad->operands[1], HLO_OP_ADD))
        return NULL;
    for (int32_t d = 0; d < pad->shape->rank; d++) {
        const HloPadDimension *amount = &HLO_ATTRIBUTES(pad, Pad)->padding.items[d];
        const bool pads = amount->low || amount->high || amount->interior;
        if (amount->low < 0 || amount->high < 0) return NULL;
        if (pads && !hlo_ints_contain(convolution->labels->input_spatial, places[d])) return NULL;
    }
    for (int64_t i = 0; i < convolution->window->count; i++) {
        const HloWindowDimension *along = &convolution->window->dims[i];
        if (along->padding_low < 0 || along->padding_high < 0 || along->base_dilation != 1) return NULL;
    }
    return pad;
}

// The image without its padding, before `at`.
static HloInstruction *unpadded_image(HloInstruction *at, const HloInstruction *pad, const int32_t *places) {
    HloArena *arena = at->parent->module->arena;
    const HloShape *image = at->operands[0]->shape, *array = pad->operands[0]->shape;
    if (image->rank == array->rank) return pad->operands[0];
    int64_t *dims = hlo_arena_copy(arena, image->dims, (size_t)image->rank * sizeof(*dims));
    for (int32_t d = 0; d < array->rank; d++) dims[places[d]] = array->dims[d];
    const HloShape *shape =
        hlo_shape_with_default_layout(arena, hlo_shape_array(arena, image->type, dims, image->rank));
    HloInstruction *made = hlo_instruction_new(at->parent, HLO_OP_RESHAPE, shape, pad->operands, 1, NULL, NULL);
    made->metadata = at->metadata;
    hlo_instruction_move_before(made, at);
    return made;
}

// Windows of a convolution are those of its spatial dimensions.
static HloInstruction *join_convolution(HloInstruction *at) {
    HloArena *arena = at->parent->module->arena;
    int32_t places[MOST_DIMENSIONS];
    const HloInstruction *pad = pad_of_convolution(at, places);
    HloConvolutionAttributes *attributes = hlo_attributes_copy(arena, HLO_FAMILY_Convolution, at->attributes);
    const HloInts spatial = attributes->labels->input_spatial;
    HloWindow *padded = HLO_ARENA_NEW(arena, HloWindow, 1);
    HloWindowDimension *dims =
        hlo_arena_copy(arena, attributes->window->dims, (size_t)attributes->window->count * sizeof(*dims));
    *padded = (HloWindow){dims, attributes->window->count};
    for (int32_t d = 0; d < pad->shape->rank; d++)
        for (int64_t i = 0; i < spatial.count; i++)
            if (spatial.items[i] == places[d]) add_padding(&dims[i], &HLO_ATTRIBUTES(pad, Pad)->padding.items[d]);
    attributes->window = padded;
    HloInstruction *operands[2] = {unpadded_image(at, pad, places), at->operands[1]};
    HloInstruction *made = hlo_instruction_new(at->parent, at->opcode, at->shape, operands, 2, attributes, at->name);
    hlo_instruction_copy_annotations(made, at);
    hlo_instruction_move_before(made, at);
    return made;
}

bool spmd_is_padded_window(const HloInstruction *at) {
    int32_t places[MOST_DIMENSIONS];
    return pad_of_reduce_window(at) || pad_of_scatter(at) || pad_of_convolution(at, places);
}

HloInstruction *spmd_join_padded_window(HloInstruction *at) {
    assert(spmd_is_padded_window(at));
    if (hlo_is(at, HLO_OP_CONVOLUTION)) return join_convolution(at);
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
