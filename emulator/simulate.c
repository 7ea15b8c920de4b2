// SPDX-License-Identifier: Apache-2.0
// Computes the time of one step. All devices run the same program, so one timeline represents all of them. Kernels
// follow each other on it in program order, each with the time from emulator/cost.h. Transfers run in parallel on the
// links (as far as the chip supports that) until an instruction waits for them:
//
//   device    | k1 | k2 |    k3    |..wait..| k4 |            all-gather-start comes before k2, its
//   links          |==== all-gather ======= |                 done after k3; only ..wait.. is exposed
//                  start                    done
//
// A transfer starts as soon as the links that it uses (of the torus, packages and the data centre's network) are
// free, and occupies all of them until it ends. Copies to and from the host have engines of their own.
//
// The body of a loop is timed once and multiplied; all branches are timed and the longest counts. `repeat` is the
// number of times that the current computation runs in total, by which amounts are multiplied, but not times of the
// timeline. So a step of thousands of layers costs as much to simulate as its text has kernels: O(kernels), except for
// computations that are called from several places.
//
// All times are whole picoseconds and saturate (emu_add, emu_times): the time of a program that would run for years is
// still a valid number.
#include "emulator/simulate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "emulator/amount.h"
#include "emulator/collective.h"
#include "emulator/layout/layout.h"
#include "emulator/mail.h"
#include "emulator/mesh_order.h"
#include "emulator/model_work.h"
#include "emulator/program.h"
#include "emulator/report/memory_curve.h"
#include "emulator/report/mesh_axes.h"
#include "emulator/report/parameters.h"
#include "emulator/report/range.h"
#include "emulator/resources.h"
#include "emulator/schedule/latency_hiding.h"
#include "emulator/schedule/pipelining.h"
#include "hlo/analysis/calls.h"
#include "hlo/analysis/contents.h"
#include "hlo/analysis/loop.h"
#include "hlo/base/arithmetic.h"
#include "hlo/base/vector.h"
#include "hlo/ir/custom_call.h"
#include "hlo/ir/transfer.h"

// Loops and calls may nest this deep.
#define MAX_DEPTH 64
// Operations that are kept for the timeline; later ones are timed but not listed.
#define MAX_OPS 1000000
// Buffers of the memory report: the largest that have this share of the peak together, and no fewer than that many.
#define LISTED_SHARE 0.99
#define LEAST_BUFFERS 20

// Work of the network that was started and not yet waited for.
typedef struct Flight {
    const HloInstruction *start;
    int64_t end;
    int64_t op;         // its number on the timeline, -1 if it is not there
    bool is_copy;       // between memories of the device and its host, not over the network
    bool is_pipelined;  // another iteration waits for it
    int64_t late;       // by which it ends later in the first iteration of the loop
} Flight;

// A transfer for the next iteration that starts after kernel `after`, wherever the start is in the plan.
typedef struct Placed {
    const HloInstruction *start;
    int64_t after;
    int64_t needed;  // when this iteration needed what the one before had started; -1: not yet
    bool has_begun;
} Placed;

// A loop whose body is being run, and how its pipelined transfers bound the time of an iteration (pipelining.h).
typedef struct Loop {
    const HloInstruction *loop;
    struct Loop *outer;
    int64_t depth;             // of its body
    int64_t start;             // of the iteration
    EmuResources busy;         // for how long its transfers use them
    EmuResources taken_until;  // when those transfers are over that began before
    bool is_taken;             // whether there are any
    int64_t delay;             // by which they put off the first iteration so far, but no other
    bool is_delayed_by_copy;
    int64_t longest_late;  // `longest`, for what the first iteration starts
    int64_t longest;  // from the start of a transfer to where the next iteration waits for it, less what lies between
    int64_t longest_op;         // the number of that transfer on the timeline, or -1
    int64_t extra_bytes;        // of arrays that are held for the next iteration
    HloInstructionVector held;  // the starts that make them
    bool has_pipelined;
    bool is_copy_bound;         // whether copies between memories, not the network, determine `longest`
    HLO_VECTOR(Placed) placed;  // transfers for the next iteration that have a place in this one
} Loop;

// A simulation in progress.
typedef struct Simulation {
    EmuProgram *program;
    EmuNetwork *network;
    EmuMail *mail;
    EmuReport *report;
    HloText *text;  // for printing; freed by the caller of hlo_protect()
    const HloModule *module;
    EmuMeshAxes axes;
    HLO_VECTOR(EmuOp) ops;
    HLO_VECTOR(Flight) flights;
    double *link_bytes;      // by link
    double *transfer_bytes;  // by link, all 0 between transfers
    EmuResources free_at;    // when links and copy engines are free again
    int64_t now;             // of the device
    int64_t **starts;        // by computation id: when its kernels started the last time, and when the last one ended
    double slowness;         // of the slowest device, which the others wait for
    EmuKernelCosts kernel_costs;
    double repeat;     // how often the current computation runs
    int64_t depth;     // number of enclosing calls; 1 in the entry itself
    EmuMemory memory;  // before transfers are pipelined
    int64_t headroom;  // bytes that the entry's current kernel leaves free
    Loop *loop;        // the innermost loop that is run
    bool is_trial;     // only the time of the step is wanted
} Simulation;

static HloStatus run_computation(Simulation *simulation, const HloComputation *computation);

// "file:line" of an instruction in the report's arena.
static const char *source_of(HloArena *arena, const HloInstruction *instruction) {
    const char *file = NULL;
    int64_t line = 0;
    hlo_instruction_source(instruction, &file, &line);
    return file && line ? hlo_arena_format(arena, "%s:%lld", file, (long long)line) : "";
}

// "" for NULL: names in reports are never missing.
static const char *copy_string(HloArena *arena, const char *text) {
    return text ? hlo_arena_text(arena, text) : "";
}

// The opcode under which an operation is listed: that of what an asynchronous start wraps, and of a kernel the matrix
// product that it is about, whatever is fused after it.
static HloOpcode listed_opcode(const HloInstruction *instruction, const EmuKernel *kernel) {
    for (int64_t i = 0; kernel && i < kernel->member_count; i++) {
        const HloOpcode opcode = kernel->members[i]->opcode;
        if (opcode == HLO_OP_DOT || opcode == HLO_OP_CONVOLUTION) return opcode;
    }
    return emu_synchronous_opcode(instruction);
}

// Puts an operation on the timeline; returns its number, -1 when the list is full.
// `kernel` is NULL for what is not a kernel of the device.
static int64_t record(Simulation *simulation, const HloInstruction *instruction, const EmuKernel *kernel, int64_t start,
                      int64_t duration, EmuBound bound) {
    assert(start >= 0 && duration >= 0 && simulation->depth > 0);
    HloArena *arena = simulation->report->arena;
    if (simulation->is_trial || simulation->ops.count >= MAX_OPS) return -1;
    const EmuOp op = {.name = copy_string(arena, instruction->name),
                      .opcode = hlo_op_text(listed_opcode(instruction, kernel)),
                      .source = source_of(arena, instruction),
                      .axes = bound == EMU_BOUND_NETWORK
                                  ? emu_mesh_axes_along(&simulation->axes, arena, simulation->module, instruction)
                                  : "",
                      .scope = copy_string(arena, instruction->metadata ? instruction->metadata->op_name : NULL),
                      .start = start,
                      .duration = duration,
                      .count = emu_times(1, simulation->repeat),
                      .depth = simulation->depth - 1,
                      .network = bound == EMU_BOUND_NETWORK || bound == EMU_BOUND_HOST,
                      .issued = simulation->now,
                      .awaited = -1,
                      .bound = bound};
    hlo_vector_push(arena, &simulation->ops, op);
    return simulation->ops.count - 1;
}

