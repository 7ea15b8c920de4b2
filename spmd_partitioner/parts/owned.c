// SPDX-License-Identifier: Apache-2.0
// The last token of a sequence, the output of a pipeline's last stage, the first row of a grid: a slice that lies in
// one shard of a dimension has no dimension left that the axes could shard. Its owner broadcasts it.
//
//     %x = f32[8,1024,64], 1,024 over 8 devices      %last = slice(%x), [0:8], [1023:1024], [0:64]
//     every device   %own = slice(f32[8,128,64]), [0:8], [127:128], [0:64], the same one of each shard
//     device 7       collective-broadcast(%own)      2 KiB, in one message
//
// As a window of its neighbours it would come to the first device, and be gathered from there.
#include "spmd_partitioner/parts/owned.h"

#include <assert.h>

#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/parts/split.h"

enum { MOST_PIECES = 2 };

// Elements start, start + stride … of one shard.
typedef struct Piece {
    int64_t shard, start, count;
} Piece;

typedef struct Owned {
    int32_t dim;  // the one that is sharded and sliced
    int64_t stride, count;
    Piece pieces[MOST_PIECES];
} Owned;

static bool is_cut(const HloInstruction *op, int32_t d) {
    return op->shape->dims[d] != op->operands[0]->shape->dims[d];
}

// Finds the shards that a slice lies in; false if there are too many, or several sharded dimensions are sliced.
static bool find_pieces(const SpmdPartitioner *partitioner, const SpmdLocal *local, Owned *owned) {
    const HloInstruction *op = partitioner->op;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(op, Slice);
    owned->dim = -1;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (!local->sharding->dims[d].count || !is_cut(op, d)) continue;
        if (owned->dim >= 0) return false;
        owned->dim = d;
    }
    if (owned->dim < 0) return false;
    const int64_t shards = spmd_axes_product(partitioner->mesh, &local->sharding->dims[owned->dim]);
    const int64_t size = spmd_shard_size(local->global->dims[owned->dim], shards);
    owned->stride = spmd_slice_stride(op, owned->dim);
    for (int64_t at = slice->starts.items[owned->dim], limit = slice->limits.items[owned->dim]; at < limit;) {
        if (owned->count == MOST_PIECES) return false;
        Piece *piece = &owned->pieces[owned->count++];
        piece->shard = at / size;
        piece->start = at % size;
        const int64_t end = limit < (piece->shard + 1) * size ? limit : (piece->shard + 1) * size;
        piece->count = (end - at - 1) / owned->stride + 1;
        if (owned->stride > limit - at) break;
        at += piece->count * owned->stride;
    }
    return owned->count > 0;
}

// The piece of a shard, on every device of it.
static HloInstruction *emit_piece(SpmdPartitioner *partitioner, HloInstruction *shard, const Owned *owned,
                                  const Piece *piece) {
    const HloInstruction *op = partitioner->op;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(op, Slice);
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (d == owned->dim) {
            const int64_t last = piece->start + (piece->count - 1) * owned->stride;
            shard = spmd_emit_slice(partitioner, shard, d, piece->start, last + 1, owned->stride);
        } else if (is_cut(op, d)) {
            shard = spmd_emit_slice(partitioner, shard, d, slice->starts.items[d], slice->limits.items[d],
                                    spmd_slice_stride(op, d));
        }
    }
    return shard;
}

bool spmd_broadcast_slice(SpmdPartitioner *partitioner, int64_t limit) {
    const HloInstruction *op = partitioner->op;
    assert(hlo_is(op, HLO_OP_SLICE));
    const SpmdLocal local = spmd_operand(partitioner, 0);
    Owned owned = {0};
    if (!limit || !local.hlo || local.partial || !hlo_shape_elements(op->shape) || hlo_shape_is_dynamic(local.global) ||
        !find_pieces(partitioner, &local, &owned))
        return false;
    const SpmdAxes axes = local.sharding->dims[owned.dim];
    SpmdSharding *sharding = spmd_sharding_copy(partitioner->arena, local.sharding);
    sharding->dims[owned.dim] = (SpmdAxes){0};
    const int64_t bytes = spmd_local_bytes(partitioner->mesh, op->shape, sharding);
    int64_t cost = spmd_path(partitioner, op->shape, sharding, 0, spmd_planned(partitioner, 0))->cost;
    for (int64_t i = 0; i < owned.count; i++)
        cost = spmd_add_bytes(cost,
                              spmd_transfer_cost(partitioner->plan->costs, SPMD_TRANSFER_GATHER, spmd_axes_set(&axes),
                                                 bytes / op->shape->dims[owned.dim] * owned.pieces[i].count, false));
    if (cost >= limit) return false;
    const SpmdReason reason = {.op = op, .what = "elements of one shard"};
    HloInstruction *parts[MOST_PIECES];
    for (int64_t i = 0; i < owned.count; i++) {
        HloInstruction *own = emit_piece(partitioner, local.hlo, &owned, &owned.pieces[i]);
        parts[i] = spmd_emit_broadcast(partitioner, own, &axes, owned.pieces[i].shard, &reason);
    }
    HloInstruction *made = spmd_emit_concatenate(partitioner, parts, owned.count, owned.dim);
    spmd_define(partitioner, 0, made, sharding, 0, HLO_OPCODE_COUNT);
    return true;
}

int64_t spmd_owned_cost(SpmdPartitioner *partitioner, const HloInstruction *slice) {
    assert(hlo_is(slice, HLO_OP_SLICE));
    const SpmdLocal *part = spmd_local(partitioner, slice, 0), *whole = spmd_local(partitioner, slice->operands[0], 0);
    int64_t cost = 0;
    for (int32_t d = 0; part->hlo && whole->hlo && d < slice->shape->rank; d++)
        if (is_cut(slice, d) && whole->sharding->dims[d].count && !part->sharding->dims[d].count)
            cost = spmd_add_bytes(
                cost, spmd_transfer_cost(partitioner->plan->costs, SPMD_TRANSFER_GATHER,
                                         spmd_axes_set(&whole->sharding->dims[d]),
                                         spmd_local_bytes(partitioner->mesh, slice->shape, part->sharding), false));
    return cost;
}
