// SPDX-License-Identifier: Apache-2.0
// Imports dots, convolutions, windows, sorting and random numbers.
//
// Most operations are just rows of the table of fields (mlir/fields.c). This file has those whose attributes have
// another form in HLO: StableHLO's separate lists of a window become one HloWindow, a dot algorithm described by types
// becomes its name, ApproxTopK becomes an exact sort.
#include <string.h>

#include "hlo/ir/infer/support.h"
#include "hlo/stablehlo/import/import.h"

// ---------------------------------------------------------------------------------------------------------------------
// Dots

// The name of the type in a type attribute, which may not be an HLO type (tf32); NULL when absent or none.
static const char *type_name(const ImportPlace *place, const char *name) {
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    const MlirType *type = attribute && attribute->kind == MLIR_TYPE ? attribute->type : NULL;
    if (!type || type->kind == MLIR_TYPE_NONE) return NULL;
    return type->kind == MLIR_TYPE_ELEMENT ? hlo_type_text(type->element)
           : type->kind == MLIR_TYPE_OTHER ? type->name
                                           : "";
}

static bool is_f8(const char *name) {
    return strncmp(name, "f8", 2) == 0 && strcmp(name, "f8e8m0fnu") != 0;
}

// StableHLO describes a dot algorithm by types and counts; HLO has a name for each combination that hardware supports.
static HloStatus dot_algorithm(const ImportPlace *place, int32_t *algorithm) {
    static const struct {
        HloType operands, accumulation;
        int64_t operations;
        int32_t algorithm;
    } table[] = {
#define DOT_ALGORITHM(name, operands, accumulation, operations) \
    {HLO_##operands, HLO_##accumulation, operations, HLO_DotAlgorithm_##name},
#include "hlo/stablehlo/mlir/dot_algorithms.def"
#undef DOT_ALGORITHM
    };
    *algorithm = HLO_DotAlgorithm_UNSET;
    const char *lhs = type_name(place, "lhs_precision_type"), *rhs = type_name(place, "rhs_precision_type"),
               *accumulation = type_name(place, "accumulation_type");
    if (!lhs && !rhs && !accumulation) return HLO_SUCCESS;
    int64_t operations, lhs_parts, rhs_parts;
    bool imprecise;
    HLO_TRY(import_int(place, "num_primitive_operations", 1, &operations));
    HLO_TRY(import_int(place, "lhs_component_count", 1, &lhs_parts));
    HLO_TRY(import_int(place, "rhs_component_count", 1, &rhs_parts));
    HLO_TRY(import_bool(place, "allow_imprecise_accumulation", false, &imprecise));
    bool whole = lhs && rhs && accumulation && lhs_parts == 1 && rhs_parts == 1;
    if (whole && is_f8(lhs) && is_f8(rhs) && strcmp(accumulation, "f32") == 0 && operations == 1) {
        *algorithm = imprecise ? HLO_DotAlgorithm_ANY_F8_ANY_F8_F32_FAST_ACCUM : HLO_DotAlgorithm_ANY_F8_ANY_F8_F32;
        return HLO_SUCCESS;
    }
    whole = whole && !imprecise && strcmp(lhs, rhs) == 0;
    for (size_t i = 0; whole && i < HLO_COUNT_OF(table); i++) {
        const char *operands = table[i].operands == HLO_INVALID ? MLIR_TF32 : hlo_type_text(table[i].operands);
        if (strcmp(operands, lhs) != 0 || table[i].operations != operations) continue;
        if (strcmp(hlo_type_text(table[i].accumulation), accumulation) != 0) continue;
        *algorithm = table[i].algorithm;
        return HLO_SUCCESS;
    }
    return import_error(place, HLO_UNIMPLEMENTED, "this dot algorithm has no name in HLO");
}

// Reads the fields from the table, and the algorithm, which becomes a name.
static HloStatus import_dot_general(ImportPlace *place) {
    HloDotAttributes attributes = {0};
    HLO_TRY(import_fields(place, HLO_OP_DOT, &attributes));
    HLO_TRY(dot_algorithm(place, &attributes.algorithm));
    return import_plain(place, HLO_OP_DOT, &attributes);
}

// The old form contracts the last dimension of the left operand with the first of the right one.
static HloStatus import_dot(ImportPlace *place) {
    HloDotAttributes attributes = {0};
    const MlirType *type = place->operation->operand_count == 2 ? place->operation->operands[0]->type : NULL;
    int64_t rank = type && type->kind == MLIR_TYPE_SHAPE ? type->shape->rank : 0;
    int64_t last = rank - 1, zero = 0;
    if (rank > 0) {
        attributes.lhs_contracting = hlo_ints(import_arena(place), &last, 1);
        attributes.rhs_contracting = hlo_ints(import_arena(place), &zero, 1);
    }
    HLO_TRY(import_precisions(place, &attributes.precision));
    return import_plain(place, HLO_OP_DOT, &attributes);
}

// ---------------------------------------------------------------------------------------------------------------------
// Windows

// Element `index` of a list, or a default when the list is empty.
static int64_t item(HloInts ints, int64_t index, int64_t fallback) {
    return index < ints.count ? ints.items[index] : fallback;
}

// StableHLO's lists of a window, one property each. Padding has two numbers per dimension, low before high.
typedef struct WindowLists {
    HloInts sizes, strides, padding, base_dilations, window_dilations, reversal;
} WindowLists;

// An empty list means its default everywhere; any other has one entry per dimension of the window, or two for padding.
static HloStatus check_list(const ImportPlace *place, const char *what, int64_t count, int64_t wanted) {
    if (count == 0 || count == wanted) return HLO_SUCCESS;
    return import_error(place, HLO_INVALID_ARGUMENT, "a list of %lld %s, but %lld are needed", (long long)count, what,
                        (long long)wanted);
}

static HloStatus make_window(ImportPlace *place, const WindowLists *lists, const HloWindow **result) {
    const int64_t count = lists->sizes.count;
    HLO_TRY(check_list(place, "strides", lists->strides.count, count));
    HLO_TRY(check_list(place, "paddings", lists->padding.count, 2 * count));
    HLO_TRY(check_list(place, "dilations of the base", lists->base_dilations.count, count));
    HLO_TRY(check_list(place, "dilations of the window", lists->window_dilations.count, count));
    HLO_TRY(check_list(place, "reversals", lists->reversal.count, count));
    HloWindowDimension *dims = HLO_ARENA_NEW(import_arena(place), HloWindowDimension, count);
    for (int64_t i = 0; i < count; i++) {
        dims[i] = (HloWindowDimension){.size = lists->sizes.items[i],
                                       .stride = item(lists->strides, i, 1),
                                       .padding_low = item(lists->padding, 2 * i, 0),
                                       .padding_high = item(lists->padding, 2 * i + 1, 0),
                                       .base_dilation = item(lists->base_dilations, i, 1),
                                       .window_dilation = item(lists->window_dilations, i, 1),
                                       .reversal = item(lists->reversal, i, 0) != 0};
    }
    HloWindow *window = HLO_ARENA_NEW(import_arena(place), HloWindow, 1);
    *window = (HloWindow){dims, count};
    *result = window;
    return HLO_SUCCESS;
}

// Padding is a matrix of two columns, low and high; read as a plain list, a matrix of another shape with as many
// numbers would pass.
static HloStatus import_padding(const ImportPlace *place, HloInts *padding) {
    const MlirAttribute *attribute = mlir_attribute(place->operation, "padding");
    if (attribute && attribute->kind == MLIR_TENSOR) {
        const HloShape *shape = attribute->type->shape;
        if (hlo_shape_elements(shape) && (shape->rank != 2 || shape->dims[1] != 2))
            return import_error(place, HLO_INVALID_ARGUMENT, "padding is not a matrix of two columns");
    }
    return import_ints(place, "padding", padding);
}

// reduce_window and select_and_scatter: the same lists, and one or two regions.
static HloStatus import_window(ImportPlace *place, HloOpcode opcode) {
    WindowLists lists = {0};
    HLO_TRY(import_ints(place, "window_dimensions", &lists.sizes));
    HLO_TRY(import_ints(place, "window_strides", &lists.strides));
    HLO_TRY(import_ints(place, "base_dilations", &lists.base_dilations));
    HLO_TRY(import_ints(place, "window_dilations", &lists.window_dilations));
    HLO_TRY(import_padding(place, &lists.padding));
    HloWindowAttributes attributes = {0};
    HLO_TRY(make_window(place, &lists, &attributes.window));
    return import_with_region(place, opcode, &attributes);
}

// Takes the lists as the program computed them: sizes, strides, dilations of base and window, padding.
HloStatus import_reduce_window_sized(ImportPlace *place, const HloInts *lists, HloInstruction *const *operands,
                                     int64_t count, HloComputation *reducer) {
    const WindowLists window = {.sizes = lists[0],
                                .strides = lists[1],
                                .base_dilations = lists[2],
                                .window_dilations = lists[3],
                                .padding = lists[4]};
    HloWindowAttributes attributes = {0};
    const HloShape *shape;
    HloInstruction *result;
    HLO_TRY(make_window(place, &window, &attributes.window));
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(import_emit(place, HLO_OP_REDUCE_WINDOW, shape, operands, count, &attributes, &reducer, 1, &result));
    return import_set_results(place, result);
}

static HloStatus import_reduce_window(ImportPlace *place) {
    return import_window(place, HLO_OP_REDUCE_WINDOW);
}
static HloStatus import_select_and_scatter(ImportPlace *place) {
    return import_window(place, HLO_OP_SELECT_AND_SCATTER);
}

// Reads the labels of a convolution from attributes named after the fields of #stablehlo.conv. They identify the batch,
// feature and spatial dimensions: b, f, 0, 1 in the text form.
static HloStatus read_labels(ImportPlace *place, const HloConvolutionLabels **result) {
    HloConvolutionLabels *labels = HLO_ARENA_NEW(import_arena(place), HloConvolutionLabels, 1);
    HLO_TRY(import_fields(place, HLO_OP_CONVOLUTION, labels));
    *result = labels;
    return HLO_SUCCESS;
}

// Window sizes are those of the kernel's spatial dimensions, which StableHLO does not repeat.
HloStatus import_convolution_padded(ImportPlace *place, const HloInts *padding) {
    HloConvolutionAttributes attributes = {0};
    WindowLists lists = {0};
    HloInstruction **operands = NULL;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(read_labels(place, &attributes.labels));
    const HloInts spatial = attributes.labels->kernel_spatial;
    int64_t *sizes = HLO_ARENA_NEW(import_arena(place), int64_t, spatial.count);
    const HloShape *kernel = place->operation->operand_count >= 2 ? operands[1]->shape : NULL;
    for (int64_t i = 0; i < spatial.count; i++) {
        if (!kernel || spatial.items[i] < 0 || spatial.items[i] >= kernel->rank) {
            return import_error(place, HLO_INVALID_ARGUMENT, "a kernel spatial dimension is out of range");
        }
        sizes[i] = kernel->dims[spatial.items[i]];
    }
    lists.sizes = (HloInts){sizes, spatial.count};
    HLO_TRY(import_ints(place, "window_strides", &lists.strides));
    if (padding) {
        lists.padding = *padding;
    } else {
        HLO_TRY(import_padding(place, &lists.padding));
    }
    HLO_TRY(import_ints(place, "lhs_dilation", &lists.base_dilations));
    HLO_TRY(import_ints(place, "rhs_dilation", &lists.window_dilations));
    HLO_TRY(import_ints(place, "window_reversal", &lists.reversal));
    HLO_TRY(make_window(place, &lists, &attributes.window));
    HLO_TRY(import_int(place, "feature_group_count", 1, &attributes.feature_group_count));
    HLO_TRY(import_int(place, "batch_group_count", 1, &attributes.batch_group_count));
    // In HLO, 0 means an omitted 1; here it is invalid.
    if (attributes.feature_group_count < 1 || attributes.batch_group_count < 1)
        return import_error(place, HLO_INVALID_ARGUMENT, "%lld groups of features and %lld of the batch",
                            (long long)attributes.feature_group_count, (long long)attributes.batch_group_count);
    HLO_TRY(import_precisions(place, &attributes.precision));
    HloInstruction *result;
    const HloShape *shape;
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(import_emit(place, HLO_OP_CONVOLUTION, shape, operands, 2, &attributes, NULL, 0, &result));
    return import_set_results(place, result);
}

static HloStatus import_convolution(ImportPlace *place) {
    return import_convolution_padded(place, NULL);
}

// ---------------------------------------------------------------------------------------------------------------------
// Order

// The default dimension, -1, is the last one; HLO has no negative dimensions.
static HloStatus import_sort(ImportPlace *place) {
    HloSortAttributes attributes = {0};
    int64_t dimension;
    HloInstruction **operands = NULL;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_int(place, "dimension", -1, &dimension));
    if (dimension < 0 && place->operation->operand_count) dimension += operands[0]->shape->rank;
    attributes.dimensions = hlo_ints(import_arena(place), &dimension, 1);
    HLO_TRY(import_bool(place, "is_stable", false, &attributes.is_stable));
    return import_with_region(place, HLO_OP_SORT, &attributes);
}

