// SPDX-License-Identifier: Apache-2.0
// An error is one allocation with copies of all its strings, so that it outlives the text and the arena that it refers
// to. Making one never fails: without memory it is the static error below, which is never freed.
#include "hlo/base/status.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "hlo/base/printable.h"
#include "hlo/base/text.h"

struct HloError {
    HloCode code;
    bool is_static;
    bool has_place;
    HloPlace place;
    char *message;
};

// The error returned when there is no memory left to describe one. Never modified.
static struct HloError out_of_memory = {
    .code = HLO_RESOURCE_EXHAUSTED, .is_static = true, .message = (char[]){"out of memory"}};

void hlo_bug(const char *file, int line, const char *condition) {
    fprintf(stderr, "meshlo: internal error at %s:%d: %s\nThis is a bug in Meshlo; please report it.\n", file, line,
            condition);
    abort();
}

// Messages quote names and strings of files. A message that is passed on whole may have several lines (a Python
// exception, a report); in all others a line break comes from a file, and could begin a line that looks like another
// message.
static void quote_safely(HloText *text, const char *format) {
    const bool whole = strcmp(format, "%s") == 0 || strcmp(format, "%.*s") == 0;
    if (text->failed || text->length == 0) return;
    HloText quoted = {0};
    hlo_text_printable(&quoted, text->data, text->length, whole);
    hlo_text_free(text);
    *text = quoted;
}

// Parts of the place for which there is no memory are omitted; the message is not.
static HloStatus make_error(HloCode code, const HloPlace *place, const char *format, va_list arguments) {
    assert(format);
    HLO_BUG_IF(code == HLO_OK);
    struct HloError *error = hlo_allocate_zeroed(1, sizeof(*error));
    if (!error) return &out_of_memory;
    HloText text = {0};
    hlo_text_format_list(&text, format, arguments);
    quote_safely(&text, format);
    if (text.failed || !text.data) {
        hlo_text_free(&text);
        hlo_free(error);
        return &out_of_memory;
    }
    error->code = code;
    error->message = text.data;
    if (place) {
        error->has_place = true;
        error->place = (HloPlace){.file = hlo_allocate_text(place->file),
                                  .line = place->line,
                                  .column = place->column,
                                  .line_text = hlo_allocate_text(place->line_text),
                                  .instruction = hlo_allocate_text(place->instruction)};
    }
    return error;
}

HloStatus hlo_error(HloCode code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    HloStatus status = make_error(code, NULL, format, arguments);
    va_end(arguments);
    return status;
}

HloStatus hlo_error_at(HloCode code, const HloPlace *place, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    HloStatus status = make_error(code, place, format, arguments);
    va_end(arguments);
    return status;
}

// The static error cannot be changed and is returned unchanged.
HloStatus hlo_status_annotate(HloStatus status, const char *format, ...) {
    assert(format);
    if (!status || status->is_static) return status;
    HloText text = {0};
    va_list arguments;
    va_start(arguments, format);
    hlo_text_format_list(&text, format, arguments);
    va_end(arguments);
    quote_safely(&text, format);
    hlo_text_string(&text, ": ");
    hlo_text_string(&text, status->message);
    if (text.failed) {
        hlo_text_free(&text);
        return status;
    }
    hlo_free(status->message);
    status->message = text.data;
    return status;
}

HloCode hlo_status_code(const struct HloError *status) {
    return status ? status->code : HLO_OK;
}

const char *hlo_status_message(const struct HloError *status) {
    return status ? status->message : "";
}

const HloPlace *hlo_status_place(const struct HloError *status) {
    return status && status->has_place ? &status->place : NULL;
}

HloStatus hlo_status_at_place(HloStatus status, const HloPlace *place) {
    if (!status || hlo_status_place(status)) return status;
    HloStatus placed = hlo_error_at(hlo_status_code(status), place, "%s", hlo_status_message(status));
    hlo_status_free(status);
    return placed;
}

HloCode hlo_code_from_number(int64_t number) {
#define HLO_CODE(name, code, text) \
    if (number == (code) && number != HLO_OK) return HLO_##name;
#include "hlo/base/status.def"
#undef HLO_CODE
    return HLO_UNKNOWN;
}

const char *hlo_code_name(HloCode code) {
    switch (code) {
#define HLO_CODE(name, number, text) \
    case HLO_##name:                 \
        return text;
#include "hlo/base/status.def"
#undef HLO_CODE
    }
    return "UNKNOWN";
}

// Prints the line and a caret below the column, which counts bytes: one blank for each character printed before it, and
// tabs for tabs, so that the caret is below its position whatever the width of a tab.
// Of a long line, as a constant or a list of a million numbers makes it, only the part around the column is printed.
static void print_line(HloText *text, const HloPlace *place) {
    enum { MOST = 1000, AROUND = 200 };
    const char *line = place->line_text;
    const size_t length = strlen(line), start = text->length;
    size_t column = place->column < 1 ? 0 : (size_t)place->column - 1, first = 0, last = length;
    if (column > length) column = length;
    if (length > MOST) {
        first = column > AROUND ? column - AROUND : 0;
        last = length - column > AROUND ? column + AROUND : length;
        while (first > 0 && ((unsigned char)line[first] & 0xC0) == 0x80) first--;  // whole characters
        while (last < length && ((unsigned char)line[last] & 0xC0) == 0x80) last++;
    }
    if (first > 0) hlo_text_string(text, "...");
    hlo_text_printable(text, line + first, column - first, false);
    const size_t end = text->length;
    hlo_text_printable(text, line + column, last - column, false);
    hlo_text_string(text, last < length ? "...\n" : "\n");
    for (size_t i = start; i < end && !text->failed; i++)
        if ((text->data[i] & 0xC0) != 0x80) hlo_text_char(text, text->data[i] == '\t' ? '\t' : ' ');
    hlo_text_string(text, "^\n");
}

char *hlo_status_to_text(const struct HloError *status) {
    HloText text = {0};
    const HloPlace *place = hlo_status_place(status);
    const char *message = hlo_status_message(status);
    if (place && place->file) {
        hlo_text_printable(&text, place->file, strlen(place->file), false);
        hlo_text_char(&text, ':');
        if (place->line > 0) hlo_text_format(&text, "%lld:", (long long)place->line);
        if (place->line > 0 && place->column > 0) hlo_text_format(&text, "%lld:", (long long)place->column);
        hlo_text_char(&text, ' ');
    }
    hlo_text_string(&text, "error: ");
    hlo_text_printable(&text, message, strlen(message), true);
    hlo_text_char(&text, '\n');
    if (place && place->line_text && place->line > 0) print_line(&text, place);
    if (text.failed) hlo_text_free(&text);
    return text.data;
}

void hlo_status_free(HloStatus status) {
    if (!status || status->is_static) return;
    hlo_free(status->message);
    hlo_free((char *)(uintptr_t)status->place.file);
    hlo_free((char *)(uintptr_t)status->place.line_text);
    hlo_free((char *)(uintptr_t)status->place.instruction);
    hlo_free(status);
}
