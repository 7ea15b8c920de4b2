// SPDX-License-Identifier: Apache-2.0
// Execution. Each device is a program counter: a stack of thunk lists and positions in them. Workers take a device that
// is ready and run it until it waits at a collective or has finished; no thread ever blocks for a device. The last
// device to arrive at a collective divides the exchange into parts, which workers take like devices; the last part
// releases the group.
//
//     device 0   thunks ... | all-reduce: parked                            | thunks ...
//     device 1   thunks ................... | all-reduce: last to arrive    | thunks ...
//     queue                                 part 0, part 1, ... (any worker), then devices 0 and 1
//
// Locks: run->lock guards the work queue, the rendezvous, the mail, and which device waits where; no kernel runs under
// it. `news` counts changes, so that waiting workers can see without the lock that there is nothing to do. A run ends
// when all devices have finished or an error has occurred; then every worker leaves, and the state of the run is no
// longer used.
//
// A deadlock is detected immediately: nothing is queued, no worker is busy, not all devices have finished, and none
// waits for another process.
//
// Several processes run the same program, each its own devices. When all members of a group that are here have arrived
// at a collective, messages take the place of the other members (remote.h), and devices stay parked until these have
// arrived.
//
// Memory: a device's slices are offsets from its own base addresses (arena, constants, arguments, results), so that one
// list of thunks serves all devices. Devices, frames, rendezvous and the queue are allocated before a run starts.
#include "targets/cpu/run/execute.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "hlo/base/arithmetic.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/host/gate.h"
#include "targets/cpu/jit/while_program.h"
#include "targets/cpu/run/fallback.h"
#include "targets/cpu/run/messages.h"
#include "targets/cpu/run/share.h"

enum {
    kSerialCost = 20000,  // elementary operations per device below which waking workers does not pay off
    kSpins = 2000,        // attempts to find work before yielding the processor
    kYields = 10000,      // further attempts before sleeping: a callback of the host may take seconds
    kFewYields = 20,
    kSleepNanoseconds = 50000,
};

// ---- one device

// Resolves a slice to an address. A slice names one of the device's bases: arena, constants, an argument, a result.
static char *address(const CpuDevice *device, CpuSlice slice) {
    return cpu_slice_address(device->bases, slice);
}

// Makes the copies that buffer assignment could not avoid; a copy of a slice onto itself is skipped. The order is that
// of buffer assignment: a copy may read what a later one overwrites (parallel assignment).
static void copy(const CpuDevice *device, const CpuCopy *copies, int32_t count, CpuPool *pool) {
    for (int32_t i = 0; i < count; i++) {
        char *to = address(device, copies[i].to);
        const char *from = address(device, copies[i].from);
        if (to != from) cpu_copy_bytes(pool, to, from, copies[i].bytes);
    }
}

enum { kInlineBuffers = 64 };

// Runs fused loops. Addresses are known only now: each device has its own memory, and dynamic starts are values of the
// program.
static HloStatus run_loops(const CpuDevice *device, const CpuThunk *thunk, CpuPool *pool) {
    for (int32_t i = 0; i < thunk->loop_count; i++) {
        const CpuThunkLoop *loop = &thunk->loops[i];
        void *small[kInlineBuffers];
        void **buffers =
            loop->buffer_count <= kInlineBuffers ? small : hlo_allocate(sizeof(void *) * (size_t)loop->buffer_count);
        HLO_FAIL_IF(!buffers, HLO_RESOURCE_EXHAUSTED, "no memory to run %%%s", thunk->name);
        for (int32_t k = 0; k < loop->buffer_count; k++)
            buffers[k] = cpu_thunk_buffer_address(&loop->buffers[k], device->bases);
        const HloStatus status = cpu_loop_run(loop->loop, pool, buffers);
        if (buffers != small) hlo_free(buffers);
        if (status) return status;
    }
    return HLO_SUCCESS;
}

// Runs a kernel or a fallback, which gets addresses only. As in `slices`, reads come before writes.
static HloStatus run_on_slices(const CpuRun *run, const CpuDevice *device, const CpuThunk *thunk, CpuPool *pool) {
    const int32_t count = thunk->read_count + thunk->write_count;
    void *small[kInlineBuffers];
    void **addresses = count <= kInlineBuffers ? small : hlo_allocate(sizeof(void *) * (size_t)count);
    HLO_FAIL_IF(!addresses, HLO_RESOURCE_EXHAUSTED, "no memory to run %%%s", thunk->name);
    for (int32_t i = 0; i < count; i++) addresses[i] = address(device, thunk->slices[i]);
    const HloStatus status = thunk->kind == CPU_STEP_FALLBACK
                                 ? cpu_fallback_run(thunk->kernel, addresses, run->executable->tpu_numerics)
                                 : thunk->run(thunk->kernel, addresses, pool);
    if (addresses != small) hlo_free(addresses);
    return status;
}

