// SPDX-License-Identifier: Apache-2.0
// Convolution as products of patches and the kernel: output positions are processed in tiles, the kernel's taps
// ("places" in names) in blocks, and for each pair a small patch matrix is written that stays in the second-level cache
// while it is multiplied.
//
//     input  [batch][y][x][feature]     kernel [place][feature][output]    (place = one element of its window)
//     patch  row of output position (n, y, x): the input features under each place of its window, zeros in padding
//     tile   256 positions x (places x features) times (places x features) x outputs, added block by block
//
// Patches are written as rows of positions if features are contiguous in memory, else as columns (a row for each place
// and feature), whichever copies longer runs. If the kernel is 1 x 1 and the input already has the layout of its patch
// matrix, nothing is copied. Results are written directly to the output if its features or its positions are
// contiguous, else through a tile of results.
//
// Sizes: kTilePositions x kBlockElements numbers of f32 are 512 KiB at most. Tiles and blocks depend only on the
// problem, so that the bits of a result do not depend on the number of workers. Groups of features or batches are
// separate products.
//
// Precondition (convolution_internal.h): both types equal, no base dilation, a kernel that has elements.
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/dense/matmul_internal.h"
#include "targets/cpu/dense/tiles.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/element/element.h"
#include "targets/cpu/isa/taps.h"
#include "targets/cpu/kernels/convolution_internal.h"

enum { kRankLimit = CPU_KERNEL_RANK_LIMIT, kTilePositions = 256, kBlockElements = 512, kTallestTile = 1024 };

// One dimension of the output positions, slowest first. spatial < 0: the batch.
typedef struct PositionDim {
    int spatial;
    int64_t size, out_stride;
} PositionDim;

typedef struct ConvolutionJob {
    const CpuConvolution *c;
    const CpuLoopKernels *kernels;
    CpuFeatures features;
    HloType compute;
    void (*copy_rows)(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t bytes);
    int width;                                         // of the compute type
    int64_t group_inputs, group_outputs, group_batch;  // features and images of one group
    int64_t groups;
    int64_t places;     // taps of the kernel: product of its spatial sizes
    int64_t depth;      // places * group_inputs
    int64_t positions;  // of one group's output
    PositionDim dims[kRankLimit + 1];
    int dim_count;
    bool by_rows;                    // patches hold one row per position (features are contiguous)
    bool merge_last;                 // the kernel's last dimension and the features are one run of input memory
    bool merge_images;               // the last dimension of positions and the images are one run of input memory
    bool in_place;                   // patches are the input itself
    int64_t position_step;           // between outputs of neighbouring positions, 0 where that varies
    bool direct, direct_transposed;  // products are written in place: [position][feature] or [feature][position]
    int64_t block_places, tile, tiles;
    const char *input, *kernel;
    const char *packed;  // [group][depth][group_outputs]
    char *out;
    char *scratch;
    size_t patch_bytes, result_bytes, scratch_each;
    char *kernel_tiles;  // the kernel packed for tiles, [group][block of places], or NULL
    size_t tile_bytes;   // of one block
} ConvolutionJob;

// ---- addressing

// Returns the input index under kernel tap k of output o in one dimension, or -1.
static int64_t input_index(const CpuConvolutionDim *d, int64_t o, int64_t k) {
    const int64_t index = o * d->stride + k * d->window_dilation - d->padding_low;
    return index >= 0 && index < d->input_size ? index : -1;
}

// Sets the index in each dimension of positions, in the order of job->dims.
static void unflatten_position(const ConvolutionJob *job, int64_t flat, int64_t *index) {
    for (int i = job->dim_count - 1; i >= 0; i--) {
        index[i] = flat % job->dims[i].size;
        flat /= job->dims[i].size;
    }
}

// Sets the index in each dimension of the kernel.
static void unflatten_place(const CpuConvolution *c, int64_t flat, int64_t *place) {
    for (int d = c->rank - 1; d >= 0; d--) {
        place[d] = flat % c->dims[d].kernel_size;
        flat /= c->dims[d].kernel_size;
    }
}

