// SPDX-License-Identifier: Apache-2.0
// Shape inference of reductions, map, sort, top-k and scan.
//
//   reduce  n arrays of equal dimensions and n initial scalars; the reducer takes 2n scalars (accumulators, then
//           elements) and returns n. The result's element types are the reducer's: f32 sums of bf16 are allowed.
//   sort    n arrays; the comparator takes 2n scalars, in pairs (left, right) for each array, and returns pred[]
//   topk    (values, s32 indices), the last dimension shortened to k
//   scan    the body takes slices of the inputs and the carries, and returns slices of the outputs and the carries
#include <assert.h>

#include "hlo/ir/infer/reducer.h"

// The shape of result `index` of a computation that returns one value or a tuple of `count`; NULL if it does not.
static const HloShape *called_result(const HloComputation *called, int64_t index, int64_t count) {
    const HloShape *root = called->root->shape;
    if (hlo_shape_is_tuple(root)) return root->element_count == count ? root->elements[index] : NULL;
    return count == 1 ? root : NULL;
}

HloStatus hlo_infer_check_reducer(const HloInferRequest *request, const HloType *types, int64_t count) {
    HLO_TRY(hlo_infer_need_called(request, 1));
    const HloShape **expected = HLO_ARENA_NEW(request->arena, const HloShape *, 2 * count);
    for (int64_t i = 0; i < count; i++) {
        expected[i] = expected[count + i] = hlo_shape_scalar(request->arena, types[i]);
    }
    HLO_TRY(hlo_infer_check_parameters(request, 0, expected, 2 * count));
    for (int64_t i = 0; i < count; i++) {
        const HloShape *given = called_result(request->called[0], i, count);
        HLO_REFUSE_IF(!given || !hlo_shapes_mix(given, expected[i]),
                      "computation %s returns %s, but must return %lld scalars, the first of type %s",
                      request->called[0]->name, hlo_shape_message(request->arena, request->called[0]->root->shape),
                      (long long)count, hlo_shape_message(request->arena, expected[0]));
    }
    return HLO_SUCCESS;
}

HloStatus hlo_infer_reduction_operands(const HloInferRequest *request) {
    HLO_REFUSE_IF(request->operand_count < 2 || request->operand_count % 2 != 0,
                  "%lld operands: needs as many initial values as arrays", (long long)request->operand_count);
    HLO_TRY(hlo_infer_need_arrays(request));
    int64_t count = request->operand_count / 2;
    HloDims dims = hlo_dims_of(request->arena, request->operands[0]);
    HloType *types = HLO_ARENA_NEW(request->arena, HloType, count);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *array = request->operands[i], *initial = request->operands[count + i];
        types[i] = array->type;
        HLO_TRY(hlo_infer_merge_dims(request->arena, &dims, array, i));
        HLO_REFUSE_IF(initial->rank != 0 || !hlo_types_mix(initial->type, array->type),
                      "initial value %lld must be a scalar of type %s, not %s", (long long)i,
                      hlo_type_text(array->type), hlo_shape_message(request->arena, initial));
    }
    return hlo_infer_check_reducer(request, types, count);
}

// Arrays of dimensions `dims` with the element types of the reducer's results: one, or a tuple of N.
static HloStatus reduction_result(const HloInferRequest *request, const HloDims *dims, const HloShape **result) {
    int64_t count = request->operand_count / 2;
    const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, count);
    for (int64_t i = 0; i < count; i++) {
        HLO_TRY(hlo_dims_shape(request->arena, called_result(request->called[0], i, count)->type, dims, &elements[i]));
    }
    bool tuple = hlo_shape_is_tuple(request->called[0]->root->shape);
    *result = tuple ? hlo_shape_tuple(request->arena, elements, count) : elements[0];
    return HLO_SUCCESS;
}

HloStatus hlo_infer_reduce(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_REDUCE);
    HLO_TRY(hlo_infer_reduction_operands(request));
    HloInts reduced = HLO_INFER_ATTRIBUTES(request, Dimensions)->dimensions;
    const HloShape *array = request->operands[0];
    HLO_TRY(hlo_infer_check_dimensions(request->arena, reduced, array->rank, "dimensions"));
    HloDims dims = hlo_dims_new(request->arena, array->rank - reduced.count);
    int64_t at = 0;
    for (int64_t i = 0; i < array->rank; i++) {
        if (!hlo_ints_contain(reduced, i)) hlo_dims_take(&dims, at++, array, i);
    }
    return reduction_result(request, &dims, result);
}

