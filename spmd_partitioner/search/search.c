// SPDX-License-Identifier: Apache-2.0
// Classes of dimensions are sets of a union-find over (array, dimension); see search.h for what is decided with them.
//
// A class is described by the operations that it takes part in: a sum of hashes of (opcode, tensor, dimension, kind of
// factor), which does not depend on the order of the program. Equal layers have classes of equal descriptions.
#include "spmd_partitioner/search/search.h"

#include <assert.h>
#include <string.h>

#include "hlo/analysis/contents.h"
#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/propagate.h"

// Spaces up to EXACT_PLANS are searched whole. How thoroughly else depends on what a plan costs to be tried, which is
// about proportional to the instructions. Of a program so small that SMALL_SEARCH plans are at most THOROUGH_WORK,
// plans times instructions, so many are tried: the whole space, or more starts, pairs of decisions, all ways to keep
// dimensions whole, and plans that are not near.
enum {
    SMALL_SEARCH = 512,
    MOST_CHEAP = 4096,
    MOST_FURTHER = 1024,
    EXACT_PLANS = 256,
    THOROUGH_WORK = 1 << 18,
    STARTS = 2,
    MORE_STARTS = 4,
    MOST_RANK = 16
};

// Parameters with one decision.
typedef struct Group {
    int32_t *leaves, *arrays;  // numbers of flattened parameters, and of their arrays in the search's plan
    int64_t leaf_count;
    const HloShape *shape;
    uint64_t hash;
    int32_t *roots;   // classes of the first member's dimensions
    int8_t *choices;  // choices x axes: the dimension that gets the axis, or -1
    // The first open_count choices leave dimensions without an axis to propagation, those after them keep these whole.
    int32_t choice_count, open_count;
} Group;
typedef HLO_VECTOR(Group) Groups;

typedef struct Plan {
    int32_t *choice;  // by group
    SpmdSearchCost cost;
    const uint64_t *resolved;  // by flattened parameter, as in SpmdSearchTrial
    bool ruled_out;
} Plan;

typedef struct Search {
    HloArena *arena;
    const SpmdSearchOptions *options;
    const SpmdPlan *plan;  // arrays and nodes of the program, nothing propagated
    int32_t *first;        // by array: number of its first dimension
    int32_t *parent;       // union-find over dimensions
    uint64_t *hashes;      // by dimension: of the class, at its root
    Groups groups;
    HLO_VECTOR(Plan) known;  // every plan that was costed
    HloIntMap place_of;      // by hash of choices: a place in `known`
    int64_t evaluated, instructions, leaf_count;
    bool over;
} Search;

// ---- classes of dimensions

static int32_t find(Search *search, int32_t dim) {
    while (search->parent[dim] != dim) dim = search->parent[dim] = search->parent[search->parent[dim]];
    return dim;
}

// Unites dimensions that a rule gives the same single factor, of the same size.
static void unite_factor(Search *search, const SpmdNode *node, int32_t factor) {
    int32_t first = -1;
    for (int32_t t = 0; t < node->count; t++) {
        if (node->arrays[t] < 0) continue;
        const SpmdTensor *tensor = &node->rule->tensors[t];
        for (int32_t d = 0; d < tensor->shape->rank; d++) {
            if (tensor->dims[d].count != 1 || tensor->dims[d].items[0] != factor) continue;
            if (tensor->shape->dims[d] != node->rule->factors.items[factor].size) continue;
            const int32_t dim = find(search, search->first[node->arrays[t]] + d);
            if (first < 0) first = dim;
            search->parent[dim] = first = find(search, first);
        }
    }
}

static void unite_all(Search *search) {
    const SpmdPlan *plan = search->plan;
    for (int64_t n = 0; n < plan->nodes.count; n++) {
        const SpmdNode *node = &plan->nodes.items[n];
        for (int32_t f = 0; node->rule && f < (int32_t)node->rule->factors.count; f++) unite_factor(search, node, f);
        if (node->rule || node->boundary) continue;
        const int32_t a = node->arrays[0], b = node->arrays[1];
        for (int32_t d = 0; d < plan->arrays.items[a].shape->rank; d++)
            search->parent[find(search, search->first[a] + d)] = find(search, search->first[b] + d);
    }
}

static void describe_classes(Search *search) {
    const SpmdPlan *plan = search->plan;
    for (int64_t n = 0; n < plan->nodes.count; n++) {
        const SpmdNode *node = &plan->nodes.items[n];
        for (int32_t t = 0; node->rule && t < node->count; t++) {
            if (node->arrays[t] < 0) continue;
            for (int32_t d = 0; d < node->rule->tensors[t].shape->rank; d++) {
                uint64_t hash =
                    hlo_hash_mix(hlo_hash_mix(0, (uint64_t)node->rule->op->opcode), (uint64_t)(t * MOST_RANK + d));
                hash = hlo_hash_mix(hash, (uint64_t)node->rule->tensors[t].shape->dims[d]);
                search->hashes[find(search, search->first[node->arrays[t]] + d)] += hash;
            }
        }
    }
}

static void find_classes(Search *search) {
    const int64_t arrays = search->plan->arrays.count;
    search->first = HLO_ARENA_NEW(search->arena, int32_t, arrays + 1);
    for (int64_t i = 0; i < arrays; i++) {
        const HloShape *shape = search->plan->arrays.items[i].shape;
        search->first[i + 1] = search->first[i] + (hlo_shape_is_array(shape) ? shape->rank : 0);
    }
    search->parent = HLO_ARENA_NEW(search->arena, int32_t, search->first[arrays] + 1);
    search->hashes = HLO_ARENA_NEW(search->arena, uint64_t, search->first[arrays] + 1);
    for (int32_t i = 0; i < search->first[arrays]; i++) search->parent[i] = i;
    unite_all(search);
    describe_classes(search);
}

// ---- groups of parameters

// Whether two arrays have the same classes, dimension by dimension, or classes of the same description.
static bool belongs(Search *search, const Group *group, const HloShape *shape, int32_t array, uint64_t hash) {
    if (!hlo_shape_equal(group->shape, shape, HLO_COMPARE_DIMS_ONLY)) return false;
    bool same = true;
    for (int32_t d = 0; d < shape->rank; d++) same &= find(search, search->first[array] + d) == group->roots[d];
    return same || hash == group->hash;
}

