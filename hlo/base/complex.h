// SPDX-License-Identifier: Apache-2.0
// <complex.h> with the C11 constructors, which clang lacks if the C library offers them only to gcc, and the functions
// of complex numbers as defined by XLA: at infinities and NaN they differ from C's Annex G. The evaluator and the
// compiled engine share them. Any thread.
#ifndef MESHLO_HLO_BASE_COMPLEX_H_
#define MESHLO_HLO_BASE_COMPLEX_H_

#include <complex.h>
#include <stdbool.h>

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

// The order of complex numbers, by their real parts and, if these are equal, by their imaginary parts, as in StableHLO.
// Two numbers with equal real parts and imaginary parts that cannot be compared are neither before the other, and so
// count as equal. (XLA:CPU's LT and GT are these; its LE, GE, maximum and minimum compare only real parts.)
static inline bool hlo_complex_before(double _Complex a, double _Complex b) {
    return creal(a) < creal(b) || (creal(a) == creal(b) && cimag(a) < cimag(b));
}
static inline bool hlo_complex_not_after(double _Complex a, double _Complex b) {
    return creal(a) < creal(b) || (creal(a) == creal(b) && !(cimag(b) < cimag(a)));
}

// XLA's elementwise functions, computed in double; of several values the principal one.
double hlo_complex_abs(double _Complex z);  // NaN if either part is, even if the other is infinite
double _Complex hlo_complex_exp(double _Complex z);
double _Complex hlo_complex_expm1(double _Complex z);  // exp(z) - 1, accurate near 0
double _Complex hlo_complex_log(double _Complex z);
double _Complex hlo_complex_log1p(double _Complex z);  // log(1 + z), accurate near 0
double _Complex hlo_complex_sin(double _Complex z);
double _Complex hlo_complex_cos(double _Complex z);   // cos x cosh y - i sin x sinh y
double _Complex hlo_complex_tan(double _Complex z);   // NaN at real infinities and NaNs
double _Complex hlo_complex_tanh(double _Complex z);  // NaN at imaginary infinities and NaNs
double _Complex hlo_complex_sqrt(double _Complex z);  // +i for -1, whatever the sign of a zero imaginary part
double _Complex hlo_complex_rsqrt(double _Complex z);
double _Complex hlo_complex_sign(double _Complex z);      // z / |z|, and 0 for 0
double _Complex hlo_complex_logistic(double _Complex z);  // 1 / (1 + exp(-z))
double _Complex hlo_complex_power(double _Complex base, double _Complex exponent);
double _Complex hlo_complex_atan2(double _Complex y, double _Complex x);  // -i log((x + i y) / sqrt(x^2 + y^2))

#endif
