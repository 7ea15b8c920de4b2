// SPDX-License-Identifier: Apache-2.0
// Converting MLIR operations to HLO instructions: what the families of handlers share. Private to hlo/stablehlo.
#ifndef MESHLO_HLO_STABLEHLO_IMPORT_IMPORT_H_
#define MESHLO_HLO_STABLEHLO_IMPORT_IMPORT_H_

#include "hlo/stablehlo/import/shardy.h"
#include "hlo/stablehlo/mlir/mlir.h"

typedef struct Importer {
    HloModule *module;
    const struct AsmText *text;     // that the picture was read from, for messages; or NULL
    HloArena *arena;                // scratch and the MLIR picture
    HloStringMap functions;         // name -> ImportedFunction
    HloStringMap rows;              // operation -> ImportRow
    HloIntMap plans;                // address of an operation name -> ImportPlan
    struct ImportRepeats *repeats;  // what operations became that may come again
    HloText *notes;                 // what is passed over, a line each; or NULL
    HloStringMap shardings;         // text of an annotation -> HloSharding in the module
    HloIntMap known;                // integer instruction's address -> HloInts that it always gives, or 0
    HloIntMap same;                 // parameter's (or its tuple element's) address -> instruction outside
    HloStringMap refined;           // a function's name with shapes -> HloComputation
    int64_t refined_count;
    const HloInts *sizes;  // of the entry's arguments; no items where the program says them
    int64_t size_count;
    const MlirOperation *entry;  // the function that they belong to
    HloSdyMeshes meshes;         // of sdy.mesh operations
    // The file of the last metadata, as the picture and the module have it: whole programs are of few files.
    const char *picture_file, *module_file;
    int depth;
} Importer;

// Where new instructions go, and which op they come from.
typedef struct ImportPlace {
    Importer *importer;
    HloComputation *computation;
    MlirOperation *operation;
} ImportPlace;

// Where what the new instructions own is kept.
static inline HloArena *import_arena(const ImportPlace *place) {
    return place->importer->module->arena;
}

// Converts one operation: makes instructions and sets results[i]->lowered.
typedef HloStatus ImportHandler(ImportPlace *place);
typedef struct ImportRow {
    const char *name;
    ImportHandler *handler;
    int operands;  // how many it must have; 0 if the handler or shape inference decides
} ImportRow;

// The rows of each family; `count` rows each. Here: constants, broadcasts, other data movement.
const ImportRow *import_data_rows(int64_t *count);
// Dots, convolutions, windows, sorting, random numbers.
const ImportRow *import_compute_rows(int64_t *count);
// Loops, branches, calls, custom calls.
const ImportRow *import_control_rows(int64_t *count);
// Collectives and device numbers.
const ImportRow *import_collective_rows(int64_t *count);
// Custom calls that stand for collectives, by target.
const ImportRow *import_collective_calls(int64_t *count);
// Operations of chlo that are computed element by element.
const ImportRow *import_chlo_rows(int64_t *count);
// Operations of chlo with implicit broadcasts, and those that stand for several of StableHLO's.
const ImportRow *import_chlo_structured_rows(int64_t *count);
// Composites that stand for an operation, by name; all others are what they are decomposed into.
const ImportRow *import_composites(int64_t *count);
// Operations whose sizes are operands, and those of the dialects that compute such sizes.
const ImportRow *import_dynamic_rows(int64_t *count);
// Custom calls that stand for operations with such sizes, by target.
const ImportRow *import_dynamic_calls(int64_t *count);
// Operations that later releases of StableHLO have others for.
const ImportRow *import_legacy_rows(int64_t *count);
// sdy operations and casts between dialects.
const ImportRow *import_sdy_rows(int64_t *count);

// An empty table of what operations became (repeat.c), in `arena`.
struct ImportRepeats *import_repeats_new(HloArena *arena);
// True for rows whose handlers look at nothing but the attributes and types of an operation.
bool import_may_repeat(const char *name);
// True if the same operation, with equal attributes and types, was converted before: it has become the same again, and
// its result is set. To be asked only of operations that may repeat.
bool import_repeated(const ImportPlace *place);
// Keeps what the operation at hand has just become: the instructions behind `before` (NULL: all of the computation).
void import_note_repeat(const ImportPlace *place, const HloInstruction *before);

