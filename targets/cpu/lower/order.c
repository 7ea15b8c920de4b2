// SPDX-License-Identifier: Apache-2.0
// Lowers sort and top-k. Comparators that compare keys one after the other are recognised; others are called. A
// comparator is read backwards from its root. If it compares operands' elements, as they are or made canonical as JAX
// does, the sort works on keys (kernels/sort_keys.h), twenty times as fast as calling a computation for every
// comparison.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "hlo/ir/custom_call.h"
#include "targets/cpu/kernels/sort.h"
#include "targets/cpu/lower/scalar.h"

// ---- comparators

static bool is_constant_number(const HloInstruction *instruction, bool (*wanted)(double)) {
    return instruction->opcode == HLO_OP_CONSTANT && hlo_shape_is_scalar(instruction->shape) &&
           wanted(hlo_literal_get_double(hlo_constant_literal(instruction), 0));
}

static bool is_zero(double x) {
    return x == 0;
}
static bool is_nan(double x) {
    return x != x && !signbit(x);  // a negative one is below all numbers in the total order
}

// Returns the key itself if it replaces no values.
static const HloInstruction *plain_key(const HloInstruction *key) {
    while (key->opcode == HLO_OP_SELECT) key = key->operands[2];
    return key;
}

// Strips the canonical form off a key. JAX writes keys as select(x != x, nan, select(x == 0, 0, x)) in either nesting;
// *canonical is set if so. The tests must be of the key itself: if another value decides, the key is no longer a number
// of one array. They must also use partial order: in the total order no NaN differs from itself and -0 is not 0, so
// that nothing is made canonical.
static const HloInstruction *strip_canonical(const HloInstruction *key, bool *canonical) {
    const HloInstruction *plain = plain_key(key);
    int found = 0;
    while (key->opcode == HLO_OP_SELECT && key->operands[0]->opcode == HLO_OP_COMPARE) {
        const HloInstruction *test = key->operands[0], *inner = key->operands[2];
        const int32_t direction = HLO_ATTRIBUTES(test, Compare)->direction;
        if (HLO_ATTRIBUTES(test, Compare)->type == HLO_ComparisonType_TOTALORDER) break;
        const bool zero = direction == HLO_ComparisonDirection_EQ && is_constant_number(key->operands[1], is_zero) &&
                          is_constant_number(test->operands[1], is_zero);
        const bool nan = direction == HLO_ComparisonDirection_NE && is_constant_number(key->operands[1], is_nan) &&
                         test->operands[0] == test->operands[1];
        if ((!zero && !nan) || (test->operands[0] != plain && test->operands[0] != inner)) break;
        found |= zero ? 1 : 2;
        key = inner;
    }
    *canonical = found == 3;
    return found == 0 || found == 3 ? key : NULL;
}

// A comparison of elements of one operand: of parameter `left` with parameter `right`.
typedef struct Comparison {
    int64_t left, right;
    int32_t direction;
    bool total;  // or of integers
    CpuSortOrder order;
} Comparison;

// Reads compare(key(left i), key(right i)) or the reverse. Floats compared in partial order, which leaves NaN
// unordered, are sorted with NaN above infinity.
static bool read_comparison(const HloInstruction *compare, Comparison *read) {
    if (compare->opcode != HLO_OP_COMPARE) return false;
    const HloCompareAttributes *attributes = HLO_ATTRIBUTES(compare, Compare);
    bool left_canonical, right_canonical;
    const HloInstruction *left = strip_canonical(compare->operands[0], &left_canonical);
    const HloInstruction *right = strip_canonical(compare->operands[1], &right_canonical);
    if (!left || !right || left->opcode != HLO_OP_PARAMETER || right->opcode != HLO_OP_PARAMETER) return false;
    const int64_t a = hlo_parameter_number(left), b = hlo_parameter_number(right);
    if (a / 2 != b / 2 || a == b || left_canonical != right_canonical) return false;
    if (hlo_type_is_complex(left->shape->type)) return false;
    const bool floating = hlo_type_is_float(left->shape->type);
    const bool total = attributes->type == HLO_ComparisonType_TOTALORDER;
    *read = (Comparison){.left = a,
                         .right = b,
                         .direction = attributes->direction,
                         .total = total || !floating,
                         .order = floating && (left_canonical || !total) ? CPU_SORT_NUMERIC : CPU_SORT_TOTAL};
    return true;
}

