// SPDX-License-Identifier: Apache-2.0
// Merges stores of a loop that write neighbouring elements.
//
//     stack([x + y, x - y], axis=-1)     stores of every second element, from 0 and from 1 on
//
// Each by itself is copied element by element, as nothing between its elements may be written: other threads may write
// there. All together they write whole vectors. Operands of stores keep their registers to the end of a block
// (find_last_uses() of plan.c), so that the last store of a group can read those of all; and as no loop reads what it
// writes, a store may come later.
#include "targets/cpu/loop/internal.h"

// Whether two stores write elements of the same rows of one array.
static bool writes_same_rows(const CpuLoopValue *a, const CpuLoopValue *b) {
    return a->buffer == b->buffer && a->width == b->width && a->level == b->level &&
           a->after_reduce == b->after_reduce && a->walk.sizes[0] == b->walk.sizes[0] &&
           a->walk.strides[0] == b->walk.strides[0];
}

// Whether the store may be one of a group: its elements are all those of equal distance, a short one.
static bool may_merge(const CpuLoopValue *value) {
    return value->kind == CPU_VALUE_STORE && value->walk.count == 1 && value->walk.strides[0] > 1 &&
           value->walk.strides[0] <= CPU_MOVE_MOST && !value->in_combiner && value->level != CPU_LEVEL_UNIFORM &&
           !value->is_merged && !value->merged && cpu_loop_move_width(value->width) >= 0;
}

// Merges the group of which `first` is the first store, if it is complete.
static void merge_group(const CpuLoopBuilder *b, CpuLoop *loop, CpuValue first) {
    CpuValue stores[CPU_MOVE_MOST];
    const CpuLoopValue *one = &loop->values[first];
    const int64_t most = one->walk.strides[0];
    int64_t count = 0, lowest = one->walk.offset;
    for (CpuValue v = first; v < loop->value_count && count < most; v++) {
        const CpuLoopValue *value = &loop->values[v];
        if (!may_merge(value) || !writes_same_rows(one, value)) continue;
        stores[count++] = v;
        if (value->walk.offset < lowest) lowest = value->walk.offset;
    }
    if (count < most) return;
    CpuValue *merged = HLO_ARENA_NEW(b->arena, CpuValue, most);
    for (int64_t k = 0; k < most; k++) merged[k] = -1;
    for (int64_t k = 0; k < most; k++) {
        const CpuLoopValue *value = &loop->values[stores[k]];
        const int64_t place = value->walk.offset - lowest;
        if (place >= most || merged[place] >= 0) return;  // they leave elements out
        merged[place] = value->operands[0];
    }
    for (int64_t k = 0; k + 1 < most; k++) loop->values[stores[k]].is_merged = true;
    loop->values[stores[most - 1]].merged = merged;
    loop->values[stores[most - 1]].first_merged = lowest;
}

void cpu_loop_merge_stores(const CpuLoopBuilder *builder, CpuLoop *loop) {
    if (loop->mode != CPU_MODE_ROWS || loop->phases || loop->reduced > 1) return;
    for (CpuValue v = 0; v < loop->value_count; v++)
        if (may_merge(&loop->values[v])) merge_group(builder, loop, v);
}