// Stores the device's replica or partition number; devices are numbered replica by replica.
static void store_device_id(const CpuRun *run, const CpuDevice *device, const CpuThunk *thunk) {
    const int64_t partitions = run->executable->partition_count;
    const uint32_t id = (uint32_t)(thunk->replica ? device->number / partitions : device->number % partitions);
    memcpy(address(device, thunk->slices[0]), &id, sizeof id);
}

// Draws random numbers. The reads are the two bounds (or mean and deviation); a state reads nothing. Each device has
// its own generator state, which is reset in each run, so that results do not depend on earlier runs.
static void run_draw(CpuDevice *device, const CpuThunk *thunk) {
    const CpuDraw *draw = thunk->kernel;
    void *out = address(device, thunk->slices[thunk->read_count]);
    if (draw->is_state) {
        hlo_draw_state(&device->draws, draw->delta, out, hlo_shape_bytes(draw->shape));
        return;
    }
    assert(thunk->read_count == 2); /* the verifier requires two operands */
    hlo_draw_numbers(&device->draws, draw->shape, draw->normal, address(device, thunk->slices[0]),
                     address(device, thunk->slices[1]), out);
}

// Notes that the device has done work of this cost since the run began, but no more than the loop or branch that it is
// in is estimated to take: trip counts may be unknown.
static void reach(CpuRun *run, CpuDevice *device, double done) {
    if (!run->progress) return;
    const double total = run->executable->signature.cost;
    const double limit = device->frame_count ? device->frames[device->frame_count - 1].done_at_end : total;
    if (done > limit) done = limit;
    if (done <= device->done) return;
    const int64_t more = (int64_t)done - (int64_t)device->done;
    const int64_t all = atomic_fetch_add_explicit(&run->done, more, memory_order_relaxed) + more;
    device->done = done;
    const double share = (double)all / (total * (double)run->local_count);
    run->progress->report(run->progress->context, share < 1 ? share : 1);
}

// Pushes a list onto the device's stack, which has room for the deepest nesting of the program. `owner` is the thunk
// whose region the list is; NULL for the entry's.
static void push_list(CpuDevice *device, const CpuThunk *owner, int32_t region, double done_at_end) {
    device->frames[device->frame_count++] = (CpuFrame){&owner->regions[region], owner, region, 0, done_at_end};
}

static void start_conditional(CpuDevice *device, const CpuThunk *thunk) {
    push_list(device, thunk, cpu_thunk_branch(thunk, device->bases), device->done + thunk->cost);
}

// Leaves the list on top: after a body comes its condition, after a condition the body or the end of the loop. Copies
// at the end of a list move the next iteration's state into place. A loop's predicate is a byte in the condition's
// memory.
static void end_list(CpuRun *run, CpuDevice *device, CpuPool *pool) {
    const CpuFrame frame = device->frames[--device->frame_count];
    copy(device, frame.list->end_copies, frame.list->end_copy_count, pool);
    const bool is_loop = frame.owner && frame.owner->kind == CPU_STEP_WHILE;
    if (is_loop && frame.region == 1)
        push_list(device, frame.owner, 0, frame.done_at_end);
    else if (is_loop && *address(device, frame.list->predicate))
        push_list(device, frame.owner, 1, frame.done_at_end);
    else
        reach(run, device, frame.done_at_end);
}

// Transfers an array to or from the host: the only read of a send, the first write of a recv; the context comes next.
// Runs on the worker's thread without the lock, since the host may take long. The context, a u32, has no meaning here.
static HloStatus run_transfer(const CpuRun *run, const CpuDevice *device, const CpuThunk *thunk) {
    const CpuTransfer *transfer = thunk->kernel;
    const CpuHost *host = run->host;
    void *data = address(device, thunk->slices[0]);
    memset(address(device, thunk->slices[1]), 0, sizeof(uint32_t));
    HLO_FAIL_IF(!host, HLO_INVALID_ARGUMENT, "no host callback is registered for channel %lld",
                (long long)transfer->channel);
    if (transfer->to_host) return host->send(host->context, device->number, transfer->channel, transfer->shape, data);
    return host->receive(host->context, device->number, transfer->channel, transfer->shape, data);
}

