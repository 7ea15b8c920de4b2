// SPDX-License-Identifier: Apache-2.0
// Launches over several processes: many in flight, donation, some processes only, traces and the contents of devices.
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/support/child.h"
#include "tests/support/compiled.h"
#include "tests/support/hosts.h"

enum { kProcesses = 3, kSteps = 40, kElements = 1000 };

static const char kStep[] =
    "HloModule step, replica_count=3, input_output_alias={ {}: (0, {}, may-alias) }\n"
    "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
    "ENTRY e { x = f32[1000] parameter(0)  s = f32[1000] all-reduce(x), replica_groups={}, to_apply=add\n"
    " c = f32[] constant(0.25)  q = f32[1000] broadcast(c), dimensions={}  ROOT r = f32[1000] multiply(s, q) }";

static const char kSwap[] =
    "HloModule swap, replica_count=2\nENTRY e { x = f32[1000] parameter(0)\n"
    " ROOT r = f32[1000] collective-permute(x), source_target_pairs={{0,1},{1,0}} }";

static TargetBuffer *new_buffer(TargetDevice *device, float value) {
    float data[kElements];
    for (int i = 0; i < kElements; i++) data[i] = value;
    const int64_t dims = kElements;
    const TargetHostArray array = {.data = data, .type = HLO_F32, .rank = 1, .dims = &dims};
    TargetBuffer *buffer = NULL;
    must_succeed(target_buffer_from_host(&array, target_device_default_memory(device), &buffer));
    return buffer;
}

static float read_first(TargetBuffer *buffer) {
    float value = 0;
    must_succeed(target_buffer_to_host_raw(buffer, &value, 0, sizeof value));
    return value;
}

// Launches on the process's device, number `place` of the program's. Takes the argument's reference.
static TargetBuffer *launch(TargetExecutable *executable, int64_t place, TargetBuffer *argument,
                            const TargetExecuteOptions *options) {
    TargetBuffer *const *arguments[kProcesses] = {0};
    TargetBuffer **results[kProcesses] = {0}, *result = NULL;
    arguments[place] = &argument;
    results[place] = &result;
    must_succeed(target_execute(executable, options, arguments, 1, results, NULL));
    target_buffer_release(argument);
    return result;
}

// ---- in flight

// Each step takes the last one's result, which may not be ready yet.
static void step_many_times(Hosts *hosts, int64_t process, void *context) {
    float *values = context;
    TargetExecutable *executable = compiled_must_compile(hosts->clients[process], kStep, NULL);
    TargetBuffer *buffer = new_buffer(target_client_device(hosts->clients[process], process), 1 + (float)process);
    for (int i = 0; i < kSteps; i++) buffer = launch(executable, process, buffer, NULL);
    values[process] = read_first(buffer);
    target_buffer_release(buffer);
    target_executable_release(executable);
}

Test(hosts_launches, many_in_flight) {
    float values[kProcesses] = {0}, expected = 6 * 0.25F;
    for (int i = 1; i < kSteps; i++) expected = (expected + expected + expected) * 0.25F;
    Hosts hosts;
    hosts_new(&hosts, kProcesses, kProcesses, HOSTS_IN_ROWS, 1, 60);
    hosts_run(&hosts, step_many_times, values);
    for (int p = 0; p < kProcesses; p++) cr_expect_eq(values[p], expected, "%g instead of %g", values[p], expected);
    hosts_free(&hosts);
}

// ---- some processes

// Processes 2 and 0 swap, then 0 and 1, while all take steps in between: each pair counts its own launches.
static void swap_in_pairs(Hosts *hosts, int64_t process, void *context) {
    float *values = context;
    TargetClient *client = hosts->clients[process];
    static const int64_t kPairs[2][2] = {{2, 0}, {0, 1}};
    TargetExecutable *step = compiled_must_compile(client, kStep, NULL), *swap[2];
    for (int i = 0; i < 2; i++)
        swap[i] = compiled_must_compile(client, kSwap, &(TargetCompileOptions){.device_assignment = kPairs[i]});
    TargetBuffer *buffer = new_buffer(target_client_device(client, process), 1 + (float)process);
    for (int i = 0; i < 2; i++) {
        for (int place = 0; place < 2; place++)
            if (kPairs[i][place] == process) buffer = launch(swap[i], place, buffer, NULL);
        if (i == 0) values[process] = read_first(buffer);
        target_buffer_release(launch(step, process, new_buffer(target_client_device(client, process), 1), NULL));
    }
    values[kProcesses + process] = read_first(buffer);
    target_buffer_release(buffer);
    target_executable_release(step);
    for (int i = 0; i < 2; i++) target_executable_release(swap[i]);
}

