// SPDX-License-Identifier: Apache-2.0
#include "emulator/layout/stored.h"

#include <assert.h>

#include "emulator/layout/convolution.h"
#include "emulator/layout/layout.h"

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

// Layouts with tiles or a memory space are a TPU compiler's choice. A scheduled program without them was compiled for
// another machine.
static bool is_open(const HloInstruction *instruction) {
    const HloLayout *layout = instruction->shape->layout;
    return hlo_shape_is_array(instruction->shape) && instruction->shape->rank >= 2 &&
           (!layout || (!layout->tile_count && !layout->memory_space));
}

// A select-and-scatter steps over its windows with the last dimension that these do not slide along in the lanes, and
// the first one in the sublanes, or the other way round where that fills the lanes better: features and a batch.
static const HloShape *read_by_scatter(HloArena *arena, const EmuChip *chip, const HloInstruction *scatter,
                                       const HloShape *stored) {
    const HloWindow *window = HLO_ATTRIBUTES(scatter, Window)->window;
    if (!window || window->count != stored->rank) return stored;
    int64_t first = -1, last = -1;
    for (int64_t dim = 0; dim < window->count; dim++) {
        if (window->dims[dim].size > 1) continue;
        first = first < 0 ? dim : first;
        last = dim;
    }
    if (last <= first) return stored;
    return emu_batch_fills_lanes(stored->dims[first], stored->dims[last])
               ? with_minor(arena, chip, stored, first, last)
               : with_minor(arena, chip, stored, last, first);
}

// A shape whose dimension `features` is divided into groups, with the features of a group in the lanes and the batch in
// the sublanes.
static const HloShape *in_groups(HloArena *arena, const EmuChip *chip, const HloShape *shape, int64_t features,
                                 int64_t batch, int64_t groups) {
    const int64_t rank = shape->rank + 1;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, rank);
    for (int64_t dim = 0; dim < rank; dim++)
        dims[dim] = dim < features    ? shape->dims[dim]
                    : dim == features ? groups
                                      : shape->dims[dim - 1] / (dim == features + 1 ? groups : 1);
    const HloShape *divided = hlo_shape_array(arena, shape->type, dims, (int32_t)rank);
    return with_minor(arena, chip, divided, features + 1, batch < features ? batch : batch + 1);
}

// The layout in which a convolution reads or makes an array of features: those of a group, or the batch, are in the
// lanes.
static const HloShape *of_groups(HloArena *arena, const EmuChip *chip, const HloShape *shape, int64_t features,
                                 int64_t batch, int64_t groups) {
    const int64_t each = shape->dims[features] / groups;
    if (emu_batch_fills_lanes(shape->dims[batch], each)) return with_minor(arena, chip, shape, batch, features);
    return each % 128 ? in_groups(arena, chip, shape, features, batch, groups)
                      : with_minor(arena, chip, shape, features, batch);
}

static const HloShape *made_by_convolution(HloArena *arena, const EmuChip *chip, const HloInstruction *instruction,
                                           const HloShape *shape) {
    const EmuConvolution convolution = emu_convolution_of(instruction);
    const int64_t features = convolution.labels->output_feature, batch = convolution.labels->output_batch;
    if (convolution.labels->output_spatial.count == 0 || convolution.batch < EMU_LEAST_BATCH) return shape;
    if (convolution.makes_batch_in_lanes || convolution.makes_image)
        return with_minor(arena, chip, shape, batch, features);
    const bool is_grouped = HLO_ATTRIBUTES(instruction, Convolution)->feature_group_count > 1;
    if (is_grouped && !convolution.is_depthwise)
        return of_groups(arena, chip, shape, features, batch, convolution.groups);
    return with_minor(arena, chip, shape, features, batch);
}

