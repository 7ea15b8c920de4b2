// SPDX-License-Identifier: Apache-2.0
// The states of a buffer: promised, filled, failed, renamed, copied, donated, deleted, released in any order.
// Questions that are asked before its content is there must get the answers that they get afterwards. In the child of a
// fork, and where the system gives no thread, content that can no longer come is an error.
#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "tests/cpu/increment.h"
#include "tests/support/cases.h"
#include "tests/support/child.h"
#include "tests/support/compiled.h"

static const int64_t kFour = 4;
static const HloShape kVector = {.type = HLO_F32, .rank = 1, .dims = &kFour};

// Two devices, and both programs on the first.
typedef struct Machine {
    TargetClient *client;
    TargetMemory *memory, *other;
    TargetExecutable *increment, *donated;
} Machine;

static Machine new_machine(void) {
    Machine machine = {0};
    must_succeed(target_client_new_with_threads("cpu:2", 2, &machine.client));
    machine.memory = target_device_default_memory(target_client_device(machine.client, 0));
    machine.other = target_device_default_memory(target_client_device(machine.client, 1));
    machine.increment = compiled_must_compile(machine.client, kIncrement, NULL);
    machine.donated = compiled_must_compile(machine.client, kDonated, NULL);
    return machine;
}

static void free_machine(const Machine *machine) {
    target_executable_release(machine->increment);
    target_executable_release(machine->donated);
    target_client_release(machine->client);
}

static TargetBuffer *numbers(const Machine *machine) {
    const float values[4] = {1, 2, 3, 4};
    const TargetHostArray array = {values, HLO_F32, 1, &kFour, NULL};
    TargetBuffer *buffer = NULL;
    must_succeed(target_buffer_from_host(&array, machine->memory, &buffer));
    return buffer;
}

static TargetBuffer *promised(const Machine *machine) {
    TargetBuffer *buffer = NULL;
    must_succeed(target_buffer_pending(&kVector, machine->memory, &buffer));
    return buffer;
}

static TargetBuffer *run(TargetExecutable *executable, TargetBuffer *argument) {
    TargetBuffer *result = NULL, *const list[1] = {argument};
    TargetBuffer *const *const lists[1] = {list};
    TargetBuffer **const results[1] = {&result};
    must_succeed(target_execute(executable, NULL, lists, 1, results, NULL));
    return result;
}

// ---- questions before the content is there

typedef enum Step { STEP_END, STEP_COPY, STEP_BACK, STEP_RENAME, STEP_RUN, STEP_DONATE } Step;

static TargetBuffer *take_step(const Machine *machine, Step step, TargetBuffer *buffer) {
    const HloShape bits = {.type = HLO_U32, .rank = 1, .dims = &kFour};
    TargetBuffer *result = NULL, *between = NULL;
    switch (step) {
        case STEP_COPY: must_succeed(target_buffer_copy_to_memory(buffer, machine->other, &result)); return result;
        case STEP_BACK: must_succeed(target_buffer_copy_to_memory(buffer, machine->memory, &result)); return result;
        case STEP_RENAME:
            must_succeed(target_buffer_bitcast(buffer, &bits, &between));
            must_succeed(target_buffer_bitcast(between, &kVector, &result));
            target_buffer_release(between);
            return result;
        case STEP_RUN: return run(machine->increment, buffer);
        case STEP_DONATE: return run(machine->donated, buffer);
        default: return NULL;
    }
}

static const struct {
    Step steps[5];
    float adds;
} ways[] = {
    {{STEP_COPY}, 0},
    {{STEP_RENAME}, 0},
    {{STEP_RUN}, 1},
    {{STEP_DONATE}, 1},
    {{STEP_RUN, STEP_RUN}, 2},
    {{STEP_RUN, STEP_DONATE}, 2},
    {{STEP_DONATE, STEP_DONATE}, 2},
    {{STEP_COPY, STEP_BACK, STEP_RUN}, 1},
    {{STEP_RENAME, STEP_RUN}, 1},
    {{STEP_RENAME, STEP_DONATE, STEP_COPY}, 1},
    {{STEP_DONATE, STEP_RENAME, STEP_COPY, STEP_BACK}, 1},
    {{STEP_RUN, STEP_COPY, STEP_BACK, STEP_DONATE, STEP_RENAME}, 2},
};

