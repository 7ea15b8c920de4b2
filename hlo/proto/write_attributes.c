// SPDX-License-Identifier: Apache-2.0
// Writes the typed attributes of an instruction as fields of HloInstructionProto. The reverse of read_attributes.c over
// the same rows. proto3 omits zeros; fields that XLA writes even at zero are written so here, since the output is
// compared with XLA's byte by byte (tests/proto). Messages with several fields (dot dimensions, gather dimensions) are
// adjacent rows with the same message number.
#include <assert.h>

#include "hlo/proto/field_table.h"
#include "hlo/proto/parts.h"

// Present even without dimensions, if the caller requests it.
static void write_window(HloText *text, int32_t number, const HloWindow *window) {
    size_t mark = hlo_wire_begin(text, number);
    for (int64_t i = 0; window && i < window->count; i++) {
        const HloWindowDimension *dim = &window->dims[i];
        size_t inner = hlo_wire_begin(text, 1);
        hlo_wire_varint(text, 1, (uint64_t)dim->size);
        hlo_wire_varint(text, 2, (uint64_t)dim->stride);
        hlo_wire_varint(text, 3, (uint64_t)dim->padding_low);
        hlo_wire_varint(text, 4, (uint64_t)dim->padding_high);
        hlo_wire_varint(text, 5, (uint64_t)dim->window_dilation);
        hlo_wire_varint(text, 6, (uint64_t)dim->base_dilation);
        hlo_wire_varint(text, 7, dim->reversal);
        hlo_wire_end(text, inner);
    }
    hlo_wire_end(text, mark);
}

// ConvolutionDimensionNumbers. The three lists of unknown dimensions have no field there.
static void write_labels(HloText *text, int32_t number, const HloConvolutionLabels *labels) {
    if (!labels) return;
    size_t mark = hlo_wire_begin(text, number);
    hlo_wire_varint(text, 3, (uint64_t)labels->kernel_input_feature);
    hlo_wire_varint(text, 4, (uint64_t)labels->kernel_output_feature);
    hlo_wire_ints(text, 6, labels->kernel_spatial);
    hlo_wire_varint(text, 7, (uint64_t)labels->input_batch);
    hlo_wire_varint(text, 8, (uint64_t)labels->input_feature);
    hlo_wire_varint(text, 9, (uint64_t)labels->output_batch);
    hlo_wire_varint(text, 10, (uint64_t)labels->output_feature);
    hlo_wire_ints(text, 11, labels->input_spatial);
    hlo_wire_ints(text, 12, labels->output_spatial);
    hlo_wire_end(text, mark);
}

static void write_padding(HloText *text, int32_t number, const HloPadding *padding) {
    assert(padding);
    size_t mark = hlo_wire_begin(text, number);
    for (int64_t i = 0; i < padding->count; i++) {
        size_t inner = hlo_wire_begin(text, 1);
        hlo_wire_varint(text, 1, (uint64_t)padding->items[i].low);
        hlo_wire_varint(text, 2, (uint64_t)padding->items[i].high);
        hlo_wire_varint(text, 3, (uint64_t)padding->items[i].interior);
        hlo_wire_end(text, inner);
    }
    hlo_wire_end(text, mark);
}

static void write_aliases(HloText *text, int32_t number, const HloAliases *aliases) {
    for (int64_t i = 0; i < aliases->count; i++) {
        size_t mark = hlo_wire_begin(text, number);
        hlo_wire_ints(text, 1, aliases->items[i].output_index);
        hlo_wire_varint(text, 2, (uint64_t)aliases->items[i].operand);
        hlo_wire_ints(text, 3, aliases->items[i].operand_index);
        hlo_wire_end(text, mark);
    }
}

static void write_pairs(HloText *text, int32_t number, const HloPairs *pairs) {
    for (int64_t i = 0; i < pairs->count; i++) {
        size_t mark = hlo_wire_begin(text, number);
        hlo_wire_varint(text, 1, (uint64_t)pairs->items[i].source);
        hlo_wire_varint(text, 2, (uint64_t)pairs->items[i].target);
        hlo_wire_end(text, mark);
    }
}

