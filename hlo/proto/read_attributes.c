// SPDX-License-Identifier: Apache-2.0
// Reads the fields of a HloInstructionProto as typed attributes. Most fields are rows of fields.def: dispatch() finds
// the row by the field's number (and that of the message it is nested in), and read_field() reads the value by its
// kind. Special cases are slices (one message per dimension), replica groups (three forms in four fields, some of which
// occur in files of any year) and the numbers of ragged dots, which nest twice.
//
// Values are only read here; the verifier checks whether they make sense.
#include <assert.h>

#include "hlo/proto/field_table.h"
#include "hlo/proto/parts.h"

enum { FIELD_REPLICA_GROUPS_V1 = 49 };

// Reads the numbered varints of a small message into out[number]; numbers from `limit` on are skipped.
static HloStatus read_numbers(const HloProtoSource *source, HloSpan span, int64_t *out, int32_t limit) {
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number < limit && field.type == HLO_WIRE_VARINT) out[field.number] = (int64_t)field.value;
    }
    return status;
}

// WindowDimension. A missing stride or dilation is 0, which shape inference refuses, as in XLA.
static HloStatus read_window(const HloProtoSource *source, HloSpan span, const HloWindow **result) {
    HLO_VECTOR(HloWindowDimension) dims = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        int64_t n[8] = {0};
        if (field.number != 1) continue;
        HLO_TRY(read_numbers(source, field.bytes, n, 8));
        HloWindowDimension dim = {.size = n[1],
                                  .stride = n[2],
                                  .padding_low = n[3],
                                  .padding_high = n[4],
                                  .window_dilation = n[5],
                                  .base_dilation = n[6],
                                  .reversal = n[7] != 0};
        hlo_vector_push(source->arena, &dims, dim);
    }
    HLO_TRY(status);
    HloWindow *window = HLO_ARENA_NEW(source->arena, HloWindow, 1);
    *window = (HloWindow){dims.items, dims.count};
    *result = window;
    return HLO_SUCCESS;
}

// ConvolutionDimensionNumbers: numbers, and three lists of spatial dimensions.
static HloStatus read_labels(const HloProtoSource *source, HloSpan span, const HloConvolutionLabels **result) {
    HloConvolutionLabels *labels = HLO_ARENA_NEW(source->arena, HloConvolutionLabels, 1);
    int64_t n[13] = {0};
    HloInt64Vector lists[13] = {{0}};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number > 12) continue;
        bool is_list = field.number == 6 || field.number == 11 || field.number == 12;
        if (is_list) {
            HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &lists[field.number]));
        } else {
            n[field.number] = (int64_t)field.value;
        }
    }
    HLO_TRY(status);
    labels->kernel_input_feature = n[3];
    labels->kernel_output_feature = n[4];
    labels->kernel_spatial = (HloInts){lists[6].items, lists[6].count};
    labels->input_batch = n[7];
    labels->input_feature = n[8];
    labels->output_batch = n[9];
    labels->output_feature = n[10];
    labels->input_spatial = (HloInts){lists[11].items, lists[11].count};
    labels->output_spatial = (HloInts){lists[12].items, lists[12].count};
    *result = labels;
    return HLO_SUCCESS;
}

// PaddingConfig: a list of dimensions (1), each with low, high and interior.
static HloStatus read_padding(const HloProtoSource *source, HloSpan span, HloPadding *padding) {
    HLO_VECTOR(HloPadDimension) dims = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        int64_t n[4] = {0};
        if (field.number != 1) continue;
        HLO_TRY(read_numbers(source, field.bytes, n, 4));
        hlo_vector_push(source->arena, &dims, ((HloPadDimension){n[1], n[2], n[3]}));
    }
    *padding = (HloPadding){dims.items, dims.count};
    return status;
}

