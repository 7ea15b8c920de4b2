// SPDX-License-Identifier: Apache-2.0
// Dispatch of shape inference to the files of this folder, one per family.
//
// A request is an op without its result: opcode, operands' shapes, attributes, called computations. The column `shape`
// of ops.def names the handler, which returns the result's shape without layout, or an error that names the mismatch:
//
//   dot(f32[8,16], f32[16,4]), lhs_contracting_dims={1}, rhs_contracting_dims={0}   ->   f32[8,4]
//
// The `hint` is the shape given in the program, if there is one. Ops whose result does not follow from the rest
// (reshape, iota, convert, parameter ...) take it from there; for all others the verifier compares it with the result.
// Builders, passes and the parser's verifier all use this function, so that there is one set of rules.
#include "hlo/ir/infer.h"

#include <assert.h>

#include "hlo/ir/infer/support.h"

static HloInferFunction *const handlers[HLO_OPCODE_COUNT] = {
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    [HLO_OP_##name] = hlo_infer_##shape,
#include "hlo/ops.def"
#undef HLO_OP
};

HloInferRequest hlo_infer_request_of(HloArena *arena, const HloInstruction *instruction) {
    assert(arena && instruction->parent);
    const HloModule *module = instruction->parent->module;
    const HloShape **operands = HLO_ARENA_NEW(arena, const HloShape *, instruction->operand_count);
    for (int32_t i = 0; i < instruction->operand_count; i++) operands[i] = instruction->operands[i]->shape;
    return (HloInferRequest){.arena = arena,
                             .opcode = instruction->opcode,
                             .operands = operands,
                             .operand_count = instruction->operand_count,
                             .attributes = instruction->attributes,
                             .called = instruction->called,
                             .called_count = instruction->called_count,
                             .hint = instruction->shape,
                             .replica_count = module->replica_count,
                             .num_partitions = module->num_partitions};
}

// The number of operands is checked here for ops of fixed arity; missing attributes are replaced by all zeros.
HloStatus hlo_infer_shape(const HloInferRequest *request, const HloShape **result) {
    assert(request->arena && result);
    assert(request->opcode >= 0 && request->opcode < HLO_OPCODE_COUNT);
    assert(request->operand_count >= 0 && request->called_count >= 0);
    const HloOpInfo *info = hlo_op_info(request->opcode);
    HLO_REFUSE_IF(info->arity >= 0 && request->operand_count != info->arity, "%s takes %d operands, but has %lld",
                  info->text, info->arity, (long long)request->operand_count);
    HloInferRequest complete = *request;
    if (!complete.attributes)
        complete.attributes = hlo_arena_allocate(request->arena, hlo_family_info(info->family)->bytes);
    HloStatus status = handlers[request->opcode](&complete, result);
    if (status) return hlo_status_annotate(status, "%s", info->text);
    assert(*result);  // every rule sets a shape or returns an error
    // The shape written by the user has the layout.
    if (request->hint && hlo_shape_equal(request->hint, *result, HLO_COMPARE_IGNORE_LAYOUT)) *result = request->hint;
    return HLO_SUCCESS;
}

// The operand whose layout the result keeps, or -1.
static int64_t layout_source(const HloInferRequest *request) {
    switch (request->opcode) {
        case HLO_OP_SELECT: return request->operands[0]->rank > 0 ? 0 : 1;
        case HLO_OP_CLAMP: return 1;
        case HLO_OP_REVERSE:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_SET_DIMENSION_SIZE:
        case HLO_OP_SELECT_AND_SCATTER:
        case HLO_OP_CHOLESKY:
        case HLO_OP_DOMAIN: return 0;
        default: return hlo_op_info(request->opcode)->flags & HLO_OP_IS_ELEMENTWISE ? 0 : -1;
    }
}

// minor_to_major of a transposed array: each dimension is mapped to its new position.
static const HloLayout *transposed_layout(const HloInferRequest *request, const HloLayout *layout) {
    assert(layout->minor_to_major.count == request->operands[0]->rank);
    HloInts permutation = HLO_INFER_ATTRIBUTES(request, Dimensions)->dimensions;
    int64_t *order = HLO_ARENA_NEW(request->arena, int64_t, layout->minor_to_major.count);
    for (int64_t i = 0; i < layout->minor_to_major.count; i++) {
        while (permutation.items[order[i]] != layout->minor_to_major.items[i]) order[i]++;
    }
    HloLayout *copy = hlo_arena_copy(request->arena, layout, sizeof(*layout));
    copy->minor_to_major.items = order;
    return copy;
}

const HloShape *hlo_infer_layout(const HloInferRequest *request, const HloShape *result) {
    HloArena *arena = request->arena;
    if (request->opcode == HLO_OP_SORT || request->opcode == HLO_OP_SCATTER) {
        bool one = hlo_shape_is_array(result);
        int64_t count = one ? 1 : result->element_count;
        return one ? request->operands[0] : hlo_shape_tuple(arena, request->operands, count);
    }
    int64_t source = layout_source(request);
    if (source < 0) return hlo_shape_with_default_layout(arena, result);
    const HloShape *from = request->operands[source];
    if (!from->layout || from->rank != result->rank) return hlo_shape_with_default_layout(arena, result);
    const HloLayout *layout = from->layout;
    if (request->opcode == HLO_OP_TRANSPOSE) layout = transposed_layout(request, layout);
    return hlo_shape_with_layout(arena, result, layout);
}