// The minor dimensions that an array has.
static HloInts order_of(HloArena *arena, const EmuChip *chip, const HloShape *shape) {
    const bool is_given = shape->layout && (shape->layout->tile_count || emu_names_order(shape));
    return (is_given ? shape->layout : emu_default_layout(arena, chip, shape))->minor_to_major;
}

static bool is_among(HloInts dims, int64_t dim) {
    for (int64_t i = 0; i < dims.count; i++)
        if (dims.items[i] == dim) return true;
    return false;
}

// An operand or result of a product whose batch is in the lanes is rearranged: each product of the batch reads and
// makes rows of its own.
static const HloShape *without_batch_in_lanes(HloArena *arena, const EmuChip *chip, const HloShape *stored,
                                              const HloShape *narrow, HloInts batch) {
    if (!is_among(batch, order_of(arena, chip, stored).items[0])) return stored;
    int64_t minor = -1, second = -1;
    for (int64_t dim = stored->rank - 1; dim >= 0 && second < 0; dim--) {
        if (is_among(batch, dim)) continue;
        second = minor < 0 ? second : dim;
        minor = minor < 0 ? dim : minor;
    }
    if (minor < 0) return stored;
    if (second < 0) second = minor == stored->rank - 1 ? minor - 1 : stored->rank - 1;
    const HloShape *straight = with_minor(arena, chip, narrow, minor, second),
                   *turned = with_minor(arena, chip, narrow, second, minor);
    if (is_among(batch, second)) return straight;
    return emu_padded_bytes(chip, turned) < emu_padded_bytes(chip, straight) ? turned : straight;
}

// Whether callers see a value, with the layout that they expect.
static bool is_result(const HloInstruction *value) {
    if (value->parent != value->parent->module->entry) return false;
    return hlo_instruction_is_root(value) || (value->users.count == 1 && hlo_is(value->users.items[0], HLO_OP_TUPLE) &&
                                              hlo_instruction_is_root(value->users.items[0]));
}

// A gather moves rows, unless it picks single elements: what it reads has in the lanes no dimension along which rows
// are chosen, and what it makes the last dimension of the rows.
static const HloShape *read_by_gather(HloArena *arena, const EmuChip *chip, const HloInstruction *gather,
                                      const HloShape *stored) {
    const HloInts sizes = HLO_ATTRIBUTES(gather, Gather)->slice_sizes;
    int64_t elements = 1;
    for (int64_t i = 0; i < sizes.count; i++) elements *= sizes.items[i];
    if (elements == 1) return stored;  // a single element is taken from wherever it is
    return without_batch_in_lanes(arena, chip, stored, stored, HLO_ATTRIBUTES(gather, Gather)->start_index_map);
}

static const HloShape *made_by_gather(HloArena *arena, const EmuChip *chip, const HloInstruction *gather,
                                      const HloShape *shape) {
    const HloInts offsets = HLO_ATTRIBUTES(gather, Gather)->offset_dims;
    if (!offsets.count || shape->rank < 2) return shape;
    const int64_t minor = offsets.items[offsets.count - 1], last = shape->rank - 1;
    return with_minor(arena, chip, shape, minor, minor == last ? last - 1 : last);
}

// A top-k and a sort along the last dimension compare whole registers: rows are in the lanes, where they fill them.
static const HloShape *with_rows_in_lanes(HloArena *arena, const EmuChip *chip, const HloShape *stored) {
    const int64_t last = stored->rank - 1;
    if (last < 1 || stored->dims[last - 1] < 2 || emu_batch_fills_lanes(stored->dims[last], stored->dims[last - 1]))
        return stored;
    return with_minor(arena, chip, stored, last - 1, last);
}

static bool sorts_rows(const HloInstruction *sort) {
    if (!hlo_is(sort, HLO_OP_SORT) || sort->operand_count != 1) return false;
    const HloInts dims = HLO_ATTRIBUTES(sort, Sort)->dimensions;
    return dims.count == 1 && dims.items[0] == sort->shape->rank - 1;
}

