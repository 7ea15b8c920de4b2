// SPDX-License-Identifier: Apache-2.0
// Neural networks as graphs: contractions, activations, normalisation, attention, losses and initial weights, on top of
// hlo/ir/builder.h; hlo/nn/optimizer.h turns a loss into a training step.
//
//     HloInstruction *hidden = hlo_nn_gelu(b, hlo_nn_einsum(b, "btd,df->btf", 2, (HloInstruction *[]){x, w}), true);
//     HloInstruction *loss = hlo_nn_mean(b, hlo_nn_cross_entropy(b, logits, labels), HLO_DIMS(0, 1));
//
// Each function computes what the function of the same name in jax.nn, jax.numpy or optax computes, by the same
// formula; where there are several, the comment says which. They follow the builder's rules: they append instructions,
// return the last one, and on an error return NULL while the builder keeps the error; NULL operands give NULL.
//
// Axes are numbered from 0; negative ones from the end, so that -1 is the last. Everything is differentiable by
// hlo/transform/transform.h, with JAX's derivatives: where JAX stops a gradient (the greatest logit of a softmax), so
// does this. One thread at a time may build a module. No function here allocates anything that the caller frees.
//
// Stability: experimental.
#ifndef MESHLO_HLO_NN_NN_H_
#define MESHLO_HLO_NN_NN_H_

#include "hlo/ir/builder.h"
#include "hlo/random/random.h"

HLO_BEGIN_C

// ---- contractions

// The sum of products that `equation` describes, one letter a dimension: "bthd,bshd->bhts". Letters that the result
// does not have are summed over; without "->" the result has, in alphabetical order, the letters that occur once.
// Operands are contracted from left to right. INVALID_ARGUMENT for malformed equations, ellipses, a letter twice in one
// operand, and sizes that differ.
HLO_EXPORT HloInstruction *hlo_nn_einsum(HloBuilder *builder, const char *equation, int64_t count,
                                         HloInstruction *const *operands);
// x w + bias: contracts the last dimension of x with the first of w; `bias` has the other dimensions of w, or is NULL.
HLO_EXPORT HloInstruction *hlo_nn_dense(HloBuilder *builder, HloInstruction *x, HloInstruction *w,
                                        HloInstruction *bias);
// Rows of `table`, [rows, features...], at the indices in `rows`, integers of any shape; indices out of range are
// clamped.
HLO_EXPORT HloInstruction *hlo_nn_embedding(HloBuilder *builder, HloInstruction *table, HloInstruction *rows);

// ---- reductions

// The mean over these axes, which the result lacks: jnp.mean.
HLO_EXPORT HloInstruction *hlo_nn_mean(HloBuilder *builder, HloInstruction *x, HloInts axes);
// log(sum(exp(x))) along an axis, which the result lacks; finite for large x.
HLO_EXPORT HloInstruction *hlo_nn_logsumexp(HloBuilder *builder, HloInstruction *x, int64_t axis);

// ---- activations

// max(x, 0), with derivative 0 at 0.
HLO_EXPORT HloInstruction *hlo_nn_relu(HloBuilder *builder, HloInstruction *x);
// x Phi(x): by tanh if `approximate` (the default of jax.nn.gelu), else by the error function.
HLO_EXPORT HloInstruction *hlo_nn_gelu(HloBuilder *builder, HloInstruction *x, bool approximate);
// x / (1 + exp(-x)).
HLO_EXPORT HloInstruction *hlo_nn_silu(HloBuilder *builder, HloInstruction *x);
// log(1 + exp(x)).
HLO_EXPORT HloInstruction *hlo_nn_softplus(HloBuilder *builder, HloInstruction *x);
// exp(x) / sum(exp(x)) along an axis.
HLO_EXPORT HloInstruction *hlo_nn_softmax(HloBuilder *builder, HloInstruction *x, int64_t axis);
// log(softmax(x)) along an axis.
HLO_EXPORT HloInstruction *hlo_nn_log_softmax(HloBuilder *builder, HloInstruction *x, int64_t axis);
// x with a part `rate` of its elements, drawn with `key`, set to 0 and the others divided by 1 - rate. 0 <= rate < 1.
HLO_EXPORT HloInstruction *hlo_nn_dropout(HloBuilder *builder, HloRandomForm form, HloInstruction *key,
                                          HloInstruction *x, double rate);

// ---- normalisation over the last axis

