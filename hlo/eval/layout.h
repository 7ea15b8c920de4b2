// SPDX-License-Identifier: Apache-2.0
// The effect of a bitcast on the elements of an array: layouts determine the order of elements in memory, and a bitcast
// reads the memory of one layout in the order of another. Arrays themselves are always row-major and dense here.
#ifndef MESHLO_HLO_EVAL_LAYOUT_H_
#define MESHLO_HLO_EVAL_LAYOUT_H_

#include "hlo/ir/shape.h"

HLO_BEGIN_C

// True if the memory of both layouts is the same sequence of elements, whether there are tiles or not: then the bitcast
// is a transpose to the physical order of `from`, a reshape and a transpose back from the physical order of `to`.
bool hlo_layouts_same_sequence(const HloShape *from, const HloShape *to);

// True if the bitcast is a reshape: the same sequence, row-major in both.
bool hlo_bitcast_is_reshape(const HloShape *from, const HloShape *to);

// Moves the elements of a bitcast from row-major `source` to row-major `target`, including the padding of tiles:
// positions without an element of `from` are zero. Temporary memory comes from `scratch`. UNIMPLEMENTED without a name
// (the caller knows the instruction) for layouts with more dimensions or tiles than are supported, and for elements of
// different size.
HLO_NODISCARD HloStatus hlo_bitcast_elements(HloArena *scratch, const HloShape *from, const HloShape *to,
                                             const void *source, void *target);

HLO_END_C

#endif
