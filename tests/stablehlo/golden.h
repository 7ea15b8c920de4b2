// SPDX-License-Identifier: Apache-2.0
// The golden programs, and functions on modules that the tests of text and bytecode share.
#ifndef MESHLO_TESTS_STABLEHLO_GOLDEN_H_
#define MESHLO_TESTS_STABLEHLO_GOLDEN_H_

#include "hlo/text/text.h"

// Portable bytecode as JAX made it (tests/stablehlo/make_golden.py).
typedef struct Golden {
    const char *name;
    const unsigned char *bytes;
    size_t length;
} Golden;

// Fails the test with the whole error, place and all, after `what`.
void must(HloStatus status, const char *what);
// The module as HLO text; fails the test when it cannot be printed. Free with hlo_text_free().
HloText print_module(const HloModule *module, const HloPrintOptions *options);

#endif
