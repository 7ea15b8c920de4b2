// SPDX-License-Identifier: Apache-2.0
// Suggestions: changes of shardings that are tried one by one, and together where several help.
//
// Changes are made from the collectives that cost something (advice_share() of at least one percent, or a warning), in
// this order:
//     orders       the devices of each axis of the mesh on rings of chips
//     meshes       every other shape of the mesh's axes, if the program can be laid out on it
//     lookups      a constraint on what is looked up in a parameter, for these are where annotations of data and
//                  parameters meet
//     parameters   each axis of the sharding removed, or moved to another dimension; an axis added. Parameters that are
//                  one decision (spmd_search_groups()), and the results that are sharded like them, change together
//     constraints  on results whose collectives are warned about
//
// A change helps if the step is at least one percent shorter and the program still fits, or if it fits now.
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "advice/flow.h"
#include "advice/internal.h"
#include "spmd_partitioner/search/search.h"
#include "targets/program.h"

#define HELPS 0.99    // of the step
#define NOTABLE 0.01  // share of the step of collectives that are worth a change

enum { MOST_AXES = 8, MOST_SUGGESTIONS = 4, MOST_CONSTRAINED = 24, MOST_RANK = 8, MOST_OPTIONS = 12 };

typedef struct Change {
    const char *text;
    HloStringVector shards;  // values of --shard
    const AdviceMesh *mesh;  // NULL: as it is
    const int64_t *order;    // of the devices; NULL: as it is
    int64_t step, peak, bytes;
    bool fits, works;
} Change;

typedef struct Search {
    AdviceRequest *request;
    HloArena *arena;
    const SpmdMeshAxis *mesh;
    int64_t mesh_axis_count;
    HLO_VECTOR(Change) changes;
    SpmdMachine machine;  // with the order of devices of the change that is tried
    double deadline;
    bool *notable;  // by flattened parameter
} Search;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool is_over(const Search *search) {
    return seconds() >= search->deadline;
}

// ---- trials

// Whether a value of --shard names one of the arrays of the others, which then replace it.
static bool is_replaced(const HloStringVector *shards, const char *old) {
    const char *equals = strrchr(old, '=');
    for (int64_t i = 0; i < shards->count && equals; i++) {
        const char *end = strrchr(shards->items[i], '=');
        if (end - shards->items[i] == equals - old && !memcmp(shards->items[i], old, (size_t)(equals - old)))
            return true;
    }
    return false;
}

// The values of --shard that the user gave, but those that the change replaces, and the change's.
static HloStringVector shards_with(const Search *search, const Change *change) {
    const SpmdOptions *spmd = &search->request->compile->spmd;
    HloStringVector shards = {0};
    for (int64_t i = 0; i < spmd->shard_count; i++)
        if (!is_replaced(&change->shards, spmd->shards[i])) hlo_vector_push(search->arena, &shards, spmd->shards[i]);
    for (int64_t i = 0; i < change->shards.count; i++) hlo_vector_push(search->arena, &shards, change->shards.items[i]);
    return shards;
}

// Partitions and times the program with a change. A change that the partitioner refuses does not work; only a lack of
// memory is an error.
static HloStatus try_change(Search *search, Change *change) {
    AdviceRequest *request = search->request;
    CompileOptions compile = *request->compile;
    EmuOptions emulation = {0};
    const HloStringVector shards = shards_with(search, change);
    compile.spmd.shards = shards.items;
    compile.spmd.shard_count = shards.count;
    compile.is_verified = true;
    compile.dump = (CompileDump){0};
    if (change->mesh) {
        compile.spmd.mesh = change->mesh->axes;
        compile.spmd.mesh_axis_count = change->mesh->count;
        compile.spmd.num_partitions = 0;
    } else {
        emulation.device_assignment = change->order ? change->order : request->options->device_assignment;
        emulation.device_assignment_count = request->options->device_assignment_count;
    }
    if (change->order && compile.spmd.machine) {
        search->machine = *compile.spmd.machine;
        search->machine.assignment = change->order;
        search->machine.assignment_count = emulation.device_assignment_count;
        compile.spmd.machine = &search->machine;
    }
    if (request->options->progress) {
        const double begin = search->deadline - request->options->budget_seconds;
        request->options->progress(request->options->progress_context, request->report->tried,
                                   (seconds() - begin) / request->options->budget_seconds);
    }
    HloStatus status =
        advice_trial_run(request->module, &compile, request->options->topology, &emulation, &request->trial);
    request->report->tried++;
    if (!status) {
        const EmuReport *report = request->trial.report;
        *change = (Change){change->text,
                           change->shards,
                           change->mesh,
                           change->order,
                           report->step_picoseconds,
                           report->hbm_peak_bytes,
                           request->trial.compiled->report->total_bytes_per_device,
                           !emu_report_out_of_memory(report),
                           true};
    }
    advice_trial_free(&request->trial);
    if (hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED) return status;
    hlo_status_free(status);
    return HLO_SUCCESS;
}

