// SPDX-License-Identifier: Apache-2.0
// Before and after of passes, in text; and whether a program still computes the same.
#ifndef MESHLO_TESTS_PASS_CHECK_H_
#define MESHLO_TESTS_PASS_CHECK_H_

#include "hlo/hlo.h"
#include "hlo/pass/pass.h"
#include "hlo/text/text.h"

// Parses `text`; a failed assertion when it is wrong.
HloModule *check_parse(const char *text);
// Runs `passes` (names with commas) on `before` and compares the entry computation's instructions (and those of other
// computations where there are some) with `after`, in short form: one instruction a line, without names of the module.
void check_pass(const char *passes, const char *before, const char *after);
// check_pass() on a module of one computation, of which `before` and `after` are the instructions only.
void check_body(const char *passes, const char *before, const char *after);
// check_body() of the algebraic simplifier, and whether `before` computes the same bits after it and what follows it.
void check_rewrite(const char *before, const char *after);
// The module of one computation with these instructions. Free with hlo_free().
char *check_module(const char *body);
// Runs `passes` on `text` and evaluates both forms on the same pseudo-random arguments: results must be equal bit for
// bit, or, when `tolerance` is not 0, differ by so much of the larger one at most.
void check_same_results(const char *passes, const char *text, double tolerance);
// The same on arguments at the ends of their types, which follow from the seed; NaNs are equal whatever their bits.
void check_same_at_the_ends(const char *passes, const char *text, uint64_t seed);

#endif
