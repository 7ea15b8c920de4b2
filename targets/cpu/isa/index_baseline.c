// SPDX-License-Identifier: Apache-2.0
// index.inc for the instructions that every processor of the architecture has.
#define CPU_ISA baseline
#include "targets/cpu/isa/index.inc"
