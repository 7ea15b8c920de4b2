// SPDX-License-Identifier: Apache-2.0
// Sends what several permutes with the same pairs take of one array once. Programs that shift an array by one element,
// by two and so on need the same elements of a neighbour several times:
//
//     %a = collective-permute(slice(%x), [5:8))       %u = collective-permute(slice(%x), [5:8))
//     %b = collective-permute(slice(%x), [6:8))       %a = %u       %b = slice(%u), [1:3)       %c = slice(%u), [2:3)
//     %c = collective-permute(slice(%x), [7:8))
//
// Ranges that overlap or touch are joined. Others are left to the combiner: what lies between them need not be sent.
#include <assert.h>

#include "hlo/pass/support.h"
#include "spmd_partitioner/passes/passes.h"

// The operand of a permute: elements [start, limit) of one dimension of an array. `dim` is -1 for all of the array.
typedef struct Range {
    HloInstruction *permute, *array;
    int64_t dim, start, limit;
} Range;

typedef struct Ranges {
    HLO_VECTOR(Range) list;
    int64_t dim;  // -1 until one of them is a part of the array
} Ranges;

// The places of a module's instructions in their computations, by id; the pass makes those with ids from `limit` on.
typedef struct Places {
    int64_t *list, limit;
} Places;

static Places places_of(const HloModule *module, HloArena *scratch) {
    const Places places = {HLO_ARENA_NEW(scratch, int64_t, module->instruction_limit + 1), module->instruction_limit};
    for (int64_t c = 0, place = 0; c < module->computations.count; c++)
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            places.list[at->id] = place++;
    return places;
}

// Whether `at`, which the pass has not made, comes before `other`. What it has made comes before everything that it has
// not come to yet.
static bool comes_before(const Places *places, const HloInstruction *at, const HloInstruction *other) {
    return other->id < places->limit && places->list[at->id] < places->list[other->id];
}

static bool is_candidate(const HloInstruction *at) {
    return hlo_is(at, HLO_OP_COLLECTIVE_PERMUTE) && at != at->parent->root && spmd_may_replace(at);
}

// What a permute sends.
static Range range_of(HloInstruction *permute) {
    HloInstruction *operand = permute->operands[0];
    const Range all = {permute, operand, -1, 0, 0};
    if (!hlo_is(operand, HLO_OP_SLICE)) return all;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(operand, Slice);
    const HloShape *shape = operand->operands[0]->shape;
    Range range = {permute, operand->operands[0], -1, 0, 0};
    for (int32_t d = 0; d < shape->rank; d++) {
        if (slice->strides.count && slice->strides.items[d] != 1) return all;
        const int64_t start = slice->starts.items[d], limit = slice->limits.items[d];
        if (start == 0 && limit == shape->dims[d]) continue;
        if (range.dim >= 0) return all;
        range.dim = d;
        range.start = start;
        range.limit = limit;
    }
    return range;
}

// Adds what the permutes among the users of `at` send, if they come after the first one and have its pairs and
// dimension.
static void add_users(HloArena *scratch, const Places *places, Ranges *ranges, const HloInstruction *at) {
    const HloInstruction *first = ranges->list.items[0].permute;
    const SpmdExchange exchange = spmd_exchange_of(first);
    for (int64_t i = 0; i < at->users.count; i++) {
        HloInstruction *user = at->users.items[i];
        if (!is_candidate(user) || !comes_before(places, first, user)) continue;
        const Range range = range_of(user);
        const SpmdExchange other = spmd_exchange_of(user);
        if (range.array != ranges->list.items[0].array ||
            !hlo_attributes_equal(HLO_FAMILY_Permute, &exchange, &other) ||
            (range.dim >= 0 && ranges->dim >= 0 && range.dim != ranges->dim))
            continue;
        if (range.dim >= 0) ranges->dim = range.dim;
        hlo_vector_push(scratch, &ranges->list, range);
    }
}

// Finds all permutes like `at` and after it that send parts of the same array, `at` first.
static Ranges find_alike(HloInstruction *at, const Places *places, HloArena *scratch) {
    const Range first = range_of(at);
    Ranges ranges = {.dim = first.dim};
    hlo_vector_push(scratch, &ranges.list, first);
    for (int64_t i = 0; i < first.array->users.count; i++)
        if (hlo_is(first.array->users.items[i], HLO_OP_SLICE))
            add_users(scratch, places, &ranges, first.array->users.items[i]);
    if (ranges.dim >= 0) add_users(scratch, places, &ranges, first.array);
    for (int64_t i = 0; i < ranges.list.count; i++)
        if (ranges.list.items[i].dim < 0 && ranges.dim >= 0)
            ranges.list.items[i].limit = first.array->shape->dims[ranges.dim];
    return ranges;
}

// The range of the first and of all others that can be reached by overlapping or touching ones; the number of these.
static int64_t join_first(const Ranges *ranges, int64_t *start, int64_t *limit) {
    *start = ranges->list.items[0].start;
    *limit = ranges->list.items[0].limit;
    int64_t before = 0, joined = 1;
    while (joined != before) {
        before = joined;
        joined = 0;
        for (int64_t i = 0; i < ranges->list.count; i++) {
            const Range *range = &ranges->list.items[i];
            if (range->start > *limit || range->limit < *start) continue;
            if (range->start < *start) *start = range->start;
            if (range->limit > *limit) *limit = range->limit;
            joined++;
        }
    }
    return joined;
}

// A slice of dimension `dim`, before `next`; the array itself where that is all of it.
static HloInstruction *slice_before(HloInstruction *array, int64_t dim, int64_t start, int64_t limit,
                                    HloInstruction *next) {
    HloInstruction *slice = hlo_pass_slice_along(next, array, dim, start, limit);
    if (slice != array) hlo_instruction_move_before(slice, next);
    return slice;
}

// Replaces the permutes whose ranges are in [start, limit) by one, which is made before `at`, the first of them.
static HloInstruction *send_once(HloInstruction *at, const Ranges *ranges, int64_t start, int64_t limit) {
    HloInstruction *operand = slice_before(ranges->list.items[0].array, ranges->dim, start, limit, at);
    HloInstruction *sent = hlo_instruction_clone(at->parent, at, operand->shape, &operand, 1);
    hlo_instruction_move_before(sent, at);
    for (int64_t i = 0; i < ranges->list.count; i++) {
        const Range *range = &ranges->list.items[i];
        if (range->start < start || range->limit > limit) continue;
        if (i) spmd_join_reasons(sent, range->permute);
        HloInstruction *part =
            slice_before(sent, ranges->dim, range->start - start, range->limit - start, range->permute);
        hlo_instruction_replace_uses(range->permute, part);
        spmd_remove_unused(range->permute);
    }
    return sent;
}

// Permutes that are alike are replaced where the first of them is: all users come later.
void spmd_share_permutes(HloModule *module, HloArena *scratch) {
    const Places places = places_of(module, scratch);
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            if (!is_candidate(at)) continue;
            const HloArenaMark mark = hlo_arena_mark(scratch);
            const Ranges ranges = find_alike(at, &places, scratch);
            int64_t start, limit;
            if (ranges.dim >= 0 && join_first(&ranges, &start, &limit) > 1) at = send_once(at, &ranges, start, limit);
            hlo_arena_reset(scratch, mark);
        }
    }
}
