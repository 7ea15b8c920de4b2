// SPDX-License-Identifier: Apache-2.0
// Random numbers: rng-bit-generator as XLA defines it bit for bit (its operation semantics, RngBitGenerator), rng, and
// the state of rng-get-and-update-state.
//
// Both generators are functions of a key and a counter (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011): a block of the counter gives two words of 32 bits (threefry) or four (philox), and the next block is the
// counter plus one. Only the order in which blocks fill the result is XLA's own:
//
//   threefry, below 64 bits   the two words of a block are neighbours along one dimension (split_dimension()); see the
//                             picture at fill_threefry_narrow()
//   threefry, 64 bits         one block an element, the first word below
//   philox                    four words, or two of 64 bits, one after the other in row-major order
//
// The state is passed in as u64[2] = (key, counter) or u64[3] = (key, counter low, counter high) and returned with the
// counter after the blocks that were used. pass/rng_expander.c computes the same in HLO ops and must be kept in sync.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/eval/internal.h"

static uint32_t rotate(uint32_t x, int bits) {
    return x << bits | x >> (32 - bits);
}

// Threefry2x32, 20 rounds.
static void threefry(uint64_t key, uint64_t counter, uint32_t words[2]) {
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t keys[3] = {(uint32_t)key, (uint32_t)(key >> 32), 0};
    keys[2] = keys[0] ^ keys[1] ^ 0x1BD11BDA;
    uint32_t a = (uint32_t)counter + keys[0], b = (uint32_t)(counter >> 32) + keys[1];
    for (uint32_t group = 1; group <= 5; group++) {
        for (int i = 0; i < 4; i++) {
            a += b;
            b = rotate(b, rotations[(group - 1) % 2][i]) ^ a;
        }
        a += keys[group % 3];
        b += keys[(group + 1) % 3] + group;
    }
    words[0] = a;
    words[1] = b;
}

// Philox4x32, 10 rounds.
static void philox(uint64_t key, uint64_t low, uint64_t high, uint32_t words[4]) {
    uint32_t x[4] = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53 * x[0], p1 = (uint64_t)0xCD9E8D57 * x[2];
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ x[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ x[3] ^ k1,
                            (uint32_t)p0};
        memcpy(x, next, sizeof(x));
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    memcpy(words, x, sizeof(x));
}

// Writes random bits as an element of any type that has that many or fewer.
static void put_bits(const HloShape *shape, void *data, int64_t index, uint64_t bits) {
    assert(index >= 0);
    int64_t bytes = hlo_type_bytes(shape->type), value = (int64_t)bits;
    char *target = (char *)data + index * bytes;
    if (hlo_type_is_integer(shape->type)) {
        hlo_eval_encode_int64(shape->type, &value, 1, target);
    } else {
        int width = hlo_type_info(shape->type)->bits;
        if (width < 8) bits &= (UINT64_C(1) << width) - 1;
        memcpy(target, &bits, (size_t)bytes);
    }
}

// The dimension whose neighbours share a threefry block of 32-bit numbers: the first even one, else the largest.
static int32_t split_dimension(const HloShape *shape) {
    assert(shape->rank > 0);
    int32_t largest = 0;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] % 2 == 0) return i;
        if (shape->dims[i] > shape->dims[largest]) largest = i;
    }
    return largest;
}

// Fills the array as [outer][size][inner] around the split dimension. Block k of one of its rows fills steps 2k and 2k
// + 1, and blocks are counted over inner first. For u32[2,3] (split is dimension 0, whose size is even) with counter c:
//
//     c.0  c+1.0  c+2.0
//     c.1  c+1.1  c+2.1
//
// The second word of the last block of an odd dimension is dropped. Returns the counter after the last block.
static uint64_t fill_threefry_narrow(const HloShape *shape, uint64_t key, uint64_t counter, void *data) {
    uint32_t words[2];
    if (shape->rank == 0) {
        threefry(key, counter, words);
        put_bits(shape, data, 0, words[0]);
        return counter + 1;
    }
    if (hlo_shape_elements(shape) == 0) return counter;  // the other sizes may be immense
    int32_t split = split_dimension(shape);
    int64_t outer = 1, inner = 1, size = shape->dims[split], half = (size + 1) / 2;
    for (int32_t i = 0; i < split; i++) outer *= shape->dims[i];
    for (int32_t i = split + 1; i < shape->rank; i++) inner *= shape->dims[i];
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t k = 0; k < half; k++) {
            for (int64_t i = 0; i < inner; i++) {
                threefry(key, counter++, words);
                for (int64_t w = 0; w < 2 && 2 * k + w < size; w++) {
                    put_bits(shape, data, (o * size + 2 * k + w) * inner + i, words[w]);
                }
            }
        }
    }
    return counter;
}

