// SPDX-License-Identifier: Apache-2.0
// hlo/nn against the numbers of JAX, flax and optax (golden.def), values and gradients; and refusals.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/hlo.h"

enum { kMost = 10, kSteps = 3 };

typedef HloInstruction *Build(HloBuilder *b, HloInstruction **p);

#define CASE(name) static HloInstruction *name(HloBuilder *b, HloInstruction **p)
CASE(einsum_product) {
    return hlo_nn_einsum(b, "ij,jk->ik", 2, p);
}
CASE(einsum_batch) {
    return hlo_nn_einsum(b, "bqhd, bkhd -> bhqk", 2, p);
}
CASE(einsum_transposed) {
    return hlo_nn_einsum(b, "ijk->ki", 1, p);
}
CASE(einsum_implied) {
    return hlo_nn_einsum(b, "cb,ab", 2, p);
}
CASE(einsum_scalar) {
    return hlo_nn_einsum(b, "ij,ij->", 2, p);
}
CASE(einsum_outer) {
    return hlo_nn_einsum(b, "i,j->ji", 2, p);
}
CASE(einsum_three) {
    return hlo_nn_einsum(b, "ij,jk,ik->k", 3, p);
}
CASE(dense) {
    return hlo_nn_dense(b, p[0], p[1], p[2]);
}
CASE(embedding) {
    return hlo_nn_embedding(b, p[0], hlo_build_array(b, HLO_S32, HLO_DIMS(2, 2), (int32_t[]){2, 0, 4, 1}));
}
CASE(mean) {
    return hlo_nn_mean(b, p[0], HLO_DIMS(0, -1));
}
CASE(logsumexp) {
    return hlo_nn_logsumexp(b, hlo_build_mul(b, p[0], hlo_build_splat_like(b, p[0], 40)), 0);
}
CASE(relu) {
    return hlo_nn_relu(b, hlo_build_sub(b, p[0], hlo_build_splat_like(b, p[0], (double)(1.5F * (float)sin(0.7)))));
}
CASE(gelu) {
    return hlo_nn_gelu(b, p[0], true);
}
CASE(gelu_exact) {
    return hlo_nn_gelu(b, p[0], false);
}
CASE(silu) {
    return hlo_nn_silu(b, p[0]);
}
CASE(softplus) {
    return hlo_nn_softplus(b, hlo_build_mul(b, p[0], hlo_build_splat_like(b, p[0], 20)));
}
CASE(softmax) {
    return hlo_nn_softmax(b, hlo_build_mul(b, p[0], hlo_build_splat_like(b, p[0], 100)), 1);
}
CASE(log_softmax) {
    return hlo_nn_log_softmax(b, p[0], -1);
}
CASE(layer_norm) {
    return hlo_nn_layer_norm(b, p[0], p[1], p[2], 1e-5);
}
CASE(rms_norm) {
    return hlo_nn_rms_norm(b, p[0], p[1], 1e-6);
}
CASE(attention) {
    return hlo_nn_attention(b, p[0], p[1], p[2], false, 0);
}
CASE(attention_causal) {
    return hlo_nn_attention(b, p[0], p[1], p[2], true, 0);
}
CASE(attention_grouped) {
    return hlo_nn_attention(b, p[0], p[1], p[2], true, 0);
}
CASE(rotary) {
    return hlo_nn_rotary(b, p[0], 100);
}
CASE(gated) {
    return hlo_nn_gated(b, p[0], p[1], p[2], p[3]);
}
CASE(decoder_block) {
    return hlo_nn_decoder_block(b, p[0],
                                &(HloDecoderBlock){p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], 1e-6, 100});
}
CASE(decoder_block_without_positions) {
    return hlo_nn_decoder_block(
        b, p[0], &(HloDecoderBlock){p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], .epsilon = 1e-5});
}
CASE(cross_entropy) {
    return hlo_nn_cross_entropy(b, p[0], hlo_build_array(b, HLO_S32, HLO_DIMS(2, 3), (int32_t[]){0, 1, 2, 3, 0, 1}));
}
#undef CASE

#define NUMBERS(...) ((const double[]){__VA_ARGS__})

#define DECODER_RANKS \
    { 3, 1, 3, 3, 3, 3, 1, 2, 2, 2 }
