// SPDX-License-Identifier: Apache-2.0
// Decoders of single entries of the attribute and type tables. Private to the bytecode reader.
#ifndef MESHLO_HLO_STABLEHLO_BYTECODE_ENTRY_H_
#define MESHLO_HLO_STABLEHLO_BYTECODE_ENTRY_H_

#include "hlo/stablehlo/bytecode.h"

// Decode what `cursor` holds; errors are left in the cursor, and the result is NULL then.
const MlirType *mlir_decode_type(MlirFile *file, const MlirEntry *entry, MlirCursor *cursor);
// Attributes of unknown dialects and codes are errors.
const MlirAttribute *mlir_decode_attribute(MlirFile *file, const MlirEntry *entry, MlirCursor *cursor);

#endif
