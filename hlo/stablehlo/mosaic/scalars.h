// SPDX-License-Identifier: Apache-2.0
// The scalars of a Mosaic kernel: what its branches, loops and addresses depend on. Every value has a number, its slot,
// which says how it is made. Values are evaluated on demand, backward through integer arithmetic and loads of tables,
// at most once between two changes of a variable. Private to hlo/stablehlo/mosaic.
#ifndef MESHLO_HLO_STABLEHLO_MOSAIC_SCALARS_H_
#define MESHLO_HLO_STABLEHLO_MOSAIC_SCALARS_H_

#include "hlo/base/map.h"
#include "hlo/base/vector.h"
#include "hlo/ir/module.h"
#include "hlo/stablehlo/bytecode/reader.h"

// Operations between a condition and what it depends on.
#define MOSAIC_DEEPEST_SCALAR 64
// Scalars that are evaluated for a kernel: a bound on the time that hostile input takes.
#define MOSAIC_MOST_STEPS (1 << 22)

// How a value is made.
typedef enum MosaicRule {
    MOSAIC_UNKNOWN,   // not a scalar, or by an operation that is not evaluated
    MOSAIC_VARIABLE,  // set by mosaic_set(): a coordinate of the grid, the counter of a loop, or what a loop carries on
    MOSAIC_CONSTANT,
    MOSAIC_LOAD,  // of an element of a table
    MOSAIC_COPY,  // a conversion: the value of the first operand
    MOSAIC_SELECT,
    MOSAIC_COMPARE,
    MOSAIC_ADD,
    MOSAIC_SUBTRACT,
    MOSAIC_MULTIPLY,
    MOSAIC_DIVIDE,
    MOSAIC_REMAINDER,
    MOSAIC_AND,
    MOSAIC_OR,
    MOSAIC_XOR,
    MOSAIC_LEAST,
    MOSAIC_GREATEST,
} MosaicRule;

typedef struct MosaicSlot {
    const MlirValue *value;
    const MlirOperation *operation;  // that makes it; NULL of arguments of the kernel and of blocks
    int64_t argument;                // the number of the kernel's argument, or -1
    MosaicRule rule;
    int32_t operands[3];  // slots
    int64_t constant;     // of MOSAIC_CONSTANT, or the predicate of MOSAIC_COMPARE
    // Of MOSAIC_LOAD: the value of the table, NULL if it depends on data, and the elements of one that is an argument.
    const HloLiteral *literal;
    int64_t table_length;
    bool is_known;
    int64_t result;  // at `epoch`, if it is known
    int64_t epoch;
    // Of a table (an argument of the kernel): the different values of its elements, which increase from 0, each as
    // often as the others; 0 if that is not known.
    int64_t table_values;
    bool is_moved;  // memory that is an end of a transfer
} MosaicSlot;

typedef struct MosaicScalars {
    HloArena *arena;
    const HloLiteral *const *operands;  // of the call; NULL where the value is not known
    int64_t operand_count;
    const HloShape *const *shapes;  // of the call's operands and results
    int64_t shape_count;
    int64_t first_operand;  // the operand of the call that the kernel's argument 0 would be; negative after a grid
    HloIntMap numbers;      // value to slot
    HLO_VECTOR(MosaicSlot) slots;
    int64_t epoch;  // changes with every variable
    int64_t steps;
    int64_t most_visits;  // the value of a count that depends on data; 0: none is known
    bool meets_count;     // a count that depends on data was part of what was evaluated
} MosaicScalars;

// The name of an operation without the prefix that it has in a file: "stable_mosaic.arith.addi" -> "arith.addi".
const char *mosaic_plain_name(const MlirOperation *operation);
// The slot of a value, which is new if the value was not met before.
int32_t mosaic_slot(MosaicScalars *scalars, const MlirValue *value);
// Records how the results of an operation are made. Operands must have been defined before.
void mosaic_define(MosaicScalars *scalars, const MlirOperation *operation, const char *name);
// Makes a slot a variable and sets it; `known` false makes it unknown.
void mosaic_set(MosaicScalars *scalars, int32_t slot, bool known, int64_t value);
// The value of a scalar; false if it is not known.
bool mosaic_scalar(MosaicScalars *scalars, int32_t slot, int depth, int64_t *result);
// The same by value.
static inline bool mosaic_scalar_of(MosaicScalars *scalars, const MlirValue *value, int64_t *result) {
    return mosaic_scalar(scalars, mosaic_slot(scalars, value), 0, result);
}
// The shape of a vector or of an array in memory; NULL for scalars.
const HloShape *mosaic_shape(const MlirValue *value);
// The constant that is passed for an argument of the kernel, if the argument holds the whole operand; else NULL.
const HloLiteral *mosaic_literal(MosaicScalars *scalars, const MlirValue *memory);
// The number of elements of a table of integers that is an argument of the kernel; 0 for other memory.
int64_t mosaic_table_length(MosaicScalars *scalars, const MlirValue *memory);

#endif
