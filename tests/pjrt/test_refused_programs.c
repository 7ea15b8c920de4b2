// SPDX-License-Identifier: Apache-2.0
// Refusals of programs: bytes that are not a program, meaningless options, launches that do not fit, functions that are
// given too little room, structs of clients that are too old.
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "pjrt/abi_transfer.h"
#include "tests/pjrt/harness.h"
#include "tests/support/compiled.h"

enum { kInvalidArgument = 3, kUnimplemented = 12, kInternal = 13 };

static const char kTwice[] =
    "module @m {\n  func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
    "    %0 = stablehlo.add %arg0, %arg0 : tensor<2x3xf32>\n    return %0 : tensor<2x3xf32>\n  }\n}\n";

static PjrtError *compile(PjrtClient *client, const char *format, const char *code, const char *options,
                          size_t options_size, PjrtLoadedExecutable **executable) {
    PjrtProgram program = {.struct_size = sizeof(program),
                           .code = (char *)(uintptr_t)code,
                           .code_size = strlen(code),
                           .format = format,
                           .format_size = strlen(format)};
    PjrtClientCompileArgs args = {.struct_size = sizeof(args),
                                  .client = client,
                                  .program = &program,
                                  .compile_options = options,
                                  .compile_options_size = options_size};
    PjrtError *error = CALL(Client_Compile, &args);
    *executable = error ? NULL : args.executable;
    return error;
}

Test(pjrt_refused, program_formats_and_contents) {
    static const struct {
        const char *format, *code;
        int code_number;
        const char *says;
    } cases[] = {
        {"hlo_text", "HloModule m", kUnimplemented,
         "programs in the format \"hlo_text\"; send mlir, hlo or hlo_with_config"},
        {"", "", kUnimplemented, "programs in the format \"\""},
        {"mlir", "", kInvalidArgument, ""},
        {"mlir", "module {", kInvalidArgument, "program:1:"},
        {"mlir", "module { }", kInvalidArgument, "the module has no body"},
        {"mlir", "ML\xefR\x01", kInvalidArgument, ""},
        {"hlo", "", kInvalidArgument, "entry"},
        {"hlo", "\x0a\xff", kInvalidArgument, ""},
        {"mlir", "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.frob %x : tensor<2xf32>\n}",
         kInvalidArgument, "stablehlo.frob"},
        {"mlir",
         "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
         "  %0 = stablehlo.custom_call @nobody_knows_me(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
         "  return %0 : tensor<2xf32>\n}",
         kUnimplemented, "nobody_knows_me"},
        {"mlir",
         "func.func @main(%x: tensor<2xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {\n"
         "  %0 = stablehlo.dynamic_reshape %x, %n : (tensor<2xf32>, tensor<1xi32>) -> tensor<?xf32>\n"
         "  return %0 : tensor<?xf32>\n}",
         kUnimplemented, "dynamic_reshape"},
    };
    PjrtClient *client = harness_client("v2-8");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        PjrtLoadedExecutable *executable;
        PjrtError *error = compile(client, cases[i].format, cases[i].code, "", 0, &executable);
        cr_assert(error, "%s '%s' is taken", cases[i].format, cases[i].code);
        harness_refused(error, cases[i].code_number, cases[i].says);
    }
    harness_destroy_client(client);
}

// CompileOptionsProto as bytes: {3: build options {4: replicas, 5: partitions, 9: DeviceAssignmentProto {3: a list}}}.
Test(pjrt_refused, compile_options) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *says;
    } cases[] = {
        {"\x1a\x02\x20\x09", 4, "9 replicas of 1 partitions do not fit on the 8 devices"},
        {"\x1a\x02\x28\x09", 4, "1 replicas of 9 partitions do not fit on the 8 devices"},
        {"\x1a\x0b\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, "1 replicas of -1 partitions"},
        {"\x1a\x05\x20\xff\xff\xff\x0f", 7, "33554431 replicas of 1 partitions"},
        // two computations with one and two replicas
        {"\x1a\x11\x20\x01\x28\x02\x4a\x0b\x1a\x03\x0a\x01\x00\x1a\x04\x0a\x02\x01\x02", 19, "ragged"},
        // two computations for a program of one
        {"\x1a\x0c\x4a\x0a\x1a\x03\x0a\x01\x00\x1a\x03\x0a\x01\x01", 14, "a device assignment of 2 devices for 1"},
        {"\x1a\x07\x4a\x05\x1a\x03\x0a\x01\x63", 9, "the device assignment names device 99, which v2-8 does not have"},
        {"\x1a\x0e\x28\x02\x4a\x0a\x1a\x03\x0a\x01\x03\x1a\x03\x0a\x01\x03", 16, "names device 3 twice"},
        // lists of flags (12: of the result's parts, 18: of the parameters) whose last number is cut off
        {"\x1a\x04\x62\x02\x01\xff", 6, "protobuf"},
        {"\x1a\x06\x62\x01\x01\x92\x01\x01\xff", 9, "protobuf"},
        {"\x1a\x7f", 2, "protobuf"},
        {"\xff", 1, "protobuf"},
    };
    PjrtClient *client = harness_client("v2-8");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        PjrtLoadedExecutable *executable;
        PjrtError *error = compile(client, "mlir", kTwice, cases[i].bytes, cases[i].size, &executable);
        cr_assert(error, "case %zu is taken: %s", i, cases[i].says);
        harness_refused(error, kInvalidArgument, cases[i].says);
    }
    harness_destroy_client(client);
}

