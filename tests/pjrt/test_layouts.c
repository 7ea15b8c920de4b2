// SPDX-License-Identifier: Apache-2.0
// Layouts and memories through the C API: the order and the tiles of arrays are those of a real slice.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "hlo/text/text.h"
#include "pjrt/extensions.h"
#include "tests/pjrt/harness.h"
#include "tests/support/cases.h"

static void expect_layout(PjrtLayoutsExtension *layouts, PjrtLayout *layout, const char *want) {
    PjrtLayoutSerializeArgs text = {.struct_size = sizeof(text), .layout = layout};
    harness_must(layouts->serialize(&text), "Serialize");
    cr_expect_eq(text.serialized_bytes_size, strlen(want));
    cr_expect_eq(memcmp(text.serialized_bytes, want, strlen(want)), 0, "%.*s", (int)text.serialized_bytes_size,
                 text.serialized_bytes);
    text.serialized_layout_deleter(text.serialized_layout);
}

// The layouts of the first argument and of the first result.
static void expect_first_layouts(PjrtExecutable *executable, char want[2][24]) {
    PjrtLayoutsExtension *layouts = (PjrtLayoutsExtension *)(void *)harness_extension(PJRT_EXTENSION_LAYOUTS);
    PjrtExecutableLayoutsArgs list = {.struct_size = sizeof(list), .executable = executable};
    harness_must(layouts->parameters(&list), "GetParameterLayouts");
    expect_layout(layouts, list.layouts[0], want[0]);
    harness_must(layouts->outputs(&list), "GetOutputLayouts");
    expect_layout(layouts, list.layouts[0], want[1]);
}

static void expect_buffer_layout(PjrtLayoutsExtension *layouts, PjrtBuffer *buffer, const char *want) {
    PjrtBufferLayoutArgs of = {.struct_size = sizeof(of), .buffer = buffer};
    harness_must(layouts->buffer(&of), "Buffer_MemoryLayout");
    expect_layout(layouts, of.layout, want);
    PjrtLayoutDestroyArgs destroy = {.struct_size = sizeof(destroy), .layout = of.layout};
    harness_must(layouts->destroy(&destroy), "Destroy");
}

static PjrtMemory *memory_of(PjrtClient *client, int device, const char *kind) {
    PjrtDeviceAddressableMemoriesArgs list = {.struct_size = sizeof(list), .device = harness_device(client, device)};
    harness_must(CALL(Device_AddressableMemories, &list), "AddressableMemories");
    for (size_t i = 0; i < list.num_memories; i++) {
        PjrtMemoryKindArgs of = {.struct_size = sizeof(of), .memory = list.memories[i]};
        harness_must(CALL(Memory_Kind, &of), "Kind");
        if (of.kind_size == strlen(kind) && memcmp(of.kind, kind, of.kind_size) == 0) return list.memories[i];
    }
    cr_assert_fail("no memory %s", kind);
    return NULL;
}

