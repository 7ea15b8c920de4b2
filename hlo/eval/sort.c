// SPDX-License-Identifier: Apache-2.0
// sort and topk.
//
// A lane, the elements along the sorted dimension at one index of the others, is copied together, and its indices are
// sorted with the user's comparator. The comparator may not define an order at all, so the algorithm must end for any
// answers: merge sort always does. It is stable, which HLO's is_stable=false allows too; elements are moved once, when
// the order is known. topk sorts each row by a total order of its own, ties by index.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/eval/internal.h"

// One lane of a sort: indices are sorted by the comparator on the elements at them.
typedef struct Lane {
    HloEvalScalar *comparator;
    int64_t arrays;
    const char **data;  // by array: the lane's elements, contiguous
    const int64_t *bytes;
} Lane;

// The comparator's parameters come in pairs: left and right of each array.
static HloStatus is_before(const Lane *lane, int64_t a, int64_t b, bool *before) {
    const void *inputs[2 * HLO_EVAL_MAX_VALUES];
    for (int64_t i = 0; i < lane->arrays; i++) {
        inputs[2 * i] = lane->data[i] + a * lane->bytes[i];
        inputs[2 * i + 1] = lane->data[i] + b * lane->bytes[i];
    }
    uint8_t answer;
    void *outputs[1] = {&answer};
    HLO_TRY(hlo_eval_scalar_call(lane->comparator, inputs, outputs, 1));
    *before = answer != 0;
    return HLO_SUCCESS;
}

// Merges the sorted halves [0, middle) and [middle, count); the right one comes first only when it is truly before.
static HloStatus merge(const Lane *lane, const int64_t *from, int64_t middle, int64_t count, int64_t *to) {
    assert(middle >= 0 && middle <= count);
    int64_t left = 0, right = middle, at = 0;
    while (left < middle && right < count) {
        bool before;
        HLO_TRY(is_before(lane, from[right], from[left], &before));
        to[at++] = before ? from[right++] : from[left++];
    }
    while (left < middle) to[at++] = from[left++];
    while (right < count) to[at++] = from[right++];
    return HLO_SUCCESS;
}

// Bottom up, between two lists.
static HloStatus merge_sort(const Lane *lane, int64_t *indices, int64_t *spare, int64_t count) {
    assert(count >= 0);
    int64_t *from = indices, *to = spare;
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t start = 0; start < count; start += 2 * width) {
            int64_t rest = count - start, middle = rest < width ? rest : width,
                    end = rest < 2 * width ? rest : 2 * width;
            HLO_TRY(merge(lane, from + start, middle, end, to + start));
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != indices) memcpy(indices, from, (size_t)count * sizeof(int64_t));
    return HLO_SUCCESS;
}

typedef struct SortPlan {
    int64_t size, outer, inner;  // of the sorted dimension, of those before it, of those after it
} SortPlan;

// The lane that begins at linear position `start`.
static HloStatus sort_lane(HloEvalDevice *device, const SortPlan *plan, HloEvalValue *const *operands, int64_t start,
                           Lane *lane, int64_t *indices, HloEvalValue *const *arrays) {
    HloArenaMark mark = hlo_arena_mark(device->scratch);
    for (int64_t a = 0; a < lane->arrays; a++) {
        char *elements = hlo_eval_scratch(device, plan->size, (size_t)lane->bytes[a]);
        const int64_t one = 1;
        hlo_eval_copy_strided(elements, &one, (const char *)operands[a]->data + start * lane->bytes[a], &plan->inner,
                              &plan->size, 1, lane->bytes[a]);
        lane->data[a] = elements;
    }
    for (int64_t i = 0; i < plan->size; i++) indices[i] = i;
    HLO_TRY(merge_sort(lane, indices, HLO_EVAL_SCRATCH(device, int64_t, plan->size), plan->size));
    for (int64_t a = 0; a < lane->arrays; a++) {
        int64_t bytes = lane->bytes[a];
        char *target = (char *)arrays[a]->data + start * bytes;
        for (int64_t i = 0; i < plan->size; i++) {
            memcpy(target + i * plan->inner * bytes, lane->data[a] + indices[i] * bytes, (size_t)bytes);
        }
    }
    hlo_arena_reset(device->scratch, mark);
    return HLO_SUCCESS;
}

