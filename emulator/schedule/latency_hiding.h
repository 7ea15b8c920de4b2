// SPDX-License-Identifier: Apache-2.0
// Moves kernels up to where the device would wait for a transfer, as XLA's latency-hiding scheduler does:
//
//   s k1 d k2(d) k3      ->      s k1 k3 d k2       s: start, d: done; k2 needs what arrives, k3 does not
//
// Internal.
#ifndef MESHLO_EMULATOR_SCHEDULE_LATENCY_HIDING_H_
#define MESHLO_EMULATOR_SCHEDULE_LATENCY_HIDING_H_

#include "emulator/collective.h"
#include "emulator/cost.h"
#include "emulator/program.h"

// Gives the plans of a program whose transfers emu_program_plan() has spread orders with less waiting, by the times of
// `network`, where the program then still fits (or needs no more memory, if it does not fit now). Plans of scheduled
// programs stay as they are. Returns whether a sum ends late (EmuProgram.sums_end_late). After
// emu_program_fit_memory(). Whatever the network refuses is left to the caller's own use of it. Memory errors jump to
// hlo_protect().
bool emu_program_hide_transfers(EmuProgram *program, EmuNetwork *network, EmuKernelCosts costs);

#endif
