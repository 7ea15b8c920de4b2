// SPDX-License-Identifier: Apache-2.0
#include "hlo/base/nearest.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { kMostLetters = 63, kShortestPrefix = 3 };

// Three rows of the table of distances at a time.
int64_t hlo_edit_distance(const char *a, const char *b) {
    assert(a && b);
    const int64_t a_length = (int64_t)strlen(a), b_length = (int64_t)strlen(b);
    if (a_length > kMostLetters || b_length > kMostLetters) return INT64_MAX;
    int64_t rows[3][kMostLetters + 1];
    for (int64_t j = 0; j <= b_length; ++j) rows[0][j] = j;
    for (int64_t i = 1; i <= a_length; ++i) {
        const int64_t *above = rows[(i - 1) % 3], *second = rows[(i + 1) % 3];
        int64_t *row = rows[i % 3];
        row[0] = i;
        for (int64_t j = 1; j <= b_length; ++j) {
            int64_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (exchanged && second[j - 2] + 1 < best) best = second[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[a_length % 3][b_length];
}

const char *hlo_nearest_name(const char *name, const char *const *names, int64_t count) {
    assert(name && (names || count == 0));
    const char *nearest = NULL;
    const int64_t length = (int64_t)strlen(name);
    // A name of one letter has no letter that could be right beside a wrong one.
    int64_t best = length < 2 ? 1 : length < 6 ? 2 : length / 3 + 1;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t distance = hlo_edit_distance(name, names[i]);
        if (distance >= best) continue;
        best = distance;
        nearest = names[i];
    }
    for (int64_t i = 0; i < count && !nearest && length >= kShortestPrefix; ++i)
        if (strncmp(name, names[i], (size_t)length) == 0) nearest = names[i];  // only begun
    return nearest;
}
