// SPDX-License-Identifier: Apache-2.0
// Conversions between element types: convert, reduce-precision, stochastic-convert, bitcast-convert.
//
// convert goes through the widest type of the kinds of the pair, chunk by chunk: double (or float, where XLA rounds
// twice) for floats, int64_t for integers, double complex for complex numbers. Values that do not fit are converted as
// follows:
//
//   float -> integer      truncated towards zero; out of range is the nearest end, NaN is 0
//   integer -> integer    the lower bits, in two's complement
//   anything -> pred      whether it is not 0, so NaN is true
//   complex -> real       the imaginary part is dropped (but counts for pred)
//   float -> float        rounded to nearest even; out of range is infinity, or what the narrow type has instead
//                         (hlo/ir/float.c)
//
// bitcast-convert keeps bits: f32[3] <-> u8[3,4], least significant part first. For this purpose s4 is packed two to a
// byte, although arrays store it one to a byte.
#include <assert.h>
#include <complex.h>
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/eval/internal.h"

// Converts a float to an integer of the type: NaN gives 0, out of range gives the nearest end.
static int64_t saturate(double value, HloType type) {
    int bits = hlo_type_info(type)->bits;
    if (isnan(value)) return 0;
    if (hlo_type_kind(type) == HLO_KIND_UNSIGNED) {
        if (value <= 0) return 0;
        if (value >= ldexp(1.0, bits)) return (int64_t)(bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
        return (int64_t)(uint64_t)value;
    }
    double limit = ldexp(1.0, bits - 1);
    if (value >= limit) return (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
    if (value <= -limit) return (int64_t)(0 - (UINT64_C(1) << (bits - 1)));
    return (int64_t)value;
}

// Converts through double, which holds every float. NaN is 0 as an integer, and true as a predicate, since it is not 0.
static void float_to_integer(HloType from, const void *in, HloType to, void *out, int64_t count) {
    double values[HLO_EVAL_CHUNK];
    int64_t numbers[HLO_EVAL_CHUNK];
    hlo_eval_decode_double(from, in, count, values);
    for (int64_t i = 0; i < count; i++) numbers[i] = to == HLO_PRED ? values[i] != 0 : saturate(values[i], to);
    hlo_eval_encode_int64(to, numbers, count, out);
}

// XLA rounds f64 to bf16 by way of f32, and to all other narrow floats directly.
static void to_float(HloType from, const void *in, HloType to, void *out, int64_t count) {
    if (from == HLO_F64 && to != HLO_BF16) {
        hlo_eval_encode_double(to, in, count, out);
    } else if (to == HLO_F64) {
        hlo_eval_decode_double(from, in, count, out);
    } else {
        float values[HLO_EVAL_CHUNK];
        hlo_eval_decode_float(from, in, count, values);
        hlo_eval_encode_float(to, values, count, out);
    }
}

// The pairs of kinds in the order in which they are distinguished. Complex to real drops the imaginary part, but a
// predicate depends on both parts.
static void convert_chunk(HloType from, const void *in, HloType to, void *out, int64_t count) {
    assert(count >= 0);
    HloTypeKind from_kind = hlo_type_kind(from), to_kind = hlo_type_kind(to);
    if (from == to) {
        memcpy(out, in, (size_t)(count * hlo_type_bytes(to)));
    } else if (to_kind == HLO_KIND_COMPLEX) {
        double _Complex values[HLO_EVAL_CHUNK];
        hlo_eval_decode_complex(from, in, count, values);
        hlo_eval_encode_complex(to, values, count, out);
    } else if (from_kind == HLO_KIND_COMPLEX) {
        double _Complex values[HLO_EVAL_CHUNK];
        double real[HLO_EVAL_CHUNK];
        hlo_eval_decode_complex(from, in, count, values);
        if (to == HLO_PRED) {
            for (int64_t i = 0; i < count; i++) ((uint8_t *)out)[i] = values[i] != 0;
            return;
        }
        for (int64_t i = 0; i < count; i++) real[i] = creal(values[i]);
        convert_chunk(HLO_F64, real, to, out, count);
    } else if (to_kind == HLO_KIND_FLOAT) {
        to_float(from, in, to, out, count);
    } else if (from_kind == HLO_KIND_FLOAT) {
        float_to_integer(from, in, to, out, count);
    } else {
        int64_t values[HLO_EVAL_CHUNK];
        hlo_eval_decode_int64(from, in, count, values);
        hlo_eval_encode_int64(to, values, count, out);
    }
}

// Chunk by chunk through buffers on the stack.
static void convert_elements(HloType from, const char *in, HloType to, char *out, int64_t count) {
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        convert_chunk(from, in + start * hlo_type_bytes(from), to, out + start * hlo_type_bytes(to), length);
    }
}

void hlo_eval_convert_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                             int64_t count) {
    assert(count >= 0);
    convert_elements(instruction->operands[0]->shape->type, operands[0], instruction->shape->type, result, count);
}

