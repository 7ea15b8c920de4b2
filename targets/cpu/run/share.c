// SPDX-License-Identifier: Apache-2.0
// Determines which values are equal on which devices: a partition of the devices for every array, stored as the first
// device of each device's class. One walk over the thunks finds it (loops are walked until nothing changes).
//
// Devices that have equal values compute equal results: these kernels run once and their results are copied. Each
// array's partition is refined by anything that could distinguish two devices: their arguments, their numbers, control
// flow that depends on either, and ops that vary by themselves (random numbers, callbacks). Arguments are equal if they
// are the same memory; a plan is made again when that pattern changes.
//
//     devices       0 1 2 3
//     weights       0 0 0 0    one buffer for all
//     batch         0 1 2 3    a shard each
//     dot           0 1 2 3    as its operands: the finest of both
//     all-reduce    0 0 0 0    all members get the same result, whatever the operands
//     optimiser     0 0 0 0    computed by device 0 for all four
//
// Where other processes run some of the devices, those share nothing with devices here: the classes that the run uses
// are divided between here and elsewhere. Their arguments are unknown, and so count as different from all others; a
// collective may make them equal.
//
// A device that waits for another to share its work must be sure that the other one arrives there as often as itself.
// So classes are split by everything that makes control flow diverge (`control` below), including the conditions of
// loops.
#include "targets/cpu/run/share.h"

#include <string.h>

#include "targets/cpu/run/hosts.h"

enum { kMaximumDevices = 64 };

typedef int16_t Classes[kMaximumDevices];

typedef struct Analysis {
    const CpuExecutable *executable;
    const CpuSpan *span;
    int64_t devices;
    int16_t *classes;  // [array][device]
    int16_t *leaders;  // [share index][device]
    bool changed;
} Analysis;

// Returns, by device, the first device of its class.
static int16_t *classes_of(const Analysis *analysis, int32_t array) {
    return analysis->classes + array * analysis->devices;
}

// ---- partitions

// Splits the classes of `into` where `by` distinguishes devices.
static void refine(const Analysis *analysis, int16_t *into, const int16_t *by) {
    Classes result;
    for (int16_t d = 0; d < analysis->devices; d++) {
        int16_t e = 0;
        while (into[e] != into[d] || by[e] != by[d]) e++;
        result[d] = e;
    }
    memcpy(into, result, sizeof(int16_t) * (size_t)analysis->devices);
}

// Puts every device in a class of its own.
static void split_all(const Analysis *analysis, int16_t *into) {
    for (int16_t d = 0; d < analysis->devices; d++) into[d] = d;
}

// Sets an array's partition and records whether anything has changed, for loops.
static void set(Analysis *analysis, int32_t array, const int16_t *value) {
    int16_t *to = classes_of(analysis, array);
    const size_t bytes = sizeof(int16_t) * (size_t)analysis->devices;
    if (memcmp(to, value, bytes) == 0) return;
    memcpy(to, value, bytes);
    analysis->changed = true;
}

// ---- thunks

static void walk(Analysis *analysis, const CpuThunkList *list, const int16_t *control);

// Whether devices d and e get equal results from the collective if its operands are equal as in `operand`.
static bool exchange_equal(const CpuCollective *collective, const int16_t *operand, int64_t d, int64_t e) {
    if (collective->opcode == HLO_OP_COLLECTIVE_PERMUTE) {
        const int64_t to_d = collective->sources[d], to_e = collective->sources[e];
        return to_d < 0 || to_e < 0 ? to_d == to_e : operand[to_d] == operand[to_e];
    }
    const CpuCollectiveGroup *a = &collective->groups[collective->group_of[d]];
    const CpuCollectiveGroup *b = &collective->groups[collective->group_of[e]];
    const bool everyone_alike = collective->opcode == HLO_OP_ALL_REDUCE || collective->opcode == HLO_OP_ALL_GATHER ||
                                collective->opcode == HLO_OP_COLLECTIVE_BROADCAST;
    if (a->is_left_out || b->is_left_out) return a->is_left_out && b->is_left_out;
    if (a->count != b->count || (!everyone_alike && collective->member_of[d] != collective->member_of[e])) return false;
    for (int64_t m = 0; m < a->count; m++)
        if (operand[a->devices[m]] != operand[b->devices[m]]) return false;
    return true;
}

// Determines the classes of a collective's results; a device's result depends on the operands of all members.
static void exchange(const Analysis *analysis, const CpuCollective *collective, int16_t *value) {
    Classes result;
    for (int16_t d = 0; d < analysis->devices; d++) {
        int16_t e = 0;
        while (e < d && !exchange_equal(collective, value, d, e)) e++;
        result[d] = e;
    }
    memcpy(value, result, sizeof(int16_t) * (size_t)analysis->devices);
}

