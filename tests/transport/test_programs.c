// SPDX-License-Identifier: Apache-2.0
// Programs over processes that are connected by UCX: the same bits as in one process, and the remains of a launch that
// failed or of a process that died.
#ifdef MESHLO_UCX

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "processes.h"
#include "tests/support/compiled.h"
#include "tests/support/random_module.h"

enum { kProcessCount = 4, kPrograms = 24 };

#define ADD "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"

// ---- the same bits

// Each of these messages is larger than those that UCX copies.
static const char *const kLarge[] = {
    "HloModule m, replica_count=4\n" ADD
    "ENTRY e { x = f32[300007] parameter(0)\n"
    " ROOT r = f32[300007] all-reduce(x), replica_groups={}, to_apply=add }",
    "HloModule m, replica_count=4\n" ADD
    "ENTRY e { x = f32[400,200] parameter(0)\n"
    " g = f32[400,800] all-gather(x), replica_groups={}, dimensions={1}\n"
    " ROOT r = f32[400,200] reduce-scatter(g), replica_groups={}, dimensions={1}, to_apply=add }",
    "HloModule m, replica_count=4\nENTRY e { x = f32[400,400] parameter(0)\n"
    " a = f32[400,400] all-to-all(x), replica_groups={}, dimensions={0}\n"
    " ROOT r = f32[400,400] collective-permute(a), source_target_pairs={{0,1},{1,2},{2,3},{3,0}} }",
};

static HloStatus compare_results(const char *text, HloLiteral *const *alone, HloLiteral *const *together,
                                 int64_t devices) {
    for (int64_t d = 0; d < devices; d++)
        if (together[d] && !hlo_literal_equal(together[d], alone[d]))
            return hlo_error(HLO_DATA_LOSS, "device %lld has other bits: %.300s", (long long)d, text);
    return HLO_SUCCESS;
}

// Runs a program in this process alone and as one of several.
static HloStatus run_both_ways(TargetClient *alone, TargetClient *together, const char *text, uint64_t seed) {
    HloText message = {0};
    HloModule *module = compiled_parse(text, &message);
    if (!module) return hlo_error(HLO_INTERNAL, "%s", message.data);
    enum { kMostDevices = 64 };
    HloLiteral *results[2][kMostDevices] = {0};
    CompiledCheck check = {.client = alone, .seed = seed, .allow_fallback = true};
    const int64_t devices = (module->replica_count > 0 ? module->replica_count : 1) *
                            (module->num_partitions > 0 ? module->num_partitions : 1);
    const bool alone_ok = compiled_run(module, &check, results[0], &message);
    check.client = together;
    const bool together_ok = compiled_run(module, &check, results[1], &message);
    HloStatus status = HLO_SUCCESS;
    if (alone_ok != together_ok) status = hlo_error(HLO_DATA_LOSS, "only one way fails: %s", message.data);
    if (!status && alone_ok) status = compare_results(text, results[0], results[1], devices);
    for (int64_t d = 0; d < devices; d++) {
        hlo_literal_free(results[0][d]);
        hlo_literal_free(results[1][d]);
    }
    hlo_text_free(&message);
    hlo_module_free(module);
    return status;
}

// Connects a client of as many host devices as there are processes, or `devices`.
static HloStatus connect_client(Transport *transport, int64_t devices, TargetClient **client) {
    enum { kMostDevices = 64 };
    int64_t processes[kMostDevices];
    char spec[16];
    for (int64_t d = 0; d < devices; d++) processes[d] = d % transport_process_count(transport);
    snprintf(spec, sizeof spec, "cpu:%d", (int)devices);
    HLO_TRY(target_client_new_with_threads(spec, 1, client));
    return target_client_connect(*client, transport, &(TargetConnectOptions){.process_indices = processes});
}

// Programs of fewer devices than processes run in some processes only, which other tests do.
static HloStatus run_programs(Transport *transport) {
    TargetClient *alone = NULL, *together = NULL;
    HLO_TRY(connect_client(transport, 8, &together));
    HloStatus status = target_client_new_with_threads("cpu:8", 1, &alone);
    for (size_t i = 0; i < HLO_COUNT_OF(kLarge) && !status; i++) status = run_both_ways(alone, together, kLarge[i], i);
    int found = 0;
    for (uint64_t seed = 0; found < kPrograms && !status; seed++) {
        HloText text = {0};
        random_devices_module(seed, 20, &text);
        if (strstr(text.data, "num_partitions=4") || strstr(text.data, "replica_count=4")) {
            status = run_both_ways(alone, together, text.data, seed);
            found++;
        }
        hlo_text_free(&text);
    }
    target_client_leave(together);
    target_client_release(together);
    target_client_release(alone);
    return status;
}

