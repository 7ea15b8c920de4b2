// SPDX-License-Identifier: Apache-2.0
// meshlo partition and meshlo explain: the program of one device, and why its collectives are there.
#include "tools/machine.h"
#include "tools/prepare.h"
#include "tools/program.h"

static const CliOption kOptions[] = {
    {"propagate-only", CLI_FLAG, NULL, "Only print how each array would be sharded."},
    {"explain", CLI_FLAG, NULL, "Print the reasons of the collectives to standard error too."},
    {"json", CLI_FLAG, NULL, "Print a report of the collectives as JSON instead of the program."},
    {"o", CLI_OUTPUT, "OUT", "Write the program to OUT."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

// The program with a sharding on every instruction and nothing else changed: what propagation would decide.
static HloStatus propagate_only(CliContext *context) {
    HloModule *module = NULL, *annotated = NULL;
    SpmdOptions options;
    EmuTopology *topology = NULL;
    SpmdMachine machine;
    if (cli_machine(context)) HLO_TRY(cli_topology_open(context, cli_machine(context), NULL, &topology));
    const bool prices = topology && target_spmd_machine(topology, &machine);
    HloStatus status = cli_program_load(context, context->arguments.items[0], &module);
    if (status) {
        emu_topology_free(topology);
        return status;
    }
    status = cli_spmd_options(context, module, &options);
    if (prices) options.machine = &machine;
    if (!status) status = spmd_propagate(module, &options, &annotated);
    if (status && (options.mesh_axis_count || options.shard_count || cli_flag(context, "num-partitions")))
        status = cli_blame_options(context, module, status);
    if (!status) status = cli_write_program(context, annotated);
    emu_topology_free(topology);
    hlo_module_free(annotated);
    hlo_module_free(module);
    return status;
}

// With --json the report goes to standard output, and the program only to the file of -o.
static HloStatus print_partitioned(CliContext *context) {
    CliProgram program = {0};
    static const char *const kOutputs[] = {"o", "json"};
    bool taken, json = cli_flag(context, "json");
    HLO_TRY(cli_standard_output(context, kOutputs, HLO_COUNT_OF(kOutputs), &taken));
    HloStatus status = cli_program_prepare(context, &program);
    if (!status && (!json || cli_flag(context, "o"))) status = cli_write_program(context, program.per_device);
    if (!status && json) {
        HloJsonWriter writer = {.text = &context->out, .lines = 2};
        spmd_report_json(&writer, program.report);
        hlo_text_char(&context->out, '\n');
    }
    if (!status && cli_flag(context, "explain")) spmd_report_print(&context->complaint, program.report);
    cli_program_free(&program);
    return status;
}

static HloStatus run_partition(CliContext *context) {
    static const char *const kOfPartitioned[] = {"json", "explain"};
    static const char *const kOfDevices[] = {"device-assignment", "async", "partitioned"};
    for (size_t i = 0; i < HLO_COUNT_OF(kOfPartitioned) && cli_flag(context, "propagate-only"); ++i) {
        if (cli_flag(context, kOfPartitioned[i]))
            return cli_usage_error(context,
                                   "--%s reports on a partitioned program, but --propagate-only does not make one",
                                   kOfPartitioned[i]);
    }
    for (size_t i = 0; i < HLO_COUNT_OF(kOfDevices) && cli_flag(context, "propagate-only"); ++i) {
        if (cli_flag(context, kOfDevices[i]))
            return cli_usage_error(context, "--%s does not apply to --propagate-only", kOfDevices[i]);
    }
    return cli_flag(context, "propagate-only") ? propagate_only(context) : print_partitioned(context);
}

const CliVerb cli_verb_partition = {
    .name = "partition",
    .arguments = "FILE",
    .summary = "Partition a program for a mesh and print the program of one device.",
    .description =
        "Propagates the sharding annotations of the file and those of --shard, then partitions. The number of "
        "devices comes\nfrom the file, the mesh or --num-partitions. A sharding has one item a dimension: an "
        "axis, several (a+b), - for\nnone, ? to let propagation decide.",
    .examples =
        "meshlo partition examples/mlp_gradient_512.hlo -o per_device.hlo\n"
        "meshlo partition step.hlo --mesh x=4,y=2 --shard p0=x,y --json",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&cli_machine_options, &cli_partition_options, &kTable, &cli_compile_options, &cli_program_options},
    .run = run_partition,
};
