// SPDX-License-Identifier: Apache-2.0
// What plans cost: a trial (trial.h), the program partitioned and emulated. Of a program with many equal layers two
// shorter ones are timed (repeats.h), from which the time of the whole follows; plans whose estimate is the best so far
// are timed with the whole program at once. Trials run on as many threads as there are processors.
#include "advice/planner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hlo/analysis/contents.h"
#include "hlo/base/clock.h"

double planner_now(void) {
    return 1e-9 * (double)hlo_clock_nanoseconds();
}

int64_t planner_memory_limit(const EmuTopology *topology) {
    return topology->chip.hbm_bytes_per_device - topology->chip.hbm_reserved_bytes_per_device;
}

void planner_show_progress(Planner *planner) {
    const AdvicePlanProgress now = {
        .evaluated = planner->result->evaluated,
        .step_picoseconds = planner->best_step,
        .share = (planner_now() - planner->begin) / (planner->end - planner->begin),
    };
    if (planner->options->progress && !planner->options->progress(planner->options->progress_context, &now))
        planner->is_stopped = true;
}

double planner_search_end(const Planner *planner) {
    return planner->end - 4 * planner->whole_seconds;
}

bool planner_is_spent(const Planner *planner) {
    return planner->is_stopped || planner_now() > planner_search_end(planner);
}

bool planner_is_over(void *argument) {
    const Planner *planner = argument;
    return planner_is_spent(planner) || planner_now() > planner->deadline;
}

// Trials of one program that threads take one by one.
typedef struct Batch {
    Planner *planner;
    const HloModule *module;
    SpmdSearchTrial **trials;
    int64_t count;
    atomic_llong next;
} Batch;

// What note_resolved() needs.
typedef struct Resolving {
    HloArena *arena;
    const HloModule *module;
    const AdvicePlanned *mesh;
    const SpmdBoundary *boundary;
    uint64_t *resolved;
} Resolving;

// Tells the search what propagation gave to parameters that the program uses.
static HloStatus note_resolved(void *argument) {
    const Resolving *resolving = argument;
    const SpmdBoundary *boundary = resolving->boundary;
    const AdvicePlanned *mesh = resolving->mesh;
    HloArena *arena = resolving->arena;
    int64_t leaf = 0;
    for (int64_t p = 0; p < resolving->module->entry->parameters.count; ++p) {
        const HloInstruction *parameter = resolving->module->entry->parameters.items[p];
        const int64_t end = leaf + hlo_shape_leaf_count(parameter->shape);
        for (; leaf < end; ++leaf) {
            const SpmdBoundaryArray *array = &boundary->parameters[leaf];
            const char *spec;
            if (!parameter->users.count || !hlo_shape_is_array(array->global)) continue;
            HloStatus status =
                spmd_spec_text(arena, mesh->axes, mesh->axis_count, array->sharding, array->global->rank, &spec);
            if (!status) resolving->resolved[leaf] = spmd_search_spec_hash(mesh->axes, mesh->axis_count, spec);
            hlo_status_free(status);
        }
    }
    return HLO_SUCCESS;
}

static void cost_one(const Batch *batch, SpmdSearchTrial *trial) {
    AdviceTrial result;
    CompileOptions compile = batch->planner->compile;
    if (!batch->planner->must_run && planner_is_over(batch->planner)) {
        trial->status = hlo_error(HLO_DEADLINE_EXCEEDED, "the search is over");
        return;
    }
    compile.spmd.shards = trial->shards;
    compile.spmd.shard_count = trial->shard_count;
    if (compile.spmd.machine && !batch->planner->whole) compile.spmd.machine = &batch->planner->quick;
    trial->status = advice_trial_run(batch->module, &compile, batch->planner->mesh->topology, NULL, &result);
    if (!trial->status) {
        trial->cost = (SpmdSearchCost){result.report->step_picoseconds, result.report->hbm_peak_bytes};
        Resolving resolving = {.arena = hlo_arena_new(),
                               .module = batch->module,
                               .mesh = batch->planner->mesh,
                               .boundary = result.compiled->boundary,
                               .resolved = trial->resolved};
        // Without memory for it the search only tries more.
        if (resolving.arena && trial->resolved) hlo_status_free(hlo_protect(note_resolved, &resolving));
        hlo_arena_free(resolving.arena);
    }
    advice_trial_free(&result);
}

