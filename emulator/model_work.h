// SPDX-License-Identifier: Apache-2.0
// Internal: the operations that a model needs, whatever a partitioner makes of them.
#ifndef MESHLO_EMULATOR_MODEL_WORK_H_
#define MESHLO_EMULATOR_MODEL_WORK_H_

#include "emulator/cost.h"

// Counts the operations of products and convolutions in `whole`, a program before it is partitioned, without those that
// are made again for the backward pass. `chip` says what a product is. False where the program does not tell: it has
// manual regions, whose arrays are those of one device, or loops of unknown length. `bodies` keeps the work of users'
// kernels. Memory errors jump to hlo_protect().
bool emu_model_flops(HloArena *scratch, const EmuChip *chip, const HloModule *whole, EmuKernelCosts costs,
                     EmuBodies *bodies, double *flops);

// Whether a scope (op_name) is that of what jax.checkpoint computes again (jax/_src/ad_checkpoint.py).
bool emu_is_recomputed(const char *scope);

#endif
