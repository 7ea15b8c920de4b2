// SPDX-License-Identifier: Apache-2.0
// The rows of dialect.def as tables: the properties of each operation and attribute of StableHLO, chlo and func, and
// functions that read their columns (dialect.def describes the format).
//
// Look-ups compare with each row in turn. The text parser, which looks up every operation of a file, keeps a map of its
// own (text/parse_file.c).
#include "hlo/stablehlo/mlir/dialect.h"

#include <assert.h>
#include <string.h>

typedef struct NamedList {
    const char *name, *list;
} NamedList;

static const NamedList words_table[] = {
#define MLIR_WORDS(kind, words) {#kind, words},
#define MLIR_FIELDS(kind, fields)
#define MLIR_OP(name, attributes, pretty, types)
#include "hlo/stablehlo/mlir/dialect.def"
#undef MLIR_WORDS
#undef MLIR_FIELDS
#undef MLIR_OP
};

static const NamedList fields_table[] = {
#define MLIR_WORDS(kind, words)
#define MLIR_FIELDS(kind, fields) {#kind, fields},
#define MLIR_OP(name, attributes, pretty, types)
#include "hlo/stablehlo/mlir/dialect.def"
#undef MLIR_WORDS
#undef MLIR_FIELDS
#undef MLIR_OP
};

static const MlirOpInfo op_table[] = {
#define MLIR_WORDS(kind, words)
#define MLIR_FIELDS(kind, fields)
#define MLIR_OP(name, attributes, pretty, types) {#name, sizeof(#name) - 1, attributes, pretty, MLIR_TYPES_##types},
#include "hlo/stablehlo/mlir/dialect.def"
#undef MLIR_WORDS
#undef MLIR_FIELDS
#undef MLIR_OP
};

const MlirOpInfo *mlir_op_table(int64_t *count) {
    *count = (int64_t)HLO_COUNT_OF(op_table);
    return op_table;
}

// True if a name equals the `length` characters of a text.
static bool is_called(const char *name, const char *text, size_t length) {
    return strncmp(name, text, length) == 0 && name[length] == 0;
}

const MlirOpInfo *mlir_op_info(const char *name, size_t length) {
    for (size_t i = 0; i < HLO_COUNT_OF(op_table); i++) {
        if (op_table[i].name_length != length || memcmp(op_table[i].name, name, length) != 0) continue;
        return &op_table[i];
    }
    return NULL;
}

static const char *find_list(const NamedList *table, size_t count, const char *kind, size_t length) {
    for (size_t i = 0; i < count; i++) {
        if (is_called(table[i].name, kind, length)) return table[i].list;
    }
    return NULL;
}

const char *mlir_words(const char *kind, size_t length) {
    return find_list(words_table, HLO_COUNT_OF(words_table), kind, length);
}

const char *mlir_fields(const char *kind, size_t length) {
    return find_list(fields_table, HLO_COUNT_OF(fields_table), kind, length);
}

int64_t mlir_word_number(const char *words, const char *word, size_t length) {
    assert(words && word);
    int64_t number = 0;
    while (*words) {
        size_t this_length = strcspn(words, " ");
        if (this_length == length && memcmp(words, word, length) == 0 && *word != '-') return number;
        words += this_length;
        words += *words == ' ';
        number++;
    }
    return -1;
}

const char *mlir_number_word(const char *words, int64_t number, size_t *length) {
    assert(words && length);
    for (; *words && number > 0; number--) {
        words += strcspn(words, " ");
        words += *words == ' ';
    }
    *length = strcspn(words, " ");
    return number == 0 && *length && *words != '-' ? words : NULL;
}

bool mlir_next_field(const char **list, MlirFieldInfo *field) {
    const char *at = *list + strspn(*list, " ");
    if (!*at) return false;
    field->text = at;
    field->text_length = strcspn(at, "/:");
    at += field->text_length;
    field->flat = *at == '/' ? at + 1 : field->text;
    field->flat_length = strcspn(field->flat, ":");
    at = field->flat + field->flat_length + 1;
    field->kind = at;
    field->kind_length = strcspn(at, " ");
    *list = at + field->kind_length;
    return true;
}

bool mlir_op_commutes(const char *name) {
    assert(name);
    static const char *const names[] = {"add", "and", "maximum", "minimum", "multiply", "or", "xor"};
    if (strncmp(name, "stablehlo.", 10) != 0) return false;
    for (size_t i = 0; i < HLO_COUNT_OF(names); i++) {
        if (strcmp(name + 10, names[i]) == 0) return true;
    }
    return false;
}
