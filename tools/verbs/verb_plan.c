// SPDX-License-Identifier: Apache-2.0
// meshlo plan: the mesh and the shardings of parameters that give the least step, which advice/plan.h searches.
#include <stdlib.h>
#include <string.h>

#include "advice/plan.h"
#include "tools/prepare.h"
#include "tools/trial.h"

static const CliOption kOptions[] = {
    {"on", CLI_TEXT, "T1,T2", "The slices, as in v5e-8,v6e-8; also --topology (default: MESHLO_TOPOLOGY)."},
    {"mesh", CLI_TEXT, "a=*,b=*",
     "The axes; * is any size (default: the program's axes, else data and model, all with *)."},
    {"keep", CLI_LIST, "p3=data,-", "A sharding that the plan must have, as --shard of partition takes it."},
    {"budget", CLI_TEXT, "30s", "Search no longer than so many seconds (s), minutes (m) or milliseconds (ms)."},
    {"objective", CLI_TEXT, "time|memory|cost",
     "What is to be least (default: time). Plans that do not fit come last."},
    {"price", CLI_LIST, "v5e=1.20",
     "What a chip of this generation costs an hour, for what a step costs and --objective cost."},
    {"seed", CLI_INTEGER, "S", "Accepted for scripts: the search uses no random numbers."},
    {"json", CLI_FLAG, NULL, "Print the plan as JSON."},
    {"o", CLI_OUTPUT, "OUT", "Write the program with the plan's annotations to OUT."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

static bool show_progress(void *argument, const AdvicePlanProgress *progress) {
    CliContext *context = argument;
    if (!context->progress) return true;
    const char *best = progress->step_picoseconds ? cli_time(context, progress->step_picoseconds) : "none";
    cli_progress(context,
                 hlo_arena_format(context->arena, "searching: %lld plans timed, best step %s, %.0f %% of the budget",
                                  (long long)progress->evaluated, best, 100 * progress->share));
    return true;
}

// ---- options

static HloStatus read_objective(CliContext *context, EmuTopology *const *topologies, int64_t count,
                                AdvicePlanOptions *options) {
    static const char *const kNames[] = {
        [ADVICE_LEAST_TIME] = "time", [ADVICE_LEAST_MEMORY] = "memory", [ADVICE_LEAST_COST] = "cost"};
    const char *text = cli_text_or(context, "objective", "time");
    size_t objective = 0;
    while (objective < HLO_COUNT_OF(kNames) && strcmp(text, kNames[objective]) != 0) objective++;
    if (objective == HLO_COUNT_OF(kNames))
        return cli_usage_error(context, "--objective wants time, memory or cost, not '%s'", text);
    HLO_TRY(cli_prices_check(context, topologies, count));
    double *prices = HLO_ARENA_NEW(context->arena, double, count);
    for (int64_t i = 0; i < count; ++i) {
        prices[i] = cli_price_of(context, topologies[i]);
        if (objective == ADVICE_LEAST_COST && prices[i] < 0)
            return cli_usage_error(context, "--objective cost wants --price of %s", topologies[i]->chip.name);
    }
    options->objective = (AdviceObjective)objective;
    options->prices = prices;
    return HLO_SUCCESS;
}

// Refuses what the slices and the options make impossible, before the search.
static HloStatus check_slices(CliContext *context, EmuTopology *const *topologies, int64_t count) {
    const char *pattern = cli_text(context, "mesh");
    for (int64_t i = 0; i < count; ++i) {
        CliMesh *meshes;
        int64_t mesh_count;
        if (!emu_topology_is_tpu(topologies[i]))
            return hlo_error(HLO_UNIMPLEMENTED, "%s: host processors have no machine model", topologies[i]->name);
        if (pattern)
            HLO_TRY(cli_meshes_expand(context, pattern, topologies[i]->device_count, false, &meshes, &mesh_count));
    }
    return HLO_SUCCESS;
}

// ---- the plan

static HloStatus write_plan(CliContext *context, const HloModule *module, const AdvicePlan *plan) {
    const char *path = cli_text(context, "o");
    if (path) {
        HloModule *annotated = NULL;
        HloStatus status = advice_plan_apply(module, plan, &annotated);
        context->stage = CLI_STAGE_USAGE;
        if (!status) status = cli_write_program(context, annotated);
        hlo_module_free(annotated);
        HLO_TRY(status);
    }
    if (cli_flag(context, "json"))
        advice_plan_write_json(plan, &context->out);
    else if (!path || strcmp(path, "-") != 0)
        advice_plan_print(&context->out, plan);
    return HLO_SUCCESS;
}

static HloStatus finish(CliContext *context, const HloModule *module, const AdvicePlan *plan) {
    if (plan->left_out)
        hlo_text_format(&context->complaint, "note: %lld of %lld meshes are left out: %s\n", (long long)plan->left_out,
                        (long long)(plan->left_out + plan->count), plan->reason);
    if (plan->untried)
        hlo_text_format(&context->complaint, "note: the budget ended before %lld other%s of mesh and repair %s tried\n",
                        (long long)plan->untried, plan->untried > 1 ? " combinations" : " combination",
                        plan->untried > 1 ? "were" : "was");
    HLO_TRY(write_plan(context, module, plan));
    if (plan->best->fits) return HLO_SUCCESS;
    context->exit_code = CLI_EXIT_OUT_OF_MEMORY;
    hlo_text_format(&context->complaint, "no plan was found that fits: the smallest needs %s of %s\n",
                    cli_size(context, plan->best->hbm_peak_bytes), plan->best->topology->name);
    return HLO_SUCCESS;
}

static HloStatus plan_program(CliContext *context, const HloModule *module, EmuTopology *const *topologies,
                              int64_t count) {
    const HloStringVector kept = cli_list(context, "keep");
    AdvicePlanOptions options = {.topologies = (const EmuTopology *const *)topologies,
                                 .topology_count = count,
                                 .mesh = cli_text(context, "mesh"),
                                 .kept = kept.items,
                                 .kept_count = kept.count,
                                 .progress = show_progress,
                                 .progress_context = context};
    AdvicePlan *plan;
    HLO_TRY(cli_budget(context, 60, &options.budget_seconds));
    if (options.budget_seconds <= 0) return cli_usage_error(context, "--budget: a search needs more time than 0");
    if (spmd_is_partitioned(module))
        return cli_usage_error(context, "the program is that of one device already, and no longer sharded");
    HLO_TRY(check_slices(context, topologies, count));
    HLO_TRY(read_objective(context, topologies, count, &options));
    context->stage = CLI_STAGE_PROGRAM;
    HloStatus status = advice_plan_new(module, &options, &plan);
    if (status) return cli_blame_options(context, module, status);
    status = finish(context, module, plan);
    advice_plan_free(plan);
    return status;
}

static HloStatus run_plan(CliContext *context) {
    static const char *const kOutputs[] = {"o", "json"};
    EmuTopology **topologies;
    HloModule *module = NULL;
    int64_t count;
    bool taken;
    HLO_TRY(cli_standard_output(context, kOutputs, HLO_COUNT_OF(kOutputs), &taken));
    HLO_TRY(cli_topologies_open(context, cli_text(context, "on"), &topologies, &count));
    HloStatus status = cli_program_load(context, context->arguments.items[0], &module);
    if (!status) status = plan_program(context, module, topologies, count);
    hlo_module_free(module);
    for (int64_t i = 0; i < count; ++i) emu_topology_free(topologies[i]);
    return status;
}

const CliVerb cli_verb_plan = {
    .name = "plan",
    .arguments = "FILE",
    .summary = "Search for the mesh and the shardings that give the least step within memory.",
    .description =
        "Decides the shardings of parameters, those of equal layers together, on every mesh of the pattern, with the\n"
        "emulator as the judge. Annotations of the program stay where the plan does not change them. The plan is\n"
        "printed as options that every verb takes. Where nothing fits, activations are computed again or wait in host\n"
        "memory; the plan then names the pass of `meshlo opt` that does it.",
    .examples =
        "meshlo plan step.mlir --on v5e-8 --budget 30s -o planned.hlo\n"
        "meshlo plan step.hlo --on v5e-16,v6e-8 --mesh 'data=*,model=*' --keep p3=data,- --json",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&kTable, &cli_program_options},
    .run = run_plan,
    .is_table = true,
};
