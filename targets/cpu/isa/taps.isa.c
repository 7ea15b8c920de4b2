// SPDX-License-Identifier: Apache-2.0
// Both precisions of the sums of weighted rows of one instruction set.
#include "targets/cpu/isa/taps.h"
#include "targets/cpu/isa/isa.h"

#define REAL float
#define SUFFIX f32
#define IS_DOUBLE 0
#include "targets/cpu/isa/taps_type.inc"
#undef REAL
#undef SUFFIX
#undef IS_DOUBLE

#define REAL double
#define SUFFIX f64
#define IS_DOUBLE 1
#include "targets/cpu/isa/taps_type.inc"

// Copies pieces, of which the last overlaps the one before it or is shortened.
enum { kPiece = 32 };

static void copy_rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t bytes) {
    for (int64_t r = 0; r < rows; r++, to += to_step, from += from_step) {
        int64_t i = 0;
#if defined(__AVX512F__)
        for (; i + 64 <= bytes; i += 64) _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
        if (i < bytes) {
            const __mmask64 some = ((__mmask64)1 << (bytes - i)) - 1;
            _mm512_mask_storeu_epi8(to + i, some, _mm512_maskz_loadu_epi8(some, from + i));
        }
#else
        for (; i + kPiece <= bytes; i += kPiece) memcpy(to + i, from + i, kPiece);
        if (i < bytes && bytes >= kPiece)
            memcpy(to + bytes - kPiece, from + bytes - kPiece, kPiece);
        else
            for (; i < bytes; i++) to[i] = from[i];
#endif
    }
}

const CpuTapKernels CPU_ISA_NAME(cpu_tap_kernels) = {
    .f32 = {by_number_f32, by_row_f32}, .f64 = {by_number_f64, by_row_f64}, .copy_rows = copy_rows};