// Records the first custom call whose cost is unknown.
static void note_unknown_call(Simulation *simulation, const EmuKernel *kernel) {
    EmuReport *report = simulation->report;
    for (int64_t i = 0; i < kernel->member_count && !report->unknown_call; i++) {
        const HloInstruction *at = kernel->members[i];
        if (!hlo_is(at, HLO_OP_CUSTOM_CALL)) continue;
        const char *target = HLO_ATTRIBUTES(at, CustomCall)->target, *source = source_of(report->arena, at);
        const bool placed = source && *source;
        report->unknown_call = hlo_arena_format(report->arena, "\"%s\" (%%%s%s%s)", target ? target : "", at->name,
                                                placed ? " at " : "", placed ? source : "");
        report->unknown_call_runs = !hlo_custom_call_is_unknown(at);
    }
}

// The scope of the products of a kernel, or NULL.
static const char *scope_of_products(const EmuKernel *kernel) {
    for (int64_t i = 0; i < kernel->member_count; i++) {
        const HloInstruction *at = kernel->members[i];
        const bool works = emu_instruction_class(at) == EMU_OP_MATRIX || hlo_is(at, HLO_OP_CUSTOM_CALL);
        if (works) return at->metadata ? at->metadata->op_name : NULL;
    }
    return NULL;
}

// Counts the products that are made again for the backward pass.
static void count_recomputed(EmuReport *report, const EmuKernel *kernel, double flops) {
    const char *scope = scope_of_products(kernel);
    if (!scope || !*scope) return;
    report->names_scopes = true;
    if (emu_is_recomputed(scope)) report->recomputed_flops_per_device += flops;
}

// Adds copies of a kernel's arrays into other layouts, which run before it or after it.
static void add_copies(EmuCost *cost, const EmuChip *chip, EmuCopies copies) {
    const double rate = chip->hbm_bytes_per_second_per_chip * chip->hbm_efficiency / (double)chip->devices_per_chip;
    if (copies.cycles <= 0 && copies.bytes <= 0) return;
    const double seconds = fmax(copies.bytes / rate, copies.cycles / chip->clock_hz);
    cost->read_bytes += copies.bytes;
    cost->picoseconds = emu_add(cost->picoseconds, emu_add(chip->op_picoseconds, emu_picoseconds(seconds)));
}

// Runs a kernel of the device. `repeat` is the product of the trip counts of all enclosing loops: a body is timed once
// and multiplied.
static void run_kernel(Simulation *simulation, const EmuKernel *kernel) {
    EmuReport *report = simulation->report;
    EmuProgram *program = simulation->program;
    EmuCost cost = emu_program_kernel_cost(program, kernel, simulation->kernel_costs);
    report->unknown_calls += cost.unknown;
    report->body_calls += cost.call == EMU_CALL_BODY;
    report->stated_calls += cost.call == EMU_CALL_STATED;
    add_copies(&cost, &program->chip, program->copies[kernel->members[0]->id]);
    if (cost.unknown) note_unknown_call(simulation, kernel);
    if (!cost.picoseconds) return;
    cost.picoseconds = emu_times(cost.picoseconds, simulation->slowness);
    const int64_t op = record(simulation, kernel->members[0], kernel, simulation->now, cost.picoseconds, cost.bound);
    if (op >= 0) {
        simulation->ops.items[op].flops = cost.matrix_flops + cost.other_flops;
        simulation->ops.items[op].bytes = cost.read_bytes + cost.written_bytes;
    }
    simulation->now = emu_add(simulation->now, cost.picoseconds);
    report->flops_per_device += (cost.matrix_flops + cost.other_flops) * simulation->repeat;
    report->matrix_flops_per_device += cost.matrix_flops * simulation->repeat;
    if (cost.matrix_flops > 0) count_recomputed(report, kernel, cost.matrix_flops * simulation->repeat);
    report->hbm_bytes_per_device += (cost.read_bytes + cost.written_bytes) * simulation->repeat;
    int64_t *part = cost.bound == EMU_BOUND_MEMORY ? &report->memory_picoseconds : &report->compute_picoseconds;
    *part = emu_add(*part, emu_times(cost.picoseconds, simulation->repeat));
}

// Makes the device wait until `when` for the network, or for a copy. A better schedule could hide this time, so it is
// reported separately. `op` is the number on the timeline of what it waits for, or -1.
static void wait_until(Simulation *simulation, int64_t when, bool is_copy, int64_t op) {
    EmuReport *report = simulation->report;
    if (when <= simulation->now) return;
    const int64_t wait = emu_times(when - simulation->now, simulation->repeat);
    int64_t *exposed = is_copy ? &report->copy_picoseconds : &report->exposed_picoseconds;
    *exposed = emu_add(*exposed, wait);
    if (op >= 0) simulation->ops.items[op].waited = emu_add(simulation->ops.items[op].waited, wait);
    simulation->now = when;
}

// Notes that transfers that began before a loop put off its first iteration.
static void note_delay(Loop *loop, int64_t delay, bool is_copy) {
    if (delay <= loop->delay) return;
    loop->delay = delay;
    loop->is_delayed_by_copy = is_copy;
}

// Makes the device wait for a transfer, or a copy.
static void await(Simulation *simulation, const Flight *flight) {
    const int64_t now = simulation->now, op = flight->op;
    wait_until(simulation, flight->end, flight->is_copy, op);
    if (op >= 0 && simulation->ops.items[op].awaited < 0) simulation->ops.items[op].awaited = simulation->now;
    if (!simulation->loop) return;
    const int64_t slack = hlo_larger(now - flight->end, 0);
    note_delay(simulation->loop, flight->late - slack, flight->is_copy);
}

// By how much a transfer of a loop's body, which begins at `start` in every other iteration, begins later in the first,
// where others have what it uses until `taken_until`.
static int64_t lateness(const Simulation *simulation, int64_t taken_until, int64_t start) {
    const int64_t now = emu_add(simulation->now, simulation->loop->delay);
    return hlo_larger(hlo_larger(taken_until, now) - start, 0);
}

// Keeps links or an engine busy. The loop around this one may wait for all of what a transfer is late.
static void occupy(Simulation *simulation, EmuResource resource, int64_t start, Flight *flight) {
    HloArena *arena = simulation->program->arena;
    const EmuLinkSets *sets = simulation->network->sets;
    Loop *loop = simulation->loop;
    *emu_resources_at(arena, &simulation->free_at, resource) = flight->end;
    if (!loop) return;
    for (Loop *outer = loop->outer; outer; outer = outer->outer)
        if (outer->is_taken)
            note_delay(outer, emu_resources_latest(&outer->taken_until, sets, resource) - start, flight->is_copy);
    if (loop->is_taken) {
        flight->late = lateness(simulation, emu_resources_latest(&loop->taken_until, sets, resource), start);
        *emu_resources_at(arena, &loop->taken_until, resource) = emu_add(flight->end, flight->late);
    }
    int64_t *busy = emu_resources_at(arena, &loop->busy, resource);
    *busy = emu_add(*busy, flight->end - start);
    loop->has_pipelined |= flight->is_pipelined;
}

