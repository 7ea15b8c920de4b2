// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/jit/registers.h"

#include <assert.h>
#include <string.h>

#include "targets/cpu/jit/schedule.h"

CpuJitRegisters cpu_jit_registers_new(CpuJitBlock *block) {
    const size_t count = (size_t)block->values.count + 1;
    HloArena *arena = block->arena;
    CpuJitRegisters r = {.block = block, .fits = true};
    r.register_of = HLO_ARENA_NEW(arena, int8_t, count);
    r.slot_of = HLO_ARENA_NEW(arena, int16_t, count);
    r.next_use = HLO_ARENA_NEW(arena, int32_t, count);
    memset(r.register_of, 0xff, count * sizeof *r.register_of);
    memset(r.slot_of, 0xff, count * sizeof *r.slot_of);
    for (int reg = 0; reg < CPU_JIT_REGISTERS; reg++) r.holder[reg] = CPU_JIT_NO_VALUE;
    cpu_jit_block_finish(block, r.next_use);
    return r;
}

bool cpu_jit_is_constant(const CpuJitRegisters *r, int32_t value) {
    return r->block->values.items[value].op == CPU_VALUE_OF_CONSTANT;
}

bool cpu_jit_is_fixed(const CpuJitRegisters *r, int reg) {
    return reg >= r->fixed && reg < r->temporary;
}

bool cpu_jit_is_in_mask(const CpuJitRegisters *r, int32_t value) {
    return r->end_mask && r->block->values.items[value].is_mask;
}

// ---- allocation

static void put_aside(CpuJitRegisters *r, int32_t value) {
    if (r->slot_of[value] >= 0 || cpu_jit_is_constant(r, value)) return;
    int slot = 0;
    while (slot < r->slots && r->slot_taken[slot]) slot++;
    if (slot == r->slots) {
        r->fits = false;
        return;
    }
    r->slot_taken[slot] = true;
    r->slot_of[value] = (int16_t)slot;
    r->spill(r, value, r->register_of[value]);
}

static void empty(CpuJitRegisters *r, int reg) {
    if (r->holder[reg] == CPU_JIT_NO_VALUE) return;
    r->register_of[r->holder[reg]] = -1;
    r->holder[reg] = CPU_JIT_NO_VALUE;
}

// Returns a free register for the value; else that of the value which is needed last.
static int take(CpuJitRegisters *r, int32_t value) {
    const bool mask = cpu_jit_is_in_mask(r, value);
    const int first = mask ? r->first_mask : 0, end = mask ? r->end_mask : r->fixed;
    int best = -1;
    int32_t latest = -1;
    for (int reg = first; reg < end; reg++) {
        if (r->holder[reg] == CPU_JIT_NO_VALUE) return reg;
        const int32_t use = r->next_use[r->holder[reg]];
        if (!r->pinned[reg] && use > latest) {
            latest = use;
            best = reg;
        }
    }
    assert(best >= 0);
    put_aside(r, r->holder[best]);
    empty(r, best);
    return best;
}

void cpu_jit_replace(CpuJitRegisters *r, int32_t value, int reg) {
    assert(r->holder[reg] == CPU_JIT_NO_VALUE);
    r->holder[reg] = value;
    r->register_of[value] = (int8_t)reg;
}

int cpu_jit_hold(CpuJitRegisters *r, int32_t value) {
    const int reg = take(r, value);
    cpu_jit_replace(r, value, reg);
    return reg;
}

int cpu_jit_in_register(CpuJitRegisters *r, int32_t value) {
    int reg = r->register_of[value];
    if (reg < 0) {
        reg = cpu_jit_hold(r, value);
        r->load(r, value, reg);
    }
    r->pinned[reg] = true;
    return reg;
}

void cpu_jit_release(CpuJitRegisters *r, const CpuJitValue *value) {
    for (int k = 0; k < 3; k++)
        if (value->operands[k] >= 0)
            r->next_use[value->operands[k]] = value->next_use[k] < 0 ? CPU_JIT_NEVER : value->next_use[k];
    for (int k = 0; k < 3; k++) {
        const int32_t operand = value->operands[k];
        if (operand < 0) continue;
        const int reg = r->register_of[operand];
        if (reg >= 0) r->pinned[reg] = false;
        if (r->next_use[operand] != CPU_JIT_NEVER || cpu_jit_is_fixed(r, reg)) continue;
        if (reg >= 0) empty(r, reg);
        if (r->slot_of[operand] >= 0) r->slot_taken[r->slot_of[operand]] = false;
        r->slot_of[operand] = -1;
    }
}

