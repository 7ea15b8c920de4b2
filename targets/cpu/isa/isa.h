// SPDX-License-Identifier: Apache-2.0
// Kernels that are compiled once per instruction set. The build (cmake/modules.cmake) compiles each TOPIC.isa.c with
// CPU_ISA defined as the set's name: baseline, avx2, avx512, neon. Each compilation defines one table of the types
// below, and the functions cpu_isa_TOPIC_kernels() choose among them. Files whose names end with a set exist only for
// that set.
#ifndef MESHLO_TARGETS_CPU_ISA_ISA_H_
#define MESHLO_TARGETS_CPU_ISA_ISA_H_

#include "hlo/ir/types.h"
#include "targets/cpu/host/features.h"
#include "targets/cpu/isa/each.h"
#include "targets/cpu/isa/ops.h"

HLO_BEGIN_C

// The register form of values in a block. Narrower HLO types use the next wider of these.
typedef enum CpuRegisterType {
    CPU_REGISTER_PRED,  // one byte, 0 or 1
    CPU_REGISTER_S8,
    CPU_REGISTER_S16,
    CPU_REGISTER_S32,
    CPU_REGISTER_S64,
    CPU_REGISTER_U8,
    CPU_REGISTER_U16,
    CPU_REGISTER_U32,
    CPU_REGISTER_U64,
    CPU_REGISTER_F32,
    CPU_REGISTER_F64,
    CPU_REGISTER_C64,
    CPU_REGISTER_C128,
    CPU_REGISTER_COUNT
} CpuRegisterType;

// Computes dst[i] = f(a[i], b[i], c[i]) for i below n. dst may be equal to a, b or c if the widths are equal.
// `immediate` is the instruction's own constant.
typedef void CpuBlockKernel(void *dst, const void *a, const void *b, const void *c, int64_t n, int64_t immediate);

// Sets dst[r] to the reduction of source[r * n .. r * n + n) for r below rows, in the fixed tree of loop_reduce.inc; to
// the operation's identity for n = 0.
typedef void CpuReduceKernel(void *dst, const void *source, int64_t rows, int64_t n);

// Combines the rows source[r * stride .. r * stride + n), for r below rows, one after the other into dst[0 .. n).
typedef void CpuColumnKernel(void *dst, const void *source, int64_t rows, int64_t n, int64_t stride);

// Returns the index of the best of n > 0 elements: the first NaN, else the first of the largest (or smallest).
typedef int64_t CpuArgKernel(const void *source, int64_t n);

// Does memcpy on this thread with stores past the caches, which avoid reading lines that are overwritten whole. Other
// threads may read the target only after the `streamed` of the same table on this one, which waits for all earlier
// stores. (A core of Zen 3 copies 64 MB in 3.7 ms with stores of 32 bytes and in 4.7 with stores of 16.)
typedef void CpuStreamKernel(void *target, const void *source, size_t bytes);

// Elements of one leaf of the reduction tree, and leaves of one segment (see loop_reduce.inc).
enum { CPU_REDUCE_CHUNK = 1024, CPU_REDUCE_SEGMENT = 64 * 1024 };

// Two f32 operations in one pass, outer(inner(a, b), c), each rounded; CPU_PAIR_FROM is c - inner(a, b).
typedef enum CpuPairInner {
    CPU_PAIR_OF_SUM,
    CPU_PAIR_OF_DIFFERENCE,
    CPU_PAIR_OF_PRODUCT,
    CPU_PAIR_INNER_COUNT
} CpuPairInner;
typedef enum CpuPairOuter {
    CPU_PAIR_PLUS,
    CPU_PAIR_MINUS,
    CPU_PAIR_FROM,
    CPU_PAIR_TIMES,
    CPU_PAIR_OUTER_COUNT
} CpuPairOuter;

