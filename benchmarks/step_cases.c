// SPDX-License-Identifier: Apache-2.0
// The tutorial network's gradient step: partitioned, compiled, run, emulated; and many small collectives in flight.
#include <stdlib.h>

#include "benchmarks/bench.h"
#include "emulator/emulator.h"
#include "emulator/simulate.h"
#include "targets/client.h"

enum { kDevices = 8, kMaxArguments = 16, kPsums = 10000, kRepeats = 5 };

static double smaller(double a, double b) {
    return a < b ? a : b;
}

HloStatus bench_partition_8(BenchResult *result) {
    HloModule *module = NULL;
    HLO_TRY(bench_network(8192, true, &module));
    result->value = 1e30;
    HloStatus status = HLO_SUCCESS;
    for (int i = 0; i < kRepeats && !status; ++i) {
        HloModule *per_device = NULL;
        double start = bench_seconds();
        status = spmd_partition(module, NULL, &per_device, NULL);
        result->value = smaller(result->value, (bench_seconds() - start) * 1e3);
        hlo_module_free(per_device);
    }
    hlo_module_free(module);
    return status;
}

HloStatus bench_partition_512(BenchResult *result) {
    result->value = 1e30;
    for (int i = 0; i < kRepeats; ++i) {
        HloModule *per_device = NULL;
        double start = bench_seconds();
        HLO_TRY(bench_network_partitioned(8192, 256, 2, &per_device));
        result->value = smaller(result->value, (bench_seconds() - start) * 1e3);
        hlo_module_free(per_device);
    }
    return HLO_SUCCESS;
}

// A program on 8 devices with random arguments. Shards that the program's shardings make equal are equal, all others
// differ: devices may share work only where they would in earnest.
typedef struct Rig {
    HloModule *module;
    const char *sharding;  // a letter an argument: r replicated, b split by batch, m by model; NULL: all devices differ
    TargetClient *client;
    TargetExecutable *executable;
    TargetBuffer *arguments[kDevices][kMaxArguments], *results[kDevices][kMaxArguments];
    TargetBuffer **argument_rows[kDevices], **result_rows[kDevices];
    int64_t argument_count, result_count;
} Rig;

static HloStatus rig_compile(Rig *rig, double *seconds) {
    TargetCompileOptions options = {.partition_count = kDevices};
    double start = bench_seconds();
    HLO_TRY(target_compile(rig->client, rig->module, &options, &rig->executable));
    *seconds = bench_seconds() - start;
    return HLO_SUCCESS;
}

// Device d has index d / 2 on the batch axis and d % 2 on the model axis.
static int64_t shard_of(const Rig *rig, int64_t argument, int64_t device) {
    if (!rig->sharding) return device;
    if (rig->sharding[argument] == 'r') return 0;
    return rig->sharding[argument] == 'b' ? device / 2 : device % 2;
}

static void fill(HloLiteral *literal, int64_t seed) {
    uint32_t state = (uint32_t)seed * 2654435761u + 12345u;
    float *values = literal->data;
    for (int64_t i = 0; i < hlo_shape_elements(literal->shape); ++i) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
    }
}

static HloStatus rig_open(Rig *rig) {
    double seconds;
    HLO_TRY(target_client_new("cpu:8", &rig->client));
    HLO_TRY(rig_compile(rig, &seconds));
    rig->argument_count = target_executable_argument_count(rig->executable);
    rig->result_count = target_executable_result_count(rig->executable);
    HLO_FAIL_IF(rig->argument_count > kMaxArguments || rig->result_count > kMaxArguments, HLO_INTERNAL,
                "too many arrays");
    for (int64_t d = 0; d < kDevices; ++d) {
        TargetMemory *memory = target_device_default_memory(target_executable_device(rig->executable, d));
        rig->argument_rows[d] = rig->arguments[d];
        rig->result_rows[d] = rig->results[d];
        for (int64_t i = 0; i < rig->argument_count; ++i) {
            HloLiteral *values = hlo_literal_new(target_executable_argument_shape(rig->executable, i));
            HLO_FAIL_IF(!values, HLO_RESOURCE_EXHAUSTED, "out of memory");
            fill(values, 100 * i + shard_of(rig, i, d));
            HloStatus status = target_buffer_from_literal(values, memory, &rig->arguments[d][i]);
            hlo_literal_free(values);
            HLO_TRY(status);
        }
    }
    return HLO_SUCCESS;
}

