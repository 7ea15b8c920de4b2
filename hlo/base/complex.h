// SPDX-License-Identifier: Apache-2.0
// <complex.h> with the C11 constructors, which clang lacks where the C library offers them to gcc only.
#ifndef MESHLO_HLO_BASE_COMPLEX_H_
#define MESHLO_HLO_BASE_COMPLEX_H_

#include <complex.h>

#ifndef CMPLX
#define CMPLX(real, imaginary) __builtin_complex((double)(real), (double)(imaginary))
#endif
#ifndef CMPLXF
#define CMPLXF(real, imaginary) __builtin_complex((float)(real), (float)(imaginary))
#endif

#endif
