// SPDX-License-Identifier: Apache-2.0
// Refusals of the target: programs that it cannot compile, named by their instruction; options, buffers and launches
// that do not fit.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "targets/program.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct RefusedProgram {
    const char *head;  // of the module, after its name
    const char *body;  // other computations, and the entry's instructions after '|'
    HloCode code;
    const char *part;  // of the message
} RefusedProgram;

#define ADD "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[] add(a, b)\n}\n"
#define WHOLE " p = f32[8] parameter(0)\n"

static const RefusedProgram programs[] = {
    // counts
    {"replica_count=9", "|" WHOLE " ROOT r = f32[8] negate(p)\n", HLO_INVALID_ARGUMENT,
     "9 replicas of 1 partitions do not fit on the 8 devices of cpu:8"},
    {"replica_count=3, num_partitions=4", "|" WHOLE " ROOT r = f32[8] negate(p)\n", HLO_INVALID_ARGUMENT,
     "3 replicas of 4 partitions do not fit"},
    {"replica_count=-1", "|" WHOLE " ROOT r = f32[8] negate(p)\n", HLO_INVALID_ARGUMENT,
     "replica_count must be positive"},
    // aliases
    {"input_output_alias={ {}: (1, {}, may-alias) }", "|" WHOLE " ROOT r = f32[8] negate(p)\n", HLO_INVALID_ARGUMENT,
     "input_output_alias names a parameter or result that does not exist"},
    {"input_output_alias={ {1}: (0, {}, may-alias) }", "|" WHOLE " ROOT r = f32[8] negate(p)\n", HLO_INVALID_ARGUMENT,
     "input_output_alias does not fit the result"},
    {"input_output_alias={ {}: (0, {2}, may-alias) }", "|" WHOLE " ROOT r = f32[8] negate(p)\n", HLO_INVALID_ARGUMENT,
     "input_output_alias names a parameter or result that does not exist"},
    {"buffer_donor={ (1, {}) }", "|" WHOLE " ROOT r = f32[8] negate(p)\n", HLO_INVALID_ARGUMENT,
     "buffer_donor names a parameter that does not exist"},
    {"buffer_donor={ (0, {0}) }", "|" WHOLE " ROOT r = f32[8] negate(p)\n", HLO_INVALID_ARGUMENT,
     "buffer_donor names a parameter that does not exist"},
    // types: only an op's verifier looks at them, a custom call may have any
    {"", "| p = s32[3] parameter(0)\n ROOT r = s32[3] custom-call(p), custom_call_target=\"mhlo.tan\"\n",
     HLO_UNIMPLEMENTED, "%r: tan of s32"},
    // custom calls of sizes that have no arrays of dynamic size, and so are not the padder's
    {"", "| p = f32[4] parameter(0)\n ROOT t = (f32[4], s32[]) custom-call(p), custom_call_target=\"PadToStatic\"\n",
     HLO_INVALID_ARGUMENT, "%t (PadToStatic): no dimension has dynamic size"},
    {"", "| p = f32[4] parameter(0)\n ROOT t = (f32[4], s32[]) custom-call(p, p), custom_call_target=\"PadToStatic\"\n",
     HLO_INVALID_ARGUMENT, "%t: the shapes of custom call \"PadToStatic\" are inconsistent"},
    {"", "| ROOT t = f32[4] custom-call(), custom_call_target=\"SliceToDynamic\"\n", HLO_INVALID_ARGUMENT,
     "%t: the shapes of custom call \"SliceToDynamic\" are inconsistent"},
    // forms without a kernel
    {"", "| p = u64[4] parameter(0)\n ROOT r = (u64[4], u32[8]) rng-bit-generator(p), algorithm=rng_default\n",
     HLO_INVALID_ARGUMENT, "%r: the state must be u64[2] or u64[3]"},
    {"", "| p = s8[3000000000] parameter(0)\n ROOT t = (s8[2], s32[2]) topk(p), k=2, largest=true\n", HLO_UNIMPLEMENTED,
     "%t: indices into 3000000000 elements do not fit in s32"},
    {"",
     "lt {\n a = s8[] parameter(0)\n b = s8[] parameter(1)\n ROOT t = pred[] compare(a, b), direction=LT\n}\n"
     "| p = s8[5000000000] parameter(0)\n ROOT s = s8[5000000000] sort(p), dimensions={0}, to_apply=lt\n",
     HLO_UNIMPLEMENTED, "%s: sorting more than 2^32 elements"},
    {"",
     "| p = f32[4] parameter(0)\n q = f32[4] parameter(1)\n z = s32[] constant(0)\n i = (s32[]) tuple(z)\n"
     " ROOT r = f32[4] collective-permute(p, q, i, i), source_target_pairs={{0,0}}, slice_sizes={{4}}\n",
     HLO_UNIMPLEMENTED, "%r: collective-permute in place"},
    {"num_partitions=2",
     "| p = f32[4,2] parameter(0)\n o = f32[4,3] parameter(1)\n a = s32[2] constant({0,2})\n"
     " ROOT r = f32[4,3] ragged-all-to-all(p, o, a, a, a, a), channel_id=1, replica_groups={{0,1}}\n",
     HLO_INVALID_ARGUMENT, "%r: the operands do not agree"},
    // transfers
    {"num_partitions=2",
     "|" WHOLE " t = token[] after-all()\n s = (f32[8], u32[], token[]) send(p, t), channel_id=1\n"
     " ROOT d = token[] send-done(s), channel_id=1\n",
     HLO_FAILED_PRECONDITION, "%s: devices 0 and 1 both send on channel 1"},
    {"",
     "|" WHOLE " t = token[] after-all()\n q = (f32[8], f32[8]) tuple(p, p)\n"
     " s = ((f32[8], f32[8]), u32[], token[]) send(q, t), channel_id=1, is_host_transfer=true\n"
     " ROOT d = token[] send-done(s), channel_id=1, is_host_transfer=true\n",
     HLO_UNIMPLEMENTED, "%s: a transfer of several arrays"},
    // collectives
    {"num_partitions=4",
     "|" WHOLE " ROOT r = f32[16] all-gather(p), channel_id=1, use_global_device_ids=true, "
     "replica_groups={{0,1},{2},{3}}, dimensions={0}\n",
     HLO_UNIMPLEMENTED, "all-gather %r: groups of different sizes"},
    {"num_partitions=4",
     ADD "|" WHOLE
         " ROOT r = f32[8] all-reduce(p), channel_id=1, use_global_device_ids=true, replica_groups={{0,1},{2,9}}, "
         "to_apply=add\n",
     HLO_INVALID_ARGUMENT, "all-reduce %r"},
    {"num_partitions=4",
     ADD "|" WHOLE " ROOT r = f32[8] all-reduce(p), channel_id=1, use_global_device_ids=true, replica_groups={{0,1}}, "
         "to_apply=add\n",
     HLO_INVALID_ARGUMENT, "all-reduce %r on 1 replicas of 4 partitions: device 2 is in no replica group"},
    {"num_partitions=3",
     ADD "|" WHOLE
         " ROOT r = f32[2] reduce-scatter(p), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2}}, "
         "dimensions={0}, to_apply=add\n",
     HLO_INVALID_ARGUMENT, "reduce-scatter %r: dimension 0 is not divisible into 3 parts"},
    {"num_partitions=3",
     "|" WHOLE " ROOT r = f32[8] all-to-all(p), channel_id=1, replica_groups={{0,1,2}}, dimensions={0}\n",
     HLO_INVALID_ARGUMENT, "all-to-all %r: dimension 0 is not divisible into 3 parts"},
    {"num_partitions=3",
     "|" WHOLE " ROOT r = (f32[8], f32[8]) all-to-all(p, p), channel_id=1, replica_groups={{0,1,2}}\n",
     HLO_INVALID_ARGUMENT, "all-to-all %r: 2 operands for groups of 3"},
    {"num_partitions=2",
     "|" WHOLE " ROOT r = f32[8] collective-permute(p), channel_id=1, source_target_pairs={{0,2}}\n",
     HLO_INVALID_ARGUMENT, "collective-permute %r: {0,2} names a device that does not exist"},
    {"num_partitions=2",
     "|" WHOLE " ROOT r = f32[8] collective-permute(p), channel_id=1, source_target_pairs={{-1,0}}\n",
     HLO_INVALID_ARGUMENT, "names a device that does not exist"},
    {"num_partitions=3",
     "|" WHOLE " ROOT r = f32[8] collective-permute(p), channel_id=1, source_target_pairs={{0,1},{2,1}}\n",
     HLO_INVALID_ARGUMENT, "collective-permute %r: device 1 is the target of two pairs"},
    {"num_partitions=2",
     "|" WHOLE " q = f32[8] parameter(1)\n o = s32[2] constant({2, 2})\n"
     " ROOT r = f32[8] ragged-all-to-all(p, q, o, o, o, o), channel_id=1, replica_groups={{0,1,2}}\n",
     HLO_INVALID_ARGUMENT, "ragged-all-to-all %r"},
    {"", "| p = f32[?] parameter(0)\n ROOT r = f32[?] negate(p)\n", HLO_UNIMPLEMENTED, "%p has an unbounded dimension"},
    {"", "| p = (f32[4], f32[4,?]) parameter(0)\n ROOT r = f32[4] get-tuple-element(p), index=0\n", HLO_UNIMPLEMENTED,
     "%p has an unbounded dimension"},
    {"", "| ROOT p = b(f32[2]) parameter(0)\n", HLO_UNIMPLEMENTED,
     "%p is a value that is neither an array nor a token"},
    {"", "| p = opaque[] parameter(0)\n ROOT r = (opaque[]) tuple(p)\n", HLO_UNIMPLEMENTED,
     "%p is a value that is neither an array nor a token"},
    // bug: the result had more leaves than there were buffers, and memory kinds were written past the end of their
    // list.
    {"", "|" WHOLE " ROOT r = (f32[8], f32[8], u32[]) copy-start(p)\n", HLO_UNIMPLEMENTED,
     "%r: only the matching done may use copy-start"},
    {"",
     "|" WHOLE " s = (f32[8], f32[8], u32[]) copy-start(p)\n t = ((f32[8], f32[8], u32[])) tuple(s)\n"
     " g = (f32[8], f32[8], u32[]) get-tuple-element(t), index=0\n ROOT r = f32[8] copy-done(g)\n",
     HLO_UNIMPLEMENTED, "%s: only the matching done may use copy-start"},
    // bug: a program reached an assertion about the table of ops that the evaluator runs.
    {"", "|" WHOLE " n = s32[] parameter(1)\n ROOT r = f32[8] set-dimension-size(p, n), dimensions={0}\n",
     HLO_UNIMPLEMENTED, "%r: set-dimension-size in this form"},
    // forms that neither a kernel nor the evaluator has
    {"", "|" WHOLE " ROOT r = f32[8] custom-call(p), custom_call_target=\"nobody\"\n", HLO_UNIMPLEMENTED, "nobody"},
    {"", "|" WHOLE " ROOT r = f32[<=8] custom-call(p), custom_call_target=\"nobody\"\n", HLO_UNIMPLEMENTED, ""},
    {"",
     "|" WHOLE " d = f32[8] domain(p), domain={kind=\"sharding\", entry={replicated}, exit={maximal device=1}}\n"
     " ROOT r = (f32[8]) async-start(d), calls=nothing\n",
     HLO_INVALID_ARGUMENT, "nothing"},
};