// How a promise ends.
typedef enum Ending { FILLED, FAILED, FILLED_WITH_ERROR, FILLED_LATER, ENDING_COUNT } Ending;

static void end_promise(const Machine *machine, Ending ending, TargetBuffer *promise) {
    if (ending == FAILED) {
        target_buffer_fail(promise, hlo_error(HLO_DATA_LOSS, "a lost shard"));
        return;
    }
    TargetBuffer *with = ending == FILLED ? numbers(machine) : NULL;
    if (ending == FILLED_LATER) with = promised(machine);
    if (ending == FILLED_WITH_ERROR)
        must_succeed(
            target_buffer_from_error(&kVector, machine->memory, hlo_error(HLO_DATA_LOSS, "a lost shard"), &with));
    must_succeed(target_buffer_fulfil(promise, with));
    if (ending == FILLED_LATER) {
        TargetBuffer *content = numbers(machine);
        must_succeed(target_buffer_fulfil(with, content));
        target_buffer_release(content);
    }
    target_buffer_release(with);
}

static void expect_end(TargetBuffer *buffer, Ending ending, float adds, int64_t way) {
    float values[4] = {0};
    HloStatus status = target_buffer_to_host(buffer, values, sizeof values, NULL);
    if (ending == FAILED || ending == FILLED_WITH_ERROR) {
        must_fail(status, HLO_DATA_LOSS, "a lost shard");
        return;
    }
    must_succeed(status);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(values[i], (float)(i + 1) + adds, "way %lld, ending %d: element %d is %g", (long long)way,
                     (int)ending, i, (double)values[i]);
}

CaseList(buffer_states, asked_early_is_asked_late) {
    return cases_numbered(HLO_COUNT_OF(ways) * ENDING_COUNT * 2);
}
CaseTest(const int *number, buffer_states, asked_early_is_asked_late, .timeout = 60) {
    const int64_t way = *number / (ENDING_COUNT * 2);
    const Ending ending = (Ending)(*number / 2 % ENDING_COUNT);
    const bool early = *number % 2;
    const Machine machine = new_machine();
    TargetBuffer *all[6] = {promised(&machine)};
    if (!early) end_promise(&machine, ending, all[0]);
    int last = 0;
    for (; last < 5 && ways[way].steps[last]; last++) {
        const bool donates = ways[way].steps[last] == STEP_DONATE;
        all[last + 1] = take_step(&machine, ways[way].steps[last], all[last]);
        cr_expect_eq(target_buffer_is_deleted(all[last]), donates, "way %lld, step %d", (long long)way, last);
    }
    TargetEvent *ready = target_buffer_ready_event(all[last]);
    if (early) end_promise(&machine, ending, all[0]);
    HloStatus status = target_event_wait(ready);
    cr_expect_eq(status != NULL, ending == FAILED || ending == FILLED_WITH_ERROR);
    hlo_status_free(status);
    target_event_release(ready);
    expect_end(all[last], ending, ways[way].adds, way);
    for (int i = 0; i <= last; i++) target_buffer_release(all[i]);
    free_machine(&machine);
}

// ---- questions to a deleted buffer

typedef HloStatus Question(const Machine *machine, TargetBuffer *buffer);

