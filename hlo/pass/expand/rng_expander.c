// SPDX-License-Identifier: Apache-2.0
// Expands rng-bit-generator to integer arithmetic: Threefry-2x32 with 20 rounds, Philox-4x32 with 10, with blocks
// numbered as in XLA (see hlo/eval/random.c, with which this must agree bit for bit).
//
// A generator makes words in blocks: threefry two of 32 bits from one 64-bit counter, philox four from one of 128 bits.
// The expansion computes word w of all blocks at once, as a vector over blocks, and interleaves the words afterwards.
// The distribution of a block's words over the result is defined by XLA, not by the algorithm: threefry gives
// neighbours along one dimension (split_shape), philox neighbours of the flat array. Constants and rotations are those
// of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#include <assert.h>

#include "hlo/base/arithmetic.h"
#include "hlo/pass/support.h"

// A 32-bit value of every block.
typedef HloInstruction *Words;

typedef struct Bits {
    HloInstruction *like;  // the rng-bit-generator
    HloInts dims;          // {blocks}
    int64_t blocks;
} Bits;

// Applies one op to every block.
static HloInstruction *op(const Bits *bits, HloOpcode opcode, HloInstruction *a, HloInstruction *b) {
    return hlo_pass_binary(bits->like, opcode, a, b);
}

// The same number for every block.
static HloInstruction *number(const Bits *bits, HloType type, uint64_t value) {
    HloInstruction *scalar = hlo_pass_integer(bits->like, type, (int64_t)value);
    return hlo_pass_broadcast(bits->like, scalar, bits->dims, (HloInts){NULL, 0});
}

// Element `index` of the state, repeated for every block.
static HloInstruction *state_word(const Bits *bits, int64_t index) {
    HloInstruction *one =
        hlo_pass_slice(bits->like, bits->like->operands[0], HLO_DIMS(index), HLO_DIMS(index + 1), HLO_DIMS(1));
    HloInstruction *scalar = hlo_pass_reshape(bits->like, one, HLO_DIMS());
    return hlo_pass_broadcast(bits->like, scalar, bits->dims, (HloInts){NULL, 0});
}

// The lower 32 bits of 64.
static Words low_word(const Bits *bits, HloInstruction *wide) {
    return hlo_pass_convert(bits->like, wide, HLO_U32);
}

// The upper 32 bits of 64.
static Words high_word(const Bits *bits, HloInstruction *wide) {
    return low_word(bits, op(bits, HLO_OP_SHIFT_RIGHT_LOGICAL, wide, number(bits, HLO_U64, 32)));
}

// The 64 bits formed by two words.
static HloInstruction *wide_word(const Bits *bits, Words low, Words high) {
    HloInstruction *upper =
        op(bits, HLO_OP_SHIFT_LEFT, hlo_pass_convert(bits->like, high, HLO_U64), number(bits, HLO_U64, 32));
    return op(bits, HLO_OP_OR, upper, hlo_pass_convert(bits->like, low, HLO_U64));
}

// 0, 1, 2 ... for the blocks, u64.
static HloInstruction *block_numbers(const Bits *bits) {
    return hlo_pass_make(bits->like, &(HloBuildRequest){.opcode = HLO_OP_IOTA,
                                                        .attributes = &(HloIotaAttributes){0},
                                                        .type = HLO_U64,
                                                        .dims = bits->dims,
                                                        .has_dims = true});
}

// Rotates to the left; a shift by 32 never happens, distances are 6 to 29.
static Words rotate(const Bits *bits, Words x, int distance) {
    return op(bits, HLO_OP_OR, op(bits, HLO_OP_SHIFT_LEFT, x, number(bits, HLO_U32, (uint64_t)distance)),
              op(bits, HLO_OP_SHIFT_RIGHT_LOGICAL, x, number(bits, HLO_U32, (uint64_t)(32 - distance))));
}

