// SPDX-License-Identifier: Apache-2.0
// Random numbers on meshes: published digits, the same bits everywhere, and no communication.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/hlo.h"
#include "hlo/text/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

static const SpmdMeshAxis meshes[][2] = {{{"x", 8}, {"y", 1}}, {{"x", 4}, {"y", 2}}, {{"x", 3}, {"y", 2}},
                                         {{"x", 5}, {"y", 1}}, {{"x", 1}, {"y", 4}}, {{"x", 7}, {"y", 1}}};

// Partitions `module` (without parameters) on a mesh, r0 cut by `spec`; runs it and joins the parts. Collectives fail
// the test.
static HloLiteral *run_on(const HloModule *module, const SpmdMeshAxis *mesh, const char *spec) {
    SpmdOptions options = {.mesh = mesh, .mesh_axis_count = 2, .shards = &spec, .shard_count = 1};
    HloModule *partitioned = NULL;
    SpmdReport *report = NULL;
    SpmdBoundary *boundary = NULL;
    HloStatus status = spmd_partition(module, &options, &partitioned, &report);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect_eq(report->collective_count, 0, "%s on %lld x %lld talks", spec, (long long)mesh[0].size,
                 (long long)mesh[1].size);
    cr_assert_null(spmd_boundary_new(partitioned, &boundary));
    int64_t devices = boundary->num_partitions;
    HloLiteral *results[64] = {0}, *whole = NULL;
    const HloLiteral *const *arguments[64] = {0};
    HloEvalOptions eval = {.thread_count = 1, .device_count = devices};
    status = hlo_evaluate_partitioned(partitioned, devices, arguments, 0, &eval, results);
    cr_assert_null(status, "%s", hlo_status_message(status));
    const SpmdBoundaryArray *array = &boundary->results[0];
    cr_assert_null(
        spmd_unshard_literal((const HloLiteral *const *)results, array->sharding, devices, array->global, &whole));
    for (int64_t d = 0; d < devices; d++) hlo_literal_free(results[d]);
    spmd_boundary_free(boundary);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    return whole;
}

// `jax.random.uniform(jax.random.key(42), (24,)) + jnp.arange(24)` as JAX's tutorial on distributed arrays prints it on
// eight devices, before and after `jax_threefry_partitionable`.
static const struct {
    HloRandomForm form;
    const char *digits;
} published[] = {
    {HLO_RANDOM_ORIGINAL,
     "0.72503686 1.8532515 2.983416 3.083253 4.0332246 5.4782867 6.1720605 7.6900277 8.602836 9.810046 10.861367 "
     "11.907651 12.330483 13.456195 14.808557 15.960099 16.067581 17.739723 18.335474 19.46401 20.390276 21.116539 "
     "22.858128 23.223194"},
    {HLO_RANDOM_PARTITIONABLE,
     "0.48870957 1.6797972 2.6162715 3.561016 4.4506445 5.585866 6.0748096 7.775133 8.698959 9.818634 10.350306 "
     "11.87282 12.925881 13.86013 14.477554 15.818481 16.711355 17.586697 18.073738 19.777622 20.404566 21.119123 "
     "22.026257 23.63918"},
};

CaseList(sharded_random, threefry_gives_the_published_digits) {
    return cases_numbered(HLO_COUNT_OF(published));
}

CaseTest(const int *number, sharded_random, threefry_gives_the_published_digits) {
    HloModule *module = hlo_module_new("uniform");
    HloBuilder *b = hlo_builder_new(module, "main");
    HloInstruction *key = hlo_random_key(b, 42);
    HloInstruction *numbers = hlo_random_uniform(b, published[*number].form, key, HLO_F32, HLO_DIMS(24), 0, 1);
    HloStatus status =
        hlo_builder_finish_entry(b, hlo_build_add(b, hlo_build_iota(b, HLO_F32, HLO_DIMS(24), 0), numbers));
    cr_assert_null(status, "%s", hlo_status_message(status));
    for (size_t m = 0; m < HLO_COUNT_OF(meshes); m++) {
        HloLiteral *got = run_on(module, meshes[m], "r0=x");
        const char *at = published[*number].digits;
        for (int64_t i = 0; i < 24; i++) {
            char *end;
            float want = strtof(at, &end), value = (float)hlo_literal_get_double(got, i);
            cr_assert_neq(end, at);
            cr_expect_eq(value, want, "mesh %zu [%lld]: %.9g, not %.9g", m, (long long)i, (double)value, (double)want);
            at = end;
        }
        hlo_literal_free(got);
    }
    hlo_module_free(module);
}

