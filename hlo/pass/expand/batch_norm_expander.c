// SPDX-License-Identifier: Apache-2.0
// Expands batch normalisation to plain arithmetic. Means and variances are taken over all dimensions except the feature
// dimension; the variance is computed from the differences from the mean (more accurate than from the mean of squares).
//
// The definitions are those of XLA's operation semantics (BatchNormTraining, BatchNormInference, BatchNormGrad): the
// variance is that of a population (divided by n, not n - 1), epsilon is added under the root. If a dimension of the
// batch is dynamic, the number of elements is computed at run time, and the masks that the dynamic padder adds to the
// sums exclude the elements beyond the size.
#include "hlo/pass/support.h"

typedef struct Norm {
    HloInstruction *like;
    HloInstruction *x;
    HloInts dims;     // of x
    HloInts reduced;  // all dimensions except the feature dimension
    int64_t feature;
    double count;  // number of elements per mean, without dimensions of dynamic size
    HloType type;
} Norm;

// Collects the properties of the op that all three expansions need: the averaged dimensions, and the number of
// elements.
static Norm describe(HloInstruction *i) {
    const HloBatchNormAttributes *attributes = HLO_ATTRIBUTES(i, BatchNorm);
    Norm norm = {.like = i, .x = i->operands[0], .feature = attributes->feature_index, .count = 1};
    norm.dims = hlo_shape_dims(norm.x->shape);
    norm.type = norm.x->shape->type;
    int64_t *reduced = hlo_pass_ints(i, norm.dims.count), count = 0;
    for (int64_t d = 0; d < norm.dims.count; d++) {
        if (d == norm.feature) continue;
        reduced[count++] = d;
        if (!hlo_shape_dimension_is_dynamic(norm.x->shape, d)) norm.count *= (double)norm.dims.items[d];
    }
    norm.reduced = (HloInts){reduced, count};
    return norm;
}

// A vector of features repeated to the size of x.
static HloInstruction *spread(const Norm *norm, HloInstruction *vector) {
    return hlo_pass_broadcast(norm->like, vector, norm->dims, HLO_DIMS(norm->feature));
}

// Shorthands, so that the expansions below read like formulas.
static HloInstruction *op(const Norm *norm, HloOpcode opcode, HloInstruction *a, HloInstruction *b) {
    return hlo_pass_binary(norm->like, opcode, a, b);
}

// A number repeated to the size of `as`.
static HloInstruction *constant(const Norm *norm, const HloInstruction *as, double value) {
    return hlo_pass_splat(norm->like, as->shape->type, hlo_shape_dims(as->shape), value);
}

// The number of elements per mean, for every feature: only elements within the size of x are counted.
static HloInstruction *counted(const Norm *norm, const HloInstruction *as) {
    HloInstruction *count = NULL;
    for (int64_t d = 0; d < norm->dims.count; d++) {
        if (d == norm->feature || !hlo_shape_dimension_is_dynamic(norm->x->shape, d)) continue;
        HloInstruction *size =
            hlo_pass_make(norm->like, &(HloBuildRequest){.opcode = HLO_OP_GET_DIMENSION_SIZE,
                                                         .operands = &norm->like->operands[0],
                                                         .operand_count = 1,
                                                         .attributes = &(HloDimensionsAttributes){HLO_DIMS(d)}});
        size = hlo_pass_convert(norm->like, size, norm->type);
        count = count ? op(norm, HLO_OP_MULTIPLY, count, size) : size;
    }
    if (!count) return constant(norm, as, norm->count);
    count = op(norm, HLO_OP_MULTIPLY, count, hlo_pass_scalar(norm->like, norm->type, norm->count));
    return hlo_pass_broadcast(norm->like, count, hlo_shape_dims(as->shape), (HloInts){NULL, 0});
}

// The computation add(a, b) on two scalars, created once per module.
static HloComputation *adder(const Norm *norm) {
    HloModule *module = norm->like->parent->module;
    HloComputation *known = hlo_computation_find_binary(module, HLO_OP_ADD, norm->type);
    if (known) return known;
    return hlo_computation_new_binary(module, "add", HLO_OP_ADD, hlo_shape_scalar(module->arena, norm->type), NULL);
}

// The sums of x over all dimensions except the feature dimension: a vector of features.
static HloInstruction *sum(const Norm *norm, HloInstruction *x) {
    HloComputation *add = adder(norm);
    HloInstruction *operands[] = {x, hlo_pass_scalar(norm->like, norm->type, 0)};
    return hlo_pass_make(norm->like, &(HloBuildRequest){.opcode = HLO_OP_REDUCE,
                                                        .operands = operands,
                                                        .operand_count = 2,
                                                        .attributes = &(HloDimensionsAttributes){norm->reduced},
                                                        .called = &add,
                                                        .called_count = 1});
}

// The means over the same dimensions; 0/0 is NaN for an empty batch, as in XLA.
static HloInstruction *mean(const Norm *norm, HloInstruction *x) {
    HloInstruction *total = sum(norm, x);
    return op(norm, HLO_OP_DIVIDE, total, counted(norm, total));
}

