// SPDX-License-Identifier: Apache-2.0
// Moves by constant patterns: the compiler makes permutations of vectors of them, since all steps are constants.
#include "targets/cpu/isa/move.h"

#include <assert.h>
#include <string.h>

#include "targets/cpu/isa/isa.h"
#include "targets/cpu/isa/set.inc"

#define STEP(T, name, index)                                                \
    static void name(void *to, const void *from, int64_t n) {               \
        T *out = to;                                                        \
        const T *in = from;                                                 \
        CPU_INDEPENDENT for (int64_t i = 0; i < n; i++) out[i] = in[index]; \
    }
#define SPREAD(T, name, times)                                              \
    static void name(void *to, const void *from, int64_t n) {               \
        T *out = to;                                                        \
        const T *in = from;                                                 \
        CPU_INDEPENDENT for (int64_t i = 0; i < n; i++) {                   \
            const T element = in[i];                                        \
            for (int k = 0; k < (times); k++) out[(times)*i + k] = element; \
        }                                                                   \
    }
#define INTERLEAVE(T, name, count)                                                                             \
    static void name(void *to, const void *from, int64_t stride, int64_t n) {                                  \
        T *out = to;                                                                                           \
        const T *in = from;                                                                                    \
        CPU_INDEPENDENT for (int64_t i = 0; i < n; i++) for (int k = 0; k < (count); k++) out[(count)*i + k] = \
            in[k * stride + i];                                                                                \
    }
#define MERGE(T, name, count)                                                                                  \
    static void name(void *to, const void *const *from, int64_t n) {                                           \
        T *out = to;                                                                                           \
        const T *in[count];                                                                                    \
        for (int k = 0; k < (count); k++) in[k] = from[k];                                                     \
        CPU_INDEPENDENT for (int64_t i = 0; i < n; i++) for (int k = 0; k < (count); k++) out[(count)*i + k] = \
            in[k][i];                                                                                          \
    }
