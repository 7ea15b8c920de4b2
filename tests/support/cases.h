// SPDX-License-Identifier: Apache-2.0
// What parameterised tests are given. Criterion runs each case in a process of its own, where pointers of the process
// that made the list mean nothing: a parameter is a number or holds its text.
#ifndef MESHLO_TESTS_SUPPORT_CASES_H_
#define MESHLO_TESTS_SUPPORT_CASES_H_

#include <criterion/parameterized.h>
#include <stdint.h>

#include "hlo/base/text.h"
#include "hlo/ir/types.h"

// The numbers 0 .. count - 1, each a case of type int: the places of a table.
struct criterion_test_params cases_numbered(size_t count);

// A file that a case reads.
typedef struct CaseFile {
    char path[256];
} CaseFile;

// Each file that matches a glob pattern below the source folder ("tests/cpu/programs/*.hlo"), a case of type CaseFile.
struct criterion_test_params cases_files(const char *pattern);

// The number that an environment variable holds, or `usual` without it.
int64_t cases_setting(const char *name, int64_t usual);
// The same for how many random programs a run tries; but without the variable a build with sanitizers, ten times
// slower, tries a quarter of `usual`. It looks for what any program may touch; the values of all are compared without
// sanitizers.
int64_t cases_count(const char *name, int64_t usual);

// Where a file lies: what begins with "corpus" under the shared folder (MESHLO_SHARED, else ../shared), all else under
// the source folder. NULL where there is none. The next call overwrites the result.
const char *cases_path(const char *file);

// Appends the program of one instruction: `root` (which may say its shape), on parameters p0, p1 ... of the shapes that
// `parameters` lists with semicolons between, behind the computations `called`.
void cases_program(HloText *text, const char *parameters, const char *root, const char *called);

// Appends `text` with the name of the element type for every dollar sign.
void cases_with_type(HloText *out, const char *text, HloType type);

// Appends a program f32[] -> f32[] of computations c0 ... c<depth>, the last the entry, each of which calls the one
// before it twice: 2^depth times c0. `header` follows the module's name (", num_partitions=2").
void cases_call_tree(HloText *text, const char *header, int depth);
// The same of another op than call: `op(x), called=c0`.
void cases_tree_of(HloText *text, const char *header, int depth, const char *op, const char *called);

#endif
