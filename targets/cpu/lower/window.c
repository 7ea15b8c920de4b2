// SPDX-License-Identifier: Apache-2.0
// Lowers windows: reduce-window (prefix sums among them) and select-and-scatter. A reduce-window runs in one of three
// ways, best first: as a scan along one dimension if the window covers everything up to each element (as in cumulative
// sums), with one operation per element instead of one per window position; by a kernel with the operation built in; by
// calling the computation for each element of each window, with a cost that lets the scheduler divide the work.
#include <assert.h>

#include "hlo/ir/infer/support.h"
#include "targets/cpu/kernels/window.h"
#include "targets/cpu/lower/scalar.h"

typedef struct WindowKernel {
    HloType type;
    const HloType *types;
    int32_t count;
    int rank;
    const int64_t *in_sizes, *out_sizes;
    const CpuWindowDim *window;
    CpuReduceOp op;
    CpuLoopOp select;
    const CpuScalarFunction *function;  // NULL: the operation above
    const CpuScalarFunction *chooser;   // of select-and-scatter, where the functions are not operations
    int64_t outer, length, inner;       // for a prefix scan
    int64_t lanes;                      // columns that a scan by the function processes together
    bool reverse;
} WindowKernel;

// Copies the window. An instruction without a window has one of size 1 in every dimension. Window positions that are
// always in padding are dropped here, once for all kernels: otherwise each element would visit them, and even a simple
// window may have many.
static const CpuWindowDim *copy_window(HloArena *arena, const HloWindow *window, const HloShape *in,
                                       const HloShape *windowed) {
    CpuWindowDim *dims = HLO_ARENA_NEW(arena, CpuWindowDim, in->rank);
    for (int64_t d = 0; d < in->rank; d++) {
        const HloWindowDimension whole =
            window && d < window->count
                ? window->dims[d]
                : (HloWindowDimension){.size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1};
        const HloWindowDimension from = hlo_window_crop(whole, in->dims[d], windowed->dims[d]);
        dims[d] = (CpuWindowDim){from.size,         from.stride,        from.padding_low,
                                 from.padding_high, from.base_dilation, from.window_dilation};
    }
    return dims;
}

// Whether the window kernels have the type's arithmetic built in.
static bool has_builtin(HloType type) {
    return type != HLO_PRED && !hlo_type_is_complex(type) && hlo_type_info(type)->bits >= 8 &&
           !(hlo_type_is_float(type) && hlo_type_info(type)->bits < 16);
}

// Recognises a prefix scan: a window that covers everything up to (or from) each element along one dimension.
static bool read_scan(const CpuWindowDim *window, const HloShape *shape, WindowKernel *kernel) {
    int64_t along = -1;
    for (int64_t d = 0; d < shape->rank; d++) {
        const CpuWindowDim w = window[d];
        if (w.stride != 1 || w.base_dilation != 1 || w.window_dilation != 1) return false;
        if (w.size == 1 && w.padding_low == 0 && w.padding_high == 0) continue;
        const bool forward = w.padding_low == w.size - 1 && w.padding_high == 0;
        const bool backward = w.padding_high == w.size - 1 && w.padding_low == 0;
        if (along >= 0 || w.size != shape->dims[d] || (!forward && !backward)) return false;
        along = d;
        kernel->reverse = backward;
    }
    if (along < 0) return false;
    kernel->outer = kernel->inner = 1;
    kernel->length = shape->dims[along];
    for (int64_t d = 0; d < along; d++) kernel->outer *= shape->dims[d];
    for (int64_t d = along + 1; d < shape->rank; d++) kernel->inner *= shape->dims[d];
    return true;
}

static HloStatus run_scan(const void *data, void *const *arguments, CpuPool *pool) {
    const WindowKernel *k = data;
    return cpu_scan(pool, k->type, k->op, k->reverse, k->outer, k->length, k->inner, arguments[1], arguments[2],
                    arguments[0]);
}

static HloStatus run_window(const void *data, void *const *arguments, CpuPool *pool) {
    const WindowKernel *k = data;
    return cpu_reduce_window(pool, k->type, k->op, k->rank, k->in_sizes, k->out_sizes, k->window, arguments[1],
                             arguments[2], arguments[0]);
}

