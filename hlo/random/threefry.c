// SPDX-License-Identifier: Apache-2.0
// Threefry-2x32 as a graph, and the keys and bits that are derived from it, in the terms of jax/_src/prng.py.
//
// The hash maps two words to two words under a key of two words. It runs five groups of four rounds, (x0 += x1, x1 =
// rotate(x1) ^ x0), and after each group it adds a word of the key schedule (k0, k1, k0 ^ k1 ^ parity, k0, ..) to each
// word. Random bits are hashes of counters. The form determines the block that holds the counter of an element:
//
//   partitionable  element (i, j) of u32[2,3] is the block (0, 3 i + j), its two words xored: any part of the array
//                  can be made without the rest, so that it can be sharded
//   original       element i of 5 is a word of the blocks (0, 3), (1, 4), (2, 0): first all first words, then all
//                  second ones
#include <assert.h>

#include "hlo/random/internal.h"

// The rotations of the rounds, which repeat after eight, and the constant of the key schedule: Salmon et al. 2011.
static const uint32_t rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
static const uint32_t key_parity = 0x1BD11BDA;

HloInstruction *hlo_random_refuse(HloBuilder *builder, const char *function, const char *complaint) {
    hlo_builder_fail(builder, hlo_error(HLO_INVALID_ARGUMENT, "%s: %s", function, complaint));
    return NULL;
}

// A scalar of any integer type, repeated to `dims`, exact to 64 bits.
static HloInstruction *fill(HloBuilder *builder, HloType type, HloInts dims, uint64_t value) {
    return hlo_build_broadcast(builder, hlo_build_scalar_int64(builder, type, (int64_t)value), dims, HLO_DIMS());
}

HloInstruction *hlo_random_with(HloBuilder *builder, HloBuildBinary *op, HloInstruction *x, uint64_t number) {
    if (!x) return NULL;
    HloInts dims = hlo_build_dims(x);
    return op(builder, x, fill(builder, x->shape->type, dims, number));
}

static bool is_key(const HloInstruction *key) {
    return key && hlo_shape_is_array(key->shape) && key->shape->type == HLO_U32 && key->shape->rank == 1 &&
           key->shape->dims[0] == 2;
}

// A word of the key as a scalar.
static HloInstruction *key_word(HloBuilder *builder, HloInstruction *key, int64_t index) {
    HloInstruction *word = hlo_build_slice(builder, key, HLO_DIMS(index), HLO_DIMS(index + 1), HLO_DIMS());
    return hlo_build_reshape(builder, word, HLO_DIMS());
}

static HloInstruction *rotate_left(HloBuilder *builder, HloInstruction *x, uint32_t distance) {
    return hlo_build_or(builder, hlo_random_with(builder, hlo_build_shift_left, x, distance),
                        hlo_random_with(builder, hlo_build_shift_right_logical, x, 32 - distance));
}

void hlo_random_threefry(HloBuilder *builder, HloInstruction *key, HloInstruction *words[2]) {
    assert(builder && words);
    HloInstruction *x0 = words[0], *x1 = words[1];
    words[0] = words[1] = NULL;
    if (!key || !x0 || !x1) return;
    if (!is_key(key)) {
        hlo_random_refuse(builder, "threefry", "a key must be an array u32[2]");
        return;
    }
    HloInts dims = hlo_build_dims(x0);
    HloInstruction *schedule[3] = {key_word(builder, key, 0), key_word(builder, key, 1)};
    schedule[2] = hlo_random_with(builder, hlo_build_xor, hlo_build_xor(builder, schedule[0], schedule[1]), key_parity);
    // The group's number is added to the schedule while it is a scalar: one addition for all elements.
    x0 = hlo_build_add(builder, x0, hlo_build_broadcast(builder, schedule[0], dims, HLO_DIMS()));
    x1 = hlo_build_add(builder, x1, hlo_build_broadcast(builder, schedule[1], dims, HLO_DIMS()));
    for (uint32_t group = 1; group <= 5; group++) {
        for (int round = 0; round < 4; round++) {
            x0 = hlo_build_add(builder, x0, x1);
            x1 = hlo_build_xor(builder, rotate_left(builder, x1, rotations[(group - 1) % 2][round]), x0);
        }
        HloInstruction *second = hlo_random_with(builder, hlo_build_add, schedule[(group + 1) % 3], group);
        x0 = hlo_build_add(builder, x0, hlo_build_broadcast(builder, schedule[group % 3], dims, HLO_DIMS()));
        x1 = hlo_build_add(builder, x1, hlo_build_broadcast(builder, second, dims, HLO_DIMS()));
    }
    words[0] = x0;
    words[1] = x1;
}