// What a location says as metadata; NULL when that is nothing.
const HloMetadata *import_metadata(const ImportPlace *place, const MlirAttribute *location);

// An error about the operation at hand, with its name and source line.
HLO_NODISCARD HloStatus import_error(const ImportPlace *place, HloCode code, const char *format, ...) HLO_PRINTF(3, 4);

// The integers that an array of integers or predicates always holds, row-major, computed from what it is made of; false
// when that depends on what the program is given, or when there are too many. Kept in the importer's arena.
bool import_known(Importer *importer, const HloInstruction *instruction, HloInts *values);
// Notes that `inner` (a parameter, or an element of one) always has the value of `outer`, in another computation.
void import_note_same(Importer *importer, const HloInstruction *inner, const HloInstruction *outer);

// The shape of a value; UNIMPLEMENTED naming the type when HLO has none for it.
HLO_NODISCARD HloStatus import_shape(const ImportPlace *place, const MlirType *type, const HloShape **shape);

// True if `inferred` is `declared` but for sizes that the program leaves open and inference knows.
bool import_refines(const HloShape *inferred, const HloShape *declared);
// INVALID_ARGUMENT unless the value is of that type, but for sizes that the type leaves open: for operations that
// become no instruction, which inference would have checked.
HLO_NODISCARD HloStatus import_check_type(const ImportPlace *place, const HloInstruction *value, const MlirType *type);
// Appends an instruction, checked by shape inference against `shape` (NULL: the inferred shape is taken, as where
// `shape` has sizes without bounds that inference knows better). Metadata comes from the operation's location, a
// sharding from its attributes.
HLO_NODISCARD HloStatus import_emit(ImportPlace *place, HloOpcode opcode, const HloShape *shape,
                                    HloInstruction *const *operands, int64_t operand_count, const void *attributes,
                                    HloComputation *const *called, int64_t called_count, HloInstruction **result);
// The common case: all operands of the operation in order, one result.
HLO_NODISCARD HloStatus import_plain(ImportPlace *place, HloOpcode opcode, const void *attributes);
// The operation's operands, lowered. Fails when one has no value here.
HLO_NODISCARD HloStatus import_operands(const ImportPlace *place, HloInstruction ***operands);
// Gives the results of the operation: one value as it is, several as elements of a tuple-shaped `instruction`.
HLO_NODISCARD HloStatus import_set_results(ImportPlace *place, HloInstruction *instruction);
// The shape of all results: of the one result, or their tuple.
HLO_NODISCARD HloStatus import_result_shape(const ImportPlace *place, const HloShape **shape);

// Attributes by name. A missing one gives the default; one of another kind is an error.
HLO_NODISCARD HloStatus import_int(const ImportPlace *place, const char *name, int64_t fallback, int64_t *value);
// INVALID_ARGUMENT naming the attribute if the operation has it not: for those without a default in StableHLO.
HLO_NODISCARD HloStatus import_required(const ImportPlace *place, const char *name);
// A unit attribute counts as true.
HLO_NODISCARD HloStatus import_bool(const ImportPlace *place, const char *name, bool fallback, bool *value);
// A list of integers from a dense array or a tensor; empty when missing.
HLO_NODISCARD HloStatus import_ints(const ImportPlace *place, const char *name, HloInts *ints);
// An enumerator by ordinal or by word.
HLO_NODISCARD HloStatus import_enum(const ImportPlace *place, const char *name, const HloEnumTable *table,
                                    int32_t fallback, int32_t *value);
// precision_config; empty when all of it is DEFAULT. More than two entries are INVALID_ARGUMENT.
HLO_NODISCARD HloStatus import_precisions(const ImportPlace *place, HloPrecisions *precisions);
// The string of an attribute, or NULL.
const char *import_string(const ImportPlace *place, const char *name);

