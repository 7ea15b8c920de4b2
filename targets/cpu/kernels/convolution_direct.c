// SPDX-License-Identifier: Apache-2.0
// Convolutions with few features per group, as sums of weighted rows. There are two forms, depending on which elements
// are contiguous in memory:
//
//   across  A row is the groups of one output position (depthwise convolutions with the features last, and the
//           gradients of their kernels, whose groups are of the batch). Groups of a few features are included: the
//           input is then copied so that each output feature finds its inputs below itself.
//   along   A row is the neighbours of one spatial dimension. The input's rows are copied between zeros, and split
//           by the stride, so that all rows of a sum have one length and no gaps.
//
//     across   out[y][x][0..C) += in[y+dy][x+dx][0..C) * kernel[dy][dx][0..C)      one term per kernel tap
//     along    out[f][y][0..W) += in[c][y+dy][dx .. dx+W) * kernel[f][c][dy][dx]   one number for a whole row
//              stride 2: the padded row x0 x1 x2 x3 x4 ... is kept as x0 x2 x4 ... | x1 x3 x5 ...
//
// Up to kTaps terms are collected and summed by one call of a kernel, which meanwhile keeps the output in registers.
// Each output is summed by one worker in the order of the kernel's taps, so that its bits depend on nothing else.
// Matrix products with such narrow sides would mostly multiply padding.
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/isa/taps.h"
#include "targets/cpu/kernels/convolution_internal.h"

enum {
    kRankLimit = CPU_KERNEL_RANK_LIMIT,
    kTaps = 256,            // products that one call sums
    kFewestLanes = 4,       // shorter rows are left to matrix products
    kFewOutputs = 4,        // features of a group whose product would not fill a vector
    kMostCopies = 16,       // of an input element, where groups have several features
    kPiece = 4096,          // elements of a row per unit of work
    kWorthSharing = 50000,  // products that pay for waking the workers
};

// ---- which form

typedef enum Form { FORM_NONE, FORM_ACROSS, FORM_ALONG } Form;

// Returns the spatial dimension whose outputs are contiguous in memory, or -1.
static int row_dimension(const CpuConvolution *c) {
    for (int d = c->rank - 1; d >= 0; d--)
        if (c->dims[d].output_stride == 1 && c->dims[d].output_size > 1) return d;
    return -1;
}

// True for groups of few features: groups of many are computed as matrix products (convolution_products.c).
static bool is_across(const CpuConvolution *c, const CpuConvolutionSizes *s) {
    if (c->output_feature_stride != 1 || c->output_features < kFewestLanes) return false;
    if (c->batch_groups > 1) return s->group_batch == 1 && s->group_outputs == 1 && c->input_batch_stride == 1;
    return c->feature_groups > 1 && s->group_outputs <= kFewOutputs &&
           s->group_inputs * s->group_outputs <= kMostCopies;
}

static bool is_along(const CpuConvolution *c, const CpuConvolutionSizes *s) {
    const int row = row_dimension(c);
    if (row < 0 || s->group_outputs > kFewOutputs || c->batch_groups > 1) return false;
    const CpuConvolutionDim *d = &c->dims[row];
    // If the kernel is longer than the row, the roles are exchanged: rows are short and sums are long.
    return d->output_size >= kFewestLanes && d->kernel_size <= 4 * d->output_size;
}

// Narrow types and the many-pass precisions use products, which implement widening and splitting.
static Form form_of(const CpuConvolution *c) {
    const CpuConvolutionSizes sizes = cpu_convolution_sizes(c);
    if ((c->lhs_type != HLO_F32 && c->lhs_type != HLO_F64) || c->out_type != c->lhs_type ||
        (c->precision != CPU_PRECISION_EXACT && c->precision != CPU_PRECISION_BF16_1))
        return FORM_NONE;
    return is_across(c, &sizes) ? FORM_ACROSS : is_along(c, &sizes) ? FORM_ALONG : FORM_NONE;
}

bool cpu_convolution_is_direct(const CpuConvolution *c) {
    return form_of(c) != FORM_NONE;
}

// ---- what both share

typedef struct DirectJob {
    const CpuConvolution *c;
    CpuConvolutionSizes sizes;
    const CpuTapType *kernels;
    int64_t width;  // bytes of an element
    int row;        // the dimension of rows, or -1 where rows are groups
    const char *input, *kernel;
    char *out;
    // Strides, in elements, of the input as it is read.
    int64_t input_batch_stride, input_feature_stride, input_group_stride, input_strides[kRankLimit];
    int64_t lanes, lanes_each;                         // across: of a row, and of one part of the work
    int64_t phase_length, row_length, phases, pieces;  // along: of one row of the copied input; parts of a row
} DirectJob;

