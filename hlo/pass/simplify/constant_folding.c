// SPDX-License-Identifier: Apache-2.0
// Constant folding: evaluates ops on constants (hlo/eval/) at compile time. Elementwise ops on repeated scalars fold to
// a repeated scalar, whatever their size; other results are limited in size, and ops that do a lot of work for their
// size are folded only if both their size and their work are small.
//
// The evaluator is the reference, so folding changes no bit of any result; what it refuses (an unknown custom call, a
// mixture of types) stays in the program and is refused again, by name, when it runs. Results are bounded because a
// constant is stored, printed and sent: `f32[65536,65536] iota` is one line, its value is 16 GiB.
//
//   multiply(s32[] constant(3), s32[] constant(4))                ->   s32[] constant(12)
//   exponential(f32[1000000] broadcast(f32[] constant(0)))        ->   f32[1000000] broadcast(f32[] constant(1))
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/pass/support.h"

enum { SMALL = 65536 };        // maximum elements in and out of an op with more than linear work
enum { STEPS = 4 * 1048576 };  // maximum number of its operations: hundredths of a second

// True for products, which machines may round differently.
static bool is_rounded_by_machine(const HloInstruction *i) {
    return hlo_op_is(i->opcode, HLO_OP_IS_PRODUCT) &&
           hlo_type_is_float(hlo_type_real_part(i->operands[0]->shape->type));
}

// True for ops that are worth folding: pure, of bounded work, and not merely another form of a constant.
static bool may_fold(const HloInstruction *i) {
    switch (i->opcode) {
        case HLO_OP_CONSTANT:
        case HLO_OP_PARAMETER:
        case HLO_OP_IOTA:
        case HLO_OP_TUPLE:
        case HLO_OP_GET_TUPLE_ELEMENT:
        case HLO_OP_BITCAST:
        case HLO_OP_COPY:
        case HLO_OP_WHILE:
        case HLO_OP_CONDITIONAL:
        case HLO_OP_CALL:
        case HLO_OP_SCAN:
        case HLO_OP_FUSION:
        case HLO_OP_CUSTOM_CALL:
        case HLO_OP_AFTER_ALL:
        case HLO_OP_ADD_DEPENDENCY:
        case HLO_OP_OPTIMIZATION_BARRIER:
        case HLO_OP_DOMAIN:
        case HLO_OP_SET_DIMENSION_SIZE:
        case HLO_OP_PARTITION_ID:
        case HLO_OP_REPLICA_ID: return false;
        // A repeated constant is already in its shortest form, but one that only gets dimensions of size 1 is the same
        // array.
        case HLO_OP_BROADCAST:
            if (hlo_shape_is_dynamic(i->shape)) return false;
            if (hlo_shape_elements(i->shape) != hlo_shape_elements(i->operands[0]->shape)) return false;
            break;
        default: break;
    }
    return i->operand_count > 0 && hlo_shape_is_array(i->shape) && !hlo_shape_is_dynamic(i->shape) &&
           !hlo_op_is(i->opcode, HLO_OP_IS_COLLECTIVE) && !hlo_instruction_is_nondeterministic(i) &&
           hlo_pass_may_replace(i);
}

// The value of a constant, or NULL. Elided constants, printed as {...}, look like constants but must not be computed
// with: their numbers are invented later.
static const HloLiteral *known_literal(const HloInstruction *i) {
    if (i->opcode != HLO_OP_CONSTANT || !hlo_shape_is_array(i->shape)) return NULL;
    const HloLiteral *literal = hlo_constant_literal(i);
    return literal && !literal->elided && literal->data ? literal : NULL;
}

// The number of elements that an instruction reads and writes.
static int64_t elements_touched(const HloInstruction *i) {
    int64_t total = hlo_shape_elements(i->shape);
    for (int64_t k = 0; k < i->operand_count; k++) total += hlo_shape_elements(i->operands[k]->shape);
    return total;
}

