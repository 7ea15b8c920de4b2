// SPDX-License-Identifier: Apache-2.0
// Constructions that tangents and their transposes share.
#ifndef MESHLO_HLO_TRANSFORM_STRUCTURE_H_
#define MESHLO_HLO_TRANSFORM_STRUCTURE_H_

#include "hlo/ir/custom_call.h"
#include "hlo/transform/internal.h"

// The result of a reduction repeated to the sizes before it.
HloInstruction *hlo_transform_spread(HloBuilder *b, HloInstruction *reduced, HloInts dims, HloInts reduced_dims);
// For each window of x, the element of `carried` at the position of the greatest element of x (direction GE) or of the
// least one (LE).
HloInstruction *hlo_transform_window_gather(HloBuilder *b, HloInstruction *x, HloInstruction *carried,
                                            const HloWindow *window, int32_t direction);
// The elements of x along `dimension` at `indices`, which has x's sizes in the other dimensions.
HloInstruction *hlo_transform_take_along(HloBuilder *b, HloInstruction *x, HloInstruction *indices, int64_t dimension);
// The gather that reads from an array of x's sizes what the scatter of `attributes` writes for `updates`.
HloInstruction *hlo_transform_gather_updates(HloBuilder *b, HloInstruction *x, HloInstruction *indices,
                                             const HloScatterAttributes *attributes, const HloShape *updates);
// The tangents of a reduce-window by any computation of elementwise ops whose initial values are its identity.
void hlo_transform_expand_window(HloJvp *j, HloInstruction **out);
// The conjugate; x itself if it is real.
HloInstruction *hlo_transform_conjugate(HloBuilder *b, HloInstruction *x);
// The tangents of a decomposition by custom call; false if its target has none.
bool hlo_transform_decomposition(HloJvp *j, HloInstruction **out);

#endif
