// SPDX-License-Identifier: Apache-2.0
// Internal: times and sizes that may grow beyond any machine. They saturate at EMU_MOST instead of overflowing.
#ifndef MESHLO_EMULATOR_AMOUNT_H_
#define MESHLO_EMULATOR_AMOUNT_H_

#include <stdint.h>

// The largest amount: picoseconds of 53 days, bytes of 4 EiB.
#define EMU_MOST (INT64_C(1) << 62)

// The integer nearest to a non-negative number; EMU_MOST for larger values and NaN.
static inline int64_t emu_amount(double value) {
    return value < 0x1p62 ? (int64_t)(value + 0.5) : EMU_MOST;
}

// The sum of two amounts.
static inline int64_t emu_add(int64_t left, int64_t right) {
    return left > EMU_MOST - right ? EMU_MOST : left + right;
}

// An amount multiplied by a number of repetitions.
static inline int64_t emu_times(int64_t amount, double repeat) {
    return emu_amount((double)amount * repeat);
}

// Converts a time in seconds to picoseconds.
static inline int64_t emu_picoseconds(double seconds) {
    return emu_amount(seconds * 1e12);
}

#endif
