// SPDX-License-Identifier: Apache-2.0
// Expansion of bitcasts, for the passes that remove them from a module.
#ifndef MESHLO_HLO_PASS_BITCAST_H_
#define MESHLO_HLO_PASS_BITCAST_H_

#include "hlo/pass/support.h"

// True if hlo_pass_spell_out_bitcast() would succeed: both layouts have the same sequence of elements of equal width,
// no size is dynamic, and the instruction may be replaced.
bool hlo_pass_can_spell_out_bitcast(const HloInstruction *bitcast);
// Replaces a bitcast of an array by transpose, bitcast-convert (if the type changes), reshape, transpose. False, and
// nothing changed, if that is not equivalent.
bool hlo_pass_spell_out_bitcast(HloInstruction *bitcast);

#endif
