// SPDX-License-Identifier: Apache-2.0
// Failures between processes: each case ends with an error that names the process and the operation, in every process
// that takes part, and later launches work where they can.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hlo/base/clock.h"
#include "targets/cpu/run/hosts.h"
#include "tests/support/compiled.h"
#include "tests/support/hosts.h"
#include "transport/internal.h"

#define ADD "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
#define SUM(name, dims)                                                                                         \
    "HloModule " name ", replica_count=2\n" ADD "ENTRY e { x = f32[" dims "] parameter(0)\n ROOT r = f32[" dims \
    "] all-reduce(x), replica_groups={}, to_apply=add }"

enum { kMostResults = 2, kLine = 2048 };

// One launch of a program by a process: the error of its result, "" if there is none, "refused: …" if the launch itself
// was refused.
typedef struct Outcome {
    HloCode code;
    char text[kLine];
    float first;  // element of the first result
} Outcome;

static void note(Outcome *outcome, HloStatus status) {
    outcome->code = hlo_status_code(status);
    snprintf(outcome->text, sizeof outcome->text, "%s", hlo_status_message(status));
    hlo_status_free(status);
}

// Fails in the host's function if the process is `failing`, one of the host transfers' context.
static HloStatus fail_on_send(void *context, int64_t place, int64_t channel, const HloShape *shape, const void *data) {
    (void)place, (void)channel, (void)shape, (void)data;
    return *(const bool *)context ? hlo_error(HLO_DATA_LOSS, "the callback raises") : HLO_SUCCESS;
}

static HloStatus nothing_to_receive(void *context, int64_t place, int64_t channel, const HloShape *shape, void *data) {
    (void)context, (void)place, (void)channel, (void)shape, (void)data;
    return hlo_error(HLO_INTERNAL, "nothing to receive");
}

typedef struct Launch {
    const char *program;
    float value;             // of all elements of the arguments
    bool poisoned;           // the argument is an error
    bool raises;             // the host's function fails
    const int64_t *devices;  // of the assignment; NULL: the first
} Launch;

static TargetBuffer *argument_of(const TargetExecutable *executable, int64_t d, const Launch *launch) {
    TargetBuffer *buffer = NULL;
    const HloShape *shape = target_executable_argument_shape(executable, 0);
    TargetMemory *memory = target_device_default_memory(target_executable_device(executable, d));
    if (launch->poisoned) {
        must_succeed(target_buffer_from_error(shape, memory, hlo_error(HLO_DATA_LOSS, "a bad argument"), &buffer));
        return buffer;
    }
    HloLiteral *literal = hlo_literal_new(shape);
    for (int64_t i = 0; i < hlo_shape_elements(shape); i++)
        hlo_literal_set_double(literal, i, (double)launch->value + (double)d);
    must_succeed(target_buffer_from_literal(literal, memory, &buffer));
    hlo_literal_free(literal);
    return buffer;
}

static void read_result(TargetBuffer *buffer, Outcome *outcome) {
    HloLiteral *literal = NULL;
    note(outcome, target_buffer_to_literal(buffer, &literal));
    if (literal) outcome->first = (float)hlo_literal_get_double(literal, 0);
    hlo_literal_free(literal);
}

// Runs a program of one argument on the process's only device of it.
static void launch_once(TargetClient *client, const Launch *launch, Outcome *outcome) {
    const TargetCompileOptions options = {.device_assignment = launch->devices};
    TargetExecutable *executable = compiled_must_compile(client, launch->program, &options);
    enum { kMostDevices = 8 };
    TargetBuffer *arguments[kMostDevices] = {0}, *results[kMostDevices][kMostResults] = {0};
    TargetBuffer *const *inputs[kMostDevices] = {0};
    TargetBuffer **outputs[kMostDevices] = {0};
    int64_t here = -1;
    for (int64_t d = 0; d < target_executable_device_count(executable); d++) {
        if (!target_device_is_local(target_executable_device(executable, d))) continue;
        here = d;
        arguments[d] = argument_of(executable, d, launch);
        inputs[d] = &arguments[d];
        outputs[d] = results[d];
    }
    bool raises = launch->raises;
    const TargetHostTransfers transfers = {fail_on_send, nothing_to_receive, NULL, &raises};
    const TargetExecuteOptions execute = {.transfers = &transfers};
    HloStatus status = target_execute(executable, &execute, inputs, 1, outputs, NULL);
    if (status)
        note(outcome, status);
    else
        read_result(results[here][0], outcome);
    for (int64_t d = 0; d < kMostDevices; d++) {
        target_buffer_release(arguments[d]);
        for (int i = 0; i < kMostResults; i++) target_buffer_release(results[d][i]);
    }
    target_executable_release(executable);
}