// Devices with equal numbers stay together, such as the replicas of one partition.
static void device_ids(const Analysis *analysis, bool replica, int16_t *value) {
    const int64_t partitions = analysis->executable->partition_count;
    Classes ids;
    for (int16_t d = 0; d < analysis->devices; d++) ids[d] = (int16_t)(replica ? d / partitions : d % partitions);
    refine(analysis, value, ids);
}

// Combines the partitions of operands and control flow: results are equal only where all of these are.
static void read_all(const Analysis *analysis, const CpuThunk *thunk, const int16_t *control, int16_t *value) {
    memcpy(value, control, sizeof(int16_t) * (size_t)analysis->devices);
    for (int32_t i = 0; i < thunk->read_count; i++) refine(analysis, value, classes_of(analysis, thunk->arrays[i]));
}

// Walks a loop until the classes of its state, which only ever split, stop changing: after at most as many passes per
// array as there are devices. Devices that may leave the loop at different times differ in everything inside it,
// including the condition: a device that has left does not return, and a device that waited there to share its work
// would wait forever.
static void walk_while(Analysis *analysis, const CpuThunk *thunk, const int16_t *control) {
    const int32_t *states = thunk->arrays + thunk->read_count;
    const size_t bytes = sizeof(int16_t) * (size_t)analysis->devices;
    for (int32_t i = 0; i < thunk->write_count; i++) {
        if (states[i] == thunk->arrays[i]) continue;  // never written
        Classes value;
        memcpy(value, control, bytes);
        refine(analysis, value, classes_of(analysis, thunk->arrays[i]));
        set(analysis, states[i], value);
    }
    Classes inside, before;
    memcpy(inside, control, bytes);
    do {
        memcpy(before, inside, bytes);
        walk(analysis, &thunk->regions[0], inside);
        refine(analysis, inside, classes_of(analysis, thunk->regions[0].results[0]));
        walk(analysis, &thunk->regions[1], inside);
        analysis->changed = memcmp(before, inside, bytes) != 0;
        for (int32_t i = 0; i < thunk->write_count; i++) {
            if (states[i] == thunk->arrays[i]) continue;
            Classes value;
            memcpy(value, inside, bytes);
            refine(analysis, value, classes_of(analysis, states[i]));
            refine(analysis, value, classes_of(analysis, thunk->regions[1].results[i]));
            set(analysis, states[i], value);
        }
    } while (analysis->changed);
}

// Walks the branches. The first operand selects one: devices that may take different branches differ in everything
// inside them.
static void walk_conditional(Analysis *analysis, const CpuThunk *thunk, const int16_t *control) {
    Classes inside;
    memcpy(inside, control, sizeof inside);
    refine(analysis, inside, classes_of(analysis, thunk->arrays[0]));
    for (int32_t r = 0; r < thunk->region_count; r++) walk(analysis, &thunk->regions[r], inside);
    for (int32_t i = 0; i < thunk->write_count; i++) {
        Classes value;
        memcpy(value, inside, sizeof value);
        for (int32_t r = 0; r < thunk->region_count; r++)
            refine(analysis, value, classes_of(analysis, thunk->regions[r].results[i]));
        set(analysis, thunk->arrays[thunk->read_count + i], value);
    }
}

// Handles thunks without regions.
static void walk_plain(Analysis *analysis, const CpuThunk *thunk, const int16_t *control) {
    Classes value;
    read_all(analysis, thunk, control, value);
    if (thunk->kind == CPU_STEP_DEVICE_ID) device_ids(analysis, thunk->replica, value);
    if (thunk->kind == CPU_STEP_COLLECTIVE) exchange(analysis, thunk->kernel, value);
    if (thunk->varies) split_all(analysis, value);
    for (int32_t i = 0; i < thunk->write_count; i++) set(analysis, thunk->arrays[thunk->read_count + i], value);
    if (thunk->share_index >= 0)
        memcpy(analysis->leaders + thunk->share_index * analysis->devices, value,
               sizeof(int16_t) * (size_t)analysis->devices);
}

// Walks thunks in execution order.
static void walk(Analysis *analysis, const CpuThunkList *list, const int16_t *control) {
    for (int64_t i = 0; i < list->count; i++) {
        const CpuThunk *thunk = &list->thunks[i];
        if (thunk->kind == CPU_STEP_WHILE)
            walk_while(analysis, thunk, control);
        else if (thunk->kind == CPU_STEP_CONDITIONAL)
            walk_conditional(analysis, thunk, control);
        else
            walk_plain(analysis, thunk, control);
    }
}

// ---- plans

