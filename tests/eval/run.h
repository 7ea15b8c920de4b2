// SPDX-License-Identifier: Apache-2.0
// Running short programs given as text, for the tests of this folder.
#ifndef MESHLO_TESTS_EVAL_RUN_H_
#define MESHLO_TESTS_EVAL_RUN_H_

#include "hlo/eval/eval.h"

// Parses a module; the test fails when it does not parse. Free with hlo_module_free().
HloModule *parse_text(const char *text);
// Evaluates a module of f32 parameters whose values are stored one after the other in `values` (NULL if it has none).
// The result is freed with hlo_literal_free(); NULL and *status set on error.
HloLiteral *run_floats(const char *text, const float *values, const HloEvalOptions *options, HloStatus *status);
// The same on `devices` devices: values[device]; results[device] is set on success.
HloStatus run_devices(const char *text, int64_t devices, const float *const *values, const HloEvalOptions *options,
                      HloLiteral **results);
// Expects the result of run_floats() to be these numbers exactly.
void expect_floats(const HloLiteral *literal, const float *want, int64_t count);
// Expects an error of this code whose message holds `part`, and frees it.
void expect_error(HloStatus status, HloCode code, const char *part);

#endif