// When a transfer's links are all free: two transfers that share one follow each other, others run at the same time,
// such as those around a ring in either direction.
static int64_t links_free(Simulation *simulation, const EmuTransfer *transfer) {
    if (transfer->set < 0) return simulation->now;
    return emu_resources_free(&simulation->free_at, simulation->network->sets, transfer->set, simulation->now);
}

// Counts the bytes of a transfer on its links, and returns those of its busiest one. It lists a link once for each of
// its stages.
static double carry(Simulation *simulation, const EmuTransfer *transfer) {
    double most = 0;
    for (int64_t i = 0; i < transfer->link_count; i++) {
        const int64_t link = transfer->links[i].link;
        const double bytes = emu_transfer_link_bytes(transfer, i);
        simulation->link_bytes[link] += bytes * simulation->repeat;
        simulation->transfer_bytes[link] += bytes;
        if (simulation->transfer_bytes[link] > most) most = simulation->transfer_bytes[link];
    }
    for (int64_t i = 0; i < transfer->link_count; i++) simulation->transfer_bytes[transfer->links[i].link] = 0;
    return most;
}

// Starts a collective: it runs as soon as its links are free. Sets when it ends, and its number on the timeline.
static HloStatus start_transfer(Simulation *simulation, const HloInstruction *collective, Flight *flight) {
    EmuReport *report = simulation->report;
    EmuNetwork *network = simulation->network;
    const HloArenaMark mark = hlo_arena_mark(network->arena);
    EmuTransfer transfer;
    HLO_TRY(emu_transfer(network, collective, &transfer));
    const int64_t start = links_free(simulation, &transfer);
    flight->end = emu_add(start, transfer.picoseconds);
    assert(start >= simulation->now && flight->end >= start);
    if (transfer.set >= 0) occupy(simulation, (EmuResource){.set = transfer.set}, start, flight);
    const double most = simulation->is_trial ? 0 : carry(simulation, &transfer);
    hlo_arena_reset(network->arena, mark);
    const int64_t op = record(simulation, collective, NULL, start, transfer.picoseconds, EMU_BOUND_NETWORK);
    if (op >= 0) {
        simulation->ops.items[op].bytes = (double)transfer.bytes_per_device;
        simulation->ops.items[op].link_bytes = most;
    }
    flight->op = op;
    report->collective_picoseconds =
        emu_add(report->collective_picoseconds, emu_times(transfer.picoseconds, simulation->repeat));
    report->collective_bytes_per_device =
        emu_add(report->collective_bytes_per_device, emu_times(transfer.bytes_per_device, simulation->repeat));
    return HLO_SUCCESS;
}

// Whether an array of a copy's operands or result is in the host's memory.
static bool meets_host(const HloInstruction *copy) {
    if (emu_instruction_class(copy) == EMU_OP_HOST_COPY) return true;
    const int64_t leaves = hlo_shape_leaf_count(copy->shape);
    for (int64_t i = 0; i < leaves; i++)
        if (hlo_shape_in_host_memory(hlo_shape_leaf(copy->shape, i))) return true;
    return false;
}

// The bytes that are moved: those of a slice of a stack in the host's memory, or of a whole array.
static double moved_bytes(const HloInstruction *inner) {
    if (hlo_is(inner, HLO_OP_DYNAMIC_UPDATE_SLICE)) return (double)hlo_shape_bytes(inner->operands[1]->shape);
    if (hlo_is(inner, HLO_OP_DYNAMIC_SLICE)) return (double)hlo_shape_bytes(inner->shape);
    return inner->operand_count ? (double)hlo_shape_bytes(inner->operands[0]->shape) : 0;
}

// Starts a copy between memories: it runs in parallel to the device, at PCIe speed if one of the memories is the
// host's, else at HBM speed. Copies of either kind wait for earlier ones of the same kind; the two directions to and
// from the host do not share a link. Sets when it ends, and its number on the timeline if it is there.
static void start_copy(Simulation *simulation, const HloInstruction *start, Flight *flight) {
    const EmuChip *chip = &simulation->program->topology->chip;
    const HloInstruction *inner = emu_synchronous_instruction(start);
    const bool host = meets_host(start),
               out = hlo_is(inner, HLO_OP_DYNAMIC_UPDATE_SLICE) ||
                     (inner == start && hlo_shape_in_host_memory(hlo_shape_leaf(start->shape, 0)));
    const double hbm = chip->hbm_bytes_per_second_per_chip * chip->hbm_efficiency;
    const double rate = (host ? chip->host_bytes_per_second_per_chip : hbm) / (double)chip->devices_per_chip;
    const EmuCopyEngine kind = !host ? EMU_ENGINE_ON_DEVICE : out ? EMU_ENGINE_TO_HOST : EMU_ENGINE_TO_DEVICE;
    const int64_t begin = hlo_larger(simulation->free_at.engines[kind], simulation->now);
    flight->end = emu_add(begin, emu_picoseconds(moved_bytes(inner) / rate));
    occupy(simulation, (EmuResource){.set = -1, .engine = kind}, begin, flight);
    if (!host) return;
    const int64_t op = record(simulation, start, NULL, begin, flight->end - begin, EMU_BOUND_HOST);
    if (op >= 0) simulation->ops.items[op].bytes = simulation->ops.items[op].link_bytes = moved_bytes(inner);
    flight->op = op;
}

// A slice of a stack in the host's memory (pass/host_offloader.c makes these asynchronous) is a copy, not work.
static bool is_host_slice(const HloInstruction *start) {
    const HloOpcode opcode = emu_synchronous_opcode(start);
    return (opcode == HLO_OP_DYNAMIC_SLICE || opcode == HLO_OP_DYNAMIC_UPDATE_SLICE) && meets_host(start);
}

// Whether `at` is a send, recv or done between devices.
static bool is_p2p(const HloInstruction *at, HloOpcode opcode) {
    return hlo_is(at, opcode) && !hlo_transfer_is_host(at);
}

// Whether the current instruction runs exactly once: it is in the entry itself, not in a loop, a branch or a call.
static bool runs_once(const Simulation *simulation) {
    return simulation->depth == 1;
}

// Whether a transfer crosses the boundary between two iterations. What is loaded ahead must find memory beside
// everything that the device holds while the loop runs.
static bool is_pipelined(Simulation *simulation, const HloInstruction *start) {
    Loop *loop = simulation->loop;
    if (!loop || loop->depth != simulation->depth || !simulation->program->topology->chip.overlaps_collectives)
        return false;
    const EmuProgram *program = simulation->program;
    const HloOpcode opcode = emu_synchronous_opcode(start);
    if (program->collectives_stay && hlo_op_is(opcode, HLO_OP_IS_COLLECTIVE)) return false;
    const bool ends_late = emu_ends_late(start, loop->loop);
    if (ends_late && is_host_slice(start)) return true;
    if (!(ends_late && simulation->program->sums_end_late) &&
        !emu_starts_early(simulation->program->arena, start, loop->loop))
        return false;
    const int64_t bytes = emu_crossing_bytes(&simulation->program->topology->chip, start);
    if (bytes > simulation->headroom - loop->extra_bytes) return false;
    loop->extra_bytes += bytes;
    if (bytes) hlo_vector_push(simulation->program->arena, &loop->held, (HloInstruction *)(uintptr_t)start);
    return true;
}

// The entry of a transfer that starts elsewhere in the iteration; NULL for others.
static Placed *find_placed(const Simulation *simulation, const HloInstruction *start) {
    Loop *loop = simulation->loop;
    for (int64_t i = 0; loop && i < loop->placed.count; i++)
        if (loop->placed.items[i].start == start) return &loop->placed.items[i];
    return NULL;
}

