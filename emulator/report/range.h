// SPDX-License-Identifier: Apache-2.0
// Internal: how far a measurement may be from a simulated step.
#ifndef MESHLO_EMULATOR_REPORT_RANGE_H_
#define MESHLO_EMULATOR_REPORT_RANGE_H_

#include "emulator/simulate.h"

// Sets the range of a finished report and the parts that it is based on, in the report's arena. `generation` is the
// name of the slice's chip.
void emu_range_find(EmuReport *report, const char *generation);

// Prints "likely 29–35 ms", or "29 ms or more" where the upper end is not known, in the unit of the step.
void emu_range_print(const EmuReport *report, HloText *text);
// Prints what the range is based on, in one line without its end.
void emu_range_print_basis(const EmuReport *report, HloText *text);

#endif