static HloStatus run_window_call(const void *data, void *const *arguments, CpuPool *pool) {
    const WindowKernel *k = data;
    const void *const *inputs = (const void *const *)arguments;
    return cpu_reduce_window_call(pool, k->count, k->types, k->rank, k->in_sizes, k->out_sizes, k->window,
                                  inputs + k->count, arguments + 2 * k->count, inputs, cpu_scalar_combine,
                                  (void *)(uintptr_t)k->function);
}

static HloStatus run_scan_call(const void *data, void *const *arguments, CpuPool *pool) {
    const WindowKernel *k = data;
    const void *const *inputs = (const void *const *)arguments;
    const CpuLanesScan scan = {.count = k->count,
                               .types = k->types,
                               .reverse = k->reverse,
                               .outer = k->outer,
                               .length = k->length,
                               .inner = k->inner,
                               .lanes = k->lanes,
                               .combine = cpu_scalar_combine_lanes,
                               .context = (void *)(uintptr_t)k->function};
    return cpu_scan_lanes(pool, &scan, inputs + k->count, arguments + 2 * k->count, inputs);
}

// Makes a kernel. `windowed` is the array with one element per window: the result of a reduce-window, the source of a
// select-and-scatter.
static WindowKernel *new_kernel(CpuLowering *lowering, const CpuNode *node, const HloShape *windowed) {
    HloArena *arena = lowering->arena;
    WindowKernel *kernel = HLO_ARENA_NEW(arena, WindowKernel, 1);
    const HloShape *in = node->operands[0]->shape;
    kernel->type = in->type;
    kernel->rank = in->rank;
    kernel->in_sizes = cpu_copy_dims(arena, in);
    kernel->out_sizes = cpu_copy_dims(arena, windowed);
    kernel->window = copy_window(arena, HLO_ATTRIBUTES(node->instruction, Window)->window, in, windowed);
    return kernel;
}

static int64_t window_elements(const WindowKernel *kernel) {
    int64_t product = 1;
    for (int d = 0; d < kernel->rank; d++) product *= kernel->window[d].size;
    return product;
}

// Whether the computation is of this type. A plain sum or product may be declared in another type than the elements
// have (hlo_eval_check_types()). Called unchanged, it would read elements of that type.
static bool is_of(const HloComputation *computation, HloType type) {
    return computation->parameters.items[0]->shape->type == type;
}

// Lowers a scan by a computation that is not an operation of a kernel. For windows that reach back, the scan equals the
// definition bit by bit. For windows that reach ahead, the definition starts again at each position, so a scan from the
// far end associates differently, as HLO allows and XLA does. Short ones, which cost little, are left to the
// definition.
static bool lower_scan_call(CpuLowering *lowering, CpuNode *node, WindowKernel *kernel, CpuStep *step) {
    enum { kLanes = 128, kShort = 32 };
    if (!read_scan(kernel->window, node->operands[0]->shape, kernel)) return false;
    const int64_t columns = kernel->outer * kernel->inner;
    if (columns == 0 || (kernel->reverse && kernel->length <= kShort)) return false;
    kernel->lanes = columns < kLanes ? columns : kLanes;
    kernel->function = cpu_scalar_compile_lanes(lowering, node->instruction->called[0], kernel->lanes);
    if (!kernel->function) return false;
    cpu_step_kernel(lowering, node, step, run_scan_call, kernel);
    step->cost *= 20;
    return true;
}

