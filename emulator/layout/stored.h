// SPDX-License-Identifier: Apache-2.0
// Internal: arrays that a kernel cannot make or read in the layout that an array has by itself.
//
//   convolution   makes results whose minor dimension are the features, with the batch in the sublanes:
//                 bf16[32,112,112,64]{3,0,2,1}
//   convolution   of images reads them with the batch in the lanes and the few features in the sublanes
//   reduce-window reads operands whose minor dimension the window does not slide along
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
// The shape of operand 0 of a reduce-window or convolution, which is stored as `stored`, with a layout in which it can
// be read; `stored` where that can be. In `arena`.
const HloShape *emu_read_shape(HloArena *arena, const EmuChip *chip, const HloInstruction *reader,
                               const HloShape *stored);
// Whether two shapes of an array have the same two minor dimensions, in their layouts or those that are chosen for
// them.
bool emu_same_minor(HloArena *arena, const EmuChip *chip, const HloShape *left, const HloShape *right);

#endif
