// SPDX-License-Identifier: Apache-2.0
// Programs that the evaluator refuses: it is the oracle, so it must not guess. They come straight from the parser,
// since a user of the library may forget to verify them.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hlo/eval/eval.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct RefusedProgram {
    const char *head;  // of the module, after its name
    const char *called;
    const char *body;  // of the entry
    HloCode code;
    const char *part;  // of the message
} RefusedProgram;

#define ADD "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[] add(a, b)\n}\n"
#define LESS \
    "less {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = pred[] compare(a, b), direction=LT\n}\n"
#define P " p = f32[8] parameter(0)\n"

static const RefusedProgram programs[] = {
    // sizes that differ from the shape's
    {"", "",
     " p = f32[2,8] parameter(0)\n n = s32[] constant(1)\n x = f32[<=2,8] set-dimension-size(p, n), dimensions={0}\n"
     " ROOT r = f32[8,8] concatenate(p, p, p, x), dimensions={0}\n",
     HLO_INVALID_ARGUMENT, "has size 7 at run time, but was declared as 8"},
    {"", "one {\n ROOT a = f32[1] parameter(0)\n}\n",
     P " ROOT r = f32[8] custom-call(p), custom_call_target=\"CustomSPMDPartitioning\", called_computations={one}\n",
     HLO_INVALID_ARGUMENT, "%r: the shapes of custom call \"CustomSPMDPartitioning\" are inconsistent"},
    {"", "", " p = f32[8,2]{1,0:T(2,2)(2)(2)(2)(2)} parameter(0)\n ROOT r = f32[16]{0} bitcast(p)\n", HLO_UNIMPLEMENTED,
     "%r: a bitcast between these layouts"},
    {"", "",
     " t = token[] after-all()\n v = (f32[8], u32[], token[]) recv(t), channel_id=1\n"
     " w = (f32[8], token[]) recv-done(v), channel_id=1\n ROOT r = f32[8] get-tuple-element(w), index=0\n",
     HLO_FAILED_PRECONDITION, "no other device is running"},
    {"", "", P " u = u32[8] parameter(1)\n ROOT r = c64[8] stochastic-convert(p, u)\n", HLO_UNIMPLEMENTED,
     "a stochastic conversion to complex numbers"},
    // collectives
    {"num_partitions=2", "", P " ROOT r = f32[8] collective-permute(p), channel_id=1, source_target_pairs={{0,2}}\n",
     HLO_INVALID_ARGUMENT, "%r: pair {0,2} does not fit 2 devices"},
    {"num_partitions=2", "", P " ROOT r = f32[8] collective-permute(p), channel_id=1, source_target_pairs={{-1,0}}\n",
     HLO_INVALID_ARGUMENT, "%r: pair {-1,0} does not fit 2 devices"},
    {"num_partitions=3", ADD,
     P " ROOT r = f32[2] reduce-scatter(p), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2}}, "
       "dimensions={0}, to_apply=add\n",
     HLO_INVALID_ARGUMENT, "%r: 3 devices cannot split dimension 0 of size 8"},
    {"num_partitions=3", "",
     P " ROOT r = f32[20] all-gather(p), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2}}, "
       "dimensions={0}\n",
     HLO_INVALID_ARGUMENT, "%r: 3 shards of 8 do not make dimension 0 of size 20"},
    {"num_partitions=3", "",
     P " ROOT r = f32[8] all-to-all(p), channel_id=1, replica_groups={{0,1,2}}, dimensions={0}\n", HLO_INVALID_ARGUMENT,
     "%r: 3 devices cannot split dimension 0 of size 8"},
    {"num_partitions=3", "", P " ROOT r = (f32[8], f32[8]) all-to-all(p, p), channel_id=1, replica_groups={{0,1,2}}\n",
     HLO_INVALID_ARGUMENT, "%r: 2 operands for 3 devices"},
    {"num_partitions=2", ADD,
     P " ROOT r = f32[8] all-reduce(p), channel_id=1, use_global_device_ids=true, replica_groups={{0}}, to_apply=add\n",
     HLO_INVALID_ARGUMENT, "device 1"},
    {"num_partitions=2", "",
     P " q = f32[8] parameter(1)\n o = s32[2] constant({6, 6})\n z = s32[2] constant({4, 4})\n"
       " ROOT r = f32[8] ragged-all-to-all(p, q, o, z, o, z), channel_id=1, replica_groups={{0,1}}\n",
     HLO_INVALID_ARGUMENT, "%r: rows "},
    // bug: the sum of offset and size overflowed 64 bits and was compared anyway.
    {"num_partitions=2", "",
     P " q = f32[8] parameter(1)\n o = s64[2] constant({9223372036854775807, 9223372036854775807})\n"
       " z = s64[2] constant({4, 4})\n"
       " ROOT r = f32[8] ragged-all-to-all(p, q, o, z, z, z), channel_id=1, replica_groups={{0,1}}\n",
     HLO_INVALID_ARGUMENT, "%r: rows "},
    {"num_partitions=2", "",
     " p = f32[8,2] parameter(0)\n q = f32[8] parameter(1)\n o = s32[2] constant({2, 2})\n"
     " ROOT r = f32[8] ragged-all-to-all(p, q, o, o, o, o), channel_id=1, replica_groups={{0,1}}\n",
     HLO_INVALID_ARGUMENT, "the operands do not agree"},
    // sizes that are computed
    {"", "", P " n = s32[] constant(9)\n ROOT r = f32[<=8] set-dimension-size(p, n), dimensions={0}\n",
     HLO_INVALID_ARGUMENT, "%r: size 9 is beyond the bound 8 of dimension 0"},
    {"", "", P " n = s32[] constant(-1)\n ROOT r = f32[<=8] set-dimension-size(p, n), dimensions={0}\n",
     HLO_INVALID_ARGUMENT, "%r: size -1 is beyond the bound 8"},
    {"", "", P " n = s32[] constant(9)\n ROOT r = f32[<=8] dynamic-reshape(p, n)\n", HLO_INVALID_ARGUMENT,
     "%r: size 9 does not fit the bound 8"},
    {"", "", P " n = s32[] constant(7)\n ROOT r = f32[<=8] dynamic-reshape(p, n)\n", HLO_INVALID_ARGUMENT,
     "%r: 8 elements cannot become 7"},
    // bug: the bytes of tiles of this size were counted modulo 2^64, and elements were written past the array.
    {"", "", " p = f32[4,4] parameter(0)\n ROOT r = f32[4,4]{1,0:T(8388608,8388608)(70368744177664,1)} bitcast(p)\n",
     HLO_RESOURCE_EXHAUSTED, "%r: a bitcast through tiles of no known memory"},
    {"", "", " p = f32[2,1]{1,0:T(1000000006,2)(2,1)} parameter(0)\n ROOT r = f32[2,1]{1,0} bitcast(p)\n",
     HLO_RESOURCE_EXHAUSTED, "%r: a bitcast through tiles of no known memory"},
    // custom calls
    {"", "", P " ROOT r = f32[8] custom-call(p), custom_call_target=\"nobody\"\n", HLO_UNIMPLEMENTED, "nobody"},
    {"", "", P " ROOT r = f32[2] custom-call(p), custom_call_target=\"TopK\"\n", HLO_INVALID_ARGUMENT,
     "%r: the shapes of custom call \"TopK\" are inconsistent: "},
    {"", "", " ROOT r = (f32[2], s32[2]) custom-call(), custom_call_target=\"TopK\"\n", HLO_INVALID_ARGUMENT,
     "%r: the shapes of custom call \"TopK\" are inconsistent: "},
    {"", LESS, P " ROOT r = f32[2] custom-call(p, p), custom_call_target=\"ApproxTopK\", called_computations={less}\n",
     HLO_INVALID_ARGUMENT, "%r: the shapes of custom call \"ApproxTopK\" are inconsistent: "},
    {"", "", " ROOT r = (f32[2], s32[2]) custom-call(), custom_call_target=\"ApproxTopK\"\n", HLO_INVALID_ARGUMENT,
     "%r: the shapes of custom call \"ApproxTopK\" are inconsistent: "},
    {"", LESS,
     P " z = f32[] constant(0)\n ROOT r = (f32[9]) custom-call(p, z), custom_call_target=\"ApproxTopK\", "
       "called_computations={less}\n",
     HLO_INVALID_ARGUMENT, "%r: the shapes of custom call \"ApproxTopK\" are inconsistent: "},
    {"", "", P " ROOT r = f32[4] custom-call(p), custom_call_target=\"Sharding\"\n", HLO_INVALID_ARGUMENT,
     "%r: the shapes of custom call \"Sharding\" are inconsistent: "},
    {"", "", P " ROOT r = f32[8] custom-call(p, p), custom_call_target=\"mhlo.erf\"\n", HLO_INVALID_ARGUMENT,
     "%r: the shapes of custom call \"mhlo.erf\" are inconsistent: "},
    // random numbers
    {"", "",
     " s = u64[4] constant({1,2,3,4})\n ROOT r = (u64[4], u32[8]) rng-bit-generator(s), algorithm=rng_default\n",
     HLO_INVALID_ARGUMENT, "%r: the state must be u64[2] or u64[3]"},
    {"", "", " s = u64[2] constant({1,2})\n ROOT r = c64[8] rng-bit-generator(s), algorithm=rng_default\n",
     HLO_UNIMPLEMENTED, "%r (rng-bit-generator): a complex random number"},
    {"", "",
     " p = f32[4,4] parameter(0)\n ROOT r = (f32[4,4], f32[4,4], f32[4], f32[4], s32[], s32[]) custom-call(p), "
     "custom_call_target=\"lapack_sgees_ffi\", "
     "backend_config={mode = 86 : ui8, sort = 83 : ui8}\n",
     HLO_UNIMPLEMENTED, "%r: a Schur form with sorted eigenvalues"},
    // bug: the row after the last number of all was below the end.
    {"", "",
     " p = f32[4,4] parameter(0)\n ROOT r = (f32[4,4], f32[3], s32[]) custom-call(p), "
     "custom_call_target=\"lapack_sgehrd_ffi\", "
     "backend_config={low = 9223372036854775807 : i32, high = 9223372036854775807 : i32}\n",
     HLO_INVALID_ARGUMENT, "%r: rows 9223372036854775807 to 9223372036854775807 of a matrix of 4"},
    {"", "",
     " p = f32[4,4] parameter(0)\n ROOT r = (f32[4,4], f32[3], s32[]) custom-call(p), "
     "custom_call_target=\"lapack_sgehrd_ffi\", backend_config={low = 0 : i32, high = 4 : i32}\n",
     HLO_INVALID_ARGUMENT, "%r: rows 0 to 4 of a matrix of 4"},
    {"", "", P " ROOT r = f32[8] custom-call(p), custom_call_target=\"CustomSPMDPartitioning\"\n", HLO_UNIMPLEMENTED,
     "%r: there is no implementation of an operation of jax.experimental.custom_partitioning"},
    {"", "body {\n ROOT a = f32[9] parameter(0)\n}\n",
     P " ROOT r = f32[8] custom-call(p), custom_call_target=\"CustomSPMDPartitioning\", called_computations={body}\n",
     HLO_INVALID_ARGUMENT, "%r: the shapes of custom call \"CustomSPMDPartitioning\" are inconsistent"},
    // the boundary of padded programs
    {"", "", P " ROOT r = (f32[8], f32[]) custom-call(p), custom_call_target=\"PadToStatic\"\n", HLO_INVALID_ARGUMENT,
     "are inconsistent: "},
    {"", "", P " n = f32[] constant(4)\n ROOT r = f32[<=8] custom-call(p, n), custom_call_target=\"SliceToDynamic\"\n",
     HLO_INVALID_ARGUMENT, "are inconsistent: "},
    {"", "", P " n = s32[] constant(9)\n ROOT r = f32[<=8] custom-call(p, n), custom_call_target=\"SliceToDynamic\"\n",
     HLO_INVALID_ARGUMENT, "%r: size 9 does not fit the bound 8"},
    {"", "", P " n = s32[] constant(-1)\n ROOT r = f32[<=8] custom-call(p, n), custom_call_target=\"SliceToDynamic\"\n",
     HLO_INVALID_ARGUMENT, "%r: size -1 does not fit the bound 8"},
    // shapes that were never verified
    {"", "row {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[2] broadcast(a), dimensions={}\n}\n",
     P " z = f32[] constant(0)\n ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=row\n", HLO_INVALID_ARGUMENT,
     "computation %row must return scalars"},
    {"", "", P " ROOT r = f32[9] reshape(p)\n", HLO_INVALID_ARGUMENT,
     "an array cannot be reinterpreted with a different size"},
    {"", "", P " ROOT r = f32[?] broadcast(p), dimensions={0}\n", HLO_UNIMPLEMENTED,
     "a dimension without a bound cannot be evaluated"},
    {"", "", " p = f32[4,2]{0,1} parameter(0)\n ROOT r = s16[8,2]{0,1} bitcast(p)\n", HLO_UNIMPLEMENTED,
     "%r: a bitcast between elements of different size"},
    // forms that are not supported
    {"num_partitions=2", "",
     P " q = f32[8] parameter(1)\n i = s32[] constant(0)\n t = (s32[]) tuple(i)\n"
       " ROOT r = f32[8] collective-permute(p, q, t, t), channel_id=1, source_target_pairs={{0,1}}, "
       "slice_sizes={{4}}\n",
     HLO_UNIMPLEMENTED, "%r (collective-permute): a permute into parts of a buffer"},
    {"", "",
     " p = f16[16,32] parameter(0)\n q = f16[32,16] parameter(1)\n m = u16[16,4] parameter(2)\n"
     " ROOT r = f32[16,16] dot(p, q, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
     HLO_UNIMPLEMENTED, "%r (dot): a sparse dot"},
    {"", "", " p = c128[2] parameter(0)\n ROOT r = s4[2,32] bitcast-convert(p)\n", HLO_UNIMPLEMENTED,
     "%r (bitcast-convert): this pair of types"},
    {"num_partitions=2", "",
     P " n = s32[] constant(4)\n d = f32[<=8] set-dimension-size(p, n), dimensions={0}\n"
       " ROOT r = f32[<=16] all-gather(d), channel_id=1, use_global_device_ids=true, replica_groups={{0,1}}, "
       "dimensions={0}\n",
     HLO_UNIMPLEMENTED, "%r (all-gather): splitting a dimension of dynamic size"},
    // types that do not follow
    {"", "half {\n ROOT a = f16[8] parameter(0)\n}\n", P " ROOT r = f16[8] call(p), to_apply=half\n", HLO_UNIMPLEMENTED,
     "a mixture of float types"},
    {"", "same {\n ROOT a = f32[8] parameter(0)\n}\n", P " ROOT r = f16[8] call(p), to_apply=same\n", HLO_UNIMPLEMENTED,
     "a mixture of float types"},
    {"", "", P " ROOT r = f16[8] copy(p)\n", HLO_UNIMPLEMENTED, "a mixture of float types"},
    {"", "", " s = u64[2] constant({1,2})\n ROOT r = (u64[2], c64[8]) rng-bit-generator(s), algorithm=rng_default\n",
     HLO_UNIMPLEMENTED, "%r (rng-bit-generator): a complex random number"},
    {"", "",
     P " t = token[] after-all()\n s = (f32[8], u32[], token[]) send(p, t), channel_id=1, is_host_transfer=true\n"
       " ROOT d = token[] send-done(s), channel_id=1, is_host_transfer=true\n",
     HLO_UNIMPLEMENTED, "%s (send): a transfer with a host, but no host is connected"},
    // messages between devices
    {"num_partitions=2", "",
     P " t = token[] after-all()\n s = (f32[8], u32[], token[]) send(p, t), channel_id=1\n"
       " ROOT d = token[] send-done(s), channel_id=1\n",
     HLO_FAILED_PRECONDITION, "both send on channel 1, and no source_target_pairs tell which device is meant"},
    {"num_partitions=2", "",
     P " t = token[] after-all()\n"
       " s = (f32[8], u32[], token[]) send(p, t), channel_id=1, "
       "frontend_attributes={_xla_send_recv_source_target_pairs=\"{{0,1},{1,0}}\"}\n"
       " sd = token[] send-done(s), channel_id=1\n"
       " v = (f32[4], u32[], token[]) recv(sd), channel_id=1, "
       "frontend_attributes={_xla_send_recv_source_target_pairs=\"{{0,1},{1,0}}\"}\n"
       " vd = (f32[4], token[]) recv-done(v), channel_id=1\n ROOT r = f32[4] get-tuple-element(vd), index=0\n",
     HLO_INVALID_ARGUMENT, "the message on channel 1 has a different shape"},
    // manual regions
    {"num_partitions=2", "",
     P " ROOT d = f32[4] custom-call(p), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n",
     HLO_UNIMPLEMENTED, "%d: a manual region needs the devices of its mesh; the run has 2"},
};