// The number of operations per element. For other ops SMALL bounds the work as well: a window may be much larger than
// its array.
static double steps_of_each(const HloInstruction *i) {
    double steps = 1;
    switch (i->opcode) {
        case HLO_OP_REDUCE_WINDOW:
        case HLO_OP_SELECT_AND_SCATTER: return hlo_window_elements(HLO_ATTRIBUTES(i, Window)->window);
        case HLO_OP_CONVOLUTION: {
            const HloConvolutionAttributes *attributes = HLO_ATTRIBUTES(i, Convolution);
            return hlo_window_elements(attributes->window) *
                   (double)i->operands[1]->shape->dims[attributes->labels->kernel_input_feature];
        }
        case HLO_OP_FFT: {  // quadratic for a prime length
            const HloInts lengths = HLO_ATTRIBUTES(i, Fft)->length;
            for (int64_t d = 0; d < lengths.count; d++) steps += (double)lengths.items[d];
            return steps;
        }
        default: return steps;
    }
}

// The number of operations of a called computation per element. Computations that call others are not analysed: they
// may run forever.
static double steps_of_calls(const HloInstruction *i) {
    double steps = 1;
    for (int32_t c = 0; c < i->called_count; c++) {
        for (const HloInstruction *inner = i->called[c]->first; inner; inner = inner->next)
            steps += inner->called_count ? (double)INFINITY : 1;
    }
    return steps;
}

// Linear ops may touch as many elements as the environment allows; dots, sorts and windows do more work than they touch
// elements, and the evaluator is slow: they get a smaller, fixed bound.
static bool is_small_enough(const HloInstruction *i, const HloPassEnv *env) {
    assert(env->fold_elements >= 0);
    int64_t touched = elements_touched(i);
    bool linear = hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE) || i->opcode == HLO_OP_BROADCAST ||
                  i->opcode == HLO_OP_RESHAPE || i->opcode == HLO_OP_TRANSPOSE || i->opcode == HLO_OP_SLICE ||
                  i->opcode == HLO_OP_CONCATENATE || i->opcode == HLO_OP_REVERSE ||
                  i->opcode == HLO_OP_BITCAST_CONVERT || i->opcode == HLO_OP_PAD;
    if (linear) return touched <= env->fold_elements;
    return touched <= SMALL && (double)touched * steps_of_each(i) * steps_of_calls(i) <= STEPS;
}

// Evaluates `i` on `operands` into `target` (of its shape). False if it cannot be evaluated.
static HloStatus evaluate(const HloInstruction *i, const HloLiteral *const *operands, HloLiteral *target, bool *done) {
    assert(i && target && done);
    HloLiteral *result = NULL;
    HloStatus status = hlo_evaluate_instruction(i, operands, NULL, &result);
    *done = !status;
    if (status) {
        if (hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED) return status;
        hlo_status_free(status);
        return HLO_SUCCESS;
    }
    memcpy(target->data, result->data, (size_t)hlo_shape_bytes(target->shape));
    hlo_literal_free(result);
    return HLO_SUCCESS;
}

// Makes a constant next to `like`; it takes the literal as it is, which lives in the module's arena.
static HloInstruction *constant_of(const HloInstruction *like, const HloLiteral *literal) {
    return hlo_pass_make(
        like, &(HloBuildRequest){.opcode = HLO_OP_CONSTANT, .attributes = &(HloConstantAttributes){literal}});
}

// The scalar constant that `i` is or repeats, or NULL.
static HloInstruction *repeated_scalar(HloInstruction *i) {
    if (i->opcode == HLO_OP_BROADCAST) i = i->operands[0];
    return i->shape->rank == 0 && known_literal(i) ? i : NULL;
}

// The value of an operand: a constant, or an array that repeats one, which is expanded in scratch memory.
static const HloLiteral *operand_value(HloInstruction *operand, const HloPassEnv *env) {
    const HloLiteral *known = known_literal(operand);
    const HloInstruction *scalar = known ? NULL : repeated_scalar(operand);
    if (!scalar) return known;
    const HloLiteral *value = known_literal(scalar);
    HloLiteral *array = hlo_literal_in_arena(env->scratch, hlo_shape_without_layout(env->scratch, operand->shape));
    const size_t bytes = (size_t)hlo_type_bytes(operand->shape->type);
    const int64_t count = hlo_shape_elements(operand->shape);
    for (int64_t i = 0; i < count; i++) memcpy((char *)array->data + (size_t)i * bytes, value->data, bytes);
    return array;
}

