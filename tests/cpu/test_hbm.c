// SPDX-License-Identifier: Apache-2.0
// The meter of a device's HBM, and what happens when it is full: on a pod whose chips have 1 MiB each.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/compiled.h"

static const char kPod[] =
    "<tpupod version=\"1\">\n"
    " <chip kind=\"TPU v5 lite\" cores=\"1\" megacore=\"false\">\n"
    "  <hbm bytes=\"1048576\" usable=\"1048576\" bps=\"8.20e11\"/>\n"
    "  <core hz=\"1.5e9\"><mxu count=\"4\" dim=\"128\"/><vpu lanes=\"128\" sublanes=\"8\" alus=\"4\"/>"
    "<vmem bytes=\"65536\" bps=\"1.78e13\"/></core>\n"
    "  <peak dtype=\"bf16\" flops=\"1.97e14\"/></chip>\n"
    " <host bounds=\"2 2 1\" pcie_bps=\"1.5e10\" hwloc=\"host.xml\"/>\n"
    " <ici link_bps=\"5.5e10\" hop_ns=\"1000\" eff=\"0.9\" wrap=\"full-axis\"/>\n"
    " <slice name=\"four\" dims=\"2 2\" wrap=\"false false\"/>\n"
    " <dcn host_bps=\"2.5e10\" latency_ns=\"20000\"/>\n"
    "</tpupod>\n";

enum { kKibi = 1024, kQuarter = 256 * kKibi };

static TargetClient *new_client(void) {
    char path[] = "/tmp/meshlo-hbm-XXXXXX.xml";
    FILE *file = fdopen(mkstemps(path, 4), "w");
    fputs(kPod, file);
    fclose(file);
    TargetClient *client = NULL;
    must_succeed(target_client_new_with_threads(path, 2, &client));
    unlink(path);
    return client;
}

static TargetMemory *memory_at(TargetClient *client, int64_t device) {
    return target_device_default_memory(target_client_device(client, device));
}

static HloStatus array_of(TargetClient *client, int64_t device, int64_t bytes, TargetBuffer **buffer) {
    const int64_t count = bytes / (int64_t)sizeof(float);
    float *values = calloc((size_t)count, sizeof *values);
    const TargetHostArray array = {values, HLO_F32, 1, &count, NULL};
    const HloStatus status = target_buffer_from_host(&array, memory_at(client, device), buffer);
    free(values);
    return status;
}

static TargetBuffer *new_array(TargetClient *client, int64_t device, int64_t bytes) {
    TargetBuffer *buffer = NULL;
    must_succeed(array_of(client, device, bytes, &buffer));
    return buffer;
}

static int64_t in_use(TargetClient *client, int64_t device) {
    TargetMemoryStatistics statistics;
    target_device_memory_statistics(target_client_device(client, device), &statistics);
    return statistics.bytes_in_use;
}

static int64_t peak(TargetClient *client, int64_t device) {
    TargetMemoryStatistics statistics;
    target_device_memory_statistics(target_client_device(client, device), &statistics);
    return statistics.peak_bytes_in_use;
}

// On the first device. The call is done when it returns, and has given everything back.
static TargetBuffer *run(TargetClient *client, TargetExecutable *executable, TargetBuffer *argument) {
    TargetBuffer *result = NULL;
    TargetBuffer *const list[1] = {argument};
    TargetBuffer *const *const lists[1] = {list};
    TargetBuffer **const results[1] = {&result};
    must_succeed(target_execute(executable, NULL, lists, 1, results, NULL));
    target_client_synchronize(client);
    return result;
}

// Equal arrays share their bytes on this host; the meters of the other devices read zero.
Test(hbm, counts_a_replicated_array_on_each_device) {
    TargetClient *client = new_client();
    TargetBuffer *shards[4];
    for (int64_t d = 0; d < 4; d++) shards[d] = new_array(client, d, kQuarter);
    for (int64_t d = 0; d < 4; d++) cr_expect_eq(in_use(client, d), kQuarter, "device %lld", (long long)d);
    for (int64_t d = 0; d < 4; d++) target_buffer_release(shards[d]);
    for (int64_t d = 0; d < 4; d++) cr_expect_eq(in_use(client, d), 0, "device %lld", (long long)d);
    target_client_release(client);
}

