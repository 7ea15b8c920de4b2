// SPDX-License-Identifier: Apache-2.0
// Element types, expanded from types.def.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_TYPES_H_
#define MESHLO_HLO_IR_TYPES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hlo/base/macros.h"

HLO_BEGIN_C

typedef enum HloType {
#define HLO_TYPE(name, text, number, kind, bits, bytes, exponent, mantissa) HLO_##name = number,
#include "hlo/ir/types.def"
#undef HLO_TYPE
    HLO_TYPE_COUNT
} HloType;

typedef enum HloTypeKind {
    HLO_KIND_NONE,
    HLO_KIND_PRED,
    HLO_KIND_SIGNED,
    HLO_KIND_UNSIGNED,
    HLO_KIND_FLOAT,
    HLO_KIND_COMPLEX,
    HLO_KIND_STRUCTURE,  // tuple, token, opaque, buffer: without elements
} HloTypeKind;

// The columns of types.def.
typedef struct HloTypeInfo {
    const char *text;
    HloTypeKind kind;
    int bits;
    int storage_bytes;
    int exponent_bits;
    int mantissa_bits;
} HloTypeInfo;

// The row of a type. Static storage, any thread.
HLO_EXPORT const HloTypeInfo *hlo_type_info(HloType type);

// The type with the spelling of `length` characters at `text`, or HLO_INVALID.
HLO_EXPORT HloType hlo_type_from_text(const char *text, size_t length);

// "f32" and so on. Static storage.
static inline const char *hlo_type_text(HloType type) {
    return hlo_type_info(type)->text;
}
static inline int hlo_type_bytes(HloType type) {
    return hlo_type_info(type)->storage_bytes;
}
static inline HloTypeKind hlo_type_kind(HloType type) {
    return hlo_type_info(type)->kind;
}
static inline bool hlo_type_is_float(HloType type) {
    return hlo_type_kind(type) == HLO_KIND_FLOAT;
}
static inline bool hlo_type_is_complex(HloType type) {
    return hlo_type_kind(type) == HLO_KIND_COMPLEX;
}
static inline bool hlo_type_is_integer(HloType type) {
    return hlo_type_kind(type) == HLO_KIND_SIGNED || hlo_type_kind(type) == HLO_KIND_UNSIGNED;
}
// The type whose exponent and mantissa a reduce-precision of `type` starts from: XLA:CPU stores floats of a byte or
// less as f16, and f8e8m0fnu, some of whose powers of two f16 lacks, as f32 (measured with jaxlib 0.10.2).
static inline HloType hlo_type_reduced_as(HloType type) {
    if (hlo_type_info(type)->bits >= 16) return type;
    return type == HLO_F8E8M0FNU ? HLO_F32 : HLO_F16;
}
// True if an integer type can represent `value`; false for all other types.
static inline bool hlo_type_holds(HloType type, int64_t value) {
    if (!hlo_type_is_integer(type)) return false;
    const int bits = hlo_type_info(type)->bits;
    if (hlo_type_kind(type) == HLO_KIND_UNSIGNED) return value >= 0 && (bits >= 64 || value >> bits == 0);
    return bits >= 64 || (value >= -(INT64_C(1) << (bits - 1)) && value < INT64_C(1) << (bits - 1));
}
// True for types whose arrays have elements (all except tuple, token, opaque, buffer).
static inline bool hlo_type_is_array(HloType type) {
    return hlo_type_kind(type) != HLO_KIND_NONE && hlo_type_kind(type) != HLO_KIND_STRUCTURE;
}
// f32 for c64, f64 for c128, else the type itself.
HLO_EXPORT HloType hlo_type_real_part(HloType type);

HLO_END_C

#endif
