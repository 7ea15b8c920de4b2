// SPDX-License-Identifier: Apache-2.0
// Tests of many cases, and their settings. Criterion runs each parameter in a process of its own, whose start takes
// longer than most cases: here a process takes up to CASES_TOGETHER cases in turn. Pointers of the process that made
// the list mean nothing in it: a case is a number or holds its text.
//
//     CaseList(suite, name) { return cases_numbered(3); }
//     CaseTest(const int *number, suite, name) { cr_expect_lt(*number, 3, "%d", *number); }
//
// A case whose assertion fails ends the others of its process too, so messages name the case. MESHLO_CASE=N runs case N
// of each test alone.
#ifndef MESHLO_TESTS_SUPPORT_CASES_H_
#define MESHLO_TESTS_SUPPORT_CASES_H_

#include <criterion/parameterized.h>
#include <stddef.h>
#include <stdint.h>

#include "hlo/base/text.h"
#include "hlo/ir/types.h"

enum { CASES_TOGETHER = 16 };

// Consecutive cases of a list, which one process runs.
typedef struct CaseGroup {
    size_t first;       // the number of its first case in the list
    size_t count;       // at most CASES_TOGETHER
    size_t case_bytes;  // of each case
    int64_t cases[];    // not stricter aligned: Criterion hands memory out in units of eight bytes
} CaseGroup;

// The groups of a list, whose cases are copied.
struct criterion_test_params cases_grouped(struct criterion_test_params list);

// The case with this number in its group, or NULL if MESHLO_CASE asks for another one.
void *cases_at(const CaseGroup *group, size_t number);

// Begins the function that makes the list of a test's cases.
#define CaseList(Suite, Name)                                        \
    static struct criterion_test_params Suite##_##Name##_list(void); \
    ParameterizedTestParameters(Suite, Name) {                       \
        return cases_grouped(Suite##_##Name##_list());               \
    }                                                                \
    static struct criterion_test_params Suite##_##Name##_list(void)

// Begins the function that tests one case: CaseTest(TYPE *parameter, suite, name, .option = value …), with the options
// of Criterion's tests.
#define CaseTest(Parameter, Suite, ...) CASES_TEST_(Parameter, Suite, CASES_FIRST_(__VA_ARGS__, ), __VA_ARGS__)
#define CASES_FIRST_(First, ...) First
#define CASES_TEST_(Parameter, Suite, Name, ...) CASES_TEST_NAMED_(Parameter, Suite, Name, __VA_ARGS__)
#define CASES_TEST_NAMED_(Parameter, Suite, Name, ...)                         \
    static void Suite##_##Name##_case(Parameter);                              \
    ParameterizedTest(const CaseGroup *group, Suite, __VA_ARGS__) {            \
        for (size_t i = 0; i < group->count; i++)                              \
            if (cases_at(group, i)) Suite##_##Name##_case(cases_at(group, i)); \
    }                                                                          \
    static void Suite##_##Name##_case(Parameter)

// The numbers 0 .. count - 1, each a case of type int: the places of a table.
struct criterion_test_params cases_numbered(size_t count);

// A file that a case reads.
typedef struct CaseFile {
    char path[256];
} CaseFile;

// Each file that matches one of the glob patterns ("tests/cpu/programs/*.hlo", several with a space between), which are
// below the folders of cases_path(), a case of type CaseFile.
struct criterion_test_params cases_files(const char *patterns);

// The number that an environment variable holds, or `usual` without it.
int64_t cases_setting(const char *name, int64_t usual);
// The same for how many random programs a run tries; but without the variable a build with sanitizers, ten times
// slower, tries a quarter of `usual`. It looks for memory errors, which any program may have; the values of all are
// compared without sanitizers.
int64_t cases_count(const char *name, int64_t usual);

// The path of a file: names that begin with "corpus" are under the shared folder (MESHLO_SHARED, else ../shared),
// others under the source folder. NULL where there is none. The next call overwrites the result.
const char *cases_path(const char *file);

// Appends the program of one instruction: `root` (which may say its shape), on parameters p0, p1 ... of the shapes that
// `parameters` lists with semicolons between, after the computations `called`.
void cases_program(HloText *text, const char *parameters, const char *root, const char *called);

// Appends `text` with the name of the element type for every dollar sign.
void cases_with_type(HloText *out, const char *text, HloType type);

// Appends a program f32[] -> f32[] of computations c0 ... c<depth>, the last the entry, each of which calls the one
// before it twice: 2^depth times c0. `header` follows the module's name (", num_partitions=2").
void cases_call_tree(HloText *text, const char *header, int depth);
// The same of another op than call: `op(x), called=c0`.
void cases_tree_of(HloText *text, const char *header, int depth, const char *op, const char *called);

#endif