static HloStatus ask_copy_out(const Machine *machine, TargetBuffer *buffer) {
    float values[4];
    (void)machine;
    return target_buffer_to_host(buffer, values, sizeof values, NULL);
}
static HloStatus ask_copy_out_later(const Machine *machine, TargetBuffer *buffer) {
    static float values[4];
    TargetEvent *event = NULL;
    (void)machine;
    HloStatus status = target_buffer_to_host_async(buffer, values, sizeof values, NULL, &event);
    if (!status) target_event_release(event);
    return status;
}
static HloStatus ask_bytes(const Machine *machine, TargetBuffer *buffer) {
    char byte;
    (void)machine;
    return target_buffer_to_host_raw(buffer, &byte, 3, 1);
}
static HloStatus ask_literal(const Machine *machine, TargetBuffer *buffer) {
    HloLiteral *literal = NULL;
    (void)machine;
    HloStatus status = target_buffer_to_literal(buffer, &literal);
    if (!status) hlo_literal_free(literal);
    return status;
}
static HloStatus ask_address(const Machine *machine, TargetBuffer *buffer) {
    const void *data;
    (void)machine;
    return target_buffer_data(buffer, &data);
}
static HloStatus ask_copy(const Machine *machine, TargetBuffer *buffer) {
    TargetBuffer *copy = NULL;
    HloStatus status = target_buffer_copy_to_memory(buffer, machine->other, &copy);
    if (!status) target_buffer_release(copy);
    return status;
}
static HloStatus ask_name(const Machine *machine, TargetBuffer *buffer) {
    TargetBuffer *cast = NULL;
    (void)machine;
    HloStatus status = target_buffer_bitcast(buffer, &kVector, &cast);
    if (!status) target_buffer_release(cast);
    return status;
}
static HloStatus ask_run(const Machine *machine, TargetBuffer *buffer) {
    TargetBuffer *result = NULL, *const list[1] = {buffer};
    TargetBuffer *const *const lists[1] = {list};
    TargetBuffer **const results[1] = {&result};
    HloStatus status = target_execute(machine->increment, NULL, lists, 1, results, NULL);
    if (!status) target_buffer_release(result);
    return status;
}
static HloStatus ask_to_fill(const Machine *machine, TargetBuffer *buffer) {
    TargetBuffer *promise = promised(machine);
    HloStatus status = target_buffer_fulfil(promise, buffer);
    if (status) target_buffer_fail(promise, hlo_error(HLO_CANCELLED, "abandoned"));
    target_buffer_release(promise);
    return status;
}

static Question *const questions[] = {ask_copy_out, ask_copy_out_later, ask_bytes, ask_literal, ask_address,
                                      ask_copy,     ask_name,           ask_run,   ask_to_fill};

// Its content is gone; shape and sizes are still known. Requests succeed while the buffer exists and are refused once
// it is deleted or donated; nothing in between.
CaseList(buffer_states, deleted_ones_answer_nothing) {
    return cases_numbered(HLO_COUNT_OF(questions) * 2);
}
CaseTest(const int *number, buffer_states, deleted_ones_answer_nothing) {
    Question *ask = questions[*number / 2];
    const bool donated = *number % 2;
    const Machine machine = new_machine();
    TargetBuffer *buffer = numbers(&machine), *result = NULL;
    must_succeed(ask(&machine, buffer));
    if (donated) {
        result = run(machine.donated, buffer);
    } else {
        target_buffer_delete(buffer);
        target_buffer_delete(buffer);
    }
    cr_expect(target_buffer_is_deleted(buffer));
    must_fail(ask(&machine, buffer), HLO_INVALID_ARGUMENT, "deleted");
    target_buffer_release(buffer);
    target_buffer_release(result);
    free_machine(&machine);
}

// ---- everything may go in any order

CaseList(buffer_states, released_in_any_order) {
    return cases_numbered(24 * 2);
}
CaseTest(const int *number, buffer_states, released_in_any_order, .timeout = 60) {
    Machine machine = new_machine();
    TargetBuffer *promise = promised(&machine), *argument = run(machine.increment, promise);
    TargetBuffer *result = run(machine.donated, argument);
    TargetEvent *ready = target_buffer_ready_event(result);
    TargetBuffer *content = numbers(&machine);
    const bool early = *number % 2;  // everything is over before anything goes
    if (early) must_succeed(target_buffer_fulfil(promise, content));
    if (early) must_succeed(target_event_wait(ready));
    int order[4] = {0, 1, 2, 3};
    for (int i = 3, rest = *number / 2; i > 0; rest /= i + 1, i--) {
        const int with = rest % (i + 1), held = order[i];
        order[i] = order[with];
        order[with] = held;
    }
    for (int i = 0; i < 4; i++) {
        if (order[i] == 0) target_client_release(machine.client);
        if (order[i] == 1) target_executable_release(machine.increment);
        if (order[i] == 2) target_executable_release(machine.donated);
        if (order[i] == 3) target_buffer_release(argument);
    }
    if (!early) must_succeed(target_buffer_fulfil(promise, content));
    target_buffer_release(promise);
    target_buffer_release(content);
    must_succeed(target_event_wait(ready));
    target_event_release(ready);
    expect_end(result, FILLED, 2, -1);
    target_buffer_release(result);
}

