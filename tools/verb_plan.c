// SPDX-License-Identifier: Apache-2.0
// meshlo plan: the mesh and the shardings of parameters that give the least step.
//
// The search is spmd_partitioner/search/search.h's; its cost is a trial (trial.h): the program partitioned and
// emulated. Of a program with many equal layers two shorter ones are timed (repeats.h), from which the time of the
// whole follows; the best plans of each mesh are then timed with the whole program. Each mesh of the pattern is
// searched, on each slice, and gets an equal part of the time that is left. Reported is the plan with every parameter's
// sharding written out, as it was partitioned, timed once more in that form.
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "advice/advice.h"
#include "hlo/base/decimal.h"
#include "hlo/stablehlo/import/shardy.h"
#include "spmd_partitioner/search/repeats.h"
#include "spmd_partitioner/search/search.h"
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
    {"price", CLI_LIST, "v5e=1.20", "For --objective cost: what a chip of this generation costs an hour."},
    {"seed", CLI_INTEGER, "S", "Accepted for scripts: the search uses no random numbers."},
    {"json", CLI_FLAG, NULL, "Print the plan as JSON."},
    {"o", CLI_TEXT, "OUT", "Write the program with the plan's annotations to OUT."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

// The best plan of one mesh on one slice.
typedef struct Candidate {
    const EmuTopology *topology;
    CliMesh mesh;
    const char *mesh_text;
    const char *const *shards;  // p0=data,-; closed: one a parameter
    int64_t shard_count;
    const char **specs;  // by flattened parameter
    int64_t step_picoseconds, hbm_peak_bytes;
    double mfu, price;
    bool fits, exact;
    bool refused;                 // the program cannot be laid out on this mesh
    bool is_whole;                // the numbers are those of the whole program
    bool is_closed;               // and of the plan with every parameter's sharding written out
    const SpmdSearchTrial *best;  // the search's best plans
    int64_t best_count;
} Candidate;
typedef HLO_VECTOR(Candidate) Candidates;

// Layers of the two shorter programs: few, since each trial times both.
enum { LAYERS_MORE = 4, LAYERS_LESS = 2 };

typedef struct Planner {
    CliContext *context;
    HloModule *module;
    HloModule *more, *less;  // the program with LAYERS_MORE and with LAYERS_LESS of its `layers`; NULL if it has few
    int64_t layers;
    bool whole;                                // time the whole program now
    SpmdSearchCost reference, reference_less;  // of the best plan of this mesh that fits: estimate, and its shorter one
    HloStringVector kept;
    double deadline;  // of the mesh that is searched now, by cli_seconds()
    CliTrialOptions trial;
    SpmdMachine machine;     // of the slice that is searched now
    CompileOptions compile;  // of the trials that are searched now, without shards
    const char *mesh_text;
    HloStringMap known;  // costs by mesh and shards
    int64_t evaluated;
    double begin, end;  // of the budget
    int64_t best_step;  // so far, of what fits
    HloStatus refusal;  // why the first mesh was refused
    SpmdSearchObjective objective;
    bool by_cost;
    Candidates candidates;
} Planner;

static int64_t memory_limit(const EmuTopology *topology) {
    return topology->chip.hbm_bytes_per_device - topology->chip.hbm_reserved_bytes_per_device;
}

static void show_progress(Planner *planner) {
    CliContext *context = planner->context;
    if (!context->progress) return;
    const double now = cli_seconds();
    const char *best = planner->best_step ? cli_time(context, planner->best_step) : "none";
    cli_progress(context,
                 hlo_arena_format(context->arena, "searching: %lld plans timed, best step %s, %.0f %% of the budget",
                                  (long long)planner->evaluated, best,
                                  100 * (now - planner->begin) / (planner->end - planner->begin)));
}

// Trials of one program that threads take one by one.
typedef struct Batch {
    const Planner *planner;
    const HloModule *module;
    SpmdSearchTrial **trials;
    int64_t count;
    atomic_llong next;
} Batch;

static void cost_one(const Batch *batch, SpmdSearchTrial *trial) {
    AdviceTrial result;
    CompileOptions compile = batch->planner->compile;
    compile.spmd.shards = trial->shards;
    compile.spmd.shard_count = trial->shard_count;
    trial->status = advice_trial_run(batch->module, &compile, batch->planner->trial.topology, NULL, &result);
    if (!trial->status) trial->cost = (SpmdSearchCost){result.report->step_picoseconds, result.report->hbm_peak_bytes};
    advice_trial_free(&result);
}

static void *cost_some(void *argument) {
    Batch *batch = argument;
    for (long long i; (i = atomic_fetch_add(&batch->next, 1)) < batch->count;) cost_one(batch, batch->trials[i]);
    return NULL;
}

// Costs trials on as many threads as there are processors. Without a second thread the first does it all.
static void cost_program(const Planner *planner, const HloModule *module, SpmdSearchTrial **trials, int64_t count) {
    enum { kMostThreads = 16 };
    Batch batch = {.planner = planner, .module = module, .trials = trials, .count = count};
    pthread_t threads[kMostThreads];
    int64_t started = 0;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    while (started + 1 < count && started + 1 < processors && started < kMostThreads &&
           !pthread_create(&threads[started], NULL, cost_some, &batch))
        started++;
    cost_some(&batch);
    for (int64_t i = 0; i < started; ++i) pthread_join(threads[i], NULL);
}

// The cost of all layers: each has that by which one shorter program exceeds the other.
static int64_t extend(const Planner *planner, int64_t more, int64_t less) {
    const int64_t each = (more - less) / (LAYERS_MORE - LAYERS_LESS);
    const int64_t all = more + (planner->layers - LAYERS_MORE) * each;
    return all > 0 ? all : more;
}

// The same for a plan of which only the shorter program was costed, in proportion to the best plan.
static int64_t scale(int64_t cost, int64_t best_whole, int64_t best_less) {
    return (int64_t)((double)cost * (double)best_whole / (double)best_less);
}

// Whether a plan's shorter program is so much slower than that of the best plan that the longer one need not be timed.
// Plans are compared by time only where they fit, which the longer one tells.
static bool is_hopeless(const Planner *planner, SpmdSearchCost less) {
    const double kHopeless = 1.25;
    return planner->objective == SPMD_SEARCH_TIME && planner->reference_less.time > 0 &&
           (double)less.time > kHopeless * (double)planner->reference_less.time;
}

// Estimates the costs of the whole program from those of the two shorter ones.
static void estimate(Planner *planner, SpmdSearchTrial **trials, int64_t count) {
    HloArena *arena = planner->context->arena;
    SpmdSearchCost *less = HLO_ARENA_NEW(arena, SpmdSearchCost, count + 1);
    SpmdSearchTrial **left = HLO_ARENA_NEW(arena, SpmdSearchTrial *, count + 1);
    int64_t left_count = 0;
    cost_program(planner, planner->less, trials, count);
    for (int64_t i = 0; i < count; ++i) {
        SpmdSearchTrial *trial = trials[i];
        if (trial->status) continue;
        if (!is_hopeless(planner, trial->cost)) {
            less[left_count] = trial->cost;
            left[left_count++] = trial;
            continue;
        }
        trial->cost.time = scale(trial->cost.time, planner->reference.time, planner->reference_less.time);
        trial->cost.memory = scale(trial->cost.memory, planner->reference.memory, planner->reference_less.memory);
    }
    cost_program(planner, planner->more, left, left_count);
    for (int64_t i = 0; i < left_count; ++i) {
        SpmdSearchTrial *trial = left[i];
        if (trial->status) continue;
        trial->cost.time = extend(planner, trial->cost.time, less[i].time);
        trial->cost.memory = extend(planner, trial->cost.memory, less[i].memory);
        const bool fits = trial->cost.memory <= memory_limit(planner->trial.topology);
        if (!fits || (planner->reference.time && trial->cost.time >= planner->reference.time)) continue;
        planner->reference = trial->cost;
        planner->reference_less = less[i];
    }
}

// The key of a plan on the mesh that is searched now.
static const char *key_of(const Planner *planner, const SpmdSearchTrial *trial) {
    HloText text = {0};
    hlo_text_format(&text, "%s%s;%s", planner->whole ? "whole;" : "", planner->trial.topology->name,
                    planner->mesh_text);
    for (int64_t i = 0; i < trial->shard_count; ++i) hlo_text_format(&text, ";%s", trial->shards[i]);
    return hlo_text_to_arena(planner->context->arena, &text);
}

// Costs what is new.
static void cost(void *argument, SpmdSearchTrial *trials, int64_t count) {
    Planner *planner = argument;
    HloArena *arena = planner->context->arena;
    SpmdSearchTrial **fresh = HLO_ARENA_NEW(arena, SpmdSearchTrial *, count + 1);
    int64_t fresh_count = 0;
    for (int64_t i = 0; i < count; ++i) {
        const char *key = key_of(planner, &trials[i]);
        const SpmdSearchCost *known = hlo_string_map_get(&planner->known, key, strlen(key));
        if (known)
            trials[i].cost = *known;
        else
            fresh[fresh_count++] = &trials[i];
    }
    if (planner->more && !planner->whole)
        estimate(planner, fresh, fresh_count);
    else
        cost_program(planner, planner->module, fresh, fresh_count);
    for (int64_t i = 0; i < fresh_count; ++i) {
        if (fresh[i]->status) continue;
        const char *key = key_of(planner, fresh[i]);
        SpmdSearchCost *kept = hlo_arena_copy(arena, &fresh[i]->cost, sizeof(fresh[i]->cost));
        hlo_string_map_set(arena, &planner->known, key, strlen(key), kept);
    }
    planner->evaluated += fresh_count;
    show_progress(planner);
}

static bool is_over(void *argument) {
    return cli_seconds() > ((Planner *)argument)->deadline;
}

// ---- one mesh

// Prepares for trials on the mesh of a candidate.
static void use_mesh(Planner *planner, const Candidate *candidate) {
    const EmuTopology *topology = candidate->topology;
    planner->trial = (CliTrialOptions){.topology = topology, .mesh = candidate->mesh};
    planner->mesh_text = candidate->mesh_text;
    const bool prices = target_spmd_machine(topology, &planner->machine);
    planner->compile = (CompileOptions){.spmd = {.mesh = candidate->mesh.axes,
                                                 .mesh_axis_count = candidate->mesh.count,
                                                 .machine = prices ? &planner->machine : NULL,
                                                 .async = topology->chip.overlaps_collectives != 0},
                                        .is_verified = true};
    planner->reference = planner->reference_less = (SpmdSearchCost){0, 0};
}

// Takes the numbers of a plan, unless those that the candidate has are better.
static void take_cost(const Planner *planner, Candidate *candidate, const SpmdSearchTrial *plan, bool first) {
    const bool fits = plan->cost.memory <= memory_limit(candidate->topology);
    const bool by_time = planner->objective == SPMD_SEARCH_TIME && fits;
    const bool less =
        by_time ? plan->cost.time < candidate->step_picoseconds : plan->cost.memory < candidate->hbm_peak_bytes;
    if (!first && (fits != candidate->fits ? !fits : !less)) return;
    candidate->shards = plan->shards;
    candidate->shard_count = plan->shard_count;
    candidate->step_picoseconds = plan->cost.time;
    candidate->hbm_peak_bytes = plan->cost.memory;
    candidate->fits = fits;
}

// Times the best plans of a candidate, at most `most`, with the whole program, and keeps the best.
static HloStatus time_whole(Planner *planner, Candidate *candidate, int64_t most) {
    const int64_t count = candidate->best_count < most ? candidate->best_count : most;
    if (candidate->is_whole) return HLO_SUCCESS;
    SpmdSearchTrial *trials = HLO_ARENA_NEW(planner->context->arena, SpmdSearchTrial, count);
    HloStatus first = NULL;
    bool any = false;
    for (int64_t i = 0; i < count; ++i)
        trials[i] =
            (SpmdSearchTrial){.shards = candidate->best[i].shards, .shard_count = candidate->best[i].shard_count};
    use_mesh(planner, candidate);
    planner->whole = true;
    cost(planner, trials, count);
    planner->whole = false;
    for (int64_t i = 0; i < count; ++i) {
        if (!trials[i].status) take_cost(planner, candidate, &trials[i], !any);
        any |= !trials[i].status;
        if (!first)
            first = trials[i].status;
        else
            hlo_status_free(trials[i].status);
    }
    if (!any) return first;
    hlo_status_free(first);
    candidate->is_whole = true;
    return HLO_SUCCESS;
}

// Writes out what propagation gave every parameter, so that the plan does not depend on it.
static HloStatus close_plan(Planner *planner, Candidate *candidate) {
    HloArena *arena = planner->context->arena;
    HloStringVector shards = {0};
    CliTrial trial;
    use_mesh(planner, candidate);
    planner->trial.shards = candidate->shards;
    planner->trial.shard_count = candidate->shard_count;
    HloStatus status = cli_trial_run(planner->context, planner->module, &planner->trial, &trial);
    const SpmdBoundary *boundary = status ? NULL : trial.result.compiled->boundary;
    candidate->specs = HLO_ARENA_NEW(arena, const char *, boundary ? boundary->parameter_count + 1 : 1);
    for (int64_t i = 0; boundary && i < boundary->parameter_count && !status; ++i) {
        const SpmdBoundaryArray *array = &boundary->parameters[i];
        candidate->specs[i] = "";
        if (!hlo_shape_is_array(array->global) || array->global->rank == 0) continue;
        status = spmd_spec_text(arena, candidate->mesh.axes, candidate->mesh.count, array->sharding,
                                array->global->rank, &candidate->specs[i]);
        const char *shard = status ? NULL : hlo_arena_format(arena, "p%lld=%s", (long long)i, candidate->specs[i]);
        if (shard) hlo_vector_push(arena, &shards, shard);
    }
    cli_trial_free(&trial);
    HLO_TRY(status);
    candidate->shards = shards.items;
    candidate->shard_count = shards.count;
    planner->trial.shards = shards.items;
    planner->trial.shard_count = shards.count;
    status = cli_trial_run(planner->context, planner->module, &planner->trial, &trial);
    if (!status) {
        candidate->step_picoseconds = trial.result.report->step_picoseconds;
        candidate->hbm_peak_bytes = trial.result.report->hbm_peak_bytes;
        candidate->mfu = trial.result.report->mfu;
        candidate->fits = !emu_report_out_of_memory(trial.result.report);
        candidate->is_whole = candidate->is_closed = true;
    }
    cli_trial_free(&trial);
    return status;
}

// Searches one mesh: only the starts for a first look at it. `example` has a plan to begin with, or is NULL.
static HloStatus plan_mesh(Planner *planner, Candidate *candidate, bool starts_only, const Candidate *example) {
    SpmdSearchResult found;
    HloModule *remeshed = NULL;
    planner->context->stage = CLI_STAGE_PROGRAM;
    use_mesh(planner, candidate);
    const HloStatus laid_out = spmd_remesh(planner->module, candidate->mesh.axes, candidate->mesh.count, &remeshed);
    candidate->refused = laid_out != NULL;
    if (laid_out && hlo_status_code(laid_out) == HLO_INVALID_ARGUMENT && !planner->refusal) {
        planner->refusal = laid_out;
        return HLO_SUCCESS;
    }
    if (laid_out && hlo_status_code(laid_out) == HLO_INVALID_ARGUMENT) {
        hlo_status_free(laid_out);
        return HLO_SUCCESS;
    }
    HLO_TRY(laid_out);
    const SpmdSearchOptions options = {.mesh = candidate->mesh.axes,
                                       .mesh_axis_count = candidate->mesh.count,
                                       .kept = planner->kept.items,
                                       .kept_count = planner->kept.count,
                                       .memory_limit = memory_limit(candidate->topology),
                                       .objective = planner->objective,
                                       .cost = cost,
                                       .is_over = is_over,
                                       .context = planner,
                                       .start = example ? example->shards : NULL,
                                       .start_count = example ? example->shard_count : 0,
                                       .starts_only = starts_only};
    HloStatus status = spmd_search(planner->context->arena, remeshed ? remeshed : planner->module, &options, &found);
    hlo_module_free(remeshed);
    if (status && planner->kept.count)
        return cli_blame_options(planner->context, planner->module, hlo_status_annotate(status, "--keep"));
    HLO_TRY(status);
    candidate->exact = found.is_exact && !planner->more;  // else the costs are estimates
    candidate->best = found.best;
    candidate->best_count = found.best_count;
    candidate->is_whole = !planner->more;
    candidate->is_closed = false;
    take_cost(planner, candidate, &found.best[0], true);
    if (!starts_only) HLO_TRY(time_whole(planner, candidate, 3));
    if (candidate->fits && (!planner->best_step || candidate->step_picoseconds < planner->best_step))
        planner->best_step = candidate->step_picoseconds;
    return HLO_SUCCESS;
}

// ---- all of them

static double cost_of(const Candidate *candidate) {
    return candidate->price * (double)candidate->topology->chip_count * (double)candidate->step_picoseconds * 1e-12 /
           3600;
}

static bool better(const Planner *planner, const Candidate *a, const Candidate *b) {
    if (a->fits != b->fits) return a->fits;
    if (planner->by_cost && cost_of(a) != cost_of(b)) return cost_of(a) < cost_of(b);
    if (planner->objective == SPMD_SEARCH_MEMORY || !a->fits) return a->hbm_peak_bytes < b->hbm_peak_bytes;
    return a->step_picoseconds < b->step_picoseconds;
}

// Whether no other candidate of the list is better in both time and memory.
static bool is_on_front(const Candidates *all, const Candidate *candidate) {
    for (int64_t i = 0; i < all->count; ++i) {
        const Candidate *other = &all->items[i];
        const bool no_worse = other->step_picoseconds <= candidate->step_picoseconds &&
                              other->hbm_peak_bytes <= candidate->hbm_peak_bytes;
        const bool differs = other->step_picoseconds != candidate->step_picoseconds ||
                             other->hbm_peak_bytes != candidate->hbm_peak_bytes;
        if (no_worse && (differs || other < candidate)) return false;
    }
    return true;
}

static int64_t leaf_count(const HloModule *module) {
    int64_t count = 0;
    for (int64_t p = 0; p < module->entry->parameters.count; ++p)
        count += hlo_shape_leaf_count(module->entry->parameters.items[p]->shape);
    return count;
}

static void write_json(const Planner *planner, const Candidate *best, HloText *text) {
    HloJsonWriter json = {.text = text, .lines = 2};
    const int64_t leaves = leaf_count(planner->module);
    hlo_json_begin_object(&json);
    hlo_json_member_string(&json, "topology", best->topology->name);
    hlo_json_member_string(&json, "mesh", best->mesh_text);
    hlo_json_key(&json, "shardings");
    hlo_json_begin_object(&json);
    for (int64_t i = 0; i < leaves; ++i) {
        if (!best->specs[i]) continue;
        hlo_json_member_string(&json, advice_parameter_name(planner->context->arena, planner->module, i),
                               best->specs[i]);
    }
    hlo_json_end_object(&json);
    hlo_json_member_double(&json, "step_seconds", (double)best->step_picoseconds * 1e-12);
    hlo_json_member_int64(&json, "hbm_peak_bytes", best->hbm_peak_bytes);
    hlo_json_member_bool(&json, "fits", best->fits);
    hlo_json_member_double(&json, "mfu", best->mfu);
    hlo_json_member_int64(&json, "evaluated", planner->evaluated);
    hlo_json_member_bool(&json, "exact", best->exact);
    hlo_json_key(&json, "front");
    hlo_json_begin_array(&json);
    for (int64_t i = 0; i < planner->candidates.count; ++i) {
        const Candidate *one = &planner->candidates.items[i];
        if (!is_on_front(&planner->candidates, one)) continue;
        hlo_json_begin_object(&json);
        hlo_json_member_string(&json, "topology", one->topology->name);
        hlo_json_member_string(&json, "mesh", one->mesh_text);
        hlo_json_member_double(&json, "step_seconds", (double)one->step_picoseconds * 1e-12);
        hlo_json_member_int64(&json, "hbm_peak_bytes", one->hbm_peak_bytes);
        hlo_json_member_bool(&json, "fits", one->fits);
        hlo_json_end_object(&json);
    }
    hlo_json_end_array(&json);
    hlo_json_end_object(&json);
    hlo_text_char(text, '\n');
}

// How many parameters a pattern names; 0 if not all of them are sharded as `spec` says.
static int64_t count_alike(const Planner *planner, const Candidate *best, const char *pattern, const char *spec) {
    const HloInstructionVector *parameters = &planner->module->entry->parameters;
    HloArena *arena = planner->context->arena;
    const HloArenaMark mark = hlo_arena_mark(arena);
    int64_t count = 0;
    bool alike = true;
    for (int64_t p = 0, leaf = 0; p < parameters->count && alike; ++p) {
        if (spmd_argument_matches(arena, pattern, parameters->items[p])) {
            alike = best->specs[leaf] && !strcmp(best->specs[leaf], spec);
            count++;
        }
        leaf += hlo_shape_leaf_count(parameters->items[p]->shape);
    }
    hlo_arena_reset(arena, mark);
    return alike ? count : 0;
}

// By flattened parameter, the pattern under which the plan prints it: that of equal layers, if all that it names are
// sharded alike, else the parameter's name.
static const char **list_patterns(const Planner *planner, const Candidate *best, int64_t count) {
    HloArena *arena = planner->context->arena;
    const char **patterns = HLO_ARENA_NEW(arena, const char *, count + 1);
    for (int64_t i = 0; i < count; ++i) {
        const char *name = advice_parameter_name(arena, planner->module, i);
        const char *pattern = advice_name_pattern(arena, name);
        const bool grouped =
            best->specs[i] && strchr(pattern, '*') && count_alike(planner, best, pattern, best->specs[i]) > 1;
        patterns[i] = grouped ? pattern : name;
    }
    return patterns;
}

// One line a parameter, or for all equal ones of equal layers, as an option that can be pasted; whole ones too, which
// propagation would shard otherwise.
static void print_plan(const Planner *planner, const Candidate *best, HloText *text) {
    const int64_t leaves = leaf_count(planner->module);
    const char **patterns = list_patterns(planner, best, leaves);
    hlo_text_format(text, "%s on %s: step %s, peak %.3f GiB%s, MFU %.1f %%; %lld plans timed%s\n--mesh %s\n",
                    planner->module->name, best->topology->name, cli_time(planner->context, best->step_picoseconds),
                    (double)best->hbm_peak_bytes * 0x1p-30, best->fits ? "" : " (does not fit)", 100 * best->mfu,
                    (long long)planner->evaluated, best->exact ? ", all that there are on this mesh" : "",
                    best->mesh_text);
    for (int64_t i = 0; i < leaves; ++i) {
        bool printed = !best->specs[i] || !*best->specs[i];
        for (int64_t k = 0; k < i && !printed; ++k) printed = !strcmp(patterns[k], patterns[i]);
        if (!printed) hlo_text_format(text, "--shard \"%s=%s\"\n", patterns[i], best->specs[i]);
    }
    for (int64_t i = 0; i < planner->candidates.count; ++i) {
        const Candidate *one = &planner->candidates.items[i];
        if (one == best) continue;
        hlo_text_format(text, "instead %s on %s: step %s, peak %.3f GiB%s\n", one->mesh_text, one->topology->name,
                        cli_time(planner->context, one->step_picoseconds), (double)one->hbm_peak_bytes * 0x1p-30,
                        one->fits ? "" : " (does not fit)");
    }
}

// ---- the annotated program

static HloStatus annotate(Planner *planner, const Candidate *best, HloModule **result) {
    HloModule *module = NULL;
    HLO_TRY(spmd_remesh(planner->module, best->mesh.axes, best->mesh.count, &module));
    if (!module) module = hlo_module_clone(planner->module);
    HLO_FAIL_IF(!module, HLO_RESOURCE_EXHAUSTED, "no memory to copy the program");
    *result = module;
    int64_t leaf = 0;
    for (int64_t p = 0; p < module->entry->parameters.count; ++p) {
        HloInstruction *parameter = module->entry->parameters.items[p];
        const int64_t leaves = hlo_shape_leaf_count(parameter->shape);
        const HloSharding **shardings = HLO_ARENA_NEW(module->arena, const HloSharding *, leaves);
        for (int64_t i = 0; i < leaves; ++i) {
            const HloShape *shape = hlo_shape_leaf(parameter->shape, i);
            const char *spec = best->specs[leaf + i];
            HLO_TRY(spmd_spec_parse(module->arena, best->mesh.axes, best->mesh.count, spec ? spec : "",
                                    hlo_shape_is_array(shape) ? shape->rank : 0, &shardings[i]));
        }
        leaf += leaves;
        if (!leaves) continue;
        parameter->sharding =
            hlo_shape_is_tuple(parameter->shape) ? hlo_sharding_tuple(module->arena, shardings, leaves) : shardings[0];
        // Shardy's text would take precedence.
        HLO_VECTOR(HloKeyValue) rest = {0};
        for (int64_t i = 0; i < parameter->frontend_attributes.count; ++i)
            if (strcmp(parameter->frontend_attributes.items[i].key, HLO_SDY_SHARDING) != 0)
                hlo_vector_push(module->arena, &rest, parameter->frontend_attributes.items[i]);
        parameter->frontend_attributes.items = rest.items;
        parameter->frontend_attributes.count = rest.count;
    }
    module->num_partitions = best->mesh.devices;
    return HLO_SUCCESS;
}

static HloStatus write_plan(Planner *planner, const Candidate *best) {
    CliContext *context = planner->context;
    const char *path = cli_text(context, "o");
    if (path) {
        HloModule *module = NULL;
        HloStatus status = annotate(planner, best, &module);
        context->stage = CLI_STAGE_USAGE;
        if (!status) status = cli_write_program(context, module);
        hlo_module_free(module);
        HLO_TRY(status);
    }
    if (cli_flag(context, "json"))
        write_json(planner, best, &context->out);
    else if (!path || strcmp(path, "-") != 0)
        print_plan(planner, best, &context->out);
    return HLO_SUCCESS;
}

// ---- options

static HloStatus read_objective(Planner *planner, EmuTopology *const *topologies, int64_t count) {
    CliContext *context = planner->context;
    const char *text = cli_text_or(context, "objective", "time");
    planner->by_cost = !strcmp(text, "cost");
    planner->objective = strcmp(text, "memory") ? SPMD_SEARCH_TIME : SPMD_SEARCH_MEMORY;
    if (strcmp(text, "time") != 0 && strcmp(text, "memory") != 0 && !planner->by_cost)
        return cli_usage_error(context, "--objective wants time, memory or cost, not '%s'", text);
    HLO_TRY(cli_prices_check(context, topologies, count));
    for (int64_t c = 0; c < planner->candidates.count && planner->by_cost; ++c)
        if (planner->candidates.items[c].price < 0)
            return cli_usage_error(context, "--objective cost wants --price of %s",
                                   planner->candidates.items[c].topology->chip.name);
    return HLO_SUCCESS;
}

static HloStatus list_candidates(Planner *planner, EmuTopology *const *topologies, int64_t count) {
    CliContext *context = planner->context;
    const char *pattern = cli_text(context, "mesh");
    if (!pattern) HLO_TRY(advice_mesh_pattern(context->arena, planner->module, &pattern));
    if (!pattern) pattern = "data=*,model=*";
    for (int64_t t = 0; t < count; ++t) {
        CliMesh *meshes;
        int64_t mesh_count;
        if (!emu_topology_is_tpu(topologies[t])) {
            context->stage = CLI_STAGE_COMPILE;
            return hlo_error(HLO_UNIMPLEMENTED, "%s: host processors have no machine model", topologies[t]->name);
        }
        HLO_TRY(cli_meshes_expand(context, pattern, topologies[t]->device_count, false, &meshes, &mesh_count));
        for (int64_t i = 0; i < mesh_count; ++i) {
            const char *text = spmd_mesh_text(context->arena, meshes[i].axes, meshes[i].count);
            const Candidate candidate = {.topology = topologies[t],
                                         .mesh = meshes[i],
                                         .mesh_text = text,
                                         .price = cli_price_of(context, topologies[t])};
            hlo_vector_push(context->arena, &planner->candidates, candidate);
        }
    }
    return HLO_SUCCESS;
}

// Forgets meshes on which the program cannot be laid out; an error if that is so for all.
static HloStatus drop_refused(Planner *planner) {
    Candidates *all = &planner->candidates;
    const int64_t before = all->count;
    int64_t kept = 0;
    for (int64_t i = 0; i < all->count; ++i)
        if (!all->items[i].refused) all->items[kept++] = all->items[i];
    all->count = kept;
    if (!planner->refusal) return HLO_SUCCESS;
    if (kept)
        hlo_text_format(&planner->context->complaint, "note: %lld of %lld meshes are left out: %s\n",
                        (long long)(before - kept), (long long)before, hlo_status_message(planner->refusal));
    HloStatus refusal = planner->refusal;
    planner->refusal = NULL;
    if (!kept) return cli_blame_options(planner->context, planner->module, refusal);
    hlo_status_free(refusal);
    return HLO_SUCCESS;
}

// The starts of every mesh. Each may take an equal part of the time that is left.
static HloStatus look_at_all(Planner *planner) {
    for (int64_t i = 0; i < planner->candidates.count; ++i) {
        const double now = cli_seconds();
        planner->deadline = now + (planner->end - now) / (double)(planner->candidates.count - i);
        HLO_TRY(plan_mesh(planner, &planner->candidates.items[i], true, NULL));
    }
    return drop_refused(planner);
}

// Improves the plans of meshes in the order of their starts. After the first two, meshes that are far from the best
// plan so far are left as they are; each may take half of the time that is left.
static HloStatus improve_some(Planner *planner) {
    const double kFar = 1.15;
    const int64_t count = planner->candidates.count;
    bool *done = HLO_ARENA_NEW(planner->context->arena, bool, count);
    for (int64_t round = 0; round < count; ++round) {
        Candidate *next = NULL;
        const Candidate *best = NULL;
        for (int64_t i = 0; i < count; ++i) {
            Candidate *one = &planner->candidates.items[i];
            if (!done[i] && (!next || better(planner, one, next))) next = one;
            if (!best || better(planner, one, best)) best = one;
        }
        done[next - planner->candidates.items] = true;
        const bool near = (double)next->step_picoseconds <= kFar * (double)best->step_picoseconds || !best->fits ||
                          planner->by_cost || planner->objective == SPMD_SEARCH_MEMORY;
        if (next->exact || (round >= 2 && !near)) continue;
        const double now = cli_seconds();
        if (now >= planner->end) break;
        planner->deadline = round + 1 < count ? now + (planner->end - now) / 2 : planner->end;
        HLO_TRY(plan_mesh(planner, next, false, round < 2 ? NULL : best));
    }
    return HLO_SUCCESS;
}

// The best candidate, after its plan was closed; all others have been timed with the whole program.
static HloStatus choose(Planner *planner, const Candidate **chosen) {
    for (int64_t i = 0; i < planner->candidates.count; ++i)
        HLO_TRY(time_whole(planner, &planner->candidates.items[i], 1));
    for (;;) {
        Candidate *best = NULL;
        for (int64_t i = 0; i < planner->candidates.count; ++i)
            if (!best || better(planner, &planner->candidates.items[i], best)) best = &planner->candidates.items[i];
        *chosen = best;
        assert(best);
        if (best->is_closed) return HLO_SUCCESS;
        HLO_TRY(close_plan(planner, best));
    }
}

// Makes both shorter programs, if there are enough equal layers, or none.
static HloStatus shorten(Planner *planner) {
    HLO_TRY(spmd_search_shorten(planner->module, LAYERS_MORE, &planner->more, &planner->layers));
    if (planner->more && planner->layers >= 2 * LAYERS_MORE)
        HLO_TRY(spmd_search_shorten(planner->module, LAYERS_LESS, &planner->less, &planner->layers));
    if (planner->less) return HLO_SUCCESS;
    hlo_module_free(planner->more);
    planner->more = NULL;
    return HLO_SUCCESS;
}

static HloStatus plan_program(Planner *planner, EmuTopology *const *topologies, int64_t count) {
    CliContext *context = planner->context;
    double budget;
    HLO_TRY(cli_budget(context, 60, &budget));
    if (spmd_is_partitioned(planner->module))
        return cli_usage_error(context, "the program is that of one device already, and no longer sharded");
    HLO_TRY(list_candidates(planner, topologies, count));
    HLO_TRY(read_objective(planner, topologies, count));
    planner->begin = cli_seconds();
    planner->end = planner->begin + budget;
    HLO_TRY(shorten(planner));
    const Candidate *best;
    HLO_TRY(look_at_all(planner));
    HLO_TRY(improve_some(planner));
    HLO_TRY(choose(planner, &best));
    if (!best->fits) context->exit_code = CLI_EXIT_OUT_OF_MEMORY;
    HLO_TRY(write_plan(planner, best));
    if (!best->fits)
        hlo_text_format(&context->complaint, "no plan was found that fits: the smallest needs %.3f GiB of %s\n",
                        (double)best->hbm_peak_bytes * 0x1p-30, best->topology->name);
    return HLO_SUCCESS;
}

static HloStatus run_plan(CliContext *context) {
    static const char *const kOutputs[] = {"o", "json"};
    Planner planner = {.context = context, .kept = cli_list(context, "keep")};
    EmuTopology **topologies;
    int64_t count;
    bool taken;
    HLO_TRY(cli_standard_output(context, kOutputs, HLO_COUNT_OF(kOutputs), &taken));
    HLO_TRY(cli_topologies_open(context, cli_text(context, "on"), &topologies, &count));
    HloStatus status = cli_program_load(context, context->arguments.items[0], &planner.module);
    if (!status) status = plan_program(&planner, topologies, count);
    hlo_status_free(planner.refusal);
    hlo_module_free(planner.more);
    hlo_module_free(planner.less);
    hlo_module_free(planner.module);
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
        "printed as options that every verb takes.",
    .examples =
        "meshlo plan step.mlir --on v5e-8 --budget 30s -o planned.hlo\n"
        "meshlo plan step.hlo --on v5e-16,v6e-8 --mesh 'data=*,model=*' --keep p3=data,- --json",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&cli_program_options, &kTable},
    .run = run_plan,
};