// ---- serialised executables

static PjrtExecutable *plain_executable(PjrtLoadedExecutable *loaded) {
    PjrtLoadedExecutableGetExecutableArgs get = {.struct_size = sizeof(get), .loaded_executable = loaded};
    harness_must(CALL(LoadedExecutable_GetExecutable, &get), "GetExecutable");
    return get.executable;
}

static void destroy_plain(PjrtExecutable *executable) {
    PjrtExecutableDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = executable};
    harness_must(CALL(Executable_Destroy, &destroy), "Executable_Destroy");
}

static PjrtError *load(PjrtClient *client, const char *bytes, size_t size) {
    PjrtExecutableDeserializeAndLoadArgs args = {.struct_size = sizeof(args),
                                                 .client = client,
                                                 .serialized_executable = bytes,
                                                 .serialized_executable_size = size};
    PjrtError *error = CALL(Executable_DeserializeAndLoad, &args);
    if (!error) harness_destroy_executable(args.loaded_executable);
    return error;
}

// The whole file loads; every shorter piece, and every change of a byte in its head, is refused.
Test(pjrt_refused, serialised_executables_that_are_truncated_or_changed) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *loaded;
    harness_must(compile(client, "mlir", kTwice, "", 0, &loaded), "compile");
    PjrtExecutable *executable = plain_executable(loaded);
    PjrtExecutableSerializeArgs bytes = {.struct_size = sizeof(bytes), .executable = executable};
    harness_must(CALL(Executable_Serialize, &bytes), "Serialize");
    const size_t size = bytes.serialized_bytes_size;
    harness_must(load(client, bytes.serialized_bytes, size), "the whole, though it is text");
    char *copy = malloc(size + 1);
    memcpy(copy, bytes.serialized_bytes, size);
    copy[size] = 0;
    harness_refused(load(client, copy, 0), kInvalidArgument, "not a Meshlo executable");
    for (size_t i = 1; i < size; i += 1 + i / 16) {
        char *piece = malloc(i);  // of its own, so that reading past it is seen
        memcpy(piece, copy, i);
        harness_refused(load(client, piece, i), kInvalidArgument, "executable");
        free(piece);
    }
    harness_refused(load(client, copy, size + 1), kInvalidArgument, "cut short");
    for (size_t i = 0; i < 16; i++) {
        copy[i] ^= 0x40;
        PjrtError *error = load(client, copy, size);
        copy[i] ^= 0x40;
        cr_assert(error, "byte %zu does not count", i);
        harness_refused(error, kInvalidArgument, "executable");
    }
    free(copy);
    bytes.serialized_executable_deleter((void *)(uintptr_t)bytes.serialized_executable);
    destroy_plain(executable);
    harness_destroy_executable(loaded);
    harness_destroy_client(client);
}

Test(pjrt_refused, questions_to_executables) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *loaded;
    harness_must(compile(client, "mlir", kTwice, "", 0, &loaded), "compile");
    PjrtExecutable *executable = plain_executable(loaded);
    char room[8];
    PjrtProgram program = {.struct_size = sizeof(program), .code = room, .code_size = sizeof(room)};
    PjrtExecutableOptimizedProgramArgs optimised = {
        .struct_size = sizeof(optimised), .executable = executable, .program = &program};
    harness_refused(CALL(Executable_OptimizedProgram, &optimised), kInvalidArgument, "there is room for 8");
    size_t fingerprint[8] = {sizeof(fingerprint), 0, (size_t)loaded};  // {head, executable, …}
    harness_refused(CALL(LoadedExecutable_Fingerprint, fingerprint), kUnimplemented, "PJRT_Executable_Fingerprint");
    destroy_plain(executable);
    harness_destroy_executable(loaded);
    harness_destroy_client(client);
}

