// SPDX-License-Identifier: Apache-2.0
// Training steps. The step calls the computation of value and gradients, then updates each weight; the formulas are
// those of optax 0.2 (transforms _adam, _accumulation, _clipping).
#include "hlo/nn/optimizer.h"

#include <float.h>
#include <math.h>

#include "hlo/nn/internal.h"

static const struct {
    const char *name;
    int64_t slots;
    bool counts;
    double momentum, beta1, beta2, epsilon, weight_decay;
} kOptimizers[] = {
#define HLO_OPTIMIZER(name, text, slots, counts, momentum, beta1, beta2, epsilon, decay) \
    {text, slots, counts, momentum, beta1, beta2, epsilon, decay},
#include "hlo/nn/optimizers.def"
#undef HLO_OPTIMIZER
};

HloOptimizer hlo_optimizer(HloOptimizerKind kind) {
    return (HloOptimizer){.kind = kind,
                          .learning_rate = 1e-3,
                          .momentum = kOptimizers[kind].momentum,
                          .beta1 = kOptimizers[kind].beta1,
                          .beta2 = kOptimizers[kind].beta2,
                          .epsilon = kOptimizers[kind].epsilon,
                          .weight_decay = kOptimizers[kind].weight_decay};
}

const char *hlo_optimizer_name(HloOptimizerKind kind) {
    return kOptimizers[kind].name;
}

int64_t hlo_optimizer_slots(HloOptimizerKind kind) {
    return kOptimizers[kind].slots;
}

bool hlo_optimizer_counts_steps(HloOptimizerKind kind) {
    return kOptimizers[kind].counts;
}

// A step under construction. Lists are by weight; they live in the module's arena.
typedef struct Training {
    const HloComputation *loss;
    const HloOptimizer *optimizer;
    HloInts weights;  // parameter numbers
    HloComputation *gradient;
    HloBuilder *builder;
    HloInstruction **parameters, **old, **gradients;
    HloInstruction **slots[2];
    HloInstruction *count, *rate;
    HloInstruction **results;  // weights, slots, count: the state; then what the loss returned
    int64_t state_count, returned_count;
    HloInstruction *root;  // the tuple of the results
} Training;

// A scalar of another type, as an array like x.
static HloInstruction *scalar_like(HloBuilder *b, HloInstruction *scalar, const HloInstruction *x) {
    if (!scalar || !x) return NULL;
    if (scalar->shape->type != x->shape->type) scalar = hlo_build_convert(b, scalar, x->shape->type);
    return hlo_build_broadcast(b, scalar, hlo_build_dims(x), HLO_DIMS());
}

// ---- updates: the change that is subtracted from a weight, before the learning rate

// decay * old + (1 - decay) * x
static HloInstruction *moment(HloBuilder *b, HloInstruction *old, HloInstruction *x, double decay) {
    return hlo_build_add(b, hlo_build_with_number(b, hlo_build_mul, x, 1 - decay),
                         hlo_build_with_number(b, hlo_build_mul, old, decay));
}

// A moment that began at zero, over 1 - decay^steps.
static HloInstruction *corrected(const Training *step, HloInstruction *x, double decay) {
    HloBuilder *b = step->builder;
    HloInstruction *steps = hlo_build_convert(b, step->count, HLO_F32);
    HloInstruction *power = hlo_build_pow(b, hlo_build_scalar(b, HLO_F32, decay), steps);
    HloInstruction *part = hlo_build_sub(b, hlo_build_scalar(b, HLO_F32, 1), power);
    return hlo_build_div(b, x, scalar_like(b, part, x));
}

