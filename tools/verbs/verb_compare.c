// SPDX-License-Identifier: Apache-2.0
// meshlo compare: alternatives side by side, and which collectives make the difference.
//
// The alternatives are the files, each on every slice, mesh and set of shards that is given. Collectives are matched by
// what they are for: the parameter that they move, else the scope of the program that they belong to; numbers of layers
// count as equal, so that thirty-two equal layers are one line.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"
#include "emulator/report.h"
#include "hlo/base/decimal.h"
#include "tools/prepare.h"
#include "tools/program.h"
#include "tools/trial.h"

static const CliOption kOptions[] = {
    {"on", CLI_TEXT, "T1,T2", "The slices, as in v5e-8,v6e-8; also --topology (default: MESHLO_TOPOLOGY)."},
    {"mesh", CLI_LIST, "x=4,y=2", "A mesh; several times for several alternatives."},
    {"shard", CLI_LIST, "p0=x,-;p1=y",
     "The shards of an alternative, separated by semicolons; several times for several."},
    {"fail-if", CLI_LIST, "step>5%",
     "Exit with 1 where an alternative's step, peak, bytes or exposed is so much more than the first one's."},
    {"report", CLI_OUTPUT, "OUT", "Write a page for browsers with all of them side by side."},
    {"json", CLI_FLAG, NULL, "Print what emulate --json has of each, and the differences."},
    {"o", CLI_OUTPUT, "OUT", "Write the comparison to OUT."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

typedef struct Program {
    const char *name;
    const EmuTopology *topology;
    CliTrial trial;
} Program;
typedef HLO_VECTOR(Program) Programs;

// Collectives of one kind and purpose, with the bytes that one device of each program sends for them.
typedef struct Difference {
    const char *opcode, *parameter, *scope;
    int64_t *bytes, *counts;
} Difference;
typedef HLO_VECTOR(Difference) Differences;

static void count_collective(CliContext *context, const Programs *programs, int64_t program,
                             const SpmdCollective *collective, Differences *all) {
    const HloInstruction *op = advice_instruction(programs->items[program].trial.result.compiled->module, collective);
    const char *name = op ? advice_moved_parameter(context->arena, op) : "";
    const char *scope = op ? advice_scope(context->arena, op) : "";
    Difference *found = NULL;
    for (int64_t i = 0; i < all->count && !found; ++i) {
        Difference *one = &all->items[i];
        const bool same = !strcmp(one->opcode, collective->opcode) && !strcmp(one->parameter, name) &&
                          (*name || !strcmp(one->scope, scope));
        if (same) found = one;
    }
    if (!found) {
        const Difference made = {hlo_arena_text(context->arena, collective->opcode), name, scope,
                                 HLO_ARENA_NEW(context->arena, int64_t, programs->count),
                                 HLO_ARENA_NEW(context->arena, int64_t, programs->count)};
        hlo_vector_push(context->arena, all, made);
        found = &all->items[all->count - 1];
    }
    const int64_t times = collective->trip_count > 0 ? collective->trip_count : 1;
    found->bytes[program] += collective->bytes_per_device * times;
    found->counts[program] += times;
}

static int64_t largest(const Difference *difference, int64_t count) {
    int64_t most = 0;
    for (int64_t i = 0; i < count; ++i)
        if (difference->bytes[i] > most) most = difference->bytes[i];
    return most;
}

// Those that the programs do not have alike, largest first.
static void find_differences(CliContext *context, const Programs *programs, Differences *differences) {
    Differences all = {0};
    for (int64_t p = 0; p < programs->count; ++p) {
        const SpmdReport *report = programs->items[p].trial.result.compiled->report;
        for (int64_t i = 0; i < report->collective_count; ++i)
            count_collective(context, programs, p, &report->collectives[i], &all);
    }
    for (int64_t i = 0; i < all.count; ++i) {
        bool differs = false;
        for (int64_t p = 1; p < programs->count; ++p)
            differs |=
                all.items[i].bytes[p] != all.items[i].bytes[0] || all.items[i].counts[p] != all.items[i].counts[0];
        if (!differs) continue;
        hlo_vector_push(context->arena, differences, all.items[i]);
        const Difference one = all.items[i];
        int64_t at = differences->count - 1;
        for (; at > 0 && largest(&differences->items[at - 1], programs->count) < largest(&one, programs->count); --at)
            differences->items[at] = differences->items[at - 1];
        differences->items[at] = one;
    }
}

// ---- output

static void write_json(HloText *text, const Programs *programs, const Differences *differences) {
    HloJsonWriter json = {.text = text, .lines = 2};
    hlo_json_begin_object(&json);
    hlo_json_key(&json, "programs");
    hlo_json_begin_array(&json);
    for (int64_t i = 0; i < programs->count; ++i) emu_report_json(&json, programs->items[i].trial.result.report);
    hlo_json_end_array(&json);
    hlo_json_key(&json, "names");
    hlo_json_begin_array(&json);
    for (int64_t i = 0; i < programs->count; ++i) hlo_json_string(&json, programs->items[i].name);
    hlo_json_end_array(&json);
    hlo_json_key(&json, "differences");
    hlo_json_begin_array(&json);
    for (int64_t i = 0; i < differences->count; ++i) {
        const Difference *difference = &differences->items[i];
        hlo_json_begin_object(&json);
        hlo_json_member_string(&json, "collective", difference->opcode);
        hlo_json_member_string(&json, *difference->parameter ? "parameter" : "scope",
                               *difference->parameter ? difference->parameter : difference->scope);
        hlo_json_key(&json, "bytes");
        hlo_json_int64_array(&json, difference->bytes, programs->count);
        hlo_json_key(&json, "counts");
        hlo_json_int64_array(&json, difference->counts, programs->count);
        hlo_json_end_object(&json);
    }
    hlo_json_end_array(&json);
    hlo_json_end_object(&json);
    hlo_text_char(text, '\n');
}

static double exposed_share(const EmuReport *report) {
    return report->step_picoseconds > 0 ? (double)report->exposed_picoseconds / (double)report->step_picoseconds : 0;
}

static void print_programs(CliContext *context, HloText *text, const Programs *programs) {
    for (int64_t i = 0; i < programs->count; ++i) {
        const EmuReport *report = programs->items[i].trial.result.report,
                        *first = programs->items[0].trial.result.report;
        hlo_text_format(text, "%c  step %s", (int)('A' + i % 26), cli_time(context, report->step_picoseconds));
        if (i && first->step_picoseconds > 0)
            hlo_text_format(text, " (%+.1f %%)",
                            100 * ((double)report->step_picoseconds / (double)first->step_picoseconds - 1));
        hlo_text_format(text, ", %s %.1f %%, peak %s%s, sends %s, exposed %.1f %%\n     %s\n",
                        emu_utilisation_name(report->names_scopes), 100 * report->mfu,
                        cli_size(context, report->hbm_peak_bytes),
                        emu_report_out_of_memory(report) ? " (does not fit)" : "",
                        cli_size(context, report->collective_bytes_per_device), 100 * exposed_share(report),
                        programs->items[i].name);
    }
}

// Sizes that differ and would read alike are printed as bytes.
static bool needs_bytes(CliContext *context, const Difference *difference, int64_t count) {
    for (int64_t p = 1; p < count; ++p) {
        const int64_t a = difference->bytes[p - 1], b = difference->bytes[p];
        if (a != b && strcmp(cli_size(context, a), cli_size(context, b)) == 0) return true;
    }
    return false;
}

static void print_differences(CliContext *context, HloText *text, const Programs *programs,
                              const Differences *differences) {
    hlo_text_string(text, differences->count ? "\ncollectives that differ, and what a device sends by them:\n"
                                             : "\nthe collectives are the same\n");
    for (int64_t i = 0; i < differences->count; ++i) {
        const Difference *difference = &differences->items[i];
        const bool bytes = needs_bytes(context, difference, programs->count);
        hlo_text_format(text, "  %-19s", difference->opcode);
        for (int64_t p = 0; p < programs->count; ++p) {
            if (difference->counts[p])
                hlo_text_format(text, " %s (%lld x)",
                                bytes ? hlo_arena_format(context->arena, "%lld B", (long long)difference->bytes[p])
                                      : cli_size(context, difference->bytes[p]),
                                (long long)difference->counts[p]);
            else
                hlo_text_string(text, " none");
            if (p + 1 < programs->count) hlo_text_string(text, " ->");
        }
        const char *what = *difference->parameter ? difference->parameter : difference->scope;
        hlo_text_format(text, "%s%s%s\n", *what ? "  " : "", *difference->parameter ? "parameter " : "", what);
    }
}

// ---- limits

static double metric(const EmuReport *report, int which) {
    switch (which) {
        case 0: return (double)report->step_picoseconds;
        case 1: return (double)report->hbm_peak_bytes;
        case 2: return (double)report->collective_bytes_per_device;
        default: return (double)report->exposed_picoseconds;
    }
}

// `step>5%`: checked before any program is read when `programs` is NULL.
static HloStatus check_limit(CliContext *context, const char *limit, const Programs *programs) {
    static const char *const kMetrics[] = {"step", "peak", "bytes", "exposed"};
    const char *more = strchr(limit, '>');
    char *end = NULL;
    int which = -1;
    const double percent = more ? hlo_strtod(more + 1, &end) : -1;
    for (int i = 0; i < (int)HLO_COUNT_OF(kMetrics) && more; ++i)
        if (strlen(kMetrics[i]) == (size_t)(more - limit) && !memcmp(kMetrics[i], limit, strlen(kMetrics[i])))
            which = i;
    if (which < 0 || end == more + 1 || strcmp(end, "%") != 0 || !(percent >= 0 && percent < 1e9))
        return cli_usage_error(context, "--fail-if %s: wants step, peak, bytes or exposed and a percentage: step>5%%",
                               limit);
    for (int64_t i = 1; programs && i < programs->count; ++i) {
        const double first = metric(programs->items[0].trial.result.report, which),
                     now = metric(programs->items[i].trial.result.report, which);
        if (now <= first * (1 + percent / 100)) continue;
        HLO_TRY(cli_fail(context, CLI_EXIT_CHECK_FAILED, "%s: %s is %.1f %% more than that of %s (--fail-if %s)",
                         programs->items[i].name, kMetrics[which], first > 0 ? 100 * (now / first - 1) : 100.0,
                         programs->items[0].name, limit));
    }
    return HLO_SUCCESS;
}

// Checks all limits; without programs, that they can be read.
static HloStatus check_limits(CliContext *context, const Programs *programs) {
    const HloStringVector limits = cli_list(context, "fail-if");
    for (int64_t i = 0; i < limits.count; ++i) HLO_TRY(check_limit(context, limits.items[i], programs));
    return HLO_SUCCESS;
}

// ---- the alternatives

static void split_shards(CliContext *context, const char *text, HloStringVector *shards) {
    for (const char *at = text; at && *at;) {
        const size_t length = strcspn(at, ";");
        if (length) hlo_vector_push(context->arena, shards, hlo_arena_string(context->arena, at, length));
        at = at[length] ? at + length + 1 : NULL;
    }
}

static HloStatus add_program(CliContext *context, const char *path, const HloModule *module,
                             const EmuTopology *topology, const char *mesh, const char *shard, Programs *programs) {
    CliTrialOptions options = {.topology = topology};
    HloStringVector shards = {0};
    HLO_TRY(cli_mesh_parse(context, mesh, &options.mesh));
    split_shards(context, shard, &shards);
    options.shards = shards.items;
    options.shard_count = shards.count;
    if (mesh && !spmd_is_partitioned(module)) HLO_TRY(cli_mesh_check(context, module, &options.mesh, &shards));
    Program program = {.topology = topology,
                       .name = hlo_arena_format(context->arena, "%s on %s%s%s%s%s", cli_printable(context, path),
                                                topology->name, mesh ? " --mesh " : "", mesh ? mesh : "",
                                                shard ? " --shard " : "", shard ? shard : "")};
    context->stage = CLI_STAGE_PROGRAM;
    cli_progress(context, program.name);
    HloStatus status = cli_trial_run(context, module, &options, &program.trial);
    if (!status) {
        hlo_vector_push(context->arena, programs, program);
        return HLO_SUCCESS;
    }
    cli_trial_free(&program.trial);
    return mesh || shard ? cli_blame_options(context, module, status) : status;
}

static HloStatus add_file(CliContext *context, const char *path, EmuTopology *const *topologies, int64_t topology_count,
                          Programs *programs) {
    const HloStringVector meshes = cli_list(context, "mesh"), shards = cli_list(context, "shard");
    HloModule *module = NULL;
    HLO_TRY(cli_program_load(context, path, &module));
    HloStatus status = HLO_SUCCESS;
    for (int64_t t = 0; t < topology_count; ++t)
        for (int64_t m = 0; m < meshes.count + !meshes.count; ++m)
            for (int64_t s = 0; s < shards.count + !shards.count && !status; ++s)
                status = add_program(context, path, module, topologies[t], meshes.count ? meshes.items[m] : NULL,
                                     shards.count ? shards.items[s] : NULL, programs);
    hlo_module_free(module);
    return status;
}

static HloStatus standard_output(CliContext *context, bool *taken) {
    static const char *const kOutputs[] = {"report", "json"};
    return cli_standard_output(context, kOutputs, HLO_COUNT_OF(kOutputs), taken);
}

// The page is written first, so that a failure to write it leaves standard output empty.
static HloStatus write_page(CliContext *context, const Programs *programs) {
    const char *path = cli_text(context, "report");
    if (!path) return HLO_SUCCESS;
    const EmuReport **reports = HLO_ARENA_NEW(context->arena, const EmuReport *, programs->count);
    const EmuTopology **topologies = HLO_ARENA_NEW(context->arena, const EmuTopology *, programs->count);
    const char **names = HLO_ARENA_NEW(context->arena, const char *, programs->count);
    for (int64_t i = 0; i < programs->count; ++i) {
        reports[i] = programs->items[i].trial.result.report;
        topologies[i] = programs->items[i].topology;
        names[i] = programs->items[i].name;
    }
    HloText text = {0};
    emu_report_write_comparison_html(reports, topologies, names, programs->count, &text);
    context->stage = CLI_STAGE_USAGE;
    HloStatus status = cli_write_file(context, path, &text);
    hlo_text_free(&text);
    return status;
}

static HloStatus compare(CliContext *context, const Programs *programs) {
    Differences differences = {0};
    HloText text = {0};
    bool taken;
    HLO_TRY(standard_output(context, &taken));
    HLO_TRY(write_page(context, programs));
    if (taken && !cli_flag(context, "json")) return check_limits(context, programs);
    find_differences(context, programs, &differences);
    if (cli_flag(context, "json")) {
        write_json(&text, programs, &differences);
    } else {
        print_programs(context, &text, programs);
        print_differences(context, &text, programs, &differences);
    }
    context->stage = CLI_STAGE_USAGE;
    HloStatus status = cli_write_output(context, &text);
    hlo_text_free(&text);
    return status ? status : check_limits(context, programs);
}

static HloStatus run_compare(CliContext *context) {
    const HloStringVector meshes = cli_list(context, "mesh"), shards = cli_list(context, "shard");
    EmuTopology **topologies;
    int64_t count;
    Programs programs = {0};
    bool taken;
    HLO_TRY(standard_output(context, &taken));  // before any work
    HLO_TRY(check_limits(context, NULL));
    HLO_TRY(cli_topologies_open(context, cli_text(context, "on"), &topologies, &count));
    const int64_t alternatives =
        context->arguments.count * count * (meshes.count + !meshes.count) * (shards.count + !shards.count);
    HloStatus status = HLO_SUCCESS;
    if (alternatives < 2)
        status =
            cli_usage_error(context, "nothing to compare: give several files, or several --mesh, --shard or slices");
    for (int64_t i = 0; i < context->arguments.count && !status; ++i)
        status = add_file(context, context->arguments.items[i], topologies, count, &programs);
    if (!status) status = compare(context, &programs);
    for (int64_t i = 0; i < programs.count; ++i) cli_trial_free(&programs.items[i].trial);
    for (int64_t i = 0; i < count; ++i) emu_topology_free(topologies[i]);
    return status;
}

const CliVerb cli_verb_compare = {
    .name = "compare",
    .arguments = "FILE...",
    .summary = "Compare the step, memory and collectives of several programs, meshes, shards or slices.",
    .description =
        "Every file is timed on every slice, with every --mesh and every --shard. The report has step, model flop\n"
        "utilisation, peak memory, bytes sent and the share of exposed collectives of each, and the collectives that\n"
        "differ, by parameter or scope.",
    .examples =
        "meshlo compare before.mlir after.mlir --on v5e-16 --fail-if 'step>5%' --report comparison.html\n"
        "meshlo compare step.hlo --on v5e-16 --mesh data=16,model=1 --mesh data=4,model=4 --json\n"
        "meshlo compare step.hlo --on v5e-8 --mesh x=8 --shard 'p0=x' --shard 'p0=-,x;p1=x'",
    .least_arguments = 1,
    .most_arguments = 32,
    .tables = {&kTable, &cli_program_options},
    .run = run_compare,
    .is_table = true,
};
