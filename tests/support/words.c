// SPDX-License-Identifier: Apache-2.0
#include "tests/support/words.h"

#include <ctype.h>
#include <string.h>

static bool is_word_character(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

void words_split(Words *words, const char *text, size_t length) {
    words->count = 0;
    for (size_t at = 0; at < length && words->count < WORDS_MOST;) {
        size_t end = at + 1;
        while (is_word_character(text[at]) && end < length && is_word_character(text[end])) end++;
        while (isspace((unsigned char)text[at]) && end < length && isspace((unsigned char)text[end])) end++;
        words->items[words->count++] = (Word){text + at, end - at};
        at = end;
    }
}

HloText words_join(const Words *words) {
    HloText text = {0};
    for (int64_t i = 0; i < words->count; i++) hlo_text_append(&text, words->items[i].text, words->items[i].length);
    return text;
}

Word word_of(const char *text) {
    return (Word){text, strlen(text)};
}

bool word_is_number(const Word *word) {
    return word->length > 0 && isdigit((unsigned char)word->text[0]);
}

bool word_is_name(const Word *word) {
    return word->length > 0 && isalpha((unsigned char)word->text[0]);
}