// ---- launches

typedef struct LaunchLists {
    PjrtBuffer *arguments[2], *results[1];
    PjrtBuffer *const *argument_lists[1];
    PjrtBuffer **result_lists[1];
    PjrtLoadedExecutableExecuteArgs args;
} LaunchLists;

static void prepare_launch(LaunchLists *launch, PjrtLoadedExecutable *executable, PjrtBuffer *argument) {
    *launch = (LaunchLists){.arguments = {argument}};
    launch->argument_lists[0] = launch->arguments;
    launch->result_lists[0] = launch->results;
    launch->args = (PjrtLoadedExecutableExecuteArgs){.struct_size = sizeof(launch->args),
                                                     .executable = executable,
                                                     .argument_lists = launch->argument_lists,
                                                     .num_devices = 1,
                                                     .num_args = 1,
                                                     .output_lists = launch->result_lists};
}

Test(pjrt_refused, launches_that_do_not_fit) {
    PjrtClient *client = harness_client("v2-8"), *other = harness_client("v2-8");
    PjrtLoadedExecutable *executable;
    harness_must(compile(client, "mlir", kTwice, "", 0, &executable), "compile");
    PjrtBuffer *good = harness_numbers(client, 0, 2, 3, 0), *turned = harness_numbers(client, 0, 3, 2, 0),
               *elsewhere = harness_numbers(client, 1, 2, 3, 0), *foreign = harness_numbers(other, 0, 2, 3, 0),
               *deleted = harness_numbers(client, 0, 2, 3, 0);
    PjrtBufferDeleteArgs remove = {.struct_size = sizeof(remove), .object = deleted};
    harness_must(CALL(Buffer_Delete, &remove), "Delete");
    const struct {
        PjrtBuffer *argument;
        const char *says;
    } cases[] = {{NULL, "argument 0 of launch position 0 is missing"},
                 {turned, "f32[3,2]"},
                 {elsewhere, "argument 0"},
                 {foreign, "argument 0"},
                 {deleted, "deleted"}};
    LaunchLists launch;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        prepare_launch(&launch, executable, cases[i].argument);
        harness_refused(CALL(LoadedExecutable_Execute, &launch.args), kInvalidArgument, cases[i].says);
        cr_expect_null(launch.results[0], "a refused launch has no result");
    }
    PjrtClientDevicesArgs devices = {.struct_size = sizeof(devices), .client = client};
    harness_must(CALL(Client_Devices, &devices), "Client_Devices");
    prepare_launch(&launch, executable, good);
    launch.args.execute_device = devices.devices[3];
    harness_refused(CALL(LoadedExecutable_Execute, &launch.args), kInvalidArgument,
                    "not portable and belongs to another");
    prepare_launch(&launch, executable, good);
    harness_must(CALL(LoadedExecutable_Execute, &launch.args), "a right program still runs");
    harness_destroy_buffer(launch.results[0]);
    PjrtBuffer *all[] = {good, turned, elsewhere, foreign, deleted};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) harness_destroy_buffer(all[i]);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
    harness_destroy_client(other);
}

