// SPDX-License-Identifier: Apache-2.0
// What a terminal gets beside the text itself: colours, and lines that fit its width.
#ifndef MESHLO_TOOLS_TERMINAL_H_
#define MESHLO_TOOLS_TERMINAL_H_

#include "hlo/base/text.h"

// How a standard stream shows text.
typedef struct CliTerminal {
    bool colours;   // it is a terminal that has some, and NO_COLOR is not set
    int64_t width;  // in columns; 0: lines are not broken
} CliTerminal;

// Looks at a standard stream. What is no terminal has neither colours nor a width.
CliTerminal cli_terminal_open(int descriptor);

// Appends text for this terminal: headings are bold, options of a help are coloured, as are `error:`, `warning:`,
// `note:` and what does not fit. Lines that are too long are broken between words, and go on below their last column;
// those that begin with an option stay whole, to be pasted, but in a `help`.
void cli_terminal_text(const CliTerminal *terminal, bool help, const char *data, size_t length, HloText *text);

#endif
