// SPDX-License-Identifier: Apache-2.0
// The plan of a strided copy: dimensions are sorted by the target's stride, so that writes run along memory, and
// neighbours that are contiguous in both arrays are merged. What remains is either rows (the innermost dimension is the
// same in both) or a transpose of two dimensions, done tile by tile so that every cache line that is read is fully
// used. The plan is computed in each call: it costs some hundred nanoseconds, and sizes are known only here.
#include "targets/cpu/element/copy.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/macros.h"
#include "targets/cpu/isa/gemm.h"
#include "targets/cpu/isa/isa.h"
#include "targets/cpu/isa/move.h"

enum { kTile = 32, kParallelBytes = 64 << 10 };

// ---- whole arrays

typedef struct BytesJob {
    char *target;
    const char *source;
    int64_t bytes;
    const CpuLoopKernels *streams;  // NULL: through the caches
} BytesJob;

enum { kPiece = 1 << 18 };

// Copies pieces of kPiece bytes. The fence is this thread's own: it must come before the pool reports the piece as
// done.
static void bytes_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const BytesJob *job = argument;
    const int64_t first = begin * kPiece, last = end * kPiece < job->bytes ? end * kPiece : job->bytes;
    (void)worker;
    if (job->streams) {
        job->streams->stream(job->target + first, job->source + first, (size_t)(last - first));
        job->streams->streamed();
    } else
        memcpy(job->target + first, job->source + first, (size_t)(last - first));
}

// Small arrays are not worth waking a worker; empty ones are no work at all.
void cpu_copy_bytes(CpuPool *pool, void *target, const void *source, int64_t bytes) {
    const bool streams = bytes >= CPU_COPY_STREAMED_BYTES;
    const BytesJob job = {target, source, bytes, streams ? cpu_isa_loop_kernels(cpu_pool_features(pool)) : NULL};
    if (bytes < 2 * kPiece && bytes > 0)
        memcpy(target, source, (size_t)bytes);
    else
        cpu_pool_parallel_for_grain(pool, hlo_divide_up(bytes, kPiece), 1, bytes_task, (void *)(uintptr_t)&job);
}

// ---- strided copies

// One merged dimension.
typedef struct CopyDim {
    int64_t size, to, from;  // strides in elements
} CopyDim;

// Dimension 0 is the innermost of the target; dimension 1 is the innermost of the source if that differs.
typedef struct CopyPlan {
    int rank;
    CopyDim dims[CPU_KERNEL_RANK_LIMIT];
    bool transposes;
    const CpuGemmKernels *gemm;       // for transposes of elements that it supports
    CpuInterleaveKernel *interleave;  // for transposes of a few rows into dense columns
    const CpuMoveKernels *moves;      // for rows that are dense in the target
    int width;
    char *target;
    const char *source;
} CopyPlan;

static int64_t absolute(int64_t x) {
    return x < 0 ? -x : x;
}

// Inserts by the target's stride, so that dimensions which are contiguous in both arrays become neighbours. By
// magnitude, since a reversed array has negative strides. Ranks are small, and most arrays are already sorted.
// Dimensions of one element are never inserted.
static void insert_sorted(CopyPlan *plan, CopyDim dim) {
    int at = plan->rank++;
    for (; at > 0 && absolute(plan->dims[at - 1].to) > absolute(dim.to); at--) plan->dims[at] = plan->dims[at - 1];
    plan->dims[at] = dim;
}

// Dimensions are from the inside out. A stride of 0 (broadcast) merges only with another one of 0.
static void merge_dims(CopyPlan *plan) {
    int kept = 0;
    for (int d = 1; d < plan->rank; d++) {
        CopyDim *inner = &plan->dims[kept];
        const CopyDim dim = plan->dims[d];
        if (dim.to == inner->to * inner->size && dim.from == inner->from * inner->size)
            inner->size *= dim.size;
        else
            plan->dims[++kept] = dim;
    }
    if (plan->rank) plan->rank = kept + 1;
}