#define DECODER_DIMS                                                                       \
    {                                                                                      \
        {1, 3, 4}, {4}, {4, 2, 2}, {4, 1, 2}, {4, 1, 2}, {2, 2, 4}, {4}, {4, 6}, {4, 6}, { \
            6, 4                                                                           \
        }                                                                                  \
    }

static const struct {
    const char *name;
    Build *build;
    int64_t count, ranks[kMost], dims[kMost][4];
} kCases[] = {
    {"einsum_product", einsum_product, 2, {2, 2}, {{2, 3}, {3, 2}}},
    {"einsum_batch", einsum_batch, 2, {4, 4}, {{2, 2, 2, 3}, {2, 1, 2, 3}}},
    {"einsum_transposed", einsum_transposed, 1, {3}, {{2, 3, 2}}},
    {"einsum_implied", einsum_implied, 2, {2, 2}, {{2, 3}, {2, 3}}},
    {"einsum_scalar", einsum_scalar, 2, {2, 2}, {{2, 3}, {2, 3}}},
    {"einsum_outer", einsum_outer, 2, {1, 1}, {{2}, {3}}},
    {"einsum_three", einsum_three, 3, {2, 2, 2}, {{2, 3}, {3, 2}, {2, 2}}},
    {"dense", dense, 3, {3, 2, 1}, {{2, 2, 3}, {3, 2}, {2}}},
    {"embedding", embedding, 1, {2}, {{5, 3}}},
    {"mean", mean, 1, {3}, {{2, 3, 2}}},
    {"logsumexp", logsumexp, 1, {2}, {{3, 2}}},
    {"relu", relu, 1, {1}, {{3}}},
    {"gelu", gelu, 1, {1}, {{6}}},
    {"gelu_exact", gelu_exact, 1, {1}, {{6}}},
    {"silu", silu, 1, {1}, {{6}}},
    {"softplus", softplus, 1, {1}, {{6}}},
    {"softmax", softmax, 1, {3}, {{2, 3, 2}}},
    {"log_softmax", log_softmax, 1, {2}, {{2, 3}}},
    {"layer_norm", layer_norm, 3, {3, 1, 1}, {{2, 3, 4}, {4}, {4}}},
    {"rms_norm", rms_norm, 2, {2, 1}, {{2, 4}, {4}}},
    {"attention", attention, 3, {4, 4, 4}, {{1, 2, 2, 4}, {1, 3, 2, 4}, {1, 3, 2, 4}}},
    {"attention_causal", attention_causal, 3, {4, 4, 4}, {{1, 3, 2, 2}, {1, 3, 2, 2}, {1, 3, 2, 2}}},
    {"attention_grouped", attention_grouped, 3, {4, 4, 4}, {{1, 2, 4, 2}, {1, 2, 2, 2}, {1, 2, 2, 2}}},
    {"rotary", rotary, 1, {4}, {{1, 3, 1, 4}}},
    {"gated", gated, 4, {3, 2, 2, 2}, {{1, 2, 3}, {3, 4}, {3, 4}, {4, 3}}},
    {"decoder_block", decoder_block, 10, DECODER_RANKS, DECODER_DIMS},
    {"decoder_block_without_positions", decoder_block_without_positions, 10, DECODER_RANKS, DECODER_DIMS},
    {"cross_entropy", cross_entropy, 1, {3}, {{2, 3, 4}}},
};

// ---- inputs and comparisons

static HloLiteral *argument(HloInts dims, int64_t k) {
    HloLiteral *literal = hlo_literal_of(HLO_F32, dims, NULL);
    for (int64_t i = 0; i < hlo_shape_elements(literal->shape); i++)
        hlo_literal_set_double(literal, i, 1.5 * sin(0.7 * (double)i + (double)k));
    return literal;
}

static void expect(const char *name, const HloLiteral *got, const double *wanted) {
    double scale = 0;
    const int64_t count = hlo_shape_elements(got->shape);
    for (int64_t i = 0; i < count; i++) scale = fmax(scale, fabs(wanted[i]));
    for (int64_t i = 0; i < count; i++) {
        const double value = hlo_literal_get_double(got, i);
        cr_assert(fabs(value - wanted[i]) <= 4e-6 * (scale + fabs(wanted[i])), "%s: element %lld is %.9g, not %.9g",
                  name, (long long)i, value, wanted[i]);
    }
}

static void succeeded(const char *name, const struct HloError *status) {
    cr_assert_null(status, "%s: %s", name, hlo_status_message(status));
}

