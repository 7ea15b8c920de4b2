// SPDX-License-Identifier: Apache-2.0
// Arrays of bounded dynamic size where a program meets its callers: inside, everything is static
// (hlo/pass/pad/padder.h). Such a buffer has room for the bounds; it begins with the elements that are there, row by
// row without gaps, and behind the bounds (rounded up to four bytes) stand the sizes of all dimensions, s32. XLA's CPU
// target keeps them so.
#ifndef MESHLO_TARGETS_CPU_GRAPH_BOUNDED_H_
#define MESHLO_TARGETS_CPU_GRAPH_BOUNDED_H_

#include "hlo/ir/shape.h"

HLO_BEGIN_C

// Bytes of a buffer for an array or token: hlo_shape_bytes(), and the sizes for one of dynamic size.
int64_t cpu_buffer_bytes(const HloShape *shape);
// The sizes in a buffer of dynamic size, `rank` of them.
int32_t *cpu_buffer_sizes(const HloShape *shape, void *buffer);

HLO_END_C

#endif
