// SPDX-License-Identifier: Apache-2.0
// Tokens of HLO text. The only state of the lexer is its position: one token is read ahead, in `token`, and the parser
// requests the next one when it has consumed it. The text ends with a NUL, which belongs to no class, so that no loop
// below needs to check for the end.
//
// HLO text is awkward because names may contain dots and dashes, and because a word's meaning depends on what follows
// it: `x:` is a name, `x=` an attribute, `x` either a keyword or a name. The token's kind distinguishes them; the
// parser decides whether a name is allowed. Texts of models are hundreds of megabytes of numbers, hence the table of
// classes and the fast path for decimals.
#include "hlo/text/lexer.h"

#include <assert.h>
#include <math.h>

#include "hlo/base/decimal.h"

enum { SPACE = 1, DIGIT = 2, LETTER = 4, NAME = 8, SINGLE = 16 };

// The classes of the ASCII characters; everything else has none.
static const unsigned char classes[256] = {
    [' '] = SPACE,  ['\t'] = SPACE, ['\n'] = SPACE,        ['\r'] = SPACE, ['('] = SINGLE, [')'] = SINGLE,
    ['{'] = SINGLE, ['}'] = SINGLE, ['['] = SINGLE,        [']'] = SINGLE, [','] = SINGLE, [':'] = SINGLE,
    ['='] = SINGLE, ['*'] = SINGLE, ['#'] = SINGLE,        ['+'] = SINGLE, ['~'] = SINGLE, ['?'] = SINGLE,
    ['.'] = NAME,   ['-'] = NAME,
#define DIGITS(c) [c] = DIGIT | NAME
    DIGITS('0'),    DIGITS('1'),    DIGITS('2'),           DIGITS('3'),    DIGITS('4'),    DIGITS('5'),
    DIGITS('6'),    DIGITS('7'),    DIGITS('8'),           DIGITS('9'),
#undef DIGITS
#define BOTH(lower, upper) [lower] = LETTER | NAME, [upper] = LETTER | NAME
    BOTH('a', 'A'), BOTH('b', 'B'), BOTH('c', 'C'),        BOTH('d', 'D'), BOTH('e', 'E'), BOTH('f', 'F'),
    BOTH('g', 'G'), BOTH('h', 'H'), BOTH('i', 'I'),        BOTH('j', 'J'), BOTH('k', 'K'), BOTH('l', 'L'),
    BOTH('m', 'M'), BOTH('n', 'N'), BOTH('o', 'O'),        BOTH('p', 'P'), BOTH('q', 'Q'), BOTH('r', 'R'),
    BOTH('s', 'S'), BOTH('t', 'T'), BOTH('u', 'U'),        BOTH('v', 'V'), BOTH('w', 'W'), BOTH('x', 'X'),
    BOTH('y', 'Y'), BOTH('z', 'Z'), ['_'] = LETTER | NAME,
#undef BOTH
};

// The table is indexed by unsigned characters: UTF-8 in strings and comments has the upper bit set.
static inline int class_of(char character) {
    return classes[(unsigned char)character];
}

bool hlo_lex_is_name_character(char character) {
    return class_of(character) & NAME;
}

// Skips white space and comments. Stops before a comment that does not end.
static char *skip_blanks(char *at) {
    for (;;) {
        while (class_of(*at) & SPACE) at++;
        if (at[0] != '/') return at;
        if (at[1] == '*') {
            char *stop = strstr(at + 2, "*/");
            if (!stop) return at;
            at = stop + 2;
        } else if (at[1] == '/') {
            at += strcspn(at, "\r\n");
        } else {
            return at;
        }
    }
}

// The first character of the next token; the current token stays.
char hlo_lex_peek(const HloLexer *lexer) {
    return *skip_blanks(lexer->at);
}

// Sets the token to text..end; the next one begins after it.
static void finish(HloLexer *lexer, int kind, char *text, char *end) {
    lexer->token.kind = kind;
    lexer->token.text = text;
    lexer->token.length = (size_t)(end - text);
    lexer->at = end;
}

