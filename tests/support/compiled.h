// SPDX-License-Identifier: Apache-2.0
// Runs modules on the CPU target and on the reference evaluator and compares.
#ifndef MESHLO_TESTS_SUPPORT_COMPILED_H_
#define MESHLO_TESTS_SUPPORT_COMPILED_H_

#include "hlo/base/text.h"
#include "targets/client.h"

typedef struct CompiledCheck {
    TargetClient *client;  // to run on, where many programs share one; NULL: a new one of the next two
    const char *spec;      // the machine: "cpu:8"
    int threads;           // 0: as many as there are cores
    uint64_t seed;         // of the arguments
    TargetNumerics numerics;
    double tolerance;     // relative to max(1, |expected|), for f32; wider for narrower types; 0: 2e-5
    double narrow_ulps;   // of types narrower than f32; 0: 3
    int64_t replicas;     // so many neighbouring devices get equal arguments; 0: 1
    bool extremes;        // arguments are infinities, NaNs, ends of integers and such; results must be equal
    bool allow_fallback;  // instructions that the evaluator runs are no failure
    HloText *fallbacks;   // gets their "opcode name" lines, or NULL
    bool *refused;        // compiled_equals_eval() tells whether the evaluator refused the program, or NULL
} CompiledCheck;

// Parses `text`; on error writes it to `message` and returns NULL.
HloModule *compiled_parse(const char *text, HloText *message);

// Parses `text`; the test fails when it does not parse.
HloModule *compiled_must_parse(const char *text);

// Compiles `text` on the client, with these options or without (NULL); the test fails when it does not parse or
// compile. The caller releases the executable.
TargetExecutable *compiled_must_compile(TargetClient *client, const char *text, const TargetCompileOptions *options);

// The test fails with the message of an error.
void must_succeed(HloStatus status);
// Expects an error of this code whose message holds `words`, and frees it.
void must_fail(HloStatus status, HloCode code, const char *words);

// Fills an array literal with numbers that suit its type: floats in [-2, 2) (f8e8m0fnu, which has no sign, in [1, 2)),
// small integers, predicates.
void compiled_fill(HloLiteral *literal, uint64_t seed);

// A literal of this shape (tuples too), filled. Never NULL: aborts when memory is short.
HloLiteral *compiled_random(const HloShape *shape, uint64_t seed);

// The same with numbers at the limits of the type, and with NaNs.
HloLiteral *compiled_extremes(const HloShape *shape, uint64_t seed);

// Runs the module on all its devices with arguments from the seed. results[device] become heap literals, which
// the caller frees. False with a message on failure; there are no results then. A client that is one of several
// processes runs its own devices; the results of the others are NULL.
bool compiled_run(const HloModule *module, const CompiledCheck *check, HloLiteral **results, HloText *message);

// Runs the module on these arguments: arguments[device][parameter]. As compiled_run().
bool compiled_run_with(const HloModule *module, HloLiteral ***arguments, const CompiledCheck *check,
                       HloLiteral **results, HloText *message);

// Runs a module of one device on these arguments. *result becomes a heap literal. False with a message on failure.
bool compiled_run_on_one(const HloModule *module, HloLiteral **arguments, const CompiledCheck *check,
                         HloLiteral **result, HloText *message);

// Compares two results of the same program, element by element. False with a message on a difference.
bool compiled_same(const HloLiteral *have, const HloLiteral *want, const CompiledCheck *check, HloText *message);

// Runs the module both ways and compares every element. False with a message on a difference or an error.
bool compiled_equals_eval(const HloModule *module, const CompiledCheck *check, HloText *message);

#endif
