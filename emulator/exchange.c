// SPDX-License-Identifier: Apache-2.0
// The loads of exchanges between all pairs of some positions of a torus. Routes follow x, then y, then z. While a
// route follows an axis, it is where its target is along the axes before, and where its source is along those after:
// how many routes pass a line is a product of two counts, and no pair is looked at.
//
//   along y, on the line (x, z):   (sources at any x, this y and z) x (targets at this x, another y, any z)
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/link_loads.h"
#include "hlo/base/arithmetic.h"

enum { AXES = 3 };

// The positions as places of a box, which has a row for each of their coordinates along an axis.
struct EmuExchange {
    EmuLoads *loads;
    const EmuTopology *topology;
    EmuAmount amount;
    int64_t rows[AXES];
    int64_t coordinates[AXES][EMU_MAX_AXIS];              // of the rows
    int16_t row_of[AXES][EMU_MAX_AXIS];                   // of a coordinate
    int16_t distances[AXES][EMU_MAX_AXIS][EMU_MAX_AXIS];  // between rows; negative is down
    int32_t *sources, *targets;                           // by their rows along some axes, and 0 along the others
};

static void find_rows(EmuExchange *exchange, int axis, const int64_t *places, int64_t count) {
    const EmuTopology *topology = exchange->topology;
    int64_t *coordinates = exchange->coordinates[axis];
    const int64_t rows = emu_distinct_coordinates(topology, places, count, axis, coordinates);
    exchange->rows[axis] = rows;
    for (int64_t row = 0; row < rows; row++) exchange->row_of[axis][coordinates[row]] = (int16_t)row;
    for (int64_t from = 0; from < rows; from++)
        for (int64_t to = 0; to < rows; to++)
            exchange->distances[axis][from][to] =
                (int16_t)emu_axis_distance(topology, axis, coordinates[from], coordinates[to]);
}

static int64_t cell_of(const int64_t sizes[AXES], const int64_t at[AXES]) {
    return at[0] + sizes[0] * (at[1] + sizes[1] * at[2]);
}

// Counts positions by their rows along the axes from `first` to before `end`.
static void count_places(const EmuExchange *exchange, const int64_t *places, int64_t count, int64_t stride, int first,
                         int end, int32_t *counts) {
    const int64_t *rows = exchange->rows;
    memset(counts, 0, (size_t)(rows[0] * rows[1] * rows[2]) * sizeof(*counts));
    for (int64_t i = 0; i < count; i += stride) {
        const EmuDevice *device = &exchange->topology->devices[places[i]];
        int64_t at[AXES] = {0};
        for (int axis = first; axis < end; axis++) at[axis] = exchange->row_of[axis][device->coords[axis]];
        counts[cell_of(rows, at)]++;
    }
}

// Routes along an axis that pass each chip of a line: upwards and downwards.
typedef struct Passing {
    int32_t routes[2][EMU_MAX_AXIS];
} Passing;

// Counts `routes` between two chips of a line of `size` chips.
static void count_routes(Passing *passing, int64_t size, int64_t from, int64_t distance, int32_t routes) {
    int64_t at = from;
    for (int64_t i = 0; i < distance; i++, at = at + 1 == size ? 0 : at + 1) passing->routes[0][at] += routes;
    for (int64_t i = 0; i < -distance; i++, at = at ? at - 1 : size - 1) passing->routes[1][at] += routes;
}

// Loads the line along an axis on which the chip of a slice with these coordinates is, `times` times what passes.
// `base` is the first chip of the slice.
static void load_passing(EmuLoads *loads, const EmuTopology *topology, int axis, const int64_t coordinates[AXES],
                         int64_t base, const Passing *passing, EmuAmount amount, int64_t times) {
    int64_t chip[AXES] = {coordinates[0], coordinates[1], coordinates[2]};
    for (chip[axis] = 0; chip[axis] < topology->shape[axis]; chip[axis]++)
        for (int down = 0; down < 2; down++) {
            const int32_t routes = passing->routes[down][chip[axis]];
            const int64_t link = emu_ici_link(base + cell_of(topology->shape, chip), axis, down);
            if (routes) emu_load_link(loads, link, amount, (int32_t)(routes * times));
        }
}

// Loads the routes along an axis on one line of the box.
static void load_line(const EmuExchange *exchange, int axis, const int64_t line[AXES], int64_t base) {
    const int64_t size = exchange->topology->shape[axis], *rows = exchange->rows;
    Passing passing;
    int64_t source[AXES] = {0}, target[AXES] = {0}, chip[AXES];
    for (int down = 0; down < 2; down++) memset(passing.routes[down], 0, (size_t)size * sizeof(int32_t));
    for (int other = 0; other < AXES; other++) *(other < axis ? &target[other] : &source[other]) = line[other];
    for (source[axis] = 0; source[axis] < rows[axis]; source[axis]++) {
        const int32_t senders = exchange->sources[cell_of(rows, source)];
        const int64_t from = exchange->coordinates[axis][source[axis]];
        for (target[axis] = 0; senders && target[axis] < rows[axis]; target[axis]++) {
            const int32_t routes = senders * exchange->targets[cell_of(rows, target)];
            if (routes)
                count_routes(&passing, size, from, exchange->distances[axis][source[axis]][target[axis]], routes);
        }
    }
    for (int other = 0; other < AXES; other++) chip[other] = exchange->coordinates[other][line[other]];
    load_passing(exchange->loads, exchange->topology, axis, chip, base, &passing, exchange->amount, 1);
}

