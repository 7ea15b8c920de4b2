// SPDX-License-Identifier: Apache-2.0
// Custom calls that a framework partitions, through the extension CustomPartitioner as jaxlib uses it, without Python.
// jaxlib's own side is tested by tests/jax/programs/test_custom_partitioning.py.
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "pjrt/extensions.h"
#include "tests/pjrt/harness.h"

// Halves: x -> x * 0.5 on whatever part a device has.
static const char body[] =
    "HloModule half\nENTRY e {\n p = f32[2,3] parameter(0)\n c = f32[] constant(0.5)\n"
    " b = f32[2,3] broadcast(c), dimensions={}\n ROOT m = f32[2,3] multiply(p, b)\n}\n";

typedef struct Author {
    PjrtPartitionerCallbacks callbacks;
    HloText program;
    PjrtPartitionerString operand_sharding;
    const char *error;
    char sharding[64];
    int asked, inferred, cleaned;
} Author;

static void clean(void *data) {
    ((Author *)data)->cleaned++;
}

static void finish(Author *author, PjrtPartitionerHeader *header) {
    header->data = author;
    header->cleanup = clean;
    header->has_error = author->error != NULL;
    if (!author->error) return;
    header->code = 3;
    header->error = (PjrtPartitionerString){author->error, strlen(author->error)};
}

// Keeps the operand's sharding, for operand and result.
static void partition(PjrtPartitionerCallbacks *callbacks, PjrtPartitionerPartitionArgs *args) {
    Author *author = (Author *)callbacks->data;
    author->asked++;
    cr_expect_eq(args->operand_count, 1);
    cr_expect(args->operands[0].has_sharding && args->result.has_sharding);
    cr_expect_eq(args->configuration.size, 4);
    cr_expect_arr_eq(args->configuration.data, "ours", 4);
    cr_assert_leq(args->operands[0].sharding.size, sizeof(author->sharding));
    memcpy(author->sharding, args->operands[0].sharding.data, args->operands[0].sharding.size);
    author->operand_sharding = (PjrtPartitionerString){author->sharding, args->operands[0].sharding.size};
    args->operand_shardings = &author->operand_sharding;
    args->result_sharding = author->operand_sharding;
    args->program = (PjrtPartitionerString){author->program.data, author->program.length};
    finish(author, &args->header);
}

static void infer(PjrtPartitionerCallbacks *callbacks, PjrtPartitionerInferArgs *args) {
    Author *author = (Author *)callbacks->data;
    author->inferred++;
    args->has_result_sharding = true;
    args->result_sharding = args->operands[0].sharding;
    finish(author, &args->header);
}

static void propagate(PjrtPartitionerCallbacks *callbacks, PjrtPartitionerUserArgs *args) {
    finish(callbacks->data, &args->header);
}

// Registers an author for the target.
static void register_author(Author *author, const char *target) {
    HloModule *module = NULL;
    cr_assert_null(hlo_parse(body, sizeof(body) - 1, NULL, &module));
    cr_assert_null(hlo_module_to_stablehlo_bytecode(module, NULL, &author->program));
    hlo_module_free(module);
    author->callbacks = (PjrtPartitionerCallbacks){
        .data = author, .partition = partition, .infer = infer, .propagate_user_sharding = propagate};
    PjrtCustomPartitionerExtension *extension =
        (PjrtCustomPartitionerExtension *)(void *)harness_extension(PJRT_EXTENSION_CUSTOM_PARTITIONER);
    PjrtRegisterPartitionerArgs args = {sizeof(args), target, strlen(target), &author->callbacks};
    cr_assert_null(extension->register_partitioner(&args));
}

// A call on four rows, which two devices share.
static PjrtLoadedExecutable *compile(PjrtClient *client, const char *target, const char *rule, PjrtError **error) {
    HloText text = {0};
    hlo_text_format(&text,
                    "module attributes {mhlo.num_partitions = 2 : i32} {\nfunc.func public @main(%%x: tensor<4x3xf32> "
                    "{mhlo.sharding = \"{devices=[2,1]<=[2]}\"}) -> (tensor<4x3xf32> {mhlo.sharding = "
                    "\"{devices=[2,1]<=[2]}\"}) {\n%%0 = stablehlo.custom_call "
                    "@%s(%%x) {backend_config = \"ours\"%s} : (tensor<4x3xf32>) -> tensor<4x3xf32>\nreturn %%0 : "
                    "tensor<4x3xf32>\n}\n}\n",
                    target, rule);
    PjrtLoadedExecutable *executable = harness_compile(client, text.data, text.length, 2, error);
    hlo_text_free(&text);
    return executable;
}

Test(pjrt_custom_partitioner, its_author_is_asked) {
    Author author = {0};
    PjrtError *error = NULL;
    PjrtClient *client = harness_client("v2-8");
    register_author(&author, "test.halve");
    PjrtLoadedExecutable *executable = compile(client, "test.halve", "", &error);
    harness_must(error, "compile");
    cr_expect_eq(author.asked, 1);
    cr_expect_geq(author.inferred, 1);
    cr_expect_eq(author.cleaned, author.inferred + 2, "partition and propagate_user_sharding");
    harness_destroy_executable(executable);
    harness_destroy_client(client);
    hlo_text_free(&author.program);
}

