// SPDX-License-Identifier: Apache-2.0
// The decoder of single entries of the type table, which the attribute decoder calls. Private to the bytecode reader.
#ifndef MESHLO_HLO_STABLEHLO_BYTECODE_READ_ENTRY_H_
#define MESHLO_HLO_STABLEHLO_BYTECODE_READ_ENTRY_H_

#include "hlo/stablehlo/bytecode/reader.h"

// Decodes the entry in `cursor`; on an error, which the cursor keeps, the result is NULL.
const MlirType *mlir_decode_type(MlirFile *file, const MlirEntry *entry, MlirCursor *cursor);

#endif
