// SPDX-License-Identifier: Apache-2.0
// Makes text from outside safe for a terminal or for a file of a strict format.
//
// Stability: experimental.
#ifndef MESHLO_HLO_BASE_PRINTABLE_H_
#define MESHLO_HLO_BASE_PRINTABLE_H_

#include "hlo/base/text.h"

HLO_BEGIN_C

// The length of the UTF-8 character that begins at `text`, of which `left` bytes are available: 1 to 4, or 0 if the
// bytes are not one (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). Sets *code to the character
// unless `code` is NULL.
HLO_EXPORT int hlo_utf8_length(const char *text, size_t left, uint32_t *code);

// Writes a character as UTF-8, at most four bytes, and returns the position after it.
HLO_EXPORT char *hlo_utf8_put(char *to, uint32_t code);

// Appends `length` bytes such that they contain no commands for a terminal and are displayed in their own order:
// control characters, bytes that are not UTF-8 and marks that change the direction of writing are written in
// hexadecimal (x1B, u{202E}, each after a backslash). Tabs are kept, and with `keep_lines` newlines.
HLO_EXPORT void hlo_text_printable(HloText *text, const char *data, size_t length, bool keep_lines);

HLO_END_C

#endif