// Returns the start of a group's input: groups split the features, or the batch.
static int64_t group_input_offset(const ConvolutionJob *job, int64_t group) {
    const CpuConvolution *c = job->c;
    return c->batch_groups > 1 ? group * job->group_batch * c->input_batch_stride
                               : group * job->group_inputs * c->input_feature_stride;
}

// Returns the element offset of the input under a tap for a position, not counting features; -1 in padding.
static int64_t input_offset(const ConvolutionJob *job, const int64_t *index, const int64_t *place) {
    const CpuConvolution *c = job->c;
    int64_t offset = 0;
    for (int i = 0; i < job->dim_count; i++) {
        const int d = job->dims[i].spatial;
        if (d < 0) {
            offset += index[i] * c->input_batch_stride;
            continue;
        }
        const int64_t at = input_index(&c->dims[d], index[i], place[d]);
        if (at < 0) return -1;
        offset += at * c->dims[d].input_stride;
    }
    return offset;
}

// Returns the element offset of feature 0 of the group at that position.
static int64_t output_offset(const ConvolutionJob *job, int64_t group, int64_t position) {
    int64_t index[kRankLimit + 1], offset = group * job->group_outputs * job->c->output_feature_stride;
    unflatten_position(job, position, index);
    for (int i = 0; i < job->dim_count; i++) offset += index[i] * job->dims[i].out_stride;
    return offset;
}

// ---- the kernel

// True if the kernel is already stored as pack_kernel() would write it.
static bool is_packed(const ConvolutionJob *job) {
    const CpuConvolution *c = job->c;
    int64_t expected = job->group_inputs * job->group_outputs;
    if (job->groups > 1 || c->kernel_output_stride != 1 || c->kernel_input_stride != job->group_outputs) return false;
    for (int d = c->rank - 1; d >= 0; expected *= c->dims[d--].kernel_size)
        if (c->dims[d].kernel_size > 1 && (c->dims[d].reversal || c->dims[d].kernel_stride != expected)) return false;
    return true;
}

// Packs [place][input feature][output feature] of one group whose outputs are not contiguous, in one transposition.
static void pack_group(CpuPool *pool, const ConvolutionJob *job, const char *from, char *to) {
    const CpuConvolution *c = job->c;
    int64_t sizes[kRankLimit + 2], target[kRankLimit + 2], source[kRankLimit + 2], next = job->group_outputs;
    sizes[c->rank + 1] = job->group_outputs, target[c->rank + 1] = 1, source[c->rank + 1] = c->kernel_output_stride;
    sizes[c->rank] = job->group_inputs, target[c->rank] = next, source[c->rank] = c->kernel_input_stride;
    next *= job->group_inputs;
    for (int d = c->rank - 1; d >= 0; d--) {
        const CpuConvolutionDim *dim = &c->dims[d];
        sizes[d] = dim->kernel_size, target[d] = next, next *= dim->kernel_size;
        source[d] = dim->reversal ? -dim->kernel_stride : dim->kernel_stride;
        if (dim->reversal) from += (dim->kernel_size - 1) * dim->kernel_stride * job->width;
    }
    cpu_copy_strided(pool, c->rank + 2, sizes, job->width, to, target, from, source);
}

// Packs the kernel as [group][place][input feature][output feature], with reversed dimensions turned.
static void pack_kernel(CpuPool *pool, const ConvolutionJob *job, char *packed) {
    const CpuConvolution *c = job->c;
    const int64_t row = job->group_outputs * job->width;
    int64_t place[kRankLimit];
    for (int64_t g = 0; g < job->groups; g++) {
        const char *group = job->kernel + g * job->group_outputs * c->kernel_output_stride * job->width;
        char *to = packed + g * job->places * job->group_inputs * row;
        if (c->kernel_output_stride != 1) {
            pack_group(pool, job, group, to);
            continue;
        }
        for (int64_t p = 0; p < job->places; p++, to += job->group_inputs * row) {
            int64_t from = 0;
            unflatten_place(c, p, place);
            for (int d = 0; d < c->rank; d++)
                from +=
                    (c->dims[d].reversal ? c->dims[d].kernel_size - 1 - place[d] : place[d]) * c->dims[d].kernel_stride;
            job->copy_rows(to, row, group + from * job->width, c->kernel_input_stride * job->width, job->group_inputs,
                           row);
        }
    }
}