// Moves the dimension that is innermost in the source to index 1. Nothing to do if the target's innermost dimension is
// contiguous in the source too, or repeats one element. If no dimension is contiguous in the source, rows are as good
// as tiles.
static void find_transpose(CopyPlan *plan) {
    if (plan->rank < 2 || absolute(plan->dims[0].from) <= 1) return;
    for (int d = 1; d < plan->rank; d++) {
        if (absolute(plan->dims[d].from) != 1) continue;
        const CopyDim inner = plan->dims[d];
        memmove(&plan->dims[2], &plan->dims[1], sizeof(CopyDim) * (size_t)(d - 1));
        plan->dims[1] = inner;
        plan->transposes = true;
        return;
    }
}

// Only the width determines the element type: bits are moved, never interpreted. Widths of 16 bytes use memcpy. The
// steps of reversed and of every other element are constants, since the compiler makes vectors of these.
void cpu_copy_run(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t count, int width) {
    assert(width > 0);
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)(count * width));
        return;
    }
    switch (width) {
#define RUN_CASE(T)                                                                                           \
    case sizeof(T): {                                                                                         \
        T *out = to;                                                                                          \
        const T *in = from;                                                                                   \
        if (to_step == 1 && from_step == -1)                                                                  \
            for (int64_t i = 0; i < count; i++) out[i] = in[-i];                                              \
        else if (to_step == 1 && from_step == 2)                                                              \
            for (int64_t i = 0; i < count; i++) out[i] = in[2 * i];                                           \
        else                                                                                                  \
            _Pragma("GCC unroll 4") for (int64_t i = 0; i < count; i++) out[i * to_step] = in[i * from_step]; \
        break;                                                                                                \
    }
        RUN_CASE(uint8_t)
        RUN_CASE(uint16_t)
        RUN_CASE(uint32_t)
        RUN_CASE(uint64_t)
#undef RUN_CASE
        default:
            for (int64_t i = 0; i < count; i++)
                memcpy((char *)to + i * to_step * width, (const char *)from + i * from_step * width, (size_t)width);
    }
}

void cpu_copy_rows(int64_t count, int64_t bytes, void *target, int64_t to_stride, const void *source,
                   int64_t from_stride) {
    char *to = target;
    const char *from = source;
    switch (bytes) {
#define BYTES_CASE(n)                                                                         \
    case n:                                                                                   \
        for (; count > 0; count--, to += to_stride, from += from_stride)                      \
            memcpy(to, from, n); /* the size is constant: the compiler emits a move or two */ \
        break;
        BYTES_CASE(2)
        BYTES_CASE(3)
        BYTES_CASE(4)
        BYTES_CASE(6)
        BYTES_CASE(8)
        BYTES_CASE(12)
        BYTES_CASE(16)
        BYTES_CASE(20)
        BYTES_CASE(24)
        BYTES_CASE(28)
        BYTES_CASE(32)
        BYTES_CASE(36)
        BYTES_CASE(48)
        BYTES_CASE(64)
        BYTES_CASE(128)
#undef BYTES_CASE
        default:
            for (; count > 0; count--, to += to_stride, from += from_stride) memcpy(to, from, (size_t)bytes);
    }
}

// Sets byte i of the pattern to the number of the byte that it comes from, for as many rows as fit a vector. Returns
// their number. It is called for each group of rows, which may be few.
static int64_t reversal_pattern(uint8_t *pattern, int64_t length, int width, bool backward) {
    const int64_t bytes = length * width, rows = CPU_SHUFFLE_BYTES / bytes;
    uint8_t *next = pattern;
    for (int64_t row = 0; row < rows; row++) {
        int64_t from = backward ? CPU_SHUFFLE_BYTES - (row + 1) * bytes : (row + 1) * bytes - width;
        for (int64_t i = 0; backward && i < bytes; i++) *next++ = (uint8_t)from++;
        for (int64_t i = 0; !backward && i < length; i++, from -= width)
            for (int byte = 0; byte < width; byte++) *next++ = (uint8_t)(from + byte);
    }
    return rows;
}

