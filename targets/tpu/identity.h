// SPDX-License-Identifier: Apache-2.0
// Who the devices of a slice are: numbers, coordinates and names as the real runtime gives them.
#ifndef MESHLO_TARGETS_TPU_IDENTITY_H_
#define MESHLO_TARGETS_TPU_IDENTITY_H_

#include "emulator/topology.h"
#include "targets/client.h"

HLO_BEGIN_C

// Fills in what a topology says about its device number `index`: id, process, coordinates, kind and the two texts,
// which are on the heap (the caller frees them). Host devices have no coordinates. RESOURCE_EXHAUSTED when memory is
// short. `one_host`: as a process sees it that holds all hosts of the slice, as their only one.
HLO_NODISCARD HloStatus target_tpu_identify(const EmuTopology *topology, int64_t index, bool one_host,
                                            TargetDevice *device);

HLO_END_C

#endif
