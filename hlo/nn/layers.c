// SPDX-License-Identifier: Apache-2.0
// Activations, normalisation, attention and losses. The formulas are those of jax.nn 0.10.2, flax and optax, so that a
// network written here and its twin in JAX give the same numbers up to rounding.
#include <math.h>
#include <stdio.h>

#include "hlo/nn/internal.h"
#include "hlo/transform/transform.h"

HloInstruction *hlo_nn_refuse(HloBuilder *builder, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    hlo_builder_fail(builder, hlo_error(HLO_INVALID_ARGUMENT, "%s", message));
    return NULL;
}

int64_t hlo_nn_axis(HloBuilder *builder, const HloInstruction *x, int64_t axis) {
    const int64_t rank = x->shape->rank, from_front = axis < 0 ? axis + rank : axis;
    if (from_front >= 0 && from_front < rank) return from_front;
    hlo_nn_refuse(builder, "axis %lld of an array with %lld dimensions", (long long)axis, (long long)rank);
    return -1;
}

// ---- pieces

// `reduced`, which lacks one axis of `like`, repeated along it.
static HloInstruction *spread(HloBuilder *builder, HloInstruction *reduced, const HloInstruction *like, int64_t axis) {
    return hlo_build_spread(builder, reduced, hlo_build_dims(like), HLO_DIMS(axis));
}

HloInstruction *hlo_nn_spread_last(HloBuilder *builder, HloInstruction *vector, const HloInstruction *like) {
    if (!vector || !like) return NULL;
    if (vector->shape->rank != 1 || like->shape->rank < 1 ||
        vector->shape->dims[0] != like->shape->dims[like->shape->rank - 1])
        return hlo_nn_refuse(builder, "a vector is needed for each element of the last axis");
    return hlo_build_broadcast(builder, vector, hlo_build_dims(like), HLO_DIMS(like->shape->rank - 1));
}

static HloInstruction *reduce(HloBuilder *builder, HloOpcode opcode, HloInstruction *x, int64_t axis) {
    return hlo_build_reduce_op(builder, opcode, x, HLO_DIMS(axis));
}

// x less its greatest element along the axis: exp() of it cannot overflow. The choice of the subtrahend changes no
// result, so no derivative goes through it.
static HloInstruction *shift(HloBuilder *builder, HloInstruction *x, int64_t axis) {
    HloInstruction *greatest = hlo_build_stop_gradient(builder, reduce(builder, HLO_OP_MAXIMUM, x, axis));
    return hlo_build_sub(builder, x, spread(builder, greatest, x, axis));
}

HloInstruction *hlo_nn_mean(HloBuilder *builder, HloInstruction *x, HloInts axes) {
    int64_t positions[HLO_MAXIMUM_RANK], elements = 1;
    if (!x) return NULL;
    if (axes.count > x->shape->rank) return hlo_nn_refuse(builder, "mean: more axes than dimensions");
    for (int64_t i = 0; i < axes.count; i++) {
        positions[i] = hlo_nn_axis(builder, x, axes.items[i]);
        if (positions[i] < 0) return NULL;
        elements *= x->shape->dims[positions[i]];
    }
    HloInstruction *sum = hlo_build_reduce_op(builder, HLO_OP_ADD, x, (HloInts){positions, axes.count});
    return hlo_build_with_number(builder, hlo_build_div, sum, (double)elements);
}

HloInstruction *hlo_nn_logsumexp(HloBuilder *builder, HloInstruction *x, int64_t axis) {
    if (!x || (axis = hlo_nn_axis(builder, x, axis)) < 0) return NULL;
    // An infinite maximum would make NaN of infinity - infinity; then 0 is subtracted, as in jax.nn.logsumexp.
    HloInstruction *greatest = reduce(builder, HLO_OP_MAXIMUM, x, axis);
    if (!greatest) return NULL;
    greatest = hlo_build_select(builder, hlo_build_is_finite(builder, greatest), greatest,
                                hlo_build_splat_like(builder, greatest, 0));
    greatest = hlo_build_stop_gradient(builder, greatest);
    HloInstruction *shifted = hlo_build_sub(builder, x, spread(builder, greatest, x, axis));
    HloInstruction *sum = reduce(builder, HLO_OP_ADD, hlo_build_exp(builder, shifted), axis);
    return hlo_build_add(builder, hlo_build_log(builder, sum), greatest);
}

