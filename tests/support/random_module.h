// SPDX-License-Identifier: Apache-2.0
// Random programs over the op table, for tests that compare two ways of running or rewriting a program.
#ifndef MESHLO_TESTS_SUPPORT_RANDOM_MODULE_H_
#define MESHLO_TESTS_SUPPORT_RANDOM_MODULE_H_

#include "hlo/base/text.h"

// Appends the text of a module of about `operations` instructions to `text`; the same for the same seed. Values stay
// bounded, and ops whose result jumps (floor, compare ...) are only applied to values that carry no rounding errors, so
// that two correct ways of computing agree within a small tolerance.
void random_module(uint64_t seed, int operations, HloText *text);
// The same of operations that have one right result: no sums of floats, no transcendental functions. Values need not be
// bounded: any argument will do, infinities, NaNs and the ends of integers among them.
void random_exact_module(uint64_t seed, int operations, HloText *text);
// One of either kind with arrays of up to some ten thousands of elements; of an even seed, an exact one.
void random_large_module(uint64_t seed, int operations, HloText *text);
// random_module() of operations and types that StableHLO has.
void random_portable_module(uint64_t seed, int operations, HloText *text);
// One of several devices, replicas and partitions, that meet in collectives and messages; of a seed that three divides,
// an exact one.
void random_devices_module(uint64_t seed, int operations, HloText *text);

#endif
