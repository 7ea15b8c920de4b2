// SPDX-License-Identifier: Apache-2.0
// Slices by name. Sources of the goldens: answers of libtpu 0.0.42 and printouts of real machines, as collected in
// docs/machine-model.md.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "emulator/topology.h"
#include "hlo/base/memory.h"
#include "tests/support/cases.h"

typedef struct ShapeCase {
    char spec[48];
    int64_t shape[3];
    int64_t devices, hosts;
    char wrap[4];  // x, y, z: T or F
    char kind[16];
} ShapeCase;

CaseList(emulator_topology, names) {
    static ShapeCase cases[] = {
        {"v2-8", {2, 2, 1}, 8, 1, "FFF", "TPU v2"},
        {"v2:4x4", {4, 4, 1}, 32, 4, "FFF", "TPU v2"},
        {"v2-512", {16, 16, 1}, 512, 64, "TTF", "TPU v2"},
        {"v3-32", {4, 4, 1}, 32, 4, "FFF", "TPU v3"},
        {"v3-1024", {16, 32, 1}, 1024, 128, "FTF", "TPU v3"},
        {"v3-2048", {32, 32, 1}, 2048, 256, "TTF", "TPU v3"},
        {"v4-8", {2, 2, 1}, 4, 1, "FFF", "TPU v4"},
        {"v4:2x2x2", {2, 2, 2}, 8, 2, "FFF", "TPU v4"},
        {"v4:2x2x4", {2, 2, 4}, 16, 4, "FFF", "TPU v4"},
        {"v4-128", {4, 4, 4}, 64, 16, "TTT", "TPU v4"},
        {"v4-384", {4, 4, 12}, 192, 48, "TTT", "TPU v4"},
        {"v4-1536", {8, 8, 12}, 768, 192, "TTT", "TPU v4"},
        {"v4-4096", {8, 16, 16}, 2048, 512, "TTT", "TPU v4"},
        {"v5e-1", {1, 1, 1}, 1, 1, "FFF", "TPU v5 lite"},
        {"v5e-4", {2, 2, 1}, 4, 1, "FFF", "TPU v5 lite"},
        {"v5litepod-8", {2, 4, 1}, 8, 1, "FFF", "TPU v5 lite"},  // the 8-chip machine is one host
        {"v5e:2x4", {2, 4, 1}, 8, 2, "FFF", "TPU v5 lite"},      // the runtime's default bounds make two
        {"v5e-16", {4, 4, 1}, 16, 4, "FFF", "TPU v5 lite"},
        {"v5e-32", {4, 8, 1}, 32, 8, "FFF", "TPU v5 lite"},
        {"v5e-128", {8, 16, 1}, 128, 32, "FTF", "TPU v5 lite"},
        {"v5e:16x16", {16, 16, 1}, 256, 64, "TTF", "TPU v5 lite"},
        {"v5p-8", {2, 2, 1}, 4, 1, "FFF", "TPU v5"},
        {"v5:2x2x2", {2, 2, 2}, 8, 2, "FFF", "TPU v5"},
        {"v5p:8x16x16", {8, 16, 16}, 2048, 512, "TTT", "TPU v5"},
        {"v5p-12288", {16, 16, 24}, 6144, 1536, "TTT", "TPU v5"},
        {"v5p-17920", {16, 20, 28}, 8960, 2240, "TTT", "TPU v5"},
        {"v6e-8", {2, 4, 1}, 8, 1, "FFF", "TPU v6 lite"},
        {"v6e:4x4", {4, 4, 1}, 16, 4, "FFF", "TPU v6 lite"},
        {"tpu7x-2", {1, 1, 1}, 2, 1, "FFF", "TPU7x"},
        {"tpu7x:2x2x1", {2, 2, 1}, 8, 1, "FFF", "TPU7x"},
        {"7x:2x2x1", {2, 2, 1}, 8, 1, "FFF", "TPU7x"},
        {"tpu7x-64", {2, 4, 4}, 64, 8, "FFF", "TPU7x"},
        {"tpu7x-18432", {16, 24, 24}, 18432, 2304, "TTT", "TPU7x"},
        {"2xv5e-16", {4, 4, 1}, 32, 8, "FFF", "TPU v5 lite"},
        {"4xv4-8", {2, 2, 1}, 16, 4, "FFF", "TPU v4"},
        {"v4:4x4x8_twisted", {4, 4, 8}, 128, 32, "TTT", "TPU v4"},
        {"v4:4x4x8_untwisted", {4, 4, 8}, 128, 32, "TTT", "TPU v4"},
        {"v5e:2x4,hosts=2x4x1", {2, 4, 1}, 8, 1, "FFF", "TPU v5 lite"},
        {"v5e:2x4,hosts=2x4", {2, 4, 1}, 8, 1, "FFF", "TPU v5 lite"},
        {"v5e-8,hosts=1x1x1", {2, 4, 1}, 8, 8, "FFF", "TPU v5 lite"},
        {"v5e:4x8,wrap=xy", {4, 8, 1}, 32, 8, "TTF", "TPU v5 lite"},
        {"v5e:16x16,wrap=none", {16, 16, 1}, 256, 64, "FFF", "TPU v5 lite"},
        {"v4:2x2x4,wrap=xz", {2, 2, 4}, 16, 4, "FFT", "TPU v4"},  // two chips are no ring
        {"v4:2x2x2,megacore=no", {2, 2, 2}, 16, 2, "FFF", "TPU v4"},
        {"v4:2x2x2,megacore=yes", {2, 2, 2}, 8, 2, "FFF", "TPU v4"},
        {"2xv4:2x2x1,megacore=no,hosts=1x2x1", {2, 2, 1}, 16, 4, "FFF", "TPU v4"},
        {"cpu:8", {8, 1, 1}, 8, 1, "FFF", "cpu"},
    };
    return cr_make_param_array(ShapeCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(ShapeCase *param, emulator_topology, names) {
    EmuTopology *topology = NULL;
    HloStatus status = emu_topology_parse(param->spec, &topology);
    cr_assert_null(status, "%s: %s", param->spec, hlo_status_message(status));
    cr_assert_arr_eq(topology->shape, param->shape, sizeof(param->shape), "%s", param->spec);
    cr_assert_eq(topology->device_count, param->devices, "%s", param->spec);
    cr_assert_eq(topology->host_count, param->hosts, "%s has %lld hosts", param->spec, (long long)topology->host_count);
    cr_assert_str_eq(topology->device_kind, param->kind);
    for (int axis = 0; axis < 3; axis++)
        cr_assert_eq(topology->wrap[axis], param->wrap[axis] == 'T', "%s axis %d", param->spec, axis);
    for (int64_t place = 0; place < topology->device_count; place++)
        cr_assert_eq(emu_topology_find_device(topology, topology->devices[place].id), place);
    cr_assert_eq(emu_topology_find_device(topology, -1), -1);
    cr_assert_eq(emu_topology_find_device(topology, INT32_MAX), -1);
    emu_topology_free(topology);
}

typedef struct BadCase {
    char spec[48];
    char says[48];  // part of the message
} BadCase;

CaseList(emulator_topology, refused_names) {
    static BadCase cases[] = {
        {"", "unknown topology"},
        {"v5x-8", "did you mean v5e-8, v5p-8"},
        {"V5E-16", "did you mean v5e-16"},
        {"tpu7-8", "did you mean tpu7x-8"},
        {"nonsense", "known are v2"},
        {"v5e", "a size is missing"},
        {"v5e-12", "did you mean v5e-8 or v5e-16"},
        {"v4-4", "did you mean v4-8"},
        {"v4-0", "did you mean v4-8"},
        {"tpu7x-0", "did you mean tpu7x-2"},
        {"v2-1024", "did you mean v2-512"},
        {"v5e-", "a number is expected"},
        {"v5e-99999999999999999999", "did you mean v5e-256"},
        {"v5e:4x", "sizes such as"},
        {"v5e:4x4y", "unexpected 'y'"},
        {"v5e:0x4", "sizes such as"},
        {"v5e:4", "for a number of chips write v5e-4"},
        {"v5e:4x4x4", "two axes"},
        {"v4:2x2x2x2", "at most three axes"},
        {"v4:3x2x1", "do not divide"},
        {"v5e:32x32", "larger than a v5e pod"},
        {"v4:2x2x1_twisted", "can be twisted"},
        {"0xv5e-16", "slices are out of range"},
        {"99999xv5e-256", "slices are out of range"},
        {"v5e:2x4,hosts=3x4x1", "do not divide"},
        {"v5e:2x4,hosts=2x4x1x1", "are expected, as in 2x2x1"},
        {"v5e:2x4,hosts=2", "are expected, as in 2x2x1"},
        {"v5e:2x4,hosts=", "are expected, as in 2x2x1"},
        {"v5e:2x4,wrap=w", "axes are expected"},
        {"v5e:2x4,wrap=", "axes are expected"},
        {"v5e:2x4,megacore=no", "cannot form"},
        {"v4:2x2x1,megacore=maybe", "yes or no"},
        {"v5e:2x4,speed=9", "'speed=9' is unknown"},
        {"v5e:2x4,", "'' is unknown"},
        {"cpu:0", "a number of devices"},
        {"cpu:99999999", "out of range"},
        {"cpux", "a number of devices"},
    };
    return cr_make_param_array(BadCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(BadCase *param, emulator_topology, refused_names) {
    EmuTopology *topology = NULL;
    HloStatus status = emu_topology_parse(param->spec, &topology);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", param->spec);
    cr_assert_not_null(strstr(hlo_status_message(status), param->says), "%s", hlo_status_message(status));
    cr_assert_null(topology);
    hlo_status_free(status);
}

// The list as text: "id/process/x.y.z/core/slice" for each device.
static void list_devices(const char *spec, HloText *text) {
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse(spec, &topology));
    for (int64_t i = 0; i < topology->device_count; i++) {
        const EmuDevice *d = &topology->devices[i];
        hlo_text_format(text, "%lld/%lld/%lld.%lld.%lld/%lld/%lld ", (long long)d->id, (long long)d->process_index,
                        (long long)d->coords[0], (long long)d->coords[1], (long long)d->coords[2],
                        (long long)d->core_on_chip, (long long)d->slice_index);
    }
    emu_topology_free(topology);
}

// The first tutorial prints these eight (golden G1); real v3-8 machines the same.
Test(emulator_topology, devices_of_a_v2_tray) {
    HloText text = {0};
    list_devices("v2-8", &text);
    cr_assert_str_eq(text.data,
                     "0/0/0.0.0/0/0 1/0/0.0.0/1/0 2/0/1.0.0/0/0 3/0/1.0.0/1/0 "
                     "4/0/0.1.0/0/0 5/0/0.1.0/1/0 6/0/1.1.0/0/0 7/0/1.1.0/1/0 ");
    hlo_text_free(&text);
}

// jax docs, multi_process.md: a v5e-16 lists 0 1 4 5 | 2 3 6 7 | 8 9 12 13 | 10 11 14 15.
Test(emulator_topology, devices_of_a_v5e_16_go_host_by_host) {
    static const int64_t expected[] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse("v5e-16", &topology));
    for (int64_t i = 0; i < 16; i++) {
        cr_assert_eq(topology->devices[i].id, expected[i]);
        cr_assert_eq(topology->devices[i].process_index, i / 4);
    }
    emu_topology_free(topology);
}

// A real v3-32: process 0 holds 0 1 2 3 8 9 10 11, process 1 holds 4 5 6 7 …
Test(emulator_topology, devices_of_a_v3_32) {
    static const int64_t first[] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7};
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse("v3-32", &topology));
    for (int64_t i = 0; i < 12; i++) cr_assert_eq(topology->devices[i].id, first[i]);
    emu_topology_free(topology);
}

