// SPDX-License-Identifier: Apache-2.0
// Fused loops: a small typed register program that runs over blocks of about a thousand elements, so that intermediate
// values stay in the first-level cache. Fusions, elementwise operations, broadcasts and reductions are compiled to this
// form.
//
// A loop has a domain of `rank` dimensions in row-major order, divided into kept and reduced dimensions:
//   rows      [kept ...][reduced ...]          reduced may be empty: then the loop is purely elementwise
//   columns   [outer kept ...][reduced ...][inner kept ...]
// Arrays are accessed through index maps: element = offset + sum of stride[d] * index[d]. Strides may be 0 (broadcast)
// or negative (reverse), so the caller is free to permute the domain's dimensions.
//
// Levels are inferred. A value whose map has stride 0 on all reduced dimensions exists once per kept index, a value
// with all strides 0 once per loop; the result of a reduction exists once per kept index. Operations on mixed levels
// expand the lower one. In the rows form, results of reductions may be used in operations over whole rows (softmax,
// layer norm) if cpu_loop_finish() finds that a row's live values fit the cache (else RESOURCE_EXHAUSTED: split the
// loop).
//
// Types: every value has an HLO element type. Types narrower than f32 (bf16, f16, f8, f4) are computed as f32 and
// rounded to their type after every operation that can leave it; s4, u4, s2, ... are computed as 8 bits and wrapped.
//
// Results do not depend on the number of workers: the length of a reduction determines its tree. A reduction whose
// combiner is not known to be associative has no tree: see cpu_loop_combine_in_order().
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
    int inner;            // number of kept dimensions after the reduced ones; nonzero selects the columns form
    const int64_t *dims;  // sizes, all >= 0
} CpuLoopDomain;

// The location of an array's elements: element offset + sum of strides[d] * index[d] from the buffer's start, over all
// dimensions of the domain.
typedef struct CpuIndexMap {
    int64_t offset;
    const int64_t *strides;
} CpuIndexMap;

typedef struct CpuLoopBuilder CpuLoopBuilder;
typedef struct CpuLoop CpuLoop;

// Index of a value in a builder.
typedef int32_t CpuValue;

// ---- building: all memory is from `arena`; one thread; errors are stored and returned by cpu_loop_finish()

// Creates a builder for loops over `domain` (its dims are copied) whose kernels use the instruction set `features`.
CpuLoopBuilder *cpu_loop_builder_new(HloArena *arena, const CpuLoopDomain *domain, CpuFeatures features);

// Loads elements of buffer number `buffer` (an index into the buffers of cpu_loop_run()), of element type `type`.
CpuValue cpu_loop_load(CpuLoopBuilder *builder, int buffer, HloType type, const CpuIndexMap *map);

// Appends a constant: `bits` points to one element of `type` as a buffer stores it.
CpuValue cpu_loop_constant(CpuLoopBuilder *builder, HloType type, const void *bits);

// Appends the number offset + sum of strides[d] * index[d] itself, converted to `type` (iota).
CpuValue cpu_loop_index(CpuLoopBuilder *builder, HloType type, const CpuIndexMap *map);

// Appends an operation on values of one element type (SELECT: a predicate first; shifts and all others: equal types).
// Unused operands are ignored. Follows HLO semantics: integer division by zero gives -1 and remainder the dividend,
// INT_MIN / -1 wraps, shifts past the width give 0 or the sign, minimum, maximum and clamp propagate NaN.
CpuValue cpu_loop_op(CpuLoopBuilder *builder, CpuLoopOp op, CpuValue a, CpuValue b, CpuValue c);

// Converts values: float to integer truncates, saturates and maps NaN to 0; integer to narrower integer wraps; to pred
// is "not zero"; complex to real takes the real part.
CpuValue cpu_loop_convert(CpuLoopBuilder *builder, HloType type, CpuValue a);

// Reinterprets the bits as another type of the same storage width.
CpuValue cpu_loop_bitcast(CpuLoopBuilder *builder, HloType type, CpuValue a);

