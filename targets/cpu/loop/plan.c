// SPDX-License-Identifier: Apache-2.0
// Plans a fused loop: how the domain is walked, where each register is stored, when each value is computed.
//
// In order (cpu_loop_finish): merged operations (peephole.c), walks of all loads and stores, the mode, the lists of
// values by when they run, block sizes, registers, steps, prefetches, and finally a list of calls if it is a small loop
// (small.c). All of it is linear in the program's length, except registers, which search for the best of the free
// slots.
//
//     mode ROWS      lists uniform (once per task) and body (once per block)
//     two passes     uniform | before, body per segment (and combiner) | before, after per kept block
//
// Dimensions that are contiguous in memory are merged, so that a walk has as few as possible. A walk with a single
// dimension of stride 1 is contiguous, and is read and written in place.
//
// Registers are slots of scratch memory, assigned by linear scan in execution order: a value takes the smallest free
// slot that holds a block of it, and the slot is freed after its last reader.
//
// Invariants: a register whose memory another list reads is never freed (find_last_uses); a stored value may be
// computed in the output only if no input is read in place after it, because the two may be one buffer (place_stores).
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/element/element.h"
#include "targets/cpu/host/processor.h"
#include "targets/cpu/loop/internal.h"

enum { kSlotAlignment = 64 };

// ---- walks

// Merges dimensions first, first + 1, ... in reading order, innermost first in the result.
static void add_dims(CpuWalk *walk, const CpuLoopBuilder *b, const CpuIndexMap *map, int first, int count) {
    assert(first >= 0 && count >= 0);
    for (int d = first + count - 1; d >= first; d--) {
        if (b->dims[d] == 1) continue;
        const int top = walk->count - 1;
        if (top >= 0 && map->strides[d] == walk->strides[top] * walk->sizes[top]) {
            walk->sizes[top] *= b->dims[d];
            continue;
        }
        walk->sizes[walk->count] = b->dims[d];
        walk->strides[walk->count++] = map->strides[d];
    }
}

// Plans a walk, innermost dimensions first. The level determines which dimensions the value varies along at all.
static CpuWalk plan_walk(const CpuLoopBuilder *b, const CpuIndexMap *map, CpuLevel level) {
    const size_t bytes = sizeof(int64_t) * (size_t)(b->rank ? b->rank : 1);
    CpuWalk walk = {.offset = map->offset,
                    .sizes = hlo_arena_allocate(b->arena, bytes),
                    .strides = hlo_arena_allocate(b->arena, bytes)};
    add_dims(&walk, b, map, b->outer + b->reduced, b->inner);
    if (level == CPU_LEVEL_FULL) add_dims(&walk, b, map, b->outer, b->reduced);
    add_dims(&walk, b, map, 0, b->outer);
    for (int d = 0; d < walk.count; d++)
        if (walk.sizes[d] == 0) walk.count = 0;  // no elements: there is no size to divide a position by
    walk.contiguous = walk.count == 0 || (walk.count == 1 && walk.strides[0] == 1);
    return walk;
}

// Plans the walks of all loads, stores and indices.
static void plan_walks(CpuLoop *loop, const CpuLoopBuilder *b) {
    for (int i = 0; i < loop->value_count; i++) {
        CpuLoopValue *value = &loop->values[i];
        if (value->kind == CPU_VALUE_LOAD || value->kind == CPU_VALUE_INDEX || value->kind == CPU_VALUE_STORE)
            value->walk = plan_walk(b, &value->map, value->level);
    }
}

// ---- mode and block sizes

// Whether values of a whole row are combined with a reduction's result.
static bool needs_whole_rows(const CpuLoop *loop) {
    for (int i = 0; i < loop->value_count; i++)
        if (loop->values[i].level == CPU_LEVEL_FULL && loop->values[i].after_reduce &&
            loop->values[i].kind != CPU_VALUE_DROPPED)
            return true;
    return false;
}

// Chooses one pass for short rows, and for rows whose elements are combined with their own reductions, and two passes
// for all other reductions.
static CpuLoopMode choose_mode(const CpuLoop *loop, const CpuLoopBuilder *b) {
    if (loop->combine_count > 0) return CPU_MODE_COLUMNS;
    if (b->reduce_count == 0 || b->reduced == 0 || loop->reduced == 0) return CPU_MODE_ROWS;
    if (loop->inner > 1) return CPU_MODE_COLUMNS;
    if (needs_whole_rows(loop) || loop->reduced <= CPU_LOOP_ROW_ELEMENTS) return CPU_MODE_ROWS;
    return CPU_MODE_PARTIAL;
}