// Lists the transfers of a loop's body that start elsewhere in the iteration.
static void list_placed(Simulation *simulation, const EmuPlan *plan) {
    for (int64_t k = 0; plan->starts_after && k < plan->kernel_count; k++) {
        const HloInstruction *start = plan->kernels[k].members[0];
        if (plan->starts_after[k] < 0 || !is_pipelined(simulation, start)) continue;
        const Placed placed = {.start = start, .after = plan->starts_after[k], .needed = -1};
        hlo_vector_push(simulation->program->arena, &simulation->loop->placed, placed);
    }
}

// An asynchronous start costs the device nothing now; the flight is recorded until its done waits for it.
static HloStatus begin_flight(Simulation *simulation, const HloInstruction *start) {
    if (find_placed(simulation, start)) return HLO_SUCCESS;
    const HloInstruction *inner = emu_synchronous_instruction(start);
    const bool is_copy = start->opcode == HLO_OP_COPY_START || is_host_slice(start);
    Flight flight = {.start = start, .end = simulation->now, .op = -1, .is_copy = is_copy};
    if (is_p2p(start, HLO_OP_SEND)) HLO_TRY(emu_mail_send(simulation->mail, start, runs_once(simulation)));
    const bool moves = hlo_op_is(inner->opcode, HLO_OP_IS_COLLECTIVE) || is_copy;
    flight.is_pipelined = !simulation->program->module->is_scheduled && moves && is_pipelined(simulation, start);
    if (hlo_op_is(inner->opcode, HLO_OP_IS_COLLECTIVE) || is_p2p(start, HLO_OP_SEND))
        HLO_TRY(start_transfer(simulation, start, &flight));
    else if (is_copy)
        start_copy(simulation, start, &flight);
    else if (start->opcode == HLO_OP_ASYNC_START)
        HLO_TRY(run_computation(simulation, start->called[0]));
    // On chips whose cores take part in every transfer, nothing runs in parallel to it.
    if (!simulation->program->topology->chip.overlaps_collectives && !is_copy) await(simulation, &flight);
    hlo_vector_push(simulation->program->arena, &simulation->flights, flight);
    return HLO_SUCCESS;
}

// Finds the start of a chain of start, update … done.
static const HloInstruction *start_of(const HloInstruction *done) {
    const HloInstruction *at = done->operands[0];
    while (at->opcode == HLO_OP_ASYNC_UPDATE) at = at->operands[0];
    return at;
}

// A message on a channel arrives when its send ends: all devices do the same at the same time. If the send is in
// another iteration of a loop, the message is already there.
static void await_message(Simulation *simulation, const HloInstruction *done) {
    const int64_t channel = HLO_ATTRIBUTES(done, Transfer)->channel_id;
    for (int64_t i = 0; i < simulation->flights.count; i++) {
        const Flight *flight = &simulation->flights.items[i];
        if (is_p2p(flight->start, HLO_OP_SEND) && HLO_ATTRIBUTES(flight->start, Transfer)->channel_id == channel)
            await(simulation, flight);
    }
}

// Records where an iteration waits for a transfer of the previous one.
static void bound_iteration(Loop *loop, const Flight *flight, int64_t now) {
    assert(loop);
    const int64_t least = flight->end - now;
    loop->longest_late = hlo_larger(loop->longest_late, emu_add(least, flight->late));
    if (least <= loop->longest) return;
    loop->longest = least;
    loop->longest_op = flight->op;
    loop->is_copy_bound = flight->is_copy;
}

// Starts the transfers for the next iteration whose place is after kernel `number` of a loop's body.
static HloStatus begin_placed(Simulation *simulation, int64_t number) {
    Loop *loop = simulation->loop;
    for (int64_t i = 0; loop && loop->depth == simulation->depth && i < loop->placed.count; i++) {
        Placed *placed = &loop->placed.items[i];
        if (placed->after != number) continue;
        Flight flight = {.start = placed->start, .is_pipelined = true};
        HLO_TRY(start_transfer(simulation, placed->start, &flight));
        placed->has_begun = true;
        if (placed->needed >= 0)
            bound_iteration(loop, &flight, placed->needed);
        else
            hlo_vector_push(simulation->program->arena, &simulation->flights, flight);
    }
    return HLO_SUCCESS;
}

// A done waits for its start, and a recv-done for the send that its message comes from.
static HloStatus end_flight(Simulation *simulation, const HloInstruction *done) {
    if (is_p2p(done, HLO_OP_RECV_DONE)) {
        HLO_TRY(emu_mail_receive(simulation->mail, done, runs_once(simulation)));
        await_message(simulation, done);
    }
    const HloInstruction *start = start_of(done);
    Placed *placed = find_placed(simulation, start);
    if (placed && !placed->has_begun) placed->needed = simulation->now;
    for (int64_t i = 0; i < simulation->flights.count; i++) {
        if (simulation->flights.items[i].start != start) continue;
        if (simulation->flights.items[i].is_pipelined)
            bound_iteration(simulation->loop, &simulation->flights.items[i], simulation->now);
        else
            await(simulation, &simulation->flights.items[i]);
        simulation->flights.items[i] = simulation->flights.items[--simulation->flights.count];
        break;
    }
    return HLO_SUCCESS;
}

static int64_t busiest_link(const Simulation *simulation, const EmuResources *busy) {
    const EmuProgram *program = simulation->program;
    return emu_resources_busiest_link(program->arena, busy, simulation->network->sets,
                                      emu_link_limit(program->topology));
}

// Lengthens an iteration until its pipelined transfers keep up with it: each must end before the next iteration needs
// it, and no resource may have more to do than there is time.
static void finish_iteration(Simulation *simulation, Loop *loop) {
    int64_t least = loop->longest, op = loop->longest_op;
    bool is_copy = loop->is_copy_bound;
    const int64_t busiest = loop->has_pipelined ? busiest_link(simulation, &loop->busy) : 0;
    if (busiest > least) {
        least = busiest;
        op = -1;  // all that use the link together
        is_copy = false;
    }
    for (int engine = 0; loop->has_pipelined && engine < EMU_COPY_ENGINES; engine++) {
        if (loop->busy.engines[engine] <= least) continue;
        least = loop->busy.engines[engine];
        op = -1;
        is_copy = true;
    }
    wait_until(simulation, emu_add(loop->start, least), is_copy, op);
    note_delay(loop, loop->longest_late - (simulation->now - loop->start), is_copy);
    const int32_t body = loop->loop->called[1]->id;
    if (loop->extra_bytes <= simulation->program->extra_bytes[body]) return;
    simulation->program->extra_bytes[body] = loop->extra_bytes;
    simulation->program->held[body] = loop->held;
}

// The body is timed for all iterations but the first: no transfer that began before the loop is on the links.
static void clear_links(Simulation *simulation, Loop *loop) {
    if (!emu_resources_taken(&simulation->free_at, simulation->now)) return;
    loop->is_taken = true;
    loop->taken_until = simulation->free_at;
    simulation->free_at = (EmuResources){{0}, {0}};
}

// Runs the body of a loop once on the timeline, with the transfers that cross the boundaries of its iterations.
static HloStatus run_body(Simulation *simulation, Loop *loop) {
    const int64_t headroom = simulation->headroom;
    simulation->loop = loop;
    HloStatus status = run_computation(simulation, loop->loop->called[1]);
    simulation->loop = loop->outer;
    simulation->headroom = headroom;
    if (!status) finish_iteration(simulation, loop);
    return status;
}

