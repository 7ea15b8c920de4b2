// SPDX-License-Identifier: Apache-2.0
// Shape inference of linear algebra: dot and its relatives, Cholesky, triangular solve, FFT, batch normalisation.
//
// A dot's result has the batch dimensions, then the left side's other dimensions, then the right side's:
//
//   dot(f32[B,M,K], f32[B,K,N]), batch {0} x {0}, contracting {2} x {1}   ->   f32[B,M,N]
//
// ragged-dot has groups of rows, whose sizes are operand 2. The kind of the ragged dimension determines the result; see
// hlo_infer_ragged_dot().
#include <assert.h>

#include "hlo/ir/infer/support.h"

// The two sides of a dot with its dimension lists.
typedef struct DotSides {
    const HloShape *lhs, *rhs;
    HloInts lhs_batch, lhs_contracting, rhs_batch, rhs_contracting;
} DotSides;

// Checks that pairs of dimensions exist, are distinct and agree in size.
static HloStatus check_pairs(HloArena *arena, const DotSides *sides, HloInts lhs, HloInts rhs, const char *what) {
    HLO_REFUSE_IF(lhs.count != rhs.count, "%lld %s dimensions of the left operand, %lld of the right",
                  (long long)lhs.count, what, (long long)rhs.count);
    HLO_TRY(hlo_infer_check_dimensions(arena, lhs, sides->lhs->rank, "the left operand's list"));
    HLO_TRY(hlo_infer_check_dimensions(arena, rhs, sides->rhs->rank, "the right operand's list"));
    for (int64_t i = 0; i < lhs.count; i++) {
        int64_t left = sides->lhs->dims[lhs.items[i]], right = sides->rhs->dims[rhs.items[i]];
        HLO_REFUSE_IF(!hlo_sizes_agree(left, right),
                      "%s dimension %lld of %s has size %lld, but dimension %lld of %s has size %lld", what,
                      (long long)lhs.items[i], hlo_shape_message(arena, sides->lhs), (long long)left,
                      (long long)rhs.items[i], hlo_shape_message(arena, sides->rhs), (long long)right);
    }
    return HLO_SUCCESS;
}

static HloStatus check_disjoint(HloArena *arena, HloInts batch, HloInts contracting, const char *side) {
    for (int64_t i = 0; i < batch.count; i++) {
        HLO_REFUSE_IF(hlo_ints_contain(contracting, batch.items[i]),
                      "dimension %lld of the %s operand is both batch and contracting (%s and %s)",
                      (long long)batch.items[i], side, hlo_ints_message(arena, batch),
                      hlo_ints_message(arena, contracting));
    }
    return HLO_SUCCESS;
}

// The batch dimensions, then the free ones of each side; `prefix` leading dimensions are left for the caller, and
// dimension `skip_rhs` of the right side is omitted (-1: none).
static HloDims dot_dims(HloArena *arena, const DotSides *sides, int64_t prefix, int64_t skip_rhs) {
    assert(prefix >= 0);
    HloDims dims = hlo_dims_new(arena, prefix + sides->lhs->rank + sides->rhs->rank);
    int64_t at = prefix;
    for (int64_t i = 0; i < sides->lhs_batch.count; i++) {
        int64_t from = sides->lhs_batch.items[i];
        hlo_dims_take(&dims, at++, sides->lhs, from);
    }
    for (int64_t i = 0; i < sides->lhs->rank; i++) {
        if (hlo_ints_contain(sides->lhs_batch, i) || hlo_ints_contain(sides->lhs_contracting, i)) continue;
        hlo_dims_take(&dims, at++, sides->lhs, i);
    }
    for (int64_t i = 0; i < sides->rhs->rank; i++) {
        if (hlo_ints_contain(sides->rhs_batch, i) || hlo_ints_contain(sides->rhs_contracting, i)) continue;
        if (i != skip_rhs) hlo_dims_take(&dims, at++, sides->rhs, i);
    }
    dims.rank = at;
    return dims;
}

