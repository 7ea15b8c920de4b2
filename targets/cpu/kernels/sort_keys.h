// SPDX-License-Identifier: Apache-2.0
// Sort keys: elements mapped to unsigned integers that have the required order.
#ifndef MESHLO_TARGETS_CPU_KERNELS_SORT_KEYS_H_
#define MESHLO_TARGETS_CPU_KERNELS_SORT_KEYS_H_

#include "targets/cpu/isa/isa.h"
#include "targets/cpu/kernels/sort.h"

// True for types that have keys: pred, integers, real floats.
bool cpu_sort_has_keys(HloType type);

// Returns the bits of a type's key: 32 for types up to 32 bits, else 64.
int cpu_sort_key_bits(HloType type);

// Writes keys[i] for the elements source[i * stride], i below count, as uint32_t or uint64_t by cpu_sort_key_bits().
// Descending keys are inverted. Sets `invertible` if cpu_sort_unkey() restores the same bits for all of them.
void cpu_sort_make_keys(const CpuLoopKernels *kernels, HloType type, CpuSortOrder order, bool descending, void *keys,
                        const void *source, int64_t stride, int64_t count, bool *invertible);

// True for types whose keys can be converted back: f32, f64 and integers of 32 and 64 bits.
bool cpu_sort_can_unkey(HloType type);
// Converts the first `count` of the invertible `keys` back to elements target[i * stride]; `type` and `descending` are
// those that made them.
void cpu_sort_unkey(HloType type, bool descending, void *target, int64_t stride, const void *keys, int64_t count);

#endif
