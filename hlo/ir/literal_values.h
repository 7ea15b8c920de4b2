// SPDX-License-Identifier: Apache-2.0
// Filling, reading and converting whole array literals, so that C programs need no loops over elements.
//
//     HloLiteral *x = hlo_literal_of(HLO_BF16, HLO_DIMS(32, 64), NULL);
//     hlo_literal_fill_random(x, 0, 0);                  // what `meshlo run --seed 0` takes for its input 0
//     hlo_literal_set_floats(x, values);                 // or the caller's own numbers, rounded to bf16
//
// Tuples, tokens and elided literals have no values: the functions must not be called on them. Numbers are converted as
// by hlo_literal_set_double() and hlo_literal_get_double().
//
// Stability: experimental.
#ifndef MESHLO_HLO_IR_LITERAL_VALUES_H_
#define MESHLO_HLO_IR_LITERAL_VALUES_H_

#include "hlo/ir/literal.h"

HLO_BEGIN_C

// Sets all elements to `value`.
HLO_EXPORT void hlo_literal_fill(HloLiteral *literal, double value);
// Fills input number `input` of a program with made-up values, the same on every machine. With u the number that
// splitmix64 makes of (seed, input, element), uniform in [0, 1):
//   floating types   uniform in [-1, 1); arrays of rank 2 and more are scaled by sqrt(3 / n), n being the last
//                    dimension but one, so that products of many matrices keep their size
//   complex types    both parts likewise
//   integers         uniform in 0 … 15 (or up to the type's largest number)
//   pred             false or true with equal probability
// The numbers are a contract (`meshlo run --help`): results made from them have been written down.
HLO_EXPORT void hlo_literal_fill_random(HloLiteral *literal, uint64_t seed, int64_t input);

// Sets all elements, row-major, from as many numbers as there are elements.
HLO_EXPORT void hlo_literal_set_floats(HloLiteral *literal, const float *values);
// As hlo_literal_set_floats(), from doubles.
HLO_EXPORT void hlo_literal_set_doubles(HloLiteral *literal, const double *values);
// Writes all elements, row-major, to as many numbers as there are elements; of complex elements the real parts.
HLO_EXPORT void hlo_literal_get_floats(const HloLiteral *literal, float *values);
// As hlo_literal_get_floats(), as doubles.
HLO_EXPORT void hlo_literal_get_doubles(const HloLiteral *literal, double *values);
// Returns a literal on the heap with the same sizes and values and another element type: integers exactly where the
// type has them, floats rounded to nearest even, complex numbers to their real parts for real types. NULL when memory
// is short. Free with hlo_literal_free().
HLO_EXPORT HloLiteral *hlo_literal_convert(const HloLiteral *literal, HloType type);

HLO_END_C

#endif