// Counts what the transfers of a loop use for the loop around it, and puts off the end by its first iteration's delay.
static void finish_loop(Simulation *simulation, const Loop *loop, int64_t trips) {
    HloArena *arena = simulation->program->arena;
    if (loop->outer) emu_resources_add(arena, &loop->outer->busy, &loop->busy, trips);
    emu_resources_raise(arena, &simulation->free_at, &loop->taken_until);
    wait_until(simulation, emu_add(simulation->now, loop->delay), loop->is_delayed_by_copy, -1);
}

// Runs the body of a loop once on the timeline and adds the time of its other iterations, and that by which the first
// one is put off.
static HloStatus run_loop(Simulation *simulation, const HloInstruction *instruction) {
    assert(hlo_is(instruction, HLO_OP_WHILE));
    int64_t trips = hlo_trip_count(instruction);
    if (trips < 0) {
        simulation->report->unknown_trip_counts++;
        trips = 1;
    }
    Loop loop = {.loop = instruction,
                 .outer = simulation->loop,
                 .depth = simulation->depth + 1,
                 .start = simulation->now,
                 .longest_op = -1};
    const double repeat = simulation->repeat;
    const int64_t start = simulation->now;
    simulation->repeat = repeat * (double)trips;
    if (trips > 1) clear_links(simulation, &loop);
    HloStatus status = trips ? run_body(simulation, &loop) : HLO_SUCCESS;
    // The condition is evaluated once even if no iteration runs.
    if (!trips) simulation->repeat = repeat;
    if (!status) status = run_computation(simulation, instruction->called[0]);
    simulation->repeat = repeat;
    assert(simulation->now >= start);
    if (trips) simulation->now = emu_add(start, emu_times(simulation->now - start, (double)trips));
    if (!status) finish_loop(simulation, &loop, trips);
    return status;
}

// A copy of what is known of the loops around an instruction.
static Loop *copy_loops(HloArena *arena, const Loop *loop) {
    if (!loop) return NULL;
    Loop *copy = hlo_arena_copy(arena, loop, sizeof *loop);
    copy->busy = emu_resources_copy(arena, &loop->busy);
    copy->taken_until = emu_resources_copy(arena, &loop->taken_until);
    copy->outer = copy_loops(arena, loop->outer);
    return copy;
}

// Makes what is known of the loops what was copied; the copy can be used again.
static void restore_loops(HloArena *arena, Loop *loop, const Loop *copy) {
    for (; loop; loop = loop->outer, copy = copy->outer) {
        Loop *outer = loop->outer;
        *loop = *copy;
        loop->outer = outer;
        loop->busy = emu_resources_copy(arena, &copy->busy);
        loop->taken_until = emu_resources_copy(arena, &copy->taken_until);
    }
}

// Runs every branch and continues after the longest; the traffic of all of them counts.
static HloStatus run_branches(Simulation *simulation, const HloInstruction *conditional) {
    assert(hlo_is(conditional, HLO_OP_CONDITIONAL));
    EmuReport *report = simulation->report;
    const int64_t start = simulation->now;
    const EmuReport before = *report;
    EmuReport longest_report = before;
    int64_t longest = start, sent = before.collective_bytes_per_device;
    int64_t longest_begin = 0, longest_end = 0;  // its operations on the timeline
    const int64_t first_op = simulation->ops.count;
    HloArena *arena = simulation->program->arena;
    const EmuResources free_before = emu_resources_copy(arena, &simulation->free_at);
    EmuResources longest_free = free_before;
    const Loop *loops_before = copy_loops(arena, simulation->loop), *longest_loops = loops_before;
    for (int32_t i = 0; i < conditional->called_count; i++) {
        simulation->now = start;
        *report = before;
        // No branch waits for links that another branch would have used, and no loop for what another one would send.
        simulation->free_at = emu_resources_copy(arena, &free_before);
        restore_loops(arena, simulation->loop, loops_before);
        const int64_t begin = simulation->ops.count;
        HLO_TRY(run_computation(simulation, conditional->called[i]));
        sent = emu_add(sent, report->collective_bytes_per_device - before.collective_bytes_per_device);
        if (i && simulation->now <= longest) continue;
        longest = simulation->now;
        longest_begin = begin;
        longest_end = simulation->ops.count;
        longest_report = *report;
        longest_free = simulation->free_at;
        longest_loops = copy_loops(arena, simulation->loop);
    }
    for (int64_t i = first_op; i < simulation->ops.count; i++)
        if (i < longest_begin || i >= longest_end) simulation->ops.items[i].in_shorter_branch = true;
    simulation->free_at = longest_free;
    restore_loops(arena, simulation->loop, longest_loops);
    assert(longest >= start);  // the verifier requires at least one branch
    *report = longest_report;
    report->collective_bytes_per_device = sent;
    simulation->now = longest;
    return HLO_SUCCESS;
}

// The operation is recorded before its body, so that the outer one precedes the inner ones in the report.
static HloStatus run_control(Simulation *simulation, const HloInstruction *instruction) {
    const int64_t start = simulation->now;
    const int64_t op = record(simulation, instruction, NULL, start, 0, EMU_BOUND_NONE);
    HloStatus status = HLO_SUCCESS;
    if (instruction->opcode == HLO_OP_WHILE)
        status = run_loop(simulation, instruction);
    else if (instruction->opcode == HLO_OP_CONDITIONAL)
        status = run_branches(simulation, instruction);
    else
        for (int32_t i = 0; i < instruction->called_count && !status; i++)
            status = run_computation(simulation, instruction->called[i]);
    if (op >= 0) simulation->ops.items[op].duration = simulation->now - start;
    return status;
}

// Runs one kernel of the plan according to its kind.
static HloStatus run_step(Simulation *simulation, const EmuKernel *kernel) {
    const HloInstruction *root = kernel->members[0];
    Flight flight = {.start = root, .end = simulation->now, .op = -1, .is_copy = kernel->kind == EMU_OP_HOST_COPY};
    switch (kernel->kind) {
        case EMU_OP_CONTROL: return run_control(simulation, root);
        case EMU_OP_COLLECTIVE:
            HLO_TRY(start_transfer(simulation, root, &flight));
            await(simulation, &flight);
            return HLO_SUCCESS;
        case EMU_OP_COLLECTIVE_START:
        case EMU_OP_TRANSFER_START: return begin_flight(simulation, root);
        case EMU_OP_DONE: return end_flight(simulation, root);
        case EMU_OP_HOST_COPY:
            start_copy(simulation, root, &flight);
            await(simulation, &flight);
            return HLO_SUCCESS;
        default: run_kernel(simulation, kernel); return HLO_SUCCESS;
    }
}

