// SPDX-License-Identifier: Apache-2.0
// Bitcasts in other words, for the passes that rid a module of them.
#ifndef MESHLO_HLO_PASS_BITCAST_H_
#define MESHLO_HLO_PASS_BITCAST_H_

#include "hlo/pass/support.h"

// Whether hlo_pass_spell_out_bitcast() would do it: both layouts hold the same sequence of elements of equal width, no
// size is dynamic, and the instruction may be replaced.
bool hlo_pass_can_spell_out_bitcast(const HloInstruction *bitcast);
// Replaces a bitcast of an array by transpose, bitcast-convert (where the type changes), reshape, transpose. False, and
// nothing changed, where that is not the same.
bool hlo_pass_spell_out_bitcast(HloInstruction *bitcast);

#endif