// Sets the taps k of one dimension that see input for output o: from *low to before *high.
static void places_seen(const CpuConvolutionDim *d, int64_t o, int64_t *low, int64_t *high) {
    const int64_t start = o * d->stride - d->padding_low, step = d->window_dilation;
    *low = start >= 0 ? 0 : hlo_smaller(hlo_divide_up(-start, step), d->kernel_size);
    *high = d->input_size <= start ? 0 : hlo_smaller(hlo_divide_up(d->input_size - start, step), d->kernel_size);
    if (*high < *low) *high = *low;
}

// Walks over the kernel taps that a position sees, in all dimensions except `row`.
typedef struct Walk {
    const DirectJob *job;
    int64_t low[kRankLimit], high[kRankLimit], place[kRankLimit], start[kRankLimit];
} Walk;

// Starts the walk; false if the position sees no taps.
static bool walk_begin(Walk *walk, const DirectJob *job, const int64_t *position) {
    bool any = true;
    walk->job = job;
    for (int d = 0; d < job->c->rank; d++) {
        const CpuConvolutionDim *dim = &job->c->dims[d];
        walk->low[d] = 0, walk->high[d] = 1;
        walk->start[d] = d == job->row ? 0 : position[d] * dim->stride - dim->padding_low;
        if (d != job->row) places_seen(dim, position[d], &walk->low[d], &walk->high[d]);
        walk->place[d] = walk->low[d];
        any = any && walk->low[d] < walk->high[d];
    }
    return any;
}

// Moves to the next tap, last dimension first; false after the last.
static bool walk_next(Walk *walk) {
    for (int d = walk->job->c->rank - 1; d >= 0; d--) {
        if (++walk->place[d] < walk->high[d]) return true;
        walk->place[d] = walk->low[d];
    }
    return false;
}

// Sets the element offsets of the tap's input and weights, without the row's dimension and the features.
static void walk_offsets(const Walk *walk, int64_t *input, int64_t *kernel) {
    const CpuConvolution *c = walk->job->c;
    *input = *kernel = 0;
    for (int d = 0; d < c->rank; d++) {
        const CpuConvolutionDim *dim = &c->dims[d];
        if (d == walk->job->row) continue;
        const int64_t at = walk->start[d] + walk->place[d] * dim->window_dilation;
        assert(at >= 0 && at < dim->input_size); /* places_seen() skips all others */
        *input += at * walk->job->input_strides[d];
        *kernel += (dim->reversal ? dim->kernel_size - 1 - walk->place[d] : walk->place[d]) * dim->kernel_stride;
    }
}

// Sums that are collected and added to a row of the output, a call at a time.
typedef struct Sums {
    const DirectJob *job;
    char *out;
    int64_t count;  // of elements
    int64_t taps;
    bool accumulate;
    const void *inputs[kTaps], *rows[kTaps];
    double numbers[kTaps];  // f32 or f64
} Sums;

// Weights are rows if a row is the groups (each has its own weight), and single numbers if a row is neighbours of one
// output feature.
static void sums_flush(Sums *sums) {
    const CpuTapType *kernels = sums->job->kernels;
    if (sums->taps == 0 && sums->accumulate) return;
    if (sums->job->row < 0)
        kernels->by_row(sums->count, sums->out, sums->taps, sums->inputs, sums->rows, sums->accumulate);
    else
        kernels->by_number(sums->count, sums->out, sums->taps, sums->inputs, sums->numbers, sums->accumulate);
    sums->taps = 0;
    sums->accumulate = true;
}

// `weight` is read immediately if it is a number, and later if it is a row.
static void sums_add(Sums *sums, const void *input, const char *weight) {
    if (sums->taps == kTaps) sums_flush(sums);
    sums->inputs[sums->taps] = input;
    if (sums->job->row < 0)
        sums->rows[sums->taps] = weight;
    else
        memcpy((char *)sums->numbers + sums->taps * sums->job->width, weight, (size_t)sums->job->width);
    sums->taps++;
}

// Splits the number of an output position; the row's dimension has one position, its start.
static void position_of(const DirectJob *job, int64_t number, int64_t *image, int64_t *position, int64_t *out) {
    assert(number >= 0);
    const CpuConvolution *c = job->c;
    *out = 0;
    for (int d = c->rank - 1; d >= 0; d--) {
        position[d] = d == job->row ? 0 : number % c->dims[d].output_size;
        if (d != job->row) number /= c->dims[d].output_size;
        *out += position[d] * c->dims[d].output_stride;
    }
    *image = number;
    *out += number * c->output_batch_stride;
}

