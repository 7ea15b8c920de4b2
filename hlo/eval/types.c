// SPDX-License-Identifier: Apache-2.0
// The verifier allows mixed float types (an f32 result of f64 operands), but handlers copy and compute without checking
// again. Mixed types are rejected here, once, before anything runs, if a handler relies on one type: the switch at the
// end names, for each opcode, the rule that its handler relies on.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"

// The wording is the same for every op, so that users can search for it.
static HloStatus refuse(const HloInstruction *instruction) {
    return hlo_eval_unsupported(instruction, "a mixture of float types");
}

// Compares element types and structure; the verifier checks dimensions.
static bool same_types(const HloShape *a, const HloShape *b) {
    if (a->type != b->type || a->element_count != b->element_count) return false;
    for (int32_t i = 0; i < a->element_count; i++) {
        if (!same_types(a->elements[i], b->elements[i])) return false;
    }
    return true;
}

// Whether these are two different float types; the verifier itself compares other kinds.
static bool mixes(const HloShape *a, const HloShape *b) {
    return hlo_type_is_float(a->type) && hlo_type_is_float(b->type) && a->type != b->type;
}

// All float operands and the result have one type, which is also that of the parts of complex operands.
static HloStatus check_uniform(const HloInstruction *instruction) {
    const HloShape *seen = instruction->shape;
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        const HloType from = instruction->operands[k]->shape->type, to = seen->type;
        const bool holds = !hlo_type_is_complex(from) || !hlo_type_is_float(to) || hlo_type_real_part(from) == to;
        if (!holds) return refuse(instruction);
    }
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        const HloShape *shape = instruction->operands[k]->shape;
        if (!hlo_type_is_float(shape->type)) continue;
        if (mixes(seen, shape)) return refuse(instruction);
        seen = shape;
    }
    return HLO_SUCCESS;
}

// Result number k has the type of operand k.
static HloStatus check_pairs(const HloInstruction *instruction, const HloShape *shape) {
    int32_t count = shape->type == HLO_TUPLE ? shape->element_count : 1;
    for (int32_t k = 0; k < count && k < instruction->operand_count; k++) {
        const HloShape *part = hlo_shape_value(shape, k);
        if (part->type != instruction->operands[k]->shape->type) return refuse(instruction);
    }
    return HLO_SUCCESS;
}

// Operands from `first` on are the parameters; the root is `result`.
static HloStatus check_call(const HloInstruction *instruction, const HloComputation *called, int32_t first,
                            int64_t count, const HloShape *result) {
    assert(first >= 0 && count >= 0);
    for (int64_t p = 0; p < count; p++) {
        const HloInstruction *parameter = p < called->parameters.count ? called->parameters.items[p] : NULL;
        if (parameter && !same_types(parameter->shape, instruction->operands[first + p]->shape))
            return refuse(instruction);
    }
    return result && !same_types(called->root->shape, result) ? refuse(instruction) : HLO_SUCCESS;
}

// Slices and carries are passed unchanged, and outputs and carries returned.
static HloStatus check_scan(const HloInstruction *instruction) {
    return check_call(instruction, instruction->called[0], 0, instruction->operand_count, instruction->shape);
}

// Branch c takes only operand c + 1.
static HloStatus check_branches(const HloInstruction *instruction) {
    for (int32_t c = 0; c < instruction->called_count; c++) {
        HLO_TRY(check_call(instruction, instruction->called[c], c + 1, 1, instruction->shape));
    }
    return HLO_SUCCESS;
}

// Ragged products accumulate complex numbers, floats or integers and return the same kind; integers may become floats.
static HloStatus check_product(const HloInstruction *instruction) {
    HloType result = instruction->shape->type;
    for (int32_t k = 0; k < instruction->operand_count && k < 2; k++) {
        HloType operand = instruction->operands[k]->shape->type;
        bool fits = hlo_type_is_complex(operand) ? hlo_type_is_complex(result)
                                                 : !hlo_type_is_float(operand) || !hlo_type_is_integer(result);
        if (!fits || (hlo_type_is_float(operand) && result == HLO_PRED)) return refuse(instruction);
    }
    return HLO_SUCCESS;
}