// ---- patches

// Returns the element offset of the input under a tap, not counting the last dimension and the features; -1 in padding.
static int64_t row_offset(const ConvolutionJob *job, const int64_t *index, const int64_t *place) {
    const CpuConvolution *c = job->c;
    int64_t offset = 0;
    for (int i = 0; i < job->dim_count; i++) {
        const int d = job->dims[i].spatial;
        const int64_t at = d < 0 ? index[i] : d == c->rank - 1 ? 0 : input_index(&c->dims[d], index[i], place[d]);
        if (at < 0) return -1;
        offset += at * (d < 0 ? c->input_batch_stride : c->dims[d].input_stride);
    }
    return offset;
}

// Rows of patches, `to_step` bytes apart: `count` neighbours along the last dimension, from position `first` on.
typedef struct RowRun {
    const char *input;  // of the image and the other dimensions
    int64_t first, count, to_step;
} RowRun;

// Copies taps low to high of one kernel row for position p of a run: features and taps are one run of memory, clipped
// at the boundaries.
static void copy_clipped(const ConvolutionJob *job, const RowRun *run, char *to, int64_t p) {
    const CpuConvolutionDim *last = &job->c->dims[job->c->rank - 1];
    const int64_t bytes = job->group_inputs * job->width, size = last->kernel_size;
    const int64_t start = (run->first + p) * last->stride - last->padding_low;
    int64_t low = start < 0 ? -start : 0, high = last->input_size - start;
    low = low > size ? size : low, high = high > size ? size : high;
    if (high < low) high = low;
    to += p * run->to_step;
    memset(to, 0, (size_t)(low * bytes));
    if (high > low) memcpy(to + low * bytes, run->input + (start + low) * bytes, (size_t)((high - low) * bytes));
    memset(to + high * bytes, 0, (size_t)((size - high) * bytes));
}

// Sets the positions of a run whose input index, from `offset` on, is followed by `reach` more elements inside the
// input.
static void inside(const CpuConvolutionDim *d, const RowRun *run, int64_t offset, int64_t reach, int64_t *low,
                   int64_t *high) {
    const int64_t start = run->first * d->stride - d->padding_low + offset, room = d->input_size - reach - start;
    *low = start >= 0 ? 0 : hlo_divide_up(-start, d->stride);
    *high = room <= 0 ? 0 : hlo_divide_up(room, d->stride);
    if (*low > run->count) *low = run->count;
    if (*high > run->count) *high = run->count;
    if (*high < *low) *high = *low;
}

// Copies one row of the kernel's last dimension for all positions of a run.
static void copy_merged(const ConvolutionJob *job, const RowRun *run, char *to) {
    const CpuConvolutionDim *last = &job->c->dims[job->c->rank - 1];
    const int64_t bytes = job->group_inputs * job->width;
    int64_t low, high;
    inside(last, run, 0, last->kernel_size - 1, &low, &high);
    for (int64_t p = 0; p < low; p++) copy_clipped(job, run, to, p);
    job->copy_rows(to + low * run->to_step, run->to_step,
                   run->input + ((run->first + low) * last->stride - last->padding_low) * bytes, last->stride * bytes,
                   high - low, last->kernel_size * bytes);
    for (int64_t p = high; p < run->count; p++) copy_clipped(job, run, to, p);
}

// Zeroes the part in padding.
static void zero_rows(char *to, int64_t step, int64_t rows, int64_t bytes) {
    for (int64_t i = 0; i < rows; i++) memset(to + i * step, 0, (size_t)bytes);
}

// Copies the features under tap k of the last dimension for all positions of a run.
static void copy_place(const ConvolutionJob *job, const RowRun *run, int64_t k, char *to) {
    const CpuConvolutionDim *last = &job->c->dims[job->c->rank - 1];
    const int64_t bytes = job->group_inputs * job->width, step = last->input_stride * job->width;
    const int64_t offset = k * last->window_dilation;
    int64_t low, high;
    inside(last, run, offset, 0, &low, &high);
    zero_rows(to, run->to_step, low, bytes);
    job->copy_rows(to + low * run->to_step, run->to_step,
                   run->input + ((run->first + low) * last->stride - last->padding_low + offset) * step,
                   last->stride * step, high - low, bytes);
    zero_rows(to + high * run->to_step, run->to_step, run->count - high, bytes);
}