// A tolerance replaces the mode.
static void write_accuracy(HloText *text, int32_t number, const HloAccuracy *accuracy) {
    if (!accuracy) return;
    size_t mark = hlo_wire_begin(text, number);
    if (accuracy->has_tolerance) {
        size_t inner = hlo_wire_begin(text, 2);
        hlo_wire_double(text, 1, accuracy->atol);
        hlo_wire_double(text, 2, accuracy->rtol);
        hlo_wire_varint(text, 3, (uint64_t)accuracy->ulps);
        hlo_wire_end(text, inner);
    } else {
        hlo_wire_varint_always(text, 1, (uint64_t)accuracy->mode);
    }
    hlo_wire_end(text, mark);
}

// A list of small numbers, each one byte on the wire.
static void write_small_numbers(HloText *text, int32_t number, const void *items, int64_t count, size_t bytes_each) {
    if (count == 0) return;
    size_t mark = hlo_wire_begin(text, number);
    // The first byte of a little-endian int32_t or bool is its value here: enumerators and flags below 128.
    for (int64_t i = 0; i < count; i++) hlo_text_char(text, ((const char *)items)[(size_t)i * bytes_each]);
    hlo_wire_end(text, mark);
}

// `dimensions` is a list in the message; some ops have a single one.
static void write_int(HloText *text, int32_t number, int64_t value) {
    if (number == HLO_PROTO_DIMENSIONS) {
        hlo_wire_ints(text, number, (HloInts){&value, 1});
    } else {
        hlo_wire_varint(text, number, (uint64_t)value);
    }
}

static void write_enum(HloText *text, const HloProtoRow *row, const HloField *field, int32_t value) {
    if (row->message == 0 && hlo_proto_is_named_enum(row->number)) {
        hlo_wire_string_field(text, row->number, field->enumeration->texts[value]);
    } else {
        hlo_wire_varint(text, row->number, (uint64_t)value);
    }
}

static void write_optional_int(HloText *text, int32_t number, int64_t value) {
    if (value == HLO_ABSENT) return;
    if (number == HLO_PROTO_DIMENSIONS) {
        write_int(text, number, value);
    } else {
        hlo_wire_varint_always(text, number, (uint64_t)value);
    }
}

// Operand layouts count only if the call's layouts are constrained.
static void write_operand_layouts(HloText *text, int32_t number, const HloShapes *shapes) {
    hlo_wire_varint(text, HLO_PROTO_CONSTRAIN_LAYOUT, shapes->items != NULL);
    for (int64_t i = 0; i < shapes->count; i++) hlo_proto_write_shape(text, number, shapes->items[i]);
}

// A field that points to its value; `said` may be NULL, and is then omitted, except for a convolution's window.
static void write_pointed(HloText *text, const HloProtoRow *row, const HloField *field, const void *said) {
    const int32_t number = row->number;
    switch (field->kind) {
        case HLO_FIELD_STRING: hlo_wire_string_field(text, number, said); break;
        case HLO_FIELD_ACCURACY: write_accuracy(text, number, said); break;
        case HLO_FIELD_REPLICA_GROUPS: hlo_proto_write_replica_groups(text, number, said); break;
        case HLO_FIELD_LABELS: write_labels(text, number, said); break;
        case HLO_FIELD_LITERAL:
            if (said) hlo_proto_write_literal(text, number, said);
            break;
        case HLO_FIELD_SHARDING:
            if (said) hlo_proto_write_sharding(text, number, said);
            break;
        case HLO_FIELD_SHAPE:
            if (said) hlo_proto_write_shape(text, number, said);
            break;
        case HLO_FIELD_WINDOW:
            // XLA requires the message of a convolution without spatial dimensions too.
            if (said || row->family == HLO_FAMILY_Convolution) write_window(text, number, said);
            break;
        default: HLO_BUG_IF(true);  // write_field() has all other kinds
    }
}

