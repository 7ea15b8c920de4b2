// SPDX-License-Identifier: Apache-2.0
// A collective runs in a few stages, each of which puts bytes on links. The busiest link of a stage determines its
// time, and stages run one after the other:
//
//   time = start-up + steps (hops) * latency of one + sum over stages of max over links of bytes * slowness / rate
//
// Ring algorithms (all-gather, reduce-scatter, and all-reduce as both) use the torus axes of a group that is a grid.
// They split the data into as many parts as there are axes, so that all links are busy at the same time. Groups that
// are not grids use one ring along the routes of the torus. On a closed ring of n members that hold a block each, each
// link carries block * (n - 1) / 2 in either direction. On an open line the link between members i and i + 1 carries
// the blocks of all members on one side of it:
//
//   closed   0 - 1 - 2 - 3 - (0)     3/2 block on every link, both ways
//   open     0 - 1 - 2 - 3           to the right 1, 2, 3 blocks, to the left 3, 2, 1
//
// Over several slices the members of the same rank exchange over the data centre's network first (gather) or last
// (scatter). All-to-alls and permutes follow the routes of their pairs. Latency is counted by steps and hops,
// separately from the bytes. Nothing is kept between collectives except the tables of EmuNetwork, which are all zero
// again when a stage ends, and the finished transfers that it remembers.
#include "emulator/collective.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "emulator/amount.h"
#include "emulator/collective_groups.h"
#include "hlo/base/map.h"
#include "hlo/base/vector.h"
#include "hlo/ir/transfer.h"

typedef HLO_VECTOR(EmuLinkBytes) LinkBytesVector;

// The number of members of an irregular group whose routes are followed one by one.
#define MAX_ROUTED_SENDERS 1024

// Directions in which the data of a ring algorithm flows.
typedef enum RingKind {
    RING_GATHER,   // from each member to all others
    RING_SCATTER,  // sums on the way; uses the same links in the opposite direction
} RingKind;

// A collective while it is timed.
typedef struct Timing {
    EmuNetwork *network;
    EmuTransfer *transfer;
    LinkBytesVector links;
    double seconds;   // the stages so far, by their busiest links
    int64_t latency;  // picoseconds
} Timing;

// The two tables have one entry per link and are all zero between stages.
EmuNetwork *emu_network_new(HloArena *arena, const EmuTopology *topology, const int64_t *places, int64_t replica_count,
                            int64_t partition_count, const EmuFaults *faults) {
    assert(topology && replica_count > 0 && partition_count > 0);
    EmuNetwork *network = HLO_ARENA_NEW(arena, EmuNetwork, 1);
    network->topology = topology;
    network->places = places;
    network->replica_count = replica_count;
    network->partition_count = partition_count;
    network->arena = arena;
    network->faults = faults;
    network->stage_bytes = HLO_ARENA_NEW(arena, double, emu_link_limit(topology));
    network->touched = HLO_ARENA_NEW(arena, int64_t, emu_link_limit(topology));
    return network;
}

// Links with traffic are listed once, so that ending a stage does not have to scan all links of a pod.
static void load_link(EmuNetwork *network, int64_t link, double bytes) {
    assert(bytes >= 0 && link >= 0 && link < emu_link_limit(network->topology));
    if (bytes == 0) return;
    if (network->stage_bytes[link] == 0) network->touched[network->touched_count++] = link;
    network->stage_bytes[link] += bytes;
}

// Puts bytes on every link of the route between two positions. Returns the number of links.
static int64_t load_route(EmuNetwork *network, int64_t from, int64_t to, double bytes) {
    int64_t links[EMU_MAX_ROUTE];
    const int64_t count = emu_route(network->topology, from, to, links);
    for (int64_t i = 0; i < count; i++) load_link(network, links[i], bytes);
    return count;
}

// The bytes per second that a transfer achieves on a link, with protocol overhead.
static double rate_of(const EmuTopology *topology, EmuLinkKind kind) {
    const double efficiency = kind == EMU_LINK_DCN ? topology->chip.dcn_efficiency : topology->chip.link_efficiency;
    return emu_link_bytes_per_second(topology, kind) * efficiency;
}

static EmuLinkKind kind_of(const EmuTopology *topology, int64_t link) {
    if (link < topology->chip_count * 6) return EMU_LINK_ICI;
    return link < topology->chip_count * 6 + topology->device_count ? EMU_LINK_PACKAGE : EMU_LINK_DCN;
}

