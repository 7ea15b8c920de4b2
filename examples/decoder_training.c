// SPDX-License-Identifier: Apache-2.0
// A decoder in C, trained on the eight chips of a v5e-8: weights are sharded over `data` (FSDP) and `model` (tensor
// parallelism), grouped queries, rotary positions, gated feed-forward layers, tied embeddings, Adam with clipped
// gradients. The loss is written, its gradient is not. tests/jax/programs/test_decoder_training.py is its twin in JAX.
//
//     decoder_training [STEPS]     (default 200)
#include <stdio.h>
#include <stdlib.h>

#include "example.h"

enum {
    kBatch = 16,
    kLength = 16,
    kVocabulary = 64,
    kWidth = 32,
    kHeads = 4,
    kGroups = 2,
    kFeatures = 8,
    kHidden = 64,
    kLayers = 2,
    kOfLayer = 9,
    kWeights = 2 + kLayers * kOfLayer,
    kState = 3 * kWeights + 1
};

// A weight: its sizes as it is used, and how it is sharded. Matrices are drawn with the first dimension as inputs,
// except for those of `outputs`; vectors are scales and begin as ones.
typedef struct Weight {
    const char *name;
    int64_t rank, dims[3];
    const char *shards;
    int64_t outputs;  // dimensions that count as inputs; 0: one
} Weight;

static const Weight kEmbedding = {"embedding", 2, {kVocabulary, kWidth}, "model,data", 0};
static const Weight kFinal = {"scale", 1, {kWidth}, "-", 0};
static const Weight kLayer[kOfLayer] = {
    {"attention_scale", 1, {kWidth}, "-", 0},
    {"wq", 3, {kWidth, kHeads, kFeatures}, "data,model,-", 0},
    {"wk", 3, {kWidth, kGroups, kFeatures}, "data,model,-", 0},
    {"wv", 3, {kWidth, kGroups, kFeatures}, "data,model,-", 0},
    {"wo", 3, {kHeads, kFeatures, kWidth}, "model,-,data", 2},
    {"hidden_scale", 1, {kWidth}, "-", 0},
    {"gate", 2, {kWidth, kHidden}, "data,model", 0},
    {"up", 2, {kWidth, kHidden}, "data,model", 0},
    {"down", 2, {kHidden, kWidth}, "model,data", 0},
};

static const Weight *weight_at(int64_t i) {
    return i == 0 ? &kEmbedding : i == kWeights - 1 ? &kFinal : &kLayer[(i - 1) % kOfLayer];
}

// ---- the programs

static HloStatus build_weights(HloModule *module) {
    HloBuilder *b = hlo_builder_new(module, "weights");
    HloInstruction *results[kWeights];
    HloInstruction *keys = hlo_random_split(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 0), kWeights);
    for (int64_t i = 0; i < kWeights; i++) {
        const Weight *w = weight_at(i);
        HloInts dims = {w->dims, w->rank};
        int64_t inputs = w->dims[0] * (w->outputs == 2 ? w->dims[1] : 1), outputs = w->dims[w->rank - 1];
        if (w->rank == 3 && w->outputs == 0) outputs *= w->dims[1];
        results[i] = w->rank == 1 ? hlo_build_splat(b, HLO_F32, dims, 1)
                                  : hlo_nn_initial(b, HLO_RANDOM_PARTITIONABLE, HLO_INITIALIZER_LECUN_NORMAL,
                                                   hlo_random_row(b, keys, i), HLO_F32, HLO_DIMS(inputs, outputs));
        results[i] = hlo_build_reshape(b, results[i], dims);
    }
    return hlo_builder_finish_entry(b, hlo_build_tuple(b, results, kWeights));
}

