// SPDX-License-Identifier: Apache-2.0
// Moving elements: strided copies of any rank (transpose, slice, reverse, concatenate, broadcast), padding, filling.
// Strides and offsets are in elements; `width` is the bytes of one element (1, 2, 4, 8 or 16).
#ifndef MESHLO_TARGETS_CPU_ELEMENT_COPY_H_
#define MESHLO_TARGETS_CPU_ELEMENT_COPY_H_

#include <stdbool.h>
#include <stdint.h>

#include "targets/cpu/host/pool.h"
#include "targets/cpu/isa/move.h"

HLO_BEGIN_C

// Ranks that these kernels accept; more is UNIMPLEMENTED.
enum { CPU_KERNEL_RANK_LIMIT = 64 };

// Copies target[sum target_strides[d] * i[d]] = source[sum source_strides[d] * i[d]] for all i below `sizes`. Source
// and target must not overlap. Strides may be 0 or negative in the source, not 0 in the target. Blocked for the cache
// if the innermost dimensions differ (transposes), parallel over the pool.
void cpu_copy_strided(CpuPool *pool, int rank, const int64_t *sizes, int width, void *target,
                      const int64_t *target_strides, const void *source, const int64_t *source_strides);

// Does memcpy on the pool, past the caches if the arrays are larger than those.
void cpu_copy_bytes(CpuPool *pool, void *target, const void *source, int64_t bytes);

// From this size on arrays are larger than what the caches keep for their next reader.
enum { CPU_COPY_STREAMED_BYTES = 8 << 20 };

// Copies to[i * to_step] = from[i * from_step] for i below `count`, on this thread; steps may be negative, the arrays
// must not overlap.
void cpu_copy_run(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t count, int width);

// Copies `count` rows of `bytes` bytes, on this thread. Strides, from row to row, are in bytes here; the arrays must
// not overlap.
void cpu_copy_rows(int64_t count, int64_t bytes, void *target, int64_t to_stride, const void *source,
                   int64_t from_stride);

// Copies `count` rows of `length` elements to where they are contiguous, if they are short (at most CPU_SHUFFLE_BYTES
// bytes) and side by side in the source too, and either the rows (step 1, stride -length) or the elements of each (step
// -1, stride length) are in reverse order: flips of points, of pixels and of their channels. Steps and strides are
// those of the source, in elements, `source` is the first element copied, and the arrays do not overlap. Returns false,
// with nothing copied, if the rows are others or too few to gain by it, or if `moves` has no kernel.
bool cpu_copy_reversed_rows(const CpuMoveKernels *moves, int64_t count, int64_t length, int width, void *target,
                            const void *source, int64_t step, int64_t stride);

// Writes `count` copies of one element, on this thread.
void cpu_fill_run(void *target, const void *element, int64_t count, int width);
// Does the same on the pool.
void cpu_fill(CpuPool *pool, void *target, const void *element, int64_t count, int width);

HLO_END_C

#endif
