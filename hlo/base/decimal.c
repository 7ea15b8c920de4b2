// SPDX-License-Identifier: Apache-2.0
// POSIX has no strtod() that takes a locale, so the calling thread's locale, which is a pointer of the thread, is
// exchanged during a call. The C library has the locale "C" as a constant: newlocale() allocates nothing, and there is
// nothing to free.
#include "hlo/base/decimal.h"

#include <assert.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t enter(void) {
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

static void leave(locale_t before) {
    uselocale(before);
}

double hlo_strtod(const char *text, char **end) {
    assert(text);
    const locale_t before = enter();
    const double value = strtod(text, end);
    leave(before);
    return value;
}

float hlo_strtof(const char *text, char **end) {
    assert(text);
    const locale_t before = enter();
    const float value = strtof(text, end);
    leave(before);
    return value;
}

size_t hlo_write_decimal(char to[HLO_DECIMAL_DIGITS], uint64_t value) {
    static const char kPairs[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    char digits[HLO_DECIMAL_DIGITS];
    size_t start = sizeof(digits);
    assert(to);
    for (; value >= 100; value /= 100) memcpy(digits + (start -= 2), kPairs + 2 * (value % 100), 2);
    if (value >= 10)
        memcpy(digits + (start -= 2), kPairs + 2 * value, 2);
    else
        digits[--start] = (char)('0' + value);
    memcpy(to, digits + start, sizeof(digits) - start);
    return sizeof(digits) - start;
}

int hlo_vsnprintf(char *buffer, size_t size, const char *format, va_list arguments) {
    assert(format);
    const locale_t before = enter();
    const int length = vsnprintf(buffer, size, format, arguments);
    leave(before);
    return length;
}

int hlo_snprintf(char *buffer, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = hlo_vsnprintf(buffer, size, format, arguments);
    va_end(arguments);
    return length;
}
