// SPDX-License-Identifier: Apache-2.0
// Expansion of ops that have no form of their own in the engine, before anything else reads the program.
#ifndef MESHLO_TARGETS_CPU_GRAPH_EXPAND_H_
#define MESHLO_TARGETS_CPU_GRAPH_EXPAND_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Runs the passes that write out ops of this module (batch normalisation, scans, bitcasts, scaled dots, products with
// conversions inside), and hoists costly loop-invariant work. A module without such ops and loops stays as it is, at
// the cost of one look at each instruction. The module must be verified. Errors are those of the passes; after one, the
// module must only be freed. One thread; callers are inside hlo_protect().
HLO_NODISCARD HloStatus cpu_expand(HloModule *module);

HLO_END_C

#endif