Test(hbm, refuses_what_does_not_fit) {
    TargetClient *client = new_client();
    TargetBuffer *arrays[4], *fifth = NULL;
    for (int i = 0; i < 4; i++) arrays[i] = new_array(client, 1, kQuarter);
    must_fail(array_of(client, 1, 1536, &fifth), HLO_RESOURCE_EXHAUSTED,
              "Error allocating device buffer: Attempting to allocate 1.50K. That was not possible. There are 0B free");
    must_succeed(target_buffer_copy_to_memory(arrays[0], memory_at(client, 1), &fifth));
    must_fail(target_buffer_to_host_raw(fifth, NULL, 0, 0), HLO_RESOURCE_EXHAUSTED, "Attempting to allocate 256.00K");
    target_buffer_release(fifth);
    target_buffer_delete(arrays[3]);
    cr_expect_eq(in_use(client, 1), 3 * kQuarter);
    fifth = new_array(client, 1, kQuarter);
    target_buffer_release(fifth);
    for (int i = 0; i < 4; i++) target_buffer_release(arrays[i]);
    cr_expect_eq(in_use(client, 1), 0);
    cr_expect_eq(peak(client, 1), 4 * kQuarter);
    target_client_release(client);
}

// Host memory is not HBM.
Test(hbm, does_not_count_what_lies_on_the_host) {
    TargetClient *client = new_client();
    TargetBuffer *on_device = new_array(client, 0, 4 * kQuarter), *on_host = NULL;
    must_succeed(target_buffer_copy_to_memory(
        on_device, target_device_memory(target_client_device(client, 0), TARGET_MEMORY_PINNED_HOST), &on_host));
    cr_expect_eq(in_use(client, 0), 4 * kQuarter);
    target_buffer_release(on_device);
    cr_expect_eq(in_use(client, 0), 0);
    target_buffer_release(on_host);
    target_client_release(client);
}

static void keep(void *data, void *argument) {
    (void)data;
    ++*(int *)argument;
}

Test(hbm, counts_views_of_the_callers_memory) {
    static _Alignas(64) float values[256];
    const int64_t count = 256;
    const HloShape shape = {.type = HLO_F32, .rank = 1, .dims = &count};
    TargetClient *client = new_client();
    TargetBuffer *full = new_array(client, 0, 4 * kQuarter - (int64_t)sizeof values), *view = NULL, *second = NULL;
    int released = 0;
    must_succeed(target_buffer_view(&shape, memory_at(client, 0), values, keep, &released, &view));
    cr_expect_eq(in_use(client, 0), 4 * kQuarter);
    must_fail(target_buffer_view(&shape, memory_at(client, 0), values, keep, &released, &second),
              HLO_RESOURCE_EXHAUSTED, "Attempting to allocate 1.00K");
    cr_expect_eq(released, 0);
    target_buffer_release(view);
    cr_expect_eq(released, 1);
    target_buffer_release(full);
    cr_expect_eq(in_use(client, 0), 0);
    target_client_release(client);
}

// One array under two names is one array on a chip, and what fills a promise is not there twice.
Test(hbm, counts_bitcasts_and_kept_promises_once) {
    TargetClient *client = new_client();
    TargetBuffer *array = new_array(client, 0, 4 * kQuarter), *cast = NULL, *pending = NULL;
    const int64_t count = kQuarter;
    const HloShape words = {.type = HLO_U32, .rank = 1, .dims = &count};
    must_succeed(target_buffer_bitcast(array, &words, &cast));
    cr_expect_eq(in_use(client, 0), 4 * kQuarter);
    target_buffer_release(array);
    cr_expect_eq(in_use(client, 0), 4 * kQuarter);
    must_succeed(target_buffer_pending(&words, memory_at(client, 0), &pending));
    must_succeed(target_buffer_fulfil(pending, cast));
    target_buffer_release(cast);
    cr_expect_eq(in_use(client, 0), 4 * kQuarter);
    target_buffer_release(pending);
    cr_expect_eq(in_use(client, 0), 0);
    target_client_release(client);
}

