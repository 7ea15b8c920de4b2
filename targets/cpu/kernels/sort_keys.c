// SPDX-License-Identifier: Apache-2.0
// Keys: unsigned integers that have the order that a sort requests, so that the sort is independent of types. Signed
// integers have their sign bit inverted; floats are ordered by sign and magnitude, so negative ones are inverted as a
// whole and others get the sign bit. A descending sort inverts every bit, which keeps it stable: equal keys stay equal.
// In numeric order all NaNs are one key above infinity and -0 is +0; if that merged nothing, elements can be restored
// from their keys and need not be carried along.
//
//   f32     bits        key           s32     bits        key
//   -inf    ff800000    007fffff      -1      ffffffff    7fffffff
//   -0      80000000    7fffffff       0      00000000    80000000
//   +0      00000000    80000000       1      00000001    80000001
//    inf    7f800000    ff800000
#include "targets/cpu/kernels/sort_keys.h"

#include <string.h>

#include "targets/cpu/element/element.h"

bool cpu_sort_has_keys(HloType type) {
    return hlo_type_is_array(type) && !hlo_type_is_complex(type);
}

int cpu_sort_key_bits(HloType type) {
    return hlo_type_bytes(type) == 8 ? 64 : 32;
}

bool cpu_sort_can_unkey(HloType type) {
    return hlo_type_bytes(type) >= 4 && (type == HLO_F32 || type == HLO_F64 || hlo_type_is_integer(type));
}

// Converts floats to keys in total order: the sign decides between inverting all bits and setting the sign. Numeric
// order has already replaced -0 by +0 and all NaNs by one.
static inline uint32_t key_of_f32(uint32_t bits) {
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
static inline uint32_t f32_of_key(uint32_t key) {
    return key >> 31 ? key & 0x7fffffffu : ~key;
}
static inline uint64_t key_of_f64(uint64_t bits) {
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}
static inline uint64_t f64_of_key(uint64_t key) {
    return key >> 63 ? key & ~(UINT64_C(1) << 63) : ~key;
}

// `flip` is all ones for a descending order. Returns true if each key represents one bit pattern only, so that unkeying
// is exact.
static bool keys_of_f32(CpuSortOrder order, uint32_t flip, uint32_t *keys, const uint32_t *source, int64_t stride,
                        int64_t count) {
    uint32_t merged = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = source[i * stride], magnitude = bits & 0x7fffffffu;
        const uint32_t numeric = magnitude > 0x7f800000u ? 0x7fc00000u : bits == 0x80000000u ? 0 : bits;
        const uint32_t chosen = order == CPU_SORT_NUMERIC ? numeric : bits;
        merged |= chosen ^ bits;
        keys[i] = key_of_f32(chosen) ^ flip;
    }
    return merged == 0;
}

static bool keys_of_f64(CpuSortOrder order, uint64_t flip, uint64_t *keys, const uint64_t *source, int64_t stride,
                        int64_t count) {
    const uint64_t sign = UINT64_C(1) << 63, infinity = UINT64_C(0x7ff) << 52;
    uint64_t merged = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = source[i * stride], magnitude = bits & ~sign;
        const uint64_t numeric = magnitude > infinity ? infinity | UINT64_C(1) << 51 : bits == sign ? 0 : bits;
        const uint64_t chosen = order == CPU_SORT_NUMERIC ? numeric : bits;
        merged |= chosen ^ bits;
        keys[i] = key_of_f64(chosen) ^ flip;
    }
    return merged == 0;
}

// Narrow floats become f32, which preserves order and special values.
static void keys_of_narrow(const CpuLoopKernels *kernels, HloType type, CpuSortOrder order, uint32_t flip,
                           uint32_t *keys, const char *source, int64_t stride, int64_t count) {
    const int width = hlo_type_bytes(type);
    for (int64_t i = 0; i < count; i++) kernels->decode[type](&keys[i], source + i * stride * width, NULL, NULL, 1, 0);
    (void)keys_of_f32(order, flip, keys, keys, 1, count);
}

#define INTEGER_KEYS(T, K, offset)      \
    for (int64_t i = 0; i < count; i++) \
    ((K *)keys)[i] = ((K)((const T *)source)[i * stride] ^ (K)(offset)) ^ (descending ? ~(K)0 : (K)0)

// Narrow integers have keys of 32 bits, whose high bits are constant and cost a radix sort nothing.
static void keys_of_integers(HloType type, bool descending, void *keys, const void *source, int64_t stride,
                             int64_t count) {
    const bool is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
    switch (hlo_type_bytes(type)) {
        case 1:
            if (is_signed)
                INTEGER_KEYS(int8_t, uint32_t, 0x80000000u);
            else
                INTEGER_KEYS(uint8_t, uint32_t, 0);
            break;
        case 2:
            if (is_signed)
                INTEGER_KEYS(int16_t, uint32_t, 0x80000000u);
            else
                INTEGER_KEYS(uint16_t, uint32_t, 0);
            break;
        case 4: INTEGER_KEYS(uint32_t, uint32_t, is_signed ? 0x80000000u : 0); break;
        default: INTEGER_KEYS(uint64_t, uint64_t, is_signed ? UINT64_C(1) << 63 : 0); break;
    }
}

void cpu_sort_make_keys(const CpuLoopKernels *kernels, HloType type, CpuSortOrder order, bool descending, void *keys,
                        const void *source, int64_t stride, int64_t count, bool *invertible) {
    *invertible = true;
    const uint64_t flip = descending ? UINT64_MAX : 0;
    if (type == HLO_F32)
        *invertible = keys_of_f32(order, (uint32_t)flip, keys, source, stride, count);
    else if (type == HLO_F64)
        *invertible = keys_of_f64(order, flip, keys, source, stride, count);
    else if (hlo_type_is_float(type))
        keys_of_narrow(kernels, type, order, (uint32_t)flip, keys, source, stride, count);
    else
        keys_of_integers(type, descending, keys, source, stride, count);
}

void cpu_sort_unkey(HloType type, bool descending, void *target, int64_t stride, const void *keys, int64_t count) {
    const bool is_float = hlo_type_is_float(type), is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
    if (cpu_sort_key_bits(type) == 32) {
        const uint32_t flip = descending ? UINT32_MAX : 0, offset = is_signed ? 0x80000000u : 0;
        for (int64_t i = 0; i < count; i++) {
            const uint32_t key = ((const uint32_t *)keys)[i] ^ flip;
            ((uint32_t *)target)[i * stride] = is_float ? f32_of_key(key) : key ^ offset;
        }
        return;
    }
    const uint64_t flip = descending ? UINT64_MAX : 0, offset = is_signed ? UINT64_C(1) << 63 : 0;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t key = ((const uint64_t *)keys)[i] ^ flip;
        ((uint64_t *)target)[i * stride] = is_float ? f64_of_key(key) : key ^ offset;
    }
}
