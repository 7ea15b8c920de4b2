// SPDX-License-Identifier: Apache-2.0
// UTF-8 by the table of RFC 3629, section 4: the range of the second byte depends on the first, all later ones are 80
// to BF. Escapes are reversible: the bytes can be recovered.
#include "hlo/base/printable.h"

#include <assert.h>

// By first byte: the length of the character, and the range of its second byte.
static const struct {
    uint8_t first, last, length, low, high;
} forms[] = {
    {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF}, {0xE1, 0xEC, 3, 0x80, 0xBF}, {0xED, 0xED, 3, 0x80, 0x9F},
    {0xEE, 0xEF, 3, 0x80, 0xBF}, {0xF0, 0xF0, 4, 0x90, 0xBF}, {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F},
};

int hlo_utf8_length(const char *text, size_t left, uint32_t *code) {
    assert(text || left == 0);
    const uint8_t *bytes = (const uint8_t *)text;
    if (left == 0) return 0;
    if (bytes[0] < 0x80) {
        if (code) *code = bytes[0];
        return 1;
    }
    for (size_t i = 0; i < HLO_COUNT_OF(forms); i++) {
        const int length = forms[i].length;
        if (bytes[0] < forms[i].first || bytes[0] > forms[i].last) continue;
        if (left < (size_t)length || bytes[1] < forms[i].low || bytes[1] > forms[i].high) return 0;
        uint32_t value = bytes[0] & (0xFFu >> (length + 1));
        for (int k = 1; k < length; k++) {
            if ((bytes[k] & 0xC0) != 0x80) return 0;
            value = value << 6 | (bytes[k] & 0x3Fu);
        }
        if (code) *code = value;
        return length;
    }
    return 0;
}

// True for C0, DEL, C1, line and paragraph separators, and the marks of Unicode's bidirectional algorithm (UAX 9).
static bool is_command(uint32_t code, bool keep_lines) {
    if (code == '\t' || (keep_lines && code == '\n')) return false;
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 || code == 0x61C ||
           code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

void hlo_text_printable(HloText *text, const char *data, size_t length, bool keep_lines) {
    assert(text && (data || length == 0));
    for (size_t i = 0; i < length;) {
        uint32_t code = 0;
        const int bytes = hlo_utf8_length(data + i, length - i, &code);
        if (bytes > 0 && !is_command(code, keep_lines))
            hlo_text_append(text, data + i, (size_t)bytes);
        else if (bytes > 1)
            hlo_text_format(text, "\\u{%x}", code);
        else
            hlo_text_format(text, "\\x%02x", (unsigned char)data[i]);
        i += bytes > 0 ? (size_t)bytes : 1;
    }
}

char *hlo_utf8_put(char *to, uint32_t code) {
    assert(code <= 0x10FFFF);
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6);
        *to++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *to++ = (char)(0xE0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    } else {
        *to++ = (char)(0xF0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 63));
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}
