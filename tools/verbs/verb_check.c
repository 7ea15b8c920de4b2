// SPDX-License-Identifier: Apache-2.0
// meshlo check: a guard against more communication, time or memory. A check collects all broken rules before it ends
// with exit code 1, so that one run shows them all; the counters are those of one device, collectives inside loops as
// the report counts them.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"
#include "emulator/emulator.h"
#include "hlo/base/decimal.h"
#include "hlo/base/file.h"
#include "hlo/base/nearest.h"
#include "tools/execute.h"
#include "tools/sizes.h"

static const CliOption kOptions[] = {
    {"forbid", CLI_TEXT, "OPCODES",
     "Fail when the partitioned program has one of these collectives (comma-separated)."},
    {"max-bytes", CLI_TEXT, "N[KiB|MiB|GiB]", "Fail when one device sends more bytes than this."},
    {"max-step", CLI_TEXT, "20ms", "With a slice: fail when a step takes longer (s, ms, us or m)."},
    {"max-memory", CLI_TEXT, "N[KiB|MiB|GiB]", "With a slice: fail when one device needs more memory than this."},
    {"baseline", CLI_TEXT, "F.json",
     "Fail when bytes, collectives, step or memory are more than in a report of check, partition, explain or emulate "
     "--json."},
    {"tolerance", CLI_TEXT, "2%", "How much more than the baseline bytes, step and memory may be (default: 0%)."},
    {"json", CLI_FLAG, NULL, "Print JSON: ok, the failures, and what a baseline needs."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

// One broken rule.
typedef struct Failure {
    const char *rule, *message;
    const char *collective;  // its name, or NULL for a rule about the whole program
} Failure;

// One run of the verb.
typedef struct Check {
    CliContext *context;
    CliProgram program;
    EmuTopology *topology;  // NULL without a slice
    EmuReport *emulated;    // likewise
    HLO_VECTOR(Failure) failures;
    double max_bytes, max_step, max_memory;  // below 0: no limit
    double tolerance;                        // a factor
    const HloJsonValue *baseline;
} Check;

// One line a reason: a collective of several arrays has one for each.
static void print_reasons(CliContext *context, const char *reasons) {
    static const char between[] = "; ";
    const char *at = advice_reason_words(context->arena, reasons);
    while (*at) {
        const char *end = strstr(at, between);
        hlo_text_format(&context->complaint, "    %.*s\n", (int)(end ? end - at : (ptrdiff_t)strlen(at)), at);
        at = end ? end + strlen(between) : at + strlen(at);
    }
}

// Notes one broken rule; a rule about the whole program comes without a collective.
static HloStatus broken(Check *check, const char *rule, const SpmdCollective *collective, const char *words) {
    CliContext *context = check->context;
    const char *message = words;
    if (collective)
        message = hlo_arena_format(context->arena, "%s: %s %s, %s a device%s%s", words, collective->opcode,
                                   collective->name, cli_size(context, collective->bytes_per_device),
                                   *collective->source ? ", " : "", collective->source);
    hlo_vector_push(context->arena, &check->failures, ((Failure){rule, message, collective ? collective->name : NULL}));
    HLO_TRY(cli_fail(context, CLI_EXIT_CHECK_FAILED, "check failed: %s", message));
    if (collective) print_reasons(context, collective->reason);
    return HLO_SUCCESS;
}

// Compares whole words between commas: `all-reduce` does not match a part of another word.
static bool list_has(const char *list, const char *word) {
    assert(word);
    size_t length = strlen(word);
    for (const char *at = list; *at;) {
        size_t item = strcspn(at, ",");
        if (item == length && memcmp(at, word, length) == 0) return true;
        at += item + (at[item] == ',');
    }
    return false;
}

// Every word of --forbid must be a collective: a misspelt one would forbid nothing, and the check would always pass.
static HloStatus check_words(CliContext *context, const char *list) {
    static const char *const kCollectives[] = {"all-gather",       "all-reduce",         "reduce-scatter",
                                               "all-to-all",       "collective-permute", "collective-broadcast",
                                               "ragged-all-to-all"};
    const char *at = list;
    for (bool more = true; more;) {
        size_t length = strcspn(at, ",");
        const char *word = hlo_arena_string(context->arena, at, length);
        bool known = false;
        for (size_t i = 0; i < HLO_COUNT_OF(kCollectives); ++i) known |= strcmp(word, kCollectives[i]) == 0;
        const char *nearest = hlo_nearest_name(word, kCollectives, HLO_COUNT_OF(kCollectives));
        if (!known) {
            return cli_usage_error(context, "--forbid: '%s' is not a collective%s%s", word,
                                   nearest ? "; did you mean " : "", nearest ? nearest : "");
        }
        more = at[length] == ',';
        at += length + more;
    }
    return HLO_SUCCESS;
}

// Halves of asynchronous collectives are reported under the collective's own name (spmd_partitioner/explain.c), so that
// --async changes nothing here.
static HloStatus check_forbidden(Check *check) {
    const char *list = cli_text_or(check->context, "forbid", "");
    const SpmdReport *report = check->program.report;
    for (int64_t i = 0; i < report->collective_count; ++i) {
        if (!list_has(list, report->collectives[i].opcode)) continue;
        HLO_TRY(broken(check, "forbid", &report->collectives[i], "forbidden"));
    }
    return HLO_SUCCESS;
}

static HloStatus read_size(CliContext *context, const char *option, double *bytes) {
    const char *text = cli_text(context, option);
    *bytes = -1;
    if (!text || cli_size_parse(text, bytes)) return HLO_SUCCESS;
    return cli_usage_error(context, "--%s expects a number, optionally with KiB, MiB or GiB, not '%s'", option, text);
}

static HloStatus read_step(CliContext *context, double *seconds) {
    const char *text = cli_text(context, "max-step");
    *seconds = -1;
    if (!text || cli_duration_parse(text, seconds)) return HLO_SUCCESS;
    return cli_usage_error(context, "--max-step expects a time like 20ms, 1.5s or 300µs, not '%s'", text);
}

static HloStatus read_tolerance(CliContext *context, double *factor) {
    const char *text = cli_text(context, "tolerance");
    char *end = NULL;
    *factor = 1;
    if (!text) return HLO_SUCCESS;
    const double percent = hlo_strtod(text, &end);
    if (end == text || strcmp(end, "%") != 0 || !(percent >= 0 && percent < 1e6))
        return cli_usage_error(context, "--tolerance expects a percentage like 2%%, not '%s'", text);
    if (!cli_flag(context, "baseline"))
        return cli_usage_error(context, "--tolerance is that of --baseline, which is missing");
    *factor = 1 + percent / 100;
    return HLO_SUCCESS;
}

// Bytes as the report counts them: what one device sends, by the ring algorithm (docs/cli.md), loops of unknown length
// once.
static HloStatus check_limits(Check *check) {
    CliContext *context = check->context;
    HloArena *arena = context->arena;
    const int64_t bytes = check->program.report->total_bytes_per_device;
    if (check->max_bytes >= 0 && (double)bytes > check->max_bytes)
        HLO_TRY(broken(check, "max-bytes", NULL,
                       hlo_arena_format(arena, "one device sends %s (%lld bytes), more than %s",
                                        cli_size(context, bytes), (long long)bytes, cli_text(context, "max-bytes"))));
    if (!check->emulated) return HLO_SUCCESS;
    const int64_t step = check->emulated->step_picoseconds, peak = check->emulated->hbm_peak_bytes;
    if (check->max_step >= 0 && (double)step > check->max_step * 1e12)
        HLO_TRY(broken(check, "max-step", NULL,
                       hlo_arena_format(arena, "a step takes %s, more than %s", cli_time(context, step),
                                        cli_text(context, "max-step"))));
    if (check->max_memory >= 0 && (double)peak > check->max_memory)
        HLO_TRY(broken(check, "max-memory", NULL,
                       hlo_arena_format(arena, "one device needs %s, more than %s", cli_size(context, peak),
                                        cli_text(context, "max-memory"))));
    return HLO_SUCCESS;
}

// ---- baselines

static int64_t count_in_baseline(const HloJsonValue *list, const char *opcode) {
    int64_t count = 0;
    for (int64_t i = 0; list && i < list->count; ++i) {
        const HloJsonValue *name = hlo_json_get(list->items[i], "opcode");
        count += name && name->kind == HLO_JSON_STRING && strcmp(name->string, opcode) == 0;
    }
    return count;
}

static int64_t count_in_report(const SpmdReport *report, const char *opcode) {
    int64_t count = 0;
    for (int64_t i = 0; i < report->collective_count; ++i) count += strcmp(report->collectives[i].opcode, opcode) == 0;
    return count;
}

// A number of at least 0 in the baseline; below 0 where it is not there or is none.
static double number_of(const HloJsonValue *baseline, const char *key) {
    const HloJsonValue *value = hlo_json_get(baseline, key);
    const bool good = value && value->kind == HLO_JSON_NUMBER && value->number >= 0 && value->number < 0x1p63;
    return good ? value->number : -1;
}

static double bytes_of_baseline(const HloJsonValue *baseline) {
    const double total = number_of(baseline, "total_bytes_per_device");
    return total >= 0 ? total : number_of(baseline, "collective_bytes_per_device");
}

// Kinds of collectives that the baseline does not have count as zero there; each kind is counted and complained about
// once, at its first collective.
static HloStatus compare_counts(Check *check, const HloJsonValue *list) {
    const SpmdReport *report = check->program.report;
    for (int64_t i = 0; i < report->collective_count; ++i) {
        const char *opcode = report->collectives[i].opcode;
        int64_t first = 0;
        while (strcmp(report->collectives[first].opcode, opcode) != 0) ++first;
        if (first != i) continue;
        const int64_t now = count_in_report(report, opcode), before = count_in_baseline(list, opcode);
        if (now <= before) continue;
        HLO_TRY(broken(check, "baseline", NULL,
                       hlo_arena_format(check->context->arena, "%lld x %s, the baseline has %lld", (long long)now,
                                        opcode, (long long)before)));
    }
    return HLO_SUCCESS;
}

// Less than the baseline is always fine. What it does not have is not compared.
static HloStatus compare_baseline(Check *check) {
    CliContext *context = check->context;
    HloArena *arena = context->arena;
    const HloJsonValue *list = hlo_json_get(check->baseline, "collectives");
    const int64_t bytes = check->program.report->total_bytes_per_device;
    const double before = bytes_of_baseline(check->baseline), step = number_of(check->baseline, "step_seconds"),
                 peak = number_of(check->baseline, "hbm_peak_bytes");
    if ((double)bytes > before * check->tolerance)
        HLO_TRY(broken(
            check, "baseline", NULL,
            hlo_arena_format(arena, "one device sends %s (%lld bytes), the baseline %s (%.0f bytes)",
                             cli_size(context, bytes), (long long)bytes, cli_size(context, (int64_t)before), before)));
    if (list && list->kind == HLO_JSON_ARRAY) HLO_TRY(compare_counts(check, list));
    if (!check->emulated) {
        if (step >= 0)
            hlo_text_format(&context->complaint,
                            "note: the baseline's step and memory are not checked without a slice (--on)\n");
        return HLO_SUCCESS;
    }
    // Seconds were rounded to doubles when they were written: a picosecond is no difference.
    const int64_t now = check->emulated->step_picoseconds;
    if (step >= 0 && (double)now > step * 1e12 * check->tolerance + 1)
        HLO_TRY(broken(check, "baseline", NULL,
                       hlo_arena_format(arena, "a step takes %s, the baseline %s", cli_time(context, now),
                                        cli_time(context, (int64_t)(step * 1e12)))));
    if (peak >= 0 && (double)check->emulated->hbm_peak_bytes > peak * check->tolerance)
        HLO_TRY(broken(
            check, "baseline", NULL,
            hlo_arena_format(arena, "one device needs %s, the baseline %s",
                             cli_size(context, check->emulated->hbm_peak_bytes), cli_size(context, (int64_t)peak))));
    return HLO_SUCCESS;
}

// `<stdin>` is named as everywhere. The value lives in the context's arena, the file's content is freed.
static HloStatus read_baseline(CliContext *context, const char *path, const HloJsonValue **baseline) {
    assert(path && baseline);
    HloFileContent content;
    HloJsonValue *value = NULL;
    context->stage = CLI_STAGE_USAGE;
    HLO_TRY(hlo_file_read(path, (size_t)1 << 30, &content));
    context->stage = CLI_STAGE_PROGRAM;
    HloStatus status =
        hlo_json_parse(context->arena, strcmp(path, "-") ? path : "<stdin>", content.data, content.size, &value);
    hlo_file_content_free(&content);
    HLO_TRY(status);
    *baseline = value;
    if (value->kind == HLO_JSON_OBJECT && bytes_of_baseline(value) >= 0) return HLO_SUCCESS;
    return hlo_error(HLO_INVALID_ARGUMENT,
                     "--baseline: the file is not a report of meshlo check, partition, explain or emulate --json");
}

// ---- the verb

// Rules are read before the program: a wrong rule is wrong usage whatever the program is.
static HloStatus read_rules(Check *check) {
    CliContext *context = check->context;
    const char *path = cli_text(context, "baseline"), *forbid = cli_text(context, "forbid");
    if (!forbid && !path && !cli_flag(context, "max-bytes") && !cli_flag(context, "max-step") &&
        !cli_flag(context, "max-memory"))
        return cli_usage_error(context,
                               "nothing to check: --forbid, --max-bytes, --max-step, --max-memory or --baseline");
    if (forbid) HLO_TRY(check_words(context, forbid));
    HLO_TRY(read_size(context, "max-bytes", &check->max_bytes));
    HLO_TRY(read_size(context, "max-memory", &check->max_memory));
    HLO_TRY(read_step(context, &check->max_step));
    HLO_TRY(read_tolerance(context, &check->tolerance));
    if (cli_machine(context)) HLO_TRY(cli_topology_open(context, cli_machine(context), NULL, &check->topology));
    const bool is_slice = check->topology && emu_topology_is_tpu(check->topology);
    if (!is_slice && (check->max_step >= 0 || check->max_memory >= 0))
        return cli_usage_error(context, "--%s needs a slice to time the program on, as in --on v5e-8",
                               check->max_step >= 0 ? "max-step" : "max-memory");
    if (!is_slice) {
        emu_topology_free(check->topology);
        check->topology = NULL;
    }
    return path ? read_baseline(context, path, &check->baseline) : HLO_SUCCESS;
}

static HloStatus emulate(Check *check) {
    CliContext *context = check->context;
    EmuOptions options = {.mesh = check->program.mesh, .mesh_source = check->program.mesh_source};
    context->stage = CLI_STAGE_USAGE;
    HLO_TRY(cli_device_assignment(context, check->topology, &check->program, &options.device_assignment));
    options.device_assignment_count = options.device_assignment ? check->program.device_count : 0;
    cli_progress(context, "emulating");
    return emu_simulate(check->program.per_device, check->topology, &options, &check->emulated);
}

static void write_json(Check *check) {
    HloJsonWriter json = {.text = &check->context->out, .lines = 2};
    hlo_json_begin_object(&json);
    hlo_json_member_bool(&json, "ok", check->failures.count == 0);
    hlo_json_key(&json, "failures");
    hlo_json_begin_array(&json);
    for (int64_t i = 0; i < check->failures.count; ++i) {
        const Failure *failure = &check->failures.items[i];
        hlo_json_begin_object(&json);
        hlo_json_member_string(&json, "rule", failure->rule);
        hlo_json_member_string(&json, "message", failure->message);
        if (failure->collective) hlo_json_member_string(&json, "collective", failure->collective);
        hlo_json_end_object(&json);
    }
    hlo_json_end_array(&json);
    if (check->emulated) {
        hlo_json_member_string(&json, "topology", check->emulated->topology);
        hlo_json_member_double(&json, "step_seconds", (double)check->emulated->step_picoseconds * 1e-12);
        hlo_json_member_int64(&json, "hbm_peak_bytes", check->emulated->hbm_peak_bytes);
    }
    spmd_report_json_members(&json, check->program.report);
    hlo_json_end_object(&json);
    hlo_text_char(&check->context->out, '\n');
}

static void print_ok(const Check *check) {
    CliContext *context = check->context;
    const SpmdReport *report = check->program.report;
    hlo_text_format(&context->out, "ok: %lld collective%s, %s a device", (long long)report->collective_count,
                    report->collective_count == 1 ? "" : "s", cli_size(context, report->total_bytes_per_device));
    if (check->emulated)
        hlo_text_format(&context->out, ", step %s, peak memory %s on %s",
                        cli_time(context, check->emulated->step_picoseconds),
                        cli_size(context, check->emulated->hbm_peak_bytes), check->emulated->topology);
    if (*check->program.mesh)
        hlo_text_format(&context->out, ", mesh %s (%s)", check->program.mesh, check->program.mesh_source);
    hlo_text_char(&context->out, '\n');
}

static HloStatus check_program(Check *check) {
    CliContext *context = check->context;
    HLO_TRY(read_rules(check));
    check->program.overlap = emu_topology_overlaps(check->topology);
    HLO_TRY(cli_program_prepare(context, &check->program));
    if (check->topology) HLO_TRY(emulate(check));
    HLO_TRY(check_forbidden(check));
    HLO_TRY(check_limits(check));
    if (check->baseline) HLO_TRY(compare_baseline(check));
    if (cli_flag(context, "json"))
        write_json(check);
    else if (context->exit_code == CLI_EXIT_OK)
        print_ok(check);
    return HLO_SUCCESS;
}

static HloStatus run_check(CliContext *context) {
    Check check = {.context = context};
    HloStatus status = check_program(&check);
    emu_report_free(check.emulated);
    emu_topology_free(check.topology);
    cli_program_free(&check.program);
    return status;
}

const CliVerb cli_verb_check = {
    .name = "check",
    .arguments = "FILE",
    .summary = "Fail when a program communicates more than it may, takes longer, or needs more memory.",
    .description =
        "For continuous integration: partitions the program, times it where a slice is named, and ends with exit code "
        "1,\nand the rules that are broken, when there are any.",
    .examples =
        "meshlo check step.hlo --forbid all-gather,all-to-all --max-bytes 64MiB\n"
        "meshlo check step.mlir --on v5e-16 --max-step 20ms --max-memory 14GiB\n"
        "meshlo emulate step.hlo --on v5e-16 --json > baseline.json; meshlo check step.hlo --on v5e-16 --baseline "
        "baseline.json --tolerance 2%",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&cli_machine_options, &cli_partition_options, &kTable, &cli_compile_options, &cli_program_options},
    .run = run_check,
    .is_table = true,
};