Test(hosts_launches, of_some_processes) {
    static const float kExpected[2 * kProcesses] = {3, 2, 1, 2, 3, 1};
    float values[2 * kProcesses] = {0};
    Hosts hosts;
    hosts_new(&hosts, kProcesses, kProcesses, HOSTS_IN_ROWS, 1, 60);
    hosts_run(&hosts, swap_in_pairs, values);
    for (int i = 0; i < 2 * kProcesses; i++) cr_expect_eq(values[i], kExpected[i], "%d: %g", i, values[i]);
    hosts_free(&hosts);
}

// ---- traces and meters

typedef struct Observed {
    _Atomic int events[kProcesses], elsewhere[kProcesses];  // by process: of its device, and of others
    int64_t bytes[kProcesses], others[kProcesses];
} Observed;

typedef struct Observer {
    Observed *observed;
    int64_t process;
} Observer;

static void count_event(void *context, const TargetDevice *device, const char *name, bool program, int64_t begin_ns,
                        int64_t end_ns) {
    const Observer *observer = context;
    cr_expect(begin_ns <= end_ns && name && (program || *name));
    atomic_fetch_add(target_device_is_local(device) ? &observer->observed->events[observer->process]
                                                    : &observer->observed->elsewhere[observer->process],
                     1);
}

static void observe(Hosts *hosts, int64_t process, void *context) {
    Observed *observed = context;
    TargetClient *client = hosts->clients[process];
    Observer observer = {observed, process};
    const TargetTrace trace = {count_event, NULL, &observer};
    const TargetExecuteOptions options = {.trace = &trace};
    TargetExecutable *executable = compiled_must_compile(client, kStep, NULL);
    TargetBuffer *result = launch(executable, process, new_buffer(target_client_device(client, process), 1), &options);
    must_succeed(target_buffer_to_host_raw(result, &(float){0}, 0, sizeof(float)));
    for (int64_t d = 0; d < kProcesses; d++) {
        TargetMemoryStatistics statistics;
        target_device_memory_statistics(target_client_device(client, d), &statistics);
        *(d == process ? &observed->bytes[process] : &observed->others[process]) += statistics.bytes_in_use;
    }
    target_buffer_release(result);
    target_executable_release(executable);
}

Test(hosts_launches, are_seen_where_they_run) {
    Observed observed = {0};
    Hosts hosts;
    hosts_new(&hosts, kProcesses, kProcesses, HOSTS_IN_ROWS, 1, 60);
    hosts_run(&hosts, observe, &observed);
    for (int p = 0; p < kProcesses; p++) {
        cr_expect_geq(observed.events[p], 3);  // the program, the all-reduce, the loop
        cr_expect_eq(observed.elsewhere[p], 0);
        cr_expect_eq(observed.bytes[p], (int64_t)(kElements * sizeof(float)), "%d bytes", (int)observed.bytes[p]);
        cr_expect_eq(observed.others[p], 0);
    }
    hosts_free(&hosts);
}

// ---- leaving

// Messages in flight arrive; later launches are refused, except those of programs without messages.
static void leave_early(Hosts *hosts, int64_t process, void *context) {
    float *values = context;
    TargetClient *client = hosts->clients[process];
    TargetDevice *device = target_client_device(client, process);
    TargetExecutable *executable = compiled_must_compile(client, kStep, NULL);
    TargetBuffer *last = launch(executable, process, new_buffer(device, 1 + (float)process), NULL);
    target_client_leave(client);
    values[process] = read_first(last);
    TargetBuffer *late = launch(executable, process, last, NULL);
    must_fail(target_buffer_to_host_raw(late, &(float){0}, 0, sizeof(float)), HLO_UNAVAILABLE, "has left");
    target_buffer_release(late);
    target_client_leave(client);
    cr_expect_eq(target_client_process_count(client), kProcesses);
    cr_expect(!target_device_is_local(target_client_device(client, (process + 1) % kProcesses)));
    target_executable_release(executable);
}

