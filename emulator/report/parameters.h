// SPDX-License-Identifier: Apache-2.0
// Internal: the parameters of a program with their shardings, and which device holds which part.
#ifndef MESHLO_EMULATOR_REPORT_PARAMETERS_H_
#define MESHLO_EMULATOR_REPORT_PARAMETERS_H_

#include "emulator/simulate.h"

// Fills the report's `parameters` from the program of one device. In the report's arena.
void emu_parameters_find(EmuReport *report, const HloModule *module);

// The parts of an array and who holds them.
typedef struct EmuParts {
    HloInts tiles;           // how many parts along each dimension
    const int64_t *holders;  // by partition: the part that it holds, row-major; -1: none
    int64_t count;           // of partitions
} EmuParts;

// Finds the parts of a parameter over `count` partitions; one part that all hold if its sharding is not one of tiles.
EmuParts emu_parameter_parts(HloArena *arena, const EmuParameter *parameter, int64_t count);

#endif