// Runs the entry on as many devices as the module is for.
static HloStatus evaluate(const HloModule *module) {
    HloLiteral *arguments[8] = {0}, *results[4] = {0};
    const HloLiteral *const *rows[4];
    const int64_t devices = module->num_partitions, count = module->entry->parameters.count;
    for (int64_t i = 0; i < count; i++)
        arguments[i] = compiled_random(module->entry->parameters.items[i]->shape, (uint64_t)i);
    for (int64_t d = 0; d < devices; d++) rows[d] = (const HloLiteral *const *)arguments;
    HloStatus status = hlo_evaluate_partitioned(module, devices, rows, count, NULL, results);
    for (int64_t d = 0; d < devices; d++) {
        cr_expect_eq(results[d] == NULL, status != NULL);
        hlo_literal_free(results[d]);
    }
    for (int64_t i = 0; i < count; i++) hlo_literal_free(arguments[i]);
    return status;
}

Test(eval_refused, programs) {
    for (size_t i = 0; i < HLO_COUNT_OF(programs); i++) {
        const RefusedProgram *at = &programs[i];
        HloText text = {0};
        hlo_text_format(&text, "HloModule m%s%s\n%sENTRY e {\n%s}\n", *at->head ? ", " : "", at->head, at->called,
                        at->body);
        HloModule *module = compiled_must_parse(text.data);
        HloStatus status = evaluate(module);
        cr_expect(hlo_status_code(status) == at->code && strstr(hlo_status_message(status), at->part),
                  "%s\n%s: %s, where %s was to come", text.data, hlo_code_name(hlo_status_code(status)),
                  hlo_status_message(status), at->part);
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// More operands than a handler supports: `count` parameters f32[2] and as many initial values.
static void refuses_many(const char *called, const char *root, const char *part) {
    enum { TOO_MANY = 65 };
    HloText text = {0}, arrays = {0}, values = {0}, shapes = {0};
    hlo_text_format(&text, "HloModule m\nc {\n");
    for (int i = 0; i < 2 * TOO_MANY; i++) hlo_text_format(&text, " a%d = f32[] parameter(%d)\n", i, i);
    for (int i = 0; i < TOO_MANY; i++) {
        hlo_text_format(&arrays, "%sp", i ? ", " : "");
        hlo_text_format(&values, "%sz", i ? ", " : "");
        hlo_text_format(&shapes, "%s%s", i ? ", " : "", strstr(root, "reduce") ? "f32[]" : "f32[2]");
    }
    hlo_text_format(&text, "%s}\nENTRY e {\n p = f32[2] parameter(0)\n z = f32[] constant(0)\n", called);
    hlo_text_format(&text, " i = s32[1] constant({0})\n u = f32[1] constant({0})\n ROOT r = (%s) ", shapes.data);
    const char *wide = strstr(root, "scatter") ? "p" : "z";
    hlo_text_format(&text, root, arrays.data, *wide == 'z' ? values.data : arrays.data);
    hlo_text_format(&text, "}\n");
    HloModule *module = compiled_must_parse(text.data);
    must_fail(evaluate(module), HLO_UNIMPLEMENTED, part);
    hlo_module_free(module);
    hlo_text_free(&text);
    hlo_text_free(&arrays);
    hlo_text_free(&values);
    hlo_text_free(&shapes);
}

#define ALL_OF " ROOT t = (f32[]) tuple(a0)\n"

Test(eval_refused, more_values_than_fit_in_memory) {
    refuses_many(ALL_OF, "reduce(%s, %s), dimensions={0}, to_apply=c\n", "%r: reduce of more than 64 arrays at once");
    refuses_many(" ROOT t = pred[] compare(a0, a1), direction=LT\n", "sort(%s), dimensions={0}, to_apply=c\n",
                 "%r: sort of more than 64 arrays at once");
    refuses_many(" ROOT t = pred[] compare(a0, a1), direction=LT\n",
                 "custom-call(%s, %s), custom_call_target=\"ApproxTopK\", called_computations={c}\n",
                 "%r: custom-call of more than 64 arrays at once");
    refuses_many(
        ALL_OF,
        "scatter(%s, i, %s), update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=0, to_apply=c\n",
        "%r: scatter of more than 64 arrays at once");
}

// Calls of calls: each runs on C's stack.
Test(eval_refused, bug_calls_that_nest_too_deep) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m\nc0 {\n ROOT a = f32[] parameter(0)\n}\n");
    for (int i = 1; i < 420; i++)
        hlo_text_format(&text, "cc%d {\n a = f32[] parameter(0)\n ROOT t = f32[] call(a), to_apply=c%s%d\n}\n", i,
                        i > 1 ? "c" : "", i - 1);
    hlo_text_format(&text, "ENTRY e {\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=cc419\n}\n");
    HloModule *module = compiled_must_parse(text.data);
    must_fail(evaluate(module), HLO_UNIMPLEMENTED, "calls nest more than 400 levels deep at computation");
    hlo_module_free(module);
    hlo_text_free(&text);
}

// The plan of a computation is made once, where it is called first: a deeper call of it is found as it runs.
Test(eval_refused, calls_that_nest_too_deep_by_another_way) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m\nca0 {\n ROOT a = f32[] parameter(0)\n}\n");
    for (int i = 1; i < 600; i++) {
        const int callee = i == 300 ? 299 : i - 1;
        hlo_text_format(&text, "ca%d {\n a = f32[] parameter(0)\n ROOT t = f32[] call(a), to_apply=ca%d\n}\n", i,
                        callee);
    }
    hlo_text_format(&text,
                    "ENTRY e {\n p = f32[] parameter(0)\n q = f32[] call(p), to_apply=ca299\n"
                    " ROOT r = f32[] call(q), to_apply=ca599\n}\n");
    HloModule *module = compiled_must_parse(text.data);
    must_fail(evaluate(module), HLO_UNIMPLEMENTED, "calls nest more than 400 levels deep");
    hlo_module_free(module);
    hlo_text_free(&text);
}

