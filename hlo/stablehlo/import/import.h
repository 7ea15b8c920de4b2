// SPDX-License-Identifier: Apache-2.0
// Converts MLIR operations to HLO instructions: the interface shared by the families of handlers. Private to
// hlo/stablehlo.
#ifndef MESHLO_HLO_STABLEHLO_IMPORT_IMPORT_H_
#define MESHLO_HLO_STABLEHLO_IMPORT_IMPORT_H_

#include "hlo/stablehlo/import/shardy.h"
#include "hlo/stablehlo/mlir/mlir.h"

typedef struct Importer {
    HloModule *module;
    const struct AsmText *text;     // the source of the MLIR module, for messages; or NULL
    HloArena *arena;                // scratch data and the MLIR module
    HloStringMap functions;         // name -> ImportedFunction
    HloStringMap rows;              // operation -> ImportRow
    HloIntMap plans;                // address of an operation name -> ImportPlan
    struct ImportRepeats *repeats;  // conversions of operations that may be repeated
    HloText *notes;                 // one line for each part that is skipped; or NULL
    HloStringMap shardings;         // text of an annotation -> HloSharding in the module
    HloIntMap known;                // integer instruction's address -> its constant HloInts, or 0
    HloIntMap same;                 // parameter's (or its tuple element's) address -> instruction outside
    HloStringMap refined;           // a function's name with shapes -> HloComputation
    int64_t refined_count;
    const HloInts *sizes;  // of the entry's arguments; no items where the program gives them
    int64_t size_count;
    const MlirOperation *entry;            // the function that they belong to
    HloSdyMeshes meshes;                   // of sdy.mesh operations
    struct ImportedComposite *composites;  // those that became operations, the last one first
    // The file of the last metadata, as the MLIR module and the HLO module have it: whole programs come from few files.
    const char *picture_file, *module_file;
    int depth;
} Importer;

// The position for new instructions, and the operation that they come from.
typedef struct ImportPlace {
    Importer *importer;
    HloComputation *computation;
    MlirOperation *operation;
} ImportPlace;

// The arena for data that the new instructions own.
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

// The rows of each family; *count is their number. Here: constants, broadcasts, other data movement.
const ImportRow *import_data_rows(int64_t *count);
// Dots, convolutions, windows, sorting, random numbers.
const ImportRow *import_compute_rows(int64_t *count);
// Loops, branches, calls, custom calls.
const ImportRow *import_control_rows(int64_t *count);
// Collectives and device numbers.
const ImportRow *import_collective_rows(int64_t *count);
// Custom calls that represent collectives, by target.
const ImportRow *import_collective_calls(int64_t *count);
// Operations of chlo that are computed element by element.
const ImportRow *import_chlo_rows(int64_t *count);
// Operations of chlo with implicit broadcasts, and those that correspond to several of StableHLO's.
const ImportRow *import_chlo_structured_rows(int64_t *count);
// Composites: those that represent an operation become it, all others calls of their decompositions.
const ImportRow *import_composite_rows(int64_t *count);
// INVALID_ARGUMENT unless the decompositions of the composites that became operations exist, fit them and are valid.
// Call it when the module is complete: the functions are converted for it, and removed again.
HLO_NODISCARD HloStatus import_check_composites(Importer *importer);
// Operations whose sizes are operands, and those of the dialects that compute such sizes.
const ImportRow *import_dynamic_rows(int64_t *count);
// Custom calls that represent operations with dynamic sizes, by target.
const ImportRow *import_dynamic_calls(int64_t *count);
// Operations that later releases of StableHLO have replaced.
const ImportRow *import_legacy_rows(int64_t *count);
// sdy operations and casts between dialects.
const ImportRow *import_sdy_rows(int64_t *count);

// An empty table of converted operations (repeat.c), in `arena`.
struct ImportRepeats *import_repeats_new(HloArena *arena);
// True for rows whose handlers depend only on the attributes and types of an operation.
bool import_may_repeat(const char *name);
// True if the same operation, with equal attributes and types, was converted before: the same instructions have been
// made again, and its result is set. Only for operations for which import_may_repeat() is true.
bool import_repeated(const ImportPlace *place);
// Records the conversion of the current operation: the instructions after `before` (NULL: all of the computation).
void import_note_repeat(const ImportPlace *place, const HloInstruction *before);

// A location as metadata; NULL if it has no information.
const HloMetadata *import_metadata(const ImportPlace *place, const MlirAttribute *location);

// Adds the operation's position in the text to an error, unless there is no text, or the error has a more specific one.
HLO_NODISCARD HloStatus import_with_place(const Importer *importer, const MlirOperation *operation, HloStatus status);
// An error about the current operation, with its name and source line.
HLO_NODISCARD HloStatus import_error(const ImportPlace *place, HloCode code, const char *format, ...) HLO_PRINTF(3, 4);

