// SPDX-License-Identifier: Apache-2.0
// Programs as Meshlo partitions them: simulated bytes are the bytes that the partitioner's report counts.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emulator.h"
#include "hlo/base/file.h"
#include "hlo/text/text.h"
#include "spmd_partitioner/spmd.h"
#include "tests/support/cases.h"

typedef struct Program {
    char path[64];  // for cases_path()
    char topology[16];
} Program;

CaseList(emulator_partitioned, programs) {
    static Program programs[] = {
        {"examples/mlp_gradient_512.hlo", "v2-8"},
        {"examples/mlp_gradient_8192.hlo", "v2-8"},
        {"examples/mlp_gradient_8192.hlo", "tpu7x-8"},
        {"corpus/vit.infer.predict_step.8part.hlo.xz", "v5e-8"},
        {"corpus/flan_t5_large.infer.predict_step.8part.hlo.xz", "v6e-8"},
        {"corpus/gemma3_4b.train.train_step.8part.hlo.xz", "v5p-16"},
        {"corpus/gp3_oss_20b.infer.generate_jit.8part.hlo.xz", "v4-16"},
    };
    return cr_make_param_array(Program, programs, sizeof(programs) / sizeof(programs[0]));
}

CaseTest(Program *param, emulator_partitioned, programs) {
    const char *path = cases_path(param->path);
    if (!path) cr_skip_test("the shared corpus is not here");
    HloFileContent content = {0};
    HloStatus status = hlo_file_read(path, 1 << 28, &content);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloModule *module = NULL, *partitioned = NULL;
    SpmdReport *counted = NULL;
    EmuTopology *topology = NULL;
    EmuReport *simulated = NULL;
    cr_assert_null(hlo_parse(content.data, content.size, &(HloParseOptions){.file = param->path}, &module));
    status = spmd_partition(module, &(SpmdOptions){0}, &partitioned, &counted);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_assert_null(emu_topology_parse(param->topology, &topology));
    status = emu_simulate(partitioned, topology, NULL, &simulated);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_assert_eq(simulated->collective_bytes_per_device, counted->total_bytes_per_device,
                 "%s: simulated %lld, counted %lld", param->path, (long long)simulated->collective_bytes_per_device,
                 (long long)counted->total_bytes_per_device);
    // Bytes that leave the devices are on links, each byte on at least one.
    double carried = 0;
    for (int64_t i = 0; i < simulated->link_count; i++) carried += simulated->links[i].bytes;
    cr_assert_geq(carried * (1 + 1e-9), (double)counted->total_bytes_per_device);
    emu_report_free(simulated);
    emu_topology_free(topology);
    spmd_report_free(counted);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    hlo_file_content_free(&content);
}
