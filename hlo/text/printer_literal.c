// SPDX-License-Identifier: Apache-2.0
// Prints literals: rows in braces, floats with the fewest digits that read back as the same bits, NaNs with their
// payload.
//
//   f32[2,2]      { { 1, 2.5 }, { -inf, nan } }          pred[2]   {1, 0}, and the scalar is true or false
//   c64[1]        {(1, -0.5)}                            f32[]     nan(0x1): a payload that is not the usual one
//   (f32[], s8[]) ( 1, 2 )
//
// Integral floats below a million are written as integers. A float has 6 (f32) or 15 (f64) digits, and 9 or 17 if these
// do not identify it; narrower types have as many as always do. All of it follows XLA's literal.cc and PrimitiveUtil.
#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "hlo/base/decimal.h"
#include "hlo/text/printer.h"

// Digits that always identify a number of this many mantissa bits (with the hidden one).
static int identifying_digits(int mantissa_bits) {
    return 2 + (int)((mantissa_bits + 1) * 0.30103);
}

// The payload is omitted if it is the type's quiet NaN, and for types that have only one NaN.
static void print_nan(HloText *text, HloType type, uint64_t bits) {
    assert(hlo_type_is_float(type));
    const HloTypeInfo *info = hlo_type_info(type);
    uint64_t payload = bits & ((UINT64_C(1) << info->mantissa_bits) - 1);
    bool negative = bits >> (info->exponent_bits + info->mantissa_bits) & 1;
    bool single = type == HLO_F8E4M3FN || type == HLO_F8E4M3B11FNUZ || type == HLO_F8E5M2FNUZ ||
                  type == HLO_F8E4M3FNUZ || type == HLO_F8E8M0FNU;
    hlo_text_string(text, negative ? "-nan" : "nan");
    if (!single && payload != UINT64_C(1) << (info->mantissa_bits - 1))
        hlo_text_format(text, "(0x%" PRIx64 ")", payload);
}

// Six digits if they read back as the same number, else nine, which always do.
static void print_f32(HloText *text, float value) {
    char buffer[40];
    int length = hlo_snprintf(buffer, sizeof(buffer), "%.*g", FLT_DIG, (double)value);
    if (hlo_strtof(buffer, NULL) != value) length = hlo_snprintf(buffer, sizeof(buffer), "%.9g", (double)value);
    hlo_text_append(text, buffer, (size_t)length);
}

static void print_f64(HloText *text, double value) {
    char buffer[40];
    int length = hlo_snprintf(buffer, sizeof(buffer), "%.*g", DBL_DIG, value);
    if (hlo_strtod(buffer, NULL) != value) length = hlo_snprintf(buffer, sizeof(buffer), "%.17g", value);
    hlo_text_append(text, buffer, (size_t)length);
}

// Prints floats as XLA does: integral values below a million without a point, others with the shorter of 6 and 9 (f64:
// 15 and 17) digits that read back as the same number of this type.
static void print_float(HloText *text, HloType type, const void *data) {
    assert(hlo_type_is_float(type) && data);
    uint64_t bits = 0;
    memcpy(&bits, data, (size_t)hlo_type_bytes(type));
    double value = hlo_float_decode(type, bits);
    if (isnan(value)) {
        print_nan(text, type, bits);
    } else if (isinf(value)) {
        hlo_text_string(text, value < 0 ? "-inf" : "inf");
    } else if (hlo_type_bytes(type) >= 4 && fabs(value) < 1e6 && value == (double)(int32_t)value &&
               (value != 0 || !signbit(value))) {
        hlo_text_int64(text, (int64_t)value);
    } else if (type == HLO_F32) {
        print_f32(text, (float)value);
    } else if (type == HLO_F64) {
        print_f64(text, value);
    } else {
        hlo_text_format(text, "%.*g", identifying_digits(hlo_type_info(type)->mantissa_bits), value);
    }
}

// Integers are sign-extended from their storage.
static void print_element(HloText *text, HloType type, const char *data) {
    int bytes = hlo_type_bytes(type);
    switch (hlo_type_kind(type)) {
        case HLO_KIND_PRED: hlo_text_char(text, *data ? '1' : '0'); break;
        case HLO_KIND_FLOAT: print_float(text, type, data); break;
        case HLO_KIND_COMPLEX:
            hlo_text_char(text, '(');
            print_float(text, hlo_type_real_part(type), data);
            hlo_text_append(text, ", ", 2);
            print_float(text, hlo_type_real_part(type), data + bytes / 2);
            hlo_text_char(text, ')');
            break;
        case HLO_KIND_SIGNED: {
            int64_t value = 0;
            memcpy(&value, data, (size_t)bytes);
            int shift = 64 - 8 * bytes;
            hlo_text_int64(text, (int64_t)((uint64_t)value << shift) >> shift);
            break;
        }
        default: {
            uint64_t value = 0;
            memcpy(&value, data, (size_t)bytes);
            hlo_text_uint64(text, value);
        }
    }
}

// {1, 2} and { {1}, {2} }, but { { 1, 2 }, { 3, 4 } }: blanks in all braces except those of one dimension or one
// element. From four dimensions on, rows show the index of their outer dimension: { { /*i0=0*/ ...
static void print_array(HloText *text, const HloShape *shape, int dimension, int64_t row, const char **data) {
    assert(dimension >= 0 && dimension <= shape->rank);
    if (dimension == shape->rank) {
        print_element(text, shape->type, *data);
        *data += hlo_type_bytes(shape->type);
        return;
    }
    bool last = dimension + 1 == shape->rank;
    int64_t count = shape->dims[dimension];
    bool numbered = shape->rank > 3 && dimension > 0 && !last;
    const char *blank = shape->rank == 1 || (last && count <= 1) ? "" : " ";
    hlo_text_char(text, '{');
    if (numbered) hlo_text_format(text, " /*i%d=%" PRId64 "*/", dimension - 1, row);
    hlo_text_string(text, numbered && count == 0 ? "" : blank);
    for (int64_t i = 0; i < count; i++) {
        if (i > 0) hlo_text_append(text, ", ", 2);
        print_array(text, shape, dimension + 1, i, data);
    }
    hlo_text_string(text, blank);
    hlo_text_char(text, '}');
}

void hlo_print_literal(HloText *text, const HloLiteral *literal) {
    assert(text && literal);
    const HloShape *shape = literal->shape;
    if (shape->type == HLO_TUPLE) {
        hlo_text_append(text, "( ", 2);
        for (int32_t i = 0; i < shape->element_count; i++) {
            if (i > 0) hlo_text_append(text, ", ", 2);
            hlo_print_literal(text, literal->elements[i]);
        }
        hlo_text_append(text, " )", 2);
    } else if (literal->elided) {
        hlo_text_string(text, "{...}");
    } else if (shape->rank == 0 && shape->type == HLO_PRED) {
        hlo_text_string(text, *(const char *)literal->data ? "true" : "false");
    } else {
        const char *data = literal->data;
        print_array(text, shape, 0, 0, &data);
    }
}
