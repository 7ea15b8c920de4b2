// SPDX-License-Identifier: Apache-2.0
// Finds the name that was probably meant by a misspelt one.
//
// Stability: experimental.
#ifndef MESHLO_HLO_BASE_NEAREST_H_
#define MESHLO_HLO_BASE_NEAREST_H_

#include <stdint.h>

#include "hlo/base/macros.h"

HLO_BEGIN_C

// Returns the edits between two names: of single letters, or exchanges of two neighbours. INT64_MAX where one is too
// long to be a typing error (64 letters). Any thread.
HLO_EXPORT int64_t hlo_edit_distance(const char *a, const char *b);

// Returns the name among `count` that `name` was probably meant to be, or NULL: the one that is the fewest edits away,
// at most a third of its letters or one of two to five, else the first that it is the beginning of. Of equally near
// names the first is taken. Any thread.
HLO_EXPORT const char *hlo_nearest_name(const char *name, const char *const *names, int64_t count);

HLO_END_C

#endif