static HloStatus rig_execute(Rig *rig, bool wait) {
    TargetExecuteOptions options = {.synchronous = wait};
    HLO_TRY(target_execute(rig->executable, &options, (TargetBuffer *const *const *)rig->argument_rows,
                           rig->argument_count, (TargetBuffer * *const *)rig->result_rows, NULL));
    for (int64_t d = 0; d < kDevices; ++d) {
        for (int64_t i = 0; i < rig->result_count; ++i) target_buffer_release(rig->results[d][i]);
    }
    return HLO_SUCCESS;
}

static void rig_close(Rig *rig) {
    for (int64_t d = 0; d < kDevices; ++d) {
        for (int64_t i = 0; i < rig->argument_count; ++i) target_buffer_release(rig->arguments[d][i]);
    }
    target_executable_release(rig->executable);
    target_client_release(rig->client);
    hlo_module_free(rig->module);
}

static HloStatus compile_8(Rig *rig, BenchResult *result) {
    HLO_TRY(bench_network_partitioned(1024, 4, 2, &rig->module));
    HLO_TRY(target_client_new("cpu:8", &rig->client));
    result->value = 1e30;
    for (int i = 0; i < kRepeats; ++i) {
        double seconds;
        target_executable_release(rig->executable);
        rig->executable = NULL;
        HLO_TRY(rig_compile(rig, &seconds));
        result->value = smaller(result->value, seconds * 1e3);
    }
    return HLO_SUCCESS;
}

HloStatus bench_compile_8(BenchResult *result) {
    Rig rig = {0};
    HloStatus status = compile_8(&rig, result);
    rig_close(&rig);
    return status;
}

static HloStatus run_1024(Rig *rig, BenchResult *result) {
    HLO_TRY(bench_network_partitioned(1024, 4, 2, &rig->module));
    rig->sharding = "rrmmmrrrbb";  // weights and biases of four layers, inputs, targets
    HLO_TRY(rig_open(rig));
    result->value = 1e30;
    for (int i = 0; i < kRepeats; ++i) {
        double start = bench_seconds();
        HLO_TRY(rig_execute(rig, true));
        result->value = smaller(result->value, (bench_seconds() - start) * 1e3);
    }
    return HLO_SUCCESS;
}

HloStatus bench_run_1024(BenchResult *result) {
    Rig rig = {0};
    HloStatus status = run_1024(&rig, result);
    rig_close(&rig);
    return status;
}

static HloStatus psum_10000(Rig *rig, BenchResult *result) {
    HLO_TRY(bench_psum(&rig->module));
    HLO_TRY(rig_open(rig));
    double start = bench_seconds();
    for (int i = 0; i < kPsums; ++i) HLO_TRY(rig_execute(rig, false));
    target_client_synchronize(rig->client);
    result->value = kPsums / (bench_seconds() - start);
    return HLO_SUCCESS;
}

HloStatus bench_psum_10000(BenchResult *result) {
    Rig rig = {0};
    HloStatus status = psum_10000(&rig, result);
    rig_close(&rig);
    return status;
}

// Emulates the step on a v4 pod of 16x16x16 chips; seconds and the growth of the process.
static HloStatus emulate_4096(double *seconds, double *bytes) {
    const int64_t sizes[] = {2048, 2};
    HloModule *module = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    int64_t *ids = NULL;
    HLO_TRY(bench_network_partitioned(8192, 2048, 2, &module));
    bench_forget_peak();
    double before = bench_peak_bytes(), start = bench_seconds();
    HloStatus status = emu_topology_parse("v4:16x16x16", &topology);
    if (!status) ids = hlo_allocate_zeroed(4096, sizeof *ids);
    if (!status && !ids) status = hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    if (!status) status = emu_default_assignment(topology, sizes, 2, ids);
    EmuOptions options = {.device_assignment = ids, .device_assignment_count = 4096};
    if (!status) status = emu_simulate(module, topology, &options, &report);
    *seconds = bench_seconds() - start;
    *bytes = bench_peak_bytes() - before;
    emu_report_free(report);
    hlo_free(ids);
    emu_topology_free(topology);
    hlo_module_free(module);
    return status;
}

HloStatus bench_emulate_4096(BenchResult *result) {
    double bytes;
    return emulate_4096(&result->value, &bytes);
}

HloStatus bench_emulate_4096_memory(BenchResult *result) {
    double seconds;
    HloStatus status = emulate_4096(&seconds, &result->value);
    result->value *= 1e-6;
    return status;
}