static void add_parameter(Search *search, int32_t leaf, int32_t array) {
    const HloShape *shape = search->plan->arrays.items[array].shape;
    if (!hlo_shape_is_array(shape) || shape->rank == 0 || shape->rank > MOST_RANK) return;
    uint64_t hash = (uint64_t)shape->rank;
    for (int32_t d = 0; d < shape->rank; d++)
        hash = hlo_hash_mix(hash, search->hashes[find(search, search->first[array] + d)]);
    Group *group = NULL;
    for (int64_t i = 0; i < search->groups.count && !group; i++)
        if (belongs(search, &search->groups.items[i], shape, array, hash)) group = &search->groups.items[i];
    if (!group) {
        Group made = {.shape = shape, .hash = hash, .roots = HLO_ARENA_NEW(search->arena, int32_t, shape->rank)};
        for (int32_t d = 0; d < shape->rank; d++) made.roots[d] = find(search, search->first[array] + d);
        made.leaves = HLO_ARENA_NEW(search->arena, int32_t, search->plan->arrays.count);
        made.arrays = HLO_ARENA_NEW(search->arena, int32_t, search->plan->arrays.count);
        hlo_vector_push(search->arena, &search->groups, made);
        group = &search->groups.items[search->groups.count - 1];
    }
    group->leaves[group->leaf_count] = leaf;
    group->arrays[group->leaf_count++] = array;
}

// Whether the group's arrays can have their dimensions sharded so. Shards are even, as JAX requires of arguments.
static bool is_possible(const Search *search, const Group *group, const int8_t *choice) {
    int64_t shards[MOST_RANK];
    for (int32_t d = 0; d < group->shape->rank; d++) shards[d] = 1;
    for (int64_t a = 0; a < search->options->mesh_axis_count; a++) {
        const int32_t dim = choice[a];
        if (dim < 0) continue;
        shards[dim] *= search->options->mesh[a].size;
        if (search->options->mesh[a].size == 1) return false;  // an axis of one device shards nothing
        if (group->shape->dims[dim] % shards[dim]) return false;
        if (group->shape->dynamic && group->shape->dynamic[dim]) return false;
    }
    return true;
}

static bool has_whole_dimension(const Search *search, const Group *group, const int8_t *choice) {
    uint32_t sharded = 0;
    for (int64_t a = 0; a < search->options->mesh_axis_count; a++)
        if (choice[a] >= 0) sharded |= 1u << choice[a];
    return sharded != (1u << group->shape->rank) - 1;
}

// Lists which dimension may have which axis.
static void list_choices(Search *search, Group *group) {
    const int64_t axes = search->options->mesh_axis_count;
    int64_t most = 1;
    for (int64_t a = 0; a < axes; a++) most *= group->shape->rank + 1;
    group->choices = HLO_ARENA_NEW(search->arena, int8_t, 2 * most * axes);
    for (int64_t number = 0; number < most; number++) {
        int8_t *choice = &group->choices[group->open_count * axes];
        int64_t rest = number;
        for (int64_t a = 0; a < axes; a++, rest /= group->shape->rank + 1)
            choice[a] = (int8_t)(rest % (group->shape->rank + 1) - 1);
        group->open_count += is_possible(search, group, choice);
    }
    group->choice_count = group->open_count;
    for (int32_t c = 0; c < group->open_count; c++) {
        const int8_t *open = &group->choices[c * axes];
        if (!has_whole_dimension(search, group, open)) continue;
        memcpy(&group->choices[group->choice_count++ * axes], open, (size_t)axes);
    }
}

static bool is_kept(const Search *search, int32_t leaf, const HloInstruction *parameter) {
    for (int64_t i = 0; i < search->options->kept_count; i++) {
        const char *kept = search->options->kept[i], *equals = strrchr(kept, '=');
        const char *numbered = hlo_arena_format(search->arena, "p%d", leaf), *name = spmd_argument_name(parameter);
        const size_t length = equals ? (size_t)(equals - kept) : 0;
        if (length == strlen(numbered) && !memcmp(kept, numbered, length)) return true;
        if (length == strlen(name) && !memcmp(kept, name, length)) return true;
        if (length == strlen(parameter->name) && !memcmp(kept, parameter->name, length)) return true;
    }
    return false;
}

static void find_groups(Search *search) {
    const SpmdPlan *plan = search->plan;
    const HloComputation *entry = plan->module->entry;
    int32_t leaf = 0;
    for (int64_t p = 0; p < entry->parameters.count; p++) {
        const HloInstruction *parameter = entry->parameters.items[p];
        const int64_t leaves = hlo_shape_leaf_count(parameter->shape);
        for (int64_t i = 0; i < leaves; i++, leaf++) {
            if (is_kept(search, leaf, parameter)) continue;
            add_parameter(search, leaf, plan->array_of_leaf[plan->first_leaf[parameter->id] + i]);
        }
    }
    search->leaf_count = leaf;
}

// ---- plans

// `p3=data,?` or `p3=data,-`, which keeps the dimension whole.
static const char *spec_of(const Search *search, HloArena *arena, const Group *group, int32_t choice, int32_t leaf) {
    HloText text = {0};
    const int64_t axes = search->options->mesh_axis_count;
    hlo_text_format(&text, "p%d=", leaf);
    for (int32_t d = 0; d < group->shape->rank; d++) {
        bool any = false;
        if (d) hlo_text_char(&text, ',');
        for (int64_t a = 0; a < axes; a++) {
            if (group->choices[choice * axes + a] != d) continue;
            hlo_text_format(&text, "%s%s", any ? "+" : "", search->options->mesh[a].name);
            any = true;
        }
        if (!any) hlo_text_char(&text, choice < group->open_count ? '?' : '-');
    }
    return hlo_text_to_arena(arena, &text);
}

