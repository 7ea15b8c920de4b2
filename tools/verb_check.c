// SPDX-License-Identifier: Apache-2.0
// meshlo explain and meshlo check: why a program communicates, and a guard against more of it. Both verbs partition and
// read the same report. A check collects all broken rules before it ends with exit code 1, so that one run shows them
// all; the counters are those of one device, collectives inside loops as the report counts them.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/decimal.h"
#include "hlo/base/file.h"
#include "tools/prepare.h"

static const CliOption kCheckOptions[] = {
    {"forbid", CLI_TEXT, "OPCODES",
     "Fail when the partitioned program has one of these collectives (comma-separated)."},
    {"max-bytes", CLI_TEXT, "N[KiB|MiB|GiB]", "Fail when one device sends more bytes than this."},
    {"baseline", CLI_TEXT, "F.json", "Fail when it sends more, or more often, than a report of partition --json says."},
};
static const CliOptionTable kCheckTable = CLI_TABLE(kCheckOptions);

// Appends one broken rule to the reasons of the failure.
// A rule about the whole program comes without a collective.
static HloStatus broken(CliContext *context, const SpmdCollective *collective, const char *rule) {
    if (!collective) return cli_fail(context, CLI_EXIT_CHECK_FAILED, "check failed: %s", rule);
    return cli_fail(context, CLI_EXIT_CHECK_FAILED, "check failed: %s: %s %s, %lld bytes a device (%s)%s%s", rule,
                    collective->opcode, collective->name, (long long)collective->bytes_per_device, collective->reason,
                    *collective->source ? ", " : "", collective->source);
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
        const char *nearest = cli_nearest(word, kCollectives, HLO_COUNT_OF(kCollectives));
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
static HloStatus check_forbidden(CliContext *context, const SpmdReport *report) {
    const char *list = cli_text_or(context, "forbid", "");
    for (int64_t i = 0; i < report->collective_count; ++i) {
        if (!list_has(list, report->collectives[i].opcode)) continue;
        HLO_TRY(broken(context, &report->collectives[i], "forbidden"));
    }
    return HLO_SUCCESS;
}

// Doubles, so that 1.5GiB is possible; counters of bytes below 2^53 compare exactly.
static HloStatus parse_bytes(CliContext *context, const char *text, double *bytes) {
    assert(text && bytes);
    static const struct {
        const char *suffix;
        double factor;
    } kUnits[] = {{"", 1}, {"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char *end;
    *bytes = hlo_strtod(text, &end);
    for (size_t i = 0; end != text && *bytes >= 0 && i < HLO_COUNT_OF(kUnits); ++i) {
        if (strcmp(end, kUnits[i].suffix) != 0) continue;
        *bytes *= kUnits[i].factor;
        if (*bytes > 0x1p63) break;  // more than any counter of bytes holds: a slip
        return HLO_SUCCESS;
    }
    return cli_usage_error(context, "--max-bytes expects a number, optionally with KiB, MiB or GiB, not '%s'", text);
}

// Bytes as the report counts them: what one device sends, by the ring algorithm (docs/cli.md), loops of unknown length
// once.
static HloStatus check_bytes(CliContext *context, const SpmdReport *report, double limit) {
    if ((double)report->total_bytes_per_device <= limit) return HLO_SUCCESS;
    return broken(context, NULL,
                  hlo_arena_format(context->arena, "one device sends %lld bytes, more than %.0f",
                                   (long long)report->total_bytes_per_device, limit));
}

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

// Less than the baseline is always fine. Kinds of collectives that the baseline does not have count as zero there; each
// kind is counted and complained about once, at its first collective.
static HloStatus compare_baseline(CliContext *context, const SpmdReport *report, const HloJsonValue *baseline) {
    const HloJsonValue *list = hlo_json_get(baseline, "collectives"),
                       *total = hlo_json_get(baseline, "total_bytes_per_device");
    if (!list || list->kind != HLO_JSON_ARRAY || !total || total->kind != HLO_JSON_NUMBER ||
        !(total->number >= 0 && total->number <= 0x1p63)) {
        return cli_usage_error(context, "--baseline: the file is not a report of meshlo partition --json");
    }
    if ((double)report->total_bytes_per_device > total->number) {
        HLO_TRY(broken(context, NULL,
                       hlo_arena_format(context->arena, "one device sends %lld bytes, the baseline %.0f",
                                        (long long)report->total_bytes_per_device, total->number)));
    }
    for (int64_t i = 0; i < report->collective_count; ++i) {
        const char *opcode = report->collectives[i].opcode;
        int64_t first = 0;
        while (strcmp(report->collectives[first].opcode, opcode) != 0) ++first;
        if (first != i) continue;
        const int64_t now = count_in_report(report, opcode), before = count_in_baseline(list, opcode);
        if (now <= before) continue;
        HLO_TRY(broken(context, NULL,
                       hlo_arena_format(context->arena, "%lld x %s, the baseline has %lld", (long long)now, opcode,
                                        (long long)before)));
    }
    return HLO_SUCCESS;
}

// `<stdin>` is named as everywhere. The value lives in the context's arena, the file's content is freed.
static HloStatus read_baseline(CliContext *context, const char *path, const HloJsonValue **baseline) {
    assert(path && baseline);
    HloFileContent content;
    HloJsonValue *value = NULL;
    context->stage = CLI_STAGE_USAGE;
    HLO_TRY(hlo_file_read(path, (size_t)1 << 30, &content));
    HloStatus status =
        hlo_json_parse(context->arena, strcmp(path, "-") ? path : "<stdin>", content.data, content.size, &value);
    hlo_file_content_free(&content);
    *baseline = value;
    return status;
}

// Rules are read before the program: a wrong rule is wrong usage whatever the program is.
static HloStatus run_check(CliContext *context) {
    const char *forbid = cli_text(context, "forbid"), *limit = cli_text(context, "max-bytes");
    const char *path = cli_text(context, "baseline");
    double bytes = 0;
    const HloJsonValue *baseline = NULL;
    if (!forbid && !limit && !path)
        return cli_usage_error(context, "nothing to check: --forbid, --max-bytes or --baseline");
    if (forbid) HLO_TRY(check_words(context, forbid));
    if (limit) HLO_TRY(parse_bytes(context, limit, &bytes));
    if (path) HLO_TRY(read_baseline(context, path, &baseline));
    CliProgram program = {0};
    HloStatus status = cli_program_prepare(context, &program);
    if (!status && forbid) status = check_forbidden(context, program.report);
    if (!status && limit) status = check_bytes(context, program.report, bytes);
    if (!status && path) status = compare_baseline(context, program.report, baseline);
    if (!status && context->exit_code == CLI_EXIT_OK) {
        hlo_text_format(&context->out, "ok: %lld collective%s, %lld bytes a device",
                        (long long)program.report->collective_count, program.report->collective_count == 1 ? "" : "s",
                        (long long)program.report->total_bytes_per_device);
        if (*program.mesh) hlo_text_format(&context->out, ", mesh %s (%s)", program.mesh, program.mesh_source);
        hlo_text_char(&context->out, '\n');
    }
    cli_program_free(&program);
    return status;
}

const CliVerb cli_verb_check = {
    .name = "check",
    .arguments = "FILE",
    .summary = "Fail when a program communicates more than it may.",
    .description =
        "For continuous integration: partitions the program and ends with exit code 1, and the collectives that broke\n"
        "the rule, when it does.",
    .examples =
        "meshlo check step.hlo --forbid all-gather,all-to-all --max-bytes 64MiB\n"
        "meshlo partition step.hlo --json > baseline.json; meshlo check step.hlo --baseline baseline.json",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&cli_program_options, &cli_partition_options, &cli_machine_options, &kCheckTable},
    .run = run_check,
};