Test(emulator_topology, slices_number_their_devices_apart) {
    HloText text = {0};
    list_devices("2xv4:2x2x1", &text);
    cr_assert_str_eq(text.data,
                     "100000/0/0.0.0/0/0 100001/0/1.0.0/0/0 100002/0/0.1.0/0/0 100003/0/1.1.0/0/0 "
                     "200000/1/0.0.0/0/1 200001/1/1.0.0/0/1 200002/1/0.1.0/0/1 200003/1/1.1.0/0/1 ");
    hlo_text_free(&text);
}

Test(emulator_topology, devices_print_as_jax_prints_them) {
    EmuTopology *topology = NULL;
    HloText text = {0};
    cr_assert_null(emu_topology_parse("v2-8", &topology));
    emu_device_print(topology, &topology->devices[3], &text);
    cr_assert_str_eq(text.data, "TpuDevice(id=3, process_index=0, coords=(1,0,0), core_on_chip=1)");
    hlo_text_free(&text);
    emu_topology_free(topology);
    cr_assert_null(emu_topology_parse("cpu:2", &topology));
    emu_device_print(topology, &topology->devices[1], &text);
    cr_assert_str_eq(text.data, "CpuDevice(id=1)");
    hlo_text_free(&text);
    emu_topology_free(topology);
    emu_topology_free(NULL);
}

Test(emulator_topology, running_out_of_memory_is_reported) {
    for (int64_t after = 0; after < 8; after++) {
        EmuTopology *topology = NULL;
        hlo_allocation_fail_after(after);
        HloStatus status = emu_topology_parse("v4-4096", &topology);
        hlo_allocation_fail_after(-1);
        cr_assert(status ? hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED && !topology : topology != NULL);
        hlo_status_free(status);
        emu_topology_free(topology);
    }
}

// The facts on which reports are based: every chip has a name row and every number a source.
Test(emulator_topology, every_number_of_a_chip_has_a_source) {
    size_t count = 0;
    const EmuChipFact *facts = emu_chip_facts(&count);
    cr_assert(count > 200);
    cr_assert_not_null(facts[0].chip);
    for (size_t i = 0; i < count; i++) cr_assert(facts[i].source && *facts[i].source);
    for (int i = 0; i < EMU_GENERATION_COUNT; i++)
        cr_assert_eq(emu_chip_by_kind(emu_chip((EmuGeneration)i)->device_kind), emu_chip((EmuGeneration)i));
    cr_assert_null(emu_chip_by_kind("TPU v9"));
}
