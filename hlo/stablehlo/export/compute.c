// SPDX-License-Identifier: Apache-2.0
// Exports dots, convolutions, windows, top-k and random numbers. Instructions that the table mlir/fields.def describes
// fully (reductions, sorting, linear algebra) have no handler here. Attributes that have their default are omitted
// where MLIR's printer omits them, since the text must match its output byte for byte.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/export/export.h"

// ---------------------------------------------------------------------------------------------------------------------
// Dots

// HLO_INVALID represents the type that HLO does not have.
static const MlirAttribute *type_attribute(const ExportPlace *place, HloType type) {
    HloArena *arena = place->exporter->arena;
    const MlirType *named = type == HLO_INVALID ? mlir_other_type(arena, MLIR_TF32) : mlir_element_type(arena, type);
    return mlir_new_attribute(arena, (MlirAttribute){.kind = MLIR_TYPE, .type = named});
}

// StableHLO's parameters for the name of a dot algorithm (mlir/dot_algorithms.def).
typedef struct DotAlgorithm {
    int32_t algorithm;
    HloType lhs, rhs, accumulation;  // HLO_INVALID: tf32
    int64_t operations;
    bool imprecise;
} DotAlgorithm;

// All types of 8 bits are equivalent here: the operand's, if it has one.
static HloType f8_of(const HloInstruction *operand) {
    const HloType type = operand->shape->type;
    return hlo_type_is_float(type) && hlo_type_info(type)->bits == 8 && type != HLO_F8E8M0FNU ? type : HLO_F8E5M2;
}

// The parameters of a named algorithm.
static DotAlgorithm find_algorithm(const ExportPlace *place, int32_t algorithm) {
    static const DotAlgorithm table[] = {
#define DOT_ALGORITHM(name, operands, accumulation, operations) \
    {HLO_DotAlgorithm_##name, HLO_##operands, HLO_##operands, HLO_##accumulation, operations, false},
#include "hlo/stablehlo/mlir/dot_algorithms.def"
#undef DOT_ALGORITHM
    };
    bool fast = algorithm == HLO_DotAlgorithm_ANY_F8_ANY_F8_F32_FAST_ACCUM;
    if (fast || algorithm == HLO_DotAlgorithm_ANY_F8_ANY_F8_F32) {
        HloInstruction *const *operands = place->instruction->operands;
        return (DotAlgorithm){algorithm, f8_of(operands[0]), f8_of(operands[1]), HLO_F32, 1, fast};
    }
    size_t row = 0;
    while (row < HLO_COUNT_OF(table) && table[row].algorithm != algorithm) row++;
    HLO_BUG_IF(row == HLO_COUNT_OF(table));  // the table and the two above are all that there are
    return table[row];
}

static void add_algorithm(ExportPlace *place, int32_t algorithm, MlirOperation *operation) {
    if (algorithm == HLO_DotAlgorithm_UNSET) return;
    const DotAlgorithm found = find_algorithm(place, algorithm);
    export_attribute(place, operation, "lhs_precision_type", type_attribute(place, found.lhs));
    export_attribute(place, operation, "rhs_precision_type", type_attribute(place, found.rhs));
    export_attribute(place, operation, "accumulation_type", type_attribute(place, found.accumulation));
    export_attribute(place, operation, "lhs_component_count", export_i64(place, 1));
    export_attribute(place, operation, "rhs_component_count", export_i64(place, 1));
    export_attribute(place, operation, "num_primitive_operations", export_i64(place, found.operations));
    export_attribute(place, operation, "allow_imprecise_accumulation", export_bool(place, found.imprecise));
}

// Sparse dots have a third operand, which StableHLO does not have.
static HloStatus export_dot(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_DOT));
    const HloDotAttributes *attributes = HLO_ATTRIBUTES(place->instruction, Dot);
    if (place->operands.count != 2) return export_error(place, HLO_UNIMPLEMENTED, "a dot of more than two operands");
    MlirOperation *operation;
    HLO_TRY(export_with_fields(place, result, &operation));
    add_algorithm(place, attributes->algorithm, operation);
    return HLO_SUCCESS;
}

