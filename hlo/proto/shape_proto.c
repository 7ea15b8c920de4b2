// SPDX-License-Identifier: Apache-2.0
// ShapeProto, LayoutProto and LiteralProto. Field numbers: xla/xla_data.proto. Readers check everything that other code
// assumes: that types exist, sizes do not overflow, layouts order each dimension once, and that a literal has as many
// bytes as its shape requires before memory is allocated for it. Everything is put into row-major order, in which
// literals are stored; messages have values in the order of the shape's layout.
//
//   ShapeProto   element_type 2, dimensions 3, tuple_shapes 4, layout 5, is_dynamic_dimension 6
//   LayoutProto  minor_to_major 1, tiles 6, element_size_in_bits 7, memory_space 8, dim_level_types 9,
//                physical_shape 10, index_primitive_type 11, pointer_primitive_type 12,
//                dynamic_shape_metadata_prefix_bytes 15, tail_padding_alignment_in_elements 16, split_configs 17
#include <assert.h>

#include "hlo/proto/parts.h"
#include "hlo/proto/proto.h"

enum { DEEPEST_NESTING = 64 };

HloStatus hlo_proto_descend(const HloProtoSource *source, HloProtoSource *inner) {
    *inner = *source;
    HLO_FAIL_IF(++inner->depth > DEEPEST_NESTING, HLO_INVALID_ARGUMENT, "protobuf messages nest deeper than %d levels",
                DEEPEST_NESTING);
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Layouts

// Fields that are 0 are not written, as in proto3 (hlo_wire_varint() omits them), so that a plain layout is just its
// order.
static void write_layout(HloText *text, int32_t number, const HloLayout *layout) {
    assert(layout);
    size_t mark = hlo_wire_begin(text, number);
    hlo_wire_ints(text, 1, layout->minor_to_major);
    for (int64_t i = 0; i < layout->tile_count; i++) {
        size_t tile = hlo_wire_begin(text, 6);
        hlo_wire_ints(text, 1, layout->tiles[i]);
        hlo_wire_end(text, tile);
    }
    hlo_wire_varint(text, 7, (uint64_t)layout->element_size_in_bits);
    hlo_wire_varint(text, 8, (uint64_t)layout->memory_space);
    hlo_wire_ints(text, 9, layout->dim_level_types);
    if (layout->physical_shape) hlo_proto_write_shape(text, 10, layout->physical_shape);
    hlo_wire_varint(text, 11, (uint64_t)layout->index_type);
    hlo_wire_varint(text, 12, (uint64_t)layout->pointer_type);
    hlo_wire_varint(text, 15, (uint64_t)layout->dynamic_metadata_bytes);
    hlo_wire_varint(text, 16, (uint64_t)layout->tail_padding_alignment);
    for (int64_t i = 0; i < layout->split_count; i++) {
        size_t split = hlo_wire_begin(text, 17);
        hlo_wire_varint(text, 1, (uint64_t)layout->splits[i].dimension);
        hlo_wire_ints(text, 2, layout->splits[i].indices);
        hlo_wire_end(text, split);
    }
    hlo_wire_end(text, mark);
}

// SplitConfigProto: the indices along a dimension at which the array is split.
static HloStatus read_split(const HloProtoSource *source, HloSpan span, HloSplit *split) {
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    HloInt64Vector indices = {0};
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) split->dimension = (int64_t)field.value;
        if (field.number == 2) HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &indices));
    }
    split->indices = (HloInts){indices.items, indices.count};
    return status;
}

// TileProto. Sizes are packed or not: hlo_wire_read_ints() accepts both.
static HloStatus read_tile(const HloProtoSource *source, HloSpan span, HloInts *tile) {
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    HloInt64Vector dims = {0};
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) HLO_TRY(hlo_wire_read_ints(source->arena, source->begin, &field, &dims));
    }
    *tile = (HloInts){dims.items, dims.count};
    return status;
}

