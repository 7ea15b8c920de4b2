// SPDX-License-Identifier: Apache-2.0
// How often a while loop runs.
#ifndef MESHLO_EMULATOR_TRIP_COUNT_H_
#define MESHLO_EMULATOR_TRIP_COUNT_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// The number of times that the body of a while instruction runs: what the backend config says, or what follows from a
// counter that starts at a constant, grows by a constant and is compared with a constant. -1 when it cannot be told.
HLO_EXPORT int64_t emu_trip_count(const HloInstruction *loop);

HLO_END_C

#endif
