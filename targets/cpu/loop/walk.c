// SPDX-License-Identifier: Apache-2.0
// Moves the elements of a walk between an array and a register.
//
// A walk is a nest of merged dimensions, innermost first. A run is one pass over dimension 0, and a group is all runs
// of one index of dimension 2. Long runs cost next to nothing beyond their elements. Short ones (coordinates of points,
// colours of pixels, 3 x 3 matrices, repeated elements) do not: a call and a carry per run would cost several times the
// copy. So whole runs of a group are copied by one loop, whose body is a few moves of constant size where possible.
#include <assert.h>
#include <string.h>

#include "targets/cpu/element/copy.h"
#include "targets/cpu/loop/internal.h"

// ---- runs

// `count` runs of `length` elements. Steps are from element to element, strides from run to run, both in elements.
typedef struct Runs {
    int64_t count, length;
    char *dst;
    int64_t dst_step, dst_stride;
    const char *src;
    int64_t src_step, src_stride;
    int width;
    const CpuMoveKernels *moves;  // NULL when storing: their targets are contiguous
} Runs;

int cpu_loop_move_width(int width) {
    return width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : width == 8 ? 3 : -1;
}

// Copies runs that are contiguous on both sides.
static void copy_contiguous(const Runs *runs) {
    cpu_copy_rows(runs->count, runs->length * runs->width, runs->dst, runs->dst_stride * runs->width, runs->src,
                  runs->src_stride * runs->width);
}

// Copies one run again and again: a few times by moves, and from there on by doubling what is copied.
static void repeat_run(const Runs *runs) {
    enum { kByMoves = 512, kWord = 4 };
    const int64_t once = runs->length * runs->width, all = runs->count * once;
    if (runs->moves && once % kWord == 0 && once / kWord <= runs->moves->repeat_words) {
        runs->moves->repeat(runs->dst, runs->src, once / kWord, runs->count);
        return;
    }
    Runs first = *runs;
    if (all > kByMoves) first.count = kByMoves / once + 1;
    if (first.count > runs->count) first.count = runs->count;
    copy_contiguous(&first);
    for (int64_t done = first.count * once; done < all; done *= 2)
        memcpy(runs->dst + done, runs->dst, (size_t)(all - done < done ? all - done : done));
}

// Writes each element `length` times, where neither a run nor the space between two runs is more than kSpread elements.
// kSpread elements are written at once, and those beyond a run's end are overwritten by the next run; the last runs are
// written element by element, since nothing may be written beyond them.
enum { kSpread = 8 };
#define SPREAD_FUNCTION(T, name)                                          \
    static void name(const Runs *runs) {                                  \
        T *out = (T *)(void *)runs->dst;                                  \
        const T *in = (const T *)(const void *)runs->src;                 \
        const int64_t length = runs->length, stride = runs->src_stride;   \
        const int64_t careful = (kSpread - 1) / length + 1;               \
        int64_t r = 0;                                                    \
        assert(length > 0 && length <= kSpread);                          \
        for (; r + careful < runs->count; r++, out += length) {           \
            const T element = in[r * stride];                             \
            for (int i = 0; i < kSpread; i++) out[i] = element;           \
        }                                                                 \
        for (; r < runs->count; r++, out += length)                       \
            for (int64_t i = 0; i < length; i++) out[i] = in[r * stride]; \
    }
SPREAD_FUNCTION(uint8_t, spread_8)
SPREAD_FUNCTION(uint16_t, spread_16)
SPREAD_FUNCTION(uint32_t, spread_32)
SPREAD_FUNCTION(uint64_t, spread_64)

// Copies runs of any steps, element by element.
#define STEP_FUNCTION(T, name)                                                                     \
    static void name(const Runs *runs) {                                                           \
        T *out = (T *)(void *)runs->dst;                                                           \
        const T *in = (const T *)(const void *)runs->src;                                          \
        const int64_t length = runs->length, to = runs->dst_step, from = runs->src_step;           \
        for (int64_t r = runs->count; r > 0; r--, out += runs->dst_stride, in += runs->src_stride) \
            for (int64_t i = 0; i < length; i++) out[i * to] = in[i * from];                       \
    }
STEP_FUNCTION(uint8_t, step_8)
STEP_FUNCTION(uint16_t, step_16)
STEP_FUNCTION(uint32_t, step_32)
STEP_FUNCTION(uint64_t, step_64)

