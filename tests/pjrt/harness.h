// SPDX-License-Identifier: Apache-2.0
// Plays jaxlib's part: loads the plugin and calls it through its table, by the names of pjrt/functions.def. What goes
// wrong is written to stderr and aborts, so that programs without Criterion can use it (tests/threads).
#ifndef MESHLO_TESTS_PJRT_HARNESS_H_
#define MESHLO_TESTS_PJRT_HARNESS_H_

#include "pjrt/abi.h"

// Place of each function in the table.
enum {
#define PJRT_FUNCTION(name, handler) PJRT_AT_##name,
#include "pjrt/functions.def"
#undef PJRT_FUNCTION
    PJRT_AT_END
};

// Writes a printf-style message and aborts.
_Noreturn void harness_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
// The plugin's table, loaded once a process. Fails the test when it cannot be loaded.
const PjrtApi *harness_api(void);
// Calls function NAME with an argument struct; returns its error.
#define CALL(name, args) harness_api()->functions[PJRT_AT_##name](args)
// Size of an argument struct up to and including `field`: what a client of some age puts in struct_size.
#define SIZE_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
// Fails the test with the error's message, unless there is none.
void harness_must(PjrtError *error, const char *what);
// Expects an error with this code and this text in its message; destroys it.
void harness_refused(PjrtError *error, int code, const char *text);
// The plugin's extension of this type; fails the test when there is none.
PjrtExtension *harness_extension(int type);

// The eight cores of v2-8, or the slice that `topology` names.
PjrtClient *harness_client(const char *topology);
void harness_destroy_client(PjrtClient *client);
// Device number `device` of the client.
PjrtDevice *harness_device(PjrtClient *client, int device);
void harness_destroy_event(PjrtEvent *event);
// A f32 array of `count` numbers start, start+1, … on device number `device`.
PjrtBuffer *harness_numbers(PjrtClient *client, int device, int64_t rows, int64_t columns, float start);
// Waits for a buffer and copies `count` floats out.
void harness_read(PjrtBuffer *buffer, float *out, int64_t count);
void harness_destroy_buffer(PjrtBuffer *buffer);
// Compiles bytecode for `partitions` devices; NULL and *error when it is refused.
PjrtLoadedExecutable *harness_compile(PjrtClient *client, const void *code, size_t size, int partitions,
                                      PjrtError **error);
// The same of a program in a format: "mlir" or "hlo".
PjrtLoadedExecutable *harness_compile_as(PjrtClient *client, const void *code, size_t size, const char *format,
                                         int partitions, PjrtError **error);
// The same with compile options, a serialised CompileOptionsProto.
PjrtLoadedExecutable *harness_compile_with(PjrtClient *client, const void *code, size_t size, const char *format,
                                           const unsigned char *options, size_t options_size, PjrtError **error);
// Compiles HLO text for one device; fails the test when it is refused.
PjrtLoadedExecutable *harness_compile_text(PjrtClient *client, const char *text);
// The same; NULL and *error when it is refused.
PjrtLoadedExecutable *harness_try_text(PjrtClient *client, const char *text, PjrtError **error);
void harness_destroy_executable(PjrtLoadedExecutable *executable);
// Runs a program of one argument and one result on one device; `options` and `device` (of a portable program) may be
// NULL. *result is what came; the error is handed back.
PjrtError *harness_launch(PjrtLoadedExecutable *executable, PjrtBuffer *argument, PjrtExecuteOptions *options,
                          PjrtDevice *device, PjrtBuffer **result);

#endif