// Whether a change is worth showing beside the plan with these numbers.
static bool improves(const Change *change, int64_t step, int64_t peak, bool fits) {
    if (!change->works || change->fits < fits) return false;
    if (change->fits > fits) return true;
    const bool faster = (double)change->step <= HELPS * (double)step;
    return fits ? faster : (double)change->peak <= 0.9 * (double)peak && faster;
}

static bool is_better(const Change *a, const Change *b) {
    if (a->fits != b->fits) return a->fits;
    if (a->step != b->step) return a->step < b->step;
    return a->peak < b->peak;
}

// ---- names

static const char *target_of(const Search *search, int64_t leaf) {
    return advice_parameter_name(search->arena, search->request->module, leaf);
}

// Whether every parameter of this name pattern is among these.
static bool covers(const Search *search, const char *pattern, const int32_t *leaves, int64_t count) {
    const SpmdBoundary *boundary = search->request->compiled->boundary;
    for (int64_t leaf = 0; leaf < boundary->parameter_count; leaf++) {
        if (strcmp(advice_name_pattern(search->arena, target_of(search, leaf)), pattern) != 0) continue;
        bool found = false;
        for (int64_t i = 0; i < count; i++) found |= leaves[i] == leaf;
        if (!found) return false;
    }
    return true;
}

// The name of one of these parameters; the pattern of equal layers where it names no other parameters.
static const char *name_among(const Search *search, const int32_t *leaves, int64_t count, int64_t at) {
    const char *name = target_of(search, leaves[at]), *pattern = advice_name_pattern(search->arena, name);
    return strcmp(name, pattern) != 0 && covers(search, pattern, leaves, count) ? pattern : name;
}

// "params['wq'] (and 63 others)" for people.
static const char *list_of(const Search *search, const int32_t *leaves, int64_t count) {
    HloText text = {0};
    const char *last = NULL;
    int64_t shown = 0, names = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *name = name_among(search, leaves, count, i);
        if (last && !strcmp(last, name)) continue;
        last = name;
        names++;
        if (shown == 3) continue;
        hlo_text_format(&text, "%s%s", shown++ ? ", " : "", name);
    }
    if (names > shown) hlo_text_format(&text, " and %lld more", (long long)(names - shown));
    return hlo_text_to_arena(search->arena, &text);
}

// Values of --shard for these parameters.
static void add_shards(Search *search, Change *change, const int32_t *leaves, int64_t count, const char *spec) {
    for (int64_t i = 0; i < count; i++) {
        const char *shard = hlo_arena_format(search->arena, "%s=%s", name_among(search, leaves, count, i), spec);
        bool seen = false;
        for (int64_t k = 0; k < change->shards.count; k++) seen |= !strcmp(change->shards.items[k], shard);
        if (!seen) hlo_vector_push(search->arena, &change->shards, shard);
    }
}

// ---- specs

// A sharding by dimension: bit a of dims[d] is axis a.
typedef struct Spec {
    uint64_t dims[MOST_RANK];
    int32_t rank;
} Spec;

static const char *spec_text(const Search *search, const Spec *spec) {
    HloText text = {0};
    for (int32_t d = 0; d < spec->rank; d++) {
        bool any = false;
        if (d) hlo_text_char(&text, ',');
        for (int64_t a = 0; a < search->mesh_axis_count; a++) {
            if (!(spec->dims[d] >> a & 1)) continue;
            hlo_text_format(&text, "%s%s", any ? "+" : "", search->mesh[a].name);
            any = true;
        }
        if (!any) hlo_text_char(&text, '-');
    }
    return hlo_text_to_arena(search->arena, &text);
}