// Fills the result and returns the next counter.
static uint64_t fill_threefry(const HloShape *shape, uint64_t key, uint64_t counter, void *data) {
    if (hlo_type_info(shape->type)->bits < 64) return fill_threefry_narrow(shape, key, counter, data);
    int64_t count = hlo_shape_elements(shape);
    for (int64_t i = 0; i < count; i++) {
        uint32_t words[2];
        threefry(key, counter + (uint64_t)i, words);
        put_bits(shape, data, i, (uint64_t)words[1] << 32 | words[0]);
    }
    return counter + (uint64_t)count;
}

// Advances the 128-bit counter {low, high}.
static void fill_philox(const HloShape *shape, uint64_t key, uint64_t counter[2], void *data) {
    int64_t count = hlo_shape_elements(shape), each = hlo_type_info(shape->type)->bits < 64 ? 4 : 2;
    uint32_t words[4];
    for (int64_t i = 0; i < count; i++) {
        if (i % each == 0) {
            philox(key, counter[0], counter[1], words);
            if (++counter[0] == 0) counter[1]++;
        }
        uint64_t bits = each == 4 ? words[i % 4] : (uint64_t)words[2 * (i % 2) + 1] << 32 | words[2 * (i % 2)];
        put_bits(shape, data, i, bits);
    }
}

// The first word of the state is the key and the rest the counter, which is returned advanced by the number of blocks
// drawn. As in XLA, philox with a state of two words also uses the key as the upper half of its counter. A result that
// is no tuple is the bits alone.
HloStatus hlo_eval_rng_bit_generator(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                     HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_RNG_BIT_GENERATOR));
    int32_t algorithm = HLO_ATTRIBUTES(instruction, RngBits)->algorithm;
    HloEvalValue *parts[2] = {NULL, NULL};
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, 2, result, parts));
    HloEvalValue *after = hlo_shape_is_tuple(instruction->shape) ? parts[0] : NULL, *bits = after ? parts[1] : parts[0];
    int64_t bytes = hlo_shape_bytes(operands[0]->shape);
    uint64_t state[3] = {0};
    HLO_FAIL_IF((bytes != 16 && bytes != 24) || (after && hlo_shape_bytes(after->shape) != bytes), HLO_INVALID_ARGUMENT,
                "%%%s: the state must be u64[2] or u64[3]", instruction->name);
    memcpy(state, operands[0]->data, (size_t)bytes);
    if (algorithm == HLO_RandomAlgorithm_THREE_FRY) {
        state[1] = fill_threefry(bits->shape, state[0], state[1], bits->data);
    } else {
        uint64_t counter[2] = {state[1], bytes == 24 ? state[2] : state[0]};
        fill_philox(bits->shape, state[0], counter, bits->data);
        state[1] = counter[0];
        state[2] = counter[1];
    }
    if (after) memcpy(after->data, state, (size_t)bytes);
    return HLO_SUCCESS;
}

// ---- rng: philox over the device's counter, and the steps of the distributions as the partitioner writes them

typedef struct Stream {
    uint64_t low, high;  // the counter's next block
    uint64_t words[2];
    int used;
} Stream;

// The next 64 bits: two draws per block of philox.
static uint64_t draw_bits(Stream *stream) {
    if (stream->used == 2) {
        uint32_t words[4];
        philox(HLO_DRAW_KEY, stream->low, stream->high, words);
        stream->words[0] = (uint64_t)words[1] << 32 | words[0];
        stream->words[1] = (uint64_t)words[3] << 32 | words[2];
        stream->high += ++stream->low == 0;
        stream->used = 0;
    }
    return stream->words[stream->used++];
}

// Converts to the type of the computation: f64, or f32 for all others.
static double as_computed(bool wide, double value) {
    return wide ? value : (double)(float)value;
}

// A uniform number in [0, 1): as many of the highest of `width` bits as the type has below one.
static double unit_interval(bool wide, uint64_t bits, int width) {
    int digits = wide ? 53 : 24;
    if (digits > width) digits = width;
    return ldexp((double)(bits >> (width - digits)), -digits);
}