uint64_t spmd_search_spec_hash(const SpmdMeshAxis *mesh, int64_t mesh_axis_count, const char *spec) {
    uint64_t hash = 1;
    for (const char *at = spec; *at; at += *at != 0) {
        const size_t length = strcspn(at, ",+");
        uint64_t number = 0, found = 0;
        for (int64_t a = 0; a < mesh_axis_count; a++) {
            if (mesh[a].size == 1) continue;
            number++;
            if (strlen(mesh[a].name) == length && !memcmp(mesh[a].name, at, length)) found = number;
        }
        if (!found && length && *at != '-' && *at != '?') found = hlo_hash_bytes(at, length);  // a part of an axis
        at += length;
        hash = hlo_hash_mix(hlo_hash_mix(hash, found), (uint64_t)(unsigned char)*at);
    }
    return hash ? hash : 1;
}

static uint64_t choice_hash(const Search *search, const Group *group, int32_t choice) {
    const char *spec = strchr(spec_of(search, search->arena, group, choice, 0), '=') + 1;
    return spmd_search_spec_hash(search->options->mesh, search->options->mesh_axis_count, spec);
}

// What propagation gave to a group's parameters in a plan; 0 if that is not known or not the same for all.
static uint64_t resolved_of(const Plan *plan, const Group *group) {
    uint64_t all = 0;
    for (int64_t i = 0; i < group->leaf_count && plan->resolved; i++) {
        const uint64_t one = plan->resolved[group->leaves[i]];
        if (one && all && one != all) return 0;
        if (one) all = one;
    }
    return all;
}

// In `arena`.
static HloStringVector shards_of(const Search *search, HloArena *arena, const int32_t *choice) {
    HloStringVector shards = {0};
    for (int64_t i = 0; i < search->options->kept_count; i++) hlo_vector_push(arena, &shards, search->options->kept[i]);
    for (int64_t g = 0; g < search->groups.count; g++) {
        const Group *group = &search->groups.items[g];
        if (choice[g] == 0) continue;  // nothing is given: propagation decides
        for (int64_t i = 0; i < group->leaf_count; i++)
            hlo_vector_push(arena, &shards, spec_of(search, arena, group, choice[g], group->leaves[i]));
    }
    return shards;
}

static bool has_room(const Search *search, const Plan *plan) {
    return !search->options->memory_limit || plan->cost.memory <= search->options->memory_limit;
}

// The plan that fits is better, then the objective counts, then the other cost; equal plans: the earlier one stays.
static bool better(const Search *search, const Plan *a, const Plan *b) {
    if (a->ruled_out || b->ruled_out) return !a->ruled_out && b->ruled_out;
    const bool a_fits = has_room(search, a), b_fits = has_room(search, b);
    if (a_fits != b_fits) return a_fits;
    const bool by_time = search->options->objective == SPMD_SEARCH_TIME && a_fits;
    const int64_t first = by_time ? a->cost.time : a->cost.memory, second = by_time ? b->cost.time : b->cost.memory;
    if (first != second) return first < second;
    return by_time ? a->cost.memory < b->cost.memory : a->cost.time < b->cost.time;
}

// The key of choices for place_of: the next one where others have the same hash. *place is where it leads, or -1.
static uint64_t key_of(const Search *search, const int32_t *choice, int64_t *place) {
    const size_t bytes = (size_t)search->groups.count * sizeof(int32_t);
    for (uint64_t key = hlo_hash_bytes(choice, bytes);; key++) {
        const int64_t *found = hlo_int_map_find(&search->place_of, key);
        *place = found ? *found : -1;
        if (!found || !bytes || !memcmp(search->known.items[*found].choice, choice, bytes)) return key;
    }
}

// The plan with these choices, if it was costed; else NULL.
static const Plan *find_known(const Search *search, const int32_t *choice) {
    int64_t place;
    key_of(search, choice, &place);
    return place < 0 ? NULL : &search->known.items[place];
}

static void add_known(Search *search, Plan plan) {
    int64_t place;
    const uint64_t key = key_of(search, plan.choice, &place);
    hlo_int_map_set(search->arena, &search->place_of, key, search->known.count);
    hlo_vector_push(search->arena, &search->known, plan);
}

// Costs plans, each once, all that are new in one call. Plans that are ruled out cost nothing that counts.
static HloStatus evaluate_part(Search *search, Plan *plans, int64_t count) {
    const SpmdSearchOptions *options = search->options;
    SpmdSearchTrial *trials = HLO_ARENA_NEW(search->arena, SpmdSearchTrial, count + 1);
    const int64_t first = search->known.count;
    search->over |= search->evaluated && options->is_over && options->is_over(options->context);
    for (int64_t i = 0; i < count && !search->over; i++) {
        if (find_known(search, plans[i].choice)) continue;
        const HloStringVector shards = shards_of(search, search->arena, plans[i].choice);
        trials[search->known.count - first] =
            (SpmdSearchTrial){.shards = shards.items,
                              .shard_count = shards.count,
                              .resolved = HLO_ARENA_NEW(search->arena, uint64_t, search->leaf_count + 1)};
        add_known(search, (Plan){.choice = plans[i].choice});
    }
    const int64_t new_count = search->known.count - first;
    if (new_count) options->cost(options->context, trials, new_count);
    HloStatus fatal = NULL;
    for (int64_t i = 0; i < new_count; i++) {
        const bool ends =
            trials[i].status && (search->evaluated == 0 || hlo_status_code(trials[i].status) == HLO_RESOURCE_EXHAUSTED);
        search->known.items[first + i].cost = trials[i].cost;
        search->known.items[first + i].resolved = trials[i].resolved;
        search->known.items[first + i].ruled_out = trials[i].status != NULL;
        search->evaluated++;
        if (ends && !fatal)
            fatal = trials[i].status;
        else
            hlo_status_free(trials[i].status);
    }
    for (int64_t i = 0; i < count && !fatal; i++) {
        const Plan *known = find_known(search, plans[i].choice);
        plans[i].ruled_out = !known;
        if (known) plans[i] = *known;
    }
    return fatal;
}

// The same in parts, so that a search that is over ends soon.
static HloStatus evaluate_all(Search *search, Plan *plans, int64_t count) {
    enum { PART = 8 };
    for (int64_t i = 0; i < count; i += PART)
        HLO_TRY(evaluate_part(search, &plans[i], count - i < PART ? count - i : PART));
    return HLO_SUCCESS;
}

static int32_t *copy_choice(const Search *search, const int32_t *choice) {
    int32_t *copy = HLO_ARENA_NEW(search->arena, int32_t, search->groups.count + 1);
    if (choice && search->groups.count) memcpy(copy, choice, (size_t)search->groups.count * sizeof(int32_t));
    return copy;
}