// Ends a stage: its busiest link determines its time, and its link bytes are added to the transfer.
static void end_stage(Timing *timing) {
    EmuNetwork *network = timing->network;
    double longest = 0;
    for (int64_t i = 0; i < network->touched_count; i++) {
        const int64_t link = network->touched[i];
        const EmuLinkKind kind = kind_of(network->topology, link);
        const double slowness = network->faults->link_slowness ? network->faults->link_slowness[link] : 1;
        longest = fmax(longest, network->stage_bytes[link] * slowness / rate_of(network->topology, kind));
        hlo_vector_push(network->arena, &timing->links, ((EmuLinkBytes){link, network->stage_bytes[link]}));
        network->stage_bytes[link] = 0;
    }
    network->touched_count = 0;
    timing->seconds += longest;
}

// Puts the bytes of a ring algorithm on the links between neighbours on one line of members along a grid axis. Each
// member starts with `block` bytes. A closed ring sends half the data in each direction; on an open line all blocks
// from one side cross each gap.
static void load_line(EmuNetwork *network, const int64_t *line, int64_t count, bool closed, RingKind kind,
                      double block) {
    assert(count > 0 && block >= 0);
    if (closed) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t next = line[(i + 1) % count];
            load_route(network, line[i], next, block * (double)(count - 1) / 2);
            load_route(network, next, line[i], block * (double)(count - 1) / 2);
        }
        return;
    }
    for (int64_t i = 0; i + 1 < count; i++) {
        const double below = block * (double)(i + 1), above = block * (double)(count - 1 - i);
        load_route(network, line[i], line[i + 1], kind == RING_GATHER ? below : above);
        load_route(network, line[i + 1], line[i], kind == RING_GATHER ? above : below);
    }
}

// Loads every line of a grid along one axis. Members of a line are `stride` apart in the grid's row-major order.
static void load_axis(EmuNetwork *network, const EmuGrid *grid, int axis, RingKind kind, double block) {
    int64_t stride = 1, line[EMU_MAX_AXIS];
    const int64_t size = grid->sizes[axis];
    assert(size > 0 && size <= EMU_MAX_AXIS);
    for (int later = axis + 1; later < EMU_GRID_AXES; later++) stride *= grid->sizes[later];
    for (int64_t start = 0; start < grid->count; start++) {
        if (start / stride % size) continue;
        for (int64_t i = 0; i < size; i++) line[i] = grid->members[start + i * stride];
        load_line(network, line, size, grid->closes[axis], kind, block);
    }
}

// Gathers or scatters over the torus axes of a grid. The data is split into as many parts as there are axes, and each
// part visits the axes in a different order, so that all links work at the same time. `block` is the size that a member
// holds before a gather or after a scatter.
static void load_torus(EmuNetwork *network, const EmuGrid *grid, RingKind kind, double block) {
    assert(block >= 0);
    int axes[3], count = 0;
    for (int axis = 0; axis < 3; axis++)
        if (grid->sizes[axis] > 1) axes[count++] = axis;
    for (int part = 0; part < count; part++) {
        double held = block / count;
        for (int phase = 0; phase < count; phase++) {
            const int axis = axes[(part + phase) % count];
            load_axis(network, grid, axis, kind, held);
            held *= (double)grid->sizes[axis];
        }
    }
}

// Loads a ring over the members in their order, in both directions, where each hop follows the routes of the torus.
static void load_ring(EmuNetwork *network, const int64_t *members, int64_t count, double block) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t next = members[(i + 1) % count];
        const double share = count > 2 ? 0.5 : 1;
        load_route(network, members[i], next, block * (double)(count - 1) * share);
        if (count > 2) load_route(network, next, members[i], block * (double)(count - 1) * share);
    }
}

// The number of steps of one ring pass over a group: axis after axis on a full torus, else one ring over all members.
static int64_t ring_steps(const EmuGrid *grid) {
    int64_t steps = grid->sizes[3] - 1;
    for (int axis = 0; axis < 3 && grid->is_grid; axis++) {
        if (grid->sizes[axis] > 1 && !grid->closes[axis]) return grid->count - 1;
        steps += grid->sizes[axis] - 1;
    }
    return grid->is_grid ? steps : grid->count - 1;
}

// The members of a group, slice by slice.
typedef struct SplitGroup {
    int64_t slices;
    int64_t each;            // members in a slice
    const int64_t *members;  // positions; slice s has `each` of them from s * each on
} SplitGroup;

