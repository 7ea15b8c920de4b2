// SPDX-License-Identifier: Apache-2.0
// Executions: from argument buffers to result buffers. A launch is checked in full before anything is touched: a
// rejected one leaves every argument unchanged. Then results are made pending, donated arguments are marked as deleted,
// and the task is added to the client's queue; later errors travel with the results. Storage of an argument that is not
// ready yet is claimed and taken when the program runs.
//
// Donation in place: a result takes over the memory of a donated argument if the compiler found that the argument is no
// longer read by then (CpuSignature.result_alias), and it has no other owner (target_storage_take_over()).
//
// Threads and ownership. target_execute() runs on the caller's thread and passes the Execution to the queue, which owns
// it until `finish`. Until then it holds references to its buffers, storages and executable; `task` is its first
// member, so that a task is cast to its execution. All memory of a launch is allocated before its first argument is
// touched (take_buffers()), so that lack of memory rejects the whole launch.
//
// Several processes: each runs its own devices of a program. Lists have entries for all devices, which are NULL for
// those of other processes; loops over devices skip these (is_here()). A program that exchanges anything with other
// processes is announced to them when its turn comes, even if it fails before it runs.
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "targets/cpu/graph/bounded.h"
#include "targets/internal.h"

// Programs below this many operations on all devices run in the caller's thread: some 200 us, where handing a program
// to another thread and waiting for it takes 10 us of two processors' time.
enum { kSmallCost = 3000000 };

// One execution in flight.
typedef struct Execution {
    TargetTask task;
    TargetExecutable *executable;
    int64_t device_count, argument_count, result_count;
    TargetBuffer **arguments;  // [device][argument], with references
    TargetStorage **storages;  // their contents; NULL until their producer has run
    bool *donated;             // [device][argument]: donated, and the caller holds no address of it
    bool *claimed;             // [device][argument]: the storage is taken when the program runs
    TargetBuffer **results;    // [device][result], with references until they have their contents
    TargetEvent **ready;       // [device][result]: their events, with references
    TargetEvent **events;      // one per device, with references
    HloStatus status;
    HloStatus *returned;  // where a synchronous caller requests a copy
    TargetHostTransfers transfers;
    TargetTrace trace;
    TargetProgress progress;
    CpuLaunch *launch;        // while it runs: what it exchanges with other processes, or NULL
    TargetDevice *elsewhere;  // where a program of one device runs; NULL: on its own device
    int64_t launch_id;
    HloStatus poison;  // set while it waits in the queue, under the queue's lock
} Execution;

// ---- checks at submission

// The program offers an argument (input_output_alias, buffer_donor); the caller may withhold it for this launch. The
// list is short in practice: JAX names the arguments that are still referenced.
static bool is_donated(const TargetExecutable *executable, const TargetExecuteOptions *options, int64_t argument) {
    if (!executable->signature->argument_donated[argument]) return false;
    for (int64_t i = 0; i < options->non_donatable_count; i++)
        if (options->non_donatable[i] == argument) return false;
    return true;
}

// Whether this process runs the device at an index of the assignment.
static bool is_here(const TargetExecutable *executable, int64_t place) {
    return !executable->span || target_device_is_local(executable->devices[place]);
}

// Returns the device at an index of the assignment.
static TargetDevice *device_at(const TargetExecutable *executable, TargetDevice *elsewhere, int64_t place) {
    return elsewhere ? elsewhere : executable->devices[place];
}

// The same of a launch on `elsewhere`, a local device that replaces the only one of the assignment.
static bool is_present(const TargetExecutable *executable, const TargetDevice *elsewhere, int64_t place) {
    return elsewhere || is_here(executable, place);
}

static bool runs_here(const Execution *execution, int64_t place) {
    return is_present(execution->executable, execution->elsewhere, place);
}