// Copies runs of any steps, for elements of any width.
static void copy_steps(const Runs *runs) {
    const int width = runs->width;
    switch (width) {
        case 1: step_8(runs); break;
        case 2: step_16(runs); break;
        case 4: step_32(runs); break;
        case 8: step_64(runs); break;
        default:
            for (int64_t r = 0; r < runs->count; r++)
                for (int64_t i = 0; i < runs->length; i++)
                    memcpy(runs->dst + (r * runs->dst_stride + i * runs->dst_step) * width,
                           runs->src + (r * runs->src_stride + i * runs->src_step) * width, (size_t)width);
    }
}

// Returns the kernel that copies every `step`-th element to a contiguous target, or NULL.
static CpuStepKernel *step_kernel(const CpuMoveKernels *moves, int64_t step, int width) {
    const int number = cpu_loop_move_width(width);
    if (!moves || number < 0) return NULL;
    if (step == -1) return moves->reverse[number];
    return step > 0 && step <= CPU_MOVE_MOST ? moves->step[number][step] : NULL;
}

// Copies dst[i * dst_step] = src[i * src_step], with steps in elements.
static void copy_stepped(const CpuMoveKernels *moves, char *dst, int64_t dst_step, const char *src, int64_t src_step,
                         int64_t count, int width) {
    CpuStepKernel *kernel = dst_step == 1 ? step_kernel(moves, src_step, width) : NULL;
    if (kernel)
        kernel(dst, src, count);
    else if (dst_step == 1 && src_step == 0)
        cpu_fill_run(dst, src, count, width);
    else
        cpu_copy_run(dst, dst_step, src, src_step, count, width);
}

// Runs from this length on are copied one by one: their functions are faster per element.
enum { kLongRun = 64 };

static void copy_long(const Runs *runs) {
    char *to = runs->dst;
    const char *from = runs->src;
    for (int64_t r = runs->count; r > 0; r--) {
        copy_stepped(runs->moves, to, runs->dst_step, from, runs->src_step, runs->length, runs->width);
        to += runs->dst_stride * runs->width;
        from += runs->src_stride * runs->width;
    }
}

static void copy_spread(const Runs *runs) {
    const int number = cpu_loop_move_width(runs->width);
    const bool few = runs->moves && number >= 0 && runs->length <= CPU_MOVE_MOST && runs->src_stride == 1;
    CpuSpreadKernel *kernel = few ? runs->moves->spread[number][runs->length] : NULL;
    if (kernel) {
        kernel(runs->dst, runs->src, runs->count);
        return;
    }
    switch (runs->width) {
        case 1: spread_8(runs); break;
        case 2: spread_16(runs); break;
        case 4: spread_32(runs); break;
        case 8: spread_64(runs); break;
        default: copy_long(runs);
    }
}

static void copy_runs(const Runs *runs) {
    const bool dense = runs->dst_step == 1 && runs->dst_stride == runs->length;  // nothing between the runs
    if (dense && runs->moves &&
        cpu_copy_reversed_rows(runs->moves, runs->count, runs->length, runs->width, runs->dst, runs->src,
                               runs->src_step, runs->src_stride))
        return;
    if (runs->dst_step == 1 && runs->src_step == 1) {
        if (dense && runs->src_stride == 0)
            repeat_run(runs);
        else
            copy_contiguous(runs);
    } else if (runs->length >= kLongRun) {
        copy_long(runs);
    } else if (dense && runs->src_step == 0 && runs->length <= kSpread) {
        copy_spread(runs);
    } else {
        copy_steps(runs);
    }
}

// ---- positions

// A position in a walk: the index of every merged dimension and the element number there. Walks visit elements in the
// order of the domain; `element` may jump or run backwards.
typedef struct Cursor {
    const CpuWalk *walk;
    int64_t index[CPU_LOOP_RANK_LIMIT];
    int64_t element;
    int64_t step;  // stride of the innermost dimension
    int64_t run;   // elements left in the innermost dimension
} Cursor;