// The constant integers of an array of integers or predicates, row-major, computed from its operands; false if they
// depend on the program's input, or if there are too many. Stored in the importer's arena.
bool import_known(Importer *importer, const HloInstruction *instruction, HloInts *values);
// Records that `inner` (a parameter, or an element of one) always has the value of `outer`, in another computation.
void import_note_same(Importer *importer, const HloInstruction *inner, const HloInstruction *outer);

// The shape of a value; UNIMPLEMENTED naming the type if HLO cannot express it.
HLO_NODISCARD HloStatus import_shape(const ImportPlace *place, const MlirType *type, const HloShape **shape);

// True if `inferred` equals `declared` except for sizes that the program leaves open and inference knows.
bool import_refines(const HloShape *inferred, const HloShape *declared);
// INVALID_ARGUMENT unless the value has this type, except for sizes that the type leaves open: for operations that
// become no instruction, which inference would have checked.
HLO_NODISCARD HloStatus import_check_type(const ImportPlace *place, const HloInstruction *value, const MlirType *type);
// INVALID_ARGUMENT unless `declared`, the type that the program gives a result, is the shape that follows from the
// operands, or leaves sizes of it open.
HLO_NODISCARD HloStatus import_check_result(const ImportPlace *place, const HloShape *inferred,
                                            const HloShape *declared);
// Appends an instruction, checked by shape inference against `shape` (NULL: the inferred shape is used, as it is where
// `shape` has unbounded sizes that inference knows). Metadata comes from the operation's location, a sharding from its
// attributes.
HLO_NODISCARD HloStatus import_emit(ImportPlace *place, HloOpcode opcode, const HloShape *shape,
                                    HloInstruction *const *operands, int64_t operand_count, const void *attributes,
                                    HloComputation *const *called, int64_t called_count, HloInstruction **result);
// The common case: all operands of the operation in order, one result.
HLO_NODISCARD HloStatus import_plain(ImportPlace *place, HloOpcode opcode, const void *attributes);
// The operation's operands, lowered. Fails if one has no value here.
HLO_NODISCARD HloStatus import_operands(const ImportPlace *place, HloInstruction ***operands);
// Sets the results of the operation: one value as it is, several as elements of a tuple-shaped `instruction`.
HLO_NODISCARD HloStatus import_set_results(ImportPlace *place, HloInstruction *instruction);
// The shape of all results: of the one result, or their tuple.
HLO_NODISCARD HloStatus import_result_shape(const ImportPlace *place, const HloShape **shape);

// Attributes by name. A missing one returns the default; one of another kind is an error.
HLO_NODISCARD HloStatus import_int(const ImportPlace *place, const char *name, int64_t fallback, int64_t *value);
// INVALID_ARGUMENT naming the attribute if the operation does not have it: for those without a default in StableHLO.
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

// A region as a separate computation: parameters are the block's arguments, then `captures`; the root is the one
// returned value or a tuple of them.
//
//   ^bb(%i, %x): ... uses %w of outside ... return %j, %y
//     plain             (i, x, w) -> (j, y)         a reduction's computation, a branch
//     tuple_parameter   ((i, x, w)) -> (j, y)       a loop's condition
//     and passthrough   ((i, x, w)) -> (j, y, w)    a loop's body, which passes on its captures
typedef struct ImportRegion {
    const MlirRegion *region;
    MlirValue *const *captures;
    int64_t capture_count;
    // The initial values of the arguments, which have their shapes; NULL: the shapes of the arguments' types.
    HloInstruction *const *initial;
    bool tuple_parameter;  // all parameters are in one tuple, even if there is only one
    bool passthrough;
    bool named_parameters;  // the arguments' locations become metadata; those of loops are in no text
    const char *name;
} ImportRegion;
// The common case of an op whose regions become its called computations, with all operands in order.
HLO_NODISCARD HloStatus import_with_region(ImportPlace *place, HloOpcode opcode, const void *attributes);
// Converts the operations of a block into a computation, up to its return, whose operands are returned.
HLO_NODISCARD HloStatus import_block(Importer *importer, HloComputation *computation, const MlirBlock *block,
                                     const MlirOperation **terminator);
// A call of the function with the operation's operands and results. One with open sizes is converted for this call's
// shapes.
HLO_NODISCARD HloStatus import_call_of(ImportPlace *place, const char *name, bool is_composite,
                                       HloInstruction **result);
// The computation of a function by its symbol name, converted on first use. A function with types of unbounded sizes is
// converted anew for every list of shapes and known values that it is called with, given by `operands` (which may be
// NULL if it is not called from here).
HLO_NODISCARD HloStatus import_function(const ImportPlace *place, const char *name, HloInstruction *const *operands,
                                        int64_t operand_count, HloComputation **computation);
// Appends the elementwise computation of a chlo operation on operands of one shape, which must match the type of the
// current operation; UNIMPLEMENTED for a name that is not in import_chlo_rows().
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
// the call names, truncated to the size of its results, which the requested recall determined.
HLO_NODISCARD HloStatus import_approx_top_k(ImportPlace *place, HloInstruction *const *operands,
                                            HloComputation *const *called, int64_t called_count);