static HloStatus check_argument(const TargetExecutable *executable, const TargetDevice *expected_device,
                                const TargetBuffer *buffer, int64_t device, int64_t index) {
    assert(device >= 0 && index >= 0);
    const HloShape *expected = executable->signature->argument_shapes[index];
    HLO_FAIL_IF(!buffer, HLO_INVALID_ARGUMENT, "argument %lld of device %lld is missing", (long long)index,
                (long long)device);
    HLO_FAIL_IF(buffer->memory->device != expected_device, HLO_INVALID_ARGUMENT,
                "argument %lld of launch position %lld is on %s, but the position is on %s", (long long)index,
                (long long)device, buffer->memory->device->text, expected_device->text);
    HLO_FAIL_IF(target_buffer_is_deleted(buffer), HLO_INVALID_ARGUMENT,
                "argument %lld of device %lld has been deleted or donated", (long long)index, (long long)device);
    if (hlo_shape_equal(buffer->shape, expected, HLO_COMPARE_IGNORE_LAYOUT)) return HLO_SUCCESS;
    // Frameworks start a chain of effects with an empty array, as they have no tokens of their own.
    if (expected->type == HLO_TOKEN && hlo_shape_bytes(buffer->shape) == 0) return HLO_SUCCESS;
    HloText want = {0}, have = {0};
    hlo_shape_print(&want, expected, false);
    hlo_shape_print(&have, buffer->shape, false);
    const HloStatus status =
        hlo_error(HLO_INVALID_ARGUMENT, "argument %lld of device %lld is %s; %s takes %s", (long long)index,
                  (long long)device, have.data ? have.data : "?", executable->name, want.data ? want.data : "?");
    hlo_text_free(&want);
    hlo_text_free(&have);
    return status;
}

// An argument identified by its buffer.
typedef struct Place {
    const TargetBuffer *buffer;
    int64_t argument;
} Place;

// Orders by address, then by argument, so that the error names the same argument whatever qsort() does.
static int compare_places(const void *a, const void *b) {
    const Place *x = a, *y = b;
    if (x->buffer != y->buffer) return (uintptr_t)x->buffer < (uintptr_t)y->buffer ? -1 : 1;
    return (x->argument > y->argument) - (x->argument < y->argument);
}

// No buffer may be donated twice, or donated and read. Steps of large models donate thousands: equal buffers are found
// by sorting, which makes them adjacent. O(n log n) per device; `places` is the caller's scratch, n long.
static HloStatus check_donations(const TargetExecutable *executable, const TargetExecuteOptions *options,
                                 TargetBuffer *const *arguments, Place *places) {
    const int64_t count = executable->signature->argument_count;
    for (int64_t i = 0; i < count; i++) places[i] = (Place){arguments[i], i};
    if (count) qsort(places, (size_t)count, sizeof *places, compare_places);
    for (int64_t i = 0, next; i < count; i = next) {
        bool donated = is_donated(executable, options, places[i].argument);
        int64_t taken = places[i].argument;
        for (next = i + 1; next < count && places[next].buffer == places[i].buffer; next++) {
            if (donated || !is_donated(executable, options, places[next].argument)) continue;
            donated = true;
            taken = places[next].argument;
        }
        HLO_FAIL_IF(donated && next > i + 1, HLO_INVALID_ARGUMENT,
                    "argument %lld is donated, but argument %lld is the same buffer", (long long)taken,
                    (long long)places[taken == places[i].argument ? i + 1 : i].argument);
    }
    return HLO_SUCCESS;
}

static bool donates_any(const TargetExecutable *executable) {
    for (int64_t i = 0; i < executable->signature->argument_count; i++)
        if (executable->signature->argument_donated[i]) return true;
    return false;
}

static HloStatus check_all_donations(const TargetExecutable *executable, const TargetExecuteOptions *options,
                                     TargetBuffer *const *const *arguments) {
    if (!donates_any(executable)) return HLO_SUCCESS;
    Place *places = hlo_allocate((size_t)executable->signature->argument_count * sizeof *places);
    HLO_FAIL_IF(!places, HLO_RESOURCE_EXHAUSTED, "no memory to run %s", executable->name);
    HloStatus status = HLO_SUCCESS;
    for (int64_t d = 0; d < executable->device_count && !status; d++)
        if (is_here(executable, d)) status = check_donations(executable, options, arguments[d], places);
    hlo_free(places);
    return status;
}

