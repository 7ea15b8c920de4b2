// SPDX-License-Identifier: Apache-2.0
// A stencil with corners (game of life, nine-point Jacobi) shifts an array by -1, 0 and 1 along two dimensions. Shift
// by shift, columns of the array, of the array moved up and of the array moved down are sent. They overlap: with
// margins,
//
//     shard    f32[16,32] of 4 x 2 devices
//     rows     2 of 32 elements from above and below: f32[18,32]
//     columns  2 of 18 elements from the left and the right, with the corners: f32[18,34]
//     %up_left = slice(margins), [0:16], [0:32]      %left = slice(margins), [1:17], [0:32] ...
//
// Margins continue the array periodically, as rotations need them. Pads replace what comes from the other end.
#include "spmd_partitioner/parts/halo.h"

#include <assert.h>
#include <stdlib.h>

#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/moves.h"
#include "spmd_partitioner/parts/pieces.h"

enum {
    MOST_OPS = 128,  // that take parts of an array
    MOST_RANK = 8,
};

// An op whose element at an index is the array's element `shift` further on.
typedef struct Shift {
    const HloInstruction *op;
    int64_t by[MOST_RANK];
} Shift;

// The shifts of an array. Along dimension d the margins have low[d] and high[d] elements.
typedef struct Shifts {
    const HloInstruction *array;
    const SpmdSharding *sharding;
    int64_t low[MOST_RANK], high[MOST_RANK];
    int64_t count;
    Shift items[MOST_OPS];
    HloInstruction *margins;
} Shifts;

// Where the one or two pieces of a rotation of `size` elements come from, as the shorter way; false if they are none.
static bool rotation_of(const SpmdPieces *pieces, int64_t size, int64_t *by) {
    int64_t total = 0;
    for (int64_t i = 0; i < pieces->list.count; i++) {
        const SpmdPiece *piece = &pieces->list.items[i];
        const int64_t shift = ((piece->source - piece->target) % size + size) % size;
        if (piece->target != total || (i && shift != *by)) return false;
        *by = shift;
        total += piece->size;
    }
    if (*by > size / 2) *by -= size;
    return total == size;
}

static bool may_shift(const HloShape *shape) {
    return hlo_shape_is_array(shape) && shape->rank <= MOST_RANK && !hlo_shape_is_dynamic(shape) &&
           hlo_shape_elements(shape) > 0;
}

// Whether an op shifts an array, and how.
static bool read_shift(SpmdPartitioner *partitioner, const HloInstruction *at, const HloInstruction **array,
                       Shift *shift) {
    const HloShape *shape = at->shape;
    if (!may_shift(shape)) return false;
    *shift = (Shift){.op = at};
    if (hlo_is(at, HLO_OP_PAD)) {
        *array = at->operands[0];
        for (int32_t d = 0; d < shape->rank; d++) {
            const HloPadDimension *pad = &HLO_ATTRIBUTES(at, Pad)->padding.items[d];
            if (pad->interior || pad->low + pad->high || llabs(pad->low) >= shape->dims[d]) return false;
            shift->by[d] = -pad->low;
        }
        return true;
    }
    if (!hlo_is(at, HLO_OP_CONCATENATE) && !hlo_is(at, HLO_OP_SLICE)) return false;
    const bool keep[MOST_RANK] = {false};
    const SpmdPiecewise pieces = spmd_piecewise(partitioner, at, keep);
    *array = pieces.base;
    if (pieces.base == at || !hlo_shape_equal(pieces.base->shape, shape, HLO_COMPARE_DIMS_ONLY)) return false;
    for (int32_t d = 0; d < shape->rank; d++)
        if (!rotation_of(&pieces.dims[d], shape->dims[d], &shift->by[d])) return false;
    return true;
}

