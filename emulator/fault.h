// SPDX-License-Identifier: Apache-2.0
// What-if: slow links, slow devices, dead chips. A specification is a list separated by commas of
//
//   link:A-B:SPEED      both directions between the chips of neighbouring devices A and B run at SPEED (0.5) of their
//                       rate
//   straggler:D:TIMES   device D takes TIMES (1.5) as long for every kernel
//   dead:D              the chip of device D is gone
//
// Stability: experimental.
#ifndef MESHLO_EMULATOR_FAULT_H_
#define MESHLO_EMULATOR_FAULT_H_

#include "emulator/route.h"
#include "hlo/base/memory.h"

HLO_BEGIN_C

// Faults of a slice. Zero-initialised: none.
typedef struct EmuFaults {
    double *link_slowness;    // by link: how many times longer a byte takes; NULL when all are as specified
    double *device_slowness;  // by position; NULL when all are equal
    bool *dead_chips;         // by chip number; NULL when all live
} EmuFaults;

// Parses a specification (NULL or "": no faults) into `arena`. INVALID_ARGUMENT with the expected form when it cannot
// be parsed, or names devices or links that do not exist. Memory errors jump to hlo_protect().
HLO_EXPORT HLO_NODISCARD HloStatus emu_faults_parse(HloArena *arena, const EmuTopology *topology, const char *spec,
                                                    EmuFaults *faults);

// UNAVAILABLE, with the participants that are lost, when one of the `count` positions is on a dead chip.
HLO_EXPORT HLO_NODISCARD HloStatus emu_faults_check_devices(const EmuFaults *faults, const EmuTopology *topology,
                                                            const int64_t *places, int64_t count);

HLO_END_C

#endif
