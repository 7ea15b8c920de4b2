// SPDX-License-Identifier: Apache-2.0
// What the verifier's files share.
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

// Lists, users, callers, control edges, order, names, roots, recursion: of the whole module.
HLO_NODISCARD HloStatus hlo_verify_structure(HloVerifier *verifier);
// The shape against what inference says, and layouts.
HLO_NODISCARD HloStatus hlo_verify_shape(HloVerifier *verifier, const HloInstruction *instruction);
// Attributes that inference does not check.
HLO_NODISCARD HloStatus hlo_verify_attributes(HloVerifier *verifier, const HloInstruction *instruction);
// Keys of frontend attributes, of an instruction or of the module.
HLO_NODISCARD HloStatus hlo_verify_keys(HloKeyValues attributes);
// The sharding of one instruction.
HLO_NODISCARD HloStatus hlo_verify_sharding(HloVerifier *verifier, const HloInstruction *instruction);
// Starts and ends of async ops.
HLO_NODISCARD HloStatus hlo_verify_async(HloVerifier *verifier, const HloInstruction *instruction);
// Numbers of replicas and partitions.
HLO_NODISCARD HloStatus hlo_verify_counts(const HloModule *module);
// Entry layout, aliasing, donors.
HLO_NODISCARD HloStatus hlo_verify_header(HloVerifier *verifier);
// Layouts inside a shape.
HLO_NODISCARD HloStatus hlo_verify_layouts(HloVerifier *verifier, const HloShape *shape);
// "f32[2,3]" in the scratch arena.
const char *hlo_verify_shape_text(HloVerifier *verifier, const HloShape *shape);
// Gives an error the instruction's name and place.
HLO_NODISCARD HloStatus hlo_verify_place(HloStatus status, const HloInstruction *instruction);

#endif
