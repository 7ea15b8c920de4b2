// SPDX-License-Identifier: Apache-2.0
// Ops that other ops stand for before a program is partitioned (spmd_partitioner/flatten.h). What is left of them has a
// form that the passes leave alone.
#include "spmd_partitioner/rule.h"

static HloStatus lowered_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    (void)partitioner;
    return hlo_error(HLO_UNIMPLEMENTED, "%s of this form cannot be partitioned", hlo_op_text(op->opcode));
}
const SpmdOp spmd_op_lowered = {.name = "lowered", .partition = lowered_partition};
