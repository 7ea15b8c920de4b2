// SPDX-License-Identifier: Apache-2.0
// The few flags of XLA_FLAGS that mean something here. The variable is the user's for all XLA programs, so what is
// unknown or unreadable in it is passed over, and dumping never makes a run fail.
#include "tools/xla_flags.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/text/text.h"

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
// As XLA reads it: text that does not begin with a dash is the name of a file of flags. One that cannot be read is no
// error: XLA_FLAGS is never fatal (docs/cli.md).
static const char *flags_text(CliContext *context) {
    const char *text = getenv("XLA_FLAGS");
    if (!text || !*text || text[strspn(text, " \t")] == '-') return text;
    HloFileContent content;
    HloStatus status = hlo_file_read(text, 1 << 20, &content);
    hlo_status_free(status);
    if (status) return NULL;
    const char *copy = hlo_arena_string(context->arena, content.data, content.size);
    hlo_file_content_free(&content);
    return copy;
}

// The last one counts. Flags that nobody asks for here are not looked at.
const char *cli_xla_flag(CliContext *context, const char *name) {
    assert(name);
    const char *at = flags_text(context), *value = NULL;
    size_t length = strlen(name);
    for (const char *word; at && (word = next_word(context->arena, &at));) {
        word += strspn(word, "-");
        if (strncmp(word, name, length) != 0) continue;
        if (word[length] == '=') value = word + length + 1;
        if (word[length] == 0) value = "true";
    }
    return value;
}

// Names as XLA's, module_0000.NAME.STAGE.txt. Failures are warnings, as a dump is a by-product.
void cli_xla_dump(CliContext *context, const HloModule *module, const char *stage) {
    assert(module && stage);
    const char *folder = cli_xla_flag(context, "xla_dump_to");
    if (!folder) return;
    HloText text = {0}, path = {0};
    HloStatus status = hlo_print(module, NULL, &text);
    if (!status) status = hlo_file_make_folder(folder);
    hlo_text_format(&path, "%s/module_0000.", folder);
    hlo_file_name_part(&path, module->name);
    hlo_text_format(&path, ".%s.txt", stage);
    if (!status) status = hlo_text_status(&path);
    if (!status) status = hlo_file_write(path.data, text.data, text.length);
    hlo_text_free(&path);
    if (status) hlo_text_format(&context->complaint, "warning: %s\n", hlo_status_message(status));
    hlo_status_free(status);
    hlo_text_free(&text);
}
