// SPDX-License-Identifier: Apache-2.0
// Internals shared by the verifier's files.
#ifndef MESHLO_HLO_VERIFY_INTERNAL_H_
#define MESHLO_HLO_VERIFY_INTERNAL_H_

#include "hlo/verify/verify.h"

typedef struct HloVerifier {
    const HloModule *module;
    HloArena *arena;  // scratch; reset after each instruction by the loop that calls the checks
    int32_t *seen;    // by instruction id: a mark of the instruction being checked, +1
} HloVerifier;

// Returns INVALID_ARGUMENT from the calling function when `condition` holds.
#define HLO_VERIFY_FAIL_IF(condition, ...) HLO_FAIL_IF(condition, HLO_INVALID_ARGUMENT, __VA_ARGS__)

// Checks the structure of the whole module: lists, users, callers, control edges, order, names, roots, recursion.
HLO_NODISCARD HloStatus hlo_verify_structure(HloVerifier *verifier);
// Checks the shape against the inferred one, and layouts.
HLO_NODISCARD HloStatus hlo_verify_shape(HloVerifier *verifier, const HloInstruction *instruction);
// Checks attributes that inference does not check.
HLO_NODISCARD HloStatus hlo_verify_attributes(HloVerifier *verifier, const HloInstruction *instruction);
// Checks the keys of frontend attributes, of an instruction or of the module.
HLO_NODISCARD HloStatus hlo_verify_keys(HloKeyValues attributes);
// Checks the sharding of one instruction.
HLO_NODISCARD HloStatus hlo_verify_sharding(HloVerifier *verifier, const HloInstruction *instruction);
// Checks starts and dones of async ops.
HLO_NODISCARD HloStatus hlo_verify_async(HloVerifier *verifier, const HloInstruction *instruction);
// Checks the numbers of replicas and partitions.
HLO_NODISCARD HloStatus hlo_verify_counts(const HloModule *module);
// Checks entry layout, aliasing and donors.
HLO_NODISCARD HloStatus hlo_verify_header(HloVerifier *verifier);
// Checks the layouts inside a shape.
HLO_NODISCARD HloStatus hlo_verify_layouts(HloVerifier *verifier, const HloShape *shape);
// The text "f32[2,3]" in the scratch arena.
const char *hlo_verify_shape_text(HloVerifier *verifier, const HloShape *shape);
// Adds the instruction's name and place to an error.
HLO_NODISCARD HloStatus hlo_verify_place(HloStatus status, const HloInstruction *instruction);

#endif
