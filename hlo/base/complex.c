// SPDX-License-Identifier: Apache-2.0
// XLA builds these from real functions (elemental_ir_emitter.cc), which is visible at infinities, NaNs and branch cuts:
// C's Annex G would repair values that XLA leaves as NaN. Each function here has XLA's values there, and the C
// library's accuracy elsewhere.
#include "hlo/base/complex.h"

#include <math.h>
#include <stdbool.h>

typedef double _Complex Complex;

#define NAN_PAIR CMPLX(NAN, NAN)

// True if either part is NaN.
static bool has_nan(Complex z) {
    return isnan(creal(z)) || isnan(cimag(z));
}

// A zero imaginary part keeps its sign, and an infinite magnitude is not multiplied by its sine.
Complex hlo_complex_exp(Complex z) {
    double size = exp(creal(z)), y = cimag(z);
    return y == 0 ? CMPLX(size, y) : CMPLX(size * cos(y), size * sin(y));
}

Complex hlo_complex_sin(Complex z) {
    double x = creal(z), y = cimag(z);
    return CMPLX(sin(x) * cosh(y), cos(x) * sinh(y));
}

Complex hlo_complex_cos(Complex z) {
    double x = creal(z), y = cimag(z);
    return CMPLX(cos(x) * cosh(y), -(sin(x) * sinh(y)));
}

Complex hlo_complex_tanh(Complex z) {
    return creal(z) == 0 && !isfinite(cimag(z)) ? NAN_PAIR : ctanh(z);
}

Complex hlo_complex_tan(Complex z) {
    return cimag(z) == 0 && !isfinite(creal(z)) ? NAN_PAIR : ctan(z);
}

// The branch cut is closed from above.
Complex hlo_complex_sqrt(Complex z) {
    if (has_nan(z)) return NAN_PAIR;
    bool negative = creal(z) < 0 && cimag(z) == 0;  // -0 counts as +0
    return negative ? CMPLX(0, sqrt(-creal(z))) : csqrt(z);
}

Complex hlo_complex_log(Complex z) {
    return has_nan(z) ? NAN_PAIR : clog(z);
}

Complex hlo_complex_log1p(Complex z) {
    if (has_nan(z)) return NAN_PAIR;
    double x = creal(z), y = cimag(z);
    // log|1+z| through log1p keeps small arguments accurate; clog() does not overflow where |1+z| would.
    double real = fabs(x) < 0.5 && fabs(y) < 0.5 ? 0.5 * log1p(x * (2 + x) + y * y) : creal(clog(CMPLX(1 + x, y)));
    return CMPLX(real, atan2(y, 1 + x));
}

Complex hlo_complex_expm1(Complex z) {
    double x = creal(z), y = cimag(z), e = expm1(x), s = sin(y / 2);
    if (y == 0) return CMPLX(e, y);
    // e^x cos y - 1 = (e^x - 1) cos y + (cos y - 1), and cos y - 1 = -2 sin^2(y/2)
    return CMPLX(e * cos(y) - 2 * s * s, exp(x) * sin(y));
}

Complex hlo_complex_sign(Complex z) {
    double size = cabs(z);
    if (has_nan(z)) return NAN_PAIR;
    return size == 0 ? CMPLX(0, 0) : CMPLX(creal(z) / size, cimag(z) / size);
}

// 1/sqrt(0) is (inf, nan), as in XLA's quotient.
Complex hlo_complex_rsqrt(Complex z) {
    if (z == 0) return CMPLX(INFINITY, NAN);
    if (isinf(creal(z)) || isinf(cimag(z))) return CMPLX(0, 0);
    Complex root = csqrt(z);
    double size = creal(root) * creal(root) + cimag(root) * cimag(root);
    return CMPLX(creal(root) / size, -cimag(root) / size);
}

// |a|^c e^(-d arg a) at the angle c arg a + d log|a|, for a power c + id.
Complex hlo_complex_power(Complex a, Complex b) {
    double c = creal(b), d = cimag(b), x = creal(a), y = cimag(a);
    if ((c == 0 && d == 0) || (x == 1 && y == 0)) return 1;
    if (x >= 0 && y == 0 && d == 0) return pow(x, c);
    double norm = x * x + y * y, angle = atan2(y, x), logarithm = log(norm);
    double size = pow(norm, 0.5 * c) * exp(-d * angle), turn = c * angle + 0.5 * d * logarithm;
    return CMPLX(size * cos(turn), size * sin(turn));
}

Complex hlo_complex_atan2(Complex y, Complex x) {
    // -i log((x + i y) / sqrt(x^2 + y^2))
    Complex i = CMPLX(0, 1);
    return -i * clog((x + i * y) / csqrt(x * x + y * y));
}

Complex hlo_complex_logistic(Complex z) {
    return 1 / (1 + hlo_complex_exp(CMPLX(-creal(z), -cimag(z))));
}

double hlo_complex_abs(Complex z) {
    return has_nan(z) ? NAN : cabs(z);
}
