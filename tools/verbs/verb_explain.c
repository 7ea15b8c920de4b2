// SPDX-License-Identifier: Apache-2.0
// meshlo explain: what a program's collectives are for, what they cost on a slice, and which changes help.
#include "advice/advice.h"
#include "tools/execute.h"
#include "tools/prepare.h"
#include "tools/trial.h"

static const CliOption kOptions[] = {
    {"budget", CLI_TEXT, "10s",
     "Try changes no longer than so many seconds (s), minutes (m) or milliseconds (ms); 0s tries none."},
    {"each", CLI_FLAG, NULL, "Also list every collective with the op and the shardings that it comes from."},
    {"json", CLI_FLAG, NULL, "Print the report as JSON."},
    {"o", CLI_OUTPUT, "OUT", "Write the report to OUT."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

static void show_progress(void *argument, int64_t tried, double share) {
    CliContext *context = argument;
    if (!context->progress) return;
    cli_progress(context, hlo_arena_format(context->arena, "trying changes: %lld, %.0f %% of the budget",
                                           (long long)tried, 100 * share));
}

static HloStatus write_report(CliContext *context, const CliProgram *program, const AdviceReport *report) {
    HloText text = {0};
    if (cli_flag(context, "json")) {
        advice_write_json(report, &text);
    } else {
        advice_print(&text, report);
        if (cli_flag(context, "each")) {
            hlo_text_char(&text, '\n');
            spmd_report_print(&text, program->report);
        }
    }
    context->stage = CLI_STAGE_USAGE;  // only writing can still fail
    HloStatus status = hlo_text_status(&text);
    if (!status) status = cli_write_output(context, &text);
    hlo_text_free(&text);
    return status;
}

static HloStatus explain(CliContext *context, const EmuTopology *topology, const CliProgram *program) {
    AdviceOptions options = {.topology = topology,
                             .mesh_source = program->mesh_source,
                             .progress = show_progress,
                             .progress_context = context};
    AdviceReport *report;
    HLO_TRY(cli_budget(context, 10, &options.budget_seconds));
    if (topology && emu_topology_is_tpu(topology)) {
        HLO_TRY(cli_device_assignment(context, topology, program, &options.device_assignment));
        options.device_assignment_count = options.device_assignment ? program->device_count : 0;
    }
    context->stage = CLI_STAGE_PROGRAM;
    HLO_TRY(advice_of_compiled(program->original, &program->compile, program->compiled, &options, &report));
    HloStatus status = write_report(context, program, report);
    advice_free(report);
    return status;
}

static HloStatus run_explain(CliContext *context) {
    CliProgram program = {0};
    EmuTopology *topology = NULL;
    double budget;
    HLO_TRY(cli_budget(context, 10, &budget));  // a wrong one is wrong usage whatever the program is
    if (cli_flag(context, "json") && cli_flag(context, "each"))
        return cli_usage_error(context, "--each is for people: --json lists every collective");
    if (cli_machine(context)) {
        HLO_TRY(cli_topology_open(context, cli_machine(context), NULL, &topology));
        program.overlap = emu_topology_overlaps(topology);
    }
    HloStatus status = cli_program_prepare(context, &program);
    if (!status) status = explain(context, topology, &program);
    cli_program_free(&program);
    emu_topology_free(topology);
    return status;
}

const CliVerb cli_verb_explain = {
    .name = "explain",
    .arguments = "FILE",
    .summary = "Explain why a program communicates, what it costs, and what to change.",
    .description =
        "Partitions as `partition` does and says what each collective is for; collectives of equal layers are one "
        "line.\n"
        "With a slice the lines have times, and changes of the shardings are tried: those that make the step faster\n"
        "are listed with its time, memory and bytes, as options and in JAX's words.",
    .examples =
        "meshlo explain step.hlo --on v5e-16\n"
        "meshlo explain step.mlir --on v5e-16 --mesh data=8,model=2 --budget 30s --json",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&cli_machine_options, &cli_partition_options, &kTable, &cli_compile_options, &cli_program_options},
    .run = run_explain,
    .is_table = true,
};