// Fills rows of patches if the last dimension is the fastest of positions.
static void fill_runs(const ConvolutionJob *job, const char *input, int64_t p0, int64_t count, int64_t s0, int64_t s1,
                      char *patches) {
    const CpuConvolution *c = job->c;
    const int64_t bytes = job->group_inputs * job->width, row_bytes = (s1 - s0) * bytes, fastest = job->dim_count - 1,
                  step = job->merge_last ? c->dims[c->rank - 1].kernel_size : 1;
    int64_t index[kRankLimit + 1], place[kRankLimit];
    for (int64_t p = 0; p < count;) {
        unflatten_position(job, p0 + p, index);
        const int64_t left = job->dims[fastest].size - index[fastest], some = left < count - p ? left : count - p;
        RowRun run = {.first = index[fastest], .count = some, .to_step = row_bytes};
        for (int64_t s = s0; s < s1; s += step) {
            char *to = patches + p * row_bytes + (s - s0) * bytes;
            unflatten_place(c, s, place);
            const int64_t from = row_offset(job, index, place);
            run.input = input + from * job->width;
            if (from < 0)
                zero_rows(to, row_bytes, some, step * bytes);
            else if (job->merge_last)
                copy_merged(job, &run, to);
            else
                copy_place(job, &run, place[c->rank - 1], to);
        }
        p += some;
    }
}

// Fills row-major [position][place][feature] for positions [p0, p0 + count) and taps [s0, s1).
static void fill_rows(const ConvolutionJob *job, const char *input, int64_t p0, int64_t count, int64_t s0, int64_t s1,
                      char *patches) {
    assert(p0 >= 0 && count >= 0 && s0 <= s1);
    const int64_t bytes = job->group_inputs * job->width;
    int64_t index[kRankLimit + 1], place[kRankLimit];
    if (job->dims[job->dim_count - 1].spatial >= 0) {
        fill_runs(job, input, p0, count, s0, s1, patches);
        return;
    }
    for (int64_t p = 0; p < count; p++) {
        unflatten_position(job, p0 + p, index);
        for (int64_t s = s0; s < s1; s++, patches += bytes) {
            unflatten_place(job->c, s, place);
            const int64_t from = input_offset(job, index, place);
            if (from < 0)
                memset(patches, 0, (size_t)bytes);
            else
                memcpy(patches, input + from * job->width, (size_t)bytes);
        }
    }
}

// Fills a run of `count` positions along the fastest dimension for one tap: patch row entries, feature after feature.
static void fill_run(const ConvolutionJob *job, const char *input, int64_t *index, const int64_t *place, int64_t count,
                     int64_t row_length, char *to) {
    const CpuConvolution *c = job->c;
    const int fastest = job->dim_count - 1, d = job->dims[fastest].spatial, width = job->width;
    const int64_t first = index[fastest];
    int64_t low = 0, high = count, step = c->input_batch_stride;
    if (d >= 0) {
        const CpuConvolutionDim *dim = &c->dims[d];
        step = dim->stride * dim->input_stride;
        while (low < high && input_index(dim, first + low, place[d]) < 0) low++;
        while (high > low && input_index(dim, first + high - 1, place[d]) < 0) high--;
    }
    index[fastest] = first + low;
    const int64_t from = low < high ? input_offset(job, index, place) : -1;
    if (from < 0) low = high = 0;
    for (int64_t f = 0; f < job->group_inputs; f++, to += row_length * width) {
        memset(to, 0, (size_t)(low * width));
        const int64_t n = high - low;
        if (n > 0)
            cpu_copy_strided(NULL, 1, &n, width, to + low * width, (int64_t[]){1},
                             input + (from + f * c->input_feature_stride) * width, &step);
        memset(to + high * width, 0, (size_t)((count - high) * width));
    }
    index[fastest] = first;
}

