// SPDX-License-Identifier: Apache-2.0
// Random programs with random shardings, as text.
#ifndef MESHLO_TESTS_SPMD_GENERATE_H_
#define MESHLO_TESTS_SPMD_GENERATE_H_

#include <criterion/parameterized.h>

#include "tests/spmd/check.h"

// A program that follows from the seed. `family` picks one op family (its name in generate.c), NULL mixes all. Free
// with hlo_free().
char *generate_program(uint64_t seed, const char *family);
// The families, each a case of type FamilyName.
typedef struct FamilyName {
    char text[32];
} FamilyName;
struct criterion_test_params generate_families(void);
// How many programs a run tries in all: MESHLO_SPMD_TRIALS, or 2,400.
int64_t generate_trials(void);
// The seed of the first program of a run: MESHLO_RANDOM_SEED, or 0.
int64_t generate_first_seed(void);

#endif