// Reads the key of an operand from a strict comparison.
static bool read_key(const HloInstruction *compare, CpuSortKey *key) {
    Comparison read;
    if (!read_comparison(compare, &read)) return false;
    const bool less = read.direction == HLO_ComparisonDirection_LT;
    if (!less && read.direction != HLO_ComparisonDirection_GT) return false;
    key->operand = (int)(read.left / 2);
    key->descending = less != (read.left < read.right);
    key->order = read.order;
    return true;
}

// Whether `equal` tests if the elements that `strict` compares are equal, both in a total order.
static bool tests_equality(const HloInstruction *equal, const HloInstruction *strict) {
    Comparison a, b;
    return read_comparison(equal, &a) && read_comparison(strict, &b) && a.total && b.total &&
           a.direction == HLO_ComparisonDirection_EQ && a.left / 2 == b.left / 2 && a.order == b.order;
}

// Finds x and y such that the instruction is or(x, and(x tests equality, y)), with the operands in any order.
static bool split_keys(const HloInstruction *either, const HloInstruction **first, const HloInstruction **rest) {
    if (either->opcode != HLO_OP_OR) return false;
    for (int i = 0; i < 4; i++) {
        const HloInstruction *strict = either->operands[i / 2], *both = either->operands[1 - i / 2];
        if (both->opcode != HLO_OP_AND || !tests_equality(both->operands[i % 2], strict)) continue;
        *first = strict;
        *rest = both->operands[1 - i % 2];
        return true;
    }
    return false;
}

// Reads the keys of a comparator, the most significant first, and returns their number: 0 if it is no comparison of at
// most `most` keys.
static int read_keys(const HloInstruction *root, CpuSortKey *keys, int most) {
    const HloInstruction *first, *rest = root;
    int count = 0;
    while (count < most && split_keys(rest, &first, &rest))
        if (!read_key(first, &keys[count++])) return 0;
    return count < most && read_key(rest, &keys[count]) ? count + 1 : 0;
}

// ---- sort

static HloStatus run_sort(const void *data, void *const *arguments, CpuPool *pool) {
    const CpuSort *sort = data;
    return cpu_sort(pool, sort, arguments + sort->count, (const void *const *)arguments);
}

// Describes how the first `count` operands are sorted along a dimension; NULL when the comparator has no compiled form.
static CpuSort *new_sort(CpuLowering *lowering, const CpuNode *node, int32_t count, int64_t dimension) {
    assert(count > 0 && dimension >= 0);
    const HloShape *shape = node->operands[0]->shape;
    CpuSort *sort = HLO_ARENA_NEW(lowering->arena, CpuSort, 1);
    CpuSortKey *keys = HLO_ARENA_NEW(lowering->arena, CpuSortKey, count);
    HloType *types = HLO_ARENA_NEW(lowering->arena, HloType, count);
    for (int32_t i = 0; i < count; i++) types[i] = node->operands[i]->shape->type;
    *sort = (CpuSort){.outer = 1, .length = shape->dims[dimension], .inner = 1, .count = count, .types = types};
    for (int64_t d = 0; d < dimension; d++) sort->outer *= shape->dims[d];
    for (int64_t d = dimension + 1; d < shape->rank; d++) sort->inner *= shape->dims[d];
    sort->keys = keys;
    sort->key_count = read_keys(node->instruction->called[0]->root, keys, count);
    if (sort->key_count) return sort;
    const CpuScalarFunction *function = cpu_scalar_compile(lowering, node->instruction->called[0]);
    if (!function) return NULL;
    sort->less = cpu_scalar_less;
    sort->context = (void *)(uintptr_t)function;
    return sort;
}

HloStatus cpu_lower_sort(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const int64_t dimension = HLO_ATTRIBUTES(node->instruction, Sort)->dimensions.items[0];
    const CpuSort *sort = new_sort(lowering, node, node->operand_count, dimension);
    if (!sort) return cpu_lower_give_up(lowering, node);
    HLO_TRY(hlo_status_annotate(cpu_sort_check(sort->length), "%%%s", node->instruction->name));
    cpu_step_kernel(lowering, node, step, run_sort, sort);
    step->cost *= sort->less ? 400 : 20;
    return HLO_SUCCESS;
}

