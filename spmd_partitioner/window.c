// SPDX-License-Identifier: Apache-2.0
// Halo exchange in its general form: each device gets an interval of the global array that moves with its position.
#include <string.h>

#include "spmd_partitioner/emit.h"

// What every position along the dimension's axes needs. Positions ask for pieces: whole or trimmed shards that, joined,
// hold the interval.
typedef struct Window {
    SpmdPartitioner *partitioner;
    const SpmdLocal *local;
    int64_t dim, scale, offset, size;  // position i needs [scale * i + offset, + size)
    const SpmdAxes *axes;
    int64_t shards, shard, global;  // their number and size; size of the whole dimension
    int64_t pieces;
    int64_t *sources;  // sources[piece * shards + i]: whose shard, -1 for none
    int64_t *starts;   // where the interval starts in the joined pieces, by position
    const SpmdReason *reason;
} Window;

static int64_t floor_divide(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t first_of(const Window *window, int64_t i) {
    return window->scale * i + window->offset;
}

// Pieces by their place in the interval: piece k of position i is the k-th shard that the interval touches. Sources
// must differ between positions, which they do when intervals move by a shard at least.
static void plan_by_place(Window *window) {
    window->pieces = 0;
    for (int64_t i = 0; i < window->shards; i++) {
        int64_t from = floor_divide(first_of(window, i), window->shard);
        int64_t to = floor_divide(first_of(window, i) + window->size - 1, window->shard);
        if (to - from + 1 > window->pieces) window->pieces = to - from + 1;
    }
    window->sources = HLO_ARENA_NEW(window->partitioner->arena, int64_t, window->pieces * window->shards);
    for (int64_t i = 0; i < window->shards; i++) {
        int64_t from = floor_divide(first_of(window, i), window->shard);
        int64_t to = floor_divide(first_of(window, i) + window->size - 1, window->shard);
        window->starts[i] = first_of(window, i) - from * window->shard;
        for (int64_t k = 0; k < window->pieces; k++) {
            bool there = from + k >= 0 && from + k < window->shards && from + k <= to;
            window->sources[k * window->shards + i] = there ? from + k : -1;
        }
    }
}

// Pieces by distance: piece k of position i is the shard k + lowest places further on.
static void plan_by_distance(Window *window) {
    int64_t lowest = window->shards, highest = -window->shards;
    for (int64_t i = 0; i < window->shards; i++) {
        int64_t from = floor_divide(first_of(window, i), window->shard) - i;
        int64_t to = floor_divide(first_of(window, i) + window->size - 1, window->shard) - i;
        if (from < lowest) lowest = from;
        if (to > highest) highest = to;
    }
    window->pieces = highest - lowest + 1;
    window->sources = HLO_ARENA_NEW(window->partitioner->arena, int64_t, window->pieces * window->shards);
    for (int64_t i = 0; i < window->shards; i++) {
        window->starts[i] = first_of(window, i) - (i + lowest) * window->shard;
        for (int64_t k = 0; k < window->pieces; k++) {
            int64_t source = i + lowest + k;
            window->sources[k * window->shards + i] = source >= 0 && source < window->shards ? source : -1;
        }
    }
}

static bool same_starts(const Window *window) {
    for (int64_t i = 1; i < window->shards; i++) {
        if (window->starts[i] != window->starts[0]) return false;
    }
    return true;
}

// True if a piece is everybody's own shard, or nobody's.
static bool is_own(const Window *window, int64_t piece) {
    for (int64_t i = 0; i < window->shards; i++) {
        int64_t source = window->sources[piece * window->shards + i];
        if (source >= 0 && source != i) return false;
    }
    return true;
}

// The part of piece `piece` that is needed: all of it, unless all intervals lie alike in the pieces.
static void needed_part(const Window *window, int64_t piece, int64_t *from, int64_t *to) {
    bool trim = same_starts(window) && window->starts[0] >= 0;
    *from = trim ? window->starts[0] - piece * window->shard : 0;
    *to = trim ? window->starts[0] + window->size - piece * window->shard : window->shard;
    if (*from < 0) *from = 0;
    if (*to > window->shard) *to = window->shard;
}

// Elements of the dimension that one device sends.
static int64_t sent_elements(const Window *window) {
    int64_t sent = 0, from, to;
    for (int64_t k = 0; k < window->pieces; k++) {
        needed_part(window, k, &from, &to);
        if (from < to && !is_own(window, k)) sent += to - from;
    }
    return sent;
}

// `device` with its position along the axes changed to `index`.
static int64_t moved_device(const SpmdMesh *mesh, const SpmdAxes *axes, int64_t device, int64_t index) {
    for (int32_t i = axes->count - 1; i >= 0; i--) {
        const SpmdAtom *atom = &mesh->atoms[axes->items[i]];
        device += (index % atom->size - device / atom->stride % atom->size) * atom->stride;
        index /= atom->size;
    }
    return device;
}

static HloInstruction *emit_piece(const Window *window, int64_t piece, HloInstruction *part) {
    const SpmdMesh *mesh = window->partitioner->mesh;
    HloPair *pairs = HLO_ARENA_NEW(window->partitioner->module->arena, HloPair, mesh->device_count);
    int64_t count = 0;
    bool own = true;
    for (int64_t device = 0; device < mesh->device_count; device++) {
        int64_t index = spmd_axes_index(mesh, window->axes, device);
        int64_t source = window->sources[piece * window->shards + index];
        if (source < 0) continue;
        own &= source == index;
        pairs[count++] = (HloPair){moved_device(mesh, window->axes, device, source), device};
    }
    if (own) return part;  // where there is no source, what stands here is masked later
    return spmd_emit_permute(window->partitioner, part, (HloPairs){pairs, count}, window->reason);
}

// The scalar of a table that belongs to this device's position.
static HloInstruction *look_up(const Window *window, const int64_t *table, int64_t add) {
    SpmdPartitioner *partitioner = window->partitioner;
    HloArena *arena = partitioner->module->arena;
    const HloShape *shape = hlo_shape_array(arena, HLO_S32, &window->shards, 1);
    HloLiteral *literal = hlo_literal_in_arena(arena, hlo_shape_with_default_layout(arena, shape));
    for (int64_t i = 0; i < window->shards; i++) hlo_literal_set_int64(literal, i, table[i] + add);
    HloConstantAttributes attributes = {literal};
    HloInstruction *constant = spmd_emit(partitioner, HLO_OP_CONSTANT, literal->shape, NULL, 0, &attributes);
    HloInstruction *row =
        spmd_emit_dynamic_slice(partitioner, constant, 0, spmd_emit_index(partitioner, window->axes), 1);
    return spmd_emit_reshape(partitioner, row, NULL, 0);
}

// Sets what lies outside of the global array to `fill`.
static HloInstruction *mask_outside(const Window *window, HloInstruction *result, HloInstruction *fill) {
    SpmdPartitioner *partitioner = window->partitioner;
    bool below = false, above = false;
    int64_t *firsts = HLO_ARENA_NEW(partitioner->arena, int64_t, window->shards);
    for (int64_t i = 0; i < window->shards; i++) {
        firsts[i] = first_of(window, i);
        below |= firsts[i] < 0;
        above |= firsts[i] + window->size > window->global;
    }
    if (!fill || (!below && !above)) return result;
    const HloShape *shape = result->shape;
    HloInstruction *first = spmd_emit_splat(partitioner, look_up(window, firsts, 0), shape->dims, shape->rank);
    HloInstruction *count = spmd_emit_iota(partitioner, HLO_S32, shape->dims, shape->rank, window->dim);
    HloInstruction *position = spmd_emit_binary(partitioner, HLO_OP_ADD, count, first);
    HloInstruction *inside = NULL;
    for (int side = 0; side < 2; side++) {
        if (!(side ? above : below)) continue;
        HloInstruction *limit = spmd_emit_scalar(partitioner, HLO_S32, side ? window->global : 0);
        HloInstruction *spread = spmd_emit_splat(partitioner, limit, shape->dims, shape->rank);
        int32_t direction = side ? HLO_ComparisonDirection_LT : HLO_ComparisonDirection_GE;
        HloInstruction *test = spmd_emit_compare(partitioner, direction, position, spread);
        inside = inside ? spmd_emit_binary(partitioner, HLO_OP_AND, inside, test) : test;
    }
    return spmd_emit_select(partitioner, inside, result, spmd_emit_splat(partitioner, fill, shape->dims, shape->rank));
}

// Cuts the interval out of the joined pieces, which may have to be padded for intervals that stick out.
static HloInstruction *cut_interval(const Window *window, HloInstruction *joined) {
    int64_t low = 0, high = 0, length = joined->shape->dims[window->dim];
    for (int64_t i = 0; i < window->shards; i++) {
        if (-window->starts[i] > low) low = -window->starts[i];
        if (window->starts[i] + window->size - length > high) high = window->starts[i] + window->size - length;
    }
    joined = spmd_emit_pad(window->partitioner, joined, window->dim, low, high, NULL);
    if (same_starts(window)) {
        int64_t start = window->starts[0] + low;
        return spmd_emit_slice(window->partitioner, joined, window->dim, start, start + window->size, 1);
    }
    HloInstruction *start = look_up(window, window->starts, low);
    return spmd_emit_dynamic_slice(window->partitioner, joined, window->dim, start, window->size);
}

// Sends pieces to where they are needed. Where all intervals lie alike, only what is needed of a piece is sent.
static HloInstruction *exchange(Window *window) {
    SpmdPartitioner *partitioner = window->partitioner;
    HloInstruction **parts = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, window->pieces);
    int64_t dropped = 0, count = 0;
    for (int64_t k = 0; k < window->pieces; k++) {
        int64_t from, to;
        needed_part(window, k, &from, &to);
        if (from >= to) {
            if (count == 0) dropped += window->shard;
            continue;
        }
        if (count == 0) dropped += from;
        HloInstruction *part = spmd_emit_slice(partitioner, window->local->hlo, window->dim, from, to, 1);
        parts[count++] = emit_piece(window, k, part);
    }
    for (int64_t i = 0; i < window->shards; i++) window->starts[i] -= dropped;
    return cut_interval(window, spmd_emit_concatenate(partitioner, parts, count, window->dim));
}

