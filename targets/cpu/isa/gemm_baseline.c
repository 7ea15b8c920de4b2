// SPDX-License-Identifier: Apache-2.0
// gemm.inc for the instructions that every processor of the architecture has.
#define CPU_ISA baseline
#include "targets/cpu/isa/gemm_all.inc"
