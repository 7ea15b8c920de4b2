// SPDX-License-Identifier: Apache-2.0
// Prints attribute values, by the kind of their field. The mirror of parser_field.c: a field is printed if its value
// differs from the one that its absence means (shows()), and print_value() knows the text of every kind. The order of
// fields is that of hlo/ir/attributes.def, which is XLA's PrintExtraAttributes().
#include <assert.h>
#include <stdio.h>

#include "hlo/ir/transfer.h"
#include "hlo/text/printer.h"

void hlo_printer_index(HloText *text, HloInts index) {
    hlo_text_char(text, '{');
    for (int64_t i = 0; i < index.count; i++) {
        if (i > 0) hlo_text_char(text, ',');
        hlo_text_int64(text, index.items[i]);
    }
    hlo_text_char(text, '}');
}

void hlo_printer_bools(HloText *text, HloBools bools) {
    hlo_text_char(text, '{');
    for (int64_t i = 0; i < bools.count; i++) {
        if (i > 0) hlo_text_char(text, ',');
        hlo_text_string(text, bools.items[i] ? "true" : "false");
    }
    hlo_text_char(text, '}');
}

// A terminal obeys control characters, and valid JSON has no others than these three.
static bool is_control(char c) {
    return ((unsigned char)c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7F;
}

// XLA prints a value that is a JSON object unchanged and quotes any other. Only the end of the object matters here, so
// strings are skipped with their escapes and nothing else is inspected.
bool hlo_printer_is_json(const char *value) {
    int64_t depth = 0;
    if (value[0] != '{') return false;
    for (const char *at = value; *at; at++)
        if (is_control(*at)) return false;
    for (const char *at = value; *at; at++) {
        if (*at == '{') depth++;
        if (*at == '}' && --depth == 0) return at[1] == 0;
        if (*at != '"') continue;
        for (at++; *at && *at != '"'; at++) {
            if (*at == '\\' && at[1]) at++;
        }
        if (!*at) return false;
    }
    return false;
}

void hlo_printer_key_values(HloText *text, HloKeyValues values) {
    hlo_text_char(text, '{');
    for (int64_t i = 0; i < values.count; i++) {
        if (i > 0) hlo_text_char(text, ',');
        hlo_text_string(text, values.items[i].key);
        hlo_text_char(text, '=');
        if (hlo_printer_is_json(values.items[i].value)) {
            hlo_text_string(text, values.items[i].value);
        } else {
            hlo_quoted_print(text, values.items[i].value);
        }
    }
    hlo_text_char(text, '}');
}

void hlo_printer_aliases(HloText *text, const HloAliases *aliases, bool with_kind) {
    for (int64_t i = 0; i < aliases->count; i++) {
        const HloAlias *alias = &aliases->items[i];
        if (i > 0) hlo_text_append(text, ", ", 2);
        hlo_printer_index(text, alias->output_index);
        hlo_text_append(text, ": (", 3);
        hlo_text_int64(text, alias->operand);
        hlo_text_append(text, ", ", 2);
        hlo_printer_index(text, alias->operand_index);
        if (with_kind) hlo_text_string(text, alias->must_alias ? ", must-alias" : ", may-alias");
        hlo_text_char(text, ')');
    }
}

// Prints one column of a window if any dimension has another value than `normal`.
#define PRINT_COLUMN(text, window, name, field, normal)             \
    do {                                                            \
        bool shows = false;                                         \
        for (int64_t i_ = 0; i_ < (window)->count; i_++) {          \
            shows |= (window)->dims[i_].field != (normal);          \
        }                                                           \
        for (int64_t i_ = 0; shows && i_ < (window)->count; i_++) { \
            hlo_text_string((text), i_ == 0 ? " " name "=" : "x");  \
            hlo_text_int64((text), (window)->dims[i_].field);       \
        }                                                           \
    } while (0)

// Low and high of every dimension, if any is not zero.
static void print_window_padding(HloText *text, const HloWindow *window) {
    bool shows = false;
    for (int64_t i = 0; i < window->count; i++) shows |= window->dims[i].padding_low || window->dims[i].padding_high;
    for (int64_t i = 0; shows && i < window->count; i++) {
        hlo_text_string(text, i == 0 ? " pad=" : "x");
        hlo_text_int64(text, window->dims[i].padding_low);
        hlo_text_char(text, '_');
        hlo_text_int64(text, window->dims[i].padding_high);
    }
}

void hlo_print_window(HloText *text, const HloWindow *window) {
    assert(text && window);
    hlo_text_string(text, "size=");
    for (int64_t i = 0; i < window->count; i++) {
        if (i > 0) hlo_text_char(text, 'x');
        hlo_text_int64(text, window->dims[i].size);
    }
    PRINT_COLUMN(text, window, "stride", stride, 1);
    print_window_padding(text, window);
    PRINT_COLUMN(text, window, "lhs_dilate", base_dilation, 1);
    PRINT_COLUMN(text, window, "rhs_dilate", window_dilation, 1);
    PRINT_COLUMN(text, window, "rhs_reversal", reversal, false);
}

// One side of dim_labels.
static void print_side(HloText *text, char first, int64_t first_dim, char second, int64_t second_dim, HloInts spatial) {
    int64_t rank = 1 + (first_dim > second_dim ? first_dim : second_dim);
    for (int64_t i = 0; i < spatial.count; i++) {
        if (spatial.items[i] >= rank) rank = spatial.items[i] + 1;
    }
    for (int64_t dim = 0; dim < rank; dim++) {
        int64_t number = 0;
        while (number < spatial.count && spatial.items[number] != dim) number++;
        if (dim == first_dim) {
            hlo_text_char(text, first);
        } else if (dim == second_dim) {
            hlo_text_char(text, second);
        } else if (number < spatial.count) {
            hlo_text_int64(text, number);
        } else {
            hlo_text_char(text, '?');
        }
    }
}

// Three sides, as b01f_01io->b01f.
void hlo_print_labels(HloText *text, const HloConvolutionLabels *labels) {
    assert(text && labels);
    print_side(text, 'b', labels->input_batch, 'f', labels->input_feature, labels->input_spatial);
    hlo_text_char(text, '_');
    print_side(text, 'i', labels->kernel_input_feature, 'o', labels->kernel_output_feature, labels->kernel_spatial);
    hlo_text_append(text, "->", 2);
    print_side(text, 'b', labels->output_batch, 'f', labels->output_feature, labels->output_spatial);
}

void hlo_printer_accuracy(HloText *text, const HloAccuracy *accuracy) {
    if (accuracy->has_tolerance) {
        hlo_text_format(text, "{tolerance={atol=%g,rtol=%g,ulps=%lld}}", accuracy->atol, accuracy->rtol,
                        (long long)accuracy->ulps);
    } else {
        hlo_text_format(text, "{mode=%s}", hlo_enum_AccuracyMode.texts[accuracy->mode]);
    }
}

static void print_padding(HloText *text, const HloPadding *padding) {
    bool interior = false;
    for (int64_t i = 0; i < padding->count; i++) interior |= padding->items[i].interior != 0;
    for (int64_t i = 0; i < padding->count; i++) {
        if (i > 0) hlo_text_char(text, 'x');
        hlo_text_int64(text, padding->items[i].low);
        hlo_text_char(text, '_');
        hlo_text_int64(text, padding->items[i].high);
        if (!interior) continue;
        hlo_text_char(text, '_');
        hlo_text_int64(text, padding->items[i].interior);
    }
}

static bool has_precision(const HloPrecisions *precisions) {
    for (int64_t i = 0; i < precisions->count; i++) {
        if (precisions->items[i] != HLO_Precision_DEFAULT) return true;
    }
    return false;
}

static void print_precisions(HloText *text, const HloPrecisions *precisions) {
    for (int64_t i = 0; i < precisions->count; i++) {
        hlo_text_char(text, i == 0 ? '{' : ',');
        hlo_text_string(text, hlo_enum_Precision.texts[precisions->items[i]]);
    }
    hlo_text_char(text, '}');
}

static void print_ints_list(HloText *text, const HloIntsList *list) {
    hlo_text_char(text, '{');
    for (int64_t i = 0; i < list->count; i++) {
        if (i > 0) hlo_text_char(text, ',');
        hlo_printer_index(text, list->items[i]);
    }
    hlo_text_char(text, '}');
}

static void print_shapes(HloText *text, const HloShapes *shapes) {
    hlo_text_char(text, '{');
    for (int64_t i = 0; i < shapes->count; i++) {
        if (i > 0) hlo_text_append(text, ", ", 2);
        hlo_shape_print(text, shapes->items[i], true);
    }
    hlo_text_char(text, '}');
}

// True if a field's value differs from the one that is omitted.
static bool shows(const HloField *field, const void *value) {
    switch (field->kind) {
        case HLO_FIELD_INT: return field->always || *(const int64_t *)value != 0;
        case HLO_FIELD_OPTIONAL_INT: return *(const int64_t *)value != HLO_ABSENT;
        case HLO_FIELD_GROUP_COUNT: return *(const int64_t *)value > 1;
        case HLO_FIELD_BOOL: return field->always || *(const bool *)value;
        case HLO_FIELD_TRISTATE:
        case HLO_FIELD_ENUM: return field->always || *(const int32_t *)value != 0;
        case HLO_FIELD_FLOAT: return true;
        case HLO_FIELD_STRING: return field->always || *(const char *const *)value;
        case HLO_FIELD_INTS: return field->always || ((const HloInts *)value)->count > 0;
        case HLO_FIELD_INTS_LIST: return ((const HloIntsList *)value)->count > 0;
        case HLO_FIELD_BOOL_LIST: return ((const HloBools *)value)->count > 0;
        case HLO_FIELD_PAIRS: return true;
        case HLO_FIELD_ALIASING: return ((const HloAliases *)value)->count > 0;
        case HLO_FIELD_PRECISIONS: return has_precision(value);
        case HLO_FIELD_WINDOW: return *(const HloWindow *const *)value && (*(const HloWindow *const *)value)->count > 0;
        case HLO_FIELD_PADDING: return true;
        case HLO_FIELD_SHAPES: return ((const HloShapes *)value)->items != NULL;
        case HLO_FIELD_ACCURACY: return false;
        default: return *(const void *const *)value != NULL;
    }
}

// s32[2]{0} {1, 2}; each element of a tuple has its own shape.
static void print_shaped_literal(HloText *text, const HloLiteral *literal) {
    const HloShape *shape = literal->shape;
    if (shape->type == HLO_TUPLE) {
        hlo_text_string(text, "( ");
        for (int32_t i = 0; i < shape->element_count; i++) {
            if (i > 0) hlo_text_string(text, ", ");
            print_shaped_literal(text, literal->elements[i]);
        }
        hlo_text_string(text, " )");
        return;
    }
    hlo_shape_print(text, shape, true);
    hlo_text_char(text, ' ');
    hlo_print_literal(text, literal);
}

static void print_value(HloText *text, const HloField *field, const void *value) {
    assert(field && value);
    switch (field->kind) {
        case HLO_FIELD_INT:
        case HLO_FIELD_OPTIONAL_INT:
        case HLO_FIELD_GROUP_COUNT: hlo_text_int64(text, *(const int64_t *)value); break;
        case HLO_FIELD_BOOL: hlo_text_string(text, *(const bool *)value ? "true" : "false"); break;
        case HLO_FIELD_TRISTATE: hlo_text_string(text, *(const int32_t *)value == 1 ? "true" : "false"); break;
        case HLO_FIELD_ENUM: hlo_text_string(text, field->enumeration->texts[*(const int32_t *)value]); break;
        case HLO_FIELD_FLOAT: hlo_text_format(text, "%g", (double)*(const float *)value); break;
        case HLO_FIELD_STRING:
            hlo_quoted_print(text, *(const char *const *)value ? *(const char *const *)value : "");
            break;
        case HLO_FIELD_INTS: hlo_printer_index(text, *(const HloInts *)value); break;
        case HLO_FIELD_INTS_LIST: print_ints_list(text, value); break;
        case HLO_FIELD_BOOL_LIST: hlo_printer_bools(text, *(const HloBools *)value); break;
        case HLO_FIELD_PAIRS: hlo_pairs_print(text, value); break;
        case HLO_FIELD_ACCURACY: hlo_printer_accuracy(text, *(const HloAccuracy *const *)value); break;
        case HLO_FIELD_LITERAL: print_shaped_literal(text, *(const HloLiteral *const *)value); break;
        case HLO_FIELD_REPLICA_GROUPS: hlo_replica_groups_print(text, *(const HloReplicaGroups *const *)value); break;
        case HLO_FIELD_ALIASING:
            hlo_text_char(text, '{');
            hlo_printer_aliases(text, value, false);
            hlo_text_char(text, '}');
            break;
        case HLO_FIELD_SHARDING: hlo_sharding_print(text, *(const HloSharding *const *)value); break;
        case HLO_FIELD_WINDOW:
            hlo_text_char(text, '{');
            hlo_print_window(text, *(const HloWindow *const *)value);
            hlo_text_char(text, '}');
            break;
        case HLO_FIELD_LABELS: hlo_print_labels(text, *(const HloConvolutionLabels *const *)value); break;
        case HLO_FIELD_PRECISIONS: print_precisions(text, value); break;
        case HLO_FIELD_PADDING: print_padding(text, value); break;
        case HLO_FIELD_SHAPE: hlo_shape_print(text, *(const HloShape *const *)value, true); break;
        case HLO_FIELD_SHAPES: print_shapes(text, value); break;
    }
}

// Strides are printed for all dimensions, or for none.
static void print_slice(HloText *text, const HloSliceAttributes *slice) {
    bool strides = false;
    for (int64_t i = 0; i < slice->strides.count; i++) strides |= slice->strides.items[i] != 1;
    hlo_text_string(text, ", slice={");
    for (int64_t i = 0; i < slice->starts.count; i++) {
        hlo_text_string(text, i == 0 ? "[" : ", [");
        hlo_text_int64(text, slice->starts.items[i]);
        hlo_text_char(text, ':');
        hlo_text_int64(text, slice->limits.items[i]);
        if (strides) {
            hlo_text_char(text, ':');
            hlo_text_int64(text, slice->strides.items[i]);
        }
        hlo_text_char(text, ']');
    }
    hlo_text_char(text, '}');
}

// Its kind is always "sharding".
static void print_domain(HloText *text, const HloDomainAttributes *domain) {
    hlo_text_string(text, ", domain={kind=");
    hlo_quoted_print(text, domain->kind);
    hlo_text_string(text, ", entry=");
    hlo_sharding_print(text, domain->entry);
    hlo_text_string(text, ", exit=");
    hlo_sharding_print(text, domain->exit);
    hlo_text_char(text, '}');
}

static void print_field(HloText *text, const HloField *field, const void *attributes) {
    const void *value = (const char *)attributes + field->offset;
    if (field->text[0] == 0 || !shows(field, value)) return;
    // The original version of custom calls is the default one.
    if (field->enumeration == &hlo_enum_CustomCallApi && *(const int32_t *)value == HLO_CustomCallApi_ORIGINAL) return;
    hlo_text_append(text, ", ", 2);
    hlo_text_string(text, field->text);
    hlo_text_char(text, '=');
    print_value(text, field, value);
}

void hlo_printer_fields(HloPrinter *printer, const HloInstruction *instruction) {
    assert(instruction->shape);
    HloText *text = printer->text;
    const HloFamilyInfo *family = hlo_family_info(hlo_op_info(instruction->opcode)->family);
    switch (instruction->opcode) {
        case HLO_OP_SLICE: print_slice(text, instruction->attributes); return;
        case HLO_OP_DOMAIN: print_domain(text, instruction->attributes); return;
        case HLO_OP_CALL: return;  // its field comes after the called computation
        default: break;
    }
    // Where other collectives print their dimensions, reduce-scatter does not: its dimensions come last.
    int last = -1;
    for (int i = 0; i < family->field_count; i++) {
        if (instruction->opcode == HLO_OP_REDUCE_SCATTER && strcmp(family->fields[i].text, "dimensions") == 0) {
            last = i;
        } else {
            print_field(text, &family->fields[i], instruction->attributes);
        }
    }
    if (last >= 0) print_field(text, &family->fields[last], instruction->attributes);
}
