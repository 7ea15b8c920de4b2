// SPDX-License-Identifier: Apache-2.0
// A dense layer built in C: y = max(x w + b, 0) and its sum, the batch sharded over 4 devices and the features over 2.
// It is partitioned for the mesh batch=4, model=2, printed as the program of one device, and run on the eight devices
// of a TPU v2-8.
//
//     cc sharded_dense.c $(pkg-config --cflags --libs meshlo) && ./a.out
#include <stdio.h>
#include <stdlib.h>

#include "hlo/hlo.h"
#include "hlo/text/text.h"
#include "spmd_partitioner/spmd.h"
#include "targets/client.h"

enum { kDevices = 8, kArguments = 3, kResults = 2 };

static const SpmdMeshAxis kMesh[] = {{"batch", 4}, {"model", 2}};
static const char *const kShards[] = {"p0=batch,-", "p1=-,model", "p2=model"};

// The program, as if for one device: it contains no communication.
static HloStatus build_layer(HloModule *module) {
    HloBuilder *b = hlo_builder_new(module, "main");
    HLO_FAIL_IF(!b, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HLO_AT(b);
    HloInstruction *x = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(32, 64), "x");
    HloInstruction *w = hlo_build_parameter(b, 1, HLO_F32, HLO_DIMS(64, 128), "w");
    HloInstruction *bias = hlo_build_parameter(b, 2, HLO_F32, HLO_DIMS(128), "b");
    HLO_AT(b);
    HloInstruction *sums =
        hlo_build_add(b, hlo_build_matmul(b, x, w), hlo_build_broadcast(b, bias, HLO_DIMS(32, 128), HLO_DIMS(1)));
    HloInstruction *y = hlo_build_max(b, sums, hlo_build_splat_like(b, sums, 0));
    HLO_AT(b);
    HloInstruction *total = hlo_build_reduce_op(b, HLO_OP_ADD, y, HLO_DIMS(0, 1));
    HloInstruction *results[] = {y, total};
    return hlo_builder_finish_entry(b, hlo_build_tuple(b, results, 2));
}

// Everything that must be freed at the end.
typedef struct Example {
    HloModule *module, *per_device;
    SpmdReport *report;
    SpmdBoundary *boundary;
    TargetClient *client;
    TargetExecutable *executable;
    TargetBuffer *arguments[kDevices][kArguments];
    TargetBuffer *results[kDevices][kResults];
} Example;

// Gives each device its part of argument `index`, an array of ones scaled by `value`.
static HloStatus place_argument(Example *example, int64_t index, double value) {
    const SpmdBoundaryArray *array = &example->boundary->parameters[index];
    HloLiteral *shards[kDevices] = {0};
    HloLiteral *global = hlo_literal_new(array->global);
    HLO_FAIL_IF(!global, HLO_RESOURCE_EXHAUSTED, "out of memory");
    for (int64_t i = 0; i < hlo_shape_elements(array->global); ++i) hlo_literal_set_double(global, i, value);
    HloStatus status = spmd_shard_literal(global, array->sharding, kDevices, shards);
    for (int64_t d = 0; d < kDevices && !status; ++d) {
        TargetMemory *memory = target_device_default_memory(target_executable_device(example->executable, d));
        status = target_buffer_from_literal(shards[d], memory, &example->arguments[d][index]);
    }
    for (int64_t d = 0; d < kDevices; ++d) hlo_literal_free(shards[d]);
    hlo_literal_free(global);
    return status;
}

static HloStatus partition_and_print(Example *example) {
    SpmdOptions options = {.mesh = kMesh, .mesh_axis_count = 2, .shards = kShards, .shard_count = 3};
    HloText text = {0};
    HLO_TRY(spmd_partition(example->module, &options, &example->per_device, &example->report));
    HloStatus status = hlo_print(example->per_device, NULL, &text);
    if (!status) {
        hlo_text_string(&text, "\n\n");
        spmd_report_print(&text, example->report);
        fputs(text.data, stdout);
    }
    hlo_text_free(&text);
    return status;
}

static HloStatus run(Example *example) {
    TargetCompileOptions options = {.partition_count = kDevices};
    TargetBuffer **argument_rows[kDevices], **result_rows[kDevices];
    HLO_TRY(spmd_boundary_new(example->per_device, &example->boundary));
    HLO_TRY(target_client_new("v2-8", &example->client));
    HLO_TRY(target_compile(example->client, example->per_device, &options, &example->executable));
    HLO_TRY(place_argument(example, 0, 0.5));
    HLO_TRY(place_argument(example, 1, 0.25));
    HLO_TRY(place_argument(example, 2, -7.0));
    for (int64_t d = 0; d < kDevices; ++d) {
        argument_rows[d] = example->arguments[d];
        result_rows[d] = example->results[d];
    }
    HLO_TRY(target_execute(example->executable, NULL, (TargetBuffer *const *const *)argument_rows, kArguments,
                           (TargetBuffer * *const *)result_rows, NULL));
    float total;
    HLO_TRY(target_buffer_to_host(example->results[0][1], &total, sizeof total, NULL));  // waits for the result
    printf("\nsum over all devices: %g\n", (double)total);
    return HLO_SUCCESS;
}

static void free_example(Example *example) {
    for (int64_t d = 0; d < kDevices; ++d) {
        for (int64_t i = 0; i < kArguments; ++i) target_buffer_release(example->arguments[d][i]);
        for (int64_t i = 0; i < kResults; ++i) target_buffer_release(example->results[d][i]);
    }
    target_executable_release(example->executable);
    target_client_release(example->client);
    spmd_boundary_free(example->boundary);
    spmd_report_free(example->report);
    hlo_module_free(example->per_device);
    hlo_module_free(example->module);
}

int main(void) {
    Example example = {.module = hlo_module_new("dense")};
    HloStatus status =
        example.module ? build_layer(example.module) : hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    if (!status) status = partition_and_print(&example);
    if (!status) status = run(&example);
    if (status) {
        char *message = hlo_status_to_text(status);
        fputs(message ? message : "error: out of memory\n", stderr);
        hlo_free(message);
    }
    hlo_status_free(status);
    free_example(&example);
    return status ? 1 : 0;
}
