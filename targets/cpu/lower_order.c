// SPDX-License-Identifier: Apache-2.0
// Sort and top-k. Comparators that compare keys one after the other are recognised; others are called.
#include "targets/cpu/scalar.h"
#include "targets/cpu/sort.h"

// ---- comparators

static bool is_constant_number(const HloInstruction *instruction, bool (*wanted)(double)) {
    return instruction->opcode == HLO_OP_CONSTANT && hlo_shape_is_scalar(instruction->shape) &&
           wanted(hlo_literal_get_double(hlo_constant_literal(instruction), 0));
}

static bool is_zero(double x) {
    return x == 0;
}
static bool is_nan(double x) {
    return x != x;
}

// JAX writes keys as select(x != x, nan, select(x == 0, 0, x)) in either nesting; *canonical tells whether it did.
static const HloInstruction *strip_canonical(const HloInstruction *key, bool *canonical) {
    int found = 0;
    while (key->opcode == HLO_OP_SELECT && key->operands[0]->opcode == HLO_OP_COMPARE) {
        const HloInstruction *test = key->operands[0], *inner = key->operands[2];
        const int32_t direction = HLO_ATTRIBUTES(test, Compare)->direction;
        const bool zero = direction == HLO_ComparisonDirection_EQ && is_constant_number(key->operands[1], is_zero) &&
                          is_constant_number(test->operands[1], is_zero);
        const bool nan = direction == HLO_ComparisonDirection_NE && is_constant_number(key->operands[1], is_nan) &&
                         test->operands[0] == test->operands[1];
        if (!zero && !nan) break;
        found |= zero ? 1 : 2;
        key = inner;
    }
    *canonical = found == 3;
    return found == 0 || found == 3 ? key : NULL;
}

// compare(key(left i), key(right i)) or the other way round, strictly: the key of operand i.
static bool read_key(const HloInstruction *compare, CpuSortKey *key) {
    if (compare->opcode != HLO_OP_COMPARE) return false;
    const HloCompareAttributes *attributes = HLO_ATTRIBUTES(compare, Compare);
    bool left_canonical, right_canonical;
    const HloInstruction *left = strip_canonical(compare->operands[0], &left_canonical);
    const HloInstruction *right = strip_canonical(compare->operands[1], &right_canonical);
    if (!left || !right || left->opcode != HLO_OP_PARAMETER || right->opcode != HLO_OP_PARAMETER) return false;
    const int64_t a = hlo_parameter_number(left), b = hlo_parameter_number(right);
    const bool less = attributes->direction == HLO_ComparisonDirection_LT;
    if (a / 2 != b / 2 || a == b || (!less && attributes->direction != HLO_ComparisonDirection_GT)) return false;
    const bool floating = hlo_type_is_float(left->shape->type);
    const bool total = attributes->type == HLO_ComparisonType_TOTALORDER;
    if (left_canonical != right_canonical || (floating && !total)) return false;
    if (hlo_type_is_complex(left->shape->type)) return false;
    key->operand = (int)(a / 2);
    key->descending = less != (a < b);
    key->order = floating && left_canonical ? CPU_SORT_NUMERIC : CPU_SORT_TOTAL;
    return true;
}

// ---- sort

static HloStatus run_sort(const void *data, void *const *arguments, CpuPool *pool) {
    const CpuSort *sort = data;
    return cpu_sort(pool, sort, arguments + sort->count, (const void *const *)arguments);
}

HloStatus cpu_lower_sort(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const HloShape *shape = node->operands[0]->shape;
    const int64_t dimension = HLO_ATTRIBUTES(node->instruction, Sort)->dimensions.items[0];
    CpuSort *sort = HLO_ARENA_NEW(lowering->arena, CpuSort, 1);
    CpuSortKey *key = HLO_ARENA_NEW(lowering->arena, CpuSortKey, 1);
    HloType *types = HLO_ARENA_NEW(lowering->arena, HloType, node->operand_count);
    for (int32_t i = 0; i < node->operand_count; i++) types[i] = node->operands[i]->shape->type;
    *sort = (CpuSort){
        .outer = 1, .length = shape->dims[dimension], .inner = 1, .count = node->operand_count, .types = types};
    for (int64_t d = 0; d < dimension; d++) sort->outer *= shape->dims[d];
    for (int64_t d = dimension + 1; d < shape->rank; d++) sort->inner *= shape->dims[d];
    if (read_key(node->instruction->called[0]->root, key)) {
        sort->keys = key;
        sort->key_count = 1;
    } else {
        const CpuScalarFunction *function = cpu_scalar_compile(lowering, node->instruction->called[0]);
        if (!function) return cpu_lower_give_up(lowering, node);
        sort->less = cpu_scalar_less;
        sort->context = (void *)(uintptr_t)function;
    }
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

HloStatus cpu_lower_top_k(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const HloShape *shape = node->operands[0]->shape;
    const HloTopKAttributes *attributes = HLO_ATTRIBUTES(node->instruction, TopK);
    if (shape->rank == 0 || hlo_type_is_complex(shape->type) || node->result_count != 2 ||
        node->results[1]->shape->type != HLO_S32)
        return cpu_lower_give_up(lowering, node);
    TopKKernel *kernel = HLO_ARENA_NEW(lowering->arena, TopKKernel, 1);
    const int64_t length = shape->dims[shape->rank - 1];
    *kernel = (TopKKernel){shape->type, length ? node->operands[0]->elements / length : 0, length, attributes->k,
                           attributes->largest};
    cpu_step_kernel(lowering, node, step, run_top_k, kernel);
    step->cost *= 4;
    return HLO_SUCCESS;
}
