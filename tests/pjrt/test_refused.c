// SPDX-License-Identifier: Apache-2.0
// Refusals of the plugin: every meaningless description of an array, in every function that takes one. A plugin lives
// in the user's process: it answers with a code and a message, and never with a crash.
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/abi_transfer.h"
#include "tests/pjrt/harness.h"

enum { kS32 = 4, kF32 = 11, kToken = 23, kInvalidArgument = 3, kUnimplemented = 12 };

static const int64_t two_by_three[] = {2, 3}, negative[] = {2, -3}, unbounded[] = {2, INT64_MIN},
                     immense[] = {INT64_C(1) << 40, INT64_C(1) << 40},
                     hidden[] = {0, INT64_C(1) << 40, INT64_C(1) << 40}, many[65] = {1};
static const int64_t forward[] = {0, 1}, backward[] = {1, 0}, twice[] = {1, 1}, beyond[] = {0, 7}, below[] = {-1, 0};
static const int64_t no_tile[] = {0}, tile[] = {8, 128};
static const size_t one_dim[] = {1}, no_dims[] = {0}, two_dims[] = {2}, nine_tiles[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

// How a caller describes an array.
typedef struct Description {
    int32_t type;
    const int64_t *dims;
    size_t num_dims;
    PjrtMemoryLayout *layout;
} Description;

static PjrtMemoryLayout tiled(const int64_t *order, size_t count, const int64_t *tiles, const size_t *sizes,
                              size_t tile_count) {
    PjrtMemoryLayout layout = {.struct_size = sizeof(layout), .type = PJRT_LAYOUT_TILED};
    layout.layout.tiled = (PjrtLayoutTiled){.struct_size = sizeof(PjrtLayoutTiled),
                                            .minor_to_major = order,
                                            .minor_to_major_size = count,
                                            .tile_dims = tiles,
                                            .tile_dim_sizes = sizes,
                                            .num_tiles = tile_count};
    return layout;
}

// ---- the functions that take a description

typedef struct Place {
    PjrtClient *client;
    PjrtDevice *device;
    PjrtMemory *memory;
    PjrtBuffer *buffer;  // f32[2,3]
    PjrtTopology *topology;
} Place;

typedef PjrtError *TakesArray(const Place *place, const Description *array);

static float numbers[6];

static PjrtError *from_host(const Place *place, const Description *array) {
    PjrtClientBufferFromHostBufferArgs args = {.struct_size = sizeof(args),
                                               .client = place->client,
                                               .data = numbers,
                                               .type = array->type,
                                               .dims = array->dims,
                                               .num_dims = array->num_dims,
                                               .memory = place->memory,
                                               .device_layout = array->layout};
    return CALL(Client_BufferFromHostBuffer, &args);
}

static PjrtError *uninitialised(const Place *place, const Description *array) {
    PjrtClientCreateUninitializedBufferArgs args = {.struct_size = sizeof(args),
                                                    .client = place->client,
                                                    .dims = array->dims,
                                                    .num_dims = array->num_dims,
                                                    .type = array->type,
                                                    .layout = array->layout,
                                                    .device = place->device};
    return CALL(Client_CreateUninitializedBuffer, &args);
}

static PjrtError *failed(const Place *place, const Description *array) {
    PjrtClientCreateErrorBufferArgs args = {.struct_size = sizeof(args),
                                            .client = place->client,
                                            .error_code = 13,
                                            .dims = array->dims,
                                            .num_dims = array->num_dims,
                                            .type = array->type,
                                            .layout = array->layout,
                                            .memory = place->memory};
    return CALL(Client_CreateErrorBuffer, &args);
}

static PjrtError *alias(const Place *place, const Description *array) {
    PjrtClientCreateAliasBufferArgs args = {.struct_size = sizeof(args),
                                            .client = place->client,
                                            .memory = place->memory,
                                            .dims = array->dims,
                                            .num_dims = array->num_dims,
                                            .type = array->type,
                                            .layout = array->layout};
    return CALL(Client_CreateAliasBuffer, &args);
}

static PjrtError *view(const Place *place, const Description *array) {
    PjrtClientCreateViewOfDeviceBufferArgs args = {.struct_size = sizeof(args),
                                                   .client = place->client,
                                                   .device_buffer_ptr = numbers,
                                                   .dims = array->dims,
                                                   .num_dims = array->num_dims,
                                                   .element_type = array->type,
                                                   .layout = array->layout,
                                                   .device = place->device};
    return CALL(Client_CreateViewOfDeviceBuffer, &args);
}

static PjrtError *bitcast(const Place *place, const Description *array) {
    PjrtBufferBitcastArgs args = {.struct_size = sizeof(args),
                                  .buffer = place->buffer,
                                  .element_type = array->type,
                                  .dims = array->dims,
                                  .num_dims = array->num_dims,
                                  .device_layout = array->layout};
    return CALL(Buffer_Bitcast, &args);
}

static PjrtError *in_pieces(const Place *place, const Description *array) {
    PjrtShapeSpec spec = {
        .struct_size = sizeof(spec), .dims = array->dims, .num_dims = array->num_dims, .element_type = array->type};
    PjrtMemoryLayout *layouts[] = {array->layout};
    PjrtClientCreateBuffersForAsyncHostToDeviceArgs args = {.struct_size = sizeof(args),
                                                            .client = place->client,
                                                            .specs = &spec,
                                                            .num_specs = 1,
                                                            .layouts = layouts,
                                                            .num_layouts = array->layout ? 1 : 0,
                                                            .memory = place->memory};
    return CALL(Client_CreateBuffersForAsyncHostToDevice, &args);
}

static PjrtError *as_literal(const Place *place, const Description *array) {
    PjrtShapeSpec spec = {.struct_size = sizeof(spec), .dims = two_by_three, .num_dims = 2, .element_type = kF32};
    PjrtClientCreateBuffersForAsyncHostToDeviceArgs open = {
        .struct_size = sizeof(open), .client = place->client, .specs = &spec, .num_specs = 1, .memory = place->memory};
    harness_must(CALL(Client_CreateBuffersForAsyncHostToDevice, &open), "open");
    PjrtTransferManagerTransferLiteralArgs args = {.struct_size = sizeof(args),
                                                   .manager = open.manager,
                                                   .data = numbers,
                                                   .dims = array->dims,
                                                   .num_dims = array->num_dims,
                                                   .type = array->type,
                                                   .layout = array->layout};
    PjrtError *error = CALL(AsyncHostToDeviceTransferManager_TransferLiteral, &args);
    PjrtTransferManagerArgs destroy = {.struct_size = sizeof(destroy), .manager = open.manager};
    harness_must(CALL(AsyncHostToDeviceTransferManager_Destroy, &destroy), "close");
    return error;
}

static PjrtError *canonical(const Place *place, const Description *array) {
    PjrtCanonicalShapeArgs args = {.struct_size = sizeof(args),
                                   .topology = place->topology,
                                   .dims = array->dims,
                                   .num_dims = array->num_dims,
                                   .type = array->type,
                                   .layout = array->layout};
    return CALL(TopologyDescription_MakeCanonicalShapeForMemorySpace, &args);
}

static const struct {
    const char *name;
    TakesArray *take;
    bool takes_tokens;
} doors[] = {{"BufferFromHostBuffer", from_host, true},
             {"CreateUninitializedBuffer", uninitialised, true},
             {"CreateErrorBuffer", failed, true},
             {"CreateAliasBuffer", alias, true},
             {"CreateViewOfDeviceBuffer", view, false},
             {"Bitcast", bitcast, false},
             {"CreateBuffersForAsyncHostToDevice", in_pieces, false},
             {"TransferLiteral", as_literal, false},
             {"MakeCanonicalShape", canonical, false}};

static Place open_place(void) {
    Place place = {.client = harness_client("v2-8")};
    PjrtClientDevicesArgs devices = {.struct_size = sizeof(devices), .client = place.client};
    harness_must(CALL(Client_Devices, &devices), "Client_Devices");
    place.device = devices.devices[2];
    PjrtDeviceDefaultMemoryArgs memory = {.struct_size = sizeof(memory), .device = place.device};
    harness_must(CALL(Device_DefaultMemory, &memory), "DefaultMemory");
    place.memory = memory.memory;
    place.buffer = harness_numbers(place.client, 2, 2, 3, 0);
    PjrtClientTopologyDescriptionArgs topology = {.struct_size = sizeof(topology), .client = place.client};
    harness_must(CALL(Client_TopologyDescription, &topology), "TopologyDescription");
    place.topology = topology.topology;
    return place;
}

static void close_place(const Place *place) {
    harness_destroy_buffer(place->buffer);
    harness_destroy_client(place->client);
}

Test(pjrt_refused, meaningless_arrays_at_every_entry_point) {
    PjrtMemoryLayout strides = {.struct_size = sizeof(strides), .type = PJRT_LAYOUT_STRIDES},
                     short_order = tiled(backward, 1, NULL, NULL, 0), order_twice = tiled(twice, 2, NULL, NULL, 0),
                     order_beyond = tiled(beyond, 2, NULL, NULL, 0), order_below = tiled(below, 2, NULL, NULL, 0),
                     empty_tile = tiled(backward, 2, no_tile, one_dim, 1),
                     dimless_tile = tiled(backward, 2, tile, no_dims, 1),
                     too_many_tiles = tiled(backward, 2, tile, nine_tiles, 9);
    const struct {
        const char *what;
        Description array;
        int code;
        const char *says;
    } cases[] = {
        {"no type", {0, two_by_three, 2, NULL}, kUnimplemented, "buffer type 0 is unknown"},
        {"a type of the future", {999, two_by_three, 2, NULL}, kUnimplemented, "buffer type 999 is unknown"},
        {"a negative type", {-1, two_by_three, 2, NULL}, kUnimplemented, "buffer type -1 is unknown"},
        {"65 dimensions", {kF32, many, 65, NULL}, kInvalidArgument, "an array of rank 65"},
        {"a rank beyond 31 bits", {kF32, many, (size_t)1 << 31, NULL}, kInvalidArgument, "an array of rank 2147483648"},
        {"a rank beyond 32 bits",
         {kF32, many, ((size_t)1 << 32) + 2, NULL},
         kInvalidArgument,
         "an array of rank 42949"},
        {"no sizes", {kF32, NULL, 2, NULL}, kInvalidArgument, "2 dimensions at address zero"},
        {"a negative size", {kF32, negative, 2, NULL}, kInvalidArgument, "dimension 1 has negative size -3"},
        {"an unbounded size", {kF32, unbounded, 2, NULL}, kInvalidArgument, "dimension 1 has no size"},
        {"too many bytes", {kF32, immense, 2, NULL}, kInvalidArgument, "does not fit in 62 bits"},
        {"too many bytes after a zero", {kF32, hidden, 3, NULL}, kInvalidArgument, "does not fit in 62 bits"},
        {"strides", {kF32, two_by_three, 2, &strides}, kUnimplemented, "strides"},
        {"an order of too few",
         {kF32, two_by_three, 2, &short_order},
         kInvalidArgument,
         "1 dimensions for an array of"},
        {"an order with one twice",
         {kF32, two_by_three, 2, &order_twice},
         kInvalidArgument,
         "not a permutation of the dimensions"},
        {"an order beyond the rank",
         {kF32, two_by_three, 2, &order_beyond},
         kInvalidArgument,
         "not a permutation of the dimensions"},
        {"an order below zero",
         {kF32, two_by_three, 2, &order_below},
         kInvalidArgument,
         "not a permutation of the dimensions"},
        {"a tile of size zero", {kF32, two_by_three, 2, &empty_tile}, kInvalidArgument, "tile 0 of a layout"},
        {"a tile of no dimensions", {kF32, two_by_three, 2, &dimless_tile}, kInvalidArgument, "tile 0 of a layout"},
        {"nine tiles", {kF32, two_by_three, 2, &too_many_tiles}, kInvalidArgument, "a layout of 9 tiles"},
    };
    const Place place = open_place();
    for (size_t d = 0; d < sizeof(doors) / sizeof(doors[0]); d++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            PjrtError *error = doors[d].take(&place, &cases[i].array);
            cr_assert(error, "%s takes %s", doors[d].name, cases[i].what);
            harness_refused(error, cases[i].code, cases[i].says);
        }
        const Description token = {kToken, NULL, 0, NULL};
        if (!doors[d].takes_tokens)
            harness_refused(doors[d].take(&place, &token), kUnimplemented, "an array of type token");
    }
    close_place(&place);
}

