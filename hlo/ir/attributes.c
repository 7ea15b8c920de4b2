// SPDX-License-Identifier: Apache-2.0
// Attributes of instructions: the tables made of enums.def and attributes.def, and the operations on attributes that
// these tables drive.
//
// A family of ops has one struct (HloDotAttributes), and attributes.def has one row for each of its fields:
//
//   HLO_FIELD(Dot, lhs_batch, INTS, "lhs_batch_dims", OPTIONAL)
//   ->  {"lhs_batch_dims", HLO_FIELD_INTS, false, NULL, offsetof(HloDotAttributes, lhs_batch), HLO_FIELD_OPTIONAL}
//
// Copying, comparing, hashing (here), printing and parsing (hlo/text), protos (hlo/proto) and the builders iterate over
// these rows and switch on the kind of the field, so that a new attribute is one row and a new kind one case per
// switch. The compiler checks that each switch handles all kinds: they have no default.
//
// Attributes are immutable and belong to an arena; a copy is deep, because the other module's arena may be freed first.
// Equal attributes have equal hashes. The default of a field may be written in two ways (group counts: 0 and 1; lists
// of shapes: absent and empty), which compare as equal.
#include "hlo/ir/attributes.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "hlo/base/map.h"

// ---------------------------------------------------------------------------------------------------------------------
// Tables

#define HLO_ENUM_BEGIN(table) static const char *const texts_##table[] = {
#define HLO_ENUM(table, name, number, text) [number] = text,
#define HLO_ENUM_END(table) \
    }                       \
    ;                       \
    const HloEnumTable hlo_enum_##table = {#table, texts_##table, (int32_t)HLO_COUNT_OF(texts_##table)};
#include "hlo/ir/enums.def"
#undef HLO_ENUM_BEGIN
#undef HLO_ENUM
#undef HLO_ENUM_END

// The kind column, expanded: the kind, whether the field is printed at its zero value, and its enumeration.
#define KIND_INT HLO_FIELD_INT, false, NULL
#define KIND_INT_ALWAYS HLO_FIELD_INT, true, NULL
#define KIND_OPTIONAL_INT HLO_FIELD_OPTIONAL_INT, false, NULL
#define KIND_GROUP_COUNT HLO_FIELD_GROUP_COUNT, false, NULL
#define KIND_BOOL HLO_FIELD_BOOL, false, NULL
#define KIND_BOOL_ALWAYS HLO_FIELD_BOOL, true, NULL
#define KIND_TRISTATE HLO_FIELD_TRISTATE, false, NULL
#define KIND_FLOAT_ALWAYS HLO_FIELD_FLOAT, true, NULL
#define KIND_STRING HLO_FIELD_STRING, false, NULL
#define KIND_STRING_ALWAYS HLO_FIELD_STRING, true, NULL
#define KIND_INTS HLO_FIELD_INTS, false, NULL
#define KIND_INTS_ALWAYS HLO_FIELD_INTS, true, NULL
#define KIND_INTS_LIST HLO_FIELD_INTS_LIST, false, NULL
#define KIND_BOOL_LIST HLO_FIELD_BOOL_LIST, false, NULL
#define KIND_PAIRS_ALWAYS HLO_FIELD_PAIRS, true, NULL
#define KIND_ACCURACY HLO_FIELD_ACCURACY, false, NULL
#define KIND_LITERAL HLO_FIELD_LITERAL, false, NULL
#define KIND_REPLICA_GROUPS HLO_FIELD_REPLICA_GROUPS, false, NULL
#define KIND_ALIASING HLO_FIELD_ALIASING, false, NULL
#define KIND_SHARDING HLO_FIELD_SHARDING, false, NULL
#define KIND_WINDOW HLO_FIELD_WINDOW, false, NULL
#define KIND_LABELS HLO_FIELD_LABELS, false, NULL
#define KIND_PRECISIONS HLO_FIELD_PRECISIONS, false, NULL
#define KIND_PADDING HLO_FIELD_PADDING, false, NULL
#define KIND_SHAPE HLO_FIELD_SHAPE, false, NULL
#define KIND_SHAPES HLO_FIELD_SHAPES, false, NULL
#define KIND_ComparisonDirection_ALWAYS HLO_FIELD_ENUM, true, &hlo_enum_ComparisonDirection
#define KIND_ComparisonType HLO_FIELD_ENUM, false, &hlo_enum_ComparisonType
#define KIND_FftType_ALWAYS HLO_FIELD_ENUM, true, &hlo_enum_FftType
#define KIND_FusionKind_ALWAYS HLO_FIELD_ENUM, true, &hlo_enum_FusionKind
#define KIND_RandomDistribution_ALWAYS HLO_FIELD_ENUM, true, &hlo_enum_RandomDistribution
#define KIND_RandomAlgorithm_ALWAYS HLO_FIELD_ENUM, true, &hlo_enum_RandomAlgorithm
#define KIND_DotAlgorithm HLO_FIELD_ENUM, false, &hlo_enum_DotAlgorithm
#define KIND_Transpose HLO_FIELD_ENUM, false, &hlo_enum_Transpose
#define KIND_ConvolutionKind HLO_FIELD_ENUM, false, &hlo_enum_ConvolutionKind
#define KIND_CustomCallSchedule HLO_FIELD_ENUM, false, &hlo_enum_CustomCallSchedule
#define KIND_CustomCallApi HLO_FIELD_ENUM, false, &hlo_enum_CustomCallApi
#define KIND_PaddingType HLO_FIELD_ENUM, false, &hlo_enum_PaddingType