// Fills in the two sides and checks their lists; `rhs_index` is the operand on the right.
static HloStatus check_dot(const HloInferRequest *request, int64_t rhs_index, DotSides *sides) {
    const HloDotAttributes *dot = HLO_INFER_ATTRIBUTES(request, Dot);
    HLO_TRY(hlo_infer_need_arrays(request));
    *sides = (DotSides){request->operands[0], request->operands[rhs_index], dot->lhs_batch, dot->lhs_contracting,
                        dot->rhs_batch,       dot->rhs_contracting};
    HLO_TRY(check_pairs(request->arena, sides, dot->lhs_batch, dot->rhs_batch, "batch"));
    HLO_TRY(check_pairs(request->arena, sides, dot->lhs_contracting, dot->rhs_contracting, "contracting"));
    HLO_TRY(check_disjoint(request->arena, dot->lhs_batch, dot->lhs_contracting, "left"));
    HLO_TRY(check_disjoint(request->arena, dot->rhs_batch, dot->rhs_contracting, "right"));
    return HLO_SUCCESS;
}

HloStatus hlo_infer_dot(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_DOT);
    HLO_REFUSE_IF(request->operand_count != 2, "takes 2 operands, but has %lld", (long long)request->operand_count);
    DotSides sides;
    HLO_TRY(check_dot(request, 1, &sides));
    HloDims dims = dot_dims(request->arena, &sides, 0, -1);
    return hlo_dims_shape(request->arena, hlo_infer_product_type(request), &dims, result);
}

HloStatus hlo_infer_scaled_dot(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_SCALED_DOT);
    assert(request->operand_count == 4);
    // Operands: left, right, scales of the left, scales of the right. A scale array has the rank of its side (or is a
    // scalar), and each of its dimensions divides the side's.
    DotSides sides;
    HLO_TRY(check_dot(request, 1, &sides));
    for (int64_t i = 0; i < 2; i++) {
        const HloShape *side = request->operands[i], *scale = request->operands[2 + i];
        if (scale->rank == 0) continue;
        HLO_REFUSE_IF(scale->rank != side->rank, "scales %s for %s", hlo_shape_message(request->arena, scale),
                      hlo_shape_message(request->arena, side));
        for (int64_t d = 0; d < side->rank; d++) {
            bool known = scale->dims[d] != HLO_UNBOUNDED && side->dims[d] != HLO_UNBOUNDED;
            HLO_REFUSE_IF(known && (scale->dims[d] == 0 ? side->dims[d] != 0 : side->dims[d] % scale->dims[d] != 0),
                          "%lld scales for dimension %lld of size %lld", (long long)scale->dims[d], (long long)d,
                          (long long)side->dims[d]);
        }
    }
    HloDims dims = dot_dims(request->arena, &sides, 0, -1);
    return hlo_dims_shape(request->arena, hlo_infer_product_type(request), &dims, result);
}

HloInts hlo_ragged_list_dims(HloArena *arena, const HloDotAttributes *dot) {
    assert(dot->lhs_ragged.count == 1);
    const int64_t ragged = dot->lhs_ragged.items[0];
    const HloInts batch = dot->lhs_batch, contracting = dot->lhs_contracting;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, batch.count + contracting.count + ragged), count = 0;
    for (int64_t i = 0; i < batch.count && batch.items[i] != ragged; i++) dims[count++] = batch.items[i];
    if (hlo_ints_contain(contracting, ragged)) {
        for (int64_t i = 0; contracting.items[i] != ragged; i++) dims[count++] = contracting.items[i];
    } else if (!hlo_ints_contain(batch, ragged)) {
        for (int64_t i = 0; i < ragged; i++)
            if (!hlo_ints_contain(batch, i) && !hlo_ints_contain(contracting, i)) dims[count++] = i;
    }
    return (HloInts){dims, count};
}

// Checks that group sizes are one list for all, or one for each index of the list dimensions.
static HloStatus check_group_sizes(const HloInferRequest *request, const DotSides *sides) {
    const HloShape *sizes = request->operands[2];
    if (sizes->rank == 1) return HLO_SUCCESS;
    const HloInts dims = hlo_ragged_list_dims(request->arena, HLO_INFER_ATTRIBUTES(request, Dot));
    int64_t *wanted = HLO_ARENA_NEW(request->arena, int64_t, dims.count);
    for (int64_t i = 0; i < dims.count; i++) wanted[i] = sides->lhs->dims[dims.items[i]];
    bool fits = sizes->rank == dims.count + 1;
    for (int64_t i = 0; fits && i < dims.count; i++) fits = hlo_sizes_agree(sizes->dims[i], wanted[i]);
    HLO_REFUSE_IF(!fits, "group sizes %s, where lists for sizes %s are needed",
                  hlo_shape_message(request->arena, sizes),
                  hlo_ints_message(request->arena, (HloInts){wanted, dims.count}));
    return HLO_SUCCESS;
}