// Learns from a batch how long a trial of the whole program takes; a shorter program takes less in proportion.
static void learn_seconds(const Batch *batch, double seconds, int64_t threads) {
    Planner *planner = batch->planner;
    const double part = (double)hlo_module_instruction_count(batch->module) /
                        (double)hlo_module_instruction_count(planner->program->module);
    int64_t run = 0;
    for (int64_t i = 0; i < batch->count; ++i)
        run += hlo_status_code(batch->trials[i]->status) != HLO_DEADLINE_EXCEEDED;
    const double each = run ? seconds * (double)(threads < run ? threads : run) / (double)run / part : 0;
    if (each > planner->whole_seconds) planner->whole_seconds = each;
}

static void *cost_some(void *argument) {
    Batch *batch = argument;
    for (long long i; (i = atomic_fetch_add(&batch->next, 1)) < batch->count;) cost_one(batch, batch->trials[i]);
    return NULL;
}

// Costs trials on as many threads as there are processors. Without a second thread the first does it all.
static void cost_program(Planner *planner, const HloModule *module, SpmdSearchTrial **trials, int64_t count) {
    enum { kMostThreads = 16 };
    Batch batch = {.planner = planner, .module = module, .trials = trials, .count = count};
    pthread_t threads[kMostThreads];
    int64_t started = 0;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const double begin = planner_now();
    while (started + 1 < count && started + 1 < processors && started < kMostThreads &&
           !pthread_create(&threads[started], NULL, cost_some, &batch))
        started++;
    cost_some(&batch);
    for (int64_t i = 0; i < started; ++i) pthread_join(threads[i], NULL);
    learn_seconds(&batch, planner_now() - begin, started + 1);
}