static HloLiteral *run(const char *name, const HloComputation *computation, HloLiteral **arguments, int64_t count) {
    HloLiteral *result = NULL;
    succeeded(name, hlo_verify(computation->module));
    succeeded(name, hlo_evaluate_computation(computation, (const HloLiteral *const *)arguments, count, NULL, &result));
    return result;
}

// ---- layers

// The case's function, or the sum of its elements times cos(0.3 i).
static HloComputation *build(HloModule *module, size_t index, bool weighed) {
    HloBuilder *b = hlo_builder_new(module, kCases[index].name);
    HloInstruction *p[kMost];
    HloComputation *computation = NULL;
    for (int64_t k = 0; k < kCases[index].count; k++)
        p[k] = hlo_build_parameter(b, k, HLO_F32, (HloInts){kCases[index].dims[k], kCases[index].ranks[k]}, "p");
    HloInstruction *root = kCases[index].build(b, p);
    if (weighed && root) {
        float factors[64];
        int64_t all[4] = {0, 1, 2, 3};
        HloInts dims = hlo_shape_dims(root->shape);
        for (int i = 0; i < 64; i++) factors[i] = (float)cos(0.3 * i);
        root = hlo_build_mul(b, root, hlo_build_array(b, HLO_F32, dims, factors));
        root = hlo_build_reduce_op(b, HLO_OP_ADD, root, (HloInts){all, dims.count});
    }
    succeeded(kCases[index].name, hlo_builder_finish(b, root, &computation));
    return computation;
}

static void check_case(size_t index, const double *value, const double *slope) {
    HloModule *module = hlo_module_new("nn");
    HloLiteral *arguments[kMost], *result;
    HloComputation *gradient = NULL;
    const char *name = kCases[index].name;
    const int64_t count = kCases[index].count;
    for (int64_t k = 0; k < count; k++)
        arguments[k] = argument((HloInts){kCases[index].dims[k], kCases[index].ranks[k]}, k);
    HloComputation *computation = build(module, index, false);
    hlo_make_entry(module, computation);
    result = run(name, computation, arguments, count);
    expect(name, result, value);
    hlo_literal_free(result);
    succeeded(name, hlo_gradient(build(module, index, true), &(HloGradientOptions){0}, &gradient));
    result = run(name, gradient, arguments, count);
    expect(name, result->elements[0], slope);
    hlo_literal_free(result);
    for (int64_t k = 0; k < count; k++) hlo_literal_free(arguments[k]);
    hlo_module_free(module);
}

#define IGNORED(...)
#define INITIAL IGNORED
#define DROPOUT IGNORED
#define TRAINED IGNORED
Test(nn, values_and_gradients_of_jax) {
    const struct {
        const char *name;
        const double *value, *slope;
    } kGolden[] = {
#define GOLDEN(name, value, slope) {#name, value, slope},
#include "golden.def"
#undef GOLDEN
    };
    cr_assert_eq(HLO_COUNT_OF(kGolden), HLO_COUNT_OF(kCases));
    for (size_t i = 0; i < HLO_COUNT_OF(kCases); i++) {
        cr_assert_str_eq(kGolden[i].name, kCases[i].name);
        check_case(i, kGolden[i].value, kGolden[i].slope);
    }
}
#undef INITIAL
#undef DROPOUT
#undef TRAINED

// ---- random numbers

static HloLiteral *drawn(const char *name, HloModule *module, HloBuilder *b, HloInstruction *root) {
    HloComputation *computation = NULL;
    succeeded(name, hlo_builder_finish(b, root, &computation));
    hlo_make_entry(module, computation);
    HloLiteral *result = run(name, computation, NULL, 0);
    hlo_module_free(module);
    return result;
}

