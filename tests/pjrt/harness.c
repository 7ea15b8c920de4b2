// SPDX-License-Identifier: Apache-2.0
#include "tests/pjrt/harness.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void harness_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

#ifdef MESHLO_PJRT_LIBRARY
const PjrtApi *harness_api(void) {
    static const PjrtApi *api;
    if (api) return api;
    void *library = dlopen(MESHLO_PJRT_LIBRARY, RTLD_LAZY);
    if (!library) harness_fail("%s", dlerror());
    const PjrtApi *(*get)(void);
    *(void **)&get = dlsym(library, "GetPjrtApi");
    if (!get) harness_fail("%s has no GetPjrtApi", MESHLO_PJRT_LIBRARY);
    api = get();
    return api;
}
#else  // linked in, where a test reaches below the table
extern const PjrtApi *GetPjrtApi(void);

const PjrtApi *harness_api(void) {
    return GetPjrtApi();
}
#endif

static const char *message_of(PjrtError *error) {
    PjrtErrorMessageArgs args = {.struct_size = sizeof(args), .error = error};
    CALL(Error_Message, &args);
    return args.message;
}

static void destroy_error(PjrtError *error) {
    PjrtErrorDestroyArgs args = {.struct_size = sizeof(args), .object = error};
    CALL(Error_Destroy, &args);
}

void harness_must(PjrtError *error, const char *what) {
    if (error) harness_fail("%s: %s", what, message_of(error));
}

void harness_refused(PjrtError *error, int code, const char *text) {
    if (!error) harness_fail("nothing was refused: %s", text);
    PjrtErrorGetCodeArgs args = {.struct_size = sizeof(args), .error = error};
    harness_must(CALL(Error_GetCode, &args), "code");
    if (args.code != code || !strstr(message_of(error), text))
        harness_fail("code %d: %s, where %d with \"%s\" was to come", args.code, message_of(error), code, text);
    destroy_error(error);
}

PjrtExtension *harness_extension(int type) {
    for (PjrtExtension *at = harness_api()->extension_start; at; at = at->next)
        if (at->type == type) return at;
    harness_fail("there is no extension %d", type);
}

PjrtClient *harness_client(const char *topology) {
    PjrtNamedValue option = {.struct_size = sizeof(option),
                             .name = "topology",
                             .name_size = 8,
                             .type = PJRT_VALUE_STRING,
                             .value_size = strlen(topology)};
    option.value.string = topology;
    PjrtClientCreateArgs args = {.struct_size = sizeof(args), .create_options = &option, .num_options = 1};
    harness_must(CALL(Client_Create, &args), "Client_Create");
    return args.client;
}

void harness_destroy_client(PjrtClient *client) {
    PjrtClientDestroyArgs args = {.struct_size = sizeof(args), .object = client};
    harness_must(CALL(Client_Destroy, &args), "Client_Destroy");
}

PjrtDevice *harness_device(PjrtClient *client, int device) {
    PjrtClientDevicesArgs devices = {.struct_size = sizeof(devices), .client = client};
    harness_must(CALL(Client_Devices, &devices), "Client_Devices");
    return devices.devices[device];
}

void harness_destroy_event(PjrtEvent *event) {
    PjrtEventDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = event};
    harness_must(CALL(Event_Destroy, &destroy), "Event_Destroy");
}

PjrtBuffer *harness_numbers(PjrtClient *client, int device, int64_t rows, int64_t columns, float start) {
    int64_t dims[] = {rows, columns}, count = rows * columns;
    float *data = malloc((size_t)count * sizeof(*data));
    for (int64_t i = 0; i < count; i++) data[i] = start + (float)i;
    PjrtClientBufferFromHostBufferArgs args = {.struct_size = sizeof(args),
                                               .client = client,
                                               .data = data,
                                               .type = 11,
                                               .dims = dims,
                                               .num_dims = 2,
                                               .device = harness_device(client, device)};
    harness_must(CALL(Client_BufferFromHostBuffer, &args), "BufferFromHostBuffer");
    free(data);
    harness_destroy_event(args.done_with_host_buffer);
    return args.buffer;
}

void harness_read(PjrtBuffer *buffer, float *out, int64_t count) {
    PjrtBufferToHostBufferArgs args = {
        .struct_size = sizeof(args), .src = buffer, .dst = out, .dst_size = (size_t)count * sizeof(*out)};
    harness_must(CALL(Buffer_ToHostBuffer, &args), "ToHostBuffer");
    PjrtEventAwaitArgs wait = {.struct_size = sizeof(wait), .object = args.event};
    harness_must(CALL(Event_Await, &wait), "Await");
    harness_destroy_event(args.event);
}

void harness_destroy_buffer(PjrtBuffer *buffer) {
    PjrtBufferDestroyArgs args = {.struct_size = sizeof(args), .object = buffer};
    harness_must(CALL(Buffer_Destroy, &args), "Buffer_Destroy");
}

PjrtLoadedExecutable *harness_compile_as(PjrtClient *client, const void *code, size_t size, const char *format,
                                         int partitions, PjrtError **error) {
    // CompileOptionsProto {3: {4: replicas, 5: partitions, 6: use_spmd}}
    const unsigned char options[] = {0x1A, 6, 0x20, 1, 0x28, (unsigned char)partitions, 0x30, 1};
    return harness_compile_with(client, code, size, format, options, sizeof(options), error);
}

PjrtLoadedExecutable *harness_compile_with(PjrtClient *client, const void *code, size_t size, const char *format,
                                           const unsigned char *options, size_t options_size, PjrtError **error) {
    PjrtProgram program = {.struct_size = sizeof(program),
                           .code = (char *)(uintptr_t)code,
                           .code_size = size,
                           .format = format,
                           .format_size = strlen(format)};
    PjrtClientCompileArgs args = {.struct_size = sizeof(args),
                                  .client = client,
                                  .program = &program,
                                  .compile_options = (const char *)options,
                                  .compile_options_size = options_size};
    *error = CALL(Client_Compile, &args);
    return *error ? NULL : args.executable;
}

PjrtLoadedExecutable *harness_compile(PjrtClient *client, const void *code, size_t size, int partitions,
                                      PjrtError **error) {
    return harness_compile_as(client, code, size, "mlir", partitions, error);
}

void harness_destroy_executable(PjrtLoadedExecutable *executable) {
    PjrtLoadedExecutableDestroyArgs args = {.struct_size = sizeof(args), .object = executable};
    harness_must(CALL(LoadedExecutable_Destroy, &args), "LoadedExecutable_Destroy");
}

PjrtError *harness_launch(PjrtLoadedExecutable *executable, PjrtBuffer *argument, PjrtExecuteOptions *options,
                          PjrtDevice *device, PjrtBuffer **result) {
    PjrtBuffer *const arguments[] = {argument};
    PjrtBuffer *const *const argument_lists[] = {arguments};
    PjrtBuffer **const result_lists[] = {result};
    PjrtLoadedExecutableExecuteArgs args = {.struct_size = sizeof(args),
                                            .executable = executable,
                                            .options = options,
                                            .argument_lists = argument_lists,
                                            .num_devices = 1,
                                            .num_args = 1,
                                            .output_lists = result_lists,
                                            .execute_device = device};
    return CALL(LoadedExecutable_Execute, &args);
}
