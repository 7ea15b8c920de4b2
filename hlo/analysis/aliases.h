// SPDX-License-Identifier: Apache-2.0
// Arguments that a program takes over for its results.
//
// Stability: experimental.
#ifndef MESHLO_HLO_ANALYSIS_ALIASES_H_
#define MESHLO_HLO_ANALYSIS_ALIASES_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Sets arguments[k] to the argument whose memory `aliases` give to leaf k of the entry's result, or to -1. Arguments
// are numbered leaf by leaf. The aliases name leaves that exist (hlo_verify()). Memory errors jump to hlo_protect().
HLO_EXPORT void hlo_alias_arguments(HloArena *scratch, const HloModule *module, const HloAliases *aliases,
                                    int64_t *arguments);

HLO_END_C

#endif
