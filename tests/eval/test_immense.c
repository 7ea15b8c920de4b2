// SPDX-License-Identifier: Apache-2.0
// Programs with immense numbers and little to do: arrays without elements whose other sizes are 10^15, windows that are
// padding but for four places, the longest top-k of a row. An algorithm that visits all of these does not end.
#include <criterion/criterion.h>

#include "hlo/ir/infer/support.h"
#include "tests/eval/run.h"
#include "tests/support/compiled.h"
#include "tests/support/random.h"

#define ADD "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[] add(a, b)\n}\n"
#define MANY "1000000000000000"

static void same_both_ways(const char *text) {
    HloText message = {0};
    HloModule *module = compiled_must_parse(text);
    const CompiledCheck check = {.spec = "cpu:1", .seed = 3, .allow_fallback = true};
    cr_expect(compiled_equals_eval(module, &check, &message), "%s: %s", text, message.data);
    hlo_module_free(module);
    hlo_text_free(&message);
}

// bug: the evaluator went through 10^15 empty matrices, rows or kernel places; the engine through the matrices that it
// decomposes.
Test(immense, bug_arrays_without_elements_took_for_ever) {
    static const char *const programs[] = {
        "HloModule m\nENTRY e {\n a = f32[" MANY ",0,3] parameter(0)\n b = f32[" MANY
        ",3,0] parameter(1)\n"
        " ROOT d = f32[" MANY
        ",0,0] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}\n}\n",
        "HloModule m\nENTRY e {\n a = f32[" MANY
        ",2,0] parameter(0)\n s = f32[2] parameter(1)\n"
        " ROOT d = (f32[" MANY ",2,0], f32[2], f32[2]) batch-norm-training(a, s, s), epsilon=0.1, feature_index=1\n}\n",
        "HloModule m\nENTRY e {\n a = f32[" MANY
        ",0,0] parameter(0)\n"
        " ROOT d = f32[" MANY ",0,0] cholesky(a), lower=true\n}\n",
        "HloModule m\nENTRY e {\n a = f32[1000000000000,0,0] parameter(0)\n"
        " ROOT d = (f32[1000000000000,0,0], f32[1000000000000,0]) custom-call(a), custom_call_target=\"Eigh\", "
        "backend_config=\"1,1,100,1e-6\"\n}\n",
        "HloModule m\nENTRY e {\n a = f32[1,0,5,5] parameter(0)\n k = f32[1000000000,1000000,0,1] parameter(1)\n"
        " ROOT c = f32[1,1,1,1] convolution(a, k), window={size=1000000000x1000000 pad=999999995_0x999995_0}, "
        "dim_labels=bf01_01io->bf01\n}\n",
        "HloModule m\nENTRY e {\n a = f32[" MANY ",0,3] parameter(0)\n b = f32[2," MANY
        ",3,0] parameter(1)\n"
        " s = s32[2] constant({1, 2})\n"
        " ROOT d = f32[" MANY
        ",0,0] ragged-dot(a, b, s), lhs_batch_dims={0}, rhs_batch_dims={1}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}\n}\n",
        "HloModule m\nENTRY e {\n s = u64[2] parameter(0)\n"
        " ROOT d = (u64[2], u32[" MANY ",0]) rng-bit-generator(s), algorithm=rng_three_fry\n}\n",
        "HloModule m\nbody {\n c = f32[] parameter(1)\n x = f32[" MANY
        ",0] parameter(0)\n"
        " ROOT t = (f32[" MANY
        ",0], f32[]) tuple(x, c)\n}\n"
        "ENTRY e {\n x = f32[" MANY
        ",2,0] parameter(0)\n c = f32[] parameter(1)\n"
        " ROOT s = (f32[" MANY
        ",2,0], f32[]) scan(x, c), dimensions={1}, is_reverse=false, num_carries=1, "
        "to_apply=body\n}\n"};
    for (size_t i = 0; i < HLO_COUNT_OF(programs); i++) same_both_ways(programs[i]);
}

// bug: the engine copied 10^15 runs of no bytes.
Test(immense, bug_gathers_of_arrays_without_elements_took_for_ever) {
    static const char *const programs[] = {
        "HloModule m, num_partitions=2\nENTRY e {\n a = f32[" MANY ",0] parameter(0)\n ROOT g = f32[" MANY
        ",0] all-gather(a), dimensions={1}, channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true\n}\n",
        "HloModule m, num_partitions=2\nENTRY e {\n a = f32[" MANY ",2,0] parameter(0)\n ROOT g = f32[" MANY
        ",2,0] all-to-all(a), dimensions={1}, channel_id=1, replica_groups={{0,1}}\n}\n"};
    for (size_t i = 0; i < HLO_COUNT_OF(programs); i++) {
        HloText message = {0};
        HloModule *module = compiled_must_parse(programs[i]);
        const CompiledCheck check = {.spec = "cpu:2", .threads = 1};
        HloLiteral *results[2] = {0};
        cr_expect(compiled_run(module, &check, results, &message), "%s: %s", programs[i], message.data);
        for (int d = 0; d < 2; d++) hlo_literal_free(results[d]);
        hlo_module_free(module);
        hlo_text_free(&message);
    }
}