// Whether an op takes or joins parts of the array, in which case what it takes need not be there itself.
static bool joins_parts(SpmdPartitioner *partitioner, const HloInstruction *at, const HloInstruction *array) {
    if ((!hlo_is(at, HLO_OP_SLICE) && !hlo_is(at, HLO_OP_CONCATENATE)) || !may_shift(at->shape)) return false;
    const bool keep[MOST_RANK] = {false};
    return spmd_piecewise(partitioner, at, keep).base == array;
}

// Whether something other than another part of the array needs an op. Patches that are put side by side (a convolution
// by hand) are no part of it.
static bool is_used(SpmdPartitioner *partitioner, const HloInstruction *at, const HloInstruction *array) {
    if (hlo_instruction_is_root(at)) return true;
    for (int64_t i = 0; i < at->users.count; i++)
        if (!joins_parts(partitioner, at->users.items[i], array)) return true;
    return false;
}

// Lists the shifts of the array, in the order in which slices, concatenations and pads are reached from it.
static void collect(SpmdPartitioner *partitioner, Shifts *shifts) {
    const HloInstruction *seen[MOST_OPS] = {shifts->array};
    int64_t count = 1;
    for (int64_t next = 0; next < count; next++) {
        for (int64_t u = 0; u < seen[next]->users.count; u++) {
            const HloInstruction *user = seen[next]->users.items[u], *array;
            if (!hlo_is(user, HLO_OP_SLICE) && !hlo_is(user, HLO_OP_CONCATENATE) && !hlo_is(user, HLO_OP_PAD)) continue;
            bool known = count == MOST_OPS;
            for (int64_t i = 0; i < count && !known; i++) known = seen[i] == user;
            if (known) continue;
            seen[count++] = user;
            Shift *shift = &shifts->items[shifts->count];
            if (is_used(partitioner, user, shifts->array) && read_shift(partitioner, user, &array, shift) &&
                array == shifts->array &&
                spmd_sharding_equal(spmd_plan_array(partitioner->plan, user, 0)->sharding, shifts->sharding))
                shifts->count++;
        }
    }
}

// ---- costs

static int64_t parts_of(const SpmdPartitioner *partitioner, const Shifts *shifts, int32_t d) {
    return spmd_axes_product(partitioner->mesh, &shifts->sharding->dims[d]);
}

static int64_t shard_of(const SpmdPartitioner *partitioner, const Shifts *shifts, int32_t d) {
    return spmd_shard_size(shifts->array->shape->dims[d], parts_of(partitioner, shifts, d));
}

// Sets the margins. False if a neighbour does not have all of one, or no shift goes along two sharded dimensions.
static bool measure(const SpmdPartitioner *partitioner, Shifts *shifts) {
    bool corners = false;
    for (int64_t i = 0; i < shifts->count; i++) {
        int32_t moved = 0;
        for (int32_t d = 0; d < shifts->sharding->rank; d++) {
            const int64_t by = shifts->items[i].by[d];
            if (!shifts->sharding->dims[d].count || !by) continue;
            moved++;
            if (-by > shifts->low[d]) shifts->low[d] = -by;
            if (by > shifts->high[d]) shifts->high[d] = by;
        }
        corners |= moved > 1;
    }
    for (int32_t d = 0; d < shifts->sharding->rank; d++) {
        const int64_t shard = shard_of(partitioner, shifts, d), parts = parts_of(partitioner, shifts, d);
        if (!shifts->low[d] && !shifts->high[d]) continue;
        if (shard * parts != shifts->array->shape->dims[d] || shifts->low[d] > shard || shifts->high[d] > shard)
            return false;
    }
    return corners;
}

// Elements that a device sends with margins: of each dimension, with the margins of those before.
static double with_margins(const SpmdPartitioner *partitioner, const Shifts *shifts) {
    double sent = 0;
    for (int32_t d = 0; d < shifts->sharding->rank; d++) {
        double elements = (double)(shifts->low[d] + shifts->high[d]);
        for (int32_t e = 0; e < shifts->sharding->rank; e++) {
            if (e == d) continue;
            const int64_t margins = e < d ? shifts->low[e] + shifts->high[e] : 0;
            elements *= (double)(shard_of(partitioner, shifts, e) + margins);
        }
        sent += elements;
    }
    return sent;
}