// Returns the shortest run over which non-contiguous arrays are still contiguous: blocks inside one run are read in
// place. Returns 0 if that would make blocks too small.
static int64_t shortest_run(const CpuLoop *loop) {
    int64_t shortest = loop->kept;
    for (int i = 0; i < loop->value_count; i++) {
        const CpuWalk *walk = &loop->values[i].walk;
        if (walk->count == 0 || walk->contiguous || loop->values[i].level != CPU_LEVEL_KEPT) continue;
        if (walk->sizes[0] < shortest) shortest = walk->sizes[0];
    }
    return shortest >= CPU_LOOP_BLOCK / 4 && loop->kept % shortest == 0 ? shortest : loop->kept;
}

// Divides a run into blocks of about equal size, at most `block`.
static void split_run(CpuLoop *loop, int64_t run, int64_t block) {
    loop->row_run = run > 0 ? run : 1;
    loop->blocks_per_run = hlo_divide_up(loop->row_run, block);
    loop->block = hlo_divide_up(loop->row_run, loop->blocks_per_run);
}

// Whether all that is computed for each element is a load in place: rows of it are reduced where they are.
static bool only_reduces_array(const CpuLoop *loop) {
    if (loop->combine_count || loop->body.count != 1) return false;
    const CpuLoopValue *value = &loop->values[loop->body.items[0]];
    return value->kind == CPU_VALUE_LOAD && value->walk.contiguous;
}

// Chooses how many reduced indices of columns are computed together: as many as registers hold, where a block is all
// columns.
static int64_t choose_rows(const CpuLoop *loop) {
    if (only_reduces_array(loop)) return loop->segment;
    const bool all = loop->blocks_per_run == 1 && loop->inner > 0 && loop->inner <= CPU_LOOP_BLOCK;
    return all ? CPU_LOOP_BLOCK / loop->inner : 1;
}

// Chooses block sizes; `block` is the number of elements per block without reductions.
static void choose_blocks(CpuLoop *loop, const CpuLoopBuilder *b, int64_t block) {
    loop->segment = loop->segments = loop->rows_at_once = 1;
    switch (loop->mode) {
        case CPU_MODE_ROWS:
            if (b->reduced == 0 || loop->reduced <= 1) {
                split_run(loop, shortest_run(loop), block);
                break;
            }
            split_run(loop, loop->kept, loop->reduced >= CPU_LOOP_BLOCK ? 1 : CPU_LOOP_BLOCK / loop->reduced);
            break;
        case CPU_MODE_PARTIAL:
            split_run(loop, loop->kept, CPU_LOOP_BLOCK);
            loop->segment = CPU_REDUCE_SEGMENT;
            break;
        case CPU_MODE_COLUMNS:
            split_run(loop, loop->inner, CPU_LOOP_BLOCK);
            loop->segment = loop->combine_in_order && loop->reduced > 0 ? loop->reduced : CPU_LOOP_COLUMN_SEGMENT;
            loop->rows_at_once = choose_rows(loop);
            break;
    }
    loop->segments = hlo_divide_up(loop->reduced, loop->segment);
    const int64_t full =
        loop->mode == CPU_MODE_ROWS ? loop->block * (loop->reduced ? loop->reduced : 1) : CPU_LOOP_BLOCK;
    loop->uniform_count = full > loop->block ? full : loop->block;
    if (loop->mode == CPU_MODE_PARTIAL && loop->uniform_count < CPU_LOOP_BLOCK) loop->uniform_count = CPU_LOOP_BLOCK;
}

// ---- schedule

// Returns the list in which a value is computed; CpuLoop describes the lists.
static CpuValueVector *list_of(CpuLoop *loop, const CpuLoopValue *value) {
    if (value->level == CPU_LEVEL_UNIFORM) return &loop->uniform;
    if (loop->mode == CPU_MODE_ROWS) return &loop->body;
    if (value->in_combiner) return &loop->combiner;
    if (value->after_reduce) return &loop->after;
    if (value->level == CPU_LEVEL_FULL) return &loop->body;
    return value->kind == CPU_VALUE_STORE ? &loop->after : &loop->before;
}