// OutputOperandAliasing, of one part of the result; an absent index is that of the whole.
static HloStatus read_alias(const HloProtoSource *source, HloSpan span, HloAlias *alias) {
    HloInt64Vector output = {0}, operand = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    *alias = (HloAlias){0};
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &output));
        if (field.number == 2) alias->operand = (int64_t)field.value;
        if (field.number == 3) HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &operand));
    }
    alias->output_index = (HloInts){output.items, output.count};
    alias->operand_index = (HloInts){operand.items, operand.count};
    return status;
}

// A fixed64 field's bits.
static double fixed_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

// ResultAccuracy: a mode, or a tolerance.
static HloStatus read_accuracy(const HloProtoSource *source, HloSpan span, const HloAccuracy **result) {
    HloAccuracy *accuracy = HLO_ARENA_NEW(source->arena, HloAccuracy, 1);
    HloWireReader reader = hlo_wire_reader(source->begin, span), inner;
    HloWireField field, part;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) {
            HLO_FAIL_IF(field.value > 1, HLO_INVALID_ARGUMENT, "unknown accuracy mode %llu",
                        (unsigned long long)field.value);
            accuracy->mode = (int32_t)field.value;
        }
        if (field.number != 2) continue;
        accuracy->has_tolerance = true;
        inner = hlo_wire_reader(source->begin, field.bytes);
        while (hlo_wire_next(&inner, &part, &status)) {
            if (part.number == 1) accuracy->atol = fixed_double(part.value);
            if (part.number == 2) accuracy->rtol = fixed_double(part.value);
            if (part.number == 3) accuracy->ulps = (int64_t)part.value;
        }
        HLO_TRY(status);
    }
    *result = accuracy;
    return status;
}

// Repeated fields: makes room for one more item after those read so far. The lists have no capacity of their own: it is
// the power of two at or above their count, so that a list of many fields takes no more than twice its memory, and
// linear time.
static void *room_for_one(HloArena *arena, const void *items, int64_t count, size_t bytes_each) {
    assert(count >= 0 && (items || count == 0));
    if (count & (count - 1)) return (void *)(uintptr_t)items;
    int64_t capacity = count;
    return hlo_vector_grow(arena, items, count, &capacity, count + 1, bytes_each);
}

static HloStatus append_pair(const HloProtoSource *source, HloSpan span, HloPairs *pairs) {
    int64_t n[3] = {0};
    HLO_TRY(read_numbers(source, span, n, 3));
    HloPair *items = room_for_one(source->arena, pairs->items, pairs->count, sizeof(*items));
    items[pairs->count] = (HloPair){n[1], n[2]};
    *pairs = (HloPairs){items, pairs->count + 1};
    return HLO_SUCCESS;
}

static HloStatus append_alias(const HloProtoSource *source, HloSpan span, HloAliases *aliases) {
    HloAlias alias;
    HLO_TRY(read_alias(source, span, &alias));
    HloAlias *items = room_for_one(source->arena, aliases->items, aliases->count, sizeof(*items));
    items[aliases->count] = alias;
    *aliases = (HloAliases){items, aliases->count + 1};
    return HLO_SUCCESS;
}

static HloStatus append_shape(const HloProtoSource *source, HloSpan span, HloShapes *shapes) {
    const HloShape *shape = NULL;
    HLO_TRY(hlo_proto_read_shape(source, span, &shape));
    const HloShape **items = room_for_one(source->arena, shapes->items, shapes->count, sizeof(*items));
    items[shapes->count] = shape;
    *shapes = (HloShapes){items, shapes->count + 1};
    return HLO_SUCCESS;
}

// A repeated field may come in pieces, which together are one list: the existing items become a vector again.
static HloStatus read_ints(const HloProtoSource *source, const HloWireField *wire, HloInts *ints) {
    int64_t capacity = 0;
    if (ints->count) {
        for (capacity = 1; capacity < ints->count;) capacity *= 2;
    }
    // The same capacity as in room_for_one(): vectors grow by doubling from 2, so theirs are powers of two as well.
    HloInt64Vector list = {(int64_t *)(uintptr_t)ints->items, ints->count, capacity};
    HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, wire, &list));
    *ints = (HloInts){list.items, list.count};
    return HLO_SUCCESS;
}