// Vectors begin at rows from which a whole vector is inside of the arrays. The last rows go by vectors of their own,
// over what the one before wrote for less than a row.
bool cpu_copy_reversed_rows(const CpuMoveKernels *moves, int64_t count, int64_t length, int width, void *target,
                            const void *source, int64_t step, int64_t stride) {
    enum { kFewest = 4 };
    const int64_t bytes = length * width;
    const bool backward = step == 1 && stride == -length;
    assert(moves && count >= 0 && width > 0);
    if (!moves->shuffle || bytes == 0 || bytes > CPU_SHUFFLE_BYTES) return false;
    if (!backward && (step != -1 || stride != length)) return false;
    if (count * bytes < kFewest * CPU_SHUFFLE_BYTES) return false;
    uint8_t pattern[CPU_SHUFFLE_BYTES] = {0};
    const int64_t each = reversal_pattern(pattern, length, width, backward), row_step = stride * width;
    const int64_t starts = count - hlo_divide_up(CPU_SHUFFLE_BYTES, bytes) + 1, vectors = hlo_divide_up(starts, each);
    char *to = target;
    const char *from = source;
    moves->shuffle(to, each * bytes, backward ? from + bytes - CPU_SHUFFLE_BYTES : from - (length - 1) * width,
                   each * row_step, pattern, vectors);
    for (int64_t i = vectors * each, rows; i < count; i += rows) {
        rows = count - i < each ? count - i : each;
        const int64_t first = i * row_step - (backward ? (rows - 1) * bytes : bytes - width), size = rows * bytes;
        char whole[CPU_SHUFFLE_BYTES] = {0}, turned[CPU_SHUFFLE_BYTES];
        memcpy(backward ? whole + CPU_SHUFFLE_BYTES - size : whole, from + first, (size_t)size);
        moves->shuffle(turned, 0, whole, 0, pattern, 1);
        memcpy(to + i * bytes, turned, (size_t)size);
    }
    return true;
}

// Copies a tile of at most kTile x kTile; reads run along the source's rows, writes fill the target's lines one after
// another.
#define TILE_FUNCTION(T, name)                                                                       \
    static void name(char *to, const char *from, int64_t na, CopyDim a, int64_t nb, CopyDim b) {     \
        T *out = (T *)(void *)to;                                                                    \
        const T *in = (const T *)(const void *)from;                                                 \
        if (na == kTile && nb == kTile && a.to == 1 && b.from == 1) {                                \
            T local[kTile][kTile];                                                                   \
            for (int i = 0; i < kTile; i++)                                                          \
                for (int j = 0; j < kTile; j++) local[j][i] = in[i * a.from + j];                    \
            for (int j = 0; j < kTile; j++) memcpy(out + j * b.to, local[j], sizeof local[j]);       \
            return;                                                                                  \
        }                                                                                            \
        for (int64_t j = 0; j < nb; j++)                                                             \
            for (int64_t i = 0; i < na; i++) out[j * b.to + i * a.to] = in[j * b.from + i * a.from]; \
    }
TILE_FUNCTION(uint8_t, tile_8)
TILE_FUNCTION(uint16_t, tile_16)
TILE_FUNCTION(uint32_t, tile_32)
TILE_FUNCTION(uint64_t, tile_64)
typedef struct Wide128 {
    uint64_t low, high;
} Wide128;
TILE_FUNCTION(Wide128, tile_128)

typedef void TileFunction(char *to, const char *from, int64_t na, CopyDim a, int64_t nb, CopyDim b);

// Widths are 1, 2, 4, 8 or 16.
static TileFunction *tile_function(int width) {
    switch (width) {
        case 1: return tile_8;
        case 2: return tile_16;
        case 4: return tile_32;
        case 8: return tile_64;
        default: return tile_128;
    }
}

// Elements of 4 and 8 bytes are transposed in vector registers by the kernel that packs matrices: a strip of kStrip
// lines of the source, each read by whole cache lines, then written line by line.
enum { kStrip = 16, kDeep = 128, kLong = 4096 };

// The buffer holds kDeep lines of kStrip elements of up to 8 bytes, and 64 bytes to spare. The constant-size copy for
// full strips of 4 bytes is the common case, and becomes one vector store.
static void transpose_strips(const CopyPlan *plan, char *to, const char *from, CopyDim a, CopyDim b) {
    _Alignas(64) char strip[kStrip * kDeep * 8 + 64];
    const int width = plan->width;
    for (int64_t i = 0; i < a.size; i += kStrip) {
        const int64_t lanes = a.size - i < kStrip ? a.size - i : kStrip;
        for (int64_t j = 0; j < b.size; j += kDeep) {
            const int64_t depth = b.size - j < kDeep ? b.size - j : kDeep;
            plan->gemm->pack(strip, kStrip, from + (i * a.from + j) * width, lanes, depth, a.from, 1);
            char *line = to + (i + j * b.to) * width;
            for (int64_t d = 0; d < depth; d++, line += b.to * width) {
                if (lanes == kStrip && width == 4)
                    memcpy(line, strip + d * kStrip * 4, kStrip * 4);
                else
                    memcpy(line, strip + d * kStrip * width, (size_t)(lanes * width));
            }
        }
    }
}