enum { kMostLaunches = 4 };

// What each process launches, in order.
typedef struct Script {
    Launch launches[kMostHosts][kMostLaunches];  // up to the first without a program
    Outcome outcomes[kMostHosts][kMostLaunches];
    bool leaves[kMostHosts];  // afterwards
} Script;

static void play(Hosts *hosts, int64_t process, void *context) {
    Script *script = context;
    for (int i = 0; i < kMostLaunches && script->launches[process][i].program; i++)
        launch_once(hosts->clients[process], &script->launches[process][i], &script->outcomes[process][i]);
    if (!script->leaves[process]) return;
    target_client_release(hosts->clients[process]);
    hosts->clients[process] = NULL;
}

// Plays the script on so many processes of a device each.
static void play_on(int64_t processes, double timeout, Script *script) {
    Hosts hosts;
    hosts_new(&hosts, processes, processes, HOSTS_IN_ROWS, 1, timeout);
    hosts_run(&hosts, play, script);
    hosts_free(&hosts);
}

static void expect(const Outcome *outcome, HloCode code, const char *words) {
    cr_expect_eq(outcome->code, code, "%s: %s", hlo_code_name(outcome->code), outcome->text);
    cr_expect(strstr(outcome->text, words), "no '%s' in: %s", words, outcome->text);
}

// ---- programs that differ

Test(hosts_failures, another_program) {
    Script script = {
        .launches = {{{.program = SUM("first", "8"), .value = 1}}, {{.program = SUM("second", "8"), .value = 1}}}};
    play_on(2, 30, &script);
    for (int p = 0; p < 2; p++) {
        expect(&script.outcomes[p][0], HLO_FAILED_PRECONDITION, "different programs");
        expect(&script.outcomes[p][0], HLO_FAILED_PRECONDITION, "first");
        expect(&script.outcomes[p][0], HLO_FAILED_PRECONDITION, "second");
    }
}

Test(hosts_failures, another_shape) {
    Script script = {
        .launches = {{{.program = SUM("step", "8"), .value = 1}}, {{.program = SUM("step", "9"), .value = 1}}}};
    play_on(2, 30, &script);
    for (int p = 0; p < 2; p++) expect(&script.outcomes[p][0], HLO_FAILED_PRECONDITION, "both called step");
}

Test(hosts_failures, other_devices) {
    static const int64_t kSwapped[] = {1, 0};
    Script script = {.launches = {{{.program = SUM("step", "8"), .value = 1}},
                                  {{.program = SUM("step", "8"), .value = 1, .devices = kSwapped}}}};
    play_on(2, 30, &script);
    for (int p = 0; p < 2; p++) expect(&script.outcomes[p][0], HLO_FAILED_PRECONDITION, "both called step");
}

Test(hosts_failures, another_order) {
    const Launch first = {.program = SUM("first", "8"), .value = 1},
                 second = {.program = SUM("second", "8"), .value = 1}, both = {.program = SUM("both", "8"), .value = 1};
    Script script = {.launches = {{both, first, second}, {both, second, first}}};
    play_on(2, 30, &script);
    for (int p = 0; p < 2; p++) {
        expect(&script.outcomes[p][0], HLO_OK, "");
        expect(&script.outcomes[p][1], HLO_FAILED_PRECONDITION, "launch 2");
        expect(&script.outcomes[p][2], HLO_FAILED_PRECONDITION, "different programs");
    }
}

// ---- failures of one process

static const char kCallback[] = "HloModule callback, replica_count=2\n" ADD
                                "ENTRY e { x = f32[8] parameter(0)  t = token[] after-all()\n"
                                " s = (f32[8], u32[], token[]) send(x, t), channel_id=7, is_host_transfer=true\n"
                                " d = token[] send-done(s), channel_id=7, is_host_transfer=true\n"
                                " y = f32[8] all-reduce(x), replica_groups={}, to_apply=add, control-predecessors={d}\n"
                                " ROOT r = f32[8] copy(y) }";

