// SPDX-License-Identifier: Apache-2.0
// Typed attributes: one struct per op family, described by the rows of attributes.def. Lists and pointers live in the
// arena of the module (or computation builder) that the instruction belongs to, and never change once attached: to
// change an attribute, attach a changed copy of the struct.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_ATTRIBUTES_H_
#define MESHLO_HLO_IR_ATTRIBUTES_H_

#include "hlo/ir/literal.h"
#include "hlo/ir/replica_groups.h"
#include "hlo/ir/sharding.h"

HLO_BEGIN_C

// The enumerated values of enums.def: HLO_ComparisonDirection_EQ and so on, stored as int32_t.
#define HLO_ENUM_BEGIN(table)
#define HLO_ENUM(table, name, number, text) HLO_##table##_##name = (number),
#define HLO_ENUM_END(table)
typedef enum HloEnumValue {
#include "hlo/ir/enums.def"
} HloEnumValue;
#undef HLO_ENUM_BEGIN
#undef HLO_ENUM
#undef HLO_ENUM_END

typedef struct HloPair {
    int64_t source;
    int64_t target;
} HloPair;
typedef struct HloPairs {
    const HloPair *items;
    int64_t count;
} HloPairs;

typedef struct HloBools {
    const bool *items;
    int64_t count;
} HloBools;

// One row of padding=low_high_interior.
typedef struct HloPadDimension {
    int64_t low, high, interior;
} HloPadDimension;
typedef struct HloPadding {
    const HloPadDimension *items;
    int64_t count;
} HloPadding;

// One dimension of a window.
typedef struct HloWindowDimension {
    int64_t size, stride;                    // stride >= 1
    int64_t padding_low, padding_high;       // may be negative
    int64_t base_dilation, window_dilation;  // lhs_dilate, rhs_dilate; >= 1
    bool reversal;                           // rhs_reversal
} HloWindowDimension;
typedef struct HloWindow {
    const HloWindowDimension *dims;
    int64_t count;
} HloWindow;

// dim_labels of a convolution: the position of each role in the input, the kernel and the output.
typedef struct HloConvolutionLabels {
    int64_t input_batch, input_feature;
    HloInts input_spatial;
    int64_t kernel_input_feature, kernel_output_feature;
    HloInts kernel_spatial;
    int64_t output_batch, output_feature;
    HloInts output_spatial;
    HloInts input_unknown, kernel_unknown, output_unknown;  // '?' dimensions
} HloConvolutionLabels;

// {output index}: (operand, {operand index}).
typedef struct HloAlias {
    HloInts output_index;
    int64_t operand;
    HloInts operand_index;
    bool must_alias;  // module level: must-alias instead of may-alias
} HloAlias;
typedef struct HloAliases {
    const HloAlias *items;
    int64_t count;
} HloAliases;

// NULL items: text writes no list at all.
typedef struct HloShapes {
    const HloShape *const *items;
    int64_t count;
} HloShapes;

typedef struct HloIntsList {
    const HloInts *items;
    int64_t count;
} HloIntsList;

// result_accuracy={mode=highest} or {tolerance={atol=..,rtol=..,ulps=..}}
typedef struct HloAccuracy {
    int32_t mode;  // HLO_AccuracyMode_*
    bool has_tolerance;
    double atol, rtol;
    int64_t ulps;
} HloAccuracy;

// operand_precision={high,default}: HLO_Precision_* values.
typedef struct HloPrecisions {
    const int32_t *items;
    int64_t count;
} HloPrecisions;

