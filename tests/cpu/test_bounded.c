// SPDX-License-Identifier: Apache-2.0
// Arrays of bounded dynamic size: the engine's results, by masks and offsets, are those of the evaluator on arrays of
// exactly that size.
#include <criterion/criterion.h>

#include "hlo/eval/eval.h"
#include "tests/support/bounded.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

CaseList(bounded, equals_the_evaluator) {
    return cases_numbered(bounded_count());
}

CaseTest(const int *index, bounded, equals_the_evaluator) {
    const BoundedCase *bounded = bounded_case((size_t)*index);
    HloModule *module = bounded_program(bounded);
    const CompiledCheck check = {0};
    for (int64_t n = 0; n <= BOUNDED_SIZE; n++) {
        for (int64_t m = 0; m <= BOUNDED_SIZE; m += 2) {
            HloLiteral *arguments[BOUNDED_ARGUMENTS], *have = NULL, *want = NULL;
            HloText message = {0};
            bounded_arguments(module, n, m, arguments);
            must_succeed(hlo_evaluate(module, (const HloLiteral *const *)arguments, BOUNDED_ARGUMENTS, NULL, &want));
            cr_assert(compiled_run_on_one(module, arguments, &check, &have, &message), "%s: %s", bounded->name,
                      message.data);
            cr_assert(compiled_same(have, want, &check, &message), "%s, sizes %lld and %lld: %s", bounded->name,
                      (long long)n, (long long)m, message.data);
            for (int p = 0; p < BOUNDED_ARGUMENTS; p++) hlo_literal_free(arguments[p]);
            hlo_literal_free(have);
            hlo_literal_free(want);
        }
    }
    hlo_module_free(module);
}

// Arguments and results of dynamic size, on one device and where all devices hold them.
static const char *const kBoundaries[] = {
    "HloModule m\nENTRY e {\n p = f32[<=5] parameter(0)\n ROOT r = f32[<=5] reverse(p), dimensions={0}\n}\n",
    "HloModule m\nENTRY e {\n ROOT p = (f32[<=5,3], s32[]) parameter(0)\n}\n",
    "HloModule m\nENTRY e {\n t = ((bf16[2,<=5]), s8[<=4]) parameter(0)\n u = (bf16[2,<=5]) get-tuple-element(t), "
    "index=0\n"
    " a = bf16[2,<=5] get-tuple-element(u), index=0\n b = s8[<=4] get-tuple-element(t), index=1\n"
    " n = s32[] get-dimension-size(a), dimensions={1}\n c = bf16[2,<=10] concatenate(a, a), dimensions={1}\n"
    " ROOT r = (bf16[2,<=10], s32[], s8[<=4]) tuple(c, n, b)\n}\n",
    "HloModule m\nENTRY e {\n p = s4[<=7] parameter(0)\n q = s4[<=7] parameter(1)\n ROOT r = s4[<=7] add(p, q)\n}\n",
    "HloModule m, num_partitions=4\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, "
    "y)\n}\n"
    "ENTRY e {\n p = f32[<=5,2] parameter(0)\n a = f32[<=5,2] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3}}, "
    "use_global_device_ids=true, to_apply=add\n g = f32[<=5,8] all-gather(p), channel_id=2, "
    "replica_groups={{0,1,2,3}}, "
    "use_global_device_ids=true, dimensions={1}\n c = f32[<=5,2] collective-permute(p), channel_id=3, "
    "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}\n z = f32[] constant(0)\n"
    " s = f32[8] reduce(g, z), dimensions={0}, to_apply=add\n ROOT t = (f32[<=5,2], f32[8], f32[<=5,2]) tuple(a, s, "
    "c)\n}\n",
};

Test(bounded, arguments_and_results) {
    for (size_t i = 0; i < HLO_COUNT_OF(kBoundaries); i++) {
        HloModule *module = compiled_must_parse(kBoundaries[i]);
        for (uint64_t seed = 1; seed < 9; seed++) {
            const CompiledCheck check = {.seed = seed};
            HloText message = {0};
            cr_expect(compiled_equals_eval(module, &check, &message), "%s%s", kBoundaries[i], message.data);
            hlo_text_free(&message);
        }
        hlo_module_free(module);
    }
}

Test(bounded, buffers_say_their_sizes) {
    TargetClient *client;
    must_succeed(target_client_new("cpu:1", &client));
    TargetMemory *memory = target_device_default_memory(target_client_device(client, 0));
    HloArena *arena = hlo_arena_new();
    HloShape bounds = *hlo_shape_array(arena, HLO_F32, (const int64_t[]){4, 3}, 2);
    bounds.dynamic = (const bool[]){true, false};
    HloLiteral *literal = compiled_random(hlo_shape_array(arena, HLO_F32, (const int64_t[]){2, 3}, 2), 1), *back;
    TargetBuffer *buffer;
    must_succeed(target_buffer_from_literal_bounded(literal, &bounds, memory, &buffer));
    int64_t sizes[2];
    must_succeed(target_buffer_sizes(buffer, sizes));
    cr_expect(sizes[0] == 2 && sizes[1] == 3);
    cr_expect(hlo_shape_equal(target_buffer_shape(buffer), &bounds, HLO_COMPARE_IGNORE_LAYOUT));
    must_succeed(target_buffer_to_literal(buffer, &back));
    cr_expect(hlo_literal_equal(back, literal));
    target_buffer_release(buffer);
    bounds.dims = (const int64_t[]){1, 3};
    must_fail(target_buffer_from_literal_bounded(literal, &bounds, memory, &buffer), HLO_INVALID_ARGUMENT, "bounds");
    hlo_literal_free(literal);
    hlo_literal_free(back);
    hlo_arena_free(arena);
    target_client_release(client);
}