// True if two shifts go equally far along the sharded dimensions before `d`.
static bool alike_before(const Shifts *shifts, const Shift *a, const Shift *b, int32_t d) {
    for (int32_t e = 0; e < d; e++)
        if (shifts->sharding->dims[e].count && a->by[e] != b->by[e]) return false;
    return true;
}

// Elements that a device sends shift by shift: along each dimension, what the farthest need of an array that is shifted
// along those before.
static double one_by_one(const SpmdPartitioner *partitioner, const Shifts *shifts) {
    double sent = 0;
    for (int32_t d = 0; d < shifts->sharding->rank; d++) {
        if (!shifts->sharding->dims[d].count) continue;
        double elements = 1;
        for (int32_t e = 0; e < shifts->sharding->rank; e++)
            if (e != d) elements *= (double)shard_of(partitioner, shifts, e);
        for (int64_t i = 0; i < shifts->count; i++) {
            int64_t low = 0, high = 0;
            bool first = true;
            for (int64_t k = 0; k < shifts->count; k++) {
                const Shift *other = &shifts->items[k];
                if (!alike_before(shifts, &shifts->items[i], other, d)) continue;
                first &= k >= i;
                if (-other->by[d] > low) low = -other->by[d];
                if (other->by[d] > high) high = other->by[d];
            }
            if (first) sent += elements * (double)(low + high);
        }
    }
    return sent;
}

// ---- emission

// The `size` elements at one end of dimension `d` of an array that the neighbour on the other side has.
static HloInstruction *emit_margin(SpmdPartitioner *partitioner, const Shifts *shifts, HloInstruction *array, int32_t d,
                                   int64_t size, bool before) {
    const SpmdAxes *axes = &shifts->sharding->dims[d];
    const int64_t parts = parts_of(partitioner, shifts, d), length = array->shape->dims[d];
    int64_t *sources = HLO_ARENA_NEW(partitioner->arena, int64_t, parts);
    for (int64_t i = 0; i < parts; i++) sources[i] = (i + (before ? parts - 1 : 1)) % parts;
    HloInstruction *sent = before ? spmd_emit_slice(partitioner, array, d, length - size, length, 1)
                                  : spmd_emit_slice(partitioner, array, d, 0, size, 1);
    const SpmdReason reason = {.op = partitioner->op, .what = "neighbours' elements"};
    return spmd_emit_permute(partitioner, sent, spmd_pairs_of_positions(partitioner, axes, sources), &reason);
}

static void emit_margins(SpmdPartitioner *partitioner, Shifts *shifts) {
    HloInstruction *made = spmd_local(partitioner, shifts->array, 0)->hlo;
    for (int32_t d = 0; d < shifts->sharding->rank; d++) {
        HloInstruction *parts[3];
        int64_t count = 0;
        if (shifts->low[d]) parts[count++] = emit_margin(partitioner, shifts, made, d, shifts->low[d], true);
        parts[count++] = made;
        if (shifts->high[d]) parts[count++] = emit_margin(partitioner, shifts, made, d, shifts->high[d], false);
        made = spmd_emit_concatenate(partitioner, parts, count, d);
    }
    shifts->margins = made;
}

// Puts the pad's value where a shift by `by` along a sharded dimension reaches beyond the array.
static HloInstruction *fill_beyond(SpmdPartitioner *partitioner, const Shifts *shifts, HloInstruction *array, int32_t d,
                                   int64_t by, HloInstruction *value) {
    const HloShape *shape = array->shape;
    const int64_t size = shifts->array->shape->dims[d];
    HloInstruction *before =
        spmd_emit_before(partitioner, shape, d, &shifts->sharding->dims[d], by > 0 ? size - by : -by);
    HloInstruction *fill = spmd_emit_splat(partitioner, value, shape->dims, shape->rank);
    return by > 0 ? spmd_emit_select(partitioner, before, array, fill)
                  : spmd_emit_select(partitioner, before, fill, array);
}

