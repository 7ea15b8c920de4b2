// SPDX-License-Identifier: Apache-2.0
// POSIX has no strtod() that takes a locale, so the calling thread's is exchanged for the time of a call: a pointer of
// the thread's own. The C library has the locale "C" as a constant: newlocale() allocates nothing, and there is nothing
// to free.
#include "hlo/base/decimal.h"

#include <assert.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

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