// ---- keys

HloInstruction *hlo_random_key(HloBuilder *builder, uint64_t seed) {
    uint32_t words[2] = {(uint32_t)(seed >> 32), (uint32_t)seed};
    return hlo_build_array(builder, HLO_U32, HLO_DIMS(2), words);
}

HloInstruction *hlo_random_row(HloBuilder *builder, HloInstruction *rows, int64_t index) {
    assert(index >= 0);
    if (!rows) return NULL;
    const HloShape *shape = rows->shape;
    if (!hlo_shape_is_array(shape) || shape->rank < 1 || shape->rank > HLO_MAXIMUM_RANK || index < 0 ||
        index >= shape->dims[0])
        return hlo_random_refuse(builder, "row", "the array has no such row");
    int64_t starts[HLO_MAXIMUM_RANK] = {index}, limits[HLO_MAXIMUM_RANK] = {index + 1};
    for (int64_t i = 1; i < shape->rank; i++) limits[i] = shape->dims[i];
    HloInstruction *row =
        hlo_build_slice(builder, rows, (HloInts){starts, shape->rank}, (HloInts){limits, shape->rank}, HLO_DIMS());
    return hlo_build_reshape(builder, row, (HloInts){shape->dims + 1, shape->rank - 1});
}

// The row-major number of each element, as its high and low 32 bits.
static void element_counters(HloBuilder *builder, HloInts dims, int64_t elements, HloInstruction *words[2]) {
    assert(elements >= 0);
    bool wide = elements > (int64_t)1 << 32;
    HloType type = wide ? HLO_U64 : HLO_U32;
    HloInstruction *sum = dims.count ? NULL : fill(builder, type, dims, 0);
    uint64_t stride = 1;
    for (int64_t i = dims.count - 1; i >= 0; i--) {
        HloInstruction *step = hlo_build_iota(builder, type, dims, i);
        if (stride != 1) step = hlo_random_with(builder, hlo_build_mul, step, stride);
        sum = sum ? hlo_build_add(builder, sum, step) : step;
        stride *= (uint64_t)dims.items[i];
    }
    words[0] =
        wide ? hlo_build_convert(builder, hlo_random_with(builder, hlo_build_shift_right_logical, sum, 32), HLO_U32)
             : fill(builder, HLO_U32, dims, 0);
    words[1] = wide ? hlo_build_convert(builder, sum, HLO_U32) : sum;
}

// Computes the original form's hash of 0, 1, … count - 1, u32[count]: the first half are first words of blocks, the
// second half second words; an odd last counter is paired with 0.
static HloInstruction *hash_of_halves(HloBuilder *builder, HloInstruction *key, int64_t count) {
    assert(count >= 0);
    int64_t half = count / 2 + count % 2;
    HloInstruction *first = hlo_build_iota(builder, HLO_U32, HLO_DIMS(half), 0);
    HloInstruction *second = hlo_random_with(builder, hlo_build_add, first, (uint64_t)half);
    if (count % 2) {
        HloInstruction *limit = fill(builder, HLO_U32, HLO_DIMS(half), (uint64_t)count);
        HloInstruction *beyond = hlo_build_compare(builder, second, limit, HLO_ComparisonDirection_GE);
        second = hlo_build_select(builder, beyond, fill(builder, HLO_U32, HLO_DIMS(half), 0), second);
    }
    HloInstruction *words[2] = {first, second};
    hlo_random_threefry(builder, key, words);
    HloInstruction *all = hlo_build_concatenate(builder, words, 2, 0);
    return count % 2 ? hlo_build_slice(builder, all, HLO_DIMS(0), HLO_DIMS(count), HLO_DIMS()) : all;
}

HloInstruction *hlo_random_split(HloBuilder *builder, HloRandomForm form, HloInstruction *key, int64_t count) {
    if (!key) return NULL;
    if (count < 1 || count > INT32_MAX)
        return hlo_random_refuse(builder, "split", "the number of keys must be 1 or more");
    if (form == HLO_RANDOM_ORIGINAL)
        return hlo_build_reshape(builder, hash_of_halves(builder, key, 2 * count), HLO_DIMS(count, 2));
    HloInstruction *words[2];
    element_counters(builder, HLO_DIMS(count), count, words);
    hlo_random_threefry(builder, key, words);
    for (int i = 0; i < 2; i++) words[i] = hlo_build_reshape(builder, words[i], HLO_DIMS(count, 1));
    return hlo_build_concatenate(builder, words, 2, 1);
}

