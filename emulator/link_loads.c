// SPDX-License-Identifier: Apache-2.0
// A load adds an amount to the load that its link had before, a number of times. Every stage begins anew.
//
//   link 7: +a +b      nothing - a - a+b     links 7 and 9 have a+b, link 8 has a
//   link 8: +a
//   link 9: +a +b
#include "emulator/link_loads.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/base/map.h"
#include "hlo/base/vector.h"

enum { NONE = -1, RECENT = 64 };

// An amount multiplied by, or divided by, a number.
typedef struct Amount {
    EmuAmount of;
    bool is_quotient;
    double number;
} Amount;

typedef struct Load {
    int32_t before;  // what the link had before these amounts; NONE: nothing
    EmuAmount amount;
    int32_t times;    // that the amount was added
    int32_t shorter;  // the load with the same amount fewer times that it was made from; NONE: from `before`
    EmuLinkKind kind;
} Load;

// The end of a stage in the lists of loads and of links.
typedef struct Stage {
    int64_t loads, links;
} Stage;

struct EmuLoads {
    HloArena *arena;
    EmuNetwork *network;
    HLO_VECTOR(Amount) amounts;
    HLO_VECTOR(Load) loads;
    HLO_VECTOR(EmuLinkLoad) links;
    HLO_VECTOR(Stage) stages;
    HloIntMap amount_of_hash, load_of_hash;
    int64_t stage_begin;     // the first load of this stage
    int32_t recent[RECENT];  // loads that were found last, by the last bits of what they are found by
};

EmuLoads *emu_loads_new(HloArena *arena, EmuNetwork *network) {
    assert(arena && network && !network->touched_count);
    EmuLoads *loads = HLO_ARENA_NEW(arena, EmuLoads, 1);
    *loads = (EmuLoads){.arena = arena, .network = network};
    for (EmuAmount amount = 0; amount <= EMU_AMOUNT_OPERAND; amount++)
        hlo_vector_push(arena, &loads->amounts, ((Amount){.of = amount}));
    memset(loads->recent, NONE, sizeof(loads->recent));
    return loads;
}

// The number of an amount; equal ones have one number.
static EmuAmount add_amount(EmuLoads *loads, Amount amount) {
    assert(amount.number >= 0);
    if (amount.of == EMU_AMOUNT_NOTHING) return EMU_AMOUNT_NOTHING;
    uint64_t bits;
    memcpy(&bits, &amount.number, sizeof(bits));
    uint64_t hash = hlo_hash_mix(bits, (uint64_t)amount.of * 2 + amount.is_quotient);
    for (const int64_t *at; (at = hlo_int_map_find(&loads->amount_of_hash, hash)); hash++) {
        const Amount *known = &loads->amounts.items[*at];
        if (known->of == amount.of && known->is_quotient == amount.is_quotient && known->number == amount.number)
            return (EmuAmount)*at;
    }
    hlo_int_map_set(loads->arena, &loads->amount_of_hash, hash, loads->amounts.count);
    hlo_vector_push(loads->arena, &loads->amounts, amount);
    return (EmuAmount)(loads->amounts.count - 1);
}

EmuAmount emu_amount_times(EmuLoads *loads, EmuAmount amount, double factor) {
    return factor == 0 ? EMU_AMOUNT_NOTHING : add_amount(loads, (Amount){.of = amount, .number = factor});
}

EmuAmount emu_amount_over(EmuLoads *loads, EmuAmount amount, double divisor) {
    assert(divisor > 0);
    return add_amount(loads, (Amount){.of = amount, .is_quotient = true, .number = divisor});
}

static EmuLinkKind kind_of(const EmuTopology *topology, int64_t link) {
    if (link < topology->chip_count * 6) return EMU_LINK_ICI;
    return link < topology->chip_count * 6 + topology->device_count ? EMU_LINK_PACKAGE : EMU_LINK_DCN;
}

static bool is_load(const EmuLoads *loads, int64_t number, const Load *wanted) {
    if (number < loads->stage_begin) return false;
    const Load *load = &loads->loads.items[number];
    return load->before == wanted->before && load->amount == wanted->amount && load->times == wanted->times &&
           load->kind == wanted->kind;
}

// Finds a load of this stage, or makes it.
static int64_t find_load(EmuLoads *loads, const Load *load) {
    const uint64_t whole = (uint64_t)(load->before + 1) << 32 | (uint64_t)(uint32_t)load->times;
    uint64_t hash = hlo_hash_mix(hlo_hash_mix(whole, (uint64_t)load->amount), (uint64_t)load->kind);
    hash = hlo_hash_mix(hash, (uint64_t)loads->stage_begin);
    for (const int64_t *at; (at = hlo_int_map_find(&loads->load_of_hash, hash)); hash++)
        if (is_load(loads, *at, load)) return *at;
    hlo_int_map_set(loads->arena, &loads->load_of_hash, hash, loads->loads.count);
    hlo_vector_push(loads->arena, &loads->loads, *load);
    return loads->loads.count - 1;
}

// The number of a load of this stage; equal ones have one number. There are few, and each is asked for many times.
static int32_t number_of(EmuLoads *loads, const Load *load) {
    const uint32_t mixed = (uint32_t)load->before * 13 + (uint32_t)load->amount * 5 + (uint32_t)load->times;
    int32_t *recent = &loads->recent[mixed % RECENT];
    if (*recent == NONE || !is_load(loads, *recent, load)) *recent = (int32_t)find_load(loads, load);
    return *recent;
}