// Reads all numbers as one list: their grouping depends on the operands, which attributes do not know.
static HloStatus read_ints_list(const HloProtoSource *source, const HloWireField *wire, HloIntsList *lists) {
    HloInts *all = HLO_ARENA_NEW(source->arena, HloInts, 1);
    if (lists->count) *all = lists->items[0];
    HLO_TRY(read_ints(source, wire, all));
    *lists = (HloIntsList){all, 1};
    return HLO_SUCCESS;
}

// By number, or by name for the fields that have the enumerator as a string.
static HloStatus read_enum(const HloField *field, const HloWireField *wire, int32_t *value) {
    const HloEnumTable *table = field->enumeration;
    if (wire->type == HLO_WIRE_BYTES) {
        *value = hlo_enum_from_text(table, (const char *)wire->bytes.data, wire->bytes.length);
        HLO_FAIL_IF(*value < 0, HLO_INVALID_ARGUMENT, "unknown %s \"%.*s\"", table->name, (int)wire->bytes.length,
                    (const char *)wire->bytes.data);
        return HLO_SUCCESS;
    }
    HLO_FAIL_IF(wire->value >= (uint64_t)table->count || !table->texts[wire->value], HLO_INVALID_ARGUMENT,
                "unknown %s number %llu", table->name, (unsigned long long)wire->value);
    *value = (int32_t)wire->value;
    return HLO_SUCCESS;
}

// Does not use read_enum(), since a list of them is packed.
static HloStatus read_precisions(const HloProtoSource *source, const HloWireField *wire, HloPrecisions *result) {
    HloInts ints = {0};
    HLO_TRY(read_ints(source, wire, &ints));
    int32_t *items = HLO_ARENA_NEW(source->arena, int32_t, ints.count);
    for (int64_t i = 0; i < ints.count; i++) {
        HLO_FAIL_IF(ints.items[i] < 0 || ints.items[i] >= hlo_enum_Precision.count, HLO_INVALID_ARGUMENT,
                    "unknown precision %lld", (long long)ints.items[i]);
        items[i] = (int32_t)ints.items[i];
    }
    *result = (HloPrecisions){items, ints.count};
    return HLO_SUCCESS;
}

static HloStatus read_bools(const HloProtoSource *source, const HloWireField *wire, HloBools *result) {
    HloInts ints = {0};
    HLO_TRY(read_ints(source, wire, &ints));
    bool *items = HLO_ARENA_NEW(source->arena, bool, ints.count);
    for (int64_t i = 0; i < ints.count; i++) items[i] = ints.items[i] != 0;
    *result = (HloBools){items, ints.count};
    return HLO_SUCCESS;
}

// A single number, which may also be in a list of one (`dimensions` of an iota).
static HloStatus read_int(const HloProtoSource *source, const HloWireField *wire, int64_t *value) {
    if (wire->type != HLO_WIRE_BYTES) {
        *value = (int64_t)wire->value;
        return HLO_SUCCESS;
    }
    HloInts ints = {0};
    HLO_TRY(read_ints(source, wire, &ints));
    if (ints.count) *value = ints.items[0];
    return HLO_SUCCESS;
}

