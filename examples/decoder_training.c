// SPDX-License-Identifier: Apache-2.0
// A decoder in C, trained on the eight chips of a v5e-8 with FSDP (`data`) and tensor parallelism (`model`): grouped
// queries, rotary positions, gated layers, tied embeddings, Adam with clipped gradients. The loss is written, its
// gradient is not. tests/jax/programs/test_decoder_training.py is its twin in JAX.
//
//     decoder_training [STEPS]     (default 200)
#include <stdio.h>
#include <stdlib.h>

#include "example.h"

enum { kBatch = 16, kLength = 16, kVocabulary = 64, kWidth = 32, kHeads = 4, kGroups = 2, kFeatures = 8, kHidden = 64 };
enum { kLayers = 2, kOfLayer = 9, kWeights = 2 + kLayers * kOfLayer };
enum { kTokens = kWeights, kArguments = 3 * kWeights + 2 };  // of the step: weights, tokens, moments, number of steps

static const SpmdMeshAxis kMesh[] = {{"data", 4}, {"model", 2}};

// A weight and how it is sharded. The first `inputs` dimensions are inputs; scales have none, and begin as ones.
typedef struct Weight {
    const char *name;
    int64_t rank, dims[3];
    const char *shards;
    int64_t inputs;
} Weight;

static const Weight kEmbedding = {"embedding", 2, {kVocabulary, kWidth}, "model,data", 1};
static const Weight kFinal = {"scale", 1, {kWidth}, "-", 0};
static const Weight kLayer[kOfLayer] = {
    {"attention_scale", 1, {kWidth}, "-", 0},
    {"wq", 3, {kWidth, kHeads, kFeatures}, "data,model,-", 1},
    {"wk", 3, {kWidth, kGroups, kFeatures}, "data,model,-", 1},
    {"wv", 3, {kWidth, kGroups, kFeatures}, "data,model,-", 1},
    {"wo", 3, {kHeads, kFeatures, kWidth}, "model,-,data", 2},
    {"hidden_scale", 1, {kWidth}, "-", 0},
    {"gate", 2, {kWidth, kHidden}, "data,model", 1},
    {"up", 2, {kWidth, kHidden}, "data,model", 1},
    {"down", 2, {kHidden, kWidth}, "model,data", 1},
};

static const Weight *weight_at(int64_t i) {
    return i == 0 ? &kEmbedding : i == kWeights - 1 ? &kFinal : &kLayer[(i - 1) % kOfLayer];
}

static HloStatus build_weights(HloModule *module) {
    const HloRandomForm form = HLO_RANDOM_PARTITIONABLE;
    HloBuilder *b = hlo_builder_new(module, "weights");
    HloInstruction *keys = hlo_random_split(b, form, hlo_random_key(b, 0), kWeights), *results[kWeights];
    for (int64_t i = 0; i < kWeights; i++) {
        const Weight *w = weight_at(i);
        HloInts dims = {w->dims, w->rank};
        results[i] = w->inputs ? hlo_nn_initial_dense(b, form, HLO_INITIALIZER_LECUN_NORMAL, hlo_random_row(b, keys, i),
                                                      HLO_F32, dims, w->inputs)
                               : hlo_build_splat(b, HLO_F32, dims, 1);
    }
    return hlo_builder_finish_entry(b, hlo_build_tuple(b, results, kWeights));
}

// The mean cross entropy of each next token. Parameters: the weights, then tokens s32[batch, length + 1].
static HloStatus build_loss(HloModule *module, HloComputation **loss) {
    HloBuilder *b = hlo_builder_new(module, "loss");
    HloInstruction *w[kWeights];
    for (int64_t i = 0; i < kWeights; i++) {
        const Weight *at = weight_at(i);
        w[i] = hlo_build_parameter(b, i, HLO_F32, (HloInts){at->dims, at->rank}, at->name);
        w[i] = spmd_build_sharded(b, w[i], kMesh, 2, at->shards);
    }
    HloInstruction *tokens = hlo_build_parameter(b, kTokens, HLO_S32, HLO_DIMS(kBatch, kLength + 1), "tokens");
    tokens = spmd_build_sharded(b, tokens, kMesh, 2, "data,-");
    HloInstruction *inputs = hlo_build_slice(b, tokens, HLO_DIMS(0, 0), HLO_DIMS(kBatch, kLength), HLO_DIMS());
    HloInstruction *targets = hlo_build_slice(b, tokens, HLO_DIMS(0, 1), HLO_DIMS(kBatch, kLength + 1), HLO_DIMS());
    HloInstruction *x = hlo_nn_embedding(b, w[0], inputs);
    for (HloInstruction **l = w + 1; l < w + kWeights - 1; l += kOfLayer)
        x = hlo_nn_decoder_block(b, x,
                                 &(HloDecoderBlock){l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7], l[8], 1e-6, 1e4});
    x = hlo_nn_rms_norm(b, x, w[kWeights - 1], 1e-6);
    HloInstruction *logits = hlo_nn_einsum(b, "btd,vd->btv", 2, (HloInstruction *[]){x, w[0]});
    return hlo_builder_finish(b, hlo_nn_mean(b, hlo_nn_cross_entropy(b, logits, targets), HLO_DIMS(0, 1)), loss);
}

