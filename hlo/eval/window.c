// SPDX-License-Identifier: Apache-2.0
// reduce-window and select-and-scatter.
//
// reduce-window iterates over the elements of the window in its outer loop and over the outputs in its inner one. For a
// fixed element of the window, the inputs of neighbouring outputs are neighbours too, so one step of the fold takes a
// run of them. Each output still combines its elements in row-major order of the window. Padding is skipped, not added
// as the initial value; for every neutral initial value the result is the same.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"
#include "hlo/ir/infer/support.h"

// The index in one dimension of the operand of window element `w` at output position `o`, or -1 in padding and in the
// holes of a dilated operand.
static int64_t window_position(const HloWindowDimension *dim, int64_t size, int64_t o, int64_t w) {
    int64_t position = o * dim->stride + w * dim->window_dilation - dim->padding_low;
    if (position < 0 || position % dim->base_dilation != 0) return -1;
    position /= dim->base_dilation;
    return position < size ? position : -1;
}

// A window that slides over an array, one row of outputs (along the last dimension) at a time.
typedef struct WindowWalk {
    const HloShape *input;
    const int64_t *output_dims;
    const HloWindowDimension *window;
    int64_t *window_sizes, *window_index, *output_index, *strides;
    int64_t rank;
} WindowWalk;

// Allocates scratch of the current instruction; all indices start at zero. Only window positions that some output reads
// are walked: the rest of an immense window is padding.
static WindowWalk new_walk(HloEvalDevice *device, const HloShape *input, const int64_t *output_dims,
                           const HloWindow *whole) {
    WindowWalk walk = {.input = input, .output_dims = output_dims, .rank = input->rank};
    HloWindowDimension *window = HLO_EVAL_SCRATCH(device, HloWindowDimension, walk.rank);
    walk.window = window;
    walk.window_sizes = HLO_EVAL_SCRATCH(device, int64_t, walk.rank);
    for (int64_t i = 0; i < walk.rank; i++) {
        window[i] = hlo_window_crop(whole->dims[i], input->dims[i], output_dims[i]);
        walk.window_sizes[i] = window[i].size;
    }
    walk.window_index = HLO_ARENA_NEW(device->scratch, int64_t, walk.rank);
    walk.output_index = HLO_ARENA_NEW(device->scratch, int64_t, walk.rank);
    walk.strides = HLO_EVAL_SCRATCH(device, int64_t, walk.rank);
    hlo_eval_strides(input->dims, walk.rank, walk.strides);
    return walk;
}

// Linear position in the input for the current indices of the first `dims` dimensions; -1 outside.
static int64_t walk_offset(const WindowWalk *walk, int64_t dims) {
    assert(dims >= 0);
    int64_t offset = 0;
    for (int64_t i = 0; i < dims; i++) {
        int64_t position =
            window_position(&walk->window[i], walk->input->dims[i], walk->output_index[i], walk->window_index[i]);
        if (position < 0) return -1;
        offset += position * walk->strides[i];
    }
    return offset;
}

// Adds the current window element to the row of outputs that starts at linear position `first`.
static HloStatus fold_row(const WindowWalk *walk, HloEvalFold *fold, HloEvalValue *const *operands, int64_t count,
                          int64_t first) {
    assert(count > 0 && first >= 0);
    int64_t last = walk->rank - 1, offset = walk_offset(walk, last);
    if (offset < 0) return HLO_SUCCESS;
    const HloWindowDimension *dim = &walk->window[last];
    int64_t outputs = walk->output_dims[last], size = walk->input->dims[last];
    for (int64_t o = 0; o < outputs;) {
        int64_t position = window_position(dim, size, o, walk->window_index[last]), run = 1;
        if (position < 0) {
            o++;
            continue;
        }
        if (dim->stride == 1 && dim->base_dilation == 1) {
            run = outputs - o < size - position ? outputs - o : size - position;
        }
        const void *inputs[HLO_EVAL_MAX_VALUES];
        for (int64_t v = 0; v < count; v++) {
            inputs[v] =
                (const char *)operands[v]->data + (offset + position) * hlo_type_bytes(operands[v]->shape->type);
        }
        HLO_TRY(hlo_eval_fold_add(fold, first + o, inputs, run));
        o += run;
    }
    return HLO_SUCCESS;
}