// ---- activations

// max(x, 0), with the derivative of x where x is greater than 0 (GT) or at least 0 (GE), and none elsewhere; max()
// alone would give half of it at 0. It is the max that carries NaN on.
static HloInstruction *positive_part(HloBuilder *builder, HloInstruction *x, int32_t direction) {
    if (!x) return NULL;
    HloInstruction *zero = hlo_build_splat_like(builder, x, 0);
    HloInstruction *other = hlo_build_stop_gradient(builder, hlo_build_max(builder, x, zero));
    return hlo_build_select(builder, hlo_build_compare(builder, x, zero, direction), x, other);
}

HloInstruction *hlo_nn_relu(HloBuilder *builder, HloInstruction *x) {
    return positive_part(builder, x, HLO_ComparisonDirection_GT);
}

HloInstruction *hlo_nn_gelu(HloBuilder *builder, HloInstruction *x, bool approximate) {
    if (!x) return NULL;
    HloInstruction *inner;
    if (approximate) {
        HloInstruction *cube = hlo_build_mul(builder, hlo_build_mul(builder, x, x), x);
        inner = hlo_build_add(builder, x, hlo_build_with_number(builder, hlo_build_mul, cube, 0.044715));
        inner = hlo_build_tanh(builder,
                               hlo_build_with_number(builder, hlo_build_mul, inner, sqrt(2 / 3.14159265358979323846)));
    } else {
        inner = hlo_build_erf(builder, hlo_build_with_number(builder, hlo_build_mul, x, sqrt(0.5)));
    }
    HloInstruction *share = hlo_build_with_number(builder, hlo_build_add, inner, 1);
    return hlo_build_mul(builder, x, hlo_build_with_number(builder, hlo_build_mul, share, 0.5));
}

HloInstruction *hlo_nn_silu(HloBuilder *builder, HloInstruction *x) {
    return x ? hlo_build_mul(builder, x, hlo_build_logistic(builder, x)) : NULL;
}

// max(x, 0) + log1p(exp(-|x|)), as jnp.logaddexp(x, 0): exact for large |x|. At 0 the first term has the derivative 1,
// as abs() has, so that the sum has the right one, 1/2.
HloInstruction *hlo_nn_softplus(HloBuilder *builder, HloInstruction *x) {
    if (!x) return NULL;
    HloInstruction *small = hlo_build_exp(builder, hlo_build_negate(builder, hlo_build_abs(builder, x)));
    HloInstruction *part = positive_part(builder, x, HLO_ComparisonDirection_GE);
    return hlo_build_add(builder, part, hlo_build_log1p(builder, small));
}

HloInstruction *hlo_nn_softmax(HloBuilder *builder, HloInstruction *x, int64_t axis) {
    if (!x || (axis = hlo_nn_axis(builder, x, axis)) < 0) return NULL;
    HloInstruction *powers = hlo_build_exp(builder, shift(builder, x, axis));
    return hlo_build_div(builder, powers, spread(builder, reduce(builder, HLO_OP_ADD, powers, axis), x, axis));
}

HloInstruction *hlo_nn_log_softmax(HloBuilder *builder, HloInstruction *x, int64_t axis) {
    if (!x || (axis = hlo_nn_axis(builder, x, axis)) < 0) return NULL;
    HloInstruction *shifted = shift(builder, x, axis);
    HloInstruction *sum = reduce(builder, HLO_OP_ADD, hlo_build_exp(builder, shifted), axis);
    return hlo_build_sub(builder, shifted, spread(builder, hlo_build_log(builder, sum), x, axis));
}

HloInstruction *hlo_nn_dropout(HloBuilder *builder, HloRandomForm form, HloInstruction *key, HloInstruction *x,
                               double rate) {
    if (!x || !key) return NULL;
    if (!(rate >= 0 && rate < 1)) return hlo_nn_refuse(builder, "dropout: the rate %g is not in 0 <= rate < 1", rate);
    HloInstruction *keep = hlo_random_bernoulli(builder, form, key, hlo_build_dims(x), 1 - rate);
    return hlo_build_select(builder, keep, hlo_build_with_number(builder, hlo_build_div, x, 1 - rate),
                            hlo_build_splat_like(builder, x, 0));
}

