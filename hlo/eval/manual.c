// SPDX-License-Identifier: Apache-2.0
// Manual (shard_map) regions of a program that is not partitioned yet. Every device runs the whole program; inside a
// region each holds its own shard.
#include <string.h>

#include "hlo/eval/internal.h"

HloStatus hlo_eval_full_to_shard(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                 HloEvalValue **result) {
    (void)device;
    if (hlo_shape_equal(instruction->shape, operands[0]->shape, HLO_COMPARE_IGNORE_LAYOUT)) {
        *result = hlo_eval_take(operands, 0);
        return HLO_SUCCESS;
    }
    return hlo_eval_unsupported(instruction, "a manual region");
}

HloStatus hlo_eval_shard_to_full(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                 HloEvalValue **result) {
    return hlo_eval_full_to_shard(device, instruction, operands, result);
}