// Checks for all mistakes of the caller, by argument and device. Nothing after it may reject a launch for a mistake of
// the caller's. Arguments may still be deleted by another thread after this; that is detected when they are taken and
// becomes the error of the results.
static HloStatus check(const TargetExecutable *executable, const TargetExecuteOptions *options,
                       TargetBuffer *const *const *arguments, int64_t argument_count) {
    assert(executable && argument_count >= 0);
    HLO_FAIL_IF(target_executable_is_deleted(executable), HLO_FAILED_PRECONDITION, "executable %s has been deleted",
                executable->name);
    HLO_FAIL_IF(!executable->program, HLO_FAILED_PRECONDITION, "%s was compiled to be inspected, not to run",
                executable->name);
    HLO_FAIL_IF(argument_count != executable->signature->argument_count, HLO_INVALID_ARGUMENT,
                "%lld arguments; %s takes %lld", (long long)argument_count, executable->name,
                (long long)executable->signature->argument_count);
    HLO_FAIL_IF(executable->signature->transfer_count && !options->transfers, HLO_INVALID_ARGUMENT,
                "%s makes transfers with the host, but no callback is registered for channel %lld%s", executable->name,
                (long long)executable->signature->transfers[0].channel,
                executable->signature->transfers[0].channel < 0 ? " (-1 is infeed, -2 outfeed)" : "");
    HLO_FAIL_IF(options->device && executable->device_count != 1, HLO_INVALID_ARGUMENT,
                "%s runs on %lld devices, not on a single one named by the caller", executable->name,
                (long long)executable->device_count);
    HLO_FAIL_IF(options->device && options->device->client != executable->client, HLO_INVALID_ARGUMENT,
                "%s cannot run on a device of another client", executable->name);
    bool some = options->device && target_device_is_local(options->device);
    for (int64_t d = 0; d < executable->device_count && !options->device; d++) some = some || is_here(executable, d);
    HLO_FAIL_IF(!some, HLO_INVALID_ARGUMENT, "%s runs on no device of process %lld", executable->name,
                (long long)executable->client->process_index);
    for (int64_t d = 0; d < executable->device_count; d++) {
        if (!is_present(executable, options->device, d)) continue;
        const TargetDevice *device = device_at(executable, options->device, d);
        for (int64_t i = 0; i < argument_count; i++) HLO_TRY(check_argument(executable, device, arguments[d][i], d, i));
    }
    return check_all_donations(executable, options, arguments);
}

// ---- running

// Names the program: there is no source location.
static HloStatus no_memory(const TargetExecutable *executable) {
    return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory to run %s", executable->name);
}

// Returns the error for temporaries that do not fit beside the existing arrays, in XLA's wording on TPUs.
static HloStatus no_room(const Execution *execution, int64_t place) {
    const TargetDevice *device = device_at(execution->executable, execution->elsewhere, place);
    return hlo_error(HLO_RESOURCE_EXHAUSTED,
                     "Error loading program %s: Attempting to reserve %s at the bottom of memory. "
                     "That was not possible. There are %s free in the HBM of %s",
                     execution->executable->name, target_amount(execution->executable->signature->arena_bytes).text,
                     target_amount(target_meter_free(target_device_meter(device))).text, device->text);
}

// Returns the first error among the arguments; takes their storages. Their producers have run by now, except for
// buffers that the user has promised to fill. Waits without the queue's lock, but in line: launches submitted after
// this one wait too, which keeps executions in the order of their submission.
static HloStatus take_arguments(Execution *execution) {
    const int64_t total = execution->device_count * execution->argument_count;
    for (int64_t i = 0; i < total; i++) {
        if (!execution->arguments[i]) continue;
        HLO_TRY(target_event_wait(execution->arguments[i]->ready));
        if (execution->claimed[i]) execution->storages[i] = target_buffer_take_claimed(execution->arguments[i]);
        execution->claimed[i] = false;
        HLO_FAIL_IF(!execution->storages[i], HLO_INVALID_ARGUMENT,
                    "argument %lld was deleted or donated while %s was launched",
                    (long long)(i % execution->argument_count), execution->executable->name);
    }
    return HLO_SUCCESS;
}

