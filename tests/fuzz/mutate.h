// SPDX-License-Identifier: Apache-2.0
// Programs that differ a little from one that works and are still taken: which the fuzzers of what follows the verifier
// need, which bytes changed at random would hardly ever reach.
#ifndef MESHLO_TESTS_FUZZ_MUTATE_H_
#define MESHLO_TESTS_FUZZ_MUTATE_H_

#include <stddef.h>
#include <stdint.h>

#include "hlo/ir/module.h"

// libFuzzer's hook: changes words of a program (numbers, types, opcodes, names), then infers all shapes again, so that
// what a change means for later instructions does not make the verifier refuse the program.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

// The cost of running a module.
typedef struct FuzzSize {
    bool small;         // few instructions, small arrays, loops that end soon
    bool exact;         // of integers only, and the same in each run: two ways of computing it must agree bit for bit
    int64_t devices;    // replicas times partitions
    bool is_annotated;  // with shardings
} FuzzSize;

// Looks at all computations of a verified module.
FuzzSize fuzz_size(const HloModule *module);

#endif
