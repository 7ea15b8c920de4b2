// SPDX-License-Identifier: Apache-2.0
// Literals: arrays (and tuples of arrays) with values, dense and row-major whatever the layout of their shape.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_LITERAL_H_
#define MESHLO_HLO_IR_LITERAL_H_

#include "hlo/ir/shape.h"

HLO_BEGIN_C

typedef struct HloLiteral HloLiteral;

// Storage per element as in types.def: pred and types below 8 bits take one byte each (sign-extended s4, s2, s1), f8
// and f4 their bit pattern in a byte, complex two parts.
struct HloLiteral {
    const HloShape *shape;
    void *data;             // hlo_shape_bytes(shape) bytes; NULL for tuples, tokens and elided literals
    HloLiteral **elements;  // of a tuple
    bool elided;            // the text had {...}: the values are unknown
    bool owns_memory;       // on the heap: free with hlo_literal_free()
};

// Returns a zero-filled literal on the heap with its own copy of the shape. NULL when memory is short. Free with
// hlo_literal_free().
HLO_EXPORT HloLiteral *hlo_literal_new(const HloShape *shape);
// Returns a literal on the heap with sizes `dims` whose elements, in row-major order in their storage form, are copied
// from `data` (NULL: zeros). NULL when memory is short or the sizes are negative or too large. Free with
// hlo_literal_free().
HLO_EXPORT HloLiteral *hlo_literal_of(HloType type, HloInts dims, const void *data);
// Returns a zero-filled literal in an arena; the shape is kept by pointer.
HLO_EXPORT HloLiteral *hlo_literal_in_arena(HloArena *arena, const HloShape *shape);
// Frees a heap literal; accepts NULL. Does nothing to a literal in an arena.
HLO_EXPORT void hlo_literal_free(HloLiteral *literal);
// Returns a deep copy on the heap. NULL when memory is short.
HLO_EXPORT HloLiteral *hlo_literal_copy(const HloLiteral *literal);
// Returns a deep copy in an arena; the values of an elided literal stay unknown and take no memory.
HLO_EXPORT HloLiteral *hlo_literal_copy_to_arena(HloArena *arena, const HloLiteral *literal);

// True if the values are bit-for-bit equal and the shapes are equal (layouts ignored).
HLO_EXPORT bool hlo_literal_equal(const HloLiteral *a, const HloLiteral *b);
// Hashes a literal: equal literals have equal hashes.
HLO_EXPORT uint64_t hlo_literal_hash(const HloLiteral *literal);
// True if there are elements and all their bits are 0 (false when elided).
HLO_EXPORT bool hlo_literal_is_zero(const HloLiteral *literal);
// True if all elements have the same bits (also for one element; false for none or when elided).
HLO_EXPORT bool hlo_literal_is_splat(const HloLiteral *literal);

// Element `index` (row-major) as a number. Integers outside a double's 53 bits lose precision: use the integer forms.
// The setter rounds floats to nearest even and wraps integers.
HLO_EXPORT double hlo_literal_get_double(const HloLiteral *literal, int64_t index);
// Element `index`, exact for every integer type (u64 as the same 64 bits). Floats are truncated and saturated; NaN
// gives 0.
HLO_EXPORT int64_t hlo_literal_get_int64(const HloLiteral *literal, int64_t index);
#ifndef __cplusplus  // which lacks the type: read and write the two parts in `data`
// Element `index`; real elements have imaginary part 0.
HLO_EXPORT double _Complex hlo_literal_get_complex(const HloLiteral *literal, int64_t index);
// Sets element `index`; real element types take the real part.
HLO_EXPORT void hlo_literal_set_complex(HloLiteral *literal, int64_t index, double _Complex value);
#endif
// Sets element `index`. Rounds as hlo_float_encode() for floats; integers are truncated, saturated at 64 bits, then
// wrapped to their width.
HLO_EXPORT void hlo_literal_set_double(HloLiteral *literal, int64_t index, double value);
// Sets element `index`. Wraps to the width of integer types; pred becomes value != 0.
HLO_EXPORT void hlo_literal_set_int64(HloLiteral *literal, int64_t index, int64_t value);

// Converts one number of any floating type from its pattern (in the low bits) to double, and back. Rounds to nearest
// even; overflow and NaN are treated as in XLA's conversion to that type.
HLO_EXPORT double hlo_float_decode(HloType type, uint64_t pattern);
// The pattern nearest to `value`, ties to even.
HLO_EXPORT uint64_t hlo_float_encode(HloType type, double value);
// The greatest or least number of a floating type: an infinity, or the largest finite number of a type that has none
// (to which an infinity would convert as NaN). No value except NaN lies beyond it.
HLO_EXPORT double hlo_float_limit(HloType type, bool greatest);

HLO_END_C

#endif