// variance + epsilon, a vector.
static HloInstruction *shifted(const Norm *norm, HloInstruction *variance) {
    double epsilon = (double)HLO_ATTRIBUTES(norm->like, BatchNorm)->epsilon;
    return op(norm, HLO_OP_ADD, variance, constant(norm, variance, epsilon));
}

// differences * 1/sqrt(variance + epsilon) * scale + offset.
static HloInstruction *normalize(const Norm *norm, HloInstruction *differences, HloInstruction *variance,
                                 HloInstruction *scale, HloInstruction *offset) {
    HloInstruction *factor = hlo_pass_unary(norm->like, HLO_OP_RSQRT, shifted(norm, variance));
    HloInstruction *unit = op(norm, HLO_OP_MULTIPLY, differences, spread(norm, factor));
    return op(norm, HLO_OP_ADD, op(norm, HLO_OP_MULTIPLY, unit, spread(norm, scale)), spread(norm, offset));
}

// (normalised x, mean, variance). The differences are used twice, for the variance and for the result, so that the mean
// is subtracted only once.
static HloInstruction *expand_training(HloInstruction *i) {
    Norm norm = describe(i);
    HloInstruction *average = mean(&norm, norm.x);
    HloInstruction *differences = op(&norm, HLO_OP_SUBTRACT, norm.x, spread(&norm, average));
    HloInstruction *variance = mean(&norm, op(&norm, HLO_OP_MULTIPLY, differences, differences));
    HloInstruction *results[] = {normalize(&norm, differences, variance, i->operands[1], i->operands[2]), average,
                                 variance};
    return hlo_pass_tuple(i, results, 3);
}

// As in training, with the mean and the variance computed by the training.
static HloInstruction *expand_inference(HloInstruction *i) {
    Norm norm = describe(i);
    HloInstruction *differences = op(&norm, HLO_OP_SUBTRACT, norm.x, spread(&norm, i->operands[3]));
    return normalize(&norm, differences, i->operands[4], i->operands[1], i->operands[2]);
}

// With r = 1/sqrt(variance + epsilon) and d = x - mean, for n elements per feature:
//   offset' = sum g, scale' = r sum g d, x' = scale r (g - (sum g)/n - d r^2 (sum g d)/n).
static HloInstruction *expand_grad(HloInstruction *i) {
    Norm norm = describe(i);
    HloInstruction *scale = i->operands[1], *gradient = i->operands[4];
    HloInstruction *differences = op(&norm, HLO_OP_SUBTRACT, norm.x, spread(&norm, i->operands[2]));
    HloInstruction *factor = hlo_pass_unary(i, HLO_OP_RSQRT, shifted(&norm, i->operands[3]));
    HloInstruction *total = sum(&norm, gradient);
    HloInstruction *weighted = sum(&norm, op(&norm, HLO_OP_MULTIPLY, gradient, differences));
    HloInstruction *n = counted(&norm, total);
    HloInstruction *slope =
        op(&norm, HLO_OP_DIVIDE, op(&norm, HLO_OP_DIVIDE, weighted, n), shifted(&norm, i->operands[3]));
    HloInstruction *centred = op(&norm, HLO_OP_SUBTRACT, gradient, spread(&norm, op(&norm, HLO_OP_DIVIDE, total, n)));
    HloInstruction *bent = op(&norm, HLO_OP_MULTIPLY, differences, spread(&norm, slope));
    HloInstruction *results[] = {op(&norm, HLO_OP_MULTIPLY, spread(&norm, op(&norm, HLO_OP_MULTIPLY, scale, factor)),
                                    op(&norm, HLO_OP_SUBTRACT, centred, bent)),
                                 op(&norm, HLO_OP_MULTIPLY, weighted, factor), total};
    return hlo_pass_tuple(i, results, 3);
}

// All operands must have one float type, in which everything is computed: XLA allows mixtures here, but does not
// specify the rounding of intermediate values.
static bool expand(HloInstruction *i) {
    bool known = i->opcode == HLO_OP_BATCH_NORM_TRAINING || i->opcode == HLO_OP_BATCH_NORM_INFERENCE ||
                 i->opcode == HLO_OP_BATCH_NORM_GRAD;
    if (!known || !hlo_pass_may_replace(i)) return false;
    for (int64_t k = 0; k < i->operand_count; k++) {
        const HloShape *shape = i->operands[k]->shape;
        if (shape->type != i->operands[0]->shape->type) return false;
        // Vectors of features are static, and so is x along that dimension.
        const int64_t feature = shape->rank == 1 ? 0 : HLO_ATTRIBUTES(i, BatchNorm)->feature_index;
        if (hlo_shape_dimension_is_dynamic(shape, feature)) return false;
    }
    HloInstruction *result = i->opcode == HLO_OP_BATCH_NORM_TRAINING    ? expand_training(i)
                             : i->opcode == HLO_OP_BATCH_NORM_INFERENCE ? expand_inference(i)
                                                                        : expand_grad(i);
    return hlo_pass_replace(i, result);
}

HloStatus hlo_pass_batch_norm_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));) {
        *changed |= expand(i);
    }
    return HLO_SUCCESS;
}