// A program that is not partitioned yet runs on two devices at once where it has a manual region, whose boundary is
// read from text that only the partitioner verifies.
typedef struct Border {
    const char *mesh, *sharding, *part;
} Border;

static const Border borders[] = {
    {"'x'=2", "<@mesh, [{'y'}]>", "this sharding"},
    {"'x'=2", "<@other, [{'x'}]>", "this sharding"},
    {"'x'=2", "", "this sharding"},
    {"'x'=2", "<@mesh, [{'x']>", "this sharding"},
    {"'x'=2", "<@mesh, [{'x':(1)3}]>", "this sharding"},
    {"'x'=1", "<@mesh, [{'x'}]>", "shards that do not cover the array"},
    {"'x'=4", "<@mesh, [{'x'}]>", "this sharding"},
    {"'x'=2", "<@mesh, [{'x', 'x'}]>", "this sharding"},
    // bug: these divided by zero.
    {"'x'=0", "<@mesh, [{'x'}]>", "this sharding"},
    {"'x'=-2", "<@mesh, [{'x'}]>", "this sharding"},
    {"'y'=0, 'x'=2", "<@mesh, [{'x'}]>", "this sharding"},
    {"'x'=2", "<@mesh, [{'x':(4294967296)4294967296}]>", "this sharding"},
    {"'x'=9223372036854775807, 'y'=9223372036854775807", "<@mesh, [{'x', 'y'}]>", "this sharding"},
};

