// SPDX-License-Identifier: Apache-2.0
// Partitioned == whole, over random programs, meshes, shardings and uneven sizes. MESHLO_SPMD_TRIALS=100000 runs as
// many; MESHLO_SPMD_SEED=n shows one of the mixed programs alone.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/spmd/generate.h"

static int64_t trials(void) {
    const char *text = getenv("MESHLO_SPMD_TRIALS");
    return text ? strtoll(text, NULL, 10) : 2400;
}

static void run_seed(uint64_t seed, const char *family) {
    char *text = generate_program(seed, family);
    char *problem = compare_partitioned(text, NULL, seed);
    if (problem)
        cr_assert_fail("seed %llu of %s: %s\nof the program\n%s", (unsigned long long)seed, family ? family : "all",
                       problem, text);
    hlo_free(text);
}

static void run_family(const char *family, int64_t count) {
    for (int64_t i = 0; i < count; i++) run_seed((uint64_t)i, family);
}

Test(random, mixed_programs) {
    const char *one = getenv("MESHLO_SPMD_SEED");
    if (one) {
        run_seed(strtoull(one, NULL, 10), NULL);
    } else {
        run_family(NULL, trials() / 2);
    }
}

ParameterizedTestParameters(random, families) {
    static char names[64][32];
    size_t count = 0;
    for (; generate_families[count]; count++)
        snprintf(names[count], sizeof(names[count]), "%s", generate_families[count]);
    return cr_make_param_array(char[32], names, count);
}

ParameterizedTest(char family[32], random, families) {
    run_family(family, trials() / 40);
}