// Returns the memory of one result: the donated argument's if it has no other owner, else new. `donated` is cleared
// when the memory has been taken over, so that a second result aliased to the same argument gets separate memory. NULL
// when memory is short.
static TargetStorage *result_storage(Execution *execution, int64_t device, int64_t result) {
    assert(device >= 0 && result >= 0);
    const CpuSignature *signature = execution->executable->signature;
    const int64_t alias = signature->result_alias[result];
    if (alias >= 0) {
        const int64_t place = device * execution->argument_count + alias;
        TargetStorage *storage = execution->storages[place];
        if (execution->donated[place] && target_storage_take_over(storage)) {
            execution->donated[place] = false;
            return target_storage_retain(storage);
        }
    }
    return target_storage_new(&execution->executable->client->store,
                              cpu_buffer_bytes(signature->result_shapes[result]));
}

typedef struct RunMemory {
    void **cells;  // addresses of arguments and results, and per device lists of them
    void ***argument_lists, ***result_lists;
    void **arenas;
    TargetStorage **results;  // [device][result]
    TargetStorage *arena;
    int64_t charged_devices;  // the first ones, whose meters count the temporaries
} RunMemory;

// Temporaries of each device begin on a separate cache line.
static int64_t arena_stride(const Execution *execution) {
    return (execution->executable->signature->arena_bytes + 63) / 64 * 64;
}

static TargetMeter *meter_at(const Execution *execution, int64_t place) {
    return target_device_meter(device_at(execution->executable, execution->elsewhere, place));
}

// Results and temporaries are in the HBM of each device while the program runs.
static HloStatus charge_run(Execution *execution, RunMemory *memory) {
    for (int64_t i = 0; i < execution->device_count * execution->result_count; i++)
        if (execution->results[i]) HLO_TRY(target_buffer_charge(execution->results[i]));
    const int64_t bytes = execution->executable->signature->arena_bytes;
    for (int64_t d = 0; d < execution->device_count; d++, memory->charged_devices++)
        if (runs_here(execution, d) && !target_meter_add(meter_at(execution, d), bytes)) return no_room(execution, d);
    return HLO_SUCCESS;
}

// After a failure none of the results stays counted.
static void discharge_run(Execution *execution, const RunMemory *memory) {
    for (int64_t d = 0; d < memory->charged_devices; d++)
        if (runs_here(execution, d))
            target_meter_remove(meter_at(execution, d), execution->executable->signature->arena_bytes);
    for (int64_t i = 0; execution->status && i < execution->device_count * execution->result_count; i++) {
        TargetBuffer *result = execution->results[i];
        if (!result) continue;
        pthread_mutex_lock(&result->lock);
        target_buffer_discharge(result);
        pthread_mutex_unlock(&result->lock);
    }
}

// After a failure, run_execution() releases its allocations.
static HloStatus allocate_run(Execution *execution, RunMemory *memory) {
    HLO_TRY(charge_run(execution, memory));
    const int64_t devices = execution->device_count;
    const int64_t arguments = execution->argument_count, results = execution->result_count;
    memory->cells = hlo_allocate_zeroed((size_t)(devices * (arguments + 2 * results + 3)), sizeof(void *));
    int64_t here = 0;
    for (int64_t d = 0; d < devices; d++) here += runs_here(execution, d);
    memory->arena = target_storage_new(&execution->executable->client->store, here * arena_stride(execution));
    if (!memory->cells || !memory->arena) return no_memory(execution->executable);
    memory->argument_lists = (void ***)(void *)(memory->cells + devices * (arguments + results));
    memory->result_lists = memory->argument_lists + devices;
    memory->arenas = (void **)(memory->result_lists + devices);
    memory->results = (TargetStorage **)(void *)(memory->arenas + devices);
    void **next = memory->cells;
    char *arena = memory->arena->data;
    for (int64_t d = 0; d < devices; d++) {
        if (!runs_here(execution, d)) continue;
        memory->arenas[d] = arena;
        arena += arena_stride(execution);
        memory->argument_lists[d] = next;
        for (int64_t i = 0; i < arguments; i++) *next++ = execution->storages[d * arguments + i]->data;
        memory->result_lists[d] = next;
        for (int64_t i = 0; i < results; i++) {
            TargetStorage *storage = result_storage(execution, d, i);
            if (!storage) return no_memory(execution->executable);
            memory->results[d * results + i] = storage;
            *next++ = storage->data;
        }
    }
    return HLO_SUCCESS;
}