static HloStatus build_step(HloModule *module) {
    int64_t wrt[kWeights];
    HloComputation *loss = NULL, *step = NULL;
    for (int64_t i = 0; i < kWeights; i++) wrt[i] = i;
    HloTrainingOptions options = {{.wrt = {wrt, kWeights}}, hlo_optimizer(HLO_OPTIMIZER_ADAM)};
    options.optimizer.learning_rate = 3e-3;
    options.optimizer.clip_norm = 1;
    HLO_TRY(build_loss(module, &loss));
    HLO_TRY(hlo_training_step(loss, &options, &step));
    return hlo_training_step_make_entry(module, step, &options);
}

static HloStatus new_program(TargetClient *client, HloStatus (*build)(HloModule *module), TargetProgram **program) {
    HloModule *module = hlo_module_new("decoder");
    HLO_FAIL_IF(!module, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = build(module);
    if (!status) status = target_program_new(client, module, NULL, program);
    hlo_module_free(module);
    return status;
}

// Sequences that count in steps of 1 to 4, modulo the vocabulary.
static void fill_tokens(HloLiteral *tokens, int64_t step) {
    for (int64_t i = 0; i < kBatch; i++)
        for (int64_t t = 0; t <= kLength; t++)
            hlo_literal_set_int64(tokens, i * (kLength + 1) + t, (7 * i + 13 * step + (1 + i % 4) * t) % kVocabulary);
}

static HloStatus train(TargetProgram *step, HloLiteral *const *weights, int64_t steps) {
    TargetArray *arguments[kArguments] = {0}, *loss = NULL;
    HloLiteral *tokens = hlo_literal_of(HLO_S32, HLO_DIMS(kBatch, kLength + 1), NULL), *value = NULL;
    HloStatus status = HLO_SUCCESS;
    printf("v5e-8: %lld collectives a step\n", (long long)target_program_report(step)->collective_count);
    for (int64_t i = 0; i < kArguments && !status; i++)
        status = target_program_place(step, i, i < kWeights ? weights[i] : NULL, &arguments[i]);
    for (int64_t s = 0; s < steps && !status; s++, value = NULL, loss = NULL) {
        fill_tokens(tokens, s);
        target_array_release(arguments[kTokens]);
        status = target_program_place(step, kTokens, tokens, &arguments[kTokens]);
        if (!status) status = target_program_advance(step, arguments, kArguments, &loss);
        if (!status) status = target_array_to_literal(loss, &value);
        if (!status && (s < 5 || (s + 1) % 50 == 0))
            printf("step %lld: loss %.7f\n", (long long)s + 1, hlo_literal_get_double(value, 0));
        hlo_literal_free(value);
        target_array_release(loss);
    }
    for (int64_t i = 0; i < kArguments; i++) target_array_release(arguments[i]);
    hlo_literal_free(tokens);
    return status;
}

int main(int argc, char **argv) {
    const int64_t steps = argc > 1 ? atoll(argv[1]) : 200;
    TargetClient *client = NULL;
    TargetProgram *initial = NULL, *step = NULL;
    HloLiteral *weights[kWeights] = {0};
    if (steps < 1) {
        fputs("usage: decoder_training [STEPS]\n", stderr);
        return 2;
    }
    HloStatus status = target_client_new("v5e-8", &client);
    if (!status) status = new_program(client, build_weights, &initial);
    if (!status) status = target_program_call(initial, NULL, 0, weights);
    if (!status) status = new_program(client, build_step, &step);
    if (!status) status = train(step, weights, steps);
    for (int64_t i = 0; i < kWeights; i++) hlo_literal_free(weights[i]);
    target_program_free(initial);
    target_program_free(step);
    target_client_release(client);
    return example_end(status);
}