// The computation takes one scalar of each array and returns one; `dimensions` must list all dimensions, in order.
HloStatus hlo_infer_map(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_MAP);
    HLO_REFUSE_IF(request->operand_count == 0, "no operands");
    HLO_TRY(hlo_infer_need_arrays(request));
    HLO_TRY(hlo_infer_need_called(request, 1));
    HloInts dimensions = HLO_INFER_ATTRIBUTES(request, Dimensions)->dimensions;
    HloDims dims = hlo_dims_of(request->arena, request->operands[0]);
    HLO_REFUSE_IF(dimensions.count != dims.rank, "dimensions %s do not include all dimensions of %s",
                  hlo_ints_message(request->arena, dimensions),
                  hlo_shape_message(request->arena, request->operands[0]));
    for (int64_t i = 0; i < dims.rank; i++) {
        HLO_REFUSE_IF(dimensions.items[i] != i, "dimensions %s are not in ascending order",
                      hlo_ints_message(request->arena, dimensions));
    }
    const HloShape **scalars = HLO_ARENA_NEW(request->arena, const HloShape *, request->operand_count);
    for (int64_t i = 0; i < request->operand_count; i++) {
        HLO_TRY(hlo_infer_merge_dims(request->arena, &dims, request->operands[i], i));
        scalars[i] = hlo_shape_scalar(request->arena, request->operands[i]->type);
    }
    HLO_TRY(hlo_infer_check_parameters(request, 0, scalars, request->operand_count));
    const HloShape *root = request->called[0]->root->shape;
    HLO_REFUSE_IF(!hlo_shape_is_scalar(root), "the computation must return a scalar, not %s",
                  hlo_shape_message(request->arena, root));
    return hlo_dims_shape(request->arena, root->type, &dims, result);
}

HloStatus hlo_infer_sort(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_SORT);
    int64_t count = request->operand_count;
    HLO_REFUSE_IF(count == 0, "no operands");
    HLO_TRY(hlo_infer_need_arrays(request));
    HLO_TRY(hlo_infer_need_called(request, 1));
    HloInts dimensions = HLO_INFER_ATTRIBUTES(request, Sort)->dimensions;
    HloDims dims = hlo_dims_of(request->arena, request->operands[0]);
    HLO_REFUSE_IF(dimensions.count != 1, "%lld dimensions instead of one", (long long)dimensions.count);
    HLO_TRY(hlo_infer_check_dimensions(request->arena, dimensions, dims.rank, "dimensions"));
    const HloShape **scalars = HLO_ARENA_NEW(request->arena, const HloShape *, 2 * count);
    const HloShape **results = HLO_ARENA_NEW(request->arena, const HloShape *, count);
    for (int64_t i = 0; i < count; i++) {
        HLO_TRY(hlo_infer_merge_dims(request->arena, &dims, request->operands[i], i));
        results[i] = hlo_shape_without_layout(request->arena, request->operands[i]);
        scalars[2 * i] = scalars[2 * i + 1] = hlo_shape_scalar(request->arena, results[i]->type);
    }
    HLO_TRY(hlo_infer_check_parameters(request, 0, scalars, 2 * count));
    const HloShape *root = request->called[0]->root->shape;
    HLO_REFUSE_IF(!hlo_shape_is_scalar(root) || root->type != HLO_PRED, "the comparator must return pred[], not %s",
                  hlo_shape_message(request->arena, root));
    *result = hlo_infer_one_or_tuple(request->arena, results, count);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_topk(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_TOPK);
    assert(request->operand_count == 1);
    int64_t k = HLO_INFER_ATTRIBUTES(request, TopK)->k;
    HLO_TRY(hlo_infer_need_array(request, 0));
    const HloShape *operand = request->operands[0];
    HLO_REFUSE_IF(operand->rank == 0, "top-k of a scalar");
    int64_t last = operand->rank - 1;
    HLO_REFUSE_IF(k < 0 || (operand->dims[last] != HLO_UNBOUNDED && k > operand->dims[last]),
                  "k=%lld of a last dimension of size %lld", (long long)k, (long long)operand->dims[last]);
    HloDims dims = hlo_dims_of(request->arena, operand);
    dims.sizes[last] = k;
    dims.dynamic[last] = false;
    const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, 2);
    HLO_TRY(hlo_dims_shape(request->arena, operand->type, &dims, &elements[0]));
    HLO_TRY(hlo_dims_shape(request->arena, HLO_S32, &dims, &elements[1]));
    *result = hlo_shape_tuple(request->arena, elements, 2);
    return HLO_SUCCESS;
}

