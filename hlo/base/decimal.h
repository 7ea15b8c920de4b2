// SPDX-License-Identifier: Apache-2.0
// Numbers from and to text with a decimal point, whatever the locale: in a program that has called setlocale() the C
// library's functions may read and write "0,5", which is not HLO. Each of these functions except one is the function of
// <stdlib.h> or <stdio.h> that it names, in the locale "C"; any thread may call them.
//
// Stability: experimental.
#ifndef MESHLO_HLO_BASE_DECIMAL_H_
#define MESHLO_HLO_BASE_DECIMAL_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "hlo/base/macros.h"

HLO_BEGIN_C

// As strtod(): *end, unless NULL, is the end of the number, or `text` if there is none.
HLO_EXPORT double hlo_strtod(const char *text, char **end);
// As strtof().
HLO_EXPORT float hlo_strtof(const char *text, char **end);
// Writes the digits of a number to `to`, without a NUL, and returns how many there are. It writes two at a time, which
// matters because every instruction of a large program has a number in its name.
enum { HLO_DECIMAL_DIGITS = 20 };
HLO_EXPORT size_t hlo_write_decimal(char to[HLO_DECIMAL_DIGITS], uint64_t value);
// As snprintf(): returns the length of the whole text, of which `size` - 1 bytes fit.
HLO_EXPORT int hlo_snprintf(char *buffer, size_t size, const char *format, ...) HLO_PRINTF(3, 4);
// As vsnprintf().
HLO_EXPORT int hlo_vsnprintf(char *buffer, size_t size, const char *format, va_list arguments);

HLO_END_C

#endif
