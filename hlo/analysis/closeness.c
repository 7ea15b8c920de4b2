// SPDX-License-Identifier: Apache-2.0
// Element by element, in double; integers in 64 bits.
#include "hlo/analysis/closeness.h"

#include <assert.h>
#include <math.h>

#include "hlo/base/complex.h"

// The bits of the mantissa that the rounding of an array of floats leaves.
static int mantissa_bits(HloType real, const HloTolerance *tolerance) {
    const int bits = hlo_type_info(real)->mantissa_bits;
    if (!hlo_type_is_float(tolerance->narrowest)) return bits;
    const int narrowest = hlo_type_info(tolerance->narrowest)->mantissa_bits;
    return narrowest < bits ? narrowest : bits;
}

// Units in the last place that two runs may be apart: four for narrow types; 1024 for f32 and f64, whose sums of many
// terms depend on their order.
static double units_of(int bits) {
    return bits > 16 ? 1024 : 4;
}

// The relative tolerance where the user gives none; exact for integers.
static double default_relative(HloType type, const HloTolerance *tolerance) {
    HloType real = hlo_type_real_part(type);
    if (!hlo_type_is_float(real)) return 0;
    const int bits = mantissa_bits(real, tolerance);
    if (tolerance->low_precision && bits > 10) return 1e-2;  // an operand may be rounded the other way
    // An activation beside zero may be on in one run and off in the other: one sample of 8,192 in a sum of random
    // signs, 4 % of its root mean square. Seen in 2 of the 6.4 million gradients of mlp_dp8 in the shared corpus.
    if (tolerance->low_precision) return ldexp(8, -bits);
    return fmin(ldexp(units_of(bits), -bits), 1);
}

// How much larger a single error may be where many roundings came one after the other. The largest of many elements has
// an error of four or five standard deviations of 0.4 units a rounding, with both runs: n units cover (n / 2)^2
// roundings. Layers are normalized, so that errors do not grow without end: eight times is enough for any depth.
static double growth_of(HloType type, const HloTolerance *tolerance) {
    HloType real = hlo_type_real_part(type);
    if (!hlo_type_is_float(real) || tolerance->low_precision) return 1;
    return fmin(fmax(sqrt(tolerance->roundings) / (units_of(mantissa_bits(real, tolerance)) / 2), 1), 8);
}

// The scale of an array, by which small elements are compared: rounding errors of sums are as large as their terms.
// Infinities and NaNs are left out.
static double root_mean_square(const HloLiteral *literal) {
    assert(literal);
    int64_t count = hlo_shape_elements(literal->shape), used = 0;
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        double magnitude = cabs(hlo_literal_get_complex(literal, i));
        if (!isfinite(magnitude)) continue;
        sum += magnitude * magnitude;
        ++used;
    }
    return used ? sqrt(sum / (double)used) : 0;
}

// NaN equals NaN here, part by part: both runs agree that there is no number.
static bool same_number(double _Complex a, double _Complex b) {
    bool real = creal(a) == creal(b) || (isnan(creal(a)) && isnan(creal(b)));
    bool imaginary = cimag(a) == cimag(b) || (isnan(cimag(a)) && isnan(cimag(b)));
    return real && imaginary;
}

// NaN as an error is a difference, and the largest one.
// A difference is allowed if it is small against the element itself or against the array's scale: the elements near
// zero of a sum have the rounding errors of its terms.
static HloDifference compare_numbers(const HloLiteral *expected, const HloLiteral *actual, double relative,
                                     double absolute) {
    assert(relative >= 0 && absolute >= 0);
    HloDifference result = {0};
    int64_t count = hlo_shape_elements(expected->shape);
    for (int64_t i = 0; i < count; ++i) {
        double _Complex e = hlo_literal_get_complex(expected, i), a = hlo_literal_get_complex(actual, i);
        if (same_number(e, a)) continue;
        double error = cabs(a - e);
        if (!(error <= result.largest_error)) result.largest_error = error;
        if (isfinite(error) && error <= absolute + relative * cabs(e)) continue;
        if (result.count++ == 0) {
            result.first = i;
            result.expected = creal(e);
            result.actual = creal(a);
            result.error = error;
        }
    }
    return result;
}

