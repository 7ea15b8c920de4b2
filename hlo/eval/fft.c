// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of any length and number of dimensions, in double complex.
//
// A mixed-radix transform: a line of n = p * m elements is p transforms of every p-th element, combined by p terms for
// each result, where p is the smallest prime factor. That is n log n for powers of two and n^2 for primes, which is
// slow and obviously right. Forward transforms have e^(-2 pi i kj/n) and no factor, inverse ones e^(+...) and 1/n, as
// in numpy and XLA. Dimensions are transformed one after the other. For a real signal only the first half of the last
// dimension is kept, because the rest is its mirror image.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/complex.h"
#include "hlo/eval/internal.h"

typedef double _Complex Complex;

#define TWO_PI 6.283185307179586476925286766559

// The smallest prime factor; n itself if it is prime.
static int64_t smallest_factor(int64_t n) {
    for (int64_t p = 2; p * p <= n; p++) {
        if (n % p == 0) return p;
    }
    return n;
}

// Computes out[0..n) = transform of in[0], in[stride], …; roots[k * root_step] = e^(∓2πik/n). Splits by the smallest
// prime factor; its sums are computed directly.
static void transform(const Complex *in, int64_t stride, Complex *out, int64_t n, const Complex *roots,
                      int64_t root_step, Complex *spare) {
    assert(n >= 0);
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    int64_t p = smallest_factor(n), m = n / p;
    for (int64_t r = 0; r < p; r++) transform(in + r * stride, stride * p, out + r * m, m, roots, root_step * p, spare);
    memcpy(spare, out, (size_t)n * sizeof(Complex));
    for (int64_t k = 0; k < n; k++) {
        Complex sum = 0;
        for (int64_t r = 0; r < p; r++)
            sum += hlo_complex_multiply(spare[r * m + k % m], roots[(r * k % n) * root_step]);
        out[k] = sum;
    }
}

// Transforms every line along dimension `dim` of a complex array in place; inverse ones are scaled by 1/n.
static void transform_lines(HloEvalDevice *device, Complex *data, const int64_t *dims, int64_t rank, int64_t dim,
                            bool inverse) {
    assert(dim >= 0 && dim < rank);
    int64_t n = dims[dim], outer = 1, inner = 1;
    for (int64_t i = 0; i < dim; i++) outer *= dims[i];
    for (int64_t i = dim + 1; i < rank; i++) inner *= dims[i];
    if (n == 0) return;
    Complex *roots = HLO_EVAL_SCRATCH(device, Complex, n), *line = HLO_EVAL_SCRATCH(device, Complex, n);
    Complex *out = HLO_EVAL_SCRATCH(device, Complex, n), *spare = HLO_EVAL_SCRATCH(device, Complex, n);
    for (int64_t k = 0; k < n; k++) {
        double angle = TWO_PI * (double)k / (double)n;
        roots[k] = CMPLX(cos(angle), inverse ? sin(angle) : -sin(angle));
    }
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < inner; i++) {
            Complex *start = data + o * n * inner + i;
            for (int64_t k = 0; k < n; k++) line[k] = start[k * inner];
            transform(line, 1, out, n, roots, 1, spare);
            for (int64_t k = 0; k < n; k++) {
                start[k * inner] = inverse ? CMPLX(creal(out[k]) / (double)n, cimag(out[k]) / (double)n) : out[k];
            }
        }
    }
}

// The full lines of a real signal's transform from their first half: X[n-k] = conj X[k]; X[0] and X[n/2] are real.
static void complete_lines(const Complex *half, int64_t half_size, Complex *full, int64_t size, int64_t lines) {
    assert(half_size <= size);
    for (int64_t line = 0; line < lines; line++) {
        const Complex *from = half + line * half_size;
        Complex *to = full + line * size;
        for (int64_t k = 0; k < size; k++) {
            Complex value = k < half_size ? from[k] : conj(from[size - k]);
            to[k] = k == 0 || 2 * k == size ? CMPLX(creal(value), 0) : value;
        }
    }
}

// A real signal: transform full lines, keep the first half.
static void real_forward(HloEvalDevice *device, const HloFftAttributes *fft, Complex *data, int64_t *dims, int64_t rank,
                         HloEvalValue *result) {
    int64_t size = dims[rank - 1], kept = result->shape->dims[rank - 1], lines = hlo_product(dims, rank - 1);
    transform_lines(device, data, dims, rank, rank - 1, false);
    Complex *halves = HLO_EVAL_SCRATCH(device, Complex, lines * kept);
    for (int64_t line = 0; line < lines; line++) {
        memcpy(halves + line * kept, data + line * size, (size_t)kept * sizeof(Complex));
    }
    dims[rank - 1] = kept;
    for (int64_t d = rank - fft->length.count; d < rank - 1; d++) transform_lines(device, halves, dims, rank, d, false);
    hlo_eval_encode_complex(result->shape->type, halves, lines * kept, result->data);
}

// Transforms the other dimensions first, while the lines are still halves; then the full lines.
static void real_inverse(HloEvalDevice *device, const HloFftAttributes *fft, Complex *data, int64_t *dims, int64_t rank,
                         HloEvalValue *result) {
    int64_t half = dims[rank - 1], size = result->shape->dims[rank - 1], lines = hlo_product(dims, rank - 1);
    for (int64_t d = rank - fft->length.count; d < rank - 1; d++) transform_lines(device, data, dims, rank, d, true);
    Complex *full = HLO_EVAL_SCRATCH(device, Complex, lines * size);
    complete_lines(data, half, full, size, lines);
    dims[rank - 1] = size;
    transform_lines(device, full, dims, rank, rank - 1, true);
    int64_t bytes = hlo_type_bytes(result->shape->type);
    for (int64_t i = 0; i < lines * size; i++) {
        double real = creal(full[i]);
        hlo_eval_encode_double(result->shape->type, &real, 1, (char *)result->data + i * bytes);
    }
}

// Transforms the last fft_length.count dimensions.
HloStatus hlo_eval_fft(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                       HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_FFT));
    const HloFftAttributes *fft = HLO_ATTRIBUTES(instruction, Fft);
    const HloShape *from = operands[0]->shape;
    int64_t rank = from->rank, count = hlo_shape_elements(from);
    HLO_TRY(hlo_eval_new_zeroed(device, instruction->shape, result));
    if (count == 0 || hlo_eval_elements(*result) == 0) return HLO_SUCCESS;
    Complex *data = HLO_EVAL_SCRATCH(device, Complex, count);
    hlo_eval_decode_complex(from->type, operands[0]->data, count, data);
    int64_t *dims = hlo_arena_copy(device->scratch, from->dims, (size_t)rank * sizeof(int64_t));
    switch (fft->type) {
        case HLO_FftType_RFFT: real_forward(device, fft, data, dims, rank, *result); break;
        case HLO_FftType_IRFFT: real_inverse(device, fft, data, dims, rank, *result); break;
        default:
            for (int64_t d = rank - fft->length.count; d < rank; d++) {
                transform_lines(device, data, dims, rank, d, fft->type == HLO_FftType_IFFT);
            }
            hlo_eval_encode_complex(instruction->shape->type, data, count, (*result)->data);
    }
    return HLO_SUCCESS;
}