// Puts values into lists. Stores come last in their list: they may overwrite an input. Reductions are numbered by their
// index in `reductions`.
static void schedule(CpuLoopPlanner *p) {
    CpuLoop *loop = p->loop;
    for (CpuValue v = 0; v < loop->value_count; v++) {
        CpuLoopValue *value = &loop->values[v];
        if (value->kind == CPU_VALUE_ACCUMULATOR || value->kind == CPU_VALUE_ELEMENT) continue;
        if (value->kind == CPU_VALUE_STORE || value->kind == CPU_VALUE_DROPPED) continue;
        hlo_vector_push(p->b->arena, list_of(loop, value), v);
        if (value->kind == CPU_VALUE_REDUCE || value->kind == CPU_VALUE_COMBINED)
            hlo_vector_push(p->b->arena, &loop->reductions, v);
    }
    for (CpuValue v = 0; v < loop->value_count; v++)
        if (loop->values[v].kind == CPU_VALUE_STORE) hlo_vector_push(p->b->arena, list_of(loop, &loop->values[v]), v);
}

// Records a use. Positions are value numbers: a value is computed at its own number.
static void note_use(CpuLoopPlanner *p, CpuValue value, int position) {
    if (value >= 0 && p->last_use[value] < position) p->last_use[value] = position;
}

// Finds the last use of each register. Values that are read in another list, or by the interpreter itself, live to the
// end.
static void find_last_uses(CpuLoopPlanner *p) {
    CpuLoop *loop = p->loop;
    const int forever = loop->value_count;
    for (CpuValue v = 0; v < loop->value_count; v++) {
        const CpuLoopValue *value = &loop->values[v];
        const CpuValueVector *own = list_of(loop, value);
        for (int i = 0; i < 3; i++) {
            const CpuValue operand = value->operands[i];
            if (operand < 0) continue;
            const bool same_list = list_of(loop, &loop->values[operand]) == own;
            note_use(p, operand, same_list && value->kind != CPU_VALUE_STORE ? v : forever);
        }
        if (value->level == CPU_LEVEL_UNIFORM || value->kind == CPU_VALUE_REDUCE || value->kind == CPU_VALUE_COMBINED ||
            value->kind == CPU_VALUE_ACCUMULATOR)
            note_use(p, v, forever);
    }
    for (int i = 0; i < loop->combine_count; i++) {
        note_use(p, loop->combine_values[i], forever);
        note_use(p, loop->combined[i], forever);
        note_use(p, loop->combine_inits[i], forever);
    }
    // A register that is read through an alias or an expansion in place must not be freed before these.
    for (CpuValue v = (CpuValue)loop->value_count - 1; v >= 0; v--) {
        const CpuLoopValue *value = &loop->values[v];
        if (value->kind == CPU_VALUE_ALIAS || value->kind == CPU_VALUE_EXPAND)
            note_use(p, value->operands[0], p->last_use[v]);
    }
}

// ---- slow kernels

// Whether to prefetch for stores too, and between parts of slow kernels. It takes a fifth off loops of several kernels
// with AVX2 on Zen 3 and a quarter off a softmax with AVX-512 on Zen 4; with AVX-512 on a Xeon it gains nothing.
static bool fetches_more(const CpuLoop *loop) {
    const bool wide = loop->kernels == cpu_isa_loop_kernels(CPU_FEATURES_AVX512);
    return loop->kernels == cpu_isa_loop_kernels(CPU_FEATURES_AVX2) || (wide && !cpu_processor_is_intel());
}

// Decides by kernel. Merged operations have kernels of their own, and count as fast.
static bool is_slow(const CpuLoop *loop, const CpuLoopValue *value) {
    static const bool kSlow[] = {
#define CPU_LOOP_OP(name, role, arity, result, rounds, slow, ...) slow,
#define CPU_LOOP_TEST(name, ...) false,
#include "targets/cpu/isa/loop_ops.def"
#undef CPU_LOOP_OP
#undef CPU_LOOP_TEST
    };
    if (value->kind != CPU_VALUE_KERNEL || !fetches_more(loop)) return false;
    for (size_t i = 0; i < HLO_COUNT_OF(kSlow); i++)
        if (kSlow[i] && value->kernel == loop->kernels->operation[i][CPU_REGISTER_F32]) return true;
    return false;
}

// ---- stores

// Returns the number of elements of a level in the whole domain.
static int64_t elements_of(const CpuLoop *loop, CpuLevel level) {
    return level == CPU_LEVEL_FULL ? loop->kept * loop->reduced : level == CPU_LEVEL_KEPT ? loop->kept : 1;
}

