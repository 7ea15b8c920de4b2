// SPDX-License-Identifier: Apache-2.0
// Checks collectives under control flow that depends on the device's number. A deadlock that follows from device
// numbers is found at compile time by simulating the program without data: branches whose predicates can be evaluated
// from the device's number are taken; then each collective must have all members of its groups, and each receive its
// message. Deadlocks that depend on data cannot be known here; the run itself finds them (run/execute.c).
#include "targets/cpu/graph/check.h"

#include <assert.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/ir/transfer.h"
#include "targets/cpu/graph/collective.h"
#include "targets/cpu/graph/mail.h"

enum { kMaximumDepth = 64, kMaximumElements = 4096 };

// The value of an array on the device under consideration.
typedef struct Known {
    HloLiteral *value;  // on the heap; NULL if unknown
    bool asked;
    int32_t next;  // the array that was looked up before this one, or -1
} Known;

typedef struct Checker {
    HloArena *arena;
    const CpuProgram *program;
    int64_t devices;
    const CpuNode *branch;  // the innermost conditional whose predicate is known
    Known *known;           // by array id
    int32_t last_asked;     // head of the list of arrays that were looked up
} Checker;

// ---- predicates

// Returns the value of an array on a device if it follows from the device's number, else NULL. The value lives until
// forget().
static const HloLiteral *known_value(Checker *checker, const CpuArray *array, int64_t device, int depth);

// Returns NULL when memory is short; the value is then unknown.
static HloLiteral *device_number(const Checker *checker, const CpuNode *node, int64_t device) {
    assert(device >= 0);
    HloLiteral *literal = hlo_literal_new(node->results[0]->shape);
    const int64_t partitions = checker->program->partition_count;
    if (literal)
        hlo_literal_set_int64(literal, 0,
                              node->opcode == HLO_OP_REPLICA_ID ? device / partitions : device % partitions);
    return literal;
}

// Evaluates the op if all operands are known and it only computes. Ops of more than four operands are not followed.
static HloLiteral *known_result(Checker *checker, const CpuNode *node, int64_t device, int depth) {
    assert(device >= 0 && depth >= 0);
    enum { kOperands = 4 };
    const HloLiteral *operands[kOperands] = {0};
    HloLiteral *result = NULL;
    const HloInstruction *instruction = node->instruction;
    if (node->operand_count > kOperands || node->operand_count != instruction->operand_count || node->elementwise_map ||
        hlo_op_is(node->opcode, HLO_OP_IS_COLLECTIVE | HLO_OP_IS_CALLS | HLO_OP_IS_NONDETERMINISTIC) ||
        hlo_instruction_has_side_effect(instruction) || node->opcode == HLO_OP_CUSTOM_CALL)
        return NULL;
    for (int32_t i = 0; i < node->operand_count; i++) {
        operands[i] = known_value(checker, node->operands[i], device, depth + 1);
        if (!operands[i]) return NULL;
    }
    const HloStatus status = hlo_evaluate_instruction(instruction, operands, NULL, &result);
    if (status) result = NULL;
    hlo_status_free(status);
    return result;
}

// Evaluates each array once per device, however often it is used: hashes of device numbers use every value twice.
// Arrays of more than kMaximumElements are not followed, nor are ops with several results (a sort, a while).
static const HloLiteral *known_value(Checker *checker, const CpuArray *array, int64_t device, int depth) {
    if (depth > kMaximumDepth || array->elements > kMaximumElements) return NULL;
    if (!array->producer) return array->view ? known_value(checker, array->view, device, depth + 1) : NULL;
    const CpuNode *node = array->producer;
    if (array->literal) return array->literal;
    if (node->result_count != 1) return NULL;
    Known *known = &checker->known[array->id];
    if (known->asked) return known->value;
    const bool is_number = node->opcode == HLO_OP_PARTITION_ID || node->opcode == HLO_OP_REPLICA_ID;
    HloLiteral *value = is_number ? device_number(checker, node, device) : known_result(checker, node, device, depth);
    *known = (Known){value, true, checker->last_asked};
    checker->last_asked = array->id;
    return value;
}

// Drops all known values, before the next device.
static void forget(Checker *checker) {
    while (checker->last_asked >= 0) {
        Known *known = &checker->known[checker->last_asked];
        checker->last_asked = known->next;
        hlo_literal_free(known->value);
        *known = (Known){0};
    }
}

