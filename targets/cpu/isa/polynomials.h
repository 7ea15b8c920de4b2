// SPDX-License-Identifier: Apache-2.0
// Coefficients of f32 functions, for the kernels (loop_math*.inc) and for generated code (jit/functions.c), whose bits
// are the same. Polynomials: reweighted least squares on Chebyshev nodes; docs/accuracy.md lists the errors.
#ifndef MESHLO_TARGETS_CPU_ISA_POLYNOMIALS_H_
#define MESHLO_TARGETS_CPU_ISA_POLYNOMIALS_H_

// 1 / ln 2; ln 2 is the difference of the other two.
static const float kInverseLn2 = 1.44269504f, kHighLn2 = 0.693147182f, kLowLn2 = 1.90465421e-9f;
// Adding it rounds a smaller number to an integer, which is then in the low bits.
static const float kRoundingShift = 12582912.0f;
// e^x is infinite above the first, and 0 below the second and, to save subnormal numbers, the third.
// Up to kExpMiddle, and from its negative on, 2^n is a normal number.
static const float kExpMiddle = 87.0f;
static const float kExpLargest = 89.0f, kExpSmallest = -104.0f, kExpZeroBelow = -103.98f;
// P of e^r = 1 + r + r^2 P(r), |r| <= ln 2 / 2, from the highest power down.
static const float kExpTerms[6] = {0.00019790066720849571f, 0.0013944943250621129f, 0.0083334987866301568f,
                                   0.041666291176659591f,   0.16666665856472565f,   0.50000000687047907f};
// P of ln(1 + f) = f - f^2/2 + f^3 P(f) for 1 + f in [sqrt(1/2), sqrt(2)), from the highest power down.
static const float kLogTerms[9] = {0.067466012390535568f, -0.1167564126708338f,  0.11888174619519912f,
                                   -0.12405591424911275f, 0.14219550906281136f,  -0.16667995666557572f,
                                   0.20002118732284713f,  -0.25000009603665913f, 0.33333312602801629f};

#endif