// ---- the search

static bool is_small(const Search *search) {
    return search->instructions <= THOROUGH_WORK / SMALL_SEARCH;
}

// Whether so many plans are cheap enough to be tried for little hope.
static bool is_cheap(const Search *search, int64_t plans) {
    return is_small(search) && plans <= MOST_CHEAP && plans <= THOROUGH_WORK / (search->instructions + 1);
}

static HloStatus search_all(Search *search, Plan *best) {
    HLO_VECTOR(Plan) plans = {0};
    int32_t *choice = copy_choice(search, NULL);
    for (;;) {
        const Plan plan = {.choice = copy_choice(search, choice)};
        hlo_vector_push(search->arena, &plans, plan);
        int64_t g = 0;
        while (g < search->groups.count && ++choice[g] == search->groups.items[g].choice_count) choice[g++] = 0;
        if (g == search->groups.count) break;
    }
    HLO_TRY(evaluate_all(search, plans.items, plans.count));
    for (int64_t i = 0; i < plans.count; i++)
        if (better(search, &plans.items[i], best)) *best = plans.items[i];
    return HLO_SUCCESS;
}

// Biases and scales of norms: small arrays of rank 1 of floating-point numbers, whose shardings follow from those of
// others.
static bool is_minor(const Search *search, const Group *group) {
    int64_t bytes = 0;
    for (int64_t g = 0; g < search->groups.count; g++)
        bytes += search->groups.items[g].leaf_count * hlo_shape_bytes(search->groups.items[g].shape);
    return group->shape->rank == 1 && hlo_type_is_float(group->shape->type) &&
           hlo_shape_bytes(group->shape) * group->leaf_count < bytes / 1000;
}

// Costs plans and takes the best if it is better than *plan.
static HloStatus take_best(Search *search, Plan *plan, Plan *plans, int64_t count, bool *improved) {
    HLO_TRY(evaluate_all(search, plans, count));
    for (int64_t i = 0; i < count; i++) {
        if (!better(search, &plans[i], plan)) continue;
        *plan = plans[i];
        *improved = true;
    }
    return HLO_SUCCESS;
}

// Whether a choice keeps whole only what propagation has left whole where `open`, the same without that, was tried.
static bool says_nothing_more(const Search *search, const Group *group, int32_t choice, const Plan *open,
                              int64_t open_count, int64_t g) {
    const int64_t axes = search->options->mesh_axis_count;
    for (int64_t i = 0; i < open_count; i++)
        if (!memcmp(&group->choices[choice * axes], &group->choices[open[i].choice[g] * axes], (size_t)axes))
            return resolved_of(&open[i], group) == choice_hash(search, group, choice);
    return false;
}

// Gives one group its best choice. Returns in *improved whether that is better than what it had. Of the choices that
// keep dimensions whole, those are tried that change nothing else, or everything. In programs that are not small,
// choices are left out that say what propagation gives anyway.
static HloStatus improve(Search *search, Plan *plan, int64_t g, bool *improved) {
    const Group *group = &search->groups.items[g];
    const int64_t axes = search->options->mesh_axis_count;
    const int8_t *now = &group->choices[plan->choice[g] * axes];
    Plan *plans = HLO_ARENA_NEW(search->arena, Plan, group->choice_count);
    const bool cheap = is_cheap(search, search->evaluated);
    const bool small = is_small(search);
    const uint64_t resolved = small ? 0 : resolved_of(plan, group);
    int64_t count = 0, open_count = 0;
    *improved = false;
    for (int32_t c = 0; c < group->choice_count; c++) {
        const bool same = !memcmp(&group->choices[c * axes], now, (size_t)axes);
        if (c == group->open_count) {
            open_count = count;
            HLO_TRY(take_best(search, plan, plans, open_count, improved));
        }
        if (c > group->open_count && !same && !cheap) continue;
        if (resolved && resolved == choice_hash(search, group, c)) continue;
        if (!small && c >= group->open_count && says_nothing_more(search, group, c, plans, open_count, g)) continue;
        plans[count].choice = copy_choice(search, plan->choice);
        plans[count++].choice[g] = c;
    }
    return take_best(search, plan, &plans[open_count], count - open_count, improved);
}

// Gives each group in turn, the small ones or the others, its best choice until a whole iteration improves nothing, or
// once.
static HloStatus improve_each(Search *search, Plan *plan, bool small) {
    const int64_t count = search->groups.count;
    for (int64_t g = 0, idle = 0; idle < count && !search->over; g = (g + 1) % count) {
        bool better_now = false;
        if (is_minor(search, &search->groups.items[g]) == small) HLO_TRY(improve(search, plan, g, &better_now));
        idle = better_now ? 0 : idle + 1;
        if (search->options->depth == SPMD_SEARCH_ONCE && g == count - 1) break;
    }
    return HLO_SUCCESS;
}

// Whether the arrays of two groups have a class of dimensions in common, so that one's choice limits the other's.
static bool are_related(Search *search, const Group *a, const Group *b) {
    for (int32_t i = 0; i < a->shape->rank; i++)
        for (int32_t k = 0; k < b->shape->rank; k++)
            if (find(search, a->roots[i]) == find(search, b->roots[k])) return true;
    return false;
}

// Whether two choices differ in one axis only, or in how they leave dimensions whole.
static bool is_near(const Search *search, const Group *group, int32_t a, int32_t b) {
    const int64_t axes = search->options->mesh_axis_count;
    int64_t different = 0;
    for (int64_t i = 0; i < axes; i++) different += group->choices[a * axes + i] != group->choices[b * axes + i];
    return different <= 1;
}

// Gives two groups their best choices together: two weights that are sharded alike are often better than neither, and
// either alone is worse.
static HloStatus improve_pair(Search *search, Plan *plan, int64_t g, int64_t h, bool *improved) {
    const Group *first = &search->groups.items[g], *second = &search->groups.items[h];
    HLO_VECTOR(Plan) plans = {0};
    *improved = false;
    for (int32_t c = 0; c < first->choice_count; c++) {
        if (c == plan->choice[g] || !is_near(search, first, c, plan->choice[g])) continue;
        for (int32_t k = 0; k < second->choice_count; k++) {
            if (k == plan->choice[h] || !is_near(search, second, k, plan->choice[h])) continue;
            const Plan made = {.choice = copy_choice(search, plan->choice)};
            made.choice[g] = c;
            made.choice[h] = k;
            hlo_vector_push(search->arena, &plans, made);
        }
    }
    return take_best(search, plan, plans.items, plans.count, improved);
}