// ---- normalisation

// x / sqrt(mean(x^2) + epsilon) over the last axis.
static HloInstruction *over_root_mean_square(HloBuilder *builder, HloInstruction *x, double epsilon) {
    if (!x) return NULL;
    const int64_t last = x->shape->rank - 1;
    HloInstruction *square = hlo_nn_mean(builder, hlo_build_mul(builder, x, x), HLO_DIMS(last));
    HloInstruction *inverse = hlo_build_rsqrt(builder, hlo_build_with_number(builder, hlo_build_add, square, epsilon));
    return hlo_build_mul(builder, x, spread(builder, inverse, x, last));
}

HloInstruction *hlo_nn_layer_norm(HloBuilder *builder, HloInstruction *x, HloInstruction *scale, HloInstruction *offset,
                                  double epsilon) {
    const int64_t last = x ? hlo_nn_axis(builder, x, -1) : -1;
    if (last < 0) return NULL;
    HloInstruction *mean = hlo_nn_mean(builder, x, HLO_DIMS(last));
    x = over_root_mean_square(builder, hlo_build_sub(builder, x, spread(builder, mean, x, last)), epsilon);
    if (scale) x = hlo_build_mul(builder, x, hlo_nn_spread_last(builder, scale, x));
    return offset ? hlo_build_add(builder, x, hlo_nn_spread_last(builder, offset, x)) : x;
}

HloInstruction *hlo_nn_rms_norm(HloBuilder *builder, HloInstruction *x, HloInstruction *scale, double epsilon) {
    if (!x || hlo_nn_axis(builder, x, -1) < 0) return NULL;
    x = over_root_mean_square(builder, x, epsilon);
    return scale ? hlo_build_mul(builder, x, hlo_nn_spread_last(builder, scale, x)) : x;
}

// ---- contractions

HloInstruction *hlo_nn_dense(HloBuilder *builder, HloInstruction *x, HloInstruction *w, HloInstruction *bias) {
    int64_t mapping[HLO_MAXIMUM_RANK];
    if (!x || !w || hlo_nn_axis(builder, x, -1) < 0 || hlo_nn_axis(builder, w, 0) < 0) return NULL;
    const int64_t kept = x->shape->rank - 1;
    const HloDotAttributes attributes = {.lhs_contracting = HLO_DIMS(kept), .rhs_contracting = HLO_DIMS(0)};
    HloInstruction *product = hlo_build_dot(builder, x, w, &attributes, HLO_INVALID);
    if (!product || !bias) return product;
    if (bias->shape->rank != w->shape->rank - 1)
        return hlo_nn_refuse(builder, "dense: the bias has %d dimensions, the weights have %d outputs",
                             bias->shape->rank, w->shape->rank - 1);
    for (int64_t d = 0; d < bias->shape->rank; d++) mapping[d] = kept + d;
    HloInts along = {mapping, bias->shape->rank};
    return hlo_build_add(builder, product, hlo_build_broadcast(builder, bias, hlo_build_dims(product), along));
}

HloInstruction *hlo_nn_embedding(HloBuilder *builder, HloInstruction *table, HloInstruction *rows) {
    int64_t offsets[HLO_MAXIMUM_RANK], sizes[HLO_MAXIMUM_RANK];
    if (!table || !rows || hlo_nn_axis(builder, table, 0) < 0) return NULL;
    const int32_t rank = rows->shape->rank, features = table->shape->rank - 1;
    if (rank + features > HLO_MAXIMUM_RANK) return hlo_nn_refuse(builder, "embedding: too many dimensions");
    sizes[0] = 1;
    for (int32_t d = 0; d < features; d++) {
        offsets[d] = rank + d;
        sizes[d + 1] = table->shape->dims[d + 1];
    }
    const HloGatherAttributes attributes = {.offset_dims = {offsets, features},
                                            .collapsed_slice_dims = HLO_DIMS(0),
                                            .start_index_map = HLO_DIMS(0),
                                            .index_vector_dim = rank,
                                            .slice_sizes = {sizes, features + 1}};
    return hlo_build_gather(builder, table, rows, &attributes);
}

// ---- attention