// The first elements of a sorted array along `dimension`, as many as the result has.
static HloStatus head_of(ImportPlace *place, HloInstruction *sorted, const MlirType *type, HloInstruction **head) {
    HloArena *arena = import_arena(place);
    const HloShape *shape;
    HLO_TRY(import_shape(place, type, &shape));
    const int64_t rank = shape->rank;
    int64_t *starts = HLO_ARENA_NEW(arena, int64_t, 2 * rank), *strides = starts + rank;
    for (int64_t d = 0; d < rank; d++) strides[d] = 1;
    const HloSliceAttributes attributes = {{starts, rank}, hlo_ints(arena, shape->dims, rank), {strides, rank}};
    return import_emit(place, HLO_OP_SLICE, shape, &sorted, 1, &attributes, NULL, 0, head);
}

// An option of an ApproxTopK; *option is NULL if it is absent.
static HloStatus approx_option(const ImportPlace *place, const char *name, MlirAttributeKind kind,
                               const MlirAttribute **option) {
    *option = mlir_entry(mlir_attribute(place->operation, "mhlo.backend_config"), name);
    if (!*option || (*option)->kind == kind) return HLO_SUCCESS;
    return import_error(place, HLO_INVALID_ARGUMENT, "%s of an ApproxTopK has the wrong kind", name);
}