// Loads the routes along an axis.
static void load_axis(const EmuExchange *exchange, int axis, int64_t base) {
    int64_t line[AXES] = {0}, ends[AXES];
    for (int other = 0; other < AXES; other++) ends[other] = other == axis ? 1 : exchange->rows[other];
    for (line[2] = 0; line[2] < ends[2]; line[2]++)
        for (line[1] = 0; line[1] < ends[1]; line[1]++)
            for (line[0] = 0; line[0] < ends[0]; line[0]++) load_line(exchange, axis, line, base);
}

// The links between the devices of a chip, which routes to other cores take first.
static void load_packages(const EmuExchange *exchange, const int64_t *places, int64_t count, int64_t stride) {
    const EmuTopology *topology = exchange->topology;
    for (int64_t i = 0; i < count; i += stride) {
        int32_t others = 0;
        for (int64_t j = 0; j < count && topology->devices_per_chip > 1; j++)
            others += topology->devices[places[j]].core_on_chip != topology->devices[places[i]].core_on_chip;
        if (others) emu_load_link(exchange->loads, emu_package_link(topology, places[i]), exchange->amount, others);
    }
}

// The links of the longest route.
static int64_t longest_route(const EmuExchange *exchange, const int64_t *places, int64_t count, int64_t stride) {
    int64_t longest = 0;
    for (int64_t i = 0; i < count; i += stride) {
        const EmuDevice *from = &exchange->topology->devices[places[i]];
        const int16_t *distances[AXES];
        for (int axis = 0; axis < AXES; axis++)
            distances[axis] = exchange->distances[axis][exchange->row_of[axis][from->coords[axis]]];
        for (int64_t j = 0; j < count; j++) {
            const EmuDevice *to = &exchange->topology->devices[places[j]];
            int64_t links = from->core_on_chip != to->core_on_chip;
            for (int axis = 0; axis < AXES; axis++)
                links += abs(distances[axis][exchange->row_of[axis][to->coords[axis]]]);
            if (links > longest) longest = links;
        }
    }
    return longest;
}

int64_t emu_load_pairs(EmuLoads *loads, const int64_t *places, int64_t count, int64_t stride, EmuAmount amount) {
    int64_t longest = 0;
    for (int64_t i = 0; i < count; i += stride)
        for (int64_t j = 0; j < count; j++)
            longest = hlo_larger(longest, emu_load_route(loads, places[i], places[j], amount));
    return longest;
}

EmuExchange *emu_exchange_new(EmuLoads *loads, EmuNetwork *network) {
    EmuExchange *exchange = HLO_ARENA_NEW(network->arena, EmuExchange, 1);
    const int64_t chips = emu_topology_slice_chips(network->topology);
    exchange->loads = loads;
    exchange->topology = network->topology;
    exchange->sources = HLO_ARENA_NEW(network->arena, int32_t, chips);
    exchange->targets = HLO_ARENA_NEW(network->arena, int32_t, chips);
    return exchange;
}

int64_t emu_load_exchange(EmuExchange *exchange, const int64_t *places, int64_t count, int64_t stride,
                          EmuAmount amount) {
    const EmuTopology *topology = exchange->topology;
    assert(count > 0 && stride > 0 && !topology->twisted);
    exchange->amount = amount;
    for (int axis = 0; axis < AXES; axis++) find_rows(exchange, axis, places, count);
    const int64_t base = topology->devices[places[0]].slice_index * emu_topology_slice_chips(topology);
    for (int axis = 0; axis < AXES; axis++) {
        if (exchange->rows[axis] == 1) continue;
        count_places(exchange, places, count, stride, axis, AXES, exchange->sources);
        count_places(exchange, places, count, 1, 0, axis + 1, exchange->targets);
        load_axis(exchange, axis, base);
    }
    load_packages(exchange, places, count, stride);
    return longest_route(exchange, places, count, stride);
}

// Pairs of the devices of each chip.
static int64_t exchange_cores(EmuLoads *loads, const EmuGrid *grid, EmuAmount amount) {
    const int64_t cores = grid->sizes[EMU_GRID_AXES - 1];
    int64_t longest = 0;
    for (int64_t first = 0; first < grid->count; first += cores)
        longest = hlo_larger(longest, emu_load_pairs(loads, grid->members + first, cores, 1, amount));
    return longest;
}

int64_t emu_load_grid_exchange(EmuExchange *exchange, const EmuGrid *grid, int axis, EmuAmount block) {
    const EmuTopology *topology = exchange->topology;
    EmuLoads *loads = exchange->loads;
    const int64_t size = grid->sizes[axis], cores = grid->sizes[EMU_GRID_AXES - 1];
    const EmuAmount amount = emu_amount_times(loads, block, (double)(grid->count / size));
    Passing passing = {{{0}}};
    int64_t stride = 1, longest = 0;
    if (axis == EMU_GRID_AXES - 1) return exchange_cores(loads, grid, amount);
    for (int later = axis + 1; later < EMU_GRID_AXES; later++) stride *= grid->sizes[later];
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = 0; j < size; j++) {
            const int64_t from = topology->devices[grid->members[i * stride]].coords[axis];
            const int64_t to = topology->devices[grid->members[j * stride]].coords[axis];
            const int64_t distance = emu_axis_distance(topology, axis, from, to);
            count_routes(&passing, topology->shape[axis], from, distance, 1);
            if (llabs(distance) > longest) longest = llabs(distance);
        }
    // The lines of different cores have the same links.
    for (int64_t plane = 0; plane < grid->count; plane += stride * size)
        for (int64_t line = 0; line < stride; line += cores) {
            const EmuDevice *first = &topology->devices[grid->members[plane + line]];
            const int64_t base = first->slice_index * emu_topology_slice_chips(topology);
            load_passing(loads, topology, axis, first->coords, base, &passing, amount, cores);
        }
    return longest;
}