// pred[length, positions]: whether position i sees position j.
static HloInstruction *causal_mask(HloBuilder *builder, const HloInstruction *logits) {
    const int64_t rank = logits->shape->rank;
    HloInts dims = hlo_build_dims(logits);
    HloInstruction *row = hlo_build_iota(builder, HLO_S32, dims, rank - 2);
    HloInstruction *column = hlo_build_iota(builder, HLO_S32, dims, rank - 1);
    return hlo_build_compare(builder, row, column, HLO_ComparisonDirection_GE);
}

static bool check_attention(HloBuilder *builder, const HloShape *query, const HloShape *key, const HloShape *value) {
    const bool fits = query->rank == 4 && key->rank == 4 && hlo_shape_equal(key, value, HLO_COMPARE_IGNORE_LAYOUT) &&
                      query->dims[0] == key->dims[0] && query->dims[3] == key->dims[3] && key->dims[2] > 0 &&
                      query->dims[2] % key->dims[2] == 0;
    if (!fits)
        hlo_nn_refuse(builder,
                      "attention: query [batch, length, heads, features] and key and value [batch, positions, "
                      "groups, features] do not fit, where heads is a multiple of groups");
    return fits;
}

// Heads that share a group of keys and values are one dimension of the products.
HloInstruction *hlo_nn_attention(HloBuilder *builder, HloInstruction *query, HloInstruction *key, HloInstruction *value,
                                 bool causal, double scale) {
    if (!query || !key || !value || !check_attention(builder, query->shape, key->shape, value->shape)) return NULL;
    const int64_t *q = query->shape->dims, groups = key->shape->dims[2];
    const HloType type = query->shape->type;
    HloInts dims = HLO_DIMS(q[0], q[1], q[2], q[3]);
    HloInstruction *grouped = hlo_build_reshape(builder, query, HLO_DIMS(q[0], q[1], groups, q[2] / groups, q[3]));
    const HloDotAttributes products = {.lhs_batch = HLO_DIMS(0, 2),
                                       .rhs_batch = HLO_DIMS(0, 2),
                                       .lhs_contracting = HLO_DIMS(4),
                                       .rhs_contracting = HLO_DIMS(3)};
    // [batch, groups, length, heads of a group, positions]; the mask wants length beside positions.
    HloInstruction *logits = hlo_build_dot(builder, grouped, key, &products, HLO_F32);
    logits = hlo_build_transpose(builder, logits, HLO_DIMS(0, 1, 3, 2, 4));
    logits = hlo_build_with_number(builder, hlo_build_mul, logits, scale ? scale : 1 / sqrt((double)q[3]));
    if (causal && logits)
        logits = hlo_build_select(builder, causal_mask(builder, logits), logits,
                                  hlo_build_splat_like(builder, logits, -0.7 * 3.40282346638528859812e38));
    HloInstruction *weights = hlo_nn_softmax(builder, logits, -1);
    if (type != HLO_F32) weights = hlo_build_convert(builder, weights, type);
    HloInstruction *sums = hlo_nn_einsum(builder, "bghls,bsgf->blghf", 2, (HloInstruction *[]){weights, value});
    return hlo_build_reshape(builder, sums, dims);
}

// The angles are computed in f32, whatever the type of x: positions of thousands need its precision.
HloInstruction *hlo_nn_rotary(HloBuilder *builder, HloInstruction *x, double base) {
    if (!x) return NULL;
    if (x->shape->rank != 4 || x->shape->dims[3] % 2 || !(base > 0))
        return hlo_nn_refuse(builder,
                             "rotary: x is not [batch, length, heads, features] with even features, or the "
                             "base is not positive");
    const int64_t *d = x->shape->dims, half = d[3] / 2;
    HloInts plane = HLO_DIMS(d[1], half), dims = HLO_DIMS(d[0], d[1], d[2], half);
    HloInstruction *pair = hlo_build_iota(builder, HLO_F32, plane, 1);
    HloInstruction *power = hlo_build_with_number(builder, hlo_build_mul, pair, -2.0 / (double)d[3]);
    HloInstruction *rate = hlo_build_pow(builder, hlo_build_splat(builder, HLO_F32, plane, base), power);
    HloInstruction *angle = hlo_build_mul(builder, hlo_build_iota(builder, HLO_F32, plane, 0), rate);
    HloInstruction *turns[2] = {hlo_build_cos(builder, angle), hlo_build_sin(builder, angle)}, *parts[2], *turned[2];
    for (int64_t i = 0; i < 2; i++) {
        turns[i] = hlo_build_convert(builder, turns[i], x->shape->type);
        turns[i] = hlo_build_broadcast(builder, turns[i], dims, HLO_DIMS(1, 3));
        parts[i] = hlo_build_slice(builder, x, HLO_DIMS(0, 0, 0, i * half), HLO_DIMS(d[0], d[1], d[2], (i + 1) * half),
                                   HLO_DIMS());
    }
    turned[0] =
        hlo_build_sub(builder, hlo_build_mul(builder, parts[0], turns[0]), hlo_build_mul(builder, parts[1], turns[1]));
    turned[1] =
        hlo_build_add(builder, hlo_build_mul(builder, parts[1], turns[0]), hlo_build_mul(builder, parts[0], turns[1]));
    return hlo_build_concatenate(builder, turned, 2, 3);
}