// Returns 0 without a trace, to avoid reading clocks needlessly.
static int64_t now(const CpuRun *run) {
    if (!run->trace) return 0;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// Reports an activity of a device from `begin` until now.
static void trace(const CpuRun *run, const CpuDevice *device, const char *name, int64_t begin) {
    if (run->trace) run->trace->event(run->trace->context, device->number, name, begin, now(run));
}

// ---- messages between devices

// Resumes a device that is parked at a receive, if its message has arrived. Lock held.
static void wake_receiver(CpuRun *run, int64_t d) {
    CpuDevice *device = &run->devices[d];
    const CpuThunk *waits_at = device->waits_at;
    if (!waits_at || waits_at->kind != CPU_STEP_RECEIVE || !cpu_mail_has(&run->mail, waits_at->kernel, d)) return;
    device->waits_at = NULL;
    cpu_run_push_work(run, (CpuWork){.device = device});
}

// Resumes the devices that a message has arrived for. Without pairs that may be any device, but then the channel has
// only one sender. Lock held.
static void wake_receivers(CpuRun *run, const CpuP2pTransfer *peer, int64_t sender) {
    for (const int64_t *target = peer->has_pairs ? peer->targets[sender] : NULL; target && *target >= 0; target++)
        wake_receiver(run, *target);
    for (int64_t d = 0; !peer->has_pairs && d < run->device_count; d++) wake_receiver(run, d);
}

// Copies the array into the mail, so that the sender continues immediately.
static HloStatus run_send(CpuRun *run, const CpuDevice *device, const CpuThunk *thunk) {
    const CpuP2pTransfer *peer = thunk->kernel;
    memset(address(device, thunk->slices[1]), 0, sizeof(uint32_t));
    pthread_mutex_lock(&run->lock);
    const void *data = address(device, thunk->slices[0]);
    HloStatus status = cpu_mail_send(&run->mail, peer, device->number, data);
    if (!status) status = cpu_messages_send(run, peer, device->number, data);
    wake_receivers(run, peer, device->number);
    pthread_mutex_unlock(&run->lock);
    return status;
}

// Sets *taken to false when the message has not arrived yet. A device that no one sends to gets zeros immediately. The
// device of a message from another process parks, and is resumed after the thunk.
static HloStatus try_receive(CpuRun *run, CpuDevice *device, const CpuThunk *thunk, bool *taken) {
    pthread_mutex_lock(&run->lock);
    const HloStatus status =
        cpu_mail_receive(&run->mail, thunk->kernel, device->number, address(device, thunk->slices[0]), taken);
    pthread_mutex_unlock(&run->lock);
    return status;
}

// Context for running a thunk of a while program for this device with this pool.
typedef struct ProgramContext {
    CpuRun *run;
    CpuDevice *device;
    CpuPool *pool;
} ProgramContext;

static HloStatus run_thunk(CpuRun *run, CpuDevice *device, const CpuThunk *thunk, CpuPool *pool);

// Names the thunk in an error, as the enclosing loop is left in one step.
static HloStatus run_thunk_of_program(void *context, const CpuThunk *thunk) {
    const ProgramContext *c = context;
    const double done = c->device->done;
    const HloStatus status = run_thunk(c->run, c->device, thunk, c->pool);
    reach(c->run, c->device, done + thunk->cost);
    return status ? hlo_status_annotate(status, "%%%s", thunk->name) : HLO_SUCCESS;
}

// Starts a loop, as a while program if possible. A while program reports no thunks to a trace, so a traced run executes
// thunk by thunk. So does a run in which a kernel may run once for several devices.
static HloStatus start_loop(CpuRun *run, CpuDevice *device, const CpuThunk *thunk, CpuPool *pool) {
    const CpuWhileProgram *program = thunk->program;
    if (program && !run->trace && !(run->sharing && cpu_while_may_share(program)))
        return cpu_while_run(program, device->bases, pool, run_thunk_of_program, &(ProgramContext){run, device, pool});
    copy(device, thunk->copies, thunk->copy_count, pool);
    push_list(device, thunk, 0, device->done + thunk->cost);
    return HLO_SUCCESS;
}

// Runs everything that a device does by itself; callers handle collectives and receives.
static HloStatus run_thunk(CpuRun *run, CpuDevice *device, const CpuThunk *thunk, CpuPool *pool) {
    assert(thunk && device);
    switch (thunk->kind) {
        case CPU_STEP_COPY_LOOPS:
            copy(device, thunk->copies, thunk->copy_count, pool);
            return run_loops(device, thunk, pool);
        case CPU_STEP_LOOPS: return run_loops(device, thunk, pool);
        case CPU_STEP_FALLBACK:
        case CPU_STEP_KERNEL: return run_on_slices(run, device, thunk, pool);
        case CPU_STEP_DEVICE_ID: store_device_id(run, device, thunk); return HLO_SUCCESS;
        case CPU_STEP_WHILE: return start_loop(run, device, thunk, pool);
        case CPU_STEP_CONDITIONAL: start_conditional(device, thunk); return HLO_SUCCESS;
        case CPU_STEP_DRAW: run_draw(device, thunk); return HLO_SUCCESS;
        case CPU_STEP_TRANSFER: return run_transfer(run, device, thunk);
        case CPU_STEP_SEND: return run_send(run, device, thunk);
        case CPU_STEP_RECEIVE:
        case CPU_STEP_COLLECTIVE: break;
    }
    HLO_BUG_IF(true);
}

// Returns the classes of devices that run this thunk once, or NULL when this device runs the kernel by itself, as in a
// class of one.
static const int16_t *shared_leaders(const CpuRun *run, const CpuDevice *device, const CpuThunk *thunk) {
    if (!run->sharing || thunk->share_index < 0) return NULL;
    const int16_t *leaders = run->sharing->leaders[thunk->share_index];
    return leaders && cpu_share_class_size(leaders, run->device_count, device->number) > 1 ? leaders : NULL;
}

// Runs the device until it reaches a collective or a shared kernel, which is returned and at which the device waits, or
// its end (NULL). Runs without the lock. A conditional or a loop only pushes a list; run_thunk() does the long work.
// Errors are prefixed with the thunk's name.
static HloStatus advance(CpuRun *run, CpuDevice *device, CpuPool *pool, const CpuThunk **waits_at) {
    *waits_at = NULL;
    while (device->frame_count) {
        CpuFrame *frame = &device->frames[device->frame_count - 1];
        if (frame->next == frame->list->count) {
            end_list(run, device, pool);
            continue;
        }
        const CpuThunk *thunk = &frame->list->thunks[frame->next++];
        const bool is_from_elsewhere =
            thunk->kind == CPU_STEP_RECEIVE && cpu_messages_come_from_elsewhere(run, thunk->kernel, device->number);
        if (thunk->kind == CPU_STEP_COLLECTIVE || is_from_elsewhere || shared_leaders(run, device, thunk)) {
            *waits_at = thunk;
            reach(run, device, device->done + thunk->cost);
            return HLO_SUCCESS;
        }
        const int64_t begin = now(run);
        const double done = device->done;
        const int32_t frames = device->frame_count;
        bool taken = true;
        const HloStatus status = thunk->kind == CPU_STEP_RECEIVE ? try_receive(run, device, thunk, &taken)
                                                                 : run_thunk(run, device, thunk, pool);
        if (!taken) {  // retried when the message arrives
            frame->next--;
            *waits_at = thunk;
            return HLO_SUCCESS;
        }
        // For a loop that ran as a whole, the status already names the thunk within it.
        if (status) return thunk->program ? status : hlo_status_annotate(status, "%%%s", thunk->name);
        if (!thunk->region_count) trace(run, device, thunk->name, begin);
        if (device->frame_count == frames) reach(run, device, done + thunk->cost);  // else it has only begun
    }
    return HLO_SUCCESS;
}

// ---- collectives

// Returns the rendezvous of the device's group at this collective. One serves all iterations of a loop, since no device
// arrives again before all have left.
static CpuRendezvous *rendezvous_of(CpuRun *run, const CpuCollective *collective, const CpuDevice *device) {
    return &run->rendezvous_list[run->first_rendezvous[collective->index] + collective->group_of[device->number]];
}

// Gathers addresses[i][m] for array i of member m. The table is made once per rendezvous and kept for its later
// iterations; only the addresses are filled in again, as arrays of a loop may move. Members in other processes have
// none.
static HloStatus gather_addresses(const CpuRun *run, CpuRendezvous *rendezvous, const CpuThunk *thunk) {
    assert(rendezvous && thunk);
    const CpuCollectiveGroup *group = rendezvous->group;
    const int32_t arrays = thunk->read_count + thunk->write_count;
    if (!rendezvous->addresses) {
        void **cells = hlo_allocate(sizeof(void *) * (size_t)arrays * (size_t)(group->count + 1));
        HLO_FAIL_IF(!cells, HLO_RESOURCE_EXHAUSTED, "no memory to run %%%s", thunk->name);
        rendezvous->addresses = (void ***)cells;
        for (int32_t i = 0; i < arrays; i++) cells[i] = (void *)(cells + arrays + i * group->count);
    }
    for (int32_t i = 0; i < arrays; i++) {
        for (int64_t m = 0; m < group->count; m++) {
            const CpuDevice *device = &run->devices[group->devices[m]];
            rendezvous->addresses[i][m] = device->bases ? address(device, thunk->slices[i]) : NULL;
        }
    }
    return HLO_SUCCESS;
}

// ---- the work queue (run->lock held)

void cpu_run_notify(CpuRun *run) {
    atomic_fetch_add_explicit(&run->news, 1, memory_order_release);
    if (run->messages.is_asleep) transport_wake(cpu_launch_transport(run->launch));
}

// Appends to the ring. Its capacity is devices x (1 + parts), which is more than can be queued at any time, so it never
// overtakes itself.
void cpu_run_push_work(CpuRun *run, CpuWork work) {
    run->queue[run->queue_end++ % run->queue_capacity] = work;
    cpu_run_notify(run);
}

void cpu_run_resume(CpuRun *run, CpuDevice *device) {
    trace(run, device, device->waits_at->name, device->waits_since);
    device->waits_at = NULL;
    cpu_run_push_work(run, (CpuWork){.device = device});
}

void cpu_run_fail(CpuRun *run, HloStatus status) {
    if (run->status)
        hlo_status_free(status);
    else
        run->status = status;
    cpu_run_notify(run);
}

// Returns all devices of the group to the queue, where any worker may take them.
static void release_group(CpuRun *run, CpuRendezvous *rendezvous) {
    assert(rendezvous);
    rendezvous->arrived = 0;
    for (int64_t m = 0; m < rendezvous->group->count; m++) {
        CpuDevice *device = &run->devices[rendezvous->group->devices[m]];
        if (device->bases) cpu_run_resume(run, device);
    }
}

// Registers the device at the rendezvous. The last one to arrive starts the exchange, divided into parts that any
// worker may take. Results of the exchange may overlap the operands' memory, so it begins only when all have arrived.
// Where members are in other processes, it proceeds in phases instead. Lock held.
static void arrive(CpuRun *run, CpuDevice *device, const CpuThunk *thunk) {
    assert(thunk && device);
    const CpuCollective *collective = thunk->kernel;
    CpuRendezvous *rendezvous = rendezvous_of(run, collective, device);
    device->waits_at = thunk;
    device->waits_since = now(run);
    if (++rendezvous->arrived < rendezvous->expected) return;
    const HloStatus status = gather_addresses(run, rendezvous, thunk);
    if (status) {
        cpu_run_fail(run, status);
        return;
    }
    if (rendezvous->expected < rendezvous->group->count) {
        cpu_run_push_work(run, (CpuWork){.rendezvous = rendezvous, .is_remote = true});
        return;
    }
    rendezvous->parts = run->alone ? 1 : collective->parts;
    rendezvous->parts_left = rendezvous->parts;
    for (int64_t part = 0; part < rendezvous->parts; part++)
        cpu_run_push_work(run, (CpuWork){.rendezvous = rendezvous, .part = part});
}

// ---- shared kernels

// Registers the device at a shared kernel; the last device of a class to arrive computes for all. The members have
// equal operands (share.h), so one result serves all. They copy it only if their memory differs. Lock held, but
// released while the kernel runs.
static void arrive_shared(CpuRun *run, CpuDevice *device, const CpuThunk *thunk, CpuPool *pool) {
    const int16_t *leaders = run->sharing->leaders[thunk->share_index];
    const int16_t leader = leaders[device->number];
    int64_t *arrived = &run->shared_arrivals[thunk->share_index * run->device_count + leader];
    device->waits_at = thunk;
    device->waits_since = now(run);
    if (++*arrived < cpu_share_class_size(leaders, run->device_count, device->number)) return;
    *arrived = 0;
    pthread_mutex_unlock(&run->lock);
    const HloStatus status = run_thunk(run, device, thunk, pool);
    for (int64_t d = 0; d < run->device_count && !status; d++) {
        if (leaders[d] != leader || d == device->number) continue;
        for (int32_t i = thunk->read_count; i < thunk->read_count + thunk->write_count; i++)
            if (thunk->slice_bytes[i - thunk->read_count])
                memcpy(address(&run->devices[d], thunk->slices[i]), address(device, thunk->slices[i]),
                       (size_t)thunk->slice_bytes[i - thunk->read_count]);
    }
    pthread_mutex_lock(&run->lock);
    if (status) {
        cpu_run_fail(run, hlo_status_annotate(status, "%%%s", thunk->name));
        return;
    }
    for (int64_t d = 0; d < run->device_count; d++) {
        if (leaders[d] != leader) continue;
        cpu_run_resume(run, &run->devices[d]);
    }
}

// ---- deadlocks

// Prints the devices of the group that have not arrived, as "devices 1, 2". Prints at most eight, which is enough to
// see the pattern.
static void print_missing(const CpuRun *run, const CpuDevice *waiting, HloText *text) {
    const CpuCollective *collective = waiting->waits_at->kernel;
    const CpuCollectiveGroup *group = &collective->groups[collective->group_of[waiting->number]];
    int64_t count = 0;
    for (int64_t m = 0; m < group->count; m++) {
        const CpuDevice *other = &run->devices[group->devices[m]];
        if (!other->bases || other->waits_at == waiting->waits_at) continue;
        hlo_text_format(text, "%s%lld", count ? ", " : "", (long long)other->number);
        if (++count == 8) {
            hlo_text_string(text, ", ...");
            return;
        }
    }
}

// Prints one clause for a device that is parked at a recv-done.
static void print_receiver(const CpuDevice *device, HloText *text) {
    const CpuP2pTransfer *peer = device->waits_at->kernel;
    hlo_text_format(text, "%sdevice %lld waits at recv-done %%%s for a message on channel %lld",
                    text->length ? "; " : "", (long long)device->number, device->waits_at->name,
                    (long long)peer->channel);
    if (peer->has_pairs) hlo_text_format(text, " from device %lld", (long long)peer->sources[device->number]);
}

// Describes a deadlock: no device can continue, and not all have finished. Names which device waits where for which,
// with one clause for each rendezvous and receive that has waiting devices. Devices that have finished are named, since
// their absence is usually the reason.
static HloStatus deadlock(const CpuRun *run) {
    HloText text = {0};
    const CpuThunk *reported[8];
    int64_t reported_count = 0;
    for (int64_t d = 0; d < run->device_count && reported_count < 8; d++) {
        const CpuDevice *device = &run->devices[d];
        if (device->waits_at && device->waits_at->kind == CPU_STEP_RECEIVE) {
            print_receiver(device, &text);
            continue;
        }
        bool known = !device->waits_at || device->waits_at->kind != CPU_STEP_COLLECTIVE;
        for (int64_t i = 0; i < reported_count && !known; i++) known = reported[i] == device->waits_at;
        if (known) continue;
        reported[reported_count++] = device->waits_at;
        const CpuCollective *collective = device->waits_at->kernel;
        hlo_text_format(&text, "%sdevice %lld waits at %s %%%s for device ", text.length ? "; " : "", (long long)d,
                        hlo_op_text(collective->opcode), device->waits_at->name);
        print_missing(run, device, &text);
    }
    for (int64_t d = 0; d < run->device_count; d++) {
        if (run->devices[d].waits_at || !run->devices[d].bases) continue;
        hlo_text_format(&text, "; device %lld has finished", (long long)d);
        break;
    }
    const HloStatus status = hlo_error(HLO_FAILED_PRECONDITION, "deadlock in %s: %s", run->executable->module->name,
                                       text.data ? text.data : "");
    hlo_text_free(&text);
    return status;
}

// ---- workers

// Parks the device until its message arrives, unless it has arrived meanwhile. Lock held.
static HloStatus park(CpuRun *run, CpuDevice *device, const CpuThunk *thunk) {
    device->waits_since = now(run);
    if (cpu_messages_come_from_elsewhere(run, thunk->kernel, device->number))
        return cpu_messages_receive(run, device, thunk, address(device, thunk->slices[0]));
    device->waits_at = thunk;
    wake_receiver(run, device->number);
    return HLO_SUCCESS;
}

// Runs a device. Returns with the lock held: errors are recorded under the lock, where the first one counts.
static void run_device(CpuRun *run, CpuDevice *device, CpuPool *pool) {
    assert(device);
    const CpuThunk *waits_at;
    HloStatus status = advance(run, device, pool, &waits_at);
    pthread_mutex_lock(&run->lock);
    if (!status && waits_at && waits_at->kind == CPU_STEP_RECEIVE) status = park(run, device, waits_at);
    if (status)
        cpu_run_fail(run, status);
    else if (waits_at && waits_at->kind == CPU_STEP_COLLECTIVE)
        arrive(run, device, waits_at);
    else if (waits_at && waits_at->kind != CPU_STEP_RECEIVE)
        arrive_shared(run, device, waits_at, pool);
    else if (!waits_at && ++run->finished == run->local_count)
        cpu_run_notify(run);
}

// Runs a part of an exchange; the last part releases the group. Returns with the lock held.
static void run_part(CpuRun *run, const CpuWork *work, CpuPool *pool) {
    assert(work);
    CpuRendezvous *rendezvous = work->rendezvous;
    const CpuCollective *collective = rendezvous->collective;
    const HloStatus status =
        collective->exchange(collective, rendezvous->group, (void *const *const *)rendezvous->addresses, work->part,
                             rendezvous->parts, pool);
    pthread_mutex_lock(&run->lock);
    if (status)
        cpu_run_fail(run, hlo_status_annotate(status, "%%%s", collective->instruction->name));
    else if (--rendezvous->parts_left == 0)
        release_group(run, rendezvous);
}

// Runs a phase of an exchange with other processes; the last one releases the members here. Returns with the lock held.
static void run_phase(CpuRun *run, CpuRendezvous *rendezvous) {
    bool done = false;
    const HloStatus status = cpu_messages_advance(run, rendezvous, &done);
    pthread_mutex_lock(&run->lock);
    if (status)
        cpu_run_fail(run, hlo_status_annotate(status, "%%%s", rendezvous->collective->instruction->name));
    else if (done)
        release_group(run, rendezvous);
    else
        cpu_messages_add(run, rendezvous);
}

// Spins, then yields, then sleeps: exchanges take microseconds, host callbacks seconds. Where several processes share
// the machine, it sleeps soon, since they need the processors. Compares counts rather than flags: news between the look
// and the wait changes the count.
static void wait_for_news(CpuRun *run, uint32_t seen) {
    const int yields = run->launch ? kFewYields : kYields;
    for (int i = 0; atomic_load_explicit(&run->news, memory_order_acquire) == seen; i++) {
        if (i < kSpins) {
            cpu_pause();
        } else if (i < kSpins + yields) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){.tv_nsec = kSleepNanoseconds}, NULL);
        }
    }
}