// Returns a checker that knows no values yet.
static Checker new_checker(HloArena *arena, const CpuProgram *program) {
    return (Checker){.arena = arena,
                     .program = program,
                     .devices = program->replica_count * program->partition_count,
                     .known = HLO_ARENA_NEW(arena, Known, program->arrays.count),
                     .last_asked = -1};
}

// Returns the branch that a device takes, or -1.
static int64_t known_branch(Checker *checker, const CpuNode *node, int64_t device) {
    assert(device >= 0);
    const HloLiteral *predicate = known_value(checker, node->operands[0], device, 0);
    int64_t branch = predicate ? hlo_literal_get_int64(predicate, 0) : -1;
    if (predicate && predicate->shape->type == HLO_PRED)
        branch = branch ? 0 : 1;
    else if (predicate && (branch < 0 || branch >= node->region_count))
        branch = node->region_count - 1;
    forget(checker);
    return branch;
}

// ---- the walk

// Prints at most eight members by name.
static void print_members(HloText *text, const CpuCollectiveGroup *group, const bool *active, bool wanted) {
    int64_t count = 0;
    for (int64_t m = 0; m < group->count; m++) {
        if (active[group->devices[m]] != wanted) continue;
        hlo_text_format(text, "%s%lld", count ? ", " : "", (long long)group->devices[m]);
        if (++count == 8) {
            hlo_text_string(text, ", ...");
            return;
        }
    }
}

// Names the innermost known branch, which is where the devices diverge.
static HloStatus mismatch(const Checker *checker, const CpuNode *node, const CpuCollectiveGroup *group,
                          const bool *active) {
    assert(group && active);
    HloText here = {0}, missing = {0};
    print_members(&here, group, active, true);
    print_members(&missing, group, active, false);
    const HloStatus status =
        hlo_error(HLO_FAILED_PRECONDITION,
                  "%s %%%s: device %s would wait forever for device %s, which takes another branch at %%%s",
                  hlo_op_text(node->opcode), node->instruction->name, here.data ? here.data : "?",
                  missing.data ? missing.data : "?", checker->branch ? checker->branch->instruction->name : "?");
    hlo_text_free(&here);
    hlo_text_free(&missing);
    return status;
}

// Checks that each group is present completely or not at all.
static HloStatus check_collective(const Checker *checker, const CpuNode *node, const bool *active) {
    CpuCollective collective;
    const CpuProgram *program = checker->program;
    HLO_TRY(cpu_collective_groups(checker->arena, node->instruction, program->replica_count, program->partition_count,
                                  &collective));
    for (int64_t g = 0; g < collective.group_count; g++) {
        int64_t here = 0;
        for (int64_t m = 0; m < collective.groups[g].count; m++) here += active[collective.groups[g].devices[m]];
        if (here != 0 && here != collective.groups[g].count)
            return mismatch(checker, node, &collective.groups[g], active);
    }
    return HLO_SUCCESS;
}

static HloStatus check_region(Checker *checker, const CpuRegion *region, const bool *active);

// Simulates the branches. If the predicate depends on data, each branch is simulated for all devices of the outer
// branch: it is unknown which devices take it, so nothing is rejected.
static HloStatus check_conditional(Checker *checker, const CpuNode *node, const bool *active) {
    HloArena *arena = checker->arena;
    int64_t *taken = HLO_ARENA_NEW(arena, int64_t, checker->devices);
    bool *inside = HLO_ARENA_NEW(arena, bool, checker->devices);
    bool known = true;
    for (int64_t d = 0; d < checker->devices && known; d++) {
        taken[d] = active[d] ? known_branch(checker, node, d) : 0;
        known = taken[d] >= 0;
    }
    const CpuNode *outer = checker->branch;
    if (known) checker->branch = node;
    for (int32_t i = 0; i < node->region_count; i++) {
        bool some = false;
        for (int64_t d = 0; d < checker->devices; d++) {
            inside[d] = active[d] && (!known || taken[d] == i);
            some = some || inside[d];
        }
        if (some) HLO_TRY(check_region(checker, node->regions[i], inside));
    }
    checker->branch = outer;
    return HLO_SUCCESS;
}

// Whether the region has collectives; regions without any are not simulated. The walk is repeated for each level of
// nesting, but regions nest only a few levels deep.
static bool has_collectives(const CpuRegion *region) {
    for (int64_t i = 0; i < region->nodes.count; i++) {
        const CpuNode *node = region->nodes.items[i];
        if (hlo_op_is(node->opcode, HLO_OP_IS_COLLECTIVE)) return true;
        for (int32_t k = 0; k < node->region_count; k++)
            if (has_collectives(node->regions[k])) return true;
    }
    return false;
}