// Reads "data,-,a+b"; false for parts of axes.
static bool read_spec(const Search *search, const char *text, int32_t rank, Spec *spec) {
    *spec = (Spec){.rank = rank};
    if (rank > MOST_RANK || strchr(text, ':')) return false;
    for (int32_t d = 0; d < rank && text; d++) {
        const size_t length = strcspn(text, ",");
        for (const char *at = text; at < text + length;) {
            const size_t name = strcspn(at, ",+");
            for (int64_t a = 0; a < search->mesh_axis_count; a++)
                if (strlen(search->mesh[a].name) == name && !memcmp(search->mesh[a].name, at, name))
                    spec->dims[d] |= UINT64_C(1) << a;
            at += name + (at[name] == '+');
        }
        text = text[length] ? text + length + 1 : NULL;
    }
    return true;
}

// Whether every dimension divides evenly, as JAX requires.
static bool is_even(const Search *search, const Spec *spec, const HloShape *shape) {
    for (int32_t d = 0; d < spec->rank; d++) {
        int64_t shards = 1;
        for (int64_t a = 0; a < search->mesh_axis_count; a++)
            if (spec->dims[d] >> a & 1) shards *= search->mesh[a].size;
        if (shape->dims[d] % shards) return false;
    }
    return true;
}

// ---- changes of meshes

static HloStatus add_meshes(Search *search) {
    const AdviceMesh *meshes;
    int64_t count, devices = 1;
    const char *pattern;
    HLO_TRY(advice_mesh_pattern(search->arena, search->request->module, &pattern));
    for (int64_t a = 0; a < search->mesh_axis_count; a++) devices *= search->mesh[a].size;
    if (!pattern || search->mesh_axis_count > 3) return HLO_SUCCESS;
    HloStatus status = advice_meshes(search->arena, pattern, devices, false, &meshes, &count);
    for (int64_t i = 0; !status && i < count; i++) {
        const char *mesh = spmd_mesh_text(search->arena, meshes[i].axes, meshes[i].count);
        if (!strcmp(mesh, search->request->report->mesh)) continue;
        HloText sizes = {0}, names = {0};
        for (int64_t a = 0; a < meshes[i].count; a++) {
            hlo_text_format(&sizes, "%s%lld", a ? ", " : "", (long long)meshes[i].axes[a].size);
            hlo_text_format(&names, "%s'%s'", a ? ", " : "", meshes[i].axes[a].name);
        }
        const Change change = {.text = hlo_arena_format(search->arena, "mesh = jax.make_mesh((%s), (%s))",
                                                        hlo_text_to_arena(search->arena, &sizes),
                                                        hlo_text_to_arena(search->arena, &names)),
                               .mesh = &meshes[i]};
        hlo_vector_push(search->arena, &search->changes, change);
    }
    hlo_status_free(status);
    return HLO_SUCCESS;
}

// ---- orders of devices

// Whether the devices are in the order that is chosen where the user names none.
static bool is_default_order(const Search *search) {
    const AdviceRequest *request = search->request;
    const SpmdOptions *spmd = &request->compile->spmd;
    const int64_t count = request->options->device_assignment_count;
    if (!request->options->device_assignment) return true;
    int64_t *ids = HLO_ARENA_NEW(search->arena, int64_t, count);
    HloStatus status = target_default_assignment(request->options->topology, request->module, spmd->mesh,
                                                 spmd->mesh_axis_count, count, ids);
    const bool same = !status && !memcmp(ids, request->options->device_assignment, (size_t)count * sizeof *ids);
    hlo_status_free(status);
    return same;
}

