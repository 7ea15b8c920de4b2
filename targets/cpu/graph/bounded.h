// SPDX-License-Identifier: Apache-2.0
// Arrays of bounded dynamic size at the boundary between a program and its callers: inside, everything is static
// (hlo/pass/pad/padder.h). The buffer has room for the bounds. It begins with the existing elements, row by row without
// gaps; the sizes of all dimensions follow after the bounds (rounded up to four bytes) as s32. XLA's CPU target uses
// the same format.
#ifndef MESHLO_TARGETS_CPU_GRAPH_BOUNDED_H_
#define MESHLO_TARGETS_CPU_GRAPH_BOUNDED_H_

#include "hlo/ir/shape.h"

HLO_BEGIN_C

// Returns the bytes of a buffer for an array or token: hlo_shape_bytes(), plus the sizes if the array is of dynamic
// size.
int64_t cpu_buffer_bytes(const HloShape *shape);
// Returns the `rank` sizes in a buffer of dynamic size.
int32_t *cpu_buffer_sizes(const HloShape *shape, void *buffer);

HLO_END_C

#endif
