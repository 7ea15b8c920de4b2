// SPDX-License-Identifier: Apache-2.0
// Small functions on integers.
#ifndef MESHLO_HLO_BASE_ARITHMETIC_H_
#define MESHLO_HLO_BASE_ARITHMETIC_H_

#include <stdint.h>

// The greatest common divisor of two non-negative numbers; 0 only if both are 0. Any thread.
static inline int64_t hlo_gcd(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static inline int64_t hlo_larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t hlo_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// For qsort() of int64_t, the least first. Any thread.
static inline int hlo_compare_int64(const void *a, const void *b) {
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

// a / b rounded up, and the smallest multiple of b that is at least a: for a >= 0 and b >= 1 whose sum does not
// overflow.
static inline int64_t hlo_divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static inline int64_t hlo_round_up(int64_t a, int64_t b) {
    return hlo_divide_up(a, b) * b;
}

// The product of `count` numbers, 1 for none. For sizes that a shape already has: overflow is not checked.
static inline int64_t hlo_product(const int64_t *numbers, int64_t count) {
    int64_t result = 1;
    for (int64_t i = 0; i < count; i++) result *= numbers[i];
    return result;
}

#endif
