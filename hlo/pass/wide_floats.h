// SPDX-License-Identifier: Apache-2.0
// A program's floats in f64, for a reference that has no rounding errors to speak of.
#ifndef MESHLO_HLO_PASS_WIDE_FLOATS_H_
#define MESHLO_HLO_PASS_WIDE_FLOATS_H_

#include "hlo/ir/literal.h"
#include "hlo/ir/module.h"

HLO_BEGIN_C

// A copy of the module in which f32, bf16 and f16 are f64 and c64 is c128, in every shape, constant and LAPACK call.
// Integers stay, and so do the 8-bit and 4-bit floats, which programs use as storage formats. Integer bits read as a
// float are read as the narrow float and converted. UNIMPLEMENTED, naming the instruction, for what depends on the
// narrow type in another way: the bits of a float, random floats, messages to other programs, custom calls that are
// not known. *wide is freed with hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_wide_floats(const HloModule *module, HloModule **wide);

// The element type that takes the place of `type` in that copy: itself unless it is one of those.
HLO_EXPORT HloType hlo_wide_float_type(HloType type);

// The literal with the types of that copy, in the arena.
HLO_EXPORT HloLiteral *hlo_wide_floats_literal(HloArena *arena, const HloLiteral *literal);

HLO_END_C

#endif
