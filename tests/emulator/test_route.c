// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>

#include "emulator/route.h"

// Every way is connected, made of links that exist, and as long as the distances along the axes.
static void check_routes(const char *spec) {
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse(spec, &topology));
    for (int64_t from = 0; from < topology->device_count; from += 3)
        for (int64_t to = 0; to < topology->device_count; to++) {
            int64_t links[EMU_MAX_ROUTE], expected = 0;
            const EmuDevice *a = &topology->devices[from], *b = &topology->devices[to];
            const int64_t count = emu_route(topology, from, to, links);
            if (a->slice_index != b->slice_index) {
                cr_assert_eq(count, 2);
                cr_assert_eq(emu_link_describe(topology, links[0]).kind, EMU_LINK_DCN);
                continue;
            }
            for (int axis = 0; axis < 3; axis++)
                expected += llabs(emu_axis_distance(topology, axis, a->coords[axis], b->coords[axis]));
            cr_assert_eq(count, expected + (a->core_on_chip != b->core_on_chip));
            int64_t chip = emu_topology_chip_of(topology, a);
            for (int64_t i = 0; i < count; i++) {
                const EmuLink link = emu_link_describe(topology, links[i]);
                cr_assert(link.exists && links[i] < emu_link_limit(topology));
                cr_assert_eq(emu_topology_chip_of(topology, &topology->devices[link.from]), chip);
                chip = emu_topology_chip_of(topology, &topology->devices[link.to]);
            }
            cr_assert_eq(chip, emu_topology_chip_of(topology, b));
        }
    emu_topology_free(topology);
}

Test(emulator_route, ways_are_connected_and_shortest) {
    check_routes("v2-8");
    check_routes("v3-32");
    check_routes("v5e-256");
    check_routes("v4:4x4x8");
    check_routes("tpu7x-64");
    check_routes("2xv5e-16");
}

Test(emulator_route, wrapping_shortens_the_way) {
    EmuTopology *line = NULL, *ring = NULL;
    cr_assert_null(emu_topology_parse("v5e-64", &line));
    cr_assert_null(emu_topology_parse("v5e-256", &ring));
    cr_assert_eq(emu_axis_distance(line, 0, 0, 7), 7);
    cr_assert_eq(emu_axis_distance(ring, 0, 0, 15), -1);
    cr_assert_eq(emu_axis_distance(ring, 0, 0, 8), 8);
    cr_assert_eq(emu_axis_distance(ring, 0, 12, 2), 6);
    emu_topology_free(line);
    emu_topology_free(ring);
}

// A v2 tray has four links between chips, both ways, and one between the cores of each.
Test(emulator_route, links_of_a_tray) {
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse("v2-8", &topology));
    int64_t count[3] = {0};
    for (int64_t link = 0; link < emu_link_limit(topology); link++) {
        const EmuLink described = emu_link_describe(topology, link);
        if (described.exists) count[described.kind]++;
    }
    cr_assert_eq(count[EMU_LINK_ICI], 8);
    cr_assert_eq(count[EMU_LINK_PACKAGE], 8);
    cr_assert_eq(count[EMU_LINK_DCN], 0);
    cr_assert_eq(emu_link_bytes_per_second(topology, EMU_LINK_ICI), 62e9);
    emu_topology_free(topology);
}

// bug: machines of eight chips had the connection of those of four, so that a chip of theirs had half as much.
Test(emulator_route, hosts_are_connected_by_their_chips) {
    static const struct {
        const char *spec;
        double chips;
    } hosts[] = {{"2xv5e-16", 4}, {"2xv5e:4x4,hosts=2x4x1", 8}, {"2xv6e-8", 8}, {"2xv6e:2x4", 4}, {"2xv5e-1", 1}};
    for (size_t i = 0; i < HLO_COUNT_OF(hosts); i++) {
        EmuTopology *topology = NULL;
        cr_assert_null(emu_topology_parse(hosts[i].spec, &topology), "%s", hosts[i].spec);
        const double each = topology->chip.dcn_bytes_per_second_per_host / 4;
        cr_expect_float_eq(emu_link_bytes_per_second(topology, EMU_LINK_DCN), hosts[i].chips * each, 1, "%s",
                           hosts[i].spec);
        emu_topology_free(topology);
    }
}