// (x - mean) / sqrt(variance + epsilon) * scale + offset; `scale` and `offset` are vectors or NULL. The variance is the
// mean of the squares of x - mean (flax.linen.LayerNorm with use_fast_variance=False).
HLO_EXPORT HloInstruction *hlo_nn_layer_norm(HloBuilder *builder, HloInstruction *x, HloInstruction *scale,
                                             HloInstruction *offset, double epsilon);
// x / sqrt(mean(x^2) + epsilon) * scale; `scale` is a vector or NULL (flax.linen.RMSNorm).
HLO_EXPORT HloInstruction *hlo_nn_rms_norm(HloBuilder *builder, HloInstruction *x, HloInstruction *scale,
                                           double epsilon);

// ---- attention

// Attention of `query` [batch, length, heads, features] to `key` and `value` [batch, positions, groups, features],
// where heads is a multiple of groups (fewer groups than heads: grouped queries). Logits and softmax are f32; `scale` 0
// means 1 / sqrt(features). `causal`: position i sees positions up to i. jax.nn.dot_product_attention.
HLO_EXPORT HloInstruction *hlo_nn_attention(HloBuilder *builder, HloInstruction *query, HloInstruction *key,
                                            HloInstruction *value, bool causal, double scale);
// Rotary position embedding of x [batch, length, heads, features], features even: feature pairs (i, i + features / 2)
// are rotated by position * base^(-2 i / features). Su et al., RoFormer, arXiv 2104.09864, with the halves of GPT-NeoX.
HLO_EXPORT HloInstruction *hlo_nn_rotary(HloBuilder *builder, HloInstruction *x, double base);

// ---- layers of decoders

// (silu(x gate) * (x up)) down, the gated feed-forward layer of Shazeer, arXiv 2002.05202: weights [width, hidden],
// [width, hidden] and [hidden, width].
HLO_EXPORT HloInstruction *hlo_nn_gated(HloBuilder *builder, HloInstruction *x, HloInstruction *gate,
                                        HloInstruction *up, HloInstruction *down);

// A block of a decoder in the form of Llama (Touvron et al., arXiv 2302.13971). The weights: query [width, heads,
// features]; key and value [width, groups, features]; output [heads, features, width]; those of hlo_nn_gated(); and a
// scale [width] for the normalisation before each half.
typedef struct HloDecoderBlock {
    HloInstruction *attention_scale, *query, *key, *value, *output;
    HloInstruction *hidden_scale, *gate, *up, *down;
    double epsilon;      // of the normalisations: hlo_nn_rms_norm()
    double rotary_base;  // of the positions: hlo_nn_rotary(); 0: none
} HloDecoderBlock;

// x + attention(normalised x), and to this y, y + gated(normalised y): x is [batch, length, width], and position i sees
// positions up to i.
HLO_EXPORT HloInstruction *hlo_nn_decoder_block(HloBuilder *builder, HloInstruction *x, const HloDecoderBlock *block);

// ---- losses

// The cross entropy of softmax(logits) along the last axis and integer labels of the other axes, one number a label:
// optax.softmax_cross_entropy_with_integer_labels.
HLO_EXPORT HloInstruction *hlo_nn_cross_entropy(HloBuilder *builder, HloInstruction *logits, HloInstruction *labels);

// ---- initial weights

typedef enum HloInitializer {
#define HLO_INITIALIZER(name, text, scale, fan, distribution) HLO_INITIALIZER_##name,
#include "hlo/nn/initializers.def"
#undef HLO_INITIALIZER
    HLO_INITIALIZER_COUNT
} HloInitializer;

// The initialiser's name in jax.nn.initializers ("glorot_uniform"). Static storage, any thread.
HLO_EXPORT const char *hlo_initializer_name(HloInitializer initializer);
// Random weights of a floating-point type, scaled by the number of inputs and outputs: the last dimension counts
// outputs, the one before inputs, the others are receptive fields (jax.nn.initializers). At least two dimensions.
HLO_EXPORT HloInstruction *hlo_nn_initial(HloBuilder *builder, HloRandomForm form, HloInitializer initializer,
                                          HloInstruction *key, HloType type, HloInts dims);
// The same for weights as hlo_nn_dense() takes them: the first `inputs` dimensions are inputs, the others outputs
// (in_axis and out_axis of jax.nn.initializers).
HLO_EXPORT HloInstruction *hlo_nn_initial_dense(HloBuilder *builder, HloRandomForm form, HloInitializer initializer,
                                                HloInstruction *key, HloType type, HloInts dims, int64_t inputs);

HLO_END_C

#endif