// A region as a computation of its own: parameters are the block's arguments, then `captures`; the root is the one
// returned value or a tuple of them.
//
//   ^bb(%i, %x): ... uses %w of outside ... return %j, %y
//     plain             (i, x, w) -> (j, y)         a reduction's computation, a branch
//     tuple_parameter   ((i, x, w)) -> (j, y)       a loop's condition
//     and passthrough   ((i, x, w)) -> (j, y, w)    a loop's body, which hands on what it captured
typedef struct ImportRegion {
    const MlirRegion *region;
    MlirValue *const *captures;
    int64_t capture_count;
    // What the arguments begin with, whose shapes they have; NULL: those of their types.
    HloInstruction *const *initial;
    bool tuple_parameter;  // all parameters stand in one tuple, also where there is only one
    bool passthrough;
    bool named_parameters;  // the arguments' locations become metadata; those of loops are in no text
    const char *name;
} ImportRegion;
// The common case of an op whose regions become its called computations, with all operands in order.
HLO_NODISCARD HloStatus import_with_region(ImportPlace *place, HloOpcode opcode, const void *attributes);
// Converts the operations of a block into a computation, up to its return, whose operands are handed back.
HLO_NODISCARD HloStatus import_block(Importer *importer, HloComputation *computation, const MlirBlock *block,
                                     const MlirOperation **terminator);
// The computation of a function by its symbol name, converted on first use. A function some of whose types have sizes
// without bounds is converted anew for every list of shapes and known values that it is called with; `operands` (which
// may be NULL where it is not called from here) say which.
HLO_NODISCARD HloStatus import_function(const ImportPlace *place, const char *name, HloInstruction *const *operands,
                                        int64_t operand_count, HloComputation **computation);
// Appends what a chlo operation computes element by element from operands of one shape, which has to be of the type
// that the operation at hand says; UNIMPLEMENTED for a name that import_chlo_rows() has not.
HLO_NODISCARD HloStatus import_chlo_value(ImportPlace *place, const char *name, HloInstruction *const *operands,
                                          int64_t operand_count, HloInstruction **result);
// Appends the operand stretched to `shape`, operand dimension i becoming dims[i] of it; sizes of one grow.
HLO_NODISCARD HloStatus import_broadcast_to(ImportPlace *place, HloInstruction *operand, HloInts dims,
                                            const HloShape *shape, HloInstruction **result);
// A new computation that adds two scalars of `type`.
HloComputation *import_adder(const ImportPlace *place, HloType type);
// The attributes of a comparison.
HLO_NODISCARD HloStatus import_compare_attributes(ImportPlace *place, HloCompareAttributes *attributes);
// A convolution of the two operands with this padding (low and high of each dimension), or that of the attribute
// `padding` when it is NULL.
HLO_NODISCARD HloStatus import_convolution_padded(ImportPlace *place, const HloInts *padding);
// A reduce-window of `count` operands (arrays, then their initial values) whose window five lists describe: sizes,
// strides, dilations of the base and of the window, and paddings (low and high of each dimension).
HLO_NODISCARD HloStatus import_reduce_window_sized(ImportPlace *place, const HloInts *lists,
                                                   HloInstruction *const *operands, int64_t count,
                                                   HloComputation *reducer);

// ApproxTopK(arrays, initial values) as the exact answer: the arrays sorted by the comparator along the dimension that
// the call names, cut to the size of its results, which the recall asked for has chosen.
HLO_NODISCARD HloStatus import_approx_top_k(ImportPlace *place, HloInstruction *const *operands,
                                            HloComputation *const *called, int64_t called_count);

// A sharding attribute (sdy, or the text of mhlo.sharding) as an HLO annotation; NULL attribute gives NULL. `rank` is
// that of the value.
HLO_NODISCARD HloStatus import_sharding(Importer *importer, const MlirAttribute *attribute, int64_t rank,
                                        const HloSharding **sharding);