// Returns false when no two devices share an argument.
static bool read_pattern(const CpuExecutable *executable, const CpuExecution *execution, int64_t devices,
                         int16_t *pattern) {
    const bool *elsewhere = execution->span ? execution->span->elsewhere : NULL;
    bool some = false;
    for (int64_t i = 0; i < executable->signature.argument_count; i++) {
        int16_t *row = pattern + i * devices;
        for (int16_t d = 0; d < devices; d++) {
            int16_t e = 0;
            while (e < d && ((elsewhere && (elsewhere[d] || elsewhere[e])) ||
                             execution->arguments[e][i] != execution->arguments[d][i]))
                e++;
            row[d] = e;
            some = some || e != d;
        }
    }
    return some;
}

// Allocates the plan, its pattern and its tables in one block.
static CpuSharePlan *new_plan(const CpuExecutable *executable, int64_t devices) {
    const int64_t arguments = executable->signature.argument_count, results = executable->signature.result_count;
    const int64_t rows = arguments + results + executable->shareable_count;
    CpuSharePlan *plan =
        hlo_allocate_zeroed(1, sizeof(CpuSharePlan) + sizeof(void *) * (size_t)executable->shareable_count +
                                   sizeof(int16_t) * (size_t)(rows * devices));
    if (!plan) return NULL;
    plan->devices = devices;
    plan->argument_count = arguments;
    plan->leaders = (const int16_t **)(plan + 1);
    plan->pattern = (int16_t *)(plan->leaders + executable->shareable_count);
    plan->result_leaders = plan->pattern + arguments * devices;
    return plan;
}

// Divides the classes between devices here and elsewhere: leaders become devices of the same process.
static void divide(const Analysis *analysis, int16_t *leaders) {
    if (!analysis->span) return;
    Classes place;
    for (int16_t d = 0; d < analysis->devices; d++) place[d] = analysis->span->elsewhere[d] ? d : -1;
    refine(analysis, leaders, place);
}

// Returns false when memory is short: then nothing is shared, which is correct too.
static bool analyse(const CpuExecutable *executable, const CpuSpan *span, CpuSharePlan *plan) {
    const int64_t devices = plan->devices;
    const CpuSignature *signature = &executable->signature;
    Analysis analysis = {.executable = executable, .span = span, .devices = devices};
    analysis.classes = hlo_allocate_zeroed((size_t)(executable->array_count * devices) + 1, sizeof(int16_t));
    if (!analysis.classes) return false;
    analysis.leaders = (int16_t *)(uintptr_t)plan->result_leaders + signature->result_count * devices;
    for (int64_t i = 0; i < signature->argument_count; i++)
        memcpy(classes_of(&analysis, executable->argument_arrays[i]), plan->pattern + i * devices,
               sizeof(int16_t) * (size_t)devices);
    const Classes everywhere = {0};
    walk(&analysis, &executable->entry, everywhere);
    for (int64_t i = 0; i < signature->result_count; i++) {
        int16_t *leaders = (int16_t *)(uintptr_t)plan->result_leaders + i * devices;
        memcpy(leaders, classes_of(&analysis, executable->entry.results[i]), sizeof(int16_t) * (size_t)devices);
        divide(&analysis, leaders);
    }
    for (int32_t i = 0; i < executable->shareable_count; i++) {
        int16_t *leaders = analysis.leaders + i * devices;
        divide(&analysis, leaders);
        for (int16_t d = 0; d < devices; d++)
            if (leaders[d] != d) plan->leaders[i] = leaders;
    }
    hlo_free(analysis.classes);
    return true;
}

// Keeps the plan while the pattern of shared arguments stays the same, makes a new one when it changes, and has none
// where nothing is shared.
void cpu_share_plan_update(const CpuExecutable *executable, const CpuExecution *execution, CpuSharePlan **plan) {
    const int64_t devices = executable->replica_count * executable->partition_count;
    if (devices < 2 || devices > kMaximumDevices) return;
    CpuSharePlan *fresh = new_plan(executable, devices);
    if (!fresh) {
        cpu_share_plan_free(*plan);
        *plan = NULL;
        return;
    }
    const bool some = read_pattern(executable, execution, devices, fresh->pattern);
    const size_t bytes = sizeof(int16_t) * (size_t)(fresh->argument_count * devices);
    if (some && *plan && memcmp((*plan)->pattern, fresh->pattern, bytes) == 0) {
        cpu_share_plan_free(fresh);
        return;
    }
    cpu_share_plan_free(*plan);
    *plan = NULL;
    if (some && analyse(executable, execution->span, fresh))
        *plan = fresh;
    else
        cpu_share_plan_free(fresh);
}

void cpu_share_plan_free(CpuSharePlan *plan) {
    hlo_free(plan);
}

int64_t cpu_share_result_leader(const CpuSharePlan *plan, int64_t result, int64_t device) {
    return plan->result_leaders[result * plan->devices + device];
}
