// SPDX-License-Identifier: Apache-2.0
// meshlo vmap: a program mapped over an axis of its parameters.

#include "hlo/transform/transform.h"
#include "tools/machine.h"
#include "tools/program.h"

static const CliOption kOptions[] = {
    {"axes", CLI_TEXT, "0,-,1", "For each parameter the axis to map over, - for none (default: 0 for all)."},
    {"size", CLI_INTEGER, "N", "The size of that axis, which the mapped parameters get in addition to their own."},
    {"axis-name", CLI_TEXT, "NAME",
     "The name of the axis: collectives with the frontend attribute axis_name=NAME exchange among its items."},
    {"o", CLI_OUTPUT, "OUT", "Write the program to OUT."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

static HloStatus run_vmap(CliContext *context) {
    HloVmapOptions options = {.size = cli_integer(context, "size", 0), .axis_name = cli_text(context, "axis-name")};
    HloModule *module = NULL;
    HloComputation *result = NULL;
    HloInt64Vector axes = {0};
    HLO_TRY(cli_numbers(context, "axes", true, "axes, as 0,-,1", &axes));
    options.axes = (HloInts){axes.items, axes.count};
    if (options.axis_name && !hlo_is_attribute_key(options.axis_name))
        return cli_usage_error(context, "--axis-name: '%s' is no name", options.axis_name);
    if (options.size < 1) return cli_usage_error(context, "--size wants a number from 1 on");
    HLO_TRY(cli_program_load(context, context->arguments.items[0], &module));
    HloStatus status = hlo_vmap(module->entry, &options, &result);
    if (!status) status = cli_write_transformed(context, module, result);
    hlo_module_free(module);
    return status;
}

const CliVerb cli_verb_vmap = {
    .name = "vmap",
    .arguments = "FILE",
    .summary = "Map a program over an axis of its parameters and print it.",
    .description =
        "Each mapped parameter gets an axis of --size where --axes says, and every result one in front. The program "
        "works on\nwhole batches, as jax.vmap's does: a product of a batch of vectors and a matrix is one product.",
    .examples =
        "meshlo vmap model.mlir --axes -,0 --size 32 -o batched.hlo\n"
        "meshlo grad loss.mlir --mode grad | meshlo vmap - --size 8 --axes -,0 -o per_example.hlo",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&kTable, &cli_program_options},
    .run = run_vmap,
};