// Does the same for images that are contiguous in memory and whose neighbours are those of the last dimension: `flat`
// counts over both.
static void fill_images(const ConvolutionJob *job, const char *input, int64_t *index, const int64_t *place,
                        int64_t flat, int64_t count, int64_t row_length, char *to) {
    const CpuConvolution *c = job->c;
    const CpuConvolutionDim *last = &c->dims[c->rank - 1];
    const int64_t images = job->group_batch, width = job->width;
    index[job->dim_count - 1] = 0;  // included in `flat`
    const int64_t from = row_offset(job, index, place);
    const int64_t start = (place[c->rank - 1] * last->window_dilation - last->padding_low) * images + flat;
    int64_t low = start < 0 ? -start : 0, high = last->input_size * images - start;
    low = low > count ? count : low, high = high > count ? count : high;
    if (high < low || from < 0) high = low;
    for (int64_t f = 0; f < job->group_inputs; f++, to += row_length * width) {
        const char *source = input + (from + start + f * c->input_feature_stride) * width;
        if (low > 0) memset(to, 0, (size_t)(low * width));
        if (high > low) memcpy(to + low * width, source + low * width, (size_t)((high - low) * width));
        if (high < count) memset(to + high * width, 0, (size_t)((count - high) * width));
    }
}

// Fills row-major [place][feature][position].
static void fill_columns(const ConvolutionJob *job, const char *input, int64_t p0, int64_t count, int64_t s0,
                         int64_t s1, char *patches) {
    assert(p0 >= 0 && count >= 0 && s0 <= s1);
    const PositionDim *fastest = &job->dims[job->dim_count - 1];
    int64_t index[kRankLimit + 1], place[kRankLimit];
    for (int64_t s = s0; s < s1; s++) {
        unflatten_place(job->c, s, place);
        char *row = patches + (s - s0) * job->group_inputs * count * job->width;
        for (int64_t p = 0; p < count;) {
            unflatten_position(job, p0 + p, index);
            int64_t flat = index[job->dim_count - 1], size = fastest->size;
            if (job->merge_images) {
                flat += index[job->dim_count - 2] * size;
                size *= fastest[-1].size;
            }
            const int64_t run = size - flat < count - p ? size - flat : count - p;
            if (job->merge_images)
                fill_images(job, input, index, place, flat, run, count, row + p * job->width);
            else
                fill_run(job, input, index, place, run, count, row + p * job->width);
            p += run;
        }
    }
}

// ---- tiles

// Describes the product of `count` patches and the kernel's taps [s0, s1): into rows of positions, or transposed into
// rows of features.
static CpuProduct block_product(const ConvolutionJob *job, int64_t count, int64_t s0, int64_t s1, int64_t patch_stride,
                                int64_t result_stride) {
    const int64_t depth = (s1 - s0) * job->group_inputs, outputs = job->group_outputs;
    const int64_t position = job->by_rows ? patch_stride : 1, place = job->by_rows ? 1 : patch_stride;
    CpuProduct p = {.type = job->compute,
                    .precision = job->c->precision,
                    .features = job->features,
                    .accumulate = s0 > 0,
                    .m = count,
                    .n = outputs,
                    .k = depth,
                    .a_m_stride = position,
                    .a_k_stride = place,
                    .b_k_stride = outputs,
                    .b_n_stride = 1,
                    .ldc = result_stride};
    if (!job->direct_transposed) return p;
    p.m = outputs, p.n = count;
    p.a_m_stride = 1, p.a_k_stride = outputs, p.b_k_stride = place, p.b_n_stride = position;
    return p;
}

// Returns the number of blocks of taps into which the kernel is divided.
static int64_t blocks_of(const ConvolutionJob *job) {
    return hlo_divide_up(job->places, job->block_places);
}

// Describes the product of a whole tile of positions and the block of taps from s0.
static CpuProduct whole_product(const ConvolutionJob *job, int64_t s0) {
    const int64_t s1 = s0 + job->block_places < job->places ? s0 + job->block_places : job->places;
    return block_product(job, job->tile, s0, s1, 1, 1);
}

// The kernel is the right side of many products, so it is packed once if tiles are used.
static size_t kernel_tile_bytes(ConvolutionJob *job) {
    const CpuProduct first = whole_product(job, 0);
    job->tile_bytes = job->direct_transposed ? 0 : cpu_tiles_right_bytes(&first);
    return job->tile_bytes * (size_t)(job->groups * blocks_of(job));
}