// Payloads are stored in the 52 bits of a double's mantissa; without one, it is the quiet NaN that XLA prints as plain
// nan.
static double nan_with_payload(bool negative, uint64_t payload) {
    uint64_t bits = (negative ? UINT64_C(0xFFF0000000000000) : UINT64_C(0x7FF0000000000000)) |
                    (payload ? payload : UINT64_C(0x8000000000000));
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

// nan, -nan, nan(0x1): `at` is after the word.
static void lex_nan(HloLexer *lexer, char *at, bool negative) {
    uint64_t payload = 0;
    if (*at == '(') {
        char *digits = at + 3;
        char *stop = digits;
        if (at[1] == '0' && at[2] == 'x') {
            for (; stop - digits < 17; stop++) {
                int digit = class_of(*stop) & DIGIT                      ? *stop - '0'
                            : (*stop | 32) >= 'a' && (*stop | 32) <= 'f' ? (*stop | 32) - 'a' + 10
                                                                         : -1;
                if (digit < 0) break;
                payload = payload << 4 | (uint64_t)digit;
            }
        }
        if (stop == digits || *stop != ')' || payload == 0 || payload >= UINT64_C(1) << 52) {
            finish(lexer, HLO_TOKEN_BAD, lexer->token.start, at);
            return;
        }
        at = stop + 1;
    }
    lexer->token.decimal = nan_with_payload(negative, payload);
    finish(lexer, HLO_TOKEN_DECIMAL, lexer->token.start, at);
}

// A colon or an equals sign directly after the word belongs to the token.
static void lex_identifier(HloLexer *lexer, char *at) {
    assert(at < lexer->end);
    char *start = at;
    while (class_of(*at) & NAME) at++;
    if (*at == ':') {
        finish(lexer, HLO_TOKEN_NAME, start, at);
        lexer->at++;
    } else if (*at == '=') {
        finish(lexer, HLO_TOKEN_ATTRIBUTE, start, at);
        lexer->at++;
    } else if (at - start == 3 && memcmp(start, "nan", 3) == 0) {
        lex_nan(lexer, at, false);
    } else {
        finish(lexer, HLO_TOKEN_IDENTIFIER, start, at);
    }
}

// %name, as XLA prints names by default. A name begins with a letter, so that a lone % is an error here and not much
// later.
static void lex_percent(HloLexer *lexer, char *at) {
    char *start = at + 1;
    if (!(class_of(*start) & LETTER)) {
        finish(lexer, HLO_TOKEN_BAD, at, start);
        return;
    }
    for (at = start; class_of(*at) & NAME;) at++;
    finish(lexer, HLO_TOKEN_NAME, start, at);
}

// An exact product or quotient of two doubles, if mantissa and power of ten are both exact; else strtod.
double hlo_lex_decimal(const char *text, size_t length) {
    assert(text && length > 0);
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *at = text, *end = text + length;
    bool negative = *at == '-';
    uint64_t mantissa = 0;
    int digits = 0, scale = 0, exponent = 0;
    for (at += negative; at < end && class_of(*at) & DIGIT; at++, digits++)
        mantissa = mantissa * 10 + (uint64_t)(*at - '0');
    if (at < end && *at == '.') {
        for (at++; at < end && class_of(*at) & DIGIT; at++, digits++, scale--) {
            mantissa = mantissa * 10 + (uint64_t)(*at - '0');
        }
    }
    if (at < end && (*at | 32) == 'e') {
        bool minus = *++at == '-';
        if (*at == '-' || *at == '+') at++;
        for (; at < end && exponent < 10000; at++) exponent = exponent * 10 + (*at - '0');
        scale += minus ? -exponent : exponent;
    }
    if (digits > 18 || mantissa >= UINT64_C(1) << 53 || scale < -22 || scale > 22) return hlo_strtod(text, NULL);
    double value = scale < 0 ? (double)mantissa / powers[-scale] : (double)mantissa * powers[scale];
    return negative ? -value : value;
}

// The end of [.]digits and an exponent, or NULL if the text at the first digit is an integer.
static char *decimal_end(char *at) {
    bool decimal = false;
    while (class_of(*at) & DIGIT) at++;
    if (*at == '.' && at[1] != '.') {
        decimal = true;
        for (at++; class_of(*at) & DIGIT;) at++;
    }
    if ((*at | 32) == 'e') {
        char *digits = at + 1 + (at[1] == '-' || at[1] == '+');
        if (class_of(*digits) & DIGIT) {
            decimal = true;
            for (at = digits; class_of(*at) & DIGIT;) at++;
        }
    }
    return decimal ? at : NULL;
}

// Integers keep all 64 bits, signed or not; the character after the digits determines whether it is a decimal. -inf and
// -nan are the only words that begin with a dash.
static void lex_number(HloLexer *lexer, char *at) {
    char *start = at;
    bool negative = *at == '-';
    char *digits = at + negative;
    uint64_t value = 0;
    bool overflow = false;
    for (at = digits; class_of(*at) & DIGIT; at++) {
        unsigned digit = (unsigned)(*at - '0');
        overflow |= __builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value);
    }
    if (*at == '.' || (*at | 32) == 'e') {
        char *end = decimal_end(digits);
        if (end && (at > digits || class_of(digits[1]) & DIGIT)) {
            lexer->token.decimal = hlo_lex_decimal(start, (size_t)(end - start));
            finish(lexer, HLO_TOKEN_DECIMAL, start, end);
            return;
        }
    }
    if (at == digits) {
        if (memcmp(start, "-inf", 4) == 0) {
            finish(lexer, HLO_TOKEN_NEGATIVE_INFINITY, start, start + 4);
        } else if (memcmp(start, "-nan", 4) == 0) {
            lex_nan(lexer, start + 4, true);
        } else {
            finish(lexer, HLO_TOKEN_BAD, start, start + 1);
        }
        return;
    }
    if (overflow || (negative && value > UINT64_C(1) << 63)) {
        finish(lexer, HLO_TOKEN_BAD, start, at);
        return;
    }
    lexer->token.integer = (int64_t)(negative ? 0 - value : value);
    finish(lexer, HLO_TOKEN_INT, start, at);
}

