// SPDX-License-Identifier: Apache-2.0
// StableHLO programs as HLO modules: MLIR text and portable bytecode (VHLO, with native sdy sharding) in.
#ifndef MESHLO_HLO_STABLEHLO_STABLEHLO_H_
#define MESHLO_HLO_STABLEHLO_STABLEHLO_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Reads a portable artifact as serializePortableArtifact writes it (bytecode versions 0 to 6, VHLO 0.9.0 on) and
// converts it to HLO: what the public function `main` does becomes the entry computation. Names and locations are kept
// as metadata; sdy and mhlo shardings become annotations. Dimension names, quantised types and dynamic shapes that were
// not refined are refused by name (UNIMPLEMENTED); malformed bytes give INVALID_ARGUMENT with the byte offset. Every
// count is checked against the bytes that are there. The module is the caller's: hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_from_stablehlo_bytecode(const void *bytes, size_t length,
                                                                      HloModule **module);

// Reads MLIR text, in pretty or generic form: func, stablehlo, chlo and sdy operations, as JAX and XLA print them, with
// locations, aliases and resources. What it means is as above. `file` is the name for messages, or NULL. Errors of the
// text itself have their place in it. The module is the caller's: hlo_module_free().
HLO_EXPORT HLO_NODISCARD HloStatus hlo_module_from_stablehlo_text(const char *text, size_t length, const char *file,
                                                                  HloModule **module);

// True if the bytes begin with MLIR's bytecode magic.
HLO_EXPORT bool hlo_looks_like_mlir_bytecode(const void *bytes, size_t length);

HLO_END_C

#endif