// Each of two devices halves its two rows of three.
static void expect_halves(PjrtClient *client, PjrtLoadedExecutable *executable) {
    PjrtBuffer *parts[] = {harness_numbers(client, 0, 2, 3, 0), harness_numbers(client, 1, 2, 3, 6)}, *results[2];
    PjrtBuffer *const *const arguments[] = {&parts[0], &parts[1]};
    PjrtBuffer **const lists[] = {&results[0], &results[1]};
    PjrtLoadedExecutableExecuteArgs args = {.struct_size = sizeof(args),
                                            .executable = executable,
                                            .argument_lists = arguments,
                                            .num_devices = 2,
                                            .num_args = 1,
                                            .output_lists = lists};
    harness_must(CALL(LoadedExecutable_Execute, &args), "Execute");
    for (int device = 0; device < 2; device++) {
        float given[6], halves[6];
        harness_read(parts[device], given, 6);
        harness_read(results[device], halves, 6);
        for (int i = 0; i < 6; i++) cr_expect_eq(halves[i], given[i] / 2, "device %d: %g", device, (double)halves[i]);
        harness_destroy_buffer(parts[device]);
        harness_destroy_buffer(results[device]);
    }
}

// What its author answered is part of the executable: one that is serialised and loaded runs without asking.
Test(pjrt_custom_partitioner, a_serialised_executable_has_the_answers) {
    Author author = {0};
    PjrtError *error = NULL;
    PjrtClient *client = harness_client("v2-8");
    register_author(&author, "test.halve");
    PjrtLoadedExecutable *compiled = compile(client, "test.halve", "", &error);
    harness_must(error, "compile");
    PjrtLoadedExecutableGetExecutableArgs plain = {.struct_size = sizeof(plain), .loaded_executable = compiled};
    harness_must(CALL(LoadedExecutable_GetExecutable, &plain), "GetExecutable");
    PjrtExecutableSerializeArgs bytes = {.struct_size = sizeof(bytes), .executable = plain.executable};
    harness_must(CALL(Executable_Serialize, &bytes), "Serialize");
    const int asked = author.asked, inferred = author.inferred;
    PjrtExecutableDeserializeAndLoadArgs load = {.struct_size = sizeof(load),
                                                 .client = client,
                                                 .serialized_executable = bytes.serialized_bytes,
                                                 .serialized_executable_size = bytes.serialized_bytes_size};
    harness_must(CALL(Executable_DeserializeAndLoad, &load), "DeserializeAndLoad");
    cr_expect(author.asked == asked && author.inferred == inferred, "loading asked the author again");
    expect_halves(client, compiled);
    expect_halves(client, load.loaded_executable);
    bytes.serialized_executable_deleter((void *)(uintptr_t)bytes.serialized_executable);
    PjrtExecutableDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = plain.executable};
    harness_must(CALL(Executable_Destroy, &destroy), "Executable_Destroy");
    harness_destroy_executable(load.loaded_executable);
    harness_destroy_executable(compiled);
    harness_destroy_client(client);
    hlo_text_free(&author.program);
}

// A rule takes the place of the questions about shardings.
Test(pjrt_custom_partitioner, a_sharding_rule_needs_no_question) {
    Author author = {0};
    PjrtError *error = NULL;
    PjrtClient *client = harness_client("v2-8");
    register_author(&author, "test.halve");
    PjrtLoadedExecutable *executable =
        compile(client, "test.halve",
                ", sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=3}, custom>", &error);
    harness_must(error, "compile");
    cr_expect(author.asked == 1 && author.inferred == 0 && author.cleaned == 1);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
    hlo_text_free(&author.program);
}

Test(pjrt_custom_partitioner, its_errors_are_the_compilation_s) {
    Author author = {.error = "cannot be sharded"};
    PjrtError *error = NULL;
    PjrtClient *client = harness_client("v2-8");
    register_author(&author, "test.refuse");
    cr_expect_null(compile(client, "test.refuse", "", &error));
    harness_refused(error, HLO_INVALID_ARGUMENT, "cannot be sharded");
    cr_expect_eq(author.cleaned, 1);
    harness_destroy_client(client);
    hlo_text_free(&author.program);
}

// Bytes that are not program are refused; this process has no Python that could read them.
Test(pjrt_custom_partitioner, an_unreadable_program_is_refused) {
    Author author = {0};
    PjrtError *error = NULL;
    PjrtClient *client = harness_client("v2-8");
    register_author(&author, "test.rubbish");
    hlo_text_free(&author.program);
    hlo_text_string(&author.program, "rubbish");
    cr_expect_null(compile(client, "test.rubbish", "", &error));
    cr_assert_not_null(error);
    PjrtErrorDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = error};
    CALL(Error_Destroy, &destroy);
    cr_expect_eq(author.asked + author.inferred + 1, author.cleaned);
    harness_destroy_client(client);
    hlo_text_free(&author.program);
}

// Without a registration, and without Python to bring JAX's, the call is refused by name.
Test(pjrt_custom_partitioner, a_call_without_author_is_refused) {
    PjrtError *error = NULL;
    PjrtClient *client = harness_client("v2-8");
    cr_expect_null(compile(client, PJRT_JAX_PARTITIONING_CALL, "", &error));
    harness_refused(error, 12, "custom_partitioning");
    harness_destroy_client(client);
}
