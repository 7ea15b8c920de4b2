// SPDX-License-Identifier: Apache-2.0
// Random numbers: rng-bit-generator as XLA defines it bit for bit (reference hlo-and-spmd.md 5.1), rng, and the state
// of rng-get-and-update-state.
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

// Writes random bits as an element of any type that holds that many or fewer.
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

static uint64_t fill_threefry_narrow(const HloShape *shape, uint64_t key, uint64_t counter, void *data) {
    uint32_t words[2];
    if (shape->rank == 0) {
        threefry(key, counter, words);
        put_bits(shape, data, 0, words[0]);
        return counter + 1;
    }
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

HloStatus hlo_eval_rng_bit_generator(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                     HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_RNG_BIT_GENERATOR));
    int32_t algorithm = HLO_ATTRIBUTES(instruction, RngBits)->algorithm;
    HloEvalValue *parts[2] = {NULL, NULL};
    bool tuple = instruction->shape->type == HLO_TUPLE;
    HLO_FAIL_IF(!tuple, HLO_UNIMPLEMENTED, "%%%s must return its state", instruction->name);
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, 2, result, parts));
    int64_t bytes = hlo_shape_bytes(operands[0]->shape);
    uint64_t state[3] = {0};
    HLO_FAIL_IF((bytes != 16 && bytes != 24) || hlo_shape_bytes(parts[0]->shape) != bytes, HLO_INVALID_ARGUMENT,
                "%%%s: the state must be u64[2] or u64[3]", instruction->name);
    memcpy(state, operands[0]->data, (size_t)bytes);
    if (algorithm == HLO_RandomAlgorithm_THREE_FRY) {
        state[1] = fill_threefry(parts[1]->shape, state[0], state[1], parts[1]->data);
    } else {
        uint64_t counter[2] = {state[1], bytes == 24 ? state[2] : state[0]};
        fill_philox(parts[1]->shape, state[0], counter, parts[1]->data);
        state[1] = counter[0];
        state[2] = counter[1];
    }
    memcpy(parts[0]->data, state, (size_t)bytes);
    return HLO_SUCCESS;
}

// ---- rng: philox keyed by the seed, the device and the number of the draw

typedef struct Stream {
    uint64_t key, next;
    uint64_t high;
} Stream;

static uint64_t draw_bits(Stream *stream) {
    uint32_t words[4];
    philox(stream->key, stream->next++, stream->high, words);
    return (uint64_t)words[1] << 32 | words[0];
}

// Uniform in [0, 1) with 53 bits.
static double draw_unit(Stream *stream) {
    return (double)(draw_bits(stream) >> 11) * 0x1p-53;
}

static double draw_normal(Stream *stream) {
    double radius = sqrt(-2 * log1p(-draw_unit(stream)));
    return radius * cos(6.283185307179586 * draw_unit(stream));
}

static double draw_float(Stream *stream, bool normal, double a, double b) {
    double value = normal ? a + b * draw_normal(stream) : a + (b - a) * draw_unit(stream);
    return !normal && value >= b ? a : value;
}

void hlo_draw_numbers(HloDraws *draws, uint64_t seed, int64_t device, const HloShape *shape, bool normal, const void *a,
                      const void *b, void *out) {
    HloType type = shape->type;
    assert(!hlo_type_is_complex(type)); /* refused before anything runs */
    Stream stream = {.key = seed, .high = (uint64_t)device << 32 | draws->count++};
    int64_t count = hlo_shape_elements(shape), bytes = hlo_type_bytes(type);
    double from = 0, to = 0;
    int64_t low = 0, high = 0;
    if (hlo_type_is_float(type)) {
        hlo_eval_decode_double(type, a, 1, &from);
        hlo_eval_decode_double(type, b, 1, &to);
    } else {
        hlo_eval_decode_int64(type, a, 1, &low);
        hlo_eval_decode_int64(type, b, 1, &high);
    }
    for (int64_t i = 0; i < count; i++) {
        char *target = (char *)out + i * bytes;
        if (hlo_type_is_float(type)) {
            double value = draw_float(&stream, normal, from, to);
            hlo_eval_encode_double(type, &value, 1, target);
        } else {
            uint64_t range = (uint64_t)high - (uint64_t)low;
            int64_t value = range ? low + (int64_t)(draw_bits(&stream) % range) : low;
            hlo_eval_encode_int64(type, &value, 1, target);
        }
    }
}

void hlo_draw_state(HloDraws *draws, uint64_t delta, void *out, int64_t bytes) {
    memset(out, 0, (size_t)bytes);
    memcpy(out, draws->state, bytes < 16 ? (size_t)bytes : 16);
    draws->state[0] += delta;
    if (draws->state[0] < delta) draws->state[1]++;
}

HloStatus hlo_eval_rng(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                       HloEvalValue **result) {
    bool normal = HLO_ATTRIBUTES(instruction, Rng)->distribution == HLO_RandomDistribution_NORMAL;
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    hlo_draw_numbers(&device->draws, device->world->options.seed, device->number, instruction->shape, normal,
                     operands[0]->data, operands[1]->data, (*result)->data);
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
