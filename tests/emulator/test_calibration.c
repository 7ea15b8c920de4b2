// SPDX-License-Identifier: Apache-2.0
// Published measurements against the model (docs/machine-model.md has the table). The programs are plain HLO: nothing
// in the model knows them.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/simulate.h"
#include "hlo/base/file.h"
#include "hlo/text/text.h"
#include "tests/support/cases.h"

typedef struct Point {
    char topology[16];
    char mesh[8];        // sizes
    double measured;     // seconds
    double tolerance;    // relative
    char program[1024];  // HLO, or a file for cases_path()
} Point;

#define DOT(type, n)                                                                          \
    "HloModule dot\nENTRY e { a = " type "[" n "," n "] parameter(0)\n b = " type "[" n "," n \
    "] parameter(1)\n"                                                                        \
    " ROOT d = " type "[" n "," n "] dot(a,b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
#define PERMUTE(n)                                                                         \
    "HloModule p, num_partitions=4\nENTRY e { a = u8[" n "] parameter(0)\n ROOT b = u8[" n \
    "] collective-permute(a), channel_id=1, source_target_pairs={{0,1},{1,0}} }"
#define ALL_GATHER(from, to)                                                                   \
    "HloModule g, num_partitions=8\nENTRY e { a = u8[" from "] parameter(0)\n ROOT b = u8[" to \
    "] all-gather(a), channel_id=1, replica_groups=[1,8]<=[8], dimensions={0}, use_global_device_ids=true }"

CaseList(emulator_calibration, points) {
    static Point points[] = {
        // JAX tutorial on v2-8: dot 8192^3 f32 on one core, and cut 4x2.
        {"v2-8", "1", 49.7e-3, 0.02, DOT("f32", "8192")},
        {"v2-8", "4,2", 7.47e-3, 0.05,
         "HloModule dot, num_partitions=8\nENTRY e { a = f32[2048,8192] parameter(0)\n b = f32[8192,4096] "
         "parameter(1)\n"
         " ROOT d = f32[2048,4096] dot(a,b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"},
        // The same tutorial: sine of 8192x8192 over 8 cores.
        {"v2-8", "4,2", 2.4e-3, 0.05,
         "HloModule sin, num_partitions=8\nENTRY e { a = f32[2048,4096] parameter(0)\n ROOT s = f32[2048,4096] sine(a) "
         "}"},
        // The same tutorial's network, as libtpu compiled it: 8-way data parallel, and 4 x 2 data and tensor parallel.
        {"v2-8", "8", 53.8e-3, 0.06, "corpus/tpu-optimized/mlp_dp8.v2-8.hlo.xz"},
        {"v2-8", "4,2", 51.4e-3, 0.05, "corpus/tpu-optimized/mlp_dp4tp2.v2-8.hlo.xz"},
        // On one core, as JAX lowers it.
        {"v2-8", "1", 351e-3, 0.15, "examples/mlp_gradient_8192.hlo"},
        // A published run of the same notebook on v3-8, one core.
        {"v3-8", "1", 19.3e-3, 0.05, DOT("f32", "8192")},
        {"v3-8", "1", 9.69e-3, 0.15,
         "HloModule sin\nENTRY e { a = f32[8192,8192] parameter(0)\n ROOT s = f32[8192,8192] sine(a) }"},
        // Pallas' matmul notebook on v5e, published recipes on v6e.
        {"v5e-1", "1", 6.047e-3, 0.02, DOT("bf16", "8192")},
        {"v6e-1", "1", 1.3288e-3, 0.02, DOT("bf16", "8192")},
        // Ironwood microbenchmarks, per device.
        {"tpu7x-2", "1", 1.62e-6, 0.05, DOT("bf16", "128")},
        {"tpu7x-2", "1", 6.14e-6, 0.08, DOT("bf16", "1024")},
        {"tpu7x-2", "1", 2147483648.0 / 3198e9, 0.05,
         "HloModule copy\nENTRY e { a = f32[16384,16384] parameter(0)\n ROOT b = f32[16384,16384] copy(a) }"},
        // 402.65 and 6.291 MB sent by each of the 8 devices of a 2x2x1.
        {"tpu7x-8", "8", 402.65e6 / 178.77e9, 0.06, ALL_GATHER("57521429", "460171432")},
        {"tpu7x-8", "8", 6.291e6 / 129.19e9, 0.06, ALL_GATHER("898714", "7189712")},
        // ppermute on v5p.
        {"v5p-8", "4", 5.0e-6, 0.10, PERMUTE("8192")},
        {"v5p-8", "4", 16.94e-6, 0.05, PERMUTE("1048576")},
        {"v5p-8", "4", 781.98e-6, 0.02, PERMUTE("67108864")},
    };
    return cr_make_param_array(Point, points, sizeof(points) / sizeof(points[0]));
}

// Reads the program of a point; false when its file is not here.
static bool read_program(const Point *point, HloFileContent *content) {
    if (!strncmp(point->program, "HloModule", 9))
        return !hlo_file_expand("program", point->program, strlen(point->program), 1 << 24, content);
    const char *path = cases_path(point->program);
    if (!path) return false;
    HloStatus status = hlo_file_read(path, 1 << 24, content);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return true;
}

CaseTest(Point *param, emulator_calibration, points) {
    HloFileContent content = {0};
    if (!read_program(param, &content)) cr_skip_test("the shared corpus is not here");
    HloModule *module = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    HloStatus status = hlo_parse(content.data, content.size, &(HloParseOptions){.file = "program"}, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_assert_null(emu_topology_parse(param->topology, &topology));
    int64_t sizes[4], ids[16], rank = 0, total = 1;
    for (char *at = param->mesh; *at; at += *at == ',') {
        sizes[rank] = strtoll(at, &at, 10);
        total *= sizes[rank++];
    }
    if (total == 1) module->num_partitions = 1;
    cr_assert_null(emu_default_assignment(topology, sizes, rank, ids));
    status = emu_simulate(module, topology, &(EmuOptions){.device_assignment = ids, .device_assignment_count = total},
                          &report);
    cr_assert_null(status, "%s", hlo_status_message(status));
    const double predicted = (double)report->step_picoseconds * 1e-12;
    const double residual = predicted / param->measured - 1;
    cr_log_info("%s: measured %.4g s, predicted %.4g s, %+.1f %%", param->topology, param->measured, predicted,
                100 * residual);
    cr_assert_leq(fabs(residual), param->tolerance, "%s: measured %.4g s, predicted %.4g s (%+.1f %%) for %.40s",
                  param->topology, param->measured, predicted, 100 * residual, param->program);
    // The network on one core was measured with a deviation of 23 %.
    const double low = (double)report->step_low_picoseconds * 1e-12,
                 high = (double)report->step_high_picoseconds * 1e-12;
    if (param->tolerance < 0.15 || strstr(param->program, "sine"))
        cr_expect(low <= param->measured && param->measured <= high, "%s: measured %.4g s, likely %.4g to %.4g s",
                  param->topology, param->measured, low, high);
    emu_report_free(report);
    emu_topology_free(topology);
    hlo_module_free(module);
    hlo_file_content_free(&content);
}
