// SPDX-License-Identifier: Apache-2.0
// Programs as HLO text, timed as they are.
#ifndef MESHLO_TESTS_EMULATOR_SIMULATED_H_
#define MESHLO_TESTS_EMULATOR_SIMULATED_H_

#include "emulator/emulator.h"

// The report of a program on a slice; a failed assertion when either is wrong. Free with emu_report_free().
EmuReport *simulated(const char *text, const char *spec);

#endif
