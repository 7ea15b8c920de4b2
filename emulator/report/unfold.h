// SPDX-License-Identifier: Apache-2.0
// Internal: the timeline with the iterations of loops. A report has each operation of a loop once, with the time of its
// first iteration.
#ifndef MESHLO_EMULATOR_REPORT_UNFOLD_H_
#define MESHLO_EMULATOR_REPORT_UNFOLD_H_

#include "emulator/simulate.h"

// One run of an operation. `iteration` is that of the innermost loop around it, of `iterations`; 0 of 1 outside of
// loops.
typedef void EmuRunVisitor(void *context, const EmuOp *op, int64_t start, int64_t iteration, int64_t iterations);

// Calls `visit` for each run of each operation: a loop before what is in it, iteration after iteration, and of a
// conditional the branch that the step's time has. When the report
// has more than `limit` runs, only the first, the middle and the last iteration of each loop are visited; false then.
bool emu_unfold(const EmuReport *report, int64_t limit, EmuRunVisitor *visit, void *context);

#endif