// Runs twenty rounds in five groups of four, with a key injected after each group; the third key is the parity of the
// other two and Skein's constant.
static void threefry(const Bits *bits, HloInstruction *key, HloInstruction *counter, Words words[2]) {
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    Words keys[3] = {low_word(bits, key), high_word(bits, key), NULL};
    keys[2] = op(bits, HLO_OP_XOR, op(bits, HLO_OP_XOR, keys[0], keys[1]), number(bits, HLO_U32, 0x1BD11BDA));
    Words a = op(bits, HLO_OP_ADD, low_word(bits, counter), keys[0]);
    Words b = op(bits, HLO_OP_ADD, high_word(bits, counter), keys[1]);
    for (uint64_t group = 1; group <= 5; group++) {
        for (int i = 0; i < 4; i++) {
            a = op(bits, HLO_OP_ADD, a, b);
            b = op(bits, HLO_OP_XOR, rotate(bits, b, rotations[(group - 1) % 2][i]), a);
        }
        a = op(bits, HLO_OP_ADD, a, keys[group % 3]);
        b = op(bits, HLO_OP_ADD, op(bits, HLO_OP_ADD, b, keys[(group + 1) % 3]), number(bits, HLO_U32, group));
    }
    words[0] = a;
    words[1] = b;
}

// Runs ten rounds: each multiplies two of the words by constants, exchanges halves of the products, and advances the
// keys by Weyl constants.
static void philox(const Bits *bits, HloInstruction *key, HloInstruction *low, HloInstruction *high, Words words[4]) {
    Words x[4] = {low_word(bits, low), high_word(bits, low), low_word(bits, high), high_word(bits, high)};
    Words k0 = low_word(bits, key), k1 = high_word(bits, key);
    for (int round = 0; round < 10; round++) {
        HloInstruction *p0 =
            op(bits, HLO_OP_MULTIPLY, hlo_pass_convert(bits->like, x[0], HLO_U64), number(bits, HLO_U64, 0xD2511F53));
        HloInstruction *p1 =
            op(bits, HLO_OP_MULTIPLY, hlo_pass_convert(bits->like, x[2], HLO_U64), number(bits, HLO_U64, 0xCD9E8D57));
        Words next0 = op(bits, HLO_OP_XOR, op(bits, HLO_OP_XOR, high_word(bits, p1), x[1]), k0);
        Words next2 = op(bits, HLO_OP_XOR, op(bits, HLO_OP_XOR, high_word(bits, p0), x[3]), k1);
        x[0] = next0;
        x[1] = low_word(bits, p1);
        x[2] = next2;
        x[3] = low_word(bits, p0);
        k0 = op(bits, HLO_OP_ADD, k0, number(bits, HLO_U32, 0x9E3779B9));
        k1 = op(bits, HLO_OP_ADD, k1, number(bits, HLO_U32, 0xBB67AE85));
    }
    for (int w = 0; w < 4; w++) words[w] = x[w];
}

// Splits the shape at the dimension whose neighbours share a threefry block: the first even one, else the largest.
static void split_shape(const HloShape *shape, int64_t *outer, int64_t *size, int64_t *inner) {
    assert(hlo_shape_is_array(shape));
    int32_t split = 0;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] % 2 == 0) {
            split = i;
            break;
        }
        if (shape->dims[i] > shape->dims[split]) split = i;
    }
    *outer = *inner = 1;
    for (int32_t i = 0; i < split; i++) *outer *= shape->dims[i];
    for (int32_t i = split + 1; i < shape->rank; i++) *inner *= shape->dims[i];
    *size = shape->rank > 0 ? shape->dims[split] : 1;
}