Test(transport_programs, have_the_same_bits, .timeout = 300) {
    Processes processes;
    prepare_processes(&processes, kProcessCount, run_programs);
    processes.body_releases = true;
    start_processes(&processes);
    for (int64_t i = 0; i < kProcessCount; i++) cr_expect_str_eq(await_report(&processes, i, 120), "");
}

// ---- failures

static const char kSum[] = "HloModule sum, replica_count=4\n" ADD
                           "ENTRY e { x = f32[300007] parameter(0)\n"
                           " ROOT r = f32[300007] all-reduce(x), replica_groups={}, to_apply=add }";

// The result's error; its first element must be `expected` without one.
static HloStatus sum_once(TargetExecutable *executable, int64_t place, bool poisoned, float expected) {
    const HloShape *shape = target_executable_argument_shape(executable, 0);
    TargetMemory *memory = target_device_default_memory(target_executable_device(executable, place));
    TargetBuffer *argument = NULL, *result = NULL;
    float *data = malloc((size_t)hlo_shape_bytes(shape)), first = 0;
    for (int64_t i = 0; i < hlo_shape_elements(shape); i++) data[i] = (float)place;
    const TargetHostArray array = {.data = data, .type = HLO_F32, .rank = 1, .dims = shape->dims};
    if (poisoned)
        HLO_TRY(target_buffer_from_error(shape, memory, hlo_error(HLO_DATA_LOSS, "a bad argument"), &argument));
    else
        HLO_TRY(target_buffer_from_host(&array, memory, &argument));
    free(data);
    TargetBuffer *const *arguments[kProcessCount] = {0};
    TargetBuffer **results[kProcessCount] = {0};
    arguments[place] = &argument;
    results[place] = &result;
    HloStatus status = target_execute(executable, NULL, arguments, 1, results, NULL);
    if (!status) status = target_buffer_to_host_raw(result, &first, 0, sizeof first);
    if (!status && first != expected) status = hlo_error(HLO_INTERNAL, "the sum is %g", (double)first);
    target_buffer_release(argument);
    target_buffer_release(result);
    return status;
}

static HloStatus compile_sum(TargetClient *client, TargetExecutable **executable) {
    HloText message = {0};
    HloModule *module = compiled_parse(kSum, &message);
    if (!module) return hlo_error(HLO_INTERNAL, "%s", message.data);
    const HloStatus status = target_compile(client, module, NULL, executable);
    hlo_module_free(module);
    return status;
}

// Process 2 fails in every second launch, while the others' messages to it are under way.
static HloStatus fail_sometimes(Transport *transport) {
    enum { kLaunches = 13 };
    const int64_t own = transport_process_index(transport);
    TargetClient *client = NULL;
    TargetExecutable *executable = NULL;
    HLO_TRY(connect_client(transport, kProcessCount, &client));
    HLO_TRY(compile_sum(client, &executable));
    HloStatus status = HLO_SUCCESS;
    for (int i = 0; i < kLaunches && !status; i++) {
        status = sum_once(executable, own, own == 2 && i % 2, 6);
        if (i % 2 == 0) continue;
        const bool expected = hlo_status_code(status) == HLO_DATA_LOSS &&
                              strstr(hlo_status_message(status), "a bad argument") &&
                              (own == 2 || strstr(hlo_status_message(status), "process 2"));
        const HloStatus wrong =
            expected ? HLO_SUCCESS : hlo_error(HLO_INTERNAL, "launch %d: '%s'", i, hlo_status_message(status));
        hlo_status_free(status);
        status = wrong;
    }
    target_executable_release(executable);
    target_client_leave(client);
    target_client_release(client);
    return status;
}

Test(transport_programs, go_on_after_failures, .timeout = 300) {
    Processes processes;
    prepare_processes(&processes, kProcessCount, fail_sometimes);
    processes.body_releases = true;
    start_processes(&processes);
    for (int64_t i = 0; i < kProcessCount; i++) cr_expect_str_eq(await_report(&processes, i, 120), "");
}

#endif