// Makes stores bypass the caches in loops whose arrays do not all fit in a cache: a cached store would first fetch each
// line, and evict one of an operand's. On a core of Zen 3 with 32 MB of third-level cache a sum of two arrays of 16 MB
// takes 1.3 ms instead of 1.7 and a negation of 64 MB 4.3 instead of 8; an exponential of 16 MB would take 1.85 instead
// of 1.65. Slow kernels leave memory enough time to fetch.
static void stream_stores(CpuLoop *loop) {
    enum { kLargerThanCaches = 40 << 20 };
    int64_t bytes = 0;
    for (CpuValue v = 0; v < loop->value_count; v++) {
        const CpuLoopValue *value = &loop->values[v];
        if (value->kind == CPU_VALUE_LOAD || value->kind == CPU_VALUE_STORE)
            bytes += elements_of(loop, value->level) * value->width;
    }
    if (loop->mode != CPU_MODE_ROWS || loop->phases || bytes < kLargerThanCaches) return;
    for (CpuValue v = 0; v < loop->value_count; v++) {
        CpuLoopValue *store = &loop->values[v];
        if (store->kind != CPU_VALUE_STORE) continue;
        const CpuLoopValue *value = &loop->values[store->operands[0]];
        store->streams = store->walk.contiguous && store->walk.count <= 1 && store->level == value->level &&
                         !is_slow(loop, value) &&
                         elements_of(loop, store->level) * store->width >= CPU_COPY_STREAMED_BYTES;
        loop->streams |= store->streams;
    }
}

// Whether the value's register may be memory of an output: kernels write registers, and loads that copy. Lists of calls
// read arrays through tables of their own.
static bool may_be_placed(const CpuLoop *loop, const CpuLoopValue *value, const CpuLoopValue *store) {
    if (value->kind == CPU_VALUE_KERNEL) return true;
    const int64_t elements = loop->kept * (loop->reduced ? loop->reduced : 1);
    return value->kind == CPU_VALUE_LOAD && !value->walk.contiguous && !store->streams && !loop->phases &&
           elements > CPU_SMALL_ELEMENTS;
}

// Returns the position of the last read of any array but that of load `except`, -1 if there is none.
static int last_read_in_place(const CpuLoopPlanner *p, CpuValue except) {
    int last = -1;
    for (CpuValue v = 0; v < p->loop->value_count; v++)
        if (v != except && p->loop->values[v].kind == CPU_VALUE_LOAD && p->last_use[v] > last) last = p->last_use[v];
    return last;
}

// Places the registers of stored values in the output's own memory if the store is contiguous, the value is computed by
// a kernel or copied, and no later instruction of the list reads an input in place (the output may share its memory).
static void place_stores(CpuLoopPlanner *p) {
    CpuLoop *loop = p->loop;
    const int last_read = last_read_in_place(p, -1);
    for (CpuValue v = 0; v < loop->value_count; v++) {
        const CpuLoopValue *store = &loop->values[v];
        if (store->kind != CPU_VALUE_STORE || !store->walk.contiguous) continue;
        CpuLoopValue *value = &loop->values[store->operands[0]];
        if (!may_be_placed(loop, value, store) || value->level != store->level || value->stored_by >= 0) continue;
        if (list_of(loop, value) != list_of(loop, store) || value->in_combiner) continue;
        if (loop->phases && !cpu_loop_phase_may_place(loop, store->operands[0], v)) continue;
        const bool loads = value->kind == CPU_VALUE_LOAD;
        if (store->operands[0] >= (loads ? last_read_in_place(p, store->operands[0]) : last_read)) value->stored_by = v;
    }
}

// ---- registers

// Rounds to whole cache lines, so that each register begins on one.
static int64_t register_bytes(const CpuLoop *loop, const CpuLoopValue *value) {
    int64_t count = loop->uniform_count;
    if (value->level == CPU_LEVEL_KEPT && loop->mode == CPU_MODE_ROWS)
        count = loop->reduced > 1 ? hlo_larger(loop->block, CPU_CHAIN_ROWS) : loop->block;
    if (value->whole_row) count = loop->reduced;
    const int64_t bytes = count * value->width;
    return hlo_round_up(bytes, kSlotAlignment);
}