// Type numbers are those of xla_data.proto, which are our enumerators.
static HloType checked_type(uint64_t number) {
    return number < HLO_TYPE_COUNT ? (HloType)number : HLO_INVALID;
}

// INVALID_ARGUMENT for fields of sparse layouts, which no array has, as in XLA.
static HloStatus check_sparse_field(const HloWireField *field) {
    const char *name = field->number == 10   ? "physical shape"
                       : field->number == 11 ? "type of indices"
                       : field->number == 12 ? "type of pointers"
                                             : NULL;
    HLO_FAIL_IF(name && (field->type != HLO_WIRE_VARINT || field->value), HLO_INVALID_ARGUMENT,
                "a layout has a %s, but the array is not sparse", name);
    return HLO_SUCCESS;
}

// LayoutProto. The levels of dimensions have no effect on a dense array; XLA ignores them too.
static HloStatus read_layout(const HloProtoSource *source, HloSpan span, const HloLayout **result) {
    HloProtoSource inner;
    HLO_TRY(hlo_proto_descend(source, &inner));
    HloArena *arena = source->arena;
    HloLayout *layout = HLO_ARENA_NEW(arena, HloLayout, 1);
    layout->tail_padding_alignment = 1;
    HloInt64Vector order = {0}, levels = {0};
    HLO_VECTOR(HloInts) tiles = {0};
    HLO_VECTOR(HloSplit) splits = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        switch (field.number) {
            case 1: HLO_TRY(hlo_wire_read_ints(arena, source->begin, &field, &order)); break;
            case 6: {
                HloInts tile;
                HLO_TRY(read_tile(&inner, field.bytes, &tile));
                hlo_vector_push(arena, &tiles, tile);
                break;
            }
            case 7: layout->element_size_in_bits = (int64_t)field.value; break;
            case 8: layout->memory_space = (int64_t)field.value; break;
            case 9: HLO_TRY(hlo_wire_read_ints(arena, source->begin, &field, &levels)); break;
            case 10:
            case 11:
            case 12: HLO_TRY(check_sparse_field(&field)); break;
            case 15: layout->dynamic_metadata_bytes = (int64_t)field.value; break;
            case 16: layout->tail_padding_alignment = field.value ? (int64_t)field.value : 1; break;
            case 17: {
                HloSplit split = {0};
                HLO_TRY(read_split(&inner, field.bytes, &split));
                hlo_vector_push(arena, &splits, split);
                break;
            }
            default: break;
        }
    }
    // Dense in every dimension is the same as absent.
    bool dense = true;
    for (int64_t i = 0; i < levels.count; i++) dense &= levels.items[i] == 0;
    layout->minor_to_major = (HloInts){order.items, order.count};
    if (!dense) layout->dim_level_types = (HloInts){levels.items, levels.count};
    layout->tiles = tiles.items;
    layout->tile_count = tiles.count;
    layout->splits = splits.items;
    layout->split_count = splits.count;
    *result = layout;
    return status;
}

// ---------------------------------------------------------------------------------------------------------------------
// Shapes

// The flags of dynamic dimensions are written for static shapes too, a byte of 0 each, as in XLA; scalars have none.
void hlo_shape_to_proto(const HloShape *shape, HloText *text) {
    assert(text && shape);
    hlo_wire_varint(text, 2, (uint64_t)shape->type);
    hlo_wire_ints(text, 3, hlo_shape_dims(shape));
    for (int32_t i = 0; i < shape->element_count; i++) hlo_proto_write_shape(text, 4, shape->elements[i]);
    if (shape->layout) write_layout(text, 5, shape->layout);
    if (shape->rank > 0) {
        size_t flags = hlo_wire_begin(text, 6);
        for (int32_t i = 0; i < shape->rank; i++) hlo_text_char(text, (char)(shape->dynamic && shape->dynamic[i]));
        hlo_wire_end(text, flags);
    }
}

// ShapeProto as a field of another message.
void hlo_proto_write_shape(HloText *text, int32_t number, const HloShape *shape) {
    size_t mark = hlo_wire_begin(text, number);
    hlo_shape_to_proto(shape, text);
    hlo_wire_end(text, mark);
}

