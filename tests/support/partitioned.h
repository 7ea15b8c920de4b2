// SPDX-License-Identifier: Apache-2.0
// Runs programs whole and partitioned in the evaluator and compares. Without Criterion: fuzzers use it too.
#ifndef MESHLO_TESTS_SUPPORT_PARTITIONED_H_
#define MESHLO_TESTS_SUPPORT_PARTITIONED_H_

#include "spmd_partitioner/spmd.h"

// Partitions a module whose parameters are at most 64 arrays, for at most 4,096 devices, runs both forms in the
// evaluator on the same pseudo-random inputs, and compares. Returns NULL when they agree, else what went wrong (free
// with hlo_free()); *refused, unless NULL, tells whether the partitioner or the evaluator refused the whole program.
char *partitioned_difference(const HloModule *module, const SpmdOptions *options, uint64_t seed, bool *refused);

#endif