// Improves pairs of related groups as long as that is cheap; ends at the first that helps.
static HloStatus improve_pairs(Search *search, Plan *plan, bool *improved) {
    const Group *groups = search->groups.items;
    for (int64_t g = 0; g < search->groups.count; g++)
        for (int64_t h = g + 1; h < search->groups.count && !*improved && !search->over; h++)
            if (is_cheap(search, search->evaluated) && are_related(search, &groups[g], &groups[h]))
                HLO_TRY(improve_pair(search, plan, g, h, improved));
    return HLO_SUCCESS;
}

// Improves single groups, first the large ones, until none improves; then pairs.
static HloStatus descend(Search *search, Plan *plan) {
    if (search->options->depth == SPMD_SEARCH_ONCE) return improve_each(search, plan, false);
    for (bool improved = true; improved && !search->over;) {
        improved = false;
        HLO_TRY(improve_each(search, plan, false));
        HLO_TRY(improve_each(search, plan, true));
        HLO_TRY(improve_pairs(search, plan, &improved));
    }
    return HLO_SUCCESS;
}

// The choice that gives the axes of `mask` to dimension `dim` and those of `other_mask` to `other`, or 0.
static int32_t choice_with_both(const Search *search, const Group *group, int32_t dim, unsigned mask, int32_t other,
                                unsigned other_mask) {
    const int64_t axes = search->options->mesh_axis_count;
    for (int32_t c = 0; c < group->open_count; c++) {
        bool same = true;
        for (int64_t a = 0; a < axes; a++) {
            const int32_t wanted = mask >> a & 1 ? dim : other_mask >> a & 1 ? other : -1;
            same &= group->choices[c * axes + a] == (search->options->mesh[a].size > 1 ? wanted : -1);
        }
        if (same) return c;
    }
    return 0;
}

// The choice that gives the axes of `mask` to dimension `dim`, or 0.
static int32_t choice_with(const Search *search, const Group *group, int32_t dim, unsigned mask) {
    return choice_with_both(search, group, dim, mask, -1, 0);
}

// Every group's largest dimension over the axes of `mask`: all parameters in parts, as fully sharded data parallelism
// has them.
static int32_t *shard_largest(const Search *search, unsigned mask) {
    int32_t *choice = copy_choice(search, NULL);
    for (int64_t g = 0; g < search->groups.count; g++) {
        const Group *group = &search->groups.items[g];
        int64_t size = 0;
        for (int32_t d = 0; d < group->shape->rank; d++) {
            const int32_t found = choice_with(search, group, d, mask);
            if (!found || group->shape->dims[d] <= size) continue;
            size = group->shape->dims[d];
            choice[g] = found;
        }
    }
    return choice;
}

// The dimension of a group that is of the class `root`, or -1.
static int32_t dim_of_class(const Group *group, int32_t root) {
    for (int32_t d = 0; d < group->shape->rank; d++)
        if (group->roots[d] == root) return d;
    return -1;
}

// What says which classes the dimensions of an array have, in whatever order.
static uint64_t hash_of_classes(Search *search, int32_t array) {
    const HloShape *shape = search->plan->arrays.items[array].shape;
    uint64_t hash = (uint64_t)shape->rank;
    for (int32_t d = 0; d < shape->rank; d++) hash += hlo_hash_mix(1, (uint64_t)find(search, search->first[array] + d));
    return hash;
}

// By dimension, at the root of its class: the bytes of arrays that have one dimension of the class. Arrays with the
// classes of a parameter do not count: they are its gradients, moments and copies.
static double *bytes_of_classes(Search *search) {
    const SpmdPlan *plan = search->plan;
    double *bytes = HLO_ARENA_NEW(search->arena, double, search->first[plan->arrays.count] + 1);
    HloIntMap parameters = {0};
    for (int64_t g = 0; g < search->groups.count; g++)
        for (int64_t i = 0; i < search->groups.items[g].leaf_count; i++)
            hlo_int_map_set(search->arena, &parameters, hash_of_classes(search, search->groups.items[g].arrays[i]), g);
    for (int32_t a = 0; a < (int32_t)plan->arrays.count; a++) {
        const HloShape *shape = plan->arrays.items[a].shape;
        if (!hlo_shape_is_array(shape) || hlo_int_map_find(&parameters, hash_of_classes(search, a))) continue;
        for (int32_t d = 0; d < shape->rank; d++) {
            const int32_t root = find(search, search->first[a] + d);
            int32_t same = 0;
            for (int32_t k = 0; k < shape->rank; k++) same += find(search, search->first[a] + k) == root;
            if (same == 1) bytes[root] += (double)hlo_shape_bytes(shape);
        }
    }
    return bytes;
}

// The bytes of parameters with a dimension of the class `root`, but for those with one of the class `except`.
static double parameter_bytes(const Search *search, int32_t root, int32_t except) {
    double bytes = 0;
    for (int64_t g = 0; g < search->groups.count; g++) {
        const Group *group = &search->groups.items[g];
        if (dim_of_class(group, root) >= 0 && dim_of_class(group, except) < 0)
            bytes += (double)group->leaf_count * (double)hlo_shape_bytes(group->shape);
    }
    return bytes;
}

// The class of dimensions that most parameters have, by bytes: in a network of blocks, the features that are handed
// from block to block. Parameters with dimensions of class `batch` do not count. -1 if there is none.
static int32_t commonest_class(const Search *search, int32_t batch) {
    int32_t found = -1;
    double most = 0;
    for (int64_t g = 0; g < search->groups.count; g++) {
        for (int32_t d = 0; d < search->groups.items[g].shape->rank; d++) {
            const int32_t root = search->groups.items[g].roots[d];
            const double bytes = root == batch ? 0 : parameter_bytes(search, root, batch);
            if (bytes <= most) continue;
            most = bytes;
            found = root;
        }
    }
    return found;
}

