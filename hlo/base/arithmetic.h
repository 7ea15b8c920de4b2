// SPDX-License-Identifier: Apache-2.0
// Small functions of whole numbers.
#ifndef MESHLO_HLO_BASE_ARITHMETIC_H_
#define MESHLO_HLO_BASE_ARITHMETIC_H_

#include <stdint.h>

// The greatest common divisor of two numbers from 0 on; 0 only of 0 and 0. Any thread.
static inline int64_t hlo_gcd(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static inline int64_t hlo_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// a / b rounded up, and the smallest multiple of b that is no less than a: of a from 0 and b from 1 on, with room for
// their sum.
static inline int64_t hlo_divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static inline int64_t hlo_round_up(int64_t a, int64_t b) {
    return hlo_divide_up(a, b) * b;
}

// The product of `count` numbers, 1 of none. For sizes that a shape has already: nobody looks for overflow.
static inline int64_t hlo_product(const int64_t *numbers, int64_t count) {
    int64_t result = 1;
    for (int64_t i = 0; i < count; i++) result *= numbers[i];
    return result;
}

#endif
