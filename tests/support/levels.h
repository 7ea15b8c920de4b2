// SPDX-License-Identifier: Apache-2.0
// Which instruction sets the tests of kernels try: all that the machine has or, where MESHLO_CPU_FEATURES names one of
// them, that one. ctest runs the tests once a set.
#ifndef MESHLO_TESTS_SUPPORT_LEVELS_H_
#define MESHLO_TESTS_SUPPORT_LEVELS_H_

#include <criterion/parameterized.h>
#include <stdbool.h>

#include "targets/cpu/blas/blas.h"

// Numbers of CpuFeatures, as loops count them.
int levels_first(void);
int levels_last(void);

// Whether a set is one of them.
bool levels_include(CpuFeatures features);

// Whether the linear algebra of OpenBLAS is to be tested as well: it is installed, and these are not the tests of one
// instruction set below the machine's.
bool levels_have_blas(void);

// The same as cases of a parameterised test, each an int.
struct criterion_test_params levels_cases(void);

#endif