// Makes results that are equal by construction share one memory from now on, so that the next step finds them so. See
// targets/cpu/run/share.h: devices whose operands are the same bytes compute one result; the others' memory returns to
// the pool.
static void share_results(Execution *execution, RunMemory *memory) {
    for (int64_t d = 0; d < execution->device_count; d++) {
        for (int64_t i = 0; i < execution->result_count && runs_here(execution, d); i++) {
            const int64_t leader = cpu_share_result_leader(execution->executable->sharing, i, d);
            if (leader == d) continue;
            target_storage_release(memory->results[d * execution->result_count + i]);
            memory->results[d * execution->result_count + i] =
                target_storage_retain(memory->results[leader * execution->result_count + i]);
        }
    }
}

// ---- transfers with the host: the queue lets others pass meanwhile

// While a callback runs, the queue runs ready tasks beside this one: the callback may launch programs and wait for
// them.
static HloStatus send_to_host(void *context, int64_t place, int64_t channel, const HloShape *shape, const void *data) {
    assert(context && shape);
    const Execution *execution = context;
    TargetQueue *queue = &execution->executable->client->queue;
    target_queue_callback_begin(queue);
    const HloStatus status = execution->transfers.send(execution->transfers.context, place, channel, shape, data);
    target_queue_callback_end(queue);
    return status;
}

static HloStatus receive_from_host(void *context, int64_t place, int64_t channel, const HloShape *shape, void *data) {
    assert(context && shape);
    const Execution *execution = context;
    TargetQueue *queue = &execution->executable->client->queue;
    target_queue_callback_begin(queue);
    const HloStatus status = execution->transfers.receive(execution->transfers.context, place, channel, shape, data);
    target_queue_callback_end(queue);
    return status;
}

// ---- traces

static void trace_instruction(void *context, int64_t place, const char *name, int64_t begin, int64_t end) {
    const Execution *execution = context;
    const TargetDevice *device = device_at(execution->executable, execution->elsewhere, place);
    execution->trace.event(execution->trace.context, device, name, false, begin, end);
}

// Nanoseconds since 1970: traces are compared with those of other clocks.
static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// Runs the program and reports when each device was busy with it. The program's own event spans all devices, since they
// run as one launch; instructions are reported one by one as they end.
static HloStatus run_traced(Execution *execution, CpuExecution *run) {
    TargetExecutable *executable = execution->executable;
    const CpuTrace trace = {trace_instruction, execution};
    run->trace = &trace;
    const int64_t begin = now();
    const HloStatus status = cpu_execute(executable->program, executable->client->pool, run);
    const int64_t end = now();
    for (int64_t d = 0; d < execution->device_count; d++)
        if (runs_here(execution, d))
            execution->trace.event(execution->trace.context, device_at(executable, execution->elsewhere, d),
                                   executable->name, true, begin, end);
    return status;
}

// Takes arguments and memory, runs the program, and sets the results. Results get their storages together, at the end,
// so that an error leaves none of them partly filled. A task that runs aside does not use the plan of shared values:
// the queued task may be using it.
static HloStatus run_program(Execution *execution, RunMemory *memory) {
    HLO_TRY(take_arguments(execution));
    HLO_TRY(allocate_run(execution, memory));
    CpuExecution run = {.arguments = (void *const *const *)memory->argument_lists,
                        .results = (void *const *const *)memory->result_lists,
                        .arenas = memory->arenas,
                        // The span is that of the program's own device.
                        .span = execution->elsewhere ? NULL : execution->executable->span,
                        .launch = execution->launch};
    TargetExecutable *executable = execution->executable;
    const CpuHost host = {send_to_host, receive_from_host, execution};
    if (execution->transfers.send) run.host = &host;
    const CpuProgress progress = {execution->progress.report, execution->progress.context};
    if (progress.report) run.progress = &progress;
    // The plan belongs to the running task.
    if (!execution->task.aside) cpu_share_plan_update(executable->program, &run, &executable->sharing);
    run.sharing = execution->task.aside ? NULL : executable->sharing;
    if (execution->trace.event)
        HLO_TRY(run_traced(execution, &run));
    else
        HLO_TRY(cpu_execute(executable->program, executable->client->pool, &run));
    if (run.sharing) share_results(execution, memory);
    const int64_t total = execution->device_count * execution->result_count;
    for (int64_t i = 0; i < total; i++) {
        if (!execution->results[i]) continue;
        target_buffer_fill(execution->results[i], memory->results[i]);
        memory->results[i] = NULL;
    }
    return HLO_SUCCESS;
}