static HloInstruction *adam(Training *step, int64_t weight) {
    HloBuilder *b = step->builder;
    const HloOptimizer *o = step->optimizer;
    HloInstruction *gradient = step->gradients[weight], **slots[2] = {step->slots[0], step->slots[1]};
    slots[0][weight] = moment(b, slots[0][weight], gradient, o->beta1);
    slots[1][weight] = moment(b, slots[1][weight], hlo_build_mul(b, gradient, gradient), o->beta2);
    HloInstruction *mean = corrected(step, slots[0][weight], o->beta1);
    HloInstruction *deviation = hlo_build_sqrt(b, corrected(step, slots[1][weight], o->beta2));
    HloInstruction *update = hlo_build_div(b, mean, hlo_build_with_number(b, hlo_build_add, deviation, o->epsilon));
    if (o->kind != HLO_OPTIMIZER_ADAMW) return update;
    return hlo_build_add(b, update, hlo_build_with_number(b, hlo_build_mul, step->old[weight], o->weight_decay));
}

static HloInstruction *update_of(Training *step, int64_t weight) {
    HloInstruction *gradient = step->gradients[weight], **slots = step->slots[0];
    if (step->optimizer->kind == HLO_OPTIMIZER_SGD) return gradient;
    if (step->optimizer->kind != HLO_OPTIMIZER_MOMENTUM) return adam(step, weight);
    HloInstruction *past =
        hlo_build_with_number(step->builder, hlo_build_mul, slots[weight], step->optimizer->momentum);
    slots[weight] = hlo_build_add(step->builder, gradient, past);
    return slots[weight];
}

// Scales all gradients by clip_norm over their common norm where that is greater.
static void clip(Training *step) {
    HloBuilder *b = step->builder;
    HloInstruction *total = NULL;
    for (int64_t i = 0; i < step->weights.count; i++) {
        int64_t all[HLO_MAXIMUM_RANK];
        HloInstruction *g = step->gradients[i];
        if (!g) return;
        for (int64_t d = 0; d < g->shape->rank; d++) all[d] = d;
        HloInstruction *sum = hlo_build_convert(b, hlo_build_mul(b, g, g), HLO_F32);
        sum = hlo_build_reduce_op(b, HLO_OP_ADD, sum, (HloInts){all, g->shape->rank});
        total = total ? hlo_build_add(b, total, sum) : sum;
    }
    HloInstruction *norm = hlo_build_sqrt(b, total);
    HloInstruction *limit = hlo_build_scalar(b, HLO_F32, step->optimizer->clip_norm);
    HloInstruction *below = hlo_build_compare(b, norm, limit, HLO_ComparisonDirection_LT);
    for (int64_t i = 0; i < step->weights.count; i++) {
        HloInstruction *g = step->gradients[i];
        HloInstruction *scaled = hlo_build_div(b, g, scalar_like(b, norm, g));
        scaled = hlo_build_with_number(b, hlo_build_mul, scaled, step->optimizer->clip_norm);
        step->gradients[i] = hlo_build_select(b, below, g, scaled);
    }
}

// ---- building a step

static HloStatus check_number(const char *name, double number, double low, double high) {
    HLO_FAIL_IF(!(number >= low && number <= high), HLO_INVALID_ARGUMENT, "optimizer: %s is %g, not between %g and %g",
                name, number, low, high);
    return HLO_SUCCESS;
}

static HloStatus check(const HloComputation *loss, const HloOptimizer *o, HloInts weights) {
    const struct {
        const char *name;
        double number, high;
    } numbers[] = {{"the learning rate", o->learning_rate, DBL_MAX},
                   {"momentum", o->momentum, 1},
                   {"beta1", o->beta1, 1},
                   {"beta2", o->beta2, 1},
                   {"epsilon", o->epsilon, 1},
                   {"weight decay", o->weight_decay, 1},
                   {"the norm to clip to", o->clip_norm, DBL_MAX}};
    HLO_FAIL_IF((unsigned)o->kind >= HLO_OPTIMIZER_COUNT, HLO_INVALID_ARGUMENT, "there is no optimizer %d",
                (int)o->kind);
    for (size_t i = 0; i < HLO_COUNT_OF(numbers); i++)
        HLO_TRY(check_number(numbers[i].name, numbers[i].number, 0, numbers[i].high));
    for (int64_t i = 0; i < weights.count; i++) {
        const int64_t number = weights.items[i];
        if (number < 0 || number >= loss->parameters.count) continue;  // hlo_value_and_gradient() has named it
        HLO_FAIL_IF(hlo_shape_is_tuple(loss->parameters.items[number]->shape), HLO_INVALID_ARGUMENT,
                    "parameter %lld is a tuple: a training step takes its weights as arrays", (long long)number);
    }
    return HLO_SUCCESS;
}

