// SPDX-License-Identifier: Apache-2.0
// The identity of the devices of a slice: numbers, coordinates and names as in the real runtime.
#ifndef MESHLO_TARGETS_TPU_IDENTITY_H_
#define MESHLO_TARGETS_TPU_IDENTITY_H_

#include "emulator/topology.h"
#include "targets/client.h"

HLO_BEGIN_C

// Fills in the topology's description of device number `index`: id, process, coordinates, kind and the two texts, which
// are on the heap (the caller frees them). Host devices have no coordinates. RESOURCE_EXHAUSTED when memory is short.
HLO_NODISCARD HloStatus target_tpu_identify(const EmuTopology *topology, int64_t index, TargetDevice *device);
// Does the same for a device that is number `local` of process `process`, whatever its host.
HLO_NODISCARD HloStatus target_tpu_identify_as(const EmuTopology *topology, int64_t index, int64_t process,
                                               int64_t local, TargetDevice *device);

HLO_END_C

#endif