// Each axis of the mesh on rings of chips, where the user leaves the order of the devices open.
static void add_orders(Search *search) {
    const EmuTopology *topology = search->request->options->topology;
    const int64_t devices = search->request->options->device_assignment_count;
    int64_t sizes[MOST_AXES];
    if (!devices || search->request->module->replica_count > 1 || !is_default_order(search)) return;
    for (int64_t a = 0; a < search->mesh_axis_count; a++) sizes[a] = search->mesh[a].size;
    for (int64_t a = 0; a < search->mesh_axis_count; a++) {
        for (int pair = 0; pair < 3 * 3; pair++) {  // of axes of the torus
            const EmuRings rings = {.axis = a, .along = pair / 3, .across = pair % 3};
            const bool turned = sizes[a] == 4 && rings.along > rings.across;  // the same square blocks
            int64_t *ids = HLO_ARENA_NEW(search->arena, int64_t, devices);
            if (turned || !emu_mesh_ring_order(topology, sizes, search->mesh_axis_count, rings, ids)) continue;
            const Change change = {.text = hlo_arena_format(
                                       search->arena,
                                       "a mesh whose axis '%s' goes around rings of %lld x 2 chips: jax.sharding.Mesh "
                                       "of the devices with these ids",
                                       search->mesh[a].name, (long long)(sizes[a] / 2)),
                                   .order = ids};
            hlo_vector_push(search->arena, &search->changes, change);
        }
    }
}

// ---- changes of parameters

static void add_parameter_change(Search *search, const SpmdSearchGroup *group, const int32_t *leaves, int64_t count,
                                 const Spec *spec) {
    if (!is_even(search, spec, group->shape)) return;
    const char *text = spec_text(search, spec);
    Change change = {.text = hlo_arena_format(search->arena, "shard %s as %s", list_of(search, leaves, count),
                                              advice_partition_spec(search->arena, text))};
    add_shards(search, &change, leaves, count, text);
    for (int64_t r = 0; r < group->result_count; r++)
        hlo_vector_push(search->arena, &change.shards,
                        hlo_arena_format(search->arena, "r%d=%s", group->results[r], text));
    if (change.shards.count <= MOST_OPTIONS) hlo_vector_push(search->arena, &search->changes, change);
}

// Every axis removed, moved to another dimension, or added.
static void vary_group(Search *search, const SpmdSearchGroup *group, int32_t first) {
    const SpmdBoundary *boundary = search->request->compiled->boundary;
    HloArena *arena = search->arena;
    const char *now, *other;
    Spec spec;
    HloStatus status = spmd_spec_text(arena, search->mesh, search->mesh_axis_count,
                                      boundary->parameters[first].sharding, group->shape->rank, &now);
    const bool known = !status && read_spec(search, now, group->shape->rank, &spec);
    hlo_status_free(status);
    if (!known) return;
    int32_t *leaves = HLO_ARENA_NEW(arena, int32_t, group->parameter_count);
    int64_t count = 0;
    for (int64_t i = 0; i < group->parameter_count; i++) {  // those that are sharded alike today
        status = spmd_spec_text(arena, search->mesh, search->mesh_axis_count,
                                boundary->parameters[group->parameters[i]].sharding, group->shape->rank, &other);
        if (!status && !strcmp(now, other)) leaves[count++] = group->parameters[i];
        hlo_status_free(status);
    }
    for (int64_t a = 0; a < search->mesh_axis_count; a++) {
        const uint64_t axis = UINT64_C(1) << a;
        bool used = false;
        Spec without = spec;
        if (search->mesh[a].size == 1) continue;
        for (int32_t d = 0; d < spec.rank; d++) {
            used |= (spec.dims[d] & axis) != 0;
            without.dims[d] &= ~axis;
        }
        if (used) add_parameter_change(search, group, leaves, count, &without);
        for (int32_t d = 0; d < spec.rank; d++) {
            Spec with = without;
            with.dims[d] |= axis;
            if (!(spec.dims[d] & axis)) add_parameter_change(search, group, leaves, count, &with);
        }
    }
}

static HloStatus add_parameters(Search *search) {
    const HloModule *module = search->request->module;
    const SpmdOptions *spmd = &search->request->compile->spmd;
    const SpmdSearchGroup *groups;
    int64_t count;
    HloModule *remeshed = NULL;
    if (spmd->mesh_axis_count) HLO_TRY(spmd_remesh(module, spmd->mesh, spmd->mesh_axis_count, &remeshed));
    HloStatus status = spmd_search_groups(search->arena, remeshed ? remeshed : module, search->mesh,
                                          search->mesh_axis_count, &groups, &count);
    for (int64_t g = 0; !status && g < count; g++) {
        for (int64_t i = 0; i < groups[g].parameter_count; i++) {
            const int32_t leaf = groups[g].parameters[i];
            if (leaf >= search->request->compiled->boundary->parameter_count || !search->notable[leaf]) continue;
            vary_group(search, &groups[g], leaf);
            break;
        }
    }
    // The groups' shapes live in the module that they were made of; nothing of them is needed any more.
    hlo_module_free(remeshed);
    hlo_status_free(status);
    return HLO_SUCCESS;
}

