// SPDX-License-Identifier: Apache-2.0
#include "hlo/base/nearest.h"

#include <assert.h>
#include <string.h>

enum { kMostLetters = 63, kShortestPrefix = 3 };

// Edit distance (Levenshtein) of two short names; a large number when one is too long to be a typing error. One row of
// the table of distances at a time: `diagonal` is the old value above and to the left.
static int64_t edit_distance(const char *a, const char *b) {
    const int64_t a_length = (int64_t)strlen(a), b_length = (int64_t)strlen(b);
    if (a_length > kMostLetters || b_length > kMostLetters) return INT64_MAX;
    int64_t row[kMostLetters + 1];
    for (int64_t j = 0; j <= b_length; ++j) row[j] = j;
    for (int64_t i = 1; i <= a_length; ++i) {
        int64_t diagonal = row[0];
        row[0] = i;
        for (int64_t j = 1; j <= b_length; ++j) {
            int64_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b_length];
}

const char *hlo_nearest_name(const char *name, const char *const *names, int64_t count) {
    assert(name && (names || count == 0));
    const char *nearest = NULL;
    const int64_t length = (int64_t)strlen(name);
    // A name of one letter has no letter that could be right beside a wrong one.
    int64_t best = length < 2 ? 1 : length < 6 ? 2 : length / 3 + 1;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t distance = edit_distance(name, names[i]);
        if (distance >= best) continue;
        best = distance;
        nearest = names[i];
    }
    for (int64_t i = 0; i < count && !nearest && length >= kShortestPrefix; ++i)
        if (strncmp(name, names[i], (size_t)length) == 0) nearest = names[i];  // only begun
    return nearest;
}