// NULL if no dimension is dynamic, the form of static shapes everywhere. Old writers omit the flags.
static HloStatus dynamic_flags(HloArena *arena, HloInt64Vector flags, int64_t rank, const bool **result) {
    bool any = false;
    HLO_FAIL_IF(flags.count && flags.count != rank, HLO_INVALID_ARGUMENT,
                "a shape of rank %lld says of %lld dimensions whether they are dynamic", (long long)rank,
                (long long)flags.count);
    for (int64_t i = 0; i < flags.count; i++) any |= flags.items[i] != 0;
    *result = NULL;
    if (!any) return HLO_SUCCESS;
    bool *dynamic = HLO_ARENA_NEW(arena, bool, rank);
    for (int64_t i = 0; i < flags.count; i++) dynamic[i] = flags.items[i] != 0;
    *result = dynamic;
    return HLO_SUCCESS;
}

// INVALID_ARGUMENT unless the layout orders each dimension once: literals are reordered by it before verification.
static HloStatus check_order(const HloProtoSource *source, const HloShape *shape) {
    if (!shape->layout) return HLO_SUCCESS;
    const HloInts order = shape->layout->minor_to_major;
    bool *seen = HLO_ARENA_NEW(source->arena, bool, order.count);
    for (int64_t i = 0; i < order.count; i++) {
        const int64_t dimension = order.items[i];
        HLO_FAIL_IF(dimension < 0 || dimension >= order.count || seen[dimension], HLO_INVALID_ARGUMENT,
                    "the order of a layout is not a permutation of %lld dimensions", (long long)order.count);
        seen[dimension] = true;
    }
    return HLO_SUCCESS;
}

// A tuple has any number of elements, a buffer one array, other shapes none.
static HloStatus check_elements(HloType type, const HloShape *const *elements, int64_t count) {
    assert(count >= 0);
    if (type == HLO_TUPLE) return HLO_SUCCESS;
    const bool ok = type == HLO_BUFFER ? count == 1 && hlo_shape_is_array(elements[0]) : count == 0;
    HLO_FAIL_IF(!ok, HLO_INVALID_ARGUMENT, "a shape of type %s has %lld elements, or one that is not an array",
                hlo_type_text(type), (long long)count);
    return HLO_SUCCESS;
}

// Untrusted bytes become a shape that all modules may rely on: an existing type, sizes only of arrays, a product of
// sizes that fits, elements only of tuples, a layout of the same rank that is a permutation. Recursion through tuples,
// and through the physical shape in a layout, counts against the depth of `source`. Fields may come in any order, so
// consistency is checked at the end.
HloStatus hlo_proto_read_shape(const HloProtoSource *source, HloSpan span, const HloShape **result) {
    assert(result);
    HloProtoSource inner;
    HLO_TRY(hlo_proto_descend(source, &inner));
    HloArena *arena = source->arena;
    HloShape *shape = HLO_ARENA_NEW(arena, HloShape, 1);
    HloInt64Vector dims = {0}, flags = {0};
    HLO_VECTOR(const HloShape *) elements = {0};
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        switch (field.number) {
            case 2: shape->type = checked_type(field.value); break;
            case 3: HLO_TRY(hlo_wire_read_ints(arena, source->begin, &field, &dims)); break;
            case 4: {
                const HloShape *element = NULL;
                HLO_TRY(hlo_proto_read_shape(&inner, field.bytes, &element));
                hlo_vector_push(arena, &elements, element);
                break;
            }
            case 5: HLO_TRY(read_layout(&inner, field.bytes, &shape->layout)); break;
            case 6: HLO_TRY(hlo_wire_read_ints(arena, source->begin, &field, &flags)); break;
            default: break;
        }
    }
    HLO_TRY(status);
    HLO_FAIL_IF(shape->type == HLO_INVALID, HLO_INVALID_ARGUMENT, "a shape has no element type that exists");
    HLO_FAIL_IF(dims.count > 0 && !hlo_type_is_array(shape->type), HLO_INVALID_ARGUMENT,
                "a shape of type %s has dimensions", hlo_type_text(shape->type));
    HLO_TRY(check_elements(shape->type, elements.items, elements.count));
    HLO_TRY(hlo_shape_check_dims(shape->type, dims.items, dims.count));
    shape->rank = (int32_t)dims.count;
    shape->dims = dims.items;
    HLO_TRY(dynamic_flags(arena, flags, dims.count, &shape->dynamic));
    shape->elements = elements.items;
    shape->element_count = (int32_t)elements.count;
    if (hlo_shape_is_tuple(shape)) hlo_shape_sum_up(arena, shape);
    // Tuples have an empty layout message, and a layout of another rank cannot be kept.
    if (!hlo_shape_is_array(shape)) shape->layout = NULL;
    HLO_FAIL_IF(shape->layout && shape->layout->minor_to_major.count != shape->rank, HLO_INVALID_ARGUMENT,
                "a shape of rank %d has a layout of rank %lld", shape->rank,
                (long long)shape->layout->minor_to_major.count);
    HLO_TRY(check_order(source, shape));
    *result = shape;
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Literals