// There are three kinds of ragged dot, by the kind of the ragged dimension on the left side, with g groups of rows, of
// contracted elements, or of batches:
//
//     free         lhs[m,k] rhs[g,k,n]   -> [m,n]      each group of rows is multiplied by its own matrix:
//                                                      rhs needs a group dimension
//     contracting  lhs[m,k] rhs[k,n]     -> [g,m,n]    each group of contracted elements gives a separate product:
//                                                      g is the first dimension of the result
//     batch        lhs[b,m,k] rhs[b,k,n] -> [b,m,n]    the sizes group the batches; the shape is that of a dot
HloStatus hlo_infer_ragged_dot(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_RAGGED_DOT);
    assert(request->operand_count == 3);
    const HloDotAttributes *dot = HLO_INFER_ATTRIBUTES(request, Dot);
    DotSides sides;
    HLO_TRY(check_dot(request, 1, &sides));
    const HloShape *sizes = request->operands[2];
    HLO_REFUSE_IF(!hlo_type_is_integer(sizes->type) || sizes->rank < 1,
                  "group sizes must be a vector of integers, not %s", hlo_shape_message(request->arena, sizes));
    HLO_REFUSE_IF(dot->lhs_ragged.count != 1, "%lld ragged dimensions instead of one",
                  (long long)dot->lhs_ragged.count);
    HLO_TRY(hlo_infer_check_dimensions(request->arena, dot->lhs_ragged, sides.lhs->rank, "lhs_ragged_dims"));
    HLO_TRY(hlo_infer_check_dimensions(request->arena, dot->rhs_group, sides.rhs->rank, "rhs_group_dims"));
    HLO_TRY(check_group_sizes(request, &sides));
    int64_t ragged = dot->lhs_ragged.items[0], groups = sizes->dims[sizes->rank - 1];
    bool contracting = hlo_ints_contain(sides.lhs_contracting, ragged);
    bool batch = hlo_ints_contain(sides.lhs_batch, ragged);
    if (contracting || batch) {
        HLO_REFUSE_IF(dot->rhs_group.count != 0, "a ragged %s dimension leaves no group dimension %lld",
                      batch ? "batch" : "contracting", (long long)dot->rhs_group.items[0]);
    } else {
        HLO_REFUSE_IF(dot->rhs_group.count != 1, "%lld group dimensions instead of one",
                      (long long)dot->rhs_group.count);
        int64_t group = dot->rhs_group.items[0];
        HLO_REFUSE_IF(hlo_ints_contain(sides.rhs_batch, group) || hlo_ints_contain(sides.rhs_contracting, group),
                      "group dimension %lld is also a batch or contracting dimension", (long long)group);
        HLO_REFUSE_IF(!hlo_sizes_agree(sides.rhs->dims[group], groups),
                      "group dimension %lld has size %lld for %lld groups", (long long)group,
                      (long long)sides.rhs->dims[group], (long long)groups);
    }
    int64_t skip = contracting || batch ? -1 : dot->rhs_group.items[0];
    HloDims dims = dot_dims(request->arena, &sides, contracting, skip);
    if (contracting) dims.sizes[0] = groups;
    return hlo_dims_shape(request->arena, hlo_infer_product_type(request), &dims, result);
}

// Checks for a square matrix, or a batch of them, of floating-point or complex numbers.
static HloStatus check_square(const HloInferRequest *request) {
    HLO_TRY(hlo_infer_need_array(request, 0));
    const HloShape *a = request->operands[0];
    HLO_REFUSE_IF(!hlo_type_is_float(a->type) && !hlo_type_is_complex(a->type), "element type %s is not allowed",
                  hlo_type_text(a->type));
    HLO_REFUSE_IF(a->rank < 2 || !hlo_sizes_agree(a->dims[a->rank - 1], a->dims[a->rank - 2]),
                  "operand 0 must be square matrices, not %s", hlo_shape_message(request->arena, a));
    return HLO_SUCCESS;
}