// ---- layers of decoders

HloInstruction *hlo_nn_gated(HloBuilder *builder, HloInstruction *x, HloInstruction *gate, HloInstruction *up,
                             HloInstruction *down) {
    HloInstruction *share = hlo_nn_silu(builder, hlo_nn_dense(builder, x, gate, NULL));
    return hlo_nn_dense(builder, hlo_build_mul(builder, share, hlo_nn_dense(builder, x, up, NULL)), down, NULL);
}

static HloInstruction *self_attention(HloBuilder *builder, HloInstruction *x, const HloDecoderBlock *block) {
    HloInstruction *q = hlo_nn_dense(builder, x, block->query, NULL), *k = hlo_nn_dense(builder, x, block->key, NULL);
    if (block->rotary_base != 0) {
        q = hlo_nn_rotary(builder, q, block->rotary_base);
        k = hlo_nn_rotary(builder, k, block->rotary_base);
    }
    HloInstruction *y = hlo_nn_attention(builder, q, k, hlo_nn_dense(builder, x, block->value, NULL), true, 0);
    return hlo_nn_einsum(builder, "bthf,hfd->btd", 2, (HloInstruction *[]){y, block->output});
}

HloInstruction *hlo_nn_decoder_block(HloBuilder *builder, HloInstruction *x, const HloDecoderBlock *block) {
    HloInstruction *y = hlo_nn_rms_norm(builder, x, block->attention_scale, block->epsilon);
    x = hlo_build_add(builder, x, self_attention(builder, y, block));
    y = hlo_nn_rms_norm(builder, x, block->hidden_scale, block->epsilon);
    return hlo_build_add(builder, x, hlo_nn_gated(builder, y, block->gate, block->up, block->down));
}

// ---- losses

// The logit of the label is picked by a mask instead of a gather: with the last axis sharded, each device masks its own
// part, and one sum of one number a label is exchanged.
HloInstruction *hlo_nn_cross_entropy(HloBuilder *builder, HloInstruction *logits, HloInstruction *labels) {
    int64_t mapping[HLO_MAXIMUM_RANK];
    const int64_t last = logits ? hlo_nn_axis(builder, logits, -1) : -1;
    if (last < 0 || !labels) return NULL;
    if (labels->shape->rank != last)
        return hlo_nn_refuse(builder, "cross entropy: logits of %lld dimensions need labels of %lld, not of %d",
                             (long long)last + 1, (long long)last, labels->shape->rank);
    for (int64_t d = 0; d < last; d++) mapping[d] = d;
    HloInts dims = hlo_build_dims(logits);
    HloInstruction *number = hlo_build_iota(builder, labels->shape->type, dims, last);
    HloInstruction *wanted = hlo_build_broadcast(builder, labels, dims, (HloInts){mapping, last});
    HloInstruction *mask = hlo_build_compare(builder, number, wanted, HLO_ComparisonDirection_EQ);
    HloInstruction *picked = hlo_build_select(builder, mask, logits, hlo_build_splat_like(builder, logits, 0));
    return hlo_build_sub(builder, hlo_nn_logsumexp(builder, logits, last), reduce(builder, HLO_OP_ADD, picked, last));
}
