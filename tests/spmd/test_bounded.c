// SPDX-License-Identifier: Apache-2.0
// Arrays of bounded dynamic size on several devices: each op has the result that it has on one, however its arguments
// and results are cut.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/spmd/check.h"
#include "tests/support/bounded.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

// A sharding of an array as --shard takes it: both axes, each in a random dimension or in none.
static void pick(HloText *spec, Random *random, char kind, int64_t number, const HloShape *shape) {
    const uint64_t x = random_under(random, (uint64_t)shape->rank + 1),
                   y = random_under(random, (uint64_t)shape->rank + 1);
    hlo_text_format(spec, "%c%lld=", kind, (long long)number);
    for (int32_t d = 0; d < shape->rank; d++) {
        const bool with_x = x == (uint64_t)d, with_y = y == (uint64_t)d;
        hlo_text_format(spec, "%s%s", d ? "," : "", with_x && with_y ? "x+y" : with_x ? "x" : with_y ? "y" : "?");
    }
}

CaseList(bounded, partitioned_equals_whole) {
    return cases_numbered(bounded_count());
}

CaseTest(const int *number, bounded, partitioned_equals_whole) {
    static const SpmdMeshAxis mesh[] = {{"x", 2}, {"y", 3}};
    const BoundedCase *bounded = bounded_case((size_t)*number);
    const int64_t trials = cases_setting("MESHLO_BOUNDED_TRIALS", 12);
    HloModule *module = bounded_program(bounded);
    char *text = bounded_text(bounded);
    Random random = {(uint64_t)*number * 7919 + 1};
    int64_t run = 0;
    for (int64_t trial = 0; trial < trials; trial++) {
        HloText specs[8] = {{0}};
        const char *shards[8];
        SpmdOptions options = {.mesh = mesh, .mesh_axis_count = 2, .shards = shards};
        for (int64_t p = 0; p < 3; p++)
            if (random_under(&random, 3))
                pick(&specs[options.shard_count++], &random, 'p', p, module->entry->parameters.items[p]->shape);
        const HloShape *result = module->entry->root->shape;
        for (int64_t r = 0; r < hlo_shape_leaf_count(result) && options.shard_count < 8; r++)
            if (random_under(&random, 4) == 0)
                pick(&specs[options.shard_count++], &random, 'r', r, hlo_shape_leaf(result, r));
        for (int64_t i = 0; i < options.shard_count; i++) shards[i] = specs[i].data;
        bool refused;
        char *problem = partitioned_difference(module, &options, (uint64_t)trial, &refused);
        run += !refused;
        if (problem && !refused) {
            HloText all = {0};
            for (int64_t i = 0; i < options.shard_count; i++) hlo_text_format(&all, " --shard %s", shards[i]);
            cr_assert_fail("%s, seed %lld, with%s: %s\nof the program\n%s", bounded->name, (long long)trial,
                           all.data ? all.data : " nothing", problem, text);
        }
        hlo_free(problem);
        for (int64_t i = 0; i < options.shard_count; i++) hlo_text_free(&specs[i]);
    }
    cr_expect_gt(run, 0, "%s was refused each time", bounded->name);
    hlo_free(text);
    hlo_module_free(module);
}