// The sharding of an argument or a result from the dictionary of its attributes, or NULL. sdy.sharding goes before
// mhlo.sharding, as in XLA.
const MlirAttribute *import_sharding_entry(const MlirAttribute *dictionary);
// An sdy sharding as a tiling. `manual` names axes that are manual inside a region, or is NULL.
HLO_NODISCARD HloStatus import_tiling(Importer *importer, const MlirAttribute *attribute, const MlirAttribute *manual,
                                      int64_t rank, const HloSharding **sharding);
// Whether propagation may cut this dimension of an sdy sharding further.
bool import_dimension_is_open(const MlirAttribute *dim);
// Keeps what sdy shardings say beside tilings (open dimensions, axes that must stay unused, priorities) as the
// frontend attribute xla.sdy.sharding; one attribute a leaf, NULL where there is none. UNIMPLEMENTED when some leaves
// have shardings of another kind, which that text cannot hold.
HLO_NODISCARD HloStatus import_sharding_text(Importer *importer, const MlirAttribute *const *shardings,
                                             HloInstruction *instruction);
// Keeps the meshes, for their axis names, as the module's frontend attribute xla.sdy.meshes; older artifacts have it in
// that form already, among the attributes of the module `top`. INVALID_ARGUMENT when one name stands for two meshes.
HLO_NODISCARD HloStatus import_meshes(Importer *importer, const MlirOperation *top);
// Replica groups by axes of a mesh (MLIR_MESH_GROUPS) in HLO's form of the same.
HLO_NODISCARD HloStatus import_mesh_groups(const ImportPlace *place, const MlirAttribute *attribute,
                                           const HloReplicaGroups **result);
// Puts `member` into a group of values that are sharded alike; gives what stands for it from here on.
HLO_NODISCARD HloStatus import_group_member(ImportPlace *place, int64_t group, HloInstruction **member);
// Puts a shape into the memory that a kind names ("device", "pinned_host", "unpinned_host"); others are UNIMPLEMENTED.
HLO_NODISCARD HloStatus import_placement(const ImportPlace *place, const char *kind, const HloShape **shape);
// Puts the one result of a custom call into the order that its result_layouts say.
HLO_NODISCARD HloStatus import_result_layout(const ImportPlace *place, const HloShape **shape);
// Layouts and memory kinds of the entry's arguments and results, from the attributes of its function.
HLO_NODISCARD HloStatus import_entry_layouts(Importer *importer, const MlirOperation *function);
// The same from the attributes of the module, which XLA writes there; those of the function go first.
HLO_NODISCARD HloStatus import_module_layouts(Importer *importer, const MlirOperation *top);
// Adds the entries of a dictionary (mhlo.frontend_attributes; NULL and other kinds have none) to the instruction's.
void import_frontend_attributes(const MlirAttribute *dictionary, HloInstruction *instruction);

// Reads the fields of `opcode` into the struct, which must be the one that fields.def names for it, and zero so far.
// A missing attribute leaves what StableHLO means by that; one of another kind is INVALID_ARGUMENT.
HLO_NODISCARD HloStatus import_fields(ImportPlace *place, HloOpcode opcode, void *attributes);
// The opcode whose fields are all there is to an operation of that name; HLO_OPCODE_COUNT for other names.
HloOpcode import_fields_opcode(const char *name);
// The whole operation as an instruction of `opcode`: its fields, all operands, and its regions if the opcode calls any.
HLO_NODISCARD HloStatus import_with_fields(ImportPlace *place, HloOpcode opcode);

// What the caller says of a module beside its operations.
typedef struct ImportOptions {
    const struct AsmText *text;  // the source, for messages with a place in it; NULL for bytecode
    const HloInts *sizes;        // see hlo_module_from_stablehlo_sized()
    int64_t size_count;
    HloText *notes;  // see HloStablehloOptions; or NULL
} ImportOptions;
// Converts the operation builtin.module `top` into the empty `module`. Scratch memory comes from `arena`.
HLO_NODISCARD HloStatus mlir_import_module(const MlirOperation *top, const ImportOptions *options, HloArena *arena,
                                           HloModule *module);

#endif
