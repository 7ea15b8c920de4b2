// SPDX-License-Identifier: Apache-2.0
// Plans through the C API; tests/cli/test_plan.sh tests the results of the search.
#include <criterion/criterion.h>
#include <string.h>

#include "advice/plan.h"
#include "advice/trial.h"
#include "hlo/text/text.h"

static const char kProgram[] =
    "HloModule layers\nENTRY main {\n  x = f32[512,256] parameter(0)\n  w = f32[256,1024] parameter(1)\n"
    "  v = f32[1024,256] parameter(2)\n"
    "  a = f32[512,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  ROOT b = f32[512,256] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";

typedef struct Fixture {
    HloModule *module;
    EmuTopology *topology;
    AdvicePlan *plan;
} Fixture;

static HloStatus plan(Fixture *fixture, const char *text, const char *slice, AdvicePlanOptions options) {
    *fixture = (Fixture){0};
    cr_assert_null(hlo_parse(text, (int64_t)strlen(text), NULL, &fixture->module));
    cr_assert_null(emu_topology_parse(slice, &fixture->topology));
    const EmuTopology *const topologies[] = {fixture->topology};
    options.topologies = topologies;
    options.topology_count = 1;
    return advice_plan_new(fixture->module, &options, &fixture->plan);
}

static void tear_down(Fixture *fixture) {
    advice_plan_free(fixture->plan);
    emu_topology_free(fixture->topology);
    hlo_module_free(fixture->module);
}

static bool count_calls(void *context, const AdvicePlanProgress *progress) {
    cr_expect(progress->share >= 0);
    return ++*(int *)context < 3;
}

Test(plan, every_parameter_and_result_has_a_spec_and_the_program_can_be_annotated) {
    Fixture fixture;
    cr_assert_null(plan(&fixture, kProgram, "v5e-4", (AdvicePlanOptions){.budget_seconds = 60}));
    const AdvicePlan *plan = fixture.plan;
    cr_assert_eq(plan->count, 3);
    cr_assert_eq(plan->parameter_count, 3);
    cr_assert_eq(plan->result_count, 1);
    for (int64_t i = 0; i < plan->count; i++)
        cr_expect(plan->all[i].step_picoseconds >= plan->best->step_picoseconds, "%s", plan->all[i].mesh);
    for (int64_t i = 0; i < 3; i++) cr_expect_str_not_empty(plan->best->parameters[i]);
    cr_expect_str_not_empty(plan->best->results[0]);
    HloModule *annotated = NULL;
    AdviceTrial trial;
    cr_assert_null(advice_plan_apply(fixture.module, plan, &annotated));
    cr_expect_eq(annotated->num_partitions, 4);
    const CompileOptions compile = {.spmd = {.async = fixture.topology->chip.overlaps_collectives != 0}};
    cr_assert_null(advice_trial_run(annotated, &compile, fixture.topology, NULL, &trial));
    cr_expect_eq(trial.report->step_picoseconds, plan->best->step_picoseconds);
    advice_trial_free(&trial);
    hlo_module_free(annotated);
    tear_down(&fixture);
}

Test(plan, the_caller_ends_the_search) {
    Fixture fixture;
    int calls = 0;
    const AdvicePlanOptions options = {.progress = count_calls, .progress_context = &calls};
    cr_assert_null(plan(&fixture, kProgram, "v5e-16", options));
    cr_expect(fixture.plan->evaluated > 0 && fixture.plan->best->parameters[0]);
    cr_expect(calls < 40, "%d calls", calls);
    tear_down(&fixture);
}

// The first trial of every mesh, and a whole batch of them, were run after the end of the budget.
Test(plan, bug_a_budget_that_had_ended_was_exceeded_on_every_mesh) {
    Fixture fixture;
    cr_assert_null(plan(&fixture, kProgram, "v5e-4", (AdvicePlanOptions){.budget_seconds = 1e-9}));
    cr_expect_eq(fixture.plan->evaluated, 1, "%lld", (long long)fixture.plan->evaluated);
    cr_expect_eq(fixture.plan->count, 1);
    cr_expect_eq(fixture.plan->untried, 2);
    cr_expect_str_not_empty(fixture.plan->best->parameters[0]);
    tear_down(&fixture);
}

