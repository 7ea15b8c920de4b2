// SPDX-License-Identifier: Apache-2.0
// Steps of random_module() that multiply and sum: products, convolutions, transforms, decompositions, normalisations.
// Sums of floats are scaled so that values stay bounded.
#include "tests/support/random_internal.h"

static bool is_inexact(HloType type) {
    return hlo_type_is_float(type) || hlo_type_is_complex(type);
}

// The type of a product of these: sometimes a wider one.
static HloType product_type(Generator *g, HloType type) {
    const bool narrow = hlo_type_bytes(type) < 4 && !hlo_type_is_complex(type);
    if (!narrow || random_chance(g, 30)) return type;
    if (hlo_type_is_float(type)) return HLO_F32;
    return hlo_type_kind(type) == HLO_KIND_SIGNED ? HLO_S32 : HLO_U32;
}

static HloType factor_type(Generator *g) {
    static const HloType types[] = {HLO_F32, HLO_F32, HLO_F32, HLO_F64,  HLO_BF16, HLO_BF16,     HLO_F16,
                                    HLO_S8,  HLO_S8,  HLO_U8,  HLO_S32,  HLO_S64,  HLO_S16,      HLO_U32,
                                    HLO_S4,  HLO_C64, HLO_C64, HLO_C128, HLO_U64,  HLO_F8E4M3FN, HLO_F8E5M2};
    HloType type;
    do {
        type = types[random_below(g, HLO_COUNT_OF(types))];
    } while (g->exact && is_inexact(type));
    return type;
}

// ---- products

// A factor's dimensions: shared with the other one as batch or to sum over, or its own; in random order.
typedef struct Factor {
    Value value;
    int64_t batch[2], contracting[2];
} Factor;

static Factor make_factor(Generator *g, HloType type, const int64_t *shared, int batches, int summed, int own) {
    Factor factor = {.value = {.type = type, .rank = batches + summed + own, .exact = true}};
    int64_t places[kMaximumRank];
    random_permutation(g, places, factor.value.rank);
    for (int i = 0; i < factor.value.rank; i++) {
        const bool mine = i >= batches + summed;
        factor.value.dims[places[i]] = mine ? random_below(g, random_is_large(g) ? 200 : 12) : shared[i];
        if (i < batches)
            factor.batch[i] = places[i];
        else if (!mine)
            factor.contracting[i - batches] = places[i];
    }
    return factor;
}

static int append_own(Value *out, const Factor *factor, int batches, int summed) {
    for (int d = 0; d < factor->value.rank; d++) {
        bool mine = true;
        for (int i = 0; i < batches; i++) mine &= factor->batch[i] != d;
        for (int i = 0; i < summed; i++) mine &= factor->contracting[i] != d;
        if (mine) out->dims[out->rank++] = factor->value.dims[d];
    }
    return out->rank;
}

// A product of any form of two arrays.
void random_dot(Generator *g) {
    const HloType type = factor_type(g);
    const int batches = (int)random_below(g, 3), summed = (int)random_below(g, 3);
    int64_t shared[4];
    for (int i = 0; i < batches + summed; i++)
        shared[i] = random_chance(g, 4) ? 0 : random_size(g, i < batches ? 4 : random_is_large(g) ? 90 : 9);
    const Factor left = make_factor(g, type, shared, batches, summed, (int)random_below(g, 3)),
                 right = make_factor(g, type, shared, batches, summed, (int)random_below(g, 2));
    Value out = {.type = product_type(g, type), .rank = batches, .exact = !is_inexact(type)};
    for (int i = 0; i < batches; i++) out.dims[i] = shared[i];
    append_own(&out, &left, batches, summed);
    append_own(&out, &right, batches, summed);
    if (random_elements(&out) > g->most_elements || random_elements(&left.value) > g->most_elements ||
        random_elements(&right.value) > g->most_elements) {
        return;
    }
    const int a = random_partner(g, left.value), b = random_partner(g, right.value);
    out.exact = out.exact && g->values[a].exact && g->values[b].exact;
    const int result = random_begin(g, out);
    hlo_text_format(g->text, "dot(v%d, v%d), ", a, b);
    random_print_list(g->text, "lhs_batch_dims=", left.batch, batches);
    random_print_list(g->text, ", lhs_contracting_dims=", left.contracting, summed);
    random_print_list(g->text, ", rhs_batch_dims=", right.batch, batches);
    random_print_list(g->text, ", rhs_contracting_dims=", right.contracting, summed);
    if (random_chance(g, 20)) hlo_text_string(g->text, ", operand_precision={highest,highest}");
    hlo_text_char(g->text, '\n');
    if (is_inexact(type)) random_scaled(g, result, "0.015625");
}