// Works until the run is over. Any number of workers may do this concurrently, and one is enough. The lock is held at
// the top of the loop; run_device(), run_part() and run_phase() return with it.
static void work_on_run(CpuRun *run, CpuPool *pool) {
    pthread_mutex_lock(&run->lock);
    while (run->finished < run->local_count && !run->status) {
        cpu_messages_poll(run);
        if (run->queue_begin != run->queue_end) {
            const CpuWork work = run->queue[run->queue_begin++ % run->queue_capacity];
            run->busy++;
            pthread_mutex_unlock(&run->lock);
            if (work.device)
                run_device(run, work.device, pool);
            else if (work.is_remote)
                run_phase(run, work.rendezvous);
            else
                run_part(run, &work, pool);
            run->busy--;
            continue;
        }
        if (cpu_messages_are_awaited(run) && !run->messages.is_driven) {
            cpu_messages_wait(run);
            continue;
        }
        if (run->busy == 0 && !cpu_messages_are_awaited(run)) {
            cpu_run_fail(run, deadlock(run));
            break;
        }
        const uint32_t seen = atomic_load_explicit(&run->news, memory_order_relaxed);
        pthread_mutex_unlock(&run->lock);
        wait_for_news(run, seen);
        pthread_mutex_lock(&run->lock);
    }
    pthread_mutex_unlock(&run->lock);
}

