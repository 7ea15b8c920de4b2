// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <math.h>

#include "hlo/base/complex.h"
#include "tests/support/cases.h"

typedef struct Logarithm {
    double real, imaginary;
    double want_real, want_imaginary;
} Logarithm;

// |1 + z| overflowed to an infinity here while its logarithm is small. The values wanted are XLA:CPU's (jaxlib 0.10.2).
CaseList(complex_numbers, log1p_does_not_overflow) {
    static Logarithm rows[] = {{-1.3e308, -1.3e308, 709.8051464965921, -2.356194490192345},
                               {1.7e308, 1.7e308, 710.0734104831837, 0.7853981633974483},
                               {1e200, 1e200, 460.8635921890891, 0.7853981633974483},
                               {-1e308, 1e-300, 709.1962086421661, 3.141592653589793}};
    return cr_make_param_array(Logarithm, rows, sizeof rows / sizeof *rows);
}
CaseTest(Logarithm *row, complex_numbers, log1p_does_not_overflow) {
    const double _Complex have = hlo_complex_log1p(CMPLX(row->real, row->imaginary));
    cr_expect_float_eq(creal(have), row->want_real, 1e-7);
    cr_expect_float_eq(cimag(have), row->want_imaginary, 1e-15);
}

// Beside 0 the sum with 1 would lose what matters.
Test(complex_numbers, log1p_keeps_small_numbers) {
    const double _Complex have = hlo_complex_log1p(CMPLX(1e-20, -1e-30));
    cr_expect_eq(creal(have), 1e-20);
    cr_expect_eq(cimag(have), -1e-30);
}
