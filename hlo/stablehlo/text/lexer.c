// SPDX-License-Identifier: Apache-2.0
// The lexical level of MLIR text: words, marks, numbers and strings. The rules are those of mlir/docs/LangRef.md,
// "Lexical syntax" (bare-id, suffix-id, string-literal and so on). Each function reads the token in its name and moves
// past it, or records an error and leaves `at` at its position.
#include <assert.h>
#include <stdio.h>

#include "hlo/stablehlo/text/parser.h"
#include "hlo/text/lexer.h"

// ---------------------------------------------------------------------------------------------------------------------
// Errors

// Line and column are counted here, from the start: an error occurs once, and counting while reading would cost time
// for each character.
HloStatus asm_error_at(const AsmText *text, HloArena *arena, const char *where, HloCode code, const char *message) {
    assert(where >= text->begin && where <= text->end);
    const char *line_start = where;
    while (line_start > text->begin && line_start[-1] != '\n') line_start--;
    int64_t line = 1;
    for (const char *c = text->begin; c < line_start; c++) line += *c == '\n';
    const char *line_end = memchr(where, '\n', (size_t)(text->end - where));
    size_t length = (size_t)((line_end ? line_end : text->end) - line_start);
    HloPlace place = {.file = text->file,
                      .line = line,
                      .column = where - line_start + 1,
                      .line_text = hlo_arena_string(arena, line_start, length)};
    return hlo_error_at(code, &place, "%.1000s", message);
}

bool asm_fail_at(AsmParser *parser, const char *where, const char *format, ...) {
    assert(where && format);
    if (parser->status) return false;
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    const AsmText text = {parser->file, parser->begin, parser->end};
    parser->status = asm_error_at(&text, parser->arena, where, HLO_INVALID_ARGUMENT, message);
    return false;
}

// Takes over another module's error: its code is kept (UNIMPLEMENTED stays so), and its message gets the position. The
// status is freed.
bool asm_take(AsmParser *parser, const char *where, HloStatus status) {
    if (!status) return true;
    const AsmText text = {parser->file, parser->begin, parser->end};
    if (!parser->status) {
        parser->status = asm_error_at(&text, parser->arena, where, hlo_status_code(status), hlo_status_message(status));
    }
    hlo_status_free(status);
    return false;
}

// Shows what was found instead: one mark, or a word truncated to 40 characters, so that a message fits a line.
bool asm_expected(AsmParser *parser, const char *what) {
    if (parser->status) return false;
    asm_skip(parser);
    const char *at = parser->at;
    if (at >= parser->end) return asm_fail_at(parser, at, "expected %s, but the text ends", what);
    int length = 1;
    while (length < 40 && hlo_lex_is_name_character(at[length - 1]) && hlo_lex_is_name_character(at[length])) length++;
    return asm_fail_at(parser, at, "expected %s, not '%.*s'", what, length, at);
}