// Ignores the range: a worker takes whatever work there is.
static void worker_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    (void)begin;
    (void)end;
    (void)worker;
    CpuRun *run = argument;
    work_on_run(run, run->pool);
}

// ---- a run

// Reserves a list in a block whose size is *bytes so far. Returns where the list begins.
static size_t reserve(size_t *bytes, int64_t count, size_t each) {
    const size_t start = *bytes;
    *bytes += (size_t)hlo_round_up(count * (int64_t)each, (int64_t)sizeof(void *) * 2);
    return start;
}

// Allocates the lists of the run: one zeroed block, because small programs spend most of their time on allocation. The
// lists of a program that was compiled fit into memory, so the sum of their sizes does not overflow.
static HloStatus allocate_lists(CpuRun *run) {
    const CpuExecutable *executable = run->executable;
    const CpuSignature *signature = &executable->signature;
    const int64_t devices = run->device_count;
    int64_t rendezvous = 0, parts = 1;
    for (int32_t i = 0; i < executable->collective_count; i++) {
        const CpuCollective *collective = executable->collectives[i];
        rendezvous += collective->group_count;
        if (!run->alone && collective->parts > parts) parts = collective->parts;
    }
    run->queue_capacity = devices * (1 + parts);
    run->bases_per_device = CPU_BASE_FIRST_ARGUMENT + signature->argument_count + signature->result_count;
    run->frames_per_device = executable->depth + 1;  // one more than the program nests: the entry

    size_t bytes = 0;
    const size_t device_list = reserve(&bytes, devices, sizeof(CpuDevice)),
                 bases = reserve(&bytes, devices * run->bases_per_device, sizeof(char *)),
                 frames = reserve(&bytes, devices * run->frames_per_device, sizeof(CpuFrame)),
                 rendezvous_list = reserve(&bytes, rendezvous, sizeof(CpuRendezvous)),
                 first_rendezvous = reserve(&bytes, executable->collective_count, sizeof(int64_t)),
                 arrivals = reserve(&bytes, executable->shareable_count * devices, sizeof(int64_t)),
                 queue = reserve(&bytes, run->queue_capacity, sizeof(CpuWork));
    char *block = hlo_allocate_zeroed(1, bytes);
    HLO_FAIL_IF(!block, HLO_RESOURCE_EXHAUSTED, "no memory to run %lld devices", (long long)devices);
    run->lists = block;
    run->rendezvous_count = rendezvous;
    run->devices = (void *)(block + device_list);
    run->bases = (void *)(block + bases);
    run->frames = (void *)(block + frames);
    run->rendezvous_list = (void *)(block + rendezvous_list);
    run->first_rendezvous = (void *)(block + first_rendezvous);
    run->shared_arrivals = (void *)(block + arrivals);
    run->queue = (void *)(block + queue);
    return HLO_SUCCESS;
}