// ---- constraints

static bool is_lookup(const HloInstruction *op) {
    return hlo_is(op, HLO_OP_GATHER) && hlo_type_is_float(op->shape->type) && advice_origin_parameter(op->operands[0]);
}

// The pattern of an operation's name, by which equal layers are found; "" if it has none.
static const char *pattern_of(const Search *search, const HloInstruction *op) {
    const char *name = op->metadata && op->metadata->op_name ? op->metadata->op_name : "";
    return advice_name_pattern(search->arena, name);
}

// Whether a collective that is warned about, or that costs much, was made for this operation.
static bool is_blamed(const Search *search, const HloInstruction *op) {
    const AdviceReport *report = search->request->report;
    const char *scope = advice_scope(search->arena, op);
    const char *file;
    int64_t line;
    hlo_instruction_source(op, &file, &line);
    const char *slash = file ? strrchr(file, '/') : NULL;
    const char *source =
        file ? hlo_arena_format(search->arena, "%s:%lld", slash ? slash + 1 : file, (long long)line) : "";
    for (int64_t i = 0; i < report->group_count; i++) {
        const AdviceGroup *group = &report->groups[i];
        const bool costs = *group->cause || group->kind == ADVICE_KIND_TENSOR_PARALLEL;
        if (!costs || advice_share(report, &group->amount) < NOTABLE || !*group->scope) continue;
        if (!strcmp(group->scope, scope) && !strcmp(group->source, source)) return true;
    }
    return false;
}

typedef HLO_VECTOR(const HloInstruction *) Instructions;

// One change a spec for the operations of `all` that are like `all->items[first]`.
static void constrain(Search *search, const Instructions *all, int64_t first, const Spec *spec) {
    const HloInstruction *op = all->items[first];
    if (!is_even(search, spec, op->shape)) return;
    const char *text = spec_text(search, spec), *file, *pattern = pattern_of(search, op);
    int64_t line, count = 0;
    Change change = {0};
    for (int64_t i = first; i < all->count; i++) {
        const HloInstruction *other = all->items[i];
        const bool alike = i == first || (*pattern && !strcmp(pattern, pattern_of(search, other)) &&
                                          hlo_shape_equal(op->shape, other->shape, HLO_COMPARE_DIMS_ONLY));
        if (!alike) continue;
        count++;
        hlo_vector_push(search->arena, &change.shards, hlo_arena_format(search->arena, "%s=%s", other->name, text));
    }
    if (change.shards.count > 4 * MOST_OPTIONS) return;
    hlo_instruction_source(op, &file, &line);
    HloText words = {0};
    hlo_text_format(&words, "jax.lax.with_sharding_constraint(x, %s) where x is the result of %s",
                    advice_partition_spec(search->arena, text), *pattern ? pattern : hlo_op_text(op->opcode));
    if (is_lookup(op))
        hlo_text_format(
            &words, " (the embedding lookup in %s)",
            target_of(search, advice_leaf_of(search->request->module, advice_origin_parameter(op->operands[0]))));
    if (file) hlo_text_format(&words, ", at %s:%lld", file, (long long)line);
    if (count > 1) hlo_text_format(&words, " (x %lld)", (long long)count);
    change.text = hlo_text_to_arena(search->arena, &words);
    hlo_vector_push(search->arena, &search->changes, change);
}

