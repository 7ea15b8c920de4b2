// SPDX-License-Identifier: Apache-2.0
// A program that runs as the hosts of a slice: metrics of all processes, and a check that copies of parameters agree.
//
//     cc several_hosts.c $(pkg-config --cflags --libs meshlo) && meshlo launch --on v5e-16 -- ./a.out
//
// Alone it plays all hosts. The two functions are gather_from_jax_processes and assert_replica_integrity of the
// libraries for JAX: an all-gather over all devices, from which each process takes what it wants to know.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/hlo.h"
#include "hlo/text/text.h"
#include "targets/join.h"

// Everything that must be freed at the end.
typedef struct Example {
    HloArena *arena;
    TargetClient *client;
    int64_t device_count;  // of all processes
    HloModule *module;
    TargetExecutable *gather;  // f32[1] of each device to f32[device_count]
} Example;

// Joins the other processes, if the environment describes any, and compiles the all-gather.
static HloStatus open_example(Example *example) {
    TransportEnvironment environment;
    HLO_TRY(transport_environment_read(example->arena, NULL, NULL, &environment));
    const TargetJoinOptions options = {.environment = &environment};
    HLO_TRY(target_client_join(getenv("MESHLO_TOPOLOGY") ? NULL : "v5e-16", &options, &example->client));
    example->device_count = target_client_device_count(example->client);
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule gather, num_partitions=%lld\n"
                    "ENTRY main {\n"
                    "  mine = f32[1] parameter(0)\n"
                    "  ROOT all = f32[%lld] all-gather(mine), channel_id=1, dimensions={0}, "
                    "replica_groups=[1,%lld]<=[%lld], use_global_device_ids=true\n"
                    "}\n",
                    (long long)example->device_count, (long long)example->device_count,
                    (long long)example->device_count, (long long)example->device_count);
    HloStatus status = hlo_text_status(&text);
    if (!status) status = hlo_parse(text.data, text.length, NULL, &example->module);
    hlo_text_free(&text);
    HLO_TRY(status);
    const TargetCompileOptions compile = {.partition_count = example->device_count};
    return target_compile(example->client, example->module, &compile, &example->gather);
}

// One value a device; only those of this process's devices are given. *all, in the arena, has those of all devices.
static HloStatus gather(Example *example, const float *mine, float **all) {
    const int64_t count = example->device_count, dims[] = {1};
    TargetBuffer **arguments = HLO_ARENA_NEW(example->arena, TargetBuffer *, count);
    TargetBuffer **results = HLO_ARENA_NEW(example->arena, TargetBuffer *, count);
    TargetBuffer ***argument_lists = HLO_ARENA_NEW(example->arena, TargetBuffer **, count);
    TargetBuffer ***result_lists = HLO_ARENA_NEW(example->arena, TargetBuffer **, count);
    HloStatus status = HLO_SUCCESS;
    int64_t local = -1;
    *all = HLO_ARENA_NEW(example->arena, float, count);
    for (int64_t d = 0; d < count; ++d) {
        argument_lists[d] = &arguments[d];
        result_lists[d] = &results[d];
        TargetDevice *device = target_executable_device(example->gather, d);
        if (status || !target_device_is_local(device)) continue;
        const TargetHostArray array = {.data = &mine[d], .type = HLO_F32, .rank = 1, .dims = dims};
        status = target_buffer_from_host(&array, target_device_default_memory(device), &arguments[d]);
        local = d;
    }
    if (!status)
        status = target_execute(example->gather, NULL, (TargetBuffer *const *const *)argument_lists, 1,
                                (TargetBuffer * *const *)result_lists, NULL);
    if (!status) status = target_buffer_to_host(results[local], *all, (size_t)count * sizeof(**all), NULL);
    for (int64_t d = 0; d < count; ++d) {
        target_buffer_release(arguments[d]);
        target_buffer_release(results[d]);
    }
    return status;
}

// One entry for each process: what its first device has.
static HloStatus gather_from_processes(Example *example, float value, float **entries) {
    const int64_t count = example->device_count;
    float *mine = HLO_ARENA_NEW(example->arena, float, count), *all;
    for (int64_t d = 0; d < count; ++d) mine[d] = value;
    HLO_TRY(gather(example, mine, &all));
    *entries = HLO_ARENA_NEW(example->arena, float, target_client_process_count(example->client));
    for (int64_t d = count - 1; d >= 0; --d) {
        const int64_t process = target_executable_device(example->gather, d)->process_index;
        if (process < target_client_process_count(example->client)) (*entries)[process] = all[d];
    }
    return HLO_SUCCESS;
}

// FAILED_PRECONDITION unless all devices of all processes have the same bits.
static HloStatus assert_replica_integrity(Example *example, const float *copies) {
    float *all;
    HLO_TRY(gather(example, copies, &all));
    for (int64_t d = 1; d < example->device_count; ++d) {
        const TargetDevice *device = target_executable_device(example->gather, d);
        HLO_FAIL_IF(memcmp(&all[d], &all[0], sizeof(*all)) != 0, HLO_FAILED_PRECONDITION,
                    "%s has %g, but the first device has %g", device->text, (double)all[d], (double)all[0]);
    }
    return HLO_SUCCESS;
}

static HloStatus run(Example *example) {
    HLO_TRY(open_example(example));
    const int64_t process = target_client_process_index(example->client);
    const int64_t processes = target_client_process_count(example->client);
    float *losses, *copies = HLO_ARENA_NEW(example->arena, float, example->device_count);
    HLO_TRY(gather_from_processes(example, 2.5f + (float)process, &losses));
    printf("process %lld of %lld, losses:", (long long)process, (long long)processes);
    for (int64_t i = 0; i < processes; ++i) printf(" %g", (double)losses[i]);
    for (int64_t d = 0; d < example->device_count; ++d) copies[d] = 1.5f;
    HLO_TRY(assert_replica_integrity(example, copies));
    printf("; replicas agree; ");
    copies[example->device_count - 1] += 1;  // only the process of the last device has that copy
    HloStatus status = assert_replica_integrity(example, copies);
    printf("%s\n", hlo_status_message(status));
    hlo_status_free(status);
    return HLO_SUCCESS;
}

int main(void) {
    Example example = {.arena = hlo_arena_new()};
    HloStatus status = example.arena ? run(&example) : hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    if (status) {
        char *message = hlo_status_to_text(status);
        fputs(message ? message : "error: out of memory\n", stderr);
        hlo_free(message);
    }
    const int code = status ? 1 : 0;
    hlo_status_free(status);
    target_executable_release(example.gather);
    hlo_module_free(example.module);
    target_client_release(example.client);
    hlo_arena_free(example.arena);
    return code;
}
