// SPDX-License-Identifier: Apache-2.0
// Internal: the sets of links that transfers use. A slice has thousands of links, but few sets of them occur in a
// program: which transfers wait for each other is a question about sets.
#ifndef MESHLO_EMULATOR_LINK_SETS_H_
#define MESHLO_EMULATOR_LINK_SETS_H_

#include "emulator/collective.h"

// The sets of a network, numbered from 0. Its functions take one thread at a time.
typedef struct EmuLinkSets EmuLinkSets;

// Makes an empty list of sets of the links below `link_limit`. It grows in `arena`, which is not reset meanwhile.
// Memory errors of this and of emu_link_sets_find() jump to hlo_protect().
EmuLinkSets *emu_link_sets_new(HloArena *arena, int64_t link_limit);
// The number of the set of these links, in any order and listed once or several times; at least one. The set is added
// if there is no such set yet.
int32_t emu_link_sets_find(EmuLinkSets *sets, const EmuLinkLoad *links, int64_t count);
// Whether two sets have a link in common.
bool emu_link_sets_meet(const EmuLinkSets *sets, int32_t a, int32_t b);
// Adds an amount to the sum of each link of a set. `sums` has one for each link below the limit; they end at EMU_MOST.
void emu_link_sets_add(const EmuLinkSets *sets, int32_t set, int64_t amount, int64_t *sums);

#endif
