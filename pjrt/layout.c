// SPDX-License-Identifier: Apache-2.0
// Layouts: what executables and buffers say of the order of their elements, and the extension that tells it. Arrays are
// row-major in memory all the same; a layout is a name that they carry.
#include <string.h>

#include "pjrt/extensions.h"
#include "pjrt/objects.h"

// ---- text, as XLA writes layouts

static void print_list(HloText *text, HloInts list) {
    for (int64_t i = 0; i < list.count; i++) hlo_text_format(text, "%s%lld", i ? "," : "", (long long)list.items[i]);
}

void pjrt_layout_print(HloText *text, const HloShape *shape) {
    const HloLayout *layout = shape->layout;
    const bool said = layout && layout->minor_to_major.count == shape->rank;
    hlo_text_string(text, "{");
    if (said) print_list(text, layout->minor_to_major);
    for (int32_t i = 0; !said && i < shape->rank; i++)
        hlo_text_format(text, "%s%d", i ? "," : "", (int)(shape->rank - 1 - i));
    for (int64_t i = 0; layout && i < layout->tile_count; i++) {
        hlo_text_string(text, i ? "(" : ":T(");
        print_list(text, layout->tiles[i]);
        hlo_text_string(text, ")");
    }
    if (layout && layout->element_size_in_bits)
        hlo_text_format(text, "%sE(%lld)", layout->tile_count ? "" : ":", (long long)layout->element_size_in_bits);
    hlo_text_string(text, "}");
}

HloStatus pjrt_layout_read(const PjrtMemoryLayout *layout, size_t rank, HloText *text) {
    if (!layout) return HLO_SUCCESS;
    HLO_FAIL_IF(layout->type != PJRT_LAYOUT_TILED, HLO_UNIMPLEMENTED, "device layouts with strides");
    const PjrtLayoutTiled *tiled = &layout->layout.tiled;
    HLO_FAIL_IF(tiled->minor_to_major_size != rank, HLO_INVALID_ARGUMENT,
                "a layout of %zu dimensions for an array of rank %zu", tiled->minor_to_major_size, rank);
    hlo_text_string(text, "{");
    print_list(text, (HloInts){tiled->minor_to_major, (int64_t)rank});
    const int64_t *dims = tiled->tile_dims;
    for (size_t i = 0; i < tiled->num_tiles; dims += tiled->tile_dim_sizes[i++]) {
        hlo_text_string(text, i ? "(" : ":T(");
        print_list(text, (HloInts){dims, (int64_t)tiled->tile_dim_sizes[i]});
        hlo_text_string(text, ")");
    }
    hlo_text_string(text, "}");
    return hlo_text_status(text);
}

bool pjrt_layout_is_row_major(const char *layout, int32_t rank) {
    HloText text = {0};
    const HloShape shape = {.type = HLO_F32, .rank = rank};
    pjrt_layout_print(&text, &shape);
    const bool same = !text.failed && strcmp(text.data, layout) == 0;
    hlo_text_free(&text);
    return same;
}

// ---- handles: their text stands in the block or, of executables and buffers, elsewhere

struct PjrtLayout {
    const char *text;
};

static PjrtError *give_layout(const char *text, size_t size, PjrtLayout **out) {
    PjrtLayout *layout = hlo_allocate(sizeof(*layout) + size + 1);
    if (!layout) return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    char *copy = (char *)(layout + 1);
    memcpy(copy, text, size);
    copy[size] = 0;
    layout->text = copy;
    *out = layout;
    return NULL;
}

static PjrtError *give_default(size_t rank, PjrtLayout **out) {
    const HloShape shape = {.type = HLO_F32, .rank = (int32_t)rank};
    HloText text = {0};
    if (rank > 64) return pjrt_fail(HLO_INVALID_ARGUMENT, "a layout of rank %zu", rank);
    pjrt_layout_print(&text, &shape);
    PjrtError *error =
        text.failed ? pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory") : give_layout(text.data, text.length, out);
    hlo_text_free(&text);
    return error;
}

static PjrtError *layout_destroy(void *arguments) {
    PjrtLayoutDestroyArgs *args = arguments;
    hlo_free(args->layout);
    return NULL;
}

static void free_nothing(void *object) {
    (void)object;
}

static PjrtError *layout_serialize(void *arguments) {
    PjrtLayoutSerializeArgs *args = arguments;
    args->serialized_bytes = args->layout->text;
    args->serialized_bytes_size = strlen(args->layout->text);
    args->serialized_layout = NULL;
    args->serialized_layout_deleter = free_nothing;
    return NULL;
}

static PjrtError *client_default_layout(void *arguments) {
    PjrtDefaultLayoutArgs *args = arguments;
    return give_default(args->num_dims, &args->layout);
}

static PjrtError *buffer_layout(void *arguments) {
    PjrtBufferLayoutArgs *args = arguments;
    const char *text = args->buffer->layout;
    if (text) return give_layout(text, strlen(text), &args->layout);
    return give_default((size_t)target_buffer_shape(args->buffer->buffer)->rank, &args->layout);
}

// The list belongs to the executable; made when first asked for.
static PjrtError *executable_layouts(PjrtExecutable *executable, const PjrtStrings *texts, PjrtLayout ***list) {
    pthread_mutex_lock(&executable->lock);
    if (!*list) {
        PjrtLayout **made = hlo_allocate(texts->count * (sizeof(*made) + sizeof(PjrtLayout)) + 1);
        PjrtLayout *layouts = (PjrtLayout *)(made + texts->count);
        for (size_t i = 0; made && i < texts->count; i++) {
            layouts[i].text = texts->items[i];
            made[i] = &layouts[i];
        }
        *list = made;
    }
    pthread_mutex_unlock(&executable->lock);
    return *list ? NULL : pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

static PjrtError *output_layouts(void *arguments) {
    PjrtExecutableLayoutsArgs *args = arguments;
    args->count = args->executable->result_layouts.count;
    PjrtLayout ***list = &args->executable->result_layout_list;
    PjrtError *error = executable_layouts(args->executable, &args->executable->result_layouts, list);
    args->layouts = *list;
    return error;
}

static PjrtError *parameter_layouts(void *arguments) {
    PjrtExecutableLayoutsArgs *args = arguments;
    args->count = args->executable->parameter_layouts.count;
    PjrtLayout ***list = &args->executable->parameter_layout_list;
    PjrtError *error = executable_layouts(args->executable, &args->executable->parameter_layouts, list);
    args->layouts = *list;
    return error;
}

PjrtExtension *pjrt_layouts_extension(PjrtExtension *next) {
    static PjrtLayoutsExtension extension = {
        .node = {.struct_size = sizeof(PjrtLayoutsExtension), .type = PJRT_EXTENSION_LAYOUTS},
        .destroy = layout_destroy,
        .serialize = layout_serialize,
        .client_default = client_default_layout,
        .buffer = buffer_layout,
        .topology_default = client_default_layout,
        .outputs = output_layouts,
        .parameters = parameter_layouts,
    };
    extension.node.next = next;
    return &extension.node;
}
