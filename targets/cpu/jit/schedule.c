// SPDX-License-Identifier: Apache-2.0
// List scheduling (Cooper, Torczon: Engineering a Compiler, 12.3): in each cycle of a simple processor the operations
// start whose operands are ready, those first from which the longest way leads to a result. Where these would need more
// registers than there are, the values' own order decides: spilled values cost more than waiting does. Only values near
// the first one that is still to start are looked at, so that time grows with their number.
#include "targets/cpu/jit/schedule.h"

#include <assert.h>
#include <string.h>

// The operations that start in one cycle, and the values among which they are chosen.
enum { kWidth = 3, kWindow = 128 };

typedef struct Schedule {
    CpuJitBlock *block;
    int *heights;                     // cycles from the beginning of the value to the end of the block
    int *waits;                       // operands that have not started
    int *uses;                        // operands of values that have not started
    int *ready_at;                    // the cycle in which the latest operand is ready
    int32_t *first_user, *next_user;  // lists of the places (value * 3 + operand) that use a value, or -1
    int32_t *order, *number;          // the values in their new order; the new number of each
    int32_t *ready;                   // values all of whose operands have started
    int ready_count;
    int registers, held;   // those that exist, and those with values that have uses left
    int32_t first, count;  // the first value that is still to be placed; all values
    int32_t placed;
} Schedule;

static CpuJitValue *value_at(const Schedule *s, int32_t i) {
    return &s->block->values.items[i];
}

// The cycles of Zen 4; those of Intel's processors differ by one or two.
int cpu_jit_latency(const CpuJitValue *value) {
    switch (value->op) {
        case CPU_VALUE_OF_CONSTANT: return 0;
        case CPU_VALUE_OF_MEMORY: return 6;
        case CPU_VALUE_ADD_F:
        case CPU_VALUE_SUBTRACT_F:
        case CPU_VALUE_MULTIPLY_F: return 3;
        case CPU_VALUE_FUSED_F:
        case CPU_VALUE_SCALE: return 4;
        case CPU_VALUE_DIVIDE_F: return 11;
        case CPU_VALUE_SQRT_F: return 15;
        case CPU_VALUE_MULTIPLY: return 4;
        case CPU_VALUE_MAXIMUM_F:
        case CPU_VALUE_MINIMUM_F:
        case CPU_VALUE_F32_TO_S32: return 6;
        case CPU_VALUE_S32_TO_F32: return 3;
        default: return 1;
    }
}

static bool is_effect(const CpuJitValue *value) {
    return value->op >= CPU_EFFECT_STORE;
}

static bool is_scheduled(const CpuJitValue *value) {
    return value->needed && !is_effect(value) && value->op != CPU_VALUE_OF_CONSTANT;
}

static void place(Schedule *s, int32_t i) {
    s->number[i] = s->placed;
    s->order[s->placed++] = i;
}

// Adds a value to the list if it can start and is near the first one that is still to start.
static void consider(Schedule *s, int32_t i) {
    if (i < s->count && i < s->first + kWindow && s->waits[i] == 0 && is_scheduled(value_at(s, i)))
        s->ready[s->ready_count++] = i;
}

// Moves the window up to the first value that is still to be placed.
static void advance(Schedule *s) {
    for (; s->first < s->count; s->first++) {
        if (s->number[s->first] < 0 && is_scheduled(value_at(s, s->first))) return;
        const int32_t next = s->first + kWindow;
        if (next < s->count && s->waits[next] == 0 && is_scheduled(value_at(s, next)))
            s->ready[s->ready_count++] = next;
    }
}

// Lets a value start in this cycle, and tells its users.
static void start(Schedule *s, int32_t i, int cycle) {
    place(s, i);
    s->held++;
    for (int k = 0; k < 3; k++) {
        const int32_t operand = value_at(s, i)->operands[k];
        if (operand >= 0 && value_at(s, operand)->op != CPU_VALUE_OF_CONSTANT) s->held -= --s->uses[operand] == 0;
    }
    for (int32_t user = s->first_user[i]; user >= 0; user = s->next_user[user]) {
        const int32_t v = user / 3;
        const int at = cycle + cpu_jit_latency(value_at(s, i));
        if (at > s->ready_at[v]) s->ready_at[v] = at;
        if (--s->waits[v] == 0) consider(s, v);
    }
    advance(s);
}