static HloInstruction *add_parameter(Training *step, int64_t *next, const HloInstruction *like, const char *name) {
    HloInstruction *parameter = hlo_build_parameter_shape(step->builder, (*next)++, like->shape, name);
    return like->sharding ? hlo_build_with_sharding(step->builder, parameter, like->sharding) : parameter;
}

// The lists of a step, before its builder exists: memory that runs out jumps past everything that is not an arena's.
static HloStatus allocate(void *argument) {
    Training *step = argument;
    HloArena *arena = step->loss->module->arena;
    const int64_t weights = step->weights.count, slots = hlo_optimizer_slots(step->optimizer->kind);
    step->parameters = HLO_ARENA_NEW(arena, HloInstruction *, step->loss->parameters.count);
    step->old = HLO_ARENA_NEW(arena, HloInstruction *, weights);
    step->gradients = HLO_ARENA_NEW(arena, HloInstruction *, weights);
    for (int64_t s = 0; s < slots; s++) step->slots[s] = HLO_ARENA_NEW(arena, HloInstruction *, weights);
    step->state_count = weights * (1 + slots) + hlo_optimizer_counts_steps(step->optimizer->kind);
    step->returned_count = step->gradient->root->shape->element_count - weights;
    step->results = HLO_ARENA_NEW(arena, HloInstruction *, step->state_count + step->returned_count);
    return HLO_SUCCESS;
}

// Adds the parameters and the call of the gradients, which returns what the loss returns before them.
static void begin(Training *step) {
    HloBuilder *b = step->builder;
    HloInstruction *const *given = step->loss->parameters.items;
    const int64_t weights = step->weights.count;
    int64_t next = 0;
    for (int64_t i = 0; i < step->loss->parameters.count; i++)
        step->parameters[i] = add_parameter(step, &next, given[i], given[i]->name);
    for (int64_t i = 0; i < weights; i++) step->old[i] = step->parameters[step->weights.items[i]];
    for (int64_t s = 0; s < hlo_optimizer_slots(step->optimizer->kind); s++)
        for (int64_t i = 0; i < weights; i++)
            step->slots[s][i] = add_parameter(step, &next, given[step->weights.items[i]], "slot");
    if (hlo_optimizer_counts_steps(step->optimizer->kind))
        step->count = hlo_build_parameter(b, next++, HLO_S32, HLO_DIMS(), "count");
    step->rate = step->optimizer->learning_rate_is_parameter
                     ? hlo_build_parameter(b, next, HLO_F32, HLO_DIMS(), "learning_rate")
                     : hlo_build_scalar(b, HLO_F32, step->optimizer->learning_rate);
    HloInstruction *both = hlo_build_call(b, step->parameters, step->loss->parameters.count, step->gradient);
    for (int64_t i = 0; i < step->returned_count; i++) step->results[step->state_count + i] = hlo_build_get(b, both, i);
    for (int64_t i = 0; i < weights; i++) step->gradients[i] = hlo_build_get(b, both, step->returned_count + i);
}

static HloInstruction *with_sharding_of(HloBuilder *b, HloInstruction *x, const HloInstruction *weight) {
    return x && weight && weight->sharding ? hlo_build_with_sharding(b, x, weight->sharding) : x;
}

