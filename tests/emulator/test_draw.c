// SPDX-License-Identifier: Apache-2.0
// The drawings of the JAX tutorials (G11): "Distributed arrays and automatic parallelization" on TPU v2-8, and its
// torchax version on host processors, which shows the layout without lines. Their spaces are lost in the stored text of
// the first; they were restored by running JAX's own code.
#include <criterion/criterion.h>
#include <hwloc.h>
#include <hwloc/distances.h>
#include <libxml/parser.h>
#include <string.h>

#include "emulator/draw.h"
#include "emulator/export_hwloc.h"
#include "emulator/mesh_order.h"
#include "emulator/route.h"
#include "tests/support/cases.h"

// Draws an array on v2-8 in the mesh a=4, b=2; `spec` has letters of axes per dimension: "a,b", "-,ab".
static void draw_spec(const char *topology_name, const int64_t *dims, int64_t rank, const char *spec, EmuBoxStyle style,
                      HloText *text) {
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse(topology_name, &topology));
    const int64_t mesh[] = {4, 2};
    int64_t ids[8], axes[2][2] = {{0}};
    EmuSpecDimension dimensions[2] = {{axes[0], 0}, {axes[1], 0}};
    EmuShard shards[8];
    cr_assert_null(emu_mesh_order(topology, mesh, 2, false, ids));
    for (int dim = 0; *spec; spec++) {
        if (*spec == ',') dim++;
        if (*spec == 'a' || *spec == 'b') axes[dim][dimensions[dim].count++] = *spec - 'a';
    }
    cr_assert_null(emu_shards_of_spec(ids, mesh, 2, dims, rank, dimensions, shards));
    HloStatus status = emu_draw_sharding(topology_name[0] == 'c' ? "CPU" : "TPU", dims, rank, shards, 8, style, text);
    cr_assert_null(status, "%s", hlo_status_message(status));
    emu_topology_free(topology);
}

typedef struct BoxCase {
    char spec[8];
    char drawing[1024];
} BoxCase;

#define TALL \
    "│           │           │\n│           │           │\n│           │           │\n│           │           │\n"
#define FOUR "│       │       │       │       │\n"
#define FULL \
    "│                       │\n│                       │\n│                       │\n│                       │\n"