// Sets the cursor to the flat position `flat` of the walk.
static void cursor_set(Cursor *cursor, const CpuWalk *walk, int64_t flat) {
    cursor->walk = walk;
    cursor->element = walk->offset;
    for (int d = 0; d < walk->count; d++) {
        const int64_t rest = d + 1 < walk->count ? flat / walk->sizes[d] : 0;
        cursor->index[d] = flat - rest * walk->sizes[d];
        cursor->element += cursor->index[d] * walk->strides[d];
        flat = rest;
    }
    cursor->step = walk->count ? walk->strides[0] : 0;
    cursor->run = walk->count ? walk->sizes[0] - cursor->index[0] : INT64_MAX;
}

// Advances dimension `d` by `by` indices, at most to its end, and carries.
static void cursor_carry(Cursor *cursor, int d, int64_t by) {
    const CpuWalk *walk = cursor->walk;
    for (; d < walk->count; d++, by = 1) {
        cursor->element += by * walk->strides[d];
        cursor->index[d] += by;
        if (cursor->index[d] < walk->sizes[d]) return;
        cursor->element -= walk->sizes[d] * walk->strides[d];
        cursor->index[d] = 0;
    }
}

// Advances by `count` elements, at most to the end of the run.
static void cursor_advance(Cursor *cursor, int64_t count) {
    const CpuWalk *walk = cursor->walk;
    cursor->element += count * cursor->step;
    cursor->run -= count;
    if (cursor->run > 0 || walk->count == 0) return;
    cursor->element -= walk->sizes[0] * walk->strides[0];
    cursor->run = walk->sizes[0];
    cursor_carry(cursor, 1, 1);
}

// Returns how many of the next `count` elements are whole runs of the cursor's group, in runs: 0 inside a run.
static int64_t cursor_whole_runs(const Cursor *cursor, int64_t count) {
    const CpuWalk *walk = cursor->walk;
    if (walk->count < 2 || cursor->run != walk->sizes[0]) return 0;
    const int64_t runs = count / walk->sizes[0], left = walk->sizes[1] - cursor->index[1];
    return runs < left ? runs : left;
}

// ---- groups

// Elements of the largest groups of which several are copied by one loop: a call for each would take longer.
enum { kSmallGroup = 16 };

// `count` groups of `length` elements, `stride` apart in the source, where element i of each is at offsets[i].
typedef struct Groups {
    int64_t count, length, stride;
    int64_t offsets[kSmallGroup];
    char *dst;
    const char *src;
} Groups;

#define GROUP_FUNCTION(T, name)                                                          \
    static void name(const Groups *groups) {                                             \
        T *out = (T *)(void *)groups->dst;                                               \
        const T *in = (const T *)(const void *)groups->src;                              \
        const int64_t length = groups->length;                                           \
        for (int64_t g = groups->count; g > 0; g--, in += groups->stride, out += length) \
            for (int64_t i = 0; i < length; i++) out[i] = in[groups->offsets[i]];        \
    }
GROUP_FUNCTION(uint8_t, groups_8)
GROUP_FUNCTION(uint16_t, groups_16)
GROUP_FUNCTION(uint32_t, groups_32)
GROUP_FUNCTION(uint64_t, groups_64)

// Returns how many of the next `count` elements are whole groups, in groups: 0 inside a group, or for large ones.
static int64_t cursor_whole_groups(const Cursor *cursor, int64_t count) {
    const CpuWalk *walk = cursor->walk;
    if (walk->count < 3 || cursor->run != walk->sizes[0] || cursor->index[1] != 0) return 0;
    if (walk->sizes[0] > kSmallGroup || walk->sizes[1] > kSmallGroup) return 0;
    const int64_t length = walk->sizes[0] * walk->sizes[1];
    if (length > kSmallGroup) return 0;
    const int64_t groups = count / length, left = walk->sizes[2] - cursor->index[2];
    return groups < left ? groups : left;
}

// Copies the next groups to `to`, and returns the number of elements.
static int64_t load_groups(Cursor *cursor, int64_t count, char *to, const char *base, int width) {
    const CpuWalk *walk = cursor->walk;
    Groups groups = {.count = count,
                     .length = walk->sizes[0] * walk->sizes[1],
                     .stride = walk->strides[2],
                     .dst = to,
                     .src = base + cursor->element * width};
    for (int64_t i = 0; i < groups.length; i++)
        groups.offsets[i] = i % walk->sizes[0] * walk->strides[0] + i / walk->sizes[0] * walk->strides[1];
    switch (width) {
        case 1: groups_8(&groups); break;
        case 2: groups_16(&groups); break;
        case 4: groups_32(&groups); break;
        default: groups_64(&groups);
    }
    cursor_carry(cursor, 2, count);
    return count * groups.length;
}