// Runs the program, unless it was poisoned, between its announcement to other processes and its end.
static HloStatus run_launch(Execution *execution, RunMemory *memory) {
    TargetExecutable *executable = execution->executable;
    const bool has_peers = cpu_span_has_peers(executable->span);
    HLO_FAIL_IF(has_peers && !executable->client->hosts, HLO_UNAVAILABLE,
                "%s runs in several processes, which this one has left", executable->name);
    if (has_peers)
        HLO_TRY(cpu_launch_begin(executable->client->hosts, executable->span, executable->name,
                                 executable->launch_fingerprint, &execution->launch));
    const HloStatus status = execution->poison ? target_status_copy(execution->poison) : run_program(execution, memory);
    cpu_launch_end(execution->launch, status);
    execution->launch = NULL;
    return status;
}

// Releases claims that were never used (of a launch that failed before using them, or was poisoned): with one left, the
// memory of a deleted buffer would stay as long as its last handle, and it could not be donated in place.
static void release_arguments(Execution *execution) {
    const int64_t total = execution->device_count * execution->argument_count;
    for (int64_t i = 0; i < total; i++) {
        if (execution->claimed[i]) execution->storages[i] = target_buffer_take_claimed(execution->arguments[i]);
        execution->claimed[i] = false;
        target_storage_release(execution->storages[i]);
        target_buffer_release(execution->arguments[i]);
        execution->storages[i] = NULL;
        execution->arguments[i] = NULL;
    }
}

// Memory that a caller releases when a result is ready must be free then, so results are released before they become
// ready.
static void release_results(Execution *execution) {
    for (int64_t i = 0; i < execution->device_count * execution->result_count; i++) {
        target_buffer_release(execution->results[i]);
        execution->results[i] = NULL;
    }
}

// Makes results ready without callbacks: this task still holds the queue, and a callback may wait for it. Transfers and
// traces are released first: the header promises that no call follows, and a thread that waits for a result may free
// the data they point to.
static void publish(Execution *execution, const struct HloError *status) {
    if (execution->transfers.release) execution->transfers.release(execution->transfers.context);
    if (execution->trace.release) execution->trace.release(execution->trace.context);
    const int64_t total = execution->device_count * execution->result_count;
    for (int64_t i = 0; i < total; i++)
        if (execution->ready[i]) target_event_publish(execution->ready[i], target_status_copy(status));
}

// The part of a task that runs in line. Arguments are released before results become ready, so that a thread that waits
// for those finds the memory free.
static void run_execution(TargetTask *task) {
    Execution *execution = (Execution *)task;
    RunMemory memory = {0};
    execution->status = run_launch(execution, &memory);
    for (int64_t i = 0; memory.results && i < execution->device_count * execution->result_count; i++)
        target_storage_release(memory.results[i]);
    target_storage_release(memory.arena);
    discharge_run(execution, &memory);
    hlo_free(memory.cells);
    release_arguments(execution);
    release_results(execution);
    if (execution->returned) *execution->returned = target_status_copy(execution->status);
    publish(execution, execution->status);
}

static void free_execution(Execution *execution) {
    release_arguments(execution);
    release_results(execution);
    for (int64_t i = 0; i < execution->device_count * execution->result_count; i++)
        target_event_release(execution->ready[i]);
    for (int64_t d = 0; d < execution->device_count; d++) target_event_release(execution->events[d]);
    hlo_status_free(execution->status);
    hlo_status_free(execution->poison);
    TargetExecutable *executable = execution->executable;
    hlo_free(execution);
    target_executable_release(executable);
}