// How LiteralProto stores the values of a type: the field and its form.
typedef enum LiteralForm { RAW, SMALL, VARINTS } LiteralForm;
typedef struct LiteralField {
    int32_t number;
    LiteralForm form;
} LiteralField;

// Narrow types have their own fields, whose numbers are those of the types.
static LiteralField literal_field(HloType type) {
    assert(hlo_type_is_array(type));
    switch (type) {
        case HLO_PRED: return (LiteralField){2, RAW};  // packed bools are bytes of 0 and 1
        case HLO_S8: return (LiteralField){15, RAW};
        case HLO_U8: return (LiteralField){3, RAW};
        case HLO_S16: return (LiteralField){17, RAW};
        case HLO_U16: return (LiteralField){16, RAW};
        case HLO_S32: return (LiteralField){4, VARINTS};
        case HLO_S64: return (LiteralField){5, VARINTS};
        case HLO_U32: return (LiteralField){6, VARINTS};
        case HLO_U64: return (LiteralField){7, VARINTS};
        case HLO_F16: return (LiteralField){11, RAW};
        case HLO_BF16: return (LiteralField){13, RAW};
        case HLO_F32: return (LiteralField){8, RAW};
        case HLO_F64: return (LiteralField){9, RAW};
        case HLO_C64: return (LiteralField){12, RAW};
        case HLO_C128: return (LiteralField){18, RAW};
        default: return (LiteralField){(int32_t)type, hlo_type_info(type)->bits < 8 ? SMALL : RAW};
    }
}

// True if the order of the layout, which is that of the message, differs from ours (row-major).
static bool is_reordered(const HloShape *shape) {
    if (!shape->layout) return false;
    HloInts order = shape->layout->minor_to_major;
    for (int64_t i = 0; i < order.count; i++) {
        if (order.items[i] != order.count - 1 - i) return true;
    }
    return false;
}

// Copies values from row-major order into the layout's (`to_layout`), or back.
static void reorder(const HloShape *shape, const char *from, char *to, bool to_layout) {
    assert(shape->layout && shape->layout->minor_to_major.count == shape->rank);  // is_reordered() has checked it
    HloArena *scratch = hlo_arena_scratch_new();
    int64_t *index = HLO_ARENA_NEW(scratch, int64_t, shape->rank),
            *stride = HLO_ARENA_NEW(scratch, int64_t, shape->rank);
    const int64_t *order = shape->layout->minor_to_major.items;
    size_t bytes = (size_t)hlo_type_info(shape->type)->storage_bytes;
    int64_t count = hlo_shape_elements(shape);
    for (int64_t i = shape->rank - 1, step = 1; i >= 0; step *= shape->dims[i--]) stride[i] = step;
    for (int64_t place = 0, logical = 0; place < count; place++) {
        int64_t source = to_layout ? logical : place, target = to_layout ? place : logical;
        memcpy(to + (size_t)target * bytes, from + (size_t)source * bytes, bytes);
        for (int32_t i = 0; i < shape->rank; i++) {
            int64_t dim = order[i];
            logical += stride[dim];
            if (++index[dim] < shape->dims[dim]) break;
            logical -= stride[dim] * shape->dims[dim];
            index[dim] = 0;
        }
    }
    hlo_arena_free(scratch);
}

