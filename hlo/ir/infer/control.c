// SPDX-License-Identifier: Apache-2.0
// Shape inference of calls, control flow, tuples, tokens, async wrappers and custom calls.
//
// The called computation determines the result: it has the shape of the root, and the parameters must match the
// operands. The state of a loop must have the same shape before and after the body. The result of a custom call has the
// shape given in the program; see hlo/ir/custom_call.c for the known targets.
#include <assert.h>

#include "hlo/ir/infer/support.h"

// The result of called computation `index`, without layout.
static const HloShape *root_shape(const HloInferRequest *request, int64_t index) {
    return hlo_shape_without_layout(request->arena, request->called[index]->root->shape);
}

HloStatus hlo_infer_call(const HloInferRequest *request, const HloShape **result) {
    HLO_TRY(hlo_infer_need_called(request, 1));
    HLO_TRY(hlo_infer_check_arguments(request, 0, request->operands, request->operand_count));
    *result = root_shape(request, 0);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_fusion(const HloInferRequest *request, const HloShape **result) {
    return hlo_infer_call(request, result);
}

HloStatus hlo_infer_conditional(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_CONDITIONAL);
    HLO_REFUSE_IF(request->operand_count < 1, "no operands");
    const HloShape *index = request->operands[0];
    int64_t branches = request->operand_count - 1;
    HLO_REFUSE_IF(!hlo_shape_is_scalar(index) || (index->type != HLO_PRED && index->type != HLO_S32),
                  "operand 0 must be pred[] or s32[], not %s", hlo_shape_message(request->arena, index));
    HLO_REFUSE_IF(branches < 1 || (index->type == HLO_PRED && branches != 2), "%lld branches", (long long)branches);
    HLO_TRY(hlo_infer_need_called(request, branches));
    for (int64_t i = 0; i < branches; i++) {
        HLO_TRY(hlo_infer_check_arguments(request, i, &request->operands[i + 1], 1));
        HLO_REFUSE_IF(!hlo_shapes_agree(root_shape(request, i), root_shape(request, 0)),
                      "branch 0 returns %s, branch %lld returns %s",
                      hlo_shape_message(request->arena, root_shape(request, 0)), (long long)i,
                      hlo_shape_message(request->arena, root_shape(request, i)));
    }
    *result = root_shape(request, 0);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_while(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_WHILE);
    assert(request->operand_count == 1);
    HLO_TRY(hlo_infer_need_called(request, 2));
    HLO_TRY(hlo_infer_check_arguments(request, 0, request->operands, 1));
    HLO_TRY(hlo_infer_check_arguments(request, 1, request->operands, 1));
    const HloShape *predicate = root_shape(request, 0), *body = root_shape(request, 1);
    HLO_REFUSE_IF(!hlo_shape_is_scalar(predicate) || predicate->type != HLO_PRED,
                  "the condition must return pred[], not %s", hlo_shape_message(request->arena, predicate));
    HLO_REFUSE_IF(!hlo_shapes_agree(body, request->operands[0]), "the body takes %s, but returns %s",
                  hlo_shape_message(request->arena, request->operands[0]), hlo_shape_message(request->arena, body));
    *result = body;
    return HLO_SUCCESS;
}

// More leaves than any hand-written value has: nesting n tuples of the same tuple twice gives 2^n.
enum { MOST_LEAVES = 1 << 20 };

HloStatus hlo_infer_tuple(const HloInferRequest *request, const HloShape **result) {
    int64_t leaves = 0;
    for (int64_t i = 0; i < request->operand_count; i++) {
        leaves += hlo_shape_leaf_count(request->operands[i]);
        HLO_REFUSE_IF(leaves > MOST_LEAVES, "a value of more than %d arrays", MOST_LEAVES);
    }
    const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, request->operand_count);
    for (int64_t i = 0; i < request->operand_count; i++) elements[i] = request->operands[i];
    *result = hlo_shape_tuple(request->arena, elements, request->operand_count);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_get_tuple_element(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_GET_TUPLE_ELEMENT);
    assert(request->operand_count == 1);
    int64_t index = HLO_INFER_ATTRIBUTES(request, TupleIndex)->index;
    const HloShape *tuple = request->operands[0];
    HLO_REFUSE_IF(!hlo_shape_is_tuple(tuple), "operand 0 must be a tuple, not %s",
                  hlo_shape_message(request->arena, tuple));
    HLO_REFUSE_IF(index < 0 || index >= tuple->element_count, "index %lld of a tuple of %lld elements",
                  (long long)index, (long long)tuple->element_count);
    *result = tuple->elements[index];
    return HLO_SUCCESS;
}