// Walks a computation kernel by kernel in the order of the program, which is its schedule. The times at which kernels
// start are kept for the curve of memory.
static HloStatus run_computation(Simulation *simulation, const HloComputation *computation) {
    assert(computation->root);
    HLO_FAIL_IF(simulation->depth >= MAX_DEPTH, HLO_UNIMPLEMENTED,
                "%s: loops, branches and calls nest more than %d levels deep", computation->name, MAX_DEPTH);
    const EmuPlan *plan = emu_program_plan(simulation->program, computation);
    const bool entry = simulation->depth == 0;
    int64_t **starts = &simulation->starts[computation->id];
    if (!*starts) *starts = HLO_ARENA_NEW(simulation->program->arena, int64_t, plan->kernel_count + 1);
    simulation->depth++;
    list_placed(simulation, plan);
    HloStatus status = HLO_SUCCESS;
    for (int64_t i = 0; i < plan->kernel_count && !status; i++) {
        (*starts)[i] = simulation->now;
        if (entry) {
            const EmuMemory *memory = &simulation->memory;
            const int64_t held = memory->peak_bytes - memory->temp_bytes + memory->alive[i];
            simulation->headroom = simulation->program->capacity - held;
        }
        status = run_step(simulation, &plan->kernels[i]);
        if (!status) status = begin_placed(simulation, i);
    }
    (*starts)[plan->kernel_count] = simulation->now;
    simulation->depth--;
    assert(simulation->depth >= 0);
    return status;
}

// Runs the entry by the current plans, and waits for all transfers in flight.
static HloStatus run_entry(Simulation *simulation) {
    EmuProgram *program = simulation->program;
    simulation->repeat = 1;
    simulation->now = program->topology->chip.launch_picoseconds;
    simulation->link_bytes = HLO_ARENA_NEW(program->arena, double, emu_link_limit(program->topology));
    simulation->free_at = (EmuResources){{0}, {0}};
    HLO_TRY(emu_mail_new(program->arena, simulation->module, &simulation->mail));
    emu_program_usage(program, &simulation->memory);
    HLO_TRY(run_computation(simulation, simulation->module->entry));
    assert(simulation->depth == 0 && simulation->repeat == 1);
    for (int64_t i = 0; i < simulation->flights.count; i++)
        wait_until(simulation, simulation->flights.items[i].end, simulation->flights.items[i].is_copy,
                   simulation->flights.items[i].op);
    return HLO_SUCCESS;
}

// The orders that are tried, the first of equal ones is used: transfers spread out, kernels moved into waits with and
// without sums that end late, and each done beside its start in the same iteration, as if nothing ran beside transfers.
typedef enum Order { ORDER_HIDDEN, ORDER_HIDDEN_IN_ITERATION, ORDER_SPREAD, ORDER_TIGHT, ORDERS } Order;

// The plans of each order; NULL for an order that is the same as an earlier one.
typedef struct Orders {
    EmuPlan **plans[ORDERS];
    bool has_late;  // whether a sum ends late in the first one
} Orders;

// Makes the plans, and what follows from them, those of an order.
static void use_plans(Simulation *simulation, Order order, EmuPlan *const *plans) {
    EmuProgram *program = simulation->program;
    const int64_t limit = simulation->module->computation_limit;
    for (int64_t c = 0; c < limit; c++) {
        program->plans[c] = plans[c];
        if (program->tight[c]) emu_plan_number(plans[c], program->kernel_of);
    }
    memset(program->extra_bytes, 0, (size_t)limit * sizeof(*program->extra_bytes));
    memset(program->held, 0, (size_t)limit * sizeof(*program->held));
    emu_program_forget_peaks(program);
    program->sums_end_late = order == ORDER_HIDDEN;
    program->collectives_stay = order == ORDER_TIGHT;
}

// Makes the plans of an order and uses them; false if an earlier order is the same.
static bool use_order(Simulation *simulation, Orders *orders, EmuPlan **spread, Order order) {
    EmuProgram *program = simulation->program;
    const size_t size = (size_t)simulation->module->computation_limit * sizeof(*spread);
    const bool hides = order == ORDER_HIDDEN || order == ORDER_HIDDEN_IN_ITERATION;
    if (order == ORDER_HIDDEN_IN_ITERATION && !orders->has_late) return false;
    EmuPlan **plans = hlo_arena_copy(program->arena, spread, size);
    for (int64_t c = 0; c < simulation->module->computation_limit; c++)
        if (order == ORDER_TIGHT && program->tight[c]) plans[c] = program->tight[c];
    use_plans(simulation, order, plans);
    if (hides) {
        const bool late = emu_program_hide_transfers(program, simulation->network, simulation->kernel_costs);
        if (order == ORDER_HIDDEN) orders->has_late = late;
        memcpy(plans, program->plans, size);
    }
    orders->plans[order] = plans;
    return true;
}

// Runs the program in the order in which it takes the least time. The clock by which kernels move is not that of the
// simulation: it knows one computation at a time, and links by the sets that transfers use.
static HloStatus run_best(Simulation *simulation) {
    EmuProgram *program = simulation->program;
    const int64_t limit = simulation->module->computation_limit;
    bool has_choice = false;
    for (int64_t c = 0; c < limit; c++) has_choice |= program->tight[c] != NULL;
    if (!has_choice) return run_entry(simulation);
    EmuPlan **spread = hlo_arena_copy(program->arena, program->plans, (size_t)limit * sizeof(*spread));
    Orders orders = {.has_late = false};
    const Simulation fresh = *simulation;
    const EmuReport empty = *simulation->report;
    Order best = ORDER_HIDDEN;
    int64_t least = INT64_MAX, waited = 1;
    for (Order order = ORDER_HIDDEN; order < ORDERS && waited; order++) {
        if (!use_order(simulation, &orders, spread, order)) continue;
        simulation->is_trial = true;
        HLO_TRY(run_entry(simulation));
        waited = simulation->report->exposed_picoseconds + simulation->report->copy_picoseconds;
        if (simulation->now < least) best = order;
        if (simulation->now < least) least = simulation->now;
        *simulation = fresh;
        *simulation->report = empty;
    }
    use_plans(simulation, best, orders.plans[best]);
    return run_entry(simulation);
}

// Lists the links with traffic.
static void collect_links(Simulation *simulation) {
    EmuReport *report = simulation->report;
    const EmuTopology *topology = simulation->program->topology;
    HLO_VECTOR(EmuLinkUse) links = {0};
    for (int64_t link = 0; link < emu_link_limit(topology); link++) {
        const double bytes = simulation->link_bytes[link];
        if (bytes == 0) continue;
        const EmuLink described = emu_link_describe(topology, link);
        assert(bytes > 0 && described.exists);
        const double efficiency =
            described.kind == EMU_LINK_DCN ? topology->chip.dcn_efficiency : topology->chip.link_efficiency;
        const double seconds = bytes / (emu_link_bytes_per_second(topology, described.kind) * efficiency);
        const EmuLinkUse use = {link, described.from < 0 ? -1 : topology->devices[described.from].id,
                                described.to < 0 ? -1 : topology->devices[described.to].id, bytes,
                                emu_picoseconds(seconds)};
        hlo_vector_push(report->arena, &links, use);
    }
    report->links = links.items;
    report->link_count = links.count;
}

// The layout with the tiles that the machine model counts for an array without any.
static const HloLayout *layout_of(HloArena *arena, const EmuChip *chip, const HloShape *shape) {
    HloLayout *layout = hlo_arena_copy(arena,
                                       shape->layout && emu_names_order(shape)
                                           ? emu_layout_in_order(arena, chip, shape, shape->layout->minor_to_major)
                                           : emu_default_layout(arena, chip, shape),
                                       sizeof(HloLayout));
    if (shape->layout) layout->memory_space = shape->layout->memory_space;
    return layout;
}

// How many of the largest buffers the report has.
static int64_t count_listed(const EmuMemory *memory) {
    double listed = 0;
    int64_t count = 0;
    while (count < memory->largest_count &&
           (count < LEAST_BUFFERS || listed < LISTED_SHARE * (double)memory->peak_bytes))
        listed += (double)memory->largest[count++].bytes;
    return count;
}