// A dimension that is not sharded is shifted on each device.
static HloInstruction *shift_locally(SpmdPartitioner *partitioner, HloInstruction *array, int32_t d, int64_t by,
                                     HloInstruction *value) {
    if (value) return spmd_emit_pad(partitioner, array, d, -by, by, value);
    const int64_t size = array->shape->dims[d], first = by > 0 ? by : size + by;
    HloInstruction *parts[2] = {spmd_emit_slice(partitioner, array, d, first, size, 1),
                                spmd_emit_slice(partitioner, array, d, 0, first, 1)};
    return spmd_emit_concatenate(partitioner, parts, 2, d);
}

static void emit_shift(SpmdPartitioner *partitioner, const Shifts *shifts, const Shift *shift) {
    HloInstruction *made = shifts->margins;
    HloInstruction *value = hlo_is(shift->op, HLO_OP_PAD) ? spmd_operand_whole(partitioner, 1) : NULL;
    for (int32_t d = 0; d < shifts->sharding->rank; d++) {
        const int64_t by = shift->by[d];
        if (shifts->sharding->dims[d].count) {
            const int64_t start = shifts->low[d] + by;
            made = spmd_emit_slice(partitioner, made, d, start, start + shard_of(partitioner, shifts, d), 1);
        } else if (by) {
            made = shift_locally(partitioner, made, d, by, value);
        }
    }
    for (int32_t d = 0; value && d < shifts->sharding->rank; d++)
        if (shifts->sharding->dims[d].count && shift->by[d])
            made = fill_beyond(partitioner, shifts, made, d, shift->by[d], value);
    spmd_define(partitioner, 0, made, shifts->sharding, 0, HLO_OPCODE_COUNT);
}

// The shifts of an array, looked for once in a computation; NULL if there are none worth margins.
static Shifts *shifts_of(SpmdPartitioner *partitioner, const HloInstruction *array) {
    const uint64_t key = (uint64_t)array->id + 1;
    const int64_t *found = hlo_int_map_find(&partitioner->scope->shifts, key);
    if (found) return (Shifts *)(intptr_t)*found;
    const SpmdLocal *local = spmd_local(partitioner, array, 0);
    Shifts *shifts = NULL;
    if (local->hlo && !local->partial && spmd_sharding_equal(local->sharding, spmd_planned(partitioner, 0))) {
        shifts = HLO_ARENA_NEW(partitioner->arena, Shifts, 1);
        *shifts = (Shifts){.array = array, .sharding = local->sharding};
        collect(partitioner, shifts);
        if (!measure(partitioner, shifts) || with_margins(partitioner, shifts) >= one_by_one(partitioner, shifts))
            shifts = NULL;
    }
    hlo_int_map_set(partitioner->arena, &partitioner->scope->shifts, key, (intptr_t)shifts);
    return shifts;
}

bool spmd_shift(SpmdPartitioner *partitioner) {
    const HloInstruction *op = partitioner->op, *array;
    const SpmdSharding *sharding = spmd_planned(partitioner, 0);
    Shift shift;
    int32_t sharded = 0;
    for (int32_t d = 0; d < sharding->rank; d++) sharded += sharding->dims[d].count > 0;
    if (sharded < 2 || sharding->unreduced || !read_shift(partitioner, op, &array, &shift)) return false;
    Shifts *shifts = shifts_of(partitioner, array);
    for (int64_t i = 0; shifts && i < shifts->count; i++) {
        if (shifts->items[i].op != op) continue;
        if (!shifts->margins) emit_margins(partitioner, shifts);
        emit_shift(partitioner, shifts, &shifts->items[i]);
        return true;
    }
    return false;
}
