// SPDX-License-Identifier: Apache-2.0
// Buffer assignment. Positions are even numbers in execution order, counted through nested regions. A step at position
// p writes at p and reads until p + 1, so an array that dies at a step and one that is defined there overlap: they may
// share memory only if the step works in place.
//
//     position 0   %a = loop        %a lives [0, 3]
//     position 2   %b = loop(%a)    %b lives [2, 5]   overlaps %a in [2, 3]: one slice only if the loop works in place
//     position 4   %c = kernel(%b)  %c lives [4, ...] may reuse %a's slice, which is free by then
//
// A storage is one region of memory and the segments of time in which some array needs it. Arrays that would otherwise
// be copied into each other are merged into one storage if no two of their values are needed at the same time
// (conflict()); storages that stay in the arena are packed by best fit. Invariant: at any position, the live values are
// in disjoint memory, except for the hand-over in a step that works in place.
//
// Order: number the steps and their reads, make a storage for each array that is written, bind results to the caller's
// memory, merge in three passes (loop states, updates in place, elementwise loops), decide which arguments a result may
// take over, pack. Merging looks the shorter of two histories up in the longer by bisection; packing is O(storages x
// gaps).
#include "targets/cpu/thunk/buffers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/arithmetic.h"

// The positions where an array (the root of its views) is read.
typedef struct Uses {
    int64_t last;        // last reading position, -1 for none
    HloInt64Vector all;  // every reading position
} Uses;

// What happens at a position: a step, or the end of a region. `owner` is the step whose regions contain it, NULL for
// the entry's.
typedef struct Moment {
    CpuStep *step;
    const CpuSteps *region;
    CpuStep *owner;
} Moment;

typedef struct Buffers {
    HloArena *arena;
    CpuProgram *program;
    CpuAssignment *assignment;
    int64_t position;
    HLO_VECTOR(Moment) moments;  // by position / 2
    Uses *uses;                  // by array id
    HLO_VECTOR(CpuStorage *) storages;
} Buffers;

enum { kAlignment = 64 };

// Follows merged storages to the one that represents them all.
static CpuStorage *storage_root(CpuStorage *storage) {
    while (storage->joined) storage = storage->joined;
    return storage;
}

CpuSlice cpu_array_slice(CpuArray *array) {
    const CpuStorage *storage = storage_root(cpu_array_root(array)->storage);
    return (CpuSlice){storage->base, storage->offset};
}

// ---- positions and uses

// Records a read; using a view is a use of the array it views.
static void use_at(Buffers *buffers, CpuArray *array, int64_t position) {
    Uses *uses = &buffers->uses[cpu_array_root(array)->id];
    if (position > uses->last) uses->last = position;
    hlo_vector_push(buffers->arena, &uses->all, position);
}

// Returns an even number; the moment's reads end at the odd number after it.
static int64_t next_position(Buffers *buffers, Moment moment) {
    const int64_t position = buffers->position;
    hlo_vector_push(buffers->arena, &buffers->moments, moment);
    buffers->position += 2;
    return position;
}

static void number_steps(Buffers *buffers, CpuSteps *steps, CpuStep *owner);

// Numbers a step. A step with regions also has an end position, after those of its regions.
static void number_step(Buffers *buffers, CpuStep *step, CpuStep *owner) {
    step->begin = next_position(buffers, (Moment){.step = step, .owner = owner});
    for (int32_t i = 0; i < step->read_count; i++) use_at(buffers, step->reads[i], step->begin + 1);
    const bool nested = step->kind == CPU_STEP_WHILE || step->kind == CPU_STEP_CONDITIONAL;
    for (int32_t i = 0; nested && i < step->node->region_count; i++) number_steps(buffers, &step->regions[i], step);
    step->end = nested ? next_position(buffers, (Moment){.owner = owner}) : step->begin;
    // State that does not change is the loop's initial value, and every iteration may read it.
    for (int32_t i = 0; step->kind == CPU_STEP_WHILE && i < step->write_count; i++)
        if (step->writes[i]->view) use_at(buffers, step->writes[i], step->end + 1);
}

