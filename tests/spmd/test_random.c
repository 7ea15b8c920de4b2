// SPDX-License-Identifier: Apache-2.0
// Partitioned == whole, over random programs, meshes, shardings and uneven sizes. MESHLO_SPMD_TRIALS=100000 runs as
// many; MESHLO_SPMD_SEED=n shows one of the mixed programs alone.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "hlo/hlo.h"
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

static void expect_printed_as_read(const char *text) {
    HloModule *module = parse_text(text), *partitioned = NULL;
    HloStatus status = spmd_partition(module, NULL, &partitioned, NULL);
    if (!status) {
        HloText first = {0}, second = {0};
        cr_assert_null(hlo_print(partitioned, NULL, &first));
        HloModule *again = parse_text(first.data);
        cr_assert_null(hlo_print(again, NULL, &second));
        cr_expect_str_eq(second.data, first.data, "of the program\n%s", text);
        hlo_module_free(again);
        hlo_text_free(&first);
        hlo_text_free(&second);
    }
    hlo_status_free(status);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

// bug: an array that is a sum over all devices was annotated in a form that is read as another one.
Test(random, bug_partitioned_programs_were_printed_otherwise_when_read_again) {
    expect_printed_as_read(
        "HloModule m, num_partitions=2\nENTRY e {\n p = f32[8,256] parameter(0), sharding={unreduced}\n"
        " ROOT n = f32[8,256] negate(p), sharding={unreduced}\n}\n");
    for (uint64_t seed = 1; seed <= 300; seed++) {
        char *text = generate_program(seed, NULL);
        expect_printed_as_read(text);
        hlo_free(text);
    }
}
