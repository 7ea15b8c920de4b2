// SPDX-License-Identifier: Apache-2.0
// Registers hold narrow types widened (bf16 and f8 as f32, small integers wrapped to their width after arithmetic):
// these functions go between the two for code beside the fused loops.
#include "targets/cpu/element/element.h"

#include <assert.h>
#include <string.h>

CpuLoopOp cpu_pair_op(CpuReduceOp op) {
    assert(op >= 0 && op < CPU_REDUCE_COUNT);
    static const CpuLoopOp ops[CPU_REDUCE_COUNT] = {
        [CPU_REDUCE_ADD] = CPU_OP_ADD,         [CPU_REDUCE_MULTIPLY] = CPU_OP_MULTIPLY, [CPU_REDUCE_AND] = CPU_OP_AND,
        [CPU_REDUCE_MAXIMUM] = CPU_OP_MAXIMUM, [CPU_REDUCE_MINIMUM] = CPU_OP_MINIMUM,   [CPU_REDUCE_OR] = CPU_OP_OR,
        [CPU_REDUCE_XOR] = CPU_OP_XOR,
    };
    return ops[op];
}

// NULL where the type has no such op (and, or, xor of floats).
CpuBlockKernel *cpu_pair_kernel(const CpuLoopKernels *kernels, HloType type, CpuReduceOp op) {
    return kernels->operation[cpu_pair_op(op)][cpu_register_of(type)];
}

bool cpu_is_widened(const CpuLoopKernels *kernels, HloType type) {
    return kernels->decode[type] != NULL;
}

int cpu_held_bytes(HloType type) {
    return cpu_register_bytes(cpu_register_of(type));
}

// Types that are held as they are stored are copied.
void cpu_widen(const CpuLoopKernels *kernels, HloType type, void *target, const void *source, int64_t count) {
    if (kernels->decode[type])
        kernels->decode[type](target, source, NULL, NULL, count, 0);
    else if (target != source)
        memcpy(target, source, (size_t)(count * hlo_type_bytes(type)));
}

// Floats are rounded once, to nearest even; integers cut to their width.
void cpu_narrow(const CpuLoopKernels *kernels, HloType type, void *target, const void *source, int64_t count) {
    if (kernels->encode[type])
        kernels->encode[type](target, source, NULL, NULL, count, 0);
    else if (kernels->wrap[type])
        kernels->wrap[type](target, source, NULL, NULL, count, 0);
    else if (target != source)
        memcpy(target, source, (size_t)(count * hlo_type_bytes(type)));
}
