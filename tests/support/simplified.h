// SPDX-License-Identifier: Apache-2.0
// The cases of tests/compile/cases.def, for each front end: the operations that it leaves of a small program, and the
// values that the result computes, which are the evaluator's on the program as it was written.
#ifndef MESHLO_TESTS_SUPPORT_SIMPLIFIED_H_
#define MESHLO_TESTS_SUPPORT_SIMPLIFIED_H_

#include "hlo/base/text.h"
#include "hlo/eval/eval.h"

typedef struct SimplifiedCase {
    const char *name, *computations, *body, *left;
} SimplifiedCase;

enum { SIMPLIFIED_ARGUMENTS = 2, SIMPLIFIED_ELEMENTS = 6 };

// Case number `index`; NULL after the last.
const SimplifiedCase *simplified_case(size_t index);
// The chain that has some of everything, of which one sine is left.
const SimplifiedCase *simplified_chain(void);
// Appends the program of a case, its parameters annotated with `sharding` ("" for none).
void simplified_text(const SimplifiedCase *test, const char *sharding, HloText *text);
// The program as a module, which the caller frees.
HloModule *simplified_module(const SimplifiedCase *test, const char *sharding);

// Operations of all computations that compute something: neither parameters, constants nor tuples.
int64_t simplified_count(const HloModule *module);
// Expects that the operations of `module` are those that the case leaves.
void simplified_expect_operations(const SimplifiedCase *test, const char *front_end, const HloModule *module);

// The arguments of all cases: floats with both zeros, a small and a large number; integers around 0. The caller frees
// the literals.
void simplified_arguments(HloLiteral *arguments[SIMPLIFIED_ARGUMENTS]);
// Returns the value of a module by the evaluator, a literal that the caller frees.
HloLiteral *simplified_evaluate(const HloModule *module, HloLiteral *const *arguments, HloNumerics numerics);
// Expects that `have`, by a front end, is the value of the case as it was written, and frees it. The bits are equal
// unless the case computes a function (sine, cosine) or a sum, whose last bits depend on the machine.
void simplified_expect_value(const SimplifiedCase *test, const char *front_end, HloLiteral *const *arguments,
                             HloNumerics numerics, HloLiteral *have);

#endif