// Copies rows [begin, end) of dimension 1's tiles, over all of dimension 0. A band is the unit of parallel work: no two
// bands write the same line of the target, so that workers need no synchronisation.
static void transpose_band(const CopyPlan *plan, char *to, const char *from, int64_t band) {
    assert(band >= 0);
    const CopyDim a = plan->dims[0], b = plan->dims[1];
    if (plan->interleave) {
        const int64_t first = band * kLong, left = b.size - first;
        plan->interleave(to + first * b.to * plan->width, from + first * plan->width, a.from,
                         left < kLong ? left : kLong);
        return;
    }
    if (plan->gemm) {
        const int64_t first = band * kDeep;
        const CopyDim part = {b.size - first < kDeep ? b.size - first : kDeep, b.to, b.from};
        transpose_strips(plan, to + first * b.to * plan->width, from + first * plan->width, a, part);
        return;
    }
    TileFunction *tile = tile_function(plan->width);
    const int64_t j = band * kTile, nb = b.size - j < kTile ? b.size - j : kTile;
    for (int64_t i = 0; i < a.size; i += kTile) {
        const int64_t na = a.size - i < kTile ? a.size - i : kTile;
        tile(to + (i * a.to + j * b.to) * plan->width, from + (i * a.from + j * b.from) * plan->width, na, a, nb, b);
    }
}

// Returns the kernel that writes the elements of a few rows by turns, NULL if it is another transpose.
static CpuInterleaveKernel *interleave_kernel(const CopyPlan *plan, CpuFeatures features) {
    const CopyDim a = plan->dims[0], b = plan->dims[1];
    const bool dense = a.to == 1 && b.to == a.size && b.from == 1 && a.size <= CPU_MOVE_MOST;
    if (!plan->transposes || !dense || plan->width > 8) return NULL;
    return cpu_isa_move_kernels(features)->interleave[__builtin_ctz((unsigned)plan->width)][a.size];
}

// Makes a long dimension that of the rows, as each group of rows costs a call. Both dimensions stay within the caches
// and, but for the edges, with one worker: a part of a dimension that is too long takes its place.
static void prefer_long_groups(CopyPlan *plan) {
    enum { kShort = 8, kCached = 16 << 10 };
    if (plan->transposes || plan->rank < 3 || plan->rank == CPU_KERNEL_RANK_LIMIT) return;
    const CopyDim inner = plan->dims[1], outer = plan->dims[2];
    const int64_t to = absolute(outer.to), from = absolute(outer.from), stride = (to > from ? to : from) * plan->width;
    int64_t parts = 1;
    while (outer.size / parts * stride > kCached && outer.size / parts % 2 == 0) parts *= 2;
    const int64_t size = outer.size / parts;
    if (inner.size >= kShort || size <= inner.size || size * stride > kCached) return;
    plan->dims[1] = (CopyDim){size, outer.to, outer.from};
    plan->dims[2] = inner;
    if (parts == 1) return;
    memmove(&plan->dims[4], &plan->dims[3], sizeof(CopyDim) * (size_t)(plan->rank++ - 3));
    plan->dims[3] = (CopyDim){parts, outer.to * size, outer.from * size};
}

static int64_t band_count(const CopyPlan *plan) {
    const int64_t band = plan->interleave ? kLong : plan->gemm ? kDeep : kTile;
    return plan->transposes ? hlo_divide_up(plan->dims[1].size, band) : 1;
}

// Where a unit begins in the target and the source.
typedef struct CopyPlace {
    char *to;
    const char *from;
} CopyPlace;

