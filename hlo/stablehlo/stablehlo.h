// SPDX-License-Identifier: Apache-2.0
// StableHLO programs as HLO modules: MLIR text and portable bytecode (VHLO, with native sdy sharding) in and out.
//
// Stability: stable.
//
// Terms:
//   MLIR module        operations, regions and attributes in memory (mlir/mlir.h). Readers and the exporter
//                      make it, the importer and the writers read it.
//   dialect            a family of operations: stablehlo, chlo, func, sdy. VHLO is the versioned form of stablehlo.
//   pretty, generic    the two text forms: an operation's own syntax, or "name"(operands) {attributes} : types.
//   portable artifact  VHLO in MLIR bytecode, written for a release of StableHLO.
//   field              an attribute of an operation that is a member of the instruction's record (mlir/fields.def).
//   leaf               an array of a tuple, depth first. StableHLO passes leaves where HLO passes a tuple.
//   composite          a named operation with a function that computes the same, for readers that do not know the
//                      name.
//   decomposition      that function.
//   refined function   a function that is converted again for each list of argument shapes.
#ifndef MESHLO_HLO_STABLEHLO_STABLEHLO_H_
#define MESHLO_HLO_STABLEHLO_STABLEHLO_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Reads a portable artifact as serializePortableArtifact writes it (bytecode versions 0 to 6, VHLO 0.9.0 on) and
// converts it to HLO: the public function `main` becomes the entry computation. Names and locations are kept as
// metadata; sdy and mhlo shardings become annotations. Sizes that are operands (dynamic_reshape and the like) are
// resolved where they follow from constants and from array sizes; chlo operations become the HLO operation or their
// decomposition. Dimension names, quantised types and sizes known only at run time are refused by name (UNIMPLEMENTED);
// malformed bytes give INVALID_ARGUMENT with the byte offset. Every count is checked against the bytes available. The
// module is the caller's: hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_from_stablehlo_bytecode(const void *bytes, size_t length,
                                                                      HloModule **module);

// Reads MLIR text, in pretty or generic form: func, stablehlo, chlo and sdy operations, as JAX and XLA print them, with
// locations, aliases and resources. It is converted as above. `file` is the name for messages, or NULL. Errors in the
// text itself include their position. The module is the caller's: hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_from_stablehlo_text(const char *text, size_t length, const char *file,
                                                                  HloModule **module);

// Reads either form, recognised by its first bytes, with values for the sizes that the entry's arguments leave open
// (tensor<?x4xf32>, as jax.export writes symbolic shapes): sizes[i] has one number for each dimension of argument i, or
// no items where the program gives all of them. Everything that follows from these sizes is then known. A violated
// condition on them is INVALID_ARGUMENT with its message, as are sizes that do not fit, and more of them than there are
// arguments. The module is the caller's: hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_from_stablehlo_sized(const void *data, size_t length, const char *file,
                                                                   const HloInts *sizes, int64_t count,
                                                                   HloModule **module);

// Appends the module as MLIR text in its pretty form, byte for byte as MLIR prints this module. Tuples are split into
// several values, as in XLA; fusions and asynchronous wrappers become calls, and copies are dropped. With `locations`,
// names and metadata appear in loc(...). The module must be verified (hlo_verify), as for the other two writers.
// UNIMPLEMENTED naming the instruction that has no operation in StableHLO or chlo.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_to_stablehlo_text(const HloModule *module, bool locations, HloText *text);

// The same in MLIR's generic form, "stablehlo.add"(%0, %1) : (...) -> ..., which tools can read that do not have
// StableHLO built in. Values have the same names as in the pretty form.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_to_stablehlo_generic(const HloModule *module, bool locations,
                                                                   HloText *text);

// The release that bytecode is written for by default: old enough to be read nearly everywhere, new enough for
// accuracies, narrow types and collectives of several operands. Operations of chlo, which artifacts do not have, are
// written as composites with decompositions, as XLA writes them, or as calls for releases before 1.9.0.
#define HLO_STABLEHLO_DEFAULT_RELEASE "1.10.0"

// Appends the module as a portable artifact (VHLO in MLIR bytecode) for a release of StableHLO, 0.9.0 to 1.20; NULL for
// the default one. Its content is that of the text. INVALID_ARGUMENT for an unknown release; UNIMPLEMENTED naming what
// the release cannot express.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_to_stablehlo_bytecode(const HloModule *module, const char *release,
                                                                    HloText *bytes);

// Frontend attributes of a module that was read: the mhlo.layout_mode of each argument and result of @main,
// "default;{0,1};auto", as XLA names and writes them. Absent where all are "default". Open layouts are row-major until
// code that knows the machine chooses them.
#define HLO_ARGUMENT_LAYOUT_MODES "arg_layout_modes"
#define HLO_RESULT_LAYOUT_MODES "out_layout_modes"

// Options for reading a program; zeros are the defaults.
typedef struct HloStablehloOptions {
    const char *file;  // its name for messages, or NULL
    const HloInts *sizes;
    int64_t size_count;  // as for hlo_module_from_stablehlo_sized()
    // Receives a line "FILE:LINE:COLUMN: note: ..." for each part that is skipped because it does not affect the
    // computation: operations of unknown dialects at the top of the module, as llvm.module_flags. NULL: notes are
    // dropped.
    HloText *notes;
} HloStablehloOptions;

// Reads either form with these options (NULL: none). The module is the caller's: hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_from_stablehlo(const void *data, size_t length,
                                                             const HloStablehloOptions *options, HloModule **module);

// Rewrites what Shardy has left in an HLO module as text in frontend attributes (xla.sdy.*), as compiler_ir("hlo") of
// JAX and XLA's dumps have it, in the form that modules read from StableHLO have: calls at the boundaries of manual
// regions (xla.sdy.GlobalToLocalShape) become Sharding, SPMDFullToShardShape and SPMDShardToFullShape, and arrays get a
// tiling besides the text. The transforms (hlo/transform/transform.h) need this form. The number of partitions becomes
// that of the mesh if the module has none. INVALID_ARGUMENT naming the instruction for text that is malformed, names a
// mesh or an axis that does not exist, or has another number of dimensions than its array; sizes are compared by the
// partitioner. One thread at a time may work on a module.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_tile_shardy(HloModule *module);

// True if the bytes begin with MLIR's bytecode magic.
HLO_EXPORT bool hlo_looks_like_mlir_bytecode(const void *bytes, size_t length);
// True if the text begins as MLIR does, after white space and comments: with a module, an operation of builtin, func,
// StableHLO, CHLO or Shardy, an operation in quotes, an alias or a section of resources. HLO text begins with none of
// these.
HLO_EXPORT bool hlo_looks_like_mlir_text(const char *text, size_t length);

HLO_END_C

#endif