// Evaluates a program of one manual region on two devices.
static void refuses_border(const char *program, const char *part) {
    HloModule *module = compiled_must_parse(program);
    HloLiteral *argument = compiled_random(module->entry->parameters.items[0]->shape, 1), *result = NULL;
    const HloLiteral *const row[] = {argument};
    must_fail(hlo_evaluate(module, row, 1, &(HloEvalOptions){.device_count = 2}, &result), HLO_UNIMPLEMENTED, part);
    hlo_literal_free(argument);
    hlo_module_free(module);
}

Test(eval_refused, boundaries_of_manual_regions) {
    for (size_t i = 0; i < HLO_COUNT_OF(borders); i++) {
        HloText text = {0}, escaped = {0};
        hlo_text_format(&text,
                        "HloModule m, num_partitions=2, frontend_attributes={xla.sdy.meshes=\"{mesh = "
                        "#sdy.mesh<[%s]>}\"}\nENTRY e {\n p = f32[8] parameter(0)\n ROOT r = f32[4] custom-call(p), "
                        "custom_call_target=\"xla.sdy.GlobalToLocalShape\", "
                        "frontend_attributes={xla.sdy.in_shardings=\"#sdy.sharding_per_value<[%s]>\"}\n}\n",
                        borders[i].mesh, borders[i].sharding);
        for (const char *c = text.data; *c; c++) hlo_text_format(&escaped, *c == '\'' ? "\\\"" : "%c", *c);
        refuses_border(escaped.data, borders[i].part);
        hlo_text_free(&escaped);
        hlo_text_free(&text);
    }
}