// The data along the first dimension, and the rest of the axes nowhere, along the last one, or along the second.
static void constrain_all_ways(Search *search, const Instructions *all, int64_t first) {
    const int32_t rank = all->items[first]->shape->rank;
    uint64_t every = 0;
    for (int64_t a = 0; a < search->mesh_axis_count; a++)
        if (search->mesh[a].size > 1) every |= UINT64_C(1) << a;
    const uint64_t batch = search->request->facts.batch & every ? search->request->facts.batch & every : every;
    const uint64_t rest = every & ~batch;
    Spec spec = {.rank = rank};
    spec.dims[0] = batch;
    constrain(search, all, first, &spec);
    if (!rest) return;
    spec.dims[rank - 1] |= rest;
    constrain(search, all, first, &spec);
    if (rank < 3) return;
    spec.dims[rank - 1] &= ~rest;
    spec.dims[1] |= rest;
    constrain(search, all, first, &spec);
}

// Lists what constraints may help on, and makes changes of them, each kind of equal operations once.
static void add_constraints(Search *search, bool lookups) {
    const HloModule *module = search->request->module;
    Instructions all = {0};
    int64_t made = 0;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            const bool fits = hlo_shape_is_array(at->shape) && at->shape->rank >= 2 && at->shape->rank <= MOST_RANK &&
                              at->operand_count && !hlo_is(at, HLO_OP_GET_TUPLE_ELEMENT);
            if (fits && (lookups ? is_lookup(at) : !is_lookup(at) && is_blamed(search, at)))
                hlo_vector_push(search->arena, &all, at);
        }
    }
    for (int64_t i = 0; i < all.count && made < MOST_CONSTRAINED; i++) {
        const char *pattern = pattern_of(search, all.items[i]);
        bool seen = false;
        for (int64_t k = 0; k < i && *pattern; k++)
            seen |= !strcmp(pattern, pattern_of(search, all.items[k])) &&
                    hlo_shape_equal(all.items[i]->shape, all.items[k]->shape, HLO_COMPARE_DIMS_ONLY);
        if (seen) continue;
        constrain_all_ways(search, &all, i);
        made++;
    }
}

// ---- the search

// Parameters of groups that cost something.
static void mark_notable(Search *search) {
    const AdviceRequest *request = search->request;
    const SpmdReport *collectives = request->compiled->report;
    search->notable = HLO_ARENA_NEW(search->arena, bool, request->compiled->boundary->parameter_count + 1);
    for (int64_t i = 0; i < collectives->collective_count; i++) {
        const AdviceGroup *group = &request->report->groups[request->group_of[i]];
        const AdviceFinding *finding = &request->findings[i];
        if (advice_share(request->report, &group->amount) < NOTABLE) continue;
        if (finding->parameter >= 0) search->notable[finding->parameter] = true;
        if (finding->indices >= 0) search->notable[finding->indices] = true;
    }
    // Where the network costs nothing, memory may: the largest parameters are changed.
    for (int64_t i = 0; i < request->compiled->boundary->parameter_count && !request->report->fits; i++)
        search->notable[i] |=
            hlo_shape_bytes(request->compiled->boundary->parameters[i].local) > request->report->hbm_peak_bytes / 50;
}

// Adds changes of shardings that help to the best one, as long as they help together too.
static HloStatus combine(Search *search, Change **helping, int64_t count, Change *together) {
    int64_t joined = 0;
    *together = (Change){0};
    for (int64_t i = 0; i < count && !is_over(search); i++) {
        if (helping[i]->mesh || helping[i]->order) continue;  // shards are of one mesh
        Change both = {0};
        bool clash = false;
        for (int64_t k = 0; k < together->shards.count; k++) {
            clash |= is_replaced(&helping[i]->shards, together->shards.items[k]);
            hlo_vector_push(search->arena, &both.shards, together->shards.items[k]);
        }
        if (clash) continue;
        if (!joined) {
            *together = *helping[i];
            joined = 1;
            continue;
        }
        for (int64_t k = 0; k < helping[i]->shards.count; k++)
            hlo_vector_push(search->arena, &both.shards, helping[i]->shards.items[k]);
        both.text = hlo_arena_format(search->arena, "%s;\n    %s", together->text, helping[i]->text);
        HLO_TRY(try_change(search, &both));
        if (!improves(&both, together->step, together->peak, together->fits)) continue;
        *together = both;
        joined++;
    }
    together->works = joined > 1;
    return HLO_SUCCESS;
}

// Device ids as --device-assignment takes them.
static const char *order_text(const Search *search, const int64_t *ids) {
    HloText text = {0};
    for (int64_t i = 0; i < search->request->options->device_assignment_count; i++)
        hlo_text_format(&text, "%s%lld", i ? "," : "", (long long)ids[i]);
    return hlo_text_to_arena(search->arena, &text);
}

