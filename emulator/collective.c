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
// again when a stage ends, and what it remembers: the loads of the links (link_loads.h), which are functions of the
// bytes, and the finished transfers.
#include "emulator/collective.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "emulator/amount.h"
#include "emulator/collective_groups.h"
#include "emulator/link_loads.h"
#include "emulator/link_sets.h"
#include "hlo/base/map.h"
#include "hlo/base/vector.h"
#include "hlo/ir/transfer.h"

// The number of members of an irregular group whose routes are followed one by one.
#define MAX_ROUTED_SENDERS 1024

// Directions in which the data of a ring algorithm flows.
typedef enum RingKind {
    RING_GATHER,   // from each member to all others
    RING_SCATTER,  // sums on the way; uses the same links in the opposite direction
} RingKind;

// What the time of a collective is made of, whatever its bytes.
typedef struct Course {
    EmuLoads *loads;  // of the links
    int64_t latency;  // picoseconds
    int64_t group_size, group_count;
} Course;

// A collective whose course is found.
typedef struct Timing {
    EmuNetwork *network;
    EmuLoads *loads;
    Course *course;
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
    network->load_numbers = HLO_ARENA_NEW(arena, int32_t, emu_link_limit(topology));
    network->touched = HLO_ARENA_NEW(arena, int64_t, emu_link_limit(topology));
    return network;
}

// The routes between neighbours on the lines of members along one axis of a grid.
typedef struct AxisRoutes {
    int64_t size;    // members of a line
    bool is_closed;  // the last of a line and the first are neighbours
    HLO_VECTOR(int64_t) links;
    HLO_VECTOR(int64_t) ways;  // of each link: two for each neighbours on a line, there and back
    int32_t times;             // that each link is used: lines of different cores have the same links
} AxisRoutes;

static void add_way(const EmuNetwork *network, AxisRoutes *routes, int64_t from, int64_t to, int64_t way) {
    int64_t links[EMU_MAX_ROUTE];
    const int64_t count = emu_route(network->topology, from, to, links);
    for (int64_t i = 0; i < count; i++) {
        hlo_vector_push(network->arena, &routes->links, links[i]);
        hlo_vector_push(network->arena, &routes->ways, way);
    }
}

// Adds the routes of the line of members from number `start` of the grid on.
static void add_line(const EmuNetwork *network, AxisRoutes *routes, const EmuGrid *grid, int64_t start,
                     int64_t stride) {
    for (int64_t i = 0; i + !routes->is_closed < routes->size; i++) {
        const int64_t here = grid->members[start + i * stride];
        const int64_t next = grid->members[start + (i + 1) % routes->size * stride];
        add_way(network, routes, here, next, 2 * i);
        add_way(network, routes, next, here, 2 * i + 1);
    }
}

// Follows the routes of an axis. Members of a line are `stride` apart in the grid's row-major order, in which cores are
// the last axis.
static AxisRoutes find_routes(const EmuNetwork *network, const EmuGrid *grid, int axis) {
    const int64_t size = grid->sizes[axis], cores = axis < 3 ? grid->sizes[3] : 1;
    AxisRoutes routes = {.size = size, .is_closed = grid->closes[axis], .times = (int32_t)cores};
    int64_t stride = 1;
    assert(size > 0 && size <= EMU_MAX_AXIS);
    for (int later = axis + 1; later < EMU_GRID_AXES; later++) stride *= grid->sizes[later];
    for (int64_t plane = 0; plane < grid->count; plane += stride * size)
        for (int64_t line = 0; line < stride; line += cores) add_line(network, &routes, grid, plane + line, stride);
    return routes;
}

