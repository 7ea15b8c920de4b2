// SPDX-License-Identifier: Apache-2.0
// A small picture of an MLIR module: just what StableHLO programs use. Both doors (bytecode, text) build it, the
// importer reads it. Everything lives in one arena. Private to hlo/stablehlo.
#ifndef MESHLO_HLO_STABLEHLO_MLIR_H_
#define MESHLO_HLO_STABLEHLO_MLIR_H_

#include "hlo/ir/module.h"

typedef struct MlirType MlirType;
typedef struct MlirAttribute MlirAttribute;
typedef struct MlirOperation MlirOperation;

typedef enum MlirTypeKind {
    MLIR_TYPE_ELEMENT,  // i32, f32, complex<f32> on their own
    MLIR_TYPE_SHAPE,    // tensor, tuple, token, buffer
    MLIR_TYPE_FUNCTION,
    MLIR_TYPE_INDEX,
    MLIR_TYPE_NONE,
    MLIR_TYPE_OTHER,  // something that HLO has no word for; `name` says what
} MlirTypeKind;

struct MlirType {
    MlirTypeKind kind;
    HloType element;
    const HloShape *shape;
    const MlirType *const *inputs;
    int64_t input_count;
    const MlirType *const *results;
    int64_t result_count;
    const char *name;
};

typedef enum MlirAttributeKind {
    MLIR_UNIT,
    MLIR_BOOL,         // integer 0 or 1
    MLIR_INTEGER,      // integer, type
    MLIR_FLOAT,        // real, type
    MLIR_STRING,       // string
    MLIR_SYMBOL,       // string, without '@'
    MLIR_TYPE,         // type
    MLIR_ARRAY,        // items
    MLIR_DICTIONARY,   // keys, items
    MLIR_TENSOR,       // literal
    MLIR_INTS,         // ints: a dense array of integers or booleans
    MLIR_ENUM,         // integer: the ordinal; string: its word when it came as text, else NULL
    MLIR_ALIAS,        // output_operand_alias: items are two MLIR_INTS, integer the operand
    MLIR_ACCURACY,     // result_accuracy: accuracy
    MLIR_BOUNDS,       // type_extensions: ints
    MLIR_LOCATION,     // string: the name or file, integer: the line, items: children
    MLIR_SDY,          // code, string, ints, items as mlir.h's MlirSdyCode says
    MLIR_MESH_GROUPS,  // replica groups by mesh axes: items
} MlirAttributeKind;

// Codes of sdy attributes, which are also those of shardy's bytecode.
typedef enum MlirSdyCode {
    MLIR_SDY_MANUAL_AXES = 0,   // items: strings
    MLIR_SDY_MESH_AXIS = 1,     // string, ints {size}
    MLIR_SDY_MESH = 2,          // items: mesh axes; ints: device ids
    MLIR_SDY_SUB_AXIS = 3,      // ints {pre size, size}
    MLIR_SDY_AXIS_REF = 4,      // string; items: an optional sub axis
    MLIR_SDY_DIM_SHARDING = 5,  // items: axis refs; ints {is closed, priority or -1}
    MLIR_SDY_SHARDING = 6,      // items {mesh or symbol, array of dims, array of replicated, array of unreduced}
    MLIR_SDY_PER_VALUE = 7,     // items: shardings
    MLIR_SDY_RULE = 10,         // a sharding rule: kept unread
} MlirSdyCode;

struct MlirAttribute {
    MlirAttributeKind kind;
    MlirSdyCode code;
    int64_t integer;
    double real;
    const char *string;
    int64_t string_length;  // of a string that the file holds as one
    const MlirType *type;
    const MlirAttribute *const *items;
    const char *const *keys;
    int64_t count;  // of items and keys
    HloInts ints;
    const HloLiteral *literal;
    const HloAccuracy *accuracy;
};

typedef struct MlirValue {
    const MlirType *type;
    HloInstruction *lowered;  // set by the importer
} MlirValue;

typedef struct MlirBlock {
    MlirValue **arguments;
    int64_t argument_count;
    MlirOperation **operations;
    int64_t operation_count;
} MlirBlock;

typedef struct MlirRegion {
    MlirBlock *blocks;
    int64_t block_count;
} MlirRegion;

struct MlirOperation {
    const char *name;  // "stablehlo.add", "func.func", "sdy.mesh": no version, whatever the dialect's spelling
    const MlirAttribute *location;
    const char *const *attribute_names;
    const MlirAttribute *const *attributes;
    int64_t attribute_count;
    MlirValue **operands;
    int64_t operand_count;
    MlirValue **results;
    int64_t result_count;
    MlirRegion *regions;
    int64_t region_count;
};

// The attribute called so, or NULL.
const MlirAttribute *mlir_attribute(const MlirOperation *operation, const char *name);
// The entry of a dictionary, or NULL (also for a NULL dictionary).
const MlirAttribute *mlir_entry(const MlirAttribute *dictionary, const char *name);

// Builds HLO from a top-level `builtin.module`. `arena` holds the MLIR picture and scratch.
HLO_NODISCARD HloStatus mlir_import(const MlirOperation *top, HloArena *arena, HloModule *module);

#endif