// The large all-reduce leaves messages under way that no one receives.
Test(hosts_failures, later_launches_work) {
    const Launch sum = {.program = SUM("sum", "8"), .value = 1},
                 large = {.program = SUM("large", "300000"), .value = 1};
    Launch raising = {.program = kCallback, .value = 1}, poisoned = large;
    Script script = {.launches = {{sum, raising, large, sum}, {sum, raising, large, sum}}};
    script.launches[0][1].raises = true;
    poisoned.poisoned = true;
    script.launches[1][2] = poisoned;
    play_on(2, 30, &script);
    for (int p = 0; p < 2; p++) {
        expect(&script.outcomes[p][0], HLO_OK, "");
        expect(&script.outcomes[p][1], HLO_DATA_LOSS, "the callback raises");
        expect(&script.outcomes[p][2], HLO_DATA_LOSS, "a bad argument");
        expect(&script.outcomes[p][3], HLO_OK, "");
        cr_expect_eq(script.outcomes[p][3].first, 3);
    }
    expect(&script.outcomes[1][1], HLO_DATA_LOSS, "process 0");
    expect(&script.outcomes[0][2], HLO_DATA_LOSS, "process 1");
}

// Processes 0 and 2 have nothing in common but process 1.
Test(hosts_failures, spread_along_a_chain) {
    static const char kChain[] =
        "HloModule chain, replica_count=3\n"
        "ENTRY e { x = f32[8] parameter(0)  t = token[] after-all()\n"
        " s = (f32[8], u32[], token[]) send(x, t), channel_id=7, is_host_transfer=true\n"
        " d = token[] send-done(s), channel_id=7, is_host_transfer=true\n"
        " y = f32[8] collective-permute(x), source_target_pairs={{2,1}}, control-predecessors={d}\n"
        " ROOT r = f32[8] collective-permute(y), source_target_pairs={{1,0}} }";
    const Launch launch = {.program = kChain, .value = 1};
    Script script = {.launches = {{launch, launch}, {launch, launch}, {launch, launch}}};
    script.launches[2][0].raises = true;
    play_on(3, 30, &script);
    for (int p = 0; p < 3; p++) {
        expect(&script.outcomes[p][0], HLO_DATA_LOSS, "the callback raises");
        expect(&script.outcomes[p][1], HLO_OK, "");
    }
    expect(&script.outcomes[0][0], HLO_DATA_LOSS, "process 2");
    cr_expect_eq(script.outcomes[0][1].first, 3);
}

// ---- processes that do not come

Test(hosts_failures, a_process_that_leaves) {
    Script script = {.launches = {{{.program = SUM("sum", "8"), .value = 1}}}};
    script.leaves[1] = true;
    play_on(2, 30, &script);
    expect(&script.outcomes[0][0], HLO_UNAVAILABLE, "process 1");
}

Test(hosts_failures, a_process_that_does_not_come) {
    Script script = {.launches = {{{.program = SUM("sum", "8"), .value = 1}}}};
    play_on(2, 0.3, &script);
    expect(&script.outcomes[0][0], HLO_DEADLINE_EXCEEDED, "waits at all-reduce %r for process 1");
    expect(&script.outcomes[0][0], HLO_DEADLINE_EXCEEDED, "in no launch");
}

// The value decides, so that the compiler cannot know.
static const char kBranches[] =
    "HloModule branches, replica_count=2\n" ADD
    "sum { x = f32[8] parameter(0)  ROOT r = f32[8] all-reduce(x), replica_groups={}, to_apply=add }\n"
    "swap { x = f32[8] parameter(0)  ROOT r = f32[8] collective-permute(x), source_target_pairs={{0,1},{1,0}} }\n"
    "none { ROOT x = f32[8] parameter(0) }\n"
    "ENTRY e { x = f32[8] parameter(0)  s = f32[1] slice(x), slice={[0:1]}  v = f32[] reshape(s)\n"
    " i = s32[] convert(v)  ROOT r = f32[8] conditional(i, x, x, x), branch_computations={sum, swap, none} }";

Test(hosts_failures, processes_that_wait_for_each_other) {
    Script script = {.launches = {{{.program = kBranches, .value = 0}},
                                  {{.program = kBranches, .value = 0}}}};  // process 1 has 0 + 1
    play_on(2, 4, &script);
    int found = 0;
    for (int p = 0; p < 2; p++) {
        expect(&script.outcomes[p][0], HLO_FAILED_PRECONDITION, "deadlock");
        found += strstr(script.outcomes[p][0].text, "all-reduce") != NULL;
        found += strstr(script.outcomes[p][0].text, "collective-permute") != NULL;
    }
    cr_expect_geq(found, 2, "%s", script.outcomes[0][0].text);
}

Test(hosts_failures, a_process_that_has_finished) {
    Script script = {.launches = {{{.program = kBranches, .value = 0}}, {{.program = kBranches, .value = 1}}}};
    play_on(2, 4, &script);
    expect(&script.outcomes[0][0], HLO_FAILED_PRECONDITION, "waits at all-reduce");
    expect(&script.outcomes[0][0], HLO_FAILED_PRECONDITION, "has finished");
    expect(&script.outcomes[1][0], HLO_OK, "");
}

