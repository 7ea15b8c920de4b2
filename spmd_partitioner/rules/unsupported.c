// SPDX-License-Identifier: Apache-2.0
// Ops that cannot be partitioned: programs with them are refused by name.
#include "spmd_partitioner/rule.h"

const SpmdOp spmd_op_unsupported = {.name = "unsupported"};