// Element `index` of the operand's tuple is returned unchanged.
static HloStatus check_element(const HloInstruction *instruction, int64_t index) {
    const HloShape *tuple = instruction->operands[0]->shape;
    bool fits = index < tuple->element_count && same_types(instruction->shape, tuple->elements[index]);
    return fits ? HLO_SUCCESS : refuse(instruction);
}

// The first operand is returned unchanged.
static HloStatus check_passed_on(const HloInstruction *instruction) {
    return same_types(instruction->shape, instruction->operands[0]->shape) ? HLO_SUCCESS : refuse(instruction);
}

static HloStatus check_top_k(const HloInstruction *instruction) {
    const HloShape *from = instruction->operand_count > 0 ? instruction->operands[0]->shape : NULL;
    return from && hlo_type_is_complex(from->type) ? hlo_eval_unsupported(instruction, "an ordering of complex numbers")
                                                   : HLO_SUCCESS;
}

// The real parts of the operand and of the result have the same type.
static HloStatus check_fft(const HloInstruction *instruction) {
    HloType from = instruction->operands[0]->shape->type, to = instruction->shape->type;
    return hlo_type_real_part(from) == hlo_type_real_part(to) ? HLO_SUCCESS : refuse(instruction);
}

// A draw is a real number.
static HloStatus check_random(const HloInstruction *instruction) {
    if (hlo_type_is_complex(instruction->shape->type))
        return hlo_eval_unsupported(instruction, "a complex random number");
    return check_uniform(instruction);
}

// Checks the second result of a tuple; if there is none, the handler reports it.
static HloStatus check_random_bits(const HloInstruction *instruction) {
    const HloShape *shape = instruction->shape;
    const HloShape *bits = hlo_shape_is_tuple(shape) && shape->element_count > 1 ? shape->elements[1] : shape;
    bool is_complex = hlo_type_is_complex(bits->type);
    return is_complex ? hlo_eval_unsupported(instruction, "a complex random number") : HLO_SUCCESS;
}

// Rejects more arrays than handlers have room for.
static HloStatus check_count(const HloInstruction *instruction, int64_t values) {
    HLO_FAIL_IF(values > HLO_EVAL_MAX_VALUES, HLO_UNIMPLEMENTED,
                "%%%s: %s of more than %d arrays at once cannot be evaluated", instruction->name,
                hlo_op_text(instruction->opcode), HLO_EVAL_MAX_VALUES);
    return HLO_SUCCESS;
}

// Among custom calls only those that sort depend on the order of elements.
static HloStatus check_custom_call(const HloInstruction *instruction) {
    const char *target = HLO_ATTRIBUTES(instruction, CustomCall)->target;
    bool sorts = target && (!strcmp(target, "TopK") || !strcmp(target, "mhlo.topk"));
    if (target && !strcmp(target, "ApproxTopK")) return check_count(instruction, instruction->operand_count / 2);
    return sorts ? check_top_k(instruction) : HLO_SUCCESS;
}

// The computation combines two elements of each operand from `first` on into one. A plain sum or product does so for
// any float type.
static HloStatus check_combiner(const HloInstruction *instruction, const HloComputation *called, int64_t first,
                                int64_t values) {
    HloType types[2 * HLO_EVAL_MAX_VALUES];
    HLO_TRY(check_count(instruction, values));
    for (int64_t v = 0; v < values; v++) types[v] = types[values + v] = instruction->operands[first + v]->shape->type;
    if (values == 1 && hlo_eval_fold_is_in_double(called, types[0])) return hlo_eval_check_types(called->root);
    return hlo_eval_check_scalars(called, types, 2 * values, types, values);
}

// The operands are arrays, then an initial value for each.
static HloStatus check_reduction(const HloInstruction *instruction) {
    const int64_t values = instruction->operand_count / 2;
    HLO_TRY(check_pairs(instruction, instruction->shape));
    for (int64_t v = 0; v < values; v++) {
        if (instruction->operands[v]->shape->type != instruction->operands[values + v]->shape->type)
            return refuse(instruction);
    }
    return check_combiner(instruction, instruction->called[0], values, values);
}