// Whether a product or convolution rounds its f32 operands to bf16 before it multiplies them.
static bool rounds_operands(const HloInstruction *reader) {
    const bool is_dot = hlo_is(reader, HLO_OP_DOT);
    const HloPrecisions precision =
        is_dot ? HLO_ATTRIBUTES(reader, Dot)->precision : HLO_ATTRIBUTES(reader, Convolution)->precision;
    for (int64_t i = 0; i < precision.count; i++)
        if (precision.items[i] != HLO_Precision_DEFAULT) return false;
    return !is_dot || HLO_ATTRIBUTES(reader, Dot)->algorithm == HLO_DotAlgorithm_UNSET;
}

// A shape of f32 in bf16.
static HloShape *narrowed(HloArena *arena, const HloShape *shape) {
    HloShape *narrow = hlo_arena_copy(arena, shape, sizeof(*shape));
    narrow->type = HLO_BF16;
    return narrow;
}

// The array in the type that the systolic arrays multiply by default: copies of f32 are narrowed.
static const HloShape *as_multiplied(HloArena *arena, const HloInstruction *reader, const HloShape *stored) {
    return stored->type == HLO_F32 && rounds_operands(reader) ? narrowed(arena, stored) : stored;
}

// The most of an instruction of the vector unit that a product takes in before it rounds what it reads.
#define STEP_COST 1

// Whether an elementwise instruction makes a value of one other, with constants, in a cheap step.
static bool is_cheap_step(const HloInstruction *instruction) {
    // First what costs little to see: a tuple has tens of thousands of operands.
    if (instruction->shape->type != HLO_F32 || emu_instruction_class(instruction) != EMU_OP_VECTOR) return false;
    int64_t operands = 0;
    for (int32_t i = 0; i < instruction->operand_count && operands <= 1; i++) {
        const HloOpcode opcode = instruction->operands[i]->opcode;
        operands += opcode != HLO_OP_BROADCAST && opcode != HLO_OP_CONSTANT;
    }
    return operands == 1 && emu_instruction_vector_cost(instruction) <= STEP_COST;
}

// Whether all that reads a value, also through views, are products that round it; a cheap step may come between, if
// nothing else reads the value and no convolution makes it.
static bool is_only_multiplied(const HloInstruction *value) {
    if (!value->users.count || hlo_instruction_is_root(value)) return false;
    const bool may_step = !hlo_is(value, HLO_OP_CONVOLUTION);
    for (int64_t i = 0; i < value->users.count; i++) {
        const HloInstruction *user = value->users.items[i];
        const bool is_product = hlo_is(user, HLO_OP_DOT) || hlo_is(user, HLO_OP_CONVOLUTION);
        const bool passes = emu_is_view(user) || (may_step && value->users.count == 1 && is_cheap_step(user));
        if (is_product ? !rounds_operands(user) : !passes || !is_only_multiplied(user)) return false;
    }
    return true;
}

