// SPDX-License-Identifier: Apache-2.0
#define CPU_ISA baseline
#include "targets/cpu/isa/triangle.inc"
