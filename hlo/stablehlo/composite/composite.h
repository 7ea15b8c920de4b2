// SPDX-License-Identifier: Apache-2.0
// Operations of chlo as composites of StableHLO, the form they have in portable artifacts, which have no chlo. A reader
// that knows the name uses the operation; any other reader uses its decomposition. Private to hlo/stablehlo.
#ifndef MESHLO_HLO_STABLEHLO_COMPOSITE_COMPOSITE_H_
#define MESHLO_HLO_STABLEHLO_COMPOSITE_COMPOSITE_H_

#include "hlo/stablehlo/import/import.h"

// Makes a computation called "chlo.erf.impl" in the importer's module that does the same as the operation, without
// chlo. UNIMPLEMENTED naming an operation that has no decomposition here. Values are close to those of the operation,
// not equal bit for bit.
HLO_NODISCARD HloStatus composite_decompose(Importer *importer, const MlirOperation *operation,
                                            HloComputation **computation);
// The body of composite_decompose() for chlo.ragged_dot (ragged.c): appends the computation on its three operands to
// `place`.
HLO_NODISCARD HloStatus composite_decompose_ragged(ImportPlace *place, const MlirOperation *operation,
                                                   HloInstruction *const *operands, HloInstruction **result);

// Turns all chlo operations below `top` into composites, or calls for releases older than composites (1.9.0), and
// appends each decomposition to it once. `scratch` is an empty module that holds the decompositions' constants: it must
// live as long as `top` is used. INVALID_ARGUMENT for an unknown release.
HLO_NODISCARD HloStatus mlir_make_composites(HloArena *arena, MlirOperation *top, const char *release,
                                             HloModule *scratch);

#endif