// Each operand is reduced separately.
static HloStatus check_reduction_of_devices(const HloInstruction *instruction, const HloShape *shape) {
    HLO_TRY(check_pairs(instruction, shape));
    for (int64_t k = 0; k < instruction->operand_count; k++)
        HLO_TRY(check_combiner(instruction, instruction->called[0], k, 1));
    return HLO_SUCCESS;
}

// The computation takes an element of each array and an update of each, and returns an element of each.
static HloStatus check_scatter(const HloInstruction *instruction) {
    const int64_t values = instruction->operand_count / 2;
    HloType types[2 * HLO_EVAL_MAX_VALUES];
    HLO_TRY(check_pairs(instruction, instruction->shape));
    HLO_TRY(check_count(instruction, values));
    for (int64_t v = 0; v < values; v++) {
        types[v] = instruction->operands[v]->shape->type;
        types[values + v] = instruction->operands[values + 1 + v]->shape->type;
        if (types[v] != types[values + v]) return refuse(instruction);
    }
    return hlo_eval_check_scalars(instruction->called[0], types, 2 * values, types, values);
}

// The computation takes one element of each operand.
static HloStatus check_map(const HloInstruction *instruction) {
    HloType types[2 * HLO_EVAL_MAX_VALUES];
    HLO_TRY(check_count(instruction, instruction->operand_count));
    for (int32_t k = 0; k < instruction->operand_count; k++) types[k] = instruction->operands[k]->shape->type;
    return hlo_eval_check_scalars(instruction->called[0], types, instruction->operand_count, &instruction->shape->type,
                                  1);
}

// The comparator takes two elements of each array, side by side.
static HloStatus check_sort(const HloInstruction *instruction) {
    HloType types[2 * HLO_EVAL_MAX_VALUES];
    HLO_TRY(check_pairs(instruction, instruction->shape));
    HLO_TRY(check_count(instruction, instruction->operand_count));
    for (int32_t k = 0; k < instruction->operand_count; k++)
        types[2 * k] = types[2 * k + 1] = instruction->operands[k]->shape->type;
    return hlo_eval_check_scalars(instruction->called[0], types, 2 * (int64_t)instruction->operand_count,
                                  &(HloType){HLO_PRED}, 1);
}

static HloStatus check_select_and_scatter(const HloInstruction *instruction) {
    const HloType type = instruction->operands[0]->shape->type, types[2] = {type, type}, answer = HLO_PRED;
    HLO_TRY(check_uniform(instruction));
    HLO_TRY(hlo_eval_check_scalars(instruction->called[0], types, 2, &answer, 1));
    return check_combiner(instruction, instruction->called[1], 2, 1);
}

// Both sides, both scales and the result are floats, possibly of five different types.
static HloStatus check_scaled_dot(const HloInstruction *instruction) {
    bool floats = hlo_type_is_float(instruction->shape->type);
    for (int32_t k = 0; k < instruction->operand_count; k++)
        floats = floats && hlo_type_is_float(instruction->operands[k]->shape->type);
    return floats ? HLO_SUCCESS
                  : hlo_eval_unsupported(instruction, "a scaled dot of types that are not floating point");
}