// `value` is the member of the attribute record; lists are appended to, since a repeated field may come in pieces.
static HloStatus read_field(const HloProtoSource *source, const HloField *field, const HloWireField *wire,
                            void *value) {
    assert(field && value);
    switch (field->kind) {
        case HLO_FIELD_INT:
        case HLO_FIELD_OPTIONAL_INT:
        case HLO_FIELD_GROUP_COUNT: return read_int(source, wire, value);
        case HLO_FIELD_BOOL: *(bool *)value = wire->value != 0; return HLO_SUCCESS;
        case HLO_FIELD_TRISTATE: *(int32_t *)value = (int32_t)wire->value; return HLO_SUCCESS;
        case HLO_FIELD_ENUM: return read_enum(field, wire, value);
        case HLO_FIELD_FLOAT: {
            uint32_t bits = (uint32_t)wire->value;
            memcpy(value, &bits, sizeof(bits));
            return HLO_SUCCESS;
        }
        case HLO_FIELD_STRING: return hlo_wire_string(source->arena, wire->bytes, value);
        case HLO_FIELD_INTS: return read_ints(source, wire, value);
        case HLO_FIELD_BOOL_LIST: return read_bools(source, wire, value);
        case HLO_FIELD_PAIRS: return append_pair(source, wire->bytes, value);
        case HLO_FIELD_ACCURACY: return read_accuracy(source, wire->bytes, value);
        case HLO_FIELD_LITERAL: return hlo_proto_read_literal(source, wire->bytes, value);
        case HLO_FIELD_REPLICA_GROUPS: return hlo_proto_read_replica_groups(source, wire->bytes, value);
        case HLO_FIELD_ALIASING: return append_alias(source, wire->bytes, value);
        case HLO_FIELD_SHARDING: return hlo_proto_read_sharding(source, wire->bytes, value);
        case HLO_FIELD_WINDOW: return read_window(source, wire->bytes, value);
        case HLO_FIELD_LABELS: return read_labels(source, wire->bytes, value);
        case HLO_FIELD_PRECISIONS: return read_precisions(source, wire, value);
        case HLO_FIELD_PADDING: return read_padding(source, wire->bytes, value);
        case HLO_FIELD_SHAPE: return hlo_proto_read_shape(source, wire->bytes, value);
        case HLO_FIELD_SHAPES: return append_shape(source, wire->bytes, value);
        case HLO_FIELD_INTS_LIST: return read_ints_list(source, wire, value);
    }
    return HLO_SUCCESS;
}

// Passes a field of a message (number `message`, 0 for the instruction itself) to the rows for it. *nested, unless
// NULL, is set if other rows have the field as their message.
static HloStatus dispatch(const HloProtoSource *source, const HloProtoRow *rows, int64_t row_count, int32_t message,
                          const HloWireField *wire, void *attributes, bool *nested) {
    assert(row_count >= 0 && wire->number > 0);
    for (int64_t i = 0; i < row_count; i++) {
        if (nested && rows[i].message == wire->number) *nested = true;
        if (rows[i].message != message || rows[i].number != wire->number) continue;
        HLO_TRY(read_field(source, hlo_proto_row_field(&rows[i]), wire, (char *)attributes + rows[i].offset));
    }
    return HLO_SUCCESS;
}

// Refuses a field of a nested message that no row reads, unless it is zero, which is the same as absent: what it says
// would be lost, such as the algorithm of a convolution.
static HloStatus refuse_unread(const HloProtoRow *rows, int64_t row_count, int32_t message, const HloWireField *field) {
    for (int64_t i = 0; i < row_count; i++) {
        if (rows[i].message == message && rows[i].number == field->number) return HLO_SUCCESS;
    }
    const bool is_zero = field->type == HLO_WIRE_BYTES ? field->bytes.length == 0 : field->value == 0;
    HLO_FAIL_IF(!is_zero, HLO_UNIMPLEMENTED, "field %d of field %d of an instruction is not supported for its opcode",
                (int)field->number, (int)message);
    return HLO_SUCCESS;
}

// The fields of a message inside the instruction, as rows of that message.
static HloStatus read_nested(const HloProtoSource *source, const HloProtoRow *rows, int64_t row_count,
                             const HloWireField *message, int32_t number, void *attributes) {
    HloWireReader reader = hlo_wire_reader(source->begin, message->bytes);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        // The dot dimensions of a ragged dot nest once more.
        bool inner_dot = number == 90 && field.number == 1;
        if (!inner_dot) HLO_TRY(refuse_unread(rows, row_count, number, &field));
        HLO_TRY(inner_dot ? read_nested(source, rows, row_count, &field, 30, attributes)
                          : dispatch(source, rows, row_count, number, &field, attributes, NULL));
    }
    return status;
}

