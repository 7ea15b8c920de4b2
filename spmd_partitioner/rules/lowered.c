// SPDX-License-Identifier: Apache-2.0
// Ops that are replaced by other ops before a program is partitioned (spmd_partitioner/flatten.h). Those that remain
// have a form that the passes do not handle.
#include "spmd_partitioner/rule.h"

static HloStatus lowered_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    (void)partitioner;
    const bool half = hlo_op_is(op->opcode, HLO_OP_IS_ASYNC_START) || hlo_op_is(op->opcode, HLO_OP_IS_ASYNC_DONE) ||
                      hlo_is(op, HLO_OP_ASYNC_UPDATE);
    return hlo_error(HLO_UNIMPLEMENTED, "%s %s cannot be partitioned", hlo_op_text(op->opcode),
                     half ? "whose halves something else refers to" : "that control edges refer to");
}
const SpmdOp spmd_op_lowered = {.name = "lowered", .partition = lowered_partition};
