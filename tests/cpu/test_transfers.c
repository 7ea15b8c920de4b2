// SPDX-License-Identifier: Apache-2.0
// Transfers with the host: the values sent and received, the devices, the order, and the effects of errors.
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>

#include "spmd_partitioner/spmd.h"
#include "tests/support/compiled.h"

enum { kDevices = 8, kLog = 64 };

// A host that adds 100 to what it was sent last and logs who called.
typedef struct Host {
    float last[kDevices];
    atomic_int sends[kDevices], receives[kDevices];
    int64_t log[kLog];  // channels, in the order of calls (of programs of one device)
    atomic_int logged;
    atomic_int released;
    HloCode failure;  // of the next send
    TargetExecutable *nested;
} Host;

static HloStatus host_send(void *context, int64_t place, int64_t channel, const HloShape *shape, const void *data) {
    const int64_t bytes = hlo_shape_bytes(shape);
    Host *host = context;
    cr_assert_eq(bytes, (int64_t)sizeof(float));
    memcpy(&host->last[place], data, sizeof(float));
    atomic_fetch_add(&host->sends[place], 1);
    host->log[atomic_fetch_add(&host->logged, 1) % kLog] = channel;
    return host->failure ? hlo_error(host->failure, "the host does not want this") : HLO_SUCCESS;
}

static HloStatus host_receive(void *context, int64_t place, int64_t channel, const HloShape *shape, void *data) {
    const int64_t bytes = hlo_shape_bytes(shape);
    Host *host = context;
    const float answer = host->last[place] + 100;
    cr_assert_eq(bytes, (int64_t)sizeof(float));
    memcpy(data, &answer, sizeof answer);
    atomic_fetch_add(&host->receives[place], 1);
    host->log[atomic_fetch_add(&host->logged, 1) % kLog] = channel;
    return HLO_SUCCESS;
}

static void host_release(void *context) {
    atomic_fetch_add(&((Host *)context)->released, 1);
}

static TargetBuffer *scalar(TargetClient *client, int64_t device, float value) {
    const TargetHostArray array = {&value, HLO_F32, 0, NULL, NULL};
    TargetBuffer *buffer = NULL;
    must_succeed(
        target_buffer_from_host(&array, target_device_default_memory(target_client_device(client, device)), &buffer));
    return buffer;
}

// Runs a program of one scalar argument and one scalar result on `devices` devices.
static HloStatus run(TargetClient *client, TargetExecutable *executable, Host *host, int64_t devices, float argument,
                     float *results) {
    TargetBuffer *arguments[kDevices] = {0}, *buffers[kDevices] = {0};
    TargetBuffer *const *lists[kDevices] = {0};
    TargetBuffer **result_lists[kDevices] = {0};
    for (int64_t d = 0; d < devices; d++) {
        arguments[d] = scalar(client, d, argument + (float)d);
        lists[d] = &arguments[d];
        result_lists[d] = &buffers[d];
    }
    const TargetHostTransfers transfers = {host_send, host_receive, host_release, host};
    const TargetExecuteOptions options = {.transfers = host ? &transfers : NULL};
    HloStatus status = target_execute(executable, &options, lists, 1, result_lists, NULL);
    for (int64_t d = 0; d < devices; d++) {
        if (!status) status = target_buffer_to_host(buffers[d], &results[d], sizeof(float), NULL);
        target_buffer_release(arguments[d]);
        target_buffer_release(buffers[d]);
    }
    return status;
}

static TargetExecutable *compile(TargetClient *client, HloModule *module) {
    TargetExecutable *executable = NULL;
    must_succeed(target_compile(client, module, NULL, &executable));
    hlo_module_free(module);
    return executable;
}

static TargetClient *new_client(void) {
    TargetClient *client = NULL;
    must_succeed(target_client_new_with_threads("v2-8", 2, &client));
    return client;
}

#define ASK(annotation)                                                                       \
    " s = (f32[], u32[], token[]) send(p, t), channel_id=3, is_host_transfer=true" annotation \
    "\n"                                                                                      \
    " sd = token[] send-done(s), channel_id=3, is_host_transfer=true\n"                       \
    " r = (f32[], u32[], token[]) recv(sd), channel_id=4, is_host_transfer=true" annotation   \
    "\n"                                                                                      \
    " rd = (f32[], token[]) recv-done(r), channel_id=4, is_host_transfer=true\n"              \
    " g = f32[] get-tuple-element(rd), index=0\n"

