// SPDX-License-Identifier: Apache-2.0
#include "emulator/layout/stored.h"

#include <assert.h>

#include "emulator/layout/layout.h"

// The least batch that fills the sublanes of a register; smaller ones leave them to the last dimension of the window.
#define LEAST_BATCH 8
// Features of images: fewer than the sublanes.
#define FEW_FEATURES 4

// A shape with these minor dimensions; the others follow from the last to the first.
static const HloShape *with_minor(HloArena *arena, const EmuChip *chip, const HloShape *shape, int64_t minor,
                                  int64_t second) {
    assert(shape->rank >= 2 && minor != second);
    int64_t *order = HLO_ARENA_NEW(arena, int64_t, shape->rank), count = 2;
    order[0] = minor;
    order[1] = second;
    for (int64_t dim = shape->rank - 1; dim >= 0; dim--)
        if (dim != minor && dim != second) order[count++] = dim;
    HloShape *stored = hlo_arena_copy(arena, shape, sizeof(*shape));
    stored->layout = emu_layout_in_order(arena, chip, shape, (HloInts){order, count});
    return stored;
}

// Layouts with tiles or a memory space are a compiler's choice.
static bool is_open(const HloInstruction *instruction) {
    const HloLayout *layout = instruction->shape->layout;
    return !instruction->parent->module->is_scheduled && hlo_shape_is_array(instruction->shape) &&
           instruction->shape->rank >= 2 && (!layout || (!layout->tile_count && !layout->memory_space));
}

const HloShape *emu_made_shape(HloArena *arena, const EmuChip *chip, const EmuKernel *kernel,
                               const HloInstruction *root) {
    const int64_t elements = hlo_shape_elements(root->shape);
    for (int64_t m = 0; kernel->kind == EMU_OP_MATRIX && is_open(root) && m < kernel->member_count; m++) {
        const HloInstruction *member = kernel->members[m];
        if (!hlo_is(member, HLO_OP_CONVOLUTION) || member->shape->rank != root->shape->rank) continue;
        if (hlo_shape_elements(member->shape) != elements) continue;
        const HloConvolutionLabels *labels = HLO_ATTRIBUTES(member, Convolution)->labels;
        if (labels->output_spatial.count == 0 || root->shape->dims[labels->output_batch] < LEAST_BATCH) continue;
        return with_minor(arena, chip, root->shape, labels->output_feature, labels->output_batch);
    }
    return root->shape;
}

// The minor dimensions that an array has.
static HloInts order_of(HloArena *arena, const EmuChip *chip, const HloShape *shape) {
    const bool is_given = shape->layout && (shape->layout->tile_count || emu_names_order(shape));
    return (is_given ? shape->layout : emu_default_layout(arena, chip, shape))->minor_to_major;
}

bool emu_same_minor(HloArena *arena, const EmuChip *chip, const HloShape *left, const HloShape *right) {
    if (left == right || left->rank < 2) return true;
    const HloInts a = order_of(arena, chip, left), b = order_of(arena, chip, right);
    return a.items[0] == b.items[0] && a.items[1] == b.items[1];
}

static const HloShape *read_by_window(HloArena *arena, const EmuChip *chip, const HloInstruction *reader,
                                      const HloShape *stored) {
    const HloWindow *window = HLO_ATTRIBUTES(reader, Window)->window;
    if (!window || window->count != stored->rank) return stored;
    if (window->dims[order_of(arena, chip, stored).items[0]].size <= 1) return stored;
    const int64_t last = window->count - 1;
    for (int64_t dim = last; dim >= 0; dim--)
        if (window->dims[dim].size <= 1) return with_minor(arena, chip, stored, dim, dim == last ? last - 1 : last);
    return stored;
}

// Kernel gradients have batch and features exchanged: the few come second in either case.
static const HloShape *read_by_convolution(HloArena *arena, const EmuChip *chip, const HloInstruction *reader,
                                           const HloShape *stored) {
    const HloConvolutionLabels *labels = HLO_ATTRIBUTES(reader, Convolution)->labels;
    const int64_t features = labels->input_feature, batch = labels->input_batch;
    if (labels->input_spatial.count < 2) return stored;
    if (stored->dims[features] <= FEW_FEATURES && stored->dims[batch] >= LEAST_BATCH)
        return with_minor(arena, chip, stored, batch, features);
    if (stored->dims[batch] <= FEW_FEATURES && stored->dims[features] >= LEAST_BATCH)
        return with_minor(arena, chip, stored, features, batch);
    return stored;
}

const HloShape *emu_read_shape(HloArena *arena, const EmuChip *chip, const HloInstruction *reader,
                               const HloShape *stored) {
    if (!reader->operand_count || !is_open(reader->operands[0])) return stored;
    if (!hlo_shape_equal(reader->operands[0]->shape, stored, HLO_COMPARE_DIMS_ONLY))
        return stored;  // the reader has another shape of it
    if (hlo_is(reader, HLO_OP_REDUCE_WINDOW)) return read_by_window(arena, chip, reader, stored);
    return hlo_is(reader, HLO_OP_CONVOLUTION) ? read_by_convolution(arena, chip, reader, stored) : stored;
}
