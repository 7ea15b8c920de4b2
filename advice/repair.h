// SPDX-License-Identifier: Apache-2.0
// Copies of the program that is planned, which compute the same: with less memory, or without calls.
#ifndef MESHLO_ADVICE_REPAIR_H_
#define MESHLO_ADVICE_REPAIR_H_

#include "advice/plan.h"

// A repair as data; advice_repair_info() of each AdviceRepair.
typedef struct AdviceRepairInfo {
    const char *pass;   // of `meshlo opt --passes`; "" for none
    const char *words;  // for people: what was done
} AdviceRepairInfo;

const AdviceRepairInfo *advice_repair_info(AdviceRepair repair);

// A copy of a program with a repair; *repaired is NULL where it changes nothing. RESOURCE_EXHAUSTED, and errors of the
// pass that inlines calls.
HLO_NODISCARD HloStatus advice_repair_make(const HloModule *module, AdviceRepair repair, HloModule **repaired);
// A copy of a program with its calls inlined as the compile pipeline does it, so that the names of instructions are
// those that SpmdOptions.shards takes. RESOURCE_EXHAUSTED, and errors of the pass.
HLO_NODISCARD HloStatus advice_inlined(const HloModule *module, HloModule **inlined);

#endif