bool asm_enter(AsmParser *parser) {
    if (parser->status) return false;
    if (parser->depth >= ASM_DEEPEST) {
        return asm_fail_at(parser, parser->at, "nested more than %d levels deep", ASM_DEEPEST);
    }
    parser->depth++;
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Blanks and marks

const char *asm_skip_byte_order_mark(const char *text, size_t length) {
    return length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? text + 3 : text;
}

// A comment extends to the end of its line, regardless of the kind of line break.
void asm_skip_slow(AsmParser *parser) {
    const char *at = parser->at;
    for (;; at++) {
        if (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r') continue;
        if (*at != '/' || at[1] != '/') break;
        // A comment may contain a NUL.
        while (at < parser->end && *at != '\n' && *at != '\r') at++;
        at--;
    }
    parser->at = at;
}

bool asm_expect(AsmParser *parser, char mark) {
    if (asm_eat(parser, mark)) return true;
    char what[] = {'\'', mark, '\'', 0};
    return asm_expected(parser, what);
}

// A mark is not a word: the character after it does not matter.
bool asm_eat_mark(AsmParser *parser, const char *mark) {
    assert(mark[0]);
    asm_peek(parser);
    size_t length = strlen(mark);
    if (parser->status || strncmp(parser->at, mark, length) != 0) return false;
    parser->at += length;
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Words

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_word(char c) {
    return is_letter(c) || is_digit(c) || c == '$' || c == '.';
}

AsmSlice asm_word(AsmParser *parser) {
    if (!is_letter(asm_peek(parser))) return (AsmSlice){parser->at, 0};
    const char *start = parser->at, *at = start;
    while (is_word(*at)) at++;
    parser->at = at;
    return (AsmSlice){start, (size_t)(at - start)};
}

bool asm_slice_is(AsmSlice slice, const char *text) {
    return strlen(text) == slice.length && memcmp(slice.text, text, slice.length) == 0;
}

// `sum` must not match the beginning of `summand`: the character after it has to end the word.
bool asm_eat_word(AsmParser *parser, const char *word) {
    assert(word[0]);
    asm_peek(parser);
    size_t length = strlen(word);
    if (parser->status || strncmp(parser->at, word, length) != 0 || is_word(parser->at[length])) return false;
    parser->at += length;
    return true;
}

bool asm_expect_word(AsmParser *parser, const char *word) {
    return asm_eat_word(parser, word) || asm_expected(parser, word);
}

// ---------------------------------------------------------------------------------------------------------------------
// Strings

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Resolves \" \\ \n \t and \XX; the length, or -1.
static int64_t unescape(const char *from, const char *end, char *to) {
    assert(from <= end);
    char *out = to;
    while (from < end) {
        if (*from != '\\') {
            *out++ = *from++;
            continue;
        }
        from++;
        if (*from == 'n' || *from == 't' || *from == '"' || *from == '\\') {
            *out++ = *from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
            from++;
            continue;
        }
        int high = hex_digit(from[0]), low = high < 0 ? -1 : hex_digit(from[1]);
        if (low < 0) return -1;
        *out++ = (char)(high * 16 + low);
        from += 2;
    }
    return out - to;
}

// Copies first and resolves escapes in the copy, which can only get shorter. `string_length` covers the bytes after a
// NUL, which readers of C strings do not see (opaque backend configurations may contain some).
bool asm_string(AsmParser *parser, const char **string) {
    if (asm_peek(parser) != '"') return asm_expected(parser, "a string");
    const char *start = parser->at + 1, *at = start;
    bool escaped = false;
    for (; *at != '"'; at++) {
        if (*at == '\n' || at >= parser->end) return asm_fail_at(parser, start - 1, "unterminated string");
        if (*at != '\\') continue;
        escaped = true;
        if (++at >= parser->end) return asm_fail_at(parser, start - 1, "unterminated string");
    }
    parser->at = at + 1;
    char *copy = hlo_arena_string(parser->arena, start, (size_t)(at - start));
    if (escaped) {
        int64_t length = unescape(start, at, copy);
        if (length < 0) return asm_fail_at(parser, start - 1, "unknown escape in a string");
        copy[length] = 0;
        parser->string_length = length;
    } else {
        parser->string_length = at - start;
    }
    *string = copy;
    return true;
}

bool asm_symbol(AsmParser *parser, const char **name) {
    if (!asm_expect(parser, '@')) return false;
    if (*parser->at == '"') return asm_string(parser, name);
    const char *at = parser->at;
    while (is_word(*at) || *at == '-') at++;
    if (at == parser->at) return asm_expected(parser, "a symbol's name");
    *name = hlo_arena_string(parser->arena, parser->at, (size_t)(at - parser->at));
    parser->at = at;
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Numbers

bool asm_number(AsmParser *parser, AsmNumber *result) {
    bool negative = asm_eat(parser, '-');
    if (!is_digit(asm_peek(parser))) return asm_expected(parser, "an integer");
    const char *start = parser->at, *at = start;
    const bool is_hex = at[0] == '0' && at[1] == 'x' && hex_digit(at[2]) >= 0;
    uint64_t number = 0;
    bool overflow = false;
    if (is_hex) {
        for (at += 2; hex_digit(*at) >= 0; at++) {
            overflow |= number >> 60 != 0;
            number = number * 16 + (uint64_t)hex_digit(*at);
        }
    } else {
        for (; is_digit(*at); at++) {
            overflow |= __builtin_mul_overflow(number, 10, &number) ||
                        __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number);
        }
    }
    if (overflow) return asm_fail_at(parser, start, "an integer of more than 64 bits");
    parser->at = at;
    *result = (AsmNumber){start, number, negative, is_hex};
    return true;
}

// The range is that of MLIR's buildAttributeAPInt(): a signless type (i8) has the numbers of both of its
// interpretations, -128 to 255.
bool asm_number_of_type(AsmParser *parser, const AsmNumber *number, HloType type, int64_t *value) {
    const bool is_pred = type == HLO_PRED, is_unsigned = hlo_type_kind(type) == HLO_KIND_UNSIGNED;
    const int bits = is_pred ? 1 : hlo_type_info(type)->bits;
    const uint64_t mask = UINT64_MAX >> (64 - bits), sign = UINT64_C(1) << (bits - 1);
    const bool fits =
        number->negative ? !is_unsigned && number->magnitude && number->magnitude <= sign : number->magnitude <= mask;
    if (!fits)
        return asm_fail_at(parser, number->start, "%s%llu is out of range for %s%d", number->negative ? "-" : "",
                           (unsigned long long)number->magnitude, is_unsigned ? "ui" : "i", bits);
    const uint64_t low = (number->negative ? 0 - number->magnitude : number->magnitude) & mask;
    *value = !is_pred && !is_unsigned && low & sign ? (int64_t)(low | ~mask) : (int64_t)low;
    return true;
}

bool asm_number_of_bits(AsmParser *parser, const AsmNumber *number, HloType type, uint64_t *pattern) {
    const int bits = hlo_type_info(type)->bits;
    if (!number->is_hex)
        return asm_fail_at(parser, number->start,
                           "expected a decimal number; an integer is not a floating-point value");
    if (number->negative) return asm_fail_at(parser, number->start, "a bit pattern has no sign");
    if (number->magnitude > UINT64_MAX >> (64 - bits))
        return asm_fail_at(parser, number->start, "a bit pattern of more than %d bits, the size of %s", bits,
                           hlo_type_text(type));
    *pattern = number->magnitude;
    return true;
}

bool asm_integer(AsmParser *parser, int64_t *value) {
    AsmNumber number;
    if (!asm_number(parser, &number)) return false;
    if (number.magnitude > (uint64_t)INT64_MAX + number.negative)
        return asm_fail_at(parser, number.start, "an integer of more than 64 bits with its sign");
    *value = (int64_t)(number.negative ? 0 - number.magnitude : number.magnitude);
    return true;
}

// The value of the decimal is the nearest double (hlo_lex_decimal()); the caller rounds again for narrower types, as in
// MLIR, which keeps an APFloat of double in between.
bool asm_double(AsmParser *parser, double *value) {
    bool negative = asm_eat(parser, '-');
    if (!is_digit(asm_peek(parser))) return asm_expected(parser, "a number");
    const char *start = parser->at, *at = start;
    if (at[0] == '0' && at[1] == 'x' && hex_digit(at[2]) >= 0) {
        // The bits of a number that has no short decimal form.
        AsmNumber number;
        if (!asm_number(parser, &number)) return false;
        if (negative) return asm_fail_at(parser, start, "a bit pattern has no sign");
        memcpy(value, &number.magnitude, sizeof(*value));
        return true;
    }
    while (is_digit(*at)) at++;
    if (*at == '.') {
        for (at++; is_digit(*at);) at++;
    }
    if ((*at | 32) == 'e' && (is_digit(at[1]) || ((at[1] == '-' || at[1] == '+') && is_digit(at[2])))) {
        for (at += 2; is_digit(*at);) at++;
    }
    parser->at = at;
    *value = hlo_lex_decimal(start, (size_t)(at - start));
    if (negative) *value = -*value;
    return true;
}

double asm_double_of_type(HloType type, double value) {
    return type == HLO_F8E8M0FNU && value == 0 ? 0x1p-127 : value;
}

bool asm_bool(AsmParser *parser, bool *value) {
    *value = asm_eat_word(parser, "true");
    return *value || asm_eat_word(parser, "false") || asm_expected(parser, "true or false");
}

bool asm_int_list(AsmParser *parser, char open, char close, HloInts *ints) {
    HloInt64Vector items = {0};
    if (!asm_expect(parser, open)) return false;
    while (!asm_eat(parser, close)) {
        int64_t value = HLO_UNBOUNDED;
        if (items.count && !asm_expect(parser, ',')) return false;
        if (!asm_eat(parser, '?') && !asm_integer(parser, &value)) return false;
        hlo_vector_push(parser->arena, &items, value);
    }
    *ints = (HloInts){items.items, items.count};
    return true;
}

// For parts that are skipped without being read. The > of an arrow closes nothing. `closing` is the stack of expected
// closing marks; `open + 2` is the closing bracket or brace in ASCII, which does not hold for parentheses and angle
// brackets.
bool asm_skip_balanced(AsmParser *parser, char open) {
    assert(open == '(' || open == '[' || open == '{' || open == '<');
    if (parser->status) return false;
    char closing[ASM_DEEPEST];
    int depth = 0;
    const char *start = parser->at, *at = start;
    assert(start > parser->begin && start[-1] == open); /* it has just been read */
    closing[depth++] = open == '(' ? ')' : open == '<' ? '>' : (char)(open + 2);
    for (; depth > 0; at++) {
        if (at >= parser->end) return asm_fail_at(parser, start - 1, "'%c' is not closed", open);
        if (*at == '"') {
            for (at++; at < parser->end && *at != '"'; at++) at += *at == '\\';
        } else if (*at == '/' && at[1] == '/') {
            while (at + 1 < parser->end && at[1] != '\n' && at[1] != '\r') at++;
        } else if (*at == '-' && at[1] == '>') {
            at++;
        } else if (strchr("([{<", *at) && *at) {
            if (depth == ASM_DEEPEST) return asm_fail_at(parser, at, "nested more than %d levels deep", ASM_DEEPEST);
            closing[depth++] = *at == '(' ? ')' : *at == '<' ? '>' : (char)(*at + 2);
        } else if (*at == closing[depth - 1]) {
            depth--;
        } else if (strchr(")]}", *at) && *at) {
            return asm_fail_at(parser, at, "'%c' closes nothing", *at);
        }
    }
    parser->at = at < parser->end ? at : parser->end;
    return true;
}