// Interleaves words 0 .. count-1 of every block along dimension 1 of (outer, blocks, count, inner).
static HloInstruction *interleave(const Bits *bits, HloInstruction *const *words, int64_t count, HloInts outer_half,
                                  int64_t inner) {
    assert(count > 0);
    HloInstruction *columns[4];
    int64_t outer = outer_half.items[0], half = outer_half.items[1];
    for (int64_t w = 0; w < count; w++) {
        columns[w] = hlo_pass_reshape(bits->like, words[w], HLO_DIMS(outer, half, 1, inner));
    }
    HloInstruction *joined = columns[0];
    if (count > 1) {
        joined = hlo_pass_make(bits->like, &(HloBuildRequest){.opcode = HLO_OP_CONCATENATE,
                                                              .operands = columns,
                                                              .operand_count = count,
                                                              .attributes = &(HloDimensionsAttributes){HLO_DIMS(2)}});
    }
    return hlo_pass_reshape(bits->like, joined, HLO_DIMS(outer, half * count, inner));
}

// The first `size` elements of dimension 1, with the sizes and type of the result.
static HloInstruction *finish(const Bits *bits, HloInstruction *x, int64_t size, const HloShape *shape) {
    HloInts dims = hlo_shape_dims(x->shape);
    HloInstruction *part = hlo_pass_slice(bits->like, x, HLO_DIMS(0, 0, 0),
                                          HLO_DIMS(dims.items[0], size, dims.items[2]), HLO_DIMS(1, 1, 1));
    HloInstruction *sized = hlo_pass_reshape(bits->like, part, hlo_shape_dims(shape));
    static const HloType unsigned_types[] = {HLO_U8, HLO_U16, HLO_U32, HLO_U64};
    for (size_t t = 0; t < HLO_COUNT_OF(unsigned_types); t++) {
        if (hlo_type_info(unsigned_types[t])->bits != hlo_type_info(shape->type)->bits) continue;
        if (sized->shape->type != unsigned_types[t]) sized = hlo_pass_convert(bits->like, sized, unsigned_types[t]);
        break;
    }
    if (sized->shape->type == shape->type) return sized;
    return hlo_pass_make(
        bits->like, &(HloBuildRequest){
                        .opcode = HLO_OP_BITCAST_CONVERT, .operands = &sized, .operand_count = 1, .type = shape->type});
}

// True if an element takes two words.
static bool is_wide(const HloShape *shape) {
    return hlo_type_info(shape->type)->bits == 64;
}

// Narrow results take half as many blocks as the split dimension has elements, wide ones a block each in row-major
// order. For an odd dimension finish() drops the last word of the last block.
static HloInstruction *threefry_bits(Bits *bits, const HloShape *shape) {
    int64_t outer, size, inner, count = is_wide(shape) ? 1 : 2;
    split_shape(shape, &outer, &size, &inner);
    if (is_wide(shape)) {
        size = hlo_shape_elements(shape);
        outer = inner = 1;
    }
    int64_t half = hlo_divide_up(size, count);
    bits->blocks = outer * half * inner;
    bits->dims = HLO_DIMS(bits->blocks);
    Words words[2];
    HloInstruction *counter = op(bits, HLO_OP_ADD, state_word(bits, 1), block_numbers(bits));
    threefry(bits, state_word(bits, 0), counter, words);
    if (is_wide(shape)) words[0] = wide_word(bits, words[0], words[1]);
    // A scalar takes the first word of its block.
    if (shape->rank == 0) count = 1;
    return finish(bits, interleave(bits, words, count, HLO_DIMS(outer, half), inner), size, shape);
}

