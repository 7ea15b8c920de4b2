// SPDX-License-Identifier: Apache-2.0
// Concatenations along a sharded dimension, and slices of them, that are made directly of what they take parts of.
#ifndef MESHLO_SPMD_PARTITIONER_PARTS_ASSEMBLE_H_
#define MESHLO_SPMD_PARTITIONER_PARTS_ASSEMBLE_H_

#include "spmd_partitioner/partitioner.h"

// Makes the result of the current op, a concatenation or a slice, of the arrays that its operands are parts of, and
// defines it. False, with nothing emitted, where this is not possible or costs more than the op with `factors`, the
// axes of its rule's factors (spmd_choose()).
bool spmd_assemble(SpmdPartitioner *partitioner, const SpmdAxes *factors);

#endif