// The class of dimensions that a parameter has and nearly all of what is computed, by bytes, but the fewest parameters:
// the batch in most programs. -1 if there is none.
static int32_t batch_class(Search *search) {
    const double kNearlyAll = 0.9;
    const double *bytes = bytes_of_classes(search);
    int32_t found = -1;
    double most = 0, least = 0;
    for (int32_t dim = 0; dim < search->first[search->plan->arrays.count]; dim++)
        if (bytes[dim] > most && parameter_bytes(search, dim, -1) > 0) most = bytes[dim];
    for (int64_t g = 0; g < search->groups.count && most > 0; g++) {
        for (int32_t d = 0; d < search->groups.items[g].shape->rank; d++) {
            const int32_t root = search->groups.items[g].roots[d];
            const double in_parameters = parameter_bytes(search, root, -1);
            if (bytes[root] < kNearlyAll * most || (found >= 0 && in_parameters >= least)) continue;
            found = root;
            least = in_parameters;
        }
    }
    return found;
}

// Data parallelism with parameters in parts beside tensor parallelism, as people write it: the class `batch` over the
// axes of `data`; of each other parameter, the class `features`, that of what is handed from block to block, over
// `data` too, and the largest of its other dimensions over `tensor`.
static int32_t *shard_both_ways(const Search *search, int32_t batch, int32_t features, unsigned data, unsigned tensor) {
    int32_t *choice = copy_choice(search, NULL);
    for (int64_t g = 0; g < search->groups.count; g++) {
        const Group *group = &search->groups.items[g];
        const int32_t rows = dim_of_class(group, batch), handed_on = dim_of_class(group, features);
        int64_t size = 0;
        if (rows >= 0) choice[g] = choice_with(search, group, rows, data);
        for (int32_t d = 0; d < group->shape->rank && rows < 0; d++) {
            const int32_t both = handed_on < 0 ? choice_with(search, group, d, tensor)
                                               : choice_with_both(search, group, handed_on, data, d, tensor);
            if (d == handed_on || !both || group->shape->dims[d] <= size) continue;
            size = group->shape->dims[d];
            choice[g] = both;
        }
        if (rows < 0 && handed_on >= 0 && !choice[g]) choice[g] = choice_with(search, group, handed_on, data);
    }
    return choice;
}

// Every parameter whole on every device, whatever propagation would do.
static int32_t *keep_whole(const Search *search) {
    int32_t *choice = copy_choice(search, NULL);
    for (int64_t g = 0; g < search->groups.count; g++)
        choice[g] = search->groups.items[g].open_count % search->groups.items[g].choice_count;
    return choice;
}

// The choices that write a plan's shards, as far as this mesh has them: the plan of another mesh on this one.
static int32_t *read_start(const Search *search) {
    int32_t *choice = copy_choice(search, NULL);
    for (int64_t g = 0; g < search->groups.count; g++) {
        const Group *group = &search->groups.items[g];
        for (int32_t c = 1; c < group->choice_count && !choice[g]; c++) {
            const char *spec = spec_of(search, search->arena, group, c, group->leaves[0]);
            for (int64_t i = 0; i < search->options->start_count && !choice[g]; i++)
                if (!strcmp(search->options->start[i], spec)) choice[g] = c;
        }
    }
    return choice;
}

// Costs the starts from data parallelism over all axes but one, with parameters over both; the batch is the class
// `batch`. *start is the best; ruled out if there is none.
static HloStatus cost_both_ways(Search *search, int32_t batch, Plan *start) {
    const int64_t axes = search->options->mesh_axis_count;
    const unsigned all = (1u << axes) - 1;
    *start = (Plan){.ruled_out = true};
    if (axes < 2 || batch < 0) return HLO_SUCCESS;
    const int32_t features = commonest_class(search, batch);
    Plan *starts = HLO_ARENA_NEW(search->arena, Plan, axes);
    for (int64_t a = 0; a < axes; a++)
        starts[a].choice = shard_both_ways(search, batch, features, all & ~(1u << a), 1u << a);
    HLO_TRY(evaluate_all(search, starts, axes));
    for (int64_t a = 0; a < axes; a++)
        if (!a || better(search, &starts[a], start)) *start = starts[a];
    return HLO_SUCCESS;
}

// That of `classes` whose plan, which shards nothing else, is the fastest of `plans`; -1 if there is none.
static int32_t fastest_class(const Plan *plans, const int32_t *classes, int64_t count) {
    int64_t fastest = -1;
    for (int64_t i = 0; i < count; i++)
        if (!plans[i].ruled_out && (fastest < 0 || plans[i].cost.time < plans[fastest].cost.time)) fastest = i;
    return fastest < 0 ? -1 : classes[fastest];
}

// Improves a start, unless a first look is enough, and takes it if it is the best then.
static HloStatus improve_start(Search *search, Plan *start, Plan *best) {
    if (search->options->depth != SPMD_SEARCH_STARTS) HLO_TRY(descend(search, start));
    if (better(search, start, best)) *best = *start;
    return HLO_SUCCESS;
}

// Improves the better one of these starts if it is near the best plan so far.
static HloStatus search_both_ways(Search *search, const Plan *plans, const int32_t *classes, int64_t count,
                                  Plan *best) {
    const double kFar = 1.25;
    Plan start;
    HLO_TRY(cost_both_ways(search, fastest_class(plans, classes, count), &start));
    if (start.ruled_out) return HLO_SUCCESS;
    const bool near = !has_room(search, best) || (double)start.cost.time <= kFar * (double)best->cost.time;
    return near ? improve_start(search, &start, best) : HLO_SUCCESS;
}

// The best of plans.
static Plan *best_of(const Search *search, Plan *plans, int64_t count) {
    Plan *best = plans;
    for (int64_t i = 1; i < count; i++)
        if (better(search, &plans[i], best)) best = &plans[i];
    return best;
}

