// SPDX-License-Identifier: Apache-2.0
// Ops that the engine has no form of its own for, spelled out in others before anything else looks at the program.
#ifndef MESHLO_TARGETS_CPU_GRAPH_EXPAND_H_
#define MESHLO_TARGETS_CPU_GRAPH_EXPAND_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Runs the passes that spell out ops of this module (batch normalisation, scans, bitcasts, scaled dots, products with
// conversions inside), and takes out of its loops what takes long and does not change; a module without such ops and
// loops stays as it is, at the cost of one look at each instruction. The module must be verified. Errors are
// those of the passes; the module must then only be freed. One thread; callers are inside of hlo_protect().
HLO_NODISCARD HloStatus cpu_expand(HloModule *module);

HLO_END_C

#endif