static void lex_string(HloLexer *lexer, char *at) {
    char quote = *at;
    char *start = at + 1;
    lexer->token.escaped = false;
    for (at = start; *at != quote; at++) {
        if (*at == '\\' && at[1] != 0) {
            lexer->token.escaped = true;
            at++;
        } else if (*at == 0 || *at == '\\') {
            finish(lexer, HLO_TOKEN_BAD, start - 1, start);
            return;
        }
    }
    finish(lexer, HLO_TOKEN_STRING, start, at);
    lexer->at++;
}

static void lex_other(HloLexer *lexer, char *at) {
    if (*at == '%') {
        lex_percent(lexer, at);
    } else if (*at == '"' || *at == '\'') {
        lex_string(lexer, at);
    } else if (*at == '<' && at[1] == '=') {
        finish(lexer, HLO_TOKEN_LESS_EQUAL, at, at + 2);
    } else if (at >= lexer->end) {
        finish(lexer, HLO_TOKEN_END, at, at);
    } else {
        finish(lexer, HLO_TOKEN_BAD, at, at + 1);
    }
}

// The class of the first character determines the kind of token; blanks and comments are skipped first.
void hlo_lex(HloLexer *lexer) {
    char *at = lexer->at;
    lexer->last_end = at;
    int class = class_of(*at);
    if (class & SPACE || *at == '/') {
        at = skip_blanks(at);
        class = class_of(*at);
    }
    lexer->token.start = at;
    if (class & LETTER) {
        lex_identifier(lexer, at);
    } else if (class & SINGLE) {
        finish(lexer, *at, at, at + 1);
    } else if (class & DIGIT) {
        lex_number(lexer, at);
    } else if (*at == '-') {
        if (at[1] == '>') {
            finish(lexer, HLO_TOKEN_ARROW, at, at + 2);
        } else {
            lex_number(lexer, at);
        }
    } else if (*at == '.') {
        bool dots = at[1] == '.' && at[2] == '.';
        finish(lexer, dots ? HLO_TOKEN_DOTS : HLO_TOKEN_BAD, at, at + (dots ? 3 : 1));
    } else {
        lex_other(lexer, at);
    }
}

// The token `{` becomes one string that extends to the matching brace, which is the form in which a backend
// configuration in JSON is kept: braces in JSON's strings do not count.
bool hlo_lex_json(HloLexer *lexer) {
    assert(*lexer->token.start == '{');
    char *start = lexer->token.start;
    int64_t depth = 0;
    for (char *at = start; *at; at++) {
        if (*at == '{') {
            depth++;
        } else if (*at == '}') {
            if (--depth > 0) continue;
            finish(lexer, HLO_TOKEN_STRING, start, at + 1);
            lexer->token.escaped = false;
            return true;
        } else if (*at == '"') {
            for (at++; *at && *at != '"'; at++) {
                if (*at == '\\' && at[1]) at++;
            }
            if (!*at) return false;
        }
    }
    return false;
}
