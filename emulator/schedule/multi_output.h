// SPDX-License-Identifier: Apache-2.0
// Internal: joins kernels that read the same arrays into kernels with several results.
#ifndef MESHLO_EMULATOR_SCHEDULE_MULTI_OUTPUT_H_
#define MESHLO_EMULATOR_SCHEDULE_MULTI_OUTPUT_H_

#include "emulator/fusion.h"

// The most members of a kernel; compilers stop fusing at some size too.
#define EMU_MAX_MEMBERS 256

// Joins elementwise kernels and reductions with a kernel that makes or reads the same arrays, where neither waits for
// the other, in `arena`. `stages` has an entry for each kernel of `plan`: how many loops and branches have run before
// it, one after the other. Kernels of different stages are not joined. Updates the plan, and `kernel_of` with it.
void emu_join_outputs(HloArena *arena, EmuPlan *plan, const int32_t *stages, int32_t *kernel_of);

#endif