// A buffer carries the layout that its maker asked for; unpinned host memory forgets it. The numbers do not move.
Test(pjrt_layouts, buffers_carry_layouts) {
    PjrtLayoutsExtension *layouts = (PjrtLayoutsExtension *)(void *)harness_extension(PJRT_EXTENSION_LAYOUTS);
    PjrtClient *client = harness_client("v2-8");
    const float data[6] = {0, 1, 2, 3, 4, 5};
    const int64_t dims[2] = {2, 3}, order[2] = {0, 1}, tile[2] = {8, 128};
    const size_t tile_sizes[1] = {2};
    PjrtMemoryLayout layout = {.type = PJRT_LAYOUT_TILED};
    layout.layout.tiled = (PjrtLayoutTiled){.minor_to_major = order,
                                            .minor_to_major_size = 2,
                                            .tile_dims = tile,
                                            .tile_dim_sizes = tile_sizes,
                                            .num_tiles = 1};
    PjrtClientBufferFromHostBufferArgs put = {.struct_size = sizeof(put),
                                              .client = client,
                                              .data = data,
                                              .type = 11,
                                              .dims = dims,
                                              .num_dims = 2,
                                              .memory = memory_of(client, 1, "device"),
                                              .device_layout = &layout};
    harness_must(CALL(Client_BufferFromHostBuffer, &put), "BufferFromHostBuffer");
    harness_destroy_event(put.done_with_host_buffer);
    expect_buffer_layout(layouts, put.buffer, "{0,1:T(8,128)}");
    float out[6];
    harness_read(put.buffer, out, 6);
    cr_expect_eq(memcmp(out, data, sizeof(data)), 0);
    static const char *const kinds[] = {"pinned_host", "unpinned_host"}, *const want[] = {"{0,1:T(8,128)}", "{1,0}"};
    for (int i = 0; i < 2; i++) {
        PjrtBufferCopyToMemoryArgs copy = {
            .struct_size = sizeof(copy), .buffer = put.buffer, .dst_memory = memory_of(client, 1, kinds[i])};
        harness_must(CALL(Buffer_CopyToMemory, &copy), "CopyToMemory");
        expect_buffer_layout(layouts, copy.dst_buffer, want[i]);
        harness_destroy_buffer(copy.dst_buffer);
    }
    layout.layout.tiled.minor_to_major_size = 1;
    harness_refused(CALL(Client_BufferFromHostBuffer, &put), 3, "rank");
    layout.layout.tiled.minor_to_major_size = 2;
    layout.layout.tiled.minor_to_major = (const int64_t[]){1, 1};
    harness_refused(CALL(Client_BufferFromHostBuffer, &put), 3, "not a permutation");
    layout.layout.tiled.minor_to_major = order;
    put.memory = memory_of(client, 1, "unpinned_host");
    harness_refused(CALL(Client_BufferFromHostBuffer, &put), 12, "row-major arrays only");
    layout.layout.tiled.num_tiles = 0;  // columns first are no rows either
    harness_refused(CALL(Client_BufferFromHostBuffer, &put), 12, "row-major arrays only");
    harness_destroy_buffer(put.buffer);
    PjrtBuffer *plain = harness_numbers(client, 0, 2, 3, 0);
    expect_buffer_layout(layouts, plain, "{1,0:T(2,128)}");
    harness_destroy_buffer(plain);
    harness_destroy_client(client);
}

// Results are made, and described, in the entry layouts.
Test(pjrt_layouts, programs_say_layouts_and_memories) {
    static const char program[] =
        "HloModule m, entry_computation_layout={(f32[2,3]{1,0:S(5)})->(f32[2,3]{0,1}, f32[2,3]{1,0:S(5)})}\n"
        "ENTRY e {\n p = f32[2,3] parameter(0)\n a = f32[2,3] add(p, p)\n ROOT t = (f32[2,3], f32[2,3]) tuple(a, "
        "p)\n}\n";
    PjrtLayoutsExtension *layouts = (PjrtLayoutsExtension *)(void *)harness_extension(PJRT_EXTENSION_LAYOUTS);
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *loaded = harness_compile_text(client, program);
    PjrtLoadedExecutableGetExecutableArgs get = {.struct_size = sizeof(get), .loaded_executable = loaded};
    harness_must(CALL(LoadedExecutable_GetExecutable, &get), "GetExecutable");
    PjrtExecutableLayoutsArgs outputs = {.struct_size = sizeof(outputs), .executable = get.executable};
    harness_must(layouts->outputs(&outputs), "GetOutputLayouts");
    cr_assert_eq(outputs.count, 2);
    expect_layout(layouts, outputs.layouts[0], "{0,1}");
    expect_layout(layouts, outputs.layouts[1], "{1,0}");
    PjrtExecutableLayoutsArgs parameters = {.struct_size = sizeof(parameters), .executable = get.executable};
    harness_must(layouts->parameters(&parameters), "GetParameterLayouts");
    cr_assert_eq(parameters.count, 1);
    expect_layout(layouts, parameters.layouts[0], "{1,0}");
    PjrtExecutableOutputMemoryKindsArgs kinds = {.struct_size = sizeof(kinds), .executable = get.executable};
    harness_must(CALL(Executable_OutputMemoryKinds, &kinds), "OutputMemoryKinds");
    cr_assert_eq(kinds.num_outputs, 2);
    cr_expect_str_eq(kinds.memory_kinds[0], "device");
    cr_expect_str_eq(kinds.memory_kinds[1], "pinned_host");
    PjrtExecutableGetCompiledMemoryStatsArgs stats = {.struct_size = sizeof(stats), .executable = get.executable};
    harness_must(CALL(Executable_GetCompiledMemoryStats, &stats), "GetCompiledMemoryStats");
    cr_expect_eq(stats.argument_size_in_bytes, 0);
    cr_expect_eq(stats.host_argument_size_in_bytes, 24);
    cr_expect_eq(stats.output_size_in_bytes, 4 * 128 * 4 + 1024);  // f32[2,3]{0,1:T(4,128)}, table
    cr_expect_eq(stats.host_output_size_in_bytes, 24);
    PjrtExecutableDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = get.executable};
    harness_must(CALL(Executable_Destroy, &destroy), "Executable_Destroy");
    harness_destroy_executable(loaded);
    harness_destroy_client(client);
}