// Checks the number of returned elements: top_k where the candidates are aggregated, which is the default; else the
// size of the result, which the caller has computed from the requested recall.
static HloStatus check_approx_count(const ImportPlace *place, int64_t dimension) {
    const MlirAttribute *aggregates, *top_k;
    HLO_TRY(approx_option(place, "aggregate_to_topk", MLIR_BOOL, &aggregates));
    HLO_TRY(approx_option(place, "top_k", MLIR_INTEGER, &top_k));
    if (!top_k || (aggregates && !aggregates->integer)) return HLO_SUCCESS;
    for (int64_t i = 0; i < place->operation->result_count; i++) {
        const HloShape *shape;
        HLO_TRY(import_shape(place, place->operation->results[i]->type, &shape));
        if (dimension >= 0 && dimension < shape->rank && !hlo_sizes_agree(shape->dims[dimension], top_k->integer))
            return import_error(place, HLO_INVALID_ARGUMENT, "top_k is %lld, and result %lld has %lld elements",
                                (long long)top_k->integer, (long long)i, (long long)shape->dims[dimension]);
    }
    return HLO_SUCCESS;
}

// The dimension is in the call's options. The exact answer is a valid approximation.
HloStatus import_approx_top_k(ImportPlace *place, HloInstruction *const *operands, HloComputation *const *called,
                              int64_t called_count) {
    const MlirOperation *operation = place->operation;
    const MlirAttribute *dimension;
    HLO_TRY(approx_option(place, "reduction_dim", MLIR_INTEGER, &dimension));
    const int64_t count = operation->operand_count / 2;  // the other half are initial values, which a sort needs not
    if (!dimension || count < 1 || count != operation->result_count || called_count != 1)
        return import_error(place, HLO_INVALID_ARGUMENT,
                            "ApproxTopK takes arrays, initial values, a comparator and the dimension of the reduction");
    HLO_TRY(check_approx_count(place, dimension->integer));
    HloArena *arena = import_arena(place);
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, count);
    for (int64_t i = 0; i < count; i++) shapes[i] = operands[i]->shape;
    const HloSortAttributes attributes = {hlo_ints(arena, &dimension->integer, 1), true};
    HloInstruction *sorted;
    HLO_TRY(import_emit(place, HLO_OP_SORT, count == 1 ? shapes[0] : hlo_shape_tuple(arena, shapes, count), operands,
                        count, &attributes, called, 1, &sorted));
    for (int64_t i = 0; i < count; i++) {
        const HloTupleIndexAttributes index = {.index = i};
        HloInstruction *array = sorted;
        if (count > 1)
            HLO_TRY(import_emit(place, HLO_OP_GET_TUPLE_ELEMENT, shapes[i], &sorted, 1, &index, NULL, 0, &array));
        HLO_TRY(head_of(place, array, operation->results[i]->type, &operation->results[i]->lowered));
    }
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Random numbers

