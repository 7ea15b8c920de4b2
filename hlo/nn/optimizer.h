// SPDX-License-Identifier: Apache-2.0
// Optimisers: from the computation of a loss to that of a whole training step.
//
//     HloComputation *loss = ...;            // f32[] loss(weights..., batch...), see hlo/ir/builder.h
//     HloTrainingOptions options = {.gradient = {.wrt = HLO_DIMS(0, 1)}, .optimizer =
//     hlo_optimizer(HLO_OPTIMIZER_ADAM)}; options.optimizer.learning_rate = 3e-4; HloComputation *step; status =
//     hlo_training_step(loss, &options, &step); status = hlo_training_step_make_entry(module, step, &options);
//
// Parameters of the step: those of the loss, then the optimiser's state: for each slot an array for each weight, of its
// shape (all first moments, then all second ones), then, for adam and adamw, the number of steps so far, s32[]; then
// the learning rate, f32[], if it is a parameter. The state of the first step is zeros. Results: the new weights, the
// new state in the same order, the loss, and what else the loss returned.
//
// Updates are those of optax: sgd, trace (momentum), adam, adamw, clip_by_global_norm, computed in the type of each
// weight. New weights and slots have the shardings of the weights, as results too.
//
// One thread at a time may work on a module.
//
// Stability: experimental.
#ifndef MESHLO_HLO_NN_OPTIMIZER_H_
#define MESHLO_HLO_NN_OPTIMIZER_H_

#include "hlo/transform/transform.h"

HLO_BEGIN_C

typedef enum HloOptimizerKind {
#define HLO_OPTIMIZER(name, text, slots, counts, momentum, beta1, beta2, epsilon, decay) HLO_OPTIMIZER_##name,
#include "hlo/nn/optimizers.def"
#undef HLO_OPTIMIZER
    HLO_OPTIMIZER_COUNT
} HloOptimizerKind;

typedef struct HloOptimizer {
    HloOptimizerKind kind;
    double learning_rate;
    bool learning_rate_is_parameter;  // then learning_rate is ignored
    double momentum;                  // of MOMENTUM
    double beta1, beta2, epsilon;     // of ADAM and ADAMW
    double weight_decay;              // of ADAMW, decoupled: Loshchilov and Hutter, arXiv 1711.05101
    double clip_norm;                 // gradients are scaled down to this norm of all of them together; 0: never
} HloOptimizer;

// The optimiser with its usual numbers, and a learning rate of 0.001. Any thread.
HLO_EXPORT HloOptimizer hlo_optimizer(HloOptimizerKind kind);
// Its name: "sgd", "momentum", "adam", "adamw". Static storage, any thread.
HLO_EXPORT const char *hlo_optimizer_name(HloOptimizerKind kind);
// The number of arrays of state for each weight. Any thread.
HLO_EXPORT int64_t hlo_optimizer_slots(HloOptimizerKind kind);
// True if the state has the number of steps. Any thread.
HLO_EXPORT bool hlo_optimizer_counts_steps(HloOptimizerKind kind);

typedef struct HloTrainingOptions {
    HloGradientOptions gradient;  // the weights are the parameters in `wrt`: arrays, not tuples
    HloOptimizer optimizer;
} HloTrainingOptions;

// Adds the computation of a step to the module of `loss` and sets *step to it. Errors as hlo_value_and_gradient();
// INVALID_ARGUMENT for weights that are tuples and numbers of the optimiser that are not finite or out of range.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_training_step(HloComputation *loss, const HloTrainingOptions *options,
                                                     HloComputation **step);
// Makes `step`, made with the same options, the module's entry, and donates the weights and the state: each new array
// takes over the memory of the old one. RESOURCE_EXHAUSTED.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_training_step_make_entry(HloModule *module, HloComputation *step,
                                                                const HloTrainingOptions *options);

HLO_END_C

#endif