// Finds the element with the index `rest`, counted over the dimensions from `d` on. Divides: once per unit or per
// dimension of rows, which are at least some thousand bytes.
static CopyPlace place_of(const CopyPlan *plan, int d, int64_t rest) {
    int64_t to = 0, from = 0;
    for (; d < plan->rank; d++) {
        const int64_t index = rest % plan->dims[d].size;
        rest /= plan->dims[d].size;
        to += index * plan->dims[d].to;
        from += index * plan->dims[d].from;
    }
    return (CopyPlace){plan->target + to * plan->width, plan->source + from * plan->width};
}

// Copies `count` rows of one index of the dimensions from 2 on.
static void copy_group(const CopyPlan *plan, int64_t count, CopyPlace at) {
    const CopyDim row = plan->dims[0], rows = plan->rank > 1 ? plan->dims[1] : (CopyDim){1, 0, 0};
    const int64_t to_stride = rows.to * plan->width, from_stride = rows.from * plan->width;
    if (plan->moves &&
        cpu_copy_reversed_rows(plan->moves, count, row.size, plan->width, at.to, at.from, row.from, rows.from))
        return;
    if (row.to == 1 && row.from == 1)
        cpu_copy_rows(count, row.size * plan->width, at.to, to_stride, at.from, from_stride);
    else
        for (int64_t i = 0; i < count; i++, at.to += to_stride, at.from += from_stride)
            cpu_copy_run(at.to, row.to, at.from, row.from, row.size, plan->width);
}

// Copies rows [begin, end). Divides for the first alone: from one group of rows to the next only strides are added.
static void copy_rows(const CopyPlan *plan, int64_t begin, int64_t end) {
    const int64_t each = plan->rank > 1 ? plan->dims[1].size : 1, within = begin % each;
    int64_t index[CPU_KERNEL_RANK_LIMIT] = {0}, rest = begin / each, count = each - within;
    for (int d = 2; d < plan->rank; d++) {
        index[d] = rest % plan->dims[d].size;
        rest /= plan->dims[d].size;
    }
    CopyPlace group = place_of(plan, 2, begin / each), at = place_of(plan, 1, begin);
    for (; begin < end; begin += count, count = each) {
        copy_group(plan, count < end - begin ? count : end - begin, at);
        for (int d = 2; d < plan->rank; d++) {
            const CopyDim dim = plan->dims[d];
            const bool wraps = ++index[d] == dim.size;
            group.to += (wraps ? 1 - dim.size : 1) * dim.to * plan->width;
            group.from += (wraps ? 1 - dim.size : 1) * dim.from * plan->width;
            if (!wraps) break;
            index[d] = 0;
        }
        at = group;
    }
}

// A unit is (index over the outer dimensions) * bands + band.
static void copy_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const CopyPlan *plan = argument;
    const int64_t bands = band_count(plan);
    (void)worker;
    if (!plan->transposes) {
        copy_rows(plan, begin, end);
        return;
    }
    for (int64_t unit = begin; unit < end; unit++) {
        const CopyPlace at = place_of(plan, 2, unit / bands);
        transpose_band(plan, at.to, at.from, unit % bands);
    }
}

// Splits a long contiguous copy into rows so that workers can share it. Only if the row divides evenly; otherwise it
// stays one unit, for one worker.
static void split_single_row(CopyPlan *plan) {
    enum { kRow = 16 << 10 };
    if (plan->rank != 1 || plan->dims[0].size < 2 * kRow || plan->dims[0].size % kRow != 0) return;
    const CopyDim row = plan->dims[0];
    plan->dims[0].size = kRow;
    plan->dims[1] = (CopyDim){row.size / kRow, row.to * kRow, row.from * kRow};
    plan->rank = 2;
}

