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

// The plain formula for a * b: C's own operator would repair infinities.
static inline double _Complex hlo_complex_multiply(double _Complex a, double _Complex b) {
    return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

#endif
