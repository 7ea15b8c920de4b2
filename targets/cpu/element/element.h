// SPDX-License-Identifier: Apache-2.0
// Whole arrays in register form: narrow floats are widened to f32 once, everything else stays in place.
#ifndef MESHLO_TARGETS_CPU_ELEMENT_ELEMENT_H_
#define MESHLO_TARGETS_CPU_ELEMENT_ELEMENT_H_

#include <stdbool.h>

#include "targets/cpu/isa/isa.h"

// Returns the register type for elements of a type.
CpuRegisterType cpu_register_of(HloType type);
// Returns the bytes of an element in a register.
int cpu_register_bytes(CpuRegisterType type);

// Returns the operation on two elements that a reduction repeats.
CpuLoopOp cpu_pair_op(CpuReduceOp op);
// Returns the block kernel that combines two elements of a type, or NULL if the type does not have the reduction.
CpuBlockKernel *cpu_pair_kernel(const CpuLoopKernels *kernels, HloType type, CpuReduceOp op);

// True when the array kernels need a widened copy.
bool cpu_is_widened(const CpuLoopKernels *kernels, HloType type);

// Returns the bytes of an element in register form.
int cpu_register_form_bytes(HloType type);

// Widens `count` elements to register form (narrow floats to f32).
void cpu_widen(const CpuLoopKernels *kernels, HloType type, void *target, const void *source, int64_t count);
// Converts back: rounds floats, wraps integers of fewer than 8 bits.
void cpu_narrow(const CpuLoopKernels *kernels, HloType type, void *target, const void *source, int64_t count);

#endif
