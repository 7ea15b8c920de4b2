// SPDX-License-Identifier: Apache-2.0
// Buffers as other things: views of the caller's memory, other types of the same bytes, other devices, layouts as
// lists.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/abi_transfer.h"
#include "pjrt/objects.h"

// ---- the caller's memory

typedef struct ViewOwner {
    void (*on_delete)(void *data, void *argument);
    void *argument;
} ViewOwner;

// Called once, on any thread, when no array uses the memory any more.
// The owner's record is freed before the callback runs, which may take long or come back here.
static void release_view(void *data, void *argument) {
    const ViewOwner owner = *(ViewOwner *)argument;
    hlo_free(argument);
    if (owner.on_delete) owner.on_delete(data, owner.argument);
}

// Device memory is this process's memory: any address is valid. `stream` has no meaning here, as all data is ready.
PjrtError *pjrt_client_create_view_of_device_buffer(void *arguments) {
    PjrtClientCreateViewOfDeviceBufferArgs *args = arguments;
    PJRT_CHECK_SIZE(args, buffer);
    PjrtMemory *memory;
    PjrtError *refused = pjrt_choose_memory(PJRT_HAS(args, memory) ? args->memory : NULL, args->device, &memory);
    if (refused) return refused;
    HloShape shape;
    PJRT_TRY(pjrt_array_read(args->element_type, args->dims, args->num_dims, &shape));
    PJRT_TRY(pjrt_layout_check_row_major(args->layout, args->num_dims, "views of memory"));
    ViewOwner *owner = hlo_allocate(sizeof(*owner));
    if (!owner) return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    *owner = (ViewOwner){args->on_delete_callback, args->on_delete_callback_arg};
    TargetBuffer *buffer;
    HloStatus status =
        target_buffer_view(&shape, memory->memory, args->device_buffer_ptr, release_view, owner, &buffer);
    if (status) {
        hlo_free(owner);
        return pjrt_error_from(status);
    }
    args->buffer = pjrt_buffer_from(args->client, buffer, NULL);
    return args->buffer ? NULL : pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

// All memory of this process is within the devices' reach: there is nothing to map.
PjrtError *pjrt_client_dma_map(void *arguments) {
    const PjrtClientDmaMapArgs *args = arguments;
    if (!args->data && args->size) return pjrt_fail(HLO_INVALID_ARGUMENT, "%zu bytes at address zero", args->size);
    return NULL;
}

PjrtError *pjrt_client_dma_unmap(void *arguments) {
    (void)arguments;
    return NULL;
}

// ---- other names for the same bytes

// Shares the bytes: neither array may be donated in place while the other lives.
PjrtError *pjrt_buffer_bitcast(void *arguments) {
    PjrtBufferBitcastArgs *args = arguments;
    PJRT_CHECK_SIZE(args, out_buffer);
    HloShape shape;
    PJRT_TRY(pjrt_array_read(args->element_type, args->dims, args->num_dims, &shape));
    HloText layout = {0};
    PJRT_TRY(pjrt_layout_choose(target_buffer_memory(args->buffer->buffer), &shape, args->device_layout, &layout));
    const bool plain = !layout.data && !args->buffer->layout;
    hlo_text_free(&layout);
    if (!plain) return pjrt_fail(HLO_UNIMPLEMENTED, "bitcasts between non-default layouts");
    TargetBuffer *cast;
    PJRT_TRY(target_buffer_bitcast(args->buffer->buffer, &shape, &cast));
    args->out_buffer = pjrt_buffer_from(args->buffer->client, cast, NULL);
    return args->out_buffer ? NULL : pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

// Copies to the device's default memory; newer clients name the memory (Buffer_CopyToMemory).
PjrtError *pjrt_buffer_copy_to_device(void *arguments) {
    PjrtBufferCopyToDeviceArgs *args = arguments;
    PJRT_CHECK_SIZE(args, dst_buffer);
    PjrtBufferCopyToMemoryArgs copy = {
        .struct_size = sizeof(copy), .buffer = args->buffer, .dst_memory = args->dst_device->memories[0]};
    PjrtError *error = pjrt_buffer_copy_to_memory(&copy);
    args->dst_buffer = error ? NULL : copy.dst_buffer;
    return error;
}

// ---- layouts as lists

typedef struct PjrtLayoutLists {
    int64_t order[PJRT_MOST_DIMS], tile_dims[PJRT_MOST_TILES * PJRT_MOST_DIMS];
    size_t order_count, tile_sizes[PJRT_MOST_TILES], tile_count;
} PjrtLayoutLists;

// Reads numbers up to a character that is neither digit nor comma, at most `room` of them; the rest of a longer list is
// not read, and ends the caller's loop.
static size_t read_numbers(const char **at, int64_t *numbers, size_t room) {
    assert(numbers && room > 0);
    size_t count = 0;
    while (count < room && **at >= '0' && **at <= '9') {
        char *end;
        numbers[count++] = strtoll(*at, &end, 10);
        *at = *end == ',' ? end + 1 : end;
    }
    return count;
}

// Reads what pjrt_layout_print() wrote: "{1,0:T(8,128)(2,1)}".
static void read_lists(const char *text, PjrtLayoutLists *lists) {
    assert(text && lists);
    const char *at = text + 1;
    lists->order_count = read_numbers(&at, lists->order, PJRT_MOST_DIMS);
    if (strncmp(at, ":T", 2) != 0) return;
    int64_t *next = lists->tile_dims;
    for (at += 2; *at == '(' && lists->tile_count < PJRT_MOST_TILES; at += *at == ')') {
        at++;
        const size_t count = read_numbers(&at, next, PJRT_MOST_DIMS);
        lists->tile_sizes[lists->tile_count++] = count;
        next += count;
    }
}

// Made at the first request and kept by the buffer. Several threads may make the lists concurrently; the first to store
// its list wins, and the others free theirs.
static PjrtLayoutLists *lists_of(PjrtBuffer *buffer) {
    PjrtLayoutLists *known = atomic_load(&buffer->lists), *fresh;
    if (known) return known;
    fresh = hlo_allocate_zeroed(1, sizeof(*fresh));
    if (!fresh) return NULL;
    HloText text = {0};
    HloStatus status = NULL;
    if (buffer->layout)
        hlo_text_string(&text, buffer->layout);
    else
        status = pjrt_layout_default(target_buffer_memory(buffer->buffer), target_buffer_shape(buffer->buffer), &text);
    if (!status) status = hlo_text_status(&text);
    if (!status) read_lists(text.data, fresh);
    hlo_text_free(&text);
    if (status) {  // memory is short: nothing else can happen to a buffer's own layout
        hlo_status_free(status);
        hlo_free(fresh);
        return NULL;
    }
    if (atomic_compare_exchange_strong(&buffer->lists, &known, fresh)) return fresh;
    hlo_free(fresh);
    return known;
}

PjrtError *pjrt_buffer_get_memory_layout(void *arguments) {
    PjrtBufferGetMemoryLayoutArgs *args = arguments;
    // The layout's own padding at the end is not the caller's.
    if (args->struct_size < offsetof(PjrtBufferGetMemoryLayoutArgs, layout.type) + sizeof(args->layout.type))
        return pjrt_fail(HLO_INVALID_ARGUMENT, "the argument struct has %zu bytes only", args->struct_size);
    const PjrtLayoutLists *lists = lists_of(args->buffer);
    if (!lists) return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    args->layout.type = PJRT_LAYOUT_TILED;
    args->layout.layout.tiled = (PjrtLayoutTiled){.struct_size = sizeof(PjrtLayoutTiled),
                                                  .minor_to_major = lists->order,
                                                  .minor_to_major_size = lists->order_count,
                                                  .tile_dims = lists->tile_dims,
                                                  .tile_dim_sizes = lists->tile_sizes,
                                                  .num_tiles = lists->tile_count};
    return NULL;
}
