// SPDX-License-Identifier: Apache-2.0
// Internal: what the orders of a plan's kernels are made with.
#ifndef MESHLO_EMULATOR_SCHEDULE_PLAN_ORDER_H_
#define MESHLO_EMULATOR_SCHEDULE_PLAN_ORDER_H_

#include "emulator/fusion.h"
#include "hlo/base/vector.h"

// The plan with its kernels in this order, which has each of their numbers once. In `arena`.
EmuPlan *emu_plan_with_order(HloArena *arena, const EmuPlan *plan, const HloInt64Vector *order);

#endif