// Checks the known sizes in the third operand against those of the result.
static HloStatus check_rng_sizes(const ImportPlace *place, const HloInstruction *sizes, const HloShape *shape) {
    if (sizes->shape->rank != 1)
        return import_error(place, HLO_INVALID_ARGUMENT, "the sizes are %s, not a list",
                            hlo_shape_message(import_arena(place), sizes->shape));
    if (!hlo_sizes_agree(sizes->shape->dims[0], shape->rank))
        return import_error(place, HLO_INVALID_ARGUMENT, "%lld sizes for a result of %d dimensions",
                            (long long)sizes->shape->dims[0], (int)shape->rank);
    HloInts known;
    if (!import_known(place->importer, sizes, &known)) return HLO_SUCCESS;
    bool same = known.count == shape->rank;
    for (int64_t i = 0; same && i < shape->rank; i++) same = hlo_sizes_agree(known.items[i], shape->dims[i]);
    return same ? HLO_SUCCESS
                : import_error(place, HLO_INVALID_ARGUMENT, "the sizes are %s, and the result is %s",
                               hlo_ints_message(import_arena(place), known),
                               hlo_shape_message(import_arena(place), shape));
}

// Operands are the two bounds and the shape; HLO's rng has only the bounds.
static HloStatus import_rng(ImportPlace *place) {
    HloInstruction **operands = NULL, *result = NULL;
    const HloShape *shape = NULL;
    HloRngAttributes attributes = {0};
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(import_enum(place, "rng_distribution", &hlo_enum_RandomDistribution, HLO_RandomDistribution_UNIFORM,
                        &attributes.distribution));
    if (attributes.distribution == HLO_RandomDistribution_INVALID)
        return import_error(place, HLO_INVALID_ARGUMENT, "random numbers of an unknown distribution");
    HLO_TRY(check_rng_sizes(place, operands[2], shape));
    if (operands[0]->shape->type != shape->type && !mlir_attribute(place->operation, MLIR_MIXED_PRECISION))
        return import_error(place, HLO_INVALID_ARGUMENT, "random numbers of type %s between bounds of type %s",
                            hlo_type_text(shape->type), hlo_type_text(operands[0]->shape->type));
    HLO_TRY(import_emit(place, HLO_OP_RNG, shape, operands, 2, &attributes, NULL, 0, &result));
    return import_set_results(place, result);
}

const ImportRow *import_compute_rows(int64_t *count) {
    static const ImportRow rows[] = {
        {"stablehlo.dot_general", import_dot_general, 0},
        {"stablehlo.dot", import_dot, 0},
        {"stablehlo.convolution", import_convolution, 2},
        {"stablehlo.reduce_window", import_reduce_window, 0},
        {"stablehlo.select_and_scatter", import_select_and_scatter, 0},
        {"stablehlo.sort", import_sort, 0},
        {"stablehlo.rng", import_rng, 3},
    };
    *count = (int64_t)HLO_COUNT_OF(rows);
    return rows;
}