// The operands of a pair that are one element for all instead of n, such as a row's mean.
typedef enum CpuOnes { CPU_ONES_NONE, CPU_ONES_SECOND, CPU_ONES_THIRD, CPU_ONES_BOTH, CPU_ONES_COUNT } CpuOnes;

// One instruction set's kernels of the fused-loop engine. A NULL entry: the type does not have the operation.
typedef struct CpuLoopKernels {
    CpuBlockKernel *operation[CPU_OP_COUNT][CPU_REGISTER_COUNT];      // by the type of the last operand
    CpuBlockKernel *convert[CPU_REGISTER_COUNT][CPU_REGISTER_COUNT];  // [from][to]
    CpuBlockKernel *decode[HLO_TYPE_COUNT];                           // stored narrow float -> f32
    CpuBlockKernel *encode[HLO_TYPE_COUNT];                           // f32 -> stored narrow float
    CpuBlockKernel *round[HLO_TYPE_COUNT];                            // f32 -> f32 that the narrow type can represent
    CpuBlockKernel *wrap[HLO_TYPE_COUNT];                             // s8/u8 -> s8/u8 of fewer bits
    CpuBlockKernel *reduce_precision[CPU_REGISTER_COUNT];             // immediate: exponent << 8 | mantissa bits
    CpuReduceKernel *reduce[CPU_REDUCE_COUNT][CPU_REGISTER_COUNT];
    CpuColumnKernel *columns[CPU_REDUCE_COUNT][CPU_REGISTER_COUNT];  // has the entries of `reduce`
    CpuArgKernel *arg[2][CPU_REGISTER_COUNT];                        // [largest?]
    CpuStreamKernel *stream;
    void (*streamed)(void);
    // The merged operations that loop/peephole.c emits.
    CpuBlockKernel *pair[CPU_PAIR_INNER_COUNT][CPU_PAIR_OUTER_COUNT][CPU_ONES_COUNT];
    CpuBlockKernel *by_one[CPU_OP_COUNT];  // f32 operations whose second operand is one element for all, or NULL
    CpuBlockKernel *rotate;                // u32 a turned left by `immediate` (1 to 31) bits
    CpuBlockKernel *xor_rotate;            // u32 a ^ (b turned left by `immediate` bits)
    // Four times a += b, b = a ^ (b turned left by one of the bytes of `immediate`, from the lowest on): writes n
    // numbers a, followed by n numbers b. Not in place.
    CpuBlockKernel *mix_four_times;
    // Does the same to the numbers that it has written (operand a), in place or not, after adding b[0] to the n first
    // ones and c[0] to the others.
    CpuBlockKernel *add_and_mix_four_times;
    void (*ramp)(int32_t *to, int32_t first, int32_t step, int64_t n);  // to[i] = first + i * step, wrapping
} CpuLoopKernels;

// Pastes the set's name to a symbol: CPU_ISA_NAME(cpu_loop_kernels) is cpu_loop_kernels_avx2 when compiled for AVX2.
#define CPU_ISA_PASTE_(name, isa) name##_##isa
#define CPU_ISA_PASTE(name, isa) CPU_ISA_PASTE_(name, isa)
#define CPU_ISA_NAME(name) CPU_ISA_PASTE(name, CPU_ISA)

// Asserts to the compiler that iterations of the next loop do not depend on each other: kernels may run in place, where
// dst and an operand are the same array, but never on arrays that overlap otherwise.
#if defined(__clang__)
#define CPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define CPU_INDEPENDENT _Pragma("GCC ivdep") _Pragma("GCC unroll 4")
#endif

// cpu_isa_loop_kernels() returns the fused-loop kernels for an instruction set; cpu_isa_loop_kernels_one() those for
// blocks of exactly one element, with the same bits; without reductions.
CPU_ISA_TABLES(CpuLoopKernels, loop_kernels)
CPU_ISA_TABLES(CpuLoopKernels, loop_kernels_one)

HLO_END_C

#endif
