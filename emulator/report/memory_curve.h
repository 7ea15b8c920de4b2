// SPDX-License-Identifier: Apache-2.0
// Internal: how the memory that a device holds changes during a step.
#ifndef MESHLO_EMULATOR_REPORT_MEMORY_CURVE_H_
#define MESHLO_EMULATOR_REPORT_MEMORY_CURVE_H_

#include "emulator/program.h"
#include "emulator/simulate.h"

// Sets the points of the report's curve. `starts` has, by computation id, when each kernel of the computation's plan
// started the last time that it ran, and when the last one ended; NULL for what never ran. The first, the middle and
// the last iteration of a loop are drawn. Between them, and in branches and calls, their peak counts. Memory errors
// jump to hlo_protect().
void emu_memory_curve(EmuProgram *program, int64_t *const *starts, const EmuMemory *memory, EmuReport *report);

#endif