typedef struct HloNoneAttributes {
    char unused;
} HloNoneAttributes;
typedef struct HloAccuracyAttributes {
    const HloAccuracy *accuracy;
} HloAccuracyAttributes;
typedef struct HloConstantAttributes {
    const HloLiteral *literal;
} HloConstantAttributes;
typedef struct HloParameterAttributes {
    int64_t number;
    HloBools replication;
} HloParameterAttributes;
// broadcast, transpose, reverse, concatenate, reduce, map, get/set-dimension-size
typedef struct HloDimensionsAttributes {
    HloInts dimensions;
} HloDimensionsAttributes;
typedef struct HloIotaAttributes {
    int64_t dimension;
} HloIotaAttributes;
typedef struct HloTopKAttributes {
    int64_t k;
    bool largest;
} HloTopKAttributes;
typedef struct HloSortAttributes {
    HloInts dimensions;
    bool is_stable;
} HloSortAttributes;
typedef struct HloScanAttributes {
    HloInts dimensions;
    int64_t num_carries;
    bool is_reverse;
    int32_t is_associative;  // 0 not given, 1 true, 2 false
} HloScanAttributes;
// All collectives except the permutes. channel_id 0: none.
typedef struct HloCollectiveAttributes {
    int64_t channel_id;
    const HloReplicaGroups *replica_groups;
    bool constrain_layout;
    bool use_global_device_ids;
    HloInts dimensions;  // all-gather, reduce-scatter, all-to-all (empty for its tuple form)
    const char *mode;
} HloCollectiveAttributes;
typedef struct HloPermuteAttributes {
    int64_t channel_id;
    HloPairs source_target_pairs;
    HloIntsList slice_sizes;  // in-place form with four operands
} HloPermuteAttributes;
typedef struct HloAsyncAttributes {
    const char *execution_thread;
    HloAliases aliasing;
} HloAsyncAttributes;
// The value of OPTIONAL_INT fields that are not given.
#define HLO_ABSENT INT64_MIN
typedef struct HloCopyStartAttributes {
    int64_t cross_program_prefetch_index;
} HloCopyStartAttributes;
typedef struct HloReshapeAttributes {
    int64_t inferred_dimension;
} HloReshapeAttributes;
typedef struct HloCallAttributes {
    bool is_composite;
    HloAliases aliasing;
} HloCallAttributes;
typedef struct HloFusionAttributes {
    int32_t kind;
    HloAliases aliasing;
} HloFusionAttributes;
typedef struct HloTransferAttributes {
    int64_t channel_id;
    bool is_host_transfer;
} HloTransferAttributes;
typedef struct HloTupleIndexAttributes {
    int64_t index;
} HloTupleIndexAttributes;
typedef struct HloDomainAttributes {
    const char *kind;
    const HloSharding *entry, *exit;
} HloDomainAttributes;
typedef struct HloWindowAttributes {
    const HloWindow *window;
} HloWindowAttributes;
typedef struct HloConvolutionAttributes {
    const HloWindow *window;
    const HloConvolutionLabels *labels;
    int64_t feature_group_count, batch_group_count;  // 0 and 1 both mean one group
    HloPrecisions precision;
    int32_t kind;
} HloConvolutionAttributes;
typedef struct HloDotAttributes {
    HloInts lhs_batch, lhs_contracting, rhs_batch, rhs_contracting;
    HloPrecisions precision;
    int32_t algorithm;
    HloInts lhs_ragged, rhs_group;  // ragged-dot
} HloDotAttributes;
typedef struct HloFftAttributes {
    int32_t type;
    HloInts length;
} HloFftAttributes;
typedef struct HloTriangularSolveAttributes {
    bool left_side, lower, unit_diagonal;
    int32_t transpose_a;
} HloTriangularSolveAttributes;
typedef struct HloCholeskyAttributes {
    bool lower;
} HloCholeskyAttributes;
typedef struct HloCompareAttributes {
    int32_t direction, type;
} HloCompareAttributes;
typedef struct HloSliceAttributes {
    HloInts starts, limits, strides;
} HloSliceAttributes;
typedef struct HloDynamicSliceAttributes {
    HloInts sizes;
} HloDynamicSliceAttributes;
typedef struct HloPadAttributes {
    HloPadding padding;
} HloPadAttributes;
typedef struct HloBatchNormAttributes {
    float epsilon;
    int64_t feature_index;
} HloBatchNormAttributes;
typedef struct HloInfeedAttributes {
    const char *config;
} HloInfeedAttributes;
typedef struct HloOutfeedAttributes {
    const HloShape *shape;
    const char *config;
} HloOutfeedAttributes;
typedef struct HloRngAttributes {
    int32_t distribution;
} HloRngAttributes;
typedef struct HloRngBitsAttributes {
    int32_t algorithm;
} HloRngBitsAttributes;
typedef struct HloRngStateAttributes {
    int64_t delta;
} HloRngStateAttributes;
typedef struct HloReducePrecisionAttributes {
    int64_t exponent_bits, mantissa_bits;
} HloReducePrecisionAttributes;
typedef struct HloGatherAttributes {
    HloInts offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims, start_indices_batching_dims;
    int64_t index_vector_dim;
    HloInts slice_sizes;
    bool indices_are_sorted;
} HloGatherAttributes;
typedef struct HloScatterAttributes {
    HloInts update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, input_batching_dims,
        scatter_indices_batching_dims;
    int64_t index_vector_dim;
    bool indices_are_sorted, unique_indices;
} HloScatterAttributes;
typedef struct HloCustomCallAttributes {
    const HloWindow *window;
    const HloConvolutionLabels *labels;
    int64_t feature_group_count, batch_group_count;
    HloPrecisions precision;
    int32_t padding_type;
    const char *target;
    HloShapes operand_layouts;
    bool has_side_effect;
    const HloLiteral *literal;
    HloAliases aliasing;
    int32_t schedule, api_version;
} HloCustomCallAttributes;

typedef enum HloFamily {
#define HLO_FAMILY(family) HLO_FAMILY_##family,
#define HLO_FIELD(family, field, kind, text, presence)
#define HLO_FAMILY_END(family)
#define HLO_FIELD_RULE(opcode, family, field, presence)
#include "hlo/ir/attributes.def"
#undef HLO_FAMILY
#undef HLO_FIELD
#undef HLO_FIELD_RULE
#undef HLO_FAMILY_END
    HLO_FAMILY_COUNT
} HloFamily;