// The groups of older files, each a separate field.
static HloStatus read_replica_groups_v1(const HloProtoSource *source, const HloWireField *fields, int64_t count,
                                        HloCollectiveAttributes *to) {
    HLO_VECTOR(HloInts) lists = {0};
    for (int64_t i = 0; i < count; i++) {
        if (fields[i].number != FIELD_REPLICA_GROUPS_V1) continue;
        HloInt64Vector ids = {0};
        HloWireReader reader = hlo_wire_reader(source->begin, fields[i].bytes);
        HloWireField field;
        HloStatus status;
        while (hlo_wire_next(&reader, &field, &status)) {
            if (field.number == 1) HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &ids));
        }
        HLO_TRY(status);
        hlo_vector_push(source->arena, &lists, ((HloInts){ids.items, ids.count}));
    }
    if (lists.count) to->replica_groups = hlo_replica_groups_list(source->arena, lists.items, lists.count);
    return HLO_SUCCESS;
}

static bool has_field(const HloWireField *fields, int64_t count, int32_t number) {
    for (int64_t i = 0; i < count; i++) {
        if (fields[i].number == number) return true;
    }
    return false;
}

// Refuses what changes the meaning of an instruction and is not read: sparse operands, in the two fields that XLA has
// had for them, and fields that are newer than fields.def. XLA wrote others that it has removed since (4 to 84); its
// own reader ignores those, too.
static HloStatus refuse_unsupported(const HloWireField *fields, int64_t count, HloOpcode opcode) {
    enum { DOT_SPARSITY = 86, SPARSITY_CONFIG = 98, LAST = 99 };
    for (int64_t i = 0; i < count; i++) {
        const int32_t number = fields[i].number;
        const bool is_sparse = number == DOT_SPARSITY || (number == SPARSITY_CONFIG && fields[i].bytes.length);
        HLO_FAIL_IF(is_sparse, HLO_UNIMPLEMENTED, "%s: sparse operands (%s) are not supported", hlo_op_text(opcode),
                    number == DOT_SPARSITY ? "dot_sparsity" : "sparsity_config");
        HLO_FAIL_IF(number > LAST, HLO_UNIMPLEMENTED, "%s: field %d of an instruction is newer than this reader",
                    hlo_op_text(opcode), (int)number);
    }
    return HLO_SUCCESS;
}

// Older files have the channel of an all-reduce in a field of its own, and prefetches across programs as a flag.
static HloStatus read_older_forms(const HloWireField *fields, int64_t count, HloOpcode opcode, void *attributes) {
    enum { ALL_REDUCE_ID = 45, IS_CROSS_PROGRAM_PREFETCH = 73 };
    const bool reduces = opcode == HLO_OP_ALL_REDUCE || opcode == HLO_OP_ALL_REDUCE_START;
    for (int64_t i = 0; i < count; i++) {
        const HloWireField *field = &fields[i];
        if (field->type != HLO_WIRE_VARINT || (int64_t)field->value <= 0) continue;
        if (reduces && field->number == ALL_REDUCE_ID) {
            HloCollectiveAttributes *collective = attributes;
            HLO_FAIL_IF(collective->channel_id > 0, HLO_INVALID_ARGUMENT,
                        "%s has both a channel_id and an all_reduce_id", hlo_op_text(opcode));
            collective->channel_id = (int64_t)field->value;
        } else if (opcode == HLO_OP_COPY_START && field->number == IS_CROSS_PROGRAM_PREFETCH) {
            HloCopyStartAttributes *copy = attributes;
            if (copy->cross_program_prefetch_index == HLO_ABSENT) copy->cross_program_prefetch_index = 0;
        }
    }
    return HLO_SUCCESS;
}

