// SPDX-License-Identifier: Apache-2.0
// Growing by half keeps appending linear. The first failure is recorded and all later calls are ignored, so that
// printers need not check each call: they call hlo_text_status() once at the end.
#include "hlo/base/text.h"

#include <assert.h>

#include "hlo/base/decimal.h"
#include "hlo/base/macros.h"

// Grows by half of the current size. Running out of memory is recorded and reported once, by hlo_text_status(): callers
// need not check each append.
char *hlo_text_reserve(HloText *text, size_t extra) {
    assert(text->length <= text->capacity);
    if (text->failed) return NULL;
    if (extra >= SIZE_MAX - text->length) {
        text->failed = true;
        return NULL;
    }
    size_t needed = text->length + extra + 1;
    if (needed > text->capacity) {
        size_t capacity = text->capacity < 128 ? 128 : text->capacity + text->capacity / 2;
        if (capacity < needed) capacity = needed;
        char *grown = hlo_reallocate(text->data, capacity);
        if (!grown) {
            text->failed = true;
            return NULL;
        }
        text->data = grown;
        text->capacity = capacity;
    }
    return text->data + text->length;
}

void hlo_text_append_growing(HloText *text, const char *data, size_t length) {
    assert(data || length == 0);
    char *end = hlo_text_reserve(text, length);
    if (!end) return;
    memcpy(end, data, length);
    text->length += length;
    text->data[text->length] = 0;
}

// Measures first, then writes: no estimated size can be too small.
void hlo_text_format_list(HloText *text, const char *format, va_list arguments) {
    assert(text && format);
    va_list again;
    va_copy(again, arguments);
    int length = hlo_vsnprintf(NULL, 0, format, arguments);
    char *end = length < 0 ? NULL : hlo_text_reserve(text, (size_t)length);
    if (end) {
        hlo_vsnprintf(end, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    } else {
        text->failed = true;
    }
    va_end(again);
}

void hlo_text_format(HloText *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    hlo_text_format_list(text, format, arguments);
    va_end(arguments);
}

void hlo_text_uint64(HloText *text, uint64_t value) {
    char digits[HLO_DECIMAL_DIGITS];
    hlo_text_append(text, digits, hlo_write_decimal(digits, value));
}

void hlo_text_int64(HloText *text, int64_t value) {
    if (value < 0) {
        hlo_text_char(text, '-');
        hlo_text_uint64(text, 0 - (uint64_t)value);
    } else {
        hlo_text_uint64(text, (uint64_t)value);
    }
}

HloStatus hlo_text_status(const HloText *text) {
    return text->failed ? hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory while writing text") : HLO_SUCCESS;
}

char *hlo_text_to_arena(HloArena *arena, HloText *text) {
    if (text->failed || !hlo_arena_reserve(arena, text->length + 1)) {
        hlo_text_free(text);
        hlo_out_of_memory();
    }
    char *copy = hlo_arena_string(arena, text->data, text->length);
    hlo_text_free(text);
    return copy;
}

void hlo_text_free(HloText *text) {
    hlo_free(text->data);
    *text = (HloText){0};
}

// Bytes alone have no fraction.
void hlo_text_size(HloText *text, int64_t bytes) {
    assert(text && bytes >= 0);
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < HLO_COUNT_OF(units)) {
        value /= 1024;
        unit++;
    }
    hlo_text_format(text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}
