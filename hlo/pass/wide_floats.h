// SPDX-License-Identifier: Apache-2.0
// Converts a program's floats to f64, for a reference with negligible rounding errors.
//
// Stability: experimental.
#ifndef MESHLO_HLO_PASS_WIDE_FLOATS_H_
#define MESHLO_HLO_PASS_WIDE_FLOATS_H_

#include "hlo/ir/literal.h"
#include "hlo/ir/module.h"

HLO_BEGIN_C

// Makes a copy of the module in which f32, bf16 and f16 are f64 and c64 is c128, in every shape, constant and LAPACK
// call. Integers stay, and so do the 8-bit and 4-bit floats, which programs use as storage formats. Integer bits that
// are reinterpreted as a float are read as the narrow float and converted. Returns UNIMPLEMENTED, naming the
// instruction, for other dependencies on the narrow type: the bits of a float, random floats, messages to other
// programs, unknown custom calls. Free *wide with hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_wide_floats(const HloModule *module, HloModule **wide);

// The element type that replaces `type` in that copy: `type` itself unless it is one of those.
HLO_EXPORT HloType hlo_wide_float_type(HloType type);

// Returns the literal with the types of that copy, in the arena.
HLO_EXPORT HloLiteral *hlo_wide_floats_literal(HloArena *arena, const HloLiteral *literal);

HLO_END_C

#endif