// Adds a slot at the end of the scratch memory.
static int add_slot(CpuLoopPlanner *p, int64_t bytes) {
    const int slot = p->slot_count++;
    p->slot_bytes[slot] = bytes;
    p->slot_offsets[slot] = p->scratch;
    p->slot_free[slot] = false;
    p->scratch += bytes;
    return slot;
}

// Takes the best fit among the free slots, or a new one. A loop has a few sizes of registers but may have hundreds of
// thousands of registers (an all-reduce over that many devices): the search is over sizes, never over slots.
static int take_slot(CpuLoopPlanner *p, int64_t bytes) {
    assert(bytes > 0);
    CpuSlotSize *best = NULL;
    for (int64_t i = 0; i < p->slot_sizes.count; i++) {
        CpuSlotSize *size = &p->slot_sizes.items[i];
        if (size->free >= 0 && size->bytes >= bytes && (!best || size->bytes < best->bytes)) best = size;
    }
    if (!best) return add_slot(p, bytes);
    const int slot = best->free;
    best->free = p->slot_next[slot];
    p->slot_free[slot] = false;
    return slot;
}

void cpu_loop_free_slot(CpuLoopPlanner *p, int slot) {
    assert(slot >= 0 && slot < p->slot_count);
    if (p->slot_free[slot]) return;
    int64_t i = 0;
    while (i < p->slot_sizes.count && p->slot_sizes.items[i].bytes != p->slot_bytes[slot]) i++;
    if (i == p->slot_sizes.count)
        hlo_vector_push(p->b->arena, &p->slot_sizes, ((CpuSlotSize){p->slot_bytes[slot], -1}));
    p->slot_next[slot] = p->slot_sizes.items[i].free;
    p->slot_sizes.items[i].free = slot;
    p->slot_free[slot] = true;
}

// Frees operands at their last use. A kernel may write over an operand of equal width; one of another width it must
// have read before.
static void free_dead_operands(CpuLoopPlanner *p, CpuValue v, bool of_equal_width) {
    const CpuLoopValue *value = &p->loop->values[v];
    for (int i = 0; i < 3; i++) {
        const CpuValue operand = value->operands[i];
        if (operand < 0 || p->slot_of[operand] < 0 || p->last_use[operand] != v) continue;
        if ((p->loop->values[operand].width == value->width) != of_equal_width) continue;
        cpu_loop_free_slot(p, p->slot_of[operand]);
    }
}

bool cpu_loop_expands_in_place(const CpuLoop *loop, const CpuLoopValue *value) {
    return loop->mode == CPU_MODE_COLUMNS && (loop->rows_at_once == 1 || value->in_combiner);
}

// Whether the value needs a register; contiguous loads are read in place.
static bool needs_register(const CpuLoop *loop, const CpuLoopValue *value) {
    if (value->kind == CPU_VALUE_STORE || value->kind == CPU_VALUE_ALIAS || value->kind == CPU_VALUE_DROPPED ||
        value->stored_by >= 0)
        return false;
    if (value->kind == CPU_VALUE_EXPAND && cpu_loop_expands_in_place(loop, value)) return false;
    return !(value->kind == CPU_VALUE_LOAD && value->walk.contiguous && value->level != CPU_LEVEL_UNIFORM);
}

void cpu_loop_assign_register(CpuLoopPlanner *p, CpuValue v) {
    assert(v >= 0 && v < p->loop->value_count && p->slot_of[v] < 0);  // a value has one register, assigned once
    CpuLoopValue *value = &p->loop->values[v];
    const bool in_place = value->kind == CPU_VALUE_KERNEL;
    if (in_place) free_dead_operands(p, v, true);
    if (needs_register(p->loop, value)) {
        p->slot_of[v] = take_slot(p, register_bytes(p->loop, value));
        value->slot = p->slot_offsets[p->slot_of[v]];
    }
    if (!in_place) free_dead_operands(p, v, true);
    free_dead_operands(p, v, false);
}

