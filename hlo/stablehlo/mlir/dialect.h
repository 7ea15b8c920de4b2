// SPDX-License-Identifier: Apache-2.0
// The vocabulary of StableHLO text, expanded from dialect.def. Private to hlo/stablehlo.
#ifndef MESHLO_HLO_STABLEHLO_MLIR_DIALECT_H_
#define MESHLO_HLO_STABLEHLO_MLIR_DIALECT_H_

#include "hlo/stablehlo/mlir/mlir.h"

// The types after the colon of an op's pretty form: see dialect.def.
typedef enum MlirOpTypes {
    MLIR_TYPES_SAME,
    MLIR_TYPES_FUNCTION,
    MLIR_TYPES_RESULT,
    MLIR_TYPES_SELECT,
    MLIR_TYPES_COMPLEX,
    MLIR_TYPES_TUPLE,
    MLIR_TYPES_PAIRS,
    MLIR_TYPES_RETURN,
    MLIR_TYPES_ARROW,
    MLIR_TYPES_OWN,
} MlirOpTypes;

// A row of the op table.
typedef struct MlirOpInfo {
    const char *name;  // "stablehlo.add"
    size_t name_length;
    const char *attributes;  // "name:kind ..."
    const char *pretty;      // NULL: none that the table can express
    MlirOpTypes types;
} MlirOpInfo;

// A field of a structured attribute, or an attribute of an op.
typedef struct MlirFieldInfo {
    const char *text;  // its spelling in text
    size_t text_length;
    const char *flat;  // the attribute of an op that it becomes
    size_t flat_length;
    const char *kind;
    size_t kind_length;
} MlirFieldInfo;

// All rows, and their number. Static storage, any thread; so is everything below.
const MlirOpInfo *mlir_op_table(int64_t *count);
// The row of the op with this name, or NULL. Searches the whole table, so it is for infrequent use.
const MlirOpInfo *mlir_op_info(const char *name, size_t length);

// The words of an enumeration, separated by blanks; NULL for an unknown kind.
const char *mlir_words(const char *kind, size_t length);
// The number of a word, or -1.
int64_t mlir_word_number(const char *words, const char *word, size_t length);
// The word of a number, *length characters; NULL if it has none.
const char *mlir_number_word(const char *words, int64_t number, size_t *length);

// The fields of a structured attribute; NULL for an unknown kind.
const char *mlir_fields(const char *kind, size_t length);
// Takes the first field off a list, as mlir_fields() and MlirOpInfo.attributes return them; false at its end.
bool mlir_next_field(const char **list, MlirFieldInfo *field);

// True for ops that `stablehlo.reduce(...) applies` may name: commutative, of two operands and one result.
bool mlir_op_commutes(const char *name);

#endif