// The kind of a field, which determines how it is parsed, printed, copied, compared and hashed.
typedef enum HloFieldKind {
    HLO_FIELD_INT,
    HLO_FIELD_OPTIONAL_INT,
    HLO_FIELD_GROUP_COUNT,
    HLO_FIELD_BOOL,
    HLO_FIELD_TRISTATE,
    HLO_FIELD_FLOAT,
    HLO_FIELD_STRING,
    HLO_FIELD_INTS,
    HLO_FIELD_INTS_LIST,
    HLO_FIELD_BOOL_LIST,
    HLO_FIELD_PAIRS,
    HLO_FIELD_ENUM,
    HLO_FIELD_ACCURACY,
    HLO_FIELD_LITERAL,
    HLO_FIELD_REPLICA_GROUPS,
    HLO_FIELD_ALIASING,
    HLO_FIELD_SHARDING,
    HLO_FIELD_WINDOW,
    HLO_FIELD_LABELS,
    HLO_FIELD_PRECISIONS,
    HLO_FIELD_PADDING,
    HLO_FIELD_SHAPE,
    HLO_FIELD_SHAPES,
} HloFieldKind;

// The names of an enumeration: texts by number, NULL-terminated.
typedef struct HloEnumTable {
    const char *name;
    const char *const *texts;
    int32_t count;
} HloEnumTable;

// Whether an op's text must, may or cannot give a field.
typedef enum HloFieldPresence { HLO_FIELD_OPTIONAL, HLO_FIELD_NEEDED, HLO_FIELD_FORBIDDEN } HloFieldPresence;

typedef struct HloField {
    const char *text;  // "" when the syntax is special
    HloFieldKind kind;
    bool always;                      // printed even at its zero value
    const HloEnumTable *enumeration;  // of HLO_FIELD_ENUM
    size_t offset;                    // within the family's struct
    HloFieldPresence presence;        // in text, for most ops of the family: hlo_field_presence()
} HloField;

typedef struct HloFamilyInfo {
    const char *name;
    size_t bytes;  // of the struct
    const HloField *fields;
    int32_t field_count;
} HloFamilyInfo;

// Returns the description of a family. Static storage.
HLO_EXPORT const HloFamilyInfo *hlo_family_info(HloFamily family);
// Returns a deep copy of an attribute struct in `arena`.
HLO_EXPORT void *hlo_attributes_copy(HloArena *arena, HloFamily family, const void *attributes);
// Compares two structs field by field, each by its kind; pointers are followed.
HLO_EXPORT bool hlo_attributes_equal(HloFamily family, const void *a, const void *b);
// True if a field has the value that text leaves out: 0, false, NULL, an empty list.
HLO_EXPORT bool hlo_field_is_unset(const HloField *field, const void *attributes);
// Hashes a struct: equal attributes have equal hashes.
HLO_EXPORT uint64_t hlo_attributes_hash(HloFamily family, const void *attributes);
// The order in which values of a type are compared when a compare does not give one: HLO_ComparisonType_SIGNED,
// UNSIGNED (also for pred) or FLOAT (also for complex). Text leaves it out, protobuf always has it.
HLO_EXPORT int32_t hlo_comparison_default(HloType type);
// The equivalent direction with both sides exchanged: LT for GT, EQ for EQ.
HLO_EXPORT int32_t hlo_comparison_exchanged(int32_t direction);
// The number of the enumerator with this spelling, or -1.
HLO_EXPORT int32_t hlo_enum_from_text(const HloEnumTable *table, const char *text, size_t length);
// As hlo_enum_from_text(), but ignores case: "HIGHEST" and "highest".
HLO_EXPORT int32_t hlo_enum_from_any_case(const HloEnumTable *table, const char *text, size_t length);

// Tables by name: hlo_enum_ComparisonDirection and so on.
#define HLO_ENUM_BEGIN(table)
#define HLO_ENUM(table, name, number, text)
#define HLO_ENUM_END(table) HLO_EXPORT extern const HloEnumTable hlo_enum_##table;
#include "hlo/ir/enums.def"
#undef HLO_ENUM_BEGIN
#undef HLO_ENUM
#undef HLO_ENUM_END

// Copies a list into an arena.
HLO_EXPORT HloInts hlo_ints(HloArena *arena, const int64_t *items, int64_t count);
static inline HloInts hlo_ints_copy(HloArena *arena, HloInts ints) {
    return hlo_ints(arena, ints.items, ints.count);
}
// True if both have the same items in the same order.
HLO_EXPORT bool hlo_ints_equal(HloInts a, HloInts b);
// Hashes a list: equal lists have equal hashes.
HLO_EXPORT uint64_t hlo_ints_hash(HloInts list);
HLO_EXPORT uint64_t hlo_aliases_hash(HloAliases aliases);  // as hlo_ints_hash(), for aliases
// Appends the numbers, separated by commas.
HLO_EXPORT void hlo_ints_print(HloText *text, HloInts ints);
// True if `value` is among the items.
HLO_EXPORT bool hlo_ints_contain(HloInts ints, int64_t value);

HLO_END_C

#endif