// Links with traffic are listed once, so that ending a stage does not have to scan all links of a pod.
void emu_load_link(EmuLoads *loads, int64_t link, EmuAmount amount, int32_t times) {
    EmuNetwork *network = loads->network;
    assert(link >= 0 && link < emu_link_limit(network->topology) && times > 0);
    if (amount == EMU_AMOUNT_NOTHING) return;
    int32_t *number = &network->load_numbers[link];
    Load load = {*number - 1, amount, times, .shorter = NONE};
    if (load.before == NONE) {
        network->touched[network->touched_count++] = link;
        load.kind = kind_of(network->topology, link);
    } else {
        const Load *before = &loads->loads.items[load.before];
        load.kind = before->kind;
        if (before->amount == amount) {
            load.shorter = load.before;
            load.before = before->before;
            load.times += before->times;
        }
    }
    *number = number_of(loads, &load) + 1;
}

int64_t emu_load_route(EmuLoads *loads, int64_t from, int64_t to, EmuAmount amount) {
    int64_t links[EMU_MAX_ROUTE];
    const int64_t count = emu_route(loads->network->topology, from, to, links);
    for (int64_t i = 0; i < count; i++) emu_load_link(loads, links[i], amount, 1);
    return count;
}

void emu_loads_end_stage(EmuLoads *loads) {
    EmuNetwork *network = loads->network;
    hlo_vector_reserve(loads->arena, &loads->links, loads->links.count + network->touched_count);
    for (int64_t i = 0; i < network->touched_count; i++) {
        const int64_t link = network->touched[i];
        const EmuLinkLoad use = {(int32_t)link, network->load_numbers[link] - 1};
        hlo_vector_push(loads->arena, &loads->links, use);
    }
    hlo_vector_push(loads->arena, &loads->stages, ((Stage){loads->loads.count, loads->links.count}));
    emu_loads_finish(loads);
    loads->stage_begin = loads->loads.count;
}

void emu_loads_finish(EmuLoads *loads) {
    EmuNetwork *network = loads->network;
    for (int64_t i = 0; i < network->touched_count; i++) network->load_numbers[network->touched[i]] = 0;
    network->touched_count = 0;
}

// The bytes per second that a transfer achieves on a link, with protocol overhead.
static double rate_of(const EmuTopology *topology, EmuLinkKind kind) {
    const double efficiency = kind == EMU_LINK_DCN ? topology->chip.dcn_efficiency : topology->chip.link_efficiency;
    return emu_link_bytes_per_second(topology, kind) * efficiency;
}

// The seconds of the loads from `first` on, as if no link was slow: a load is no less than what it adds to, so the
// largest is one that a link has in the end.
static double longest_load(const EmuTopology *topology, const EmuLoads *loads, const double *bytes, int64_t first,
                           int64_t end) {
    double longest = 0;
    for (int64_t i = first; i < end; i++)
        longest = fmax(longest, bytes[i] / rate_of(topology, loads->loads.items[i].kind));
    return longest;
}

// The seconds of the links from `first` on.
static double longest_link(const EmuNetwork *network, const EmuLoads *loads, const double *bytes, int64_t first,
                           int64_t end) {
    double longest = 0;
    for (int64_t i = first; i < end; i++) {
        const EmuLinkLoad use = loads->links.items[i];
        const double rate = rate_of(network->topology, loads->loads.items[use.load].kind);
        longest = fmax(longest, bytes[use.load] * network->faults->link_slowness[use.link] / rate);
    }
    return longest;
}

double emu_loads_evaluate(const EmuNetwork *network, const EmuLoads *loads, HloArena *arena, double operand_bytes,
                          EmuTransfer *transfer) {
    assert(operand_bytes >= 0);
    if (operand_bytes == 0) return 0;
    double *amounts = HLO_ARENA_NEW(arena, double, loads->amounts.count);
    double *bytes = HLO_ARENA_NEW(arena, double, loads->loads.count);
    amounts[EMU_AMOUNT_OPERAND] = operand_bytes;
    for (int64_t i = EMU_AMOUNT_OPERAND + 1; i < loads->amounts.count; i++) {
        const Amount *amount = &loads->amounts.items[i];
        amounts[i] = amount->is_quotient ? amounts[amount->of] / amount->number : amounts[amount->of] * amount->number;
    }
    for (int64_t i = 0; i < loads->loads.count; i++) {
        const Load *load = &loads->loads.items[i], *shorter = load->shorter == NONE ? NULL : load - i + load->shorter;
        double sum = shorter ? bytes[load->shorter] : load->before == NONE ? 0 : bytes[load->before];
        for (int32_t k = shorter ? shorter->times : 0; k < load->times; k++) sum += amounts[load->amount];
        bytes[i] = sum;
    }
    transfer->links = loads->links.items;
    transfer->link_count = loads->links.count;
    transfer->loads = bytes;
    double seconds = 0;
    Stage begin = {0, 0};
    for (int64_t s = 0; s < loads->stages.count; s++) {
        const Stage end = loads->stages.items[s];
        seconds += network->faults->link_slowness
                       ? longest_link(network, loads, bytes, begin.links, end.links)
                       : longest_load(network->topology, loads, bytes, begin.loads, end.loads);
        begin = end;
    }
    return seconds;
}