// Numbers the steps of a region, whose results are read at its end.
static void number_steps(Buffers *buffers, CpuSteps *steps, CpuStep *owner) {
    steps->begin = buffers->position;
    for (int64_t i = 0; i < steps->steps.count; i++) number_step(buffers, &steps->steps.items[i], owner);
    steps->end = next_position(buffers, (Moment){.region = steps, .owner = owner});
    for (int64_t i = 0; i < steps->region->results.count; i++)
        use_at(buffers, steps->region->results.items[i], steps->end + 1);
}

// ---- storages

// Makes a storage in the arena; it stays there unless it is bound to another base.
static CpuStorage *new_storage(Buffers *buffers, CpuArray *array) {
    CpuStorage *storage = HLO_ARENA_NEW(buffers->arena, CpuStorage, 1);
    storage->bytes = array->bytes;
    array->storage = storage;
    return storage;
}

// Segments are sorted by beginning, because callers walk the program in order.
static void add_segment(Buffers *buffers, CpuStorage *storage, CpuArray *array, int64_t begin, int64_t end) {
    const CpuSegment segment = {array, begin, end};
    hlo_vector_push(buffers->arena, &storage->segments, segment);
}

// Returns the last of the array's uses in (last, limit], or `last` if there is none.
static int64_t last_use_before(const Buffers *buffers, const CpuArray *array, int64_t limit, int64_t last) {
    const Uses *uses = &buffers->uses[array->id];
    for (int64_t i = 0; i < uses->all.count; i++)
        if (uses->all.items[i] <= limit && uses->all.items[i] > last) last = uses->all.items[i];
    return last;
}

// Returns the outermost conditional in whose branches the live range [begin, end] ends without beginning there, or
// NULL.
static const CpuStep *conditional_at_end(const Buffers *buffers, int64_t begin, int64_t end) {
    const CpuStep *found = NULL;
    const CpuStep *owner = buffers->moments.items[end / 2].owner;
    for (; owner && owner->begin >= begin; owner = buffers->moments.items[owner->begin / 2].owner) {
        if (owner->kind == CPU_STEP_CONDITIONAL)
            found = owner;
        else if (owner->begin > begin)
            found = NULL;  // an array that a loop reads from outside lives as long as the loop
    }
    return found;
}

// Adds the live range of an array, from a position to its last use. Branches are numbered one after the other, but only
// one of them runs. So a range that ends in branches has a separate end in each, and an array defined in one branch may
// reuse the memory there although the next branch reads it too. Otherwise a loop whose branches update a buffer, or
// leave it unchanged, would copy it every time.
static void add_life(Buffers *buffers, CpuStorage *storage, CpuArray *array, int64_t begin, int64_t end) {
    const CpuStep *choice = conditional_at_end(buffers, begin, end);
    add_segment(buffers, storage, array, begin, choice ? choice->begin + 1 : end);
    for (int32_t i = 0; choice && i < choice->node->region_count; i++) {
        const CpuSteps *branch = &choice->regions[i];
        const int64_t last = last_use_before(buffers, array, branch->end + 1, branch->begin);
        if (last > branch->begin) add_life(buffers, storage, array, branch->begin, last);
    }
}