// Assigns registers by linear scan in execution order, list after list: a register freed by a later list must not be
// used by an earlier one. Kernels run in place where an operand of the same width dies.
static HloStatus assign_registers(CpuLoopPlanner *p) {
    CpuLoop *loop = p->loop;
    const CpuValueVector *const lists[] = {&loop->uniform, &loop->before, &loop->body, &loop->combiner, &loop->after};
    // Accumulators outlive every run of the body: they must not share a register that the body frees.
    for (int i = 0; i < loop->combine_count; i++) cpu_loop_assign_register(p, loop->accumulators[i]);
    for (size_t list = 0; list < HLO_COUNT_OF(lists); list++)
        for (CpuValue v = 0; v < loop->value_count && !(loop->phases && list > 0); v++)
            if (list_of(loop, &loop->values[v]) == lists[list] && loop->values[v].kind != CPU_VALUE_ACCUMULATOR)
                cpu_loop_assign_register(p, v);
    if (loop->phases) cpu_loop_assign_phases(p);
    HLO_FAIL_IF(loop->mode == CPU_MODE_ROWS && loop->reduced > CPU_LOOP_ROW_ELEMENTS &&
                    p->scratch - (int64_t)sizeof(void *) * loop->value_count > CPU_LOOP_ROW_BYTES,
                HLO_RESOURCE_EXHAUSTED, "fused loop: rows of %lld elements are too long to be kept",
                (long long)loop->reduced);
    return HLO_SUCCESS;
}

// Resets everything: block sizes may change and the registers be planned again.
static HloStatus plan_registers(CpuLoopPlanner *p) {
    CpuLoop *loop = p->loop;
    const size_t count =
        (size_t)loop->value_count + 1;  // one more for the interpreter: the register of a missing operand
    p->last_use = hlo_arena_allocate(p->b->arena, sizeof(int) * count);
    p->slot_of = hlo_arena_allocate(p->b->arena, sizeof(int) * count);
    p->slot_bytes = hlo_arena_allocate(p->b->arena, sizeof(int64_t) * count);
    p->slot_offsets = hlo_arena_allocate(p->b->arena, sizeof(int64_t) * count);
    p->slot_free = hlo_arena_allocate(p->b->arena, sizeof(bool) * count);
    p->slot_next = hlo_arena_allocate(p->b->arena, sizeof(int) * count);
    p->slot_sizes = (CpuSlotSizeVector){0};
    const int64_t pointers = (int64_t)(sizeof(void *) * count);
    p->scratch = hlo_round_up(pointers, kSlotAlignment);
    p->slot_count = 0;
    for (int v = 0; v < loop->value_count; v++) loop->values[v].slot = loop->values[v].stored_by = -1;
    memset(p->last_use, -1, sizeof(int) * count);
    memset(p->slot_of, -1, sizeof(int) * count);
    find_last_uses(p);
    stream_stores(loop);
    place_stores(p);
    HLO_TRY(assign_registers(p));
    loop->scratch_bytes = (size_t)p->scratch;
    return HLO_SUCCESS;
}

// Whether the loop only copies: its arrays are read and written in place, and its registers only have elements that are
// the same everywhere.
static bool only_moves(const CpuLoop *loop) {
    if (loop->mode != CPU_MODE_ROWS || loop->reduced > 1 || loop->streams) return false;
    for (CpuValue v = 0; v < loop->value_count; v++) {
        const CpuLoopValue *value = &loop->values[v];
        if (value->level == CPU_LEVEL_UNIFORM || value->kind == CPU_VALUE_DROPPED) continue;
        const bool loads = value->kind == CPU_VALUE_LOAD && value->slot < 0;
        const bool repeats =
            value->kind == CPU_VALUE_STORE && loop->values[value->operands[0]].level == CPU_LEVEL_UNIFORM;
        if (!loads && (value->kind != CPU_VALUE_STORE || (repeats && !value->walk.contiguous))) return false;
    }
    return true;
}

// Shortens blocks if registers would exceed the first-level cache by much. Those of copies are longer, as they have no
// registers: with blocks of one row, calls would take as long as the copies.
static HloStatus plan_blocks(CpuLoopPlanner *p) {
    enum { kRegisterBytes = 48 << 10, kMoved = 16 << 10 };
    CpuLoop *loop = p->loop;
    choose_blocks(loop, p->b, CPU_LOOP_BLOCK);
    cpu_loop_read_ones(loop);
    if (cpu_loop_plan_phases(p)) loop->uniform_count = CPU_LOOP_BLOCK;
    HLO_TRY(plan_registers(p));
    if (only_moves(loop)) split_run(loop, loop->kept, kMoved);
    if (loop->mode != CPU_MODE_ROWS || loop->reduced > 1 || loop->scratch_bytes <= kRegisterBytes) return HLO_SUCCESS;
    choose_blocks(loop, p->b, CPU_LOOP_BLOCK / 2);
    return plan_registers(p);
}

