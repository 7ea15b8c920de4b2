// SPDX-License-Identifier: Apache-2.0
// The search for a plan on several meshes and slices.
//
// The search on one mesh is spmd_partitioner/search/search.h's; what plans cost is in plan_cost.c. The best plans of a
// mesh are timed after its search with the whole program, partitioned with all care; the search's own trials take the
// first plan that the partitioner makes of their shardings. Each mesh of the pattern is searched, on each slice, and
// gets an equal part of the time that is left. Where no start fits, the program is repaired (repair.h), and each repair
// is a program of its own, with the same meshes. Reported is the plan with every parameter's sharding written out, as
// it was partitioned, timed once more in that form.
#include "advice/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"
#include "advice/internal.h"
#include "advice/planner.h"
#include "spmd_partitioner/search/repeats.h"

// ---- one mesh

// Whether the numbers of a candidate are better, be they estimates or not.
static bool looks_better(const Planner *planner, const Candidate *a, const Candidate *b) {
    const double cost_a = advice_step_cost(&a->plan), cost_b = advice_step_cost(&b->plan);
    if (a->plan.fits != b->plan.fits) return a->plan.fits;
    if (planner->options->objective == ADVICE_LEAST_COST && cost_a != cost_b) return cost_a < cost_b;
    if (planner->objective == SPMD_SEARCH_MEMORY || !a->plan.fits)
        return a->plan.hbm_peak_bytes < b->plan.hbm_peak_bytes;
    return a->plan.step_picoseconds < b->plan.step_picoseconds;
}

// Whether a candidate is better. One that is known to fit is better than any estimate.
static bool better(const Planner *planner, const Candidate *a, const Candidate *b) {
    const bool a_fits = a->is_whole && a->plan.fits, b_fits = b->is_whole && b->plan.fits;
    return a_fits != b_fits ? a_fits : looks_better(planner, a, b);
}

// Prepares for trials on the mesh of a candidate.
static void use_mesh(Planner *planner, const Candidate *candidate) {
    planner->mesh = &candidate->plan;
    planner->program = &planner->programs[candidate->plan.repair];
    const EmuTopology *topology = planner->mesh->topology;
    const bool prices = target_spmd_machine(topology, &planner->machine);
    planner->quick = planner->machine;
    planner->quick.program_seconds = NULL;
    const char *option = planner->options->kept_option;
    planner->compile = (CompileOptions){.spmd = {.mesh = planner->mesh->axes,
                                                 .mesh_axis_count = planner->mesh->axis_count,
                                                 // Those of the search are right.
                                                 .shard_option = option ? option : "--keep",
                                                 .machine = prices ? &planner->machine : NULL,
                                                 .async = emu_topology_overlaps(topology)},
                                        .is_verified = true};
    planner->reference = planner->reference_less = (SpmdSearchCost){0, 0};
    if (planner->verified_on != topology) planner->verified_step = 0;
    planner->verified_on = topology;
}

// Takes the numbers of a plan, unless those that the candidate has are better.
static void take_cost(const Planner *planner, Candidate *candidate, const SpmdSearchTrial *plan, bool first) {
    const bool fits = plan->cost.memory <= planner_memory_limit(candidate->plan.topology);
    const bool by_time = planner->objective == SPMD_SEARCH_TIME && fits;
    const bool less = by_time ? plan->cost.time < candidate->plan.step_picoseconds
                              : plan->cost.memory < candidate->plan.hbm_peak_bytes;
    if (!first && (fits != candidate->plan.fits ? !fits : !less)) return;
    candidate->shards = plan->shards;
    candidate->shard_count = plan->shard_count;
    candidate->plan.step_picoseconds = plan->cost.time;
    candidate->plan.hbm_peak_bytes = plan->cost.memory;
    candidate->plan.fits = fits;
}

// The best plans of a search that are timed with the whole program.
enum { MOST_WHOLE = 3 };