// The part after the queue has moved on: callbacks run here. Events of devices come after those of results; both carry
// the same error.
static void finish_execution(TargetTask *task) {
    Execution *execution = (Execution *)task;
    for (int64_t i = 0; i < execution->device_count * execution->result_count; i++)
        if (execution->ready[i]) target_event_call(execution->ready[i]);
    for (int64_t d = 0; d < execution->device_count; d++)
        if (execution->events[d]) target_event_set(execution->events[d], target_status_copy(execution->status));
    free_execution(execution);
}

static void abandon_execution(TargetTask *task, HloStatus status) {
    Execution *execution = (Execution *)task;
    publish(execution, status);
    hlo_status_free(execution->status);
    execution->status = status;
    finish_execution(task);
}

// True if everything that the execution reads is ready.
static bool is_execution_ready(const TargetTask *task) {
    const Execution *execution = (const Execution *)task;
    const int64_t total = execution->device_count * execution->argument_count;
    for (int64_t i = 0; i < total; i++)
        if (execution->arguments[i] && !target_event_is_ready(execution->arguments[i]->ready)) return false;
    return true;
}

// ---- submission

// Allocates one block with all the lists after the struct. Sizes cannot overflow: counts come from a compiled program,
// whose lists were themselves allocated. A program is `small` only if it makes no transfers, because those wait for a
// host that may be the caller's own thread, and waits for no other process, which may take any time.
static Execution *new_execution(TargetExecutable *executable, const TargetExecuteOptions *options) {
    const int64_t devices = executable->device_count;
    const int64_t arguments = devices * executable->signature->argument_count;
    const int64_t results = devices * executable->signature->result_count;
    const size_t bytes =
        sizeof(Execution) + sizeof(void *) * (size_t)(2 * arguments + 2 * results + devices) + 2 * (size_t)arguments;
    Execution *execution = hlo_allocate_zeroed(1, bytes);
    if (!execution) return NULL;
    execution->task =
        (TargetTask){.run = run_execution,
                     .finish = finish_execution,
                     .abandon = abandon_execution,
                     .is_ready = is_execution_ready,
                     .small = executable->signature->cost * (double)devices < kSmallCost &&
                              executable->signature->transfer_count == 0 && !cpu_span_has_peers(executable->span),
                     .waits_for_host = executable->signature->transfer_count > 0};
    execution->elsewhere = options->device;
    execution->launch_id = options->launch_id;
    execution->executable = target_executable_retain(executable);
    execution->device_count = devices;
    execution->argument_count = executable->signature->argument_count;
    execution->result_count = executable->signature->result_count;
    void **next = (void **)(execution + 1);
    execution->arguments = (TargetBuffer **)next;
    execution->storages = (TargetStorage **)(next + arguments);
    execution->results = (TargetBuffer **)(next + 2 * arguments);
    execution->ready = (TargetEvent **)(next + 2 * arguments + results);
    execution->events = (TargetEvent **)(next + 2 * arguments + 2 * results);
    execution->donated = (bool *)(next + 2 * arguments + 2 * results + devices);
    execution->claimed = execution->donated + arguments;
    return execution;
}

static bool make_results(Execution *execution, bool with_events) {
    const CpuSignature *signature = execution->executable->signature;
    for (int64_t d = 0; d < execution->device_count; d++) {
        if (!runs_here(execution, d)) continue;
        const TargetDevice *device = device_at(execution->executable, execution->elsewhere, d);
        for (int64_t i = 0; i < execution->result_count; i++) {
            const TargetMemoryKind kind = target_executable_result_memory(execution->executable, i);
            TargetMemory *memory = target_device_memory(device, kind);
            TargetBuffer *buffer = target_buffer_new(signature->result_shapes[i], memory);
            if (!buffer) return false;
            execution->results[d * execution->result_count + i] = buffer;
            execution->ready[d * execution->result_count + i] = target_event_retain(buffer->ready);
        }
        if (with_events && !(execution->events[d] = target_event_new())) return false;
    }
    return true;
}

