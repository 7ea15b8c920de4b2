// SPDX-License-Identifier: Apache-2.0
// A text as a list of words, to change some of them, for the tests and fuzzers that mutate programs.
#ifndef MESHLO_TESTS_SUPPORT_WORDS_H_
#define MESHLO_TESTS_SUPPORT_WORDS_H_

#include "hlo/base/text.h"

enum { WORDS_MOST = 20000 };

// A run of letters, digits, underscores and dots, a run of blanks, or a single mark: bytes of the text, or of something
// that replaces them and lives as long.
typedef struct Word {
    const char *text;
    size_t length;
} Word;

typedef struct Words {
    Word items[WORDS_MOST];
    int64_t count;
} Words;

// The words of a text; those after the last that has room are dropped.
void words_split(Words *words, const char *text, size_t length);
// The words in a row. Free with hlo_text_free().
HloText words_join(const Words *words);
// A word that replaces another one.
Word word_of(const char *text);
// The first character of a word determines its kind.
bool word_is_number(const Word *word);
bool word_is_name(const Word *word);

#endif