// Types below 8 bits have a byte each, whose upper bits are zero.
static void write_small(HloText *text, int32_t number, const HloLiteral *literal) {
    unsigned mask = (1U << hlo_type_info(literal->shape->type)->bits) - 1;
    int64_t count = hlo_shape_elements(literal->shape);
    const unsigned char *data = literal->data;
    size_t mark = hlo_wire_begin(text, number);
    for (int64_t i = 0; i < count; i++) hlo_text_char(text, (char)(data[i] & mask));
    hlo_wire_end(text, mark);
}

// Nothing for literals without elements.
static void write_values(HloText *text, const HloLiteral *literal) {
    LiteralField field = literal_field(literal->shape->type);
    int64_t count = hlo_shape_elements(literal->shape);
    if (count == 0) return;
    if (field.form == RAW) {
        hlo_wire_bytes(text, field.number, literal->data, (size_t)hlo_shape_bytes(literal->shape));
    } else if (field.form == SMALL) {
        write_small(text, field.number, literal);
    } else {
        HloArena *scratch = hlo_arena_scratch_new();
        int64_t *numbers = HLO_ARENA_NEW(scratch, int64_t, count);
        for (int64_t i = 0; i < count; i++) numbers[i] = hlo_literal_get_int64(literal, i);
        hlo_wire_ints(text, field.number, (HloInts){numbers, count});
        hlo_arena_free(scratch);
    }
}

// XLA refuses a literal without a layout: an absent one is row-major, as literals are stored.
static void write_literal_shape(HloText *text, const HloShape *shape) {
    if (!hlo_shape_is_array(shape) || shape->layout) {
        hlo_proto_write_shape(text, 1, shape);
        return;
    }
    HloArena *scratch = hlo_arena_scratch_new();
    hlo_proto_write_shape(text, 1, hlo_shape_with_default_layout(scratch, shape));
    hlo_arena_free(scratch);
}

// LiteralProto. Values are listed in the order of the layout, while ours are row-major: if the two differ, a copy is
// reordered first.
void hlo_proto_write_literal(HloText *text, int32_t number, const HloLiteral *literal) {
    assert(text && literal);
    size_t mark = hlo_wire_begin(text, number);
    write_literal_shape(text, literal->shape);
    for (int32_t i = 0; literal->elements && i < literal->shape->element_count; i++) {
        hlo_proto_write_literal(text, 10, literal->elements[i]);
    }
    if (literal->data && is_reordered(literal->shape)) {
        HloArena *scratch = hlo_arena_scratch_new();
        HloLiteral ordered = *literal;
        ordered.data = hlo_arena_allocate(scratch, (size_t)hlo_shape_bytes(literal->shape));
        reorder(literal->shape, literal->data, ordered.data, true);
        write_values(text, &ordered);
        hlo_arena_free(scratch);
    } else if (literal->data) {
        write_values(text, literal);
    }
    hlo_wire_end(text, mark);
}

// The shape and the fields with values, which are read after the shape, whatever their order.
typedef struct LiteralParts {
    const HloShape *shape;
    HLO_VECTOR(HloWireField) values;
    HLO_VECTOR(HloSpan) elements;
} LiteralParts;