// The root of the mean square of the errors: not finite where only one of two numbers is.
static double error_of_all(const HloLiteral *expected, const HloLiteral *actual) {
    const int64_t count = hlo_shape_elements(expected->shape);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double _Complex e = hlo_literal_get_complex(expected, i), a = hlo_literal_get_complex(actual, i);
        if (!same_number(e, a)) sum += cabs(a - e) * cabs(a - e);
    }
    return count ? sqrt(sum / (double)count) : 0;
}

// In 64-bit integers, since doubles would call neighbours beyond 2^53 equal.
static HloDifference compare_integers(const HloLiteral *expected, const HloLiteral *actual) {
    HloDifference result = {0};
    int64_t count = hlo_shape_elements(expected->shape);
    for (int64_t i = 0; i < count; ++i) {
        int64_t e = hlo_literal_get_int64(expected, i), a = hlo_literal_get_int64(actual, i);
        if (e == a) continue;
        double error = fabs((double)a - (double)e);
        if (error > result.largest_error) result.largest_error = error;
        if (result.count++ == 0) {
            result.first = i;
            result.expected = (double)e;
            result.actual = (double)a;
            result.error = error;
        }
    }
    return result;
}

// --rtol alone keeps an absolute tolerance of rtol times the array's scale, --atol alone means no relative one.
HloDifference hlo_literal_compare(const HloLiteral *expected, const HloLiteral *actual, const HloTolerance *tolerance) {
    HloType type = expected->shape->type;
    bool exact = !hlo_type_is_float(type) && !hlo_type_is_complex(type);
    if (exact && tolerance->relative < 0 && tolerance->absolute < 0) return compare_integers(expected, actual);
    double scale = root_mean_square(expected);
    double by_type = default_relative(type, tolerance);
    // Roundings put few elements far away. A mistake, such as a wrong factor, moves all of them.
    const double growth = growth_of(type, tolerance);
    if (growth > 1 && error_of_all(expected, actual) <= fmax(by_type, growth * by_type / 4) * scale)
        by_type = fmin(growth * by_type, 1);
    double relative = tolerance->relative >= 0 ? tolerance->relative : tolerance->absolute >= 0 ? 0 : by_type;
    double absolute = tolerance->absolute >= 0 ? tolerance->absolute : relative * scale;
    HloDifference result = compare_numbers(expected, actual, relative, absolute);
    result.largest_relative = scale > 0 ? result.largest_error / scale : result.largest_error;
    return result;
}

// The largest difference of two elements.
static double largest_distance(const HloLiteral *reference, const HloLiteral *from) {
    double largest = 0;
    const int64_t count = hlo_shape_elements(reference->shape);
    for (int64_t i = 0; i < count; ++i) {
        const double _Complex r = hlo_literal_get_complex(reference, i), f = hlo_literal_get_complex(from, i);
        if (same_number(r, f)) continue;
        const double error = cabs(f - r);
        if (!isfinite(error)) return INFINITY;
        if (error > largest) largest = error;
    }
    return largest;
}

HloDistances hlo_literal_distances(const HloLiteral *reference, const HloLiteral *expected, const HloLiteral *actual,
                                   const HloTolerance *tolerance) {
    assert(hlo_shape_equal(expected->shape, reference->shape, HLO_COMPARE_DIMS_ONLY));
    assert(hlo_shape_equal(expected->shape, actual->shape, HLO_COMPARE_DIMS_ONLY));
    const double scale = root_mean_square(reference), unit = scale > 0 ? scale : 1;
    HloDistances result = {.actual = largest_distance(reference, actual) / unit,
                           .expected = largest_distance(reference, expected) / unit};
    result.ill_conditioned = isfinite(result.actual) &&
                             result.expected > default_relative(expected->shape->type, tolerance) &&
                             result.actual <= HLO_FARTHER * result.expected;
    return result;
}

HloType hlo_narrowest_float(const HloModule *module) {
    HloType narrowest = HLO_F64;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            HloType type = hlo_type_real_part(at->shape->type);
            if (!hlo_type_is_float(type)) continue;
            if (hlo_type_info(type)->mantissa_bits < hlo_type_info(narrowest)->mantissa_bits) narrowest = type;
        }
    }
    return narrowest;
}
