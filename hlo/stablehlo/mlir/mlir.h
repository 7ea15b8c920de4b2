// SPDX-License-Identifier: Apache-2.0
// An in-memory MLIR module, limited to what StableHLO programs use. Both readers (bytecode, text) build it, and the
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
    MLIR_TYPE_OTHER,  // a type that HLO cannot express; `name` is its name
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
    bool is_open;             // an array with an unbounded dynamic size
    bool is_future;           // the future result of an asynchronous operation; `shape` is the shape of its value
    int64_t parts;            // of a tuple: the number of types in it, itself included; else 0
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
    MLIR_STRUCT,      // keys, items: #stablehlo.gather<...> and the like; in an op, each field is an attribute
    MLIR_TENSOR,      // type, literal or splat; mlir_tensor_literal() returns the elements of both
    MLIR_INTS,      // ints: a dense array of integers; type: of booleans if that of a pred, else NULL or the element's
    MLIR_ENUM,      // integer: the ordinal, as VHLO counts; string: the kind of dialect.def, or NULL if not known
    MLIR_ALIAS,     // output_operand_alias: items are two MLIR_INTS, integer the operand
    MLIR_ACCURACY,  // result_accuracy: accuracy
    MLIR_BOUNDS,    // type_extensions: ints
    MLIR_LOCATION,  // string: the name or file, integer: the line, items: children
    MLIR_SDY,       // code, string, ints, items as listed at MlirSdyCode
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
    MLIR_SDY_RULE =
        10,  // string: a sharding rule as Shardy prints it, or a part of one; NULL for attributes that are not read
} MlirSdyCode;

struct MlirAttribute {
    MlirAttributeKind kind;
    MlirSdyCode code;
    int64_t integer;
    double real;
    const char *string;
    int64_t string_length;  // length of a string that the file stores as one
    bool is_foreign;        // the string is the text of an attribute of an unknown dialect
    const MlirType *type;
    const MlirAttribute *const *items;
    const char *const *keys;
    int64_t count;  // of items and keys
    HloInts ints;
    const HloLiteral *literal;  // all elements of a tensor; NULL if it has a splat
    const HloLiteral *splat;    // a scalar, the value of each of very many elements; else NULL
    const HloAccuracy *accuracy;
    const HloMetadata *lowered;  // the metadata of a location, set by the importer
};

typedef struct MlirValue MlirValue;
struct MlirValue {
    const MlirType *type;
    const MlirAttribute *location;  // of a block argument; NULL if none was given
    MlirValue *same;                // of a folded cast: the value that it represents; else NULL
    bool is_used;                   // is an operand of an operation; set by the readers
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
    bool is_open;  // one of its types is open; set by mlir_mark()
} MlirRegion;

