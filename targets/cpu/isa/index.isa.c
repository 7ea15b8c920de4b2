// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters of short runs: one loop reads the index, finds the position and moves or combines the slice.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "targets/cpu/isa/block.inc"
#include "targets/cpu/isa/index.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// ---- positions

#define OFFSET_OFFSETS(line, i) (int64_t)((const int32_t *)(line)->offsets)[i]
#define OFFSET_PLACES(line, i) ((const int64_t *)(line)->offsets)[i]
#define RESULT_OFFSETS(line, i) ((i) * (line)->result_step)
#define RESULT_PLACES(line, i) (line)->result_places[i]

ALWAYS_INLINE int32_t wrapped(const CpuIndexComponent *component, int32_t index) {
    return index + (index < 0 ? component->wrap : 0);
}

ALWAYS_INLINE int32_t clamped(int32_t index, int32_t largest) {
    const int32_t low = index < 0 ? 0 : index;
    return low > largest ? largest : low;
}

// Inlined for each form, so that the compiler makes vectors of the loops over indices in a row.
ALWAYS_INLINE void add_clamped(const CpuIndexComponent *all, int64_t step, bool is_unsigned, int64_t n,
                               int32_t *offsets) {
    const CpuIndexComponent held = *all, *component = &held;
    for (int64_t i = 0; i < n; i++) {
        const int32_t index = component->indices[i * step];
        const int32_t start = is_unsigned ? (index < 0 ? INT32_MAX : index) : wrapped(component, index);
        offsets[i] += clamped(start, component->largest) * component->stride;
    }
}

ALWAYS_INLINE void add_dropped(const CpuIndexComponent *all, int64_t step, int64_t n, int32_t *offsets) {
    const CpuIndexComponent held = *all, *component = &held;
    for (int64_t i = 0; i < n; i++) {
        const int32_t start = wrapped(component, component->indices[i * step]);
        const bool fits = start >= 0 && start <= component->largest && offsets[i] >= 0;
        const uint32_t sum = (uint32_t)offsets[i] + (uint32_t)start * (uint32_t)component->stride;
        offsets[i] = fits ? (int32_t)sum : -1;
    }
}

static void add_offsets(const CpuIndexComponent *component, bool clamp, int64_t n, int32_t *offsets) {
    assert(component->wrap >= 0 && component->largest >= 0 && (component->wrap == 0 || !component->is_unsigned));
    const int64_t step = component->index_step;
    if (!clamp && step == 1)
        add_dropped(component, 1, n, offsets);
    else if (!clamp)
        add_dropped(component, step, n, offsets);
    else if (component->is_unsigned)
        add_clamped(component, step, true, n, offsets);
    else if (step == 1)
        add_clamped(component, 1, false, n, offsets);
    else
        add_clamped(component, step, false, n, offsets);
}

// Products of 32-bit numbers, which the compiler turns into vectors.
static void add_places(const CpuIndexComponent *all, int64_t n, int64_t *places) {
    const CpuIndexComponent held = *all, *component = &held;
    for (int64_t i = 0; i < n; i++)
        places[i] += (int64_t)clamped(wrapped(component, component->indices[i]), component->largest) *
                     (int64_t)component->stride;
}

// ---- gather

// Copies a run of `bytes` bytes, a constant or at least one move: the last two moves may overlap.
ALWAYS_INLINE void move_run(char *to, const char *from, int64_t bytes) {
    enum { kMove = 16 };
    if (bytes < kMove) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    for (int64_t at = 0; at + kMove <= bytes; at += kMove) memcpy(to + at, from + at, kMove);
    if (bytes % kMove) memcpy(to + bytes - kMove, from + bytes - kMove, kMove);
}

