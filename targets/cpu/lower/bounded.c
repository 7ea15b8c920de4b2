// SPDX-License-Identifier: Apache-2.0
// A buffer of bounded dynamic size has room for as many elements as its bounds allow. The existing elements come first,
// without gaps; after the bounds, from the next multiple of four bytes on, each dimension's size follows as an s32.
// Programs work on static arrays with separate sizes (hlo/pass/pad/padder.h). The two custom calls here convert between
// the forms where such an array enters or leaves a program. They are XLA's PadToStatic and SliceToDynamic.
#include <assert.h>
#include <string.h>

#include "targets/cpu/graph/bounded.h"
#include "targets/cpu/lower/lower.h"

// Copies between an array with the shape of its bounds and one without gaps. `row` is the distance of neighbours along
// `dim` in the former. Runs of the innermost dimension are copied in one piece.
static void copy_rows(const HloShape *shape, const int32_t *sizes, int32_t dim, char **bounded, char **dense,
                      bool pack) {
    const int64_t width = hlo_type_bytes(shape->type);
    int64_t row = width;
    for (int32_t d = dim + 1; d < shape->rank; d++) row *= shape->dims[d];
    if (dim + 1 >= shape->rank) {
        const int64_t bytes = shape->rank ? sizes[dim] * width : width;
        memcpy(pack ? *dense : *bounded, pack ? *bounded : *dense, (size_t)bytes);
        *dense += bytes;
        return;
    }
    for (int64_t i = 0; i < sizes[dim]; i++) {
        char *inner = *bounded + i * row;
        copy_rows(shape, sizes, dim + 1, &inner, dense, pack);
    }
}

// Clamps a size given by the caller to its bound.
static int32_t within(int32_t size, int64_t bound) {
    return size < 0 ? 0 : size > bound ? (int32_t)bound : size;
}

// Zeroes the space between the array and its bounds: kernels may compute with it before it is masked, and the bits of a
// result must not depend on the previous contents of memory.
static HloStatus run_pad_to_static(const void *data, void *const *arguments, CpuPool *pool) {
    (void)pool;
    const HloShape *shape = data;
    const int32_t *given = cpu_buffer_sizes(shape, arguments[0]);
    int32_t sizes[64];
    assert(shape->rank <= (int32_t)HLO_COUNT_OF(sizes)); /* checked by lowering */
    for (int32_t d = 0; d < shape->rank; d++)
        *(int32_t *)arguments[2 + d] = sizes[d] = within(given[d], shape->dims[d]);
    char *dense = arguments[0], *bounded = arguments[1];
    memset(bounded, 0, (size_t)hlo_shape_bytes(shape));
    copy_rows(shape, sizes, 0, &bounded, &dense, false);
    return HLO_SUCCESS;
}

static HloStatus run_slice_to_dynamic(const void *data, void *const *arguments, CpuPool *pool) {
    (void)pool;
    const HloShape *shape = data;
    char *bounded = arguments[0], *dense = arguments[1 + shape->rank];
    int32_t *sizes = cpu_buffer_sizes(shape, dense);
    memset(dense, 0, (size_t)hlo_shape_bytes(shape));
    for (int32_t d = 0; d < shape->rank; d++) sizes[d] = within(*(const int32_t *)arguments[1 + d], shape->dims[d]);
    copy_rows(shape, sizes, 0, &bounded, &dense, true);
    return HLO_SUCCESS;
}

// Checks the sizes in the buffer, which the kernels also need. hlo_custom_call_check() has checked that `array` and the
// scalars that come with it match.
static HloStatus check(const CpuNode *node, const HloShape *array, int64_t scalars) {
    assert(array->rank <= HLO_MAXIMUM_RANK && scalars == array->rank);
    HLO_FAIL_IF(!hlo_shape_is_dynamic(array), HLO_INVALID_ARGUMENT, "%%%s (%s): no dimension has dynamic size",
                node->instruction->name, HLO_ATTRIBUTES(node->instruction, CustomCall)->target);
    return HLO_SUCCESS;
}

// Copies a shape to the executable's arena: steps outlive the module that was compiled.
static const HloShape *kept(const CpuLowering *lowering, const HloShape *shape) {
    return hlo_shape_copy(lowering->arena, hlo_shape_without_layout(lowering->arena, shape));
}

HloStatus cpu_lower_pad_to_static(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const HloShape *shape = node->operands[0]->shape;
    HLO_TRY(check(node, shape, node->result_count - 1));
    cpu_step_kernel(lowering, node, step, run_pad_to_static, kept(lowering, shape));
    return HLO_SUCCESS;
}

HloStatus cpu_lower_slice_to_dynamic(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const HloShape *shape = node->results[0]->shape;
    HLO_TRY(check(node, shape, node->operand_count - 1));
    cpu_step_kernel(lowering, node, step, run_slice_to_dynamic, kept(lowering, shape));
    return HLO_SUCCESS;
}
