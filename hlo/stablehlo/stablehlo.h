// SPDX-License-Identifier: Apache-2.0
// StableHLO programs as HLO modules: MLIR text and portable bytecode (VHLO, with native sdy sharding) in and out.
#ifndef MESHLO_HLO_STABLEHLO_STABLEHLO_H_
#define MESHLO_HLO_STABLEHLO_STABLEHLO_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Reads a portable artifact as serializePortableArtifact writes it (bytecode versions 0 to 6, VHLO 0.9.0 on) and
// converts it to HLO: what the public function `main` does becomes the entry computation. Names and locations are kept
// as metadata; sdy and mhlo shardings become annotations. Sizes that are operands (dynamic_reshape and the like) are
// taken where they follow from constants and from sizes of arrays; chlo operations become HLO's or what they are made
// of. Dimension names, quantised types and sizes that only the run would know are refused by name (UNIMPLEMENTED);
// malformed bytes give INVALID_ARGUMENT with the byte offset. Every count is checked against the bytes that are there.
// The module is the caller's: hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_from_stablehlo_bytecode(const void *bytes, size_t length,
                                                                      HloModule **module);

// Reads MLIR text, in pretty or generic form: func, stablehlo, chlo and sdy operations, as JAX and XLA print them, with
// locations, aliases and resources. What it means is as above. `file` is the name for messages, or NULL. Errors of the
// text itself have their place in it. The module is the caller's: hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_from_stablehlo_text(const char *text, size_t length, const char *file,
                                                                  HloModule **module);

// Reads either form, told by its first bytes, with sizes for what the entry's arguments leave open (tensor<?x4xf32>, as
// jax.export writes symbolic shapes): sizes[i] has one number for each dimension of argument i, or no items where the
// program says all of them. Whatever follows from these sizes is then known; conditions on them that do not hold are
// INVALID_ARGUMENT with their message, as are sizes that do not fit, and more of them than there are arguments. The
// module is the caller's: hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_from_stablehlo_sized(const void *data, size_t length, const char *file,
                                                                   const HloInts *sizes, int64_t count,
                                                                   HloModule **module);

// Appends the module as MLIR text in its pretty form, byte for byte as MLIR prints such a module. Tuples are taken
// apart into several values, as XLA does; fusions and asynchronous wrappers become calls, copies disappear. With
// `locations`, names and metadata stand in loc(...). The module must be verified (hlo_verify), as for the other two
// ways out. UNIMPLEMENTED naming the instruction that StableHLO and chlo have no operation for.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_to_stablehlo_text(const HloModule *module, bool locations, HloText *text);

// The same in MLIR's generic form, "stablehlo.add"(%0, %1) : (...) -> ..., which tools read that have no StableHLO in
// them. Values are called as in the pretty form.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_to_stablehlo_generic(const HloModule *module, bool locations,
                                                                   HloText *text);

// The release that bytecode is written for unless another one is asked for: old enough to be read nearly everywhere,
// new enough for accuracies, narrow types and collectives of several operands. Operations of chlo, which artifacts have
// not, are written as composites with decompositions, as XLA writes them; as calls for releases before 1.9.0.
#define HLO_STABLEHLO_DEFAULT_RELEASE "1.10.0"

// Appends the module as a portable artifact (VHLO in MLIR bytecode) for a release of StableHLO, 0.9.0 to 1.20; NULL for
// the default one. What it says is as in text. INVALID_ARGUMENT for an unknown release; UNIMPLEMENTED naming what the
// release cannot say.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_to_stablehlo_bytecode(const HloModule *module, const char *release,
                                                                    HloText *bytes);

// Frontend attributes of a module that was read: what mhlo.layout_mode says of each argument and result of @main,
// "default;{0,1};auto", as XLA names and writes them. Absent where all are "default". Open layouts are row-major until
// somebody who knows the machine chooses.
#define HLO_ARGUMENT_LAYOUT_MODES "arg_layout_modes"
#define HLO_RESULT_LAYOUT_MODES "out_layout_modes"

// What a caller may say of a program that is read; zeros say nothing.
typedef struct HloStablehloOptions {
    const char *file;  // its name for messages, or NULL
    const HloInts *sizes;
    int64_t size_count;  // as for hlo_module_from_stablehlo_sized()
    // Gets a line "FILE:LINE:COLUMN: note: ..." for what is passed over because it says nothing about the computation:
    // operations of unknown dialects at the top of the module, as llvm.module_flags. NULL: no one is told.
    HloText *notes;
} HloStablehloOptions;

// Reads either form with these options (NULL: none). The module is the caller's: hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_from_stablehlo(const void *data, size_t length,
                                                             const HloStablehloOptions *options, HloModule **module);

// True if the bytes begin with MLIR's bytecode magic.
HLO_EXPORT bool hlo_looks_like_mlir_bytecode(const void *bytes, size_t length);
// True if the text begins as MLIR does, behind white space and comments: with a module, an operation of builtin, func,
// StableHLO, CHLO or Shardy, an operation in quotes, an alias or a section of resources. HLO text begins with none.
HLO_EXPORT bool hlo_looks_like_mlir_text(const char *text, size_t length);

HLO_END_C

#endif
