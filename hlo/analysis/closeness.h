// SPDX-License-Identifier: Apache-2.0
// How far apart the results of two runs are, with tolerances that follow from the element types.
#ifndef MESHLO_HLO_ANALYSIS_CLOSENESS_H_
#define MESHLO_HLO_ANALYSIS_CLOSENESS_H_

#include "hlo/ir/module.h"

// How far apart numbers may be: |actual - expected| <= absolute + relative * |expected|. Negative: chosen by the wider
// rounding of the element type and `narrowest`, with the absolute part in units of the array's root mean square.
typedef struct HloTolerance {
    double relative, absolute;
    HloType narrowest;   // the narrowest floating type that went into the numbers
    bool low_precision;  // f32 matrix products were rounded to bf16
    // How many roundings one after the other led to the numbers: where there are more than the tolerance of the type
    // covers, it grows with their square root, as independent errors do, up to eight times, for arrays whose errors
    // have a root mean square of at most a quarter of that. 0: unknown.
    double roundings;
} HloTolerance;

// Where two arrays differ.
typedef struct HloDifference {
    int64_t count;            // elements out of tolerance
    int64_t first;            // flat index of the first of them
    double expected, actual;  // there (real part of a complex number)
    double error;             // there
    double largest_error;     // of all elements
    double largest_relative;  // largest_error divided by the array's root mean square
} HloDifference;

// Compares two arrays of the same shape element by element; NaN equals NaN.
HloDifference hlo_literal_compare(const HloLiteral *expected, const HloLiteral *actual, const HloTolerance *tolerance);

// How far two runs of a program are from a run of it in f64, in units of the array's root mean square.
typedef struct HloDistances {
    double actual, expected;  // INFINITY where only one of two elements is a finite number
    bool ill_conditioned;     // rounding errors alone explain that the two runs differ
} HloDistances;

// `reference` has the sizes of the other two, and the wider types. The arrays are ill-conditioned when even `expected`,
// the evaluator's, is farther from the reference than the tolerance that the element type allows without a given one,
// and `actual` is at most HLO_FARTHER times as far.
enum { HLO_FARTHER = 10 };
HloDistances hlo_literal_distances(const HloLiteral *reference, const HloLiteral *expected, const HloLiteral *actual,
                                   const HloTolerance *tolerance);

// The narrowest floating type that a module computes with: its rounding bounds what can be expected of any result. f64
// if the module has no floats at all. O(instructions).
HloType hlo_narrowest_float(const HloModule *module);

#endif