bool cpu_loop_is_done(const CpuLoop *loop, CpuValue v) {
    const CpuLoopValue *value = &loop->values[v];
    if (value->kind != CPU_VALUE_STORE) return false;
    const CpuLoopValue *stored = &loop->values[value->operands[0]];
    return stored->stored_by == v && stored->kind != CPU_VALUE_LOAD;
}

CpuLoopStep cpu_loop_step(const CpuLoop *loop, CpuValue v) {
    const CpuLoopValue *value = &loop->values[v];
    const bool simple = value->kind == CPU_VALUE_KERNEL && value->stored_by < 0;
    return (CpuLoopStep){.kernel = simple ? value->kernel : NULL,
                         .immediate = value->immediate,
                         .value = v,
                         .operands = {value->operands[0], value->operands[1], value->operands[2]},
                         .full = value->level == CPU_LEVEL_FULL,
                         .slow = is_slow(loop, value)};
}

// Lists the body in the interpreter's form: each step contains all it needs.
static void list_steps(CpuLoopPlanner *p) {
    CpuLoop *loop = p->loop;
    CpuLoopStep *steps = HLO_ARENA_NEW(p->b->arena, CpuLoopStep, loop->body.count);
    loop->steps = HLO_ARENA_NEW(p->b->arena, CpuLoopSteps, 1);
    for (int64_t i = 0; i < loop->body.count; i++)
        if (!cpu_loop_is_done(loop, loop->body.items[i]))
            steps[loop->steps->count++] = cpu_loop_step(loop, loop->body.items[i]);
    loop->steps->items = steps;
    int64_t *slots = HLO_ARENA_NEW(p->b->arena, int64_t, loop->value_count);
    for (int v = 0; v < loop->value_count; v++) slots[v] = loop->values[v].slot > 0 ? loop->values[v].slot : 0;
    loop->slots = slots;
}

// ---- prefetching

// Whether the value takes time to compute; loads and expansions are not counted.
static bool computes(const CpuLoopValue *value) {
    return value->kind == CPU_VALUE_KERNEL || value->kind == CPU_VALUE_REDUCE;
}

// Returns how many kernel calls compute `value` for the `count` elements of a block, with slow ones called in parts or
// not.
static int64_t calls_of(const CpuLoop *loop, const CpuLoopValue *value, int64_t count, bool parts) {
    const int64_t each = parts && is_slow(loop, value) ? CPU_LOOP_SLOW_PART : loop->phases ? CPU_LOOP_BLOCK : count;
    return hlo_divide_up(count, each);
}

// Whether to prefetch: only if the next block's elements follow this one's in memory.
static bool is_fetched(const CpuLoop *loop, const CpuLoopValue *value) {
    if (value->kind != CPU_VALUE_LOAD && !(value->kind == CPU_VALUE_STORE && !value->streams && fetches_more(loop)))
        return false;
    return value->walk.contiguous && value->walk.count == 1;
}

// Plans prefetches, only where several steps share a block's time (a single kernel keeps its own loads in flight) and
// where the arrays do not stay in a near cache. Each call in a block prefetches its share of the next block.
static void plan_ahead(CpuLoopPlanner *p) {
    enum { kWorthFetching = 3, kLine = 64, kLeastLines = 8, kMostLines = 20 };
    CpuLoop *loop = p->loop;
    const CpuLevel level = loop->reduced > 1 ? CPU_LEVEL_FULL : CPU_LEVEL_KEPT;
    const int64_t row = loop->reduced > 1 ? loop->reduced : 1, block = loop->block * row;
    int64_t steps = 0, calls = 0, loads = 0, bytes = 0;
    if (loop->mode != CPU_MODE_ROWS) return;
    for (int64_t i = 0; i < loop->body.count; i++) {
        const CpuLoopValue *value = &loop->values[loop->body.items[i]];
        const bool whole = value->level == level && computes(value), other = value->kind == CPU_VALUE_REDUCE;
        steps += whole ? calls_of(loop, value, block, false) : other;
        calls += whole ? calls_of(loop, value, block, true) : other;
        if (!is_fetched(loop, value) || value->level != level || loop->kept * row * value->width < CPU_LOOP_FAR_BYTES)
            continue;
        hlo_vector_push(p->b->arena, &loop->ahead, loop->body.items[i]);
        loads += value->kind == CPU_VALUE_LOAD;
        bytes += block * value->width;
    }
    if (steps < kWorthFetching || loads == 0) loop->ahead.count = 0;
    const int64_t lines = (bytes / kLine + calls) / (calls ? calls : 1);
    loop->ahead_lines = lines < kMostLines ? lines : kMostLines;
    if (fetches_more(loop) && lines < kLeastLines) loop->ahead_lines = kLeastLines;  // a prefetch takes time too
}

