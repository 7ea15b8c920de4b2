// SPDX-License-Identifier: Apache-2.0
// The search for shardings with invented costs, so that the best plan is known.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "hlo/text/text.h"
#include "spmd_partitioner/search/search.h"
#include "tests/support/compiled.h"

static const char layers[] =
    "ENTRY e {\n x = f32[16,8] parameter(0)\n w0 = f32[8,32] parameter(1)\n v0 = f32[32,8] parameter(2)\n"
    " w1 = f32[8,32] parameter(3)\n v1 = f32[32,8] parameter(4)\n m0 = f32[8,32] parameter(5)\n"
    " a = f32[16,32] dot(x, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " b = f32[16,8] dot(a, v0), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " c = f32[16,32] dot(b, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " d = f32[16,8] dot(c, v1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " n = f32[8,32] add(w0, m0)\n ROOT t = (f32[16,8], f32[8,32]) tuple(d, n)\n}\n";

typedef struct Wanted {
    const char *shards[8];  // each is worth one unit of time if it is among the plan's
    int64_t memory_of_nothing, calls, most_calls;
    bool refuses;  // rules out plans with an option that is not wanted
} Wanted;

static HloStatus cost_of(Wanted *wanted, const char *const *shards, int64_t count, SpmdSearchCost *result) {
    *result = (SpmdSearchCost){100, wanted->memory_of_nothing - count};
    wanted->calls++;
    for (int64_t i = 0; i < count; i++) {
        bool found = false;
        for (int k = 0; k < 8 && wanted->shards[k]; k++) found |= !strcmp(wanted->shards[k], shards[i]);
        result->time += found ? -10 : 1;
        if (!found && wanted->refuses) return hlo_error(HLO_UNIMPLEMENTED, "not this one");
    }
    return HLO_SUCCESS;
}

static void cost(void *context, SpmdSearchTrial *trials, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        trials[i].status = cost_of(context, trials[i].shards, trials[i].shard_count, &trials[i].cost);
}

static bool is_over(void *context) {
    const Wanted *wanted = context;
    return wanted->most_calls && wanted->calls >= wanted->most_calls;
}

static HloModule *parse(const char *text) {
    HloModule *module;
    must_succeed(hlo_parse(text, strlen(text), NULL, &module));
    return module;
}

static SpmdSearchOptions options_for(Wanted *wanted) {
    static const SpmdMeshAxis mesh[] = {{"data", 2}, {"model", 4}};
    return (SpmdSearchOptions){.mesh = mesh, .mesh_axis_count = 2, .cost = cost, .is_over = is_over, .context = wanted};
}

// w0 and its moment m0 are added, so that they are sharded alike; w1 has the same uses as w0 except for that.
Test(search, finds_the_plan_that_costs_least) {
    Wanted wanted = {.shards = {"p0=data,?", "p1=?,model", "p5=?,model", "p2=model,?", "p3=?,model", "p4=model,?"}};
    const SpmdSearchOptions options = options_for(&wanted);
    HloArena *arena = hlo_arena_new();
    HloModule *module = parse(layers);
    SpmdSearchResult result;
    must_succeed(spmd_search(arena, module, &options, &result));
    cr_assert_eq(result.cost.time, 100 - 6 * 10, "%lld", (long long)result.cost.time);
    cr_assert_eq(result.shard_count, 6);
    cr_assert_leq(result.group_count, 5);
    cr_assert_eq(result.evaluated, wanted.calls);
    hlo_module_free(module);
    hlo_arena_free(arena);
}

// Decisions are worth the same whatever the others are, so that one iteration finds the best of each.
Test(search, a_closer_look_improves_one_start_once) {
    Wanted wanted = {.shards = {"p0=data,?", "p1=?,model", "p5=?,model", "p2=model,?", "p3=?,model", "p4=model,?"}};
    HloArena *arena = hlo_arena_new();
    HloModule *module = parse(layers);
    SpmdSearchResult starts, closer, whole;
    SpmdSearchOptions options = options_for(&wanted);
    must_succeed(spmd_search(arena, module, &options, &whole));
    options.depth = SPMD_SEARCH_STARTS;
    must_succeed(spmd_search(arena, module, &options, &starts));
    options.depth = SPMD_SEARCH_ONCE;
    must_succeed(spmd_search(arena, module, &options, &closer));
    cr_expect_lt(starts.evaluated, closer.evaluated);
    cr_expect_lt(closer.evaluated, whole.evaluated);
    cr_expect_lt(closer.cost.time, starts.cost.time);
    cr_expect_eq(closer.cost.time, whole.cost.time);
    hlo_module_free(module);
    hlo_arena_free(arena);
}

// w0 and m0 are one decision. Where both had to be sharded alike, the best plan for a small program was not found.
Test(search, bug_parameters_of_one_decision_were_never_sharded_differently) {
    Wanted wanted = {.shards = {"p1=?,model", "p5=model,?"}};
    const SpmdSearchOptions options = options_for(&wanted);
    HloArena *arena = hlo_arena_new();
    HloModule *module = parse(layers);
    SpmdSearchResult result;
    must_succeed(spmd_search(arena, module, &options, &result));
    cr_assert_eq(result.cost.time, 100 - 2 * 10, "%lld", (long long)result.cost.time);
    cr_assert_eq(result.evaluated, wanted.calls);
    hlo_module_free(module);
    hlo_arena_free(arena);
}

// As cost(); propagation gives nothing to any parameter.
static void cost_resolved(void *context, SpmdSearchTrial *trials, int64_t count) {
    static const SpmdMeshAxis mesh[] = {{"data", 2}, {"model", 4}};
    cost(context, trials, count);
    for (int64_t i = 0; i < count; i++) {
        for (int p = 0; p < 3; p++) trials[i].resolved[p] = spmd_search_spec_hash(mesh, 2, "-,-");
        for (int64_t s = 0; s < trials[i].shard_count; s++)
            trials[i].resolved[trials[i].shards[s][1] - '0'] =
                spmd_search_spec_hash(mesh, 2, strchr(trials[i].shards[s], '=') + 1);
    }
}

Test(search, decisions_that_say_what_propagation_gives_are_not_tried) {
    static const char *const ops[] = {"negate", "tanh", "sine"};
    Wanted wanted = {.shards = {"p0=data,?", "p1=?,model", "p2=data+model,?"}}, resolved = wanted;
    SpmdSearchOptions options = options_for(&wanted);
    SpmdSearchResult result;
    HloText text = {0};
    hlo_text_string(&text, "ENTRY e {\n");
    for (int p = 0; p < 3; p++) hlo_text_format(&text, " x%d_0 = f32[16,8] parameter(%d)\n", p, p);
    for (int i = 1; i <= 200; i++)
        for (int p = 0; p < 3; p++) hlo_text_format(&text, " x%d_%d = f32[16,8] %s(x%d_%d)\n", p, i, ops[p], p, i - 1);
    hlo_text_string(&text, " ROOT t = (f32[16,8], f32[16,8], f32[16,8]) tuple(x0_200, x1_200, x2_200)\n}\n");
    HloArena *arena = hlo_arena_new();
    HloModule *module = parse(text.data);
    must_succeed(spmd_search(arena, module, &options, &result));
    cr_expect_eq(result.cost.time, 100 - 3 * 10, "%lld", (long long)result.cost.time);
    options.cost = cost_resolved;
    options.context = &resolved;
    must_succeed(spmd_search(arena, module, &options, &result));
    cr_expect_eq(result.cost.time, 100 - 3 * 10, "%lld", (long long)result.cost.time);
    cr_expect_lt(resolved.calls, wanted.calls, "%lld of %lld", (long long)resolved.calls, (long long)wanted.calls);
    hlo_module_free(module);
    hlo_arena_free(arena);
    hlo_text_free(&text);
}

Test(search, a_small_space_is_searched_whole) {
    Wanted wanted = {.shards = {"p0=data+model"}};
    const SpmdSearchOptions options = options_for(&wanted);
    HloArena *arena = hlo_arena_new();
    HloModule *module = parse("ENTRY e {\n x = f32[16] parameter(0)\n ROOT y = f32[16] negate(x)\n}\n");
    SpmdSearchResult result;
    must_succeed(spmd_search(arena, module, &options, &result));
    cr_assert(result.is_exact);
    cr_assert_eq(result.evaluated, 5);  // left to propagation, whole, either axis, both
    cr_assert_str_eq(result.shards[0], "p0=data+model");
    hlo_module_free(module);
    hlo_arena_free(arena);
}

// A network of blocks that hand features on: data parallelism over one axis with the weights' features over it too, and
// the inner dimensions over the other axis. From single decisions each step on the way there is slower than none, and a
// first look at a mesh improves nothing.
static void check_first_look_at_blocks(int rows, SpmdSearchDepth depth, Wanted *wanted) {
    static const char blocks[] =
        "ENTRY e {\n w0 = f32[8,32] parameter(0)\n v0 = f32[32,8] parameter(1)\n w1 = f32[8,64] parameter(2)\n"
        " v1 = f32[64,8] parameter(3)\n x = f32[#,8] parameter(4)\n"
        " a = f32[#,32] dot(x, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " b = f32[#,8] dot(a, v0), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " y = f32[#,8] add(x, b)\n"
        " c = f32[#,64] dot(y, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " d = f32[#,8] dot(c, v1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT z = f32[#,8] add(y, d)\n}\n";
    SpmdSearchOptions options = options_for(wanted);
    options.depth = depth;
    HloArena *arena = hlo_arena_new();
    HloText text = {0};
    for (const char *at = blocks; *at; at++) {
        if (*at == '#')
            hlo_text_format(&text, "%d", rows);
        else
            hlo_text_char(&text, *at);
    }
    HloModule *module = parse(hlo_text_to_arena(arena, &text));
    SpmdSearchResult result;
    must_succeed(spmd_search(arena, module, &options, &result));
    cr_assert_not(result.is_exact);
    cr_assert_eq(result.cost.time, 100 - 5 * 10, "%lld", (long long)result.cost.time);
    hlo_module_free(module);
    hlo_arena_free(arena);
}

Test(search, bug_fsdp_beside_tensor_parallelism_was_no_start) {
    check_first_look_at_blocks(16, SPMD_SEARCH_STARTS,
                               &(Wanted){.shards = {"p4=data+model,?", "p4=data,?", "p0=data,model", "p1=model,data",
                                                    "p2=data,model", "p3=model,data"}});
}

// One decision alone says little about what it is: a plan that shards inner features over all axes may be faster than
// data parallelism.
Test(search, bug_the_fastest_decision_was_taken_for_the_batch) {
    check_first_look_at_blocks(16, SPMD_SEARCH_STARTS,
                               &(Wanted){.shards = {"p0=?,data+model", "p4=data,?", "p0=data,model", "p1=model,data",
                                                    "p2=data,model", "p3=model,data"}});
}

// A batch of 2 rows cannot be sharded over 8 devices, but over the axis of 2.
Test(search, bug_a_batch_that_not_all_devices_can_share_was_none) {
    check_first_look_at_blocks(
        2, SPMD_SEARCH_STARTS,
        &(Wanted){.shards = {"p4=data,?", "p0=data,model", "p1=model,data", "p2=data,model", "p3=model,data"}});
}

// Nothing, and one start for each axis that may be the tensor's.
Test(search, what_people_write_by_hand_can_be_costed_alone) {
    Wanted wanted = {.shards = {"p4=data,?", "p0=data,model", "p1=model,data", "p2=data,model", "p3=model,data"}};
    check_first_look_at_blocks(16, SPMD_SEARCH_BY_HAND, &wanted);
    cr_expect_eq(wanted.calls, 3, "%lld calls", (long long)wanted.calls);
}

Test(search, memory_comes_before_time) {
    Wanted wanted = {.memory_of_nothing = 10};
    SpmdSearchOptions options = options_for(&wanted);
    HloArena *arena = hlo_arena_new();
    HloModule *module = parse(layers);
    SpmdSearchResult result;
    options.memory_limit = 6;  // four parameters must be in parts, each of which costs time
    must_succeed(spmd_search(arena, module, &options, &result));
    cr_assert_leq(result.cost.memory, 6);
    cr_assert_eq(result.cost.time, 104, "%lld", (long long)result.cost.time);
    hlo_module_free(module);
    hlo_arena_free(arena);
}

Test(search, keeps_what_it_is_told_and_ends_when_it_is_over) {
    static const char *const kept[] = {"w0=model,-"};
    Wanted wanted = {.shards = {"p0=data,?", "w0=model,-"}, .most_calls = 5, .refuses = true};
    SpmdSearchOptions options = options_for(&wanted);
    HloArena *arena = hlo_arena_new();
    HloModule *module = parse(layers);
    SpmdSearchResult result;
    options.kept = kept;
    options.kept_count = 1;
    must_succeed(spmd_search(arena, module, &options, &result));
    cr_assert_leq(result.evaluated, 5 + 8);  // it is asked before each few
    cr_assert_not(result.is_exact);
    cr_assert_str_eq(result.shards[0], "w0=model,-");
    for (int64_t i = 1; i < result.shard_count; i++) cr_assert_str_eq(result.shards[i], "p0=data,?");
    hlo_module_free(module);
    hlo_arena_free(arena);
}

// ---- the optimum of small programs

enum { RANDOM_PROGRAMS = 60 };

// Costs as a machine has them: a product is divided by the axes that its dimensions have, summing over a sharded one
// costs an all-reduce, and dimensions of one class that are sharded differently are gathered.
typedef struct Toy {
    int32_t weights;
    int64_t rows, sizes[8];
} Toy;

static void axes_of(const char *const *shards, int64_t count, int32_t parameter, int dims[2][2]) {
    char target[16];
    snprintf(target, sizeof(target), "p%d=", parameter);
    memset(dims, 0, 4 * sizeof(int));
    for (int64_t i = 0; i < count; i++) {
        if (strncmp(shards[i], target, strlen(target)) != 0) continue;
        int d = 0;
        for (const char *at = shards[i] + strlen(target); *at; at++) {
            d += *at == ',';
            if (!strncmp(at, "data", 4)) dims[d][0] = 1;
            if (!strncmp(at, "model", 5)) dims[d][1] = 1;
        }
    }
}

static int64_t toy_cost(const Toy *toy, const char *const *shards, int64_t count) {
    static const int64_t sizes[2] = {2, 4};
    int x[2][2];
    int64_t cost = 1000, rows = toy->rows;
    axes_of(shards, count, 0, x);
    for (int32_t w = 0; w < toy->weights; w++) {
        int dims[2][2];
        int64_t work = rows * toy->sizes[w] * toy->sizes[w + 1], sum = 1;
        axes_of(shards, count, w + 1, dims);
        for (int a = 0; a < 2; a++) {
            if (x[0][a]) work /= sizes[a];
            if (x[0][a] && (dims[0][a] || dims[1][a])) cost += toy->sizes[w] * toy->sizes[w + 1] / 8;
            if (x[0][a]) continue;
            if (dims[1][a]) work /= sizes[a];
            if (dims[0][a]) work /= sizes[a];
            if (dims[0][a]) sum *= sizes[a];
            const bool met = x[1][a] == dims[0][a];  // the layer before gives what this one takes
            if (!met) cost += rows * toy->sizes[w] / 4;
        }
        if (sum > 1) cost += rows * toy->sizes[w + 1] / 2;
        cost += work / 64;
        for (int a = 0; a < 2; a++) x[1][a] = !x[0][a] && dims[1][a];
    }
    return cost;
}

static void cost_toy(void *context, SpmdSearchTrial *trials, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        trials[i].cost.time = toy_cost(context, trials[i].shards, trials[i].shard_count);
}

static void write_toy(HloText *text, const Toy *toy) {
    hlo_text_format(text, "ENTRY e {\n x = f32[%lld,%lld] parameter(0)\n", (long long)toy->rows,
                    (long long)toy->sizes[0]);
    for (int32_t w = 0; w < toy->weights; w++)
        hlo_text_format(text, " w%d = f32[%lld,%lld] parameter(%d)\n", w, (long long)toy->sizes[w],
                        (long long)toy->sizes[w + 1], w + 1);
    for (int32_t w = 0; w < toy->weights; w++)
        hlo_text_format(
            text, " %sy%d = f32[%lld,%lld] dot(%s%.0d, w%d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
            w + 1 == toy->weights ? "ROOT " : "", w + 1, (long long)toy->rows, (long long)toy->sizes[w + 1],
            w ? "y" : "x", w, w);
    hlo_text_string(text, "}\n");
}

// The least cost of all plans: every array's axes go to one of its dimensions or to none.
static int64_t least_cost(const Toy *toy) {
    static const char *const words[] = {"?", "data", "model", "data+model"};
    int64_t least = INT64_MAX, plans = 1;
    for (int32_t p = 0; p <= toy->weights; p++) plans *= 9;
    cr_assert_leq(plans, 9 * 9 * 9 * 9);
    for (int64_t plan = 0; plan < plans; plan++) {
        char texts[8][64];
        const char *shards[8];
        int64_t rest = plan;
        for (int32_t p = 0; p <= toy->weights; p++, rest /= 9) {
            const int64_t data = rest % 3, model = rest / 3 % 3;  // 0: none, 1: dimension 0, 2: dimension 1
            const int first = (data == 1) + 2 * (model == 1), second = (data == 2) + 2 * (model == 2);
            snprintf(texts[p], sizeof(texts[p]), "p%d=%s,%s", p, words[first], words[second]);
            shards[p] = texts[p];
        }
        const int64_t cost = toy_cost(toy, shards, toy->weights + 1);
        if (cost < least) least = cost;
    }
    return least;
}

Test(search, finds_the_optimum_of_small_programs) {
    static const SpmdMeshAxis mesh[] = {{"data", 2}, {"model", 4}};
    uint64_t seed = 1;
    int found = 0;
    for (int i = 0; i < RANDOM_PROGRAMS; i++) {
        Toy toy = {.weights = 2 + i % 2};
        HloText text = {0};
        SpmdSearchResult result;
        seed = hlo_hash_mix(seed, (uint64_t)i);
        toy.rows = 8 << seed % 8;
        for (int w = 0; w <= toy.weights; w++) toy.sizes[w] = 8 << (seed >> (8 + 4 * w)) % 8;
        write_toy(&text, &toy);
        HloModule *module = parse(text.data);
        HloArena *arena = hlo_arena_new();
        const SpmdSearchOptions options = {.mesh = mesh, .mesh_axis_count = 2, .cost = cost_toy, .context = &toy};
        must_succeed(spmd_search(arena, module, &options, &result));
        found += result.cost.time == least_cost(&toy);
        hlo_arena_free(arena);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
    cr_assert_geq(100 * found, 95 * RANDOM_PROGRAMS, "%d of %d", found, RANDOM_PROGRAMS);
}

Test(search, the_plan_without_decisions_must_be_possible) {
    static const char *const kept[] = {"p0=elsewhere"};
    Wanted wanted = {.refuses = true};
    SpmdSearchOptions options = options_for(&wanted);
    HloArena *arena = hlo_arena_new();
    HloModule *module = parse(layers);
    SpmdSearchResult result;
    options.kept = kept;
    options.kept_count = 1;
    must_fail(spmd_search(arena, module, &options, &result), HLO_UNIMPLEMENTED, "not this one");
    hlo_module_free(module);
    hlo_arena_free(arena);
}