// ---- bytes

// A number of a sequence that is the same on every machine (Knuth's MMIX generator).
static uint64_t below(uint64_t *random, uint64_t limit) {
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*random >> 33) % limit;
}

// An element of the host's array, wherever its strides say.
static void check_strides(TargetMemory *memory, HloType type, uint64_t *random) {
    static unsigned char host[1 << 16], back[1 << 16], want[1 << 16];
    const int64_t width = hlo_type_bytes(type), rank = (int64_t)below(random, 5);
    int64_t dims[4], strides[4], order[4], place = 0, step = width, count = 1;
    for (int64_t d = 0; d < rank; d++) order[d] = d, dims[d] = 1 + (int64_t)below(random, 5);
    for (int64_t d = rank - 1; d > 0; d--) {
        const int64_t with = (int64_t)below(random, (uint64_t)d + 1), held = order[d];
        order[d] = order[with];
        order[with] = held;
    }
    for (int64_t i = 0; i < rank; i++) {
        const int64_t d = order[i];
        count *= dims[d];
        step += width * (int64_t)below(random, 2);  // gaps
        strides[d] = step;
        step *= dims[d];
        if (below(random, 3) == 0) {  // backwards
            place += strides[d] * (dims[d] - 1);
            strides[d] = -strides[d];
        }
    }
    cr_assert_leq(step + place, (int64_t)sizeof host);
    for (size_t i = 0; i < sizeof host; i++) host[i] = (unsigned char)below(random, 256);
    for (int64_t e = 0; e < count; e++) {
        int64_t at = place, rest = e;
        for (int64_t d = rank - 1; d >= 0; rest /= dims[d--]) at += rest % dims[d] * strides[d];
        memcpy(want + e * width, host + at, (size_t)width);
    }
    const TargetHostArray array = {host + place, type, rank, dims, strides};
    TargetBuffer *buffer = NULL;
    must_succeed(target_buffer_from_host(&array, memory, &buffer));
    must_succeed(target_buffer_to_host(buffer, back, count * width, NULL));
    cr_expect_arr_eq(back, want, (size_t)(count * width), "%s of rank %lld", hlo_type_text(type), (long long)rank);
    // In another order of dimensions: each element is at its position in that order.
    must_succeed(target_buffer_to_host(buffer, back, count * width, order));
    for (int64_t e = 0; e < count; e++) {
        int64_t index[4], at = 0, dense = 1, rest = e;
        for (int64_t d = rank - 1; d >= 0; rest /= dims[d--]) index[d] = rest % dims[d];
        for (int64_t i = 0; i < rank; dense *= dims[order[i++]]) at += index[order[i]] * dense;
        cr_expect_arr_eq(back + at * width, want + e * width, (size_t)width, "%s, element %lld", hlo_type_text(type),
                         (long long)e);
    }
    // Any range of bytes equals that range of the dense array.
    const int64_t from = (int64_t)below(random, (uint64_t)(count * width)),
                  length = (int64_t)below(random, (uint64_t)(count * width - from) + 1);
    must_succeed(target_buffer_to_host_raw(buffer, back, from, length));
    cr_expect_arr_eq(back, want + from, (size_t)length);
    must_fail(target_buffer_to_host_raw(buffer, back, from, count * width - from + 1), HLO_INVALID_ARGUMENT, "");
    target_buffer_release(buffer);
}

CaseList(buffer_states, strides_of_any_kind) {
    return cases_numbered(6);
}
CaseTest(const int *number, buffer_states, strides_of_any_kind) {
    static const HloType types[] = {HLO_PRED, HLO_U8, HLO_BF16, HLO_F32, HLO_S64, HLO_C128};
    const Machine machine = new_machine();
    uint64_t random = (uint64_t)*number + 5;
    for (int i = 0; i < 200; i++) check_strides(machine.memory, types[*number], &random);
    free_machine(&machine);
}

