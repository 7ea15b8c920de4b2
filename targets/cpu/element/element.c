// SPDX-License-Identifier: Apache-2.0
// Registers contain narrow types widened (bf16 and f8 as f32, small integers wrapped to their width after arithmetic):
// these functions convert between the two for code other than the fused loops.
#include "targets/cpu/element/element.h"

#include <assert.h>
#include <string.h>

// Registers have a few wide types, so that there is one kernel per operation for each of those and not for each of
// HLO's: narrow floats are computed in f32 and rounded after each operation, integers of few bits in a byte and
// wrapped.
CpuRegisterType cpu_register_of(HloType type) {
    const HloTypeInfo *info = hlo_type_info(type);
    switch (info->kind) {
        case HLO_KIND_PRED: return CPU_REGISTER_PRED;
        case HLO_KIND_FLOAT: return info->bits == 64 ? CPU_REGISTER_F64 : CPU_REGISTER_F32;
        case HLO_KIND_COMPLEX: return info->bits == 128 ? CPU_REGISTER_C128 : CPU_REGISTER_C64;
        default: break;
    }
    const CpuRegisterType first = info->kind == HLO_KIND_SIGNED ? CPU_REGISTER_S8 : CPU_REGISTER_U8;
    const int log_bytes = __builtin_ctz((unsigned)info->storage_bytes);
    return (CpuRegisterType)((int)first + log_bytes);
}

int cpu_register_bytes(CpuRegisterType type) {
    static const unsigned char bytes[CPU_REGISTER_COUNT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16};
    return bytes[type];
}

CpuLoopOp cpu_pair_op(CpuReduceOp op) {
    assert(op >= 0 && op < CPU_REDUCE_COUNT);
    static const CpuLoopOp ops[CPU_REDUCE_COUNT] = {
        [CPU_REDUCE_ADD] = CPU_OP_ADD,         [CPU_REDUCE_MULTIPLY] = CPU_OP_MULTIPLY, [CPU_REDUCE_AND] = CPU_OP_AND,
        [CPU_REDUCE_MAXIMUM] = CPU_OP_MAXIMUM, [CPU_REDUCE_MINIMUM] = CPU_OP_MINIMUM,   [CPU_REDUCE_OR] = CPU_OP_OR,
        [CPU_REDUCE_XOR] = CPU_OP_XOR,
    };
    return ops[op];
}

// Returns NULL if the type has no such op (and, or, xor of floats).
CpuBlockKernel *cpu_pair_kernel(const CpuLoopKernels *kernels, HloType type, CpuReduceOp op) {
    return kernels->operation[cpu_pair_op(op)][cpu_register_of(type)];
}

bool cpu_is_widened(const CpuLoopKernels *kernels, HloType type) {
    return kernels->decode[type] != NULL;
}

int cpu_register_form_bytes(HloType type) {
    return cpu_register_bytes(cpu_register_of(type));
}

// Types whose register form equals the stored one are copied.
void cpu_widen(const CpuLoopKernels *kernels, HloType type, void *target, const void *source, int64_t count) {
    if (kernels->decode[type])
        kernels->decode[type](target, source, NULL, NULL, count, 0);
    else if (target != source)
        memcpy(target, source, (size_t)(count * hlo_type_bytes(type)));
}

// Floats are rounded once, to nearest even; integers are truncated to their width.
void cpu_narrow(const CpuLoopKernels *kernels, HloType type, void *target, const void *source, int64_t count) {
    if (kernels->encode[type])
        kernels->encode[type](target, source, NULL, NULL, count, 0);
    else if (kernels->wrap[type])
        kernels->wrap[type](target, source, NULL, NULL, count, 0);
    else if (target != source)
        memcpy(target, source, (size_t)(count * hlo_type_bytes(type)));
}
