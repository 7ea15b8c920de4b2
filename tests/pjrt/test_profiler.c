// SPDX-License-Identifier: Apache-2.0
// Profiles: what devices do between start and stop is in the XSpace.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/proto/wire.h"
#include "pjrt/extensions.h"
#include "tests/pjrt/harness.h"

static const PjrtProfilerApi *profiler_api(void) {
    for (PjrtExtension *at = harness_api()->extension_start; at; at = at->next)
        if (at->type == PJRT_EXTENSION_PROFILER) return ((PjrtProfilerExtension *)(void *)at)->api;
    cr_assert_fail("there is no profiler");
    return NULL;
}

static void run_once(PjrtClient *client, const char *name) {
    char text[256];
    snprintf(text, sizeof(text),
             "HloModule %s\nENTRY e {\n p = f32[2,3] parameter(0)\n ROOT doubled = f32[2,3] add(p, p)\n}\n", name);
    PjrtLoadedExecutable *executable = harness_compile_text(client, text);
    PjrtBuffer *argument = harness_numbers(client, 0, 2, 3, 1), *result = NULL;
    harness_must(harness_launch(executable, argument, NULL, NULL, &result), "Execute");
    float numbers[6];
    harness_read(result, numbers, 6);
    harness_destroy_buffer(argument);
    harness_destroy_buffer(result);
    harness_destroy_executable(executable);
}

static bool contains(const PjrtProfilerCollectArgs *bytes, const char *word) {
    const size_t length = strlen(word);
    for (size_t i = 0; i + length <= bytes->buffer_size_in_bytes; i++)
        if (memcmp(bytes->buffer + i, word, length) == 0) return true;
    return false;
}

static PjrtProfiler *new_profiler(const char *options) {
    PjrtProfilerCreateArgs create = {.options = options, .options_size = strlen(options)};
    harness_must(profiler_api()->create(&create), "create");
    return create.profiler;
}

Test(pjrt_profiler, tells_what_devices_did) {
    const PjrtProfilerApi *api = profiler_api();
    cr_assert_eq(api->struct_size, 80);
    PjrtClient *client = harness_client("v2-8");
    PjrtProfilerArgs profiler = {.profiler = new_profiler("")}, other = {.profiler = new_profiler("")};
    run_once(client, "too_early");
    harness_must(api->start(&profiler), "start");
    harness_refused(api->start(&other), 9, "another profiling session");
    run_once(client, "in_time");
    harness_must(api->stop(&profiler), "stop");
    run_once(client, "too_late");
    PjrtProfilerCollectArgs bytes = {.profiler = profiler.profiler};
    harness_must(api->collect_data(&bytes), "collect_data");
    cr_expect(contains(&bytes, "/device:TPU:0"));
    cr_expect(contains(&bytes, "in_time"));
    cr_expect(contains(&bytes, "doubled"));
    cr_expect(contains(&bytes, "XLA Modules"));
    cr_expect(!contains(&bytes, "too_early"));
    cr_expect(!contains(&bytes, "too_late"));
    // It is a message with one plane.
    HloWireReader reader = hlo_wire_reader(bytes.buffer, (HloSpan){bytes.buffer, bytes.buffer_size_in_bytes});
    HloWireField field;
    HloStatus status = NULL;
    int planes = 0;
    while (hlo_wire_next(&reader, &field, &status)) planes += field.number == 1;
    cr_expect(!status);
    cr_expect_eq(planes, 1);
    harness_must(api->destroy(&profiler), "destroy");
    harness_must(api->destroy(&other), "destroy");
    harness_destroy_client(client);
}

Test(pjrt_profiler, host_only_traces_have_no_devices) {
    const PjrtProfilerApi *api = profiler_api();
    PjrtClient *client = harness_client("v2-8");
    PjrtProfilerArgs profiler = {.profiler = new_profiler("b\x0ftpu_trace_mode\x11TRACE_ONLY_HOST")};
    harness_must(api->start(&profiler), "start");
    run_once(client, "unseen");
    harness_must(api->stop(&profiler), "stop");
    PjrtProfilerCollectArgs bytes = {.profiler = profiler.profiler};
    harness_must(api->collect_data(&bytes), "collect_data");
    cr_expect_eq(bytes.buffer_size_in_bytes, 0);
    harness_must(api->destroy(&profiler), "destroy");
    harness_destroy_client(client);
}