// Counts the positions; the row's dimension counts as one.
static int64_t positions_of(const DirectJob *job) {
    int64_t count = job->sizes.group_batch;
    for (int d = 0; d < job->c->rank; d++) count *= d == job->row ? 1 : job->c->dims[d].output_size;
    return count;
}

// Returns NULL if the work is too small to wake workers.
static CpuPool *pool_for(CpuPool *pool, const DirectJob *job) {
    double work = (double)job->c->output_features * (double)job->sizes.places * (double)job->sizes.group_inputs *
                  (double)positions_of(job);
    if (job->row >= 0) work *= (double)job->c->dims[job->row].output_size;
    return work < kWorthSharing ? NULL : pool;
}

// ---- across

// Copies element i of feature f of each group, for output feature o of group g, to [pixel][f][o].
typedef struct Spread {
    const DirectJob *job;
    const char *from;
    char *to;
    int64_t pixels;  // of an image
} Spread;

// Pixels [begin, end), counted over all images.
static void spread_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const Spread *s = argument;
    const CpuConvolution *c = s->job->c;
    const CpuConvolutionSizes *sizes = &s->job->sizes;
    const int64_t width = s->job->width, inputs = sizes->group_inputs, copies = sizes->group_outputs;
    (void)worker;
    for (int64_t pixel = begin; pixel < end; pixel++) {
        int64_t rest = pixel % s->pixels, from = pixel / s->pixels * c->input_batch_stride;
        for (int d = c->rank - 1; d >= 0; d--) {
            from += rest % c->dims[d].input_size * c->dims[d].input_stride;
            rest /= c->dims[d].input_size;
        }
        const int64_t sizes_of[3] = {inputs, sizes->groups, copies};
        cpu_copy_strided(NULL, 3, sizes_of, (int)width, s->to + pixel * inputs * s->job->lanes * width,
                         (int64_t[]){s->job->lanes, copies, 1}, s->from + from * width,
                         (int64_t[]){c->input_feature_stride, inputs * c->input_feature_stride, 0});
    }
}

// Unit = position * parts + part of the lanes.
static void across_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const DirectJob *job = argument;
    const CpuConvolution *c = job->c;
    const int64_t parts = hlo_divide_up(job->lanes, job->lanes_each);
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t lane = unit % parts * job->lanes_each;
        int64_t image, position[kRankLimit], out;
        Walk walk;
        position_of(job, unit / parts, &image, position, &out);
        Sums sums = {.job = job, .out = job->out + (out + lane) * job->width};
        sums.count = hlo_smaller(job->lanes_each, job->lanes - lane);
        bool more = walk_begin(&walk, job, position);
        while (more) {
            int64_t input, kernel;
            walk_offsets(&walk, &input, &kernel);
            for (int64_t f = 0; f < job->sizes.group_inputs; f++)
                sums_add(&sums,
                         job->input + (image * job->input_batch_stride + input + f * job->input_feature_stride + lane) *
                                          job->width,
                         job->kernel + (kernel + f * c->kernel_input_stride + lane) * job->width);
            more = walk_next(&walk);
        }
        sums_flush(&sums);
    }
}

// Packs the kernel with its output features contiguous, and sets up a convolution that reads it so.
static void pack_weights(const DirectJob *job, CpuConvolution *to, CpuConvolutionDim *dims, char *packed) {
    const CpuConvolution *c = job->c;
    int64_t sizes[kRankLimit + 2], from[kRankLimit + 2], strides[kRankLimit + 2], next = job->lanes;
    *to = *c;
    to->dims = dims;
    to->kernel_output_stride = 1;
    to->kernel_input_stride = next, next *= job->sizes.group_inputs;
    for (int d = c->rank - 1; d >= 0; d--) {
        dims[d] = c->dims[d];
        sizes[d] = c->dims[d].kernel_size, from[d] = c->dims[d].kernel_stride;
        dims[d].kernel_stride = strides[d] = next, next *= sizes[d];
    }
    sizes[c->rank] = job->sizes.group_inputs, from[c->rank] = c->kernel_input_stride;
    strides[c->rank] = job->lanes;
    sizes[c->rank + 1] = job->lanes, from[c->rank + 1] = c->kernel_output_stride, strides[c->rank + 1] = 1;
    cpu_copy_strided(NULL, c->rank + 2, sizes, (int)job->width, packed, strides, job->kernel, from);
}