// Under every type of every width the bytes are the same ones, and in the same place.
Test(buffer_states, names_do_not_change_bytes) {
    const Machine machine = new_machine();
    unsigned char bytes[48], back[48];
    const int64_t all = sizeof bytes;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 37 + 1);
    const TargetHostArray array = {bytes, HLO_U8, 1, &all, NULL};
    TargetBuffer *buffer = NULL;
    must_succeed(target_buffer_from_host(&array, machine.memory, &buffer));
    const void *address, *other;
    must_succeed(target_buffer_data(buffer, &address));
    for (int type = 0; type < HLO_TYPE_COUNT; type++) {
        if (!hlo_type_is_array((HloType)type)) continue;
        const int64_t count = all / hlo_type_bytes((HloType)type), more = count + 1;
        const HloShape shape = {.type = (HloType)type, .rank = 1, .dims = &count};
        const HloShape larger = {.type = (HloType)type, .rank = 1, .dims = &more};
        TargetBuffer *cast = NULL, *none = NULL;
        must_succeed(target_buffer_bitcast(buffer, &shape, &cast));
        must_succeed(target_buffer_to_host_raw(cast, back, 0, all));
        cr_expect_arr_eq(back, bytes, sizeof bytes, "%s", hlo_type_text((HloType)type));
        must_succeed(target_buffer_data(cast, &other));
        cr_expect_eq(other, address);
        must_fail(target_buffer_bitcast(buffer, &larger, &none), HLO_INVALID_ARGUMENT, "a bitcast of 48 bytes");
        target_buffer_release(cast);
    }
    target_buffer_release(buffer);
    free_machine(&machine);
}

static void count_release(void *data, void *argument) {
    cr_expect_not_null(data);
    ++*(int *)argument;
}

// bug: kernels read whole bytes as numbers of 4 bits, whose other bits the caller may set to anything.
Test(buffer_states, bug_views_of_narrow_integers) {
    static _Alignas(64) unsigned char bytes[64] = {0x01, 0x0E, 0xF7, 0x88};
    static const struct {
        HloType type;
        signed char want[4];
    } cases[] = {{HLO_S4, {1, -2, 7, -8}}, {HLO_U4, {1, 14, 7, 8}}, {HLO_S2, {1, -2, -1, 0}}, {HLO_U2, {1, 2, 3, 0}}};
    const Machine machine = new_machine();
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++)
        for (int shifted = 0; shifted < 2; shifted++) {
            unsigned char *data = bytes + 32 * shifted;
            memcpy(data, (unsigned char[]){0x01, 0x0E, 0xF7, 0x88}, 4);
            const HloShape shape = {.type = cases[i].type, .rank = 1, .dims = &kFour};
            signed char back[4];
            int released = 0;
            TargetBuffer *buffer = NULL;
            must_succeed(target_buffer_view(&shape, machine.memory, data, count_release, &released, &buffer));
            must_succeed(target_buffer_to_host(buffer, back, sizeof back, NULL));
            cr_expect_arr_eq(back, cases[i].want, sizeof back, "%s", hlo_type_text(cases[i].type));
            cr_expect_eq(data[2], 0xF7, "the caller's memory was written");
            target_buffer_release(buffer);
            cr_expect_eq(released, 1);
        }
    free_machine(&machine);
}

// Views, aligned or not, are given back once, after their last reader.
Test(buffer_states, views_are_given_back_once) {
    static _Alignas(64) float values[32];
    for (int shift = 0; shift < 2; shift++) {
        const Machine machine = new_machine();
        float *data = values + 4 * shift;
        for (int i = 0; i < 4; i++) data[i] = (float)(i + 1);
        int released = 0;
        TargetBuffer *view = NULL, *copy = NULL;
        must_succeed(target_buffer_view(&kVector, machine.memory, data, count_release, &released, &view));
        cr_expect_eq(released, shift, "an unaligned one is copied");
        TargetBuffer *result = run(machine.donated, view);  // not in place: the memory is the caller's
        must_succeed(target_buffer_copy_to_memory(result, machine.other, &copy));
        expect_end(copy, FILLED, 1, -1);
        cr_expect_eq(data[0], 1);
        target_buffer_release(view);
        target_buffer_release(result);
        target_buffer_release(copy);
        free_machine(&machine);
        cr_expect_eq(released, 1);
    }
}

// ---- forks, and a system that gives no thread

