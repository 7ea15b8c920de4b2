// SPDX-License-Identifier: Apache-2.0
// Operations of chlo as composites of StableHLO: how a portable artifact, which has no chlo, says them. A reader that
// knows the name takes the operation, any other one what it is decomposed into. Private to hlo/stablehlo.
#ifndef MESHLO_HLO_STABLEHLO_COMPOSITE_COMPOSITE_H_
#define MESHLO_HLO_STABLEHLO_COMPOSITE_COMPOSITE_H_

#include "hlo/stablehlo/import/import.h"

// Makes a computation called "chlo.erf.impl" in the importer's module that does the same as the operation, without
// chlo. UNIMPLEMENTED naming an operation that has no decomposition here. Values are close to those of the operation,
// not equal bit for bit.
HLO_NODISCARD HloStatus composite_decompose(Importer *importer, const MlirOperation *operation,
                                            HloComputation **computation);
// The body of that for chlo.ragged_dot (ragged.c): appends what it computes from its three operands to
// `place`.
HLO_NODISCARD HloStatus composite_decompose_ragged(ImportPlace *place, const MlirOperation *operation,
                                                   HloInstruction *const *operands, HloInstruction **result);

// Turns all chlo operations below `top` into composites, or calls where the release is older than those (1.9.0), and
// appends their decompositions to it, each once. `scratch` is an empty module which holds the decompositions'
// constants: it must live as long as `top` is used. INVALID_ARGUMENT for an unknown release.
HLO_NODISCARD HloStatus mlir_make_composites(HloArena *arena, MlirOperation *top, const char *release,
                                             HloModule *scratch);

#endif