static void start_devices(CpuRun *run, const CpuExecution *execution) {
    const CpuSignature *signature = &run->executable->signature;
    for (int64_t d = 0; d < run->device_count; d++) {
        CpuDevice *device = &run->devices[d];
        device->number = d;
        if (run->span && run->span->elsewhere[d]) continue;
        device->draws = hlo_draws_start(0, d / run->executable->partition_count);
        device->bases = run->bases + d * run->bases_per_device;
        device->frames = run->frames + d * run->frames_per_device;
        char **next = device->bases;
        *next++ = execution->arenas[d];
        *next++ = run->executable->constants;
        for (int64_t i = 0; i < signature->argument_count; i++) *next++ = execution->arguments[d][i];
        for (int64_t i = 0; i < signature->result_count; i++) *next++ = execution->results[d][i];
        device->frames[device->frame_count++] =
            (CpuFrame){.list = &run->executable->entry, .done_at_end = signature->cost};
    }
}

// Prepares a rendezvous for every group of every collective; those of one collective are numbered from its
// first_rendezvous on.
static void start_rendezvous(CpuRun *run) {
    const CpuExecutable *executable = run->executable;
    CpuRendezvous *next = run->rendezvous_list;
    for (int32_t i = 0; i < executable->collective_count; i++) {
        const CpuCollective *collective = executable->collectives[i];
        run->first_rendezvous[i] = next - run->rendezvous_list;
        for (const CpuCollectiveGroup *group = collective->groups; group < collective->groups + collective->group_count;
             group++, next++) {
            const int64_t expected = run->span ? run->span->members[next - run->rendezvous_list] : group->count;
            *next = (CpuRendezvous){.collective = collective, .group = group, .expected = expected};
        }
    }
}