#define UNPINNED(order)                                                                         \
    "func.func public @main(%a: tensor<2x3xf32> {mhlo.layout_mode = \"" order                   \
    "\", mhlo.memory_kind = "                                                                   \
    "\"unpinned_host\"}) -> tensor<2x3xf32> {\n  %0 = stablehlo.add %a, %a : tensor<2x3xf32>\n" \
    "  return %0 : tensor<2x3xf32>\n}\n"

// Arrays in host memory have one order.
Test(pjrt_layouts, orders_in_unpinned_host_memory) {
    PjrtClient *client = harness_client("v2-8");
    PjrtError *error;
    PjrtLoadedExecutable *loaded = harness_compile(client, UNPINNED("{1,0}"), sizeof(UNPINNED("{1,0}")) - 1, 1, &error);
    harness_must(error, "compile");
    harness_compile(client, UNPINNED("{0,1}"), sizeof(UNPINNED("{0,1}")) - 1, 1, &error);
    harness_refused(error, 3, "an argument or result in unpinned_host memory has a layout that is not row-major");
    harness_destroy_executable(loaded);
    harness_destroy_client(client);
}

// ---- default layouts: from modules that libtpu 0.0.42 compiled for v2, as tests/emulator/test_layout.c has them

typedef struct DefaultCase {
    char topology[8];
    int type;  // PJRT_Buffer_Type
    int64_t dims[3];
    size_t rank;
    char layout[32];
} DefaultCase;