// Bytes that a caller describes are row-major where the plugin does not lay them out itself.
Test(pjrt_refused, layouts_that_only_some_entry_points_take) {
    PjrtMemoryLayout other = tiled(forward, 2, NULL, NULL, 0), with_tile = tiled(backward, 2, tile, two_dims, 1);
    const Description column_major = {kF32, two_by_three, 2, &other}, tiles = {kF32, two_by_three, 2, &with_tile};
    const Place place = open_place();
    harness_refused(view(&place, &column_major), kUnimplemented, "views of memory in an order other than row-major");
    harness_refused(view(&place, &tiles), kUnimplemented, "views of memory in an order other than row-major");
    harness_refused(as_literal(&place, &column_major), kUnimplemented, "literals in an order other than row-major");
    harness_refused(bitcast(&place, &column_major), kUnimplemented, "bitcasts between non-default layouts");
    close_place(&place);
}

Test(pjrt_refused, host_arrays_and_memories_that_do_not_fit) {
    const Place place = open_place();
    PjrtClientBufferFromHostBufferArgs put = {.struct_size = sizeof(put),
                                              .client = place.client,
                                              .data = numbers,
                                              .type = kF32,
                                              .dims = two_by_three,
                                              .num_dims = 2};
    harness_refused(CALL(Client_BufferFromHostBuffer, &put), kInvalidArgument, "neither a memory nor a device");
    put.memory = place.memory;
    put.byte_strides = two_by_three;
    put.num_byte_strides = 1;
    harness_refused(CALL(Client_BufferFromHostBuffer, &put), kInvalidArgument, "1 byte strides for an array of rank 2");
    put.num_byte_strides = 0;
    put.type = kToken;
    harness_refused(CALL(Client_BufferFromHostBuffer, &put), kInvalidArgument, "a token of rank 2");
    Place nowhere = place;
    nowhere.memory = NULL;
    nowhere.device = NULL;
    const Description array = {kF32, two_by_three, 2, NULL};
    TakesArray *const placed[] = {uninitialised, failed, alias, view, in_pieces};
    for (size_t i = 0; i < sizeof(placed) / sizeof(placed[0]); i++)
        harness_refused(placed[i](&nowhere, &array), kInvalidArgument, "neither a memory nor a device was named");
    PjrtMemoryLayout *layouts[2] = {NULL, NULL};
    PjrtShapeSpec spec = {.struct_size = sizeof(spec), .dims = two_by_three, .num_dims = 2, .element_type = kF32};
    PjrtClientCreateBuffersForAsyncHostToDeviceArgs open = {.struct_size = sizeof(open),
                                                            .client = place.client,
                                                            .specs = &spec,
                                                            .num_specs = 1,
                                                            .layouts = layouts,
                                                            .num_layouts = 2,
                                                            .memory = place.memory};
    harness_refused(CALL(Client_CreateBuffersForAsyncHostToDevice, &open), kInvalidArgument, "2 layouts for 1 arrays");
    close_place(&place);
}