HloStatus hlo_eval_converted(HloEvalDevice *device, const HloEvalValue *value, const HloShape *shape,
                             HloEvalValue **result) {
    HLO_TRY(hlo_eval_new(device, shape, result));
    convert_elements(value->shape->type, value->data, shape->type, (*result)->data, hlo_eval_elements(value));
    return HLO_SUCCESS;
}

// Rounds a double to nearest even with the given numbers of exponent and mantissa bits (IEEE-like: overflow to
// infinity, results below the smallest normal number become zero). Subnormal numbers of the source, whose smallest
// normal exponent is `lowest`, have fewer bits to begin with.
static double reduce_precision(double value, int64_t exponent_bits, int64_t mantissa_bits, int lowest) {
    if (isnan(value) || isinf(value) || value == 0) return value;
    int64_t bias = (INT64_C(1) << (exponent_bits - 1)) - 1;
    int exponent;
    frexp(value, &exponent);
    int scale = (exponent - 1 > lowest ? exponent - 1 : lowest) - (int)mantissa_bits;
    double units = rint(ldexp(value, -scale));
    // Without mantissa bits the last bit of the pattern is the exponent's: halves go to the even exponent.
    bool exponent_is_even = (exponent - lowest) % 2 == 0;
    if (mantissa_bits == 0 && fabs(ldexp(value, -scale)) == 1.5 && exponent_is_even) units = copysign(1, value);
    double rounded = mantissa_bits < 52 ? ldexp(units, scale) : value;
    if (bias >= 1023) return rounded;
    if (fabs(rounded) >= ldexp(1.0, (int)bias + 1)) return copysign(INFINITY, value);
    if (fabs(rounded) < ldexp(1.0, (int)(1 - bias))) return copysign(0.0, value);
    return rounded;
}

// `keep_exponent`: a range at least as wide as the type's own does not change values, and likewise for the mantissa.
void hlo_eval_reduce_precision_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                                      int64_t count) {
    const HloReducePrecisionAttributes *precision = HLO_ATTRIBUTES(instruction, ReducePrecision);
    HloType type = instruction->shape->type;
    int64_t bytes = hlo_type_bytes(type);
    const HloTypeInfo *info = hlo_type_info(hlo_type_reduced_as(type));
    bool keep_exponent = precision->exponent_bits >= info->exponent_bits;
    int64_t exponent_bits = keep_exponent ? 11 : precision->exponent_bits;
    int64_t mantissa_bits = precision->mantissa_bits < info->mantissa_bits ? precision->mantissa_bits : 52;
    int lowest = 2 - (1 << (info->exponent_bits - 1));
    double values[HLO_EVAL_CHUNK];
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        hlo_eval_decode_double(type, (const char *)operands[0] + start * bytes, length, values);
        for (int64_t i = 0; i < length; i++)
            values[i] = reduce_precision(values[i], exponent_bits, mantissa_bits, lowest);
        hlo_eval_encode_double(type, values, length, (char *)result + start * bytes);
    }
}

