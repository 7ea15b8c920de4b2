// SPDX-License-Identifier: Apache-2.0
// How much processor time the control groups of this process allow: what containers set, and neither the number of
// processors nor the affinity shows.
#ifndef MESHLO_TARGETS_CPU_HOST_QUOTA_H_
#define MESHLO_TARGETS_CPU_HOST_QUOTA_H_

#include "hlo/base/status.h"

HLO_BEGIN_C

// The least quota of the process's control group and those above it, in whole processors, rounded up; 0 where there is
// none. Understands both versions of control groups (cpu.max; cpu.cfs_quota_us and cpu.cfs_period_us). The files are
// looked for below `root`, which is "" but in tests. Any thread.
int cpu_quota_processors(const char *root);

HLO_END_C

#endif