HloInstruction *hlo_random_fold_in(HloBuilder *builder, HloInstruction *key, HloInstruction *number) {
    if (!key || !number) return NULL;
    if (number->shape->type != HLO_U32 || number->shape->rank != 0)
        return hlo_random_refuse(builder, "fold_in", "the number must be a scalar u32[]");
    HloInstruction *words[2] = {fill(builder, HLO_U32, HLO_DIMS(), 0), number};
    hlo_random_threefry(builder, key, words);
    for (int i = 0; i < 2; i++) words[i] = hlo_build_reshape(builder, words[i], HLO_DIMS(1));
    return hlo_build_concatenate(builder, words, 2, 0);
}

// ---- bits

// (high << 32) | low.
static HloInstruction *join_words(HloBuilder *builder, HloInstruction *high, HloInstruction *low) {
    high = hlo_build_convert(builder, high, HLO_U64);
    return hlo_build_or(builder, hlo_random_with(builder, hlo_build_shift_left, high, 32),
                        hlo_build_convert(builder, low, HLO_U64));
}

// An array of `count` numbers of 8 or 16 bits in the original form: each word of the hash gives several, low ones
// first.
static HloInstruction *narrow_halves(HloBuilder *builder, HloInstruction *key, HloType type, int64_t count) {
    assert(count >= 0);
    int64_t bits = hlo_type_info(type)->bits, each = 32 / bits, words = count / each + (count % each != 0);
    HloInstruction *hash =
        hlo_build_broadcast(builder, hash_of_halves(builder, key, words), HLO_DIMS(words, each), HLO_DIMS(0));
    HloInstruction *shift = hlo_random_with(builder, hlo_build_mul,
                                            hlo_build_iota(builder, HLO_U32, HLO_DIMS(words, each), 1), (uint64_t)bits);
    HloInstruction *parts = hlo_build_convert(builder, hlo_build_shift_right_logical(builder, hash, shift), type);
    parts = hlo_build_reshape(builder, parts, HLO_DIMS(words * each));
    return hlo_build_slice(builder, parts, HLO_DIMS(0), HLO_DIMS(count), HLO_DIMS());
}

static HloInstruction *original_bits(HloBuilder *builder, HloInstruction *key, HloType type, int64_t count) {
    assert(count >= 0);
    if (hlo_type_info(type)->bits < 32) return narrow_halves(builder, key, type, count);
    if (type == HLO_U32) return hash_of_halves(builder, key, count);
    HloInstruction *words = hash_of_halves(builder, key, 2 * count);
    return join_words(builder, hlo_build_slice(builder, words, HLO_DIMS(0), HLO_DIMS(count), HLO_DIMS()),
                      hlo_build_slice(builder, words, HLO_DIMS(count), HLO_DIMS(2 * count), HLO_DIMS()));
}

static HloInstruction *partitionable_bits(HloBuilder *builder, HloInstruction *key, HloType type, HloInts dims,
                                          int64_t elements) {
    assert(elements >= 0);
    HloInstruction *words[2];
    element_counters(builder, dims, elements, words);
    hlo_random_threefry(builder, key, words);
    if (type == HLO_U64) return join_words(builder, words[0], words[1]);
    HloInstruction *mixed = hlo_build_xor(builder, words[0], words[1]);
    return type == HLO_U32 ? mixed : hlo_build_convert(builder, mixed, type);
}

HloInstruction *hlo_random_bits(HloBuilder *builder, HloRandomForm form, HloInstruction *key, HloType type,
                                HloInts dims) {
    assert(builder);
    if (!key) return NULL;
    if (type != HLO_U8 && type != HLO_U16 && type != HLO_U32 && type != HLO_U64)
        return hlo_random_refuse(builder, "random bits", "the element type must be u8, u16, u32 or u64");
    if (dims.count > HLO_MAXIMUM_RANK) return hlo_random_refuse(builder, "random bits", "too many dimensions");
    int64_t elements = 1;
    for (int64_t i = 0; i < dims.count; i++) {
        if (dims.items[i] < 0 || __builtin_mul_overflow(elements, dims.items[i], &elements))
            return hlo_random_refuse(builder, "random bits", "the sizes are negative or too large");
    }
    if (elements == 0) return fill(builder, type, dims, 0);
    if (form == HLO_RANDOM_PARTITIONABLE) return partitionable_bits(builder, key, type, dims, elements);
    // Counters of this form are 32 bits wide. Beyond that JAX uses several keys, which no known program relies on.
    if (elements > (int64_t)UINT32_MAX / 2)
        return hlo_random_refuse(builder, "random bits", "the original form makes at most 2^31 - 1 elements");
    return hlo_build_reshape(builder, original_bits(builder, key, type, elements), dims);
}