#define ONES_33 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"
#define ENTER(whole, sharding, shard)                                                                              \
    "HloModule m, num_partitions=2\nENTRY e {\n p = f32[" whole "] parameter(0)" sharding "\n ROOT r = f32[" shard \
    "] custom-call(p), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n}\n"

// The same in GSPMD's form, whose shardings are parsed but need not fit.
Test(eval_refused, boundaries_of_manual_regions_of_gspmd) {
    refuses_border(ENTER("8", "", "4"), "%r: a manual region whose boundary has no sharding");
    refuses_border(ENTER("8", ", sharding={maximal device=0}", "4"), "this sharding");
    refuses_border(ENTER("8", ", sharding={devices=[2]2,3}", "4"), "this sharding");
    refuses_border(ENTER("8", ", sharding={devices=[2]0,1}", "3"), "shards that do not cover the array");
    refuses_border(ENTER(ONES_33 ",8", ", sharding={replicated}", ONES_33 ",8"), "too many dimensions");
}

Test(eval_refused, requests) {
    HloModule *module = compiled_must_parse(
        "HloModule m, replica_count=2\nENTRY e {\n p = f32[8] parameter(0)\n ROOT r = f32[8] negate(p)\n}\n");
    HloLiteral *argument = compiled_random(module->entry->parameters.items[0]->shape, 1), *result = NULL;
    const HloLiteral *const row[] = {argument}, *const *const rows[3] = {row, row, row};
    HloLiteral *results[3] = {0};
    const int64_t two = 2;
    HloLiteral *other = hlo_literal_of(HLO_F32, (HloInts){&two, 1}, (const float[]){1, 2});
    const HloLiteral *const wrong[] = {other};
    must_fail(hlo_evaluate(module, row, 0, NULL, &result), HLO_INVALID_ARGUMENT, "takes 1 arguments, but 0 are given");
    must_fail(hlo_evaluate(module, wrong, 1, NULL, &result), HLO_INVALID_ARGUMENT, "f32[2]");
    must_fail(hlo_evaluate(module, row, 1, &(HloEvalOptions){.device_count = -1}, &result), HLO_INVALID_ARGUMENT,
              "-1 devices");
    must_fail(hlo_evaluate_partitioned(module, 3, rows, 1, NULL, results), HLO_INVALID_ARGUMENT,
              "3 devices cannot hold 2 replicas");
    must_fail(hlo_evaluate_partitioned(module, 0, rows, 1, NULL, results), HLO_INVALID_ARGUMENT, "0 devices");
    const HloInstruction *root = module->entry->root, *parameter = root->operands[0];
    must_fail(hlo_evaluate_instruction(parameter, NULL, NULL, &result), HLO_INVALID_ARGUMENT,
              "%p: a parameter cannot be evaluated by itself");
    must_fail(hlo_evaluate_instruction(root, wrong, NULL, &result), HLO_INVALID_ARGUMENT,
              "%r: operand 0 has another shape");
    must_fail(hlo_evaluate_computation(hlo_computation_new(module, "empty"), NULL, 0, NULL, &result),
              HLO_INVALID_ARGUMENT, "computation %empty has no root");
    module->entry = NULL;
    must_fail(hlo_evaluate(module, row, 1, NULL, &result), HLO_INVALID_ARGUMENT, "no entry computation");
    must_fail(hlo_evaluate_partitioned(module, 2, rows, 1, NULL, results), HLO_INVALID_ARGUMENT,
              "no entry computation");
    hlo_literal_free(argument);
    hlo_literal_free(other);
    hlo_module_free(module);
}

