// SPDX-License-Identifier: Apache-2.0
// Twisted tori: links, shortest paths, and their purpose: exchanges between all chips.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "emulator/route.h"
#include "emulator/simulate.h"
#include "hlo/text/text.h"

static EmuTopology *topology_of(const char *name) {
    EmuTopology *topology = NULL;
    HloStatus status = emu_topology_parse(name, &topology);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return topology;
}

// The chip at the other end of link `direction` of `axis`.
static int64_t chip_behind(const EmuTopology *topology, int64_t chip, int axis, int direction) {
    const EmuLink link = emu_link_describe(topology, emu_ici_link(chip, axis, direction));
    cr_assert(link.exists);
    return emu_topology_chip_of(topology, &topology->devices[link.to]);
}

static int64_t chip_at(const EmuTopology *topology, int64_t x, int64_t y, int64_t z) {
    return x + topology->shape[0] * (y + topology->shape[1] * z);
}

// Around a short axis one comes out half-way along the long ones.
Test(twisted, short_axes_shift_long_ones) {
    EmuTopology *one = topology_of("v4:4x4x8_twisted"), *two = topology_of("v5p:4x8x8_twisted");
    cr_expect_eq(chip_behind(one, chip_at(one, 3, 1, 2), 0, 0), chip_at(one, 0, 1, 6));
    cr_expect_eq(chip_behind(one, chip_at(one, 3, 1, 6), 0, 0), chip_at(one, 0, 1, 2));
    cr_expect_eq(chip_behind(one, chip_at(one, 2, 0, 5), 1, 1), chip_at(one, 2, 3, 1));
    cr_expect_eq(chip_behind(one, chip_at(one, 2, 0, 7), 2, 0), chip_at(one, 2, 0, 0));
    cr_expect_eq(chip_behind(two, chip_at(two, 3, 1, 2), 0, 0), chip_at(two, 0, 5, 6));
    cr_expect_eq(chip_behind(two, chip_at(two, 3, 7, 2), 1, 0), chip_at(two, 3, 0, 2));
    emu_topology_free(one);
    emu_topology_free(two);
}

// Distances from chip 0 by breadth-first search over the links.
static void search(const EmuTopology *topology, int64_t *distance) {
    int64_t *queue = malloc((size_t)topology->chip_count * sizeof(*queue)), head = 0, count = 1;
    for (int64_t i = 0; i < topology->chip_count; i++) distance[i] = -1;
    queue[0] = distance[0] = 0;
    while (head < count) {
        const int64_t chip = queue[head++];
        for (int way = 0; way < 6; way++) {
            const int64_t next = chip_behind(topology, chip, way / 2, way % 2);
            cr_expect_eq(chip_behind(topology, next, way / 2, 1 - way % 2), chip,
                         "link %d of chip %lld has no way back", way, (long long)chip);
            if (distance[next] >= 0) continue;
            distance[next] = distance[chip] + 1;
            queue[count++] = next;
        }
    }
    free(queue);
}

Test(twisted, routes_arrive_and_are_shortest) {
    static const char *const names[] = {"v4:4x4x8_twisted", "v5p:4x8x8_twisted", "v5p:8x8x16_twisted"};
    for (size_t n = 0; n < HLO_COUNT_OF(names); n++) {
        EmuTopology *topology = topology_of(names[n]);
        int64_t *distance = malloc((size_t)topology->chip_count * sizeof(*distance)), links[EMU_MAX_ROUTE];
        search(topology, distance);
        for (int64_t to = 0; to < topology->chip_count; to++) {
            const int64_t place = emu_topology_find_device(topology, to * topology->devices_per_chip);
            const int64_t count = emu_route(topology, 0, place, links);
            int64_t at = 0;
            for (int64_t i = 0; i < count; i++) {
                const EmuLink link = emu_link_describe(topology, links[i]);
                cr_assert_eq(emu_topology_chip_of(topology, &topology->devices[link.from]), at);
                at = emu_topology_chip_of(topology, &topology->devices[link.to]);
            }
            cr_assert_eq(at, to, "%s: the way to chip %lld ends at %lld", names[n], (long long)to, (long long)at);
            cr_assert_eq(count, distance[to], "%s: %lld links to chip %lld, not %lld", names[n], (long long)count,
                         (long long)to, (long long)distance[to]);
        }
        free(distance);
        emu_topology_free(topology);
    }
}

static double exchange_time(const char *name, int64_t chips) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=%lld\n\nENTRY e {\n p = f32[%lld,16384] parameter(0)\n"
                    " ROOT a = f32[%lld,16384] all-to-all(p), channel_id=1, replica_groups=[1,%lld]<=[%lld], "
                    "dimensions={0}\n}\n",
                    (long long)chips, (long long)chips, (long long)chips, (long long)chips, (long long)chips);
    HloModule *module = NULL;
    cr_assert_null(hlo_parse(text.data, text.length, NULL, &module));
    EmuTopology *topology = topology_of(name);
    EmuReport *report = NULL;
    HloStatus status = emu_simulate(module, topology, NULL, &report);
    cr_assert_null(status, "%s", hlo_status_message(status));
    const double seconds = (double)report->step_picoseconds * 1e-12;
    emu_report_free(report);
    emu_topology_free(topology);
    hlo_module_free(module);
    hlo_text_free(&text);
    return seconds;
}

// Measured on TPU v4 (Jouppi et al., ISCA 2023, section 2.9): an all-to-all is 1.63 times as fast on 4x4x8 when it is
// twisted, 1.31 times on 4x8x8.
Test(twisted, exchanges_gain_what_was_measured) {
    const double small = exchange_time("v4:4x4x8", 128) / exchange_time("v4:4x4x8_twisted", 128);
    const double large = exchange_time("v4:4x8x8", 256) / exchange_time("v4:4x8x8_twisted", 256);
    cr_expect(small > 1.63 * 0.93 && small < 1.63 * 1.07, "%g", small);
    cr_expect(large > 1.31 * 0.93 && large < 1.31 * 1.07, "%g", large);
}
