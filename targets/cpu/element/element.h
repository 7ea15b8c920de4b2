// SPDX-License-Identifier: Apache-2.0
// Whole arrays in the type that registers hold: narrow floats are widened to f32 once, everything else stays in place.
#ifndef MESHLO_TARGETS_CPU_ELEMENT_ELEMENT_H_
#define MESHLO_TARGETS_CPU_ELEMENT_ELEMENT_H_

#include <stdbool.h>

#include "targets/cpu/isa/isa.h"

// The register type that holds elements of a type.
CpuRegisterType cpu_register_of(HloType type);
// Bytes of an element in a register.
int cpu_register_bytes(CpuRegisterType type);

// The operation on two elements that a reduction repeats.
CpuLoopOp cpu_pair_op(CpuReduceOp op);
// The block kernel that combines two elements of a type, or NULL where the type does not have the reduction.
CpuBlockKernel *cpu_pair_kernel(const CpuLoopKernels *kernels, HloType type, CpuReduceOp op);

// True when the array kernels need a widened copy.
bool cpu_is_widened(const CpuLoopKernels *kernels, HloType type);

// Bytes of a held element.
int cpu_held_bytes(HloType type);

// Widens `count` elements to f32, and rounds them back; wraps integers of fewer than 8 bits on the way back.
void cpu_widen(const CpuLoopKernels *kernels, HloType type, void *target, const void *source, int64_t count);
// The way back.
void cpu_narrow(const CpuLoopKernels *kernels, HloType type, void *target, const void *source, int64_t count);

#endif