HloStatus hlo_infer_cholesky(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_CHOLESKY);
    assert(request->operand_count == 1);
    HLO_TRY(check_square(request));
    *result = hlo_shape_without_layout(request->arena, request->operands[0]);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_triangular_solve(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_TRIANGULAR_SOLVE);
    assert(request->operand_count == 2);
    const HloTriangularSolveAttributes *solve = HLO_INFER_ATTRIBUTES(request, TriangularSolve);
    HLO_TRY(check_square(request));
    HLO_TRY(hlo_infer_need_array(request, 1));
    const HloShape *a = request->operands[0], *b = request->operands[1];
    HLO_REFUSE_IF(solve->transpose_a == HLO_Transpose_INVALID, "transpose_a is not given");
    HLO_REFUSE_IF(!hlo_types_mix(a->type, b->type), "operands of element types %s and %s", hlo_type_text(a->type),
                  hlo_type_text(b->type));
    HLO_REFUSE_IF(a->rank != b->rank, "operands %s and %s differ in rank", hlo_shape_message(request->arena, a),
                  hlo_shape_message(request->arena, b));
    for (int64_t i = 0; i < a->rank - 2; i++) {
        HLO_REFUSE_IF(!hlo_sizes_agree(a->dims[i], b->dims[i]), "batch dimension %lld has sizes %lld and %lld",
                      (long long)i, (long long)a->dims[i], (long long)b->dims[i]);
    }
    int64_t shared = b->rank - (solve->left_side ? 2 : 1);
    HLO_REFUSE_IF(!hlo_sizes_agree(b->dims[shared], a->dims[a->rank - 1]),
                  "matrices of size %lld do not fit dimension %lld of %s", (long long)a->dims[a->rank - 1],
                  (long long)shared, hlo_shape_message(request->arena, b));
    *result = hlo_shape_without_layout(request->arena, b);
    return HLO_SUCCESS;
}

// The complex type of a real one; HLO_INVALID if there is none.
static HloType complex_of(HloType type) {
    return type == HLO_F32 ? HLO_C64 : type == HLO_F64 ? HLO_C128 : HLO_INVALID;
}

// The innermost transformed dimension must have size `minor_length`; the others the sizes in `length`.
static HloStatus check_fft_sizes(const HloInferRequest *request, int64_t minor_length) {
    HloInts length = HLO_INFER_ATTRIBUTES(request, Fft)->length;
    const HloShape *operand = request->operands[0];
    for (int64_t i = 0; i < length.count; i++) {
        int64_t dimension = operand->rank - length.count + i;
        int64_t expected = i == length.count - 1 ? minor_length : length.items[i];
        HLO_REFUSE_IF(length.items[i] < 0, "negative FFT length %lld", (long long)length.items[i]);
        HLO_REFUSE_IF(!hlo_sizes_agree(operand->dims[dimension], expected),
                      "dimension %lld of %s must have size %lld for FFT length %lld", (long long)dimension,
                      hlo_shape_message(request->arena, operand), (long long)expected, (long long)length.items[i]);
    }
    return HLO_SUCCESS;
}

// The limit of XLA and StableHLO.
enum { MOST_FFT_DIMENSIONS = 3 };

