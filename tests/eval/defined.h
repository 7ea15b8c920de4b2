// SPDX-License-Identifier: Apache-2.0
// Random programs of one instruction, for tests that compare the evaluator with a definition of the op: every element
// of the result by itself, from indices, with no strides, blocks or batches.
#ifndef MESHLO_TESTS_EVAL_DEFINED_H_
#define MESHLO_TESTS_EVAL_DEFINED_H_

#include "hlo/base/text.h"
#include "hlo/eval/eval.h"

enum { DEFINED_MOST_RANK = 8, DEFINED_MOST_ARRAYS = 8 };

// Sizes of an array, or an index into one.
typedef struct Dims {
    int64_t rank, at[DEFINED_MOST_RANK];
} Dims;

// One case: a source of numbers, and the program that is being written.
typedef struct Defined {
    uint64_t state;
    HloText called, body;  // computations, and the entry's instructions
    int64_t count;         // of arguments p0, p1, …
    HloLiteral *arguments[DEFINED_MOST_ARRAYS];
    HloLiteral *result;
} Defined;

// A case that draws its numbers from `seed`.
Defined defined_begin(uint64_t seed);
// Frees what it holds.
void defined_end(Defined *test);

// A number of low … high, both included.
int64_t defined_draw(Defined *test, int64_t low, int64_t high);
// `count` different numbers below `limit`, in any order.
void defined_distinct(Defined *test, int64_t limit, int64_t count, int64_t *numbers);
// Sizes of `rank` dimensions, each of low … high.
Dims defined_dims(Defined *test, int64_t rank, int64_t low, int64_t high);
// Any of the types that values of different width and kind have.
HloType defined_type(Defined *test);

// Adds an argument of random numbers: integers of -5 … 5 (from 0 where there is no sign), halves and quarters.
HloLiteral *defined_array(Defined *test, HloType type, Dims dims);
// Adds an s32 argument, a scalar or vector, with numbers between low and high.
HloLiteral *defined_indices(Defined *test, Dims dims, int64_t low, int64_t high);
// Appends "f32[2,3]".
void defined_shape(HloText *text, HloType type, Dims dims);
// Appends "{1,0}".
void defined_list(HloText *text, const int64_t *numbers, int64_t count);
// Runs the program, whose body has been written but for its parameters. The test fails when it is refused.
void defined_run(Defined *test);
// The same for one that may be refused.
HloStatus defined_try(Defined *test);

// Sets the first index of all, and the next in row-major order; false after the last.
bool defined_first(Dims dims, Dims *index);
bool defined_next(Dims dims, Dims *index);
// The sizes of a literal.
Dims defined_sizes(const HloLiteral *literal);
// The element at an index, which must be inside.
int64_t defined_place(const HloLiteral *literal, Dims index);
double defined_at(const HloLiteral *literal, Dims index);
// The test fails unless the two elements have the same bits.
void defined_same(const Defined *test, const HloLiteral *have, Dims at, const HloLiteral *want, Dims from);
// Fails the test unless the element is `want` within `tolerance` times the larger of its size and 1.
void defined_is(const Defined *test, const HloLiteral *have, Dims at, double want, double tolerance);
// The program, for messages.
const char *defined_text(const Defined *test);

#endif