// Starts: nothing; every parameter whole; every parameter in parts, over each axis and over all; one group's dimension
// over all axes, the best of which is data parallelism in most programs; that over all axes but one, and parameters
// over both, which is improved first if it is the best; the plan that the caller brings. The best few are improved, the
// best one where the caller brings a plan.
// One that is far from the best when that has been improved stays as it is.
static HloStatus search_from_starts(Search *search, Plan *best) {
    const double kFar = 1.1;
    const int64_t starts = search->options->start_count ? 1 : MORE_STARTS;
    const unsigned all = (1u << search->options->mesh_axis_count) - 1;
    HLO_VECTOR(Plan) candidates = {0};
    HLO_VECTOR(int32_t) classes = {0};  // that the last candidates shard
    hlo_vector_push(search->arena, &candidates, *best);
    hlo_vector_push(search->arena, &candidates, ((Plan){.choice = keep_whole(search)}));
    for (unsigned mask = 1; mask <= all; mask++)
        hlo_vector_push(search->arena, &candidates, ((Plan){.choice = shard_largest(search, mask)}));
    for (int64_t g = 0; g < search->groups.count; g++) {
        for (int32_t d = 0; d < search->groups.items[g].shape->rank; d++) {
            const int32_t choice = choice_with(search, &search->groups.items[g], d, all);
            if (!choice || is_minor(search, &search->groups.items[g])) continue;
            const int32_t root = search->groups.items[g].roots[d];
            bool is_listed = false;
            for (int64_t i = 0; i < classes.count; i++) is_listed |= classes.items[i] == root;
            if (is_listed && !is_small(search)) continue;
            const Plan plan = {.choice = copy_choice(search, NULL)};
            plan.choice[g] = choice;
            hlo_vector_push(search->arena, &candidates, plan);
            hlo_vector_push(search->arena, &classes, root);
        }
    }
    const int64_t parallel = candidates.count - classes.count;
    if (search->options->start_count)
        hlo_vector_push(search->arena, &candidates, ((Plan){.choice = read_start(search)}));
    // What people write by hand comes first: it is not to be lost where time is short.
    Plan both, other;
    HLO_TRY(cost_both_ways(search, batch_class(search), &both));
    if (search->options->depth == SPMD_SEARCH_BY_HAND) {
        if (better(search, &both, best)) *best = both;
        return HLO_SUCCESS;
    }
    HLO_TRY(evaluate_all(search, candidates.items + parallel, classes.count));
    HLO_TRY(cost_both_ways(search, fastest_class(candidates.items + parallel, classes.items, classes.count), &other));
    if (better(search, &other, &both)) both = other;
    HLO_TRY(evaluate_all(search, candidates.items, candidates.count));
    const Plan *all_parallel =
        hlo_arena_copy(search->arena, candidates.items + parallel, (size_t)classes.count * sizeof(Plan));
    const bool both_first = better(search, &both, best_of(search, candidates.items, candidates.count));
    if (both_first) HLO_TRY(improve_start(search, &both, best));
    if (both_first && search->options->depth == SPMD_SEARCH_ONCE) return HLO_SUCCESS;
    for (int64_t count = 0; count < starts && count < candidates.count; count++) {
        Plan *first = best_of(search, candidates.items, candidates.count);
        Plan start = *first;
        if (start.ruled_out || (count >= STARTS && !is_cheap(search, search->evaluated))) break;
        if (count && !is_cheap(search, search->evaluated) && has_room(search, best) &&
            (double)start.cost.time > kFar * (double)best->cost.time && search->options->objective == SPMD_SEARCH_TIME)
            break;
        first->ruled_out = true;
        HLO_TRY(improve_start(search, &start, best));
        if (search->options->depth == SPMD_SEARCH_ONCE) return HLO_SUCCESS;
    }
    // Once with the fastest of all, and once without those that were improved here.
    HLO_TRY(search_both_ways(search, candidates.items + parallel, classes.items, classes.count, best));
    return search_both_ways(search, all_parallel, classes.items, classes.count, best);
}

// Choices of groups as those of the groups that these were split into. `from` has the old number by new one.
static int32_t *split_choice(const Search *search, const int32_t *choice, const int32_t *from) {
    int32_t *split = copy_choice(search, NULL);
    for (int64_t g = 0; g < search->groups.count; g++) split[g] = choice[from[g]];
    return split;
}

// Makes every parameter a decision of its own. Plans that were costed stay known.
static void split_groups(Search *search, Plan *best) {
    Groups split = {0};
    HLO_VECTOR(int32_t) from = {0};
    for (int32_t g = 0; g < (int32_t)search->groups.count; g++) {
        for (int64_t i = 0; i < search->groups.items[g].leaf_count; i++) {
            Group one = search->groups.items[g];
            one.leaves += i;
            one.arrays += i;
            one.leaf_count = 1;
            one.roots = HLO_ARENA_NEW(search->arena, int32_t, one.shape->rank);
            for (int32_t d = 0; d < one.shape->rank; d++) one.roots[d] = find(search, search->first[one.arrays[0]] + d);
            hlo_vector_push(search->arena, &split, one);
            hlo_vector_push(search->arena, &from, g);
        }
    }
    const Plan *known = search->known.items;
    const int64_t known_count = search->known.count;
    search->groups = split;
    search->known.items = NULL;
    search->known.count = search->known.capacity = 0;
    search->place_of = (HloIntMap){0};
    for (int64_t i = 0; i < known_count; i++) {
        Plan plan = known[i];
        plan.choice = split_choice(search, plan.choice, from.items);
        add_known(search, plan);
    }
    best->choice = split_choice(search, best->choice, from.items);
}

static bool goes_further(const Search *search) {
    return !search->over && search->evaluated < MOST_FURTHER && is_cheap(search, search->evaluated);
}

// Changes a few decisions of the best plan and improves what comes of it, again and again. The numbers are the same in
// each search.
static HloStatus search_around(Search *search, Plan *best) {
    enum { CHANGED = 3, MOST_IDLE = 64 };
    uint64_t number = 0;
    for (int idle = 0; idle < MOST_IDLE && goes_further(search); idle++) {
        const int64_t evaluated = search->evaluated;
        Plan plan = {.choice = copy_choice(search, best->choice)};
        for (int i = 0; i < CHANGED; i++) {
            number = hlo_hash_mix(number, 1);
            const int64_t g = (int64_t)(number % (uint64_t)search->groups.count);
            plan.choice[g] = (int32_t)((number >> 32) % (uint64_t)search->groups.items[g].choice_count);
        }
        HLO_TRY(evaluate_all(search, &plan, 1));
        HLO_TRY(descend(search, &plan));
        if (better(search, &plan, best)) *best = plan;
        if (search->evaluated > evaluated) idle = 0;
    }
    return HLO_SUCCESS;
}

