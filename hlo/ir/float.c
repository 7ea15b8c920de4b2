// SPDX-License-Identifier: Apache-2.0
// Conversion of one number of any floating type to and from double, by the columns of types.def. Simple and slow: whole
// arrays are converted by separate loops.
//
// A pattern is sign, exponent and mantissa from the highest bit down; with bias b and m bits of mantissa it means
//
//   exponent > 0    (2^m + mantissa) * 2^(exponent - b - m)
//   exponent = 0    mantissa * 2^(1 - b - m)                        subnormal numbers, and zero
//
// double represents all numbers of all types exactly. The way back rounds once, to nearest even: the number is
// expressed in units of its last place, and the rounded count is added to the exponent field, into which a carry
// propagates by itself (1.111 -> 10.000 is the same bits). Below the smallest normal exponent the unit does not change,
// which gives subnormal numbers. The types' substitutes for infinities and NaNs are `Specials`, as defined by ml_dtypes
// and the OCP specifications of 8-bit formats and of microscaling (MX).
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/ir/literal.h"

// How a type uses its special patterns.
typedef enum Specials {
    IEEE,           // infinities and NaNs in the highest exponent
    FINITE_NAN,     // "FN": no infinity; all ones is NaN
    FINITE,         // f4e2m1fn: neither infinity nor NaN
    UNSIGNED_ZERO,  // "FNUZ": no infinity, no -0; the pattern of -0 is NaN
    SCALE,          // f8e8m0fnu: a power of two without sign; all ones is NaN
} Specials;

typedef struct Format {
    int bits, exponent_bits, mantissa_bits, bias;
    Specials specials;
} Format;

// The exponent's bias is IEEE 754's, 2^(bits - 1) - 1, except in the fnuz types: one more, or 11 if the name has b11.
static Format format_of(HloType type) {
    assert(hlo_type_is_float(type));
    const HloTypeInfo *info = hlo_type_info(type);
    HLO_BUG_IF(info->kind != HLO_KIND_FLOAT);
    Format format = {info->bits, info->exponent_bits, info->mantissa_bits, (1 << (info->exponent_bits - 1)) - 1, IEEE};
    switch (type) {
        case HLO_F8E4M3FN: format.specials = FINITE_NAN; break;
        case HLO_F4E2M1FN: format.specials = FINITE; break;
        case HLO_F8E8M0FNU: format.specials = SCALE; break;
        case HLO_F8E4M3FNUZ:
        case HLO_F8E5M2FNUZ:
            format.specials = UNSIGNED_ZERO;
            format.bias++;
            break;
        case HLO_F8E4M3B11FNUZ:
            format.specials = UNSIGNED_ZERO;
            format.bias = 11;
            break;
        default: break;
    }
    return format;
}

static double decode_scale(uint64_t pattern) {
    return pattern == 0xFF ? NAN : ldexp(1.0, (int)pattern - 127);
}

// A narrow float is sign, exponent field e and mantissa field m: 2^(e - bias) (1 + m / 2^bits), and 2^(1 - bias) m /
// 2^bits if e is 0. The meaning of the highest exponent depends on the format (`specials`): infinities and NaN as in
// IEEE 754, one NaN and otherwise numbers (the fn types), or only numbers, with NaN in place of -0 (fnuz).
double hlo_float_decode(HloType type, uint64_t pattern) {
    assert(hlo_type_is_float(type));
    if (type == HLO_F64) {
        double value;
        memcpy(&value, &pattern, sizeof(value));
        return value;
    }
    if (type == HLO_F32) {
        uint32_t low = (uint32_t)pattern;
        float value;
        memcpy(&value, &low, sizeof(value));
        return (double)value;
    }
    Format format = format_of(type);
    if (format.specials == SCALE) return decode_scale(pattern & 0xFF);
    uint64_t sign = pattern >> (format.bits - 1) & 1;
    uint64_t exponent = pattern >> format.mantissa_bits & ((UINT64_C(1) << format.exponent_bits) - 1);
    uint64_t mantissa = pattern & ((UINT64_C(1) << format.mantissa_bits) - 1);
    uint64_t top = (UINT64_C(1) << format.exponent_bits) - 1;
    uint64_t full = (UINT64_C(1) << format.mantissa_bits) - 1;
    if (format.specials == IEEE && exponent == top) {
        // Payloads are kept, for the total order.
        uint64_t bits = sign << 63 | UINT64_C(0x7FF) << 52 | mantissa << (52 - format.mantissa_bits);
        double special;
        memcpy(&special, &bits, sizeof(special));
        return special;
    }
    if (format.specials == FINITE_NAN && exponent == top && mantissa == full) return sign ? -NAN : NAN;
    if (format.specials == UNSIGNED_ZERO && sign && exponent == 0 && mantissa == 0) return -NAN;
    double value = exponent ? ldexp((double)(mantissa + full + 1), (int)exponent - format.bias - format.mantissa_bits)
                            : ldexp((double)mantissa, 1 - format.bias - format.mantissa_bits);
    return sign ? -value : value;
}