// Simulates a region. Outside branches all devices are active, so no member can be missing.
static HloStatus check_region(Checker *checker, const CpuRegion *region, const bool *active) {
    for (int64_t i = 0; i < region->nodes.count; i++) {
        const CpuNode *node = region->nodes.items[i];
        if (hlo_op_is(node->opcode, HLO_OP_IS_COLLECTIVE) && checker->branch)
            HLO_TRY(hlo_status_at_instruction(check_collective(checker, node, active), node->instruction));
        bool inside = false;
        for (int32_t k = 0; k < node->region_count; k++) inside = inside || has_collectives(node->regions[k]);
        if (!inside) continue;
        if (node->opcode == HLO_OP_CONDITIONAL) {
            HLO_TRY(check_conditional(checker, node, active));
            continue;
        }
        for (int32_t k = 0; k < node->region_count; k++) HLO_TRY(check_region(checker, node->regions[k], active));
    }
    return HLO_SUCCESS;
}

HloStatus cpu_check_collectives(HloArena *arena, const CpuProgram *program) {
    assert(arena && program);
    if (program->replica_count * program->partition_count == 1) return HLO_SUCCESS;
    Checker checker = new_checker(arena, program);
    bool *active = HLO_ARENA_NEW(arena, bool, checker.devices);
    memset(active, true, (size_t)checker.devices);
    return check_region(&checker, program->entry, active);
}

// ---- messages between devices

typedef struct TransferEvent {
    const CpuNode *node;
    const CpuP2pTransfer *peer;
} TransferEvent;

typedef HLO_VECTOR(TransferEvent) TransferEvents;

typedef struct TransferPlay {
    Checker checker;
    TransferEvents *events;  // by device, in order
    int64_t *next;           // by device
    bool known;              // the order does not depend on data
    int64_t *queue;          // a ring of devices to visit, each at most once
    int64_t queue_begin, queue_end;
    bool *queued;
} TransferPlay;

// Whether the node sends or waits; a recv itself does neither.
static bool is_p2p(const CpuNode *node) {
    return (node->opcode == HLO_OP_SEND || node->opcode == HLO_OP_RECV_DONE) &&
           !hlo_transfer_is_host(node->instruction);
}

static bool has_p2p(const CpuRegion *region) {
    for (int64_t i = 0; i < region->nodes.count; i++) {
        const CpuNode *node = region->nodes.items[i];
        if (is_p2p(node)) return true;
        for (int32_t k = 0; k < node->region_count; k++)
            if (has_p2p(node->regions[k])) return true;
    }
    return false;
}

static HloStatus list_p2p(TransferPlay *play, const CpuRegion *region, const bool *active);

// Lists the events of the known branch. Branches that depend on data end the simulation: `known` is false from then on,
// and the run itself detects errors.
static HloStatus list_branches(TransferPlay *play, const CpuNode *node, const bool *active) {
    HloArena *arena = play->checker.arena;
    const int64_t devices = play->checker.devices;
    int64_t *taken = HLO_ARENA_NEW(arena, int64_t, devices);
    bool *inside = HLO_ARENA_NEW(arena, bool, devices);
    for (int64_t d = 0; d < devices && play->known; d++) {
        taken[d] = active[d] ? known_branch(&play->checker, node, d) : -1;
        play->known = !active[d] || taken[d] >= 0;
    }
    for (int32_t i = 0; i < node->region_count && play->known; i++) {
        for (int64_t d = 0; d < devices; d++) inside[d] = taken[d] == i;
        HLO_TRY(list_p2p(play, node->regions[i], inside));
    }
    return HLO_SUCCESS;
}

// Lists the events of a region. Loops make the order unknown, because their iterations are not counted.
static HloStatus list_p2p(TransferPlay *play, const CpuRegion *region, const bool *active) {
    HloArena *arena = play->checker.arena;
    for (int64_t i = 0; i < region->nodes.count && play->known; i++) {
        const CpuNode *node = region->nodes.items[i];
        bool inside = false;
        for (int32_t k = 0; k < node->region_count; k++) inside = inside || has_p2p(node->regions[k]);
        if (inside && node->opcode == HLO_OP_CONDITIONAL) HLO_TRY(list_branches(play, node, active));
        if (inside && node->opcode != HLO_OP_CONDITIONAL) play->known = false;
        if (!is_p2p(node)) continue;
        TransferEvent event = {node, NULL};
        HLO_TRY(cpu_p2p_transfer_of(arena, play->checker.program, node, 0, &event.peer));
        for (int64_t d = 0; d < play->checker.devices; d++)
            if (active[d]) hlo_vector_push(arena, &play->events[d], event);
    }
    return HLO_SUCCESS;
}