// Sorts a group by slice; `slices` is 0 when the slices have different numbers of members.
static SplitGroup split_by_slice(EmuNetwork *network, HloInts group) {
    assert(group.count > 0);
    const EmuTopology *topology = network->topology;
    SplitGroup split = {.slices = 1, .each = group.count, .members = group.items};
    if (topology->slice_count == 1) return split;
    int64_t *counts = HLO_ARENA_NEW(network->arena, int64_t, topology->slice_count);
    for (int64_t i = 0; i < group.count; i++) counts[topology->devices[group.items[i]].slice_index]++;
    int64_t present = 0, each = 0;
    for (int64_t s = 0; s < topology->slice_count; s++)
        if (counts[s]) {
            if (present++ && counts[s] != each) return (SplitGroup){0};
            each = counts[s];
        }
    int64_t *members = HLO_ARENA_NEW(network->arena, int64_t, group.count), filled = 0;
    for (int64_t s = 0; s < topology->slice_count; s++)
        for (int64_t i = 0; i < group.count; i++)
            if (topology->devices[group.items[i]].slice_index == s) members[filled++] = group.items[i];
    assert(filled == group.count && present * each == group.count);
    return (SplitGroup){present, each, members};
}

// The level of the network that a stage of a ring collective uses.
typedef enum StageKind { STAGE_PACKAGE, STAGE_TORUS, STAGE_SLICES } StageKind;

// Loads one stage of one group. `bytes` is the size of the full array; every member has a share of it before a gather
// and after a scatter. Gathers go from the outside in (slices, torus, package), scatters in the opposite order; the
// amounts are the same.
static void load_stage(Timing *timing, const SplitGroup *split, const EmuGrid *grids, StageKind stage, RingKind kind,
                       double bytes) {
    EmuNetwork *network = timing->network;
    const int64_t total = split->slices * split->each;
    const double share = bytes / (double)total;
    if (stage == STAGE_SLICES) {
        for (int64_t i = 0; split->slices > 1 && i < total; i++)
            load_route(network, split->members[i], split->members[(i + split->each) % total],
                       share * (double)(split->slices - 1));
        return;
    }
    for (int64_t s = 0; s < split->slices; s++) {
        const EmuGrid *grid = &grids[s];
        const double block = share * (double)split->slices;
        if (!grid->is_grid) {
            if (stage == STAGE_TORUS) load_ring(network, split->members + s * split->each, split->each, block);
        } else if (stage == STAGE_TORUS) {
            load_torus(network, grid, kind, block);
        } else if (grid->sizes[3] > 1) {
            load_axis(network, grid, 3, kind, block * (double)(grid->count / grid->sizes[3]));
        }
    }
}

// Runs one pass (gather or scatter) of all groups, stage after stage.
static void ring_pass(Timing *timing, const EmuGroups *groups, const SplitGroup *splits, EmuGrid *const *grids,
                      RingKind kind, double bytes) {
    for (int stage = 0; stage < 3; stage++) {
        const StageKind which = (StageKind)(kind == RING_SCATTER ? stage : 2 - stage);
        for (int64_t g = 0; g < groups->count; g++) load_stage(timing, &splits[g], grids[g], which, kind, bytes);
        end_stage(timing);
    }
    int64_t steps = 0;
    bool slices = false;
    for (int64_t g = 0; g < groups->count; g++) {
        const int64_t here = ring_steps(&grids[g][0]);
        if (here > steps) steps = here;
        slices = slices || splits[g].slices > 1;
    }
    const EmuChip *chip = &timing->network->topology->chip;
    timing->latency += steps * chip->collective_step_picoseconds + (slices ? chip->dcn_picoseconds : 0);
}