// HLO_BUG_IF guards the plan's arrays: callers reject larger ranks with their own error. An array without elements
// returns before anything is divided.
void cpu_copy_strided(CpuPool *pool, int rank, const int64_t *sizes, int width, void *target,
                      const int64_t *target_strides, const void *source, const int64_t *source_strides) {
    assert(rank >= 0 && width > 0);
    HLO_BUG_IF(rank > CPU_KERNEL_RANK_LIMIT);
    CopyPlan plan = {.width = width, .target = target, .source = source};
    int64_t total = 1;
    for (int d = rank - 1; d >= 0; d--) {
        total *= sizes[d];
        if (sizes[d] > 1) insert_sorted(&plan, (CopyDim){sizes[d], target_strides[d], source_strides[d]});
    }
    if (total == 0) return;
    if (plan.rank == 0) plan.dims[plan.rank++] = (CopyDim){1, 1, 1};
    merge_dims(&plan);
    find_transpose(&plan);
    split_single_row(&plan);
    plan.interleave = interleave_kernel(&plan, cpu_pool_features(pool));
    prefer_long_groups(&plan);
    if (plan.rank > 1 && plan.dims[0].to == 1 && plan.dims[1].to == plan.dims[0].size)
        plan.moves = cpu_isa_move_kernels(cpu_pool_features(pool));
    const bool turns = plan.transposes && (width == 4 || width == 8) && plan.dims[0].to == 1 && plan.dims[1].from == 1;
    if (turns && plan.dims[0].size >= kStrip)
        plan.gemm = cpu_isa_gemm_kernels(cpu_pool_features(pool), width == 8 ? CPU_GEMM_F64 : CPU_GEMM_F32);
    int64_t units = band_count(&plan);
    for (int d = plan.transposes ? 2 : 1; d < plan.rank; d++) units *= plan.dims[d].size;
    const int64_t bytes_each = total * width / units + 1;
    cpu_pool_parallel_for_grain(total * width < kParallelBytes ? NULL : pool, units,
                                hlo_divide_up(kParallelBytes / 4, bytes_each), copy_task, &plan);
}

// ---- fill

typedef struct FillJob {
    char *target;
    const void *element;
    int width;
} FillJob;

// Writes lines of vectors: the compiler keeps the vector in a register, and copies of constant size are stores of it.
#define FILL_FUNCTION(T, name)                                                \
    static void name(T *out, const void *element, int64_t count) {            \
        typedef T Lanes __attribute__((vector_size(16)));                     \
        enum { kLanes = sizeof(Lanes) / sizeof(T) };                          \
        T value;                                                              \
        memcpy(&value, element, sizeof value);                                \
        const Lanes lanes = (Lanes){0} + value;                               \
        for (; count >= 2 * kLanes; count -= 2 * kLanes, out += 2 * kLanes) { \
            memcpy(out, &lanes, sizeof lanes);                                \
            memcpy(out + kLanes, &lanes, sizeof lanes);                       \
        }                                                                     \
        for (int64_t i = 0; i < count; i++) out[i] = value;                   \
    }
FILL_FUNCTION(uint8_t, fill_8)
FILL_FUNCTION(uint16_t, fill_16)
FILL_FUNCTION(uint32_t, fill_32)
FILL_FUNCTION(uint64_t, fill_64)

static void fill(void *target, const void *element, int64_t count, int width) {
    switch (width) {
        case 1: fill_8(target, element, count); break;
        case 2: fill_16(target, element, count); break;
        case 4: fill_32(target, element, count); break;
        case 8: fill_64(target, element, count); break;
        default:
            for (int64_t i = 0; i < count; i++) memcpy((char *)target + i * width, element, (size_t)width);
    }
}

// Copies what it has filled from the first-level cache: memcpy() has wider stores than this file.
void cpu_fill_run(void *target, const void *element, int64_t count, int width) {
    enum { kFilled = 4096 };
    const int64_t bytes = count * width;
    char *to = target;
    assert(count >= 0 && width > 0 && kFilled % width == 0);
    fill(to, element, bytes < kFilled ? count : kFilled / width, width);
    for (int64_t at = kFilled; at < bytes; at += kFilled)
        memcpy(to + at, to, (size_t)(bytes - at < kFilled ? bytes - at : kFilled));
}

static void fill_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const FillJob *job = argument;
    (void)worker;
    cpu_fill_run(job->target + begin * job->width, job->element, end - begin, job->width);
}

// Divides the work in units of elements, with a worker's share of at least kParallelBytes.
void cpu_fill(CpuPool *pool, void *target, const void *element, int64_t count, int width) {
    FillJob job = {target, element, width};
    cpu_pool_parallel_for_grain(count * width < kParallelBytes ? NULL : pool, count, kParallelBytes / width, fill_task,
                                &job);
}