// Without annotations it is nothing what the axes are called: what has been timed for data=4,model=1 is not timed
// again.
Test(plan, meshes_that_differ_in_names_are_timed_once) {
    Fixture both, one;
    cr_assert_null(plan(&one, kProgram, "v5e-4", (AdvicePlanOptions){.mesh = "data=4", .budget_seconds = 60}));
    cr_assert_null(plan(&both, kProgram, "v5e-4", (AdvicePlanOptions){.mesh = "data=4,model=1", .budget_seconds = 60}));
    cr_expect_eq(both.plan->evaluated, one.plan->evaluated);
    tear_down(&both);
    cr_assert_null(plan(&both, kProgram, "v5e-4", (AdvicePlanOptions){.budget_seconds = 60}));
    cr_assert_eq(both.plan->count, 3);
    cr_expect_str_eq(both.plan->all[0].mesh, "data=4,model=1");
    cr_expect_str_eq(both.plan->all[2].mesh, "data=1,model=4");
    cr_expect_eq(both.plan->all[0].step_picoseconds, both.plan->all[2].step_picoseconds);
    tear_down(&both);
    tear_down(&one);
}

static bool stop(void *context, const AdvicePlanProgress *progress) {
    cr_expect(progress->evaluated > 0);
    ++*(int *)context;
    return false;
}

// Where nothing had fitted when the caller ended the search, each repair was tried on every mesh all the same.
Test(plan, bug_repairs_were_tried_after_the_end) {
#define LARGE "f32[65536,65536] "
#define FORWARD "{1}, rhs_contracting_dims={0}, metadata={op_name=\"jit(f)/jvp(l)/dot\"}\n"
    static const char text[] =
        "HloModule layers\nENTRY main {\n x = " LARGE "parameter(0)\n w = " LARGE "parameter(1)\n v = " LARGE
        "parameter(2)\n a = " LARGE "dot(x, w), lhs_contracting_dims=" FORWARD " t = " LARGE "sine(a)\n b = " LARGE
        "dot(t, v), lhs_contracting_dims=" FORWARD " ROOT g = " LARGE
        "dot(t, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
        "metadata={op_name=\"jit(f)/transpose(jvp(l))/dot\"}\n}\n";
    Fixture fixture;
    int calls = 0;
    const AdvicePlanOptions options = {.mesh = "data=4", .progress = stop, .progress_context = &calls};
    cr_assert_null(plan(&fixture, text, "v5e-4", options));
    cr_expect_not(fixture.plan->best->fits);
    cr_expect_eq(calls, 1, "%d calls", calls);
    tear_down(&fixture);
#undef FORWARD
#undef LARGE
}

// The peak of two or four layers is in the wide product before them; that of 32 layers is at the end of the forward
// pass, where all activations are in memory. What the search took for the fastest plan that fits needs 19.9 GB, and all
// plans near it too: it said that nothing fits.
Test(plan, bug_estimates_from_few_layers_led_to_plans_that_do_not_fit) {
#define ROWS "f32[24576,8192] "
#define FORWARD ", lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    enum { LAYERS = 32 };
    HloText text = {0};
    hlo_text_format(&text, "HloModule deep\nENTRY main {\n x = " ROWS "parameter(0)\n");
    for (int i = 0; i < LAYERS; i++) hlo_text_format(&text, " w%d = f32[8192,8192] parameter(%d)\n", i, i + 1);
    hlo_text_format(&text,
                    " u = f32[8192,65536] parameter(%d)\n v = f32[65536,8192] parameter(%d)\n"
                    " a = f32[24576,65536] dot(x, u)" FORWARD " b = f32[24576,65536] sine(a)\n h0 = " ROWS
                    "dot(b, v)" FORWARD,
                    LAYERS + 1, LAYERS + 2);
    for (int i = 0; i < LAYERS; i++)
        hlo_text_format(&text, " d%d = " ROWS "dot(h%d, w%d)" FORWARD " h%d = " ROWS "sine(d%d)\n", i, i, i, i + 1, i);
    hlo_text_format(&text, " g%d = " ROWS "cosine(h%d)\n", LAYERS, LAYERS);
    for (int i = LAYERS - 1; i >= 0; i--)
        hlo_text_format(&text,
                        " m%d = " ROWS "multiply(g%d, h%d)\n g%d = " ROWS
                        "dot(m%d, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n",
                        i, i + 1, i, i, i, i);
    hlo_text_format(&text, " ROOT r = (" ROWS ") tuple(g0)\n}\n");
    Fixture fixture;
    cr_assert_null(plan(&fixture, text.data, "v5e-4", (AdvicePlanOptions){.mesh = "data=4", .budget_seconds = 600}));
    cr_expect(fixture.plan->best->fits, "%lld bytes", (long long)fixture.plan->best->hbm_peak_bytes);
    hlo_text_free(&text);
    tear_down(&fixture);
#undef FORWARD
#undef ROWS
}

