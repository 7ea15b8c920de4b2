// SPDX-License-Identifier: Apache-2.0
// Convolutions whose products read the input where it is: windows of neighbouring outputs overlap, so that a matrix of
// patches would hold each element once per kernel tap, and copying it takes as long as multiplying if output features
// are few. The input is copied between zeros with contiguous features, unless it already has this layout; the kernel is
// packed in panels.
//
//     input of one feature, kernel of 3 places, stride 1:   0 a b c d 0
//     rows of the patch matrix, never written:   [0 a b] [a b c] [b c d] [c d 0]: row i begins one element further on
//
// A window consists of runs of memory (`offsets`): the features under one tap of the kernel, or under a whole row of
// taps if those are contiguous. The kernel multiplies mr rows by a panel of nr output features; the row's address is
// the first one's plus i row_step. If there are few output features and runs are long, vectors run along the depth
// instead (`dots`).
//
// Memory, in this order: [input between zeros][dense kernel][panels][offsets][results of each worker], each part empty
// if it is not needed. Workers share the rows of outputs; a panel is used for many rows before the next one.
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/isa/gemm.h"
#include "targets/cpu/kernels/convolution_internal.h"

enum {
    kRankLimit = CPU_KERNEL_RANK_LIMIT,
    kUnitPositions = 256,   // outputs of a unit of work, so that a panel is loaded from far memory once for many
    kLeastPositions = 64,   // the same if there are few units
    kDotBytes = 64,         // length of a run for which vectors along it pay
    kWorthSharing = 50000,  // products that pay for waking the workers
};

typedef struct WindowJob {
    const CpuConvolution *c;
    const CpuGemmKernels *kernels;
    int64_t width;  // bytes of an element
    // The input that is read, including its boundaries of zeros.
    const char *input;
    int64_t sizes[kRankLimit], strides[kRankLimit], batch_stride;
    CpuWindows windows;
    bool dots;            // few features over long runs: vectors run along the depth
    const char *panels;   // [panel][runs * depth][nr], or [feature][runs * depth] for dots
    int64_t row_length;   // outputs along the last dimension
    int64_t rows;         // of outputs, all images
    int64_t rows_each;    // per unit of work
    int64_t panel;        // features of one
    int64_t panel_bytes;  // of one
    char *out;
    char *results;  // of each worker: a unit's outputs, feature by feature, if those are not contiguous; else NULL
    size_t results_each;
} WindowJob;

// ---- which

// Tiles of few rows wait for the latency of their sums: with five cycles and two vectors an instruction port, five rows
// do not. Whether that takes longer than copying patches, which is as much work as so many features.
static bool waits_longer_than_patches(const CpuConvolution *c, CpuFeatures features) {
    enum { kPatchFeatures = 48 };
    const int64_t length = c->dims[c->rank - 1].output_size, least = features == CPU_FEATURES_AVX2 ? 5 : 4;
    const CpuGemmElement element = c->lhs_type == HLO_F64 ? CPU_GEMM_F64 : CPU_GEMM_F32;
    const int64_t tiles = hlo_divide_up(length, cpu_isa_gemm_kernels(features, element)->mr);
    return (tiles * least - length) * c->output_features > kPatchFeatures * length;
}

bool cpu_convolution_is_windows(const CpuConvolution *c, CpuFeatures features) {
    // AMX tiles multiply faster, which pays for patches of contiguous features if sums are long and output features are
    // many.
    enum { kFewOutputs = 48, kShortSum = 256, kFewestPositions = 4 };
    if ((c->lhs_type != HLO_F32 && c->lhs_type != HLO_F64) || c->out_type != c->lhs_type || c->rank < 1 ||
        c->precision != CPU_PRECISION_EXACT || c->feature_groups > 1 || c->batch_groups > 1)
        return false;
    const CpuConvolutionSizes sizes = cpu_convolution_sizes(c);
    const CpuConvolutionDim *last = &c->dims[c->rank - 1];
    // Kernels that are longer than their rows of outputs are gradients: few positions, each a long sum.
    if (sizes.places == 1 || last->output_size < kFewestPositions || last->kernel_size > 2 * last->output_size)
        return false;
    if (waits_longer_than_patches(c, features)) return false;
    const bool tiles = features >= CPU_FEATURES_AMX && c->lhs_type == HLO_F32 && c->input_feature_stride == 1 &&
                       c->output_feature_stride == 1;
    return !tiles || c->output_features <= kFewOutputs || sizes.places * c->input_features < kShortSum;
}

// ---- the input

