// SPDX-License-Identifier: Apache-2.0
// Random numbers as graphs. Everything here appends elementwise integer arithmetic to a builder, so the numbers follow
// from the key alone, on any mesh and without communication, and are those that jax.random gives for the same key.
//
//     HloInstruction *key = hlo_random_key(b, 0);                              // jax.random.PRNGKey(0)
//     HloInstruction *keys = hlo_random_split(b, form, key, 2);                // jax.random.split(key)
//     HloInstruction *w = hlo_random_normal(b, form, hlo_random_row(b, keys, 0), HLO_F32, HLO_DIMS(784, 128));
//
// A key is a u32[2] array: the two words of a Threefry-2x32 key (Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3", SC 2011), high word of the seed first. As everywhere in the builder, a NULL operand gives NULL, the builder
// keeps the first error (INVALID_ARGUMENT for element types, sizes and keys that do not fit), and only one thread at a
// time may work on a module.
//
// Stability: stable.
#ifndef MESHLO_HLO_RANDOM_RANDOM_H_
#define MESHLO_HLO_RANDOM_RANDOM_H_

#include "hlo/ir/builder.h"

HLO_BEGIN_C

// The assignment of elements to blocks of Threefry, which JAX calls jax_threefry_partitionable.
typedef enum HloRandomForm {
    // Element i of an array is made from counter i, 64 bits wide: each device makes its own part. JAX's default since
    // 0.5.0.
    HLO_RANDOM_PARTITIONABLE,
    // Elements i and i + n/2 share a block, so that two halves of an array belong together: JAX's earlier default.
    // Here, too, the partitioner needs no communication, at the price of computing up to twice as many blocks.
    HLO_RANDOM_ORIGINAL,
} HloRandomForm;

// The key of a seed, a constant u32[2]: jax.random.PRNGKey(seed).
HLO_EXPORT HloInstruction *hlo_random_key(HloBuilder *builder, uint64_t seed);
// Row `index` of an array, without its first dimension: one of the keys that hlo_random_split() made.
HLO_EXPORT HloInstruction *hlo_random_row(HloBuilder *builder, HloInstruction *rows, int64_t index);
// `count` new keys from one, u32[count,2].
HLO_EXPORT HloInstruction *hlo_random_split(HloBuilder *builder, HloRandomForm form, HloInstruction *key,
                                            int64_t count);
// A new key from a key and a number, u32[] (a step, a layer, a device): jax.random.fold_in(). The same in both forms.
HLO_EXPORT HloInstruction *hlo_random_fold_in(HloBuilder *builder, HloInstruction *key, HloInstruction *number);
// The Threefry-2x32 block function, 20 rounds, element by element: replaces the u32 arrays words[0] and words[1], of
// equal sizes, by their images under `key`. Sets both to NULL on error.
HLO_EXPORT void hlo_random_threefry(HloBuilder *builder, HloInstruction *key, HloInstruction *words[2]);

// Random bits: an array of HLO_U8, HLO_U16, HLO_U32 or HLO_U64.
HLO_EXPORT HloInstruction *hlo_random_bits(HloBuilder *builder, HloRandomForm form, HloInstruction *key, HloType type,
                                           HloInts dims);
// Floats uniformly distributed over low <= x < high: f16, bf16, f32 or f64. As many different values as the mantissa
// has.
HLO_EXPORT HloInstruction *hlo_random_uniform(HloBuilder *builder, HloRandomForm form, HloInstruction *key,
                                              HloType type, HloInts dims, double low, double high);
// Floats with mean 0 and variance 1: f16, bf16, f32 or f64.
HLO_EXPORT HloInstruction *hlo_random_normal(HloBuilder *builder, HloRandomForm form, HloInstruction *key, HloType type,
                                             HloInts dims);
// pred: true with the given probability.
HLO_EXPORT HloInstruction *hlo_random_bernoulli(HloBuilder *builder, HloRandomForm form, HloInstruction *key,
                                                HloInts dims, double probability);
// Floats x >= 0 with density exp(-x): f16, bf16, f32 or f64.
HLO_EXPORT HloInstruction *hlo_random_exponential(HloBuilder *builder, HloRandomForm form, HloInstruction *key,
                                                  HloType type, HloInts dims);
// Integers low <= x < high of 8 to 64 bits, which the type must hold; always `low` when the range is empty. If high -
// low is not a power of two, some numbers are more likely than others, by less than (high - low) / 2^64.
HLO_EXPORT HloInstruction *hlo_random_integers(HloBuilder *builder, HloRandomForm form, HloInstruction *key,
                                               HloType type, HloInts dims, int64_t low, int64_t high);
// x with its elements in random order along `dimension`, in a separate order for each line of elements: the result of
// jax.random.permutation(key, x, axis, independent=True).
HLO_EXPORT HloInstruction *hlo_random_shuffle(HloBuilder *builder, HloRandomForm form, HloInstruction *key,
                                              HloInstruction *x, int64_t dimension);

HLO_END_C

#endif
