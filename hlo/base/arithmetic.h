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

#endif