// Windows have at least one element (hlo_infer_window_output()).
static HloStatus fold_windows(WindowWalk *walk, HloEvalFold *fold, HloEvalValue *const *operands, int64_t count) {
    assert(count > 0);
    do {
        int64_t first = 0;
        do {
            HLO_TRY(fold_row(walk, fold, operands, count, first));
            first += walk->output_dims[walk->rank - 1];
        } while (hlo_eval_next_index(walk->output_dims, walk->rank - 1, walk->output_index));
    } while (hlo_eval_next_index(walk->window_sizes, walk->rank, walk->window_index));
    return HLO_SUCCESS;
}

// A scalar has a window of one element.
HloStatus hlo_eval_reduce_window(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                 HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_REDUCE_WINDOW));
    int64_t count = instruction->operand_count / 2;
    const HloShape *shape = hlo_shape_value(instruction->shape, 0);
    int64_t elements = hlo_shape_elements(shape);
    HloEvalFold *fold;
    HLO_TRY(hlo_eval_fold_new(device, instruction->called[0], operands + count, count, elements, elements, &fold));
    if (shape->rank == 0) {
        const void *inputs[HLO_EVAL_MAX_VALUES];
        for (int64_t v = 0; v < count; v++) inputs[v] = operands[v]->data;
        HLO_TRY(hlo_eval_fold_add(fold, 0, inputs, 1));
    } else if (elements > 0) {
        WindowWalk walk =
            new_walk(device, operands[0]->shape, shape->dims, HLO_ATTRIBUTES(instruction, Window)->window);
        HLO_TRY(fold_windows(&walk, fold, operands, count));
    }
    HloEvalValue *arrays[HLO_EVAL_MAX_VALUES];
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, count, result, arrays));
    for (int64_t v = 0; v < count; v++) hlo_eval_fold_write(fold, v, arrays[v]->data);
    return HLO_SUCCESS;
}

// The position in the operand that is selected in the window of the walk's current output, or -1 when the window
// contains only padding: the first stays while select(it, candidate) holds.
static HloStatus select_in_window(WindowWalk *walk, HloEvalScalar *select, const char *data, int64_t bytes,
                                  int64_t *selected) {
    assert(bytes > 0 && selected);
    *selected = -1;
    memset(walk->window_index, 0, (size_t)walk->rank * sizeof(int64_t));
    do {
        int64_t offset = walk_offset(walk, walk->rank);
        if (offset < 0) continue;
        uint8_t keep = 0;
        if (*selected >= 0) {
            const void *inputs[2] = {data + *selected * bytes, data + offset * bytes};
            void *outputs[1] = {&keep};
            HLO_TRY(hlo_eval_scalar_call(select, inputs, outputs, 1));
        }
        if (!keep) *selected = offset;
    } while (hlo_eval_next_index(walk->window_sizes, walk->rank, walk->window_index));
    return HLO_SUCCESS;
}

// Processes windows in row-major order of the source: the source's element is added to the selected element, in that
// order.
HloStatus hlo_eval_select_and_scatter(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                      HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_SELECT_AND_SCATTER));
    const HloEvalValue *operand = operands[0], *source = operands[1];
    HloEvalScalar *select;
    HloEvalFold *fold;
    int64_t elements = hlo_eval_elements(operand), bytes = hlo_type_bytes(operand->shape->type);
    HLO_TRY(hlo_eval_scalar_prepare(device, instruction->called[0], 1, &select));
    HLO_TRY(hlo_eval_fold_new(device, instruction->called[1], operands + 2, 1, elements, 1, &fold));
    WindowWalk walk =
        new_walk(device, operand->shape, source->shape->dims, HLO_ATTRIBUTES(instruction, Window)->window);
    int64_t sources = hlo_eval_elements(source);
    for (int64_t s = 0; s < sources; s++) {
        int64_t selected;
        HLO_TRY(select_in_window(&walk, select, operand->data, bytes, &selected));
        const void *inputs[1] = {(const char *)source->data + s * bytes};
        if (selected >= 0) HLO_TRY(hlo_eval_fold_add(fold, selected, inputs, 1));
        hlo_eval_next_index(source->shape->dims, walk.rank, walk.output_index);
    }
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    hlo_eval_fold_write(fold, 0, (*result)->data);
    return HLO_SUCCESS;
}