static HloStatus export_ragged_dot(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_RAGGED_DOT));
    const int32_t algorithm = HLO_ATTRIBUTES(place->instruction, Dot)->algorithm;
    if (algorithm != HLO_DotAlgorithm_UNSET)
        return export_error(place, HLO_UNIMPLEMENTED, "an algorithm, which chlo does not have");
    return export_with_fields(place, result, NULL);
}

// ---------------------------------------------------------------------------------------------------------------------
// Windows

// One property of every dimension of a window, as a list; *differs is set if any is not `fallback`. Addressed by the
// member's offset, since HLO keeps a record per dimension and StableHLO a list per property.
static HloInts window_list(const ExportPlace *place, const HloWindow *window, size_t offset, int64_t fallback,
                           bool *differs) {
    assert(window);
    int64_t *items = HLO_ARENA_NEW(place->exporter->arena, int64_t, window->count);
    *differs = false;
    for (int64_t i = 0; i < window->count; i++) {
        memcpy(&items[i], (const char *)&window->dims[i] + offset, sizeof(*items));
        *differs |= items[i] != fallback;
    }
    return (HloInts){items, window->count};
}

#define WINDOW_LIST(place, window, member, fallback, differs) \
    window_list((place), (window), offsetof(HloWindowDimension, member), (fallback), (differs))

static void add_window_list(ExportPlace *place, MlirOperation *operation, const char *name, HloInts list,
                            bool differs) {
    if (differs) export_attribute(place, operation, name, export_ints(place, list));
}

static void add_padding(ExportPlace *place, MlirOperation *operation, const HloWindow *window) {
    int64_t *pairs = HLO_ARENA_NEW(place->exporter->arena, int64_t, 2 * window->count);
    bool any = false;
    for (int64_t i = 0; i < window->count; i++) {
        pairs[2 * i] = window->dims[i].padding_low;
        pairs[2 * i + 1] = window->dims[i].padding_high;
        any |= pairs[2 * i] || pairs[2 * i + 1];
    }
    if (any) export_attribute(place, operation, "padding", export_matrix(place, pairs, window->count, 2));
}

static bool has_reversal(const HloWindow *window) {
    for (int64_t i = 0; i < window->count; i++) {
        if (window->dims[i].reversal) return true;
    }
    return false;
}

// A reduce_window has dilations, a select_and_scatter has none; neither can be reversed.
static HloStatus export_window(ExportPlace *place, const char *name, ExportLeaves *result) {
    const HloWindow *window = HLO_ATTRIBUTES(place->instruction, Window)->window;
    MlirOperation *operation;
    bool differs;
    if (has_reversal(window)) return export_error(place, HLO_UNIMPLEMENTED, "a reversed window");
    HLO_TRY(export_plain(place, name, result, &operation));
    bool dilates = strcmp(name, "stablehlo.reduce_window") == 0;
    HloInts list = WINDOW_LIST(place, window, base_dilation, 1, &differs);
    if (differs && !dilates) return export_error(place, HLO_UNIMPLEMENTED, "a window with dilations");
    add_window_list(place, operation, "base_dilations", list, differs);
    add_padding(place, operation, window);
    list = WINDOW_LIST(place, window, window_dilation, 1, &differs);
    if (differs && !dilates) return export_error(place, HLO_UNIMPLEMENTED, "a window with dilations");
    add_window_list(place, operation, "window_dilations", list, differs);
    export_attribute(place, operation, "window_dimensions",
                     export_ints(place, WINDOW_LIST(place, window, size, 1, &differs)));
    list = WINDOW_LIST(place, window, stride, 1, &differs);
    add_window_list(place, operation, "window_strides", list, differs);
    return export_regions(place, operation);
}

static HloStatus export_reduce_window(ExportPlace *place, ExportLeaves *result) {
    return export_window(place, "stablehlo.reduce_window", result);
}
static HloStatus export_select_and_scatter(ExportPlace *place, ExportLeaves *result) {
    return export_window(place, "stablehlo.select_and_scatter", result);
}

