// SPDX-License-Identifier: Apache-2.0
// The network of JAX's and torchax's tutorials on distributed arrays, in C: the loss is written, its gradient is not.
// Trained first with the batch over eight TPU cores, then with the batch over four and the features over two.
//
//     network_training [N]     batch and widths (default 512). At 8192, the documents' size, the first loss is 23.4688,
//                              where they print 23.4695; that takes some 20 GB and minutes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "example.h"

enum { kLayers = 4, kParameters = 2 * kLayers, kArguments = kParameters + 2, kSteps = 5 };

static const SpmdMeshAxis kData[] = {{"batch", 8}}, kDataModel[] = {{"batch", 4}, {"model", 2}};
// Arguments: weight and bias of each layer, inputs, targets. Results of the step: new weights and biases, the loss.
static const char *const kDataShards[] = {"p8=batch,-", "p9=batch,-"};
static const char *const kDataModelShards[] = {"p8=batch,-", "p9=batch,-", "p2=-,model", "p3=model",
                                               "p4=model,-", "r2=-,model", "r3=model",   "r4=model,-"};

typedef struct Network {
    int64_t batch;
    int64_t widths[kLayers + 1];
} Network;

// ---- the programs

// Weights and biases, inputs, targets, drawn from key(0) as the documents draw them.
static HloStatus build_model(HloModule *module, const Network *network) {
    const HloRandomForm form = HLO_RANDOM_ORIGINAL;
    HloBuilder *b = hlo_builder_new(module, "init_model");
    HloInstruction *results[kArguments];
    HloInstruction *keys = hlo_random_split(b, form, hlo_random_key(b, 0), kLayers + 1);
    for (int64_t i = 0; i < kLayers; i++) {
        int64_t inputs = network->widths[i], outputs = network->widths[i + 1];
        HloInstruction *pair = hlo_random_split(b, form, hlo_random_row(b, keys, i + 1), 2);
        HloInstruction *w = hlo_random_normal(b, form, hlo_random_row(b, pair, 0), HLO_F32, HLO_DIMS(inputs, outputs));
        results[2 * i] = hlo_build_div(b, w, hlo_build_splat(b, HLO_F32, HLO_DIMS(inputs, outputs), sqrt(inputs)));
        results[2 * i + 1] = hlo_random_normal(b, form, hlo_random_row(b, pair, 1), HLO_F32, HLO_DIMS(outputs));
    }
    HloInstruction *data = hlo_random_split(b, form, hlo_random_row(b, keys, 0), 3);
    for (int64_t i = 0; i < 2; i++)
        results[kParameters + i] = hlo_random_normal(b, form, hlo_random_row(b, data, i + 1), HLO_F32,
                                                     HLO_DIMS(network->batch, network->widths[i ? kLayers : 0]));
    return hlo_builder_finish_entry(b, hlo_build_tuple(b, results, kArguments));
}

// Appends the parameters of the loss: weight and bias of each layer, inputs, targets.
static void add_parameters(HloBuilder *b, const Network *network, HloInstruction *parameters[kArguments]) {
    for (int64_t i = 0; i < kLayers; i++) {
        HloInts sizes = HLO_DIMS(network->widths[i], network->widths[i + 1]);
        parameters[2 * i] = hlo_build_parameter(b, 2 * i, HLO_F32, sizes, "w");
        parameters[2 * i + 1] = hlo_build_parameter(b, 2 * i + 1, HLO_F32, HLO_DIMS(sizes.items[1]), "b");
    }
    for (int64_t i = 0; i < 2; i++)
        parameters[kParameters + i] =
            hlo_build_parameter(b, kParameters + i, HLO_F32, HLO_DIMS(network->batch, network->widths[i ? kLayers : 0]),
                                i ? "targets" : "inputs");
}

// mean(sum((predict(inputs) - targets)², axis=1))
static HloStatus build_loss(HloModule *module, const Network *network, HloComputation **computation) {
    HloBuilder *b = hlo_builder_new(module, "loss");
    HloInstruction *parameters[kArguments];
    add_parameters(b, network, parameters);
    HloInstruction *activations = parameters[kParameters], *sums = NULL;
    for (int64_t i = 0; i < kLayers; i++) {
        HLO_AT(b);
        HloInts sizes = HLO_DIMS(network->batch, network->widths[i + 1]);
        HloInstruction *bias = hlo_build_broadcast(b, parameters[2 * i + 1], sizes, HLO_DIMS(1));
        sums = hlo_build_add(b, hlo_build_matmul(b, activations, parameters[2 * i]), bias);
        activations = hlo_build_max(b, sums, hlo_build_splat(b, HLO_F32, sizes, 0));
    }
    HLO_AT(b);
    HloInstruction *error = hlo_build_sub(b, sums, parameters[kParameters + 1]);
    HloInstruction *total = hlo_build_reduce_op(b, HLO_OP_ADD, hlo_build_mul(b, error, error), HLO_DIMS(0, 1));
    HloInstruction *scale = hlo_build_scalar(b, HLO_F32, 1.0 / (double)network->batch);
    return hlo_builder_finish(b, hlo_build_mul(b, total, scale), computation);
}