// Times an all-reduce, all-gather, reduce-scatter or broadcast.
static void time_rings(Timing *timing, const EmuGroups *groups, HloOpcode opcode, double bytes) {
    assert(bytes >= 0);
    EmuNetwork *network = timing->network;
    SplitGroup *splits = HLO_ARENA_NEW(network->arena, SplitGroup, groups->count);
    EmuGrid **grids = HLO_ARENA_NEW(network->arena, EmuGrid *, groups->count);
    for (int64_t g = 0; g < groups->count; g++) {
        splits[g] = split_by_slice(network, groups->lists[g]);
        // Slices with unequal shares use one ring over all members, which crosses between slices where necessary.
        const bool uneven = splits[g].slices == 0;
        if (uneven) splits[g] = (SplitGroup){1, groups->lists[g].count, groups->lists[g].items};
        grids[g] = HLO_ARENA_NEW(network->arena, EmuGrid, splits[g].slices);
        for (int64_t s = 0; s < splits[g].slices; s++)
            grids[g][s] = uneven ? (EmuGrid){.count = splits[g].each}
                                 : emu_find_grid(network, splits[g].members + s * splits[g].each, splits[g].each);
    }
    if (opcode == HLO_OP_ALL_REDUCE || opcode == HLO_OP_REDUCE_SCATTER)
        ring_pass(timing, groups, splits, grids, RING_SCATTER, bytes);
    if (opcode != HLO_OP_REDUCE_SCATTER) ring_pass(timing, groups, splits, grids, RING_GATHER, bytes);
}

// Loads an exchange of blocks between all pairs of members along one axis of a grid, for all lines of the axis.
static int64_t load_exchange_axis(EmuNetwork *network, const EmuGrid *grid, int axis, double block) {
    int64_t stride = 1, longest = 0;
    const int64_t size = grid->sizes[axis];
    for (int later = axis + 1; later < EMU_GRID_AXES; later++) stride *= grid->sizes[later];
    const double each = block * (double)(grid->count / size);
    for (int64_t start = 0; start < grid->count; start++) {
        if (start / stride % size) continue;
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = 0; j < size; j++) {
                if (i == j) continue;
                const int64_t hops =
                    load_route(network, grid->members[start + i * stride], grid->members[start + j * stride], each);
                if (hops > longest) longest = hops;
            }
    }
    return longest;
}

// Times an all-to-all: every member sends a block to every other. On a grid, routes go axis by axis, so that each axis
// can be loaded separately; else every pair is routed.
static void time_exchange(Timing *timing, const EmuGroups *groups, double operand_bytes) {
    assert(operand_bytes >= 0);
    EmuNetwork *network = timing->network;
    int64_t longest = 0;
    bool slices = false;
    for (int64_t g = 0; g < groups->count; g++) {
        const HloInts group = groups->lists[g];
        const double block = operand_bytes / (double)group.count;
        const SplitGroup split = split_by_slice(network, group);
        EmuGrid grid = {0};
        slices = slices || split.slices != 1;
        // In a twisted torus the shortest routes do not go axis by axis.
        if (split.slices == 1 && !network->topology->twisted) grid = emu_find_grid(network, group.items, group.count);
        int64_t hops = 0;
        for (int axis = 0; grid.is_grid && axis < EMU_GRID_AXES; axis++)
            hops += load_exchange_axis(network, &grid, axis, block);
        // In very large groups only every stride-th member is routed; it also sends for the members up to the next one.
        const int64_t stride = group.count / MAX_ROUTED_SENDERS + 1;
        for (int64_t i = 0; !grid.is_grid && i < group.count; i += stride)
            for (int64_t j = 0; j < group.count; j++) {
                const int64_t here = load_route(network, group.items[i], group.items[j], block * (double)stride);
                if (here > hops) hops = here;
            }
        if (hops > longest) longest = hops;
    }
    end_stage(timing);
    const EmuChip *chip = &network->topology->chip;
    timing->latency += longest * chip->hop_picoseconds + (slices ? chip->dcn_picoseconds : 0);
}

