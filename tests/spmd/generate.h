// SPDX-License-Identifier: Apache-2.0
// Random programs with random shardings, as text.
#ifndef MESHLO_TESTS_SPMD_GENERATE_H_
#define MESHLO_TESTS_SPMD_GENERATE_H_

#include "tests/spmd/check.h"

// A program that follows from the seed. `family` picks one op family (its name in generate.c), NULL mixes all. Free
// with hlo_free().
char *generate_program(uint64_t seed, const char *family);
// Names of the families, NULL-terminated.
extern const char *const generate_families[];

#endif