// f8e8m0fnu: the exponent of a power of two, biased by 127.
static uint64_t encode_scale(double value) {
    if (!(value > 0) || isinf(value)) return 0xFF;  // NaN, zero and negatives have no scale
    int exponent;
    double fraction = frexp(value, &exponent);  // value = fraction * 2^exponent, fraction in [0.5, 1)
    exponent--;
    // Without a stored mantissa bit the hidden one is always odd, so a tie always rounds up.
    int field = exponent + 127;
    if (fraction >= 0.75) field++;
    if (field < 0) field = 0;
    return field >= 0xFF ? 0xFF : (uint64_t)field;
}

// The pattern of NaN, or of a magnitude too large for the format.
static uint64_t special_pattern(Format format, uint64_t sign, bool is_nan) {
    uint64_t sign_bit = sign << (format.bits - 1);
    uint64_t top = ((UINT64_C(1) << format.exponent_bits) - 1) << format.mantissa_bits;
    uint64_t full = (UINT64_C(1) << format.mantissa_bits) - 1;
    switch (format.specials) {
        case IEEE: return sign_bit | top | (is_nan ? UINT64_C(1) << (format.mantissa_bits - 1) : 0);
        case FINITE_NAN: return sign_bit | top | full;
        case FINITE: return is_nan ? UINT64_C(1) << (format.bits - 1) : sign_bit | top | full;
        case UNSIGNED_ZERO: return UINT64_C(1) << (format.bits - 1);
        case SCALE: break;
    }
    return 0xFF;
}

// The pattern of the largest finite number, without a sign.
static uint64_t largest_finite(Format format) {
    uint64_t all = (UINT64_C(1) << (format.exponent_bits + format.mantissa_bits)) - 1;
    if (format.specials == IEEE) return all - (UINT64_C(1) << format.mantissa_bits);
    return format.specials == FINITE_NAN ? all - 1 : all;
}

// Rounds to nearest, ties to even, once: the number is counted in units of the last place, 2^quantum, of its binade (or
// of the smallest, below the normal numbers). Larger numbers than the largest one become the format's substitute:
// infinity, NaN or that number. Denormal doubles are below half of every format's smallest number.
static uint64_t encode_narrow(Format format, uint64_t bits) {
    const uint64_t sign = bits >> 63, fraction = bits & ((UINT64_C(1) << 52) - 1);
    const int biased = (int)(bits >> 52 & 0x7FF), smallest = 1 - format.bias;
    if (biased == 0x7FF) return special_pattern(format, sign, fraction != 0);
    uint64_t pattern = 0;
    if (biased) {
        const int exponent = biased - 1023 > smallest ? biased - 1023 : smallest;
        const int shift = 52 - format.mantissa_bits + exponent - (biased - 1023);
        const uint64_t significand = UINT64_C(1) << 52 | fraction;
        uint64_t units = shift > 53 ? 0 : significand >> shift;
        const uint64_t rest = shift > 53 ? 0 : significand & ((UINT64_C(1) << shift) - 1);
        units += rest + (units & 1) > UINT64_C(1) << (shift > 53 ? 53 : shift - 1);
        // `units` is next to the exponent field, so a carry goes where it belongs.
        pattern = ((uint64_t)(exponent - smallest) << format.mantissa_bits) + units;
    }
    if (pattern > largest_finite(format)) return special_pattern(format, sign, false);
    if (pattern == 0 && format.specials == UNSIGNED_ZERO) return 0;
    return sign << (format.bits - 1) | pattern;
}

uint64_t hlo_float_encode(HloType type, double value) {
    uint64_t pattern;
    memcpy(&pattern, &value, sizeof(pattern));
    if (type == HLO_F64) return pattern;
    if (type == HLO_F32) {
        const float rounded = (float)value;
        uint32_t word;
        memcpy(&word, &rounded, sizeof(word));
        return word;
    }
    const Format format = format_of(type);
    return format.specials == SCALE ? encode_scale(value) : encode_narrow(format, pattern);
}

double hlo_float_limit(HloType type, bool greatest) {
    assert(hlo_type_is_float(type));
    const double infinite = greatest ? (double)INFINITY : -(double)INFINITY;
    if (hlo_float_decode(type, hlo_float_encode(type, infinite)) == infinite) return infinite;
    // Types without infinities are narrow: all of their numbers are tried, since some types have no sign either.
    const int bits = hlo_type_info(type)->bits;
    double limit = -infinite;
    assert(bits <= 8); /* f16 and wider have infinities */
    for (uint64_t pattern = 0; pattern < UINT64_C(1) << bits; pattern++) {
        const double value = hlo_float_decode(type, pattern);
        if (greatest ? value > limit : value < limit) limit = value;
    }
    return limit;
}
