// SPDX-License-Identifier: Apache-2.0
// Shapes as XLA prints them: f32[8,<=128]{1,0:T(8,128)S(1)}. Defaults are omitted. The grammar is that of
// ShapeUtil::HumanStringWithLayout and Layout::ToString (xla/shape_util.cc, xla/layout.cc).
#include <assert.h>

#include "hlo/ir/shape.h"

#include "hlo/ir/attributes.h"

static void print_tile(HloText *text, HloInts tile) {
    hlo_text_char(text, '(');
    for (int64_t i = 0; i < tile.count; i++) {
        if (i > 0) hlo_text_char(text, ',');
        if (tile.items[i] == HLO_TILE_COMBINE) {
            hlo_text_char(text, '*');
        } else {
            hlo_text_int64(text, tile.items[i]);
        }
    }
    hlo_text_char(text, ')');
}

static void print_number(HloText *text, const char *name, int64_t value, int64_t absent) {
    if (value == absent) return;
    hlo_text_string(text, name);
    hlo_text_char(text, '(');
    hlo_text_int64(text, value);
    hlo_text_char(text, ')');
}

static void print_type(HloText *text, const char *name, HloType type) {
    if (type == HLO_INVALID) return;
    hlo_text_string(text, name);
    hlo_text_char(text, '(');
    hlo_text_string(text, hlo_type_text(type));
    hlo_text_char(text, ')');
}

// True if anything follows the colon.
static bool has_extras(const HloLayout *layout) {
    return layout->tile_count || layout->tail_padding_alignment > 1 || layout->index_type || layout->pointer_type ||
           layout->element_size_in_bits || layout->memory_space || layout->split_count || layout->physical_shape ||
           layout->dynamic_metadata_bytes;
}

static void print_extras(HloText *text, const HloLayout *layout) {
    hlo_text_char(text, ':');
    if (layout->tile_count) hlo_text_char(text, 'T');
    for (int64_t i = 0; i < layout->tile_count; i++) print_tile(text, layout->tiles[i]);
    print_number(text, "L", layout->tail_padding_alignment,
                 layout->tail_padding_alignment <= 1 ? layout->tail_padding_alignment : 1);
    print_type(text, "#", layout->index_type);
    print_type(text, "*", layout->pointer_type);
    print_number(text, "E", layout->element_size_in_bits, 0);
    print_number(text, "S", layout->memory_space, 0);
    if (layout->split_count) hlo_text_string(text, "SC");
    for (int64_t i = 0; i < layout->split_count; i++) {
        hlo_text_char(text, '(');
        hlo_text_int64(text, layout->splits[i].dimension);
        hlo_text_char(text, ':');
        hlo_ints_print(text, layout->splits[i].indices);
        hlo_text_char(text, ')');
    }
    if (layout->physical_shape) {
        hlo_text_string(text, "P(");
        hlo_shape_print(text, layout->physical_shape, true);
        hlo_text_char(text, ')');
    }
    print_number(text, "M", layout->dynamic_metadata_bytes, 0);
}

// A scalar's layout is printed only if it has more than an empty list of dimensions.
static void print_layout(HloText *text, const HloLayout *layout) {
    assert(layout);
    bool extras = has_extras(layout);
    if (layout->minor_to_major.count == 0 && !extras) return;
    hlo_text_char(text, '{');
    hlo_ints_print(text, layout->minor_to_major);
    if (extras) print_extras(text, layout);
    hlo_text_char(text, '}');
}

static void print_dims(HloText *text, const HloShape *shape) {
    hlo_text_char(text, '[');
    for (int32_t i = 0; i < shape->rank; i++) {
        if (i > 0) hlo_text_char(text, ',');
        if (shape->dims[i] == HLO_UNBOUNDED) {
            hlo_text_char(text, '?');
            continue;
        }
        if (shape->dynamic && shape->dynamic[i]) hlo_text_append(text, "<=", 2);
        hlo_text_int64(text, shape->dims[i]);
    }
    hlo_text_char(text, ']');
}

// Every fifth element of a tuple is numbered, to help readers of wide ones; the parser skips comments.
static void print_elements(HloText *text, const HloShape *shape, bool with_layout) {
    hlo_text_char(text, '(');
    for (int32_t i = 0; i < shape->element_count; i++) {
        if (i > 0) hlo_text_append(text, ", ", 2);
        if (i > 0 && i % 5 == 0) hlo_text_format(text, "/*index=%d*/", i);
        hlo_shape_print(text, shape->elements[i], with_layout);
    }
    hlo_text_char(text, ')');
}

void hlo_shape_print(HloText *text, const HloShape *shape, bool with_layout) {
    assert(text && shape);
    if (shape->type == HLO_TUPLE) {
        print_elements(text, shape, with_layout);
    } else if (shape->type == HLO_BUFFER) {
        hlo_text_append(text, "b(", 2);
        hlo_shape_print(text, shape->elements[0], with_layout);
        hlo_text_char(text, ')');
    } else {
        hlo_text_string(text, hlo_type_text(shape->type));
        print_dims(text, shape);
        if (with_layout && shape->layout) print_layout(text, shape->layout);
    }
}

// `flat` is below the number of elements, so no size is zero.
void hlo_shape_print_index(HloText *text, const HloShape *shape, int64_t flat) {
    assert(flat >= 0);
    int64_t below = hlo_shape_elements(shape);
    hlo_text_char(text, '[');
    for (int32_t i = 0; i < shape->rank; i++) {
        below /= shape->dims[i];
        hlo_text_format(text, "%s%lld", i ? "," : "", (long long)(flat / below));
        flat %= below;
    }
    hlo_text_char(text, ']');
}