// One row for each family of handlers; opcodes without a row have one float type throughout.
HloStatus hlo_eval_check_types(const HloInstruction *instruction) {
    assert(instruction->parent);
    int64_t operands = instruction->operand_count;
    const HloShape *shape = instruction->shape;
    switch (instruction->opcode) {
        case HLO_OP_CALL:
        case HLO_OP_FUSION: return check_call(instruction, instruction->called[0], 0, operands, shape);
        case HLO_OP_ASYNC_START:
            return check_call(instruction, instruction->called[0], 0, operands, shape->elements[1]);
        case HLO_OP_CONDITIONAL: return check_branches(instruction);
        case HLO_OP_WHILE:
            HLO_TRY(check_call(instruction, instruction->called[0], 0, 1, NULL));
            return check_call(instruction, instruction->called[1], 0, 1, shape);
        case HLO_OP_SCAN: return check_scan(instruction);
        case HLO_OP_REDUCE:
        case HLO_OP_REDUCE_WINDOW: return check_reduction(instruction);
        case HLO_OP_SORT: return check_sort(instruction);
        case HLO_OP_SCATTER: return check_scatter(instruction);
        case HLO_OP_SELECT_AND_SCATTER: return check_select_and_scatter(instruction);
        case HLO_OP_MAP: return check_map(instruction);
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_ALL_REDUCE_START:
        case HLO_OP_REDUCE_SCATTER: return check_reduction_of_devices(instruction, shape);
        case HLO_OP_ALL_GATHER:
        case HLO_OP_ALL_TO_ALL:
        case HLO_OP_COLLECTIVE_BROADCAST:
        case HLO_OP_COLLECTIVE_PERMUTE: return check_pairs(instruction, shape);
        case HLO_OP_ALL_GATHER_START:
        case HLO_OP_COLLECTIVE_PERMUTE_START: return check_pairs(instruction, shape->elements[1]);
        case HLO_OP_TOPK: HLO_TRY(check_top_k(instruction)); return check_pairs(instruction, shape);
        case HLO_OP_FFT: return check_fft(instruction);
        case HLO_OP_RNG: return check_random(instruction);
        case HLO_OP_STOCHASTIC_CONVERT:
            return hlo_type_is_complex(shape->type)
                       ? hlo_eval_unsupported(instruction, "a stochastic conversion to complex numbers")
                       : HLO_SUCCESS;
        case HLO_OP_RNG_BIT_GENERATOR: return check_random_bits(instruction);
        case HLO_OP_CONVERT:
        case HLO_OP_BITCAST:
        case HLO_OP_BITCAST_CONVERT: return HLO_SUCCESS;
        case HLO_OP_CUSTOM_CALL: return check_custom_call(instruction);
        case HLO_OP_SCALED_DOT: return check_scaled_dot(instruction);
        case HLO_OP_DOT:
        case HLO_OP_CONVOLUTION: return HLO_SUCCESS;
        case HLO_OP_TUPLE: return check_pairs(instruction, shape);
        case HLO_OP_GET_TUPLE_ELEMENT:
            return check_element(instruction, HLO_ATTRIBUTES(instruction, TupleIndex)->index);
        case HLO_OP_ASYNC_DONE:
        case HLO_OP_ALL_GATHER_DONE:
        case HLO_OP_COLLECTIVE_PERMUTE_DONE: return check_element(instruction, 1);
        case HLO_OP_COPY_DONE: return check_element(instruction, 0);
        case HLO_OP_ADD_DEPENDENCY:
        case HLO_OP_ALL_REDUCE_DONE:
        case HLO_OP_ASYNC_UPDATE:
        case HLO_OP_COPY:
        case HLO_OP_DOMAIN:
        case HLO_OP_OPTIMIZATION_BARRIER: return check_passed_on(instruction);
        default:
            if (hlo_op_is(instruction->opcode, HLO_OP_IS_PRODUCT)) return check_product(instruction);
            return hlo_shape_is_array(shape) ? check_uniform(instruction) : HLO_SUCCESS;
    }
}

HloStatus hlo_eval_check_scalars(const HloComputation *computation, const HloType *parameters, int64_t count,
                                 const HloType *results, int64_t result_count) {
    assert(count >= 0 && result_count >= 0);
    const HloShape *root = computation->root->shape;
    bool fits = computation->parameters.count == count && hlo_eval_scalar_results(computation) == result_count;
    for (int64_t p = 0; fits && p < count; p++) {
        const HloInstruction *parameter = computation->parameters.items[p];
        fits = parameter && parameter->shape->type == parameters[p];
    }
    for (int64_t r = 0; fits && r < result_count; r++) {
        fits = hlo_shape_value(root, r)->type == results[r];
    }
    HLO_FAIL_IF(!fits, HLO_UNIMPLEMENTED, "computation %%%s: a mixture of element types cannot be evaluated",
                computation->name);
    return HLO_SUCCESS;
}
