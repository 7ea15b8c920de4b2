// SPDX-License-Identifier: Apache-2.0
// Layouts: what executables and buffers report about the order of their elements, and the extension for it. The names
// are those of the real machine (order and tiles that depend on the shape); arrays are row-major in memory anyway.
//
// A buffer's layout is the one that the caller requested or that an executable specifies, kept as text and only where
// it is not the default; an executable's come from its module (compile/layouts.c). The text is XLA's ("{1,0:T(8,128)}",
// Layout::ToString), because JAX parses and compares it.
#include <assert.h>
#include <string.h>

#include "pjrt/extensions.h"
#include "pjrt/objects.h"

// ---- text, as XLA writes layouts

// Prints "1,0". Numbers of tiles are positive here; XLA's "*" for combined dimensions cannot be requested through this
// API.
static void print_list(HloText *text, HloInts list) {
    for (int64_t i = 0; i < list.count; i++) hlo_text_format(text, "%s%lld", i ? "," : "", (long long)list.items[i]);
}

void pjrt_layout_print(HloText *text, const HloShape *shape) {
    assert(text && shape);
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

// ---- choosing

// Whether the caller's order names each dimension once.
static bool is_order(const PjrtLayoutTiled *tiled) {
    bool seen[PJRT_MOST_DIMS] = {false};
    for (size_t i = 0; i < tiled->minor_to_major_size; i++) {
        const int64_t dim = tiled->minor_to_major[i];
        if (dim < 0 || dim >= (int64_t)tiled->minor_to_major_size || seen[dim]) return false;
        seen[dim] = true;
    }
    return true;
}

// Row-major: the last dimension is the most minor.
static bool is_descending(const PjrtLayoutTiled *tiled) {
    for (size_t i = 0; i < tiled->minor_to_major_size; i++)
        if (tiled->minor_to_major[i] != (int64_t)(tiled->minor_to_major_size - 1 - i)) return false;
    return true;
}

// Before anything is allocated or indexed by the caller's numbers. Tiles must have sizes, but need not divide the
// array: that is what padding is for.
HloStatus pjrt_layout_check(const PjrtMemoryLayout *asked, size_t rank) {
    HLO_FAIL_IF(asked->type != PJRT_LAYOUT_TILED, HLO_UNIMPLEMENTED, "layouts with strides");
    const PjrtLayoutTiled *tiled = &asked->layout.tiled;
    HLO_FAIL_IF(tiled->minor_to_major_size != rank || rank > PJRT_MOST_DIMS, HLO_INVALID_ARGUMENT,
                "a layout of %zu dimensions for an array of rank %zu", tiled->minor_to_major_size, rank);
    HLO_FAIL_IF(!is_order(tiled), HLO_INVALID_ARGUMENT, "a layout that is not a permutation of the dimensions");
    HLO_FAIL_IF(tiled->num_tiles > PJRT_MOST_TILES, HLO_INVALID_ARGUMENT, "a layout of %zu tiles", tiled->num_tiles);
    const int64_t *dims = tiled->tile_dims;
    for (size_t i = 0; i < tiled->num_tiles; dims += tiled->tile_dim_sizes[i++]) {
        bool good = tiled->tile_dim_sizes[i] > 0 && tiled->tile_dim_sizes[i] <= PJRT_MOST_DIMS;
        for (size_t d = 0; good && d < tiled->tile_dim_sizes[i]; d++) good = dims[d] > 0;
        HLO_FAIL_IF(!good, HLO_INVALID_ARGUMENT, "tile %zu of a layout is not a list of sizes", i);
    }
    return HLO_SUCCESS;
}

HloStatus pjrt_layout_check_row_major(const PjrtMemoryLayout *asked, size_t rank, const char *what) {
    if (!asked) return HLO_SUCCESS;
    HLO_TRY(pjrt_layout_check(asked, rank));
    const PjrtLayoutTiled *tiled = &asked->layout.tiled;
    HLO_FAIL_IF(tiled->num_tiles || !is_descending(tiled), HLO_UNIMPLEMENTED, "%s in an order other than row-major",
                what);
    return HLO_SUCCESS;
}

// The layout with the caller's tiles instead of the machine's. Tiles follow each other in one list; tile_dim_sizes has
// the length of each.
static const HloLayout *with_tiles(HloArena *arena, const HloLayout *layout, const PjrtLayoutTiled *tiled) {
    HloLayout *result = hlo_arena_copy(arena, layout, sizeof(*result));
    HloInts *tiles = HLO_ARENA_NEW(arena, HloInts, tiled->num_tiles);
    const int64_t *dims = tiled->tile_dims;
    for (size_t i = 0; i < tiled->num_tiles; dims += tiled->tile_dim_sizes[i++])
        tiles[i] = hlo_ints(arena, dims, (int64_t)tiled->tile_dim_sizes[i]);
    result->tiles = tiles;
    result->tile_count = (int64_t)tiled->num_tiles;
    return result;
}

HloStatus pjrt_layout_make(HloArena *arena, const TargetMemory *memory, const HloShape *shape,
                           const PjrtMemoryLayout *asked, const HloLayout **layout) {
    assert(arena && shape && layout);
    assert(hlo_shape_is_array(shape)); /* tokens have no layout: callers deal with them */
    if (!asked) {
        *layout = target_memory_layout(memory, shape, NULL, arena);
        return HLO_SUCCESS;
    }
    HLO_TRY(pjrt_layout_check(asked, (size_t)shape->rank));
    const PjrtLayoutTiled *tiled = &asked->layout.tiled;
    HLO_FAIL_IF(memory->kind_id == TARGET_MEMORY_UNPINNED_HOST && (tiled->num_tiles || !is_descending(tiled)),
                HLO_UNIMPLEMENTED, "%s memory holds row-major arrays only", memory->kind);
    const HloInts order = {tiled->minor_to_major, (int64_t)tiled->minor_to_major_size};
    *layout = target_memory_layout(memory, shape, &order, arena);
    if (tiled->num_tiles) *layout = with_tiles(arena, *layout, tiled);
    return HLO_SUCCESS;
}

typedef struct TextCall {
    HloArena *arena;
    const TargetMemory *memory;
    const HloShape *shape;
    const PjrtMemoryLayout *asked;
    HloText *text;
} TextCall;

// Under hlo_protect(): layouts are made in an arena.
static HloStatus print_made(void *argument) {
    const TextCall *call = argument;
    const HloLayout *layout = NULL;
    HLO_TRY(pjrt_layout_make(call->arena, call->memory, call->shape, call->asked, &layout));
    pjrt_layout_print(call->text, hlo_shape_with_layout(call->arena, call->shape, layout));
    return hlo_text_status(call->text);
}

// Appends the layout that an array gets in a memory.
// "{}" for tokens, which have no dimensions to order.
static HloStatus print_layout_of(const TargetMemory *memory, const HloShape *shape, const PjrtMemoryLayout *asked,
                                 HloText *text) {
    if (!hlo_shape_is_array(shape)) {
        hlo_text_string(text, "{}");
        return hlo_text_status(text);
    }
    TextCall call = {hlo_arena_new(), memory, shape, asked, text};
    HLO_FAIL_IF(!call.arena, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = hlo_protect(print_made, &call);
    hlo_arena_free(call.arena);
    return status;
}

HloStatus pjrt_layout_default(const TargetMemory *memory, const HloShape *shape, HloText *text) {
    return print_layout_of(memory, shape, NULL, text);
}

// Compares as text, the form in which layouts leave the plugin. False when memory is short, which costs the caller a
// copy of the text and nothing else.
bool pjrt_layout_is_default(const TargetMemory *memory, const HloShape *shape, const char *layout) {
    HloText text = {0};
    HloStatus status = pjrt_layout_default(memory, shape, &text);
    const bool same = !status && strcmp(text.data, layout) == 0;
    hlo_status_free(status);
    hlo_text_free(&text);
    return same;
}

// The text stays empty for the default, so that most buffers carry none.
HloStatus pjrt_layout_choose(const TargetMemory *memory, const HloShape *shape, const PjrtMemoryLayout *asked,
                             HloText *text) {
    if (!asked || !hlo_shape_is_array(shape)) return HLO_SUCCESS;
    HloStatus status = print_layout_of(memory, shape, asked, text);
    if (status || pjrt_layout_is_default(memory, shape, text->data)) hlo_text_free(text);
    return status;
}

// ---- handles: their text is in the block or, for executables and buffers, elsewhere

struct PjrtLayout {
    const char *text;
};

// One block: the handle and its text.
static PjrtError *give_layout(const char *text, size_t size, PjrtLayout **out) {
    assert(text && out);
    PjrtLayout *layout = hlo_allocate(sizeof(*layout) + size + 1);
    if (!layout) return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    char *copy = (char *)(layout + 1);
    memcpy(copy, text, size);
    copy[size] = 0;
    layout->text = copy;
    *out = layout;
    return NULL;
}

// `out` owns the handle; the shape need not outlive the call.
static PjrtError *give_default(const TargetMemory *memory, const HloShape *shape, PjrtLayout **out) {
    HloText text = {0};
    HloStatus status = pjrt_layout_default(memory, shape, &text);
    PjrtError *error = status ? pjrt_error_from(status) : give_layout(text.data, text.length, out);
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

// In the memory where the machine's first device keeps its arrays: all its devices are alike.
static PjrtError *machine_default_layout(const TargetClient *client, PjrtDefaultLayoutArgs *args) {
    HloShape shape;
    PJRT_TRY(pjrt_shape_read(args->type, args->dims, args->num_dims, &shape));
    return give_default(target_device_default_memory(target_client_device(client, 0)), &shape, &args->layout);
}

static PjrtError *client_default_layout(void *arguments) {
    PjrtDefaultLayoutArgs *args = arguments;
    return machine_default_layout(((const PjrtClient *)args->owner)->client, args);
}

static PjrtError *topology_default_layout(void *arguments) {
    PjrtDefaultLayoutArgs *args = arguments;
    return machine_default_layout(((const PjrtTopology *)args->owner)->client, args);
}

// A new handle, which the caller destroys.
static PjrtError *buffer_layout(void *arguments) {
    PjrtBufferLayoutArgs *args = arguments;
    const char *text = args->buffer->layout;
    if (text) return give_layout(text, strlen(text), &args->layout);
    const TargetBuffer *buffer = args->buffer->buffer;
    return give_default(target_buffer_memory(buffer), target_buffer_shape(buffer), &args->layout);
}

// The list belongs to the executable. The list and its handles are one block, made at the first request under the
// executable's lock and freed with it: callers do not destroy these handles.
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

PjrtLayoutsExtension pjrt_layouts_extension = {
    .node = {.struct_size = sizeof(PjrtLayoutsExtension),
             .type = PJRT_EXTENSION_LAYOUTS,
             .next = &pjrt_memory_descriptions_extension.node},
    .destroy = layout_destroy,
    .serialize = layout_serialize,
    .client_default = client_default_layout,
    .buffer = buffer_layout,
    .topology_default = topology_default_layout,
    .outputs = output_layouts,
    .parameters = parameter_layouts,
};