// A stack that is too large for any process.
static void refuse_threads(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, (size_t)1 << 47), 0);
    cr_assert_eq(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
}

static HloStatus error_of(TargetBuffer *buffer) {
    TargetEvent *ready = target_buffer_ready_event(buffer);
    const HloStatus status = target_event_wait(ready);
    target_event_release(ready);
    return status;
}

Test(buffer_states, waiting_work_without_a_thread_is_not_run) {
    const Machine machine = new_machine();
    TargetBuffer *promise = promised(&machine);
    refuse_threads();
    TargetBuffer *result = run(machine.increment, promise);
    must_fail(error_of(result), HLO_RESOURCE_EXHAUSTED, "cannot create a thread to run programs on");
    target_buffer_release(result);
    // A launch that need not wait runs on the caller's thread.
    TargetBuffer *now = numbers(&machine), *after = run(machine.increment, now);
    must_succeed(error_of(after));
    target_buffer_release(promise);
    target_buffer_release(now);
    target_buffer_release(after);
    free_machine(&machine);
}

// A program whose trace callback waits for `go`, one queued after it, and one whose submitter waits for it.
typedef struct Line {
    Machine machine;
    sem_t begun, go;
    TargetBuffer *promise, *ready, *running, *behind, *awaited;
} Line;

static void stay(void *context, const TargetDevice *device, const char *name, bool program, int64_t begin_ns,
                 int64_t end_ns) {
    Line *line = context;
    (void)device, (void)name, (void)begin_ns, (void)end_ns;
    if (!program) return;
    sem_post(&line->begun);
    sem_wait(&line->go);
}

static HloStatus launch(const Line *line, const TargetExecuteOptions *options, TargetBuffer *argument,
                        TargetBuffer **result) {
    TargetBuffer *const list[1] = {argument};
    TargetBuffer *const *const lists[1] = {list};
    TargetBuffer **const results[1] = {result};
    return target_execute(line->machine.increment, options, lists, 1, results, NULL);
}

static void *wait_in_line(void *argument) {
    Line *line = argument;
    must_succeed(launch(line, &(TargetExecuteOptions){.synchronous = true}, line->ready, &line->awaited));
    return NULL;
}

// True if the buffer holds this error, or no error for "".
static bool holds(TargetBuffer *buffer, const char *words) {
    const HloStatus status = error_of(buffer);
    const bool as_told = *words ? status && strstr(hlo_status_message(status), words) : !status;
    hlo_status_free(status);
    return as_told;
}

// In a child process the running program is lost; the queued ones and later ones run.
static int goes_on(void *context) {
    Line *line = context;
    TargetBuffer *next = NULL;
    float value = 0;
    if (launch(line, NULL, line->ready, &next)) return 1;
    if (target_buffer_to_host_raw(next, &value, 0, sizeof value) || value != 2) return 2;
    if (!holds(line->running, "the process forked while this was running")) return 3;
    return holds(line->behind, "") ? 0 : 4;
}

// In a child that gets no thread nothing in line can run.
static int gives_up(void *context) {
    const Line *line = context;
    refuse_threads();
    target_client_synchronize(line->machine.client);
    return holds(line->behind, "cannot create a thread to run programs on") ? 0 : 1;
}

Test(buffer_states, a_fork_in_the_middle_of_a_line) {
    Line line = {.machine = new_machine()};
    const TargetTrace trace = {.event = stay, .context = &line};
    pthread_t waiting;
    cr_assert_eq(sem_init(&line.begun, 0, 0) | sem_init(&line.go, 0, 0), 0);
    line.promise = promised(&line.machine);
    line.ready = numbers(&line.machine);
    must_succeed(launch(&line, &(TargetExecuteOptions){.trace = &trace}, line.promise, &line.running));
    must_succeed(target_buffer_fulfil(line.promise, line.ready));
    sem_wait(&line.begun);
    must_succeed(launch(&line, NULL, line.ready, &line.behind));
    pthread_create(&waiting, NULL, wait_in_line, &line);
    usleep(20000);  // lets the thread queue its program; the test does not depend on it
    cr_expect_eq(run_in_child(goes_on, &line), 0);
    cr_expect_eq(run_in_child(gives_up, &line), 0);
    sem_post(&line.go);
    pthread_join(waiting, NULL);
    cr_expect(holds(line.running, ""));
    cr_expect(holds(line.behind, ""));
    target_buffer_release(line.promise);
    target_buffer_release(line.ready);
    target_buffer_release(line.running);
    target_buffer_release(line.behind);
    target_buffer_release(line.awaited);
    free_machine(&line.machine);
    sem_destroy(&line.begun);
    sem_destroy(&line.go);
}