static const char kAsk[] = "HloModule ask\nENTRY e {\n p = f32[] parameter(0)\n t = token[] after-all()\n" ASK(
    "") " ROOT a = f32[] add(g, p)\n}\n";

Test(transfers, a_program_waits_for_its_host) {
    TargetClient *client = new_client();
    TargetExecutable *executable = compile(client, compiled_must_parse(kAsk));
    cr_assert_eq(target_executable_transfer_count(executable), 2);
    bool to_host = false;
    cr_expect_eq(target_executable_transfer(executable, 0, &to_host), 3);
    cr_expect(to_host);
    cr_expect_eq(target_executable_transfer(executable, 1, &to_host), 4);
    cr_expect(!to_host);
    Host host = {0};
    float result = 0;
    must_succeed(run(client, executable, &host, 1, 5, &result));
    cr_expect_eq(result, 110);
    cr_expect_eq(host.log[0], 3);
    cr_expect_eq(host.log[1], 4);
    cr_expect_eq(host.released, 1);
    must_fail(run(client, executable, NULL, 1, 5, &result), HLO_INVALID_ARGUMENT, "channel 3");
    target_executable_release(executable);
    target_client_release(client);
}

// The results hold the callback's error; the next execution is none the worse.
Test(transfers, an_error_of_the_host_is_the_result) {
    TargetClient *client = new_client();
    TargetExecutable *executable = compile(client, compiled_must_parse(kAsk));
    Host host = {.failure = HLO_DATA_LOSS};
    float result = 0;
    must_fail(run(client, executable, &host, 1, 5, &result), HLO_DATA_LOSS, "does not want this");
    cr_expect_eq(host.receives[0], 0);
    host.failure = HLO_OK;
    must_succeed(run(client, executable, &host, 1, 6, &result));
    cr_expect_eq(result, 112);
    cr_expect_eq(host.released, 2);
    target_executable_release(executable);
    target_client_release(client);
}

Test(transfers, stay_in_order_in_loops) {
    static const char kLoop[] =
        "HloModule loop\n"
        "body {\n s0 = (f32[], token[]) parameter(0)\n p = f32[] get-tuple-element(s0), index=0\n"
        " t = token[] get-tuple-element(s0), index=1\n" ASK("")
        " t2 = token[] get-tuple-element(rd), index=1\n ROOT o = (f32[], token[]) tuple(g, t2)\n}\n"
        "condition {\n s0 = (f32[], token[]) parameter(0)\n p = f32[] get-tuple-element(s0), index=0\n"
        " c = f32[] constant(450)\n ROOT l = pred[] compare(p, c), direction=LT\n}\n"
        "ENTRY e {\n p = f32[] parameter(0)\n t = token[] after-all()\n i = (f32[], token[]) tuple(p, t)\n"
        " w = (f32[], token[]) while(i), condition=condition, body=body\n"
        " ROOT r = f32[] get-tuple-element(w), index=0\n}\n";
    TargetClient *client = new_client();
    TargetExecutable *executable = compile(client, compiled_must_parse(kLoop));
    Host host = {0};
    float result = 0;
    must_succeed(run(client, executable, &host, 1, 1, &result));
    cr_expect_eq(result, 501);
    cr_expect_eq(host.logged, 10);
    for (int i = 0; i < 10; i++) cr_expect_eq(host.log[i], i % 2 ? 4 : 3);
    target_executable_release(executable);
    target_client_release(client);
}

static TargetExecutable *partition(TargetClient *client, const char *annotation) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=8\nENTRY e {\n p = f32[] parameter(0), sharding={replicated}\n"
                    " t = token[] after-all()\n"
                    " s = (f32[], u32[], token[]) send(p, t), channel_id=3, is_host_transfer=true%s\n"
                    " sd = token[] send-done(s), channel_id=3, is_host_transfer=true\n"
                    " r = (f32[], u32[], token[]) recv(sd), channel_id=4, is_host_transfer=true%s\n"
                    " rd = (f32[], token[]) recv-done(r), channel_id=4, is_host_transfer=true\n"
                    " g = f32[] get-tuple-element(rd), index=0\n ROOT a = f32[] add(g, p), "
                    "sharding={replicated}\n}\n",
                    annotation, annotation);
    HloModule *module = compiled_must_parse(text.data), *partitioned = NULL;
    must_succeed(spmd_partition(module, NULL, &partitioned, NULL));
    hlo_module_free(module);
    hlo_text_free(&text);
    return compile(client, partitioned);
}

