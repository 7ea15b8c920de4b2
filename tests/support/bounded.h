// SPDX-License-Identifier: Apache-2.0
// The programs of bounded.def, and arguments for them.
#ifndef MESHLO_TESTS_SUPPORT_BOUNDED_H_
#define MESHLO_TESTS_SUPPORT_BOUNDED_H_

#include "hlo/hlo.h"

typedef struct BoundedCase {
    const char *name, *instructions;
} BoundedCase;

// The largest size: sizes are 0 … BOUNDED_SIZE.
enum { BOUNDED_SIZE = 6, BOUNDED_ARGUMENTS = 5 };

// Case number `index`, or NULL after the last.
const BoundedCase *bounded_case(size_t index);
// How many cases there are.
size_t bounded_count(void);
// Its text, for random arguments too: sizes are brought into their bounds. Free with hlo_free().
char *bounded_text(const BoundedCase *bounded);
// The program of a case; the test fails when it is wrong.
HloModule *bounded_program(const BoundedCase *bounded);
// Arguments for sizes n and m; free each with hlo_literal_free().
void bounded_arguments(const HloModule *module, int64_t n, int64_t m, HloLiteral **arguments);

#endif