// ---- top-k

typedef struct TopKKernel {
    HloType type;
    int64_t rows, length, k;
    bool largest;
} TopKKernel;

static HloStatus run_top_k(const void *data, void *const *arguments, CpuPool *pool) {
    const TopKKernel *kernel = data;
    return cpu_top_k(pool, kernel->type, kernel->rows, kernel->length, kernel->k, kernel->largest, arguments[1],
                     arguments[2], arguments[0]);
}

// Indices are s32, by the definition of the op.
static HloStatus check_top_k(const CpuNode *node, int64_t length) {
    HLO_FAIL_IF(length > INT32_MAX, HLO_UNIMPLEMENTED, "%%%s: indices into %lld elements do not fit in s32",
                node->instruction->name, (long long)length);
    return HLO_SUCCESS;
}

HloStatus cpu_lower_top_k(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const HloShape *shape = node->operands[0]->shape;
    const HloTopKAttributes *attributes = HLO_ATTRIBUTES(node->instruction, TopK);
    if (shape->rank == 0 || hlo_type_is_complex(shape->type) || node->result_count != 2 ||
        node->results[1]->shape->type != HLO_S32)
        return cpu_lower_give_up(lowering, node);
    TopKKernel *kernel = HLO_ARENA_NEW(lowering->arena, TopKKernel, 1);
    const int64_t length = shape->dims[shape->rank - 1];
    HLO_TRY(check_top_k(node, length));
    *kernel = (TopKKernel){shape->type, length ? node->operands[0]->elements / length : 0, length, attributes->k,
                           attributes->largest};
    cpu_step_kernel(lowering, node, step, run_top_k, kernel);
    step->cost *= 4;
    return HLO_SUCCESS;
}

// Lowers the custom call: k and the order follow from the result and the comparator, as in the evaluator.
HloStatus cpu_lower_top_k_call(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const HloInstruction *call = node->instruction;
    const HloShape *shape = node->operands[0]->shape;
    if (node->operand_count != 1 || node->result_count != 2 || shape->rank == 0 || hlo_type_is_complex(shape->type))
        return cpu_lower_give_up(lowering, node);
    const HloShape *values = node->results[0]->shape;
    const int64_t length = shape->dims[shape->rank - 1], k = values->rank ? values->dims[values->rank - 1] : 0;
    const int64_t rows = length ? node->operands[0]->elements / length : 0;
    if (values->type != shape->type || k > length || node->results[0]->elements != rows * k ||
        node->results[1]->elements != rows * k || node->results[1]->shape->type != HLO_S32)
        return cpu_lower_give_up(lowering, node);
    CpuSortKey key = {.descending = true};
    if (call->called_count == 1 && !read_key(call->called[0]->root, &key)) return cpu_lower_give_up(lowering, node);
    HLO_TRY(check_top_k(node, length));
    TopKKernel *kernel = HLO_ARENA_NEW(lowering->arena, TopKKernel, 1);
    *kernel = (TopKKernel){shape->type, rows, length, k, key.descending};
    cpu_step_kernel(lowering, node, step, run_top_k, kernel);
    step->cost *= 4;
    return HLO_SUCCESS;
}

// ---- approximate top-k: exactly the first k in the comparator's order

typedef struct ApproximateKernel {
    const CpuSort *sort;
    int64_t k;
} ApproximateKernel;

// Handles contiguous rows that are sorted by one key: finds the indices of the first k, then copies every array's
// elements at these.
static HloStatus pick_rows(CpuPool *pool, const ApproximateKernel *kernel, void *const *outputs,
                           const void *const *inputs) {
    const CpuSort *sort = kernel->sort;
    const CpuSortKey *key = sort->keys;
    const int64_t picked = sort->outer * kernel->k;
    int32_t *positions = cpu_pool_scratch_take(pool, hlo_array_bytes((size_t)picked, sizeof(int32_t)));
    HLO_FAIL_IF(!positions, HLO_RESOURCE_EXHAUSTED, "no memory for the first %lld of rows", (long long)kernel->k);
    const HloStatus status = cpu_top_k_in_order(pool, sort->types[key->operand], key->order, sort->outer, sort->length,
                                                kernel->k, key->descending, NULL, positions, inputs[key->operand]);
    for (int a = 0; a < sort->count && !status; a++) {
        const size_t width = (size_t)hlo_type_bytes(sort->types[a]);
        for (int64_t i = 0; i < picked; i++)
            memcpy((char *)outputs[a] + (size_t)i * width,
                   (const char *)inputs[a] + (size_t)(i / kernel->k * sort->length + positions[i]) * width, width);
    }
    cpu_pool_scratch_give(pool, positions);
    return status;
}