// Leaves kernel_tiles NULL if tiles have no form for these products.
static void pack_kernel_tiles(ConvolutionJob *job, char *memory) {
    if (job->tile_bytes == 0) return;
    const int64_t blocks = blocks_of(job), place_bytes = job->group_inputs * job->group_outputs * job->width;
    for (int64_t i = 0; i < job->groups * blocks; i++) {
        const int64_t s0 = i % blocks * job->block_places;
        const CpuProduct p = whole_product(job, s0);
        const char *kernel = job->packed + (i / blocks * job->places + s0) * place_bytes;
        if (!cpu_tiles_pack_right(&p, memory + (size_t)i * job->tile_bytes, kernel)) return;
    }
    job->kernel_tiles = memory;
}

// Adds the product of one block of taps to the tile's results.
static void multiply_block(const ConvolutionJob *job, int64_t group, int64_t count, int64_t s0, int64_t s1,
                           const char *patches, int64_t patch_stride, char *result, int64_t result_stride,
                           char *scratch) {
    assert(group >= 0 && count >= 0 && s0 <= s1);
    const char *kernel =
        job->packed + ((group * job->places + s0) * job->group_inputs) * job->group_outputs * job->width;
    CpuProduct p = block_product(job, count, s0, s1, patch_stride, result_stride);
    const bool turned = job->direct_transposed;
    if (job->kernel_tiles)
        p.b_tiles = job->kernel_tiles + (size_t)(group * blocks_of(job) + s0 / job->block_places) * job->tile_bytes;
    cpu_product_serial(&p, result, turned ? kernel : patches, turned ? patches : kernel, scratch);
}

// Writes outputs whose features are not contiguous, in the type of the arithmetic: transposed, one run of the fastest
// dimension at a time.
static void write_turned(const ConvolutionJob *job, int64_t group, int64_t p0, int64_t count, const char *result) {
    const PositionDim *fastest = &job->dims[job->dim_count - 1];
    for (int64_t p = 0; p < count;) {
        const int64_t left = fastest->size - (p0 + p) % fastest->size, run = left < count - p ? left : count - p;
        cpu_copy_strided(NULL, 2, (int64_t[]){job->group_outputs, run}, job->width,
                         job->out + output_offset(job, group, p0 + p) * job->width,
                         (int64_t[]){job->c->output_feature_stride, fastest->out_stride},
                         result + p * job->group_outputs * job->width, (int64_t[]){1, job->group_outputs});
        p += run;
    }
}

// Copies a tile of results in the type of the arithmetic to the output, position by position.
static void write_rows(const ConvolutionJob *job, int64_t group, int64_t p0, int64_t count, const char *result) {
    const int out_width = hlo_type_bytes(job->c->out_type);
    if (job->c->out_type == job->compute && job->c->output_feature_stride != 1) {
        write_turned(job, group, p0, count, result);
        return;
    }
    for (int64_t p = 0; p < count; p++)
        cpu_matmul_unpack(
            job->kernels, job->compute, job->c->out_type, job->out + output_offset(job, group, p0 + p) * out_width,
            result + p * job->group_outputs * job->width, 1, job->group_outputs, 0, job->c->output_feature_stride);
}

// A unit is a tile of positions of one group; it sums blocks of taps one after the other.
static void convolution_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ConvolutionJob *job = argument;
    char *patches = job->scratch + (size_t)worker * job->scratch_each;
    char *results = patches + job->patch_bytes, *rest = results + job->result_bytes;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t group = unit / job->tiles, p0 = unit % job->tiles * job->tile;
        const int64_t count = job->positions - p0 < job->tile ? job->positions - p0 : job->tile;
        const char *input = job->input + group_input_offset(job, group) * job->width;
        const bool placed = job->direct || job->direct_transposed;
        char *result = placed ? job->out + output_offset(job, group, p0) * job->width : results;
        const int64_t result_stride = job->direct_transposed ? job->c->output_feature_stride
                                      : job->direct          ? job->position_step
                                                             : job->group_outputs;
        for (int64_t s0 = 0; s0 < job->places; s0 += job->block_places) {
            const int64_t s1 = s0 + job->block_places < job->places ? s0 + job->block_places : job->places;
            int64_t stride = job->by_rows ? (s1 - s0) * job->group_inputs : count;
            const char *a = patches;
            if (job->in_place) {
                a = input + p0 * job->c->input_feature_stride * job->c->input_features * job->width;
                stride = job->c->input_features;
            } else if (job->by_rows)
                fill_rows(job, input, p0, count, s0, s1, patches);
            else
                fill_columns(job, input, p0, count, s0, s1, patches);
            multiply_block(job, group, count, s0, s1, a, stride, result, result_stride, rest);
        }
        if (!placed) write_rows(job, group, p0, count, result);
    }
}