// The weights of the chain are whole on every device; in parts they need 0.1 % less memory in all, and gathers. The
// plan did so, and took twice as long as the program's own annotations, though it did not fit either.
Test(plan, bug_hardly_less_memory_cost_a_longer_step_where_nothing_fits) {
    enum { WEIGHTS = 8 };
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule chain, num_partitions=4\nENTRY main {\n"
                    " large = f32[524288,32768] parameter(0), sharding={devices=[4,1]<=[4]}\n"
                    " h0 = f32[4096,1024] parameter(1), sharding={devices=[4,1]<=[4]}\n");
    for (int i = 0; i < WEIGHTS; i++)
        hlo_text_format(&text,
                        " w%d = f32[1024,1024] parameter(%d), sharding={replicated}\n"
                        " h%d = f32[4096,1024] dot(h%d, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
                        i, i + 2, i + 1, i, i);
    hlo_text_format(&text,
                    " sum = f32[4096,1024] add(h0, h%d)\n"
                    " ROOT r = (f32[524288,32768], f32[4096,1024]) tuple(large, sum), "
                    "sharding={{devices=[4,1]<=[4]}, {devices=[4,1]<=[4]}}\n}\n",
                    WEIGHTS);
    Fixture fixture;
    AdviceTrial own;
    cr_assert_null(plan(&fixture, text.data, "v5e-4", (AdvicePlanOptions){.mesh = "data=4", .budget_seconds = 600}));
    cr_assert_null(advice_trial_run(fixture.module, NULL, fixture.topology, NULL, &own));
    cr_expect_not(fixture.plan->best->fits);
    cr_expect_leq(fixture.plan->best->step_picoseconds, own.report->step_picoseconds);
    cr_expect_leq(fixture.plan->best->hbm_peak_bytes, own.report->hbm_peak_bytes * 1.01);
    advice_trial_free(&own);
    hlo_text_free(&text);
    tear_down(&fixture);
}

static bool stop_after_eight(void *context, const AdvicePlanProgress *progress) {
    (void)progress;
    return ++*(int *)context < 8;
}

// What people write by hand is looked at on all three meshes before other starts are on the first. The search had come
// to the second mesh.
Test(plan, bug_meshes_were_left_out_where_time_was_short) {
    enum { LAYERS = 12 };
    HloText text = {0};
    hlo_text_format(&text, "HloModule deep\nENTRY main {\n h0 = f32[512,256] parameter(0)\n");
    for (int i = 0; i < LAYERS; i++)
        hlo_text_format(&text, " w%d = f32[256,1024] parameter(%d)\n v%d = f32[1024,256] parameter(%d)\n", i, 2 * i + 1,
                        i, 2 * i + 2);
    for (int i = 0; i < LAYERS; i++)
        hlo_text_format(&text,
                        " a%d = f32[512,1024] dot(h%d, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                        " b%d = f32[512,1024] sine(a%d)\n"
                        " c%d = f32[512,256] dot(b%d, v%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                        " h%d = f32[512,256] add(c%d, h%d)\n",
                        i, i, i, i, i, i, i, i, i + 1, i, i);
    hlo_text_format(&text, " ROOT r = (f32[512,256]) tuple(h%d)\n}\n", LAYERS);
    Fixture fixture;
    int calls = 0;
    const AdvicePlanOptions options = {.progress = stop_after_eight, .progress_context = &calls};
    cr_assert_null(plan(&fixture, text.data, "v5e-4", options));
    cr_expect_eq(fixture.plan->count, 3, "%lld meshes", (long long)fixture.plan->count);
    cr_expect_eq(fixture.plan->untried, 0, "%lld untried", (long long)fixture.plan->untried);
    cr_expect(fixture.plan->best->fits);
    hlo_text_free(&text);
    tear_down(&fixture);
}

static void expect_refused(const char *text, const char *slice, AdvicePlanOptions options, HloCode code,
                           const char *words) {
    Fixture fixture;
    HloStatus status = plan(&fixture, text, slice, options);
    cr_assert(status);
    cr_expect_eq(hlo_status_code(status), code);
    cr_expect(strstr(hlo_status_message(status), words), "%s", hlo_status_message(status));
    hlo_status_free(status);
    tear_down(&fixture);
}

Test(plan, what_cannot_be_planned_is_refused) {
    static const char *const kept[] = {"q=data,-"};
    expect_refused(kProgram, "cpu:4", (AdvicePlanOptions){0}, HLO_UNIMPLEMENTED, "machine model");
    expect_refused(kProgram, "v5e-4", (AdvicePlanOptions){.mesh = "data=3"}, HLO_INVALID_ARGUMENT, "no such mesh");
    expect_refused(kProgram, "v5e-4", (AdvicePlanOptions){.mesh = "data"}, HLO_INVALID_ARGUMENT, "no axis like");
    expect_refused(kProgram, "v5e-4", (AdvicePlanOptions){.kept = kept, .kept_count = 1}, HLO_INVALID_ARGUMENT, "keep");
}
