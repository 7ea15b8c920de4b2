// SPDX-License-Identifier: Apache-2.0
// A session is the emulator's network for the devices of one mesh. The partitioner asks a few dozen questions in it,
// and the time of whole programs; each collective is timed as the emulator would in a program, and equal ones of many
// layers once.
#include "targets/spmd_machine.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "compile/pipeline.h"
#include "emulator/collective.h"
#include "emulator/simulate.h"
#include "targets/internal.h"

// What a question leaves in `scratch` is dropped after it; what is remembered lives in the partitioner's arena.
typedef struct Session {
    HloArena *scratch;
    EmuNetwork *network;
    const int64_t *ids;  // of the devices, by partition
    int64_t devices;
} Session;

// Places the devices as the emulator does for a program without an assignment of its own, unless the machine has one.
static bool open_session(const SpmdMachine *machine, HloArena *arena, const SpmdMeshAxis *axes, int64_t axis_count,
                         int64_t devices, void **session) {
    const EmuTopology *topology = machine->context;
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, axis_count), product = 1;
    for (int64_t i = 0; i < axis_count; i++) product *= sizes[i] = axes[i].size;
    if (product != devices || devices > topology->device_count) return false;
    int64_t *places = HLO_ARENA_NEW(arena, int64_t, devices);
    if (machine->assignment && machine->assignment_count == devices) {
        memcpy(places, machine->assignment, (size_t)devices * sizeof *places);
    } else {
        HloStatus status = emu_default_assignment(topology, sizes, axis_count, places);
        hlo_status_free(status);
        if (status) return false;
    }
    const int64_t *ids = hlo_arena_copy(arena, places, (size_t)devices * sizeof *places);
    for (int64_t i = 0; i < devices; i++) {
        places[i] = emu_topology_find_device(topology, places[i]);
        assert(places[i] >= 0); /* the assignment consists of devices */
    }
    const EmuFaults *faults = HLO_ARENA_NEW(arena, EmuFaults, 1);
    Session *opened = HLO_ARENA_NEW(arena, Session, 1);
    *opened = (Session){.scratch = hlo_arena_new(), .ids = ids, .devices = devices};
    if (!opened->scratch) return false;
    *session = opened;
    opened->network = emu_network_new(opened->scratch, topology, places, 1, devices, faults);
    emu_network_remember(opened->network, arena);
    return true;
}

static void close_session(void *session) {
    hlo_arena_free(((Session *)session)->scratch);
}

static double seconds_of(void *session, const HloInstruction *collective) {
    EmuNetwork *network = ((Session *)session)->network;
    const HloArenaMark mark = hlo_arena_mark(network->arena);
    EmuTransfer transfer;
    HloStatus status = emu_transfer(network, collective, &transfer);
    hlo_arena_reset(network->arena, mark);
    hlo_status_free(status);
    return status ? -1 : (double)transfer.picoseconds * 1e-12;
}

// Transfers that share no link run at the same time.
static bool run_beside(void *session, const HloInstruction *a, const HloInstruction *b) {
    EmuNetwork *network = ((Session *)session)->network;
    const HloArenaMark mark = hlo_arena_mark(network->arena);
    EmuTransfer one, other;
    HloStatus status = emu_transfer(network, a, &one);
    if (!status) status = emu_transfer(network, b, &other);
    bool beside = !status;
    if (beside) {
        bool *used = HLO_ARENA_NEW(network->arena, bool, emu_link_limit(network->topology));
        for (int64_t i = 0; i < one.link_count; i++) used[one.links[i].link] = true;
        for (int64_t i = 0; i < other.link_count; i++) beside = beside && !used[other.links[i].link];
    }
    hlo_arena_reset(network->arena, mark);
    hlo_status_free(status);
    return beside;
}

// Simulates the program as `meshlo emulate` does. One that does not fit the memory is slower than any other.
static double program_seconds(void *session, const HloModule *program) {
    const Session *opened = session;
    const EmuTopology *topology = opened->network->topology;
    const CompileOptions options = {
        .is_per_device = true, .is_verified = true, .spmd.async = emu_topology_overlaps(topology)};
    const EmuOptions emulation = {
        .device_assignment = opened->ids, .device_assignment_count = opened->devices, .known = opened->network};
    CompiledModule *compiled = NULL;
    EmuReport *report = NULL;
    HloStatus status = compile_module(program, &options, &compiled);
    if (!status) status = emu_simulate(compiled->module, topology, &emulation, &report);
    double seconds = status ? -1 : (double)report->step_picoseconds * 1e-12;
    if (!status && emu_report_out_of_memory(report)) seconds = HUGE_VAL;
    emu_report_free(report);
    compiled_module_free(compiled);
    hlo_status_free(status);
    return seconds;
}

bool target_spmd_machine(const EmuTopology *topology, SpmdMachine *machine) {
    assert(topology && machine);
    *machine = (SpmdMachine){0};
    if (!emu_topology_is_tpu(topology)) return false;
    const EmuChip *chip = &topology->chip;
    const double devices = (double)chip->devices_per_chip;
    *machine = (SpmdMachine){
        .context = topology,
        .link_bytes_per_second = chip->link_bytes_per_second * chip->link_efficiency,
        .memory_bytes_per_second = chip->hbm_bytes_per_second_per_chip * chip->hbm_efficiency / devices,
        .flops_per_second = chip->bf16_flops_per_chip * chip->mxu_efficiency / devices,
        .kernel_seconds = (double)chip->op_picoseconds * 1e-12,
        .open = open_session,
        .seconds = seconds_of,
        .beside = run_beside,
        .program_seconds = program_seconds,
        .close = close_session,
    };
    return true;
}

bool target_client_spmd_machine(const TargetClient *client, SpmdMachine *machine) {
    assert(client);
    return target_spmd_machine(client->topology, machine);
}