// The input is rearranged if groups have several features or their features are apart in memory, and the kernel if its
// output features are apart: then all rows are contiguous, and the inner loop has one form.
static HloStatus run_across(CpuPool *pool, DirectJob *job) {
    const CpuConvolution *c = job->c;
    const CpuConvolutionSizes *sizes = &job->sizes;
    CpuConvolution packed;
    CpuConvolutionDim dims[kRankLimit];
    const bool spread =
        c->batch_groups == 1 && (sizes->group_inputs > 1 || sizes->group_outputs > 1 || c->input_feature_stride != 1);
    const bool pack = c->kernel_output_stride != 1;
    int64_t pixels = 1;
    for (int d = 0; d < c->rank; d++) pixels *= c->dims[d].input_size;
    job->lanes = c->output_features;
    const size_t spread_bytes =
        spread ? hlo_array_bytes((size_t)(c->batch * pixels * sizes->group_inputs), (size_t)(job->lanes * job->width))
               : 0;
    const size_t packed_bytes = pack ? (size_t)(sizes->places * sizes->group_inputs * job->lanes * job->width) : 0;
    char *memory = spread || pack ? cpu_pool_scratch_take(pool, spread_bytes + packed_bytes) : NULL;
    HLO_FAIL_IF((spread || pack) && !memory, HLO_RESOURCE_EXHAUSTED, "no memory for a convolution");
    if (spread) {
        const Spread task = {job, job->input, memory, pixels};
        cpu_pool_parallel_for_grain(pool_for(pool, job), c->batch * pixels, 64, spread_task, (void *)&task);
        job->input = memory;
        job->input_feature_stride = job->lanes;
        int64_t next = job->lanes * sizes->group_inputs;
        for (int d = c->rank - 1; d >= 0; d--) job->input_strides[d] = next, next *= c->dims[d].input_size;
        job->input_batch_stride = next;
    }
    if (pack) {
        pack_weights(job, &packed, dims, memory + spread_bytes);
        job->kernel = memory + spread_bytes;
        job->c = &packed;
    }
    // Few positions (those of a kernel, in its gradient) are shared by splitting their rows.
    const int64_t positions = positions_of(job);
    job->lanes_each = positions >= 64 ? job->lanes : 64;
    cpu_pool_parallel_for_grain(pool_for(pool, job), positions * hlo_divide_up(job->lanes, job->lanes_each),
                                positions >= 64 ? 16 : 1, across_task, job);
    cpu_pool_scratch_give(pool, memory);
    return HLO_SUCCESS;
}

// ---- along

// The copy of the input's rows that run_along() makes.
typedef struct Rows {
    const DirectJob *job;
    const char *from;
    char *to;
} Rows;

// Copies row number `row` of the input, counted over images, features and the other dimensions: element p * phases + i
// of the padded row goes to [i][p].
static void rows_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const Rows *r = argument;
    const DirectJob *job = r->job;
    const CpuConvolution *c = job->c;
    const CpuConvolutionDim *dim = &c->dims[job->row];
    const int64_t width = job->width;
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, from = 0;
        for (int d = c->rank - 1; d >= 0; d--) {
            if (d == job->row) continue;
            from += rest % c->dims[d].input_size * c->dims[d].input_stride;
            rest /= c->dims[d].input_size;
        }
        from += rest % c->input_features * c->input_feature_stride + rest / c->input_features * c->input_batch_stride;
        for (int64_t phase = 0; phase < job->phases; phase++) {
            char *to = r->to + (row * job->row_length + phase * job->phase_length) * width;
            const int64_t start = phase - dim->padding_low;
            const int64_t low = start >= 0 ? 0 : hlo_smaller(hlo_divide_up(-start, dim->stride), job->phase_length),
                          end_at = dim->input_size <= start ? 0 : hlo_divide_up(dim->input_size - start, dim->stride),
                          high = end_at < low ? low : hlo_smaller(end_at, job->phase_length), count = high - low;
            memset(to, 0, (size_t)(low * width));
            if (count > 0)
                cpu_copy_strided(NULL, 1, &count, (int)width, to + low * width, (int64_t[]){1},
                                 r->from + (from + (start + low * dim->stride) * dim->input_stride) * width,
                                 (int64_t[]){dim->stride * dim->input_stride});
            memset(to + high * width, 0, (size_t)((job->phase_length - high) * width));
        }
    }
}

// Adds the taps of the row's dimension, for one tap of the other dimensions.
static void add_row_places(const DirectJob *job, Sums *sums, const char *input, const char *kernel) {
    const CpuConvolutionDim *dim = &job->c->dims[job->row];
    for (int64_t k = 0; k < dim->kernel_size; k++) {
        const int64_t offset = k * dim->window_dilation, place = dim->reversal ? dim->kernel_size - 1 - k : k;
        sums_add(sums, input + (offset % dim->stride * job->phase_length + offset / dim->stride) * job->width,
                 kernel + place * dim->kernel_stride * job->width);
    }
}

