// SPDX-License-Identifier: Apache-2.0
// meshlo emulate: time, memory and links of one step on a slice.
//
// Partition i is on the i-th device of JAX's make_mesh order unless --device-assignment gives another, as for `run` and
// `explain`; the times come from emulator/simulate.h. Exceeding HBM is a finding and not an error: the report is still
// printed, and the exit code is 5.
#include <string.h>

#include "emulator/report.h"
#include "tools/execute.h"
#include "tools/machine.h"
#include "tools/program.h"
#include "tools/trial.h"

static const CliOption kSliceOptions[] = {
    {"on", CLI_TEXT, "TOPOLOGY", "The slice, like v5e-16; also --topology (default: MESHLO_TOPOLOGY)."},
};
static const CliOptionTable kSliceTable = CLI_TABLE(kSliceOptions);
static const CliOption kOptions[] = {
    {"report", CLI_OUTPUT, "F.html", "Write a report for a browser, in one file."},
    {"trace", CLI_OUTPUT, "F.json", "Write the timeline for Chrome's or Perfetto's viewer."},
    {"xplane", CLI_OUTPUT, "F.xplane.pb", "Write the profile for XProf and TensorBoard."},
    {"fault", CLI_TEXT, "SPEC", "What-if faults: link:A-B:SPEED, straggler:D:TIMES, dead:D, separated by commas."},
    {"sync", CLI_FLAG, NULL, "Do not split collectives, not even on chips that overlap them with computation."},
    {"kernel-costs", CLI_TEXT, "body|stated",
     "Price kernels by their own program (default), or by the cost that they state."},
    {"model-flops", CLI_NUMBER, "N",
     "Operations of the model in a step of all devices, as its author counts them, for MFU (default: counted)."},
    {"tokens", CLI_NUMBER, "N", "Tokens (or samples) in a step of all devices, for tokens a second."},
    {"json", CLI_FLAG, NULL, "Print the results as JSON."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

// Writes a finished text to a file and frees it.
static HloStatus write_and_free(CliContext *context, HloText *text, const char *path) {
    HloStatus status = cli_write_file(context, path, text);
    hlo_text_free(text);
    return status;
}

static HloStatus standard_output(CliContext *context, bool *taken) {
    static const char *const kOutputs[] = {"trace", "report", "xplane", "json"};
    return cli_standard_output(context, kOutputs, HLO_COUNT_OF(kOutputs), taken);
}

// The smallest slice of a generation that has a name and at least this number of devices; NULL if there is none.
static EmuTopology *slice_of(CliContext *context, const EmuChip *chip, int64_t devices) {
    // Names count devices, or cores where those are more.
    for (int64_t number = devices; number <= 8 * devices; number *= 2) {
        EmuTopology *topology = NULL;
        const char *name = hlo_arena_format(context->arena, "%s-%lld", chip->name, (long long)number);
        hlo_status_free(emu_topology_parse(name, &topology));
        if (topology && topology->device_count >= devices) return topology;
        emu_topology_free(topology);
    }
    return NULL;
}

typedef HLO_VECTOR(EmuRemedy) RemedyVector;

// A program and the slice whose devices have too little memory for it.
typedef struct Misfit {
    CliContext *context;
    const CliProgram *program;
    const EmuTopology *slice;
    EmuKernelCosts kernel_costs;
    RemedyVector remedies;
} Misfit;

static void add_remedy(Misfit *misfit, const char *what, const EmuReport *report) {
    const EmuRemedy remedy = {.what = hlo_arena_text(misfit->context->arena, what),
                              .hbm_peak_bytes = report->hbm_peak_bytes,
                              .hbm_capacity_bytes = report->hbm_capacity_bytes,
                              .step_picoseconds = report->step_picoseconds};
    hlo_vector_push(misfit->context->arena, &misfit->remedies, remedy);
}

// What the command line says counts on other slices too.
static CliTrialOptions trial_options(const Misfit *misfit, const EmuTopology *topology, CliMesh mesh) {
    const SpmdOptions *spmd = &misfit->program->compile.spmd;
    return (CliTrialOptions){.topology = topology,
                             .mesh = mesh,
                             .shards = spmd->shards,
                             .shard_count = spmd->shard_count,
                             .kernel_costs = misfit->kernel_costs,
                             .is_synchronous = cli_flag(misfit->context, "sync")};
}

// The program on another slice. One that was written whole is partitioned anew, as `emulate` does it there.
static void try_slice(Misfit *misfit, const EmuTopology *topology) {
    const CliProgram *program = misfit->program;
    if (program->was_partitioned) {
        EmuReport *report = NULL;
        const EmuOptions options = {.kernel_costs = misfit->kernel_costs};
        hlo_status_free(emu_simulate(program->per_device, topology, &options, &report));
        if (report) add_remedy(misfit, topology->name, report);
        emu_report_free(report);
        return;
    }
    const SpmdOptions *spmd = &program->compile.spmd;
    const CliTrialOptions options =
        trial_options(misfit, topology, (CliMesh){spmd->mesh, spmd->mesh_axis_count, program->device_count});
    CliTrial trial = {0};
    hlo_status_free(cli_trial_run(misfit->context, program->original, &options, &trial));
    if (trial.result.report) add_remedy(misfit, topology->name, trial.result.report);
    cli_trial_free(&trial);
}

// Tries generations whose devices have more memory.
static void try_generations(Misfit *misfit) {
    for (int i = 0; i < EMU_GENERATION_COUNT; ++i) {
        const EmuChip *chip = emu_chip((EmuGeneration)i);
        if (emu_chip_capacity(chip) <= emu_chip_capacity(&misfit->slice->chip)) continue;
        EmuTopology *topology = slice_of(misfit->context, chip, misfit->program->device_count);
        if (topology) try_slice(misfit, topology);
        emu_topology_free(topology);
    }
}

// Tries slices of the same generation with two and four times as many devices, along each axis of the program's mesh
// that has several: the program is laid out anew.
static void try_meshes(Misfit *misfit) {
    CliContext *context = misfit->context;
    const CliProgram *program = misfit->program;
    CliMesh mesh = {0};
    HloStatus status = *program->mesh ? cli_mesh_parse(context, program->mesh, &mesh) : HLO_SUCCESS;
    if (status || program->was_partitioned) {
        hlo_status_free(status);
        return;
    }
    bool told = false;
    for (int64_t i = 0; i < mesh.count; ++i)
        for (int64_t times = 2; times <= 4 && mesh.axes[i].size > 1; times *= 2) {
            EmuTopology *topology = slice_of(context, &misfit->slice->chip, mesh.devices * times);
            SpmdMeshAxis *axes = hlo_arena_copy(context->arena, mesh.axes, sizeof(*axes) * (size_t)mesh.count);
            axes[i].size *= times;
            const CliTrialOptions options =
                trial_options(misfit, topology, (CliMesh){axes, mesh.count, mesh.devices * times});
            CliTrial trial = {0};
            if (topology) status = cli_trial_run(context, program->original, &options, &trial);
            if (status && !told) {
                const EmuRemedy remedy = {.what = hlo_arena_text(context->arena, topology->name),
                                          .error = hlo_arena_text(context->arena, hlo_status_message(status))};
                hlo_vector_push(context->arena, &misfit->remedies, remedy);
                told = true;  // other sizes fail for the same reason
            }
            hlo_status_free(status);
            status = HLO_SUCCESS;
            if (trial.result.report)
                add_remedy(misfit,
                           hlo_arena_format(context->arena, "%s with %s=%lld", topology->name, axes[i].name,
                                            (long long)axes[i].size),
                           trial.result.report);
            cli_trial_free(&trial);
            emu_topology_free(topology);
        }
}

// What would make a program fit is tried, not guessed.
static void try_remedies(CliContext *context, const CliProgram *program, const EmuTopology *slice, EmuKernelCosts costs,
                         EmuReport *report) {
    if (!emu_report_out_of_memory(report)) return;
    Misfit misfit = {.context = context, .program = program, .slice = slice, .kernel_costs = costs};
    cli_progress(context, "trying other slices");
    try_meshes(&misfit);
    try_generations(&misfit);
    report->remedies = misfit.remedies.items;
    report->remedy_count = misfit.remedies.count;
}

// Files first, so that a failure to write one leaves standard output empty.
static HloStatus write_results(CliContext *context, const EmuTopology *topology, const EmuReport *report) {
    const char *trace = cli_text(context, "trace"), *page = cli_text(context, "report"),
               *xplane = cli_text(context, "xplane");
    bool taken;
    HLO_TRY(standard_output(context, &taken));
    context->stage = CLI_STAGE_USAGE;
    if (trace) {
        HloText text = {0};
        emu_report_write_chrome_trace(report, &text);
        HLO_TRY(write_and_free(context, &text, trace));
    }
    if (page) {
        HloText text = {0};
        emu_report_write_html(report, topology, &text);
        HLO_TRY(write_and_free(context, &text, page));
    }
    if (xplane) {
        HloText text = {0};
        emu_report_write_xplane(report, topology, &text);
        HLO_TRY(write_and_free(context, &text, xplane));
    }
    if (cli_flag(context, "json")) {
        emu_report_write_json(report, &context->out);
    } else if (!taken) {
        emu_report_write_summary(report, &context->out);
    }
    if (!emu_report_out_of_memory(report)) return HLO_SUCCESS;
    emu_report_write_out_of_memory(report, &context->complaint);
    context->exit_code = CLI_EXIT_OUT_OF_MEMORY;
    return HLO_SUCCESS;
}

static HloStatus kernel_costs(CliContext *context, EmuKernelCosts *costs) {
    const char *text = cli_text(context, "kernel-costs");
    HLO_FAIL_IF(text && strcmp(text, "body") != 0 && strcmp(text, "stated") != 0, HLO_INVALID_ARGUMENT,
                "--kernel-costs is body or stated, not '%s'", text);
    *costs = text && !strcmp(text, "stated") ? EMU_KERNEL_COSTS_STATED : EMU_KERNEL_COSTS_BODY;
    return HLO_SUCCESS;
}

static HloStatus emulate(CliContext *context, const EmuTopology *topology, const CliProgram *program) {
    EmuReport *report = NULL;
    EmuOptions options = {0};
    context->stage = CLI_STAGE_USAGE;
    HLO_TRY(cli_device_assignment(context, topology, program, &options.device_assignment));
    options.device_assignment_count = options.device_assignment ? program->device_count : 0;
    options.faults = cli_text(context, "fault");
    HLO_TRY(kernel_costs(context, &options.kernel_costs));
    options.model_flops = cli_number(context, "model-flops", 0);
    options.tokens = cli_number(context, "tokens", 0);
    options.whole = program->was_partitioned ? NULL : program->original;
    options.mesh = program->mesh;
    options.mesh_source = program->mesh_source;
    options.keeps_program = cli_text(context, "xplane") != NULL;
    cli_progress(context, "emulating");
    const HloStatus simulated = emu_simulate(program->per_device, topology, &options, &report);
    if (simulated && strncmp(hlo_status_message(simulated), "fault '", 7) == 0)
        return hlo_status_annotate(simulated, "--fault");
    HLO_TRY(simulated);
    try_remedies(context, program, topology, options.kernel_costs, report);
    HloStatus status = write_results(context, topology, report);
    emu_report_free(report);
    return status;
}

// The slice is needed before the program: whether collectives are split into halves depends on the chip.
static HloStatus run_emulate(CliContext *context) {
    CliProgram program = {0};
    EmuTopology *topology = NULL;
    bool taken;
    HLO_TRY(standard_output(context, &taken));  // before any work
    HLO_TRY(cli_topology_open(context, cli_text(context, "on"), NULL, &topology));
    program.overlap = emu_topology_overlaps(topology) && !cli_flag(context, "sync");
    HloStatus status = cli_program_prepare(context, &program);
    if (!status) status = emulate(context, topology, &program);
    cli_program_free(&program);
    emu_topology_free(topology);
    return status;
}

const CliVerb cli_verb_emulate = {
    .name = "emulate",
    .arguments = "FILE",
    .summary = "Time one step of a program on a TPU slice: its parts, memory, links.",
    .description =
        "Partitions the program if needed, collectives in halves that computation runs beside where the chip can. When "
        "it needs more memory than a device has, the exit code is 5, and "
        "standard\n"
        "error gets a report of the largest buffers.",
    .examples =
        "meshlo emulate examples/mlp_gradient_8192.hlo --on v2-8 --trace trace.json\n"
        "meshlo emulate step.hlo --on v5e-16 --mesh x=16 --shard p0=x,- --json",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&kSliceTable, &cli_partition_options, &kTable, &cli_compile_options, &cli_program_options},
    .run = run_emulate,
    .is_table = true,
};