// A byte each, or, in files from before 2024, several per byte, the first element in the high bits.
static HloStatus read_small(HloSpan bytes, HloLiteral *literal) {
    HloType type = literal->shape->type;
    int bits = hlo_type_info(type)->bits, each = 8 / bits;
    int64_t count = hlo_shape_elements(literal->shape);
    bool packed = (int64_t)bytes.length != count;
    HLO_FAIL_IF(packed && (int64_t)bytes.length != (count + each - 1) / each, HLO_INVALID_ARGUMENT,
                "a literal of %lld %s elements has %lld bytes", (long long)count, hlo_type_text(type),
                (long long)bytes.length);
    for (int64_t i = 0; i < count; i++) {
        unsigned value = packed ? bytes.data[i / each] >> (bits * (each - 1 - (int)(i % each))) : bytes.data[i];
        value &= (1U << bits) - 1;
        if (hlo_type_is_float(type)) {
            ((unsigned char *)literal->data)[i] = (unsigned char)value;
        } else {
            hlo_literal_set_int64(literal, i, (int64_t)value);
        }
    }
    return HLO_SUCCESS;
}

// `field` is the first one with values. Numbers may come one per field, or in several packed ones, which are
// concatenated; bytes come in one piece.
static HloStatus read_values(const HloProtoSource *source, const LiteralParts *parts, const HloWireField *field,
                             LiteralForm form, HloLiteral *literal) {
    int64_t count = hlo_shape_elements(literal->shape), bytes = hlo_shape_bytes(literal->shape);
    if (form == SMALL) return read_small(field->bytes, literal);
    if (form == RAW) {
        HLO_FAIL_IF((int64_t)field->bytes.length != bytes, HLO_INVALID_ARGUMENT,
                    "a literal of %lld bytes comes with %lld", (long long)bytes, (long long)field->bytes.length);
        if (bytes) memcpy(literal->data, field->bytes.data, (size_t)bytes);
        bool *truths = literal->shape->type == HLO_PRED ? literal->data : NULL;
        for (int64_t i = 0; i < count && truths; i++) truths[i] = field->bytes.data[i] != 0;
        return HLO_SUCCESS;
    }
    HloArena *scratch = hlo_arena_scratch_new();
    HloInt64Vector numbers = {0};
    HloStatus status = HLO_SUCCESS;
    for (int64_t i = 0; i < parts->values.count && !status; i++) {
        if (parts->values.items[i].number == field->number)
            status = hlo_wire_read_ints(scratch, source->begin, &parts->values.items[i], &numbers);
    }
    if (!status && numbers.count != count) {
        status = hlo_error(HLO_INVALID_ARGUMENT, "a literal of %lld elements comes with %lld", (long long)count,
                           (long long)numbers.count);
    }
    for (int64_t i = 0; !status && i < count; i++) hlo_literal_set_int64(literal, i, numbers.items[i]);
    hlo_arena_free(scratch);
    return status;
}

// Spans only: nothing is copied before the shape is known.
static HloStatus split_literal(const HloProtoSource *source, HloSpan span, LiteralParts *parts) {
    HloWireReader reader = hlo_wire_reader(source->begin, span);
    HloWireField field;
    HloStatus status;
    while (hlo_wire_next(&reader, &field, &status)) {
        if (field.number == 1) {
            HLO_TRY(hlo_proto_read_shape(source, field.bytes, &parts->shape));
        } else if (field.number == 10) {
            hlo_vector_push(source->arena, &parts->elements, field.bytes);
        } else {
            hlo_vector_push(source->arena, &parts->values, field);
        }
    }
    HLO_TRY(status);
    HLO_FAIL_IF(!parts->shape, HLO_INVALID_ARGUMENT, "a literal has no shape");
    return HLO_SUCCESS;
}

// As many elements as the shape has, each with its own shape, since nothing else in the message names it.
static HloStatus read_tuple(const HloProtoSource *source, const LiteralParts *parts, HloLiteral *literal) {
    HLO_FAIL_IF(parts->elements.count != parts->shape->element_count, HLO_INVALID_ARGUMENT,
                "a tuple literal of %d elements comes with %lld", parts->shape->element_count,
                (long long)parts->elements.count);
    literal->elements = HLO_ARENA_NEW(source->arena, HloLiteral *, parts->elements.count);
    for (int64_t i = 0; i < parts->elements.count; i++) {
        const HloLiteral *element = NULL;
        HLO_TRY(hlo_proto_read_literal(source, parts->elements.items[i], &element));
        literal->elements[i] = (HloLiteral *)(uintptr_t)element;
    }
    return HLO_SUCCESS;
}