// ---- planning

// The batch is the slowest dimension, unless images are neighbours in memory and features are not.
static void plan_positions(ConvolutionJob *job) {
    const CpuConvolution *c = job->c;
    const PositionDim batch = {-1, job->group_batch, c->output_batch_stride};
    const bool batch_fastest = c->input_batch_stride == 1 && job->group_batch > 1 && c->input_feature_stride != 1;
    if (!batch_fastest) job->dims[job->dim_count++] = batch;
    for (int d = 0; d < c->rank; d++)
        job->dims[job->dim_count++] = (PositionDim){d, c->dims[d].output_size, c->dims[d].output_stride};
    if (batch_fastest) job->dims[job->dim_count++] = batch;
    job->positions = 1;
    for (int i = 0; i < job->dim_count; i++) job->positions *= job->dims[i].size;
    // Find out whether outputs of neighbouring positions have a constant distance.
    int64_t step = 0, reach = 0;
    for (int i = job->dim_count - 1; i >= 0; i--) {
        if (job->dims[i].size == 1) continue;
        if (step == 0)
            step = job->dims[i].out_stride, reach = step * job->dims[i].size;
        else if (job->dims[i].out_stride == reach)
            reach *= job->dims[i].size;
        else
            return;
    }
    job->position_step = step ? step : c->output_features;
}

// True for a 1 x ... x 1 kernel over contiguous features, which uses the input as its own patch matrix.
static bool reads_in_place(const ConvolutionJob *job) {
    const CpuConvolution *c = job->c;
    int64_t expected = c->input_features;
    if (!job->by_rows || job->places != 1 || c->batch_groups > 1) return false;
    for (int d = c->rank - 1; d >= 0; d--) {
        const CpuConvolutionDim *x = &c->dims[d];
        if (x->stride != 1 || x->padding_low != 0 || x->input_size != x->output_size) return false;
        if (x->input_size > 1 && x->input_stride != expected) return false;
        expected *= x->input_size;
    }
    return c->batch == 1 || c->input_batch_stride == expected;
}

// The fields of ConvolutionJob explain each flag.
static void plan_layout(ConvolutionJob *job) {
    const CpuConvolution *c = job->c;
    job->by_rows = c->input_feature_stride == 1 || job->group_inputs == 1;
    if (job->group_inputs == 1 && job->dims[job->dim_count - 1].spatial >= 0 && c->input_feature_stride != 1)
        job->by_rows = false;
    if (c->rank > 0 && job->by_rows && c->input_feature_stride == 1) {
        const CpuConvolutionDim *last = &c->dims[c->rank - 1];
        job->merge_last = last->window_dilation == 1 && last->input_stride == job->group_inputs &&
                          job->dims[job->dim_count - 1].spatial == c->rank - 1;
    }
    if (c->rank > 0 && !job->by_rows && job->dims[job->dim_count - 1].spatial < 0) {
        const CpuConvolutionDim *last = &c->dims[c->rank - 1];
        job->merge_images =
            c->batch_groups == 1 && c->input_batch_stride == 1 && last->stride == 1 && last->input_stride == c->batch;
    }
    job->in_place = reads_in_place(job);
    const bool same = c->out_type == job->compute && job->position_step > 0;
    job->direct = same && c->output_feature_stride == 1 && job->position_step >= job->group_outputs;
    job->direct_transposed =
        same && !job->direct && job->position_step == 1 && c->output_feature_stride >= job->positions;
}

