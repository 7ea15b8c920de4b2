// SPDX-License-Identifier: Apache-2.0
// einsum. Every dimension has a letter; a list of letters gives the order of an array's dimensions. Operands are
// contracted pairwise from left to right: letters that nothing later needs are summed over first (in one operand) or
// contracted (in both), letters in both that are still needed are batch dimensions. One transpose at the end brings the
// letters into the order of the result.
#include <ctype.h>
#include <string.h>

#include "hlo/nn/internal.h"

enum { kLetters = 52 };  // A-Z, a-z

typedef struct Term {
    char letters[kLetters + 1];
    HloInstruction *value;
} Term;

static bool has(const char *letters, char letter) {
    return letter && strchr(letters, letter) != NULL;
}

static void append(char *letters, char letter) {
    const size_t length = strlen(letters);
    letters[length] = letter;
    letters[length + 1] = 0;
}

// ---- reading an equation

// Copies the letters from *at up to ',', '-' or the end; blanks are skipped. False for anything else, and for a letter
// that is there twice.
static bool read_letters(const char **at, char *letters) {
    letters[0] = 0;
    for (; **at && **at != ',' && **at != '-'; ++*at) {
        if (**at == ' ') continue;
        if (!isalpha((unsigned char)**at) || has(letters, **at)) return false;
        append(letters, **at);
    }
    return true;
}

static int count_letter(const Term *terms, int64_t count, char letter) {
    int occurrences = 0;
    for (int64_t i = 0; i < count; i++) occurrences += has(terms[i].letters, letter);
    return occurrences;
}

// Without "->": the letters that occur once, in alphabetical order (capitals first, as in NumPy).
static void implied_result(const Term *terms, int64_t count, char *result) {
    result[0] = 0;
    for (char letter = 'A'; letter <= 'z'; letter++)
        if (isalpha((unsigned char)letter) && count_letter(terms, count, letter) == 1) append(result, letter);
}

static bool read_equation(const char *equation, Term *terms, int64_t count, char *result) {
    const char *at = equation;
    for (int64_t i = 0; i < count; i++) {
        if (!read_letters(&at, terms[i].letters) || (i + 1 < count && *at++ != ',')) return false;
    }
    if (!*at) {
        implied_result(terms, count, result);
        return true;
    }
    if (strncmp(at, "->", 2) != 0) return false;
    at += 2;
    if (!read_letters(&at, result) || *at) return false;
    for (const char *letter = result; *letter; letter++)
        if (!count_letter(terms, count, *letter)) return false;
    return true;
}

// Every letter must have one size.
static bool check_sizes(HloBuilder *builder, const char *equation, const Term *terms, int64_t count) {
    int64_t sizes['z' + 1];
    memset(sizes, -1, sizeof sizes);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *shape = terms[i].value->shape;
        if (shape->rank != (int32_t)strlen(terms[i].letters)) {
            hlo_nn_refuse(builder, "einsum \"%s\": operand %lld has %d dimensions, \"%s\" has %d", equation,
                          (long long)i, shape->rank, terms[i].letters, (int)strlen(terms[i].letters));
            return false;
        }
        for (int32_t d = 0; d < shape->rank; d++) {
            int64_t *size = &sizes[(unsigned char)terms[i].letters[d]];
            if (*size >= 0 && *size != shape->dims[d]) {
                hlo_nn_refuse(builder, "einsum \"%s\": '%c' is %lld and %lld", equation, terms[i].letters[d],
                              (long long)*size, (long long)shape->dims[d]);
                return false;
            }
            *size = shape->dims[d];
        }
    }
    return true;
}

// ---- contracting

// Sums over the letters of a term that are in neither list.
static void sum_unneeded(HloBuilder *builder, Term *term, const char *needed, const char *also) {
    int64_t dimensions[kLetters], count = 0;
    char kept[kLetters + 1] = "";
    for (int64_t d = 0; term->letters[d]; d++) {
        if (has(needed, term->letters[d]) || has(also, term->letters[d]))
            append(kept, term->letters[d]);
        else
            dimensions[count++] = d;
    }
    if (!count) return;
    term->value = hlo_build_reduce_op(builder, HLO_OP_ADD, term->value, (HloInts){dimensions, count});
    strcpy(term->letters, kept);
}

// Contracts `right` into `left`. The result of a dot has the batch dimensions, then the remaining ones of each operand.
static void contract(HloBuilder *builder, Term *left, Term *right, const char *needed) {
    int64_t lists[4][kLetters], counts[4] = {0};  // batch left, batch right, contracted left, contracted right
    char batch[kLetters + 1] = "", rest[kLetters + 1] = "";
    sum_unneeded(builder, left, needed, right->letters);
    sum_unneeded(builder, right, needed, left->letters);
    for (int64_t d = 0; left->letters[d]; d++) {
        const char letter = left->letters[d], *other = strchr(right->letters, letter);
        const int kind = other ? (has(needed, letter) ? 0 : 2) : -1;
        if (kind == 0) append(batch, letter);
        if (kind < 0) append(rest, letter);
        if (kind < 0) continue;
        lists[kind][counts[kind]++] = d;
        lists[kind + 1][counts[kind + 1]++] = other - right->letters;
    }
    for (int64_t d = 0; right->letters[d]; d++)
        if (!has(left->letters, right->letters[d])) append(rest, right->letters[d]);
    const HloDotAttributes attributes = {.lhs_batch = {lists[0], counts[0]},
                                         .rhs_batch = {lists[1], counts[1]},
                                         .lhs_contracting = {lists[2], counts[2]},
                                         .rhs_contracting = {lists[3], counts[3]}};
    left->value = hlo_build_dot(builder, left->value, right->value, &attributes, HLO_INVALID);
    left->letters[0] = 0;
    for (const char *at = batch; *at; at++) append(left->letters, *at);
    for (const char *at = rest; *at; at++) append(left->letters, *at);
}

static HloInstruction *arrange(HloBuilder *builder, const Term *term, const char *result) {
    int64_t permutation[kLetters];
    if (!term->value || strcmp(term->letters, result) == 0) return term->value;
    for (int64_t d = 0; result[d]; d++) permutation[d] = strchr(term->letters, result[d]) - term->letters;
    return hlo_build_transpose(builder, term->value, (HloInts){permutation, (int64_t)strlen(result)});
}

HloInstruction *hlo_nn_einsum(HloBuilder *builder, const char *equation, int64_t count,
                              HloInstruction *const *operands) {
    enum { kOperands = 26 };
    Term terms[kOperands];
    char result[kLetters + 1], needed[2 * kLetters + 1];
    for (int64_t i = 0; i < count; i++)
        if (!operands[i]) return NULL;
    if (count < 1 || count > kOperands || !read_equation(equation, terms, count, result))
        return hlo_nn_refuse(builder, "einsum: \"%s\" is no equation of letters for %lld operands", equation,
                             (long long)count);
    for (int64_t i = 0; i < count; i++) terms[i].value = operands[i];
    if (!check_sizes(builder, equation, terms, count)) return NULL;
    for (int64_t i = 1; i < count && terms[0].value; i++) {
        strcpy(needed, result);
        for (int64_t later = i + 1; later < count; later++)
            for (const char *letter = terms[later].letters; *letter; letter++)
                if (!has(needed, *letter)) append(needed, *letter);
        contract(builder, &terms[0], &terms[i], needed);
    }
    if (terms[0].value) sum_unneeded(builder, &terms[0], result, "");
    return arrange(builder, &terms[0], result);
}