// Returns the number of elements of one dimension that any window reaches, from the first one's start on.
static int64_t reached(const CpuConvolutionDim *d) {
    return (d->output_size - 1) * d->stride + (d->kernel_size - 1) * d->window_dilation + 1;
}

// True if features are contiguous and no window reaches outside.
static bool reads_in_place(const CpuConvolution *c) {
    bool inside = c->input_feature_stride == 1 || c->input_features == 1;
    for (int d = 0; d < c->rank; d++)
        inside = inside && c->dims[d].padding_low <= 0 &&
                 reached(&c->dims[d]) - c->dims[d].padding_low <= c->dims[d].input_size;
    return inside;
}

// Sets the strides of the input, in place or between zeros; returns the number of elements of the copy, or 0.
static int64_t plan_input(WindowJob *job) {
    const CpuConvolution *c = job->c;
    if (reads_in_place(c)) {
        for (int d = 0; d < c->rank; d++) {
            job->strides[d] = c->dims[d].input_stride;
            job->input -= c->dims[d].padding_low * c->dims[d].input_stride * job->width;  // skips negative padding
        }
        job->batch_stride = c->input_batch_stride;
        return 0;
    }
    int64_t next = c->input_features;
    for (int d = c->rank - 1; d >= 0; d--) {
        job->sizes[d] = reached(&c->dims[d]);
        job->strides[d] = next, next *= job->sizes[d];
    }
    job->batch_stride = next;
    return next * c->batch;
}

// Sets the source elements of one dimension that windows reach: from *low to before *high.
static void seen(const WindowJob *job, int d, int64_t *low, int64_t *high) {
    const CpuConvolutionDim *dim = &job->c->dims[d];
    *low = dim->padding_low < 0 ? -dim->padding_low : 0;
    *high = hlo_smaller(dim->input_size, job->sizes[d] - dim->padding_low);
    if (*high < *low) *high = *low;
}

typedef struct RowCopy {
    const WindowJob *job;
    const char *from;
    char *to;
} RowCopy;

// Copies rows of contiguous features along the last dimension, with their boundaries of zeros.
static void copy_rows_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const RowCopy *copy = argument;
    const WindowJob *job = copy->job;
    const CpuConvolution *c = job->c;
    const int last = c->rank - 1;
    const int64_t place = c->input_features * job->width;  // bytes
    int64_t low, high;
    seen(job, last, &low, &high);
    const int64_t before = (low + c->dims[last].padding_low) * place, bytes = (high - low) * place;
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        char *to = copy->to + row * job->sizes[last] * place;
        int64_t rest = row, from = low * c->dims[last].input_stride;
        bool inside = bytes > 0;
        for (int d = last - 1; d >= 0; d--) {
            const int64_t at = rest % job->sizes[d] - c->dims[d].padding_low;
            rest /= job->sizes[d];
            inside = inside && at >= 0 && at < c->dims[d].input_size;
            from += at * c->dims[d].input_stride;
        }
        if (!inside) {
            memset(to, 0, (size_t)(job->sizes[last] * place));
            continue;
        }
        memset(to, 0, (size_t)before);
        memcpy(to + before, copy->from + (from + rest * c->input_batch_stride) * job->width, (size_t)bytes);
        memset(to + before + bytes, 0, (size_t)(job->sizes[last] * place - before - bytes));
    }
}

// Copies the input between zeros, with its features contiguous.
static void copy_input(CpuPool *pool, WindowJob *job, char *to, int64_t elements) {
    const CpuConvolution *c = job->c;
    int64_t sizes[kRankLimit + 2], target[kRankLimit + 2], source[kRankLimit + 2], from = 0, at = 0;
    const char *input = job->input;
    const int last = c->rank - 1;
    job->input = to;
    if (c->input_feature_stride == 1 && c->dims[last].input_stride == c->input_features) {
        const RowCopy copy = {job, input, to};
        const int64_t row = job->sizes[last] * c->input_features;
        cpu_pool_parallel_for_grain(pool, elements / row, 16384 / row + 1, copy_rows_task, (void *)(uintptr_t)&copy);
        return;
    }
    bool whole = true;
    for (int d = 0; d < c->rank; d++) {
        int64_t low, high;
        seen(job, d, &low, &high);
        sizes[d + 1] = high - low;
        whole = whole && sizes[d + 1] == job->sizes[d];
        target[d + 1] = job->strides[d], source[d + 1] = c->dims[d].input_stride;
        from += low * c->dims[d].input_stride;
        at += (low + c->dims[d].padding_low) * job->strides[d];
    }
    sizes[0] = c->batch, target[0] = job->batch_stride, source[0] = c->input_batch_stride;
    sizes[c->rank + 1] = c->input_features, target[c->rank + 1] = 1, source[c->rank + 1] = c->input_feature_stride;
    if (!whole) cpu_fill(pool, to, &(uint64_t){0}, elements, (int)job->width);
    cpu_copy_strided(pool, c->rank + 2, sizes, (int)job->width, to + at * job->width, target, input + from * job->width,
                     source);
}

