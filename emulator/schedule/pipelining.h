// SPDX-License-Identifier: Apache-2.0
// Which transfers in the body of a loop a compiler moves over the boundary between two iterations, so that they run
// beside the whole of one: loads and gathers that depend only on what every iteration knows are made one iteration
// ahead; stores whose result only the next iteration's store changes, and sums over devices that are only stored or
// added up (gradients), end one iteration later.
//
//   iteration i   | k1 | k2 |   k3   |          without: k1 waits for the load of its weights
//                 start(i+1) ......              with: the load of iteration i+1 starts here,
//   iteration i+1          | k1 | k2 |           and k1 waits only if it takes longer than the iteration
//
// Internal.
#ifndef MESHLO_EMULATOR_SCHEDULE_PIPELINING_H_
#define MESHLO_EMULATOR_SCHEDULE_PIPELINING_H_

#include "emulator/chip.h"
#include "hlo/ir/module.h"

// Whether `start`, an asynchronous start in the body of `loop`, needs nothing that the iteration computes: constants,
// elements of the state that never change, the loop's counter, and what follows from these, also by other transfers
// that start early. Optimization barriers hold nothing back. Scratch memory is taken from `arena` and given back;
// memory errors jump to hlo_protect().
bool emu_starts_early(HloArena *arena, const HloInstruction *start, const HloInstruction *loop);
// The bytes of the largest array of a transfer, which the device holds where it crosses into the next iteration.
int64_t emu_crossing_bytes(const EmuChip *chip, const HloInstruction *start);
// Whether the result of `start` only becomes an element of the loop's next state that nothing else in the body uses: a
// store, or a collective whose results are stored in an element or added to one.
bool emu_ends_late(const HloInstruction *start, const HloInstruction *loop);

#endif
