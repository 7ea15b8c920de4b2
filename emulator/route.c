// SPDX-License-Identifier: Apache-2.0
// Links are numbered: six for each chip (both directions of three axes), one from each core to its neighbour on the
// chip, two from each host to the data centre's network. A route follows x, then y, then z, in the shorter direction
// where an axis wraps. In a twisted torus, where wrapping around a short axis also moves along the long ones, the
// shortest route is searched.
//
//   number     0 .. 6 chips      ..+ devices      ..+ 2 hosts
//              chip * 6 + axis * 2 + (downwards)   |      to (0) and from (1) the data centre
//                                the device's way to the other core of its chip
//
// Routes are fixed (dimension order), as on a TPU: load is not balanced except that ties alternate by sender. A route
// is O(hops) long, at most EMU_MAX_ROUTE.
#include "emulator/route.h"

#include <assert.h>

// The position of a chip's first device.
static int64_t first_place(const EmuTopology *topology, int64_t chip) {
    const int64_t per_slice = emu_topology_slice_chips(topology), slice = chip / per_slice;
    int64_t id = chip % per_slice * topology->devices_per_chip;
    if (topology->slice_count > 1) id += EMU_SLICE_ID_STRIDE * (slice + 1);
    return emu_topology_find_device(topology, id);
}

// The chip `step` (1 or -1) further along an axis; -1 beyond an end that does not wrap.
static int64_t neighbour(const EmuTopology *topology, int64_t chip, int axis, int64_t step) {
    assert(chip >= 0 && chip < topology->chip_count && axis >= 0 && axis < 3 && (step == 1 || step == -1));
    const int64_t *shape = topology->shape;
    const int64_t stride = axis == 0 ? 1 : axis == 1 ? shape[0] : shape[0] * shape[1];
    const int64_t at = chip / stride % shape[axis], next = at + step;
    if (next >= 0 && next < shape[axis]) return chip + step * stride;
    if (!topology->wrap[axis]) return -1;
    chip -= step * (shape[axis] - 1) * stride;
    if (!emu_axis_is_twisted(topology, axis)) return chip;
    // Going around a short axis ends half-way around each long one.
    const int64_t per_slice = emu_topology_slice_chips(topology);
    int64_t below = 1;
    for (int other = 0; other < 3; other++) {
        const int64_t size = shape[other], coordinate = chip % per_slice / below % size;
        if (size == 2 * shape[axis]) chip += ((coordinate + size / 2) % size - coordinate) * below;
        below *= size;
    }
    return chip;
}

// A link that leads beyond an end does not exist, but has a number anyway.
static EmuLink describe_ici(const EmuTopology *topology, int64_t link) {
    const int64_t chip = link / 6, step = link & 1 ? -1 : 1;
    const int axis = (int)(link % 6 / 2);
    const int64_t to = topology->shape[axis] > 1 ? neighbour(topology, chip, axis, step) : -1;
    EmuLink result = {.kind = EMU_LINK_ICI, .exists = to >= 0, .from = first_place(topology, chip), .to = -1};
    if (result.exists) result.to = first_place(topology, to);
    return result;
}

// Link numbers begin with the six directions of every chip's ICI, then one link per device within its package, then two
// per host to the data centre's network (out, and in).
EmuLink emu_link_describe(const EmuTopology *topology, int64_t link) {
    assert(link >= 0 && link < emu_link_limit(topology));
    if (link < topology->chip_count * 6) return describe_ici(topology, link);
    link -= topology->chip_count * 6;
    if (link < topology->device_count) {
        // The devices of a chip follow each other in the list.
        const int64_t core = topology->devices[link].core_on_chip;
        return (EmuLink){.kind = EMU_LINK_PACKAGE,
                         .exists = topology->devices_per_chip == 2,
                         .from = link,
                         .to = core ? link - 1 : link + 1};
    }
    link -= topology->device_count;
    const int64_t per_host = topology->device_count / topology->host_count, place = link / 2 * per_host;
    return (EmuLink){.kind = EMU_LINK_DCN,
                     .exists = topology->slice_count > 1,
                     .from = link & 1 ? -1 : place,
                     .to = link & 1 ? place : -1};
}

// A host's connection grows with its chips: machines of 8 chips have twice the cards of those of 4.
static double dcn_bytes_per_second(const EmuTopology *topology) {
    const EmuChip *chip = &topology->chip;
    const double usual = (double)(chip->host_x * chip->host_y * chip->host_z);
    return chip->dcn_bytes_per_second_per_host * (double)topology->chip_count / (double)topology->host_count / usual;
}

// In one direction, before the efficiency of transfers.
double emu_link_bytes_per_second(const EmuTopology *topology, EmuLinkKind kind) {
    switch (kind) {
        case EMU_LINK_ICI: return topology->chip.link_bytes_per_second;
        case EMU_LINK_PACKAGE: return topology->chip.package_bytes_per_second;
        case EMU_LINK_DCN: return dcn_bytes_per_second(topology);
    }
    return 0;
}