// Rounds towards the integer away from zero with the probability of the fraction: when the random bits, as a fraction
// of their range, are below it.
static int64_t stochastic_round(double value, uint64_t random, int random_bits, HloType type) {
    if (isnan(value) || isinf(value)) return saturate(value, type);
    double size = fabs(value), whole = floor(size), fraction = size - whole;
    if (random < (uint64_t)ldexp(fraction, random_bits)) whole += 1;  // the fraction in fixed point, truncated
    return saturate(value < 0 ? -whole : whole, type);
}

// Conversion to floats is the same as for convert: the random bits only decide the fraction of integers.
void hlo_eval_stochastic_convert_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                                        int64_t count) {
    assert(count >= 0);
    HloType from = instruction->operands[0]->shape->type, random_type = instruction->operands[1]->shape->type;
    HloType to = instruction->shape->type;
    for (int64_t i = 0; i < count; i++) {
        double value;
        int64_t random;
        hlo_eval_decode_double(from, (const char *)operands[0] + i * hlo_type_bytes(from), 1, &value);
        hlo_eval_decode_int64(random_type, (const char *)operands[1] + i * hlo_type_bytes(random_type), 1, &random);
        char *target = (char *)result + i * hlo_type_bytes(to);
        if (hlo_type_is_float(to)) {
            hlo_eval_encode_double(to, &value, 1, target);
        } else {
            int64_t rounded = stochastic_round(value, (uint64_t)random, hlo_type_info(random_type)->bits, to);
            hlo_eval_encode_int64(to, &rounded, 1, target);
        }
    }
}

// Types below 8 bits are stored one to a byte but count with their own width when bits are regrouped: element i of the
// narrow array is at bit i*width, little endian.
static uint64_t read_bits(HloType type, const char *data, int64_t index) {
    uint64_t bits = 0;
    int bytes = hlo_type_bytes(type), width = hlo_type_info(type)->bits;
    memcpy(&bits, data + index * bytes, (size_t)bytes);
    return width < 64 ? bits & ((UINT64_C(1) << width) - 1) : bits;
}

// The inverse of read_bits(): integers are sign-extended into the byte, narrow floats have zeros there.
static void write_bits(HloType type, char *data, int64_t index, uint64_t bits) {
    int64_t value = (int64_t)bits;
    int width = hlo_type_info(type)->bits;
    if (hlo_type_is_integer(type)) {
        hlo_eval_encode_int64(type, &value, 1, data + index * hlo_type_bytes(type));
    } else {
        bits &= width < 64 ? (UINT64_C(1) << width) - 1 : UINT64_MAX;
        memcpy(data + index * hlo_type_bytes(type), &bits, (size_t)hlo_type_bytes(type));
    }
}

// Whole bytes are reinterpreted in place; narrower elements are packed or unpacked.
HloStatus hlo_eval_bitcast_convert(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                   HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_BITCAST_CONVERT));
    HloType from = operands[0]->shape->type, to = instruction->shape->type;
    int from_bits = hlo_type_info(from)->bits, to_bits = hlo_type_info(to)->bits;
    if (from == to || (from_bits >= 8 && to_bits >= 8)) {
        HLO_TRY(hlo_eval_with_shape(device, operands[0], instruction->shape, result));
        if (from != to) hlo_eval_normalise_bits(to, (*result)->data, hlo_eval_elements(*result));
        return HLO_SUCCESS;
    }
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    const char *in = operands[0]->data;
    char *out = (*result)->data;
    if (from_bits > 64 || to_bits > 64) return hlo_eval_unsupported(instruction, "this pair of types");
    if (from_bits > to_bits) {
        int64_t count = hlo_eval_elements(operands[0]), parts = from_bits / to_bits;
        for (int64_t i = 0; i < count; i++) {
            uint64_t bits = read_bits(from, in, i);
            for (int64_t p = 0; p < parts; p++) write_bits(to, out, i * parts + p, bits >> (p * to_bits));
        }
        return HLO_SUCCESS;
    }
    int64_t count = hlo_eval_elements(*result), parts = to_bits / from_bits;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        for (int64_t p = 0; p < parts; p++) bits |= read_bits(from, in, i * parts + p) << (p * from_bits);
        write_bits(to, out, i, bits);
    }
    return HLO_SUCCESS;
}