// The Box-Muller transform of the two halves of a word.
static double standard_normal(bool wide, uint64_t bits) {
    double radius = as_computed(wide, log1p(-unit_interval(wide, bits >> 32, 32)));
    radius = as_computed(wide, sqrt(radius * -2));
    double angle = as_computed(wide, 6.283185307179586);
    angle = as_computed(wide, unit_interval(wide, bits & UINT32_MAX, 32) * angle);
    return as_computed(wide, radius * as_computed(wide, cos(angle)));
}

// Uniform: low + (high - low) u for u in [0, 1), half-open also after rounding. Normal: a is the mean, b the deviation.
static void draw_floats(Stream *stream, const HloShape *shape, bool normal, const void *a, const void *b, char *out) {
    const bool wide = shape->type == HLO_F64;
    const int64_t count = hlo_shape_elements(shape), bytes = hlo_type_bytes(shape->type);
    double low, high;
    hlo_eval_decode_double(shape->type, a, 1, &low);
    hlo_eval_decode_double(shape->type, b, 1, &high);
    const double scale = normal ? high : as_computed(wide, high - low);
    for (int64_t i = 0; i < count; i++, out += bytes) {
        const uint64_t bits = draw_bits(stream);
        double value = normal ? standard_normal(wide, bits) : unit_interval(wide, bits, 64);
        value = as_computed(wide, low + as_computed(wide, value * scale));
        hlo_eval_encode_double(shape->type, &value, 1, out);
        // Rounding may reach the upper end, which is not in the interval.
        hlo_eval_decode_double(shape->type, out, 1, &value);
        if (!normal && !(value < high)) memcpy(out, a, (size_t)bytes);
    }
}

// Draws low + bits mod (high - low); the bias of the remainder is that of XLA's own expansion. A range of 0 is all 2^64
// values, or an empty interval, which HLO leaves undefined.
static void draw_integers(Stream *stream, const HloShape *shape, const void *a, const void *b, char *out) {
    const int64_t count = hlo_shape_elements(shape), bytes = hlo_type_bytes(shape->type);
    int64_t low, high;
    hlo_eval_decode_int64(shape->type, a, 1, &low);
    hlo_eval_decode_int64(shape->type, b, 1, &high);
    const uint64_t range = (uint64_t)high - (uint64_t)low;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = draw_bits(stream);
        const int64_t value = (int64_t)((uint64_t)low + (range ? bits % range : bits));
        hlo_eval_encode_int64(shape->type, &value, 1, out + i * bytes);
    }
}

// Adds to the 128-bit counter, lower half first.
static void advance(HloDraws *draws, uint64_t delta) {
    draws->state[0] += delta;
    if (draws->state[0] < delta) draws->state[1]++;
}

void hlo_draw_numbers(HloDraws *draws, const HloShape *shape, bool normal, const void *a, const void *b, void *out) {
    assert(!hlo_type_is_complex(shape->type)); /* refused before anything runs */
    Stream stream = {.low = draws->state[0], .high = draws->state[1], .used = 2};
    if (hlo_type_is_float(shape->type))
        draw_floats(&stream, shape, normal, a, b, out);
    else
        draw_integers(&stream, shape, a, b, out);
    advance(draws, (uint64_t)hlo_draw_delta(hlo_shape_elements(shape)));
}

void hlo_draw_state(HloDraws *draws, uint64_t delta, void *out, int64_t bytes) {
    memset(out, 0, (size_t)bytes);
    memcpy(out, draws->state, bytes < 16 ? (size_t)bytes : 16);
    advance(draws, delta);
}

HloStatus hlo_eval_rng(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                       HloEvalValue **result) {
    bool normal = HLO_ATTRIBUTES(instruction, Rng)->distribution == HLO_RandomDistribution_NORMAL;
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    hlo_draw_numbers(&device->draws, instruction->shape, normal, operands[0]->data, operands[1]->data, (*result)->data);
    return HLO_SUCCESS;
}

HloStatus hlo_eval_rng_state(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                             HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_RNG_GET_AND_UPDATE_STATE));
    (void)operands;
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    hlo_draw_state(&device->draws, (uint64_t)HLO_ATTRIBUTES(instruction, RngState)->delta, (*result)->data,
                   hlo_shape_bytes(instruction->shape));
    return HLO_SUCCESS;
}