// Returns whether the first value should start before the other one.
static bool is_better(const Schedule *s, int32_t one, int32_t other) {
    const bool by_height = s->held < s->registers && s->heights[one] != s->heights[other];
    return by_height ? s->heights[one] > s->heights[other] : one < other;
}

// Removes the best value that can start in this cycle from the list, and returns it; -1 if there is none.
static int32_t take(Schedule *s, int cycle) {
    int best = -1;
    for (int k = 0; k < s->ready_count; k++) {
        const int32_t i = s->ready[k];
        if (s->ready_at[i] > cycle && s->held < s->registers) continue;
        if (best < 0 || is_better(s, i, s->ready[best])) best = k;
    }
    if (best < 0) return -1;
    const int32_t taken = s->ready[best];
    s->ready[best] = s->ready[--s->ready_count];
    return taken;
}

// Finds what is needed, who uses it, and the heights.
static void measure(Schedule *s, int32_t count) {
    memset(s->first_user, 0xff, sizeof(int32_t) * (size_t)count);
    for (int32_t i = count; i-- > 0;) {
        CpuJitValue *value = value_at(s, i);
        value->needed = is_effect(value) || s->first_user[i] >= 0;
        if (!value->needed) continue;
        for (int32_t user = s->first_user[i]; user >= 0; user = s->next_user[user])
            if (s->heights[user / 3] > s->heights[i]) s->heights[i] = s->heights[user / 3];
        s->heights[i] += cpu_jit_latency(value);
        for (int k = 0; k < 3; k++) {
            const int32_t operand = value->operands[k];
            if (operand < 0) continue;
            s->next_user[i * 3 + k] = s->first_user[operand];
            s->first_user[operand] = i * 3 + k;
            s->uses[operand]++;
            s->waits[i] += value_at(s, operand)->op != CPU_VALUE_OF_CONSTANT;
        }
    }
}

static void renumber(Schedule *s, HloArena *arena) {
    CpuJitValue *values =
        hlo_arena_copy(arena, s->block->values.items, sizeof *values * (size_t)s->block->values.count);
    for (int32_t n = 0; n < s->placed; n++) {
        CpuJitValue *value = value_at(s, n);
        *value = values[s->order[n]];
        for (int k = 0; k < 3; k++)
            if (value->operands[k] >= 0) value->operands[k] = s->number[value->operands[k]];
    }
    s->block->values.count = s->placed;
}

void cpu_jit_block_schedule(CpuJitBlock *block, int registers) {
    const int32_t count = (int32_t)block->values.count;
    HloArena *arena = block->arena;
    if (count == 0) return;
    Schedule s = {.block = block, .registers = registers, .count = count};
    s.heights = HLO_ARENA_NEW(arena, int, count);
    s.waits = HLO_ARENA_NEW(arena, int, count);
    s.uses = HLO_ARENA_NEW(arena, int, count);
    s.ready_at = HLO_ARENA_NEW(arena, int, count);
    s.first_user = HLO_ARENA_NEW(arena, int32_t, count);
    s.next_user = HLO_ARENA_NEW(arena, int32_t, count * 3);
    s.order = HLO_ARENA_NEW(arena, int32_t, count);
    s.number = HLO_ARENA_NEW(arena, int32_t, count);
    s.ready = HLO_ARENA_NEW(arena, int32_t, count);
    memset(s.number, 0xff, sizeof(int32_t) * (size_t)count);
    measure(&s, count);
    int32_t left = 0;
    for (int32_t i = 0; i < count; i++) {
        const CpuJitValue *value = value_at(&s, i);
        left += is_scheduled(value);
        if (value->needed && value->op == CPU_VALUE_OF_CONSTANT) place(&s, i);
    }
    for (int32_t i = 0; i < kWindow; i++) consider(&s, i);
    advance(&s);
    for (int cycle = 0; left > 0; cycle++)
        for (int k = 0; k < kWidth && left > 0; k++) {
            const int32_t i = take(&s, cycle);
            if (i < 0) break;
            start(&s, i, cycle);
            left--;
        }
    for (int32_t i = 0; i < count; i++)
        if (is_effect(value_at(&s, i))) place(&s, i);
    renumber(&s, arena);
}
