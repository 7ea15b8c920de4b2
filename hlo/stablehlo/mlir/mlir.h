// SPDX-License-Identifier: Apache-2.0
// A small picture of an MLIR module: just what StableHLO programs use. Both doors (bytecode, text) build it, the
// importer reads it. Everything lives in one arena. Private to hlo/stablehlo.
#ifndef MESHLO_HLO_STABLEHLO_MLIR_MLIR_H_
#define MESHLO_HLO_STABLEHLO_MLIR_MLIR_H_

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
    bool is_open;             // an array with a size that has no bound
    bool is_future;           // what an asynchronous operation will have given: `shape` is that of its value
    int64_t parts;            // of a tuple: how many types it is written of, itself included; else 0
    const HloShape *lowered;  // its shape in the module, set by the importer: values of one type share it
};

typedef enum MlirAttributeKind {
    MLIR_UNIT,
    MLIR_BOOL,        // integer 0 or 1
    MLIR_INTEGER,     // integer, type
    MLIR_FLOAT,       // real, type
    MLIR_STRING,      // string
    MLIR_SYMBOL,      // string, without '@'
    MLIR_TYPE,        // type
    MLIR_ARRAY,       // items
    MLIR_DICTIONARY,  // keys, items
    MLIR_STRUCT,      // keys, items: #stablehlo.gather<...> and the like; stands in an op as one attribute a field
    MLIR_TENSOR,      // type, literal or splat; mlir_tensor_literal() gives the elements of both
    MLIR_INTS,      // ints: a dense array of integers; type: of booleans if that of a pred, else NULL or the element's
    MLIR_ENUM,      // integer: the ordinal, as VHLO counts; string: the kind of dialect.def, or NULL if not known
    MLIR_ALIAS,     // output_operand_alias: items are two MLIR_INTS, integer the operand
    MLIR_ACCURACY,  // result_accuracy: accuracy
    MLIR_BOUNDS,    // type_extensions: ints
    MLIR_LOCATION,  // string: the name or file, integer: the line, items: children
    MLIR_SDY,       // code, string, ints, items as mlir.h's MlirSdyCode says
    MLIR_MESH_GROUPS,  // replica groups by mesh axes: items {mesh or its name, array of axis refs}
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
    MLIR_SDY_RULE = 10,  // string: a sharding rule as Shardy prints it, or a part of one; NULL of what nothing reads
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
    const HloLiteral *literal;  // all elements of a tensor; NULL if it has a splat
    const HloLiteral *splat;    // a scalar: what each of very many elements is; else NULL
    const HloAccuracy *accuracy;
    const HloMetadata *lowered;  // what a location says, set by the importer
};

typedef struct MlirValue MlirValue;
struct MlirValue {
    const MlirType *type;
    const MlirAttribute *location;  // of a block argument; NULL if none was given
    MlirValue *same;                // of a cast that was folded: the value that it stands for; else NULL
    bool is_used;                   // an operation has it as an operand; set by the readers
    HloInstruction *lowered;        // set by the importer
    bool is_constant;               // set by the importer: `lowered` is a constant, or the broadcast of one
};

typedef struct MlirBlock {
    MlirValue **arguments;
    int64_t argument_count;
    MlirOperation **operations;
    int64_t operation_count;
} MlirBlock;

typedef struct MlirRegion {
    MlirBlock *blocks;
    int64_t block_count;
    bool is_open;  // a type in it is; set by mlir_mark()
} MlirRegion;

