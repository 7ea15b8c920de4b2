// SPDX-License-Identifier: Apache-2.0
// Where two ways of computing a program first differ: exact and rounded products, whole and sharded, before and after
// passes. Both compute the value of every instruction, and the first one that is out of tolerance is named. If that is
// a loop, its first differing iteration is searched, and then that iteration's instructions; branches and calls are
// entered likewise.
//
//     AdviceRun exact = {0}, sharded = {.machine = "v2-8", .spmd = {.mesh = axes, .mesh_axis_count = 2}};
//     AdviceDifference *difference;
//     HLO_TRY(advice_first_difference(module, arguments, count, &exact, &sharded, NULL, &difference));
//     advice_difference_print(&text, difference);
//     advice_difference_free(difference);
//
// To be compared, intermediate values become results of the program. This keeps a compiler from fusing them away, so a
// difference that only a certain fusion makes may disappear: `first` is then a result of the program.
//
// Stability: experimental.
#ifndef MESHLO_ADVICE_DIFFERENCE_H_
#define MESHLO_ADVICE_DIFFERENCE_H_

#include "targets/program.h"

HLO_BEGIN_C

// One way of computing a program. Zero-initialised: the reference evaluator on whole arrays, with exact products.
typedef struct AdviceRun {
    const char *machine;  // virtual devices that run the compiled program, "v2-8" or "cpu:8"; NULL: the evaluator
    TargetNumerics numerics;
    SpmdOptions spmd;           // with a machine
    const char *const *passes;  // run on the program first, by the names of `meshlo opt --passes`
    int64_t pass_count;
} AdviceRun;

// Zero-initialise for the defaults.
typedef struct AdviceDifferenceOptions {
    // |b - a| <= absolute + relative * |a|, with `is_relative_set` and `is_absolute_set`; otherwise chosen by the
    // element types as `meshlo run --compare` does, and by the number of roundings in a row that lead to a value
    // (HloTolerance): those of a deep program in bf16 add up to more than its type's tolerance.
    double relative, absolute;
    bool is_relative_set, is_absolute_set;
    int64_t memory_bytes;  // of the values that are held at a time; 0: 1 GiB
} AdviceDifferenceOptions;

// The error of the value of one instruction. Strings live as long as the result.
typedef struct AdviceValue {
    const char *name, *opcode, *shape;  // "dot.3", "dot", "f32[8,128]"; of a tuple, the array that differs most
    const char *scope;                  // op_name, or ""
    const char *source;                 // "file:line", or ""
    double error;                       // the largest one of its elements, in units of the array's root mean square
    double growth;                      // `error` over that of its worst operand; 0 if no operand has an error
    bool differs;                       // is out of tolerance
} AdviceValue;

// Free with advice_difference_free().
typedef struct AdviceDifference {
    HloArena *arena;
    bool found;                   // a value is out of tolerance; otherwise `first` is empty
    bool is_result;               // no intermediate value differs: `first` is the result, see above
    AdviceValue first;            // the first value in the order of the program that differs
    const char *place;            // the loops, branches and calls around it, "while.3, iteration 17", or ""
    const char *index;            // its first element out of tolerance, "[3,5]"
    double a, b;                  // there (real part of a complex number)
    int64_t differing, elements;  // how many of its elements are out of tolerance, and how many there are
    const AdviceValue *values;    // in the order of execution: the instructions of the innermost place
    int64_t value_count;
    const AdviceValue *results;  // of the program; `name` is r0, r1 …
    int64_t result_count;
    int64_t iteration_count;        // of the innermost loop: how the error of its state grows
    const int64_t *iterations;      // after so many
    const double *iteration_error;  // it is this
} AdviceDifference;

// Computes `module`, which is only read, as `a` and `b` say, on `arguments` (one per parameter of the entry), and
// compares. Values in manual regions (shard_map) have no whole arrays: the regions' results are compared instead.
// Errors as hlo_evaluate(), target_program_new() and hlo_run_passes(). Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus advice_first_difference(const HloModule *module, const HloLiteral *const *arguments,
                                                           int64_t count, const AdviceRun *a, const AdviceRun *b,
                                                           const AdviceDifferenceOptions *options,
                                                           AdviceDifference **difference);
// Frees the result; accepts NULL.
HLO_EXPORT void advice_difference_free(AdviceDifference *difference);
// Appends a description: the instruction, its place and source line, the numbers, and how the error grows.
HLO_EXPORT void advice_difference_print(HloText *text, const AdviceDifference *difference);
// Writes the same as a JSON object.
HLO_EXPORT void advice_difference_json(HloJsonWriter *writer, const AdviceDifference *difference);
// Appends that object and a newline.
HLO_EXPORT void advice_difference_write_json(const AdviceDifference *difference, HloText *text);

HLO_END_C

#endif