// Options for the whole plan: with those that the user gave.
static void add_suggestion(Search *search, const Change *change, AdviceSuggestion *suggestion) {
    const SpmdOptions *spmd = &search->request->compile->spmd;
    const HloStringVector shards = shards_with(search, change);
    const char **options = HLO_ARENA_NEW(search->arena, const char *, 2 * shards.count + 4);
    int64_t count = 0;
    if (change->mesh || spmd->mesh_axis_count) {
        options[count++] = "--mesh";
        options[count++] = change->mesh ? spmd_mesh_text(search->arena, change->mesh->axes, change->mesh->count)
                                        : spmd_mesh_text(search->arena, spmd->mesh, spmd->mesh_axis_count);
    }
    for (int64_t i = 0; i < shards.count; i++) {
        options[count++] = "--shard";
        options[count++] = shards.items[i];
    }
    if (change->order) {
        options[count++] = "--device-assignment";
        options[count++] = order_text(search, change->order);
    }
    *suggestion =
        (AdviceSuggestion){change->text, options, count, change->step, change->peak, change->bytes, change->fits};
}

// Sorts what helps, the best first; of changes with the same numbers the first one stays.
static int64_t list_helping(Search *search, Change **helping) {
    const AdviceReport *report = search->request->report;
    int64_t count = 0;
    for (int64_t i = 0; i < search->changes.count; i++) {
        Change *change = &search->changes.items[i];
        bool known = !improves(change, report->step_picoseconds, report->hbm_peak_bytes, report->fits);
        for (int64_t k = 0; k < count; k++)
            known |= helping[k]->step == change->step && helping[k]->peak == change->peak &&
                     helping[k]->bytes == change->bytes;
        if (known) continue;
        int64_t at = count++;
        for (; at > 0 && is_better(change, helping[at - 1]); at--) helping[at] = helping[at - 1];
        helping[at] = change;
    }
    return count;
}

static HloStatus report_helping(Search *search) {
    AdviceReport *report = search->request->report;
    Change **helping = HLO_ARENA_NEW(search->arena, Change *, search->changes.count + 1), together;
    const int64_t count = list_helping(search, helping);
    if (!count) return HLO_SUCCESS;
    AdviceSuggestion *suggestions = HLO_ARENA_NEW(search->arena, AdviceSuggestion, MOST_SUGGESTIONS + 1);
    HLO_TRY(combine(search, helping, count, &together));
    int64_t shown = 0;
    bool waits = together.works;
    for (int64_t i = 0; i < count && shown < MOST_SUGGESTIONS; i++) {
        if (waits && is_better(&together, helping[i])) {
            add_suggestion(search, &together, &suggestions[shown++]);
            waits = false;
        }
        if (shown < MOST_SUGGESTIONS) add_suggestion(search, helping[i], &suggestions[shown++]);
    }
    report->suggestions = suggestions;
    report->suggestion_count = shown;
    return HLO_SUCCESS;
}

HloStatus advice_suggest(AdviceRequest *request) {
    if (!request->options->constraints_only) HLO_TRY(advice_suggest_donation(request));
    Search search = {.request = request,
                     .arena = request->report->arena,
                     .mesh = request->facts.mesh,
                     .mesh_axis_count = request->facts.mesh_axis_count,
                     .deadline = seconds() + request->options->budget_seconds};
    if (request->compiled->was_per_device || request->compiled->module->num_partitions <= 1 ||
        !search.mesh_axis_count || search.mesh_axis_count > MOST_AXES)
        return HLO_SUCCESS;
    mark_notable(&search);
    const bool all = !request->options->constraints_only;
    if (all) add_orders(&search);
    if (all) HLO_TRY(add_meshes(&search));
    add_constraints(&search, true);
    if (all) HLO_TRY(add_parameters(&search));
    add_constraints(&search, false);
    for (int64_t i = 0; i < search.changes.count; i++) {
        if (is_over(&search)) {
            request->report->is_incomplete = true;
            break;
        }
        HLO_TRY(try_change(&search, &search.changes.items[i]));
    }
    return report_helping(&search);
}