// Bytes of all fields with a number. The narrowest form has eight elements per byte: a shape that claims more than that
// is refused before memory is allocated for it.
static int64_t given_bytes(const LiteralParts *parts, int32_t number) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < parts->values.count; i++) {
        const HloWireField *field = &parts->values.items[i];
        if (field->number == number) bytes += field->type == HLO_WIRE_BYTES ? (int64_t)field->bytes.length : 1;
    }
    return bytes;
}

// The sizes of dynamic dimensions that a literal has at run time, of which only the first elements count.
static HloStatus refuse_dynamic_sizes(const LiteralParts *parts) {
    enum { DYNAMIC_SIZES = 34 };
    for (int64_t i = 0; parts->shape->dynamic && i < parts->values.count; i++)
        HLO_FAIL_IF(parts->values.items[i].number == DYNAMIC_SIZES, HLO_UNIMPLEMENTED,
                    "a literal with dynamic_sizes is not supported");
    return HLO_SUCCESS;
}

// A literal whose value field is missing was elided by its writer.
HloStatus hlo_proto_read_literal(const HloProtoSource *source, HloSpan span, const HloLiteral **result) {
    assert(result);
    HloProtoSource inner;
    HLO_TRY(hlo_proto_descend(source, &inner));
    LiteralParts parts = {0};
    HLO_TRY(split_literal(&inner, span, &parts));
    HloLiteral *literal = HLO_ARENA_NEW(source->arena, HloLiteral, 1);
    literal->shape = parts.shape;
    *result = literal;
    if (hlo_shape_is_tuple(parts.shape)) return read_tuple(&inner, &parts, literal);
    if (!hlo_shape_is_array(parts.shape)) return HLO_SUCCESS;
    HLO_TRY(refuse_dynamic_sizes(&parts));
    LiteralField wanted = literal_field(parts.shape->type);
    for (int64_t i = 0; i < parts.values.count; i++) {
        const HloWireField *field = &parts.values.items[i];
        if (field->number != wanted.number || (wanted.form != VARINTS && field->type != HLO_WIRE_BYTES)) continue;
        HLO_FAIL_IF(hlo_shape_elements(parts.shape) / 8 > given_bytes(&parts, wanted.number), HLO_INVALID_ARGUMENT,
                    "a literal claims more elements than its bytes can hold");
        literal->data = hlo_arena_allocate(source->arena, (size_t)hlo_shape_bytes(parts.shape));
        HLO_TRY(read_values(&inner, &parts, field, wanted.form, literal));
        if (!is_reordered(literal->shape)) return HLO_SUCCESS;
        const void *ordered = literal->data;
        literal->data = hlo_arena_allocate(source->arena, (size_t)hlo_shape_bytes(parts.shape));
        reorder(literal->shape, ordered, literal->data, false);
        return HLO_SUCCESS;
    }
    literal->elided = hlo_shape_elements(parts.shape) > 0;
    if (!literal->elided) literal->data = hlo_arena_allocate(source->arena, 1);
    return HLO_SUCCESS;
}

typedef struct ShapeRequest {
    HloProtoSource source;
    HloSpan span;
    const HloShape *result;
} ShapeRequest;

static HloStatus read_protected(void *argument) {
    ShapeRequest *request = argument;
    return hlo_proto_read_shape(&request->source, request->span, &request->result);
}

HloStatus hlo_shape_from_proto(HloArena *arena, const void *bytes, size_t length, const HloShape **shape) {
    assert(arena && shape && (bytes || length == 0));
    ShapeRequest request = {{arena, bytes, 0, NULL}, {bytes, length}, NULL};
    HLO_TRY(hlo_protect(read_protected, &request));
    *shape = request.result;
    return HLO_SUCCESS;
}
