// SPDX-License-Identifier: Apache-2.0
// Normalises tile dimensions for subgroups to XLA's form: dimensions of size one are omitted, those of the same kind
// are one dimension, and the kinds are in a fixed order with replication last. XLA normalises in HloSharding's
// constructor and PartialTile() (xla/hlo/ir/hlo_sharding.cc), and prints the result; equivalent text must give the same
// sharding, or partitioners would see differences where there are none. An iota stays an iota if the reordered tiles
// still are one; otherwise devices are written out.
#include <assert.h>
#include <stdlib.h>

#include "hlo/base/arithmetic.h"
#include "hlo/text/parser.h"

enum { MOST_DIMS = 64 };

// The rank of a kind among subgroups; the order of the numbers that XLA assigns to the kinds, replication last.
static int kind_rank(HloShardingKind kind) {
    switch (kind) {
        case HLO_SHARDING_MAXIMAL: return 0;
        case HLO_SHARDING_MANUAL: return 1;
        case HLO_SHARDING_UNREDUCED: return 2;
        default: return 3;
    }
}

static bool is_identity(const int64_t *order, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (order[i] != i) return false;
    }
    return true;
}

// The dims of an iota in the order in which they are traversed, split so that each tile dimension is a run of whole
// pieces.
typedef struct Pieces {
    int64_t size[4 * MOST_DIMS];
    int64_t source[4 * MOST_DIMS];  // dimension of the iota it is part of
    int64_t tile[4 * MOST_DIMS];    // tile dimension it is part of
    int64_t count;
} Pieces;

// False if some tile dimension does not consist of whole factors of the iota's dims.
static bool cut(const HloIotaDevices *iota, HloInts tiles, Pieces *pieces) {
    assert(pieces);
    int64_t source = 0, tile = 0;
    int64_t source_left = 1, tile_left = 1;
    pieces->count = 0;
    // From the minor end, so that remainders are whole factors.
    source = iota->dims.count;
    tile = tiles.count;
    for (;;) {
        while (source_left == 1 && source > 0) {
            source--;
            source_left = iota->dims.items[iota->permutation.count ? iota->permutation.items[source] : source];
        }
        while (tile_left == 1 && tile > 0) tile_left = tiles.items[--tile];
        if (source_left == 1 && tile_left == 1) return true;
        int64_t piece = hlo_gcd(source_left, tile_left);
        if (piece == 1 || pieces->count >= 4 * MOST_DIMS - 1) return false;
        pieces->size[pieces->count] = piece;
        pieces->source[pieces->count] = iota->permutation.count ? iota->permutation.items[source] : source;
        pieces->tile[pieces->count++] = tile;
        source_left /= piece;
        tile_left /= piece;
    }
}

// The iota whose tiles are permuted by `order`. False if the result is not an iota.
static bool permute_iota(HloParser *parser, HloSharding *sharding, const int64_t *order) {
    assert(sharding->iota.dims.count > 0);
    Pieces pieces;
    if (!cut(&sharding->iota, sharding->tile_dims, &pieces)) return false;
    // Pieces were split off from the minor end; they are numbered in the order of the iota's own dims, major first.
    // Within one source dimension, a piece that was split off later is more major.
    int64_t dims[4 * MOST_DIMS], number[4 * MOST_DIMS], count = 0;
    for (int64_t source = 0; source < sharding->iota.dims.count; source++) {
        for (int64_t i = pieces.count - 1; i >= 0; i--) {
            if (pieces.source[i] != source) continue;
            number[i] = count;
            dims[count++] = pieces.size[i];
        }
    }
    int64_t permutation[4 * MOST_DIMS], placed = 0;
    for (int64_t t = 0; t < sharding->tile_dims.count; t++) {
        for (int64_t i = pieces.count - 1; i >= 0; i--) {
            if (pieces.tile[i] == order[t]) permutation[placed++] = number[i];
        }
    }
    if (count > MOST_DIMS) return false;
    sharding->iota.dims = hlo_ints(parser->arena, dims, count);
    sharding->iota.permutation = hlo_ints(parser->arena, permutation, placed);
    hlo_iota_devices_simplify(parser->arena, &sharding->iota);
    return true;
}

// The device list whose tiles are permuted by `order`.
static void permute_devices(HloParser *parser, HloSharding *sharding, const int64_t *order) {
    assert(sharding->iota.dims.count == 0);
    int64_t count = sharding->devices.count, rank = sharding->tile_dims.count;
    int64_t *devices = HLO_ARENA_NEW(parser->arena, int64_t, count);
    int64_t stride[MOST_DIMS], index[MOST_DIMS] = {0};
    int64_t product = 1;
    for (int64_t i = rank - 1; i >= 0; i--) {
        stride[i] = product;
        product *= sharding->tile_dims.items[i];
    }
    for (int64_t n = 0; n < count; n++) {
        int64_t from = 0;
        for (int64_t i = 0; i < rank; i++) from += index[i] * stride[order[i]];
        devices[n] = sharding->devices.items[from];
        for (int64_t i = rank - 1; i >= 0; i--) {
            if (++index[i] < sharding->tile_dims.items[order[i]]) break;
            index[i] = 0;
        }
    }
    sharding->devices = (HloInts){devices, count};
}

