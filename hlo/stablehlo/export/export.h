// SPDX-License-Identifier: Apache-2.0
// Converts HLO instructions to MLIR operations: the interface shared by the families of handlers. Private to
// hlo/stablehlo.
//
// StableHLO passes several values where HLO passes a tuple, so tuples are split: an instruction is represented by the
// list of its leaves, and tuple and get-tuple-element become no operations.
#ifndef MESHLO_HLO_STABLEHLO_EXPORT_EXPORT_H_
#define MESHLO_HLO_STABLEHLO_EXPORT_EXPORT_H_

#include "hlo/stablehlo/mlir/mlir.h"

typedef HLO_VECTOR(MlirOperation *) MlirOperationVector;

// A block under construction.
typedef struct ExportBlock {
    MlirOperationVector operations;
    HloStringMap known;  // of export_known(): the key of an operation -> the first MlirOperation that has it
    int64_t noted;       // number of operations that `known` already includes
} ExportBlock;

// The leaves of one instruction.
typedef struct ExportLeaves {
    MlirValue **items;
    int64_t count;
} ExportLeaves;

// Converts the instruction: appends operations and sets its leaves.
typedef struct ExportPlace ExportPlace;
typedef HloStatus ExportHandler(ExportPlace *place, ExportLeaves *result);

typedef struct Exporter {
    const HloModule *module;
    HloArena *arena;
    HloStringMap types;              // printed shape -> MlirType
    HloIntMap functions;             // computation id -> 1 when its function exists or is being made
    MlirOperationVector operations;  // of the module
    ExportLeaves *leaves;            // by instruction id; those of a region that is exported again are overwritten
    const MlirAttribute *unknown_location;
    const MlirAttribute **frames;  // by stack frame: its location, NULL until it is made
    HloInt64Vector path;           // private to stack_location()
    // By opcode, NULL until looked up: the handler, and the name of elementwise operations.
    ExportHandler *handlers[HLO_OPCODE_COUNT];
    const char *elementwise_names[HLO_OPCODE_COUNT];
    int depth;
} Exporter;

// The block that operations are appended to, and the instruction that they come from.
struct ExportPlace {
    Exporter *exporter;
    ExportBlock *block;
    const HloInstruction *instruction;
    ExportLeaves operands;  // leaves of all operands, in order
};

// An error that names the instruction.
HLO_NODISCARD HloStatus export_error(const ExportPlace *place, HloCode code, const char *format, ...) HLO_PRINTF(3, 4);

// The type of a shape that is not a tuple. UNIMPLEMENTED if StableHLO has no such type.
HLO_NODISCARD HloStatus export_type(const ExportPlace *place, const HloShape *shape, const MlirType **type);
// The types of a shape's leaves.
HLO_NODISCARD HloStatus export_leaf_types(const ExportPlace *place, const HloShape *shape, const MlirType ***types,
                                          int64_t *count);

// Appends an operation with these operands and result types. Attributes are added by export_attribute().
MlirOperation *export_append(ExportPlace *place, const char *name, MlirValue *const *operands, int64_t operand_count,
                             const MlirType *const *results, int64_t result_count);
// The first operation of the block with this name (reshape, concatenate or constant), operands and type and, for a
// constant, with these numbers, which are a list of s64; a new one if there is none yet, without attributes but a
// constant's value. For auxiliary operations of an instruction: a program that came from StableHLO already has them,
// without users, and would grow each time it is written if they were added again.
MlirOperation *export_known(ExportPlace *place, const char *name, MlirValue *const *operands, int64_t operand_count,
                            const MlirType *type, const HloLiteral *value);
// The common case: all operands, and one result per leaf of the instruction's shape.
HLO_NODISCARD HloStatus export_plain(ExportPlace *place, const char *name, ExportLeaves *result,
                                     MlirOperation **operation);
// Adds an attribute; `name` must live as long as the arena. NULL attributes are not added.
void export_attribute(const ExportPlace *place, MlirOperation *operation, const char *name,
                      const MlirAttribute *attribute);
// The results of an operation as leaves.
ExportLeaves export_results(const MlirOperation *operation);