HloStatus hlo_infer_after_all(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_AFTER_ALL);
    for (int64_t i = 0; i < request->operand_count; i++) {
        HLO_REFUSE_IF(request->operands[i]->type != HLO_TOKEN, "operand %lld must be a token, not %s", (long long)i,
                      hlo_shape_message(request->arena, request->operands[i]));
    }
    *result = hlo_shape_token(request->arena);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_add_dependency(const HloInferRequest *request, const HloShape **result) {
    HLO_REFUSE_IF(request->operands[1]->type != HLO_TOKEN, "operand 1 must be a token, not %s",
                  hlo_shape_message(request->arena, request->operands[1]));
    *result = request->operands[0];
    return HLO_SUCCESS;
}

HloStatus hlo_infer_identity(const HloInferRequest *request, const HloShape **result) {
    *result = request->operands[0];
    return HLO_SUCCESS;
}

HloStatus hlo_infer_custom_call(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_CUSTOM_CALL);
    const HloCustomCallAttributes *call = HLO_INFER_ATTRIBUTES(request, CustomCall);
    HLO_TRY(hlo_infer_need_hint(request, false));
    HLO_REFUSE_IF(call->operand_layouts.count && call->operand_layouts.count != request->operand_count,
                  "%lld operand layouts for %lld operands", (long long)call->operand_layouts.count,
                  (long long)request->operand_count);
    for (int64_t i = 0; i < call->operand_layouts.count; i++) {
        const HloShape *constrained = call->operand_layouts.items[i];
        HLO_REFUSE_IF(!hlo_shape_equal(constrained, request->operands[i], HLO_COMPARE_IGNORE_LAYOUT),
                      "operand %lld is %s, but its layout is given for %s", (long long)i,
                      hlo_shape_message(request->arena, request->operands[i]),
                      hlo_shape_message(request->arena, constrained));
    }
    // Only the target interprets the window of a custom call, but its steps must be positive.
    for (int64_t d = 0; call->window && d < call->window->count; d++) {
        int64_t unused;
        HLO_TRY(hlo_infer_window_output(&call->window->dims[d], d, HLO_UNBOUNDED, &unused));
    }
    *result = request->hint;
    return HLO_SUCCESS;
}

// ((operands), result, contexts...): the value that an async op passes from start to done.
HloStatus hlo_infer_async_start(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_ASYNC_START);
    HLO_TRY(hlo_infer_need_called(request, 1));
    HLO_TRY(hlo_infer_check_arguments(request, 0, request->operands, request->operand_count));
    const HloShape *hint = request->hint, *root = root_shape(request, 0);
    if (!hint) {
        const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, 2);
        HLO_TRY(hlo_infer_tuple(request, &elements[0]));
        elements[1] = root;
        *result = hlo_shape_tuple(request->arena, elements, 2);
        return HLO_SUCCESS;
    }
    HLO_REFUSE_IF(!hlo_shape_is_tuple(hint) || hint->element_count < 2,
                  "the result must be ((operands), result, contexts...), not %s",
                  hlo_shape_message(request->arena, hint));
    const HloShape *operands = hint->elements[0];
    HLO_REFUSE_IF(!hlo_shape_is_tuple(operands) || operands->element_count != request->operand_count,
                  "the result names %s as its operands, but there are %lld",
                  hlo_shape_message(request->arena, operands), (long long)request->operand_count);
    for (int64_t i = 0; i < request->operand_count; i++) {
        HLO_REFUSE_IF(!hlo_shapes_agree(operands->elements[i], request->operands[i]),
                      "operand %lld is %s, but the result has it as %s", (long long)i,
                      hlo_shape_message(request->arena, request->operands[i]),
                      hlo_shape_message(request->arena, operands->elements[i]));
    }
    HLO_REFUSE_IF(!hlo_shapes_agree(hint->elements[1], root), "the computation returns %s, but the result has %s",
                  hlo_shape_message(request->arena, root), hlo_shape_message(request->arena, hint->elements[1]));
    *result = hint;
    return HLO_SUCCESS;
}

HloStatus hlo_infer_async_update(const HloInferRequest *request, const HloShape **result) {
    assert(request->operand_count == 1);
    const HloShape *chain = request->operands[0];
    HLO_REFUSE_IF(!hlo_shape_is_tuple(chain) || chain->element_count < 2,
                  "operand 0 must be the result of an async-start, not %s", hlo_shape_message(request->arena, chain));
    *result = chain;
    return HLO_SUCCESS;
}

HloStatus hlo_infer_async_done(const HloInferRequest *request, const HloShape **result) {
    assert(request->operand_count == 1);
    HLO_TRY(hlo_infer_async_update(request, result));
    *result = (*result)->elements[1];
    return HLO_SUCCESS;
}