// Puts the bytes of a ring algorithm on the links of an axis. Each member starts with `block` bytes. A closed ring
// sends half the data in each direction; on an open line all blocks from one side cross each gap.
static void load_axis(EmuLoads *loads, const AxisRoutes *routes, RingKind kind, EmuAmount block) {
    EmuAmount amounts[2 * EMU_MAX_AXIS];
    const int64_t size = routes->size;
    for (int64_t i = 0; i < size; i++) {
        const int64_t below = routes->is_closed ? size - 1 : i + 1, above = routes->is_closed ? size - 1 : size - 1 - i;
        const int64_t there = kind == RING_GATHER ? below : above, back = kind == RING_GATHER ? above : below;
        amounts[2 * i] = emu_amount_times(loads, block, (double)there);
        amounts[2 * i + 1] = emu_amount_times(loads, block, (double)back);
        for (int way = 0; way < 2 && routes->is_closed; way++)
            amounts[2 * i + way] = emu_amount_over(loads, amounts[2 * i + way], 2);
    }
    for (int64_t i = 0; i < routes->links.count; i++)
        emu_load_link(loads, routes->links.items[i], amounts[routes->ways.items[i]], routes->times);
}

// Gathers or scatters over the torus axes of a grid. The data is split into as many parts as there are axes, and each
// part visits the axes in a different order, so that all links work at the same time. `block` is the size that a member
// holds before a gather or after a scatter.
static void load_torus(EmuLoads *loads, const EmuGrid *grid, const AxisRoutes *routes, RingKind kind, EmuAmount block) {
    int axes[3], count = 0;
    for (int axis = 0; axis < 3; axis++)
        if (grid->sizes[axis] > 1) axes[count++] = axis;
    for (int part = 0; part < count; part++) {
        EmuAmount held = emu_amount_over(loads, block, count);
        for (int phase = 0; phase < count; phase++) {
            const int axis = axes[(part + phase) % count];
            load_axis(loads, &routes[axis], kind, held);
            held = emu_amount_times(loads, held, (double)grid->sizes[axis]);
        }
    }
}