static const char kNegate[] =
    "HloModule negate\nENTRY main {\n  p = f32[131072] parameter(0)\n  ROOT r = f32[131072] negate(p)\n}\n";
static const char kNegateInPlace[] =
    "HloModule negate_in_place, input_output_alias={ {}: (0, {}, must-alias) }\n"
    "ENTRY main {\n  p = f32[131072] parameter(0)\n  ROOT r = f32[131072] negate(p)\n}\n";
static const char kProducts[] =
    "HloModule products\nENTRY main {\n  p = f32[65536] parameter(0)\n  m = f32[256,256] reshape(p)\n"
    "  t = f32[256,256] dot(m, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  ROOT r = f32[256,256] dot(t, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";

// The error travels with the result, and nothing stays on the meter.
Test(hbm, refuses_results_that_find_no_room) {
    TargetClient *client = new_client();
    TargetExecutable *negate = compiled_must_compile(client, kNegate, NULL);
    TargetBuffer *argument = new_array(client, 0, 2 * kQuarter), *other = new_array(client, 0, kQuarter);
    float value;
    TargetBuffer *result = run(client, negate, argument);
    must_fail(target_buffer_to_host_raw(result, &value, 0, sizeof value), HLO_RESOURCE_EXHAUSTED,
              "Attempting to allocate 512.00K. That was not possible. There are 256.00K free");
    cr_expect_eq(in_use(client, 0), 3 * kQuarter);
    target_buffer_release(result);
    target_buffer_release(other);
    result = run(client, negate, argument);
    must_succeed(target_buffer_to_host_raw(result, &value, 0, sizeof value));
    cr_expect_eq(in_use(client, 0), 4 * kQuarter);
    target_buffer_release(result);
    target_buffer_release(argument);
    cr_expect_eq(in_use(client, 0), 0);
    target_executable_release(negate);
    target_client_release(client);
}

Test(hbm, donation_needs_no_second_room) {
    TargetClient *client = new_client();
    TargetExecutable *negate = compiled_must_compile(client, kNegateInPlace, NULL);
    TargetBuffer *argument = new_array(client, 0, 2 * kQuarter), *other = new_array(client, 0, 2 * kQuarter);
    TargetBuffer *result = run(client, negate, argument);
    float value;
    must_succeed(target_buffer_to_host_raw(result, &value, 0, sizeof value));
    cr_expect_eq(in_use(client, 0), 4 * kQuarter);
    cr_expect_eq(peak(client, 0), 4 * kQuarter);
    target_buffer_release(argument);
    target_buffer_release(other);
    cr_expect_eq(in_use(client, 0), 2 * kQuarter);
    target_buffer_release(result);
    cr_expect_eq(in_use(client, 0), 0);
    target_executable_release(negate);
    target_client_release(client);
}

// Temporaries are in HBM while the program runs: the peak shows them, and they need memory beside the arrays that are
// there.
Test(hbm, temporaries_need_memory_besides_the_arrays) {
    TargetClient *client = new_client();
    TargetExecutable *products = compiled_must_compile(client, kProducts, NULL);
    TargetBuffer *argument = new_array(client, 0, kQuarter);
    float value;
    TargetBuffer *result = run(client, products, argument);
    must_succeed(target_buffer_to_host_raw(result, &value, 0, sizeof value));
    cr_expect_eq(in_use(client, 0), 2 * kQuarter);
    cr_expect_geq(peak(client, 0), 3 * kQuarter);
    target_buffer_release(result);
    TargetBuffer *other = new_array(client, 0, 2 * kQuarter);
    result = run(client, products, argument);
    must_fail(target_buffer_to_host_raw(result, &value, 0, sizeof value), HLO_RESOURCE_EXHAUSTED,
              "Error loading program products: Attempting to reserve ");
    cr_expect_eq(in_use(client, 0), 3 * kQuarter);
    target_buffer_release(result);
    target_buffer_release(other);
    target_buffer_release(argument);
    cr_expect_eq(in_use(client, 0), 0);
    target_executable_release(products);
    target_client_release(client);
}