// A result of a product with a batch, which leads its dimensions, or one of the same size that follows in its kernel.
static const HloShape *made_by_product(HloArena *arena, const EmuChip *chip, const HloInstruction *product,
                                       const HloShape *shape) {
    int64_t dims[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int64_t count = HLO_ATTRIBUTES(product, Dot)->lhs_batch.count;
    if (count > (int64_t)(sizeof dims / sizeof *dims)) return shape;
    return without_batch_in_lanes(arena, chip, shape, shape, (HloInts){dims, count});
}

// The layout in which a kernel makes a result.
static const HloShape *made_in_layout(HloArena *arena, const EmuChip *chip, const EmuKernel *kernel,
                                      const HloInstruction *root) {
    if (hlo_is(root, HLO_OP_SELECT_AND_SCATTER)) return read_by_scatter(arena, chip, root, root->shape);
    if (hlo_is(root, HLO_OP_GATHER) && is_result(root)) return made_by_gather(arena, chip, root, root->shape);
    if (sorts_rows(root) && is_result(root)) return with_rows_in_lanes(arena, chip, root->shape);
    const int64_t elements = hlo_shape_elements(root->shape);
    for (int64_t m = 0; kernel->kind == EMU_OP_MATRIX && m < kernel->member_count; m++) {
        const HloInstruction *member = kernel->members[m];
        if (member->shape->rank != root->shape->rank || hlo_shape_elements(member->shape) != elements) continue;
        if (hlo_is(member, HLO_OP_CONVOLUTION)) return made_by_convolution(arena, chip, member, root->shape);
        if (hlo_is(member, HLO_OP_DOT) && is_result(root) &&
            hlo_shape_equal(member->shape, root->shape, HLO_COMPARE_DIMS_ONLY))
            return made_by_product(arena, chip, member, root->shape);
    }
    return root->shape;
}

const HloShape *emu_made_shape(HloArena *arena, const EmuChip *chip, const EmuKernel *kernel,
                               const HloInstruction *root) {
    if (!is_open(root)) return root->shape;
    const HloShape *made = made_in_layout(arena, chip, kernel, root);
    return made->type == HLO_F32 && is_only_multiplied(root) ? narrowed(arena, made) : made;
}

bool emu_same_minor(HloArena *arena, const EmuChip *chip, const HloShape *left, const HloShape *right) {
    if (left->rank != right->rank) return false;  // divided into groups
    if (left == right || left->rank < 2) return true;
    const HloInts a = order_of(arena, chip, left), b = order_of(arena, chip, right);
    return a.items[0] == b.items[0] && a.items[1] == b.items[1];
}

bool emu_same_lanes(HloArena *arena, const EmuChip *chip, const HloShape *left, const HloShape *right) {
    if (left->rank != right->rank) return false;  // divided into groups
    if (left == right || left->rank < 2) return true;
    return order_of(arena, chip, left).items[0] == order_of(arena, chip, right).items[0];
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

// An array whose lanes are positions of a window is rearranged: features go there, and the batch into the sublanes.
static const HloShape *with_lanes_of(HloArena *arena, const EmuChip *chip, const HloShape *stored, int64_t features,
                                     int64_t batch) {
    const int64_t minor = order_of(arena, chip, stored).items[0];
    if (minor == features || minor == batch || stored->dims[batch] < EMU_LEAST_BATCH) return stored;
    return with_minor(arena, chip, stored, features, batch);
}

// Kernel gradients have batch and features exchanged: the few come second in either case, and groups are those of the
// batch.
static const HloShape *read_by_convolution(HloArena *arena, const EmuChip *chip, const HloInstruction *reader,
                                           const HloShape *stored) {
    const EmuConvolution convolution = emu_convolution_of(reader);
    const HloConvolutionLabels *labels = convolution.labels;
    const int64_t features = labels->input_feature, batch = labels->input_batch;
    if (labels->input_spatial.count < 2) return stored;
    const bool of_batch = HLO_ATTRIBUTES(reader, Convolution)->batch_group_count > 1;
    const int64_t many = of_batch ? batch : features, other = of_batch ? features : batch;
    if (convolution.groups > 1 && stored->dims[other] >= EMU_LEAST_BATCH)
        return convolution.is_depthwise ? with_minor(arena, chip, stored, many, other)
                                        : of_groups(arena, chip, stored, many, other, convolution.groups);
    const HloShape *narrow = as_multiplied(arena, reader, stored);
    if (stored->dims[features] <= EMU_IMAGE_FEATURES && stored->dims[batch] >= EMU_LEAST_BATCH)
        return with_minor(arena, chip, narrow, batch, features);
    if (stored->dims[batch] <= EMU_IMAGE_FEATURES && stored->dims[features] >= EMU_LEAST_BATCH)
        return with_minor(arena, chip, narrow, features, batch);
    return with_lanes_of(arena, chip, stored, features, batch);
}

// A convolution that reads an array, where convolutions alone do, and at least one more of them is the gradient of a
// kernel; NULL else.
static const HloInstruction *forward_beside_gradient(const HloInstruction *array) {
    const HloInstruction *forward = NULL;
    bool has_gradient = false;
    for (int64_t i = 0; i < array->users.count; i++) {
        const HloInstruction *user = array->users.items[i];
        if (!hlo_is(user, HLO_OP_CONVOLUTION) || user->operands[0] != array || user->operands[1] == array) return NULL;
        if (emu_convolution_of(user).is_gradient)
            has_gradient = true;
        else
            forward = user;
    }
    return has_gradient ? forward : NULL;
}

// An array that a convolution and the gradient of its kernel read, and whose positions are in the sublanes, is
// rearranged once for both: with the batch in the lanes, where that fills them as well as the features.
static const HloShape *read_by_both(HloArena *arena, const EmuChip *chip, const HloInstruction *array,
                                    const HloShape *stored) {
    const HloInstruction *forward = forward_beside_gradient(array);
    if (!forward) return stored;
    const HloConvolutionLabels *labels = HLO_ATTRIBUTES(forward, Convolution)->labels;
    const int64_t features = labels->input_feature, batch = labels->input_batch;
    const HloInts order = order_of(arena, chip, stored);
    if (labels->input_spatial.count < 2 || order.items[0] != features || order.items[1] == batch) return stored;
    if (stored->dims[features] % 128 == 0 || emu_batch_fills_lanes(stored->dims[features], stored->dims[batch]))
        return stored;
    return with_minor(arena, chip, stored, batch, features);
}

const HloShape *emu_read_shape(HloArena *arena, const EmuChip *chip, const HloInstruction *reader, int32_t index,
                               const HloShape *stored) {
    const HloInstruction *operand = reader->operands[index];
    if (!is_open(operand)) return stored;
    if (!hlo_shape_equal(operand->shape, stored, HLO_COMPARE_DIMS_ONLY))
        return stored;  // the reader has another shape of it
    if (hlo_is(reader, HLO_OP_DOT)) {
        const HloDotAttributes *dot = HLO_ATTRIBUTES(reader, Dot);
        return without_batch_in_lanes(arena, chip, stored, as_multiplied(arena, reader, stored),
                                      index ? dot->rhs_batch : dot->lhs_batch);
    }
    if (index == 1) {  // a kernel, or the gradient of a result in its place
        if (!hlo_is(reader, HLO_OP_CONVOLUTION) || !emu_convolution_of(reader).is_gradient) return stored;
        const HloConvolutionLabels *labels = HLO_ATTRIBUTES(reader, Convolution)->labels;
        return with_lanes_of(arena, chip, stored, labels->kernel_output_feature, labels->kernel_input_feature);
    }
    if (hlo_is(reader, HLO_OP_GATHER)) return read_by_gather(arena, chip, reader, stored);
    if (hlo_is(reader, HLO_OP_TOPK) || sorts_rows(reader)) return with_rows_in_lanes(arena, chip, stored);
    if (hlo_is(reader, HLO_OP_REDUCE_WINDOW)) return read_by_window(arena, chip, reader, stored);
    if (hlo_is(reader, HLO_OP_SELECT_AND_SCATTER)) return read_by_scatter(arena, chip, reader, stored);
    if (!hlo_is(reader, HLO_OP_CONVOLUTION)) return stored;
    // Another dimension comes into the sublanes while the kernel reads, but not into the lanes.
    const HloShape *wanted = read_by_convolution(arena, chip, reader, stored);
    if (emu_same_lanes(arena, chip, stored, wanted)) wanted = read_by_both(arena, chip, operand, stored);
    return emu_same_lanes(arena, chip, stored, wanted) ? stored : wanted;
}