// ---- windows and the kernel

// Sets the runs of a window: the features under a tap, or under a row of taps if those are contiguous.
static void plan_windows(WindowJob *job, int64_t *offsets) {
    const CpuConvolution *c = job->c;
    const CpuConvolutionDim *last = &c->dims[c->rank - 1];
    const bool merged = last->window_dilation == 1 && job->strides[c->rank - 1] == c->input_features;
    const int64_t each = merged ? last->kernel_size : 1, places = cpu_convolution_sizes(c).places;
    job->windows = (CpuWindows){.runs = places / each,
                                .depth = each * c->input_features,
                                .row_step = last->stride * job->strides[c->rank - 1],
                                .offsets = offsets};
    for (int64_t run = 0; run < job->windows.runs; run++) {
        int64_t rest = run * each;
        offsets[run] = 0;
        for (int d = c->rank - 1; d >= 0; d--) {
            offsets[run] += rest % c->dims[d].kernel_size * c->dims[d].window_dilation * job->strides[d];
            rest /= c->dims[d].kernel_size;
        }
    }
}

// Packs the kernel as [place][input feature][output feature], then as panels of output features; for dots as [output
// feature][place][input feature].
static void pack_kernel(CpuPool *pool, const WindowJob *job, const char *kernel, char *dense, char *panels) {
    const CpuConvolution *c = job->c;
    int64_t sizes[kRankLimit + 2], from[kRankLimit + 2], to[kRankLimit + 2];
    const int rank = c->rank;
    const int64_t depth = job->windows.runs * job->windows.depth, feature = job->dots ? 1 : c->output_features;
    int64_t next = feature * c->input_features;
    sizes[rank] = c->input_features, from[rank] = c->kernel_input_stride, to[rank] = feature;
    sizes[rank + 1] = c->output_features, from[rank + 1] = c->kernel_output_stride;
    to[rank + 1] = job->dots ? depth : 1;
    for (int d = rank - 1; d >= 0; d--) {
        const CpuConvolutionDim *dim = &c->dims[d];
        sizes[d] = dim->kernel_size, to[d] = next, next *= dim->kernel_size;
        from[d] = dim->reversal ? -dim->kernel_stride : dim->kernel_stride;
        if (dim->reversal) kernel += (dim->kernel_size - 1) * dim->kernel_stride * job->width;
    }
    cpu_copy_strided(pool, rank + 2, sizes, (int)job->width, job->dots ? panels : dense, to, kernel, from);
    if (!job->dots) job->kernels->pack(panels, job->panel, dense, c->output_features, depth, 1, c->output_features);
}

// ---- the work

// Sets the element offsets of row number `row` of the outputs, and of the window of its first one.
static void place_row(const WindowJob *job, int64_t row, int64_t *input, int64_t *out) {
    const CpuConvolution *c = job->c;
    *input = *out = 0;
    for (int d = c->rank - 2; d >= 0; d--) {
        const int64_t index = row % c->dims[d].output_size;
        row /= c->dims[d].output_size;
        *input += index * c->dims[d].stride * job->strides[d];
        *out += index * c->dims[d].output_stride;
    }
    assert(row < c->batch);
    *input += row * job->batch_stride;
    *out += row * c->output_batch_stride;
}

// Multiplies one row of outputs and one panel of their features, by tiles of even size.
static void multiply_row(const WindowJob *job, const char *input, const char *panel, int64_t features, char *to,
                         int64_t ldc) {
    if (job->dots) {
        job->kernels->window_dots(&job->windows, input, panel, job->windows.runs * job->windows.depth, to, ldc,
                                  job->row_length, features);
        return;
    }
    const int64_t tiles = hlo_divide_up(job->row_length, job->kernels->mr);
    for (int64_t tile = 0, x = 0; tile < tiles; tile++) {
        const int64_t next = (tile + 1) * job->row_length / tiles;
        job->kernels->window(&job->windows, input + x * job->windows.row_step * job->width, panel,
                             to + x * ldc * job->width, ldc, next - x, features);
        x = next;
    }
}

