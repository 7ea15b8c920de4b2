// SPDX-License-Identifier: Apache-2.0
// The transforms of whole computations: parameters, results, and the two walks in between.
#include <assert.h>

#include "hlo/analysis/calls.h"
#include "hlo/transform/internal.h"
#include "hlo/transform/remat.h"

typedef enum Mode { GRADIENT, VALUE_AND_GRADIENT, VJP, JVP } Mode;

typedef struct Derive {
    Mode mode;
    HloComputation *from;
    const HloGradientOptions *options;
    HloInts wrt;
    HloArena *scratch;
    HloJvp jvp;
    HloJvpMemory memory;
    HloInstruction *root;
    HloComputation *result;
} Derive;

static int64_t leaf_count(const HloInstruction *i) {
    return hlo_shape_leaf_count(i->shape);
}

// ---------------------------------------------------------------------------------------------------------------------
// Checks

static HloStatus check_parameter(const HloComputation *from, HloInts wrt, int64_t index) {
    int64_t number = wrt.items[index];
    if (number < 0 || number >= hlo_parameter_count(from))
        return hlo_status_at_instruction(
            hlo_error(HLO_INVALID_ARGUMENT, "there is no parameter %lld to differentiate by: %s has %lld",
                      (long long)number, from->name, (long long)hlo_parameter_count(from)),
            from->root);
    const HloInstruction *parameter = from->parameters.items[number];
    for (int64_t i = 0; i < index; i++)
        if (wrt.items[i] == number)
            return hlo_status_at_instruction(
                hlo_error(HLO_INVALID_ARGUMENT, "parameter %lld, %s, is named twice to differentiate by",
                          (long long)number, parameter->name),
                parameter);
    for (int64_t k = 0; k < leaf_count(parameter); k++) {
        HloType type = hlo_shape_leaf(parameter->shape, k)->type;
        if (!hlo_transform_is_continuous(type))
            return hlo_status_at_instruction(
                hlo_error(HLO_INVALID_ARGUMENT, "parameter %lld, %s, cannot be differentiated by: its type is %s",
                          (long long)number, parameter->name, hlo_type_text(type)),
                parameter);
    }
    return HLO_SUCCESS;
}

// A gradient is that of a real number.
static HloStatus check_is_number(const HloComputation *from, const HloShape *result) {
    HloText shape = {0};
    HloStatus status = HLO_SUCCESS;
    hlo_shape_print(&shape, result, false);
    const char *text = shape.data ? shape.data : "";
    if (!hlo_type_is_float(result->type))
        status = hlo_error(HLO_INVALID_ARGUMENT, "the first result of %s is %s: a gradient is that of a real number",
                           from->name, text);
    else if (result->rank != 0)
        status = hlo_error(HLO_INVALID_ARGUMENT,
                           "the first result of %s is %s: a gradient is that of one number (of an array, the modes vjp "
                           "and jvp take cotangents and tangents)",
                           from->name, text);
    hlo_text_free(&shape);
    return status;
}

static HloStatus check_result(const Derive *d) {
    const HloInstruction *root = d->from->root;
    int64_t leaves = leaf_count(root);
    bool aux = d->options->has_aux, reverse = d->mode == GRADIENT || d->mode == VALUE_AND_GRADIENT;
    HloStatus status = HLO_SUCCESS;
    if (leaves == 0)
        status = hlo_error(HLO_INVALID_ARGUMENT, "%s has no result to differentiate", d->from->name);
    else if (reverse && !aux && leaves > 1)
        status = hlo_error(HLO_INVALID_ARGUMENT,
                           "%s has %lld results: a gradient is that of one number, and the others need has_aux",
                           d->from->name, (long long)leaves);
    else if (reverse)
        status = check_is_number(d->from, hlo_shape_leaf(root->shape, 0));
    return hlo_status_at_instruction(status, root);
}