// `value` is the member of the attribute record.
static void write_field(HloText *text, const HloProtoRow *row, const HloField *field, const void *value) {
    assert(field && value);
    const int32_t number = row->number;
    const HloBools *bools = value;
    const HloPrecisions *precisions = value;
    const HloIntsList *lists = value;
    switch (field->kind) {
        case HLO_FIELD_OPTIONAL_INT: write_optional_int(text, number, *(const int64_t *)value); break;
        case HLO_FIELD_INT:
        case HLO_FIELD_GROUP_COUNT: write_int(text, number, *(const int64_t *)value); break;
        case HLO_FIELD_BOOL: hlo_wire_varint(text, number, *(const bool *)value); break;
        case HLO_FIELD_TRISTATE: hlo_wire_varint(text, number, (uint64_t) * (const int32_t *)value); break;
        case HLO_FIELD_ENUM: write_enum(text, row, field, *(const int32_t *)value); break;
        case HLO_FIELD_FLOAT: hlo_wire_float(text, number, *(const float *)value); break;
        case HLO_FIELD_INTS: hlo_wire_ints(text, number, *(const HloInts *)value); break;
        case HLO_FIELD_BOOL_LIST: write_small_numbers(text, number, bools->items, bools->count, sizeof(bool)); break;
        case HLO_FIELD_PRECISIONS:
            write_small_numbers(text, number, precisions->items, precisions->count, sizeof(int32_t));
            break;
        case HLO_FIELD_PAIRS: write_pairs(text, number, value); break;
        case HLO_FIELD_ALIASING: write_aliases(text, number, value); break;
        case HLO_FIELD_PADDING: write_padding(text, number, value); break;
        case HLO_FIELD_SHAPES: write_operand_layouts(text, number, value); break;
        case HLO_FIELD_INTS_LIST:
            for (int64_t i = 0; i < lists->count; i++) hlo_wire_ints(text, number, lists->items[i]);
            break;
        case HLO_FIELD_STRING:
        case HLO_FIELD_ACCURACY:
        case HLO_FIELD_LITERAL:
        case HLO_FIELD_REPLICA_GROUPS:
        case HLO_FIELD_SHARDING:
        case HLO_FIELD_WINDOW:
        case HLO_FIELD_LABELS:
        case HLO_FIELD_SHAPE: write_pointed(text, row, field, *(const void *const *)value); break;
    }
}

static void write_slices(HloText *text, const HloSliceAttributes *slice) {
    for (int64_t i = 0; i < slice->starts.count; i++) {
        size_t mark = hlo_wire_begin(text, HLO_PROTO_SLICES);
        hlo_wire_varint(text, 1, (uint64_t)slice->starts.items[i]);
        hlo_wire_varint(text, 2, (uint64_t)slice->limits.items[i]);
        hlo_wire_varint(text, 3, (uint64_t)slice->strides.items[i]);
        hlo_wire_end(text, mark);
    }
}

// A product of groups of rows has its dot dimensions inside its own message.
static void write_ragged(HloText *text, const HloDotAttributes *dot) {
    size_t mark = hlo_wire_begin(text, 90);
    size_t inner = hlo_wire_begin(text, 1);
    hlo_wire_ints(text, 1, dot->lhs_contracting);
    hlo_wire_ints(text, 2, dot->rhs_contracting);
    hlo_wire_ints(text, 3, dot->lhs_batch);
    hlo_wire_ints(text, 4, dot->rhs_batch);
    hlo_wire_end(text, inner);
    hlo_wire_ints(text, 2, dot->lhs_ragged);
    hlo_wire_ints(text, 3, dot->rhs_group);
    hlo_wire_end(text, mark);
}

// Rows of one message are written between its beginning and its end.
void hlo_proto_write_attributes(HloText *text, const HloInstruction *instruction) {
    assert(text && instruction);
    HloFamily family = hlo_op_info(instruction->opcode)->family;
    if (family == HLO_FAMILY_Slice) {
        write_slices(text, HLO_ATTRIBUTES(instruction, Slice));
        return;
    }
    bool ragged = family == HLO_FAMILY_Dot && HLO_ATTRIBUTES(instruction, Dot)->lhs_ragged.count > 0;
    if (ragged) write_ragged(text, HLO_ATTRIBUTES(instruction, Dot));
    int64_t count;
    const HloProtoRow *rows = hlo_proto_rows(family, &count);
    for (int64_t i = 0; i < count;) {
        int32_t message = rows[i].message;
        bool skip = (message == 90 || (ragged && message == 30));
        size_t mark = message && !skip ? hlo_wire_begin(text, message) : 0;
        do {
            const void *value = (const char *)instruction->attributes + rows[i].offset;
            if (!skip) write_field(text, &rows[i], hlo_proto_row_field(&rows[i]), value);
            i++;
        } while (message && i < count && rows[i].message == message);
        if (message && !skip) hlo_wire_end(text, mark);
    }
}
