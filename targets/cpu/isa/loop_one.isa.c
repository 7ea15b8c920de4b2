// SPDX-License-Identifier: Apache-2.0
// The kernels of loop.isa.c for blocks of one element.
#define CPU_ONE_ELEMENT
#include "targets/cpu/isa/loop.isa.c"