// One step of gradient descent on the loss.
static HloStatus build_step(HloModule *module, const Network *network) {
    const double rate = 1e-5;
    HloComputation *loss = NULL, *gradient = NULL;
    HLO_TRY(build_loss(module, network, &loss));
    HLO_TRY(hlo_value_and_gradient(loss, &(HloGradientOptions){.wrt = HLO_DIMS(0, 1, 2, 3, 4, 5, 6, 7)}, &gradient));
    HloBuilder *b = hlo_builder_new(module, "step");
    HloInstruction *parameters[kArguments], *results[kParameters + 1];
    add_parameters(b, network, parameters);
    HloInstruction *both = hlo_build_call(b, parameters, kArguments, gradient);  // the loss, then the slopes
    for (int64_t i = 0; i < kParameters; i++) {
        HLO_AT(b);
        HloInstruction *slope = hlo_build_get(b, both, 1 + i);
        results[i] =
            hlo_build_sub(b, parameters[i], hlo_build_mul(b, hlo_build_splat_like(b, parameters[i], rate), slope));
    }
    results[kParameters] = hlo_build_get(b, both, 0);
    return hlo_builder_finish_entry(b, hlo_build_tuple(b, results, kParameters + 1));
}

typedef HloStatus Build(HloModule *module, const Network *network);

static HloStatus new_program(TargetClient *client, const char *name, Build *build, const Network *network,
                             const SpmdOptions *spmd, TargetProgram **program) {
    HloModule *module = hlo_module_new(name);
    HLO_FAIL_IF(!module, HLO_RESOURCE_EXHAUSTED, "out of memory");
    TargetProgramOptions options = {.spmd = *spmd};
    HloStatus status = build(module, network);
    if (!status) status = target_program_new(client, module, &options, program);
    hlo_module_free(module);
    return status;
}

// ---- training

// Some steps from `state` (parameters, inputs, targets), which then holds the new parameters.
static HloStatus train(TargetProgram *step, HloLiteral *state[kArguments], bool draw) {
    TargetArray *arrays[kArguments] = {0}, *results[kParameters + 1];
    for (int64_t i = 0; i < kArguments; i++) HLO_TRY(target_program_place(step, i, state[i], &arrays[i]));
    for (int s = 0; s < kSteps; s++) {
        HloLiteral *loss = NULL;
        HLO_TRY(target_program_run(step, arrays, kArguments, results));
        HLO_TRY(target_array_to_literal(results[kParameters], &loss));
        printf("  loss %.6f\n", hlo_literal_get_double(loss, 0));
        hlo_literal_free(loss);
        target_array_release(results[kParameters]);
        for (int64_t i = 0; i < kParameters; i++) {
            target_array_release(arrays[i]);
            arrays[i] = results[i];
        }
    }
    if (draw) {
        HLO_TRY(example_draw("W2 after the last step", arrays[2]));
        HLO_TRY(example_draw("W3 after the last step", arrays[4]));
    }
    for (int64_t i = 0; i < kArguments; i++) {
        if (i < kParameters) {
            hlo_literal_free(state[i]);
            state[i] = NULL;
            HLO_TRY(target_array_to_literal(arrays[i], &state[i]));
        }
        target_array_release(arrays[i]);
    }
    return HLO_SUCCESS;
}

// Partitions the step with these shardings, prints what it communicates, then trains.
static HloStatus train_with(TargetClient *client, const Network *network, const char *title, const SpmdOptions *spmd,
                            HloLiteral *state[kArguments]) {
    TargetProgram *step = NULL;
    HLO_TRY(new_program(client, "step", build_step, network, spmd, &step));
    const SpmdReport *report = target_program_report(step);
    printf("%s: %lld collectives, %lld bytes sent by each device\n", title, (long long)report->collective_count,
           (long long)report->total_bytes_per_device);
    HloStatus status = train(step, state, spmd->mesh_axis_count == 2);
    target_program_free(step);
    return status;
}

static HloStatus run(TargetClient *client, const Network *network, HloLiteral *state[kArguments]) {
    SpmdOptions one = {0}, data = {.mesh = kData, .mesh_axis_count = 1, .shards = kDataShards, .shard_count = 2},
                both = {.mesh = kDataModel, .mesh_axis_count = 2, .shards = kDataModelShards, .shard_count = 8};
    TargetProgram *model = NULL;
    HLO_TRY(new_program(client, "model", build_model, network, &one, &model));
    HloStatus status = target_program_call(model, NULL, 0, state);
    target_program_free(model);
    HLO_TRY(status);
    HLO_TRY(train_with(client, network, "8-way data parallel", &data, state));
    return train_with(client, network, "4-way data and 2-way tensor parallel", &both, state);
}

int main(int argc, char **argv) {
    long long size = argc > 1 ? atoll(argv[1]) : 512;
    if (size < 8 || size > 8192 || size % 8) {
        fputs("usage: network_training [N]     N: a multiple of 8, at most 8192\n", stderr);
        return 2;
    }
    Network network = {size, {784, size, size, size, 10}};
    TargetClient *client = NULL;
    HloLiteral *state[kArguments] = {0};
    HloStatus status = target_client_new("v2-8", &client);
    if (!status) status = run(client, &network, state);
    for (int64_t i = 0; i < kArguments; i++) hlo_literal_free(state[i]);
    target_client_release(client);
    return example_end(status);
}
