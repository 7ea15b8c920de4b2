// SPDX-License-Identifier: Apache-2.0
// Matrix products on the dot-product units for narrow numbers (AMX tiles, AVX-512 BF16 and VNNI): of bf16 with f32
// sums, of 8-bit integers with 32-bit sums, and of f32 numbers as sums of products of their bf16 parts. AVX2 supports
// the integers, as pairs of 16 bits.
//
// f32 products without requested rounding run here too if AMX is available: a number is exactly three bf16 parts, and
// of the nine products those six are summed that are significant in f32; the error is that of an f32 product.
// Infinities, NaN and numbers so small that their parts would be flushed to zero do not survive this. Packing detects
// them, and the caller then multiplies in f32 instead. It does the same for numbers so large that a sum could overflow:
// results are infinite or NaN in the same places on every instruction set.
//
// Only the depth determines how each element's sum is split: chunks of 32 (bf16) or 64 (integers) in rising order,
// within a chunk in the instruction set's order (isa/tiles_*.c). It depends on neither the workers nor the numbers
// around it.
#ifndef MESHLO_TARGETS_CPU_DENSE_TILES_H_
#define MESHLO_TARGETS_CPU_DENSE_TILES_H_

#include "targets/cpu/dense/matmul_internal.h"

HLO_BEGIN_C

// Computes out = the product, on the pool. *done is false, and `out` undefined, if there are no kernels for it, it is
// too small to gain from them, or its numbers do not allow it. RESOURCE_EXHAUSTED if there is no memory for packing.
HLO_NODISCARD HloStatus cpu_tiles_matmul(CpuPool *pool, const CpuMatmul *matmul, void *out, const void *lhs,
                                         const void *rhs, bool *done);

// Whether cpu_tiles_matmul() computes this product if its numbers allow it.
bool cpu_tiles_are_chosen(CpuFeatures features, const CpuMatmul *matmul);

// Returns the depth of the blocks whose sums are added up; 0 if that depends on the numbers.
int64_t cpu_tiles_depth_part(CpuFeatures features, const CpuMatmul *matmul);

// Returns the bytes of scratch memory for cpu_tiles_serial(), a multiple of 64; 0 if that does not support the product.
size_t cpu_tiles_scratch_bytes(const CpuProduct *product);

// For products that share their right side: returns its packed size in bytes (0 if cpu_tiles_serial() does not support
// the product).
size_t cpu_tiles_right_bytes(const CpuProduct *product);
// Packs b into cpu_tiles_right_bytes() bytes, aligned to 64, for product->b_tiles. False if its numbers do not allow
// it.
bool cpu_tiles_pack_right(const CpuProduct *product, void *to, const void *b);

// Multiplies f32 arrays on this thread: as above, with c incremented if product->accumulate is set. False: c is
// unchanged. `scratch` is aligned to 64.
bool cpu_tiles_serial(const CpuProduct *product, void *c, const void *a, const void *b, void *scratch);

HLO_END_C

#endif
