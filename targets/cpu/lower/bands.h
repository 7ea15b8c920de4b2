// SPDX-License-Identifier: Apache-2.0
// Products whose result only the next ones read, computed by bands of rows: attention without the matrix of scores.
#ifndef MESHLO_TARGETS_CPU_LOWER_BANDS_H_
#define MESHLO_TARGETS_CPU_LOWER_BANDS_H_

#include "targets/cpu/lower/lower.h"

HLO_BEGIN_C

// Replaces steps of a region that can be computed together, a band of rows at a time, by one step each. The arrays
// between them then need no buffers. Results keep their bits. Called once all steps of the region are final.
void cpu_lower_bands(CpuLowering *lowering, CpuSteps *steps);

HLO_END_C

#endif
