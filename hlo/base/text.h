// SPDX-License-Identifier: Apache-2.0
// A growing text, into which printers, reports and messages are written.
//
// Stability: stable.
#ifndef MESHLO_HLO_BASE_TEXT_H_
#define MESHLO_HLO_BASE_TEXT_H_

#include <string.h>

#include "hlo/base/memory.h"

HLO_BEGIN_C

// Heap memory, always NUL-terminated if data is not NULL. Zero-initialise; free with hlo_text_free(). When memory runs
// out, the text keeps its content and records the failure for hlo_text_status().
typedef struct HloText {
    char *data;
    size_t length;
    size_t capacity;
    bool failed;
} HloText;

// Makes room for `extra` more bytes and returns their position, or NULL when memory is short.
HLO_EXPORT char *hlo_text_reserve(HloText *text, size_t extra);
// The part of hlo_text_append() for a text that must grow.
HLO_EXPORT void hlo_text_append_growing(HloText *text, const char *data, size_t length);
// Appends `length` bytes. Inline, because printers append a few bytes at a time.
static inline void hlo_text_append(HloText *text, const char *data, size_t length) {
    if (length >= text->capacity - text->length) {
        hlo_text_append_growing(text, data, length);
        return;
    }
    memcpy(text->data + text->length, data, length);
    text->length += length;
    text->data[text->length] = 0;
}
// Appends printf output.
HLO_EXPORT void hlo_text_format(HloText *text, const char *format, ...) HLO_PRINTF(2, 3);
// As hlo_text_format(), with a va_list.
HLO_EXPORT void hlo_text_format_list(HloText *text, const char *format, va_list arguments);
// Appends the decimal digits of a number, faster than printf.
HLO_EXPORT void hlo_text_int64(HloText *text, int64_t value);
// As hlo_text_int64(), unsigned.
HLO_EXPORT void hlo_text_uint64(HloText *text, uint64_t value);
// RESOURCE_EXHAUSTED if any of the calls above ran out of memory.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_text_status(const HloText *text);
// Returns a NUL-terminated copy in `arena` and frees the text. Jumps to hlo_protect() when memory is short now, or was
// while the text was written.
HLO_EXPORT char *hlo_text_to_arena(HloArena *arena, HloText *text);
// Frees the text and leaves an empty one.
HLO_EXPORT void hlo_text_free(HloText *text);

// Appends a NUL-terminated string.
static inline void hlo_text_string(HloText *text, const char *string) {
    hlo_text_append(text, string, strlen(string));
}

// Appends one character.
static inline void hlo_text_char(HloText *text, char character) {
    if (text->length + 1 < text->capacity) {
        text->data[text->length++] = character;
        text->data[text->length] = 0;
    } else {
        hlo_text_append(text, &character, 1);
    }
}

// Appends a byte count of at least 0 with a unit of powers of 1024, by its IEC name: "1.5 GiB", "512 B".
HLO_EXPORT void hlo_text_size(HloText *text, int64_t bytes);

HLO_END_C

#endif