static void plan_tiles(ConvolutionJob *job) {
    int64_t places = kBlockElements / job->group_inputs;
    const int64_t row = job->merge_last ? job->c->dims[job->c->rank - 1].kernel_size : 1;
    places = places / row * row;
    if (places < row) places = row;
    // The bf16 passes drop NaNs of their low parts, so they must see a whole sum in one product.
    job->block_places = places < job->places && job->c->precision == CPU_PRECISION_EXACT ? places : job->places;
    job->tile = kTilePositions;
    // At least eight tiles per group if there are few groups, but never thinner than 32 positions, or than the size at
    // which products of wide kernels are fast.
    const int64_t thinnest = job->group_outputs >= 64 && job->depth >= 64 ? 128 : 32;
    while (job->tile > thinnest && job->groups * hlo_divide_up(job->positions, job->tile) < 8) job->tile /= 2;
    if (job->in_place && job->positions > 8 * kTallestTile) job->tile = kTallestTile;
    job->tiles = hlo_divide_up(job->positions, job->tile);
    const int64_t patch = job->tile * job->block_places * job->group_inputs, result = job->tile * job->group_outputs;
    job->patch_bytes = ((size_t)(patch * job->width) + 63) / 64 * 64;
    job->result_bytes = ((size_t)(result * job->width) + 63) / 64 * 64;
    const CpuProduct product = block_product(job, job->tile, 0, job->block_places, 1, 1);
    job->scratch_each = job->patch_bytes + job->result_bytes + cpu_product_scratch_bytes(&product);
}

// Computes matrix products: for a tile of output positions the input elements under all taps of the kernel are gathered
// into rows (a patch; in place if they already have this layout), and patch times kernel is the tile's result. Workers
// share the tiles and groups. Memory: the kernel, packed once, and a patch and a result for each worker.
HloStatus cpu_convolution_products(CpuPool *pool, const CpuConvolution *c, void *out, const void *input,
                                   const void *kernel) {
    const CpuConvolutionSizes sizes = cpu_convolution_sizes(c);
    ConvolutionJob job = {.c = c,
                          .kernels = cpu_isa_loop_kernels(cpu_pool_features(pool)),
                          .features = cpu_pool_features(pool),
                          .copy_rows = cpu_isa_tap_kernels(cpu_pool_features(pool))->copy_rows,
                          .compute = c->lhs_type,
                          .width = hlo_type_bytes(c->lhs_type),
                          .group_inputs = sizes.group_inputs,
                          .group_outputs = sizes.group_outputs,
                          .group_batch = sizes.group_batch,
                          .groups = sizes.groups,
                          .places = sizes.places,
                          .depth = sizes.places * sizes.group_inputs,
                          .input = input,
                          .kernel = kernel,
                          .out = out};
    assert(c->lhs_type == c->rhs_type && job.depth > 0); /* required by convolution_internal.h */
    for (int d = 0; d < c->rank; d++) assert(c->dims[d].base_dilation == 1);
    plan_positions(&job);
    plan_layout(&job);
    plan_tiles(&job);
    const size_t kernel_bytes =
        hlo_array_bytes((size_t)(job.groups * job.depth * job.group_outputs), (size_t)job.width);
    const size_t packed = is_packed(&job) ? 0 : (kernel_bytes + 63) / 64 * 64;
    const size_t tiles = kernel_tile_bytes(&job),
                 all = packed + tiles + job.scratch_each * (size_t)cpu_pool_worker_count(pool);
    char *memory = all < packed ? NULL : cpu_pool_scratch_take(pool, all);
    HLO_FAIL_IF(!memory, HLO_RESOURCE_EXHAUSTED, "no memory for a convolution");
    job.packed = packed ? memory : job.kernel;
    job.scratch = memory + packed + tiles;
    if (packed) pack_kernel(pool, &job, memory);
    pack_kernel_tiles(&job, memory + packed);
    const double work = (double)job.groups * (double)job.positions * (double)job.depth * (double)job.group_outputs;
    cpu_pool_parallel_for_grain(work < 100000 ? NULL : pool, job.groups * job.tiles, 1, convolution_task, &job);
    cpu_pool_scratch_give(pool, memory);
    return HLO_SUCCESS;
}