struct MlirOperation {
    const char *name;  // "stablehlo.add", "func.func", "sdy.mesh": no version, whatever the dialect's spelling
    const MlirAttribute *location;
    int64_t offset;  // position of the name in the source text, counted from 1; 0 if it was not read from text
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

// Protobuf's limit for a whole program is also the limit for one constant.
#define MLIR_LARGEST_CONSTANT_BYTES ((int64_t)1 << 31)
// The attribute of a custom call that numbers, for each result, the operand with its sizes. JAX appends these operands
// where sizes are symbolic; the refinement of shapes in StableHLO removes them.
#define MLIR_SHAPE_OPERANDS "indices_of_shape_operands"
// Attributes of a module, as XLA writes them: for every argument and result of its entry, the order of the dimensions,
// minor to major, and the tiles.
#define MLIR_ARGUMENT_LAYOUTS "mhlo.xla_entry_computation_parameter_layouts"
#define MLIR_ARGUMENT_TILES "mhlo.xla_entry_computation_parameter_tiles"
#define MLIR_RESULT_LAYOUTS "mhlo.xla_entry_computation_result_layout"
#define MLIR_RESULT_TILES "mhlo.xla_entry_computation_result_tiles"
// Unit attribute of an operation whose result has a float precision other than the one that StableHLO infers from its
// operands. HLO allows this everywhere; without the attribute, the program is an error.
#define MLIR_MIXED_PRECISION "meshlo.mixed_precision"

// Copies `type` or `attribute` into the arena.
const MlirType *mlir_new_type(HloArena *arena, MlirType type);
// The same for an attribute; what it points to is shared.
const MlirAttribute *mlir_new_attribute(HloArena *arena, MlirAttribute attribute);
// i32, f32 and so on.
const MlirType *mlir_element_type(HloArena *arena, HloType element);
// A type that HLO cannot express; `name` must live as long as the arena.
const MlirType *mlir_other_type(HloArena *arena, const char *name);
// The name of the tf32 type, f32 with a mantissa of 10 bits, which dot algorithms name and no array has.
#define MLIR_TF32 "tf32"
// The integer type of this width; MLIR_TYPE_OTHER if the width is not supported.
const MlirType *mlir_integer_type(HloArena *arena, uint64_t width, bool is_unsigned);
// complex<part>; MLIR_TYPE_OTHER unless the part is f32 or f64.
const MlirType *mlir_complex_type(HloArena *arena, const MlirType *part);
// A tensor of `rank` sizes. A negative size is dynamic, with the bound of the same dimension (none if that is negative
// too, or if there are no bounds). If HLO cannot express the element type, returns the element type itself.
// INVALID_ARGUMENT for sizes that do not fit.
HLO_NODISCARD HloStatus mlir_tensor_type(HloArena *arena, const MlirType *element, const int64_t *sizes, int64_t rank,
                                         const HloInts *bounds, const MlirType **type);
// A tuple of types that have shapes. If HLO cannot express one of them, returns that type. INVALID_ARGUMENT for a type
// without a shape, and for a tuple of more than MLIR_MOST_TUPLE_PARTS types: aliases may share types, so a few lines
// can name 2^40 of them.
#define MLIR_MOST_TUPLE_PARTS ((int64_t)1 << 20)
HLO_NODISCARD HloStatus mlir_tuple_type(HloArena *arena, const MlirType *const *types, int64_t count,
                                        const MlirType **type);  // as above
// The future of a value of this type. Asynchronous work is done immediately here, so the future has the value's shape,
// but it is a different type: only async_done converts one to the other.
const MlirType *mlir_future_type(HloArena *arena, const MlirType *content);
// True if both are the same type, written alike.
bool mlir_type_equal(const MlirType *a, const MlirType *b);
// Checks a type for a constant: INVALID_ARGUMENT when it is not a tensor or is too large; UNIMPLEMENTED naming a type
// that HLO cannot express.
HLO_NODISCARD HloStatus mlir_tensor_check(const MlirType *type);
// A tensor attribute from raw bytes: one element (a splat) or all, little-endian; predicates also as bits, the least
// significant first. INVALID_ARGUMENT for any other number of bytes, and the errors of mlir_tensor_check().
HLO_NODISCARD HloStatus mlir_tensor_from_bytes(HloArena *arena, const MlirType *type, const unsigned char *bytes,
                                               uint64_t length, MlirAttribute *attribute);
// A tensor attribute all of whose elements are zero, to be written through *literal. Errors: mlir_tensor_check().
HLO_NODISCARD HloStatus mlir_tensor_new(HloArena *arena, const MlirType *type, HloLiteral **literal,
                                        MlirAttribute *attribute);
// A tensor attribute whose elements all equal `scalar`, which is kept by pointer. With MLIR_MANY_ELEMENTS or more, it
// takes no memory for them: JAX's decompositions of special functions have forty splats of the size of their operand,
// and most of them are never called. Errors: mlir_tensor_check().
HLO_NODISCARD HloStatus mlir_tensor_splat(HloArena *arena, const MlirType *type, const HloLiteral *scalar,
                                          MlirAttribute *attribute);
// A splat stays a splat from this many elements on: XLA's own limit for turning a constant into a broadcast.
enum { MLIR_MANY_ELEMENTS = 1024 };
// All elements of a tensor attribute; those of a splat are written out in `arena`.
const HloLiteral *mlir_tensor_literal(HloArena *arena, const MlirAttribute *attribute);

// Bytes of a string attribute, NULs inside included. Strings that we make leave string_length at 0 and end at a NUL.
int64_t mlir_string_length(const MlirAttribute *attribute);

// True for attributes that both our printer and our bytecode writer support, including all their parts: numbers,
// booleans, strings, types, lists, dictionaries, tensors.
bool mlir_can_write(const MlirAttribute *attribute);
// The text of such an attribute, as MLIR prints it, in the arena.
const char *mlir_attribute_text(HloArena *arena, const MlirAttribute *attribute);
// The attribute with this name, or NULL.
const MlirAttribute *mlir_attribute(const MlirOperation *operation, const char *name);
// The entry of a dictionary, or NULL (also for a NULL dictionary).
const MlirAttribute *mlir_entry(const MlirAttribute *dictionary, const char *name);

// The ordinal of StableHLO's result_accuracy_mode (0 DEFAULT, 1 HIGHEST, 2 TOLERANCE). HLO has no mode for the third:
// there, a tolerance is given instead. Any other ordinal counts as DEFAULT.
int64_t mlir_accuracy_mode(const HloAccuracy *accuracy);
// The reverse: sets the two fields that represent the mode.
void mlir_accuracy_set_mode(HloAccuracy *accuracy, int64_t ordinal);

// True for an operation of an unknown dialect: "llvm.module_flags".
bool mlir_is_foreign(const char *name);
// True for what StableHLO takes as the name of a composite: a letter, then at least two words separated by dots,
// "my_dialect.my_op". False for NULL.
bool mlir_is_operation_name(const char *name);

// The frontend attribute of a custom call @annotate_device_placement that names the memory kind of its result.
#define MLIR_BUFFER_PLACEMENT "_xla_buffer_placement"
// The memory space of a kind, "device", "pinned_host" or "unpinned_host"; HLO_ABSENT for other names.
int64_t mlir_memory_space(const char *kind);
// The kind of a memory space; NULL for other spaces.
const char *mlir_memory_kind(int64_t space);

// True for the name of a cast between dialects, builtin.unrealized_conversion_cast.
bool mlir_is_cast(const char *name);
// Finishes a module after all of it has been read: replaces uses of casts (one result per operand) by their operands
// (the casts stay), and marks the regions that have open types. For modules that have either. True if a type in the
// regions of `top` is open.
bool mlir_mark(MlirOperation *top);

#endif