// Small programs, whose plans are cheap to try: each parameter by itself, and plans that are not near.
static HloStatus search_further(Search *search, Plan *best) {
    if (!search->groups.count || search->options->depth != SPMD_SEARCH_WHOLE || !goes_further(search))
        return HLO_SUCCESS;
    split_groups(search, best);
    HLO_TRY(descend(search, best));
    return search_around(search, best);
}

// Takes the program apart into decisions.
static HloStatus begin(HloArena *arena, const HloModule *module, const SpmdSearchOptions *options, Search *search) {
    const SpmdOptions none = {.mesh = options->mesh, .mesh_axis_count = options->mesh_axis_count};
    *search = (Search){.arena = arena, .options = options};
    const SpmdMesh *mesh;
    SpmdPlan *plan;
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "the module has no entry computation");
    HLO_TRY(spmd_mesh_infer(arena, module, &none, &mesh));
    HLO_TRY(spmd_plan_build(arena, module, mesh, &none, &plan));
    search->plan = plan;
    search->instructions = hlo_module_instruction_count(module);
    find_classes(search);
    find_groups(search);
    return HLO_SUCCESS;
}

// The results whose dimensions are of the group's classes.
static void find_results(Search *search, const Group *group, SpmdSearchGroup *result) {
    const SpmdPlan *plan = search->plan;
    int32_t *results = HLO_ARENA_NEW(search->arena, int32_t, plan->result_count + 1);
    for (int64_t r = 0; r < plan->result_count; r++) {
        const HloShape *shape = plan->arrays.items[plan->results[r]].shape;
        bool same = hlo_shape_is_array(shape) && hlo_shape_equal(group->shape, shape, HLO_COMPARE_DIMS_ONLY);
        for (int32_t d = 0; same && d < shape->rank; d++)
            same = find(search, search->first[plan->results[r]] + d) == find(search, group->roots[d]);
        if (same) results[result->result_count++] = (int32_t)r;
    }
    result->results = results;
}

HloStatus spmd_search_groups(HloArena *arena, const HloModule *module, const SpmdMeshAxis *mesh,
                             int64_t mesh_axis_count, const SpmdSearchGroup **groups, int64_t *count) {
    assert(arena && module && mesh_axis_count > 0 && groups && count);
    const SpmdSearchOptions options = {.mesh = mesh, .mesh_axis_count = mesh_axis_count};
    Search search;
    HLO_TRY(begin(arena, module, &options, &search));
    SpmdSearchGroup *made = HLO_ARENA_NEW(arena, SpmdSearchGroup, search.groups.count + 1);
    for (int64_t i = 0; i < search.groups.count; i++) {
        const Group *group = &search.groups.items[i];
        made[i] =
            (SpmdSearchGroup){.parameters = group->leaves, .parameter_count = group->leaf_count, .shape = group->shape};
        find_results(&search, group, &made[i]);
    }
    *groups = made;
    *count = search.groups.count;
    return HLO_SUCCESS;
}

// Lists the best plans that were costed. `best` is the first of them.
static void list_best(Search *search, HloArena *arena, const Plan *best, SpmdSearchResult *result) {
    SpmdSearchTrial *list = HLO_ARENA_NEW(arena, SpmdSearchTrial, SPMD_SEARCH_BEST);
    list[result->best_count++] =
        (SpmdSearchTrial){.shards = result->shards, .shard_count = result->shard_count, .cost = best->cost};
    const Plan *known = find_known(search, best->choice);
    if (known) search->known.items[known - search->known.items].ruled_out = true;
    while (result->best_count < SPMD_SEARCH_BEST) {
        Plan *next = NULL;
        for (int64_t i = 0; i < search->known.count; i++)
            if (!search->known.items[i].ruled_out && (!next || better(search, &search->known.items[i], next)))
                next = &search->known.items[i];
        if (!next) break;
        next->ruled_out = true;
        const HloStringVector shards = shards_of(search, arena, next->choice);
        list[result->best_count++] =
            (SpmdSearchTrial){.shards = shards.items, .shard_count = shards.count, .cost = next->cost};
    }
    result->best = list;
}

// Searches, with the result in `arena`.
static HloStatus run_search(Search *search, HloArena *arena, SpmdSearchResult *result) {
    for (int64_t i = 0; i < search->groups.count; i++) list_choices(search, &search->groups.items[i]);
    Plan best = {.choice = copy_choice(search, NULL)};
    HLO_TRY(evaluate_all(search, &best, 1));
    int64_t space = 1;
    for (int64_t g = 0; g < search->groups.count && (space <= EXACT_PLANS || is_cheap(search, space)); g++)
        space *= search->groups.items[g].choice_count;
    const bool exact =
        search->options->depth != SPMD_SEARCH_BY_HAND && (space <= EXACT_PLANS || is_cheap(search, space));
    const int64_t group_count = search->groups.count;
    HLO_TRY(exact ? search_all(search, &best) : search_from_starts(search, &best));
    HLO_TRY(search_further(search, &best));
    const HloStringVector shards = shards_of(search, arena, best.choice);
    *result = (SpmdSearchResult){.shards = shards.items,
                                 .shard_count = shards.count,
                                 .cost = best.cost,
                                 .evaluated = search->evaluated,
                                 .group_count = group_count,
                                 .is_exact = exact && !search->over};
    list_best(search, arena, &best, result);
    return HLO_SUCCESS;
}

// The plan of the program, the decisions and all that was tried go when the search ends: a planner searches dozens of
// times.
HloStatus spmd_search(HloArena *arena, const HloModule *module, const SpmdSearchOptions *options,
                      SpmdSearchResult *result) {
    assert(arena && module && options && options->cost && result && options->mesh_axis_count > 0);
    Search search;
    HLO_FAIL_IF(options->mesh_axis_count > 8, HLO_INVALID_ARGUMENT, "a mesh of more than 8 axes is not searched");
    HloArena *scratch = hlo_arena_scratch_new();
    HloStatus status = begin(scratch, module, options, &search);
    if (!status) status = run_search(&search, arena, result);
    hlo_arena_free(scratch);
    return status;
}