// Ops whose numbers are not prescribed are the same on every mesh, too.
static const struct {
    const char *name, *body, *spec;
    double low, high;  // all numbers are in low <= x < high
} ops[] = {
    {"bits of threefry",
     "s = u64[2] constant({7, 9})\n r = (u64[2], u32[11,6]) rng-bit-generator(s), algorithm=rng_three_fry\n"
     " ROOT b = u32[11,6] get-tuple-element(r), index=1",
     "r0=x,y", 0, 4294967296.0},
    {"bits without their state",
     "s = u64[2] constant({7, 9})\n ROOT b = u32[11,6] rng-bit-generator(s), algorithm=rng_philox", "r0=x,y", 0,
     4294967296.0},
    {"bytes of philox",
     "s = u64[2] constant({7, 9})\n r = (u64[2], u8[11,6]) rng-bit-generator(s), algorithm=rng_philox\n"
     " ROOT b = u8[11,6] get-tuple-element(r), index=1",
     "r0=y,x", 0, 256},
    {"signs of bf16 numbers",  // the bits were once taken for numbers, none of which is negative
     "s = u64[2] constant({7, 9})\n r = (u64[2], bf16[11,6]) rng-bit-generator(s), algorithm=rng_three_fry\n"
     " f = bf16[11,6] get-tuple-element(r), index=1\n z = bf16[] constant(0)\n"
     " zs = bf16[11,6] broadcast(z), dimensions={}\n p = pred[11,6] compare(f, zs), direction=LT\n"
     " ROOT n = s32[11,6] convert(p)",
     "r0=x,y", 0, 2},
    {"uniform",
     "a = f32[] constant(-2)\n b = f32[] constant(3)\n ROOT r = f32[9,7] rng(a, b), distribution=rng_uniform", "r0=x,y",
     -2, 3},
    {"uniform, coarse",
     "a = bf16[] constant(1)\n b = bf16[] constant(2)\n ROOT r = bf16[9,40] rng(a, b), distribution=rng_uniform",
     "r0=x,y", 1, 2},
    {"uniform, fine",
     "a = f64[] constant(0)\n b = f64[] constant(1)\n ROOT r = f64[9,7] rng(a, b), distribution=rng_uniform", "r0=y,x",
     0, 1},
    {"integers",
     "a = s32[] constant(-5)\n b = s32[] constant(6)\n ROOT r = s32[13] rng(a, b), distribution=rng_uniform", "r0=x",
     -5, 6},
    {"normal", "a = f32[] constant(0)\n b = f32[] constant(1)\n ROOT r = f32[9,7] rng(a, b), distribution=rng_normal",
     "r0=x,y", -9, 9},
    {"after one that is not used",
     "a = f32[] constant(-1)\n b = f32[] constant(2)\n d = f32[3] rng(a, b), distribution=rng_uniform\n"
     " e = f32[3] negate(d)\n r = f32[6,8] rng(a, b), distribution=rng_uniform\n ROOT s = f32[6,8] copy(r)",
     "r0=x,y", -1, 2},
    {"the state",
     "r = u64[2] rng-get-and-update-state(), delta=3\n s = u64[2] rng-get-and-update-state(), delta=1\n"
     " ROOT d = u64[2] subtract(s, r)",
     "r0=-", 0, 4},
};

CaseList(sharded_random, any_mesh_gives_the_same) {
    return cases_numbered(HLO_COUNT_OF(ops));
}

// bug: a partitioned `rng` drew other numbers than the evaluator. They must be equal on every mesh.
CaseTest(const int *number, sharded_random, any_mesh_gives_the_same) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m\n\nENTRY e {\n %s\n}\n", ops[*number].body);
    HloModule *module = parse_text(text.data);
    HloLiteral *first = NULL;
    HloStatus status = hlo_evaluate(module, NULL, 0, &(HloEvalOptions){.thread_count = 1}, &first);
    cr_assert_null(status, "%s", hlo_status_message(status));
    for (size_t m = 0; m < HLO_COUNT_OF(meshes); m++) {
        HloLiteral *got = run_on(module, meshes[m], ops[*number].spec);
        int64_t count = hlo_shape_elements(got->shape), different = 0;
        for (int64_t i = 0; i < count; i++) {
            double value = hlo_literal_get_double(got, i);
            cr_expect(value >= ops[*number].low && value < ops[*number].high, "%s: %g", ops[*number].name, value);
            different += value != hlo_literal_get_double(got, 0);
            cr_expect_eq(value, hlo_literal_get_double(first, i), "%s, mesh %zu", ops[*number].name, m);
        }
        cr_expect_gt(different, 0, "%s is constant", ops[*number].name);
        hlo_literal_free(got);
    }
    hlo_literal_free(first);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// Two draws differ.
Test(sharded_random, draws_differ) {
    HloModule *module = parse_text(
        "HloModule m\n\nENTRY e {\n a = f32[] constant(0)\n b = f32[] constant(1)\n"
        " r = f32[8] rng(a, b), distribution=rng_uniform\n s = f32[8] rng(a, b), distribution=rng_uniform\n"
        " ROOT d = f32[8] subtract(r, s)\n}\n");
    HloLiteral *got = run_on(module, meshes[1], "r0=x");
    for (int64_t i = 0; i < 8; i++) cr_expect_neq(hlo_literal_get_double(got, i), 0);
    hlo_literal_free(got);
    hlo_module_free(module);
}