CaseList(emulator_draw, tutorial_boxes) {
    static BoxCase cases[] = {
        {"a,b",
         "┌──────────┬──────────┐\n│  TPU 0   │  TPU 1   │\n├──────────┼──────────┤\n│  TPU 2   │  TPU 3   │\n"
         "├──────────┼──────────┤\n│  TPU 6   │  TPU 7   │\n├──────────┼──────────┤\n│  TPU 4   │  TPU 5   │\n"
         "└──────────┴──────────┘\n"},
        {"b,a", "┌───────┬───────┬───────┬───────┐\n" FOUR "│ TPU 0 │ TPU 2 │ TPU 6 │ TPU 4 │\n" FOUR FOUR
                "├───────┼───────┼───────┼───────┤\n" FOUR "│ TPU 1 │ TPU 3 │ TPU 7 │ TPU 5 │\n" FOUR FOUR
                "└───────┴───────┴───────┴───────┘\n"},
        {"a,-",
         "┌───────────────────────┐\n│        TPU 0,1        │\n├───────────────────────┤\n│        TPU 2,3        │\n"
         "├───────────────────────┤\n│        TPU 6,7        │\n├───────────────────────┤\n│        TPU 4,5        │\n"
         "└───────────────────────┘\n"},
        {"-,b", "┌───────────┬───────────┐\n" TALL "│TPU 0,2,4,6│TPU 1,3,5,7│\n" TALL "└───────────┴───────────┘\n"},
        {"-,a", "┌───────┬───────┬───────┬───────┐\n" FOUR FOUR FOUR FOUR
                "│TPU 0,1│TPU 2,3│TPU 6,7│TPU 4,5│\n" FOUR FOUR FOUR FOUR "└───────┴───────┴───────┴───────┘\n"},
        {"ab,-",
         "┌───────────────────────┐\n│         TPU 0         │\n├───────────────────────┤\n│         TPU 1         │\n"
         "├───────────────────────┤\n│         TPU 2         │\n├───────────────────────┤\n│         TPU 3         │\n"
         "├───────────────────────┤\n│         TPU 6         │\n├───────────────────────┤\n│         TPU 7         │\n"
         "├───────────────────────┤\n│         TPU 4         │\n├───────────────────────┤\n│         TPU 5         │\n"
         "└───────────────────────┘\n"},
    };
    return cr_make_param_array(BoxCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(BoxCase *param, emulator_draw, tutorial_boxes) {
    HloText text = {0};
    draw_spec("v2-8", (int64_t[]){8192, 8192}, 2, param->spec, EMU_BOX_LINES, &text);
    cr_assert_str_eq(text.data, param->drawing);
    hlo_text_free(&text);
}

// The seventh: an array on one device.
Test(emulator_draw, whole_array_on_one_device) {
    const EmuShard shard = {0, {0, 0}, {8192, 8192}};
    HloText text = {0};
    cr_assert_null(emu_draw_sharding("TPU", (int64_t[]){8192, 8192}, 2, &shard, 1, EMU_BOX_LINES, &text));
    cr_assert_str_eq(
        text.data, "┌───────────────────────┐\n" FULL "│         TPU 0         │\n" FULL "└───────────────────────┘\n");
    hlo_text_free(&text);
}

// The eighth: a tall narrow array over the first axis.
Test(emulator_draw, narrow_array) {
    HloText text = {0};
    draw_spec("v2-8", (int64_t[]){8192, 784}, 2, "a,-", EMU_BOX_LINES, &text);
    cr_assert_str_eq(
        text.data,
        "┌───────┐\n│TPU 0,1│\n├───────┤\n│TPU 2,3│\n├───────┤\n│TPU 6,7│\n├───────┤\n│TPU 4,5│\n└───────┘\n");
    hlo_text_free(&text);
}

Test(emulator_draw, vectors_are_one_line) {
    HloText text = {0};
    draw_spec("v2-8", (int64_t[]){8192}, 1, "ab", EMU_BOX_LINES, &text);
    cr_assert_str_eq(text.data,
                     "┌───────┬───────┬───────┬───────┬───────┬───────┬───────┬───────┐\n"
                     "│ TPU 0 │ TPU 1 │ TPU 2 │ TPU 3 │ TPU 6 │ TPU 7 │ TPU 4 │ TPU 5 │\n"
                     "└───────┴───────┴───────┴───────┴───────┴───────┴───────┴───────┘\n");
    hlo_text_free(&text);
}

// The torchax tutorial's layout on coloured ground.
Test(emulator_draw, plain_style) {
    HloText text = {0};
    draw_spec("cpu:8", (int64_t[]){8192, 8192}, 2, "a,b", EMU_BOX_PLAIN, &text);
    cr_assert_str_eq(text.data,
                     "                        \n   CPU 0       CPU 1    \n                        \n"
                     "                        \n   CPU 2       CPU 3    \n                        \n"
                     "                        \n   CPU 4       CPU 5    \n                        \n"
                     "                        \n   CPU 6       CPU 7    \n                        \n");
    hlo_text_free(&text);
}

Test(emulator_draw, wide_arrays_keep_their_labels) {
    HloText text = {0};
    draw_spec("v2-8", (int64_t[]){1024, 8192}, 2, "a,b", EMU_BOX_LINES, &text);
    cr_assert_not_null(strstr(text.data, " TPU 6 "));
    cr_assert_leq(strcspn(text.data, "\n"), 80 * 3);
    hlo_text_free(&text);
}

Test(emulator_draw, bad_specs_are_refused) {
    const int64_t ids[] = {0, 1, 2, 3}, mesh[] = {2, 2}, dims[] = {6, 4}, axes[] = {0, 0, 7};
    EmuShard shards[4];
    const EmuSpecDimension twice[] = {{axes, 1}, {axes, 1}}, unknown[] = {{axes + 2, 1}, {axes, 0}};
    HloStatus status = emu_shards_of_spec(ids, mesh, 2, dims, 2, twice, shards);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    status = emu_shards_of_spec(ids, mesh, 2, dims, 2, unknown, shards);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    const EmuSpecDimension odd[] = {{axes, 1}, {axes, 0}};
    status = emu_shards_of_spec(ids, mesh, 2, (int64_t[]){5, 4}, 2, odd, shards);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    status = emu_draw_sharding("TPU", dims, 3, shards, 4, EMU_BOX_LINES, &(HloText){0});
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
}

Test(emulator_draw, slices_as_text) {
    EmuTopology *topology = NULL;
    HloText text = {0};
    cr_assert_null(emu_topology_parse("v2-8", &topology));
    emu_draw_topology(topology, &text);
    cr_assert_str_eq(text.data,
                     "v2-8: TPU v2, 2x2 chips, 8 devices, 1 host of 2x2x1 chips, wraps: none\n"
                     "  y=0    [0,1]-[2,3]\n           |     |\n  y=1    [4,5]-[6,7]\n");
    hlo_text_free(&text);
    emu_topology_free(topology);
}

Test(emulator_draw, slices_as_svg_are_well_formed) {
    static const char *const specs[] = {"v2-8", "v5e-256", "v4:4x4x4", "2xv5e-16", "cpu:4"};
    for (size_t i = 0; i < HLO_COUNT_OF(specs); i++) {
        EmuTopology *topology = NULL;
        HloText text = {0};
        cr_assert_null(emu_topology_parse(specs[i], &topology));
        emu_draw_topology_svg(topology, NULL, &text);
        xmlDocPtr document = xmlReadMemory(text.data, (int)text.length, "a.svg", NULL, XML_PARSE_NONET);
        cr_assert_not_null(document, "%s", specs[i]);
        xmlFreeDoc(document);
        hlo_text_free(&text);
        emu_topology_free(topology);
    }
}

// hwloc reads its own XML back: chips, devices, memory and hops.
Test(emulator_draw, slices_as_hwloc_topologies) {
    static const struct {
        const char *spec;
        int chips, devices, farthest;
    } cases[] = {{"v2-8", 4, 8, 2}, {"v5e-16", 16, 16, 6}, {"v4:4x4x4", 64, 64, 6}, {"v5e-1", 1, 1, 0}};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        EmuTopology *slice = NULL;
        HloText text = {0};
        hwloc_topology_t topology;
        cr_assert_null(emu_topology_parse(cases[i].spec, &slice));
        HloStatus status = emu_export_hwloc(slice, &text);
        cr_assert_null(status, "%s: %s", cases[i].spec, hlo_status_message(status));
        hwloc_topology_init(&topology);
        cr_assert_eq(hwloc_topology_set_xmlbuffer(topology, text.data, (int)text.length + 1), 0);
        cr_assert_eq(hwloc_topology_load(topology), 0);
        cr_assert_eq(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), cases[i].chips, "%s", cases[i].spec);
        cr_assert_eq(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE), cases[i].devices, "%s", cases[i].spec);
        unsigned count = 1;
        struct hwloc_distances_s *distances = NULL;
        hwloc_distances_get_by_name(topology, "TPUICIHops", &count, &distances, 0);
        cr_assert_eq(count, cases[i].chips > 1);
        hwloc_uint64_t farthest = 0;
        for (unsigned k = 0; count && k < distances->nbobjs * distances->nbobjs; k++)
            if (distances->values[k] > farthest) farthest = distances->values[k];
        cr_assert_eq(farthest, (hwloc_uint64_t)cases[i].farthest, "%s", cases[i].spec);
        if (count) hwloc_distances_release(topology, distances);
        hwloc_topology_destroy(topology);
        hlo_text_free(&text);
        emu_topology_free(slice);
    }
    EmuTopology *large = NULL;
    HloText text = {0};
    cr_assert_null(emu_topology_parse("v4-4096", &large));
    HloStatus status = emu_export_hwloc(large, &text);
    cr_assert_eq(hlo_status_code(status), HLO_UNIMPLEMENTED);
    hlo_status_free(status);
    emu_topology_free(large);
}