// Queues a device for another visit, unless it is already queued.
static void look_at(TransferPlay *play, int64_t device) {
    if (play->queued[device]) return;
    play->queued[device] = true;
    play->queue[play->queue_end++ % play->checker.devices] = device;
}

// Queues the devices that may continue after a message of `sender`; on a channel without pairs, its receiver.
static void look_at_receivers(TransferPlay *play, const CpuP2pTransfer *peer, int64_t sender) {
    for (const int64_t *target = peer->has_pairs ? peer->targets[sender] : NULL; target && *target >= 0; target++)
        look_at(play, *target);
    for (int64_t d = 0; !peer->has_pairs && d < play->checker.devices; d++) look_at(play, d);
}

// Advances a device until it waits. Sends never wait; a receive takes its message or stays where it is.
static HloStatus play_device(TransferPlay *play, CpuMail *mail, int64_t device) {
    for (; play->next[device] < play->events[device].count; play->next[device]++) {
        const TransferEvent *event = &play->events[device].items[play->next[device]];
        bool taken = true;
        const HloStatus status = event->peer->sends ? cpu_mail_send(mail, event->peer, device, NULL)
                                                    : cpu_mail_receive(mail, event->peer, device, NULL, &taken);
        if (status) return hlo_status_annotate(status, "%%%s", event->node->instruction->name);
        if (!taken) return HLO_SUCCESS;
        if (event->peer->sends) look_at_receivers(play, event->peer, device);
    }
    return HLO_SUCCESS;
}

// Runs until no device can move; a device that has not finished by then waits forever. Takes O(devices + messages): a
// device is visited again only after a message to it.
static HloStatus play_all(TransferPlay *play, CpuMail *mail) {
    HloText text = {0};
    for (int64_t d = 0; d < play->checker.devices; d++) look_at(play, d);
    while (play->queue_begin < play->queue_end) {
        const int64_t device = play->queue[play->queue_begin++ % play->checker.devices];
        play->queued[device] = false;
        HLO_TRY(play_device(play, mail, device));
    }
    int64_t waiting = 0;
    for (int64_t d = 0; d < play->checker.devices; d++) {
        if (play->next[d] == play->events[d].count || ++waiting > 8) continue;
        const TransferEvent *event = &play->events[d].items[play->next[d]];
        hlo_text_format(&text, "%sdevice %lld would wait forever at recv-done %%%s for a message on channel %lld",
                        waiting > 1 ? "; " : "", (long long)d, event->node->instruction->name,
                        (long long)event->peer->channel);
        if (event->peer->has_pairs) hlo_text_format(&text, " from device %lld", (long long)event->peer->sources[d]);
    }
    const HloStatus status =
        waiting ? hlo_error(HLO_FAILED_PRECONDITION, "deadlock: %s", text.data ? text.data : "") : HLO_SUCCESS;
    hlo_text_free(&text);
    return status;
}

// Message sizes are set to 0, since only the order of messages is simulated.
HloStatus cpu_check_p2p(HloArena *arena, const CpuProgram *program) {
    assert(arena && program);
    if (!has_p2p(program->entry)) return HLO_SUCCESS;
    const int64_t devices = program->replica_count * program->partition_count;
    TransferPlay play = {.checker = new_checker(arena, program), .known = true};
    play.events = HLO_ARENA_NEW(arena, TransferEvents, devices);
    play.next = HLO_ARENA_NEW(arena, int64_t, devices);
    play.queue = HLO_ARENA_NEW(arena, int64_t, devices);
    play.queued = HLO_ARENA_NEW(arena, bool, devices);
    bool *active = HLO_ARENA_NEW(arena, bool, devices);
    memset(active, true, (size_t)devices);
    HLO_TRY(list_p2p(&play, program->entry, active));
    if (!play.known) return HLO_SUCCESS;
    CpuMail mail = {.devices = play.checker.devices};
    HloStatus status = play_all(&play, &mail);
    cpu_mail_free(&mail);
    return status;
}
