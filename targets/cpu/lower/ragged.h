// SPDX-License-Identifier: Apache-2.0
// The rows that devices send to each other in a ragged-all-to-all.
#ifndef MESHLO_TARGETS_CPU_LOWER_RAGGED_H_
#define MESHLO_TARGETS_CPU_LOWER_RAGGED_H_

#include "targets/cpu/graph/collective.h"

HLO_BEGIN_C

// Adjacent rows of one member's input that become rows of another member's output. Offsets are in bytes.
typedef struct CpuRaggedRows {
    int64_t receiver;  // member of the group
    int64_t from, to;  // in the sender's first operand, in the receiver's result
    int64_t bytes;
} CpuRaggedRows;

// Reads entry `entry` of what member `from` sends from its offsets and sizes (operands 2 to 4), whose addresses must be
// known. INVALID_ARGUMENT if the rows do not fit.
HLO_NODISCARD HloStatus cpu_ragged_rows(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                        void *const *const *addresses, int64_t from, int64_t entry,
                                        CpuRaggedRows *rows);

HLO_END_C

#endif