// A donated argument is gone when the launch returns, and is refused wherever it is used again.
Test(pjrt_refused, donated_arrays) {
    static const char program[] =
        "module @m {\n  func.func public @main(%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}) -> "
        "tensor<2x3xf32> {\n    %0 = stablehlo.add %arg0, %arg0 : tensor<2x3xf32>\n    return %0 : tensor<2x3xf32>\n  "
        "}\n}\n";
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable;
    harness_must(compile(client, "mlir", program, "", 0, &executable), "compile");
    PjrtBuffer *argument = harness_numbers(client, 0, 2, 3, 1);
    LaunchLists launch;
    prepare_launch(&launch, executable, argument);
    harness_must(CALL(LoadedExecutable_Execute, &launch.args), "Execute");
    PjrtBuffer *result = launch.results[0];
    float out[6];
    harness_read(result, out, 6);
    cr_expect_eq(out[5], 12);
    prepare_launch(&launch, executable, argument);
    harness_refused(CALL(LoadedExecutable_Execute, &launch.args), kInvalidArgument, "donated");
    PjrtBufferToHostBufferArgs read = {
        .struct_size = sizeof(read), .src = argument, .dst = out, .dst_size = sizeof(out)};
    harness_refused(CALL(Buffer_ToHostBuffer, &read), kInvalidArgument, "donated");
    PjrtBufferUnsafePointerArgs pointer = {.struct_size = sizeof(pointer), .buffer = argument};
    harness_refused(CALL(Buffer_UnsafePointer, &pointer), kInvalidArgument, "deleted");
    harness_destroy_buffer(argument);
    harness_destroy_buffer(result);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

// ---- inspect_sharding

typedef struct InspectArgs {  // as the plugin's pjrt/inspect.c reads it
    const char *sharding;
    size_t sharding_size;
    char *error;
    void *error_owner;
    void (*free_error)(struct InspectArgs *args);
} InspectArgs;

static int errors_freed;

static void free_error(InspectArgs *args) {
    errors_freed++;
    args->error = NULL;
}

static void complain(void *data, InspectArgs *args) {
    static char message[] = "I do not like it";
    *(int *)data += 1;
    args->error = message;
    args->free_error = free_error;
}

static PjrtError *inspect(PjrtClient *client, const char *config) {
    char text[512];
    snprintf(text, sizeof(text),
             "HloModule m, num_partitions=2\nENTRY e {\n p = f32[2,4] parameter(0), sharding={devices=[2,1]<=[2]}\n"
             " i = () custom-call(p), custom_call_target=\"InspectSharding\", backend_config=\"%s\", "
             "custom_call_has_side_effect=true\n ROOT a = f32[2,4] add(p, p)\n}\n",
             config);
    HloText message = {0}, bytes = {0};
    HloModule *module = compiled_parse(text, &message);
    cr_assert(module, "%s", message.data);
    must_succeed(hlo_module_to_proto(module, &bytes));
    PjrtError *error;
    PjrtLoadedExecutable *executable = harness_compile_as(client, bytes.data, bytes.length, "hlo", 2, &error);
    if (executable) harness_destroy_executable(executable);
    hlo_text_free(&bytes);
    hlo_module_free(module);
    return error;
}

Test(pjrt_refused, callbacks_of_inspect_sharding) {
    static const char *const none[] = {"",
                                       "00",
                                       "zz",
                                       "0000000000000000000000000000000000",
                                       "00000000000000000000000000000000",
                                       "0000000000000000000000000000000g"};
    PjrtClient *client = harness_client("v2-8");
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        harness_refused(inspect(client, none[i]), kInvalidArgument, "not a callback");
    int calls = 0;
    const struct {
        void (*call)(void *data, InspectArgs *args);
        void *data;
    } callback = {complain, &calls};
    unsigned char bytes[sizeof(callback)];
    char digits[2 * sizeof(callback) + 1];
    memcpy(bytes, &callback, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) snprintf(digits + 2 * i, 3, "%02x", bytes[i]);
    harness_refused(inspect(client, digits), kInternal, "inspect_sharding: I do not like it");
    cr_expect_eq(calls, 1);
    cr_expect_eq(errors_freed, 1);
    harness_destroy_client(client);
}

// ---- topologies

typedef struct TopologyCase {
    const char *name, *option;
    int32_t type;
    int64_t number;
    const char *string;
    size_t size;
    const char *says;
} TopologyCase;

Test(pjrt_refused, options_of_topologies) {
    static const int64_t ones[] = {1, 1, 1, 1};
    static const TopologyCase cases[] = {
        {"v9-8", NULL, 0, 0, NULL, 0, "v9-8"},
        {"", "num_slices", PJRT_VALUE_INT64, 0, NULL, 1, "num_slices is not a positive number"},
        {"v5e-16", "num_slices", PJRT_VALUE_INT64, 0, NULL, 1, "num_slices is not a positive number"},
        {"v5e-16", "num_slices", PJRT_VALUE_INT64, -4, NULL, 1, "num_slices is not a positive number"},
        {"v5e-16", "num_slices", PJRT_VALUE_STRING, 0, "two", 3, "num_slices is not a positive number"},
        {"v5e-16", "chips_per_host_bounds", PJRT_VALUE_STRING, 0, "2,2", 3, "chips_per_host_bounds is not a list"},
        {"v5e-16", "chips_per_host_bounds", PJRT_VALUE_INT64_LIST, 0, NULL, 0, "chips_per_host_bounds is not a list"},
        {"v5e-16", "chips_per_host_bounds", PJRT_VALUE_INT64_LIST, 0, NULL, 4, "chips_per_host_bounds is not a list"},
        {"v5e-16", "wrap", PJRT_VALUE_INT64, 1, NULL, 1, "wrap is not a list"},
        {"v5e-16", "wrap", PJRT_VALUE_INT64_LIST, 0, NULL, 4, "wrap is not a list"},
        {"v4:2x2x2", "chip_config_name", PJRT_VALUE_STRING, 0, "minicore", 8, "chip_config_name is 'minicore'"},
        {"v4:2x2x2", "chip_config_name", PJRT_VALUE_INT64, 3, NULL, 1, "the option chip_config_name is not a string"},
        {"v4:2x2x2", "platform", PJRT_VALUE_INT64, 3, NULL, 1, "the option platform is not a string"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const TopologyCase *at = &cases[i];
        PjrtNamedValue option = {.struct_size = sizeof(option), .name = at->option, .type = at->type};
        option.name_size = at->option ? strlen(at->option) : 0;
        option.value_size = at->size;
        if (at->type == PJRT_VALUE_STRING) option.value.string = at->string;
        if (at->type == PJRT_VALUE_INT64) option.value.number = at->number;
        if (at->type == PJRT_VALUE_INT64_LIST) option.value.numbers = ones;
        PjrtTopologyDescriptionCreateArgs args = {.struct_size = sizeof(args),
                                                  .topology_name = at->name,
                                                  .topology_name_size = strlen(at->name),
                                                  .create_options = &option,
                                                  .num_options = at->option ? 1 : 0};
        PjrtError *error = CALL(TopologyDescription_Create, &args);
        cr_assert(error, "%s with %s is taken", at->name, at->option);
        harness_refused(error, kInvalidArgument, at->says);
    }
}

Test(pjrt_refused, a_topology_that_the_environment_names_too_long) {
    char name[4096];
    memset(name, 'v', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    setenv("MESHLO_TOPOLOGY", name, 1);
    PjrtClientCreateArgs args = {.struct_size = sizeof(args)};
    harness_refused(CALL(Client_Create, &args), kInvalidArgument, "MESHLO_TOPOLOGY is too long");
    unsetenv("MESHLO_TOPOLOGY");
    PjrtNamedValue number = {
        .struct_size = sizeof(number), .name = "topology", .name_size = 8, .type = PJRT_VALUE_INT64, .value_size = 1};
    args.create_options = &number;
    args.num_options = 1;
    harness_refused(CALL(Client_Create, &args), kInvalidArgument, "the option topology is not a string");
}

// ---- structs of older clients

// Each of these functions gives its answer in a field that a struct this short does not have: nothing is written there.
Test(pjrt_refused, structs_that_end_before_the_answer) {
    static const struct {
        int at;
        const char *name;
    } functions[] = {
#define TOO_SHORT(name) {PJRT_AT_##name, #name}
        TOO_SHORT(Client_Create),
        TOO_SHORT(Client_Compile),
        TOO_SHORT(Compile),
        TOO_SHORT(Client_BufferFromHostBuffer),
        TOO_SHORT(Client_CreateUninitializedBuffer),
        TOO_SHORT(Client_CreateErrorBuffer),
        TOO_SHORT(Client_CreateAliasBuffer),
        TOO_SHORT(Client_FulfillAliasBuffer),
        TOO_SHORT(Client_CreateViewOfDeviceBuffer),
        TOO_SHORT(Client_CreateBuffersForAsyncHostToDevice),
        TOO_SHORT(AsyncHostToDeviceTransferManager_TransferData),
        TOO_SHORT(AsyncHostToDeviceTransferManager_TransferLiteral),
        TOO_SHORT(Buffer_DonateWithControlDependency),
        TOO_SHORT(Buffer_CopyRawToHostFuture),
        TOO_SHORT(Buffer_Bitcast),
        TOO_SHORT(Buffer_CopyToDevice),
        TOO_SHORT(Buffer_GetMemoryLayout),
        TOO_SHORT(LoadedExecutable_Execute),
        TOO_SHORT(Device_PoisonExecution),
        TOO_SHORT(CopyToDeviceStream_AddChunk),
        TOO_SHORT(TopologyDescription_Create),
        TOO_SHORT(TopologyDescription_Serialize),
        TOO_SHORT(TopologyDescription_Deserialize),
        TOO_SHORT(TopologyDescription_MakeCanonicalShapeForMemorySpace),
#undef TOO_SHORT
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        size_t args[64];
        memset(args, 0, sizeof(args));
        args[0] = 2 * sizeof(size_t);  // struct_size: the head alone
        PjrtError *error = harness_api()->functions[functions[i].at](args);
        cr_assert(error, "%s takes a struct of 16 bytes", functions[i].name);
        harness_refused(error, kInvalidArgument, "the argument struct has 16 bytes only");
        for (size_t k = 1; k < sizeof(args) / sizeof(args[0]); k++)
            cr_expect_eq(args[k], 0, "%s wrote word %zu", functions[i].name, k);
    }
}