static HloModule *module_of(const RefusedProgram *program, HloText *message) {
    HloText text = {0};
    const char *bar = strchr(program->body, '|');
    cr_assert_not_null(bar);
    hlo_text_format(&text, "HloModule m%s%s\n%.*sENTRY e {\n%s}\n", *program->head ? ", " : "", program->head,
                    (int)(bar - program->body), program->body, bar + 1);
    HloModule *module = compiled_parse(text.data, message);
    hlo_text_free(&text);
    return module;
}

Test(cpu_refused, programs) {
    TargetClient *client = NULL;
    must_succeed(target_client_new_with_threads("cpu:8", 1, &client));
    for (size_t i = 0; i < HLO_COUNT_OF(programs); i++) {
        HloText message = {0};
        TargetExecutable *executable = NULL;
        HloModule *module = module_of(&programs[i], &message);
        HloStatus status = module ? target_compile(client, module, NULL, &executable)
                                  : hlo_error(HLO_INVALID_ARGUMENT, "%s", message.data);
        cr_expect(hlo_status_code(status) == programs[i].code && strstr(hlo_status_message(status), programs[i].part),
                  "%s %s\n%s: %s, where %s was to come", programs[i].head, programs[i].body,
                  hlo_code_name(hlo_status_code(status)), hlo_status_message(status), programs[i].part);
        cr_expect_null(executable);
        hlo_status_free(status);
        hlo_text_free(&message);
        hlo_module_free(module);
    }
    target_client_release(client);
}