// Loads a ring over the members in their order, in both directions, where each hop follows the routes of the torus.
static void load_ring(EmuLoads *loads, const int64_t *members, int64_t count, EmuAmount block) {
    const EmuAmount all = emu_amount_times(loads, block, (double)(count - 1));
    const EmuAmount share = emu_amount_times(loads, all, count > 2 ? 0.5 : 1);
    for (int64_t i = 0; i < count; i++) {
        const int64_t next = members[(i + 1) % count];
        emu_load_route(loads, members[i], next, share);
        if (count > 2) emu_load_route(loads, next, members[i], share);
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

// A group in a slice.
typedef struct Part {
    EmuGrid grid;
    AxisRoutes routes[EMU_GRID_AXES];  // of a grid
} Part;

// Finds the grid that members of one slice form, and the routes along its axes.
static Part find_part(EmuNetwork *network, const int64_t *members, int64_t count) {
    Part part = {.grid = emu_find_grid(network, members, count)};
    for (int axis = 0; part.grid.is_grid && axis < EMU_GRID_AXES; axis++)
        if (part.grid.sizes[axis] > 1) part.routes[axis] = find_routes(network, &part.grid, axis);
    return part;
}

// Loads one stage of one group. `bytes` is the size of the full array; every member has a share of it before a gather
// and after a scatter. Gathers go from the outside in (slices, torus, package), scatters in the opposite order; the
// amounts are the same.
static void load_stage(EmuLoads *loads, const SplitGroup *split, const Part *parts, StageKind stage, RingKind kind,
                       EmuAmount bytes) {
    const int64_t total = split->slices * split->each;
    const EmuAmount share = emu_amount_over(loads, bytes, (double)total);
    if (stage == STAGE_SLICES) {
        const EmuAmount sent = emu_amount_times(loads, share, (double)(split->slices - 1));
        for (int64_t i = 0; split->slices > 1 && i < total; i++)
            emu_load_route(loads, split->members[i], split->members[(i + split->each) % total], sent);
        return;
    }
    const EmuAmount block = emu_amount_times(loads, share, (double)split->slices);
    for (int64_t s = 0; s < split->slices; s++) {
        const EmuGrid *grid = &parts[s].grid;
        if (!grid->is_grid) {
            if (stage == STAGE_TORUS) load_ring(loads, split->members + s * split->each, split->each, block);
        } else if (stage == STAGE_TORUS) {
            load_torus(loads, grid, parts[s].routes, kind, block);
        } else if (grid->sizes[3] > 1) {
            load_axis(loads, &parts[s].routes[3], kind,
                      emu_amount_times(loads, block, (double)(grid->count / grid->sizes[3])));
        }
    }
}

// Runs one pass (gather or scatter) of all groups, stage after stage.
static void ring_pass(Timing *timing, const EmuGroups *groups, const SplitGroup *splits, Part *const *parts,
                      RingKind kind, EmuAmount bytes) {
    for (int stage = 0; stage < 3; stage++) {
        const StageKind which = (StageKind)(kind == RING_SCATTER ? stage : 2 - stage);
        for (int64_t g = 0; g < groups->count; g++) load_stage(timing->loads, &splits[g], parts[g], which, kind, bytes);
        emu_loads_end_stage(timing->loads);
    }
    int64_t steps = 0;
    bool slices = false;
    for (int64_t g = 0; g < groups->count; g++) {
        const int64_t here = ring_steps(&parts[g][0].grid);
        if (here > steps) steps = here;
        slices = slices || splits[g].slices > 1;
    }
    const EmuChip *chip = &timing->network->topology->chip;
    timing->course->latency += steps * chip->collective_step_picoseconds + (slices ? chip->dcn_picoseconds : 0);
}

// Times an all-reduce, all-gather, reduce-scatter or broadcast of an array of `bytes`.
static void time_rings(Timing *timing, const EmuGroups *groups, HloOpcode opcode, EmuAmount bytes) {
    EmuNetwork *network = timing->network;
    SplitGroup *splits = HLO_ARENA_NEW(network->arena, SplitGroup, groups->count);
    Part **parts = HLO_ARENA_NEW(network->arena, Part *, groups->count);
    for (int64_t g = 0; g < groups->count; g++) {
        splits[g] = split_by_slice(network, groups->lists[g]);
        // Slices with unequal shares use one ring over all members, which crosses between slices where necessary.
        const bool uneven = splits[g].slices == 0;
        if (uneven) splits[g] = (SplitGroup){1, groups->lists[g].count, groups->lists[g].items};
        parts[g] = HLO_ARENA_NEW(network->arena, Part, splits[g].slices);
        for (int64_t s = 0; s < splits[g].slices; s++)
            parts[g][s] = uneven ? (Part){.grid = {.count = splits[g].each}}
                                 : find_part(network, splits[g].members + s * splits[g].each, splits[g].each);
    }
    if (opcode == HLO_OP_ALL_REDUCE || opcode == HLO_OP_REDUCE_SCATTER)
        ring_pass(timing, groups, splits, parts, RING_SCATTER, bytes);
    if (opcode != HLO_OP_REDUCE_SCATTER) ring_pass(timing, groups, splits, parts, RING_GATHER, bytes);
}

// Times an all-to-all: every member sends a block to every other. On a grid, routes go axis by axis, so that each axis
// can be loaded separately. In a twisted torus the shortest routes do not go axis by axis.
static void time_exchange(Timing *timing, const EmuGroups *groups) {
    EmuNetwork *network = timing->network;
    EmuExchange *exchange = emu_exchange_new(timing->loads, network);
    int64_t longest = 0;
    bool slices = false;
    for (int64_t g = 0; g < groups->count; g++) {
        const HloInts group = groups->lists[g];
        const EmuAmount block = emu_amount_over(timing->loads, EMU_AMOUNT_OPERAND, (double)group.count);
        const SplitGroup split = split_by_slice(network, group);
        EmuGrid grid = {0};
        slices = slices || split.slices != 1;
        const bool by_axes = split.slices == 1 && !network->topology->twisted;
        if (by_axes) grid = emu_find_grid(network, group.items, group.count);
        int64_t hops = 0;
        for (int axis = 0; grid.is_grid && axis < EMU_GRID_AXES; axis++)
            hops += emu_load_grid_exchange(exchange, &grid, axis, block);
        // In very large groups only every stride-th member is routed; it also sends for the members up to the next one.
        const int64_t stride = group.count / MAX_ROUTED_SENDERS + 1;
        const EmuAmount sent = emu_amount_times(timing->loads, block, (double)stride);
        if (!grid.is_grid)
            hops = by_axes ? emu_load_exchange(exchange, group.items, group.count, stride, sent)
                           : emu_load_pairs(timing->loads, group.items, group.count, stride, sent);
        if (hops > longest) longest = hops;
    }
    emu_loads_end_stage(timing->loads);
    const EmuChip *chip = &network->topology->chip;
    timing->course->latency += longest * chip->hop_picoseconds + (slices ? chip->dcn_picoseconds : 0);
}

// Participants of a permute: partitions of each replica with a channel, replicas of each partition without.
static HloStatus time_permute(Timing *timing, const HloInstruction *collective) {
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
            const int64_t hops = emu_load_route(timing->loads, from, to, EMU_AMOUNT_OPERAND);
            if (hops > longest) longest = hops;
            slices =
                slices || network->topology->devices[from].slice_index != network->topology->devices[to].slice_index;
        }
    }
    timing->course->group_size = 2;
    timing->course->group_count = list->count;
    emu_loads_end_stage(timing->loads);
    const EmuChip *chip = &network->topology->chip;
    timing->course->latency += longest * chip->hop_picoseconds + (slices ? chip->dcn_picoseconds : 0);
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
static HloStatus check_alive(const EmuNetwork *network, const HloInstruction *collective, const EmuTransfer *transfer) {
    const EmuTopology *topology = network->topology;
    const bool *dead = network->faults->dead_chips;
    for (int64_t i = 0; dead && i < transfer->link_count; i++) {
        const EmuLink link = emu_link_describe(topology, transfer->links[i].link);
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

// What determines the course of a collective on a network.
typedef struct TransferKey {
    HloOpcode opcode;  // of the synchronous form
    HloGroupMode mode;
    const HloReplicaGroups *groups;  // NULL: of a permute
    bool has_channel;                // of a permute, which then is between partitions
    HloPairs pairs;
} TransferKey;

typedef struct RememberedTransfer {
    TransferKey key;
    Course course;                  // without loads: not found yet
    HloIntMap by_bytes;             // of the operand, to positions in `timed`
    HLO_VECTOR(EmuTransfer) timed;  // one for each number of bytes that was asked for
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
    network->sets = emu_link_sets_new(arena, emu_link_limit(network->topology));
}

bool emu_network_share(EmuNetwork *network, const EmuNetwork *other) {
    assert(other->memo);
    const size_t size = (size_t)(network->replica_count * network->partition_count) * sizeof *network->places;
    if (other->topology != network->topology || other->replica_count != network->replica_count ||
        other->partition_count != network->partition_count || memcmp(other->places, network->places, size) != 0)
        return false;
    network->memo = other->memo;
    network->sets = other->sets;
    return true;
}

static TransferKey key_of(const HloInstruction *collective) {
    TransferKey key = {.opcode = emu_synchronous_opcode(collective)};
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
    if (a->opcode != b->opcode || a->mode != b->mode) return false;
    if (a->groups) return hlo_replica_groups_equal(a->groups, b->groups);
    if (a->has_channel != b->has_channel || a->pairs.count != b->pairs.count) return false;
    return !a->pairs.count || !memcmp(a->pairs.items, b->pairs.items, (size_t)a->pairs.count * sizeof(HloPair));
}

static uint64_t hash_key(const TransferKey *key) {
    const uint64_t hash = hlo_hash_mix((uint64_t)key->opcode, (uint64_t)key->mode);
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
    // The entry first: where memory ends between the two, the map is still right.
    hlo_vector_push(memo->arena, &memo->transfers, entry);
    hlo_int_map_set(memo->arena, &memo->by_hash, hash, memo->transfers.count - 1);
    return &memo->transfers.items[memo->transfers.count - 1];
}

// ---------------------------------------------------------------------------------------------------------------------
// Transfers

// Loads the stages of a collective over groups.
static void time_groups(Timing *timing, HloOpcode opcode, const EmuGroups *groups) {
    Course *course = timing->course;
    course->group_count = groups->count;
    for (int64_t g = 0; g < groups->count; g++)
        if (groups->lists[g].count > course->group_size) course->group_size = groups->lists[g].count;
    EmuAmount bytes = EMU_AMOUNT_OPERAND;
    if (opcode == HLO_OP_ALL_GATHER) bytes = emu_amount_times(timing->loads, bytes, (double)course->group_size);
    if (opcode == HLO_OP_ALL_TO_ALL || opcode == HLO_OP_RAGGED_ALL_TO_ALL)
        time_exchange(timing, groups);
    else
        time_rings(timing, groups, opcode, bytes);
    if (course->group_size <= 1) course->latency = 0;
}

// Finds the course of a collective over groups, or of a permute. Its loads are in `arena`.
static HloStatus find_course(EmuNetwork *network, HloArena *arena, const HloInstruction *collective, Course *course) {
    const HloOpcode opcode = emu_synchronous_opcode(collective);
    Timing timing = {network, emu_loads_new(arena, network), course};
    EmuGroups groups;
    HloStatus status;
    *course = (Course){.latency = network->topology->chip.collective_picoseconds};
    if (opcode == HLO_OP_COLLECTIVE_PERMUTE || opcode == HLO_OP_SEND) {
        status = time_permute(&timing, collective);
    } else {
        status = emu_groups_of(network, collective, &groups);
        if (!status) time_groups(&timing, opcode, &groups);
    }
    emu_loads_finish(timing.loads);
    course->loads = timing.loads;
    return status;
}

// Times a collective whose course is known. What its links carry is in `arena`.
static HloStatus follow_course(const EmuNetwork *network, HloArena *arena, const HloInstruction *collective,
                               const Course *course, int64_t bytes, EmuTransfer *transfer) {
    const double seconds = emu_loads_evaluate(network, course->loads, arena, (double)bytes, transfer);
    transfer->group_size = course->group_size;
    transfer->group_count = course->group_count;
    transfer->bytes_per_device = emu_collective_bytes(collective, course->group_size);
    transfer->picoseconds = emu_add(course->latency, emu_picoseconds(seconds));
    return check_alive(network, collective, transfer);
}

static void number_links(const EmuNetwork *network, EmuTransfer *transfer) {
    if (transfer->link_count) transfer->set = emu_link_sets_find(network->sets, transfer->links, transfer->link_count);
}

// Finds a transfer that was timed, or times it and remembers it.
static HloStatus recall_transfer(EmuNetwork *network, const HloInstruction *collective, int64_t bytes,
                                 EmuTransfer *transfer) {
    EmuTransferMemo *memo = network->memo;
    const TransferKey key = key_of(collective);
    RememberedTransfer *entry = find_remembered(memo, &key);
    const int64_t *known = hlo_int_map_find(&entry->by_bytes, (uint64_t)bytes);
    if (known) {
        *transfer = entry->timed.items[*known];
        return HLO_SUCCESS;
    }
    if (!entry->course.loads) {
        Course course;
        HLO_TRY(find_course(network, memo->arena, collective, &course));
        entry->course = course;
    }
    HLO_TRY(follow_course(network, memo->arena, collective, &entry->course, bytes, transfer));
    number_links(network, transfer);
    hlo_vector_push(memo->arena, &entry->timed, *transfer);
    hlo_int_map_set(memo->arena, &entry->by_bytes, (uint64_t)bytes, entry->timed.count - 1);
    return HLO_SUCCESS;
}

// Time is a latency that does not depend on bytes plus the time of the busiest link for its share. An all-gather is
// timed by its result, all others by their operand.
HloStatus emu_transfer(EmuNetwork *network, const HloInstruction *collective, EmuTransfer *transfer) {
    assert(network && collective && transfer);
    const HloOpcode opcode = emu_synchronous_opcode(collective);
    const int64_t bytes = operand_bytes(collective);
    Course course;
    *transfer = (EmuTransfer){.set = -1};
    // A send is one of few, and its pairs are written in strings.
    if (network->memo && opcode != HLO_OP_SEND) return recall_transfer(network, collective, bytes, transfer);
    HLO_TRY(find_course(network, network->arena, collective, &course));
    HLO_TRY(follow_course(network, network->arena, collective, &course, bytes, transfer));
    if (network->sets) number_links(network, transfer);
    return HLO_SUCCESS;
}