// A group count of 0 is HLO's way to omit a 1.
static HloStatus export_convolution(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_CONVOLUTION));
    const HloConvolutionAttributes *attributes = HLO_ATTRIBUTES(place->instruction, Convolution);
    static const HloWindow none = {0};
    const HloWindow *window = attributes->window ? attributes->window : &none;
    MlirOperation *operation;
    bool differs;
    HLO_TRY(export_plain(place, "stablehlo.convolution", result, &operation));
    int64_t batch = attributes->batch_group_count, feature = attributes->feature_group_count;
    export_attribute(place, operation, "batch_group_count", export_i64(place, batch ? batch : 1));
    HLO_TRY(export_fields(place, operation, HLO_OP_CONVOLUTION, attributes->labels));
    export_attribute(place, operation, "feature_group_count", export_i64(place, feature ? feature : 1));
    HloInts list = WINDOW_LIST(place, window, base_dilation, 1, &differs);
    add_window_list(place, operation, "lhs_dilation", list, differs);
    add_padding(place, operation, window);
    const MlirAttribute *precisions;
    HLO_TRY(export_precisions(place, attributes->precision, &precisions));
    export_attribute(place, operation, "precision_config", precisions);
    list = WINDOW_LIST(place, window, window_dilation, 1, &differs);
    add_window_list(place, operation, "rhs_dilation", list, differs);
    if (has_reversal(window)) {
        int64_t *flags = HLO_ARENA_NEW(place->exporter->arena, int64_t, window->count);
        for (int64_t i = 0; i < window->count; i++) flags[i] = window->dims[i].reversal;
        const MlirType *pred = mlir_element_type(place->exporter->arena, HLO_PRED);
        MlirAttribute reversal = {.kind = MLIR_INTS, .type = pred, .ints = {flags, window->count}};
        export_attribute(place, operation, "window_reversal", mlir_new_attribute(place->exporter->arena, reversal));
    }
    list = WINDOW_LIST(place, window, stride, 1, &differs);
    add_window_list(place, operation, "window_strides", list, differs);
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Order, random numbers

static HloStatus export_topk(ExportPlace *place, ExportLeaves *result) {
    if (!HLO_ATTRIBUTES(place->instruction, TopK)->largest)
        return export_error(place, HLO_UNIMPLEMENTED, "the smallest elements, which chlo does not have");
    return export_with_fields(place, result, NULL);
}

static HloStatus export_rng_bit_generator(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_RNG_BIT_GENERATOR));
    if (!hlo_shape_is_tuple(place->instruction->shape))
        return export_error(place, HLO_UNIMPLEMENTED, "random bits without their state");
    return export_with_fields(place, result, NULL);
}

// The shape is a third operand in StableHLO.
static HloStatus export_rng(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_RNG));
    const int32_t distribution = HLO_ATTRIBUTES(place->instruction, Rng)->distribution;
    if (distribution == HLO_RandomDistribution_INVALID)
        return export_error(place, HLO_UNIMPLEMENTED, "random numbers of an unknown distribution");
    const HloShape *shape = place->instruction->shape;
    HloArena *arena = place->exporter->arena;
    int64_t rank = shape->rank;
    const HloShape *list = hlo_shape_array(arena, HLO_S64, &rank, 1);
    HloLiteral *literal = hlo_literal_in_arena(arena, list);
    for (int64_t i = 0; i < rank; i++) hlo_literal_set_int64(literal, i, shape->dims[i]);
    const MlirType *list_type, *type;
    HLO_TRY(export_type(place, list, &list_type));
    HLO_TRY(export_type(place, shape, &type));
    const MlirOperation *sizes = export_known(place, "stablehlo.constant", NULL, 0, list_type, literal);
    MlirValue *operands[] = {place->operands.items[0], place->operands.items[1], sizes->results[0]};
    MlirOperation *operation = export_append(place, "stablehlo.rng", operands, 3, &type, 1);
    export_attribute(place, operation, "rng_distribution", export_enum(place, "rng_distribution", distribution));
    *result = export_results(operation);
    return HLO_SUCCESS;
}

ExportHandler *export_compute_handler(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_DOT: return export_dot;
        case HLO_OP_RAGGED_DOT: return export_ragged_dot;
        case HLO_OP_CONVOLUTION: return export_convolution;
        case HLO_OP_REDUCE_WINDOW: return export_reduce_window;
        case HLO_OP_SELECT_AND_SCATTER: return export_select_and_scatter;
        case HLO_OP_TOPK: return export_topk;
        case HLO_OP_RNG_BIT_GENERATOR: return export_rng_bit_generator;
        case HLO_OP_RNG: return export_rng;
        default: return NULL;
    }
}