// Processes 0 and 1 of three, with their launches of one program.
typedef struct Waiting {
    Transport *transports[3];
    CpuHosts *hosts[2];
    CpuSpan spans[2];
    int64_t peers[2];
    CpuLaunch *launches[2];
    CpuWaitReport reports[2];
    int64_t since;
} Waiting;

// Each waits for the other, at a place of its own.
static void start_waiting(Waiting *waiting) {
    must_succeed(transport_in_process(3, waiting->transports));
    for (int p = 0; p < 2; p++) {
        waiting->peers[p] = 1 - p;
        waiting->spans[p] = (CpuSpan){.process = p, .peer_count = 1, .peers = &waiting->peers[p]};
        waiting->reports[p] = (CpuWaitReport){
            .place_count = 1, .process_count = 1, .places = {p}, .processes = {1 - p}, .progress = 1, .is_complete = 1};
        must_succeed(cpu_hosts_new(waiting->transports[p], 0.5, &waiting->hosts[p]));
        must_succeed(cpu_launch_begin(waiting->hosts[p], &waiting->spans[p], "step", 7, &waiting->launches[p]));
    }
    waiting->since = hlo_clock_nanoseconds();
}

// One interval of a wait: what process 0 makes of the reports.
static HloStatus wait_on(Waiting *waiting) {
    usleep((useconds_t)(cpu_launch_report_interval(waiting->launches[0]) / 1000));
    for (int p = 0; p < 2; p++) cpu_launch_report(waiting->launches[p], &waiting->reports[p]);
    for (int p = 0; p < 2; p++) must_succeed(cpu_launch_poll(waiting->launches[p]));
    cpu_launch_probe(waiting->launches[0]);
    return cpu_launch_deadlock(waiting->launches[0], &waiting->reports[0], waiting->since, "waits");
}

static void wait_for_deadlock(Waiting *waiting) {
    HloStatus status = HLO_SUCCESS;
    for (int i = 0; i < 1000 && !status; i++) status = wait_on(waiting);
    must_fail(status, HLO_FAILED_PRECONDITION, "deadlock in launch 1, step: process 0");
}

static void stop_waiting(Waiting *waiting) {
    for (int p = 0; p < 2; p++) {
        cpu_launch_end(waiting->launches[p], NULL);
        cpu_hosts_free(waiting->hosts[p]);
    }
    for (int p = 0; p < 3; p++) transport_release(waiting->transports[p]);
}

// A process that was stopped in the middle of a message held up those between two others: they seemed to wait for each
// other, and their errors did not name it.
Test(hosts_failures, a_stopped_process_is_no_deadlock) {
    enum { kIntervals = 8 };
    Waiting waiting = {0};
    start_waiting(&waiting);
    transport_in_process_mute(waiting.transports[2], true);
    for (int i = 0; i < kIntervals; i++) must_succeed(wait_on(&waiting));
    HloText silent = {0};
    cpu_launch_print_silent(waiting.launches[0], &silent);
    cr_expect(silent.data && strncmp(silent.data, "process 2 (", 11) == 0, "%s", silent.data ? silent.data : "");
    cr_expect_null(strstr(silent.data, "process 1"));
    hlo_text_free(&silent);
    transport_in_process_mute(waiting.transports[2], false);
    wait_for_deadlock(&waiting);
    stop_waiting(&waiting);
}

// While a process gets further, it is none.
Test(hosts_failures, progress_is_no_deadlock) {
    enum { kIntervals = 8 };
    Waiting waiting = {0};
    start_waiting(&waiting);
    for (int i = 0; i < kIntervals; i++) {
        waiting.reports[1].progress++;
        must_succeed(wait_on(&waiting));
    }
    wait_for_deadlock(&waiting);
    stop_waiting(&waiting);
}

// Process 0 waits for process 1, which waits for process 2.
Test(hosts_failures, a_stopped_process_is_named_by_all) {
    static const char kChain[] =
        "HloModule chain, replica_count=3\nENTRY e { x = f32[8] parameter(0)\n"
        " y = f32[8] collective-permute(x), source_target_pairs={{2,1}}\n"
        " ROOT r = f32[8] collective-permute(y), source_target_pairs={{1,0}} }";
    Script script = {.launches = {{{.program = kChain, .value = 1}}, {{.program = kChain, .value = 1}}}};
    Hosts hosts;
    hosts_new(&hosts, 3, 3, HOSTS_IN_ROWS, 1, 0.5);
    transport_in_process_mute(hosts.transports[2], true);
    hosts_run(&hosts, play, &script);
    for (int p = 0; p < 2; p++) {
        expect(&script.outcomes[p][0], HLO_DEADLINE_EXCEEDED, "process 2 (in-process) has not answered for");
        expect(&script.outcomes[p][0], HLO_DEADLINE_EXCEEDED, "has waited 0.5 s");
    }
    hosts_free(&hosts);
}