// {maximal device=5}: one device speaks, all get the answer.
Test(transfers, one_device_speaks_for_all) {
    TargetClient *client = new_client();
    TargetExecutable *executable = partition(client, ", sharding={maximal device=5}");
    Host host = {0};
    float results[kDevices];
    must_succeed(run(client, executable, &host, kDevices, 0, results));
    for (int d = 0; d < kDevices; d++) {
        cr_expect_eq(host.sends[d], d == 5);
        cr_expect_eq(host.receives[d], d == 5);
        cr_expect_eq(results[d], (float)(105 + d), "device %d: %g", d, (double)results[d]);
    }
    target_executable_release(executable);
    target_client_release(client);
}

Test(transfers, each_device_speaks_where_nothing_is_said) {
    TargetClient *client = new_client();
    TargetExecutable *executable = partition(client, "");
    Host host = {0};
    float results[kDevices];
    must_succeed(run(client, executable, &host, kDevices, 0, results));
    for (int d = 0; d < kDevices; d++) {
        cr_expect_eq(host.sends[d], 1);
        cr_expect_eq(results[d], (float)(100 + 2 * d));
    }
    target_executable_release(executable);
    target_client_release(client);
}

// A callback may run programs of the same client and wait for them, even when both block the queue.
static HloStatus nested_receive(void *context, int64_t place, int64_t channel, const HloShape *shape, void *data) {
    const int64_t bytes = hlo_shape_bytes(shape);
    Host *host = context;
    float answer = 0;
    must_succeed(run(target_executable_client(host->nested), host->nested, NULL, 1, host->last[place], &answer));
    (void)channel;
    memcpy(data, &answer, (size_t)bytes);
    return HLO_SUCCESS;
}

Test(transfers, callbacks_run_programs) {
    TargetClient *client = new_client();
    TargetExecutable *executable = compile(client, compiled_must_parse(kAsk));
    Host host = {.nested = compile(client, compiled_must_parse("HloModule twice\nENTRY e {\n p = f32[] parameter(0)\n"
                                                               " ROOT a = f32[] add(p, p)\n}\n"))};
    TargetBuffer *argument = scalar(client, 0, 7), *results[20];
    TargetBuffer *const *lists[1] = {&argument};
    const TargetHostTransfers transfers = {host_send, nested_receive, host_release, &host};
    const TargetExecuteOptions options = {.transfers = &transfers};
    for (int i = 0; i < 20; i++) {
        TargetBuffer **result_lists[1] = {&results[i]};
        must_succeed(target_execute(executable, &options, lists, 1, result_lists, NULL));
    }
    for (int i = 0; i < 20; i++) {
        float value = 0;
        must_succeed(target_buffer_to_host(results[i], &value, sizeof value, NULL));
        cr_expect_eq(value, 21);
        target_buffer_release(results[i]);
    }
    cr_expect_eq(host.released, 20);
    target_buffer_release(argument);
    target_executable_release(host.nested);
    target_executable_release(executable);
    target_client_release(client);
}

// Between devices (test_p2p.c) only the host would answer here.
Test(transfers, between_devices_need_another_end) {
    TargetClient *client = new_client();
    HloModule *module = compiled_must_parse(
        "HloModule m\nENTRY e {\n p = f32[] parameter(0)\n t = token[] after-all()\n"
        " ab = (f32[], u32[], token[]) recv(t), channel_id=3\n"
        " ROOT sd = (f32[], token[]) recv-done(ab), channel_id=3\n}\n");
    TargetExecutable *executable = NULL;
    must_fail(target_compile(client, module, NULL, &executable), HLO_FAILED_PRECONDITION, "recv-done %sd");
    hlo_module_free(module);
    target_client_release(client);
}

// A program of one device runs where the caller says.
Test(transfers, elsewhere_runs_on_another_device) {
    TargetClient *client = new_client();
    TargetExecutable *executable = compile(
        client,
        compiled_must_parse("HloModule twice\nENTRY e {\n p = f32[] parameter(0)\n ROOT a = f32[] add(p, p)\n}\n"));
    TargetBuffer *argument = scalar(client, 6, 7), *result = NULL;
    TargetBuffer *const *lists[1] = {&argument};
    TargetBuffer **result_lists[1] = {&result};
    TargetExecuteOptions options = {.device = target_client_device(client, 6)};
    must_succeed(target_execute(executable, &options, lists, 1, result_lists, NULL));
    cr_expect_eq(target_buffer_device(result), target_client_device(client, 6));
    float value = 0;
    must_succeed(target_buffer_to_host(result, &value, sizeof value, NULL));
    cr_expect_eq(value, 14);
    must_fail(target_execute(executable, NULL, lists, 1, result_lists, NULL), HLO_INVALID_ARGUMENT, "argument 0");
    target_buffer_release(result);
    target_buffer_release(argument);
    target_executable_release(executable);
    target_client_release(client);
}

