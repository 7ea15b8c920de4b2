// SPDX-License-Identifier: Apache-2.0
// Long rows in chunks: which phase computes a value, what is kept for the whole row, and where registers are. See
// CpuLoopPhase.
//
// A row that is longer than a chunk and whose elements are combined with its own reductions (a softmax) is walked
// several times, chunk by chunk; each walk is a phase. A reduction ends the phase that feeds it, since its result is
// known only after the whole row.
//
//     x = load; m = reduce-max x; e = exp(x - m); s = reduce-add e; store e / s
//     phase 0   x -> m                      a load is repeated in each phase that reads it
//     phase 1   x, m -> e -> s              e is read again: it is kept for the whole row
//     phase 2   e, s -> store               s is expanded once and shared by all chunks
//
// A value is computed in the first phase in which its operands are available. Stores wait for the last phase that reads
// any array, since input and output may be one buffer. Chunks are leaves of the tree by which long reductions are
// summed, so that a row gives the same bits in chunks as in one piece.
#include <assert.h>

#include "targets/cpu/loop/internal.h"

// Limited by the bits of `used_in`.
enum { kMostPhases = 60 };

// Returns the set that contains only this phase.
static uint64_t bit(int phase) {
    return (uint64_t)1 << phase;
}

// Returns the lowest element of a set, which must not be empty.
static int lowest(uint64_t set) {
    return __builtin_ctzll(set);
}

// Whether the value is repeated in every phase that reads it: arrays that are read in place, or nearly, and other names
// of registers.
static bool is_repeated(const CpuLoopValue *value) {
    if (value->level != CPU_LEVEL_FULL) return false;
    if (value->kind == CPU_VALUE_LOAD) return value->walk.count == 0 || value->walk.strides[0] == 1;
    return value->kind == CPU_VALUE_INDEX || value->kind == CPU_VALUE_ALIAS;
}

// Whether the value exists once per row: values of the row itself, and those that all chunks share.
static bool is_once(const CpuLoopValue *value) {
    return value->kind == CPU_VALUE_EXPAND || (value->level == CPU_LEVEL_KEPT && value->kind != CPU_VALUE_REDUCE);
}

// Whether the value belongs to a phase. Uniform values do not: they are computed once per task, before all rows.
static bool takes_part(const CpuLoopValue *value) {
    return value->kind != CPU_VALUE_DROPPED && value->level != CPU_LEVEL_UNIFORM;
}

// Returns the first phase that can read the value; a reduction's result is available one phase later.
static int phase_that_reads(const CpuLoop *loop, const CpuLoopValue *value) {
    int phase = 0;
    for (int i = 0; i < 3; i++) {
        if (value->operands[i] < 0) continue;
        const CpuLoopValue *operand = &loop->values[value->operands[i]];
        const int ready = operand->phase + (operand->kind == CPU_VALUE_REDUCE);
        phase = ready > phase ? ready : phase;
    }
    return phase;
}

// Returns the phases in which the value is computed or repeated.
static uint64_t computed_in(const CpuLoopValue *value) {
    return is_repeated(value) ? value->used_in : bit(value->phase);
}

// Walks from the last value to the first, so that the phases of a repeated value's readers are known before its
// operands are visited.
static void find_uses(CpuLoop *loop) {
    for (CpuValue v = 0; v < loop->value_count; v++) loop->values[v].used_in = 0;
    for (CpuValue v = (CpuValue)loop->value_count - 1; v >= 0; v--) {
        const CpuLoopValue *value = &loop->values[v];
        if (!takes_part(value)) continue;
        for (int i = 0; i < 3; i++)
            if (value->operands[i] >= 0) loop->values[value->operands[i]].used_in |= computed_in(value);
    }
}

// Writes outputs only after every array has been read: they may be in the same memory.
static void delay_stores(CpuLoop *loop) {
    int last_read = 0;
    for (CpuValue v = 0; v < loop->value_count; v++)
        if (loop->values[v].kind == CPU_VALUE_LOAD && loop->values[v].used_in) {
            const int last = 63 - __builtin_clzll(loop->values[v].used_in);
            last_read = last > last_read ? last : last_read;
        }
    for (CpuValue v = 0; v < loop->value_count; v++) {
        CpuLoopValue *value = &loop->values[v];
        if (value->kind == CPU_VALUE_STORE && value->level != CPU_LEVEL_UNIFORM && value->phase < last_read)
            value->phase = last_read;
    }
}

// Finds values that must be kept for the whole row. A load that has to be copied is copied in the first phase that
// reads it.
static void find_whole_rows(CpuLoop *loop) {
    for (CpuValue v = 0; v < loop->value_count; v++) {
        CpuLoopValue *value = &loop->values[v];
        if (!takes_part(value) || value->level != CPU_LEVEL_FULL || is_repeated(value) || is_once(value)) continue;
        if (value->kind == CPU_VALUE_LOAD && value->used_in) value->phase = lowest(value->used_in);
        value->whole_row = (value->used_in & ~bit(value->phase)) != 0;
    }
}