// Most instructions fail this test at their first operand.
static bool has_known_operands(const HloInstruction *i) {
    for (int64_t k = 0; k < i->operand_count; k++)
        if (!known_literal(i->operands[k]) && !repeated_scalar(i->operands[k])) return false;
    return i->operand_count > 0;
}

// If all operands repeat scalars, the result does too, and is not expanded.
static bool has_constant_array(const HloInstruction *i) {
    for (int64_t k = 0; k < i->operand_count; k++)
        if (known_literal(i->operands[k])) return true;
    return false;
}

// Folds an op whose operands are all constants into a constant of the whole result.
static HloStatus fold_arrays(HloInstruction *i, const HloPassEnv *env, bool *changed) {
    HloArena *arena = i->parent->module->arena;
    if (!has_constant_array(i) || !is_small_enough(i, env)) return HLO_SUCCESS;
    const HloLiteral **operands = HLO_ARENA_NEW(env->scratch, const HloLiteral *, i->operand_count);
    for (int64_t k = 0; k < i->operand_count; k++) operands[k] = operand_value(i->operands[k], env);
    HloLiteral *target = hlo_literal_in_arena(arena, hlo_shape_without_layout(arena, i->shape));
    bool done;
    HLO_TRY(evaluate(i, operands, target, &done));
    if (done) *changed |= hlo_pass_replace(i, constant_of(i, target));
    return HLO_SUCCESS;
}

// Folds elementwise ops on repeated scalars: applies the op to the scalars and repeats the result.
static HloStatus fold_scalars(HloInstruction *i, const HloPassEnv *env, bool *changed) {
    assert(changed);
    HloModule *module = i->parent->module;
    const HloLiteral **operands = HLO_ARENA_NEW(env->scratch, const HloLiteral *, i->operand_count);
    HloInstruction **scalars = HLO_ARENA_NEW(env->scratch, HloInstruction *, i->operand_count);
    if (i->shape->rank == 0 || !hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE)) return HLO_SUCCESS;
    for (int64_t k = 0; k < i->operand_count; k++) {
        scalars[k] = repeated_scalar(i->operands[k]);
        if (!scalars[k]) return HLO_SUCCESS;
        operands[k] = known_literal(scalars[k]);
    }
    const HloShape *scalar = hlo_shape_scalar(module->arena, i->shape->type);
    HloLiteral *target = hlo_literal_in_arena(module->arena, scalar);
    HloInstruction *once = hlo_instruction_clone(i->parent, i, scalar, scalars, i->operand_count);
    bool done;
    HloStatus status = evaluate(once, operands, target, &done);
    hlo_instruction_remove(once);
    HLO_TRY(status);
    if (!done) return HLO_SUCCESS;
    HloInstruction *value = constant_of(i, target);
    *changed |= hlo_pass_replace(i, hlo_pass_broadcast(i, value, hlo_shape_dims(i->shape), (HloInts){NULL, 0}));
    return HLO_SUCCESS;
}

// Tries the scalar form first: it folds arrays of any size, and leaves the repeated scalar to the rules that look for
// it.
static HloStatus fold(HloInstruction *i, const HloPassEnv *env, bool *changed) {
    if (!has_known_operands(i) || !may_fold(i) || (env->keep_products && is_rounded_by_machine(i))) return HLO_SUCCESS;
    HLO_TRY(fold_scalars(i, env, changed));
    return i->parent ? fold_arrays(i, env, changed) : HLO_SUCCESS;
}

HloStatus hlo_pass_constant_folding(HloModule *module, const HloPassEnv *env, bool *changed) {
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));) {
        HloArenaMark mark = hlo_arena_mark(env->scratch);
        HLO_TRY(fold(i, env, changed));
        hlo_arena_reset(env->scratch, mark);
    }
    return HLO_SUCCESS;
}
