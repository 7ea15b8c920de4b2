// SPDX-License-Identifier: Apache-2.0
// Before a loop is planned: neighbouring operations that one kernel does in one pass over their registers become one
// value, with the same roundings; values that nobody reads any more are dropped.
#include <assert.h>
#include <string.h>

#include "targets/cpu/loop_internal.h"

static CpuLoopValue *value_at(CpuLoopBuilder *b, CpuValue v) {
    return v < 0 ? NULL : &b->values.items[v];
}

static bool is_operation(const CpuLoopBuilder *b, const CpuLoopValue *value, CpuLoopOp op, CpuRegisterType type) {
    return value && value->kind == CPU_VALUE_KERNEL && value->kernel == b->kernels->operation[op][type];
}

// ---- rotations

static bool is_constant(const CpuLoopValue *value, uint32_t *bits) {
    if (!value || value->kind != CPU_VALUE_CONSTANT || value->type != HLO_U32) return false;
    memcpy(bits, value->constant, sizeof *bits);
    return true;
}

// x << l | x >> (32 - l)
static void find_rotation(CpuLoopBuilder *b, CpuLoopValue *value) {
    assert(value);
    if (!is_operation(b, value, CPU_OP_OR, CPU_REGISTER_U32)) return;
    for (int turned = 0; turned < 2; turned++) {
        const CpuLoopValue *left = value_at(b, value->operands[turned]), *right = value_at(b, value->operands[!turned]);
        uint32_t l, r;
        if (!is_operation(b, left, CPU_OP_SHIFT_LEFT, CPU_REGISTER_U32) ||
            !is_operation(b, right, CPU_OP_SHIFT_RIGHT_LOGICAL, CPU_REGISTER_U32) ||
            left->operands[0] != right->operands[0] || !is_constant(value_at(b, left->operands[1]), &l) ||
            !is_constant(value_at(b, right->operands[1]), &r) || l == 0 || l >= 32 || l + r != 32)
            continue;
        cpu_loop_set_kernel(b, value, &b->kernels->rotate);
        value->immediate = l;
        value->operands[0] = left->operands[0];
        value->operands[1] = -1;
        return;
    }
}

static void find_xor_of_rotation(CpuLoopBuilder *b, CpuLoopValue *value) {
    if (!is_operation(b, value, CPU_OP_XOR, CPU_REGISTER_U32)) return;
    for (int turned = 0; turned < 2; turned++) {
        const CpuLoopValue *rotation = value_at(b, value->operands[turned]);
        if (!rotation || rotation->kind != CPU_VALUE_KERNEL || rotation->kernel != b->kernels->rotate ||
            rotation->level != value->level)
            continue;
        cpu_loop_set_kernel(b, value, &b->kernels->xor_rotate);
        value->immediate = rotation->immediate;
        value->operands[0] = value->operands[!turned];
        value->operands[1] = rotation->operands[0];
        return;
    }
}

// ---- pairs of f32 operations

static int inner_of(const CpuLoopBuilder *b, const CpuLoopValue *value) {
    static const CpuLoopOp kInner[] = {[CPU_PAIR_OF_SUM] = CPU_OP_ADD,
                                       [CPU_PAIR_OF_DIFFERENCE] = CPU_OP_SUBTRACT,
                                       [CPU_PAIR_OF_PRODUCT] = CPU_OP_MULTIPLY};
    for (int i = 0; i < CPU_PAIR_INNER_COUNT; i++)
        if (is_operation(b, value, kInner[i], CPU_REGISTER_F32)) return i;
    return -1;
}

static void find_pair(CpuLoopBuilder *b, CpuLoopValue *value, const int *uses) {
    assert(value && uses);
    const bool difference = is_operation(b, value, CPU_OP_SUBTRACT, CPU_REGISTER_F32);
    CpuPairOuter outer = CPU_PAIR_PLUS;
    if (is_operation(b, value, CPU_OP_MULTIPLY, CPU_REGISTER_F32))
        outer = CPU_PAIR_TIMES;
    else if (!difference && !is_operation(b, value, CPU_OP_ADD, CPU_REGISTER_F32))
        return;
    for (int second = 0; second < 2; second++) {
        const CpuLoopValue *first = value_at(b, value->operands[second]);
        const int inner = inner_of(b, first);
        if (inner < 0 || uses[value->operands[second]] != 1 || first->level != value->level ||
            first->in_combiner != value->in_combiner || first->after_reduce != value->after_reduce)
            continue;
        if (difference) outer = second ? CPU_PAIR_FROM : CPU_PAIR_MINUS;
        cpu_loop_set_kernel(b, value, &b->kernels->pair[inner][outer]);
        value->operands[2] = value->operands[!second];
        value->operands[1] = first->operands[1];
        value->operands[0] = first->operands[0];
        return;
    }
}

// ---- uses

static void count_uses(const CpuLoopBuilder *b, int *uses) {
    memset(uses, 0, sizeof(int) * (size_t)b->values.count);
    for (int64_t v = b->values.count; v-- > 0;) {
        const CpuLoopValue *value = &b->values.items[v];
        const bool kept =
            value->kind == CPU_VALUE_STORE || value->kind == CPU_VALUE_REDUCE || value->kind == CPU_VALUE_COMBINED;
        if (!kept && uses[v] == 0) continue;
        for (int i = 0; i < 3; i++)
            if (value->operands[i] >= 0) uses[value->operands[i]]++;
    }
}

void cpu_loop_peephole(CpuLoopBuilder *b) {
    assert(b);
    if (b->combine_count) return;  // a combiner's values are named by number
    int *uses = hlo_arena_allocate(b->arena, sizeof(int) * (size_t)(b->values.count + 1));
    for (int64_t v = 0; v < b->values.count; v++) find_rotation(b, &b->values.items[v]);
    for (int64_t v = 0; v < b->values.count; v++) find_xor_of_rotation(b, &b->values.items[v]);
    count_uses(b, uses);
    for (int64_t v = 0; v < b->values.count; v++)
        if (uses[v]) find_pair(b, &b->values.items[v], uses);
    count_uses(b, uses);
    for (int64_t v = 0; v < b->values.count; v++) {
        CpuLoopValue *value = &b->values.items[v];
        if (uses[v] == 0 && value->kind != CPU_VALUE_STORE && value->kind != CPU_VALUE_REDUCE) {
            value->kind = CPU_VALUE_DROPPED;
            for (int i = 0; i < 3; i++) value->operands[i] = -1;
        }
    }
}