// The cost of all layers: each has that by which one shorter program exceeds the other. More layers never need less.
static int64_t extend(const Planner *planner, int64_t more, int64_t less) {
    const int64_t each = (more - less) / (LAYERS_MORE - LAYERS_LESS);
    const int64_t all = more + (planner->program->layers - LAYERS_MORE) * each;
    return all > more ? all : more;
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

// The share of the parameters, by bytes, to which two plans give the same sharding.
static double likeness(const Planner *planner, const uint64_t *one, const uint64_t *other) {
    const HloInstructionVector *parameters = &planner->program->module->entry->parameters;
    int64_t leaf = 0;
    double same = 0, all = 0;
    for (int64_t p = 0; p < parameters->count; ++p) {
        const HloShape *shape = parameters->items[p]->shape;
        const int64_t count = hlo_shape_leaf_count(shape);
        for (int64_t i = 0; i < count; ++i, ++leaf) {
            const double size = (double)hlo_shape_bytes(hlo_shape_leaf(shape, i));
            if (!one[leaf] || !other[leaf]) continue;
            all += size;
            same += one[leaf] == other[leaf] ? size : 0;
        }
    }
    return all > 0 ? same / all : 0;
}

// A copy of SpmdSearchTrial.resolved, which is the search's, to keep.
static uint64_t *keep_resolved(const Planner *planner, const uint64_t *resolved) {
    const HloInstructionVector *parameters = &planner->program->module->entry->parameters;
    int64_t leaves = 0;
    for (int64_t p = 0; p < parameters->count; ++p) leaves += hlo_shape_leaf_count(parameters->items[p]->shape);
    return resolved ? hlo_arena_copy(planner->arena, resolved, (size_t)leaves * sizeof(*resolved)) : NULL;
}

// Corrects an estimate as that of the checked plan of this mesh that is most like it had to be, as far as it is.
static SpmdSearchCost correct(const Planner *planner, SpmdSearchCost estimated, const uint64_t *resolved) {
    const Checked *nearest = NULL;
    double most = 0;
    for (int64_t i = 0; resolved && i < planner->checked.count; ++i) {
        const Checked *one = &planner->checked.items[i];
        const AdvicePlanned *mesh = planner->mesh;
        if (one->mesh != mesh->mesh || one->topology != mesh->topology || one->repair != mesh->repair) continue;
        const double like = likeness(planner, resolved, one->resolved);
        if (like <= most) continue;
        nearest = one;
        most = like;
    }
    if (!nearest) return estimated;
    return (SpmdSearchCost){(int64_t)((double)estimated.time * (1 + most * (nearest->time - 1))),
                            (int64_t)((double)estimated.memory * (1 + most * (nearest->memory - 1)))};
}

// Takes the cost of the whole program for an estimate. Where there is no time for it, the plan is ruled out if another
// one is known to be good.
static void check_estimate(Planner *planner, SpmdSearchTrial *trial, SpmdSearchCost estimated) {
    SpmdSearchTrial whole = {.shards = trial->shards, .shard_count = trial->shard_count};
    planner->whole = true;
    planner_cost(planner, &whole, 1);
    planner->whole = false;
    if (whole.status && !planner->verified_step && hlo_status_code(whole.status) == HLO_DEADLINE_EXCEEDED) {
        hlo_status_free(whole.status);
        return;
    }
    trial->status = whole.status;
    if (whole.status) return;
    trial->cost = whole.cost;
    if (!trial->resolved || !estimated.time || !estimated.memory) return;
    const Checked checked = {.mesh = planner->mesh->mesh,
                             .topology = planner->mesh->topology,
                             .repair = planner->mesh->repair,
                             .resolved = keep_resolved(planner, trial->resolved),
                             .time = (double)whole.cost.time / (double)estimated.time,
                             .memory = (double)whole.cost.memory / (double)estimated.memory};
    hlo_vector_push(planner->arena, &planner->checked, checked);
}

// Checks those estimates that are better than all plans that were checked before, the best one first, and corrects the
// others. Peaks of memory can be elsewhere in few layers than in many: a search that believed the estimates would
// follow them to where nothing fits.
static void check_estimates(Planner *planner, SpmdSearchTrial **trials, int64_t count) {
    const double kGain = 0.995;  // less is within the error of estimates, and not worth a trial of the whole program
    const int64_t limit = planner_memory_limit(planner->mesh->topology);
    SpmdSearchCost *estimated = HLO_ARENA_NEW(planner->arena, SpmdSearchCost, count + 1);
    bool *done = HLO_ARENA_NEW(planner->arena, bool, count + 1);
    for (int64_t i = 0; i < count; ++i) {
        estimated[i] = trials[i]->cost;
        done[i] = trials[i]->status != NULL;
    }
    for (;;) {
        int64_t best = -1;
        for (int64_t i = 0; i < count; ++i) {
            if (done[i]) continue;
            SpmdSearchCost *now = &trials[i]->cost;
            *now = correct(planner, estimated[i], trials[i]->resolved);
            if (now->memory > limit) continue;
            if (planner->verified_step && (double)now->time > kGain * (double)planner->verified_step) {
                if (now->time <= planner->verified_step) now->time = planner->verified_step + 1;
                continue;
            }
            if (best < 0 || now->time < trials[best]->cost.time) best = i;
        }
        if (best < 0 || planner->objective != SPMD_SEARCH_TIME) return;
        done[best] = true;
        check_estimate(planner, trials[best], estimated[best]);
    }
}

// Estimates the costs of the whole program from those of the two shorter ones.
static void estimate(Planner *planner, SpmdSearchTrial **trials, int64_t count) {
    HloArena *arena = planner->arena;
    SpmdSearchCost *less = HLO_ARENA_NEW(arena, SpmdSearchCost, count + 1);
    SpmdSearchTrial **left = HLO_ARENA_NEW(arena, SpmdSearchTrial *, count + 1);
    int64_t left_count = 0;
    cost_program(planner, planner->program->less, trials, count);
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
    cost_program(planner, planner->program->more, left, left_count);
    for (int64_t i = 0; i < left_count; ++i) {
        SpmdSearchTrial *trial = left[i];
        if (trial->status) continue;
        trial->cost.time = extend(planner, trial->cost.time, less[i].time);
        trial->cost.memory = extend(planner, trial->cost.memory, less[i].memory);
    }
    if (!planner->is_first_look) check_estimates(planner, left, left_count);
    for (int64_t i = 0; i < left_count; ++i) {
        const SpmdSearchTrial *trial = left[i];
        if (trial->status) continue;
        const bool fits = trial->cost.memory <= planner_memory_limit(planner->mesh->topology);
        if (!fits || (planner->reference.time && trial->cost.time >= planner->reference.time)) continue;
        planner->reference = trial->cost;
        planner->reference_less = less[i];
    }
}

// Writes "p3=data,-" with the number of each axis among those of more than one device in place of its name.
static void write_nameless(HloText *text, const AdvicePlanned *mesh, const char *shard) {
    const char *at = strrchr(shard, '=') + 1;
    hlo_text_append(text, shard, (size_t)(at - shard));
    while (*at) {
        const size_t length = strcspn(at, ",+");
        int number = 0, found = -1;
        for (int64_t a = 0; a < mesh->axis_count; ++a) {
            if (mesh->axes[a].size == 1) continue;
            if (strlen(mesh->axes[a].name) == length && !memcmp(mesh->axes[a].name, at, length)) found = number;
            number++;
        }
        if (found >= 0)
            hlo_text_format(text, "%d", found);
        else
            hlo_text_append(text, at, length);
        at += length;
        if (*at) hlo_text_char(text, *at++);
    }
}

// The key of a plan on the mesh that is searched now. To a program without annotations the names of axes are nothing:
// data=8,model=1 and data=1,model=8 are one mesh.
static const char *plan_key(const Planner *planner, const SpmdSearchTrial *trial) {
    const AdvicePlanned *mesh = planner->mesh;
    HloText text = {0};
    hlo_text_format(&text, "%s%s;%s;", planner->whole ? "whole;" : "", mesh->pass, mesh->topology->name);
    if (!planner->is_nameless) hlo_text_string(&text, mesh->mesh);
    for (int64_t a = 0; planner->is_nameless && a < mesh->axis_count; ++a)
        if (mesh->axes[a].size > 1) hlo_text_format(&text, "%lld,", (long long)mesh->axes[a].size);
    for (int64_t i = 0; i < trial->shard_count; ++i) {
        hlo_text_char(&text, ';');
        if (planner->is_nameless)
            write_nameless(&text, mesh, trial->shards[i]);
        else
            hlo_text_string(&text, trial->shards[i]);
    }
    return hlo_text_to_arena(planner->arena, &text);
}

const Known *planner_find_known(const Planner *planner, const SpmdSearchTrial *trial) {
    const HloArenaMark mark = hlo_arena_mark(planner->arena);
    const char *key = plan_key(planner, trial);
    const Known *known = hlo_string_map_get(&planner->known, key, strlen(key));
    hlo_arena_reset(planner->arena, mark);
    return known;
}

// Takes the cost of a whole program.
static void note_verified(Planner *planner, SpmdSearchCost whole) {
    const bool fits = whole.memory <= planner_memory_limit(planner->mesh->topology);
    if (fits && (!planner->verified_step || whole.time < planner->verified_step)) planner->verified_step = whole.time;
}

void planner_cost(void *argument, SpmdSearchTrial *trials, int64_t count) {
    Planner *planner = argument;
    HloArena *arena = planner->arena;
    SpmdSearchTrial **fresh = HLO_ARENA_NEW(arena, SpmdSearchTrial *, count + 1);
    int64_t fresh_count = 0;
    for (int64_t i = 0; i < count; ++i) {
        const Known *known = planner_find_known(planner, &trials[i]);
        if (known) {
            trials[i].cost = known->cost;
            trials[i].resolved = known->resolved;
        } else {
            fresh[fresh_count++] = &trials[i];
        }
    }
    if (planner->program->more && !planner->whole)
        estimate(planner, fresh, fresh_count);
    else
        cost_program(planner, planner->program->module, fresh, fresh_count);
    planner->must_run = false;
    for (int64_t i = 0; i < fresh_count; ++i) {
        planner->result->evaluated += hlo_status_code(fresh[i]->status) != HLO_DEADLINE_EXCEEDED;
        if (fresh[i]->status || (planner->is_first_look && planner->program->more)) continue;
        const Known known = {fresh[i]->cost, keep_resolved(planner, fresh[i]->resolved)};
        const char *key = plan_key(planner, fresh[i]);
        hlo_string_map_set(arena, &planner->known, key, strlen(key), hlo_arena_copy(arena, &known, sizeof(known)));
    }
    for (int64_t i = 0; i < count && planner->whole; ++i)
        if (!trials[i].status) note_verified(planner, trials[i].cost);
    planner_show_progress(planner);
}