static int64_t maximum(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// Makes the storage of a loop's state. It lives from its initial value to the last read of the body, and again from the
// body's end, where the next value is written. If it is read after the loop, it must still be intact when the condition
// is false: the loop exits from there, although the body's positions come next. Otherwise a predicate `not(state)`
// could be written over the state, and the loop would return the predicate.
static void make_state_storage(Buffers *buffers, const CpuStep *step, CpuArray *state) {
    CpuStorage *storage = new_storage(buffers, state);
    const int64_t body_end = step->regions[1].end, last_use = buffers->uses[state->id].last;
    const int64_t kept = last_use > step->end ? step->regions[0].end + 1 : step->begin + 1;
    add_life(buffers, storage, state, step->begin, last_use_before(buffers, state, body_end + 1, kept));
    add_life(buffers, storage, state, body_end, maximum(step->end + 1, last_use));
    hlo_vector_push(buffers->arena, &buffers->storages, storage);
}

// Makes the storage of a conditional's result, which is written at the end of each branch.
static void make_choice_storage(Buffers *buffers, const CpuStep *step, CpuArray *result) {
    CpuStorage *storage = new_storage(buffers, result);
    for (int32_t i = 0; i < step->node->region_count; i++)
        add_segment(buffers, storage, result, step->regions[i].end, step->regions[i].end + 1);
    add_life(buffers, storage, result, step->end, maximum(step->end + 1, buffers->uses[result->id].last));
    hlo_vector_push(buffers->arena, &buffers->storages, storage);
}

// Makes a storage for each array that a step writes, live from there to its last read.
static void make_storages(Buffers *buffers, CpuSteps *steps) {
    for (int64_t i = 0; i < steps->steps.count; i++) {
        CpuStep *step = &steps->steps.items[i];
        for (int32_t k = 0; k < step->write_count; k++) {
            CpuArray *array = step->writes[k];
            if (array->view) continue;  // loop state that does not change
            if (step->kind == CPU_STEP_WHILE)
                make_state_storage(buffers, step, array);
            else if (step->kind == CPU_STEP_CONDITIONAL)
                make_choice_storage(buffers, step, array);
            else {
                CpuStorage *storage = new_storage(buffers, array);
                add_life(buffers, storage, array, step->begin, maximum(step->begin + 1, buffers->uses[array->id].last));
                hlo_vector_push(buffers->arena, &buffers->storages, storage);
            }
        }
        const bool nested = step->kind == CPU_STEP_WHILE || step->kind == CPU_STEP_CONDITIONAL;
        for (int32_t k = 0; nested && k < step->node->region_count; k++) make_storages(buffers, &step->regions[k]);
    }
}

// Makes storages of arguments, constants and tokens, whose memory is fixed.
static void make_fixed_storages(Buffers *buffers) {
    for (int64_t i = 0; i < buffers->program->arrays.count; i++) {
        CpuArray *array = buffers->program->arrays.items[i];
        if (array->storage || array->view) continue;
        CpuStorage *storage = new_storage(buffers, array);
        storage->base = CPU_BASE_CONSTANTS;
        if (array->parameter >= 0)
            storage->base = CPU_BASE_FIRST_ARGUMENT + array->parameter;
        else if (array->literal && array->materialized && buffers->uses[array->id].last >= 0) {
            storage->offset = buffers->assignment->constant_bytes;
            buffers->assignment->constant_bytes += hlo_round_up(array->bytes, kAlignment);
            hlo_vector_push(buffers->arena, &buffers->assignment->constants, array);
        }
    }
}

// ---- sharing

// Whether the step writes the array; the search is linear, as steps write few arrays.
static bool writes_array(const CpuStep *step, const CpuArray *array) {
    for (int32_t i = 0; i < step->write_count; i++)
        if (step->writes[i] == array) return true;
    return false;
}

// Whether `step` may write its result `write` over the memory of `read`, which it reads. The results of one loop all
// have the map and the width of its first store.
static bool works_in_place(const CpuStep *step, const CpuArray *read, const CpuArray *write) {
    assert(step && read && write);
    if (step->update_in_place >= 0) return step->reads[step->update_in_place] == read && step->writes[0] == write;
    if (step->kind == CPU_STEP_WHILE) {
        for (int32_t i = 0; i < step->write_count; i++)
            if (step->writes[i] == write && step->reads[i] == read) return true;
        return false;
    }
    if (step->kind != CPU_STEP_LOOPS || step->loop_count != 1 || !writes_array(step, write)) return false;
    const CpuFusedLoop *loop = &step->loops[0];
    bool allowed = false;
    for (int32_t i = 0; i < loop->buffer_count; i++) {
        const CpuLoopBuffer *buffer = &loop->buffers[i];
        if (buffer->array != read || buffer->written) continue;
        if (!buffer->in_place || buffer->start_count) return false;
        allowed = true;
    }
    return allowed;
}

// Whether the value of `from` before the position may be overwritten there by the new value of `to`.
static bool hands_over(const Buffers *buffers, int64_t position, const CpuArray *from, const CpuArray *to) {
    const Moment moment = buffers->moments.items[position / 2];
    if (moment.step) return works_in_place(moment.step, from, to);
    if (!moment.region || !moment.owner) return false;
    for (int64_t i = 0; i < moment.region->region->results.count; i++)
        if (moment.owner->writes[i] == to && cpu_array_root(moment.region->region->results.items[i]) == from)
            return true;
    return false;
}

// Returns the first segment of the storage that ends at or after the position. Segments are sorted: they touch only at
// hand-overs, so both their beginnings and their ends increase.
static int64_t first_segment_from(const CpuStorage *storage, int64_t position) {
    int64_t low = 0, high = storage->segments.count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (storage->segments.items[middle].end < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Whether values of both storages are needed at the same time. The shorter history is looked up in the longer one: a
// chain of n updates of one array, or n consecutive conditionals, merges storages of one segment into one of up to n.
static bool conflict(const Buffers *buffers, const CpuStorage *a, const CpuStorage *b) {
    assert(a != b);
    if (a->segments.count > b->segments.count) {
        const CpuStorage *swap = a;
        a = b;
        b = swap;
    }
    for (int64_t i = 0; i < a->segments.count; i++) {
        const CpuSegment x = a->segments.items[i];
        for (int64_t k = first_segment_from(b, x.begin); k < b->segments.count; k++) {
            const CpuSegment y = b->segments.items[k];
            const int64_t begin = x.begin > y.begin ? x.begin : y.begin, end = x.end < y.end ? x.end : y.end;
            if (begin > end) break;
            if (end != begin + 1) return true;
            const CpuSegment first = x.begin < y.begin ? x : y, second = x.begin < y.begin ? y : x;
            if (first.end != end || !hands_over(buffers, begin, first.array, second.array)) return true;
        }
    }
    return false;
}

// Merges the segments of `from` into those of `into`, from the end: later segments are usually appended.
static void merge_segments(Buffers *buffers, CpuStorage *into, const CpuStorage *from) {
    int64_t old = into->segments.count, left = from->segments.count;
    for (int64_t i = 0; i < left; i++) hlo_vector_push(buffers->arena, &into->segments, from->segments.items[i]);
    CpuSegment *items = into->segments.items;
    for (int64_t to = into->segments.count; left > 0;) {
        const bool later = old > 0 && items[old - 1].begin > from->segments.items[left - 1].begin;
        items[--to] = later ? items[--old] : from->segments.items[--left];
    }
}

// Merges the storages of two arrays if possible. The caller names arrays whose sharing would save a copy; they may
// share if no live ranges of the two storages conflict.
static bool join(Buffers *buffers, CpuArray *a, CpuArray *b) {
    assert(a && b);
    a = cpu_array_root(a);
    b = cpu_array_root(b);
    CpuStorage *x = storage_root(a->storage), *y = storage_root(b->storage);
    if (x == y) return true;
    if (x->segments.count == 0 || y->segments.count == 0 || x->bytes != y->bytes) return false;
    if (x->base != CPU_BASE_ARENA && y->base != CPU_BASE_ARENA) return false;
    if (conflict(buffers, x, y)) return false;
    // A storage that is bound to a base stays the root; otherwise the one with the longer history, so that a chain of n
    // updates copies n segments and not n squared.
    if (y->base != CPU_BASE_ARENA || (x->base == CPU_BASE_ARENA && y->segments.count > x->segments.count)) {
        CpuStorage *swap = x;
        x = y;
        y = swap;
    }
    y->joined = x;
    merge_segments(buffers, x, y);
    return true;
}

typedef enum JoinPass { JOIN_STRUCTURE, JOIN_UPDATES, JOIN_ELEMENTWISE } JoinPass;

// Merges the results of a region with the arrays of its owner that they move to, so that no copy is needed.
static void join_region_results(Buffers *buffers, const CpuSteps *region, CpuArray *const *targets) {
    for (int64_t i = 0; i < region->region->results.count; i++)
        join(buffers, targets[i], region->region->results.items[i]);
}

// Merges in three passes, the most valuable first: copying a loop's state costs in every iteration, an update in place
// saves a copy of the whole array, and an elementwise loop over its operand only saves memory.
static void join_steps(Buffers *buffers, CpuSteps *steps, JoinPass pass) {
    for (int64_t i = 0; i < steps->steps.count; i++) {
        CpuStep *step = &steps->steps.items[i];
        const bool nested = step->kind == CPU_STEP_WHILE || step->kind == CPU_STEP_CONDITIONAL;
        for (int32_t k = 0; nested && k < step->node->region_count; k++) join_steps(buffers, &step->regions[k], pass);
        if (pass == JOIN_STRUCTURE && step->kind == CPU_STEP_WHILE) {
            join_region_results(buffers, &step->regions[1], step->writes);
            for (int32_t k = 0; k < step->write_count; k++) join(buffers, step->writes[k], step->reads[k]);
        }
        for (int32_t k = 0;
             pass == JOIN_STRUCTURE && step->kind == CPU_STEP_CONDITIONAL && k < step->node->region_count; k++)
            join_region_results(buffers, &step->regions[k], step->writes);
        if (pass == JOIN_UPDATES && step->update_in_place >= 0)
            join(buffers, step->writes[0], step->reads[step->update_in_place]);
        if (pass != JOIN_ELEMENTWISE || step->kind != CPU_STEP_LOOPS) continue;
        for (int32_t w = 0; w < step->write_count; w++)
            for (int32_t k = 0; k < step->read_count; k++)
                if (works_in_place(step, step->reads[k], step->writes[w]) &&
                    join(buffers, step->writes[w], step->reads[k]))
                    break;
    }
}

// ---- results

// Places results directly in the caller's memory, unless the value is already bound to another base (an argument, a
// constant, or an earlier result): then it is copied at the end.
static void fix_results(Buffers *buffers) {
    CpuAssignment *assignment = buffers->assignment;
    const CpuRegion *entry = buffers->program->entry;
    const int32_t first = CPU_BASE_FIRST_ARGUMENT + (int32_t)entry->parameters.count;
    assignment->result_slices = HLO_ARENA_NEW(buffers->arena, CpuSlice, entry->results.count);
    for (int64_t i = 0; i < entry->results.count; i++) {
        CpuArray *root = cpu_array_root(entry->results.items[i]);
        hlo_vector_push(buffers->arena, &assignment->results, root);
        assignment->result_slices[i] = (CpuSlice){first + (int32_t)i, 0};
        CpuStorage *storage = storage_root(root->storage);
        if (storage->segments.count && storage->base == CPU_BASE_ARENA) storage->base = first + (int32_t)i;
    }
}

// Returns the entry's step that begins at the position; NULL for positions inside nested steps.
static const CpuStep *step_at(const Buffers *buffers, int64_t position) {
    const Moment moment = buffers->moments.items[position / 2];
    return moment.owner ? NULL : moment.step;
}

// Whether the argument is dead when the first array of the result's storage is written, or dies in that step, which
// works in place.
static bool may_take_over(const Buffers *buffers, CpuArray *argument, CpuArray *result) {
    const CpuStorage *storage = storage_root(result->storage);
    const int64_t last = buffers->uses[argument->id].last;
    if (storage->segments.count == 0 || argument->bytes != result->bytes) return false;
    const int64_t first = storage->segments.items[0].begin;
    if (last < first) return true;
    const CpuStep *step = last == first + 1 ? step_at(buffers, first) : NULL;
    for (int32_t i = 0; step && i < step->write_count; i++)
        if (storage_root(cpu_array_root(step->writes[i])->storage) == storage &&
            works_in_place(step, argument, step->writes[i]))
            return true;
    return false;
}

// Chooses the results that take over donated arguments: only if the argument is no longer read when the result is
// written.
static void choose_aliases(Buffers *buffers, const int64_t *alias_argument) {
    CpuAssignment *assignment = buffers->assignment;
    const CpuRegion *entry = buffers->program->entry;
    assignment->result_alias = HLO_ARENA_NEW(buffers->arena, int64_t, entry->results.count);
    for (int64_t i = 0; i < entry->results.count; i++) {
        const int64_t argument = alias_argument[i];
        CpuArray *root = assignment->results.items[i];
        const bool own = storage_root(root->storage)->base == assignment->result_slices[i].base;
        const bool same = argument >= 0 && root == entry->parameters.items[argument];
        const bool free_to = argument >= 0 && own && may_take_over(buffers, entry->parameters.items[argument], root);
        assignment->result_alias[i] = same || free_to ? argument : -1;
    }
}

// ---- the arena

typedef struct Life {
    CpuStorage *storage;
    int64_t begin, end;
} Life;

typedef struct Gap {
    int64_t offset, bytes;
} Gap;

typedef struct Packing {
    HLO_VECTOR(Gap) gaps;  // free ranges below `top`, by offset
    int64_t top;
} Packing;

// Sorts storages that begin together by size, largest first: small ones find gaps more easily.
static int compare_begin(const void *a, const void *b) {
    const Life *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->storage->bytes > y->storage->bytes ? -1 : x->storage->bytes < y->storage->bytes;
}

// Sorts by end, the order in which memory becomes free.
static int compare_end(const void *a, const void *b) {
    const Life *x = a, *y = b;
    return x->end < y->end ? -1 : x->end > y->end;
}

static void remove_gap(Packing *packing, int64_t at) {
    Gap *gaps = packing->gaps.items;
    packing->gaps.count--;
    memmove(gaps + at, gaps + at + 1, sizeof *gaps * (size_t)(packing->gaps.count - at));
}

// Takes the smallest gap that is large enough. If there is none, the arena grows, using the free space at its top.
static int64_t take_gap(Packing *packing, int64_t bytes) {
    assert(bytes >= 0);
    int64_t best = -1;
    for (int64_t i = 0; i < packing->gaps.count; i++) {
        const Gap gap = packing->gaps.items[i];
        if (gap.bytes >= bytes && (best < 0 || gap.bytes < packing->gaps.items[best].bytes)) best = i;
    }
    if (best < 0) {
        Gap *last = packing->gaps.count ? &packing->gaps.items[packing->gaps.count - 1] : NULL;
        int64_t offset = packing->top;
        if (last && last->offset + last->bytes == packing->top) {
            offset = last->offset;
            packing->gaps.count--;
        }
        packing->top = offset + bytes;
        return offset;
    }
    Gap *gap = &packing->gaps.items[best];
    const int64_t offset = gap->offset;
    gap->offset += bytes;
    gap->bytes -= bytes;
    if (gap->bytes == 0) remove_gap(packing, best);
    return offset;
}

// Returns a range to the gaps, which stay sorted; neighbours are merged. Searches by bisection: programs with many
// arrays that die in another order than they were defined have thousands of gaps.
static void give_gap(HloArena *arena, Packing *packing, int64_t offset, int64_t bytes) {
    assert(offset >= 0 && bytes >= 0);
    if (bytes == 0) return;
    int64_t at = 0;  // the first gap after the new one
    for (int64_t high = packing->gaps.count; at < high;) {
        const int64_t middle = at + (high - at) / 2;
        if (packing->gaps.items[middle].offset < offset)
            at = middle + 1;
        else
            high = middle;
    }
    Gap *before = at > 0 ? &packing->gaps.items[at - 1] : NULL;
    Gap *after = at < packing->gaps.count ? &packing->gaps.items[at] : NULL;
    const bool joins_after = after && offset + bytes == after->offset;
    if (before && before->offset + before->bytes == offset) {
        before->bytes += bytes + (joins_after ? after->bytes : 0);
        if (joins_after) remove_gap(packing, at);
    } else if (joins_after) {
        *after = (Gap){offset, bytes + after->bytes};
    } else {
        hlo_vector_push(arena, &packing->gaps, (Gap){0});
        Gap *gaps = packing->gaps.items;
        memmove(gaps + at + 1, gaps + at, sizeof *gaps * (size_t)(packing->gaps.count - 1 - at));
        gaps[at] = (Gap){offset, bytes};
    }
}

// Rounds up so that every storage begins on a cache line.
static int64_t rounded(int64_t bytes) {
    return hlo_round_up(bytes, kAlignment);
}

// Packs by best fit in order of definition.
static void pack(Buffers *buffers) {
    Life *births = HLO_ARENA_NEW(buffers->arena, Life, buffers->storages.count);
    int64_t count = 0;
    for (int64_t i = 0; i < buffers->storages.count; i++) {
        CpuStorage *storage = buffers->storages.items[i];
        if (storage->joined || storage->base != CPU_BASE_ARENA) continue;
        Life life = {storage, INT64_MAX, -1};
        for (int64_t k = 0; k < storage->segments.count; k++) {
            const CpuSegment segment = storage->segments.items[k];
            life.begin = segment.begin < life.begin ? segment.begin : life.begin;
            life.end = segment.end > life.end ? segment.end : life.end;
        }
        births[count++] = life;
    }
    qsort(births, (size_t)count, sizeof *births, compare_begin);
    Life *deaths = hlo_arena_copy(buffers->arena, births, sizeof *births * (size_t)count);
    qsort(deaths, (size_t)count, sizeof *deaths, compare_end);
    Packing packing = {0};
    for (int64_t i = 0, dead = 0; i < count; i++) {
        for (; dead < count && deaths[dead].end < births[i].begin; dead++)
            give_gap(buffers->arena, &packing, deaths[dead].storage->offset, rounded(deaths[dead].storage->bytes));
        births[i].storage->offset = take_gap(&packing, rounded(births[i].storage->bytes));
    }
    buffers->assignment->arena_bytes = packing.top;
}

// Assigns buffers. The order of merging follows the cost of not merging: loop states and updates in place would be
// copied in every iteration, elementwise loops in place only save memory.
void cpu_assign_buffers(HloArena *arena, CpuProgram *program, CpuSteps *steps, const int64_t *alias_argument,
                        CpuAssignment *assignment) {
    assert(program && steps && assignment);
    *assignment = (CpuAssignment){0};
    Buffers buffers = {.arena = arena,
                       .program = program,
                       .assignment = assignment,
                       .uses = HLO_ARENA_NEW(arena, Uses, program->arrays.count)};
    for (int64_t i = 0; i < program->arrays.count; i++) buffers.uses[i].last = -1;
    number_steps(&buffers, steps, NULL);
    make_storages(&buffers, steps);
    make_fixed_storages(&buffers);
    fix_results(&buffers);
    join_steps(&buffers, steps, JOIN_STRUCTURE);
    join_steps(&buffers, steps, JOIN_UPDATES);
    join_steps(&buffers, steps, JOIN_ELEMENTWISE);
    choose_aliases(&buffers, alias_argument);
    assignment->position_count = buffers.position;
    pack(&buffers);
}