// An element of a tuple, which programs move out of it, and constant folding asks for alone.
Test(eval, one_instruction_that_takes_a_tuple_apart) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nENTRY e {\n p = (f32[2], s32[3]) parameter(0)\n ROOT r = s32[3] get-tuple-element(p), "
        "index=1\n}\n");
    HloLiteral *argument = compiled_random(module->entry->parameters.items[0]->shape, 1), *result = NULL;
    cr_assert_null(hlo_evaluate_instruction(module->entry->root, (const HloLiteral *const[]){argument}, NULL, &result));
    cr_expect(hlo_literal_equal(result, argument->elements[1]));
    hlo_literal_free(result);
    hlo_literal_free(argument);
    hlo_module_free(module);
}

// More devices than the address space has stacks for: those that have begun end, and no thread waits for the others.
Test(eval_refused, more_devices_than_threads) {
    enum { DEVICES = 256, MEBIBYTES = 64 };
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=%d\n" ADD
                    "ENTRY e {\n p = f32[8] parameter(0)\n ROOT r = f32[8] all-reduce(p), replica_groups={}, "
                    "channel_id=1, use_global_device_ids=true, to_apply=add\n}\n",
                    DEVICES);
    HloModule *module = compiled_must_parse(text.data);
    HloLiteral *argument = compiled_random(module->entry->parameters.items[0]->shape, 1), *results[DEVICES];
    const HloLiteral *const row[] = {argument}, *const * rows[DEVICES];
    for (int i = 0; i < DEVICES; i++) rows[i] = row;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)MEBIBYTES << 20);
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    HloStatus status = hlo_evaluate_partitioned(module, DEVICES, rows, 1, NULL, results);
    limit.rlim_cur = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    must_fail(status, HLO_RESOURCE_EXHAUSTED, "of 256 device threads could be created");
    for (int i = 0; i < DEVICES; i++) cr_expect_null(results[i]);
    hlo_literal_free(argument);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// bug: 2^60 calls ran until the process was killed, where the engine refused them.
Test(eval_refused, bug_calls_of_calls_ran_without_end) {
    static const char *const ops[][2] = {
        {"call", "to_apply"}, {"fusion", "kind=kLoop, calls"}, {"map", "dimensions={}, to_apply"}};
    for (size_t i = 0; i < HLO_COUNT_OF(ops); i++) {
        HloText text = {0};
        cases_tree_of(&text, "", 60, ops[i][0], ops[i][1]);
        HloModule *module = compiled_must_parse(text.data);
        HloLiteral *argument = compiled_random(module->entry->parameters.items[0]->shape, 1), *result = NULL;
        const HloLiteral *const arguments[] = {argument};
        must_fail(hlo_evaluate(module, arguments, 1, NULL, &result), HLO_UNIMPLEMENTED,
                  "%b.17 in %c18: with a copy of %c17 there are more than 1048576 instructions in copies");
        cr_expect_null(result);
        hlo_literal_free(argument);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}