// The tiles in the new order; if they are not an iota, they become a list of up to a million devices.
static bool permute(HloParser *parser, const char *where, HloSharding *sharding, const int64_t *order) {
    int64_t rank = sharding->tile_dims.count;
    if (is_identity(order, rank)) return true;
    if (sharding->iota.dims.count && !permute_iota(parser, sharding, order)) {
        int64_t count = 1;
        for (int64_t i = 0; i < rank; i++) count *= sharding->tile_dims.items[i];
        if (count > INT64_C(1) << 20) return hlo_parser_fail(parser, where, "too many devices to write out");
        int64_t *devices = HLO_ARENA_NEW(parser->arena, int64_t, count);
        hlo_iota_devices_expand(&sharding->iota, devices);
        sharding->iota = (HloIotaDevices){0};
        sharding->devices = (HloInts){devices, count};
    }
    if (sharding->iota.dims.count == 0) permute_devices(parser, sharding, order);
    int64_t dims[MOST_DIMS];
    for (int64_t i = 0; i < rank; i++) dims[i] = sharding->tile_dims.items[order[i]];
    sharding->tile_dims = hlo_ints(parser->arena, dims, rank);
    return true;
}

// Devices that have the same data are written in rising order.
static void sort_groups(HloParser *parser, HloSharding *sharding) {
    int64_t count = sharding->devices.count;
    int64_t size = sharding->tile_dims.items[sharding->tile_dims.count - 1];
    int64_t *devices = hlo_arena_copy(parser->arena, sharding->devices.items, (size_t)count * sizeof(*devices));
    for (int64_t start = 0; start + size <= count; start += size)
        qsort(devices + start, (size_t)size, sizeof(*devices), hlo_compare_int64);
    sharding->devices.items = devices;
}

// Merges subgroups into one tile dimension per kind; `kinds` has the kinds of the trailing dimensions.
static void merge(HloParser *parser, HloSharding *sharding, const HloShardingKind *kinds, int64_t count) {
    assert(count >= 0);
    int64_t data = sharding->tile_dims.count - count;
    int64_t dims[MOST_DIMS], rank = data;
    HloShardingKind *merged = HLO_ARENA_NEW(parser->arena, HloShardingKind, count + 1);
    memcpy(dims, sharding->tile_dims.items, (size_t)data * sizeof(*dims));
    for (int64_t i = 0; i < count; i++) {
        int64_t size = sharding->tile_dims.items[data + i];
        if (size == 1) continue;
        if (rank > data && merged[rank - data - 1] == kinds[i]) {
            dims[rank - 1] *= size;
        } else {
            merged[rank - data] = kinds[i];
            dims[rank++] = size;
        }
    }
    sharding->tile_dims = hlo_ints(parser->arena, dims, rank);
    sharding->subgroups = merged;
    sharding->subgroup_count = rank - data;
}

// Sorts subgroups by kind (at most MOST_DIMS of them) and merges them; they may turn out to be the only tile
// dimensions.
bool hlo_parser_simplify_subgroups(HloParser *parser, const char *where, HloSharding *sharding) {
    assert(sharding->kind == HLO_SHARDING_TILED);
    static const HloShardingKind replicated = HLO_SHARDING_REPLICATED;
    if (sharding->last_tile_dim_replicate) {
        sharding->subgroups = &replicated;
        sharding->subgroup_count = 1;
        sharding->last_tile_dim_replicate = false;
    }
    int64_t count = sharding->subgroup_count, rank = sharding->tile_dims.count;
    if (count == 0) return true;
    if (rank > MOST_DIMS) return hlo_parser_fail(parser, where, "more than %d tile dimensions", MOST_DIMS);
    int64_t order[MOST_DIMS], data = rank - count;
    HloShardingKind kinds[MOST_DIMS];
    for (int64_t i = 0; i < rank; i++) order[i] = i;
    for (int64_t i = data + 1; i < rank; i++) {
        for (int64_t j = i; j > data && kind_rank(sharding->subgroups[order[j - 1] - data]) >
                                            kind_rank(sharding->subgroups[order[j] - data]);
             j--) {
            int64_t other = order[j];
            order[j] = order[j - 1];
            order[j - 1] = other;
        }
    }
    for (int64_t i = 0; i < count; i++) kinds[i] = sharding->subgroups[order[data + i] - data];
    if (!permute(parser, where, sharding, order)) return false;
    merge(parser, sharding, kinds, count);
    bool whole = sharding->subgroup_count == 1;
    for (int64_t i = 0; whole && i < data; i++) whole = sharding->tile_dims.items[i] == 1;
    if (whole) {
        sharding->kind = sharding->subgroups[0];
        sharding->tile_dims = sharding->devices = (HloInts){0};
        sharding->iota = (HloIotaDevices){0};
        sharding->subgroup_count = 0;
    } else if (sharding->subgroup_count == 1 && sharding->subgroups[0] == HLO_SHARDING_REPLICATED) {
        sharding->last_tile_dim_replicate = true;
        sharding->subgroup_count = 0;
        if (sharding->devices.count) sort_groups(parser, sharding);
    }
    return true;
}