// Attributes.
const MlirAttribute *export_i64(const ExportPlace *place, int64_t value);
// number : i32
const MlirAttribute *export_i32(const ExportPlace *place, int64_t value);
// true or false
const MlirAttribute *export_bool(const ExportPlace *place, bool value);
// "..."; the text is not copied.
const MlirAttribute *export_string(const ExportPlace *place, const char *string);
// The same for a string of `length` bytes, which may include NULs.
const MlirAttribute *export_bytes(const ExportPlace *place, const char *bytes, int64_t length);
// array<i64: ...>; the numbers are not copied.
const MlirAttribute *export_ints(const ExportPlace *place, HloInts ints);
// `kind` is the name in mlir/dialect.def.
const MlirAttribute *export_enum(const ExportPlace *place, const char *kind, int64_t number);
// A matrix of i64 numbers, row by row.
const MlirAttribute *export_matrix(const ExportPlace *place, const int64_t *numbers, int64_t rows, int64_t columns);
// A list.
const MlirAttribute *export_array(const ExportPlace *place, const MlirAttribute *const *items, int64_t count);
// {key = item, ...}; the keys, in order, are not copied.
const MlirAttribute *export_dictionary(const ExportPlace *place, const char *const *keys,
                                       const MlirAttribute *const *items, int64_t count);
// A list with the order of dimensions of every leaf of the shapes; row-major where the shape has no layout.
const MlirAttribute *export_layouts(const ExportPlace *place, const HloShape *const *shapes, int64_t shape_count);
// The memory kind that a copy places its operand in; NULL for other instructions, and for copies that only copy.
const char *export_placement(const HloInstruction *instruction);
// Adds the module's layouts of its entry's arguments and results, unless all are default.
void export_entry_layouts(const ExportPlace *place, MlirOperation *module_operation);
// precision_config; NULL if none is set. UNIMPLEMENTED for a precision that StableHLO cannot express.
HLO_NODISCARD HloStatus export_precisions(const ExportPlace *place, HloPrecisions precisions,
                                          const MlirAttribute **list);

// A region whose block takes the computation's parameters (tuples as their leaves), or those values from outside when
// `bound` is not NULL. It ends with a return of the root's leaves.
HLO_NODISCARD HloStatus export_region(ExportPlace *place, const HloComputation *computation, const ExportLeaves *bound,
                                      MlirRegion *region);
// Ensures that there is a private function for the computation; its name is the computation's.
HLO_NODISCARD HloStatus export_function(ExportPlace *place, const HloComputation *computation);

// Adds the fields of `opcode` to an operation, from the struct that fields.def names for it. Lists are not copied.
// INVALID_ARGUMENT if a list that must have one number does not.
HLO_NODISCARD HloStatus export_fields(ExportPlace *place, MlirOperation *operation, HloOpcode opcode,
                                      const void *attributes);
// Exports the whole instruction as the operation that fields.def has for its opcode, with a region for each computation
// that it calls. `operation` may be NULL.
HLO_NODISCARD HloStatus export_with_fields(ExportPlace *place, ExportLeaves *result, MlirOperation **operation);
// Adds a region for each computation that the instruction calls.
HLO_NODISCARD HloStatus export_regions(ExportPlace *place, MlirOperation *operation);

// The handler of an opcode that its fields describe fully; NULL for others.
ExportHandler *export_fields_handler(HloOpcode opcode);
// The handler of an opcode that moves data; NULL when StableHLO has no such operation.
ExportHandler *export_data_handler(HloOpcode opcode);
// Dots, windows, reductions, sorting, linear algebra, random numbers.
ExportHandler *export_compute_handler(HloOpcode opcode);
// Calls, loops, collectives, tokens.
ExportHandler *export_control_handler(HloOpcode opcode);

// Converts a verified module to an operation builtin.module, which lives in `arena`.
HLO_NODISCARD HloStatus mlir_export_module(const HloModule *module, HloArena *arena, MlirOperation **top);
// Converts some computations of a module to private functions, which live in `arena`.
HLO_NODISCARD HloStatus mlir_export_functions(const HloModule *module, HloArena *arena,
                                              HloComputation *const *computations, int64_t count,
                                              MlirOperationVector *functions);

#endif