// The whole dimension on every device, then the interval.
static HloInstruction *gather_all(Window *window) {
    HloInstruction *all = window->local->hlo;
    if (window->axes->count) {
        all = spmd_emit_all_gather(window->partitioner, all, window->dim, window->axes, window->reason);
    }
    for (int64_t i = 0; i < window->shards; i++) window->starts[i] = first_of(window, i);
    return cut_interval(window, all);
}

HloInstruction *spmd_emit_window(SpmdPartitioner *partitioner, SpmdLocal local, int64_t dim, int64_t scale,
                                 int64_t offset, int64_t size, HloInstruction *fill, const SpmdReason *reason) {
    Window window = {.partitioner = partitioner,
                     .local = &local,
                     .dim = dim,
                     .scale = scale,
                     .offset = offset,
                     .size = size,
                     .axes = &local.sharding->dims[dim],
                     .reason = reason};
    window.shards = spmd_axes_product(partitioner->mesh, window.axes);
    window.global = local.global->dims[dim];
    window.shard = spmd_shard_size(window.global, window.shards);
    window.starts = HLO_ARENA_NEW(partitioner->arena, int64_t, window.shards);
    bool spread = window.shards > 1 && window.shard > 0 && size > 0;
    if (spread && (scale >= window.shard || scale <= -window.shard)) {
        plan_by_place(&window);
    } else if (spread) {
        plan_by_distance(&window);
    }
    // Many messages are worth it only where they save at least half of what gathering moves.
    int64_t weight = window.pieces > 3 ? 2 : 1;
    bool sends = spread && weight * sent_elements(&window) < (window.shards - 1) * window.shard;
    HloInstruction *result = sends ? exchange(&window) : gather_all(&window);
    return mask_outside(&window, result, fill);
}