ALWAYS_INLINE void ask_for(const char *from, int64_t bytes) {
    enum { kLine = 64 };
    for (int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(from + at, 0, 2);
}

// The compiler may take stores of bytes for changes of the line: it is copied, so that loops keep it in registers.
#define GATHER_RUNS(KIND)                                                                                  \
    ALWAYS_INLINE void gather_runs_##KIND(const CpuIndexLine *all, int64_t width, int64_t bytes, char *to, \
                                          const char *from) {                                              \
        const CpuIndexLine held = *all, *line = &held;                                                     \
        const int64_t early = line->ahead && line->count > line->ahead ? line->count - line->ahead : 0;    \
        int64_t i = 0;                                                                                     \
        for (; i < early; i++) {                                                                           \
            ask_for(from + OFFSET_##KIND(line, i + line->ahead) * width, bytes);                           \
            move_run(to + RESULT_##KIND(line, i) * width, from + OFFSET_##KIND(line, i) * width, bytes);   \
        }                                                                                                  \
        for (; i < line->count; i++)                                                                       \
            move_run(to + RESULT_##KIND(line, i) * width, from + OFFSET_##KIND(line, i) * width, bytes);   \
    }                                                                                                      \
    /* One copy of the code for each common length. */                                                     \
    static void gather_##KIND(const CpuIndexLine *line, int width, void *result, const void *operand) {    \
        switch (line->columns * width) {                                                                   \
            case 1: gather_runs_##KIND(line, 1, 1, result, operand); break;                                \
            case 2: gather_runs_##KIND(line, width, 2, result, operand); break;                            \
            case 4:                                                                                        \
                if (width == 4)                                                                            \
                    gather_runs_##KIND(line, 4, 4, result, operand);                                       \
                else                                                                                       \
                    gather_runs_##KIND(line, width, 4, result, operand);                                   \
                break;                                                                                     \
            case 8: gather_runs_##KIND(line, width, 8, result, operand); break;                            \
            case 12: gather_runs_##KIND(line, width, 12, result, operand); break;                          \
            case 16: gather_runs_##KIND(line, width, 16, result, operand); break;                          \
            case 32: gather_runs_##KIND(line, width, 32, result, operand); break;                          \
            case 64: gather_runs_##KIND(line, width, 64, result, operand); break;                          \
            case 128: gather_runs_##KIND(line, width, 128, result, operand); break;                        \
            case 256: gather_runs_##KIND(line, width, 256, result, operand); break;                        \
            default: gather_runs_##KIND(line, width, line->columns *width, result, operand);               \
        }                                                                                                  \
    }
GATHER_RUNS(OFFSETS)
GATHER_RUNS(PLACES)

// Single elements to a row are stored by vectors: a processor waits for the lines of a few dozen stores at once, and
// most rows are not in its first cache. Offsets are not negative, and read in pairs, as loads are the next limit.
// (AVX2's own gathers take twice the time on Zen 2, and ten times with the mitigations of 2023 on others.)
#define HALF_PAIR(pair, high) ((high) ? (pair) >> 32 : (pair)&UINT32_MAX)
#define GATHERED_2(p) from[HALF_PAIR(pairs[p], 0)], from[HALF_PAIR(pairs[p], 1)]
#define GATHERED_4(p) GATHERED_2(p), GATHERED_2(p + 1)
#define GATHERED_8(p) GATHERED_4(p), GATHERED_4(p + 2)
#define GATHERED_16(p) GATHERED_8(p), GATHERED_8(p + 4)
#define GATHER_ROW(T, lanes)                                                          \
    static void gather_row_##T(const CpuIndexLine *line, T *to, const T *from) {      \
        typedef T Lanes __attribute__((vector_size(sizeof(T) * (lanes))));            \
        const int32_t *offsets = line->offsets;                                       \
        int64_t left = line->count;                                                   \
        for (; left >= (lanes); left -= (lanes), offsets += (lanes), to += (lanes)) { \
            uint64_t pairs[(lanes) / 2];                                              \
            memcpy(pairs, offsets, sizeof pairs);                                     \
            const Lanes row = {GATHERED_##lanes(0)};                                  \
            memcpy(to, &row, sizeof row);                                             \
        }                                                                             \
        for (int64_t i = 0; i < left; i++) to[i] = from[offsets[i]];                  \
    }
GATHER_ROW(uint8_t, 16)
GATHER_ROW(uint16_t, 8)
GATHER_ROW(uint32_t, 4)
GATHER_ROW(uint64_t, 2)

static void gather_at_offsets(const CpuIndexLine *line, int width, void *result, const void *operand) {
    const bool is_row = line->columns == 1 && line->result_step == 1;
    switch (is_row ? width : 0) {
        case 1: gather_row_uint8_t(line, result, operand); break;
        case 2: gather_row_uint16_t(line, result, operand); break;
        case 4: gather_row_uint32_t(line, result, operand); break;
        case 8: gather_row_uint64_t(line, result, operand); break;
        default: gather_OFFSETS(line, width, result, operand);
    }
}

// ---- scatter

// Sets to[at] to the expression of x, the value there, and y, the update. One copy of the code for single elements and
// one for points, whose three coordinates are then unrolled; all others share the third. (More copies would double the
// time that this file takes to compile.)
#define SCATTER_KERNEL(name, T, KIND, expression)                                                                      \
    ALWAYS_INLINE void name##_rows_##KIND(const CpuIndexLine *all, int64_t columns, int64_t begin, int64_t end, T *to, \
                                          const T *from) {                                                             \
        const CpuIndexLine held = *all, *line = &held;                                                                 \
        for (int64_t i = 0; i < line->count; i++) {                                                                    \
            const int64_t at = OFFSET_##KIND(line, i), source = RESULT_##KIND(line, i);                                \
            if (at < begin || at >= end) continue;                                                                     \
            if (columns > kShortRow && line->ahead && i + line->ahead < line->count) {                                 \
                const int64_t next = OFFSET_##KIND(line, i + line->ahead);                                             \
                ask_for((const char *)(to + (next < 0 ? at : next)), columns *(int64_t)sizeof(T));                     \
            }                                                                                                          \
            CPU_INDEPENDENT for (int64_t j = 0; j < columns; j++) {                                                    \
                const T x = to[at + j], y = from[source + j];                                                          \
                (void)x;                                                                                               \
                to[at + j] = (T)(expression);                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void name##_##KIND(const CpuIndexLine *line, int64_t begin, int64_t end, void *operand,                     \
                              const void *updates) {                                                                   \
        assert(begin >= 0 && begin <= end && line->columns > 0);                                                       \
        switch (line->columns) {                                                                                       \
            case 1: name##_rows_##KIND(line, 1, begin, end, operand, updates); break;                                  \
            case 3: name##_rows_##KIND(line, 3, begin, end, operand, updates); break;                                  \
            default: name##_rows_##KIND(line, line->columns, begin, end, operand, updates);                            \
        }                                                                                                              \
    }
enum { kShortRow = 4 };
#define SCATTER_KERNELS(name, T, expression)     \
    SCATTER_KERNEL(name, T, OFFSETS, expression) \
    SCATTER_KERNEL(name, T, PLACES, expression)

// As in the block kernels: NaN wins, -0 is below +0. The processor's own maximum or minimum is right except where the
// numbers are equal or not ordered, which is rare, or nearly always so. Zeros of two signs, anded, are the larger one;
// ored, the smaller one.
#define ARGMINMAX(T, S)                                                        \
    ALWAYS_INLINE T larger_##S(T x, T y) {                                     \
        if (x > y || x < y) return x > y ? x : y;                              \
        return x == y ? float_of_##S(bits_of_##S(x) & bits_of_##S(y)) : x + y; \
    }                                                                          \
    ALWAYS_INLINE T smaller_##S(T x, T y) {                                    \
        if (x > y || x < y) return x < y ? x : y;                              \
        return x == y ? float_of_##S(bits_of_##S(x) | bits_of_##S(y)) : x + y; \
    }
#define float_of_f32 f32_of_bits
#define float_of_f64 f64_of_bits
ARGMINMAX(float, f32)
ARGMINMAX(double, f64)

SCATTER_KERNELS(assign_u8, uint8_t, y)
SCATTER_KERNELS(assign_u16, uint16_t, y)
SCATTER_KERNELS(assign_u32, uint32_t, y)
SCATTER_KERNELS(assign_u64, uint64_t, y)
SCATTER_KERNELS(add_u8, uint8_t, x + y)
SCATTER_KERNELS(add_u16, uint16_t, x + y)
SCATTER_KERNELS(add_u32, uint32_t, x + y)
SCATTER_KERNELS(add_u64, uint64_t, x + y)
SCATTER_KERNELS(add_f32, float, x + y)
SCATTER_KERNELS(add_f64, double, x + y)
SCATTER_KERNELS(multiply_f32, float, x *y)
SCATTER_KERNELS(multiply_f64, double, x *y)
SCATTER_KERNELS(minimum_s32, int32_t, x < y ? x : y)
SCATTER_KERNELS(minimum_u32, uint32_t, x < y ? x : y)
SCATTER_KERNELS(minimum_f32, float, smaller_f32(x, y))
SCATTER_KERNELS(minimum_f64, double, smaller_f64(x, y))
SCATTER_KERNELS(maximum_s32, int32_t, x > y ? x : y)
SCATTER_KERNELS(maximum_u32, uint32_t, x > y ? x : y)
SCATTER_KERNELS(maximum_f32, float, larger_f32(x, y))
SCATTER_KERNELS(maximum_f64, double, larger_f64(x, y))

// A point is one vector: the number after it is added too, except that of the last point, which may be the array's end.
typedef float Point __attribute__((vector_size(sizeof(float) * CPU_POINT_ROOM)));
ALWAYS_INLINE void add_point(const CpuIndexLine *line, int64_t i, int64_t begin, int64_t end, float *operand,
                             const float *from, size_t bytes) {
    const int64_t at = OFFSET_OFFSETS(line, i);
    if (at < begin || at >= end) return;
    Point x, y = {0};
    memcpy(&y, from + RESULT_OFFSETS(line, i), bytes);
    memcpy(&x, operand + at, sizeof x);
    x += y;
    memcpy(operand + at, &x, sizeof x);
}

static void add_points(const CpuIndexLine *all, int64_t begin, int64_t end, void *operand, const void *updates) {
    const CpuIndexLine held = *all, *line = &held;
    const int64_t last = line->count - 1;
    assert(line->columns == CPU_POINT && last >= 0);
    for (int64_t i = 0; i < last; i++) add_point(line, i, begin, end, operand, updates, sizeof(Point));
    add_point(line, last, begin, end, operand, updates, sizeof(float) * CPU_POINT);
}

#define AT(TYPE, kernel) [CPU_REGISTER_##TYPE] = kernel
#define ARGMINMAX_ROW(name, KIND) \
    { AT(S32, name##_s32_##KIND), AT(U32, name##_u32_##KIND), AT(F32, name##_f32_##KIND), AT(F64, name##_f64_##KIND) }
#define SCATTER_TABLE(KIND)                                                                                     \
    [CPU_INDEX_##                                                                                               \
        KIND] = {[CPU_INDEX_ASSIGN] = {AT(U8, assign_u8_##KIND), AT(U16, assign_u16_##KIND),                    \
                                       AT(U32, assign_u32_##KIND), AT(U64, assign_u64_##KIND)},                 \
                 [CPU_INDEX_ADD] = {AT(U8, add_u8_##KIND), AT(U16, add_u16_##KIND), AT(U32, add_u32_##KIND),    \
                                    AT(U64, add_u64_##KIND), AT(F32, add_f32_##KIND), AT(F64, add_f64_##KIND)}, \
                 [CPU_INDEX_MULTIPLY] = {AT(F32, multiply_f32_##KIND), AT(F64, multiply_f64_##KIND)},           \
                 [CPU_INDEX_MINIMUM] = ARGMINMAX_ROW(minimum, KIND),                                            \
                 [CPU_INDEX_MAXIMUM] = ARGMINMAX_ROW(maximum, KIND)}

const CpuIndexKernels CPU_ISA_NAME(cpu_index_kernels) = {
    .gather = {[CPU_INDEX_OFFSETS] = gather_at_offsets, [CPU_INDEX_PLACES] = gather_PLACES},
    .add_offsets = add_offsets,
    .add_places = add_places,
    .scatter = {SCATTER_TABLE(OFFSETS), SCATTER_TABLE(PLACES)},
    .add_points = add_points,
};
