// SPDX-License-Identifier: Apache-2.0
// The flags of a module's header that say whether propagation may shard parameters and results, for formats that have
// no place for them (HloModuleProto, StableHLO): frontend attributes of the module carry them.
//
//     allow_spmd_sharding_propagation_to_output={true}      in HLO text
//     mhlo.frontend_attributes = {meshlo.allow_spmd_sharding_propagation_to_output = "true"}      in StableHLO
#ifndef MESHLO_HLO_IR_PROPAGATION_H_
#define MESHLO_HLO_IR_PROPAGATION_H_

#include "hlo/ir/module.h"

// Returns the module's frontend attributes and, for each list of flags that HLO text has, one more, in `arena`.
HloKeyValues hlo_propagation_to_attributes(HloArena *arena, const HloModule *module);

// Moves such attributes of a module that was read back to its flags. INVALID_ARGUMENT if one is no list of true and
// false.
HLO_NODISCARD HloStatus hlo_propagation_from_attributes(HloModule *module);

// Returns whether HLO text has the list: one flag that is false is the default.
static inline bool hlo_propagation_is_stated(HloBools flags) {
    return flags.count > 1 || (flags.count == 1 && flags.items[0]);
}

#endif
