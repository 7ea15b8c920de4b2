// SPDX-License-Identifier: Apache-2.0
// The oracle of these tests: a partitioned program gives what the whole program gives.
#ifndef MESHLO_TESTS_SPMD_CHECK_H_
#define MESHLO_TESTS_SPMD_CHECK_H_

#include "tests/support/partitioned.h"

// Parses HLO text; fails the test when it does not parse.
HloModule *parse_text(const char *text);

// Partitions `text`, runs both forms in the evaluator on the same pseudo-random inputs, and compares. Returns NULL when
// they agree, else what went wrong (free with hlo_free()).
char *compare_partitioned(const char *text, const SpmdOptions *options, uint64_t seed);

// As above, but fails the current test, showing the program.
void check_partitioned(const char *text, const SpmdOptions *options, uint64_t seed);

// The collectives of the partitioned form as "2 all-reduce 1 all-gather", in the order of their first appearance; "" if
// there are none. Free with hlo_free().
char *collectives_of(const char *text, const SpmdOptions *options);
// Fails the current test unless the partitioned form has exactly these collectives and computes the same.
void expect_collectives(const char *text, const SpmdOptions *options, const char *want);

// A program for a table of tests, and the bytes that one of its devices sends.
typedef struct SentBytes {
    const char *name, *text;
    int64_t bytes;
} SentBytes;

// Fails the current test unless the partitioned form sends so many bytes and computes the same.
void expect_bytes(const SentBytes *program);

#endif
