// SPDX-License-Identifier: Apache-2.0
// meshlo opt: runs passes over a program and prints it, to show what one of them does. Names and dumps are XLA's, from
// the command line or, by default, from XLA_FLAGS, so that experience with hlo-opt carries over. All errors in the
// options are found before the program is read.
#include <regex.h>
#include <string.h>

#include "compile/xla_flags.h"
#include "hlo/base/file.h"
#include "hlo/base/nearest.h"
#include "hlo/pass/pass.h"
#include "tools/program.h"

static const CliOption kOptions[] = {
    {"passes", CLI_TEXT, "PASS,…", "The passes and pipelines to run, in order (default: the pipeline simplify)."},
    {"list-passes", CLI_FLAG, NULL, "List the passes and pipelines."},
    {"dump-to", CLI_TEXT, "DIR",
     "Write the module before the first pass and after the last to DIR, named as XLA names dumps."},
    {"dump-pass-re", CLI_TEXT, "RE", "Also write it after each pass whose name matches this regular expression."},
    {"o", CLI_OUTPUT, "OUT", "Write the program to OUT."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

static void list_passes(HloText *text) {
    const HloPass *pass;
    const HloPipeline *pipeline;
    for (int64_t i = 0; (pass = hlo_pass_at(i)); ++i) hlo_text_format(text, "%-34s %s\n", pass->name, pass->summary);
    hlo_text_string(text, "\nPipelines:\n");
    for (int64_t i = 0; (pipeline = hlo_pipeline_at(i)); ++i) {
        hlo_text_format(text, "%-34s %s\n", pipeline->name, pipeline->summary);
    }
}

// The name of a pass or pipeline that `name` was probably meant to be, or NULL.
static const char *nearest_pass(CliContext *context, const char *name) {
    HloStringVector names = {0};
    for (int64_t i = 0; hlo_pass_at(i); ++i) hlo_vector_push(context->arena, &names, hlo_pass_at(i)->name);
    for (int64_t i = 0; hlo_pipeline_at(i); ++i) hlo_vector_push(context->arena, &names, hlo_pipeline_at(i)->name);
    return hlo_nearest_name(name, names.items, names.count);
}

// XLA spells some of its passes with '_'; ours have '-' in the table. The name of a pipeline means its passes.
static HloStatus read_passes(CliContext *context, HloStringVector *names) {
    const char *at = cli_text_or(context, "passes", "simplify");
    for (bool more = true; more;) {
        size_t length = strcspn(at, ",");
        char *name = hlo_arena_string(context->arena, at, length);
        for (char *c = name; *c; ++c) *c = *c == '_' ? '-' : *c;
        if (!hlo_pass_find(name) && !hlo_pipeline_find(name)) {
            const char *nearest = nearest_pass(context, name);
            return cli_usage_error(context, "--passes: no pass '%s'%s%s (see --list-passes)", name,
                                   nearest ? "; did you mean " : "", nearest ? nearest : "");
        }
        hlo_vector_push(context->arena, names, name);
        more = at[length] == ',';
        at += length + more;
    }
    return HLO_SUCCESS;
}

// Makes the folder of the dumps and looks at the expression, so that mistakes are seen before work is done.
// The expression is compiled again by the pass runner; this one only finds mistakes while nothing has been done.
static HloStatus check_dumps(CliContext *context, const HloPassOptions *options) {
    regex_t expression;
    if (options->dump_pattern) {
        int wrong = regcomp(&expression, options->dump_pattern, REG_EXTENDED | REG_NOSUB);
        if (wrong)
            return cli_usage_error(context, "--dump-pass-re: '%s' is not a regular expression", options->dump_pattern);
        regfree(&expression);
    }
    if (cli_flag(context, "dump-pass-re") && !options->dump_folder) {
        return cli_usage_error(context, "--dump-pass-re needs --dump-to: without a folder nothing is dumped");
    }
    return options->dump_folder ? hlo_file_make_folder(options->dump_folder) : HLO_SUCCESS;
}

// XLA_FLAGS provides the dump options that the command line does not, as with XLA's own tools.
static HloStatus optimise(CliContext *context, const HloStringVector *names) {
    HloModule *module = NULL;
    HloPassOptions options = {
        .dump_folder = cli_text_or(context, "dump-to", compile_xla_flag(context->arena, "xla_dump_to")),
        .dump_pattern = cli_text_or(context, "dump-pass-re", compile_xla_flag(context->arena, "xla_dump_hlo_pass_re"))};
    HLO_TRY(check_dumps(context, &options));
    HLO_TRY(cli_program_load(context, context->arguments.items[0], &module));
    cli_progress(context, "running passes");
    HloStatus status = hlo_run_passes(module, names->items, names->count, &options);
    if (!status) status = cli_write_program(context, module);
    hlo_module_free(module);
    return status;
}

static HloStatus run_opt(CliContext *context) {
    HloStringVector names = {0};
    static const char *const kOfRuns[] = {"passes", "dump-to", "dump-pass-re", "sizes", "o"};
    for (size_t i = 0; i < HLO_COUNT_OF(kOfRuns) && cli_flag(context, "list-passes"); ++i) {
        if (cli_flag(context, kOfRuns[i]))
            return cli_usage_error(context, "%s%s does not apply to --list-passes", kOfRuns[i][1] ? "--" : "-",
                                   kOfRuns[i]);
    }
    if (cli_flag(context, "list-passes")) {
        list_passes(&context->out);
        return HLO_SUCCESS;
    }
    if (context->arguments.count == 0) return cli_usage_error(context, "FILE is missing (see meshlo opt --help)");
    HLO_TRY(read_passes(context, &names));
    return optimise(context, &names);
}

const CliVerb cli_verb_opt = {
    .name = "opt",
    .arguments = "FILE",
    .summary = "Run passes over a program and print it.",
    .examples =
        "meshlo opt step.hlo --passes call-inliner,simplify,dce\n"
        "meshlo opt step.hlo --dump-to dumps --dump-pass-re '.*' -o step.opt.hlo\nmeshlo opt --list-passes",
    .most_arguments = 1,
    .tables = {&kTable, &cli_program_options},
    .run = run_opt,
};