// HloInstructionProto.SliceDimensions, one per dimension.
static HloStatus read_slices(const HloProtoSource *source, const HloWireField *fields, int64_t count,
                             HloSliceAttributes *slice) {
    HloInt64Vector starts = {0}, limits = {0}, strides = {0};
    for (int64_t i = 0; i < count; i++) {
        if (fields[i].number != HLO_PROTO_SLICES) continue;
        int64_t n[4] = {0};
        HLO_TRY(read_numbers(source, fields[i].bytes, n, 4));
        hlo_vector_push(source->arena, &starts, n[1]);
        hlo_vector_push(source->arena, &limits, n[2]);
        hlo_vector_push(source->arena, &strides, n[3]);
    }
    slice->starts = (HloInts){starts.items, starts.count};
    slice->limits = (HloInts){limits.items, limits.count};
    slice->strides = (HloInts){strides.items, strides.count};
    return HLO_SUCCESS;
}

// Sets optional numbers to absent instead of zero.
static void set_absent(const HloFamilyInfo *family, void *attributes) {
    for (int32_t i = 0; i < family->field_count; i++) {
        if (family->fields[i].kind == HLO_FIELD_OPTIONAL_INT) {
            *(int64_t *)((char *)attributes + family->fields[i].offset) = HLO_ABSENT;
        }
    }
}

// HloInstructionProto has one flat list of fields for all opcodes, of which each family of attributes knows a few (its
// rows in fields.def); those of other opcodes are ignored, as XLA's reader does. Three parts are not plain fields of a
// struct: replica groups, which have three forms; the layouts of a custom call, where an empty list differs from an
// absent one; and messages within messages, which have rows of their own (read_nested).
HloStatus hlo_proto_read_attributes(const HloProtoSource *source, const HloWireField *fields, int64_t field_count,
                                    HloOpcode opcode, void *attributes) {
    assert(attributes && opcode < HLO_OPCODE_COUNT && field_count >= 0);
    HloFamily family = hlo_op_info(opcode)->family;
    HLO_TRY(refuse_unsupported(fields, field_count, opcode));
    set_absent(hlo_family_info(family), attributes);
    if (family == HLO_FAMILY_Slice) return read_slices(source, fields, field_count, attributes);
    int64_t row_count;
    const HloProtoRow *rows = hlo_proto_rows(family, &row_count);
    if (!rows) return HLO_SUCCESS;  // the common case: elementwise ops without a word of their own
    // Older files have the groups as plain lists; newer ones write both.
    if (family == HLO_FAMILY_Collective && !has_field(fields, field_count, 87)) {
        HLO_TRY(read_replica_groups_v1(source, fields, field_count, attributes));
    }
    for (int64_t i = 0; i < field_count; i++) {
        const HloWireField *field = &fields[i];
        bool nested = false;
        HLO_TRY(dispatch(source, rows, row_count, 0, field, attributes, &nested));
        if (family == HLO_FAMILY_Collective &&
            (field->number == HLO_PROTO_IOTA_GROUPS || field->number == HLO_PROTO_MESH_GROUPS)) {
            HLO_TRY(hlo_proto_read_group_form(source, field->number, field->bytes,
                                              &((HloCollectiveAttributes *)attributes)->replica_groups));
        }
        if (family == HLO_FAMILY_CustomCall && field->number == HLO_PROTO_CONSTRAIN_LAYOUT && field->value) {
            HloShapes *layouts = &((HloCustomCallAttributes *)attributes)->operand_layouts;
            if (!layouts->items) layouts->items = HLO_ARENA_NEW(source->arena, const HloShape *, 1);  // a list of none
        }
        if (nested) HLO_TRY(read_nested(source, rows, row_count, field, field->number, attributes));
    }
    // A collective without groups has one of all devices: an empty list, as in text.
    HloCollectiveAttributes *collective = family == HLO_FAMILY_Collective ? attributes : NULL;
    if (collective && !collective->replica_groups) {
        collective->replica_groups = hlo_replica_groups_list(source->arena, NULL, 0);
    }
    return read_older_forms(fields, field_count, opcode, attributes);
}
