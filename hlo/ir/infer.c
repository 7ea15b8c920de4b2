// SPDX-License-Identifier: Apache-2.0
// Dispatch of shape inference to the family files infer_*.c.
#include "hlo/ir/infer.h"

#include "hlo/ir/infer_support.h"

static HloInferFunction *const handlers[HLO_OPCODE_COUNT] = {
#define HLO_OP(name, text, arity, flags, family, shape, eval, partition, cost) [HLO_OP_##name] = hlo_infer_##shape,
#include "hlo/ops.def"
#undef HLO_OP
};

HloStatus hlo_infer_shape(const HloInferRequest *request, const HloShape **result) {
    const HloOpInfo *info = hlo_op_info(request->opcode);
    HLO_REFUSE_IF(info->arity >= 0 && request->operand_count != info->arity, "%s takes %d operands, but has %lld",
                  info->text, info->arity, (long long)request->operand_count);
    HloInferRequest complete = *request;
    if (!complete.attributes)
        complete.attributes = hlo_arena_allocate(request->arena, hlo_family_info(info->family)->bytes);
    HloStatus status = handlers[request->opcode](&complete, result);
    if (status) return hlo_status_annotate(status, "%s", info->text);
    // The user's own spelling carries the layout.
    if (request->hint && hlo_shape_equal(request->hint, *result, HLO_COMPARE_IGNORE_LAYOUT)) *result = request->hint;
    return HLO_SUCCESS;
}