// ---- reading

Test(pjrt_refused, destinations_that_do_not_fit) {
    const Place place = open_place();
    float out[6];
    PjrtMemoryLayout strides = {.struct_size = sizeof(strides), .type = PJRT_LAYOUT_STRIDES},
                     short_order = tiled(backward, 1, NULL, NULL, 0), order_beyond = tiled(beyond, 2, NULL, NULL, 0),
                     with_tile = tiled(backward, 2, tile, two_dims, 1), order_twice = tiled(twice, 2, NULL, NULL, 0);
    const struct {
        PjrtMemoryLayout *layout;
        size_t size;
        int code;
        const char *says;
    } cases[] = {{NULL, 23, kInvalidArgument, "an array of 24 bytes does not fit in 23"},
                 {&strides, 24, kUnimplemented, "host arrays with tiles or strides"},
                 {&with_tile, 24, kUnimplemented, "host arrays with tiles or strides"},
                 {&short_order, 24, kInvalidArgument, "a layout of 1 dimensions for an array of rank 2"},
                 {&order_beyond, 24, kInvalidArgument, "not a permutation of the dimensions"},
                 {&order_twice, 24, kInvalidArgument, "not a permutation of the dimensions"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        PjrtBufferToHostBufferArgs args = {.struct_size = sizeof(args),
                                           .src = place.buffer,
                                           .host_layout = cases[i].layout,
                                           .dst = out,
                                           .dst_size = cases[i].size};
        harness_refused(CALL(Buffer_ToHostBuffer, &args), cases[i].code, cases[i].says);
    }
    const struct {
        int64_t offset;
        size_t size;
    } raw[] = {{-1, 4}, {0, 25}, {24, 1}, {25, 0}, {4, SIZE_MAX}, {INT64_MAX, 8}};
    for (size_t i = 0; i < sizeof(raw) / sizeof(raw[0]); i++) {
        PjrtBufferCopyRawToHostArgs args = {.struct_size = sizeof(args),
                                            .buffer = place.buffer,
                                            .dst = out,
                                            .offset = raw[i].offset,
                                            .transfer_size = raw[i].size};
        harness_refused(CALL(Buffer_CopyRawToHost, &args), kInvalidArgument, "of a buffer of 24");
    }
    close_place(&place);
}

// ---- devices by number

Test(pjrt_refused, devices_that_are_not_there) {
    const Place place = open_place();
    static const int32_t ids[] = {-1, 8, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        PjrtClientLookupDeviceArgs by_id = {.struct_size = sizeof(by_id), .client = place.client, .id = ids[i]};
        harness_refused(CALL(Client_LookupDevice, &by_id), kInvalidArgument, "there is no device with id");
        PjrtClientLookupAddressableDeviceArgs by_number = {
            .struct_size = sizeof(by_number), .client = place.client, .local_hardware_id = ids[i]};
        harness_refused(CALL(Client_LookupAddressableDevice, &by_number), kInvalidArgument,
                        "there is no device with local hardware id");
    }
    static const struct {
        int32_t replicas, partitions;
        size_t room;
        const char *says;
    } counts[] = {{9, 1, 16, "need more than the available 8 devices"},
                  {3, 3, 16, "need more than the available 8 devices"},
                  {0, 1, 16, "0 replicas of 1 partitions"},
                  {1, -1, 16, "1 replicas of -1 partitions"},
                  {INT32_MAX, INT32_MAX, 16, "need more than"},
                  {2, 4, 7, "there is room for 7 of 8 device ids"}};
    int32_t assignment[16];
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        PjrtClientDefaultDeviceAssignmentArgs args = {.struct_size = sizeof(args),
                                                      .client = place.client,
                                                      .num_replicas = counts[i].replicas,
                                                      .num_partitions = counts[i].partitions,
                                                      .default_assignment_size = counts[i].room,
                                                      .default_assignment = assignment};
        harness_refused(CALL(Client_DefaultDeviceAssignment, &args), kInvalidArgument, counts[i].says);
    }
    PjrtClientDmaMapArgs map = {.struct_size = sizeof(map), .client = place.client, .size = 8};
    harness_refused(CALL(Client_DmaMap, &map), kInvalidArgument, "8 bytes at address zero");
    close_place(&place);
}