// bug: 10^12 places were looked at for four elements, by the evaluator, by constant folding and by the engine.
Test(immense, bug_windows_of_padding_took_for_ever) {
    static const float values[4] = {1, 2, 3, 4};
    static const char reduce[] =
        "HloModule m\n" ADD
        "ENTRY e {\n a = f32[4] parameter(0)\n z = f32[] constant(0.5)\n"
        " ROOT r = f32[2] reduce-window(a, z), window={size=1000000000000 pad=999999999997_0}, to_apply=add\n}\n";
    static const char select[] =
        "HloModule m\n" ADD
        "ge {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT t = pred[] compare(a, b), direction=GE\n}\nENTRY e {\n a = f32[4] parameter(0)\n"
        " s = f32[1] constant({7})\n z = f32[] constant(0.5)\n"
        " ROOT r = f32[4] select-and-scatter(a, s, z), window={size=1000000000000 pad=0_999999999996}, select=ge, "
        "scatter=add\n}\n";
    HloStatus status;
    HloLiteral *result = run_floats(reduce, values, NULL, &status);
    must_succeed(status);
    expect_floats(result, (float[]){6.5F, 10.5F}, 2);
    hlo_literal_free(result);
    result = run_floats(select, values, NULL, &status);
    must_succeed(status);
    expect_floats(result, (float[]){0.5F, 0.5F, 0.5F, 7.5F}, 4);
    hlo_literal_free(result);
    same_both_ways(reduce);
    same_both_ways(select);
}

// A window by its definition: the elements that output o sees, in order, as digits of a number.
static int64_t seen_by(const HloWindowDimension *window, int64_t base, int64_t o) {
    int64_t seen = 0;
    for (int64_t w = 0; w < window->size; w++) {
        const int64_t at = o * window->stride + w * window->window_dilation - window->padding_low;
        if (at >= 0 && at % window->base_dilation == 0 && at / window->base_dilation < base)
            seen = seen * 10 + 1 + at / window->base_dilation;
    }
    return seen;
}

Test(immense, cropped_windows_see_the_same) {
    Random random = {11};
    int64_t windows = 0, smaller = 0;
    for (int trial = 0; trial < 20000; trial++) {
        const HloWindowDimension window = {.size = 1 + (int64_t)random_under(&random, 9),
                                           .stride = 1 + (int64_t)random_under(&random, 4),
                                           .padding_low = (int64_t)random_under(&random, 12) - 3,
                                           .padding_high = (int64_t)random_under(&random, 12) - 3,
                                           .base_dilation = 1 + (int64_t)random_under(&random, 3),
                                           .window_dilation = 1 + (int64_t)random_under(&random, 3)};
        const int64_t base = (int64_t)random_under(&random, 7);
        int64_t outputs, again;
        must_succeed(hlo_infer_window_output(&window, 0, base, &outputs));
        if (outputs == 0) continue;
        const HloWindowDimension cropped = hlo_window_crop(window, base, outputs);
        for (int64_t o = 0; o < outputs; o++) cr_assert_eq(seen_by(&window, base, o), seen_by(&cropped, base, o));
        if (base > 0) {
            must_succeed(hlo_infer_window_output(&cropped, 0, base, &again));
            cr_assert_eq(again, outputs);
        }
        windows++;
        smaller += cropped.size < window.size;
    }
    cr_expect(windows > 10000 && smaller > 1000);
}

// bug: k passes over a row of n elements.
Test(immense, bug_a_top_k_of_nearly_all_took_square_time) {
    static const char text[] =
        "HloModule m\nENTRY e {\n i = s32[300000] iota(), iota_dimension=0\n"
        " f = s32[] constant(7919)\n fs = s32[300000] broadcast(f), dimensions={}\n p = s32[300000] multiply(i, fs)\n"
        " n = s32[] constant(1009)\n ns = s32[300000] broadcast(n), dimensions={}\n q = s32[300000] remainder(p, ns)\n"
        " ROOT t = (s32[200000], s32[200000]) topk(q), k=200000, largest=true\n}\n";
    same_both_ways(text);
}
