// SPDX-License-Identifier: Apache-2.0
// Random bits.
#include "spmd_partitioner/emit.h"

static void rng_bit_generator_rule(SpmdRule *rule, const HloInstruction *op) {
    (void)rule;
    (void)op;
}
const SpmdOp spmd_op_rng_bit_generator = {.name = "rng-bit-generator", .rule = rng_bit_generator_rule};
