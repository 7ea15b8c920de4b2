// SPDX-License-Identifier: Apache-2.0
// The processor time that the control groups of this process allow. Containers set it, and neither the number of
// processors nor the affinity shows it.
#ifndef MESHLO_TARGETS_CPU_HOST_QUOTA_H_
#define MESHLO_TARGETS_CPU_HOST_QUOTA_H_

#include "hlo/base/status.h"

HLO_BEGIN_C

// Returns the least quota of the process's control group and those above it, in whole processors, rounded up; 0 if
// there is none. Supports both versions of control groups (cpu.max; cpu.cfs_quota_us and cpu.cfs_period_us). The files
// are read below `root`, which is "" except in tests. Any thread.
int cpu_quota_processors(const char *root);

HLO_END_C

#endif