CaseList(pjrt_layouts, default_layouts) {
    static DefaultCase cases[] = {
        {"v2-8", 11, {8192, 8192}, 2, "{1,0:T(8,128)}"},
        {"v2-8", 11, {8192, 10}, 2, "{0,1:T(8,128)}"},
        {"v2-8", 11, {2048, 784}, 2, "{0,1:T(8,128)}"},
        {"v2-8", 11, {8192}, 1, "{0:T(1024)}"},
        {"v2-8", 11, {10}, 1, "{0:T(256)}"},
        {"v2-8", 11, {0}, 0, "{:T(256)}"},
        {"v2-8", 13, {1024, 8192}, 2, "{1,0:T(8,128)(2,1)}"},
        {"v5e-8", 11, {4, 128}, 2, "{1,0:T(4,128)}"},
        {"v5e-8", 6, {256, 256}, 2, "{1,0:T(8,128)(4,1)}"},
        {"v5e-8", 21, {16, 256}, 2, "{1,0:T(8,128)(8,1)E(4)}"},
        {"cpu:2", 11, {8192, 10}, 2, "{1,0}"},
        {"v2-8", 23, {0}, 0, "{}"},
    };
    return cr_make_param_array(DefaultCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(DefaultCase *param, pjrt_layouts, default_layouts) {
    PjrtLayoutsExtension *layouts = (PjrtLayoutsExtension *)(void *)harness_extension(PJRT_EXTENSION_LAYOUTS);
    PjrtClient *client = harness_client(param->topology);
    PjrtDefaultLayoutArgs of = {
        .struct_size = sizeof(of), .owner = client, .type = param->type, .dims = param->dims, .num_dims = param->rank};
    harness_must(layouts->client_default(&of), "Client_GetDefaultLayout");
    expect_layout(layouts, of.layout, param->layout);
    PjrtLayoutDestroyArgs destroy = {.struct_size = sizeof(destroy), .layout = of.layout};
    harness_must(layouts->destroy(&destroy), "Destroy");
    // A topology without devices says the same.
    PjrtClientTopologyDescriptionArgs topology = {.struct_size = sizeof(topology), .client = client};
    harness_must(CALL(Client_TopologyDescription, &topology), "TopologyDescription");
    of.owner = topology.topology;
    harness_must(layouts->topology_default(&of), "Topology_GetDefaultLayout");
    expect_layout(layouts, of.layout, param->layout);
    destroy.layout = of.layout;
    harness_must(layouts->destroy(&destroy), "Destroy");
    harness_destroy_client(client);
}

Test(pjrt_layouts, default_layouts_of_nothing_are_refused) {
    PjrtLayoutsExtension *layouts = (PjrtLayoutsExtension *)(void *)harness_extension(PJRT_EXTENSION_LAYOUTS);
    PjrtClient *client = harness_client("v2-8");
    const int64_t dims[2] = {-3, 2};
    PjrtDefaultLayoutArgs of = {.struct_size = sizeof(of), .owner = client, .type = 999, .dims = dims, .num_dims = 2};
    harness_refused(layouts->client_default(&of), 12, "999");
    of.type = 11;
    harness_refused(layouts->client_default(&of), 3, "-3");
    of.num_dims = 65;
    harness_refused(layouts->client_default(&of), 3, "65");
    const int64_t endless[1] = {INT64_MIN};  // the mark of a dimension without a bound, which no layout can tile
    of.dims = endless;
    of.num_dims = 1;
    harness_refused(layouts->client_default(&of), 3, "has no size");
    harness_destroy_client(client);
}

// ---- what programs leave open: mhlo.layout_mode of arguments and results

typedef struct ModeCase {
    char argument[24], result[24];  // layout modes, "" for none
    char want[2][24];               // layouts of argument and result
} ModeCase;

CaseList(pjrt_layouts, layouts_that_programs_leave_open) {
    static ModeCase cases[] = {
        {"", "", {"{0,1:T(8,128)}", "{1,0:T(8,128)}"}},
        {"default", "auto", {"{0,1:T(8,128)}", "{1,0:T(8,128)}"}},
        {"auto", "auto", {"{1,0:T(8,128)}", "{0,1:T(8,128)}"}},
        {"{1,0}", "auto", {"{1,0:T(8,128)}", "{0,1:T(8,128)}"}},
        {"{1,0}", "default", {"{1,0:T(8,128)}", "{1,0:T(8,128)}"}},
        {"{0,1:T(4,128)}", "{0,1}", {"{0,1:T(4,128)}", "{0,1:T(8,128)}"}},
    };
    return cr_make_param_array(ModeCase, cases, sizeof(cases) / sizeof(cases[0]));
}

static void print_mode(char *out, size_t size, const char *mode) {
    if (*mode)
        snprintf(out, size, "{mhlo.layout_mode = \"%s\"}", mode);
    else
        *out = 0;
}

// f32[1024,10] pads least with its long dimension minor, its transpose row by row.
CaseTest(ModeCase *param, pjrt_layouts, layouts_that_programs_leave_open) {
    char text[1024], argument[64], result[64];
    print_mode(argument, sizeof(argument), param->argument);
    print_mode(result, sizeof(result), param->result);
    snprintf(text, sizeof(text),
             "module @m {\n  func.func public @main(%%arg0: tensor<1024x10xf32> %s) -> (tensor<10x1024xf32> %s) {\n"
             "    %%0 = stablehlo.transpose %%arg0, dims = [1, 0] : (tensor<1024x10xf32>) -> tensor<10x1024xf32>\n"
             "    return %%0 : tensor<10x1024xf32>\n  }\n}\n",
             argument, result);
    PjrtClient *client = harness_client("v2-8");
    PjrtError *error;
    PjrtLoadedExecutable *loaded = harness_compile(client, text, strlen(text), 1, &error);
    harness_must(error, "compile");
    PjrtLoadedExecutableGetExecutableArgs get = {.struct_size = sizeof(get), .loaded_executable = loaded};
    harness_must(CALL(LoadedExecutable_GetExecutable, &get), "GetExecutable");
    expect_first_layouts(get.executable, param->want);
    PjrtExecutableDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = get.executable};
    harness_must(CALL(Executable_Destroy, &destroy), "Executable_Destroy");
    harness_destroy_executable(loaded);
    harness_destroy_client(client);
}

// ---- what compile options ask for: layouts of arguments and of the result in CompileOptionsProto

typedef struct AskedCase {
    char format[16];
    unsigned char argument_order[2], result_order[2];  // minor to major; {9, 9} for a shape without a layout
    char want[2][24];                                  // layouts of argument and result
} AskedCase;

CaseList(pjrt_layouts, layouts_that_options_ask_for) {
    static AskedCase cases[] = {
        {"mlir", {9, 9}, {9, 9}, {"{0,1:T(8,128)}", "{1,0:T(8,128)}"}},
        {"mlir", {1, 0}, {9, 9}, {"{1,0:T(8,128)}", "{1,0:T(8,128)}"}},
        {"mlir", {9, 9}, {0, 1}, {"{0,1:T(8,128)}", "{0,1:T(8,128)}"}},
        {"mlir", {1, 0}, {0, 1}, {"{1,0:T(8,128)}", "{0,1:T(8,128)}"}},
        {"hlo", {0, 1}, {9, 9}, {"{0,1}", "{1,0}"}},
        {"hlo_with_config", {1, 0}, {0, 1}, {"{1,0}", "{0,1}"}},
    };
    return cr_make_param_array(AskedCase, cases, sizeof(cases) / sizeof(cases[0]));
}

static const char asked_mlir[] =
    "module @m {\n  func.func public @main(%arg0: tensor<1024x10xf32>) -> tensor<10x1024xf32> {\n"
    "    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<1024x10xf32>) -> tensor<10x1024xf32>\n"
    "    return %0 : tensor<10x1024xf32>\n  }\n}\n";
static const char asked_hlo[] =
    "HloModule m\nENTRY e {\n p = f32[1024,10] parameter(0)\n"
    " ROOT t = f32[10,1024] transpose(p), dimensions={1,0}\n}\n";

// Appends {field: ShapeProto {2: F32, 3: dims, 5: {1: minor_to_major}}} of f32[1024,10] or f32[10,1024].
static size_t put_shape(unsigned char *out, int field, bool transposed, const unsigned char *order) {
    unsigned char shape[16] = {0x10, 11, 0x1A, 3};
    size_t size = 4;
    const unsigned char dims[] = {0x80, 8, 10}, turned[] = {10, 0x80, 8};
    memcpy(shape + size, transposed ? turned : dims, 3);
    size += 3;
    if (order[0] < 2) {
        const unsigned char layout[] = {0x2A, 4, 0x0A, 2, order[0], order[1]};
        memcpy(shape + size, layout, sizeof(layout));
        size += sizeof(layout);
    }
    out[0] = (unsigned char)(field << 3 | 2);
    out[1] = (unsigned char)size;
    memcpy(out + 2, shape, size);
    return size + 2;
}

static PjrtError *compile_asking(PjrtClient *client, const char *format, const unsigned char *options, size_t size,
                                 PjrtLoadedExecutable **loaded) {
    HloModule *module = NULL;
    HloText bytes = {0};
    if (strcmp(format, "mlir") == 0) {
        hlo_text_string(&bytes, asked_mlir);
    } else {
        cr_assert_null(hlo_parse(asked_hlo, sizeof(asked_hlo) - 1, NULL, &module));
        cr_assert_null(strcmp(format, "hlo") == 0 ? hlo_module_to_proto(module, &bytes)
                                                  : hlo_module_to_proto_with_config(module, &bytes));
        hlo_module_free(module);
    }
    PjrtError *error;
    *loaded = harness_compile_with(client, bytes.data, bytes.length, format, options, size, &error);
    hlo_text_free(&bytes);
    return error;
}

// f32[1024,10] pads least with its long dimension minor, its transpose row by row: what the machine gives unasked.
CaseTest(AskedCase *param, pjrt_layouts, layouts_that_options_ask_for) {
    unsigned char options[64];
    size_t size = put_shape(options, 1, false, param->argument_order);
    unsigned char result[32];
    const size_t inner = put_shape(result, 2, true, param->result_order);
    options[size++] = 0x1A;  // 3: ExecutableBuildOptionsProto
    options[size++] = (unsigned char)inner;
    memcpy(options + size, result, inner);
    size += inner;
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *loaded;
    harness_must(compile_asking(client, param->format, options, size, &loaded), "compile");
    PjrtLoadedExecutableGetExecutableArgs get = {.struct_size = sizeof(get), .loaded_executable = loaded};
    harness_must(CALL(LoadedExecutable_GetExecutable, &get), "GetExecutable");
    expect_first_layouts(get.executable, param->want);
    // The options are handed back as they came.
    PjrtExecutableGetCompileOptionsArgs back = {.struct_size = sizeof(back), .executable = get.executable};
    harness_must(CALL(Executable_GetCompileOptions, &back), "GetCompileOptions");
    cr_expect_eq(back.serialized_bytes_size, size);
    cr_expect_eq(memcmp(back.serialized_bytes, options, size), 0);
    back.serialized_compile_options_deleter(back.serialized_compile_options);
    PjrtExecutableDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = get.executable};
    harness_must(CALL(Executable_Destroy, &destroy), "Executable_Destroy");
    harness_destroy_executable(loaded);
    harness_destroy_client(client);
}

Test(pjrt_layouts, options_about_another_program_are_refused) {
    static const unsigned char order[] = {1, 0}, no_order[] = {1, 1};
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *loaded = NULL;
    unsigned char options[64];
    size_t size = put_shape(options, 1, true, order);
    harness_refused(compile_asking(client, "mlir", options, size, &loaded), 3,
                    "the compile options say f32[10,1024] for argument 0, which is f32[1024,10]");
    size = put_shape(options, 1, false, order);
    size += put_shape(options + size, 1, false, order);
    harness_refused(compile_asking(client, "hlo", options, size, &loaded), 3,
                    "layouts of 2 arguments; the program takes 1");
    size = put_shape(options, 1, false, no_order);
    harness_refused(compile_asking(client, "mlir", options, size, &loaded), 3, "layout");
    options[0] = 0x1A;
    options[1] = (unsigned char)put_shape(options + 2, 2, false, order);
    harness_refused(compile_asking(client, "mlir", options, options[1] + 2u, &loaded), 3, "for result 0");
    harness_destroy_client(client);
}
