// SPDX-License-Identifier: Apache-2.0
// Integers of the program that the engine itself reads: start indices, gather indices, branch numbers, group sizes.
#ifndef MESHLO_TARGETS_CPU_ELEMENT_INTEGER_H_
#define MESHLO_TARGETS_CPU_ELEMENT_INTEGER_H_

#include <stdint.h>

#include "hlo/ir/types.h"

HLO_BEGIN_C

// Returns element `index` of an array of an integer or predicate type, in 64 bits. Unsigned numbers beyond the range of
// s64 become its largest: they exceed every dimension anyway. Elements below 8 bits occupy a byte each, in which signed
// ones are sign-extended.
static inline int64_t cpu_read_integer(const void *data, HloType type, int64_t index) {
    switch (type) {
        case HLO_S1:
        case HLO_S2:
        case HLO_S4:
        case HLO_S8: return ((const int8_t *)data)[index];
        case HLO_S16: return ((const int16_t *)data)[index];
        case HLO_S32: return ((const int32_t *)data)[index];
        case HLO_S64: return ((const int64_t *)data)[index];
        case HLO_U16: return ((const uint16_t *)data)[index];
        case HLO_U32: return ((const uint32_t *)data)[index];
        case HLO_U64: {
            const uint64_t value = ((const uint64_t *)data)[index];
            return value > INT64_MAX ? INT64_MAX : (int64_t)value;
        }
        default: return ((const uint8_t *)data)[index];  // pred and the narrow unsigned types
    }
}

// Returns the stored byte of an element below 8 bits whose bits are the low ones of `bits`: signed integers are
// sign-extended, all others zero-extended.
static inline uint8_t cpu_narrow_byte(HloType type, uint64_t bits) {
    const int spare = 8 - hlo_type_info(type)->bits;
    const uint8_t high = (uint8_t)(bits << spare);
    return hlo_type_kind(type) == HLO_KIND_SIGNED ? (uint8_t)((int8_t)high >> spare) : (uint8_t)(high >> spare);
}

HLO_END_C

#endif