// Participants of a permute: partitions of each replica with a channel, replicas of each partition without.
static HloStatus time_permute(Timing *timing, const HloInstruction *collective, double bytes) {
    assert(bytes >= 0);
    EmuNetwork *network = timing->network;
    const HloInstruction *inner = emu_synchronous_instruction(collective);
    static const HloPair NEIGHBOUR = {0, 1};
    const HloPairs *list;
    HloTransferRoute route;
    bool across = network->partition_count > 1;
    if (hlo_is(inner, HLO_OP_SEND)) {
        HLO_TRY(hlo_transfer_route(network->arena, inner, &route));
        // The receiver is unknown, so assume a neighbour.
        if (!route.has_pairs && (across ? network->partition_count : network->replica_count) > 1)
            route.pairs = (HloPairs){&NEIGHBOUR, 1};
        list = &route.pairs;
    } else {
        list = &HLO_ATTRIBUTES(inner, Permute)->source_target_pairs;
        across = HLO_ATTRIBUTES(inner, Permute)->channel_id != 0;
    }
    const int64_t numbers = across ? network->partition_count : network->replica_count;
    const int64_t copies = across ? network->replica_count : network->partition_count;
    int64_t longest = 0;
    bool slices = false;
    for (int64_t i = 0; i < list->count; i++) {
        const HloPair pair = list->items[i];
        HLO_FAIL_IF(pair.source < 0 || pair.target < 0 || pair.source >= numbers || pair.target >= numbers,
                    HLO_INVALID_ARGUMENT, "%s: pair {%lld,%lld} names a device outside of the %lld devices",
                    collective->name, (long long)pair.source, (long long)pair.target, (long long)numbers);
        for (int64_t copy = 0; copy < copies; copy++) {
            const int64_t stride = across ? 1 : network->partition_count, base = across ? copy * numbers : copy;
            const int64_t from = network->places[base + pair.source * stride];
            const int64_t to = network->places[base + pair.target * stride];
            const int64_t hops = load_route(network, from, to, bytes);
            if (hops > longest) longest = hops;
            slices =
                slices || network->topology->devices[from].slice_index != network->topology->devices[to].slice_index;
        }
    }
    timing->transfer->group_size = 2;
    timing->transfer->group_count = list->count;
    end_stage(timing);
    const EmuChip *chip = &network->topology->chip;
    timing->latency += longest * chip->hop_picoseconds + (slices ? chip->dcn_picoseconds : 0);
    return HLO_SUCCESS;
}

// The dense bytes of the operands of a collective.
static int64_t operand_bytes(const HloInstruction *collective) {
    const HloInstruction *inner = emu_synchronous_instruction(collective);
    int64_t total = 0;
    for (int32_t i = 0; i < inner->operand_count; i++)  // the token of a send has no bytes
        total = emu_add(total, hlo_shape_bytes(inner->operands[i]->shape));
    return total;
}

// The bytes that a device sends in a ring algorithm: (g - 1) / g of the array for a scatter or an exchange, twice that
// for an all-reduce, g - 1 operands for a gather.
int64_t emu_collective_bytes(const HloInstruction *collective, int64_t group_size) {
    assert(group_size > 0);
    const int64_t operands = operand_bytes(collective);
    const int64_t g = group_size > 0 ? group_size : 1;
    // Amounts too large for exact integer arithmetic are approximated.
    const bool immense = operands > EMU_MOST / 4 / g;
    switch (emu_synchronous_opcode(collective)) {
        case HLO_OP_ALL_GATHER: return immense ? emu_times(operands, (double)(g - 1)) : operands * (g - 1);
        case HLO_OP_ALL_REDUCE:
            if (immense) return emu_times(operands, 2 * (double)(g - 1) / (double)g);
            return 2 * (operands / g) * (g - 1) + 2 * (operands % g) * (g - 1) / g;
        case HLO_OP_REDUCE_SCATTER:
        case HLO_OP_ALL_TO_ALL:
        case HLO_OP_RAGGED_ALL_TO_ALL: return operands / g * (g - 1) + operands % g * (g - 1) / g;
        default: return operands;
    }
}

