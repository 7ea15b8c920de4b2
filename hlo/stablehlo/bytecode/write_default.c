// SPDX-License-Identifier: Apache-2.0
// Defaults of attributes that StableHLO omits and VHLO requires: VHLO, the versioned dialect of portable bytecode, has
// no optional attributes, so each is written with the value that its absence implies. Source:
// stablehlo/transforms/StablehloLegalizeToVhlo.cpp.
#include <string.h>

#include "hlo/stablehlo/bytecode/writer.h"

typedef enum DefaultKind {
    DEFAULT_ZERO,   // i64
    DEFAULT_MINUS,  // i64 -1
    DEFAULT_FALSE,
    DEFAULT_TEXT,       // ""
    DEFAULT_LIST,       // []
    DEFAULT_MAP,        // {}
    DEFAULT_ONES,       // i64, one a dimension of the window
    DEFAULT_PADDING,    // zeros, two a dimension
    DEFAULT_FLAGS,      // false, one a dimension
    DEFAULT_NO_INTS,    // no numbers
    DEFAULT_PRECISION,  // two times DEFAULT
    DEFAULT_NONE,       // the type none
    DEFAULT_ACCURACY,
    DEFAULT_NOTYPE,  // of a comparison
    DEFAULT_API,     // of a custom call
} DefaultKind;

// By attribute, not by operation: a name has the same meaning wherever it occurs.
static const struct {
    const char *name;
    DefaultKind kind;
} defaults[] = {
    {"channel_id", DEFAULT_ZERO},
    {"use_global_device_ids", DEFAULT_FALSE},
    {"has_dynamic_root", DEFAULT_FALSE},
    {"lower", DEFAULT_FALSE},
    {"compare_type", DEFAULT_NOTYPE},
    {"version", DEFAULT_ZERO},
    {"composite_attributes", DEFAULT_MAP},
    {"window_strides", DEFAULT_ONES},
    {"base_dilations", DEFAULT_ONES},
    {"window_dilations", DEFAULT_ONES},
    {"lhs_dilation", DEFAULT_ONES},
    {"rhs_dilation", DEFAULT_ONES},
    {"padding", DEFAULT_PADDING},
    {"window_reversal", DEFAULT_FLAGS},
    {"precision_config", DEFAULT_PRECISION},
    {"lhs_precision_type", DEFAULT_NONE},
    {"rhs_precision_type", DEFAULT_NONE},
    {"accumulation_type", DEFAULT_NONE},
    {"lhs_component_count", DEFAULT_NONE},
    {"rhs_component_count", DEFAULT_NONE},
    {"num_primitive_operations", DEFAULT_NONE},
    {"allow_imprecise_accumulation", DEFAULT_NONE},
    {"has_side_effect", DEFAULT_FALSE},
    {"backend_config", DEFAULT_TEXT},
    {"api_version", DEFAULT_API},
    {"called_computations", DEFAULT_LIST},
    {"operand_layouts", DEFAULT_LIST},
    {"result_layouts", DEFAULT_LIST},
    {"output_operand_aliases", DEFAULT_LIST},
    {"result_tilings", DEFAULT_LIST},
    {"layout", DEFAULT_LIST},
    {"infeed_config", DEFAULT_TEXT},
    {"outfeed_config", DEFAULT_TEXT},
    {"is_host_transfer", DEFAULT_FALSE},
    {"source_target_pairs", DEFAULT_NO_INTS},
    {"indices_are_sorted", DEFAULT_FALSE},
    {"unique_indices", DEFAULT_FALSE},
    {"dimension", DEFAULT_MINUS},
    {"is_stable", DEFAULT_FALSE},
    {"result_accuracy", DEFAULT_ACCURACY},
    {"sym_visibility", DEFAULT_TEXT},
    {"arg_attrs", DEFAULT_LIST},
    {"res_attrs", DEFAULT_LIST},
};

// The number of dimensions of an operation's window.
static int64_t window_rank(const MlirOperation *operation) {
    const MlirAttribute *sizes = mlir_attribute(operation, "window_dimensions");
    if (!sizes) sizes = mlir_attribute(operation, "input_spatial_dimensions");
    return sizes ? sizes->ints.count : 0;
}

// The same value for each dimension.
static HloInts repeated(Writer *writer, int64_t value, int64_t count) {
    int64_t *items = HLO_ARENA_NEW(writer->arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) items[i] = value;
    return (HloInts){items, count};
}

// The value; attributes of a window have one number (or two) per dimension of the operation's window.
static MlirAttribute make_default(Writer *writer, const MlirOperation *operation, DefaultKind kind) {
    static const HloAccuracy accuracy = {0};
    HloArena *arena = writer->arena;
    int64_t rank = window_rank(operation);
    MlirAttribute attribute = {.kind = MLIR_INTEGER, .type = mlir_element_type(arena, HLO_S64)};
    const MlirAttribute **two = HLO_ARENA_NEW(arena, const MlirAttribute *, 2);
    int64_t dims[2] = {rank, 2};
    switch (kind) {
        case DEFAULT_ZERO: return attribute;
        case DEFAULT_MINUS: attribute.integer = -1; return attribute;
        case DEFAULT_FALSE: return (MlirAttribute){.kind = MLIR_BOOL};
        case DEFAULT_TEXT: return (MlirAttribute){.kind = MLIR_STRING, .string = ""};
        case DEFAULT_LIST: return (MlirAttribute){.kind = MLIR_ARRAY};
        case DEFAULT_MAP: return (MlirAttribute){.kind = MLIR_DICTIONARY};
        case DEFAULT_ONES: return (MlirAttribute){.kind = MLIR_INTS, .ints = repeated(writer, 1, rank)};
        case DEFAULT_NO_INTS: return (MlirAttribute){.kind = MLIR_INTS};
        case DEFAULT_FLAGS:
            return (MlirAttribute){
                .kind = MLIR_INTS, .type = mlir_element_type(arena, HLO_PRED), .ints = repeated(writer, 0, rank)};
        case DEFAULT_PADDING:
            return (MlirAttribute){.kind = MLIR_TENSOR,
                                   .literal = hlo_literal_in_arena(arena, hlo_shape_array(arena, HLO_S64, dims, 2))};
        case DEFAULT_PRECISION:
            two[0] = two[1] = mlir_new_attribute(arena, (MlirAttribute){.kind = MLIR_ENUM, .string = "precision"});
            return (MlirAttribute){.kind = MLIR_ARRAY, .items = two, .count = 2};
        case DEFAULT_NONE:
            attribute.type = mlir_new_type(arena, (MlirType){.kind = MLIR_TYPE_NONE});
            attribute.kind = MLIR_TYPE;
            return attribute;
        case DEFAULT_ACCURACY: return (MlirAttribute){.kind = MLIR_ACCURACY, .accuracy = &accuracy};
        case DEFAULT_NOTYPE: return (MlirAttribute){.kind = MLIR_ENUM, .string = "comparison_type"};
        case DEFAULT_API: return (MlirAttribute){.kind = MLIR_ENUM, .string = "api_version", .integer = 1};
    }
    return attribute;
}

const MlirAttribute *write_default(Writer *writer, const MlirOperation *operation, const char *name) {
    for (size_t i = 0; i < HLO_COUNT_OF(defaults); i++) {
        if (strcmp(defaults[i].name, name) != 0) continue;
        return mlir_new_attribute(writer->arena, make_default(writer, operation, defaults[i].kind));
    }
    return NULL;
}
