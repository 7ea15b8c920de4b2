// SPDX-License-Identifier: Apache-2.0
// loop.inc for the instructions that every processor of the architecture has.
#define CPU_ISA one_baseline
#define CPU_ONE_ELEMENT
#include "targets/cpu/isa/loop.inc"
