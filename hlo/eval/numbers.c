// SPDX-License-Identifier: Apache-2.0
// Arrays of any element type as doubles, floats, 64-bit integers or complex numbers, and back.
//
// The evaluator computes in a few wide types; these functions convert to and from them. Each is a loop over one C type
// chosen by a switch, so that the choice costs once per array and not per element. f16 and bf16 have code of their own,
// because they make up most of a model's data; the rarer formats go through hlo_float_decode() element by element.
#include <assert.h>
#include <complex.h>
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/eval/internal.h"

// The bits of a float and back; memcpy is C's way to do it.
static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

// Rounds to nearest, ties to even: half of the last kept bit less one is added, and one more if the kept part is odd. A
// NaN stays a NaN although its low bits are dropped.
static uint16_t bf16_of(float value) {
    uint32_t bits = bits_of(value);
    if (isnan(value)) return (uint16_t)((bits >> 16) | 0x40);
    return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float hlo_eval_round_bf16(float value) {
    return float_of((uint32_t)bf16_of(value) << 16);
}

// A half has 5 bits of exponent with a bias of 15, a float 8 with 127: shifted by 13 places the difference is 112 <<
// 23.
static float f16_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7FFF;
    if (rest >= 0x7C00) return float_of(sign | 0x7F800000 | (rest & 0x3FF) << 13);
    if (rest >= 0x400) return float_of(sign | ((rest << 13) + 0x38000000));
    float magnitude = (float)rest * 0x1p-24f;
    return float_of(sign | bits_of(magnitude));
}

static uint16_t f16_of(float value) {
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
    if (magnitude >= 0x477FF000) return (uint16_t)(sign | 0x7C00);  // rounds to 65536 or more
    if (magnitude >= 0x38800000) {
        uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
        return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
    }
    // Subnormal: adding 0.5 aligns the unit in the last place of the half with that of the float.
    return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3F000000));
}

// Converts values of `in` by expression(in[i]) for i below count.
#define CONVERT_LOOP(in_type, out_type, expression)                          \
    do {                                                                     \
        const in_type *restrict in = data;                                   \
        for (int64_t i = 0; i < count; i++) out[i] = (out_type)(expression); \
    } while (0)

// One case for each type whose elements C can read, for the switches below.
#define PLAIN_CASES(out_type)                                           \
    case HLO_PRED: CONVERT_LOOP(uint8_t, out_type, in[i] != 0); return; \
    case HLO_S1:                                                        \
    case HLO_S2:                                                        \
    case HLO_S4:                                                        \
    case HLO_S8: CONVERT_LOOP(int8_t, out_type, in[i]); return;         \
    case HLO_S16: CONVERT_LOOP(int16_t, out_type, in[i]); return;       \
    case HLO_S32: CONVERT_LOOP(int32_t, out_type, in[i]); return;       \
    case HLO_S64: CONVERT_LOOP(int64_t, out_type, in[i]); return;       \
    case HLO_U1:                                                        \
    case HLO_U2:                                                        \
    case HLO_U4:                                                        \
    case HLO_U8: CONVERT_LOOP(uint8_t, out_type, in[i]); return;        \
    case HLO_U16: CONVERT_LOOP(uint16_t, out_type, in[i]); return;      \
    case HLO_U32: CONVERT_LOOP(uint32_t, out_type, in[i]); return;      \
    case HLO_U64:                                                       \
        CONVERT_LOOP(uint64_t, out_type, in[i]);                        \
        return;

#define FLOAT_CASES(out_type)                                                                 \
    case HLO_F32: CONVERT_LOOP(float, out_type, in[i]); return;                               \
    case HLO_F64: CONVERT_LOOP(double, out_type, in[i]); return;                              \
    case HLO_F16: CONVERT_LOOP(uint16_t, out_type, f16_to_float(in[i])); return;              \
    case HLO_BF16: CONVERT_LOOP(uint16_t, out_type, float_of((uint32_t)in[i] << 16)); return; \
    default: CONVERT_LOOP(uint8_t, out_type, hlo_float_decode(type, in[i])); return;

void hlo_eval_decode_double(HloType type, const void *data, int64_t count, double *out) {
    switch (type) {
        PLAIN_CASES(double)
        FLOAT_CASES(double)
    }
}

void hlo_eval_decode_float(HloType type, const void *data, int64_t count, float *out) {
    switch (type) {
        PLAIN_CASES(float)
        FLOAT_CASES(float)
    }
}

// u64 beyond the range of int64_t keeps its bits.
void hlo_eval_decode_int64(HloType type, const void *data, int64_t count, int64_t *out) {
    switch (type) {
        PLAIN_CASES(int64_t)
        default: HLO_BUG_IF(true);
    }
}

// Stores patterns of one or two bytes.
static void encode_small(HloType type, uint64_t pattern, void *out, int64_t index) {
    if (hlo_type_bytes(type) == 1) {
        ((uint8_t *)out)[index] = (uint8_t)pattern;
    } else {
        ((uint16_t *)out)[index] = (uint16_t)pattern;
    }
}