// Sizes of groups that need not fill the dimension of so many elements, as a value s32[groups].
static int group_sizes(Generator *g, int64_t groups, int64_t elements) {
    const Value form = {.type = HLO_S32, .rank = 1, .dims = {groups}, .exact = true};
    const int number = random_begin(g, form);
    hlo_text_string(g->text, "constant({");
    for (int64_t i = 0; i < groups; i++) {
        const int64_t size = random_below(g, elements + 1);
        elements -= size;
        hlo_text_format(g->text, "%s%d", i ? ", " : "", (int)size);
    }
    hlo_text_string(g->text, "})\n");
    return number;
}

// A product in groups of rows, of columns that are summed over, or of batches.
void random_ragged_dot(Generator *g) {
    static const HloType types[] = {HLO_F32, HLO_F32, HLO_BF16, HLO_F64, HLO_S32, HLO_S8};
    const HloType type = types[random_below(g, HLO_COUNT_OF(types))];
    if (g->exact && is_inexact(type)) return;
    enum { ROWS, SUMMED, BATCHES };
    const int mode = (int)random_below(g, 3), batches = mode == BATCHES || random_chance(g, 30);
    const int64_t groups = random_size(g, 4), batch = random_size(g, 5), rows = random_size(g, 9),
                  summed = random_size(g, 9), columns = random_size(g, 6);
    const int64_t left_dims[] = {batch, rows, summed}, right_dims[] = {batch, summed, columns};
    Value left = {.type = type, .exact = true}, right = left, out = left;
    for (int d = !batches; d < 3; d++) left.dims[left.rank++] = left_dims[d];
    if (mode == ROWS) right.dims[right.rank++] = groups;
    for (int d = !batches; d < 3; d++) right.dims[right.rank++] = right_dims[d];
    if (mode == SUMMED) out.dims[out.rank++] = groups;
    if (batches) out.dims[out.rank++] = batch;
    out.dims[out.rank++] = rows;
    out.dims[out.rank++] = columns;
    const int64_t ragged[] = {rows, summed, batch};
    const int a = random_partner(g, left), b = random_partner(g, right), sizes = group_sizes(g, groups, ragged[mode]);
    out.exact = !is_inexact(type) && g->values[a].exact && g->values[b].exact;
    const int shift = mode == ROWS;  // the groups precede the other dimensions
    const int result = random_begin(g, out);
    hlo_text_format(g->text, "ragged-dot(v%d, v%d, v%d)", a, b, sizes);
    if (batches) hlo_text_format(g->text, ", lhs_batch_dims={0}, rhs_batch_dims={%d}", shift);
    hlo_text_format(g->text, ", lhs_contracting_dims={%d}, rhs_contracting_dims={%d}, lhs_ragged_dims={%d}",
                    batches + 1, batches + shift, mode == BATCHES ? 0 : batches + (mode == SUMMED));
    hlo_text_format(g->text, "%s\n", mode == ROWS ? ", rhs_group_dims={0}" : "");
    if (is_inexact(type)) random_scaled(g, result, "0.015625");
}

// A product of numbers with a scale for each block of them.
void random_scaled_dot(Generator *g) {
    static const HloType types[] = {HLO_F8E4M3FN, HLO_F8E5M2, HLO_F4E2M1FN, HLO_BF16};
    static const HloType scales[] = {HLO_F8E8M0FNU, HLO_F8E8M0FNU, HLO_BF16};
    const HloType type = types[random_below(g, HLO_COUNT_OF(types))],
                  scale = scales[random_below(g, HLO_COUNT_OF(scales))];
    const int64_t block = 8 * random_size(g, 4), blocks = random_size(g, 3);
    const Value left = {.type = type, .rank = 2, .dims = {random_size(g, 5), block * blocks}},
                right = {.type = type, .rank = 2, .dims = {random_size(g, 5), block * blocks}},
                left_scale = {.type = scale, .rank = 2, .dims = {left.dims[0], blocks}},
                right_scale = {.type = scale, .rank = 2, .dims = {right.dims[0], blocks}},
                out = {.type = random_chance(g, 50) ? HLO_F32 : HLO_BF16,
                       .rank = 2,
                       .dims = {left.dims[0], right.dims[0]}};
    const int a = random_partner(g, left), b = random_partner(g, right), s = random_parameter(g, left_scale),
              t = random_parameter(g, right_scale);
    const int result = random_put(
        g, out, "scaled-dot(v%d, v%d, v%d, v%d), lhs_contracting_dims={1}, rhs_contracting_dims={1}", a, b, s, t);
    random_scaled(g, result, "0.00390625");
}

