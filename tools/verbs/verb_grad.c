// SPDX-License-Identifier: Apache-2.0
// meshlo grad: the derivative of a program, as a program; with --optimizer, a training step.

#include "hlo/nn/optimizer.h"
#include "hlo/stablehlo/stablehlo.h"
#include "tools/machine.h"
#include "tools/program.h"

static const CliOption kOptions[] = {
    {"wrt", CLI_TEXT, "0,2,…", "The parameters to differentiate by (default: 0)."},
    // These values are in the order of kModes, HloRemat and HloOptimizerKind.
    {"mode", CLI_TEXT, "value-and-grad|grad|vjp|jvp",
     "value-and-grad (default), grad, vjp (a cotangent for each result as a parameter) or jvp (a tangent for each "
     "parameter of --wrt)."},
    {"has-aux", CLI_FLAG, NULL, "Differentiate the first result only and pass the others through."},
    {"remat", CLI_TEXT, "everything|nothing|dots|named|offload-dots|offload-named",
     "What the backward part may use of the forward part: everything (default), nothing, dots or named; it computes "
     "the rest again, in loops iteration by iteration. offload-dots (those without batch dimensions) and offload-named "
     "keep it in host memory."},
    {"optimizer", CLI_TEXT, "sgd|momentum|adam|adamw",
     "Make a training step: it takes the optimiser's state after the program's parameters, and returns the new "
     "parameters of --wrt, the new state and the loss; the old ones are donated."},
    {"learning-rate", CLI_NUMBER, "R", "Of the optimiser (default: 0.001)."},
    {"learning-rate-parameter", CLI_FLAG, NULL, "Take the learning rate as the last parameter instead, f32[]."},
    {"weight-decay", CLI_NUMBER, "R", "Of adamw (default: 0.0001)."},
    {"clip-norm", CLI_NUMBER, "N", "Scale the gradients down to this norm of all of them together."},
    {"o", CLI_OUTPUT, "OUT", "Write the program to OUT."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

typedef HloStatus Transform(HloComputation *computation, const HloGradientOptions *options, HloComputation **result);

// In the order of --mode.
static Transform *const kModes[] = {hlo_value_and_gradient, hlo_gradient, hlo_vjp, hlo_jvp};

static HloStatus read_wrt(CliContext *context, HloInts *wrt) {
    HloInt64Vector numbers = {0};
    HLO_TRY(cli_numbers(context, "wrt", false, "parameter numbers", &numbers));
    if (!numbers.count) hlo_vector_push(context->arena, &numbers, 0);
    *wrt = (HloInts){numbers.items, numbers.count};
    return HLO_SUCCESS;
}

// Options of the optimiser without one would do nothing, and a step returns the loss and not a derivative.
static HloStatus read_optimizer(CliContext *context, HloOptimizer *optimizer, bool *given) {
    static const char *const kOfOptimizer[] = {"learning-rate", "learning-rate-parameter", "weight-decay", "clip-norm"};
    int64_t kind;
    *given = cli_text(context, "optimizer") != NULL;
    for (size_t i = 0; i < HLO_COUNT_OF(kOfOptimizer) && !*given; ++i) {
        if (cli_flag(context, kOfOptimizer[i]))
            return cli_usage_error(context, "--%s needs --optimizer", kOfOptimizer[i]);
    }
    if (!*given) return HLO_SUCCESS;
    if (cli_text(context, "mode"))
        return cli_usage_error(context, "--optimizer makes a training step: it excludes --mode");
    HLO_TRY(cli_choice(context, "optimizer", &kind));
    *optimizer = hlo_optimizer((HloOptimizerKind)kind);
    if (cli_flag(context, "weight-decay") && kind != HLO_OPTIMIZER_ADAMW)
        return cli_usage_error(context, "--weight-decay is an option of adamw");
    optimizer->learning_rate = cli_number(context, "learning-rate", optimizer->learning_rate);
    optimizer->learning_rate_is_parameter = cli_flag(context, "learning-rate-parameter");
    optimizer->weight_decay = cli_number(context, "weight-decay", optimizer->weight_decay);
    optimizer->clip_norm = cli_number(context, "clip-norm", 0);
    if (optimizer->learning_rate_is_parameter && cli_flag(context, "learning-rate"))
        return cli_usage_error(context, "--learning-rate and --learning-rate-parameter exclude each other");
    return HLO_SUCCESS;
}

static HloStatus write_step(CliContext *context, HloModule *module, const HloTrainingOptions *options) {
    HloComputation *step = NULL;
    HLO_TRY(hlo_training_step(module->entry, options, &step));
    HLO_TRY(hlo_training_step_make_entry(module, step, options));
    return cli_write_entry(context, module);
}

static HloStatus run_grad(CliContext *context) {
    HloGradientOptions options = {.has_aux = cli_flag(context, "has-aux")};
    HloTrainingOptions training = {0};
    bool trains;
    int64_t mode, remat;
    HloModule *module = NULL;
    HloComputation *result = NULL;
    HLO_TRY(read_wrt(context, &options.wrt));
    HLO_TRY(cli_choice(context, "mode", &mode));
    HLO_TRY(cli_choice(context, "remat", &remat));
    options.remat = (HloRemat)remat;
    HLO_TRY(read_optimizer(context, &training.optimizer, &trains));
    training.gradient = options;
    HLO_TRY(cli_program_load(context, context->arguments.items[0], &module));
    cli_progress(context, "differentiating");
    HloStatus status = hlo_module_tile_shardy(module);
    if (!status)
        status = trains ? write_step(context, module, &training) : kModes[mode](module->entry, &options, &result);
    if (!status && !trains) status = cli_write_transformed(context, module, result);
    hlo_module_free(module);
    return status;
}

const CliVerb cli_verb_grad = {
    .name = "grad",
    .arguments = "FILE",
    .summary = "Differentiate a program and print the program of its gradient.",
    .description =
        "The result is a tuple: the leaves of the program's result, then for each leaf of each parameter of --wrt the "
        "gradient of\nthe first result, which must be a floating-point number. Values, ties and complex numbers follow "
        "jax.grad. The\nprogram of a gradient is a program: it can be sharded, run and differentiated again.",
    .examples =
        "meshlo grad loss.mlir --wrt 0,1 -o gradient.hlo\nmeshlo grad loss.mlir --wrt 0,1 --optimizer adam -o "
        "step.hlo\nmeshlo grad loss.mlir --has-aux --remat dots | meshlo run -\n"
        "meshlo grad model.mlir --mode jvp --wrt 2",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&kTable, &cli_program_options},
    .run = run_grad,
};