static HloInstruction *layer(HloBuilder *b, HloInstruction *x, HloInstruction *const *w) {
    HloInstruction *y = hlo_nn_rms_norm(b, x, w[0], 1e-6);
    HloInstruction *q = hlo_nn_rotary(b, hlo_nn_dense(b, y, w[1], NULL), 10000);
    HloInstruction *k = hlo_nn_rotary(b, hlo_nn_dense(b, y, w[2], NULL), 10000);
    y = hlo_nn_attention(b, q, k, hlo_nn_dense(b, y, w[3], NULL), true, 0);
    x = hlo_build_add(b, x, hlo_nn_einsum(b, "bthf,hfd->btd", 2, (HloInstruction *[]){y, w[4]}));
    y = hlo_nn_rms_norm(b, x, w[5], 1e-6);
    y = hlo_build_mul(b, hlo_nn_silu(b, hlo_nn_dense(b, y, w[6], NULL)), hlo_nn_dense(b, y, w[7], NULL));
    return hlo_build_add(b, x, hlo_nn_dense(b, y, w[8], NULL));
}

// The mean cross entropy of each next token. Parameters: the weights, then tokens s32[batch, length + 1].
static HloStatus build_loss(HloModule *module, HloComputation **loss) {
    HloBuilder *b = hlo_builder_new(module, "loss");
    HloInstruction *w[kWeights];
    for (int64_t i = 0; i < kWeights; i++)
        w[i] =
            hlo_build_parameter(b, i, HLO_F32, (HloInts){weight_at(i)->dims, weight_at(i)->rank}, weight_at(i)->name);
    HloInstruction *tokens = hlo_build_parameter(b, kWeights, HLO_S32, HLO_DIMS(kBatch, kLength + 1), "tokens");
    HloInstruction *inputs = hlo_build_slice(b, tokens, HLO_DIMS(0, 0), HLO_DIMS(kBatch, kLength), HLO_DIMS());
    HloInstruction *targets = hlo_build_slice(b, tokens, HLO_DIMS(0, 1), HLO_DIMS(kBatch, kLength + 1), HLO_DIMS());
    HloInstruction *x = hlo_nn_embedding(b, w[0], inputs);
    for (int64_t i = 0; i < kLayers; i++) x = layer(b, x, w + 1 + i * kOfLayer);
    x = hlo_nn_rms_norm(b, x, w[kWeights - 1], 1e-6);
    HloInstruction *logits = hlo_nn_einsum(b, "btd,vd->btv", 2, (HloInstruction *[]){x, w[0]});
    return hlo_builder_finish(b, hlo_nn_mean(b, hlo_nn_cross_entropy(b, logits, targets), HLO_DIMS(0, 1)), loss);
}

static HloStatus build_step(HloModule *module) {
    int64_t wrt[kWeights];
    HloComputation *loss = NULL, *step = NULL;
    for (int64_t i = 0; i < kWeights; i++) wrt[i] = i;
    HloTrainingOptions options = {.gradient = {.wrt = {wrt, kWeights}}, .optimizer = hlo_optimizer(HLO_OPTIMIZER_ADAM)};
    options.optimizer.learning_rate = 3e-3;
    options.optimizer.clip_norm = 1;
    HLO_TRY(build_loss(module, &loss));
    HLO_TRY(hlo_training_step(loss, &options, &step));
    return hlo_training_step_make_entry(module, step, &options);
}

