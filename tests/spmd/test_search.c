// SPDX-License-Identifier: Apache-2.0
// The search for shardings with made-up costs, so that the best plan is known.
#include <criterion/criterion.h>
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

static HloStatus cost(void *context, const char *const *shards, int64_t count, SpmdSearchCost *result) {
    Wanted *wanted = context;
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

// w0 and its moment m0 are added, so that they are sharded alike; w1 takes part in the same as w0 but for that.
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

Test(search, a_small_space_is_searched_whole) {
    Wanted wanted = {.shards = {"p0=data+model"}};
    const SpmdSearchOptions options = options_for(&wanted);
    HloArena *arena = hlo_arena_new();
    HloModule *module = parse("ENTRY e {\n x = f32[16] parameter(0)\n ROOT y = f32[16] negate(x)\n}\n");
    SpmdSearchResult result;
    must_succeed(spmd_search(arena, module, &options, &result));
    cr_assert(result.is_exact);
    cr_assert_eq(result.evaluated, 4);  // neither, either, both
    cr_assert_str_eq(result.shards[0], "p0=data+model");
    hlo_module_free(module);
    hlo_arena_free(arena);
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
    cr_assert_eq(result.evaluated, 5);
    cr_assert_not(result.is_exact);
    cr_assert_str_eq(result.shards[0], "w0=model,-");
    for (int64_t i = 1; i < result.shard_count; i++) cr_assert_str_eq(result.shards[i], "p0=data,?");
    hlo_module_free(module);
    hlo_arena_free(arena);
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