// Times the best plans of a candidate, at most `most`, with the whole program, and keeps the best.
static HloStatus time_whole(Planner *planner, Candidate *candidate, int64_t most) {
    const int64_t count = candidate->best_count < most ? candidate->best_count : most;
    if (candidate->is_whole && (most == 1 || candidate->is_closed)) return HLO_SUCCESS;
    SpmdSearchTrial *trials = HLO_ARENA_NEW(planner->arena, SpmdSearchTrial, count);
    HloStatus first = NULL;
    bool any = false;
    for (int64_t i = 0; i < count; ++i)
        trials[i] =
            (SpmdSearchTrial){.shards = candidate->best[i].shards, .shard_count = candidate->best[i].shard_count};
    use_mesh(planner, candidate);
    planner->whole = true;
    planner->must_run = true;
    planner_cost(planner, trials, count);
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

// The specs of an array of a boundary; "" of a scalar, NULL of what the mesh does not express.
static HloStatus write_specs(Planner *planner, const AdvicePlanned *plan, const SpmdBoundaryArray *arrays,
                             int64_t count, const char *const **result) {
    const char **specs = HLO_ARENA_NEW(planner->arena, const char *, count + 1);
    for (int64_t i = 0; i < count; ++i) {
        specs[i] = "";
        if (!hlo_shape_is_array(arrays[i].global) || arrays[i].global->rank == 0) continue;
        HLO_TRY(spmd_spec_text(planner->arena, plan->axes, plan->axis_count, arrays[i].sharding, arrays[i].global->rank,
                               &specs[i]));
    }
    *result = specs;
    return HLO_SUCCESS;
}

// Runs a trial of the candidate's shards with the whole program.
static HloStatus try_plan(Planner *planner, const Candidate *candidate) {
    advice_trial_free(&planner->trial);
    use_mesh(planner, candidate);
    planner->compile.spmd.shards = candidate->shards;
    planner->compile.spmd.shard_count = candidate->shard_count;
    return advice_trial_run(planner->program->module, &planner->compile, planner->mesh->topology, NULL,
                            &planner->trial);
}

// Takes the numbers of the last whole trial.
static void take_report(const Planner *planner, AdvicePlanned *plan) {
    const EmuReport *report = planner->trial.report;
    plan->step_picoseconds = report->step_picoseconds;
    plan->hbm_peak_bytes = report->hbm_peak_bytes;
    plan->mfu = report->mfu;
    plan->names_scopes = report->names_scopes;
    plan->fits = !emu_report_out_of_memory(report);
}

// Times the candidate with the sharding of every parameter given.
static HloStatus time_closed(Planner *planner, Candidate *candidate) {
    AdvicePlanned *plan = &candidate->plan;
    HLO_TRY(try_plan(planner, candidate));
    const SpmdBoundary *boundary = planner->trial.compiled->boundary;
    // A result that the mesh does not express has no spec: it is only information.
    HloStatus status = write_specs(planner, plan, boundary->results, boundary->result_count, &plan->results);
    if (status && hlo_status_code(status) != HLO_INVALID_ARGUMENT) return status;
    hlo_status_free(status);
    planner->result->result_count = boundary->result_count;
    take_report(planner, plan);
    return HLO_SUCCESS;
}

// What the search decided for a parameter, "data,?"; NULL if it left the parameter to propagation.
static const char *decided(const Candidate *candidate, int64_t parameter) {
    for (int64_t i = 0; i < candidate->shard_count; ++i) {
        char *end;
        if (candidate->shards[i][0] != 'p') continue;
        if (strtoll(candidate->shards[i] + 1, &end, 10) == parameter && end > candidate->shards[i] + 1 && *end == '=')
            return end + 1;
    }
    return NULL;
}

// How plans are closed: with what propagation gave every parameter; with that, but whole dimensions where the search
// left open those of a parameter that it decided; or with parameters whole, too, that it did not decide.
typedef enum Closing { CLOSE_RESOLVED, CLOSE_DECIDED, CLOSE_REST } Closing;

// The spec of as many dimensions as `spec` with all of them whole.
static const char *whole_spec(HloArena *arena, const char *spec) {
    HloText text = {0};
    hlo_text_char(&text, '-');
    for (const char *at = spec; *at; ++at)
        if (*at == ',') hlo_text_string(&text, ",-");
    return hlo_text_to_arena(arena, &text);
}

// The specs of all parameters; `resolved` has what propagation gave them.
static const char *const *closed_specs(Planner *planner, const Candidate *candidate, const char *const *resolved,
                                       int64_t count, Closing closing) {
    const char **specs = hlo_arena_copy(planner->arena, resolved, (size_t)count * sizeof(*specs));
    for (int64_t i = 0; i < count; ++i) {
        const char *spec = *resolved[i] ? decided(candidate, i) : NULL;
        if (*resolved[i] && !spec && closing == CLOSE_REST) specs[i] = whole_spec(planner->arena, resolved[i]);
        if (!spec) continue;
        char *closed = hlo_arena_text(planner->arena, spec);
        for (char *at = closed; *at; ++at)
            if (*at == '?') *at = '-';
        specs[i] = closed;
    }
    return specs;
}

// Gives every parameter the sharding of `specs`.
static void set_shards(Planner *planner, Candidate *candidate, const char *const *specs, int64_t count) {
    AdvicePlanned *plan = &candidate->plan;
    HloStringVector shards = {0};
    for (int64_t i = 0; i < count; ++i) {
        if (!*specs[i]) continue;
        const char *shard = hlo_arena_format(planner->arena, "p%lld=%s", (long long)i, specs[i]);
        hlo_vector_push(planner->arena, &shards, shard);
    }
    for (int64_t i = 0; i < plan->inner_count; ++i) hlo_vector_push(planner->arena, &shards, plan->inner[i]);
    plan->parameters = specs;
    candidate->shards = shards.items;
    candidate->shard_count = shards.count;
}

// Times the candidate with the sharding of `specs` for every parameter.
static HloStatus close_with(Planner *planner, Candidate *candidate, const char *const *specs, int64_t count) {
    set_shards(planner, candidate, specs, count);
    HLO_TRY(time_closed(planner, candidate));
    candidate->is_whole = candidate->is_closed = true;
    return HLO_SUCCESS;
}

// Closes a plan another way, and takes it if it is better than `candidate`, the same plan closed otherwise, of which
// the trial is. `resolved` as in closed_specs().
static HloStatus close_otherwise(Planner *planner, Candidate *candidate, const Candidate *open,
                                 const char *const *resolved, int64_t count, Closing closing) {
    const CompileOptions compile = planner->compile;
    AdviceTrial trial = planner->trial;
    Candidate other = *open;
    planner->trial = (AdviceTrial){0};
    HloStatus status = close_with(planner, &other, closed_specs(planner, open, resolved, count, closing), count);
    if (!status && better(planner, &other, candidate)) {
        *candidate = other;
    } else {
        planner->compile = compile;
        const AdviceTrial worse = planner->trial;
        planner->trial = trial;
        trial = worse;
    }
    advice_trial_free(&trial);
    return status;
}

// Writes out the sharding of every parameter, so that the plan does not depend on propagation. What propagation gives
// to a parameter late is an annotation like others when it is written out, and can lead all else astray: the next way
// is tried as long as the plan gets worse by it.
static HloStatus close_plan(Planner *planner, Candidate *candidate) {
    HLO_TRY(try_plan(planner, candidate));
    const SpmdBoundary *boundary = planner->trial.compiled->boundary;
    const int64_t count = boundary->parameter_count;
    const char *const *resolved;
    Candidate open = *candidate;
    open.is_whole = true;
    take_report(planner, &open.plan);
    HLO_TRY(write_specs(planner, &candidate->plan, boundary->parameters, count, &resolved));
    HLO_TRY(close_with(planner, candidate, resolved, count));
    for (Closing closing = CLOSE_DECIDED; closing <= CLOSE_REST && better(planner, &open, candidate); ++closing)
        HLO_TRY(close_otherwise(planner, candidate, &open, resolved, count, closing));
    planner->closed = candidate;
    return HLO_SUCCESS;
}

// ---- values inside

static bool has_shard(const Candidate *candidate, const char *shard) {
    for (int64_t i = 0; i < candidate->shard_count; ++i)
        if (!strcmp(candidate->shards[i], shard)) return true;
    return false;
}

// Takes the annotations of a suggestion into the plan.
static void take_inner(Planner *planner, Candidate *candidate, const AdviceSuggestion *suggestion) {
    HloArena *arena = planner->arena;
    HloStringVector shards = {0}, inner = {0};
    const AdvicePlanned *plan = &candidate->plan;
    for (int64_t i = 0; i < plan->inner_count; ++i) hlo_vector_push(arena, &inner, plan->inner[i]);
    for (int64_t i = 0; i < candidate->shard_count; ++i) hlo_vector_push(arena, &shards, candidate->shards[i]);
    for (int64_t i = 0; i + 1 < suggestion->option_count; i += 2) {
        if (strcmp(suggestion->options[i], "--shard") != 0 || has_shard(candidate, suggestion->options[i + 1]))
            continue;
        const char *shard = hlo_arena_text(arena, suggestion->options[i + 1]);
        hlo_vector_push(arena, &shards, shard);
        hlo_vector_push(arena, &inner, shard);
    }
    candidate->shards = shards.items;
    candidate->shard_count = shards.count;
    candidate->plan.inner = inner.items;
    candidate->plan.inner_count = inner.count;
    candidate->plan.words = hlo_arena_format(arena, "%s%s%s", plan->words ? plan->words : "",
                                             plan->words ? ";\n    " : "", suggestion->text);
}

static void count_trial(void *context, int64_t tried, double share) {
    (void)tried;
    (void)share;
    ((Planner *)context)->result->evaluated++;
    planner_show_progress(context);
}

// Annotates values inside at which collectives say that shardings meet, as long as that helps. The candidate is the one
// that was closed last. In a part of the budget: each trial is of the whole program.
static HloStatus annotate_inside(Planner *planner, Candidate *candidate) {
    const double begin = planner_now(), most = 0.2 * (planner->end - planner->begin);
    const double latest = begin + most < planner->end ? begin + most : planner->end;
    const double end = latest - 2 * planner->whole_seconds;  // the last trial, and that of the result
    HloModule *inlined;
    HLO_TRY(advice_inlined(planner->program->module, &inlined));
    HloStatus status = HLO_SUCCESS;
    for (bool improved = true; improved && !status;) {
        AdviceReport *report;
        const AdviceOptions options = {.topology = candidate->plan.topology,
                                       .budget_seconds = end - planner_now(),
                                       .constraints_only = true,
                                       .progress = count_trial,
                                       .progress_context = planner};
        improved = false;
        if (planner->is_stopped || options.budget_seconds <= 0 || planner->objective != SPMD_SEARCH_TIME) break;
        status = advice_of_compiled(inlined, &planner->compile, planner->trial.compiled, &options, &report);
        if (status) break;
        if (report->suggestion_count && report->suggestions[0].fits >= candidate->plan.fits) {
            take_inner(planner, candidate, &report->suggestions[0]);
            improved = true;
        }
        advice_free(report);
        if (improved) status = time_closed(planner, candidate);
    }
    hlo_module_free(inlined);
    return status;
}

// Lays the program out on the mesh that is searched now. Sets `refused` where that cannot be done.
static HloStatus lay_out(Planner *planner, Candidate *candidate) {
    AdvicePlan *result = planner->result;
    hlo_module_free(planner->remeshed);
    planner->remeshed = NULL;
    HloStatus status =
        spmd_remesh(planner->program->module, candidate->plan.axes, candidate->plan.axis_count, &planner->remeshed);
    candidate->refused = status && hlo_status_code(status) == HLO_INVALID_ARGUMENT;
    if (!candidate->refused) return status;
    if (!result->left_out++) result->reason = hlo_arena_text(planner->arena, hlo_status_message(status));
    hlo_status_free(status);
    return HLO_SUCCESS;
}

// Whether a plan on the mesh that is searched now was timed with the whole program.
static bool was_checked(Planner *planner, const SpmdSearchTrial *plan) {
    planner->whole = true;
    const bool checked = planner_find_known(planner, plan) != NULL;
    planner->whole = false;
    return checked;
}

// Searches one mesh. `example` has a plan to begin with, or is NULL.
static HloStatus plan_mesh(Planner *planner, Candidate *candidate, SpmdSearchDepth depth, const Candidate *example) {
    SpmdSearchResult found;
    const AdvicePlanOptions *options = planner->options;
    HloStringVector kept = {0};
    for (int64_t i = 0; i < options->kept_count; ++i) hlo_vector_push(planner->arena, &kept, options->kept[i]);
    for (int64_t i = 0; i < candidate->plan.inner_count; ++i)
        hlo_vector_push(planner->arena, &kept, candidate->plan.inner[i]);
    use_mesh(planner, candidate);
    HLO_TRY(lay_out(planner, candidate));
    if (candidate->refused) return HLO_SUCCESS;
    candidate->is_own = planner->is_annotated && (!planner->remeshed || !planner->names_axes);
    planner->must_run = true;  // an error of the first trial ends the search
    const SpmdSearchOptions search = {.mesh = planner->mesh->axes,
                                      .mesh_axis_count = planner->mesh->axis_count,
                                      .kept = kept.items,
                                      .kept_count = kept.count,
                                      .memory_limit = planner_memory_limit(planner->mesh->topology),
                                      .objective = planner->objective,
                                      .cost = planner_cost,
                                      .is_over = planner_is_over,
                                      .context = planner,
                                      .start = example ? example->shards : NULL,
                                      .start_count = example ? example->shard_count : 0,
                                      .depth = depth};
    HLO_TRY(
        spmd_search(planner->arena, planner->remeshed ? planner->remeshed : planner->program->module, &search, &found));
    const Candidate before = *candidate;
    candidate->plan.is_exact = found.is_exact && !planner->program->more;  // else the costs are estimates
    candidate->best = found.best;
    candidate->best_count = found.best_count;
    candidate->is_whole = was_checked(planner, &found.best[0]);
    candidate->is_closed = false;
    take_cost(planner, candidate, &found.best[0], true);
    if ((depth == SPMD_SEARCH_WHOLE || !planner->program->more) && !planner_is_spent(planner))
        HLO_TRY(time_whole(planner, candidate, depth == SPMD_SEARCH_WHOLE ? MOST_WHOLE : 1));
    // A search that ends early may not come to the plan that the first look found.
    if (before.best && better(planner, &before, candidate)) *candidate = before;
    if (candidate->plan.fits && (!planner->best_step || candidate->plan.step_picoseconds < planner->best_step))
        planner->best_step = candidate->plan.step_picoseconds;
    return HLO_SUCCESS;
}

// ---- all of them

// Forgets meshes on which the program cannot be laid out, or for which there was no time; an error if that is so for
// all.
static HloStatus drop_refused(Planner *planner) {
    Candidates *all = &planner->candidates;
    int64_t kept = 0;
    for (int64_t i = 0; i < all->count; ++i) {
        planner->result->untried += all->items[i].untried;
        if (!all->items[i].refused && !all->items[i].untried) all->items[kept++] = all->items[i];
    }
    all->count = kept;
    HLO_FAIL_IF(!kept, HLO_INVALID_ARGUMENT, "%s", planner->result->reason);
    return HLO_SUCCESS;
}

// Of a program with shorter forms: estimates what people write by hand on every mesh, and times the best of it that
// fits with the whole program. That plan is there then, however little time is left for the search.
static HloStatus look_by_hand(Planner *planner) {
    const Candidates *all = &planner->candidates;
    if (!planner->programs[ADVICE_REPAIR_NONE].more || planner->objective != SPMD_SEARCH_TIME || all->count < 2)
        return HLO_SUCCESS;
    planner->is_first_look = true;
    for (int64_t i = 0; i < all->count && !(planner->result->evaluated && planner_is_spent(planner)); ++i) {
        planner->deadline = planner_search_end(planner);
        HLO_TRY(plan_mesh(planner, &all->items[i], SPMD_SEARCH_BY_HAND, NULL));
    }
    planner->is_first_look = false;
    for (bool fits = false; !fits && !planner_is_spent(planner);) {
        Candidate *best = NULL;
        for (int64_t i = 0; i < all->count; ++i) {
            Candidate *one = &all->items[i];
            if (one->best && one->plan.fits && !one->is_whole && (!best || looks_better(planner, one, best)))
                best = one;
        }
        if (!best) break;
        HLO_TRY(time_whole(planner, best, 1));
        fits = best->plan.fits;
    }
    return HLO_SUCCESS;
}

// The starts of every mesh from the candidate `first`. Each may take an equal part of the time that is left. One mesh
// is tried whatever the budget is.
static HloStatus look_at_all(Planner *planner, int64_t first) {
    for (int64_t i = first; i < planner->candidates.count; ++i) {
        const double now = planner_now();
        Candidate *candidate = &planner->candidates.items[i];
        const bool over = planner->result->evaluated && planner_is_spent(planner);
        candidate->untried = over && !candidate->best;
        if (over || candidate->refused) continue;
        planner->deadline = now + (planner_search_end(planner) - now) / (double)(planner->candidates.count - i);
        HLO_TRY(plan_mesh(planner, candidate, SPMD_SEARCH_STARTS, NULL));
    }
    return drop_refused(planner);
}

// Whether two candidates differ in the names of axes only, and names are nothing to the program: what was timed for one
// is known for the other.
static bool are_twins(const Planner *planner, const Candidate *a, const Candidate *b) {
    const AdvicePlanned *one = &a->plan, *other = &b->plan;
    int64_t i = 0, k = 0;
    if (!planner->is_nameless || one->topology != other->topology || one->repair != other->repair) return false;
    for (;; ++i, ++k) {
        while (i < one->axis_count && one->axes[i].size == 1) ++i;
        while (k < other->axis_count && other->axes[k].size == 1) ++k;
        if (i == one->axis_count || k == other->axis_count) return i == one->axis_count && k == other->axis_count;
        if (one->axes[i].size != other->axes[k].size) return false;
    }
}

static bool anything_fits(const Planner *planner) {
    bool fits = false;
    for (int64_t i = 0; i < planner->candidates.count; ++i) fits |= planner->candidates.items[i].plan.fits;
    return fits;
}

// Improves the start of each mesh a little, each in an equal part of half of the time that is left: starts say little
// about how good the plans of a mesh can be. Meshes whose start does not fit wait for the others.
static HloStatus look_again(Planner *planner) {
    const int64_t count = planner->candidates.count;
    const double begin = planner_now(), half = (planner_search_end(planner) - begin) / 2;
    if (count < 2 || planner->objective != SPMD_SEARCH_TIME || !anything_fits(planner)) return HLO_SUCCESS;
    for (int64_t i = 0; i < count && !planner_is_spent(planner); ++i) {
        Candidate *candidate = &planner->candidates.items[i];
        bool is_twin = false;
        for (int64_t k = 0; k < i; ++k) is_twin |= are_twins(planner, candidate, &planner->candidates.items[k]);
        if (is_twin || candidate->is_floor || candidate->plan.is_exact || !candidate->plan.fits) continue;
        const double now = planner_now();
        planner->deadline = now + (begin + half - now) / (double)(count - i);
        HLO_TRY(plan_mesh(planner, candidate, SPMD_SEARCH_ONCE, NULL));
    }
    return HLO_SUCCESS;
}

// Plans that are nearly as good as the best have at most this time beside it.
static const double kNear = 1.03;

static bool is_near(const Candidate *candidate, const Candidate *best) {
    return (double)candidate->plan.step_picoseconds <= kNear * (double)best->plan.step_picoseconds;
}

// Whether a mesh can be expected to get the best plan: one that is nearly as good already, or would be better if it
// were improved by as much as that which was improved most, to `most` of its time.
static bool is_promising(const Planner *planner, const Candidate *mesh, const Candidate *best, double most) {
    return !best->plan.fits || planner->options->objective == ADVICE_LEAST_COST ||
           planner->objective == SPMD_SEARCH_MEMORY || is_near(mesh, best) ||
           most * (double)mesh->plan.step_picoseconds < (double)best->plan.step_picoseconds;
}

// Improves the plans of meshes in the order of what they have: the first two, of which one is not the other with other
// names, and those others that promise to be the best. Each may take half of the time that is left.
static HloStatus improve_some(Planner *planner) {
    const int64_t count = planner->candidates.count;
    bool *done = HLO_ARENA_NEW(planner->arena, bool, count);
    int64_t improved = 0;
    double most = 1;
    for (int64_t i = 0; i < count; ++i) done[i] = planner->candidates.items[i].is_floor;
    for (int64_t turn = 0; turn < count; ++turn) {
        Candidate *next = NULL;
        const Candidate *best = NULL;
        bool is_twin = false;
        for (int64_t i = 0; i < count; ++i) {
            Candidate *one = &planner->candidates.items[i];
            if (!done[i] && (!next || looks_better(planner, one, next))) next = one;
            if (!best || better(planner, one, best)) best = one;
        }
        if (!next) break;
        for (int64_t i = 0; i < count; ++i)
            is_twin |= done[i] && !planner->candidates.items[i].is_floor &&
                       are_twins(planner, next, &planner->candidates.items[i]);
        done[next - planner->candidates.items] = true;
        const int64_t before = improved;
        improved += !is_twin;
        if (next->plan.is_exact || (before >= 2 && !is_promising(planner, next, best, most))) continue;
        const double now = planner_now();
        if (planner_is_spent(planner)) break;
        planner->deadline =
            turn + 1 < count ? now + (planner_search_end(planner) - now) / 2 : planner_search_end(planner);
        const AdvicePlanned start = next->plan;
        HLO_TRY(plan_mesh(planner, next, SPMD_SEARCH_WHOLE, before < 2 ? NULL : best));
        const double part = (double)next->plan.step_picoseconds / (double)start.step_picoseconds;
        if (start.fits == next->plan.fits && part < most) most = part;
    }
    return HLO_SUCCESS;
}

// The best candidate, after its plan was closed; all others have been timed with the whole program, while there was
// time.
static HloStatus choose(Planner *planner, Candidate **chosen) {
    for (int64_t i = 0; i < planner->candidates.count && !planner_is_spent(planner); ++i)
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

// Where nothing fits, hardly less memory is not worth a longer step: takes the fastest of the plans that need hardly
// more than the best.
static HloStatus prefer_time(Planner *planner, Candidate **best) {
    const double kHardly = 1.01;
    const double most = kHardly * (double)(*best)->plan.hbm_peak_bytes;
    Candidate *fastest = *best;
    if (planner->objective != SPMD_SEARCH_TIME || fastest->plan.fits) return HLO_SUCCESS;
    for (int64_t i = 0; i < planner->candidates.count; ++i) {
        Candidate *one = &planner->candidates.items[i];
        if (one->is_whole && (double)one->plan.hbm_peak_bytes <= most &&
            one->plan.step_picoseconds < fastest->plan.step_picoseconds)
            fastest = one;
    }
    if (fastest == *best) return HLO_SUCCESS;
    if (!fastest->is_closed) HLO_TRY(close_plan(planner, fastest));
    if ((double)fastest->plan.hbm_peak_bytes <= most && fastest->plan.step_picoseconds < (*best)->plan.step_picoseconds)
        *best = fastest;
    return HLO_SUCCESS;
}

// Annotates values inside of a closed plan, and searches the shardings of parameters again beside the annotations, in
// turn, as long as that helps. Of a program with shorter forms the parameters are not searched again: these lack values
// that are annotated.
static HloStatus refine(Planner *planner, Candidate *candidate) {
    candidate->is_refined = true;
    for (;;) {
        const int64_t annotations = candidate->plan.inner_count;
        HLO_TRY(annotate_inside(planner, candidate));
        if (candidate->plan.inner_count == annotations || planner->program->more || planner_is_spent(planner)) break;
        Candidate other = *candidate;
        planner->deadline = planner_search_end(planner);
        HLO_TRY(plan_mesh(planner, &other, SPMD_SEARCH_WHOLE, candidate));
        HLO_TRY(close_plan(planner, &other));
        planner->closed = NULL;
        if (!better(planner, &other, candidate)) break;
        *candidate = other;
        planner->closed = candidate;
    }
    return HLO_SUCCESS;
}

// Refines the best plan, and those of other meshes that are nearly as good. Returns the best.
static HloStatus refine_some(Planner *planner, Candidate **best) {
    for (;;) {
        Candidate *next = NULL;
        HLO_TRY(choose(planner, best));
        for (int64_t i = 0; i < planner->candidates.count; ++i) {
            Candidate *one = &planner->candidates.items[i];
            if (!one->is_refined && (!one->is_floor || one == *best) && is_near(one, *best) &&
                (!next || better(planner, one, next)))
                next = one;
        }
        if (!next || planner->objective != SPMD_SEARCH_TIME || planner_is_spent(planner)) return HLO_SUCCESS;
        if (planner->closed != next) HLO_TRY(close_plan(planner, next));
        HLO_TRY(refine(planner, next));
    }
}

// Makes both shorter programs, if there are enough equal layers, or none.
static HloStatus shorten(Program *program) {
    HLO_TRY(spmd_search_shorten(program->module, LAYERS_MORE, &program->more, &program->layers));
    if (program->more && program->layers >= 2 * LAYERS_MORE)
        HLO_TRY(spmd_search_shorten(program->module, LAYERS_LESS, &program->less, &program->layers));
    if (program->less) return HLO_SUCCESS;
    hlo_module_free(program->more);
    program->more = NULL;
    return HLO_SUCCESS;
}

// Times the starts with the whole program where their estimates do not fit, but are not far from it: estimates can be
// wrong either way, and repairs make the step longer.
static HloStatus check_starts(Planner *planner) {
    const double kFar = 2;
    for (int64_t i = 0; i < planner->candidates.count && !planner_is_spent(planner); ++i) {
        Candidate *candidate = &planner->candidates.items[i];
        const double limit = (double)planner_memory_limit(candidate->plan.topology);
        if (!candidate->plan.fits && (double)candidate->plan.hbm_peak_bytes <= kFar * limit)
            HLO_TRY(time_whole(planner, candidate, 1));
    }
    return HLO_SUCCESS;
}

// Makes plans that are known now candidates of their own, so that they are there if those that a search finds get worse
// when they are closed: the starts that fit, and the annotations of the program on its own mesh, whatever they need.
static HloStatus keep_floors(Planner *planner) {
    const AdvicePlanOptions *options = planner->options;
    const int64_t count = planner->candidates.count;
    for (int64_t i = 0; i < count; ++i) {
        Candidate floor = planner->candidates.items[i];
        const SpmdSearchTrial own = {.shards = options->kept, .shard_count = options->kept_count};
        floor.is_floor = true;
        if (floor.is_whole && floor.plan.fits) hlo_vector_push(planner->arena, &planner->candidates, floor);
        if (!floor.is_own || floor.plan.repair != ADVICE_REPAIR_NONE) continue;
        floor.best = hlo_arena_copy(planner->arena, &own, sizeof(own));
        floor.best_count = 1;
        floor.is_whole = false;
        HLO_TRY(time_whole(planner, &floor, 1));
        hlo_vector_push(planner->arena, &planner->candidates, floor);
    }
    return HLO_SUCCESS;
}

// Where nothing fits: looks at the repaired programs on every mesh too.
static HloStatus repair_all(Planner *planner) {
    const int64_t meshes = planner->candidates.count;
    for (AdviceRepair repair = ADVICE_REPAIR_NONE + 1; repair < ADVICE_REPAIR_COUNT; ++repair) {
        Program *program = &planner->programs[repair];
        HLO_TRY(advice_repair_make(planner->module, repair, &program->repaired));
        program->module = program->repaired;
        if (!program->module) continue;
        HLO_TRY(shorten(program));
        for (int64_t i = 0; i < meshes; ++i) {
            const Candidate *mesh = &planner->candidates.items[i];
            const Candidate candidate = {.plan = {.topology = mesh->plan.topology,
                                                  .axes = mesh->plan.axes,
                                                  .axis_count = mesh->plan.axis_count,
                                                  .mesh = mesh->plan.mesh,
                                                  .price = mesh->plan.price,
                                                  .repair = repair,
                                                  .pass = advice_repair_info(repair)->pass}};
            hlo_vector_push(planner->arena, &planner->candidates, candidate);
        }
    }
    return look_at_all(planner, meshes);
}

// One candidate for each mesh of the pattern on each slice.
static HloStatus list_candidates(Planner *planner) {
    const AdvicePlanOptions *options = planner->options;
    const char *pattern;
    HLO_TRY(advice_mesh_pattern(planner->arena, planner->module, &pattern));
    planner->names_axes = pattern;
    planner->is_annotated = pattern || spmd_has_device_lists(planner->module);
    planner->is_nameless = !planner->is_annotated && !options->kept_count;
    if (options->mesh) pattern = options->mesh;
    if (!pattern) pattern = "data=*,model=*";
    for (int64_t t = 0; t < options->topology_count; ++t) {
        const EmuTopology *topology = options->topologies[t];
        const AdviceMesh *meshes;
        int64_t count;
        HLO_FAIL_IF(!emu_topology_is_tpu(topology), HLO_UNIMPLEMENTED, "%s: host processors have no machine model",
                    topology->name);
        HLO_TRY(advice_meshes(planner->arena, pattern, topology->device_count, false, &meshes, &count));
        for (int64_t i = 0; i < count; ++i) {
            const Candidate candidate = {
                .plan = {.topology = topology,
                         .axes = meshes[i].axes,
                         .axis_count = meshes[i].count,
                         .mesh = spmd_mesh_text(planner->arena, meshes[i].axes, meshes[i].count),
                         .price = options->prices ? options->prices[t] : -1,
                         .pass = ""}};
            hlo_vector_push(planner->arena, &planner->candidates, candidate);
        }
    }
    return HLO_SUCCESS;
}

// The best plan of each mesh on each slice, in the order of the meshes.
static void list_results(Planner *planner, const Candidate *best) {
    const Candidates *candidates = &planner->candidates;
    AdvicePlanned *all = HLO_ARENA_NEW(planner->arena, AdvicePlanned, candidates->count);
    AdvicePlan *result = planner->result;
    for (int64_t i = 0; i < candidates->count; ++i) {
        const Candidate *first = &candidates->items[i], *chosen = first;
        bool seen = false;
        for (int64_t k = 0; k < candidates->count; ++k) {
            const Candidate *other = &candidates->items[k];
            if (other->plan.mesh != first->plan.mesh || other->plan.topology != first->plan.topology) continue;
            seen |= k < i;
            if (other == best || (chosen != best && better(planner, other, chosen))) chosen = other;
        }
        if (seen) continue;
        if (chosen == best) result->best = &all[result->count];
        all[result->count++] = chosen->plan;
    }
    result->all = all;
}

static HloStatus make_plan(void *argument) {
    Planner *planner = argument;
    AdvicePlan *result = planner->result;
    Candidate *best;
    result->program = hlo_arena_text(planner->arena, planner->module->name);
    result->reason = "";
    HLO_TRY(list_candidates(planner));
    HLO_TRY(shorten(&planner->programs[ADVICE_REPAIR_NONE]));
    HLO_TRY(look_by_hand(planner));
    HLO_TRY(look_at_all(planner, 0));
    if (!anything_fits(planner)) HLO_TRY(check_starts(planner));
    const bool fits = anything_fits(planner);
    if (!fits && !planner_is_spent(planner))
        HLO_TRY(repair_all(planner));
    else if (!fits)
        result->untried += (ADVICE_REPAIR_COUNT - 1) * planner->candidates.count;
    HLO_TRY(keep_floors(planner));
    HLO_TRY(look_again(planner));
    HLO_TRY(improve_some(planner));
    HLO_TRY(refine_some(planner, &best));
    HLO_TRY(prefer_time(planner, &best));
    list_results(planner, best);
    advice_plan_name(result, planner->module);
    return HLO_SUCCESS;
}

HloStatus advice_plan_new(const HloModule *module, const AdvicePlanOptions *options, AdvicePlan **plan) {
    assert(module && options && options->topology_count > 0 && plan);
    assert(options->objective != ADVICE_LEAST_COST || options->prices);
    HLO_FAIL_IF(spmd_is_partitioned(module), HLO_INVALID_ARGUMENT,
                "the program is that of one device already, and no longer sharded");
    AdvicePlan *result = hlo_allocate_zeroed(1, sizeof(*result));
    HLO_FAIL_IF(!result, HLO_RESOURCE_EXHAUSTED, "out of memory");
    result->arena = hlo_arena_new();
    if (!result->arena) {
        hlo_free(result);
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    Planner planner = {.module = module, .options = options, .result = result, .arena = result->arena};
    planner.programs[ADVICE_REPAIR_NONE].module = module;
    planner.objective = options->objective == ADVICE_LEAST_MEMORY ? SPMD_SEARCH_MEMORY : SPMD_SEARCH_TIME;
    planner.begin = planner_now();
    planner.end = planner.begin + (options->budget_seconds > 0 ? options->budget_seconds : 60);
    HloStatus status = hlo_protect(make_plan, &planner);
    advice_trial_free(&planner.trial);
    for (int r = 0; r < ADVICE_REPAIR_COUNT; ++r) {
        hlo_module_free(planner.programs[r].more);
        hlo_module_free(planner.programs[r].less);
        hlo_module_free(planner.programs[r].repaired);
    }
    hlo_module_free(planner.remeshed);
    if (status) {
        advice_plan_free(result);
        return status;
    }
    *plan = result;
    return HLO_SUCCESS;
}

void advice_plan_free(AdvicePlan *plan) {
    if (!plan) return;
    hlo_arena_free(plan->arena);
    hlo_free(plan);
}