bool cpu_loop_plan_phases(CpuLoopPlanner *p) {
    CpuLoop *loop = p->loop;
    int phases = 1;
    if (loop->mode != CPU_MODE_ROWS || loop->reductions.count == 0 || loop->reduced <= CPU_LOOP_BLOCK) return false;
    assert((int)CPU_LOOP_BLOCK == (int)CPU_REDUCE_CHUNK &&
           loop->block == 1);  // chunks are leaves of the reduction's tree
    for (CpuValue v = 0; v < loop->value_count; v++) {
        CpuLoopValue *value = &loop->values[v];
        value->phase = takes_part(value) ? phase_that_reads(loop, value) : 0;
        phases = value->phase >= phases ? value->phase + 1 : phases;
    }
    if (phases > kMostPhases) return false;
    find_uses(loop);
    delay_stores(loop);
    find_uses(loop);
    find_whole_rows(loop);
    loop->phases = HLO_ARENA_NEW(p->b->arena, CpuLoopPhase, phases);
    loop->phase_count = phases;
    return true;
}

// Whether the value may be computed in the output: not if it is kept for the row, as it is needed after the store, and
// not if the store is in another phase, as it comes too late.
bool cpu_loop_phase_may_place(const CpuLoop *loop, CpuValue value, CpuValue store) {
    const CpuLoopValue *placed = &loop->values[value];
    return loop->values[store].phase == placed->phase && !placed->whole_row;
}

// ---- registers

// Frees the registers that no later phase reads.
static void free_after(CpuLoopPlanner *p, int phase) {
    for (CpuValue v = 0; v < p->loop->value_count; v++) {
        const CpuLoopValue *value = &p->loop->values[v];
        if (p->slot_of[v] < 0 || !takes_part(value) || value->level != CPU_LEVEL_FULL) continue;
        const uint64_t there = value->used_in | computed_in(value);
        if (there >> phase == 1) cpu_loop_free_slot(p, p->slot_of[v]);  // the last phase that uses it
    }
}

// Assigns registers that outlive a chunk first. Otherwise one could reuse the memory of a value that is computed again
// for each chunk.
static void assign_phase(CpuLoopPlanner *p, int phase) {
    CpuLoop *loop = p->loop;
    for (int outlives = 1; outlives >= 0; outlives--)
        for (CpuValue v = 0; v < loop->value_count; v++) {
            const CpuLoopValue *value = &loop->values[v];
            if (!takes_part(value) || p->slot_of[v] >= 0) continue;
            const bool here = is_repeated(value) ? (value->used_in >> phase & 1) != 0 : value->phase == phase;
            const bool stays =
                value->whole_row || is_once(value) || is_repeated(value) || value->kind == CPU_VALUE_REDUCE;
            if (here && stays == (outlives != 0)) cpu_loop_assign_register(p, v);
        }
    free_after(p, phase);
}

// Lists a phase; stores come last. `moving` are the registers whose address depends on the chunk.
static void list_phase(CpuLoopPlanner *p, int number) {
    CpuLoop *loop = p->loop;
    CpuLoopPhase *phase = &loop->phases[number];
    CpuLoopStep *steps = HLO_ARENA_NEW(p->b->arena, CpuLoopStep, loop->value_count + 1);
    for (int stores = 0; stores < 2; stores++)
        for (CpuValue v = 0; v < loop->value_count; v++) {
            const CpuLoopValue *value = &loop->values[v];
            if (!takes_part(value) || (value->kind == CPU_VALUE_STORE) != (stores != 0)) continue;
            if (value->whole_row && ((value->used_in | computed_in(value)) >> number & 1) != 0)
                hlo_vector_push(p->b->arena, &phase->moving, v);
            if ((computed_in(value) >> number & 1) == 0) continue;
            if (is_once(value)) {
                hlo_vector_push(p->b->arena, &phase->once, v);
                continue;
            }
            if (!cpu_loop_is_done(loop, v)) steps[phase->steps.count++] = cpu_loop_step(loop, v);
        }
    phase->steps.items = steps;
}

void cpu_loop_assign_phases(CpuLoopPlanner *p) {
    CpuLoop *loop = p->loop;
    assert(loop->phases && loop->phase_count > 0);
    // Only values that live within one chunk may release their register to their last reader.
    for (CpuValue v = 0; v < loop->value_count; v++) {
        const CpuLoopValue *value = &loop->values[v];
        if (value->whole_row || is_once(value) || is_repeated(value) || value->kind == CPU_VALUE_REDUCE)
            p->last_use[v] = loop->value_count;
    }
    for (int phase = 0; phase < loop->phase_count; phase++) assign_phase(p, phase);
    for (int phase = 0; phase < loop->phase_count; phase++) list_phase(p, phase);
}