// ---- convolutions

typedef struct Place {  // a spatial dimension
    int64_t size, kernel, stride, low, high, base, dilation, out;
    bool reversed;
} Place;

static int64_t dilated(int64_t size, int64_t by) {
    return size ? (size - 1) * by + 1 : 0;
}

static Place make_place(Generator *g) {
    Place p = {.size = random_size(g, random_is_large(g) ? 40 : 9),
               .kernel = random_size(g, 4),
               .stride = random_size(g, 3),
               .low = random_below(g, 5) - 1,
               .high = random_below(g, 5) - 1,
               .base = random_chance(g, 25) ? 2 : 1,
               .dilation = random_chance(g, 25) ? 2 : 1,
               .reversed = random_chance(g, 20)};
    if (random_chance(g, 15)) p.kernel = p.size;  // as in the gradient of a kernel
    int64_t padded = dilated(p.size, p.base) + p.low + p.high;
    if (padded < dilated(p.kernel, p.dilation)) {
        p.high += dilated(p.kernel, p.dilation) - padded;
        padded = dilated(p.kernel, p.dilation);
    }
    p.out = (padded - dilated(p.kernel, p.dilation)) / p.stride + 1;
    return p;
}

// Labels and dimensions in random order: `names` for the two dimensions that are no places.
static Value order_dims(Generator *g, HloType type, const char *names, const int64_t *two, const int64_t *places,
                        int count, char *labels) {
    Value value = {.type = type, .rank = 2 + count, .exact = true};
    int64_t order[kMaximumRank];
    random_permutation(g, order, value.rank);
    for (int i = 0; i < value.rank; i++) {
        value.dims[order[i]] = i < 2 ? two[i] : places[i - 2];
        labels[order[i]] = i < 2 ? names[i] : (char)('0' + i - 2);
    }
    labels[value.rank] = 0;
    return value;
}

static void print_window(HloText *text, const Place *places, int count) {
    if (!count) return;
    hlo_text_string(text, "window={size=");
    for (int d = 0; d < count; d++) hlo_text_format(text, "%s%d", d ? "x" : "", (int)places[d].kernel);
    hlo_text_string(text, " stride=");
    for (int d = 0; d < count; d++) hlo_text_format(text, "%s%d", d ? "x" : "", (int)places[d].stride);
    hlo_text_string(text, " pad=");
    for (int d = 0; d < count; d++)
        hlo_text_format(text, "%s%d_%d", d ? "x" : "", (int)places[d].low, (int)places[d].high);
    hlo_text_string(text, " lhs_dilate=");
    for (int d = 0; d < count; d++) hlo_text_format(text, "%s%d", d ? "x" : "", (int)places[d].base);
    hlo_text_string(text, " rhs_dilate=");
    for (int d = 0; d < count; d++) hlo_text_format(text, "%s%d", d ? "x" : "", (int)places[d].dilation);
    hlo_text_string(text, " rhs_reversal=");
    for (int d = 0; d < count; d++) hlo_text_format(text, "%s%d", d ? "x" : "", (int)places[d].reversed);
    hlo_text_string(text, "}, ");
}