// The 128-bit counter is (state[1], state[2]) of three words, or (state[1], key) of two, as in XLA; its lower half
// counts blocks and carries into the upper one.
static HloInstruction *philox_bits(Bits *bits, const HloShape *shape, int64_t state_size) {
    int64_t size = hlo_shape_elements(shape), count = is_wide(shape) ? 2 : 4;
    bits->blocks = hlo_divide_up(size, count);
    bits->dims = HLO_DIMS(bits->blocks);
    HloInstruction *start = state_word(bits, 1), *low = op(bits, HLO_OP_ADD, start, block_numbers(bits));
    HloInstruction *carry =
        hlo_pass_convert(bits->like, hlo_pass_compare(bits->like, low, start, HLO_ComparisonDirection_LT), HLO_U64);
    HloInstruction *high = op(bits, HLO_OP_ADD, state_word(bits, state_size == 3 ? 2 : 0), carry);
    Words words[4];
    philox(bits, state_word(bits, 0), low, high, words);
    if (is_wide(shape)) {
        words[0] = wide_word(bits, words[0], words[1]);
        words[1] = wide_word(bits, words[2], words[3]);
    }
    return finish(bits, interleave(bits, words, count, HLO_DIMS(1, bits->blocks), 1), size, shape);
}

// The state with the counter advanced by the number of blocks used.
static HloInstruction *next_state(Bits *bits, int64_t state_size, bool carries) {
    int64_t blocks = bits->blocks;
    bits->dims = HLO_DIMS(1);
    HloInstruction *parts[3] = {state_word(bits, 0), NULL, NULL}, *before = state_word(bits, 1);
    parts[1] = op(bits, HLO_OP_ADD, before, number(bits, HLO_U64, (uint64_t)blocks));
    if (state_size == 3) {
        parts[2] = state_word(bits, 2);
        HloInstruction *carry = hlo_pass_convert(
            bits->like, hlo_pass_compare(bits->like, parts[1], before, HLO_ComparisonDirection_LT), HLO_U64);
        if (carries) parts[2] = op(bits, HLO_OP_ADD, parts[2], carry);
    }
    return hlo_pass_make(bits->like, &(HloBuildRequest){.opcode = HLO_OP_CONCATENATE,
                                                        .operands = parts,
                                                        .operand_count = state_size,
                                                        .attributes = &(HloDimensionsAttributes){HLO_DIMS(0)}});
}

// The result's part that holds the bits, which may be all of it.
static const HloShape *shape_of_bits(const HloInstruction *i) {
    return hlo_shape_is_tuple(i->shape) ? i->shape->elements[1] : i->shape;
}

// States of other sizes belong to the default algorithm of some platform, which is undefined here. Types below a byte
// cannot be the result of a bitcast.
static bool may_expand(const HloInstruction *i) {
    if (i->opcode != HLO_OP_RNG_BIT_GENERATOR || !hlo_pass_may_replace(i)) return false;
    if (hlo_shape_is_dynamic(i->shape)) return false;
    const HloShape *state = i->operands[0]->shape, *bits = shape_of_bits(i);
    int width = hlo_type_info(bits->type)->bits;
    return state->type == HLO_U64 && state->rank == 1 && (state->dims[0] == 2 || state->dims[0] == 3) && width >= 8 &&
           width <= 64 && hlo_shape_elements(bits) > 0 && hlo_shape_elements(bits) < HLO_PASS_MANY;
}

// Makes the bits first: they determine by how many blocks the state advances.
static bool expand(HloInstruction *i, const HloPassEnv *env) {
    (void)env;
    assert(i->parent);
    if (!may_expand(i)) return false;
    bool is_threefry = HLO_ATTRIBUTES(i, RngBits)->algorithm == HLO_RandomAlgorithm_THREE_FRY;
    int64_t state_size = i->operands[0]->shape->dims[0];
    Bits bits = {.like = i};
    HloInstruction *results[2];
    results[1] =
        is_threefry ? threefry_bits(&bits, shape_of_bits(i)) : philox_bits(&bits, shape_of_bits(i), state_size);
    if (!hlo_shape_is_tuple(i->shape)) return hlo_pass_replace(i, results[1]);
    results[0] = next_state(&bits, state_size, !is_threefry);
    return hlo_pass_replace(i, hlo_pass_tuple(i, results, 2));
}

HloStatus hlo_pass_rng_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    return hlo_pass_each(module, env, expand, changed);
}