// Rounds a float to a format with the given numbers of exponent and mantissa bits and keeps its type.
CpuValue cpu_loop_reduce_precision(CpuLoopBuilder *builder, int exponent_bits, int mantissa_bits, CpuValue a);

// Rounds a float to an integer `type`, away from zero where `random` (unsigned, of the float's width) is below the
// fraction scaled to its range.
CpuValue cpu_loop_stochastic_convert(CpuLoopBuilder *builder, HloType type, CpuValue a, CpuValue random);

// Computes init op (reduction of `a` over the reduced dimensions). Floats narrower than f32 accumulate in f32 and round
// once.
CpuValue cpu_loop_reduce(CpuLoopBuilder *builder, CpuReduceOp op, CpuValue a, CpuValue init);

// Begins a reduction of `count` operands with any combiner; it must be the only reduction of its loop. Returns the
// values that represent the accumulators and the new elements. The caller builds the combiner from them (and from
// values with all strides 0), and passes its results to cpu_loop_combine_end(). `results` then holds the reduced
// values, already combined with the inits. The reduction runs over blocks of the inner kept dimensions: put the kept
// dimensions there (outer = 0), whatever the layout.
void cpu_loop_combine_begin(CpuLoopBuilder *builder, int count, const CpuValue *values, const CpuValue *inits,
                            CpuValue *accumulators, CpuValue *elements);
// Ends a combiner that cpu_loop_combine_begin() began, with the same number of operands.
void cpu_loop_combine_end(CpuLoopBuilder *builder, int count, const CpuValue *combined, CpuValue *results);

// Declares, between combine_begin and combine_end, that the combiner is not known to be associative. The reduction then
// starts from the inits and takes the elements one after the other in row-major order of the reduced dimensions, as the
// evaluator does. Otherwise segments of the reduced dimensions are combined separately, and then with each other.
void cpu_loop_combine_in_order(CpuLoopBuilder *builder);

// Writes a value to a buffer. A loop may have several stores. A store may share its buffer with loads only where the
// element widths and the maps are equal (in-place update).
void cpu_loop_store(CpuLoopBuilder *builder, int buffer, CpuValue value, const CpuIndexMap *map);

// Plans the program; the loop lives in the builder's arena and is immutable. UNIMPLEMENTED for an operation that its
// type does not support, INVALID_ARGUMENT for misuse, RESOURCE_EXHAUSTED for rows that are too long to be kept (see the
// top of this file).
HLO_NODISCARD HloStatus cpu_loop_finish(CpuLoopBuilder *builder, CpuLoop **loop);

// ---- running

// Runs a loop over its whole domain. `buffers` contains the addresses of the buffers that loads and stores refer to.
// With a NULL pool, only this thread works. Any number of threads may run one loop concurrently. RESOURCE_EXHAUSTED
// when there is no memory for scratch.
HLO_NODISCARD HloStatus cpu_loop_run(const CpuLoop *loop, CpuPool *pool, void *const *buffers);

// A loop in one pass may be run part by part: for some of its kept indices ("rows") at a time, flat in row-major order.

// Returns the number of rows; 0 for a loop that cannot be run part by part.
int64_t cpu_loop_rows(const CpuLoop *loop);
// Whether rows [i * rows, (i + 1) * rows) of the loop access no other elements of the buffer than [i * elements,
// (i + 1) * elements), for all i.
bool cpu_loop_follows_rows(const CpuLoop *loop, int buffer, int64_t rows, int64_t elements);
// Returns the bytes of scratch memory for cpu_loop_run_rows().
size_t cpu_loop_scratch_bytes(const CpuLoop *loop);
// Runs rows [begin, end) on this thread, with the bits of cpu_loop_run(). `buffers` holds the addresses of the whole
// arrays; only what belongs to these rows is touched. `scratch` is aligned to 64. Any number of threads.
void cpu_loop_run_rows(const CpuLoop *loop, void *const *buffers, int64_t begin, int64_t end, void *scratch);

// Returns the cost of a run, for scheduling: elements of the domain times instructions.
double cpu_loop_cost(const CpuLoop *loop);

HLO_END_C

#endif