static HloStatus check_options(const HloGradientOptions *options) {
    HLO_FAIL_IF((unsigned)options->remat > HLO_REMAT_OFFLOAD_NAMED, HLO_INVALID_ARGUMENT,
                "there is no rematerialisation policy %d", (int)options->remat);
    for (int64_t i = 0; i < options->rule_count; i++) {
        const HloDerivativeRule *rule = &options->rules[i];
        HLO_FAIL_IF(!rule->computation || (!rule->jvp && (!rule->forward || !rule->backward)), HLO_INVALID_ARGUMENT,
                    "derivative rule %lld needs a computation and jvp, or forward and backward", (long long)i);
    }
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// The new computation

static HloInstruction *copy_parameter(HloJvp *j, const HloInstruction *parameter, int64_t number) {
    HloInstruction *copy = hlo_build_parameter_shape(j->b, number, parameter->shape, parameter->name);
    if (copy) hlo_instruction_copy_annotations(copy, parameter);
    return copy;
}

// Binds the parameters; those of wrt get tangents: parameters from `number` on in forward mode, seeds in reverse.
static void bind_parameters(Derive *d, HloInstruction ***tangents) {
    HloJvp *j = &d->jvp;
    int64_t number = hlo_parameter_count(d->from);
    for (int64_t i = 0; i < hlo_parameter_count(d->from); i++)
        hlo_jvp_bind(j, d->from->parameters.items[i], copy_parameter(j, d->from->parameters.items[i], i), NULL);
    for (int64_t i = 0; i < d->wrt.count && !j->b->status; i++) {
        const HloInstruction *parameter = d->from->parameters.items[d->wrt.items[i]];
        tangents[i] = HLO_ARENA_NEW(d->scratch, HloInstruction *, leaf_count(parameter) + 1);
        for (int64_t k = 0; k < leaf_count(parameter); k++) {
            const HloShape *shape = hlo_shape_leaf(parameter->shape, k);
            HloInstruction *tangent =
                d->mode == JVP ? hlo_build_parameter_shape(j->b, number++, shape, "tangent") : hlo_jvp_seed(j, shape);
            if (tangent && !hlo_shape_is_tuple(parameter->shape)) tangent->sharding = parameter->sharding;
            tangents[i][k] = tangent;
        }
        hlo_jvp_bind(j, parameter, hlo_jvp_primal_of(j, parameter), tangents[i]);
    }
}

// The cotangent of leaf `k` of the result; NULL for zero.
static HloInstruction *cotangent_of(Derive *d, const HloShape *shape, int64_t k, int64_t *number) {
    if (!hlo_transform_is_continuous(shape->type) || (d->options->has_aux && k > 0)) return NULL;
    if (d->mode == VJP) return hlo_build_parameter_shape(d->jvp.b, (*number)++, shape, "cotangent");
    return hlo_build_scalar(d->jvp.b, shape->type, 1);
}

// Appends the gradients to `results`.
static void transpose_all(Derive *d, HloInstruction ***seeds, HloInstruction *const *tangents, int64_t leaves,
                          HloInstructionVector *results) {
    HloBuilder *b = d->jvp.b;
    HloTransposer t = {.b = b, .scratch = d->scratch, .jvp = &d->jvp, .is_inline = true};
    int64_t number = hlo_parameter_count(d->from);
    const HloInstruction *last = b->computation->last;
    hlo_transposer_begin(&t);
    for (int64_t k = 0; k < leaves && !b->status; k++) {
        HloInstruction *cotangent = cotangent_of(d, hlo_shape_leaf(d->from->root->shape, k), k, &number);
        if (tangents[k]) hlo_transposer_add(&t, tangents[k], cotangent);
    }
    hlo_transposer_run(&t);
    for (int64_t i = 0; i < d->wrt.count && !b->status; i++) {
        const HloInstruction *parameter = d->from->parameters.items[d->wrt.items[i]];
        for (int64_t k = 0; k < leaf_count(parameter); k++) {
            HloInstruction *gradient = hlo_transposer_cotangent(&t, seeds[i][k]);
            if (!gradient) gradient = hlo_transform_zeros(b, hlo_shape_leaf(parameter->shape, k));
            if (gradient && !hlo_shape_is_tuple(parameter->shape) && !gradient->sharding &&
                !hlo_is(gradient, HLO_OP_PARAMETER))
                gradient->sharding = parameter->sharding;
            hlo_vector_push(d->scratch, results, gradient);
        }
    }
    if (b->status) return;
    hlo_transposer_remove_linear(&t);
    hlo_transform_rematerialise(b, d->scratch, d->options, last);
}

static HloStatus derive_body(void *argument) {
    Derive *d = argument;
    HloJvp *j = &d->jvp;
    int64_t leaves = leaf_count(d->from->root);
    HloInstruction ***seeds = HLO_ARENA_NEW(d->scratch, HloInstruction **, d->wrt.count);
    HloInstruction **values = HLO_ARENA_NEW(d->scratch, HloInstruction *, leaves + 1), *root = NULL;
    HloInstruction **tangents = HLO_ARENA_NEW(d->scratch, HloInstruction *, leaves + 1);
    HloInstructionVector results = {0};
    bind_parameters(d, seeds);
    bool *needed = HLO_ARENA_NEW(d->scratch, bool, leaves + 1);
    for (int64_t k = 0; k < leaves; k++) needed[k] = d->mode == JVP || !d->options->has_aux || k == 0;
    if (!j->b->status) hlo_jvp_walk(j, d->from, needed, &root, tangents);
    if (j->b->status) return hlo_transform_status(j->b);
    hlo_transform_leaves(j->b, root, values);
    for (int64_t k = d->mode == GRADIENT ? 1 : 0; k < leaves; k++) hlo_vector_push(d->scratch, &results, values[k]);
    for (int64_t k = 0; k < leaves && d->mode == JVP; k++) {
        const HloShape *shape = hlo_shape_leaf(d->from->root->shape, k);
        if (!hlo_transform_is_continuous(shape->type)) continue;
        hlo_vector_push(d->scratch, &results, tangents[k] ? tangents[k] : hlo_transform_zeros(j->b, shape));
    }
    if (d->mode != JVP) transpose_all(d, seeds, tangents, leaves, &results);
    j->b->metadata = NULL;
    d->root = hlo_build_tuple(j->b, results.items, results.count);
    return hlo_transform_status(j->b);
}

static HloStatus derive(void *argument) {
    Derive *d = argument;
    static const int64_t FIRST[] = {0};
    static const char *const SUFFIXES[] = {"gradient", "value_and_gradient", "vjp", "jvp"};
    d->scratch = hlo_arena_scratch_new();
    d->wrt = d->options->wrt.count ? d->options->wrt : (HloInts){FIRST, 1};
    HloStatus status = check_result(d);
    for (int64_t i = 0; i < d->wrt.count && !status; i++) status = check_parameter(d->from, d->wrt, i);
    if (!status) status = check_options(d->options);
    if (!status) status = hlo_check_call_copies(d->from->module, d->scratch);
    if (!status) {
        d->jvp = (HloJvp){.scratch = d->scratch,
                          .memory = &d->memory,
                          .rules = d->options->rules,
                          .rule_count = d->options->rule_count,
                          .remat = d->options->remat,
                          .split = d->mode != JVP};
        hlo_jvp_find_transfers(d->scratch, d->from->module, &d->memory.transfers);
        const char *name = hlo_arena_format(d->scratch, "%s_of_%s", SUFFIXES[d->mode], d->from->name);
        status = hlo_transform_build(d->from->module, name, derive_body, d, &d->jvp.b, &d->root, &d->result);
    }
    if (!status) hlo_transform_tidy(d->result, d->scratch);
    hlo_arena_free(d->scratch);
    return status;
}

static HloStatus transform(Mode mode, HloComputation *computation, const HloGradientOptions *options,
                           HloComputation **result) {
    static const HloGradientOptions DEFAULTS;
    assert(computation && result);
    Derive d = {.mode = mode, .from = computation, .options = options ? options : &DEFAULTS};
    HloStatus status = hlo_protect(derive, &d);
    *result = status ? NULL : d.result;
    return status;
}

HloStatus hlo_value_and_gradient(HloComputation *computation, const HloGradientOptions *options,
                                 HloComputation **result) {
    return transform(VALUE_AND_GRADIENT, computation, options, result);
}

HloStatus hlo_gradient(HloComputation *computation, const HloGradientOptions *options, HloComputation **result) {
    return transform(GRADIENT, computation, options, result);
}

HloStatus hlo_vjp(HloComputation *computation, const HloGradientOptions *options, HloComputation **result) {
    return transform(VJP, computation, options, result);
}

HloStatus hlo_jvp(HloComputation *computation, const HloGradientOptions *options, HloComputation **result) {
    return transform(JVP, computation, options, result);
}
