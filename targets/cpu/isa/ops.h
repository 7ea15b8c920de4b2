// SPDX-License-Identifier: Apache-2.0
// The operations for which kernels exist. The tables of isa.h are indexed by these numbers.
#ifndef MESHLO_TARGETS_CPU_ISA_OPS_H_
#define MESHLO_TARGETS_CPU_ISA_OPS_H_

// The elementwise operations that have kernels.
typedef enum CpuLoopOp {
#define CPU_LOOP_OP(name, role, arity, result, rounds, slow, ...) CPU_OP_##name,
#define CPU_LOOP_TEST(name, ...) CPU_OP_##name,
#include "targets/cpu/isa/loop_ops.def"
#undef CPU_LOOP_OP
#undef CPU_LOOP_TEST
    CPU_OP_COUNT
} CpuLoopOp;

// The reductions that have kernels.
typedef enum CpuReduceOp {
    CPU_REDUCE_ADD,
    CPU_REDUCE_MULTIPLY,
    CPU_REDUCE_MAXIMUM,
    CPU_REDUCE_MINIMUM,
    CPU_REDUCE_AND,
    CPU_REDUCE_OR,
    CPU_REDUCE_XOR,
    CPU_REDUCE_COUNT
} CpuReduceOp;

#endif
