// SPDX-License-Identifier: Apache-2.0
// meshlo sweep: one program on every mesh that a pattern allows, on every slice of a list.
//
// A trial's result depends on the program, the slice, the mesh, the shards and this version alone: that is the key of
// the cache. The cache is written after each trial, so that an interrupted sweep goes on where it was.
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hlo/base/decimal.h"
#include "hlo/base/map.h"
#include "hlo/base/version.h"
#include "tools/prepare.h"
#include "tools/program.h"
#include "tools/trial.h"

static const CliOption kOptions[] = {
    {"on", CLI_TEXT, "T1,T2", "The slices, as in v5e-8,v6e-8; also --topology (default: MESHLO_TOPOLOGY)."},
    {"mesh", CLI_TEXT, "a=*,b=*",
     "The axes; * is any size (default: the program's axes, all with *). Every order of axes is tried."},
    {"shard", CLI_LIST, "p0=a,-", "Shards a parameter (p0 or its name, patterns too) or a result (r0) in all trials."},
    {"price", CLI_LIST, "v5e=1.20", "What a chip of this generation costs an hour, for the column cost of a step."},
    {"tokens", CLI_NUMBER, "N", "Tokens (or samples) in a step, for the column of tokens a second."},
    {"cache", CLI_OUTPUT, "FILE", "Keep results in FILE, and take those that it has already."},
    {"json", CLI_FLAG, NULL, "Print an array of rows in order of time."},
    {"o", CLI_OUTPUT, "OUT", "Write the table to OUT."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

typedef struct Row {
    const EmuTopology *topology;
    CliMesh mesh;
    const char *mesh_text;
    int64_t step_picoseconds, hbm_peak_bytes, hbm_capacity_bytes;
    double mfu;
    bool names_scopes;  // else mfu includes what is recomputed
    double price;       // of a chip and hour; below 0: not given
} Row;
typedef HLO_VECTOR(Row) Rows;

typedef struct Sweep {
    CliContext *context;
    HloModule *module;
    HloStringVector shards;
    EmuTopology **topologies;
    int64_t topology_count;
    Rows rows;
    HloText cache;  // its whole content
    const char *cache_path;
    uint64_t hash;  // of the program and the shards
} Sweep;

static bool fits(const Row *row) {
    return row->hbm_peak_bytes <= row->hbm_capacity_bytes;
}

// ---- the cache

static const char kCacheHead[] = "meshlo sweep cache 1\n";

static uint64_t hash_of(const Sweep *sweep) {
    uint64_t hash = hlo_module_hash(sweep->module);
    for (int64_t i = 0; i < sweep->shards.count; ++i)
        hash = hlo_hash_mix(hash, hlo_hash_bytes(sweep->shards.items[i], strlen(sweep->shards.items[i])));
    return hash;
}

static const char *key_of(const Sweep *sweep, const Row *row) {
    const unsigned version = (unsigned)hlo_api_version();
    return hlo_arena_format(sweep->context->arena, "%016" PRIx64 " %x %s %s", sweep->hash, version, row->topology->name,
                            row->mesh_text);
}

static HloStatus open_cache(Sweep *sweep) {
    CliContext *context = sweep->context;
    sweep->cache_path = cli_text(context, "cache");
    if (!sweep->cache_path) return HLO_SUCCESS;
    sweep->hash = hash_of(sweep);
    hlo_text_string(&sweep->cache, kCacheHead);
    if (access(sweep->cache_path, F_OK) != 0) return HLO_SUCCESS;
    HloFileContent content;
    context->stage = CLI_STAGE_USAGE;
    HLO_TRY(hlo_file_read(sweep->cache_path, (size_t)1 << 28, &content));
    const size_t head = strlen(kCacheHead);
    const bool known = content.size >= head && !memcmp(content.data, kCacheHead, head);
    if (known) hlo_text_append(&sweep->cache, content.data + head, content.size - head);
    // The last line may have been cut off.
    if (known && content.data[content.size - 1] != '\n') hlo_text_char(&sweep->cache, '\n');
    hlo_file_content_free(&content);
    return known ? HLO_SUCCESS
                 : cli_usage_error(context, "--cache %s: the file is no cache of meshlo sweep", sweep->cache_path);
}

// Reads the numbers of a row from the rest of a line; false if they are not all there.
static bool read_numbers(const char *text, Row *row) {
    char *rest;
    row->step_picoseconds = strtoll(text, &rest, 10);
    row->hbm_peak_bytes = strtoll(rest, &rest, 10);
    row->hbm_capacity_bytes = strtoll(rest, &rest, 10);
    row->mfu = hlo_strtod(*rest ? rest + 1 : rest, &rest);
    if (*rest != ' ') return false;
    row->names_scopes = strtoll(rest, &rest, 10);
    return row->step_picoseconds > 0 && row->hbm_capacity_bytes > 0 && !*rest;
}

// A line is the key, a tab, and five numbers. A line that cannot be read is made again.
static bool find_cached(const Sweep *sweep, Row *row) {
    if (!sweep->cache_path) return false;
    const char *key = key_of(sweep, row);
    const size_t length = strlen(key);
    for (const char *line = sweep->cache.data; line && *line;) {
        const char *end = strchr(line, '\n');
        if (end && !strncmp(line, key, length) && line[length] == '\t') {
            const int count = (int)(end - line - (int64_t)length - 1);
            if (read_numbers(hlo_arena_format(sweep->context->arena, "%.*s", count, line + length + 1), row))
                return true;
        }
        line = end ? end + 1 : NULL;
    }
    return false;
}

static HloStatus keep(Sweep *sweep, const Row *row) {
    if (!sweep->cache_path) return HLO_SUCCESS;
    hlo_text_format(&sweep->cache, "%s\t%lld %lld %lld %.17g %d\n", key_of(sweep, row),
                    (long long)row->step_picoseconds, (long long)row->hbm_peak_bytes,
                    (long long)row->hbm_capacity_bytes, row->mfu, row->names_scopes);
    sweep->context->stage = CLI_STAGE_USAGE;
    return cli_write_file(sweep->context, sweep->cache_path, &sweep->cache);
}

// ---- trials

static HloStatus add_rows(Sweep *sweep, const char *pattern) {
    for (int64_t t = 0; t < sweep->topology_count; ++t) {
        CliMesh *meshes;
        int64_t count;
        const EmuTopology *topology = sweep->topologies[t];
        HLO_TRY(cli_meshes_expand(sweep->context, pattern, topology->device_count, true, &meshes, &count));
        for (int64_t i = 0; i < count; ++i) {
            const char *text = spmd_mesh_text(sweep->context->arena, meshes[i].axes, meshes[i].count);
            const Row row = {.topology = topology,
                             .mesh = meshes[i],
                             .mesh_text = text,
                             .price = cli_price_of(sweep->context, topology)};
            hlo_vector_push(sweep->context->arena, &sweep->rows, row);
        }
    }
    return cli_mesh_check(sweep->context, sweep->module, &sweep->rows.items[0].mesh, &sweep->shards);
}

static HloStatus run_row(Sweep *sweep, Row *row) {
    if (find_cached(sweep, row)) return HLO_SUCCESS;
    const CliTrialOptions options = {.topology = row->topology,
                                     .mesh = row->mesh,
                                     .shards = sweep->shards.items,
                                     .shard_count = sweep->shards.count};
    CliTrial trial;
    sweep->context->stage = CLI_STAGE_PROGRAM;
    HloStatus status = cli_trial_run(sweep->context, sweep->module, &options, &trial);
    if (!status) {
        row->step_picoseconds = trial.result.report->step_picoseconds;
        row->hbm_peak_bytes = trial.result.report->hbm_peak_bytes;
        row->hbm_capacity_bytes = trial.result.report->hbm_capacity_bytes;
        row->mfu = trial.result.report->mfu;
        row->names_scopes = trial.result.report->names_scopes;
        status = keep(sweep, row);
    } else {
        status = cli_blame_options(sweep->context, sweep->module, status);
    }
    cli_trial_free(&trial);
    return status;
}

// By time; slices and meshes that are equally fast in the order in which they were tried.
static void sort_rows(Rows *rows) {
    for (int64_t i = 1; i < rows->count; ++i) {
        const Row row = rows->items[i];
        int64_t at = i;
        for (; at > 0 && rows->items[at - 1].step_picoseconds > row.step_picoseconds; --at)
            rows->items[at] = rows->items[at - 1];
        rows->items[at] = row;
    }
}

// ---- output

static double cost_of(const Row *row) {
    return row->price * (double)row->topology->chip_count * (double)row->step_picoseconds * 1e-12 / 3600;
}

static void write_row(HloJsonWriter *json, const Row *row, double tokens) {
    const double seconds = (double)row->step_picoseconds * 1e-12;
    hlo_json_begin_object(json);
    hlo_json_member_string(json, "topology", row->topology->name);
    hlo_json_member_string(json, "mesh", row->mesh_text);
    hlo_json_member_double(json, "step_seconds", seconds);
    hlo_json_member_bool(json, "fits", fits(row));
    hlo_json_member_int64(json, "hbm_peak_bytes", row->hbm_peak_bytes);
    hlo_json_member_int64(json, "hbm_capacity_bytes", row->hbm_capacity_bytes);
    hlo_json_member_double(json, "mfu", row->mfu);
    if (tokens > 0) {
        hlo_json_member_double(json, "tokens_per_second", tokens / seconds);
    }
    if (row->price >= 0) {
        hlo_json_member_double(json, "cost_per_step", cost_of(row));
    }
    hlo_json_end_object(json);
}

// `widths` are those of the columns of names and of meshes.
static void print_row(CliContext *context, HloText *text, const Row *row, const int *widths, double tokens) {
    hlo_text_format(text, "%-*s  %-*s ", widths[0], row->topology->name, widths[1], row->mesh_text);
    emu_print_time_in_column(row->step_picoseconds, 12, text);
    hlo_text_format(text, "  %-4s %10s  %s %5.1f %%", fits(row) ? "fits" : "OOM",
                    cli_size(context, row->hbm_peak_bytes), emu_utilisation_name(row->names_scopes), 100 * row->mfu);
    if (tokens > 0) hlo_text_format(text, "  %.4g tokens/s", tokens / ((double)row->step_picoseconds * 1e-12));
    if (row->price >= 0) hlo_text_format(text, "  cost %.4g a step", cost_of(row));
    hlo_text_char(text, '\n');
}

static HloStatus print_rows(Sweep *sweep) {
    const double tokens = cli_number(sweep->context, "tokens", 0);
    HloText text = {0};
    HloJsonWriter json = {.text = &text, .lines = 1};
    const bool as_json = cli_flag(sweep->context, "json");
    int widths[2] = {0};
    for (int64_t i = 0; i < sweep->rows.count; ++i) {
        const int name = (int)strlen(sweep->rows.items[i].topology->name),
                  mesh = (int)strlen(sweep->rows.items[i].mesh_text);
        if (name > widths[0]) widths[0] = name;
        if (mesh > widths[1]) widths[1] = mesh;
    }
    if (as_json) hlo_json_begin_array(&json);
    for (int64_t i = 0; i < sweep->rows.count; ++i) {
        if (as_json)
            write_row(&json, &sweep->rows.items[i], tokens);
        else
            print_row(sweep->context, &text, &sweep->rows.items[i], widths, tokens);
    }
    if (as_json) {
        hlo_json_end_array(&json);
        hlo_text_char(&text, '\n');
    }
    sweep->context->stage = CLI_STAGE_USAGE;
    HloStatus status = cli_write_output(sweep->context, &text);
    hlo_text_free(&text);
    return status;
}

// Times the rows. Meshes on which the program cannot be laid out are left out, if there are others.
static HloStatus run_rows(Sweep *sweep) {
    CliContext *context = sweep->context;
    const int64_t count = sweep->rows.count;
    HloStatus first = HLO_SUCCESS;
    int64_t timed = 0;
    for (int64_t i = 0; i < count; ++i) {
        Row *row = &sweep->rows.items[i];
        cli_progress(context, hlo_arena_format(context->arena, "trial %lld of %lld: %s on %s", (long long)i + 1,
                                               (long long)count, row->mesh_text, row->topology->name));
        HloStatus status = run_row(sweep, row);
        if (!status) {
            sweep->rows.items[timed++] = *row;
        } else if (hlo_status_code(status) != HLO_INVALID_ARGUMENT) {
            hlo_status_free(first);
            return status;
        } else if (first) {
            hlo_status_free(status);
        } else {
            first = status;
        }
    }
    if (!timed) return first;
    sweep->rows.count = timed;
    if (first)
        hlo_text_format(&context->complaint, "note: %lld of %lld meshes are left out: %s\n", (long long)(count - timed),
                        (long long)count, hlo_status_message(first));
    hlo_status_free(first);
    return HLO_SUCCESS;
}

static HloStatus sweep_program(Sweep *sweep) {
    CliContext *context = sweep->context;
    const char *pattern = cli_text(context, "mesh");
    if (!pattern) HLO_TRY(advice_mesh_pattern(context->arena, sweep->module, &pattern));
    if (!pattern) return cli_usage_error(context, "--mesh is missing: the program names no axes");
    HLO_TRY(add_rows(sweep, pattern));
    HLO_TRY(cli_prices_check(context, sweep->topologies, sweep->topology_count));
    HLO_TRY(open_cache(sweep));
    HLO_TRY(run_rows(sweep));
    sort_rows(&sweep->rows);
    return print_rows(sweep);
}

static HloStatus run_sweep(CliContext *context) {
    Sweep sweep = {.context = context, .shards = cli_list(context, "shard")};
    HLO_TRY(cli_topologies_open(context, cli_text(context, "on"), &sweep.topologies, &sweep.topology_count));
    HloStatus status = cli_program_load(context, context->arguments.items[0], &sweep.module);
    if (!status) status = sweep_program(&sweep);
    for (int64_t i = 0; i < sweep.topology_count; ++i) emu_topology_free(sweep.topologies[i]);
    hlo_text_free(&sweep.cache);
    hlo_module_free(sweep.module);
    return status;
}

const CliVerb cli_verb_sweep = {
    .name = "sweep",
    .arguments = "FILE",
    .summary = "Time a program on every mesh that a pattern allows, on every slice of a list.",
    .description =
        "Lays the program out on each mesh (see --mesh of partition), partitions it and times a step. The table is in\n"
        "order of time, with whether the program fits into memory, and model FLOP utilisation.",
    .examples =
        "meshlo sweep step.mlir --on v5e-8,v6e-8\n"
        "meshlo sweep step.hlo --on v5e-16 --mesh 'data=*,model=*' --shard p0=data,- --shard '*.wq=-,model' --cache "
        "step.sweep --json",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&kTable, &cli_program_options},
    .run = run_sweep,
    .is_table = true,
};
