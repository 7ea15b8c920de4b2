// SPDX-License-Identifier: Apache-2.0
// Broadcasts per-row scalars inside kernels instead of expanding them. A row's mean, maximum or sum is often combined
// with the row's own elements. Expanding it to all elements of the row would cost as much as the operation that reads
// it (a fifth of a layer norm). If each block is one row, or part of one, the operation has a kernel that takes the
// single number. The same holds for constants, whose expanded register, as long as a block, would displace another from
// the first-level cache.
#include <assert.h>

#include "targets/cpu/loop/internal.h"

static bool blocks_are_rows(const CpuLoop *loop) {
    return loop->mode == CPU_MODE_ROWS && loop->block == 1 && loop->reduced > 1;
}

// Returns the value of operand `i` if it is one number for all elements of a block, else -1.
static CpuValue one_of(const CpuLoop *loop, const CpuLoopValue *value, int i) {
    const CpuValue operand = value->operands[i];
    if (operand < 0) return -1;
    if (loop->values[operand].level == CPU_LEVEL_UNIFORM) return operand;
    return blocks_are_rows(loop) && loop->values[operand].kind == CPU_VALUE_EXPAND ? loop->values[operand].operands[0]
                                                                                   : -1;
}

// Returns the operation that is the value's kernel, if it has a kernel for one number as its second operand, else -1.
static int operation_by_one(const CpuLoop *loop, const CpuLoopValue *value) {
    for (int op = 0; op < CPU_OP_COUNT; op++)
        if (loop->kernels->by_one[op] && value->kernel == loop->kernels->operation[op][CPU_REGISTER_F32]) return op;
    return -1;
}

// Returns the kernels of the pair of operations that is the value's kernel, by which operands are one number, or NULL.
static CpuBlockKernel *const *pair_by_ones(const CpuLoop *loop, const CpuLoopValue *value) {
    for (int inner = 0; inner < CPU_PAIR_INNER_COUNT; inner++)
        for (int outer = 0; outer < CPU_PAIR_OUTER_COUNT; outer++)
            if (value->kernel == loop->kernels->pair[inner][outer][CPU_ONES_NONE])
                return loop->kernels->pair[inner][outer];
    return NULL;
}

// Whether the operation gives the same result for its operands in either order.
static bool swaps(int op) {
    return op == CPU_OP_ADD || op == CPU_OP_MULTIPLY;
}

static void read_one(CpuLoop *loop, CpuLoopValue *value) {
    const int op = operation_by_one(loop, value);
    if (op < 0) return;
    CpuValue one = one_of(loop, value, 1);
    if (one < 0 && swaps(op) && (one = one_of(loop, value, 0)) >= 0) value->operands[0] = value->operands[1];
    if (one < 0) return;
    value->kernel = loop->kernels->by_one[op];
    value->operands[1] = one;
}

static void read_ones(CpuLoop *loop, CpuLoopValue *value) {
    const CpuValue second = one_of(loop, value, 1), third = one_of(loop, value, 2);
    CpuBlockKernel *const *kernels = second < 0 && third < 0 ? NULL : pair_by_ones(loop, value);
    if (!kernels) return;
    value->kernel = kernels[second < 0 ? CPU_ONES_THIRD : third < 0 ? CPU_ONES_SECOND : CPU_ONES_BOTH];
    if (second >= 0) value->operands[1] = second;
    if (third >= 0) value->operands[2] = third;
}

// Drops expansions that are no longer read.
static void drop_unread(CpuLoop *loop) {
    int64_t kept = 0;
    for (int64_t i = 0; i < loop->body.count; i++) {
        const CpuValue v = loop->body.items[i];
        bool is_read = loop->values[v].kind != CPU_VALUE_EXPAND;
        for (CpuValue user = v + 1; user < loop->value_count && !is_read; user++)
            for (int k = 0; k < 3; k++) is_read |= loop->values[user].operands[k] == v;
        if (is_read)
            loop->body.items[kept++] = v;
        else
            loop->values[v].kind = CPU_VALUE_DROPPED;
    }
    loop->body.count = kept;
}

void cpu_loop_read_ones(CpuLoop *loop) {
    enum { kShortBlock = 256 };
    assert(loop->kernels && loop->values);
    if (loop->uniform_count < kShortBlock) return;
    for (CpuValue v = 0; v < loop->value_count; v++) {
        CpuLoopValue *value = &loop->values[v];
        // The operands of a combiner are bound while it runs, whatever their level.
        if (value->kind != CPU_VALUE_KERNEL || value->level == CPU_LEVEL_UNIFORM || value->in_combiner) continue;
        read_one(loop, value);
        read_ones(loop, value);
    }
    if (blocks_are_rows(loop)) drop_unread(loop);
}