// The comparator is prepared for single calls: which comparison comes next depends on the last one.
HloStatus hlo_eval_sort_arrays(HloEvalDevice *device, const HloComputation *comparator, int64_t dim,
                               HloEvalValue *const *operands, int64_t count, HloEvalValue *const *arrays) {
    assert(comparator && count > 0 && count <= HLO_EVAL_MAX_VALUES);  // checked by hlo_eval_check_types()
    const HloShape *shape = operands[0]->shape;
    SortPlan plan = {.size = shape->dims[dim], .outer = 1, .inner = 1};
    for (int64_t i = 0; i < dim; i++) plan.outer *= shape->dims[i];
    for (int64_t i = dim + 1; i < shape->rank; i++) plan.inner *= shape->dims[i];
    int64_t bytes[HLO_EVAL_MAX_VALUES];
    const char *data[HLO_EVAL_MAX_VALUES];
    for (int64_t a = 0; a < count; a++) bytes[a] = hlo_type_bytes(operands[a]->shape->type);
    Lane lane = {.arrays = count, .data = data, .bytes = bytes};
    HloType types[2 * HLO_EVAL_MAX_VALUES], answer = HLO_PRED;
    for (int64_t a = 0; a < count; a++) types[2 * a] = types[2 * a + 1] = operands[a]->shape->type;
    HLO_TRY(hlo_eval_check_scalars(comparator, types, 2 * count, &answer, 1));
    HLO_TRY(hlo_eval_scalar_prepare(device, comparator, 1, &lane.comparator));
    if (hlo_shape_elements(shape) == 0) return HLO_SUCCESS;
    int64_t *indices = HLO_EVAL_SCRATCH(device, int64_t, plan.size);
    for (int64_t o = 0; o < plan.outer; o++) {
        for (int64_t i = 0; i < plan.inner; i++) {
            HLO_TRY(sort_lane(device, &plan, operands, o * plan.size * plan.inner + i, &lane, indices, arrays));
        }
    }
    return HLO_SUCCESS;
}

// One array gives an array, several a tuple.
HloStatus hlo_eval_sort(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                        HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_SORT));
    int64_t count = instruction->operand_count, dim = HLO_ATTRIBUTES(instruction, Sort)->dimensions.items[0];
    HloEvalValue **arrays = HLO_EVAL_SCRATCH(device, HloEvalValue *, count);
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, count, result, arrays));
    return hlo_eval_sort_arrays(device, instruction->called[0], dim, operands, count, arrays);
}

// ---- topk along the last dimension

// Maps each element to an integer of the same order: the total order for floats.
static void order_keys(HloType type, const char *data, int64_t count, int64_t *keys) {
    assert(count >= 0);
    if (!hlo_type_is_float(type)) {
        hlo_eval_decode_int64(type, data, count, keys);
        if (type == HLO_U64) {
            for (int64_t i = 0; i < count; i++) keys[i] ^= INT64_MIN;
        }
        return;
    }
    hlo_eval_total_order(type, data, count, keys);
}

// An element of a row: its rank and index.
typedef struct Ranked {
    int64_t key, place;
} Ranked;

// Compares by key, then by index: an order without ties, so that qsort() need not be stable.
static int compare_ranked(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

// Whole rows are sorted: k passes would take k n steps, hours for half of a million elements.
void hlo_eval_topk_rows(HloEvalDevice *device, const HloEvalValue *operand, int64_t k, bool largest,
                        HloEvalValue *values, HloEvalValue *indices) {
    assert(k >= 0 && operand->shape->rank > 0);
    const HloShape *shape = operand->shape;
    int64_t size = shape->dims[shape->rank - 1], bytes = hlo_type_bytes(shape->type);
    int64_t rows = size ? hlo_shape_elements(shape) / size : 0, index_bytes = hlo_type_bytes(indices->shape->type);
    int64_t *keys = HLO_EVAL_SCRATCH(device, int64_t, size);
    Ranked *ranked = HLO_EVAL_SCRATCH(device, Ranked, size);
    for (int64_t row = 0; row < rows; row++) {
        const char *data = (const char *)operand->data + row * size * bytes;
        order_keys(shape->type, data, size, keys);
        // ~ reverses the order of all keys, and leaves equal ones equal.
        for (int64_t i = 0; i < size; i++) ranked[i] = (Ranked){largest ? ~keys[i] : keys[i], i};
        qsort(ranked, (size_t)size, sizeof(*ranked), compare_ranked);
        for (int64_t j = 0; j < k; j++) {
            const int64_t best = ranked[j].place;
            memcpy((char *)values->data + (row * k + j) * bytes, data + best * bytes, (size_t)bytes);
            hlo_eval_encode_int64(indices->shape->type, &best, 1, (char *)indices->data + (row * k + j) * index_bytes);
        }
    }
}

// Returns (values, indices).
HloStatus hlo_eval_topk(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                        HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_TOPK));
    const HloTopKAttributes *topk = HLO_ATTRIBUTES(instruction, TopK);
    HloEvalValue *arrays[2];
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, 2, result, arrays));
    hlo_eval_topk_rows(device, operands[0], topk->k, topk->largest, arrays[0], arrays[1]);
    return HLO_SUCCESS;
}