Test(hosts_launches, before_leaving) {
    float values[kProcesses] = {0};
    Hosts hosts;
    hosts_new(&hosts, kProcesses, kProcesses, HOSTS_IN_ROWS, 1, 60);
    hosts_run(&hosts, leave_early, values);
    for (int p = 0; p < kProcesses; p++) cr_expect_eq(values[p], 1.5F, "%g", values[p]);
    hosts_free(&hosts);
}

// ---- fork

typedef struct Launch {
    TargetExecutable *executable;
    TargetDevice *device;
    int64_t process;
} Launch;

static int launch_in_a_child(void *context) {
    const Launch *step = context;
    float value = 0;
    TargetBuffer *result = launch(step->executable, step->process, new_buffer(step->device, 1), NULL);
    const HloStatus status = target_buffer_to_host_raw(result, &value, 0, sizeof value);
    return hlo_status_code(status) == HLO_FAILED_PRECONDITION ? 7 : 1;
}

// The child of a fork is not a process of the machine; the parent continues.
static void fork_between(Hosts *hosts, int64_t process, void *context) {
    float *values = context;
    TargetClient *client = hosts->clients[process];
    TargetDevice *device = target_client_device(client, process);
    TargetExecutable *executable = compiled_must_compile(client, kStep, NULL);
    if (process == 0) cr_expect_eq(run_in_child(launch_in_a_child, &(Launch){executable, device, process}), 7);
    TargetBuffer *result = launch(executable, process, new_buffer(device, 1), NULL);
    must_succeed(target_buffer_to_host_raw(result, &values[process], 0, sizeof(float)));
    target_buffer_release(result);
    target_executable_release(executable);
}

Test(hosts_launches, not_in_the_child_of_a_fork) {
    float values[kProcesses] = {0};
    Hosts hosts;
    hosts_new(&hosts, kProcesses, kProcesses, HOSTS_IN_ROWS, 1, kChildTrials * kChildSeconds + 60);
    hosts_run(&hosts, fork_between, values);
    for (int p = 0; p < kProcesses; p++) cr_expect_eq(values[p], 0.75F, "%g", values[p]);
    hosts_free(&hosts);
}

// ---- who is who

Test(hosts_launches, devices_belong_to_processes) {
    Hosts hosts;
    hosts_new(&hosts, 2, 6, HOSTS_IN_TURN, 1, 0);
    for (int64_t p = 0; p < 2; p++) {
        TargetClient *client = hosts.clients[p];
        cr_expect_eq(target_client_process_count(client), 2);
        cr_expect_eq(target_client_process_index(client), p);
        cr_expect(strstr(target_client_process_name(client, 1), "process 1"));
        for (int64_t d = 0; d < 6; d++) {
            const TargetDevice *device = target_client_device(client, d);
            cr_expect_eq(device->process_index, d % 2);
            cr_expect_eq(device->local_hardware_id, d / 2);
            cr_expect_eq(target_device_is_local(device), d % 2 == p);
        }
    }
    hosts_free(&hosts);
}

// ---- on a device that the caller names

// The program's own device is that of process 0.
Test(hosts_launches, bug_a_program_of_one_device_on_another_one) {
    static const char kAlone[] =
        "HloModule alone\nENTRY e { x = f32[1000] parameter(0)  ROOT r = f32[1000] negate(x) }";
    Hosts hosts;
    hosts_new(&hosts, kProcesses, kProcesses, HOSTS_IN_ROWS, 1, 0);
    for (int64_t process = 0; process < kProcesses; process++) {
        TargetDevice *mine = target_client_device(hosts.clients[process], process);
        TargetExecutable *executable = compiled_must_compile(hosts.clients[process], kAlone, NULL);
        TargetBuffer *result =
            launch(executable, 0, new_buffer(mine, 7 + (float)process), &(TargetExecuteOptions){.device = mine});
        cr_expect_eq(read_first(result), -7 - (float)process);
        target_buffer_release(result);
        target_executable_release(executable);
    }
    hosts_free(&hosts);
}