// A sharding attribute (sdy, or the text of mhlo.sharding) as an HLO annotation; NULL for a NULL attribute. `rank` is
// that of the value.
HLO_NODISCARD HloStatus import_sharding(Importer *importer, const MlirAttribute *attribute, int64_t rank,
                                        const HloSharding **sharding);
// The sharding of an argument or a result from the dictionary of its attributes, or NULL. sdy.sharding takes precedence
// over mhlo.sharding, as in XLA.
const MlirAttribute *import_sharding_entry(const MlirAttribute *dictionary);
// Copies a custom call with MLIR_SHAPE_OPERANDS into `sized`, without these operands and with the sizes that they list
// in the types of its results. UNIMPLEMENTED if a size without a bound stays unknown.
HLO_NODISCARD HloStatus import_size_results(const ImportPlace *place, MlirOperation *sized);
// An sdy sharding as a tiling. `manual` names axes that are manual inside a region, or is NULL.
HLO_NODISCARD HloStatus import_tiling(Importer *importer, const MlirAttribute *attribute, const MlirAttribute *manual,
                                      int64_t rank, const HloSharding **sharding);
// True if propagation may shard this dimension of an sdy sharding further.
bool import_dimension_is_open(const MlirAttribute *dim);
// Keeps the parts of sdy shardings that tilings cannot express (open dimensions, axes that must stay unused,
// priorities) as the frontend attribute xla.sdy.sharding; one attribute per leaf, NULL where there is none.
// UNIMPLEMENTED if some leaves have shardings of another kind, which that text cannot express.
HLO_NODISCARD HloStatus import_sharding_text(Importer *importer, const MlirAttribute *const *shardings,
                                             HloInstruction *instruction);
// Keeps the meshes, for their axis names, as the module's frontend attribute xla.sdy.meshes; older artifacts already
// have it in that form, among the attributes of the module `top`. INVALID_ARGUMENT if two meshes have the same name.
HLO_NODISCARD HloStatus import_meshes(Importer *importer, const MlirOperation *top);
// Converts replica groups by axes of a mesh (MLIR_MESH_GROUPS) to the corresponding form of HLO.
HLO_NODISCARD HloStatus import_mesh_groups(const ImportPlace *place, const MlirAttribute *attribute,
                                           const HloReplicaGroups **result);
// Puts `member` into a group of equally sharded values; returns the instruction that replaces it from here on.
HLO_NODISCARD HloStatus import_group_member(ImportPlace *place, int64_t group, HloInstruction **member);
// Puts a shape into the memory that a kind names ("device", "pinned_host", "unpinned_host"); others are UNIMPLEMENTED.
HLO_NODISCARD HloStatus import_placement(const ImportPlace *place, const char *kind, const HloShape **shape);
// Gives the single result of a custom call the layout in its result_layouts.
HLO_NODISCARD HloStatus import_result_layout(const ImportPlace *place, const HloShape **shape);
// Layouts and memory kinds of the entry's arguments and results, from the attributes of its function.
HLO_NODISCARD HloStatus import_entry_layouts(Importer *importer, const MlirOperation *function);
// The same from the attributes of the module, where XLA writes them; those of the function take precedence.
HLO_NODISCARD HloStatus import_module_layouts(Importer *importer, const MlirOperation *top);
// Adds the entries of a dictionary (mhlo.frontend_attributes; NULL and other kinds have none) to the instruction's.
void import_frontend_attributes(const MlirAttribute *dictionary, HloInstruction *instruction);

// Reads the fields of `opcode` into the struct, which must be the one that fields.def names for it, and zeroed. A
// missing attribute keeps StableHLO's default; one of another kind is INVALID_ARGUMENT.
HLO_NODISCARD HloStatus import_fields(ImportPlace *place, HloOpcode opcode, void *attributes);
// The opcode that an operation with this name becomes if its fields describe it fully; HLO_OPCODE_COUNT for other
// names.
HloOpcode import_fields_opcode(const char *name);
// The whole operation as an instruction of `opcode`: its fields, all operands, and its regions if the opcode calls any.
HLO_NODISCARD HloStatus import_with_fields(ImportPlace *place, HloOpcode opcode);

// Options for a module besides its operations.
typedef struct ImportOptions {
    const struct AsmText *text;  // the source, for messages with a position in it; NULL for bytecode
    const HloInts *sizes;        // see hlo_module_from_stablehlo_sized()
    int64_t size_count;
    HloText *notes;  // see HloStablehloOptions; or NULL
} ImportOptions;
// Converts the operation builtin.module `top` into the empty `module`. Scratch memory comes from `arena`.
HLO_NODISCARD HloStatus mlir_import_module(const MlirOperation *top, const ImportOptions *options, HloArena *arena,
                                           HloModule *module);

#endif