struct MlirOperation {
    const char *name;  // "stablehlo.add", "func.func", "sdy.mesh": no version, whatever the dialect's spelling
    const MlirAttribute *location;
    int64_t offset;  // of the name in the text that it was read from, from 1 on; 0 if it was not
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

// The limit that protobuf sets for a whole program is that of one constant, too.
#define MLIR_LARGEST_CONSTANT_BYTES ((int64_t)1 << 31)
// Attributes of a module, as XLA writes them: of every argument and result of its entry the order of the dimensions,
// minor to major, and the tiles.
#define MLIR_ARGUMENT_LAYOUTS "mhlo.xla_entry_computation_parameter_layouts"
#define MLIR_ARGUMENT_TILES "mhlo.xla_entry_computation_parameter_tiles"
#define MLIR_RESULT_LAYOUTS "mhlo.xla_entry_computation_result_layout"
#define MLIR_RESULT_TILES "mhlo.xla_entry_computation_result_tiles"
// Unit attribute of an operation whose result has another float precision than StableHLO infers from its operands. HLO
// allows that everywhere; read without it, such a program is a mistake.
#define MLIR_MIXED_PRECISION "meshlo.mixed_precision"

// A copy of `type` or `attribute` in the arena.
const MlirType *mlir_new_type(HloArena *arena, MlirType type);
// The same of an attribute; what it points to is shared.
const MlirAttribute *mlir_new_attribute(HloArena *arena, MlirAttribute attribute);
// i32, f32 and so on.
const MlirType *mlir_element_type(HloArena *arena, HloType element);
// A type that HLO has no word for; `name` must live as long as the arena.
const MlirType *mlir_other_type(HloArena *arena, const char *name);
// The type of that name, f32 with a mantissa of 10 bits, which algorithms of products name and no array has.
#define MLIR_TF32 "tf32"
// The integer type of that width; one of no usual width is MLIR_TYPE_OTHER.
const MlirType *mlir_integer_type(HloArena *arena, uint64_t width, bool is_unsigned);
// complex<part>; MLIR_TYPE_OTHER unless the part is f32 or f64.
const MlirType *mlir_complex_type(HloArena *arena, const MlirType *part);
// A tensor of `rank` sizes, negative ones dynamic with the bound of the same dimension (none if negative too, or if
// there are no bounds). An element that HLO has no word for gives that type. INVALID_ARGUMENT for sizes that do not
// fit.
HLO_NODISCARD HloStatus mlir_tensor_type(HloArena *arena, const MlirType *element, const int64_t *sizes, int64_t rank,
                                         const HloInts *bounds, const MlirType **type);
// A tuple of types that have shapes; one that HLO has no word for gives that type. INVALID_ARGUMENT for what has no
// shape, and for a tuple of more than MLIR_MOST_TUPLE_PARTS types: aliases may share theirs, so that a few lines name
// 2^40.
#define MLIR_MOST_TUPLE_PARTS ((int64_t)1 << 20)
HLO_NODISCARD HloStatus mlir_tuple_type(HloArena *arena, const MlirType *const *types, int64_t count,
                                        const MlirType **type);  // as above
// The future of a value of that type. What was started is done at once here, so that it has the value's shape, but it
// is another type: only async_done makes the one of the other.
const MlirType *mlir_future_type(HloArena *arena, const MlirType *content);
// True if both are the same type, written alike.
bool mlir_type_equal(const MlirType *a, const MlirType *b);
// What is wrong with a type for a constant: INVALID_ARGUMENT when it is no tensor, or too large; UNIMPLEMENTED naming a
// type that HLO has no word for.
HLO_NODISCARD HloStatus mlir_tensor_check(const MlirType *type);
// A tensor attribute from raw bytes: one element (a splat) or all, little-endian; predicates also as bits, the least
// significant first. INVALID_ARGUMENT for another number of bytes, or what mlir_tensor_check() says.
HLO_NODISCARD HloStatus mlir_tensor_from_bytes(HloArena *arena, const MlirType *type, const unsigned char *bytes,
                                               uint64_t length, MlirAttribute *attribute);
// A tensor attribute all of whose elements are zero, to be written through *literal. Errors: mlir_tensor_check().
HLO_NODISCARD HloStatus mlir_tensor_new(HloArena *arena, const MlirType *type, HloLiteral **literal,
                                        MlirAttribute *attribute);
// A tensor attribute all of whose elements are the one of `scalar`, which is kept by pointer. One of MLIR_MANY_ELEMENTS
// takes no memory for them: JAX's decompositions of special functions have forty splats of the size of their operand,
// and most of them are never called. Errors: mlir_tensor_check().
HLO_NODISCARD HloStatus mlir_tensor_splat(HloArena *arena, const MlirType *type, const HloLiteral *scalar,
                                          MlirAttribute *attribute);
// From so many elements on a splat stays one: XLA's own limit for making a broadcast of it.
enum { MLIR_MANY_ELEMENTS = 1024 };
// All elements of a tensor attribute; those of a splat are written out in `arena`.
const HloLiteral *mlir_tensor_literal(HloArena *arena, const MlirAttribute *attribute);

// Bytes of a string attribute, NULs inside included. Strings that we make leave string_length at 0 and end at a NUL.
int64_t mlir_string_length(const MlirAttribute *attribute);

// True for attributes that both our printer and our bytecode have a form for, all of their parts included: numbers,
// booleans, strings, types, lists, dictionaries, tensors.
bool mlir_can_write(const MlirAttribute *attribute);
// The text of such an attribute, as MLIR prints it, in the arena.
const char *mlir_attribute_text(HloArena *arena, const MlirAttribute *attribute);
// The attribute called so, or NULL.
const MlirAttribute *mlir_attribute(const MlirOperation *operation, const char *name);
// The entry of a dictionary, or NULL (also for a NULL dictionary).
const MlirAttribute *mlir_entry(const MlirAttribute *dictionary, const char *name);

// The ordinal of StableHLO's result_accuracy_mode (0 DEFAULT, 1 HIGHEST, 2 TOLERANCE), whose third HLO does not have as
// a mode: there it is that a tolerance is given. An ordinal that is none of these counts as DEFAULT.
int64_t mlir_accuracy_mode(const HloAccuracy *accuracy);
// The reverse: sets the two fields that the mode is made of.
void mlir_accuracy_set_mode(HloAccuracy *accuracy, int64_t ordinal);

// True for an operation of a dialect that nothing here knows: "llvm.module_flags".
bool mlir_is_foreign(const char *name);
// True for the name of a cast between dialects, builtin.unrealized_conversion_cast.
bool mlir_is_cast(const char *name);
// What can be said only when all has been read: lets the users of casts (one result an operand) use the operands
// instead (the casts stay), and notes which regions have open types. For pictures that have one or the other. True if a
// type in the regions of `top` is open.
bool mlir_mark(MlirOperation *top);

#endif