// ---- loads and stores

void *cpu_walk_load(const CpuMoveKernels *moves, const CpuLoopValue *value, const void *buffer, void *reg,
                    int64_t start, int64_t count) {
    const int width = value->width;
    const CpuWalk *walk = &value->walk;
    const char *base = buffer;
    if (walk->contiguous) return (void *)(uintptr_t)(base + (walk->offset + start) * width);
    Cursor cursor;
    cursor_set(&cursor, walk, start);
    if (cursor.step == 1 && count <= cursor.run) return (void *)(uintptr_t)(base + cursor.element * width);
    for (char *out = reg; count > 0;) {
        const char *from = base + cursor.element * width;
        const int64_t runs = cursor_whole_runs(&cursor, count);
        const int64_t groups = width <= 8 ? cursor_whole_groups(&cursor, count) : 0;
        int64_t part = count < cursor.run ? count : cursor.run;
        if (groups > 1) {
            part = load_groups(&cursor, groups, out, base, width);
        } else if (runs > 1) {
            part = runs * walk->sizes[0];
            copy_runs(&(Runs){runs, walk->sizes[0], out, 1, walk->sizes[0], from, cursor.step, walk->strides[1], width,
                              moves});
            cursor_carry(&cursor, 1, runs);
        } else {
            copy_stepped(moves, out, 1, from, cursor.step, part, width);
            cursor_advance(&cursor, part);
        }
        out += part * width;
        count -= part;
    }
    return reg;
}

void cpu_walk_store(const CpuLoopValue *value, void *buffer, const void *reg, int64_t start, int64_t count) {
    const int width = value->width;
    const CpuWalk *walk = &value->walk;
    Cursor cursor;
    cursor_set(&cursor, walk, start);
    for (const char *in = reg; count > 0;) {
        char *to = (char *)buffer + cursor.element * width;
        const int64_t runs = cursor_whole_runs(&cursor, count);
        int64_t part = count < cursor.run ? count : cursor.run;
        if (runs > 1) {
            part = runs * walk->sizes[0];
            copy_runs(
                &(Runs){runs, walk->sizes[0], to, cursor.step, walk->strides[1], in, 1, walk->sizes[0], width, NULL});
            cursor_carry(&cursor, 1, runs);
        } else {
            if (to != in) copy_stepped(NULL, to, cursor.step, in, 1, part, width);
            cursor_advance(&cursor, part);
        }
        in += part * width;
        count -= part;
    }
}

// Writes `runs` runs of element numbers from the cursor's on.
#define INDEX_FUNCTION(T, name)                                                      \
    static void name(const Cursor *cursor, int64_t runs, T *out) {                   \
        const int64_t length = cursor->walk->sizes[0], step = cursor->step;          \
        int64_t element = cursor->element;                                           \
        for (; runs > 0; runs--, element += cursor->walk->strides[1], out += length) \
            for (int64_t i = 0; i < length; i++) out[i] = (T)(element + i * step);   \
    }
INDEX_FUNCTION(int32_t, index_runs_32)
INDEX_FUNCTION(int64_t, index_runs_64)

void cpu_walk_index(const CpuLoopKernels *kernels, const CpuLoopValue *value, void *reg, int64_t start, int64_t count) {
    Cursor cursor;
    cursor_set(&cursor, &value->walk, start);
    for (int64_t done = 0; done < count;) {
        const int64_t runs = cursor_whole_runs(&cursor, count - done);
        int64_t part = count - done < cursor.run ? count - done : cursor.run;
        int32_t *narrow = (int32_t *)reg + done;
        int64_t *wide = (int64_t *)reg + done;
        if (runs > 1 && part < kLongRun) {
            part *= runs;
            value->width == 4 ? index_runs_32(&cursor, runs, narrow) : index_runs_64(&cursor, runs, wide);
            cursor_carry(&cursor, 1, runs);
        } else {
            if (value->width == 4)
                kernels->ramp(narrow, (int32_t)cursor.element, (int32_t)cursor.step, part);
            else
                for (int64_t i = 0; i < part; i++) wide[i] = cursor.element + i * cursor.step;
            cursor_advance(&cursor, part);
        }
        done += part;
    }
}
