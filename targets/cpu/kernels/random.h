// SPDX-License-Identifier: Apache-2.0
// Counter-based random bits, bit for bit as XLA's rng-bit-generator defines them (its operation semantics): the bits of
// an element are a function of the state and the element's index, so any part can be generated separately.
#ifndef MESHLO_TARGETS_CPU_KERNELS_RANDOM_H_
#define MESHLO_TARGETS_CPU_KERNELS_RANDOM_H_

#include <stdint.h>

#include "targets/cpu/host/pool.h"

HLO_BEGIN_C

// Applies the Threefry-2x32 block function, 20 rounds, to `count` pairs: (y0[i], y1[i]) = threefry(key, (x0[i],
// x1[i])). In place allowed.
void cpu_threefry_blocks(CpuPool *pool, const uint32_t key[2], int64_t count, const uint32_t *x0, const uint32_t *x1,
                         uint32_t *y0, uint32_t *y1);

// Generates JAX's partitionable bits: element i gets the block of the 64-bit counter first + i as (high word, low
// word), both words for 64-bit elements (word 0 above word 1), their exclusive or for 32 and its low bits for 16 and 8.
void cpu_threefry_counter_bits(CpuPool *pool, const uint32_t key[2], uint64_t first, int64_t count, int bits,
                               void *out);

// Computes rng-bit-generator, algorithm THREE_FRY: state is u64[2] (key, counter), the array is row-major of unsigned
// elements of 8, 16, 32 or 64 bits. Writes the new state. State and new state may be the same.
void cpu_rng_threefry(CpuPool *pool, const uint64_t state[2], uint64_t new_state[2], int rank, const int64_t *sizes,
                      int bits, void *out);

// Does the same for PHILOX (also the meaning of DEFAULT): state of 2 or 3 u64 (key, counter low, counter high).
void cpu_rng_philox(CpuPool *pool, int state_words, const uint64_t *state, uint64_t *new_state, int rank,
                    const int64_t *sizes, int bits, void *out);

HLO_END_C

#endif