#define MOVES(T, bits)                    \
    STEP(T, reverse_##bits, -i)           \
    STEP(T, step_2_##bits, 2 * i)         \
    STEP(T, step_3_##bits, 3 * i)         \
    STEP(T, step_4_##bits, 4 * i)         \
    SPREAD(T, spread_2_##bits, 2)         \
    SPREAD(T, spread_3_##bits, 3)         \
    SPREAD(T, spread_4_##bits, 4)         \
    INTERLEAVE(T, interleave_2_##bits, 2) \
    INTERLEAVE(T, interleave_3_##bits, 3) \
    INTERLEAVE(T, interleave_4_##bits, 4) \
    MERGE(T, merge_2_##bits, 2)           \
    MERGE(T, merge_3_##bits, 3)           \
    MERGE(T, merge_4_##bits, 4)
MOVES(uint8_t, 8)
MOVES(uint16_t, 16)
MOVES(uint32_t, 32)
MOVES(uint64_t, 64)

// A vector of the run's elements again and again is a permutation of the run; the next vector goes on where it ends.
// Instruction sets whose permutations are not of any element by any number have no such kernel.
#if CPU_VECTOR_BYTES >= 32
enum { kLanes = CPU_VECTOR_BYTES / 4 };
typedef uint32_t Lanes __attribute__((vector_size(CPU_VECTOR_BYTES)));

// `count` words are read or written, those from `count` on are zero.
#if CPU_VECTOR_BYTES == 64
#define PERMUTED(run, lanes) (Lanes) _mm512_permutexvar_epi32((__m512i)(lanes), (__m512i)(run))
#define FIRST(count) (__mmask16)((1u << (count)) - 1)
#define FIRST_WORDS(from, count) (Lanes) _mm512_maskz_loadu_epi32(FIRST(count), from)
#define PUT_FIRST_WORDS(to, count, words) _mm512_mask_storeu_epi32(to, FIRST(count), (__m512i)(words))
#define SMALLER(a, b) (Lanes) _mm512_min_epu32((__m512i)(a), (__m512i)(b))
#else
#define PERMUTED(run, lanes) (Lanes) _mm256_permutevar8x32_epi32((__m256i)(run), (__m256i)(lanes))
#define FIRST(count) (__m256i)(kNumbers < (uint32_t)(count))
#define FIRST_WORDS(from, count) (Lanes) _mm256_maskload_epi32((const int *)(const void *)(from), FIRST(count))
#define PUT_FIRST_WORDS(to, count, words) _mm256_maskstore_epi32((int *)(void *)(to), FIRST(count), (__m256i)(words))
#define SMALLER(a, b) (Lanes) _mm256_min_epu32((__m256i)(a), (__m256i)(b))
#endif
#if CPU_VECTOR_BYTES == 64
static const Lanes kNumbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
static const Lanes kNumbers = {0, 1, 2, 3, 4, 5, 6, 7};
#endif

// Returns the numbers, less `length` where they are not below it: below 0 they would be larger, as they have no sign.
static inline Lanes reduced(Lanes numbers, uint32_t length) {
    return SMALLER(numbers, numbers - length);
}

// Returns the remainders by `length` of numbers below kLanes.
static inline Lanes remainders(Lanes numbers, uint32_t length) {
    uint32_t multiple = length;
    while (multiple < kLanes) multiple *= 2;
    for (; multiple >= length; multiple /= 2) numbers = reduced(numbers, multiple);
    return numbers;
}

// Stores the vectors of whole periods; the number of a period's vectors is a constant, so that they stay in registers.
// Returns the words stored.
__attribute__((always_inline)) static inline int64_t repeat_period(char *to, const Lanes *vectors, int64_t period,
                                                                   int64_t count) {
    int64_t at = 0;
    for (; at + period * kLanes <= count; at += period * kLanes)
        for (int64_t p = 0; p < period; p++) memcpy(to + (at + p * kLanes) * 4, &vectors[p], sizeof vectors[p]);
    return at;
}

// The elements of a vector come again after as many vectors as the run has words, but for its factors of two. The last
// vector, if less than a whole one is left, overlaps that before it.
static void repeat_words(void *target, const void *from, int64_t words, int64_t times) {
    char *to = target;
    assert(words > 0 && words <= kLanes && times >= 0);
    const uint32_t length = (uint32_t)words, shift = kLanes % length;
    const Lanes run = FIRST_WORDS(from, words), first = remainders(kNumbers, length);
    const int64_t count = words * times, period = words >> __builtin_ctz(length);
    if (count < kLanes) {
        PUT_FIRST_WORDS(to, count, PERMUTED(run, first));
        return;
    }
    Lanes vectors[kLanes], lanes = first;
    for (int64_t p = 0; p < period; p++) {
        vectors[p] = PERMUTED(run, lanes);
        lanes = reduced(lanes + shift, length);
    }
    int64_t at;
    switch (period) {
        case 1: at = repeat_period(to, vectors, 1, count); break;
        case 3: at = repeat_period(to, vectors, 3, count); break;
        case 5: at = repeat_period(to, vectors, 5, count); break;
        case 7: at = repeat_period(to, vectors, 7, count); break;
        default: at = repeat_period(to, vectors, period, count);
    }
    for (int64_t p = 0; at + kLanes <= count; at += kLanes, p++) memcpy(to + at * 4, &vectors[p], sizeof vectors[p]);
    if (at == count) return;
    const Lanes last = PERMUTED(run, reduced(first + (length - shift), length));
    memcpy(to + (count - kLanes) * 4, &last, sizeof last);
}

#define REPEAT_KERNEL repeat_words, .repeat_words = kLanes
#else
#define REPEAT_KERNEL NULL, .repeat_words = 0
#endif

#if defined(CPU_ISA_NEON)
#define SHUFFLED(bytes, pattern) vqtbl1q_u8(bytes, pattern)
typedef uint8x16_t Bytes;
#elif CPU_VECTOR_BYTES >= 32
#define SHUFFLED(bytes, pattern) _mm_shuffle_epi8(bytes, pattern)
typedef __m128i Bytes;
#endif
#ifdef SHUFFLED
static void shuffle_rows(void *target, int64_t to_step, const void *source, int64_t from_step, const uint8_t *pattern,
                         int64_t vectors) {
    char *to = target;
    const char *from = source;
    Bytes order, bytes;
    memcpy(&order, pattern, sizeof order);
    for (int64_t i = 0; i < vectors; i++, to += to_step, from += from_step) {
        memcpy(&bytes, from, sizeof bytes);
        bytes = SHUFFLED(bytes, order);
        memcpy(to, &bytes, sizeof bytes);
    }
}
#define SHUFFLE_KERNEL shuffle_rows
#else
#define SHUFFLE_KERNEL NULL
#endif

#define EACH_WIDTH(name) \
    { name##_8, name##_16, name##_32, name##_64 }
#define EACH_COUNT(name, bits) \
    { NULL, NULL, name##_2_##bits, name##_3_##bits, name##_4_##bits }
#define EACH_WIDTH_AND_COUNT(name) \
    { EACH_COUNT(name, 8), EACH_COUNT(name, 16), EACH_COUNT(name, 32), EACH_COUNT(name, 64) }

const CpuMoveKernels CPU_ISA_NAME(cpu_move_kernels) = {
    .step = EACH_WIDTH_AND_COUNT(step),
    .reverse = EACH_WIDTH(reverse),
    .spread = EACH_WIDTH_AND_COUNT(spread),
    .interleave = EACH_WIDTH_AND_COUNT(interleave),
    .merge = EACH_WIDTH_AND_COUNT(merge),
    .repeat = REPEAT_KERNEL,
    .shuffle = SHUFFLE_KERNEL,
};
