// SPDX-License-Identifier: Apache-2.0
// fft.inc for the instructions that every processor of the architecture has.
#define CPU_ISA baseline
#include "targets/cpu/isa/fft.inc"