// Rounds from double directly: through float some halves would be rounded twice.
void hlo_eval_encode_double(HloType type, const double *values, int64_t count, void *out) {
    assert(count >= 0);
    switch (type) {
        case HLO_F64: memcpy(out, values, (size_t)count * sizeof(double)); return;
        case HLO_F32:
            for (int64_t i = 0; i < count; i++) ((float *)out)[i] = (float)values[i];
            return;
        default:
            HLO_BUG_IF(!hlo_type_is_float(type));
            for (int64_t i = 0; i < count; i++) encode_small(type, hlo_float_encode(type, values[i]), out, i);
    }
}

// The fast paths for f16 and bf16 round to nearest even as hlo_float_encode() does.
void hlo_eval_encode_float(HloType type, const float *values, int64_t count, void *out) {
    assert(count >= 0);
    switch (type) {
        case HLO_F64:
            for (int64_t i = 0; i < count; i++) ((double *)out)[i] = values[i];
            return;
        case HLO_F32: memcpy(out, values, (size_t)count * sizeof(float)); return;
        case HLO_F16:
            for (int64_t i = 0; i < count; i++) ((uint16_t *)out)[i] = f16_of(values[i]);
            return;
        case HLO_BF16:
            for (int64_t i = 0; i < count; i++) ((uint16_t *)out)[i] = bf16_of(values[i]);
            return;
        default:
            HLO_BUG_IF(!hlo_type_is_float(type));
            for (int64_t i = 0; i < count; i++) encode_small(type, hlo_float_encode(type, values[i]), out, i);
    }
}

void hlo_eval_wrap_narrow(HloType type, void *data, int64_t count) {
    assert(count >= 0);
    int bits = hlo_type_info(type)->bits;
    if (bits >= 8) return;
    int8_t *values = data;
    bool is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
    for (int64_t i = 0; i < count; i++) {
        int low = (uint8_t)values[i] & ((1 << bits) - 1);
        values[i] = (int8_t)(is_signed && low >> (bits - 1) ? low - (1 << bits) : low);
    }
}

void hlo_eval_normalise_bits(HloType type, void *data, int64_t count) {
    hlo_eval_wrap_narrow(type, data, count);
    if (type != HLO_PRED) return;
    uint8_t *values = data;
    for (int64_t i = 0; i < count; i++) values[i] = values[i] != 0;
}

void hlo_eval_encode_int64(HloType type, const int64_t *values, int64_t count, void *out) {
    assert(count >= 0);
    switch (hlo_type_bytes(type)) {
        case 1:
            for (int64_t i = 0; i < count; i++) {
                ((uint8_t *)out)[i] = type == HLO_PRED ? values[i] != 0 : (uint8_t)values[i];
            }
            if (type != HLO_PRED) hlo_eval_wrap_narrow(type, out, count);
            return;
        case 2:
            for (int64_t i = 0; i < count; i++) ((uint16_t *)out)[i] = (uint16_t)values[i];
            return;
        case 4:
            for (int64_t i = 0; i < count; i++) ((uint32_t *)out)[i] = (uint32_t)values[i];
            return;
        default: memcpy(out, values, (size_t)count * sizeof(int64_t));
    }
}

// Real numbers are decoded into the lower half of the output and expanded from the end, so that none is overwritten
// before it is read.
void hlo_eval_decode_complex(HloType type, const void *data, int64_t count, double _Complex *out) {
    assert(hlo_type_is_complex(type) || hlo_type_is_float(type) || hlo_type_is_integer(type) || type == HLO_PRED);
    if (type == HLO_C128) {
        memcpy(out, data, (size_t)count * sizeof(double _Complex));
    } else if (type == HLO_C64) {
        const float *parts = data;
        for (int64_t i = 0; i < count; i++) out[i] = CMPLX((double)parts[2 * i], (double)parts[2 * i + 1]);
    } else {
        double *parts = (double *)out;
        hlo_eval_decode_double(type, data, count, parts);
        for (int64_t i = count - 1; i >= 0; i--) out[i] = CMPLX(parts[i], 0.0);
    }
}

void hlo_eval_encode_complex(HloType type, const double _Complex *values, int64_t count, void *out) {
    assert(count >= 0);
    if (type == HLO_C128) {
        memcpy(out, values, (size_t)count * sizeof(double _Complex));
        return;
    }
    HLO_BUG_IF(type != HLO_C64);
    float *parts = out;
    for (int64_t i = 0; i < count; i++) {
        parts[2 * i] = (float)creal(values[i]);
        parts[2 * i + 1] = (float)cimag(values[i]);
    }
}

int64_t hlo_eval_integer_at(const HloEvalValue *value, int64_t index) {
    int64_t result;
    HloType type = value->shape->type;
    hlo_eval_decode_int64(type, (const char *)value->data + index * hlo_type_bytes(type), 1, &result);
    return result;
}