// Unit = (position * output features + feature) * pieces + piece.
static void along_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const DirectJob *job = argument;
    const CpuConvolution *c = job->c;
    const int64_t length = c->dims[job->row].output_size;
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t feature = unit / job->pieces % c->output_features, first = unit % job->pieces * kPiece;
        const int64_t group = feature / job->sizes.group_outputs;
        int64_t image, position[kRankLimit], out;
        Walk walk;
        position_of(job, unit / job->pieces / c->output_features, &image, position, &out);
        Sums sums = {.job = job, .out = job->out + (out + feature * c->output_feature_stride + first) * job->width};
        sums.count = hlo_smaller(kPiece, length - first);
        bool more = walk_begin(&walk, job, position);
        while (more) {
            int64_t input, kernel;
            walk_offsets(&walk, &input, &kernel);
            input += image * job->input_batch_stride + group * job->input_group_stride + first;
            kernel += feature * c->kernel_output_stride;
            for (int64_t f = 0; f < job->sizes.group_inputs; f++)
                add_row_places(job, &sums, job->input + (input + f * job->input_feature_stride) * job->width,
                               job->kernel + (kernel + f * c->kernel_input_stride) * job->width);
            more = walk_next(&walk);
        }
        sums_flush(&sums);
    }
}

// Strides refer to the copy: [image][feature][other dimensions][phase][element].
static HloStatus run_along(CpuPool *pool, DirectJob *job) {
    const CpuConvolution *c = job->c;
    const CpuConvolutionDim *dim = &c->dims[job->row];
    const int64_t reach = (dim->kernel_size - 1) * dim->window_dilation;
    job->phases = hlo_smaller(dim->stride, reach + 1);
    job->phase_length = dim->output_size + reach / dim->stride;
    job->row_length = job->phases * job->phase_length;
    job->pieces = hlo_divide_up(dim->output_size, kPiece);
    int64_t next = job->row_length;
    for (int d = c->rank - 1; d >= 0; d--) {
        if (d == job->row) continue;
        job->input_strides[d] = next, next *= c->dims[d].input_size;
    }
    job->input_feature_stride = next;
    job->input_group_stride = next * job->sizes.group_inputs;
    job->input_batch_stride = next * c->input_features;
    const int64_t elements = job->input_batch_stride * c->batch, rows = elements / job->row_length;
    char *memory = cpu_pool_scratch_take(pool, hlo_array_bytes((size_t)elements, (size_t)job->width));
    HLO_FAIL_IF(!memory, HLO_RESOURCE_EXHAUSTED, "no memory for a convolution");
    const Rows task = {job, job->input, memory};
    cpu_pool_parallel_for_grain(pool_for(pool, job), rows, 16384 / job->row_length + 1, rows_task, (void *)&task);
    job->input = memory;
    cpu_pool_parallel_for_grain(pool_for(pool, job), positions_of(job) * c->output_features * job->pieces, 4,
                                along_task, job);
    cpu_pool_scratch_give(pool, memory);
    return HLO_SUCCESS;
}

// Uses the first of the two forms that fits (form_of()). They differ in the dimension that a row runs along, and so in
// what must be copied first.
HloStatus cpu_convolution_direct(CpuPool *pool, const CpuConvolution *c, void *out, const void *input,
                                 const void *kernel) {
    const CpuTapKernels *kernels = cpu_isa_tap_kernels(cpu_pool_features(pool));
    const Form form = form_of(c);
    assert(form != FORM_NONE); /* the caller checks */
    DirectJob job = {.c = c,
                     .sizes = cpu_convolution_sizes(c),
                     .kernels = c->lhs_type == HLO_F64 ? &kernels->f64 : &kernels->f32,
                     .width = hlo_type_bytes(c->lhs_type),
                     .row = form == FORM_ALONG ? row_dimension(c) : -1,
                     .input = input,
                     .kernel = kernel,
                     .out = out,
                     .input_batch_stride = c->input_batch_stride,
                     .input_feature_stride = c->input_feature_stride};
    for (int d = 0; d < c->rank; d++) {
        assert(c->dims[d].base_dilation == 1); /* convolution.c removes holes */
        job.input_strides[d] = c->dims[d].input_stride;
    }
    if (c->batch_groups > 1) job.input_batch_stride = 0;  // the groups are the batch: one image of each
    return form == FORM_ACROSS ? run_across(pool, &job) : run_along(pool, &job);
}