// A convolution with groups, in any order of dimensions.
void random_any_convolution(Generator *g) {
    const HloType type = factor_type(g);
    const int count = (int)random_below(g, 4);
    const int64_t groups = random_chance(g, 30) ? random_size(g, 4) : 1,
                  batch_groups = groups == 1 && random_chance(g, 20) ? random_size(g, 3) : 1;
    const int64_t channels = random_is_large(g) ? 17 : 4;
    const int64_t features = random_size(g, channels), batch = random_size(g, 4), outputs = random_size(g, channels);
    const int64_t input_two[] = {batch * batch_groups, features * groups},
                  kernel_two[] = {features, outputs * groups * batch_groups},
                  out_two[] = {batch, outputs * groups * batch_groups};
    Place places[3];
    int64_t sizes[3], kernels[3], outs[3];
    for (int d = 0; d < count; d++) {
        places[d] = make_place(g);
        sizes[d] = places[d].size;
        kernels[d] = places[d].kernel;
        outs[d] = places[d].out;
    }
    char labels[3][8];
    const Value input = order_dims(g, type, "bf", input_two, sizes, count, labels[0]),
                kernel = order_dims(g, type, "io", kernel_two, kernels, count, labels[1]);
    Value out = order_dims(g, product_type(g, type), "bf", out_two, outs, count, labels[2]);
    if (random_elements(&input) > g->most_elements || random_elements(&out) > g->most_elements ||
        random_elements(&out) * random_elements(&kernel) > 4000000) {
        return;
    }
    const int a = random_partner(g, input), b = random_partner(g, kernel);
    out.exact = !is_inexact(type) && g->values[a].exact && g->values[b].exact;
    const int result = random_begin(g, out);
    hlo_text_format(g->text, "convolution(v%d, v%d), ", a, b);
    print_window(g->text, places, count);
    hlo_text_format(g->text, "dim_labels=%s_%s->%s", labels[0], labels[1], labels[2]);
    if (groups > 1) hlo_text_format(g->text, ", feature_group_count=%d", (int)groups);
    if (batch_groups > 1) hlo_text_format(g->text, ", batch_group_count=%d", (int)batch_groups);
    hlo_text_char(g->text, '\n');
    if (is_inexact(type)) random_scaled(g, result, "0.015625");
}

// ---- transforms

static Value fft_form(Generator *g, HloType type, int dims) {
    Value value = {.type = type, .rank = dims + (int)random_below(g, 2), .exact = true};
    for (int d = 0; d < value.rank; d++) value.dims[d] = random_size(g, dims == 1 ? 40 : 9);
    return value;
}