// Copies the memory section of the report out of the scratch arena.
static void collect_memory(Simulation *simulation) {
    static const char *const kinds[] = {"argument", "output", "temporary", "output"};
    EmuReport *report = simulation->report;
    const EmuChip *chip = &simulation->program->topology->chip;
    EmuMemory memory;
    emu_program_forget_peaks(simulation->program);
    emu_program_memory(simulation->program, &memory);
    assert(memory.temp_bytes >= 0 && memory.peak_bytes >= memory.temp_bytes);
    emu_memory_curve(simulation->program, simulation->starts, &memory, report);
    report->argument_bytes = memory.argument_bytes;
    report->output_bytes = memory.output_bytes;
    report->alias_bytes = memory.alias_bytes;
    report->temp_bytes = memory.temp_bytes;
    report->hbm_peak_bytes = memory.peak_bytes;
    report->hbm_reserved_bytes = chip->hbm_reserved_bytes_per_device;
    report->hbm_capacity_bytes = simulation->program->capacity;
    report->buffer_count = count_listed(&memory);
    EmuBufferUse *buffers = HLO_ARENA_NEW(report->arena, EmuBufferUse, report->buffer_count);
    for (int64_t i = 0; i < report->buffer_count; i++) {
        const EmuBuffer *buffer = &memory.largest[i];
        const HloMetadata *metadata = buffer->instruction->metadata;
        simulation->text->length = 0;
        HloShape shape = *buffer->shape;
        const bool has_tiles = shape.layout && shape.layout->tile_count;
        if (!has_tiles && hlo_shape_is_array(&shape))
            shape.layout = layout_of(simulation->program->arena, chip, &shape);
        hlo_shape_print(simulation->text, &shape, true);
        buffers[i] = (EmuBufferUse){.instruction = copy_string(report->arena, buffer->instruction->name),
                                    .kind = kinds[buffer->kind],
                                    .op_name = copy_string(report->arena, metadata ? metadata->op_name : NULL),
                                    .source = source_of(report->arena, buffer->instruction),
                                    .role = emu_buffer_role(report->arena, buffer),
                                    .loop = copy_string(report->arena, buffer->caller ? buffer->caller->name : NULL),
                                    .bytes = buffer->bytes,
                                    .unpadded_bytes = buffer->unpadded_bytes,
                                    .shape = copy_string(report->arena, simulation->text->data)};
    }
    report->buffers = buffers;
}

// Keeps the program with the places of its buffers for XLA's tools. What protobuf cannot express is no error: a profile
// is of use without it.
static HloStatus keep_program(Simulation *simulation) {
    EmuReport *report = simulation->report;
    EmuMemory memory;
    emu_program_memory(simulation->program, &memory);
    HloText *text = simulation->text;
    text->length = 0;
    HloStatus status = emu_program_write_proto(simulation->program, &memory, text);
    if (hlo_status_code(status) == HLO_UNIMPLEMENTED) {
        hlo_status_free(status);
        return HLO_SUCCESS;
    }
    if (status) return status;
    report->program = hlo_arena_copy(report->arena, text->data, text->length);
    report->program_length = text->length;
    return HLO_SUCCESS;
}

// The positions of the participants in the device list.
static HloStatus find_devices(HloArena *arena, const EmuTopology *topology, const EmuOptions *options, int64_t *places,
                              int64_t participants) {
    assert(participants <= topology->device_count);  // simulate() refused others
    const bool given = options && options->device_assignment;
    HLO_FAIL_IF(given && options->device_assignment_count != participants, HLO_INVALID_ARGUMENT,
                "the device assignment has %lld entries for %lld participants",
                (long long)options->device_assignment_count, (long long)participants);
    bool *taken = HLO_ARENA_NEW(arena, bool, topology->device_count);
    for (int64_t i = 0; i < participants; i++) {
        places[i] = given ? emu_topology_find_device(topology, options->device_assignment[i]) : i;
        HLO_FAIL_IF(places[i] < 0, HLO_INVALID_ARGUMENT, "device %lld of the assignment does not exist on %s",
                    (long long)options->device_assignment[i], topology->name);
        HLO_FAIL_IF(taken[places[i]], HLO_INVALID_ARGUMENT, "device %lld is listed twice in the assignment",
                    (long long)topology->devices[places[i]].id);
        taken[places[i]] = true;
    }
    return HLO_SUCCESS;
}

// Whether an instruction selects the largest of some scores, as mixtures of experts do for every token.
static bool routes_tokens(const HloInstruction *instruction) {
    return hlo_is(instruction, HLO_OP_TOPK) || hlo_custom_call_kind(instruction) == HLO_CALL_TOPK;
}

// The arguments of emu_simulate() for the protected part.
typedef struct SimulateCall {
    const HloModule *module;
    const EmuTopology *topology;
    const EmuOptions *options;
    HloArena *scratch;
    HloArena *memory_scratch, *network_scratch;
    HloText text;
    EmuReport *report;
} SimulateCall;

// The operations of the model by device: as given, else those of the whole program over the devices that share it, else
// what a device does once.
static double find_model_flops(Simulation *simulation, const EmuOptions *options, int64_t participants,
                               HloArena *scratch) {
    const EmuReport *report = simulation->report;
    double flops;
    if (options && options->model_flops > 0) return options->model_flops / (double)participants;
    if (options && options->whole &&
        emu_model_flops(scratch, &simulation->program->topology->chip, options->whole, options->kernel_costs,
                        simulation->program->bodies, &flops))
        return flops / (double)simulation->module->num_partitions;
    return report->matrix_flops_per_device - report->recomputed_flops_per_device;
}

// Sets the share of the peak that the step reaches, with and without what is computed again.
static void find_utilisation(Simulation *simulation, const EmuOptions *options, int64_t participants,
                             HloArena *scratch) {
    EmuReport *report = simulation->report;
    const EmuChip *chip = &simulation->program->topology->chip;
    const double peak = chip->bf16_flops_per_chip / (double)chip->devices_per_chip;
    const double possible = peak * (double)simulation->now * 1e-12;
    const bool is_given = options && options->model_flops > 0;
    report->tokens = options ? options->tokens : 0;
    report->model_flops_per_device = find_model_flops(simulation, options, participants, scratch);
    if (is_given) report->names_scopes = true;
    if (possible > 0) report->hfu = report->matrix_flops_per_device / possible;
    if (possible > 0) report->mfu = report->model_flops_per_device / possible;
}

static void describe_devices(const SimulateCall *call, const int64_t *places, int64_t count) {
    int64_t *ids = HLO_ARENA_NEW(call->report->arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) ids[i] = call->topology->devices[places[i]].id;
    call->report->devices = ids;
    call->report->num_partitions = call->module->num_partitions;
}

// Finds the slowest of the participants, whose kernels are listed, and the fastest.
static void find_straggler(Simulation *simulation, const double *slowness, const int64_t *places, int64_t count) {
    int64_t slowest = 0, fastest = 0;
    for (int64_t i = 1; i < count; i++) {
        if (slowness[places[i]] > slowness[places[slowest]]) slowest = i;
        if (slowness[places[i]] < slowness[places[fastest]]) fastest = i;
    }
    const double most = slowness[places[slowest]], least = slowness[places[fastest]];
    if (most > 1) simulation->slowness = most;
    if (most <= least) return;
    const EmuTopology *topology = simulation->program->topology;
    simulation->report->slowest_device = topology->devices[places[slowest]].id;
    simulation->report->fastest_device = topology->devices[places[fastest]].id;
    simulation->report->slowness = most / least;
}