// ---- clients, buffers, launches

static TargetClient *new_client(const char *spec) {
    TargetClient *client = NULL;
    must_succeed(target_client_new_with_threads(spec, 1, &client));
    return client;
}

static TargetMemory *memory_of(const TargetClient *client, int64_t device) {
    return target_device_default_memory(target_client_device(client, device));
}

// bug: called computations were compiled for each call, however long that took.
Test(cpu_refused, bug_calls_of_calls_were_compiled_without_end) {
    HloText text = {0};
    cases_call_tree(&text, "", 26);
    HloModule *module = compiled_must_parse(text.data);
    TargetClient *client = NULL;
    TargetExecutable *executable = NULL;
    must_succeed(target_client_new_with_threads("cpu:1", 1, &client));
    must_fail(target_compile(client, module, NULL, &executable), HLO_UNIMPLEMENTED,
              "%b.17 in %c18: with a copy of %c17 there are more than 1048576 instructions in copies");
    target_client_release(client);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// bug: so were the computations that fusions and elementwise functions call, which were not counted.
Test(cpu_refused, bug_fusions_of_fusions_were_compiled_without_end) {
    static const char *const ops[][2] = {{"fusion", "kind=kLoop, calls"}, {"map", "dimensions={}, to_apply"}};
    TargetClient *client = NULL;
    must_succeed(target_client_new_with_threads("cpu:1", 1, &client));
    for (size_t i = 0; i < HLO_COUNT_OF(ops); i++) {
        HloText text = {0};
        cases_tree_of(&text, "", 60, ops[i][0], ops[i][1]);
        HloModule *module = compiled_must_parse(text.data);
        TargetExecutable *executable = NULL;
        must_fail(target_compile(client, module, NULL, &executable), HLO_UNIMPLEMENTED,
                  "%b.17 in %c18: with a copy of %c17 there are more than 1048576 instructions in copies");
        hlo_module_free(module);
        hlo_text_free(&text);
    }
    target_client_release(client);
}

// bug: the engine found the error only when it ran the sort, and its message had no place.
Test(cpu_refused, bug_sorts_of_many_arrays) {
    enum { kArrays = 65 };
    HloText text = {0};
    hlo_text_string(&text, "HloModule m\nlt {\n");
    for (int i = 0; i < 2 * kArrays; i++) hlo_text_format(&text, " x%d = f32[] parameter(%d)\n", i, i);
    hlo_text_string(&text, " ROOT t = pred[] compare(x0, x1), direction=LT\n}\nENTRY e {\n");
    for (int i = 0; i < kArrays; i++) hlo_text_format(&text, " p%d = f32[4] parameter(%d)\n", i, i);
    hlo_text_string(&text, " ROOT s = (");
    for (int i = 0; i < kArrays; i++) hlo_text_string(&text, i ? ", f32[4]" : "f32[4]");
    for (int i = 0; i < kArrays; i++) hlo_text_format(&text, "%sp%d", i ? ", " : ") sort(", i);
    hlo_text_string(&text, "), dimensions={0}, to_apply=lt\n}\n");
    HloModule *module = compiled_must_parse(text.data);
    TargetClient *client = NULL;
    TargetExecutable *executable = NULL;
    must_succeed(target_client_new_with_threads("cpu:1", 1, &client));
    must_fail(target_compile(client, module, NULL, &executable), HLO_UNIMPLEMENTED,
              "%s: sort of more than 64 arrays at once");
    target_client_release(client);
    hlo_module_free(module);
    hlo_text_free(&text);
}

static void expect_rows_refused(const char *starts, const char *sizes, const char *targets, const char *wanted) {
    HloText text = {0}, message = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=2\nENTRY e {\n p = f32[4,2] parameter(0)\n"
                    " o = f32[4,2] parameter(1)\n a = s64[2] constant(%s)\n n = s64[2] constant(%s)\n"
                    " t = s64[2] constant(%s)\n ROOT r = f32[4,2] ragged-all-to-all(p, o, a, n, t, n), channel_id=1, "
                    "replica_groups={{0,1}}\n}\n",
                    starts, sizes, targets);
    HloModule *module = compiled_must_parse(text.data);
    const CompiledCheck check = {.spec = "cpu:2", .threads = 1};
    HloLiteral *results[2] = {0};
    cr_expect_not(compiled_run(module, &check, results, &message));
    cr_expect(strstr(message.data, wanted), "%s", message.data);
    hlo_text_free(&message);
    hlo_text_free(&text);
    hlo_module_free(module);
}

// Sizes and places are values of the program: sums of them need not fit in 64 bits.
Test(cpu_refused, rows_that_do_not_fit) {
    expect_rows_refused("{0,2}", "{3,3}", "{0,0}", "%r: rows from 2 on, 3 of them, do not fit");
    expect_rows_refused("{9223372036854775807,0}", "{3,3}", "{0,0}",
                        "%r: rows from 9223372036854775807 on, 3 of them, do not fit");
    expect_rows_refused("{0,0}", "{3,-1}", "{0,0}", "%r: rows from 0 on, -1 of them, do not fit");
    expect_rows_refused("{0,0}", "{3,3}", "{9223372036854775807,0}", "%r: rows from 0 on, 3 of them, do not fit");
}

Test(cpu_refused, programs_without_an_entry) {
    HloModule *module = compiled_must_parse("HloModule nothing\nENTRY e {\n ROOT p = f32[8] parameter(0)\n}\n");
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *executable = NULL;
    module->entry = NULL;
    must_fail(target_compile(client, module, NULL, &executable), HLO_INVALID_ARGUMENT,
              "module nothing has no entry computation");
    target_client_release(client);
    hlo_module_free(module);
}

Test(cpu_refused, environments) {
    TargetClient *client = NULL;
    setenv("MESHLO_NUMERICS", "approximate", 1);
    must_fail(target_client_new("cpu:1", &client), HLO_INVALID_ARGUMENT,
              "MESHLO_NUMERICS is 'approximate'; expected exact or tpu");
    unsetenv("MESHLO_NUMERICS");
    setenv("MESHLO_CPU_FEATURES", "abacus", 1);
    must_fail(target_client_new_with_threads("cpu:1", 1, &client), HLO_INVALID_ARGUMENT,
              "MESHLO_CPU_FEATURES is 'abacus'");
    unsetenv("MESHLO_CPU_FEATURES");
    cr_expect_null(client);
}

Test(cpu_refused, buffers_that_are_no_arrays) {
    TargetClient *client = new_client("cpu:2"), *other = new_client("cpu:1");
    TargetMemory *memory = memory_of(client, 0);
    TargetBuffer *buffer = NULL, *result = NULL;
    const int64_t dims[] = {2, 3}, large[65] = {0}, six = 6, seven = 7;
    const float values[6] = {0};
    const HloShape *const elements[] = {&(HloShape){.type = HLO_F32}};
    const HloShape tuple = {.type = HLO_TUPLE, .elements = elements, .element_count = 1},
                   array = {.type = HLO_F32, .rank = 2, .dims = dims};
    const HloShape token = {.type = HLO_TOKEN}, flat = {.type = HLO_F32, .rank = 1, .dims = &six},
                   longer = {.type = HLO_F32, .rank = 1, .dims = &seven};
    must_fail(target_buffer_uninitialized(&tuple, memory, &buffer), HLO_INVALID_ARGUMENT,
              "a buffer holds one array, not tuple");
    must_fail(target_buffer_pending(&tuple, memory, &buffer), HLO_INVALID_ARGUMENT,
              "a buffer holds one array, not tuple");
    must_fail(target_buffer_from_error(&tuple, memory, hlo_error(HLO_ABORTED, "x"), &buffer), HLO_INVALID_ARGUMENT,
              "a buffer holds one array, not tuple");
    const TargetHostArray of_tokens = {values, HLO_TOKEN, 0, NULL, NULL}, of_rank = {values, HLO_F32, 65, large, NULL},
                          below = {values, HLO_F32, -1, large, NULL};
    must_fail(target_buffer_from_host(&of_tokens, memory, &buffer), HLO_INVALID_ARGUMENT, "a host array of type token");
    must_fail(target_buffer_from_host(&of_rank, memory, &buffer), HLO_INVALID_ARGUMENT, "an array of rank 65");
    must_fail(target_buffer_from_host(&below, memory, &buffer), HLO_INVALID_ARGUMENT, "an array of rank -1");
    HloLiteral *elided = hlo_literal_new(&array);
    elided->elided = true;
    must_fail(target_buffer_from_literal(elided, memory, &buffer), HLO_INVALID_ARGUMENT, "values were elided");
    hlo_literal_free(elided);
    cr_assert_null(buffer);
    const TargetHostArray good = {values, HLO_F32, 2, dims, NULL};
    must_succeed(target_buffer_from_host(&good, memory, &buffer));
    must_fail(target_buffer_copy_to_memory(buffer, memory_of(other, 0), &result), HLO_INVALID_ARGUMENT,
              "a memory of another client");
    must_fail(target_buffer_bitcast(buffer, &token, &result), HLO_INVALID_ARGUMENT, "a bitcast to token");
    must_fail(target_buffer_bitcast(buffer, &longer, &result), HLO_INVALID_ARGUMENT,
              "a bitcast of 24 bytes to an array of 28");
    must_succeed(target_buffer_bitcast(buffer, &flat, &result));
    target_buffer_release(result);
    float out[6];
    static const int64_t pieces[][2] = {{-4, 4}, {0, -4}, {0, 25}, {24, 4}, {28, 0}, {8, INT64_MAX}};
    for (size_t i = 0; i < HLO_COUNT_OF(pieces); i++)
        must_fail(target_buffer_to_host_raw(buffer, out, pieces[i][0], pieces[i][1]), HLO_INVALID_ARGUMENT,
                  "of a buffer of 24");
    target_buffer_release(buffer);
    target_client_release(client);
    target_client_release(other);
}

// A host that only sends, for a program that sends too.
Test(cpu_refused, transfers_to_a_host_that_does_not_listen) {
    static const char text[] =
        "HloModule m\nENTRY e {\n p = f32[8] parameter(0)\n a = token[] after-all()\n"
        " s = (f32[8], u32[], token[]) send(p, a), channel_id=5, is_host_transfer=true\n"
        " ROOT d = token[] send-done(s), channel_id=5, is_host_transfer=true\n}\n";
    TargetClient *client = new_client("cpu:1");
    TargetExecutable *executable = compiled_must_compile(client, text, NULL);
    TargetBuffer *argument = NULL, *result[1] = {NULL}, **results[] = {result};
    const float values[8] = {0};
    const int64_t eight = 8;
    const TargetHostArray array = {values, HLO_F32, 1, &eight, NULL};
    must_succeed(target_buffer_from_host(&array, memory_of(client, 0), &argument));
    TargetBuffer *const row[] = {argument}, *const * rows[] = {row};
    const TargetExecuteOptions options = {.transfers = &(TargetHostTransfers){0}, .synchronous = true};
    must_fail(target_execute(executable, &options, rows, 1, results, NULL), HLO_INVALID_ARGUMENT,
              "%s: no host callback is registered for channel 5");
    target_buffer_release(result[0]);
    target_buffer_release(argument);
    target_executable_release(executable);
    target_client_release(client);
}

Test(cpu_refused, devices_that_are_named_wrongly) {
    TargetClient *client = new_client("cpu:4"), *other = new_client("cpu:4");
    static const char two[] = "HloModule two, num_partitions=2\nENTRY e {\n ROOT p = f32[8] parameter(0)\n}\n",
                      one[] = "HloModule one\nENTRY e {\n ROOT p = f32[8] parameter(0)\n}\n";
    static const struct {
        int64_t ids[2];
        const char *part;
    } cases[] = {{{0, 4}, "the device assignment names device 4, which cpu:4 does not have"},
                 {{-1, 0}, "names device -1"},
                 {{3, 3}, "the device assignment names device 3 twice"}};
    HloModule *module = compiled_must_parse(two);
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        TargetExecutable *executable = NULL;
        const TargetCompileOptions options = {.partition_count = 2, .device_assignment = cases[i].ids};
        must_fail(target_compile(client, module, &options, &executable), HLO_INVALID_ARGUMENT, cases[i].part);
        cr_expect_null(executable);
    }
    hlo_module_free(module);
    TargetExecutable *pair = compiled_must_compile(client, two, NULL),
                     *single = compiled_must_compile(client, one, NULL);
    TargetBuffer *const *rows[2] = {NULL, NULL};
    TargetBuffer **results[2] = {NULL, NULL};
    const TargetExecuteOptions here = {.device = target_client_device(client, 1)},
                               elsewhere = {.device = target_client_device(other, 1)};
    TargetBuffer *argument = NULL;
    const float values[8] = {0};
    const int64_t eight = 8;
    const TargetHostArray array = {values, HLO_F32, 1, &eight, NULL};
    must_succeed(target_buffer_from_host(&array, memory_of(client, 0), &argument));
    TargetBuffer *const row[] = {argument};
    rows[0] = rows[1] = row;
    must_fail(target_execute(pair, &here, rows, 1, results, NULL), HLO_INVALID_ARGUMENT,
              "two runs on 2 devices, not on a single one named by the caller");
    must_fail(target_execute(single, &elsewhere, rows, 1, results, NULL), HLO_INVALID_ARGUMENT,
              "one cannot run on a device of another client");
    must_fail(target_execute(single, NULL, rows, 0, results, NULL), HLO_INVALID_ARGUMENT, "0 arguments; one takes 1");
    target_executable_delete(single);
    must_fail(target_execute(single, NULL, rows, 1, results, NULL), HLO_FAILED_PRECONDITION,
              "executable one has been deleted");
    target_buffer_release(argument);
    target_executable_release(pair);
    target_executable_release(single);
    target_client_release(client);
    target_client_release(other);
}

Test(cpu_refused, pictures_of_arrays_without_two_dimensions) {
    TargetClient *client = new_client("cpu:2");
    HloModule *module = compiled_must_parse(
        "HloModule m\nENTRY e {\n p = f32[2,2,2] parameter(0)\n q = f32[] parameter(1)\n ROOT r = (f32[2,2,2], f32[]) "
        "tuple(p, q)\n}\n");
    TargetProgram *program = NULL;
    HloText picture = {0};
    must_succeed(target_program_new(client, module, NULL, &program));
    for (int64_t i = 0; i < 2; i++) {
        HloLiteral *value = compiled_random(module->entry->parameters.items[i]->shape, 1);
        TargetArray *array = NULL;
        must_succeed(target_program_place(program, i, value, &array));
        must_fail(target_array_draw(array, &picture), HLO_INVALID_ARGUMENT,
                  "only arrays of one or two dimensions can be drawn");
        target_array_release(array);
        hlo_literal_free(value);
    }
    cr_expect_eq(picture.length, 0);
    hlo_module_free(module);
    target_program_free(program);
    target_client_release(client);
}