// ---- infeed and outfeed

typedef struct Feeds {
    float next;
    float drained[8];
    int32_t counted;
    int count;
} Feeds;

static HloStatus drain(void *context, int64_t place, int64_t channel, const HloShape *shape, const void *data) {
    const int64_t bytes = hlo_shape_bytes(shape);
    Feeds *feeds = context;
    cr_expect_eq(place, 0);
    cr_expect_eq(channel, TARGET_CHANNEL_OUTFEED);
    if (bytes == (int64_t)sizeof(float)) memcpy(&feeds->drained[feeds->count++ % 8], data, sizeof(float));
    if (bytes == 2 * (int64_t)sizeof(int32_t)) memcpy(&feeds->counted, data, sizeof(int32_t));
    return HLO_SUCCESS;
}

static HloStatus feed(void *context, int64_t place, int64_t channel, const HloShape *shape, void *data) {
    const int64_t bytes = hlo_shape_bytes(shape);
    Feeds *feeds = context;
    cr_expect_eq(place, 0);
    cr_expect_eq(channel, TARGET_CHANNEL_INFEED);
    memset(data, 0, (size_t)bytes);
    feeds->next += 1;
    if (bytes == (int64_t)sizeof(float)) memcpy(data, &feeds->next, sizeof(float));
    return HLO_SUCCESS;
}

// Takes a number and a pair in each of three iterations, and returns running sums and the pair.
static const char kFeeds[] =
    "HloModule feeds\n"
    "on { s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(3)\n"
    " ROOT l = pred[] compare(i, n), direction=LT }\n"
    "round { s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " sum = f32[] get-tuple-element(s), index=1\n t = token[] after-all()\n"
    " in = ((f32[], s32[2]), token[]) infeed(t)\n data = (f32[], s32[2]) get-tuple-element(in), index=0\n"
    " x = f32[] get-tuple-element(data), index=0\n pair = s32[2] get-tuple-element(data), index=1\n"
    " more = f32[] add(sum, x)\n both = (f32[], s32[2]) tuple(more, pair)\n"
    " k = token[] get-tuple-element(in), index=1\n out = token[] outfeed(both, k), outfeed_shape=(f32[], s32[2])\n"
    " one = s32[] constant(1)\n j = s32[] add(i, one)\n ROOT r = (s32[], f32[]) tuple(j, more) }\n"
    "ENTRY e { p = f32[] parameter(0)\n z = s32[] constant(0)\n s = (s32[], f32[]) tuple(z, p)\n"
    " w = (s32[], f32[]) while(s), condition=on, body=round\n ROOT r = f32[] get-tuple-element(w), index=1 }\n";

Test(transfers, a_program_is_fed_and_drained) {
    TargetClient *client = new_client();
    TargetExecutable *executable = compile(client, compiled_must_parse(kFeeds));
    cr_expect_str_eq(target_executable_fallbacks(executable), "");
    Feeds feeds = {.counted = -1};
    const TargetHostTransfers transfers = {drain, feed, NULL, &feeds};
    const TargetExecuteOptions options = {.transfers = &transfers};
    TargetBuffer *argument = scalar(client, 0, 10), *result = NULL, *const * arguments[] = {&argument};
    TargetBuffer **results[] = {&result};
    must_fail(target_execute(executable, NULL, arguments, 1, results, NULL), HLO_INVALID_ARGUMENT,
              "no callback is registered for channel -1 (-1 is infeed");
    must_succeed(target_execute(executable, &options, arguments, 1, results, NULL));
    float sum = 0;
    must_succeed(target_buffer_to_host(result, &sum, sizeof sum, NULL));
    // Numbers 1, 3 and 5 (the pairs take 2, 4 and 6) on top of 10.
    cr_expect_float_eq(sum, 19, 1e-6);
    cr_expect_eq(feeds.count, 3);
    cr_expect_float_eq(feeds.drained[0], 11, 1e-6);
    cr_expect_float_eq(feeds.drained[2], 19, 1e-6);
    cr_expect_eq(feeds.counted, 0);
    target_buffer_release(argument);
    target_buffer_release(result);
    target_executable_release(executable);
    target_client_release(client);
}
