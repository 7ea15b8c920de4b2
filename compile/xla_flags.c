// SPDX-License-Identifier: Apache-2.0
// Reading XLA_FLAGS: words with quotes, or a file of them.
#include "compile/xla_flags.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/file.h"

// The next word of *at with its quotes removed, or NULL at the end.
static const char *next_word(HloArena *arena, const char **at) {
    assert(*at);
    *at += strspn(*at, " \t\r\n");
    if (!**at) return NULL;
    char *word = hlo_arena_string(arena, *at, strlen(*at)), *out = word;
    char quote = 0;
    for (; **at && (quote || !strchr(" \t\r\n", **at)); ++*at) {
        if (quote ? **at == quote : **at == '\'' || **at == '"') {
            quote = quote ? 0 : **at;
        } else {
            *out++ = **at;
        }
    }
    *out = 0;
    return word;
}

// The text of XLA_FLAGS, or of the file that it names.
// As in XLA, text that does not begin with a dash is the name of a file of flags. An unreadable file is not an error:
// XLA_FLAGS is never fatal (docs/cli.md).
static const char *flags_text(HloArena *arena) {
    const char *text = getenv("XLA_FLAGS");
    if (!text || !*text || text[strspn(text, " \t")] == '-') return text;
    HloFileContent content;
    HloStatus status = hlo_file_read(text, 1 << 20, &content);
    hlo_status_free(status);
    if (status) return NULL;
    const char *copy = hlo_arena_string(arena, content.data, content.size);
    hlo_file_content_free(&content);
    return copy;
}

// The last one counts. Flags that are not requested here are ignored.
const char *compile_xla_flag(HloArena *arena, const char *name) {
    assert(name);
    const char *at = flags_text(arena), *value = NULL;
    size_t length = strlen(name);
    for (const char *word; at && (word = next_word(arena, &at));) {
        word += strspn(word, "-");
        if (strncmp(word, name, length) != 0) continue;
        if (word[length] == '=') value = word + length + 1;
        if (word[length] == 0) value = "true";
    }
    return value;
}
