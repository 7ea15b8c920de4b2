// SPDX-License-Identifier: Apache-2.0
// Internal: what the orders of a plan's kernels are made with.
#ifndef MESHLO_EMULATOR_SCHEDULE_PLAN_ORDER_H_
#define MESHLO_EMULATOR_SCHEDULE_PLAN_ORDER_H_

#include "emulator/fusion.h"
#include "hlo/base/map.h"
#include "hlo/base/vector.h"

// What a search for the kernels beside an instruction has seen.
typedef struct EmuWalk {
    HloArena *arena;
    const int32_t *kernel_of;
    HloIntMap seen;  // instruction ids
} EmuWalk;

// Lists the kernels that an instruction reads, or, with `users`, that read it, seen through instructions that are in no
// kernel of their own. A kernel is listed for each of its instructions that is found and has not been seen.
void emu_list_kernels(EmuWalk *walk, const HloInstruction *from, bool users, HloInt64Vector *kernels);

// The plan with its kernels in this order, which has each of their numbers once. In `arena`.
EmuPlan *emu_plan_with_order(HloArena *arena, const EmuPlan *plan, const HloInt64Vector *order);

#endif