// ---- finish

static void copy_combiner(CpuLoop *loop, const CpuLoopBuilder *b) {
    loop->combine_count = b->combine_count;
    loop->combine_in_order = b->combine_in_order;
    loop->accumulators = b->accumulators;
    loop->elements = b->elements;
    loop->combined = b->combined;
    loop->combine_inits = b->combine_inits;
    loop->combine_values = b->combine_values;
}

// Chooses the kernel that combines two partials of each built-in reduction.
static void choose_folds(CpuLoop *loop, const CpuLoopBuilder *b) {
    loop->fold = HLO_ARENA_NEW(b->arena, CpuBlockKernel *, b->reduce_count + 1);
    for (int i = 0; i < loop->value_count; i++) {
        const CpuLoopValue *value = &loop->values[i];
        if (value->kind == CPU_VALUE_REDUCE)
            loop->fold[value->partial] = b->kernels->operation[cpu_pair_op(value->reduce_op)][value->register_type];
    }
}

// Reduces a segment in one call if its elements are already in memory, else in chunks of as many elements as the
// registers hold. The kernel's tree over a segment is the same as the interpreter's over its chunks.
static void choose_piece(CpuLoop *loop) {
    loop->piece = CPU_REDUCE_CHUNK;
    if (loop->mode != CPU_MODE_PARTIAL || loop->body.count != 1 || loop->reductions.count != 1) return;
    const CpuLoopValue *source = &loop->values[loop->body.items[0]];
    const CpuLoopValue *reduction = &loop->values[loop->reductions.items[0]];
    if (source->kind == CPU_VALUE_LOAD && source->walk.contiguous && reduction->operands[0] == loop->body.items[0])
        loop->piece = loop->segment;
}

// Turns the builder's values into a plan: merged (peephole), split into what is computed once, once per row and once
// per block, walked in one of the modes, divided into blocks that the registers can hold, listed as steps. Returns
// errors that building has recorded.
HloStatus cpu_loop_finish(CpuLoopBuilder *b, CpuLoop **result) {
    assert(result);
    if (b->status) {
        const HloStatus status = b->status;
        b->status = NULL;
        return status;
    }
    cpu_loop_peephole(b);
    CpuLoop *loop = HLO_ARENA_NEW(b->arena, CpuLoop, 1);
    loop->kernels = b->kernels;
    loop->kernels_of_one = b->kernels_of_one;
    loop->moves = b->moves;
    loop->values = b->values.items;
    loop->value_count = (int)b->values.count;
    loop->outer = hlo_product(b->dims, b->outer);
    loop->reduced = hlo_product(b->dims + b->outer, b->reduced);
    loop->inner = hlo_product(b->dims + b->outer + b->reduced, b->inner);
    loop->kept = loop->outer * loop->inner;
    copy_combiner(loop, b);
    plan_walks(loop, b);
    loop->mode = choose_mode(loop, b);
    if (loop->mode == CPU_MODE_ROWS && b->reduced > 0 && loop->inner > 1 && loop->reduced > 1)
        return hlo_error(HLO_INVALID_ARGUMENT, "fused loop: the columns form needs a reduction");
    if (loop->mode == CPU_MODE_COLUMNS && needs_whole_rows(loop))
        return hlo_error(HLO_INVALID_ARGUMENT, "fused loop: the columns form cannot use a sum for its own elements");
    choose_folds(loop, b);
    CpuLoopPlanner planner = {.b = b, .loop = loop};
    schedule(&planner);
    HLO_TRY(plan_blocks(&planner));
    choose_piece(loop);
    list_steps(&planner);
    plan_ahead(&planner);
    cpu_loop_merge_stores(b, loop);
    cpu_small_loop_plan(b->arena, loop);
    *result = loop;
    return HLO_SUCCESS;
}

double cpu_loop_cost(const CpuLoop *loop) {
    const double elements = (double)loop->kept * (double)(loop->reduced > 1 ? loop->reduced : 1);
    return elements * (double)loop->value_count;
}