// ---- events

// Whatever number the caller gives for its error, a waiter of the event gets one of PJRT's codes.
Test(pjrt_refused, errors_of_the_caller_have_codes_of_absl) {
    static const struct { int32_t given, want; } cases[] = {{5, 5}, {16, 16}, {17, 2}, {-3, 2}, {1 << 20, 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        PjrtEventCreateArgs create = {.struct_size = sizeof(create)};
        harness_must(CALL(Event_Create, &create), "Event_Create");
        PjrtEventSetArgs set = {.struct_size = sizeof(set),
                                .event = create.object,
                                .error_code = cases[i].given,
                                .error_message = "it went wrong, and more",
                                .error_message_size = 13};
        harness_must(CALL(Event_Set, &set), "Event_Set");
        harness_must(CALL(Event_Set, &set), "a second time: the first counts");
        PjrtEventAwaitArgs wait = {.struct_size = sizeof(wait), .object = create.object};
        harness_refused(CALL(Event_Await, &wait), cases[i].want, "it went wrong");
        PjrtEventErrorArgs error = {.struct_size = sizeof(error), .object = create.object};
        harness_refused(CALL(Event_Error, &error), cases[i].want, "it went wrong");
        harness_destroy_event(create.object);
    }
}

// ---- clients from before a field was added

// The struct of a launch ends where the caller says: the bytes that follow are the caller's.
Test(pjrt_refused, bug_a_launch_whose_struct_names_no_device) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(
        client, "HloModule m\nENTRY e {\n  p = f32[2,2] parameter(0)\n  ROOT r = f32[2,2] negate(p)\n}\n");
    PjrtBuffer *argument = harness_numbers(client, 0, 2, 2, 5), *result = NULL;
    PjrtBuffer *const arguments[] = {argument};
    PjrtBuffer *const *const argument_lists[] = {arguments};
    PjrtBuffer **const result_lists[] = {&result};
    PjrtLoadedExecutableExecuteArgs args = {.struct_size = offsetof(PjrtLoadedExecutableExecuteArgs, execute_device),
                                            .executable = executable,
                                            .argument_lists = argument_lists,
                                            .num_devices = 1,
                                            .num_args = 1,
                                            .output_lists = result_lists,
                                            .execute_device = (PjrtDevice *)(uintptr_t)64};
    harness_must(CALL(LoadedExecutable_Execute, &args), "Execute");
    float read[4];
    harness_read(result, read, 4);
    cr_expect_eq(read[0], -5);
    harness_destroy_buffer(result);
    harness_destroy_buffer(argument);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

// Handles that were never made may be destroyed, as free() takes NULL.
Test(pjrt_refused, bug_nothing_may_be_destroyed) {
    PjrtExecutableDestroyArgs executable = {.struct_size = sizeof(executable)};
    harness_must(CALL(Executable_Destroy, &executable), "Executable_Destroy");
    PjrtLoadedExecutableDestroyArgs loaded = {.struct_size = sizeof(loaded)};
    harness_must(CALL(LoadedExecutable_Destroy, &loaded), "LoadedExecutable_Destroy");
    PjrtBufferDestroyArgs buffer = {.struct_size = sizeof(buffer)};
    harness_must(CALL(Buffer_Destroy, &buffer), "Buffer_Destroy");
    PjrtEventDestroyArgs event = {.struct_size = sizeof(event)};
    harness_must(CALL(Event_Destroy, &event), "Event_Destroy");
    PjrtClientDestroyArgs client = {.struct_size = sizeof(client)};
    harness_must(CALL(Client_Destroy, &client), "Client_Destroy");
}
