// SPDX-License-Identifier: Apache-2.0
// Reads the sharding rule that a user gives to an operation, as Shardy prints it:
//
//     #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=4, k=2} reduction={k}, custom>
//
// Each dimension is a list of factors, and factors are named by letters. What the text means is in rule.h.
#include "spmd_partitioner/sharding_rule.h"

#include <stdlib.h>
#include <string.h>

// The most factors that a sharding rule may have: more than any op has dimensions.
enum { MOST_FACTORS = 4096 };

// Backslashes are skipped: quotes come escaped from some writers.
typedef struct Scanner {
    const char *at;
} Scanner;

// The next character that means something.
static char peek(Scanner *scanner) {
    while (*scanner->at == ' ' || *scanner->at == '\\' || *scanner->at == '\n') scanner->at++;
    return *scanner->at;
}

// Moves past `token` if it comes next.
static bool take(Scanner *scanner, const char *token) {
    peek(scanner);
    size_t length = strlen(token);
    if (strncmp(scanner->at, token, length)) return false;
    scanner->at += length;
    return true;
}

// Unsigned, as all numbers of the form are.
static bool take_number(Scanner *scanner, int64_t *number) {
    if (peek(scanner) < '0' || *scanner->at > '9') return false;
    char *end;
    *number = strtoll(scanner->at, &end, 10);
    scanner->at = end;
    return true;
}

// The number of a factor i, j … z, z_1, z_2 …; -1 if none comes next.
static int64_t take_factor(Scanner *scanner) {
    const char letter = peek(scanner);
    if (letter < 'i' || letter > 'z') return -1;
    scanner->at++;
    int64_t more = 0;
    if (letter == 'z' && *scanner->at == '_') {
        scanner->at++;
        if (!take_number(scanner, &more) || more > MOST_FACTORS) return -1;
    }
    return letter - 'i' + more;
}

// "([i, jk], [])": a list of tensors, `count` from number `first` on. The factors that they name are made when they are
// met, still without sizes.
static bool take_tensors(SpmdRule *rule, Scanner *scanner, int32_t first, int32_t count) {
    if (!take(scanner, "(")) return false;
    for (int32_t t = first; t < first + count; t++) {
        if ((t > first && !take(scanner, ",")) || !take(scanner, "[")) return false;
        const int32_t rank = rule->tensors[t].shape->rank;
        for (int32_t d = 0; d < rank; d++) {
            if (d && !take(scanner, ",")) return false;
            for (int64_t factor; (factor = take_factor(scanner)) >= 0;) {
                if (factor >= MOST_FACTORS) return false;
                while (rule->factors.count <= factor) spmd_rule_factor(rule, SPMD_PASS, 0);
                spmd_rule_map(rule, t, d, (int32_t)factor);
            }
        }
        if (!take(scanner, "]")) return false;
    }
    return take(scanner, ")");
}

// "{i=8, j=4}"
static bool take_sizes(SpmdRule *rule, Scanner *scanner) {
    if (!take(scanner, "{")) return rule->factors.count == 0;
    for (int64_t i = 0; !take(scanner, "}"); i++) {
        if (i && !take(scanner, ",")) return false;
        const int64_t factor = take_factor(scanner);
        int64_t size;
        if (factor < 0 || !take(scanner, "=") || !take_number(scanner, &size)) return false;
        if (factor < rule->factors.count) rule->factors.items[factor].size = size;
    }
    return true;
}

// "reduction={k} need_replication={b}": kinds of factors, and what propagation leaves alone. Shardy propagates along a
// factor that needs replication, and leaves it to the op to gather: as along one whose shards need their neighbours'.
static bool take_kinds(SpmdRule *rule, Scanner *scanner) {
    static const struct {
        const char *word;
        SpmdFactorKind kind;
    } kinds[] = {{"reduction={", SPMD_REDUCE},
                 {"need_replication={", SPMD_PERMUTE},
                 {"permutation={", SPMD_PERMUTE},
                 {"blocked_propagation={", SPMD_PASS}};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        if (!take(scanner, kinds[k].word)) continue;
        while (!take(scanner, "}")) {
            const int64_t factor = take_factor(scanner);
            if (factor < 0 || factor >= rule->factors.count) return false;
            if (kinds[k].kind == SPMD_PASS)
                rule->factors.items[factor].blocked = true;
            else
                rule->factors.items[factor].kind = kinds[k].kind;
            take(scanner, ",");
        }
    }
    return true;
}

// Whether the factors of each dimension multiply to its size. A dimension without factors has size 1 or cannot be
// sharded.
static bool sizes_fit(const SpmdRule *rule) {
    for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) {
        for (int32_t d = 0; d < rule->tensors[t].shape->rank; d++) {
            const SpmdDimFactors *factors = &rule->tensors[t].dims[d];
            int64_t product = 1;
            for (int32_t i = 0; i < factors->count; i++)
                if (__builtin_mul_overflow(product, rule->factors.items[factors->items[i]].size, &product))
                    return false;
            if (factors->count && product != rule->tensors[t].shape->dims[d]) return false;
        }
    }
    return true;
}

bool spmd_sharding_rule_read(SpmdRule *rule, const char *text) {
    Scanner scanner = {text};
    return take(&scanner, "#sdy.op_sharding_rule<") && take_tensors(rule, &scanner, 0, rule->operand_count) &&
           take(&scanner, "->") && take_tensors(rule, &scanner, rule->operand_count, rule->result_count) &&
           take_sizes(rule, &scanner) && take_kinds(rule, &scanner) &&
           (take(&scanner, ">") || (take(&scanner, ",") && take(&scanner, "custom") && take(&scanner, ">"))) &&
           sizes_fit(rule);
}