// Whether this is the operand's last use.
static bool ends(const CpuJitValue *value, int32_t operand) {
    int32_t next = 0;
    for (int k = 0; k < 3; k++)
        if (value->operands[k] == operand) next = value->next_use[k];
    return next < 0;
}

bool cpu_jit_is_spent(const CpuJitRegisters *r, const CpuJitValue *value, int32_t operand) {
    return ends(value, operand) && !cpu_jit_is_fixed(r, r->register_of[operand]);
}

void cpu_jit_clear_registers(CpuJitRegisters *r) {
    for (int reg = 0; reg < r->temporary; reg++) {
        if (r->holder[reg] == CPU_JIT_NO_VALUE) continue;
        if (r->next_use[r->holder[reg]] != CPU_JIT_NEVER) put_aside(r, r->holder[reg]);
        empty(r, reg);
    }
}

// ---- values of all iterations

static bool is_invariant(const CpuJitRegisters *r, int32_t number) {
    const CpuJitValue *value = &r->block->values.items[number];
    if (cpu_jit_is_constant(r, number)) return true;
    return value->op == CPU_VALUE_OF_MEMORY && r->lists[value->address.base].one;
}

static bool takes_register(const CpuJitRegisters *r, int32_t number) {
    return !is_invariant(r, number) && !cpu_jit_is_in_mask(r, number);
}

int cpu_jit_count_registers(const CpuJitRegisters *r) {
    int now = 0, most = 0;
    for (int32_t i = 0; i < (int32_t)r->block->values.count; i++) {
        const CpuJitValue *value = &r->block->values.items[i];
        const int32_t *x = value->operands;
        if (!value->needed) continue;
        for (int k = 0; k < 3; k++) {
            const bool again = (k > 0 && x[k] == x[0]) || (k > 1 && x[k] == x[1]);
            if (x[k] >= 0 && !again && ends(value, x[k])) now -= takes_register(r, x[k]);
        }
        if (value->op < CPU_EFFECT_STORE) now += takes_register(r, i);
        if (now > most) most = now;
    }
    return most;
}

int cpu_jit_longest_path(const CpuJitRegisters *r) {
    const int32_t count = (int32_t)r->block->values.count;
    int *paths = HLO_ARENA_NEW(r->block->arena, int, count + 1), longest = 0;
    for (int32_t i = 0; i < count; i++) {
        const CpuJitValue *value = &r->block->values.items[i];
        if (!value->needed || is_invariant(r, i) || value->op == CPU_VALUE_OF_MEMORY) continue;
        for (int k = 0; k < 3; k++)
            if (value->operands[k] >= 0 && paths[value->operands[k]] > paths[i]) paths[i] = paths[value->operands[k]];
        paths[i] += cpu_jit_latency(value);
        if (paths[i] > longest) longest = paths[i];
    }
    return longest;
}

// An operation may need a register more than there are values, and two to load constants.
void cpu_jit_load_invariants(CpuJitRegisters *r) {
    enum { kMore = 3 };
    const int32_t count = (int32_t)r->block->values.count;
    const int least = cpu_jit_count_registers(r) + kMore;  // registers that are left to other values
    int *uses = HLO_ARENA_NEW(r->block->arena, int, count);
    for (int32_t i = 0; i < count; i++)
        for (int k = 0; k < 3 && r->block->values.items[i].needed; k++)
            if (r->block->values.items[i].operands[k] >= 0) uses[r->block->values.items[i].operands[k]]++;
    for (int rarely = 0; rarely < 2; rarely++)
        for (int32_t i = 0; i < count && r->fixed > least; i++) {
            if (!r->block->values.items[i].needed || !is_invariant(r, i) || (uses[i] == 1) != (rarely != 0)) continue;
            const int reg = --r->fixed;
            r->load(r, i, reg);
            cpu_jit_replace(r, i, reg);
        }
}
