// SPDX-License-Identifier: Apache-2.0
// A TPU slice as the machine by which the partitioner compares plans: with the emulator's constants, so that what it
// chooses is what the emulator finds faster.
//
// Stability: experimental.
#ifndef MESHLO_TARGETS_SPMD_MACHINE_H_
#define MESHLO_TARGETS_SPMD_MACHINE_H_

#include "emulator/topology.h"
#include "spmd_partitioner/spmd.h"
#include "targets/client.h"

HLO_BEGIN_C

// The machine of a topology, which must outlive it; any thread may use it. Partitions are placed as by
// target_default_assignment(). False, and *machine zeroed, for host processors, which have no model.
HLO_EXPORT bool target_spmd_machine(const EmuTopology *topology, SpmdMachine *machine);

// The same for the topology of a client, which must outlive the machine: the partitioner's plan for a slice is the same
// by all front ends.
HLO_EXPORT bool target_client_spmd_machine(const TargetClient *client, SpmdMachine *machine);

HLO_END_C

#endif