static EmuNetwork *make_network(const SimulateCall *call, const int64_t *places, const EmuFaults *faults) {
    const EmuOptions *options = call->options;
    EmuNetwork *network = emu_network_new(call->network_scratch, call->topology, places, call->module->replica_count,
                                          call->module->num_partitions, faults);
    const bool may_share = options && options->known && !options->faults;
    if (!may_share || !emu_network_share(network, options->known)) emu_network_remember(network, call->scratch);
    return network;
}

// Sets everything up, runs the entry computation on one clock, waits for all transfers in flight, and fills the report.
// The slowest device sets the pace for all: they run the same program and synchronise at every collective.
static HloStatus simulate(void *argument) {
    SimulateCall *call = argument;
    EmuReport *report = call->report;
    HloArena *arena = report->arena;
    const HloModule *module = call->module;
    int64_t participants;
    HLO_FAIL_IF(module->replica_count < 1 || module->num_partitions < 1 ||
                    __builtin_mul_overflow(module->replica_count, module->num_partitions, &participants),
                HLO_INVALID_ARGUMENT, "%s: impossible replica or partition counts", module->name);
    HLO_FAIL_IF(participants > call->topology->device_count, HLO_INVALID_ARGUMENT,
                "%s: the program is for %lld devices, %s has %lld", module->name, (long long)participants,
                call->topology->name, (long long)call->topology->device_count);
    // A computation that is called from several places is timed for each, since the transfers in flight differ.
    HLO_TRY(hlo_check_call_copies(module, call->scratch));
    int64_t *places = HLO_ARENA_NEW(call->scratch, int64_t, participants);
    HLO_TRY(find_devices(call->scratch, call->topology, call->options, places, participants));
    EmuFaults *faults = HLO_ARENA_NEW(call->scratch, EmuFaults, 1);
    HLO_TRY(emu_faults_parse(call->scratch, call->topology, call->options ? call->options->faults : NULL, faults));
    HLO_TRY(emu_faults_check_devices(faults, call->topology, places, participants));
    const EmuChip *chip = &call->topology->chip;
    Simulation *simulation = HLO_ARENA_NEW(call->scratch, Simulation, 1);
    simulation->report = report;
    simulation->text = &call->text;
    simulation->program = emu_program_new(call->scratch, call->memory_scratch, module, call->topology);
    simulation->network = make_network(call, places, faults);
    simulation->starts = HLO_ARENA_NEW(call->scratch, int64_t *, module->computation_limit);
    simulation->kernel_costs = call->options ? call->options->kernel_costs : EMU_KERNEL_COSTS_BODY;
    simulation->slowness = 1;
    report->slowest_device = report->fastest_device = -1;
    report->slowness = 1;
    if (faults->device_slowness) find_straggler(simulation, faults->device_slowness, places, participants);
    simulation->transfer_bytes = HLO_ARENA_NEW(call->scratch, double, emu_link_limit(call->topology));
    simulation->module = module;
    simulation->axes = emu_mesh_axes_read(call->scratch, call->options ? call->options->mesh : NULL);
    emu_program_choose_rate(simulation->program);
    emu_program_fit_memory(simulation->program);
    HLO_TRY(run_best(simulation));
    report->topology = copy_string(arena, call->topology->name);
    report->device_kind = copy_string(arena, call->topology->device_kind);
    report->module = copy_string(arena, module->name);
    report->mesh = copy_string(arena, call->options ? call->options->mesh : NULL);
    report->mesh_source = copy_string(arena, call->options ? call->options->mesh_source : NULL);
    report->num_devices = participants;
    report->slice_devices = call->topology->device_count;
    report->launch_picoseconds = chip->launch_picoseconds;
    report->step_picoseconds = report->healthy_step_picoseconds = simulation->now;
    report->faults = copy_string(arena, call->options ? call->options->faults : NULL);
    find_utilisation(simulation, call->options, participants, call->scratch);
    report->ops = simulation->ops.items;
    report->op_count = simulation->ops.count;
    collect_links(simulation);
    collect_memory(simulation);
    if (call->options && call->options->keeps_program) HLO_TRY(keep_program(simulation));
    report->is_sustained = simulation->program->is_sustained;
    report->routes_tokens = hlo_module_find(module, routes_tokens) != NULL;
    describe_devices(call, places, participants);
    emu_parameters_find(report, module);
    emu_range_find(report, chip->name);
    return HLO_SUCCESS;
}

// Simulates once, with the faults of the options.
static HloStatus simulate_once(const HloModule *module, const EmuTopology *topology, const EmuOptions *options,
                               EmuReport **report) {
    SimulateCall call = {.module = module, .topology = topology, .options = options};
    HloArena *arena = hlo_arena_new();
    call.scratch = hlo_arena_new();
    call.memory_scratch = hlo_arena_new();
    call.network_scratch = hlo_arena_new();
    call.report = hlo_allocate_zeroed(1, sizeof(EmuReport));
    HloStatus status = HLO_SUCCESS;
    if (!arena || !call.scratch || !call.memory_scratch || !call.network_scratch || !call.report) {
        status = hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a simulation");
        hlo_arena_free(arena);
        hlo_free(call.report);
    } else {
        call.report->arena = arena;
        status = hlo_protect(simulate, &call);
        if (status)
            emu_report_free(call.report);
        else
            *report = call.report;
    }
    hlo_text_free(&call.text);
    hlo_arena_free(call.network_scratch);
    hlo_arena_free(call.memory_scratch);
    hlo_arena_free(call.scratch);
    return status;
}

// Simulates with the faults of the options and, if there are any, also without, so that the report can show their cost.
static HloStatus simulate_with_and_without(const HloModule *module, const EmuTopology *topology,
                                           const EmuOptions *options, EmuReport **report) {
    HLO_TRY(simulate_once(module, topology, options, report));
    if (!*(*report)->faults) return HLO_SUCCESS;
    EmuOptions without = *options;
    EmuReport *healthy = NULL;
    without.faults = NULL;
    without.keeps_program = false;
    HloStatus status = simulate_once(module, topology, &without, &healthy);
    if (status) {
        emu_report_free(*report);
        *report = NULL;
        return status;
    }
    (*report)->healthy_step_picoseconds = healthy->step_picoseconds;
    emu_report_free(healthy);
    return HLO_SUCCESS;
}

// Rejects shapes without a size, such as f32[?], since they have no time.
static HloStatus check_sizes(const HloModule *module) {
    assert(module);
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *i = module->computations.items[c]->first; i; i = i->next) {
            if (!hlo_shape_is_unbounded(i->shape)) continue;
            return hlo_status_at_instruction(
                hlo_error(HLO_UNIMPLEMENTED, "%%%s: an array with an unbounded dimension cannot be timed", i->name), i);
        }
    }
    return HLO_SUCCESS;
}

HloStatus emu_simulate(const HloModule *module, const EmuTopology *topology, const EmuOptions *options,
                       EmuReport **report) {
    assert(module && topology && report);
    *report = NULL;
    HLO_FAIL_IF(!emu_topology_is_tpu(topology), HLO_UNIMPLEMENTED, "%s: host processors have no machine model",
                topology->name);
    HLO_TRY(check_sizes(module));
    return simulate_with_and_without(module, topology, options, report);
}

void emu_report_free(EmuReport *report) {
    if (!report) return;
    hlo_arena_free(report->arena);
    hlo_free(report);
}
