// SPDX-License-Identifier: Apache-2.0
// Fused loops: a small typed register program that runs over blocks of about a thousand elements, so that intermediate
// values stay in the first-level cache. This is what fusions, elementwise operations, broadcasts and reductions become.
//
// A loop has a domain of `rank` dimensions in row-major order, cut into kept dimensions and reduced ones:
//   rows      [kept ...][reduced ...]          reduced may be empty: then the loop is purely elementwise
//   columns   [outer kept ...][reduced ...][inner kept ...]
// Arrays are reached through index maps: element = offset + sum of stride[d] * index[d]. Strides may be 0 (broadcast)
// or negative (reverse), so the caller is free to permute the domain's dimensions.
//
// Levels come by themselves. A value whose map has stride 0 on all reduced dimensions exists once a kept index, a value
// with all strides 0 once a loop; the result of a reduction exists once a kept index. Operations on mixed levels expand
// the lower one. In the rows form results of reductions may go back into operations over whole rows (softmax, layer
// norm) when cpu_loop_finish() finds that a row's live values fit the cache (else RESOURCE_EXHAUSTED: split the loop).
//
// Types: every value has an HLO element type. Types narrower than f32 (bf16, f16, f8, f4) are held as f32 and rounded
// to their type after every operation that can leave it; s4, u4, s2, ... are held as 8 bits and wrapped.
//
// Results do not depend on the number of workers: a reduction's tree is fixed by the length of what is reduced, and one
// whose combiner is not known to be associative has no tree: see cpu_loop_combine_in_order().
#ifndef MESHLO_TARGETS_CPU_LOOP_LOOP_H_
#define MESHLO_TARGETS_CPU_LOOP_LOOP_H_

#include "hlo/base/memory.h"
#include "hlo/ir/types.h"
#include "targets/cpu/host/pool.h"
#include "targets/cpu/isa/ops.h"

HLO_BEGIN_C

// The iteration space. `dims` has outer + reduced + inner entries.
typedef struct CpuLoopDomain {
    int outer;            // number of kept dimensions before the reduced ones
    int reduced;          // number of reduced dimensions, 0 for an elementwise loop
    int inner;            // number of kept dimensions after the reduced ones; not 0 makes the columns form
    const int64_t *dims;  // sizes, all >= 0
} CpuLoopDomain;

// Where an array's elements stand: element number offset + sum of strides[d] * index[d] from the buffer's start, over
// all dimensions of the domain.
typedef struct CpuIndexMap {
    int64_t offset;
    const int64_t *strides;
} CpuIndexMap;

typedef struct CpuLoopBuilder CpuLoopBuilder;
typedef struct CpuLoop CpuLoop;

// Number of a value in a builder.
typedef int32_t CpuValue;

// ---- building: everything comes from `arena`; one thread; errors are kept and told by cpu_loop_finish()

// A builder for loops over `domain` (its dims are copied) whose kernels use the instruction set `features`.
CpuLoopBuilder *cpu_loop_builder_new(HloArena *arena, const CpuLoopDomain *domain, CpuFeatures features);

// Elements of buffer number `buffer` (an index into what cpu_loop_run() gets), of element type `type`.
CpuValue cpu_loop_load(CpuLoopBuilder *builder, int buffer, HloType type, const CpuIndexMap *map);

// One constant: `bits` points to one element of `type` as a buffer stores it.
CpuValue cpu_loop_constant(CpuLoopBuilder *builder, HloType type, const void *bits);

// The number offset + sum of strides[d] * index[d] itself, converted to `type` (iota).
CpuValue cpu_loop_index(CpuLoopBuilder *builder, HloType type, const CpuIndexMap *map);

// An operation on values of one element type (SELECT: a predicate first; shifts and all others: equal types). Unused
// operands are ignored. HLO semantics: integer division by zero gives -1 and remainder the dividend, INT_MIN / -1
// wraps, shifts past the width give 0 or the sign, minimum, maximum and clamp propagate NaN.
CpuValue cpu_loop_op(CpuLoopBuilder *builder, CpuLoopOp op, CpuValue a, CpuValue b, CpuValue c);

// Conversion of values: float to integer truncates, saturates and maps NaN to 0; integer to narrower integer wraps; to
// pred is "not zero"; complex to real takes the real part.
CpuValue cpu_loop_convert(CpuLoopBuilder *builder, HloType type, CpuValue a);

// The same bits as another type of the same storage width.
CpuValue cpu_loop_bitcast(CpuLoopBuilder *builder, HloType type, CpuValue a);

// Rounds a float to a format with the given numbers of exponent and mantissa bits and keeps its type.
CpuValue cpu_loop_reduce_precision(CpuLoopBuilder *builder, int exponent_bits, int mantissa_bits, CpuValue a);

// Rounds a float to an integer `type`, away from zero where `random` (unsigned, of the float's width) is below the
// fraction scaled to its range.
CpuValue cpu_loop_stochastic_convert(CpuLoopBuilder *builder, HloType type, CpuValue a, CpuValue random);

// init op (reduction of `a` over the reduced dimensions). Floats narrower than f32 accumulate in f32 and round once.
CpuValue cpu_loop_reduce(CpuLoopBuilder *builder, CpuReduceOp op, CpuValue a, CpuValue init);

// A reduction of `count` operands with any combiner; it must be the only reduction of its loop. Begin gives the values
// that stand for the accumulators and for the new elements, the caller builds the combiner from them (and from values
// with all strides 0), end names its results. `results` gets the reduced values, already combined with the inits. It
// runs over blocks of the inner kept dimensions: put the kept dimensions there (outer = 0), whatever the layout is.
void cpu_loop_combine_begin(CpuLoopBuilder *builder, int count, const CpuValue *values, const CpuValue *inits,
                            CpuValue *accumulators, CpuValue *elements);
// Ends what cpu_loop_combine_begin() began, with as many operands.
void cpu_loop_combine_end(CpuLoopBuilder *builder, int count, const CpuValue *combined, CpuValue *results);

// Says of the reduction between combine_begin and combine_end that its combiner is not known to be associative: it then
// starts from the inits and takes the elements one after the other in row-major order of the reduced dimensions, as the
// evaluator does. Without this, stretches of the reduced dimensions are combined apart, and then with each other.
void cpu_loop_combine_in_order(CpuLoopBuilder *builder);

// Writes a value to a buffer. Several stores may be in one loop. A store may share its buffer with loads only where the
// element widths and the maps are equal (in-place update).
void cpu_loop_store(CpuLoopBuilder *builder, int buffer, CpuValue value, const CpuIndexMap *map);

// Plans the program; the loop lives in the builder's arena and is immutable. UNIMPLEMENTED
// for an operation that its type does not have, INVALID_ARGUMENT for misuse, RESOURCE_EXHAUSTED for rows that are too
// long to be kept (see the top of this file).
HLO_NODISCARD HloStatus cpu_loop_finish(CpuLoopBuilder *builder, CpuLoop **loop);

// ---- running

// Runs a loop over its whole domain. `buffers` holds the addresses that loads and stores name. NULL pool: this thread
// alone. Any number of threads may run one loop at once. RESOURCE_EXHAUSTED when there is no memory for scratch.
HLO_NODISCARD HloStatus cpu_loop_run(const CpuLoop *loop, CpuPool *pool, void *const *buffers);

// Elements of the domain times instructions: what a run costs, for scheduling.
double cpu_loop_cost(const CpuLoop *loop);

HLO_END_C

#endif