// Checks that no link of the transfer begins or ends at a dead chip.
static HloStatus check_alive(const EmuNetwork *network, const HloInstruction *collective,
                             const LinkBytesVector *links) {
    const EmuTopology *topology = network->topology;
    const bool *dead = network->faults->dead_chips;
    for (int64_t i = 0; dead && i < links->count; i++) {
        const EmuLink link = emu_link_describe(topology, links->items[i].link);
        const int64_t ends[2] = {link.from, link.to};
        for (int end = 0; end < 2; end++)
            HLO_FAIL_IF(ends[end] >= 0 && dead[emu_topology_chip_of(topology, &topology->devices[ends[end]])],
                        HLO_UNAVAILABLE, "%s: its route crosses the dead chip of device %lld", collective->name,
                        (long long)topology->devices[ends[end]].id);
    }
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Transfers that are remembered

// What determines the transfer of a collective on a network, except for a power of two in its bytes.
typedef struct TransferKey {
    HloOpcode opcode;  // of the synchronous form
    HloGroupMode mode;
    const HloReplicaGroups *groups;  // NULL: of a permute
    bool has_channel;                // of a permute, which then is between partitions
    HloPairs pairs;
    uint64_t odd_bytes;  // the operand's, divided by 2 as often as they can be
} TransferKey;

// A transfer that was timed.
typedef struct TimedTransfer {
    int power;        // its operand has 2^power * odd_bytes
    double seconds;   // of its stages
    int64_t latency;  // picoseconds
    EmuTransfer transfer;
} TimedTransfer;

typedef struct RememberedTransfer {
    TransferKey key;
    HLO_VECTOR(TimedTransfer) timed;  // one for each power that was asked for
} RememberedTransfer;

// Equal hashes occupy the next numbers.
typedef struct EmuTransferMemo {
    HloArena *arena;
    HloIntMap by_hash;  // to positions in `transfers`
    HLO_VECTOR(RememberedTransfer) transfers;
} EmuTransferMemo;

void emu_network_remember(EmuNetwork *network, HloArena *arena) {
    assert(arena != network->arena);
    network->memo = HLO_ARENA_NEW(arena, EmuTransferMemo, 1);
    network->memo->arena = arena;
}

// The key of a collective with this many bytes, but for the power of two that is in them.
static TransferKey key_of(const HloInstruction *collective, uint64_t odd_bytes) {
    TransferKey key = {.opcode = emu_synchronous_opcode(collective), .odd_bytes = odd_bytes};
    if (key.opcode == HLO_OP_COLLECTIVE_PERMUTE) {
        const HloPermuteAttributes *attributes = HLO_ATTRIBUTES(emu_synchronous_instruction(collective), Permute);
        key.has_channel = attributes->channel_id != 0;
        key.pairs = attributes->source_target_pairs;
    } else {
        key.groups = emu_written_groups(collective, &key.mode);
    }
    return key;
}

static bool same_key(const TransferKey *a, const TransferKey *b) {
    if (a->opcode != b->opcode || a->mode != b->mode || a->odd_bytes != b->odd_bytes) return false;
    if (a->groups) return hlo_replica_groups_equal(a->groups, b->groups);
    if (a->has_channel != b->has_channel || a->pairs.count != b->pairs.count) return false;
    return !a->pairs.count || !memcmp(a->pairs.items, b->pairs.items, (size_t)a->pairs.count * sizeof(HloPair));
}

static uint64_t hash_key(const TransferKey *key) {
    const uint64_t hash = hlo_hash_mix(hlo_hash_mix((uint64_t)key->opcode, (uint64_t)key->mode), key->odd_bytes);
    if (key->groups) return hlo_hash_mix(hash, hlo_replica_groups_hash(key->groups));
    return hlo_hash_mix(hash, hlo_hash_bytes(key->pairs.items, (size_t)key->pairs.count * sizeof(HloPair)));
}

// Finds what is remembered for a key, or makes an empty entry.
static RememberedTransfer *find_remembered(EmuTransferMemo *memo, const TransferKey *key) {
    uint64_t hash = hash_key(key);
    for (const int64_t *at; (at = hlo_int_map_find(&memo->by_hash, hash)); hash++)
        if (same_key(&memo->transfers.items[*at].key, key)) return &memo->transfers.items[*at];
    RememberedTransfer entry = {.key = *key};
    if (key->groups) entry.key.groups = hlo_replica_groups_copy(memo->arena, key->groups);
    if (key->pairs.count)
        entry.key.pairs.items =
            hlo_arena_copy(memo->arena, key->pairs.items, (size_t)key->pairs.count * sizeof(HloPair));
    hlo_int_map_set(memo->arena, &memo->by_hash, hash, memo->transfers.count);
    hlo_vector_push(memo->arena, &memo->transfers, entry);
    return &memo->transfers.items[memo->transfers.count - 1];
}

// Times a transfer with 2^n times the bytes of another. Loads and times are products and quotients of the bytes, and
// their sums, which a power of two scales without any rounding: the result is that of timing it anew.
static TimedTransfer scaled_transfer(HloArena *arena, const TimedTransfer *other, int power,
                                     const HloInstruction *collective) {
    TimedTransfer timed = *other;
    EmuTransfer *transfer = &timed.transfer;
    const int more = power - other->power;
    timed.power = power;
    timed.seconds = ldexp(other->seconds, more);
    transfer->bytes_per_device = emu_collective_bytes(collective, transfer->group_size);
    transfer->picoseconds = emu_add(timed.latency, emu_picoseconds(timed.seconds));
    transfer->links = HLO_ARENA_NEW(arena, EmuLinkBytes, transfer->link_count);
    const double factor = ldexp(1, more);
    for (int64_t i = 0; i < transfer->link_count; i++)
        transfer->links[i] = (EmuLinkBytes){other->transfer.links[i].link, other->transfer.links[i].bytes * factor};
    return timed;
}

// ---------------------------------------------------------------------------------------------------------------------
// Transfers

// Loads the stages of a collective over groups.
static void time_groups(Timing *timing, HloOpcode opcode, double operands, const EmuGroups *groups) {
    EmuTransfer *transfer = timing->transfer;
    transfer->group_count = groups->count;
    for (int64_t g = 0; g < groups->count; g++)
        if (groups->lists[g].count > transfer->group_size) transfer->group_size = groups->lists[g].count;
    if (opcode == HLO_OP_ALL_TO_ALL || opcode == HLO_OP_RAGGED_ALL_TO_ALL)
        time_exchange(timing, groups, operands);
    else
        time_rings(timing, groups, opcode,
                   opcode == HLO_OP_ALL_GATHER ? operands * (double)transfer->group_size : operands);
    if (transfer->group_size <= 1) timing->latency = 0;
}

// Adds up the loads.
static HloStatus finish_transfer(Timing *timing, const HloInstruction *collective) {
    EmuTransfer *transfer = timing->transfer;
    transfer->bytes_per_device = emu_collective_bytes(collective, transfer->group_size);
    transfer->picoseconds = emu_add(timing->latency, emu_picoseconds(timing->seconds));
    HLO_TRY(check_alive(timing->network, collective, &timing->links));
    transfer->links = timing->links.items;
    transfer->link_count = timing->links.count;
    return HLO_SUCCESS;
}

// Times a collective over groups, or a permute.
static HloStatus time_collective(Timing *timing, const HloInstruction *collective, double operands) {
    const HloOpcode opcode = emu_synchronous_opcode(collective);
    EmuGroups groups;
    timing->latency = timing->network->topology->chip.collective_picoseconds;
    if (opcode == HLO_OP_COLLECTIVE_PERMUTE || opcode == HLO_OP_SEND) {
        HLO_TRY(time_permute(timing, collective, operands));
    } else {
        HLO_TRY(emu_groups_of(timing->network, collective, &groups));
        time_groups(timing, opcode, operands, &groups);
    }
    return finish_transfer(timing, collective);
}

// Finds a transfer that was timed, or times it and remembers it.
static HloStatus recall_transfer(EmuNetwork *network, const HloInstruction *collective, int64_t bytes,
                                 EmuTransfer *transfer) {
    EmuTransferMemo *memo = network->memo;
    const int power = bytes ? __builtin_ctzll((uint64_t)bytes) : 0;
    const TransferKey key = key_of(collective, (uint64_t)bytes >> power);
    RememberedTransfer *entry = find_remembered(memo, &key);
    for (int64_t i = 0; i < entry->timed.count; i++) {
        if (entry->timed.items[i].power != power) continue;
        *transfer = entry->timed.items[i].transfer;
        return HLO_SUCCESS;
    }
    TimedTransfer timed = {.power = power};
    if (entry->timed.count) {
        timed = scaled_transfer(memo->arena, &entry->timed.items[0], power, collective);
    } else {
        Timing timing = {.network = network, .transfer = &timed.transfer};
        HLO_TRY(time_collective(&timing, collective, (double)bytes));
        timed.seconds = timing.seconds;
        timed.latency = timing.latency;
        const size_t size = (size_t)timed.transfer.link_count * sizeof(EmuLinkBytes);
        if (size) timed.transfer.links = hlo_arena_copy(memo->arena, timed.transfer.links, size);
    }
    hlo_vector_push(memo->arena, &entry->timed, timed);
    *transfer = timed.transfer;
    return HLO_SUCCESS;
}

// Time is a latency that does not depend on bytes plus the time of the busiest link for its share. An all-gather is
// timed by its result, all others by their operand.
HloStatus emu_transfer(EmuNetwork *network, const HloInstruction *collective, EmuTransfer *transfer) {
    assert(network && collective && transfer);
    const HloOpcode opcode = emu_synchronous_opcode(collective);
    const int64_t bytes = operand_bytes(collective);
    *transfer = (EmuTransfer){0};
    // A send is one of few, and its pairs are written in strings.
    if (network->memo && opcode != HLO_OP_SEND) return recall_transfer(network, collective, bytes, transfer);
    Timing timing = {.network = network, .transfer = transfer};
    return time_collective(&timing, collective, (double)bytes);
}