// ---- two threads use one buffer

// Deletes, or launches a program on, a buffer at the same time as another thread.
typedef struct Race {
    Machine machine;
    pthread_barrier_t start;
    TargetBuffer *buffer;
} Race;

enum { kRaces = 300 };

static void *delete_each(void *argument) {
    Race *race = argument;
    for (int i = 0; i < kRaces; i++) {
        pthread_barrier_wait(&race->start);
        target_buffer_delete(race->buffer);
        pthread_barrier_wait(&race->start);
    }
    return NULL;
}

// The result is the content or an error that names the cause, and nothing leaks.
Test(buffer_states, deleted_while_it_is_launched_or_read) {
    Race race = {.machine = new_machine()};
    pthread_t thread;
    pthread_barrier_init(&race.start, NULL, 2);
    pthread_create(&thread, NULL, delete_each, &race);
    for (int i = 0; i < kRaces; i++) {
        TargetBuffer *result = NULL, *const list[1] = {race.buffer = numbers(&race.machine)};
        TargetBuffer *const *const lists[1] = {list};
        TargetBuffer **const results[1] = {&result};
        float value = 0;
        pthread_barrier_wait(&race.start);
        HloStatus status = i % 2 ? target_buffer_to_host_raw(race.buffer, &value, 0, sizeof value)
                                 : target_execute(race.machine.increment, NULL, lists, 1, results, NULL);
        if (!status && result) status = target_buffer_to_host_raw(result, &value, 0, sizeof value);
        pthread_barrier_wait(&race.start);
        if (status)
            must_fail(status, HLO_INVALID_ARGUMENT, "deleted or donated");
        else
            cr_expect_eq(value, i % 2 ? 1 : 2);
        target_buffer_release(race.buffer);
        target_buffer_release(result);
    }
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&race.start);
    free_machine(&race.machine);
}

// Reading waits for a promise, and finds the buffer deleted when it is kept.
static void *read_promise(void *argument) {
    float value;
    must_fail(target_buffer_to_host_raw(argument, &value, 0, sizeof value), HLO_INVALID_ARGUMENT,
              "the buffer has been deleted or donated");
    return NULL;
}

Test(buffer_states, deleted_while_somebody_waits_for_it) {
    const Machine machine = new_machine();
    TargetBuffer *promise = promised(&machine), *content = numbers(&machine);
    pthread_t reader;
    pthread_create(&reader, NULL, read_promise, promise);
    usleep(20000);  // for the reader to wait; a later one gets the same answer
    target_buffer_delete(promise);
    must_succeed(target_buffer_fulfil(promise, content));
    pthread_join(reader, NULL);
    target_buffer_release(promise);
    target_buffer_release(content);
    free_machine(&machine);
}

// An error keeps its place on its way through events.
Test(buffer_states, errors_keep_their_position) {
    const Machine machine = new_machine();
    const HloPlace place = {.file = "f.hlo", .line = 3, .column = 7, .line_text = "  x", .instruction = "x"};
    TargetBuffer *bad = NULL;
    must_succeed(target_buffer_from_error(&kVector, machine.memory, hlo_error_at(HLO_DATA_LOSS, &place, "lost"), &bad));
    TargetBuffer *result = run(machine.increment, bad);
    const HloStatus status = error_of(result);
    cr_expect_eq(hlo_status_code(status), HLO_DATA_LOSS);
    const HloPlace *kept = hlo_status_place(status);
    cr_assert_not_null(kept);
    cr_expect_eq(kept->line, 3);
    cr_expect_eq(kept->column, 7);
    cr_expect_str_eq(kept->file, "f.hlo");
    hlo_status_free(status);
    target_buffer_release(bad);
    target_buffer_release(result);
    free_machine(&machine);
}
