// SPDX-License-Identifier: Apache-2.0
// Partitioned == whole, over random programs, meshes, shardings and uneven sizes. MESHLO_SPMD_TRIALS=100000 runs as
// many; MESHLO_SPMD_SEED=n shows one of the mixed programs alone.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/spmd/generate.h"
#include "tests/support/cases.h"

static void run_seed(uint64_t seed, const char *family) {
    char *text = generate_program(seed, family);
    char *problem = compare_partitioned(text, NULL, seed);
    if (problem)
        cr_assert_fail("seed %llu of %s: %s\nof the program\n%s", (unsigned long long)seed, family ? family : "all",
                       problem, text);
    hlo_free(text);
}

static void run_family(const char *family, int64_t count) {
    const int64_t first = generate_first_seed();
    for (int64_t seed = first; seed < first + count; seed++) run_seed((uint64_t)seed, family);
}

Test(random, mixed_programs) {
    const char *one = getenv("MESHLO_SPMD_SEED");
    if (one) {
        run_seed(strtoull(one, NULL, 10), NULL);
    } else {
        run_family(NULL, generate_trials() / 2);
    }
}

CaseList(random, families) {
    return generate_families();
}

CaseTest(FamilyName *family, random, families) {
    run_family(family->text, generate_trials() / 40);
}
