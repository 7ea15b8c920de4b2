// SPDX-License-Identifier: Apache-2.0
// The programs of tests/compile/cases.def through the plugin: what it shows of a program after compilation are the
// operations that the table lists, and what it computes is the evaluator's value of the program as it was written.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "hlo/proto/proto.h"
#include "tests/pjrt/harness.h"
#include "tests/support/compiled.h"
#include "tests/support/simplified.h"

enum { kS32 = 4, kF32 = 11 };  // PJRT_Buffer_Type

static PjrtBuffer *buffer_of(PjrtClient *client, const HloLiteral *literal, int32_t type) {
    PjrtClientBufferFromHostBufferArgs args = {.struct_size = sizeof(args),
                                               .client = client,
                                               .data = literal->data,
                                               .type = type,
                                               .dims = literal->shape->dims,
                                               .num_dims = (size_t)literal->shape->rank,
                                               .device = harness_device(client, 0)};
    harness_must(CALL(Client_BufferFromHostBuffer, &args), "BufferFromHostBuffer");
    harness_destroy_event(args.done_with_host_buffer);
    return args.buffer;
}

// Waits for the buffer and copies its content into a new literal of this shape.
static HloLiteral *literal_of(PjrtBuffer *buffer, const HloShape *shape) {
    HloLiteral *literal = hlo_literal_new(shape);
    PjrtBufferToHostBufferArgs args = {
        .struct_size = sizeof(args), .src = buffer, .dst = literal->data, .dst_size = (size_t)hlo_shape_bytes(shape)};
    harness_must(CALL(Buffer_ToHostBuffer, &args), "ToHostBuffer");
    PjrtEventAwaitArgs wait = {.struct_size = sizeof(wait), .object = args.event};
    harness_must(CALL(Event_Await, &wait), "Await");
    harness_destroy_event(args.event);
    return literal;
}

// The program that the executable shows, as jax.stages.Compiled.as_text() does.
static HloModule *optimised(PjrtLoadedExecutable *loaded) {
    PjrtLoadedExecutableGetExecutableArgs get = {.struct_size = sizeof(get), .loaded_executable = loaded};
    harness_must(CALL(LoadedExecutable_GetExecutable, &get), "GetExecutable");
    PjrtProgram program = {.struct_size = sizeof(program)};
    PjrtExecutableOptimizedProgramArgs args = {
        .struct_size = sizeof(args), .executable = get.executable, .program = &program};
    harness_must(CALL(Executable_OptimizedProgram, &args), "its size");
    program.code = malloc(program.code_size);
    harness_must(CALL(Executable_OptimizedProgram, &args), "OptimizedProgram");
    HloModule *module = NULL;
    must_succeed(hlo_module_from_proto(program.code, program.code_size, &module));
    free(program.code);
    PjrtExecutableDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = get.executable};
    harness_must(CALL(Executable_Destroy, &destroy), "Executable_Destroy");
    return module;
}

static PjrtBuffer *launch(PjrtLoadedExecutable *executable, PjrtBuffer *const arguments[SIMPLIFIED_ARGUMENTS]) {
    PjrtBuffer *result = NULL;
    PjrtBuffer *const *const argument_lists[] = {arguments};
    PjrtBuffer **const result_lists[] = {&result};
    PjrtExecuteOptions options = {.struct_size = sizeof(options)};
    PjrtLoadedExecutableExecuteArgs args = {.struct_size = sizeof(args),
                                            .executable = executable,
                                            .options = &options,
                                            .argument_lists = argument_lists,
                                            .num_devices = 1,
                                            .num_args = SIMPLIFIED_ARGUMENTS,
                                            .output_lists = result_lists};
    harness_must(CALL(LoadedExecutable_Execute, &args), "Execute");
    return result;
}

Test(pjrt_simplified, leaves_and_computes_what_the_table_says) {
    PjrtClient *client = harness_client("v5e-1");
    HloLiteral *arguments[SIMPLIFIED_ARGUMENTS];
    simplified_arguments(arguments);
    PjrtBuffer *const buffers[] = {buffer_of(client, arguments[0], kF32), buffer_of(client, arguments[1], kS32)};
    for (size_t i = 0; simplified_case(i); i++) {
        const SimplifiedCase *test = simplified_case(i);
        HloText text = {0};
        simplified_text(test, "", &text);
        PjrtLoadedExecutable *executable = harness_compile_text(client, text.data);
        HloModule *left = optimised(executable);
        simplified_expect_operations(test, "plugin", left);
        PjrtBuffer *result = launch(executable, buffers);
        simplified_expect_value(test, "plugin", arguments, HLO_NUMERICS_TPU,
                                literal_of(result, left->entry->root->shape));
        hlo_module_free(left);
        harness_destroy_buffer(result);
        harness_destroy_executable(executable);
        hlo_text_free(&text);
    }
    for (int i = 0; i < SIMPLIFIED_ARGUMENTS; i++) {
        harness_destroy_buffer(buffers[i]);
        hlo_literal_free(arguments[i]);
    }
    harness_destroy_client(client);
}
