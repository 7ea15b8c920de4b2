// SPDX-License-Identifier: Apache-2.0
// Sharding rules that users write (the frontend attribute HLO_SDY_SHARDING_RULE), as factors.
#ifndef MESHLO_SPMD_PARTITIONER_SHARDING_RULE_H_
#define MESHLO_SPMD_PARTITIONER_SHARDING_RULE_H_

#include "spmd_partitioner/rule.h"

// Gives a rule without factors those of "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4} reduction={j}>". False,
// with some of them, when the text is not of that form, or is of other operands and results than the rule.
bool spmd_sharding_rule_read(SpmdRule *rule, const char *text);

#endif