// Handles all other cases: sorts copies and keeps their beginnings.
static HloStatus sort_and_truncate(CpuPool *pool, const ApproximateKernel *kernel, void *const *outputs,
                                   const void *const *inputs) {
    const CpuSort *sort = kernel->sort;
    const int64_t line = sort->length * sort->inner, kept = kernel->k * sort->inner;
    void *sorted[CPU_SCALAR_LIMIT] = {0};
    bool room = true;
    for (int a = 0; a < sort->count; a++) {
        sorted[a] = cpu_pool_scratch_take(
            pool, hlo_array_bytes((size_t)(sort->outer * line), (size_t)hlo_type_bytes(sort->types[a])));
        room = room && sorted[a];
    }
    HloStatus status =
        room ? cpu_sort(pool, sort, sorted, inputs)
             : hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory to sort %lld elements", (long long)(sort->outer * line));
    for (int a = 0; a < sort->count; a++) {
        const int64_t width = hlo_type_bytes(sort->types[a]);
        for (int64_t o = 0; o < sort->outer && !status && kept; o++)
            memcpy((char *)outputs[a] + o * kept * width, (const char *)sorted[a] + o * line * width,
                   (size_t)(kept * width));
        cpu_pool_scratch_give(pool, sorted[a]);
    }
    return status;
}

static HloStatus run_approximate_top_k(const void *data, void *const *arguments, CpuPool *pool) {
    const ApproximateKernel *kernel = data;
    const CpuSort *sort = kernel->sort;
    const void *const *inputs = (const void *const *)arguments;
    void *const *outputs = arguments + 2 * sort->count;
    if (sort->key_count == 1 && sort->inner == 1) return pick_rows(pool, kernel, outputs, inputs);
    return sort_and_truncate(pool, kernel, outputs, inputs);
}

// Whether the results have the operands' shapes, except that one dimension, *dimension, may be shorter.
static bool truncated_dimension(const CpuNode *node, int32_t count, int64_t *dimension) {
    assert(count > 0 && dimension);
    const HloShape *whole = node->operands[0]->shape;
    *dimension = hlo_custom_call_top_k_dimension(node->instruction);
    for (int32_t a = 0; a < count; a++) {
        const HloShape *from = node->operands[a]->shape, *to = node->results[a]->shape;
        if (from->rank != whole->rank || to->rank != whole->rank || from->type != to->type) return false;
        for (int64_t d = 0; d < whole->rank; d++) {
            if (from->dims[d] != whole->dims[d] || to->dims[d] != node->results[0]->shape->dims[d] ||
                to->dims[d] > whole->dims[d])
                return false;
        }
    }
    for (int64_t d = 0; d < whole->rank; d++)
        if (d != *dimension && node->results[0]->shape->dims[d] != whole->dims[d]) return false;
    return true;
}

HloStatus cpu_lower_approximate_top_k(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const int32_t count = node->operand_count / 2;
    int64_t dimension;
    if (count < 1 || count > CPU_SCALAR_LIMIT || node->operand_count != 2 * count || node->result_count != count ||
        node->instruction->called_count != 1 || node->operands[0]->shape->rank < 1 ||
        !truncated_dimension(node, count, &dimension))
        return cpu_lower_give_up(lowering, node);
    ApproximateKernel *kernel = HLO_ARENA_NEW(lowering->arena, ApproximateKernel, 1);
    kernel->sort = new_sort(lowering, node, count, dimension);
    kernel->k = node->results[0]->shape->dims[dimension];
    if (!kernel->sort) return cpu_lower_give_up(lowering, node);
    HLO_TRY(check_top_k(node, kernel->sort->length));
    HLO_TRY(hlo_status_annotate(cpu_sort_check(kernel->sort->length), "%%%s", node->instruction->name));
    cpu_step_kernel(lowering, node, step, run_approximate_top_k, kernel);
    step->cost *= kernel->sort->less ? 400 : 8;
    return HLO_SUCCESS;
}
