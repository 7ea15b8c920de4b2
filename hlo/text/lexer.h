// SPDX-License-Identifier: Apache-2.0
// The lexer of HLO text: one token at a time over a private, NUL-terminated copy of the text, so that names and strings
// can be terminated in place instead of copied.
#ifndef MESHLO_HLO_TEXT_LEXER_H_
#define MESHLO_HLO_TEXT_LEXER_H_

#include "hlo/ir/shape.h"

// Single characters ( ) { } [ ] , : = * # + ~ ? are tokens of their own, with the character as their kind.
typedef enum HloTokenKind {
    HLO_TOKEN_END = 256,
    HLO_TOKEN_BAD,  // no token can begin so
    HLO_TOKEN_IDENTIFIER,
    HLO_TOKEN_NAME,       // %name or name:
    HLO_TOKEN_ATTRIBUTE,  // name=
    HLO_TOKEN_INT,
    HLO_TOKEN_DECIMAL,  // with a point or exponent, or a NaN
    HLO_TOKEN_NEGATIVE_INFINITY,
    HLO_TOKEN_STRING,  // the text is the part between the quotes
    HLO_TOKEN_ARROW,
    HLO_TOKEN_LESS_EQUAL,
    HLO_TOKEN_DOTS,
} HloTokenKind;

typedef struct HloToken {
    int kind;
    char *start;      // of the token in the copy
    char *text;       // its content: without %, quotes, = and :
    size_t length;    // of text
    int64_t integer;  // of an INT; values up to 2^64 - 1 wrap
    double decimal;   // of a DECIMAL
    bool escaped;     // a STRING with backslashes
} HloToken;

typedef struct HloLexer {
    char *begin;
    char *end;       // holds a NUL
    char *at;        // after the current token
    char *last_end;  // after the previous token
    HloToken token;
} HloLexer;

// Lexes the next token into lexer->token.
void hlo_lex(HloLexer *lexer);
// The first character after the current token, white space and comments skipped; 0 at the end.
char hlo_lex_peek(const HloLexer *lexer);
// With `{` as the current token: makes everything up to the matching `}` a STRING token, respecting quotes. False if
// there is no matching brace.
bool hlo_lex_json(HloLexer *lexer);
// A decimal number of the form that the lexer accepts, correctly rounded.
double hlo_lex_decimal(const char *text, size_t length);
// True for [a-zA-Z0-9_.-].
bool hlo_lex_is_name_character(char character);

#endif