// Each list ends with an empty row, so that families without fields have lists too.
#define HLO_FAMILY(family) static const HloField fields_##family[] = {
#define HLO_FIELD(family, field, kind, text, presence) \
    {text, KIND_##kind, offsetof(Hlo##family##Attributes, field), HLO_FIELD_##presence},
#define HLO_FAMILY_END(family)                                  \
    { NULL, HLO_FIELD_INT, false, NULL, 0, HLO_FIELD_OPTIONAL } \
    }                                                           \
    ;
#define HLO_FIELD_RULE(opcode, family, field, presence)
#include "hlo/ir/attributes.def"
#undef HLO_FAMILY
#undef HLO_FIELD
#undef HLO_FIELD_RULE
#undef HLO_FAMILY_END

static const HloFamilyInfo families[HLO_FAMILY_COUNT] = {
#define HLO_FAMILY(family)                                                              \
    [HLO_FAMILY_##family] = {#family, sizeof(Hlo##family##Attributes), fields_##family, \
                             (int32_t)HLO_COUNT_OF(fields_##family) - 1},
#define HLO_FIELD(family, field, kind, text, presence)
#define HLO_FAMILY_END(family)
#define HLO_FIELD_RULE(opcode, family, field, presence)
#include "hlo/ir/attributes.def"
#undef HLO_FAMILY
#undef HLO_FIELD
#undef HLO_FIELD_RULE
#undef HLO_FAMILY_END
};

const HloFamilyInfo *hlo_family_info(HloFamily family) {
    return &families[family];
}

typedef int CompareText(const char *a, const char *b, size_t length);

// Compares with each text in turn: tables have at most a few dozen, with gaps (NULL) for unused numbers.
static int32_t find_text(const HloEnumTable *table, const char *text, size_t length, CompareText *compare) {
    assert(table && (text || length == 0));
    for (int32_t i = 0; i < table->count; i++) {
        const char *name = table->texts[i];
        if (name && strlen(name) == length && compare(name, text, length) == 0) return i;
    }
    return -1;
}

int32_t hlo_enum_from_text(const HloEnumTable *table, const char *text, size_t length) {
    return find_text(table, text, length, strncmp);
}

int32_t hlo_enum_from_any_case(const HloEnumTable *table, const char *text, size_t length) {
    return find_text(table, text, length, strncasecmp);
}

// ---------------------------------------------------------------------------------------------------------------------
// Copying

static HloAliases copy_aliases(HloArena *arena, HloAliases from) {
    assert(from.count >= 0);
    HloAlias *items = hlo_arena_copy(arena, from.items, (size_t)from.count * sizeof(*items));
    for (int64_t i = 0; i < from.count; i++) {
        items[i].output_index = hlo_ints_copy(arena, from.items[i].output_index);
        items[i].operand_index = hlo_ints_copy(arena, from.items[i].operand_index);
    }
    return (HloAliases){items, from.count};
}

static HloIntsList copy_ints_list(HloArena *arena, HloIntsList from) {
    HloInts *items = HLO_ARENA_NEW(arena, HloInts, from.count);
    for (int64_t i = 0; i < from.count; i++) items[i] = hlo_ints_copy(arena, from.items[i]);
    return (HloIntsList){items, from.count};
}

// NULL stays NULL, and an empty list stays a list: they print differently ("not given" and "given, empty"), although
// comparing and hashing treat them as equal.
static HloShapes copy_shapes(HloArena *arena, HloShapes from) {
    if (!from.items) return from;
    const HloShape **items = HLO_ARENA_NEW(arena, const HloShape *, from.count > 0 ? from.count : 1);
    for (int64_t i = 0; i < from.count; i++) items[i] = hlo_shape_copy(arena, from.items[i]);
    return (HloShapes){items, from.count};
}

static const HloWindow *copy_window(HloArena *arena, const HloWindow *from) {
    if (!from) return NULL;
    HloWindow *window = HLO_ARENA_NEW(arena, HloWindow, 1);
    window->count = from->count;
    window->dims = hlo_arena_copy(arena, from->dims, (size_t)from->count * sizeof(*from->dims));
    return window;
}

static const HloConvolutionLabels *copy_labels(HloArena *arena, const HloConvolutionLabels *from) {
    if (!from) return NULL;
    HloConvolutionLabels *labels = hlo_arena_copy(arena, from, sizeof(*from));
    labels->input_spatial = hlo_ints_copy(arena, from->input_spatial);
    labels->kernel_spatial = hlo_ints_copy(arena, from->kernel_spatial);
    labels->output_spatial = hlo_ints_copy(arena, from->output_spatial);
    labels->input_unknown = hlo_ints_copy(arena, from->input_unknown);
    labels->kernel_unknown = hlo_ints_copy(arena, from->kernel_unknown);
    labels->output_unknown = hlo_ints_copy(arena, from->output_unknown);
    return labels;
}

// Replaces what the field points to with a copy; `to` is the field in a struct that has been copied byte by byte.
static void copy_field(HloArena *arena, const HloField *field, void *to) {
    switch (field->kind) {
        case HLO_FIELD_INT:
        case HLO_FIELD_OPTIONAL_INT:
        case HLO_FIELD_GROUP_COUNT:
        case HLO_FIELD_BOOL:
        case HLO_FIELD_TRISTATE:
        case HLO_FIELD_FLOAT:
        case HLO_FIELD_ENUM: return;  // copied with the struct
        case HLO_FIELD_STRING: *(const char **)to = hlo_arena_text(arena, *(const char **)to); return;
        case HLO_FIELD_INTS: *(HloInts *)to = hlo_ints_copy(arena, *(HloInts *)to); return;
        case HLO_FIELD_INTS_LIST: *(HloIntsList *)to = copy_ints_list(arena, *(HloIntsList *)to); return;
        case HLO_FIELD_BOOL_LIST: {
            HloBools *list = to;
            list->items = hlo_arena_copy(arena, list->items, (size_t)list->count * sizeof(bool));
            return;
        }
        case HLO_FIELD_PAIRS: {
            HloPairs *list = to;
            list->items = hlo_arena_copy(arena, list->items, (size_t)list->count * sizeof(HloPair));
            return;
        }
        case HLO_FIELD_PRECISIONS: {
            HloPrecisions *list = to;
            list->items = hlo_arena_copy(arena, list->items, (size_t)list->count * sizeof(int32_t));
            return;
        }
        case HLO_FIELD_PADDING: {
            HloPadding *list = to;
            list->items = hlo_arena_copy(arena, list->items, (size_t)list->count * sizeof(HloPadDimension));
            return;
        }
        case HLO_FIELD_ACCURACY: {
            const HloAccuracy **accuracy = to;
            if (*accuracy) *accuracy = hlo_arena_copy(arena, *accuracy, sizeof(HloAccuracy));
            return;
        }
        case HLO_FIELD_LITERAL: {
            const HloLiteral **literal = to;
            if (*literal) *literal = hlo_literal_copy_to_arena(arena, *literal);
            return;
        }
        case HLO_FIELD_REPLICA_GROUPS: {
            const HloReplicaGroups **groups = to;
            if (*groups) *groups = hlo_replica_groups_copy(arena, *groups);
            return;
        }
        case HLO_FIELD_ALIASING: *(HloAliases *)to = copy_aliases(arena, *(HloAliases *)to); return;
        case HLO_FIELD_SHARDING:
            *(const HloSharding **)to = hlo_sharding_copy(arena, *(const HloSharding **)to);
            return;
        case HLO_FIELD_WINDOW: *(const HloWindow **)to = copy_window(arena, *(const HloWindow **)to); return;
        case HLO_FIELD_LABELS:
            *(const HloConvolutionLabels **)to = copy_labels(arena, *(const HloConvolutionLabels **)to);
            return;
        case HLO_FIELD_SHAPE: {
            const HloShape **shape = to;
            if (*shape) *shape = hlo_shape_copy(arena, *shape);
            return;
        }
        case HLO_FIELD_SHAPES: *(HloShapes *)to = copy_shapes(arena, *(HloShapes *)to); return;
    }
}

void *hlo_attributes_copy(HloArena *arena, HloFamily family, const void *attributes) {
    assert(family >= 0 && family < HLO_FAMILY_COUNT);
    const HloFamilyInfo *info = hlo_family_info(family);
    if (!attributes) return NULL;
    char *copy = hlo_arena_copy(arena, attributes, info->bytes);
    for (int32_t i = 0; i < info->field_count; i++) copy_field(arena, &info->fields[i], copy + info->fields[i].offset);
    return copy;
}

// ---------------------------------------------------------------------------------------------------------------------
// Comparing and hashing

static bool equal_strings(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool equal_aliases(HloAliases a, HloAliases b) {
    if (a.count != b.count) return false;
    for (int64_t i = 0; i < a.count; i++) {
        const HloAlias *x = &a.items[i], *y = &b.items[i];
        if (x->operand != y->operand || x->must_alias != y->must_alias ||
            !hlo_ints_equal(x->output_index, y->output_index) || !hlo_ints_equal(x->operand_index, y->operand_index)) {
            return false;
        }
    }
    return true;
}

static bool equal_ints_lists(HloIntsList a, HloIntsList b) {
    if (a.count != b.count) return false;
    for (int64_t i = 0; i < a.count; i++) {
        if (!hlo_ints_equal(a.items[i], b.items[i])) return false;
    }
    return true;
}

static bool equal_windows(const HloWindow *a, const HloWindow *b) {
    if (!a || !b) return a == b;
    if (a->count != b->count) return false;
    for (int64_t i = 0; i < a->count; i++) {
        const HloWindowDimension *x = &a->dims[i], *y = &b->dims[i];
        if (x->size != y->size || x->stride != y->stride || x->padding_low != y->padding_low ||
            x->padding_high != y->padding_high || x->base_dilation != y->base_dilation ||
            x->window_dilation != y->window_dilation || x->reversal != y->reversal) {
            return false;
        }
    }
    return true;
}

static bool equal_labels(const HloConvolutionLabels *a, const HloConvolutionLabels *b) {
    if (!a || !b) return a == b;
    return a->input_batch == b->input_batch && a->input_feature == b->input_feature &&
           a->kernel_input_feature == b->kernel_input_feature && a->kernel_output_feature == b->kernel_output_feature &&
           a->output_batch == b->output_batch && a->output_feature == b->output_feature &&
           hlo_ints_equal(a->input_spatial, b->input_spatial) && hlo_ints_equal(a->kernel_spatial, b->kernel_spatial) &&
           hlo_ints_equal(a->output_spatial, b->output_spatial) && hlo_ints_equal(a->input_unknown, b->input_unknown) &&
           hlo_ints_equal(a->kernel_unknown, b->kernel_unknown) && hlo_ints_equal(a->output_unknown, b->output_unknown);
}

static bool equal_shapes(HloShapes a, HloShapes b) {
    if (a.count != b.count) return false;
    for (int64_t i = 0; i < a.count; i++) {
        if (!hlo_shape_equal(a.items[i], b.items[i], HLO_COMPARE_ALL)) return false;
    }
    return true;
}

// Compares lists of plain numbers: true for the same count and the same bytes.
static bool equal_items(const void *a, int64_t a_count, const void *b, int64_t b_count, size_t bytes_each) {
    return a_count == b_count && (a_count == 0 || memcmp(a, b, (size_t)a_count * bytes_each) == 0);
}

static bool equal_accuracy(const HloAccuracy *a, const HloAccuracy *b) {
    if (!a || !b) return a == b;
    return a->mode == b->mode && a->has_tolerance == b->has_tolerance && a->atol == b->atol && a->rtol == b->rtol &&
           a->ulps == b->ulps;
}

// `a` and `b` point to the field within the two structs.
static bool equal_field(const HloField *field, const void *a, const void *b) {
    switch (field->kind) {
        case HLO_FIELD_INT:
        case HLO_FIELD_OPTIONAL_INT: return *(const int64_t *)a == *(const int64_t *)b;
        case HLO_FIELD_GROUP_COUNT: {
            int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
            return (x ? x : 1) == (y ? y : 1);
        }
        case HLO_FIELD_BOOL: return *(const bool *)a == *(const bool *)b;
        case HLO_FIELD_TRISTATE:
        case HLO_FIELD_ENUM: return *(const int32_t *)a == *(const int32_t *)b;
        case HLO_FIELD_FLOAT: return *(const float *)a == *(const float *)b;
        case HLO_FIELD_STRING: return equal_strings(*(const char *const *)a, *(const char *const *)b);
        case HLO_FIELD_INTS: return hlo_ints_equal(*(const HloInts *)a, *(const HloInts *)b);
        case HLO_FIELD_INTS_LIST: return equal_ints_lists(*(const HloIntsList *)a, *(const HloIntsList *)b);
        case HLO_FIELD_BOOL_LIST: {
            const HloBools *x = a, *y = b;
            return equal_items(x->items, x->count, y->items, y->count, sizeof(bool));
        }
        case HLO_FIELD_PAIRS: {
            const HloPairs *x = a, *y = b;
            return equal_items(x->items, x->count, y->items, y->count, sizeof(HloPair));
        }
        case HLO_FIELD_PRECISIONS: {
            const HloPrecisions *x = a, *y = b;
            return equal_items(x->items, x->count, y->items, y->count, sizeof(int32_t));
        }
        case HLO_FIELD_PADDING: {
            const HloPadding *x = a, *y = b;
            return equal_items(x->items, x->count, y->items, y->count, sizeof(HloPadDimension));
        }
        case HLO_FIELD_ACCURACY: return equal_accuracy(*(const HloAccuracy *const *)a, *(const HloAccuracy *const *)b);
        case HLO_FIELD_LITERAL: {
            const HloLiteral *x = *(const HloLiteral *const *)a, *y = *(const HloLiteral *const *)b;
            return x && y ? hlo_literal_equal(x, y) : x == y;
        }
        case HLO_FIELD_REPLICA_GROUPS: {
            const HloReplicaGroups *x = *(const HloReplicaGroups *const *)a, *y = *(const HloReplicaGroups *const *)b;
            return x && y ? hlo_replica_groups_equal(x, y) : x == y;
        }
        case HLO_FIELD_ALIASING: return equal_aliases(*(const HloAliases *)a, *(const HloAliases *)b);
        case HLO_FIELD_SHARDING:
            return hlo_sharding_equal(*(const HloSharding *const *)a, *(const HloSharding *const *)b);
        case HLO_FIELD_WINDOW: return equal_windows(*(const HloWindow *const *)a, *(const HloWindow *const *)b);
        case HLO_FIELD_LABELS:
            return equal_labels(*(const HloConvolutionLabels *const *)a, *(const HloConvolutionLabels *const *)b);
        case HLO_FIELD_SHAPE: {
            const HloShape *x = *(const HloShape *const *)a, *y = *(const HloShape *const *)b;
            return x && y ? hlo_shape_equal(x, y, HLO_COMPARE_ALL) : x == y;
        }
        case HLO_FIELD_SHAPES: return equal_shapes(*(const HloShapes *)a, *(const HloShapes *)b);
    }
    return false;
}

bool hlo_field_is_unset(const HloField *field, const void *attributes) {
    static const int64_t nothing[4];  // as large as any field
    return equal_field(field, (const char *)attributes + field->offset, nothing);
}

bool hlo_attributes_equal(HloFamily family, const void *a, const void *b) {
    assert(family >= 0 && family < HLO_FAMILY_COUNT);
    if (a == b) return true;
    if (!a || !b) return false;
    const HloFamilyInfo *info = hlo_family_info(family);
    for (int32_t i = 0; i < info->field_count; i++) {
        const HloField *field = &info->fields[i];
        if (!equal_field(field, (const char *)a + field->offset, (const char *)b + field->offset)) return false;
    }
    return true;
}

static uint64_t hash_items(const void *items, int64_t count, size_t bytes_each) {
    return count ? hlo_hash_bytes(items, (size_t)count * bytes_each) : 1;
}

uint64_t hlo_aliases_hash(HloAliases aliases) {
    uint64_t hash = (uint64_t)aliases.count;
    for (int64_t i = 0; i < aliases.count; i++) {
        const HloAlias *alias = &aliases.items[i];
        hash =
            hlo_hash_mix(hlo_hash_mix(hash, hlo_ints_hash(alias->output_index)), hlo_ints_hash(alias->operand_index));
        hash = hlo_hash_mix(hash, (uint64_t)alias->operand * 2 + alias->must_alias);
    }
    return hash;
}

// Hashes number by number instead of as memory: a window has undefined padding bytes after `reversal`.
static uint64_t hash_window(const HloWindow *window) {
    uint64_t hash = (uint64_t)window->count;
    for (int64_t i = 0; i < window->count; i++) {
        const HloWindowDimension *dim = &window->dims[i];
        const int64_t numbers[] = {dim->size,          dim->stride,          dim->padding_low, dim->padding_high,
                                   dim->base_dilation, dim->window_dilation, dim->reversal};
        hash = hlo_hash_mix(hash, hlo_hash_bytes(numbers, sizeof(numbers)));
    }
    return hash;
}

static uint64_t hash_labels(const HloConvolutionLabels *labels) {
    const int64_t numbers[] = {labels->input_batch,           labels->input_feature, labels->kernel_input_feature,
                               labels->kernel_output_feature, labels->output_batch,  labels->output_feature};
    const HloInts lists[] = {labels->input_spatial, labels->kernel_spatial, labels->output_spatial,
                             labels->input_unknown, labels->kernel_unknown, labels->output_unknown};
    uint64_t hash = hlo_hash_bytes(numbers, sizeof(numbers));
    for (size_t i = 0; i < HLO_COUNT_OF(lists); i++) hash = hlo_hash_mix(hash, hlo_ints_hash(lists[i]));
    return hash;
}

// Hashes what a pointer field points to; 0 for NULL. Accuracies all have one hash, and only comparison distinguishes
// them: they are rare, and their doubles may be zeros of either sign.
static uint64_t hash_pointed(HloFieldKind kind, const void *value) {
    if (!value) return 0;
    switch (kind) {
        case HLO_FIELD_LITERAL: return hlo_literal_hash(value);
        case HLO_FIELD_REPLICA_GROUPS: return hlo_replica_groups_hash(value);
        case HLO_FIELD_SHARDING: return hlo_sharding_hash(value);
        case HLO_FIELD_WINDOW: return hash_window(value);
        case HLO_FIELD_LABELS: return hash_labels(value);
        case HLO_FIELD_SHAPE: return hlo_shape_hash(value);
        default: return 1;
    }
}

// Hashes lists of lists and of shapes.
static uint64_t hash_list(const HloField *field, const void *value) {
    uint64_t hash = (uint64_t)field->kind;
    if (field->kind == HLO_FIELD_ALIASING) return hlo_aliases_hash(*(const HloAliases *)value);
    if (field->kind == HLO_FIELD_INTS_LIST) {
        const HloIntsList *list = value;
        for (int64_t i = 0; i < list->count; i++) hash = hlo_hash_mix(hash, hlo_ints_hash(list->items[i]));
    } else {
        const HloShapes *list = value;
        assert(field->kind == HLO_FIELD_SHAPES);
        for (int64_t i = 0; i < list->count; i++) hash = hlo_hash_mix(hash, hlo_shape_hash(list->items[i]));
    }
    return hash;
}

// Fields that equal_field() treats as equal have equal hashes. Every other difference changes the hash (except for
// accuracies), down to the last number: hlo_module_hash() identifies programs, it does not merely select a bucket.
static uint64_t hash_field(const HloField *field, const void *value) {
    switch (field->kind) {
        case HLO_FIELD_INT:
        case HLO_FIELD_OPTIONAL_INT: return (uint64_t) * (const int64_t *)value;
        case HLO_FIELD_GROUP_COUNT: return *(const int64_t *)value ? (uint64_t) * (const int64_t *)value : 1;
        case HLO_FIELD_BOOL: return *(const bool *)value;
        case HLO_FIELD_TRISTATE:
        case HLO_FIELD_ENUM: return (uint64_t) * (const int32_t *)value;
        case HLO_FIELD_FLOAT: {
            const float number = *(const float *)value + 0.0F;  // -0 equals 0
            return hlo_hash_bytes(&number, sizeof(number));
        }
        case HLO_FIELD_STRING: {
            const char *text = *(const char *const *)value;
            return text ? hlo_hash_bytes(text, strlen(text)) : 0;
        }
        case HLO_FIELD_INTS: return hlo_ints_hash(*(const HloInts *)value);
        case HLO_FIELD_PAIRS: {
            const HloPairs *list = value;
            return hash_items(list->items, list->count, sizeof(HloPair));
        }
        case HLO_FIELD_PADDING: {
            const HloPadding *list = value;
            return hash_items(list->items, list->count, sizeof(HloPadDimension));
        }
        case HLO_FIELD_BOOL_LIST: {
            const HloBools *list = value;
            return hash_items(list->items, list->count, sizeof(bool));
        }
        case HLO_FIELD_PRECISIONS: {
            const HloPrecisions *list = value;
            return hash_items(list->items, list->count, sizeof(int32_t));
        }
        case HLO_FIELD_INTS_LIST:
        case HLO_FIELD_ALIASING:
        case HLO_FIELD_SHAPES: return hash_list(field, value);
        case HLO_FIELD_LITERAL:
        case HLO_FIELD_ACCURACY:
        case HLO_FIELD_REPLICA_GROUPS:
        case HLO_FIELD_SHARDING:
        case HLO_FIELD_WINDOW:
        case HLO_FIELD_LABELS:
        case HLO_FIELD_SHAPE: return hash_pointed(field->kind, *(const void *const *)value);
    }
    return 0;
}

uint64_t hlo_attributes_hash(HloFamily family, const void *attributes) {
    assert(family >= 0 && family < HLO_FAMILY_COUNT);
    uint64_t hash = (uint64_t)family;
    if (!attributes) return hash;
    const HloFamilyInfo *info = hlo_family_info(family);
    for (int32_t i = 0; i < info->field_count; i++) {
        hash = hlo_hash_mix(hash, hash_field(&info->fields[i], (const char *)attributes + info->fields[i].offset));
    }
    return hash;
}

int32_t hlo_comparison_exchanged(int32_t direction) {
    switch (direction) {
        case HLO_ComparisonDirection_GE: return HLO_ComparisonDirection_LE;
        case HLO_ComparisonDirection_GT: return HLO_ComparisonDirection_LT;
        case HLO_ComparisonDirection_LE: return HLO_ComparisonDirection_GE;
        case HLO_ComparisonDirection_LT: return HLO_ComparisonDirection_GT;
        default: return direction;
    }
}

int32_t hlo_comparison_default(HloType type) {
    switch (hlo_type_kind(type)) {
        case HLO_KIND_SIGNED: return HLO_ComparisonType_SIGNED;
        case HLO_KIND_UNSIGNED:
        case HLO_KIND_PRED: return HLO_ComparisonType_UNSIGNED;
        default: return HLO_ComparisonType_FLOAT;
    }
}