// A unit is `rows_each` rows of outputs with all their features.
static void windows_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const WindowJob *job = argument;
    const CpuConvolution *c = job->c;
    const int64_t nr = job->panel, features = c->output_features;
    char *results = job->results ? job->results + (size_t)worker * job->results_each : NULL;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit * job->rows_each, last = hlo_smaller(first + job->rows_each, job->rows);
        int64_t input, out;
        for (int64_t o = 0; o < features; o += nr)
            for (int64_t row = first; row < last; row++) {
                place_row(job, row, &input, &out);
                char *to = results ? results + ((row - first) * job->row_length * features + o) * job->width
                                   : job->out + (out + o) * job->width;
                multiply_row(job, job->input + input * job->width, job->panels + o / nr * job->panel_bytes,
                             hlo_smaller(nr, features - o), to,
                             results ? features : c->dims[c->rank - 1].output_stride);
            }
        for (int64_t row = first; results && row < last; row++) {
            place_row(job, row, &input, &out);
            cpu_copy_strided(
                NULL, 2, (int64_t[]){features, job->row_length}, (int)job->width, job->out + out * job->width,
                (int64_t[]){c->output_feature_stride, c->dims[c->rank - 1].output_stride},
                results + (row - first) * job->row_length * features * job->width, (int64_t[]){1, features});
        }
    }
}

static size_t round_64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// A unit of work is some whole rows of outputs.
static void plan_rows(WindowJob *job) {
    const CpuConvolution *c = job->c;
    job->row_length = c->dims[c->rank - 1].output_size;
    job->rows = c->batch;
    for (int d = 0; d + 1 < c->rank; d++) job->rows *= c->dims[d].output_size;
    const int64_t positions = job->rows * job->row_length > 16 * kUnitPositions ? kUnitPositions : kLeastPositions;
    job->rows_each = hlo_divide_up(positions, job->row_length);
}

// Reads a padded copy of the input directly: each output position is a product of its window, whose taps are at fixed
// offsets, with panels of the kernel. Workers share the rows of output. One block of scratch memory contains all parts,
// 64 bytes apart: copy of the input, dense kernel, panels, offsets of the window's taps, results of each worker.
HloStatus cpu_convolution_windows(CpuPool *pool, const CpuConvolution *c, void *out, const void *input,
                                  const void *kernel) {
    WindowJob job = {
        .c = c,
        .kernels = cpu_isa_gemm_kernels(cpu_pool_features(pool), c->lhs_type == HLO_F64 ? CPU_GEMM_F64 : CPU_GEMM_F32),
        .width = hlo_type_bytes(c->lhs_type),
        .input = input,
        .out = out};
    const CpuConvolutionSizes sizes = cpu_convolution_sizes(c);
    const int64_t elements = plan_input(&job), depth = sizes.places * c->input_features,
                  padded = hlo_divide_up(c->output_features, job.kernels->nr) * job.kernels->nr;
    const size_t width = (size_t)job.width, copy = round_64(hlo_array_bytes((size_t)elements, width)),
                 dense = round_64(hlo_array_bytes((size_t)(depth * c->output_features), width)),
                 panels = round_64(hlo_array_bytes((size_t)(depth * padded), width) + 64),
                 offsets = round_64(sizeof(int64_t) * (size_t)sizes.places);
    plan_rows(&job);
    if (c->output_feature_stride != 1 && c->output_features > 1)
        job.results_each = round_64((size_t)(job.rows_each * job.row_length * c->output_features) * width);
    const size_t all = copy + dense + panels + offsets + job.results_each * (size_t)cpu_pool_worker_count(pool);
    char *memory = all < copy ? NULL : cpu_pool_scratch_take(pool, all);
    HLO_FAIL_IF(!memory, HLO_RESOURCE_EXHAUSTED, "no memory for a convolution");
    if (elements) copy_input(pool, &job, memory, elements);
    plan_windows(&job, (int64_t *)(void *)(memory + copy + dense + panels));
    job.dots = c->output_features <= CPU_WINDOW_DOTS && job.windows.depth * job.width >= kDotBytes;
    job.panel = job.dots ? CPU_WINDOW_DOTS : job.kernels->nr;
    pack_kernel(pool, &job, kernel, memory + copy, memory + copy + dense);
    job.panels = memory + copy + dense;
    job.panel_bytes = depth * job.panel * job.width;
    if (job.results_each) job.results = memory + copy + dense + panels + offsets;
    const double work = (double)job.rows * (double)job.row_length * (double)depth * (double)c->output_features;
    cpu_pool_parallel_for_grain(work < kWorthSharing ? NULL : pool, hlo_divide_up(job.rows, job.rows_each), 1,
                                windows_task, &job);
    cpu_pool_scratch_give(pool, memory);
    return HLO_SUCCESS;
}