// ---- what is not here

Test(hosts_failures, memory_of_another_process) {
    Hosts hosts;
    TargetBuffer *buffer = NULL, *copy = NULL;
    hosts_new(&hosts, 2, 2, HOSTS_IN_ROWS, 1, 0);
    TargetClient *client = hosts.clients[1];
    TargetMemory *mine = target_device_default_memory(target_client_device(client, 1));
    TargetMemory *theirs = target_device_default_memory(target_client_device(client, 0));
    const float value = 1;
    const TargetHostArray array = {.data = &value, .type = HLO_F32};
    must_fail(target_buffer_from_host(&array, theirs, &buffer), HLO_UNIMPLEMENTED, "belongs to process 0");
    must_succeed(target_buffer_from_host(&array, mine, &buffer));
    must_fail(target_buffer_copy_to_memory(buffer, theirs, &copy), HLO_UNIMPLEMENTED, "belongs to process 0");
    target_buffer_release(buffer);
    hosts_free(&hosts);
}

Test(hosts_failures, no_device_here) {
    static const char kAlone[] = "HloModule alone\nENTRY e { x = f32[8] parameter(0)  ROOT r = f32[8] negate(x) }";
    static const int64_t kFirst[] = {0};
    Script script = {.launches = {{{.program = kAlone, .value = 5, .devices = kFirst}},
                                  {{.program = kAlone, .value = 5, .devices = kFirst}}}};
    play_on(2, 1, &script);
    expect(&script.outcomes[0][0], HLO_OK, "");
    cr_expect_eq(script.outcomes[0][0].first, -5);
    expect(&script.outcomes[1][0], HLO_INVALID_ARGUMENT, "runs on no device of process 1");
}

// A program that exchanges nothing needs no other process.
Test(hosts_failures, a_program_without_messages) {
    static const char kApart[] =
        "HloModule apart, replica_count=2\nENTRY e { x = f32[8] parameter(0)  ROOT r = f32[8] negate(x) }";
    Script script = {.launches = {{{.program = kApart, .value = 5}, {.program = kApart, .value = 6}}}};
    play_on(2, 0.5, &script);
    expect(&script.outcomes[0][1], HLO_OK, "");
    cr_expect_eq(script.outcomes[0][1].first, -6);
}

Test(hosts_failures, a_channel_without_pairs) {
    static const char kOpen[] =
        "HloModule open, num_partitions=2\nENTRY e { x = f32[8] parameter(0)  t = token[] after-all()\n"
        " r = (f32[8], u32[], token[]) recv(t), channel_id=1\n"
        " s = (f32[8], u32[], token[]) send(x, t), channel_id=1, control-predecessors={r}\n"
        " d = (f32[8], token[]) recv-done(r), channel_id=1\n e = token[] send-done(s), channel_id=1\n"
        " ROOT y = f32[8] get-tuple-element(d), index=0 }";
    Hosts hosts;
    TargetExecutable *executable = NULL;
    hosts_new(&hosts, 2, 2, HOSTS_IN_ROWS, 1, 0);
    HloModule *module = compiled_must_parse(kOpen);
    HloStatus status = target_compile(hosts.clients[0], module, NULL, &executable);
    cr_expect(hlo_status_code(status) == HLO_UNIMPLEMENTED || hlo_status_code(status) == HLO_FAILED_PRECONDITION, "%s",
              hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
    hosts_free(&hosts);
}

// Every process must have a device, and every device a process.
Test(hosts_failures, processes_without_devices) {
    Transport *transports[3];
    TargetClient *client;
    must_succeed(transport_in_process(3, transports));
    must_succeed(target_client_new("cpu:2", &client));
    static const int64_t kTooHigh[] = {0, 3}, kNotAll[] = {0, 1};
    must_fail(target_client_connect(client, transports[0], NULL), HLO_INVALID_ARGUMENT, "process 1 of 3 has no device");
    must_fail(target_client_connect(client, transports[0], &(TargetConnectOptions){.process_indices = kTooHigh}),
              HLO_INVALID_ARGUMENT, "belongs to process 3");
    must_fail(target_client_connect(client, transports[0], &(TargetConnectOptions){.process_indices = kNotAll}),
              HLO_INVALID_ARGUMENT, "process 2 of 3 has no device");
    target_client_release(client);
    for (int p = 0; p < 3; p++) transport_release(transports[p]);
}