// All four kinds, of one to three dimensions.
void random_fft(Generator *g) {
    static const char *const names[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
    const int kind = (int)random_below(g, 4), dims = (int)random_size(g, 3);
    const bool wide = random_chance(g, 30);
    const HloType real = wide ? HLO_F64 : HLO_F32, complex = wide ? HLO_C128 : HLO_C64;
    Value from = fft_form(g, kind == 2 ? real : complex, dims), to = from;
    int64_t lengths[3], *last = &to.dims[to.rank - 1];
    for (int d = 0; d < dims; d++) lengths[d] = from.dims[from.rank - dims + d];
    if (kind == 2) {
        to.type = complex;
        *last = *last / 2 + 1;
    } else if (kind == 3) {
        to.type = real;
        from.dims[from.rank - 1] = *last / 2 + 1;
    }
    to.exact = false;
    const int a = random_partner(g, from), result = random_begin(g, to);
    hlo_text_format(g->text, "fft(v%d), fft_type=%s, ", a, names[kind]);
    random_print_list(g->text, "fft_length=", lengths, dims);
    hlo_text_char(g->text, '\n');
    random_scaled(g, result, "0.0625");
}

// ---- decompositions

// Matrices with `diagonal` on their diagonals and small elements beside.
static int dominant(Generator *g, Value form, const char *diagonal) {
    Value index = form, equal = form;
    index.type = HLO_S32;
    equal.type = HLO_PRED;
    const int raw = random_parameter(g, form), scale = random_splat(g, form, "0.125");
    form.exact = false;
    const int small = random_put(g, form, "multiply(v%d, v%d)", raw, scale);
    const int rows = random_put(g, index, "iota(), iota_dimension=%d", form.rank - 2),
              columns = random_put(g, index, "iota(), iota_dimension=%d", form.rank - 1);
    const int same = random_put(g, equal, "compare(v%d, v%d), direction=EQ", rows, columns);
    const int large = random_splat(g, form, diagonal);
    return random_put(g, form, "select(v%d, v%d, v%d)", same, large, small);
}

void random_linear_algebra(Generator *g) {
    static const HloType types[] = {HLO_F32, HLO_F32, HLO_F64, HLO_C64, HLO_C128};
    static const char *const transposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
    const HloType type = types[random_below(g, HLO_COUNT_OF(types))];
    Value matrix = {.type = type, .rank = 2 + (int)random_below(g, 2), .exact = true}, right = matrix;
    const int64_t size = random_size(g, 9);
    const bool left = random_chance(g, 50), unit = random_chance(g, 25);
    if (matrix.rank == 3) matrix.dims[0] = random_size(g, 3);
    matrix.dims[matrix.rank - 2] = matrix.dims[matrix.rank - 1] = size;
    const int m = dominant(g, matrix, "2.5");
    matrix.exact = false;
    if (random_chance(g, 40)) {
        const char *lower = random_chance(g, 50) ? "true" : "false";
        const int factor = random_begin(g, matrix);
        g->values[factor].unscaled = true;  // the other triangle is not defined
        hlo_text_format(g->text, "cholesky(v%d), lower=%s\n", m, lower);
        Value index = matrix, kept = matrix;
        index.type = HLO_S32;
        kept.type = HLO_PRED;
        const int rows = random_put(g, index, "iota(), iota_dimension=%d", matrix.rank - 2),
                  columns = random_put(g, index, "iota(), iota_dimension=%d", matrix.rank - 1);
        const int inside =
            random_put(g, kept, "compare(v%d, v%d), direction=%s", rows, columns, lower[0] == 't' ? "GE" : "LE");
        const int zeros = random_splat(g, matrix, "0");
        random_put(g, matrix, "select(v%d, v%d, v%d)", inside, factor, zeros);
        return;
    }
    right.dims[0] = matrix.dims[0];
    right.dims[right.rank - (left ? 2 : 1)] = size;
    right.dims[right.rank - (left ? 1 : 2)] = random_size(g, 7);
    const int b = random_parameter(g, right);
    right.exact = false;
    const int result =
        random_put(g, right, "triangular-solve(v%d, v%d), left_side=%s, lower=%s, unit_diagonal=%s, transpose_a=%s", m,
                   b, left ? "true" : "false", random_chance(g, 50) ? "true" : "false", unit ? "true" : "false",
                   transposes[random_below(g, 3)]);
    random_scaled(g, result, "0.25");
}

// ---- normalisation

static bool wants_batch(const Value *value) {
    return value->exact && value->rank > 0 && random_elements(value) > 0 &&
           (value->type == HLO_F32 || value->type == HLO_F64);
}

void random_batch_norm(Generator *g) {
    const int a = random_pick_where(g, wants_batch);
    if (a < 0) return;
    Value value = g->values[a], feature = {.type = value.type, .rank = 1, .exact = true};
    const int dim = (int)random_below(g, value.rank), kind = (int)random_below(g, 3), number = random_called(g);
    feature.dims[0] = value.dims[dim];
    const int scale = random_parameter(g, feature), offset = random_parameter(g, feature);
    HloText shape = {0};
    hlo_text_char(&shape, '(');
    random_print_shape(&shape, &value);
    hlo_text_string(&shape, ", ");
    random_print_shape(&shape, &feature);
    hlo_text_string(&shape, ", ");
    random_print_shape(&shape, &feature);
    hlo_text_string(&shape, ")");
    Value out = value;
    out.exact = feature.exact = false;
    if (kind == 0) {
        hlo_text_format(g->text, "  norm%d = %s batch-norm-training(v%d, v%d, v%d), epsilon=0.5, feature_index=%d\n",
                        number, shape.data, a, scale, offset, dim);
    } else {
        Value positive = feature;
        const int mean = random_parameter(g, feature), raw = random_parameter(g, feature);
        const int variance = random_put(g, positive, "abs(v%d)", raw);
        if (kind == 1) {
            random_put(g, out, "batch-norm-inference(v%d, v%d, v%d, v%d, v%d), epsilon=0.5, feature_index=%d", a, scale,
                       offset, mean, variance, dim);
            hlo_text_free(&shape);
            return;
        }
        const int gradient = random_parameter(g, value);
        hlo_text_format(g->text,
                        "  norm%d = %s batch-norm-grad(v%d, v%d, v%d, v%d, v%d), epsilon=0.5, feature_index=%d\n",
                        number, shape.data, a, scale, mean, variance, gradient, dim);
    }
    hlo_text_free(&shape);
    const int index = (int)random_below(g, 3);
    const int result = random_put(g, index ? feature : out, "get-tuple-element(norm%d), index=%d", number, index);
    random_scaled(g, result, "0.0625");
}
