// SPDX-License-Identifier: Apache-2.0
#include "hlo/base/hexadecimal.h"

#include <assert.h>
#include <string.h>

static const char DIGITS[] = "0123456789abcdef";

char *hlo_hexadecimal(HloArena *arena, const void *bytes, size_t count) {
    assert(bytes || count == 0);
    const unsigned char *from = bytes;
    char *digits = HLO_ARENA_NEW(arena, char, 2 * (int64_t)count + 1);
    for (size_t i = 0; i < count; i++) {
        digits[2 * i] = DIGITS[from[i] >> 4];
        digits[2 * i + 1] = DIGITS[from[i] & 15];
    }
    return digits;
}

// The value of a digit; 16 or more for other characters.
static unsigned digit_value(char digit) {
    const char *found = digit ? strchr(DIGITS, digit) : NULL;
    return found ? (unsigned)(found - DIGITS) : 16;
}

bool hlo_bytes_of_hexadecimal(const char *digits, void *bytes) {
    assert(digits && bytes);
    unsigned char *to = bytes;
    for (; *digits; digits += 2, to++) {
        const unsigned high = digit_value(digits[0]), low = digit_value(digits[1]);
        if (high > 15 || low > 15) return false;
        *to = (unsigned char)(high << 4 | low);
    }
    return true;
}