static HloStatus new_program(TargetClient *client, const char *name, HloStatus (*build)(HloModule *module),
                             const SpmdOptions *spmd, TargetProgram **program) {
    HloModule *module = hlo_module_new(name);
    HLO_FAIL_IF(!module, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = build(module);
    if (!status) status = target_program_new(client, module, &(TargetProgramOptions){.spmd = *spmd}, program);
    hlo_module_free(module);
    return status;
}

// Weights and both moments are sharded alike, before and after the step; the tokens over `data`.
static HloStatus new_step(TargetClient *client, TargetProgram **step) {
    static const SpmdMeshAxis kMesh[] = {{"data", 4}, {"model", 2}};
    static char texts[6 * kWeights + 1][40];
    const char *shards[6 * kWeights + 1];
    int64_t count = 0;
    for (int64_t i = 0; i < 3 * kWeights; i++) {
        const long long parameter = i < kWeights ? i : i + 1;  // the tokens come after the weights
        const char *as = weight_at(i % kWeights)->shards;
        snprintf(texts[count++], sizeof *texts, "p%lld=%s", parameter, as);
        snprintf(texts[count++], sizeof *texts, "r%lld=%s", (long long)i, as);
    }
    snprintf(texts[count++], sizeof *texts, "p%d=data,-", kWeights);
    for (int64_t i = 0; i < count; i++) shards[i] = texts[i];
    const SpmdOptions spmd = {.mesh = kMesh, .mesh_axis_count = 2, .shards = shards, .shard_count = count};
    return new_program(client, "step", build_step, &spmd, step);
}

// ---- training

// Sequences that count in steps of 1 to 4, modulo the vocabulary.
static void fill_tokens(HloLiteral *tokens, int64_t step) {
    for (int64_t i = 0; i < kBatch; i++)
        for (int64_t t = 0; t <= kLength; t++)
            hlo_literal_set_int64(tokens, i * (kLength + 1) + t, (7 * i + 13 * step + (1 + i % 4) * t) % kVocabulary);
}

// Runs one step on the state; the new state replaces it.
static HloStatus train_once(TargetProgram *step, TargetArray *state[kState], HloLiteral *tokens, double *loss) {
    TargetArray *arguments[kState + 1], *results[kState + 1];
    HloLiteral *value = NULL;
    for (int64_t i = 0; i < kState; i++) arguments[i < kWeights ? i : i + 1] = state[i];
    HLO_TRY(target_program_place(step, kWeights, tokens, &arguments[kWeights]));
    HloStatus status = target_program_run(step, arguments, kState + 1, results);
    target_array_release(arguments[kWeights]);
    HLO_TRY(status);
    for (int64_t i = 0; i < kState; i++) {
        target_array_release(state[i]);
        state[i] = results[i];
    }
    status = target_array_to_literal(results[kState], &value);
    target_array_release(results[kState]);
    if (!status) *loss = hlo_literal_get_double(value, 0);
    hlo_literal_free(value);
    return status;
}

static HloStatus train(TargetClient *client, TargetProgram *step, HloLiteral *const *weights, long steps) {
    TargetArray *state[kState] = {0};
    HloLiteral *tokens = hlo_literal_of(HLO_S32, HLO_DIMS(kBatch, kLength + 1), NULL);
    const SpmdBoundary *boundary = target_program_boundary(step);
    HloStatus status = HLO_SUCCESS;
    printf("%s: %lld collectives a step\n", target_client_spec(client),
           (long long)target_program_report(step)->collective_count);
    for (int64_t i = 0; i < kState && !status; i++) {
        const int64_t argument = i < kWeights ? i : i + 1;
        HloLiteral *zeros = hlo_literal_new(boundary->parameters[argument].global);
        status = target_program_place(step, argument, i < kWeights ? weights[i] : zeros, &state[i]);
        hlo_literal_free(zeros);
    }
    for (long s = 0; s < steps && !status; s++) {
        double loss = 0;
        fill_tokens(tokens, s);
        status = train_once(step, state, tokens, &loss);
        if (s < 5 || (s + 1) % 50 == 0) printf("step %ld: loss %.7f\n", s + 1, loss);
    }
    for (int64_t i = 0; i < kState; i++) target_array_release(state[i]);
    hlo_literal_free(tokens);
    return status;
}

static HloStatus run(TargetClient *client, long steps, HloLiteral *weights[kWeights]) {
    TargetProgram *initial = NULL, *step = NULL;
    HLO_TRY(new_program(client, "weights", build_weights, &(SpmdOptions){0}, &initial));
    HloStatus status = target_program_call(initial, NULL, 0, weights);
    target_program_free(initial);
    if (!status) status = new_step(client, &step);
    if (!status) status = train(client, step, weights, steps);
    target_program_free(step);
    return status;
}

int main(int argc, char **argv) {
    const long steps = argc > 1 ? atol(argv[1]) : 200;
    TargetClient *client = NULL;
    HloLiteral *weights[kWeights] = {0};
    if (steps < 1) {
        fputs("usage: decoder_training [STEPS]\n", stderr);
        return 2;
    }
    HloStatus status = target_client_new("v5e-8", &client);
    if (!status) status = run(client, steps, weights);
    for (int64_t i = 0; i < kWeights; i++) hlo_literal_free(weights[i]);
    target_client_release(client);
    return example_end(status);
}
