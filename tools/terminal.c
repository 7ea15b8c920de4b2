// SPDX-License-Identifier: Apache-2.0
#include "tools/terminal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "hlo/base/macros.h"

#define PLAIN "\033[0m"
#define BOLD "\033[1m"
#define OPTION "\033[36m"

// Narrower ones are not worth the breaks.
static const int64_t kLeastWidth = 40;

// Words that are coloured where they are found.
static const struct {
    const char *word, *colour;
} kWords[] = {
    {"error:", "\033[1;31m"}, {"warning:", "\033[1;35m"}, {"note:", "\033[1;36m"}, {"does not fit", "\033[31m"}};

CliTerminal cli_terminal_open(int descriptor) {
    if (!isatty(descriptor)) return (CliTerminal){0};
    const char *kind = getenv("TERM"), *columns = getenv("COLUMNS");
    struct winsize size = {0};
    int64_t width = ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    if (!width && columns) width = strtol(columns, NULL, 10);
    const bool dumb = !kind || !*kind || !strcmp(kind, "dumb");
    return (CliTerminal){!getenv("NO_COLOR") && !dumb, width >= kLeastWidth ? width : 0};
}

// The columns that UTF-8 takes: the bytes that begin a character.
static int64_t columns_of(const char *data, size_t length) {
    int64_t columns = 0;
    for (size_t i = 0; i < length; ++i) columns += ((unsigned char)data[i] & 0xc0) != 0x80;
    return columns;
}

// Where a line's last column of a table begins, else its indentation and a bit more.
static int64_t hanging_indent(bool help, const char *line, size_t length, int64_t width) {
    size_t begin = 0, last;
    while (begin < length && line[begin] == ' ') begin++;
    last = begin;
    for (size_t i = begin; i + 2 < length; ++i)
        if (line[i] == ' ' && line[i + 1] == ' ' && line[i + 2] != ' ') last = i + 2;
    const int64_t column = columns_of(line, last);
    if (last > begin && column * 2 <= width) return column;
    return help && !begin ? 0 : (int64_t)begin + 2;  // the prose of a help has none
}

// Appends a part of a line, with its words coloured.
static void add_words(const CliTerminal *terminal, const char *data, size_t length, HloText *text) {
    for (size_t i = 0; i < length;) {
        size_t w = 0;
        const bool begins = i == 0 || data[i - 1] == ' ' || data[i - 1] == '(';
        while (terminal->colours && begins && w < HLO_COUNT_OF(kWords) &&
               (strlen(kWords[w].word) > length - i || memcmp(data + i, kWords[w].word, strlen(kWords[w].word)) != 0))
            w++;
        const bool found = terminal->colours && begins && w < HLO_COUNT_OF(kWords);
        const size_t size = found ? strlen(kWords[w].word) : 1;
        if (found) hlo_text_string(text, kWords[w].colour);
        hlo_text_append(text, data + i, size);
        if (found) hlo_text_string(text, PLAIN);
        i += size;
    }
}

// Appends a line without its end, broken where it is too wide.
static void add_broken(const CliTerminal *terminal, bool help, const char *line, size_t length, HloText *text) {
    const int64_t indent = hanging_indent(help, line, length, terminal->width);
    int64_t left = terminal->width;
    int64_t least = indent / 2;  // columns of the first line: its beginning is not separated from the rest
    while (terminal->width && columns_of(line, length) > left) {
        size_t end = 0, space = 0;
        int64_t column = 0;
        for (; end < length && column <= left; ++end) {
            if (line[end] == ' ' && columns_of(line, end) > least) space = end;
            column += ((unsigned char)line[end] & 0xc0) != 0x80;
        }
        while (!space && end < length && line[end] != ' ') end++;  // a word that is wider than the terminal
        if (!space) space = end;
        size_t kept = space;
        while (kept && line[kept - 1] == ' ') kept--;
        add_words(terminal, line, kept, text);
        while (space < length && line[space] == ' ') space++;
        line += space;
        length -= space;
        if (!length) return;
        hlo_text_format(text, "\n%*s", (int)indent, "");
        left = terminal->width - indent;
        least = 0;
    }
    add_words(terminal, line, length, text);
}

// Whether a line is a heading: words without numbers, above lines that are indented.
static bool is_heading(const char *line, size_t length, const char *next) {
    for (size_t i = 0; i < length; ++i)
        if (line[i] >= '0' && line[i] <= '9') return false;
    return length && line[0] != ' ' && line[0] != '-' && next && next[0] == ' ';
}

void cli_terminal_text(const CliTerminal *terminal, bool help, const char *data, size_t length, HloText *text) {
    assert(terminal && text);
    const char *end = data + length;
    for (const char *line = data; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        const size_t size = (size_t)((stop ? stop : end) - line), blank = strspn(line, " ");
        const bool option = blank < size && line[blank] == '-' && size > blank + 1;
        const size_t name = option && help ? size - blank : 0;
        if (terminal->colours && is_heading(line, size, stop && stop + 1 < end ? stop + 1 : NULL)) {
            hlo_text_string(text, BOLD);
            hlo_text_append(text, line, size);
            hlo_text_string(text, PLAIN);
        } else if (option && !help) {
            add_words(terminal, line, size, text);
        } else {
            HloText broken = {0};
            add_broken(terminal, help, line, size, &broken);
            const char *gap = name && broken.data ? strstr(broken.data + blank, "  ") : NULL;
            const size_t colour = gap                   ? (size_t)(gap - broken.data)
                                  : name && broken.data ? strcspn(broken.data, "\n")
                                                        : 0;
            if (terminal->colours && colour) {
                hlo_text_format(text, "%.*s" OPTION "%.*s" PLAIN "%s", (int)blank, broken.data, (int)(colour - blank),
                                broken.data + blank, broken.data + colour);
            } else if (broken.length) {
                hlo_text_append(text, broken.data, broken.length);
            }
            text->failed |= broken.failed;
            hlo_text_free(&broken);
        }
        if (stop) hlo_text_char(text, '\n');
        line = stop ? stop + 1 : end;
    }
}