// Frees everything that was allocated, also by a run that failed half-way.
static void free_run(CpuRun *run) {
    cpu_messages_free(run);
    for (int64_t i = 0; i < run->rendezvous_count; i++) hlo_free(run->rendezvous_list[i].addresses);
    cpu_mail_free(&run->mail);
    hlo_free(run->lists);
    pthread_mutex_destroy(&run->lock);
}

// Runs the devices. With fewer devices than workers, one worker walks through the devices, and its kernels use the
// other workers. Otherwise workers take devices.
HloStatus cpu_execute(const CpuExecutable *executable, CpuPool *pool, const CpuExecution *execution) {
    assert(executable && execution);
    CpuRun run = {.executable = executable,
                  .pool = pool,
                  .sharing = execution->sharing,
                  .host = execution->host,
                  .trace = execution->trace,
                  .progress = execution->progress,
                  .span = execution->span,
                  .launch = execution->launch,
                  .device_count = executable->replica_count * executable->partition_count};
    run.mail.devices = run.local_count = run.device_count;
    if (run.span) {
        run.local_count = run.span->local_count;
        run.mail.elsewhere = run.span->elsewhere;
    }
    pthread_mutex_init(&run.lock, NULL);
    const int workers = cpu_pool_worker_count(pool);
    run.alone = run.local_count < workers || workers == 1 || executable->signature.iteration_cost < kSerialCost;
    HloStatus status = allocate_lists(&run);
    if (!status) {
        start_devices(&run, execution);
        start_rendezvous(&run);
        for (int64_t d = 0; d < run.device_count; d++)
            if (run.devices[d].bases) cpu_run_push_work(&run, (CpuWork){.device = &run.devices[d]});
        if (run.alone)
            work_on_run(&run, pool);
        else
            cpu_pool_parallel_claim(pool, workers, worker_task, &run);
        status = run.status ? run.status : cpu_messages_finish(&run);
    }
    free_run(&run);
    return status;
}
