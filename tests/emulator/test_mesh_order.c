// SPDX-License-Identifier: Apache-2.0
// Golden orders: from running JAX's own mesh_utils on mock devices, and from its test suite ("MT",
// tests/mesh_utils_test.py).
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/mesh_order.h"
#include "hlo/base/memory.h"
#include "tests/support/cases.h"

// Reads "4,2" or "0 1 2 3"; returns how many numbers.
static int64_t read_numbers(const char *text, int64_t *numbers, int64_t limit) {
    int64_t count = 0;
    for (char *end; *text && count < limit; text = *end ? end + 1 : end) {
        numbers[count++] = strtoll(text, &end, 10);
        if (end == text) return -1;
    }
    return count;
}

typedef struct OrderCase {
    char spec[24];
    char mesh[16];
    bool split;
    char ids[96];  // the first ids, or "refused"
} OrderCase;

CaseList(emulator_mesh_order, make_mesh) {
    static OrderCase cases[] = {
        {"v2-8", "4,2", false, "0 1 2 3 6 7 4 5"},  // also printed in the JAX tutorial
        {"v2-8", "8", false, "0 1 2 3 6 7 4 5"},
        {"v3-8", "2,4", false, "0 1 2 3 6 7 4 5"},
        {"v3-8", "2,2,2", false, "0 1 2 3 6 7 4 5"},
        {"v3:2x4", "2,8", false, "0 1 2 3 6 7 4 5 8 9 10 11 14 15 12 13"},  // make_mesh docstring
        {"v3:2x4", "4,4", false, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"},  // the same
        {"v3:4x4", "4,8", false,
         "0 1 2 3 10 11 8 9 4 5 6 7 14 15 12 13 16 17 18 19 26 27 24 25 20 21 22 23 30 31 28 29"},
        {"v3:4x4", "8,4", false,
         "0 1 2 3 8 9 10 11 4 5 6 7 12 13 14 15 16 17 18 19 24 25 26 27 20 21 22 23 28 29 30 31"},
        {"v3:4x4", "32", false,
         "0 1 2 3 8 9 10 11 4 5 6 7 12 13 14 15 16 17 18 19 24 25 26 27 20 21 22 23 28 29 30 31"},
        {"v4:2x2x1", "4", false, "0 2 1 3"},
        {"v4:2x2x1", "2,2", false, "0 1 2 3"},
        {"v4:2x2x2", "8", false, "0 4 2 6 1 5 3 7"},
        {"v4:2x2x2", "2,4", false, "0 2 1 3 4 6 5 7"},
        {"v4:2x2x2", "4,2", false, "0 1 4 5 2 3 6 7"},
        {"v4:2x2x4", "4,4", false, "0 2 1 3 4 6 5 7 8 10 9 11 12 14 13 15"},
        {"v4:2x2x4", "2,8", false, "0 4 8 12 1 5 9 13 2 6 10 14 3 7 11 15"},
        {"v4:4x4x4", "4,16", false, "0 4 8 12 1 5 9 13 2 6 10 14 3 7 11 15"},
        {"v4:4x4x4", "16,4", false, "0 1 2 3 16 17 18 19 32 33 34 35 48 49 50 51"},
        {"v4:4x4x4", "64", false, "0 16 32 48 4 20 36 52"},
        // The ring of JAX's table is for the kind "TPU v5p"; the devices are called "TPU v5".
        {"v5:2x2x2", "8", false, "0 4 2 6 1 5 3 7"},
        {"v5p:2x2x2", "2,4", false, "0 2 1 3 4 6 5 7"},
        {"v5p-16", "4,2", false, "0 1 4 5 2 3 6 7"},
        {"v5p-16", "2,2,2", false, "0 1 2 3 4 5 6 7"},
        {"v4:2x2x1,megacore=no", "8", false, "refused"},  // JAX asserts one device a chip
        {"v5p:2x2x1,megacore=no", "2,4", true, "refused"},
        {"v5e:2x2", "4", false, "0 1 3 2"},
        {"v6e:2x2", "2,2", false, "0 1 3 2"},
        {"v5e:2x4", "8", false, "0 1 2 3 7 6 5 4"},
        {"v5e-8", "2,4", false, "0 1 2 3 7 6 5 4"},
        {"v6e:4x2", "4,2", false, "0 1 2 3 7 6 5 4"},
        {"v5e-16", "16", false, "0 1 2 3 7 6 5 9 10 11 15 14 13 12 8 4"},
        {"v5e-16", "4,4", false, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"},
        {"v5e-16", "2,8", false, "0 4 1 5 2 6 3 7 8 12 9 13 10 14 11 15"},  // make_mesh splits on v5e
        {"v5e-16", "8,2", false, "0 1 4 5 8 9 12 13 2 3 6 7 10 11 14 15"},
        {"v6e-16", "2,8", false, "refused"},
        {"v6e-16", "2,8", true, "0 4 1 5 2 6 3 7 8 12 9 13 10 14 11 15"},
        {"v6e:4x8", "4,8", false,
         "0 4 8 12 16 20 24 28 1 5 9 13 17 21 25 29 2 6 10 14 18 22 26 30 3 7 11 15 19 23 27 31"},
        {"v6e:4x8", "8,4", false,
         "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31"},
        {"v5e-256", "16,16", false, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"},
        {"v5e-256", "256", false, "0 16 32 48"},
        {"tpu7x:2x2x1", "8", false, "0 1 2 3 6 7 4 5"},
        {"tpu7x-8", "4,2", false, "0 1 2 3 6 7 4 5"},
        {"tpu7x-8", "2,1,4", false, "0 1 2 3 6 7 4 5"},
        {"tpu7x:2x2x4", "32", false,
         "0 1 2 3 6 7 4 5 8 9 10 11 14 15 12 13 16 17 18 19 22 23 20 21 24 25 26 27 30 31 28 29"},
        {"tpu7x:2x2x4", "8,4", false, "0 1 2 3 6 7 4 5 8 9 10 11 14 15 12 13"},
        {"tpu7x:2x2x4", "4,8", false, "0 1 2 3 6 7 4 5 8 9 10 11 14 15 12 13"},
        {"tpu7x:2x2x4", "4,4,2", false, "0 1 2 3 6 7 4 5 8 9 10 11 14 15 12 13"},
        {"cpu:8", "4,2", false, "0 1 2 3 4 5 6 7"},
        {"v2-8", "2,2", false, "0 1 2 3"},  // a smaller mesh takes the first devices
        {"v2-8", "4,4", false, "refused"},
        {"2xv4:2x2x1", "8", false, "refused"},  // make_mesh does not do several slices
    };
    return cr_make_param_array(OrderCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(OrderCase *param, emulator_mesh_order, make_mesh) {
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse(param->spec, &topology));
    int64_t sizes[8], ids[512], expected[64];
    const int64_t rank = read_numbers(param->mesh, sizes, 8);
    HloStatus status = emu_mesh_order(topology, sizes, rank, param->split, ids);
    if (!strcmp(param->ids, "refused")) {
        cr_assert_not_null(status, "%s %s", param->spec, param->mesh);
        hlo_status_free(status);
    } else {
        cr_assert_null(status, "%s %s: %s", param->spec, param->mesh, hlo_status_message(status));
        const int64_t count = read_numbers(param->ids, expected, 64);
        for (int64_t i = 0; i < count; i++)
            cr_assert_eq(ids[i], expected[i], "%s %s: place %lld holds %lld", param->spec, param->mesh, (long long)i,
                         (long long)ids[i]);
    }
    emu_topology_free(topology);
}

// MT: v5e devices in a 2x2x2 box, which no machine has.
Test(emulator_mesh_order, mock_cube_of_v5e) {
    EmuDevice devices[8] = {0};
    for (int64_t i = 0; i < 8; i++) {
        devices[i].id = i;
        for (int axis = 0; axis < 3; axis++) devices[i].coords[axis] = i >> axis & 1;
    }
    const int64_t size = 8, expected[] = {0, 4, 2, 6, 1, 5, 3, 7};
    int64_t places[8];
    cr_assert_null(emu_device_mesh(devices, 8, "TPU v5 lite", &size, 1, (EmuMeshOptions){0}, places));
    cr_assert_arr_eq(places, expected, sizeof(expected));
    // Without (0,0,0) the devices are no box.
    const int64_t seven = 7;
    HloStatus status = emu_device_mesh(devices + 1, 7, "TPU v4", &seven, 1, (EmuMeshOptions){0}, places);
    cr_assert_eq(hlo_status_code(status), HLO_UNIMPLEMENTED);
    hlo_status_free(status);
}

// A kind that JAX knows and no slice here has.
Test(emulator_mesh_order, mock_tray_of_v4_lite) {
    EmuDevice devices[8] = {0};
    for (int64_t i = 0; i < 8; i++) {
        devices[i].id = i;
        for (int axis = 0; axis < 3; axis++) devices[i].coords[axis] = i >> axis & 1;
    }
    const int64_t four = 4, eight = 8, ring[] = {0, 1, 3, 2};
    int64_t places[8];
    cr_assert_null(emu_device_mesh(devices, 4, "TPU v4 lite", &four, 1, (EmuMeshOptions){0}, places));
    cr_assert_arr_eq(places, ring, sizeof(ring));
    cr_assert_null(emu_device_mesh(devices, 8, "TPU v4 lite", &eight, 1, (EmuMeshOptions){0}, places));
}

typedef struct HybridCase {
    char spec[16], ici[16], dcn[16];
    char places[96];  // slice * devices of a slice + id in the slice
} HybridCase;

CaseList(emulator_mesh_order, hybrid) {
    static HybridCase cases[] = {
        {"2xv4:2x2x1", "1,4", "2,1", "0 2 1 3 4 6 5 7"},  // MT
        {"2xv4:2x2x1", "4,1", "1,2", "0 4 2 6 1 5 3 7"},  // MT
        {"2xv4:4x4x4", "1,16,4", "2,1,1", "0 1 2 3 16 17 18 19"},
        {"2xv5p:2x2x2", "2,4", "2,1", "0 2 1 3 4 6 5 7 8 10 9 11 12 14 13 15"},  // JAX 0.10.2 on our devices
        {"2xv5e:2x4", "2,4", "1,2", "0 1 2 3 8 9 10 11 7 6 5 4 15 14 13 12"},    // the same
    };
    return cr_make_param_array(HybridCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(HybridCase *param, emulator_mesh_order, hybrid) {
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse(param->spec, &topology));
    int64_t ici[8], dcn[8], ids[128], expected[64];
    const int64_t rank = read_numbers(param->ici, ici, 8), count = read_numbers(param->places, expected, 64);
    read_numbers(param->dcn, dcn, 8);
    cr_assert_null(emu_mesh_order_hybrid(topology, ici, dcn, rank, false, ids));
    const int64_t per_slice = topology->device_count / topology->slice_count;
    for (int64_t i = 0; i < count; i++) {
        const int64_t place = (ids[i] / EMU_SLICE_ID_STRIDE - 1) * per_slice + ids[i] % EMU_SLICE_ID_STRIDE;
        cr_assert_eq(place, expected[i]);
    }
    dcn[0] = 3;
    HloStatus status = emu_mesh_order_hybrid(topology, ici, dcn, rank, false, ids);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    emu_topology_free(topology);
}

// Which physical axes a logical one gets; physical axes are digits, '-' is none.
typedef struct AssignCase {
    char physical[16], mesh[16], axes[16];
} AssignCase;

CaseList(emulator_mesh_order, assignment) {
    static AssignCase cases[] = {
        {"2,2,4", "1,4,4", "-,2,01"},    {"4,4,4", "1,16,4", "-,12,0"}, {"4,4,8", "1,16,8", "-,01,2"},
        {"4,4,8", "16,8,1", "01,2,-"},   {"4,8,8", "1,32,8", "-,02,1"}, {"8,8,8", "1,64,8", "-,12,0"},
        {"8,8,16", "1,64,16", "-,01,2"}, {"8,8,1", "8,8", "1,02"},  // MT
        {"4,4,16", "16,16", "2,01"},     {"8,16,1", "8,16", "0,12"},    {"16,16,1", "16,16", "1,02"},
    };
    return cr_make_param_array(AssignCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(AssignCase *param, emulator_mesh_order, assignment) {
    EmuPhysicalMesh physical = {0};
    EmuMeshAssignment assignment;
    int64_t sizes[8];
    physical.rank = read_numbers(param->physical, physical.sizes, 4);
    const int64_t rank = read_numbers(param->mesh, sizes, 8);
    cr_assert_null(emu_mesh_assign(&physical, sizes, rank, &assignment));
    const char *at = param->axes;
    for (int64_t logical = 0; logical < rank; logical++, at += strcspn(at, ","), at += *at == ',')
        for (int64_t axis = 0; axis < physical.rank; axis++) {
            const bool wanted = memchr(at, (char)('0' + axis), strcspn(at, ",")) != NULL && physical.sizes[axis] > 1;
            cr_assert_eq(assignment.sizes[axis * rank + logical], wanted ? physical.sizes[axis] : 1, "%s on %s",
                         param->mesh, param->physical);
        }
}

typedef struct SplitCase {
    char physical[16], mesh[16];
    char assignment[48];  // rows are physical axes
} SplitCase;

CaseList(emulator_mesh_order, split) {
    static SplitCase cases[] = {
        // MT
        {"4,4,4", "2,1,32", "1 1 4 1 1 4 2 1 2"},        {"4,4,4", "8,8,1", "1 4 1 2 2 1 4 1 1"},
        {"4,4,8", "2,2,8,4", "1 1 1 4 2 2 1 1 1 1 8 1"}, {"4,4,8", "2,4,1,16", "1 1 1 4 1 1 1 4 2 4 1 1"},
        {"4,8,8", "1,128,2", "1 2 2 1 8 1 1 8 1"},       {"8,8", "2,1,32,1", "1 1 8 1 2 1 4 1"},
    };
    return cr_make_param_array(SplitCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(SplitCase *param, emulator_mesh_order, split) {
    EmuPhysicalMesh physical = {0};
    EmuMeshAssignment assignment;
    int64_t sizes[8], expected[32];
    physical.rank = read_numbers(param->physical, physical.sizes, 4);
    const int64_t rank = read_numbers(param->mesh, sizes, 8);
    cr_assert_null(emu_mesh_assign_split(&physical, sizes, rank, &assignment));
    const int64_t count = read_numbers(param->assignment, expected, 32);
    cr_assert_eq(count, rank * physical.rank);
    for (int64_t i = 0; i < count; i++) cr_assert_eq(assignment.sizes[i], expected[i], "%s", param->mesh);
}

// MT: the transposes that keep hosts together exist for certain meshes only.
Test(emulator_mesh_order, contiguous_submeshes) {
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse("v4:4x4x4", &topology));
    int64_t places[64];
    const EmuMeshOptions options = {.contiguous_submeshes = true};
    cr_assert_null(emu_device_mesh(topology->devices, 64, "TPU v4", (int64_t[]){1, 16, 4}, 3, options, places));
    HloStatus status = emu_device_mesh(topology->devices, 64, "TPU v4", (int64_t[]){8, 8}, 2, options, places);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    emu_topology_free(topology);
}

Test(emulator_mesh_order, impossible_sizes_are_refused) {
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse("v2-8", &topology));
    static const int64_t bad[][2] = {{0, 8}, {-1, -8}, {INT64_MAX, 4}, {3, 3}};
    for (size_t i = 0; i < HLO_COUNT_OF(bad); i++) {
        int64_t ids[16];
        HloStatus status = emu_mesh_order(topology, bad[i], 2, false, ids);
        cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "case %zu", i);
        hlo_status_free(status);
    }
    emu_topology_free(topology);
}

// Every mesh is a permutation of the devices.
Test(emulator_mesh_order, orders_are_permutations) {
    static const char *const specs[] = {"v3-128", "v4-128", "v5p-256", "v6e-64", "tpu7x-64"};
    for (size_t s = 0; s < HLO_COUNT_OF(specs); s++) {
        EmuTopology *topology = NULL;
        cr_assert_null(emu_topology_parse(specs[s], &topology));
        for (int64_t major = 1; major <= topology->device_count; major *= 2) {
            int64_t ids[512];
            bool seen[512] = {false};
            const int64_t sizes[] = {major, topology->device_count / major};
            cr_assert_null(emu_mesh_order(topology, sizes, 2, true, ids));
            for (int64_t i = 0; i < topology->device_count; i++) {
                cr_assert(ids[i] >= 0 && ids[i] < topology->device_count && !seen[ids[i]]);
                seen[ids[i]] = true;
            }
        }
        emu_topology_free(topology);
    }
}

static int64_t distance(const EmuTopology *topology, int64_t a, int64_t b) {
    int64_t sum = 0;
    for (int axis = 0; axis < 3; axis++) {
        const int64_t from = topology->devices[emu_topology_find_device(topology, a)].coords[axis];
        const int64_t to = topology->devices[emu_topology_find_device(topology, b)].coords[axis];
        sum += from > to ? from - to : to - from;
    }
    return sum;
}

// Along an axis on rings each device and the next one are neighbours, the last and the first too, and every device has
// one place.
Test(emulator_mesh_order, rings_close) {
    static const struct {
        const char *spec;
        int64_t sizes[3];
        EmuRings rings;
        bool works;
    } cases[] = {
        {"v5e-64", {1, 8, 8}, {2, 0, 1}, true},  {"v5e-64", {1, 8, 8}, {2, 1, 0}, true},
        {"v5e-64", {1, 8, 8}, {1, 0, 1}, true},  {"v5e-64", {2, 8, 4}, {1, 1, 0}, true},
        {"v5e-64", {4, 4, 4}, {0, 0, 1}, true},  {"v4:4x4x4", {1, 8, 8}, {2, 2, 0}, true},
        {"v5e-64", {1, 8, 8}, {2, 0, 2}, false},  // one chip deep
        {"v5e-64", {1, 8, 8}, {2, 1, 1}, false}, {"v5e-64", {1, 32, 2}, {2, 0, 1}, false},
        {"v5e-64", {1, 8, 4}, {2, 0, 1}, false},  // half of the slice
        {"v2-8", {1, 1, 8}, {2, 0, 1}, false},   {"2xv5e-16", {1, 4, 8}, {2, 0, 1}, false},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        EmuTopology *topology = NULL;
        int64_t ids[64], inner = 1;
        bool seen[64] = {false};
        cr_assert_null(emu_topology_parse(cases[c].spec, &topology));
        const bool works = emu_mesh_ring_order(topology, cases[c].sizes, 3, cases[c].rings, ids);
        cr_expect_eq(works, cases[c].works, "case %zu", c);
        for (int64_t a = cases[c].rings.axis + 1; a < 3; a++) inner *= cases[c].sizes[a];
        const int64_t size = cases[c].sizes[cases[c].rings.axis];
        for (int64_t i = 0; works && i < 64; i++) {
            const int64_t step = i / inner % size, next = i + (step == size - 1 ? 1 - size : 1) * inner;
            cr_expect_eq(distance(topology, ids[i], ids[next]), 1, "case %zu: places %lld and %lld", c, (long long)i,
                         (long long)next);
            cr_assert(ids[i] >= 0 && ids[i] < 64 && !seen[ids[i]]);
            seen[ids[i]] = true;
        }
        emu_topology_free(topology);
    }
}
