// SPDX-License-Identifier: Apache-2.0
// Internal: arrays that a kernel cannot make or read in the layout that an array has by itself.
//
//   convolution   makes results whose minor dimension are the features, with the batch in the sublanes:
//                 bf16[32,112,112,64]{3,0,2,1}
//   convolution   of images reads them with the batch in the lanes and the few features in the sublanes; one of groups
//                 does so too, or it has the features of a group in the lanes, whatever leaves fewer of them empty:
//                 bf16[32,28,28,8,32]{4,0,3,2,1} are 8 groups of 32 features
//   reduce-window reads operands whose minor dimension the window does not slide along
//   select-and-scatter reads and makes such ones too
//   dot           reads and makes arrays without its batch in the lanes
//   gather        reads arrays in whose lanes it chooses no rows, and makes rows in the lanes
//   top-k         reads the rows that it selects from in the lanes
//   sort          reads and makes rows in the lanes, too, if there is one array
//
// Of the last four only arguments and results are copied, since other arrays are made as they are read.
//
// Arrays between kernels are kept so. Arguments and results of the entry, whose layouts are those that pad least, are
// copied (libtpu 0.0.42; docs/machine-model.md).
#ifndef MESHLO_EMULATOR_LAYOUT_STORED_H_
#define MESHLO_EMULATOR_LAYOUT_STORED_H_

#include "emulator/fusion.h"

// The shape of root `root` of a kernel with the layout in which the kernel makes it: with that of convolutions if one
// makes it, else as it is. In `arena`.
const HloShape *emu_made_shape(HloArena *arena, const EmuChip *chip, const EmuKernel *kernel,
                               const HloInstruction *root);
// The shape of operand `index`, 0 or 1, of an instruction, which is stored as `stored`, with a layout in which it can
// be read; `stored` where that can be. In `arena`.
const HloShape *emu_read_shape(HloArena *arena, const EmuChip *chip, const HloInstruction *reader, int32_t index,
                               const HloShape *stored);
// Whether two shapes of an array have the same two minor dimensions, in their layouts or those that are chosen for
// them.
bool emu_same_minor(HloArena *arena, const EmuChip *chip, const HloShape *left, const HloShape *right);
// Whether two shapes of an array have the same dimension in the lanes.
bool emu_same_lanes(HloArena *arena, const EmuChip *chip, const HloShape *left, const HloShape *right);

#endif