// Deletes a donated buffer now; its content moves to the execution, now or when it is ready. Three cases. Not ready
// yet: it is claimed, and the storage taken when the program runs. Ready and donated, with no other claimant: the
// buffer's own reference moves over, so that it can be the only one. Else: one more reference, and a donation still
// deletes the buffer.
static void take_buffer(Execution *execution, TargetBuffer *buffer, int64_t place, bool donate) {
    assert(buffer && place >= 0);
    execution->arguments[place] = target_buffer_retain(buffer);
    pthread_mutex_lock(&buffer->lock);
    execution->donated[place] = donate && buffer->external_holds == 0;
    execution->claimed[place] = buffer->storage == NULL;
    if (buffer->storage == NULL) buffer->claims++;
    execution->storages[place] = buffer->storage;
    if (execution->donated[place] && buffer->claims == 0) {
        buffer->storage = NULL;
        target_buffer_discharge(buffer);
    } else if (buffer->storage) {
        target_storage_retain(buffer->storage);
    }
    buffer->deleted = buffer->deleted || donate;
    pthread_mutex_unlock(&buffer->lock);
}

// From here on the launch can no longer be rejected.
static void take_buffers(Execution *execution, const TargetExecuteOptions *options,
                         TargetBuffer *const *const *arguments) {
    for (int64_t d = 0; d < execution->device_count; d++)
        for (int64_t i = 0; i < execution->argument_count && runs_here(execution, d); i++)
            take_buffer(execution, arguments[d][i], d * execution->argument_count + i,
                        is_donated(execution->executable, options, i));
}

// Results have two references: the caller's and the execution's.
HloStatus target_execute(TargetExecutable *executable, const TargetExecuteOptions *options,
                         TargetBuffer *const *const *arguments, int64_t argument_count, TargetBuffer **const *results,
                         TargetEvent **device_events) {
    assert(executable && argument_count >= 0);
    static const TargetExecuteOptions kDefaults = {0};
    if (!options) options = &kDefaults;
    HLO_TRY(check(executable, options, arguments, argument_count));
    Execution *execution = new_execution(executable, options);
    if (!execution) return no_memory(executable);
    if (!make_results(execution, device_events != NULL)) {
        free_execution(execution);
        return no_memory(executable);
    }
    for (int64_t d = 0; d < execution->device_count; d++) {
        if (!runs_here(execution, d)) continue;
        for (int64_t i = 0; i < execution->result_count; i++)
            results[d][i] = target_buffer_retain(execution->results[d * execution->result_count + i]);
        if (device_events) device_events[d] = target_event_retain(execution->events[d]);
    }
    take_buffers(execution, options, arguments);
    if (options->transfers) execution->transfers = *options->transfers;
    if (options->trace) execution->trace = *options->trace;
    if (options->progress) execution->progress = *options->progress;
    HloStatus returned = HLO_SUCCESS;
    if (options->synchronous) execution->returned = &returned;
    HloStatus submitted = target_queue_submit(&executable->client->queue, &execution->task, options->synchronous);
    if (submitted) {
        if (options->synchronous) returned = target_status_copy(submitted);
        abandon_execution(&execution->task, submitted);
    }
    return returned;
}

static bool runs_on(const Execution *execution, const TargetDevice *device) {
    for (int64_t d = 0; d < execution->device_count; d++)
        if (device_at(execution->executable, execution->elsewhere, d) == device) return true;
    return false;
}

typedef struct Poisoning {
    const TargetDevice *device;
    int64_t launch_id;
    const struct HloError *error;
    bool found;
} Poisoning;

// Every task of a queue is an execution; one that runs aside is past poisoning, as it runs. The first poison counts.
static void poison_task(TargetTask *task, void *argument) {
    Poisoning *poisoning = argument;
    Execution *execution = (Execution *)task;
    if (execution->launch_id != poisoning->launch_id || !runs_on(execution, poisoning->device)) return;
    poisoning->found = true;
    if (!execution->poison) execution->poison = target_status_copy(poisoning->error);
}

bool target_device_poison(TargetDevice *device, int64_t launch_id, HloStatus error) {
    Poisoning poisoning = {device, launch_id, error, false};
    target_queue_visit(&device->client->queue, poison_task, &poisoning);
    hlo_status_free(error);
    return poisoning.found;
}