// `shape` with a dimension taken from `from` inserted at `dimension`.
static HloStatus with_dimension(const HloInferRequest *request, const HloShape *shape, int64_t dimension,
                                const HloShape *from, const HloShape **result) {
    HLO_REFUSE_IF(!hlo_shape_is_array(shape) || dimension > shape->rank, "cannot stack %s along dimension %lld",
                  hlo_shape_message(request->arena, shape), (long long)dimension);
    HloDims dims = hlo_dims_new(request->arena, shape->rank + 1);
    for (int64_t i = 0; i < dims.rank; i++) {
        if (i == dimension)
            hlo_dims_take(&dims, i, from, dimension);
        else
            hlo_dims_take(&dims, i, shape, i - (i > dimension));
    }
    return hlo_dims_shape(request->arena, shape->type, &dims, result);
}

// Checks the parameters of the computation: the inputs without the scanned dimension, then the carries.
static HloStatus check_scan_operands(const HloInferRequest *request, int64_t dimension, int64_t inputs) {
    const HloShape **taken = HLO_ARENA_NEW(request->arena, const HloShape *, request->operand_count);
    for (int64_t i = 0; i < request->operand_count; i++) {
        const HloShape *operand = request->operands[i];
        taken[i] = operand;
        if (i >= inputs) continue;
        HLO_TRY(hlo_infer_need_array(request, i));
        HLO_REFUSE_IF(operand->rank <= dimension ||
                          !hlo_sizes_agree(operand->dims[dimension], request->operands[0]->dims[dimension]),
                      "operand %lld is %s: dimension %lld does not agree with operand 0", (long long)i,
                      hlo_shape_message(request->arena, operand), (long long)dimension);
        HloDims dims = hlo_dims_new(request->arena, operand->rank - 1);
        for (int64_t d = 0; d < dims.rank; d++) hlo_dims_take(&dims, d, operand, d + (d >= dimension));
        HLO_TRY(hlo_dims_shape(request->arena, operand->type, &dims, &taken[i]));
    }
    return hlo_infer_check_parameters(request, 0, taken, request->operand_count);
}

// Operands: inputs, then carries. The body takes a slice of each input (without the dimension) and the carries, and
// returns slices of the outputs, which are assembled again, and the carries.
//
//   scan(f32[5,8] x, f32[8] c), dimensions={0}, body (f32[8], f32[8]) -> (f32[8], f32[8])  ->  (f32[5,8], f32[8])
HloStatus hlo_infer_scan(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_SCAN);
    const HloScanAttributes *scan = HLO_INFER_ATTRIBUTES(request, Scan);
    HLO_TRY(hlo_infer_need_called(request, 1));
    HLO_REFUSE_IF(scan->num_carries < 0 || scan->num_carries >= request->operand_count, "%lld carries of %lld operands",
                  (long long)scan->num_carries, (long long)request->operand_count);
    const int64_t inputs = request->operand_count - scan->num_carries;
    HLO_TRY(hlo_infer_need_array(request, 0));
    HLO_REFUSE_IF(scan->dimensions.count != 1, "%lld dimensions instead of one", (long long)scan->dimensions.count);
    HLO_TRY(hlo_infer_check_dimensions(request->arena, scan->dimensions, request->operands[0]->rank, "dimensions"));
    int64_t dimension = scan->dimensions.items[0];
    HLO_TRY(check_scan_operands(request, dimension, inputs));
    const HloShape *root = request->called[0]->root->shape;
    int64_t count = hlo_shape_is_tuple(root) ? root->element_count : 1, outputs = count - scan->num_carries;
    HLO_REFUSE_IF(outputs < 0, "the computation returns %lld values for %lld carries", (long long)count,
                  (long long)scan->num_carries);
    const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, count);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *given = hlo_shape_value(root, i);
        elements[i] = given;
        if (i < outputs) {
            HLO_TRY(with_dimension(request, given, dimension, request->operands[0], &elements[i]));
            continue;
        }
        const HloShape *carry = request->operands[inputs + i - outputs];
        HLO_REFUSE_IF(!hlo_shapes_mix(given, carry), "carry %lld goes in as %s and comes out as %s",
                      (long long)(i - outputs), hlo_shape_message(request->arena, carry),
                      hlo_shape_message(request->arena, given));
    }
    *result = hlo_shape_is_tuple(root) ? hlo_shape_tuple(request->arena, elements, count) : elements[0];
    return HLO_SUCCESS;
}