static void update(Training *step) {
    HloBuilder *b = step->builder;
    const int64_t weights = step->weights.count, slots = hlo_optimizer_slots(step->optimizer->kind);
    if (step->optimizer->clip_norm > 0) clip(step);
    if (step->count) step->count = hlo_build_add(b, step->count, hlo_build_scalar(b, HLO_S32, 1));
    for (int64_t i = 0; i < weights; i++) {
        HloInstruction *change = update_of(step, i);
        change = hlo_build_mul(b, change, scalar_like(b, step->rate, change));
        step->results[i] = with_sharding_of(b, hlo_build_sub(b, step->old[i], change), step->old[i]);
    }
    for (int64_t s = 0; s < slots; s++)
        for (int64_t i = 0; i < weights; i++)
            step->results[(1 + s) * weights + i] = with_sharding_of(b, step->slots[s][i], step->old[i]);
    if (step->count) step->results[(1 + slots) * weights] = step->count;
}

// The numbers of the weights; the list of none means parameter 0, as for gradients.
static HloInts weights_of(const HloTrainingOptions *options) {
    static const int64_t kFirst = 0;
    return options->gradient.wrt.count ? options->gradient.wrt : (HloInts){&kFirst, 1};
}

// Gives the result what its elements are annotated with: annotations of elements say nothing about a program's results.
static HloStatus annotate(void *argument) {
    const Training *step = argument;
    HloArena *arena = step->loss->module->arena;
    const int64_t count = step->state_count + step->returned_count;
    const HloSharding *open = hlo_sharding_simple(arena, HLO_SHARDING_UNKNOWN);
    const HloSharding **shardings = HLO_ARENA_NEW(arena, const HloSharding *, count);
    bool any = false;
    for (int64_t i = 0; i < count; i++) {
        shardings[i] = step->results[i]->sharding ? step->results[i]->sharding : open;
        any |= shardings[i] != open;
    }
    if (any) step->root->sharding = hlo_sharding_tuple(arena, shardings, count);
    return HLO_SUCCESS;
}

HloStatus hlo_training_step(HloComputation *loss, const HloTrainingOptions *options, HloComputation **result) {
    Training step = {.loss = loss, .optimizer = &options->optimizer, .weights = weights_of(options)};
    HLO_TRY(check(loss, &options->optimizer, step.weights));
    HLO_TRY(hlo_value_and_gradient(loss, &options->gradient, &step.gradient));
    HLO_TRY(hlo_protect(allocate, &step));
    step.builder = hlo_builder_new(loss->module, "training_step");
    HLO_FAIL_IF(!step.builder, HLO_RESOURCE_EXHAUSTED, "no memory for a training step");
    begin(&step);
    update(&step);
    step.root = hlo_build_tuple(step.builder, step.results, step.state_count + step.returned_count);
    HloStatus status = step.root ? hlo_protect(annotate, &step) : HLO_SUCCESS;
    if (status) hlo_builder_fail(step.builder, status);
    return hlo_builder_finish(step.builder, step.root, result);
}

typedef struct Entry {
    HloModule *module;
    HloComputation *step;
    const HloTrainingOptions *options;
} Entry;

static HloStatus make_entry(void *argument) {
    const Entry *entry = argument;
    HloArena *arena = entry->module->arena;
    const HloOptimizer *optimizer = &entry->options->optimizer;
    const HloInts weights = weights_of(entry->options);
    const int64_t slots =
        hlo_optimizer_slots(optimizer->kind) * weights.count + hlo_optimizer_counts_steps(optimizer->kind);
    const int64_t given = entry->step->parameters.count - slots - optimizer->learning_rate_is_parameter;
    HloAlias *aliases = HLO_ARENA_NEW(arena, HloAlias, weights.count + slots);
    for (int64_t i = 0; i < weights.count + slots; i++) {
        const int64_t operand = i < weights.count ? weights.items[i] : given + i - weights.count;
        aliases[i] = (HloAlias){.output_index = {hlo_arena_copy(arena, &i, sizeof i), 1}, .operand = operand};
    }
    hlo_make_entry(entry->module, entry->step);
    entry->module->aliases = (HloAliases){aliases, weights.count + slots};
    return HLO_SUCCESS;
}

HloStatus hlo_training_step_make_entry(HloModule *module, HloComputation *step, const HloTrainingOptions *options) {
    return hlo_protect(make_entry, &(Entry){module, step, options});
}