// Tries in order of speed: running totals by a built-in op, which need one operation per element however long the
// window is; windows by a built-in op; running totals by the compiled computation; otherwise a call of it for each
// element of each window.
HloStatus cpu_lower_reduce_window(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const HloComputation *computation = node->instruction->called[0];
    WindowKernel *kernel = new_kernel(lowering, node, node->results[0]->shape);
    kernel->count = node->operand_count / 2;
    const bool builtin = kernel->count == 1 && has_builtin(kernel->type) &&
                         cpu_emit_reduce_op(hlo_computation_binary_opcode(computation), kernel->type, &kernel->op);
    if (builtin && read_scan(kernel->window, node->operands[0]->shape, kernel)) {
        cpu_step_kernel(lowering, node, step, run_scan, kernel);
        return HLO_SUCCESS;
    }
    if (builtin) {
        cpu_step_kernel(lowering, node, step, run_window, kernel);
        step->cost *= 4;
        return HLO_SUCCESS;
    }
    if (3 * kernel->count > CPU_SCALAR_LIMIT || !is_of(computation, node->operands[0]->shape->type))
        return cpu_lower_give_up(lowering, node);
    HloType *types = HLO_ARENA_NEW(lowering->arena, HloType, kernel->count);
    for (int32_t i = 0; i < kernel->count; i++) types[i] = node->operands[i]->shape->type;
    kernel->types = types;
    if (lower_scan_call(lowering, node, kernel, step)) return HLO_SUCCESS;
    kernel->function = cpu_scalar_compile(lowering, computation);
    if (!kernel->function) return cpu_lower_give_up(lowering, node);
    cpu_step_kernel(lowering, node, step, run_window_call, kernel);
    step->cost *= 100 * (double)window_elements(kernel);
    return HLO_SUCCESS;
}

// ---- select-and-scatter

static HloStatus run_select(const void *data, void *const *arguments, CpuPool *pool) {
    const WindowKernel *k = data;
    return cpu_select_and_scatter(pool, k->type, k->select, k->op, k->rank, k->in_sizes, k->out_sizes, k->window,
                                  arguments[2], arguments[3], arguments[0], arguments[1]);
}

static HloStatus run_select_call(const void *data, void *const *arguments, CpuPool *pool) {
    const WindowKernel *k = data;
    return cpu_select_and_scatter_call(pool, k->type, k->rank, k->in_sizes, k->out_sizes, k->window, arguments[2],
                                       arguments[3], arguments[0], arguments[1], cpu_scalar_keeps,
                                       (void *)(uintptr_t)k->chooser, cpu_scalar_combine,
                                       (void *)(uintptr_t)k->function);
}

// Compiles and calls both computations, either of which may be any.
static HloStatus lower_select_call(CpuLowering *lowering, CpuNode *node, WindowKernel *kernel, CpuStep *step) {
    if (!is_of(node->instruction->called[1], kernel->type)) return cpu_lower_give_up(lowering, node);
    kernel->chooser = cpu_scalar_compile(lowering, node->instruction->called[0]);
    kernel->function = cpu_scalar_compile(lowering, node->instruction->called[1]);
    if (!kernel->chooser || !kernel->function) return cpu_lower_give_up(lowering, node);
    cpu_step_kernel(lowering, node, step, run_select_call, kernel);
    step->cost *= 100 * (double)window_elements(kernel);
    return HLO_SUCCESS;
}

// Recognises compare(parameter 0, parameter 1) with GE or LE.
static bool select_op(const HloComputation *computation, CpuLoopOp *op) {
    const HloInstruction *root = computation->root;
    if (root->opcode != HLO_OP_COMPARE || root->operands[0] != computation->parameters.items[0] ||
        root->operands[1] != computation->parameters.items[1])
        return false;
    const int32_t direction = HLO_ATTRIBUTES(root, Compare)->direction;
    *op = direction == HLO_ComparisonDirection_GE ? CPU_OP_GE : CPU_OP_LE;
    return direction == HLO_ComparisonDirection_GE || direction == HLO_ComparisonDirection_LE;
}

HloStatus cpu_lower_select_and_scatter(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node->operand_count == 3);
    WindowKernel *kernel = new_kernel(lowering, node, node->operands[1]->shape);
    if (!has_builtin(kernel->type) || !select_op(node->instruction->called[0], &kernel->select) ||
        !cpu_emit_reduce_op(hlo_computation_binary_opcode(node->instruction->called[1]), kernel->type, &kernel->op))
        return lower_select_call(lowering, node, kernel, step);
    cpu_step_kernel(lowering, node, step, run_select, kernel);
    step->cost *= 8;
    return HLO_SUCCESS;
}