#define GOLDEN IGNORED
#define TRAINED IGNORED
Test(nn, initial_weights_and_dropout_of_jax) {
    int initializer = 0;
#define INITIAL(name, numbers)                                                                             \
    {                                                                                                      \
        HloModule *module = hlo_module_new(#name);                                                         \
        HloBuilder *b = hlo_builder_new(module, #name);                                                    \
        cr_assert_str_eq(hlo_initializer_name((HloInitializer)initializer), #name);                        \
        HloLiteral *got = drawn(#name, module, b,                                                          \
                                hlo_nn_initial(b, HLO_RANDOM_PARTITIONABLE, (HloInitializer)initializer++, \
                                               hlo_random_key(b, 7), HLO_F32, HLO_DIMS(2, 3, 4)));         \
        expect(#name, got, numbers);                                                                       \
        hlo_literal_free(got);                                                                             \
    }
#define DROPOUT(numbers)                                                                                              \
    {                                                                                                                 \
        HloModule *module = hlo_module_new("dropout");                                                                \
        HloBuilder *b = hlo_builder_new(module, "dropout");                                                           \
        HloLiteral *x = argument(HLO_DIMS(12), 0);                                                                    \
        HloLiteral *got =                                                                                             \
            drawn("dropout", module, b,                                                                               \
                  hlo_nn_dropout(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 7), hlo_build_constant(b, x), 0.25)); \
        expect("dropout", got, numbers);                                                                              \
        hlo_literal_free(got);                                                                                        \
        hlo_literal_free(x);                                                                                          \
    }
#include "golden.def"
#undef INITIAL
#undef DROPOUT
    cr_assert_eq(initializer, HLO_INITIALIZER_COUNT);
}
#undef GOLDEN
#undef TRAINED

// The first dimensions of weights of hlo_nn_dense() are inputs, as if they were one.
Test(nn, initial_weights_of_several_inputs_and_outputs) {
    for (int64_t inputs = 1; inputs <= 2; inputs++) {
        HloLiteral *got[2];
        for (int flat = 0; flat < 2; flat++) {
            HloModule *module = hlo_module_new("initial");
            HloBuilder *b = hlo_builder_new(module, "initial");
            HloInstruction *key = hlo_random_key(b, 7);
            HloInstruction *w = flat ? hlo_nn_initial(b, HLO_RANDOM_PARTITIONABLE, HLO_INITIALIZER_GLOROT_NORMAL, key,
                                                      HLO_F32, inputs == 1 ? HLO_DIMS(2, 12) : HLO_DIMS(6, 4))
                                     : hlo_nn_initial_dense(b, HLO_RANDOM_PARTITIONABLE, HLO_INITIALIZER_GLOROT_NORMAL,
                                                            key, HLO_F32, HLO_DIMS(2, 3, 4), inputs);
            got[flat] = drawn("initial", module, b, hlo_build_reshape(b, w, HLO_DIMS(24)));
        }
        cr_expect(hlo_literal_equal(got[0], got[1]), "%lld inputs", (long long)inputs);
        for (int flat = 0; flat < 2; flat++) hlo_literal_free(got[flat]);
    }
}

// ---- training steps

// sum((x w + b)^2)
static HloComputation *build_loss(HloModule *module) {
    HloBuilder *b = hlo_builder_new(module, "loss");
    HloComputation *loss = NULL;
    HloInstruction *w = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(2, 3), "w");
    HloInstruction *bias = hlo_build_parameter(b, 1, HLO_F32, HLO_DIMS(3), "b");
    HloInstruction *x = hlo_build_parameter(b, 2, HLO_F32, HLO_DIMS(4, 2), "x");
    HloInstruction *y = hlo_nn_dense(b, x, w, bias);
    succeeded("loss", hlo_builder_finish(b, hlo_nn_einsum(b, "ij,ij->", 2, (HloInstruction *[]){y, y}), &loss));
    return loss;
}

// Runs the step, and puts its first results in the place of the arguments that it donates.
static double train_once(const HloModule *module, HloLiteral **arguments, int64_t returned) {
    const HloAliases *aliases = &module->aliases;
    HloLiteral *results = run("step", module->entry, arguments, module->entry->parameters.count);
    cr_assert_eq(hlo_shape_leaf_count(results->shape), aliases->count + returned);
    for (int64_t i = 0; i < aliases->count; i++) {
        const int64_t from = aliases->items[i].output_index.items[0], to = aliases->items[i].operand;
        cr_assert(hlo_shape_equal(arguments[to]->shape, results->elements[from]->shape, HLO_COMPARE_IGNORE_LAYOUT));
        memcpy(arguments[to]->data, results->elements[from]->data, (size_t)hlo_shape_bytes(arguments[to]->shape));
    }
    const double loss = hlo_literal_get_double(results->elements[aliases->count], 0);
    hlo_literal_free(results);
    return loss;
}

static void check_training(HloOptimizer optimizer, const double *wanted) {
    const char *name = hlo_optimizer_name(optimizer.kind);
    HloModule *module = hlo_module_new(name);
    const HloTrainingOptions options = {.gradient = {.wrt = HLO_DIMS(0, 1)}, .optimizer = optimizer};
    HloComputation *step = NULL;
    HloLiteral *arguments[16] = {argument(HLO_DIMS(2, 3), 0), argument(HLO_DIMS(3), 1), argument(HLO_DIMS(4, 2), 2)};
    double losses[kSteps];
    succeeded(name, hlo_training_step(build_loss(module), &options, &step));
    succeeded(name, hlo_training_step_make_entry(module, step, &options));
    const int64_t count = step->parameters.count;
    for (int64_t i = 3; i < count; i++) arguments[i] = hlo_literal_new(step->parameters.items[i]->shape);
    if (optimizer.learning_rate_is_parameter) hlo_literal_set_double(arguments[count - 1], 0, 0.01);
    for (int s = 0; s < kSteps; s++) losses[s] = train_once(module, arguments, 1);
    expect(name, arguments[0], wanted);
    expect(name, arguments[1], wanted + 6);
    for (int s = 0; s < kSteps; s++)
        cr_assert_float_eq(losses[s], wanted[9 + s], 1e-5 * wanted[9 + s], "%s: loss %d is %g", name, s, losses[s]);
    for (int64_t i = 0; i < count; i++) hlo_literal_free(arguments[i]);
    hlo_module_free(module);
}

#define GOLDEN IGNORED
#define INITIAL IGNORED
#define DROPOUT IGNORED
Test(nn, training_steps_of_optax) {
#define TRAINED(kind, clip, numbers)                                  \
    for (int parameter = 0; parameter < 2; parameter++) {             \
        HloOptimizer optimizer = hlo_optimizer(HLO_OPTIMIZER_##kind); \
        optimizer.clip_norm = clip;                                   \
        optimizer.learning_rate_is_parameter = parameter;             \
        optimizer.learning_rate = 0.01;                               \
        check_training(optimizer, numbers);                           \
    }
#include "golden.def"
#undef TRAINED
}

// ---- refusals

static void refuses(Build *build_wrong, const char *message) {
    HloModule *module = hlo_module_new("wrong");
    HloBuilder *b = hlo_builder_new(module, "wrong");
    HloInstruction *p[kMost] = {hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(2, 3), "x"),
                                hlo_build_parameter(b, 1, HLO_F32, HLO_DIMS(4), "y"),
                                hlo_build_parameter(b, 2, HLO_S32, HLO_DIMS(4), "z")};
    cr_assert_null(build_wrong(b, p));
    cr_assert(strstr(hlo_status_message(hlo_builder_status(b)), message), "%s",
              hlo_status_message(hlo_builder_status(b)));
    HloStatus status = hlo_builder_finish(b, NULL, NULL);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    hlo_module_free(module);
}

#define WRONG(name, ...)                                             \
    static HloInstruction *name(HloBuilder *b, HloInstruction **p) { \
        return __VA_ARGS__;                                          \
    }
WRONG(wrong_size, hlo_nn_einsum(b, "ij,i->j", 2, p))
WRONG(wrong_rank, hlo_nn_einsum(b, "ijk,i->j", 2, p))
WRONG(wrong_letters, hlo_nn_einsum(b, "ii,i->i", 2, p))
WRONG(wrong_ellipsis, hlo_nn_einsum(b, "...j->j", 1, p))
WRONG(wrong_result, hlo_nn_einsum(b, "ij,k->z", 2, p))
WRONG(wrong_count, hlo_nn_einsum(b, "ij,k", 1, p))
WRONG(wrong_axis, hlo_nn_softmax(b, p[0], 2))
WRONG(wrong_negative_axis, hlo_nn_logsumexp(b, p[0], -3))
WRONG(wrong_rate, hlo_nn_dropout(b, HLO_RANDOM_PARTITIONABLE, hlo_random_key(b, 1), p[0], 1))
WRONG(wrong_bias, hlo_nn_dense(b, p[0], hlo_build_transpose(b, p[0], HLO_DIMS(1, 0)), p[0]))
WRONG(wrong_scale, hlo_nn_rms_norm(b, p[0], p[1], 1e-6))
WRONG(wrong_heads, hlo_nn_attention(b, p[0], p[0], p[0], false, 0))
WRONG(wrong_rotary, hlo_nn_rotary(b, p[0], 10000))
WRONG(wrong_labels, hlo_nn_cross_entropy(b, p[1], p[2]))
WRONG(wrong_weights, hlo_nn_initial(b, HLO_RANDOM_PARTITIONABLE, HLO_INITIALIZER_HE_NORMAL,
                                    p[2] ? hlo_random_key(b, 1) : NULL, HLO_F32, HLO_DIMS(3)))

WRONG(wrong_inputs, hlo_nn_initial_dense(b, HLO_RANDOM_PARTITIONABLE, HLO_INITIALIZER_HE_NORMAL,
                                         p[2] ? hlo_random_key(b, 1) : NULL, HLO_F32, HLO_DIMS(3, 4), 2))
WRONG(wrong_block, hlo_nn_decoder_block(b, p[0], &(HloDecoderBlock){p[1], p[0], p[0], p[0], p[0], .epsilon = 1e-6}))

Test(nn, wrong_arguments_are_named) {
    refuses(wrong_size, "'i' is 2 and 4");
    refuses(wrong_rank, "operand 0 has 2 dimensions");
    refuses(wrong_letters, "\"ii,i->i\" is no equation");
    refuses(wrong_ellipsis, "is no equation");
    refuses(wrong_result, "is no equation");
    refuses(wrong_count, "for 1 operands");
    refuses(wrong_axis, "axis 2 of an array with 2 dimensions");
    refuses(wrong_negative_axis, "axis -3");
    refuses(wrong_rate, "dropout: the rate 1");
    refuses(wrong_bias, "the bias has 2 dimensions");
    refuses(wrong_scale, "a vector is needed");
    refuses(wrong_heads, "attention: query [batch, length");
    refuses(wrong_rotary, "rotary: x is not");
    refuses(wrong_labels, "need labels of 0");
    refuses(wrong_weights, "he_normal: weights need");
    refuses(wrong_inputs, "he_normal: 2 of 2 dimensions cannot be the inputs");
    refuses(wrong_block, "a vector is needed");
}

// The step's results had no sharding, so that new weights came out whole.
Test(nn, results_of_a_training_step_are_sharded_as_their_weights) {
    HloModule *module = hlo_module_new("sharded");
    HloComputation *loss = build_loss(module), *step = NULL;
    const HloTrainingOptions options = {.gradient = {.wrt = HLO_DIMS(0, 1)},
                                        .optimizer = hlo_optimizer(HLO_OPTIMIZER_ADAM)};
    const char *const wanted = "{devices=[2,1]<=[2]}";
    HloText text = {0};
    succeeded("sharding",
              hlo_parse_sharding(module->arena, wanted, strlen(wanted), &loss->parameters.items[0]->sharding));
    succeeded("step", hlo_training_step(loss, &options, &step));
    cr_assert_not_null(step->root->sharding);
    hlo_sharding_print(&text, step->root->sharding);
    cr_expect_str_eq(text.data,
                     "{{devices=[2,1]<=[2]}, {unknown}, {devices=[2,1]<=[2]}, {unknown}, {devices=[2,1]<=[2]}, "
                     "/*index=5*/{unknown}, {unknown}, {unknown}}");
    hlo_text_free(&text);
    hlo_module_free(module);
}

// bug: an infinite rate, an optimiser without a number and a policy that does not exist were taken.
Test(nn, wrong_optimisers_are_named) {
    HloModule *module = hlo_module_new("wrong");
    HloComputation *loss = build_loss(module), *step = NULL;
    const HloTrainingOptions adam = {.optimizer = hlo_optimizer(HLO_OPTIMIZER_ADAM)};
    HloTrainingOptions wrong[] = {adam, adam, adam, adam, adam};
    wrong[0].optimizer.beta2 = NAN;
    wrong[1].optimizer.learning_rate = INFINITY;
    wrong[2].optimizer.kind = HLO_OPTIMIZER_COUNT;
    wrong[3].gradient.wrt = HLO_DIMS(7);
    wrong[4].gradient.remat = (HloRemat)99;
    static const char *const kSaid[] = {"beta2", "the learning rate is inf", "no optimizer", "no parameter 7",
                                        "no rematerialisation policy 99"};
    for (size_t i = 0; i < HLO_COUNT_OF(wrong); i++) {
        HloStatus status = hlo_training_step(loss, &wrong[i], &step);
        cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", kSaid[i]);
        cr_expect(strstr(hlo_status_message(status), kSaid[i]), "%s", hlo_status_message(status));
        hlo_status_free(status);
    }
    hlo_module_free(module);
}