// If both directions are equally long, half of the senders take each, so that no direction carries all.
int64_t emu_axis_distance(const EmuTopology *topology, int axis, int64_t from, int64_t to) {
    assert(from >= 0 && from < topology->shape[axis] && to >= 0 && to < topology->shape[axis]);
    const int64_t size = topology->shape[axis], straight = to - from;
    if (!topology->wrap[axis]) return straight;
    const int64_t up = straight < 0 ? straight + size : straight;
    if (2 * up == size && from % 2) return -up;
    return up <= size - up ? up : up - size;
}

// The candidates of a search for the shortest route through a twisted torus: signed steps along each axis.
typedef struct TwistedWays {
    int64_t best[64][3];
    int64_t count, length;
} TwistedWays;

// Keeps all of the shortest ones.
static void consider_way(TwistedWays *ways, const int64_t steps[3]) {
    int64_t length = 0;
    for (int axis = 0; axis < 3; axis++) length += steps[axis] < 0 ? -steps[axis] : steps[axis];
    if (ways->count && length > ways->length) return;
    if (!ways->count || length < ways->length) ways->count = 0;
    ways->length = length;
    if (ways->count == 64) return;
    for (int axis = 0; axis < 3; axis++) ways->best[ways->count][axis] = steps[axis];
    ways->count++;
}

// The steps along x, y, z of a shortest route: each time around a short axis (at most once in either direction) shifts
// the rest by half of the long ones. If several routes are equally short, senders alternate, so that no direction is
// busier than others.
static void twisted_steps(const EmuTopology *topology, const int64_t from[3], const int64_t to[3], int64_t steps[3]) {
    const int64_t *shape = topology->shape;
    TwistedWays ways = {.count = 0};
    int turns[3];
    for (int number = 0; number < 27; number++) {
        int64_t shift = 0, candidate[3];
        for (int axis = 0, rest = number; axis < 3; axis++, rest /= 3) {
            turns[axis] = rest % 3 - 1;
            candidate[axis] = to[axis] - from[axis] + turns[axis] * shape[axis];
            if (emu_axis_is_twisted(topology, axis)) shift += turns[axis];
        }
        for (int axis = 0; axis < 3; axis++) {
            // The shift is half an axis: an odd number of turns leaves it, an even one does not. The other half may be
            // taken in either direction.
            if (!emu_axis_is_twisted(topology, axis) && shift % 2) candidate[axis] += shape[axis] / 2;
        }
        consider_way(&ways, candidate);
    }
    const int64_t turn = (from[0] + from[1] + from[2]) % ways.count;
    for (int axis = 0; axis < 3; axis++) steps[axis] = ways.best[turn][axis];
}

// Appends the links of a route through a torus that is not twisted, and returns their number. Each chip's place along
// the axis is counted, which takes no divisions: transfers follow millions of routes.
static int64_t straight_route(const EmuTopology *topology, const EmuDevice *from, const EmuDevice *to, int64_t chip,
                              int64_t *links) {
    int64_t count = 0, stride = 1;
    for (int axis = 0; axis < 3; axis++) {
        const int64_t size = topology->shape[axis];
        const int64_t distance = emu_axis_distance(topology, axis, from->coords[axis], to->coords[axis]);
        const int64_t step = distance < 0 ? -1 : 1;
        int64_t at = from->coords[axis];
        for (int64_t i = 0; i != distance; i += step) {
            assert(count < EMU_MAX_ROUTE);  // no axis is longer than EMU_MAX_AXIS
            links[count++] = emu_ici_link(chip, axis, step < 0);
            const int64_t around = at + step < 0 ? size : at + step == size ? -size : 0;
            at += step + around;
            chip += (step + around) * stride;
        }
        stride *= size;
    }
    assert(chip == emu_topology_chip_of(topology, to));
    return count;
}

// Between slices only the connections of the two hosts count: the network between them is assumed to be wide enough.
int64_t emu_route(const EmuTopology *topology, int64_t from_place, int64_t to_place, int64_t *links) {
    assert(from_place >= 0 && to_place >= 0 && links);
    const EmuDevice *from = &topology->devices[from_place], *to = &topology->devices[to_place];
    int64_t count = 0;
    if (from_place == to_place) return 0;
    if (from->slice_index != to->slice_index) {
        links[count++] = emu_dcn_link(topology, from->process_index, 0);
        links[count++] = emu_dcn_link(topology, to->process_index, 1);
        return count;
    }
    if (from->core_on_chip != to->core_on_chip) links[count++] = emu_package_link(topology, from_place);
    int64_t chip = emu_topology_chip_of(topology, from), steps[3];
    if (!topology->twisted) return count + straight_route(topology, from, to, chip, links + count);
    twisted_steps(topology, from->coords, to->coords, steps);
    for (int axis = 0; axis < 3; axis++) {
        const int64_t distance = steps[axis];
        const int64_t step = distance < 0 ? -1 : 1;
        for (int64_t i = 0; i != distance; i += step) {
            assert(count < EMU_MAX_ROUTE);  // no axis is longer than EMU_MAX_AXIS
            links[count++] = emu_ici_link(chip, axis, step < 0);
            chip = neighbour(topology, chip, axis, step);
            assert(chip >= 0);  // the shorter route never leaves an axis that does not wrap
        }
    }
    assert(chip == emu_topology_chip_of(topology, to));
    return count;
}