// A real signal of n numbers has a spectrum of n / 2 + 1: RFFT shortens the innermost dimension to that, IRFFT makes it
// n again, which only the attribute specifies.
HloStatus hlo_infer_fft(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_FFT);
    assert(request->operand_count == 1);
    const HloFftAttributes *fft = HLO_INFER_ATTRIBUTES(request, Fft);
    HLO_TRY(hlo_infer_need_array(request, 0));
    const HloShape *operand = request->operands[0];
    HLO_REFUSE_IF(fft->length.count < 1, "no FFT length");
    HLO_REFUSE_IF(fft->length.count > MOST_FFT_DIMENSIONS, "%lld FFT lengths; an FFT has at most %d dimensions",
                  (long long)fft->length.count, MOST_FFT_DIMENSIONS);
    HLO_REFUSE_IF(fft->length.count > operand->rank, "%lld FFT lengths for %s", (long long)fft->length.count,
                  hlo_shape_message(request->arena, operand));
    bool real_in = fft->type == HLO_FftType_RFFT, real_out = fft->type == HLO_FftType_IRFFT;
    int64_t minor = fft->length.items[fft->length.count - 1];
    HloDims dims = hlo_dims_of(request->arena, operand);
    // An empty real signal has an empty spectrum or, by the general rule, one of size one: XLA accepts both.
    const bool no_spectrum = minor == 0 && operand->dims[operand->rank - 1] == 0;
    HLO_TRY(check_fft_sizes(request, real_out && !no_spectrum ? minor / 2 + 1 : minor));
    HloType type = operand->type;
    if (real_in) {
        type = complex_of(type);
        dims.sizes[dims.rank - 1] = minor > 0 ? minor / 2 + 1 : 0;
    } else if (real_out) {
        dims.sizes[dims.rank - 1] = minor;
    }
    HLO_REFUSE_IF(!hlo_type_is_complex(type), "%s of element type %s", hlo_enum_message(&hlo_enum_FftType, fft->type),
                  hlo_type_text(operand->type));
    return hlo_dims_shape(request->arena, real_out ? hlo_type_real_part(type) : type, &dims, result);
}

// Operand 0 is the data; operands `first`.. (except `data_index`) are vectors over the feature dimension.
static HloStatus check_batch_norm(const HloInferRequest *request, int64_t data_index, const HloShape **feature) {
    const HloBatchNormAttributes *attributes = HLO_INFER_ATTRIBUTES(request, BatchNorm);
    HLO_TRY(hlo_infer_need_arrays(request));
    const HloShape *data = request->operands[0];
    HLO_REFUSE_IF(!hlo_type_is_float(data->type), "operand 0 must be floating point, not %s",
                  hlo_shape_message(request->arena, data));
    HLO_REFUSE_IF(attributes->feature_index < 0 || attributes->feature_index >= data->rank, "feature_index %lld of %s",
                  (long long)attributes->feature_index, hlo_shape_message(request->arena, data));
    HloDims dims = hlo_dims_new(request->arena, 1);
    hlo_dims_take(&dims, 0, data, attributes->feature_index);
    for (int64_t i = 1; i < request->operand_count; i++) {
        const HloShape *operand = request->operands[i];
        HLO_REFUSE_IF(!hlo_types_mix(operand->type, data->type), "operand %lld has element type %s, operand 0 has %s",
                      (long long)i, hlo_type_text(operand->type), hlo_type_text(data->type));
        if (i == data_index) {
            HloDims all = hlo_dims_of(request->arena, data);
            HLO_TRY(hlo_infer_merge_dims(request->arena, &all, operand, i));
            continue;
        }
        HLO_REFUSE_IF(operand->rank != 1 || !hlo_sizes_agree(operand->dims[0], dims.sizes[0]),
                      "operand %lld must be a vector of %lld features, not %s", (long long)i, (long long)dims.sizes[0],
                      hlo_shape_message(request->arena, operand));
    }
    return hlo_dims_shape(request->arena, request->operands[1]->type, &dims, feature);
}

// (data, feature, feature): the results of training (result, mean, variance) and of the gradient (of data, scale,
// offset).
static const HloShape *data_and_two_features(const HloInferRequest *request, const HloShape *feature) {
    const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, 3);
    elements[0] = hlo_shape_without_layout(request->arena, request->operands[0]);
    elements[1] = elements[2] = feature;
    return hlo_shape_tuple(request->arena, elements, 3);
}

HloStatus hlo_infer_batch_norm_training(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_BATCH_NORM_TRAINING);
    assert(request->operand_count == 3);
    const HloShape *feature;
    HLO_TRY(check_batch_norm(request, -1, &feature));
    *result = data_and_two_features(request, feature);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_batch_norm_inference(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_BATCH_NORM_INFERENCE);
    assert(request->operand_count == 5);
    const HloShape *feature;
    HLO_TRY(check_batch_norm(request, -1, &feature));
    *result = hlo_shape_without_layout(request->arena, request->operands[0]);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_batch_norm_grad(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_BATCH_NORM_GRAD);
    assert(request->operand_count == 5);
    const HloShape *feature;
    HLO_TRY(check_batch_norm(request, 4, &feature));
    *result = data_and_two_features(request, feature);
    return HLO_SUCCESS;
}
